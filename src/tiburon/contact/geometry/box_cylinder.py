"""Contacts of a box with a cylinder."""

from tiburon.contact.geometry.box_box import facing_face
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, exchanged
from tiburon.contact.geometry.rim_contact import resting_contacts
from tiburon.contact.geometry.sphere_box import point_box
from tiburon.contact.geometry.sphere_cylinder import point_cylinder
from tiburon.contact.geometry.support import box_parts, cylinder_parts, support_contact
from tiburon.spatial.vec3 import add, negate, scale


def box_cylinder(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points, and those of corners and rims.

    Three points of the cylinder's rims and four corners of the box let one rest on the other.
    """
    parts = box_parts(first), cylinder_parts(second)
    closest = support_contact(first.position, parts[0], second.position, parts[1])
    found = [closest]
    found += [
        exchanged(contact)
        for contact in resting_contacts(
            second, negate(closest.normal), lambda p: point_box(p, 0.0, first)
        )
    ]
    x, y, z = (0.5 * edge for edge in first.size)
    face = facing_face(first, (x, y, z), negate(closest.normal))
    for s, t in ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)):
        arm = add(scale(face.x, s * face.half_x), scale(face.y, t * face.half_y))
        found.append(point_cylinder(add(face.center, arm), 0.0, second))
    return tuple(found)
