"""Impulses of contacts by a semismooth Newton method, for Coulomb's law as it is.

Sweeps over contacts pass impulses on from contact to contact: in stacks, where masses differ much,
and where corners of one body are so close that velocities hardly tell them apart, they converge
slowly. This method moves all at once (Alart and Curnier 1991). Symbols beyond those of
`friction.py`, per contact:

    g       the natural map at x = p - rho u: g_n = max(p_0, x_n), and g_t the projection of x_t
            onto the disc of radius mu g_n
    R       p - g, zero at a solution
    D       derivative of g by x
    s       softness, the same for all contacts
    W, c    law of a step: dp = c - W du

A step solves R + dp - D (dp - rho du) = 0 with du = A dy and dy = A^T dp. With s added to 1 - D
dependent contacts do no harm: W = rho (1 - D + s)^-1 D and c = -(1 - D + s)^-1 R, so that

    (1 + A^T W A) dy = A^T c

has as many rows as there are velocities, and is as sparse as the tree (`sparse_system`). Softness
decreases with R: what is left at the end is convergence of the second order, once contacts keep
their modes. Impulses that hold contacts closed or sticking change least. Where R would not become
smaller than in the last two steps, half a step is taken if that is better; a few steps in which R
grows do no harm.

Contacts may change their modes without end, rarely. The method then starts again with

    g       the natural map at x = p_c - r u
    p_c     impulse at the start, or of the iterate before
    k, r    stiffness, the same for all contacts, and k / trace G

and dp = -R - r D du, for small k a nearly linear problem. It is solved with a line search; its
solution becomes p_c, whose fixed point solves the contact problem, whatever k is (a proximal point
method). The larger k, the further an iterate gets: where few steps solve it k grows, where they do
not it starts again from p_c with a smaller one.

The tangential impulse of a sliding contact changes with its direction and with its normal impulse,
which does not change with the slip: W is not symmetric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tiburon.trace.primitives.friction_newton import Projection
from tiburon.trace.primitives.primitive import Index, Machine, Number, Truth

if TYPE_CHECKING:
    from tiburon.trace.primitives.friction import GaussSeidel, Row, Visit
    from tiburon.trace.primitives.sparse_system import UnsymmetricSystem

LEAST_SOFTNESS, MOST_SOFTNESS, SOFTNESS = 1e-8, 1e-2, 1e-2
"""Bounds of s, and s per |R| relative to the largest impulse; at most the square of that."""

MOST_STEPS = 24
"""Newton steps before the method starts again."""

STIFFNESS, LEAST_STIFFNESS, MOST_STIFFNESS = 10.0, 0.01, 1e9
"""k at first, and its bounds; below the least the method gives up."""

STIFFER, SOFTER = 4.0, 0.1
"""What k is multiplied by after a few steps of Newton's method, and where it has failed."""

FEW_STEPS, MANY_STEPS = 6.5, 7.5
"""Newton steps with one p_c up to which k grows, and after which it has failed."""

MOST_PROXIMAL_STEPS = 400
"""Newton steps with some p_c, and changes of p_c."""

SETTLED = 1e-7
"""|R| relative to the largest impulse at which p_c is replaced."""

MOST_TRIALS = 6
"""Evaluations of a line search, each of half the length."""

LEAST_EFFECT = 0.999
"""Share of |R| left by a step, without a change of modes, from which on it has no effect."""

LITTLE_EFFECT = 0.9
"""The same where |R| is within the tolerance."""

SUFFICIENT_DECREASE = 1e-3
"""Share of |R| that a whole step removes at least."""

UNKNOWN = 1e300
"""A change or an error before there is one."""

MAX_LAST_CHANGE = 1e-3
"""Last change of impulses relative to the largest at which to end: light bodies below heavy ones
have small residuals where their impulses are still far from those that hold the heavy ones. A step
without effect on |R| ends, too."""


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


class FrictionSemismooth:
    """Write the iteration for the contacts of a problem."""

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
        self._step = Row(m.memory(solver.size))
        self._u, self._w, self._move, self._miss = (Row(m.memory(3 * count)) for _ in range(4))
        self._law, self._map = (Row(m.memory(6 * count)) for _ in range(2))
        self._near, self._part = Row(m.memory(count)), Row(m.memory(count))
        self._some, self._changed = Row(m.memory(len(solver.layout.groups))), Row(m.memory(1))
        self._going, self._error, self._before, self._residual, self._largest = (
            Row(m.memory(1)) for _ in range(5)
        )
        self._change, self._at, self._softness, self._best, self._searching, self._trial = (
            Row(m.memory(1)) for _ in range(6)
        )
        self.share = Row(m.memory(1))
        """Share of the first step to take, where impulses of the last step nearly hold contacts."""
        self.share.store(m, 0, m.constant(1.0))
        self._center, self._kept = Row(m.memory(3 * count)), Row(m.memory(solver.size))
        self._proximal, self._stiffness, self._steps = (Row(m.memory(1)) for _ in range(3))
        self.settled = Row(m.memory(1))
        """Whether no step makes R smaller any more, of a problem without a relative tolerance: 1 or
        0."""
        self._same, self._last = Row(m.memory(1)), Row(m.memory(1))
        """Whether the last step had the matrix of the one before, 1 or 0; its |R|^2."""

    def solve(self, pending: Truth, tolerance: Number, least: Number | None) -> None:
        """Move the impulses of cases to a solution, and y with them.

        Args:
            pending: Cases to solve; the others keep everything as it is.
            tolerance: Residual at which to end, relative to the largest impulse.
            least: Residual [N s] that is none, whatever the impulses are.
        """
        from tiburon.trace.primitives.friction import larger

        m, going, steps = self.m, self._going, self._steps
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        going.store(m, 0, m.choose(pending, one, zero))
        for row in (self._before, self._proximal, self.settled, self._same, steps):
            row.store(m, 0, zero)
        # at least one step
        self._change.store(m, 0, m.constant(UNKNOWN))
        self._stiffness.store(m, 0, m.constant(STIFFNESS))
        self._changed.store(m, 0, one)
        for k in m.loop(0, self.solver.contacts):
            self._part.store(m, k, zero)
        for i in m.loop(0, self.solver.contacts * 6, independent=True):
            self._law.store(m, i, zero)
        self._note_center(pending)

        def busy() -> Truth:
            return m.less(half, going.load(m, 0))

        for _ in m.iterate(MOST_STEPS + MOST_PROXIMAL_STEPS, busy):
            self._measure()
            # squares
            largest = self._largest.load(m, 0)
            bound = m.mul(m.mul(tolerance, tolerance), largest)
            if least is not None:
                bound = larger(m, bound, m.mul(least, least))
            slight = m.mul(m.constant(MAX_LAST_CHANGE * MAX_LAST_CHANGE), largest)
            small = m.less_equal(self._residual.load(m, 0), bound)
            proximal = m.less(half, self._proximal.load(m, 0))
            absolute = m.less_equal(tolerance, zero)
            stays = self._stays(absolute, proximal)
            # impulses that hold contacts only against each other change without end
            slight = m.either(stays, m.less_equal(self._change.load(m, 0), slight))
            going.store(m, 0, m.choose(m.both(small, slight), zero, going.load(m, 0)))
            self._note_settled(m.both(stays, absolute))
            active, taken = busy(), steps.load(m, 0)
            fixed = m.less_equal(self._error.load(m, 0), m.mul(m.constant(SETTLED**2), largest))
            fixed = m.both(m.both(proximal, fixed), m.less(half, taken))
            settled = m.both(active, fixed)
            many = m.choose(proximal, m.constant(MANY_STEPS), m.constant(MOST_STEPS - 0.5))
            failed = m.both(active, m.less(many, m.choose(fixed, zero, taken)))
            over = m.either(settled, failed)
            for _ in m.iterate(1, lambda over=over: over):  # type: ignore[misc]
                self._restart(settled, failed)
            moves = m.less(m.choose(over, one, zero), going.load(m, 0))
            for _ in m.iterate(1, lambda moves=moves: moves):  # type: ignore[misc]
                for row in (self.solver.outcome.sweeps, steps):
                    row.store(m, 0, m.add(row.load(m, 0), m.choose(moves, one, zero)))
                self._assemble()
                self.system.solve(self._step)
                self._search(moves)
                self._apply(moves)
        self.share.store(m, 0, one)
        self._note_slip(pending)

    def _stays(self, absolute: Truth, proximal: Truth) -> Truth:
        """Return whether the last step, with the matrix of the one before, had no effect on |R|.

        Not of cases with a center. Once contacts do not open, the equations are linear.

        Args:
            absolute: Cases without a relative tolerance.
            proximal: Cases with a center.
        """
        m, zero, one = self.m, self.m.constant(0.0), self.m.constant(1.0)
        error = self._error.load(m, 0)
        least, little = (m.constant(share * share) for share in (LEAST_EFFECT, LITTLE_EFFECT))
        share = m.choose(absolute, least, little)
        stays = m.less_equal(m.mul(share, self._last.load(m, 0)), error)
        self._last.store(m, 0, error)
        stays = m.both(stays, m.less(m.constant(0.5), self._same.load(m, 0)))
        return m.less(m.choose(proximal, one, zero), m.choose(stays, one, zero))

    def _note_settled(self, stays: Truth) -> None:
        """End cases without a relative tolerance where steps have no effect.

        More contacts may be held closed than can be closed at once.
        """
        m, zero, one = self.m, self.m.constant(0.0), self.m.constant(1.0)
        stays = m.both(stays, m.less(zero, self._going.load(m, 0)))
        self.settled.store(m, 0, m.choose(stays, one, self.settled.load(m, 0)))
        self._going.store(m, 0, m.choose(stays, zero, self._going.load(m, 0)))

    def _note_center(self, where: Truth) -> None:
        """Let present impulses be those that the method starts from."""
        m, solver, problem = self.m, self.solver, self.solver.problem
        for row, kept, count in (
            (problem.p, self._center, solver.contacts * 3),
            (problem.y, self._kept, solver.size),
        ):
            for i in m.loop(0, count, independent=True):
                kept.store(m, i, m.choose(where, row.load(m, i), kept.load(m, i)))

    def _restart(self, settled: Truth, failed: Truth) -> None:
        """Choose the next center and stiffness of cases."""
        m, solver, problem = self.m, self.solver, self.solver.problem
        zero, one = m.constant(0.0), m.constant(1.0)
        self._note_center(settled)
        for row, kept, count in (
            (problem.p, self._center, solver.contacts * 3),
            (problem.y, self._kept, solver.size),
        ):
            for i in m.loop(0, count, independent=True):
                row.store(m, i, m.choose(failed, kept.load(m, i), row.load(m, i)))
        k, steps = self._stiffness.load(m, 0), self._steps.load(m, 0)
        stiffer = m.mul(m.constant(STIFFER), k)
        grows = m.both(
            m.less(steps, m.constant(FEW_STEPS)), m.less(stiffer, m.constant(MOST_STIFFNESS))
        )
        grows = m.both(settled, grows)
        # the first attempt has no stiffness
        weaker = m.both(failed, m.less(m.constant(0.5), self._proximal.load(m, 0)))
        softer = m.mul(m.constant(SOFTER), k)
        k = m.choose(grows, stiffer, m.choose(weaker, softer, k))
        self._stiffness.store(m, 0, k)
        over = m.either(settled, failed)
        for row, value in (
            (self._proximal, one),
            (self._steps, zero),
            (self._change, m.constant(UNKNOWN)),
        ):
            row.store(m, 0, m.choose(over, value, row.load(m, 0)))
        ended = m.both(over, m.less(k, m.constant(LEAST_STIFFNESS)))
        self._going.store(m, 0, m.choose(ended, zero, self._going.load(m, 0)))

    def _if_near(self, row: Row, place: Index) -> Iterator[Truth]:
        """Run the body of a `for` if a contact, or one of a group, is near in some case."""
        near = self.m.less(self.m.constant(0.5), row.load(self.m, place))
        for _ in self.m.iterate(1, lambda: near):
            yield near

    def _loaded(self, row: Row, first: Index, count: int) -> list[Number]:
        return [row.load(self.m, first + i) for i in range(count)]

    def _measure(self) -> None:
        """Write velocities and maps; squares of |R|, the residual and the largest impulse."""
        from tiburon.trace.primitives.friction import larger, length_square

        m, solver = self.m, self.solver
        zero, one = m.constant(0.0), m.constant(1.0)
        for row in (self._error, self._residual, self._largest):
            row.store(m, 0, zero)
        reach = m.mul(m.constant(4.0), solver.square())
        for group in solver.groups():
            self._some.store(m, group.number, zero)
            group.begin(reads=True)
            for visit in group.points():
                near = m.either(visit.is_near(reach), visit.is_pushed(self._from(visit)))
                self._near.store(m, visit.k, m.choose(near, one, zero))
                for _ in m.iterate(1, lambda near=near: near):  # type: ignore[misc]
                    some = self._some.load(m, group.number)
                    self._some.store(m, group.number, m.choose(near, one, some))
                    u, p = visit.velocity(), visit.impulse()
                    found, miss = self._mapped(visit, u, p)
                    for axis in range(3):
                        self._u.store(m, visit.row + axis, u[axis])
                        self._miss.store(m, visit.row + axis, miss[axis])
                    parts = (*found.t, found.along, found.across, found.normal, found.mixed)
                    for place, x in enumerate(parts):
                        self._map.store(m, visit.k * 6 + place, x)
                    square = m.choose(near, length_square(m, miss), zero)
                    self._error.store(m, 0, m.add(self._error.load(m, 0), square))
                    residual = visit.residual_of(u, p)
                    for row, value in ((self._residual, residual), (self._largest, p)):
                        size = m.choose(near, length_square(m, value), zero)
                        row.store(m, 0, larger(m, row.load(m, 0), size))

    def _mapped(
        self, visit: Visit, u: Sequence[Number], p: Sequence[Number]
    ) -> tuple[Projection, list[Number]]:
        """Return the natural map of a contact with its derivatives, and R."""
        from tiburon.trace.primitives.friction import difference

        m, problem, r = self.m, self.solver.problem, self._rate(visit)
        mu, least = problem.mu.load(m, visit.k), problem.least.load(m, visit.k)
        proximal = m.less(m.constant(0.5), self._proximal.load(m, 0))
        x = [m.choose(proximal, a, b) for a, b in zip(self._from(visit), p, strict=True)]
        found = natural_map(
            m, [m.sub_product(r, a, b) for a, b in zip(u, x, strict=True)], mu, least
        )
        return found, [difference(m, a, b) for a, b in zip(p, found.value, strict=True)]

    def _from(self, visit: Visit) -> list[Number]:
        """Return p_c of a contact."""
        return self._loaded(self._center, visit.row, 3)

    def _rate(self, visit: Visit) -> Number:
        """Return rho of a contact, or r."""
        m = self.m
        k = m.mul(m.constant(1.0 / 3.0), self._stiffness.load(m, 0))
        proximal = m.less(m.constant(0.5), self._proximal.load(m, 0))
        return m.mul(m.choose(proximal, k, m.constant(1.0)), visit.rho())

    def _assemble(self) -> None:
        """Write the right-hand side, and the matrix if it has changed; eliminate."""
        from tiburon.trace.primitives.friction import larger

        m, solver = self.m, self.solver
        zero, one = m.constant(0.0), m.constant(1.0)
        largest = self._largest.load(m, 0)
        some = m.less(zero, largest)
        share = m.sqrt(m.div(self._error.load(m, 0), m.choose(some, largest, one)))
        most, soft = m.constant(MOST_SOFTNESS), m.mul(m.constant(SOFTNESS), share)
        soft = m.choose(m.less(share, m.constant(SOFTNESS)), m.mul(share, share), soft)
        soft = m.choose(m.less(soft, most), soft, most)
        # without impulses there are no modes yet that could change
        soft = larger(m, m.choose(some, soft, zero), m.constant(LEAST_SOFTNESS))
        proximal = m.less(m.constant(0.5), self._proximal.load(m, 0))
        self._softness.store(m, 0, m.choose(proximal, zero, soft))
        for k in m.loop(0, solver.size, independent=True):
            self._step.store(m, k, zero)
        for group in solver.groups():
            for _ in self._if_near(self._some, group.number):
                group.clear(solver.wrench)
                for visit in group.points():
                    for near in self._if_near(self._near, visit.k):
                        self._pose(visit, near)
                group.push(solver.wrench, self._step)
        for k in m.loop(0, solver.contacts):
            near, known = self._near.load(m, k), self._part.load(m, k)
            self._note_changed(m.sub_product(one, known, near))
            self._part.store(m, k, near)
        # contacts that keep their modes keep the matrix, once little is left to do
        changed = m.less(zero, self._changed.load(m, 0))
        self._same.store(m, 0, m.choose(changed, zero, one))
        for _ in m.iterate(1, lambda: changed):
            self._changed.store(m, 0, zero)
            self._factor()

    def _factor(self) -> None:
        """Write the matrix, and eliminate."""
        self.system.clear(self.m.constant(1.0))
        for group in self.solver.groups():
            for _ in self._if_near(self._some, group.number):
                self.system.begin_group(group)
                for visit in group.points():
                    for _ in self._if_near(self._near, visit.k):
                        xx, xy, yy, xn, yn, nn = self._loaded(self._law, visit.k * 6, 6)
                        self.system.add_law(visit, ((xx, xy, xn), (xy, yy, yn), (None, None, nn)))
                self.system.end_group(group)
        self.system.factor()

    def _note_changed(self, value: Number) -> None:
        """Note a change of what the matrix consists of."""
        m, changed = self.m, self._changed
        changed.store(m, 0, m.add_product(value, value, changed.load(m, 0)))

    def _pose(self, visit: Visit, near: Truth) -> None:
        """Write W and c of a contact, and add what follows to the right-hand side."""
        m, zero, one = self.m, self.m.constant(0.0), self.m.constant(1.0)
        tx, ty, along, across, normal, mixed = self._loaded(self._map, visit.k * 6, 6)
        R = self._loaded(self._miss, visit.row, 3)
        stiff = m.add(one, self._softness.load(m, 0))
        # 1 - D + s, or 1 with a center
        proximal = m.less(m.constant(0.5), self._proximal.load(m, 0))
        follows = m.choose(proximal, zero, one)
        # its inverse, along the tangent, across it and along the normal; other cases have none
        over_t, over_s, over_n = (
            m.div(m.choose(near, one, zero), m.sub_product(follows, x, stiff))
            for x in (along, across, normal)
        )
        rate, coupled = self._rate(visit), m.mul(m.mul(follows, mixed), over_t)
        weights = (m.mul(over_t, along), m.mul(over_s, across), m.mul(over_n, normal))
        w_t, w_s, w_n = (m.mul(rate, x) for x in weights)
        # the normal impulse changes the tangential one
        w_tn = m.mul(rate, m.add_product(coupled, weights[2], m.mul(mixed, over_t)))
        bend = m.sub_product(one, w_s, w_t)
        law = (
            m.add_product(m.mul(bend, tx), tx, w_s),
            m.mul(m.mul(bend, tx), ty),
            m.add_product(m.mul(bend, ty), ty, w_s),
            m.mul(w_tn, tx),
            m.mul(w_tn, ty),
            w_n,
        )
        for place, x in enumerate(law):
            self._note_changed(m.sub_product(one, self._law.load(m, visit.k * 6 + place), x))
            self._law.store(m, visit.k * 6 + place, x)
        along = m.add_product(tx, R[0], m.mul(ty, R[1]))
        along = m.mul(m.sub_product(one, over_s, over_t), along)
        along = m.add_product(m.mul(coupled, over_n), R[2], along)
        pulled = [m.add_product(t, along, m.mul(over_s, x)) for t, x in ((tx, R[0]), (ty, R[1]))]
        pulled.append(m.mul(over_n, R[2]))
        c = [m.sub_product(one, x, zero) for x in pulled]
        for axis, x in enumerate(c):
            self._move.store(m, visit.row + axis, x)
        visit.collect(c)

    def _search(self, moves: Truth) -> None:
        """Write the changes of impulses, and which share of them to take: all, half, and so on."""
        m, solver = self.m, self.solver
        one, half = m.constant(1.0), m.constant(0.5)
        for group in solver.groups():
            for _ in self._if_near(self._some, group.number):
                group.begin(self._step, reads=True)
                for visit in group.points():
                    for _ in self._if_near(self._near, visit.k):
                        self._move_contact(visit)
        error, before = self._error.load(m, 0), self._before.load(m, 0)
        proximal = m.less(half, self._proximal.load(m, 0))
        bound = m.choose(m.either(proximal, m.less(before, error)), error, before)
        self._before.store(m, 0, m.choose(moves, error, before))
        for row, value in (
            (self._searching, m.choose(moves, one, m.constant(0.0))),
            (self._at, one),
            (self._best, m.constant(UNKNOWN)),
            (self._trial, self.share.load(m, 0)),
        ):
            row.store(m, 0, value)

        def pending() -> Truth:
            return m.less(half, self._searching.load(m, 0))

        for _ in m.iterate(MOST_TRIALS, pending):
            searching, at, best = pending(), self._trial.load(m, 0), self._best.load(m, 0)
            error = self._trial_error(at)
            better = m.both(searching, m.less(error, best))
            self._best.store(m, 0, m.choose(better, error, best))
            self._at.store(m, 0, m.choose(better, at, self._at.load(m, 0)))
            share = m.sub_product(m.constant(SUFFICIENT_DECREASE), at, one)
            enough = m.less_equal(error, m.mul(m.mul(share, share), bound))
            second = m.less(at, m.choose(proximal, m.constant(0.0), one))
            over = m.both(searching, m.either(enough, second))
            left = m.choose(over, m.constant(0.0), self._searching.load(m, 0))
            self._searching.store(m, 0, left)
            self._trial.store(m, 0, m.mul(half, at))

    def _move_contact(self, visit: Visit) -> None:
        """Write how velocity and impulse of a contact change."""
        m = self.m
        w, c = visit.product(), self._loaded(self._move, visit.row, 3)
        xx, xy, yy, xn, yn, nn = self._loaded(self._law, visit.k * 6, 6)
        moved = [
            m.sub_product(xx, w[0], m.sub_product(xy, w[1], m.sub_product(xn, w[2], c[0]))),
            m.sub_product(xy, w[0], m.sub_product(yy, w[1], m.sub_product(yn, w[2], c[1]))),
            m.sub_product(nn, w[2], c[2]),
        ]
        for axis, x in enumerate(moved):
            self._w.store(m, visit.row + axis, w[axis])
            self._move.store(m, visit.row + axis, x)

    def _trial_error(self, at: Number) -> Number:
        """Return |R|^2 after a share of the step."""
        from tiburon.trace.primitives.friction import Row, length_square

        m, solver, total = self.m, self.solver, Row(self.m.memory(1))
        zero = m.constant(0.0)
        total.store(m, 0, zero)
        for group in solver.groups():
            for _ in self._if_near(self._some, group.number):
                for visit in group.points():
                    for near in self._if_near(self._near, visit.k):
                        u, p = (
                            [m.add_product(at, x, y) for x, y in zip(change, now, strict=True)]
                            for change, now in (
                                (
                                    self._loaded(self._w, visit.row, 3),
                                    self._loaded(self._u, visit.row, 3),
                                ),
                                (self._loaded(self._move, visit.row, 3), visit.impulse()),
                            )
                        )
                        square = length_square(m, self._mapped(visit, u, p)[1])
                        square = m.choose(near, square, zero)
                        total.store(m, 0, m.add(total.load(m, 0), square))
        return total.load(m, 0)

    def _apply(self, moves: Truth) -> None:
        """Change impulses, and y with them; note the square of the largest change."""
        from tiburon.trace.primitives.friction import larger, length_square

        m, solver, problem = self.m, self.solver, self.solver.problem
        zero = m.constant(0.0)
        self._change.store(m, 0, m.choose(moves, zero, self._change.load(m, 0)))
        at = self._at.load(m, 0)
        for group in solver.groups():
            for _ in self._if_near(self._some, group.number):
                group.clear(solver.wrench)
                for visit in group.points():
                    for near in self._if_near(self._near, visit.k):
                        taken, changes = m.both(moves, near), []
                        for axis, x in enumerate(self._loaded(self._move, visit.row, 3)):
                            changes.append(m.choose(taken, m.mul(at, x), zero))
                            p = problem.p.load(m, visit.row + axis)
                            # other cases keep the sign of a zero, too
                            p = m.choose(taken, m.add(p, changes[axis]), p)
                            problem.p.store(m, visit.row + axis, p)
                        size, known = length_square(m, changes), self._change.load(m, 0)
                        self._change.store(m, 0, larger(m, known, size))
                        visit.collect(changes)
                group.push(solver.wrench, problem.y)

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
