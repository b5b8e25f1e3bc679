"""Arithmetic that the elementary functions share: polynomials, exact operations, powers of 2.

The polynomials of this package interpolate at the Chebyshev nodes of their interval (computed with
300 bits, then rounded to float64), unless a publication is cited; beside each stand the interval
and the error of the rounded polynomial, relative to the function it serves.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.native.target import Ref, Target

_ROUNDER = 6755399441055744.0  # 1.5 * 2**52: the floats around it are the integers
_ROUNDER_BITS = 0x4338000000000000
_EXPONENT_BIAS = 1023


def horner(t: Target, x: Ref, coefficients: Sequence[float]) -> Ref:
    """Emit a polynomial by Horner's rule.

    Args:
        t: Where to emit.
        x: The variable.
        coefficients: From the highest power down to the constant.

    Returns:
        The value of the polynomial.
    """
    value = t.const(coefficients[0])
    for coefficient in coefficients[1:]:
        value = t.fma(value, x, t.const(coefficient))
    return value


def round_product(t: Target, x: Ref, factor: float) -> tuple[Ref, Ref]:
    """Emit the integer n nearest to x * factor, for |x * factor| < 2**51.

    Returns:
        n as a float, and n as an int.
    """
    shifted = t.fma(x, t.const(factor), t.const(_ROUNDER))
    n = t.sub(shifted, t.const(_ROUNDER))
    return n, t.isub(t.bits(shifted), t.int_const(_ROUNDER_BITS))


def int_to_float(t: Target, i: Ref) -> Ref:
    """Emit an int, |i| < 2**51, as a float."""
    return t.sub(t.double(t.iadd(i, t.int_const(_ROUNDER_BITS))), t.const(_ROUNDER))


def power_of_two(t: Target, n: Ref) -> Ref:
    """Emit the float 2**n for an int -1022 <= n <= 1023."""
    return t.double(t.shl(t.iadd(n, t.int_const(_EXPONENT_BIAS)), 52))


def scale(t: Target, a: Ref, n: Ref) -> Ref:
    """Emit a * 2**n for 0.5 <= |a| <= 2 and an int |n| <= 2000.

    The power is applied in two halves, so that the result overflows to infinity and underflows
    gradually, each with a single rounding.
    """
    half = t.ashr(n, 1)
    return t.mul(t.mul(a, power_of_two(t, half)), power_of_two(t, t.isub(n, half)))


def exact_sum(t: Target, a: Ref, b: Ref) -> tuple[Ref, Ref]:
    """Emit a + b and its rounding error, for |a| >= |b| or a = 0 (Dekker 1971)."""
    s = t.add(a, b)
    return s, t.sub(b, t.sub(s, a))


def exact_sum_unordered(t: Target, a: Ref, b: Ref) -> tuple[Ref, Ref]:
    """Emit a + b and its rounding error, whichever is larger (Knuth 1969)."""
    s = t.add(a, b)
    b_used = t.sub(s, a)
    return s, t.add(t.sub(a, t.sub(s, b_used)), t.sub(b, b_used))


def exact_product(t: Target, a: Ref, b: Ref) -> tuple[Ref, Ref]:
    """Emit a * b and its rounding error, for |a|, |b| < 2**995.

    Where nothing is fused, this is Dekker's product (1971); it gives no error for products below
    2**-960, since its own parts would underflow there.
    """
    p = t.mul(a, b)
    if t.fused:
        return p, t.fma(a, b, t.neg(p))
    a_high, a_low = _halves(t, a)
    b_high, b_low = _halves(t, b)
    error = t.sub(t.mul(a_high, b_high), p)
    error = t.add(error, t.mul(a_high, b_low))
    error = t.add(error, t.mul(a_low, b_high))
    error = t.add(error, t.mul(a_low, b_low))
    return p, t.select(t.less(t.abs(p), t.const(2.0**-960)), t.const(0.0), error)


def wide_quotient(t: Target, a: Ref, a_low: Ref, b: Ref, b_low: Ref) -> tuple[Ref, Ref]:
    """Emit (a + a_low) / (b + b_low) in two floats, with one division; 1/b must not overflow."""
    reciprocal = t.div(t.const(1.0), b)
    q = t.mul(a, reciprocal)
    product, product_low = exact_product(t, q, b)
    rest = t.sub(t.sub(a, product), product_low)
    rest = t.add(rest, t.sub(a_low, t.mul(q, b_low)))
    return q, t.mul(rest, reciprocal)


def _halves(t: Target, a: Ref) -> tuple[Ref, Ref]:
    """Emit a as the sum of two floats of at most 26 bits each (Veltkamp)."""
    c = t.mul(a, t.const(134217729.0))
    high = t.sub(c, t.sub(c, a))
    return high, t.sub(a, high)
