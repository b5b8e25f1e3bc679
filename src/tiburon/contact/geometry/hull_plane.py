"""Contacts of a mesh with a plane: vertices of its convex hull, which is all that a plane meets.

Vertices farthest out in directions that are tilted from the plane's normal by a small angle are the
corners of a face that lies on the plane, and the surroundings of the lowest point elsewhere. They
keep their places from step to step while the body slides, and with them what steps carry on.
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
from tiburon.spatial.vec3 import Scalar, Vec3, add, dot, negate, scale
from tiburon.trace.primitives.farthest_rows import farthest_rows
from tiburon.trace.regions import function
from tiburon.trace.value import where

TILTS = (0.02, 0.1, 0.02, 0.1, 0.02, 0.1, 0.02)
"""Tangents of the angles between the normal and the directions around it. A corner of a face on the
plane has a contact of its own if it turns by more than 1 / 7 of a circle, as up to hexagons. Small
tilts find corners within chamfers of a few degrees, large ones corners that a step may close."""

FIRST_ANGLE = 0.3
"""Angle of the first tilted direction [rad]: off the axes of most shapes."""

HULL_POINTS = len(TILTS) + 1
"""Contacts of a hull with a plane: one per direction, and the lowest vertex."""


def hull_plane(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of a hull with a plane; those that are found twice do not exist.

    Args:
        first: The hull; its size is the address of an array of vertices, and the first and the
            number of those that are its own.
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
    directions = []
    for k, tilt in enumerate(TILTS):
        angle = FIRST_ANGLE + 2.0 * math.pi * k / len(TILTS)
        x, y = tilt * math.cos(angle), tilt * math.sin(angle)
        directions.append(add(down, add(scale(along, x), scale(across, y))))
    directions.append(down)
    found: list[tuple[Scalar, Vec3]] = []
    rows: list[Scalar] = []
    for x, y, z, row in farthest_rows(hull.size, directions):
        contact = face_contact(to_world(hull, (x, y, z)), 0.0, plane.position, axis(plane, 2))
        gap = contact.gap
        for known in rows:
            gap = where((known - row) * (known - row) < 0.25, NO_CONTACT, gap)
        rows.append(row)
        found.append((gap, contact.point))
    return found
