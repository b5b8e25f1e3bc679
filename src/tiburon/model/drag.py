"""Shapes for which the drag of water on a body is summed up."""

from typing import TypeAlias

from tiburon.errors import ModelError, shown
from tiburon.model.numbers import Vec3, finite_array, number, unit_vector, vec3
from tiburon.model.pose import Pose
from tiburon.record import field, record


@record
class CylinderDrag:
    """A round bar, on which drag acts strip by strip (McMillan, Orin and McGhee 1995)."""

    radius: float
    """Radius [m]."""

    length: float
    """Length along the axis [m]."""

    start: Vec3 = (0.0, 0.0, 0.0)
    """Center of the first end, body axes [m]."""

    axis: Vec3 = (0.0, 0.0, 1.0)
    """Unit vector from the first end to the second, body axes."""

    side_coefficient: float = 1.0
    """Drag coefficient of flow across the bar, by the area 2 radius length."""

    end_coefficients: tuple[float, float] = (0.0, 0.0)
    """Drag coefficients of flow against the first and the second end, by their area."""

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
    """A box, on whose faces drag acts."""

    size: Vec3
    """Edge lengths along its axes [m]."""

    coefficients: Vec3 = (1.0, 1.0, 1.0)
    """Drag coefficients of flow along its axes, by the area of the face it meets."""

    pose: Pose = field(default_factory=Pose)
    """Its middle and axes in body axes."""

    def __post_init__(self) -> None:
        _check_solid(self, "box drag", "size")


@record
class EllipsoidDrag:
    """An ellipsoid, on which drag acts."""

    radii: Vec3
    """Half axes [m]."""

    coefficients: Vec3 = (1.0, 1.0, 1.0)
    """Drag coefficients of flow along its axes, by the area of its shadow."""

    pose: Pose = field(default_factory=Pose)
    """Its middle and axes in body axes."""

    def __post_init__(self) -> None:
        _check_solid(self, "ellipsoid drag", "radii")


@record
class SphereDrag:
    """A ball, on which drag acts."""

    radius: float
    """Radius [m]."""

    coefficient: float = 0.5
    """Drag coefficient, by the area of its shadow."""

    center: Vec3 = (0.0, 0.0, 0.0)
    """Its middle, body axes [m]."""

    def __post_init__(self) -> None:
        element = "sphere drag"
        object.__setattr__(self, "radius", number(self.radius, element, "radius", least=0.0))
        value = number(self.coefficient, element, "coefficient", least=0.0)
        object.__setattr__(self, "coefficient", value)
        object.__setattr__(self, "center", vec3(self.center, element, "center"))


Drag: TypeAlias = CylinderDrag | BoxDrag | EllipsoidDrag | SphereDrag


def _coefficients(value: object, count: int, element: str, quantity: str) -> tuple[float, ...]:
    """Convert to some numbers none of which is negative."""
    numbers = finite_array(value, (count,), element, quantity).tolist()  # type: ignore[arg-type]
    if min(numbers) < 0.0:
        raise ModelError(
            f"{element}: {quantity} must not be negative, got {numbers}; drag slows, so a "
            "coefficient is positive"
        )
    return tuple(numbers)


def _check_solid(drag: BoxDrag | EllipsoidDrag, element: str, lengths: str) -> None:
    """Check and store the numbers of a solid with three axes."""
    object.__setattr__(drag, lengths, _coefficients(getattr(drag, lengths), 3, element, lengths))
    values = _coefficients(drag.coefficients, 3, element, "coefficients")
    object.__setattr__(drag, "coefficients", values)
    given: object = drag.pose
    if not isinstance(given, Pose):
        raise ModelError(
            f"{element}: pose must be a Pose, got {shown(given)}; write Pose(translation=(x, y, z))"
        )
