"""Positions of a whole robot as a manifold: how steps of velocity move them.

Positions of a floating base are no vectors: its orientation turns. Each joint kind knows how a step
moves its own variables; here these are put side by side for all joints.
"""

from collections.abc import Sequence

from tiburon.model import Joint, Model
from tiburon.spatial import Scalar

__all__ = ["Manifold", "Scalars"]

Scalars = tuple[Scalar, ...]
"""One scalar per position or velocity variable."""


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

    def move(self, q: Sequence[Scalar], dv: Sequence[Scalar]) -> Scalars:
        """Return positions after a step of constant velocity.

        Args:
            q: Position [m or rad], nq scalars.
            dv: Velocity times duration [m or rad], nv scalars.
        """
        return tuple(x for joint, i, j in self._joints for x in joint.integrate(q[i], dv[j]))

    def bracket(self, a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalars:
        """Return the Lie bracket of two velocities, nv scalars: zero where steps simply add."""
        return tuple(x for joint, _, j in self._joints for x in joint.bracket(a[j], b[j]))

    def normalize(self, q: Sequence[Scalar]) -> Scalars:
        """Return the same positions with quaternions of length 1."""
        return tuple(x for joint, i, _ in self._joints for x in joint.normalize(q[i]))
