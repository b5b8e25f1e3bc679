"""Elementary functions without branches, written once over the instruction protocol.

Each function takes a `Target` and references to its arguments, appends its instructions, and
returns the reference of the result. All of them are straight-line code of exactly rounded
instructions, so one value, any number of lanes, and emitted C give the same bits. NaN arguments
give NaN. Square root and floor are instructions of the target itself.
"""

from tiburon.native.elementary.exponential import exp, expm1, log, pow
from tiburon.native.elementary.hyperbolic import cosh, sign, sinh, tanh
from tiburon.native.elementary.inverse import acos, asin, atan, atan2, hypot
from tiburon.native.elementary.trigonometric import SIN_COS_LIMIT, sin_cos, tan

__all__ = [
    "SIN_COS_LIMIT",
    "acos",
    "asin",
    "atan",
    "atan2",
    "cosh",
    "exp",
    "expm1",
    "hypot",
    "log",
    "pow",
    "sign",
    "sin_cos",
    "sinh",
    "tan",
    "tanh",
]
