"""The triangular factor of a matrix, by Householder reflections without pivoting.

A = Q R with orthogonal Q, of which only R is kept: R^T R = A^T A without forming the product, so
that the condition number is not squared (Golub and Van Loan 2013, section 5.2). Columns that depend
on earlier ones give rows that are zero up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiburon.trace.primitives.primitive import ElementaryPrimitive, Machine, Memory

LANES = 8
"""Columns are padded to a multiple of this many values, the widest vectors."""

__all__ = ["Triangularize", "triangle_size", "triangular_factor"]


def triangle_size(rows: int, columns: int) -> int:
    """Return the number of elements of R on and above the diagonal."""
    small = min(rows, columns)
    return small * columns - small * (small - 1) // 2


class Triangularize(ElementaryPrimitive):
    """Factor: the elements of A by rows to those of R on and above the diagonal, by rows."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__("triangularize", rows, columns)
        self.rows, self.columns = rows, columns
        self.argument_count = rows * columns
        self.result_count = triangle_size(rows, columns)

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Reflect one column after the other onto its axis."""
        rows, columns = self.rows, self.columns
        small, width = min(rows, columns), -(-columns // LANES) * LANES
        zero, one, minus = m.constant(0.0), m.constant(1.0), m.constant(-1.0)
        left, sums, total = m.memory(rows * width), m.memory(width), m.memory(1)
        for i in m.loop(0, rows):
            for j in m.loop(0, columns):
                m.store(left, i * width + j, m.load(given, i * columns + j))
            for j in m.loop(columns, width):
                m.store(left, i * width + j, zero)
        starts = m.table([i * columns - i * (i - 1) // 2 for i in range(small)])
        for k in m.loop(0, small):
            m.store(total, 0, zero)
            for i in m.loop(k, rows):
                value = m.load(left, i * width + k)
                m.store(total, 0, m.add_product(value, value, m.load(total, 0)))
            length = m.sqrt(m.load(total, 0))
            first = m.load(left, k * width + k)
            # away from the axis that is nearer, so that nothing cancels
            end = m.choose(m.less(first, zero), length, m.mul(minus, length))
            start = m.add(first, m.mul(minus, end))
            scale = m.mul(m.mul(minus, end), start)
            moves = m.less(zero, scale)
            inverse = m.choose(moves, m.div(one, m.choose(moves, scale, one)), zero)
            m.store(left, k * width + k, start)
            # all columns, also those that are finished: loops of constant length are vectorized
            for j in m.loop(0, width, independent=True):
                m.store(sums, j, zero)
            for i in m.loop(k, rows):
                value = m.load(left, i * width + k)
                for j in m.loop(0, width, independent=True):
                    old = m.load(sums, j)
                    m.store(sums, j, m.add_product(value, m.load(left, i * width + j), old))
            for i in m.loop(k, rows):
                value = m.mul(m.load(left, i * width + k), inverse)
                for j in m.loop(0, width, independent=True):
                    old = m.load(left, i * width + j)
                    m.store(left, i * width + j, m.sub_product(value, m.load(sums, j), old))
            m.store(found, m.lookup(starts, k), end)
            for j in m.loop(k + 1, columns):
                m.store(found, m.lookup(starts, k) + j - k, m.load(left, k * width + j))


def triangular_factor(matrix: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return R of a matrix given by rows: one list per row, from the diagonal on."""
    rows, columns = len(matrix), len(matrix[0])
    found = iter(Triangularize(rows, columns).apply([x for row in matrix for x in row]))
    return [[next(found) for _ in range(i, columns)] for i in range(min(rows, columns))]
