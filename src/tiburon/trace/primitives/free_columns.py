"""`free_columns`: columns of a matrix that others leave free, by elimination with column pivoting.

Of A x = 0 with a given rank, the unknowns of the pivot columns follow from those of all other
columns. Pivots are found as in `orthogonal`, the longest remaining column first. The selection is
constant in derivatives.
"""

from __future__ import annotations

from typing import Any

from tiburon.trace.primitives.orthogonal import fill, mark_largest, squared_length
from tiburon.trace.primitives.primitive import (
    ConstantPrimitive,
    Machine,
    Memory,
    numbers_of,
    shape_of,
)


class FreeColumns(ConstantPrimitive):
    """Select: elements of A by rows, to unit rows that select the free columns, in order.

    The last result is the length of the last pivot column, relative to that of the first.
    """

    def __init__(self, rows: int, columns: int, rank: int) -> None:
        super().__init__("free_columns", rows, columns, rank)
        self.rows, self.columns, self.rank = rows, columns, rank
        self.argument_count = rows * columns
        self.result_count = (columns - rank) * columns + 1

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Orthogonalize columns, largest first; number those that remain."""
        rows, columns = self.rows, self.columns
        rest, squares, free = m.memory(rows * columns), m.memory(columns), m.memory(columns)
        fill(m, squares, columns)
        for j in m.loop(0, columns):
            m.store(free, j, m.constant(1.0))
        for i in m.loop(0, rows):
            for j in m.loop(0, columns):
                value = m.load(given, i * columns + j)
                m.store(rest, i * columns + j, value)
                m.store(squares, j, m.add_product(value, value, m.load(squares, j)))
        largest, last = m.memory(1), m.memory(1)
        m.store(largest, 0, m.constant(0.0))
        m.store(last, 0, m.constant(1.0))
        for _ in m.loop(0, self.rank):
            length = self._eliminate(m, rest, squares, free)
            first = m.load(largest, 0)
            m.store(largest, 0, m.choose(m.less(first, length), length, first))
            m.store(last, 0, length)
        self._number(m, free, found)
        first, zero, one = m.load(largest, 0), m.constant(0.0), m.constant(1.0)
        some = m.less(zero, first)
        ratio = m.div(m.load(last, 0), m.choose(some, first, one))
        m.store(found, self.result_count - 1, m.choose(some, ratio, one if not self.rank else zero))

    def _eliminate(self, m: Machine, rest: Memory, squares: Memory, free: Memory) -> Any:
        """Take the longest column out of all others; return its length."""
        rows, columns = self.rows, self.columns
        zero, one = m.constant(0.0), m.constant(1.0)
        chosen, column, parts = m.memory(columns), m.memory(rows), m.memory(columns)
        mark_largest(m, squares, chosen, columns)
        fill(m, column, rows)
        for i in m.loop(0, rows):
            for j in m.loop(0, columns):
                value = m.load(rest, i * columns + j)
                m.store(column, i, m.add_product(m.load(chosen, j), value, m.load(column, i)))
        length = m.sqrt(squared_length(m, column, rows))
        some = m.less(zero, length)
        inverse = m.div(m.choose(some, one, zero), m.choose(some, length, one))
        fill(m, parts, columns)
        for i in m.loop(0, rows):
            direction = m.mul(m.load(column, i), inverse)
            m.store(column, i, direction)
            for j in m.loop(0, columns):
                value = m.load(rest, i * columns + j)
                m.store(parts, j, m.add_product(direction, value, m.load(parts, j)))
        for j in m.loop(0, columns):
            mark = m.load(chosen, j)
            m.store(free, j, m.sub_product(mark, m.load(free, j), m.load(free, j)))
            m.store(chosen, j, m.sub_product(mark, mark, one))
        fill(m, squares, columns)
        for i in m.loop(0, rows):
            direction = m.load(column, i)
            for j in m.loop(0, columns):
                left = m.sub_product(direction, m.load(parts, j), m.load(rest, i * columns + j))
                # used up
                left = m.mul(left, m.load(chosen, j))
                m.store(rest, i * columns + j, left)
                m.store(squares, j, m.add_product(left, left, m.load(squares, j)))
        return length

    def _number(self, m: Machine, free: Memory, found: Memory) -> None:
        """Write one unit row for each free column."""
        zero, one, half = m.constant(0.0), m.constant(1.0), m.constant(0.5)
        number, row = m.memory(1), m.memory(1)
        m.store(number, 0, zero)
        for j in m.loop(0, self.columns):
            mark = m.load(free, j)
            m.store(row, 0, zero)
            for a in m.loop(0, self.columns - self.rank):
                # numbers are integers held as floats: compare with a tolerance of a half
                distance = m.sub_product(one, m.load(row, 0), m.load(number, 0))
                below = m.less(distance, half)
                above = m.less(m.sub_product(one, distance, zero), half)
                here = m.choose(below, m.choose(above, mark, zero), zero)
                m.store(found, a * self.columns + j, here)
                m.store(row, 0, m.add(m.load(row, 0), one))
            m.store(number, 0, m.add(m.load(number, 0), mark))


def free_columns(matrix: Any, rank: int) -> tuple[list[list[Any]], Any]:
    """Return unit rows that select the columns which pivots leave free, and the least pivot.

    Args:
        matrix: A, shape (rows, columns).
        rank: Number of pivots.

    Returns:
        columns - rank rows, and the last pivot relative to the first.
    """
    rows, columns = shape_of(matrix)
    *found, ratio = FreeColumns(rows, columns, rank).apply(numbers_of(matrix))
    return [found[k : k + columns] for k in range(0, len(found), columns)], ratio
