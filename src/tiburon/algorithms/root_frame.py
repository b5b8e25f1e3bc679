"""Bodies seen from the first body of their tree: one frame for all, so that sums need no moves.

Where every pair of bodies meets, moving vectors from frame to frame costs more than writing them
all in one. The frame of the first moving body of each tree serves: it goes along with a vehicle, so
that numbers stay as small as the robot, however far away it is.

Symbols (Featherstone 1987, chapters 2 and 4):
    R, o    axes (as columns) and origin of a body, in the frame of the tree's first body
    X       map of motion from the parent's frame to the body's
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.sweep import outward
from tiburon.model import Plan, PlanBody
from tiburon.spatial import Force, Mat3, Motion, RigidInertia, Scalar, Transform, Vec3
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, add, add_cross, matrix_vector

__all__ = ["Place", "Placed", "places_of"]


class Place(NamedTuple):
    """Where a body is in the frame of the first body of its tree."""

    R: Mat3
    """Rows of the matrix from body axes to those of the first body."""

    o: Vec3
    """Origin of the body [m]."""

    @classmethod
    def first(cls) -> "Place":
        """Return the place of the first body itself."""
        return cls(IDENTITY3, ZERO3)

    def beyond(self, X: Transform) -> "Place":
        """Return the place of a body that this one carries, X being the map of motion to it."""
        x, y, z = (X.direction(row) for row in self.R)
        return Place((x, y, z), add(self.o, matrix_vector(self.R, X.translation)))

    def motion(self, m: Motion) -> Motion:
        """Return a motion given in body coordinates."""
        angular = matrix_vector(self.R, m.angular)
        return Motion(angular, add_cross(matrix_vector(self.R, m.linear), self.o, angular))

    def force(self, f: Force) -> Force:
        """Return a force given in body coordinates."""
        linear = matrix_vector(self.R, f.force)
        return Force(add_cross(matrix_vector(self.R, f.moment), self.o, linear), linear)

    def inertia(self, body: PlanBody) -> RigidInertia:
        """Return the inertia of the body."""
        return body.inertia.rotated(self.R).shifted(self.o)


class Placed(NamedTuple):
    """A body that has its place."""

    X: Transform
    """Map of motion from the parent's frame to the body's."""

    place: Place | None
    """None for the world."""


def places_of(plan: Plan, q: Sequence[Scalar]) -> tuple[Placed, ...]:
    """Find the place of every body.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
    """

    def locate(body: PlanBody, parent: Placed) -> Placed:
        X = body.transform(q[body.q])
        return Placed(X, Place.first() if parent.place is None else parent.place.beyond(X))

    return outward(plan, locate, Placed(Transform.identity(), None))
