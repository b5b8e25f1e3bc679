"""Water: density, current, surface."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tiburon.argument_checks import check_signature
from tiburon.arguments import public
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
from tiburon.record import UNSAVED, field, record
from tiburon.spatial import Scalar, Scalars


@public
@record
class Water:
    """A fluid of uniform density with a current; immutable, compares by value.

    Density, current and surface may differ between the cases of a batch: give arrays with one entry
    per case.

    Example:
        ``Water(density=1025.0, current=(0.3, 0, 0))``, or
        ``Water(current=Waves((Wave(height=1.0, period=8.0),)))``
    """

    density: float = 1025.0
    """Density [kg/m^3], one value or one per case; sea water by default."""

    current: Vec3 | Current | Callable[[Any, Any], Any] = (0.0, 0.0, 0.0)
    """Velocity of the water, world axes [m/s]: a constant; a `Current` such as `LinearShear`,
    `Tide` or `Waves`; or a function of time and position. One per case: an array, shape (cases, 3),
    or a list of these."""

    viscosity: float = 0.0
    """Dynamic viscosity [Pa s], for reports such as Reynolds numbers; 0 if unknown."""

    strips: int = 4
    """Number of strips of a cylinder for drag. In a current that varies in space, boxes and
    ellipsoids sample it at half as many points, rounded up, along each axis of their three middle
    sections."""

    split_strips: bool = False
    """Whether a cylinder is split first where the cross flow is slowest, with twice the strips:
    exact where the flow changes sign. In a current that varies, the split follows from the flow at
    the two ends."""

    surface: float | None = None
    """Height of the level surface, world axes [m]; None for unbounded water. Bodies are wet as far
    as their shapes are submerged."""

    run_time: bool = field(default=False, init=False, repr=False, compare=False, metadata=UNSAVED)
    """Whether zeros are run-time parameters too."""

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
                "water: density, current and surface must have the same number of cases, got "
                f"{listed}; give one value, or one per case"
            )

    def _differing(self) -> dict[str, tuple[Any, ...]]:
        """Return the fields that differ between cases, each with one entry per case."""
        current: Any = self.current
        given: dict[str, Any] = {"density": self.density, "surface": self.surface}
        if isinstance(current, tuple) and not isinstance(current[0], float):
            given["current"] = current
        return {name: value for name, value in given.items() if isinstance(value, tuple)}

    @property
    def cases(self) -> int | None:
        """Number of cases; None for the same water in all."""
        return next((len(values) for values in self._differing().values()), None)

    def case(self, index: int) -> "Water":
        """Return the water of one case."""
        return replace(self, **{name: x[index] for name, x in self._differing().items()})

    def at_run_time(self) -> "Water":
        """Return the same water with zeros as run-time parameters too.

        It compares equal to this one, but has its own kernels.
        """
        found = replace(self)
        object.__setattr__(found, "run_time", True)
        return found

    def refuse_cases(self, function: str = "") -> None:
        """Raise `ModelError` if the water differs between cases."""
        if self.cases is not None:
            where = f"{function}: fluid" if function else "water"
            raise ModelError(
                f"{where}: expected the water of one case, got {self.cases} cases; take "
                "water.case(k), or a function that takes batches"
            )

    @property
    def motion(self) -> Current:
        """The current; a velocity becomes a uniform current."""
        # currents are imported on first use, so that robots on land start faster
        from tiburon.model.currents import current_from

        self.refuse_cases()
        current = current_from(self.current)
        return current.with_every_number() if self.run_time else current

    @property
    def is_uniform(self) -> bool:
        """Whether the current is uniform in space."""
        return not depends_on_place(self.motion)

    @property
    def meets_bodies_apart(self) -> bool:
        """Whether bodies of one link have different flows."""
        return self.surface is not None or not self.is_uniform

    @property
    def depends_on_time(self) -> bool:
        """Whether the current varies in time."""
        return depends_on_time(self.motion)

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: density, current, surface."""
        density = (self.density,) if self._has_density else ()
        surface = () if self.surface is None else (self.surface,)
        return (*density, *self.motion.parameters(), *surface)

    def traced_key(self) -> int | None:
        """Trace a user-defined current and return its key; None for built-in ones."""
        return None if type(self.current) is tuple else traced_key(self.motion)

    @property
    def _has_density(self) -> bool:
        """Whether the density is a run-time parameter."""
        self.refuse_cases()
        return self.run_time or self.density > 0.0

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on besides `parameters`."""
        ends = self.surface is not None
        return (self._has_density, self.motion.structure(), self.strips, self.split_strips, ends)

    def state(self, numbers: Scalars) -> tuple[Scalar, "FlowField", Scalar | None]:
        """Return density, current and surface with other scalars in place of `parameters`."""
        given = tuple(numbers)
        density, rest = (given[0], given[1:]) if self._has_density else (0.0, given)
        if self.surface is None:
            return density, FlowField(self.motion, rest), None
        return density, FlowField(self.motion, rest[:-1]), rest[-1]

    def with_density(self, density: float) -> "Water":
        """Return the same water with another density."""
        return replace(self, density=density)


@record
class FlowField:
    """A current with scalars in place of its parameters."""

    current: Current
    numbers: tuple[Scalar, ...]

    def at(self, time: Scalar, position: tuple[Scalar, Scalar, Scalar]) -> Flow:
        """Return the flow at a time [s] and position [m], world axes."""
        return flow_at(self.current, self.numbers, time, position)


def one_water(given: Any) -> Any:
    """Combine a list of `Water`, one per case; anything else is returned unchanged.

    Raises:
        ModelError: If the waters differ in structure.
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
                f"and surface alone, got {shown(water)}; give all cases the same viscosity and "
                "strips"
            )
        kinds = [_kind(x.current) for x in (first, water)]
        ends = [x.surface is None for x in (first, water)]
        if kinds[0] != kinds[1] or ends[0] != ends[1]:
            raise ModelError(
                f"fluid[{index}]: expected a current of the same type as fluid[0], and a surface "
                f"if that has one, got {shown(water)}; run other types of water separately"
            )
    names = ["density", "current"] + (["surface"] if first.surface is not None else [])
    every: dict[str, Any] = {name: tuple(getattr(x, name) for x in given) for name in names}
    return replace(first, **every)


def _kind(current: object) -> object:
    """Return the common structure of the currents of a batch: class and data layout."""
    if not isinstance(current, Current):
        return current if callable(current) else "velocity"

    def form(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(form, value))
        if isinstance(value, Current):
            return _kind(value)
        return float if isinstance(value, float) else value

    from dataclasses import fields

    # components of waves represent their trains
    names = [item.name for item in fields(current) if item.name != "trains"]  # type: ignore[arg-type]
    return (type(current), *(form(getattr(current, name)) for name in names))


def _per_case(value: Any, quantity: str, least: float = -math.inf) -> Any:
    """Return one float, or a tuple of one per case."""
    if isinstance(value, float) or np.ndim(value) != 1:
        return number(value, "water", quantity, least=least)
    if not len(value):
        raise ModelError(f"water: {quantity} must have at least one case, got none")
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
