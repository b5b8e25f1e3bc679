"""Symmetric equations with many zeros, solved one after the other in a good order.

The zeros are known while code is written: what is zero in structure costs nothing. Rows are
eliminated in the order of least degree (Tinney and Walker 1967), which keeps most zeros.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.spatial import Scalar

__all__ = ["SparseFactor", "elimination_order", "factor_symmetric"]

Pattern = Sequence[set[int]]
Entries = Mapping[tuple[int, int], Scalar]


def elimination_order(neighbors: Pattern) -> tuple[int, ...]:
    """Return rows in the order of least degree.

    Args:
        neighbors: For each row the others it has entries with.
    """
    left = {k: set(others) - {k} for k, others in enumerate(neighbors)}
    order = []
    while left:
        row = min(left, key=lambda k: (len(left[k]), k))
        others = left.pop(row)
        for other in others:
            left[other] |= others
            left[other] -= {row, other}
        order.append(row)
    return tuple(order)


class SparseFactor(NamedTuple):
    """L D L^T of a symmetric matrix whose rows were put in another order."""

    order: tuple[int, ...]
    columns: tuple[dict[int, Scalar], ...]
    """Of L, by place in the order: entries below the diagonal, by row of the matrix."""

    inverses: tuple[Scalar, ...]
    """1/D, by place in the order; of a lost pivot that of its diagonal element."""

    worst: Scalar
    """Smallest pivot relative to its diagonal element: the squared sine of the smallest angle
    between a row and the span of those before it, in the metric of the matrix."""

    def solve(self, right: Sequence[Scalar]) -> list[Scalar]:
        """Return the solution for a right-hand side."""
        x = list(right)
        for k, column in zip(self.order, self.columns, strict=True):
            for i, entry in column.items():
                x[i] = x[i] - entry * x[k]
        for place in reversed(range(len(self.order))):
            k = self.order[place]
            total = x[k] * self.inverses[place]
            for i, entry in self.columns[place].items():
                total = total - entry * x[i]
            x[k] = total
        return x


def factor_symmetric(order: Sequence[int], entries: Entries, lost: float) -> SparseFactor:
    """Factor a symmetric positive definite matrix without pivoting, and say how sure it is.

    Args:
        order: Order in which rows are eliminated.
        entries: Elements that are not structurally zero: (i, j) with i >= j.
        lost: Pivot, relative to its diagonal element, below which the element itself is taken in
            its place: the result is then wrong but finite, and `worst` tells.

    Returns:
        The factor.
    """
    rest: dict[tuple[int, int], Scalar] = {}
    for (i, j), x in entries.items():
        rest[i, j] = rest[j, i] = x
    columns, inverses = [], []
    worst: Scalar = 1.0
    left = list(order)
    for k in order:
        left.remove(k)
        diagonal, pivot = entries[k, k], rest[k, k]
        # a row that vanishes here must not divide by zero: it counts as lost
        scale = np.where(diagonal > 0.0, diagonal, 1.0)
        worst = np.minimum(worst, pivot / scale)
        inverse = 1.0 / np.where(pivot > lost * scale, pivot, scale)
        touched = [i for i in left if (i, k) in rest]
        column = {i: rest[i, k] * inverse for i in touched}
        for a, i in enumerate(touched):
            for j in touched[: a + 1]:
                part = column[i] * rest[j, k]
                found = rest[i, j] - part if (i, j) in rest else -part
                rest[i, j] = rest[j, i] = found
        columns.append(column)
        inverses.append(inverse)
    return SparseFactor(tuple(order), tuple(columns), tuple(inverses), worst)
