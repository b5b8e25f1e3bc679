"""Contact points of a robot in one configuration: gaps, contact frames and Jacobians.

The rows of a contact point give the velocity of the second body's material point relative to the
first's, along two tangents and the normal (Featherstone 1987, eqs. 9.43-9.47).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import (
    WORLD_PLACE,
    Place,
    body_motions,
    body_places,
    jacobian_columns,
)
from tiburon.algorithms.like_branches import like_branches
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.candidates import Candidate, Part, parameter_count
from tiburon.contact.geometry.bounds import bounding_radius
from tiburon.contact.geometry.contact_geometry import NO_CONTACT, ContactGeometry
from tiburon.contact.geometry.swept import Crossing, SweptContact, is_fast, swept_contacts
from tiburon.contact.geometry.vectors import perpendicular, select
from tiburon.model import Plan, Pose
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Motion, Scalar, Vec3
from tiburon.spatial.vec3 import (
    ZERO3,
    add,
    add_cross,
    cross,
    dot,
    matrix_product,
    matrix_vector,
    scale,
    subtract,
    transpose,
)
from tiburon.trace.regions import function, where_needed
from tiburon.trace.regions.lanes import lanes
from tiburon.trace.value import where

INLINED_POINTS = 6
"""Contact points up to which each has code of its own; more share it, which compiles faster."""

CALLED_POINTS = 8
"""Most contact points of a body in one call of such code."""

ContactRow = dict[int, Scalar]
"""One row of a Jacobian by velocity variable; zeros are left out."""


NEAR_GAP = 1e-4
"""Distance of bounding spheres up to which shapes may touch [m]."""

JUMP_RATIO = 1600.0
"""Square of the way of a contact point relative to the squares of those of its shapes above which
it jumps: it runs over flat sides of a rolling ellipsoid tens of times as fast as these move."""

JUMP_LENGTH = 1e-6
"""Way of a contact point that is no jump [m]."""

MOST_TURN = 0.03
"""Change of the lever arm of a contact point relative to its length above which it jumps: as on the
rim of a disc that falls flat. Forces with the arms of both ends would not do the work of the way
between."""

LEAST_COSINE = 0.995
"""Cosine of the angle between normals at both ends of a step below which a contact point jumps:
over the edge of a triangle, or of a body on another one."""

MIN_DISTANCE = 1e-9
"""Least distance of centers that has a direction [m]."""

Scalars3 = tuple[Scalar, Scalar, Scalar]

NO_DRIFT: Scalars3 = (0.0, 0.0, 0.0)


class LazyRows(Sequence[ContactRow]):
    """Rows that are computed on first use."""

    def __init__(self, make: Callable[[], Sequence[ContactRow]]) -> None:
        """Keep the function that computes them."""
        self._make = make
        self._found: Sequence[ContactRow] | None = None

    @property
    def _rows(self) -> Sequence[ContactRow]:
        if self._found is None:
            self._found = self._make()
        return self._found

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]


class Carrier:
    """A body whose contact points touch the world: what their velocities have in common.

    Attributes:
        body: Number of the body.
        place: Its pose in the world.
        sign: 1, or -1 where it is the first body: the world then moves relative to it.
        alike: Numbers of the bodies at the same place of like branches, its own among them, which
            carry as many like points each; empty for others.
    """

    def __init__(
        self, bodies: "_MovingBodies", body: int, sign: float, alike: tuple[int, ...] = ()
    ) -> None:
        self.body, self.sign, self.alike = body, sign, alike
        self.place = bodies.places[body]
        self._bodies = bodies

    @property
    def key(self) -> tuple[int, float]:
        """Body and sign: a body that is first in some pairs and second in others has both."""
        return self.body, self.sign

    @cached_property
    def columns(self) -> dict[int, Motion]:
        """Its velocity per unit rate of each joint axis, at its origin, world axes."""
        of = self._bodies
        columns = jacobian_columns(of.plan, of.q, of.places, self.body, self.place.p)
        return {
            i: Motion(scale(one.angular, self.sign), scale(one.linear, self.sign))
            for i, one in columns.items()
        }

    def velocity(self, v: Sequence[Scalar]) -> Motion:
        """Return the velocity of the second body relative to the first, for joint velocities v.

        At its origin, world axes.
        """
        of, R = self._bodies.velocities(v)[self.body], self.place.R
        angular, linear = matrix_vector(R, of.angular), matrix_vector(R, of.linear)
        return Motion(scale(angular, self.sign), scale(linear, self.sign))

    def arm(self, point: Vec3) -> Vec3:
        """Return the way from its origin to a point, world axes [m]."""
        return subtract(point, self.place.p)


class _MovingBodies:
    """The bodies of a robot in one configuration, and their velocities for joint velocities."""

    def __init__(self, plan: Plan, q: JointVector, places: Sequence[Place], *, lanes: bool) -> None:
        self.plan, self.q, self.places, self._lanes = plan, q, places, lanes
        self._known: list[tuple[Sequence[Scalar], list[Motion]]] = []

    def velocities(self, v: Sequence[Scalar]) -> list[Motion]:
        """Return the velocity of every body, in its own axes; computed once."""
        for known, found in self._known:
            if known is v:
                return found
        moving = body_motions(self.plan, self.q, JointVector(v), None, lanes=self._lanes)
        found = [one.vel for one in moving]
        self._known.append((v, found))
        return found


class PointRows(NamedTuple):
    """One contact point."""

    geometry: ContactGeometry
    """Gap, point and normal."""

    axes: tuple[Vec3, Vec3, Vec3]
    """Two tangents and the normal, world axes."""

    rows: Sequence[ContactRow]
    """Jacobian of the relative velocity along each axis."""

    drift: Scalars3 = NO_DRIFT
    """Relative velocity that prescribed motion causes with all joints at rest, along each axis
    [m/s]."""

    carrier: Carrier | None = None
    """The body that it shares rows with other points of, if any."""

    between: bool = False
    """Whether both bodies move."""

    start: Vec3 | None = None
    """Normal at the start of the step, world axes; None where there is no step."""

    jumps: Scalar = 0.0
    """Whether it is farther from where it was at the start than shapes move in the step: 1 or 0.

    Points of shapes may change places within a step."""

    resists: tuple[bool, bool] = (False, False)
    """Whether its surfaces may have torsional friction, and rolling friction."""

    turning: Sequence[ContactRow] = ()
    """Jacobian of the relative angular velocity along each axis, where they may."""

    turning_drift: Scalars3 = NO_DRIFT
    """The same of prescribed motion with all joints at rest, along each axis [rad/s]."""

    def velocity(self, v: Sequence[Scalar]) -> Scalars3:
        """Return the relative velocity along each axis [m/s], for joint velocities v."""
        x, y, z = (along(row, v) for row in self.rows)
        if self.drift is NO_DRIFT:
            return x, y, z
        a, b, c = self.drift
        return x + a, y + b, z + c

    def turning_rate(self, v: Sequence[Scalar]) -> Scalars3:
        """Return the relative angular velocity along each axis [rad/s], where there are rows."""
        x, y, z = (along(row, v) for row in self.turning)
        a, b, c = self.turning_drift
        return x + a, y + b, z + c


def each_point(
    call: Callable[..., Any],
    points: Sequence[PointRows],
    given: Sequence[tuple[Any, ...]],
    shared: Sequence[tuple[Any, ...]] | None = None,
) -> list[Any]:
    """Call a function for each contact point, by code that bodies share.

    Those of like bodies are computed side by side.

    Args:
        call: Takes the arguments of one point, then those that points of its body share.
        points: The contact points.
        given: Arguments of each point, of one structure.
        shared: Arguments of each point that are the same for all points of its carrier.
    """
    common = [()] * len(points) if shared is None else shared

    def together(some: list[tuple[Any, ...]], common: tuple[Any, ...]) -> list[Any]:
        return [call(*one, *common) for one in some]

    called = together if len(points) <= INLINED_POINTS else function(together)
    found: dict[int, Any] = {}
    own: dict[tuple[int, float], list[int]] = {}
    for k, point in enumerate(points):
        if point.carrier is None:
            found[k] = called([given[k]], common[k])[0]
        else:
            own.setdefault(point.carrier.key, []).append(k)
    for (body, sign), members in own.items():
        if members[0] in found:
            continue
        alike = points[members[0]].carrier.alike or (body,)  # type: ignore[union-attr]
        branches = [own.get((other, sign), []) for other in alike]
        if len(alike) > 1 and len({len(branch) for branch in branches}) == 1:
            arguments = [([given[k] for k in branch], common[branch[0]]) for branch in branches]
            results = lanes(together, arguments)
        else:
            branches = [
                members[k : k + CALLED_POINTS] for k in range(0, len(members), CALLED_POINTS)
            ]
            results = [called([given[k] for k in some], common[some[0]]) for some in branches]
        for branch, values in zip(branches, results, strict=True):
            found.update(zip(branch, values, strict=True))
    return [found[k] for k in range(len(points))]


def contact_geometry(
    plan: Plan,
    q: Sequence[Scalar],
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
) -> tuple[list[ContactGeometry], tuple[Place, ...]]:
    """Return the geometry of all contact points of all candidates, and the places of bodies.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        candidates: The shapes that may touch.
        p: Run-time parameters of all candidates in order, then the handle of their table.
    """
    handle = p[parameter_count(candidates) :]
    like = like_candidates(plan, candidates)
    places = body_places(plan, JointVector(q), lanes=bool(like))
    counts = [len(candidate.parameters()) for candidate in candidates]
    starts = [sum(counts[:k]) for k in range(len(counts))]
    own = [p[start : start + count] for start, count in zip(starts, counts, strict=True)]
    found: dict[int, Sequence[ContactGeometry]] = {}
    for branches in like:
        # shapes and dimensions of one branch, with the code of those of the first
        given = [
            [
                (carrier_place(plan, places, c.first), local_place(plan, c.first), own[k])
                for k, c in some
            ]
            for some in ([(k, candidates[k]) for k in branch] for branch in branches)
        ]
        first = [candidates[k] for k in branches[0]]
        grounds = [part_place(plan, places, c.second) for c in first]

        def touched(
            *shapes: Any, first: Any = first, grounds: Any = grounds
        ) -> list[tuple[ContactGeometry, ...]]:
            return [
                c.geometry([composed_place(place, local), (ground.R, ground.p)], numbers)
                for (place, local, numbers), c, ground in zip(shapes, first, grounds, strict=True)
            ]

        for branch, results in zip(branches, lanes(touched, given), strict=True):
            found.update(zip(branch, results, strict=True))
    for k, candidate in enumerate(candidates):
        if k not in found:
            placed = [part_place(plan, places, x) for x in (candidate.first, candidate.second)]
            poses = [(place.R, place.p) for place in placed]
            found[k] = candidate.geometry(poses, own[k], handle)
    return [one for k in range(len(candidates)) for one in found[k]], places


def like_candidates(
    plan: Plan, candidates: Sequence[Candidate]
) -> list[tuple[tuple[int, ...], ...]]:
    """Return groups of candidates that like branches have, where contact points are many.

    Those are the shapes on like branches that touch a plane of the world, the same ones on each
    branch but for numbers. A group holds for each branch the numbers of its candidates.
    """
    if sum(candidate.point_count for candidate in candidates) <= INLINED_POINTS:
        return []
    found = []
    for branches in like_branches(plan):
        place = {index: (b, k) for b, some in enumerate(branches) for k, index in enumerate(some)}
        members: list[list[int]] = [[] for _ in branches]
        forms: list[list[Any]] = [[] for _ in branches]
        for number, candidate in enumerate(candidates):
            at = place.get(plan.frame(candidate.first.body).body)
            ground = candidate.second
            on_world = plan.frame(ground.body).body == WORLD_BODY
            if at is None or not on_world or ground.kind != "plane" or candidate.has_hull:
                # vertices of hulls are compared in lanes already
                continue
            members[at[0]].append(number)
            first = replace(candidate.form().first, body="", pose=Pose())
            forms[at[0]].append((at[1], first, ground, len(candidate.patches)))
        if members[0] and all(form == forms[0] for form in forms):
            found.append(tuple(map(tuple, members)))
    return found


def carrier_place(plan: Plan, places: Sequence[Place], part: Part) -> Place:
    """Return the pose of the plan body that a shape belongs to."""
    body = plan.frame(part.body).body
    return WORLD_PLACE if body == WORLD_BODY else places[body]


def local_place(plan: Plan, part: Part) -> Place:
    """Return the pose of a shape in the frame of its plan body."""
    place = WORLD_PLACE.moved(plan.frame(part.body).transform)
    return Place(*composed_place(place, Place(part.pose.rotation, part.pose.translation)))


def composed_place(place: Place, local: Place) -> tuple[Any, Vec3]:
    """Return the pose in the world of a shape, given that of its carrier and its own there."""
    return matrix_product(place.R, local.R), add(place.p, matrix_vector(place.R, local.p))


def contact_rows(
    plan: Plan,
    q: Sequence[Scalar],
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
) -> list[PointRows]:
    """Return all contact points of all candidates, touching or not; see `contact_geometry`."""
    geometries, places = contact_geometry(plan, q, candidates, p)
    points = [(geometry, (geometry.point, geometry.point)) for geometry in geometries]
    return _rows(plan, q, places, candidates, points)


def relative_velocities(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    candidates: Sequence[Candidate],
    points: Sequence[Vec3],
    places: Sequence[Place],
) -> list[Vec3]:
    """Return the velocity of the second body relative to the first at each contact point [m/s].

    World axes. Points of one pair share the relative twist of their bodies, so that code for
    hundreds of points stays short.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        candidates: The shapes that may touch.
        points: All contact points [m], world axes, in the order of `contact_geometry`.
        places: Places of the bodies.
    """
    motions = body_motions(plan, JointVector(q), JointVector(v), None)
    twists: dict[int, tuple[Vec3, Vec3]] = {WORLD_BODY: (ZERO3, ZERO3)}
    found: list[Vec3] = []
    for candidate in candidates:
        bodies = [plan.frame(part.body).body for part in (candidate.first, candidate.second)]
        for body in bodies:
            if body not in twists:
                vel, place = motions[body].vel, places[body]
                angular = matrix_vector(place.R, vel.angular)
                linear = matrix_vector(place.R, vel.linear)
                # velocity of the material point at the origin of the world
                twists[body] = angular, add_cross(linear, place.p, angular)
        first, second = (twists[body] for body in bodies)
        angular, linear = (subtract(b, a) for a, b in zip(first, second, strict=True))
        some = points[len(found) : len(found) + candidate.point_count]
        found += [add_cross(linear, angular, point) for point in some]
    return found


def may_touch(
    plans: tuple[Plan, Plan],
    start: Sequence[Scalar],
    ends: Sequence[Sequence[Scalar]],
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
) -> Any:
    """Return whether bounding spheres of a step come within contact; False where nothing can touch.

    The path of a center is taken to lie in the hull of its positions, as that of constant
    acceleration does. Ground that is not level, hulls and meshes may always touch.

    Args:
        plans: Layout of the model at the start and at the end of the step.
        start: Position at the start [m or rad], nq scalars.
        ends: Positions at the end: of constant velocity, and those that are predicted.
        candidates: The shapes that may touch.
        p: Run-time parameters; see `contact_geometry`.
    """
    reaches: list[tuple[Scalar, ...]] = []
    at_p = 0
    for candidate in candidates:
        own = p[at_p : at_p + len(candidate.parameters())]
        at_p += len(own)
        first, second = candidate.first, candidate.second
        sizes = own[: len(first.size)], own[len(first.size) : len(first.size) + len(second.size)]
        radii = tuple(
            bounding_radius(part.kind, size) if part.kind != "plane" else 0.0
            for part, size in zip((first, second), sizes, strict=True)
        )
        if any(isinstance(x, float) and x == math.inf for x in radii) or first.kind == "plane":
            return True
        reaches.append(radii)
    placed = [
        body_places(plan, JointVector(q))
        for plan, q in ((plans[0], start), *((plans[1], end) for end in ends))
    ]
    of = [plans[0], *(plans[1] for _ in ends)]
    closest: Scalar = math.inf
    for candidate, (one, other) in zip(candidates, reaches, strict=True):
        offsets, normal = [], ZERO3
        for k, (plan, places) in enumerate(zip(of, placed, strict=True)):
            a, b = (part_place(plan, places, x) for x in (candidate.first, candidate.second))
            offset = subtract(a.p, b.p)
            if k == 0:
                normal = tuple(row[2] for row in b.R)
                if candidate.second.kind != "plane":
                    length = np.sqrt(dot(offset, offset))
                    normal = scale(offset, 1.0 / np.maximum(length, MIN_DISTANCE))
            offsets.append(dot(normal, offset))
        for height in offsets:
            closest = np.minimum(closest, height - (one + other))
    return closest <= NEAR_GAP


def swept_rows(
    plans: tuple[Plan, Plan],
    start: Sequence[Scalar],
    end: Sequence[Scalar],
    v: tuple[Sequence[Scalar], Sequence[Scalar]],
    h: Scalar,
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
) -> tuple[list[Scalar], list[PointRows]]:
    """Return gaps at the start of a step, and all contact points at its end.

    Where bodies are so fast that they may cross each other within the step, a contact point has the
    normal of the instant of first contact, and its gap changes at the constant rate of that
    instant.

    Args:
        plans: Layout of the model at the start and at the end, which differ in prescribed motion.
        start: Position at the start [m or rad], nq scalars.
        end: Position at its end, nq scalars.
        v: Joint velocities at both [m/s or rad/s], nv scalars each.
        h: Length of the step [s].
        candidates: The shapes that may touch.
        p: Run-time parameters; see `contact_geometry`.
    """
    plan = plans[1]
    before, places_before = contact_geometry(plans[0], start, candidates, p)
    after, places = contact_geometry(plan, end, candidates, p)
    points: list[tuple[ContactGeometry, tuple[Vec3, Vec3]]] = []
    when: list[Scalar | None] = []
    at_p = 0
    for candidate in candidates:
        own = p[at_p : at_p + len(candidate.parameters())]
        at_p += len(own)
        some = slice(len(points), len(points) + candidate.point_count)
        plain = [(one, (one.point, one.point)) for one in after[some]]
        if not candidate.is_swept:
            points += plain
            when += [None] * len(plain)
            continue
        parts = (candidate.first, candidate.second)
        placed = [
            [
                part_place(of, there, part)
                for of, there in zip(plans, (places_before, places), strict=True)
            ]
            for part in parts
        ]
        there = [[(at.R, at.p) for at in one] for one in placed]
        crossing = candidate.crossing(there, own, p[parameter_count(candidates) :])

        def speeds(parts: Sequence[Part] = parts, placed: Any = placed) -> tuple[Any, ...]:
            """Return displacements per step of both origins, at the start and at the end."""
            return tuple(
                tuple(
                    _displacement(of, q, there, part, at.p, own, h)
                    for of, q, there, at, own in zip(
                        plans, (start, end), (places_before, places), one, v, strict=True
                    )
                )
                for part, one in zip(parts, placed, strict=True)
            )

        share, found = swept_geometry(candidate, crossing, speeds, tuple(before[some]), plain)
        points += found
        when += [share] * len(found)
    shapes = [
        [
            tuple(
                part_place(of, there, part)
                for of, there in zip(plans, (places_before, places), strict=True)
            )
            for part in (candidate.first, candidate.second)
            if plan.frame(part.body).body != WORLD_BODY
        ]
        for candidate in candidates
        for _ in range(candidate.point_count)
    ]
    rows = [
        row._replace(start=one.normal, jumps=jumps(one, row.geometry, moved))
        for row, one, moved in zip(
            _rows(plan, end, places, candidates, points), before, shapes, strict=True
        )
    ]
    gaps = [geometry.gap for geometry in before]
    for k, share in enumerate(when):
        if share is None:
            continue
        # gaps of swept contacts are those at first contact
        rate, gap, swept = h * rows[k].velocity(v[1])[2], rows[k].geometry.gap, share < 1.0
        # shapes that meet later did not overlap at the start
        first = np.where(share > 0.0, np.maximum(gap - share * rate, 0.0), gap)
        gaps[k] = np.where(swept, first, gaps[k])
        ahead = np.where(swept, gap + (1.0 - share) * rate, gap)
        rows[k] = rows[k]._replace(geometry=rows[k].geometry._replace(gap=ahead))
    return gaps, rows


def jumps(
    before: ContactGeometry, after: ContactGeometry, shapes: Sequence[tuple[Place, ...]]
) -> Scalar:
    """Return whether a contact point is not where it was on its shapes, or turned: 1 or 0.

    Args:
        before: The point at the start of a step.
        after: The same at its end.
        shapes: Poses at both of the shapes that move.
    """

    def square(a: Vec3, b: Vec3) -> Scalar:
        way = subtract(b, a)
        return dot(way, way)

    way: Scalar = 0.0
    turned = dot(before.normal, after.normal) < LEAST_COSINE
    for first, last in shapes:
        lever = subtract(before.point, first.p)
        carried = add(last.p, matrix_vector(last.R, matrix_vector(transpose(first.R), lever)))
        way = way + square(first.p, last.p) + square(before.point, carried)
        change = square(lever, subtract(after.point, last.p))
        turned = turned | (change > MOST_TURN**2 * dot(lever, lever) + JUMP_LENGTH**2)
    far = square(before.point, after.point) > JUMP_RATIO * way + JUMP_LENGTH**2
    return np.where(far | turned | (after.gap >= NO_CONTACT), 1.0, 0.0)


def swept_geometry(
    candidate: Candidate,
    crossing: Crossing,
    speeds: Callable[[], tuple[Any, ...]],
    start: tuple[ContactGeometry, ...],
    end: list[tuple[ContactGeometry, tuple[Vec3, Vec3]]],
) -> tuple[Scalar, list[tuple[ContactGeometry, tuple[Vec3, Vec3]]]]:
    """Return the share of a step before first contact, 1 if not swept, and contact points.

    Args:
        candidate: The pair.
        crossing: Its shapes over the step.
        speeds: Returns the displacements per step of both origins, at the start and at the end.
        start: Contacts at the start.
        end: Contacts at the end, with their places on both bodies.
    """

    def searched() -> tuple[Any, ...]:
        touches, share, contacts = swept_contacts(crossing, speeds(), candidate.narrow_phase)
        if crossing.cell is not None:
            return where(touches, share, 1.0), select(touches, contacts, none)
        # fast shapes that do not meet: nor do their ends
        apart = [SweptContact(NO_CONTACT, one.normal, *points) for one, points in end]
        return where(touches, share, 1.0), select(touches, contacts, tuple(apart))

    none = tuple(SweptContact(one.gap, one.normal, *points) for one, points in end)
    share, found = where_needed(is_fast(crossing, start), searched, (1.0, none))
    return share, [
        (one._replace(gap=touch.gap, normal=touch.normal), (touch.first, touch.second))
        for (one, _), touch in zip(end, found, strict=True)
    ]


def _displacement(
    plan: Plan,
    q: Sequence[Scalar],
    places: Sequence[Place],
    part: Part,
    point: Vec3,
    v: Sequence[Scalar],
    h: Scalar,
) -> Vec3:
    """Return how far a point of a body moves in a step, at its velocity in a configuration [m]."""
    body = plan.frame(part.body).body
    columns = jacobian_columns(plan, JointVector(q), places, body, point)
    total = scale(_prescribed(plan, q, places, body, point), h)
    for index, column in columns.items():
        total = add(total, scale(column.linear, h * v[index]))
    return total


def _prescribed(
    plan: Plan, q: Sequence[Scalar], places: Sequence[Place], body: int, point: Vec3
) -> Vec3:
    """Return the velocity of a body's point with all joints at rest, world axes [m/s].

    It is zero but for bodies that driven joints carry.
    """
    turning, linear = _prescribed_twist(plan, q, places, body)
    if turning is ZERO3:
        return ZERO3
    return add(linear, cross(turning, subtract(point, places[body].p)))


def _prescribed_twist(
    plan: Plan, q: Sequence[Scalar], places: Sequence[Place], body: int
) -> tuple[Vec3, Vec3]:
    """Return angular velocity, and velocity of the origin, of a body with all joints at rest.

    World axes [rad/s, m/s]; `ZERO3` but for bodies of robots with driven joints.
    """
    if body == WORLD_BODY or not plan.depends_on_time:
        return ZERO3, ZERO3
    moving = body_motions(plan, JointVector(q), JointVector((0.0,) * plan.nv), None)[body].vel
    R = places[body].R
    return matrix_vector(R, moving.angular), matrix_vector(R, moving.linear)


def _rows(
    plan: Plan,
    q: Sequence[Scalar],
    places: Sequence[Place],
    candidates: Sequence[Candidate],
    points: Sequence[tuple[ContactGeometry, tuple[Vec3, Vec3]]],
) -> list[PointRows]:
    """Return contact points, each given by its geometry and where it is on both bodies."""
    position = JointVector(q)
    pairs = [
        (candidate.first.body, candidate.second.body, candidate.turning)
        for candidate in candidates
        for _ in range(candidate.point_count)
    ]
    found = []
    many = len(points) > INLINED_POINTS
    columns_of: dict[int, dict[int, Motion]] = {}
    carriers: dict[tuple[int, float], Carrier] = {}
    like = like_candidates(plan, candidates) if many else []
    moving_bodies = _MovingBodies(plan, position, places, lanes=bool(like))
    alike = _like_bodies(plan, candidates, like)
    for (geometry, sides), (*bodies, resists) in zip(points, pairs, strict=True):
        on_world = [plan.frame(name).body == WORLD_BODY for name in bodies]
        if many and not plan.depends_on_time:
            if any(on_world) and not any(resists):
                side = 0 if on_world[1] else 1
                key = plan.frame(bodies[side]).body, (-1.0, 1.0)[side]
                if key not in carriers:
                    carriers[key] = Carrier(moving_bodies, *key, alike.get(key[0], ()))
                found.append(_carried_rows(geometry, sides[side], carriers[key]))
                continue
            moving: list[tuple[int, Motion, Vec3, float]] = []
            for name, point, sign in zip(bodies, sides, (-1.0, 1.0), strict=True):
                body = plan.frame(name).body
                if body not in columns_of:
                    columns_of[body] = jacobian_columns(plan, position, places, body, ZERO3)
                moving += [(i, column, point, sign) for i, column in columns_of[body].items()]
            point_rows = _called_rows(geometry, moving)._replace(between=not any(on_world))
            if any(resists):
                turns = [(i, scale(column.angular, sign)) for i, column, _, sign in moving]
                point_rows = _resisting(point_rows, resists, turns)
            found.append(point_rows)
            continue
        n = geometry.normal
        t = perpendicular(n)
        axes = (t, cross(n, t), n)
        columns: dict[int, Vec3] = {}
        turns = []
        drift = turning_drift = ZERO3
        for name, point, sign in zip(bodies, sides, (-1.0, 1.0), strict=True):
            body = plan.frame(name).body
            if plan.depends_on_time:
                drift = add(drift, scale(_prescribed(plan, q, places, body, point), sign))
                if any(resists):
                    angular = _prescribed_twist(plan, q, places, body)[0]
                    turning_drift = add(turning_drift, scale(angular, sign))
            moved = jacobian_columns(plan, position, places, body, point)
            for index, column in moved.items():
                turns.append((index, scale(column.angular, sign)))
                linear = scale(column.linear, sign)
                known = columns.get(index)
                columns[index] = linear if known is None else add(known, linear)
        rows = [{i: dot(axis, column) for i, column in columns.items()} for axis in axes]
        between = not any(on_world)
        point_rows = PointRows(geometry, axes, (rows[0], rows[1], rows[2]), between=between)
        if drift is not ZERO3:
            point_rows = point_rows._replace(drift=in_axes(axes, drift))
        if any(resists):
            point_rows = _resisting(point_rows, resists, turns, turning_drift)
        found.append(point_rows)
    return found


def _resisting(
    point: PointRows,
    resists: tuple[bool, bool],
    turns: Sequence[tuple[int, Vec3]],
    drift: Vec3 = ZERO3,
) -> PointRows:
    """Return a contact point whose surfaces may resist turning.

    Args:
        point: The point.
        resists: Whether they may have torsional friction, and rolling friction.
        turns: Relative angular velocity per unit rate of each joint axis, world axes, by velocity
            variable; of both bodies.
        drift: That of prescribed motion [rad/s].
    """
    rows: list[ContactRow] = [{}, {}, {}]
    for i, angular in turns:
        for row, axis in zip(rows, point.axes, strict=True):
            x = dot(axis, angular)
            row[i] = row[i] + x if i in row else x
    turning_drift = NO_DRIFT if drift is ZERO3 else in_axes(point.axes, drift)
    return point._replace(resists=resists, turning=rows, turning_drift=turning_drift)


def _like_bodies(
    plan: Plan,
    candidates: Sequence[Candidate],
    like: Sequence[tuple[tuple[int, ...], ...]],
) -> dict[int, tuple[int, ...]]:
    """Return for bodies with like candidates all bodies at the same place, in order."""
    found: dict[int, tuple[int, ...]] = {}
    for branches in like:
        for some in zip(*branches, strict=True):
            bodies = tuple(plan.frame(candidates[k].first.body).body for k in some)
            found.update(dict.fromkeys(bodies, bodies))
    return found


def _carried_rows(geometry: ContactGeometry, point: Vec3, carrier: Carrier) -> PointRows:
    """Return a contact point of a carrier."""
    n = geometry.normal
    t = perpendicular(n)
    axes = (t, cross(n, t), n)

    def rows() -> list[ContactRow]:
        arm = carrier.arm(point)
        moving = [(column, arm, 1.0) for column in carrier.columns.values()]
        parts = _point_rows(n, moving)[1]
        return [
            dict(zip(carrier.columns, entries, strict=True)) for entries in zip(*parts, strict=True)
        ]

    return PointRows(geometry, axes, LazyRows(rows), NO_DRIFT, carrier)


def _called_rows(
    geometry: ContactGeometry, moving: Sequence[tuple[int, Motion, Vec3, float]]
) -> PointRows:
    """Return a contact point, by code that points with as many joint axes share.

    Args:
        geometry: Gap, point and normal.
        moving: For each joint axis its velocity variable, its motion at the origin of the world,
            the point on its body, and the sign of that body.
    """
    axes, parts = _point_rows(geometry.normal, [tuple(one[1:]) for one in moving])
    rows: list[ContactRow] = [{}, {}, {}]
    for (i, *_), entries in zip(moving, parts, strict=True):
        for row, x in zip(rows, entries, strict=True):
            row[i] = row[i] + x if i in row else x
    return PointRows(geometry, axes, (rows[0], rows[1], rows[2]))


@function
def _point_rows(
    n: Vec3, moving: list[tuple[Motion, Vec3, Scalar]]
) -> tuple[tuple[Vec3, Vec3, Vec3], list[list[Scalar]]]:
    """Return the axes of a contact point, and the velocities along them that joint axes cause."""
    t = perpendicular(n)
    axes = (t, cross(n, t), n)
    found = []
    for column, point, sign in moving:
        linear = scale(add_cross(column.linear, column.angular, point), sign)
        found.append([dot(axis, linear) for axis in axes])
    return axes, found


def part_place(plan: Plan, places: Sequence[Place], part: Part) -> Place:
    """Return a shape in the world."""
    return Place(*composed_place(carrier_place(plan, places, part), local_place(plan, part)))


def along(row: ContactRow, v: Sequence[Scalar]) -> Scalar:
    """Return the product of a row with joint velocities."""
    total: Scalar = 0.0
    for i, entry in row.items():
        total = total + entry * v[i]
    return total


def in_frame(point: PointRows, a: Vec3) -> Scalars3:
    """Return a world vector in the axes of a contact point."""
    return in_axes(point.axes, a)


def in_axes(axes: tuple[Vec3, Vec3, Vec3], a: Vec3) -> Scalars3:
    """Return a world vector in given axes."""
    t1, t2, n = axes
    return dot(t1, a), dot(t2, a), dot(n, a)


def in_world(point: PointRows, a: Sequence[Scalar]) -> Vec3:
    """Return a vector in the axes of a contact point in world axes."""
    return of_axes(point.axes, a)


def of_axes(axes: tuple[Vec3, Vec3, Vec3], a: Sequence[Scalar]) -> Vec3:
    """Return a vector in given axes in world axes."""
    t1, t2, n = axes
    return add(add(scale(t1, a[0]), scale(t2, a[1])), scale(n, a[2]))
