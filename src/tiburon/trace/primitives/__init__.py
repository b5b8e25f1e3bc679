"""Solvers that a graph calls: each is written once, then run, counted, differentiated, compiled."""

from typing import TYPE_CHECKING

from tiburon.lazy import load_on_use
from tiburon.trace.primitives.norm import norm

if TYPE_CHECKING:
    from tiburon.trace.primitives.orthogonal import (
        LeastSquares,
        OrthogonalFactor,
        factor_orthogonal,
        solve_least_squares,
    )
    from tiburon.trace.primitives.spd import SpdFactor, factor_spd, solve_spd
    from tiburon.trace.primitives.tree import (
        TreeFactor,
        factor_tree,
        invert_tree,
        solve_tree,
        solve_tree_columns,
    )
else:
    __getattr__ = load_on_use(
        globals(),
        {
            "tiburon.trace.primitives.orthogonal": (
                "LeastSquares",
                "OrthogonalFactor",
                "factor_orthogonal",
                "solve_least_squares",
            ),
            "tiburon.trace.primitives.spd": ("SpdFactor", "factor_spd", "solve_spd"),
            "tiburon.trace.primitives.tree": (
                "TreeFactor",
                "factor_tree",
                "invert_tree",
                "solve_tree",
                "solve_tree_columns",
            ),
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
