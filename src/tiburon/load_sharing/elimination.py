"""Equations eliminated by a basis of their null space, and problems split into independent parts.

    x = x+ + N y,   A1 x+ = b1,   A1 N = 0                                   (5.19)-(5.21)

Nahon 1991, section 5.3: the problem in y has r unknowns and inequalities alone. x+ is the solution
of least norm and N is orthonormal, by Householder's method.
"""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import DomainError

RANK_TOLERANCE = 1e-11
"""Relative singular value below which equations depend on each other."""

CONSISTENCY_TOLERANCE = 1e-9
"""Residual of dependent equations, relative to the right-hand side, that counts as rounding."""


class Eliminated(NamedTuple):
    """A quadratic program over y: minimize c^T y + y^T W y / 2 with A2 y >= b2 (5.24)."""

    particular: Array
    """x+, the solution of the equations of least norm."""

    basis: Array
    """N, orthonormal, shape (unknowns, r)."""

    W: Array
    """N^T W N."""

    c: Array
    """N^T (c + W x+)."""

    A2: Array
    """A2 N."""

    b2: Array
    """b2 - A2 x+."""

    constant: float
    """Value of the objective at x+."""

    def full(self, y: Array) -> Array:
        """Return x = x+ + N y."""
        return np.asarray(self.particular + self.basis @ y)


def null_basis(A1: Array, b1: Array) -> tuple[Array, Array]:
    """Return the solution x+ of least norm and an orthonormal basis N of the null space.

    Args:
        A1: Equations, shape (m, n); they may depend on each other.
        b1: Their right-hand sides, shape (m,).

    Raises:
        DomainError: If the equations contradict each other.
    """
    m, n = A1.shape
    if not m:
        return np.zeros(n), np.eye(n)
    Q, R = np.linalg.qr(A1.T, mode="complete")
    pivots = np.abs(np.diag(R))
    if m <= n and pivots.min() > RANK_TOLERANCE * max(1.0, n) * pivots.max():
        return Q[:, :m] @ np.linalg.solve(R[:m].T, b1), Q[:, m:]
    U, sizes, rows = np.linalg.svd(A1)
    rank = int(np.sum(sizes > RANK_TOLERANCE * sizes[0])) if sizes.size else 0
    x = rows[:rank].T @ ((U[:, :rank].T @ b1) / sizes[:rank])
    residual = float(np.abs(A1 @ x - b1).max(initial=0.0))
    if residual > CONSISTENCY_TOLERANCE * max(float(np.abs(b1).max(initial=0.0)), 1e-300):
        raise DomainError(
            "b1",
            "equations that can be satisfied",
            f"a residual of {residual:.3g} at best",
            advice="the equations depend on each other: the motion needs forces that nothing "
            "provides",
        )
    return x, rows[rank:].T


def eliminate(W: Array, c: Array, A1: Array, b1: Array, A2: Array, b2: Array) -> Eliminated:
    """Return a quadratic program with A1 x = b1, A2 x >= b2 without its equations (5.22), (5.24).

    W is definite at least on the null space of A1.
    """
    x, N = null_basis(A1, b1)
    return Eliminated(
        x, N, N.T @ W @ N, N.T @ (c + W @ x), A2 @ N, b2 - A2 @ x, float(c @ x + 0.5 * x @ W @ x)
    )


def independent_parts(*matrices: Array) -> list[list[int]]:
    """Return the unknowns in parts that no row of any matrix connects, in order.

    Branches of a robot that touch nothing are parts of their own: their equations hold their own
    efforts alone. Unknowns that no row contains, such as the forces of a contact that does not
    touch, are parts too: nothing determines them, and they are zero (the source states that their
    equations make them so).

    Args:
        *matrices: Equations, inequalities and quadratic terms with a column per unknown.
    """
    n = matrices[0].shape[1]
    leader = list(range(n))

    def root(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    for matrix in matrices:
        for row in matrix:
            used = np.flatnonzero(row)
            for j in used[1:]:
                leader[root(int(j))] = root(int(used[0]))
    parts: dict[int, list[int]] = {}
    for i in range(n):
        parts.setdefault(root(i), []).append(i)
    return list(parts.values())
