"""Balancing of mechanisms by redundant motors: supports that carry as little force as possible.

Nahon 1991, section 7.1: actuation changes neither the net force nor the net moment on the frame of
a mechanism, but it changes how the supports share them. The sum of the squares of the support
forces (7.6) leaves some efforts open; of all optima that with the least efforts is taken, exactly,
by levels and not by weights: a linkage whose center of mass stays has support forces of zero.
"""

from collections.abc import Sequence

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import DomainError
from tiburon.load_sharing.elimination import null_basis
from tiburon.trace.primitives.quadratic import OPTIMAL, solve_qp

Level = tuple[Array, Array]

RANK_TOLERANCE = 1e-10
"""Singular value relative to the largest below which a level does not depend on a direction."""

LEVEL_WEIGHT = 1e-6
"""Weight of a level relative to the one before, where limits decide which rows are active."""

VIOLATION_TOLERANCE = 1e-9
"""Violation of a limit, relative to the data, that counts as rounding error."""


def least_by_levels(levels: Sequence[Level], A1: Array, b1: Array, A2: Array, b2: Array) -> Array:
    """Return x that makes the squares |G x + g|^2 of the first level least, then of the next, ...

    Equations are A1 x = b1, limits A2 x >= b2.

    Raises:
        DomainError: If no x satisfies equations and limits.
    """
    x = _without_limits(levels, A1, b1)
    if _holds(A2, b2, x):
        return x
    # which limits are active: a weighted program; then the levels exactly, with these as equations
    x0, N = null_basis(A1, b1)
    W = np.zeros((N.shape[1], N.shape[1]))
    c = np.zeros(N.shape[1])
    weight = 1.0
    for G, g in levels:
        H = G @ N
        size = max(float(np.abs(H).max(initial=0.0)) ** 2, 1e-300)
        W += weight / size * H.T @ H
        c += weight / size * H.T @ (G @ x0 + g)
        weight *= LEVEL_WEIGHT
    W += weight * np.eye(len(c))
    rows, right = A2 @ N, b2 - A2 @ x0
    found = solve_qp(W, c, None, None, rows, right)
    if found.status != OPTIMAL:
        raise DomainError(
            "limits",
            "limits within which the motion can be produced",
            "none",
            advice="raise the torque limits, or drive more joints",
        )
    active = np.asarray(found.inequality_multipliers) > 0.0
    weighted = x0 + N @ np.asarray(found.x)
    exact = _without_limits(levels, np.vstack([A1, A2[active]]), np.concatenate([b1, b2[active]]))
    return exact if _holds(A2, b2, exact) else weighted


def _holds(A2: Array, b2: Array, x: Array) -> bool:
    size = np.abs(A2) @ np.abs(x) + np.abs(b2)
    return bool(np.all(A2 @ x - b2 >= -VIOLATION_TOLERANCE * np.maximum(size, 1e-300)))


def _without_limits(levels: Sequence[Level], A1: Array, b1: Array) -> Array:
    x, N = null_basis(A1, b1)
    for G, g in levels:
        if not N.shape[1]:
            break
        H = G @ N
        scale = float(np.abs(G).max(initial=0.0))
        U, sizes, rows = np.linalg.svd(H)
        rank = int(np.sum(sizes > RANK_TOLERANCE * max(sizes.max(initial=0.0), 1e-3 * scale)))
        y = rows[:rank].T @ ((U[:, :rank].T @ -(G @ x + g)) / sizes[:rank])
        x = x + N @ y
        N = N @ rows[rank:].T
    return np.asarray(x)
