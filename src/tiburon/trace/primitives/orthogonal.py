"""`factor_orthogonal`: equations of any shape and rank, by orthogonal factors with pivoting.

A = Q T Z^T with orthonormal columns in Q and Z and a lower triangle T of the size of the rank.
First A = Q R by modified Gram-Schmidt with column pivoting, each pivot column orthogonalized once
more (Daniel, Gragg, Kaufman and Stewart 1976); then R = T Z^T, each row orthogonalized twice. This
is Stewart's pivoted QLP decomposition (1999), whose diagonal tracks the singular values. Columns
that remain smaller than the cut times the first pivot count as dependent and are left out. The cut
is an argument: how exactly a matrix is known may differ from case to case.

The solution x = Z T^-1 Q^T b is the least-squares solution of smallest length. Nothing is squared,
so the error grows with the condition of A, not with its square.

Derivative. A factor is a handle whose tangent and adjoint are, by agreement, those of the matrix;
`tiburon.trace.primitives.orthogonal_apply` uses them. Cut, rank and ratio count as constant.
"""

from __future__ import annotations

from tiburon.trace.graph import Graph
from tiburon.trace.primitives.machine import Index, Machine, Memory, Number
from tiburon.trace.primitives.primitive import Primitive

__all__ = ["FactorOrthogonal", "factor_size"]


class FactorOrthogonal(Primitive):
    """Factor: the elements of A by rows, then the cut, to Q, T, Z^T, rank and ratio.

    With k = min(rows, columns): Q by rows (rows x k), T by rows (k x k, reciprocals on the
    diagonal), Z^T by rows (k x columns). Beyond the rank all three are zero.
    """

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__("factor_orthogonal", rows, columns)
        self.rows, self.columns = rows, columns
        self.small = min(rows, columns)

    @property
    def argument_count(self) -> int:
        """Number of floats it takes."""
        return self.rows * self.columns + 1

    @property
    def result_count(self) -> int:
        """Number of floats it gives."""
        return factor_size(self.rows, self.columns) + 2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Orthogonalize columns, largest first, until the rest is negligible; then rows.

        The pivot is marked by a row of zeros with a single one, and used by multiplying with it:
        cases that differ in their pivots then still do the same in the lanes of one vector.
        """
        rows, columns, small = self.rows, self.columns, self.small
        zero, one = m.constant(0.0), m.constant(1.0)
        rest, squares = m.memory(rows * columns), m.memory(columns)
        column, upper = m.memory(rows), m.memory(small * columns)
        chosen = m.memory(columns)
        _fill(m, found, self.result_count)
        _fill(m, upper, small * columns)
        _fill(m, squares, columns)
        for i in m.loop(0, rows):
            for j in m.loop(0, columns):
                value = m.load(given, i * columns + j)
                m.store(rest, i * columns + j, value)
                m.store(squares, j, m.add_product(value, value, m.load(squares, j)))
        cut = m.load(given, rows * columns)
        rank, largest, stopped = m.memory(1), m.memory(1), m.memory(1)
        for counter in (rank, largest, stopped):
            m.store(counter, 0, zero)

        for k in m.loop(0, small):
            _mark_largest(m, squares, chosen, columns)
            _fill(m, column, rows)
            for i in m.loop(0, rows):
                for j in m.loop(0, columns):
                    value = m.load(rest, i * columns + j)
                    old = m.load(column, i)
                    m.store(column, i, m.add_product(m.load(chosen, j), value, old))
            self._orthogonalize_again(m, found, column, upper, chosen, k)
            length = m.sqrt(_square(m, column, rows))
            first = m.choose(m.less(m.load(largest, 0), length), length, m.load(largest, 0))
            m.store(largest, 0, first)
            # asked this way round, NaN is kept and shows in the result
            negligible = m.less_equal(length, m.mul(cut, first))
            negligible = m.either(negligible, m.less(zero, m.load(stopped, 0)))
            m.store(stopped, 0, m.choose(negligible, one, zero))
            kept = m.choose(negligible, zero, one)
            inverse = m.div(kept, m.choose(negligible, one, length))
            m.store(rank, 0, m.add(m.load(rank, 0), kept))
            for i in m.loop(0, rows):
                m.store(found, i * small + k, m.mul(m.load(column, i), inverse))
            self._project_rest(m, found, rest, squares, upper, chosen, k)

        self._orthogonalize_rows(m, found, upper)
        self._finish(m, found, m.load(rank, 0))

    def _orthogonalize_again(
        self, m: Machine, q: Memory, column: Memory, upper: Memory, chosen: Memory, k: Index
    ) -> None:
        """Take out of the pivot column what rounding left along the k columns before it."""
        rows, columns, small = self.rows, self.columns, self.small
        parts = m.memory(small)
        for j in m.loop(0, k):
            m.store(parts, j, m.constant(0.0))
        # sums run side by side, not one after the other: no step waits for the last
        for i in m.loop(0, rows):
            value = m.load(column, i)
            for j in m.loop(0, k):
                part = m.load(parts, j)
                m.store(parts, j, m.add_product(m.load(q, i * small + j), value, part))
        for j in m.loop(0, k):
            part = m.load(parts, j)
            for i in m.loop(0, rows):
                old = m.load(column, i)
                m.store(column, i, m.sub_product(part, m.load(q, i * small + j), old))
            for c in m.loop(0, columns):
                place = j * columns + c
                old = m.load(upper, place)
                m.store(upper, place, m.add_product(m.load(chosen, c), part, old))

    def _project_rest(
        self,
        m: Machine,
        q: Memory,
        rest: Memory,
        squares: Memory,
        upper: Memory,
        chosen: Memory,
        k: Index,
    ) -> None:
        """Take column k of Q out of all that remains, and measure what is left anew."""
        rows, columns, small = self.rows, self.columns, self.small
        start = k * columns
        for i in m.loop(0, rows):
            direction = m.load(q, i * small + k)
            for j in m.loop(0, columns):
                part = m.load(upper, start + j)
                value = m.load(rest, i * columns + j)
                m.store(upper, start + j, m.add_product(direction, value, part))
        # from here on the mark is 0 for the pivot column, which is used up, and 1 for all others
        for j in m.loop(0, columns):
            mark = m.load(chosen, j)
            m.store(chosen, j, m.sub_product(mark, mark, m.constant(1.0)))
        _fill(m, squares, columns)
        for i in m.loop(0, rows):
            direction = m.load(q, i * small + k)
            for j in m.loop(0, columns):
                place = i * columns + j
                left = m.sub_product(direction, m.load(upper, start + j), m.load(rest, place))
                left = m.mul(left, m.load(chosen, j))
                m.store(rest, place, left)
                m.store(squares, j, m.add_product(left, left, m.load(squares, j)))

    def _orthogonalize_rows(self, m: Machine, found: Memory, upper: Memory) -> None:
        """Turn R into T Z^T, each row orthogonalized twice; zero rows stay zero."""
        columns, small = self.columns, self.small
        triangle, right = self._triangle, self._right
        zero, one = m.constant(0.0), m.constant(1.0)
        row, parts = m.memory(columns), m.memory(small)
        for k in m.loop(0, small):
            for c in m.loop(0, columns):
                m.store(row, c, m.load(upper, k * columns + c))
            for _ in m.loop(0, 2):
                for j in m.loop(0, k):
                    m.store(parts, j, zero)
                for c in m.loop(0, columns):
                    value = m.load(row, c)
                    for j in m.loop(0, k):
                        entry = m.load(found, j * columns + c + right)
                        m.store(parts, j, m.add_product(entry, value, m.load(parts, j)))
                for j in m.loop(0, k):
                    part = m.load(parts, j)
                    for c in m.loop(0, columns):
                        entry = m.load(found, j * columns + c + right)
                        m.store(row, c, m.sub_product(part, entry, m.load(row, c)))
                    place = k * small + j + triangle
                    m.store(found, place, m.add(m.load(found, place), part))
            length = m.sqrt(_square(m, row, columns))
            empty = m.less_equal(length, zero)
            inverse = m.div(m.choose(empty, zero, one), m.choose(empty, one, length))
            m.store(found, k * small + k + triangle, inverse)
            for c in m.loop(0, columns):
                m.store(found, k * columns + c + right, m.mul(m.load(row, c), inverse))

    @property
    def _triangle(self) -> int:
        """Place of T in the results."""
        return self.rows * self.small

    @property
    def _right(self) -> int:
        """Place of Z^T in the results."""
        return self._triangle + self.small * self.small

    def _finish(self, m: Machine, found: Memory, rank: Number) -> None:
        """Give rank and ratio: smallest over largest diagonal element of T within the rank."""
        small = self.small
        zero, one = m.constant(0.0), m.constant(1.0)
        triangle, end = self._triangle, self._right + small * self.columns
        high, low, number = m.memory(1), m.memory(1), m.memory(1)
        m.store(high, 0, zero)
        m.store(low, 0, m.constant(float("inf")))
        m.store(number, 0, zero)
        for k in m.loop(0, small):
            inverse = m.load(found, k * small + k + triangle)
            within = m.less(m.load(number, 0), rank)
            large, little = m.load(high, 0), m.load(low, 0)
            larger = m.choose(m.less(large, inverse), inverse, large)
            smaller = m.choose(m.less(inverse, little), inverse, little)
            m.store(high, 0, m.choose(within, larger, large))
            m.store(low, 0, m.choose(within, smaller, little))
            m.store(number, 0, m.add(m.load(number, 0), one))
        some = m.less(zero, m.load(high, 0))
        divisor = m.choose(some, m.load(high, 0), one)
        m.store(found, end, rank)
        m.store(found, end + 1, m.div(m.choose(some, m.load(low, 0), zero), divisor))

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the tangent of the matrix, padded: it stands for that of the factor."""
        zero = graph.const(0.0)
        count = self.rows * self.columns
        return [*tangents[:count], *[zero] * (self.result_count - count)]

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoint of the matrix, which stands for that of the factor."""
        return [*adjoints[: self.rows * self.columns], graph.const(0.0)]


def factor_size(rows: int, columns: int) -> int:
    """Return how many numbers Q, T and Z have together."""
    small = min(rows, columns)
    return rows * small + small * small + small * columns


def _fill(m: Machine, memory: Memory, size: int) -> None:
    for place in m.loop(0, size):
        m.store(memory, place, m.constant(0.0))


def _mark_largest(m: Machine, values: Memory, marks: Memory, size: int) -> None:
    """Set the mark of the largest value (the first of equal ones) to 1 and all others to 0."""
    zero, one, half = m.constant(0.0), m.constant(1.0), m.constant(0.5)
    best, best_number, number = m.memory(1), m.memory(1), m.memory(1)
    m.store(best, 0, m.constant(-1.0))
    m.store(best_number, 0, zero)
    m.store(number, 0, zero)
    for j in m.loop(0, size):
        value = m.load(values, j)
        larger = m.less(m.load(best, 0), value)
        m.store(best, 0, m.choose(larger, value, m.load(best, 0)))
        chosen = m.choose(larger, m.load(number, 0), m.load(best_number, 0))
        m.store(best_number, 0, chosen)
        m.store(marks, j, m.load(number, 0))
        m.store(number, 0, m.add(m.load(number, 0), one))
    # marks hold whole numbers: the right one differs by less than a half
    for j in m.loop(0, size):
        distance = m.sub_product(one, m.load(best_number, 0), m.load(marks, j))
        below = m.less(distance, half)
        above = m.less(m.sub_product(one, distance, zero), half)
        m.store(marks, j, m.choose(below, m.choose(above, one, zero), zero))


def _square(m: Machine, vector: Memory, size: int) -> Number:
    total = m.memory(1)
    m.store(total, 0, m.constant(0.0))
    for i in m.loop(0, size):
        value = m.load(vector, i)
        m.store(total, 0, m.add_product(value, value, m.load(total, 0)))
    return m.load(total, 0)
