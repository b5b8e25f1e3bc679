"""Where a joint stands: its position variables, from where it has put its body.

A loop is closed by a joint that has no variables in the model. Its coordinates are found from the
poses of the two frames it joins, by Newton steps with its own motion sub-space. That also tells
whether the joint can be there at all: a hinge whose axes meet head to tail cannot, though none of
the measures that keep a loop closed sees it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.binding import surroundings
from tiburon.algorithms.kinematics import WORLD_PLACE, Place, frame_places
from tiburon.model import Joint, LoopClosure, Model
from tiburon.model.body import WORLD
from tiburon.spatial import matrix_to_rotation_vector

__all__ = ["JointPosition", "cut_joint", "joint_position", "places_of", "relative_pose"]

Array = NDArray[np.float64]

STARTS = 16
"""Positions to start from; joints of several turns may need some."""

STEPS = 30
"""Newton steps from each start; most joints need one or two."""

ARRIVED = 1e-14
"""Length of a step that changes nothing any more [m or rad]."""

FITS = 1e-9
"""Error at which no other start is tried [m and rad]."""


class JointPosition(NamedTuple):
    """Where a joint stands, as well as it can."""

    q: tuple[float, ...]
    """Its position variables [m or rad]."""

    error: float
    """How far it leaves its body from where that is [m and rad]."""


def joint_position(joint: Joint, R: Array, p: Array) -> JointPosition:
    """Find the position variables that put a joint's body somewhere.

    Args:
        joint: Of any kind.
        R: Axes of the body frame in the joint frame, shape (3, 3).
        p: Origin of the body frame in the joint frame [m], shape (3,).

    Returns:
        The best that was found, from the neutral position and some random ones.
    """
    rng = np.random.default_rng(5)
    best: JointPosition | None = None
    for number in range(STARTS):
        start = joint.neutral() if number == 0 else joint.random(rng)
        found = _fitted(joint, start, R, p)
        if best is None or found.error < best.error:
            best = found
        if best.error < FITS:
            break
    assert best is not None
    return best


def _fitted(joint: Joint, q: tuple[float, ...], R: Array, p: Array) -> JointPosition:
    """Return where Newton steps lead from one position."""
    error = _error(joint, q, R, p)
    for _ in range(STEPS):
        columns = [[*s.angular, *s.linear] for s in joint.subspace(q)]
        if not columns:
            break
        S = np.array(columns, dtype=np.float64).T
        step = np.linalg.lstsq(S, error, rcond=None)[0]
        moved = tuple(float(x) for x in joint.normalize(joint.integrate(q, step.tolist())))
        error, q = _error(joint, moved, R, p), moved
        if float(np.abs(step).max()) < ARRIVED:
            break
    return JointPosition(q, float(np.linalg.norm(error)))


def _error(joint: Joint, q: tuple[float, ...], R: Array, p: Array) -> Array:
    """Return the turn and shift that are missing, in axes of the joint's body, shape (6,)."""
    X = joint.transform(q)
    E = np.array(X.rotation, dtype=np.float64)
    turn = matrix_to_rotation_vector((E @ R).tolist())
    shift = E @ (p - np.array(X.translation, dtype=np.float64))
    return np.array([*turn, *shift], dtype=np.float64)


def places_of(model: Model, q: Array) -> dict[str, Place]:
    """Return where the world and all bodies and frames are, by name."""
    names = model.frame_names[1:]
    plan, _, _ = surroundings(model, None)
    found = frame_places(plan, [float(x) for x in q], names)
    return {WORLD: WORLD_PLACE, **dict(zip(names, found, strict=True))}


def relative_pose(loop: LoopClosure, places: dict[str, Place]) -> tuple[Array, Array]:
    """Return axes and origin of a loop's second frame in its first, shapes (3, 3) and (3,)."""
    first = places[loop.first].moved(loop.joint.pose.transform)
    second = places[loop.second].moved(loop.second_pose.transform)
    R = np.array(first.R, dtype=np.float64)
    apart = np.array(second.p, dtype=np.float64) - np.array(first.p, dtype=np.float64)
    return R.T @ np.array(second.R, dtype=np.float64), R.T @ apart


def cut_joint(loop: LoopClosure, places: dict[str, Place]) -> JointPosition:
    """Return where the joint that closes a loop stands, and how far it is from fitting."""
    return joint_position(loop.joint, *relative_pose(loop, places))
