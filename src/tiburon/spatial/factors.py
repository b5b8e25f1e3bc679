"""The three elementary moves a coordinate transform is made of.

Each one leads from a parent frame to a child frame and knows how vectors, points and inertias
cross it both ways. Moves are kept apart, never multiplied out: a rotation about a coordinate axis
costs 4 multiplications per vector, a general one 9 (McMillan 1994, app. A.3-A.4; Featherstone
1987, sec. 8.3.2).

Symbols: E rotation matrix child-from-parent, r position of the child's origin in the parent, X the
6x6 matrix of the move on motions (Featherstone 1987, eq. 2.18).
"""

from abc import ABC, abstractmethod
from typing import Protocol, Self, TypeVar

from tiburon.record import record
from tiburon.spatial.vec3 import (
    Mat3,
    Scalar,
    Vec3,
    add,
    add_cross,
    matrix_vector,
    negate,
    rotate_vector_planar,
    subtract,
    transpose,
    transpose_vector,
)
from tiburon.spatial.vectors import Force, Motion

__all__ = ["AnyInertia", "AxisRotation", "Factor", "MovableInertia", "Rotation", "Translation"]


class MovableInertia(Protocol):
    """An inertia that can be turned and moved: rigid or articulated."""

    def rotated_about_axis(self, k: int, c: Scalar, s: Scalar) -> Self:
        """Return the inertia of the body turned about coordinate axis k."""
        ...

    def rotated(self, R: Mat3) -> Self:
        """Return the inertia of the body turned by a rotation matrix."""
        ...

    def shifted(self, r: Vec3) -> Self:
        """Return the inertia of the body moved by r, about the same origin."""
        ...


AnyInertia = TypeVar("AnyInertia", bound=MovableInertia)


class Factor(ABC):
    """One elementary move from a parent frame to a child frame."""

    __slots__ = ()

    @abstractmethod
    def direction(self, a: Vec3) -> Vec3:
        """Return a free 3-D vector given in parent axes in child axes: E a."""

    @abstractmethod
    def direction_to_parent(self, a: Vec3) -> Vec3:
        """Return a free 3-D vector given in child axes in parent axes: E^T a."""

    @abstractmethod
    def point(self, a: Vec3) -> Vec3:
        """Return a point given in the parent frame in the child frame [m]."""

    @abstractmethod
    def point_to_parent(self, a: Vec3) -> Vec3:
        """Return a point given in the child frame in the parent frame [m]."""

    @abstractmethod
    def motion(self, m: Motion) -> Motion:
        """Return a motion given in the parent frame in the child frame: X m."""

    @abstractmethod
    def motion_to_parent(self, m: Motion) -> Motion:
        """Return a motion given in the child frame in the parent frame: X^-1 m."""

    @abstractmethod
    def force(self, f: Force) -> Force:
        """Return a force given in the parent frame in the child frame: X^-T f."""

    @abstractmethod
    def force_to_parent(self, f: Force) -> Force:
        """Return a force given in the child frame in the parent frame: X^T f."""

    @abstractmethod
    def inertia_to_parent(self, inertia: AnyInertia) -> AnyInertia:
        """Return an inertia given in the child frame in the parent frame: X^T I X."""

    @abstractmethod
    def inverse(self) -> "Factor":
        """Return the move back, from child to parent."""


class _Turn(Factor):
    """Base of rotations: the origin is fixed, so every 3-D part rotates in the same way."""

    __slots__ = ()

    def point(self, a: Vec3) -> Vec3:
        return self.direction(a)

    def point_to_parent(self, a: Vec3) -> Vec3:
        return self.direction_to_parent(a)

    def motion(self, m: Motion) -> Motion:
        return Motion(self.direction(m.angular), self.direction(m.linear))

    def motion_to_parent(self, m: Motion) -> Motion:
        return Motion(self.direction_to_parent(m.angular), self.direction_to_parent(m.linear))

    def force(self, f: Force) -> Force:
        return Force(self.direction(f.moment), self.direction(f.force))

    def force_to_parent(self, f: Force) -> Force:
        return Force(self.direction_to_parent(f.moment), self.direction_to_parent(f.force))


@record
class AxisRotation(_Turn):
    """Turn about a coordinate axis, shared by parent and child."""

    axis: int
    """Index of the coordinate axis: 0, 1, 2 for x, y, z."""

    cosine: Scalar
    """Cosine of the angle from parent to child."""

    sine: Scalar
    """Sine of the angle from parent to child."""

    def direction(self, a: Vec3) -> Vec3:
        """Return parent components in child axes."""
        # the axes turn forward, so the components turn backward (McMillan 1994, eq. A.9)
        return rotate_vector_planar(self.axis, self.cosine, -self.sine, a)

    def direction_to_parent(self, a: Vec3) -> Vec3:
        """Return child components in parent axes."""
        return rotate_vector_planar(self.axis, self.cosine, self.sine, a)

    def inertia_to_parent(self, inertia: AnyInertia) -> AnyInertia:
        """Return X^T I X."""
        return inertia.rotated_about_axis(self.axis, self.cosine, self.sine)

    def inverse(self) -> "AxisRotation":
        """Return the move back."""
        return AxisRotation(self.axis, self.cosine, -self.sine)


@record
class Rotation(_Turn):
    """Turn by any rotation matrix.

    The entries are used as they are: zeros and ones among them cost nothing once traced.
    """

    E: Mat3
    """Rows of the rotation matrix child-from-parent: the child's axes in parent axes."""

    def direction(self, a: Vec3) -> Vec3:
        """Return parent components in child axes."""
        return matrix_vector(self.E, a)

    def direction_to_parent(self, a: Vec3) -> Vec3:
        """Return child components in parent axes."""
        return transpose_vector(self.E, a)

    def inertia_to_parent(self, inertia: AnyInertia) -> AnyInertia:
        """Return X^T I X."""
        return inertia.rotated(transpose(self.E))

    def inverse(self) -> "Rotation":
        """Return the move back."""
        return Rotation(transpose(self.E))


@record
class Translation(Factor):
    """Move of the origin; the axes stay parallel."""

    r: Vec3
    """Position of the child's origin, parent axes [m]."""

    def direction(self, a: Vec3) -> Vec3:
        """Return parent components in child axes."""
        return a

    def direction_to_parent(self, a: Vec3) -> Vec3:
        """Return child components in parent axes."""
        return a

    def point(self, a: Vec3) -> Vec3:
        """Return a point of the parent frame in the child frame."""
        return subtract(a, self.r)

    def point_to_parent(self, a: Vec3) -> Vec3:
        """Return a point of the child frame in the parent frame."""
        return add(a, self.r)

    def motion(self, m: Motion) -> Motion:
        """Return X m: the origin moves, and v with it."""
        return Motion(m.angular, add_cross(m.linear, m.angular, self.r))

    def motion_to_parent(self, m: Motion) -> Motion:
        """Return X^-1 m."""
        return Motion(m.angular, add_cross(m.linear, self.r, m.angular))

    def force(self, f: Force) -> Force:
        """Return X^-T f: the moment is about the new origin."""
        return Force(add_cross(f.moment, f.force, self.r), f.force)

    def force_to_parent(self, f: Force) -> Force:
        """Return X^T f."""
        return Force(add_cross(f.moment, self.r, f.force), f.force)

    def inertia_to_parent(self, inertia: AnyInertia) -> AnyInertia:
        """Return X^T I X."""
        return inertia.shifted(self.r)

    def inverse(self) -> "Translation":
        """Return the move back."""
        return Translation(negate(self.r))
