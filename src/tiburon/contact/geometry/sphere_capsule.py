"""Contact of a sphere with a capsule."""

from tiburon.contact.geometry.contact_geometry import (
    ContactGeometry,
    Placed,
    axis,
    rounded_contact,
)
from tiburon.contact.geometry.vectors import clamp, outer, perpendicular, scale_matrix
from tiburon.spatial.vec3 import Scalar, Vec3, add, dot, scale, subtract
from tiburon.trace.value import where


def point_capsule(point: Vec3, radius: Scalar, capsule: Placed) -> ContactGeometry:
    """Return the contact of a sphere around a point with a capsule.

    A point on the capsule's axis has a normal perpendicular to it.
    """
    thickness, length = capsule.size
    u, half = axis(capsule, 2), 0.5 * length
    center = subtract(capsule.position, point)
    free = -dot(u, center)
    s = clamp(free, -half, half)
    offset = add(center, scale(u, s))
    inside = where(free == s, 1.0, 0.0)
    edge = scale_matrix(outer(u, u), inside)
    return rounded_contact(point, offset, radius, thickness, perpendicular(u), second_free=edge)


def sphere_capsule(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points."""
    return (point_capsule(first.position, first.size[0], second),)
