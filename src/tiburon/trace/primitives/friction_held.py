"""Impulses of contacts that stay as they are: held, sliding or open.

Where contact points outnumber what a robot can move - pads and soles of many points, boxes on
boxes - their impulses are not unique, and sweeps pass them to and fro between points of one body.
From step to step little changes: points that were held stay held. Then impulses are the solution of
linear equations. Symbols beyond those of `friction.py`:

    s       what is held of a contact: its normal velocity, and its tangential one where it sticks
    w       1 / trace G
    R       stiffness of what is held, relative to w: large

    (1 / R + A^T w s A) dy = -A^T w s u        dp = -R w s (u + A dy)

This is one step of the method of multipliers on s u = 0, from the present impulses: of all impulses
that hold the contacts, those nearest to them. Further steps have the same matrix; each makes s u
smaller by a factor of order R. Contacts change their modes where the laws require it (the natural
map of `friction.py`), a few times at most: a primal-dual active set method. What it leaves is for
sweeps: a point that slides keeps its tangential impulse here, up to the cone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiburon.trace.primitives.primitive import Number, Truth

if TYPE_CHECKING:
    from tiburon.trace.primitives.friction import GaussSeidel, Row, Visit
    from tiburon.trace.primitives.sparse_system import SparseSystem

STIFFNESS = 1e7
"""R."""

MAX_HELD_RESIDUAL = 1e-5
"""Residual of held contacts, relative to the first impulses, above which modes contradict."""

LARGEST_RESIDUAL = 1e300
"""A residual that any pass makes smaller."""

MAX_STALLED_PASSES = 3.5
"""Passes that may follow each other without halving the residual."""

STEADY_TOLERANCES = (1e-4, 1e-2)
"""Shares of the residual at which solvers end, tangential and normal, up to which the impulses of
the last step are taken as they are. Gaps close to rounding over the length of the step, which is
what normal velocities of robots at rest are; tangential ones would add up."""

NEARLY_STEADY, STEADY_STEP = 10.0, 0.25
"""How many times these residuals may be for impulses to go only a part of the way to those that
hold the contacts, and that part. What the whole way removes of the velocities that robots at rest
have gathered in some steps, the same impulses would add again in each of the next ones."""

NEARLY_SOLVED = 10.0
"""How many times the residual at which solvers end the last one of an attempt may be for sweeps to
go on from there: stiff equations amplify rounding, and leave some of it."""

MOST_PASSES = 16
"""Solutions of linear equations in one contact problem."""


class FrictionHeld:
    """Write the solution of the contacts of a problem as they are held."""

    def __init__(self, solver: GaussSeidel, system: SparseSystem, stuck: Row) -> None:
        """Take memory.

        Args:
            solver: Visits the contacts; its problem is solved.
            system: The linear equations.
            stuck: Whether contacts stuck at the end of the step before: 1 or 0.
        """
        from tiburon.trace.primitives.friction import Row

        m = self.m = solver.m
        self.solver, self.system, self._stuck = solver, system, stuck
        count = solver.layout.contacts
        self._tangential, self._normal = Row(m.memory(count)), Row(m.memory(count))
        self._u, self._step = Row(m.memory(3 * count)), Row(m.memory(solver.size))
        self._pull = Row(m.memory(6))
        self._trying, self._start, self._first, self._fresh, self._centered = (
            Row(m.memory(1)) for _ in range(5)
        )
        self._left, self._scale, self._changed, self._others, self._slides = (
            Row(m.memory(1)) for _ in range(5)
        )
        self._best, self._vain, self._some, self._share = (Row(m.memory(1)) for _ in range(4))
        self._close = Row(m.memory(1))

    def keep_steady(self, pending: Truth, tolerance: Number, going: Row) -> None:
        """Let cases stop going where the impulses of the last step solve the problem.

        Those of contacts that slide are solved for, with the slip velocities.

        Args:
            pending: Cases to solve.
            tolerance: Residual at which to end, relative to the largest impulse.
            going: Whether a case is not solved yet: 1 or 0.
        """
        from tiburon.trace.primitives.friction import absolute, larger, length_square

        m, solver, problem = self.m, self.solver, self.solver.problem
        outcome = solver.outcome
        solver.note_largest()
        largest, zero = solver.largest.load(m, 0), m.constant(0.0)
        self._share.store(m, 0, m.constant(1.0))
        steady = m.both(pending, m.less(zero, largest))
        for _ in m.iterate(1, lambda: steady):
            # residuals that count, and all of them
            solver.clear_lanes()
            solver.reach.store(m, 0, solver.square())
            for visit in solver.visits_abreast(reads=True):
                near = visit.is_near(solver.reach.load(m, 0))
                for _ in m.iterate(1, lambda near=near: near):  # type: ignore[misc]
                    zero = m.constant(0.0)
                    u, p, rho = visit.velocity(), visit.impulse(), visit.rho()
                    mu, least = problem.mu.load(m, visit.k), problem.least.load(m, visit.k)
                    x, y, n = (m.sub_product(rho, a, b) for a, b in zip(u, p, strict=True))
                    limit = m.mul(mu, larger(m, p[2], zero))
                    square = m.add_product(x, x, m.mul(y, y))
                    some = m.less(zero, p[2])
                    stuck = m.less(m.constant(0.5), self._stuck.load(m, visit.k))
                    sticks = m.both(stuck, m.less_equal(square, m.mul(limit, limit)))
                    sticks = m.either(sticks, m.less_equal(p[2], zero))
                    slip = m.choose(some, m.sqrt(length_square(m, u[:2])), zero)
                    slip = m.mul(m.constant(1.0 / STEADY_TOLERANCES[0]), m.mul(rho, slip))
                    left = absolute(m, m.sub_product(m.constant(1.0), p[2], larger(m, n, least)))
                    left = m.mul(m.constant(1.0 / STEADY_TOLERANCES[1]), left)
                    left = m.choose(sticks, larger(m, left, slip), m.constant(LARGEST_RESIDUAL))
                    visit.group.raise_lane(m.choose(near, left, zero))
            zero = m.constant(0.0)
            left = solver.largest_lane()
            limit = m.mul(tolerance, largest)
            small = m.both(steady, m.less_equal(left, limit))
            nearly = m.less_equal(left, m.mul(m.constant(NEARLY_STEADY), limit))
            share = m.choose(m.both(steady, nearly), m.constant(STEADY_STEP), m.constant(1.0))
            self._share.store(m, 0, share)
            going.store(m, 0, m.choose(small, zero, going.load(m, 0)))
            bound = m.mul(m.constant(STEADY_TOLERANCES[1]), m.div(left, largest))
            outcome.residual.store(m, 0, m.choose(small, bound, outcome.residual.load(m, 0)))

    def solve(
        self, pending: Truth, first: Truth, tolerance: Number, least: Number | None, going: Row
    ) -> None:
        """Move impulses, and y with them, to where contacts are held; solved cases stop going.

        Args:
            pending: Cases to solve; the others keep everything as it is.
            first: Whether impulses are those of the last step: contacts are taken to be held as
                they were.
            tolerance: Residual at which to end, relative to the largest impulse.
            least: Residual [N s] that is none, whatever the impulses are.
            going: Whether a case is not solved yet: 1 or 0.
        """
        from tiburon.trace.primitives.friction import larger

        m, solver = self.m, self.solver
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        self._first.store(m, 0, m.choose(first, one, zero))
        for row, value in (
            (self._start, one),
            (self._fresh, one),
            (self._centered, zero),
            (self._scale, zero),
            (self._best, m.constant(LARGEST_RESIDUAL)),
            (self._vain, zero),
            (self._close, zero),
            (self._trying, m.choose(pending, one, zero)),
        ):
            row.store(m, 0, value)
        for k in m.loop(0, solver.contacts):
            self._tangential.store(m, k, zero)
            self._normal.store(m, k, zero)
        for i in m.loop(0, solver.contacts * 3, independent=True):
            self._u.store(m, i, zero)
        solver.keep()
        given = solver.square()

        def busy() -> Truth:
            return m.less(half, self._trying.load(m, 0))

        def bound(of: Row) -> Number:
            found = m.mul(tolerance, of.load(m, 0))
            return found if least is None else larger(m, found, least)

        for _ in m.iterate(MOST_PASSES, busy):
            active = busy()
            sweeps = solver.outcome.sweeps
            sweeps.store(m, 0, m.add(sweeps.load(m, 0), m.choose(active, one, zero)))
            self._center(active)
            self._changed.store(m, 0, zero)
            self._others.store(m, 0, self._start.load(m, 0))
            self._pose(active)
            self._start.store(m, 0, zero)
            # impulses that modes have changed change all velocities
            for _ in m.iterate(1, lambda: m.less(zero, self._changed.load(m, 0))):
                self._fresh.store(m, 0, zero)
                self._pose(active)
            for _ in m.iterate(1, lambda: m.less(zero, self._others.load(m, 0))):
                self._assemble()
            self.system.solve(self._step)
            self._move(active)
            left, residual = self._left.load(m, 0), solver.evaluate(active)
            still = m.less_equal(left, bound(self._scale))
            small = m.less_equal(residual, bound(solver.largest))
            solved = m.both(active, m.both(still, small))
            close = m.mul(m.constant(NEARLY_SOLVED), bound(solver.largest))
            close = m.choose(m.less_equal(residual, close), one, zero)
            self._close.store(m, 0, m.choose(active, close, self._close.load(m, 0)))
            going.store(m, 0, m.choose(solved, zero, going.load(m, 0)))
            # contacts that contradict each other: impulses grow, what is held still moves
            grown = m.less(m.mul(m.constant(MAX_HELD_RESIDUAL), self._scale.load(m, 0)), left)
            best, vain = self._best.load(m, 0), self._vain.load(m, 0)
            better = m.less(m.mul(m.constant(2.0), residual), best)
            self._best.store(m, 0, m.choose(better, residual, best))
            vain = m.choose(better, zero, m.add(vain, one))
            self._vain.store(m, 0, vain)
            over = m.either(m.either(solved, grown), m.less(m.constant(MAX_STALLED_PASSES), vain))
            self._trying.store(m, 0, m.choose(over, zero, self._trying.load(m, 0)))
            # the laws are violated: where all stick, once more from no impulses; then other modes
            wrong = m.less_equal(m.mul(m.constant(4.0), left), residual)
            again = m.both(m.less(half, self._first.load(m, 0)), m.less(zero, given))
            sticks = m.less_equal(self._slides.load(m, 0), zero)
            again = m.both(m.both(wrong, sticks), again)
            self._centered.store(m, 0, m.choose(again, one, zero))
            self._fresh.store(m, 0, m.choose(again, zero, m.choose(wrong, one, zero)))
            self._first.store(m, 0, m.choose(wrong, zero, self._first.load(m, 0)))
        failed = m.both(pending, m.less(half, going.load(m, 0)))
        # what only rounding keeps from the solution is where sweeps go on: forces of many points
        # are not unique, and from the start they would find others
        failed = m.both(failed, m.less(self._close.load(m, 0), half))
        for _ in m.iterate(1, lambda: failed):
            solver.restore(failed)
        solved = m.less(m.add(going.load(m, 0), m.choose(pending, zero, one)), half)
        slides = m.both(solved, m.less(zero, self._slides.load(m, 0)))
        for _ in m.iterate(1, lambda: slides):
            self._note_slip(slides)

    def _note_slip(self, where: Truth) -> None:
        """Write alpha of the contacts that slide."""
        m, problem, zero = self.m, self.solver.problem, self.m.constant(0.0)
        for visit in self.solver.visits(reads=True):
            u, p = visit.velocity(), visit.impulse()
            slip, force = (m.add_product(x[0], x[0], m.mul(x[1], x[1])) for x in (u, p))
            t, _ = self._held(visit)
            slides = m.both(where, m.both(m.less_equal(t, zero), m.less(zero, force)))
            ratio = m.sqrt(m.div(slip, m.choose(slides, force, m.constant(1.0))))
            known = problem.alpha.load(m, visit.k)
            problem.alpha.store(m, visit.k, m.choose(slides, ratio, known))

    def _center(self, active: Truth) -> None:
        """Set all impulses to zero in the cases where that is requested."""
        m, problem = self.m, self.solver.problem
        zero = m.constant(0.0)
        center = m.both(active, m.less(m.constant(0.5), self._centered.load(m, 0)))
        for _ in m.iterate(1, lambda: center):
            for row, count in (
                (problem.p, self.solver.contacts * 3),
                (problem.y, self.solver.size),
            ):
                for i in m.loop(0, count, independent=True):
                    row.store(m, i, m.choose(center, zero, row.load(m, i)))

    def _pose(self, active: Truth) -> None:
        """Choose modes, and write the right-hand side of the equations of what is held."""
        m, solver = self.m, self.solver
        for k in m.loop(0, solver.size, independent=True):
            self._step.store(m, k, m.constant(0.0))
        reach = m.mul(m.constant(4.0), solver.square())
        for group in solver.groups():
            group.begin(reads=True)
            group.clear(solver.wrench)
            group.clear(self._pull)
            for visit in group.points():
                near = visit.is_near(reach)
                for _ in m.iterate(1, lambda near=near: near):  # type: ignore[misc]
                    self._pose_contact(visit, active, near)
            # what changes of modes have removed
            group.push(solver.wrench, solver.problem.y)
            group.push(self._pull, self._step)

    def _assemble(self) -> None:
        """Write and factor the matrix of the equations of what is held."""
        m, zero = self.m, self.m.constant(0.0)
        self.system.clear(m.constant(1.0 / STIFFNESS))
        for group in self.solver.groups():
            self.system.begin_group(group)
            self._some.store(m, 0, zero)
            for visit in group.points():
                t, n = self._held(visit)
                self._some.store(m, 0, m.add(self._some.load(m, 0), m.add(t, n)))
                some = m.less(zero, m.add(t, n))
                for _ in m.iterate(1, lambda some=some: some):  # type: ignore[misc]
                    weight = self._weight(visit)
                    t, n = m.mul(weight, t), m.mul(weight, n)
                    self.system.add_law(visit, ((t, None, None), (None, t, None), (None, None, n)))
            for _ in m.iterate(1, lambda: m.less(zero, self._some.load(m, 0))):
                self.system.end_group(group)
        self.system.factor()

    def _weight(self, visit: Visit) -> Number:
        """Return w."""
        return self.m.mul(self.m.constant(1.0 / 3.0), visit.rho())

    def _pose_contact(self, visit: Visit, active: Truth, near: Truth) -> None:
        from tiburon.trace.primitives.friction import absolute, larger, length_square

        m, problem = self.m, self.solver.problem
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        u, p, rho = visit.velocity(), visit.impulse(), visit.rho()
        mu, least = problem.mu.load(m, visit.k), problem.least.load(m, visit.k)
        x, y, n = (m.sub_product(rho, a, b) for a, b in zip(u, p, strict=True))
        # at first a contact that was held stays so
        first, posed, start = (
            m.less(half, x.load(m, 0)) for x in (self._first, self._fresh, self._start)
        )
        for size in (p, [m.mul(rho, a) for a in u]):
            length = m.sqrt(length_square(m, size))
            length = m.choose(m.both(start, near), length, zero)
            self._scale.store(m, 0, larger(m, self._scale.load(m, 0), length))
        n = m.choose(m.both(first, m.less(n, p[2])), p[2], n)
        closed = m.less(least, n)
        some = m.less(zero, p[2])
        limit = m.mul(mu, m.choose(some, p[2], zero))
        square = m.add_product(x, x, m.mul(y, y))
        sticks = m.less_equal(square, m.mul(limit, limit))
        # at first one that had no impulse sticks; later ones that close have no friction at first
        stuck = m.choose(some, self._stuck.load(m, visit.k), one)
        held = m.choose(first, stuck, m.choose(sticks, one, zero))
        sticks = m.less(half, held)
        sticks = m.both(m.less(zero, mu), sticks)
        sticks = m.both(sticks, m.either(closed, m.less(zero, least)))
        fresh = m.both(m.both(active, near), posed)
        for row, holds in ((self._normal, closed), (self._tangential, sticks)):
            known = row.load(m, visit.k)
            held = m.choose(fresh, m.choose(holds, one, zero), known)
            row.store(m, visit.k, held)
            other = absolute(m, m.sub_product(one, known, held))
            self._others.store(m, 0, m.add(self._others.load(m, 0), other))
        # what is not held: the least normal impulse, the tangential one on the cone
        scale = m.div(limit, m.sqrt(m.choose(m.less(zero, square), square, one)))
        scale = m.choose(
            m.both(m.less(zero, mu), m.either(closed, m.less(zero, least))), scale, zero
        )
        new = [
            m.choose(sticks, p[0], m.mul(scale, x)),
            m.choose(sticks, p[1], m.mul(scale, y)),
            m.choose(closed, p[2], least),
        ]
        new = [m.choose(fresh, a, b) for a, b in zip(new, p, strict=True)]
        moved = []
        for axis, value in enumerate(new):
            problem.p.store(m, visit.row + axis, value)
            moved.append(m.sub_product(one, p[axis], value))
            change = larger(m, self._changed.load(m, 0), absolute(m, moved[axis]))
            self._changed.store(m, 0, change)
            # cases that others take along keep the velocity at which the contact was near
            known = self._u.load(m, visit.row + axis)
            self._u.store(m, visit.row + axis, m.choose(near, u[axis], known))
        visit.collect(moved)
        weight = m.choose(near, self._weight(visit), zero)
        t, n = (m.mul(weight, x) for x in self._held(visit))
        pull = [m.sub_product(a, b, zero) for a, b in zip((t, t, n), u, strict=True)]
        visit.collect(pull, self._pull)

    def _held(self, visit: Visit) -> tuple[Number, Number]:
        """Return whether the tangential and the normal velocity of a contact are held: 1 or 0."""
        m = self.m
        return self._tangential.load(m, visit.k), self._normal.load(m, visit.k)

    def _move(self, active: Truth) -> None:
        """Move impulses by the solution; note the largest, and the residual of held velocities."""
        from tiburon.trace.primitives.friction import larger, length_square

        m, solver, problem = self.m, self.solver, self.solver.problem
        zero = m.constant(0.0)
        solver.largest.store(m, 0, zero)
        self._left.store(m, 0, zero)
        self._slides.store(m, 0, zero)
        for group in solver.groups():
            group.begin(self._step, reads=True)
            group.clear(solver.wrench)
            for visit in group.points():
                t, n = self._held(visit)
                holds = m.less(zero, m.add(t, n))
                p = visit.impulse()
                moves = m.either(holds, visit.is_pushed(p))
                for _ in m.iterate(1, lambda moves=moves: moves):  # type: ignore[misc]
                    force = m.add_product(p[0], p[0], m.mul(p[1], p[1]))
                    force = m.choose(m.less(zero, t), zero, force)
                    self._slides.store(m, 0, larger(m, self._slides.load(m, 0), force))
                    stiff = m.mul(m.constant(STIFFNESS / 3.0), visit.rho())
                    stiff = m.mul(self._share.load(m, 0), stiff)
                    moved, values, lefts = [], [], []
                    for axis, change in enumerate(visit.product()):
                        held = (t, t, n)[axis]
                        left = m.mul(held, m.add(self._u.load(m, visit.row + axis), change))
                        step = m.mul(m.mul(stiff, left), m.constant(-1.0))
                        step = m.choose(m.both(active, m.less(zero, held)), step, zero)
                        # other cases keep the sign of a zero, too
                        value = m.choose(m.both(active, moves), m.add(p[axis], step), p[axis])
                        problem.p.store(m, visit.row + axis, value)
                        moved.append(step)
                        values.append(value)
                        lefts.append(m.mul(visit.rho(), left))
                    # squares until all have been visited
                    for row, sizes in ((solver.largest, values), (self._left, lefts)):
                        row.store(m, 0, larger(m, row.load(m, 0), length_square(m, sizes)))
                    visit.collect(moved)
            group.push(solver.wrench, problem.y)
        for row in (solver.largest, self._left):
            row.store(m, 0, m.sqrt(row.load(m, 0)))
