"""Impulses of the last step that hold the contacts as they are: they are taken again.

Where contact points outnumber what a robot can move - pads and soles of many points, boxes on
boxes - their impulses are not unique. Of a robot at rest nothing changes from step to step, and its
impulses should not either: solved for again, they would follow rounding. Symbols are those of
`friction.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiburon.trace.primitives.primitive import Number, Truth

if TYPE_CHECKING:
    from tiburon.trace.primitives.friction import GaussSeidel, Row

LARGEST_RESIDUAL = 1e300
"""Residual of contacts that do not stay as they are."""

STEADY_TOLERANCES = (1e-4, 1e-2)
"""Shares of the residual at which solvers end, tangential and normal, up to which the impulses of
the last step are taken as they are. Gaps close to rounding over the length of the step, which is
what normal velocities of robots at rest are; tangential ones would add up."""

NEARLY_STEADY, STEADY_STEP = 10.0, 0.25
"""How many times these residuals may be for impulses to go only a part of the way to those that
hold the contacts, and that part. What the whole way removes of the velocities that robots at rest
have gathered in some steps, the same impulses would add again in each of the next ones."""


class FrictionSteady:
    """Write the test whether the impulses of the last step solve a problem."""

    def __init__(self, solver: GaussSeidel, stuck: Row) -> None:
        """Take the contacts.

        Args:
            solver: Visits the contacts; its problem is solved.
            stuck: Whether contacts stuck at the end of the step before: 1 or 0.
        """
        self.m, self.solver, self._stuck = solver.m, solver, stuck

    def keep(self, pending: Truth, tolerance: Number, going: Row, share: Row) -> None:
        """Let cases stop going where the impulses of the last step solve the problem.

        Those of contacts that slide are solved for, with the slip velocities.

        Args:
            pending: Cases to solve.
            tolerance: Residual at which to end, relative to the largest impulse.
            going: Whether a case is not solved yet: 1 or 0.
            share: Where the share of the first step of a solution goes.
        """
        from tiburon.trace.primitives.friction import absolute, larger, length_square

        m, solver, problem = self.m, self.solver, self.solver.problem
        outcome = solver.outcome
        solver.note_largest()
        largest, zero = solver.largest.load(m, 0), m.constant(0.0)
        share.store(m, 0, m.constant(1.0))
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
            part = m.choose(m.both(steady, nearly), m.constant(STEADY_STEP), m.constant(1.0))
            share.store(m, 0, part)
            going.store(m, 0, m.choose(small, zero, going.load(m, 0)))
            bound = m.mul(m.constant(STEADY_TOLERANCES[1]), m.div(left, largest))
            outcome.residual.store(m, 0, m.choose(small, bound, outcome.residual.load(m, 0)))
