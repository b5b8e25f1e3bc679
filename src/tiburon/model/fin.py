"""Fins: control surfaces, wings and rudders with lift and drag."""

import math
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.value_checks import Vec3, finite_array, number, unit_vector, vec3
from tiburon.record import field, record

ORTHOGONALITY_TOLERANCE = 1e-9
"""Largest cosine between chord and span: rounding of printed digits."""


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
        for quantity in ("lift_slope", "drag_coefficient", "plate_coefficient"):
            given = getattr(self, quantity)
            if given is not None:
                value = number(given, element, quantity, least=0.0)
                object.__setattr__(self, quantity, value)
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
        object.__setattr__(self, "area", number(self.area, element, "area", least=0.0))
        ratio = number(self.aspect_ratio, element, "aspect_ratio")
        if ratio <= 0.0:
            raise ModelError(
                f"{element}: aspect_ratio must be positive, got {ratio:g}; it is the span "
                "squared over the area"
            )
        object.__setattr__(self, "aspect_ratio", ratio)
        object.__setattr__(self, "position", vec3(self.position, element, "position"))
        for quantity in ("span", "chord"):
            direction = unit_vector(getattr(self, quantity), element, quantity)
            object.__setattr__(self, quantity, direction)
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
            deflection = number(self.deflection, element, "deflection")
            object.__setattr__(self, "deflection", deflection)
