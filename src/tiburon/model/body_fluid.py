"""Hydrodynamic coefficients of a body: added mass, buoyancy, drag shapes, damping; and of fins.

Added-mass matrices map [omega; v] to [n; f], angular rows and columns first, in body axes, about
the body origin. Newman, Fossen and SDF write linear rows first, and marine axes have z down:
`added_mass_from` is the one place that converts them.
"""

import math
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, OptionError, shown
from tiburon.model.pose import Pose
from tiburon.model.value_checks import (
    Matrix6,
    Vec3,
    convert,
    finite_array,
    matrix6,
    number,
    positive_density,
    unit_vector,
    vec3,
)
from tiburon.record import field, record

ORTHOGONALITY_TOLERANCE = 1e-9
"""Largest cosine between chord and span: rounding of printed digits."""


@public
@record
class ThinFoil:
    """A thin symmetric foil that stalls to a flat plate.

    With s and c sine and cosine of the angle of attack and AR the aspect ratio:

        attached flow    CL = a s c,  CD = c_0 + CL^2 / (pi e AR)    (Prandtl's lifting line)
        plate            CL = b s c,  CD = c_0 + b s^2    (Viterna and Corrigan 1982, leading terms)

    Between the two angles of `stall` the two are blended smoothly. Reverse flow is treated like
    forward flow, so the curves cover all angles.
    """

    lift_slope: float | None = None
    """a: lift per angle of attack [1/rad]; 2 pi AR / (2 + sqrt(4 + AR^2)) if None (Helmbold 1942),
    which is 2 pi for a long wing and pi AR / 2 for a short one."""

    drag_coefficient: float = 0.01
    """c_0: drag at zero angle of attack, for the area of the fin."""

    efficiency: float = 1.0
    """e: span efficiency; 1 for an elliptic lift distribution."""

    stall: tuple[float, float] = (math.radians(15.0), math.radians(30.0))
    """Angles of attack at which separation begins and is complete [rad]."""

    plate_coefficient: float | None = None
    """b: drag of the plate normal to the flow; 1.11 + 0.018 AR, at most 2.01, if None (Viterna and
    Corrigan 1982)."""

    def __post_init__(self) -> None:
        element = "thin foil"
        quantities = ("lift_slope", "drag_coefficient", "plate_coefficient")
        given = [quantity for quantity in quantities if getattr(self, quantity) is not None]
        convert(self, number, element, *given, least=0.0)
        efficiency = number(self.efficiency, element, "efficiency")
        if efficiency <= 0.0:
            raise ModelError(
                f"{element}: efficiency must be positive, got {efficiency:g}; an ellipse has 1"
            )
        object.__setattr__(self, "efficiency", efficiency)
        first, last = finite_array(self.stall, (2,), element, "stall").tolist()
        if not 0.0 <= first < last <= 0.5 * math.pi:
            raise ModelError(
                f"{element}: stall must be two angles between 0 and pi/2, the smaller one first, "
                f"got {first:g} and {last:g} rad; angles are in radians"
            )
        object.__setattr__(self, "stall", (first, last))

    def slope(self, aspect_ratio: float) -> float:
        """Return a [1/rad], for a fin of an aspect ratio."""
        if self.lift_slope is not None:
            return self.lift_slope
        return 2.0 * math.pi * aspect_ratio / (2.0 + math.sqrt(4.0 + aspect_ratio**2))

    def plate(self, aspect_ratio: float) -> float:
        """Return b, for a fin of an aspect ratio."""
        if self.plate_coefficient is not None:
            return self.plate_coefficient
        return min(1.11 + 0.018 * aspect_ratio, 2.01)


@record
class TableFoil:
    """Coefficients from a table over the angle of attack, interpolated linearly."""

    angles: tuple[float, ...]
    """Angles of attack [rad], increasing, from -pi to pi; or from 0 to pi for a symmetric foil."""

    lift: tuple[float, ...]
    """Lift coefficient at each angle, for the area of the fin. The first and the last row are the
    same flow and must agree; in a half table both are zero."""

    drag: tuple[float, ...]
    """Drag coefficient at each angle, likewise; non-negative."""

    def __post_init__(self) -> None:
        element = "table foil"
        for quantity in ("angles", "lift", "drag"):
            given = getattr(self, quantity)
            value = finite_array(given, (np.size(given),), element, quantity).tolist()
            object.__setattr__(self, quantity, tuple(value))
        count = len(self.angles)
        if count < 3 or len(self.lift) != count or len(self.drag) != count:
            raise ModelError(
                f"{element}: angles, lift and drag must be equally many, at least three, got "
                f"{count}, {len(self.lift)} and {len(self.drag)}; complete the rows"
            )
        if not all(a < b for a, b in pairwise(self.angles)):
            raise ModelError(f"{element}: angles must rise, got {list(self.angles)}; sort the rows")
        first, last = self.angles[0], self.angles[-1]
        half = abs(first) < ORTHOGONALITY_TOLERANCE
        if abs(last - math.pi) > ORTHOGONALITY_TOLERANCE or not (
            half or abs(first + math.pi) < ORTHOGONALITY_TOLERANCE
        ):
            raise ModelError(
                f"{element}: angles must go from -pi to pi, or from 0 to pi, got {first:g} to "
                f"{last:g} rad; the table must cover all directions"
            )
        # printed digits of pi mean pi itself
        ends = (0.0 if half else -math.pi, *self.angles[1:-1], math.pi)
        object.__setattr__(self, "angles", ends)
        if half and (self.lift[0] or self.lift[-1]):
            raise ModelError(
                f"{element}: lift must be zero at 0 and pi where half a table stands for both "
                f"sides, got {self.lift[0]:g} and {self.lift[-1]:g}; give all of it, from -pi"
            )
        if not half and (self.lift[0] != self.lift[-1] or self.drag[0] != self.drag[-1]):
            raise ModelError(
                f"{element}: the rows of -pi and pi must agree, got lift {self.lift[0]:g} and "
                f"{self.lift[-1]:g}, drag {self.drag[0]:g} and {self.drag[-1]:g}"
            )
        if min(self.drag) < 0.0:
            raise ModelError(
                f"{element}: drag must not be negative, got {min(self.drag):g}; drag opposes "
                "motion, so a coefficient is positive"
            )

    def rows(self) -> tuple[tuple[float, float, float], ...]:
        """Return angle, lift and drag from -pi to pi."""
        right = tuple(zip(self.angles, self.lift, self.drag, strict=True))
        if self.angles[0] < 0.0:
            return right
        return (*((-angle, -lift, drag) for angle, lift, drag in reversed(right[1:])), *right)


Foil: TypeAlias = ThinFoil | TableFoil


@record
class Fin:
    """A fin of a body: lift across the flow and drag along it, at one point.

    The force follows from the flow normal to the span, at the velocity of the fin's position
    relative to the water. Divide a long wing into several fins. A fin that rotates on a joint
    belongs to its own body.

    Example:
        ``Fin(area=0.007, aspect_ratio=2.2, position=(-0.7, 0.1, 0), span=(0, 1, 0))``
    """

    area: float
    """Planform area [m^2]."""

    aspect_ratio: float
    """Span squared over area. A hull at the root acts as a mirror and doubles it."""

    position: Vec3 = (0.0, 0.0, 0.0)
    """Point of force, a quarter chord behind the leading edge, body axes [m]."""

    span: Vec3 = (0.0, 1.0, 0.0)
    """Unit vector along the span, body axes."""

    chord: Vec3 = (1.0, 0.0, 0.0)
    """Unit vector from the trailing to the leading edge, body axes; normal to the span."""

    foil: Foil = field(default_factory=ThinFoil)
    """Its coefficients."""

    deflection: float | None = None
    """Deflection angle about the span, right-handed [rad]; None for a fixed fin. With span to the
    left and chord ahead, positive angles lower the leading edge."""

    name: str = ""
    """For messages."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ModelError(f"fin: the name must be a string, got {shown(self.name)}")
        element = f"fin {self.name!r}" if self.name else "fin"
        convert(self, number, element, "area", least=0.0)
        ratio = number(self.aspect_ratio, element, "aspect_ratio")
        if ratio <= 0.0:
            raise ModelError(
                f"{element}: aspect_ratio must be positive, got {ratio:g}; it is the span "
                "squared over the area"
            )
        object.__setattr__(self, "aspect_ratio", ratio)
        convert(self, vec3, element, "position")
        convert(self, unit_vector, element, "span", "chord")
        along = sum(a * b for a, b in zip(self.span, self.chord, strict=True))
        if abs(along) > ORTHOGONALITY_TOLERANCE:
            raise ModelError(
                f"{element}: chord must be normal to the span, got {list(self.chord)} and "
                f"{list(self.span)}; for a swept fin give the direction of the oncoming flow"
            )
        given: object = self.foil
        if not isinstance(given, Foil):
            raise ModelError(
                f"{element}: foil must be ThinFoil(...) or TableFoil(...), got {shown(given)}"
            )
        if self.deflection is not None:
            convert(self, number, element, "deflection")


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
    matrix: ArrayLike,
    *,
    order: str = "angular-first",
    axes: str = "flu",
    element: str = "added mass",
) -> NDArray[np.float64]:
    """Convert a matrix from motion to force, such as damping, from a published order and axes.

    Arguments as for `added_mass_from`, and what messages call the matrix, which need not be
    symmetric.

    Returns:
        The matrix, angular first, body axes, shape (6, 6).
    """
    if order not in ORDERS:
        raise OptionError("order", ORDERS, order)
    if axes not in AXES:
        raise OptionError("axes", tuple(AXES), axes)
    M = _full(matrix, element)
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


def _full(matrix: ArrayLike, element: str) -> NDArray[np.float64]:
    """Return the 6 x 6 matrix from any accepted layout."""
    try:
        shape = np.shape(matrix)
    except ValueError:  # ragged nesting has no shape
        shape = (-1,)
    if shape == (21,):
        M = np.zeros((6, 6))
        M[np.triu_indices(6)] = finite_array(matrix, (21,), element, "matrix")
        return M + np.triu(M, 1).T
    if shape == (6,):
        return np.diag(finite_array(matrix, (6,), element, "matrix"))
    if shape == (36,):
        return finite_array(matrix, (36,), element, "matrix").reshape(6, 6)
    return finite_array(matrix, (6, 6), element, "matrix")


@record
class CylinderDrag:
    """Drag of a cylinder, integrated over strips (McMillan, Orin and McGhee 1995).

    As in all drag shapes: dimensions, then coefficients, then the place on the body.
    """

    radius: float
    """Radius [m]."""

    length: float
    """Length along the axis [m]."""

    side_coefficient: float = 1.0
    """Drag coefficient of cross flow, for the area 2 radius length."""

    end_coefficients: tuple[float, float] = (0.0, 0.0)
    """Drag coefficients of axial flow on the first and the second end face, for their area."""

    start: Vec3 = (0.0, 0.0, 0.0)
    """Center of the first end, body axes [m]."""

    axis: Vec3 = (0.0, 0.0, 1.0)
    """Unit vector from the first end to the second, body axes."""

    def __post_init__(self) -> None:
        element = "cylinder drag"
        convert(self, number, element, "radius", "length", "side_coefficient", least=0.0)
        ends = _coefficients(self.end_coefficients, 2, element, "end_coefficients")
        object.__setattr__(self, "end_coefficients", ends)
        convert(self, vec3, element, "start")
        convert(self, unit_vector, element, "axis")


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
        convert(self, number, element, "radius", "coefficient", least=0.0)
        convert(self, vec3, element, "center")


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

    Example:
        ``tb.BodyFluid(volume=0.03, center_of_buoyancy=(0, 0, 0.02), added_mass=np.eye(6))``
    """

    volume: float = 0.0
    """Volume of water it displaces [m^3]."""

    center_of_buoyancy: Vec3 = (0.0, 0.0, 0.0)
    """Center of buoyancy, body axes [m]. Its offset from the center of mass rights the body."""

    added_mass: Matrix6 | None = None
    """Added inertia about the body origin, body axes, angular rows first [kg m^2, kg m, kg].

    A symmetric 6 x 6 matrix, or six diagonal entries; None where there is none. `added_mass_from`
    converts published matrices. The result of `panel_added_mass` is taken whole and converted from
    its density to the reference density.
    """

    drag: tuple[Drag, ...] = ()
    """Drag shapes."""

    linear_damping: Matrix6 | None = None
    """D in force = -D [omega; v], 6 x 6 or six diagonal entries, angular first, body axes."""

    quadratic_damping: Matrix6 | None = None
    """D in ``force = -D |x| x`` for x in [omega; v], 6 x 6 or six diagonal entries, as above."""

    fins: tuple[Fin, ...] = ()
    """Fins, with lift and drag."""

    reference_density: float | None = 1025.0
    """Reference density of `added_mass`, `linear_damping` and `quadratic_damping` [kg/m^3]; sea
    water by default. In another fluid they scale with its density. None for coefficients that apply
    to any fluid unscaled.
    """

    def __post_init__(self) -> None:
        element = "body fluid"
        convert(self, number, element, "volume", least=0.0)
        convert(self, vec3, element, "center_of_buoyancy")
        if self.reference_density is not None:
            convert(self, positive_density, element, "reference_density")
        object.__setattr__(self, "added_mass", self._at_reference_density(element))
        matrices = ("added_mass", "linear_damping", "quadratic_damping")
        convert(self, matrix6, element, *(x for x in matrices if getattr(self, x) is not None))
        for quantity in ("linear_damping", "quadratic_damping"):
            matrix: Matrix6 | None = getattr(self, quantity)
            least = min((row[i] for i, row in enumerate(matrix or ())), default=0.0)
            if least < 0.0:
                raise ModelError(
                    f"{element}: {quantity} must have no negative entry on its diagonal, got "
                    f"{least:g}; published derivatives such as X_u and X_u|u| are the negative of "
                    "its entries"
                )
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
        for part, kind, expected in (
            ("drag", Drag, "drag shapes such as CylinderDrag(...)"),
            ("fins", Fin, "Fin(...)"),
        ):
            given = getattr(self, part)
            if not isinstance(given, (tuple, list)) or not all(isinstance(x, kind) for x in given):
                raise ModelError(
                    f"{element}: {part} must be a tuple of {expected}, got {shown(given)}"
                )
            object.__setattr__(self, part, tuple(given))

    def _at_reference_density(self, element: str) -> object:
        """Return the added mass, converted if it states the density it was computed for."""
        given: object = self.added_mass
        matrix, density = getattr(given, "matrix", None), getattr(given, "density", None)
        if matrix is None or density is None:
            return given
        if self.reference_density is None:
            raise ModelError(
                f"{element}: added_mass was computed for {density:g} kg/m^3, so it cannot apply to "
                "any fluid unscaled; give reference_density, or pass its matrix"
            )
        return np.array(matrix) * (self.reference_density / density)
