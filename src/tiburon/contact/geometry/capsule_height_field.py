"""Contacts of a capsule with a height field."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, axis
from tiburon.contact.geometry.height_field import terrain_contacts
from tiburon.spatial.vec3 import add, scale

__all__ = ["capsule_height_field"]


def capsule_height_field(
    first: Placed, second: Placed, reach: int = 1
) -> tuple[ContactGeometry, ...]:
    """Return two contacts of each hemisphere, at -z and +z; ridges between them are not seen.

    Args:
        first: The capsule.
        second: The height field.
        reach: Cells that are searched, from `reach_of`.
    """
    radius, length = first.size
    contacts: tuple[ContactGeometry, ...] = ()
    for side in (-0.5, 0.5):
        end = add(first.position, scale(axis(first, 2), side * length))
        contacts += terrain_contacts(end, radius, second, 2, reach)
    return contacts
