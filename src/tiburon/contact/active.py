"""Contact points that may act in a step, chosen among those of many pairs of shapes.

A robot of many shapes has hundreds of points that may touch, of which a few do. Bounds of the
shapes exclude pairs that stay apart before their geometry is computed; the points that come near
get slots, and rows, impulses and states are computed for these alone (`rigid.py`). Code has each
kind of pair once, and time grows with what is near.

How near is near follows from the step: no contact changes velocities by more than what moves. A
point is chosen whose gap is smaller than twice what any pair moves in the step, with and without
contact; where these are more than there are slots, the nearest of them.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import Place, body_motions, body_places
from tiburon.algorithms.like_branches import like_branches
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.candidates import FIELDS, Candidate, Part, parameter_count
from tiburon.contact.geometry.bounds import bounding_radius, box_distance, half_extents
from tiburon.contact.geometry.contact_geometry import NO_CONTACT, ContactGeometry
from tiburon.contact.geometry.pairs import HULLS
from tiburon.contact.rows import (
    MIN_DISTANCE,
    NEAR_GAP,
    PointRows,
    carrier_place,
    composed_place,
    jumps,
    local_place,
    swept_geometry,
)
from tiburon.model import Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import ZERO3, add_cross, cross, dot, matrix_vector, scale, subtract
from tiburon.trace.primitives.active_rows import active_rows, picked_rows
from tiburon.trace.regions import where_needed
from tiburon.trace.regions.in_turn import in_turn
from tiburon.trace.regions.lanes import lanes

MOST_WHOLE = 8
"""Pairs of bodies up to which all points of like branches are part of every step: pads with many
points share rows (`contact_layout`), and legs are computed side by side, which is faster than to
choose. So are all points where they are as few."""

MOST_SPARSE, MOST_SPARSE_POINTS = 3.0, 200
"""Velocities per velocity that moves a pair, on average, beyond which all points are part of every
step, and number of points up to which they are: rows of points that are chosen have all velocities,
those of loose bodies have few."""

MOST_ACTIVE = 64
"""Points that act in one step at most, where they are chosen."""

MOTION_SHARE = 2.0
"""Gap up to which points are chosen, relative to the largest motion of a pair in the step."""

MOST_ENTRIES = 16384
"""Entries of rows of points that resist turning, whose slots have rows for that, too: of large
robots fewer act at most."""

LEAST_TURNING = 40
"""Points that act in one step at least: of robots so large that fewer would, none resist turning.
"""


def too_many(slots: int) -> str:
    """Return what a step expects in which more points touch than there are slots."""
    return (
        f"at most {slots} contact points that touch in one step; name the pairs of bodies that "
        "matter by pairs=, or cover bodies with fewer shapes"
    )


class ActivePoints(list[PointRows]):
    """The points that have slots, with their gaps ahead alone; those of unused slots are zero.

    Attributes:
        places: The point of each slot.
        count: How many slots are used.
        total: How many points are near: more than slots, if these do not suffice.
        gaps: Gaps of all points at the start of the step [m].
        least: The least of them [m].
        rows: Of each slot the gap of its point at the start and ahead, normal, place on both
            bodies, share of the step before first contact, normal at the start, and whether it
            jumps; static and kinetic friction and restitution, and where some points resist
            turning, torsional and rolling friction; last the numbers of both bodies, in `masks`.
        resists: Whether some may have torsional friction, and rolling friction.
        masks: For each body whether each joint axis moves it: 1 or 0.
        columns: Velocity at the world's origin of a body that each joint axis moves, per unit rate.
        variables: The velocity variable of each joint axis; those of coupled joints are the same.
    """

    places: list[Scalar]
    count: Scalar
    total: Scalar
    gaps: list[Scalar]
    least: Scalar
    rows: list[list[Scalar]]
    resists: tuple[bool, bool]
    masks: list[Scalar]
    columns: list[Scalar]
    variables: list[int]


GEOMETRY = 16
"""Numbers that lead `ActivePoints.rows`: what is known of a point without its surface."""

MANY_PAIRS = 16
"""Pairs of one kind from which on a loop computes them, one after the other: what is near takes
time, and code does not grow. Fewer are computed side by side."""


class MovedShape(NamedTuple):
    """A shape over a step."""

    start: Place
    """Its pose at the start."""

    ahead: Place
    """Its pose at the end, with the contact forces of the last step."""

    end: Vec3
    """Its origin at the end without contact [m]."""

    speeds: tuple[Vec3, Vec3]
    """Velocity of its origin at the start and ahead, times the step [m]."""


def chooses(plan: Plan, candidates: Sequence[Candidate], *, few: bool = True) -> bool:
    """Return whether points of these pairs are chosen in each step.

    `few` states whether those of few bodies are, too.
    """
    pairs: set[frozenset[int]] = set()
    points = moved = 0
    for candidate in candidates:
        both = [plan.frame(part.body).body for part in (candidate.first, candidate.second)]
        pairs.add(frozenset(both))
        columns: set[int] = set()
        for body in both:
            while body != WORLD_BODY:
                one = plan.bodies[body]
                columns.update(range(one.v.start, one.v.stop))
                body = one.parent
        points += candidate.point_count
        moved += candidate.point_count * len(columns)
    if len(pairs) <= MOST_WHOLE and points <= MOST_SPARSE_POINTS:
        few = few and MOST_WHOLE < points <= MOST_ACTIVE
        if not few or _on_like_branches(plan, candidates):
            return False
    return points > MOST_SPARSE_POINTS or plan.nv * points <= MOST_SPARSE * moved


def _resists(candidates: Sequence[Candidate]) -> tuple[bool, bool]:
    """Return whether some points may have torsional friction, and rolling friction."""
    spins, rolls = (any(candidate.turning[k] for candidate in candidates) for k in range(2))
    return spins, rolls


def _most_turning(nv: int, kinds: int) -> int:
    """Return how many points act at most, with rows of some kinds of friction against turning."""
    return min(MOST_ACTIVE, MOST_ENTRIES // (3 * (1 + kinds) * (nv + kinds)))


def leaves_out_turning(plan: Plan, candidates: Sequence[Candidate]) -> bool:
    """Return whether points have no rows of friction against turning: a robot too large for them.

    Those of large robots of which steps choose points would not fit into the memory of a kernel.
    """
    kinds = sum(_resists(candidates))
    large = kinds > 0 and _most_turning(plan.nv, kinds) < LEAST_TURNING
    return large and not plan.depends_on_time and chooses(plan, candidates)


def _on_like_branches(plan: Plan, candidates: Sequence[Candidate]) -> bool:
    """Return whether shapes are on branches that are visited side by side, on all of a group."""
    carriers = {plan.frame(x.body).body for c in candidates for x in (c.first, c.second)}
    return any(
        all(carriers.intersection(branch) for branch in group)
        for group in like_branches(plan, anywhere=True)
    )


def active_points(
    plan: Plan,
    q: Sequence[Scalar],
    ahead: Sequence[Scalar],
    end: Sequence[Scalar],
    v: tuple[Sequence[Scalar], Sequence[Scalar]],
    h: Scalar,
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
) -> ActivePoints:
    """Return the contact points that may act in a step.

    Args:
        plan: Layout of the model.
        q: Configuration at the start of the step.
        ahead: That at its end, with the contact forces of the last step.
        end: That at its end without contact.
        v: Joint velocities at the start and ahead [m/s or rad/s].
        h: Length of the step [s].
        candidates: The shapes that may touch.
        p: Run-time parameters; see `contact_geometry`.
    """
    counts = [len(candidate.parameters()) for candidate in candidates]
    ends = np.cumsum([0, *counts])
    own = [tuple(p[a:b]) for a, b in itertools.pairwise(ends)]
    shapes, places = _moved_shapes(plan, (q, ahead, end), v, h, candidates)
    groups: dict[Any, list[int]] = {}
    for k, c in enumerate(candidates):
        key: Any = (c.first.kind, c.second.kind, c.reach, len(c.first.size), len(c.second.size))
        key = (*key, len(c.patches))
        if c.second.kind in FIELDS:
            # points beyond the grid are named
            key = k
        groups.setdefault(key, []).append(k)
    pairs = [tuple(shapes[_key(part)] for part in (c.first, c.second)) for c in candidates]
    bounds = _bounds(candidates, pairs, own, list(groups.values()))
    moved: Scalar = 0.0
    for one in bounds:
        moved = np.maximum(moved, one[1])
    near = NEAR_GAP + MOTION_SHARE * np.sqrt(moved)
    handle = p[parameter_count(candidates) :]
    resists = _resists(candidates)
    bodies = _body_numbers(plan, candidates)
    found: dict[int, Any] = {}
    for members in groups.values():
        candidate = candidates[members[0]]

        def contacts(
            first: MovedShape,
            second: MovedShape,
            numbers: tuple[Scalar, ...],
            distance: Scalar,
            both: tuple[float, float],
            candidate: Candidate = candidate,
        ) -> Any:
            def computed() -> Any:
                points = _contacts(candidate, first, second, numbers, handle, near)
                rows = [(*point, *_surface(candidate, numbers, point, resists)) for point in points]
                return [(*row, *both) for row in rows], _summed_up(rows)

            if isinstance(distance, float) and distance == -math.inf:
                return computed()
            geometry = (NO_CONTACT, NO_CONTACT, *UP, *ZERO3, *ZERO3, 1.0, *UP, 0.0)
            absent = (*geometry, *(0.0,) * (_width(resists) - GEOMETRY))
            none = [NO_CONTACT] * candidate.point_count, NO_CONTACT, 0.0
            return where_needed(
                distance <= near, computed, ([absent] * candidate.point_count, none)
            )

        given = [(*pairs[k], own[k], bounds[k][0], bodies[k]) for k in members]
        # searches of hulls are of different length
        alone = len(members) >= MANY_PAIRS or candidate.has_hull
        found.update(zip(members, (in_turn if alone else lanes)(contacts, given), strict=True))
    points = [point for k in range(len(candidates)) for point in found[k][0]]
    keys: list[Scalar] = []
    least: Scalar = NO_CONTACT
    lost: Scalar = 0.0
    for k in range(len(candidates)):
        own_keys, lowest, loses = found[k][1]
        keys += own_keys
        least, lost = np.minimum(least, lowest), np.maximum(lost, loses)
    limit = near + MOTION_SHARE * lost
    slots = min(len(points), MOST_ACTIVE)
    chosen = ActivePoints()
    chosen.resists = resists
    if any(resists):
        slots = min(slots, _most_turning(plan.nv, sum(resists)))
    chosen.places, chosen.count, chosen.total = active_rows(
        keys, limit, np.minimum(limit, NEAR_GAP), slots
    )
    chosen.gaps, chosen.least = [point[0] for point in points], least
    table = [x for point in points for x in point]
    chosen.rows = picked_rows(chosen.places, table, _width(resists))
    axes = (ZERO3, ZERO3, ZERO3)
    for row in chosen.rows:
        chosen.append(PointRows(ContactGeometry(row[1], ZERO3, ZERO3), axes, ()))
    _put_bodies(chosen, plan, ahead, places, candidates)
    return chosen


UP = (0.0, 0.0, 1.0)
"""Normal of contacts that do not exist."""


def _width(resists: tuple[bool, bool]) -> int:
    """Return the count of numbers of a point in `ActivePoints.rows`."""
    return GEOMETRY + (5 if any(resists) else 3) + 2


def _surface(
    candidate: Candidate,
    numbers: Sequence[Scalar],
    point: Sequence[Scalar],
    resists: tuple[bool, bool],
) -> tuple[Scalar, ...]:
    """Return the numbers of the surface at a point of `_contacts`."""
    x, y, z = point[5:8]
    one = candidate.surface(numbers, (x, y, z))
    turning = (one.torsional_friction, one.rolling_friction) if any(resists) else ()
    return (one.static_friction, one.kinetic_friction, one.restitution, *turning)


def _key(part: Part) -> Any:
    return part.body, part.pose, part.kind


def _moved_shapes(
    plan: Plan,
    configurations: tuple[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]],
    v: tuple[Sequence[Scalar], Sequence[Scalar]],
    h: Scalar,
    candidates: Sequence[Candidate],
) -> tuple[dict[Any, MovedShape], Sequence[Place]]:
    """Return all shapes over a step, and the poses of bodies ahead."""
    start, ahead, end = (body_places(plan, JointVector(q)) for q in configurations)
    swept = any(candidate.is_swept for candidate in candidates)
    twists = [
        [
            (one.vel.angular, one.vel.linear)
            for one in body_motions(plan, JointVector(q), JointVector(own), None)
        ]
        for q, own in zip(configurations[:2], v, strict=True)
        if swept
    ]
    parts = {_key(part): part for c in candidates for part in (c.first, c.second)}
    found: dict[Any, MovedShape] = {}
    moving, given = [], []
    for key, part in parts.items():
        body, local = plan.frame(part.body).body, local_place(plan, part)
        if body == WORLD_BODY:
            place = composed_place(carrier_place(plan, start, part), local)
            found[key] = MovedShape(Place(*place), Place(*place), place[1], (ZERO3, ZERO3))
            continue
        moving.append(key)
        turning = tuple(one[body] for one in twists)
        given.append((start[body], ahead[body], end[body], local, turning))

    def moved(start: Place, ahead: Place, end: Place, local: Place, twists: Any) -> Any:
        first, later = composed_place(start, local), composed_place(ahead, local)
        speeds = []
        for body, (angular, linear), (_, point) in zip(
            (start, ahead), twists, (first, later), strict=False
        ):
            arm = subtract(point, body.p)
            speed = add_cross(matrix_vector(body.R, linear), matrix_vector(body.R, angular), arm)
            speeds.append(scale(speed, h))
        return first, later, composed_place(end, local)[1], speeds

    for key, (first, later, center, speeds) in zip(moving, lanes(moved, given), strict=True):
        both = tuple(speeds) if speeds else (ZERO3, ZERO3)
        found[key] = MovedShape(Place(*first), Place(*later), center, both)
    return found, ahead


def _bounds(
    candidates: Sequence[Candidate],
    pairs: Sequence[tuple[MovedShape, ...]],
    own: Sequence[tuple[Scalar, ...]],
    groups: Sequence[Sequence[int]],
) -> list[tuple[Scalar, Scalar]]:
    """Return the distance of the bounds of each pair, and the square of its motion in the step.

    The distance is the least one of the step, along the direction at its start; -inf of shapes
    without bounds.
    """
    found: dict[int, tuple[Scalar, Scalar]] = {}
    for members in groups:
        one = candidates[members[0]]
        on_plane = one.second.kind == "plane"

        def bound(
            first: MovedShape,
            second: MovedShape,
            sizes: tuple[Sequence[Scalar], Sequence[Scalar]],
            one: Candidate = one,
            on_plane: bool = on_plane,
        ) -> tuple[Scalar, Scalar]:
            reach = bounding_radius(one.first.kind, sizes[0])
            if not on_plane:
                reach = reach + bounding_radius(one.second.kind, sizes[1])
            offsets = [
                subtract(a, b)
                for a, b in (
                    (first.start.p, second.start.p),
                    (first.ahead.p, second.ahead.p),
                    (first.end, second.end),
                )
            ]
            if on_plane:
                normal = (second.start.R[0][2], second.start.R[1][2], second.start.R[2][2])
            else:
                length = np.sqrt(dot(offsets[0], offsets[0]))
                normal = scale(offsets[0], 1.0 / np.maximum(length, MIN_DISTANCE))
            heights = [dot(normal, offset) for offset in offsets]
            least = np.minimum(np.minimum(heights[0], heights[1]), heights[2])
            moved: Scalar = 0.0
            for a, b in ((0, 1), (1, 2)):
                if on_plane:
                    way = heights[b] - heights[a]
                    square = way * way
                else:
                    change = subtract(offsets[b], offsets[a])
                    square = dot(change, change)
                moved = moved + 2.0 * square
            kinds = one.first.kind, one.second.kind
            boxes = half_extents(kinds[0], sizes[0]), half_extents(kinds[1], sizes[1])
            if boxes[0] is not None and boxes[1] is not None and set(kinds) != {"sphere"}:
                # boxes around long shapes are smaller than spheres; no point moves more than this
                most = np.sqrt(moved)
                for kind, size, shape in zip(kinds, sizes, (first, second), strict=True):
                    most = most + _turned(shape) * bounding_radius(kind, size)
                axes = first.start.R, second.start.R
                apart = box_distance(offsets[0], axes, (boxes[0], boxes[1])) - most
                return np.maximum(least - reach, apart), moved
            unbounded = isinstance(reach, float) and reach == math.inf
            return (0.0 if unbounded else least - reach), moved

        given = []
        for k in members:
            split = len(one.first.size)
            sizes = own[k][:split], own[k][split : split + len(one.second.size)]
            given.append((*pairs[k], sizes))
        radii = [
            bounding_radius(part.kind, size) if part.kind != "plane" else 0.0
            for part, size in zip((one.first, one.second), given[0][2], strict=True)
        ]
        unbounded = any(isinstance(x, float) and x == math.inf for x in radii)
        computed = (in_turn if len(members) >= MANY_PAIRS else lanes)(bound, given)
        for k, (distance, moved) in zip(members, computed, strict=True):
            found[k] = (-math.inf if unbounded else distance), moved
    return [found[k] for k in range(len(candidates))]


def _contacts(
    candidate: Candidate,
    first: MovedShape,
    second: MovedShape,
    numbers: tuple[Scalar, ...],
    handle: Sequence[Scalar],
    near: Scalar,
) -> list[tuple[Scalar, ...]]:
    """Return the numbers of the points of a pair that lead `ActivePoints.rows`."""
    if candidate.has_hull:
        # shapes that are this far apart stay so, however they turn
        split = len(candidate.first.size)
        sizes = numbers[:split], numbers[split:]
        for part, shape, size in zip(
            (candidate.first, candidate.second), (first, second), sizes, strict=True
        ):
            if part.kind in HULLS:
                near = near + _turned(shape) * bounding_radius(part.kind, size)
    before = candidate.geometry([_pose(x.start) for x in (first, second)], numbers, handle, near)
    after = candidate.geometry([_pose(x.ahead) for x in (first, second)], numbers, handle, near)
    plain = [(one, (one.point, one.point)) for one in after]
    share: Scalar = 1.0
    if candidate.is_swept:
        there = [[_pose(x.start), _pose(x.ahead)] for x in (first, second)]
        crossing = candidate.crossing(there, numbers, handle)
        speeds = first.speeds, second.speeds
        share, plain = swept_geometry(candidate, crossing, lambda: speeds, before, plain)
    ways = [(shape.start, shape.ahead) for shape in (first, second)]

    def jump(start: ContactGeometry, one: ContactGeometry) -> Scalar:
        return jumps(start, one, ways)

    return [
        (start.gap, one.gap, *one.normal, *a, *b, share, *start.normal, jump(start, one))
        for start, (one, (a, b)) in zip(before, plain, strict=True)
    ]


def _turned(shape: MovedShape) -> Scalar:
    """Return the most that a point 1 m from the origin of a shape moves as it turns."""
    total: Scalar = 0.0
    for before, after in zip(shape.start.R, shape.ahead.R, strict=True):
        change = subtract(after, before)
        total = total + dot(change, change)
    return np.sqrt(total)


def _summed_up(points: Sequence[tuple[Any, ...]]) -> tuple[list[Scalar], Scalar, Scalar]:
    """Return of the points of a pair what decides whether they are near: their least gaps.

    Then the least gap at the start, and what gaps lose in the step, of shapes that turn.
    """
    keys: list[Scalar] = []
    least: Scalar = NO_CONTACT
    lost: Scalar = 0.0
    for gap, later, *_ in points:
        # vertices of hulls change places
        both = np.maximum(gap, later) < NO_CONTACT
        lost = np.maximum(lost, np.where(both, np.abs(gap - later), 0.0))
        keys.append(np.minimum(gap, later))
        least = np.minimum(least, gap)
    return keys, least, lost


def _pose(place: Place) -> tuple[Any, Vec3]:
    return place.R, place.p


def _carriers(plan: Plan, candidate: Candidate) -> list[int]:
    """Return the bodies that carry both shapes of a pair."""
    return [plan.frame(part.body).body for part in (candidate.first, candidate.second)]


def _body_numbers(plan: Plan, candidates: Sequence[Candidate]) -> list[tuple[float, float]]:
    """Return the numbers of both bodies of each pair, in the order of `ActivePoints.masks`."""
    numbers: dict[int, float] = {}
    found = []
    for candidate in candidates:
        first, second = _carriers(plan, candidate)
        one = numbers.setdefault(first, float(len(numbers)))
        found.append((one, numbers.setdefault(second, float(len(numbers)))))
    return found


def _put_bodies(
    chosen: ActivePoints,
    plan: Plan,
    q: Sequence[Scalar],
    places: Sequence[Place],
    candidates: Sequence[Candidate],
) -> None:
    """Note how joint axes move the bodies of all pairs."""
    position = JointVector(q)
    chosen.columns, chosen.variables = [], []
    own: list[tuple[int, int]] = []
    for body in plan.bodies:
        place, before = places[body.index], len(chosen.variables)
        for k, S in enumerate(body.joint.subspace(position[body.q]), start=body.v.start):
            angular = matrix_vector(place.R, S.angular)
            linear = subtract(matrix_vector(place.R, S.linear), cross(angular, place.p))
            chosen.columns += [*angular, *linear]
            chosen.variables.append(k)
        own.append((before, len(chosen.variables)))
    chosen.masks = []
    for carrier in dict.fromkeys(x for c in candidates for x in _carriers(plan, c)):
        mask = [0.0] * len(chosen.variables)
        at = carrier
        while at != WORLD_BODY:
            mask[slice(*own[at])] = [1.0] * (own[at][1] - own[at][0])
            at = plan.bodies[at].parent
        chosen.masks += mask
