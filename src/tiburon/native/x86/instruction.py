"""Straight-line vector code as data: the input of scheduling and register allocation.

`InstructionRecorder` implements the `Target` protocol and keeps each instruction as an
`X86Instruction` on virtual registers.
"""

# ruff: noqa: D102 -- the protocol `Target` documents each instruction

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tiburon.native.target import Ref

_SIGN_BIT = 1 << 63
_ONE = 0x3FF0000000000000
_ALL_BITS = (1 << 64) - 1
# by whether the product and the addend are negated
_FUSED_OPS = {
    (False, False): "fmadd",
    (False, True): "fmsub",
    (True, False): "fnmadd",
    (True, True): "fnmsub",
}


class X86Instruction(NamedTuple):
    """One instruction on virtual registers.

    Attributes:
        op: Operation; `tiburon.native.x86.register_allocation` has the mnemonics.
        result: Value it defines.
        args: Values it reads.
        shift: Number of bits, for shifts.
        packed: Whether its result has four floats in code whose values are scalars.
    """

    op: str
    result: Ref
    args: tuple[Ref, ...]
    shift: int = 0
    packed: bool = False


class InstructionRecorder:
    """A target (see `Target`) that records instructions. Bools are bit masks.

    Attributes:
        fused: Whether `fma` rounds once; always True, since hosts without FMA use LLVM.
        instructions: The recorded instructions.
        constants: Index of each constant in the constant table, by bit pattern; by four patterns
            if lanes differ.
        packed: Whether instructions recorded now work on four floats in scalar code.
        packed_values: Values of four floats in scalar code.
    """

    fused = True

    def __init__(self) -> None:
        self.instructions: list[X86Instruction] = []
        self.constants: dict[int | tuple[int, ...], int] = {}
        self._patterns: dict[Ref, int | tuple[int, ...]] = {}
        self._negated: dict[Ref, Ref] = {}
        self.packed = False
        self.packed_values: set[Ref] = set()

    def _record(self, op: str, *args: Ref, shift: int = 0) -> Ref:
        result = f"s{len(self.instructions)}"
        self.instructions.append(X86Instruction(op, result, args, shift, self.packed))
        if self.packed:
            self.packed_values.add(result)
        return result

    def int_const(self, value: int) -> Ref:
        return self._constant(value & _ALL_BITS)

    def _constant(self, pattern: int | tuple[int, ...]) -> Ref:
        index = self.constants.setdefault(pattern, len(self.constants))
        name = f"c{index}"
        self._patterns[name] = pattern
        return name

    def lane_constant(self, constants: Sequence[Ref]) -> Ref:
        """Return a constant with a value for each lane; the last one is repeated."""
        if len(set(constants)) == 1:
            return constants[0]
        patterns = [self._patterns[constants[min(k, len(constants) - 1)]] for k in range(4)]
        return self._constant(tuple(p for p in patterns if isinstance(p, int)))

    def const(self, value: float) -> Ref:
        if value != value:
            value = float("nan")
        return self.int_const(struct.unpack("<Q", struct.pack("<d", value))[0])

    def bool_const(self, value: bool) -> Ref:
        return self.int_const(_ALL_BITS if value else 0)

    def is_constant(self, value: Ref) -> bool:
        """Return whether a value is in the constant table."""
        return value in self._patterns

    def copy(self, value: Ref) -> Ref:
        """Record a copy of a value under a new name."""
        return self._record("copy", value)

    def broadcast(self, scalar: Ref) -> Ref:
        """Record a copy of one float to all lanes."""
        return self._record("broadcast", scalar)

    # between scalars and packed values

    def pack(self, scalars: Sequence[Ref]) -> Ref:
        """Record the packing of two, three or four scalars; the last one is repeated."""
        a, b, c, d = (scalars[min(k, len(scalars) - 1)] for k in range(4))
        self.packed = True
        result = self._record("pair", a, b)
        if len(scalars) > 2:
            result = self._record("quad", result, self._record("pair", c, d))
        self.packed = False
        return result

    def unpack(self, value: Ref, count: int) -> list[Ref]:
        """Record the extraction of the first scalars of a packed value."""
        scalars = [value, self._record("second", value)]
        if count > 2:
            # the upper half keeps both of its floats, so it is packed as well
            self.packed = True
            scalars.append(self._record("upper", value))
            self.packed = False
        if count > 3:
            scalars.append(self._record("second", scalars[2]))
        return scalars

    # float64 -> float64

    def add(self, a: Ref, b: Ref) -> Ref:
        if b in self._negated:
            return self._record("sub", a, self._negated[b])
        if a in self._negated:
            return self._record("sub", b, self._negated[a])
        return self._record("add", a, b)

    def sub(self, a: Ref, b: Ref) -> Ref:
        if b in self._negated:
            return self._record("add", a, self._negated[b])
        return self._record("sub", a, b)

    def mul(self, a: Ref, b: Ref) -> Ref:
        # signs of mirrored branches, which are constants in the code of each
        for sign, factor in ((a, b), (b, a)):
            if self._patterns.get(sign) == _ONE:
                return factor
            if self._patterns.get(sign) == _ONE ^ _SIGN_BIT:
                return self.neg(factor)
        return self._record("mul", a, b)

    def div(self, a: Ref, b: Ref) -> Ref:
        return self._record("div", a, b)

    def neg(self, a: Ref) -> Ref:
        if a in self._patterns:
            pattern = self._patterns[a]
            if isinstance(pattern, int):
                return self._constant(pattern ^ _SIGN_BIT)
            return self._constant(tuple(x ^ _SIGN_BIT for x in pattern))
        result = self._record("xor", a, self.int_const(_SIGN_BIT))
        self._negated[result] = a
        return result

    def fma(self, a: Ref, b: Ref, c: Ref) -> Ref:
        # FMA encodes the signs; dead-code elimination removes negations without other readers
        negated_product = (a in self._negated) != (b in self._negated)
        a, b = self._negated.get(a, a), self._negated.get(b, b)
        op = _FUSED_OPS[negated_product, c in self._negated]
        return self._record(op, a, b, self._negated.get(c, c))

    def sqrt(self, a: Ref) -> Ref:
        return self._record("sqrt", a)

    def abs(self, a: Ref) -> Ref:
        return self._record("and", a, self.int_const(_ALL_BITS ^ _SIGN_BIT))

    def floor(self, a: Ref) -> Ref:
        return self._record("floor", a)

    def copysign(self, magnitude: Ref, sign: Ref) -> Ref:
        return self.ior(self.abs(magnitude), self.iand(sign, self.int_const(_SIGN_BIT)))

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

    # selection

    def select(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        return self._record("select", condition, a, b)

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
        return self._record("shl", i, shift=count)

    def lshr(self, i: Ref, count: int) -> Ref:
        return self._record("lshr", i, shift=count)

    def ashr(self, i: Ref, count: int) -> Ref:
        # AVX2 has no arithmetic shift of 64-bit integers; a subtraction restores the sign
        sign = self.int_const(1 << (63 - count))
        return self.isub(self.ixor(self.lshr(i, count), sign), sign)

    def iequal(self, i: Ref, j: Ref) -> Ref:
        return self._record("iequal", i, j)


def live_instructions(
    instructions: Sequence[X86Instruction], results: set[Ref]
) -> list[X86Instruction]:
    """Eliminate dead code: keep the instructions that results depend on."""
    live = set(results)
    kept = []
    for instruction in reversed(instructions):
        if instruction.result in live:
            live.update(instruction.args)
            kept.append(instruction)
    kept.reverse()
    return kept
