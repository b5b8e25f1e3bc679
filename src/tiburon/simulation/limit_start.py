"""Starts beyond the limits of joints.

The zero position of many robot files is beyond limits of theirs. Joints that are a little beyond
return slowly (`RETURN_RATE` of rigid stops). Springs would throw others back, at hundreds of
radians per second, with energy that nothing has done the work for.
"""

import warnings

import numpy as np

from tiburon.actuation.element import per_degree_of_freedom
from tiburon.actuation.passive import is_axial
from tiburon.arguments import caller_level
from tiburon.arrays import Array, NDArray
from tiburon.errors import DomainError, ModelWarning
from tiburon.model import Coupled, Model
from tiburon.model.model import per_model
from tiburon.simulation.system import System

STARTING_DEPTH = 0.1
"""Distance beyond a limit up to which a run may start: stops are that deep in impacts at some
25 rad/s [m or rad]."""

LEAST_DEPTH = 1e-6
"""Distance beyond a limit that is no contradiction to loops that are closed [m or rad]."""

SAME_POSE = 1e-9
"""Difference of configurations up to which a run starts in a pose [m or rad]."""


@per_model
def position_limits(model: Model) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and largest value of each position variable, infinite for none."""
    low, high = np.full(model.nq, -np.inf), np.full(model.nq, np.inf)
    for joint in model.joints:
        if joint.limits is None or not joint.nq or isinstance(joint, Coupled):
            continue
        if is_axial(joint):
            place = model.slice(joint.name, of="q")
            low[place] = per_degree_of_freedom(joint.limits.lower, joint)
            high[place] = per_degree_of_freedom(joint.limits.upper, joint)
    return low, high


def beyond_limits(model: Model, q: Array) -> str:
    """Return which joint is beyond a limit by more than `LEAST_DEPTH`, in words; "" for none."""
    low, high = position_limits(model)
    depth = np.maximum(low - q, q - high).max(axis=0, initial=-np.inf)
    k = int(np.argmax(depth))
    if depth[k] <= LEAST_DEPTH:
        return ""
    return f"{model.q_names[k]!r} is {depth[k]:.3g} m or rad beyond its limit then"


def within_limits(system: System, q: Array) -> Array:
    """Return the positions in which runs with stops start; see `moved_to_limits`.

    Args:
        system: The robot and its elements.
        q: Positions [m or rad], shape (cases, nq).
    """
    if not system.stops_joints:
        return q
    tied = bool(system.model.loops) and system.held_loops.method.starts_closed
    return moved_to_limits(system.model, q, tied=tied)


def moved_to_limits(model: Model, q: Array, *, tied: bool | None = None) -> Array:
    """Return positions that are not far beyond limits of joints.

    Cases that start in the neutral or a named configuration are moved to the limits, with a
    warning, but for robots with loops; others are refused.

    Args:
        model: The robot.
        q: Positions [m or rad], shape (cases, nq).
        tied: Whether loops start closed, so that others would have to follow a joint that is
            moved; by default where there are loops.

    Raises:
        DomainError: If a joint is beyond a limit by more than `STARTING_DEPTH`; with its name.
    """
    low, high = position_limits(model)
    depth = np.maximum(low - q, q - high)
    far = np.flatnonzero((depth > STARTING_DEPTH).any(axis=-1))
    if not len(far):
        return q
    case, k = np.unravel_index(int(np.argmax(depth)), depth.shape)
    name, most = model.q_names[int(k)], float(depth[case, k])
    known = [np.asarray(pose) for pose in (model.neutral(), *model.poses.values())]
    named = [np.abs(q[far] - pose).max(axis=-1) <= SAME_POSE for pose in known]
    if not np.any(named, axis=0).all():
        at = f" in case {case}" if len(q) > 1 else ""
        raise DomainError(
            f"start: position {name!r}",
            f"a value from {low[k]:.4g} to {high[k]:.4g}, the limits of the joint",
            f"{q[case, k]:.4g}{at}",
            advice="start within the limits, or simulate model.without_limits()",
        )
    if bool(model.loops) if tied is None else tied:
        return q
    moved = np.array(q)
    moved[far] = np.clip(q[far], low, high)
    others = int((depth[case] > 0.0).sum()) - 1
    more = f", and {others} others less far," if others else ""
    warnings.warn(
        f"model {model.name!r}: {name!r} is {most:.3g} m or rad beyond its limit in the "
        f"configuration in which the run starts{more} and was moved to it; pass q= to choose "
        "where the robot starts",
        ModelWarning,
        stacklevel=caller_level(),
    )
    return moved
