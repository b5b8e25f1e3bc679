"""Poses from rows of MuJoCo's tables."""

from typing import Any

from tiburon.model import Pose

NO_TURN = [1.0, 0.0, 0.0, 0.0]


def pose_of(quaternion: Any, position: Any = (0.0, 0.0, 0.0)) -> Pose:
    """Return a pose from a quaternion (w, x, y, z) and a position [m].

    Most parts are not turned; they take the short way.

    Args:
        quaternion: Of length 1, shape (4,).
        position: Shape (3,).
    """
    x, y, z = map(float, position)
    if quaternion.tolist() == NO_TURN:
        return Pose(translation=(x, y, z)) if x or y or z else Pose()
    return Pose.from_quaternion(quaternion, (x, y, z))
