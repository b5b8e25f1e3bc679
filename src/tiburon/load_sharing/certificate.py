"""Why a load cannot be shared: a certificate over named rows, and what would help.

A1 x = b1, A2 x >= b2, |x_t| <= mu x_n for friction cones has no solution if some y satisfies
(Farkas' lemma)

    y2 >= 0,   mu |z_t| <= z_n,   A1^T y1 + A2^T y2 + z = 0,   b1 . y1 + b2 . y2 > 0

with z over the three components of each cone, in its dual cone, and 0 elsewhere. The rows with
y != 0 and the cones with z != 0 contradict each other. Lifting one limit at a time shows which
alone would suffice, and by how much it would be exceeded; relaxing the equations shows which motion
is nearest.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.trace.primitives.quadratic import INFEASIBLE, OPTIMAL, solve_qp

FORCE_WEIGHT = 1e-8
"""Weight of squared forces relative to that of what is to be least."""

PROXIMAL_STEPS = 2
"""Programs in a row, the weight being that of changes of the forces since the one before: each is
nearer to what is least by a factor of about the weight."""

CERTIFICATE_TOLERANCE = 1e-9
"""Relative residual of a certificate."""

EXCLUDED_FORCES = 1e6
"""Forces relative to those of the problem up to which a certificate excludes solutions."""

UNLIMITED = 1e29
"""Right-hand side from which on a row is no limit."""

Cones = Sequence[tuple[int, int, int]]
"""Places of two tangents and the normal of each friction cone."""


class Contradiction(NamedTuple):
    """A Farkas vector, scaled to a largest factor of 1."""

    y1: Array
    """Factors of the equations."""

    y2: Array
    """Factors of the limits, not negative."""

    residual: float
    """Largest component of A1^T y1 + A2^T y2 + z, relative to the largest sum of terms."""

    gain: float
    """b1 . y1 + b2 . y2, relative to the sum of its terms; above 0."""

    z: Array
    """Factors of friction cones: of two tangents and the normal of each, in its dual cone."""

    reach: float
    """Least sum of forces that a solution would have, relative to the largest |b| / |A| of a row:
    b . y over the largest component that rounding leaves of A1^T y1 + A2^T y2 + z."""

    @property
    def holds(self) -> bool:
        """Whether the certificate proves that there is no solution."""
        small = self.residual <= CERTIFICATE_TOLERANCE
        return small and self.gain > 0.0 and self.reach >= EXCLUDED_FORCES


def contradiction_of(
    A1: Array, b1: Array, A2: Array, b2: Array, cones: Cones = (), mu: Array | Sequence[float] = ()
) -> Contradiction | None:
    """Return a certificate that constraints contradict each other; None where they do not.

    Args:
        A1: Equations, shape (equations, n).
        b1: Their right-hand sides.
        A2: Limits, shape (limits, n).
        b2: Their right-hand sides.
        cones: Friction cones.
        mu: Their coefficients.
    """
    n = A1.shape[1]
    found = solve_qp(np.eye(n), np.zeros(n), A1, b1, A2, b2, cones=cones, mu=mu)
    if found.status != INFEASIBLE:
        return None
    y1, y2 = np.asarray(found.equation_multipliers), np.asarray(found.inequality_multipliers)
    return checked_contradiction(A1, b1, A2, b2, y1, y2, cones, mu)


def checked_contradiction(
    A1: Array,
    b1: Array,
    A2: Array,
    b2: Array,
    y1: Array,
    y2: Array,
    cones: Cones = (),
    mu: Array | Sequence[float] = (),
) -> Contradiction:
    """Return factors as a certificate with its residual and gain, whether it holds or not.

    Factors of limits that rounding made negative are zero; those of cones are in the dual cones.
    """
    y2 = np.maximum(y2, 0.0)
    largest = float(np.abs([*y1, *y2]).max(initial=0.0)) or 1.0
    y1, y2 = y1 / largest, y2 / largest
    terms = np.concatenate([A1 * y1[:, None], A2 * y2[:, None]])
    sums, sizes = terms.sum(axis=0), np.abs(terms).sum(axis=0)
    z = np.array([_in_dual(-sums[list(cone)], m) for cone, m in zip(cones, mu, strict=True)])
    for cone, own in zip(cones, z, strict=True):
        sums[list(cone)] += own
        sizes[list(cone)] += np.abs(own)
    size = float(sizes.max(initial=0.0)) or 1.0
    right = np.concatenate([b1 * y1, b2 * y2])
    total = float(np.abs(right).sum()) or 1.0
    left, gain = float(np.abs(sums).max(initial=0.0)), float(right.sum())
    reach = gain / max(left * _row_scale(np.vstack([A1, A2]), np.concatenate([b1, b2])), 1e-300)
    return Contradiction(y1, y2, left / size, gain / total, z.reshape(-1, 3), reach)


def _row_scale(A: Array, b: Array) -> float:
    """Return the largest force that a row asks for by itself, |b| / |A|."""
    sizes = np.abs(A).max(axis=1, initial=0.0)
    some = (sizes > 0.0) & (np.abs(b) < UNLIMITED)
    return float((np.abs(b[some]) / sizes[some]).max(initial=0.0)) or 1.0


def _in_dual(z: Array, mu: float) -> Array:
    """Return factors of a cone with those of its normal raised to mu |z_t|; none without friction.

    A cone with mu = 0 leaves the normal force free: that it pushes is a limit of its own.
    """
    least = mu * float(np.hypot(z[0], z[1]))
    return np.array([z[0], z[1], max(z[2], least) if mu > 0.0 else 0.0])


class Lifted(NamedTuple):
    """Limits that are exceeded together, by the same amount."""

    rows: Sequence[int] = ()
    """Rows of A2 x >= b2."""

    cones: Sequence[int] = ()
    """Friction cones: |x_t| - mu x_n."""


def least_excess(
    A1: Array,
    b1: Array,
    A2: Array,
    b2: Array,
    lifted: Lifted,
    cones: Cones = (),
    mu: Array | Sequence[float] = (),
) -> float | None:
    """Return by how much some limits must be exceeded at least, all by the same amount.

    Equations A1 x = b1 and all other limits hold.

    Returns:
        The amount; None if no amount suffices.
    """
    n, count = A1.shape[1], len(lifted.cones)
    scale = _force_scale(b1, b2)
    # unknowns: forces, sizes w of lifted cones, the amount
    size = n + count + 1
    slack = np.zeros((len(b2), count + 1))
    slack[list(lifted.rows), count] = 1.0
    grown = np.zeros((count, size))
    places, factors = list(cones), np.array(mu, dtype=np.float64)
    for k, which in enumerate(lifted.cones):
        # |x_t| <= w,   w = mu x_n + amount
        i, j, normal = cones[which]
        grown[k, [n + k, normal, size - 1]] = 1.0, -factors[which], -1.0
        places[which], factors[which] = (i, j, n + k), 1.0
    found = _least(
        np.ones(1),
        np.vstack([np.hstack([A1, np.zeros((len(b1), count + 1))]), grown]),
        np.concatenate([b1 / scale, np.zeros(count)]),
        np.vstack([np.hstack([A2, slack]), np.eye(size)[-1:]]),
        np.concatenate([b2 / scale, [0.0]]),
        places,
        factors,
    )
    return None if found is None else scale * float(found[0])


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
    count = effects.shape[1]
    scale = _force_scale(b1, b2)
    moved = np.zeros((len(b2), count)) if limit_effects is None else limit_effects
    own = np.ones(count) if weights is None else weights
    found = _least(
        own,
        np.hstack([A1, -effects * length / scale]),
        b1 / scale,
        np.hstack([A2, -moved * length / scale]),
        b2 / scale,
    )
    return None if found is None else length * found


def _least(
    weights: Array,
    A1: Array,
    b1: Array,
    A2: Array,
    b2: Array,
    cones: Cones = (),
    mu: Array | Sequence[float] = (),
) -> Array | None:
    """Return the last variables of least weighted squares; None if there is no solution.

    Args:
        weights: Their weights.
        A1: Equations.
        b1: Their right-hand sides.
        A2: Limits.
        b2: Their right-hand sides.
        cones: Friction cones.
        mu: Their coefficients.
    """
    n = A1.shape[1]
    light = n - len(weights)
    W = np.concatenate([np.full(light, FORCE_WEIGHT * float(weights.min())), weights])
    center, prefer = np.zeros(n), np.zeros(len(b2) + len(cones))
    x = None
    for _ in range(PROXIMAL_STEPS):
        found = solve_qp(np.diag(W), -W * center, A1, b1, A2, b2, cones=cones, mu=mu, prefer=prefer)
        if found.status != OPTIMAL:
            # rounding may contradict a later step: the one before it counts
            break
        x = np.asarray(found.x)
        center[:light] = x[:light]
        prefer = np.concatenate([found.inequality_multipliers, found.cone_multipliers])
    return None if x is None else x[light:]


def _force_scale(b1: Array, b2: Array) -> float:
    """Return the size of the right-hand sides, without those that limit nothing."""
    sizes = np.abs(np.concatenate([b1, b2]))
    return float(sizes[sizes < UNLIMITED].max(initial=0.0)) or 1.0
