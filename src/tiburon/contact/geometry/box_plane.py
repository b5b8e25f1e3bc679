"""Contacts of a box with a plane."""

from itertools import product

from tiburon.contact.geometry.contact_geometry import (
    ContactGeometry,
    Placed,
    axis,
    face_contact,
    to_world,
)
from tiburon.spatial.vec3 import Vec3


def box_corners(box: Placed) -> tuple[Vec3, ...]:
    """Return the eight corners in world axes [m], from (-, -, -) to (+, +, +), z fastest."""
    x, y, z = (0.5 * edge for edge in box.size)
    signs = product((-1.0, 1.0), repeat=3)
    return tuple(to_world(box, (i * x, j * y, k * z)) for i, j, k in signs)


def box_plane(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of the eight corners."""
    outward = axis(second, 2)
    return tuple(
        face_contact(corner, 0.0, second.position, outward) for corner in box_corners(first)
    )
