"""The chain rule over a step with rigid contact, as loops over matrices.

Symbols, as in `tiburon.contact.rigid`:
    n, c        velocity variables, contact points
    x           initial position (as a step), initial velocity, joint force: 3 n directions
    m, a        positions in the middle and at the end of a step of constant velocity
    v_f         velocity at a without impulses; J rows of the contacts at a, J_0 normal rows at the
                start
    w           J^T p turned into velocity: H w = J^T p; E = H^-1 d(H w - J^T p)/da at constant w, p
    s           the same for the impulses that act on the mean velocity of the step, with those that
                close gaps: E_s
    G = H^-1 J^T
    T, N        change of J x with a, tangential rows for the velocity after impulses; normal rows
                for the velocities after impulses, before, at the start, and the mean one
    S           derivatives of bound, approach and share of each contact by the gap at the start,
                the gap at a, and the normal velocities at a at the start and at the end
    P, Q, R     derivatives of impulses by velocities, by least impulses; of those that close gaps

Directions are the columns of all matrices below:

    da = M_a dq + C_a dv            dm = M_m dq + C_m dv
    dvd = A dm + B dv + T dtau      dv_f = V dv + U dvd
    r = d(J v_f, its normal part replaced by the bound) + (dJ w - J E) da
    dp = P r + Q dp_0               dv+ = dv_f + G dp - E da
    d(timed) = lasting dp + p d(lasting)
    dmean = (dv + dv_f) / 2 + G (d(timed) + d(lambda)) - E_s da
    dq+ = M dq + C dmean            dv_end = O_v dv + O_m dmean + O_p dv+

M_a to O_p are block diagonal, a block per joint. For joints whose variables simply add they are 1,
0 or a part of the step; blocks are arguments for the other joints only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tiburon.errors import TraceError
from tiburon.trace.graph import Graph
from tiburon.trace.primitives.primitive import Index, Machine, Memory, Number, Primitive

__all__ = ["BLOCKS", "CompressionChain", "ContactChain"]

BLOCKS = ("Mm", "Cm", "Ma", "Ca", "V", "U", "M", "C", "Ov", "Om", "Op")
"""Order of the matrices of one block among the arguments."""

UNROLLED = 6
"""Terms of a matrix product that are added before the sum is stored."""

ONCE = "linearizations of steps with contact have no derivatives"


class _Chain(Primitive):
    """What both chains share: impulses of one contact problem along all directions.

    Arguments: h; A, B, T; J; J_0; E; T; N, four rows per contact; S, twelve per contact; P; blocks
    in the order of `BLOCKS`; then those of the subclass.

    Attributes:
        size: Number of velocity variables, n.
        contacts: Number of contact points, c.
        blocks: First variable and number of variables of each joint with blocks of its own.
    """

    def __init__(
        self, name: str, size: int, contacts: int, blocks: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__(name, size, contacts, *(x for block in blocks for x in block))
        self.size, self.contacts, self.blocks = size, contacts, tuple(blocks)
        n, c = size, contacts
        own = sum(count * count for _, count in self.blocks)
        sizes = (1, 3 * n * n, 3 * c * n, c * n, n * n, 2 * c * n, 4 * c * n, 12 * c, 9 * c * c)
        places = (*itertools.accumulate((*sizes, len(BLOCKS) * own), initial=0),)
        self._slopes, self._J, self._J0, self._E, self._T, self._N, self._S, self._P = places[1:9]
        self._own, self.more = places[9:]

    @property
    def width(self) -> int:
        """Number of directions."""
        return 3 * self.size

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Raise an error: there are no second derivatives."""
        raise TraceError(ONCE)

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Raise an error: there are no second derivatives."""
        raise TraceError(ONCE)


class _Work:
    """Matrices along all directions, row by row, up to the impulses."""

    def __init__(self, m: Machine, given: Memory, of: _Chain) -> None:
        self.m, self.given, self.of = m, given, of
        n, c, width = of.size, of.contacts, of.width
        self.h = m.load(given, 0)
        self.a = self.zeros(n * width)
        """da."""
        self.free = self.zeros(n * width)
        """dv_f."""
        self.r = self.zeros(3 * c * width)
        self.rows = self.zeros(4 * c * width)
        """Gap at the start and at a, normal velocities at a at the start and at the end."""
        self.p = self.zeros(3 * c * width)
        """dp."""

    def zeros(self, size: int) -> Memory:
        """Return memory filled with zeros."""
        m, found = self.m, self.m.memory(size)
        for i in m.loop(0, size, independent=True):
            m.store(found, i, m.constant(0.0))
        return found

    def add_product(
        self,
        left: Memory,
        first: Index,
        right: Memory,
        found: Memory,
        rows: int,
        inner: int,
        *,
        to: Index = 0,
        stride: int | None = None,
        begin: Index = 0,
        scale: Number | None = None,
    ) -> None:
        """Add a matrix times a matrix of directions to another one.

        Args:
            left: Has rows x inner elements from `first` on, `stride` apart (inner by default).
            first: Place of the first one.
            right: Has inner rows of directions from row `begin` on.
            found: Receives rows of directions from row `to` on.
            rows: Rows.
            inner: Columns of the left one.
            to: First row of the result.
            stride: Distance of rows of the left matrix.
            begin: First row of the right matrix.
            scale: Factor of the product.
        """
        m, width = self.m, self.of.width
        stride = inner if stride is None else stride
        whole, rest = divmod(inner, UNROLLED)
        for i in m.loop(0, rows):
            for part in m.loop(0, whole):
                self._add_terms(
                    left,
                    i * stride + first + part * UNROLLED,
                    right,
                    (begin + part * UNROLLED),
                    found,
                    to + i,
                    UNROLLED,
                    width,
                    scale,
                )
            if rest:
                self._add_terms(
                    left,
                    i * stride + (whole * UNROLLED) + first,
                    right,
                    begin + whole * UNROLLED,
                    found,
                    to + i,
                    rest,
                    width,
                    scale,
                )

    def _add_terms(
        self,
        left: Memory,
        place: Index,
        right: Memory,
        row: Index,
        found: Memory,
        to: Index,
        count: int,
        width: int,
        scale: Number | None,
    ) -> None:
        m = self.m
        entries = [m.load(left, place + k) for k in range(count)]
        if scale is not None:
            entries = [m.mul(scale, entry) for entry in entries]
        for column in m.loop(0, width, independent=True):
            total = m.load(found, to * width + column)
            for k, entry in enumerate(entries):
                other = m.load(right, (row + k) * width + column)
                total = m.add_product(entry, other, total)
            m.store(found, to * width + column, total)

    def add_rows(
        self, found: Memory, to: Index, factor: Number, right: Memory, row: Index, rows: int
    ) -> None:
        """Add rows of directions times a factor to others."""
        m, width = self.m, self.of.width
        for i in m.loop(0, rows * width, independent=True):
            old = m.load(found, to * width + i)
            m.store(
                found, to * width + i, m.add_product(factor, m.load(right, row * width + i), old)
            )

    def add_unit(self, found: Memory, first: int, shift: int, value: Number) -> None:
        """Add a multiple of the identity to the columns `shift` and beyond, in rows from first."""
        m, width = self.m, self.of.width
        for i in m.loop(0, self.of.size):
            place = (i + first) * width + shift + i
            m.store(found, place, m.add(m.load(found, place), value))

    # block diagonal matrices

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of variables between blocks."""
        found, place = [], 0
        for start, count in (*self.of.blocks, (self.of.size, 0)):
            if start > place:
                found.append((place, start))
            place = start + count
        return found

    def _places(self, name: str) -> Iterator[tuple[int, int, int]]:
        """Yield the first variable, the size and the place of a matrix of each block."""
        place = self.of._own
        for start, count in self.of.blocks:
            yield start, count, place + BLOCKS.index(name) * count * count
            place += len(BLOCKS) * count * count

    def add_blocks(self, name: str, found: Memory, shift: int, plain: Number) -> None:
        """Add a block diagonal matrix to columns `shift` and beyond; `plain` between blocks."""
        m, width = self.m, self.of.width
        for start, stop in self.ranges():
            for i in m.loop(start, stop):
                place = i * width + shift + i
                m.store(found, place, m.add(m.load(found, place), plain))
        for start, count, place in self._places(name):
            for i in m.loop(0, count):
                for k in m.loop(0, count):
                    at = (i + start) * width + (start + shift) + k
                    entry = m.load(self.given, i * count + k + place)
                    m.store(found, at, m.add(m.load(found, at), entry))

    def add_block_product(
        self, name: str, right: Memory, found: Memory, to: int, plain: Number | None
    ) -> None:
        """Add a block diagonal matrix times directions; `plain` times them between blocks."""
        if plain is not None:
            for start, stop in self.ranges():
                self.add_rows(found, to + start, plain, right, start, stop - start)
        for start, count, place in self._places(name):
            self.add_product(
                self.given, place, right, found, count, count, to=to + start, begin=start
            )

    # the step

    def impulses(self) -> None:
        """Go on to the impulses."""
        m, of = self.m, self.of
        n, c, width = of.size, of.contacts, of.width
        one, h = m.constant(1.0), self.h
        self.add_blocks("Ma", self.a, 0, one)
        self.add_blocks("Ca", self.a, n, h)
        middle, vd = self.zeros(n * width), self.zeros(n * width)
        self.add_blocks("Mm", middle, 0, one)
        self.add_blocks("Cm", middle, n, m.mul(m.constant(0.5), h))
        # slopes by velocity and force are columns of their own
        for part in (1, 2):
            for i in m.loop(0, n):
                for k in m.loop(0, n, independent=True):
                    entry = m.load(self.given, i * n + k + (of._slopes + part * n * n))
                    m.store(vd, i * width + (part * n) + k, entry)
        self._times_near(of._slopes, n, middle, vd, 0)
        self.add_blocks("V", self.free, n, one)
        self.add_block_product("U", vd, self.free, 0, h)
        # velocities and gaps of contacts at constant impulses
        velocity = self.zeros(3 * c * width)
        self.add_product(self.given, of._J, self.free, velocity, 3 * c, n)
        JE = m.memory(3 * c * n)
        for i in m.loop(0, 3 * c * n):
            m.store(JE, i, m.constant(0.0))
        self._multiply(of._J, of._E, JE)
        near = m.memory(n)
        for k in m.loop(0, c):
            for axis in range(2):
                row = k * 3 + axis
                for j in m.loop(0, n, independent=True):
                    change = m.load(self.given, (k * 2 + axis) * n + j + of._T)
                    m.store(near, j, m.sub_product(one, m.load(JE, row * n + j), change))
                self.add_rows(self.r, row, one, velocity, row, 1)
                self._row_near(near, self.r, row)
            self._normal(velocity, JE, near, k)
        self.add_product(self.given, of._P, self.r, self.p, 3 * c, 3 * c)

    def _normal(self, velocity: Memory, JE: Memory, near: Memory, k: Index) -> None:
        """Write the four rows of the normal, and that of the bound."""
        m, of, given = self.m, self.of, self.given
        n, width = of.size, of.width
        one, minus = m.constant(1.0), m.constant(-1.0)
        row, first = k * 3 + 2, k * 4
        for j in m.loop(0, n, independent=True):
            # gap at the start: steps of position only
            m.store(self.rows, first * width + j, m.load(given, k * n + j + of._J0))
            m.store(near, j, m.load(given, row * n + j + of._J))
        self._row_near(near, self.rows, first + 1)
        for j in m.loop(0, n, independent=True):
            entry = m.load(near, j)
            place = (first + 2) * width + n + j
            m.store(self.rows, place, m.add(m.load(self.rows, place), entry))
            m.store(near, j, m.load(given, (k * 4 + 2) * n + j + of._N))
        self._row_near(near, self.rows, first + 2)
        for j in m.loop(0, n, independent=True):
            m.store(near, j, m.load(given, (k * 4 + 1) * n + j + of._N))
        self.add_rows(self.rows, first + 3, one, velocity, row, 1)
        self._row_near(near, self.rows, first + 3)
        for part in range(4):
            factor = m.load(given, k * 12 + (part + of._S))
            self.add_rows(self.r, row, factor, self.rows, first + part, 1)
        # what impulses cause
        for j in m.loop(0, n, independent=True):
            after = m.load(given, k * 4 * n + j + of._N)
            before = m.load(given, (k * 4 + 1) * n + j + of._N)
            change = m.add_product(minus, before, after)
            m.store(near, j, m.sub_product(one, m.load(JE, row * n + j), change))
        self._row_near(near, self.r, row)

    def _multiply(self, left: int, right: int, found: Memory) -> None:
        """Add the product of two arguments, J and an n x n matrix."""
        m, n = self.m, self.of.size
        for i in m.loop(0, 3 * self.of.contacts):
            for k in m.loop(0, n):
                entry = m.load(self.given, i * n + k + left)
                for j in m.loop(0, n, independent=True):
                    total = m.load(found, i * n + j)
                    other = m.load(self.given, k * n + j + right)
                    m.store(found, i * n + j, m.add_product(entry, other, total))

    def _times_near(self, first: int, rows: int, near: Memory, found: Memory, to: int) -> None:
        """Add an argument with n columns times rows near the identity, like da or dm."""
        m, n = self.m, self.of.size
        row = m.memory(n)
        for i in m.loop(0, rows):
            for j in m.loop(0, n, independent=True):
                m.store(row, j, m.load(self.given, i * n + j + first))
            self._row_of(row, near, found, to + i)

    def _row_near(self, row: Memory, found: Memory, to: Index) -> None:
        """Add a row times da."""
        self._row_of(row, self.a, found, to)

    def _row_of(self, row: Memory, near: Memory, found: Memory, to: Index) -> None:
        """Add a row times da or dm, which have entries in their blocks alone, to a row."""
        m, n, width = self.m, self.of.size, self.of.width
        for shift in (0, n):
            for start, stop in self.ranges():
                for j in m.loop(start, stop, independent=True):
                    entry = m.load(near, j * width + shift + j)
                    place = to * width + shift + j
                    total = m.add_product(m.load(row, j), entry, m.load(found, place))
                    m.store(found, place, total)
            for start, count in self.of.blocks:
                for j in m.loop(start, start + count):
                    place = to * width + shift + j
                    total = m.load(found, place)
                    for k in range(count):
                        entry = m.load(near, (start + k) * width + shift + j)
                        total = m.add_product(m.load(row, start + k), entry, total)
                    m.store(found, place, total)

    def add_times_a(self, first: int, rows: int, found: Memory) -> None:
        """Subtract an argument with n columns times da."""
        m, n = self.m, self.of.size
        row = m.memory(n)
        for i in m.loop(0, rows):
            for j in m.loop(0, n, independent=True):
                m.store(row, j, m.mul(m.constant(-1.0), m.load(self.given, i * n + j + first)))
            self._row_near(row, found, i)


class CompressionChain(_Chain):
    """Change of the impulses that restitution returns, with those of compression.

    Further arguments: for each contact the factors of its approach and of its normal impulse.
    Results: c rows of 3 n columns.
    """

    def __init__(self, size: int, contacts: int, blocks: Sequence[tuple[int, int]]) -> None:
        super().__init__("compression_chain", size, contacts, blocks)
        self.argument_count = self.more + 2 * contacts
        self.result_count = contacts * self.width

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Weight the changes of approach and normal impulse."""
        work = _Work(m, given, self)
        work.impulses()
        for i in m.loop(0, self.result_count, independent=True):
            m.store(found, i, m.constant(0.0))
        for k in m.loop(0, self.contacts):
            of_approach, of_impulse = (m.load(given, k * 2 + (i + self.more)) for i in range(2))
            for part in range(4):
                slope = m.load(given, k * 12 + (4 + part + self._S))
                factor = m.mul(of_approach, slope)
                work.add_rows(found, k, factor, work.rows, k * 4 + part, 1)
            work.add_rows(found, k, of_impulse, work.p, k * 3 + 2, 1)


class ContactChain(_Chain):
    """Multiply the derivatives of all parts of a step with contact to those of the step.

    Further arguments: G; E_s; Q; R, c x c; impulses p; for each contact its lasting share, share
    and sudden share, the factors of approach, returned impulse and normal impulse in the change of
    the sudden share, and whether it has a least impulse; the changes of returned impulses, c rows
    of 3 n columns. Results: dq+ and dv_end, 2 n rows of 3 n columns.
    """

    def __init__(self, size: int, contacts: int, blocks: Sequence[tuple[int, int]]) -> None:
        super().__init__("contact_chain", size, contacts, blocks)
        n, c = size, contacts
        sizes = (3 * n * c, n * n, 3 * c * c, c * c, 3 * c, 7 * c, c * self.width)
        places = (*itertools.accumulate(sizes, initial=self.more),)
        self._G, self._Es, self._Q, self._R, self._p, self._shares, self._returned = places[:-1]
        self.argument_count = places[-1]
        self.result_count = 6 * n * n

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Go on from the impulses to velocities, mean velocities and the end of the step."""
        work = _Work(m, given, self)
        n, c, width = self.size, self.contacts, self.width
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        work.impulses()
        least = work.zeros(c * width)
        for k in m.loop(0, c):
            flag = m.load(given, k * 7 + (6 + self._shares))
            for i in m.loop(0, width, independent=True):
                entry = m.load(given, k * width + i + self._returned)
                m.store(least, k * width + i, m.mul(flag, entry))
        work.add_product(given, self._Q, least, work.p, 3 * c, c)
        after = work.zeros(n * width)
        work.add_rows(after, 0, one, work.free, 0, n)
        work.add_product(given, self._G, work.p, after, n, 3 * c)
        work.add_times_a(self._E, n, after)
        timed = self._timed(m, given, work)
        mean = work.zeros(n * width)
        work.add_rows(mean, 0, half, work.free, 0, n)
        work.add_unit(mean, 0, n, half)
        work.add_times_a(self._Es, n, mean)
        self._close(m, given, work, mean, timed)
        work.add_product(given, self._G, timed, mean, n, 3 * c)
        for i in m.loop(0, self.result_count, independent=True):
            m.store(found, i, zero)
        work.add_blocks("M", found, 0, one)
        work.add_block_product("C", mean, found, 0, work.h)
        last = work.zeros(n * width)
        work.add_blocks("Ov", last, n, zero)
        work.add_block_product("Om", mean, last, 0, None)
        work.add_block_product("Op", after, last, 0, one)
        for i in m.loop(0, n * width, independent=True):
            m.store(found, i + n * width, m.load(last, i))

    def _timed(self, m: Machine, given: Memory, work: _Work) -> Memory:
        """Return the changes of impulses times their lasting shares."""
        c, width = self.contacts, self.width
        half = m.constant(0.5)
        timed, lasting = work.zeros(3 * c * width), work.zeros(width)
        for k in m.loop(0, c):
            weight, share, sudden, of_approach, of_returned, of_impulse = (
                m.load(given, k * 7 + (i + self._shares)) for i in range(6)
            )
            half_share = m.mul(half, share)
            of_share = m.add_product(half, sudden, half)
            for i in m.loop(0, width, independent=True):
                entry = m.load(given, k * width + i + self._returned)
                normal = m.load(work.p, (k * 3 + 2) * width + i)
                change = m.add_product(of_returned, entry, m.mul(of_impulse, normal))
                m.store(lasting, i, m.mul(half_share, change))
            for part in range(4):
                slope = m.load(given, k * 12 + (4 + part + self._S))
                factor = m.mul(m.mul(half_share, of_approach), slope)
                of_part = m.load(given, k * 12 + (8 + part + self._S))
                factor = m.add_product(of_share, of_part, factor)
                work.add_rows(lasting, 0, factor, work.rows, k * 4 + part, 1)
            for axis in range(3):
                row = k * 3 + axis
                work.add_rows(timed, row, weight, work.p, row, 1)
                work.add_rows(timed, row, m.load(given, row + self._p), lasting, 0, 1)
        return timed

    def _close(self, m: Machine, given: Memory, work: _Work, mean: Memory, timed: Memory) -> None:
        """Add the impulses that close the gaps of contacts that are held.

        The gap at the end over h is gap_a / h + J_n (mean - v).
        """
        n, c, width = self.size, self.contacts, self.width
        one, minus = m.constant(1.0), m.constant(-1.0)
        over_h = m.div(one, work.h)
        gaps, near = work.zeros(c * width), m.memory(n)
        products = m.memory(3 * c)
        for k in m.loop(0, c):
            work.add_rows(gaps, k, over_h, work.rows, k * 4 + 1, 1)
            for j in m.loop(0, n, independent=True):
                mean_row = m.load(given, (k * 4 + 3) * n + j + self._N)
                start_row = m.load(given, (k * 4 + 2) * n + j + self._N)
                m.store(near, j, m.add_product(minus, start_row, mean_row))
            work._row_near(near, gaps, k)
            normal = (k * 3 + 2) * n + self._J
            for j in m.loop(0, n, independent=True):
                place = k * width + n + j
                entry = m.load(given, normal + j)
                m.store(gaps, place, m.sub_product(one, entry, m.load(gaps, place)))
            work.add_product(given, normal, mean, gaps, 1, n, to=k)
            # J_n G, for impulses that are not yet in the mean velocity
            for i in m.loop(0, 3 * c):
                m.store(products, i, m.constant(0.0))
            for j in m.loop(0, n):
                entry = m.load(given, normal + j)
                for i in m.loop(0, 3 * c, independent=True):
                    other = m.load(given, j * (3 * c) + i + self._G)
                    m.store(products, i, m.add_product(entry, other, m.load(products, i)))
            work.add_product(products, 0, timed, gaps, 1, 3 * c, to=k)
        for k in m.loop(0, c):
            for i in m.loop(0, c):
                entry = m.load(given, k * c + i + self._R)
                work.add_rows(timed, k * 3 + 2, entry, gaps, i, 1)
