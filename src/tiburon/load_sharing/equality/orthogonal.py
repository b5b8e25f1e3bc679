"""Orthogonal decomposition of the equations in the metric of W (Nahon 1991, eqs. 5.28 to 5.34).

    W = L L^T,   L^-1 A1^T = Q [R; 0],   x = L^-T Q [R^-T b'; 0] - W^-1 c,   b' = b1 + A1 W^-1 c

m reflections suffice: one per equation.
"""

import numpy as np

from tiburon.arrays import NDArray
from tiburon.load_sharing.equality.solution import EqualitySolution, checked, cholesky

__all__ = ["solve_orthogonally"]

Array = NDArray[np.float64]


def solve_orthogonally(W: Array, c: Array, A1: Array, b1: Array) -> EqualitySolution:
    """Minimize c^T x + x^T W x / 2 with A1 x = b1, by an orthogonal decomposition.

    Args:
        W: Symmetric positive definite, shape (n, n).
        c: Linear term, shape (n,).
        A1: Independent equations, shape (m, n).
        b1: Their right-hand sides, shape (m,).
    """
    W, c, A1, b1 = checked(W, c, A1, b1)
    L = cholesky(W)
    x2 = np.linalg.solve(L.T, np.linalg.solve(L, c))
    Q, R = np.linalg.qr(np.linalg.solve(L, A1.T))
    y_a = np.linalg.solve(R.T, b1 + A1 @ x2)
    x = np.linalg.solve(L.T, Q @ y_a) - x2
    return EqualitySolution(x, np.linalg.solve(R, y_a))
