"""Impulses of contacts by a semismooth Newton method on velocities, for Coulomb's law as it is.

Sweeps over contacts pass impulses on from contact to contact: in stacks, where masses differ much,
and where corners of one body are so close that velocities hardly tell them apart, they converge
slowly. This method moves all at once. Symbols beyond those of `friction.py`, per contact:

    c       impulse of the iterate before
    k       stiffness, the same for all contacts
    r       k / trace G
    g(y)    the natural map at u = A y + b: g_n = max(p_0, c_n - r u_n), and g_t the projection of
            c_t - r u_t onto the disc of radius mu g_n

    F(y) = y - A^T g = 0

A solution with g = c solves the contact problem, whatever k is: c is replaced by g until that is so
(a proximal point method). The larger k, the further an iterate gets, and the more often contacts
change their modes on the way to it; for small k the problem is nearly linear. Newton's method with
a line search on |F| solves it: where it succeeds in a few steps k grows, where it fails it starts
again from c with a smaller one. Dependent contacts do no harm.

The tangential impulse of a sliding contact changes with its direction and with its normal impulse,
which does not change with the slip: the matrix 1 + A^T W A is not symmetric, but as sparse as the
tree (`sparse_system`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tiburon.trace.primitives.friction_newton import NewtonSums, Projection
from tiburon.trace.primitives.primitive import Index, Machine, Number, Truth

if TYPE_CHECKING:
    from tiburon.trace.primitives.friction import GaussSeidel, Row, Visit
    from tiburon.trace.primitives.sparse_system import UnsymmetricSystem

STIFFNESS, LEAST_STIFFNESS, MOST_STIFFNESS = 1000.0, 0.01, 1e9
"""k at first, and its bounds; below the least the method gives up."""

STIFFER, SOFTER = 4.0, 0.1
"""What k is multiplied by after a few steps of Newton's method, and where it has failed."""

FEW_STEPS, MANY_STEPS = 6.5, 7.5
"""Steps of Newton's method up to which k grows, and after which it has failed."""

MOST_STEPS = 400
"""Newton steps in one solution."""

MOST_TRIALS = 6
"""Evaluations of a line search, each of half the length."""

SUFFICIENT_DECREASE = 1e-3
"""Share of |F| that a whole step removes at least."""

MAX_LAST_CHANGE = 0.1
"""Last change of impulses relative to the residual at which to end: light bodies below heavy ones
have small residuals where their impulses are still far from those that hold the heavy ones."""

SCALE_CHANGE_RESIDUAL = 1e-7
"""|F| relative to |y| at which c is replaced."""


def natural_map(m: Machine, x: Sequence[Number], mu: Number, least: Number) -> Projection:
    """Return max(p_0, x_n), and x_t projected onto the disc that belongs to it."""
    zero, one = m.constant(0.0), m.constant(1.0)
    closed = m.less(least, x[2])
    n = m.choose(closed, x[2], least)
    pushes = m.less(zero, n)
    radius = m.mul(mu, m.choose(pushes, n, zero))
    square = m.add_product(x[0], x[0], m.mul(x[1], x[1]))
    slides = m.less(m.mul(radius, radius), square)
    over = m.div(one, m.sqrt(m.choose(slides, square, one)))
    t = m.mul(over, x[0]), m.mul(over, x[1])
    scale = m.choose(slides, m.mul(radius, over), one)
    # without friction there is no tangential part to change
    along = m.choose(m.either(slides, m.less_equal(radius, zero)), zero, one)
    return Projection(
        [m.mul(scale, x[0]), m.mul(scale, x[1]), n],
        t,
        along,
        m.choose(m.less(zero, radius), scale, zero),
        m.choose(closed, one, zero),
        m.choose(m.both(slides, m.both(closed, pushes)), mu, zero),
    )


class FrictionSemismooth(NewtonSums):
    """Write the iteration for the contacts of a problem."""

    # tangential velocities do not change the normal impulse
    symmetric = False

    def __init__(self, solver: GaussSeidel, system: UnsymmetricSystem) -> None:
        """Take memory.

        Args:
            solver: Visits the contacts; its problem is solved.
            system: The equations of a Newton step.
        """
        from tiburon.trace.primitives.friction import Row

        m = self.m = solver.m
        self.solver, self.system = solver, system
        count = solver.layout.contacts
        self._step, self._trial, self._kept = (Row(m.memory(solver.size)) for _ in range(3))
        self._center, self._u, self._w, self._g = (Row(m.memory(3 * count)) for _ in range(4))
        self._near, self._some = Row(m.memory(count)), Row(m.memory(len(solver.layout.groups)))
        self._going, self._stiffness, self._steps, self._error, self._at, self._best = (
            Row(m.memory(1)) for _ in range(6)
        )
        self._best_at, self._searching, self._change = (Row(m.memory(1)) for _ in range(3))

    def solve(self, pending: Truth, tolerance: Number, least: Number | None) -> None:
        """Move the impulses of cases to a solution, and y with them.

        Args:
            pending: Cases to solve; the others keep everything as it is.
            tolerance: Residual at which to end, relative to the largest impulse.
            least: Residual [N s] that is none, whatever the impulses are.
        """
        m, solver, problem = self.m, self.solver, self.solver.problem
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        going, steps = self._going, self._steps
        going.store(m, 0, m.choose(pending, one, zero))
        self._stiffness.store(m, 0, m.constant(STIFFNESS))
        steps.store(m, 0, zero)
        for i in m.loop(0, solver.contacts * 3, independent=True):
            self._center.store(m, i, problem.p.load(m, i))
        for i in m.loop(0, solver.size, independent=True):
            self._kept.store(m, i, problem.y.load(m, i))

        def busy() -> Truth:
            return m.less(half, going.load(m, 0))

        for _ in m.iterate(MOST_STEPS, busy):
            active = busy()
            count = solver.outcome.sweeps
            count.store(m, 0, m.add(count.load(m, 0), m.choose(active, one, zero)))
            self._assemble()
            error, size = self._error.load(m, 0), solver.square()
            small = m.less_equal(
                error, m.mul(m.constant(SCALE_CHANGE_RESIDUAL * SCALE_CHANGE_RESIDUAL), size)
            )
            settled = m.both(active, small)
            many = m.less(m.constant(MANY_STEPS), steps.load(m, 0))
            failed = m.both(m.both(active, many), m.less(m.choose(small, one, zero), half))
            over = m.either(settled, failed)
            for _ in m.iterate(1, lambda over=over: over):  # type: ignore[misc]
                self._restart(settled, failed, tolerance, least)
            moves = m.less(m.choose(over, one, zero), m.choose(active, one, zero))
            for _ in m.iterate(1, lambda moves=moves: moves):  # type: ignore[misc]
                self.system.factor()
                self.system.solve(self._step)
                self._search(moves)
        # cases that were on their way
        for i in m.loop(0, solver.size, independent=True):
            y, kept = problem.y.load(m, i), self._kept.load(m, i)
            problem.y.store(m, i, m.choose(pending, kept, y))
        self._note_slip(pending)

    def _assemble(self) -> None:
        """Write the matrix, -F and the square of its size."""
        m, solver = self.m, self.solver
        zero, one = m.constant(0.0), m.constant(1.0)
        self.system.clear(one)
        for k in m.loop(0, solver.size, independent=True):
            self._step.store(m, k, m.sub_product(one, solver.problem.y.load(m, k), zero))
        reach = m.mul(m.constant(4.0), solver.square())
        for group in solver.groups():
            self._some.store(m, group.number, zero)
            for visit in group.points():
                center = [self._center.load(m, visit.row + axis) for axis in range(3)]
                near = m.either(visit.is_near(reach), visit.is_pushed(center))
                self._near.store(m, visit.k, m.choose(near, one, zero))
                some = self._some.load(m, group.number)
                self._some.store(m, group.number, m.choose(near, one, some))
            for _ in self._if_near(self._some, group.number):
                group.begin(reads=True)
                group.clear(solver.wrench)
                self.system.begin_group(group)
                for visit in group.points():
                    for near in self._if_near(self._near, visit.k):
                        self._add(visit, near)
                group.push(solver.wrench, self._step)
                self.system.end_group(group)
        self._error.store(m, 0, solver.sum_of_squares(self._step, solver.size))

    def _if_near(self, row: Row, place: Index) -> Iterator[Truth]:
        """Run the body of a `for` if a contact, or one of a group, is near in some case."""
        near = self.m.less(self.m.constant(0.5), row.load(self.m, place))
        for _ in self.m.iterate(1, lambda: near):
            yield near

    def _mapped(self, visit: Visit, u: Sequence[Number]) -> tuple[Projection, Number]:
        """Return the impulse at a relative velocity, and r."""
        m, problem = self.m, self.solver.problem
        r = m.mul(m.mul(m.constant(1.0 / 3.0), self._stiffness.load(m, 0)), visit.rho())
        x = [
            m.sub_product(r, a, self._center.load(m, visit.row + axis)) for axis, a in enumerate(u)
        ]
        mu, least = problem.mu.load(m, visit.k), problem.least.load(m, visit.k)
        return natural_map(m, x, mu, least), r

    def _restart(
        self, settled: Truth, failed: Truth, tolerance: Number, least: Number | None
    ) -> None:
        """Take the impulses of cases that have settled, and choose the next stiffness."""
        from tiburon.trace.primitives.friction import difference, larger, length_square

        m, solver, problem = self.m, self.solver, self.solver.problem
        zero = m.constant(0.0)
        self._change.store(m, 0, zero)
        for k in m.loop(0, solver.contacts):
            near = m.less(m.constant(0.5), self._near.load(m, k))
            taken = m.both(settled, near)
            changes = []
            for axis in range(3):
                place = k * 3 + axis
                old = self._center.load(m, place)
                new = m.choose(taken, self._g.load(m, place), old)
                changes.append(difference(m, new, old))
                for row in (self._center, problem.p):
                    row.store(m, place, m.choose(taken, new, row.load(m, place)))
            change = m.sqrt(length_square(m, changes))
            self._change.store(m, 0, larger(m, self._change.load(m, 0), change))
        for i in m.loop(0, solver.size, independent=True):
            # A^T g = y - F
            y, kept = problem.y.load(m, i), self._kept.load(m, i)
            kept = m.choose(settled, m.add(y, self._step.load(m, i)), kept)
            self._kept.store(m, i, kept)
            problem.y.store(m, i, m.choose(m.either(settled, failed), kept, y))
        solver.note_largest(settled)
        bound = m.mul(tolerance, solver.largest.load(m, 0))
        bound = bound if least is None else larger(m, bound, least)
        still = m.less_equal(self._change.load(m, 0), m.mul(m.constant(MAX_LAST_CHANGE), bound))
        small = m.less_equal(solver.evaluate(settled), bound)
        solved = m.both(settled, m.both(small, still))
        k, steps = self._stiffness.load(m, 0), self._steps.load(m, 0)
        stiffer = m.mul(m.constant(STIFFER), k)
        stiffer = m.choose(m.less(m.constant(MOST_STIFFNESS), stiffer), k, stiffer)
        stiffer = m.choose(m.less(steps, m.constant(FEW_STEPS)), stiffer, k)
        softer = m.mul(m.constant(SOFTER), k)
        k = m.choose(settled, stiffer, m.choose(failed, softer, k))
        self._stiffness.store(m, 0, k)
        over = m.either(settled, failed)
        self._steps.store(m, 0, m.choose(over, zero, steps))
        ended = m.either(solved, m.less(k, m.constant(LEAST_STIFFNESS)))
        self._going.store(m, 0, m.choose(m.both(over, ended), zero, self._going.load(m, 0)))

    def _search(self, moves: Truth) -> None:
        """Move y along the step as far as |F| decreases: the whole step, half of it, and so on."""
        m, solver, problem = self.m, self.solver, self.solver.problem
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        # change of the relative velocities with the step
        for group in solver.groups():
            for _ in self._if_near(self._some, group.number):
                group.begin(self._step, reads=True)
                for visit in group.points():
                    for _ in self._if_near(self._near, visit.k):
                        for axis, value in enumerate(visit.product()):
                            self._w.store(m, visit.row + axis, value)
        self._searching.store(m, 0, m.choose(moves, one, zero))
        self._at.store(m, 0, one)
        self._best.store(m, 0, m.constant(1e300))
        self._best_at.store(m, 0, zero)

        def open_step() -> Truth:
            return m.less(half, self._searching.load(m, 0))

        for _ in m.iterate(MOST_TRIALS, open_step):
            pending, at = open_step(), self._at.load(m, 0)
            error = self._trial_error(at)
            best = self._best.load(m, 0)
            better = m.both(pending, m.less(error, best))
            self._best.store(m, 0, m.choose(better, error, best))
            self._best_at.store(m, 0, m.choose(better, at, self._best_at.load(m, 0)))
            share = m.sub_product(m.constant(SUFFICIENT_DECREASE), at, one)
            bound = m.mul(m.mul(share, share), self._error.load(m, 0))
            enough = m.both(pending, m.less_equal(error, bound))
            searching = m.choose(enough, zero, self._searching.load(m, 0))
            self._searching.store(m, 0, searching)
            self._at.store(m, 0, m.mul(half, at))
        # nowhere along a step that is not a number
        far = self._best_at.load(m, 0)
        found = m.both(moves, m.less(zero, far))
        for i in m.loop(0, solver.size, independent=True):
            y = problem.y.load(m, i)
            then = m.add_product(far, self._step.load(m, i), y)
            problem.y.store(m, i, m.choose(found, then, y))
        steps = self._steps.load(m, 0)
        self._steps.store(m, 0, m.choose(moves, m.add(steps, one), steps))

    def _trial_error(self, at: Number) -> Number:
        """Return |F|^2 at a share of the step."""
        m, solver = self.m, self.solver
        zero = m.constant(0.0)
        for i in m.loop(0, solver.size, independent=True):
            y = m.add_product(at, self._step.load(m, i), solver.problem.y.load(m, i))
            self._trial.store(m, i, m.sub_product(m.constant(1.0), y, zero))
        for group in solver.groups():
            for _ in self._if_near(self._some, group.number):
                group.clear(solver.wrench)
                for visit in group.points():
                    for near in self._if_near(self._near, visit.k):
                        u = [
                            m.add_product(at, self._w.load(m, place), self._u.load(m, place))
                            for place in (visit.row + axis for axis in range(3))
                        ]
                        value = self._mapped(visit, u)[0].value
                        visit.collect([m.choose(near, x, zero) for x in value])
                group.push(solver.wrench, self._trial)
        return solver.sum_of_squares(self._trial, solver.size)

    def _note_slip(self, pending: Truth) -> None:
        """Write alpha of the contacts: how a point slips follows from its velocity."""
        m, problem, zero = self.m, self.solver.problem, self.m.constant(0.0)
        for visit in self.solver.visits(reads=True):
            p = visit.impulse()
            u = visit.velocity()
            slip, force = (m.add_product(x[0], x[0], m.mul(x[1], x[1])) for x in (u, p))
            some = m.less(zero, force)
            alpha = m.sqrt(m.div(slip, m.choose(some, force, m.constant(1.0))))
            limit = m.mul(m.constant(1.0 - 1e-9), m.mul(problem.mu.load(m, visit.k), p[2]))
            edge = m.less_equal(m.mul(limit, limit), force)
            alpha = m.choose(m.both(some, edge), alpha, zero)
            kept = problem.alpha.load(m, visit.k)
            problem.alpha.store(m, visit.k, m.choose(pending, alpha, kept))
