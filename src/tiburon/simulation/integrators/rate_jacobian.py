"""How the rates of a system change with its state: the exact Jacobian that implicit methods need.

It is the derivative of the very graph of the rates, in coordinates about a position, so that it
holds for any joint, element and controller. One derived function serves all directions of a kind.
"""

from typing import Any, NamedTuple

import numpy as np

from tiburon.simulation.integrators.manifold import Chart, Scalars
from tiburon.spatial import Scalar
from tiburon.trace.derivative import jacobian
from tiburon.trace.differentiation import push_forward
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.primitive import nodes_of
from tiburon.trace.program import Input, current_graph, trace
from tiburon.trace.regions import function
from tiburon.trace.regions.region import as_value

__all__ = ["RateChanges", "rate_changes"]


class RateChanges(NamedTuple):
    """Derivatives of the rates of coordinates."""

    by_state: tuple[Scalars, ...]
    """By each coordinate: columns of the Jacobian."""

    by_time: Scalars
    """By the time; empty where nothing depends on it."""


def rate_changes(chart: Chart, y: Scalars, *time: Scalar) -> RateChanges:
    """Differentiate the rates of coordinates.

    Args:
        chart: Coordinates about a position.
        y: Where.
        *time: When [s], where the motion depends on it.
    """
    if current_graph() is None:
        return _on_floats(chart, y, *time)
    positions = chart.position_count
    # directions of one kind share a function: steps of position, the rest of the state, time
    groups = ((0, positions), (positions, len(y)), (len(y), len(y) + len(time)))
    columns = [column for group in groups for column in _columns(chart, y, time, *group)]
    return RateChanges(tuple(columns[: len(y)]), columns[len(y)] if time else ())


def _columns(chart: Chart, y: Scalars, time: Scalars, begin: int, end: int) -> list[Scalars]:
    """Return the derivatives by coordinates and time from one place to another."""

    @function
    def along(q: Scalars, y: Scalars, time: Scalars, direction: Scalars) -> Any:
        # inside, all of these are leaves of a graph of their own
        graph = current_graph()
        assert graph is not None
        found = Chart(chart.manifold, chart.acceleration, q).rates(y, *time)
        leaves = nodes_of(graph, (*y, *time)[begin:end])
        tangents = dict(zip(leaves, nodes_of(graph, direction), strict=True))
        changes = push_forward(graph, nodes_of(graph, found), tangents)
        return tuple(as_value(graph, node) for node in changes)

    units = np.eye(end - begin).tolist()
    return [along(tuple(chart.q), tuple(y), time, tuple(unit)) for unit in units]


def _on_floats(chart: Chart, y: Scalars, *time: Scalar) -> RateChanges:
    """Trace the rates for the sake of their derivatives, and evaluate these."""
    size = len(y)

    def rates(given: Any) -> Any:
        numbers = given.tolist()
        return list(chart.rates(tuple(numbers[:size]), *numbers[size:]))

    at = np.array([float(x) for x in (*y, *time)])
    program = jacobian(trace(rates, [Input("state", at.shape)], name="rates"), mode="forward")
    columns = np.asarray(interpret(program, {"state": at})).T.tolist()
    found = tuple(tuple(column) for column in columns)
    return RateChanges(found[:size], found[size] if time else ())
