"""`Rk4Chain`: the chain rule over the stages of a Runge-Kutta step, as loops over matrices.

Symbols:
    n           velocity variables
    A_i, B_i, T_i   derivatives of the acceleration at stage i by position, velocity and force; of
                trees H_i^-1 E_i, H_i^-1 F_i and H_i^-1, with the mass matrix H_i and minus the
                derivatives of joint forces (inverse dynamics) by position and velocity
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

Each column goes through all stages by itself: a third of them at a time where each number is that
of several cases, so that rows stay close to the processor. Of trees, equations with H_i are solved
for the columns of da_i, and E_i and F_i have the zeros of the tree.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tiburon.trace.primitives.friction_derivative import LANES
from tiburon.trace.primitives.primitive import (
    ElementaryPrimitive,
    Index,
    Machine,
    Memory,
    Number,
    Truth,
)
from tiburon.trace.primitives.tree import TreeLayout, substitute_inward, substitute_outward

BLOCKS = ("M2", "M3", "M4", "C21", "C32", "C43", "D2", "D3", "D4", "C51", "C52", "C53", "C54", "M5")
"""Order of the matrices of one block among the arguments; D_i is C_i1 of a bracket, else zero."""

UNROLLED = 6
"""Terms of a matrix product that are added before the sum is stored."""


class Rk4Chain(ElementaryPrimitive):
    """Multiply derivatives of four stages to those of a step.

    Arguments: h; of stages 1 to 4 A_i, B_i and T_i, or of trees the factor of H_i, E_i and F_i, row
    by row over `columns`; then for each block its matrices in the order of `BLOCKS`, row by row.
    Results: dq_5 and dv_5, 2 n rows of 3 n columns.

    Attributes:
        size: Number of velocity variables, n.
        blocks: First variable and number of variables of each joint with blocks of its own.
        layout: Layout of the factors of H_i; None where A_i, B_i and T_i are given.
        columns: Of each row of A_i or E_i the columns where it is not zero.
    """

    def __init__(
        self, size: int, blocks: Sequence[tuple[int, int]], parents: Sequence[int] | None = None
    ) -> None:
        tree = [size if i < 0 else i for i in parents or ()]
        super().__init__("rk4_chain", size, len(tree), *tree, *itertools.chain(*blocks))
        self.size = size
        self.blocks = tuple(blocks)
        self.layout = None if parents is None else TreeLayout(parents)
        self.columns = [list(range(size))] * size
        self.factor_count, others = 0, size * size
        if self.layout is not None:
            self.columns = self.layout.related()
            self.factor_count, others = self.layout.stored, 0
        self.entry_count = sum(map(len, self.columns))
        self.stage_count = self.factor_count + 2 * self.entry_count + others
        """Number of arguments of a stage."""
        own = sum(count * count for _, count in self.blocks)
        self.argument_count = 1 + 4 * self.stage_count + len(BLOCKS) * own
        self.result_count = 6 * size**2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Take all directions through the stages."""
        stages = _Stages(m, given, found, self)
        for panel in m.loop(0, stages.panels):
            stages.begin(panel)
            for stage in m.loop(0, 4):
                stages.accelerate(stage)
                stages.gather(stage)
                for _ in m.iterate(1, lambda stage=stage: stages.is_before(stage, 3)):  # type: ignore[misc]
                    stages.advance(stage)
            stages.finish(panel)


class _Stages:
    """Rows of directions, and what takes them from stage to stage."""

    def __init__(self, m: Machine, given: Memory, found: Memory, of: Rk4Chain) -> None:
        self.m, self.given, self.found, self.of = m, given, found, of
        self.n = n = of.size
        self.panels = 3 if m.is_wide else 1
        self.count = 3 * n // self.panels
        """Directions of a panel."""
        # rows of one case are filled up: loops without a remainder
        self.width = w = self.count if m.is_wide else -(-self.count // LANES) * LANES
        self.zero, self.one = m.constant(0.0), m.constant(1.0)
        self.dq, self.dv, self.da = (m.memory(n * w) for _ in range(3))
        self.end_q, self.end_v = m.memory(n * w), m.memory(n * w)
        h = m.load(given, 0)
        half, sixth = m.mul(m.constant(0.5), h), m.div(h, m.constant(6.0))
        third = m.add(sixth, sixth)
        self.factors, self.weights = m.memory(3), m.memory(4)
        for memory, values in (
            (self.factors, (half, half, h)),
            (self.weights, (sixth, third, third, sixth)),
        ):
            for place, value in enumerate(values):
                m.store(memory, place, value)
        self.kinds: list[tuple[int, Number | None]] = []
        """For directions of position, velocity and force: where they begin in a panel, and whether
        they are those of the panel; None for always."""

    def is_before(self, stage: Index, last: int) -> Truth:
        """Return whether a stage, counted from 0, is before another one."""
        return self.m.less(self.m.number(stage), self.m.constant(last - 0.5))

    def begin(self, panel: Index) -> None:
        """Write dq_1 and dv_1, and what dq_5 and dv_5 begin with."""
        m, n, w = self.m, self.n, self.width
        self.kinds = [(k * n, None) for k in range(3)]
        if self.panels > 1:
            at = m.number(panel)
            own = [
                m.both(m.less(m.constant(k - 0.5), at), m.less(at, m.constant(k + 0.5)))
                for k in range(3)
            ]
            self.kinds = [(0, one) for one in own]
        for rows in (self.dq, self.dv, self.end_q, self.end_v):
            for place in m.loop(0, n * w, independent=True):
                m.store(rows, place, self.zero)
        for rows, kind in ((self.dq, 0), (self.dv, 1), (self.end_q, 0), (self.end_v, 1)):
            first, value = self.kinds[kind][0], self._seed(kind, self.one)
            for i in m.loop(0, n):
                m.store(rows, i * w + i + first, value)
        self._write_blocks(self.end_q, 0, "M5")

    def _seed(self, kind: int, value: Number) -> Number:
        """Return a value in panels with directions of a kind, else 0."""
        holds = self.kinds[kind][1]
        return value if holds is None else self.m.choose(holds, value, self.zero)

    def accelerate(self, stage: Index) -> None:
        """Write da = A dq + B dv + T dtau."""
        m, of, n, w, layout = self.m, self.of, self.n, self.width, self.of.layout
        factor = first = stage * of.stage_count + 1
        for place in m.loop(0, n * w, independent=True):
            m.store(self.da, place, self.zero)
        begin = self.kinds[2][0]
        for i in m.loop(0, n):
            if layout is not None:
                m.store(self.da, i * w + i + begin, self._seed(2, self.one))
                continue
            place = first + 2 * n * n + i * n
            for k in m.loop(0, n, independent=True):
                value = self._seed(2, m.load(self.given, place + k))
                m.store(self.da, i * w + k + begin, value)
        self._multiply(first + of.factor_count)
        if layout is None:
            return
        rows, entries = (self.da, 0), (self.given, factor)
        ends = m.table(layout.starts[1:])
        substitute_inward(m, layout, entries, rows, rows, w)
        substitute_outward(
            m,
            layout,
            entries,
            rows,
            rows,
            w,
            lambda i: m.load(
                self.given,
                (layout.starts[i + 1] if isinstance(i, int) else m.lookup(ends, i)) + (factor - 1),
            ),
        )

    def _multiply(self, first: Index) -> None:
        """Add A dq + B dv to da, for pairs of rows with the same columns."""
        m, of, w = self.m, self.of, self.width
        groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
        row = start = 0
        while row < self.n:
            columns = of.columns[row]
            count = 1 + (row + 1 < self.n and of.columns[row + 1] == columns)
            groups.setdefault((len(columns), count), []).append((row, start))
            row, start = row + count, start + count * len(columns)
        table = m.table([k * w for columns in of.columns for k in columns])
        for (length, count), members in groups.items():
            rows, starts = (m.table(part) for part in zip(*members, strict=True))
            for number in m.loop(0, len(members)):
                to, place = m.lookup(rows, number) * w, m.lookup(starts, number)
                for part in m.loop(0, length // UNROLLED):
                    at = place + part * UNROLLED
                    self._terms(first, at, length, count, UNROLLED, to, table)
                if length % UNROLLED:
                    at = place + (length - length % UNROLLED)
                    self._terms(first, at, length, count, length % UNROLLED, to, table)

    def _terms(
        self,
        first: Index,
        place: Index,
        length: int,
        count: int,
        terms: int,
        to: Index,
        table: object,
    ) -> None:
        """Add some terms of both products to neighboring rows of da.

        Args:
            first: Place of the first element of A or E among the arguments.
            place: Number of the first term among the elements of the first row and all before.
            length: Elements of a row.
            count: Rows.
            terms: Terms.
            to: Place of the first row.
            table: Places of the rows of dq and dv by element.
        """
        m, w = self.m, self.width
        factors = [
            (
                [
                    m.load(
                        self.given, first + place + (part * self.of.entry_count + u + i * length)
                    )
                    for i in range(count)
                ],
                right,
                m.lookup(table, place + u),
            )
            for u in range(terms)
            for part, right in enumerate((self.dq, self.dv))
        ]
        for x in m.loop(0, w, independent=True):
            totals = [m.load(self.da, to + x + i * w) for i in range(count)]
            for entries, right, other in factors:
                value = m.load(right, other + x)
                totals = [
                    m.add_product(entry, value, total)
                    for entry, total in zip(entries, totals, strict=True)
                ]
            for i, total in enumerate(totals):
                m.store(self.da, to + x + i * w, total)

    def gather(self, stage: Index) -> None:
        """Add the share of a stage to dq_5 and dv_5."""
        m, weight = self.m, self.m.load(self.weights, stage)
        for i in m.loop(0, self.n * self.width, independent=True):
            value = m.add_product(weight, m.load(self.da, i), m.load(self.end_v, i))
            m.store(self.end_v, i, value)
        self._add_rates(self.end_q, "C51", stage, weight)

    def advance(self, stage: Index) -> None:
        """Write dq and dv of the next stage, which starts again from the state at the start."""
        m, n, w = self.m, self.n, self.width
        factor = m.load(self.factors, stage)
        for place in m.loop(0, n * w, independent=True):
            m.store(self.dq, place, self.zero)
        first, value = self.kinds[0][0], self._seed(0, self.one)
        for i in m.loop(0, n):
            m.store(self.dq, i * w + i + first, value)
        self._write_blocks(self.dq, 0, "M2", stage)
        # in panels of one kind of directions, the same places
        self._write_blocks(self.dq, 1, "D2", stage, adds=True)
        self._add_rates(self.dq, "C21", stage, factor)
        for i in m.loop(0, n * w, independent=True):
            m.store(self.dv, i, m.mul(factor, m.load(self.da, i)))
        first, value = self.kinds[1][0], self._seed(1, self.one)
        for i in m.loop(0, n):
            place = i * w + i + first
            m.store(self.dv, place, m.add(m.load(self.dv, place), value))

    def finish(self, panel: Index) -> None:
        """Write the results of a panel."""
        m, n, w = self.m, self.n, self.width
        for rows, first in ((self.end_q, 0), (self.end_v, 3 * n * n)):
            for i in m.loop(0, n):
                place = i * (3 * n) + panel * self.count + first
                for x in m.loop(0, self.count, independent=True):
                    m.store(self.found, place + x, m.load(rows, i * w + x))

    def _groups(self, name: str) -> list[tuple[int, list[int], list[int]]]:
        """Return the blocks by size: size, first variables, and where a matrix of each begins."""
        groups: dict[int, tuple[list[int], list[int]]] = {}
        first = 1 + 4 * self.of.stage_count
        for start, count in self.of.blocks:
            starts, places = groups.setdefault(count, ([], []))
            starts.append(start)
            places.append(first + BLOCKS.index(name) * count * count)
            first += len(BLOCKS) * count * count
        return [(count, *rows) for count, rows in groups.items()]

    def _write_blocks(
        self, rows: Memory, kind: int, name: str, stage: Index = 0, *, adds: bool = False
    ) -> None:
        """Write block matrices, those `stage` places behind the named ones, by some directions.

        `adds` states whether they are added to the rows.
        """
        m, w, shift = self.m, self.width, self.kinds[kind][0]
        for count, starts, places in self._groups(name):
            of_starts, of_places = m.table(starts), m.table(places)
            for number in m.loop(0, len(starts)):
                start = m.lookup(of_starts, number)
                place = m.lookup(of_places, number) + stage * (count * count)
                for i in m.loop(0, count):
                    for k in range(count):
                        entry = self._seed(kind, m.load(self.given, place + i * count + k))
                        at = (i + start) * w + start + (k + shift)
                        m.store(rows, at, m.add(m.load(rows, at), entry) if adds else entry)

    def _add_rates(self, rows: Memory, name: str, stage: Index, factor: Number) -> None:
        """Add C dv to rows: `factor` times dv, but for joints with blocks of their own."""
        m, w = self.m, self.width
        for start, stop in self._ranges_between_blocks():
            for i in m.loop(start * w, stop * w, independent=True):
                m.store(rows, i, m.add_product(factor, m.load(self.dv, i), m.load(rows, i)))
        for count, starts, places in self._groups(name):
            of_starts, of_places = m.table(starts), m.table(places)
            for number in m.loop(0, len(starts)):
                first = m.lookup(of_starts, number)
                place = m.lookup(of_places, number) + stage * (count * count)
                for i in m.loop(0, count):
                    entries = [m.load(self.given, place + i * count + k) for k in range(count)]
                    for x in m.loop(0, w, independent=True):
                        at = (i + first) * w + x
                        total = m.load(rows, at)
                        for k, entry in enumerate(entries):
                            other = m.load(self.dv, (first + k) * w + x)
                            total = m.add_product(entry, other, total)
                        m.store(rows, at, total)

    def _ranges_between_blocks(self) -> list[tuple[int, int]]:
        """Return the ranges of variables between blocks."""
        found, place = [], 0
        for start, count in (*self.of.blocks, (self.n, 0)):
            if start > place:
                found.append((place, start))
            place = start + count
        return found
