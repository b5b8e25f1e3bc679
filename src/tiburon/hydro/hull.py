"""How much of a solid is under a level surface, and where the middle of that part is.

Symbols:
    n       the upward direction, in the axes of the solid's link
    h       depth of the solid's middle below the surface
    u_i     coordinates in the solid by its half sizes, between -1 and 1
    w_i     height of its half sizes: a point is at height sum of w_i u_i above the middle
    p_i     the same without sign, and never quite zero

A point is under water where sum w_i u_i <= h. For points spread evenly over the solid, that is a
distribution function: the share under water and the first moments of that part follow by integrals
that have closed forms, so nothing jumps when a corner goes under.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from tiburon.hydro.half_ball import EDGE, half_ball
from tiburon.model.shape import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    Shape,
    SphereShape,
)
from tiburon.record import record
from tiburon.spatial import Scalar, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, dot, scale

__all__ = ["Hull", "Submerged", "hull_of", "is_simple", "strip_share"]

TILT = 2e-3
"""Least height of half sizes, by the size of the solid. The closed forms divide by heights; at this
one they keep nine digits, and the share is off by less than this to the second power."""

SIMPLE = (SphereShape, EllipsoidShape, BoxShape, CylinderShape, CapsuleShape)
"""Geometries with closed forms."""

_RISE = 2.0 / math.pi
_BEND = 1.25 - 2.0 * _RISE


class Submerged(NamedTuple):
    """The part of a solid that is under water."""

    share: Scalar
    """By volume, between 0 and 1."""

    offset: Vec3
    """From the middle of the solid to that of the part, times the share, link axes [m]."""


@record
class Hull:
    """A simple solid in the frame of its link, which says how much of the link is under water."""

    kind: str
    """ "ellipsoid", "box", "cylinder" or "capsule"; the last two along their third axis."""

    center: Vec3
    """Its middle [m]."""

    axes: tuple[Vec3, Vec3, Vec3]
    """Its axes, unit vectors."""

    halves: Vec3
    """Half sizes along them [m]."""

    @property
    def volume(self) -> Scalar:
        """How much it displaces when it is all under water [m^3]."""
        a, b, c = self.halves
        if self.kind == "capsule":
            return 2.0 * math.pi * a * a * (c - a * (1.0 / 3.0))
        factors = {"ellipsoid": 4.0 / 3.0 * math.pi, "cylinder": 2.0 * math.pi, "box": 8.0}
        return factors[self.kind] * (a * b * c)

    def submerged(self, up: Vec3, depth: Scalar) -> Submerged:
        """Return what is under water.

        Args:
            up: Upward unit vector, link axes.
            depth: Of the link's origin below the surface [m].
        """
        h = depth - dot(up, self.center)
        w = [half * dot(up, axis) for half, axis in zip(self.halves, self.axes, strict=True)]
        share, means = _SOLIDS[self.kind](h, w, self.halves)
        offset = ZERO3
        for axis, half, mean in zip(self.axes, self.halves, means, strict=True):
            offset = add(offset, scale(axis, half * mean))
        return Submerged(share, offset)


def hull_of(shape: Shape, X: Transform) -> Hull | None:
    """Return a shape of a body as a hull of its link; None if it is not a simple solid.

    Args:
        shape: In body axes.
        X: Map of motion from the link's frame to the body's.
    """
    geometry = shape.geometry
    if isinstance(geometry, SphereShape):
        kind, halves = "ellipsoid", (geometry.radius,) * 3
    elif isinstance(geometry, EllipsoidShape):
        kind, halves = "ellipsoid", geometry.radii
    elif isinstance(geometry, BoxShape):
        x, y, z = geometry.size
        kind, halves = "box", (0.5 * x, 0.5 * y, 0.5 * z)
    elif isinstance(geometry, CylinderShape):
        kind, halves = "cylinder", (geometry.radius, geometry.radius, 0.5 * geometry.length)
    elif isinstance(geometry, CapsuleShape):
        r = geometry.radius
        kind, halves = "capsule", (r, r, 0.5 * geometry.length + r)
    else:
        return None
    R = np.array(shape.pose.rotation)
    axes = [_clean(X.direction_to_parent(tuple(R[:, k].tolist()))) for k in range(3)]
    center = _clean(X.point_to_parent(shape.pose.translation))
    return Hull(kind, center, (axes[0], axes[1], axes[2]), halves)


def _clean(values: Vec3) -> Vec3:
    """Return parts that only the rounding of a turned frame made nonzero as zero."""
    x, y, z = (0.0 if abs(value) < 1e-14 else float(value) for value in values)
    return x, y, z


def is_simple(shape: Shape) -> bool:
    """Return whether a shape is a solid with closed forms."""
    return isinstance(shape.geometry, SIMPLE)


def strip_share(tau: Scalar) -> Scalar:
    """Return the share of a disk below a line, from -1 under its rim to 1 above it.

    A polynomial that has the disk's value and slope in the middle and at the rim, and is off by at
    most 0.013 between them: strips are many, and the drag of a cut one is not known better.
    """
    t = np.minimum(np.maximum(tau, -1.0), 1.0)
    square = t * t
    return 0.5 + t * (_RISE + square * (_BEND + square * (0.5 - _RISE - _BEND)))


Found = tuple[Scalar, list[Scalar]]
"""The share, and the mean of each u_i over the solid with everything above water left out."""


def _ellipsoid(h: Scalar, w: Sequence[Scalar], halves: Vec3) -> Found:
    """A ball, stretched: the part under water is a stretched cap."""
    k = np.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
    t = np.minimum(np.maximum(h / k, -1.0), 1.0)
    share = 0.25 * (1.0 + t) * (1.0 + t) * (2.0 - t)
    out = 1.0 - t * t
    mean = -0.1875 * out * out / k
    return share, [mean * x for x in w]


def _box(h: Scalar, w: Sequence[Scalar], halves: Vec3) -> Found:
    """The sum of three even distributions: piecewise cubic, one piece per corner."""
    p = _heights(w, halves)
    total = p[0] + p[1] + p[2]
    # beyond these depths all corners are dry, or wet
    inside = np.minimum(np.maximum(h, -total), total)
    cubes: Scalar = 0.0
    moments: list[Scalar] = [0.0, 0.0, 0.0]
    for signs in product((-1.0, 1.0), repeat=3):
        x = np.maximum(inside + signs[0] * p[0] + signs[1] * p[1] + signs[2] * p[2], 0.0)
        cube = x * x * x
        all_three = signs[0] * signs[1] * signs[2]
        cubes = cubes + all_three * cube
        for k in range(3):
            part = cube * (x * (1.0 / 24.0) - signs[k] * p[k] * (1.0 / 6.0))
            moments[k] = moments[k] + all_three * part
    factor = 1.0 / (8.0 * p[0] * p[1] * p[2])
    share = cubes * factor * (1.0 / 6.0)
    share = np.where(h >= total, 1.0, np.where(h <= -total, 0.0, share))
    # the height of u_i is w_i, of which p_i is the size
    means = [
        np.where(np.abs(h) >= total, 0.0, m * factor * x / (y * y))
        for m, x, y in zip(moments, w, p, strict=True)
    ]
    return share, means


def _cylinder(h: Scalar, w: Sequence[Scalar], halves: Vec3) -> Found:
    """The sum of an even distribution along the axis and that of a disk."""
    least = (TILT * _size(halves)) ** 2
    p = np.sqrt(w[2] * w[2] + least)
    R = np.sqrt(w[0] * w[0] + w[1] * w[1] + least)
    total = p + R
    inside = np.minimum(np.maximum(h, -total), total)
    (low_1, low_2), (high_1, high_2) = (_disk_integrals(inside + x, R) for x in (-p, p))
    share = (high_1 - low_1) / (2.0 * p)
    once = (high_2 - low_2) / (2.0 * p)
    along = once - 0.5 * (high_1 + low_1)
    across = inside * share - once - along
    full = np.abs(h) >= total
    share = np.where(h >= total, 1.0, np.where(full, 0.0, share))
    along, across = (np.where(full, 0.0, x) for x in (along, across))
    side = across / (R * R)
    return share, [side * w[0], side * w[1], along * w[2] / (p * p)]


def _capsule(h: Scalar, w: Sequence[Scalar], halves: Vec3) -> Found:
    """A cylinder and two half balls at its ends, each with its own depth."""
    r, _, half = halves
    a = half - r
    c = w[2] / half
    volumes = (2.0 * math.pi * r * r * a, r * r * r)
    round_part, means = _cylinder(h, (w[0], w[1], a * c), (r, r, a))
    total = volumes[0] * round_part
    side, along = volumes[0] * r, volumes[0] * a * means[2]
    across = [side * means[0], side * means[1]]
    # lean a little where it stands upright: then no direction leads
    lean = np.sqrt((w[0] * w[0] + w[1] * w[1]) / (r * r) + TILT * TILT)
    length = np.sqrt(lean * lean + c * c)
    for end in (1.0, -1.0):
        V, lateral, axial = half_ball((h - end * a * c) / r, lean / length, end * c / length)
        total = total + volumes[1] * V
        along = along + end * volumes[1] * (a * V + r * axial)
        across = [x + volumes[1] * lateral / lean * y for x, y in zip(across, w, strict=False)]
    whole = volumes[0] + 4.0 / 3.0 * math.pi * volumes[1]
    reach = np.abs(a * c) + r
    dry_or_wet = np.abs(h) >= reach
    share = np.where(dry_or_wet, np.where(h > 0.0, 1.0, 0.0), total / whole)
    moments = (across[0] / r, across[1] / r, along / half)
    return share, [np.where(dry_or_wet, 0.0, moment / whole) for moment in moments]


_SOLIDS = {"ellipsoid": _ellipsoid, "box": _box, "cylinder": _cylinder, "capsule": _capsule}


def _disk_integrals(y: Scalar, R: Scalar) -> tuple[Scalar, Scalar]:
    """Return the first and second integral of the share of a disk below y / R over y."""
    tau = y / R
    t, s = _inside(tau)
    arc, beyond = np.arcsin(t), np.maximum(tau - 1.0, 0.0)
    cube = s * s * s
    first = 0.5 * t + (t * arc + s - cube * (1.0 / 3.0)) * (1.0 / math.pi)
    second = (0.5 * t * t + 0.125) * arc + 0.625 * t * s - t * cube * (1.0 / 12.0)
    second = 0.25 * t * t + second * (1.0 / math.pi) + 0.0625
    first, second = first + beyond, second + beyond + 0.5 * beyond * beyond
    return R * first, R * R * second


def _inside(tau: Scalar) -> tuple[Scalar, Scalar]:
    """Return a sine between its ends, and its cosine."""
    t = np.minimum(np.maximum(tau, EDGE - 1.0), 1.0 - EDGE)
    return t, np.sqrt(1.0 - t * t)


def _heights(w: Sequence[Scalar], halves: Vec3) -> list[Scalar]:
    """Return heights without their sign, none of them zero."""
    least = (TILT * _size(halves)) ** 2
    return [np.sqrt(x * x + least) for x in w]


def _size(halves: Vec3) -> Scalar:
    a, b, c = halves
    return np.sqrt(a * a + b * b + c * c)
