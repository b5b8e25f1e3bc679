"""The load-sharing problem of a robot in one state: unknown forces, equations and joint forces.

Symbols (Nahon 1991, chapters 3 and 4):
    x       unknown forces: components of contact forces and of the constraint forces of loops
    tau'    joint forces that the motion needs without x, by inverse dynamics of the tree   (4.20)
    J       rows: velocity along each component of x; J^T x is its generalized force
    a, u    velocity variables that actuators drive, and those that nothing drives
    r       degree of actuation redundancy, unknowns less equations                         (2.15)

The compact formulation (4.2.3), for any tree with any loops: cut loops and contacts leave a tree,
whose velocity variables without actuator give the equations, and whose driven ones the torques:

    J_u^T x = tau'_u,           tau_a = tau'_a - J_a^T x                         (4.20), (4.27)

tau' includes water, rotors and external forces, springs between bodies, and friction and springs of
joints, which need no actuator. Forces act on the second body of a contact or loop;
those of the ground on a foot are therefore -x. Contacts that do not touch take no part: their
columns are zero, and their forces become zero by the objective.
"""

from collections import Counter
from collections.abc import Sequence
from operator import sub
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import ancestors
from tiburon.contact.candidates import Candidate, surfaces_of
from tiburon.contact.rows import ContactRow, PointRows, contact_rows
from tiburon.load_sharing.drives import Drive, drive_row
from tiburon.load_sharing.sites import SITE_VALUES, ContactSite, Wrenches, opposed, site_rows
from tiburon.loops.constraints import constraints, end_of, jacobian_pattern
from tiburon.model import Model, Plan
from tiburon.model.closure import LoopClosure
from tiburon.model.joint_constraints import Offset
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import ZERO3, add, cross, dot, matrix_vector, scale, subtract
from tiburon.trace.array import as_traced

FORCE, MOMENT = "force", "moment"
"""What a component of x is."""

CONTACT_LABELS = ("t1", "t2", "n", "m")
"""Components of a contact: two tangents, the normal, the moment about it."""

MIN_LEVER = 1e-6
"""Lever below which contacts are where the center of mass is [m]."""

FOOT_LABELS = ("t1", "t2", "n", "m1", "m2", "m")
"""Components of a flat foot: forces, and moments about the same axes."""


class Group(NamedTuple):
    """Components of x that belong to one contact point or loop."""

    name: str
    """Name of the contact point or loop."""

    kinds: tuple[str, ...]
    """Kind of each component: `FORCE` or `MOMENT`."""

    first: int
    """Place of its first component."""

    normal: int | None = None
    """Place of the normal force, whose two tangential ones precede it; None without a normal."""

    torsion: int | None = None
    """Place of the moment about the normal, for a soft finger; None without."""

    rows: tuple[int, ...] = ()
    """Of a loop: which of its constraints the components are. Constraints that no joint can feel,
    such as those across the plane of a planar mechanism, carry no load here."""

    labels: tuple[str, ...] = ()
    """Names of the components; numbers by default."""

    @property
    def places(self) -> range:
        """Places of its components."""
        return range(self.first, self.first + len(self.kinds))


class Layout(NamedTuple):
    """What is unknown and what is given: the structure of the problem."""

    groups: tuple[Group, ...]
    """Contact points and sites first, then loops, then thrusters and cables."""

    points: int
    """Number of contact points and sites."""

    driven: tuple[int, ...]
    """Velocity variables that actuators drive."""

    undriven: tuple[int, ...]
    """Velocity variables that nothing drives: one equation each."""

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return sum(len(group.kinds) for group in self.groups)

    @property
    def redundancy(self) -> int:
        """Unknowns less equations: r (4.14)."""
        return self.size - len(self.undriven)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each component of x."""
        found = []
        for group in self.groups:
            labels = group.labels or tuple(map(str, group.rows))
            found += [f"{group.name}.{x}" for x in labels]
        return tuple(found)


class Before(NamedTuple):
    """Forces of the step before."""

    x: Scalars
    """Unknown forces [N, N m]."""

    tau: Scalars
    """Driven joint forces, in the order of `Layout.driven` [N or N m]."""


class System(NamedTuple):
    """Equations of a formulation over all its unknowns, of which x are the first."""

    size: int
    """Number of unknowns."""

    rows: list[ContactRow]
    """A1."""

    right: list[Scalar]
    """b1 [N or N m]."""

    torques: dict[int, int]
    """Place of each driven joint force, by velocity variable, where it is an unknown."""


class Problem(NamedTuple):
    """The problem in one state; floats or traced values."""

    model: Model

    layout: Layout

    columns: list[ContactRow]
    """J: velocity along each component of x, by velocity variable; zero where nothing touches."""

    needed: Scalars
    """tau', joint forces without x [N or N m], nv scalars."""

    v: Scalars
    """Joint velocity [m/s or rad/s]."""

    vd: Scalars
    """Joint acceleration [m/s^2 or rad/s^2]."""

    touching: list[Scalar]
    """1 for each group that takes part, else 0."""

    friction: list[Scalar]
    """Coefficient of friction of each group; 0 where it has no normal."""

    points: list[PointRows]
    """Geometry of the contact points and sites."""

    ends: list[tuple[str, str]]
    """Names of the two bodies or frames of each of them."""

    masses: list[Scalar]
    """Apparent masses of the velocity variables that nothing drives: diagonal of the mass matrix
    [kg or kg m^2]."""

    setting: Setting
    """The robot and its surroundings."""

    q: Scalars
    """Configuration [m or rad]."""

    wrenches: list[Wrenches]
    """Wrenches of unit components of x on plan bodies; none for loops, see `recovery.py`."""

    grips: dict[str, "Grip"]
    """Loops that stand for contacts, by name."""

    passive: Scalars | None = None
    """Joint forces of friction and springs, which are in tau' [N or N m]; None for none."""

    system: System | None = None
    """Unknowns and equations of another formulation than the compact one."""

    motions: Sequence[Scalars] = ()
    """Accelerations per unit of the last components of x, where these change the motion."""

    auxiliary: tuple[str, ...] = ()
    """Names of unknowns that the objective adds, behind all others."""

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self._forces + len(self.auxiliary)

    @property
    def _forces(self) -> int:
        return self.layout.size if self.system is None else self.system.size

    def place(self, auxiliary: str) -> int:
        """Return the place of an unknown that the objective adds."""
        return self._forces + self.auxiliary.index(auxiliary)

    @property
    def lever(self) -> Scalar:
        """Root mean square distance of contact points and loop joints from what they hold [m].

        Of those that take part, from the center of mass of the object or machine (6.20).
        """
        return _lever(self)

    @property
    def equations(self) -> tuple[list[ContactRow], list[Scalar]]:
        """A1 and b1; in the compact formulation J_u^T x = tau'_u (4.27)."""
        if self.system is not None:
            return self.system.rows, self.system.right
        undriven = self.layout.undriven
        return [self.row(i) for i in undriven], [self.needed[i] for i in undriven]

    def row(self, index: int) -> ContactRow:
        """Return J^T x along a velocity variable, as a row over x."""
        return {k: column[index] for k, column in enumerate(self.columns) if index in column}

    def torque(self, index: int) -> tuple[ContactRow, Scalar]:
        """Return a driven joint force as a row over the unknowns and a constant.

        In the compact formulation tau' - J^T x; where it is an unknown itself, that.
        """
        if self.system is not None and index in self.system.torques:
            return {self.system.torques[index]: 1.0}, 0.0
        return {k: -x for k, x in self.row(index).items()}, self.needed[index]


class QuadraticProgram(NamedTuple):
    """A load-sharing problem as a quadratic program; floats or traced values."""

    W: list[dict[int, Scalar]]
    """Quadratic term by rows, without structural zeros."""

    c: list[Scalar]
    """Linear term."""

    A1: list[ContactRow]
    """Equations, one row per velocity variable that nothing drives."""

    b1: list[Scalar]

    A2: list[ContactRow]
    """Limits A2 x >= b2, in the order of `row_names`."""

    b2: list[Scalar]

    cones: list[tuple[int, int, int]]
    """Two tangents and the normal of each friction cone."""

    mu: list[Scalar]
    """Coefficients of the cones."""

    pyramids: "Pyramids | None" = None
    """Which of the limits are sides of pyramids: the solver finds these itself."""


class Pyramids(NamedTuple):
    """Friction pyramids among the limits."""

    first: int
    """Place of the first side among the limits."""

    sides: int
    """Sides of each."""

    places: list[tuple[int, int, int]]
    """Two tangents and the normal of each."""

    mu: list[Scalar]
    """Coefficient of each, less that of the cone if it is inscribed."""

    @property
    def total(self) -> int:
        """Number of all sides."""
        return self.sides * len(self.places)


def dense(rows: Sequence[ContactRow], n: int) -> Any:
    """Return sparse rows as a matrix with n columns."""
    return as_traced([[row.get(j, 0.0) for j in range(n)] for row in rows])


def layout_of(
    model: Model,
    candidates: Sequence[Candidate],
    driven: Sequence[int],
    grips: Sequence["Grip"],
    sites: Sequence[ContactSite] = (),
    drives: Sequence[Drive] = (),
) -> Layout:
    """Return the unknowns and equations of a robot.

    Args:
        model: The robot.
        candidates: Shapes that may touch: point contacts with friction.
        driven: Velocity variables that actuators drive.
        grips: Loops that stand for contacts, with their normals.
        sites: Contacts given by a point and a normal.
        drives: Thrusters and cables.
    """
    groups: list[Group] = []
    at = 0
    for candidate in candidates:
        for name in candidate.point_names:
            groups.append(Group(name, (FORCE,) * 3, at, at + 2, labels=CONTACT_LABELS[:3]))
            at += 3
    for site in sites:
        moments = site.moment_count
        kinds = (FORCE,) * 3 + (MOMENT,) * moments
        torsion = at + 2 + moments if moments else None
        labels = FOOT_LABELS if moments == 3 else CONTACT_LABELS[: len(kinds)]
        groups.append(Group(site.name, kinds, at, at + 2, torsion, labels=labels))
        at += len(kinds)
    points = len(groups)
    by_loop = {grip.loop: grip for grip in grips}
    felt = jacobian_pattern(model) if model.loops else ()
    start = 0
    for loop in model.loops:
        kinds = constraint_kinds(loop)
        grip = by_loop.get(loop.name)
        # three forces of a grip belong together, whether felt or not
        rows = tuple(
            k for k in range(len(kinds)) if felt[start + k] or (grip is not None and k < 3)
        )
        start += len(kinds)
        kinds = tuple(kinds[k] for k in rows)
        if grip is None:
            groups.append(Group(loop.name, kinds, at, rows=rows))
        else:
            torsion = at + 3 if len(kinds) > 3 else None
            labels = CONTACT_LABELS + tuple(map(str, rows[4:]))
            groups.append(Group(loop.name, kinds, at, at + 2, torsion, rows, labels[: len(kinds)]))
        at += len(kinds)
    for drive in drives:
        groups.append(Group(drive.name, (FORCE,), at, labels=(drive.kind,)))
        at += 1
    undriven = tuple(i for i in range(model.nv) if i not in set(driven))
    return Layout(tuple(groups), points, tuple(driven), undriven)


class Grip(NamedTuple):
    """A loop that stands for a contact: its normal, and tangents orthogonal to it."""

    loop: str
    basis: tuple[tuple[float, float, float], ...]
    """Two tangents and the normal, toward the second body, in axes of the loop's joint frame."""


def constraint_kinds(loop: object) -> tuple[str, ...]:
    """Return the kind of each constraint of a loop: `FORCE` or `MOMENT`."""
    if isinstance(loop, LoopClosure):
        return tuple(
            FORCE if isinstance(measure, Offset) else MOMENT
            for measure in loop.joint.loop_constraints()
        )
    count = getattr(loop, "position_count", 1) + getattr(loop, "velocity_count", 0)
    return (FORCE,) * count


def problem_of(
    setting: Setting,
    layout: Layout,
    candidates: Sequence[Candidate],
    grips: Sequence[Grip],
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    p: Scalars,
    touching: Scalars,
    friction: Scalars,
    sites: Sequence[ContactSite] = (),
    site_values: Scalars = (),
    drives: Sequence[Drive] = (),
    passive: Scalars | None = None,
) -> Problem:
    """Return the problem in one state.

    Args:
        setting: The robot and its surroundings.
        layout: From `layout_of`.
        candidates: Shapes that may touch.
        grips: Loops that stand for contacts.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        p: Run-time parameters of the candidates.
        touching: 1 for each contact point and loop that takes part, else 0.
        friction: Coefficient of each group; negative for that of the surfaces.
        sites: Contacts given by a point and a normal.
        site_values: Their run-time values, `SITE_VALUES` each.
        drives: Thrusters and cables.
        passive: Joint forces of friction and springs [N or N m], nv scalars; None for none.
    """
    model, plan = setting.model, setting.plan
    points = contact_rows(plan, q, candidates, p) if candidates else []
    surfaces = surfaces_of(candidates, p, [point.geometry for point in points])
    columns: list[ContactRow] = [row for point in points for row in point.rows]
    wrenches = _contact_wrenches(plan, candidates, points)
    places = body_places(plan, JointVector(q)) if sites or drives else ()
    for k, site in enumerate(sites):
        own = site_values[SITE_VALUES * k : SITE_VALUES * (k + 1)]
        at = site_rows(plan, q, places, site, own)
        points.append(at.point)
        columns += [*at.point.rows, *at.moments]
        wrenches += at.wrenches
    if model.loops:
        rows = constraints(model, plan, q).jacobian
        by_loop = {grip.loop: grip for grip in grips}
        start = 0
        for loop, group in zip(model.loops, layout.groups[layout.points :], strict=False):
            own = [rows[start + k] for k in group.rows]
            start += len(constraint_kinds(loop))
            grip = by_loop.get(group.name)
            if grip is not None:
                own[:3] = [combined(own[:3], axis) for axis in grip.basis]
            columns += own
            wrenches += [[] for _ in own]
    for drive in drives:
        row, pulled = drive_row(plan, q, places, drive)
        columns.append(row)
        wrenches.append(pulled)
    coefficients: list[Scalar] = []
    for k, group in enumerate(layout.groups):
        own_friction = surfaces[k].static_friction if k < len(surfaces) else 0.0
        given = np.where(friction[k] < 0.0, own_friction, friction[k])
        coefficients.append(given if group.normal is not None else 0.0)
        for place in group.places:
            columns[place] = {i: touching[k] * x for i, x in columns[place].items()}
            wrenches[place] = [
                (body, scale(n, touching[k]), scale(f, touching[k]))
                for body, n, f in wrenches[place]
            ]
    needed = rnea(plan, q, v, JointVector(vd), setting.gravity, setting.external)
    if passive is not None:
        needed = tuple(map(sub, needed, passive))
    return Problem(
        model,
        layout,
        columns,
        needed,
        v,
        vd,
        list(touching),
        coefficients,
        points,
        [
            *((c.first.body, c.second.body) for c in candidates for _ in range(c.point_count)),
            *((site.body, site.other) for site in sites),
        ],
        chosen_mass_elements(plan, JointVector(q), [(i, i) for i in layout.undriven]),
        setting,
        q,
        wrenches,
        {grip.loop: grip for grip in grips},
        passive,
    )


def _contact_wrenches(
    plan: Plan, candidates: Sequence[Candidate], points: Sequence[PointRows]
) -> list[Wrenches]:
    """Return the wrenches of unit forces along the axes of contact points on plan bodies."""
    pairs = [
        (plan.frame(candidate.first.body).body, plan.frame(candidate.second.body).body)
        for candidate in candidates
        for _ in range(candidate.point_count)
    ]
    return [
        opposed(bodies, cross(point.geometry.point, axis), axis)
        for bodies, point in zip(pairs, points, strict=True)
        for axis in point.axes
    ]


def combined(rows: Sequence[ContactRow], axis: Sequence[float]) -> ContactRow:
    """Return a sum of rows, with factors."""
    found: ContactRow = {}
    for row, factor in zip(rows, axis, strict=True):
        if factor:
            for i, x in row.items():
                found[i] = found[i] + factor * x if i in found else factor * x
    return found


class _Hold(NamedTuple):
    """A contact or loop that holds two bodies together at a point."""

    on: Scalar
    """1 if it takes part, else 0."""

    point: Vec3
    """World axes [m]."""

    bodies: tuple[int, int]
    """Indices of plan bodies, `WORLD_BODY` for the world."""


def _holds(problem: Problem, places: Sequence[Place]) -> list[_Hold]:
    """Return all contact points, sites and joints that close loops."""
    plan, touching = problem.setting.plan, problem.touching
    pairs = zip(problem.ends, problem.points, strict=True)
    ends = [(first, second, point.geometry.point) for (first, second), point in pairs]
    ons = list(touching[: len(ends)])
    for loop, on in zip(problem.model.loops, touching[len(ends) :], strict=False):
        if isinstance(loop, LoopClosure):
            pose = plan.end(loop.name, 0, loop.joint.pose)
            _, end = end_of(plan, loop.first, pose, places, None)
            ends.append((loop.first, loop.second, end.place.p))
            ons.append(on)
    return [
        _Hold(on, point, (plan.frame(first).body, plan.frame(second).body))
        for on, (first, second, point) in zip(ons, ends, strict=True)
    ]


def _objects(plan: Plan, layout: Layout, holds: Sequence[_Hold]) -> list[int | None]:
    """Return the plan body that carries what each contact or loop holds; None without an object.

    It is the first one from the world that nothing drives: a load, or the base of a machine. Of
    two, that without drives of its own; then that which more contacts hold; then the second.
    """
    undriven, driven = set(layout.undriven), set(layout.driven)
    roots: list[int | None] = []
    active: set[int] = set()
    for body in plan.bodies:
        known = roots[body.parent] if body.parent != WORLD_BODY else None
        own = set(range(body.v.start, body.v.stop))
        roots.append(body.index if known is None and own & undriven else known)
        if known is not None and own & driven:
            active.add(known)
    sides = [
        [roots[body] for body in hold.bodies if body != WORLD_BODY and roots[body] is not None]
        for hold in holds
    ]
    counts = Counter(root for pair in sides for root in set(pair))
    return [
        max(reversed(pair), key=lambda root: (root not in active, counts[root]), default=None)
        for pair in sides
    ]


def _center_of_mass(plan: Plan, places: Sequence[Place], root: int) -> Vec3:
    """Return the center of mass of a plan body and of all that it carries, world axes [m].

    Its origin, if nothing of that has mass.
    """
    mass: Scalar = 0.0
    total: Vec3 = ZERO3
    for body in plan.bodies:
        if root in ancestors(plan, body.index):
            place = places[body.index]
            mass = mass + body.inertia.mass
            moment = matrix_vector(place.R, body.inertia.h)
            total = add(total, add(scale(place.p, body.inertia.mass), moment))
    return places[root].p if type(mass) is float and mass == 0.0 else scale(total, 1.0 / mass)


def _lever(problem: Problem) -> Scalar:
    """Return the root mean square distance of what takes part from what it holds [m] (6.20).

    Closed chains whose joints all are driven hold no object: distances are from the mean then. 1 m
    where all distances vanish: forces and moments do not mix there.
    """
    plan = problem.setting.plan
    places = body_places(plan, JointVector(problem.q))
    holds = _holds(problem, places)
    roots = _objects(plan, problem.layout, holds)
    alone = [hold for hold, root in zip(holds, roots, strict=True) if root is None]
    centers = {root: _center_of_mass(plan, places, root) for root in roots if root is not None}
    mean = _mean([hold.point for hold in alone], [hold.on for hold in alone])
    total: Scalar = 0.0
    count: Scalar = 0.0
    for hold, root in zip(holds, roots, strict=True):
        c = subtract(hold.point, mean if root is None else centers[root])
        total, count = total + hold.on * dot(c, c), count + hold.on
    square = total / np.maximum(count, 1.0)
    return np.sqrt(np.where(square > MIN_LEVER * MIN_LEVER, square, 1.0))


def _mean(points: Sequence[Vec3], weights: Scalars) -> Vec3:
    """Return the mean of points with weights of 0 or 1."""
    total, count = ZERO3, 0.0
    for point, weight in zip(points, weights, strict=True):
        total, count = add(total, scale(point, weight)), count + weight
    return scale(total, 1.0 / np.maximum(count, 1.0))
