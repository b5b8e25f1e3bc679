"""Elementary functions without branches, written once over the instruction protocol.

Each function takes a `Target` and references to its arguments, appends its instructions, and
returns the reference of the result. All of them are straight-line code of exactly rounded
instructions, so one value, any number of lanes, and emitted C give the same bits. NaN arguments
give NaN. Square root and floor are instructions of the target itself.

Sine, cosine and tangent are for |x| <= 1e8 rad and NaN beyond; all other functions cover the whole
range of float64. Polynomials interpolate at the Chebyshev nodes of their interval (computed with
300 bits, then rounded to float64), unless a publication is cited; beside each stand the interval
and the error of the rounded polynomial, relative to the function it serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


_LOG2_E = 1.4426950408889634

# ln 2 in two parts; the first has 42 bits, so that its product with an exponent is exact
_LN2_HIGH = float.fromhex("0x1.62e42fefa3800p-1")
_LN2_LOW = float.fromhex("0x1.ef35793c76730p-45")

# beyond these arguments exp is 0 and infinity; inside, exponents stay in reach of `scale`
_EXP_LOWEST, _EXP_HIGHEST = -746.0, 710.0

# exp(r) - 1 = r + r^2 E(r) on |r| <= ln(2)/2, relative error 2^-60.1
_EXPM1 = (
    2.0914717341716378e-09,
    2.5105259538448494e-08,
    2.755727357010214e-07,
    2.7557255297969643e-06,
    2.4801587325605324e-05,
    0.0001984126987490126,
    0.001388888888888373,
    0.008333333333326112,
    0.04166666666666667,
    0.1666666666666667,
    0.5,
)

_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_SMALLEST_NORMAL = 2.0**-1022

# 2 atanh(s) = 2 s + s^3 L(s^2) on |s| <= (sqrt 2 - 1)/(sqrt 2 + 1), relative error 2^-60.7
_LOG = (
    0.13086907887965027,
    0.13268746195596595,
    0.15386240708969665,
    0.18181795621632782,
    0.22222222391887064,
    0.2857142857080285,
    0.4000000000000088,
    0.6666666666666666,
)

# 2 atanh(s) = 2 s + s^3 (2/3 + s^2 W(s^2)) on the same interval, relative error 2^-66.3
_LOG_WIDE = (
    0.11723306234080849,
    0.11706224135460942,
    0.13334805149611875,
    0.15384594954137945,
    0.1818181833547124,
    0.2222222222165554,
    0.2857142857142937,
    0.4,
)
_TWO_THIRDS_HIGH = float.fromhex("0x1.5555555555555p-1")
_TWO_THIRDS_LOW = float.fromhex("0x1.5555555555555p-55")

# no logarithm but 0 is so small that a larger exponent would change the power
_EXPONENT_CAP = 1e25


def clamp(t: Target, x: Ref, low: float, high: float) -> Ref:
    """Emit x moved into [low, high]; NaN stays NaN."""
    x = t.select(t.less(x, t.const(low)), t.const(low), x)
    return t.select(t.less(t.const(high), x), t.const(high), x)


def reduced_expm1(t: Target, x: Ref, x_low: Ref | None = None) -> tuple[Ref, Ref]:
    """Emit p and n with exp(x) = 2**n (1 + p) and |p| < 0.42, for |x| < 2000.

    Args:
        t: Where to emit.
        x: Argument.
        x_low: A small correction to be added to it, if the argument is known to more digits.

    Returns:
        p, relatively accurate also where x is small, and the int n.
    """
    n_float, n = round_product(t, x, _LOG2_E)
    minus_n = t.neg(n_float)
    # the first difference is exact; the second leaves r and what its rounding lost
    first = t.fma(minus_n, t.const(_LN2_HIGH), x)
    low = t.mul(minus_n, t.const(_LN2_LOW))
    if x_low is not None:
        low = t.add(low, x_low)
    r, r_low = exact_sum(t, first, low)
    square = t.mul(r, r)
    # exp(r + r_low) - 1 = exp(r) - 1 + r_low exp(r), and exp(r) = 1 + r to the digits that count
    tail = t.fma(horner(t, r, _EXPM1), square, t.fma(r_low, r, r_low))
    return t.add(r, tail), n


def exp(t: Target, x: Ref) -> Ref:
    """Emit e**x.

    Error below 1 ulp. Overflows to infinity above 709.78, underflows gradually, and is 0 below
    -745.13.

    Args:
        t: Where to emit.
        x: Exponent.

    Returns:
        e**x.
    """
    p, n = reduced_expm1(t, clamp(t, x, _EXP_LOWEST, _EXP_HIGHEST))
    return scale(t, t.add(t.const(1.0), p), n)


def scaled_expm1(t: Target, x: Ref, halvings: Ref) -> Ref:
    """Emit (e**x - 1) / 2**halvings for -60 <= x <= 711 and an int, small and not negative."""
    p, n = reduced_expm1(t, x)
    # e**x - 1 = 2**n (p + (1 - 2**-n)); the power is capped where it is far below the last digit
    large = t.less(t.const(69.0), x)
    inverse = power_of_two(t, t.isub(t.int_const(0), t.iselect(large, t.int_const(99), n)))
    return scale(t, t.add(p, t.sub(t.const(1.0), inverse)), t.isub(n, halvings))


def expm1(t: Target, x: Ref) -> Ref:
    """Emit e**x - 1, relatively accurate also near 0.

    Error below 2 ulp. Infinity above 709.78; -1 below -37.5; keeps the sign of a zero.

    Args:
        t: Where to emit.
        x: Exponent.

    Returns:
        e**x - 1.
    """
    value = scaled_expm1(t, clamp(t, x, -60.0, _EXP_HIGHEST), t.int_const(0))
    return t.select(t.equal(x, t.const(0.0)), x, value)


def _split(t: Target, x: Ref) -> tuple[Ref, Ref]:
    """Emit k (as a float) and m with x = 2**k m and sqrt(1/2) <= m < sqrt(2), for finite x > 0."""
    subnormal = t.less(x, t.const(_SMALLEST_NORMAL))
    normal = t.select(subnormal, t.mul(x, t.const(2.0**54)), x)
    pattern = t.bits(normal)
    k = t.ashr(t.isub(pattern, t.int_const(_SQRT_HALF_BITS)), 52)
    m = t.double(t.isub(pattern, t.shl(k, 52)))
    k = t.isub(k, t.iselect(subnormal, t.int_const(54), t.int_const(0)))
    return t.sub(t.double(t.iadd(k, t.int_const(_ROUNDER_BITS))), t.const(_ROUNDER)), m


def log(t: Target, x: Ref) -> Ref:
    """Emit the natural logarithm.

    Error below 1 ulp, subnormal arguments included. log(0) is -infinity, of either sign of the
    zero; log of a negative number is NaN. The arrangement of the sum, in which only terms of the
    size of the last digits are rounded, is the one of fdlibm (e_log.c, Sun Microsystems 1993).

    Args:
        t: Where to emit.
        x: Argument.

    Returns:
        ln x.
    """
    k, m = _split(t, x)
    # with s = f/(2 + f): ln(1 + f) = 2 atanh(s) = f - (f^2/2 - s (f^2/2 + s^2 L(s^2)))
    f = t.sub(m, t.const(1.0))
    s = t.div(f, t.add(f, t.const(2.0)))
    z = t.mul(s, s)
    half_square = t.mul(t.const(0.5), t.mul(f, f))
    inner = t.fma(horner(t, z, _LOG), z, half_square)
    small = t.fma(s, inner, t.mul(k, t.const(_LN2_LOW)))
    value = t.fma(k, t.const(_LN2_HIGH), t.sub(f, t.sub(half_square, small)))
    infinity = t.const(float("inf"))
    value = t.select(t.equal(x, infinity), infinity, value)
    zero = t.const(0.0)
    outside = t.select(t.equal(x, zero), t.const(float("-inf")), t.const(float("nan")))
    return t.select(t.less(zero, x), value, outside)


def _wide_log(t: Target, x: Ref) -> tuple[Ref, Ref]:
    """Emit ln x as an unevaluated sum of two floats, for finite x > 0; relative error 2^-64."""
    k, m = _split(t, x)
    one = t.const(1.0)
    # s = (m - 1)/(m + 1): the numerator is exact, the denominator is carried in two floats
    f = t.sub(m, one)
    below = t.less(m, one)
    d, d_low = exact_sum(t, t.select(below, one, m), t.select(below, m, one))
    s, s_low = wide_quotient(t, f, t.const(0.0), d, d_low)
    s, s_low = exact_sum(t, s, s_low)
    # z = s^2 and c = s^3 in two floats each
    z, z_low = exact_product(t, s, s)
    z_low = t.fma(t.add(s, s), s_low, z_low)
    c, c_low = exact_product(t, z, s)
    c_low = t.add(c_low, t.fma(z, s_low, t.mul(z_low, s)))
    # w = 2/3 + z W(z) in two floats
    factor = horner(t, z, _LOG_WIDE)
    series = t.fma(factor, z, t.fma(factor, z_low, t.const(_TWO_THIRDS_LOW)))
    w, w_low = exact_sum(t, t.const(_TWO_THIRDS_HIGH), series)
    cw, cw_low = exact_product(t, c, w)
    cw_low = t.add(cw_low, t.fma(c, w_low, t.mul(c_low, w)))
    # ln x = k ln 2 + 2 s + c w, from the largest term down
    high, low = exact_sum(t, t.mul(k, t.const(_LN2_HIGH)), t.add(s, s))
    high, lower = exact_sum(t, high, cw)
    tail = t.fma(k, t.const(_LN2_LOW), t.add(t.add(s_low, s_low), cw_low))
    return exact_sum(t, high, t.add(t.add(low, lower), tail))


def pow(t: Target, x: Ref, y: Ref) -> Ref:
    """Emit x**y.

    Error below 1.5 ulp. A negative base has a power for integer exponents and NaN for others; x**0
    and 1**y are 1; 0**y is 0 or infinity, negative for x = -0 and odd y; infinite arguments give
    the limits (IEEE 754-2019, section 9.2.1).

    Args:
        t: Where to emit.
        x: Base.
        y: Exponent.

    Returns:
        x**y.
    """
    zero, one, infinity = t.const(0.0), t.const(1.0), t.const(float("inf"))
    base = t.abs(x)
    log_high, log_low = _wide_log(t, base)
    exponent = clamp(t, y, -_EXPONENT_CAP, _EXPONENT_CAP)
    high, low = exact_product(t, exponent, log_high)
    low = t.fma(exponent, log_low, low)
    bounded = clamp(t, high, _EXP_LOWEST, _EXP_HIGHEST)
    p, n = reduced_expm1(t, bounded, t.select(t.equal(bounded, high), low, zero))
    value = scale(t, t.add(one, p), n)
    # bases without a logarithm
    falling = t.less(y, zero)
    value = t.select(t.equal(base, zero), t.select(falling, infinity, zero), value)
    value = t.select(t.equal(base, infinity), t.select(falling, zero, infinity), value)
    # the sign: odd exponents keep it, other integers drop it, the rest has no power
    half = t.mul(y, t.const(0.5))
    whole = t.equal(t.floor(y), y)
    odd = t.logical_and(whole, t.logical_not(t.equal(t.floor(half), half)))
    value = t.select(odd, t.copysign(value, x), value)
    rootless = t.logical_and(t.less(x, zero), t.logical_not(t.logical_or(whole, t.is_nan(y))))
    rootless = t.logical_and(rootless, t.less(base, infinity))
    value = t.select(rootless, t.const(float("nan")), value)
    value = t.select(t.is_nan(x), x, value)
    value = t.select(t.is_nan(y), y, value)
    return t.select(t.logical_or(t.equal(y, zero), t.equal(x, one)), one, value)


# beyond it exp(-x) no longer changes the digits of exp(x)
_FAR = 22.0

# sinh and cosh overflow just below it
_HIGHEST = 711.0


def tanh(t: Target, x: Ref) -> Ref:
    """Emit the hyperbolic tangent; error below 3 ulp.

    Args:
        t: Where to emit.
        x: Argument.

    Returns:
        Value in [-1, 1], with the sign of x.
    """
    magnitude = clamp(t, t.abs(x), 0.0, _FAR)
    # tanh(x) = E/(E + 2) with E = exp(2 x) - 1
    e = scaled_expm1(t, t.add(magnitude, magnitude), t.int_const(0))
    return t.copysign(t.div(e, t.add(e, t.const(2.0))), x)


def sinh(t: Target, x: Ref) -> Ref:
    """Emit the hyperbolic sine; error below 3 ulp, infinite where it overflows.

    Args:
        t: Where to emit.
        x: Argument.

    Returns:
        Value with the sign of x.
    """
    magnitude = clamp(t, t.abs(x), 0.0, _HIGHEST)
    far = t.less(t.const(_FAR), magnitude)
    # sinh(x) = (E + E/(E + 1))/2 with E = exp(x) - 1; far out (E + 1)/2,
    # halved before it overflows
    e = scaled_expm1(t, magnitude, t.iselect(far, t.int_const(1), t.int_const(0)))
    near = t.mul(t.const(0.5), t.add(e, t.div(e, t.add(e, t.const(1.0)))))
    return t.copysign(t.select(far, t.add(e, t.const(0.5)), near), x)


def cosh(t: Target, x: Ref) -> Ref:
    """Emit the hyperbolic cosine; error below 2 ulp, infinite where it overflows.

    Args:
        t: Where to emit.
        x: Argument.

    Returns:
        Value, at least 1.
    """
    p, n = reduced_expm1(t, clamp(t, t.abs(x), 0.0, _HIGHEST))
    # cosh(x) = h + 1/(4 h) with h = exp(x)/2
    h = scale(t, t.add(t.const(1.0), p), t.isub(n, t.int_const(1)))
    return t.add(h, t.div(t.const(0.25), h))


def sign(t: Target, x: Ref) -> Ref:
    """Emit -1, 0 or 1 by the sign of x; 0 for a zero of either sign, NaN for NaN.

    Args:
        t: Where to emit.
        x: Argument.

    Returns:
        The sign.
    """
    zero = t.const(0.0)
    value = t.select(t.less(x, zero), t.const(-1.0), t.add(x, zero))
    return t.select(t.less(zero, x), t.const(1.0), value)


FUNCTIONS: dict[str, Callable[..., Ref]] = {
    function.__name__: function
    for function in (
        *(acos, asin, atan, atan2, hypot, tan),
        *(exp, expm1, log, pow, cosh, sinh, tanh, sign),
    )
}
"""Functions by the name of their operation; `sin_cos` computes sine and cosine in pairs."""
