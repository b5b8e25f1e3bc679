"""Sensors in a run: ideal values, sampling, delay, bias and noise.

A sensor samples the robot at its own rate, beginning with the run. A sample is delivered after its
delay, with bias and noise. The last reading holds until the next; before the first, the sample at
the start of the run.

Noise is a function of seed, sensor, case and number of the sample alone: neither how a run is cut
into calls, nor what else is recorded, nor how many cases run beside changes a bit of it.
"""

import math
import zlib
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tiburon.actuation.element import StateKinematics
from tiburon.algorithms.kinematics import Moving, frame_motions
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.arrays import Array, NDArray
from tiburon.errors import DomainError, ModelError
from tiburon.loops.reactions import opened
from tiburon.model import Model
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.reached import Reached, reached
from tiburon.simulation.state import Readings, unique_names
from tiburon.simulation.system import System
from tiburon.spatial import Force, Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

WHOLE_STEPS_TOLERANCE = 1e-6
"""How far a number of steps may be off a whole one: rounding of the times that it comes from."""


MOST_CASES = 2**44
"""Most cases whose noise differs."""

MANY_SAMPLES, MANY_NUMBERS = 64, 65_536
"""Samples whose noise is drawn at once: a draw costs as much as some samples of one robot."""


class Sensed:
    """A state as sensors measure it: on floats or traced values, accelerations included."""

    def __init__(
        self,
        system: System,
        time: Scalar,
        q: Scalars,
        w: Scalars,
        u: Scalars,
        p: Scalars | None = None,
    ) -> None:
        """Remember a state; the arguments are those of `System.rates`."""
        self.system = system
        self.time = time
        self.q, self.v, self.x = system.split(q, w)
        self._w, self._u, self._p = w, u, p

    @property
    def model(self) -> Model:
        """The robot."""
        return self.system.model

    @property
    def z(self) -> Scalars:
        """Discrete states of elements."""
        return self._u[self.system.discrete]

    @cached_property
    def kinematics(self) -> StateKinematics:
        """Where bodies are and how they move, under the surroundings."""
        return StateKinematics(self.system.setting(self.q, self.v, self.time), self.q, self.v)

    @cached_property
    def rates(self) -> Scalars:
        """Joint accelerations [m/s^2 or rad/s^2], then rates of continuous states."""
        return self.system.rates(self.q, self._w, self._u, self.time, self._p)

    @cached_property
    def _reached(self) -> Reached:
        return reached(self.system, self.q, self._w, self._u, self.time, self._p)

    @cached_property
    def vd(self) -> Scalars:
        """Joint accelerations [m/s^2 or rad/s^2], nv scalars; with those of contacts."""
        return type(self.v)(self._reached.vd)

    @cached_property
    def external(self) -> Sequence[Force] | None:
        """What acts on plan bodies beside joints of the tree: water, elements, contacts, loops."""
        here, _, _, forces = self._reached
        return opened(here, self.q, forces)[0] if self.model.loops else here.external

    def motion(self, frame: str) -> Moving:
        """Return velocity and spatial acceleration of a frame, its own axes at its origin."""
        return frame_motions(self.kinematics.around.plan, self.q, self.v, self.vd, (frame,))[0]


@public
class Sensor:
    """A sensor on a robot; subclasses are records with these fields and their own.

    A new kind defines its channels and their ideal values: `channel_names` and `measure`.
    """

    __slots__ = ()

    name: str
    """Unique among the sensors of a run."""

    rate: float
    """Samples per second [Hz]."""

    noise: float | tuple[float, ...]
    """Standard deviation of white noise, one number or one per channel, in units of the channel."""

    bias: float | tuple[float, ...]
    """Constant error, one number or one per channel."""

    delay: float
    """Time from a look to its word [s]."""

    seed: int
    """Of the noise."""

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its channels, without that of the sensor."""
        raise TypeError(f"{type(self).__name__} has no channels: define channel_names")

    def channel_units(self, model: Model) -> tuple[str, ...]:
        """Return the unit of each channel."""
        return ("",) * len(self.channel_names(model))

    def measure(self, now: Sensed) -> Scalars:
        """Return what it reads without errors, one scalar per channel."""
        raise TypeError(f"{type(self).__name__} does not define what it reads: define measure(now)")

    def errors(self, kind: str, model: Model) -> Array:
        """Return "noise" or "bias": one number, or one per channel."""
        return np.asarray(getattr(self, kind), dtype=np.float64)

    def check_system(self, system: System) -> None:
        """Raise an error if it does not fit the system; by default `check` decides.

        Args:
            system: The robot in its world, with its elements.
        """

    def check(self, model: Model) -> None:
        """Raise an error if it does not fit a robot, or its numbers mean nothing."""
        count = len(self.channel_names(model))
        element = f"sensor {self.name!r}"
        if not (np.isfinite(self.rate) and self.rate > 0.0):
            raise DomainError(f"{element}: rate", "samples per second above 0", f"{self.rate!r}")
        if not (np.isfinite(self.delay) and self.delay >= 0.0):
            raise DomainError(f"{element}: delay", "a time of at least 0 s", f"{self.delay!r}")
        for what in ("noise", "bias"):
            given = getattr(self, what)
            if np.ndim(given) and len(given) != count:
                raise ModelError(
                    f"{element}: {what} must be one number or {count}, one per channel, got "
                    f"{len(given)}",
                    name=self.name,
                )
        if np.min(self.noise) < 0.0:
            raise DomainError(f"{element}: noise", "deviations of at least 0", f"{self.noise!r}")


class Sensing:
    """All sensors of a run: samples states, delays the samples, holds the latest readings.

    A run has a time grid, ``begin + n * dt``. It stops at every `every`-th time and passes the
    state (`look`); `latest` then holds the readings of each sensor. Sensors do not change the
    motion unless a controller reads them.
    """

    def __init__(
        self,
        system: System,
        sensors: Sequence[Sensor],
        dt: float,
        cases: tuple[int, ...] = (),
        case_numbers: NDArray[np.int64] | None = None,
    ) -> None:
        """Put sensors on a system.

        Args:
            system: The system.
            sensors: In order.
            dt: Interval of the time grid [s].
            cases: Leading dimensions of a batch.
            case_numbers: Numbers of the cases, from which their noise follows; 0, 1, 2, ... by
                default.

        Raises:
            DomainError: If a sample or its delivery lies between two grid times.
            ModelError: If names are given twice, or a sensor does not fit the robot.
        """
        self.system = system
        self.sensors = tuple(sensors)
        self.cases = tuple(cases)
        self._case_numbers = case_numbers
        unique_names("sensor", [sensor.name for sensor in self.sensors])
        model = system.model
        for sensor in self.sensors:
            sensor.check(model)
            sensor.check_system(system)
        self.periods = [_steps(s, "period", 1.0 / s.rate, dt) for s in self.sensors]
        self.delays = [_steps(s, "delay", s.delay, dt) for s in self.sensors]
        self.every = math.gcd(*self.periods, *self.delays) if self.sensors else 0
        counts = [len(s.channel_names(model)) for s in self.sensors]
        ends = np.cumsum([0, *counts]).tolist()
        self._channels = [slice(a, b) for a, b in pairwise(ends)]
        self.latest = Readings()
        self.looked = -1
        """Step at which sensors looked last; -1 for none."""
        self._drawn: dict[int, tuple[int, Array]] = {}
        self._row = np.zeros((*self.cases, ends[-1]))
        for sensor, where in zip(self.sensors, self._channels, strict=True):
            self.latest[sensor.name] = self._row[..., where].copy()
        self._waiting: list[list[tuple[int, Array]]] = [[] for _ in self.sensors]

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Names of all channels, "imu.wx" and so on."""
        model = self.system.model
        return tuple(f"{s.name}.{c}" for s in self.sensors for c in s.channel_names(model))

    @property
    def channel_units(self) -> tuple[str, ...]:
        """Units of all channels."""
        return tuple(u for s in self.sensors for u in s.channel_units(self.system.model))

    @property
    def row(self) -> Array:
        """What all sensors read now, shape (..., channels); changes with the next look."""
        return self._row

    def look(self, step: int, q: Array, w: Array, u: Array, time: Any, **parameters: Any) -> None:
        """Sample the sensors that are due in a state, and deliver samples whose delay is over.

        Args:
            step: Steps since the start of the run, a multiple of `every`.
            q: Configuration [m or rad], shape (..., nq).
            w: Joint velocity and continuous states, shape (..., nv + nx).
            u: Held values, shape (..., `System.drive_size`).
            time: Time [s], shape (...).
            **parameters: Run-time parameters of each case.
        """
        if step == self.looked:
            # a run that continues has looked here before, under the commands of that time
            return
        self.looked = step
        due = [k for k, period in enumerate(self.periods) if step % period == 0]
        if due:
            seen = np.asarray(self.kernel(q, w, u, time, **parameters), dtype=np.float64)
            for k in due:
                self._waiting[k].append(
                    (step, self._reading(k, step, seen[..., self._channels[k]]))
                )
        for k, waiting in enumerate(self._waiting):
            # the first word is there at once
            while waiting and (waiting[0][0] == 0 or waiting[0][0] + self.delays[k] <= step):
                reading = waiting.pop(0)[1]
                self._row[..., self._channels[k]] = reading
                self.latest[self.sensors[k].name] = reading

    def ideal(self, q: Array, w: Array, u: Array, time: Any, **parameters: Any) -> Array:
        """Return what all sensors would read without errors, shape (..., channels)."""
        return np.asarray(self.kernel(q, w, u, time, **parameters), dtype=np.float64)

    @cached_property
    def kernel(self) -> Any:
        """The compiled function from state to readings without errors."""
        from tiburon.native.kernel import ProgramSource, make_kernel

        system = self.system

        def run(given: Any) -> Any:
            q, w, u = (scalars(given[name]) for name in ("q", "w", "u"))
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else None
            now = Sensed(system, given["time"], q, w, u, p)
            return as_traced([x for sensor in self.sensors for x in sensor.measure(now)])

        inputs = [
            Input("q", (system.model.nq,)),
            Input("w", (system.model.nv + system.nx,)),
            Input("u", (system.drive_size,)),
            Input("time", ()),
        ]
        program = system.trace(run, inputs, "sensors")
        return make_kernel(ProgramSource(program), system.parameters())

    def _reading(self, k: int, step: int, seen: Array) -> Array:
        """Add bias and noise to what a sensor saw."""
        sensor = self.sensors[k]
        model = self.system.model
        reading = seen + sensor.errors("bias", model)
        deviation = sensor.errors("noise", model)
        if deviation.any():
            reading += deviation * self._noise(k, step // self.periods[k], seen.shape)
        resolution = np.asarray(getattr(sensor, "resolution", 0.0), dtype=np.float64)
        if resolution.any():
            reading = np.round(reading / resolution) * resolution
        return reading

    def _noise(self, k: int, count: int, shape: tuple[int, ...]) -> Array:
        """Return the noise of one sample; many are drawn at once, as far as they fit."""
        first, drawn = self._drawn.get(k, (0, np.zeros((0, *shape))))
        if not first <= count < first + len(drawn):
            sensor = self.sensors[k]
            many = max(1, min(MANY_SAMPLES, MANY_NUMBERS // max(1, math.prod(shape))))
            first = count
            counts = range(first, first + many)
            drawn = normal_noise(sensor.seed, sensor.name, counts, shape, self._case_numbers)
            self._drawn[k] = (first, drawn)
        found: Array = drawn[count - first]
        return found

    # what a checkpoint keeps

    def memory(self) -> dict[str, Any]:
        """Return the memory of a checkpoint: readings, and samples that are delayed."""
        waiting = [[(step, values.copy()) for step, values in waiting] for waiting in self._waiting]
        return {"row": self._row.copy(), "waiting": waiting, "looked": self.looked}

    def restore(self, memory: dict[str, Any]) -> None:
        """Continue from what `memory` returned."""
        self._row[...] = memory["row"]
        self.looked = int(memory.get("looked", -1))
        for sensor, where in zip(self.sensors, self._channels, strict=True):
            self.latest[sensor.name] = self._row[..., where].copy()
        self._waiting = [
            [(int(step), np.array(values)) for step, values in waiting]
            for waiting in memory["waiting"]
        ]


def _steps(sensor: Sensor, what: str, length: float, dt: float) -> int:
    """Return a time as a number of steps of the grid."""
    steps = length / dt
    whole = round(steps)
    if abs(steps - whole) > WHOLE_STEPS_TOLERANCE * max(1.0, steps) or (
        whole == 0 and length > 0.0
    ):
        raise DomainError(
            f"sensor {sensor.name!r}: {what}",
            f"a multiple of the {dt:g} s at which the run can stop",
            f"{length:g} s",
            advice="change the rate, the delay or the step",
        )
    return whole


# noise: the n-th value of a stream is a hash of n (SplitMix64: Steele, Lea and Flood 2014, "Fast
# splittable pseudorandom number generators"), so that it does not depend on when it is drawn

Words = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1
_PARTS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST = 31
_UNIT = 2.0**-53


def _mixed(words: Words) -> Words:
    """Return words in which every bit depends on every bit of those given."""
    for shift, factor in _PARTS:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(_LAST))


def _mixed_number(word: int) -> int:
    """Return `_mixed` of one word."""
    word &= _WORD
    for shift, factor in _PARTS:
        word = (word ^ (word >> shift)) * factor & _WORD
    return word ^ (word >> _LAST)


def uniform_bits(seed: int, stream: str, counts: Sequence[int], places: Words) -> Words:
    """Return 64 random bits for each place of some members of a stream, shape (counts, *places).

    Args:
        seed: Seed.
        stream: Name of the stream.
        counts: Members of the stream.
        places: Numbers of the places; equal places get equal bits.
    """
    begin = _mixed_number((seed & _WORD) * _GOLDEN + zlib.crc32(stream.encode()) + 1)
    starts = [_mixed_number(begin * _GOLDEN + count + 1) for count in counts]
    starting = np.array(starts, dtype=np.uint64).reshape(-1, *[1] * places.ndim)
    with np.errstate(over="ignore"):
        return _mixed(_mixed(places * np.uint64(_GOLDEN) + starting))


def normal_noise(
    seed: int,
    stream: str,
    counts: Sequence[int],
    shape: tuple[int, ...],
    case_numbers: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return independent standard normal values (Box and Muller 1958), shape (counts, *shape).

    Args:
        seed: Seed.
        stream: Name of the stream.
        counts: Members of the stream: numbers of samples.
        shape: (..., channels), cases leading. The values of a case depend neither on the number of
            cases nor on other samples.
        case_numbers: Numbers of the cases, shape (cases,); 0, 1, 2, ... by default.
    """
    channels = shape[-1] if shape else 1
    cases = int(np.prod(shape[:-1], dtype=int))
    # channels and cases have bits of their own, two words for each number
    numbers = np.arange(cases) if case_numbers is None else case_numbers
    case = numbers.astype(np.uint64)[:, None] << np.uint64(20)
    place = np.add(case, np.arange(2 * channels, dtype=np.uint64), dtype=np.uint64)
    bits = uniform_bits(seed, stream, counts, place)
    unit = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * _UNIT
    size = np.sqrt(-2.0 * np.log(unit[..., :channels]))
    found = np.asarray(size * np.cos(2.0 * np.pi * unit[..., channels:]))
    return found.reshape(len(counts), *shape)
