"""The triangular factor of a matrix, by Householder reflections without pivoting.

A = Q R with orthogonal Q, of which only R is kept: R^T R = A^T A without forming the product, so
that the condition number is not squared (Golub and Van Loan 2013, section 5.2). Columns that depend
on earlier ones give rows that are zero up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.trace.primitives.primitive import ElementaryPrimitive, Machine, Memory

LANES = 8
"""Columns are padded to a multiple of this many values, the widest vectors."""


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


MAX_UNROLLED = 6000
"""Products up to which a factor is computed without loops, skipping zeros."""


def triangular_factor(matrix: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return R of a matrix given by rows: one list per row, from the diagonal on.

    Elements that are the number 0 stay out of the computation of a small factor: stacked triangles
    take a fraction of the operations of a full matrix.
    """
    rows, columns = len(matrix), len(matrix[0])
    left = [{j: x for j, x in enumerate(row) if not _is_zero(x)} for row in matrix]
    if _products([set(row) for row in left], columns) <= MAX_UNROLLED:
        return _unrolled(left, columns)
    found = iter(Triangularize(rows, columns).apply([x for row in matrix for x in row]))
    return [[next(found) for _ in range(i, columns)] for i in range(min(rows, columns))]


def _is_zero(x: Any) -> bool:
    return isinstance(x, float) and x == 0.0


def _products(left: list[set[int]], columns: int) -> int:
    """Return the number of products of a factor whose zeros are left out."""
    count = 0
    for k in range(columns):
        if not left:
            break
        active = [row for row in left if k in row]
        union = set().union(*active)
        count += 2 * len(active) * len(union) if len(active) > 1 else 0
        first = active[0] if active else left[0]
        left = [(union - {k} if k in row else row) for row in left if row is not first]
    return count


def _unrolled(left: list[dict[int, Any]], columns: int) -> list[list[Any]]:
    """Reflect one column after the other onto its axis, in the rows that are not zero there."""
    found = []
    for k in range(columns):
        if not left:
            break
        active = [row for row in left if k in row]
        first = active[0] if active else left[0]
        left = [row for row in left if row is not first]
        if len(active) > 1:
            _reflect(first, active[1:], k)
        found.append([first.get(j, 0.0) for j in range(k, columns)])
    return found


def _reflect(first: dict[int, Any], others: list[dict[int, Any]], k: int) -> None:
    """Reflect column k of some rows onto the first, in place."""
    square = first[k] * first[k]
    for row in others:
        square = square + row[k] * row[k]
    length = np.sqrt(square)
    # away from the axis that is nearer, so that nothing cancels
    end = np.where(first[k] < 0.0, length, -length)
    start = first[k] - end
    scale = -(end * start)
    moves = scale > 0.0
    inverse = np.where(moves, 1.0 / np.where(moves, scale, 1.0), 0.0)
    values = [row.pop(k) for row in others]
    weights = [start * inverse, *(x * inverse for x in values)]
    first[k] = end
    for j in sorted(set(first).union(*others) - {k}):
        total: Any = start * first[j] if j in first else 0.0
        for value, row in zip(values, others, strict=True):
            if j in row:
                total = total + value * row[j]
        for weight, row in zip(weights, (first, *others), strict=True):
            row[j] = row[j] - weight * total if j in row else -(weight * total)
