"""How fast the result of a function changes while its arguments change: derivatives inside a trace.

`rate_along` serves algorithms that need a derivative of a given function on the way to their
result, such as the acceleration of water whose velocity is known. It works on floats and on traced
values alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiburon.trace.derivative import forward_derivative
from tiburon.trace.interpret import evaluate_graph
from tiburon.trace.program import Input, Program, trace
from tiburon.trace.regions.region import as_value, float_node
from tiburon.trace.splice import splice
from tiburon.trace.value import common_graph

__all__ = ["evaluate_nodes", "rate_along", "rate_program"]

Scalars = tuple[Any, ...]


def rate_program(function: Callable[..., Any], arguments: int, name: str = "") -> Program:
    """Trace a function of scalars, and how it changes; for `rate_along`.

    Args:
        function: Takes scalars, gives a sequence of scalars.
        arguments: How many it takes.
        name: Name of the program.
    """
    inputs = [Input("x", (arguments,))]
    program = trace(lambda x: list(function(*x.tolist())), inputs, name=name)
    return forward_derivative(program, values=True)


def rate_along(
    program: Program, arguments: Sequence[Any], rates: Callable[..., Sequence[Any]]
) -> tuple[Scalars, Scalars]:
    """Return the results of a function, and their rate of change.

    Args:
        program: From `rate_program`.
        arguments: Scalars, traced or not.
        rates: Gives the rate of change of each argument from the results, which may say how the
            arguments move.

    Returns:
        Results and their rates.
    """
    values, tangents = program.outputs
    results = evaluate_nodes(program, values.nodes, arguments, ())
    return results, evaluate_nodes(program, tangents.nodes, arguments, rates(*results))


def evaluate_nodes(program: Program, nodes: Sequence[int], *given: Sequence[Any]) -> Scalars:
    """Return the values of some nodes of a program, on floats or written into the graph at hand.

    Args:
        program: The program.
        nodes: Of its graph.
        *given: Scalars of each input, in order; inputs that the nodes do not read may be empty.
    """
    graph = common_graph(tuple(scalar for scalars in given for scalar in scalars))
    if graph is None:
        return tuple(
            float(value)
            for value in evaluate_graph(program.graph, nodes, lambda _, at: given[at[0]][at[1]])
        )
    inputs = {
        (argument, element): float_node(graph, scalar)
        for argument, scalars in enumerate(given)
        for element, scalar in enumerate(scalars)
    }
    return tuple(as_value(graph, node) for node in splice(graph, program.graph, nodes, inputs))
