"""Contacts of a cylinder with a height field."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.cylinder_plane import rim_points
from tiburon.contact.geometry.height_field import (
    NEAR,
    Reach,
    on_triangle,
    terrain_contacts,
)
from tiburon.contact.geometry.sphere_cylinder import point_cylinder
from tiburon.contact.geometry.terrain_features import ridge_contacts
from tiburon.trace.regions import function

__all__ = ["cylinder_height_field"]


def cylinder_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return contacts of the lowest points of both rims, of three points of a rim, and of peaks.

    The lowest points are those over the triangle that they touch; the three points are fixed to the
    cylinder. Ridges are seen where a vertex of the grid is below the cylinder.

    Args:
        first: The cylinder.
        second: The height field.
        reach: Cells that are searched, from `reach_of`.
    """
    contact_of = function(terrain_contacts)
    (under,) = contact_of(first.position, 0.0, second, 1)
    low, high, *fixed = rim_points(first, under.normal)
    found = []
    for place, point in enumerate((low, high)):
        (there,) = contact_of(point, 0.0, second, 1)
        lowest = rim_points(first, there.normal)[place]
        found.append(on_triangle(lowest, there, contact_of(lowest, 0.0, second, 1)[0]))
    found += [contact_of(point, 0.0, second, 1)[0] for point in fixed]
    peaks = ridge_contacts(
        first.position,
        second,
        reach.body,
        3,
        lambda point: point_cylinder(point, 0.0, first),
        lambda start, edge: (),
    )
    return (*found, *peaks)
