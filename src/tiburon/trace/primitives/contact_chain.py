"""The chain rule over a step with rigid contact, as loops over matrices.

Symbols, as in `tiburon.contact.rigid`:
    n, c        velocity variables, contact points
    x           initial position (as a step), initial velocity, joint force: 3 n directions
    m, a        positions in the middle and at the end of a step of constant velocity
    v_f         velocity at a without impulses; J rows of the contacts at a, J_0 normal rows at the
                start
    H, A        mass matrix at a, H = L^T D L; A = J L^-1 D^-1/2, with the zeros of J and of its
                ancestors
    H_m, E      mass matrix in the middle; minus the derivatives of joint forces (inverse dynamics)
                there by position and velocity: E_q, E_v
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

A step is

    da = M_a dq + C_a dv            dm = M_m dq + C_m dv
    dvd = H_m^-1 (E_q dm + E_v dv + dtau)               dv_f = V dv + U dvd
    r = d(J v_f, its normal part replaced by the bound) + (dJ w - A X) da
    dp = P r + Q dp_0               dv+ = dv_f + L^-1 D^-1/2 (A^T dp - X da)
    d(timed) = lasting dp + p d(lasting); where contacts land, they are the impulses of a
               problem of their own: P_m r_m + Q_m d(timed impulses of what lands)
    dmean = (dv + dv_f) / 2 + L^-1 D^-1/2 (A^T (d(timed) + d(lambda)) - X_s da)
    dq+ = M dq + C dmean            dv_end = O_v dv + O_m dmean + O_p dv+

It is differentiated in reverse: 2 n results, dmean and dv+, are fewer than 3 n directions, and E
has the zeros of the tree. Results are the columns of all matrices below. They go from velocities to
impulses, r, and what that is made of: v_f, da, and both velocity and gap at the start. The heavier
part, from impulses on, is done for a few results at a time, whose rows then stay close to the
processor where each holds several cases.

In the metric of H impulses act through the rows of A, which have few elements. The bound changes
with the normal velocity at the end by 1 in all cases, so that r is J dv_f and parts that depend on
da. Restitution needs the normal impulses of compression, too, whose r differs by a matrix times da.

M_a to O_p are block diagonal, a block per joint. For joints whose variables simply add they are 1,
0 or a part of the step; blocks are arguments for the other joints only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

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

TOUCHING = 4
"""Contacts whose rows are added to one of a variable before the sum is stored."""

PANEL = 12
"""Results that are treated at a time where each number is that of several cases."""

ONCE = "linearizations of steps with contact have no derivatives"


class ContactChain(Primitive):
    """Multiply the derivatives of all parts of a step with contact to those of the step.

    Arguments: h; E_q and E_v, each column over its `related` rows; the factor of H_m; the factor of
    H and D^-1/2; F and F_s at their `places`; for each contact its `ROWS`, each over its support;
    S, twelve per contact; blocks in the order of `BLOCKS`; the contact problem and its solution,
    from which P and Q follow (`FrictionResponse`); values of each contact: `SHARES`; whether
    contacts land, 1 or 0; the problem of moments and its solution: b, least impulses, impulses, y
    and alpha. Where contacts may bounce also, for the compression: by how much its T and N after
    impulses differ, three rows per contact over its support, and its F; its solution: least
    impulses, impulses, y and alpha. Results: the derivatives of the step by position and velocity,
    2 n rows of 2 n columns; those by force, 2 n rows of n columns.

    Attributes:
        size: Number of velocity variables, n.
        supports: For each contact the variables where its rows are not zero.
        blocks: First variable and number of variables of each joint with blocks of its own.
        places: Elements of F that are not zero, row by row.
        related: For each variable those it depends on, or that depend on it, itself included.
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
        related: list[set[int]] = [set() for _ in range(n)]
        for i, j in self.layout.elements():
            related[i].add(j)
            related[j].add(i)
        self.related = [sorted(rows) for rows in related]
        self.related_count = sum(map(len, related))
        self.support_count = sum(lengths)
        own = len(BLOCKS) * sum(count * count for _, count in self.blocks)
        rows = len(ROWS) * self.support_count
        self.share_count = len(SHARES) if bounces else WITHOUT_RETURN
        # the matrix and mu of all contact problems of a step are the same
        self.solution_count = 5 * c + response.size
        stored = self.layout.stored
        sizes = [1, 2 * self.related_count, stored, stored, n, 2 * count, rows, 12 * c, own]
        sizes += [response.argument_count, self.share_count * c, 1 + 3 * c, self.solution_count]
        sizes += [3 * sum(lengths), count, self.solution_count] if bounces else [0, 0, 0]
        starts = (*itertools.accumulate(sizes, initial=0),)
        self.E, self.middle, self.factor, self.roots, self.F, self.rows, self.S = starts[1:8]
        self.own, self.problem, self.shares, self.lands, self.moments = starts[8:13]
        self.D, self.first_F, self.first, self.argument_count = starts[13:17]
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
        """Write the matrices of all parts, then go from the end of the step to its start."""
        chain = _Chain(m, given, found, self)
        chain.displace()
        chain.oppose()
        chain.hold_gaps()
        chain.pull_impulses()
        chain.respond()
        chain.go_through()
        chain.finish()


class _Contact(NamedTuple):
    """A contact point in a loop over those with equally long supports."""

    k: Index
    """Its number."""

    first: Index
    """Place of its rows among the arguments."""

    before: Index
    """Elements of the supports of all contacts before."""

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


Rows = tuple[Memory, int, Index]
"""Rows of results: memory, length, and place of the first element."""


class _Chain:
    """Rows of results, and the steps from one to the one before."""

    def __init__(self, m: Machine, given: Memory, found: Memory, of: ContactChain) -> None:
        self.m, self.given, self.found, self.of = m, given, found, of
        self.n, self.c = of.size, of.contacts
        n, c = self.n, self.c
        self.width = width = 2 * n if m.is_wide else -(-2 * n // LANES) * LANES
        """Length of rows of all results: mean velocities, then those after impulses."""
        self.panel = w = min(PANEL, 2 * n) if m.is_wide else width
        """Results of a panel."""
        self.zero, self.one, self.half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        self.minus = m.constant(-1.0)
        self.h = m.load(given, 0)
        self.count = 3 if of.bounces else 2
        self.X = m.memory(n * self.count * n)
        """X, X_s and that of the compression beside each other; then H^-1 F and H^-1 F_s."""
        self.W, self.W_gaps, self.W_moments = (m.memory(k * c * n) for k in (3, 1, 2))
        """Changes with da of r, of gaps over h, and of r of the tangential moments."""
        self.W_first = m.memory(3 * c * n) if of.bounces else None
        """By how much that of r of the compression differs."""
        self.kinds = 2 if of.bounces else 1
        """Approach and share of a contact; without bounces, what both change of `lasting`."""
        self.slopes = m.memory(4 * self.kinds * c)
        self.W_closing = m.memory(self.kinds * of.support_count)
        """Of each kind, four elements of S per contact, and the change with da over its support."""
        self.E = m.memory(2 * of.related_count)
        """E by initial position and velocity, column by column."""
        self.P = m.memory(of.response.result_count)
        self.R, self.seen = m.memory(c * c), m.memory(3 * c * c)
        """R, and A_n A^T."""
        self.first_P = m.memory(3 * c * c) if of.bounces else None
        """Normal rows of P of the compression."""
        self.scale = m.memory(n)
        """Factors of mean velocities in positions, 1 for blocks."""
        # derivatives of all results by dp, by r of tangential moments, gaps, and kinds of closing
        self.to_p, self.to_moments = m.memory(3 * c * width), m.memory(2 * c * width)
        self.to_gaps, self.to_closing = m.memory(c * width), m.memory(self.kinds * c * width)
        self.to_first = m.memory(3 * c * width) if of.bounces else None
        """By r of the compression."""
        # those of a panel: by r; by J v_f, J_n dv and J_0 dq; by da, v_f, joint forces, dv and dq
        self.to_r, self.to_seen = m.memory(3 * c * w), m.memory(5 * c * w)
        self.to_a, self.to_free, self.to_force = (m.memory(n * w) for _ in range(3))
        self.to_v, self.to_q = m.memory(n * w), m.memory(n * w)
        self.turned = None if m.is_wide else m.memory(3 * n * width)
        """Results of one case, a direction in each row."""

    # arguments

    def _slope(self, part: int, k: Index) -> Number:
        """Return one of the twelve elements of S of a contact."""
        return self.m.load(self.given, k * 12 + (part + self.of.S))

    def _share(self, name: str, k: Index) -> Number:
        """Return one of the `SHARES` of a contact."""
        place = SHARES.index(name) + self.of.shares
        return self.m.load(self.given, k * self.of.share_count + place)

    def _contacts(self) -> Iterator[_Contact]:
        """Visit the contacts in order, in loops over neighbors with equally long supports."""
        m, supports, pushes = self.m, self.of.supports, self.of.response.supports
        begin = before = 0
        metric = self.of.problem
        while begin < len(supports):
            length, wide, end = len(supports[begin]), len(pushes[begin]), begin + 1
            while end < len(supports) and (len(supports[end]), len(pushes[end])) == (length, wide):
                end += 1
            table = m.table([column for support in supports[begin:end] for column in support])
            other = m.table([column for support in pushes[begin:end] for column in support])
            for number in m.loop(0, end - begin):
                yield _Contact(
                    number + begin,
                    number * (len(ROWS) * length) + (self.of.rows + len(ROWS) * before),
                    number * length + before,
                    number * (3 * wide) + metric,
                    length,
                    [m.lookup(table, number * length + i) for i in range(length)],
                    [m.lookup(other, number * wide + i) for i in range(wide)],
                )
            before += length * (end - begin)
            metric += 3 * wide * (end - begin)
            begin = end

    def _touched(self) -> Iterator[tuple[Index, list[Index], bool]]:
        """Visit the variables with the contacts whose supports contain them, some at a time.

        Yields the variable, places of contacts in the tables of `_touching`, and whether they are
        the first ones of the variable.
        """
        m, start = self.m, 0
        groups: dict[int, list[tuple[int, int]]] = {}
        for j in range(self.n):
            count = sum(j in support for support in self.of.supports)
            groups.setdefault(count, []).append((j, start))
            start += count
        for count, members in groups.items():
            variables, starts = (m.table(part) for part in zip(*members, strict=True))
            for number in m.loop(0, len(members)):
                j, first = m.lookup(variables, number), m.lookup(starts, number)
                if not count:
                    yield j, [], True
                for part, terms in enumerate(self._parts(count, TOUCHING)):
                    yield j, [first + term for term in terms], part == 0

    def _touching(self, *names: str) -> list[Any]:
        """Return tables over all variables and the contacts that contain them.

        The number of the contact; places in `W_closing`; places of `ROWS` among the arguments.
        """
        columns: list[list[int]] = [[] for _ in range(2 + len(names))]
        for j in range(self.n):
            before = 0
            for k, support in enumerate(self.of.supports):
                if j in support:
                    i, first = support.index(j), self.of.rows + len(ROWS) * before
                    rows = (first + ROWS.index(name) * len(support) + i for name in names)
                    for column, x in zip(columns, (k, before + i, *rows), strict=True):
                        column.append(x)
                before += len(support)
        return [self.m.table(column) for column in columns]

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

    def _clear(self, memory: Memory, size: int) -> None:
        for i in self.m.loop(0, size, independent=True):
            self.m.store(memory, i, self.zero)

    def _lands(self) -> Truth:
        """Return whether contacts land."""
        return self.m.less(self.half, self.m.load(self.given, self.of.lands))

    # matrices of the parts of a step

    def displace(self) -> None:
        """Write X, W of all kinds, and H^-1 F."""
        m, of, n, X = self.m, self.of, self.n, self.X
        wide, count = self.count * n, len(of.places)
        self._clear(X, n * wide)
        table = m.table([(i // n) * wide + i % n for i in of.places])
        starts = (of.F, of.F + count, of.first_F)[: self.count]
        for place in m.loop(0, count):
            to = m.lookup(table, place)
            for k, start in enumerate(starts):
                m.store(X, to + k * n, m.load(self.given, place + start))
        substitute_inward(m, of.layout, (self.given, of.factor), (X, 0), (X, 0), wide)
        for i in m.loop(0, n):
            root = m.load(self.given, i + of.roots)
            for j in m.loop(0, wide, independent=True):
                m.store(X, i * wide + j, m.mul(root, m.load(X, i * wide + j)))
        self._pose()
        substitute_outward(
            m,
            of.layout,
            (self.given, of.factor),
            (X, 0),
            (X, 0),
            wide,
            lambda i: m.load(self.given, i + of.roots),
        )

    def _pose(self) -> None:
        """Write W of all kinds, and the slopes of closing."""
        m, n = self.m, self.n
        seen = m.memory(3 * self.count * n)
        over_h = m.div(self.one, self.h)
        for contact in self._contacts():
            k, row = contact.k, partial(self._row_of, contact)
            self._see_positions(contact, seen)
            begun, normal = row("N_start"), row("J_n")
            by_gap, by_begun = self._slope(1, k), self._slope(2, k)
            bound = [
                m.add_product(by_begun, b, m.add_product(by_gap, x, a))
                for a, b, x in zip(row("N_after"), begun, normal, strict=True)
            ]
            for axis, entries in enumerate((row("T_1"), row("T_2"), bound)):
                self._add_rows(contact, self.W, k * 3 + axis, entries, seen, axis)
            gap = [
                m.add_product(over_h, x, m.sub_product(self.one, b, a))
                for a, b, x in zip(row("N_mean"), begun, normal, strict=True)
            ]
            self._add_rows(contact, self.W_gaps, k, gap, seen, 5)
            for _ in m.iterate(1, self._lands):
                for axis, name in enumerate(("M_1", "M_2")):
                    self._add_rows(contact, self.W_moments, k * 2 + axis, row(name), seen, 3 + axis)
            self._pose_closing(contact)
            for axis in range(3) if self.W_first is not None else ():
                first = contact.before * 3 + (self.of.D + axis * contact.length)
                entries = [m.load(self.given, first + i) for i in range(contact.length)]
                to = k * 3 + axis
                self._add_rows(contact, self.W_first, to, entries, seen, axis + 6, axis)

    def _row_of(self, contact: _Contact, name: str) -> list[Number]:
        """Return one of the `ROWS` of a contact."""
        return [self.m.load(self.given, contact.place(name, i)) for i in range(contact.length)]

    def _see_positions(self, contact: _Contact, seen: Memory) -> None:
        """Write the rows of A times X, X_s and that of the compression."""
        m, n, wide = self.m, self.n, self.count * self.n
        for axis in range(3):
            (entries,) = self._rows_of_A(contact, (axis,))
            for j in m.loop(0, n, independent=True):
                totals = [self.zero] * self.count
                for entry, column in zip(entries, contact.pushes, strict=True):
                    totals = [
                        m.add_product(entry, m.load(self.X, column * wide + j + part * n), total)
                        for part, total in enumerate(totals)
                    ]
                for part, total in enumerate(totals):
                    m.store(seen, j + (3 * part + axis) * n, total)

    def _add_rows(
        self,
        contact: _Contact,
        found: Memory,
        to: Index,
        entries: Sequence[Number],
        seen: Memory,
        number: int,
        other: int | None = None,
    ) -> None:
        """Write a row over the support of a contact minus one of `seen`, plus another one."""
        m, n, first = self.m, self.n, to * self.n
        for j in m.loop(0, n, independent=True):
            more = self.zero if other is None else m.load(seen, j + other * n)
            m.store(found, first + j, m.sub_product(self.one, m.load(seen, j + number * n), more))
        for entry, column in zip(entries, contact.columns, strict=True):
            m.store(found, first + column, m.add(m.load(found, first + column), entry))

    def _pose_closing(self, contact: _Contact) -> None:
        """Write the changes of what closing depends on."""
        m, k = self.m, contact.k
        slopes = [[self._slope(4 * kind + part, k) for part in range(4)] for kind in (1, 2)]
        if self.kinds == 1:
            weights = self._weights(k)
            slopes = [
                [
                    m.add_product(weights[1], b, m.mul(weights[0], a))
                    for a, b in zip(*slopes, strict=True)
                ]
            ]
        rows = [self._row_of(contact, name) for name in ("J_n", "N_start", "N_before")]
        for kind, own in enumerate(slopes):
            for part, slope in enumerate(own):
                m.store(self.slopes, (k + kind * self.c) * 4 + part, slope)
            for i, three in enumerate(zip(*rows, strict=True)):
                total = self.zero
                for slope, entry in zip(own[1:], three, strict=True):
                    total = m.add_product(slope, entry, total)
                place = contact.before + (i + kind * self.of.support_count)
                m.store(self.W_closing, place, total)

    def _weights(self, k: Index) -> tuple[Number, Number]:
        """Return the factors of the sudden share and of the time left in the lasting share."""
        m = self.m
        return (
            m.mul(self.half, self._share("share", k)),
            m.add_product(self.half, self._share("sudden", k), self.half),
        )

    def oppose(self) -> None:
        """Write E by initial position and velocity: E_q M_m, and E_v + E_q C_m."""
        m, of, count = self.m, self.of, self.of.related_count
        starts = (*itertools.accumulate(map(len, of.related), initial=0),)
        half_step = m.mul(self.half, self.h)
        table = m.table([*starts])

        def given(part: int, place: Index) -> Number:
            return m.load(self.given, place + (of.E + part * count))

        for begin, size in self._ranges():
            last = begin + size
            for i in m.loop(m.lookup(table, begin), m.lookup(table, last), independent=True):
                by_q = given(0, i)
                m.store(self.E, i, by_q)
                m.store(self.E, i + count, m.add_product(half_step, by_q, given(1, i)))
        for begin, size, (Mm, Cm) in self._blocks("Mm", "Cm"):
            # all columns of a joint have the same rows
            columns = [m.lookup(table, begin + k) for k in range(size + 1)]
            for j in m.loop(0, size):
                factors = [
                    [m.load(self.given, place + k * size + j) for k in range(size)]
                    for place in (Mm, Cm)
                ]
                for i in m.loop(0, columns[1] - columns[0], independent=True):
                    to = m.lookup(table, j + begin) + i
                    totals = [self.zero, given(1, to)]
                    for k in range(size):
                        by_q = given(0, columns[k] + i)
                        totals = [
                            m.add_product(own[k], by_q, total)
                            for own, total in zip(factors, totals, strict=True)
                        ]
                    for part, total in enumerate(totals):
                        m.store(self.E, to + part * count, total)

    def hold_gaps(self) -> None:
        """Write A_n A^T, and minus the inverse of A_n A_n^T among contacts that are closed."""
        m, n, c = self.m, self.n, self.c
        matrix, flags, dense = m.memory(c * c), m.memory(c), m.memory(n)
        for one in self._contacts():
            m.store(flags, one.k, self._share("is_closed", one.k))
            self._clear(dense, n)
            (entries,) = self._rows_of_A(one, (2,))
            for entry, column in zip(entries, one.pushes, strict=True):
                m.store(dense, column, entry)
            for other in self._contacts():
                for axis, row in enumerate(self._rows_of_A(other, range(3))):
                    total = self.zero
                    for entry, column in zip(row, other.pushes, strict=True):
                        total = m.add_product(entry, m.load(dense, column), total)
                    m.store(self.seen, one.k * (3 * c) + other.k * 3 + axis, total)
                m.store(matrix, one.k * c + other.k, total)
        write_negative_inverse(m, matrix, flags, self.R, c)

    # all results, up to impulses

    def respond(self) -> None:
        """Write P and Q of all problems; those of moments are used where they are written."""
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
                    self._hold()
                if self.first_P is None:
                    continue
                for _ in m.iterate(1, lambda turn=turn: self._is_turn(turn, 0)):  # type: ignore[misc]
                    for k in m.loop(0, c):
                        for j in m.loop(0, 3 * c, independent=True):
                            entry = m.load(self.P, (k * 3 + 2) * (3 * c) + j)
                            m.store(self.first_P, k * (3 * c) + j, entry)
        self._time()
        if of.bounces:
            self._return()

    def _is_turn(self, turn: Index, number: int) -> Truth:
        """Return whether a loop is at a number."""
        m = self.m
        at = m.number(turn)
        return m.both(m.less(m.constant(number - 0.5), at), m.less(at, m.constant(number + 0.5)))

    def pull_impulses(self) -> None:
        """Write the derivatives of results by impulses after the step, timed ones, and gaps."""
        m, n, c, width = self.m, self.n, self.c, self.width
        for memory, rows in ((self.to_gaps, 1), (self.to_closing, self.kinds)):
            self._clear(memory, rows * c * width)
        if not m.is_wide:
            # what fills up the rows
            self._clear(self.to_p, 3 * c * width)
            self._clear(self.to_a, n * self.panel)
        for begin, size in self._ranges():
            for i in m.loop(begin, begin + size):
                m.store(self.scale, i, self.h)
        for begin, size, _ in self._blocks():
            for i in m.loop(begin, begin + size):
                m.store(self.scale, i, self.one)
        # H^-1 J^T
        pushed = m.memory(n * 3 * c)
        self._clear(pushed, n * 3 * c)
        for contact in self._contacts():
            for axis, entries in enumerate(self._rows_of_A(contact, range(3))):
                for entry, column in zip(entries, contact.pushes, strict=True):
                    m.store(pushed, column * (3 * c) + contact.k * 3 + axis, entry)
        substitute_outward(
            m,
            self.of.layout,
            (self.given, self.of.factor),
            (pushed, 0),
            (pushed, 0),
            3 * c,
            lambda i: m.load(self.given, i + self.of.roots),
        )
        for i in m.loop(0, n):
            scale = m.load(self.scale, i)
            for row in m.loop(0, 3 * c):
                entry = m.load(pushed, i * (3 * c) + row)
                m.store(self.to_p, row * width + i, m.mul(scale, entry))
                m.store(self.to_p, row * width + n + i, entry)
        # impulses that close gaps, and what gaps timed impulses leave
        self._multiply(
            lambda i, k: m.load(self.R, k * c + i),
            (self.to_p, 3 * width, 2 * width),
            (self.to_gaps, width, 0),
            (c, c, n),
        )
        self._multiply(
            lambda i, k: m.load(self.seen, k * (3 * c) + i),
            (self.to_gaps, width, 0),
            (self.to_p, width, 0),
            (3 * c, c, n),
            more=True,
        )

    def _hold(self) -> None:
        """Let impulses that begin at different instants hold each other."""
        m, n, c, width = self.m, self.n, self.c, self.width
        b = self.of.problem + self.of.response.b
        held, least = m.memory(3 * c * n), m.memory(c * n)
        rows = (self.to_p, width, 0)
        self._clear(self.to_moments, 2 * c * width)
        self._multiply(
            lambda i, k: m.load(self.P, k * (3 * c) + i),
            rows,
            (held, n, 0),
            (3 * c, 3 * c, n),
        )
        self._multiply(
            lambda i, k: m.load(self.P, k * c + i + 9 * c * c),
            rows,
            (least, n, 0),
            (c, 3 * c, n),
        )
        for k in m.loop(0, c):
            lands = m.less(self.zero, m.load(self.given, k + self.of.moments))
            speeds = [m.load(self.given, k * 3 + (axis + b)) for axis in range(2)]
            for x in m.loop(0, n, independent=True):
                of_lands, longer = self._lands(), self.zero
                for axis, speed in enumerate(speeds):
                    found = m.choose(of_lands, m.load(held, (k * 3 + axis) * n + x), self.zero)
                    m.store(self.to_moments, (k * 2 + axis) * width + x, found)
                    longer = m.add_product(speed, found, longer)
                    at = (k * 3 + axis) * width + x
                    m.store(self.to_p, at, m.choose(of_lands, self.zero, m.load(self.to_p, at)))
                at = k * width + x
                m.store(self.to_closing, at, longer)
                found = m.choose(of_lands, m.load(held, (k * 3 + 2) * n + x), self.zero)
                m.store(self.to_gaps, at, m.add(m.load(self.to_gaps, at), found))
                at = (k * 3 + 2) * width + x
                found = m.choose(lands, m.load(least, k * n + x), self.zero)
                m.store(self.to_p, at, m.choose(of_lands, found, m.load(self.to_p, at)))

    def _time(self) -> None:
        """Divide timed impulses into impulses and the shares of the step over which they last."""
        m, n, width = self.m, self.n, self.width
        for k in m.loop(0, self.c):
            lasting = self._share("lasting", k)
            impulse = [m.load(self.given, k * 3 + (axis + self.of.p)) for axis in range(3)]
            for x in m.loop(0, n, independent=True):
                places = [(k * 3 + axis) * width + x for axis in range(3)]
                p = [m.load(self.to_p, place) for place in places]
                longer = self.zero
                for factor, value in zip(impulse, p, strict=True):
                    longer = m.add_product(factor, value, longer)
                old = m.load(self.to_closing, k * width + x)
                m.store(self.to_closing, k * width + x, m.add(longer, old))
                for place, value in zip(places, p, strict=True):
                    m.store(self.to_p, place, m.mul(lasting, value))

    def _return(self) -> None:
        """Write the derivatives by approach, share, and r of the compression."""
        m, n, c, width = self.m, self.n, self.c, self.width
        returned, least = m.memory(c * width), m.memory(c * width)
        self._clear(returned, c * width)
        for k in m.loop(0, c):
            parts = [self._share(name, k) for name in SHARES[4:7]]
            of_sudden, of_share = self._weights(k)
            for x in m.loop(0, n, independent=True):
                longer = m.load(self.to_closing, k * width + x)
                sudden = m.mul(of_sudden, longer)
                m.store(self.to_closing, k * width + x, m.mul(parts[0], sudden))
                m.store(self.to_closing, (k + c) * width + x, m.mul(of_share, longer))
                m.store(returned, k * width + x, m.mul(parts[1], sudden))
                at = (k * 3 + 2) * width + x
                m.store(self.to_p, at, m.add_product(parts[2], sudden, m.load(self.to_p, at)))
        whole = (self.to_p, width, 0)
        self._multiply(
            lambda i, k: m.load(self.P, k * c + i + 9 * c * c),
            whole,
            (least, width, 0),
            (c, 3 * c, width),
        )
        for k in m.loop(0, c):
            flag, by_approach, by_impulse = (self._share(name, k) for name in SHARES[7:])
            for x in m.loop(0, width, independent=True):
                place = k * width + x
                total = m.add_product(flag, m.load(least, place), m.load(returned, place))
                approach = m.add_product(by_approach, total, m.load(self.to_closing, place))
                m.store(self.to_closing, place, approach)
                m.store(returned, place, m.mul(by_impulse, total))
        self._multiply(
            lambda i, k: m.load(self.first_P, k * (3 * c) + i),
            (returned, width, 0),
            (self.to_first, width, 0),
            (3 * c, c, width),
        )

    # a panel of results, from impulses to the start of the step

    def _panels(self) -> Iterator[Index]:
        """Visit all results, some at a time; the last panel may include some before."""
        m, last = self.m, 2 * self.n - self.panel
        if last <= 0:
            yield 0
            return
        table = m.table([min(k, last) for k in range(0, 2 * self.n, self.panel)])
        for number in m.loop(0, -(-2 * self.n // self.panel)):
            yield m.lookup(table, number)

    def go_through(self) -> None:
        """Write the results by directions, as they are without mixing rows of blocks."""
        m, c, w, width = self.m, self.c, self.panel, self.width
        closes = m.memory(1)
        m.store(closes, 0, self.zero)
        for k in m.loop(0, c):
            for part in range(4, 12):
                slope = self._slope(part, k)
                m.store(closes, 0, m.add_product(slope, slope, m.load(closes, 0)))
        for first in self._panels():
            if self.to_first is not None:
                for i in m.loop(0, 3 * c):
                    for x in m.loop(0, w, independent=True):
                        m.store(self.to_r, i * w + x, m.load(self.to_first, i * width + first + x))
            self._multiply(
                lambda i, k: m.load(self.P, k * (3 * c) + i),
                (self.to_p, width, first),
                (self.to_r, w, 0),
                (3 * c, 3 * c, w),
                more=self.of.bounces,
            )
            self._weigh(first)
            self._pull_rows()
            self._begin(first)
            self._pull_positions(first, closes)
            self._pull_forces()
            self._write_columns(first)

    def _begin(self, first: Index) -> None:
        """Write the derivatives by da, and add those by v_f, besides impulses."""
        m, n, w, wide = self.m, self.n, self.panel, self.count * self.n
        variables = m.table([i % n for i in range(2 * n)])
        rows = m.table([i * wide + n for i in range(n)] + [i * wide for i in range(n)])
        is_after = m.table([0] * n + [1] * n)
        for x in m.loop(0, min(w, 2 * n)):
            i = m.lookup(variables, x + first)
            after = m.less(self.half, m.number(m.lookup(is_after, x + first)))
            scale = m.load(self.scale, i)
            half, place = m.mul(self.half, scale), i * w + x
            free = m.add(m.choose(after, self.one, half), m.load(self.to_free, place))
            m.store(self.to_free, place, free)
            scale = m.choose(after, self.minus, m.mul(self.minus, scale))
            row = m.lookup(rows, x + first)
            for j in m.loop(0, n):
                m.store(self.to_a, j * w + x, m.mul(scale, m.load(self.X, row + j)))

    def _weigh(self, first: Index) -> None:
        """Write the derivatives by velocities J v_f, then J_n dv, then J_0 dq."""
        m, c, w, width = self.m, self.c, self.panel, self.width
        minus_half = m.constant(-0.5)
        for k in m.loop(0, c):
            by_start, by_begun = self._slope(0, k), self._slope(2, k)
            slopes = [
                [m.load(self.slopes, (k + kind * c) * 4 + part) for part in (0, 2, 3)]
                for kind in range(self.kinds)
            ]
            for x in m.loop(0, w, independent=True):
                r = [m.load(self.to_r, (k * 3 + axis) * w + x) for axis in range(3)]
                gap = m.load(self.to_gaps, k * width + first + x)
                normal = m.add_product(self.half, gap, r[2])
                begun = m.add_product(minus_half, gap, m.mul(by_begun, r[2]))
                start = m.mul(by_start, r[2])
                for kind, (s, t, u) in enumerate(slopes):
                    closing = m.load(self.to_closing, (k + kind * c) * width + first + x)
                    start = m.add_product(s, closing, start)
                    begun = m.add_product(t, closing, begun)
                    normal = m.add_product(u, closing, normal)
                for part, value in enumerate((r[0], r[1], normal, begun, start)):
                    m.store(self.to_seen, (k + part * c) * w + x, value)
        for _ in m.iterate(1, self._lands):
            for k in m.loop(0, c):
                lasting = self._share("lasting", k)
                for x in m.loop(0, w, independent=True):
                    for axis in range(2):
                        place = (k + axis * c) * w + x
                        moment = m.load(self.to_moments, (k * 2 + axis) * width + first + x)
                        value = m.add_product(lasting, moment, m.load(self.to_seen, place))
                        m.store(self.to_seen, place, value)

    def _pull_rows(self) -> None:
        """Add the rows of contacts: to the derivatives by v_f, and to those by dv and dq."""
        m, c, w = self.m, self.c, self.panel
        contacts, _, *tables = self._touching(*ROWS[:4])
        for j, spots, is_first in self._touched():
            numbers = [m.lookup(contacts, spot) for spot in spots]
            entries = [[m.load(self.given, m.lookup(t, spot)) for t in tables] for spot in spots]
            for x in m.loop(0, w, independent=True):
                place = j * w + x
                free, begun, start = (
                    self.zero if is_first else m.load(memory, place)
                    for memory in (self.to_free, self.to_v, self.to_q)
                )
                for k, (*three, fourth) in zip(numbers, entries, strict=True):
                    own = [m.load(self.to_seen, (k + part * c) * w + x) for part in range(5)]
                    for entry, value in zip(three, own[:3], strict=True):
                        free = m.add_product(entry, value, free)
                    begun = m.add_product(three[2], own[3], begun)
                    start = m.add_product(fourth, own[4], start)
                m.store(self.to_free, place, free)
                m.store(self.to_v, place, begun)
                m.store(self.to_q, place, start)

    def _pull_positions(self, first: Index, closes: Memory) -> None:
        """Write the derivatives by da."""
        m, n, c, w, width = self.m, self.n, self.c, self.panel, self.width

        def add(W: Memory, right: Rows, count: int) -> None:
            self._multiply(
                lambda i, k: m.load(W, k * n + i),
                right,
                (self.to_a, w, 0),
                (n, count, w),
                more=True,
            )

        add(self.W, (self.to_r, w, 0), 3 * c)
        add(self.W_gaps, (self.to_gaps, width, first), c)
        for _ in m.iterate(1, self._lands):
            add(self.W_moments, (self.to_moments, width, first), 2 * c)
        if self.W_first is not None:
            add(self.W_first, (self.to_first, width, first), 3 * c)
        for _ in m.iterate(1, lambda: m.less(self.zero, m.load(closes, 0))):
            contacts, places = self._touching()
            for j, spots, _ in self._touched():
                terms = []
                for spot in spots:
                    for kind in range(self.kinds):
                        place = m.lookup(places, spot) + kind * self.of.support_count
                        row = (m.lookup(contacts, spot) + kind * c) * width + first
                        terms.append((m.load(self.W_closing, place), row))
                for x in m.loop(0, w, independent=True):
                    total = m.load(self.to_a, j * w + x)
                    for entry, row in terms:
                        total = m.add_product(entry, m.load(self.to_closing, row + x), total)
                    m.store(self.to_a, j * w + x, total)

    def _pull_forces(self) -> None:
        """Write the derivatives by joint forces."""
        m, of, w = self.m, self.of, self.panel
        for begin, size in self._ranges():
            for i in m.loop(begin * w, (begin + size) * w, independent=True):
                m.store(self.to_force, i, m.mul(self.h, m.load(self.to_free, i)))
        for begin, size, (U,) in self._blocks("U"):
            parts = ((U, self.to_free, begin * w, w),)
            for pair in self._pairs(size):
                for x, totals in self._block_rows(parts, pair, size, (0, w), turned=True):
                    for i, total in zip(pair, totals, strict=True):
                        m.store(self.to_force, (i + begin) * w + x, total)
        ends, rows, factor = (
            m.table(of.layout.starts[1:]),
            (self.to_force, 0),
            (self.given, of.middle),
        )
        substitute_inward(m, of.layout, factor, rows, rows, w)
        substitute_outward(
            m,
            of.layout,
            factor,
            rows,
            rows,
            w,
            lambda i: m.load(
                self.given,
                (of.layout.starts[i + 1] if isinstance(i, int) else m.lookup(ends, i))
                + (of.middle - 1),
            ),
        )

    def _to(self, direction: Index, first: Index) -> Callable[[Index], tuple[Memory, Index]]:
        """Return a function of results: where the derivative by a velocity or position is."""
        if self.turned is not None:
            return lambda x: (self.turned, direction * self.width + x)
        return lambda x: (self.found, (first + x) * (2 * self.n) + direction)

    def _write_columns(self, first: Index) -> None:
        """Write the results of a panel by all directions."""
        m, n, w, square = self.m, self.n, self.panel, 4 * self.n * self.n
        for j in m.loop(0, n):
            for x in m.loop(0, w, independent=True):
                value = m.load(self.to_force, j * w + x)
                if self.turned is not None:
                    m.store(self.turned, (j + 2 * n) * self.width + x, value)
                else:
                    m.store(self.found, (first + x) * n + (j + square), value)
        for begin, size, (Ma, Ca, V) in self._blocks("Ma", "Ca", "V"):
            rows = begin * w
            position = ((Ma, self.to_a, rows, w),)
            velocity = ((Ca, self.to_a, rows, w), (V, self.to_free, rows, w))
            for shift, parts, others in ((0, position, self.to_q), (n, velocity, self.to_v)):
                for pair in self._pairs(size):
                    to = [self._to(i + (begin + shift), first) for i in pair]
                    for x, totals in self._block_rows(parts, pair, size, (0, w), turned=True):
                        for i, place, total in zip(pair, to, totals, strict=True):
                            more = m.load(others, (i + begin) * w + x)
                            m.store(*place(x), m.add(total, more))
        groups: dict[tuple[int, bool], list[tuple[int, int]]] = {}
        start = 0
        for j, rows in enumerate(self.of.related):
            own = any(begin <= j < begin + size for begin, size in self.of.blocks)
            groups.setdefault((len(rows), own), []).append((j, start))
            start += len(rows)
        table = m.table([i * w for rows in self.of.related for i in rows])
        for (length, own), members in groups.items():
            columns, starts = (m.table(part) for part in zip(*members, strict=True))
            for number in m.loop(0, len(members)):
                j, begin = m.lookup(columns, number), m.lookup(starts, number)
                for part, terms in enumerate(self._parts(length)):
                    self._add_column(j, first, table, [begin + t for t in terms], own or part > 0)

    def _add_column(
        self, j: Index, first: Index, table: Any, terms: Sequence[Index], adds: bool
    ) -> None:
        """Add some elements of a column of E by position and velocity, times forces.

        Args:
            j: Its number.
            first: First result.
            table: Rows of `to_force` of all elements of E.
            terms: Numbers of the elements.
            adds: Whether to add to what has been written, else to the other parts of a column of
                which variables simply add.
        """
        m, w = self.m, self.panel
        rows = [m.lookup(table, term) for term in terms]
        entries = [
            [m.load(self.E, term + part * self.of.related_count) for part in range(2)]
            for term in terms
        ]
        to = [self._to(j + shift, first) for shift in (0, self.n)]
        for x in m.loop(0, w, independent=True):
            if adds:
                totals = [m.load(*place(x)) for place in to]
            else:
                place = j * w + x
                by_a = m.load(self.to_a, place)
                free = m.add(m.load(self.to_free, place), m.load(self.to_v, place))
                totals = [m.add(by_a, m.load(self.to_q, place)), m.add_product(self.h, by_a, free)]
            for row, own in zip(rows, entries, strict=True):
                force = m.load(self.to_force, row + x)
                totals = [
                    m.add_product(entry, force, total)
                    for entry, total in zip(own, totals, strict=True)
                ]
            for place, total in zip(to, totals, strict=True):
                m.store(*place(x), total)

    # products

    def _pairs(self, rows: int) -> Iterator[list[Index]]:
        """Yield the numbers of rows, two at a time."""
        for i in self.m.loop(0, rows // 2):
            yield [i * 2, i * 2 + 1]
        if rows % 2:
            yield [rows - 1]

    def _parts(self, inner: int, most: int = UNROLLED) -> Iterator[list[Index]]:
        """Yield the numbers of terms, some at a time; a loop has all but the first ones."""
        whole = inner // most
        if whole:
            yield list(range(most))
        for part in self.m.loop(1, whole):
            yield [part * most + k for k in range(most)]
        if inner % most:
            yield list(range(whole * most, inner))

    def _multiply(
        self,
        left: Callable[[Index, Index], Number],
        right: Rows,
        found: Rows,
        sizes: tuple[int, int, int],
        *,
        more: bool = False,
    ) -> None:
        """Write a matrix times rows of results; with `more`, add it.

        Args:
            left: Returns an element of the matrix.
            right: The rows.
            found: Receives the product.
            sizes: Rows of the product, rows that are multiplied, and their length.
            more: Whether to add to what is there.
        """
        m, (rows, inner, count) = self.m, sizes
        (source, length, first), (target, stride, begin) = right, found
        for number, terms in enumerate(self._parts(inner)):
            adds = more or number > 0
            for pair in self._pairs(rows):
                entries = [[left(i, k) for k in terms] for i in pair]
                for x in m.loop(0, count, independent=True):
                    places = [i * stride + begin + x for i in pair]
                    totals = [m.load(target, at) if adds else self.zero for at in places]
                    for place, k in enumerate(terms):
                        other = m.load(source, x + k * length + first)
                        totals = [
                            m.add_product(row[place], other, total)
                            for row, total in zip(entries, totals, strict=True)
                        ]
                    for at, total in zip(places, totals, strict=True):
                        m.store(target, at, total)

    def _block_rows(
        self,
        parts: Sequence[tuple[Index, Memory, Index, int]],
        rows: Sequence[Index],
        count: int,
        ends: tuple[int, int],
        *,
        turned: bool = False,
    ) -> Iterator[tuple[Index, list[Number]]]:
        """Yield places in rows, and there some rows of blocks times rows.

        Args:
            parts: Place of each block among the arguments; what it multiplies: memory, place and
                length of rows.
            rows: Numbers of the rows of the blocks.
            count: Their size.
            ends: The first place, and the one after the last.
            turned: Whether to take the transpose of blocks.
        """
        m = self.m
        entries = [
            [
                [
                    m.load(
                        self.given, i + (place + k * count) if turned else i * count + (place + k)
                    )
                    for k in range(count)
                ]
                for i in rows
            ]
            for place, *_ in parts
        ]
        for x in m.loop(*ends, independent=True):
            totals = [self.zero for _ in rows]
            for own, (_, right, first, stride) in zip(entries, parts, strict=True):
                for k in range(count):
                    other = m.load(right, x + (first + k * stride))
                    totals = [
                        m.add_product(row[k], other, total)
                        for row, total in zip(own, totals, strict=True)
                    ]
            yield x, totals

    # the end of the step

    def finish(self) -> None:
        """Add half of dv to mean velocities, mix the rows of blocks, and add M and O_v."""
        m, n, found = self.m, self.n, self.found
        square = 4 * n * n
        if self.turned is not None:
            for i in m.loop(0, 2 * n):
                for start, row, count in ((0, 0, 2 * n), (square, 2 * n, n)):
                    for terms in self._parts(count):
                        for j in terms:
                            value = m.load(self.turned, (j + row) * self.width + i)
                            m.store(found, i * count + j + start, value)
        for i in m.loop(0, n):
            place = i * (2 * n) + n + i
            half = m.mul(self.half, m.load(self.scale, i))
            m.store(found, place, m.add(half, m.load(found, place)))
        for begin, size, (C, Om, Op) in self._blocks("C", "Om", "Op"):
            # by position and velocity, and by force
            for shift, wide in ((0, 2 * n), (square, n)):
                old = m.memory(2 * size * wide)
                for i in m.loop(0, size):
                    for j in m.loop(0, wide, independent=True):
                        for part in range(2):
                            value = m.load(found, (i + (begin + part * n)) * wide + shift + j)
                            m.store(old, (i + part * size) * wide + j, value)
                mean, after = ((old, part * size * wide, wide) for part in range(2))
                for to, parts in ((begin, ((C, *mean),)), (begin + n, ((Om, *mean), (Op, *after)))):
                    for pair in self._pairs(size):
                        for x, totals in self._block_rows(parts, pair, size, (0, wide)):
                            for i, total in zip(pair, totals, strict=True):
                                m.store(found, (i + to) * wide + shift + x, total)
        for begin, size in self._ranges():
            for i in m.loop(begin, begin + size):
                place = i * (2 * n) + i
                m.store(found, place, m.add(self.one, m.load(found, place)))
        for begin, size, places in self._blocks("M", "Ov"):
            for shift, place in zip((0, 2 * n * n + n), places, strict=True):
                for i in m.loop(0, size):
                    for k in m.loop(0, size, independent=True):
                        to = (i + begin) * (2 * n) + (begin + shift) + k
                        entry = m.load(self.given, i * size + k + place)
                        m.store(found, to, m.add(entry, m.load(found, to)))
