"""Contacts that have been located outside of compiled code: points and normals fixed to the bodies.

Code gets up to `POINTS` contacts per pair as dimensions of the two shapes. To first order in the
motion of a step the gap is that of a point of one body over a plane of the other.
"""

from tiburon.contact.geometry.contact_geometry import NO_CONTACT, ContactGeometry, Placed, to_world
from tiburon.spatial.vec3 import Scalar, Vec3, add, dot, matrix_vector, scale, subtract
from tiburon.trace.value import where

LOCATED = "located"
"""Kind of both shapes of such a pair."""

POINTS = 12
"""Contacts of a pair at most."""

FIRST, SECOND = 4, 9
"""Dimensions per contact: of the first shape its point and a radius around it; of the second shape
its point, a radius, the normal, whether that turns with the first body, and whether it exists."""

ABSENT_CONTACTS: tuple[tuple[float, ...], tuple[float, ...]] = (
    (0.0,) * FIRST * POINTS,
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0) * POINTS,
)
"""Dimensions of the first and of the second shape where none of their contacts exists."""


def located_contacts(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts whose points and normals are dimensions of the shapes."""
    found = []
    for k in range(POINTS):
        x, y, z, one_radius = first.size[FIRST * k : FIRST * (k + 1)]
        a = to_world(first, (x, y, z))
        x, y, z, other_radius, *normal, turns, exists = second.size[SECOND * k : SECOND * (k + 1)]
        b = to_world(second, (x, y, z))
        n = _turned(first, second, (normal[0], normal[1], normal[2]), turns)
        gap = dot(n, subtract(b, a)) - one_radius - other_radius
        on_first, on_second = add(a, scale(n, one_radius)), subtract(b, scale(n, other_radius))
        point = scale(add(on_first, on_second), 0.5)
        found.append(ContactGeometry(where(exists > 0.5, gap, NO_CONTACT), point, n))
    return tuple(found)


def _turned(first: Placed, second: Placed, n: Vec3, turns: Scalar) -> Vec3:
    """Return a normal in world axes, from those of the body that it turns with."""
    one, other = matrix_vector(first.rotation, n), matrix_vector(second.rotation, n)
    x, y, z = (where(turns > 0.5, a, b) for a, b in zip(one, other, strict=True))
    return x, y, z
