"""The ground: where it is, how it gives way and how it rubs."""

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.numbers import finite_array, number
from tiburon.record import record


@record
class GroundGrid:
    """Heights of uneven ground over a rectangular grid; immutable, compares by value."""

    spacing: tuple[float, float]
    """Distance of neighbors along x and y [m]."""

    heights: tuple[tuple[float, ...], ...]
    """Heights [m], one row for each x, one entry for each y."""

    origin: tuple[float, float] = (0.0, 0.0)
    """World x and y of the first entry [m]."""

    def __post_init__(self) -> None:
        element = "ground grid"
        for quantity in ("spacing", "origin"):
            x, y = finite_array(getattr(self, quantity), (2,), element, quantity).tolist()
            object.__setattr__(self, quantity, (x, y))
        if min(self.spacing) <= 0.0:
            raise ModelError(
                f"{element}: spacing must be positive, got {self.spacing}; give the distances of "
                "neighbors"
            )
        rows, columns = len(self.heights), min((len(row) for row in self.heights), default=0)
        if rows < 2 or columns < 2:
            raise ModelError(
                f"{element}: needs at least 2 x 2 heights, got {rows} rows of {columns}; use "
                "Ground(height=...) for a plane"
            )
        heights = finite_array(self.heights, (rows, columns), element, "heights")
        object.__setattr__(self, "heights", tuple(map(tuple, heights.tolist())))

    @property
    def array(self) -> np.ndarray:
        """The heights as an array, shape (rows, columns)."""
        return np.array(self.heights)


@record
class Ground:
    """The ground under a robot; immutable, compares by value. Numbers only.

    Stiffness and damping are those of one contact point.
    """

    height: float = 0.0
    """World z of level ground [m]; added to the heights of a grid."""

    grid: GroundGrid | None = None
    """Uneven ground; level where None."""

    normal_stiffness: float = 0.0
    """Force per depth [N/m]."""

    normal_damping: float = 0.0
    """Force per speed into the ground [N s/m]."""

    planar_stiffness: float = 0.0
    """Force per slip before sliding [N/m]."""

    planar_damping: float = 0.0
    """Force per slip speed before sliding [N s/m]."""

    static_friction: float = 0.0
    """Largest planar force per normal force while a foot sticks."""

    kinetic_friction: float = 0.0
    """Planar force per normal force while it slides."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "height", number(self.height, "ground", "height"))
        for quantity in (
            "normal_stiffness",
            "normal_damping",
            "planar_stiffness",
            "planar_damping",
            "static_friction",
            "kinetic_friction",
        ):
            value = number(getattr(self, quantity), "ground", quantity, least=0.0)
            object.__setattr__(self, quantity, value)
        grid: object = self.grid
        if grid is not None and not isinstance(grid, GroundGrid):
            raise ModelError(f"ground: grid must be a GroundGrid, got {shown(grid)}")
