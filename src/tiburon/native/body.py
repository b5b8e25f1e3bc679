"""Bodies of functions in LLVM and C: straight-line code, regions and primitives.

A callee is a function from an array of floats `in` to an array of floats `out`. With several lanes
every float is a vector with one value per case. Loops run until the last lane has finished;
finished lanes keep their state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from tiburon.errors import CompileError
from tiburon.native import elementary
from tiburon.native.data_movement import MANY_RESULTS, Origins, fence_stores, store_values
from tiburon.native.fixed_arguments import TABLE, Places
from tiburon.native.llvm import LlvmMachine
from tiburon.native.target import NativeMachine, Ref, Slots, Target
from tiburon.record import record
from tiburon.trace.graph import Callee
from tiburon.trace.lower import Instruction, Order, lower
from tiburon.trace.primitives.primitive import Primitive
from tiburon.trace.regions import FixedLoop, ForEach, FunctionRegion, GraphRegion, WhileLoop
from tiburon.trace.regions.in_turn import CallsInTurn


class Base(Protocol):
    """The interface of a function to the body of a callee inside it."""

    def constant(self, value: float) -> Ref:
        """Return the reference of a constant."""

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Emit a call of a region or primitive and return the references of its results."""

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Emit sine and cosine of several angles that are known at the same time."""


class Surroundings(Base, Protocol):
    """The interface of a function to the straight-line code inside it."""

    def load(self, instruction: Instruction) -> Ref:
        """Return the reference of an `input` or `capture`."""


def _minimum(t: Target, a: Ref, b: Ref) -> Ref:
    # NaN in either argument propagates, as in numpy.minimum
    return t.select(t.logical_or(t.less(a, b), t.is_nan(a)), a, b)


_EMIT: dict[str, Callable[..., Ref]] = {
    "add": lambda t, a, b: t.add(a, b),
    "sub": lambda t, a, b: t.sub(a, b),
    "mul": lambda t, a, b: t.mul(a, b),
    "div": lambda t, a, b: t.div(a, b),
    "neg": lambda t, a: t.neg(a),
    "fused_add": lambda t, a, b, c: t.fma(a, b, c),
    "fused_sub": lambda t, a, b, c: t.fma(a, b, t.neg(c)),
    "fused_negative_add": lambda t, a, b, c: t.fma(t.neg(a), b, c),
    "reciprocal": lambda t, a: t.div(t.const(1.0), a),
    "abs": lambda t, a: t.abs(a),
    "sqrt": lambda t, a: t.sqrt(a),
    "floor": lambda t, a: t.floor(a),
    "min": _minimum,
    "max": lambda t, a, b: t.select(t.logical_or(t.less(b, a), t.is_nan(a)), a, b),
    "less": lambda t, a, b: t.less(a, b),
    "less_equal": lambda t, a, b: t.less_equal(a, b),
    "equal": lambda t, a, b: t.equal(a, b),
    "and": lambda t, a, b: t.logical_and(a, b),
    "or": lambda t, a, b: t.logical_or(a, b),
    "not": lambda t, a: t.logical_not(a),
    "where": lambda t, c, a, b: t.select(c, a, b),
    "require": lambda t, c, a: t.select(c, a, t.const(float("nan"))),
}
# tan, asin, exp, pow, ... are the functions of the same name, written for any target
_EMIT |= elementary.FUNCTIONS


def emit_instructions(
    target: Target,
    instructions: Sequence[Instruction],
    around: Surroundings,
    found: Callable[[int, Ref], None] | None = None,
) -> dict[int, Ref]:
    """Write instructions in order.

    Args:
        target: Receives the instructions.
        instructions: A lowered graph.
        around: The function that contains the code.
        found: Called with number and reference of each result as soon as it is known.

    Returns:
        Reference of each instruction's result, by its number.
    """
    refs: dict[int, Ref] = {}
    results: dict[int, list[Ref]] = {}
    pairs: dict[int, tuple[Ref, Ref]] = {}
    angles = list(dict.fromkeys(i.args[0] for i in instructions if i.op in ("sin", "cos")))
    for instruction in instructions:
        op, number = instruction.op, instruction.target
        if op == "const":
            refs[number] = around.constant(instruction.payload)
        elif op == "truth":
            refs[number] = target.bool_const(instruction.payload)
        elif op in ("input", "capture"):
            refs[number] = around.load(instruction)
        elif op in ("sin", "cos"):
            angle = instruction.args[0]
            if angle not in pairs:
                # vectors compute the sines and cosines of all angles known so far at once
                known = [a for a in angles if a in refs and a not in pairs]
                emitted = around.sin_cos([refs[a] for a in known])
                pairs.update(zip(known, emitted, strict=True))
            refs[number] = pairs[angle][0 if op == "sin" else 1]
        elif op == "call":
            results[number] = around.call(instruction, [refs[a] for a in instruction.args])
        elif op == "result":
            refs[number] = results[instruction.args[0]][instruction.payload]
        elif op == "copy":
            refs[number] = refs[instruction.args[0]]
        else:
            emit = _EMIT.get(op)
            if emit is None:
                raise CompileError(f"operation {op!r} has no native form")
            refs[number] = emit(target, *[refs[a] for a in instruction.args])
        if found is not None and number in refs:
            found(number, refs[number])
    return refs


Prepare = Callable[[list[Instruction]], list[Instruction]]


@record
class Arguments:
    """Memory locations of the arguments of a callee.

    Attributes:
        row: The passed arguments, contiguous.
        places: Slot in the table of fixed arguments for each argument, None for those that are
            passed; empty if all are.
    """

    row: Slots
    places: Places = ()

    def load(self, m: NativeMachine, first: int, count: int, base: Base) -> list[Ref]:
        """Write the loads of some arguments, and record their locations for copies."""
        if not self.places:
            return _load_all(m, self.row, count, first, base)
        refs: list[Ref] = []
        passed = sum(place is None for place in self.places[:first])
        for place in self.places[first : first + count]:
            if place is None:
                refs += _load_all(m, self.row, 1, passed, base)
                passed += 1
            else:
                refs.append(base.fixed_argument(place))  # type: ignore[attr-defined]
        return refs

    def late(self, base: Any, target: Any) -> list[Ref]:
        """Return all arguments, loaded where code uses them; see `CalleeWriter.late_loads`."""
        count = len(self.places)
        passed = [k for k, place in enumerate(self.places) if place is None]
        fixed = [k for k in range(count) if self.places[k] is not None]
        refs: list[Ref] = [""] * count
        rows = (
            (passed, self.row.address, range(self.row.offset, self.row.offset + len(passed))),
            (fixed, TABLE, [self.places[k] for k in fixed]),
        )
        for numbers, array, slots in rows:
            found = base.callees.late_loads(target, base.origins, array, slots)
            for number, ref in zip(numbers, found, strict=True):
                refs[number] = ref
        return refs


@record
class _Known:
    """Payload of an input that an earlier part of the same body computed."""

    ref: Ref


class _Body:
    """The surroundings of a region's instructions: references of its inputs and captures."""

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
        """Return the reference of an input or capture."""
        if isinstance(instruction.payload, _Known):
            return instruction.payload.ref
        return self._refs[instruction.op, instruction.payload]


LONGEST_OPENED = 3000
"""Nodes of a function that becomes part of the code around its only call."""

LONGEST_OPENED_ROW = 2000
"""Nodes of a function whose calls in lanes become part of the code around them: that of batches,
which has the same bits, contains it once for each call."""

LONGEST_FUNCTION = 20000
"""Instructions of one function at most; longer ones are divided where nothing is called."""


def is_short_row(region: GraphRegion) -> bool:
    """Return whether calls in lanes become part of the code around them: short arithmetic."""
    live = region.graph.live(region.roots)
    if len(live) > LONGEST_OPENED_ROW:
        return False
    return not any(region.graph.ops[node] == "call" for node in live)


class RowBody:
    """The surroundings of calls in lanes inside of another function: vectors of arguments."""

    def __init__(self, body: FunctionRegion, given: Sequence[Ref], vector: Target) -> None:
        graph = body.graph
        self._refs = {
            (graph.ops[node], graph.payloads[node]): ref
            for node, ref in zip(body.inputs, given, strict=True)
        }
        self._vector = vector
        self.constant = vector.const

    def load(self, instruction: Instruction) -> Ref:
        """Return the reference of an argument."""
        return self._refs[instruction.op, instruction.payload]

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Refuse: the calls are arithmetic."""
        raise CompileError(f"{instruction.payload.name} is called in short calls in lanes")

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Emit sines and cosines."""
        return [elementary.sin_cos(self._vector, angle) for angle in angles]


def is_unrolled(callee: Callee) -> bool:
    """Return whether a primitive is short enough to be unrolled."""
    return isinstance(callee, Primitive) and callee.is_short


def write_callee(
    m: NativeMachine,
    callee: Callee,
    given: Arguments,
    found: Slots,
    base: Base,
    *,
    prepare: Prepare = list,
    in_lanes: bool = False,
) -> None:
    """Write the body of a callee.

    Args:
        m: The machine; unrolled exactly if `is_unrolled(callee)`.
        callee: A region or primitive.
        given: Locations of its arguments.
        found: Destination of its results.
        base: The function that contains the body.
        prepare: Applied to the instructions of graphs before they are written.
        in_lanes: Whether calls in lanes are written as such, by the base.

    Raises:
        CompileError: If the kind of the callee is unknown.
    """
    if isinstance(callee, Primitive):
        _write_primitive(m, callee, given.row, found)
        return
    if not isinstance(callee, FunctionRegion | FixedLoop | ForEach | CallsInTurn | WhileLoop):
        raise CompileError(f"{callee.name}: {type(callee).__name__} has no native form")
    # in this order conditions of loops come first, and fewer values are live at a time
    order: Order = "depth_first"
    if len(callee.graph.live(callee.roots)) > LONGEST_FUNCTION:
        # parts of a divided function exchange fewer values as the algorithm was traced
        order = "traced"
    lowered = lower(callee.graph, callee.roots, order, in_lanes=in_lanes)
    instructions = prepare(lowered)
    if isinstance(callee, FunctionRegion):
        _write_function(m, callee, given, found, base, instructions)
    elif isinstance(callee, FixedLoop):
        _write_fixed_loop(m, callee, given, found, base, instructions)
    elif isinstance(callee, ForEach):
        _write_for_each(m, callee, given, found, base, instructions)
    elif isinstance(callee, CallsInTurn):
        _write_in_turn(m, callee, given.row, found, base, instructions)
    else:
        _write_while_loop(m, callee, given, found, base, instructions)


def _write_primitive(m: NativeMachine, primitive: Primitive, given: Slots, found: Slots) -> None:
    if not m.unrolled:
        primitive.write(m, given, found)
        return
    arguments = [m.load_slot(given, place) for place in range(primitive.argument_count)]
    results: list[Any] = [None] * primitive.result_count
    primitive.write(m, arguments, results)
    _store_all(m, found, results)


def _load_all(
    m: NativeMachine, memory: Slots, count: int, first: int = 0, base: Base | None = None
) -> list[Ref]:
    """Load contiguous values; records their locations in `base`, so that calls can copy them."""
    refs = [m.load_slot(memory, first + place) for place in range(count)]
    origins = getattr(base, "origins", None)
    if origins is not None and memory == Slots(memory.address):
        origins.update({ref: (memory.address, first + k) for k, ref in enumerate(refs)})
    return refs


def _load_many(m: NativeMachine, memory: Slots, count: int, base: Any) -> list[Ref]:
    """Load contiguous values; many of them where code uses them, so they must not change."""
    if isinstance(m, LlvmMachine) and count >= MANY_RESULTS:
        there = range(memory.offset, memory.offset + count)
        late: list[Ref] = base.callees.late_loads(m.target, base.origins, memory.address, there)
        return late
    return _load_all(m, memory, count, 0, base)


def _store_all(m: NativeMachine, memory: Slots, values: Sequence[Ref]) -> None:
    for place, value in enumerate(values):
        m.store_slot(memory, place, value)


def _move_all(m: NativeMachine, memory: Slots, values: Sequence[Ref], base: Base) -> None:
    """Store contiguous values, many of them by loops that copy from their locations."""
    origins = getattr(base, "origins", None)
    if isinstance(m, LlvmMachine) and origins is not None and len(values) >= MANY_RESULTS:
        store_values(m.target, m.stack_lines, values, origins, memory)
    else:
        _store_all(m, memory, values)


class EarlyStores:
    """Stores of many results of straight-line code as soon as each is known.

    Stored at the end of a long function, a result would be moved to the stack and back.
    """

    def __init__(
        self,
        m: LlvmMachine,
        there: Slots,
        places: Mapping[int, Sequence[int]],
        instructions: Sequence[Instruction],
    ) -> None:
        """Prepare to store; only arithmetic results are stored early.

        Args:
            m: The machine.
            there: Where results go.
            places: Their places there, by the numbers of the instructions that compute them.
            instructions: The code.
        """
        self._m, self._there = m, there
        self.places: dict[int, Sequence[int]] = {}
        """Places of the results that are stored early."""
        if len(places) >= MANY_RESULTS:
            arithmetic: set[int] = set()
            for i in instructions:
                copied = i.op == "copy" and i.args[0] in arithmetic
                if copied or i.op not in _UNCOMPUTED:
                    arithmetic.add(i.target)
            self.places = {k: places[k] for k in places if k in arithmetic}
        self._stored: dict[int, Ref] = {}

    def store(self, number: int, ref: Ref) -> None:
        """Store a result in its places."""
        for place in self.places.get(number, ()):
            fence_stores(self._m.target, len(self._stored))
            self._m.store_slot(self._there, place, ref)
            self._stored[place] = ref

    def finish(self, values: Sequence[Ref], origins: Origins) -> None:
        """Store the others, many of them by loops that copy from their locations."""
        m, there = self._m, self._there
        if not self._stored and len(values) < MANY_RESULTS:
            _store_all(m, there, values)
            return
        known = dict(origins)
        known.update({self._stored[k]: (there.address, there.offset + k) for k in self._stored})
        store_values(m.target, m.stack_lines, values, known, there)


_UNCOMPUTED = ("const", "truth", "input", "capture", "call", "result", "copy")
"""Operations whose results are constants, or in memory."""


def _write_function(
    m: NativeMachine,
    region: FunctionRegion,
    given: Arguments,
    found: Slots,
    base: Base,
    instructions: list[Instruction],
) -> None:
    body = _Body(region, base)
    if not isinstance(m, LlvmMachine):
        body.bind(region.inputs, given.load(m, 0, len(region.inputs), base))
        refs = emit_instructions(m.target, instructions, body)
        _store_all(m, found, [refs[root] for root in region.roots])
        return
    body.bind(region.inputs, given.late(base, m.target))
    places = {root: [place] for place, root in enumerate(region.roots)}
    early = EarlyStores(m, found, places, instructions)
    refs = emit_instructions(m.target, instructions, body, early.store)
    early.finish([refs[root] for root in region.roots], base.origins)  # type: ignore[attr-defined]


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
        # a float counter is exact, and the same in every language and lane
        index = m.load_slot(counter, 0)
        body.bind([loop.index], [index])
        body.bind(loop.states, _load_all(m, state, size))
        refs = emit_instructions(m.target, instructions, body)
        _store_all(m, state, [refs[root] for root in loop.roots])
        m.store_slot(counter, 0, m.add(index, m.constant(1.0)))
    _store_all(m, found, _load_all(m, state, size))


def _write_for_each(
    m: NativeMachine,
    region: ForEach,
    given: Arguments,
    found: Slots,
    base: Base,
    instructions: list[Instruction],
) -> None:
    body = _Body(region, base)
    body.bind(region.inputs, given.load(m, 0, len(region.inputs), base))
    counter = m.slots(1)
    m.store_slot(counter, 0, m.constant(0.0))
    for number in m.loop(0, region.repetitions):
        # counted in floats: exact, and the same in every language and lane
        index = m.load_slot(counter, 0)
        body.bind([region.index], [index])
        refs = emit_instructions(m.target, instructions, body)
        for place, root in enumerate(region.roots):
            m.store_slot(found, number * len(region.roots) + place, refs[root])
        m.store_slot(counter, 0, m.add(index, m.constant(1.0)))


def _write_in_turn(
    m: NativeMachine,
    region: CallsInTurn,
    given: Slots,
    found: Slots,
    base: Base,
    instructions: list[Instruction],
) -> None:
    body, shared, width = _Body(region, base), region.shared, len(region.roots)
    body.bind(region.inputs[:shared], _load_all(m, given, shared, 0, base))
    firsts = [m.table(places) for _, places in region.runs]
    for number in m.loop(0, region.calls):
        own: list[Ref] = []
        for table, (count, _) in zip(firsts, region.runs, strict=True):
            first = m.lookup(table, number) + shared
            own += [m.load_slot(given, first + k) for k in range(count)]
        body.bind(region.inputs[shared:], own)
        refs = emit_instructions(m.target, instructions, body)
        for place, root in enumerate(region.roots):
            m.store_slot(found, number * width + place, refs[root])


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
    count = size + len(loop.others)
    # many arguments are loaded where code uses them
    late = isinstance(m, LlvmMachine) and count >= MANY_RESULTS
    arguments = given.late(base, m.target) if late else given.load(m, 0, count, base)
    body.bind(loop.others, arguments[size:])
    state, counter = m.slots(size), m.slots(1)
    _move_all(m, state, arguments[:size], base)
    m.store_slot(counter, 0, m.constant(0.0))
    active_memory = m.truth_memory(True)
    first, rest = _split(instructions, loop.condition)
    for _ in m.repeat(loop.max_iterations):
        old = _load_many(m, state, size, base)
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
            if isinstance(m, LlvmMachine) and m.target.lanes == 1:
                # one case is active here
                _move_all(m, state, _load_many(m, after, size, base), base)
            else:
                for k in m.loop(0, size, independent=True):
                    kept = m.choose(active, m.load_slot(after, k), m.load_slot(state, k))
                    m.store_slot(state, k, kept)
        else:
            _store_all(m, state, [m.choose(active, *pair) for pair in zip(new, old, strict=True)])
        done = m.load_slot(counter, 0)
        m.store_slot(counter, 0, m.choose(active, m.add(done, m.constant(1.0)), done))
    unfinished = m.load_truth(active_memory)
    converged = m.choose(unfinished, m.constant(0.0), m.constant(1.0))
    last = [*_load_many(m, state, size, base), m.load_slot(counter, 0), converged]
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
    """Prepend inputs for the values of an earlier part that instructions use."""
    used = dict.fromkeys(a for instruction in rest for a in instruction.args if a in refs)
    return [*(Instruction("input", number, (), _Known(refs[number])) for number in used), *rest]
