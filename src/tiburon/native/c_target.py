"""Instructions as C99 text, for one value at a time."""

# ruff: noqa: D102 -- the protocol `Target` says what each instruction means

from __future__ import annotations

from tiburon.native.target import Ref

_PRELUDE = """\
/* compile with -ffp-contract=off: the compiler must not fuse what is written apart */
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int64_t tb_bits(double a) { int64_t i; memcpy(&i, &a, sizeof i); return i; }
static inline double tb_double(int64_t i) { double a; memcpy(&a, &i, sizeof a); return a; }
static inline int64_t tb_signed(uint64_t u) { int64_t i; memcpy(&i, &u, sizeof i); return i; }
static inline int64_t tb_ashr(int64_t i, int count) { return i < 0 ? ~(~i >> count) : i >> count; }
"""


class CTarget:
    """Write C99; see `Target` for the meaning of the instructions.

    Floats are `double`, ints `int64_t`, bools `int` (0 or 1). The text needs the `prelude` before
    it and a compiler told not to contract (`-ffp-contract=off`).

    Attributes:
        fused: Whether `fma` is the one of `math.h`; otherwise it is written as a product and a sum.
        lines: The statements so far, one per line, indented, without a line end.
    """

    def __init__(self, *, fused: bool = True, prefix: str = "t") -> None:
        """Start with no statements.

        Args:
            fused: Call `fma`, which rounds once.
            prefix: How the names of fresh values begin; must differ from names used beside them.
        """
        self.fused = fused
        self.lines: list[str] = []
        self._prefix = prefix
        self._count = 0

    def prelude(self) -> str:
        """Give the includes and helper functions that the statements rely on."""
        return _PRELUDE

    def emit(self, kind: str, expression: str) -> Ref:
        """Append the definition of a constant under a fresh name.

        Args:
            kind: C type of the value.
            expression: Its value.

        Returns:
            The fresh name.
        """
        self._count += 1
        name = f"{self._prefix}{self._count}"
        self.lines.append(f"    const {kind} {name} = {expression};")
        return name

    def _float(self, expression: str) -> Ref:
        return self.emit("double", expression)

    def _int(self, expression: str) -> Ref:
        return self.emit("int64_t", expression)

    def _bool(self, expression: str) -> Ref:
        return self.emit("int", expression)

    # float64 -> float64

    def const(self, value: float) -> Ref:
        if value != value:
            return "NAN"
        if value in (float("inf"), float("-inf")):
            return "INFINITY" if value > 0.0 else "(-INFINITY)"
        return value.hex() if value.hex()[0] != "-" else f"({value.hex()})"

    def add(self, a: Ref, b: Ref) -> Ref:
        return self._float(f"{a} + {b}")

    def sub(self, a: Ref, b: Ref) -> Ref:
        return self._float(f"{a} - {b}")

    def mul(self, a: Ref, b: Ref) -> Ref:
        return self._float(f"{a} * {b}")

    def div(self, a: Ref, b: Ref) -> Ref:
        return self._float(f"{a} / {b}")

    def neg(self, a: Ref) -> Ref:
        return self._float(f"-{a}")

    def fma(self, a: Ref, b: Ref, c: Ref) -> Ref:
        return self._float(f"fma({a}, {b}, {c})") if self.fused else self.add(self.mul(a, b), c)

    def sqrt(self, a: Ref) -> Ref:
        return self._float(f"sqrt({a})")

    def abs(self, a: Ref) -> Ref:
        return self._float(f"fabs({a})")

    def floor(self, a: Ref) -> Ref:
        return self._float(f"floor({a})")

    def copysign(self, magnitude: Ref, sign: Ref) -> Ref:
        return self._float(f"copysign({magnitude}, {sign})")

    # float64 -> bool

    def less(self, a: Ref, b: Ref) -> Ref:
        return self._bool(f"{a} < {b}")

    def less_equal(self, a: Ref, b: Ref) -> Ref:
        return self._bool(f"{a} <= {b}")

    def equal(self, a: Ref, b: Ref) -> Ref:
        return self._bool(f"{a} == {b}")

    def is_nan(self, a: Ref) -> Ref:
        return self._bool(f"{a} != {a}")

    # bool -> bool

    def bool_const(self, value: bool) -> Ref:
        return "1" if value else "0"

    def logical_and(self, p: Ref, r: Ref) -> Ref:
        return self._bool(f"{p} & {r}")

    def logical_or(self, p: Ref, r: Ref) -> Ref:
        return self._bool(f"{p} | {r}")

    def logical_xor(self, p: Ref, r: Ref) -> Ref:
        return self._bool(f"{p} ^ {r}")

    def logical_not(self, p: Ref) -> Ref:
        return self._bool(f"!{p}")

    # choices

    def select(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        return self._float(f"{condition} ? {a} : {b}")

    def iselect(self, condition: Ref, i: Ref, j: Ref) -> Ref:
        return self._int(f"{condition} ? {i} : {j}")

    # int64; sums and left shifts go through uint64_t, where wrapping is defined

    def bits(self, a: Ref) -> Ref:
        return self._int(f"tb_bits({a})")

    def double(self, i: Ref) -> Ref:
        return self._float(f"tb_double({i})")

    def int_const(self, value: int) -> Ref:
        if value >= 1 << 63:
            value -= 1 << 64
        if value == -(1 << 63):
            return "INT64_MIN"
        return f"INT64_C({value})" if value >= 0 else f"(-INT64_C({-value}))"

    def iadd(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"tb_signed((uint64_t){i} + (uint64_t){j})")

    def isub(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"tb_signed((uint64_t){i} - (uint64_t){j})")

    def iand(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"{i} & {j}")

    def ior(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"{i} | {j}")

    def ixor(self, i: Ref, j: Ref) -> Ref:
        return self._int(f"{i} ^ {j}")

    def shl(self, i: Ref, count: int) -> Ref:
        return self._int(f"tb_signed((uint64_t){i} << {count})")

    def lshr(self, i: Ref, count: int) -> Ref:
        return self._int(f"tb_signed((uint64_t){i} >> {count})")

    def ashr(self, i: Ref, count: int) -> Ref:
        return self._int(f"tb_ashr({i}, {count})")

    def iequal(self, i: Ref, j: Ref) -> Ref:
        return self._bool(f"{i} == {j}")
