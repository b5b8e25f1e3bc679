"""The water a robot moves in."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiburon.argument_checks import check_signature
from tiburon.errors import ModelError, shown
from tiburon.model.currents import (
    Current,
    Flow,
    depends_on_place,
    depends_on_time,
    flow_at,
    traced_key,
)
from tiburon.model.value_checks import Vec3, number, vec3
from tiburon.record import field, record
from tiburon.spatial import Scalar


@record
class Water:
    """A fluid of uniform density, and how it moves; immutable, compares by value.

    Density, current and surface may differ from case to case of a batch: give an array with one
    entry per case.

    Example:
        ``Water(density=1025.0, current=(0.3, 0, 0))``, or
        ``Water(current=Waves((Wave(height=1.0, period=8.0),)))``
    """

    density: float = 1025.0
    """Mass per volume [kg/m^3], one number or one per case; that of sea water by default."""

    current: Vec3 | Current | Callable[[Any, Any], Any] = (0.0, 0.0, 0.0)
    """How the water moves, world axes [m/s]: a velocity; a `Current` such as `LinearShear`, `Tide`
    or `Waves`; or a function of time and position that gives a velocity. One per case: an array,
    shape (cases, 3), or a list of these."""

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

    run_time: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether code takes every number at run time, also those that are zero."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "density", _per_case(self.density, "density", least=0.0))
        object.__setattr__(self, "current", _checked(self.current))
        viscosity = number(self.viscosity, "water", "viscosity", least=0.0)
        object.__setattr__(self, "viscosity", viscosity)
        strips: object = self.strips
        if not isinstance(strips, (int, np.integer)) or strips is True or strips < 1:
            raise ModelError(
                f"water: strips must be a positive whole number, got {shown(strips)}; four suit "
                "most robots"
            )
        object.__setattr__(self, "strips", int(strips))
        split: object = self.split_strips
        if not isinstance(split, (bool, np.bool_)):
            raise ModelError(f"water: split_strips must be True or False, got {shown(split)}")
        object.__setattr__(self, "split_strips", bool(split))
        if self.surface is not None:
            object.__setattr__(self, "surface", _per_case(self.surface, "surface"))
        counts = {name: len(values) for name, values in self._differing().items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
            raise ModelError(
                f"water: density, current and surface must have as many cases each, got {listed}; "
                "give one value, or one per case"
            )

    def _differing(self) -> dict[str, tuple[Any, ...]]:
        """Return the fields that differ from case to case, each with one entry per case."""
        current: Any = self.current
        given: dict[str, Any] = {"density": self.density, "surface": self.surface}
        if isinstance(current, tuple) and not isinstance(current[0], float):
            given["current"] = current
        return {name: value for name, value in given.items() if isinstance(value, tuple)}

    @property
    def cases(self) -> int | None:
        """Number of cases that differ; None for the same water in all."""
        return next((len(values) for values in self._differing().values()), None)

    def case(self, index: int) -> "Water":
        """Return the water of one case."""
        return replace(self, **{name: x[index] for name, x in self._differing().items()})

    def at_run_time(self) -> "Water":
        """Return the same water, of which code takes every number at run time, zeros included.

        It compares equal to this one, and other code is compiled for it.
        """
        found = replace(self)
        object.__setattr__(found, "run_time", True)
        return found

    def refuse_cases(self, function: str = "") -> None:
        """Raise `ModelError` if the water differs from case to case."""
        if self.cases is not None:
            where = f"{function}: fluid" if function else "water"
            raise ModelError(
                f"{where}: expected the water of one case, got {self.cases} cases; take "
                "water.case(k), or a function that takes batches"
            )

    @property
    def motion(self) -> Current:
        """The current as one: a velocity is one that is the same everywhere."""
        # kinds of currents are loaded where there is water: robots on land start faster
        from tiburon.model.currents import current_from

        self.refuse_cases()
        current = current_from(self.current)
        return current.with_every_number() if self.run_time else current

    @property
    def is_uniform(self) -> bool:
        """Whether the water moves alike everywhere."""
        return not depends_on_place(self.motion)

    @property
    def meets_bodies_apart(self) -> bool:
        """Whether bodies that move as one still meet the water each at its own place."""
        return self.surface is not None or not self.is_uniform

    @property
    def depends_on_time(self) -> bool:
        """Whether the velocity at a fixed place changes."""
        return depends_on_time(self.motion)

    def numbers(self) -> tuple[float, ...]:
        """Return the numbers that a kernel takes at run time: density, current, surface."""
        density = (self.density,) if self._has_density else ()
        surface = () if self.surface is None else (self.surface,)
        return (*density, *self.motion.numbers(), *surface)

    def traced_key(self) -> int | None:
        """Trace a user's current as it is now and return its key; None for ours."""
        return None if type(self.current) is tuple else traced_key(self.motion)

    @property
    def _has_density(self) -> bool:
        """Whether the density is a run-time number."""
        self.refuse_cases()
        return self.run_time or self.density > 0.0

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on beside `numbers`."""
        ends = self.surface is not None
        return (self._has_density, self.motion.structure(), self.strips, self.split_strips, ends)

    def state(self, numbers: Sequence[Scalar]) -> tuple[Scalar, "FlowField", Scalar | None]:
        """Return density, motion and surface with other scalars in place of `numbers`."""
        given = tuple(numbers)
        density, rest = (given[0], given[1:]) if self._has_density else (0.0, given)
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


def one_water(given: Any) -> Any:
    """Return the water of all cases for a list of `Water`, one per case; all else as it is.

    Raises:
        ModelError: If the waters differ in more than numbers.
    """
    if not isinstance(given, (list, tuple)) or not given:
        return given
    if not all(isinstance(water, Water) for water in given):
        return given
    first: Water = given[0]
    for index, water in enumerate(given):
        same = replace(first, density=water.density, current=water.current, surface=water.surface)
        if water.cases is not None or same != water:
            raise ModelError(
                f"fluid[{index}]: expected water that differs from fluid[0] in density, current "
                f"and surface alone, "
                f"got {shown(water)}; give all cases one viscosity and one way to "
                "cut strips"
            )
        kinds = [_kind(x.current) for x in (first, water)]
        ends = [x.surface is None for x in (first, water)]
        if kinds[0] != kinds[1] or ends[0] != ends[1]:
            raise ModelError(
                f"fluid[{index}]: expected a current of the same kind as fluid[0], and a surface "
                f"if that has one, got {shown(water)}; run other kinds of water apart"
            )
    names = ["density", "current"] + (["surface"] if first.surface is not None else [])
    every: dict[str, Any] = {name: tuple(getattr(x, name) for x in given) for name in names}
    return replace(first, **every)


def _kind(current: object) -> object:
    """Return what currents of one batch have in common: their class and the form of their data."""
    if not isinstance(current, Current):
        return current if callable(current) else "velocity"

    def form(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(form, value))
        if isinstance(value, Current):
            return _kind(value)
        return float if isinstance(value, float) else value

    from dataclasses import fields

    # components of waves stand for their trains, whose numbers they hold
    names = [item.name for item in fields(current) if item.name != "trains"]  # type: ignore[arg-type]
    return (type(current), *(form(getattr(current, name)) for name in names))


def _per_case(value: Any, quantity: str, least: float = -math.inf) -> Any:
    """Return one float, or a tuple of one per case."""
    if isinstance(value, float) or np.ndim(value) != 1:
        return number(value, "water", quantity, least=least)
    if not len(value):
        raise ModelError(f"water: {quantity} must have a case or more, got none")
    return tuple(number(x, "water", f"{quantity}[{k}]", least=least) for k, x in enumerate(value))


def _checked(current: Any) -> Any:
    if isinstance(current, Current):
        return current
    if callable(current):
        advice = "write def current(time, position): return (vx, vy, vz), in m/s and world axes"
        check_signature(current, "water: current", ("time", "position"), advice=advice)
        return current
    if isinstance(current, (list, tuple)) and any(
        isinstance(x, Current) or callable(x) for x in current
    ):
        return tuple(_checked(x) for x in current)
    if isinstance(current, (list, tuple, np.ndarray)) and len(current) and np.ndim(current[0]) == 1:
        return tuple(vec3(x, "water", f"current[{k}]") for k, x in enumerate(current))
    return vec3(current, "water", "current")
