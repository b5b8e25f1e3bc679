"""Where bodies and frames are.

Symbols:
    X       map of motion from the parent's frame to the body's
    R, p    axes and origin of a frame in the world
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.sweep import outward
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Mat3, Scalar, Transform, Vec3

__all__ = ["Place", "body_places", "frame_places"]


class Place(NamedTuple):
    """A frame in the world."""

    R: Mat3
    """Rotation matrix from the frame's axes to world axes: its columns are the frame's axes."""

    p: Vec3
    """Origin of the frame, world axes [m]."""

    def moved(self, X: Transform) -> "Place":
        """Return the place of a frame reached from this one by a map of motion.

        Featherstone 1987, eq. 2.17: rotations multiply, and origins add in world axes.
        """
        rows = tuple(X.direction(row) for row in self.R)
        (x, y, z), (px, py, pz) = X.translation, self.p
        a, b, c = self.R
        origin = (
            px + a[0] * x + a[1] * y + a[2] * z,
            py + b[0] * x + b[1] * y + b[2] * z,
            pz + c[0] * x + c[1] * y + c[2] * z,
        )
        return Place((rows[0], rows[1], rows[2]), origin)


_WORLD = Place(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), (0.0, 0.0, 0.0))


def body_places(plan: Plan, q: Sequence[Scalar]) -> tuple[Place, ...]:
    """Find every plan body in the world.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.

    Returns:
        One place per plan body.
    """

    def visit(body: PlanBody, parent: Place) -> Place:
        return parent.moved(body.transform(q[body.q]))

    return outward(plan, visit, _WORLD)


def frame_places(plan: Plan, q: Sequence[Scalar], frames: Sequence[str]) -> tuple[Place, ...]:
    """Find frames in the world by the names the user gave them.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        frames: Names of bodies or frames, or "world".

    Returns:
        One place per name.
    """
    bodies = body_places(plan, q)
    found = []
    for name in frames:
        frame = plan.frame(name)
        carrier = _WORLD if frame.body == WORLD_BODY else bodies[frame.body]
        found.append(carrier.moved(frame.transform))
    return tuple(found)
