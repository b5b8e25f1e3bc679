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

It is differentiated in reverse: 2 n results, dq+ and dv_end, are fewer than 3 n directions, and E
has the zeros of the tree. Results are the columns of all matrices below; first those that depend on
dmean, which are dq+ and dv_end of blocks, then the rest of dv_end. They go from velocities to
impulses, r, and what that is made of: v_f, da, and both velocity and gap at the start. The heavier
part, from impulses on, is done for a few results at a time, whose rows then stay close to the
processor where each holds several cases.

In the metric of H impulses act through the rows of A, which have few elements. The bound changes
with the normal velocity at the end by 1 in all cases, so that r is J dv_f and parts that depend on
da. Restitution needs the normal impulses of compression, too, whose r differs by a matrix times da.

M_a to O_p are block diagonal, a block per joint. For joints whose variables simply add they are 1,
0 or a part of the step; blocks are arguments for the other joints only. Elements of blocks that are
zero for all states, and variables by whose position no joint force changes, are not multiplied.
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

ABREAST = 3
"""Rows of blocks that are multiplied at a time."""

ONCE = "linearizations of steps with contact have no derivatives"


class ContactChain(Primitive):
    """Multiply the derivatives of all parts of a step with contact to those of the step.

    Arguments: h; E_q for `positions` and E_v, each column over its `related` rows; the factor of
    H_m; the factor of H and D^-1/2; F and F_s at their `places`; for each contact its `ROWS`, each
    over its support; S, twelve per contact; blocks in the order of `BLOCKS`; the contact problem
    and its solution, from which P and Q follow (`FrictionResponse`); values of each contact:
    `SHARES`; whether contacts land, 1 or 0; the problem of moments and its solution: b, least
    impulses, impulses, y and alpha. Where contacts may bounce also, for the compression: by how
    much its T and N after impulses differ, three rows per contact over its support, and its F; its
    solution: least impulses, impulses, y and alpha. Results: the derivatives of the step by
    position and velocity, 2 n rows of 2 n columns; those by force, 2 n rows of n columns.

    Attributes:
        size: Number of velocity variables, n.
        supports: For each contact the variables where its rows are not zero.
        blocks: First variable and number of variables of each joint with blocks of its own.
        zeros: Elements that are always zero, counted over all blocks as arguments have them.
        positions: Variables by whose position joint forces change.
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
        zeros: Sequence[int],
        positions: Sequence[int],
        places: Sequence[int],
        response: FrictionResponse,
        *,
        bounces: bool,
    ) -> None:
        self.supports = tuple(tuple(support) for support in supports)
        self.layout, self.size = TreeLayout(parents), len(parents)
        self.contacts, self.blocks = len(self.supports), tuple(blocks)
        self.places, self.response, self.bounces = tuple(places), response, bounces
        self.zeros, self.positions = frozenset(zeros), tuple(positions)
        lengths = [len(support) for support in self.supports]
        form = [*lengths, *itertools.chain(*self.supports), len(self.blocks)]
        form += [*itertools.chain(*self.blocks), response.size, *support_form(response.supports)]
        form += [int(bounces), len(self.places), *self.places, *(i + 1 for i in parents)]
        form += [len(self.zeros), *sorted(self.zeros), *self.positions]
        super().__init__("contact_chain", self.size, self.contacts, *form)
        n, c, count = self.size, self.contacts, len(self.places)
        related: list[set[int]] = [set() for _ in range(n)]
        for i, j in self.layout.elements():
            related[i].add(j)
            related[j].add(i)
        self.related = [sorted(rows) for rows in related]
        self.related_count = sum(map(len, related))
        self.position_count = sum(len(related[j]) for j in self.positions)
        self.support_count = sum(lengths)
        self.moved = self._moved()
        own = len(BLOCKS) * sum(count * count for _, count in self.blocks)
        rows = len(ROWS) * self.support_count
        self.share_count = len(SHARES) if bounces else WITHOUT_RETURN
        # the matrix and mu of all contact problems of a step are the same
        self.solution_count = 5 * c + response.size
        stored = self.layout.stored
        forces = self.position_count + self.related_count
        sizes = [1, forces, stored, stored, n, 2 * count, rows, 12 * c, own]
        sizes += [response.argument_count, self.share_count * c, 1 + 3 * c, self.solution_count]
        sizes += [3 * sum(lengths), count, self.solution_count] if bounces else [0, 0, 0]
        starts = (*itertools.accumulate(sizes, initial=0),)
        self.E, self.middle, self.factor, self.roots, self.F, self.rows, self.S = starts[1:8]
        self.own, self.problem, self.shares, self.lands, self.moments = starts[8:13]
        self.D, self.first_F, self.first, self.argument_count = starts[13:17]
        self.compression_count = self.first - self.D
        self.p = self.problem + response.p
        self.result_count = 6 * n * n

    def _moved(self) -> frozenset[int]:
        """Return the variables by whose initial position joint forces in the middle change."""
        moved, place = set(self.positions), 0
        for begin, size in self.blocks:
            for j in range(size):
                rows = [begin + k for k in range(size) if place + k * size + j not in self.zeros]
                if moved.isdisjoint(rows):
                    moved.discard(begin + j)
            place += len(BLOCKS) * size * size
        return frozenset(moved)

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


class _Block(NamedTuple):
    """A joint with blocks of its own, in a loop over those alike."""

    begin: Index
    """Its first variable."""

    size: int
    """Number of its variables."""

    first: Index
    """Place of its first matrix among the arguments."""

    zeros: frozenset[int]
    """Elements that are always zero, counted over its matrices."""

    moves: tuple[bool, ...]
    """Of each variable, whether joint forces change with its position."""

    def place(self, name: str, i: Index, k: Index) -> Index:
        """Return the place of an element of a matrix."""
        return self.first + self._number(name, i, k)

    def terms(self, name: str, i: int, *, turned: bool = False) -> tuple[int, ...]:
        """Return where a row of a matrix is not always zero; or a column, if `turned`."""
        return tuple(
            k
            for k in range(self.size)
            if self._number(name, *((k, i) if turned else (i, k))) not in self.zeros
        )

    def _number(self, name: str, i: Index, k: Index) -> Index:
        return (i + BLOCKS.index(name) * self.size) * self.size + k


def _moving(block: _Block, j: int) -> list[list[int]]:
    """Return where columns of M_m and C_m are not always zero, and joint forces change."""
    return [
        [k for k in block.terms(name, j, turned=True) if block.moves[k]] for name in ("Mm", "Cm")
    ]


Rows = tuple[Memory, int, Index]
"""Rows of results: memory, length, and place of the first element."""


class _Chain:
    """Rows of results, and the steps from one to the one before."""

    def __init__(self, m: Machine, given: Memory, found: Memory, of: ContactChain) -> None:
        self.m, self.given, self.found, self.of = m, given, found, of
        self.n, self.c = of.size, of.contacts
        n, c = self.n, self.c
        own = [j for begin, size in of.blocks for j in range(begin, begin + size)]
        self.order = [*own, *(j for j in range(n) if j not in own)]
        """Variables of dv_end as results have them."""
        self.means = n + len(own)
        """Number of results that depend on dmean."""
        self.width = width = self._lanes(2 * n)
        """Length of rows of all results."""
        self.panel = w = min(PANEL, 2 * n) if m.is_wide else width
        """Results of a panel."""
        self.zero, self.one, self.half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        self.minus = m.constant(-1.0)
        self.h = m.load(given, 0)
        self.count = 3 if of.bounces else 2
        self.row = self._lanes(n)
        """Length of rows of W of all kinds."""
        beside = 1 if m.is_wide else self.count
        self.parts, self.across = self.count // beside, self._lanes(beside * n)
        """How often there are `n` rows of X, and their length: parts are beside each other in one
        case, where vectors are longer, and one after the other in several, which fit in less."""
        self.X = m.memory(self.parts * n * self.across + self.row)
        """D^1/2 X, that of s and of the compression; then H^-1 F and H^-1 F_s."""
        self.W, self.W_gaps, self.W_moments = (m.memory(k * c * self.row) for k in (3, 1, 2))
        """Changes with da of r, of gaps over h, and of r of the tangential moments."""
        self.W_first = m.memory(3 * c * self.row) if of.bounces else None
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
        # derivatives of all results by da and v_f, besides impulses
        self.pulled, self.seeds = m.memory(n * width), m.memory(n * width)
        # by timed impulses, dp, r of tangential moments, gaps, and kinds of closing
        longer = max(width, self.parts * self.across)
        self.to_timed, self.to_p = m.memory(3 * c * width), m.memory(3 * c * longer + self.row)
        self.to_moments, self.to_gaps = m.memory(2 * c * width), m.memory(c * width)
        self.to_closing = m.memory(self.kinds * c * width)
        self.to_first = m.memory(3 * c * width) if of.bounces else None
        """By r of the compression."""
        # those of a panel: by r; by J v_f, J_n dv and J_0 dq; by da, v_f, joint forces, dv and dq
        self.to_r, self.to_seen = self.to_timed, m.memory(5 * c * w)
        self.to_a, self.to_free, self.to_force = (m.memory(n * w) for _ in range(3))
        self.to_v, self.to_q = m.memory(n * w), m.memory(n * w)
        self.turned = None if m.is_wide else m.memory(3 * n * width)
        """Results of one case, a direction in each row."""

    def _lanes(self, count: int) -> int:
        """Return the length of a row that loops run over."""
        return count if self.m.is_wide else -(-count // LANES) * LANES

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

    def _ranges(self) -> Iterator[tuple[Index, int, bool]]:
        """Visit the ranges of variables between blocks, in loops over neighbors alike.

        Yields the first variable, the number of variables, and whether joint forces change with
        their positions.
        """
        m, of, found, place = self.m, self.of, [], 0
        for start, count in (*of.blocks, (self.n, 0)):
            for moves, run in itertools.groupby(range(place, start), of.positions.__contains__):
                variables = [*run]
                found.append((variables[0], (len(variables), moves)))
            place = start + count
        for kind, group in itertools.groupby(found, key=lambda one: one[1]):
            starts = [start for start, _ in group]
            if len(starts) == 1:
                yield starts[0], *kind
                continue
            table = m.table(starts)
            for number in m.loop(0, len(starts)):
                yield m.lookup(table, number), *kind

    def _blocks(self) -> Iterator[_Block]:
        """Visit the blocks, in loops over neighbors alike."""
        m, of, found, place = self.m, self.of, [], 0
        for begin, size in of.blocks:
            count = len(BLOCKS) * size * size
            zeros = frozenset(i - place for i in of.zeros if place <= i < place + count)
            moves = tuple(j in of.positions for j in range(begin, begin + size))
            found.append((begin, place + of.own, (size, zeros, moves)))
            place += count
        for (size, zeros, moves), group in itertools.groupby(found, key=lambda one: one[2]):
            members = [*group]
            begin, first, _ = members[0]
            if len(members) == 1:
                yield _Block(begin, size, first, zeros, moves)
                continue
            table = m.table([begin for begin, *_ in members])
            for number in m.loop(0, len(members)):
                place = number * (len(BLOCKS) * size * size) + first
                yield _Block(m.lookup(table, number), size, place, zeros, moves)

    def _clear(self, memory: Memory, size: int) -> None:
        for i in self.m.loop(0, size, independent=True):
            self.m.store(memory, i, self.zero)

    def _lands(self) -> Truth:
        """Return whether contacts land."""
        return self.m.less(self.half, self.m.load(self.given, self.of.lands))

    # matrices of the parts of a step

    def displace(self) -> None:
        """Write X, W of all kinds, and what H^-1 F makes of results."""
        m, of, n, X, across = self.m, self.of, self.n, self.X, self.across
        count, each = len(of.places), self.count // self.parts
        table = m.table([(i // n) * across + i % n for i in of.places])
        starts = m.table((of.F, of.F + count, of.first_F)[: self.count])
        # what impulses do is not known yet
        factor, seen = (self.given, of.factor), self.to_p
        self._clear(X, self.parts * n * across)
        for part in m.loop(0, self.parts):
            first = part * (n * across)
            for place in m.loop(0, count):
                to = m.lookup(table, place) + first
                for k in range(each):
                    value = m.load(self.given, m.lookup(starts, part + k) + place)
                    m.store(X, to + k * n, value)
            substitute_inward(m, of.layout, factor, (X, first), (X, first), across)
            for contact in self._contacts():
                self._see_positions(contact, part, seen)
            substitute_outward(m, of.layout, factor, (X, first), (X, first), across, self._over_D)
        self._pose(seen)
        if not m.is_wide:
            # what fills up the rows
            self._clear(self.pulled, n * self.width)
        after, mean = ((X, across, self._place(k, n)) for k in range(2))
        self._pull((self.pulled, self.minus), n, mean=mean, after=after, both=self.pulled)

    def _over_D(self, i: Index) -> Number:
        """Return an element of D^-1."""
        root = self.m.load(self.given, i + self.of.roots)
        return self.m.mul(root, root)

    def _place(self, part: int, rows: int) -> int:
        """Return the place of a part of X, or of rows times X, of which there are some."""
        return part * rows * self.across if self.parts > 1 else part * self.n

    def _pose(self, seen: Memory) -> None:
        """Write W of all kinds, and the slopes of closing."""
        m = self.m
        over_h = m.div(self.one, self.h)
        for contact in self._contacts():
            k, row = contact.k, partial(self._row_of, contact)
            begun, normal = row("N_start"), row("J_n")
            by_gap, by_begun = self._slope(1, k), self._slope(2, k)
            bound = [
                m.add_product(by_begun, b, m.add_product(by_gap, x, a))
                for a, b, x in zip(row("N_after"), begun, normal, strict=True)
            ]
            add = partial(self._add_rows, contact, seen)
            for axis, entries in enumerate((row("T_1"), row("T_2"), bound)):
                add(self.W, k * 3 + axis, entries, (axis, 0))
            gap = [
                m.add_product(over_h, x, m.sub_product(self.one, b, a))
                for a, b, x in zip(row("N_mean"), begun, normal, strict=True)
            ]
            add(self.W_gaps, k, gap, (2, 1))
            for _ in m.iterate(1, self._lands):
                for axis, name in enumerate(("M_1", "M_2")):
                    add(self.W_moments, k * 2 + axis, row(name), (axis, 1))
            self._pose_closing(contact)
            for axis in range(3) if self.W_first is not None else ():
                first = contact.before * 3 + (self.of.D + axis * contact.length)
                entries = [m.load(self.given, first + i) for i in range(contact.length)]
                add(self.W_first, k * 3 + axis, entries, (axis, 2), (axis, 0))

    def _row_of(self, contact: _Contact, name: str) -> list[Number]:
        """Return one of the `ROWS` of a contact."""
        return [self.m.load(self.given, contact.place(name, i)) for i in range(contact.length)]

    def _see_positions(self, contact: _Contact, part: Index, seen: Memory) -> None:
        """Write the rows of A of a contact times X, or a part of it."""
        m, across = self.m, self.across
        roots = [m.load(self.given, column + self.of.roots) for column in contact.pushes]
        rows = [
            [m.mul(root, entry) for root, entry in zip(roots, row, strict=True)]
            for row in self._rows_of_A(contact, range(3))
        ]
        first, to = (
            part * (self.n * across),
            part * (3 * self.c * across) + contact.k * (3 * across),
        )
        for j in m.loop(0, across, independent=True):
            totals = [self.zero] * 3
            for i, column in enumerate(contact.pushes):
                other = m.load(self.X, column * across + first + j)
                totals = [
                    m.add_product(row[i], other, total)
                    for row, total in zip(rows, totals, strict=True)
                ]
            for axis, total in enumerate(totals):
                m.store(seen, to + axis * across + j, total)

    def _add_rows(
        self,
        contact: _Contact,
        seen: Memory,
        found: Memory,
        to: Index,
        entries: Sequence[Number],
        taken: tuple[int, int],
        other: tuple[int, int] | None = None,
    ) -> None:
        """Write a row over the support of a contact minus one of `seen`, plus another one.

        Rows of `seen` are named by axis and part of X.
        """
        m, first = self.m, to * self.row
        places = [
            (contact.k * 3 + axis) * self.across + self._place(part, 3 * self.c)
            for axis, part in (taken, other or taken)
        ]
        for j in m.loop(0, self.row, independent=True):
            more = self.zero if other is None else m.load(seen, places[1] + j)
            m.store(found, first + j, m.sub_product(self.one, m.load(seen, places[0] + j), more))
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
        m, of = self.m, self.of
        half_step = m.mul(self.half, self.h)
        lengths = [len(rows) for rows in of.related]
        starts = m.table([*itertools.accumulate(lengths, initial=0)])
        of_q = [lengths[j] if j in of.positions else 0 for j in range(self.n)]
        places = m.table([*itertools.accumulate(of_q, initial=of.E)])

        def by_q(j: Index, i: Index) -> Number:
            return m.load(self.given, m.lookup(places, j) + i)

        def by_v(j: Index, i: Index) -> Number:
            return m.load(self.given, m.lookup(starts, j) + i + (of.E + of.position_count))

        def write(part: int, j: Index, i: Index, value: Number) -> None:
            m.store(self.E, m.lookup(starts, j) + i + part * of.related_count, value)

        for begin, size, moves in self._ranges():
            count = m.lookup(starts, begin + size) - m.lookup(starts, begin)
            for i in m.loop(0, count, independent=True):
                value = by_v(begin, i)
                if moves:
                    change = by_q(begin, i)
                    write(0, begin, i, change)
                    value = m.add_product(half_step, change, value)
                write(1, begin, i, value)
        for block in self._blocks():
            begin = block.begin
            # all columns of a joint have the same rows
            count = m.lookup(starts, begin + 1) - m.lookup(starts, begin)
            for terms, group in itertools.groupby(range(block.size), partial(_moving, block)):
                columns = [*group]
                for j in m.loop(columns[0], columns[-1] + 1):
                    factors = [
                        {k: m.load(self.given, block.place(name, k, j)) for k in own}
                        for name, own in zip(("Mm", "Cm"), terms, strict=True)
                    ]
                    for i in m.loop(0, count, independent=True):
                        totals = [self.zero, by_v(j + begin, i)]
                        for k in sorted({*terms[0], *terms[1]}):
                            change = by_q(begin + k, i)
                            for part, own in enumerate(factors):
                                if k in own:
                                    totals[part] = m.add_product(own[k], change, totals[part])
                        for part, total in enumerate(totals):
                            if part or terms[0]:
                                write(part, j + begin, i, total)

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
        self._clear(self.to_gaps, c * width)
        self._clear(self.to_closing, self.kinds * c * width)
        self._clear(self.to_p, 3 * c * width)
        if not m.is_wide:
            # what fills up the rows
            self._clear(self.to_timed, 3 * c * width)
        # H^-1 J^T
        long = self._lanes(3 * c)
        pushed = m.memory(n * long)
        self._clear(pushed, n * long)
        for contact in self._contacts():
            for axis, entries in enumerate(self._rows_of_A(contact, range(3))):
                for entry, column in zip(entries, contact.pushes, strict=True):
                    m.store(pushed, column * long + contact.k * 3 + axis, entry)
        substitute_outward(
            m,
            self.of.layout,
            (self.given, self.of.factor),
            (pushed, 0),
            (pushed, 0),
            long,
            lambda i: m.load(self.given, i + self.of.roots),
        )
        rows = (pushed, long, 0)
        self._pull((self.to_timed, self.one), 3 * c, mean=rows, after=rows, both=self.to_p)
        # impulses that close gaps, and what gaps timed impulses leave
        lanes = self._lanes(self.means)
        self._multiply(
            lambda i, k: m.load(self.R, k * c + i),
            (self.to_timed, 3 * width, 2 * width),
            (self.to_gaps, width, 0),
            (c, c, lanes),
        )
        self._multiply(
            lambda i, k: m.load(self.seen, k * (3 * c) + i),
            (self.to_gaps, width, 0),
            (self.to_timed, width, 0),
            (3 * c, c, lanes),
            more=(self.to_timed, width, 0),
        )

    def _pull(
        self, to: tuple[Memory, Number], count: int, *, mean: Rows, after: Rows, both: Memory
    ) -> None:
        """Write the derivatives of all results by what velocities depend on.

        Args:
            to: Receives those through mean velocities; what they are multiplied by.
            count: Number of derivatives of a velocity.
            mean: Those of mean velocities, a row for each.
            after: Those of velocities after impulses.
            both: Receives those through velocities after impulses; may be the first memory.
        """
        m, n, width, (found, sign) = self.m, self.n, self.width, to
        places = m.table([self.order.index(j) + n for j in range(n)])
        step = m.mul(sign, self.h)
        for begin, size, _ in self._ranges():
            for i in m.loop(begin, begin + size):
                ahead = m.lookup(places, i)
                for j in m.loop(0, count):
                    value = m.load(mean[0], i * mean[1] + mean[2] + j)
                    m.store(found, j * width + i, m.mul(step, value))
                    value = m.load(after[0], i * after[1] + after[2] + j)
                    m.store(both, j * width + ahead, m.mul(sign, value))
        for block in self._blocks():
            size, lanes = block.size, self._lanes(count)
            mixed = m.memory(3 * size * lanes)

            for part, (name, rows) in enumerate((("C", mean), ("Om", mean), ("Op", after))):
                memory, stride, first = rows
                source = (name, memory, block.begin * stride + first, stride)
                for own, j, totals in self._products(block, (source,), lanes):
                    for i, total in zip(own, totals, strict=True):
                        m.store(mixed, (part * size + i) * lanes + j, m.mul(sign, total))
            for i in m.loop(0, size):
                ahead = m.lookup(places, block.begin + i)
                for j in m.loop(0, count):
                    values = [m.load(mixed, (i + part * size) * lanes + j) for part in range(3)]
                    m.store(found, j * width + block.begin + i, values[0])
                    if both is found:
                        values[2] = m.add(values[1], values[2])
                    else:
                        m.store(found, j * width + ahead, values[1])
                    m.store(both, j * width + ahead, values[2])

    def _hold(self) -> None:
        """Let impulses that begin at different instants hold each other."""
        m, c, width, lanes = self.m, self.c, self.width, self._lanes(self.means)
        b = self.of.problem + self.of.response.b
        held, least = m.memory(3 * c * lanes), m.memory(c * lanes)
        rows = (self.to_timed, width, 0)
        self._clear(self.to_moments, 2 * c * width)
        self._multiply(
            lambda i, k: m.load(self.P, k * (3 * c) + i),
            rows,
            (held, lanes, 0),
            (3 * c, 3 * c, lanes),
        )
        self._multiply(
            lambda i, k: m.load(self.P, k * c + i + 9 * c * c),
            rows,
            (least, lanes, 0),
            (c, 3 * c, lanes),
        )
        for k in m.loop(0, c):
            lands = m.less(self.zero, m.load(self.given, k + self.of.moments))
            speeds = [m.load(self.given, k * 3 + (axis + b)) for axis in range(2)]
            for x in m.loop(0, lanes, independent=True):
                of_lands, longer = self._lands(), self.zero
                for axis, speed in enumerate(speeds):
                    found = m.load(held, (k * 3 + axis) * lanes + x)
                    found = m.choose(of_lands, found, self.zero)
                    m.store(self.to_moments, (k * 2 + axis) * width + x, found)
                    longer = m.add_product(speed, found, longer)
                    at = (k * 3 + axis) * width + x
                    old = m.load(self.to_timed, at)
                    m.store(self.to_timed, at, m.choose(of_lands, self.zero, old))
                at = k * width + x
                m.store(self.to_closing, at, longer)
                found = m.choose(of_lands, m.load(held, (k * 3 + 2) * lanes + x), self.zero)
                m.store(self.to_gaps, at, m.add(m.load(self.to_gaps, at), found))
                at = (k * 3 + 2) * width + x
                found = m.choose(lands, m.load(least, k * lanes + x), self.zero)
                old = m.load(self.to_timed, at)
                m.store(self.to_timed, at, m.choose(of_lands, found, old))

    def _time(self) -> None:
        """Divide timed impulses into impulses and the shares of the step over which they last."""
        m, width = self.m, self.width
        for k in m.loop(0, self.c):
            lasting = self._share("lasting", k)
            impulse = [m.load(self.given, k * 3 + (axis + self.of.p)) for axis in range(3)]
            for x in m.loop(0, self._lanes(self.means), independent=True):
                longer = m.load(self.to_closing, k * width + x)
                for axis, factor in enumerate(impulse):
                    place = (k * 3 + axis) * width + x
                    value = m.load(self.to_timed, place)
                    longer = m.add_product(factor, value, longer)
                    old = m.load(self.to_p, place)
                    m.store(self.to_p, place, m.add_product(lasting, value, old))
                m.store(self.to_closing, k * width + x, longer)

    def _return(self) -> None:
        """Write the derivatives by approach, share, and r of the compression."""
        m, c, width = self.m, self.c, self.width
        returned, least = m.memory(c * width), m.memory(c * width)
        self._clear(returned, c * width)
        for k in m.loop(0, c):
            parts = [self._share(name, k) for name in SHARES[4:7]]
            of_sudden, of_share = self._weights(k)
            for x in m.loop(0, self._lanes(self.means), independent=True):
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

    def _panels(self) -> Iterator[tuple[Index, Index]]:
        """Visit all results, some at a time; the last panel may include some before.

        Yields the number of the panel, and its first result.
        """
        m, last = self.m, 2 * self.n - self.panel
        if last <= 0:
            yield 0, 0
            return
        table = m.table([min(k, last) for k in range(0, 2 * self.n, self.panel)])
        # the last ones first, which leave what is clear of what only others write
        for number in m.loop(0, -(-2 * self.n // self.panel), down=True):
            yield number, m.lookup(table, number)

    def _timed(self, number: Index) -> Iterator[int]:
        """Run the body for panels with results that impulses change by when they act.

        Yields the number of results, which are the first ones of a panel.
        """
        m, w = self.m, self.panel
        if self.of.bounces or not m.is_wide:
            yield w if self.of.bounces else self._lanes(self.means)
            return
        # panels of several cases have all of them or none
        last = m.constant(-(-self.means // w) - 0.5)
        for _ in m.iterate(1, lambda: m.less(m.number(number), last)):
            yield w

    def go_through(self) -> None:
        """Write the results by directions, but for what does not pass through the middle."""
        m, n, c, w, width = self.m, self.n, self.c, self.panel, self.width
        closes = m.memory(1)
        m.store(closes, 0, self.zero)
        for k in m.loop(0, c):
            for part in range(4, 12):
                slope = self._slope(part, k)
                m.store(closes, 0, m.add_product(slope, slope, m.load(closes, 0)))
        self._begin()
        self._clear(self.to_q, n * w)
        for number, first in self._panels():
            more = None
            if self.to_first is not None:
                more = (self.to_first, width, first)
            self._multiply(
                lambda i, k: m.load(self.P, k * (3 * c) + i),
                (self.to_p, width, first),
                (self.to_r, w, 0),
                (3 * c, 3 * c, w),
                more=more,
            )
            self._weigh(first)
            self._pull_rows(number, first)
            self._pull_positions(number, first, closes)
            self._pull_forces()
            self._write_columns(first)

    def _begin(self) -> None:
        """Write the derivatives by v_f, besides impulses."""
        m, n, width = self.m, self.n, self.width
        self._clear(self.seeds, n * width)
        places = m.table([self.order.index(j) + n for j in range(n)])
        step = m.mul(self.half, self.h)
        for begin, size, _ in self._ranges():
            for i in m.loop(begin, begin + size):
                m.store(self.seeds, i * width + i, step)
                m.store(self.seeds, i * width + m.lookup(places, i), self.one)
        for block in self._blocks():
            for i in m.loop(0, block.size):
                x = i + block.begin
                ahead = m.lookup(places, x)
                for k in m.loop(0, block.size):
                    row = (k + block.begin) * width
                    C, Om, Op = (
                        m.load(self.given, block.place(name, i, k)) for name in ("C", "Om", "Op")
                    )
                    m.store(self.seeds, row + x, m.mul(self.half, C))
                    m.store(self.seeds, row + ahead, m.add_product(self.half, Om, Op))

    def _weigh(self, first: Index) -> None:
        """Write the derivatives by velocities J v_f, then J_n dv, then J_0 dq."""
        m, c, w, width = self.m, self.c, self.panel, self.width
        minus_half = m.constant(-0.5)
        for k in m.loop(0, c):
            by_begun = self._slope(2, k)
            slopes = [
                [m.load(self.slopes, (k + kind * c) * 4 + part) for part in (0, 2, 3)]
                for kind in range(self.kinds)
            ]
            for x in m.loop(0, w, independent=True):
                r = [m.load(self.to_r, (k * 3 + axis) * w + x) for axis in range(3)]
                gap = m.load(self.to_gaps, k * width + first + x)
                normal = m.add_product(self.half, gap, r[2])
                begun = m.add_product(minus_half, gap, m.mul(by_begun, r[2]))
                start = self.zero
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

    def _pull_rows(self, number: Index, first: Index) -> None:
        """Add the rows of contacts: to the derivatives by v_f, and to those by dv and dq."""
        m, c, w, width = self.m, self.c, self.panel, self.width
        contacts, _, *tables, starts = self._touching(*ROWS[:4])
        for j, spots, is_first in self._touched():
            numbers = [m.lookup(contacts, spot) for spot in spots]
            entries = [[m.load(self.given, m.lookup(t, spot)) for t in tables] for spot in spots]
            for x in m.loop(0, w, independent=True):
                place = j * w + x
                free, begun = (
                    (m.load(self.seeds, j * width + first + x), self.zero)
                    if is_first
                    else (m.load(self.to_free, place), m.load(self.to_v, place))
                )
                for k, own in zip(numbers, entries, strict=True):
                    for part, entry in enumerate(own):
                        value = m.load(self.to_seen, (k + part * c) * w + x)
                        free = m.add_product(entry, value, free)
                    value = m.load(self.to_seen, (k + 3 * c) * w + x)
                    begun = m.add_product(own[2], value, begun)
                m.store(self.to_free, place, free)
                m.store(self.to_v, place, begun)
        for lanes in self._timed(number):
            for j, spots, is_first in self._touched():
                rows = [m.lookup(contacts, spot) + 4 * c for spot in spots]
                own = [m.load(self.given, m.lookup(starts, spot)) for spot in spots]
                for x in m.loop(0, lanes, independent=True):
                    total = self.zero if is_first else m.load(self.to_q, j * w + x)
                    for entry, row in zip(own, rows, strict=True):
                        total = m.add_product(entry, m.load(self.to_seen, row * w + x), total)
                    m.store(self.to_q, j * w + x, total)

    def _pull_positions(self, number: Index, first: Index, closes: Memory) -> None:
        """Write the derivatives by da."""
        m, n, c, w, width = self.m, self.n, self.c, self.panel, self.width
        found = (self.to_a, w, 0)

        def add(W: Memory, right: Rows, count: int, lanes: int, more: Rows = found) -> None:
            self._multiply(
                lambda i, k: m.load(W, k * self.row + i), right, found, (n, count, lanes), more=more
            )

        add(self.W, (self.to_r, w, 0), 3 * c, w, (self.pulled, width, first))
        if self.W_first is not None:
            add(self.W_first, (self.to_first, width, first), 3 * c, w)
        for lanes in self._timed(number):
            add(self.W_gaps, (self.to_gaps, width, first), c, lanes)
            for _ in m.iterate(1, self._lands):
                add(self.W_moments, (self.to_moments, width, first), 2 * c, lanes)
            for _ in m.iterate(1, lambda: m.less(self.zero, m.load(closes, 0))):
                contacts, places = self._touching()
                for j, spots, _ in self._touched():
                    terms = []
                    for spot in spots:
                        for kind in range(self.kinds):
                            place = m.lookup(places, spot) + kind * self.of.support_count
                            row = (m.lookup(contacts, spot) + kind * c) * width + first
                            terms.append((m.load(self.W_closing, place), row))
                    for x in m.loop(0, lanes, independent=True):
                        total = m.load(self.to_a, j * w + x)
                        for entry, row in terms:
                            total = m.add_product(entry, m.load(self.to_closing, row + x), total)
                        m.store(self.to_a, j * w + x, total)

    def _pull_forces(self) -> None:
        """Write the derivatives by joint forces."""
        m, of, w = self.m, self.of, self.panel
        for begin, size, _ in self._ranges():
            for i in m.loop(begin * w, (begin + size) * w, independent=True):
                m.store(self.to_force, i, m.mul(self.h, m.load(self.to_free, i)))
        for block in self._blocks():
            free = ("U", self.to_free, block.begin * w, w)
            for own, x, totals in self._products(block, (free,), w, turned=True):
                for i, total in zip(own, totals, strict=True):
                    m.store(self.to_force, (block.begin + i) * w + x, total)
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
        """Return a function of results: where the derivative by a direction is."""
        n, result = self.n, self._result()
        if self.turned is not None:
            return lambda x: (self.turned, direction * self.width + x)
        return lambda x: (self.found, result(first + x) * (2 * n) + direction)

    def _result(self) -> Callable[[Index], Index]:
        """Return a function of results in order: their rows of A and B."""
        m, n = self.m, self.n
        if self.order == [*range(n)]:
            return lambda x: x
        table = m.table([*range(n), *(j + n for j in self.order)])
        return lambda x: m.lookup(table, x)

    def _write_columns(self, first: Index) -> None:
        """Write the results of a panel by all directions."""
        m, n, w, square = self.m, self.n, self.panel, 4 * self.n * self.n
        result = self._result()
        for j in m.loop(0, n):
            for x in m.loop(0, w, independent=True):
                value = m.load(self.to_force, j * w + x)
                if self.turned is not None:
                    m.store(self.turned, (j + 2 * n) * self.width + x, value)
                else:
                    place = result(first + x) * n + (j + square)
                    m.store(self.found, place, value)
        for block in self._blocks():
            rows = block.begin * w
            position = (("Ma", self.to_a, rows, w),)
            velocity = (("Ca", self.to_a, rows, w), ("V", self.to_free, rows, w))
            for shift, parts, others in ((0, position, self.to_q), (n, velocity, self.to_v)):
                for own, x, totals in self._products(block, parts, w, turned=True):
                    for i, total in zip(own, totals, strict=True):
                        place = self._to(block.begin + (i + shift), first)
                        more = m.load(others, (block.begin + i) * w + x)
                        m.store(*place(x), m.add(total, more))
        groups: dict[tuple[int, bool, bool], list[tuple[int, int]]] = {}
        start = 0
        for j, related in enumerate(self.of.related):
            own_block = any(begin <= j < begin + size for begin, size in self.of.blocks)
            kind = (len(related), own_block, j in self.of.moved)
            groups.setdefault(kind, []).append((j, start))
            start += len(related)
        table = m.table([i * w for related in self.of.related for i in related])
        for (length, own_block, moves), members in groups.items():
            columns, starts = (m.table(part) for part in zip(*members, strict=True))
            for number in m.loop(0, len(members)):
                j, begin = m.lookup(columns, number), m.lookup(starts, number)
                for part, terms in enumerate(self._parts(length)):
                    places = [begin + term for term in terms]
                    adds = own_block or part > 0
                    self._add_column(j, first, table, places, adds=adds, moves=moves)

    def _add_column(
        self,
        j: Index,
        first: Index,
        table: Any,
        terms: Sequence[Index],
        *,
        adds: bool,
        moves: bool,
    ) -> None:
        """Add some elements of a column of E by position and velocity, times forces.

        Args:
            j: Its number.
            first: First result.
            table: Rows of `to_force` of all elements of E.
            terms: Numbers of the elements.
            adds: Whether to add to what has been written, else to the other parts of a column of
                which variables simply add.
            moves: Whether E changes with the position.
        """
        m, w = self.m, self.panel
        rows = [m.lookup(table, term) for term in terms]
        parts = (0, 1) if moves else (1,)
        entries = [
            {part: m.load(self.E, term + part * self.of.related_count) for part in parts}
            for term in terms
        ]
        to = {part: self._to(j + part * self.n, first) for part in range(2)}
        for x in m.loop(0, w, independent=True):
            if adds:
                totals = {part: m.load(*to[part](x)) for part in parts}
            else:
                place = j * w + x
                by_a = m.load(self.to_a, place)
                free = m.add(m.load(self.to_free, place), m.load(self.to_v, place))
                totals = {
                    0: m.add(by_a, m.load(self.to_q, place)),
                    1: m.add_product(self.h, by_a, free),
                }
            for row, own in zip(rows, entries, strict=True):
                force = m.load(self.to_force, row + x)
                for part, entry in own.items():
                    totals[part] = m.add_product(entry, force, totals[part])
            for part, total in totals.items():
                m.store(*to[part](x), total)

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
        more: Rows | None = None,
    ) -> None:
        """Write a matrix times rows of results.

        Args:
            left: Returns an element of the matrix.
            right: The rows.
            found: Receives the product.
            sizes: Rows of the product, rows that are multiplied, and their length.
            more: Rows to add it to.
        """
        m, (rows, inner, count) = self.m, sizes
        (source, length, first), (target, stride, begin) = right, found
        for number, terms in enumerate(self._parts(inner)):
            before = found if number > 0 else more
            for pair in self._pairs(rows):
                entries = [[left(i, k) for k in terms] for i in pair]
                for x in m.loop(0, count, independent=True):
                    places = [i * stride + begin + x for i in pair]
                    totals = [self.zero for _ in pair]
                    if before is not None:
                        old, own, start = before
                        totals = [m.load(old, i * own + start + x) for i in pair]
                    for place, k in enumerate(terms):
                        other = m.load(source, x + k * length + first)
                        totals = [
                            m.add_product(row[place], other, total)
                            for row, total in zip(entries, totals, strict=True)
                        ]
                    for at, total in zip(places, totals, strict=True):
                        m.store(target, at, total)

    def _products(
        self,
        block: _Block,
        parts: Sequence[tuple[str, Memory, Index, int]],
        count: int,
        *,
        turned: bool = False,
    ) -> Iterator[tuple[list[int], Index, list[Number]]]:
        """Yield numbers of rows of a block, places in rows, and there the sum of products.

        Args:
            block: The block.
            parts: Its matrices, and what each multiplies: memory, place and length of rows.
            count: Number of places.
            turned: Whether to take the transpose of matrices.
        """
        m = self.m

        def pattern(i: int) -> list[tuple[int, ...]]:
            return [block.terms(name, i, turned=turned) for name, *_ in parts]

        for terms, group in itertools.groupby(range(block.size), pattern):
            members = [*group]
            for begin in range(0, len(members), ABREAST):
                rows = members[begin : begin + ABREAST]
                entries = [
                    [
                        [
                            m.load(self.given, block.place(name, *((k, i) if turned else (i, k))))
                            for k in own
                        ]
                        for i in rows
                    ]
                    for (name, *_), own in zip(parts, terms, strict=True)
                ]
                for x in m.loop(0, count, independent=True):
                    totals = [self.zero for _ in rows]
                    for values, own, (_, right, first, stride) in zip(
                        entries, terms, parts, strict=True
                    ):
                        for place, k in enumerate(own):
                            other = m.load(right, first + k * stride + x)
                            totals = [
                                m.add_product(row[place], other, total)
                                for row, total in zip(values, totals, strict=True)
                            ]
                    yield rows, x, totals

    # the end of the step

    def finish(self) -> None:
        """Write results row by row; add half of dv in mean velocities, M and O_v."""
        m, n, found = self.m, self.n, self.found
        square = 4 * n * n
        if self.turned is not None:
            result = self._result()
            for x in m.loop(0, 2 * n):
                row = result(x)
                for start, before, count in ((0, 0, 2 * n), (square, 2 * n, n)):
                    for terms in self._parts(count):
                        for j in terms:
                            value = m.load(self.turned, (j + before) * self.width + x)
                            m.store(found, row * count + j + start, value)

        def add(i: Index, j: Index, value: Number) -> None:
            place = i * (2 * n) + j
            m.store(found, place, m.add(value, m.load(found, place)))

        step = m.mul(self.half, self.h)
        for begin, size, _ in self._ranges():
            for i in m.loop(begin, begin + size):
                add(i, i, self.one)
                add(i, i + n, step)
        for block in self._blocks():
            for i in m.loop(0, block.size):
                for k in m.loop(0, block.size):
                    row, column = i + block.begin, k + block.begin
                    M, C, Ov, Om = (
                        m.load(self.given, block.place(name, i, k))
                        for name in ("M", "C", "Ov", "Om")
                    )
                    add(row, column, M)
                    add(row, column + n, m.mul(self.half, C))
                    add(row + n, column + n, m.add_product(self.half, Om, Ov))
