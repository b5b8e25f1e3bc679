"""Impulses at points with unilateral contact and Coulomb friction, by block Gauss-Seidel.

Symbols, per contact point, in its frame with axes t1, t2 along the surface and n normal to it:
    p       impulse on the second body, (p_t, p_n)
    u       relative velocity after the impulses, u = A A^T p + b
    A       three rows per contact: Jacobian of the contact points in the metric of the mass matrix,
            J H^-1/2
    y       A^T p
    G       diagonal block of A A^T
    mu      coefficient of friction
    p_0     least normal impulse: 0, or what decompression has to give
    rho     3 / trace G

The problem: p_n >= p_0, u_n >= 0, (p_n - p_0) u_n = 0, |p_t| <= mu p_n, and where a point slips,
p_t = -mu p_n u_t / |u_t|. The matrix A A^T is never formed: a contact reads and changes y only
where its own rows are not zero, and the effort grows with the number of contacts, not its square.

Each visit of a contact solves its own problem exactly, with the impulses of all others fixed
(Jourdan, Alart and Jean 1998). A point that sticks needs one product with the inverse of G. For the
others the normal impulse is eliminated: u_t = e + S p_t and p_n = a - c . p_t. A slipping point has
u_t = -alpha p_t, alpha > 0, so that p_t(alpha) = -(S + alpha)^-1 e and

    mu p_n(alpha) / |p_t(alpha)| - 1 = 0

which Newton's method solves from the left: without coupling c the left-hand side is concave. Blocks
are regularized about the present impulse, so that solutions are those of the problem as given while
a singular block (a planar robot has no motion across its plane) does no harm.

Sweeps end by the residual of the projections that the laws are (the natural map): the largest
length of p - (proj_D(p_t - rho u_t), max(p_0, p_n - rho u_n)), D the disc of radius mu p_n, over
all contacts and relative to the largest impulse. It is evaluated when the decrease of the changes
lets it be expected below its bound. All measures are lengths of vectors, not components: which way
the tangents point must not change a bit but by rounding.

A contact without impulse is passed over while it cannot close: |A_n y| <= |A_n| |y| < b_n.

Points of one body may share the rows of A (`contact_layout`). Where sweeps converge slowly Newton's
method goes on (`friction_semismooth`). It comes first where the initial impulses nearly solve the
problem, those of the step before: forces of many points are not unique, and sweeps would pass them
to and fro.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tiburon.trace.graph import Graph, Nodes
from tiburon.trace.primitives.contact_layout import OWN, SIZES, TURNED, ContactLayout, Run
from tiburon.trace.primitives.friction_derivative import FrictionAdjoint, FrictionTangent
from tiburon.trace.primitives.friction_newton import MOST_COLUMNS, FrictionNewton, project
from tiburon.trace.primitives.friction_semismooth import FrictionSemismooth
from tiburon.trace.primitives.friction_steady import FrictionSteady
from tiburon.trace.primitives.primitive import (
    Index,
    Machine,
    Memory,
    Number,
    Primitive,
    Truth,
    is_zero_row,
)
from tiburon.trace.primitives.sparse_system import (
    BlockedSystem,
    SparseSystem,
    UnsymmetricSystem,
)

BLOCK_REGULARIZATION = 1e-9
"""Regularization of a block, relative to its trace."""

IMMOBILE_RATIO = 1e-12
"""Normal element of a block, relative to its trace, below which nothing can open the contact."""

ROOT_TOLERANCE = 1e-13
"""Residual of the slip equation at which Newton's method ends."""

MOST_ROOT_STEPS = 30
"""Steps of Newton's method for one slipping contact."""

UNROLLED = 16
"""Columns of a support that are multiplied in straight-line code."""

SWEEPS_BEFORE_NEWTON = 2.0
"""Sweeps before Newton's method is tried where they converge slowly; twice as many before each
further attempt."""

SLOW_CONVERGENCE = 0.3
"""Share of the changes that is left after `SWEEPS_BEFORE_NEWTON` sweeps that converge slowly."""

NEAR_RESIDUAL = 0.05
"""Residual of initial impulses, relative to the largest, up to which no sweeps come before Newton's
method."""

SLIGHT_POWER = 1e-6
"""Power of contacts that the laws do not allow, relative to |y|^2, that is rounding."""

MOST_ATTEMPTS = 16
"""Attempts of Newton's method beside the sweeps, more than there are."""

MOST_RESTARTS = 4
"""Attempts of Newton's method at the convex law."""

NEWTON_TOLERANCE = 1e-9
"""Change of impulses, relative to the largest, that Newton's method resolves."""

FIRST_RATE = 0.1
"""Decrease of the changes from sweep to sweep that is expected after the first one."""

INVERSE, SCHUR, COUPLING, OVER_NORMAL, BLOCK, NORMAL, STEP, PROXIMAL = 0, 6, 9, 11, 12, 17, 18, 19
"""Places of what is stored per contact: G^-1, S, c, 1 / G_nn, G and in it G_nn, rho, and what is
added to the diagonal of G."""

STORED = 20
"""Number of what is stored per contact."""

MOBILITY = 21
"""Elements of B B^T of a group."""


class Row(NamedTuple):
    """Equally spaced floats in memory."""

    memory: Memory
    first: Any = 0
    step: int = 1
    """Floats from one to the next."""

    def load(self, m: Machine, place: Index) -> Number:
        """Read a float."""
        return m.load(self.memory, place * self.step + self.first)

    def store(self, m: Machine, place: Index, value: Number) -> None:
        """Write a float."""
        m.store(self.memory, place * self.step + self.first, value)


class Problem(NamedTuple):
    """A contact problem and its solution in memory."""

    A: Row
    """Rows of all groups of contacts over their supports."""

    numbers: Row
    """Arms and axes of contacts that share rows."""

    b: Row
    """Relative velocities without impulses, three per contact."""

    mu: Row
    """Coefficients of friction."""

    least: Row
    """Least normal impulses p_0."""

    p: Row
    """Impulses, three per contact."""

    y: Row
    """A^T p."""

    alpha: Row
    """Slip velocity per tangential impulse, 0 where a contact does not slip."""


class Outcome(NamedTuple):
    """What an iteration leaves in memory, one float each."""

    residual: Row
    """Largest residual of a contact, relative to the largest impulse."""

    sweeps: Row
    """Number of sweeps and Newton steps."""

    worst: Row
    """Contact with the largest residual."""


class FrictionGaussSeidel(Primitive):
    """Solve for the impulses of all contacts.

    Arguments: A, for each contact its three rows over its support; b; mu; p_0; initial impulses;
    the residual at which to end. Results: impulses; y; alpha of each contact, 0 where it does not
    slip; the residual; the number of sweeps; the contact with the largest residual.

    Attributes:
        size: Columns of A.
        supports: For each contact the columns where its rows are not zero.
        most: Most sweeps.
    """

    def __init__(self, size: int, supports: Sequence[Sequence[int]], most: int) -> None:
        super().__init__("friction_gauss_seidel", size, most, *support_form(supports))
        self.size = size
        self.supports = tuple(tuple(support) for support in supports)
        self.most = most
        self.entries = 3 * sum(map(len, supports))
        self.argument_count = self.entries + 8 * self.contacts + 1
        self.result_count = 4 * self.contacts + size + 3

    @property
    def contacts(self) -> int:
        """Number of contact points."""
        return len(self.supports)

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Sweep over the contacts until the impulses solve the problem."""
        count, n = self.contacts, 3 * self.contacts
        b, mu, least, start, tolerance = rows_of(given, self.entries, (n, count, count, n, 1))
        p, y, alpha, *outcome = rows_of(found, 0, (n, self.size, count, 1, 1, 1))
        problem = Problem(Row(given), Row(given), b, mu, least, p, y, alpha)
        layout = ContactLayout.of(self.supports)
        solver = GaussSeidel(m, layout, self.size, problem, Outcome(*outcome), self.most)
        solver.begin(start)
        solver.solve(m.less(m.constant(0.0), m.constant(1.0)), tolerance.load(m, 0))

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of impulses, y and alpha; see `friction_derivative`."""
        zero, used = graph.const(0.0), self.entries + 5 * self.contacts
        count = 4 * self.contacts + self.size
        # the start of the sweeps does not matter
        if is_zero_row(graph, tangents[:used]):
            return [zero] * self.result_count
        rule = FrictionTangent(self.size, self.supports)
        given = [*args[:used], *results[:count], *tangents[:used]]
        return [*graph.call(rule, given), *[zero] * (self.result_count - count)]

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of A, b, mu and p_0; see `friction_derivative`."""
        zero, used = graph.const(0.0), self.entries + 5 * self.contacts
        count = 4 * self.contacts + self.size
        rest = [zero] * (self.argument_count - used)
        if is_zero_row(graph, adjoints[:count]):
            return [*[zero] * used, *rest]
        rule = FrictionAdjoint(self.size, self.supports)
        given = [*args[:used], *results[:count], *adjoints[:count]]
        return [*graph.call(rule, given), *rest]


def support_form(supports: Sequence[Sequence[int]]) -> list[int]:
    """Return supports as integers that determine them."""
    lengths = [len(support) for support in supports]
    return [len(supports), *lengths, *(column for support in supports for column in support)]


def rows_of(memory: Memory, first: int, sizes: Sequence[int]) -> list[Row]:
    """Return rows that follow each other in memory."""
    ends = itertools.accumulate(sizes, initial=first)
    return [Row(memory, start) for start, _ in itertools.pairwise(ends)]


class GaussSeidel:
    """Write sweeps over the contacts of a problem."""

    def __init__(
        self,
        m: Machine,
        layout: ContactLayout,
        size: int,
        problem: Problem,
        outcome: Outcome,
        most: int,
        *,
        convex: bool = False,
        stuck: Row | None = None,
        used: Number | None = None,
    ) -> None:
        """Take memory for what is stored per contact.

        Args:
            m: The machine.
            layout: Where the rows of contacts are, and which they share.
            size: Columns of A.
            problem: The problem; p, y and alpha are its solution afterwards.
            outcome: Where residual, sweeps and the worst contact go.
            most: Most sweeps.
            convex: Whether points obey the convex law, which Newton's method solves alone.
            stuck: Whether contacts stuck at the end of the step before, 1 or 0, whose impulses are
                the initial ones; None without such a step.
            used: Slots of the layout that are used; None where it has none.
        """
        self.m = m
        self.size = size
        self.problem = problem
        self.outcome = outcome
        self.most = most
        self.layout = layout
        count = layout.contacts
        self.used: Index = layout.slots
        """Slots that are visited: in a vector, those of the case with the most."""
        self.contacts: Index = count
        """Contacts that are visited."""
        if used is not None:
            self.used = m.largest(used, layout.slots)
            self.contacts = self.used + (count - layout.slots)
        self.stored = m.memory(STORED * count)
        carried = sum(group.points for group in layout.groups if group.form != OWN)
        self.mobility = Row(m.memory(MOBILITY * len(layout.groups) if carried else 1))
        """B B^T of each group."""
        self.twist, self.wrench = Row(m.memory(6)), Row(m.memory(6))
        """B y of the present group, and the sum of E^T p that is pushed."""
        shared = [run for run in layout.runs() if run.group.form != OWN and not run.sizes]
        self.width = max((run.length for run in shared), default=1)
        """Most groups that are visited abreast."""
        longest = max((len(run.group.support) for run in shared), default=0)
        self.abreast_twist, self.abreast_wrench, self.abreast_push = (
            m.memory(count * self.width) for count in (6, 6, max(longest, 1))
        )
        """The same of groups that are visited abreast, and what they add to y."""
        self.found, self._at = Row(m.memory(self.width)), Row(m.memory(self.width))
        """What such groups note of their contacts."""
        self._change, self.largest, self.reach, self.softest = (Row(m.memory(1)) for _ in range(4))
        self._wait, self._patience, self._mark, self._none, self._inverted = (
            Row(m.memory(1)) for _ in range(5)
        )
        self._tries, self._first, self._left = (Row(m.memory(1)) for _ in range(3))
        rows = ((problem.p, self.contacts * 3), (problem.y, size), (problem.alpha, self.contacts))
        most_kept = (3 * count, size, count)
        self._kept = [
            (row, Row(m.memory(length)), number)
            for (row, number), length in zip(rows, most_kept, strict=True)
        ]
        self._convex = FrictionNewton(self, SparseSystem(m, layout, size)) if convex else None
        self._newton: FrictionSemismooth | None = None
        self._steady: FrictionSteady | None = None
        if not convex and count > 1 and size - layout.couplings <= MOST_COLUMNS:
            system = (UnsymmetricSystem if m.is_wide else BlockedSystem)(m, layout, size)
            self._newton = FrictionSemismooth(self, system)
            if stuck is not None and 3 * count > size:
                self._steady = FrictionSteady(self, stuck)

    def groups(self) -> Iterator[Group]:
        """Go through the groups of contacts in order, in loops over those of the same form."""
        m = self.m
        for run in self.layout.runs():
            tables = m.table(run.columns), m.table(run.sizes)
            for place in m.loop(0, self._length(run)):
                yield Group(self, run, tables, place)

    def _length(self, run: Run) -> Index:
        """Return the number of groups of a run that are visited."""
        return self.used if run.in_slots else run.length

    def groups_abreast(
        self, y: Row | None = None, *, reads: bool = False, pushes: bool = False
    ) -> Iterator[Group]:
        """Go through the groups, like ones that share rows abreast, prepared for visits.

        What those push arrives after all of a run have been visited; arguments as of `visits`.
        """
        m = self.m
        for run in self.layout.runs():
            tables = m.table(run.columns), m.table(run.sizes)
            abreast = run.group.form != OWN and not run.sizes
            for place in m.abreast(run.length) if abreast else m.loop(0, self._length(run)):
                group = Group(self, run, tables, place, abreast=abreast)
                group.begin(y, reads=reads, pushes=pushes)
                yield group
                group.end()
            if pushes and abreast:
                for place in m.loop(0, run.length):
                    Group(self, run, tables, place).add_pushed(self.problem.y if y is None else y)

    def visits_abreast(
        self, y: Row | None = None, *, reads: bool = False, pushes: bool = False
    ) -> Iterator[Visit]:
        """Visit the contacts, those of like groups abreast; arguments as of `visits`."""
        for group in self.groups_abreast(y, reads=reads, pushes=pushes):
            yield from group.points()

    def visits(
        self, y: Row | None = None, *, reads: bool = False, pushes: bool = False
    ) -> Iterator[Visit]:
        """Visit the contacts in order.

        Args:
            y: Vector to multiply with rows, or to push to; by default that of the problem.
            reads: Whether velocities are requested.
            pushes: Whether impulses are pushed; they change the velocities that follow.
        """
        for group in self.groups():
            group.begin(y, reads=reads, pushes=pushes)
            yield from group.points()
            group.end()

    def begin(self, start: Row) -> None:
        """Set impulses and y to an initial guess, and store what sweeps need of each contact."""
        m, problem = self.m, self.problem
        zero = m.constant(0.0)
        for i in m.loop(0, self.contacts * 3):
            problem.p.store(m, i, start.load(m, i))
        for i in m.loop(0, self.size):
            problem.y.store(m, i, zero)
        self._inverted.store(m, 0, zero)
        self.clear_lanes()
        for group in self.groups_abreast(pushes=True):
            group.store_mobility()
            for visit in group.points():
                problem.alpha.store(m, visit.k, m.constant(0.0))
                group.raise_lane(visit.store_block())
                p = visit.impulse()
                pushed = visit.is_pushed(p)
                for _ in m.iterate(1, lambda pushed=pushed: pushed):  # type: ignore[misc]
                    visit.push(p)
        self.softest.store(m, 0, self.largest_lane())

    def clear_lanes(self) -> None:
        """Set what groups note of their contacts to zero, before they are visited abreast."""
        for i in self.m.loop(0, self.width):
            self.found.store(self.m, i, self.m.constant(0.0))

    def largest_lane(self) -> Number:
        """Return the largest of what groups have noted."""
        m, found = self.m, Row(self.m.memory(1))
        found.store(m, 0, m.constant(0.0))
        for i in m.loop(0, self.width):
            found.store(m, 0, larger(m, found.load(m, 0), self.found.load(m, i)))
        return found.load(m, 0)

    def solve(self, pending: Truth, tolerance: Number, least: Number | None = None) -> None:
        """Sweep until the residual is small enough.

        Args:
            pending: Cases to solve; the others keep everything as it is.
            tolerance: Residual at which to end, relative to the largest impulse.
            least: Residual [N s] that is none, whatever the impulses are.
        """
        m, outcome = self.m, self.outcome
        self._none.store(m, 0, m.constant(0.0) if least is None else least)
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        going, before = Row(m.memory(1)), Row(m.memory(1))
        going.store(m, 0, m.choose(pending, one, zero))
        before.store(m, 0, zero)
        outcome.sweeps.store(m, 0, zero)
        outcome.residual.store(m, 0, one)
        outcome.worst.store(m, 0, zero)
        for row in (self._wait, self._patience):
            row.store(m, 0, m.constant(SWEEPS_BEFORE_NEWTON))
        self._mark.store(m, 0, m.constant(-1.0))
        if self._convex is not None:
            self._convex.begin()

        def busy() -> Truth:
            return m.less(half, going.load(m, 0))

        if self._convex is not None:
            for _ in m.iterate(MOST_RESTARTS, busy):
                self._solve_convex(busy(), tolerance, least, going)
            return
        if self._steady is not None:
            assert self._newton is not None
            self._steady.keep(busy(), tolerance, going, self._newton.share)
        # first where the initial impulses nearly solve the problem
        self._tries.store(m, 0, one)
        self._first.store(m, 0, one)
        self._left.store(m, 0, m.constant(float(self.most)))
        for _ in m.iterate(self.most + MOST_ATTEMPTS, busy):
            if self._newton is not None:
                due = m.both(busy(), m.less(half, self._tries.load(m, 0)))
                for _ in m.iterate(1, lambda due=due: due):  # type: ignore[misc]
                    self._try_newton(due, tolerance, least, going)
                self._first.store(m, 0, zero)
            active = busy()
            for _ in m.iterate(1, lambda active=active: active):  # type: ignore[misc]
                self._store_inverses(active)
                self._sweep(active, tolerance, least, going, before)

    def _store_inverses(self, condition: Truth) -> None:
        """Store what sweeps need of each contact, where a condition holds in some case.

        Problems that follow each other have the same matrix: once is enough, for all cases.
        """
        m = self.m
        needed = m.both(condition, m.less(self._inverted.load(m, 0), m.constant(0.5)))
        for _ in m.iterate(1, lambda: needed):
            for visit in self.visits():
                visit.store_inverse()
            self._inverted.store(m, 0, m.constant(1.0))

    def _sweep(
        self, active: Truth, tolerance: Number, least: Number | None, going: Row, before: Row
    ) -> None:
        """Sweep over the contacts of cases once; those that are solved stop going.

        Args:
            active: The cases.
            tolerance: Residual at which to end, relative to the largest impulse.
            least: Residual [N s] that is none, whatever the impulses are.
            going: Whether a case is not solved yet: 1 or 0.
            before: Largest change in the last sweep.
        """
        m, outcome = self.m, self.outcome
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        sweeps = outcome.sweeps.load(m, 0)
        outcome.sweeps.store(m, 0, m.add(sweeps, m.choose(active, one, zero)))
        self._change.store(m, 0, zero)
        self.largest.store(m, 0, zero)
        # a margin of two: y changes within the sweep
        self.reach.store(m, 0, m.mul(m.constant(4.0), self.square()))
        for visit in self.visits(reads=True, pushes=True):
            self._visit(visit, active)
        # squares so far
        for row in (self._change, self.largest):
            row.store(m, 0, m.sqrt(row.load(m, 0)))
        change, last = self._change.load(m, 0), before.load(m, 0)
        first = m.less_equal(last, zero)
        rate = m.div(change, m.choose(first, one, last))
        rate = m.choose(first, m.constant(FIRST_RATE), m.choose(m.less(rate, one), rate, one))
        bound = self._bound(tolerance, least)
        left = m.add(self._left.load(m, 0), m.constant(-1.0))
        self._left.store(m, 0, left)
        ends = m.less(left, half)
        due = m.both(active, m.either(m.less_equal(m.mul(change, rate), bound), ends))
        before.store(m, 0, change)
        for _ in m.iterate(1, lambda: due):
            over = m.either(m.less_equal(self.evaluate(due), bound), ends)
            going.store(m, 0, m.choose(m.both(due, over), zero, going.load(m, 0)))
        if self._newton is not None:
            self._note_slow(active)

    def _note_slow(self, active: Truth) -> None:
        """Ask for Newton's method where sweeps converge slowly, after a while."""
        m = self.m
        zero, one = m.constant(0.0), m.constant(1.0)
        wait = m.add(self._wait.load(m, 0), m.constant(-1.0))
        over = m.less(wait, m.constant(0.5))
        change, mark = self._change.load(m, 0), self._mark.load(m, 0)
        due = m.both(
            m.both(active, over), m.less(m.mul(m.constant(SLOW_CONVERGENCE), mark), change)
        )
        self._tries.store(m, 0, m.choose(due, one, zero))
        first = m.less(mark, zero)
        self._mark.store(m, 0, m.choose(m.either(over, first), change, mark))
        patience = self._patience.load(m, 0)
        patience = m.choose(due, m.add(patience, patience), patience)
        self._patience.store(m, 0, patience)
        self._wait.store(m, 0, m.choose(over, patience, wait))

    def _solve_convex(
        self, active: Truth, tolerance: Number, least: Number | None, going: Row
    ) -> None:
        """Solve by Newton's method; cases that are solved stop going."""
        m, newton = self.m, self._convex
        assert newton is not None
        newton.solve(active, larger(m, tolerance, m.constant(NEWTON_TOLERANCE)))
        self.note_largest()
        bound = self._bound(tolerance, least)
        small = m.both(active, m.less_equal(self.evaluate(active), bound))
        going.store(m, 0, m.choose(small, m.constant(0.0), going.load(m, 0)))

    def _try_newton(self, due: Truth, tolerance: Number, least: Number | None, going: Row) -> None:
        """Go on by Newton's method, where that makes the residual smaller, and power not larger.

        What it finds counts only then: where there is no solution, impulses grow while the residual
        shrinks. It comes first where the initial impulses nearly solve the problem, or where that
        has no relative tolerance: such problems are linear, but for contacts that open.

        Args:
            due: Cases to solve; they stop going when they are solved.
            tolerance: Residual at which to end, relative to the largest impulse.
            least: Residual [N s] that is none, whatever the impulses are.
            going: Whether a case is not solved yet: 1 or 0.
        """
        m, newton = self.m, self._newton
        assert newton is not None
        zero, one, half = (m.constant(x) for x in (0.0, 1.0, 0.5))
        relative = m.less(zero, tolerance)
        near = m.both(relative, m.less(half, self._first.load(m, 0)))
        self.keep()
        newton.solve(due, near, tolerance, least)
        largest, after, before = (
            m.sqrt(row.load(m, 0)) for row in (newton.largest, newton.residual, newton.before)
        )
        bound = m.mul(tolerance, largest)
        if least is not None:
            bound = larger(m, bound, least)
        small = m.less_equal(after, bound)
        # of two solutions the second, which has slip velocities; false for what is not a number
        better = m.either(small, m.less(after, before))
        slight = m.mul(m.constant(SLIGHT_POWER), self.square())
        # residuals relative to impulses shrink when these grow
        grows = m.less(larger(m, newton.power_before.load(m, 0), slight), newton.power.load(m, 0))
        # of impulses that are rounding, power is, too
        grows = m.both(grows, m.both(relative, m.less(self._none.load(m, 0), after)))
        better = m.less(m.choose(grows, one, zero), m.choose(better, one, zero))
        solved = m.both(due, m.both(better, small))
        # nothing removes what is left then
        settled = m.both(due, m.less(half, newton.settled.load(m, 0)))
        going.store(m, 0, m.choose(m.either(solved, settled), zero, going.load(m, 0)))
        failed = m.both(due, m.less(m.choose(better, one, zero), one))
        for _ in m.iterate(1, lambda: failed):
            self.restore(failed)
        residual = m.choose(failed, before, after)
        largest = m.choose(failed, m.sqrt(newton.largest_before.load(m, 0)), largest)
        self._report(due, residual, largest, newton.worst.load(m, 0))

    def _bound(self, tolerance: Number, least: Number | None) -> Number:
        """Return the residual at which to end [N s]."""
        found = self.m.mul(tolerance, self.largest.load(self.m, 0))
        return found if least is None else larger(self.m, found, least)

    def note_largest(self, where: Truth | None = None) -> None:
        """Note the largest of all impulses, in all cases or in some."""
        m, found = self.m, Row(self.m.memory(1))
        found.store(m, 0, m.constant(0.0))
        for k in m.loop(0, self.contacts):
            impulse = [self.problem.p.load(m, k * 3 + axis) for axis in range(3)]
            self._raise(found, length_square(m, impulse))
        largest = m.sqrt(found.load(m, 0))
        if where is not None:
            largest = m.choose(where, largest, self.largest.load(m, 0))
        self.largest.store(m, 0, largest)

    def keep(self) -> None:
        """Note impulses, y and alpha."""
        for row, kept, count in self._kept:
            for i in self.m.loop(0, count):
                kept.store(self.m, i, row.load(self.m, i))

    def restore(self, where: Truth) -> None:
        """Set cases back to what was noted."""
        m = self.m
        for row, kept, count in self._kept:
            for i in m.loop(0, count):
                row.store(m, i, m.choose(where, kept.load(m, i), row.load(m, i)))

    def square(self) -> Number:
        """Return y . y."""
        return self.sum_of_squares(self.problem.y, self.size)

    def sum_of_squares(self, row: Row, count: int) -> Number:
        """Return the sum of the squares of a row."""
        m = self.m
        total = Row(m.memory(1))
        total.store(m, 0, m.constant(0.0))
        for i in m.loop(0, count):
            x = row.load(m, i)
            total.store(m, 0, m.add_product(x, x, total.load(m, 0)))
        return total.load(m, 0)

    def evaluate(self, due: Truth) -> Number:
        """Write the residual of cases, and the contact where it is largest; return it [N s]."""
        m = self.m
        zero = m.constant(0.0)
        residual, worst = Row(m.memory(1)), Row(m.memory(1))
        self.clear_lanes()
        for i in m.loop(0, self.width):
            self._at.store(m, i, zero)
        self.reach.store(m, 0, self.square())
        for visit in self.visits_abreast(reads=True):
            near = visit.is_near(self.reach.load(m, 0))
            for _ in m.iterate(1, lambda near=near: near):  # type: ignore[misc]
                most, at = visit.group.lanes(self.found, self._at)
                found = visit.residual_square(convex=self._convex is not None)
                known = most.load(m, 0)
                more = m.both(near, m.less(known, found))
                most.store(m, 0, m.choose(more, found, known))
                at.store(m, 0, m.choose(more, m.number(visit.k), at.load(m, 0)))
        residual.store(m, 0, zero)
        worst.store(m, 0, zero)
        for i in m.loop(0, self.width):
            found, known = self.found.load(m, i), residual.load(m, 0)
            more = m.less(known, found)
            residual.store(m, 0, m.choose(more, found, known))
            worst.store(m, 0, m.choose(more, self._at.load(m, i), worst.load(m, 0)))
        residual.store(m, 0, m.sqrt(residual.load(m, 0)))
        self._report(due, residual.load(m, 0), self.largest.load(m, 0), worst.load(m, 0))
        return residual.load(m, 0)

    def _report(self, due: Truth, residual: Number, largest: Number, worst: Number) -> None:
        """Write the residual [N s] of cases relative to their largest impulse, and where it is."""
        m, outcome = self.m, self.outcome
        zero, one = m.constant(0.0), m.constant(1.0)
        scale = m.choose(m.less(zero, largest), largest, one)
        none = m.less_equal(residual, self._none.load(m, 0))
        relative = m.choose(none, zero, m.div(residual, scale))
        for row, value in ((outcome.residual, relative), (outcome.worst, worst)):
            row.store(m, 0, m.choose(due, value, row.load(m, 0)))

    def _visit(self, visit: Visit, active: Truth) -> None:
        """Solve the problem of one contact and move its impulse there."""
        m, p_of = self.m, self.problem.p
        near = m.both(active, visit.is_near(self.reach.load(m, 0)))
        for _ in m.iterate(1, lambda: near):
            u, p = visit.velocity(), visit.impulse()
            new = visit.solved(u, p, near)
            zero, moved = m.constant(0.0), []
            for axis in range(3):
                step = m.choose(near, difference(m, new[axis], p[axis]), zero)
                moved.append(step)
                # other cases keep the sign of a zero, too
                p_of.store(m, visit.row + axis, m.choose(near, m.add(p[axis], step), p[axis]))
            self._raise(self._change, length_square(m, moved))
            self._raise(self.largest, m.choose(near, length_square(m, new), zero))
            visit.push(moved)

    def _raise(self, largest: Row, value: Number) -> None:
        """Raise the largest magnitude to that of a value."""
        m = self.m
        largest.store(m, 0, larger(m, largest.load(m, 0), absolute(m, value)))


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


class Group:
    """Contacts that share rows."""

    def __init__(
        self,
        solver: GaussSeidel,
        run: Run,
        tables: tuple[Any, Any],
        place: Index,
        *,
        abreast: bool = False,
    ) -> None:
        self.m = solver.m
        self.twist, self.wrench = solver.twist, solver.wrench
        self._width = solver.width
        if abreast:
            self.twist, self.wrench = (
                Row(memory, place, self._width)
                for memory in (solver.abreast_twist, solver.abreast_wrench)
            )
        self._abreast = abreast
        self.solver, self.run, self.place = solver, run, place
        self.form, self.rows = run.group.form, run.group.rows
        self.number = place + run.first
        """The group."""
        self._columns, sizes = tables
        if run.sizes:
            self.size, self.length, *before = (
                self.m.lookup(sizes, place * SIZES + k) for k in range(SIZES)
            )
        else:
            self.size, self.length = run.group.points, len(run.group.support)
            before = [place * count for count in run.group.counts]
        point, entry, number, self._first = before
        self.point, self.own = point + run.point, number + run.number
        """Its first point, and the first number of its points."""
        self._entry = entry + run.entry
        if run.is_alike:
            self._first = 0
        self.offset = self._first + run.column
        """Columns of the supports of all groups before it."""
        self._y = solver.problem.y
        self.reads = self.pushes = False

    def lanes(self, *rows: Row) -> tuple[Row, ...]:
        """Return where this group notes what all groups of a run note abreast."""
        return tuple(Row(row.memory, self.place if self._abreast else 0) for row in rows)

    def raise_lane(self, value: Number) -> None:
        """Raise what the group notes of its contacts to a value."""
        (found,) = self.lanes(self.solver.found)
        found.store(self.m, 0, larger(self.m, found.load(self.m, 0), value))

    @property
    def is_shared(self) -> bool:
        """Whether it has the rows of a body."""
        return self.form != OWN

    def entry(self, row: int, i: Index) -> Number:
        """Return an element of a row, by its place in the support."""
        return self.solver.problem.A.load(self.m, self._entry + row * self.length + i)

    def column(self, i: Index) -> Index:
        """Return a column of the support."""
        return self.m.lookup(self._columns, self._first + i)

    def points(self) -> Iterator[Visit]:
        """Visit its contacts in order."""
        for place in self.m.loop(0, self.size):
            yield Visit(self, place)

    def begin(self, y: Row | None = None, *, reads: bool = False, pushes: bool = False) -> None:
        """Prepare for visits; arguments as of `GaussSeidel.visits`."""
        self._y = self.solver.problem.y if y is None else y
        self.reads, self.pushes = reads, pushes
        if not self.is_shared:
            return
        if reads:
            self.read(self._y, self.twist)
        if pushes:
            self.clear(self.wrench)

    def clear(self, wrench: Row) -> None:
        """Set what visits collect to zero."""
        for row in range(self.rows):
            wrench.store(self.m, row, self.m.constant(0.0))

    def end(self) -> None:
        """Push what visits have collected."""
        if self.is_shared and self.pushes and not self._abreast:
            self.push(self.wrench, self._y)
        elif self.is_shared and self.pushes:
            m = self.m
            f = [self.wrench.load(m, row) for row in range(self.rows)]
            for i in m.loop(0, self.length):
                total = m.mul(self.entry(0, i), f[0])
                for row in range(1, self.rows):
                    total = m.add_product(self.entry(row, i), f[row], total)
                self._pushed.store(m, i, total)

    @property
    def _pushed(self) -> Row:
        """What groups that are visited abreast add to y, by columns of their supports."""
        return Row(self.solver.abreast_push, self.place, self._width)

    def add_pushed(self, y: Row) -> None:
        """Add to y what the group has pushed abreast of others."""
        m = self.m
        for i in m.loop(0, self.length):
            place = self.column(i)
            y.store(m, place, m.add(y.load(m, place), self._pushed.load(m, i)))

    @property
    def y(self) -> Row:
        """What visits multiply with rows, and push to."""
        return self._y

    def read(self, y: Row, found: Row) -> None:
        """Write the product of all rows with y."""
        m = self.m
        for row in range(self.rows):
            found.store(m, row, m.constant(0.0))
        for i in m.loop(0, self.length):
            x = y.load(m, self.column(i))
            for row in range(self.rows):
                found.store(m, row, m.add_product(self.entry(row, i), x, found.load(m, row)))

    def push(self, weights: Row, y: Row) -> None:
        """Add the sum of all rows times weights to y."""
        m = self.m
        f = [weights.load(m, row) for row in range(self.rows)]
        for i in m.loop(0, self.length):
            place = self.column(i)
            total = y.load(m, place)
            for row in range(self.rows):
                total = m.add_product(self.entry(row, i), f[row], total)
            y.store(m, place, total)

    def store_mobility(self) -> None:
        """Store B B^T."""
        m, found = self.m, self._mobility
        if not self.is_shared:
            return
        pairs = list(itertools.combinations_with_replacement(range(6), 2))
        for k in range(MOBILITY):
            found.store(m, k, m.constant(0.0))
        for i in m.loop(0, self.length):
            x = [self.entry(row, i) for row in range(6)]
            for k, (a, b) in enumerate(pairs):
                found.store(m, k, m.add_product(x[a], x[b], found.load(m, k)))

    @property
    def _mobility(self) -> Row:
        run = self.run
        return Row(self.solver.mobility.memory, self.place + run.first * MOBILITY, run.length)

    def mobility(self) -> list[list[Number]]:
        """Return B B^T."""
        M: list[list[Number]] = [[None] * 6 for _ in range(6)]
        for k, (a, b) in enumerate(itertools.combinations_with_replacement(range(6), 2)):
            M[a][b] = M[b][a] = self._mobility.load(self.m, k)
        return M


class Visit:
    """One contact: its rows of A and what they multiply."""

    def __init__(self, group: Group, place: Index) -> None:
        self.m = group.m
        self.group = group
        self.problem = group.solver.problem
        self.length = group.length
        run, stored = group.run, group.solver.stored
        self.k = group.point + place
        """The contact."""
        self.row = self.k * 3
        """Its first row."""
        self._stored = Row(stored, self.k * STORED)
        if group.is_shared and not run.sizes:
            # what like groups store is adjacent
            first = place * (STORED * run.length) + group.place + run.point * STORED
            self._stored = Row(stored, first, run.length)
        self._own = place * run.group.width + group.own

    def own(self, place: int) -> Number:
        """Return a number of the contact: its arm, then its axes."""
        return self.problem.numbers.load(self.m, self._own + place)

    def relative(self, w: Sequence[Number]) -> list[Number]:
        """Return the velocity of a contact that shares rows, of those of its body."""
        m = self.m
        a, b, c = (self.own(i) for i in range(3))
        u = [
            m.add_product(w[1], c, m.sub_product(w[2], b, w[3])),
            m.add_product(w[2], a, m.sub_product(w[0], c, w[4])),
            m.add_product(w[0], b, m.sub_product(w[1], a, w[5])),
        ]
        return self._along_axes(u)

    def _along_axes(self, u: list[Number]) -> list[Number]:
        if self.group.form != TURNED:
            return u
        m, found = self.m, []
        for k in range(3):
            x, y, z = (self.own(3 + 3 * k + i) for i in range(3))
            found.append(m.add_product(x, u[0], m.add_product(y, u[1], m.mul(z, u[2]))))
        return found

    def wrench(self, p: Sequence[Number]) -> list[Number]:
        """Return the moment and force on its body of an impulse of a contact that shares rows."""
        m = self.m
        x, y, z = p
        if self.group.form == TURNED:
            axes = [[self.own(3 + 3 * k + i) for i in range(3)] for k in range(3)]
            x, y, z = (
                m.add_product(
                    axes[0][i], p[0], m.add_product(axes[1][i], p[1], m.mul(axes[2][i], p[2]))
                )
                for i in range(3)
            )
        a, b, c = (self.own(i) for i in range(3))
        moment = [
            m.sub_product(c, y, m.mul(b, z)),
            m.sub_product(a, z, m.mul(c, x)),
            m.sub_product(b, x, m.mul(a, y)),
        ]
        return [*moment, x, y, z]

    def rows(self) -> list[list[Number | None]]:
        """Return E, its rows of A in terms of those of the group; None for zeros."""
        one, zero = self.m.constant(1.0), None
        if not self.group.is_shared:
            return [[one, zero, zero], [zero, one, zero], [zero, zero, one]]
        m = self.m
        a, b, c = (self.own(i) for i in range(3))
        if self.group.form != TURNED:
            A, B, C = (difference(m, m.constant(0.0), x) for x in (a, b, c))
            return [
                [zero, c, B, one, zero, zero],
                [C, zero, a, zero, one, zero],
                [b, A, zero, zero, zero, one],
            ]
        found: list[list[Number | None]] = []
        for k in range(3):
            x, y, z = (self.own(3 + 3 * k + i) for i in range(3))
            found.append(
                [
                    m.sub_product(c, y, m.mul(b, z)),
                    m.sub_product(a, z, m.mul(c, x)),
                    m.sub_product(b, x, m.mul(a, y)),
                    x,
                    y,
                    z,
                ]
            )
        return found

    def entry(self, axis: int, i: Index) -> Number:
        """Return an element of a row of A, by its place in the support; of rows of its own."""
        return self.group.entry(axis, i)

    def column(self, i: Index) -> Index:
        """Return a column of the support."""
        return self.group.column(i)

    def _parts(self) -> Iterator[tuple[Index, int]]:
        """Go through the support in parts of at most `UNROLLED` columns; of one if it has no size.

        Groups of different sizes share code.
        """
        if self.group.run.sizes:
            for i in self.m.loop(0, self.length):
                yield i, 1
            return
        whole, rest = divmod(self.length, UNROLLED)
        for part in self.m.loop(0, whole):
            yield part * UNROLLED, UNROLLED
        if rest:
            yield whole * UNROLLED, rest

    def _sums(self, count: int, terms: Any) -> list[Number]:
        """Return sums of products over the support.

        Args:
            count: Number of sums.
            terms: Returns for a column the factors of each sum.
        """
        m = self.m
        zero = m.constant(0.0)
        if self.group.run.sizes or self.length > UNROLLED:
            totals = m.memory(count)
            for k in range(count):
                m.store(totals, k, zero)
            for first, length in self._parts():
                sums = self._part_sums(count, terms, first, length)
                for k, value in enumerate(sums):
                    m.store(totals, k, m.add(m.load(totals, k), value))
            return [m.load(totals, k) for k in range(count)]
        return self._part_sums(count, terms, 0, self.length)

    def _part_sums(self, count: int, terms: Any, first: Index, length: int) -> list[Number]:
        # two chains of additions each, half as long
        m = self.m
        chains: list[list[Any]] = [[None] * count, [None] * count]
        for i in range(length):
            chain = chains[i % 2]
            for k, (a, b) in enumerate(terms(first + i)):
                known = chain[k]
                chain[k] = m.mul(a, b) if known is None else m.add_product(a, b, known)
        even, odd = chains
        return [a if b is None else m.add(a, b) for a, b in zip(even, odd, strict=True)]

    def impulse(self) -> list[Number]:
        """Return its impulse."""
        return [self.problem.p.load(self.m, self.row + axis) for axis in range(3)]

    def _block_elements(self) -> list[Number]:
        """Return the elements xx, xy, xn, yy, yn, nn of A_k A_k^T."""
        m = self.m
        if not self.group.is_shared:

            def terms(i: Index) -> list[tuple[Number, Number]]:
                x, y, n = (self.entry(axis, i) for axis in range(3))
                return [(x, x), (x, y), (x, n), (y, y), (y, n), (n, n)]

            return self._sums(6, terms)
        M, E = self.group.mobility(), self.rows()
        moved = [[_dot(m, row, M[i]) for i in range(6)] for row in E]
        return [_dot(m, E[j], moved[i]) for i in range(3) for j in range(i, 3)]

    def _trace_and_normal(self) -> tuple[Number, Number]:
        """Return the trace of A_k A_k^T, whatever the axes are, and nn, of a contact in a group."""
        m, M = self.m, self.group.mobility()
        arm = [self.own(i) for i in range(3)]
        square = [m.mul(x, x) for x in arm]
        trace, doubled = m.add(m.add(M[3][3], M[4][4]), M[5][5]), m.constant(0.0)
        for k, i, j in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            trace = m.add_product(m.add(square[i], square[j]), M[k][k], trace)
            doubled = m.sub_product(m.mul(arm[i], arm[j]), M[i][j], doubled)
            doubled = m.add_product(arm[k], difference(m, M[j][3 + i], M[i][3 + j]), doubled)
        normal = self.rows()[2]
        seen = [_dot(m, normal, M[i]) for i in range(6)]
        return m.add_product(m.constant(2.0), doubled, trace), _dot(m, normal, seen)

    def store_block(self) -> Number:
        """Store the block A_k A_k^T, regularized, and rho; return its trace.

        Of a contact in a group only the element nn is stored; sweeps need the others.
        """
        m = self.m
        zero, one = m.constant(0.0), m.constant(1.0)
        others: list[Number] = []
        if self.group.is_shared:
            trace, nn = self._trace_and_normal()
        else:
            *others, nn = self._block_elements()
            trace = m.add(m.add(others[0], others[3]), nn)
        empty = m.less_equal(trace, zero)
        # a contact that nothing can open has no impulse: an approach remains as a residual
        stuck = m.less_equal(nn, m.mul(m.constant(IMMOBILE_RATIO), trace))
        proximal = m.choose(empty, one, m.mul(m.constant(BLOCK_REGULARIZATION), trace))
        rho = m.div(m.constant(3.0), m.choose(empty, m.constant(3.0), trace))
        self._store_others(others, proximal)
        for place, value in ((NORMAL, m.add(nn, proximal)), (STEP, rho), (PROXIMAL, proximal)):
            self._stored.store(m, place, value)
        self._stored.store(m, OVER_NORMAL, m.choose(stuck, zero, one))
        return trace

    def _store_others(self, elements: Sequence[Number], proximal: Number) -> None:
        """Store the elements of the block but nn, regularized."""
        for place, value in enumerate(elements):
            regular = self.m.add(value, proximal) if place in (0, 3) else value
            self._stored.store(self.m, BLOCK + place, regular)

    def store_inverse(self) -> None:
        """Store what sweeps need of the block: its inverse and Schur complement."""
        m = self.m
        zero, one = m.constant(0.0), m.constant(1.0)
        if self.group.is_shared:
            # nn stays: whether a contact is near must not depend on other cases of a vector
            self._store_others(self._block_elements()[:5], self._stored.load(m, PROXIMAL))
        xx, xy, xn, yy, yn, nn = self._loaded(BLOCK, 6)
        over_n = self._stored.load(m, OVER_NORMAL)
        over_n = m.choose(m.less(zero, over_n), m.div(one, nn), zero)
        cx, cy = m.mul(xn, over_n), m.mul(yn, over_n)
        sxx, sxy, syy = (
            m.sub_product(a, b, c) for a, b, c in ((cx, xn, xx), (cx, yn, xy), (cy, yn, yy))
        )
        over = m.div(one, m.sub_product(sxy, sxy, m.mul(sxx, syy)))
        ixx, ixy, iyy = m.mul(syy, over), m.sub_product(sxy, over, zero), m.mul(sxx, over)
        # G^-1 = [[S^-1, -S^-1 c], [-c^T S^-1, 1 / nn + c^T S^-1 c]]
        ixn = m.sub_product(ixx, cx, m.sub_product(ixy, cy, zero))
        iyn = m.sub_product(ixy, cx, m.sub_product(iyy, cy, zero))
        inn = m.sub_product(cx, ixn, m.sub_product(cy, iyn, over_n))
        values = (ixx, ixy, ixn, iyy, iyn, inn, sxx, sxy, syy, cx, cy, over_n)
        for place, value in enumerate(values):
            self._stored.store(m, place, value)

    def rho(self) -> Number:
        """Return 3 / trace G; 1 where nothing can move."""
        return self._stored.load(self.m, STEP)

    def _loaded(self, first: int, count: int) -> list[Number]:
        return [self._stored.load(self.m, first + i) for i in range(count)]

    def is_near(self, reach: Number) -> Truth:
        """Return whether the contact has an impulse or may close.

        Args:
            reach: Square of a bound of |y|.
        """
        m, problem = self.m, self.problem
        zero = m.constant(0.0)
        apart = problem.b.load(m, self.row + 2)
        apart = m.choose(m.less(zero, apart), apart, zero)
        least = problem.least.load(m, self.k)
        total = m.mul(least, least)
        for x in self.impulse():
            total = m.add_product(x, x, total)
        closing = m.mul(self._stored.load(m, NORMAL), reach)
        return m.either(m.less_equal(m.mul(apart, apart), closing), m.less(zero, total))

    def product(self) -> list[Number]:
        """Return A_k y, for the y of the visit."""
        m = self.m
        if self.group.is_shared:
            return self.relative([self.group.twist.load(m, i) for i in range(6)])

        def terms(i: Index) -> list[tuple[Number, Number]]:
            y = self.group.y.load(m, self.column(i))
            return [(self.entry(axis, i), y) for axis in range(3)]

        return self._sums(3, terms)

    def velocity(self) -> list[Number]:
        """Return u = A_k y + b_k."""
        m = self.m
        b = [self.problem.b.load(m, self.row + axis) for axis in range(3)]
        return [m.add(x, y) for x, y in zip(self.product(), b, strict=True)]

    def is_pushed(self, p: list[Number]) -> Truth:
        """Return whether an impulse differs from zero."""
        return _any(self.m, p)

    def normal_product(self) -> Number:
        """Return A_n y, for the y of the visit."""
        m = self.m
        if self.group.is_shared:
            return self.product()[2]

        def terms(i: Index) -> list[tuple[Number, Number]]:
            return [(self.entry(2, i), self.group.y.load(m, self.column(i)))]

        return self._sums(1, terms)[0]

    def push(self, p: list[Number]) -> None:
        """Add A_k^T p to the y of the visit."""
        m, y = self.m, self.group.y
        if self.group.is_shared:
            self._push_shared(p)
            return
        for first, count in self._parts():
            for i in range(count):
                place = self.column(first + i)
                total = y.load(m, place)
                for axis in range(3):
                    total = m.add_product(self.entry(axis, first + i), p[axis], total)
                y.store(m, place, total)

    def collect(self, p: list[Number], wrench: Row | None = None) -> list[Number]:
        """Add E^T p to what the group collects; return it."""
        m = self.m
        wrench = self.group.wrench if wrench is None else wrench
        f = self.wrench(p) if self.group.is_shared else p
        for i, x in enumerate(f):
            wrench.store(m, i, m.add(wrench.load(m, i), x))
        return f

    def _push_shared(self, p: list[Number]) -> None:
        m, twist = self.m, self.group.twist
        f = self.collect(p)
        if self.group.reads:
            # what follows sees the impulse already
            for i, row in enumerate(self.group.mobility()):
                total = twist.load(m, i)
                for x, entry in zip(f, row, strict=True):
                    total = m.add_product(entry, x, total)
                twist.store(m, i, total)

    def residual_square(self, *, convex: bool) -> Number:
        """Return the square of how far the impulse is from its projection."""
        if convex:
            return self._convex_residual_square()
        return length_square(self.m, self.residual_of(self.velocity(), self.impulse()))

    def residual_of(self, u: Sequence[Number], p: Sequence[Number]) -> list[Number]:
        """Return what an impulse misses at a velocity: the natural map, less the impulse."""
        m = self.m
        zero, one, rho = m.constant(0.0), m.constant(1.0), self.rho()
        least, mu = self.problem.least.load(m, self.k), self.problem.mu.load(m, self.k)
        x, y, n = (m.sub_product(rho, a, b) for a, b in zip(u, p, strict=True))
        n = larger(m, n, least)
        limit = m.mul(mu, larger(m, p[2], zero))
        square = m.add_product(x, x, m.mul(y, y))
        slips = m.less(m.mul(limit, limit), square)
        scale = m.choose(slips, m.div(limit, m.sqrt(m.choose(slips, square, one))), one)
        projected = m.mul(scale, x), m.mul(scale, y), n
        return [difference(m, a, b) for a, b in zip(projected, p, strict=True)]

    def _convex_residual_square(self) -> Number:
        """Return the square of how far the impulse is from its projection onto the cone."""
        m = self.m
        u, p = self.velocity(), self.impulse()
        least, mu = self.problem.least.load(m, self.k), self.problem.mu.load(m, self.k)
        x = [m.sub_product(self.rho(), a, b) for a, b in zip(u, p, strict=True)]
        projected = project(m, x, mu, least).value
        return length_square(m, [difference(m, a, b) for a, b in zip(projected, p, strict=True)])

    def power_of(self, u: Sequence[Number], p: Sequence[Number]) -> Number:
        """Return the power of friction beyond that of sliding, plus that of the normal impulse."""
        m = self.m
        least, mu = self.problem.least.load(m, self.k), self.problem.mu.load(m, self.k)
        speed = m.sqrt(m.add_product(u[0], u[0], m.mul(u[1], u[1])))
        total = m.mul(m.mul(mu, p[2]), speed)
        total = m.add_product(p[0], u[0], m.add_product(p[1], u[1], total))
        return m.add(absolute(m, total), absolute(m, m.mul(difference(m, p[2], least), u[2])))

    def solved(self, u: list[Number], p: list[Number], active: Truth) -> list[Number]:
        """Return the impulse that solves the contact with the impulses of all others fixed.

        Args:
            u: Relative velocity.
            p: Present impulse.
            active: Cases that count; alpha of the others stays.
        """
        m, problem = self.m, self.problem
        zero, one = m.constant(0.0), m.constant(1.0)
        mu, least = problem.mu.load(m, self.k), problem.least.load(m, self.k)
        xx, xy, xn, yy, yn, nn = self._loaded(INVERSE, 6)
        cx, cy = self._loaded(COUPLING, 2)
        # the impulse of a point that sticks
        new = [
            m.sub_product(a, u[0], m.sub_product(b, u[1], m.sub_product(c, u[2], old)))
            for (a, b, c), old in zip(((xx, xy, xn), (xy, yy, yn), (xn, yn, nn)), p, strict=True)
        ]
        # the normal impulse without a tangential one; not from `new`, whose rounding is that of
        # the slip velocity: where bodies fall together and slip, it would be the whole impulse
        over_n = self._loaded(OVER_NORMAL, 1)[0]
        alone = m.add_product(cx, p[0], m.add_product(cy, p[1], m.sub_product(over_n, u[2], p[2])))
        normal = larger(m, alone, least)
        limit = m.mul(mu, new[2])
        square = m.add_product(new[0], new[0], m.mul(new[1], new[1]))
        # beyond the cone, on its wrong side, or open; with a least impulse, below that
        moves = m.either(m.less(limit, zero), m.less(m.mul(limit, limit), square))
        bound = m.less(zero, least)
        moves = m.either(moves, m.less_equal(m.choose(bound, new[2], alone), least))
        flat = m.less_equal(m.mul(mu, normal), zero)
        new = [m.choose(flat, a, b) for a, b in zip((zero, zero, normal), new, strict=True)]
        rough = m.choose(m.both(active, moves), m.choose(flat, zero, one), zero)
        result, alpha = m.memory(3), Row(m.memory(1))
        for axis, value in enumerate(new):
            m.store(result, axis, value)
        alpha.store(m, 0, zero)
        general = m.less(zero, rough)
        for _ in m.iterate(1, lambda: general):
            touches, start = self._touches(u, p, general), problem.alpha.load(m, self.k)
            block = self._block(u, p, alone, least, touches)
            *slipped, at = _slipping(m, block, mu, start, general)
            alpha.store(m, 0, m.choose(general, at, zero))
            for axis, value in enumerate(slipped):
                m.store(result, axis, m.choose(general, value, m.load(result, axis)))
        kept = m.choose(active, alpha.load(m, 0), problem.alpha.load(m, self.k))
        problem.alpha.store(m, self.k, kept)
        return [m.load(result, axis) for axis in range(3)]

    def _touches(self, u: list[Number], p: list[Number], active: Truth) -> Truth:
        """Return whether the least normal impulse does not stop the approach."""
        m, problem = self.m, self.problem
        zero, one = m.constant(0.0), m.constant(1.0)
        mu, least = problem.mu.load(m, self.k), problem.least.load(m, self.k)
        _, _, xn, _, yn, nn = self._loaded(BLOCK, 6)
        # without a least impulse there is no friction either
        moved = m.memory(2)
        for axis in range(2):
            m.store(moved, axis, difference(m, zero, p[axis]))
        bound = m.both(active, m.less(zero, least))
        for _ in m.iterate(1, lambda: bound):
            never = m.less(one, zero)
            block = self._block(u, p, least, least, never)
            x, y, _, _ = _slipping(m, block, mu, zero, bound)
            for axis, value in enumerate((x, y)):
                step = difference(m, value, p[axis])
                m.store(moved, axis, m.choose(bound, step, m.load(moved, axis)))
        normal = m.add_product(nn, difference(m, least, p[2]), u[2])
        normal = m.add_product(xn, m.load(moved, 0), normal)
        return m.less(m.add_product(yn, m.load(moved, 1), normal), zero)

    def _block(
        self, u: list[Number], p: list[Number], alone: Number, least: Number, touches: Truth
    ) -> _Block:
        """Return the problem of this contact: touching, or with the least normal impulse."""
        m, zero = self.m, self.m.constant(0.0)
        S, c = self._loaded(SCHUR, 3), self._loaded(COUPLING, 2)
        xx, xy, xn, yy, yn, _ = self._loaded(BLOCK, 6)
        a = m.choose(touches, alone, least)
        S = [m.choose(touches, x, y) for x, y in zip(S, (xx, xy, yy), strict=True)]
        change = difference(m, least, p[2])
        e = []
        for axis, (coupling, x, y) in enumerate(((xn, S[0], S[1]), (yn, S[1], S[2]))):
            free = m.sub_product(c[axis], u[2], u[axis])
            total = m.choose(touches, free, m.add_product(coupling, change, u[axis]))
            e.append(m.sub_product(x, p[0], m.sub_product(y, p[1], total)))
        c = [m.choose(touches, x, zero) for x in c]
        return _Block((e[0], e[1]), (S[0], S[1], S[2]), a, (c[0], c[1]))


def _slipping(
    m: Machine, block: _Block, mu: Number, start: Number, active: Truth
) -> tuple[Number, Number, Number, Number]:
    """Return the impulse of a contact that may slip, and its alpha.

    Args:
        m: The machine.
        block: The contact.
        mu: Its coefficient of friction.
        start: Alpha to start from.
        active: Cases that count.
    """
    zero, one = m.constant(0.0), m.constant(1.0)
    x, y = _tangential(m, block, zero)
    limit = m.mul(mu, _normal(m, block, x, y))
    square = m.add_product(x, x, m.mul(y, y))
    slips = m.either(m.less(limit, zero), m.less(m.mul(limit, limit), square))
    error, state = m.memory(1), m.memory(1)
    m.store(state, 0, m.choose(slips, start, zero))
    m.store(error, 0, m.choose(m.both(slips, active), one, zero))
    close = m.constant(ROOT_TOLERANCE)

    def open_root() -> Truth:
        return m.less(close, m.load(error, 0))

    for _ in m.iterate(MOST_ROOT_STEPS, open_root):
        pending, at = open_root(), m.load(state, 0)
        then, value = _root_step(m, block, mu, at)
        m.store(state, 0, m.choose(pending, then, at))
        m.store(error, 0, m.choose(pending, absolute(m, value), m.load(error, 0)))
    at = m.load(state, 0)
    x, y = _tangential(m, block, at)
    return x, y, _normal(m, block, x, y), at


def _root_step(m: Machine, block: _Block, mu: Number, at: Number) -> tuple[Number, Number]:
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
    slope = m.mul(ratio, m.sub_product(normal, along, difference(m, zero, falling)))
    usable = m.less(zero, slope)
    then = m.sub_product(m.div(one, m.choose(usable, slope, one)), value, at)
    # where Newton's method is of no use, beyond the matrix itself
    far = m.add(m.add(at, at), m.add(xx, yy))
    then = m.choose(usable, then, far)
    return m.choose(m.less(then, zero), zero, then), value


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


def difference(m: Machine, a: Number, b: Number) -> Number:
    """Return a - b."""
    return m.sub_product(m.constant(1.0), b, a)


def absolute(m: Machine, a: Number) -> Number:
    """Return |a|."""
    zero = m.constant(0.0)
    return m.choose(m.less(a, zero), difference(m, zero, a), a)


def length_square(m: Machine, a: Sequence[Number]) -> Number:
    """Return a . a."""
    total = m.mul(a[0], a[0])
    for x in a[1:]:
        total = m.add_product(x, x, total)
    return total


def larger(m: Machine, a: Number, b: Number) -> Number:
    """Return the larger of two numbers."""
    return m.choose(m.less(a, b), b, a)


def _dot(m: Machine, a: Sequence[Number | None], b: Sequence[Number]) -> Number:
    """Return the sum of products; None stands for zero."""
    total = None
    for x, y in zip(a, b, strict=True):
        if x is not None:
            total = m.mul(x, y) if total is None else m.add_product(x, y, total)
    assert total is not None
    return total


def _any(m: Machine, values: list[Number]) -> Truth:
    """Return whether a value differs from zero."""
    total = m.constant(0.0)
    for value in values:
        total = m.add_product(value, value, total)
    return m.less(m.constant(0.0), total)
