"""Contacts of two cylinders."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, exchanged
from tiburon.contact.geometry.rim_contact import resting_contacts
from tiburon.contact.geometry.sphere_cylinder import point_cylinder
from tiburon.contact.geometry.support import cylinder_parts, support_contact
from tiburon.spatial.vec3 import negate


def cylinder_cylinder(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points, and three of points of each body's rims.

    The latter let one cylinder stand on the other or lie along it.
    """
    parts = cylinder_parts(first), cylinder_parts(second)
    closest = support_contact(first.position, parts[0], second.position, parts[1])
    found = [closest]
    found += resting_contacts(first, closest.normal, lambda p: point_cylinder(p, 0.0, second))
    found += [
        exchanged(contact)
        for contact in resting_contacts(
            second, negate(closest.normal), lambda p: point_cylinder(p, 0.0, first)
        )
    ]
    return tuple(found)
