"""The chain rule over a step with rigid contact, as loops over matrices.

Symbols, as in `tiburon.contact.rigid`:
    n, c        velocity variables, contact points
    x           initial position (as a step), initial velocity, joint force: 3 n directions
    m, a        positions in the middle and at the end of a step of constant velocity
    v_f         velocity at a without impulses; J rows of the contacts at a, J_0 normal rows at the
                start
    H, A        mass matrix at a, H = L^T D L; A = J L^-1 D^-1/2, with the zeros of J and of its
                ancestors
    w           J^T p turned into velocity: H w = J^T p; F = d(H w - J^T p)/da at constant w and p,
                X = D^-1/2 L^-T F
    s           the same for the impulses that act on the mean velocity of the step, with those that
                close gaps: F_s, X_s
    T, N        change of J x with a, tangential rows for the velocity after impulses; normal rows
                for the velocities after impulses, before, at the start, and the mean one; M
                tangential rows for that of the problem of moments
    S           derivatives of bound, approach and share of each contact by the gap at the start,
                the gap at a, and the normal velocities at a at the start and at the end
    P, Q        derivatives of impulses by velocities, by least impulses
    R           minus the inverse of A_n A_n^T, for contacts that are held: impulses that close gaps

Directions are the columns of all matrices below:

    da = M_a dq + C_a dv            dm = M_m dq + C_m dv
    dvd = A dm + B dv + T dtau      dv_f = V dv + U dvd
    r = d(J v_f, its normal part replaced by the bound) + (dJ w - A X) da
    dp = P r + Q dp_0               dv+ = dv_f + L^-1 D^-1/2 (A^T dp - X da)
    d(timed) = lasting dp + p d(lasting); where contacts land, they are the impulses of a
               problem of their own: P_m r_m + Q_m d(timed impulses of what lands)
    dmean = (dv + dv_f) / 2 + L^-1 D^-1/2 (A^T (d(timed) + d(lambda)) - X_s da)
    dq+ = M dq + C dmean            dv_end = O_v dv + O_m dmean + O_p dv+

In the metric of H impulses act through the rows of A, which have few elements: neither H^-1 nor
H^-1 J^T, which are dense, are formed, and what a contact costs does not depend on how many there
are. The bound changes with the normal velocity at the end by 1 in all cases, so that r is J dv_f
and parts that depend on da. Restitution needs the normal impulses of compression, too, whose r
differs by a matrix times da.

What depends on da is spread over the directions first. The rest goes from impulses to results for a
few directions at a time, whose rows then stay close to the processor where each holds several
cases.

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
from tiburon.trace.primitives.friction_derivative import (
    LANES,
    FrictionResponse,
    write_negative_inverse,
)
from tiburon.trace.primitives.primitive import Index, Machine, Memory, Number, Primitive, Truth
from tiburon.trace.primitives.tree import TreeLayout, substitute_inward, substitute_outward

__all__ = ["BLOCKS", "ROWS", "SHARES", "ContactChain"]

BLOCKS = ("Mm", "Cm", "Ma", "Ca", "V", "U", "M", "C", "Ov", "Om", "Op")
"""Order of the matrices of one block among the arguments."""

ROWS = (
    *("J_1", "J_2", "J_n", "J_0", "T_1", "T_2"),
    *("N_after", "N_before", "N_start", "N_mean", "M_1", "M_2"),
)
"""Order of the rows of one contact among the arguments."""

SHARES = (
    "lasting",
    "share",
    "sudden",
    "is_closed",
    "of_approach",
    "of_returned",
    "of_impulse",
    "has_least",
    "returned_by_approach",
    "returned_by_impulse",
)
"""Values of a contact: the share of the step over which its impulse lasts, the time left, the
sudden share, whether its gap is closed; where restitution may return something, also the factors of
approach, returned impulse and normal impulse in the change of the sudden share; whether it has a
least impulse; the factors of approach and normal impulse of compression in the impulse that
restitution returns."""

WITHOUT_RETURN = 4
"""Number of `SHARES` of contacts that do not bounce."""

UNROLLED = 12
"""Terms of a product that are added before the sum is stored."""

PANEL = 6
"""Directions that are treated at a time where each number is that of several cases."""

MANY_CONTACTS, LONG_PANEL = 32, 16
"""Contacts beyond which one case has panels, too, and their directions: memory is limited."""

ONCE = "linearizations of steps with contact have no derivatives"


class ContactChain(Primitive):
    """Multiply the derivatives of all parts of a step with contact to those of the step.

    Arguments: h; A, B, T; the factor of H and D^-1/2; F and F_s at their `places`; for each contact
    its `ROWS`, each over its support; S, twelve per contact; blocks in the order of `BLOCKS`; the
    contact problem and its solution, from which P and Q follow (`FrictionResponse`); values of each
    contact: `SHARES`; whether contacts land, 1 or 0; the problem of moments and its solution: b,
    least impulses, impulses, y and alpha. Where contacts may bounce also, for the compression: by
    how much its T and N after impulses differ, three rows per contact over its support, and its F;
    its solution: least impulses, impulses, y and alpha. Results: the derivatives of the step by
    position and velocity,
    2 n rows of 2 n columns; those by force, 2 n rows of n columns.

    Attributes:
        size: Number of velocity variables, n.
        supports: For each contact the variables where its rows are not zero.
        blocks: First variable and number of variables of each joint with blocks of its own.
        places: Elements of F that are not zero, row by row.
        response: P and Q.
        bounces: Whether restitution may return something.
        compression_count: Number of arguments for how the compression differs.
    """

    def __init__(
        self,
        parents: Sequence[int],
        supports: Sequence[Sequence[int]],
        blocks: Sequence[tuple[int, int]],
        places: Sequence[int],
        response: FrictionResponse,
        *,
        bounces: bool,
    ) -> None:
        self.supports = tuple(tuple(support) for support in supports)
        self.layout, self.size = TreeLayout(parents), len(parents)
        self.contacts, self.blocks = len(self.supports), tuple(blocks)
        self.places, self.response, self.bounces = tuple(places), response, bounces
        lengths = [len(support) for support in self.supports]
        form = [*lengths, *itertools.chain(*self.supports), len(self.blocks)]
        form += [*itertools.chain(*self.blocks), response.size, *support_form(response.supports)]
        form += [int(bounces), len(self.places), *self.places, *(i + 1 for i in parents)]
        super().__init__("contact_chain", self.size, self.contacts, *form)
        n, c, count = self.size, self.contacts, len(self.places)
        own = len(BLOCKS) * sum(count * count for _, count in self.blocks)
        rows = len(ROWS) * sum(lengths)
        self.share_count = len(SHARES) if bounces else WITHOUT_RETURN
        # the matrix and mu of all contact problems of a step are the same
        self.solution_count = 5 * c + response.size
        sizes = [1, 3 * n * n, self.layout.stored, n, 2 * count, rows, 12 * c, own]
        sizes += [response.argument_count, self.share_count * c, 1 + 3 * c, self.solution_count]
        sizes += [3 * sum(lengths), count, self.solution_count] if bounces else [0, 0, 0]
        starts = (*itertools.accumulate(sizes, initial=0),)
        self.slopes, self.factor, self.roots, self.F, self.rows, self.S, self.own = starts[1:8]
        self.problem, self.shares, self.lands, self.moments = starts[8:12]
        self.D, self.first_F, self.first, self.argument_count = starts[12:16]
        self.compression_count = self.first - self.D
        self.p = self.problem + response.p
        self.result_count = 6 * n * n

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
        """Spread what depends on positions, then go from impulses to the end of the step."""
        chain = _Chain(m, given, self)
        chain.move_freely()
        chain.displace()
        chain.pose()
        chain.respond()
        chain.go_through(found)
        chain.add_identities(found)


class _Contact(NamedTuple):
    """A contact point in a loop over those with equally long supports."""

    k: Index
    """Its number."""

    first: Index
    """Place of its rows among the arguments."""

    different: Index
    """Place of what the compression changes of them."""

    metric: Index
    """Place of its rows of A."""

    length: int
    """Length of its support."""

    columns: list[Index]
    """Its support."""

    pushes: list[Index]
    """The columns of its rows of A."""

    def place(self, name: str, i: int) -> Index:
        """Return the place of an element of one of its `ROWS`."""
        return self.first + (ROWS.index(name) * self.length + i)


class _Panel(NamedTuple):
    """Some of the directions."""

    first: Index
    """The first one."""

    sides: Sequence[tuple[int, int, Index, Index]]
    """For each matrix of the results that they belong to: the first direction and the one after the
    last, counted within the panel; place of the first in row 0 of the results, and length of
    rows."""


class _Chain:
    """Rows of directions, and the steps from one to the next."""

    def __init__(self, m: Machine, given: Memory, of: ContactChain) -> None:
        self.m, self.given, self.of = m, given, of
        self.n, self.c = of.size, of.contacts
        n, c = self.n, self.c
        whole = 3 * n if m.is_wide else -(-3 * n // LANES) * LANES
        self.width = width = whole
        """Length of a row of directions."""
        self.panel = whole
        """Directions of a panel."""
        if m.is_wide or c > MANY_CONTACTS:
            self.panel = min(PANEL if m.is_wide else LONG_PANEL, n)
        self.zero, self.one, self.half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        self.h = m.load(given, 0)
        self.free = m.memory(n * width)
        """dv_f."""
        self.moved = m.memory(2 * n * width)
        """Minus X da, then minus X_s da."""
        self.right = m.memory(3 * c * width)
        """r without J dv_f."""
        self.gaps = m.memory(c * width)
        """Gaps at the end of the step without impulses and dv_f, over its length."""
        self.moments = m.memory(3 * c * width)
        """r of the problem of moments without dv_f and the changes of lasting shares."""
        self.closing = [m.memory(c * width) for _ in range(2)]
        """Changes of approach and share of each contact without J dv_f."""
        self.differs = m.memory(3 * c * width) if of.bounces else None
        """By how much r of the compression differs."""
        self.count = 3 if of.bounces else 2
        self.X = m.memory(n * self.count * n)
        """X, X_s and that of the compression beside each other."""
        self.P = m.memory(of.response.result_count)
        self.moments_P = m.memory(of.response.result_count)
        """P and Q of the problem of moments."""
        self.R = m.memory(c * c)
        self.first_P = m.memory(3 * c * c) if of.bounces else None
        """Normal rows of P of the compression."""
        self._row = m.memory(n)
        # rows of a panel
        w = self.panel
        self.r, self.normal, self.left = m.memory(3 * c * w), m.memory(c * w), m.memory(c * w)
        """r; J_n dv_f; gaps that impulses on the mean velocity leave, over h."""
        self.p = m.memory(3 * c * 2 * w)
        """dp, and beside it the impulses on the mean velocity."""
        self.pushed = m.memory(n * 2 * w)
        """Both as changes of velocity; dv+ and dmean in the end."""
        self.returned, self.least = m.memory(c * w), m.memory(c * w)
        """What restitution returns, unused without; least impulses, then least moments."""
        self.longer = m.memory(c * w)
        """Changes of lasting shares."""

    # arguments

    def _slope(self, part: int) -> Callable[[Index], Number]:
        """Return a function of a contact: one of its twelve elements of S."""
        return lambda k: self.m.load(self.given, k * 12 + (part + self.of.S))

    def _share(self, name: str) -> Callable[[Index], Number]:
        """Return a function of a contact: one of its `SHARES`."""
        place = SHARES.index(name) + self.of.shares
        return lambda k: self.m.load(self.given, k * self.of.share_count + place)

    def _contacts(self) -> Iterator[_Contact]:
        """Visit the contacts in order, in loops over neighbors with equally long supports."""
        m, supports, pushes, begin = self.m, self.of.supports, self.of.response.supports, 0
        start, changed, metric = self.of.rows, self.of.D, self.of.problem
        while begin < len(supports):
            length, wide, end = len(supports[begin]), len(pushes[begin]), begin + 1
            while end < len(supports) and (len(supports[end]), len(pushes[end])) == (length, wide):
                end += 1
            table = m.table([column for support in supports[begin:end] for column in support])
            other = m.table([column for support in pushes[begin:end] for column in support])
            for number in m.loop(0, end - begin):
                yield _Contact(
                    number + begin,
                    number * (len(ROWS) * length) + start,
                    number * (3 * length) + changed,
                    number * (3 * wide) + metric,
                    length,
                    [m.lookup(table, number * length + i) for i in range(length)],
                    [m.lookup(other, number * wide + i) for i in range(wide)],
                )
            start += len(ROWS) * length * (end - begin)
            changed += 3 * length * (end - begin)
            metric += 3 * wide * (end - begin)
            begin = end

    def _rows_of_A(self, contact: _Contact, axes: Sequence[int]) -> list[list[Number]]:
        """Return some of the three rows of A of a contact."""
        wide = len(contact.pushes)
        return [
            [self.m.load(self.given, contact.metric + (axis * wide + i)) for i in range(wide)]
            for axis in axes
        ]

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

    # rows of all directions

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

    def _spread_alone(self, entry: Callable[[Index], Number], found: Memory, to: Index) -> None:
        """Write a row of n entries times da, zero in the directions of force."""
        self._spread(entry, found, to)
        first = to * self.width
        self._clear(found, first + 2 * self.n, first + self.width)

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
        m = self.m
        for j in m.loop(0, self.n, independent=True):
            m.store(self._row, j, self.zero if dense is None else dense(j))
        for i, column in enumerate(contact.columns):
            m.store(self._row, column, m.add(m.load(self._row, column), entry(i)))
        self._spread_alone(lambda j: m.load(self._row, j), found, to)

    def _add_support(
        self, contact: _Contact, name: str, factor: Number, found: Memory, to: Index, shift: int
    ) -> None:
        """Add one of the rows of a contact times a factor, from a direction on."""
        m = self.m
        for i, column in enumerate(contact.columns):
            place = to * self.width + shift + column
            entry = m.load(self.given, contact.place(name, i))
            m.store(found, place, m.add_product(factor, entry, m.load(found, place)))

    def move_freely(self) -> None:
        """Write dv_f."""
        m, width, free = self.m, self.width, self.free
        for begin, count in self._ranges():
            for i in m.loop(begin, begin + count):
                self._accelerate(i, free, i, self.h)
        for begin, count, (U,) in self._blocks("U"):
            vd = m.memory(count * width)
            for i in m.loop(0, count):
                self._accelerate(i + begin, vd, i, self.one)
            for pair in self._pairs(count):
                for x, totals in self._block_rows(((U, vd, 0, width),), pair, count, 0, width):
                    for i, total in zip(pair, totals, strict=True):
                        m.store(free, (i + begin) * width + x, total)
        self._add_diagonal("V", self.one, free, self.n, width)

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

    def displace(self) -> None:
        """Write X, X_s and that of the compression, and minus the first two times da."""
        m, of, n, X = self.m, self.of, self.n, self.X
        wide, count = self.count * n, len(of.places)
        self._clear(X, 0, n * wide)
        table = m.table([(i // n) * wide + i % n for i in of.places])
        starts = (of.F, of.F + count, of.first_F)[: self.count]
        for place in m.loop(0, count):
            to = m.lookup(table, place)
            for k, start in enumerate(starts):
                m.store(X, to + k * n, m.load(self.given, place + start))
        substitute_inward(m, of.layout, (self.given, of.factor), (X, 0), (X, 0), wide)
        minus = m.constant(-1.0)
        for i in m.loop(0, n):
            root = m.load(self.given, i + of.roots)
            for j in m.loop(0, wide, independent=True):
                m.store(X, i * wide + j, m.mul(root, m.load(X, i * wide + j)))
            for k in range(2):
                self._spread_alone(
                    lambda j, i=i, k=k: m.mul(minus, m.load(X, i * wide + j + k * n)),  # type: ignore[misc]
                    self.moved,
                    i + k * n,
                )

    def pose(self) -> None:
        """Write what r, gaps, approach and share have besides J dv_f."""
        m, c = self.m, self.c
        seen = m.memory((9 if self.of.bounces else 6) * self.n)
        lands = self._sum_of_squares([self._slope(part) for part in range(4, 12)])
        for part in self.closing:
            self._clear(part, 0, c * self.width)
        for contact in self._contacts():
            self._see_positions(contact, seen)
            self._pose_contact(contact, seen)
            for _ in m.iterate(1, lambda: m.less(self.zero, m.load(lands, 0))):
                self._pose_closing(contact)
            for _ in m.iterate(1, self._lands):
                self._pose_moments(contact, seen)
            if self.differs is not None:
                self._compress(contact, seen)

    def _row_of(self, contact: _Contact, name: str) -> Callable[[int], Number]:
        """Return a function of places in the support of a contact: an element of one of `ROWS`."""
        return lambda i: self.m.load(self.given, contact.place(name, i))

    def _pose_contact(self, contact: _Contact, seen: Memory) -> None:
        """Write what r and the gap of a contact have besides J dv_f."""
        m, n, k = self.m, self.n, contact.k
        over_h, minus = m.div(self.one, self.h), m.constant(-1.0)

        def along(axis: int) -> Callable[[Index], Number]:
            """Return minus a row of A times X."""
            return lambda j: m.mul(minus, m.load(seen, j + axis * n))

        for axis, name in enumerate(("T_1", "T_2")):
            self._spread_support(
                contact, self._row_of(contact, name), self.right, k * 3 + axis, along(axis)
            )
        normal, after, begun, mean = (
            self._row_of(contact, name) for name in ("J_n", "N_after", "N_start", "N_mean")
        )
        by_gap, by_begun = self._slope(1)(k), self._slope(2)(k)

        def bound(i: int) -> Number:
            return m.add_product(by_begun, begun(i), m.add_product(by_gap, normal(i), after(i)))

        self._spread_support(contact, bound, self.right, k * 3 + 2, along(2))
        self._add_support(contact, "J_0", self._slope(0)(k), self.right, k * 3 + 2, 0)
        self._add_support(contact, "J_n", by_begun, self.right, k * 3 + 2, n)

        def gap(i: int) -> Number:
            return m.add_product(over_h, normal(i), m.sub_product(self.one, begun(i), mean(i)))

        self._spread_support(contact, gap, self.gaps, k)
        # velocities at the start, of which the mean one has a half
        self._add_support(contact, "J_n", m.constant(-0.5), self.gaps, k, n)

    def _lands(self) -> Truth:
        """Return whether contacts land."""
        return self.m.less(self.half, self.m.load(self.given, self.of.lands))

    def _pose_moments(self, contact: _Contact, seen: Memory) -> None:
        """Write what r of the problem of moments has besides dv_f and lasting shares."""
        m, n, k, minus = self.m, self.n, contact.k, self.m.constant(-1.0)

        def along(axis: int) -> Callable[[Index], Number]:
            """Return minus a row of A times X_s."""
            return lambda j: m.mul(minus, m.load(seen, j + (axis + 3) * n))

        for axis, name in enumerate(("M_1", "M_2")):
            self._spread_support(
                contact, self._row_of(contact, name), self.moments, k * 3 + axis, along(axis)
            )
        self._spread_alone(along(2), self.moments, k * 3 + 2)

    def _see_positions(self, contact: _Contact, seen: Memory) -> None:
        """Write the rows of A times X, X_s and that of the compression."""
        m, n, wide = self.m, self.n, self.count * self.n
        entries = self._rows_of_A(contact, range(3))
        for j in m.loop(0, n, independent=True):
            for part in range(self.count):
                totals = [self.zero] * 3
                for i, column in enumerate(contact.pushes):
                    other = m.load(self.X, column * wide + j + part * n)
                    totals = [
                        m.add_product(entries[axis][i], other, total)
                        for axis, total in enumerate(totals)
                    ]
                for axis, total in enumerate(totals):
                    m.store(seen, j + (3 * part + axis) * n, total)

    def _sum_of_squares(self, values: Sequence[Callable[[Index], Number]]) -> Memory:
        """Return the sum over all contacts."""
        m, found = self.m, self.m.memory(1)
        m.store(found, 0, self.zero)
        for k in m.loop(0, self.c):
            for value in values:
                x = value(k)
                m.store(found, 0, m.add_product(x, x, m.load(found, 0)))
        return found

    def _pose_closing(self, contact: _Contact) -> None:
        """Write the changes of approach and share of a contact besides J dv_f."""
        m, k = self.m, contact.k
        for which, found in enumerate(self.closing, start=1):
            by_start, *slopes = (self._slope(4 * which + part)(k) for part in range(4))
            rows = [self._row_of(contact, name) for name in ("J_n", "N_start", "N_before")]

            def entry(
                i: int,
                slopes: Sequence[Number] = slopes,
                rows: Sequence[Callable[[int], Number]] = rows,
            ) -> Number:
                total = self.zero
                for slope, of in zip(slopes, rows, strict=True):
                    total = m.add_product(slope, of(i), total)
                return total

            self._spread_support(contact, entry, found, k)
            self._add_support(contact, "J_0", by_start, found, k, 0)
            self._add_support(contact, "J_n", slopes[1], found, k, self.n)

    def _compress(self, contact: _Contact, seen: Memory) -> None:
        """Write by how much r of the compression of a contact differs."""
        m, n = self.m, self.n
        for axis in range(3):
            self._spread_support(
                contact,
                lambda i, axis=axis: m.load(  # type: ignore[misc]
                    self.given, contact.different + (axis * contact.length + i)
                ),
                self.differs,
                contact.k * 3 + axis,
                lambda j, axis=axis: m.sub_product(  # type: ignore[misc]
                    self.one, m.load(seen, j + (axis + 6) * n), m.load(seen, j + axis * n)
                ),
            )

    def respond(self) -> None:
        """Write P and R."""
        m, of, c = self.m, self.of, self.c
        response, problem = of.response, self.m.memory(of.response.argument_count)
        own = of.solution_count
        b, solution = response.b, response.argument_count - own
        for i in m.loop(0, solution, independent=True):
            m.store(problem, i, m.load(self.given, i + of.problem))
        # the compression, moments, then the final impulses
        turns = [(of.problem + b, of.problem + solution), (of.lands + 1, of.moments)]
        turns = [(turns[0][0], of.first), turns[1], turns[0]] if of.bounces else turns[::-1]
        velocities, solutions = (m.table(part) for part in zip(*turns, strict=True))
        for turn in m.loop(0, len(turns)):
            timed = self._is_turn(turn, len(turns) - 2)
            wanted = m.either(
                self._lands(), m.less(m.choose(timed, self.one, self.zero), self.half)
            )
            for _ in m.iterate(1, lambda wanted=wanted: wanted):  # type: ignore[misc]
                for i in m.loop(0, 3 * c, independent=True):
                    m.store(problem, i + b, m.load(self.given, m.lookup(velocities, turn) + i))
                for i in m.loop(0, own, independent=True):
                    place = m.lookup(solutions, turn) + i
                    m.store(problem, i + solution, m.load(self.given, place))
                response.write(m, problem, self.P)
                for _ in m.iterate(1, lambda timed=timed: timed):  # type: ignore[misc]
                    for i in m.loop(0, response.result_count, independent=True):
                        m.store(self.moments_P, i, m.load(self.P, i))
                if self.first_P is None:
                    continue
                for _ in m.iterate(1, lambda turn=turn: self._is_turn(turn, 0)):  # type: ignore[misc]
                    for k in m.loop(0, c):
                        for j in m.loop(0, 3 * c, independent=True):
                            entry = m.load(self.P, (k * 3 + 2) * (3 * c) + j)
                            m.store(self.first_P, k * (3 * c) + j, entry)
        # minus the inverse of A_n A_n^T among contacts that are closed
        matrix, flags, dense = m.memory(c * c), m.memory(c), m.memory(of.size)
        for one in self._contacts():
            m.store(flags, one.k, self._share("is_closed")(one.k))
            self._clear(dense, 0, of.size)
            (entries,) = self._rows_of_A(one, (2,))
            for entry, column in zip(entries, one.pushes, strict=True):
                m.store(dense, column, entry)
            for other in self._contacts():
                total = self.zero
                (entries,) = self._rows_of_A(other, (2,))
                for entry, column in zip(entries, other.pushes, strict=True):
                    total = m.add_product(entry, m.load(dense, column), total)
                m.store(matrix, one.k * c + other.k, total)
        write_negative_inverse(m, matrix, flags, self.R, c)

    def _is_turn(self, turn: Index, number: int) -> Truth:
        """Return whether a loop is at a number."""
        m = self.m
        at = m.number(turn)
        return m.both(m.less(m.constant(number - 0.5), at), m.less(at, m.constant(number + 0.5)))

    # a panel of directions

    def _panels(self) -> Iterator[_Panel]:
        """Visit all directions, some at a time; the last of a third may include some before."""
        m, n, w = self.m, self.n, self.panel
        if w == self.width:
            yield _Panel(0, ((0, 2 * n, 0, 2 * n), (2 * n, 3 * n, 4 * n * n, n)))
            return
        starts = [min(k, n - w) for k in range(0, n, w)]
        table = m.table([third * n + start for third in range(3) for start in starts])
        to = m.table([*starts, *(n + x for x in starts), *(4 * n * n + x for x in starts)])
        lengths = m.table([2 * n] * (2 * len(starts)) + [n] * len(starts))
        for number in m.loop(0, 3 * len(starts)):
            side = (0, w, m.lookup(to, number), m.lookup(lengths, number))
            yield _Panel(m.lookup(table, number), (side,))

    def go_through(self, found: Memory) -> None:
        """Write the results, but for identities."""
        m, c, w = self.m, self.c, self.panel
        for panel in self._panels():
            self._see(panel)
            if self.of.bounces:
                self._return(panel)
            self._multiply(
                lambda i, k: m.load(self.P, i * (3 * c) + k), self.r, self.p, 3 * c, 3 * c, 2 * w
            )
            if self.of.bounces:
                self._multiply(
                    lambda i, k: m.load(self.P, i * c + k + 9 * c * c),
                    self.least,
                    self.p,
                    3 * c,
                    c,
                    2 * w,
                    more=True,
                )
            self._time(panel)
            for _ in m.iterate(1, self._lands):
                self._hold(panel)
            self._push(panel)
            self._close_gaps(panel)
            substitute_outward(
                m,
                self.of.layout,
                (self.given, self.of.factor),
                (self.pushed, 0),
                (self.pushed, 0),
                2 * w,
                lambda i: m.load(self.given, i + self.of.roots),
            )
            self._finish(panel, found)

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
        stride: int,
        *,
        more: bool = False,
    ) -> None:
        """Write a matrix times rows of a panel, as rows of some length; with `more`, add it."""
        m, w = self.m, self.panel
        for number, terms in enumerate(self._parts(inner)):
            adds = more or number > 0
            for pair in self._pairs(rows):
                entries = [[left(i, k) for k in terms] for i in pair]
                for x in m.loop(0, w, independent=True):
                    totals = [m.load(found, i * stride + x) if adds else self.zero for i in pair]
                    for place, k in enumerate(terms):
                        other = m.load(right, x + k * w)
                        totals = [
                            m.add_product(row[place], other, total)
                            for row, total in zip(entries, totals, strict=True)
                        ]
                    for i, total in zip(pair, totals, strict=True):
                        m.store(found, i * stride + x, total)

    def _see(self, panel: _Panel) -> None:
        """Write r, and J_n dv_f."""
        m, w, width = self.m, self.panel, self.width
        for contact in self._contacts():
            entries = [
                [m.load(self.given, contact.place(name, i)) for i in range(contact.length)]
                for name in ROWS[:3]
            ]
            rows = [column * width + panel.first for column in contact.columns]
            for x in m.loop(0, w, independent=True):
                totals = [self.zero] * 3
                for i, place in enumerate(rows):
                    other = m.load(self.free, place + x)
                    totals = [
                        m.add_product(entries[axis][i], other, total)
                        for axis, total in enumerate(totals)
                    ]
                for axis, total in enumerate(totals):
                    row = contact.k * 3 + axis
                    old = m.load(self.right, row * width + panel.first + x)
                    m.store(self.r, row * w + x, m.add(total, old))
                m.store(self.normal, contact.k * w + x, totals[2])

    def _closed(self, which: int, k: Index, panel: _Panel) -> Callable[[Index], Number]:
        """Return a function of directions: the change of approach (0) or share (1) of a contact."""
        m, by_end = self.m, self._slope(4 * which + 7)(k)
        first, normal = k * self.width + panel.first, k * self.panel

        def at(x: Index) -> Number:
            before = m.load(self.closing[which], first + x)
            return m.add_product(by_end, m.load(self.normal, normal + x), before)

        return at

    def _return(self, panel: _Panel) -> None:
        """Write the changes of what restitution returns, and of least impulses."""
        m, c, w, width = self.m, self.c, self.panel, self.width
        # rows that are written later on
        right, normal = self.p, self.left
        for i in m.loop(0, 3 * c):
            for x in m.loop(0, w, independent=True):
                differs = m.load(self.differs, i * width + panel.first + x)
                m.store(right, i * w + x, m.add(differs, m.load(self.r, i * w + x)))
        self._multiply(
            lambda i, k: m.load(self.first_P, i * (3 * c) + k), right, normal, c, 3 * c, w
        )
        for k in m.loop(0, c):
            flag, by_approach, by_impulse = (self._share(name)(k) for name in SHARES[7:])
            approach = self._closed(0, k, panel)
            for x in m.loop(0, w, independent=True):
                place = k * w + x
                total = m.mul(by_approach, approach(x))
                total = m.add_product(by_impulse, m.load(normal, place), total)
                m.store(self.returned, place, total)
                m.store(self.least, place, m.mul(flag, total))

    def _time(self, panel: _Panel) -> None:
        """Write impulses times the shares of the step over which they last."""
        m, w = self.m, self.panel
        for k in m.loop(0, self.c):
            lasting, share, sudden = (self._share(name)(k) for name in SHARES[:3])
            half_share = m.mul(self.half, share)
            of_share = m.add_product(self.half, sudden, self.half)
            impulse = [m.load(self.given, k * 3 + (axis + self.of.p)) for axis in range(3)]
            approach, time_left = (self._closed(which, k, panel) for which in range(2))
            parts = [self._share(name)(k) for name in SHARES[4:7]] if self.of.bounces else []
            for x in m.loop(0, w, independent=True):
                places = [(k * 3 + axis) * (2 * w) + x for axis in range(3)]
                p = [m.load(self.p, place) for place in places]
                change = approach(x)
                if parts:
                    change = m.mul(parts[0], change)
                    change = m.add_product(parts[1], m.load(self.returned, k * w + x), change)
                    change = m.add_product(parts[2], p[2], change)
                longer = m.mul(of_share, time_left(x))
                longer = m.add_product(half_share, change, longer)
                m.store(self.longer, k * w + x, longer)
                for axis, place in enumerate(places):
                    total = m.add_product(impulse[axis], longer, m.mul(lasting, p[axis]))
                    m.store(self.p, place + w, total)

    def _hold(self, panel: _Panel) -> None:
        """Let impulses that begin at different instants hold each other."""
        m, c, w, width = self.m, self.c, self.panel, self.width
        b = self.of.problem + self.of.response.b
        for k in m.loop(0, c):
            lasting = self._share("lasting")(k)
            speeds = [m.load(self.given, k * 3 + (axis + b)) for axis in range(2)]
            lands = m.less(self.zero, m.load(self.given, k + self.of.moments))
            for x in m.loop(0, w, independent=True):
                for axis in range(2):
                    row = k * 3 + axis
                    at = row * width + panel.first + x
                    free = m.sub_product(
                        self.one, m.load(self.right, at), m.load(self.r, row * w + x)
                    )
                    total = m.add_product(lasting, free, m.load(self.moments, at))
                    total = m.add_product(speeds[axis], m.load(self.longer, k * w + x), total)
                    m.store(self.r, row * w + x, total)
                at = k * width + panel.first + x
                total = m.add_product(
                    self.half, m.load(self.normal, k * w + x), m.load(self.gaps, at)
                )
                at = (k * 3 + 2) * width + panel.first + x
                m.store(self.r, (k * 3 + 2) * w + x, m.add(total, m.load(self.moments, at)))
                timed = m.load(self.p, (k * 3 + 2) * (2 * w) + x + w)
                m.store(self.least, k * w + x, m.choose(lands, timed, self.zero))
        held = m.memory(3 * c * w)
        self._multiply(
            lambda i, k: m.load(self.moments_P, i * (3 * c) + k), self.r, held, 3 * c, 3 * c, w
        )
        self._multiply(
            lambda i, k: m.load(self.moments_P, i * c + k + 9 * c * c),
            self.least,
            held,
            3 * c,
            c,
            w,
            more=True,
        )
        for i in m.loop(0, 3 * c):
            for x in m.loop(0, w, independent=True):
                place = i * (2 * w) + x + w
                new = m.choose(self._lands(), m.load(held, i * w + x), m.load(self.p, place))
                m.store(self.p, place, new)

    def _push(self, panel: _Panel) -> None:
        """Write A^T dp - X da, and A^T d(timed) - X_s da."""
        m, n, w, width = self.m, self.n, self.panel, self.width
        for i in m.loop(0, n):
            for k in range(2):
                first = (i + k * n) * width + panel.first
                for x in m.loop(0, w, independent=True):
                    m.store(self.pushed, i * (2 * w) + x + k * w, m.load(self.moved, first + x))
        for contact in self._contacts():
            entries = self._rows_of_A(contact, range(3))
            for x in m.loop(0, 2 * w, independent=True):
                p = [m.load(self.p, (contact.k * 3 + axis) * (2 * w) + x) for axis in range(3)]
                for i, column in enumerate(contact.pushes):
                    place = column * (2 * w) + x
                    total = m.load(self.pushed, place)
                    for axis in range(3):
                        total = m.add_product(entries[axis][i], p[axis], total)
                    m.store(self.pushed, place, total)

    def _close_gaps(self, panel: _Panel) -> None:
        """Add the impulses that keep gaps closed to those on the mean velocity."""
        m, c, w, width = self.m, self.c, self.panel, self.width
        for contact in self._contacts():
            (entries,) = self._rows_of_A(contact, (2,))
            for x in m.loop(0, w, independent=True):
                place = contact.k * w + x
                total = m.load(self.gaps, contact.k * width + panel.first + x)
                total = m.add_product(self.half, m.load(self.normal, place), total)
                for entry, column in zip(entries, contact.pushes, strict=True):
                    other = m.load(self.pushed, column * (2 * w) + x + w)
                    total = m.add_product(entry, other, total)
                m.store(self.left, place, total)
        # r has been used
        closing = self.r
        self._multiply(lambda i, k: m.load(self.R, i * c + k), self.left, closing, c, c, w)
        for contact in self._contacts():
            (entries,) = self._rows_of_A(contact, (2,))
            for x in m.loop(0, w, independent=True):
                impulse = m.load(closing, contact.k * w + x)
                for entry, column in zip(entries, contact.pushes, strict=True):
                    place = column * (2 * w) + x + w
                    total = m.add_product(entry, impulse, m.load(self.pushed, place))
                    m.store(self.pushed, place, total)

    def _finish(self, panel: _Panel, found: Memory) -> None:
        """Add velocities without impulses, and write the results."""
        m, n, w, width, pushed = self.m, self.n, self.panel, self.width, self.pushed

        def ends(i: Index, x: Index) -> tuple[Number, Number]:
            """Return dv+, and dmean without half of dv."""
            free = m.load(self.free, i * width + panel.first + x)
            after, mean = (m.load(pushed, i * (2 * w) + x + k * w) for k in range(2))
            return m.add(free, after), m.add_product(self.half, free, mean)

        for begin, count in self._ranges():
            for i in m.loop(begin, begin + count):
                for start, stop, place, stride in panel.sides:
                    for x in m.loop(start, stop, independent=True):
                        after, mean = ends(i, x)
                        to = x + (place - start)
                        m.store(found, i * stride + to, m.mul(self.h, mean))
                        m.store(found, (i + n) * stride + to, after)
        for begin, count, (C, Om, Op) in self._blocks("C", "Om", "Op"):
            for i in m.loop(begin, begin + count):
                for x in m.loop(0, w, independent=True):
                    for k, value in enumerate(ends(i, x)):
                        m.store(pushed, i * (2 * w) + x + k * w, value)
            first = begin * (2 * w)
            position = ((C, pushed, first + w, 2 * w),)
            velocity = ((Om, pushed, first + w, 2 * w), (Op, pushed, first, 2 * w))
            for row, parts in ((begin, position), (begin + n, velocity)):
                for start, stop, place, stride in panel.sides:
                    for pair in self._pairs(count):
                        for x, totals in self._block_rows(parts, pair, count, start, stop):
                            for i, total in zip(pair, totals, strict=True):
                                m.store(found, (i + row) * stride + x + (place - start), total)

    def _block_rows(
        self,
        parts: Sequence[tuple[Index, Memory, Index, int]],
        rows: Sequence[Index],
        count: int,
        start: Index,
        stop: Index,
    ) -> Iterator[tuple[Index, list[Number]]]:
        """Yield directions, and there some rows of blocks times rows of directions.

        Args:
            parts: Place of each block among the arguments; what it multiplies: memory, place and
                length of rows.
            rows: Numbers of the rows of the blocks.
            count: Their size.
            start: First direction.
            stop: The one after the last.
        """
        m = self.m
        entries = [
            [[m.load(self.given, i * count + (place + k)) for k in range(count)] for i in rows]
            for place, *_ in parts
        ]
        for x in m.loop(start, stop, independent=True):
            totals = [self.zero for _ in rows]
            for own, (_, right, first, stride) in zip(entries, parts, strict=True):
                for k in range(count):
                    other = m.load(right, x + (first + k * stride))
                    totals = [
                        m.add_product(row[k], other, total)
                        for row, total in zip(own, totals, strict=True)
                    ]
            yield x, totals

    # identities

    def _add_diagonal(
        self,
        name: str,
        simple: Number | None,
        found: Memory,
        shift: int,
        stride: int,
        scale: Number | None = None,
    ) -> None:
        """Add a block diagonal matrix to a matrix, from a place on.

        Args:
            name: Name of its blocks.
            simple: Its diagonal elements between blocks; None for none.
            found: The matrix.
            shift: Place of the first element of the block diagonal matrix.
            stride: Length of rows.
            scale: Factor of the blocks; none by default.
        """
        m = self.m
        for begin, count in self._ranges() if simple is not None else ():
            for i in m.loop(begin, begin + count):
                place = i * stride + shift + i
                m.store(found, place, m.add(simple, m.load(found, place)))
        for begin, count, (block,) in self._blocks(name):
            for i in m.loop(0, count):
                for k in m.loop(0, count, independent=True):
                    place = (i + begin) * stride + (begin + shift) + k
                    entry = m.load(self.given, i * count + k + block)
                    if scale is not None:
                        entry = m.mul(scale, entry)
                    m.store(found, place, m.add(entry, m.load(found, place)))

    def add_identities(self, found: Memory) -> None:
        """Add M and O_v, and what half of dv in the mean velocity changes."""
        m, n = self.m, self.n
        below = 2 * n * n + n
        half_step = m.mul(self.half, self.h)
        self._add_diagonal("M", self.one, found, 0, 2 * n)
        self._add_diagonal("Ov", None, found, below, 2 * n)
        self._add_diagonal("C", half_step, found, n, 2 * n, self.half)
        self._add_diagonal("Om", None, found, below, 2 * n, self.half)
