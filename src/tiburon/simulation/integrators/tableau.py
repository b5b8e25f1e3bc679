"""Explicit Runge-Kutta methods as tables of numbers.

Symbols (Hairer, Norsett and Wanner 1993, "Solving Ordinary Differential Equations I", sec. II.1):
    c       nodes: when stages are evaluated, in steps
    a       rows: which rates lead to each stage
    b       weights: which rates lead to the result
"""

from collections.abc import Sequence

from tiburon.record import record
from tiburon.simulation.integrators.chart import Acceleration, Chart, combine
from tiburon.simulation.integrators.manifold import Manifold, Scalars
from tiburon.spatial import Scalar

__all__ = ["Tableau", "explicit_stages", "explicit_step", "later"]


@record
class Tableau:
    """The numbers of an explicit Runge-Kutta method."""

    c: tuple[float, ...]
    """Nodes of all stages; the first is 0."""

    a: tuple[tuple[float, ...], ...]
    """One row for each stage but the first."""

    b: tuple[float, ...]
    """Weights of the result."""


def later(time: Sequence[Scalar], wait: Scalar) -> tuple[Scalar, ...]:
    """Return the time some seconds later; nothing where nothing depends on time."""
    return tuple(now + wait for now in time)


def explicit_stages(
    chart: Chart, tableau: Tableau, y: Scalars, first: Scalars, h: Scalar, *time: Scalar
) -> list[Scalars]:
    """Return the rates at all stages.

    Args:
        chart: Coordinates about the position at the start of the step.
        tableau: The method.
        y: Coordinates at the start of the step.
        first: Rates there.
        h: Step [s].
        *time: Time at the start of the step [s], where the motion depends on it.
    """
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
        acceleration: Gives the rate of w for q, w and, if one is given, the time.
        q: Position [m or rad], nq scalars.
        w: Velocities [m/s or rad/s] and further states.
        h: Step [s].
        *time: Time at the start of the step [s], where the motion depends on it.

    Returns:
        Position and w one step later.
    """
    chart = Chart(manifold, acceleration, q)
    y = chart.start(w)
    first = chart.rates_at_start(w, acceleration(q, w, *time))
    rates = explicit_stages(chart, tableau, y, first, h, *time)
    return chart.state(combine(y, h, tableau.b, rates))
