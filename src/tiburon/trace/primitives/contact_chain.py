"""The chain rule over the end of a step with rigid contact, as loops over matrices.

Symbols, as in `tiburon.contact.rigid`:
    n, c        velocity variables, contact points
    x           initial position (as a step), initial velocity, joint force: 3 n directions
    h           length of the step [s]
    dq_1, dv_1  changes of position (as a step) and velocity at the end of the step without contact
    H, A        mass matrix at q_1, H = L^T D L; A = J L^-1 D^-1/2, with the zeros of J and of its
                ancestors
    p, m        impulses; timed impulses, which act on the mean velocity of the step, with those
                that close gaps
    w, s        what these change of velocities: H w = J^T p, H s = J^T m
    F           d(H w - J^T p)/dq_1 at constant w and p, Y = D^-1/2 L^-T F dq_1; F_s, Y_s for s, m
    r           change of the velocities of contacts by which p is determined, at constant p; its
                rows are those of `ROWS`
    P, Q        derivatives of impulses by velocities, by least impulses
    R           minus the inverse of A_n A_n^T, for contacts that are held: impulses that close gaps

The end of a step is

    dp = P (r - A Y)                dw = L^-1 D^-1/2 (A^T dp - Y)
    dm = lasting dp + p d(lasting), and where contacts land the impulses of a problem of their own:
         P_m (r_m - A Y_s) + Q_m d(timed impulses of what lands); then R closes gaps
    ds = L^-1 D^-1/2 (A^T dm - Y_s)
    dq+ = M dq_1 + C ds             dv+ = O_v (dv_1 + dw) + O_s ds

M to O_s are block diagonal, a block per joint. For joints whose variables simply add they are 1, h,
1 and 0; blocks are arguments for the other joints only. Directions are the columns of all matrices:
each column goes through by itself, some at a time where they are many or each number is
that of several cases, so that rows stay close to the processor.
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

__all__ = ["BLOCKS", "ROWS", "ContactChain"]

BLOCKS = ("M", "C", "Ov", "Os")
"""Order of the matrices of one block among the arguments."""

ROWS = (
    *("T_1", "T_2", "bound_q1", "lasting_q1", "M_1", "M_2", "gap_q1"),
    *("J_1", "J_2", "bound_v1", "lasting_v1"),
    *("bound_q", "lasting_q", "bound_v", "lasting_v"),
)
"""Order of the rows of one contact among the arguments: changes with q_1 of the tangential
velocities and of the bound, each at constant impulses, of the share of the step over which an
impulse lasts, of the tangential velocities of the problem of moments, and of gaps over h; those
with v_1, where moments have the tangential ones times the share; those with q and v at the start.
"""

UNROLLED = 12
"""Terms of a product that are added before the sum is stored."""

PANEL, MOST_TOGETHER = 18, 56
"""Directions that go through at a time, where each number is that of several cases, and of one."""

ONCE = "linearizations of steps with contact have no derivatives"


class ContactChain(Primitive):
    """Multiply the derivatives of the end of a step with contact onto those of the step before.

    Arguments: h; dq_1 and dv_1, 2 n rows of 3 n columns; the factor of H and D^-1/2; F and F_s at
    their `columns`; for each contact its `ROWS`, each over its support; blocks in the order of
    `BLOCKS`; the contact problem and its solution, from which P follows (`FrictionResponse`); for
    each contact the share of the step over which its impulse lasts, and whether its gap is closed;
    whether contacts land, 1 or 0; the problem of moments and its solution: b, least impulses,
    impulses, y and alpha. Results: dq+ and dv+, 2 n rows of 3 n columns.

    Attributes:
        size: Number of velocity variables, n.
        supports: For each contact the variables where its rows are not zero.
        blocks: First variable and number of variables of each joint with blocks of its own.
        columns: For each row of F and F_s the columns where they are not zero.
        response: P and Q.
    """

    def __init__(
        self,
        parents: Sequence[int],
        supports: Sequence[Sequence[int]],
        blocks: Sequence[tuple[int, int]],
        columns: Sequence[Sequence[int]],
        response: FrictionResponse,
    ) -> None:
        self.supports = tuple(tuple(support) for support in supports)
        self.layout, self.size = TreeLayout(parents), len(parents)
        self.contacts, self.blocks = len(self.supports), tuple(blocks)
        self.columns, self.response = tuple(tuple(row) for row in columns), response
        form = [*map(len, self.supports), *itertools.chain(*self.supports), len(self.blocks)]
        form += [*itertools.chain(*self.blocks), response.size, *support_form(response.supports)]
        form += [*map(len, self.columns), *itertools.chain(*self.columns)]
        form += [i + 1 for i in parents]
        super().__init__("contact_chain", self.size, self.contacts, *form)
        n, c = self.size, self.contacts
        self.entry_count = sum(map(len, self.columns))
        # the matrix and mu of both contact problems are the same
        self.solution_count = 5 * c + response.size
        sizes = [1, 6 * n * n, self.layout.stored, n, 2 * self.entry_count]
        sizes += [len(ROWS) * sum(map(len, self.supports))]
        sizes += [len(BLOCKS) * sum(count * count for _, count in self.blocks)]
        sizes += [response.argument_count, 2 * c, 1, 3 * c, self.solution_count]
        starts = (*itertools.accumulate(sizes, initial=0),)
        self.free, self.factor, self.roots, self.F, self.rows, self.own = starts[1:7]
        self.problem, self.shares, self.lands, self.b_moments, self.moments = starts[7:12]
        self.argument_count = starts[12]
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
        """Write the matrices of contacts, then take all directions through the end of the step."""
        chain = _Chain(m, given, found, self)
        chain.hold_gaps()
        chain.respond()
        chain.seed()
        for panel in m.loop(0, chain.panels):
            chain.begin(panel)
            chain.balance()
            chain.see(panel)
            chain.push()
            chain.close_gaps()
            chain.move()
            chain.finish(panel)


class _Contact(NamedTuple):
    """A contact point in a loop over those with equally long supports."""

    k: Index
    """Its number."""

    first: Index
    """Place of its rows among the arguments."""

    metric: Index
    """Place of its rows of A."""

    columns: list[Index]
    """Its support."""

    pushes: list[Index]
    """The columns of its rows of A."""


Rows = tuple[Memory, int, Index]
"""Rows of directions: memory, length, and place of the first element."""


class _Chain:
    """Rows of directions, and the parts of the end of a step that take them on."""

    def __init__(self, m: Machine, given: Memory, found: Memory, of: ContactChain) -> None:
        self.m, self.given, self.found, self.of = m, given, found, of
        self.n, self.c = n, c = of.size, of.contacts
        self.panels = -(-3 * n // (PANEL if m.is_wide else MOST_TOGETHER))
        self.count = w = -(-3 * n // self.panels)
        """Directions of a panel."""
        last = 3 * n - w
        self.firsts = m.table([min(k * w, last) for k in range(self.panels)])
        """First directions of panels, of which the last one may include some of the one before."""
        # rows of one case are filled up: loops without a remainder
        self.width = w = w if m.is_wide else -(-w // LANES) * LANES
        self.stride = last + w
        self.zero, self.one, self.half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        self.h = m.load(given, 0)
        self.P, self.P_moments = (m.memory(of.response.result_count) for _ in range(2))
        """P and Q of the impulses, and of the moments where contacts land."""
        self.R, self.seen_by = m.memory(c * c), m.memory(3 * c * c)
        """R, and A_n A^T."""
        self.seeds = m.memory(2 * c * self.stride)
        """Changes of bounds and lasting shares with the state at the start, for all panels."""
        self.q1, self.v1 = m.memory(n * w), m.memory(n * w)
        # two of a kind beside each other: by impulses, and by timed impulses
        self.y, self.seen, self.p = (m.memory(k * 2 * w) for k in (n, 3 * c, 3 * c))
        """-Y, then dw; -A Y; dp; those of timed impulses beside them."""
        self.r = m.memory(3 * c * w)
        self.lasting, self.gaps = m.memory(c * w), m.memory(c * w)

    def _contacts(self) -> Iterator[_Contact]:
        """Visit the contacts in order, in loops over neighbors with equally long supports."""
        m, supports, pushes = self.m, self.of.supports, self.of.response.supports
        begin, first, metric = 0, self.of.rows, self.of.problem
        sizes = [(len(a), len(b)) for a, b in zip(supports, pushes, strict=True)]
        for (length, wide), group in itertools.groupby(sizes):
            end = begin + len([*group])
            table = m.table([column for support in supports[begin:end] for column in support])
            other = m.table([column for support in pushes[begin:end] for column in support])
            for number in m.loop(0, end - begin):
                yield _Contact(
                    number + begin,
                    number * (len(ROWS) * length) + first,
                    number * (3 * wide) + metric,
                    [m.lookup(table, number * length + i) for i in range(length)],
                    [m.lookup(other, number * wide + i) for i in range(wide)],
                )
            first += len(ROWS) * length * (end - begin)
            metric += 3 * wide * (end - begin)
            begin = end

    def _row(self, contact: _Contact, name: str) -> list[Number]:
        """Return one of the `ROWS` of a contact."""
        length = len(contact.columns)
        first = contact.first + ROWS.index(name) * length
        return [self.m.load(self.given, first + i) for i in range(length)]

    def _rows_of_A(self, contact: _Contact, axes: Sequence[int]) -> list[list[Number]]:
        """Return some of the three rows of A of a contact."""
        wide = len(contact.pushes)
        return [
            [self.m.load(self.given, contact.metric + (axis * wide + i)) for i in range(wide)]
            for axis in axes
        ]

    def _share(self, part: int, k: Index) -> Number:
        """Return the lasting share of a contact, or whether its gap is closed."""
        return self.m.load(self.given, k * 2 + (part + self.of.shares))

    def _clear(self, memory: Memory, size: int) -> None:
        for i in self.m.loop(0, size, independent=True):
            self.m.store(memory, i, self.zero)

    def _lands(self) -> Truth:
        """Return whether contacts land."""
        return self.m.less(self.half, self.m.load(self.given, self.of.lands))

    # matrices of contacts

    def hold_gaps(self) -> None:
        """Write A_n A^T, and minus the inverse of A_n A_n^T among contacts that are closed."""
        m, n, c = self.m, self.n, self.c
        matrix, flags, dense = m.memory(c * c), m.memory(c), m.memory(n)
        for one in self._contacts():
            m.store(flags, one.k, self._share(1, one.k))
            self._clear(dense, n)
            (entries,) = self._rows_of_A(one, (2,))
            for entry, column in zip(entries, one.pushes, strict=True):
                m.store(dense, column, entry)
            for other in self._contacts():
                total = self.zero
                for axis, row in enumerate(self._rows_of_A(other, range(3))):
                    total = self.zero
                    for entry, column in zip(row, other.pushes, strict=True):
                        total = m.add_product(entry, m.load(dense, column), total)
                    m.store(self.seen_by, one.k * (3 * c) + other.k * 3 + axis, total)
                m.store(matrix, one.k * c + other.k, total)
        write_negative_inverse(m, matrix, flags, self.R, c)

    def respond(self) -> None:
        """Write P and Q of the impulses, and where contacts land those of the moments."""
        m, of, c = self.m, self.of, self.c
        response, own = of.response, of.solution_count
        problem = m.memory(response.argument_count)
        b, solution = response.b, response.argument_count - own
        for i in m.loop(0, solution, independent=True):
            m.store(problem, i, m.load(self.given, i + of.problem))
        velocities = m.table((of.b_moments, of.problem + b))
        solutions = m.table((of.moments, of.problem + solution))
        for turn in m.loop(0, 2):
            last = m.less(self.half, m.number(turn))
            wanted = m.either(last, self._lands())
            for _ in m.iterate(1, lambda wanted=wanted: wanted):  # type: ignore[misc]
                for i in m.loop(0, 3 * c, independent=True):
                    m.store(problem, i + b, m.load(self.given, m.lookup(velocities, turn) + i))
                for i in m.loop(0, own, independent=True):
                    place = m.lookup(solutions, turn) + i
                    m.store(problem, i + solution, m.load(self.given, place))
                # those of moments are replaced
                for i in m.loop(0, response.result_count, independent=True):
                    m.store(self.P_moments, i, m.load(self.P, i))
                response.write(m, problem, self.P)

    def seed(self) -> None:
        """Write the changes of bounds and lasting shares with the state at the start."""
        m, n, stride = self.m, self.n, self.stride
        self._clear(self.seeds, 2 * self.c * stride)
        for contact in self._contacts():
            for part, kind in enumerate(("bound", "lasting")):
                for shift, name in ((0, f"{kind}_q"), (n, f"{kind}_v")):
                    entries = self._row(contact, name)
                    for entry, column in zip(entries, contact.columns, strict=True):
                        place = (contact.k * 2 + part) * stride + column + shift
                        m.store(self.seeds, place, entry)

    # directions of a panel

    def begin(self, panel: Index) -> None:
        """Read dq_1 and dv_1."""
        m, n, w = self.m, self.n, self.width
        for rows, first in ((self.q1, 0), (self.v1, 3 * n * n)):
            for i in m.loop(0, n):
                place = m.lookup(self.firsts, panel) + i * (3 * n) + (first + self.of.free)
                for x in m.loop(0, self.count, independent=True):
                    m.store(rows, i * w + x, m.load(self.given, place + x))
                for x in range(self.count, w):
                    m.store(rows, i * w + x, self.zero)

    def balance(self) -> None:
        """Write -Y and -Y_s."""
        m, of, w, across = self.m, self.of, self.width, 2 * self.width
        groups: dict[int, list[tuple[int, int]]] = {}
        start = 0
        for i, columns in enumerate(of.columns):
            groups.setdefault(len(columns), []).append((i, start))
            start += len(columns)
        table = m.table([column * w for columns in of.columns for column in columns])
        for length, members in groups.items():
            rows, starts = (m.table(part) for part in zip(*members, strict=True))
            for number in m.loop(0, len(members)):
                first, to = m.lookup(starts, number), m.lookup(rows, number) * across
                for part, terms in enumerate(self._parts(length)):
                    places = [first + term for term in terms]
                    others = [m.lookup(table, place) for place in places]
                    entries = [
                        [m.load(self.given, place + (of.F + k * of.entry_count)) for k in range(2)]
                        for place in places
                    ]
                    for x in m.loop(0, w, independent=True):
                        totals = [self.zero, self.zero]
                        if part:
                            totals = [m.load(self.y, to + x + k * w) for k in range(2)]
                        for other, pair in zip(others, entries, strict=True):
                            value = m.load(self.q1, other + x)
                            totals = [
                                m.sub_product(entry, value, total)
                                for entry, total in zip(pair, totals, strict=True)
                            ]
                        for k, total in enumerate(totals):
                            m.store(self.y, to + x + k * w, total)
                if not length:
                    for x in m.loop(0, across, independent=True):
                        m.store(self.y, to + x, self.zero)
        factor, rows = (self.given, of.factor), (self.y, 0)
        substitute_inward(m, of.layout, factor, rows, rows, across)
        self._scale()

    def _scale(self) -> None:
        """Multiply rows by D^-1/2."""
        m, across = self.m, 2 * self.width
        for i in m.loop(0, self.n):
            root = m.load(self.given, i + self.of.roots)
            for x in m.loop(0, across, independent=True):
                m.store(self.y, i * across + x, m.mul(root, m.load(self.y, i * across + x)))

    def see(self, panel: Index) -> None:
        """Write r - A Y, and the changes of lasting shares and of gaps over h."""
        m, w, across = self.m, self.width, 2 * self.width
        stride, first = self.stride, m.lookup(self.firsts, panel)
        for contact in self._contacts():
            rows, k = self._rows_of_A(contact, range(3)), contact.k
            for x in m.loop(0, across, independent=True):
                totals = [self.zero] * 3
                for i, column in enumerate(contact.pushes):
                    value = m.load(self.y, column * across + x)
                    totals = [
                        m.add_product(row[i], value, total)
                        for row, total in zip(rows, totals, strict=True)
                    ]
                for axis, total in enumerate(totals):
                    m.store(self.seen, (k * 3 + axis) * across + x, total)
            kinds = [("T_1", "J_1"), ("T_2", "J_2"), ("bound_q1", "bound_v1")]
            changes = self._changes(contact, [*kinds, ("lasting_q1", "lasting_v1"), ("gap_q1", "")])
            for x, (*speeds, lasting, gap) in changes:
                bound, longer = (
                    m.load(self.seeds, (k * 2 + part) * stride + first + x) for part in range(2)
                )
                speeds[2] = m.add(speeds[2], bound)
                for axis, speed in enumerate(speeds):
                    other = m.load(self.seen, (k * 3 + axis) * across + x)
                    m.store(self.r, (k * 3 + axis) * w + x, m.add(speed, other))
                m.store(self.lasting, k * w + x, m.add(lasting, longer))
                other = m.load(self.seen, (k * 3 + 2) * across + x + w)
                m.store(self.gaps, k * w + x, m.add(gap, other))

    def _changes(
        self, contact: _Contact, kinds: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[Index, list[Number]]]:
        """Yield each direction, and there the changes of a contact with q_1 and v_1.

        Args:
            contact: The contact.
            kinds: Names of the rows by q_1 and by v_1; an empty name for none.
        """
        m, w = self.m, self.width
        entries = [[self._row(contact, name) if name else [] for name in names] for names in kinds]
        for x in m.loop(0, w, independent=True):
            totals = [self.zero] * len(kinds)
            for i, column in enumerate(contact.columns):
                for part, memory in enumerate((self.q1, self.v1)):
                    value = m.load(memory, column * w + x)
                    totals = [
                        m.add_product(rows[part][i], value, total) if rows[part] else total
                        for rows, total in zip(entries, totals, strict=True)
                    ]
            yield x, totals

    def push(self) -> None:
        """Write the changes of impulses and of timed impulses."""
        m, c, w, across = self.m, self.c, self.width, 2 * self.width
        self._respond(self.P, (self.p, across, 0))
        for k in m.loop(0, c):
            share = self._share(0, k)
            impulse = [
                m.load(self.given, k * 3 + (axis + self.of.problem + self.of.response.p))
                for axis in range(3)
            ]
            for x in m.loop(0, w, independent=True):
                longer = m.load(self.lasting, k * w + x)
                for axis, p in enumerate(impulse):
                    place = (k * 3 + axis) * across + x
                    value = m.mul(share, m.load(self.p, place))
                    m.store(self.p, place + w, m.add_product(p, longer, value))
        for _ in m.iterate(1, self._lands):
            self._hold()

    def _hold(self) -> None:
        """Let impulses that begin at different instants hold each other."""
        m, of, c, w, across = self.m, self.of, self.c, self.width, 2 * self.width
        for contact in self._contacts():
            k, share = contact.k, self._share(0, contact.k)
            speeds = [
                m.load(self.given, k * 3 + (axis + of.problem + of.response.b)) for axis in range(2)
            ]
            kinds = [("M_1", ""), ("M_2", ""), ("", "J_1"), ("", "J_2")]
            for x, changes in self._changes(contact, kinds):
                longer = m.load(self.lasting, k * w + x)
                for axis, speed in enumerate(speeds):
                    total = m.add_product(share, changes[axis + 2], changes[axis])
                    total = m.add_product(speed, longer, total)
                    other = m.load(self.seen, (k * 3 + axis) * across + x + w)
                    m.store(self.r, (k * 3 + axis) * w + x, m.add(total, other))
                m.store(self.r, (k * 3 + 2) * w + x, m.load(self.gaps, k * w + x))
        # in the place of what has been seen
        rows = (self.seen, across, 0)
        self._respond(self.P_moments, rows)
        # what lands has its timed impulse as the least one
        least = m.memory(c)
        for k in m.loop(0, c):
            lands = m.less(self.zero, m.load(self.given, k + of.moments))
            m.store(least, k, m.choose(lands, self.one, self.zero))
        self._multiply(
            lambda i, k: m.mul(m.load(least, k), m.load(self.P_moments, i * c + k + 9 * c * c)),
            (self.p, 3 * across, 2 * across + w),
            rows,
            (3 * c, c),
            more=rows,
        )
        for k in m.loop(0, 3 * c):
            for x in m.loop(0, w, independent=True):
                lands, place = self._lands(), k * across + w + x
                value = m.choose(lands, m.load(self.seen, k * across + x), m.load(self.p, place))
                m.store(self.p, place, value)

    def close_gaps(self) -> None:
        """Add the impulses that keep closed gaps closed to the timed ones."""
        m, c, w, across = self.m, self.c, self.width, 2 * self.width
        self._multiply(
            lambda i, k: m.load(self.seen_by, i * (3 * c) + k),
            (self.p, across, w),
            (self.gaps, w, 0),
            (c, 3 * c),
            more=(self.gaps, w, 0),
        )
        rows = (self.p, 3 * across, 2 * across + w)
        self._multiply(
            lambda i, k: m.load(self.R, i * c + k), (self.gaps, w, 0), rows, (c, c), more=rows
        )

    def move(self) -> None:
        """Write dw and ds."""
        m, of, across = self.m, self.of, 2 * self.width
        for contact in self._contacts():
            rows = self._rows_of_A(contact, range(3))
            for i, column in enumerate(contact.pushes):
                for x in m.loop(0, across, independent=True):
                    total = m.load(self.y, column * across + x)
                    for axis, row in enumerate(rows):
                        value = m.load(self.p, (contact.k * 3 + axis) * across + x)
                        total = m.add_product(row[i], value, total)
                    m.store(self.y, column * across + x, total)
        result = (self.y, 0)
        substitute_outward(
            m,
            of.layout,
            (self.given, of.factor),
            result,
            result,
            across,
            lambda i: m.load(self.given, i + of.roots),
        )

    def finish(self, panel: Index) -> None:
        """Write dq+ and dv+."""
        m, n, w, across = self.m, self.n, self.width, 2 * self.width
        first = m.lookup(self.firsts, panel)

        def moved(j: Index, x: Index) -> tuple[Number, Number, Number]:
            """Return dq_1, ds and dv_1 + dw of a variable."""
            place = j * across + x
            after = m.add(m.load(self.v1, j * w + x), m.load(self.y, place))
            return m.load(self.q1, j * w + x), m.load(self.y, place + w), after

        def store(row: Index, x: Index, value: Number) -> None:
            m.store(self.found, row * (3 * n) + first + x, value)

        place = 0
        for start, size in (*self.of.blocks, (n, 0)):
            for j in m.loop(place, start):
                for x in m.loop(0, self.count, independent=True):
                    q, s, v = moved(j, x)
                    store(j, x, m.add_product(self.h, s, q))
                    store(j + n, x, v)
            place = start + size
        place = self.of.own
        for begin, size in self.of.blocks:
            for i in m.loop(0, size):
                matrices = [
                    [m.load(self.given, (i + part * size) * size + k + place) for k in range(size)]
                    for part in range(len(BLOCKS))
                ]
                for x in m.loop(0, self.count, independent=True):
                    position = velocity = self.zero
                    for k, (M, C, Ov, Os) in enumerate(zip(*matrices, strict=True)):
                        q, s, v = moved(begin + k, x)
                        position = m.add_product(C, s, m.add_product(M, q, position))
                        velocity = m.add_product(Os, s, m.add_product(Ov, v, velocity))
                    store(i + begin, x, position)
                    store(i + (begin + n), x, velocity)
            place += len(BLOCKS) * size * size

    # products

    def _respond(self, P: Memory, found: Rows) -> None:
        """Write P r, of the impulses or of the moments."""
        m, c = self.m, self.c
        self._multiply(
            lambda i, k: m.load(P, i * (3 * c) + k), (self.r, self.width, 0), found, (3 * c, 3 * c)
        )

    def _multiply(
        self,
        left: Callable[[Index, Index], Number],
        right: Rows,
        found: Rows,
        sizes: tuple[int, int],
        *,
        more: Rows | None = None,
    ) -> None:
        """Write a matrix times rows of directions.

        Args:
            left: Returns an element of the matrix.
            right: The rows.
            found: Receives the product.
            sizes: Rows of the product, and rows that are multiplied.
            more: Rows to add it to.
        """
        m, (rows, inner) = self.m, sizes
        (source, length, first), (target, stride, begin) = right, found
        for number, terms in enumerate(self._parts(inner)):
            before = found if number > 0 else more
            for pair in self._pairs(rows):
                entries = [[left(i, k) for k in terms] for i in pair]
                for x in m.loop(0, self.width, independent=True):
                    totals = [self.zero for _ in pair]
                    if before is not None:
                        old, own, start = before
                        totals = [m.load(old, i * own + start + x) for i in pair]
                    for place, k in enumerate(terms):
                        other = m.load(source, k * length + first + x)
                        totals = [
                            m.add_product(row[place], other, total)
                            for row, total in zip(entries, totals, strict=True)
                        ]
                    for i, total in zip(pair, totals, strict=True):
                        m.store(target, i * stride + begin + x, total)

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
