"""States to check a robot in: away from zero, where nothing hides behind symmetry."""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import UnknownNameError
from tiburon.functions.closed_loops import project_configuration, project_velocity
from tiburon.model import Model

__all__ = ["Kicked", "kicked_states", "start_position"]

Array = NDArray[np.float64]

TURN = 0.2
"""Standard deviation of positions about the start [rad or m]."""

CLOSED, HALVINGS = 1e-9, 8
"""Gap of closed loops [m or rad]; how often a kick that they cannot follow is halved."""

SPEED = 0.5
"""Standard deviation of velocities [rad/s or m/s]."""


class Kicked(NamedTuple):
    """Some states of a robot, loops closed."""

    q: Array
    """Positions [m or rad], shape (n, nq)."""

    v: Array
    """Joint velocities [m/s or rad/s], shape (n, nv)."""


def start_position(model: Model, pose: str | None = None) -> Array:
    """Return a named position; by default the neutral one, or the first named one with loops.

    Raises:
        UnknownNameError: If there is no such pose.
    """
    if pose is None and model.loops and model.poses:
        pose = next(iter(model.poses))
    if pose is None:
        return model.neutral()
    if pose not in model.poses:
        raise UnknownNameError("pose", pose, tuple(model.poses))
    return np.array(model.poses[pose])


def kicked_states(model: Model, q: Array, count: int, seed: int) -> Kicked:
    """Return states about a position, within the limits of joints.

    Args:
        model: The robot.
        q: Position [m or rad], shape (nq,).
        count: How many.
        seed: Of the random numbers.
    """
    random = np.random.default_rng(seed)
    steps = TURN * random.standard_normal((count, model.nv))
    position = model.integrate(np.broadcast_to(q, (count, model.nq)), steps)
    for joint in model.joints:
        # hinges and slides have one number, which their limits bound
        if joint.nq == 1 and joint.limits is not None:
            where = model.slice(joint.name, of="q")
            lower, upper = (
                float(np.min(np.asarray(x))) for x in (joint.limits.lower, joint.limits.upper)
            )
            inside = 0.05 * (upper - lower) if np.isfinite(upper - lower) else 0.0
            position[:, where] = np.clip(position[:, where], lower + inside, upper - inside)
    v = SPEED * random.standard_normal((count, model.nv))
    if model.loops:
        position = _closed(model, q, position)
        v = project_velocity(model, position, v)
    return Kicked(position, v)


def _closed(model: Model, q: Array, kicked: Array) -> Array:
    """Return positions with closed loops: as far from the start as these can be closed.

    Args:
        model: The robot.
        q: Position with closed loops [m or rad], shape (nq,).
        kicked: Positions about it, shape (n, nq).
    """
    start = np.broadcast_to(q, kicked.shape)
    share = np.ones((len(kicked), 1))
    way = np.asarray(model.difference(start, kicked))
    for _ in range(HALVINGS):
        found = project_configuration(model, model.integrate(start, share * way))
        left_open = ~(np.asarray(found.gap) <= CLOSED)
        if not left_open.any():
            break
        share[left_open] *= 0.5
    return np.where(left_open[:, None], start, found.q)
