"""Control of robots that stand: joints held stiffly enough to carry the robot."""

import numpy as np

from tiburon.actuation.joint_stops import apparent_joint_inertia
from tiburon.arrays import NDArray
from tiburon.control.pd import PD
from tiburon.model import Model, World

__all__ = ["hold_stance", "stands"]

FREQUENCY = 40.0
"""Closed-loop frequency of held joints [rad/s]."""

LOAD = 60.0
"""Inertia that joints of legs move, relative to their own: they carry the robot."""


def stands(model: Model, world: World) -> bool:
    """Return whether a robot stands on the ground: a floating one with contact points."""
    floats = model.bodies[0].joint.kind == "free"
    return world.ground is not None and floats and bool(model.contacts)


def hold_stance(model: Model, q: NDArray[np.float64]) -> PD | None:
    """Return a controller that holds all joints with one degree of freedom; None if there are none.

    Args:
        model: The robot.
        q: Configuration to hold [m or rad], shape (nq,).
    """
    held = [
        joint for joint in model.joints if joint.nv == 1 and joint.nq == 1 and joint.follows is None
    ]
    if not held:
        return None
    inertia = apparent_joint_inertia(model)
    own = [float(inertia[model.slice(joint.name, of="v").start]) for joint in held]
    return PD(
        tuple(float(q[model.slice(joint.name).start]) for joint in held),
        tuple(FREQUENCY**2 * LOAD * x for x in own),
        tuple(2.0 * FREQUENCY * np.sqrt(LOAD) * x for x in own),
        joints=tuple(joint.name for joint in held),
    )
