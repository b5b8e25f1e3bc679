"""Explicit inversion: the closed form of the optimum (Nahon 1991, eqs. 5.14 to 5.16).

x = W^-1 A1^T y - W^-1 c,    y = (A1 W^-1 A1^T)^-1 (b1 + A1 W^-1 c)
"""

import numpy as np

from tiburon.arrays import NDArray
from tiburon.load_sharing.equality.solution import EqualitySolution, checked

__all__ = ["solve_by_inversion"]

Array = NDArray[np.float64]


def solve_by_inversion(W: Array, c: Array, A1: Array, b1: Array) -> EqualitySolution:
    """Minimize c^T x + x^T W x / 2 with A1 x = b1, by explicit inverses.

    Args:
        W: Symmetric positive definite, shape (n, n).
        c: Linear term, shape (n,).
        A1: Independent equations, shape (m, n).
        b1: Their right-hand sides, shape (m,).
    """
    W, c, A1, b1 = checked(W, c, A1, b1)
    inverse = np.linalg.inv(W)
    x2 = inverse @ c
    y = np.linalg.inv(A1 @ inverse @ A1.T) @ (b1 + A1 @ x2)
    return EqualitySolution(inverse @ A1.T @ y - x2, y)
