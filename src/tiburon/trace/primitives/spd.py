"""`solve_spd`: linear equations with a symmetric positive definite matrix, by A = L D L^T.

Golub and Van Loan 2013, Matrix Computations, section 4.1.2; no square roots. The matrix is stored
by its lower triangle, row by row. A factor stores the rows of L below the diagonal and the
reciprocals of D on it.

Derivatives. A factor is a handle: its tangent and its adjoint are, by convention, those of the
matrix. So x = A^-1 b implies dx = A^-1 (db - dA x), and one factorization serves the solution and
all its derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiburon.trace.graph import Graph, Nodes
from tiburon.trace.primitives.primitive import (
    Factorization,
    Index,
    Machine,
    Memory,
    Number,
    SymmetricSolve,
    dot,
    numbers_of,
    square_size,
)

LOST_PIVOT = 2.0**-49
"""Ratio of a pivot to its diagonal element below which the matrix is numerically singular."""
INLINE_SIZE = 6
"""Up to this size the operations are worth more unrolled, open to folding, than a call."""


def _place(i: int, j: int) -> int:
    return i * (i + 1) // 2 + j if i >= j else _place(j, i)


def inverted_pivot(
    m: Machine, given: Memory, found: Memory, diagonal: Index, expected: str
) -> Number:
    """Replace a pivot by its inverse and return that; NaN if it is not positive."""
    pivot = m.load(found, diagonal)
    positive = m.less(m.mul(m.constant(LOST_PIVOT), m.load(given, diagonal)), pivot)
    inverse = m.div(m.constant(1.0), m.require(positive, pivot, expected))
    m.store(found, diagonal, inverse)
    return inverse


class FactorSpd(Factorization):
    """Factor: n(n+1)/2 elements of A to as many of L and 1/D; NaN if not positive definite."""

    def __init__(self, size: int) -> None:
        super().__init__("factor_spd", size)
        self.size = size
        self.argument_count = self.result_count = size * (size + 1) // 2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Eliminate column by column, updating all that remains (right-looking)."""
        n = self.size
        row = m.table([_place(i, 0) for i in range(n)])
        for place in m.loop(0, self.argument_count):
            m.store(found, place, m.load(given, place))
        for k in m.loop(0, n):
            diagonal = m.lookup(row, k) + k
            inverse = inverted_pivot(
                m,
                given,
                found,
                diagonal,
                "a positive definite matrix; check masses and inertias, "
                "or use solve_least_squares for redundant equations",
            )
            # from the last row up: the column above a row is then still that of L D
            for i in m.loop(k + 1, n, down=True):
                start = m.lookup(row, i)
                entry = m.mul(m.load(found, start + k), inverse)
                for j in m.loop(k + 1, i + 1):
                    other = m.load(found, m.lookup(row, j) + k)
                    old = m.load(found, start + j)
                    m.store(found, start + j, m.sub_product(entry, other, old))
                m.store(found, start + k, entry)


class SolveSpd(SymmetricSolve):
    """Solve: a factor and a vector of n elements to the solution."""

    def __init__(self, size: int) -> None:
        super().__init__("solve_spd", size)
        self.size = self.result_count = size
        self.stored = size * (size + 1) // 2
        self.argument_count = self.stored + size

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Substitute forward, divide by D, substitute backward."""
        n = self.size
        row = m.table([_place(i, 0) for i in range(n)])
        for i in m.loop(0, n):
            m.store(found, i, m.load(given, self.stored + i))
        for j in m.loop(0, n):
            known = m.load(found, j)
            for i in m.loop(j + 1, n):
                entry = m.load(given, m.lookup(row, i) + j)
                m.store(found, i, m.sub_product(entry, known, m.load(found, i)))
        for i in m.loop(0, n):
            inverse = m.load(given, m.lookup(row, i) + i)
            m.store(found, i, m.mul(m.load(found, i), inverse))
        for i in m.loop(0, n, down=True):
            known = m.load(found, i)
            start = m.lookup(row, i)
            for j in m.loop(0, i):
                entry = m.load(given, start + j)
                m.store(found, j, m.sub_product(entry, known, m.load(found, j)))

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return dx = A^-1 (db - dA x)."""
        n = self.size
        change, db = tangents[: self.stored], tangents[self.stored :]
        right = [
            graph.sub(db[i], dot(graph, [(change[_place(i, j)], results[j]) for j in range(n)]))
            for i in range(n)
        ]
        return self._again(graph, args, right)

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return w = A^-1 xbar for b and -(w x^T + x w^T) for A, once on the diagonal."""
        w, x = self._again(graph, args, adjoints), results
        matrix = []
        for i in range(self.size):
            matrix += [graph.neg(dot(graph, [(w[i], x[j]), (w[j], x[i])])) for j in range(i)]
            matrix.append(graph.neg(graph.mul(w[i], x[i])))
        return [*matrix, *w]


class SpdFactor:
    """A factored symmetric positive definite matrix.

    Attributes:
        size: Rows of the matrix.
    """

    def __init__(self, size: int, numbers: Sequence[Any], inline: bool) -> None:
        """Store the values of the factor; see `factor_spd`."""
        self.size = size
        self._numbers = list(numbers)
        self._inline = inline

    @property
    def pivots(self) -> list[Any]:
        """Diagonal of D; constant in derivatives of functions that use it in decisions."""
        return [1.0 / self._numbers[_place(i, i)] for i in range(self.size)]

    def solve(self, b: Any) -> Any:
        """Solve A x = b.

        Args:
            b: Right-hand sides, shape (n,) or (n, columns).

        Returns:
            The solution, shape of b.
        """
        return SolveSpd(self.size).solve_columns(self._numbers, "b", b, inline=self._inline)


def factor_spd(matrix: Any, *, inline: bool | None = None) -> SpdFactor:
    """Factor a symmetric positive definite matrix into L D L^T.

    A matrix that is not positive definite to working precision raises on floats; in native code it
    returns NaN, which the check of results reports.

    Args:
        matrix: Shape (n, n); only the lower triangle is read.
        inline: Whether to spell the operations out in the graph instead of calling; by default up
            to n = 6.

    Returns:
        The factor, which solves.

    Raises:
        ShapeError: If the matrix is not square.
        DomainError: If it is not positive definite, on floats.
    """
    size = square_size("matrix", matrix)
    spelled = size <= INLINE_SIZE if inline is None else inline
    flat = numbers_of(matrix)
    lower = [flat[i * size + j] for i in range(size) for j in range(i + 1)]
    return SpdFactor(size, FactorSpd(size).apply(lower, inline=spelled), spelled)


def solve_spd(matrix: Any, b: Any, *, inline: bool | None = None) -> Any:
    """Solve A x = b for a symmetric positive definite matrix.

    Args:
        matrix: A, shape (n, n); only the lower triangle is read.
        b: Right-hand sides, shape (n,) or (n, columns).
        inline: See `factor_spd`.

    Returns:
        The solution x, shape of b.

    Raises:
        ShapeError: If the shapes do not fit.
        DomainError: If the matrix is not positive definite, on floats.
    """
    return factor_spd(matrix, inline=inline).solve(b)
