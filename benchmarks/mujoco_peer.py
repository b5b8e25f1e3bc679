"""Our models and states in MuJoCo's terms, with everything off that is not forward dynamics.

MuJoCo orders the free joint as q = [position, quaternion (w, x, y, z)] and v = [linear velocity in
world axes, angular velocity in body axes]; its linear acceleration is the derivative of the linear
velocity in world axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

import tiburon as tb

Array = NDArray[np.float64]

# no constraint is ever assembled or solved, nothing collides, no spring, damper, motor or sensor
DISABLED = (
    "CONSTRAINT",
    "EQUALITY",
    "FRICTIONLOSS",
    "LIMIT",
    "CONTACT",
    "SPRING",
    "DAMPER",
    "ACTUATION",
    "SENSOR",
    "WARMSTART",
    "ISLAND",
    "MIDPHASE",
    "AUTORESET",
)


def _quaternion(rotation: Any) -> Array:
    """Turn a rotation matrix into MuJoCo's quaternion (w, x, y, z)."""
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, np.array(rotation, dtype=float).ravel())
    return quaternion


def _add_joint(body: Any, joint: Any) -> None:
    if joint.kind == "fixed":
        return
    if joint.kind == "free":
        body.add_joint(name=joint.name, type=mujoco.mjtJoint.mjJNT_FREE)
        return
    if joint.kind == "spherical":
        body.add_joint(name=joint.name, type=mujoco.mjtJoint.mjJNT_BALL)
        return
    if joint.kind == "universal":
        for letter, axis in zip("xy", (joint.axis, joint.second_axis), strict=True):
            body.add_joint(
                name=f"{joint.name}.{letter}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=list(axis)
            )
        return
    if joint.offset != 0.0:
        raise ValueError(f"joint {joint.name!r}: an offset has no counterpart in MuJoCo")
    kinds = {"revolute": mujoco.mjtJoint.mjJNT_HINGE, "prismatic": mujoco.mjtJoint.mjJNT_SLIDE}
    body.add_joint(name=joint.name, type=kinds[joint.kind], axis=list(joint.axis))


def write_spec(model: tb.Model, gravity: tuple[float, float, float]) -> tuple[Any, dict[str, Any]]:
    """Describe the bodies of a robot to MuJoCo, without its loops.

    Args:
        model: Ours; bodies listed depth first.
        gravity: In world axes [m/s^2].

    Returns:
        A mujoco.MjSpec, and its bodies by name.
    """
    spec = mujoco.MjSpec()
    # frames and inertias are to stay as given
    spec.compiler.alignfree = False
    spec.compiler.balanceinertia = False
    spec.compiler.fusestatic = False
    spec.option.gravity = list(gravity)
    place = {"world": spec.worldbody}
    for body in model.bodies:
        pose = body.joint.pose
        made = place[body.parent].add_body(
            name=body.name, pos=list(pose.translation), quat=_quaternion(pose.rotation)
        )
        _add_joint(made, body.joint)
        if body.inertia.mass > 0.0:
            xx, xy, xz, yy, yz, zz = body.inertia.tensor
            made.mass, made.ipos = body.inertia.mass, list(body.inertia.com)
            made.fullinertia = [xx, yy, zz, xy, xz, yz]
            made.explicitinertial = True
        place[body.name] = made
    return spec, place


def build_mujoco(
    model: tb.Model, gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
) -> tuple[Any, Any]:
    """Build the same robot for MuJoCo, without constraints, contacts and passive forces.

    Args:
        model: Ours; bodies listed depth first.
        gravity: In world axes [m/s^2].

    Returns:
        A mujoco.MjModel and a mujoco.MjData.
    """
    spec, _ = write_spec(model, gravity)
    peer = spec.compile()
    for word in DISABLED:
        peer.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{word}")
    return peer, mujoco.MjData(peer)


def _free_joints(model: tb.Model, q: Array) -> Iterator[tuple[int, int, Array]]:
    """Go through the free joints: where q and v begin, and the rotation to world axes."""
    for joint in model.joints:
        if joint.kind == "free":
            iq, iv = model.slice(joint.name, of="q").start, model.slice(joint.name, of="v").start
            rotation = np.zeros(9)
            mujoco.mju_quat2Mat(rotation, np.ascontiguousarray(q[iq : iq + 4]))
            yield iq, iv, rotation.reshape(3, 3)


def set_state(model: tb.Model, data: Any, q: Array, v: Array, tau: Array) -> None:
    """Give MuJoCo a state and joint forces.

    Args:
        model: The robot.
        data: Its mujoco.MjData.
        q: Position in our order, shape (nq,).
        v: Velocity in our order, shape (nv,).
        tau: Joint force in our order, shape (nv,).
    """
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
    for iq, iv, R in _free_joints(model, q):
        data.qpos[iq : iq + 7] = [*q[iq + 4 : iq + 7], *q[iq : iq + 4]]
        data.qvel[iv : iv + 6] = [*(R @ v[iv + 3 : iv + 6]), *v[iv : iv + 3]]
        data.qfrc_applied[iv : iv + 6] = [*(R @ tau[iv + 3 : iv + 6]), *tau[iv : iv + 3]]


def acceleration_from_mujoco(model: tb.Model, q: Array, v: Array, qacc: Array) -> Array:
    """Bring an acceleration of MuJoCo into our order and axes.

    Args:
        model: The robot.
        q: Position in our order, shape (nq,).
        v: Velocity in our order, shape (nv,).
        qacc: MuJoCo's acceleration, shape (nv,).

    Returns:
        Derivative of our v, shape (nv,).
    """
    vd = np.array(qacc)
    for _, iv, R in _free_joints(model, q):
        omega, linear = v[iv : iv + 3], v[iv + 3 : iv + 6]
        vd[iv : iv + 3] = qacc[iv + 3 : iv + 6]
        # body axes turn: d(R v)/dt = R (vd + omega x v)
        vd[iv + 3 : iv + 6] = R.T @ qacc[iv : iv + 3] - np.cross(omega, linear)
    return vd


def forward_by_stages(peer: Any, data: Any) -> Array:
    """Compute the acceleration by the least that MuJoCo offers, stage by stage from Python.

    Args:
        peer: A mujoco.MjModel.
        data: Its mujoco.MjData, with state and joint forces set.

    Returns:
        The acceleration in MuJoCo's order, shape (nv,).
    """
    mujoco.mj_kinematics(peer, data)
    mujoco.mj_comPos(peer, data)
    mujoco.mj_makeM(peer, data)
    mujoco.mj_factorM(peer, data)
    mujoco.mj_comVel(peer, data)
    mujoco.mj_rne(peer, data, 0, data.qfrc_bias)
    force = (data.qfrc_applied - data.qfrc_bias).reshape(1, -1)
    acceleration = np.empty_like(force)
    mujoco.mj_solveM(peer, data, acceleration, force)
    return acceleration[0]
