"""Revolute joint: rotation about an axis."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tiburon.model.joint_constraints import Measure, Offset, Tilt, all_axes
from tiburon.model.joints.axes import cos_sin, normals, turn_about
from tiburon.model.joints.axial import AxialJoint
from tiburon.record import record
from tiburon.spatial import Motion, Scalar, Transform


@record(slots=False)
class Revolute(AxialJoint):
    """A revolute joint: the body rotates right-handed about the axis by q + offset [rad].

    Example:
        ``Revolute("elbow", axis=(0, 1, 0), pose=Pose(translation=(0, 0, 0.3)))``
    """

    kind: ClassVar[str] = "revolute"

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coincident origins and parallel axes."""
        leans = (Tilt(normal, self.axis) for normal in normals(self.axis))
        return (*all_axes(Offset), *leans)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return an angle between -pi and pi."""
        return (float(rng.uniform(-math.pi, math.pi)),)

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        (angle,) = q
        return Transform((turn_about(self.axis, *cos_sin(angle, self.offset)),))

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the line vector of the axis (Featherstone 1987, section 2.3.2)."""
        return (Motion(self.axis, (0.0, 0.0, 0.0)),)

    def motion(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """Return the velocity of the body relative to its parent."""
        return Motion(self._along(self._first(v)), (0.0, 0.0, 0.0))
