"""Contacts of a cylinder with a height field."""

import math

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
from tiburon.contact.geometry.support import capsule_parts, cylinder_parts, support_contact
from tiburon.contact.geometry.terrain_features import NOTHING, ridge_contacts, segment
from tiburon.contact.geometry.vectors import maximum, outer, root, scale_matrix, select, unit
from tiburon.spatial.vec3 import Mat3, Scalar, Vec3, add, cross, dot, scale, subtract
from tiburon.trace.regions import function

__all__ = ["cylinder_height_field", "cylinder_smooth_height_field"]

PLACES = (0.3, -0.3, 0.7, -0.7, 1.2, -1.2, 2.0, -2.0)
"""Angles from its lowest point at which the ground below a rim is looked at, too [rad]."""

STANDING = 1e-3
"""Sine between the axis and the normal of the ground below which the extreme points of the rims
are as on a cylinder that leans by it: standing, none is extreme."""


def cylinder_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return contacts of both rims, of three points of a rim, and of three peaks or ridges.

    Those of the rims are with the nearest of the triangles below nine of their points, at the point
    that is lowest over it; the three points are fixed to the cylinder.

    Args:
        first: The cylinder.
        second: The height field.
        reach: Cells that are searched, from `reach_of`.
    """
    radius, length = first.size
    contact_of = function(terrain_contacts)
    (under,) = contact_of(first.position, 0.0, second, 1)
    fixed = rim_points(first, under.normal)[2:]

    @function
    def lowest(side: Scalar, cosine: Scalar, sine: Scalar) -> ContactGeometry:
        """Return the contact of a rim with the triangle below one of its points."""
        u = axis(first, 2)
        middle = add(first.position, scale(u, 0.5 * side * length))

        def extreme(down: Vec3) -> Vec3:
            steepest, _ = unit(subtract(down, scale(u, dot(u, down))), axis(first, 0))
            return steepest

        ahead = extreme(under.normal)
        place = add(scale(ahead, cosine), scale(cross(u, ahead), sine))
        (there,) = contact_of(add(middle, scale(place, radius)), 0.0, second, 1)
        point = add(middle, scale(extreme(there.normal), radius))
        return on_triangle(point, there, contact_of(point, 0.0, second, 1)[0])

    found = []
    for side in (-1.0, 1.0):
        nearest = lowest(side, 1.0, 0.0)
        for angle in PLACES:
            other = lowest(side, math.cos(angle), math.sin(angle))
            nearest = select(other.gap < nearest.gap, other, nearest)
        found.append(nearest)
    found += [contact_of(point, 0.0, second, 1)[0] for point in fixed]
    peaks = ridge_contacts(
        first.position,
        second,
        reach.body,
        3,
        lambda point: point_cylinder(point, 0.0, first),
        lambda start, edge, outward: (_on_ridge(start, edge, first), NOTHING),
        root(radius * radius + 0.25 * length * length),
    )
    return (*found, *peaks)


def _on_ridge(start: Vec3, edge: Vec3, cylinder: Placed) -> ContactGeometry:
    """Return the contact of an edge of the terrain with the cylinder, at the closest points."""
    ridge = segment(start, edge)
    return support_contact(
        ridge.position, capsule_parts(ridge), cylinder.position, cylinder_parts(cylinder)
    )


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
