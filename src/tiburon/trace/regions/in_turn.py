"""One function for several sets of arguments, one after the other: code does not grow with them.

A loop calls the function. Sets share what they have in common, such as the pose of a shape that
meets many others: all values are in one array, and a table of places tells where those of each call
begin. Calls that have nothing to do (`where_needed`) cost little more than reading that table.
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
    GraphRegion,
    as_value,
    call_region,
    capture_nodes,
    float_node,
    fresh_argument,
    trace_body,
)
from tiburon.trace.structure import flatten, rebuild

Column = tuple[int, ...]
"""Something of one input for each call."""


class CallsInTurn(GraphRegion):
    """A function that a loop calls.

    Arguments are those that all calls share, then the array that the others are read from. Results
    are those of the first call, then of the second, ...

    Attributes:
        calls: Number of calls.
        shared: Number of inputs, the first ones, that all calls share.
        size: Size of the array.
        runs: Groups of consecutive other inputs that lie beside each other in the array: how many
            they are, and the place of the first for each call.
    """

    __slots__ = ("calls", "runs", "shared", "size")

    def __init__(
        self,
        name: str,
        graph: Graph,
        calls: int,
        shared: Sequence[int],
        own: Sequence[int],
        size: int,
        runs: Sequence[tuple[int, Column]],
        roots: Sequence[int],
    ) -> None:
        form = [calls, len(shared), size, *(x for n, places in runs for x in (n, *places))]
        super().__init__(name, graph, [*shared, *own], roots, *form)
        self.calls, self.shared, self.size = calls, len(shared), size
        self.runs = tuple(runs)

    @property
    def argument_count(self) -> int:
        """Number of arguments."""
        return self.shared + self.size

    @property
    def result_count(self) -> int:
        """Number of results."""
        return self.calls * len(self.roots)

    def places(self) -> list[Column]:
        """Return the place among the arguments of each input that is not shared, by calls."""
        return [
            tuple(self.shared + first + k for first in firsts)
            for count, firsts in self.runs
            for k in range(count)
        ]

    def argument_sets(self, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the arguments of each call."""
        places = self.places()
        same = tuple(arguments[: self.shared])
        return [(*same, *(arguments[x[k]] for x in places)) for k in range(self.calls)]

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute the results on floats or on arrays of one float per case."""
        found: list[Any] = []
        for given in self.argument_sets(arguments):
            found += self.evaluate_roots(self.roots, dict(zip(self.inputs, given, strict=True)))
        return found

    def count(self) -> OperationCount:
        """Count the operations of all calls."""
        return count_graph(self.graph, self.roots) * self.calls

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of the results: the derived function, called as often."""
        given = list(zip(*self.argument_sets(args), strict=True))
        moved = list(zip(*self.argument_sets(tangents), strict=True))
        inner, argument = self.graph, fresh_argument(self.graph, self.inputs)
        seeds = {
            node: inner.input(argument, place)
            for place, (node, column) in enumerate(zip(self.inputs, moved, strict=True))
            if any(graph.constant_of(x) != 0.0 for x in column)
        }
        columns = dict(zip(self.inputs, given, strict=True))
        columns.update((seeds[x], y) for x, y in zip(self.inputs, moved, strict=True) if x in seeds)
        roots = push_forward(inner, self.roots, seeds)
        return _call_in_turn(graph, f"{self.name}_tangent", inner, self.calls, columns, roots)

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of the arguments, summed over the calls that read them."""
        inner, argument = self.graph, fresh_argument(self.graph, self.inputs)
        width = len(self.roots)
        columns: dict[int, Column] = dict(
            zip(self.inputs, zip(*self.argument_sets(args), strict=True), strict=True)
        )
        seeds: dict[int, int] = {}
        for place, root in enumerate(self.roots):
            column = tuple(adjoints[place::width])
            if any(graph.constant_of(x) != 0.0 for x in column):
                seeds[root] = inner.input(argument, place)
                columns[seeds[root]] = column
        roots = pull_back(inner, list(seeds), list(seeds.values()), self.inputs)
        name = f"{self.name}_adjoint"
        found = _call_in_turn(graph, name, inner, self.calls, columns, roots)
        sums = [graph.const(0.0)] * len(args)
        numbers = self.argument_sets(range(len(args)))
        for k, into in enumerate(numbers):
            for place, part in zip(into, found[k * len(roots) : (k + 1) * len(roots)], strict=True):
                sums[place] = graph.add(sums[place], part)
        return sums


def _call_in_turn(
    graph: Graph,
    name: str,
    inner: Graph,
    calls: int,
    columns: dict[int, Column],
    roots: Sequence[int],
) -> Nodes:
    """Call some nodes of another graph as a function, for several sets of arguments.

    Args:
        graph: Receives the call.
        name: Name of the function.
        inner: Graph of the body.
        calls: Number of calls.
        columns: Nodes of `graph` for each input of the body, one per call.
        roots: Nodes of the body to compute.

    Returns:
        Nodes of `graph`, those of all roots of the first call, then of the second, ...
    """
    found: dict[int, Sequence[int]] = {}
    for root in roots:
        constant = inner.constant_of(root)
        if constant is not None:
            found[root] = (graph.const(constant),) * calls
        elif root in columns:
            found[root] = columns[root]
    wanted = [root for root in dict.fromkeys(roots) if root not in found]
    if wanted:
        live = set(inner.live(wanted))
        read = [node for node in columns if node in live]
        shared = [node for node in read if len(set(columns[node])) == 1]
        own = [node for node in read if len(set(columns[node])) > 1]
        values, runs = _arranged([columns[node] for node in own])
        region = CallsInTurn(name, inner, calls, shared, own, len(values), runs, wanted)
        arguments = [*(columns[node][0] for node in shared), *values]
        results = call_region(graph, region, arguments)
        for place, root in enumerate(wanted):
            found[root] = results[place :: len(wanted)]
    return [found[root][k] for k in range(calls) for root in roots]


def _arranged(columns: Sequence[Column]) -> tuple[Nodes, list[tuple[int, Column]]]:
    """Arrange arguments in one array, what several calls share once; see `CallsInTurn.runs`."""
    groups: list[tuple[list[Column], Column]] = []
    for column in columns:
        if groups:
            together, pattern = groups[-1]
            # calls that share all before share this one, too
            same = dict(zip(pattern, column, strict=True))
            if all(same[which] == value for which, value in zip(pattern, column, strict=True)):
                together.append(column)
                continue
        numbers: dict[int, int] = {}
        groups.append(([column], tuple(numbers.setdefault(x, len(numbers)) for x in column)))
    values: Nodes = []
    runs = []
    for together, pattern in groups:
        firsts: dict[int, int] = {}
        for which, row in zip(pattern, zip(*together, strict=True), strict=True):
            if which not in firsts:
                firsts[which] = len(values)
                values += row
        runs.append((len(together), tuple(firsts[which] for which in pattern)))
    return values, runs


def in_turn(call: Callable[..., Any], arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """Call a function for several sets of arguments, by a loop in machine code.

    Outside of a trace the function runs directly, on floats.

    Args:
        call: Takes and returns scalars, arrays, and tuples, lists, dicts or dataclasses of them. It
            may capture traced values, and must depend only on these and its arguments.
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
    name = getattr(call, "__name__", "in_turn")
    for place, (_, other) in enumerate(taken):
        if other != structure:
            raise TraceError(
                f"in_turn: set {place} of the arguments of {name} has another structure than set "
                f"0: expected {structure}, got {other}; keep shapes, keys and the order of parts",
                function="in_turn",
            )
    given = [
        tuple(float_node(graph, x) for x in column)
        for column in zip(*(leaves for leaves, _ in taken), strict=True)
    ]
    calls = len(taken)

    def body(inputs: list[Any]) -> Any:
        # what all calls share stays outside, where it folds and is computed once
        leaves = [
            as_value(graph, column[0]) if len(set(column)) == 1 else value
            for value, column in zip(inputs, given, strict=True)
        ]
        own, _ = rebuild(structure, iter(leaves))
        return flatten(call(*own))

    inner, (leaves,), (results, after) = trace_body(graph, (len(given),), body)
    # a result may itself be a captured value, so captures are complete only after the roots
    roots = [float_node(inner, leaf) for leaf in results]
    columns: dict[int, Column] = {
        value.node: column for value, column in zip(leaves, given, strict=True)
    }
    around = zip(capture_nodes(inner), inner.captures, strict=True)
    columns.update((node, (outer,) * calls) for node, outer in around)
    found = _call_in_turn(
        graph, name if name.isidentifier() else "in_turn", inner, calls, columns, roots
    )
    width = len(roots)
    return [
        rebuild(after, (as_value(graph, node) for node in found[k * width : (k + 1) * width]))
        for k in range(calls)
    ]
