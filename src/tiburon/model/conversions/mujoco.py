"""State order of MuJoCo.

Joints are listed depth first. A free body has q = [position, quaternion (w, x, y, z)] in the world
and v = [velocity of its origin in world axes, angular velocity in body axes]; its acceleration is
the derivative of that v, so its linear part is the acceleration of the origin, not the spatial one.
Joints with several degrees of freedom are several hinges and slides of one body, with variables as
ours.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ShapeError
from tiburon.model.configuration import as_batch
from tiburon.model.conversions.converter import Converter, JointValues
from tiburon.model.conversions.joint_map import (
    JointMap,
    checked_quaternion,
    joint_maps,
    multiplied,
    no_counterpart,
    rotated,
    rotated_back,
    world_pose,
)
from tiburon.model.joints import Joint
from tiburon.model.pose import Pose
from tiburon.spatial import matrix_to_quaternion

if TYPE_CHECKING:
    from tiburon.model.model import Model

Array = NDArray[np.float64]

_SAME = ("revolute", "prismatic", "cylindrical", "universal", "planar", "spherical")


class _Free(JointMap):
    """Pose in the world; linear velocity in world axes, angular in body axes."""

    needs_velocity = True

    def __init__(self, joint: Joint, pose: Pose) -> None:
        """Store the joint frame's pose in the world, which MuJoCo does not have.

        Args:
            joint: A free joint on the world.
            pose: Its joint frame in the world.
        """
        super().__init__(joint)
        self.placed = pose != Pose()
        self.turn = np.array(matrix_to_quaternion(pose.rotation), dtype=np.float64)
        self.origin = np.array(pose.translation)

    def q_to(self, q: Array) -> Array:
        quaternion, position = checked_quaternion(q[..., :4], self.joint), q[..., 4:]
        if self.placed:
            quaternion = multiplied(self.turn, quaternion)
            position = rotated(self.turn, position) + self.origin
        return np.concatenate([position, quaternion], axis=-1)

    def q_from(self, q: Array) -> Array:
        position, quaternion = q[..., :3], checked_quaternion(q[..., 3:], self.joint)
        if self.placed:
            quaternion = multiplied(self.turn * np.array([1.0, -1.0, -1.0, -1.0]), quaternion)
            position = rotated_back(self.turn, position - self.origin)
        return np.concatenate([quaternion, position], axis=-1)

    def turned(self, q: Array, x: Array) -> Array:
        linear = rotated(self._to_world(q), x[..., 3:])
        return _halves(linear, x[..., :3])

    def turned_back(self, q: Array, x: Array) -> Array:
        linear = rotated_back(self._to_world(q), x[..., :3])
        return _halves(x[..., 3:], linear)

    def drift(self, q: Array, v: Array) -> Array:
        # d(R v)/dt = R (vd + omega x v)
        linear = rotated(self._to_world(q), np.cross(v[..., :3], v[..., 3:]))
        return _halves(linear, np.zeros_like(linear))

    def _to_world(self, q: Array) -> Array:
        quaternion = checked_quaternion(q[..., :4], self.joint)
        return multiplied(self.turn, quaternion) if self.placed else quaternion


def _halves(first: Array, second: Array) -> Array:
    shape = np.broadcast_shapes(first.shape, second.shape)
    return np.concatenate([np.broadcast_to(first, shape), np.broadcast_to(second, shape)], axis=-1)


def _converter(model: "Model", joints: Iterable[str] | None) -> Converter:
    def choose(joint: Joint) -> JointMap:
        if joint.kind == "free":
            return _Free(joint, world_pose(model, joint, "MuJoCo"))
        if joint.kind in _SAME:
            return JointMap(joint)
        raise no_counterpart(joint, "MuJoCo")

    return Converter(model, joint_maps(model, joints, choose))


@public
def to_mujoco(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: Iterable[str] | None = None,
) -> JointValues:
    """Convert the state of a robot to MuJoCo's qpos, qvel, qacc and qfrc.

    Joint offsets belong to the model, not to its positions, as here.

    Args:
        model: The robot; free joints on the world only.
        q: Position [m or rad], shape (..., nq).
        v: Velocity [m/s or rad/s], shape (..., nv).
        acceleration: Rate of v, shape (..., nv); that of a free joint also needs v.
        force: Joint force [N or N m], shape (..., nv).
        joints: Our moving joints in MuJoCo's order; by default depth first, branches in the order
            of our bodies.

    Returns:
        `q`, `v`, `acceleration` and `force` in MuJoCo's order; None where none was given.

    Example:
        ``data.qpos, data.qvel, *_ = to_mujoco(dog, q, v)``
    """
    return _converter(model, joints).to_theirs(q, v, acceleration, force)


@public
def from_mujoco(
    model: "Model",
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    acceleration: ArrayLike | None = None,
    force: ArrayLike | None = None,
    joints: Iterable[str] | None = None,
) -> JointValues:
    """Convert the state of a robot from MuJoCo; the inverse of `to_mujoco`.

    Arguments are MuJoCo's qpos, qvel, qacc and qfrc; `joints` as in `to_mujoco`.
    """
    return _converter(model, joints).to_ours(q, v, acceleration, force)


@public
def motion_to_mujoco(motion: ArrayLike, rotation: ArrayLike) -> Array:
    """Convert a frame velocity to that of `mj_objectVelocity`: [omega; v], world axes.

    Args:
        motion: [omega; v] at the frame's origin, frame axes [rad/s, m/s], shape (..., 6).
        rotation: From frame axes to world axes, shape (..., 3, 3).

    Returns:
        The same at the same point in world axes, shape (..., 6). In frame axes (``flg_local=1``)
        MuJoCo's values equal ours.
    """
    x, R = as_batch(motion, 6, "motion", "6 (a motion)"), _rotation(rotation)
    return _halves(_apply(R, x[..., :3]), _apply(R, x[..., 3:]))


@public
def motion_from_mujoco(motion: ArrayLike, rotation: ArrayLike) -> Array:
    """Convert a velocity of `mj_objectVelocity` in world axes; see `motion_to_mujoco`."""
    return motion_to_mujoco(motion, np.swapaxes(_rotation(rotation), -1, -2))


@public
def wrench_to_mujoco(
    wrench: ArrayLike, rotation: ArrayLike, com: ArrayLike = (0.0, 0.0, 0.0)
) -> Array:
    """Convert a wrench on a body to a row of `xfrc_applied`: [f; n], world axes, center of mass.

    Args:
        wrench: [n; f] at the frame's origin, frame axes [N m, N], shape (..., 6).
        rotation: From frame axes to world axes, shape (..., 3, 3).
        com: Center of mass of the body in the frame, where MuJoCo lets forces act [m],
            shape (..., 3).
    """
    x, R = as_batch(wrench, 6, "wrench", "6 (a wrench)"), _rotation(rotation)
    moment, force = x[..., :3], x[..., 3:]
    moment = moment - np.cross(as_batch(com, 3, "com", "3 (a point)"), force)
    return _halves(_apply(R, force), _apply(R, moment))


@public
def wrench_from_mujoco(
    wrench: ArrayLike, rotation: ArrayLike, com: ArrayLike = (0.0, 0.0, 0.0)
) -> Array:
    """Convert a row of `xfrc_applied` to a wrench at a frame; the inverse of `wrench_to_mujoco`."""
    x, R = as_batch(wrench, 6, "wrench", "6 (a wrench)"), _rotation(rotation)
    back = np.swapaxes(R, -1, -2)
    force, moment = _apply(back, x[..., :3]), _apply(back, x[..., 3:])
    return _halves(moment + np.cross(as_batch(com, 3, "com", "3 (a point)"), force), force)


def _rotation(rotation: ArrayLike) -> Array:
    R = as_batch(rotation, 3, "rotation", "3 x 3 (rotation matrices)")
    if R.ndim < 2 or R.shape[-2] != 3:
        raise ShapeError("rotation", "3 x 3 (rotation matrices)", f"shape {R.shape}")
    return R


def _apply(R: Array, x: Array) -> Array:
    product: Array = np.einsum("...ij,...j->...i", R, x)
    return product
