"""Calls of regions and primitives in native code: one internal function for each callee.

A call stores its arguments in one stack array, calls, and loads the results from another.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.native.llvm_machine import LlvmMachine
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import Slots
from tiburon.native.target import Ref
from tiburon.trace.callee import Callee

Origins = dict[Ref, tuple[Ref, int]]
"""Array and place that results of calls were loaded from."""

SHORTEST_COPY = 16
"""Results that are handed on together, side by side, are copied by a loop from this number on."""

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

    def call(
        self,
        target: LlvmTarget,
        stack_lines: list[str],
        origins: Origins,
        callee: Callee,
        arguments: list[Ref],
    ) -> list[Ref]:
        """Emit a call into a target.

        Args:
            target: The function the call stands in.
            stack_lines: Lines at the very start of that function, for its stack arrays.
            origins: Where results of earlier calls in that function lie; the new ones are added.
            callee: What to call.
            arguments: References of the arguments.

        Returns:
            References of the results.
        """
        name = self._name(callee)
        kind = target.float_type
        given = _reserve(stack_lines, kind, len(arguments))
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


def _reserve(stack_lines: list[str], kind: str, count: int) -> Ref:
    array = f"%stack{len(stack_lines)}"
    stack_lines.append(f"  {array} = alloca [{max(count, 1)} x {kind}], align 64")
    return array


def runs_of(arguments: Sequence[Ref], origins: Origins) -> list[tuple[int, int, Slots | None]]:
    """Cut arguments into runs that lie side by side in a result array, and others.

    Returns:
        First argument, number of arguments, and where they lie (None: nowhere) of each run.
    """
    runs: list[tuple[int, int, Slots | None]] = []
    start = 0
    while start < len(arguments):
        end = start + 1
        known = origins.get(arguments[start])
        if known is None:
            while end < len(arguments) and arguments[end] not in origins:
                end += 1
            runs.append((start, end - start, None))
        else:
            array, first = known
            while end < len(arguments) and origins.get(arguments[end]) == (
                array,
                first + end - start,
            ):
                end += 1
            worth_it = end - start >= SHORTEST_COPY
            runs.append((start, end - start, Slots(array, offset=first) if worth_it else None))
        start = end
    return runs


def copy_run(
    target: LlvmTarget, stack_lines: list[str], origin: Slots, given: Slots, length: int
) -> None:
    """Emit a loop that copies numbers: in straight lines, hundreds of them compile for seconds."""
    m = LlvmMachine(target, "", stack_lines, labels=f"copy{len(stack_lines)}_")
    for place in m.loop(0, length):
        m.store_slot(given, place, m.load_slot(origin, place))
