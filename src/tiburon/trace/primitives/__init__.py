"""Solvers that a graph calls: each is written once, then run, counted, differentiated, compiled."""

from typing import TYPE_CHECKING

from tiburon.lazy import load_on_use
from tiburon.trace.primitives.norm import norm

if TYPE_CHECKING:
    from tiburon.trace.primitives.least_squares import (
        LeastSquares,
        OrthogonalFactor,
        factor_orthogonal,
        solve_least_squares,
    )
    from tiburon.trace.primitives.spd import SpdFactor, factor_spd, solve_spd
    from tiburon.trace.primitives.tree import TreeFactor, factor_tree, solve_tree
    from tiburon.trace.primitives.tree_columns import solve_tree_columns
    from tiburon.trace.primitives.tree_inverse import invert_tree
else:
    __getattr__ = load_on_use(
        globals(),
        {
            "tiburon.trace.primitives.least_squares": (
                "LeastSquares",
                "OrthogonalFactor",
                "factor_orthogonal",
                "solve_least_squares",
            ),
            "tiburon.trace.primitives.spd": ("SpdFactor", "factor_spd", "solve_spd"),
            "tiburon.trace.primitives.tree": ("TreeFactor", "factor_tree", "solve_tree"),
            "tiburon.trace.primitives.tree_columns": ("solve_tree_columns",),
            "tiburon.trace.primitives.tree_inverse": ("invert_tree",),
        },
    )

__all__ = [
    "LeastSquares",
    "OrthogonalFactor",
    "SpdFactor",
    "TreeFactor",
    "factor_orthogonal",
    "factor_spd",
    "factor_tree",
    "invert_tree",
    "norm",
    "solve_least_squares",
    "solve_spd",
    "solve_tree",
    "solve_tree_columns",
]
