"""Motions prescribed as functions of time, and a check of their rates.

The check compares velocity and acceleration with the exact derivatives of the traced position and
velocity. Steps, which have no derivative, are found as changes between two times that the rates do
not explain, however close the times.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arrays import NDArray
from tiburon.errors import ModelError
from tiburon.model.value_checks import finite_array
from tiburon.record import record
from tiburon.spatial import Scalar
from tiburon.trace.derivative import evaluate_nodes, rate_program

__all__ = ["SAMPLE_TIMES", "Harmonic", "Path", "Polynomial", "check_path"]


class Path(ABC):
    """A position as a function of time, with its rates; immutable, compares by value.

    Derive a frozen dataclass for your own paths: `at` uses `+ - * /` and NumPy functions only, so
    that it can be traced. Code is keyed by its graph; a model raises an error if its path has
    changed since it was built.
    """

    @abstractmethod
    def at(self, time: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Return position, velocity and acceleration at a time [s]."""


@record(slots=False)
class Harmonic(Path):
    """Harmonic motion: mean + amplitude sin(2 pi frequency t + phase).

    Example:
        ``Harmonic(amplitude=0.1, frequency=2.0)``
    """

    amplitude: float
    """Amplitude [m or rad]."""

    frequency: float
    """Frequency [Hz]."""

    phase: float = 0.0
    """Phase at time zero [rad]."""

    mean: float = 0.0
    """Mean position [m or rad]."""

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
    """Coefficients in ascending order [m/s^k or rad/s^k]."""

    def __post_init__(self) -> None:
        refuse_unusable("polynomial path: coefficients", self.coefficients)
        given = np.asarray(self.coefficients, dtype=np.float64)
        if given.ndim != 1 or given.size == 0 or not np.isfinite(given).all():
            raise ModelError(
                "polynomial path: coefficients must be a sequence of finite numbers, got "
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


SAMPLE_TIMES = tuple(np.concatenate([np.linspace(0.0, 10.0, 41), np.geomspace(1e-3, 1e3, 13)]))
"""Times at which paths are checked when a joint is built [s]."""

RATE_TOLERANCE = 1e-8
"""Largest relative difference of two rates that is attributed to rounding."""

BISECTIONS = 48
"""Bisections of an interval around a step."""

BUILT_IN = (Harmonic.at, Polynomial.at)
"""Built-in formulas, whose rates are exact."""


def check_path(path: Path, joint: str, times: Sequence[float]) -> None:
    """Raise an error if the rates of a path are inconsistent at one of some times.

    Args:
        path: The path.
        joint: Name of the joint that it drives.
        times: Times to check [s], in any order.

    Raises:
        ModelError: If velocity is not the derivative of position, or acceleration that of
            velocity, or if one of them steps.
    """
    if type(path).at in BUILT_IN:
        return
    given: object = path.at(0.5)
    if not isinstance(given, tuple) or len(given) != 3:
        raise ModelError(
            f"joint {joint!r}: {type(path).__name__}.at must return position, velocity and "
            f"acceleration, got {type(given).__name__}",
            name=joint,
        )
    program = rate_program(lambda time: path.at(time), 1, "path")
    values, tangents = program.outputs
    when = np.unique(np.asarray(times, dtype=np.float64))
    with np.errstate(all="ignore"):
        told = np.array([evaluate_nodes(program, values.nodes, (t,), ()) for t in when])
        exact = np.array([evaluate_nodes(program, tangents.nodes, (t,), (1.0,)) for t in when])
    known = np.isfinite(told).all(axis=1) & np.isfinite(exact).all(axis=1)
    when, told, exact = when[known], told[known], exact[known]
    for order, (rate, of) in enumerate((("velocity", "position"), ("acceleration", "velocity"))):
        if not len(when):
            return
        off = np.abs(told[:, order + 1] - exact[:, order])
        size = max(np.abs(exact[:, order]).max(), np.abs(told[:, order + 1]).max())
        bad = np.flatnonzero(off > RATE_TOLERANCE * size)
        if len(bad):
            k = int(bad[0])
            raise ModelError(
                f"joint {joint!r}: {rate} of its path {type(path).__name__} must be the time "
                f"derivative of its {of}, got {told[k, order + 1]:.6g} where that is "
                f"{exact[k, order]:.6g} at {when[k]:.6g} s; correct `at`",
                name=joint,
            )
        step = _step(path, when, told, order)
        if step is not None:
            raise ModelError(
                f"joint {joint!r}: {of} of its path {type(path).__name__} must be consistent "
                f"with its {rate}, got a step by {step[1]:.6g} at {step[0]:.6g} s; blend it "
                "over some time",
                name=joint,
            )


def _step(
    path: Path, times: NDArray[np.float64], told: NDArray[np.float64], order: int
) -> tuple[float, float] | None:
    """Return time and size of a step of a value; None if there is none."""

    def missing(a: float, fa: Sequence[float], b: float, fb: Sequence[float]) -> float:
        """Return the change beyond the mean rate."""
        mean = 0.5 * (fa[order + 1] + fb[order + 1])
        return float(fb[order] - fa[order] - (b - a) * mean)

    def at(time: float) -> list[float]:
        with np.errstate(all="ignore"):
            return [float(x) for x in path.at(time)]

    size = np.abs(told[:, order]).max()
    for k in range(len(times) - 1):
        a, b = float(times[k]), float(times[k + 1])
        fa, fb = told[k].tolist(), told[k + 1].tolist()
        if abs(missing(a, fa, b, fb)) <= RATE_TOLERANCE * size:
            continue
        # the change of a continuous value vanishes with the interval, a step does not
        for _ in range(BISECTIONS):
            middle = 0.5 * (a + b)
            f = at(middle)
            if abs(missing(a, fa, middle, f)) >= abs(missing(middle, f, b, fb)):
                b, fb = middle, f
            else:
                a, fa = middle, f
        left = missing(a, fa, b, fb)
        if abs(left) > RATE_TOLERANCE * size:
            return b, left
    return None
