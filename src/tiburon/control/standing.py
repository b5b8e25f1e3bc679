"""Control of robots that stand: joints held stiffly enough to carry the robot."""

import numpy as np

from tiburon.actuation.joint_stops import apparent_joint_inertia
from tiburon.arrays import NDArray
from tiburon.control.pd import PD
from tiburon.functions.dynamics import mass_matrix
from tiburon.model import Model, World

FREQUENCY = 40.0
"""Closed-loop frequency of held joints [rad/s]."""

LOAD = 60.0
"""Inertia that joints of legs move, relative to their own: they carry the robot."""

DAMPING_RATE = 1000.0
"""Fastest decay that damping may cause [1/s]: steps of 1 ms, which are explicit, stay stable."""


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
    places = [model.slice(joint.name, of="v").start for joint in held]
    own = apparent_joint_inertia(model)[places]
    # all joints are damped at once, so the fastest decay is that of their common motions
    response = np.linalg.inv(mass_matrix(model, q))[np.ix_(places, places)] * own
    fastest = float(np.abs(np.linalg.eigvals(response)).max())
    damping = min(2.0 * FREQUENCY * np.sqrt(LOAD), DAMPING_RATE / fastest)
    return PD(
        tuple(float(q[model.slice(joint.name).start]) for joint in held),
        tuple((FREQUENCY**2 * LOAD * own).tolist()),
        tuple((damping * own).tolist()),
        joints=tuple(joint.name for joint in held),
    )
