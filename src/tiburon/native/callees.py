"""Calls of regions and primitives in native code: one internal function for each callee.

A call stores its arguments in one stack array, calls, and loads the results from another. Of many
results, only those are loaded that straight code reads; others are copied from where they lie.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tiburon.native.llvm_machine import LlvmMachine
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import Slots
from tiburon.native.target import Ref
from tiburon.record import record
from tiburon.trace.callee import Callee

Origins = dict[Ref, tuple[Ref, int]]
"""Array and place that results of calls were loaded from."""

SHORTEST_COPY = 16
"""Results that are handed on together are copied by a loop from this number on."""

LONG_COPY = 64
"""Neighbors that get a loop of their own, rather than being looked up one by one."""

MANY_RESULTS = 64
"""Results of one call from which on they are loaded only where straight code reads them."""

_LATE = re.compile(r"%late(\d+)_(\d+)")

STORES_AT_ONCE = 32
"""Arguments between fences. A fence is no instruction; it keeps LLVM from comparing the places of
hundreds of stores with each other, which takes it seconds."""


class CalleeWriter:
    """Collect the internal functions of one LLVM module.

    Attributes:
        lanes: Numbers per value.
        fused: Whether fused multiply-adds are used.
    """

    def __init__(self, lanes: int, *, fused: bool) -> None:
        self.lanes = lanes
        self.fused = fused
        self._names: dict[int, str] = {}
        self._functions: list[str] = []
        self._declarations: set[str] = set()
        self._late = 0

    def call(
        self,
        target: LlvmTarget,
        stack_lines: list[str],
        origins: Origins,
        callee: Callee,
        arguments: list[Ref],
        found: Ref | None = None,
    ) -> list[Ref]:
        """Emit a call into a target.

        Args:
            target: The function the call stands in.
            stack_lines: Lines at the very start of that function, for its stack arrays.
            origins: Where results of earlier calls in that function lie; the new ones are added.
            callee: What to call.
            arguments: References of the arguments.
            found: Where the results go; a stack array by default.

        Returns:
            References of the results.
        """
        name = self._name(callee)
        kind = target.float_type
        given = _reserve(stack_lines, kind, len(arguments))
        if found is None:
            found = _reserve(stack_lines, kind, callee.result_count)
        stored = 0
        for start, length, origin in runs_of(arguments, origins):
            if origin is None:
                for number in range(start, start + length):
                    if len(arguments) > STORES_AT_ONCE and stored % STORES_AT_ONCE == 0:
                        target.lines.append('  fence syncscope("singlethread") seq_cst')
                    place = target.emit(f"getelementptr {kind}, ptr {given}, i64 {number}")
                    target.lines.append(f"  store {kind} {arguments[number]}, ptr {place}")
                    stored += 1
            else:
                copy_run(target, stack_lines, origin, Slots(given, offset=start), length)
        target.lines.append(f"  call void @{name}(ptr {given}, ptr {found})")
        results = []
        if callee.result_count >= MANY_RESULTS:
            self._late += 1
            results = [f"%late{self._late}_{k}" for k in range(callee.result_count)]
            target.lines.append(_LateLoads(self._late, kind, found))
            origins.update({ref: (found, k) for k, ref in enumerate(results)})
            return results
        for number in range(callee.result_count):
            place = target.emit(f"getelementptr {kind}, ptr {found}, i64 {number}")
            results.append(target.emit(f"load {kind}, ptr {place}"))
            origins[results[-1]] = found, number
        return results

    def _name(self, callee: Callee) -> str:
        if callee.key not in self._names:
            from tiburon.native.callee_bodies import emit_callee

            name = f"callee{len(self._names)}"
            self._names[callee.key] = name
            # the body may call further callees, whose functions then come first
            text, declarations = emit_callee(name, callee, self)
            self._functions.append(text)
            self._declarations |= declarations
        return self._names[callee.key]

    def functions(self) -> list[str]:
        """Give the texts of all internal functions."""
        return list(self._functions)

    def declarations(self) -> set[str]:
        """Give the declarations of the intrinsics they use."""
        return set(self._declarations)


class _LateLoads(str):
    """A line that stands for the loads of a call's results."""

    call: int
    kind: str
    array: Ref

    def __new__(cls, call: int, kind: str, array: Ref) -> _LateLoads:
        line = super().__new__(cls, "  ; results")
        line.call, line.kind, line.array = call, kind, array
        return line


def with_loads(lines: Sequence[str]) -> list[str]:
    """Return the lines of a function with those loads of calls' results that it needs."""
    if not any(isinstance(line, _LateLoads) for line in lines):
        return list(lines)
    used: dict[int, set[int]] = {}
    for line in lines:
        if "%late" in line:
            for call, number in _LATE.findall(line):
                used.setdefault(int(call), set()).add(int(number))
    filled: list[str] = []
    for line in lines:
        filled.append(line)
        if isinstance(line, _LateLoads):
            for number in sorted(used.get(line.call, ())):
                name = f"%late{line.call}_{number}"
                filled += [
                    f"  {name}p = getelementptr {line.kind}, ptr {line.array}, i64 {number}",
                    f"  {name} = load {line.kind}, ptr {name}p",
                ]
    return filled


def _reserve(stack_lines: list[str], kind: str, count: int) -> Ref:
    array = f"%stack{len(stack_lines)}"
    stack_lines.append(f"  {array} = alloca [{max(count, 1)} x {kind}], align 64")
    return array


@record
class Scattered:
    """Numbers of one array that do not lie side by side."""

    address: Ref
    places: tuple[int, ...]


def runs_of(
    arguments: Sequence[Ref], origins: Origins
) -> list[tuple[int, int, Slots | Scattered | None]]:
    """Cut arguments into runs that lie in one result array, and others.

    Returns:
        First argument, number of arguments, and where they lie (None: nowhere) of each run.
    """
    runs: list[tuple[int, int, Slots | Scattered | None]] = []
    start = 0
    while start < len(arguments):
        end = start + 1
        known = origins.get(arguments[start])
        if known is None:
            while end < len(arguments) and arguments[end] not in origins:
                end += 1
            runs.append((start, end - start, None))
        else:
            array = known[0]
            places = [known[1]]
            while end < len(arguments):
                following = origins.get(arguments[end])
                if following is None or following[0] != array:
                    break
                places.append(following[1])
                end += 1
            runs += [(start + k, length, run) for k, length, run in _runs_in(array, places)]
        start = end
    return runs


def _runs_in(array: Ref, places: list[int]) -> list[tuple[int, int, Slots | Scattered | None]]:
    """Cut places in one array into long runs of neighbors, and what is between them."""
    runs: list[tuple[int, int, Slots | Scattered | None]] = []

    def between(start: int, end: int) -> None:
        if end - start >= SHORTEST_COPY:
            runs.append((start, end - start, Scattered(array, tuple(places[start:end]))))
        elif end > start:
            runs.append((start, end - start, None))

    waiting = start = 0
    for end in range(1, len(places) + 1):
        if end < len(places) and places[end] == places[end - 1] + 1:
            continue
        if end - start >= LONG_COPY or end - start == len(places) >= SHORTEST_COPY:
            between(waiting, start)
            runs.append((start, end - start, Slots(array, offset=places[start])))
            waiting = end
        start = end
    between(waiting, len(places))
    return runs


def copy_run(
    target: LlvmTarget,
    stack_lines: list[str],
    origin: Slots | Scattered,
    given: Slots,
    length: int,
) -> None:
    """Emit a loop that copies numbers: in straight lines, hundreds of them compile for seconds."""
    m = LlvmMachine(target, "", stack_lines, labels=f"copy{len(stack_lines)}_")
    if isinstance(origin, Slots):
        for place in m.loop(0, length, independent=True):
            m.store_slot(given, place, m.load_slot(origin, place))
        return
    table = target.table(origin.places)
    for place in m.loop(0, length):
        there = m.lookup_index(table, place)
        m.store_slot(given, place, m.load_slot(Slots(origin.address), there))
