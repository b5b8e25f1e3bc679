"""What still or moving water needs to know of a body."""

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.added_mass import symmetric
from tiburon.model.drag import Drag
from tiburon.model.fin import Fin
from tiburon.model.numbers import Matrix6, Vec3, matrix6, number, positive_density, vec3
from tiburon.record import record

DEFINITE = 1e-9
"""How far below zero an eigenvalue may fall, relative to the largest: rounding of typed digits."""


@record
class BodyFluid:
    """Buoyancy, added mass, drag and lift of one submerged body; immutable, compares by value.

    Numbers only: what water does with them is said where water is.
    """

    volume: float = 0.0
    """Volume of water it displaces [m^3]."""

    center_of_buoyancy: Vec3 = (0.0, 0.0, 0.0)
    """Point where buoyancy acts, body axes [m]. Its gap to the center of mass rights the body."""

    added_mass: Matrix6 | None = None
    """Added inertia about the body origin, body axes, angular rows first [kg m^2, kg m, kg].

    A symmetric 6 x 6 matrix, or six diagonal entries; None where there is none. Published matrices
    come in through `added_mass_from`.
    """

    drag: tuple[Drag, ...] = ()
    """Shapes on which drag acts."""

    linear_damping: Matrix6 | None = None
    """D in force = -D [omega; v], 6 x 6 or six diagonal entries, angular first, body axes."""

    quadratic_damping: Matrix6 | None = None
    """D in force = -D |x| x for x in [omega; v], 6 x 6 or six diagonal entries, as above."""

    fins: tuple[Fin, ...] = ()
    """Fins, which lift as well as drag."""

    reference_density: float | None = 1025.0
    """Density of the fluid that `added_mass`, `linear_damping` and `quadratic_damping` are stated
    for [kg/m^3]; sea water by default. In another fluid they scale with its density, so that
    they vanish with it. None for coefficients that hold in any fluid as they stand.
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
            if eigenvalues[0] < -DEFINITE * max(abs(eigenvalues[-1]), abs(eigenvalues[0])):
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
    """Refuse damping that drives a body on instead of slowing it."""
    least = min((row[i] for i, row in enumerate(matrix or ())), default=0.0)
    if least < 0.0:
        raise ModelError(
            f"{element}: {quantity} must have no negative number on its diagonal, got {least:g}; "
            "published derivatives such as X_u and X_u|u| are the negative of its entries"
        )
