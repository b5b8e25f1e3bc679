"""Parts of a graph that are graphs themselves: functions and loops."""

from tiburon.trace.regions.fixed_loop import FixedLoop, fixed_loop
from tiburon.trace.regions.function import FunctionRegion, function
from tiburon.trace.regions.while_loop import WhileLoop, WhileResult, while_loop

__all__ = [
    "FixedLoop",
    "FunctionRegion",
    "WhileLoop",
    "WhileResult",
    "fixed_loop",
    "function",
    "while_loop",
]
