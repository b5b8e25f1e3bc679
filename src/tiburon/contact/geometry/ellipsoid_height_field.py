"""Contacts of an ellipsoid with a height field."""

from tiburon.contact.geometry.capsule_ellipsoid import capsule_ellipsoid
from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ContactGeometry,
    Placed,
    to_world,
)
from tiburon.contact.geometry.height_field import (
    NEAR,
    SAME_NORMAL,
    Reach,
    on_triangle,
    terrain_contacts,
)
from tiburon.contact.geometry.smooth_height_field import smooth_support_contact
from tiburon.contact.geometry.sphere_ellipsoid import sphere_ellipsoid
from tiburon.contact.geometry.support import ellipsoid_parts, support_point
from tiburon.contact.geometry.terrain_features import NOTHING, ridge_contacts, segment
from tiburon.contact.geometry.vectors import maximum, unit
from tiburon.spatial.vec3 import (
    IDENTITY3,
    Mat3,
    Scalar,
    Vec3,
    add,
    dot,
    matrix_vector,
    transpose_vector,
)
from tiburon.trace.regions import function
from tiburon.trace.value import where

__all__ = ["ellipsoid_height_field", "ellipsoid_smooth_height_field"]

PLACES = ((0.0, 0.0), (0.6, 0.0), (-0.6, 0.0), (0.0, 0.6), (0.0, -0.6))
"""Where the ground is looked at, relative to the largest half axis."""


def _deepest(ellipsoid: Placed, down: Vec3) -> Vec3:
    """Return the extreme point in a direction, world axes [m]: E^2 m / |E m| in its axes."""
    a, b, c = ellipsoid.size
    x, y, z = transpose_vector(ellipsoid.rotation, down)
    (x, y, z), _ = unit((a * x, b * y, c * z), (0.0, 0.0, -1.0))
    return to_world(ellipsoid, (a * x, b * y, c * z))


def ellipsoid_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return contacts of the deepest points over five triangles, and of three peaks or ridges.

    Triangles of nearly one normal count once.

    Args:
        first: The ellipsoid.
        second: The height field.
        reach: Cells that are searched, from `reach_of`.
    """
    contact_of = function(terrain_contacts)
    a, b, c = first.size
    largest = maximum(a, maximum(b, c))
    found: list[ContactGeometry] = []
    for x, y in PLACES:
        shift = matrix_vector(second.rotation, (x * largest, y * largest, 0.0))
        (under,) = contact_of(add(first.position, shift), 0.0, second, 1)
        (there,) = contact_of(_deepest(first, under.normal), 0.0, second, 1)
        point = _deepest(first, there.normal)
        contact = on_triangle(point, there, contact_of(point, 0.0, second, 1)[0])
        counts: Scalar = True
        for other in found:
            same = dot(other.normal, contact.normal) > SAME_NORMAL
            counts = counts & ((other.gap >= NO_CONTACT) | ~same)
        found.append(contact._replace(gap=where(counts, contact.gap, NO_CONTACT)))
    peaks = ridge_contacts(
        first.position,
        second,
        reach.body,
        3,
        lambda point: sphere_ellipsoid(Placed(IDENTITY3, point, (0.0,)), first)[0],
        lambda start, edge, outward: (capsule_ellipsoid(segment(start, edge), first)[0], NOTHING),
        largest,
    )
    return (*found, *peaks)


def ellipsoid_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return the contact with smooth terrain."""
    parts = ellipsoid_parts(first)

    def support(toward: Vec3) -> tuple[Vec3, Mat3]:
        point, radii = support_point(parts, toward)
        return add(first.position, point), radii

    return (smooth_support_contact(support, first.position, second),)
