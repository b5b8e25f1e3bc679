"""Bounding spheres, and the earliest time two of them can touch.

A bounding sphere is centered at the shape's origin and holds the shape in every orientation. Shapes
whose bounding spheres stay apart during a step need no narrow phase, however fast they move.
"""

from collections.abc import Sequence
from functools import reduce
from math import inf
from typing import NamedTuple

from tiburon.contact.geometry.vectors import clamp, maximum, minimum, root
from tiburon.spatial.vec3 import Mat3, Scalar, Vec3, dot
from tiburon.trace.value import where


class Approach(NamedTuple):
    """When two bounding volumes that move at constant velocity come within contact."""

    time: Scalar
    """Earliest time within the step [s]; the duration of the step if they stay apart."""

    touches: Scalar
    """Whether they come within contact during the step."""


def bounding_radius(kind: str, size: Sequence[Scalar]) -> Scalar:
    """Return the radius of the bounding sphere of a shape [m]; infinite for ground.

    Args:
        kind: Kind of the shape, one of `KINDS`.
        size: Its dimensions, as in `Placed.size` [m].
    """
    if kind in ("sphere", "ellipsoid"):
        return reduce(maximum, size)
    if kind == "capsule":
        return size[0] + 0.5 * size[1]
    if kind == "cylinder":
        return root(size[0] * size[0] + 0.25 * size[1] * size[1])
    if kind in ("hull", "rod", "ball"):
        return size[2]
    return 0.5 * root(dot(size, size)) if kind == "box" else inf  # type: ignore[arg-type]


def half_extents(kind: str, size: Sequence[Scalar]) -> Vec3 | None:
    """Return half the edges of the box along its axes that holds a shape [m]; None of ground.

    Arguments as for `bounding_radius`.
    """
    if kind == "sphere":
        return size[0], size[0], size[0]
    if kind in ("capsule", "cylinder"):
        ends = size[0] if kind == "capsule" else 0.0
        return size[0], size[0], ends + 0.5 * size[1]
    if kind in ("hull", "rod", "ball"):
        return size[6], size[7], size[8]
    if kind == "ellipsoid":
        return size[0], size[1], size[2]
    return (0.5 * size[0], 0.5 * size[1], 0.5 * size[2]) if kind == "box" else None


def box_distance(offset: Vec3, axes: tuple[Mat3, Mat3], extents: tuple[Vec3, Vec3]) -> Scalar:
    """Return the distance of two boxes along one of their axes, the one that separates them most.

    Args:
        offset: Center of the second minus center of the first [m].
        axes: Rotation of each: the columns are its axes.
        extents: Half the edges of each [m].
    """
    columns = [[tuple(row[k] for row in R) for k in range(3)] for R in axes]
    cosines = [[abs(dot(a, b)) for b in columns[1]] for a in columns[0]]
    turned = cosines, [list(column) for column in zip(*cosines, strict=True)]
    found: Scalar = -inf
    for own, other, ways, of in zip(extents, extents[::-1], columns, turned, strict=True):
        for k in range(3):
            width = own[k] + dot(tuple(of[k]), other)
            found = maximum(found, abs(dot(ways[k], offset)) - width)
    return found


def inscribed_radius(kind: str, size: Sequence[Scalar]) -> Scalar:
    """Return the radius of the largest sphere around the origin inside a shape [m].

    Arguments as for `bounding_radius`.
    """
    if kind == "capsule":
        return size[0]
    if kind in ("hull", "rod", "ball"):
        return size[3]
    if kind == "cylinder":
        return minimum(size[0], 0.5 * size[1])
    if kind in ("sphere", "ellipsoid", "box"):
        return reduce(minimum, size) * (0.5 if kind == "box" else 1.0)
    return inf


def earliest_contact(offset: Vec3, velocity: Vec3, reach: Scalar, duration: Scalar) -> Approach:
    """Return when two spheres that move at constant velocity come within contact.

    A lower bound of the time at which the shapes inside them can touch.

    Args:
        offset: Center of the second minus center of the first at the start [m].
        velocity: Velocity of the second minus that of the first [m/s].
        reach: Sum of the radii [m], plus a margin if wanted.
        duration: Duration of the step [s].
    """
    a, b = dot(velocity, velocity), dot(offset, velocity)
    c = dot(offset, offset) - reach * reach
    discriminant = b * b - a * c
    # smaller root of a t^2 + 2 b t + c = 0, without cancellation
    divisor = root(discriminant) - b
    meets = (b < 0.0) & (discriminant >= 0.0) & (divisor > 0.0)
    time = where(meets, c / where(meets, divisor, 1.0), 2.0 * duration)
    time = where(c <= 0.0, 0.0, maximum(time, 0.0))
    return Approach(clamp(time, 0.0, duration), time <= duration)
