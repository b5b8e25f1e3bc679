"""Contacts of a cylinder with a height field."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, axis
from tiburon.contact.geometry.cylinder_plane import rim_points
from tiburon.contact.geometry.height_field import (
    NEAR,
    Reach,
    on_triangle,
    terrain_contacts,
)
from tiburon.contact.geometry.smooth_height_field import (
    smooth_support_contact,
    smooth_terrain_contact,
)
from tiburon.contact.geometry.sphere_cylinder import point_cylinder
from tiburon.contact.geometry.terrain_features import ridge_contacts
from tiburon.contact.geometry.vectors import maximum, outer, scale_matrix, unit
from tiburon.spatial.vec3 import Mat3, Vec3, add, cross, dot, scale, subtract
from tiburon.trace.regions import function

__all__ = ["cylinder_height_field", "cylinder_smooth_height_field"]

STANDING = 1e-3
"""Sine between the axis and the normal of the ground below which the extreme points of the rims
are as on a cylinder that leans by it: standing, none is extreme."""


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


def cylinder_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return contacts with smooth terrain of the extreme points of both rims, and of three points.

    The three points are fixed to the leading rim, and carry a cylinder that stands.
    """
    radius, length = first.size
    u = axis(first, 2)
    contact_of = function(smooth_terrain_contact)
    under = contact_of(first.position, 0.0, second)

    def rim(side: float) -> ContactGeometry:
        middle = add(first.position, scale(u, 0.5 * side * length))

        def support(toward: Vec3) -> tuple[Vec3, Mat3]:
            across = subtract(toward, scale(u, dot(u, toward)))
            steepest, sine = unit(across, axis(first, 0))
            around = cross(u, steepest)
            radii = scale_matrix(outer(around, around), radius / maximum(sine, STANDING))
            return add(middle, scale(steepest, radius)), radii

        return smooth_support_contact(support, middle, second)

    fixed = rim_points(first, under.normal)[2:]
    return (rim(-1.0), rim(1.0), *(contact_of(point, 0.0, second) for point in fixed))
