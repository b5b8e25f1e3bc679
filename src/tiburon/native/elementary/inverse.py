"""Inverse trigonometric functions and the length of a plane vector."""

from __future__ import annotations

from tiburon.native.elementary.arithmetic import exact_sum, horner, wide_quotient
from tiburon.native.target import Ref, Target

# tan(pi/8): beyond it atan is taken from pi/4
_TAN_EIGHTH_TURN = 0.41421356237309503

# pi/4 and pi/2 in two parts
_QUARTER_PI_HIGH = float.fromhex("0x1.921fb54442d18p-1")
_QUARTER_PI_LOW = float.fromhex("0x1.1a62633145c07p-55")
_HALF_PI_HIGH = 2.0 * _QUARTER_PI_HIGH
_HALF_PI_LOW = 2.0 * _QUARTER_PI_LOW

# atan(r) = r + r^3 A(r^2) on |r| <= tan(pi/8), relative error 2^-58.0
_ATAN = (
    0.016258132064979208,
    -0.034545610104858494,
    0.045506220391755364,
    -0.052302411507894,
    0.05878900032342983,
    -0.06666422364033206,
    0.07692296234491514,
    -0.09090908748635232,
    0.1111111110505757,
    -0.14285714285658824,
    0.199999999999998,
    -0.3333333333333333,
)

# asin(s) = s + s^3 B(s^2) on |s| <= 1/2, relative error 2^-57.4
_ASIN = (
    0.028757851367421566,
    -0.014851887071247204,
    0.01740087944269402,
    0.005457506718640358,
    0.01032281435018578,
    0.011479177415184906,
    0.013971212973552933,
    0.017352392720869973,
    0.02237217294214989,
    0.030381944138531247,
    0.04464285714635543,
    0.07499999999998433,
    0.16666666666666669,
)


def _ordered_magnitudes(t: Target, x: Ref, y: Ref) -> tuple[Ref, Ref, Ref]:
    """Emit the larger and the smaller of |x| and |y|, and whether |y| is the larger one."""
    x, y = t.abs(x), t.abs(y)
    steep = t.less(x, y)
    return t.select(steep, y, x), t.select(steep, x, y), steep


def _middle_scale(t: Target, a: Ref, limit: float, step: float) -> Ref:
    """Emit the power of two that moves a into reach: `step` below 1/limit, 1/`step` above limit."""
    factor = t.select(t.less(a, t.const(1.0 / limit)), t.const(step), t.const(1.0))
    return t.select(t.less(t.const(limit), a), t.const(1.0 / step), factor)


def atan2(t: Target, y: Ref, x: Ref) -> Ref:
    """Emit the angle of the vector (x, y), counted from the x axis towards y.

    Error below 1 ulp, and below 2 ulp if a component or the angle is subnormal. Signed zeros and
    infinities select the quadrant as in IEEE 754-2019, section 9.2.1: atan2(+0, -0) = pi,
    atan2(-0, +0) = -0.

    Args:
        t: Where to emit.
        y: Second component.
        x: First component, same unit.

    Returns:
        Angle in [-pi, pi] [rad], with the sign of y.
    """
    zero, one, infinity = t.const(0.0), t.const(1.0), t.const(float("inf"))
    a, b, steep = _ordered_magnitudes(t, x, y)
    # infinities become one, beside which a finite number counts nothing; 0/0 becomes 0/1
    unbounded = t.equal(a, infinity)
    b = t.select(unbounded, t.select(t.equal(b, infinity), one, t.mul(b, zero)), b)
    a = t.select(t.logical_or(unbounded, t.equal(a, zero)), one, a)
    # keep 1/a and a + b in range; a ratio that loses digits by this is far below any float
    factor = _middle_scale(t, a, 2.0**800, 2.0**200)
    a, b = t.mul(a, factor), t.mul(b, factor)
    # r = b/a near the axis, else the ratio turned back by pi/4: (b - a)/(b + a)
    turned = t.less(t.mul(a, t.const(_TAN_EIGHTH_TURN)), b)
    difference, difference_low = exact_sum(t, t.neg(a), b)
    total, total_low = exact_sum(t, a, b)
    numerator = t.select(turned, difference, b)
    numerator_low = t.select(turned, difference_low, zero)
    denominator = t.select(turned, total, a)
    denominator_low = t.select(turned, total_low, zero)
    r, r_low = wide_quotient(t, numerator, numerator_low, denominator, denominator_low)
    z = t.mul(r, r)
    # what atan(r + r_low) adds to r, with the slope 1 - r^2 for r_low
    added = t.fma(t.mul(horner(t, z, _ATAN), z), r, t.fma(t.neg(z), r_low, r_low))
    # the angle is (turns pi/4) + sign atan(r); each mirror reverses the sign and its multiple
    backward = t.less(t.copysign(one, x), zero)
    turns = t.select(turned, one, zero)
    turns = t.select(steep, t.sub(t.const(2.0), turns), turns)
    turns = t.select(backward, t.sub(t.const(4.0), turns), turns)
    mirrored = t.logical_xor(steep, backward)
    r = t.select(mirrored, t.neg(r), r)
    added = t.select(mirrored, t.neg(added), added)
    part = t.add(r, t.fma(turns, t.const(_QUARTER_PI_LOW), added))
    return t.copysign(t.fma(turns, t.const(_QUARTER_PI_HIGH), part), y)


def atan(t: Target, x: Ref) -> Ref:
    """Emit the inverse tangent; error below 1 ulp.

    Args:
        t: Where to emit.
        x: Tangent.

    Returns:
        Angle in [-pi/2, pi/2] [rad].
    """
    return atan2(t, x, t.const(1.0))


def _asin_parts(t: Target, x: Ref) -> tuple[Ref, Ref, Ref]:
    """Emit s, asin(s) - s, and whether |x| > 1/2.

    s is |x| itself, or, beyond 1/2, sqrt((1 - |x|)/2), for which asin |x| = pi/2 - 2 asin(s).
    """
    magnitude, half = t.abs(x), t.const(0.5)
    far = t.less(half, magnitude)
    z = t.select(far, t.mul(half, t.sub(t.const(1.0), magnitude)), t.mul(x, x))
    s = t.select(far, t.sqrt(z), magnitude)
    return s, t.mul(t.mul(horner(t, z, _ASIN), z), s), far


def asin(t: Target, x: Ref) -> Ref:
    """Emit the inverse sine; error below 2 ulp, NaN for |x| > 1.

    Args:
        t: Where to emit.
        x: Sine.

    Returns:
        Angle in [-pi/2, pi/2] [rad], with the sign of x.
    """
    s, added, far = _asin_parts(t, x)
    minus_two = t.const(-2.0)
    from_end = t.fma(minus_two, s, t.fma(minus_two, added, t.const(_HALF_PI_LOW)))
    from_end = t.add(t.const(_HALF_PI_HIGH), from_end)
    return t.copysign(t.select(far, from_end, t.add(s, added)), x)


def acos(t: Target, x: Ref) -> Ref:
    """Emit the inverse cosine; error below 2 ulp, NaN for |x| > 1.

    Args:
        t: Where to emit.
        x: Cosine.

    Returns:
        Angle in [0, pi] [rad].
    """
    s, added, far = _asin_parts(t, x)
    negative = t.less(x, t.const(0.0))
    # near the ends the angle is 2 asin(s), or pi less that; else pi/2 less asin(x)
    size = t.select(far, t.const(2.0), t.const(1.0))
    sign = t.select(t.logical_xor(far, negative), t.const(1.0), t.const(-1.0))
    size = t.mul(size, sign)
    nothing = t.logical_and(far, t.logical_not(negative))
    start = t.select(far, t.const(2.0 * _HALF_PI_HIGH), t.const(_HALF_PI_HIGH))
    start = t.select(nothing, t.const(0.0), start)
    start_low = t.select(far, t.const(2.0 * _HALF_PI_LOW), t.const(_HALF_PI_LOW))
    start_low = t.select(nothing, t.const(0.0), start_low)
    return t.add(start, t.fma(size, s, t.fma(size, added, start_low)))


def hypot(t: Target, x: Ref, y: Ref) -> Ref:
    """Emit sqrt(x**2 + y**2) without overflow or underflow on the way; error below 1.5 ulp.

    Args:
        t: Where to emit.
        x: First component.
        y: Second component, same unit.

    Returns:
        Length; NaN if a component is NaN.
    """
    a, b, _ = _ordered_magnitudes(t, x, y)
    factor = _middle_scale(t, a, 2.0**500, 2.0**600)
    back = _middle_scale(t, a, 2.0**500, 2.0**-600)
    a, b = t.mul(a, factor), t.mul(b, factor)
    return t.mul(t.sqrt(t.fma(a, a, t.mul(b, b))), back)
