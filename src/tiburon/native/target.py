"""The instruction set that everything native is written in, independent of the output language.

A target is one output language (LLVM assembly, C). Each method appends one instruction to the
target's text and returns a reference to the result. Code written against this protocol is emitted
with the same instructions everywhere, and every instruction is exactly rounded or exact, so the
results agree bit for bit between languages and lane counts.

Three kinds of values exist: float64, int64 (two's complement, wrapping) and bool; a value may be
one number or one number per lane. There is no conversion between int64 and float64 by value, only
by bit pattern: vector hardware differs there, and adding 1.5 * 2**52 does the same with additions.
"""

from __future__ import annotations

from typing import Protocol

Ref = str
"""Name of a value, or a literal constant, in the text of one target. Opaque to the writer."""


class Target(Protocol):
    """One output language: every method emits one instruction and returns where its result is."""

    @property
    def fused(self) -> bool:
        """Whether `fma` rounds once. If not, it is a product followed by a sum, rounded twice."""

    # float64 -> float64
    def const(self, value: float) -> Ref:
        """Give a float constant (any value, with its sign of zero; NaN becomes the quiet NaN)."""

    def add(self, a: Ref, b: Ref) -> Ref:
        """Emit a + b."""

    def sub(self, a: Ref, b: Ref) -> Ref:
        """Emit a - b."""

    def mul(self, a: Ref, b: Ref) -> Ref:
        """Emit a * b."""

    def div(self, a: Ref, b: Ref) -> Ref:
        """Emit a / b."""

    def neg(self, a: Ref) -> Ref:
        """Emit -a (flips the sign bit, also of zero and NaN)."""

    def fma(self, a: Ref, b: Ref, c: Ref) -> Ref:
        """Emit a * b + c, rounded once if the target is `fused`."""

    def sqrt(self, a: Ref) -> Ref:
        """Emit the square root; NaN for a < 0."""

    def abs(self, a: Ref) -> Ref:
        """Emit |a| (clears the sign bit)."""

    def floor(self, a: Ref) -> Ref:
        """Emit the largest integer that is not above a, as a float."""

    def copysign(self, magnitude: Ref, sign: Ref) -> Ref:
        """Emit |magnitude| with the sign bit of `sign`."""

    # float64 -> bool; every comparison with NaN is false
    def less(self, a: Ref, b: Ref) -> Ref:
        """Emit a < b."""

    def less_equal(self, a: Ref, b: Ref) -> Ref:
        """Emit a <= b."""

    def equal(self, a: Ref, b: Ref) -> Ref:
        """Emit a == b."""

    def is_nan(self, a: Ref) -> Ref:
        """Emit whether a is NaN."""

    # bool -> bool
    def bool_const(self, value: bool) -> Ref:
        """Give a bool constant."""

    def logical_and(self, p: Ref, r: Ref) -> Ref:
        """Emit p and r."""

    def logical_or(self, p: Ref, r: Ref) -> Ref:
        """Emit p or r."""

    def logical_xor(self, p: Ref, r: Ref) -> Ref:
        """Emit whether exactly one of p and r holds."""

    def logical_not(self, p: Ref) -> Ref:
        """Emit not p."""

    # choices: both values are always computed
    def select(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        """Emit the float a where `condition` holds, else b."""

    def iselect(self, condition: Ref, i: Ref, j: Ref) -> Ref:
        """Emit the int i where `condition` holds, else j."""

    # int64
    def bits(self, a: Ref) -> Ref:
        """Emit the bit pattern of a float as an int."""

    def double(self, i: Ref) -> Ref:
        """Emit the float with the bit pattern i."""

    def int_const(self, value: int) -> Ref:
        """Give an int constant, -2**63 <= value < 2**64 (the upper half wraps to negative)."""

    def iadd(self, i: Ref, j: Ref) -> Ref:
        """Emit i + j, wrapping."""

    def isub(self, i: Ref, j: Ref) -> Ref:
        """Emit i - j, wrapping."""

    def iand(self, i: Ref, j: Ref) -> Ref:
        """Emit the bitwise and."""

    def ior(self, i: Ref, j: Ref) -> Ref:
        """Emit the bitwise or."""

    def ixor(self, i: Ref, j: Ref) -> Ref:
        """Emit the bitwise exclusive or."""

    def shl(self, i: Ref, count: int) -> Ref:
        """Emit i shifted left by 0 <= count < 64 bits."""

    def lshr(self, i: Ref, count: int) -> Ref:
        """Emit i shifted right by 0 <= count < 64 bits, filled with zeros."""

    def ashr(self, i: Ref, count: int) -> Ref:
        """Emit i shifted right by 0 <= count < 64 bits, filled with the sign."""

    def iequal(self, i: Ref, j: Ref) -> Ref:
        """Emit i == j as a bool."""
