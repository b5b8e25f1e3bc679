"""Universal joint (Hooke's joint): rotation about two axes, the second moving with the first."""

import copy
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tiburon.errors import ModelError
from tiburon.model.joint_constraints import Measure, Offset, Tilt, all_axes
from tiburon.model.joints.axes import (
    aligned_axes,
    coordinate_of,
    cos_sin,
    turn_about,
    unit_axis,
)
from tiburon.model.joints.joint import Joint
from tiburon.model.value_checks import Matrix3, Vec3, snap
from tiburon.record import record
from tiburon.spatial import Factor, Motion, Scalar, Transform
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    cross,
    dot,
    scale,
    subtract,
    transpose_vector,
)

PARALLEL_SINE = 1e-6
"""Sine of the angle between the axes below which they are parallel."""


@record(slots=False)
class Universal(Joint):
    """A universal joint: rotates by q[0] about `axis`, then by q[1] about `second_axis`.

    `axis` is fixed in the joint frame, `second_axis` in the body. v = dq/dt [rad/s]; the joint
    force is the moment about each axis [N m].

    Example:
        ``Universal("cardan", axis=(1, 0, 0), second_axis=(0, 1, 0))``
    """

    axis: Vec3 = (1.0, 0.0, 0.0)
    """Unit axis of the first rotation, in joint axes."""

    second_axis: Vec3 = (0.0, 1.0, 0.0)
    """Unit axis of the second rotation, in body axes, which equal joint axes at zero position."""

    kind: ClassVar[str] = "universal"
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("axis", "second_axis"):
            object.__setattr__(self, field, unit_axis(getattr(self, field), self.name, field))
        sine = float(np.linalg.norm(np.cross(self.axis, self.second_axis)))
        if sine < PARALLEL_SINE:
            raise ModelError(
                f"joint {self.name!r}: axis and second_axis must have different directions, got "
                f"{list(self.axis)} and {list(self.second_axis)}; use Revolute for one axis",
                name=self.name,
            )

    def q_names(self) -> tuple[str, ...]:
        """Return the names of the two angles."""
        return (f"{self.name}.first", f"{self.name}.second")

    def v_names(self) -> tuple[str, ...]:
        """Return the names of the rates, those of the positions."""
        return self.q_names()

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, *self.axis, *self.second_axis)

    def canonical(self) -> tuple[Matrix3, Joint]:
        """Return axes with z along the second axis, y normal to both."""
        if coordinate_of(self.axis) is not None and coordinate_of(self.second_axis) is not None:
            return IDENTITY3, self
        z, a = self.second_axis, self.axis
        along = dot(a, z)
        Q = aligned_axes(z, subtract(a, scale(z, along)))
        x, y, z_part = snap(transpose_vector(Q, a))
        joint = copy.copy(self)
        object.__setattr__(joint, "axis", (x, y, z_part))
        object.__setattr__(joint, "second_axis", (0.0, 0.0, 1.0))
        return Q, joint

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coincident origins and constant angle between the axes."""
        bend = Tilt(self.axis, self.second_axis, dot(self.axis, self.second_axis))
        return (*all_axes(Offset), bend)

    def neutral(self) -> tuple[float, ...]:
        """Return zero angles."""
        return (0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return angles between -pi and pi."""
        first, second = rng.uniform(-math.pi, math.pi, 2).tolist()
        return (first, second)

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        return Transform((turn_about(self.axis, *cos_sin(q[0])), self._second(q)))

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the first axis in body coordinates, and the second (1987, table 8-1)."""
        first = self._second(q).direction(self.axis)
        return (Motion(first, ZERO3), Motion(self.second_axis, ZERO3))

    def subspace_rate(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return Sdot: in body coordinates, the first axis rotates backward about the second."""
        first = self._second(q).direction(self.axis)
        return (Motion(cross(first, scale(self.second_axis, v[1])), ZERO3), Motion.zero())

    def bias(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """Return Sdot v: in body coordinates, the first axis rotates backward about the second."""
        first = self._second(q).direction(self.axis)
        return Motion(cross(scale(first, v[0]), scale(self.second_axis, v[1])), ZERO3)

    def bias_derivative(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the derivative of Sdot v by position."""
        turned = cross(self._second(q).direction(self.axis), self.second_axis)
        change = scale(cross(turned, self.second_axis), v[0] * v[1])
        return (Motion.zero(), Motion(change, ZERO3))

    def _second(self, q: Sequence[Scalar]) -> Factor:
        return turn_about(self.second_axis, *cos_sin(q[1]))
