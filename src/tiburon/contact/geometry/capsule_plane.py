"""Contacts of a capsule with a plane."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, axis, face_contact
from tiburon.spatial.vec3 import Vec3, add, scale, subtract


def capsule_ends(capsule: Placed) -> tuple[Vec3, Vec3]:
    """Return the centers of the hemispheres at -z and +z in world axes [m]."""
    arm = scale(axis(capsule, 2), 0.5 * capsule.size[1])
    return (subtract(capsule.position, arm), add(capsule.position, arm))


def capsule_plane(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of the hemispheres at -z and +z."""
    radius, outward = first.size[0], axis(second, 2)
    return tuple(face_contact(end, radius, second.position, outward) for end in capsule_ends(first))
