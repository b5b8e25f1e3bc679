"""Turning about an axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tiburon.model.joints.axial import AxialJoint
from tiburon.model.numbers import SNAP
from tiburon.spatial import AxisRotation, Mat3, Motion, Rotation, Scalar, Transform, Vec3

_QUARTER = 0.5 * math.pi


@dataclass(frozen=True)
class Revolute(AxialJoint):
    """A hinge: the body turns right-handed about the axis by q + offset [rad].

    Example:
        ``Revolute("elbow", axis=(0, 1, 0), pose=Pose(translation=(0, 0, 0.3)))``
    """

    kind: ClassVar[str] = "revolute"

    def random(self, rng: np.random.Generator) -> tuple[float, ...]:
        """Return an angle between -pi and pi."""
        return (float(rng.uniform(-math.pi, math.pi)),)

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        (angle,) = q
        c, s = self._cos_sin(angle)
        coordinate = self.coordinate()
        if coordinate is not None:
            k, sign = coordinate
            return Transform((AxisRotation(k, c, sign * s),))
        return Transform((Rotation(_turned_axes(self.axis, c, s)),))

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the line vector of the axis (Featherstone 1987, section 2.3.2)."""
        return (Motion(self.axis, (0.0, 0.0, 0.0)),)

    def motion(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """Return the velocity of the body relative to its parent."""
        return Motion(self._along(self._first(v)), (0.0, 0.0, 0.0))

    def _cos_sin(self, angle: Scalar) -> tuple[Scalar, Scalar]:
        """Return cosine and sine of angle + offset; quarter turns of the offset are exact."""
        quarters = round(self.offset / _QUARTER)
        rest = self.offset - quarters * _QUARTER
        if abs(rest) > SNAP:
            angle = angle + rest
        c, s = np.cos(angle), np.sin(angle)
        return ((c, s), (-s, c), (-c, -s), (s, -c))[quarters % 4]


def _turned_axes(axis: Vec3, c: Scalar, s: Scalar) -> Mat3:
    """Return the matrix from joint to body axes, E = c 1 + (1 - c) a a^T - s [a x] (Rodrigues)."""
    x, y, z = axis
    t = 1.0 - c
    tx, ty, tz = t * x, t * y, t * z
    sx, sy, sz = s * x, s * y, s * z
    xy, xz, yz = tx * y, tx * z, ty * z
    return (
        (c + tx * x, xy + sz, xz - sy),
        (xy - sz, c + ty * y, yz + sx),
        (xz + sy, yz - sx, c + tz * z),
    )
