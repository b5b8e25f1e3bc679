"""Derivatives of contact impulses with friction, by the implicit function theorem.

At the solution of `FrictionGaussSeidel` each contact is open, sticks or slides, and touches
(u_n = 0) or has the least normal impulse (p_n = p_0). As long as no contact changes its mode, the
solution obeys equations, which are differentiated here. Symbols beyond those of the solver, per
contact, with the slip direction s = u_t / |u_t| and t perpendicular to it:

    sticks       u_t = 0
    slides       p_t = -mu p_n s, u_t = -alpha p_t:
                 dp_s = -mu dp_n - p_n dmu,  du_t + alpha dp_t = 0 (their components along t)
    touches      u_n = 0
    least        dp_n = dp_0
    open         dp = 0

    z            unknowns: dp_s of points that stick, dp_t of those with friction, dp_n of those
                 that touch
    B, C         dp = B z + f; C^T du + D z = 0
    r            change of u at constant p: db + dA y + A dA^T p
    M            C^T A A^T B + D, with D = alpha for the unknowns dp_t

so that M z = -C^T (r + A A^T f). Where contact forces are indeterminate, M is singular:
impulses are indeterminate, and the shortest z is taken; the velocities of contacts that stick, or
all slide in one direction, do not depend on this choice. A point on its cone without slip counts as
sticking. Unknowns that a mode does not have are zero rows and columns of M.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from tiburon.errors import TraceError
from tiburon.trace.graph import Graph, Nodes
from tiburon.trace.primitives.orthogonal import ApplyOrthogonal, FactorOrthogonal, factor_size
from tiburon.trace.primitives.primitive import Index, Machine, Memory, Number, Primitive, Truth

MIN_SLIP_SHARE = 1e-6
"""Share of the largest tangential velocity without impulses below which a point does not slip."""

PIVOT_CUT = 1e-11
"""Pivots of M below this times the first belong to indeterminate impulses."""

SECOND_DERIVATIVE_ERROR = (
    "derivatives of contact impulses have no derivatives themselves; differentiate once"
)
"""What asking for second derivatives raises."""


class _AtSolution(Primitive):
    """A function of a contact problem, its solution, and more.

    Arguments: A, for each contact its three rows over its support; b; mu; p_0; impulses p; y;
    alpha; then those of the subclass.

    Attributes:
        size: Columns of A.
        supports: For each contact the columns where its rows are not zero.
    """

    def __init__(self, name: str, size: int, supports: Sequence[Sequence[int]], *form: int) -> None:
        self.size = size
        self.supports = tuple(tuple(support) for support in supports)
        lengths = [len(support) for support in self.supports]
        flat = [column for support in self.supports for column in support]
        super().__init__(name, size, len(self.supports), *form, *lengths, *flat)
        count = self.contacts
        self.entries = 3 * sum(lengths)
        """Number of elements of A."""
        places = itertools.accumulate(
            (self.entries, 3 * count, count, count, 3 * count, size, count), initial=0
        )
        self.b, self.mu, self.least, self.p, self.y, self.alpha, self.more = (*places,)[1:]

    @property
    def contacts(self) -> int:
        """Number of contact points."""
        return len(self.supports)

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Raise an error: there are no second derivatives."""
        raise TraceError(SECOND_DERIVATIVE_ERROR)

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Raise an error: there are no second derivatives."""
        raise TraceError(SECOND_DERIVATIVE_ERROR)


class _Modes:
    """The equations of all contacts in their modes, factored.

    Contacts have axes of their own from here on: s, t and n.
    """

    def __init__(self, m: Machine, given: Memory, of: _AtSolution) -> None:
        self.m, self.given, self.of = m, given, of
        self.n = 3 * of.contacts
        self.s = m.memory(2 * of.contacts)
        """Slip direction of each contact; the first axis where there is none."""
        self.flags = m.memory(self.n)
        """Whether there are the unknowns dp_s, dp_t and dp_n: 1 or 0."""
        self.sliding = m.memory(of.contacts)
        """mu where a contact slides, else 0."""
        self.slides = m.memory(of.contacts)
        self.holds = m.memory(of.contacts)
        """Whether a contact has the least normal impulse: 1 or 0."""
        self.rows = m.memory(self.n * of.size)
        """A in these axes, dense."""
        self._inverse: Memory = None
        self.matrix = m.memory(self.n * self.n)
        """M."""
        self._spread()
        self._classify()
        self._turn_rows()
        self._write_matrix()

    # A

    def _spread(self) -> None:
        """Write A as a dense matrix, still in the axes of the caller."""
        m, size = self.m, self.of.size
        for i in m.loop(0, self.n * size, independent=True):
            m.store(self.rows, i, m.constant(0.0))
        for k, place, columns in self._contacts():
            for axis in range(3):
                for i, column in enumerate(columns):
                    entry = m.load(self.given, place + (axis * len(columns) + i))
                    m.store(self.rows, (k * 3 + axis) * size + column, entry)

    def _contacts(self) -> Iterator[tuple[Index, Index, list[Index]]]:
        """Visit the contacts: number, place of the elements of A, and their columns.

        In loops over neighbors with equally long supports.
        """
        m, supports = self.m, self.of.supports
        begin = start = 0
        while begin < len(supports):
            length, end = len(supports[begin]), begin + 1
            while end < len(supports) and len(supports[end]) == length:
                end += 1
            table = m.table([column for support in supports[begin:end] for column in support])
            for number in m.loop(0, end - begin):
                columns = [m.lookup(table, number * length + i) for i in range(length)]
                yield number + begin, number * (3 * length) + start, columns
            start += 3 * length * (end - begin)
            begin = end

    def visit_entries(self, visit: Callable[[Index, Index, Index], None]) -> None:
        """Call with place, row and column of each element of A."""
        for k, place, columns in self._contacts():
            for axis in self.m.loop(0, 3):
                for i, column in enumerate(columns):
                    visit(place + axis * len(columns) + i, k * 3 + axis, column)

    # modes

    def _classify(self) -> None:
        """Decide on the mode of each contact."""
        m, of, given = self.m, self.of, self.given
        zero, one = m.constant(0.0), m.constant(1.0)
        largest = m.memory(1)
        m.store(largest, 0, zero)
        for k in m.loop(0, of.contacts):
            x, y = (m.load(given, k * 3 + (axis + of.b)) for axis in range(2))
            speed = m.sqrt(m.add_product(x, x, m.mul(y, y)))
            m.store(largest, 0, _larger(m, m.load(largest, 0), speed))
        still = m.mul(m.constant(MIN_SLIP_SHARE), m.load(largest, 0))
        for k, _, columns in self._contacts():
            x, y, normal = (m.load(given, k * 3 + (axis + of.p)) for axis in range(3))
            mu, least = m.load(given, k + of.mu), m.load(given, k + of.least)
            alpha = m.load(given, k + of.alpha)
            touches = m.choose(m.less(least, normal), one, zero)
            holds = m.choose(m.less(zero, least), m.sub_product(one, touches, one), zero)
            # without friction, the slip decides on the direction
            u = [self._velocity(k, axis, columns) for axis in range(2)]
            rough = m.less(zero, m.mul(mu, normal))
            slip_x = m.choose(rough, m.mul(x, m.constant(-1.0)), u[0])
            slip_y = m.choose(rough, m.mul(y, m.constant(-1.0)), u[1])
            length = m.sqrt(m.add_product(slip_x, slip_x, m.mul(slip_y, slip_y)))
            speed = m.choose(rough, m.mul(alpha, length), length)
            slides = m.choose(m.less(still, speed), one, zero)
            slides = m.choose(m.less(zero, length), slides, zero)
            divisor = m.choose(m.less(zero, length), length, one)
            acts = m.add(touches, holds)
            slides = m.mul(slides, acts)
            sliding = m.less(zero, slides)
            m.store(self.s, k * 2, m.choose(sliding, m.div(slip_x, divisor), one))
            m.store(self.s, k * 2 + 1, m.choose(sliding, m.div(slip_y, divisor), zero))
            friction = m.choose(rough, acts, zero)
            m.store(self.flags, k * 3, m.sub_product(friction, slides, friction))
            m.store(self.flags, k * 3 + 1, friction)
            m.store(self.flags, k * 3 + 2, touches)
            m.store(self.slides, k, slides)
            m.store(self.sliding, k, m.mul(slides, mu))
            m.store(self.holds, k, holds)

    def _velocity(self, k: Index, axis: int, columns: Sequence[Index]) -> Number:
        """Return a tangential velocity of a contact, in the axes of the caller."""
        m, of = self.m, self.of
        total = m.load(self.given, k * 3 + (axis + of.b))
        for j in columns:
            entry = m.load(self.rows, (k * 3 + axis) * of.size + j)
            total = m.add_product(entry, m.load(self.given, of.y + j), total)
        return total

    def turned(self, k: Index, x: Number, y: Number) -> tuple[Number, Number]:
        """Return tangential components along s and t."""
        m = self.m
        a, b = m.load(self.s, k * 2), m.load(self.s, k * 2 + 1)
        return m.add_product(a, x, m.mul(b, y)), m.sub_product(b, x, m.mul(a, y))

    def turned_back(self, k: Index, along: Number, across: Number) -> tuple[Number, Number]:
        """Return tangential components along the axes of the caller."""
        m = self.m
        a, b = m.load(self.s, k * 2), m.load(self.s, k * 2 + 1)
        return m.sub_product(b, across, m.mul(a, along)), m.add_product(b, along, m.mul(a, across))

    def _turn_rows(self) -> None:
        m, size = self.m, self.of.size
        for k in m.loop(0, self.of.contacts):
            for j in m.loop(0, size, independent=True):
                first, second = k * (3 * size) + j, k * (3 * size) + size + j
                along, across = self.turned(k, m.load(self.rows, first), m.load(self.rows, second))
                m.store(self.rows, first, along)
                m.store(self.rows, second, across)

    # M

    def _write_matrix(self) -> None:
        """Write M = C^T A A^T B + D, column by column from A^T."""
        m, n, size, matrix = self.m, self.n, self.of.size, self.matrix
        columns = m.memory(size * n)
        for i in m.loop(0, n):
            for j in m.loop(0, size, independent=True):
                m.store(columns, j * n + i, m.load(self.rows, i * size + j))
        for k, _, support in self._contacts():
            mu = m.load(self.sliding, k)
            rows = [
                [m.load(self.rows, (k * 3 + axis) * size + j) for j in support] for axis in range(3)
            ]
            # a normal impulse has a share of friction against the slip
            rows[2] = [m.sub_product(mu, x, y) for x, y in zip(rows[0], rows[2], strict=True)]
            own = [m.load(self.flags, k * 3 + axis) for axis in range(3)]
            for i in m.loop(0, n, independent=True):
                totals = [m.constant(0.0)] * 3
                for place, j in enumerate(support):
                    entry = m.load(columns, j * n + i)
                    totals = [
                        m.add_product(entry, row[place], total)
                        for row, total in zip(rows, totals, strict=True)
                    ]
                for axis, total in enumerate(totals):
                    flags = m.mul(m.load(self.flags, i), own[axis])
                    m.store(matrix, i * n + k * 3 + axis, m.mul(flags, total))
            across = (k * 3 + 1) * n + k * 3 + 1
            alpha = m.mul(m.load(self.slides, k), m.load(self.given, k + self.of.alpha))
            alpha = m.mul(alpha, m.load(self.flags, k * 3 + 1))
            m.store(matrix, across, m.add(m.load(matrix, across), alpha))

    def invert(self) -> None:
        """Write minus the inverse of M."""
        self._inverse = self.m.memory(self.n * self.n)
        write_negative_inverse(self.m, self.matrix, self.flags, self._inverse, self.n)

    def solve(self, right: Memory, *, transposed: bool = False) -> Memory:
        """Return minus the inverse of M, or its transpose, times a vector."""
        m, n = self.m, self.n
        found = m.memory(n)
        for i in m.loop(0, n):
            m.store(found, i, m.constant(0.0))
            for j in m.loop(0, n):
                entry = m.load(self._inverse, j * n + i if transposed else i * n + j)
                total = m.add_product(entry, m.load(right, j), m.load(found, i))
                m.store(found, i, total)
        return found

    def impulses(self, z: Memory, f: Memory, found: Memory) -> None:
        """Write dp = B z + f, all in these axes."""
        m = self.m
        for k in m.loop(0, self.of.contacts):
            parts = [
                m.mul(m.load(self.flags, k * 3 + axis), m.load(z, k * 3 + axis))
                for axis in range(3)
            ]
            parts[0] = m.sub_product(m.load(self.sliding, k), parts[2], parts[0])
            for axis in range(3):
                m.store(found, k * 3 + axis, m.add(parts[axis], m.load(f, k * 3 + axis)))

    def pushed(self, p: Memory, y: Memory) -> None:
        """Add A^T p to y, p in these axes."""
        m, size = self.m, self.of.size
        for i in m.loop(0, self.n):
            value = m.load(p, i)
            for j in m.loop(0, size):
                entry = m.load(self.rows, i * size + j)
                m.store(y, j, m.add_product(entry, value, m.load(y, j)))

    def seen(self, y: Memory, u: Memory) -> None:
        """Add A y to u, in these axes."""
        m, size = self.m, self.of.size
        for i in m.loop(0, self.n):
            for j in m.loop(0, size):
                entry = m.load(self.rows, i * size + j)
                m.store(u, i, m.add_product(entry, m.load(y, j), m.load(u, i)))

    def forced(self, k: Index, of_mu: Number, of_least: Number, f: Memory) -> None:
        """Write f of a contact: what friction and least impulse change by themselves."""
        m = self.m
        normal = m.mul(m.load(self.holds, k), of_least)
        p = m.load(self.given, k * 3 + (2 + self.of.p))
        along = m.mul(m.mul(m.load(self.slides, k), p), of_mu)
        along = m.add_product(m.load(self.sliding, k), normal, along)
        m.store(f, k * 3, m.mul(along, m.constant(-1.0)))
        m.store(f, k * 3 + 1, m.constant(0.0))
        m.store(f, k * 3 + 2, normal)


class FrictionTangent(_AtSolution):
    """Tangents of impulses, y and alpha along one direction.

    Further arguments: tangents of A, b, mu and p_0. Results: those of p, y and alpha.
    """

    def __init__(self, size: int, supports: Sequence[Sequence[int]]) -> None:
        super().__init__("friction_tangent", size, supports)
        self.argument_count = self.more + self.entries + 5 * self.contacts
        self.result_count = 4 * self.contacts + size

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Change y and u at constant impulses, solve for those, and add their effect."""
        modes = _Modes(m, given, self)
        modes.invert()
        n, size, count, zero = modes.n, self.size, self.contacts, m.constant(0.0)
        at_b = self.more + self.entries
        at_mu, at_least = at_b + n, at_b + n + count
        # dA^T p and dA y + db, in the axes of the caller
        dy, du, f = m.memory(size), m.memory(n), m.memory(n)
        for j in m.loop(0, size):
            m.store(dy, j, zero)
        for i in m.loop(0, n):
            m.store(du, i, m.load(given, i + at_b))

        def add(place: Index, row: Index, column: Index) -> None:
            change = m.load(given, place + self.more)
            p, y = m.load(given, row + self.p), m.load(given, column + self.y)
            m.store(dy, column, m.add_product(change, p, m.load(dy, column)))
            m.store(du, row, m.add_product(change, y, m.load(du, row)))

        modes.visit_entries(add)
        for k in m.loop(0, count):
            x, y = modes.turned(k, m.load(du, k * 3), m.load(du, k * 3 + 1))
            m.store(du, k * 3, x)
            m.store(du, k * 3 + 1, y)
            modes.forced(k, m.load(given, k + at_mu), m.load(given, k + at_least), f)
        modes.pushed(f, dy)
        modes.seen(dy, du)
        dp, none = m.memory(n), m.memory(n)
        for i in m.loop(0, n):
            m.store(none, i, zero)
        z = modes.solve(du)
        modes.impulses(z, none, dp)
        extra = m.memory(size)
        for j in m.loop(0, size):
            m.store(extra, j, zero)
        modes.pushed(dp, extra)
        modes.seen(extra, du)
        for j in m.loop(0, size):
            m.store(found, j + n, m.add(m.load(dy, j), m.load(extra, j)))
        for k in m.loop(0, count):
            parts = [m.add(m.load(dp, k * 3 + axis), m.load(f, k * 3 + axis)) for axis in range(3)]
            x, y = modes.turned_back(k, parts[0], parts[1])
            m.store(found, k * 3, x)
            m.store(found, k * 3 + 1, y)
            m.store(found, k * 3 + 2, parts[2])
            # along s: p_s = -|p_t|, so that dalpha = (du_s + alpha dp_s) / |p_t|
            scale, alpha = _slip_scale(m, given, self, modes, k)
            change = m.add_product(alpha, parts[0], m.load(du, k * 3))
            m.store(found, k + (n + size), m.mul(scale, change))


def _slip_scale(
    m: Machine, given: Memory, of: _AtSolution, modes: _Modes, k: Index
) -> tuple[Number, Number]:
    """Return 1 / |p_t| of a contact that slides with friction, else 0; and its alpha."""
    x, y = (m.load(given, k * 3 + (axis + of.p)) for axis in range(2))
    length = m.sqrt(m.add_product(x, x, m.mul(y, y)))
    slides = m.load(modes.slides, k)
    usable = m.less(m.constant(0.0), m.mul(slides, length))
    scale = m.div(slides, m.choose(usable, length, m.constant(1.0)))
    return m.choose(usable, scale, m.constant(0.0)), m.load(given, k + of.alpha)


class FrictionAdjoint(_AtSolution):
    """Adjoints of A, b, mu and p_0.

    Further arguments: adjoints of p, y and alpha.
    """

    def __init__(self, size: int, supports: Sequence[Sequence[int]]) -> None:
        super().__init__("friction_adjoint", size, supports)
        self.argument_count = self.more + 4 * self.contacts + size
        self.result_count = self.entries + 5 * self.contacts

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Run the steps of `FrictionTangent` backward, each transposed."""
        modes = _Modes(m, given, self)
        modes.invert()
        n, size, count, zero = modes.n, self.size, self.contacts, m.constant(0.0)
        at_y, at_alpha = self.more + n, self.more + n + size
        # adjoints of dp and of du, in the axes of the contacts, and of dy
        p, u, w = m.memory(n), m.memory(n), m.memory(size)
        for k in m.loop(0, count):
            x, y = modes.turned(
                k, m.load(given, k * 3 + self.more), m.load(given, k * 3 + (1 + self.more))
            )
            scale, alpha = _slip_scale(m, given, self, modes, k)
            weight = m.mul(scale, m.load(given, k + at_alpha))
            m.store(p, k * 3, m.add_product(alpha, weight, x))
            m.store(p, k * 3 + 1, y)
            m.store(p, k * 3 + 2, m.load(given, k * 3 + (2 + self.more)))
            m.store(u, k * 3, weight)
            m.store(u, k * 3 + 1, zero)
            m.store(u, k * 3 + 2, zero)
        # u = A y: what reaches dy through du, and through it dp
        for j in m.loop(0, size):
            m.store(w, j, m.load(given, j + at_y))
        modes.pushed(u, w)
        modes.seen(w, p)
        # z = -M^-1 C^T du, dp = B z
        z = m.memory(n)
        for k in m.loop(0, count):
            along = m.load(p, k * 3)
            normal = m.sub_product(m.load(modes.sliding, k), along, m.load(p, k * 3 + 2))
            parts = (along, m.load(p, k * 3 + 1), normal)
            for axis in range(3):
                m.store(z, k * 3 + axis, parts[axis])
        z = modes.solve(z, transposed=True)
        for i in m.loop(0, n):
            m.store(u, i, m.add(m.load(u, i), m.load(z, i)))
        # r reaches du, and f reaches p, both through dy
        modes.pushed(z, w)
        extra, none = m.memory(n), m.memory(size)
        for i in m.loop(0, n):
            m.store(extra, i, zero)
        for j in m.loop(0, size):
            m.store(none, j, zero)
        modes.pushed(z, none)
        modes.seen(none, extra)
        for k in m.loop(0, count):
            along, normal = (
                m.add(m.load(p, k * 3 + axis), m.load(extra, k * 3 + axis)) for axis in (0, 2)
            )
            slides, mu = m.load(modes.slides, k), m.load(modes.sliding, k)
            impulse = m.load(given, k * 3 + (2 + self.p))
            of_mu = m.mul(m.mul(slides, impulse), m.mul(along, m.constant(-1.0)))
            of_least = m.mul(m.load(modes.holds, k), m.sub_product(mu, along, normal))
            m.store(found, k + (self.entries + n), of_mu)
            m.store(found, k + (self.entries + n + count), of_least)
            x, y = modes.turned_back(k, m.load(u, k * 3), m.load(u, k * 3 + 1))
            for axis, value in enumerate((x, y, m.load(u, k * 3 + 2))):
                m.store(found, k * 3 + (axis + self.entries), value)

        def write(place: Index, row: Index, column: Index) -> None:
            impulse, y = m.load(given, row + self.p), m.load(given, column + self.y)
            weight = m.load(found, row + self.entries)
            m.store(found, place, m.add_product(impulse, m.load(w, column), m.mul(weight, y)))

        modes.visit_entries(write)


class FrictionResponse(_AtSolution):
    """Derivatives of impulses by the velocities without impulses, and by the least impulses.

    With A unchanged, b stands for all that changes u at constant impulses. Results: dp/db, three
    rows per contact and as many columns; dp/dp_0, with one column per contact.
    """

    def __init__(self, size: int, supports: Sequence[Sequence[int]]) -> None:
        super().__init__("friction_response", size, supports)
        self.argument_count = self.more
        self.result_count = 12 * self.contacts**2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Invert M, and turn rows and columns into the axes of the caller."""
        modes = _Modes(m, given, self)
        n, size, count = modes.n, self.size, self.contacts
        zero, one = m.constant(0.0), m.constant(1.0)
        # each step replaces what the one before left in the same place
        inverse = found
        write_negative_inverse(m, modes.matrix, modes.flags, inverse, n)
        # dp = B z, three rows and columns at a time
        for k in m.loop(0, count):
            mu = m.load(modes.sliding, k)
            for other in m.loop(0, count):
                rows = []
                for axis in range(3):
                    first = (k * 3 + axis) * n + other * 3
                    entries = [m.load(inverse, first + j) for j in range(3)]
                    rows.append([*modes.turned_back(other, *entries[:2]), entries[2]])
                for j, (along, across, normal) in enumerate(zip(*rows, strict=True)):
                    x, y = modes.turned_back(k, m.sub_product(mu, normal, along), across)
                    for axis, value in enumerate((x, y, normal)):
                        m.store(found, (k * 3 + axis) * n + other * 3 + j, value)
        for i in m.loop(n * n, n * (n + count)):
            m.store(found, i, zero)
        some = m.memory(1)
        m.store(some, 0, zero)
        for k in m.loop(0, count):
            m.store(some, 0, m.add(m.load(some, 0), m.load(modes.holds, k)))
        for _ in m.iterate(1, lambda: m.less(zero, m.load(some, 0))):
            f, y, u = m.memory(n), m.memory(size), m.memory(n)
            for k in m.loop(0, count):
                for i in m.loop(0, n):
                    m.store(f, i, zero)
                    m.store(u, i, zero)
                for j in m.loop(0, size):
                    m.store(y, j, zero)
                modes.forced(k, zero, one, f)
                modes.pushed(f, y)
                modes.seen(y, u)
                self._add_least(m, modes, (u, f), found, k)

    def _add_least(
        self, m: Machine, modes: _Modes, change: tuple[Memory, Memory], found: Memory, k: Index
    ) -> None:
        """Write f, and the impulses that keep the modes while f changes u, as column k."""
        n, count, (u, f) = modes.n, self.contacts, change
        for vector in (u, f):
            for i in m.loop(0, count):
                x, y = modes.turned_back(i, m.load(vector, i * 3), m.load(vector, i * 3 + 1))
                m.store(vector, i * 3, x)
                m.store(vector, i * 3 + 1, y)
        for i in m.loop(0, n):
            place = i * count + k + n * n
            m.store(found, place, m.load(f, i))
            for j in m.loop(0, n):
                entry = m.load(found, i * n + j)
                m.store(found, place, m.add_product(entry, m.load(u, j), m.load(found, place)))


LANES = 8
"""Rows of one case are filled up with zeros to a multiple of this: loops without a remainder."""

MOST_FILLED = 64
"""Length of rows up to which they are filled up; longer ones hardly gain."""

MIN_PIVOT_SHARE = 1e-6
"""Share of a diagonal element that must be left as its pivot, else the matrix is factored."""


def write_negative_inverse(
    m: Machine, matrix: Memory, flags: Memory, found: Memory, size: int
) -> None:
    """Write minus the inverse of a matrix over the unknowns that there are, zero elsewhere.

    Elimination on the diagonal, in place: matrices of contact problems are symmetric and positive,
    or close to it. Where a pivot vanishes, the pseudo-inverse by an orthogonal factorization.

    Args:
        m: The machine.
        matrix: Row by row; only read.
        flags: Whether there is each unknown: 1 or 0.
        found: Receives the inverse, row by row.
        size: Rows.
    """
    zero, one, minus = (m.constant(x) for x in (0.0, 1.0, -1.0))
    wide = size if m.is_wide or size > MOST_FILLED else -(-size // LANES) * LANES
    unsafe, row = m.memory(1), m.memory(wide)
    work = found if wide == size else m.memory(size * wide)
    m.store(unsafe, 0, zero)
    for i in m.loop(0, size):
        flag = m.load(flags, i)
        for j in m.loop(0, size, independent=True):
            value = m.mul(m.mul(flag, m.load(flags, j)), m.load(matrix, i * size + j))
            m.store(work, i * wide + j, value)
        for j in range(size, wide):
            m.store(work, i * wide + j, zero)
        place = i * wide + i
        m.store(work, place, m.add(m.load(work, place), m.sub_product(one, flag, one)))
    for k in m.loop(0, size):
        pivot = m.load(work, k * wide + k)
        flag = m.load(flags, k)
        first = m.mul(flag, m.load(matrix, k * size + k))
        first = m.add(first, m.sub_product(one, flag, one))
        small = m.less_equal(
            _absolute(m, pivot), m.mul(m.constant(MIN_PIVOT_SHARE), _absolute(m, first))
        )
        m.store(unsafe, 0, m.choose(small, one, m.load(unsafe, 0)))
        inverse = m.div(one, m.choose(small, one, pivot))
        for j in m.loop(0, wide, independent=True):
            m.store(row, j, m.mul(inverse, m.load(work, k * wide + j)))
        for i in m.loop(0, size):
            factor = m.load(work, i * wide + k)
            for j in m.loop(0, wide, independent=True):
                value = m.sub_product(factor, m.load(row, j), m.load(work, i * wide + j))
                m.store(work, i * wide + j, value)
            m.store(work, i * wide + k, m.mul(m.mul(factor, inverse), minus))
        for j in m.loop(0, wide, independent=True):
            m.store(work, k * wide + j, m.load(row, j))
        m.store(work, k * wide + k, inverse)
    for i in m.loop(0, size):
        flag = m.mul(minus, m.load(flags, i))
        for j in m.loop(0, size, independent=True):
            value = m.mul(m.mul(flag, m.load(flags, j)), m.load(work, i * wide + j))
            m.store(found, i * size + j, value)

    def failed() -> Truth:
        return m.less(zero, m.load(unsafe, 0))

    for _ in m.iterate(1, failed):
        bad, place = failed(), factor_size(size, size)
        given, factor, column = m.memory(size * size + 1), m.memory(place + max(size, 2)), row
        for i in m.loop(0, size):
            flag = m.mul(minus, m.load(flags, i))
            for j in m.loop(0, size, independent=True):
                value = m.mul(m.mul(flag, m.load(flags, j)), m.load(matrix, i * size + j))
                m.store(given, i * size + j, value)
        m.store(given, size * size, m.constant(PIVOT_CUT))
        FactorOrthogonal(size, size).write(m, given, factor)
        for k in m.loop(0, size):
            # rank and ratio of the factor make room for the vector
            for i in m.loop(0, size):
                m.store(factor, i + place, zero)
            m.store(factor, k + place, one)
            ApplyOrthogonal(size, size, "P").write(m, factor, column)
            for i in m.loop(0, size):
                old = m.load(found, i * size + k)
                m.store(found, i * size + k, m.choose(bad, m.load(column, i), old))


def _absolute(m: Machine, a: Number) -> Number:
    zero = m.constant(0.0)
    return m.choose(m.less(a, zero), m.mul(a, m.constant(-1.0)), a)


def _larger(m: Machine, a: Number, b: Number) -> Number:
    return m.choose(m.less(a, b), b, a)
