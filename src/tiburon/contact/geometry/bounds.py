"""Bounding spheres, and the earliest time two of them can touch.

A bounding sphere is centered at the shape's origin and holds the shape in every orientation. Shapes
whose bounding spheres stay apart during a step need no narrow phase, however fast they move.
"""

from collections.abc import Sequence
from functools import reduce
from math import inf
from typing import NamedTuple

from tiburon.contact.geometry.vectors import clamp, maximum, minimum, root
from tiburon.spatial.vec3 import Scalar, Vec3, dot
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
