"""Free joint: all six degrees of freedom, for floating bases."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tiburon.model.joint_constraints import Measure
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
    Quaternion,
    Scalar,
    Transform,
    Translation,
    Vec3,
    left_jacobian_inverse_product,
    left_jacobian_product,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_multiply,
    quaternion_normalize,
    quaternion_rate,
    quaternion_rotate,
)

_ZERO = (0.0, 0.0, 0.0)
_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_SUBSPACE = tuple(Motion(axis, _ZERO) for axis in _AXES) + tuple(
    Motion(_ZERO, axis) for axis in _AXES
)


@record(slots=False)
class Free(Joint):
    """A body that floats freely in its parent.

    q = [quaternion (w, x, y, z) from body to joint axes, position of the body origin in joint
    axes [m]]; v = [angular velocity [rad/s], velocity of the body origin [m/s]] in body axes.
    Joint force = [moment about the body origin [N m], force [N]] in body axes. Only the
    quaternion's direction matters; a length below 0.5 is an error.

    Example:
        ``Free("float")``
    """

    kind: ClassVar[str] = "free"
    nq: ClassVar[int] = 7
    nv: ClassVar[int] = 6

    def q_names(self) -> tuple[str, ...]:
        """Return the names of quaternion and position."""
        return tuple(f"{self.name}.{x}" for x in ("qw", "qx", "qy", "qz", "x", "y", "z"))

    def v_names(self) -> tuple[str, ...]:
        """Return the names of angular and linear velocity."""
        return tuple(f"{self.name}.{x}" for x in ("wx", "wy", "wz", "vx", "vy", "vz"))

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return an empty tuple: a free joint has no constraints."""
        return ()

    def neutral(self) -> tuple[float, ...]:
        """Return the identity rotation, at the origin."""
        return (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return a uniformly random orientation and a position within a cube of 1 m."""
        return (*random_quaternion(rng), *rng.uniform(-1.0, 1.0, 3).tolist())

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        quaternion, position = _split(q)
        order = "order w, x, y, z, before the position"
        turned = to_body_axes(quaternion, self.name, order)
        return Transform((Translation(position), turned))

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the six unit motions."""
        return _SUBSPACE

    def motion(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """Return the velocity of the body relative to its parent: v itself."""
        return Motion.from_array(tuple(v))

    def project(self, q: Sequence[Scalar], f: Force) -> tuple[Scalar, ...]:
        """Return the force itself."""
        return tuple(f)

    def integrate(self, q: Sequence[Scalar], dv: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the position after a step of constant body velocity: a screw motion.

        The quaternion keeps its length.
        """
        quaternion, position = _split(q)
        step = Motion.from_array(tuple(dv))
        turn = quaternion_exp(step.angular)
        x, y, z = quaternion_rotate(quaternion, left_jacobian_product(step.angular, step.linear))
        px, py, pz = position
        return (*quaternion_multiply(quaternion, turn), px + x, py + y, pz + z)

    def position_rate(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the rate of the quaternion, and the velocity of the origin in joint axes."""
        quaternion, _ = _split(q)
        velocity = Motion.from_array(tuple(v))
        moved = quaternion_rotate(quaternion, velocity.linear)
        return (*quaternion_rate(quaternion, velocity.angular), *moved)

    def velocity_of_rate(self, q: Sequence[Scalar], qd: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the body velocity of a rate of quaternion and position."""
        (quaternion, _), (rate, moved) = _split(q), _split(qd)
        back = quaternion_rotate(quaternion_conjugate(quaternion), moved)
        return (*angular_velocity_of_rate(quaternion, rate), *back)

    def bracket(self, a: Sequence[Scalar], b: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the commutator of two body velocities: their motion cross product."""
        return tuple(Motion.from_array(tuple(a)).cross(Motion.from_array(tuple(b))))

    def difference(self, q0: Sequence[Scalar], q1: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the body velocity that moves q0 to q1 in unit time, rotating by at most pi."""
        quaternion0, position0 = _split(q0)
        quaternion1, position1 = _split(q1)
        back = quaternion_conjugate(quaternion0)
        turn = quaternion_log(quaternion_multiply(back, quaternion1))
        (ax, ay, az), (bx, by, bz) = position0, position1
        moved = quaternion_rotate(back, (bx - ax, by - ay, bz - az))
        return (*turn, *left_jacobian_inverse_product(turn, moved))

    def normalize(self, q: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the same position with a quaternion of length 1."""
        quaternion, position = _split(q)
        return (*quaternion_normalize(quaternion), *position)


def _split(q: Sequence[Scalar]) -> tuple[Quaternion, Vec3]:
    """Return quaternion and position."""
    w, x, y, z, px, py, pz = q
    return (w, x, y, z), (px, py, pz)
