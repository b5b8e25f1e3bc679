"""Two arms on a load by their inverse inertias (McMillan 1994, section 4.4.1, table 7).

Both methods take Lambda_k^-1 = J_k H_k^-1 J_k^T and the open accelerations x_k of two arms, all at
one point of the load and in its axes, where the load's inertia is diagonal (its mass center and
principal axes).

Method I inverts Lambda_k^-1: it is chapter 2 for m = 2, and fails where an arm is singular. Method
II treats both arms as singular in every pose (s = 2 of `star_singular`): with S the inverse inertia
of the load and G = (Lambda_1^-1 + S)^-1,

    f_2 = [Lambda_2^-1 + S - S G S]^-1 [x_2 - S f_* - S G (x_1 - S f_*)]        (4.16)
    f_1 = G (x_1 - S f_* - S f_2)                                              (4.17)
    a   = S (f_1 + f_2 + f_*)                                                  (4.18)

The source solves for f_2 by a Cholesky factorization. Where forces of both arms that no joint feels
oppose each other, the bracket is singular: its rank is decided then, and free components of f_2 are
zero (L1103). The acceleration of the load is unique all the same.

Symbols: Lambda inertia of an arm at the load's origin, x acceleration that the load's point of the
arm would have alone, f tip forces on the load, f_* = -c its other forces.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.loops.star_singular import free_components_zero
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.regions import where_needed

Matrix = list[list[Scalar]]

LOST_PIVOT = 1e-10
"""Pivot of the bracket for f_2, relative to the largest element of its diagonal, that counts as
zero: the bracket has the squares of distances from a common null force."""

RELATIVE_SHIFT = 2.0**-46
"""Added to the diagonal of the bracket, relative to its largest element, where its rank is
decided: rounding error makes no pivot zero or negative."""


# -- dual arms -------------------------------------------------------------------------------------


def method_one(
    inverses: Sequence[Matrix], x: Sequence[Scalars], load: Scalars, c: Scalars
) -> tuple[list[Scalar], list[list[Scalar]]]:
    """Return the load's acceleration and the tip forces of two regular arms (method I).

    Args:
        inverses: Lambda_k^-1, all at the load's mass center.
        x: Open-chain accelerations.
        load: Diagonal of the load's inertia.
        c: Bias minus gravity force of the load.
    """
    inertias = [SymmetricFactor.of(A).inverted() for A in inverses]
    pushed = [times(A, b) for A, b in zip(inertias, x, strict=True)]
    force = subtract_vectors(add_vectors(*pushed), c)
    first, second = inertias
    total = symmetric(lambda i, j: first[i][j] + second[i][j] + (load[i] if i == j else 0.0))
    a = SymmetricFactor.of(total).solve(force)
    # Lambda x is known: no difference of accelerations is needed
    forces = [subtract_vectors(p, times(A, a)) for p, A in zip(pushed, inertias, strict=True)]
    return a, forces


def method_two(
    inverses: Sequence[Matrix],
    x: Sequence[Scalars],
    compliance: Scalars,
    c: Scalars,
    *,
    apart: bool = False,
) -> tuple[list[Scalar], list[list[Scalar]]]:
    """Return the same for arms in any pose (method II).

    Args:
        inverses: Lambda_k^-1, all at the load's mass center.
        x: Open-chain accelerations.
        compliance: Diagonal of the inverse of the load's inertia.
        c: Bias minus gravity force of the load.
        apart: Whether no force that one arm does not feel opposes one of the other, as the source
            assumes; by default this is decided.
    """
    summed = [
        symmetric(lambda i, j, A=A: A[i][j] + compliance[i] if i == j else A[i][j])  # type: ignore[misc]
        for A in inverses
    ]
    falling = [s * y for s, y in zip(compliance, c, strict=True)]
    first, second = (add_vectors(b, falling) for b in x)
    G = SymmetricFactor.of(summed[0]).inverted()
    SG = [[s * y for y in row] for s, row in zip(compliance, G, strict=True)]
    left = symmetric(lambda i, j: summed[1][i][j] - SG[i][j] * compliance[j])
    right = subtract_vectors(second, times(SG, first))
    f2 = _regular(left, right) if apart else _any_rank(left, right)
    moved = [s * y for s, y in zip(compliance, f2, strict=True)]
    f1 = times(G, subtract_vectors(first, moved))
    a = [s * y + z - g for s, y, z, g in zip(compliance, f1, moved, falling, strict=True)]
    return a, [f1, f2]


def _regular(A: Sequence[Scalars], b: Scalars) -> list[Scalar]:
    return SymmetricFactor.of(A).solve(b)


def _any_rank(A: Sequence[Scalars], b: Scalars) -> list[Scalar]:
    """Solve with a symmetric matrix without negative eigenvalues, free components zero."""
    largest: Scalar = 0.0
    for k in range(len(A)):
        largest = np.maximum(largest, A[k][k])
    shifted = symmetric(
        lambda i, j: A[i][j] + RELATIVE_SHIFT * largest if i == j else A[i][j], len(A)
    )
    weakest: Scalar = largest
    for inverse in SymmetricFactor.of(shifted).inverse:
        weakest = np.minimum(weakest, 1.0 / inverse)
    is_lost = weakest <= LOST_PIVOT * largest
    safe = symmetric(lambda i, j: np.where(is_lost, 1.0 if i == j else 0.0, A[i][j]), len(A))

    def revealed() -> list[Scalar]:
        factor = factor_orthogonal(as_traced([list(row) for row in A]), cut=LOST_PIVOT)
        f = list(factor.solve(as_traced(list(b))))
        return free_components_zero(factor, f, [1.0] * len(f))

    return list(where_needed(is_lost, revealed, _regular(safe, b)))


# -- symmetric systems -----------------------------------------------------------------------------


class SymmetricFactor(NamedTuple):
    """A = L D L^T."""

    L: Matrix
    """Below the diagonal, by rows."""

    inverse: list[Scalar]
    """1 / D."""

    @classmethod
    def of(cls, A: Sequence[Scalars]) -> "SymmetricFactor":
        """Factor a symmetric positive definite matrix, lower triangle read; no square roots."""
        L: Matrix = []
        inverse: list[Scalar] = []
        for i in range(len(A)):
            scaled: list[Scalar] = []
            row: list[Scalar] = []
            for j in range(i):
                x = A[i][j]
                for k in range(j):
                    x = x - scaled[k] * L[j][k]
                scaled.append(x)
                row.append(x * inverse[j])
            d = A[i][i]
            for k in range(i):
                d = d - scaled[k] * row[k]
            L.append(row)
            inverse.append(1.0 / d)
        return cls(L, inverse)

    def forward(self, b: Scalars) -> list[Scalar]:
        """Return L^-1 b."""
        found: list[Scalar] = []
        for row, x in zip(self.L, b, strict=True):
            for entry, before in zip(row, found, strict=True):
                x = x - entry * before
            found.append(x)
        return found

    def backward(self, b: Scalars) -> list[Scalar]:
        """Return L^-T b."""
        found = list(b)
        for i in range(len(found) - 1, -1, -1):
            for k in range(i):
                found[k] = found[k] - self.L[i][k] * found[i]
        return found

    def scale(self, b: Scalars) -> list[Scalar]:
        """Return D^-1 b."""
        return [x * d for x, d in zip(b, self.inverse, strict=True)]

    def solve(self, b: Scalars) -> list[Scalar]:
        """Return A^-1 b."""
        return self.backward(self.scale(self.forward(b)))

    def inverted(self) -> Matrix:
        """Return A^-1 = L^-T D^-1 L^-1."""
        n = len(self.L)
        # rows of W = L^-1 left of its unit diagonal
        W: Matrix = []
        for i in range(n):
            row: list[Scalar] = []
            for j in range(i):
                x = -self.L[i][j]
                for k in range(j + 1, i):
                    x = x - self.L[i][k] * W[k][j]
                row.append(x)
            W.append(row)
        found: Matrix = [[0.0] * n for _ in range(n)]
        scaled = [[x * self.inverse[k] for x in W[k]] for k in range(n)]
        for i in range(n):
            for j in range(i + 1):
                x = self.inverse[i] if i == j else scaled[i][j]
                for k in range(i + 1, n):
                    x = x + scaled[k][i] * W[k][j]
                found[i][j] = found[j][i] = x
        return found


def dot(a: Scalars, b: Scalars) -> Scalar:
    """Return the product of two vectors, without a zero at the start."""
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def times(A: Sequence[Scalars], x: Scalars) -> list[Scalar]:
    """Return a matrix times a vector."""
    return [dot(row, x) for row in A]


def add_vectors(a: Scalars, b: Scalars) -> list[Scalar]:
    """Return a + b."""
    return [x + y for x, y in zip(a, b, strict=True)]


def subtract_vectors(a: Scalars, b: Scalars) -> list[Scalar]:
    """Return a - b."""
    return [x - y for x, y in zip(a, b, strict=True)]


def symmetric(entry: Callable[[int, int], Scalar], n: int = 6) -> Matrix:
    """Return a symmetric matrix from the elements of its lower triangle."""
    found: Matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            found[i][j] = found[j][i] = entry(i, j)
    return found
