"""Choice of independent velocities at one configuration: rows W of `complement`, on floats.

"gauss"
    Gaussian elimination of the constraint Jacobian with total pivoting: columns without pivot are
    independent, and W is boolean (Serna, Aviles and Garcia de Jalon 1982; Khan 2002, appendix A.3).

"qr"
    A^T = [Q1 Q2] [R; 0], W = Q2^T (appendix A.2; A = R^T Q1^T with a lower triangle).

"svd"
    A = U [Sigma 0] [V1 V2]^T, W = V2^T (appendix A.1).

Rows of "qr" and "svd" span the same velocities, so that runs agree up to rounding.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array

MIN_PIVOT = 1e-8
"""Pivot, relative to the first, that counts as zero: rows beyond are redundant."""


ROUNDING = 1e-13
"""Element of reduced rows that is rounding error."""


class Pivots(NamedTuple):
    """Pivots of an elimination with total pivoting, the largest first."""

    rows: tuple[int, ...]
    """Independent constraints."""

    columns: tuple[int, ...]
    """Dependent velocities."""


def total_pivots(A: Array, rank: int | None = None, cut: float = MIN_PIVOT) -> Pivots:
    """Return rows and columns of the pivots of Gaussian elimination with total pivoting.

    Args:
        A: The matrix.
        rank: Number of pivots, where it is known; those above the cut by default.
        cut: Pivot, relative to the first, that counts as zero.
    """
    rest = np.array(A, dtype=np.float64)
    rows: list[int] = []
    columns: list[int] = []
    first = 0.0
    for _ in range(min(rest.shape) if rank is None else rank):
        i, j = (int(k) for k in np.unravel_index(int(np.argmax(np.abs(rest))), rest.shape))
        pivot = float(rest[i, j])
        first = first or abs(pivot)
        if not abs(pivot) > (cut * first if rank is None else 0.0):
            break
        rest = rest - np.outer(rest[:, j] / pivot, rest[i])
        rest[i], rest[:, j] = 0.0, 0.0
        rows.append(i)
        columns.append(j)
    return Pivots(tuple(rows), tuple(columns))


def grouped_pivots(A: Array, rank: int, groups: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the columns of pivots that are sought in one group of columns after the other.

    A column of a later group becomes a pivot only if those before it have none left.
    """
    rest = np.array(A, dtype=np.float64)
    least = np.sqrt(MIN_PIVOT) * float(np.abs(rest).max(initial=0.0))
    found: list[int] = []
    for group in groups:
        left = list(group)
        while left and len(found) < rank:
            part = np.abs(rest[:, left])
            i, j = (int(k) for k in np.unravel_index(int(np.argmax(part)), part.shape))
            if not part[i, j] > least:
                break
            column = left.pop(j)
            rest = rest - np.outer(rest[:, column] / rest[i, column], rest[i])
            rest[i] = 0.0
            found.append(column)
    return tuple(found)


def reduced_rows(A: Array) -> tuple[Array, tuple[int, ...]]:
    """Return a basis of the rows in reduced echelon form, and the columns of its pivots."""
    rows, columns = total_pivots(A)
    order = sorted(range(len(rows)), key=lambda k: columns[k])
    kept = A[[rows[k] for k in order]]
    pivots = tuple(columns[k] for k in order)
    reduced: Array = np.asarray(np.linalg.solve(kept[:, pivots], kept), dtype=np.float64)
    reduced[np.abs(reduced) < ROUNDING] = 0.0
    reduced[:, pivots] = np.eye(len(pivots))
    return reduced, pivots


def gauss_basis(A: Array, rank: int | None = None) -> Array:
    """Return boolean rows that select the columns without pivot, in order."""
    dependent = total_pivots(A, rank).columns
    return np.delete(np.eye(A.shape[1]), dependent, axis=0)


def qr_basis(A: Array, rank: int | None = None) -> Array:
    """Return an orthonormal basis of the null space by a QR factorization of A^T, as rows."""
    rows = list(total_pivots(A, rank).rows)
    if not rows:
        return np.eye(A.shape[1])
    Q = np.linalg.qr(A[rows].T, mode="complete")[0]
    return np.asarray(Q[:, len(rows) :].T)


def svd_basis(A: Array, rank: int | None = None) -> Array:
    """Return an orthonormal basis of the null space by singular values, as rows."""
    _, sizes, V = np.linalg.svd(A)
    if rank is None:
        rank = int(np.sum(sizes > MIN_PIVOT * max(sizes[:1], default=0.0))) if sizes.size else 0
    return np.asarray(V[rank:])


BASES: dict[str, Callable[..., Array]] = {
    "gauss": gauss_basis,
    "qr": qr_basis,
    "svd": svd_basis,
}
"""By name; each takes the constraint Jacobian at one configuration, and its rank if known."""
