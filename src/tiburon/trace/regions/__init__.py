"""Parts of a graph that are graphs themselves: functions and loops."""

from tiburon.trace.regions.fixed_loop import FixedLoop, fixed_loop
from tiburon.trace.regions.for_each import ForEach, for_each
from tiburon.trace.regions.function import FunctionRegion, function
from tiburon.trace.regions.while_loop import WhileLoop, WhileResult, while_loop

__all__ = [
    "FixedLoop",
    "ForEach",
    "FunctionRegion",
    "WhileLoop",
    "WhileResult",
    "fixed_loop",
    "for_each",
    "function",
    "while_loop",
]
