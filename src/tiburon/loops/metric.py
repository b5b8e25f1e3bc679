"""Constraints in the metric of the mass matrix, whichever way that is factored: H = L^T D L.

    G = D^-1/2 L^-T J^T
    G^T y = wanted - J vd_free,    G lambda = y,    vd = vd_free + L^-1 D^-1/2 y

Orthogonal factors with pivoting decide the rank of G, and give the shortest of all lambda
(docs/numbers.md); nothing is squared. Even where lambda is large, next to a singular pose, y and
with it the motion keep their digits.

Symbols: J Jacobian of the constraints, lambda constraint forces.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tiburon.loops.constraints import Row
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.primitives import factor_orthogonal

__all__ = ["CUT", "ConstrainedMotion", "Metric", "solve_in_metric"]

CUT = 1e-10
"""Length, relative to the longest, below which a constraint counts as repeating others."""


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
    cut: float = CUT,
) -> tuple[list[Scalar], list[Scalar], Scalar, Scalar]:
    """Solve for accelerations and constraint forces by orthogonal factors.

    Args:
        metric: The mass matrix, factored.
        rows: J, one row per constraint, none of them always zero.
        free: Joint forces that act without constraints [N or N m], nv scalars.
        wanted: J vd: what the constraints ask of the accelerations.
        cut: Length, relative to the longest, below which a constraint counts as repeating others.

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
