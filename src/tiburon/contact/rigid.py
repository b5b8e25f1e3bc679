"""Rigid contact with friction, at the level of velocities: what one time step does.

Symbols:
    h           length of the step [s]
    v_0, v_1    joint velocities at its start, in the axes of its end, and at its end, with the
                contact forces of the last step
    q_1         position at the end of the step with these forces
    v_f         v_1 without what other forces at the end of a step take back (`step_end.py`)
    H, J        mass matrix, and Jacobian of the contact points, at q_1
    p           impulses of the contacts over the step [N s]
    f           those of the forces of the last step, which act in this one
    e           Poisson's coefficient of restitution

The method of the run takes the step with the contact forces of the last one, as constant forces of
joints; the end of the step takes these back and puts the impulses of this step in their place:
velocities change by H^-1 (J^T p - (J_0^T f + J^T f) / 2), J_0 with the lever arms and normals of
the start. What contacts change is small where they stay closed, of the second order of the step,
and so are errors: those of the third order in each step. What touches nothing moves by the method
alone. Signorini's condition is set on the gap at the end of the step and Coulomb's law on the exact
cone (`FrictionGaussSeidel` solves for p), so that contacts which close within the step are part of
it.

A gap that closes does so at a known instant with a known speed, as if forces were constant; the
impulse that removes this speed acts from then on, and the force that holds the contact closed
afterwards is constant. Positions move by the integral of the velocities so defined; where contacts
that close at different instants hold the same body, the moments of their impulses are solved for
(`ContactStep`). A robot at rest on its contacts therefore stays where it is, but for the tolerance
of the solver. After a step in which something lands no forces act on in the next one: impulses of a
collision are no forces.

Restitution is Poisson's: impulses of compression are those without restitution; the share that
removed the speed of approach returns e times as large in decompression. A contact that is closed
throughout the step has no speed of approach: this is what distinguishes resting from bouncing. A
bounce that would end within the step it began in goes over into rest that way.

Torsional and rolling friction are contacts of their own beside their point: moments about its
normal, and about its tangents, in place of tangential impulses, up to their coefficient times the
normal impulse of the point. The normal impulse p_s of such a contact is that of the point, p_n, by
a column e of A that both share, s in the normal row of the one and -s in that of the other:
y_e = s (p_s - p_n), and the law of a normal impulse, u_s = s y_e >= 0 with p_s u_s = 0, has y_e = 0
for its solution. What the point feels of the column is s y_e, nothing. All that solves contact
problems, and differentiates them, so holds for these. Their rows are scaled by a length L, by which
they are as heavy as the normal of the point: p L is a moment.
"""

import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.active import GEOMETRY, ActivePoints, too_many
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
from tiburon.trace.primitives.contact_step import (
    CHANGE_WEIGHT,
    GAP_TOLERANCE,
    LEAST_HOLD,
    ContactStep,
)
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

LEFT_ACCELERATION = 10.0
"""Steps are parted at collisions with restitution that are faster than what this acceleration
reaches in a step [m/s^2]: slower ones end within a few steps.

Of a contact that was closed at the end of the last step, the step removes gaps up to what it opens
within the step: what the turning of levers has left, of fourth order in the step. Larger gaps count
where forces close them within the step."""

CHECKED_RESIDUAL = 1e-6
"""Residual of the impulses above which a step looks at the speeds that they leave."""

MOST_SWEEPS = 2000
"""Sweeps of Gauss-Seidel in one step at most: pads that slide share their loads slowly."""

MOST_SWEEPS_ALONE = 500
"""The same of robots with so many velocities that nothing but sweeps is tried."""

RESTING_SHARE = 0.01
"""Share of the speed of approach in what a contact removes below which it is closed throughout the
step, and stays so in derivatives."""

LEAST_ELASTIC_SHARE = 0.5
"""Share of impulses below which an excess of energy is none of a bounce."""

MOST_REMOVED = 4.0
"""Share of the speed of approach in what a contact removes at most: forces may pull apart what has
collided."""

OUT_OF_REACH = 1e30
"""Gap [m] and speed [m/s] of slots that are not used."""

RETURN_RATE = 5.0
"""Speed per depth at which a joint that is beyond a stop returns to it [1/s]."""

MIN_SHARED_POINTS = 3
"""Contact points of a body on the world from which on they share its rows."""

MOST_PADDED = 1.5
"""Columns of supports of the same length relative to those that are not zero, at most."""

COUPLING = 0.1
"""Square of s relative to that of the normal row of a point: sweeps carry normal impulses over to
the contacts of friction against turning, and miss a tenth of their change each."""

STUCK_SHARE = 1.0 - 1e-9
"""Share of the bound of a moment of the last step below which it held a point against turning."""

MOST_TURNING_LENGTH = 1e6
"""Length L at most [m]: bodies that hardly turn do not turn."""

MIN_SLIP_SHARE = 1e-6
"""Share of the largest tangential velocity without impulses below which a point does not slip."""


class PointState(NamedTuple):
    """What a contact point carries from step to step."""

    force: Scalars
    """Force on the first body in the last step, with the directions of its end, world axes [N]; 0
    after a bounce, which leaves the contact open."""

    sticking: Scalar
    """Whether it touched without slipping at the end of the last step: 1 or 0."""

    mean: Scalars = ()
    """Mean force over the last step, with the directions of both its ends [N]: what changes the
    momentum. Steps do not need it."""

    moment: Scalars = (0.0, 0.0, 0.0)
    """Moment of torsional and rolling friction, as `force` [N m]."""

    mean_moment: Scalars = (0.0, 0.0, 0.0)
    """The same over the last step, as `mean` [N m]."""


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

    restitution: Scalar = 0.0
    """Poisson's coefficient of a stop."""

    is_sudden: bool = False
    """Whether a joint lands on a stop at an instant within a step, as on a contact; otherwise it is
    slowed over up to two steps, in which positions follow from the velocities at their ends."""

    softness: Scalar | None = None
    """Velocity along the row per impulse that friction lets pass; None for none."""

    offset: Scalar = 0.0
    """What friction sees besides the velocity along the row [m/s or rad/s]."""


class TurningContact(NamedTuple):
    """Torsional or rolling friction of a point, as a contact of its own; see above."""

    point: int
    """Number of the point."""

    axes: tuple[int, ...]
    """Axes of the point about which it acts: the normal, or both tangents."""

    length: Scalar
    """L [m]."""


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


def _of_like_supports(groups: Sequence[RowGroup], size: int) -> list[RowGroup]:
    """Return groups with zeros in rows of points of their own, so that supports are as long.

    Solvers have code for each length, and loops where there are many. Columns are added that
    follow the last one, as those of the same branch do.

    Args:
        groups: The groups.
        size: Columns of A.
    """
    lengths = [len(group.support) for group in groups if group.form == OWN]
    longest = max(lengths, default=0)
    if longest * len(lengths) > MOST_PADDED * sum(lengths):
        return list(groups)
    found = []
    for group in groups:
        support = group.support
        if group.form == OWN and len(support) < longest:
            others = [*range(support[-1] + 1 if support else 0, size), *range(size)]
            more = [i for i in dict.fromkeys(others) if i not in support]
            zeros = dict.fromkeys(more[: longest - len(support)], 0.0)
            first, *rest = group.rows
            group = group._replace(rows=[{**zeros, **first}, *rest])
        found.append(group)
    return found


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

    felt: Callable[[ContactRow], list[Scalar]] | None = None
    """Returns H^-1/2 times joint impulses, without what loops do not allow: y that causes the same
    change of joint velocities; None where it was not asked for."""

    gathered: Callable[[Sequence[Scalar]], Scalars] | None = None
    """Returns the joint impulses J^T p of y = A^T p, nv scalars, where these are known."""

    width: int = 0
    """Columns of the joint velocities and of loops that are soft, which come first."""

    shoes: tuple[Scalar, ...] = ()
    """Square of the normal row of each `BoundRow`; 0 for stops."""

    turning: tuple[TurningContact, ...] = ()
    """Friction against turning, whose rows come last."""

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
        own = self.groups or [RowGroup(OWN, list(three), [()]) for three in self._points()]
        groups = _of_like_supports(own, self.size)
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
    """What impulses change of the mean velocity of the step [m/s or rad/s]."""

    bounds: list[Scalar]
    """Impulse along each row of a joint [N s or N m s]."""

    lands: Scalar
    """Whether impulses of collisions are among them."""

    joint_impulses: Scalars
    """Joint impulses J^T p of the points [N s or N m s]."""

    mean_impulses: Scalars
    """The same with the lever arms of the whole step, which act in the next one."""

    impact: "Impact"
    """The first collision with restitution."""

    lasts: Scalar
    """Whether impulses are those of forces that last: like those of the last step, without a
    collision."""

    differs: Any
    """Whether forces of the last step are none of this one, without a collision: points are
    elsewhere on their shapes, or impulses change by half of them or more."""

    forces: Sequence[Scalars] = ()
    """Forces of the points that have slots [N], where points were chosen (`contact/active.py`)."""


class Impact(NamedTuple):
    """The first collision with restitution in a step, or soon after it."""

    time: Scalar = OUT_OF_REACH
    """When it is, from the start of the step [s], also behind its end; `OUT_OF_REACH` for none."""

    speed: Scalar = 0.0
    """Speed of approach [m/s]."""


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
        bounds: Rows of joints that follow those of the points, or None. Rows of points that are
            chosen are those of `rigid_step`.
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
    size, shoes = width, []
    turning: list[TurningContact] = []
    turning_rows: list[list[ContactRow]] = []
    if bounds is not None:
        at = _rows_of_points(forms)
        for k, point in enumerate(points):
            for axes in _turning_kinds(point.resists):
                moments = permitted([scaled(row) for row in _turning_jacobian(point, axes, held)])
                length, coupling = _turning_scale(
                    list(rows[at[k] + 2].values()), [list(row.values()) for row in moments]
                )
                rows[at[k] + 2] = {**rows[at[k] + 2], size: -coupling}
                tangents = [{i: length * x for i, x in row.items()} for row in moments]
                none: list[ContactRow] = [{}] * (2 - len(axes))
                turning_rows.append([*tangents, *none, {size: coupling}])
                turning.append(TurningContact(k, axes, length))
                size += 1
    groups, start = [], 0
    for one in forms:
        groups.append(RowGroup(one.form, rows[start : start + one.size], one.numbers))
        start += one.size
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
    for three in turning_rows:
        groups.append(RowGroup(OWN, three, [()]))
        rows += three

    def response(y: Sequence[Scalar]) -> Scalars:
        return metric.solve_lower([a * b for a, b in zip(roots, y, strict=False)])

    def felt(impulse: ContactRow) -> list[Scalar]:
        (row,) = permitted([scaled(_without([impulse], held)[0])])
        return [row.get(i, 0.0) for i in range(width)]

    def gathered(y: Sequence[Scalar]) -> Scalars:
        found = metric.multiply_transpose([b / a for a, b in zip(roots, y, strict=False)])
        # y holds what loops that are soft push back by, too
        own = list(found)
        for row, soft, let in zip(loops, softness, y[plan.nv :], strict=False):
            for i, x in row.items():
                own[i] = own[i] - x * let / np.sqrt(soft)
        return tuple(own)

    def closing(rates: Sequence[Scalar]) -> Scalars:
        return response(factor.solve_transpose(as_traced(list(rates))).tolist())

    closes = closing if loops else None
    kept: list[Scalar] = []
    if chosen and loops:
        units = [{i: 1.0} for i in range(plan.nv)]
        columns = [[row[k] for row in permitted(units)] for k in range(width)]
        kept = [x for column in columns for x in column]
    formed = metric if isinstance(metric, TreeMetric) else None
    if all(group.form == OWN for group in groups):
        found = Compliance(rows, response, size, closes, metric=formed)
    else:
        every = LazyRows(lambda: [row for group in groups for row in group.own_rows()])
        found = Compliance(every, response, size, closes, tuple(groups), formed)
    return found._replace(
        held=tuple(held),
        permitted=tuple(kept),
        felt=felt,
        gathered=gathered,
        width=width,
        shoes=tuple(shoes),
        turning=tuple(turning),
    )


def _rows_of_points(forms: Sequence["_Form"]) -> list[int]:
    """Return for each point the number of its first row, or of the first of those it shares."""
    found, start = [], 0
    for one in forms:
        found += [start] * len(one.numbers)
        start += one.size
    return found


def _turning_jacobian(
    point: PointRows, axes: Sequence[int], held: Collection[int]
) -> list[ContactRow]:
    """Return the rows of the relative angular velocity along some axes."""
    rows = [point.turning[axis] for axis in axes]
    return _without(rows, held) if held else rows


def _turning_scale(
    normal: Sequence[Scalar], moments: Sequence[Sequence[Scalar]]
) -> tuple[Scalar, Scalar]:
    """Return the length L of a contact of friction against turning, and s of its column.

    Solutions do not depend on them, nor do derivatives.

    Args:
        normal: Normal row of A of the point.
        moments: Rows of A of the angular velocity.
    """
    stiff, *squares = (_sum_of_products(row, row) for row in (normal, *moments))
    turns = sum(squares) * (1.0 / len(moments))
    # what does not turn, or moves along the normal, has any scale
    least = turns + stiff * (1.0 / MOST_TURNING_LENGTH**2)
    some = stiff > 0.0
    length = np.sqrt(np.where(some, stiff / np.where(some, least, 1.0), 1.0))
    square = np.where(some, stiff, np.where(turns > 0.0, turns, 1.0))
    return frozen(length), frozen(np.sqrt(COUPLING * square))


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

    hold: Scalar = 0.0
    """What forces add to the speed of approach in this time [m/s]."""

    left: Scalar = -OUT_OF_REACH
    """Time from the closing of the gap to the end of the step [s], negative where it closes later;
    `-OUT_OF_REACH` where nothing collides, or slowly (`LEFT_ACCELERATION`)."""

    speed: Scalar = 0.0
    """Speed of approach at the end of the step, as if it did not close [m/s]."""


class ContactProblem(NamedTuple):
    """Contacts of a step before their impulses are known."""

    b: list[Scalar]
    """Relative velocities without impulses, normal ones replaced by bounds [m/s]."""

    mu: list[Scalar]
    """Coefficients of friction."""

    closing: list[Closing]
    """How gaps close."""

    guess: list[Scalar]
    """Impulses of the forces of the last step, in the axes of this one [N s]."""

    turned: list[Scalar]
    """The same with the directions of the start, without those in the axes of this step [N s]."""

    steady: list[Scalar]
    """Normal velocities at q_1 at v_1 [m/s]."""

    after: list[Scalar]
    """Normal velocities at q_1 at v_f [m/s]."""

    ends: list[Scalar]
    """Gaps at the end of the step of v_f [m]."""

    jumped: Scalar
    """Whether points with forces of the last step are elsewhere on their shapes: 1 or 0."""


def contact_problem(
    gaps: Sequence[Scalar],
    points: Sequence[PointRows],
    surfaces: Sequence[Surface],
    states: Sequence[PointState],
    v: Sequence[Scalar],
    v_free: Sequence[Scalar],
    v_start: Sequence[Scalar],
    h: Scalar,
) -> ContactProblem:
    """Pose the contact problem of a step; see `rigid_step`."""
    inline = len(points) <= INLINED_POINTS
    twists: dict[tuple[int, float], tuple[Any, ...]] = {}
    moving: list[tuple[Any, ...]] = []
    for point in points:
        carrier = point.carrier
        if carrier is None:
            moving.append(_velocities(point, (v_free, v, v_start), inline=inline))
            continue
        if carrier.key not in twists:
            found = (carrier.velocity(x) for x in (v_free, v, v_start))
            twists[carrier.key] = (carrier.place.p, *found)
        moving.append(twists[carrier.key])
    given = [
        (
            gap,
            (
                *(point.geometry.gap, point.geometry.point, point.axes),
                *(point.start or point.axes[2], point.jumps),
            ),
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
        [x for one in posed for x in one.turned],
        [one.steady for one in posed],
        [one.after for one in posed],
        [one.end for one in posed],
        _any_jumped([point.jumps for point in points], [one.guess[2] for one in posed]),
    )


class _PosedTurning(NamedTuple):
    """Friction against turning in a contact problem; see `ContactProblem`."""

    b: Scalars
    mu: Scalar
    guess: Scalars
    turned: Scalars
    stuck: Scalar


def _posed_turning(
    turning: Sequence[TurningContact],
    points: Sequence[PointRows],
    surfaces: Sequence[Surface],
    states: Sequence[PointState],
    problem: ContactProblem,
    v_free: Sequence[Scalar],
    h: Scalar,
) -> list[_PosedTurning]:
    """Pose the friction against turning of all points."""
    found = []
    known: dict[int, tuple[Scalars, Scalars, Scalars]] = {}
    for one in turning:
        k, friction = one.point, surfaces[one.point][-2:]
        if k not in known:
            point = points[k]
            rates = point.turning_rate(v_free)
            start = point.start or point.axes[2]
            known[k] = (
                rates,
                *_moment_carried_on(states[k], point.axes, start, rates, friction[1], h),
            )
        found.append(_turning_contact(one, *known[k], friction, problem.guess[3 * k + 2]))
    return found


def _moment_carried_on(
    state: PointState,
    axes: tuple[Vec3, Vec3, Vec3],
    before: Vec3,
    rates: Scalars,
    rolling: Scalar,
    h: Scalar,
) -> tuple[Scalars, Scalars]:
    """Return the moment of the last step as `_carried_on` does, turned with that of rolling.

    `rolling` is the coefficient of rolling friction.
    """
    moment = (state.moment[0], state.moment[1], state.moment[2])
    pressed = dot(before, (state.force[0], state.force[1], state.force[2]))
    across = subtract(moment, scale(before, dot(before, moment)))
    holds = _is_within(dot(across, across), rolling * pressed)
    return _carried_on(PointState(moment, holds), axes, before, (rates[0], rates[1]), h)


def _is_within(square: Scalar, bound: Scalar) -> Scalar:
    """Return whether a moment is below its bound, by its square: 1 or 0."""
    bound = STUCK_SHARE * bound
    return np.where(square < bound * bound, 1.0, 0.0)


def _turning_contact(
    one: TurningContact,
    rates: Scalars,
    carried: Scalars,
    turned: Scalars,
    friction: Sequence[Scalar],
    pressed: Scalar,
) -> _PosedTurning:
    """Pose torsional or rolling friction of a point.

    Args:
        one: Which of the two.
        rates: Relative angular velocity along the axes of the point [rad/s].
        carried: Moment of the last step along them, as an impulse [N m s].
        turned: By how much it differs without the turning of the axes.
        friction: Torsional and rolling coefficients [m].
        pressed: Normal impulse of the point from which solvers start [N s].
    """
    spins = len(one.axes) == 1
    over, mu = 1.0 / one.length, friction[0 if spins else 1]
    own = [carried[axis] for axis in one.axes]
    none = (0.0,) * (2 - len(one.axes))
    return _PosedTurning(
        (*(one.length * rates[axis] for axis in one.axes), *none, 0.0),
        over * mu,
        (*(over * x for x in own), *none, pressed),
        (*(over * turned[axis] for axis in one.axes), *none, 0.0),
        _is_within(_sum_of_products(own, own), mu * pressed),
    )


def _turning_after(
    state: PointState,
    axes: tuple[Vec3, Vec3, Vec3],
    parts: Sequence[tuple[TurningContact, Sequence[Scalar], Sequence[Scalar]]],
    opened: Scalar,
    per_time: Scalar,
) -> PointState:
    """Return what a contact point carries on, with its friction against turning.

    Args:
        state: What it carries on without.
        axes: Its axes.
        parts: Of torsional and of rolling friction the contact, its impulse, and that of the last
            step with the directions of the start less itself.
        opened: Whether the step left the point open: 1 or 0.
        per_time: -1 over the length of the step [1/s].
    """
    impulse: list[Scalar] = [0.0] * 3
    mean: list[Scalar] = [0.0] * 3
    for one, p, turned in parts:
        for place, axis in enumerate(one.axes):
            impulse[axis] = one.length * p[place]
            mean[axis] = one.length * (p[place] + 0.5 * turned[place])
    return state._replace(
        moment=tuple(np.where(opened > 0.5, 0.0, per_time * x) for x in of_axes(axes, impulse)),
        mean_moment=tuple(per_time * x for x in of_axes(axes, mean)),
    )


def _any_jumped(jumps: Sequence[Scalar], pushes: Sequence[Scalar]) -> Scalar:
    """Return whether some point that pushed in the last step has jumped: 1 or 0."""
    found: Scalar = 0.0
    for jump, push in zip(jumps, pushes, strict=True):
        found = np.maximum(found, np.where(push > 0.0, jump, 0.0))
    return found


class _Posed(NamedTuple):
    """One point of a contact problem; see `ContactProblem`."""

    b: Scalars
    mu: Scalar
    closing: "Closing"
    guess: Scalars
    turned: Scalars
    steady: Scalar
    after: Scalar
    end: Scalar


def _posed(
    gap: Scalar,
    ahead: tuple[Scalar, Vec3, tuple[Vec3, Vec3, Vec3], Vec3, Scalar],
    state: PointState,
    friction: tuple[Scalar, Scalar],
    h: Scalar,
    *moving: Any,
) -> _Posed:
    """Pose the problem of one contact point.

    Args:
        gap: Gap at the start [m].
        ahead: Gap, point and axes at q_1, normal at the start, and whether the point has jumped.
        state: What it carries from the step before.
        friction: Static and kinetic coefficients.
        h: Length of the step [s].
        *moving: Its velocity at v_f, and the normal ones at v_1 and v_0; or the origin of its
            carrier, and velocities of the carrier at these three.
    """
    there, point, axes, before, jump = ahead
    now, steady, begun = moving if len(moving) == 3 else _carried_velocities(point, axes, *moving)
    carried, turned = _carried_on(state, axes, before, (now[0], now[1]), h)
    pushed = (carried[2] > 0.0) & (jump < 0.5)
    found = closing_of(gap, there, steady, now[2], begun, h, pushed, jump > 0.5)
    return _Posed(
        (now[0], now[1], found.bound),
        np.where(state.sticking > 0.5, *friction),
        found,
        carried,
        turned,
        steady,
        now[2],
        there + 0.5 * h * (now[2] - steady),
    )


def _carried_on(
    state: PointState,
    axes: tuple[Vec3, Vec3, Vec3],
    before: Vec3,
    slip: tuple[Scalar, Scalar],
    h: Scalar,
) -> tuple[Scalars, Scalars]:
    """Return the impulse of the force of the last step, turned with the normal and the slip.

    Then by how much the impulse without this turn differs.

    Args:
        state: What the point carries.
        axes: Its axes at the end of the step.
        before: Its normal at the start.
        slip: Its slip velocity at the end, under the force.
        h: Length of the step [s].
    """
    force = (state.force[0], state.force[1], state.force[2])
    # shapes that did not touch may have had no normal
    pushed = dot(force, force) > 0.0
    before = tuple(np.where(pushed, a, b) for a, b in zip(before, axes[2], strict=True))
    normal = dot(before, force)
    rest = subtract(force, scale(before, normal))
    x, y = dot(axes[0], rest), dot(axes[1], rest)
    # what slides is opposed to its slip, as long as this does not turn by more than 60 degrees
    along = x * slip[0] + y * slip[1]
    speed, square = slip[0] * slip[0] + slip[1] * slip[1], x * x + y * y
    turns = (state.sticking < 0.5) & (along > 0.0) & (along * along > 0.25 * square * speed)
    ratio = np.sqrt(np.where(turns, square, 0.0) / np.where(turns, speed, 1.0))
    x, y = (np.where(turns, ratio * a, b) for a, b in zip(slip, (x, y), strict=True))
    carried = (-h * x, -h * y, -h * normal)
    return carried, tuple(-h * a - b for a, b in zip(in_axes(axes, force), carried, strict=True))


def _velocities(
    point: PointRows, velocities: Sequence[Sequence[Scalar]], *, inline: bool
) -> tuple[Sequence[Scalar], Scalar, Scalar]:
    """Return the relative velocity of a point at some velocities, and the normal one at others."""
    if inline:
        first, *others = velocities
        steady, begun = (point.velocity(v)[2] for v in others)
        return point.velocity(first), steady, begun
    columns = sorted({i for row in point.rows for i in row})
    rows = [[row.get(i, 0.0) for i in columns] for row in point.rows]
    now, steady, begun = _products(rows, [[v[i] for i in columns] for v in velocities])
    drift = point.drift
    return [a + b for a, b in zip(now, drift, strict=True)], steady + drift[2], begun + drift[2]


def _carried_velocities(
    point: Vec3,
    axes: tuple[Vec3, Vec3, Vec3],
    origin: Vec3,
    *moving: Motion,
) -> tuple[Sequence[Scalar], Scalar, Scalar]:
    """Return the same of a point from velocities of its carrier."""
    arm = subtract(point, origin)
    now, steady, begun = (add_cross(x.linear, x.angular, arm) for x in moving)
    return in_axes(axes, now), dot(axes[2], steady), dot(axes[2], begun)


@function
def _products(
    rows: list[list[Scalar]], velocities: list[list[Scalar]]
) -> tuple[list[Scalar], Scalar, Scalar]:
    """Return the products of three rows with the first velocities, of the last row with others."""
    first, *others = velocities
    steady, begun = (_sum_of_products(rows[2], v) for v in others)
    return [_sum_of_products(row, first) for row in rows], steady, begun


def rigid_step(
    gaps: Sequence[Scalar],
    points: Sequence[PointRows],
    compliance: Compliance,
    surfaces: Sequence[Surface],
    states: Sequence[PointState],
    v: Sequence[Scalar],
    v_free: Sequence[Scalar],
    v_start: Sequence[Scalar],
    h: Scalar,
    tolerance: Scalar = TOLERANCE,
    *,
    convex: bool = False,
    bounds: Sequence[BoundRow] = (),
    acting: "ActingForces | None" = None,
) -> RigidStep:
    """Return what contacts make of a step.

    Args:
        gaps: Gap of each contact point at the start [m].
        points: The contact points at q_1.
        compliance: G and H^-1 J^T there.
        surfaces: Friction and restitution of each point.
        states: What each point carries from the step before.
        v: v_1 [m/s or rad/s], nv scalars.
        v_free: v_f [m/s or rad/s], nv scalars.
        v_start: v_0 [m/s or rad/s], nv scalars.
        h: Length of the step [s].
        tolerance: Residual of the impulses at which to end, relative to the largest impulse.
        convex: Whether points obey the convex law instead of Coulomb's.
        bounds: Friction and stops of joints, those of the compliance.
        acting: Contact forces of the last step that act in this one; None for none.
    """
    if isinstance(points, ActivePoints):
        return _active_step(
            points,
            compliance,
            states,
            v,
            v_free,
            v_start,
            h,
            tolerance,
            convex=convex,
            bounds=bounds,
            acting=acting,
        )
    count = len(points)
    problem = contact_problem(gaps, points, surfaces, states, v, v_free, v_start, h)
    b, mu, closing, guess = problem.b, problem.mu, problem.closing, problem.guess
    joints = [
        _posed_bound(bound, square, v_free, h)
        for bound, square in zip(bounds, compliance.shoes, strict=True)
    ]
    turning = compliance.turning
    owners = [one.point for one in turning]
    turns = _posed_turning(turning, points, surfaces, states, problem, v_free, h)
    groups, rows = compliance.laid_out()
    moving = compliance.size - len(turning)
    most = MOST_SWEEPS if moving <= MOST_COLUMNS else MOST_SWEEPS_ALONE
    between = [k for k, point in enumerate(points) if point.between]
    first = count + len(joints)
    between += [first + k for k, owner in enumerate(owners) if points[owner].between]
    lag = _lag(acting, problem.jumped)
    turned = _acting_impulses(acting, problem.turned, problem.jumped)
    step = ContactStep(
        compliance.size, groups, most, convex=convex, between=between, couplings=len(turning)
    )
    found = step.apply(
        [
            *rows,
            *b,
            *(x for one in joints for x in one.b),
            *(x for one in turns for x in one.b),
            *mu,
            *(one.mu for one in joints),
            *(one.mu for one in turns),
            *(one.approach for one in closing),
            *(one.closing.approach for one in joints),
            *(closing[k].approach for k in owners),
            *(one.share for one in closing),
            *(one.closing.share for one in joints),
            *(closing[k].share for k in owners),
            *(surface.restitution for surface in surfaces),
            *(bound.restitution for bound in bounds),
            *(surfaces[k].restitution for k in owners),
            *problem.ends,
            *(one.end for one in joints),
            *(0.0 for _ in turns),
            *guess,
            *(x for one in joints for x in one.guess),
            *(x for one in turns for x in one.guess),
            *(state.sticking for state in states),
            *(bound.stuck for bound in bounds),
            *(one.stuck for one in turns),
            h,
            tolerance,
            *_acting_impulses(acting, guess, problem.jumped),
            *(0.0,) * (3 * len(joints)),
            *_acting_impulses(acting, [x for t in turns for x in t.guess], problem.jumped),
            *_felt_impulses(acting, compliance, problem.jumped),
            *(lag,) * count,
            *(0.0,) * len(joints),
            *(lag,) * len(turns),
            lag,
        ]
    )
    total = first + len(turns)
    p, y, shifts, slip, acted, (fastest, *report) = _parts(found, total, compliance.size)
    change = [a - b for a, b in zip(y, acted, strict=True)]
    shifted = compliance.response([a - 0.5 * b for a, b in zip(shifts, acted, strict=True)])
    elastic_rows = [*(x.restitution for x in surfaces), *(x.restitution for x in bounds)]
    closes = [*closing, *(one.closing for one in joints)]
    approach = [one.approach for one in closes]
    bounced = _bounced(approach, elastic_rows, p)
    bounces = functools.reduce(np.maximum, bounced, 0.0) > 0.5
    elastic = where_needed(
        bounces,
        lambda: _elastic_share(
            compliance, v_free, change, approach, elastic_rows, [one.hold for one in closes], p
        ),
        1.0,
    )
    held = [
        *guess,
        *(0.0 for _ in range(3 * len(joints))),
        *(x for one in turns for x in one.guess),
    ]
    p, y, change = _returned(elastic, p, y, change, acted, held, acting)
    moved = compliance.response(change)
    # points on the cone without slip stick, too: forces of many points are not unique
    # without friction nothing sticks, and impulses do not show whether points slip
    still, per_time = MIN_SLIP_SHARE * MIN_SLIP_SHARE * fastest, -1.0 / h
    # impulses without a normal part are none
    pushed, opened = _opened(bounced[:count], p[: 3 * count])
    given = [
        (
            point.axes,
            p[3 * k : 3 * k + 3],
            turned[3 * k : 3 * k + 3],
            mu[k],
            slip[k],
            opened[k],
            still,
            per_time,
        )
        for k, point in enumerate(points)
    ]
    v_after = tuple(a + b for a, b in zip(v_free, moved, strict=True))
    after: list[PointState] = each_point(_state_after, points, given)
    later = _acting_impulses(acting, [x for one in turns for x in one.turned], problem.jumped)
    for k in dict.fromkeys(owners):
        own = [i for i, owner in enumerate(owners) if owner == k]
        parts = [
            (
                turning[i],
                p[3 * (first + i) : 3 * (first + i) + 3],
                later[3 * i : 3 * i + 3],
            )
            for i in own
        ]
        after[k] = _turning_after(after[k], points[k].axes, parts, opened[k], per_time)
    residual, sweeps, worst = report
    for k, owner in enumerate(owners):
        worst = np.where(worst == float(first + k), float(owner), worst)
    pushes = p[3 * count :]
    lands = _lands([*approach[:count], *(one.hit for one in joints)], p)
    return RigidStep(
        v_after,
        after,
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
        _along_joints(bounds, pushes),
        lands,
        *_joint_impulses(compliance, y, acted, acting, bounds, pushes),
        _first_impact(
            [(one.left, one.speed) for one in closing],
            [one.restitution for one in surfaces],
            h,
        ),
        *_steadiness(lands, _is_steady(p[: 3 * count], guess, acting), problem.jumped),
    )


class ActingForces(NamedTuple):
    """Contact forces of the last step that act in this one."""

    act: Scalar
    """Whether they do: 0, 1, or 2 if they did in the last step, too; -1 where there was none."""

    joint_impulses: Scalars
    """Joint impulses by which they act over this step [N s or N m s]."""

    at_start: Scalars
    """Joint impulses of the last step with the lever arms of the start of this one."""


def _acting_impulses(
    acting: ActingForces | None, guess: Sequence[Scalar], jumped: Scalar
) -> list[Scalar]:
    """Return what of impulses of the last step acts within this one.

    Of points that have jumped, lever arms at the end say nothing of forces: none then do.
    """
    if acting is None:
        return [0.0] * len(guess)
    evenly = np.where(_changes_evenly(acting, jumped), 1.0, 0.0)
    return [evenly * x for x in guess]


def _changes_evenly(acting: ActingForces, jumped: Scalar) -> Any:
    """Return whether forces change evenly from the last step to this one."""
    return (acting.act > 1.5) & (jumped < 0.5)


def _felt_impulses(
    acting: ActingForces | None, compliance: Compliance, jumped: Scalar
) -> list[Scalar]:
    """Return H^-1/2 times joint impulses to take back: 2 s - s_0, or twice s."""
    none = [0.0] * compliance.size
    if acting is None:
        return none
    assert compliance.felt is not None
    evenly = _changes_evenly(acting, jumped)
    taken = {
        i: 2.0 * x - np.where(evenly, y, 0.0)
        for i, (x, y) in enumerate(zip(acting.joint_impulses, acting.at_start, strict=True))
    }
    found = compliance.felt(taken)
    return [*found, *none[len(found) :]]


def _lag(acting: ActingForces | None, jumped: Scalar) -> Scalar:
    """Return by how much less than half of the step changes of the forces of points act."""
    if acting is None:
        return 0.0
    return np.where(_changes_evenly(acting, jumped), CHANGE_WEIGHT, 0.0)


def _is_steady(p: Sequence[Scalar], last: Sequence[Scalar], acting: ActingForces | None) -> Any:
    """Return whether impulses change by less than half of them from the last step to this one.

    So they count if there was none.
    """
    change = [a - b for a, b in zip(p, last, strict=True)]
    steady = 4.0 * _sum_of_products(change, change) < _sum_of_products(p, p)
    return steady if acting is None else steady | (acting.act < -0.5)


def _steadiness(lands: Any, steady: Any, jumped: Scalar) -> tuple[Any, Any]:
    """Return whether forces last, and whether those of the last step are none of this one."""
    return ~lands & steady, (jumped > 0.5) | (~lands & ~steady)


def _parts(found: Sequence[Scalar], contacts: int, size: int) -> list[list[Scalar]]:
    """Return the results of `ContactStep`, the last four together."""
    sizes = (3 * contacts, size, size, contacts, size, 4)
    places = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    return [list(found[i:j]) for i, j in places]


def _along_joints(bounds: Sequence[BoundRow], p: Sequence[Scalar]) -> list[Scalar]:
    """Return the impulse along each row of a joint."""
    return [p[3 * k + (2 if bound.friction is None else 0)] for k, bound in enumerate(bounds)]


def _joint_impulses(
    compliance: Compliance,
    y: Sequence[Scalar],
    acted: Sequence[Scalar],
    acting: ActingForces | None,
    bounds: Sequence[BoundRow],
    p: Sequence[Scalar],
) -> tuple[Scalars, Scalars]:
    """Return the joint impulses of points, with lever arms of the end and of the whole step.

    Those of rows of joints are in y, too; `acted` is what was taken back.
    """
    assert compliance.gathered is not None
    found = list(compliance.gathered(y))
    for bound, along in zip(bounds, _along_joints(bounds, p), strict=True):
        for i, x in bound.row.items():
            found[i] = found[i] - x * along
    if acting is None:
        return tuple(found), tuple(found)
    taken = compliance.gathered(acted)
    whole = zip(found, acting.joint_impulses, taken, strict=True)
    return tuple(found), tuple(a + b - c for a, b, c in whole)


class _Slots(NamedTuple):
    """Contacts in slots: values of all slots, one after the other; see `ContactProblem`."""

    rows: list[Scalar]
    """Three rows of A over all velocity variables, the last one first."""
    b: list[Scalar]
    mu: list[Scalar]
    approach: list[Scalar]
    share: list[Scalar]
    restitution: list[Scalar]
    end: list[Scalar]
    guess: list[Scalar]
    turned: list[Scalar]
    stuck: list[Scalar]
    between: list[Scalar]
    axes: list[Scalar]
    after: list[Scalar]
    jumps: list[Scalar]
    hold: list[Scalar]
    impacts: list[Scalar]
    """Time left and speed of approach."""
    turning_rows: Sequence[Scalar] = ()
    """Of friction against turning; nothing where there is none."""
    turning_b: Sequence[Scalar] = ()
    turning_mu: Sequence[Scalar] = ()
    turning_guess: Sequence[Scalar] = ()
    turning_turned: Sequence[Scalar] = ()
    turning_stuck: Sequence[Scalar] = ()
    lengths: Sequence[Scalar] = ()
    """L of each contact."""


def _with_turning(points: Sequence[Scalar], turning: Sequence[Scalar], slots: int) -> list[Scalar]:
    """Return values of slots, those of points followed by those of friction against turning."""
    a, b = len(points) // slots, len(turning) // slots
    parts = ((*points[a * k : a * k + a], *turning[b * k : b * k + b]) for k in range(slots))
    return [x for part in parts for x in part]


def _divided(values: Sequence[Scalar], width: int, n: int) -> tuple[list[Scalar], list[Scalar]]:
    """Return values of points, and of friction against turning, from `_with_turning`."""
    slots = len(values) // (width * (1 + n))
    starts = [width * (1 + n) * k for k in range(slots)]
    points = [x for k in starts for x in values[k : k + width]]
    return points, [x for k in starts for x in values[k + width : k + width * (1 + n)]]


def _kept_parts(state: PointState, kinds: Sequence[Any]) -> list[Scalars]:
    """Return what slots give of a point, in parts."""
    found = [state.force, (state.sticking,), state.mean]
    return [*found, state.moment, state.mean_moment] if kinds else found


def _state_of(kept: Sequence[Scalar]) -> PointState:
    """Return the state of a point from these parts, one after the other."""
    state = PointState(tuple(kept[:3]), kept[3], tuple(kept[4:7]))
    if len(kept) == 7:
        return state
    return state._replace(moment=tuple(kept[7:10]), mean_moment=tuple(kept[10:]))


def _repeated(values: Sequence[Scalar], times: int) -> list[Scalar]:
    """Return each value several times."""
    return [x for x in values for _ in range(times)]


def _turning_kinds(resists: tuple[bool, bool]) -> list[tuple[int, ...]]:
    """Return the axes of each contact of friction against turning."""
    spins, rolls = resists
    return [axes for axes, some in (((2,), spins), ((0, 1), rolls)) if some]


def _posed_slots(
    points: ActivePoints,
    compliance: Compliance,
    states: Sequence[Scalar],
    velocities: tuple[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]],
    h: Scalar,
) -> _Slots:
    """Pose the contact problem of points in slots.

    Args:
        points: The points.
        compliance: The factors of H, and what no impulse changes.
        states: What all points carry from the step before, one after the other.
        velocities: v_1, v_f and v_0.
        h: Length of the step [s].
    """
    metric = compliance.metric
    assert metric is not None
    nv, axis_count, width = len(velocities[0]), len(points.variables), compliance.width
    ancestors = [metric.ancestors(i)[:-1] for i in range(nv)]
    factors = [x for i in range(nv) for x in metric.factors(i)]
    ends = [0, *itertools.accumulate(map(len, ancestors))]
    kept = compliance.permitted
    kinds = _turning_kinds(points.resists)
    own_columns = len(kinds)
    sizes = (1, nv, nv, nv, nv, len(factors), 6 * axis_count, len(kept))

    def posed(
        shared: list[Scalar],
        point: list[Scalar],
        state: list[Scalar],
        first: list[Scalar],
        second: list[Scalar],
    ) -> list[list[Scalar]]:
        starts = itertools.accumulate(sizes, initial=0)
        (h,), v, v_free, v_start, roots, L, columns, allowed = (
            shared[start : start + size] for start, size in zip(starts, sizes, strict=False)
        )
        gap, there, *rest = point[:GEOMETRY]
        material = point[GEOMETRY:-2]
        n, on_first, on_second = (tuple(rest[k : k + 3]) for k in (0, 3, 6))
        share, before, jump = rest[9], tuple(rest[10:13]), rest[13]
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
        steady, begun = (_sum_of_products(J[2], x) for x in (v, v_start))
        # gaps of swept contacts are those at first contact
        swept, rate = share < 1.0, h * steady
        met = np.where(share > 0.0, np.maximum(there - share * rate, 0.0), there)
        gap = np.where(swept, met, gap)
        there = np.where(swept, there + (1.0 - share) * rate, there)
        carried = PointState(tuple(state[:3]), state[3])
        ahead, friction = (there, ZERO3, axes, before, jump), (material[0], material[1])
        found = _posed(gap, ahead, carried, friction, h, now, steady, begun)
        rows: list[Scalar] = []

        def scaled(x: list[Scalar]) -> list[Scalar]:
            for i in compliance.held:
                x[i] = 0.0
            for i in range(nv - 1, -1, -1):
                for j, entry in zip(ancestors[i], range(ends[i], ends[i + 1]), strict=True):
                    x[j] = x[j] - L[entry] * x[i]
            x = [a * b for a, b in zip(x, roots, strict=True)]
            if kept:
                x = [_sum_of_products(allowed[k * nv : k * nv + nv], x) for k in range(width)]
            return x

        A = [scaled(x) for x in J]
        turns: list[_PosedTurning] = []
        turning_rows: list[Scalar] = []
        lengths: list[Scalar] = []
        own: list[Scalar] = []
        if kinds:
            W: list[list[Scalar]] = [[0.0] * nv for _ in axes]
            for i, variable in enumerate(points.variables):
                turn = scale(tuple(columns[6 * i : 6 * i + 3]), second[i] - first[i])
                for row, axis in zip(W, axes, strict=True):
                    row[variable] = row[variable] + dot(axis, turn)
            rates = tuple(_sum_of_products(row, v_free) for row in W)
            moving = carried._replace(moment=tuple(state[4:7]))
            moments = _moment_carried_on(moving, axes, before, rates, material[4], h)
            W = [scaled(x) for x in W]
            for k, kind in enumerate(kinds):
                about = [W[axis] for axis in kind]
                length, coupling = _turning_scale(A[2], about)
                none = [0.0] * own_columns
                for x in about:
                    turning_rows += [*(length * y for y in reversed(x)), *none]
                turning_rows += [0.0] * ((2 - len(kind)) * (width + own_columns))
                turning_rows += [0.0] * width
                turning_rows += [coupling if j == k else 0.0 for j in range(own_columns)]
                contact = TurningContact(0, kind, length)
                pressed = found.guess[2]
                turns.append(_turning_contact(contact, rates, *moments, material[3:], pressed))
                lengths.append(length)
                own.append(-coupling)
        for x, more in zip(A, ([0.0] * own_columns, [0.0] * own_columns, own), strict=True):
            rows += [*reversed(x), *more]
        moves = [_sum_of_products(one, one) for one in (first, second)]
        between = np.where((moves[0] > 0.0) & (moves[1] > 0.0), 1.0, 0.0)
        of_point = [
            rows,
            list(found.b),
            [found.mu],
            [found.closing.approach],
            [found.closing.share],
            [material[2]],
            [found.end],
            list(found.guess),
            list(found.turned),
            [carried.sticking],
            [between],
            [x for axis in axes for x in axis],
            [found.after],
            [jump],
            [found.closing.hold],
            [found.closing.left, found.closing.speed],
        ]
        if not kinds:
            return of_point
        return [
            *of_point,
            turning_rows,
            [x for one in turns for x in one.b],
            [one.mu for one in turns],
            [x for one in turns for x in one.guess],
            [x for one in turns for x in one.turned],
            [one.stuck for one in turns],
            lengths,
        ]

    count = len(points.gaps)
    bodies = len(points.masks) // axis_count
    # the numbers of both bodies come last in a row
    each = len(points.rows[0])
    tables = [
        (RowTable(len(points), each, SLOT), [x for row in points.rows for x in row]),
        (RowTable(count, len(states) // count, ROW), states),
        (RowTable(bodies, axis_count, each - 2), points.masks),
        (RowTable(bodies, axis_count, each - 1), points.masks),
    ]
    shared = [
        h,
        *(x for v in velocities for x in v),
        *metric.roots,
        *factors,
        *points.columns,
        *kept,
    ]
    # so far that solvers pass slots over that others of a vector use
    whole, n = width + own_columns, own_columns
    idle: list[Sequence[float]] = [(0.0,) * (3 * whole), (0.0, 0.0, OUT_OF_REACH)]
    idle += [(0.0,), (0.0,), (1.0,), (0.0,), (OUT_OF_REACH,), (0.0,) * 3, (0.0,) * 3, (0.0,)]
    idle += [(0.0,)]
    idle += [(0.0,) * 9, (0.0,), (0.0,), (0.0,), (-OUT_OF_REACH, 0.0)]
    if kinds:
        idle += [(0.0,) * (3 * whole * n), (0.0, 0.0, OUT_OF_REACH) * n, (0.0,) * n]
        idle += [(0.0,) * (3 * n), (0.0,) * (3 * n), (0.0,) * n, (1.0,) * n]
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
    v_start: Sequence[Scalar],
    h: Scalar,
    tolerance: Scalar,
    *,
    convex: bool,
    bounds: Sequence[BoundRow],
    acting: ActingForces | None,
) -> RigidStep:
    """Return what contacts make of a step; the points that are near have slots: `rigid_step`."""
    slots, places = len(points), points.places
    kinds = _turning_kinds(points.resists)
    n = len(kinds)
    carried = [
        x
        for state in states
        for x in (
            *(*state.force, state.sticking),
            *(state.moment if kinds else ()),
        )
    ]
    found = _posed_slots(points, compliance, carried, (v, v_free, v_start), h)
    joints = [
        _posed_bound(bound, square, v_free, h)
        for bound, square in zip(bounds, compliance.shoes, strict=True)
    ]
    groups, rows = compliance.laid_out()
    most = MOST_SWEEPS if compliance.size <= MOST_COLUMNS else MOST_SWEEPS_ALONE
    # in the order in which they are eliminated
    backward = range(compliance.width - 1, -1, -1)
    for k in range(slots):
        own_columns = range(compliance.size + n * k, compliance.size + n * k + n)
        groups += [PointGroup(OWN, 1, (*backward, *own_columns))] * (1 + n)
    compliance = compliance._replace(size=compliance.size + n * slots)
    step = ContactStep(compliance.size, groups, most, convex=convex, slots=(1 + n) * slots)
    jumped = _any_jumped(found.jumps, found.guess[2::3])
    lag = _lag(acting, jumped)
    turned = _acting_impulses(acting, found.turned, jumped)
    guess = _with_turning(found.guess, found.turning_guess, slots)
    ends = _with_turning(found.end, [0.0] * (n * slots), slots)
    result = step.apply(
        [
            *rows,
            *_with_turning(found.rows, found.turning_rows, slots),
            *(x for one in joints for x in one.b),
            *_with_turning(found.b, found.turning_b, slots),
            *(one.mu for one in joints),
            *_with_turning(found.mu, found.turning_mu, slots),
            *(one.closing.approach for one in joints),
            *_repeated(found.approach, 1 + n),
            *(one.closing.share for one in joints),
            *_repeated(found.share, 1 + n),
            *(bound.restitution for bound in bounds),
            *_repeated(found.restitution, 1 + n),
            *(one.end for one in joints),
            *ends,
            *(x for one in joints for x in one.guess),
            *guess,
            *(bound.stuck for bound in bounds),
            *_with_turning(found.stuck, found.turning_stuck, slots),
            h,
            tolerance,
            *(0.0,) * (3 * len(joints)),
            *_acting_impulses(acting, guess, jumped),
            *_felt_impulses(acting, compliance, jumped),
            *(0.0,) * len(joints),
            *(lag,) * ((1 + n) * slots),
            lag,
            *_repeated(found.between, 1 + n),
            points.count if not n else (1.0 + n) * points.count,
        ]
    )
    fixed = len(joints)
    total = fixed + (1 + n) * slots
    p, y, shifts, slip, acted, (fastest, *report) = _parts(result, total, compliance.size)
    change = [a - b for a, b in zip(y, acted, strict=True)]
    shifted = compliance.response([a - 0.5 * b for a, b in zip(shifts, acted, strict=True)])
    own, _ = _divided(p[3 * fixed :], 3, n)
    stops = [one.closing for one in joints]
    approach = [*(one.approach for one in stops), *found.approach]
    hold = [*(one.hold for one in stops), *found.hold]
    elastic_rows = [*(bound.restitution for bound in bounds), *found.restitution]
    every = [*p[: 3 * fixed], *own]
    bounced = _bounced(approach, elastic_rows, every)
    bounces = functools.reduce(np.maximum, bounced) > 0.5
    elastic = where_needed(
        bounces,
        lambda: _elastic_share(compliance, v_free, change, approach, elastic_rows, hold, every),
        1.0,
    )
    held = [*(0.0 for _ in range(3 * fixed)), *guess]
    p, y, change = _returned(elastic, p, y, change, acted, held, acting)
    moved = compliance.response(change)
    v_after = tuple(a + b for a, b in zip(v_free, moved, strict=True))
    (own, moments), (slip, _) = _divided(p[3 * fixed :], 3, n), _divided(slip[fixed:], 1, n)
    pushed, opened = _opened(bounced[fixed:], own)
    still, per_time = MIN_SLIP_SHARE * MIN_SLIP_SHARE * fastest, -1.0 / h

    def after(shared: list[Scalar], axes: list[Scalar], *rest: list[Scalar]) -> Any:
        (p, turned, mu, slip, opens, *turning), (still, per_time) = rest, shared
        of = (tuple(axes[:3]), tuple(axes[3:6]), tuple(axes[6:]))
        state = _state_after(of, p, turned, mu[0], slip[0], opens[0], still, per_time)
        if kinds:
            p, turned, lengths = turning
            parts = [
                (
                    TurningContact(0, kind, lengths[k]),
                    p[3 * k : 3 * k + 3],
                    turned[3 * k : 3 * k + 3],
                )
                for k, kind in enumerate(kinds)
            ]
            state = _turning_after(state, of, parts, opens[0], per_time)
        return [[x for part in _kept_parts(state, kinds) for x in part]]

    widths = [9, 3, 3, 1, 1, 1]
    values: list[Sequence[Scalar]] = [found.axes, own, turned, found.mu, slip, opened]
    if kinds:
        widths += [3 * n, 3 * n, n]
        later = _acting_impulses(acting, found.turning_turned, jumped)
        values += [moments, later, found.lengths]
    tables = [(RowTable(slots, width, SLOT), x) for width, x in zip(widths, values, strict=True)]
    size = 13 if kinds else 7
    idle = [(0.0,) * size]
    (held,) = each_active(places, points.count, after, [still, per_time], tables, idle)
    in_slots = [held[size * k : size * (k + 1)] for k in range(slots)]
    every = spread_rows(places, in_slots, [0.0] * (size * len(states)))
    residual, sweeps, worst = report
    residual = require(points.total <= float(slots), residual, too_many(slots))
    # numbers of points come first
    slot = np.where(worst < float(fixed), -1.0, worst - float(fixed))
    if n:
        slot = np.floor((slot + 0.5) * (1.0 / (1 + n)))
    ((point,),) = picked_rows([slot], places, 1)
    worst = np.where(worst < float(fixed), worst + float(len(states)), point)
    lands = _lands_in_slots(found, joints, [*p[: 3 * fixed], *own])
    return RigidStep(
        v_after,
        [_state_of(every[k : k + size]) for k in range(0, len(every), size)],
        pushed > 0.0,
        residual,
        sweeps,
        worst,
        where_needed(
            residual > np.maximum(tolerance, CHECKED_RESIDUAL),
            lambda: _pressed_slots(points, found, change[: compliance.width][::-1]),
            Pressed(0.0, 0.0, 0.0),
        ),
        shifted,
        _along_joints(bounds, p),
        lands,
        *_joint_impulses(compliance, y, acted, acting, bounds, p),
        _first_impact(
            list(zip(found.impacts[::2], found.impacts[1::2], strict=True)), found.restitution, h
        ),
        *_steadiness(lands, _is_steady(own, found.guess, acting), jumped),
        [tuple(one[4:7]) for one in in_slots],
    )


def _lands_in_slots(found: _Slots, joints: Sequence["_PosedBound"], p: Sequence[Scalar]) -> Scalar:
    """Return whether an impulse belongs to a collision."""
    return _lands([*(one.hit for one in joints), *found.approach], p)


def _pressed_slots(points: ActivePoints, found: _Slots, y: Sequence[Scalar]) -> Pressed:
    """Return the speeds at which points in slots close, without impulses and with them.

    Elements of y are in the order of those of rows.
    """
    slots, width = len(points), len(y)
    whole = len(found.rows) // (3 * slots)

    def closes(y: list[Scalar], rows: list[Scalar], b: list[Scalar]) -> list[list[Scalar]]:
        return [[-(b[2] + _sum_of_products(rows[2 * whole :][:width], y))]]

    tables = [(RowTable(slots, 3 * whole, SLOT), found.rows), (RowTable(slots, 3, SLOT), found.b)]
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
    hit: Scalar
    """Share of a collision in what a stop removes of the speed of approach."""
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
        closing = Closing(toward, 0.0, 1.0)
        return _PosedBound((speed, 0.0, toward), 1.0, closing, 0.0, guess, 0.5 * h * toward)
    pushed = bound.held > 0.0
    if bound.is_sudden:
        ahead = bound.gap + h * bound.speed
        end = ahead + 0.5 * h * (speed - bound.speed)
        closing = closing_of(bound.gap, ahead, bound.speed, speed, bound.speed, h, pushed)
        guess = (0.0, 0.0, bound.held)
        return _PosedBound((0.0, 0.0, closing.bound), 0.0, closing, closing.approach, guess, end)
    # the speed of approach at the end with which the joint can rest on the stop one step later
    allowed = bound.gap / h + 0.5 * bound.speed
    returns = RETURN_RATE * np.minimum(bound.gap + REST_GAP, 0.0)
    rests = pushed & (bound.gap <= REST_GAP)
    toward = speed + np.where(rests, returns, np.maximum(allowed, returns))
    # what forces add to the speed within the step is no collision
    hit = np.where(pushed, 0.0, _ratio(-bound.speed, -speed))
    # what tolerances have left of a force is none
    guess = (0.0, 0.0, np.where((toward < 0.0) | rests, bound.held, 0.0))
    closing = Closing(toward, 0.0, 1.0)
    return _PosedBound((0.0, 0.0, toward), 0.0, closing, hit, guess, 0.5 * h * toward)


def _lands(approach: Sequence[Scalar], p: Sequence[Scalar]) -> Scalar:
    """Return whether an impulse belongs to a collision: others of the step may then, too.

    Args:
        approach: Share of the speed of approach in what each removes.
        p: Their impulses.
    """
    found: Scalar = 0.0
    for k, share in enumerate(approach):
        hit = (share > RESTING_SHARE) & (p[3 * k + 2] > 0.0)
        found = np.maximum(found, np.where(hit, 1.0, 0.0))
    return found > 0.5


def _elastic_share(
    compliance: Compliance,
    v: Sequence[Scalar],
    change: Sequence[Scalar],
    approach: Sequence[Scalar],
    restitution: Sequence[Scalar],
    hold: Sequence[Scalar],
    p: Sequence[Scalar],
) -> Scalar:
    """Return the share of impulses that leaves no more energy than there was before a bounce.

    Contacts that land one after the other within a step would be given more.

    Args:
        compliance: The inverse mass matrix.
        v: Velocity that impulses change.
        change: A^T p, without what acted within the step.
        approach: Share of the speed of approach in what each point removes.
        restitution: Coefficient of each point.
        hold: What forces add to the speed of approach of each point.
        p: Impulses of the points.
    """
    assert compliance.gathered is not None
    linear = _sum_of_products(v, compliance.gathered(change[: compliance.width]))
    square = 0.5 * _sum_of_products(change, change)
    # forces take from what has bounced what they gave before
    taken: Scalar = 0.0
    for k, (speed, e, own) in enumerate(zip(approach, restitution, hold, strict=True)):
        # a bounce that would end within the step is none: its impulse balances the forces
        leaves = (speed > RESTING_SHARE) & ((1.0 + e) * speed >= 1.0)
        taken = taken + np.where(leaves, p[3 * k + 2] * own, 0.0)
    allowed = _ratio(-taken - linear, square)
    return np.where(allowed > LEAST_ELASTIC_SHARE, np.minimum(allowed, 1.0), 1.0)


def _returned(
    elastic: Scalar,
    p: Sequence[Scalar],
    y: Sequence[Scalar],
    change: Sequence[Scalar],
    acted: Sequence[Scalar],
    held: Sequence[Scalar],
    acting: ActingForces | None,
) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """Return p, A^T p and its change with a share of what impulses change.

    The rest is the impulses of the last step, `held`, where these act: A^T p less its change.
    """
    rest: Scalar = 0.0
    if acting is not None:
        rest = np.where(acting.act > 0.5, 1.0 - elastic, 0.0)
    return (
        [elastic * a + rest * b for a, b in zip(p, held, strict=True)],
        [elastic * a + (1.0 - elastic) * b for a, b in zip(y, acted, strict=True)],
        [elastic * x for x in change],
    )


def _bounced(
    approach: Sequence[Scalar], restitution: Sequence[Scalar], p: Sequence[Scalar]
) -> list[Scalar]:
    """Return for each point whether restitution returns something of its impulse: 1 or 0."""
    return [
        np.where((speed > RESTING_SHARE) & (e > 0.0) & (p[3 * k + 2] > 0.0), 1.0, 0.0)
        for k, (speed, e) in enumerate(zip(approach, restitution, strict=True))
    ]


def _first_impact(
    impacts: Sequence[tuple[Scalar, Scalar]], restitution: Sequence[Scalar], h: Scalar
) -> Impact:
    """Return the first collision with restitution, given the time left and the speed of each."""
    most: Scalar = -OUT_OF_REACH
    fastest: Scalar = 0.0
    for (left, speed), e in zip(impacts, restitution, strict=True):
        sooner = (e > 0.0) & (left > most)
        most, fastest = np.where(sooner, left, most), np.where(sooner, speed, fastest)
    return Impact(h - most, fastest)


def _opened(bounced: Sequence[Scalar], p: Sequence[Scalar]) -> tuple[Scalar, list[Scalar]]:
    """Return the sum of squares of normal impulses, and of each point if the step left it open.

    That is 1 after a bounce, 2 where nothing pushed, else 0.
    """
    normal = p[2::3]
    total = functools.reduce(lambda a, b: a + b * b, normal, 0.0)
    least = LEAST_HOLD * np.sqrt(total)
    return total, [np.where(x <= least, 2.0, hit) for x, hit in zip(normal, bounced, strict=True)]


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
    p: Sequence[Scalar],
    turned: Sequence[Scalar],
    mu: Scalar,
    slip: Scalar,
    opened: Scalar,
    still: Scalar,
    per_time: Scalar,
) -> PointState:
    """Return what a contact point carries on.

    Args:
        axes: Its axes.
        p: Its impulse along them [N s].
        turned: By how much the impulse of the last step differs with the directions of the start.
        mu: Its coefficient of friction.
        slip: Its slip velocity per tangential impulse.
        opened: Whether the step left it open: see `_opened`.
        still: Square of the slip velocity up to which it sticks [m^2/s^2].
        per_time: -1 over the length of the step [1/s].
    """
    square = slip * slip * (p[0] * p[0] + p[1] * p[1])
    mean = tuple(a + 0.5 * b for a, b in zip(p, turned, strict=True))
    return PointState(
        tuple(np.where(opened > 0.5, 0.0, per_time * x) for x in of_axes(axes, p)),
        np.where((opened < 1.5) & (mu > 0.0) & (square <= still), 1.0, 0.0),
        tuple(per_time * x for x in of_axes(axes, mean)),
    )


def closing_of(
    gap: Scalar,
    ahead: Scalar,
    steady: Scalar,
    after: Scalar,
    begun: Scalar,
    h: Scalar,
    pushed: Any = False,
    jumped: Any = False,
) -> Closing:
    """Return how a gap closes.

    Args:
        gap: At the start of the step [m].
        ahead: At q_1 [m].
        steady: Normal velocity there at v_1 [m/s].
        after: Normal velocity there at v_f [m/s].
        begun: Normal velocity there at v_0 [m/s].
        h: Length of the step [s].
        pushed: Whether the contact was closed at the end of the last step: what that left of gap
            and speed is no collision.
        jumped: Whether it was elsewhere on its shapes at the start, so that its gap there says
            nothing of when it closes.
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
    # impulses act with the normals and lever arms of the end, along which forces change velocities:
    # elastic collisions keep the energy
    hold = -left * (after - begun) / h
    approach = np.maximum(-after - hold, 0.0)
    # gaps and speeds that tolerances leave are those of rest
    closes = end < GAP_TOLERANCE
    least = REST_GAP + LEFT_ACCELERATION * h * h
    closed = pushed & (gap <= np.maximum(least, 0.5 * h * (begun - after)))
    still = np.maximum(REST_SPEED, RESTING_SHARE * np.abs(after - begun))
    closed = closed | ((gap <= REST_GAP) & (np.abs(begun) <= still))
    rests = ((approach <= REST_SPEED) & (gap <= REST_GAP)) | closed
    slow = approach * h <= 2.0 * GAP_TOLERANCE
    approach = np.where(slow | rests, 0.0, approach)
    left = np.where(rests | (slow & (gap <= GAP_TOLERANCE)), h, left)
    ratio = _ratio(approach, -after)
    removed = np.minimum(np.where(closes, ratio, 0.0), MOST_REMOVED)
    begins = np.where(jumped, begun, before)
    collides = (ratio > RESTING_SHARE) & (approach > LEFT_ACCELERATION * h)
    share = np.where(closes, left / h, 1.0)
    # the instant of closing changes with the root of the gap: not where there is none
    lands = removed > RESTING_SHARE
    # gaps that other contacts close later end at zero, with whatever speed; of those that are
    # closed, this would reverse the speed in every step
    stays = closed & (ahead <= h * np.abs(after) + np.maximum(gap, REST_GAP))
    touches = ((gap <= REST_GAP) & (ahead <= REST_GAP)) | stays
    return Closing(
        np.where(closes | touches, after, 2.0 * end / h),
        np.where(lands, removed, frozen(removed)),
        np.where(lands, share, frozen(share)),
        np.where(closes, hold, 0.0),
        np.where(collides, _crossing(ahead, steady, (steady - begins) / h), -OUT_OF_REACH),
        -steady,
    )


def _crossing(end: Scalar, speed: Scalar, rate: Scalar) -> Scalar:
    """Return when a gap of constant rate becomes zero, as time before the end of a step [s]."""
    square = speed * speed - 2.0 * rate * end
    meets = (speed < 0.0) & (square > 0.0)
    root = np.sqrt(np.where(meets, square, 0.0))
    return np.where(meets, 2.0 * end / np.where(meets, speed - root, -1.0), -OUT_OF_REACH)


def _ratio(a: Scalar, b: Scalar) -> Scalar:
    """Return a / b, 0 where b is not positive."""
    return np.where(b > 0.0, a / np.where(b > 0.0, b, 1.0), 0.0)
