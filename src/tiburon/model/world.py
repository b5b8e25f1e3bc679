"""The world around a robot: gravity, ground and fluid."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiburon.arguments import public
from tiburon.errors import ModelError, shown
from tiburon.model.contact_kinds import (
    MATERIAL,
    ContactBits,
    ContactMaterial,
    check_material,
    checked_bits,
)
from tiburon.model.user_code import refuse_replaced
from tiburon.model.value_checks import Vec3, check_name, finite_array, number, vec3
from tiburon.model.water import Water, one_water
from tiburon.record import UNSAVED, field, record
from tiburon.trace.primitives.table_rows import Table


@record
class GroundGrid:
    """Heights of uneven ground over a rectangular grid; immutable, compares by value.

    Example:
        ``tb.GroundGrid(spacing=(0.1, 0.1), heights=0.02 * np.random.rand(21, 21))``
    """

    spacing: tuple[float, float]
    """Spacing along x and y [m]."""

    heights: tuple[tuple[float, ...], ...]
    """Heights [m], one row for each x, one entry for each y."""

    origin: tuple[float, float] = (0.0, 0.0)
    """World x and y of the first entry [m]."""

    smooth: bool = False
    """Whether the ground between the heights is a smooth bicubic surface; else two triangles per
    cell, divided from its first corner to the opposite one."""

    _table: Table | None = field(
        default=None, init=False, repr=False, compare=False, metadata=UNSAVED
    )

    def __post_init__(self) -> None:
        element = "ground grid"
        smooth: object = self.smooth
        if not isinstance(smooth, bool):
            raise ModelError(f"{element}: smooth must be True or False, got {shown(smooth)}")
        for quantity in ("spacing", "origin"):
            x, y = finite_array(getattr(self, quantity), (2,), element, quantity).tolist()
            object.__setattr__(self, quantity, (x, y))
        if min(self.spacing) <= 0.0:
            raise ModelError(
                f"{element}: spacing must be positive, got {self.spacing}; give the grid spacing"
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

    @property
    def table(self) -> Table:
        """The heights in memory, as native code reads them; one row for each x."""
        if self._table is None:
            heights = self.array
            object.__setattr__(self, "_table", Table(np.arange(len(heights)), heights))
        assert self._table is not None
        return self._table

    @property
    def corners(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """World x and y of the first and the last entry [m]."""
        (x, y), (dx, dy) = self.origin, self.spacing
        return (x, y), (x + dx * (len(self.heights) - 1), y + dy * (len(self.heights[0]) - 1))


@record
class GroundPatch:
    """A rectangle of the ground with another surface; immutable, compares by value."""

    name: str
    """Unique among the patches of a ground."""

    lower: tuple[float, float]
    """Least world x and y [m]."""

    upper: tuple[float, float]
    """Greatest world x and y [m]."""

    material: ContactMaterial
    """Its surface, instead of that of the ground."""

    def __post_init__(self) -> None:
        check_name(self.name, "ground patch")
        element = f"ground patch {self.name!r}"
        for quantity in ("lower", "upper"):
            x, y = finite_array(getattr(self, quantity), (2,), element, quantity).tolist()
            object.__setattr__(self, quantity, (x, y))
        if not all(a < b for a, b in zip(self.lower, self.upper, strict=True)):
            raise ModelError(
                f"{element}: lower must be below upper, got {self.lower} and {self.upper} m; "
                "exchange them"
            )
        if not isinstance(self.material, ContactMaterial):
            raise ModelError(
                f"{element}: material must be a ContactMaterial, got {shown(self.material)}; write "
                "ContactMaterial(static_friction=0.1)"
            )


@record
class Ground:
    """The ground under a robot; immutable, compares by value.

    Stiffness and damping are those of one contact point.

    Example:
        ``tb.Ground(static_friction=0.8, kinetic_friction=0.7)`` is level and rigid.
    """

    height: float = 0.0
    """World z of level ground [m]; added to the heights of a grid."""

    grid: GroundGrid | None = None
    """Uneven ground; level where None."""

    normal_stiffness: float = 0.0
    """Normal stiffness [N/m]."""

    normal_damping: float = 0.0
    """Normal damping [N s/m]."""

    planar_stiffness: float = 0.0
    """Tangential stiffness while sticking [N/m]; 0 for that of the normal, with its damping."""

    planar_damping: float = 0.0
    """Tangential damping while sticking [N s/m]."""

    static_friction: float = 0.0
    """Coefficient of static friction."""

    kinetic_friction: float | None = None
    """Coefficient of kinetic friction; that of static friction by default."""

    restitution: float = 0.0
    """Poisson's coefficient of restitution, 0 to 1."""

    dissipation: float = 0.0
    """Coefficient c of Hunt and Crossley [s/m]: the normal force is k d (1 + c d') at depth d."""

    patches: tuple[GroundPatch, ...] = ()
    """Rectangles with surfaces of their own; where they overlap, the last one counts."""

    contact_bits: ContactBits | None = None
    """Which shapes touch it, as in `Shape`; all where None."""

    friction_rule: str = "smaller"
    """Which coefficients of friction count in contact, as in `ContactMaterial`."""

    torsional_friction: float = 0.0
    """Largest moment about the normal per normal force [m], against spinning."""

    rolling_friction: float = 0.0
    """Largest moment about the tangents per normal force [m], against rolling."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "height", number(self.height, "ground", "height"))
        check_material(self, "ground")
        if self.contact_bits is not None:
            object.__setattr__(self, "contact_bits", checked_bits(self.contact_bits, "ground"))
        grid: object = self.grid
        if grid is not None and not isinstance(grid, GroundGrid):
            raise ModelError(f"ground: grid must be a GroundGrid, got {shown(grid)}")
        patches: object = self.patches
        if not isinstance(patches, (tuple, list)) or not all(
            isinstance(patch, GroundPatch) for patch in patches
        ):
            raise ModelError(f"ground: patches must be a list of GroundPatch, got {shown(patches)}")
        object.__setattr__(self, "patches", tuple(patches))
        names = [patch.name for patch in patches]
        for name in {name for name in names if names.count(name) > 1}:
            raise ModelError(f"ground patch {name!r}: found twice; give patches different names")

    @property
    def material(self) -> ContactMaterial:
        """Its surface outside of the patches."""
        values = {name: getattr(self, name) for name in MATERIAL}
        return ContactMaterial(**values, friction_rule=self.friction_rule)


OVERRIDE_ADVICE = "add to it, but override nothing; define a Current for your own flow"
"""Remedy for subclasses that override methods."""


@public
@record
class World:
    """The world around a robot: gravity, ground, water; immutable, compares by value.

    The world frame has z up by default; any gravity vector works.

    Example:
        ``tb.World(ground=tb.Ground(static_friction=0.8), fluid=tb.Water(1025.0))``
    """

    gravity: Vec3 = (0.0, 0.0, -9.81)
    """Gravitational acceleration in world axes [m/s^2]."""

    ground: Ground | None = None
    """The ground; robots touch it (`simulate(contact=...)`)."""

    fluid: Water | None = None
    """The surrounding fluid; None on land. It acts on bodies with a `fluid`. A list of `Water`
    gives each case of a batch its own."""

    run_time: tuple[str, ...] = field(
        default=(), init=False, repr=False, compare=False, metadata=UNSAVED
    )
    """Which of "gravity" and "fluid" have zeros as run-time parameters too."""

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
                "world: gravity must point along -z where the fluid has a surface, got "
                f"{self.gravity} m/s^2; rotate the robot, or give Water without surface="
            )
        for element, part in (("world", self), ("water", fluid), ("ground", ground)):
            refuse_replaced(part, element, OVERRIDE_ADVICE)

    def traced_key(self) -> tuple[object, ...]:
        """Trace its user code.

        Returns:
            Keys of the graphs; empty if there is no user code.
        """
        key = None if self.fluid is None else self.fluid.traced_key()
        return () if key is None else (key,)

    def at_run_time(self, parts: Sequence[str]) -> "World":
        """Return the same world with zeros of some parts as run-time parameters too.

        It compares equal to this one, but has its own kernels.

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
        """Which components of gravity are run-time parameters: the non-zero ones."""
        return tuple("gravity" in self.run_time or x != 0.0 for x in self.gravity)

    @property
    def cases(self) -> int | None:
        """Number of cases; None for the same world in all."""
        return None if self.fluid is None else self.fluid.cases
