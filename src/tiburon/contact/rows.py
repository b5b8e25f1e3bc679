"""Contact points of a robot in one configuration: gaps, contact frames and Jacobians.

The rows of a contact point give the velocity of the second body's material point relative to the
first's, along two tangents and the normal (Featherstone 1987, eqs. 9.43-9.47).
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.kinematics import WORLD_PLACE, Place, body_places, jacobian_columns
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.candidates import Candidate, Part, parameter_count
from tiburon.contact.geometry.contact_geometry import ContactGeometry
from tiburon.contact.geometry.vectors import perpendicular
from tiburon.model import Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import add, cross, dot, matrix_product, matrix_vector, scale

__all__ = [
    "ContactRow",
    "PointRows",
    "along",
    "contact_geometry",
    "contact_rows",
    "in_frame",
    "in_world",
    "part_place",
]

ContactRow = dict[int, Scalar]
"""One row of a Jacobian by velocity variable; zeros are left out."""


class PointRows(NamedTuple):
    """One contact point."""

    geometry: ContactGeometry
    """Gap, point and normal."""

    axes: tuple[Vec3, Vec3, Vec3]
    """Two tangents and the normal, world axes."""

    rows: tuple[ContactRow, ContactRow, ContactRow]
    """Jacobian of the relative velocity along each axis."""


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
    places = body_places(plan, JointVector(q))
    found: list[ContactGeometry] = []
    start = 0
    for candidate in candidates:
        placed = [part_place(plan, places, part) for part in (candidate.first, candidate.second)]
        own = p[start : start + len(candidate.parameters())]
        start += len(own)
        found += candidate.geometry([(place.R, place.p) for place in placed], own, handle)
    return found, places


def contact_rows(
    plan: Plan,
    q: Sequence[Scalar],
    candidates: Sequence[Candidate],
    p: Sequence[Scalar],
) -> list[PointRows]:
    """Return all contact points of all candidates, touching or not; see `contact_geometry`."""
    position = JointVector(q)
    geometries, places = contact_geometry(plan, q, candidates, p)
    pairs = [
        (candidate.first.body, candidate.second.body)
        for candidate in candidates
        for _ in range(candidate.point_count)
    ]
    found = []
    for geometry, bodies in zip(geometries, pairs, strict=True):
        n = geometry.normal
        t = perpendicular(n)
        axes = (t, cross(n, t), n)
        columns: dict[int, Vec3] = {}
        for name, sign in zip(bodies, (-1.0, 1.0), strict=True):
            body = plan.frame(name).body
            moved = jacobian_columns(plan, position, places, body, geometry.point)
            for index, column in moved.items():
                linear = scale(column.linear, sign)
                known = columns.get(index)
                columns[index] = linear if known is None else add(known, linear)
        rows = [{i: dot(axis, column) for i, column in columns.items()} for axis in axes]
        found.append(PointRows(geometry, axes, (rows[0], rows[1], rows[2])))
    return found


def part_place(plan: Plan, places: Sequence[Place], part: Part) -> Place:
    """Return a shape in the world."""
    frame = plan.frame(part.body)
    carrier = WORLD_PLACE if frame.body == WORLD_BODY else places[frame.body]
    place = carrier.moved(frame.transform)
    pose = part.pose
    return Place(
        matrix_product(place.R, pose.rotation),
        add(place.p, matrix_vector(place.R, pose.translation)),
    )


def along(row: ContactRow, v: Sequence[Scalar]) -> Scalar:
    """Return the product of a row with joint velocities."""
    total: Scalar = 0.0
    for i, entry in row.items():
        total = total + entry * v[i]
    return total


def in_frame(point: PointRows, a: Vec3) -> tuple[Scalar, Scalar, Scalar]:
    """Return a world vector in the axes of a contact point."""
    t1, t2, n = point.axes
    return dot(t1, a), dot(t2, a), dot(n, a)


def in_world(point: PointRows, a: Sequence[Scalar]) -> Vec3:
    """Return a vector in the axes of a contact point in world axes."""
    t1, t2, n = point.axes
    return add(add(scale(t1, a[0]), scale(t2, a[1])), scale(n, a[2]))
