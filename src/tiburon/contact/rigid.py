"""Rigid contact with friction, at the level of velocities: what one time step does.

Symbols:
    h           length of the step [s]
    v, v_f      joint velocity at its start, and at its end without contact
    q_v         position at the end of the step if v stayed the same
    H, J        mass matrix, and Jacobian of the contact points, at q_v
    p           impulses of the contacts over the step [N s]
    e           Poisson's coefficient of restitution

Velocities change by H^-1 J^T p. Signorini's condition is set on the gap at the end of the step and
Coulomb's law on the exact cone (`FrictionGaussSeidel` solves for p), so that contacts which close
within the step are part of it. Between contacts a step is that of the integrator alone.

Within a step, forces other than those of contacts are constant: velocities without contact are
linear in time. A gap that closes does so at a
known instant with a known speed; the impulse that removes this speed acts from then on, and the
force that holds the contact closed afterwards is constant. Positions move by the integral of the
velocities so defined. A robot at rest on its contacts therefore stays where it is, in bits but for
the tolerance of the solver, and accelerations that are constant are integrated exactly. As v
respects the contacts that are closed, q_v differs from the final position by terms of second order
only: contact velocities vanish there to second order, and gaps to fourth.

Restitution is Poisson's: impulses of compression are those without restitution; the share that
removed the speed of approach returns e times as large in decompression. A contact that is closed
throughout the step has no speed of approach: this is what distinguishes resting from bouncing. A
bounce that would end within the step it began in goes over into rest that way.
"""

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.candidates import Surface
from tiburon.contact.rows import (
    INLINED_POINTS,
    Carrier,
    ContactRow,
    LazyRows,
    PointRows,
    in_frame,
    in_world,
)
from tiburon.loops.metric import MIN_CUT, TreeMetric
from tiburon.model import Plan
from tiburon.spatial import Motion, Scalar, Vec3
from tiburon.spatial.vec3 import IDENTITY3, add_cross, dot
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.contact_layout import LEVEL, OWN, TURNED, PointGroup, at_point
from tiburon.trace.primitives.contact_step import GAP_TOLERANCE, ContactStep
from tiburon.trace.primitives.friction import FrictionGaussSeidel
from tiburon.trace.primitives.frozen import frozen
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import function

__all__ = [
    "Closing",
    "Compliance",
    "ContactProblem",
    "Impulses",
    "PointState",
    "RigidStep",
    "closing_of",
    "compliance_of",
    "contact_problem",
    "rigid_step",
    "solve_impulses",
]

Scalars = tuple[Scalar, ...]

TOLERANCE = 1e-8
"""Residual of the impulses at which solvers end, relative to the largest impulse."""

MOST_SWEEPS = 500
"""Sweeps of Gauss-Seidel in one step at most."""

RESTING_SHARE = 0.01
"""Share of the speed of approach in what a contact removes below which it is closed throughout the
step, and stays so in derivatives."""

MIN_SHARED_POINTS = 3
"""Contact points of a body on the world from which on they share its rows."""

MIN_SLIP_SHARE = 1e-6
"""Share of the largest tangential velocity without impulses below which a point does not slip."""


class PointState(NamedTuple):
    """What a contact point carries from step to step."""

    force: Scalars
    """Mean force on the first body over the last step, world axes [N]."""

    sticking: Scalar
    """Whether it touched without slipping at the end of the last step: 1 or 0."""


class RowGroup(NamedTuple):
    """Rows of A of one contact point, or rows of a body that its contact points share."""

    form: int
    """How the rows of points follow from them; see `ContactLayout`."""

    rows: list[ContactRow]
    """Three rows of a point, or six of a body."""

    points: list[tuple[Scalar, ...]]
    """Numbers of each point: its arm [m], and its axes where they differ."""

    @property
    def support(self) -> tuple[int, ...]:
        """Columns where rows are not zero."""
        return tuple(sorted({i for row in self.rows for i in row}))

    @property
    def entries(self) -> list[Scalar]:
        """The rows over their support, one after the other."""
        return [row.get(i, 0.0) for row in self.rows for i in self.support]

    def own_rows(self) -> list[ContactRow]:
        """Return the rows of all points."""
        if self.form == OWN:
            return self.rows
        support = self.support
        columns = [[row.get(i, 0.0) for row in self.rows] for i in support]
        found: list[ContactRow] = []
        for own in self.points:
            parts = [at_point(own, column) for column in columns]
            found += [
                {i: part[axis] for i, part in zip(support, parts, strict=True)} for axis in range(3)
            ]
        return found


class Compliance(NamedTuple):
    """The inverse mass matrix as contacts see it."""

    rows: Sequence[ContactRow]
    """A = J H^-1/2, three rows per contact point; H^-1/2 leaves out what loops do not allow."""

    response: Callable[[Sequence[Scalar]], Scalars]
    """Returns the change of joint velocities H^-1/2 y that y = A^T p causes, nv scalars."""

    size: int
    """Columns of A."""

    closing: Callable[[Sequence[Scalar]], Scalars] | None = None
    """Returns the least change of joint velocities in the metric of H that changes the rates of
    loop constraints by given ones; None without loops."""

    groups: tuple[RowGroup, ...] = ()
    """The same rows by groups of contact points; none if each point has rows of its own."""

    @property
    def supports(self) -> list[list[int]]:
        """For each contact point the columns where its rows of A are not zero."""
        return [sorted({i for row in three for i in row}) for three in self._points()]

    def _points(self) -> list[Sequence[ContactRow]]:
        return [self.rows[k : k + 3] for k in range(0, len(self.rows), 3)]

    def entries(self, supports: Sequence[Sequence[int]]) -> list[Scalar]:
        """Return the rows of A over their supports, one after the other."""
        points = zip(self._points(), supports, strict=True)
        return [row.get(i, 0.0) for three, support in points for row in three for i in support]

    def laid_out(self) -> tuple[list[PointGroup], list[Scalar]]:
        """Return the layout of the rows for solvers, and the rows as their arguments."""
        groups = self.groups or tuple(RowGroup(OWN, list(three), [()]) for three in self._points())
        layout = [PointGroup(one.form, len(one.points), one.support) for one in groups]
        entries = [x for one in groups for x in one.entries]
        return layout, [*entries, *(x for one in groups for own in one.points for x in own)]


class Impulses(NamedTuple):
    """Solution of a contact problem."""

    p: list[Scalar]
    """Impulses, two tangents and the normal of each point [N s]."""

    y: list[Scalar]
    """A^T p."""

    slip: list[Scalar]
    """Slip velocity of each point per tangential impulse, 0 where it sticks or is open."""

    residual: Scalar
    """Largest residual of the laws of contact, relative to the largest impulse."""

    sweeps: Scalar
    """Number of sweeps."""

    worst: Scalar
    """Number of the point with the largest residual."""


def solve_impulses(
    compliance: Compliance,
    b: Sequence[Scalar],
    mu: Sequence[Scalar],
    least: Sequence[Scalar],
    start: Sequence[Scalar],
    *,
    tolerance: Scalar = TOLERANCE,
) -> Impulses:
    """Solve for the impulses of all contact points.

    Args:
        compliance: The inverse mass matrix.
        b: Relative velocities without impulses, two tangents and the normal of each point [m/s].
        mu: Coefficient of friction of each point.
        least: Least normal impulse of each point [N s].
        start: Impulses to start from.
        tolerance: Residual at which to end, relative to the largest impulse.
    """
    count, supports = len(mu), compliance.supports
    solver = FrictionGaussSeidel(compliance.size, supports, MOST_SWEEPS)
    entries = compliance.entries(supports)
    found = solver.apply([*entries, *b, *mu, *least, *start, tolerance])
    ends = itertools.accumulate((3 * count, compliance.size, count), initial=0)
    p, y, slip = (found[a:b] for a, b in itertools.pairwise(ends))
    return Impulses(p, y, slip, *found[-3:])


class RigidStep(NamedTuple):
    """What contacts make of a step."""

    v: Scalars
    """Joint velocity at the end [m/s or rad/s]."""

    mean: Scalars
    """Joint velocity with which positions move through the step [m/s or rad/s]."""

    states: list[PointState]
    """What each point carries on."""

    touched: Scalar
    """Whether there were impulses."""

    residual: Scalar
    """Largest residual of the laws of contact, relative to the largest impulse."""

    sweeps: Scalar
    """Number of sweeps."""

    worst: Scalar
    """Number of the point with the largest residual."""


def compliance_of(
    plan: Plan,
    q: Sequence[Scalar],
    points: Sequence[PointRows],
    loops: Sequence[ContactRow] = (),
    cut: Scalar = MIN_CUT,
    held: Collection[int] = (),
) -> Compliance:
    """Return the compliance of a robot at its contact points.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        points: The contact points there.
        loops: Jacobian of the loop constraints; motion that violates them is left out.
        cut: Length, relative to the longest, below which a loop constraint is redundant.
        held: Velocity variables that no impulse changes.
    """
    elements = FactorTree(expanded_parents(plan)).layout.elements()
    mass = chosen_mass_elements(plan, JointVector(q), elements)
    if held:
        # as if they had no coupling with the others, which feel no impulse of theirs
        mass = [
            x if i not in held and j not in held else float(i == j)
            for (i, j), x in zip(elements, mass, strict=True)
        ]
    metric = TreeMetric(plan, mass)
    roots = [np.sqrt(x) for x in metric.inverse_D]

    def scaled(row: ContactRow) -> ContactRow:
        return {i: x * roots[i] for i, x in metric.solve_transpose(row).items()}

    many = len(points) > INLINED_POINTS
    forms = _forms(points)
    if held:
        loops = _without(loops, held)
        forms = [(form, _without(rows, held), numbers) for form, rows, numbers in forms]
    given = [row for _, rows, _ in forms for row in rows]
    if many:
        rows = [row for one in forms for row in _scaled_once(metric, roots, one[1])]
    else:
        rows = [scaled(row) for row in given]
    if loops:
        closed = [scaled(row) for row in loops]
        factor = factor_orthogonal(_columns(closed, plan.nv), cut=cut)
        lost = factor.project_range(_columns(rows, plan.nv))
        rows = [
            {i: row.get(i, 0.0) - lost[i, k] for i in range(plan.nv)} for k, row in enumerate(rows)
        ]
    groups, start = [], 0
    for form, own, numbers in forms:
        groups.append(RowGroup(form, rows[start : start + len(own)], numbers))
        start += len(own)

    def response(y: Sequence[Scalar]) -> Scalars:
        return metric.solve_lower([a * b for a, b in zip(roots, y, strict=True)])

    def closing(rates: Sequence[Scalar]) -> Scalars:
        return response(factor.solve_transpose(as_traced(list(rates))).tolist())

    closes = closing if loops else None
    if all(group.form == OWN for group in groups):
        return Compliance(rows, response, plan.nv, closes)
    every = LazyRows(lambda: [row for group in groups for row in group.own_rows()])
    return Compliance(every, response, plan.nv, closes, tuple(groups))


def _without(rows: Sequence[ContactRow], held: Collection[int]) -> list[ContactRow]:
    """Return rows without some variables; one of zeros stays where there are no others."""
    found = [{i: x for i, x in row.items() if i not in held} for row in rows]
    if any(found):
        return found
    return [dict.fromkeys(sorted(row)[:1], 0.0) for row in rows]


def _forms(
    points: Sequence[PointRows],
) -> list[tuple[int, Sequence[ContactRow], list[tuple[Scalar, ...]]]]:
    """Return for each group of points its form, its rows of J, and the numbers of its points."""
    found: list[tuple[int, Sequence[ContactRow], list[tuple[Scalar, ...]]]] = []
    by_carrier = itertools.groupby(points, key=lambda point: point.carrier and point.carrier.body)
    for _, members in by_carrier:
        some = list(members)
        carrier = some[0].carrier
        if carrier is None or len(some) < MIN_SHARED_POINTS:
            found += [(OWN, point.rows, [()]) for point in some]
            continue
        arms = [carrier.arm(point.geometry.point) for point in some]
        axes = some[0].axes
        numeric = all(isinstance(x, float) for point in some for axis in point.axes for x in axis)
        level = numeric and all(point.axes == axes for point in some)
        if level:
            rows = _twist_rows(carrier, axes)
            numbers = [tuple(dot(axis, arm) for axis in axes) for arm in arms]
        else:
            rows = _twist_rows(carrier, IDENTITY3)
            numbers = [
                (*arm, *(x for axis in point.axes for x in axis))
                for arm, point in zip(arms, some, strict=True)
            ]
        found.append((LEVEL if level else TURNED, rows, numbers))
    return found


def _twist_rows(carrier: Carrier, axes: Sequence[Vec3]) -> list[ContactRow]:
    """Return the Jacobian of a body's angular and linear velocity along axes."""
    return [
        {i: dot(axis, getattr(column, part)) for i, column in carrier.columns.items()}
        for part in ("angular", "linear")
        for axis in axes
    ]


def _scaled_once(
    metric: TreeMetric, roots: Sequence[Scalar], rows: Sequence[ContactRow]
) -> list[ContactRow]:
    """Return D^-1/2 L^-T of the rows of a contact point, by code that similar points share.

    Points are similar where their bodies have the same number of ancestors.
    """
    known = sorted({i for row in rows for i in row})
    support = sorted({j for i in known for j in metric.ancestors(i)})
    local = {column: place for place, column in enumerate(support)}
    ancestors = tuple(tuple(local[j] for j in metric.ancestors(i)[:-1]) for i in support)
    places = tuple(local[i] for i in known)
    factors = [metric.factors(i) for i in support]
    given = [[row.get(i, 0.0) for i in known] for row in rows]
    found = _eliminated(given, factors, [roots[i] for i in support], places, ancestors)
    return [dict(zip(support, row, strict=True)) for row in found]


@function
def _eliminated(
    rows: list[list[Scalar]],
    factors: list[list[Scalar]],
    roots: list[Scalar],
    places: tuple[int, ...],
    ancestors: tuple[tuple[int, ...], ...],
) -> list[list[Scalar]]:
    """Solve with L^T for the rows of one point; points of one structure share the traced function.

    Args:
        rows: Elements of the rows that are not zero.
        factors: Elements of L, by column of the support.
        roots: Reciprocal roots of D, by column of the support.
        places: Where the elements of the rows are in their support.
        ancestors: For each column of the support the places of its ancestors, root first.
    """
    found = []
    for row in rows:
        x: list[Scalar] = [0.0] * len(ancestors)
        for place, value in zip(places, row, strict=True):
            x[place] = value
        for i in range(len(x) - 1, -1, -1):
            for j, factor in zip(ancestors[i], factors[i], strict=True):
                x[j] = x[j] - factor * x[i]
        found.append([a * b for a, b in zip(x, roots, strict=True)])
    return found


def _columns(rows: Sequence[ContactRow], size: int) -> Any:
    """Return rows as the columns of a matrix."""
    return as_traced([[row.get(i, 0.0) for row in rows] for i in range(size)])


class Closing(NamedTuple):
    """How the gap of a contact point closes within a step."""

    bound: Scalar
    """Normal velocity without impulses, to be made non-negative by them [m/s]."""

    approach: Scalar
    """Speed of approach when the gap closes, relative to all that contacts remove; 0 to 1."""

    share: Scalar
    """Time left when the gap closes, relative to the step."""


class ContactProblem(NamedTuple):
    """Contacts of a step before their impulses are known."""

    b: list[Scalar]
    """Relative velocities without impulses, normal ones replaced by bounds [m/s]."""

    mu: list[Scalar]
    """Coefficients of friction."""

    closing: list[Closing]
    """How gaps close."""

    guess: list[Scalar]
    """Impulses of the last step, to start from [N s]."""

    steady: list[Scalar]
    """Normal velocities at q_v if v stayed the same [m/s]."""

    after: list[Scalar]
    """Normal velocities at q_v at the end of the step without contact [m/s]."""

    ends: list[Scalar]
    """Gaps at the end of the step without contact [m]."""


def contact_problem(
    gaps: Sequence[Scalar],
    points: Sequence[PointRows],
    surfaces: Sequence[Surface],
    states: Sequence[PointState],
    v: Sequence[Scalar],
    v_free: Sequence[Scalar],
    h: Scalar,
) -> ContactProblem:
    """Pose the contact problem of a step; see `rigid_step`."""
    b: list[Scalar] = []
    steady: list[Scalar] = []
    closed = closing_of if len(points) <= INLINED_POINTS else _called_closing
    twists: dict[int, Any] = {}
    for point in points:
        if point.carrier is not None:
            if point.carrier.body not in twists:
                twists[point.carrier.body] = _twists(point.carrier, v_free, v)
            now, then = _carried_velocities(point, *twists[point.carrier.body])
        else:
            now, then = _velocities(point, v_free, v, inline=len(points) <= INLINED_POINTS)
        b += now
        steady.append(then)
    after = b[2::3]
    closing = []
    for k, (gap, point) in enumerate(zip(gaps, points, strict=True)):
        closing.append(closed(gap, point.geometry.gap, steady[k], after[k], h))
        b[3 * k + 2] = closing[k].bound
    mu = [
        np.where(state.sticking > 0.5, surface.static_friction, surface.kinetic_friction)
        for surface, state in zip(surfaces, states, strict=True)
    ]
    guess = [
        -x * h
        for point, state in zip(points, states, strict=True)
        for x in in_frame(point, (state.force[0], state.force[1], state.force[2]))
    ]
    ends = [
        point.geometry.gap + 0.5 * h * (a - b)
        for point, a, b in zip(points, after, steady, strict=True)
    ]
    return ContactProblem(b, mu, closing, guess, steady, after, ends)


def _velocities(
    point: PointRows, v_free: Sequence[Scalar], v: Sequence[Scalar], *, inline: bool
) -> tuple[Sequence[Scalar], Scalar]:
    """Return the relative velocity of a point at v_free, and the normal one at v."""
    if inline:
        return point.velocity(v_free), point.velocity(v)[2]
    columns = sorted({i for row in point.rows for i in row})
    rows = [[row.get(i, 0.0) for i in columns] for row in point.rows]
    now, then = _products(rows, [v_free[i] for i in columns], [v[i] for i in columns])
    return [a + b for a, b in zip(now, point.drift, strict=True)], then + point.drift[2]


def _twists(
    carrier: Carrier, v_free: Sequence[Scalar], v: Sequence[Scalar]
) -> tuple[Motion, Motion]:
    """Return the velocities of a body at v_free and at v, at its origin, world axes."""
    columns = list(carrier.columns)
    moving = [tuple(carrier.columns[i]) for i in columns]
    now, then = _motions(moving, [v_free[i] for i in columns], [v[i] for i in columns])
    return Motion.from_array(now), Motion.from_array(then)


@function
def _motions(
    columns: list[tuple[Scalar, ...]], x: list[Scalar], y: list[Scalar]
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the sums of columns times x, and times y."""

    def total(x: list[Scalar]) -> list[Scalar]:
        found: list[Scalar] = [0.0] * 6
        for column, rate in zip(columns, x, strict=True):
            found = [a + b * rate for a, b in zip(found, column, strict=True)]
        return found

    return total(x), total(y)


def _carried_velocities(
    point: PointRows, now: Motion, then: Motion
) -> tuple[Sequence[Scalar], Scalar]:
    """Return the relative velocity of a point from that of its body, and the normal one."""
    assert point.carrier is not None
    arm = point.carrier.arm(point.geometry.point)
    u, w = (add_cross(of.linear, of.angular, arm) for of in (now, then))
    return in_frame(point, u), dot(point.axes[2], w)


@function
def _products(
    rows: list[list[Scalar]], x: list[Scalar], y: list[Scalar]
) -> tuple[list[Scalar], Scalar]:
    """Return the products of three rows with x, and of the last one with y."""

    def product(row: list[Scalar], x: list[Scalar]) -> Scalar:
        total: Scalar = 0.0
        for a, b in zip(row, x, strict=True):
            total = total + a * b
        return total

    return [product(row, x) for row in rows], product(rows[2], y)


def rigid_step(
    gaps: Sequence[Scalar],
    points: Sequence[PointRows],
    compliance: Compliance,
    surfaces: Sequence[Surface],
    states: Sequence[PointState],
    v: Sequence[Scalar],
    v_free: Sequence[Scalar],
    h: Scalar,
    tolerance: Scalar = TOLERANCE,
    *,
    convex: bool = False,
) -> RigidStep:
    """Return what contacts make of a step.

    Args:
        gaps: Gap of each contact point at the start [m].
        points: The contact points at q_v.
        compliance: G and H^-1 J^T there.
        surfaces: Friction and restitution of each point.
        states: What each point carries from the step before.
        v: Joint velocity at the start [m/s or rad/s], nv scalars.
        v_free: Joint velocity at the end without contact [m/s or rad/s], nv scalars.
        h: Length of the step [s].
        tolerance: Residual of the impulses at which to end, relative to the largest impulse.
        convex: Whether points obey the convex law instead of Coulomb's.
    """
    count = len(points)
    problem = contact_problem(gaps, points, surfaces, states, v, v_free, h)
    b, mu, closing, guess = problem.b, problem.mu, problem.closing, problem.guess
    groups, rows = compliance.laid_out()
    found = ContactStep(compliance.size, groups, MOST_SWEEPS, convex=convex).apply(
        [
            *rows,
            *b,
            *mu,
            *(one.approach for one in closing),
            *(one.share for one in closing),
            *(surface.restitution for surface in surfaces),
            *problem.ends,
            *guess,
            *(state.sticking for state in states),
            h,
            tolerance,
        ]
    )
    sizes = (3 * count, compliance.size, compliance.size, count)
    places = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    p, y, shifts, slip = (found[i:j] for i, j in places)
    moved, shifted = compliance.response(y), compliance.response(shifts)
    mean = tuple(0.5 * (a + b) + c for a, b, c in zip(v, v_free, shifted, strict=True))
    # points on the cone without slip stick, too: forces of many points are not unique
    # without friction nothing sticks, and impulses do not show whether points slip
    squares = [
        slip[k] * slip[k] * (p[3 * k] * p[3 * k] + p[3 * k + 1] * p[3 * k + 1])
        for k in range(count)
    ]
    fastest: Scalar = 0.0
    for k in range(count):
        fastest = np.maximum(fastest, b[3 * k] * b[3 * k] + b[3 * k + 1] * b[3 * k + 1])
    still, per_time = MIN_SLIP_SHARE * MIN_SLIP_SHARE * fastest, -1.0 / h
    # impulses without a normal part are none
    pushed: Scalar = 0.0
    for k in range(count):
        pushed = pushed + p[3 * k + 2] * p[3 * k + 2]
    return RigidStep(
        tuple(a + b for a, b in zip(v_free, moved, strict=True)),
        mean,
        [
            PointState(
                tuple(per_time * x for x in in_world(point, p[3 * k : 3 * k + 3])),
                np.where((p[3 * k + 2] > 0.0) & (mu[k] > 0.0) & (squares[k] <= still), 1.0, 0.0),
            )
            for k, point in enumerate(points)
        ],
        pushed > 0.0,
        *found[-3:],
    )


def closing_of(gap: Scalar, ahead: Scalar, steady: Scalar, after: Scalar, h: Scalar) -> Closing:
    """Return how a gap closes.

    Args:
        gap: At the start of the step [m].
        ahead: At its end, if v stayed the same [m].
        steady: Normal velocity there, if v stayed the same [m/s].
        after: Normal velocity there without contact [m/s].
        h: Length of the step [s].
    """
    before = 2.0 * (ahead - gap) / h - steady
    rate = (after - before) / h
    end = ahead + 0.5 * h * (after - steady)
    # gap(t) = end - after s + rate s^2 / 2, at s before the end: its last zero
    square = after * after - 2.0 * rate * end
    crossed = (after < 0.0) & (square > 0.0)
    root = np.sqrt(np.where(square > 0.0, square, 0.0))
    left = np.where(crossed, 2.0 * end / np.where(crossed, after - root, -1.0), h)
    left = np.minimum(np.maximum(left, 0.0), h)
    approach = np.maximum(rate * left - after, 0.0)
    hold = np.maximum(-rate * left, 0.0)
    # gaps and speeds that the tolerance of gaps leaves are those of rest
    closes = end < GAP_TOLERANCE
    slow = approach * h <= 2.0 * GAP_TOLERANCE
    approach = np.where(slow, 0.0, approach)
    left = np.where(slow & (gap <= GAP_TOLERANCE), h, left)
    removed = np.where(closes, _ratio(approach, approach + hold), 0.0)
    share = np.where(closes, left / h, 1.0)
    # the instant of closing changes with the root of the gap: not where there is none
    lands = removed > RESTING_SHARE
    return Closing(
        np.where(closes, after, 2.0 * end / h),
        np.where(lands, removed, frozen(removed)),
        np.where(lands, share, frozen(share)),
    )


_called_closing = function(closing_of)
"""How a gap closes, by code that all points share."""


def _ratio(a: Scalar, b: Scalar) -> Scalar:
    """Return a / b, 0 where b is not positive."""
    return np.where(b > 0.0, a / np.where(b > 0.0, b, 1.0), 0.0)
