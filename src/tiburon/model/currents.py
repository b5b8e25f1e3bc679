"""Currents, tides and waves."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tiburon.argument_checks import check_signature
from tiburon.errors import ModelError, shown
from tiburon.model.current import Current
from tiburon.model.numbers import Vec3 as FloatVec3
from tiburon.model.numbers import finite_array, number, vec3
from tiburon.record import field, record
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import add, scale

__all__ = [
    "CurrentSum",
    "FunctionCurrent",
    "LinearShear",
    "PowerShear",
    "TableCurrent",
    "Tide",
    "UniformCurrent",
    "Wave",
    "Waves",
]


def _number(owner: str, name: str, value: Any, *, positive: bool = False) -> float:
    found = number(value, owner, name)
    if positive and found <= 0.0:
        raise ModelError(f"{owner}: {name} must be positive, got {found}; check its unit and sign")
    return found


@record(slots=False)
class UniformCurrent(Current):
    """The same velocity everywhere and always."""

    speed: FloatVec3 = (0.0, 0.0, 0.0)
    """Velocity, world axes [m/s]."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "speed", vec3(self.speed, "uniform current", "speed"))

    def velocity(self, time: Scalar, position: Vec3) -> Sequence[Scalar]:
        """Return the velocity of the water, world axes [m/s]."""
        return self.speed


@record(slots=False)
class LinearShear(Current):
    """A velocity that falls linearly from the surface to nothing, and stays nothing below."""

    surface_speed: FloatVec3
    """Velocity at the surface, world axes [m/s]."""

    depth: float
    """Where the water comes to rest, below the surface [m]."""

    surface: float = 0.0
    """Height of the surface, world z [m]."""

    def __post_init__(self) -> None:
        owner = "linear shear"
        object.__setattr__(self, "surface_speed", vec3(self.surface_speed, owner, "surface_speed"))
        object.__setattr__(self, "depth", _number(owner, "depth", self.depth, positive=True))
        object.__setattr__(self, "surface", _number(owner, "surface", self.surface))

    def velocity(self, time: Scalar, position: Vec3) -> Sequence[Scalar]:
        """Return the velocity of the water, world axes [m/s]."""
        share = 1.0 + (position[2] - self.surface) / self.depth
        return scale(self.surface_speed, np.minimum(np.maximum(share, 0.0), 1.0))


@record(slots=False)
class PowerShear(Current):
    """A turbulent stream over the sea floor: a power of the height above it, 1/7 by default."""

    surface_speed: FloatVec3
    """Velocity at the surface, world axes [m/s]."""

    depth: float
    """Of the sea floor below the surface [m]."""

    exponent: float = 1.0 / 7.0
    """Power of the height above the floor."""

    surface: float = 0.0
    """Height of the surface, world z [m]."""

    def __post_init__(self) -> None:
        owner = "power shear"
        object.__setattr__(self, "surface_speed", vec3(self.surface_speed, owner, "surface_speed"))
        for name in ("depth", "exponent"):
            value = _number(owner, name, getattr(self, name), positive=True)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "surface", _number(owner, "surface", self.surface))

    def velocity(self, time: Scalar, position: Vec3) -> Sequence[Scalar]:
        """Return the velocity of the water, world axes [m/s]."""
        share = 1.0 + (position[2] - self.surface) / self.depth
        # a slope without end at the floor itself would make an acceleration without end
        share = np.minimum(np.maximum(share, 1e-6), 1.0)
        return scale(self.surface_speed, share**self.exponent)


@record(slots=False)
class Tide(Current):
    """A velocity that swings: mean + amplitude sin(2 pi t / period + phase), everywhere alike."""

    amplitude: FloatVec3
    """Largest change of velocity, world axes [m/s]."""

    period: float
    """Time of one swing [s]."""

    phase: float = 0.0
    """Angle at time zero [rad]."""

    mean: FloatVec3 = (0.0, 0.0, 0.0)
    """Velocity in the middle of the swing, world axes [m/s]."""

    def __post_init__(self) -> None:
        for name in ("amplitude", "mean"):
            object.__setattr__(self, name, vec3(getattr(self, name), "tide", name))
        object.__setattr__(self, "period", _number("tide", "period", self.period, positive=True))
        object.__setattr__(self, "phase", _number("tide", "phase", self.phase))

    def velocity(self, time: Scalar, position: Vec3) -> Sequence[Scalar]:
        """Return the velocity of the water, world axes [m/s]."""
        swing = np.sin((2.0 * math.pi) * time / self.period + self.phase)
        return add(self.mean, scale(self.amplitude, swing))


@record(slots=False)
class Wave:
    """One train of long-crested waves on deep water."""

    height: float
    """From trough to crest [m]."""

    period: float
    """Time between crests [s]."""

    direction: float = 0.0
    """Where it runs to, about world z from x [rad]."""

    phase: float = 0.0
    """Angle at time zero and place zero [rad]; a crest is at 0."""

    def __post_init__(self) -> None:
        for name in ("height", "direction", "phase"):
            object.__setattr__(self, name, _number("wave", name, getattr(self, name)))
        object.__setattr__(self, "period", _number("wave", "period", self.period, positive=True))


@record(slots=False)
class Waves(Current):
    """Airy waves on deep water, trains added up; water above the mean surface moves as on it.

    Linear theory: heights small against lengths, depth above half a length. omega^2 = g k.
    """

    trains: tuple[Wave, ...]
    """The trains of waves."""

    surface: float = 0.0
    """Height of the mean surface, world z [m]."""

    gravity: float = 9.81
    """Of the dispersion relation [m/s^2]."""

    components: tuple[tuple[float, float, float, float, float], ...] = field(init=False, repr=False)
    """Amplitude of velocity, frequency, wave numbers along x and y, phase of each train."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "surface", _number("waves", "surface", self.surface))
        gravity = _number("waves", "gravity", self.gravity, positive=True)
        # fixed when the trains are: the numbers that enter the formula come from both
        object.__setattr__(self, "gravity", gravity)
        trains = _listed(self.trains)
        for train in trains:
            if not isinstance(train, Wave):
                raise ModelError(
                    f"waves: each train must be a Wave, got {shown(train)}; write "
                    "Waves((Wave(height=1.0, period=8.0),))"
                )
        object.__setattr__(self, "trains", trains)
        rows = []
        for train in trains:
            omega = 2.0 * math.pi / train.period
            k = omega * omega / gravity
            kx, ky = k * math.cos(train.direction), k * math.sin(train.direction)
            rows.append((0.5 * train.height * omega, omega, kx, ky, train.phase))
        object.__setattr__(self, "components", tuple(rows))

    def velocity(self, time: Scalar, position: Vec3) -> Sequence[Scalar]:
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


@record(slots=False)
class TableCurrent(Current):
    """Velocities logged over time, the same everywhere; straight lines between, held beyond."""

    times: tuple[float, ...]
    """Increasing [s]."""

    speeds: tuple[FloatVec3, ...]
    """Velocity at each time, world axes [m/s]."""

    def __post_init__(self) -> None:
        times = finite_array(self.times, (np.size(self.times),), "table current", "times")
        if times.size < 2 or not (np.diff(times) > 0.0).all():
            raise ModelError(
                "table current: times must be at least two, and increasing, "
                f"got {shown(self.times)}; sort the log and drop repeated times"
            )
        speeds = finite_array(self.speeds, (times.size, 3), "table current", "speeds")
        object.__setattr__(self, "times", tuple(times.tolist()))
        object.__setattr__(self, "speeds", tuple((x, y, z) for x, y, z in speeds.tolist()))

    def velocity(self, time: Scalar, position: Vec3) -> Sequence[Scalar]:
        """Return the velocity of the water, world axes [m/s]."""
        total: Vec3 = self.speeds[0]
        for k in range(len(self.times) - 1):
            begin, end = self.times[k], self.times[k + 1]
            share = np.minimum(np.maximum((time - begin) / (end - begin), 0.0), 1.0)
            a, b = self.speeds[k], self.speeds[k + 1]
            total = add(total, scale((b[0] - a[0], b[1] - a[1], b[2] - a[2]), share))
        return total


@record(slots=False)
class CurrentSum(Current):
    """Several currents at once: their velocities add."""

    parts: tuple[Current, ...]
    """Currents; a velocity or a function of time and position becomes one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(current_from(p) for p in _listed(self.parts)))

    def velocity(self, time: Scalar, position: Vec3) -> Sequence[Scalar]:
        """Return the velocity of the water, world axes [m/s]."""
        total: Vec3 = (0.0, 0.0, 0.0)
        for part in self.parts:
            x, y, z = part.velocity(time, position)
            total = add(total, (x, y, z))
        return total


@record(slots=False)
class FunctionCurrent(Current):
    """A velocity given by a function of time and position; its own numbers are compiled in."""

    function: Callable[[Any, Any], Any]
    """Takes time [s] and position [m], an array of three, world axes; returns three scalars or an
    array of them [m/s]."""

    @property
    def source(self) -> object:
        """The function: water makes a new current of it whenever it is asked."""
        return self.function

    def velocity(self, time: Scalar, position: Vec3) -> Sequence[Scalar]:
        """Return the velocity of the water, world axes [m/s]."""
        from tiburon.trace.array import as_traced

        found = self.function(time, as_traced(list(position)))
        if np.shape(found) != (3,):
            raise ModelError(
                f"current {getattr(self.function, '__name__', self.function)!r}: must return three "
                f"components of velocity, "
                f"got {shown(found)}; return (vx, vy, vz) in m/s, world axes"
            )
        return tuple(found.tolist() if isinstance(found, np.ndarray) else found)


def current_from(given: object) -> Current:
    """Return the current that a velocity, a function of time and position, or a current means."""
    if isinstance(given, Current):
        return given
    if callable(given):
        advice = "write def current(time, position): return (vx, vy, vz), in m/s and world axes"
        check_signature(given, "current", ("time", "position"), advice=advice)
        return FunctionCurrent(given)
    return UniformCurrent(vec3(given, "water", "current"))  # type: ignore[arg-type]


def _listed(parts: object) -> tuple[Any, ...]:
    """Return several parts as a tuple; one alone may be given without a list."""
    return tuple(parts) if isinstance(parts, Iterable) else (parts,)
