"""Calls of regions and primitives in native code: one internal function for each callee.

A call stores its arguments in one stack array, calls, and loads the results from another.
"""

from __future__ import annotations

from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.target import Ref
from tiburon.trace.callee import Callee


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
        self, target: LlvmTarget, stack_lines: list[str], callee: Callee, arguments: list[Ref]
    ) -> list[Ref]:
        """Emit a call into a target.

        Args:
            target: The function the call stands in.
            stack_lines: Lines at the very start of that function, for its stack arrays.
            callee: What to call.
            arguments: References of the arguments.

        Returns:
            References of the results.
        """
        name = self._name(callee)
        kind = target.float_type
        places: list[Ref] = []
        for count in (len(arguments), callee.result_count):
            array = f"%stack{len(stack_lines)}"
            stack_lines.append(f"  {array} = alloca [{max(count, 1)} x {kind}], align 64")
            places.append(array)
        for number, argument in enumerate(arguments):
            place = target.emit(f"getelementptr {kind}, ptr {places[0]}, i64 {number}")
            target.lines.append(f"  store {kind} {argument}, ptr {place}")
        target.lines.append(f"  call void @{name}(ptr {places[0]}, ptr {places[1]})")
        results = []
        for number in range(callee.result_count):
            place = target.emit(f"getelementptr {kind}, ptr {places[1]}, i64 {number}")
            results.append(target.emit(f"load {kind}, ptr {place}"))
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
