"""Maps of one joint's variables to other codes.

Codes differ in the order of joints, in the order of variables within a joint, and in the axes of
velocities. Per joint the velocities of both are related by

    v_theirs = T(q) v_ours,

with T orthogonal: a permutation, a rotation of axes, or both. Hence forces transform like
velocities, and accelerations by

    a_theirs = T a_ours + Tdot v_ours.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError
from tiburon.model.body import WORLD
from tiburon.model.joints import Joint
from tiburon.model.pose import Pose
from tiburon.spatial import quaternion_multiply, quaternion_rotate, quaternion_square

if TYPE_CHECKING:
    from tiburon.model.model import Model

Array = NDArray[np.float64]

MIN_QUATERNION_LENGTH = 0.5
"""Quaternions shorter than this are rejected as a wrong slice."""


class JointMap:
    """Map of one joint's variables; the identity, unless a subclass differs."""

    needs_velocity = False
    """Whether accelerations depend on velocities."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.nq = joint.nq

    def q_to(self, q: Array) -> Array:
        """Return their positions, from ours, shape (..., nq of the joint)."""
        return q

    def q_from(self, q: Array) -> Array:
        """Return our positions, from theirs."""
        return q

    def turned(self, q: Array, x: Array) -> Array:
        """Return T x: velocities or forces of ours in their order and axes; q is ours."""
        return x

    def turned_back(self, q: Array, x: Array) -> Array:
        """Return T^T x: velocities or forces of theirs in our order and axes; q is ours."""
        return x

    def drift(self, q: Array, v: Array) -> Array:
        """Return Tdot v, both ours."""
        return np.zeros_like(v)


def depth_first(model: "Model", *, alphabetical: bool = False) -> tuple[str, ...]:
    """Return the moving joints depth first, the order of most other codes.

    Args:
        model: The robot.
        alphabetical: Whether branches of a body go by the names of their joints, rather than in
            the order of the model's bodies.
    """
    children: dict[str, list[int]] = {}
    for index, body in enumerate(model.bodies):
        children.setdefault(body.parent, []).append(index)

    def branches(parent: str) -> list[int]:
        found = children.get(parent, [])
        if alphabetical:
            found = sorted(found, key=lambda index: model.bodies[index].joint.name)
        return found[::-1]

    order: list[str] = []
    waiting = branches(WORLD)
    while waiting:
        body = model.bodies[waiting.pop()]
        if body.joint.nv > 0:
            order.append(body.joint.name)
        waiting.extend(branches(body.name))
    return tuple(order)


def joint_maps(
    model: "Model", joints: Iterable[str] | None, choose: Callable[[Joint], JointMap]
) -> list[JointMap]:
    """Return the maps of all moving joints, in the other code's order.

    Args:
        model: The robot.
        joints: Names of our moving joints in their order; depth first by default.
        choose: Returns the map of a joint, or raises.
    """
    names = depth_first(model) if joints is None else tuple(joints)
    if sorted(names) != sorted(model.moving_joint_names):
        missing = sorted(set(model.moving_joint_names).difference(names))
        extra = sorted(name for name in names if name not in model.moving_joint_names)
        raise ModelError(
            f"model {model.name!r}: joints must name every moving joint once, got "
            f"{len(names)} names for {len(model.moving_joint_names)} joints "
            f"(missing {missing}, unknown or fixed {extra}); model.moving_joint_names lists them"
        )
    return [choose(model.joint(name)) for name in names]


def no_counterpart(joint: Joint, code: str) -> ModelError:
    """Return the error for a joint that the other code does not have."""
    return ModelError(
        f"joint {joint.name!r}: a {joint.kind} joint has no counterpart in {code}; "
        "convert a model without it",
        name=joint.name,
    )


def world_pose(model: "Model", joint: Joint, code: str) -> Pose:
    """Return the joint frame of a free root in the world.

    Args:
        model: The robot.
        joint: A free joint.
        code: Name of the other code, whose free bodies all float in the world.
    """
    body = next(body for body in model.bodies if body.joint is joint)
    pose = joint.pose
    while body.parent != WORLD:
        body = model.body(body.parent)
        if not body.joint.is_rigid:
            raise ModelError(
                f"joint {joint.name!r}: a free joint must float in the world in {code}, got the "
                f"moving parent {body.name!r}; convert a model without it",
                name=joint.name,
            )
        pose = body.joint.pose @ pose
    return pose


def rotated(quaternion: Array, x: Array) -> Array:
    """Return vectors of body axes in world axes.

    Args:
        quaternion: (w, x, y, z), of any length, shape (..., 4).
        x: Shape (..., 3).
    """
    return _stack(quaternion_rotate(_columns(quaternion), _columns(x)))


def rotated_back(quaternion: Array, x: Array) -> Array:
    """Return vectors of world axes in body axes."""
    return rotated(quaternion * np.array([1.0, -1.0, -1.0, -1.0]), x)


def multiplied(p: Array, q: Array) -> Array:
    """Return the products of quaternions, shape (..., 4)."""
    return _stack(quaternion_multiply(_columns(p), _columns(q)))


def checked_quaternion(quaternion: Array, joint: Joint) -> Array:
    """Return the quaternions of a joint, or raise if one is too short."""
    length = float(np.sqrt(np.min(quaternion_square(_columns(quaternion)), initial=1.0)))
    if length < MIN_QUATERNION_LENGTH:
        raise DomainError(
            "q",
            f"a quaternion of joint {joint.name!r} with a length near 1, at least "
            f"{MIN_QUATERNION_LENGTH}",
            f"{length:.3g}",
            advice="check the order of the entries",
        )
    return quaternion


def _columns(x: Array) -> list[Any]:
    return list(np.moveaxis(x, -1, 0))


def _stack(columns: Iterable[Any]) -> Array:
    return np.stack(np.broadcast_arrays(*columns), axis=-1)
