"""Positions of a whole robot as a manifold: how steps of velocity move them.

Positions of a floating base are no vectors: its orientation turns. Each joint kind knows how a step
moves its own variables; here these are put side by side for all joints.
"""

from collections.abc import Sequence

from tiburon.model import Joint, Model
from tiburon.spatial import Scalar

__all__ = ["Manifold", "Scalars", "Steps"]

Scalars = tuple[Scalar, ...]
"""One scalar per position or velocity variable."""

Steps = tuple[Scalars, ...]
"""One step per joint that moves; as long as its velocity, or longer where rolling binds that."""


class Manifold:
    """The positions of a robot; works on floats and on traced values alike."""

    def __init__(self, model: Model) -> None:
        """List the joints that move.

        Args:
            model: The robot.
        """
        self._joints: list[tuple[Joint, slice, slice]] = [
            (joint, model.slice(joint.name, of="q"), model.slice(joint.name, of="v"))
            for joint in model.joints
            if joint.nv
        ]

    def rate(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Steps:
        """Return the rate of position at a position and velocity, as steps per second.

        Args:
            q: Position [m or rad], nq scalars.
            v: Velocity [m/s or rad/s], nv scalars.
        """
        return tuple(joint.step(q[i], v[j]) for joint, i, j in self._joints)

    def move(self, q: Sequence[Scalar], steps: Steps) -> Scalars:
        """Return positions after a step: a rate, or a weighted sum of rates, times a duration.

        Args:
            q: Position [m or rad], nq scalars.
            steps: One per joint that moves [m or rad].
        """
        joints = zip(self._joints, steps, strict=True)
        return tuple(x for (joint, i, _), step in joints for x in joint.move(q[i], step))

    def bracket(self, a: Steps, b: Steps) -> Steps:
        """Return the Lie bracket of two steps: zero where they simply add."""
        joints = zip(self._joints, a, b, strict=True)
        return tuple(joint.bracket(x, y) for (joint, _, _), x, y in joints)

    def normalize(self, q: Sequence[Scalar]) -> Scalars:
        """Return the same positions with quaternions of length 1."""
        return tuple(x for joint, i, _ in self._joints for x in joint.normalize(q[i]))
