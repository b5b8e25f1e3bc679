"""Contacts of a capsule with a cylinder."""

from tiburon.contact.geometry.capsule_plane import capsule_ends
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, exchanged
from tiburon.contact.geometry.rim_contact import rim_contact
from tiburon.contact.geometry.sphere_capsule import point_capsule
from tiburon.contact.geometry.sphere_cylinder import point_cylinder
from tiburon.contact.geometry.support import capsule_parts, cylinder_parts, support_contact
from tiburon.spatial.vec3 import negate


def capsule_cylinder(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points, and those of both ends of both bodies.

    The latter, of the hemispheres and of the nearest points of the rims, let one lie along the
    other.
    """
    parts = capsule_parts(first), cylinder_parts(second)
    closest = support_contact(first.position, parts[0], second.position, parts[1])
    ends = [point_cylinder(end, first.size[0], second) for end in capsule_ends(first)]
    toward = negate(closest.normal)
    rims = [
        exchanged(rim_contact(second, side, toward, lambda p: point_capsule(p, 0.0, first)))
        for side in (-1.0, 1.0)
    ]
    return (closest, *ends, *rims)
