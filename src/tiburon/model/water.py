"""The water a robot moves in."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiburon.arguments import check_signature
from tiburon.errors import ModelError
from tiburon.model.current import (
    Current,
    Flow,
    depends_on_place,
    depends_on_time,
    flow_at,
    look_at,
)
from tiburon.model.numbers import Vec3, number, vec3
from tiburon.record import record
from tiburon.spatial import Scalar


@record
class Water:
    """A fluid of uniform density, and how it moves; immutable, compares by value.

    Example:
        ``Water(density=1025.0, current=(0.3, 0, 0))``, or
        ``Water(current=Waves((Wave(height=1.0, period=8.0),)))``
    """

    density: float = 1025.0
    """Mass per volume [kg/m^3]; that of sea water by default."""

    current: Vec3 | Current | Callable[[Any, Any], Any] = (0.0, 0.0, 0.0)
    """How the water moves, world axes [m/s]: a velocity; a `Current` such as `LinearShear`, `Tide`
    or `Waves`; or a function of time and position that gives a velocity."""

    viscosity: float = 0.0
    """Dynamic viscosity [Pa s], for reports such as Reynolds numbers; 0 where it is not known."""

    strips: int = 4
    """Into how many strips a cylinder is cut for drag. Boxes and ellipsoids need none where the
    current is uniform; elsewhere it is sampled at half as many points, rounded up, along each axis
    of their three middle sections."""

    split_strips: bool = False
    """Whether a cylinder is cut first where the flow across it is slowest, for twice the strips:
    exact where that changes sign. Where the current varies, the place of the cut follows from the
    flow at the two ends."""

    surface: float | None = None
    """Height of the level surface, world axes [m]; water fills all below. None for water without
    end. Bodies are then wet as far as their shapes are under it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "density", number(self.density, "water", "density", least=0.0))
        object.__setattr__(self, "current", _checked(self.current))
        viscosity = number(self.viscosity, "water", "viscosity", least=0.0)
        object.__setattr__(self, "viscosity", viscosity)
        strips: object = self.strips
        if not isinstance(strips, (int, np.integer)) or strips is True or strips < 1:
            raise ModelError(
                f"water: strips must be a positive whole number, got {strips!r}; four suit "
                "most robots"
            )
        object.__setattr__(self, "strips", int(strips))
        split: object = self.split_strips
        if not isinstance(split, (bool, np.bool_)):
            raise ModelError(f"water: split_strips must be True or False, got {split!r}")
        object.__setattr__(self, "split_strips", bool(split))
        if self.surface is not None:
            object.__setattr__(self, "surface", number(self.surface, "water", "surface"))

    @property
    def motion(self) -> Current:
        """The current as one: a velocity is one that is the same everywhere."""
        # kinds of currents are loaded where there is water: robots on land start faster
        from tiburon.model.currents import current_from

        return current_from(self.current)

    @property
    def moves_alike(self) -> bool:
        """Whether the water moves alike everywhere."""
        return not depends_on_place(self.motion)

    @property
    def meets_bodies_apart(self) -> bool:
        """Whether bodies that move as one still meet the water each at its own place."""
        return self.surface is not None or not self.moves_alike

    @property
    def depends_on_time(self) -> bool:
        """Whether the velocity at a fixed place changes."""
        return depends_on_time(self.motion)

    def numbers(self) -> tuple[float, ...]:
        """Return the numbers that a kernel takes at run time: density, current, surface."""
        density = (self.density,) if self.density else ()
        surface = () if self.surface is None else (self.surface,)
        return (*density, *self.motion.numbers(), *surface)

    def look(self) -> int | None:
        """Trace a current that users wrote as it is now; None where its data tell."""
        return None if type(self.current) is tuple else look_at(self.motion)

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on beside `numbers`."""
        ends = self.surface is not None
        return (self.density > 0.0, self.motion.structure(), self.strips, self.split_strips, ends)

    def state(self, numbers: Sequence[Scalar]) -> tuple[Scalar, "FlowField", Scalar | None]:
        """Return density, motion and surface with other scalars in place of `numbers`."""
        given = tuple(numbers)
        density, rest = (given[0], given[1:]) if self.density else (0.0, given)
        if self.surface is None:
            return density, FlowField(self.motion, rest), None
        return density, FlowField(self.motion, rest[:-1]), rest[-1]

    def with_density(self, density: float) -> "Water":
        """Return the same water, heavier or lighter."""
        return replace(self, density=density)


@record
class FlowField:
    """A current with scalars in place of its numbers."""

    current: Current
    numbers: tuple[Scalar, ...]

    def at(self, time: Scalar, position: tuple[Scalar, Scalar, Scalar]) -> Flow:
        """Return how the water moves at a time [s] and place [m], world axes."""
        return flow_at(self.current, self.numbers, time, position)


def _checked(current: object) -> Vec3 | Current | Callable[[Any, Any], Any]:
    if isinstance(current, Current):
        return current
    if callable(current):
        advice = "write def current(time, position): return (vx, vy, vz), in m/s and world axes"
        check_signature(current, "water: current", ("time", "position"), advice=advice)
        return current
    return vec3(current, "water", "current")  # type: ignore[arg-type]
