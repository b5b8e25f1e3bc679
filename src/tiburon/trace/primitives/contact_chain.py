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
    P, Q        derivatives of impulses by velocities, by least impulses
    R           minus the inverse of J_n G_n, for contacts that are held: impulses that close gaps

Directions are the columns of all matrices below:

    da = M_a dq + C_a dv            dm = M_m dq + C_m dv
    dvd = A dm + B dv + T dtau      dv_f = V dv + U dvd
    r = d(J v_f, its normal part replaced by the bound) + (dJ w - J E) da
    dp = P r + Q dp_0               dv+ = dv_f + G dp - E da
    d(timed) = lasting dp + p d(lasting)
    dmean = (dv + dv_f) / 2 + G (d(timed) + d(lambda)) - E_s da
    dq+ = M dq + C dmean            dv_end = O_v dv + O_m dmean + O_p dv+

The bound changes with the normal velocity at the end by 1 in all cases, so that r = J (dv_f - E da)
and parts that are sparse. Directions are taken a few at a time: what belongs to them stays close to
the processor while matrices pass by.

M_a to O_p are block diagonal, a block per joint. For joints whose variables simply add they are 1,
0 or a part of the step; blocks are arguments for the other joints only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from tiburon.errors import TraceError
from tiburon.trace.graph import Graph
from tiburon.trace.primitives.friction_derivative import write_negative_inverse
from tiburon.trace.primitives.primitive import Index, Machine, Memory, Number, Primitive

__all__ = ["BLOCKS", "SHARES", "ContactChain"]

BLOCKS = ("Mm", "Cm", "Ma", "Ca", "V", "U", "M", "C", "Ov", "Om", "Op")
"""Order of the matrices of one block among the arguments."""

SHARES = (
    "lasting",
    "share",
    "sudden",
    "of_approach",
    "of_returned",
    "of_impulse",
    "has_least",
    "is_closed",
    "returned_by_approach",
    "returned_by_impulse",
)
"""Values of a contact: the share of the step over which its impulse lasts, the time left, the
sudden share and the factors of approach, returned impulse and normal impulse in its change; whether
it has a least impulse, and whether its gap is closed; the factors of approach and normal impulse of
compression in the impulse that restitution returns."""

UNROLLED = 24
"""Terms of a matrix product that are added before the sum is stored."""

ONCE = "linearizations of steps with contact have no derivatives"


class ContactChain(Primitive):
    """Multiply the derivatives of all parts of a step with contact to those of the step.

    Arguments: h; A, B, T; J; J_0; S, twelve per contact; blocks in the order of `BLOCKS`; the final
    contact problem: E, T, N (four rows per contact) and P; that of compression, zeros without
    restitution; G; E_s; Q; impulses p; ten values per contact: `SHARES`. Results: dq+ and dv_end,
    2 n rows of 3 n columns.

    Attributes:
        size: Number of velocity variables, n.
        contacts: Number of contact points, c.
        blocks: First variable and number of variables of each joint with blocks of its own.
    """

    def __init__(self, size: int, contacts: int, blocks: Sequence[tuple[int, int]]) -> None:
        super().__init__("contact_chain", size, contacts, *(x for block in blocks for x in block))
        self.size, self.contacts, self.blocks = size, contacts, tuple(blocks)
        n, c = size, contacts
        own = len(BLOCKS) * sum(count * count for _, count in self.blocks)
        problem = n * n + 6 * c * n + 9 * c * c
        sizes = [1, 3 * n * n, 3 * c * n, c * n, 12 * c, own, problem, problem]
        sizes += [3 * n * c, n * n, 3 * c * c, 3 * c, len(SHARES) * c]
        places = (*itertools.accumulate(sizes, initial=0),)
        self.slopes, self.J, self.J0, self.S, self.own, self.final, self.first = places[1:8]
        self.G, self.Es, self.Q, self.p, self.shares, self.argument_count = places[8:]
        self.result_count = 6 * n * n

    @property
    def width(self) -> int:
        """Number of directions."""
        return 3 * self.size

    @property
    def few(self) -> int:
        """Directions that are taken at a time."""
        return 6 if self.size % 2 == 0 else 3

    def share(self, m: Machine, given: Memory, k: Index, name: str) -> Number:
        """Return one of the `SHARES` of a contact."""
        return m.load(given, k * len(SHARES) + (SHARES.index(name) + self.shares))

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

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Go from impulses to velocities, mean velocities and the end of the step."""
        work = _Work(m, given, self)
        n, c, width, few = self.size, self.contacts, self.width, self.few
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        final = _Problem(work, self.final)
        final.prepare()
        returned, returns = self._returned(m, given, work)
        times = self._times(m, given)
        mean_part = self._mean_part(m, given, work)
        gaps, JG = self._gap_rows(m, given, work)
        R = self._closed_gaps(m, given, JG)
        least, timed, after, mean, end = (m.memory(x * few) for x in (c, 3 * c, n, n, n))
        for column in work.columns():
            final.impulses(column)
            for _ in m.iterate(1, lambda: m.less(zero, m.load(returns, 0))):
                for k in m.loop(0, c):
                    flag = self.share(m, given, k, "has_least")
                    for x, entry in enumerate(work.row_of(returned, k, column)):
                        m.store(least, k * few + x, m.mul(flag, entry))
                work.product(given, self.Q, least, final.p, 3 * c, c)
            work.product(
                given,
                self.G,
                final.p,
                after,
                n,
                3 * c,
                lambda i: [m.load(final.free, i * few + x) for x in range(few)],
            )
            for k in m.loop(0, c):
                weight = self.share(m, given, k, "lasting")
                for i in m.loop(0, 3 * few, independent=True):
                    place = k * (3 * few) + i
                    m.store(timed, place, m.mul(weight, m.load(final.p, place)))
            for _ in m.iterate(1, lambda: m.less(zero, m.load(times, 0))):
                self._add_lasting(m, given, work, final, (returned, timed), column)
            for i in m.loop(0, n):
                for x, value in enumerate(work.row_of(mean_part, i, column)):
                    total = m.add_product(half, m.load(final.free, i * few + x), value)
                    m.store(mean, i * few + x, total)
            self._close(m, work, column, (gaps, JG, R), (mean, timed))
            work.product(given, self.G, timed, mean, n, 3 * c)
            for to, parts in (
                (0, (("C", mean, work.h),)),
                (n, (("Om", mean, None), ("Op", after, one))),
            ):
                for i in m.loop(0, n * few, independent=True):
                    m.store(end, i, zero)
                for name, right, plain in parts:
                    work.block_product(name, right, end, plain)
                for i in m.loop(0, n):
                    for x in range(few):
                        value = m.load(end, i * few + x)
                        m.store(found, (i + to) * width + column + x, value)
        work.add_blocks("M", found, 0, one, 1.0)
        work.add_blocks("Ov", found, n, zero, 1.0, row=n)

    def _returned(self, m: Machine, given: Memory, work: _Work) -> tuple[Memory, Memory]:
        """Return the changes of the impulses that restitution returns, and whether there are any.

        They follow from the approach and from the impulses of compression.
        """
        c, few, zero = self.contacts, self.few, m.constant(0.0)
        found, some = work.zeros(c * self.width), m.memory(1)
        m.store(some, 0, zero)
        for k in m.loop(0, c):
            factor = self.share(m, given, k, "returned_by_approach")
            m.store(some, 0, m.add_product(factor, factor, m.load(some, 0)))
        for _ in m.iterate(1, lambda: m.less(zero, m.load(some, 0))):
            first = _Problem(work, self.first)
            first.prepare()
            for column in work.columns():
                first.impulses(column)
                for k in m.loop(0, c):
                    of_approach = self.share(m, given, k, "returned_by_approach")
                    of_impulse = self.share(m, given, k, "returned_by_impulse")
                    for x, change in enumerate(first.closing(k, column, 1)):
                        normal = m.load(first.p, (k * 3 + 2) * few + x)
                        total = m.add_product(of_impulse, normal, m.mul(of_approach, change))
                        m.store(found, k * self.width + column + x, total)
        return found, some

    def _times(self, m: Machine, given: Memory) -> Memory:
        """Return a sum of squares that is zero where no lasting share changes."""
        found = m.memory(1)
        m.store(found, 0, m.constant(0.0))

        def add(value: Number) -> None:
            m.store(found, 0, m.add_product(value, value, m.load(found, 0)))

        for k in m.loop(0, self.contacts):
            for part in range(4, 12):
                add(m.load(given, k * 12 + (part + self.S)))
            add(self.share(m, given, k, "of_returned"))
        return found

    def _mean_part(self, m: Machine, given: Memory, work: _Work) -> Memory:
        """Return (dv + E da) / 2 - E_s da: what mean velocities are beside impulses."""
        n, width, half = self.size, self.width, m.constant(0.5)
        found = work.zeros(n * width)
        for i in m.loop(0, n):
            place = i * width + n + i
            m.store(found, place, m.add(half, m.load(found, place)))

            def entry(j: Index, i: Index = i) -> Number:
                of_end = m.mul(half, m.load(given, i * n + j + self.final))
                return m.sub_product(m.constant(1.0), m.load(given, i * n + j + self.Es), of_end)

            work.add_times(entry, found, i)
        return found

    def _gap_rows(self, m: Machine, given: Memory, work: _Work) -> tuple[Memory, Memory]:
        """Return the gap at the end over h, gap_a / h + J_n (mean - v), without J_n mean; J_n G."""
        n, c, width = self.size, self.contacts, self.width
        one, over_h = m.constant(1.0), m.div(m.constant(1.0), work.h)
        gaps, JG = work.zeros(c * width), work.zeros(3 * c * c)
        N = self.final + n * n + 2 * c * n
        for k in m.loop(0, c):
            normal = (k * 3 + 2) * n + self.J
            for j in m.loop(0, n, independent=True):
                entry = m.load(given, normal + j)
                m.store(gaps, k * width + n + j, m.mul(m.constant(-1.0), entry))

            def change(j: Index, k: Index = k, normal: Index = normal) -> Number:
                mean = m.load(given, (k * 4 + 3) * n + j + N)
                apart = m.sub_product(one, m.load(given, (k * 4 + 2) * n + j + N), mean)
                return m.add_product(over_h, m.load(given, normal + j), apart)

            work.add_times(change, gaps, k)
            for j in m.loop(0, n):
                entry = m.load(given, normal + j)
                for i in m.loop(0, 3 * c, independent=True):
                    place = k * (3 * c) + i
                    other = m.load(given, j * (3 * c) + i + self.G)
                    m.store(JG, place, m.add_product(entry, other, m.load(JG, place)))
        return gaps, JG

    def _closed_gaps(self, m: Machine, given: Memory, JG: Memory) -> Memory:
        """Return R: minus the inverse of J_n G_n among contacts that are closed, c x c."""
        c = self.contacts
        matrix, flags = m.memory(c * c), m.memory(c)
        for k in m.loop(0, c):
            m.store(flags, k, self.share(m, given, k, "is_closed"))
            for i in m.loop(0, c):
                m.store(matrix, k * c + i, m.load(JG, k * (3 * c) + i * 3 + 2))
        R = m.memory(c * c)
        write_negative_inverse(m, matrix, flags, R, c)
        return R

    def _add_lasting(
        self,
        m: Machine,
        given: Memory,
        work: _Work,
        final: _Problem,
        found: tuple[Memory, Memory],
        column: Index,
    ) -> None:
        """Add impulses times the changes of their lasting shares to `timed`."""
        few, half, (returned, timed) = self.few, m.constant(0.5), found
        for k in m.loop(0, self.contacts):
            share, sudden, of_approach, of_returned, of_impulse = (
                self.share(m, given, k, name) for name in SHARES[1:6]
            )
            half_share = m.mul(half, share)
            of_share = m.add_product(half, sudden, half)
            approach, shares = (final.closing(k, column, which) for which in (1, 2))
            for x, entry in enumerate(work.row_of(returned, k, column)):
                normal = m.load(final.p, (k * 3 + 2) * few + x)
                change = m.add_product(of_returned, entry, m.mul(of_impulse, normal))
                change = m.add_product(of_approach, approach[x], change)
                lasting = m.add_product(half_share, change, m.mul(of_share, shares[x]))
                for axis in range(3):
                    place = (k * 3 + axis) * few + x
                    impulse = m.load(given, k * 3 + (axis + self.p))
                    m.store(timed, place, m.add_product(impulse, lasting, m.load(timed, place)))

    def _close(
        self,
        m: Machine,
        work: _Work,
        column: Index,
        of_gaps: tuple[Memory, Memory, Memory],
        found: tuple[Memory, Memory],
    ) -> None:
        """Add the impulses that keep gaps closed to those on the mean velocity."""
        n, c, few = self.size, self.contacts, self.few
        (rows, JG, R), (mean, timed) = of_gaps, found
        left = m.memory(c * few)
        for k in m.loop(0, c):
            totals = work.row_of(rows, k, column)
            for j in range(n):
                entry = m.load(work.given, (k * 3 + 2) * n + (j + self.J))
                for x in range(few):
                    totals[x] = m.add_product(entry, m.load(mean, j * few + x), totals[x])
            for x in range(few):
                m.store(left, k * few + x, totals[x])
        work.product(JG, 0, timed, left, c, 3 * c)
        for k in m.loop(0, c):
            totals = [m.load(timed, (k * 3 + 2) * few + x) for x in range(few)]
            for i in range(c):
                entry = m.load(R, k * c + i)
                for x in range(few):
                    totals[x] = m.add_product(entry, m.load(left, i * few + x), totals[x])
            for x in range(few):
                m.store(timed, (k * 3 + 2) * few + x, totals[x])


class _Work:
    """What all contact problems of a step share."""

    def __init__(self, m: Machine, given: Memory, of: ContactChain) -> None:
        self.m, self.given, self.of = m, given, of
        n = of.size
        self.h = m.load(given, 0)
        self.vd = self.zeros(n * of.width)
        """Change of the acceleration."""
        self._row = m.memory(n)
        self._accelerate()

    def zeros(self, size: int) -> Memory:
        """Return memory filled with zeros."""
        m, found = self.m, self.m.memory(size)
        for i in m.loop(0, size, independent=True):
            m.store(found, i, m.constant(0.0))
        return found

    # sparse parts, along all directions

    def _ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of variables between blocks."""
        found, place = [], 0
        for start, count in (*self.of.blocks, (self.of.size, 0)):
            if start > place:
                found.append((place, start))
            place = start + count
        return found

    def _places(self, name: str) -> Iterator[tuple[int, int, int]]:
        """Yield the first variable, the size and the place of a matrix of each block."""
        place = self.of.own
        for start, count in self.of.blocks:
            yield start, count, place + BLOCKS.index(name) * count * count
            place += len(BLOCKS) * count * count

    def add_blocks(
        self,
        name: str,
        found: Memory,
        shift: int,
        plain: Number,
        sign: float,
        *,
        row: int = 0,
    ) -> None:
        """Add a block diagonal matrix, or subtract it, in columns `shift` and rows `row` on.

        `plain` is its diagonal between blocks.
        """
        m, width, factor = self.m, self.of.width, self.m.constant(sign)
        for start, stop in self._ranges():
            for i in m.loop(start, stop):
                place = (i + row) * width + shift + i
                m.store(found, place, m.add_product(factor, plain, m.load(found, place)))
        for start, count, place in self._places(name):
            for i in m.loop(0, count):
                for k in m.loop(0, count):
                    at = (i + (start + row)) * width + (start + shift) + k
                    entry = m.load(self.given, i * count + k + place)
                    m.store(found, at, m.add_product(factor, entry, m.load(found, at)))

    def add_times(
        self,
        entry: Callable[[Index], Number],
        found: Memory,
        to: Index,
        names: tuple[str, str] = ("Ma", "Ca"),
        share: float = 1.0,
    ) -> None:
        """Add a row of n entries times da to a row; times dm with its names and share of h."""
        m, n, width, row = self.m, self.of.size, self.of.width, self._row
        for j in m.loop(0, n, independent=True):
            m.store(row, j, entry(j))
        h = m.mul(m.constant(share), self.h)
        for name, shift, plain in zip(names, (0, n), (m.constant(1.0), h), strict=True):
            for start, stop in self._ranges():
                for j in m.loop(start, stop, independent=True):
                    place = to * width + shift + j
                    total = m.add_product(m.load(row, j), plain, m.load(found, place))
                    m.store(found, place, total)
            for start, count, block in self._places(name):
                for j in m.loop(0, count):
                    place = to * width + (shift + start) + j
                    total = m.load(found, place)
                    for k in range(count):
                        other = m.load(self.given, j + (block + k * count))
                        total = m.add_product(m.load(row, start + k), other, total)
                    m.store(found, place, total)

    def at(self, place: Index) -> Callable[[Index], Number]:
        """Return a function of the elements of a row among the arguments."""
        return lambda j: self.m.load(self.given, place + j)

    def _accelerate(self) -> None:
        """Write the change of the acceleration."""
        m, of = self.m, self.of
        n, width = of.size, of.width
        for i in m.loop(0, n):
            # slopes by velocity and force are columns of their own
            for part in (1, 2):
                for k in m.loop(0, n, independent=True):
                    slope = m.load(self.given, i * n + k + (of.slopes + part * n * n))
                    m.store(self.vd, i * width + (part * n) + k, slope)
            self.add_times(self.at(i * n + of.slopes), self.vd, i, ("Mm", "Cm"), 0.5)

    # dense parts, along a few directions

    def columns(self) -> Iterator[Index]:
        """Yield the first of a few directions."""
        for number in self.m.loop(0, self.of.width // self.of.few):
            yield number * self.of.few

    def product(
        self,
        left: Memory,
        first: Index,
        right: Memory,
        found: Memory,
        rows: int,
        inner: int,
        start: Callable[[Index], list[Number]] | None = None,
    ) -> None:
        """Write a matrix times a few directions, added to what `start` returns for each row.

        Args:
            left: Has rows x inner elements, row by row.
            first: Place of the first one.
            right: Has inner rows of a few directions.
            found: Receives rows of a few directions.
            rows: Rows.
            inner: Columns of the left matrix.
            start: Returns the values to add to for a row; what `found` holds by default.
        """
        m, few = self.m, self.of.few
        for place in range(0, inner, UNROLLED):
            terms = range(place, min(place + UNROLLED, inner))
            for i in m.loop(0, rows):
                if place == 0 and start is not None:
                    totals = start(i)
                else:
                    totals = [m.load(found, i * few + x) for x in range(few)]
                for k in terms:
                    entry = m.load(left, i * inner + first + k)
                    for x in range(few):
                        other = m.load(right, k * few + x)
                        totals[x] = m.add_product(entry, other, totals[x])
                for x in range(few):
                    m.store(found, i * few + x, totals[x])

    def row_of(self, memory: Memory, row: Index, column: Index) -> list[Number]:
        """Return a few directions of a row of a matrix of all."""
        m, width = self.m, self.of.width
        return [m.load(memory, row * width + column + x) for x in range(self.of.few)]

    def block_product(self, name: str, right: Memory, found: Memory, plain: Number | None) -> None:
        """Add a block diagonal matrix times a few directions to others."""
        m, few = self.m, self.of.few
        if plain is not None:
            for start, stop in self._ranges():
                for i in m.loop(start * few, stop * few, independent=True):
                    m.store(found, i, m.add_product(plain, m.load(right, i), m.load(found, i)))
        for start, count, place in self._places(name):
            for i in m.loop(0, count):
                totals = [m.load(found, (i + start) * few + x) for x in range(few)]
                for k in range(count):
                    entry = m.load(self.given, i * count + k + place)
                    for x in range(few):
                        other = m.load(right, (start + k) * few + x)
                        totals[x] = m.add_product(entry, other, totals[x])
                for x in range(few):
                    m.store(found, (i + start) * few + x, totals[x])


class _Problem:
    """One contact problem: impulses along a few directions."""

    def __init__(self, work: _Work, first: int) -> None:
        self.work, of = work, work.of
        m, n, c, width, few = work.m, of.size, of.contacts, of.width, of.few
        self.E, self.T = first, first + n * n
        self.N, self.P = self.T + 2 * c * n, self.T + 6 * c * n
        self._lean = work.zeros(n * width)
        """E da - V dv."""
        self._r = work.zeros(3 * c * width)
        """r without J (dv_f - E da)."""
        self._rows = work.zeros(4 * c * width)
        """Gap at the start and at a, normal velocities at a at the start and at the end; the last
        without J (dv_f - E da)."""
        self.free = m.memory(n * few)
        """dv_f - E da along a few directions."""
        self._u = m.memory(3 * c * few)
        """J times that."""
        self.p = m.memory(3 * c * few)
        """dp along a few directions."""
        self._right = m.memory(3 * c * few)
        self._part = m.memory(n * few)

    def prepare(self) -> None:
        """Compute what is sparse, along all directions."""
        work, of = self.work, self.work.of
        m, n, c = work.m, of.size, of.contacts
        work.add_blocks("V", self._lean, n, m.constant(1.0), -1.0)
        for i in m.loop(0, n):
            work.add_times(work.at(i * n + self.E), self._lean, i)
        product = m.memory(n)
        for k in m.loop(0, c):
            for axis in range(2):
                row = work.at((k * 2 + axis) * n + self.T)
                work.add_times(row, self._r, k * 3 + axis)
            self._prepare_normal(k, product)

    def _prepare_normal(self, k: Index, product: Memory) -> None:
        """Write the four rows of the normal of a contact, and that of the bound."""
        work, of = self.work, self.work.of
        m, given, n, width = work.m, work.given, of.size, of.width
        first, row, normal = k * 4, k * 3 + 2, (k * 3 + 2) * n + of.J
        for j in m.loop(0, n, independent=True):
            # the gap at the start changes with steps of position only
            m.store(self._rows, first * width + j, m.load(given, k * n + j + of.J0))
            m.store(self._rows, (first + 2) * width + n + j, m.load(given, normal + j))
            m.store(product, j, m.load(given, (k * 4 + 1) * n + j + self.N))
        work.add_times(work.at(normal), self._rows, first + 1)
        work.add_times(work.at((k * 4 + 2) * n + self.N), self._rows, first + 2)
        for i in m.loop(0, n):
            entry = m.load(given, normal + i)
            for j in m.loop(0, n, independent=True):
                other = m.load(given, i * n + j + self.E)
                m.store(product, j, m.add_product(entry, other, m.load(product, j)))
        work.add_times(lambda j: m.load(product, j), self._rows, first + 3)
        for part in range(3):
            factor = m.load(given, k * 12 + (part + of.S))
            for i in m.loop(0, width, independent=True):
                old = m.load(self._r, row * width + i)
                other = m.load(self._rows, (first + part) * width + i)
                m.store(self._r, row * width + i, m.add_product(factor, other, old))
        work.add_times(work.at(k * 4 * n + self.N), self._r, row)

    def impulses(self, column: Index) -> None:
        """Write velocities and impulses along a few directions."""
        work, of = self.work, self.work.of
        m, few, n, c = work.m, of.few, of.size, of.contacts
        zero, minus = m.constant(0.0), m.constant(-1.0)
        for i in m.loop(0, n):
            for x, value in enumerate(work.row_of(work.vd, i, column)):
                m.store(self._part, i * few + x, value)
            for x, value in enumerate(work.row_of(self._lean, i, column)):
                m.store(self.free, i * few + x, m.mul(minus, value))
        work.block_product("U", self._part, self.free, work.h)
        work.product(work.given, of.J, self.free, self._u, 3 * c, n, lambda _: [zero] * few)
        for i in m.loop(0, 3 * c):
            for x, value in enumerate(work.row_of(self._r, i, column)):
                total = m.add(value, m.load(self._u, i * few + x))
                m.store(self._right, i * few + x, total)
        work.product(work.given, self.P, self._right, self.p, 3 * c, 3 * c, lambda _: [zero] * few)

    def closing(self, k: Index, column: Index, which: int) -> list[Number]:
        """Return the change of approach (which = 1) or share (2) of a contact."""
        work, of = self.work, self.work.of
        m, few = work.m, of.few
        found = [m.constant(0.0)] * few
        for part in range(4):
            slope = m.load(work.given, k * 12 + (4 * which + part + of.S))
            row = work.row_of(self._rows, k * 4 + part, column)
            if part == 3:
                row = [m.add(y, m.load(self._u, (k * 3 + 2) * few + x)) for x, y in enumerate(row)]
            found = [m.add_product(slope, y, total) for y, total in zip(row, found, strict=True)]
        return found
