"""Contacts of a box with a height field."""

from tiburon.contact.geometry.box_plane import box_corners
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.height_field import terrain_contacts
from tiburon.trace.regions import function

__all__ = ["box_height_field"]


def box_height_field(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of the eight corners; peaks of the terrain between them are not seen."""
    contact_of = function(terrain_contacts)
    return tuple(contact_of(corner, 0.0, second, 1)[0] for corner in box_corners(first))
