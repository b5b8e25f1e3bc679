"""Contacts of a capsule with a plane."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, axis, face_contact
from tiburon.spatial.vec3 import add, scale

__all__ = ["capsule_plane"]


def capsule_plane(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of the hemispheres at -z and +z."""
    radius, length = first.size
    arm, outward = scale(axis(first, 2), 0.5 * length), axis(second, 2)
    ends = (add(first.position, scale(arm, -1.0)), add(first.position, arm))
    return tuple(face_contact(end, radius, second.position, outward) for end in ends)
