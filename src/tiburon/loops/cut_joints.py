"""Joints that close loops: their position variables, and the screws of all joints.

The joint that closes a loop has no variables in the model. Newton steps with its own motion
subspace find its coordinates from the poses of the two frames it connects. This also detects
whether the joint can be there at all: a hinge whose axes meet in opposite directions cannot, though
no constraint residual shows it.
"""

from typing import NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import WORLD_PLACE, Place, frame_places
from tiburon.algorithms.surroundings import surroundings
from tiburon.arrays import Array
from tiburon.model import Joint, LoopClosure, Model
from tiburon.model.body import WORLD
from tiburon.spatial import matrix_to_rotation_vector

MAX_STARTS = 16
"""Initial positions to try; joints with several rotations may need some."""

MAX_NEWTON_STEPS = 30
"""Newton steps from each initial position; most joints need one or two."""

MIN_STEP = 1e-14
"""Step length at which the iteration ends [m or rad]."""

FIT_TOLERANCE = 1e-9
"""Error at which no further initial position is tried [m and rad]."""


class JointPosition(NamedTuple):
    """Position variables of a joint that best fit a pose."""

    q: tuple[float, ...]
    """Its position variables [m or rad]."""

    error: float
    """Pose error that remains [m and rad]."""


def joint_position(joint: Joint, R: Array, p: Array) -> JointPosition:
    """Solve for the position variables of a joint at a given pose of its body.

    Args:
        joint: Of any kind.
        R: Axes of the body frame in the joint frame, shape (3, 3).
        p: Origin of the body frame in the joint frame [m], shape (3,).

    Returns:
        The best solution from the neutral position and some random ones.
    """
    rng = np.random.default_rng(5)
    best: JointPosition | None = None
    for index in range(MAX_STARTS):
        start = joint.neutral() if index == 0 else joint.random(rng)
        found = _fitted(joint, start, R, p)
        if best is None or found.error < best.error:
            best = found
        if best.error < FIT_TOLERANCE:
            break
    assert best is not None
    return best


def _fitted(joint: Joint, q: tuple[float, ...], R: Array, p: Array) -> JointPosition:
    """Fit position variables by Newton steps from one initial position."""
    error = _error(joint, q, R, p)
    for _ in range(MAX_NEWTON_STEPS):
        columns = [[*s.angular, *s.linear] for s in joint.subspace(q)]
        if not columns:
            break
        S = np.array(columns, dtype=np.float64).T
        step = np.linalg.lstsq(S, error, rcond=None)[0]
        moved = tuple(float(x) for x in joint.normalize(joint.integrate(q, step.tolist())))
        error, q = _error(joint, moved, R, p), moved
        if float(np.abs(step).max()) < MIN_STEP:
            break
    return JointPosition(q, float(np.linalg.norm(error)))


def _error(joint: Joint, q: tuple[float, ...], R: Array, p: Array) -> Array:
    """Return the pose error [rotation, translation], in axes of the joint's body, shape (6,)."""
    X = joint.transform(q)
    E = np.array(X.rotation, dtype=np.float64)
    turn = matrix_to_rotation_vector((E @ R).tolist())
    shift = E @ (p - np.array(X.translation, dtype=np.float64))
    return np.array([*turn, *shift], dtype=np.float64)


def places_of(model: Model, q: Array) -> dict[str, Place]:
    """Return the poses of the world and of all bodies and frames, by name."""
    names = model.frame_names[1:]
    plan, _, _ = surroundings(model, None)
    found = frame_places(plan, [float(x) for x in q], names)
    return {WORLD: WORLD_PLACE, **dict(zip(names, found, strict=True))}


def relative_pose(loop: LoopClosure, places: dict[str, Place]) -> tuple[Array, Array]:
    """Return axes and origin of a loop's second frame in its first, shapes (3, 3) and (3,)."""
    first = places[loop.first].moved(loop.joint.pose.transform)
    second = places[loop.second].moved(loop.second_pose.transform)
    return pose_in(first, second)


def pose_in(first: Place, second: Place) -> tuple[Array, Array]:
    """Return axes and origin of a pose in another, shapes (3, 3) and (3,)."""
    R = np.array(first.R, dtype=np.float64)
    apart = np.array(second.p, dtype=np.float64) - np.array(first.p, dtype=np.float64)
    return R.T @ np.array(second.R, dtype=np.float64), R.T @ apart


def cut_joint(loop: LoopClosure, places: dict[str, Place]) -> JointPosition:
    """Solve for the position variables of the joint that closes a loop."""
    return joint_position(loop.joint, *relative_pose(loop, places))


# -- screws ----------------------------------------------------------------------------------------


class Screws(NamedTuple):
    """Motion subspace of one joint."""

    columns: Array
    """World axes, about the world's origin, angular part first; shape (6, nv of the joint)."""

    variables: tuple[int, ...]
    """The velocity variable of each column; joints that close loops come after the nv others."""


class JointScrews(NamedTuple):
    """Screws of all joints in one configuration."""

    of: dict[str, Screws]
    """By name of the joint, or of the loop that it closes."""

    places: dict[str, Place]
    """Poses of world, bodies and frames."""

    size: int
    """Number of variables of all joints together."""

    def seen_from(self, body: str, columns: Array) -> Array:
        """Return screws in the axes of a body and about its origin, shape (6, n)."""
        R = np.array(self.places[body].R, dtype=np.float64)
        moved = about(columns, np.array(self.places[body].p, dtype=np.float64))
        return np.vstack([R.T @ moved[:3], R.T @ moved[3:]])


def about(columns: Array, point: Array) -> Array:
    """Return screws given about the world's origin about another point, world axes, (6, n)."""
    w = columns[:3]
    return np.vstack([w, columns[3:] + np.cross(w, point[:, None], axis=0)])


def joint_screws(model: Model, q: Array, rng: np.random.Generator | None = None) -> JointScrews:
    """Compute the screws of all joints in one configuration.

    Args:
        model: The robot.
        q: Configuration [m or rad], shape (nq,).
        rng: Random positions for the joints that close loops, as if the loops were open; by default
            their position variables are fitted.
    """
    places = places_of(model, q)
    found: dict[str, Screws] = {}
    for body in model.bodies:
        joint, own = body.joint, model.slice(body.joint.name)
        columns = [[*s.angular, *s.linear] for s in joint.subspace([float(x) for x in q[own]])]
        v = model.slice(joint.name, of="v")
        found[joint.name] = _in_world(columns, places[body.name], range(v.start, v.stop))
    count = model.nv
    for loop in model.loops:
        if not isinstance(loop, LoopClosure):
            continue
        own_q = cut_joint(loop, places).q if rng is None else loop.joint.random(rng)
        stands = places[loop.first].moved(loop.joint.pose.transform)
        moved = stands.moved(loop.joint.transform(own_q))
        columns = [[*s.angular, *s.linear] for s in loop.joint.subspace(own_q)]
        found[loop.name] = _in_world(columns, moved, range(count, count + loop.joint.nv))
        count += loop.joint.nv
    return JointScrews(found, places, count)


def _in_world(columns: list[list[float]], place: Place, variables: range) -> Screws:
    S = np.array(columns, dtype=np.float64).reshape(-1, 6).T
    R, p = np.array(place.R, dtype=np.float64), np.array(place.p, dtype=np.float64)
    w = R @ S[:3]
    linear = R @ S[3:] + np.cross(p[:, None], w, axis=0)
    return Screws(np.vstack([w, linear]), tuple(variables))
