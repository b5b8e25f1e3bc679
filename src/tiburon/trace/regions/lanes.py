"""One function for several sets of arguments at once: points of a block, arms, legs.

Machine code for a single case computes the calls of such a region in the lanes of vector registers.
In a batch the lanes hold cases, and the calls run one after another. Every operation rounds the
same way in both, so the bits are those of separate calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiburon.errors import TraceError
from tiburon.trace.count import OperationCount, count_graph
from tiburon.trace.differentiation import pull_back, push_forward
from tiburon.trace.graph import Graph, Nodes
from tiburon.trace.program import current_graph
from tiburon.trace.regions import (
    FunctionRegion,
    GraphRegion,
    as_value,
    call_function,
    call_region,
    capture_nodes,
    float_node,
    fresh_argument,
    trace_body,
)
from tiburon.trace.structure import Structure, flatten, rebuild
from tiburon.trace.value import Value

Column = tuple[int, ...]
"""Nodes of one argument or result, one for each call."""


class LanesRegion(GraphRegion):
    """A function called several times at once.

    Arguments are those that all calls share, then the others, each with one value per call. Results
    are the roots, each with one value per call.

    Attributes:
        calls: Number of calls.
        shared: Number of inputs, the first ones, that all calls share.
    """

    __slots__ = ("calls", "shared")

    def __init__(
        self,
        name: str,
        graph: Graph,
        calls: int,
        shared: Sequence[int],
        own: Sequence[int],
        roots: Sequence[int],
    ) -> None:
        super().__init__(name, graph, [*shared, *own], roots, calls, len(shared))
        self.calls = calls
        self.shared = len(shared)

    @property
    def body(self) -> FunctionRegion:
        """The function that is called."""
        return FunctionRegion(self.name, self.graph, self.inputs, self.roots)

    @property
    def argument_count(self) -> int:
        """Number of arguments."""
        return self.shared + self.calls * (len(self.inputs) - self.shared)

    @property
    def result_count(self) -> int:
        """Number of results."""
        return self.calls * len(self.roots)

    def columns(self, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the values of each input, one for each call."""
        repeated = [(value,) * self.calls for value in arguments[: self.shared]]
        return repeated + in_columns(arguments[self.shared :], self.calls)

    def argument_sets(self, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the arguments of each call."""
        return list(zip(*self.columns(arguments), strict=True))

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute the results on floats or on arrays of one float per case."""
        found = [
            self.evaluate_roots(self.roots, dict(zip(self.inputs, given, strict=True)))
            for given in self.argument_sets(arguments)
        ]
        return [value for column in zip(*found, strict=True) for value in column]

    def count(self) -> OperationCount:
        """Count the operations of all calls."""
        return count_graph(self.graph, self.roots) * self.calls

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of the results: the derived function, called as often."""
        inner = self.graph
        seeds, given = self._seeds(graph, self.inputs, self.columns(tangents))
        roots = push_forward(inner, self.roots, seeds)
        found = _call_lanes(
            graph,
            f"{self.name}_tangent",
            inner,
            self.calls,
            [*self.inputs, *seeds.values()],
            roots,
            [*self.columns(args), *given],
        )
        return [node for column in found for node in column]

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of the arguments; those of shared ones are summed over the calls."""
        inner = self.graph
        seeds, given = self._seeds(graph, self.roots, in_columns(adjoints, self.calls))
        roots = pull_back(inner, list(seeds), list(seeds.values()), self.inputs)
        found = _call_lanes(
            graph,
            f"{self.name}_adjoint",
            inner,
            self.calls,
            [*self.inputs, *seeds.values()],
            roots,
            [*self.columns(args), *given],
        )
        sums = []
        for column in found[: self.shared]:
            total = column[0]
            for part in column[1:]:
                total = graph.add(total, part)
            sums.append(total)
        return [*sums, *(node for column in found[self.shared :] for node in column)]

    def _seeds(
        self, graph: Graph, nodes: Sequence[int], given: Sequence[Column]
    ) -> tuple[dict[int, int], list[Column]]:
        """Make an input for each derivative that is not zero in all calls."""
        argument = fresh_argument(self.graph, self.inputs)
        seeds: dict[int, int] = {}
        columns = []
        for place, (node, column) in enumerate(zip(nodes, given, strict=True)):
            if any(graph.constant_of(derivative) != 0.0 for derivative in column):
                seeds[node] = self.graph.input(argument, place)
                columns.append(column)
        return seeds, columns


def in_columns(values: Sequence[Any], calls: int) -> list[tuple[Any, ...]]:
    """Return values, of which each call has one in turn, as one tuple for each argument."""
    return [tuple(values[k : k + calls]) for k in range(0, len(values), calls)]


def _call_lanes(
    graph: Graph,
    name: str,
    inner: Graph,
    calls: int,
    inputs: Sequence[int],
    roots: Sequence[int],
    columns: Sequence[Column],
) -> list[Column]:
    """Call some nodes of another graph as a function, for several sets of arguments.

    Args:
        graph: Receives the call.
        name: Name of the function.
        inner: Graph of the body.
        calls: Number of calls.
        inputs: Nodes of the body for the arguments.
        roots: Nodes of the body to compute.
        columns: Nodes of `graph` for each input, one per call.

    Returns:
        Nodes of `graph` for each root, one per call.
    """
    same = {node for node, column in zip(inputs, columns, strict=True) if len(set(column)) == 1}
    if len(same) == len(inputs):
        once = [column[0] for column in columns]
        return [(x,) * calls for x in call_function(graph, name, inner, inputs, roots, once)]
    passed = dict(zip(inputs, columns, strict=True))
    found = dict(passed)
    for root in roots:
        constant = inner.constant_of(root)
        if constant is not None:
            found[root] = (graph.const(constant),) * calls
    wanted = [root for root in dict.fromkeys(roots) if root not in found]
    called = _only_call(inner, wanted)
    if called is not None and all(a in passed for a in inner.args[called]):
        # a function that only calls another
        region = inner.payloads[called]
        nodes = [region.roots[inner.payloads[root]] for root in wanted]
        given = [passed[a] for a in inner.args[called]]
        inside = _call_lanes(graph, region.name, region.graph, calls, region.inputs, nodes, given)
        found.update(zip(wanted, inside, strict=True))
    elif wanted:
        live = set(inner.live(wanted))
        shared = [node for node in inputs if node in live and node in same]
        own = [node for node in inputs if node in live and node not in same]
        called_in_lanes = LanesRegion(name, inner, calls, shared, own, wanted)
        arguments = [passed[node][0] for node in shared]
        arguments += [argument for node in own for argument in passed[node]]
        results = call_region(graph, called_in_lanes, arguments)
        found.update(zip(wanted, in_columns(results, calls), strict=True))
    return [found[root] for root in roots]


def _only_call(graph: Graph, roots: Sequence[int]) -> int | None:
    """Return the call of a function whose results are all that is wanted, None if there is none."""
    nodes = {graph.args[root] if graph.ops[root] == "result" else () for root in roots}
    if len(nodes) != 1 or nodes == {()}:
        return None
    ((call,),) = nodes
    return call if isinstance(graph.payloads[call], FunctionRegion) else None


def lanes(call: Callable[..., Any], arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """Call a function for several sets of arguments in one go.

    Kernels for a single case compute the calls side by side, in the lanes of vectors; a batch
    computes them one after another, with the same bits. Outside of a trace the function runs
    directly, on floats.

    Args:
        call: Takes and returns scalars, arrays, and tuples, lists, dicts or dataclasses of them. It
            may capture traced values, and must depend only on these and its arguments. A region
            (`function`) has the bits of its single calls.
        arguments: Positional arguments of each call. Numbers may differ between calls; structures,
            and objects that are no numbers, may not.

    Returns:
        What the function returns for each set.

    Raises:
        TraceError: If the structures of two sets differ.
    """
    graph = current_graph()
    if graph is None or len(arguments) < 2:
        return [call(*given) for given in arguments]
    taken = [flatten((tuple(given), {})) for given in arguments]
    structure = taken[0][1]
    name = getattr(call, "__name__", "lanes")
    for place, (_, other) in enumerate(taken):
        if other != structure:
            raise TraceError(
                f"lanes: set {place} of the arguments of {name} has another structure than set 0: "
                f"expected {structure}, got {other}; keep shapes, keys and the order of parts",
                function="lanes",
            )
    sets = [leaves for leaves, _ in taken]
    if hasattr(call, "traced"):
        return _region_in_lanes(graph, call, name, sets, structure)

    def body(lift: Lift) -> Any:
        leaves = [lift(column) for column in zip(*sets, strict=True)]
        given, _ = rebuild(structure, iter(leaves))
        return call(*given)

    return in_lanes(len(sets), body, name=name)


def _region_in_lanes(
    graph: Graph, call: Any, name: str, sets: Sequence[Sequence[Any]], structure: Structure
) -> list[Any]:
    """Call a region (`tiburon.trace.regions.function`) in lanes: the bits of its single calls."""
    calls = len(sets)
    traced, captures = call.traced(graph, len(sets[0]), structure)
    columns = [tuple(float_node(graph, x) for x in column) for column in zip(*sets, strict=True)]
    found = _call_lanes(
        graph,
        name,
        traced.graph,
        calls,
        traced.inputs,
        traced.roots,
        [*columns, *((node,) * calls for node in captures)],
    )
    return [
        rebuild(traced.structure, (as_value(graph, column[k]) for column in found))
        for k in range(calls)
    ]


def _recording_graph() -> Graph:
    graph = current_graph()
    if graph is None:
        raise TraceError("in_lanes: there is no trace to record calls in", function="in_lanes")
    return graph


Lift = Callable[[Sequence[Any]], Any]
"""Takes a scalar of each call, returns a scalar that stands for all of them."""


def in_lanes(calls: int, body: Callable[[Lift], Any], *, name: str = "lanes") -> list[Any]:
    """Call a function several times at once; its arguments are found while it is traced.

    Args:
        calls: Number of calls.
        body: Traced once. Takes a function that turns scalars, one per call, into one that stands
            for all of them; returns what one call returns.
        name: Name of the function.

    Returns:
        What each call returns.
    """
    graph = _recording_graph()
    inputs: dict[Column, int] = {}

    def run() -> Any:
        inner = _recording_graph()

        def lift(values: Sequence[Any]) -> Any:
            column = tuple(float_node(graph, value) for value in values)
            if len(set(column)) == 1:
                # what all calls share stays outside, where it folds and is computed once
                return as_value(graph, column[0])
            if column not in inputs:
                inputs[column] = inner.input(0, len(inputs))
            return Value(inner, inputs[column])

        return flatten(body(lift))

    inner, _, (results, after) = trace_body(graph, (), run)
    # a result may itself be a captured value, so captures are complete only after the roots
    roots = [float_node(inner, leaf) for leaf in results]
    captured = [(node,) * calls for node in inner.captures]
    found = _call_lanes(
        graph,
        name if name.isidentifier() else "lanes",
        inner,
        calls,
        [*inputs.values(), *capture_nodes(inner)],
        roots,
        [*inputs, *captured],
    )
    return [rebuild(after, (as_value(graph, column[k]) for column in found)) for k in range(calls)]
