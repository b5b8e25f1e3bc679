"""Inertia of a rigid body: mass, center of mass, inertia tensor."""

import math
from typing import Self, TypeAlias

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, shown
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3, finite_array, number, vec3
from tiburon.record import record
from tiburon.spatial import RigidInertia
from tiburon.spatial.vec3 import add, dot, matrix_product, matrix_vector

TRIANGLE_TOLERANCE = 1e-6
"""Largest violation of the triangle inequality, relative to the largest principal moment.

A thin plate lies exactly on the limit; values with seven digits may exceed it by that much.
"""

ASYMMETRY_TOLERANCE = 1e-9
"""Largest asymmetry of the tensor, relative to the largest entry: rounding only."""

Tensor6: TypeAlias = tuple[float, float, float, float, float, float]


@public
@record
class Inertia:
    """Mass, center of mass and inertia tensor of a rigid body; immutable, compares by value.

    Values are stored as given and validated by `Body`, so that messages name the body.

    Example:
        ``tb.Inertia.box(12.0, (0.4, 0.3, 0.2), com=(0, 0, 0.05))`` is that of a uniform box.
    """

    mass: float = 0.0
    """Mass [kg]."""

    com: Vec3 = (0.0, 0.0, 0.0)
    """Center of mass in body axes, from the body origin [m]."""

    tensor: Tensor6 = (0.0,) * 6
    """Inertia tensor about the center of mass, body axes: xx, xy, xz, yy, yz, zz [kg m^2].

    These are entries of the matrix (xy = minus the integral of x y dm). The constructor also takes
    a 3 x 3 matrix or three diagonal entries.
    """

    def __post_init__(self) -> None:
        mass = number(self.mass, "inertia", "mass")
        if mass < 0.0:
            raise ModelError(
                f"inertia: mass must be positive, got {mass:.6g} kg; leave the inertia out for a "
                "massless body"
            )
        object.__setattr__(self, "mass", mass)
        object.__setattr__(self, "com", vec3(self.com, "inertia", "center of mass"))
        object.__setattr__(self, "tensor", _tensor6(self.tensor))

    @classmethod
    @public
    def point(cls, mass: float, com: ArrayLike = (0.0, 0.0, 0.0)) -> Self:
        """Return the inertia of a point mass [kg] at a position in body axes [m]."""
        return cls(mass, vec3(com, "inertia", "center of mass"))

    @classmethod
    @public
    def box(cls, mass: float, size: ArrayLike, com: ArrayLike = (0.0, 0.0, 0.0)) -> Self:
        """Return the inertia of a solid box.

        Args:
            mass: Mass [kg].
            size: Edge lengths along the body axes [m], shape (3,).
            com: Center of the box in body axes [m], shape (3,).
        """
        moments = _moments(number(mass, "inertia", "mass") / 12.0, _lengths(size, "box size"))
        return cls(mass, vec3(com, "inertia", "center of mass"), _diagonal(moments))

    @classmethod
    @public
    def sphere(cls, mass: float, radius: float, com: ArrayLike = (0.0, 0.0, 0.0)) -> Self:
        """Return the inertia of a solid sphere with radius [m] and center in body axes [m]."""
        mass = number(mass, "inertia", "mass")
        radius = number(radius, "inertia", "radius", least=0.0)
        moment = 0.4 * mass * radius * radius
        return cls(mass, vec3(com, "inertia", "center of mass"), _diagonal((moment,) * 3))

    @classmethod
    @public
    def ellipsoid(cls, mass: float, radii: ArrayLike, com: ArrayLike = (0.0, 0.0, 0.0)) -> Self:
        """Return the inertia of a solid ellipsoid.

        Args:
            mass: Mass [kg].
            radii: Semi-axes along the body axes [m], shape (3,).
            com: Center of the ellipsoid in body axes [m], shape (3,).
        """
        moments = _moments(number(mass, "inertia", "mass") / 5.0, _lengths(radii, "radii"))
        return cls(mass, vec3(com, "inertia", "center of mass"), _diagonal(moments))

    @classmethod
    @public
    def cylinder(
        cls,
        mass: float,
        radius: float,
        length: float,
        com: ArrayLike = (0.0, 0.0, 0.0),
        *,
        axis: int = 2,
    ) -> Self:
        """Return the inertia of a solid cylinder along a body axis.

        Args:
            mass: Mass [kg].
            radius: Radius [m].
            length: Length along the axis [m].
            com: Center of the cylinder in body axes [m], shape (3,).
            axis: Body axis of the cylinder: 0, 1 or 2 for x, y, z.
        """
        if axis not in (0, 1, 2):
            raise ModelError(f"inertia: cylinder axis must be 0, 1 or 2, got {shown(axis)}")
        mass = number(mass, "inertia", "mass")
        radius = number(radius, "inertia", "radius", least=0.0)
        length = number(length, "inertia", "length", least=0.0)
        across = mass * (3.0 * radius * radius + length * length) / 12.0
        moments = [across, across, across]
        moments[axis] = 0.5 * mass * radius * radius
        x, y, z = moments
        return cls(mass, vec3(com, "inertia", "center of mass"), _diagonal((x, y, z)))

    def moved(self, pose: Pose) -> "Inertia":
        """Return the same inertia in another frame.

        Args:
            pose: The frame of this inertia in the other frame.
        """
        R = pose.rotation
        com = self.com
        # a massless body has no center of mass
        if self.mass != 0.0:
            com = add(matrix_vector(R, self.com), pose.translation)
        xx, xy, xz, yy, yz, zz = self.tensor
        rows = matrix_product(R, ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
        # the upper triangle of R I R^T, so that the result is exactly symmetric
        turned = tuple(dot(rows[i], R[j]) for i in range(3) for j in range(i, 3))
        return Inertia(self.mass, com, turned)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Inertia tensor about the center of mass, body axes [kg m^2], shape (3, 3)."""
        xx, xy, xz, yy, yz, zz = self.tensor
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    @property
    def rigid(self) -> RigidInertia:
        """The ten inertial parameters about the body origin."""
        return RigidInertia.from_mass(self.mass, self.com, self.tensor)

    @property
    def is_definite(self) -> bool:
        """Whether mass and all principal moments are positive."""
        if self.mass <= 0.0:
            return False
        if _is_plainly_definite(self.tensor):
            return True
        least, _, most = np.linalg.eigvalsh(self.matrix).tolist()
        return bool(least > 1e-12 * most)

    def check(self, body: str) -> None:
        """Raise `ModelError` naming the body if this inertia is physically impossible."""
        element = f"body {body!r}"
        if self.mass == 0.0 and (any(self.tensor) or any(self.com)):
            raise ModelError(
                f"{element}: a massless body cannot have an inertia tensor or center of mass, "
                f"got tensor {self.tensor} and com {self.com}; give it a mass or leave both out",
                name=body,
            )
        # moments a, b, c obey the inequality where b + c - a and so on are positive: those are #
        # the eigenvalues of tr(I) 1 - 2 I
        xx, xy, xz, yy, yz, zz = self.tensor
        spread = (yy + zz - xx, -2.0 * xy, -2.0 * xz, xx + zz - yy, -2.0 * yz, xx + yy - zz)
        if _is_plainly_definite(spread):
            return
        a, b, c = np.linalg.eigvalsh(self.matrix).tolist()
        slack = TRIANGLE_TOLERANCE * max(abs(a), abs(c))
        if a < -slack:
            raise ModelError(
                f"{element}: principal moments of inertia must not be negative, "
                f"got {a:.6g}, {b:.6g}, {c:.6g} kg m^2; check the signs and axes of the tensor",
                name=body,
            )
        if a + b < c - slack:
            raise ModelError(
                f"{element}: principal moments of inertia must obey the triangle inequality a + b "
                f">= c within {TRIANGLE_TOLERANCE:g} c, got {a:.6g} + {b:.6g} < {c:.6g} kg m^2; "
                "check units, and that the tensor is about the center of mass",
                name=body,
            )


def _is_plainly_definite(tensor: Tensor6) -> bool:
    """Return whether a symmetric matrix is clearly positive definite.

    By its leading minors (Sylvester). The least eigenvalue is at least the determinant over the
    squared trace, so that it is above 1e-9 of the largest where this is true.
    """
    xx, xy, xz, yy, yz, zz = tensor
    second = xx * yy - xy * xy
    determinant = zz * second - xx * yz * yz - yy * xz * xz + 2.0 * xy * xz * yz
    trace = xx + yy + zz
    return xx > 0.0 and second > 0.0 and determinant > 1e-9 * trace * trace * trace > 0.0


def _lengths(given: ArrayLike, what: str) -> Vec3:
    """Read three lengths; none is negative."""
    found = vec3(given, "inertia", what)
    for length in found:
        number(length, "inertia", what, least=0.0)
    return found


def _moments(m: float, lengths: Vec3) -> tuple[float, float, float]:
    """Return m (y^2 + z^2) and so on, of lengths along the axes."""
    x, y, z = lengths
    return m * (y * y + z * z), m * (z * z + x * x), m * (x * x + y * y)


def _diagonal(moments: tuple[float, float, float]) -> Tensor6:
    x, y, z = moments
    return (x, 0.0, 0.0, y, 0.0, z)


def _tensor6(value: ArrayLike) -> Tensor6:
    """Read a tensor given as 3 x 3 matrix, diagonal or six distinct entries."""
    plain: object = value
    if type(plain) is tuple and len(plain) == 6 and all(type(x) is float for x in plain):
        xx, xy, xz, yy, yz, zz = plain
        if math.isfinite(xx + xy + xz + yy + yz + zz):
            return (xx, xy, xz, yy, yz, zz)
    try:
        shape = np.shape(value)
    except ValueError:  # ragged nesting has no shape
        shape = (-1,)
    if shape == (6,):
        xx, xy, xz, yy, yz, zz = finite_array(value, (6,), "inertia", "tensor").tolist()
        return (xx, xy, xz, yy, yz, zz)
    if shape == (3,):
        return _diagonal(vec3(value, "inertia", "tensor"))
    if shape != (3, 3):
        raise ModelError(
            "inertia: tensor must be a 3 x 3 matrix, 3 diagonal entries or 6 entries "
            f"(xx, xy, xz, yy, yz, zz), got {shown(value)}"
        )
    matrix = finite_array(value, (3, 3), "inertia", "tensor")
    skew = float(np.abs(matrix - matrix.T).max())
    if skew > ASYMMETRY_TOLERANCE * float(np.abs(matrix).max()):
        raise ModelError(
            f"inertia: tensor must be symmetric, got mirrored entries that differ by {skew:.3g} "
            "kg m^2; correct the one mistyped, or pass the six entries xx, xy, xz, yy, yz, zz"
        )
    matrix = 0.5 * (matrix + matrix.T)
    return tuple(matrix[np.triu_indices(3)].tolist())
