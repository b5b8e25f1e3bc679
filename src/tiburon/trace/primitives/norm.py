"""`norm`: the Euclidean norm, without overflow or underflow, and safe at zero.

It is inlined: the formula is short, and can be folded and fused. Scaling is part of the formula, so
that its derivative is safe, too: x/|x| away from zero, and 0 at zero.
"""

from __future__ import annotations

from typing import Any

from tiburon.trace.primitives.primitive import numbers_of
from tiburon.trace.value import Value, binary, unary, where

__all__ = ["norm"]

# squares of values outside of this range overflow or lose digits; powers of two scale exactly
_SMALL, _LARGE = 2.0**-480, 2.0**480
_DOWN, _UP = 2.0**-600, 2.0**600


def norm(x: Any) -> Any:
    """Return the Euclidean length of a vector.

    Its derivative at zero is zero, the mean of all one-sided ones, so that friction and drag laws
    start from rest without NaN.

    Args:
        x: Floats or traced values, any shape; treated as one vector.

    Returns:
        The length, in the unit of x: a float or a traced value.
    """
    numbers = [value for value in numbers_of(x) if isinstance(value, Value) or value != 0.0]
    if not numbers:
        return 0.0
    largest = unary("abs", numbers[0])
    if len(numbers) == 1:
        return largest
    for value in numbers[1:]:
        largest = binary("max", largest, unary("abs", value))
    small, large = largest < _SMALL, largest > _LARGE
    scale = where(small, _UP, where(large, _DOWN, 1.0))
    back = where(small, _DOWN, where(large, _UP, 1.0))
    total: Any = 0.0
    for value in numbers:
        scaled = value * scale
        total = total + scaled * scaled
    # the argument of the root is never zero: the rule for its derivative divides by it
    at_zero = total == 0.0
    length = unary("sqrt", where(at_zero, 1.0, total)) * back
    return where(at_zero, 0.0, length)
