"""Sine, cosine and tangent for |x| <= 1e8 rad; NaN beyond."""

from __future__ import annotations

from tiburon.native.elementary.arithmetic import (
    exact_product,
    exact_sum,
    exact_sum_unordered,
    horner,
    round_product,
    wide_quotient,
)
from tiburon.native.target import Ref, Target

SIN_COS_LIMIT = 1e8
"""Largest |x| [rad] with a sine, cosine and tangent; beyond it they are NaN."""

_TWO_OVER_PI = 0.6366197723675814

# pi/2 as a sum of parts. Where products are fused, n * part never rounds by itself, and the parts
# are consecutive floats (all positive, which keeps the sign of a zero). Otherwise the parts are so
# short (27 bits) that n * part, with n < 2**26, is exact.
_HALF_PI_FUSED = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62633145c06p-54"),
    float.fromhex("0x1.c1cd129024e09p-107"),
)
_HALF_PI_SHORT = (
    float.fromhex("0x1.921fb54000000p+0"),
    float.fromhex("0x1.10b4600000000p-30"),
    float.fromhex("0x1.1a62630000000p-54"),
    float.fromhex("0x1.8a2e03707344ap-81"),
)

# sin(r) = r + r^3 S(r^2) and cos(r) = 1 - r^2/2 + r^4 C(r^2) on |r| <= pi/4; minimax coefficients
# published in fdlibm (k_sin.c, k_cos.c; Sun Microsystems 1993), relative errors 2^-58.
_SIN = (
    1.58969099521155010221e-10,
    -2.50507602534068634195e-08,
    2.75573137070700676789e-06,
    -1.98412698298579493134e-04,
    8.33333333332248946124e-03,
    -1.66666666666666324348e-01,
)
_COS = (
    -1.13596475577881948265e-11,
    2.08757232129817482790e-09,
    -2.75573143513906633035e-07,
    2.48015872894767294178e-05,
    -1.38888888888741095749e-03,
    4.16666666666666019037e-02,
)


def _half_pi(t: Target) -> tuple[float, ...]:
    """Return the parts of pi/2 that suit the products of the target."""
    return _HALF_PI_FUSED if t.fused else _HALF_PI_SHORT


def _quadrant(t: Target, x: Ref) -> tuple[Ref, Ref, Ref]:
    """Emit the first steps of r = x - n pi/2 with |r| <= pi/4 (Cody and Waite 1980, chapter 8).

    The differences with all but the last two parts of n pi/2 are exact, so what remains keeps its
    relative accuracy also near the multiples of pi/2.

    Args:
        t: Where to emit.
        x: Angle [rad].

    Returns:
        An int whose two low bits are n modulo 4, -n as a float, and the exact difference so far
        [rad], NaN if |x| is too large.
    """
    inside = t.less_equal(t.abs(x), t.const(SIN_COS_LIMIT))
    x = t.select(inside, x, t.const(float("nan")))
    n_float, n = round_product(t, x, _TWO_OVER_PI)
    minus_n = t.neg(n_float)
    for part in _half_pi(t)[:-2]:
        x = t.fma(minus_n, t.const(part), x)
    return n, minus_n, x


def _rest(t: Target, x: Ref) -> tuple[Ref, Ref, Ref]:
    """Emit the quadrant of an angle and the rest r = x - n pi/2 in two floats.

    Args:
        t: Where to emit.
        x: Angle [rad].

    Returns:
        An int whose two low bits are n modulo 4, r rounded once, and what the rounding lost [rad].
    """
    n, minus_n, r = _quadrant(t, x)
    middle, last = _half_pi(t)[-2:]
    product, low = exact_product(t, minus_n, t.const(middle))
    r, r_low = exact_sum_unordered(t, r, product)
    return n, *exact_sum(t, r, t.fma(minus_n, t.const(last), t.add(r_low, low)))


def _fused_rest(t: Target, x: Ref) -> tuple[Ref, Ref]:
    """Emit the quadrant of an angle and the rest, which fused products round once by themselves."""
    n, minus_n, r = _quadrant(t, x)
    for part in _half_pi(t)[-2:]:
        r = t.fma(minus_n, t.const(part), r)
    return n, r


def _is_odd(t: Target, n: Ref) -> Ref:
    """Emit whether an int is odd."""
    return t.iequal(t.iand(n, t.int_const(1)), t.int_const(1))


def _flip(t: Target, a: Ref, n: Ref) -> Ref:
    """Emit a with its sign changed where bit 1 of the int n is set."""
    sign = t.shl(t.iand(n, t.int_const(2)), 62)
    return t.double(t.ixor(t.bits(a), sign))


def sin_cos(t: Target, x: Ref) -> tuple[Ref, Ref]:
    """Emit sine and cosine of one angle, which share most of their work.

    Error below 2 ulp for |x| <= 1e8, also close to the multiples of pi/2; NaN beyond 1e8 and for
    infinities. sin(-0) is +0.

    Args:
        t: Where to emit.
        x: Angle [rad].

    Returns:
        Sine and cosine.
    """
    n, r = _fused_rest(t, x) if t.fused else _rest(t, x)[:2]
    z = t.mul(r, r)
    sine = t.fma(horner(t, z, _SIN), t.mul(r, z), r)
    cosine = t.fma(horner(t, z, _COS), t.mul(z, z), t.fma(z, t.const(-0.5), t.const(1.0)))
    # a quarter turn exchanges the two
    odd = _is_odd(t, n)
    s = _flip(t, t.select(odd, cosine, sine), n)
    c = _flip(t, t.select(odd, sine, cosine), t.iadd(n, t.int_const(1)))
    return s, c


def tan(t: Target, x: Ref) -> Ref:
    """Emit the tangent.

    Error below 1 ulp for |x| <= 1e8, also close to the poles; NaN beyond 1e8 and for infinities.
    tan(-0) is +0.

    Args:
        t: Where to emit.
        x: Angle [rad].

    Returns:
        Tangent.
    """
    one, minus_half = t.const(1.0), t.const(-0.5)
    n, r, r_low = _rest(t, x)
    # sine and cosine of r in two floats each: their roundings would add up in the quotient
    z, z_low = exact_product(t, r, r)
    sine, sine_low = exact_sum(t, r, t.mul(horner(t, z, _SIN), t.mul(r, z)))
    cosine, cosine_low = exact_sum(t, one, t.mul(minus_half, z))
    cosine_low = t.fma(minus_half, z_low, cosine_low)
    tail = t.fma(horner(t, z, _COS), t.mul(z, z), cosine_low)
    cosine, cosine_low = exact_sum(t, cosine, tail)
    # tan(r + pi/2) = -cos(r)/sin(r)
    odd = _is_odd(t, n)
    numerator = t.select(odd, t.neg(cosine), sine)
    numerator_low = t.select(odd, t.neg(cosine_low), sine_low)
    denominator = t.select(odd, sine, cosine)
    denominator_low = t.select(odd, sine_low, cosine_low)
    # to first order, add what the quotient left over and what the angle lost
    quotient, quotient_low = wide_quotient(
        t, numerator, numerator_low, denominator, denominator_low
    )
    slope = t.fma(quotient, quotient, one)
    return t.add(quotient, t.fma(r_low, slope, quotient_low))
