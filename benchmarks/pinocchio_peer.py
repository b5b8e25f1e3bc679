"""Our models and states in Pinocchio's terms.

Pinocchio orders the free joint as q = [position, quaternion (x, y, z, w)], v = [linear, angular],
both velocities in body axes at the body origin, as ours.
"""

from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

import tiburon as tb

Array = NDArray[np.float64]


def _placement(pose: tb.Pose) -> Any:
    return pin.SE3(np.array(pose.rotation), np.array(pose.translation))


def _joint_model(joint: Any) -> Any:
    """Choose the cheapest joint model Pinocchio has, to be fair to it."""
    if joint.kind == "free":
        return pin.JointModelFreeFlyer()
    if joint.kind == "universal":
        return pin.JointModelUniversal(np.array(joint.axis), np.array(joint.second_axis))
    if joint.offset != 0.0:
        raise ValueError(f"joint {joint.name!r}: an offset has no counterpart in Pinocchio")
    letter, word = {"revolute": ("R", "Revolute"), "prismatic": ("P", "Prismatic")}[joint.kind]
    for index, name in enumerate("XYZ"):
        if joint.axis == tuple(float(index == k) for k in range(3)):
            return getattr(pin, f"JointModel{letter}{name}")()
    return getattr(pin, f"JointModel{word}Unaligned")(np.array(joint.axis))


def _inertia(inertia: tb.Inertia) -> Any:
    xx, xy, xz, yy, yz, zz = inertia.tensor
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return pin.Inertia(inertia.mass, np.array(inertia.com), tensor)


def build_pinocchio(
    model: tb.Model, gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
) -> Any:
    """Build the same robot for Pinocchio.

    Args:
        model: Ours; bodies listed depth first.
        gravity: In world axes [m/s^2].

    Returns:
        A pinocchio.Model with joints in the same order.
    """
    peer = pin.Model()
    peer.gravity.linear = np.array(gravity)
    for body in model.bodies:
        place = _places(model, peer)
        parent, offset = place[body.parent]
        if body.joint.kind != "fixed":
            placement = offset * _placement(body.joint.pose)
            peer.addJoint(parent, _joint_model(body.joint), placement, body.joint.name)
            place = _places(model, peer)
        if body.inertia.mass > 0.0:
            peer.appendBodyToJoint(place[body.name][0], _inertia(body.inertia), place[body.name][1])
    armature = np.concatenate([joint.armatures for joint in model.joints if joint.nv] or [[]])
    peer.armature = v_to_pinocchio(model, armature)
    return peer


def _places(model: tb.Model, peer: Any) -> dict[str, tuple[int, Any]]:
    """Return where our bodies and frames sit: a joint of the peer, and a placement in its frame."""
    place = {"world": (0, pin.SE3.Identity())}
    for body in model.bodies:
        if body.joint.kind == "fixed":
            parent, offset = place[body.parent]
            place[body.name] = (parent, offset * _placement(body.joint.pose))
        elif peer.existJointName(body.joint.name):
            place[body.name] = (peer.getJointId(body.joint.name), pin.SE3.Identity())
        else:
            return place
    for frame in model.frames:
        joint, offset = place[frame.body]
        place[frame.name] = (joint, offset * _placement(frame.pose))
    return place


class PinocchioLoops:
    """The loops of one of our models as Pinocchio has them: points or frames held together.

    Pinocchio ties points or whole frames. Hinges of planar mechanisms are points there, with one
    constraint that repeats others and two less than ours.
    """

    def __init__(self, model: tb.Model, peer: Any, gains: tuple[float, float] = (0.0, 0.0)) -> None:
        """Build the constraints.

        Args:
            model: Ours; its loops are rigid grasps, balls, or hinges of a planar mechanism.
            peer: The same robot for Pinocchio.
            gains: Stiffness [1/s^2] and damping [1/s] of Baumgarte's stabilization.
        """
        self.peer, self.data = peer, peer.createData()
        self._models = pin.StdVec_RigidConstraintModel()
        self._datas = pin.StdVec_RigidConstraintData()
        place = _places(model, peer)
        for loop in model.loops:
            (first, at_first), (second, at_second) = place[loop.first], place[loop.second]
            rigid = loop.joint.kind == "fixed"
            tie = pin.RigidConstraintModel(
                pin.ContactType.CONTACT_6D if rigid else pin.ContactType.CONTACT_3D,
                peer,
                first,
                at_first * _placement(loop.joint.pose),
                second,
                at_second * _placement(loop.second_pose),
                pin.ReferenceFrame.LOCAL,
            )
            tie.setBaumgarteCorrectorParameters(pin.BaumgarteCorrectorParameters(*gains))
            self._models.append(tie)
            self._datas.append(tie.createData())
        pin.initConstraintDynamics(peer, self.data, self._models, self._datas)
        # accuracy, softness and passes: enough for ten digits, as our own answers have
        self._settings = pin.ProximalSettings(1e-12, 1e-10, 10)

    @property
    def call(self) -> tuple[Any, ...]:
        """What to call, before position, velocity and joint force."""
        return pin.constraintDynamics, self.peer, self.data

    @property
    def rest(self) -> tuple[Any, ...]:
        """What to give after them."""
        return self._models, self._datas, self._settings


def _reorder(model: tb.Model, values: Array, of: str, free_order: list[int]) -> Array:
    """Permute the numbers of every free joint; the others keep their places."""
    order = np.arange(values.shape[-1])
    for joint in model.joints:
        if joint.kind == "free":
            where = model.slice(joint.name, of=of)
            order[where] = where.start + np.array(free_order)
    return np.ascontiguousarray(values[..., order])


def q_to_pinocchio(model: tb.Model, q: Array) -> Array:
    """Reorder positions, shape (..., nq): [w, x, y, z, p] to [p, x, y, z, w]."""
    return _reorder(model, q, "q", [4, 5, 6, 1, 2, 3, 0])


def v_to_pinocchio(model: tb.Model, v: Array) -> Array:
    """Reorder velocities, accelerations or forces, shape (..., nv); its own inverse."""
    return _reorder(model, v, "v", [3, 4, 5, 0, 1, 2])


def matrix_from_pinocchio(model: tb.Model, M: Array) -> Array:
    """Reorder a mass matrix of Pinocchio, shape (nv, nv), upper triangle valid, to ours, full."""
    full = np.triu(M) + np.triu(M, 1).T
    return v_to_pinocchio(model, v_to_pinocchio(model, full).T).T
