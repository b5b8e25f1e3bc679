"""Explicit multipliers: one linear system of order n + m (Nahon 1991, eqs. 5.35 and 5.36).

    [W  -A1^T] [x]   [-c]
    [A1   0  ] [y] = [b1]

W need be definite on the null space of A1 only.
"""

import numpy as np

from tiburon.arrays import NDArray
from tiburon.load_sharing.equality.solution import EqualitySolution, checked

__all__ = ["solve_with_multipliers"]

Array = NDArray[np.float64]


def solve_with_multipliers(W: Array, c: Array, A1: Array, b1: Array) -> EqualitySolution:
    """Minimize c^T x + x^T W x / 2 with A1 x = b1, with the multipliers as unknowns.

    Args:
        W: Symmetric, positive definite on the null space of A1, shape (n, n).
        c: Linear term, shape (n,).
        A1: Independent equations, shape (m, n).
        b1: Their right-hand sides, shape (m,).
    """
    W, c, A1, b1 = checked(W, c, A1, b1)
    n, m = len(c), len(b1)
    system = np.block([[W, -A1.T], [A1, np.zeros((m, m))]])
    found = np.linalg.solve(system, np.concatenate([-c, b1]))
    return EqualitySolution(found[:n], found[n:])
