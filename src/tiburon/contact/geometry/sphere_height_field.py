"""Contacts of a sphere with a height field."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.height_field import terrain_contacts
from tiburon.contact.geometry.smooth_height_field import smooth_terrain_contact

__all__ = ["sphere_height_field", "sphere_smooth_height_field"]


def sphere_height_field(
    first: Placed, second: Placed, reach: int = 1
) -> tuple[ContactGeometry, ...]:
    """Return the three contacts of smallest gap: a sphere in a pit rests on three triangles.

    Args:
        first: The sphere.
        second: The height field.
        reach: Cells that are searched, from `reach_of`; 1 is enough for radii below half the
            spacing.
    """
    return terrain_contacts(first.position, first.size[0], second, 3, reach)


def sphere_smooth_height_field(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact with smooth terrain."""
    return (smooth_terrain_contact(first.position, first.size[0], second),)
