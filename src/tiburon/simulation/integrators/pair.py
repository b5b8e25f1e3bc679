"""Methods that judge their own error: what a loop with steps that adapt needs of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from tiburon.simulation.integrators.chart import Chart
from tiburon.simulation.integrators.manifold import Scalars
from tiburon.spatial import Scalar

__all__ = ["Attempt", "Pair", "interpolate"]


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
        """Take one step.

        Args:
            chart: Coordinates about the position at the start of the step.
            w: Velocities and further states there.
            rate: How fast w changes there.
            h: Step [s].
            time: Time at its start [s].
        """

    @abstractmethod
    def dense(
        self, chart: Chart, w: Scalars, pieces: Sequence[Scalars], h: Scalar, time: Scalar
    ) -> tuple[Scalars, ...]:
        """Return the vectors that `interpolate` takes; arguments as of `attempt`."""

    def error(self, squares: Sequence[Scalar], h: Scalar) -> Scalar:
        """Return the size of the error in units of what is tolerated: a step is good up to 1.

        Args:
            squares: Mean square of each estimate in these units.
            h: Step [s].
        """
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
