"""Contacts of a mesh with a plane: vertices of its convex hull, which is all that a plane meets.

The corners of the face on which the mesh lies, or comes to lie if it turns about its lowest point:
vertices farthest out in directions that are tilted from the normal of that face by a small angle.
They keep their places from step to step while the body slides, and with them what steps carry on.
"""

import math

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ContactGeometry,
    Placed,
    axis,
    face_contact,
    to_world,
)
from tiburon.contact.geometry.hull_hull import ADDRESS, FIRST_ROW, ROW_COUNT
from tiburon.contact.geometry.vectors import select
from tiburon.spatial.vec3 import Scalar, Vec3, add, dot, negate, scale
from tiburon.trace.primitives.farthest_rows import farthest_rows, slope_below
from tiburon.trace.regions import function
from tiburon.trace.value import where

TILT = 1e-3
"""Tangent of the angle between the normal of the face and the directions around it: faces around it
are farther out if they rise by less."""

WIDE_TILT = 0.03
"""Tangent of the angle between the plane's normal and further directions, whose vertices take the
places of those that are found twice: corners of other faces that a step may close."""

DIRECTIONS = 7
"""Directions around the face. A corner has a contact of its own if it turns by more than 1 / 7 of a
circle, as up to hexagons."""

FIRST_ANGLE = 0.3
"""Angle of the first tilted direction [rad]: off the axes of most shapes."""

HULL_POINTS = DIRECTIONS + 1
"""Contacts of a hull with a plane: one per direction, and the lowest vertex."""


def hull_plane(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of a hull with a plane; those that are found twice do not exist.

    Args:
        first: The hull, with dimensions as in `hull_hull`.
        second: The plane.
    """
    # outside of shared code, where the normal of a fixed plane is known
    normal = negate(axis(second, 2))
    return tuple(ContactGeometry(gap, point, normal) for gap, point in _touched(first, second))


@function
def _touched(hull: Placed, plane: Placed) -> list[tuple[Scalar, Vec3]]:
    """Return gap and point of each contact, by code that all hulls share."""
    axes = [axis(hull, k) for k in range(3)]

    def in_hull(vector: Vec3) -> Vec3:
        x, y, z = (dot(own, vector) for own in axes)
        return x, y, z

    along, across, up = (in_hull(axis(plane, k)) for k in range(3))
    down = scale(up, -1.0)
    span = (hull.size[ADDRESS], hull.size[FIRST_ROW], hull.size[ROW_COUNT])
    slope = slope_below(span, (along, across, up))

    def tilted(k: int, x: Scalar, y: Scalar, tilt: float) -> Vec3:
        angle = FIRST_ANGLE + 2.0 * math.pi * k / DIRECTIONS
        x, y = x + tilt * math.cos(angle), y + tilt * math.sin(angle)
        return add(down, add(scale(along, x), scale(across, y)))

    numbers = range(DIRECTIONS)
    corners = [tilted(k, *slope, TILT) for k in numbers]
    others = [tilted(k, 0.0, 0.0, WIDE_TILT) for k in numbers]
    points = farthest_rows(span, [*corners, down, *others])
    chosen: list[tuple[Scalar, ...]] = []
    for point in points[:HULL_POINTS]:
        chosen.append((*point, _is_new(point, chosen)))
    for k, other in enumerate(points[HULL_POINTS:]):
        # in the place of a corner that is found twice
        free = (chosen[k][4] < 0.5) & (_is_new(other, chosen) > 0.5)
        chosen[k] = select(free, (*other, 1.0), chosen[k])
    found: list[tuple[Scalar, Vec3]] = []
    for x, y, z, _, exists in chosen:
        contact = face_contact(to_world(hull, (x, y, z)), 0.0, plane.position, axis(plane, 2))
        found.append((where(exists > 0.5, contact.gap, NO_CONTACT), contact.point))
    return found


def _is_new(point: tuple[Scalar, ...], chosen: list[tuple[Scalar, ...]]) -> Scalar:
    """Return 1 for a point whose row is not among those that are chosen, else 0."""
    new: Scalar = 1.0
    for one in chosen:
        apart = one[3] - point[3]
        new = where(apart * apart < 0.25, 0.0, new)
    return new
