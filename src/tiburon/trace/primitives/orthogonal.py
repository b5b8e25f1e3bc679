"""`factor_orthogonal`: equations of any shape and rank, by orthogonal factors with pivoting.

A = Q T Z^T with orthonormal columns in Q and Z and a lower triangle T of the size of the rank.
First A = Q R by modified Gram-Schmidt with column pivoting, each pivot column orthogonalized twice
(Daniel, Gragg, Kaufman and Stewart 1976); then R = T Z^T in the same way, row by row (Stewart 1999,
the pivoted QLP decomposition, whose diagonal tracks the singular values). Columns that remain
smaller than the cut times the first pivot count as dependent and are left out.

The solution x = Z T^-1 Q^T b is the least-squares solution of smallest length. Nothing is squared,
so the error grows with the condition of A, not with its square.

Derivative. A factor is a handle whose tangent and adjoint are, by agreement, those of the matrix;
`tiburon.trace.primitives.orthogonal_apply` uses them. Rank and ratio are indicators and count as
constant.
"""

from __future__ import annotations

from tiburon.trace.graph import Graph, float_bits
from tiburon.trace.primitives.machine import Index, Machine, Memory, Number
from tiburon.trace.primitives.primitive import Primitive

__all__ = ["FactorOrthogonal", "factor_size"]


class FactorOrthogonal(Primitive):
    """Factor: the elements of A by rows to Q, T, Z^T, rank and ratio.

    With k = min(rows, columns): Q by rows (rows x k), T by rows (k x k, reciprocals on the
    diagonal), Z^T by rows (k x columns). Beyond the rank all three are zero.
    """

    data_dependent = True

    def __init__(self, rows: int, columns: int, cut: float) -> None:
        super().__init__("factor_orthogonal", rows, columns, float_bits(cut))
        self.rows, self.columns = rows, columns
        self.small = min(rows, columns)
        self.cut = cut

    @property
    def argument_count(self) -> int:
        """Number of floats it takes."""
        return self.rows * self.columns

    @property
    def result_count(self) -> int:
        """Number of floats it gives."""
        return factor_size(self.rows, self.columns) + 2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Orthogonalize columns, largest first, until the rest is negligible; then rows."""
        rows, columns, small = self.rows, self.columns, self.small
        triangle, right = rows * small, rows * small + small * small
        zero, one = m.constant(0.0), m.constant(1.0)
        for place in m.loop(0, self.result_count):
            m.store(found, place, zero)
        rest = m.memory(rows * columns)
        for place in m.loop(0, rows * columns):
            m.store(rest, place, m.load(given, place))
        column = m.memory(rows)
        upper = m.memory(small * columns)
        for place in m.loop(0, small * columns):
            m.store(upper, place, zero)
        rank = m.index_memory(0)
        largest, stopped = m.memory(1), m.memory(1)
        m.store(largest, 0, zero)
        m.store(stopped, 0, zero)

        for k in m.loop(0, small):
            pivot = self._longest_column(m, rest)
            for i in m.loop(0, rows):
                m.store(column, i, m.load(rest, i * columns + pivot))
            # what rounding left along the earlier columns is taken out again
            for j in m.loop(0, k):
                self._take_out(m, found, column, upper, j, pivot)
            length = m.sqrt(_square(m, column, rows))
            first = m.choose(m.less(m.load(largest, 0), length), length, m.load(largest, 0))
            m.store(largest, 0, first)
            # asked this way round, NaN is kept and shows in the result
            negligible = m.less_equal(length, m.mul(m.constant(self.cut), first))
            negligible = m.either(negligible, m.less(zero, m.load(stopped, 0)))
            m.store(stopped, 0, m.choose(negligible, one, zero))
            inverse = m.div(m.choose(negligible, zero, one), m.choose(negligible, one, length))
            m.store_index(rank, m.load_index(rank) + m.choose_index(negligible, 0, 1))
            for i in m.loop(0, rows):
                m.store(found, i * small + k, m.mul(m.load(column, i), inverse))
            # the direction leaves every remaining column; a dependent rest is zero from here on
            for j in m.loop(0, columns):
                self._project(m, found, rest, upper, k, j)
            for i in m.loop(0, rows):
                m.store(rest, i * columns + pivot, zero)

        self._orthogonalize_rows(m, found, upper, triangle, right)
        self._finish(m, found, rank, triangle, right)

    def _longest_column(self, m: Machine, rest: Memory) -> Index:
        rows, columns = self.rows, self.columns
        best = m.memory(1)
        m.store(best, 0, m.constant(-1.0))
        place = m.index_memory(0)
        for j in m.loop(0, columns):
            total = m.memory(1)
            m.store(total, 0, m.constant(0.0))
            for i in m.loop(0, rows):
                value = m.load(rest, i * columns + j)
                m.store(total, 0, m.add_product(value, value, m.load(total, 0)))
            longer = m.less(m.load(best, 0), m.load(total, 0))
            m.store(best, 0, m.choose(longer, m.load(total, 0), m.load(best, 0)))
            m.store_index(place, m.choose_index(longer, j, m.load_index(place)))
        return m.load_index(place)

    def _take_out(
        self, m: Machine, q: Memory, column: Memory, upper: Memory, j: Index, pivot: Index
    ) -> None:
        rows, columns, small = self.rows, self.columns, self.small
        total = m.memory(1)
        m.store(total, 0, m.constant(0.0))
        for i in m.loop(0, rows):
            m.store(
                total,
                0,
                m.add_product(m.load(q, i * small + j), m.load(column, i), m.load(total, 0)),
            )
        part = m.load(total, 0)
        for i in m.loop(0, rows):
            old = m.load(column, i)
            m.store(column, i, m.sub_product(part, m.load(q, i * small + j), old))
        place = j * columns + pivot
        m.store(upper, place, m.add(m.load(upper, place), part))

    def _project(
        self, m: Machine, q: Memory, rest: Memory, upper: Memory, k: Index, j: Index
    ) -> None:
        rows, columns, small = self.rows, self.columns, self.small
        total = m.memory(1)
        m.store(total, 0, m.constant(0.0))
        for i in m.loop(0, rows):
            m.store(
                total,
                0,
                m.add_product(
                    m.load(q, i * small + k), m.load(rest, i * columns + j), m.load(total, 0)
                ),
            )
        part = m.load(total, 0)
        m.store(upper, k * columns + j, part)
        for i in m.loop(0, rows):
            place = i * columns + j
            old = m.load(rest, place)
            m.store(rest, place, m.sub_product(part, m.load(q, i * small + k), old))

    def _orthogonalize_rows(
        self, m: Machine, found: Memory, upper: Memory, triangle: int, right: int
    ) -> None:
        """Turn R into T Z^T, each row orthogonalized twice; zero rows stay zero."""
        columns, small = self.columns, self.small
        zero, one = m.constant(0.0), m.constant(1.0)
        row = m.memory(columns)
        for k in m.loop(0, small):
            for c in m.loop(0, columns):
                m.store(row, c, m.load(upper, k * columns + c))
            for _ in m.loop(0, 2):
                for j in m.loop(0, k):
                    total = m.memory(1)
                    m.store(total, 0, zero)
                    start = j * columns + right
                    for c in m.loop(0, columns):
                        part = m.add_product(
                            m.load(found, start + c), m.load(row, c), m.load(total, 0)
                        )
                        m.store(total, 0, part)
                    part = m.load(total, 0)
                    for c in m.loop(0, columns):
                        old = m.load(row, c)
                        m.store(row, c, m.sub_product(part, m.load(found, start + c), old))
                    place = k * small + j + triangle
                    m.store(found, place, m.add(m.load(found, place), part))
            length = m.sqrt(_square(m, row, columns))
            empty = m.less_equal(length, zero)
            inverse = m.div(m.choose(empty, zero, one), m.choose(empty, one, length))
            m.store(found, k * small + k + triangle, inverse)
            for c in m.loop(0, columns):
                m.store(found, k * columns + c + right, m.mul(m.load(row, c), inverse))

    def _finish(self, m: Machine, found: Memory, rank: Memory, triangle: int, right: int) -> None:
        """Give rank and ratio: smallest over largest diagonal element of T within the rank."""
        small = self.small
        end = right + small * self.columns
        count = m.load_index(rank)
        m.store(found, end, m.index_as_float(count))
        high, low = m.memory(1), m.memory(1)
        m.store(high, 0, m.constant(0.0))
        m.store(low, 0, m.constant(float("inf")))
        for k in m.loop(0, count):
            inverse = m.load(found, k * small + k + triangle)
            larger = m.less(m.load(high, 0), inverse)
            m.store(high, 0, m.choose(larger, inverse, m.load(high, 0)))
            smaller = m.less(inverse, m.load(low, 0))
            m.store(low, 0, m.choose(smaller, inverse, m.load(low, 0)))
        some = m.less(m.constant(0.0), m.load(high, 0))
        divisor = m.choose(some, m.load(high, 0), m.constant(1.0))
        ratio = m.div(m.choose(some, m.load(low, 0), m.constant(0.0)), divisor)
        m.store(found, end + 1, ratio)

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the tangent of the matrix, padded: it stands for that of the factor."""
        zero = graph.const(0.0)
        return [*tangents, *[zero] * (self.result_count - self.argument_count)]

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoint of the matrix, which stands for that of the factor."""
        return adjoints[: self.argument_count]


def factor_size(rows: int, columns: int) -> int:
    """Return how many numbers Q, T and Z have together."""
    small = min(rows, columns)
    return rows * small + small * small + small * columns


def _square(m: Machine, vector: Memory, size: int) -> Number:
    total = m.memory(1)
    m.store(total, 0, m.constant(0.0))
    for i in m.loop(0, size):
        value = m.load(vector, i)
        m.store(total, 0, m.add_product(value, value, m.load(total, 0)))
    return m.load(total, 0)
