"""Elementary functions without branches, written once over the instruction protocol.

Each function takes a `Target` and references to its arguments, appends its instructions, and
returns the reference of the result. All of them are straight-line code of exactly rounded
instructions, so one value, any number of lanes, and emitted C give the same bits.
"""

from tiburon.native.elementary.trigonometric import SIN_COS_LIMIT, sin_cos

__all__ = ["SIN_COS_LIMIT", "sin_cos"]
