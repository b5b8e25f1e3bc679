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
and parts that are sparse. Restitution needs the normal impulses of compression, too, whose r
differs by a matrix times da.

Every product has rows of all directions on its right-hand side: of its left factor two rows or
three are held in registers while a loop goes over the directions. Rows of contacts are stored where
they are not zero: at the joints that carry one of their bodies.

M_a to O_p are block diagonal, a block per joint. For joints whose variables simply add they are 1,
0 or a part of the step; blocks are arguments for the other joints only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tiburon.errors import TraceError
from tiburon.trace.graph import Graph
from tiburon.trace.primitives.friction import support_form
from tiburon.trace.primitives.friction_derivative import FrictionResponse, write_negative_inverse
from tiburon.trace.primitives.primitive import Index, Machine, Memory, Number, Primitive

__all__ = ["BLOCKS", "ROWS", "SHARES", "ContactChain"]

BLOCKS = ("Mm", "Cm", "Ma", "Ca", "V", "U", "M", "C", "Ov", "Om", "Op")
"""Order of the matrices of one block among the arguments."""

ROWS = ("J_1", "J_2", "J_n", "J_0", "T_1", "T_2", "N_after", "N_before", "N_start", "N_mean")
"""Order of the rows of one contact among the arguments."""

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

UNROLLED = 12
"""Terms of a product that are added before the sum is stored."""

LANES = 8
"""Rows of directions are filled up with zeros to a multiple of this: loops without a remainder."""

ONCE = "linearizations of steps with contact have no derivatives"


class ContactChain(Primitive):
    """Multiply the derivatives of all parts of a step with contact to those of the step.

    Arguments: h; A, B, T; rows of E, E_s and G beside each other; for each contact its `ROWS`, each
    over its support; S, twelve per contact; blocks in the order of `BLOCKS`; the contact problem
    and its solution, from which P and Q follow (`FrictionResponse`); impulses p; ten values per
    contact: `SHARES`; for the compression, zeros without restitution: by how much its T and N after
    impulses differ, three rows per contact over its support, and its E; its solution: least
    impulses, impulses, y and alpha. Results: the derivatives of the step by position and velocity,
    2 n rows of 2 n columns; those by force, 2 n rows of n columns.

    Attributes:
        size: Number of velocity variables, n.
        supports: For each contact the variables where its rows are not zero.
        blocks: First variable and number of variables of each joint with blocks of its own.
        response: P and Q.
        compression_count: Number of arguments for how the compression differs.
    """

    def __init__(
        self,
        size: int,
        supports: Sequence[Sequence[int]],
        blocks: Sequence[tuple[int, int]],
        response: FrictionResponse,
    ) -> None:
        self.supports = tuple(tuple(support) for support in supports)
        self.size, self.contacts, self.blocks = size, len(self.supports), tuple(blocks)
        self.response = response
        lengths = [len(support) for support in self.supports]
        form = [*lengths, *itertools.chain(*self.supports), len(self.blocks)]
        form += [*itertools.chain(*self.blocks), response.size, *support_form(response.supports)]
        super().__init__("contact_chain", size, self.contacts, *form)
        n, c = size, self.contacts
        own = len(BLOCKS) * sum(count * count for _, count in self.blocks)
        rows = len(ROWS) * sum(lengths)
        # the matrix, b and mu of all contact problems of a step are the same
        self.solution_count = 5 * c + response.size
        sizes = [1, 3 * n * n, n * self.solved_width, rows, 12 * c, own, response.argument_count]
        sizes += [3 * c, len(SHARES) * c, 3 * sum(lengths), n * n, self.solution_count]
        places = (*itertools.accumulate(sizes, initial=0),)
        self.slopes, self.solved, self.rows, self.S, self.own, self.problem = places[1:7]
        self.p, self.shares, self.D, self.first_E, self.first, self.argument_count = places[7:]
        self.compression_count = self.first - self.D
        self.result_count = 6 * n * n

    @property
    def solved_width(self) -> int:
        """Columns of E, E_s and G together."""
        return 2 * self.size + 3 * self.contacts

    @property
    def width(self) -> int:
        """Length of a row of directions."""
        return -(-3 * self.size // LANES) * LANES

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
        chain = _Chain(m, given, self)
        chain.move_freely()
        chain.pose()
        chain.solve()
        chain.time()
        chain.close_gaps()
        chain.finish(found)


class _Contact(NamedTuple):
    """A contact point in a loop over those with equally long supports."""

    k: Index
    """Its number."""

    first: Index
    """Place of its rows among the arguments."""

    different: Index
    """Place of what the compression changes of them."""

    length: int
    """Length of its support."""

    columns: list[Index]
    """Its support."""

    def place(self, name: str, i: int) -> Index:
        """Return the place of an element of one of its `ROWS`."""
        return self.first + (ROWS.index(name) * self.length + i)


class _Chain:
    """Rows of directions, and the steps from one to the next."""

    def __init__(self, m: Machine, given: Memory, of: ContactChain) -> None:
        self.m, self.given, self.of = m, given, of
        self.n, self.c, self.width = of.size, of.contacts, of.width
        n, c, width = self.n, self.c, self.width
        self.zero, self.one, self.half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        self.h = m.load(given, 0)
        self.free = m.memory(n * width)
        """dv_f - E da; dv+ in the end."""
        self.mean = m.memory(n * width)
        """dmean."""
        self.right = m.memory(3 * c * width)
        """r."""
        self.normal = m.memory(c * width)
        """J_n (dv_f - E da)."""
        self.p = m.memory(3 * c * width)
        """dp."""
        self.timed = m.memory(3 * c * width)
        """Impulses on the mean velocity."""
        self.closing = [m.memory(c * width) for _ in range(2)]
        """Changes of approach and share of each contact."""
        self.returned = m.memory(c * width)
        """Changes of the impulses that restitution returns."""
        self.gaps = m.memory(c * width)
        """Gaps at the end of the step, over its length."""
        self.JG = m.memory(3 * c * c)
        self._row = m.memory(n)
        self.times = self._sum_of_squares(
            [self._slope(part) for part in range(4, 12)] + [self._share("of_returned")]
        )
        """Zero where no lasting share changes."""
        self.returns = self._sum_of_squares([self._share("returned_by_approach")])
        """Zero where restitution returns nothing."""

    # arguments

    def _slope(self, part: int) -> Callable[[Index], Number]:
        """Return a function of a contact: one of its twelve elements of S."""
        return lambda k: self.m.load(self.given, k * 12 + (part + self.of.S))

    def _share(self, name: str) -> Callable[[Index], Number]:
        """Return a function of a contact: one of its `SHARES`."""
        place = SHARES.index(name) + self.of.shares
        return lambda k: self.m.load(self.given, k * len(SHARES) + place)

    def _sum_of_squares(self, values: Sequence[Callable[[Index], Number]]) -> Memory:
        m, found = self.m, self.m.memory(1)
        m.store(found, 0, self.zero)
        for k in m.loop(0, self.c):
            for value in values:
                x = value(k)
                m.store(found, 0, m.add_product(x, x, m.load(found, 0)))
        return found

    def _some(self, of: Memory) -> Iterator[None]:
        """Run the body of a `for` where a sum of squares is not zero."""
        return self.m.iterate(1, lambda: self.m.less(self.zero, self.m.load(of, 0)))

    def _E(self, i: Index, j: Index) -> Number:
        return self.m.load(self.given, i * self.of.solved_width + j + self.of.solved)

    def _Es(self, i: Index, j: Index) -> Number:
        return self.m.load(self.given, i * self.of.solved_width + j + (self.of.solved + self.n))

    def _G(self, i: Index, j: Index) -> Number:
        return self.m.load(self.given, i * self.of.solved_width + j + (self.of.solved + 2 * self.n))

    def _contacts(self) -> Iterator[_Contact]:
        """Visit the contacts in order, in loops over neighbors with equally long supports."""
        m, supports, begin = self.m, self.of.supports, 0
        start, changed = self.of.rows, self.of.D
        while begin < len(supports):
            length, end = len(supports[begin]), begin + 1
            while end < len(supports) and len(supports[end]) == length:
                end += 1
            table = m.table([column for support in supports[begin:end] for column in support])
            for number in m.loop(0, end - begin):
                first = number * (len(ROWS) * length) + start
                columns = [m.lookup(table, number * length + i) for i in range(length)]
                different = number * (3 * length) + changed
                yield _Contact(number + begin, first, different, length, columns)
            start += len(ROWS) * length * (end - begin)
            changed += 3 * length * (end - begin)
            begin = end

    def _ranges(self) -> Iterator[tuple[Index, int]]:
        """Visit the ranges of variables between blocks: first variable, and number of variables."""
        found, place = [], 0
        for start, count in (*self.of.blocks, (self.n, 0)):
            if start > place:
                found.append((place, start - place))
            place = start + count
        for begin, count, _ in self._alike(found):
            yield begin, count

    def _blocks(self, *names: str) -> Iterator[tuple[Index, int, list[Index]]]:
        """Visit the blocks: first variable, size, and the places of some matrices of each."""
        for begin, count, before in self._alike(self.of.blocks):
            place = before * len(BLOCKS) + self.of.own
            yield begin, count, [place + BLOCKS.index(name) * (count * count) for name in names]

    def _alike(self, parts: Sequence[tuple[int, int]]) -> Iterator[tuple[Index, int, Index]]:
        """Visit parts of the variables, in loops over neighbors of equal size.

        Yields the first variable of each, its size, and the sum of squares of the sizes before it.
        """
        m, before = self.m, 0
        for count, group in itertools.groupby(parts, key=lambda part: part[1]):
            starts = [start for start, _ in group]
            if len(starts) == 1:
                yield starts[0], count, before
            else:
                table = m.table(starts)
                for number in m.loop(0, len(starts)):
                    yield m.lookup(table, number), count, number * (count * count) + before
            before += len(starts) * count * count

    # rows of directions

    def _spread(
        self,
        entry: Callable[[Index], Number],
        found: Memory,
        to: Index,
        *,
        middle: bool = False,
        start: Callable[[Index], Number] | None = None,
    ) -> None:
        """Write a row of n entries times da, in the directions of position and velocity.

        Args:
            entry: Returns an element of the row.
            found: Rows of directions.
            to: Number of the row.
            middle: Whether to take dm instead of da.
            start: Returns for each direction what to add to; nothing by default.
        """
        m, n, first = self.m, self.n, to * self.width
        h = m.mul(self.half, self.h) if middle else self.h
        for begin, count in self._ranges():
            for j in m.loop(begin, begin + count, independent=True):
                x = entry(j)
                if start is None:
                    q, v = x, m.mul(h, x)
                else:
                    q, v = m.add(x, start(j)), m.add_product(h, x, start(j + n))
                m.store(found, first + j, q)
                m.store(found, first + n + j, v)
        names = ("Mm", "Cm") if middle else ("Ma", "Ca")
        for begin, count, places in self._blocks(*names):
            entries = [entry(begin + k) for k in range(count)]
            for shift, place in zip((0, n), places, strict=True):
                for j in m.loop(0, count, independent=True):
                    total = self.zero if start is None else start(j + (begin + shift))
                    for k in range(count):
                        other = m.load(self.given, j + (place + k * count))
                        total = m.add_product(entries[k], other, total)
                    m.store(found, first + (begin + shift) + j, total)

    def _clear(self, memory: Memory, first: Index, last: Index) -> None:
        for i in self.m.loop(first, last, independent=True):
            self.m.store(memory, i, self.zero)

    def _spread_support(
        self,
        contact: _Contact,
        entry: Callable[[int], Number],
        found: Memory,
        to: Index,
        dense: Callable[[Index], Number] | None = None,
    ) -> None:
        """Write a row over the support of a contact, and one of n entries, times da."""
        m, first = self.m, to * self.width
        for j in m.loop(0, self.n, independent=True):
            m.store(self._row, j, self.zero if dense is None else dense(j))
        for i, column in enumerate(contact.columns):
            m.store(self._row, column, m.add(m.load(self._row, column), entry(i)))
        self._spread(lambda j: m.load(self._row, j), found, to)
        self._clear(found, first + 2 * self.n, first + self.width)

    def _add_support(
        self, contact: _Contact, name: str, factor: Number, found: Memory, to: Index, shift: int
    ) -> None:
        """Add one of the rows of a contact times a factor, from a direction on."""
        m = self.m
        for i, column in enumerate(contact.columns):
            place = to * self.width + shift + column
            entry = m.load(self.given, contact.place(name, i))
            m.store(found, place, m.add_product(factor, entry, m.load(found, place)))

    def _pairs(self, rows: int) -> Iterator[list[Index]]:
        """Yield the numbers of rows, two at a time."""
        for i in self.m.loop(0, rows // 2):
            yield [i * 2, i * 2 + 1]
        if rows % 2:
            yield [rows - 1]

    def _parts(self, inner: int) -> Iterator[list[Index]]:
        """Yield the numbers of terms, `UNROLLED` at a time; a loop has all but the first ones."""
        whole = inner // UNROLLED
        if whole:
            yield list(range(UNROLLED))
        for part in self.m.loop(1, whole):
            yield [part * UNROLLED + k for k in range(UNROLLED)]
        if inner % UNROLLED:
            yield list(range(whole * UNROLLED, inner))

    def _multiply(
        self,
        left: Callable[[Index, Index], Number],
        right: Memory,
        found: Memory,
        rows: int,
        inner: int,
        *,
        start: Memory | None = None,
    ) -> None:
        """Write a matrix times rows of directions, added to `start`; to `found` with found."""
        m, width = self.m, self.width
        for number, terms in enumerate(self._parts(inner)):
            before = found if number else start
            for pair in self._pairs(rows):
                entries = [[left(i, k) for k in terms] for i in pair]
                for x in m.loop(0, width, independent=True):
                    totals = [
                        self.zero if before is None else m.load(before, i * width + x) for i in pair
                    ]
                    for place, k in enumerate(terms):
                        other = m.load(right, x + k * width)
                        totals = [
                            m.add_product(row[place], other, total)
                            for row, total in zip(entries, totals, strict=True)
                        ]
                    for i, total in zip(pair, totals, strict=True):
                        m.store(found, i * width + x, total)

    # the step

    def move_freely(self) -> None:
        """Write dv_f - E da."""
        m, n, width, free = self.m, self.n, self.width, self.free
        one, minus = self.one, m.constant(-1.0)
        for begin, count in self._ranges():
            for i in m.loop(begin, begin + count):
                self._accelerate(i, free, i, self.h)
        for begin, count, (U,) in self._blocks("U"):
            vd = m.memory(count * width)
            for i in m.loop(0, count):
                self._accelerate(i + begin, vd, i, one)
            for pair in self._pairs(count):
                for x, totals in self._block_rows(((U, vd, 0),), pair, count, 0, width):
                    for i, total in zip(pair, totals, strict=True):
                        m.store(free, (i + begin) * width + x, total)
        for i in m.loop(0, n):
            self._spread(
                lambda j, i=i: m.mul(minus, self._E(i, j)),  # type: ignore[misc]
                free,
                i,
                start=lambda x, i=i: m.load(free, i * width + x),  # type: ignore[misc]
            )
        self._add_identity("V", free, n)

    def _accelerate(self, i: Index, found: Memory, to: Index, scale: Number) -> None:
        """Write a row of dvd times a factor."""
        m, of, n, first = self.m, self.of, self.n, to * self.width
        square, zero = n * n, self.zero

        def slope(part: int, j: Index) -> Number:
            return m.mul(scale, m.load(self.given, i * n + j + (part * square + of.slopes)))

        for j in m.loop(0, n, independent=True):
            m.store(found, first + j, zero)
            m.store(found, first + n + j, slope(1, j))
            m.store(found, first + 2 * n + j, slope(2, j))
        for j in range(3 * n, self.width):
            m.store(found, first + j, zero)
        self._spread(
            lambda j: slope(0, j), found, to, middle=True, start=lambda x: m.load(found, first + x)
        )

    def _block_rows(
        self,
        parts: Sequence[tuple[Index, Memory, Index]],
        rows: Sequence[Index],
        count: int,
        start: Index,
        stop: Index,
    ) -> Iterator[tuple[Index, list[Number]]]:
        """Yield directions, and there some rows of blocks times rows of directions.

        Args:
            parts: Place of each block among the arguments; what it multiplies, and from which row.
            rows: Numbers of the rows of the blocks.
            count: Their size.
            start: First direction.
            stop: The one after the last.
        """
        m, width = self.m, self.width
        entries = [
            [[m.load(self.given, i * count + (place + k)) for k in range(count)] for i in rows]
            for place, _, _ in parts
        ]
        for x in m.loop(start, stop, independent=True):
            totals = [self.zero for _ in rows]
            for own, (_, right, begin) in zip(entries, parts, strict=True):
                for k in range(count):
                    other = m.load(right, x + (begin + k) * width)
                    totals = [
                        m.add_product(row[k], other, total)
                        for row, total in zip(own, totals, strict=True)
                    ]
            yield x, totals

    def _add_identity(self, name: str, found: Memory, shift: int) -> None:
        """Add a block diagonal matrix, 1 between blocks, from a direction on."""
        m, width = self.m, self.width
        for begin, count in self._ranges():
            for i in m.loop(begin, begin + count):
                place = i * width + shift + i
                m.store(found, place, m.add(self.one, m.load(found, place)))
        for begin, count, (block,) in self._blocks(name):
            for i in m.loop(0, count):
                for k in m.loop(0, count, independent=True):
                    place = (i + begin) * width + (begin + shift) + k
                    entry = m.load(self.given, i * count + k + block)
                    m.store(found, place, m.add(entry, m.load(found, place)))

    def pose(self) -> None:
        """Write r, and the gaps of contacts."""
        m, n, width = self.m, self.n, self.width
        given, over_h = self.given, m.div(self.one, self.h)

        def row(contact: _Contact, name: str) -> Callable[[int], Number]:
            return lambda i: m.load(given, contact.place(name, i))

        for contact in self._contacts():
            k = contact.k
            first = k * 3
            for axis, name in enumerate(("T_1", "T_2")):
                self._spread_support(contact, row(contact, name), self.right, first + axis)
            normal, after, begun, mean = (
                row(contact, name) for name in ("J_n", "N_after", "N_start", "N_mean")
            )
            by_gap, by_begun = self._slope(1)(k), self._slope(2)(k)

            def bound(
                i: int,
                normal: Callable[[int], Number] = normal,
                after: Callable[[int], Number] = after,
                begun: Callable[[int], Number] = begun,
                by_gap: Number = by_gap,
                by_begun: Number = by_begun,
            ) -> Number:
                return m.add_product(by_begun, begun(i), m.add_product(by_gap, normal(i), after(i)))

            self._spread_support(contact, bound, self.right, first + 2)
            self._add_support(contact, "J_0", self._slope(0)(k), self.right, first + 2, 0)
            self._add_support(contact, "J_n", by_begun, self.right, first + 2, n)

            def gap(
                i: int,
                normal: Callable[[int], Number] = normal,
                begun: Callable[[int], Number] = begun,
                mean: Callable[[int], Number] = mean,
            ) -> Number:
                apart = m.sub_product(self.one, begun(i), mean(i))
                return m.add_product(over_h, normal(i), apart)

            self._spread_support(contact, gap, self.gaps, k)
            self._add_support(contact, "J_n", m.constant(-1.0), self.gaps, k, n)
            # J (dv_f - E da)
            entries = [[row(contact, name)(i) for i in range(contact.length)] for name in ROWS[:3]]
            self._see(contact, entries)
            for i in m.loop(0, 3 * self.c, independent=True):
                total = self.zero
                for entry, column in zip(entries[2], contact.columns, strict=True):
                    total = m.add_product(entry, self._G(column, i), total)
                m.store(self.JG, k * (3 * self.c) + i, total)
        for part in self.closing:
            self._clear(part, 0, self.c * width)
        for _ in self._some(self.times):
            self._pose_closing()

    def _see(self, contact: _Contact, entries: Sequence[Sequence[Number]]) -> None:
        """Add J (dv_f - E da) of a contact to r; keep its normal part."""
        m, width = self.m, self.width
        rows = [column * width for column in contact.columns]
        for x in m.loop(0, width, independent=True):
            totals = [self.zero] * 3
            for i, place in enumerate(rows):
                other = m.load(self.free, place + x)
                totals = [
                    m.add_product(entries[axis][i], other, total)
                    for axis, total in enumerate(totals)
                ]
            for axis, total in enumerate(totals):
                place = (contact.k * 3 + axis) * width + x
                m.store(self.right, place, m.add(total, m.load(self.right, place)))
            m.store(self.normal, contact.k * width + x, totals[2])

    def _pose_closing(self) -> None:
        """Write the changes of approach and share of each contact."""
        m, n, width, given = self.m, self.n, self.width, self.given
        dense = m.memory(n)
        for contact in self._contacts():
            k = contact.k
            normal = [m.load(given, contact.place("J_n", i)) for i in range(contact.length)]
            for j in m.loop(0, n, independent=True):
                total = self.zero
                for entry, column in zip(normal, contact.columns, strict=True):
                    total = m.add_product(entry, self._E(column, j), total)
                m.store(dense, j, total)
            for which, found in enumerate(self.closing, start=1):
                by_start, by_gap, by_begun, by_end = (
                    self._slope(4 * which + part)(k) for part in range(4)
                )

                def entry(
                    i: int,
                    contact: _Contact = contact,
                    slopes: tuple[Number, ...] = (by_gap, by_begun, by_end),
                ) -> Number:
                    total = self.zero
                    for slope, name in zip(slopes, ("J_n", "N_start", "N_before"), strict=True):
                        total = m.add_product(slope, m.load(given, contact.place(name, i)), total)
                    return total

                self._spread_support(
                    contact,
                    entry,
                    found,
                    k,
                    lambda j, by_end=by_end: m.mul(by_end, m.load(dense, j)),  # type: ignore[misc]
                )
                self._add_support(contact, "J_0", by_start, found, k, 0)
                self._add_support(contact, "J_n", by_begun, found, k, n)
                for x in m.loop(0, width, independent=True):
                    place = k * width + x
                    total = m.add_product(by_end, m.load(self.normal, place), m.load(found, place))
                    m.store(found, place, total)

    def solve(self) -> None:
        """Write the impulses, with those of restitution."""
        m, of, c, width = self.m, self.of, self.c, self.width
        count, own = of.response.argument_count, of.solution_count
        problem, P = m.memory(count), m.memory(of.response.result_count)
        least = m.memory(c * width)
        self._clear(self.returned, 0, c * width)
        for i in m.loop(0, count - own, independent=True):
            m.store(problem, i, m.load(self.given, i + of.problem))
        # the compression, where restitution returns something; then the final impulses
        for turn in m.loop(0, 2):
            final, shift = m.number(turn), of.problem + count - own - of.first
            wanted = m.add(final, m.load(self.returns, 0))
            for _ in m.iterate(1, lambda wanted=wanted: m.less(self.zero, wanted)):  # type: ignore[misc]
                for i in m.loop(0, own, independent=True):
                    place = i + of.first + turn * shift
                    m.store(problem, i + (count - own), m.load(self.given, place))
                of.response.write(m, problem, P)
                for _ in m.iterate(1, lambda final=final: m.less(final, self.half)):  # type: ignore[misc]
                    self._return(P, least)
        self._multiply(lambda i, k: m.load(P, i * (3 * c) + k), self.right, self.p, 3 * c, 3 * c)
        for _ in self._some(self.returns):
            self._multiply(
                lambda i, k: m.load(P, i * c + k + 9 * c * c), least, self.p, 3 * c, c, start=self.p
            )

    def _return(self, P: Memory, least: Memory) -> None:
        """Write the changes of what restitution returns, and of least impulses."""
        m, c, width = self.m, self.c, self.width
        # rows that are written later on
        right, normal = self.timed, self.p
        self._compress(right)
        for i in m.loop(0, 3 * c * width, independent=True):
            m.store(right, i, m.add(m.load(right, i), m.load(self.right, i)))
        self._multiply(lambda i, k: m.load(P, (i * 3 + 2) * (3 * c) + k), right, normal, c, 3 * c)
        for k in m.loop(0, c):
            by_approach = self._share("returned_by_approach")(k)
            by_impulse = self._share("returned_by_impulse")(k)
            flag = self._share("has_least")(k)
            for x in m.loop(0, width, independent=True):
                place = k * width + x
                total = m.mul(by_approach, m.load(self.closing[0], place))
                total = m.add_product(by_impulse, m.load(normal, place), total)
                m.store(self.returned, place, total)
                m.store(least, place, m.mul(flag, total))

    def _compress(self, right: Memory) -> None:
        """Write by how much r of the compression differs."""
        m, of, n, given = self.m, self.of, self.n, self.given
        dense = m.memory(n)
        for contact in self._contacts():
            for axis in range(3):
                entries = [
                    m.load(given, contact.place(ROWS[axis], i)) for i in range(contact.length)
                ]
                for j in m.loop(0, n, independent=True):
                    total = self.zero
                    for entry, column in zip(entries, contact.columns, strict=True):
                        other = m.load(given, column * n + j + of.first_E)
                        total = m.add_product(entry, self._E(column, j), total)
                        total = m.sub_product(entry, other, total)
                    m.store(dense, j, total)

                def different(i: int, contact: _Contact = contact, axis: int = axis) -> Number:
                    return m.load(given, contact.different + (axis * contact.length + i))

                self._spread_support(
                    contact, different, right, contact.k * 3 + axis, lambda j: m.load(dense, j)
                )

    def time(self) -> None:
        """Write impulses times the shares of the step over which they last."""
        m, width = self.m, self.width
        for k in m.loop(0, self.c):
            lasting, share, sudden, of_approach, of_returned, of_impulse = (
                self._share(name)(k) for name in SHARES[:6]
            )
            half_share = m.mul(self.half, share)
            of_share = m.add_product(self.half, sudden, self.half)
            impulse = [m.load(self.given, k * 3 + (axis + self.of.p)) for axis in range(3)]
            for x in m.loop(0, width, independent=True):
                place = k * width + x
                p = [m.load(self.p, (k * 3 + axis) * width + x) for axis in range(3)]
                change = m.mul(of_impulse, p[2])
                change = m.add_product(of_returned, m.load(self.returned, place), change)
                change = m.add_product(of_approach, m.load(self.closing[0], place), change)
                longer = m.mul(of_share, m.load(self.closing[1], place))
                longer = m.add_product(half_share, change, longer)
                for axis in range(3):
                    total = m.add_product(impulse[axis], longer, m.mul(lasting, p[axis]))
                    m.store(self.timed, (k * 3 + axis) * width + x, total)

    def close_gaps(self) -> None:
        """Write mean velocities without impulses, and add impulses that keep gaps closed."""
        m, n, c, width = self.m, self.n, self.c, self.width
        # (dv + dv_f) / 2 - E_s da
        for i in m.loop(0, n):
            first = i * width

            def halved(x: Index, first: Index = first) -> Number:
                return m.mul(self.half, m.load(self.free, first + x))

            self._spread(
                lambda j, i=i: m.sub_product(  # type: ignore[misc]
                    self.one, self._Es(i, j), m.mul(self.half, self._E(i, j))
                ),
                self.mean,
                i,
                start=halved,
            )
            for x in m.loop(2 * n, width, independent=True):
                m.store(self.mean, first + x, halved(x))
            place = first + n + i
            m.store(self.mean, place, m.add(self.half, m.load(self.mean, place)))
        left = m.memory(c * width)
        for contact in self._contacts():
            k = contact.k
            rows = [column * width for column in contact.columns]
            entries = [m.load(self.given, contact.place("J_n", i)) for i in range(contact.length)]
            for x in m.loop(0, width, independent=True):
                total = m.load(self.gaps, k * width + x)
                for entry, place in zip(entries, rows, strict=True):
                    total = m.add_product(entry, m.load(self.mean, place + x), total)
                m.store(left, k * width + x, total)
        self._multiply(
            lambda i, k: m.load(self.JG, i * (3 * c) + k), self.timed, left, c, 3 * c, start=left
        )
        R = self._closed_gaps()
        for k in m.loop(0, c):
            for terms in self._parts(c):
                entries = [m.load(R, k * c + i) for i in terms]
                for x in m.loop(0, width, independent=True):
                    place = (k * 3 + 2) * width + x
                    total = m.load(self.timed, place)
                    for entry, i in zip(entries, terms, strict=True):
                        total = m.add_product(entry, m.load(left, x + i * width), total)
                    m.store(self.timed, place, total)

    def _closed_gaps(self) -> Memory:
        """Return R: minus the inverse of J_n G_n among contacts that are closed, c x c."""
        m, c = self.m, self.c
        matrix, flags, R = m.memory(c * c), m.memory(c), m.memory(c * c)
        for k in m.loop(0, c):
            m.store(flags, k, self._share("is_closed")(k))
            for i in m.loop(0, c):
                m.store(matrix, k * c + i, m.load(self.JG, k * (3 * c) + i * 3 + 2))
        write_negative_inverse(m, matrix, flags, R, c)
        return R

    def finish(self, found: Memory) -> None:
        """Add G times impulses to velocities and mean velocities, and write the results."""
        m, n = self.m, self.n
        last = (3 * self.c - 1) // UNROLLED * UNROLLED
        for terms in self._parts(last):
            self._push(terms, 0, n, None)
        rest: list[Index] = list(range(last, 3 * self.c))
        # rows between blocks are results as they are
        for begin, count in self._ranges():
            self._push(rest, begin, count, found)
        for begin, count, (C, Om, Op) in self._blocks("C", "Om", "Op"):
            self._push(rest, begin, count, None)
            ends = (((C, self.mean, begin),), ((Om, self.mean, begin), (Op, self.free, begin)))
            for row, sides in zip((begin, begin + n), ends, strict=True):
                self._end_block(sides, count, row, found)
        for begin, count in self._ranges():
            for i in m.loop(begin, begin + count):
                place = i * (2 * n) + i
                m.store(found, place, m.add(self.one, m.load(found, place)))
        for row, column, name in ((0, 0, "M"), (n, n, "Ov")):
            for begin, count, (block,) in self._blocks(name):
                for i in m.loop(0, count):
                    for k in m.loop(0, count, independent=True):
                        place = (i + (begin + row)) * (2 * n) + (begin + column) + k
                        entry = m.load(self.given, i * count + k + block)
                        m.store(found, place, m.add(entry, m.load(found, place)))

    def _push(self, terms: Sequence[Index], begin: Index, count: int, found: Memory | None) -> None:
        """Add G times impulses to some rows of dv+ and dmean; write those of simple joints."""
        m, width, n = self.m, self.width, self.n
        if found is None:
            for pair in self._pairs(count):
                rows = [i + begin for i in pair]
                for x, totals in self._pushed(terms, rows, 0, width):
                    for number, total in enumerate(totals):
                        part = self.mean if number % 2 else self.free
                        m.store(part, rows[number // 2] * width + x, total)
            return
        # a third of the directions at a time: their impulses stay close to the processor
        for first, thirds, place, stride in ((0, 2, 0, 2 * n), (2 * n, 1, 4 * n * n, n)):
            for third in m.loop(0, thirds):
                start = third * n
                for pair in self._pairs(count):
                    rows = [i + begin for i in pair]
                    for x, totals in self._pushed(terms, rows, start + first, start + (first + n)):
                        to = x + (place - first)
                        for number, total in enumerate(totals):
                            i = rows[number // 2]
                            if number % 2:
                                m.store(found, i * stride + to, m.mul(self.h, total))
                            else:
                                m.store(found, (i + n) * stride + to, total)

    def _pushed(
        self, terms: Sequence[Index], rows: Sequence[Index], start: Index, stop: Index
    ) -> Iterator[tuple[Index, list[Number]]]:
        """Yield directions, and there each row of dv+ and of dmean with G times impulses added."""
        m, width = self.m, self.width
        entries = [[self._G(i, k) for k in terms] for i in rows]
        for x in m.loop(start, stop, independent=True):
            totals = [m.load(part, i * width + x) for i in rows for part in (self.free, self.mean)]
            for at, k in enumerate(terms):
                others = [m.load(part, x + k * width) for part in (self.p, self.timed)]
                totals = [
                    m.add_product(entries[number // 2][at], others[number % 2], total)
                    for number, total in enumerate(totals)
                ]
            yield x, totals

    def _sides(self) -> tuple[tuple[int, int, int, int], ...]:
        """Return range of directions, place in the results and length of rows of both matrices."""
        n = self.n
        return (0, 2 * n, 0, 2 * n), (2 * n, 3 * n, 4 * n * n, n)

    def _end_block(
        self, parts: Sequence[tuple[Index, Memory, Index]], count: int, first: Index, found: Memory
    ) -> None:
        """Write the rows of a block of the results, from a row on."""
        for start, stop, place, stride in self._sides():
            for pair in self._pairs(count):
                for x, totals in self._block_rows(parts, pair, count, start, stop):
                    for i, total in zip(pair, totals, strict=True):
                        self.m.store(found, (i + first) * stride + x + (place - start), total)
