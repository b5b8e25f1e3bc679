"""Bodies of regions and primitives as native code, for LLVM and C alike.

A callee is a function from a row of floats `in` to a row of floats `out`. In lanes every float is a
vector, one number per case; loops run until the last lane is done, and lanes that are done keep
their state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from tiburon.errors import CompileError
from tiburon.native.callee_assembly import assembled_callee, is_for_callee_assembly
from tiburon.native.callees import MANY_RESULTS, CalleeWriter, with_loads
from tiburon.native.fixed_arguments import TABLE, Places, callee_parameters
from tiburon.native.llvm_machine import LlvmMachine
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import NativeMachine, Slots
from tiburon.native.module_parts import FunctionWriter, function_attributes
from tiburon.native.moves import store_numbers
from tiburon.native.straight import emit_instructions
from tiburon.native.tape import calls_few_functions, region_program
from tiburon.native.target import Ref
from tiburon.record import record
from tiburon.trace.callee import Callee
from tiburon.trace.lower import Instruction, Order, lower
from tiburon.trace.primitives.primitive import Primitive
from tiburon.trace.regions import FixedLoop, FunctionRegion, WhileLoop
from tiburon.trace.regions.region import GraphRegion

__all__ = ["emit_callee", "is_spelled_out", "write_callee"]

LONG_FUNCTION = 1000
"""Lines from which on a function stays one."""

PACKED_ANGLES = 4
"""Scalar angles whose sines and cosines are computed together."""

Prepare = Callable[[list[Instruction]], list[Instruction]]


class Base(Protocol):
    """What a body needs from the function it stands in."""

    def constant(self, value: float) -> Ref:
        """Give the reference of a constant."""

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Emit a call of a region or primitive and give the references of its results."""

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Emit sine and cosine of several angles that are known at the same time."""


@record
class Arguments:
    """Where the arguments of a callee are.

    Attributes:
        row: Those that are passed, side by side.
        places: Slot in the table of fixed arguments for each argument, None for those that are
            passed; empty if all are.
    """

    row: Slots
    places: Places = ()

    def load(self, m: NativeMachine, first: int, count: int, base: Base) -> list[Ref]:
        """Write the loads of some; `base` learns where they lie, so that calls can copy them."""
        if not self.places:
            return _load_all(m, self.row, count, first, base)
        refs: list[Ref] = []
        passed = sum(place is None for place in self.places[:first])
        for place in self.places[first : first + count]:
            if place is None:
                refs += _load_all(m, self.row, 1, passed, base)
                passed += 1
            else:
                refs += _load_all(m, Slots(TABLE), 1, place, base)
        return refs


@record
class _Known:
    """Payload of an input that an earlier part of the same body computed."""

    ref: Ref


class _Body:
    """The surroundings of a region's instructions: its inputs have references of their own."""

    def __init__(self, region: GraphRegion, base: Base) -> None:
        self._graph = region.graph
        self._base = base
        self._refs: dict[tuple[str, Any], Ref] = {}
        self.constant = base.constant
        self.call = base.call
        self.sin_cos = base.sin_cos

    def bind(self, nodes: Iterable[int], refs: Iterable[Ref]) -> None:
        """Set the references of input and capture nodes."""
        for node, ref in zip(nodes, refs, strict=True):
            self._refs[self._graph.ops[node], self._graph.payloads[node]] = ref

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an input or capture."""
        if isinstance(instruction.payload, _Known):
            return instruction.payload.ref
        return self._refs[instruction.op, instruction.payload]


def is_spelled_out(callee: Callee) -> bool:
    """Tell whether a primitive is short enough to be written without loops."""
    return isinstance(callee, Primitive) and callee.is_short


def write_callee(
    m: NativeMachine,
    callee: Callee,
    given: Arguments,
    found: Slots,
    base: Base,
    *,
    order: Order = "depth_first",
    prepare: Prepare = list,
) -> None:
    """Write the body of a callee.

    Args:
        m: The machine; spelled out exactly if `is_spelled_out(callee)`.
        callee: A region or primitive.
        given: Where its arguments are.
        found: Where its results go.
        base: The function the body stands in.
        order: How instructions of graphs are ordered.
        prepare: Applied to the instructions of graphs before they are written.

    Raises:
        CompileError: If the callee is of an unknown kind.
    """
    if isinstance(callee, Primitive):
        _write_primitive(m, callee, given.row, found)
    elif isinstance(callee, FunctionRegion):
        _write_function(m, callee, given, found, base, prepare(_lowered(callee, order)))
    elif isinstance(callee, FixedLoop):
        _write_fixed_loop(m, callee, given, found, base, prepare(_lowered(callee, order)))
    elif isinstance(callee, WhileLoop):
        # the condition's instructions must come first, which only this order gives
        _write_while_loop(m, callee, given, found, base, prepare(_lowered(callee, "depth_first")))
    else:
        raise CompileError(f"{callee.name}: {type(callee).__name__} has no native form")


def _lowered(region: GraphRegion, order: Order) -> list[Instruction]:
    return lower(region.graph, region.roots, order)


def _write_primitive(m: NativeMachine, primitive: Primitive, given: Slots, found: Slots) -> None:
    if not m.spelled_out:
        primitive.write(m, given, found)
        return
    arguments = [m.load_slot(given, place) for place in range(primitive.argument_count)]
    results: list[Any] = [None] * primitive.result_count
    primitive.write(m, arguments, results)
    _store_all(m, found, results)


def _load_all(
    m: NativeMachine, memory: Slots, count: int, first: int = 0, base: Base | None = None
) -> list[Ref]:
    """Load numbers that lie side by side; `base` learns where, so that calls can copy them."""
    refs = [m.load_slot(memory, first + place) for place in range(count)]
    origins = getattr(base, "origins", None)
    if origins is not None and memory == Slots(memory.address):
        origins.update({ref: (memory.address, first + k) for k, ref in enumerate(refs)})
    return refs


def _store_all(m: NativeMachine, memory: Slots, values: Sequence[Ref]) -> None:
    for place, value in enumerate(values):
        m.store_slot(memory, place, value)


def _move_all(m: NativeMachine, memory: Slots, values: Sequence[Ref], base: Base) -> None:
    """Store numbers side by side, many of them by loops from where they lie."""
    origins = getattr(base, "origins", None)
    if isinstance(m, LlvmMachine) and origins is not None and len(values) >= MANY_RESULTS:
        store_numbers(m.target, m.stack_lines, values, origins, memory)
    else:
        _store_all(m, memory, values)


def _write_function(
    m: NativeMachine,
    region: FunctionRegion,
    given: Arguments,
    found: Slots,
    base: Base,
    instructions: list[Instruction],
) -> None:
    body = _Body(region, base)
    body.bind(region.inputs, given.load(m, 0, len(region.inputs), base))
    refs = emit_instructions(m.target, instructions, body)
    _move_all(m, found, [refs[root] for root in region.roots], base)


def _write_fixed_loop(
    m: NativeMachine,
    loop: FixedLoop,
    given: Arguments,
    found: Slots,
    base: Base,
    instructions: list[Instruction],
) -> None:
    size = len(loop.states)
    body = _Body(loop, base)
    body.bind(loop.others, given.load(m, size, len(loop.others), base))
    state, counter = m.slots(size), m.slots(1)
    _store_all(m, state, given.load(m, 0, size, base))
    m.store_slot(counter, 0, m.constant(0.0))
    for _ in m.loop(0, loop.repetitions):
        # counted in floats: exact, and the same in every language and lane
        index = m.load_slot(counter, 0)
        body.bind([loop.index], [index])
        body.bind(loop.states, _load_all(m, state, size))
        refs = emit_instructions(m.target, instructions, body)
        _store_all(m, state, [refs[root] for root in loop.roots])
        m.store_slot(counter, 0, m.add(index, m.constant(1.0)))
    _store_all(m, found, _load_all(m, state, size))


def _write_while_loop(
    m: NativeMachine,
    loop: WhileLoop,
    given: Arguments,
    found: Slots,
    base: Base,
    instructions: list[Instruction],
) -> None:
    size = len(loop.states)
    body = _Body(loop, base)
    body.bind(loop.others, given.load(m, size, len(loop.others), base))
    state, count = m.slots(size), m.slots(1)
    _move_all(m, state, given.load(m, 0, size, base), base)
    m.store_slot(count, 0, m.constant(0.0))
    active_memory = m.truth_memory(True)
    first, rest = _split(instructions, loop.condition)
    for _ in m.repeat(loop.max_iterations):
        old = _load_all(m, state, size, 0, base)
        body.bind(loop.states, old)
        refs = emit_instructions(m.target, first, body)
        active = m.target.logical_and(m.load_truth(active_memory), refs[loop.condition])
        m.store_truth(active_memory, active)
        m.leave_unless(active)
        refs |= emit_instructions(m.target, _resumed(rest, refs), body)
        new = [refs[root] for root in loop.roots[1:]]
        if size >= MANY_RESULTS:
            after = m.slots(size)
            _move_all(m, after, new, base)
            for k in m.loop(0, size, independent=True):
                kept = m.choose(active, m.load_slot(after, k), m.load_slot(state, k))
                m.store_slot(state, k, kept)
        else:
            _store_all(m, state, [m.choose(active, *pair) for pair in zip(new, old, strict=True)])
        done = m.load_slot(count, 0)
        m.store_slot(count, 0, m.choose(active, m.add(done, m.constant(1.0)), done))
    unfinished = m.load_truth(active_memory)
    converged = m.choose(unfinished, m.constant(0.0), m.constant(1.0))
    last = [*_load_all(m, state, size, 0, base), m.load_slot(count, 0), converged]
    _move_all(m, found, last, base)


def _split(
    instructions: list[Instruction], condition: int
) -> tuple[list[Instruction], list[Instruction]]:
    """Split instructions after the condition; results stay with their call."""
    end = 1 + next(place for place, i in enumerate(instructions) if i.target == condition)
    first, rest = instructions[:end], instructions[end:]
    calls = {i.target for i in first if i.op == "call"}
    early = [i.op == "result" and i.args[0] in calls for i in rest]
    results = itertools.compress(rest, early)
    return [*first, *results], [i for i, moved in zip(rest, early, strict=True) if not moved]


def _resumed(rest: list[Instruction], refs: dict[int, Ref]) -> list[Instruction]:
    """Put what an earlier part computed before the instructions that use it."""
    used = dict.fromkeys(a for instruction in rest for a in instruction.args if a in refs)
    return [*(Instruction("input", number, (), _Known(refs[number])) for number in used), *rest]


def emit_callee(name: str, callee: Callee, callees: CalleeWriter) -> tuple[str, set[str]]:
    """Write a callee as an internal LLVM function.

    Args:
        name: Name of the function.
        callee: A region or primitive.
        callees: The module's internal functions, for calls in the body.

    Returns:
        The function, and the declarations of the intrinsics it uses.
    """
    lanes = callees.lanes
    if isinstance(callee, FunctionRegion) and calls_few_functions(callee.graph, callee.roots):
        return _tape(name, callee, callees)
    if is_for_callee_assembly(callee, callees):
        return assembled_callee(name, callee, callees), set()
    target = LlvmTarget(lanes, fused=callees.fused)
    writer = FunctionWriter(target, callees, max(lanes, PACKED_ANGLES))
    m = LlvmMachine(target, name, writer.stack_lines, spelled_out=is_spelled_out(callee))
    order: Order = "depth_first" if lanes == 1 else "traced"
    places = callees.fixed.places(callee)
    write_callee(m, callee, Arguments(Slots("%in"), places), Slots("%out"), writer, order=order)
    attributes = function_attributes(lanes)
    if len(target.lines) > LONG_FUNCTION:
        # LLVM would put it into its callers, and take minutes over what becomes of them
        attributes = f"noinline {attributes}"
    lines = [
        *m.globals,
        f"; {callee.name}",
        f"define internal void @{name}({callee_parameters(places)}) {attributes} {{",
        "entry:",
        *writer.stack_lines,
        *with_loads(target.lines),
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines), writer.declarations()


def _tape(name: str, region: FunctionRegion, callees: CalleeWriter) -> tuple[str, set[str]]:
    """Write a function that is made of many calls of few others as a tape."""
    # a tape's classes are functions themselves, which are written here
    from tiburon.native.tape_module import TapeModule

    program, leaves = region_program(region)
    lanes = callees.lanes
    module = TapeModule(
        program,
        lanes=lanes,
        vector_lanes=max(lanes, PACKED_ANGLES),
        fused=callees.fused,
        prefix=f"{name}_",
        leaves=leaves,
    )
    return module.callee(name, callees)
