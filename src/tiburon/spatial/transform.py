"""Coordinate transforms between frames, as a product of elementary moves that is never formed.

A :class:`Transform` X maps motions of a parent frame into a child frame (Featherstone 1987,
eq. 2.18; McMillan 1994, eq. 1.4):

    X = [ E            0 ]     E rotation matrix child-from-parent,
        [ E (r x)^T    E ]     r position of the child's origin in parent axes

Forces go the other way through X^T, inertias through X^T I X. All of them pass the factors, three
kinds of elementary moves, one after the other ("successive axial screws"), which needs fewer
operations than any one matrix: a rotation about a coordinate axis costs 4 multiplications per
vector, a general one 9 (McMillan 1994, app. A.3-A.4; Featherstone 1987, sec. 8.3.2).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import OptionError
from tiburon.record import record
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    Mat3,
    Scalar,
    Scalars,
    Vec3,
    add,
    add_cross,
    cross,
    matrix_vector,
    negate,
    pack,
    rotate_vector_planar,
    subtract,
    transpose,
    transpose_vector,
    unpack,
    vec3,
)
from tiburon.spatial.vectors import Force, Motion


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


@record
class Transform:
    """Map from a parent frame to a child frame."""

    factors: tuple[Factor, ...] = ()
    """Moves that lead from the parent to the child, in that order."""

    @classmethod
    def identity(cls) -> "Transform":
        """Return the transform between two frames that coincide."""
        return cls(())

    @classmethod
    def screw(cls, axis: int, angle: Scalar, distance: Scalar) -> "Transform":
        """Build the rotation about and the translation along one coordinate axis.

        McMillan 1994, eqs. A.6 and A.7. Rotation and translation commute; the rotation comes first
        outward, so that inertias are translated before they are rotated inward.

        Args:
            axis: Index of the coordinate axis: 0, 1, 2 for x, y, z.
            angle: Angle from parent to child [rad].
            distance: Distance of the child's origin along the axis [m].
        """
        r = tuple(distance if index == axis else 0.0 for index in range(3))
        return cls((cls._turn(axis, angle), Translation(vec3(r))))

    @classmethod
    def modified_dh(cls, a: Scalar, alpha: Scalar, d: Scalar, theta: Scalar) -> "Transform":
        """Build from modified Denavit-Hartenberg parameters: an x-screw, then a z-screw.

        McMillan 1994, eqs. A.1-A.7; the proximal frames of Featherstone 1987, sec. 8.2.1. Both
        moves of the origin are outermost: on the way in, the zeros that a freed z axis leaves in
        an inertia then last until the final move.

        Args:
            a: Distance along the parent's x axis [m].
            alpha: Angle about the parent's x axis [rad].
            d: Distance along the child's z axis [m].
            theta: Angle about the child's z axis [rad].
        """
        x_move, z_move = Translation((a, 0.0, 0.0)), Translation((0.0, 0.0, d))
        return cls((x_move, cls._turn(0, alpha), cls._turn(2, theta), z_move))

    @classmethod
    def axis_rotation(cls, axis: int, angle: Scalar) -> "Transform":
        """Build the turn about coordinate axis 0, 1, 2 = x, y, z by an angle [rad]."""
        return cls((cls._turn(axis, angle),))

    @classmethod
    def from_translation(cls, r: Scalars) -> "Transform":
        """Build the move of the origin by r, parent axes [m], shape (3,)."""
        return cls((Translation(vec3(r, "translation")),))

    @classmethod
    def from_rotation(cls, E: Any) -> "Transform":
        """Build the turn with the rotation matrix child-from-parent, shape (3, 3)."""
        return cls((Rotation(_mat3(E)),))

    @classmethod
    def from_pose(cls, rotation: Any, translation: Scalars) -> "Transform":
        """Build from the pose of the child in the parent.

        Args:
            rotation: The child's axes as columns, parent axes (R_PC), shape (3, 3).
            translation: Position of the child's origin, parent axes [m], shape (3,).
        """
        E = transpose(_mat3(rotation))
        return cls((Translation(vec3(translation, "translation")), Rotation(E)))

    @staticmethod
    def _turn(axis: int, angle: Scalar) -> AxisRotation:
        """Return the turn about a coordinate axis, with the index checked."""
        if axis not in (0, 1, 2):
            raise OptionError("axis", (0, 1, 2), axis)
        return AxisRotation(axis, np.cos(angle), np.sin(angle))

    def __iter__(self) -> Iterator[Factor]:
        """Go through the moves from the parent to the child."""
        return iter(self.factors)

    def then(self, other: "Transform") -> "Transform":
        """Return this transform followed by another: parent -> child -> grandchild."""
        return Transform(self.factors + other.factors)

    def __matmul__(self, other: "Transform") -> "Transform":
        """Return the product in the order of matrices: ``(C_from_B @ B_from_A)`` (eq. 2.17)."""
        if not isinstance(other, Transform):
            return NotImplemented
        return other.then(self)

    def inverse(self) -> "Transform":
        """Return the transform back, from child to parent (eq. 2.19)."""
        return Transform(tuple(factor.inverse() for factor in reversed(self.factors)))

    def motion(self, m: Motion) -> Motion:
        """Return a motion given in the parent frame in the child frame: X m."""
        return reduce(lambda x, factor: factor.motion(x), self.factors, m)

    def motion_to_parent(self, m: Motion) -> Motion:
        """Return a motion given in the child frame in the parent frame: X^-1 m."""
        return reduce(lambda x, factor: factor.motion_to_parent(x), reversed(self.factors), m)

    def force(self, f: Force) -> Force:
        """Return a force given in the parent frame in the child frame: X^-T f."""
        return reduce(lambda x, factor: factor.force(x), self.factors, f)

    def force_to_parent(self, f: Force) -> Force:
        """Return a force given in the child frame in the parent frame: X^T f."""
        return reduce(lambda x, factor: factor.force_to_parent(x), reversed(self.factors), f)

    def inertia_to_parent(self, inertia: AnyInertia) -> AnyInertia:
        """Return an inertia given in the child frame in the parent frame: X^T I X.

        Featherstone 1987, eq. 3.5; McMillan 1994, eq. 1.8. Rigid stays rigid (ten parameters).
        """
        for factor in reversed(self.factors):
            inertia = factor.inertia_to_parent(inertia)
        return inertia

    def direction(self, a: Vec3) -> Vec3:
        """Return a free 3-D vector given in parent axes in child axes: E a."""
        return reduce(lambda x, factor: factor.direction(x), self.factors, a)

    def direction_to_parent(self, a: Vec3) -> Vec3:
        """Return a free 3-D vector given in child axes in parent axes: E^T a."""
        return reduce(lambda x, factor: factor.direction_to_parent(x), reversed(self.factors), a)

    def point(self, a: Vec3) -> Vec3:
        """Return a point given in the parent frame in the child frame [m]."""
        return reduce(lambda x, factor: factor.point(x), self.factors, a)

    def point_to_parent(self, a: Vec3) -> Vec3:
        """Return a point given in the child frame in the parent frame [m]."""
        return reduce(lambda x, factor: factor.point_to_parent(x), reversed(self.factors), a)

    @property
    def rotation(self) -> Mat3:
        """Rows of the rotation matrix E child-from-parent: the child's axes in parent axes."""
        x, y, z = IDENTITY3
        to_parent = self.direction_to_parent
        return (to_parent(x), to_parent(y), to_parent(z))

    @property
    def translation(self) -> Vec3:
        """Position of the child's origin, parent axes [m]."""
        return self.point_to_parent(ZERO3)

    def matrix(self) -> NDArray[Any]:
        """Return the 6x6 matrix X on motions (Featherstone 1987, eq. 2.18)."""
        E, r = self.rotation, self.translation
        # each row e of E (r x)^T is r x e, since (r x)^T = -(r x)
        lower = tuple(cross(r, row) for row in E)
        rows = [(*row, *ZERO3) for row in E] + [(*a, *b) for a, b in zip(lower, E, strict=True)]
        return pack((x for row in rows for x in row), (6, 6))

    def force_matrix(self) -> NDArray[Any]:
        """Return the 6x6 matrix X^-T that maps forces of the parent into the child frame."""
        return self.inverse().matrix().T


def _mat3(values: Any) -> Mat3:
    """Return nine scalars as rows, after checking that the shape is (3, 3)."""
    a = unpack(values, (3, 3), "rotation")
    return ((a[0], a[1], a[2]), (a[3], a[4], a[5]), (a[6], a[7], a[8]))
