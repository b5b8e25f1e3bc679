"""The LLVM function for many cases, several at a time in the lanes of vectors.

`many(inputs, input_strides, outputs, output_strides, begin, end) -> status` computes the cases
begin..end-1. A stride is the distance in numbers from one case to the next; 0 repeats one case for
all. Rows are read and written as they lie in memory and turned into lanes inside. The last group
repeats the last case to fill its lanes: equal inputs give equal outputs, so nothing is masked.

Constants and parameters stand in one table on the stack, a whole vector each, so that instructions
read them as memory operands. The status is that of `one`.
"""

from __future__ import annotations

from tiburon.native.callees import CalleeWriter
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.module_parts import (
    PARTIAL_SUMS,
    FunctionWriter,
    add_to_sums,
    element,
    load,
    total,
)
from tiburon.native.straight import emit_instructions
from tiburon.native.target import Ref
from tiburon.native.transpose import columns_from_rows, rows_from_columns
from tiburon.trace.lower import Order, lower
from tiburon.trace.program import Program

# constants that instructions carry for free, or that only steer a fold
_INLINE_CONSTANTS = frozenset({0.0})


class _LaneWriter(FunctionWriter):
    """Straight-line code inside the loop over groups of cases."""

    def __init__(self, target: LlvmTarget, callees: CalleeWriter) -> None:
        super().__init__(target, callees, target.lanes)
        self.constants: dict[float, int] = {}

    def constant(self, value: float) -> Ref:
        """Load a constant from the table."""
        if value in _INLINE_CONSTANTS or value != value:
            return self.target.const(value)
        place = self.constants.setdefault(value, len(self.constants))
        return load_vector(self.target, "%constants", place)


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
    target = LlvmTarget(lanes, fused=fused)
    callees = CalleeWriter(lanes, fused=fused)
    writer = _LaneWriter(target, callees)
    kind, align = target.float_type, 8 * lanes
    instructions = lower(program.graph, program.roots, order)

    # before the loop: pointers, strides, parameters that are the same for all cases
    before = LlvmTarget(lanes, fused=fused, prefix="b")
    inputs = [load(before, "ptr", "%inputs", k) for k in range(len(program.inputs))]
    strides = [load(before, "i64", "%input_strides", k) for k in range(len(program.inputs))]
    outputs = [load(before, "ptr", "%outputs", k) for k in range(len(program.outputs))]
    steps = [load(before, "i64", "%output_strides", k) for k in range(len(program.outputs))]
    last = before.emit("sub i64 %end, 1")
    offsets: dict[int, int] = {}
    size = 0
    for place, item in enumerate(program.inputs):
        if item.parameter:
            offsets[place] = size
            size += item.size
    varying = before.bool_const(False) if lanes == 1 else "false"
    for place in offsets:
        differs = before.emit(f"icmp ne i64 {strides[place]}, 0")
        varying = before.emit(f"or i1 {varying}, {differs}")

    # one group of cases
    rows = [target.emit(f"add i64 %group, {lane}") for lane in range(lanes)]
    rows = [target.emit(f"call i64 @llvm.smin.i64(i64 {row}, i64 {last})") for row in rows]
    head = target.lines
    target.lines = []
    fill = _fill_parameters(program, target, offsets, inputs, strides, rows)
    target.lines = []
    used = {i.payload for i in instructions if i.op == "input"}
    sums: list[Ref] = [f"%sum{k}" for k in range(PARTIAL_SUMS)]
    for place, item in enumerate(program.inputs):
        if item.parameter:
            continue
        starts = _row_starts(target, inputs[place], strides[place], rows)
        columns = columns_from_rows(target, starts, item.size)
        sums = add_to_sums(target, sums, columns)
        writer.inputs.update({(place, k): column for k, column in enumerate(columns)})
    for place, number in sorted(used):
        if place in offsets:
            table_place = offsets[place] + number
            writer.inputs[place, number] = load_vector(target, "%parameters", table_place)
    refs = emit_instructions(target, instructions, writer)
    for place, output in enumerate(program.outputs):
        starts = _row_starts(target, outputs[place], steps[place], rows)
        rows_from_columns(target, starts, [refs[node] for node in output.nodes])
    sums = add_to_sums(target, sums, [refs[root] for root in program.roots])
    group = target.lines

    constants = [
        line
        for value, place in writer.constants.items()
        for line in (
            f"  %c{place} = getelementptr {kind}, ptr %constants, i64 {place}",
            f"  store {kind} {target.const(value)}, ptr %c{place}, align {align}",
        )
    ]
    target.lines = []
    check = total(target, [f"%sum{k}" for k in range(PARTIAL_SUMS)])
    failed = target.is_nan(target.sub(check, check))
    after = target.lines
    table = [
        f"  %constants = alloca [{max(len(writer.constants), 1)} x {kind}], align {align}",
        f"  %parameters = alloca [{max(size, 1)} x {kind}], align {align}",
    ]
    zero = target.const(0.0)
    body = [
        *table,
        *before.lines,
        *constants,
        "  br label %loop",
        "loop:",
        "  %group = phi i64 [ %begin, %entry ], [ %next, %compute ]",
        *[
            f"  %sum{k} = phi {kind} [ {zero}, %entry ], [ {sums[k]}, %compute ]"
            for k in range(PARTIAL_SUMS)
        ],
        "  %more = icmp slt i64 %group, %end",
        "  br i1 %more, label %start, label %done",
        "start:",
        *head,
        # parameters are read for the first group, and again only if cases differ in them
        "  %first = icmp eq i64 %group, %begin",
        f"  %refill = or i1 %first, {varying}",
        "  br i1 %refill, label %fill, label %compute",
        "fill:",
        *fill,
        "  br label %compute",
        "compute:",
        *group,
        f"  %next = add i64 %group, {lanes}",
        "  br label %loop",
        "done:",
        *after,
        *_any_lane(target, failed),
        "  %status = zext i1 %any to i32",
        "  ret i32 %status",
    ]
    header = (
        "define i32 @many(ptr noalias %inputs, ptr noalias %input_strides, ptr noalias %outputs, "
        "ptr noalias %output_strides, i64 %begin, i64 %end) nounwind "
        f'"min-legal-vector-width"="{64 * lanes}" "prefer-vector-width"="{64 * lanes}" {{'
    )
    return writer.module(header, body) + "declare i64 @llvm.smin.i64(i64, i64)\n"


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
    previous = "fill"
    for place, offset in offsets.items():
        target.lines = lines
        starts = _row_starts(target, inputs[place], strides[place], rows)
        count = program.inputs[place].size
        tag = f"p{place}"
        lines += [
            f"  br label %{tag}",
            f"{tag}:",
            f"  %{tag}k = phi i64 [ 0, %{previous} ], [ %{tag}n, %{tag}body ]",
            f"  %{tag}c = icmp slt i64 %{tag}k, {count}",
            f"  br i1 %{tag}c, label %{tag}body, label %{tag}end",
            f"{tag}body:",
        ]
        values = [load(target, "double", start, f"%{tag}k") for start in starts]
        vector = "poison"
        for lane, value in enumerate(values):
            vector = (
                value
                if target.lanes == 1
                else target.emit(
                    f"insertelement {target.float_type} {vector}, double {value}, i64 {lane}"
                )
            )
        position = target.emit(f"add i64 %{tag}k, {offset}")
        address = element(target, target.float_type, "%parameters", position)
        lines += [
            f"  store {target.float_type} {vector}, ptr {address}, align {8 * target.lanes}",
            f"  %{tag}n = add i64 %{tag}k, 1",
            f"  br label %{tag}",
            f"{tag}end:",
        ]
        previous = f"{tag}end"
    return lines


def _any_lane(target: LlvmTarget, flags: Ref) -> list[str]:
    """Write whether any lane of a truth value holds, as %any."""
    if target.lanes == 1:
        return [f"  %any = or i1 {flags}, false"]
    return [
        f"  %mask = bitcast {target.bool_type} {flags} to i{target.lanes}",
        f"  %any = icmp ne i{target.lanes} %mask, 0",
    ]
