"""Every instruction means the same in LLVM assembly, in C, and in Python."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.native.emitted import COMPILER, Emitted, Writer, compile_c, compile_llvm
from tiburon.native.c_source import CTarget
from tiburon.native.llvm import LlvmTarget

LANES = [1, 2, 4, 8]
SPECIAL = [0.0, 5e-324, 1e-310, 0.5, 1.0, 1.5, 2.0, 2.5, 1e16, 1e300, math.inf, math.nan]
SPECIAL = [*SPECIAL, *[-a for a in SPECIAL]]


def pattern(a: float) -> int:
    return struct.unpack("<q", struct.pack("<d", a))[0]


def unsigned(i: int) -> int:
    return i % (1 << 64)


def as_float(i: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", unsigned(i)))[0]


def truth(condition: bool) -> float:
    return 1.0 if condition else 0.0


def in_bool(write: Callable[..., str]) -> Writer:
    """Make 1.0 and 0.0 of a bool result."""
    return lambda t, a, b: t.select(write(t, a, b), t.const(1.0), t.const(0.0))


def in_int(write: Callable[..., str]) -> Writer:
    """Feed the bit patterns of the arguments, and give back the float of the resulting pattern."""
    return lambda t, a, b: t.double(write(t, t.bits(a), t.bits(b)))


def on_signs(write: Callable[..., str]) -> Writer:
    """Feed whether each argument is negative."""
    return in_bool(lambda t, a, b: write(t, t.less(a, t.const(0.0)), t.less(b, t.const(0.0))))


def with_numpy(function: Callable[..., float]) -> Callable[[float, float], float]:
    def value(a: float, b: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(np.float64(a), np.float64(b)))

    return value


WIDE = 0x0123456789ABCDEF

# name: what is emitted, and what Python says it is
INSTRUCTIONS: dict[str, tuple[Writer, Callable[[float, float], float]]] = {
    "const": (lambda t, a, b: t.add(t.const(-0.1), t.const(1e-320)), lambda a, b: -0.1 + 1e-320),
    "const_infinite": (lambda t, a, b: t.const(-math.inf), lambda a, b: -math.inf),
    "const_negative_zero": (lambda t, a, b: t.const(-0.0), lambda a, b: -0.0),
    "const_nan": (lambda t, a, b: t.const(math.nan), lambda a, b: math.nan),
    "add": (lambda t, a, b: t.add(a, b), with_numpy(np.add)),
    "sub": (lambda t, a, b: t.sub(a, b), with_numpy(np.subtract)),
    "mul": (lambda t, a, b: t.mul(a, b), with_numpy(np.multiply)),
    "div": (lambda t, a, b: t.div(a, b), with_numpy(np.divide)),
    "neg": (lambda t, a, b: t.neg(a), lambda a, b: -a),
    "neg_constant": (lambda t, a, b: t.neg(t.const(-2.0)), lambda a, b: 2.0),
    "sub_negative": (lambda t, a, b: t.sub(a, t.const(-2.0)), lambda a, b: a + 2.0),
    "sqrt": (lambda t, a, b: t.sqrt(a), with_numpy(lambda a, b: np.sqrt(a))),
    "abs": (lambda t, a, b: t.abs(a), lambda a, b: abs(a)),
    "floor": (lambda t, a, b: t.floor(a), with_numpy(lambda a, b: np.floor(a))),
    "copysign": (lambda t, a, b: t.copysign(a, b), math.copysign),
    "less": (in_bool(lambda t, a, b: t.less(a, b)), lambda a, b: truth(a < b)),
    "less_equal": (in_bool(lambda t, a, b: t.less_equal(a, b)), lambda a, b: truth(a <= b)),
    "equal": (in_bool(lambda t, a, b: t.equal(a, b)), lambda a, b: truth(a == b)),
    "is_nan": (in_bool(lambda t, a, b: t.is_nan(a)), lambda a, b: truth(a != a)),
    "bool_const": (in_bool(lambda t, a, b: t.bool_const(True)), lambda a, b: 1.0),
    "bool_const_false": (in_bool(lambda t, a, b: t.bool_const(False)), lambda a, b: 0.0),
    "logical_and": (
        on_signs(lambda t, p, r: t.logical_and(p, r)),
        lambda a, b: truth(a < 0 and b < 0),
    ),
    "logical_or": (
        on_signs(lambda t, p, r: t.logical_or(p, r)),
        lambda a, b: truth(a < 0 or b < 0),
    ),
    "logical_xor": (
        on_signs(lambda t, p, r: t.logical_xor(p, r)),
        lambda a, b: truth((a < 0) != (b < 0)),
    ),
    "logical_not": (on_signs(lambda t, p, r: t.logical_not(p)), lambda a, b: truth(not a < 0)),
    "select": (lambda t, a, b: t.select(t.less(a, b), a, b), lambda a, b: a if a < b else b),
    "iselect": (
        lambda t, a, b: t.double(t.iselect(t.less(a, b), t.bits(b), t.bits(a))),
        lambda a, b: b if a < b else a,
    ),
    "int_const": (
        in_int(lambda t, i, j: t.ixor(i, t.int_const(WIDE))),
        lambda a, b: as_float(pattern(a) ^ WIDE),
    ),
    "int_const_negative": (
        in_int(lambda t, i, j: t.iand(i, t.int_const(-(1 << 40)))),
        lambda a, b: as_float(pattern(a) & -(1 << 40)),
    ),
    "int_const_lowest": (
        in_int(lambda t, i, j: t.ixor(i, t.int_const(-(1 << 63)))),
        lambda a, b: -a,
    ),
    "int_const_upper_half": (
        in_int(lambda t, i, j: t.ixor(i, t.int_const(1 << 63))),
        lambda a, b: -a,
    ),
    "iadd": (
        in_int(lambda t, i, j: t.iadd(i, j)),
        lambda a, b: as_float(pattern(a) + pattern(b)),
    ),
    "isub": (
        in_int(lambda t, i, j: t.isub(i, j)),
        lambda a, b: as_float(pattern(a) - pattern(b)),
    ),
    "iand": (
        in_int(lambda t, i, j: t.iand(i, j)),
        lambda a, b: as_float(pattern(a) & pattern(b)),
    ),
    "ior": (in_int(lambda t, i, j: t.ior(i, j)), lambda a, b: as_float(pattern(a) | pattern(b))),
    "ixor": (in_int(lambda t, i, j: t.ixor(i, j)), lambda a, b: as_float(pattern(a) ^ pattern(b))),
    "shl": (in_int(lambda t, i, j: t.shl(i, 3)), lambda a, b: as_float(pattern(a) << 3)),
    "lshr": (
        in_int(lambda t, i, j: t.lshr(i, 5)),
        lambda a, b: as_float(unsigned(pattern(a)) >> 5),
    ),
    "ashr": (in_int(lambda t, i, j: t.ashr(i, 5)), lambda a, b: as_float(pattern(a) >> 5)),
    "iequal": (
        in_bool(lambda t, a, b: t.iequal(t.bits(a), t.bits(b))),
        lambda a, b: truth(pattern(a) == pattern(b)),
    ),
}


def operands() -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special numbers, and random ones of many sizes; NaN stay the quiet one."""
    rng = np.random.default_rng(7)
    a, b = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    wild = [rng.normal(size=200) * np.exp2(rng.uniform(-300, 300, 200)) for _ in range(2)]
    return np.concatenate([a, wild[0]]), np.concatenate([b, wild[1]])


def check(found: np.ndarray, expected: Callable[[float, float], float], name: str) -> None:
    a, b = operands()
    wanted = np.array([expected(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    equal = found.view(np.int64) == wanted.view(np.int64)
    wrong = ~(equal | (np.isnan(found) & np.isnan(wanted)))
    cases = [*zip(a[wrong], b[wrong], found[wrong], wanted[wrong], strict=True)]
    assert not cases, (name, cases[:3])


def write_all(t: LlvmTarget | CTarget, a: str, b: str) -> tuple[str, ...]:
    """Write all instructions into one function: compiling each by itself takes seconds."""
    return tuple(write(t, a, b) for write, _ in INSTRUCTIONS.values())


def check_all(every: Emitted) -> None:
    found = every(*operands())
    for row, (name, (_, expected)) in zip(found, INSTRUCTIONS.items(), strict=True):
        check(row, expected, name)


@pytest.mark.parametrize("lanes", LANES)
def test_llvm_instructions_do_what_python_does(lanes: int) -> None:
    check_all(compile_llvm(write_all, arity=2, lanes=lanes))


@pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc) on this machine")
def test_c_instructions_do_what_python_does(tmp_path: Path) -> None:
    check_all(compile_c(write_all, tmp_path, arity=2))


# (1 + e)(1 - e) - 1 is -e^2 rounded once, and 0 rounded twice
E = 2.0**-30


@pytest.mark.parametrize("lanes", LANES)
def test_fma_rounds_once_only_where_fused(lanes: int) -> None:
    def write(t: LlvmTarget, a: str, b: str) -> str:
        return t.fma(a, b, t.const(-1.0))

    given = [1.0 + E], [1.0 - E]
    assert compile_llvm(write, arity=2, lanes=lanes)(*given)[0, 0] == -(E**2)
    assert compile_llvm(write, arity=2, lanes=lanes, fused=False)(*given)[0, 0] == 0.0


@pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc) on this machine")
@pytest.mark.parametrize(("fused", "expected"), [(True, -(E**2)), (False, 0.0)])
def test_c_fma_rounds_once_only_where_fused(fused: bool, expected: float, tmp_path: Path) -> None:
    function = compile_c(lambda t, a, b: t.fma(a, b, t.const(-1.0)), tmp_path, arity=2, fused=fused)
    assert function([1.0 + E], [1.0 - E])[0, 0] == expected


def test_declarations_name_each_used_intrinsic_once() -> None:
    t = LlvmTarget(4)
    t.sqrt(t.fma("%a", "%b", t.fma("%a", "%a", "%b")))
    assert t.declarations() == [
        "declare <4 x double> @llvm.fma.v4f64(<4 x double>, <4 x double>, <4 x double>)",
        "declare <4 x double> @llvm.sqrt.v4f64(<4 x double>)",
    ]


def test_fresh_names_carry_the_prefix_and_never_repeat() -> None:
    llvm, c = LlvmTarget(prefix="n"), CTarget(prefix="m")
    assert [llvm.add("%a", "%b"), llvm.neg("%n1")] == ["%n1", "%n2"]
    assert [c.add("a", "b"), c.neg("m1")] == ["m1", "m2"]
    assert llvm.lines == ["  %n1 = fadd double %a, %b", "  %n2 = fneg double %n1"]
    assert c.lines == ["    const double m1 = a + b;", "    const double m2 = -m1;"]
