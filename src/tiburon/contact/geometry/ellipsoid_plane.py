"""Contact of an ellipsoid with a plane."""

from tiburon.contact.geometry.contact_geometry import (
    ContactGeometry,
    Placed,
    axis,
    face_contact,
    to_world,
)
from tiburon.contact.geometry.vectors import unit
from tiburon.spatial.vec3 import negate, transpose_vector


def ellipsoid_plane(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the ellipsoid's deepest point, E^2 m / |E m| in its axes.

    E holds the half axes and m the direction toward the plane.
    """
    a, b, c = first.size
    x, y, z = transpose_vector(first.rotation, negate(axis(second, 2)))
    (x, y, z), _ = unit((a * x, b * y, c * z), (0.0, 0.0, -1.0))
    deepest = to_world(first, (a * x, b * y, c * z))
    return (face_contact(deepest, 0.0, second.position, axis(second, 2)),)
