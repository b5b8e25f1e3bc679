"""Contacts of a sphere with a height field."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.height_field import NEAR, Reach, terrain_contacts
from tiburon.contact.geometry.smooth_height_field import smooth_terrain_contact

__all__ = ["sphere_height_field", "sphere_smooth_height_field"]


def sphere_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return the three contacts of smallest gap: a sphere in a pit rests on three triangles.

    Args:
        first: The sphere.
        second: The height field.
        reach: Cells that are searched, from `reach_of`.
    """
    return terrain_contacts(first.position, first.size[0], second, 3, reach.point)


def sphere_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return the contact with smooth terrain."""
    return (smooth_terrain_contact(first.position, first.size[0], second),)
