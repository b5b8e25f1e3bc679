"""Calls of regions and primitives in native code: one internal function for each callee.

A call stores its arguments in one stack array, calls, and loads the results from another. Of many
results, only those are loaded that straight code reads; others are copied from where they lie.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tiburon.native.fixed_arguments import NOTHING_FIXED, TABLE, FixedArguments
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import Slots
from tiburon.native.moves import Origins, store_numbers
from tiburon.native.target import Ref
from tiburon.trace.callee import Callee

MANY_RESULTS = 64
"""Results of one call from which on they are loaded only where straight code reads them."""

_LATE = re.compile(r"%late(\d+)_(\d+)")


class CalleeWriter:
    """Collect the internal functions of one LLVM module.

    Attributes:
        lanes: Numbers per value.
        fused: Whether fused multiply-adds are used.
        fixed: Arguments that are the same at every call.
    """

    def __init__(self, lanes: int, *, fused: bool, fixed: FixedArguments = NOTHING_FIXED) -> None:
        self.lanes = lanes
        self.fused = fused
        self.fixed = fixed
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
        places = self.fixed.places(callee)
        passed = [a for a, place in zip(arguments, places, strict=True) if place is None]
        given = _reserve(stack_lines, kind, len(passed))
        if found is None:
            found = _reserve(stack_lines, kind, callee.result_count)
        store_numbers(target, stack_lines, passed, origins, Slots(given))
        table = f", ptr {TABLE}" if len(passed) < len(arguments) else ""
        target.lines.append(f"  call void @{name}(ptr {given}, ptr {found}{table})")
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
