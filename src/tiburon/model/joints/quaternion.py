"""Joints whose orientation is a quaternion: spherical, free, rolling sphere.

Rolling constrains velocities, not positions: the ball can reach every position in every
orientation. Such a joint is non-holonomic (Featherstone 1987, section 7.4.4): the independent
velocity variables g replace dq/dt, their rates dg/dt replace accelerations, and positions follow
from g by integration.
"""

import copy
from typing import ClassVar, Self

import numpy as np

from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.model.joint_constraints import Measure, Offset, Slip, all_axes
from tiburon.model.joints.joint import Joint
from tiburon.model.value_checks import finite_array
from tiburon.record import record
from tiburon.spatial import (
    Force,
    Motion,
    Quaternion,
    Rotation,
    Scalar,
    Scalars,
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
    quaternion_square,
    quaternion_to_matrix,
)
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, cross, negate, scale, vec3
from tiburon.trace.value import require

MIN_QUATERNION_LENGTH = 0.5
"""Length below which a quaternion is rejected as a wrong slice rather than drift."""


def to_body_axes(quaternion: Quaternion, joint: str, order: str) -> Rotation:
    """Return the transform from joint axes to body axes.

    Args:
        quaternion: From body to joint axes (w, x, y, z), of any length from `MIN_QUATERNION_LENGTH`
            on.
        joint: Name of the joint, for messages.
        order: Description of the layout of the joint's variables.
    """
    square = quaternion_square(quaternion)
    expected = (
        f"a quaternion of joint {joint!r} with a length near 1, at least {MIN_QUATERNION_LENGTH} "
        f"({order})"
    )
    # everything that depends on the orientation uses this square
    R = quaternion_to_matrix(
        quaternion,
        require(square >= MIN_QUATERNION_LENGTH * MIN_QUATERNION_LENGTH, square, expected),
    )
    return Rotation(R).inverse()


def random_quaternion(rng: "np.random.Generator") -> tuple[float, float, float, float]:
    """Return a uniformly random orientation."""
    quaternion = rng.standard_normal(4)
    w, x, y, z = (quaternion / np.linalg.norm(quaternion)).tolist()
    return (w, x, y, z)


def angular_velocity_of_rate(quaternion: Quaternion, rate: Quaternion) -> Vec3:
    """Return the angular velocity, body axes [rad/s], at which a quaternion changes.

    The inverse of `quaternion_rate` (Featherstone 1987, eq. 8.1); changes of length are ignored.
    """
    twice = 2.0 / quaternion_square(quaternion)
    _, x, y, z = quaternion_multiply(quaternion_conjugate(quaternion), rate)
    return (twice * x, twice * y, twice * z)


_ROTATIONS = tuple(Motion(axis, ZERO3) for axis in IDENTITY3)


@public
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
    q_parts = ("qw", "qx", "qy", "qz")
    v_parts = ("wx", "wy", "wz")

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coincident centers."""
        return all_axes(Offset)

    def neutral(self) -> tuple[float, ...]:
        """Return the identity rotation."""
        return (1.0, 0.0, 0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return a uniformly random orientation."""
        return random_quaternion(rng)

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        w, x, y, z = q
        return Transform((to_body_axes((w, x, y, z), self.name, "order w, x, y, z"),))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the three unit rotations (Featherstone 1987, table 8-1)."""
        return _ROTATIONS

    def motion(self, q: Scalars, v: Scalars) -> Motion:
        """Return S v: v itself as angular velocity."""
        return Motion(vec3(v, "v"), ZERO3)

    def project(self, q: Scalars, f: Force) -> tuple[Scalar, ...]:
        """Return the moment about the center."""
        return f.moment

    def integrate(self, q: Scalars, dv: Scalars) -> tuple[Scalar, ...]:
        """Return the orientation after a step of constant body velocity; keeps the length."""
        return quaternion_multiply(q, quaternion_exp(dv))

    def position_rate(self, q: Scalars, v: Scalars) -> tuple[Scalar, ...]:
        """Return the rate of the quaternion."""
        w, x, y, z = q
        return quaternion_rate((w, x, y, z), vec3(v, "v"))

    def velocity_of_rate(self, q: Scalars, qd: Scalars) -> tuple[Scalar, ...]:
        """Return the angular velocity of a rate of the quaternion."""
        w, x, y, z = q
        a, b, c, d = qd
        return angular_velocity_of_rate((w, x, y, z), (a, b, c, d))

    def bracket(self, a: Scalars, b: Scalars) -> tuple[Scalar, ...]:
        """Return the commutator of two angular velocities: their cross product."""
        return cross(vec3(a, "a"), vec3(b, "b"))

    def difference(self, q0: Scalars, q1: Scalars) -> tuple[Scalar, ...]:
        """Return the angular velocity that rotates q0 to q1 in unit time, by at most pi."""
        return quaternion_log(quaternion_multiply(quaternion_conjugate(q0), q1))

    def normalize(self, q: Scalars) -> tuple[Scalar, ...]:
        """Return the same orientation with a quaternion of length 1."""
        return quaternion_normalize(q)


_SUBSPACE = _ROTATIONS + tuple(Motion(ZERO3, axis) for axis in IDENTITY3)


@public
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
    q_parts = ("qw", "qx", "qy", "qz", "x", "y", "z")
    v_parts = ("wx", "wy", "wz", "vx", "vy", "vz")

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return an empty tuple: a free joint has no constraints."""
        return ()

    def neutral(self) -> tuple[float, ...]:
        """Return the identity rotation, at the origin."""
        return (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return a uniformly random orientation and a position within a cube of 1 m."""
        return (*random_quaternion(rng), *rng.uniform(-1.0, 1.0, 3).tolist())

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        quaternion, position = _split(q)
        order = "order w, x, y, z, before the position"
        turned = to_body_axes(quaternion, self.name, order)
        return Transform((Translation(position), turned))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the six unit motions."""
        return _SUBSPACE

    def motion(self, q: Scalars, v: Scalars) -> Motion:
        """Return the velocity of the body relative to its parent: v itself."""
        return Motion.from_array(tuple(v))

    def project(self, q: Scalars, f: Force) -> tuple[Scalar, ...]:
        """Return the force itself."""
        return tuple(f)

    def integrate(self, q: Scalars, dv: Scalars) -> tuple[Scalar, ...]:
        """Return the position after a step of constant body velocity: a screw motion.

        The quaternion keeps its length.
        """
        quaternion, position = _split(q)
        step = Motion.from_array(tuple(dv))
        turn = quaternion_exp(step.angular)
        x, y, z = quaternion_rotate(quaternion, left_jacobian_product(step.angular, step.linear))
        px, py, pz = position
        return (*quaternion_multiply(quaternion, turn), px + x, py + y, pz + z)

    def position_rate(self, q: Scalars, v: Scalars) -> tuple[Scalar, ...]:
        """Return the rate of the quaternion, and the velocity of the origin in joint axes."""
        quaternion, _ = _split(q)
        velocity = Motion.from_array(tuple(v))
        moved = quaternion_rotate(quaternion, velocity.linear)
        return (*quaternion_rate(quaternion, velocity.angular), *moved)

    def velocity_of_rate(self, q: Scalars, qd: Scalars) -> tuple[Scalar, ...]:
        """Return the body velocity of a rate of quaternion and position."""
        (quaternion, _), (rate, moved) = _split(q), _split(qd)
        back = quaternion_rotate(quaternion_conjugate(quaternion), moved)
        return (*angular_velocity_of_rate(quaternion, rate), *back)

    def bracket(self, a: Scalars, b: Scalars) -> tuple[Scalar, ...]:
        """Return the commutator of two body velocities: their motion cross product."""
        return tuple(Motion.from_array(tuple(a)).cross(Motion.from_array(tuple(b))))

    def difference(self, q0: Scalars, q1: Scalars) -> tuple[Scalar, ...]:
        """Return the body velocity that moves q0 to q1 in unit time, rotating by at most pi."""
        quaternion0, position0 = _split(q0)
        quaternion1, position1 = _split(q1)
        back = quaternion_conjugate(quaternion0)
        turn = quaternion_log(quaternion_multiply(back, quaternion1))
        (ax, ay, az), (bx, by, bz) = position0, position1
        moved = quaternion_rotate(back, (bx - ax, by - ay, bz - az))
        return (*turn, *left_jacobian_inverse_product(turn, moved))

    def normalize(self, q: Scalars) -> tuple[Scalar, ...]:
        """Return the same position with a quaternion of length 1."""
        quaternion, position = _split(q)
        return (*quaternion_normalize(quaternion), *position)


def _split(q: Scalars) -> tuple[Quaternion, Vec3]:
    """Return quaternion and position."""
    w, x, y, z, px, py, pz = q
    return (w, x, y, z), (px, py, pz)


@public
@record(slots=False)
class RollingSphere(Joint):
    """A sphere that rolls without slip on the xy plane of the joint frame.

    q = [position of the center x, y in joint axes [m], quaternion (w, x, y, z) from body to joint
    axes]; the body origin is the center of the ball. v = angular velocity in body axes [rad/s];
    the center moves by v x radius. The joint force is the moment about the point of contact, in
    body axes [N m]. The ball may spin freely about the normal.

    Example:
        ``RollingSphere("marble", radius=0.01)``
    """

    radius: float = 1.0
    """Distance from the center to the plane [m]."""

    kind: ClassVar[str] = "rolling sphere"
    nq: ClassVar[int] = 6
    nv: ClassVar[int] = 3
    q_parts = ("x", "y", "qw", "qx", "qy", "qz")
    v_parts = ("wx", "wy", "wz")

    def __post_init__(self) -> None:
        super().__post_init__()
        element = f"joint {self.name!r}"
        radius = float(finite_array(self.radius, (), element, "radius", self.name))
        if radius <= 0.0:
            raise ModelError(
                f"{element}: radius must be positive, got {radius:g} m; a sphere of zero radius "
                "cannot roll, use Spherical",
                name=self.name,
            )
        object.__setattr__(self, "radius", radius)

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, self.radius)

    def parameters(self) -> tuple[float, ...]:
        """Return the radius."""
        return (self.radius,)

    def with_parameters(self, numbers: Scalars) -> Self:
        """Return a ball with another radius."""
        joint = copy.copy(self)
        (radius,) = numbers
        object.__setattr__(joint, "radius", radius)
        return joint

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of constant height and no slip at the contact point.

        This holds for balls, and for wheels with axles parallel to the plane; the second frame is
        then the center of the wheel.
        """
        x, y, z = IDENTITY3
        contact = scale(z, -self.radius)
        return (Offset(z, self.radius), Slip(x, contact), Slip(y, contact))

    def neutral(self) -> tuple[float, ...]:
        """Return the identity rotation, above the origin of the joint frame."""
        return (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return a position within a square of 1 m and any orientation."""
        x, y = rng.uniform(-1.0, 1.0, 2).tolist()
        return (x, y, *random_quaternion(rng))

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        return Transform((Translation((q[0], q[1], self.radius)), self._turn(q)))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the three rotations about the contact point."""
        up = self._up(q)
        return tuple(Motion(axis, cross(axis, up)) for axis in IDENTITY3)

    def motion(self, q: Scalars, v: Scalars) -> Motion:
        """Return S v: a rotation about the contact point."""
        omega = vec3(v, "v")
        return Motion(omega, cross(omega, self._up(q)))

    def subspace_rate(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return Sdot: in body coordinates, the normal of the plane rotates backward."""
        rate = cross(self._up(q), vec3(v, "v"))
        return tuple(Motion(ZERO3, cross(axis, rate)) for axis in IDENTITY3)

    def bias(self, q: Scalars, v: Scalars) -> Motion:
        """Return Sdot v: in body coordinates, the normal of the plane rotates backward."""
        omega = vec3(v, "v")
        return Motion(ZERO3, negate(cross(omega, cross(omega, self._up(q)))))

    def bias_derivative(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return the derivative of Sdot v by position."""
        omega, up = vec3(v, "v"), self._up(q)
        turned = (cross(up, axis) for axis in IDENTITY3)
        return tuple(Motion(ZERO3, negate(cross(omega, cross(omega, x)))) for x in turned)

    def position_rate(self, q: Scalars, v: Scalars) -> tuple[Scalar, ...]:
        """Return the velocity of the center in joint axes, and the rate of the quaternion."""
        _, _, _, x, y = self.step(q, v)
        return (x, y, *quaternion_rate(_quaternion(q), vec3(v, "v")))

    def velocity_of_rate(self, q: Scalars, qd: Scalars) -> tuple[Scalar, ...]:
        """Return the angular velocity, from the rate of the quaternion alone."""
        return angular_velocity_of_rate(_quaternion(q), _quaternion(qd))

    def integrate(self, q: Scalars, dv: Scalars) -> tuple[Scalar, ...]:
        """Return the position after rolling at constant body velocity: along a straight line."""
        return self.move(q, self.step(q, dv))

    def step(self, q: Scalars, v: Scalars) -> tuple[Scalar, ...]:
        """Return angular velocity in body axes, and velocity of the center in joint axes."""
        x, y, _ = quaternion_rotate(_quaternion(q), vec3(v, "v"))
        return (*v, self.radius * y, -self.radius * x)

    def move(self, q: Scalars, step: Scalars) -> tuple[Scalar, ...]:
        """Return the position after a rotation in body axes and a translation in joint axes."""
        turn = quaternion_exp(vec3(step[:3], "step"))
        return (q[0] + step[3], q[1] + step[4], *quaternion_multiply(_quaternion(q), turn))

    def bracket(self, a: Scalars, b: Scalars) -> tuple[Scalar, ...]:
        """Return the commutator of two steps: rotations do not commute, translations do.

        It is not a rolling motion: steps have five entries, velocities three.
        """
        return (*cross(vec3(a[:3], "a"), vec3(b[:3], "b")), 0.0, 0.0)

    def difference(self, q0: Scalars, q1: Scalars) -> tuple[Scalar, ...]:
        """Return the velocity step that reaches the orientation of q1, rotating by at most pi.

        In general it does not reach the position of q1; only `displacement` vanishes exactly for
        equal positions.
        """
        back = quaternion_conjugate(_quaternion(q0))
        return quaternion_log(quaternion_multiply(back, _quaternion(q1)))

    def displacement(self, q0: Scalars, q1: Scalars) -> tuple[Scalar, ...]:
        """Return the rotation in body axes and the translation in joint axes from q0 to q1."""
        return (*self.difference(q0, q1), q1[0] - q0[0], q1[1] - q0[1])

    def normalize(self, q: Scalars) -> tuple[Scalar, ...]:
        """Return the same position with a quaternion of length 1."""
        return (q[0], q[1], *quaternion_normalize(_quaternion(q)))

    def _turn(self, q: Scalars) -> Rotation:
        return to_body_axes(_quaternion(q), self.name, "order x, y, then w, x, y, z")

    def _up(self, q: Scalars) -> Vec3:
        """Return the vector from the contact point to the center, in body axes [m]."""
        return scale(self._turn(q).direction((0.0, 0.0, 1.0)), self.radius)


def _quaternion(q: Scalars) -> Quaternion:
    _, _, w, x, y, z = q
    return (w, x, y, z)
