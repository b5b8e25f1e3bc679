"""Spherical joint: rotation about a point."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tiburon.model.joint_constraints import Measure, Offset, all_axes
from tiburon.model.joints.joint import Joint
from tiburon.model.joints.orientation import (
    angular_velocity_of_rate,
    random_quaternion,
    to_body_axes,
)
from tiburon.record import record
from tiburon.spatial import (
    Force,
    Motion,
    Scalar,
    Transform,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_multiply,
    quaternion_normalize,
    quaternion_rate,
)
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, cross, vec3

_SUBSPACE = tuple(Motion(axis, ZERO3) for axis in IDENTITY3)


@record(slots=False)
class Spherical(Joint):
    """A spherical joint (ball and socket).

    q = quaternion (w, x, y, z) from body to joint axes; v = angular velocity in body axes [rad/s].
    The joint force is the moment on the body about the center, in body axes [N m]. Only the
    quaternion's direction matters; a length below 0.5 is an error.

    Example:
        ``Spherical("hip")``
    """

    kind: ClassVar[str] = "spherical"
    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3

    def q_names(self) -> tuple[str, ...]:
        """Return the names of the quaternion's parts."""
        return tuple(f"{self.name}.{x}" for x in ("qw", "qx", "qy", "qz"))

    def v_names(self) -> tuple[str, ...]:
        """Return the names of the angular velocity's parts."""
        return tuple(f"{self.name}.{x}" for x in ("wx", "wy", "wz"))

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coincident centers."""
        return all_axes(Offset)

    def neutral(self) -> tuple[float, ...]:
        """Return the identity rotation."""
        return (1.0, 0.0, 0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return a uniformly random orientation."""
        return random_quaternion(rng)

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        w, x, y, z = q
        return Transform((to_body_axes((w, x, y, z), self.name, "order w, x, y, z"),))

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the three unit rotations (Featherstone 1987, table 8-1)."""
        return _SUBSPACE

    def motion(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """Return S v: v itself as angular velocity."""
        return Motion(vec3(v, "v"), ZERO3)

    def project(self, q: Sequence[Scalar], f: Force) -> tuple[Scalar, ...]:
        """Return the moment about the center."""
        return f.moment

    def integrate(self, q: Sequence[Scalar], dv: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the orientation after a step of constant body velocity; keeps the length."""
        return quaternion_multiply(q, quaternion_exp(dv))

    def position_rate(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the rate of the quaternion."""
        w, x, y, z = q
        return quaternion_rate((w, x, y, z), vec3(v, "v"))

    def velocity_of_rate(self, q: Sequence[Scalar], qd: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the angular velocity of a rate of the quaternion."""
        w, x, y, z = q
        a, b, c, d = qd
        return angular_velocity_of_rate((w, x, y, z), (a, b, c, d))

    def bracket(self, a: Sequence[Scalar], b: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the commutator of two angular velocities: their cross product."""
        return cross(vec3(a, "a"), vec3(b, "b"))

    def difference(self, q0: Sequence[Scalar], q1: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the angular velocity that rotates q0 to q1 in unit time, by at most pi."""
        return quaternion_log(quaternion_multiply(quaternion_conjugate(q0), q1))

    def normalize(self, q: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the same orientation with a quaternion of length 1."""
        return quaternion_normalize(q)
