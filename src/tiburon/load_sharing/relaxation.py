"""Loads that cannot be shared: what is given up, level by level.

Constraints come in levels. Those of no level hold. Of the others the last level is the most
important one: its violation is made least first, in the sum of squares; with that fixed, the level
before it, and so on. What forces remain open minimize the objective (lexicographic least squares).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.trace.primitives.quadratic import OPTIMAL, solve_qp

__all__ = ["Relaxed", "relaxed_levels"]

Array = NDArray[np.float64]

LIGHT = 1e-7
"""Weight of the forces relative to that of violations."""

KEPT = 1e-9
"""Room for rounding of violations that are fixed, relative to the size of the problem."""


class Relaxed(NamedTuple):
    """A solution with violations."""

    x: Array
    """Forces; NaN if even the constraints of no level contradict each other."""

    lacking: Array
    """b1 - A1 x: what each equation lacks."""

    excess: Array
    """By how much each limit is exceeded, at least 0."""

    is_solved: bool


def relaxed_levels(
    W: Array,
    c: Array,
    A1: Array,
    b1: Array,
    A2: Array,
    b2: Array,
    levels: Sequence[tuple[Sequence[int], Sequence[int]]],
    weights: Array,
) -> Relaxed:
    """Return the forces that violate as little as possible, level by level.

    Args:
        W: Quadratic term of the objective.
        c: Its linear term.
        A1: Equations.
        b1: Their right-hand sides.
        A2: Limits A2 x >= b2.
        b2: Their right-hand sides.
        levels: Equations and limits of each level; the first may be violated most.
        weights: Weight of the square of what each equation lacks.
    """
    n = A1.shape[1]
    scale = float(np.abs(np.concatenate([b1, b2])).max(initial=0.0)) or 1.0
    lacking, excess = np.zeros(len(b1)), np.zeros(len(b2))
    sizes = np.linalg.norm(A2, axis=1)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    open_equations = {i for equations, _ in levels for i in equations}
    open_limits = {i for _, limits in levels for i in limits}
    for equations, limits in reversed(list(levels)):
        free_1, free_2 = sorted(open_equations), sorted(open_limits)
        k1, k2 = len(free_1), len(free_2)
        own = [i in equations for i in free_1] + [i in limits for i in free_2]
        # slacks of this level count, those of less important ones are free
        counted = np.array([*weights[free_1], *(1.0 / sizes[free_2] ** 2)])
        least = float(counted.min(initial=1.0))
        squares = np.where(own, counted, LIGHT**2 * least)
        slack_1, slack_2 = np.zeros((len(b1), k1 + k2)), np.zeros((len(b2), k1 + k2))
        slack_1[free_1, range(k1)] = 1.0
        slack_2[free_2, range(k1, k1 + k2)] = 1.0
        room = KEPT * scale * sizes * (excess > 0.0)
        found = solve_qp(
            np.diag(np.concatenate([np.full(n, LIGHT**2 * least), squares])),
            np.zeros(n + k1 + k2),
            np.hstack([A1, slack_1]),
            (b1 - lacking) / scale,
            np.vstack([np.hstack([A2, slack_2]), np.eye(n + k1 + k2)[n + k1 :]]),
            np.concatenate([b2 - excess - room, np.zeros(k2)]) / scale,
        )
        if found.status != OPTIMAL:
            return Relaxed(np.full(n, np.nan), lacking, excess, False)
        slack = scale * np.asarray(found.x)[n:]
        for i, on, value in zip(free_1, own[:k1], slack[:k1], strict=True):
            lacking[i] = value if on else lacking[i]
        for i, on, value in zip(free_2, own[k1:], slack[k1:], strict=True):
            excess[i] = max(float(value), 0.0) if on else excess[i]
        open_equations -= set(equations)
        open_limits -= set(limits)
    room = KEPT * scale * sizes * (1.0 if len(levels) else 0.0)
    found = solve_qp(W, c, A1, b1 - lacking, A2, b2 - excess - room)
    solved = found.status == OPTIMAL
    x = np.asarray(found.x) if solved else np.full(n, np.nan)
    return Relaxed(x, lacking, excess, solved)
