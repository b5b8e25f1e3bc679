"""Contacts of two cylinders."""

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ContactGeometry,
    Placed,
    exchanged,
)
from tiburon.contact.geometry.cylinder_plane import resting_points
from tiburon.contact.geometry.sphere_cylinder import point_cylinder
from tiburon.contact.geometry.support import cylinder_parts, support_contact
from tiburon.spatial.vec3 import negate
from tiburon.trace.value import where

__all__ = ["cylinder_cylinder"]


def cylinder_cylinder(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points, and three of points of each body's rims.

    The latter let one cylinder stand on the other or lie along it. Their normals turn as those of
    points that are fixed to the body.
    """
    parts = cylinder_parts(first), cylinder_parts(second)
    closest = support_contact(first.position, parts[0], second.position, parts[1])
    found = [closest]
    for exists, point in resting_points(first, closest.normal):
        contact = point_cylinder(point, 0.0, second)
        found.append(contact._replace(gap=where(exists, contact.gap, NO_CONTACT)))
    for exists, point in resting_points(second, negate(closest.normal)):
        contact = exchanged(point_cylinder(point, 0.0, first))
        found.append(contact._replace(gap=where(exists, contact.gap, NO_CONTACT)))
    return tuple(found)
