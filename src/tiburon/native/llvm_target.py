"""Instructions as LLVM assembly text, for one value or for 2, 4 or 8 lanes at once."""

# ruff: noqa: D102 -- the protocol `Target` says what each instruction means

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from tiburon.native.target import Ref

_VECTOR_LOOP = (
    "!100 = distinct !{!100, !101}",
    '!101 = !{!"llvm.loop.vectorize.enable", i1 true}',
)
"""Asks LLVM for vectors, which it leaves alone elsewhere; shared by all loops that want them."""


class LlvmTarget:
    """Write LLVM assembly; see `Target` for the meaning of the instructions.

    No instruction carries a fast-math flag: LLVM may then neither fuse, split nor reorder them.

    Attributes:
        lanes: Numbers per value; 1 gives plain scalars.
        fused: Whether `fma` is the hardware's; otherwise it is written as a product and a sum.
        lines: The instructions so far, one per line, indented, without a line end.
        float_type: LLVM type of a float value ("double" or "<4 x double>").
        int_type: LLVM type of an int value.
        bool_type: LLVM type of a bool value.
    """

    def __init__(self, lanes: int = 1, *, fused: bool = True, prefix: str = "t") -> None:
        """Start with no instructions.

        Args:
            lanes: Numbers per value.
            fused: Use the hardware's fused multiply-add.
            prefix: How the names of fresh values begin; must differ from names used beside them.
        """
        self.lanes = lanes
        self.fused = fused
        self.lines: list[str] = []
        self.float_type = self._of("double")
        self.int_type = self._of("i64")
        self.bool_type = self._of("i1")
        self._suffix = "f64" if lanes == 1 else f"v{lanes}f64"
        self._prefix = prefix
        self._count = 0
        self._intrinsics: dict[str, int] = {}
        self._has_vector_loops = False
        self._tables: dict[str, str] = {}

    def _of(self, scalar: str) -> str:
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def _splat(self, scalar: str, text: str) -> Ref:
        return text if self.lanes == 1 else f"splat ({scalar} {text})"

    def emit(self, instruction: str) -> Ref:
        """Append any instruction that has a result, under a fresh name.

        Args:
            instruction: The text to the right of the equals sign.

        Returns:
            The fresh name.
        """
        self._count += 1
        name = f"%{self._prefix}{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def declarations(self) -> list[str]:
        """Give the declarations of what was used so far, one line each, sorted."""
        loops = list(_VECTOR_LOOP) if self._has_vector_loops else []
        return [*loops, *self._tables.values()] + [
            f"declare {self.float_type} @llvm.{name}.{self._suffix}"
            f"({', '.join([self.float_type] * arity)})"
            for name, arity in sorted(self._intrinsics.items())
        ]

    def table(self, values: Sequence[int]) -> Ref:
        """Give a row of constant indices; equal rows are one."""
        listed = ", ".join(f"i32 {value}" for value in values)
        # named by content, so that functions of one module share it
        name = f"@table_{hashlib.blake2b(listed.encode(), digest_size=12).hexdigest()}"
        self._tables[name] = f"{name} = internal constant [{len(values)} x i32] [{listed}]"
        return name

    def vector_loop(self) -> str:
        """Give what stands after the branch back of a loop that is to run in vectors."""
        self._has_vector_loops = True
        return ", !llvm.loop !100"

    def _intrinsic(self, name: str, *arguments: Ref) -> Ref:
        self._intrinsics[name] = len(arguments)
        listed = ", ".join(f"{self.float_type} {a}" for a in arguments)
        return self.emit(f"call {self.float_type} @llvm.{name}.{self._suffix}({listed})")

    def _float(self, operation: str, a: Ref, b: Ref) -> Ref:
        return self.emit(f"{operation} {self.float_type} {a}, {b}")

    def _int(self, operation: str, i: Ref, j: Ref) -> Ref:
        return self.emit(f"{operation} {self.int_type} {i}, {j}")

    def _bool(self, operation: str, p: Ref, r: Ref) -> Ref:
        return self.emit(f"{operation} {self.bool_type} {p}, {r}")

    def _choose(self, kind: str, condition: Ref, a: Ref, b: Ref) -> Ref:
        return self.emit(f"select {self.bool_type} {condition}, {kind} {a}, {kind} {b}")

    # float64 -> float64

    def const(self, value: float) -> Ref:
        if value != value:
            value = float("nan")
        (pattern,) = struct.unpack("<Q", struct.pack("<d", value))
        return self._splat("double", f"0x{pattern:016X}")

    def add(self, a: Ref, b: Ref) -> Ref:
        return self._float("fadd", a, b)

    def sub(self, a: Ref, b: Ref) -> Ref:
        return self._float("fsub", a, b)

    def mul(self, a: Ref, b: Ref) -> Ref:
        return self._float("fmul", a, b)

    def div(self, a: Ref, b: Ref) -> Ref:
        return self._float("fdiv", a, b)

    def neg(self, a: Ref) -> Ref:
        return self.emit(f"fneg {self.float_type} {a}")

    def fma(self, a: Ref, b: Ref, c: Ref) -> Ref:
        return self._intrinsic("fma", a, b, c) if self.fused else self.add(self.mul(a, b), c)

    def sqrt(self, a: Ref) -> Ref:
        return self._intrinsic("sqrt", a)

    def abs(self, a: Ref) -> Ref:
        return self._intrinsic("fabs", a)

    def floor(self, a: Ref) -> Ref:
        return self._intrinsic("floor", a)

    def copysign(self, magnitude: Ref, sign: Ref) -> Ref:
        return self._intrinsic("copysign", magnitude, sign)

    # float64 -> bool

    def less(self, a: Ref, b: Ref) -> Ref:
        return self._float("fcmp olt", a, b)

    def less_equal(self, a: Ref, b: Ref) -> Ref:
        return self._float("fcmp ole", a, b)

    def equal(self, a: Ref, b: Ref) -> Ref:
        return self._float("fcmp oeq", a, b)

    def is_nan(self, a: Ref) -> Ref:
        return self._float("fcmp uno", a, a)

    # bool -> bool

    def bool_const(self, value: bool) -> Ref:
        return self._splat("i1", "true" if value else "false")

    def logical_and(self, p: Ref, r: Ref) -> Ref:
        return self._bool("and", p, r)

    def logical_or(self, p: Ref, r: Ref) -> Ref:
        return self._bool("or", p, r)

    def logical_xor(self, p: Ref, r: Ref) -> Ref:
        return self._bool("xor", p, r)

    def logical_not(self, p: Ref) -> Ref:
        return self._bool("xor", p, self.bool_const(True))

    # choices

    def select(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        return self._choose(self.float_type, condition, a, b)

    def iselect(self, condition: Ref, i: Ref, j: Ref) -> Ref:
        return self._choose(self.int_type, condition, i, j)

    # int64

    def bits(self, a: Ref) -> Ref:
        return self.emit(f"bitcast {self.float_type} {a} to {self.int_type}")

    def double(self, i: Ref) -> Ref:
        return self.emit(f"bitcast {self.int_type} {i} to {self.float_type}")

    def int_const(self, value: int) -> Ref:
        return self._splat("i64", str(value - (1 << 64) if value >= 1 << 63 else value))

    def iadd(self, i: Ref, j: Ref) -> Ref:
        return self._int("add", i, j)

    def isub(self, i: Ref, j: Ref) -> Ref:
        return self._int("sub", i, j)

    def iand(self, i: Ref, j: Ref) -> Ref:
        return self._int("and", i, j)

    def ior(self, i: Ref, j: Ref) -> Ref:
        return self._int("or", i, j)

    def ixor(self, i: Ref, j: Ref) -> Ref:
        return self._int("xor", i, j)

    def shl(self, i: Ref, count: int) -> Ref:
        return self._int("shl", i, self.int_const(count))

    def lshr(self, i: Ref, count: int) -> Ref:
        return self._int("lshr", i, self.int_const(count))

    def ashr(self, i: Ref, count: int) -> Ref:
        return self._int("ashr", i, self.int_const(count))

    def iequal(self, i: Ref, j: Ref) -> Ref:
        return self._int("icmp eq", i, j)
