"""Contacts of a capsule with a height field."""

from tiburon.contact.geometry.capsule_plane import capsule_ends
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.height_field import NEAR, Reach, terrain_contacts
from tiburon.contact.geometry.smooth_height_field import smooth_terrain_contact
from tiburon.trace.regions import function

__all__ = ["capsule_height_field", "capsule_smooth_height_field"]


def capsule_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return two contacts of each hemisphere, at -z and +z; ridges between them are not seen.

    Args:
        first: The capsule.
        second: The height field.
        reach: Cells that are searched, from `reach_of`.
    """
    contacts: tuple[ContactGeometry, ...] = ()
    for end in capsule_ends(first):
        contacts += terrain_contacts(end, first.size[0], second, 2, reach.point)
    return contacts


def capsule_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of the hemispheres at -z and +z with smooth terrain."""
    contact_of = function(smooth_terrain_contact)
    return tuple(contact_of(end, first.size[0], second) for end in capsule_ends(first))
