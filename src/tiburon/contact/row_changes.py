"""Change of contact Jacobians with the configuration of a tree of bodies.

Symbols, per contact point, world axes:
    c           the point; n, t1, t2 its axes
    a, l        angular and linear velocity at c of a body, per unit rate of one of its joint axes
    x           joint velocity; V, W the relative linear and angular velocity at c it causes
    f           impulse on the second body, p along the axes of the point
    J           rows of the point: velocity of the second body relative to the first

A step of joint axis k displaces the axes j of all joints from there to the body, as parts of a
rigid body: at a fixed point, l_j changes by a_k x l_j - a_j x l_k. The point itself moves by dc,
and its axes turn, as the two shapes are displaced: the narrow phase is differentiated. Where
the columns of a joint depend on its position, their own change adds.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import to_root
from tiburon.contact.candidates import Candidate, parameter_count
from tiburon.contact.geometry.vectors import perpendicular
from tiburon.contact.rows import part_place
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Motion, Scalar, Vec3
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    add,
    add_cross,
    cross,
    dot,
    matrix_vector,
    scale,
    subtract,
)
from tiburon.trace.derivative import values_and_tangents
from tiburon.trace.regions import function
from tiburon.trace.regions.lanes import lanes
from tiburon.trace.structure import flatten, rebuild
from tiburon.trace.value import Value

Scalars = tuple[Scalar, ...]

SIGNS = (-1.0, 1.0)
"""Share of the first and of the second body in a relative velocity."""


class _Axis(NamedTuple):
    """A joint axis between the world and a body of a contact."""

    column: Motion
    """a and l."""

    own: tuple[Motion, ...]
    """Change of all axes of the same joint per unit step along this one, as seen from the body."""

    joint: int
    """Number of its joint, counted from the body toward the root."""


class _Turned(NamedTuple):
    """Displacement of a contact point and its axes."""

    point: Vec3
    axes: tuple[Vec3, Vec3, Vec3]


class _Point(NamedTuple):
    """A contact point, and how displacements of its shapes move it."""

    point: Vec3
    """From an origin [m]."""

    axes: tuple[Vec3, Vec3, Vec3]

    turned: list[list[_Turned]]
    """For each shape six displacements, for a unit rotation about each world axis through the point
    and a unit translation along it; none for shapes that belong to the world."""


class RowChanges(NamedTuple):
    """Changes with steps of all velocity variables, as rows of matrices."""

    tangential: list[list[list[Scalar]]]
    """The derivative of J x, two rows per point of nv columns: for the first joint velocity x, and
    for the weighted sum."""

    normal: list[list[list[Scalar]]]
    """For each joint velocity x, the derivative of J x, one row per point of nv columns."""

    force: list[list[list[Scalar]]]
    """For each set of impulses, the derivative of J^T f, nv rows of nv columns."""


def row_changes(
    plan: Plan,
    q: Sequence[Scalar],
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
    velocities: Sequence[Sequence[Scalar]],
    impulses: Sequence[Sequence[Scalar]],
    weights: Sequence[Sequence[Scalar]] = (),
) -> RowChanges:
    """Differentiate J x and J^T f by configuration, at constant x and at constant p.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        candidates: The shapes that may touch.
        p: Run-time parameters of all candidates in order, then the handle of their table.
        velocities: Joint velocities x, nv scalars each.
        impulses: Impulses of all points along their axes, 3 scalars per point each.
        weights: For each point the weights of a sum of joint velocities; none by default.
    """
    position = JointVector(q)
    places = body_places(plan, position)
    tangential: list[list[list[Scalar]]] = [[] for _ in range(2 if weights else 1)]
    normal: list[list[list[Scalar]]] = [[] for _ in velocities]
    forces: list[list[list[Scalar]]] = [[[0.0] * plan.nv for _ in range(plan.nv)] for _ in impulses]
    handle = p[parameter_count(candidates) :]
    start = number = 0
    every: list[list[int]] = []
    given = []
    for bodies, group in itertools.groupby(candidates, key=partial(_bodies, plan)):
        points = []
        for candidate in group:
            own = p[start : start + len(candidate.parameters())]
            start += len(own)
            points += _geometry_changes(plan, places, candidate, own, handle)
        origin = points[0].point
        paths, variables = [], []
        for body in bodies:
            path, indices = _path(plan, position, places, body, origin)
            paths.append(path)
            variables.append(indices)
        acting = []
        for _ in points:
            own_weights = tuple(weights[number]) if weights else ()
            acting.append((own_weights, [tuple(f[3 * number : 3 * number + 3]) for f in impulses]))
            number += 1
        every.append([i for path in variables for i in path])
        given.append(
            (
                [one._replace(point=subtract(one.point, origin)) for one in points],
                paths,
                [[[x[i] for i in path] for path in variables] for x in velocities],
                acting,
            )
        )
    for places_of, (found, sums) in zip(every, folded_lanes(_at_points, given), strict=True):
        for across_rows, along_rows in found:
            for across, row in zip(normal, across_rows, strict=True):
                across.append(_spread(plan.nv, places_of, row))
            for along, rows in zip(tangential, along_rows, strict=True):
                along += [_spread(plan.nv, places_of, row) for row in rows]
        for matrix, entries in zip(forces, sums, strict=True):
            for j, row in zip(places_of, entries, strict=True):
                for k, x in zip(places_of, row, strict=True):
                    matrix[j][k] = matrix[j][k] + x
    return RowChanges(tangential, normal, forces)


def _bodies(plan: Plan, candidate: Candidate) -> tuple[int, int]:
    """Return the numbers of both bodies of a candidate."""
    first, second = (plan.frame(part.body).body for part in (candidate.first, candidate.second))
    return first, second


def _spread(size: int, places: Sequence[int], row: Sequence[Scalar]) -> list[Scalar]:
    """Return a row with entries at some places, added where they meet."""
    found: list[Scalar] = [0.0] * size
    for i, x in zip(places, row, strict=True):
        found[i] = found[i] + x
    return found


def folded(call: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function into regions in which arguments that are constant stay so."""
    known: dict[Any, Callable[..., Any]] = {}

    def region(*arguments: Any) -> Any:
        inner, varying = _folded(call, known, arguments)
        return inner(*varying)

    return region


def folded_lanes(call: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> list[Any]:
    """Call a function for several sets of arguments, as `folded`; those alike in lanes."""
    known: dict[Any, Callable[..., Any]] = {}
    alike: dict[Callable[..., Any], list[tuple[int, list[Scalar]]]] = {}
    for number, arguments in enumerate(sets):
        inner, varying = _folded(call, known, tuple(arguments))
        alike.setdefault(inner, []).append((number, varying))
    found: list[Any] = [None] * len(sets)
    for inner, members in alike.items():
        results = lanes(inner, [varying for _, varying in members])
        for (number, _), result in zip(members, results, strict=True):
            found[number] = result
    return found


def _folded(
    call: Callable[..., Any], known: dict[Any, Callable[..., Any]], arguments: tuple[Any, ...]
) -> tuple[Callable[..., Any], list[Scalar]]:
    """Return a region of the arguments that are not constant, and those."""
    leaves, structure = flatten(arguments)
    fixed = tuple(map(_constant, leaves))
    inner = known.get((structure, fixed))
    if inner is None:

        def inside(*varying: Scalar) -> Any:
            given = iter(varying)
            whole = [next(given) if x is None else x for x in fixed]
            return call(*rebuild(structure, iter(whole)))

        inner = known[structure, fixed] = function(inside)
    return inner, [x for x, known in zip(leaves, fixed, strict=True) if known is None]


def _constant(x: Scalar) -> float | None:
    """Return the value of a constant, None for others."""
    return x.graph.constant_of(x.node) if isinstance(x, Value) else float(x)


def _path(
    plan: Plan, q: Sequence[Scalar], places: Sequence[Place], body: int, point: Vec3
) -> tuple[list[_Axis], list[int]]:
    """Return the joint axes from a body to the root, and their velocity variables."""
    if body == WORLD_BODY:
        return [], []

    def visit(joined: PlanBody, P: Vec3, place: Place) -> tuple[list[Any], Vec3]:
        arm = subtract(P, place.p)

        def seen(S: Motion) -> Motion:
            angular = matrix_vector(place.R, S.angular)
            return Motion(angular, add_cross(matrix_vector(place.R, S.linear), angular, arm))

        columns = joined.joint.subspace(q[joined.q])
        found = []
        for k, S in enumerate(columns):
            unit = tuple(float(i == k) for i in range(len(columns)))
            rates = joined.joint.subspace_rate(q[joined.q], unit)
            found.append((seen(S), tuple(seen(rate) for rate in rates)))
        return found, P

    axes, indices = [], []
    visited = to_root(plan, plan.bodies[body], visit, point, places)
    for number, (joined, columns) in enumerate(visited):
        for index, (column, own) in enumerate(columns, start=joined.v.start):
            axes.append(_Axis(column, own, number))
            indices.append(index)
    return axes, indices


def _geometry_changes(
    plan: Plan,
    places: Sequence[Place],
    candidate: Candidate,
    p: Sequence[Scalar],
    handle: Sequence[Scalar],
) -> list[_Point]:
    """Differentiate points and axes of a candidate by displacements of its shapes."""
    parts = (candidate.first, candidate.second)
    placed = [part_place(plan, places, part) for part in parts]
    moving = [plan.frame(part.body).body != WORLD_BODY for part in parts]

    def call(given: list[Any]) -> tuple[list[Scalar], list[list[Any]]]:
        poses = []
        for k in range(2):
            r = [tuple(given[12 * k + 3 * i : 12 * k + 3 * i + 3]) for i in range(4)]
            poses.append(((r[0], r[1], r[2]), r[3]))
        values: list[Scalar] = []
        for one in candidate.geometry(poses, p, handle):
            t = perpendicular(one.normal)
            for vector in (one.point, t, cross(one.normal, t), one.normal):
                values.extend(vector)
        directions = []
        for k, (R, _) in enumerate(poses):
            if not moving[k]:
                continue
            rest: list[Any] = [0.0] * 12
            for axis in IDENTITY3:
                # columns of R turn about the axis, the origin stays
                turned = [cross(axis, tuple(row[i] for row in R)) for i in range(3)]
                own = [turned[i][row] for row in range(3) for i in range(3)]
                own = [*own, *ZERO3]
                directions.append([*rest, *own] if k else [*own, *rest])
            for axis in IDENTITY3:
                own = [*(0.0,) * 9, *axis]
                directions.append([*rest, *own] if k else [*own, *rest])
        return values, directions

    arguments = [x for place in placed for x in (*place.R[0], *place.R[1], *place.R[2], *place.p)]
    values, tangents = values_and_tangents(call, arguments)

    def part(of: Sequence[Scalar], number: int) -> _Turned:
        v = [of[12 * number + 3 * i : 12 * number + 3 * i + 3] for i in range(4)]
        point, *axes = ((x[0], x[1], x[2]) for x in v)
        return _Turned(point, (axes[0], axes[1], axes[2]))

    found = []
    for number in range(candidate.point_count):
        here = part(values, number)
        changes: list[list[_Turned]] = []
        left = list(tangents)
        for place, moves in zip(placed, moving, strict=True):
            if not moves:
                changes.append([])
                continue
            own, left = [part(of, number) for of in left[:6]], left[6:]
            # a rotation about the point also translates the origin of the shape
            arm = subtract(place.p, here.point)
            turns = [
                _plus(one, _combined(own[3:], cross(axis, arm)))
                for one, axis in zip(own[:3], IDENTITY3, strict=True)
            ]
            changes.append([*turns, *own[3:]])
        found.append(_Point(here.point, here.axes, changes))
    return found


def _combined(parts: Sequence[_Turned], weights: Sequence[Scalar]) -> _Turned:
    """Return the sum of displacements times weights."""
    total = _Turned(ZERO3, (ZERO3, ZERO3, ZERO3))
    for part, weight in zip(parts, weights, strict=True):
        x, y, z = part.axes
        turned = (scale(x, weight), scale(y, weight), scale(z, weight))
        total = _plus(total, _Turned(scale(part.point, weight), turned))
    return total


def _plus(a: _Turned, b: _Turned) -> _Turned:
    x, y = a.axes, b.axes
    return _Turned(add(a.point, b.point), (add(x[0], y[0]), add(x[1], y[1]), add(x[2], y[2])))


Changes = list[list[list[Scalar]]]
"""Rows of several matrices."""

Rates = tuple[list[list[Scalar]], Changes]
"""Changes of J x of a point: normal rows for all x; tangential ones for some."""


def _at_points(
    points: list[_Point],
    paths: list[list[_Axis]],
    velocities: list[list[Scalars]],
    impulses: list[tuple[Scalars, list[Scalars]]],
) -> tuple[list[Rates], Changes]:
    """Return the changes of J x of each point of two bodies, and the sum of those of J^T f.

    With one column per axis of both paths, which are at the origin of the points.
    """
    # a single point is part of the code for its bodies
    at_point = folded(_at_point) if len(points) > 1 else _at_point
    found: list[Rates] = []
    sums: Changes | None = None
    for point, (weights, acting) in zip(points, impulses, strict=True):
        rates, sums = at_point(point, paths, velocities, weights, acting, sums)
        found.append(rates)
    assert sums is not None
    return found, sums


def _at_point(
    point: _Point,
    paths: list[list[_Axis]],
    velocities: list[list[Scalars]],
    weights: Scalars,
    impulses: list[Scalars],
    before: Changes | None,
) -> tuple[Rates, Changes]:
    """Return the changes of J x of one point, and those of J^T f added to the ones before."""
    axes = point.axes
    paths = [
        [
            axis._replace(
                column=_shifted(axis.column, point.point),
                own=tuple(_shifted(own, point.point) for own in axis.own),
            )
            for axis in path
        ]
        for path in paths
    ]
    # displacement of the point and its axes, per axis of both paths
    moved = [
        _combined(changes, (*axis.column.angular, *axis.column.linear))
        for path, changes in zip(paths, point.turned, strict=True)
        for axis in path
    ]
    changes = [_velocity_changes(paths, moved, x) for x in velocities]

    def along(k: int, change: tuple[list[Vec3], Vec3]) -> list[Scalar]:
        return [
            dot(axes[k], x) + dot(one.axes[k], change[1])
            for x, one in zip(change[0], moved, strict=True)
        ]

    sums_of = [changes[0]]
    if weights:
        columns = zip(*(own for own, _ in changes), strict=True)
        total = _weighted([V for _, V in changes], weights)
        sums_of.append(([_weighted(column, weights) for column in columns], total))
    rates = (
        [along(2, change) for change in changes],
        [[along(k, change) for k in range(2)] for change in sums_of],
    )
    forces = [_force_changes(axes, paths, moved, f) for f in impulses]
    if before is None:
        return rates, forces
    sums = [
        [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(one, more, strict=True)]
        for one, more in zip(before, forces, strict=True)
    ]
    return rates, sums


def _shifted(S: Motion, arm: Vec3) -> Motion:
    """Return a motion at a point away from its reference point."""
    return Motion(S.angular, add_cross(S.linear, S.angular, arm))


def _velocity_changes(
    paths: list[list[_Axis]],
    moved: list[_Turned],
    x: list[Scalars],
) -> tuple[list[Vec3], Vec3]:
    """Return the change of the velocity of a point per axis of both paths, and the velocity."""
    V = W = ZERO3
    changes: list[Vec3] = []
    for path, rates, sign in zip(paths, x, SIGNS, strict=True):
        # from the body toward the root: motion by all joints from each one on
        linear = angular = ZERO3
        place = 0
        while place < len(path):
            end = place
            while end < len(path) and path[end].joint == path[place].joint:
                linear = add(linear, scale(path[end].column.linear, rates[end]))
                angular = add(angular, scale(path[end].column.angular, rates[end]))
                end += 1
            for axis in path[place:end]:
                change = subtract(
                    cross(axis.column.angular, linear), cross(angular, axis.column.linear)
                )
                for own, rate in zip(axis.own, rates[place:end], strict=True):
                    change = add(change, scale(own.linear, rate))
                changes.append(scale(change, sign))
            place = end
        V, W = add(V, scale(linear, sign)), add(W, scale(angular, sign))
    return [add(x, cross(W, one.point)) for x, one in zip(changes, moved, strict=True)], V


def _weighted(vectors: Sequence[Vec3], weights: Sequence[Scalar]) -> Vec3:
    """Return the sum of vectors times weights, of which zeros are left out."""
    total = ZERO3
    for x, weight in zip(vectors, weights, strict=True):
        if isinstance(weight, Value) or weight != 0.0:
            total = add(total, scale(x, weight))
    return total


def _force_changes(
    axes: tuple[Vec3, Vec3, Vec3],
    paths: list[list[_Axis]],
    moved: list[_Turned],
    p: Scalars,
) -> list[list[Scalar]]:
    """Return the change of J^T f, one row per axis of both paths."""

    def weighted(vectors: tuple[Vec3, Vec3, Vec3]) -> Vec3:
        return add(add(scale(vectors[0], p[0]), scale(vectors[1], p[1])), scale(vectors[2], p[2]))

    f = weighted(axes)
    df = [weighted(one.axes) for one in moved]
    found = []
    first = 0
    for path, sign in zip(paths, SIGNS, strict=True):
        arms = [cross(f, axis.column.angular) for axis in path]
        for j, (axis, arm) in enumerate(zip(path, arms, strict=True)):
            linear = axis.column.linear
            row = [
                sign * (dot(one.point, arm) + dot(linear, change))
                for one, change in zip(moved, df, strict=True)
            ]
            for k, other in enumerate(path):
                if other.joint < axis.joint:
                    continue
                # displaced by its own joint, and by those toward the root
                change = dot(linear, arms[k]) - dot(other.column.linear, arm)
                if other.joint == axis.joint:
                    begin = next(i for i, x in enumerate(path) if x.joint == axis.joint)
                    change = change + dot(other.own[j - begin].linear, f)
                row[first + k] = row[first + k] + sign * change
            found.append(row)
        first += len(path)
    return found
