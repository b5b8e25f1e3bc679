"""Marine notation: eta, nu and tau of Fossen (SNAME 1950), z down, linear part first.

    eta = [north, east, down; roll, pitch, yaw]    pose of the craft in the world
    nu  = [u, v, w; p, q, r]                       velocity of its origin, body axes
    tau = [X, Y, Z; K, M, N]                       force and moment at its origin, body axes

Body axes point forward, to the right (starboard) and down. This is the one place that converts
worlds and bodies with z down; all changes of axes are by right angles, so values only change
position and sign. R = Rz(yaw) Ry(pitch) Rx(roll) as for our roll, pitch and yaw.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, OptionError, ShapeError
from tiburon.model.configuration import as_batch
from tiburon.model.conversions.converter import Converter, JointValues
from tiburon.model.conversions.joint_map import (
    JointMap,
    checked_quaternion,
    joint_maps,
    multiplied,
    rotated,
    rotated_back,
    world_pose,
)
from tiburon.model.joints import Joint
from tiburon.model.pose import Pose
from tiburon.spatial import (
    matrix_to_quaternion,
    quaternion_to_matrix,
    roll_pitch_yaw_to_quaternion,
)

if TYPE_CHECKING:
    from tiburon.model.model import Model

Array = NDArray[np.float64]

_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])

WORLD_AXES: dict[str, Array] = {
    "nwu": np.diag([1.0, -1.0, -1.0]),
    "enu": np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]),
    "ned": np.eye(3),
}
"""North, east, down from our world axes, by name."""

BODY_AXES: dict[str, Array] = {
    "flu": np.diag([1.0, -1.0, -1.0]),
    "frd": np.eye(3),
}
"""Forward, right, down from our body axes, by name."""

GIMBAL_COSINE = 1e-12
"""Cosine of the pitch below which roll and yaw are not unique (gimbal lock)."""


class _Craft(JointMap):
    """The free joint of the craft."""

    def __init__(self, joint: Joint, pose: Pose, world: Array, body: Array) -> None:
        """Prepare the changes of axes.

        Args:
            joint: A free joint on the world.
            pose: Its joint frame in the world.
            world: Rotation matrix from our world axes to north, east, down.
            body: Rotation matrix from our body axes to forward, right, down.
        """
        super().__init__(joint)
        self.nq = 6
        axes = world @ np.array(pose.rotation)
        self.turn = np.array(matrix_to_quaternion(axes), dtype=np.float64)
        self.origin = world @ np.array(pose.translation)
        self.body_turn = np.array(matrix_to_quaternion(body), dtype=np.float64)
        self.six = _six(body)

    def q_to(self, q: Array) -> Array:
        quaternion = checked_quaternion(q[..., :4], self.joint)
        position = rotated(self.turn, q[..., 4:]) + self.origin
        attitude = multiplied(multiplied(self.turn, quaternion), self.body_turn * _CONJUGATE)
        return np.concatenate([position, _roll_pitch_yaw(attitude)], axis=-1)

    def q_from(self, q: Array) -> Array:
        roll, pitch, yaw = np.moveaxis(q[..., 3:], -1, 0)
        attitude = np.stack(roll_pitch_yaw_to_quaternion(roll, pitch, yaw), axis=-1)
        quaternion = multiplied(multiplied(self.turn * _CONJUGATE, attitude), self.body_turn)
        position = rotated_back(self.turn, q[..., :3] - self.origin)
        return np.concatenate([quaternion, position], axis=-1)

    def turned(self, q: Array, x: Array) -> Array:
        return x @ self.six.T

    def turned_back(self, q: Array, x: Array) -> Array:
        return x @ self.six


def _six(body: Array) -> Array:
    """Return the matrix from [omega; v] in our axes to [v; omega] in theirs: orthogonal."""
    zero = np.zeros((3, 3))
    return np.block([[zero, body], [body, zero]])


def _roll_pitch_yaw(quaternion: Array) -> Array:
    """Return roll, pitch, yaw of quaternions, shape (..., 3); roll is zero at pitch +-pi/2."""
    R = quaternion_to_matrix(list(np.moveaxis(quaternion, -1, 0)))
    horizontal = np.hypot(R[0][0], R[1][0])
    upright = horizontal < GIMBAL_COSINE
    roll = np.where(upright, 0.0, np.arctan2(R[2][1], R[2][2]))
    yaw = np.where(upright, np.arctan2(-R[0][1], R[1][1]), np.arctan2(R[1][0], R[0][0]))
    return np.stack([roll, np.arctan2(-R[2][0], horizontal), yaw], axis=-1)


def _axes(world: str, body: str) -> tuple[Array, Array]:
    """Return the changes of axes by name."""
    if world not in WORLD_AXES:
        raise OptionError("world_axes", tuple(WORLD_AXES), world)
    if body not in BODY_AXES:
        raise OptionError("body_axes", tuple(BODY_AXES), body)
    return WORLD_AXES[world], BODY_AXES[body]


def _converter(
    model: "Model", joints: Iterable[str] | None, world_axes: str, body_axes: str
) -> Converter:
    world, body = _axes(world_axes, body_axes)
    crafts = [joint.name for joint in model.joints if joint.kind == "free"]
    if len(crafts) != 1:
        raise ModelError(
            f"model {model.name!r}: marine notation needs exactly one free joint, the craft's, "
            f"got {len(crafts)} ({', '.join(crafts) or 'none'}); convert a part of the model"
        )

    def choose(joint: Joint) -> JointMap:
        if joint.kind != "free":
            return JointMap(joint)
        return _Craft(joint, world_pose(model, joint, "marine notation"), world, body)

    return Converter(model, joint_maps(model, joints, choose))


@public
def to_fossen(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: Iterable[str] | None = None,
    world_axes: str = "nwu",
    body_axes: str = "flu",
) -> JointValues:
    """Convert the state of a craft, with or without arms, to marine notation.

    Args:
        model: The robot, with one free joint on the world: the craft.
        q: Position [m or rad], shape (..., nq).
        v: Velocity [m/s or rad/s], shape (..., nv).
        acceleration: Rate of v, shape (..., nv).
        force: Joint force [N or N m], shape (..., nv).
        joints: Our moving joints in the desired order; depth first by default.
        world_axes: Meaning of our world axes x, y, z: "nwu" (north, west, up), "enu" (east, north,
            up) or "ned" (north, east, down, as in marine notation).
        body_axes: Meaning of the craft's body axes: "flu" (forward, left, up) or "frd" (forward,
            right, down, as in marine notation).

    Returns:
        `q` = eta and the other joints' positions, shape (..., nq - 1); `v` = nu and their rates;
        `acceleration` = rates of these; `force` = tau and their forces; None where none was given.
        Angles lie between -pi and pi, pitch between -pi/2 and pi/2.

    Example:
        ``eta, nu, *_ = to_fossen(rov, q, v)``
    """
    converter = _converter(model, joints, world_axes, body_axes)
    return converter.to_theirs(q, v, acceleration, force)


@public
def from_fossen(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: Iterable[str] | None = None,
    world_axes: str = "nwu",
    body_axes: str = "flu",
) -> JointValues:
    """Convert the state of a craft from marine notation; the inverse of `to_fossen`.

    Arguments are eta, nu, the rate of nu and tau, each followed by the other joints' values;
    options as for `to_fossen`.
    """
    converter = _converter(model, joints, world_axes, body_axes)
    return converter.to_ours(q, v, acceleration, force)


@public
def six_vector_to_fossen(x: ArrayLike, *, body_axes: str = "flu") -> Array:
    """Convert a motion to nu or a wrench to tau: linear part first, z down; same origin.

    Args:
        x: [omega; v] or [n; f], shape (..., 6).
        body_axes: Meaning of our axes: "flu" or "frd".
    """
    _, body = _axes("nwu", body_axes)
    return as_batch(x, 6, "x", "6 (a motion or a wrench)") @ _six(body).T


@public
def six_vector_from_fossen(x: ArrayLike, *, body_axes: str = "flu") -> Array:
    """Convert nu to a motion or tau to a wrench; the inverse of `six_vector_to_fossen`."""
    _, body = _axes("nwu", body_axes)
    return as_batch(x, 6, "x", "6 (a motion or a wrench)") @ _six(body)


@public
def matrix_to_fossen(matrix: ArrayLike, *, body_axes: str = "flu") -> Array:
    """Convert an inertia, added-mass or damping matrix to marine order and axes.

    Args:
        matrix: Maps motions to wrenches, angular rows and columns first, shape (..., 6, 6).
        body_axes: Meaning of our axes: "flu" or "frd".
    """
    _, body = _axes("nwu", body_axes)
    T = _six(body)
    return T @ _matrix6(matrix) @ T.T


@public
def matrix_from_fossen(matrix: ArrayLike, *, body_axes: str = "flu") -> Array:
    """Convert an inertia, added-mass or damping matrix; the inverse of `matrix_to_fossen`."""
    _, body = _axes("nwu", body_axes)
    T = _six(body)
    return T.T @ _matrix6(matrix) @ T


def _matrix6(matrix: ArrayLike) -> Array:
    M = as_batch(matrix, 6, "matrix", "6 x 6")
    if M.ndim < 2 or M.shape[-2] != 6:
        raise ShapeError("matrix", "6 x 6", f"shape {M.shape}")
    return M
