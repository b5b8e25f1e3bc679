"""The LLVM function for many cases, several at a time in the lanes of vectors.

`many(inputs, input_strides, outputs, output_strides, begin, end) -> status` computes the cases
begin..end-1. A stride is the distance in numbers from one case to the next; 0 repeats one case for
all. Rows are read and written as they lie in memory and turned into lanes inside. The last group
repeats the last case to fill its lanes: equal inputs give equal outputs, so nothing is masked.

Constants and parameters stand in tables, a whole vector each, so that instructions read them as
memory operands. The work of one group of cases is a function of its own: it sees
neither the values in the tables nor a loop, so LLVM cannot turn memory operands back into separate
instructions. The status is that of `one`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tiburon.native.callees import CalleeWriter
from tiburon.native.fixed_arguments import TABLE, FixedArguments, fixed_arguments
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.module_parts import (
    PARTIAL_SUMS,
    FunctionWriter,
    add_to_sums,
    element,
    function_attributes,
    load,
    total,
)
from tiburon.native.staging import LONG_ROW, load_staged, stage_columns, unstage_rows
from tiburon.native.straight import emit_instructions
from tiburon.native.target import Ref
from tiburon.native.transpose import columns_from_rows, rows_from_columns
from tiburon.trace.lower import Instruction, Order, lower
from tiburon.trace.program import Program


class _LaneTarget(LlvmTarget):
    """Instructions of one group of cases; constants come from the table %constants."""

    def __init__(self, lanes: int, *, fused: bool) -> None:
        super().__init__(lanes, fused=fused)
        self.constants: dict[float, int] = {}

    def const(self, value: float) -> Ref:
        """Load a constant from the table; zero and NaN are made by instructions."""
        if value == 0.0 or value != value:
            return super().const(value)
        place = self.constants.setdefault(value, len(self.constants))
        address = element(self, self.float_type, "@constants", place)
        align = 8 * self.lanes
        return self.emit(
            f"load {self.float_type}, ptr {address}, align {align}, !invariant.load !0"
        )


def load_vector(target: LlvmTarget, table: Ref, place: int) -> Ref:
    """Emit the load of a whole vector from an aligned table."""
    address = element(target, target.float_type, table, place)
    return target.emit(f"load {target.float_type}, ptr {address}, align {8 * target.lanes}")


def module_for_many(program: Program, *, lanes: int, fused: bool, order: Order = "traced") -> str:
    """Write the module with the function `many`.

    Args:
        program: What to compute.
        lanes: Cases at a time.
        fused: Whether the host has a fused multiply-add.
        order: How instructions are ordered.

    Returns:
        LLVM assembly.
    """
    target = _LaneTarget(lanes, fused=fused)
    fixed = _fixed_beside_parameters(program)
    writer = FunctionWriter(target, CalleeWriter(lanes, fused=fused, fixed=fixed), lanes)
    if fixed.size:
        target.lines.append(f"  {TABLE} = getelementptr i8, ptr %parameters, i64 0")
    _write_group(program, target, writer, order)
    attributes = function_attributes(lanes)
    group = writer.module(
        "define internal void @group(ptr noalias %rows, "
        f"ptr noalias %parameters, ptr noalias %sums) noinline alignstack(64) {attributes} {{",
        [*target.lines, "  ret void"],
    )
    constants = [struct.unpack("<Q", struct.pack("<d", value))[0] for value in target.constants]
    return group + many_cases_loop(
        program, constants, lanes=lanes, fused=fused, parameters=fixed.size
    )


def _fixed_beside_parameters(program: Program) -> FixedArguments:
    """Return the fixed arguments of a program; their table begins with all parameters."""
    offsets, graph = parameter_offsets(program), program.graph
    places = {
        node: offsets[graph.payloads[node][0]] + graph.payloads[node][1]
        for node in graph.live(program.roots)
        if graph.ops[node] == "input" and graph.payloads[node][0] in offsets
    }
    return fixed_arguments(program, places, sum(program.inputs[k].size for k in offsets))


def _write_group(
    program: Program, target: _LaneTarget, writer: FunctionWriter, order: Order
) -> None:
    """Write the work of one group: rows to lanes, the program, lanes to rows, the check."""
    lanes = target.lanes
    instructions = lower(program.graph, program.roots, order)
    arguments = [k for k, item in enumerate(program.inputs) if not item.parameter]
    sums = [load_vector(target, "%sums", k) for k in range(PARTIAL_SUMS)]
    for place, number in enumerate(arguments):
        starts = [load(target, "ptr", "%rows", place * lanes + lane) for lane in range(lanes)]
        size = program.inputs[number].size
        if size >= LONG_ROW:
            array, part = stage_columns(target, writer.stack_lines, starts, size)
            sums = add_to_sums(target, sums, [part])
            for k in sorted({i.payload[1] for i in instructions if _reads(i, number)}):
                writer.inputs[number, k] = load_staged(target, array, k)
                writer.origins[writer.inputs[number, k]] = array.address, k
            continue
        columns = columns_from_rows(target, starts, size)
        sums = add_to_sums(target, sums, columns)
        writer.inputs.update({(number, k): column for k, column in enumerate(columns)})
    offsets = parameter_offsets(program)
    writer.settled = set(range(sum(program.inputs[k].size for k in offsets)))
    for number, k in sorted({i.payload for i in instructions if i.op == "input"}):
        if number in offsets:
            vector = load_vector(target, "%parameters", offsets[number] + k)
            writer.inputs[number, k] = vector
            writer.origins[vector] = "%parameters", offsets[number] + k
    refs = emit_instructions(target, instructions, writer)
    for place, output in enumerate(program.outputs, start=len(arguments)):
        starts = [load(target, "ptr", "%rows", place * lanes + lane) for lane in range(lanes)]
        columns = [refs[node] for node in output.nodes]
        if len(columns) >= LONG_ROW:
            part = unstage_rows(target, writer.stack_lines, starts, columns, writer.origins)
            sums = add_to_sums(target, sums, [part])
        else:
            rows_from_columns(target, starts, columns)
            sums = add_to_sums(target, sums, columns)
    for k, total_so_far in enumerate(sums):
        address = element(target, target.float_type, "%sums", k)
        target.lines.append(
            f"  store {target.float_type} {total_so_far}, ptr {address}, align {8 * lanes}"
        )


def _reads(instruction: Instruction, number: int) -> bool:
    return instruction.op == "input" and bool(instruction.payload[0] == number)


def parameter_offsets(program: Program) -> dict[int, int]:
    """Return where each parameter input begins in the table of parameters."""
    offsets: dict[int, int] = {}
    size = 0
    for number, item in enumerate(program.inputs):
        if item.parameter:
            offsets[number] = size
            size += item.size
    return offsets


def many_cases_loop(
    program: Program,
    constants: Sequence[int],
    *,
    lanes: int,
    fused: bool,
    frame: int = 0,
    parameters: int = 0,
    prepared: bool = False,
) -> str:
    """Write the function `many`: tables, and the loop over groups of cases.

    Args:
        program: What to compute.
        constants: The table of constants, as bit patterns.
        lanes: Cases at a time.
        fused: Whether the host has a fused multiply-add.
        frame: Vectors that each group keeps for the next call, which ends it while it begins the
            group after; 0 if a call begins and ends one group.
        parameters: Vectors in the table of parameters, if a group needs room there for more.
        prepared: Whether a function `prepare` adds to the parameters what follows from them.

    Returns:
        LLVM assembly that calls the function `group`.
    """
    target = LlvmTarget(lanes, fused=fused)
    attributes = function_attributes(lanes)
    kind, align = target.float_type, 8 * lanes
    offsets = parameter_offsets(program)
    arguments = [k for k, item in enumerate(program.inputs) if not item.parameter]

    # before the loop: pointers, strides, constants, sums
    inputs = [load(target, "ptr", "%inputs", k) for k in range(len(program.inputs))]
    strides = [load(target, "i64", "%input_strides", k) for k in range(len(program.inputs))]
    outputs = [load(target, "ptr", "%outputs", k) for k in range(len(program.outputs))]
    steps = [load(target, "i64", "%output_strides", k) for k in range(len(program.outputs))]
    last = target.emit("sub i64 %end, 1")
    varying = "false"
    for number in offsets:
        differs = target.emit(f"icmp ne i64 {strides[number]}, 0")
        varying = target.emit(f"or i1 {varying}, {differs}")
    for k in range(PARTIAL_SUMS):
        address = element(target, kind, "%sums", k)
        target.lines.append(f"  store {kind} {target.const(0.0)}, ptr {address}, align {align}")
    before, target.lines = target.lines, []

    # each group: the rows of its cases; the last one repeats the last case
    cases = [target.emit(f"add i64 %group, {lane}") for lane in range(lanes)]
    cases = [target.emit(f"call i64 @llvm.smin.i64(i64 {case}, i64 {last})") for case in cases]
    read = [(inputs[k], strides[k]) for k in arguments]
    for place, (pointer, stride) in enumerate([*read, *zip(outputs, steps, strict=True)]):
        for lane, start in enumerate(_row_starts(target, pointer, stride, cases)):
            slot = element(target, "ptr", "%rows", place * lanes + lane)
            target.lines.append(f"  store ptr {start}, ptr {slot}, align 8")
    rows, target.lines = target.lines, []
    fill = _fill_parameters(program, target, offsets, inputs, strides, cases)
    if prepared:
        fill.append("  call void @prepare(ptr %parameters)")
    target.lines = []
    check = total(target, [load_vector(target, "%sums", k) for k in range(PARTIAL_SUMS)])
    failed = target.is_nan(target.sub(check, check))
    after = target.lines
    row_count = lanes * (len(arguments) + len(outputs))
    sizes = {"parameters": max(sum(program.inputs[k].size for k in offsets), parameters)}
    given = ["rows", "parameters", "sums"]
    if frame:
        sizes["frame"] = frame
        given += ["frame", "parameters0", "frame0", "rows0"]
    table = ", ".join(f"{target.int_type} {target.int_const(pattern)}" for pattern in constants)
    lines = [
        "define i32 @many(ptr noalias %inputs, ptr noalias %input_strides, ptr noalias %outputs, "
        f"ptr noalias %output_strides, i64 %begin, i64 %end) {attributes} {{",
        "entry:",
        f"  %sums = alloca [{PARTIAL_SUMS} x {kind}], align {max(align, 64)}",
        *_tables(target, row_count, sizes, copies=2 if frame else 1),
        *before,
        "  br label %loop",
        "loop:",
        "  %group = phi i64 [ %begin, %entry ], [ %next, %compute ]",
        "  %turn = phi i64 [ 0, %entry ], [ %other, %compute ]",
        # the last group needs another call to be ended
        f"  %begun = sub i64 %group, {lanes if frame else 0}",
        "  %more = icmp slt i64 %begun, %end",
        "  br i1 %more, label %start, label %done",
        "start:",
        "  %other = xor i64 %turn, 1",
        # parameters are read for the first group, and again only if cases differ in them
        f"  %parameters_turn = select i1 {varying}, i64 %turn, i64 0",
        f"  %parameters_other = select i1 {varying}, i64 %other, i64 0",
        *(_turn(target, row_count, sizes) if frame else []),
        *rows,
        "  %first = icmp sle i64 %group, %begin",
        f"  %refill = or i1 %first, {varying}",
        "  br i1 %refill, label %fill, label %compute",
        "fill:",
        *fill,
        "  br label %compute",
        "compute:",
        "  %is_second = icmp sgt i64 %group, %begin",
        f"  call void @group({'ptr %' + ', ptr %'.join(given)}{', i1 %is_second' * bool(frame)})",
        f"  %next = add i64 %group, {lanes}",
        "  br label %loop",
        "done:",
        *after,
        *_any_lane(target, failed),
        "  %status = zext i1 %any to i32",
        "  ret i32 %status",
        "}",
        "declare i64 @llvm.smin.i64(i64, i64)",
        f"@constants = global [{len(constants)} x {target.int_type}] [{table}], "
        f"align {max(align, 64)}",
        "!0 = !{}",
        "",
    ]
    return "\n".join(lines)


def _tables(target: LlvmTarget, row_count: int, sizes: dict[str, int], *, copies: int) -> list[str]:
    """Write the arrays of rows, parameters and so on, for one group or for two in turn."""
    suffix = "s" if copies > 1 else ""
    kind, align = target.float_type, max(8 * target.lanes, 64)
    return [
        f"  %rows{suffix} = alloca [{max(copies * row_count, 1)} x ptr], align 16",
        *[
            f"  %{name}{suffix} = alloca [{max(copies * size, 1)} x {kind}], align {align}"
            for name, size in sizes.items()
        ],
    ]


def _turn(target: LlvmTarget, row_count: int, sizes: dict[str, int]) -> list[str]:
    """Write the choice of each array's copy for this group, and (0) for the group before."""
    lines = []
    kinds = {"rows": ("ptr", row_count), **{n: (target.float_type, k) for n, k in sizes.items()}}
    for name, (kind, size) in kinds.items():
        for suffix, turn in (("", "turn"), ("0", "other")):
            turn = f"parameters_{turn}" if name == "parameters" else turn
            lines += [
                f"  %{name}at{suffix} = mul i64 %{turn}, {size}",
                f"  %{name}{suffix} = getelementptr {kind}, ptr %{name}s, i64 %{name}at{suffix}",
            ]
    return lines


def _row_starts(target: LlvmTarget, pointer: Ref, stride: Ref, rows: list[Ref]) -> list[Ref]:
    """Emit the address of each lane's row."""
    return [
        element(target, "double", pointer, target.emit(f"mul i64 {row}, {stride}")) for row in rows
    ]


def _fill_parameters(
    program: Program,
    target: LlvmTarget,
    offsets: dict[int, int],
    inputs: list[Ref],
    strides: list[Ref],
    rows: list[Ref],
) -> list[str]:
    """Write the loops that copy parameters into the lanes of their table."""
    lines: list[str] = []
    target.lines = lines
    kind, align = target.float_type, 8 * target.lanes
    # parameters given for a call pass no other check
    summed = load_vector(target, "%sums", 0)
    for place, offset in offsets.items():
        tag, count = f"p{place}", program.inputs[place].size
        shared = target.emit(f"icmp eq i64 {strides[place]}, 0")
        lines.append(f"  br i1 {shared}, label %{tag}all, label %{tag}each")
        found = []
        # nearly always all cases have the same
        for loop, cases in ((f"{tag}all", rows[:1]), (f"{tag}each", rows)):
            lines += [
                f"{loop}:",
                f"  br label %{loop}_loop",
                f"{loop}_loop:",
                f"  %{loop}_k = phi i64 [ 0, %{loop} ], [ %{loop}_next, %{loop}_body ]",
                f"  %{loop}_sum = phi {kind} [ {summed}, %{loop} ], [ %{loop}_new, %{loop}_body ]",
                f"  %{loop}_more = icmp slt i64 %{loop}_k, {count}",
                f"  br i1 %{loop}_more, label %{loop}_body, label %{tag}end",
                f"{loop}_body:",
            ]
            starts = _row_starts(target, inputs[place], strides[place], cases)
            vector = _joined(target, [load(target, "double", s, f"%{loop}_k") for s in starts])
            position = target.emit(f"add i64 %{loop}_k, {offset}")
            address = element(target, kind, "%parameters", position)
            lines += [
                f"  store {kind} {vector}, ptr {address}, align {align}",
                f"  %{loop}_new = fadd {kind} %{loop}_sum, {vector}",
                f"  %{loop}_next = add i64 %{loop}_k, 1",
                f"  br label %{loop}_loop",
            ]
            found.append(f"[ %{loop}_sum, %{loop}_loop ]")
        lines.append(f"{tag}end:")
        summed = target.emit(f"phi {kind} {', '.join(found)}")
    if offsets:
        lines.append(f"  store {kind} {summed}, ptr %sums, align {align}")
    return lines


def _joined(target: LlvmTarget, values: Sequence[Ref]) -> Ref:
    """Emit a vector of one number per lane, or of one number for all."""
    if target.lanes == 1:
        return values[0]
    kind, lanes, vector = target.float_type, target.lanes, "poison"
    for lane, value in enumerate(values):
        vector = target.emit(f"insertelement {kind} {vector}, double {value}, i64 {lane}")
    if len(values) == 1:
        same = f"<{lanes} x i32> zeroinitializer"
        return target.emit(f"shufflevector {kind} {vector}, {kind} poison, {same}")
    return vector


def _any_lane(target: LlvmTarget, flags: Ref) -> list[str]:
    """Write whether any lane of a truth value holds, as %any."""
    if target.lanes == 1:
        return [f"  %any = or i1 {flags}, false"]
    return [
        f"  %mask = bitcast {target.bool_type} {flags} to i{target.lanes}",
        f"  %any = icmp ne i{target.lanes} %mask, 0",
    ]
