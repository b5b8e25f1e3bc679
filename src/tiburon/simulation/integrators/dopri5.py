"""Dormand and Prince's method of order 5 with an error estimate of order 4.

Dormand and Prince 1980, "A family of embedded Runge-Kutta formulae"; interpolation of order 4 by
Hairer, Norsett and Wanner 1993, "Solving Ordinary Differential Equations I", sec. II.6.

Symbols:
    k1..k7  rates at the stages; k7 at the end of the step, where the next one starts
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from tiburon.arguments import public
from tiburon.record import record
from tiburon.simulation.integrators.integrator import (
    DEFAULT_ATOL,
    DEFAULT_DT,
    DEFAULT_RTOL,
    AdaptiveIntegrator,
)
from tiburon.simulation.integrators.manifold import Chart, combine
from tiburon.simulation.integrators.method import (
    Attempt,
    Pair,
    Tableau,
    explicit_stages,
    explicit_step,
)
from tiburon.spatial import Scalar, Scalars


@public
@record
class DormandPrince(AdaptiveIntegrator):
    """Dormand and Prince's method of order 5, with steps that adapt to a tolerance.

    Example:
        ``tb.simulate(arm, 0.1, method=tb.DormandPrince(rtol=1e-8, atol=1e-8))``
    """

    name: ClassVar[str] = "dopri5"

    rtol: float | None = DEFAULT_RTOL
    """Relative tolerance of velocities and states; None for equal steps."""

    atol: float | None = DEFAULT_ATOL
    """Absolute tolerance in the units of the states; None for equal steps."""

    dt: float = DEFAULT_DT
    """Spacing of the times that can be recorded and controlled, or equal step [s]."""


DOPRI5 = Tableau(
    c=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0),
    a=(
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    ),
    b=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
"""The method of order 5."""

ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
"""Weights of the difference to the method of order 4."""

DENSE = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)
"""Weights of what the interpolation has beyond a cubic polynomial."""

dopri5_step = partial(explicit_step, DOPRI5)
"""One step of order 5 without an error estimate: six evaluations."""


class Dopri5Pair(Pair):
    """The pair of orders 5 and 4."""

    name: ClassVar[str] = "dopri5"
    order: ClassVar[int] = 5
    estimate_order: ClassVar[int] = 5
    piece_count: ClassVar[int] = 4
    dense_count: ClassVar[int] = 4

    def attempt(self, chart: Chart, w: Scalars, rate: Scalars, h: Scalar, time: Scalar) -> Attempt:
        """Take one step: six evaluations, the last of which starts the next step."""
        change, (q, w, rate), rates = attempted(chart, DOPRI5, w, rate, h, time)
        zero = (0.0,) * len(change)
        error = combine(zero, h, ERROR, rates)
        bend = combine(zero, h, DENSE, rates)
        cubic = hermite(change, rates[0], rates[-1], h)
        return Attempt(change, q, w, rate, (error,), (*cubic, bend))

    def dense(
        self, chart: Chart, w: Scalars, pieces: Sequence[Scalars], h: Scalar, time: Scalar
    ) -> tuple[Scalars, ...]:
        """Return the vectors of the interpolation: the pieces themselves."""
        return tuple(pieces)


def attempted(
    chart: Chart, tableau: Tableau, w: Scalars, rate: Scalars, h: Scalar, time: Scalar
) -> tuple[Scalars, tuple[Scalars, Scalars, Scalars], list[Scalars]]:
    """Take a step of an explicit method that evaluates its end.

    Returns:
        Change of the coordinates; q, w and the rate of w at the end; rates of the coordinates at
        all stages and at the end.
    """
    y = chart.start(w)
    rates = explicit_stages(chart, tableau, y, chart.rates_at_start(w, rate), h, time)
    change = combine((0.0,) * len(y), h, tableau.b, rates)
    q, w, rate, last = end_of_step(chart, y, change, time + h)
    return change, (q, w, rate), [*rates, last]


def end_of_step(
    chart: Chart, y: Scalars, change: Scalars, time: Scalar
) -> tuple[Scalars, Scalars, Scalars, Scalars]:
    """Return the state at the end of a step, the rate of w there, and that of coordinates."""
    after = combine(y, 1.0, (1.0,), (change,))
    q, w = chart.state(after)
    rate = chart.acceleration(q, w, time)
    return q, w, rate, chart.rates_of(chart.steps(after), q, w, rate)


def hermite(change: Scalars, first: Scalars, last: Scalars, h: Scalar) -> tuple[Scalars, ...]:
    """Return the vectors of the cubic polynomial with given change and rates at both ends."""
    one = tuple(h * k - d for k, d in zip(first, change, strict=True))
    two = tuple(d - h * k - b for k, d, b in zip(last, change, one, strict=True))
    return change, one, two
