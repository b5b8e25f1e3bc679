"""Contacts of a cylinder with a plane."""

from math import sqrt

from tiburon.contact.geometry.contact_geometry import (
    ContactGeometry,
    Placed,
    axis,
    face_contact,
    to_world,
)
from tiburon.contact.geometry.vectors import sign, unit_across
from tiburon.spatial.vec3 import Vec3, add, dot, negate, scale

_BASE = ((1.0, 0.0), (-0.5, 0.5 * sqrt(3.0)), (-0.5, -0.5 * sqrt(3.0)))
"""Directions of three equally spaced points of a rim."""


def rim_points(cylinder: Placed, down: Vec3) -> tuple[Vec3, ...]:
    """Return five points of the rims that bound a cylinder along a unit vector, world axes [m].

    First the extreme points of the rims at -z and +z: exact for a rolling, tilted or lying
    cylinder. Then three points fixed to the leading rim, which carry one that stands. Where the
    axis is along the direction, all points of a rim are extreme; the one on the shape's x axis is
    taken.
    """
    radius, length = cylinder.size
    u = axis(cylinder, 2)
    along = dot(u, down)
    steepest, _ = unit_across(down, u, axis(cylinder, 0))
    arm, reach = scale(u, 0.5 * length), scale(steepest, radius)
    center = add(cylinder.position, reach)
    z = sign(along) * 0.5 * length
    fixed = tuple(to_world(cylinder, (radius * x, radius * y, z)) for x, y in _BASE)
    return (add(center, negate(arm)), add(center, arm), *fixed)


def cylinder_plane(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return contacts of the lowest points of both rims and of three points of the lower rim."""
    outward = axis(second, 2)
    points = rim_points(first, negate(outward))
    return tuple(face_contact(point, 0.0, second.position, outward) for point in points)
