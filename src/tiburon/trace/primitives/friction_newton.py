"""Impulses of contacts by the convex law: Newton's method on velocities, with a line search.

Convex law (Anitescu 2006): p in K, u in the dual cone, p . u = 0. A point that slides lifts off
with u_n = mu |u_t|. Symbols beyond those of `friction.py`, per contact:

    K       impulses with |p_t| <= mu p_n and p_n >= p_0
    c       impulse of the iterate before
    r       1e6 / trace G, ten times larger with each further problem up to 1e8 / trace G; a second
            attempt begins with 1e5 / trace G, further ones with 1e4 / trace G
    g(y)    proj_K(c - r u): the impulse at u = A y + b

    minimize |y|^2 / 2 + sum |g|^2 / (2 r):    y = A^T g

This is a convex problem without constraints for any c, and Newton's method with a line search
solves it from anywhere. Its solution with g = c solves the contact problem, whatever r is: c is
replaced by g until it stays (a proximal, or augmented Lagrangian, method). Dependent contacts do no
harm.

The Hessian 1 + A^T W A, with W = -dg/du positive semidefinite, has as many rows as there are
velocities, and is as sparse as the tree (`sparse_system`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tiburon.trace.primitives.primitive import Machine, Number, Truth

if TYPE_CHECKING:
    from tiburon.trace.primitives.friction import GaussSeidel, Row, Visit
    from tiburon.trace.primitives.sparse_system import SparseSystem

MOST_COLUMNS = 120
"""Velocities up to which the method is used."""

STIFFNESS = 1e6
"""r times the mean diagonal element of a block."""

STIFFENING, MOST_STIFFER = 10.0, 100.0
"""Growth of r from problem to problem, and its bound."""

LEAST_STIFF = 0.01
"""What r is at least multiplied by in further attempts: contacts about to slide change their modes
less often where r is small."""

MOST_STEPS = 600
"""Newton steps in one solution: those of pads about to slide may need 500."""

MOST_TRIALS = 12
"""Evaluations of a line search."""

LINE_SEARCH_SLOPE = 0.1
"""Slope along a step, relative to that at its start, at which the line search ends."""

GRADIENT_TOLERANCE = 1e-7
"""Gradient relative to y at which c is replaced."""


class Projection(NamedTuple):
    """An impulse that follows from x, and the parts of its derivative."""

    value: list[Number]
    """The impulse."""

    t: tuple[Number, Number]
    """Direction of the tangential part; zero where there is none."""

    along: Number
    """Change of the tangential part along t with that of x along t, the normal one fixed."""

    across: Number
    """Change of the tangential part across t."""

    normal: Number
    """Change of the normal part with x_n."""

    mixed: Number
    """Change of the tangential part along t with x_n; for projections also the reverse."""


def project(m: Machine, x: Sequence[Number], mu: Number, least: Number) -> Projection:
    """Project onto K = {|p_t| <= mu p_n, p_n >= p_0}; without friction onto p_n >= p_0.

    Where the nearest point of the cone is below p_0, the nearest point of K is on the disc there.
    """
    zero, one = m.constant(0.0), m.constant(1.0)
    square = m.add_product(x[0], x[0], m.mul(x[1], x[1]))
    some = m.less(zero, square)
    T = m.sqrt(m.choose(some, square, one))
    T = m.choose(some, T, zero)
    over = m.div(one, m.choose(some, T, one))
    t = m.mul(over, x[0]), m.mul(over, x[1])
    rough = m.less(zero, mu)
    # on the surface of the cone
    scale = m.div(one, m.add_product(mu, mu, one))
    lifted = m.mul(m.add_product(mu, T, x[2]), scale)
    inside = m.less_equal(T, m.mul(mu, x[2]))
    n = m.choose(m.both(inside, rough), x[2], m.choose(rough, lifted, x[2]))
    low = m.less_equal(n, least)
    n = m.choose(low, least, n)
    radius = m.mul(mu, m.choose(m.less(zero, n), n, zero))
    sticks = m.less_equal(T, radius)
    length = m.choose(sticks, T, radius)
    value = [m.mul(length, t[0]), m.mul(length, t[1]), n]
    # a point inside of the disc at p_0, or of the cone, follows x
    surface = m.less(m.choose(low, one, zero), m.choose(inside, zero, one))
    surface = m.both(surface, rough)
    across = m.choose(sticks, m.choose(rough, one, zero), m.mul(length, over))
    along = m.choose(sticks, m.choose(rough, one, zero), zero)
    along = m.choose(surface, m.mul(m.mul(mu, mu), scale), along)
    normal = m.choose(low, zero, m.choose(surface, scale, one))
    mixed = m.choose(surface, m.mul(mu, scale), zero)
    return Projection(value, t, along, across, normal, mixed)


class NewtonSums(ABC):
    """Sums over contacts that Newton's method for a contact problem takes."""

    symmetric: ClassVar[bool]
    """Whether the normal impulse changes with tangential velocities as much as the reverse."""
    m: Machine
    system: Any
    _u: Row
    _g: Row

    @abstractmethod
    def _mapped(self, visit: Visit, u: Sequence[Number]) -> tuple[Projection, Number]:
        """Return the impulse at a relative velocity with its derivatives, and r."""

    def _add(self, visit: Visit, near: Truth) -> None:
        """Add A_k^T g and A_k^T W A_k of a contact."""
        m, zero = self.m, self.m.constant(0.0)
        u = visit.velocity()
        found, r = self._mapped(visit, u)
        # cases that are far have no part in the sums of the group
        r = m.choose(near, r, zero)
        value = [m.choose(near, x, zero) for x in found.value]
        for axis in range(3):
            self._u.store(m, visit.row + axis, u[axis])
            self._g.store(m, visit.row + axis, value[axis])
        (tx, ty), across = found.t, m.mul(r, found.across)
        bend = m.sub_product(r, found.across, m.mul(r, found.along))
        mixed = m.mul(r, found.mixed)
        xx = m.add_product(m.mul(bend, tx), tx, across)
        xy = m.mul(m.mul(bend, tx), ty)
        yy = m.add_product(m.mul(bend, ty), ty, across)
        xn, yn, nn = m.mul(mixed, tx), m.mul(mixed, ty), m.mul(r, found.normal)
        below = (xn, yn) if self.symmetric else (None, None)
        self.system.add_law(visit, ((xx, xy, xn), (xy, yy, yn), (*below, nn)))
        visit.collect(value)


class FrictionNewton(NewtonSums):
    """Write the iteration for the contacts of a problem."""

    symmetric = True

    def __init__(self, solver: GaussSeidel, system: SparseSystem) -> None:
        """Take memory.

        Args:
            solver: Visits the contacts; its problem is solved.
            system: The equations of a Newton step.
        """
        from tiburon.trace.primitives.friction import Row

        m = self.m = solver.m
        self.solver, self.system = solver, system
        self.size = solver.size
        self._step = Row(m.memory(solver.size))
        count = solver.layout.contacts
        self._center, self._u, self._w, self._g = (Row(m.memory(3 * count)) for _ in range(4))
        self._near = Row(m.memory(count))
        self._stiffer, self._start = Row(m.memory(1)), Row(m.memory(1))
        self._scalars = [Row(m.memory(1)) for _ in range(11)]

    def begin(self) -> None:
        """Prepare for the first attempt at a problem; each further one begins softer."""
        self._start.store(self.m, 0, self.m.constant(1.0))

    def solve(self, pending: Truth, tolerance: Number) -> None:
        """Move the impulses of cases to a solution, and y with them.

        Args:
            pending: Cases to solve; the others keep everything as it is.
            tolerance: Change of the impulses, relative to the largest, at which to end.
        """
        m, n, problem = self.m, self.size, self.solver.problem
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        going, slope, other, low, high, at, size, gradient, change, largest, low_slope = (
            self._scalars
        )
        going.store(m, 0, m.choose(pending, one, zero))
        start = self._start.load(m, 0)
        self._stiffer.store(m, 0, start)
        softer = m.mul(m.constant(1.0 / STIFFENING), start)
        least = m.constant(LEAST_STIFF)
        softer = m.choose(m.less(softer, least), least, softer)
        self._start.store(m, 0, m.choose(pending, softer, start))
        for i in m.loop(0, self.solver.contacts * 3, independent=True):
            self._center.store(m, i, problem.p.load(m, i))

        def busy() -> Truth:
            return m.less(half, going.load(m, 0))

        for _ in m.iterate(MOST_STEPS, busy):
            active = busy()
            count = self.solver.outcome.sweeps
            count.store(m, 0, m.add(count.load(m, 0), m.choose(active, one, zero)))
            self._assemble(size, gradient)
            # where y is stationary, the next problem
            bound = m.mul(m.constant(GRADIENT_TOLERANCE * GRADIENT_TOLERANCE), size.load(m, 0))
            settled = m.both(active, m.less_equal(gradient.load(m, 0), bound))
            for _ in m.iterate(1, lambda settled=settled: settled):  # type: ignore[misc]
                self._replace(settled, change, largest)
                small = m.mul(tolerance, largest.load(m, 0))
                done = m.both(settled, m.less_equal(change.load(m, 0), small))
                going.store(m, 0, m.choose(done, zero, going.load(m, 0)))
                # contacts that all but contradict each other share their impulses slowly
                stiffer = self._stiffer.load(m, 0)
                more = m.mul(m.constant(STIFFENING), stiffer)
                more = m.choose(m.less(m.constant(MOST_STIFFER), more), stiffer, more)
                self._stiffer.store(m, 0, m.choose(settled, more, stiffer))
            moves = m.less(m.choose(settled, one, zero), m.choose(active, one, zero))
            for _ in m.iterate(1, lambda moves=moves: moves):  # type: ignore[misc]
                self.system.factor()
                self.system.solve(self._step)
                self._search(moves, slope, other, low, high, at, low_slope)
                for k in m.loop(0, n):
                    step = m.mul(at.load(m, 0), self._step.load(m, k))
                    step = m.choose(moves, step, zero)
                    problem.y.store(m, k, m.add(problem.y.load(m, k), step))
        self._finish(pending)

    def _assemble(self, size: Row, gradient: Row) -> None:
        """Write the Hessian, the step against the gradient, and their sizes squared."""
        m, n, problem = self.m, self.size, self.solver.problem
        zero, one = m.constant(0.0), m.constant(1.0)
        self.system.clear(one)
        size.store(m, 0, zero)
        for k in m.loop(0, n):
            y = problem.y.load(m, k)
            size.store(m, 0, m.add_product(y, y, size.load(m, 0)))
            self._step.store(m, k, m.sub_product(one, y, zero))
        reach = m.mul(m.constant(4.0), size.load(m, 0))
        for group in self.solver.groups():
            group.begin(reads=True)
            group.clear(self.solver.wrench)
            self.system.begin_group(group)
            for visit in group.points():
                near = m.either(visit.is_near(reach), self._is_centered(visit))
                self._near.store(m, visit.k, m.choose(near, one, zero))
                for axis in range(3):
                    self._g.store(m, visit.row + axis, zero)
                for _ in m.iterate(1, lambda near=near: near):  # type: ignore[misc]
                    self._add(visit, near)
            group.push(self.solver.wrench, self._step)
            self.system.end_group(group)
        gradient.store(m, 0, zero)
        for k in m.loop(0, n):
            g = self._step.load(m, k)
            gradient.store(m, 0, m.add_product(g, g, gradient.load(m, 0)))

    def _is_centered(self, visit: Visit) -> Truth:
        """Return whether a contact had an impulse."""
        m = self.m
        return visit.is_pushed([self._center.load(m, visit.row + axis) for axis in range(3)])

    def _mapped(self, visit: Visit, u: Sequence[Number]) -> tuple[Projection, Number]:
        """Return the impulse at a relative velocity, and r."""
        m, problem = self.m, self.solver.problem
        r = m.mul(m.mul(m.constant(STIFFNESS / 3.0), self._stiffer.load(m, 0)), visit.rho())
        x = [
            m.sub_product(r, a, self._center.load(m, visit.row + axis)) for axis, a in enumerate(u)
        ]
        mu, least = problem.mu.load(m, visit.k), problem.least.load(m, visit.k)
        return project(m, x, mu, least), r

    def _search(
        self, moves: Truth, slope: Row, other: Row, low: Row, high: Row, at: Row, low_slope: Row
    ) -> None:
        """Find the length of the step at which the slope is small: the whole step, or less."""
        m, n, problem = self.m, self.size, self.solver.problem
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        # change of the relative velocities with the step
        for visit in self.solver.visits(self._step, reads=True):
            near = m.less(half, self._near.load(m, visit.k))
            for _ in m.iterate(1, lambda near=near: near):  # type: ignore[misc]
                for axis, value in enumerate(visit.product()):
                    self._w.store(m, visit.row + axis, value)
        # y . d and d . d: the slope of |y|^2 / 2 is linear
        slope.store(m, 0, zero)
        other.store(m, 0, zero)
        for k in m.loop(0, n):
            step, y = self._step.load(m, k), problem.y.load(m, k)
            slope.store(m, 0, m.add_product(step, y, slope.load(m, 0)))
            other.store(m, 0, m.add_product(step, step, other.load(m, 0)))
        base, rise = slope.load(m, 0), other.load(m, 0)
        at.store(m, 0, zero)
        first = self._slope(base, rise, at)
        low.store(m, 0, zero)
        low_slope.store(m, 0, first)
        high.store(m, 0, one)
        at.store(m, 0, one)
        last = self._slope(base, rise, at)
        flat = m.mul(m.constant(-LINE_SEARCH_SLOPE), first)
        slope.store(m, 0, m.choose(m.both(moves, m.less(flat, last)), one, zero))
        other.store(m, 0, last)

        def open_step() -> Truth:
            return m.less(half, slope.load(m, 0))

        for _ in m.iterate(MOST_TRIALS, open_step):
            pending = open_step()
            below, above = low_slope.load(m, 0), other.load(m, 0)
            share = m.div(below, m.sub_product(one, above, below))
            # the secant, kept away from the ends
            edge = m.constant(0.1)
            share = m.choose(m.less(share, edge), edge, share)
            edge = m.constant(0.9)
            share = m.choose(m.less(edge, share), edge, share)
            wide = m.sub_product(one, low.load(m, 0), high.load(m, 0))
            then = m.add_product(share, wide, low.load(m, 0))
            at.store(m, 0, m.choose(pending, then, at.load(m, 0)))
            found = self._slope(base, rise, at)
            up = m.both(pending, m.less(zero, found))
            down = m.both(pending, m.less_equal(found, zero))
            for row, where, value in (
                (high, up, then),
                (other, up, found),
                (low, down, then),
                (low_slope, down, found),
            ):
                row.store(m, 0, m.choose(where, value, row.load(m, 0)))
            magnitude = m.choose(m.less(found, zero), m.sub_product(one, found, zero), found)
            ended = m.both(pending, m.less_equal(magnitude, flat))
            slope.store(m, 0, m.choose(ended, zero, slope.load(m, 0)))

    def _slope(self, base: Number, rise: Number, at: Row) -> Number:
        """Return the slope of the function to minimize at a share of the step."""
        m, half = self.m, self.m.constant(0.5)
        total = m.memory(1)
        m.store(total, 0, m.add_product(at.load(m, 0), rise, base))
        for visit in self.solver.visits():
            near = m.less(half, self._near.load(m, visit.k))
            for _ in m.iterate(1, lambda near=near: near):  # type: ignore[misc]
                w = [self._w.load(m, visit.row + axis) for axis in range(3)]
                u = [
                    m.add_product(at.load(m, 0), w[axis], self._u.load(m, visit.row + axis))
                    for axis in range(3)
                ]
                found, _ = self._mapped(visit, u)
                value = m.load(total, 0)
                for a, b in zip(found.value, w, strict=True):
                    value = m.sub_product(a, b, value)
                m.store(total, 0, m.choose(near, value, m.load(total, 0)))
        return m.load(total, 0)

    def _replace(self, settled: Truth, change: Row, largest: Row) -> None:
        """Take the impulses of a stationary point for the next problem."""
        m = self.m
        half = m.constant(0.5)
        change.store(m, 0, m.constant(0.0))
        largest.store(m, 0, m.constant(0.0))
        for visit in self.solver.visits():
            near = m.less(half, self._near.load(m, visit.k))
            for _ in m.iterate(1, lambda near=near: near):  # type: ignore[misc]
                taken = m.both(settled, near)
                news, changes = [], []
                for axis in range(3):
                    place = visit.row + axis
                    new, old = self._g.load(m, place), self._center.load(m, place)
                    changes.append(m.sub_product(m.constant(1.0), old, new))
                    news.append(new)
                    self._center.store(m, place, m.choose(taken, new, old))
                _raise(m, change, _length(m, changes), taken)
                _raise(m, largest, _length(m, news), taken)

    def _finish(self, pending: Truth) -> None:
        """Write the impulses, and y = A^T p."""
        m, n, problem = self.m, self.size, self.solver.problem
        zero = m.constant(0.0)
        for k in m.loop(0, n):
            problem.y.store(m, k, m.choose(pending, zero, problem.y.load(m, k)))
        for visit in self.solver.visits(pushes=True):
            new = []
            for axis, old in enumerate(visit.impulse()):
                value = m.choose(pending, self._center.load(m, visit.row + axis), old)
                problem.p.store(m, visit.row + axis, value)
                new.append(m.choose(pending, value, zero))
            pushed = visit.is_pushed(new)
            for _ in m.iterate(1, lambda pushed=pushed: pushed):  # type: ignore[misc]
                visit.push(new)
        # how a point slips follows from its velocity
        for visit in self.solver.visits(reads=True):
            p = visit.impulse()
            force = _speed(m, p)
            some = m.less(zero, force)
            alpha = m.div(_speed(m, visit.velocity()), m.choose(some, force, m.constant(1.0)))
            limit = m.mul(problem.mu.load(m, visit.k), p[2])
            edge = m.less_equal(m.mul(m.constant(1.0 - 1e-9), limit), force)
            alpha = m.choose(m.both(some, edge), alpha, zero)
            kept = problem.alpha.load(m, visit.k)
            problem.alpha.store(m, visit.k, m.choose(pending, alpha, kept))


def _speed(m: Machine, u: Sequence[Number]) -> Number:
    """Return the length of the tangential part."""
    return m.sqrt(m.add_product(u[0], u[0], m.mul(u[1], u[1])))


def _length(m: Machine, a: Sequence[Number]) -> Number:
    """Return the length of a vector."""
    return m.sqrt(m.add_product(a[2], a[2], m.add_product(a[0], a[0], m.mul(a[1], a[1]))))


def _raise(m: Machine, largest: Row, size: Number, where: Truth) -> None:
    """Raise the largest length to another, in the cases where a condition holds."""
    known = largest.load(m, 0)
    larger = m.both(where, m.less(known, size))
    largest.store(m, 0, m.choose(larger, size, known))
