"""Straight-line vector code as data, to be put into order and given registers.

LLVM does well on small functions. The thousands of instructions that a robot becomes need more
vector registers than there are, and then the time goes into storing and reloading numbers. How
many of those are needed is decided here: `StepRecorder` keeps every instruction as a step,
`order_steps` puts them into an order that needs few stores, `assemble_steps` gives them registers.
Each step is one exactly rounded or exact instruction, so the bits are those that LLVM's
code for the same target has.
"""

# ruff: noqa: D102 -- the protocol `Target` says what each instruction means

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tiburon.native.target import Ref

_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_FUSED = {
    (False, False): "fmadd",
    (False, True): "fmsub",
    (True, False): "fnmadd",
    (True, True): "fnmsub",
}


class Step(NamedTuple):
    """One instruction on vectors.

    Attributes:
        op: Its name in `tiburon.native.assembly`.
        result: The value it makes.
        args: The values it takes.
        by: How many bits to shift by, for shifts.
        wide: Whether its result is four numbers where all others are one.
    """

    op: str
    result: Ref
    args: tuple[Ref, ...]
    by: int = 0
    wide: bool = False


class StepRecorder:
    """A target (see `Target`) that keeps instructions as steps. Truth values are masks of bits.

    Attributes:
        fused: Whether `fma` rounds once; always, for hosts without it are left to LLVM.
        steps: What was recorded.
        constants: Place of each constant in their table, by bit pattern.
        wide: Whether four numbers at a time are worked on, where all else is one number.
        wide_values: Values of four numbers, where all others are one.
    """

    fused = True

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.constants: dict[int, int] = {}
        self._patterns: dict[Ref, int] = {}
        self._negated: dict[Ref, Ref] = {}
        self.wide = False
        self.wide_values: set[Ref] = set()

    def _record(self, op: str, *args: Ref, by: int = 0) -> Ref:
        result = f"s{len(self.steps)}"
        self.steps.append(Step(op, result, args, by, self.wide))
        if self.wide:
            self.wide_values.add(result)
        return result

    def int_const(self, value: int) -> Ref:
        pattern = value & _ALL
        place = self.constants.setdefault(pattern, len(self.constants))
        name = f"c{place}"
        self._patterns[name] = pattern
        return name

    def const(self, value: float) -> Ref:
        if value != value:
            value = float("nan")
        return self.int_const(struct.unpack("<Q", struct.pack("<d", value))[0])

    def bool_const(self, value: bool) -> Ref:
        return self.int_const(_ALL if value else 0)

    def is_constant(self, value: Ref) -> bool:
        """Tell whether a value is a constant of the table."""
        return value in self._patterns

    def copy(self, value: Ref) -> Ref:
        """Record the same value again, under a name of its own."""
        return self._record("copy", value)

    # one number and four

    def packed(self, numbers: Sequence[Ref]) -> Ref:
        """Record two, three or four numbers side by side; the last is repeated."""
        a, b, c, d = (numbers[min(k, len(numbers) - 1)] for k in range(4))
        self.wide = True
        packed = self._record("pair", a, b)
        if len(numbers) > 2:
            packed = self._record("quad", packed, self._record("pair", c, d))
        self.wide = False
        return packed

    def unpacked(self, packed: Ref, count: int) -> list[Ref]:
        """Record the first numbers of those side by side."""
        found = [packed, self._record("second", packed)]
        if count > 2:
            # two numbers, of which the second must not get lost
            self.wide = True
            found.append(self._record("upper", packed))
            self.wide = False
        if count > 3:
            found.append(self._record("second", found[2]))
        return found

    # float64 -> float64

    def add(self, a: Ref, b: Ref) -> Ref:
        return self._record("add", a, b)

    def sub(self, a: Ref, b: Ref) -> Ref:
        return self._record("sub", a, b)

    def mul(self, a: Ref, b: Ref) -> Ref:
        return self._record("mul", a, b)

    def div(self, a: Ref, b: Ref) -> Ref:
        return self._record("div", a, b)

    def neg(self, a: Ref) -> Ref:
        if a in self._patterns:
            return self.int_const(self._patterns[a] ^ _SIGN)
        result = self._record("xor", a, self.int_const(_SIGN))
        self._negated[result] = a
        return result

    def fma(self, a: Ref, b: Ref, c: Ref) -> Ref:
        # signs are part of the instruction; a negation that nobody else needs is dropped later
        flipped = (a in self._negated) != (b in self._negated)
        a, b = self._negated.get(a, a), self._negated.get(b, b)
        less = c in self._negated
        return self._record(_FUSED[flipped, less], a, b, self._negated.get(c, c))

    def sqrt(self, a: Ref) -> Ref:
        return self._record("sqrt", a)

    def abs(self, a: Ref) -> Ref:
        return self._record("and", a, self.int_const(_ALL ^ _SIGN))

    def floor(self, a: Ref) -> Ref:
        return self._record("floor", a)

    def copysign(self, magnitude: Ref, sign: Ref) -> Ref:
        return self.ior(self.abs(magnitude), self.iand(sign, self.int_const(_SIGN)))

    # float64 -> bool

    def less(self, a: Ref, b: Ref) -> Ref:
        return self._record("less", a, b)

    def less_equal(self, a: Ref, b: Ref) -> Ref:
        return self._record("less_equal", a, b)

    def equal(self, a: Ref, b: Ref) -> Ref:
        return self._record("equal", a, b)

    def is_nan(self, a: Ref) -> Ref:
        return self._record("unordered", a, a)

    # bool -> bool

    def logical_and(self, p: Ref, r: Ref) -> Ref:
        return self.iand(p, r)

    def logical_or(self, p: Ref, r: Ref) -> Ref:
        return self.ior(p, r)

    def logical_xor(self, p: Ref, r: Ref) -> Ref:
        return self.ixor(p, r)

    def logical_not(self, p: Ref) -> Ref:
        return self.ixor(p, self.bool_const(True))

    # choices

    def select(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        return self._record("choose", condition, a, b)

    def iselect(self, condition: Ref, i: Ref, j: Ref) -> Ref:
        return self.select(condition, i, j)

    # int64

    def bits(self, a: Ref) -> Ref:
        return a

    def double(self, i: Ref) -> Ref:
        return i

    def iadd(self, i: Ref, j: Ref) -> Ref:
        return self._record("iadd", i, j)

    def isub(self, i: Ref, j: Ref) -> Ref:
        return self._record("isub", i, j)

    def iand(self, i: Ref, j: Ref) -> Ref:
        return self._record("and", i, j)

    def ior(self, i: Ref, j: Ref) -> Ref:
        return self._record("or", i, j)

    def ixor(self, i: Ref, j: Ref) -> Ref:
        return self._record("xor", i, j)

    def shl(self, i: Ref, count: int) -> Ref:
        return self._record("shl", i, by=count)

    def lshr(self, i: Ref, count: int) -> Ref:
        return self._record("lshr", i, by=count)

    def ashr(self, i: Ref, count: int) -> Ref:
        # this hardware shifts 64-bit numbers without their sign; it is put back by a subtraction
        sign = self.int_const(1 << (63 - count))
        return self.isub(self.ixor(self.lshr(i, count), sign), sign)

    def iequal(self, i: Ref, j: Ref) -> Ref:
        return self._record("iequal", i, j)


def needed_steps(steps: list[Step], results: set[Ref]) -> list[Step]:
    """Leave out the steps that no result depends on."""
    wanted = set(results)
    kept = []
    for step in reversed(steps):
        if step.result in wanted:
            wanted.update(step.args)
            kept.append(step)
    kept.reverse()
    return kept
