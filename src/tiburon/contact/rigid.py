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
linear in time. A gap that closes does so at a known instant with a known speed; the impulse that
removes this speed acts from then on, and the force that holds the contact closed afterwards is
constant. Positions move by the integral of the velocities so defined; where contacts that close at
different instants hold the same body, the moments of their impulses are solved for (`ContactStep`).
A robot at rest on its contacts therefore stays where it is, in bits but for the tolerance of the
solver, and accelerations that are constant are integrated exactly. As v respects the contacts that
are closed, q_v differs from the final position by terms of second order only: contact velocities
vanish there to second order, and gaps to fourth.

Restitution is Poisson's: impulses of compression are those without restitution; the share that
removed the speed of approach returns e times as large in decompression. A contact that is closed
throughout the step has no speed of approach: this is what distinguishes resting from bouncing. A
bounce that would end within the step it began in goes over into rest that way.
"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.active import TOO_MANY, WIDTH, ActivePoints
from tiburon.contact.candidates import Surface
from tiburon.contact.geometry.vectors import perpendicular
from tiburon.contact.rows import (
    INLINED_POINTS,
    Carrier,
    ContactRow,
    LazyRows,
    PointRows,
    each_point,
    in_axes,
    of_axes,
)
from tiburon.loops.metric import MIN_CUT, ArticulatedMetric, TreeMetric
from tiburon.model import Plan
from tiburon.spatial import Force, Motion, Scalar, Vec3
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    add_cross,
    cross,
    dot,
    matrix_vector,
    scale,
    subtract,
    transpose,
)
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.active_rows import (
    ROW,
    SLOT,
    RowTable,
    each_active,
    picked_rows,
    spread_rows,
)
from tiburon.trace.primitives.contact_layout import LEVEL, OWN, TURNED, PointGroup, at_point
from tiburon.trace.primitives.contact_step import GAP_TOLERANCE, ContactStep
from tiburon.trace.primitives.friction import FrictionGaussSeidel
from tiburon.trace.primitives.friction_newton import MOST_COLUMNS
from tiburon.trace.primitives.frozen import frozen
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import function, where_needed
from tiburon.trace.regions.lanes import lanes
from tiburon.trace.value import require

Scalars = tuple[Scalar, ...]

TOLERANCE = 1e-8
"""Residual of the impulses at which solvers end, relative to the largest impulse."""

REST_SPEED = 2e-5
"""Speed of approach up to which a contact with a gap of at most `REST_GAP` is closed from the start
of a step on [m/s].

Impulses are exact to a share of the largest, so that light bodies below heavy ones are left with
gaps and speeds that are not those of a collision. Bodies that fall together approach by nothing
else: the instant of closing would be arbitrary, and with it how far friction moves them."""

REST_GAP = 1e-8
"""See `REST_SPEED` [m]."""

CHECKED_RESIDUAL = 1e-6
"""Residual of the impulses above which a step looks at the speeds that they leave."""

MOST_SWEEPS = 2000
"""Sweeps of Gauss-Seidel in one step at most: pads that slide share their loads slowly."""

MOST_SWEEPS_ALONE = 500
"""The same of robots with so many velocities that nothing but sweeps is tried."""

RESTING_SHARE = 0.01
"""Share of the speed of approach in what a contact removes below which it is closed throughout the
step, and stays so in derivatives."""

OUT_OF_REACH = 1e30
"""Gap [m] and speed [m/s] of slots that are not used."""

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


class BoundRow(NamedTuple):
    """Dry friction or a stop along a row of joint velocities, beside contact points of a step.

    Dry friction is a brake shoe without mass across the row that a known force presses: its cone
    has a fixed radius. A stop is a contact without friction. Where friction is soft, a column of
    its own gives along the row: the impulse is -velocity / softness within its bound.
    """

    row: ContactRow
    """Velocity along it, by velocity variable."""

    held: Scalar
    """Impulse with the force of the last step [N s or N m s]."""

    friction: Scalar | None = None
    """Largest friction, as an impulse [N s or N m s]; None for a stop."""

    stuck: Scalar = 0.0
    """Whether friction held it at rest in the last step: 1 or 0."""

    gap: Scalar = 0.0
    """Distance from the stop at the start of the step [m or rad]."""

    speed: Scalar = 0.0
    """Velocity away from the stop at the start of the step [m/s or rad/s]."""

    sign: Scalar = 1.0
    """Sign of the joint force of the stop."""

    softness: Scalar | None = None
    """Velocity along the row per impulse that friction lets pass; None for none."""

    offset: Scalar = 0.0
    """What friction sees besides the velocity along the row [m/s or rad/s]."""


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
        return [
            {i: part[axis] for i, part in zip(support, parts, strict=True)}
            for parts in _at_points(self.points, columns)
            for axis in range(3)
        ]


@function
def _at_points(
    points: list[tuple[Scalar, ...]], columns: list[list[Scalar]]
) -> list[list[list[Scalar]]]:
    """Return the columns of all points of a body, by code that similar bodies share."""
    return [[at_point(own, column) for column in columns] for own in points]


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

    metric: TreeMetric | None = None
    """The factors of H, where it has been formed."""

    accelerate: Callable[[ContactRow], Scalars] | None = None
    """Returns the change of joint velocities that joint impulses cause, nv scalars; None where it
    was not asked for."""

    shoes: tuple[Scalar, ...] = ()
    """Square of the normal row of each `BoundRow`; 0 for stops."""

    held: tuple[int, ...] = ()
    """Velocity variables that no impulse changes."""

    permitted: tuple[Scalar, ...] = ()
    """Matrix that leaves out of rows of A what loops do not allow, where points are chosen; empty
    without loops."""

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
    solver = FrictionGaussSeidel(compliance.size, supports, MOST_SWEEPS_ALONE)
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

    pressed: "Pressed"
    """Speeds at which contact points close in the step."""

    shifted: Scalars
    """What impulses change of `mean` [m/s or rad/s]."""

    bounds: list[Scalar]
    """Impulse along each row of a joint [N s or N m s]."""

    lands: Scalar
    """Whether impulses of collisions are among them."""

    forces: Sequence[Scalars] = ()
    """Forces of the points that have slots [N], where points were chosen (`contact/active.py`)."""


class Pressed(NamedTuple):
    """Speeds at which contact points close in a step; zeros where its impulses are exact enough.

    Where bodies are pressed together impulses grow with every iteration, and residuals relative to
    them shrink; the speed at which the bodies go on closing does not.
    """

    approach: Scalar
    """Largest one without impulses [m/s]."""

    left: Scalar
    """Largest one with impulses [m/s]."""

    worst: Scalar
    """Number of the point that has it."""


def compliance_of(
    plan: Plan,
    q: Sequence[Scalar],
    points: Sequence[PointRows],
    loops: Sequence[ContactRow] = (),
    cut: Scalar = MIN_CUT,
    held: Collection[int] = (),
    bounds: Sequence[BoundRow] | None = None,
    added: Mapping[int, Scalar] = MappingProxyType({}),
    softness: Sequence[Scalar] = (),
) -> Compliance:
    """Return the compliance of a robot at its contact points.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        points: The contact points there.
        loops: Jacobian of the loop constraints; motion that violates them is left out.
        cut: Length, relative to the longest, below which a loop constraint is redundant.
        held: Velocity variables that no impulse changes.
        bounds: Rows of joints that follow those of the points; None where joint impulses do not
            matter. Rows of points that are chosen are those of `rigid_step`.
        added: What stiff forces add to the diagonal of the mass matrix, by velocity variable.
        softness: Velocity along each loop constraint per impulse that it lets pass, or nothing for
            loops that stay closed. Each has a column of its own.
    """
    chosen = isinstance(points, ActivePoints)
    if chosen:
        points = ()
    # of few like points among others, code for lanes would be long
    alike = sum(point.carrier is not None and bool(point.carrier.alike) for point in points)
    like = not held and not added and bounds is None and 2 * alike > len(points)
    metric = _articulated(plan, q) if like else _factored(plan, q, held, added)
    roots = metric.roots

    def scaled(row: ContactRow) -> ContactRow:
        return {i: x * roots[i] for i, x in metric.solve_transpose(row).items()}

    forms = _forms(points)
    loops = _without(loops, held) if held else loops
    rows: list[ContactRow] = []
    if isinstance(metric, ArticulatedMetric):
        rows = _carried_rows(metric, forms, scaled)
    else:
        for one in forms:
            given = _without(one.jacobian(), held) if held else one.jacobian()
            if len(points) > INLINED_POINTS:
                rows += _scaled_once(metric, roots, given)
            else:
                rows += [scaled(row) for row in given]
    of_points = len(rows)
    rows += [scaled(_without([bound.row], held)[0]) for bound in bounds or ()]
    width = plan.nv + len(softness)
    if loops:
        closed = [scaled(row) for row in loops]
        for k, soft in enumerate(softness):
            closed[k] = {**closed[k], plan.nv + k: np.sqrt(soft)}
        factor = factor_orthogonal(_columns(closed, width), cut=cut)

    def permitted(rows: list[ContactRow]) -> list[ContactRow]:
        """Return rows without what loops do not allow."""
        if not (loops and rows):
            return rows
        lost = factor.project_range(_columns(rows, width))
        return [
            {i: row.get(i, 0.0) - lost[i, k] for i in range(width)} for k, row in enumerate(rows)
        ]

    rows = permitted(rows)
    groups, start = [], 0
    for one in forms:
        groups.append(RowGroup(one.form, rows[start : start + one.size], one.numbers))
        start += one.size
    size, shoes = width, []
    joint_rows, rows = rows[of_points:], rows[:of_points]
    for bound, along in zip(bounds or (), joint_rows, strict=True):
        if bound.friction is None:
            three: list[ContactRow] = [{}, {}, along]
            shoes.append(0.0)
        else:
            if bound.softness is not None:
                along = {**along, size: np.sqrt(bound.softness)}
                size += 1
            # as stiff across as along, so that no scale decides
            square: Scalar = 0.0
            for x in along.values():
                square = square + x * x
            square = np.where(square > 0.0, square, 1.0)
            three = [along, {}, {size: np.sqrt(square)}]
            shoes.append(square)
            size += 1
        groups.append(RowGroup(OWN, three, [()]))
        rows += three

    def response(y: Sequence[Scalar]) -> Scalars:
        return metric.solve_lower([a * b for a, b in zip(roots, y, strict=False)])

    def accelerate(impulse: ContactRow) -> Scalars:
        (row,) = permitted([scaled(_without([impulse], held)[0])])
        return response([row.get(i, 0.0) for i in range(plan.nv)])

    def closing(rates: Sequence[Scalar]) -> Scalars:
        return response(factor.solve_transpose(as_traced(list(rates))).tolist())

    closes = closing if loops else None
    kept: list[Scalar] = []
    if chosen and loops:
        units = [{i: 1.0} for i in range(plan.nv)]
        kept = [x for row in permitted(units) for x in row.values()]
    formed = metric if isinstance(metric, TreeMetric) else None
    if all(group.form == OWN for group in groups):
        found = Compliance(rows, response, size, closes, metric=formed)
    else:
        every = LazyRows(lambda: [row for group in groups for row in group.own_rows()])
        found = Compliance(every, response, size, closes, tuple(groups), formed)
    found = found._replace(held=tuple(held), permitted=tuple(kept))
    if bounds is None:
        return found
    return found._replace(accelerate=accelerate, shoes=tuple(shoes))


def _without(rows: Sequence[ContactRow], held: Collection[int]) -> list[ContactRow]:
    """Return rows without some variables; one of zeros stays where there are no others."""
    found = [{i: x for i, x in row.items() if i not in held} for row in rows]
    if any(found):
        return found
    return [dict.fromkeys(sorted(row)[:1], 0.0) for row in rows]


def _factored(
    plan: Plan, q: Sequence[Scalar], held: Collection[int], added: Mapping[int, Scalar]
) -> TreeMetric:
    """Return the factors of the mass matrix; held variables have no coupling with the others."""
    elements = FactorTree(expanded_parents(plan)).layout.elements()
    mass = chosen_mass_elements(plan, JointVector(q), elements)
    if added:
        mass = [
            x + added[i] if i == j and i in added else x
            for (i, j), x in zip(elements, mass, strict=True)
        ]
    if held:
        # which feel no impulse of theirs
        mass = [
            x if i not in held and j not in held else float(i == j)
            for (i, j), x in zip(elements, mass, strict=True)
        ]
    return TreeMetric(plan, mass)


def _articulated(plan: Plan, q: Sequence[Scalar]) -> ArticulatedMetric:
    """Return the same from articulated-body inertias, like branches side by side."""
    return ArticulatedMetric(plan, JointVector(q), lanes=True)


class _Form(NamedTuple):
    """A contact point with rows of its own, or points of one body that share its rows."""

    form: int
    """How the rows of points follow from them; see `ContactLayout`."""

    numbers: list[tuple[Scalar, ...]]
    """Numbers of each point."""

    point: PointRows
    """The first point."""

    axes: tuple[Vec3, Vec3, Vec3]
    """Axes of the rows of the body."""

    @property
    def size(self) -> int:
        """Number of rows."""
        return 3 if self.form == OWN else 6

    @property
    def carrier(self) -> Carrier:
        """The body."""
        assert self.point.carrier is not None
        return self.point.carrier

    @property
    def key(self) -> "_FormKey":
        """What determines the rows: the body, its side in the pairs, and the axes."""
        return *self.carrier.key, self.axes

    def jacobian(self) -> Sequence[ContactRow]:
        """Return the rows of J: of the point, or of angular and linear velocity of the body."""
        if self.form == OWN:
            return self.point.rows
        columns = self.carrier.columns
        return [
            {i: dot(axis, getattr(column, part)) for i, column in columns.items()}
            for part in ("angular", "linear")
            for axis in self.axes
        ]

    def wrenches(self) -> list[Force]:
        """Return unit moments and forces along the axes, in the frame of the body."""
        R, sign = self.carrier.place.R, self.carrier.sign
        turned = [scale(matrix_vector(transpose(R), axis), sign) for axis in self.axes]
        return [*(Force(x, ZERO3) for x in turned), *(Force(ZERO3, x) for x in turned)]


_FormKey = tuple[int, float, tuple[Vec3, Vec3, Vec3]]


def _forms(points: Sequence[PointRows]) -> list[_Form]:
    """Return the groups of points that share rows."""
    found: list[_Form] = []
    by_carrier = itertools.groupby(points, key=lambda point: point.carrier and point.carrier.key)
    for _, members in by_carrier:
        some = list(members)
        carrier, axes = some[0].carrier, some[0].axes
        if carrier is None or len(some) < MIN_SHARED_POINTS:
            found += [_Form(OWN, [()], point, point.axes) for point in some]
            continue
        arms = [carrier.arm(point.geometry.point) for point in some]
        numeric = all(isinstance(x, float) for point in some for axis in point.axes for x in axis)
        level = numeric and all(point.axes == axes for point in some)
        if level:
            numbers: list[tuple[Scalar, ...]] = [
                tuple(dot(axis, arm) for axis in axes) for arm in arms
            ]
        else:
            axes = IDENTITY3
            numbers = [
                (*arm, *(x for axis in point.axes for x in axis))
                for arm, point in zip(arms, some, strict=True)
            ]
        found.append(_Form(LEVEL if level else TURNED, numbers, some[0], axes))
    return found


def _carried_rows(
    metric: ArticulatedMetric,
    forms: Sequence[_Form],
    scaled: Callable[[ContactRow], ContactRow],
) -> list[ContactRow]:
    """Return D^-1/2 L^-T of the rows of all groups, those of like bodies side by side."""
    shared = {one.key: one for one in forms if one.form != OWN}
    pushed: dict[_FormKey, list[ContactRow]] = {}
    for side in dict.fromkeys(key[1:] for key in shared):
        keys = [key for key in shared if key[1:] == side]
        forces = [shared[key].wrenches() for key in keys]
        columns = metric.columns_of([body for body, *_ in keys], forces)
        pushed.update(zip(keys, columns, strict=True))
    found: dict[_FormKey, list[ContactRow]] = {}

    def times(rows: list[list[Scalar]], roots: list[Scalar]) -> list[list[Scalar]]:
        return [[a * b for a, b in zip(row, roots, strict=True)] for row in rows]

    for key, one in shared.items():
        if key in found:
            continue
        alike = [(other, *key[1:]) for other in one.carrier.alike]
        alike = alike if alike and all(other in pushed for other in alike) else [key]
        supports = [list(pushed[other][0]) for other in alike]
        given = [
            ([list(row.values()) for row in pushed[other]], [metric.roots[i] for i in support])
            for other, support in zip(alike, supports, strict=True)
        ]
        for other, support, rows in zip(alike, supports, lanes(times, given), strict=True):
            found[other] = [dict(zip(support, row, strict=True)) for row in rows]
    every: list[ContactRow] = []
    for one in forms:
        own = one.form == OWN
        every += [scaled(row) for row in one.point.rows] if own else found[one.key]
    return every


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
    inline = len(points) <= INLINED_POINTS
    twists: dict[tuple[int, float], tuple[Any, ...]] = {}
    moving: list[tuple[Any, ...]] = []
    for point in points:
        carrier = point.carrier
        if carrier is None:
            moving.append(_velocities(point, v_free, v, inline=inline))
            continue
        if carrier.key not in twists:
            twists[carrier.key] = (carrier.place.p, *(carrier.velocity(x) for x in (v_free, v)))
        moving.append(twists[carrier.key])
    given = [
        (
            gap,
            (point.geometry.gap, point.geometry.point, point.axes),
            state,
            (surface.static_friction, surface.kinetic_friction),
            h,
        )
        for gap, point, state, surface in zip(gaps, points, states, surfaces, strict=True)
    ]
    posed = each_point(_posed, points, given, moving)
    return ContactProblem(
        [x for one in posed for x in one.b],
        [one.mu for one in posed],
        [one.closing for one in posed],
        [x for one in posed for x in one.guess],
        [one.steady for one in posed],
        [one.after for one in posed],
        [one.end for one in posed],
    )


class _Posed(NamedTuple):
    """One point of a contact problem; see `ContactProblem`."""

    b: Scalars
    mu: Scalar
    closing: "Closing"
    guess: Scalars
    steady: Scalar
    after: Scalar
    end: Scalar


def _posed(
    gap: Scalar,
    ahead: tuple[Scalar, Vec3, tuple[Vec3, Vec3, Vec3]],
    state: PointState,
    friction: tuple[Scalar, Scalar],
    h: Scalar,
    *moving: Any,
) -> _Posed:
    """Pose the problem of one contact point.

    Args:
        gap: Gap at the start [m].
        ahead: Gap, point and axes at q_v.
        state: What it carries from the step before.
        friction: Static and kinetic coefficients.
        h: Length of the step [s].
        *moving: Its velocity at v_free and the normal one at v; or the origin of its carrier, and
            velocities of the carrier at v_free and v.
    """
    there, point, axes = ahead
    now, steady = moving if len(moving) == 2 else _carried_velocities(point, axes, *moving)
    found = closing_of(gap, there, steady, now[2], h)
    return _Posed(
        (now[0], now[1], found.bound),
        np.where(state.sticking > 0.5, *friction),
        found,
        tuple(-x * h for x in in_axes(axes, (state.force[0], state.force[1], state.force[2]))),
        steady,
        now[2],
        there + 0.5 * h * (now[2] - steady),
    )


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


def _carried_velocities(
    point: Vec3, axes: tuple[Vec3, Vec3, Vec3], origin: Vec3, now: Motion, then: Motion
) -> tuple[Sequence[Scalar], Scalar]:
    """Return the relative velocity of a point from those of its carrier, and the normal one."""
    arm = subtract(point, origin)
    velocity, steady = (add_cross(x.linear, x.angular, arm) for x in (now, then))
    return in_axes(axes, velocity), dot(axes[2], steady)


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
    bounds: Sequence[BoundRow] = (),
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
        bounds: Friction and stops of joints, those of the compliance.
    """
    if isinstance(points, ActivePoints):
        return _active_step(
            points, compliance, states, v, v_free, h, tolerance, convex=convex, bounds=bounds
        )
    count = len(points)
    problem = contact_problem(gaps, points, surfaces, states, v, v_free, h)
    b, mu, closing, guess = problem.b, problem.mu, problem.closing, problem.guess
    joints = [
        _posed_bound(bound, square, v_free, h)
        for bound, square in zip(bounds, compliance.shoes, strict=True)
    ]
    groups, rows = compliance.laid_out()
    most = MOST_SWEEPS if compliance.size <= MOST_COLUMNS else MOST_SWEEPS_ALONE
    between = [k for k, point in enumerate(points) if point.between]
    found = ContactStep(compliance.size, groups, most, convex=convex, between=between).apply(
        [
            *rows,
            *b,
            *(x for one in joints for x in one.b),
            *mu,
            *(one.mu for one in joints),
            *(one.approach for one in closing),
            *(one.closing.approach for one in joints),
            *(one.share for one in closing),
            *(one.closing.share for one in joints),
            *(surface.restitution for surface in surfaces),
            *(0.0 for _ in joints),
            *problem.ends,
            *(one.end for one in joints),
            *guess,
            *(x for one in joints for x in one.guess),
            *(state.sticking for state in states),
            *(bound.stuck for bound in bounds),
            h,
            tolerance,
        ]
    )
    total = count + len(joints)
    sizes = (3 * total, compliance.size, compliance.size, total)
    places = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    p, y, shifts, slip = (found[i:j] for i, j in places)
    moved, shifted = compliance.response(y), compliance.response(shifts)
    mean = tuple(0.5 * (a + b) + c for a, b, c in zip(v, v_free, shifted, strict=True))
    # points on the cone without slip stick, too: forces of many points are not unique
    # without friction nothing sticks, and impulses do not show whether points slip
    fastest: Scalar = 0.0
    for k in range(count):
        fastest = np.maximum(fastest, b[3 * k] * b[3 * k] + b[3 * k + 1] * b[3 * k + 1])
    still, per_time = MIN_SLIP_SHARE * MIN_SLIP_SHARE * fastest, -1.0 / h
    # impulses without a normal part are none
    pushed: Scalar = 0.0
    for k in range(count):
        pushed = pushed + p[3 * k + 2] * p[3 * k + 2]
    given = [
        (point.axes, tuple(p[3 * k : 3 * k + 3]), mu[k], slip[k], still, per_time)
        for k, point in enumerate(points)
    ]
    v_after = tuple(a + b for a, b in zip(v_free, moved, strict=True))
    residual, sweeps, worst = found[-3:]
    return RigidStep(
        v_after,
        mean,
        each_point(_state_after, points, given),
        pushed > 0.0,
        residual,
        sweeps,
        worst,
        where_needed(
            residual > np.maximum(tolerance, CHECKED_RESIDUAL),
            lambda: _pressed(points, problem, v_after),
            Pressed(0.0, 0.0, 0.0),
        ),
        shifted,
        [
            p[3 * k + (2 if bound.friction is None else 0)]
            for k, bound in enumerate(bounds, start=count)
        ],
        _lands([*closing, *(one.closing for one in joints)], p),
    )


class _Slots(NamedTuple):
    """Contacts in slots: values of all slots, one after the other; see `ContactProblem`."""

    rows: list[Scalar]
    """Three rows of A over all velocity variables."""
    b: list[Scalar]
    mu: list[Scalar]
    approach: list[Scalar]
    share: list[Scalar]
    restitution: list[Scalar]
    end: list[Scalar]
    guess: list[Scalar]
    stuck: list[Scalar]
    between: list[Scalar]
    axes: list[Scalar]
    after: list[Scalar]


def _posed_slots(
    points: ActivePoints,
    compliance: Compliance,
    states: Sequence[Scalar],
    v: Sequence[Scalar],
    v_free: Sequence[Scalar],
    h: Scalar,
) -> _Slots:
    """Pose the contact problem of points in slots.

    Args:
        points: The points.
        compliance: The factors of H, and what no impulse changes.
        states: What all points carry from the step before, one after the other.
        v: Joint velocity at the start.
        v_free: That at the end without contact.
        h: Length of the step [s].
    """
    metric = compliance.metric
    assert metric is not None
    nv, axis_count = len(v), len(points.variables)
    ancestors = [metric.ancestors(i)[:-1] for i in range(nv)]
    factors = [x for i in range(nv) for x in metric.factors(i)]
    ends = [0, *itertools.accumulate(map(len, ancestors))]
    kept = compliance.permitted
    sizes = (1, nv, nv, nv, len(factors), 6 * axis_count, len(kept))

    def posed(
        shared: list[Scalar],
        point: list[Scalar],
        material: list[Scalar],
        state: list[Scalar],
        bodies: list[Scalar],
        first: list[Scalar],
        second: list[Scalar],
    ) -> list[list[Scalar]]:
        starts = itertools.accumulate(sizes, initial=0)
        (h,), v, v_free, roots, L, columns, allowed = (
            shared[start : start + size] for start, size in zip(starts, sizes, strict=False)
        )
        gap, there, *rest, share = point
        n, on_first, on_second = (tuple(rest[k : k + 3]) for k in (0, 3, 6))
        t = perpendicular(n)
        axes = (t, cross(n, t), n)
        J: list[list[Scalar]] = [[0.0] * nv for _ in axes]
        for i, variable in enumerate(points.variables):
            one, other = first[i], second[i]
            arm = subtract(scale(on_second, other), scale(on_first, one))
            angular, linear = columns[6 * i : 6 * i + 3], columns[6 * i + 3 : 6 * i + 6]
            column = add_cross(scale(tuple(linear), other - one), tuple(angular), arm)
            for row, axis in zip(J, axes, strict=True):
                row[variable] = row[variable] + dot(axis, column)
        now = [_sum_of_products(row, v_free) for row in J]
        steady = _sum_of_products(J[2], v)
        # gaps of swept contacts are those at first contact
        swept, rate = share < 1.0, h * steady
        begun = np.where(share > 0.0, np.maximum(there - share * rate, 0.0), there)
        gap = np.where(swept, begun, gap)
        there = np.where(swept, there + (1.0 - share) * rate, there)
        carried = PointState(tuple(state[:3]), state[3])
        found = _posed(
            gap, (there, ZERO3, axes), carried, (material[0], material[1]), h, now, steady
        )
        rows: list[Scalar] = []
        for x in J:
            for i in compliance.held:
                x[i] = 0.0
            for i in range(nv - 1, -1, -1):
                for j, entry in zip(ancestors[i], range(ends[i], ends[i + 1]), strict=True):
                    x[j] = x[j] - L[entry] * x[i]
            x = [a * b for a, b in zip(x, roots, strict=True)]
            if kept:
                x = [_sum_of_products(allowed[i * nv : i * nv + nv], x) for i in range(nv)]
            rows += x
        moves = [_sum_of_products(one, one) for one in (first, second)]
        between = np.where((moves[0] > 0.0) & (moves[1] > 0.0), 1.0, 0.0)
        return [
            rows,
            list(found.b),
            [found.mu],
            [found.closing.approach],
            [found.closing.share],
            [material[2]],
            [found.end],
            list(found.guess),
            [carried.sticking],
            [between],
            [x for axis in axes for x in axis],
            [found.after],
        ]

    count = len(points.gaps)
    bodies = len(points.masks) // axis_count
    # the place of both numbers of bodies among what is read
    at = WIDTH + 3 + 4
    tables = [
        (RowTable(count, WIDTH, ROW), points.table),
        (RowTable(count, 3, ROW), points.surfaces),
        (RowTable(count, 4, ROW), states),
        (RowTable(count, 2, ROW), points.bodies),
        (RowTable(bodies, axis_count, at), points.masks),
        (RowTable(bodies, axis_count, at + 1), points.masks),
    ]
    shared = [h, *v, *v_free, *metric.roots, *factors, *points.columns, *kept]
    # so far that solvers pass slots over that others of a vector use
    idle: list[Sequence[float]] = [(0.0,) * (3 * nv), (0.0, 0.0, OUT_OF_REACH)]
    idle += [(0.0,), (0.0,), (1.0,), (0.0,), (OUT_OF_REACH,), (0.0,) * 3, (0.0,), (0.0,)]
    idle += [(0.0,) * 9, (0.0,)]
    return _Slots(*each_active(points.places, points.count, posed, shared, tables, idle))


def _sum_of_products(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    total: Scalar = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def _active_step(
    points: ActivePoints,
    compliance: Compliance,
    states: Sequence[PointState],
    v: Sequence[Scalar],
    v_free: Sequence[Scalar],
    h: Scalar,
    tolerance: Scalar,
    *,
    convex: bool,
    bounds: Sequence[BoundRow],
) -> RigidStep:
    """Return what contacts make of a step; the points that are near have slots: `rigid_step`."""
    nv, slots, places = len(v), len(points), points.places
    carried = [x for state in states for x in (*state.force, state.sticking)]
    found = _posed_slots(points, compliance, carried, v, v_free, h)
    joints = [
        _posed_bound(bound, square, v_free, h)
        for bound, square in zip(bounds, compliance.shoes, strict=True)
    ]
    groups, rows = compliance.laid_out()
    groups += [PointGroup(OWN, 1, tuple(range(nv)))] * slots
    most = MOST_SWEEPS if compliance.size <= MOST_COLUMNS else MOST_SWEEPS_ALONE
    step = ContactStep(compliance.size, groups, most, convex=convex, slots=slots)
    result = step.apply(
        [
            *rows,
            *found.rows,
            *(x for one in joints for x in one.b),
            *found.b,
            *(one.mu for one in joints),
            *found.mu,
            *(one.closing.approach for one in joints),
            *found.approach,
            *(one.closing.share for one in joints),
            *found.share,
            *(0.0 for _ in joints),
            *found.restitution,
            *(one.end for one in joints),
            *found.end,
            *(x for one in joints for x in one.guess),
            *found.guess,
            *(bound.stuck for bound in bounds),
            *found.stuck,
            h,
            tolerance,
            *found.between,
            points.count,
        ]
    )
    fixed = len(joints)
    total = fixed + slots
    sizes = (3 * total, compliance.size, compliance.size, total)
    starts = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    p, y, shifts, slip = (result[i:j] for i, j in starts)
    moved, shifted = compliance.response(y), compliance.response(shifts)
    mean = tuple(0.5 * (a + b) + c for a, b, c in zip(v, v_free, shifted, strict=True))
    v_after = tuple(a + b for a, b in zip(v_free, moved, strict=True))
    own, slip = p[3 * fixed :], slip[fixed:]
    fastest: Scalar = 0.0
    pushed: Scalar = 0.0
    for k in range(slots):
        b = found.b[3 * k : 3 * k + 2]
        fastest = np.maximum(fastest, b[0] * b[0] + b[1] * b[1])
        pushed = pushed + own[3 * k + 2] * own[3 * k + 2]
    still, per_time = MIN_SLIP_SHARE * MIN_SLIP_SHARE * fastest, -1.0 / h

    def after(shared: list[Scalar], axes: list[Scalar], *rest: list[Scalar]) -> Any:
        (p, mu, slip), (still, per_time) = rest, shared
        of = (tuple(axes[:3]), tuple(axes[3:6]), tuple(axes[6:]))
        state = _state_after(of, tuple(p), mu[0], slip[0], still, per_time)
        return [[*state.force, state.sticking]]

    widths = (9, 3, 1, 1)
    values = (found.axes, own, found.mu, slip)
    tables = [(RowTable(slots, n, SLOT), x) for n, x in zip(widths, values, strict=True)]
    (held,) = each_active(places, points.count, after, [still, per_time], tables, [(0.0,) * 4])
    in_slots = [held[4 * k : 4 * k + 4] for k in range(slots)]
    every = spread_rows(places, in_slots, [0.0] * len(carried))
    residual, sweeps, worst = result[-3:]
    residual = require(points.total <= float(slots), residual, TOO_MANY)
    # numbers of points come first
    slot = np.where(worst < float(fixed), -1.0, worst - float(fixed))
    ((point,),) = picked_rows([slot], places, 1)
    worst = np.where(worst < float(fixed), worst + float(len(states)), point)
    return RigidStep(
        v_after,
        mean,
        [PointState(tuple(every[k : k + 3]), every[k + 3]) for k in range(0, len(every), 4)],
        pushed > 0.0,
        residual,
        sweeps,
        worst,
        where_needed(
            residual > np.maximum(tolerance, CHECKED_RESIDUAL),
            lambda: _pressed_slots(points, found, y[:nv]),
            Pressed(0.0, 0.0, 0.0),
        ),
        shifted,
        [p[3 * k + (2 if bound.friction is None else 0)] for k, bound in enumerate(bounds)],
        _lands_in_slots(found, joints, p),
        [tuple(one[:3]) for one in in_slots],
    )


def _lands_in_slots(found: _Slots, joints: Sequence["_PosedBound"], p: Sequence[Scalar]) -> Scalar:
    """Return whether an impulse belongs to a collision."""
    approach = [*(one.closing.approach for one in joints), *found.approach]
    return _lands([Closing(0.0, x, 1.0) for x in approach], p)


def _pressed_slots(points: ActivePoints, found: _Slots, y: Sequence[Scalar]) -> Pressed:
    """Return the speeds at which points in slots close, without impulses and with them."""
    slots, nv = len(points), len(y)

    def closes(y: list[Scalar], rows: list[Scalar], b: list[Scalar]) -> list[list[Scalar]]:
        return [[-(b[2] + _sum_of_products(rows[2 * nv :], y))]]

    tables = [(RowTable(slots, 3 * nv, SLOT), found.rows), (RowTable(slots, 3, SLOT), found.b)]
    (speeds,) = each_active(points.places, points.count, closes, y, tables, [(0.0,)])
    approach: Scalar = 0.0
    left: Scalar = 0.0
    worst: Scalar = 0.0
    for k, speed in enumerate(speeds):
        used = points.places[k] >= 0.0
        approach = np.maximum(approach, np.where(used, -found.b[3 * k + 2], 0.0))
        worst = np.where(speed > left, points.places[k], worst)
        left = np.maximum(left, speed)
    return Pressed(approach, left, worst)


class _PosedBound(NamedTuple):
    """A row of a joint in a contact problem; see `ContactProblem`."""

    b: Scalars
    mu: Scalar
    closing: "Closing"
    guess: Scalars
    end: Scalar


def _posed_bound(bound: BoundRow, square: Scalar, v_free: Sequence[Scalar], h: Scalar) -> Any:
    """Pose the problem of a row of a joint; `square` is that of the normal row of friction."""
    speed: Scalar = 0.0
    for i, x in bound.row.items():
        speed = speed + x * v_free[i]
    if bound.friction is not None:
        speed = speed + bound.offset
        # the force that presses the shoe is its normal impulse
        toward = -square * bound.friction
        guess = (bound.held, 0.0, bound.friction)
        return _PosedBound(
            (speed, 0.0, toward), 1.0, Closing(toward, 0.0, 1.0), guess, 0.5 * h * toward
        )
    ahead = bound.gap + h * bound.speed
    closing = closing_of(bound.gap, ahead, bound.speed, speed, h)
    end = ahead + 0.5 * h * (speed - bound.speed)
    return _PosedBound((0.0, 0.0, closing.bound), 0.0, closing, (0.0, 0.0, bound.held), end)


def _lands(closing: Sequence[Closing], p: Sequence[Scalar]) -> Scalar:
    """Return whether an impulse belongs to a collision: others of the step may then, too."""
    found: Scalar = 0.0
    for k, one in enumerate(closing):
        hit = (one.approach > RESTING_SHARE) & (p[3 * k + 2] > 0.0)
        found = np.maximum(found, np.where(hit, 1.0, 0.0))
    return found > 0.5


def _pressed(points: Sequence[PointRows], problem: ContactProblem, v: Scalars) -> Pressed:
    """Return the speeds at which contact points close, without impulses and at velocities v."""
    approach: Scalar = 0.0
    left: Scalar = 0.0
    worst: Scalar = 0.0
    moving: dict[tuple[int, float], Motion] = {}
    for k, point in enumerate(points):
        bound, carrier = problem.b[3 * k + 2], point.carrier
        if carrier is None:
            speed = point.velocity(v)[2]
        else:
            if carrier.key not in moving:
                moving[carrier.key] = carrier.velocity(v)
            of, arm = moving[carrier.key], carrier.arm(point.geometry.point)
            speed = dot(point.axes[2], add_cross(of.linear, of.angular, arm))
        closes = -(bound - problem.after[k] + speed)
        approach = np.maximum(approach, -bound)
        worst = np.where(closes > left, float(k), worst)
        left = np.maximum(left, closes)
    return Pressed(approach, left, worst)


def _state_after(
    axes: tuple[Vec3, Vec3, Vec3],
    p: Scalars,
    mu: Scalar,
    slip: Scalar,
    still: Scalar,
    per_time: Scalar,
) -> PointState:
    """Return what a contact point carries on.

    Args:
        axes: Its axes.
        p: Its impulse along them [N s].
        mu: Its coefficient of friction.
        slip: Its slip velocity per tangential impulse.
        still: Square of the slip velocity up to which it sticks [m^2/s^2].
        per_time: -1 over the length of the step [1/s].
    """
    square = slip * slip * (p[0] * p[0] + p[1] * p[1])
    return PointState(
        tuple(per_time * x for x in of_axes(axes, p)),
        np.where((p[2] > 0.0) & (mu > 0.0) & (square <= still), 1.0, 0.0),
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
    # gaps and speeds that tolerances leave are those of rest
    closes = end < GAP_TOLERANCE
    rests = (approach <= REST_SPEED) & (gap <= REST_GAP)
    slow = approach * h <= 2.0 * GAP_TOLERANCE
    approach = np.where(slow | rests, 0.0, approach)
    left = np.where(rests | (slow & (gap <= GAP_TOLERANCE)), h, left)
    removed = np.where(closes, _ratio(approach, approach + hold), 0.0)
    share = np.where(closes, left / h, 1.0)
    # the instant of closing changes with the root of the gap: not where there is none
    lands = removed > RESTING_SHARE
    # gaps that other contacts close later end at zero, with whatever speed; of those that are
    # closed, this would reverse the speed in every step
    touches = (gap <= REST_GAP) & (ahead <= REST_GAP)
    return Closing(
        np.where(closes | touches, after, 2.0 * end / h),
        np.where(lands, removed, frozen(removed)),
        np.where(lands, share, frozen(share)),
    )


def _ratio(a: Scalar, b: Scalar) -> Scalar:
    """Return a / b, 0 where b is not positive."""
    return np.where(b > 0.0, a / np.where(b > 0.0, b, 1.0), 0.0)
