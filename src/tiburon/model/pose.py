"""Poses: placements of one frame in another."""

import math
from typing import Self

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError
from tiburon.model.value_checks import Matrix3, Vec3, finite_array, matrix3, snap, vec3
from tiburon.record import record
from tiburon.spatial import Rotation as RotationFactor
from tiburon.spatial import Transform, Translation, axis_angle_to_matrix, quaternion_to_matrix
from tiburon.spatial.vec3 import add, matrix_product, matrix_vector, negate, transpose

ORTHOGONALITY_TOLERANCE = 1e-6
"""Largest error in R R^T = 1 that is treated as rounding and repaired.

Rotations typed with seven digits, as files have them, pass; a wrong matrix does not.
"""

EXACT_TOLERANCE = 1e-11
"""Errors in R R^T = 1 of products and snapping: such matrices are kept to the last bit."""

_IDENTITY: Matrix3 = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@record
class Pose:
    """Placement of a child frame in a parent frame; immutable, compares by value.

    A point with child coordinates x has parent coordinates R x + p.

    Entries of R within 1e-12 of 0, 1 or -1 are made exact, so that right angles cost nothing in
    compiled code. Matrices orthogonal only to about 1e-6 are replaced by the nearest rotation.

    Example:
        ``tb.Pose.from_rpy((0, 0, np.pi / 2), translation=(0.1, 0, 0))``
    """

    rotation: Matrix3 = _IDENTITY
    """R, child axes to parent axes (its columns are the child axes seen by the parent)."""

    translation: Vec3 = (0.0, 0.0, 0.0)
    """p, origin of the child in parent axes [m]."""

    def __post_init__(self) -> None:
        if self.rotation is not _IDENTITY:
            rotation = _nearest_rotation(finite_array(self.rotation, (3, 3), "pose", "rotation"))
            object.__setattr__(self, "rotation", rotation)
        object.__setattr__(self, "translation", vec3(self.translation, "pose", "translation"))

    @classmethod
    @public
    def identity(cls) -> Self:
        """Return the identity pose."""
        return cls()

    @classmethod
    @public
    def from_rpy(cls, rpy: ArrayLike, translation: ArrayLike = (0.0, 0.0, 0.0)) -> Self:
        """Build from roll, pitch, yaw about fixed parent axes x, y, z in this order, as URDF does.

        Args:
            rpy: Angles [rad], shape (3,).
            translation: Origin of the child in parent axes [m], shape (3,).
        """
        roll, pitch, yaw = vec3(rpy, "pose", "roll-pitch-yaw")
        # Rz(yaw) Ry(pitch) Rx(roll) written out: files give hundreds of these
        cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
        cy, sy = math.cos(yaw), math.sin(yaw)
        a, b, c, d, e, f, g, h, i = snap(
            (
                *(cy * cp, cy * (sp * sr) - sy * cr, cy * (sp * cr) + sy * sr),
                *(sy * cp, sy * (sp * sr) + cy * cr, sy * (sp * cr) - cy * sr),
                *(-sp, cp * sr, cp * cr),
            )
        )
        rotation = ((a, b, c), (d, e, f), (g, h, i))
        return cls._of_rotation(rotation, _numbers(translation))

    @classmethod
    @public
    def from_quaternion(
        cls, quaternion: ArrayLike, translation: ArrayLike = (0.0, 0.0, 0.0)
    ) -> Self:
        """Build from a quaternion (w, x, y, z), child to parent, of any non-zero length.

        Args:
            quaternion: Shape (4,).
            translation: Origin of the child in parent axes [m], shape (3,).
        """
        q = finite_array(quaternion, (4,), "pose", "quaternion").tolist()
        if not any(q):
            raise ModelError(
                "pose: quaternion must not be zero, got (0, 0, 0, 0); use (1, 0, 0, 0) for none"
            )
        return cls(_rows(quaternion_to_matrix(tuple(q))), _numbers(translation))

    @classmethod
    @public
    def from_axis_angle(
        cls, axis: ArrayLike, angle: float, translation: ArrayLike = (0.0, 0.0, 0.0)
    ) -> Self:
        """Build from a rotation about an axis in parent axes, of any non-zero length.

        Args:
            axis: Shape (3,).
            angle: Right-handed rotation [rad].
            translation: Origin of the child in parent axes [m], shape (3,).
        """
        direction = finite_array(axis, (3,), "pose", "axis")
        turn = float(finite_array(angle, (), "pose", "angle"))
        length = float(np.linalg.norm(direction))
        if not 1e-150 < length < 1e150 and direction.any():
            # squares overflow; normalize by the largest component first
            direction = direction / np.abs(direction).max()
            length = float(np.linalg.norm(direction))
        if length == 0.0:
            raise ModelError(
                "pose: axis must not be zero, got (0, 0, 0); give the axis of rotation"
            )
        x, y, z = snap((direction / length).tolist())
        return cls(_rows(axis_angle_to_matrix((x, y, z), turn)), _numbers(translation))

    @classmethod
    def _of_rotation(cls, R: Matrix3, p: Vec3) -> Self:
        """Build from finite values, R a rotation with snapped entries, without checks."""
        pose = object.__new__(cls)
        object.__setattr__(pose, "rotation", R)
        object.__setattr__(pose, "translation", p)
        return pose

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The homogeneous matrix [[R, p], [0, 1]], shape (4, 4)."""
        matrix = np.eye(4)
        matrix[:3, :3] = self.rotation
        matrix[:3, 3] = self.translation
        return matrix

    @property
    def transform(self) -> Transform:
        """The spatial transform that maps motion in parent coordinates to child coordinates.

        Identity factors are omitted, so that they cost nothing.
        """
        factors: list[Translation | RotationFactor] = []
        if any(self.translation):
            factors.append(Translation(self.translation))
        if self.rotation != _IDENTITY:
            factors.append(RotationFactor(self.rotation).inverse())
        return Transform(tuple(factors))

    def __matmul__(self, other: "Pose") -> "Pose":
        """Compose: the pose of C in A from the pose of B in A and that of C in B."""
        if not isinstance(other, Pose):
            return NotImplemented
        if self.rotation == _IDENTITY and not any(self.translation):
            return other
        x, y, z = add(matrix_vector(self.rotation, other.translation), self.translation)
        if other.rotation == _IDENTITY:
            return Pose._of_rotation(self.rotation, (x, y, z))
        (a, b, c), (d, e, f), (g, h, i) = matrix_product(self.rotation, other.rotation)
        a, b, c, d, e, f, g, h, i = snap((a, b, c, d, e, f, g, h, i))
        return Pose._of_rotation(((a, b, c), (d, e, f), (g, h, i)), (x, y, z))

    def inverse(self) -> "Pose":
        """Return the pose of the parent frame in the child frame."""
        E = transpose(self.rotation)
        return Pose._of_rotation(E, negate(matrix_vector(E, self.translation)))

    def __repr__(self) -> str:
        parts = []
        if self.rotation != _IDENTITY:
            parts.append(f"rotation={self.rotation}")
        if any(self.translation):
            parts.append(f"translation={self.translation}")
        return f"Pose({', '.join(parts)})"


def _rows(R: object) -> Matrix3:
    return matrix3(np.asarray(R, dtype=np.float64))


def _numbers(translation: ArrayLike) -> Vec3:
    return vec3(translation, "pose", "translation")


def _nearest_rotation(R: NDArray[np.float64]) -> Matrix3:
    """Check that a matrix is a proper rotation, remove its rounding errors and snap its entries."""
    error = float(np.abs(R @ R.T - np.eye(3)).max())
    determinant = float(np.linalg.det(R))
    if error > ORTHOGONALITY_TOLERANCE or determinant < 0.0:
        raise ModelError(
            "pose: rotation must be orthogonal with determinant +1, "
            f"got determinant {determinant:.6g} and |R R^T - 1| = {error:.2g}; "
            "its columns must be the child's unit axes, right-handed"
        )
    if error > EXACT_TOLERANCE:
        # the orthogonal polar factor is the nearest rotation in the Frobenius norm
        U, _, Vt = np.linalg.svd(R)
        R = U @ Vt
    entries = snap(R.ravel().tolist())
    return (entries[0:3], entries[3:6], entries[6:9])  # type: ignore[return-value]
