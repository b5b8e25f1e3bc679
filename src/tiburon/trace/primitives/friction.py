"""Impulses at points with unilateral contact and Coulomb friction, by block Gauss-Seidel.

Symbols, per contact point, in its frame with axes t1, t2 along the surface and n normal to it:
    p       impulse on the second body, (p_t, p_n)
    u       relative velocity after the impulses, u = A A^T p + b
    A       three rows per contact: Jacobian of the contact points in the metric of the mass matrix,
            J H^-1/2
    y       A^T p
    mu      coefficient of friction
    p_0     least normal impulse: 0, or what decompression has to give

The problem: p_n >= p_0, u_n >= 0, (p_n - p_0) u_n = 0, |p_t| <= mu p_n, and where a point slips,
p_t = -mu p_n u_t / |u_t|. The matrix A A^T is never formed: a contact reads and changes y only
where its own rows are not zero, and the effort grows with the number of contacts, not its square.

Each visit of a contact solves its own problem exactly, with the impulses of all others fixed
(Jourdan, Alart and Jean 1998). With the normal impulse eliminated, u_t = e + S p_t and
p_n = a - c . p_t. A sticking point has u_t = 0; for a slipping one u_t = -alpha p_t, alpha > 0, so
that p_t(alpha) = -(S + alpha)^-1 e and

    mu p_n(alpha) / |p_t(alpha)| - 1 = 0

which Newton's method solves from the left: without coupling c the left-hand side is concave. Blocks
are regularized about the present impulse, so that solutions are those of the problem as given while
a singular block (a planar robot has no motion across its plane) does no harm.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tiburon.trace.graph import Graph
from tiburon.trace.primitives.friction_derivative import FrictionAdjoint, FrictionTangent
from tiburon.trace.primitives.primitive import (
    Index,
    Machine,
    Memory,
    Number,
    Primitive,
    Truth,
    is_zero_row,
)

__all__ = ["FrictionGaussSeidel"]

PROXIMAL = 1e-9
"""Regularization of a block, relative to the sum of its tangential diagonal."""

ROOT_TOLERANCE = 1e-13
"""Residual of the slip equation at which Newton's method ends."""

MOST_ROOT_STEPS = 30
"""Steps of Newton's method for one slipping contact."""


UNROLLED = 16
"""Columns of a support that are multiplied in straight-line code."""


class _Block(NamedTuple):
    """One contact with the impulses of all others fixed."""

    e: tuple[Number, Number]
    """Slip velocity without tangential impulse [m/s]."""
    S: tuple[Number, Number, Number]
    """Elements xx, xy, yy of the tangential matrix [1/kg]."""
    a: Number
    """Normal impulse without tangential impulse [N s]."""
    c: tuple[Number, Number]
    """Change of the normal impulse with the tangential one."""


class FrictionGaussSeidel(Primitive):
    """Solve for the impulses of all contacts.

    Arguments: A, for each contact its three rows over its support; b; mu; p_0; initial impulses.
    Results: impulses; y; alpha of each contact, 0 where it does not slip; the largest change of an
    impulse in the last sweep relative to the largest impulse; the number of sweeps.

    Attributes:
        size: Columns of A.
        supports: For each contact the columns where its rows are not zero.
        digits: Sweeps end at a relative change of 10^-digits.
        most: Most sweeps.
    """

    def __init__(
        self, size: int, supports: Sequence[Sequence[int]], digits: int, most: int
    ) -> None:
        lengths = [len(support) for support in supports]
        flat = [column for support in supports for column in support]
        super().__init__(
            "friction_gauss_seidel", size, digits, most, len(supports), *lengths, *flat
        )
        self.size = size
        self.supports = tuple(tuple(support) for support in supports)
        self.digits = digits
        self.most = most
        self._starts = list(itertools.accumulate((3 * x for x in lengths), initial=0))
        self.argument_count = self._starts[-1] + 8 * self.contacts
        self.result_count = 4 * self.contacts + size + 2

    @property
    def contacts(self) -> int:
        """Number of contact points."""
        return len(self.supports)

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Sweep over the contacts until the impulses stay the same."""
        count, n = self.contacts, 3 * self.contacts
        zero, one = m.constant(0.0), m.constant(1.0)
        work = _Work(given, found, m.memory(6 * count), m.memory(3), m.memory(1), m.memory(1), self)
        for i in m.loop(0, n):
            m.store(found, i, m.load(given, i + work.start))
        for i in m.loop(0, self.size):
            m.store(found, i + n, zero)
        for visit in self._visits(m, work):
            m.store(found, visit.k + (n + self.size), zero)
            visit.write_block()
            p = [m.load(found, visit.row + axis) for axis in range(3)]
            for _ in m.iterate(1, lambda p=p: _any(m, p)):  # type: ignore[misc]
                visit.push(p)
        # change of the last sweep, its bound, sweeps
        change, bound, sweeps = (m.memory(1) for _ in range(3))
        m.store(change, 0, one)
        m.store(bound, 0, zero)
        m.store(sweeps, 0, zero)

        def going() -> Truth:
            return m.less(m.load(bound, 0), m.load(change, 0))

        for _ in m.iterate(self.most, going):
            active = going()
            m.store(sweeps, 0, m.add(m.load(sweeps, 0), m.choose(active, one, zero)))
            m.store(work.change, 0, zero)
            m.store(work.largest, 0, zero)
            for visit in self._visits(m, work):
                self._visit(m, work, visit, active)
            limit = m.mul(m.constant(10.0**-self.digits), m.load(work.largest, 0))
            m.store(change, 0, m.choose(active, m.load(work.change, 0), m.load(change, 0)))
            m.store(bound, 0, m.choose(active, limit, m.load(bound, 0)))
        scale = m.mul(m.load(bound, 0), m.constant(10.0**self.digits))
        some = m.less(zero, scale)
        relative = m.div(m.load(change, 0), m.choose(some, scale, one))
        last = n + self.size + count
        m.store(found, last, m.choose(some, relative, m.load(change, 0)))
        m.store(found, last + 1, m.load(sweeps, 0))

    def _visits(self, m: Machine, work: _Work) -> Iterator[_Visit]:
        """Visit the contacts in order, in loops over neighbors with supports of the same length."""
        begin = 0
        while begin < self.contacts:
            length, end = len(self.supports[begin]), begin + 1
            while end < self.contacts and len(self.supports[end]) == length:
                end += 1
            group = self.supports[begin:end]
            columns = m.table([column for support in group for column in support])
            for place in m.loop(0, end - begin):
                yield _Visit(m, work, length, columns, place, begin, self._starts[begin])
            begin = end

    def _visit(self, m: Machine, work: _Work, visit: _Visit, active: Truth) -> None:
        """Solve the problem of one contact and move its impulse there."""
        found, row, zero = work.found, visit.row, m.constant(0.0)
        visit.write_velocity()
        p = [m.load(found, row + axis) for axis in range(3)]
        least = m.load(work.given, visit.k + work.least)
        block = visit.block(p, least)
        for _ in m.iterate(1, lambda: _any(m, [*p, block.a])):
            place = visit.k + (3 * self.contacts + self.size)
            mu = m.load(work.given, visit.k + work.mu)
            new = self._solved(m, block, mu, place, found, active)
            moved = []
            for axis in range(3):
                step = m.choose(active, _difference(m, new[axis], p[axis]), zero)
                moved.append(step)
                m.store(found, row + axis, m.add(p[axis], step))
                m.store(work.change, 0, _larger(m, m.load(work.change, 0), _absolute(m, step)))
                size = _absolute(m, new[axis])
                m.store(work.largest, 0, _larger(m, m.load(work.largest, 0), size))
            visit.push(moved)

    def _solved(
        self,
        m: Machine,
        block: _Block,
        mu: Number,
        place: Index,
        alphas: Memory,
        active: Truth,
    ) -> list[Number]:
        """Return the impulse of one contact; alpha stays where it is stored."""
        zero = m.constant(0.0)
        x, y = _tangential(m, block, zero)
        normal = _normal(m, block, x, y)
        limit = m.mul(mu, normal)
        square = m.add_product(x, x, m.mul(y, y))
        # beyond the cone, or on its wrong side
        slips = m.either(m.less(limit, zero), m.less(m.mul(limit, limit), square))
        frictionless = m.less_equal(m.mul(mu, block.a), zero)
        error, state = m.memory(1), m.memory(1)
        m.store(state, 0, m.choose(slips, m.load(alphas, place), zero))
        rough = m.choose(slips, m.constant(1.0), zero)
        m.store(error, 0, m.choose(frictionless, zero, rough))
        close = m.constant(ROOT_TOLERANCE)

        def open_root() -> Truth:
            return m.less(close, m.load(error, 0))

        for _ in m.iterate(MOST_ROOT_STEPS, open_root):
            pending, at = open_root(), m.load(state, 0)
            then, value = self._root_step(m, block, mu, at)
            m.store(state, 0, m.choose(pending, then, at))
            m.store(error, 0, m.choose(pending, _absolute(m, value), m.load(error, 0)))
        at = m.load(state, 0)
        m.store(alphas, place, m.choose(active, at, m.load(alphas, place)))
        x, y = _tangential(m, block, at)
        x, y = m.choose(frictionless, zero, x), m.choose(frictionless, zero, y)
        return [x, y, _normal(m, block, x, y)]

    def _root_step(
        self, m: Machine, block: _Block, mu: Number, at: Number
    ) -> tuple[Number, Number]:
        """Return the next alpha of Newton's method, and the residual at this one."""
        zero, one = m.constant(0.0), m.constant(1.0)
        xx, _, yy = block.S
        x, y = _tangential(m, block, at)
        normal = _normal(m, block, x, y)
        # derivative of p_t: -(S + alpha)^-1 p_t
        dx, dy = _tangential(m, block._replace(e=(x, y)), at)
        square = m.add_product(x, x, m.mul(y, y))
        length = m.sqrt(square)
        ratio = m.div(mu, length)
        value = m.add(m.mul(ratio, normal), m.constant(-1.0))
        along = m.div(m.add_product(x, dx, m.mul(y, dy)), square)
        falling = m.add_product(block.c[0], dx, m.mul(block.c[1], dy))
        slope = m.mul(ratio, m.sub_product(normal, along, _difference(m, zero, falling)))
        usable = m.less(zero, slope)
        then = m.sub_product(m.div(one, m.choose(usable, slope, one)), value, at)
        # where Newton's method is of no use, beyond the matrix itself
        far = m.add(m.add(at, at), m.add(xx, yy))
        then = m.choose(usable, then, far)
        return m.choose(m.less(then, zero), zero, then), value

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the tangents of impulses, y and alpha; see `friction_derivative`."""
        zero, used = graph.const(0.0), self._starts[-1] + 5 * self.contacts
        count = 4 * self.contacts + self.size
        # the start of the sweeps does not matter
        if is_zero_row(graph, tangents[:used]):
            return [zero] * self.result_count
        rule = FrictionTangent(self.size, self.supports)
        given = [*args[:used], *results[:count], *tangents[:used]]
        return [*graph.call(rule, given), zero, zero]

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoints of A, b, mu and p_0; see `friction_derivative`."""
        zero, used = graph.const(0.0), self._starts[-1] + 5 * self.contacts
        count = 4 * self.contacts + self.size
        start = [zero] * (3 * self.contacts)
        if is_zero_row(graph, adjoints[:count]):
            return [*[zero] * used, *start]
        rule = FrictionAdjoint(self.size, self.supports)
        given = [*args[:used], *results[:count], *adjoints[:count]]
        return [*graph.call(rule, given), *start]


class _Work:
    """Memory of a run of the primitive, and where its arguments begin."""

    def __init__(
        self,
        given: Memory,
        found: Memory,
        blocks: Memory,
        velocity: Memory,
        change: Memory,
        largest: Memory,
        primitive: FrictionGaussSeidel,
    ) -> None:
        self.given = given
        self.found = found
        self.blocks = blocks
        """Elements xx, xy, xn, yy, yn, nn of the diagonal block of each contact."""
        self.velocity = velocity
        """Relative velocity at the contact that is visited [m/s]."""
        self.change = change
        """Largest change of an impulse in this sweep."""
        self.largest = largest
        """Largest impulse."""
        self.y = 3 * primitive.contacts
        """Where y begins among the results."""
        self.b = primitive._starts[-1]
        self.mu = self.b + 3 * primitive.contacts
        self.least = self.mu + primitive.contacts
        self.start = self.least + primitive.contacts


class _Visit:
    """One contact: its rows of A and what they multiply."""

    def __init__(
        self,
        m: Machine,
        work: _Work,
        length: int,
        columns: Any,
        place: Index,
        begin: int,
        start: int,
    ) -> None:
        self.m = m
        self.work = work
        self.length = length
        self.k = place + begin
        """The contact."""
        self.row = self.k * 3
        """Its first row."""
        self._columns = columns
        self._first = place * length
        self._start = place * (3 * length) + start

    def _entry(self, axis: int, i: Index) -> Number:
        return self.m.load(self.work.given, self._start + axis * self.length + i)

    def _y(self, i: Index) -> Index:
        return self.m.lookup(self._columns, self._first + i) + self.work.y

    def _parts(self) -> Iterator[tuple[Index, int]]:
        """Go through the support in parts of at most `UNROLLED` columns."""
        whole, rest = divmod(self.length, UNROLLED)
        for part in self.m.loop(0, whole):
            yield part * UNROLLED, UNROLLED
        if rest:
            yield whole * UNROLLED, rest

    def write_block(self) -> None:
        """Write the diagonal block A_k A_k^T."""
        m, blocks, place = self.m, self.work.blocks, self.k * 6
        for i in range(6):
            m.store(blocks, place + i, m.constant(0.0))
        for first, count in self._parts():
            totals = [m.load(blocks, place + i) for i in range(6)]
            for i in range(count):
                x, y, n = (self._entry(axis, first + i) for axis in range(3))
                pairs = ((x, x), (x, y), (x, n), (y, y), (y, n), (n, n))
                totals = [
                    m.add_product(a, b, total) for (a, b), total in zip(pairs, totals, strict=True)
                ]
            for i, total in enumerate(totals):
                m.store(blocks, place + i, total)

    def write_velocity(self) -> None:
        """Write u = A_k y + b_k."""
        m, u = self.m, self.work.velocity
        for axis in range(3):
            m.store(u, axis, m.load(self.work.given, self.row + axis + self.work.b))
        for first, count in self._parts():
            totals = [m.load(u, axis) for axis in range(3)]
            for i in range(count):
                y = m.load(self.work.found, self._y(first + i))
                totals = [
                    m.add_product(self._entry(axis, first + i), y, total)
                    for axis, total in enumerate(totals)
                ]
            for axis, total in enumerate(totals):
                m.store(u, axis, total)

    def push(self, p: list[Number]) -> None:
        """Add A_k^T p to y."""
        m, found = self.m, self.work.found
        for first, count in self._parts():
            for i in range(count):
                place = self._y(first + i)
                total = m.load(found, place)
                for axis in range(3):
                    total = m.add_product(self._entry(axis, first + i), p[axis], total)
                m.store(found, place, total)

    def block(self, p: list[Number], least: Number) -> _Block:
        """Return the problem of this contact: touching, or with the least normal impulse."""
        m, zero = self.m, self.m.constant(0.0)
        xx, xy, xn, yy, yn, nn = (m.load(self.work.blocks, self.k * 6 + i) for i in range(6))
        u = [m.load(self.work.velocity, axis) for axis in range(3)]
        inverse = m.div(m.constant(1.0), nn)
        c = [m.mul(xn, inverse), m.mul(yn, inverse)]
        # normal impulse without the tangential one, whose effect on u_n is taken back
        a = m.sub_product(u[2], inverse, p[2])
        a = m.add_product(c[0], p[0], m.add_product(c[1], p[1], a))
        touches = m.less(least, a)
        a = m.choose(touches, a, least)
        c = [m.choose(touches, x, zero) for x in c]
        proximal = m.mul(m.constant(PROXIMAL), m.add(xx, yy))
        S = (
            m.add(m.sub_product(c[0], xn, xx), proximal),
            m.sub_product(c[0], yn, xy),
            m.add(m.sub_product(c[1], yn, yy), proximal),
        )
        # with the normal impulse that belongs to the present tangential one
        change = _difference(m, a, p[2])
        change = m.sub_product(c[0], p[0], m.sub_product(c[1], p[1], change))
        e = []
        for axis, (coupling, x, y) in enumerate(((xn, S[0], S[1]), (yn, S[1], S[2]))):
            total = m.add_product(coupling, change, u[axis])
            e.append(m.sub_product(x, p[0], m.sub_product(y, p[1], total)))
        return _Block((e[0], e[1]), S, a, (c[0], c[1]))


def _tangential(m: Machine, block: _Block, alpha: Number) -> tuple[Number, Number]:
    """Return p_t = -(S + alpha)^-1 e."""
    xx, xy, yy = block.S
    xx, yy = m.add(xx, alpha), m.add(yy, alpha)
    x, y = block.e
    scale = m.div(m.constant(-1.0), m.sub_product(xy, xy, m.mul(xx, yy)))
    return (
        m.mul(scale, m.sub_product(xy, y, m.mul(yy, x))),
        m.mul(scale, m.sub_product(xy, x, m.mul(xx, y))),
    )


def _normal(m: Machine, block: _Block, x: Number, y: Number) -> Number:
    """Return p_n = a - c . p_t."""
    return m.sub_product(block.c[0], x, m.sub_product(block.c[1], y, block.a))


def _difference(m: Machine, a: Number, b: Number) -> Number:
    return m.sub_product(m.constant(1.0), b, a)


def _absolute(m: Machine, a: Number) -> Number:
    zero = m.constant(0.0)
    return m.choose(m.less(a, zero), _difference(m, zero, a), a)


def _larger(m: Machine, a: Number, b: Number) -> Number:
    return m.choose(m.less(a, b), b, a)


def _any(m: Machine, values: list[Number]) -> Truth:
    """Return whether a value differs from zero."""
    total = m.constant(0.0)
    for value in values:
        total = m.add_product(value, value, total)
    return m.less(m.constant(0.0), total)
