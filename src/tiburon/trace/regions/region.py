"""The base of all regions: a graph of their own, whose leaves are the arguments of the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tiburon.errors import TraceError
from tiburon.trace.graph import Graph, mix, text_key
from tiburon.trace.interpret import evaluate_graph
from tiburon.trace.program import recording
from tiburon.trace.value import Value, node_of


class GraphRegion:
    """A callee that is a graph: its input and capture nodes are the arguments of the call.

    Regions are equal if their keys are; the graph may grow by derivatives, which changes no key.

    Attributes:
        name: Name for dumps and error messages.
        graph: Graph of the body.
        inputs: Nodes of the body for the arguments, in the order of the call.
        roots: Nodes of the body that it computes.
        form: Integers that distinguish regions of one class with equal bodies.
        key: Structural key.
    """

    __slots__ = ("form", "graph", "inputs", "key", "name", "roots")

    def __init__(
        self, name: str, graph: Graph, inputs: Sequence[int], roots: Sequence[int], *form: int
    ) -> None:
        self.name = name
        self.graph = graph
        self.inputs = tuple(inputs)
        self.roots = tuple(roots)
        self.form = form
        places = [graph.keys[node] for node in self.inputs]
        kind = text_key(type(self).__name__)
        self.key = mix(kind, *form, len(places), *places, graph.key(self.roots))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def argument_count(self) -> int:
        """Number of arguments."""
        return len(self.inputs)

    def evaluate_roots(self, roots: Sequence[int], values: dict[int, Any]) -> list[Any]:
        """Compute some nodes of the body on floats or on arrays of one float per case.

        Args:
            roots: The nodes to compute.
            values: Value of each input node.

        Returns:
            Their values, at full size.
        """
        graph = self.graph
        places = {(graph.ops[node], graph.payloads[node]): v for node, v in values.items()}
        batch = np.broadcast_shapes(*[np.shape(value) for value in values.values()])
        found = evaluate_graph(graph, roots, lambda op, place: places[op, place], batch)
        return [np.broadcast_to(value, batch) if batch else value for value in found]


def as_value(graph: Graph, node: int) -> Any:
    """Return a node as a traced value, a constant as a float: it stays open to folding."""
    constant = graph.constant_of(node)
    return Value(graph, node) if constant is None else constant


def float_node(graph: Graph, leaf: Any) -> int:
    """Return the node of a scalar or traced value; bools count as 0 and 1."""
    node = node_of(graph, leaf)
    if node is None:
        raise TraceError(f"expected a number or a traced value, got {type(leaf).__name__}")
    return graph.to_float(node)


def trace_body(
    parent: Graph | None, inputs: Sequence[int], body: Callable[..., Any]
) -> tuple[Graph, list[list[Any]], Any]:
    """Run a function on fresh traced values inside a graph of its own.

    Args:
        parent: The graph around it, from which values may be captured.
        inputs: How many values each argument has; input nodes are (argument, element).
        body: Takes one list of traced values per argument.

    Returns:
        The graph, the arguments, and the function's result.
    """
    graph = Graph(parent)
    arguments: list[list[Any]] = [
        [Value(graph, graph.input(argument, element)) for element in range(size)]
        for argument, size in enumerate(inputs)
    ]
    with recording(graph):
        result = body(*arguments)
    return graph, arguments, result


def capture_nodes(graph: Graph) -> list[int]:
    """Return the nodes of captured values, in the order of `graph.captures`."""
    return [graph.node("capture", (), place, place + 1) for place in range(len(graph.captures))]


def fresh_argument(graph: Graph, inputs: Sequence[int]) -> int:
    """Return an argument index that no input of a region has, the same for equal regions."""
    numbers = [graph.payloads[node][0] for node in inputs if graph.ops[node] == "input"]
    return max(numbers, default=-1) + 1


def constants_of(graph: Graph, nodes: Sequence[int]) -> list[float] | None:
    """Return the values of constant nodes, None if any is not constant."""
    values = [graph.constant_of(node) for node in nodes]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None
