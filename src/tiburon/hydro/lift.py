"""Lift and drag of fins.

Symbols:
    u       velocity of the fin's place relative to the water; u_c, u_n its parts along the chord,
            toward the leading edge, and along the normal, chord x span
    s, c    sine and cosine of the angle of attack: positive where water comes from below the normal
    CL, CD  coefficients of lift and drag, by the area A

The force is 1/2 rho A |u| (CL u x span - CD u), with u in the plane across the span: lift is square
to the flow and does no work, and drag takes power from the fin whatever its angle. It is of second
order in the velocity, so that at rest its derivative is zero.
"""

import math
from collections.abc import Callable

import numpy as np

from tiburon.hydro.pressure_drag import speed
from tiburon.model.body_fluid import Fin, TableFoil, ThinFoil
from tiburon.record import record
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.spatial.vec3 import add, cross, dot, scale

__all__ = ["PlacedFin", "placed_fin"]

SLOW = 1e-100
"""Speed that nothing can feel [m/s]; it keeps the derivative of an angle finite at rest."""

Axis = Callable[[Vec3], Vec3]


@record(slots=False)
class PlacedFin:
    """A fin in a plan frame."""

    place: Vec3
    """Where the force acts [m]."""

    chord: Vec3
    normal: Vec3

    stall: tuple[float, float]
    """Squares of the sines of the angles of stall."""

    angles: tuple[float, ...]
    """Of a table [rad]; empty for a `ThinFoil`."""

    numbers: tuple[Scalar, ...]
    """Half the area times coefficients: a, b, c_0, a^2 / (pi e AR); of a table, all lifts and then
    all drags."""

    deflection: Scalar | None = None
    """About the span [rad]; None where it cannot be turned."""

    def force(self, density: Scalar, relative: Callable[[Vec3], Vec3]) -> Force:
        """Return lift and drag, about the origin of the plan frame.

        Args:
            density: Of the water [kg/m^3].
            relative: Velocity of a point of the link relative to the water there [m/s].
        """
        here = relative(self.place)
        u_c, u_n = dot(self.chord, here), dot(self.normal, here)
        felt_c, felt_n = u_c, u_n
        if self.deflection is not None:
            # turned about the span, the leading edge goes against the normal
            sin, cos = np.sin(self.deflection), np.cos(self.deflection)
            felt_c, felt_n = cos * u_c - sin * u_n, cos * u_n + sin * u_c
        U = speed(u_c, u_n)
        if self.angles:
            lift, drag = self._from_table(felt_c, felt_n)
        else:
            lift, drag = self._thin(felt_c / U, -felt_n / U)
        L, D = density * U * lift, density * U * drag
        F_c, F_n = -D * u_c - L * u_n, L * u_c - D * u_n
        force = add(scale(self.chord, F_c), scale(self.normal, F_n))
        return Force(cross(self.place, force), force)

    def _thin(self, c: Scalar, s: Scalar) -> tuple[Scalar, Scalar]:
        """Return half the area times CL and CD of a `ThinFoil`."""
        a, b, c_0, induced = self.numbers
        first, last = self.stall
        square = s * s
        t = np.minimum(np.maximum((square - first) / (last - first), 0.0), 1.0)
        # the share of the plate: without kinks where stall begins and ends
        parted = t * t * (3.0 - 2.0 * t)
        lift = s * c * (a + parted * (b - a))
        drag = c_0 + square * (induced * c * c + parted * (b - induced * c * c))
        return lift, drag

    def _from_table(self, u_c: Scalar, u_n: Scalar) -> tuple[Scalar, Scalar]:
        """Return half the area times CL and CD of a `TableFoil`."""
        angles = self.angles
        count = len(angles)
        lifts, drags = self.numbers[:count], self.numbers[count:]
        alpha = np.arctan2(-u_n, u_c + SLOW)
        lift, drag = lifts[0], drags[0]
        for k in range(count - 1):
            begin, end = angles[k], angles[k + 1]
            share = (alpha - begin) * (1.0 / (end - begin))
            share = np.minimum(np.maximum(share, 0.0), 1.0)
            lift = lift + (lifts[k + 1] - lifts[k]) * share
            drag = drag + (drags[k + 1] - drags[k]) * share
        return lift, drag


def placed_fin(fin: Fin, turned: Axis, moved: Axis) -> PlacedFin:
    """Bring a fin into a plan frame.

    Args:
        fin: In body axes.
        turned: From a direction in body axes to the plan frame's.
        moved: From a point likewise.
    """
    half = 0.5 * fin.area
    foil = fin.foil
    stall, angles = (0.0, 1.0), ()
    if isinstance(foil, TableFoil):
        angles, lifts, drags = zip(*foil.rows(), strict=True)
        numbers = tuple(half * x for x in (*lifts, *drags))
    else:
        assert isinstance(foil, ThinFoil)
        a, b = foil.slope(fin.aspect_ratio), foil.plate(fin.aspect_ratio)
        induced = a * a / (math.pi * foil.efficiency * fin.aspect_ratio)
        numbers = tuple(half * x for x in (a, b, foil.drag_coefficient, induced))
        first, last = (math.sin(angle) ** 2 for angle in foil.stall)
        stall = (first, last)
    normal = turned(cross(fin.chord, fin.span))
    chord = turned(fin.chord)
    return PlacedFin(moved(fin.position), chord, normal, stall, angles, numbers, fin.deflection)
