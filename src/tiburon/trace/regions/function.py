"""`function`: a part of a computation that is traced once, compiled once and called many times."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tiburon.trace.count import OperationCount, count_graph
from tiburon.trace.differentiation import pull_back, push_forward
from tiburon.trace.graph import Graph
from tiburon.trace.program import current_graph
from tiburon.trace.regions.region import (
    GraphRegion,
    as_value,
    capture_nodes,
    constants_of,
    float_node,
    fresh_argument,
    trace_body,
)
from tiburon.trace.structure import Structure, flatten, rebuild
from tiburon.trace.value import Value

__all__ = ["FunctionRegion", "call_function", "function"]


class FunctionRegion(GraphRegion):
    """A graph that is called: one result for each root."""

    __slots__ = ()

    @property
    def result_count(self) -> int:
        """Number of results."""
        return len(self.roots)

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute the results on floats or on arrays of one float per case."""
        return self.evaluate_roots(self.roots, dict(zip(self.inputs, arguments, strict=True)))

    def count(self) -> OperationCount:
        """Count the operations of one call."""
        return count_graph(self.graph, self.roots)

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the tangents of the results: one call of the derived function."""
        inner, seeds, arguments = self._seeds(graph, self.inputs, tangents)
        roots = push_forward(inner, self.roots, seeds)
        inputs = [*self.inputs, *seeds.values()]
        return call_function(
            graph, f"{self.name}_tangent", inner, inputs, roots, [*args, *arguments]
        )

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoints of the arguments: one call of the derived function."""
        inner, seeds, arguments = self._seeds(graph, self.roots, adjoints)
        roots = pull_back(inner, list(seeds), list(seeds.values()), self.inputs)
        inputs = [*self.inputs, *seeds.values()]
        return call_function(
            graph, f"{self.name}_adjoint", inner, inputs, roots, [*args, *arguments]
        )

    def _seeds(
        self, graph: Graph, nodes: Sequence[int], given: list[int]
    ) -> tuple[Graph, dict[int, int], list[int]]:
        """Make an input for each derivative that is not zero."""
        inner, argument = self.graph, fresh_argument(self.graph, self.inputs)
        seeds: dict[int, int] = {}
        arguments = []
        for place, (node, derivative) in enumerate(zip(nodes, given, strict=True)):
            if graph.constant_of(derivative) != 0.0:
                seeds[node] = inner.input(argument, place)
                arguments.append(derivative)
        return inner, seeds, arguments


def call_function(
    graph: Graph,
    name: str,
    inner: Graph,
    inputs: Sequence[int],
    roots: Sequence[int],
    arguments: Sequence[int],
) -> list[int]:
    """Call some nodes of another graph as a function.

    Constant results, results that are arguments, unused arguments and functions of constants need
    no call.

    Args:
        graph: Receives the call.
        name: Name of the function.
        inner: Graph of the body.
        inputs: Nodes of the body for the arguments.
        roots: Nodes of the body to compute.
        arguments: Nodes of `graph`, one for each input.

    Returns:
        Nodes of `graph`, one for each root.
    """
    passed = dict(zip(inputs, arguments, strict=True))
    wanted = [
        root
        for root in dict.fromkeys(roots)
        if root not in passed and inner.constant_of(root) is None
    ]
    found = dict(passed)
    if wanted:
        live = set(inner.live(wanted))
        kept = [node for node in inputs if node in live]
        region = FunctionRegion(name, inner, kept, wanted)
        given = [passed[node] for node in kept]
        constants = constants_of(graph, given)
        if constants is not None:
            results = [graph.const(float(value)) for value in region.evaluate(list(constants))]
        else:
            results = graph.call(region, given)
        found.update(zip(wanted, results, strict=True))
    for root in roots:
        constant = inner.constant_of(root)
        if constant is not None:
            found[root] = graph.const(constant)
    return [found[root] for root in roots]


class _Traced:
    """The region of a function for one structure of arguments in one graph."""

    def __init__(
        self, graph: Graph, call: Callable[..., Any], size: int, structure: Structure
    ) -> None:
        def body(leaves: list[Any]) -> Any:
            args, kwargs = rebuild(structure, iter(leaves))
            return flatten(call(*args, **kwargs))

        self.graph, (leaves,), (results, self.structure) = trace_body(graph, (size,), body)
        # a result may itself be a captured value, so captures are complete only after the roots
        self.roots = [float_node(self.graph, leaf) for leaf in results]
        self.inputs = [*(leaf.node for leaf in leaves), *capture_nodes(self.graph)]


def _traced_around(graph: Graph, key: Any) -> tuple[_Traced | None, Graph]:
    """Return a function traced in a graph or in one around it, and that graph."""
    around: Graph | None = graph
    while around is not None:
        if key in around.regions:
            return around.regions[key], around
        around = around.parent
    return None, graph


def function(call: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function into a region: traced once per structure of arguments, called many times.

    A Runge-Kutta step that calls its dynamics four times then contains them once: compile time and
    code size shrink fourfold. The function may capture traced values. Outside of a trace it runs
    directly, on floats.

    Args:
        call: Takes and returns scalars, arrays, and tuples, lists, dicts or dataclasses of them.
            Python integers, strings and other objects are fixed when it is traced. It must depend
            only on its arguments and captured values.

    Returns:
        A function with the same arguments and results.
    """

    @functools.wraps(call)
    def region(*args: Any, **kwargs: Any) -> Any:
        graph = current_graph()
        if graph is None:
            return call(*args, **kwargs)
        leaves, structure = flatten((args, kwargs))
        nodes = [float_node(graph, leaf) for leaf in leaves]
        traced, around = _traced_around(graph, (region, structure))
        if traced is None:
            traced = graph.regions[region, structure] = _Traced(graph, call, len(nodes), structure)
        name = getattr(call, "__name__", "function")
        captures = (float_node(graph, Value(around, node)) for node in traced.graph.captures)
        arguments = [*nodes, *captures]
        results = call_function(graph, name, traced.graph, traced.inputs, traced.roots, arguments)
        return rebuild(traced.structure, (as_value(graph, node) for node in results))

    return region
