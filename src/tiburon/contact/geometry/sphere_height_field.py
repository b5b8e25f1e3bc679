"""Contacts of a sphere with a height field."""

from tiburon.contact.geometry.contact_geometry import (
    ContactGeometry,
    Placed,
    tangent_projector,
)
from tiburon.contact.geometry.height_field import NEAR, Reach, terrain_contacts
from tiburon.contact.geometry.smooth_height_field import smooth_support_contacts
from tiburon.contact.geometry.vectors import scale_matrix
from tiburon.spatial.vec3 import Mat3, Vec3, add, scale


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
    """Return up to three contacts with smooth terrain."""
    return _smooth_contacts(first, second, reach, 3)


def foot_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return the contact of smallest gap of a ball that stands on one triangle, edge or vertex."""
    return terrain_contacts(first.position, first.size[0], second, 1, reach.point)


def foot_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return the contact of smallest gap with smooth terrain."""
    return _smooth_contacts(first, second, reach, 1)


def _smooth_contacts(
    first: Placed, second: Placed, reach: Reach, count: int
) -> tuple[ContactGeometry, ...]:
    (radius,), center = first.size, first.position

    def support(toward: Vec3) -> tuple[Vec3, Mat3]:
        return add(center, scale(toward, radius)), scale_matrix(tangent_projector(toward), radius)

    return smooth_support_contacts(support, center, radius, second, reach.body, count)
