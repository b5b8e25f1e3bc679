"""The LLVM function for one case.

`one(inputs, outputs) -> status` takes two tables of pointers to contiguous float64 arrays. The
status is 0, or 1 if a number read from the caller or written to it is not finite: their sum tells,
for nothing finite comes out of a sum with NaN or infinity. (Huge finite numbers may overflow the
sum; the caller looks closely before it complains.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.native.callees import CalleeWriter
from tiburon.native.fixed_arguments import TABLE, fixed_arguments
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import Slots
from tiburon.native.module_parts import (
    FunctionWriter,
    add_to_sums,
    element,
    function_attributes,
    load,
    total,
)
from tiburon.native.moves import store_numbers
from tiburon.native.staging import LONG_ROW, sum_of_vectors
from tiburon.native.straight import emit_instructions
from tiburon.native.target import Ref
from tiburon.trace.lower import Order, lower
from tiburon.trace.program import Output, Program


def module_for_one(
    program: Program, *, vector_lanes: int, fused: bool, order: Order = "traced"
) -> str:
    """Write the module with the function `one`.

    Args:
        program: What to compute.
        vector_lanes: Width of the host's vectors, for sines, cosines and the check of inputs.
        fused: Whether the host has a fused multiply-add.
        order: How instructions are ordered.

    Returns:
        LLVM assembly.
    """
    target = LlvmTarget(1, fused=fused)
    fixed = fixed_arguments(program, {})
    writer = FunctionWriter(target, CalleeWriter(1, fused=fused, fixed=fixed), vector_lanes)
    writer.settled = set()
    if fixed.size:
        writer.stack_lines.append(f"  {TABLE} = alloca [{fixed.size} x double], align 64")
    instructions = lower(program.graph, program.roots, order)
    inputs = [load(target, "ptr", "%inputs", place) for place in range(len(program.inputs))]
    outputs = [load(target, "ptr", "%outputs", place) for place in range(len(program.outputs))]
    sums: list[Ref] = []
    for pointer, item in zip(inputs, program.inputs, strict=True):
        if not item.parameter:
            parts = array_sums(writer, pointer, item.size, vector_lanes)
            sums = add_to_sums(target, sums, parts)
    for instruction in instructions:
        if instruction.op == "input":
            argument, number = instruction.payload
            writer.inputs[argument, number] = load(target, "double", inputs[argument], number)
            writer.origins[writer.inputs[argument, number]] = inputs[argument], number
    for pointer, output in zip(outputs, program.outputs, strict=True):
        call = _whole_result(program, output)
        if call is not None and len(output.nodes) >= LONG_ROW * vector_lanes:
            writer.destinations.setdefault(call, pointer)
    refs = emit_instructions(target, instructions, writer)
    for pointer, output in zip(outputs, program.outputs, strict=True):
        values = [refs[node] for node in output.nodes]
        sums = add_to_sums(target, sums, _write(writer, pointer, values, vector_lanes))
    check = total(target, sums)
    failed = target.is_nan(target.sub(check, check))
    status = target.emit(f"zext i1 {failed} to i32")
    attributes = function_attributes(1)
    header = f"define i32 @one(ptr noalias %inputs, ptr noalias %outputs) {attributes} {{"
    return writer.module(header, [*target.lines, f"  ret i32 {status}"])


def _whole_result(program: Program, output: Output) -> int | None:
    """Return the call whose results, all of them in order, are an output; None if there is none."""
    graph, nodes = program.graph, output.nodes
    if not nodes or graph.ops[nodes[0]] != "result":
        return None
    (call,) = graph.args[nodes[0]]
    if len(nodes) != graph.payloads[call].result_count:
        return None
    whole = all(
        graph.ops[node] == "result" and graph.args[node] == (call,) and graph.payloads[node] == k
        for k, node in enumerate(nodes)
    )
    return call if whole else None


def _write(
    writer: FunctionWriter, pointer: Ref, values: Sequence[Ref], lanes: int
) -> Sequence[Ref]:
    """Emit the stores of an output; return a few numbers that add up to its sum."""
    target = writer.target
    long = len(values) >= LONG_ROW * lanes
    origins = writer.origins if long else {}
    store_numbers(target, writer.stack_lines, values, origins, Slots(pointer), align=", align 8")
    return array_sums(writer, pointer, len(values), lanes) if long else values


def array_sums(writer: FunctionWriter, pointer: Ref, size: int, lanes: int) -> list[Ref]:
    """Emit a few numbers that add up to the sum of an array, read in wide vectors."""
    target = writer.target
    place = 0
    sums: dict[int, Ref] = {}
    if size >= LONG_ROW * lanes:
        # in straight lines hundreds of loads would take LLVM seconds
        sums[lanes] = sum_of_vectors(target, writer.stack_lines, pointer, size // lanes, lanes)
        place = size - size % lanes
    while place < size:
        while lanes > size - place:
            lanes //= 2
        kind = "double" if lanes == 1 else f"<{lanes} x double>"
        address = element(target, "double", pointer, place)
        part = target.emit(f"load {kind}, ptr {address}, align 8")
        sums[lanes] = target.emit(f"fadd {kind} {sums[lanes]}, {part}") if lanes in sums else part
        place += lanes
    return [part for lanes, vector in sums.items() for part in _halve(target, vector, lanes)]


def _halve(target: LlvmTarget, vector: Ref, lanes: int) -> list[Ref]:
    """Emit additions of halves of a vector until two numbers are left."""
    if lanes == 1:
        return [vector]
    while lanes > 2:
        kind = f"<{lanes} x double>"
        lanes //= 2
        halves = []
        for start in (0, lanes):
            picked = ", ".join(f"i32 {k}" for k in range(start, start + lanes))
            halves.append(
                target.emit(
                    f"shufflevector {kind} {vector}, {kind} poison, <{lanes} x i32> <{picked}>"
                )
            )
        vector = target.emit(f"fadd <{lanes} x double> {halves[0]}, {halves[1]}")
    return [target.emit(f"extractelement <2 x double> {vector}, i64 {k}") for k in (0, 1)]
