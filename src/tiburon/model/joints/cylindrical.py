"""Cylindrical joint: rotation about an axis and independent translation along it."""

import copy
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tiburon.model.joint_constraints import Measure, Offset, Tilt
from tiburon.model.joints.axes import (
    across,
    aligned_axes,
    coordinate_of,
    cos_sin,
    normals,
    turn_about,
    unit_axis,
)
from tiburon.model.joints.joint import Joint
from tiburon.model.value_checks import Matrix3, Vec3
from tiburon.record import record
from tiburon.spatial import Motion, Scalar, Transform, Translation
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, scale


@record(slots=False)
class Cylindrical(Joint):
    """A cylindrical joint: rotates by q[0] [rad] and translates by q[1] [m] on one axis.

    v = dq/dt; the joint force is the moment about the axis [N m] and the force along it [N].

    Example:
        ``Cylindrical("piston", axis=(1, 0, 0))``
    """

    axis: Vec3 = (0.0, 0.0, 1.0)
    """Unit axis in joint axes, which equal body axes at zero position."""

    kind: ClassVar[str] = "cylindrical"
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axis", unit_axis(self.axis, self.name))

    def q_names(self) -> tuple[str, ...]:
        """Return the names of angle and displacement."""
        return (f"{self.name}.angle", f"{self.name}.slide")

    def v_names(self) -> tuple[str, ...]:
        """Return the names of the rates, those of the positions."""
        return self.q_names()

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, *self.axis)

    def canonical(self) -> tuple[Matrix3, Joint]:
        """Return axes with z along the joint axis, unless that is a coordinate axis already."""
        if coordinate_of(self.axis) is not None:
            return IDENTITY3, self
        joint = copy.copy(self)
        object.__setattr__(joint, "axis", (0.0, 0.0, 1.0))
        return aligned_axes(self.axis, across(self.axis)), joint

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coaxial axes."""
        pair = normals(self.axis)
        return (*(Offset(normal) for normal in pair), *(Tilt(normal, self.axis) for normal in pair))

    def neutral(self) -> tuple[float, ...]:
        """Return zero angle and displacement."""
        return (0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return an angle between -pi and pi and a displacement between -1 and 1 m."""
        return (float(rng.uniform(-math.pi, math.pi)), float(rng.uniform(-1.0, 1.0)))

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        angle, slide = q
        turn = turn_about(self.axis, *cos_sin(angle))
        return Transform((Translation(scale(self.axis, slide)), turn))

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return line and free vector of the axis (Featherstone 1987, table 8-1)."""
        return (Motion(self.axis, ZERO3), Motion(ZERO3, self.axis))
