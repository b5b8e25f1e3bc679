"""Hyperbolic functions over the whole range of float64, and the sign."""

from __future__ import annotations

from tiburon.native.elementary.arithmetic import scale
from tiburon.native.elementary.exponential import clamp, reduced_expm1, scaled_expm1
from tiburon.native.target import Ref, Target

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
