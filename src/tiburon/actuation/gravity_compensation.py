"""Gravity compensation of bodies: forces on their centers of mass against gravity, as in MuJoCo.

Symbols:
    c    part of its weight that is compensated, of each body
    m    mass [kg]
    g    gravitational acceleration [m/s^2]

The force is -c m g at the center of mass: with c = 1 a body floats, with c above 1 it rises.
"""

from collections.abc import Hashable
from typing import Self

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.model import Model
from tiburon.model.value_checks import Vec3
from tiburon.record import record
from tiburon.spatial import Scalar
from tiburon.spatial.vec3 import cross, matrix_vector, scale, transpose


@record
class GravityCompensation(Element):
    """Force element of bodies whose weight is compensated; c m and the center are parameters."""

    name: str
    """Unique among the elements of a run."""

    bodies: tuple[str, ...]
    """Names of the bodies."""

    masses: tuple[float, ...]
    """Compensated mass c m of each [kg]."""

    centers: tuple[Vec3, ...]
    """Center of mass of each, body axes [m]."""

    @classmethod
    def of(cls, model: Model) -> Self | None:
        """Return the element of a robot; None where no weight is compensated."""
        found = [b for b in model.bodies if b.gravity_compensation and b.inertia.mass]
        if not found:
            return None
        return cls(
            "gravity compensation",
            tuple(body.name for body in found),
            tuple(body.gravity_compensation * body.inertia.mass for body in found),
            tuple(body.inertia.com for body in found),
        )

    def parameters(self) -> tuple[float, ...]:
        """Return compensated mass [kg] and center of mass [m] of each body."""
        rows = zip(self.masses, self.centers, strict=True)
        return tuple(x for mass, center in rows for x in (mass, *center))

    def structure(self) -> Hashable:
        """Return the names of the bodies."""
        return self.bodies

    def act(self, now: ElementContext) -> Action:
        """Compute the wrenches on the bodies."""
        wrenches: dict[str, tuple[Scalar, ...]] = {}
        for k, name in enumerate(self.bodies):
            m, x, y, z = now.p[4 * k : 4 * k + 4]
            up = matrix_vector(transpose(now.frame_pose(name).R), now.gravity)
            f = scale(up, -m)
            wrenches[name] = (*cross((x, y, z), f), *f)
        return Action(wrenches=wrenches)
