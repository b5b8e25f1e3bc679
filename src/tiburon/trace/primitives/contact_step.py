"""Impulses of one time step with rigid contact: compression, decompression, remaining penetration.

Symbols, beside those of `friction.py`:
    h           length of the step [s]
    approach    share of the compression impulse that removes the speed of approach
    share       time left when a gap closes, relative to the step
    e           coefficient of restitution
    m           moments: impulses, each times the share of the step over which it acts
    z           A^T m: what contacts change at the mean velocity of the step
    f           impulses that already act within the step: the forces of the last one
    s           the same as the joints of the robot feel them, with lever arms of its start: D^-1/2
                L^-T times joint impulses
    r           (A^T f + s) / 2

Five contact problems share their matrix, and most steps need the first only. Compression has no
least impulse. Of a contact that closes, `approach` times its impulse belongs to the collision: the
rest holds its bodies together afterwards, against what accelerates them without contact. Of two
bodies that both move this is not all: what lands on a body that lies on the ground is held against
its own weight, and without contact both fall alike. Where such a contact lands and others push that
do not, a second problem has the speeds of approach alone, and finds what the collision takes. Where
e returns part of it, decompression solves again with (1 + e) times the impulse of the collision as
the least one.

A contact alone has m = w p, where w follows from the instant at which its gap closes. Where
contacts with different w hold each other, this would not do: what lands on a light body that lies
on the ground pushes it from the instant of closing on, the ground would hold it from the start of
the step on, and their difference would move it by more than any speed in the step. Where something
lands, and a contact would so be carried away (`CARRIED_SPEED`), m therefore obeys the laws of
contact itself: gaps at the end of the step are not negative, and closed where m pushes;
|m_t| <= mu m_n, and what slips, w b_t + (A z)_t, is opposed to m_t. Normal moments of what lands
are at least w p: it may be left open.

Velocities and gaps are given with the forces of the last step acting in this one. The step takes
these back, half of them with the lever arms of its start and half with those of its end: b - A r
and gaps - h (A r)_n / 2 are those without contact. What then acts in the step, s - r + A^T p, has
the lever arms of its middle to second order.

The gaps at the end of the step follow from z; what they leave open or penetrating beyond
`GAP_TOLERANCE` is removed by a last problem without friction, in which contacts that are held
closed may pull; those that land may not.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from tiburon.errors import TraceError
from tiburon.trace.graph import Graph
from tiburon.trace.primitives.contact_layout import ContactLayout, PointGroup
from tiburon.trace.primitives.friction import (
    GaussSeidel,
    Outcome,
    Problem,
    Row,
    absolute,
    difference,
    larger,
    length_square,
    rows_of,
)
from tiburon.trace.primitives.primitive import (
    Index,
    Machine,
    Memory,
    Number,
    Primitive,
    Truth,
    nodes_of,
)

GAP_TOLERANCE = 1e-11
"""Penetration, or gap of a contact that is held closed, that a step may leave [m]."""

GAP_SHARE = 0.5
"""Share of `GAP_TOLERANCE` that the solution of the last problem may miss."""

IDLE_SHARE = 1e-8
"""Share of the residual at which gaps are closed that impulses may miss in any case: those of
bodies that fall together are rounding, and none may be their solution."""

LEAST_HOLD = 1e-6
"""Share of the largest impulse above which a force holds a contact closed: a hundred times what
impulses miss by default, so that rounding does not decide it."""

LANDING_SHARE = 0.5
"""Share of an impulse that removes the speed of approach above which a contact lands: it is not
held closed, and may be left open. Held, it would turn the body about itself to lift a contact
nearby that closed earlier."""

CHANGE_WEIGHT = 1.0 / 12.0
"""By how much less than half of a step the change of a force from the last step to this one acts.

A force that grows evenly has its means half a step after the starts of steps. Taken as constant
from the last step, it leaves 5/12 of the way that its change makes in half a step of constant
forces; points that stick would creep by the rest."""

CARRIED_SPEED = 0.3
"""Slip of a contact by impulses that are weighted one by one, relative to the largest speed of
contacts without impulses, above which moments are solved for. Up to it, what weights are off by is
of the order of the step: no more than bodies move in it anyway."""

UNBOUNDED = 1e30
"""Bound of impulses without a bound [N s]."""

CONVEX_DERIVATIVE = (
    "impulses of the convex law of contact have no derivatives; write contact=tb.RigidContact()"
)
"""What asking for derivatives of the convex law raises."""

COMPRESSION, COLLISION, DECOMPRESSION, MOMENTS, GAPS = 0.0, 1.0, 2.0, 3.0, 4.0
"""The five problems."""


class ContactStep(Primitive):
    """Solve for the impulses of a step.

    Arguments: rows of groups of contacts and numbers of contacts (`ContactLayout`); b; mu;
    approach; share; e; gaps at the end of the step without impulses [m]; impulses of the step
    before; whether contacts stuck at its end, 1 or 0; h; the residual at which to end; f; s; by how
    much less than half of the step the change of each force acts (`CHANGE_WEIGHT`, or 0), and that
    of r. With slots (`contact_layout`) then whether those are contacts of two bodies that both
    move, 1 or 0, and how many are used. Results: impulses; y; z; alpha; r; the square of the
    largest slip without impulses; residual, sweeps and worst contact of the impulses.

    Attributes:
        size: Columns of A.
        layout: Where the rows of contacts are, and which they share.
        most: Most sweeps of each problem.
        convex: Whether points obey the convex law instead of Coulomb's.
        between: Contacts of two bodies that both move, those in slots aside.
    """

    def __init__(
        self,
        size: int,
        groups: Sequence[PointGroup],
        most: int,
        *,
        convex: bool = False,
        between: Sequence[int] = (),
        slots: int = 0,
        couplings: int = 0,
    ) -> None:
        self.layout = ContactLayout(groups, slots, couplings)
        form = self.layout.form()
        super().__init__("contact_step", size, most, int(convex), len(between), *between, *form)
        self.convex = convex
        self.between = tuple(between)
        self.size = size
        self.most = most
        self.entries = self.layout.entries + self.layout.numbers
        self.argument_count = self.entries + 16 * self.contacts + 3 + size
        if slots:
            self.argument_count += slots + 1
        self.result_count = 4 * self.contacts + 3 * size + 4

    @property
    def contacts(self) -> int:
        """Number of contact points."""
        return self.layout.contacts

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Solve the problems that each case needs, in order."""
        steps = _Phases(self, m, given, found)
        m_zero, half = m.constant(0.0), m.constant(0.5)
        for _ in m.iterate(5, lambda: m.less(half, steps.pending.load(m, 0))):
            active = m.less(half, steps.pending.load(m, 0))
            phase = steps.phase.load(m, 0)
            begin, end = (m.constant(MOMENTS + x) for x in (-0.5, 0.5))
            collides, moments, last = (
                m.less(phase, begin),
                m.less(begin, phase),
                m.less(end, phase),
            )
            idle = m.mul(m.constant(IDLE_SHARE), steps.fine)
            enough = m.choose(last, steps.fine, idle)
            steps.solver.solve(active, m.choose(last, m_zero, steps.tolerance), enough)
            over = m.both(active, last)
            first = m.both(active, m.less(phase, half))
            second = m.both(active, m.less(phase, m.constant(COLLISION + 0.5)))
            steps.collide(first, second)
            steps.finish_gaps(over)
            turned = m.less(m.load(steps.returned, 0), half)
            done = m.both(m.both(active, collides), turned)
            for _ in m.iterate(1, lambda done=done: done):  # type: ignore[misc]
                steps.finish_impulses(done)
            steps.finish_moments(m.both(m.both(active, moments), m.less(phase, end)))

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the tangents of the results, by the rules of the problems."""
        self._refuse_convex()
        found: list[int] = self._separate.tangent(
            graph, self._solved(args, results), results, tangents
        )
        return found

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoints of the arguments, by the rules of the problems."""
        self._refuse_convex()
        found: list[int] = self._separate.adjoint(
            graph, self._solved(args, results), results, adjoints
        )
        return found

    def _refuse_convex(self) -> None:
        if self.convex:
            raise TraceError(CONVEX_DERIVATIVE)

    def _solved(self, args: list[int], results: list[int]) -> list[int]:
        """Return the arguments with the solution as the initial impulses."""
        n = 3 * self.contacts
        start = self.entries + n + 5 * self.contacts
        return [*args[:start], *results[:n], *args[start + n :]]

    @functools.cached_property
    def _separate(self) -> Any:
        """The problems as a function of calls that have derivative rules."""
        from tiburon.trace.regions import FunctionRegion, trace_body

        graph, (inputs,), found = trace_body(None, (self.argument_count,), self._one_by_one)
        return FunctionRegion(self.name, graph, nodes_of(graph, inputs), nodes_of(graph, found))

    def _one_by_one(self, given: list[Any]) -> list[Any]:
        """Return the results by one call for each problem."""
        import numpy as np

        from tiburon.trace.primitives.contact_phases import ContactMatrix, contact_phases

        count, n = self.contacts, 3 * self.contacts
        A, b, *parts, _, (h,), (tolerance,), acting, acted, lags, (lag,), moving = split(
            given,
            (
                *(self.entries, n, count, count, count, count, count, n, count, 1, 1),
                *(n, self.size, count, 1, self.layout.slots),
            ),
        )
        matrix = ContactMatrix(self.size, self.layout.supports, self.layout.own_rows(A))
        mean = [0.5 * (x + y) for x, y in zip(matrix.push(acting), acted, strict=True)]
        taken = matrix.velocities(mean)
        b = [x - y for x, y in zip(b, taken, strict=True)]
        gaps = 4
        parts[gaps] = [x - 0.5 * h * y for x, y in zip(parts[gaps], taken[2::3], strict=True)]
        between: dict[int, Any] = dict.fromkeys(self.between, True)
        between |= {count - len(moving) + k: one > 0.5 for k, one in enumerate(moving)}
        found = contact_phases(
            matrix,
            b,
            *parts,
            h=h,
            tolerance=tolerance,
            most=self.most,
            mean=mean,
            lags=lags,
            lag=lag,
            between=between,
        )
        final = found.final
        fastest: Any = 0.0
        for k in range(count):
            fastest = np.maximum(fastest, b[3 * k] * b[3 * k] + b[3 * k + 1] * b[3 * k + 1])
        return [*final.p, *final.y, *found.z, *final.alpha, *mean, fastest, *found.report]


def split(values: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """Return consecutive parts of a row."""
    places = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    return [list(values[i:j]) for i, j in places]


class _Phases:
    """Memory of a run of the primitive, and the transitions between its problems."""

    def __init__(self, step: ContactStep, m: Machine, given: Memory, found: Memory) -> None:
        self.m = m
        count, n, size = step.contacts, 3 * step.contacts, step.size
        slots = step.layout.slots
        self.size, self.layout = size, step.layout
        moving = set(step.between)
        self._between: Row | None = Row(m.memory(count)) if moving or slots else None
        if self._between is not None:
            # places of few contacts are known, those of slots are not
            for k in m.loop(0, count - slots):
                self._between.store(m, k, m.constant(0.0))
            for k in sorted(moving):
                self._between.store(m, k, m.constant(1.0))
            for k in m.loop(0, slots):
                flag = m.load(given, k + (step.argument_count - slots - 1))
                self._between.store(m, k + (count - slots), flag)
        b, mu, approach, share, restitution, gaps, start, stuck, h, tolerance, *forces = rows_of(
            given,
            step.entries,
            (n, count, count, count, count, count, n, count, 1, 1, n, size, count, 1),
        )
        acting, acted, self.lags, self.lag = forces
        self.approach, self.share, self.restitution = approach, share, restitution
        self.gaps = Row(m.memory(count))
        self.h, self.tolerance = h.load(m, 0), tolerance.load(m, 0)
        self._h, self._over_h, self._done = h, Row(m.memory(1)), Row(m.memory(1))
        self._over_h.store(m, 0, m.div(m.constant(1.0), self.h))
        self.p, self.y, self.z, self.alpha, self.mean, self.fastest, *self.report = rows_of(
            found, 0, (n, size, size, count, size, 1, 1, 1, 1)
        )
        self.problem = Problem(
            Row(given),
            Row(given, step.layout.entries),
            *(Row(m.memory(k)) for k in (n, count, count, n, size, count)),
        )
        self.outcome = Outcome(*(Row(m.memory(1)) for _ in range(3)))
        self.solver = GaussSeidel(
            m,
            step.layout,
            size,
            self.problem,
            self.outcome,
            step.most,
            convex=step.convex,
            stuck=stuck,
            used=m.load(given, step.argument_count - 1) if slots else None,
        )
        self.count: Index = self.solver.contacts
        self.jumps, self.weight, self.held = (Row(m.memory(count)) for _ in range(3))
        self.returned = m.memory(1)
        self._kept = [Row(m.memory(k)) for k in (n, size, count, 1, 1, 1)]
        for row, length in ((self.p, n), (self.y, size), (self.z, size), (self.alpha, count)):
            for i in m.loop(0, length, independent=True):
                row.store(m, i, m.constant(0.0))
        self._bounds, self._landing, self._others = (Row(m.memory(k)) for k in (count, 1, 1))
        self.pending, self.phase, self.error, self.lands, self._ready, self._fine = (
            Row(m.memory(1)) for _ in range(6)
        )
        zero = m.constant(0.0)
        self._take_back(b, gaps, acting, acted)
        for k in m.loop(0, self.count):
            self.problem.mu.store(m, k, mu.load(m, k))
            self.problem.least.store(m, k, zero)
        for row in (self.phase, self.error, self.lands, self._ready, *self.report):
            row.store(m, 0, zero)
        self._note_pending(start)
        self._fine.store(m, 0, zero)
        some = m.less(m.constant(0.5), self.pending.load(m, 0))
        for _ in m.iterate(1, lambda: some):
            self.solver.begin(start)
            # residual of the last problem at which gaps are closed: u_n = residual / rho
            stiff = m.mul(self.h, self.solver.softest.load(m, 0))
            moves = m.less(m.constant(0.0), stiff)
            fine = m.constant(3.0 * GAP_SHARE * GAP_TOLERANCE)
            fine = m.div(fine, m.choose(moves, stiff, self.h))
            self._fine.store(m, 0, m.choose(moves, fine, m.constant(0.0)))

    @property
    def fine(self) -> Number:
        """Residual of the last problem at which gaps are closed [N s]."""
        return self._fine.load(self.m, 0)

    def _note_pending(self, start: Row) -> None:
        """Note the cases in which something closes, or pushed in the step before."""
        m, problem = self.m, self.problem
        zero, one = m.constant(0.0), m.constant(1.0)
        self.pending.store(m, 0, zero)
        for k in m.loop(0, self.count):
            closes = m.either(
                m.less(problem.b.load(m, k * 3 + 2), zero), m.less(self.gaps.load(m, k), zero)
            )
            pushed = m.less(zero, length_square(m, [start.load(m, k * 3 + i) for i in range(3)]))
            some = m.choose(m.either(closes, pushed), one, self.pending.load(m, 0))
            self.pending.store(m, 0, some)

    def _take_back(self, b: Row, gaps: Row, acting: Row, acted: Row) -> None:
        """Write r, velocities and gaps without forces that act within the step, and their slip."""
        m, problem, solver, mean = self.m, self.problem, self.solver, self.mean
        for i in m.loop(0, self.size):
            mean.store(m, i, m.constant(0.0))
        for i in m.loop(0, self.count * 3):
            problem.p.store(m, i, acting.load(m, i))
        for visit in solver.visits_abreast(mean, pushes=True):
            p = visit.impulse()
            pushed = visit.is_pushed(p)
            for _ in m.iterate(1, lambda pushed=pushed: pushed):  # type: ignore[misc]
                visit.push(p)
        half = m.constant(0.5)
        for i in m.loop(0, self.size):
            mean.store(m, i, m.mul(half, m.add(mean.load(m, i), acted.load(m, i))))
        # the velocities that this takes
        taken = Row(m.memory(3 * self.layout.contacts))
        for i in m.loop(0, self.count * 3, independent=True):
            taken.store(m, i, m.constant(0.0))
        acts = m.less(m.constant(0.0), solver.sum_of_squares(mean, self.size))
        for _ in m.iterate(1, lambda: acts):
            for visit in solver.visits_abreast(mean, reads=True):
                for axis, x in enumerate(visit.product()):
                    taken.store(m, visit.row + axis, x)
        fastest = self.fastest
        fastest.store(m, 0, m.constant(0.0))
        for k in m.loop(0, self.count):
            free = []
            for axis in range(3):
                place = k * 3 + axis
                free.append(difference(m, b.load(m, place), taken.load(m, place)))
                problem.b.store(m, place, free[axis])
            fastest.store(m, 0, larger(m, fastest.load(m, 0), length_square(m, free[:2])))
            way = m.mul(m.mul(half, self.h), taken.load(m, k * 3 + 2))
            self.gaps.store(m, k, difference(m, gaps.load(m, k), way))

    def _set(self, row: Row, place: object, condition: Truth, value: object) -> None:
        """Store a value in the cases where a condition holds."""
        row.store(self.m, place, self.m.choose(condition, value, row.load(self.m, place)))

    def collide(self, first: Truth, collides: Truth) -> None:
        """Note what the collision takes of the impulses; ask for what restitution returns.

        Args:
            first: The cases whose compression has been solved.
            collides: Those and the cases whose collision has been solved.
        """
        m, problem = self.m, self.problem
        zero, one, half = m.constant(0.0), m.constant(1.0), m.constant(0.5)
        m.store(self.returned, 0, zero)
        for k in m.loop(0, self.count):
            jump = m.mul(self.approach.load(m, k), problem.p.load(m, k * 3 + 2))
            self._set(self.jumps, k, first, jump)
        # cases whose collision is posed now, and those whose collision was posed before
        posed = zero
        if self._between is not None:
            coupled = m.both(first, self._is_coupled())
            posed = m.choose(coupled, one, zero)
            solved = m.less(m.choose(first, one, zero), m.choose(collides, one, zero))
            for _ in m.iterate(1, lambda: coupled):
                self._pose_collision(coupled)
            for _ in m.iterate(1, lambda: solved):
                self._finish_collision(solved)
        collides = m.both(collides, m.less(posed, half))
        for k in m.loop(0, self.count):
            jump = m.choose(collides, self.jumps.load(m, k), zero)
            self.lands.store(m, 0, larger(m, self.lands.load(m, 0), jump))
            extra = m.mul(self.restitution.load(m, k), jump)
            m.store(self.returned, 0, larger(m, m.load(self.returned, 0), extra))
        again = m.less(zero, m.load(self.returned, 0))
        for _ in m.iterate(1, lambda: again):
            for k in m.loop(0, self.count):
                jump = self.jumps.load(m, k)
                extra = m.mul(self.restitution.load(m, k), jump)
                least = m.choose(m.less(zero, extra), m.add(jump, extra), zero)
                self._set(problem.least, k, again, least)
            self._set(self.phase, 0, again, m.constant(DECOMPRESSION))
            # sweeps of all problems count
            self._count_sweeps(again)
        m.store(self.returned, 0, m.choose(again, one, posed))

    def _count_sweeps(self, solved: Truth) -> None:
        """Add the sweeps of the last problem to those of the step."""
        m, sweeps = self.m, self.report[1]
        total = m.add(sweeps.load(m, 0), self.outcome.sweeps.load(m, 0))
        self._set(sweeps, 0, solved, total)

    def _lands_between(self, k: Index) -> Truth:
        """Return whether a contact of two bodies that both move lands."""
        m = self.m
        assert self._between is not None
        moves = m.less(m.constant(0.5), self._between.load(m, k))
        return m.both(moves, m.less(m.constant(LANDING_SHARE), self.approach.load(m, k)))

    def _is_coupled(self) -> Truth:
        """Return the cases in which such contacts push, and others as well."""
        m, zero = self.m, self.m.constant(0.0)
        for row in (self._landing, self._others):
            row.store(m, 0, zero)
        for k in m.loop(0, self.count):
            lands, normal = self._lands_between(k), self.problem.p.load(m, k * 3 + 2)
            for row, part in (
                (self._landing, m.choose(lands, normal, zero)),
                (self._others, m.choose(lands, zero, normal)),
            ):
                row.store(m, 0, larger(m, row.load(m, 0), part))
        return m.both(m.less(zero, self._landing.load(m, 0)), m.less(zero, self._others.load(m, 0)))

    @property
    def _compression(self) -> list[tuple[Row, Row, Index]]:
        """What compression found, where it is kept during the collision, and its length."""
        count, problem = self.count, self.problem
        sizes: tuple[Index, ...] = (count * 3, self.size, count, 1, 1, 1)
        found = (problem.p, problem.y, problem.alpha, *self.outcome)
        return list(zip(found, self._kept, sizes, strict=True))

    def _pose_collision(self, coupled: Truth) -> None:
        """Pose the problem of the speeds of approach alone, and keep what compression found."""
        m, problem, zero = self.m, self.problem, self.m.constant(0.0)
        for found, kept, size in self._compression:
            for i in m.loop(0, size):
                self._set(kept, i, coupled, found.load(m, i))
        for k in m.loop(0, self.count):
            bound = problem.b.load(m, k * 3 + 2)
            self._set(self._bounds, k, coupled, bound)
            speed = m.mul(self.approach.load(m, k), bound)
            self._set(problem.b, k * 3 + 2, coupled, m.choose(m.less(bound, zero), speed, bound))
        self._set(self.phase, 0, coupled, m.constant(COLLISION))

    def _finish_collision(self, solved: Truth) -> None:
        """Note what the collision takes of impulses, and go back to these."""
        m, problem = self.m, self.problem
        self._count_sweeps(solved)
        impulses = self._kept[0]
        for k in m.loop(0, self.count):
            n = k * 3 + 2
            jump, normal = problem.p.load(m, n), impulses.load(m, n)
            jump = m.choose(m.less(jump, normal), jump, normal)
            self._set(self.jumps, k, m.both(solved, self._lands_between(k)), jump)
            self._set(problem.b, n, solved, self._bounds.load(m, k))
        for found, kept, size in self._compression:
            for i in m.loop(0, size):
                self._set(found, i, solved, kept.load(m, i))
        self._set(self.phase, 0, solved, m.constant(COMPRESSION))

    def finish_gaps(self, over: Truth) -> None:
        """Add the motion that removes remaining penetration."""
        m, zero = self.m, self.m.constant(0.0)
        for _ in m.iterate(1, lambda: over):
            for i in m.loop(0, self.size):
                added = m.choose(over, self.problem.y.load(m, i), zero)
                self.z.store(m, i, m.add(self.z.load(m, i), added))
            self._set(self.pending, 0, over, zero)

    def finish_impulses(self, done: Truth) -> None:
        """Write the impulses, and pose the problem of their moments where contacts land."""
        m, problem = self.m, self.problem
        zero, one = m.constant(0.0), m.constant(1.0)
        for i in m.loop(0, self.size):
            self._set(self.y, i, done, problem.y.load(m, i))
            self._set(self.z, i, done, zero)
        residual, _, worst = self.report
        self._set(residual, 0, done, self.outcome.residual.load(m, 0))
        self._count_sweeps(done)
        self._set(worst, 0, done, self.outcome.worst.load(m, 0))
        self._done.store(m, 0, m.choose(done, one, zero))
        self._push_timed()
        self._ready.store(m, 0, self._done.load(m, 0))
        lands = m.both(done, m.less(zero, self.lands.load(m, 0)))
        for _ in m.iterate(1, lambda: lands):
            carried = m.both(lands, self._is_carried())
            for _ in m.iterate(1, lambda carried=carried: carried):  # type: ignore[misc]
                self._pose_moments(carried)

    def _is_carried(self) -> Truth:
        """Return the cases in which timed impulses carry contacts away."""
        m, problem, solver = self.m, self.problem, self.solver
        # squares of lengths, whatever the tangents are
        speed = Row(m.memory(1))
        speed.store(m, 0, m.constant(0.0))
        for k in m.loop(0, self.count):
            pushed = m.less(m.constant(0.0), self.p.load(m, k * 3 + 2))
            found = length_square(m, [problem.b.load(m, k * 3 + axis) for axis in range(3)])
            found = m.choose(pushed, found, m.constant(0.0))
            speed.store(m, 0, larger(m, speed.load(m, 0), found))
        solver.clear_lanes()
        for visit in solver.visits_abreast(self.z, reads=True):
            zero, weight, u = m.constant(0.0), self.weight.load(m, visit.k), visit.product()
            pushed = m.less(zero, self.p.load(m, visit.row + 2))
            slip = [
                m.add_product(weight, problem.b.load(m, visit.row + axis), u[axis])
                for axis in range(2)
            ]
            visit.group.raise_lane(m.choose(pushed, length_square(m, slip), zero))
        allowed = m.mul(m.constant(CARRIED_SPEED**2), speed.load(m, 0))
        return m.less(allowed, solver.largest_lane())

    def _pose_moments(self, lands: Truth) -> None:
        """Let impulses of contacts that closed at different instants hold each other."""
        m, problem, solver = self.m, self.problem, self.solver
        zero = m.constant(0.0)
        for k in m.loop(0, self.count):
            weight, n = self.weight.load(m, k), k * 3 + 2
            for axis in range(3):
                timed = m.mul(weight, self.p.load(m, k * 3 + axis))
                self._set(problem.p, k * 3 + axis, lands, timed)
            for axis in range(2):
                timed = m.mul(weight, problem.b.load(m, k * 3 + axis))
                self._set(problem.b, k * 3 + axis, lands, timed)
            held = m.less(m.constant(0.5), self.held.load(m, k))
            # a gap that its own impulse closes asks for no other
            room = m.choose(held, zero, m.constant(GAP_TOLERANCE))
            room = m.add(self.gaps.load(m, k), room)
            self._set(problem.b, n, lands, m.mul(room, self._over_h.load(m, 0)))
            least = m.choose(held, zero, m.mul(weight, self.p.load(m, n)))
            self._set(problem.least, k, lands, least)
        for i in m.loop(0, self.size):
            self._set(problem.y, i, lands, self.z.load(m, i))
        solver.note_largest()
        bound = m.mul(self.tolerance, solver.largest.load(m, 0))
        wrong = m.both(lands, m.less(bound, solver.evaluate(lands)))
        self._set(self._ready, 0, wrong, zero)
        self._set(self.phase, 0, wrong, m.constant(MOMENTS))

    def finish_moments(self, solved: Truth) -> None:
        """Note the moments that were solved for, and pose the problem of the gaps that remain."""
        m, problem = self.m, self.problem
        half, one = m.constant(0.5), m.constant(1.0)
        self._set(self._ready, 0, solved, one)
        for _ in m.iterate(1, lambda: solved):
            for i in m.loop(0, self.size):
                self._set(self.z, i, solved, problem.y.load(m, i))
            residual, _, worst = self.report
            found = self.outcome.residual.load(m, 0)
            misses = m.both(solved, m.less(residual.load(m, 0), found))
            self._set(residual, 0, misses, found)
            self._set(worst, 0, misses, self.outcome.worst.load(m, 0))
            self._count_sweeps(solved)
        ready = m.less(half, self._ready.load(m, 0))
        for _ in m.iterate(1, lambda: ready):
            zero = m.constant(0.0)
            for i in m.loop(0, self.size):
                self._set(problem.y, i, ready, zero)
            self._pose_gaps()
            needed = m.less(m.constant(GAP_TOLERANCE), self.error.load(m, 0))
            self._set(self.pending, 0, ready, m.choose(needed, one, zero))
            self._set(self.phase, 0, ready, m.constant(GAPS))
        self._ready.store(m, 0, m.constant(0.0))

    def _is(self, row: Row) -> Truth:
        """Return the cases that a row marks, inside of visits abreast."""
        return self.m.less(self.m.constant(0.5), row.load(self.m, 0))

    def _push_timed(self) -> None:
        """Write impulses; push them to z by the share of the step over which they act."""
        m, problem, solver = self.m, self.problem, self.solver
        solver.clear_lanes()
        for visit in solver.visits_abreast(self.z, pushes=True):
            zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
            done, p = self._is(self._done), visit.impulse()
            for axis, x in enumerate(p):
                self._set(self.p, visit.row + axis, done, x)
            visit.group.raise_lane(length_square(m, p))
            self._set(self.alpha, visit.k, done, problem.alpha.load(m, visit.k))
            self._set(self.weight, visit.k, done, m.mul(self.share.load(m, visit.k), half))
            pushed = visit.is_pushed(p)
            for _ in m.iterate(1, lambda pushed=pushed: pushed):  # type: ignore[misc]
                # suddenly, or from the closing of the gap on
                jump = self.jumps.load(m, visit.k)
                sudden = m.add_product(self.restitution.load(m, visit.k), jump, jump)
                closed = m.less(zero, p[2])
                ratio = m.div(sudden, m.choose(closed, p[2], one))
                ratio = m.choose(closed, m.choose(m.less(ratio, one), ratio, one), zero)
                weight = m.mul(self.share.load(m, visit.k), m.add_product(half, ratio, half))
                self._set(self.weight, visit.k, done, weight)
                weight = m.choose(done, weight, zero)
                smooth = m.both(done, m.less_equal(self.lands.load(m, 0), zero))
                lag = m.choose(smooth, self.lags.load(m, visit.k), zero)
                visit.push([m.mul(difference(m, weight, lag), x) for x in p])
        done, largest = self._is(self._done), solver.largest_lane()
        self._keep_lag(m.both(done, m.less(m.constant(0.0), largest)))
        hold = m.mul(m.constant(LEAST_HOLD), m.sqrt(largest))
        for k in m.loop(0, self.count):
            normal = self.p.load(m, k * 3 + 2)
            hangs = m.less(m.add(problem.least.load(m, k), hold), normal)
            stays = m.less_equal(self.jumps.load(m, k), m.mul(m.constant(LANDING_SHARE), normal))
            held = m.choose(m.both(hangs, stays), m.constant(1.0), m.constant(0.0))
            self._set(self.held, k, done, held)

    def _keep_lag(self, some: Truth) -> None:
        """Add to z what of the forces that act within the step acts on beyond half of it."""
        m, zero = self.m, self.m.constant(0.0)
        smooth = m.both(some, m.less_equal(self.lands.load(m, 0), zero))
        lag = m.choose(smooth, self.lag.load(m, 0), zero)
        for i in m.loop(0, self.size):
            self.z.store(m, i, m.add_product(lag, self.mean.load(m, i), self.z.load(m, i)))

    def _pose_gaps(self) -> None:
        """Pose the problem of the gaps that impulses leave."""
        m, problem, solver = self.m, self.problem, self.solver
        solver.clear_lanes()
        for visit in solver.visits_abreast(self.z, reads=True):
            zero = m.constant(0.0)
            ready, h = self._is(self._ready), self._h.load(m, 0)
            k, n = visit.k, visit.row + 2
            end = m.add_product(h, visit.normal_product(), self.gaps.load(m, k))
            held = m.less(m.constant(0.5), self.held.load(m, k))
            wrong = m.choose(m.less(end, zero), difference(m, zero, end), zero)
            wrong = m.choose(held, absolute(m, end), wrong)
            visit.group.raise_lane(wrong)
            self._set(problem.b, n, ready, m.mul(end, self._over_h.load(m, 0)))
            bound = m.choose(held, m.constant(-UNBOUNDED), zero)
            self._set(problem.least, k, ready, bound)
            self._set(problem.mu, k, ready, zero)
            self._set(problem.alpha, k, ready, zero)
            for axis in range(3):
                self._set(problem.p, visit.row + axis, ready, zero)
            for axis in range(2):
                self._set(problem.b, visit.row + axis, ready, zero)
        self.error.store(m, 0, solver.largest_lane())
