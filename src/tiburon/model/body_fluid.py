"""Hydrodynamic coefficients of a body: added mass, buoyancy, drag shapes, damping.

Added-mass matrices map [omega; v] to [n; f], angular rows and columns first, in body axes, about
the body origin. Newman, Fossen and SDF write linear rows first, and marine axes have z down:
`added_mass_from` is the one place that converts them.
"""

from typing import TypeAlias

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, OptionError, shown
from tiburon.model.fin import Fin
from tiburon.model.pose import Pose
from tiburon.model.value_checks import (
    Matrix6,
    Vec3,
    finite_array,
    matrix6,
    number,
    positive_density,
    unit_vector,
    vec3,
)
from tiburon.record import field, record

ORDERS = ("angular-first", "linear-first")
"""Orders of rows and columns."""

AXES = {
    "flu": (1.0, 1.0, 1.0),
    "nwu": (1.0, 1.0, 1.0),
    "frd": (1.0, -1.0, -1.0),
    "ned": (1.0, -1.0, -1.0),
}
"""Signs that convert axes to body axes with x forward, y left, z up."""

ASYMMETRY_TOLERANCE = 1e-9
"""Largest asymmetry, relative to the largest entry: rounding only."""


@public
def added_mass_from(
    matrix: ArrayLike,
    *,
    order: str = "angular-first",
    axes: str = "flu",
    about: ArrayLike = (0.0, 0.0, 0.0),
    symmetrize: bool = False,
) -> NDArray[np.float64]:
    """Convert an added-mass matrix from a published order and axes.

    Args:
        matrix: 6 x 6; or the 21 entries of the upper triangle row by row, as SDF lists them; or the
            six entries of the diagonal [kg m^2, kg m, kg]. Positive: the sign of M_A, not of the
            derivatives X_udot.
        order: "angular-first" or "linear-first" (Newman, Fossen, SDF).
        axes: "flu" or "nwu" (forward, left, up) for our body axes, "frd" or "ned" (forward, right,
            down) for marine axes.
        about: Reference point of the matrix, in our body axes [m], shape (3,).
        symmetrize: Average mirrored entries, for matrices that were measured or computed.

    Returns:
        Added mass, angular first, body axes, about the body origin, shape (6, 6).

    Raises:
        ModelError: If the matrix is not symmetric and `symmetrize` is not set.

    Example:
        ``BodyFluid(added_mass=added_mass_from(MA, order="linear-first", axes="ned"))``
    """
    M = six_by_six_from(matrix, order=order, axes=axes)
    M = 0.5 * (M + M.T) if symmetrize else symmetric(M, "added mass")
    x, y, z = vec3(about, "added mass", "about")
    if any((x, y, z)):
        # motion at the origin to motion at the point: v_P = v_O + omega x p
        X = np.eye(6)
        X[3:, :3] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
        M = X.T @ M @ X
        M = 0.5 * (M + M.T)
    return np.asarray(M, dtype=np.float64)


def six_by_six_from(
    matrix: ArrayLike, *, order: str = "angular-first", axes: str = "flu"
) -> NDArray[np.float64]:
    """Convert a matrix from motion to force, such as damping, from a published order and axes.

    Arguments as for `added_mass_from`; the matrix need not be symmetric.

    Returns:
        The matrix, angular first, body axes, shape (6, 6).
    """
    if order not in ORDERS:
        raise OptionError("order", ORDERS, order)
    if axes not in AXES:
        raise OptionError("axes", tuple(AXES), axes)
    M = _full(matrix)
    if order == "linear-first":
        swap = [3, 4, 5, 0, 1, 2]
        M = M[np.ix_(swap, swap)]
    signs = np.array(AXES[axes] * 2)
    return np.asarray(signs[:, None] * M * signs, dtype=np.float64)


def symmetric(M: NDArray[np.float64], element: str) -> NDArray[np.float64]:
    """Return an exactly symmetric matrix, or raise if the asymmetry exceeds rounding."""
    skew = float(np.abs(M - M.T).max())
    if skew > ASYMMETRY_TOLERANCE * float(np.abs(M).max()):
        i, j = np.unravel_index(int(np.argmax(np.abs(M - M.T))), M.shape)
        raise ModelError(
            f"{element}: added mass must be symmetric, got {M[i, j]:g} in row {i + 1}, column "
            f"{j + 1} but {M[j, i]:g} mirrored; correct one, or average them with "
            "added_mass_from(..., symmetrize=True)"
        )
    mirrored: NDArray[np.float64] = np.triu(M) + np.triu(M, 1).T
    return mirrored


def _full(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the 6 x 6 matrix from any accepted layout."""
    try:
        shape = np.shape(matrix)
    except ValueError:  # ragged nesting has no shape
        shape = (-1,)
    if shape == (21,):
        M = np.zeros((6, 6))
        M[np.triu_indices(6)] = finite_array(matrix, (21,), "added mass", "matrix")
        return M + np.triu(M, 1).T
    if shape == (6,):
        return np.diag(finite_array(matrix, (6,), "added mass", "matrix"))
    if shape == (36,):
        return finite_array(matrix, (36,), "added mass", "matrix").reshape(6, 6)
    return finite_array(matrix, (6, 6), "added mass", "matrix")


@record
class CylinderDrag:
    """Drag of a cylinder, integrated over strips (McMillan, Orin and McGhee 1995)."""

    radius: float
    """Radius [m]."""

    length: float
    """Length along the axis [m]."""

    start: Vec3 = (0.0, 0.0, 0.0)
    """Center of the first end, body axes [m]."""

    axis: Vec3 = (0.0, 0.0, 1.0)
    """Unit vector from the first end to the second, body axes."""

    side_coefficient: float = 1.0
    """Drag coefficient of cross flow, for the area 2 radius length."""

    end_coefficients: tuple[float, float] = (0.0, 0.0)
    """Drag coefficients of axial flow on the first and the second end face, for their area."""

    def __post_init__(self) -> None:
        element = "cylinder drag"
        object.__setattr__(self, "radius", number(self.radius, element, "radius", least=0.0))
        object.__setattr__(self, "length", number(self.length, element, "length", least=0.0))
        object.__setattr__(self, "start", vec3(self.start, element, "start"))
        object.__setattr__(self, "axis", unit_vector(self.axis, element, "axis"))
        side = number(self.side_coefficient, element, "side_coefficient", least=0.0)
        object.__setattr__(self, "side_coefficient", side)
        ends = _coefficients(self.end_coefficients, 2, element, "end_coefficients")
        object.__setattr__(self, "end_coefficients", ends)


@record
class BoxDrag:
    """Drag of a box."""

    size: Vec3
    """Edge lengths along its axes [m]."""

    coefficients: Vec3 = (1.0, 1.0, 1.0)
    """Drag coefficients of flow along its axes, for the face area."""

    pose: Pose = field(default_factory=Pose)
    """Its center and axes in body axes."""

    def __post_init__(self) -> None:
        _check_solid(self, "box drag", "size")


@record
class EllipsoidDrag:
    """Drag of an ellipsoid."""

    radii: Vec3
    """Half axes [m]."""

    coefficients: Vec3 = (1.0, 1.0, 1.0)
    """Drag coefficients of flow along its axes, for the projected area."""

    pose: Pose = field(default_factory=Pose)
    """Its center and axes in body axes."""

    def __post_init__(self) -> None:
        _check_solid(self, "ellipsoid drag", "radii")


@record
class SphereDrag:
    """Drag of a sphere."""

    radius: float
    """Radius [m]."""

    coefficient: float = 0.5
    """Drag coefficient, for the projected area."""

    center: Vec3 = (0.0, 0.0, 0.0)
    """Its center, body axes [m]."""

    def __post_init__(self) -> None:
        element = "sphere drag"
        object.__setattr__(self, "radius", number(self.radius, element, "radius", least=0.0))
        value = number(self.coefficient, element, "coefficient", least=0.0)
        object.__setattr__(self, "coefficient", value)
        object.__setattr__(self, "center", vec3(self.center, element, "center"))


Drag: TypeAlias = CylinderDrag | BoxDrag | EllipsoidDrag | SphereDrag


def _coefficients(value: object, count: int, element: str, quantity: str) -> tuple[float, ...]:
    """Convert to non-negative floats."""
    numbers = finite_array(value, (count,), element, quantity).tolist()  # type: ignore[arg-type]
    if min(numbers) < 0.0:
        raise ModelError(
            f"{element}: {quantity} must not be negative, got {numbers}; drag opposes motion, so "
            "a coefficient is positive"
        )
    return tuple(numbers)


def _check_solid(drag: BoxDrag | EllipsoidDrag, element: str, lengths: str) -> None:
    """Check and store the dimensions and coefficients of a solid with three axes."""
    object.__setattr__(drag, lengths, _coefficients(getattr(drag, lengths), 3, element, lengths))
    values = _coefficients(drag.coefficients, 3, element, "coefficients")
    object.__setattr__(drag, "coefficients", values)
    given: object = drag.pose
    if not isinstance(given, Pose):
        raise ModelError(
            f"{element}: pose must be a Pose, got {shown(given)}; write Pose(translation=(x, y, z))"
        )


EIGENVALUE_TOLERANCE = 1e-9
"""Most negative eigenvalue accepted, relative to the largest: rounding of printed digits."""


@record
class BodyFluid:
    """Buoyancy, added mass, drag and lift of one submerged body; immutable, compares by value.

    Data only; `hydro/` computes the forces.
    """

    volume: float = 0.0
    """Volume of water it displaces [m^3]."""

    center_of_buoyancy: Vec3 = (0.0, 0.0, 0.0)
    """Center of buoyancy, body axes [m]. Its offset from the center of mass rights the body."""

    added_mass: Matrix6 | None = None
    """Added inertia about the body origin, body axes, angular rows first [kg m^2, kg m, kg].

    A symmetric 6 x 6 matrix, or six diagonal entries; None where there is none. `added_mass_from`
    converts published matrices.
    """

    drag: tuple[Drag, ...] = ()
    """Drag shapes."""

    linear_damping: Matrix6 | None = None
    """D in force = -D [omega; v], 6 x 6 or six diagonal entries, angular first, body axes."""

    quadratic_damping: Matrix6 | None = None
    """D in force = -D |x| x for x in [omega; v], 6 x 6 or six diagonal entries, as above."""

    fins: tuple[Fin, ...] = ()
    """Fins, with lift and drag."""

    reference_density: float | None = 1025.0
    """Reference density of `added_mass`, `linear_damping` and `quadratic_damping` [kg/m^3]; sea
    water by default. In another fluid they scale with its density. None for coefficients that apply
    to any fluid unscaled.
    """

    def __post_init__(self) -> None:
        element = "body fluid"
        object.__setattr__(self, "volume", number(self.volume, element, "volume", least=0.0))
        center = vec3(self.center_of_buoyancy, element, "center_of_buoyancy")
        object.__setattr__(self, "center_of_buoyancy", center)
        for quantity in ("added_mass", "linear_damping", "quadratic_damping"):
            given = getattr(self, quantity)
            if given is not None:
                object.__setattr__(self, quantity, matrix6(given, element, quantity))
        for quantity in ("linear_damping", "quadratic_damping"):
            _check_damping(getattr(self, quantity), element, quantity)
        if self.added_mass is not None:
            M = symmetric(np.array(self.added_mass), element)
            eigenvalues = np.linalg.eigvalsh(M)
            if eigenvalues[0] < -EIGENVALUE_TOLERANCE * max(
                abs(eigenvalues[-1]), abs(eigenvalues[0])
            ):
                raise ModelError(
                    f"{element}: added mass must not be indefinite, got the eigenvalue "
                    f"{eigenvalues[0]:g}; published derivatives such as X_udot are the negative "
                    "of its entries"
                )
            object.__setattr__(self, "added_mass", matrix6(M, element, "added_mass"))
        listed: object = self.drag
        if not isinstance(listed, (tuple, list)) or not all(isinstance(d, Drag) for d in listed):
            raise ModelError(
                f"{element}: drag must be a tuple of drag shapes such as CylinderDrag(...), "
                f"got {shown(listed)}"
            )
        object.__setattr__(self, "drag", tuple(listed))
        fins: object = self.fins
        if not isinstance(fins, (tuple, list)) or not all(isinstance(f, Fin) for f in fins):
            raise ModelError(f"{element}: fins must be a tuple of Fin(...), got {shown(fins)}")
        object.__setattr__(self, "fins", tuple(fins))
        if self.reference_density is not None:
            density = positive_density(self.reference_density, element, "reference_density")
            object.__setattr__(self, "reference_density", density)


def _check_damping(matrix: Matrix6 | None, element: str, quantity: str) -> None:
    """Raise if damping would accelerate a body."""
    least = min((row[i] for i, row in enumerate(matrix or ())), default=0.0)
    if least < 0.0:
        raise ModelError(
            f"{element}: {quantity} must have no negative entry on its diagonal, got {least:g}; "
            "published derivatives such as X_u and X_u|u| are the negative of its entries"
        )
