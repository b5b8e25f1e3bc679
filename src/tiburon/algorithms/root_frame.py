"""Coordinates in the frame of the first body of each tree.

For all pairs of bodies, one common frame costs less than transforms from body to body. The frame of
the first moving body moves with a vehicle, so that accuracy does not depend on its position.

Symbols (Featherstone 1987, chapters 2 and 4):
    R, o    axes (as columns) and origin of a body, in the frame of the tree's first body
    X       motion transform from the parent's frame to the body's
"""

from typing import NamedTuple

from tiburon.algorithms.traversal import outward
from tiburon.model import Plan, PlanBody
from tiburon.spatial import Force, Mat3, Motion, RigidInertia, Scalars, Transform, Vec3
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, add, add_cross, matrix_vector


class Place(NamedTuple):
    """Pose of a body in the frame of the first body of its tree."""

    R: Mat3
    """Rows of the rotation matrix from body axes to those of the first body."""

    o: Vec3
    """Origin of the body [m]."""

    @classmethod
    def first(cls) -> "Place":
        """Return the pose of the first body."""
        return cls(IDENTITY3, ZERO3)

    def beyond(self, X: Transform) -> "Place":
        """Return the pose of a child with motion transform X."""
        x, y, z = (X.direction(row) for row in self.R)
        return Place((x, y, z), add(self.o, matrix_vector(self.R, X.translation)))

    def motion(self, m: Motion) -> Motion:
        """Transform a motion from body coordinates."""
        angular = matrix_vector(self.R, m.angular)
        return Motion(angular, add_cross(matrix_vector(self.R, m.linear), self.o, angular))

    def force(self, f: Force) -> Force:
        """Transform a force from body coordinates."""
        linear = matrix_vector(self.R, f.force)
        return Force(add_cross(matrix_vector(self.R, f.moment), self.o, linear), linear)

    def inertia(self, body: PlanBody) -> RigidInertia:
        """Transform the inertia of the body."""
        return body.inertia.rotated(self.R).shifted(self.o)


class Placed(NamedTuple):
    """Transform to the parent, and pose, of a body."""

    X: Transform
    """Motion transform from the parent's frame to the body's."""

    place: Place | None
    """None for the world."""


def places_of(plan: Plan, q: Scalars) -> tuple[Placed, ...]:
    """Compute the pose of every body in the frame of its tree's first body."""

    def locate(body: PlanBody, parent: Placed) -> Placed:
        X = body.transform(q[body.q])
        return Placed(X, Place.first() if parent.place is None else parent.place.beyond(X))

    return outward(plan, locate, Placed(Transform.identity(), None))
