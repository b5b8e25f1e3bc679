"""`Rk4Chain`: the chain rule over the stages of a Runge-Kutta step, as loops over matrices.

Symbols:
    n           velocity variables
    A_i, B_i, T_i   derivatives of the acceleration at stage i by position, velocity and force
    dq_i, dv_i, da_i    changes of position, velocity and acceleration at stage i with the initial
                position, the initial velocity and the force: n rows and 3 n columns each
    M_i, C_ij   change of the position at stage i with the initial position and with the rate of
                position at stage j; stage 5 is the end of the step
    h           step [s]

The classical method (`tiburon.simulation.integrators.rk4`) gives

    da_i = A_i dq_i + B_i dv_i + T_i dtau
    dv_2 = dv_1 + h/2 da_1    dv_3 = dv_1 + h/2 da_2    dv_4 = dv_1 + h da_3
    dv_5 = dv_1 + h/6 (da_1 + 2 da_2 + 2 da_3 + da_4)
    dq_i = M_i dq_1 + sum_j C_ij dv_j

M_i and C_ij are block diagonal, one block per joint. For joints whose variables simply add, M_i is
1 and C_ij the coefficient of the method; blocks are arguments for the other joints only. The
brackets that correct for rotations make stage 3 depend on the rate of stage 1 as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiburon.trace.primitives.primitive import ElementaryPrimitive, Index, Machine, Memory, Number

BLOCKS = ("M2", "M3", "M4", "C21", "C32", "C43", "D2", "D3", "D4", "C51", "C52", "C53", "C54", "M5")
"""Order of the matrices of one block among the arguments; D_i is C_i1 of a bracket, else zero."""

UNROLLED = 6
"""Terms of a matrix product that are added before the sum is stored."""


class Rk4Chain(ElementaryPrimitive):
    """Multiply derivatives of four stages to those of a step.

    Arguments: h; A_i, B_i, T_i of stages 1 to 4, row by row; then for each block its matrices in
    the order of `BLOCKS`, row by row. Results: dq_5 and dv_5, 2 n rows of 3 n columns.

    Attributes:
        size: Number of velocity variables, n.
        blocks: First variable and number of variables of each joint with blocks of its own.
    """

    def __init__(self, size: int, blocks: Sequence[tuple[int, int]]) -> None:
        super().__init__("rk4_chain", size, *(x for block in blocks for x in block))
        self.size = size
        self.blocks = tuple(blocks)
        own = sum(count * count for _, count in self.blocks)
        self.argument_count = 1 + 12 * size**2 + len(BLOCKS) * own
        self.result_count = 6 * size**2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Go through the stages; the rows of the results gather their share of each."""
        n, width = self.size, 3 * self.size
        h = m.load(given, 0)
        half, sixth = m.mul(m.constant(0.5), h), m.div(h, m.constant(6.0))
        third = m.add(sixth, sixth)
        zero, one = m.constant(0.0), m.constant(1.0)
        dq, dv, da = m.memory(n * width), m.memory(n * width), m.memory(n * width)
        for place in m.loop(0, n * width):
            m.store(dq, place, zero)
            m.store(dv, place, zero)
            m.store(found, place, zero)
            m.store(found, place + n * width, zero)
        for i in m.loop(0, n):
            m.store(dq, i * width + i, one)
            m.store(found, i * width + i, one)
            m.store(dv, i * width + n + i, one)
            m.store(found, i * width + i + (n * width + n), one)
        self._write_blocks(m, given, found, "M5")
        factors, weights = m.memory(3), m.memory(3)
        for place, (factor, weight) in enumerate(((half, sixth), (half, third), (h, third))):
            m.store(factors, place, factor)
            m.store(weights, place, weight)
        for stage in m.loop(0, 3):
            factor, weight = m.load(factors, stage), m.load(weights, stage)
            self._accelerations(m, given, stage * (3 * n * n) + 1, (dq, dv, da))
            self._gather(m, given, found, (dv, da), stage, weight)
            # the next stage starts again from the state at the start
            for place in m.loop(0, n * width):
                m.store(dq, place, zero)
            for i in m.loop(0, n):
                m.store(dq, i * width + i, one)
            self._write_blocks(m, given, dq, "M2", stage)
            self._write_blocks(m, given, dq, "D2", stage, shift=n)
            self._add_rates(m, given, dq, dv, "C21", stage, factor)
            for i in m.loop(0, n * width, independent=True):
                m.store(dv, i, m.mul(factor, m.load(da, i)))
            for i in m.loop(0, n):
                place = i * width + n + i
                m.store(dv, place, m.add(m.load(dv, place), one))
        self._accelerations(m, given, 9 * n * n + 1, (dq, dv, da))
        self._gather(m, given, found, (dv, da), 3, sixth)

    def _gather(
        self,
        m: Machine,
        given: Memory,
        found: Memory,
        work: tuple[Memory, Memory],
        stage: Index,
        weight: Number,
    ) -> None:
        """Add the share of a stage, counted from 0, to the results."""
        size = 3 * self.size**2
        dv, da = work
        for i in m.loop(0, size, independent=True):
            old = m.load(found, i + size)
            m.store(found, i + size, m.add_product(weight, m.load(da, i), old))
        self._add_rates(m, given, found, dv, "C51", stage, weight)

    def _accelerations(
        self, m: Machine, given: Memory, first: Index, work: tuple[Memory, Memory, Memory]
    ) -> None:
        """Write da = A dq + B dv + T dtau; A, B and T begin at a place of the arguments.

        Two rows at a time, so that what is read serves both, and a third of the directions, so that
        it stays close to the processor.
        """
        n, width = self.size, 3 * self.size
        da = work[2]
        for i in m.loop(0, n):
            for k in m.loop(0, 2 * n, independent=True):
                m.store(da, i * width + k, m.constant(0.0))
            for k in m.loop(0, n, independent=True):
                m.store(da, i * width + 2 * n + k, m.load(given, first + 2 * n * n + i * n + k))
        for third in m.loop(0, 3):
            columns = third * n, third * n + n
            for i in m.loop(0, n // 2):
                self._rows(m, given, first, work, [i * 2, i * 2 + 1], columns)
            if n % 2:
                self._rows(m, given, first, work, [n - 1], columns)

    def _rows(
        self,
        m: Machine,
        given: Memory,
        first: Index,
        work: tuple[Memory, Memory, Memory],
        rows: list[Index],
        columns: tuple[Index, Index],
    ) -> None:
        """Add all terms of both products to some rows of da, from one column to another."""
        n = self.size
        for number in m.loop(0, n // UNROLLED):
            self._terms(m, given, first, work, rows, columns, number * UNROLLED, UNROLLED)
        if n % UNROLLED:
            self._terms(m, given, first, work, rows, columns, n - n % UNROLLED, n % UNROLLED)

    def _terms(
        self,
        m: Machine,
        given: Memory,
        first: Index,
        work: tuple[Memory, Memory, Memory],
        rows: list[Index],
        columns: tuple[Index, Index],
        k: Index,
        count: int,
    ) -> None:
        """Add some terms of both products to some rows of da."""
        n, width = self.size, 3 * self.size
        dq, dv, da = work
        factors = [
            ([m.load(given, first + part * n * n + i * n + k + u) for i in rows], right, u)
            for u in range(count)
            for part, right in enumerate((dq, dv))
        ]
        for column in m.loop(*columns, independent=True):
            totals = [m.load(da, i * width + column) for i in rows]
            for entries, right, u in factors:
                other = m.load(right, (k + u) * width + column)
                totals = [
                    m.add_product(entry, other, total)
                    for entry, total in zip(entries, totals, strict=True)
                ]
            for i, total in zip(rows, totals, strict=True):
                m.store(da, i * width + column, total)

    def _groups(self, name: str) -> list[tuple[int, list[int], list[int]]]:
        """Return the blocks by size: size, first variables, and where a matrix of each begins."""
        groups: dict[int, tuple[list[int], list[int]]] = {}
        first = 1 + 12 * self.size**2
        for start, count in self.blocks:
            starts, places = groups.setdefault(count, ([], []))
            starts.append(start)
            places.append(first + BLOCKS.index(name) * count * count)
            first += len(BLOCKS) * count * count
        return [(count, *rows) for count, rows in groups.items()]

    def _write_blocks(
        self, m: Machine, given: Memory, rows: Memory, name: str, stage: Index = 0, shift: int = 0
    ) -> None:
        """Write block matrices into the columns of the initial position, or `shift` beyond.

        Those `stage` places behind the named ones.
        """
        width = 3 * self.size
        for count, starts, places in self._groups(name):
            of_starts, of_places = m.table(starts), m.table(places)
            for number in m.loop(0, len(starts)):
                start = m.lookup(of_starts, number)
                place = m.lookup(of_places, number) + stage * (count * count)
                for i in m.loop(0, count):
                    for k in range(count):
                        entry = m.load(given, place + i * count + k)
                        m.store(rows, (i + start) * width + start + (k + shift), entry)

    def _add_rates(
        self,
        m: Machine,
        given: Memory,
        rows: Memory,
        dv: Memory,
        name: str,
        stage: Index,
        factor: Number,
    ) -> None:
        """Add C dv to rows: `factor` times dv, but for joints with blocks of their own."""
        width = 3 * self.size
        for start, stop in self._ranges_between_blocks():
            for i in m.loop(start * width, stop * width, independent=True):
                m.store(rows, i, m.add_product(factor, m.load(dv, i), m.load(rows, i)))
        for count, starts, places in self._groups(name):
            of_starts, of_places = m.table(starts), m.table(places)
            for number in m.loop(0, len(starts)):
                first = m.lookup(of_starts, number)
                place = m.lookup(of_places, number) + stage * (count * count)
                for i in m.loop(0, count):
                    entries = [m.load(given, place + i * count + k) for k in range(count)]
                    for column in m.loop(0, width, independent=True):
                        at = (i + first) * width + column
                        total = m.load(rows, at)
                        for k, entry in enumerate(entries):
                            other = m.load(dv, (first + k) * width + column)
                            total = m.add_product(entry, other, total)
                        m.store(rows, at, total)

    def _ranges_between_blocks(self) -> list[tuple[int, int]]:
        """Return the ranges of variables between blocks."""
        found, place = [], 0
        for start, count in (*self.blocks, (self.size, 0)):
            if start > place:
                found.append((place, start))
            place = start + count
        return found
