"""Exponential, logarithm and general power over the whole range of float64."""

from __future__ import annotations

from tiburon.native.elementary.arithmetic import (
    exact_product,
    exact_sum,
    horner,
    int_to_float,
    power_of_two,
    round_product,
    scale,
    wide_quotient,
)
from tiburon.native.target import Ref, Target

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
    return int_to_float(t, k), m


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
