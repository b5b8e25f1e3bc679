"""Currents, tides and waves: water velocity as a function of time and position.

A current defines its velocity alone. The acceleration of the water follows by differentiating that
velocity along the path of a water particle (`flow_at`), so that the two cannot disagree.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from tiburon.argument_checks import check_signature
from tiburon.arguments import public
from tiburon.errors import ModelError, shown
from tiburon.model.value_checks import Vec3 as FloatVec3
from tiburon.model.value_checks import convert, finite_array, number, vec3
from tiburon.record import field, record
from tiburon.spatial import Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import add, scale
from tiburon.trace.declared import is_declared

if TYPE_CHECKING:
    from tiburon.trace.program import Program

# derivatives are imported on first use, so that robots on land start faster


@public
class Current(ABC):
    """Velocity of the water as a function of time and position; immutable, compares by value.

    Derive a frozen dataclass for your own currents. Its fields are floats, or tuples of floats,
    that become run-time parameters; `velocity` uses `+ - * /` and NumPy functions only, so that it
    can be traced and differentiated. Everything else it reads is compiled in: it is traced at every
    call or run, and compiled again if it has changed.
    """

    @abstractmethod
    def velocity(self, time: Scalar, position: Vec3) -> Scalars:
        """Return the velocity of the water, world axes [m/s].

        Args:
            time: When [s].
            position: Where, world axes [m].
        """

    _every: ClassVar[bool] = False
    """Whether zeros are run-time parameters too; set on the copy of `with_every_number`."""

    _origin: ClassVar[object] = None
    """The original of such a copy."""

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: all non-zero floats."""
        return tuple(x for x in self._floats() if self._every or x != 0.0)

    def with_every_number(self) -> Self:
        """Return the same current with zeros among `parameters`; both compare equal."""
        result = copy.copy(self)
        object.__setattr__(result, "_every", True)
        object.__setattr__(result, "_origin", self.source)
        return result

    def with_parameters(self, numbers: Scalars) -> Self:
        """Return the same current with other scalars in place of `parameters`."""
        given = iter(numbers)

        def replaced(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(replaced(entry) for entry in value)
            if isinstance(value, Current):
                return filled(value)
            if isinstance(value, float) and (self._every or value != 0.0):
                return next(given)
            return value

        def filled(current: Any) -> Any:
            # the constructor checks floats; these may be traced
            result = copy.copy(current)
            for item in fields(current):
                object.__setattr__(result, item.name, replaced(getattr(current, item.name)))
            return result

        result: Self = filled(self)
        return result

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on: the formula, without the values of `parameters`."""
        return ("current", _program(self).key)

    @property
    def source(self) -> object:
        """The object that defines the formula: the current itself, unless it wraps one."""
        return self if self._origin is None else self._origin

    def _floats(self) -> Iterator[float]:
        """Iterate over all floats of all fields."""

        def go(value: Any) -> Iterator[float]:
            if isinstance(value, tuple):
                for entry in value:
                    yield from go(entry)
            elif isinstance(value, Current):
                yield from value._floats()
            elif isinstance(value, float):
                yield value

        for item in fields(self):  # type: ignore[arg-type]
            yield from go(getattr(self, item.name))


class Flow(NamedTuple):
    """Motion of the water at one time and position, world axes."""

    velocity: Vec3
    """[m/s]."""

    acceleration: Vec3
    """Material derivative of the velocity [m/s^2]."""


KEPT_GRAPHS = 64
"""Number of graphs of currents that are kept."""

_graphs: OrderedDict[tuple[Any, bool], tuple[object, "Program"]] = OrderedDict()
"""Latest graphs of currents, by value, or by `id` of the object held here where it is user-defined;
and by whether zeros are run-time parameters, which currents that compare equal may differ in.
"""


def traced_key(current: Current) -> int | None:
    """Trace a user-defined current; the rest of this call uses that graph.

    Returns:
        Key of the graph; None for currents of this package, which are keyed by their data.
    """
    return None if is_declared(current) else _retraced(current).key


def _graph_key(current: Current) -> tuple[Any, bool]:
    return (current if is_declared(current) else id(current.source)), current._every


def _retraced(current: Current) -> "Program":
    program = _traced_now(current)
    _graphs[_graph_key(current)] = (current.source, program)
    if len(_graphs) > KEPT_GRAPHS:
        _graphs.popitem(last=False)
    return program


def _program(current: Current) -> "Program":
    """Return the graph of a current's velocity and its derivatives."""
    found = _graphs.get(_graph_key(current))
    return _retraced(current) if found is None else found[1]


def _traced_now(current: Current) -> "Program":
    """Trace a current: velocity and its derivatives from time, position and parameters."""
    from tiburon.trace.derivative import rate_program

    def velocity(time: Scalar, x: Scalar, y: Scalar, z: Scalar, *numbers: Scalar) -> Any:
        return current.with_parameters(numbers).velocity(time, (x, y, z))

    return rate_program(velocity, 4 + len(current.parameters()), type(current).__name__)


def depends_on_place(current: Current) -> bool:
    """Return whether the velocity varies in space."""
    return bool({1, 2, 3} & _arguments_used(current))


def depends_on_time(current: Current) -> bool:
    """Return whether the velocity at a fixed position varies in time."""
    return 0 in _arguments_used(current)


def _arguments_used(current: Current) -> set[int]:
    program = _program(current)
    graph = program.graph
    live = graph.live(program.outputs[0].nodes)
    return {graph.payloads[node][1] for node in live if graph.ops[node] == "input"}


def flow_at(current: Current, numbers: Scalars, time: Scalar, position: Vec3) -> Flow:
    """Return the flow at a time and position.

    Args:
        current: The current.
        numbers: Scalars for its `parameters`.
        time: When [s].
        position: Where, world axes [m].
    """
    from tiburon.trace.derivative import rate_along

    # a water particle moves at the velocity found
    v, a = rate_along(
        _program(current),
        (time, *position, *numbers),
        lambda x, y, z: (1.0, x, y, z, *(0.0 for _ in numbers)),
    )
    return Flow((v[0], v[1], v[2]), (a[0], a[1], a[2]))


def _positive(value: object, owner: str, name: str) -> float:
    found = number(value, owner, name)
    if found <= 0.0:
        raise ModelError(f"{owner}: {name} must be positive, got {found}; check its unit and sign")
    return found


@public
@record(slots=False)
class UniformCurrent(Current):
    """Constant velocity."""

    speed: FloatVec3 = (0.0, 0.0, 0.0)
    """Velocity, world axes [m/s]."""

    def __post_init__(self) -> None:
        convert(self, vec3, "uniform current", "speed")

    def velocity(self, time: Scalar, position: Vec3) -> Scalars:
        """Return the velocity of the water, world axes [m/s]."""
        return self.speed


@public
@record(slots=False)
class LinearShear(Current):
    """Velocity that decreases linearly from the surface to zero, and is zero below."""

    surface_speed: FloatVec3
    """Velocity at the surface, world axes [m/s]."""

    depth: float
    """Depth below which the water is at rest [m]."""

    surface: float = 0.0
    """Height of the surface, world z [m]."""

    def __post_init__(self) -> None:
        convert(self, vec3, "linear shear", "surface_speed")
        convert(self, _positive, "linear shear", "depth")
        convert(self, number, "linear shear", "surface")

    def velocity(self, time: Scalar, position: Vec3) -> Scalars:
        """Return the velocity of the water, world axes [m/s]."""
        share = 1.0 + (position[2] - self.surface) / self.depth
        return scale(self.surface_speed, np.minimum(np.maximum(share, 0.0), 1.0))


@public
@record(slots=False)
class PowerShear(Current):
    """Turbulent boundary layer over the sea floor: a power law of the height, 1/7 by default."""

    surface_speed: FloatVec3
    """Velocity at the surface, world axes [m/s]."""

    depth: float
    """Of the sea floor below the surface [m]."""

    exponent: float = 1.0 / 7.0
    """Power of the height above the floor."""

    surface: float = 0.0
    """Height of the surface, world z [m]."""

    def __post_init__(self) -> None:
        convert(self, vec3, "power shear", "surface_speed")
        convert(self, _positive, "power shear", "depth", "exponent")
        convert(self, number, "power shear", "surface")

    def velocity(self, time: Scalar, position: Vec3) -> Scalars:
        """Return the velocity of the water, world axes [m/s]."""
        share = 1.0 + (position[2] - self.surface) / self.depth
        # an infinite gradient at the floor would give an infinite acceleration
        share = np.minimum(np.maximum(share, 1e-6), 1.0)
        return scale(self.surface_speed, share**self.exponent)


@public
@record(slots=False)
class Tide(Current):
    """Sinusoidal velocity: mean + amplitude sin(2 pi t / period + phase), uniform in space."""

    amplitude: FloatVec3
    """Amplitude of velocity, world axes [m/s]."""

    period: float
    """Period [s]."""

    phase: float = 0.0
    """Phase at time zero [rad]."""

    mean: FloatVec3 = (0.0, 0.0, 0.0)
    """Mean velocity, world axes [m/s]."""

    def __post_init__(self) -> None:
        convert(self, vec3, "tide", "amplitude", "mean")
        convert(self, _positive, "tide", "period")
        convert(self, number, "tide", "phase")

    def velocity(self, time: Scalar, position: Vec3) -> Scalars:
        """Return the velocity of the water, world axes [m/s]."""
        swing = np.sin((2.0 * math.pi) * time / self.period + self.phase)
        return add(self.mean, scale(self.amplitude, swing))


@record(slots=False)
class Wave:
    """One train of long-crested waves on deep water."""

    height: float
    """Height from trough to crest [m]."""

    period: float
    """Period [s]."""

    direction: float = 0.0
    """Direction of propagation, about world z from x [rad]."""

    phase: float = 0.0
    """Phase at time zero and the origin [rad]; a crest is at 0."""

    def __post_init__(self) -> None:
        convert(self, number, "wave", "height", "direction", "phase")
        convert(self, _positive, "wave", "period")


@public
@record(slots=False)
class Waves(Current):
    """Superposed Airy waves on deep water; above the mean surface the velocity is that at it.

    Linear theory: small steepness, depth above half a wavelength. omega^2 = g k.
    """

    trains: tuple[Wave, ...]
    """The trains of waves."""

    surface: float = 0.0
    """Height of the mean surface, world z [m]."""

    gravity: float = 9.81
    """Gravity in the dispersion relation [m/s^2]."""

    components: tuple[tuple[float, float, float, float, float], ...] = field(init=False, repr=False)
    """Amplitude of velocity, frequency, wave numbers along x and y, phase of each train."""

    def __post_init__(self) -> None:
        convert(self, number, "waves", "surface")
        convert(self, _positive, "waves", "gravity")
        trains = _listed(self.trains)
        for train in trains:
            if not isinstance(train, Wave):
                raise ModelError(
                    f"waves: each train must be a Wave, got {shown(train)}; write "
                    "Waves((Wave(height=1.0, period=8.0),))"
                )
        object.__setattr__(self, "trains", trains)
        # computed once from trains and gravity
        rows = []
        for train in trains:
            omega = 2.0 * math.pi / train.period
            k = omega * omega / self.gravity
            kx, ky = k * math.cos(train.direction), k * math.sin(train.direction)
            rows.append((0.5 * train.height * omega, omega, kx, ky, train.phase))
        object.__setattr__(self, "components", tuple(rows))

    def velocity(self, time: Scalar, position: Vec3) -> Scalars:
        """Return the velocity of the water, world axes [m/s]."""
        x, y, z = position
        below = np.minimum(z - self.surface, 0.0)
        total: Vec3 = (0.0, 0.0, 0.0)
        for speed, omega, kx, ky, phase in self.components:
            k = np.sqrt(kx * kx + ky * ky)
            angle = kx * x + ky * y - omega * time + phase
            felt = speed * np.exp(k * below)
            along = felt * np.cos(angle) / k
            total = add(total, (along * kx, along * ky, felt * np.sin(angle)))
        return total


@public
@record(slots=False)
class TableCurrent(Current):
    """Time series of velocities, uniform in space; linear interpolation, constant beyond."""

    times: tuple[float, ...]
    """Increasing [s]."""

    speeds: tuple[FloatVec3, ...]
    """Velocity at each time, world axes [m/s]."""

    def __post_init__(self) -> None:
        times = finite_array(self.times, (np.size(self.times),), "table current", "times")
        if times.size < 2 or not (np.diff(times) > 0.0).all():
            raise ModelError(
                "table current: times must be at least two and increasing, got "
                f"{shown(self.times)}; sort the log and drop repeated times"
            )
        speeds = finite_array(self.speeds, (times.size, 3), "table current", "speeds")
        object.__setattr__(self, "times", tuple(times.tolist()))
        object.__setattr__(self, "speeds", tuple((x, y, z) for x, y, z in speeds.tolist()))

    def velocity(self, time: Scalar, position: Vec3) -> Scalars:
        """Return the velocity of the water, world axes [m/s]."""
        total: Vec3 = self.speeds[0]
        for k in range(len(self.times) - 1):
            begin, end = self.times[k], self.times[k + 1]
            share = np.minimum(np.maximum((time - begin) / (end - begin), 0.0), 1.0)
            a, b = self.speeds[k], self.speeds[k + 1]
            total = add(total, scale((b[0] - a[0], b[1] - a[1], b[2] - a[2]), share))
        return total


@public
@record(slots=False)
class CurrentSum(Current):
    """Sum of several currents."""

    parts: tuple[Current, ...]
    """Currents; a velocity or a function of time and position becomes one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(current_from(p) for p in _listed(self.parts)))

    def velocity(self, time: Scalar, position: Vec3) -> Scalars:
        """Return the velocity of the water, world axes [m/s]."""
        total: Vec3 = (0.0, 0.0, 0.0)
        for part in self.parts:
            x, y, z = part.velocity(time, position)
            total = add(total, (x, y, z))
        return total


@record(slots=False)
class FunctionCurrent(Current):
    """A velocity given by a function of time and position; its constants are compiled in."""

    function: Callable[[Any, Any], Any]
    """Takes time [s] and position [m], an array of three, world axes; returns three scalars or an
    array of them [m/s]."""

    @property
    def source(self) -> object:
        """The function, which identifies the current."""
        return self.function

    def velocity(self, time: Scalar, position: Vec3) -> Scalars:
        """Return the velocity of the water, world axes [m/s]."""
        from tiburon.trace.array import as_traced

        found = self.function(time, as_traced(list(position)))
        if np.shape(found) != (3,):
            raise ModelError(
                f"current {getattr(self.function, '__name__', self.function)!r}: must return three "
                f"components of velocity, got {shown(found)}; return (vx, vy, vz) in m/s, world "
                "axes"
            )
        return tuple(found.tolist() if isinstance(found, np.ndarray) else found)


def current_from(given: object) -> Current:
    """Convert a velocity, a function of time and position, or a current to a current."""
    if isinstance(given, Current):
        return given
    if callable(given):
        advice = "write def current(time, position): return (vx, vy, vz), in m/s and world axes"
        check_signature(given, "current", ("time", "position"), advice=advice)
        return FunctionCurrent(given)
    return UniformCurrent(vec3(given, "water", "current"))  # type: ignore[arg-type]


def _listed(parts: object) -> tuple[Any, ...]:
    """Return several parts as a tuple; a single one need not be in a list."""
    return tuple(parts) if isinstance(parts, Iterable) else (parts,)
