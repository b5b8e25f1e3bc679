"""What the LLVM functions for one case and for many cases have in common."""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.native import elementary
from tiburon.native.callees import CalleeWriter, with_loads
from tiburon.native.fixed_arguments import TABLE, Places
from tiburon.native.llvm_target import LlvmTarget
from tiburon.native.machine import Slots
from tiburon.native.moves import Origins, store_numbers
from tiburon.native.target import Ref
from tiburon.trace.lower import Instruction

PARTIAL_SUMS = 4
"""Chains of additions that run side by side in the check for non-finite numbers."""


def function_attributes(lanes: int) -> str:
    """Give the attributes of a function on vectors of some width.

    LLVM must not turn loops and runs of stores into calls of `memcpy` or `memset` ("no-builtins"):
    the block that code is loaded into has no room for the way to functions outside of it.
    """
    width = 64 * lanes
    widths = f'"min-legal-vector-width"="{width}" "prefer-vector-width"="{width}"'
    return f'nounwind "no-builtins" {widths}' if lanes > 1 else 'nounwind "no-builtins"'


class FunctionWriter:
    """The function around straight-line code: where inputs come from, how calls are made.

    Attributes:
        target: The function's instructions.
        callees: The module's internal functions.
        inputs: Reference of each input element that was loaded.
        stack_lines: Stack arrays, which stand at the start of the function.
        origins: Array and place of values that were loaded from a stack array.
        destinations: Where the results of a call go, by its number; else to a stack array.
        settled: Slots of the table of fixed arguments that are filled, in the function that fills
            it; None in others.
    """

    def __init__(self, target: LlvmTarget, callees: CalleeWriter, vector_lanes: int) -> None:
        self.target = target
        self.callees = callees
        self.inputs: dict[tuple[int, int], Ref] = {}
        self.stack_lines: list[str] = []
        self._vector_lanes = vector_lanes
        self._packed: dict[int, LlvmTarget] = {}
        self.origins: Origins = {}
        self.destinations: dict[int, Ref] = {}
        self.settled: set[int] | None = None

    def load(self, instruction: Instruction) -> Ref:
        """Give the reference of an input, loaded before."""
        return self.inputs[instruction.payload]

    def constant(self, value: float) -> Ref:
        """Give a constant as part of the instruction."""
        return self.target.const(value)

    def call(self, instruction: Instruction, arguments: list[Ref]) -> list[Ref]:
        """Emit a call of a region or primitive."""
        if self.settled is not None:
            self._settle(self.callees.fixed.places(instruction.payload), arguments)
        return self.callees.call(
            self.target,
            self.stack_lines,
            self.origins,
            instruction.payload,
            arguments,
            self.destinations.get(instruction.target),
        )

    def _settle(self, places: Places, arguments: list[Ref]) -> None:
        """Emit the stores of fixed arguments that are not in their table yet."""
        assert self.settled is not None
        known = zip(places, arguments, strict=True)
        fresh = {p: a for p, a in known if p is not None and p not in self.settled}
        self.settled |= fresh.keys()
        run: list[Ref] = []
        for place in sorted(fresh):
            run.append(fresh[place])
            if place + 1 not in fresh:
                there = Slots(TABLE, offset=place + 1 - len(run))
                store_numbers(self.target, self.stack_lines, run, self.origins, there)
                run = []

    def sin_cos(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        """Emit sines and cosines; scalar angles share vectors."""
        if self.target.lanes > 1:
            return [elementary.sin_cos(self.target, angle) for angle in angles]
        width = self._vector_lanes
        return [
            pair
            for start in range(0, len(angles), width)
            for pair in self._sin_cos_packed(angles[start : start + width])
        ]

    def _sin_cos_packed(self, angles: list[Ref]) -> list[tuple[Ref, Ref]]:
        # even a single angle takes two lanes: scalar choices would become unpredictable branches
        lanes = 2
        while lanes < len(angles):
            lanes *= 2
        if lanes not in self._packed:
            self._packed[lanes] = LlvmTarget(lanes, fused=self.target.fused, prefix=f"v{lanes}_")
        vector = self._packed[lanes]
        vector.lines = self.target.lines
        sine, cosine = elementary.sin_cos(vector, pack(vector, angles))
        return [
            (unpack(vector, sine, lane), unpack(vector, cosine, lane))
            for lane in range(len(angles))
        ]

    def declarations(self) -> set[str]:
        """Give the declarations of the intrinsics this function uses."""
        used = [self.target, *self._packed.values()]
        return {line for target in used for line in target.declarations()}

    def module(self, header: str, body: Sequence[str]) -> str:
        """Put the module together: internal functions, this function, declarations."""
        declarations = self.declarations() | self.callees.declarations()
        function = [header, "entry:", *self.stack_lines, *with_loads(body), "}"]
        return "\n".join([*self.callees.functions(), *function, *sorted(declarations), ""])


def pack(target: LlvmTarget, scalars: Sequence[Ref]) -> Ref:
    """Emit one vector from scalars, the last repeated to fill it."""
    vector = "poison"
    for lane in range(target.lanes):
        scalar = scalars[min(lane, len(scalars) - 1)]
        vector = target.emit(
            f"insertelement {target.float_type} {vector}, double {scalar}, i64 {lane}"
        )
    return vector


def unpack(target: LlvmTarget, vector: Ref, lane: int) -> Ref:
    """Emit one lane of a vector."""
    return target.emit(f"extractelement {target.float_type} {vector}, i64 {lane}")


def element(target: LlvmTarget, kind: str, pointer: Ref, place: int | Ref) -> Ref:
    """Emit the address of an element of an array."""
    return target.emit(f"getelementptr {kind}, ptr {pointer}, i64 {place}")


def load(target: LlvmTarget, kind: str, pointer: Ref, place: int | Ref = 0) -> Ref:
    """Emit the load of an element of an array."""
    return target.emit(f"load {kind}, ptr {element(target, kind, pointer, place)}, align 8")


def add_to_sums(target: LlvmTarget, sums: Sequence[Ref], values: Sequence[Ref]) -> list[Ref]:
    """Emit additions of values to partial sums in turn."""
    result = list(sums)
    for place, value in enumerate(values):
        if len(result) < PARTIAL_SUMS:
            result.append(value)
        else:
            slot = place % len(result)
            result[slot] = target.add(result[slot], value)
    return result


def total(target: LlvmTarget, sums: Sequence[Ref]) -> Ref:
    """Emit the sum of partial sums, pair by pair."""
    left = list(sums)
    while len(left) > 1:
        odd = left[-1:] if len(left) % 2 else []
        pairs = zip(left[::2], left[1::2], strict=False)
        left = [target.add(a, b) for a, b in pairs] + odd
    return left[0] if left else target.const(0.0)
