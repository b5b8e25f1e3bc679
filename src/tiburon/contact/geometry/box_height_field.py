"""Contacts of a box with a height field."""

from tiburon.contact.geometry.box_plane import box_corners
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.height_field import NEAR, Reach, terrain_contacts
from tiburon.contact.geometry.smooth_height_field import smooth_terrain_contact
from tiburon.contact.geometry.sphere_box import point_box
from tiburon.contact.geometry.terrain_features import ridge_contacts
from tiburon.trace.regions import function

__all__ = ["box_height_field", "box_smooth_height_field"]


def box_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of the eight corners, and of four peaks between them.

    Ridges are seen where a vertex of the grid is below the box.

    Args:
        first: The box.
        second: The height field.
        reach: Cells that are searched, from `reach_of`.
    """
    contact_of = function(terrain_contacts)
    corners = tuple(contact_of(corner, 0.0, second, 1)[0] for corner in box_corners(first))

    ridges = ridge_contacts(
        first.position,
        second,
        reach.body,
        4,
        lambda point: point_box(point, 0.0, first),
        lambda start, edge: (),
    )
    return (*corners, *ridges)


def box_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of the eight corners with smooth terrain."""
    contact_of = function(smooth_terrain_contact)
    return tuple(contact_of(corner, 0.0, second) for corner in box_corners(first))
