"""The operations of a graph on floats.

Constants fold with these functions; native code and the interpreter agree with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

ANGLE_LIMIT = 1e8
"""Largest |angle| with a sine, cosine and tangent; beyond it they are NaN [rad]."""

ANGLE_FUNCTIONS = ("sin", "cos", "tan")
"""The operations this limit is for."""


def _quiet(function: Callable[[float], float]) -> Callable[[float], float]:
    """Return the NaN or infinity of IEEE arithmetic where Python's math raises."""

    def evaluate(a: float) -> float:
        try:
            return float(function(a))
        except ValueError:
            return math.nan
        except OverflowError:
            # exp and cosh grow to plus infinity; sinh and floor keep the sign of their argument
            even = function is math.exp or function is math.expm1 or function is math.cosh
            return math.inf if even else math.copysign(math.inf, a)

    return evaluate


def _of_angle(function: Callable[[float], float]) -> Callable[[float], float]:
    """Return NaN for angles beyond the limit, as native code does."""
    return lambda a: function(a) if abs(a) <= ANGLE_LIMIT else math.nan


def _pow(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except ValueError:
        # 0 to a negative power is a pole; a negative base with a fractional exponent is NaN
        return math.inf if a == 0.0 else math.nan
    except OverflowError:
        return -math.inf if a < 0.0 and b % 2.0 == 1.0 else math.inf


def divide(a: float, b: float) -> float:
    """Return a / b, an infinity or NaN where b is zero."""
    if b != 0.0:
        return a / b
    return math.nan if a == 0.0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _log(a: float) -> float:
    return -math.inf if a == 0.0 else math.log(a)


def sign(a: float) -> float:
    """Return -1, 0 or 1 with the sign of a (NaN for NaN)."""
    return a if a != a else float((a > 0.0) - (a < 0.0))


FLOAT_FUNCTIONS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divide,
    "neg": lambda a: -a,
    "abs": abs,
    "sqrt": _quiet(math.sqrt),
    "sin": _of_angle(math.sin),
    "cos": _of_angle(math.cos),
    "tan": _of_angle(math.tan),
    "asin": _quiet(math.asin),
    "acos": _quiet(math.acos),
    "atan": math.atan,
    "atan2": math.atan2,
    "exp": _quiet(math.exp),
    "expm1": _quiet(math.expm1),
    "log": _quiet(_log),
    "sinh": _quiet(math.sinh),
    "cosh": _quiet(math.cosh),
    "tanh": math.tanh,
    "pow": _pow,
    "hypot": math.hypot,
    "sign": sign,
    "floor": _quiet(math.floor),
    "min": lambda a, b: a if a < b or a != a else b,
    "max": lambda a, b: a if a > b or a != a else b,
}
"""Operations on floats; native code and the interpreter agree with them."""

BOOL_FUNCTIONS: dict[str, Callable[..., bool]] = {
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
}
"""Operations with a bool result."""
