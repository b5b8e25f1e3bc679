"""Motions that are known functions of time."""

from abc import ABC, abstractmethod

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.errors import ModelError
from tiburon.model.numbers import finite_array
from tiburon.record import record
from tiburon.spatial import Scalar


class Path(ABC):
    """A position as a function of time, with its rates; immutable, compares by value.

    Derive a frozen dataclass for paths of your own: `at` uses `+ - * /` and NumPy functions alone,
    so that it can be traced. Code is compiled from its graph, so two paths that differ in anything
    it reads have code of their own; a model refuses to go on with a path that has changed since.
    """

    @abstractmethod
    def at(self, time: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Return position, velocity and acceleration at a time [s]."""


@record(slots=False)
class Harmonic(Path):
    """A swing: mean + amplitude sin(2 pi frequency t + phase).

    Example:
        ``Harmonic(amplitude=0.1, frequency=2.0)``
    """

    amplitude: float
    """Largest distance from the mean [m or rad]."""

    frequency: float
    """Swings per second [Hz]."""

    phase: float = 0.0
    """Angle at time zero [rad]."""

    mean: float = 0.0
    """Middle of the swing [m or rad]."""

    def __post_init__(self) -> None:
        for field in ("amplitude", "frequency", "phase", "mean"):
            value = finite_array(getattr(self, field), (), "harmonic path", field)
            object.__setattr__(self, field, float(value))

    def at(self, time: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Return position, velocity and acceleration at a time [s]."""
        rate = 2.0 * np.pi * self.frequency
        angle = rate * time + self.phase
        swing = self.amplitude * np.sin(angle)
        return self.mean + swing, self.amplitude * rate * np.cos(angle), -rate * rate * swing


@record(slots=False)
class Polynomial(Path):
    """A polynomial in time: c[0] + c[1] t + c[2] t^2 + ...

    Example:
        Constant speed of 3 rad/s: ``Polynomial((0.0, 3.0))``
    """

    coefficients: tuple[float, ...]
    """From the constant one upward [m/s^k or rad/s^k]."""

    def __post_init__(self) -> None:
        refuse_unusable("polynomial path: coefficients", self.coefficients)
        given = np.asarray(self.coefficients, dtype=np.float64)
        if given.ndim != 1 or given.size == 0 or not np.isfinite(given).all():
            raise ModelError(
                "polynomial path: coefficients must be a row of finite numbers, got "
                f"{self.coefficients!r}; write (start, speed, ...)"
            )
        object.__setattr__(self, "coefficients", tuple(given.tolist()))

    def at(self, time: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Return position, velocity and acceleration at a time [s], by Horner's rule."""
        x: Scalar = 0.0
        xd: Scalar = 0.0
        half_xdd: Scalar = 0.0
        for c in reversed(self.coefficients):
            half_xdd = half_xdd * time + xd
            xd = xd * time + x
            x = x * time + c
        return x, xd, 2.0 * half_xdd
