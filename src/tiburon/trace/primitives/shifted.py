"""Shifted systems (1/s - J) u = r, from which unknowns that others determine are eliminated.

Unknowns e whose rows of J hold no unknowns of their own kind are determined by the kept ones j:
u_e = s (r_e + sum J_ej u_j). Eliminating them leaves a system of the kept unknowns,

    sum over j of (delta_ij / s - J_ij - sum over e of s J_ie J_ej) u_j = r_i + sum of s J_ie r_e

whose rows, then columns are scaled to a largest element of one: unknowns may have any unit, Pa
beside m/s. What is small then is small by itself, not by its unit.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.trace.primitives.primitive import ElementaryPrimitive, Machine, Memory, Number


class ShiftedMatrix(ElementaryPrimitive):
    """The matrix of the kept unknowns, scaled.

    From s, J_ij column by column, J_ie column by column, and those J_ej that are not zero, to the
    scaled matrix row by row, the factors of its rows, and those of its columns.
    """

    def __init__(self, kept: int, eliminated: int, links: Sequence[tuple[int, int]]) -> None:
        """Take how many unknowns are kept and eliminated, and (j, e) of each J_ej not zero."""
        form = [kept, eliminated, *(x for link in links for x in link)]
        super().__init__("shifted_matrix", *form)
        self.kept, self.eliminated, self.links = kept, eliminated, tuple(links)
        self.argument_count = 1 + kept * (kept + eliminated) + len(self.links)
        self.result_count = kept * (kept + 2)

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Sum up, subtract from the shift, then scale rows and columns."""
        n = self.kept
        s, total = m.load(given, 0), m.memory(n * n)
        for j in m.loop(0, n):
            for i in m.loop(0, n):
                m.store(total, i * n + j, m.load(given, j * n + i + 1))
        if self.links:
            columns = m.table([j for j, _ in self.links])
            places = m.table([e * n + n * n + 1 for _, e in self.links])
            for link in m.loop(0, len(self.links)):
                column, place = m.lookup(columns, link), m.lookup(places, link)
                slope = m.load(given, link + (n * (n + self.eliminated) + 1))
                for i in m.loop(0, n):
                    known = m.load(total, i * n + column)
                    part = m.mul(s, m.load(given, place + i))
                    m.store(total, i * n + column, m.add_product(part, slope, known))
        one, zero = m.constant(1.0), m.constant(0.0)
        shift = m.div(one, s)
        for i in m.loop(0, n):
            for j in m.loop(0, n):
                m.store(total, i * n + j, m.sub_product(one, m.load(total, i * n + j), zero))
            m.store(total, i * n + i, m.add(shift, m.load(total, i * n + i)))
        self._scale(m, total, found)

    def _scale(self, m: Machine, matrix: Memory, found: Memory) -> None:
        n = self.kept
        rows, columns = n * n, n * n + n
        largest, zero, one = m.memory(n), m.constant(0.0), m.constant(1.0)

        def size_of(x: Number) -> Number:
            return m.choose(m.less(x, zero), m.sub_product(one, x, zero), x)

        def factor(size: Number) -> Number:
            return m.div(one, m.choose(m.less(zero, size), size, one))

        for i in m.loop(0, n):
            m.store(largest, 0, zero)
            for j in m.loop(0, n):
                size, best = size_of(m.load(matrix, i * n + j)), m.load(largest, 0)
                m.store(largest, 0, m.choose(m.less(best, size), size, best))
            r = factor(m.load(largest, 0))
            m.store(found, i + rows, r)
            for j in m.loop(0, n):
                m.store(matrix, i * n + j, m.mul(r, m.load(matrix, i * n + j)))
        for j in m.loop(0, n):
            m.store(largest, j, zero)
        for i in m.loop(0, n):
            for j in m.loop(0, n):
                size, best = size_of(m.load(matrix, i * n + j)), m.load(largest, j)
                m.store(largest, j, m.choose(m.less(best, size), size, best))
        for j in m.loop(0, n):
            m.store(found, j + columns, factor(m.load(largest, j)))
        for i in m.loop(0, n):
            for j in m.loop(0, n):
                place = i * n + j
                m.store(found, place, m.mul(m.load(matrix, place), m.load(found, j + columns)))


class ShiftedRight(ElementaryPrimitive):
    """The right-hand side of the kept unknowns, scaled.

    From s, the factors of the rows, J_ie column by column, r_i and r_e to the scaled right-hand
    side.
    """

    def __init__(self, kept: int, eliminated: int) -> None:
        """Take how many unknowns are kept and eliminated."""
        super().__init__("shifted_right", kept, eliminated)
        self.kept, self.eliminated = kept, eliminated
        self.argument_count = 1 + kept + (kept + 1) * eliminated + kept
        self.result_count = kept

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Add what the eliminated unknowns contribute, then scale."""
        n, gone = self.kept, self.eliminated
        start = n + n * gone + 1
        s = m.load(given, 0)
        for i in m.loop(0, n):
            m.store(found, i, m.load(given, i + start))
        for e in m.loop(0, gone):
            right = m.load(given, e + (start + n))
            for i in m.loop(0, n):
                part = m.mul(s, m.load(given, e * n + i + (n + 1)))
                m.store(found, i, m.add_product(part, right, m.load(found, i)))
        for i in m.loop(0, n):
            m.store(found, i, m.mul(m.load(given, i + 1), m.load(found, i)))
