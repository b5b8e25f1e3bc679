"""Constraints in the metric of the mass matrix, whichever way that is factored: H = L^T D L.

    G = D^-1/2 L^-T J^T
    G^T y = wanted - J vd_free,    G lambda = y,    vd = vd_free + L^-1 D^-1/2 y

Orthogonal factors with pivoting decide the rank of G, and give the shortest of all lambda
(docs/numbers.md); nothing is squared. Even where lambda is large, next to a singular pose, y and
with it the motion keep their digits.

Symbols: J Jacobian of the constraints, lambda constraint forces.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiburon.errors import DomainError
from tiburon.loops.constraints import Row, entries_in_use
from tiburon.model import Model
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.primitives import factor_orthogonal

__all__ = [
    "CUT",
    "LARGEST_CUT",
    "ConstrainedMotion",
    "Metric",
    "checked_tolerance",
    "largest",
    "rank_cut",
    "solve_in_metric",
]

CUT = 1e-10
"""Length, relative to the longest, below which a constraint is redundant on the manifold."""

OFF = 10.0
"""Cut per constraint violation [1/m or 1/rad].

Off the manifold by d, a redundant constraint is independent by about d over the size of the links.
Cuts of 1 to 100 times the violation give the same accelerations.
"""

LARGEST_CUT = 1e-4
"""Largest cut of mechanisms whose constraints may all be independent.

A constraint on heavy links beside one on light links is as short, and is to be kept.
"""

OVERCONSTRAINED_CUT = 1e-2
"""Largest cut where constraints are as many as the joint velocities that they bind.

Such a mechanism moves only where some of them are redundant.
"""


def largest(values: Sequence[Scalar]) -> Scalar:
    """Return the largest absolute value, 0 for none."""
    found: Scalar = 0.0
    for value in values:
        found = np.maximum(found, np.abs(value))
    return found


def checked_tolerance(tolerance: Any) -> float:
    """Return a redundancy tolerance.

    Raises:
        DomainError: If it is not within 0 and `OVERCONSTRAINED_CUT`.
    """
    try:
        found = math.nan if isinstance(tolerance, str) else float(tolerance)
    except (TypeError, ValueError):
        found = math.nan
    # NaN is not within
    if not 0.0 <= found <= OVERCONSTRAINED_CUT:
        raise DomainError(
            "redundancy_tolerance",
            f"a number from 0 to {OVERCONSTRAINED_CUT:g}",
            f"{tolerance!r}" if found != found else f"{found:g}",
            advice="take ten times the rounding of lengths and axes: 1e-5 where they have six "
            "digits",
        )
    return found


@lru_cache(maxsize=64)
def largest_cut(model: Model) -> float:
    """Return the cut of a model at any constraint violation."""
    parts: list[tuple[int, set[int]]] = []
    for used in entries_in_use(model):
        # constraints that share velocity variables are counted together
        joined = [part for part in parts if part[1] & used]
        parts = [part for part in parts if not part[1] & used]
        if used:
            columns = set[int](used).union(*(part[1] for part in joined))
            parts.append((1 + sum(part[0] for part in joined), columns))
    overconstrained = parts and all(count >= len(columns) for count, columns in parts)
    return OVERCONSTRAINED_CUT if overconstrained else LARGEST_CUT


def rank_cut(model: Model, value: Sequence[Scalar], least: float = CUT) -> Scalar:
    """Return the relative length below which a constraint is redundant in a configuration.

    A redundant constraint becomes independent where the configuration is off the manifold, by as
    little as that is: its direction is then that of the violation, and means nothing. So the cut
    grows with the violation.

    Args:
        model: The robot.
        value: Constraint values [m or rad]; zero on the manifold.
        least: Cut on the manifold: `CUT`, or a redundancy tolerance above it.
    """
    most = largest_cut(model)
    return np.maximum(least, np.minimum(most, OFF * largest(value))) if least < most else least


class ConstrainedMotion(NamedTuple):
    """How a robot with loops answers its forces."""

    vd: tuple[Scalar, ...]
    """Joint acceleration [m/s^2 or rad/s^2], nv scalars."""

    multipliers: tuple[Scalar, ...]
    """Constraint force along each constraint [N or N m]; the shortest where several will do."""

    rank: Scalar
    """Number of independent constraints; -1 where a method decides none."""

    ratio: Scalar
    """Smallest over largest singular value, estimated, of the independent constraints."""

    iterations: Scalar = 0.0
    """Steps it took, where a method iterates."""


class Metric(Protocol):
    """A mass matrix, factored."""

    @property
    def softness(self) -> Sequence[Scalar]:
        """1/D, one per velocity variable."""

    def lowered(self, force: Row) -> Row:
        """Return L^-T times joint forces, by velocity variable; zeros are left out."""

    def raised(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return L^-1 times a vector."""


def solve_in_metric(
    metric: Metric,
    rows: Sequence[Row],
    free: Sequence[Scalar],
    wanted: Sequence[Scalar],
    cut: Scalar = CUT,
) -> tuple[list[Scalar], list[Scalar], Scalar, Scalar]:
    """Solve for accelerations and constraint forces by orthogonal factors.

    Args:
        metric: The mass matrix, factored.
        rows: J, one row per constraint, none of them always zero.
        free: Joint forces that act without constraints [N or N m], nv scalars.
        wanted: J vd: what the constraints ask of the accelerations.
        cut: Length, relative to the longest, below which a constraint is redundant.

    Returns:
        Joint accelerations, one force per row, rank, and ratio of singular values.
    """
    roots = [np.sqrt(x) for x in metric.softness]
    size = len(roots)
    pushed = metric.lowered(dict(enumerate(free)))
    alone = [pushed[i] * roots[i] for i in range(size)]
    if not rows:
        return list(metric.raised([x * y for x, y in zip(roots, alone, strict=True)])), [], 0.0, 1.0
    lowered = [metric.lowered(row) for row in rows]
    G = [[row[i] * roots[i] if i in row else 0.0 for row in lowered] for i in range(size)]
    factor = factor_orthogonal(as_traced(G), cut=cut)
    missing = [
        want - sum((x * roots[i] * alone[i] for i, x in row.items()), start=0.0)
        for want, row in zip(wanted, lowered, strict=True)
    ]
    change = list(factor.solve_transpose(as_traced(missing)))
    forces = list(factor.solve(as_traced(change)))
    total = [roots[i] * (alone[i] + change[i]) for i in range(size)]
    return list(metric.raised(total)), forces, factor.rank, factor.ratio
