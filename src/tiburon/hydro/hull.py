"""How much of a solid is under a level surface, and where the middle of that part is.

Symbols:
    h       depth of the solid's middle below the surface
    w_i     height of its half sizes above the middle
"""

import math
from typing import NamedTuple

import numpy as np

from tiburon.hydro.submersion import SOLIDS
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
        share, means = SOLIDS[self.kind](h, w, self.halves)
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
