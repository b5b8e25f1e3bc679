"""Conditions of an optimum: residuals of a solution of a quadratic program, on any data.

    W x + c = A1^T y1 + A2^T y2,   A1 x = b1,   A2 x >= b2,   y2 >= 0,   y2 (A2 x - b2) = 0

Nahon 1991, sections 5.1 and 5.2. For a positive definite W these are necessary and sufficient.
Multipliers of active limits that are positive, as the source requires, suffice but are not needed:
a limit that the optimum just touches has a multiplier of zero.
"""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array

ACTIVE_SLACK = 1e-9
"""Slack relative to the terms of a limit up to which it is active."""


class Optimality(NamedTuple):
    """Residuals of a solution, relative to the terms of each condition."""

    gradient: float
    """Of W x + c - A1^T y1 - A2^T y2."""

    equations: float
    """Of A1 x - b1."""

    limits: float
    """Largest violation of A2 x >= b2."""

    signs: float
    """Most negative multiplier of a limit, relative to the largest."""

    complementarity: float
    """Largest slack of a limit with a multiplier."""

    is_strict: bool
    """Whether all active limits have positive multipliers: sufficient, not necessary."""

    @property
    def residual(self) -> float:
        """The largest of all."""
        return max(self[:5])


def optimality(
    W: Array, c: Array, A1: Array, b1: Array, A2: Array, b2: Array, x: Array, y1: Array, y2: Array
) -> Optimality:
    """Return the residuals of a solution x of A1 x = b1, A2 x >= b2 with multipliers y1 and y2."""
    tiny = 1e-300
    terms = (
        np.abs(W) @ np.abs(x) + np.abs(c) + np.abs(A1).T @ np.abs(y1) + np.abs(A2).T @ np.abs(y2)
    )
    gradient = np.abs(W @ x + c - A1.T @ y1 - A2.T @ y2)
    equations = np.abs(A1 @ x - b1) / (np.abs(A1) @ np.abs(x) + np.abs(b1) + tiny)
    sizes = np.abs(A2) @ np.abs(x) + np.abs(b2) + tiny
    slack = (A2 @ x - b2) / sizes
    largest = float(np.abs(y2).max(initial=0.0)) or 1.0
    carries = y2 > ACTIVE_SLACK * largest
    return Optimality(
        float((gradient / (terms.max(initial=0.0) + tiny)).max(initial=0.0)),
        float(equations.max(initial=0.0)),
        float((-slack).max(initial=0.0)),
        float((-y2).max(initial=0.0)) / largest,
        float(np.abs(slack[carries]).max(initial=0.0)),
        bool(np.all(carries[slack <= ACTIVE_SLACK])),
    )
