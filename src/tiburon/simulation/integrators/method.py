"""Methods of integration as loops run them: equal steps, and steps with an error estimate."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tiburon.record import record
from tiburon.simulation.integrators.manifold import Acceleration, Chart, Manifold, combine
from tiburon.spatial import Scalar, Scalars


class Attempt(NamedTuple):
    """One step, with what is needed to judge and to interpolate it."""

    change: Scalars
    """By how much the coordinates about its start change."""

    q: Scalars
    """Position at its end [m or rad]."""

    w: Scalars
    """Velocities and further states at its end."""

    rate: Scalars
    """How fast w changes at its end."""

    errors: tuple[Scalars, ...]
    """Estimates of the error of `change`; methods may have several."""

    pieces: tuple[Scalars, ...]
    """What `Pair.dense` makes the interpolation of."""


class Pair(ABC):
    """A method with an error estimate and an interpolation."""

    name: ClassVar[str]
    order: ClassVar[int]
    """Order of the result."""

    estimate_order: ClassVar[int]
    """The error estimate falls with this power of the step."""

    most_growth: ClassVar[float] = 10.0
    """Most times that a step may be longer than the one before."""

    most_shrinking: ClassVar[float] = 5.0
    """Most times that it may be shorter."""

    memory: ClassVar[float] = 0.04
    """Part that the error of the step before has in the choice of a step (Gustafsson's beta)."""

    piece_count: ClassVar[int]
    """Number of `Attempt.pieces`."""

    dense_count: ClassVar[int]
    """Number of vectors that `dense` gives."""

    dense_is_free: ClassVar[bool] = True
    """Whether `dense` evaluates no rates."""

    @abstractmethod
    def attempt(self, chart: Chart, w: Scalars, rate: Scalars, h: Scalar, time: Scalar) -> Attempt:
        """Take one step of length h [s] from the origin of a chart, given w and its rate there."""

    @abstractmethod
    def dense(
        self, chart: Chart, w: Scalars, pieces: Sequence[Scalars], h: Scalar, time: Scalar
    ) -> tuple[Scalars, ...]:
        """Return the vectors that `interpolate` takes; arguments as of `attempt`."""

    def error(self, squares: Scalars, h: Scalar) -> Scalar:
        """Return the error relative to the tolerance, from mean squares: a step is good up to 1."""
        return np.sqrt(squares[0])


def interpolate(dense: Sequence[Scalars], part: Scalar) -> Scalars:
    """Return the change of coordinates after a part of a step.

    part (F0 + (1 - part) (F1 + part (F2 + (1 - part) (F3 + ...)))), in which every method finds its
    polynomial (Hairer, Norsett and Wanner 1993, sec. II.6).

    Args:
        dense: F0, F1, ...: from `Pair.dense`.
        part: Time since the start of the step over its length, 0 to 1.
    """
    rest = 1.0 - part
    total: Scalars = (0.0,) * len(dense[0])
    for place in reversed(range(len(dense))):
        factor = rest if place % 2 else part
        total = tuple(factor * (a + b) for a, b in zip(dense[place], total, strict=True))
    return total


# explicit Runge-Kutta methods as coefficient tables


@record
class Tableau:
    """Coefficients of an explicit Runge-Kutta method."""

    c: tuple[float, ...]
    """Nodes of all stages; the first is 0."""

    a: tuple[tuple[float, ...], ...]
    """One row for each stage but the first."""

    b: tuple[float, ...]
    """Weights of the result."""


def later(time: Scalars, wait: Scalar) -> tuple[Scalar, ...]:
    """Return the time some seconds later; nothing where nothing depends on time."""
    return tuple(now + wait for now in time)


def explicit_stages(
    chart: Chart, tableau: Tableau, y: Scalars, first: Scalars, h: Scalar, *time: Scalar
) -> list[Scalars]:
    """Return the rates at all stages, from coordinates y and their rates at the start."""
    rates = [first]
    for c, row in zip(tableau.c[1:], tableau.a, strict=True):
        stage = combine(y, h, row, rates)
        rates.append(chart.rates(stage, *later(time, c * h)))
    return rates


def explicit_step(
    tableau: Tableau,
    manifold: Manifold,
    acceleration: Acceleration,
    q: Scalars,
    w: Scalars,
    h: Scalar,
    *time: Scalar,
) -> tuple[Scalars, Scalars]:
    """Take one step of an explicit method, in coordinates about its start.

    Args:
        tableau: The method.
        manifold: Positions of the robot.
        acceleration: Returns the rate of w for q, w and, if one is given, the time.
        q: Configuration [m or rad], nq scalars.
        w: Joint velocity [m/s or rad/s] and continuous states.
        h: Step [s].
        *time: Time at the start of the step [s], where the motion depends on it.

    Returns:
        Configuration and w one step later.
    """
    chart = Chart(manifold, acceleration, q)
    y = chart.start(w)
    first = chart.rates_at_start(w, acceleration(q, w, *time))
    rates = explicit_stages(chart, tableau, y, first, h, *time)
    return chart.state(combine(y, h, tableau.b, rates))


# methods by what loops need to know of them


@record
class Method:
    """A method of integration; `integrators/__init__.py` describes how loops call it."""

    name: str
    """Name in `tb.simulate(method=...)`."""

    order: int
    """How the error falls with the step: with this power."""

    evaluations: int
    """Evaluations of the dynamics in one step."""

    step: Callable[..., tuple[Scalars, Scalars]]
    """One step without memory: ``step(manifold, acceleration, q, w, h, *time) -> (q, w)``."""

    pair: Pair | None = None
    """The method with an error estimate, for adaptive steps; None if it has none."""

    starts: Callable[..., Any] | None = None
    """``(manifold, acceleration, q, w, h, *time) -> memory`` of a multi-step method."""

    advances: Callable[..., Any] | None = None
    """``(manifold, acceleration, q, w, memory, h, *time) -> (q, w, memory)`` of such a method."""

    points: int = 1
    """Points of a block, whose evaluations are made at once in the lanes of vectors."""

    is_implicit: bool = False
    """Whether steps need the Jacobian of the rates, and take `ImplicitRates`."""

    keeps_inertia: bool = False
    """Whether steps keep mass matrix and bias force, and use `KeptRates`."""

    @property
    def adaptive(self) -> bool:
        """Whether steps can adapt to a tolerance."""
        return self.pair is not None

    @property
    def has_memory(self) -> bool:
        """Whether steps depend on those before: a multi-step method."""
        return self.advances is not None

    @property
    def start(self) -> Callable[..., Any]:
        """What gives the memory before the first of equal steps."""
        return self.starts or (lambda *_: ())

    def advance(
        self,
        manifold: Any,
        acceleration: Any,
        q: Scalars,
        w: Scalars,
        memory: Any,
        h: Any,
        *time: Any,
    ) -> tuple[Scalars, Scalars, Any]:
        """Take one of equal steps; return configuration, w and memory one step later.

        `memory` comes from `start` or the step before; other arguments are those of
        `explicit_step`.
        """
        if self.advances is None:
            return *self.step(manifold, acceleration, q, w, h, *time), ()
        found: tuple[Scalars, Scalars, Any]
        found = self.advances(manifold, acceleration, q, w, memory, h, *time)
        return found
