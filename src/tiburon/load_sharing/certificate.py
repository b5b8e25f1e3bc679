"""Why a load cannot be shared: a certificate over named rows, and what would help.

A1 x = b1, A2 x >= b2 has no solution exactly if some y satisfies (Farkas' lemma)

    y2 >= 0,   A1^T y1 + A2^T y2 = 0,   b1 . y1 + b2 . y2 > 0

The rows with y != 0 contradict each other. Lifting one limit at a time shows which alone would
suffice, and by how much it would be exceeded; relaxing the equations shows which motion is nearest.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.trace.primitives.quadratic import INFEASIBLE, OPTIMAL, solve_qp

FORCE_WEIGHT = 1e-6
"""Weight of the forces relative to that of what is to be least."""

CERTIFICATE_TOLERANCE = 1e-9
"""Relative residual of a certificate."""


class Contradiction(NamedTuple):
    """A Farkas vector, scaled to a largest factor of 1."""

    y1: Array
    """Factors of the equations."""

    y2: Array
    """Factors of the limits, not negative."""

    residual: float
    """Largest component of A1^T y1 + A2^T y2, relative to the largest sum of terms."""

    gain: float
    """b1 . y1 + b2 . y2, relative to the sum of its terms; above 0."""

    @property
    def holds(self) -> bool:
        """Whether the certificate proves that there is no solution."""
        return self.residual <= CERTIFICATE_TOLERANCE < self.gain and bool(np.all(self.y2 >= 0.0))


def contradiction_of(A1: Array, b1: Array, A2: Array, b2: Array) -> Contradiction | None:
    """Return a certificate that constraints contradict each other; None where they do not."""
    n = A1.shape[1]
    found = solve_qp(np.eye(n), np.zeros(n), A1, b1, A2, b2)
    if found.status != INFEASIBLE:
        return None
    y1, y2 = np.asarray(found.equation_multipliers), np.asarray(found.inequality_multipliers)
    largest = float(np.abs([*y1, *y2]).max(initial=0.0)) or 1.0
    y1, y2 = y1 / largest, y2 / largest
    terms = np.concatenate([A1 * y1[:, None], A2 * y2[:, None]])
    size = float(np.abs(terms).sum(axis=0).max(initial=0.0)) or 1.0
    residual = float(np.abs(terms.sum(axis=0)).max(initial=0.0)) / size
    right = np.concatenate([b1 * y1, b2 * y2])
    size = float(np.abs(right).sum()) or 1.0
    return Contradiction(y1, y2, residual, float(right.sum()) / size)


def least_excess(A1: Array, b1: Array, A2: Array, b2: Array, rows: Sequence[int]) -> Array | None:
    """Return by how much some limits must be exceeded at least, in the sum of squares.

    Equations A1 x = b1 and all other limits of A2 x >= b2 hold.

    Returns:
        The excess of each of these rows; None if that does not suffice.
    """
    n, count = A1.shape[1], len(rows)
    scale = _force_scale(b1, b2)
    W = np.diag([FORCE_WEIGHT**2] * n + [1.0] * count)
    slack = np.zeros((len(b2), count))
    slack[list(rows), range(count)] = 1.0
    found = solve_qp(
        W,
        np.zeros(n + count),
        np.hstack([A1, np.zeros((len(b1), count))]),
        b1 / scale,
        np.vstack([np.hstack([A2, slack]), np.hstack([np.zeros((count, n)), np.eye(count)])]),
        np.concatenate([b2 / scale, np.zeros(count)]),
    )
    if found.status != OPTIMAL:
        return None
    return scale * np.asarray(found.x)[n:]


def least_shift(
    A1: Array,
    b1: Array,
    A2: Array,
    b2: Array,
    effects: Array,
    length: float,
    *,
    limit_effects: Array | None = None,
    weights: Array | None = None,
) -> Array | None:
    """Return the least change of parameters with which there is a solution.

    Args:
        A1: Equations A1 x = b1 + effects p.
        b1: Their right-hand sides.
        A2: Limits A2 x >= b2 + limit_effects p.
        b2: Their right-hand sides.
        effects: Change of the right-hand sides per parameter, shape (equations, parameters).
        length: Size of parameters that is comparable to the forces of the problem.
        limit_effects: Change of the limits per parameter; none by default.
        weights: Weight of the square of each parameter, the largest 1; 1 by default.

    Returns:
        The parameters of least sum of squares; None if no change of them suffices.
    """
    n, count = A1.shape[1], effects.shape[1]
    scale = _force_scale(b1, b2)
    moved = np.zeros((len(b2), count)) if limit_effects is None else limit_effects
    own = np.ones(count) if weights is None else weights
    found = solve_qp(
        np.diag([FORCE_WEIGHT**2 * float(own.min())] * n + own.tolist()),
        np.zeros(n + count),
        np.hstack([A1, -effects * length / scale]),
        b1 / scale,
        np.hstack([A2, -moved * length / scale]),
        b2 / scale,
    )
    if found.status != OPTIMAL:
        return None
    return length * np.asarray(found.x)[n:]


def _force_scale(b1: Array, b2: Array) -> float:
    """Return the size of the right-hand sides."""
    return float(np.abs(np.concatenate([b1, b2])).max(initial=0.0)) or 1.0
