"""Building blocks of the elementary functions: polynomials and sums carried in two floats."""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.native.target import Ref, Target


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
