"""The world around a robot: gravity, ground and fluid."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.overrides import refuse_replaced
from tiburon.model.value_checks import Vec3, finite_array, number, vec3
from tiburon.model.water import Water, one_water
from tiburon.record import field, record


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


ADVICE = "add to it, but replace nothing; a Current of your own tells how water moves"
"""What to do about a class derived from these that acts otherwise."""


@record
class World:
    """The surroundings of a robot: gravity, ground, water; immutable, compares by value.

    The world frame has z up unless gravity says otherwise: any gravity vector works.
    """

    gravity: Vec3 = (0.0, 0.0, -9.81)
    """Acceleration of free fall in world axes [m/s^2]."""

    ground: Ground | None = None
    """What feet stand on; data, which dynamics functions do not apply."""

    fluid: Water | None = None
    """What a robot moves in; None on land. Dynamics applies it to bodies that have a `fluid`. In a
    list of `Water` each case of a batch has its own."""

    run_time: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)
    """Which of "gravity" and "fluid" have all their numbers taken at run time, zeros included."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gravity", vec3(self.gravity, "world", "gravity"))
        ground: object = self.ground
        if ground is not None and not isinstance(ground, Ground):
            raise ModelError(
                f"world: ground must be a Ground, got {shown(ground)}; write Ground(height=0.0)"
            )
        fluid: object = one_water(self.fluid)
        object.__setattr__(self, "fluid", fluid)
        if fluid is not None and not isinstance(fluid, Water):
            raise ModelError(
                f"world: fluid must be Water, got {shown(fluid)}; write Water(density=1025.0)"
            )
        x, y, z = self.gravity
        if fluid is not None and fluid.surface is not None and (x or y or z > 0.0):
            raise ModelError(
                "world: gravity must point along -z where the fluid has a surface, which is level "
                f"in z, got {self.gravity} m/s^2; turn the robot, or give Water without surface="
            )
        for element, part in (("world", self), ("water", fluid), ("ground", ground)):
            refuse_replaced(part, element, ADVICE)

    def traced_key(self) -> tuple[object, ...]:
        """Trace user code in it as it is now.

        Returns:
            Keys of the graphs; empty if there is no user code.
        """
        key = None if self.fluid is None else self.fluid.traced_key()
        return () if key is None else (key,)

    def at_run_time(self, parts: Sequence[str]) -> "World":
        """Return the same world, of which code takes every number of some parts at run time.

        It compares equal to this one, and other code is compiled for it.

        Args:
            parts: "gravity", "fluid", or both.
        """
        fluid = self.fluid
        if fluid is not None and "fluid" in parts:
            fluid = fluid.at_run_time()
        found = replace(self, fluid=fluid)
        object.__setattr__(found, "run_time", tuple(parts))
        return found

    @property
    def gravity_used(self) -> tuple[bool, ...]:
        """Which components of gravity code takes at run time: those that are not zero."""
        return tuple("gravity" in self.run_time or x != 0.0 for x in self.gravity)

    @property
    def cases(self) -> int | None:
        """Number of cases in which the water differs; None for the same world in all."""
        return None if self.fluid is None else self.fluid.cases
