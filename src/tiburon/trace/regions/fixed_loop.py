"""`fixed_loop`: a body that runs a known number of times, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiburon.errors import TraceError
from tiburon.trace.count import OperationCount, count_graph
from tiburon.trace.differentiation import push_forward
from tiburon.trace.graph import Graph
from tiburon.trace.program import current_graph
from tiburon.trace.regions.function import FunctionRegion, call_function
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

__all__ = ["FixedLoop", "check_state", "fixed_loop"]


class FixedLoop(GraphRegion):
    """A body that is repeated: arguments are the state, then the values it captures.

    Attributes:
        repetitions: How many times the body runs.
        index: Node of the body for the iteration index, from 0.
        states: Nodes of the body for the state; each root is an element of the next state.
    """

    __slots__ = ("index", "repetitions", "states")

    def __init__(
        self,
        name: str,
        graph: Graph,
        repetitions: int,
        index: int,
        states: Sequence[int],
        others: Sequence[int],
        roots: Sequence[int],
    ) -> None:
        super().__init__(
            name, graph, [*states, *others], roots, repetitions, graph.keys[index], len(states)
        )
        self.repetitions = repetitions
        self.index = index
        self.states = tuple(states)

    @property
    def others(self) -> tuple[int, ...]:
        """Nodes of the body that stay the same in all repetitions."""
        return self.inputs[len(self.states) :]

    @property
    def result_count(self) -> int:
        """Number of results."""
        return len(self.states)

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute the last state on floats or on arrays of one float per case."""
        values = dict(zip(self.inputs, arguments, strict=True))
        for repetition in range(self.repetitions):
            values[self.index] = float(repetition)
            values.update(zip(self.states, self.evaluate_roots(self.roots, values), strict=True))
        return [values[node] for node in self.states]

    def count(self) -> OperationCount:
        """Count the operations of all repetitions."""
        return count_graph(self.graph, self.roots) * self.repetitions

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the tangents of the last state: a loop over state and tangent side by side."""
        inner = self.graph
        argument = fresh_argument(inner, [self.index, *self.inputs])
        moving = {
            node: inner.input(argument, place)
            for place, node in enumerate(self.inputs)
            if graph.constant_of(tangents[place]) != 0.0
        }
        # a state may start to move in a later repetition: repeat until no further one does
        while True:
            changes = push_forward(inner, self.roots, moving)
            late = [
                place
                for place, node in enumerate(self.states)
                if node not in moving and inner.constant_of(changes[place]) != 0.0
            ]
            if not late:
                break
            moving.update({self.states[p]: inner.input(argument, p) for p in late})
        given = dict(zip(self.inputs, tangents, strict=True))
        given_args = dict(zip(self.inputs, args, strict=True))
        moved = [place for place, node in enumerate(self.states) if node in moving]
        found = call_fixed_loop(
            graph,
            f"{self.name}_tangent",
            inner,
            self.repetitions,
            self.index,
            [*self.states, *(moving[self.states[p]] for p in moved)],
            [*self.others, *(moving[node] for node in self.others if node in moving)],
            [*self.roots, *(changes[p] for p in moved)],
            [given_args[node] for node in self.states] + [given[self.states[p]] for p in moved],
            [given_args[node] for node in self.others]
            + [given[node] for node in self.others if node in moving],
        )
        zero = graph.const(0.0)
        last = dict(zip(moved, found[len(self.states) :], strict=True))
        return [last.get(place, zero) for place in range(len(self.states))]

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoints of the arguments: all states are computed, then gone back over."""
        inputs = [self.index, *self.inputs]
        roots = list(self.roots)
        others = args[len(self.states) :]
        states = [args[: len(self.states)]]
        for repetition in range(self.repetitions):
            given = [graph.const(float(repetition)), *states[-1], *others]
            states.append(call_function(graph, self.name, self.graph, inputs, roots, given))
        body = FunctionRegion(self.name, self.graph, inputs, roots)
        zero = graph.const(0.0)
        weights, gathered = list(adjoints), [zero] * len(others)
        for repetition in reversed(range(self.repetitions)):
            given = [graph.const(float(repetition)), *states[repetition], *others]
            parts = body.adjoint(graph, given, states[repetition + 1], weights)
            weights = parts[1 : 1 + len(self.states)]
            later = parts[1 + len(self.states) :]
            gathered = [graph.add(a, b) for a, b in zip(gathered, later, strict=True)]
        return [*weights, *gathered]


def call_fixed_loop(
    graph: Graph,
    name: str,
    inner: Graph,
    repetitions: int,
    index: int,
    states: Sequence[int],
    others: Sequence[int],
    roots: Sequence[int],
    first: Sequence[int],
    around: Sequence[int],
) -> list[int]:
    """Add a loop to a graph, without arguments that its body does not read.

    Args:
        graph: Where the call is added.
        name: Name of the loop.
        inner: Graph of the body.
        repetitions: How many times the body runs.
        index: Node of the body for the iteration index.
        states: Nodes of the body for the state.
        others: Nodes of the body that stay the same.
        roots: Nodes of the body for the next state.
        first: Nodes of `graph`: the state at the start.
        around: Nodes of `graph`: the values of `others`.

    Returns:
        Nodes of `graph`: the last state.
    """
    live = set(inner.live(roots))
    kept = [(node, given) for node, given in zip(others, around, strict=True) if node in live]
    loop = FixedLoop(name, inner, repetitions, index, states, [node for node, _ in kept], roots)
    arguments = [*first, *(given for _, given in kept)]
    constants = constants_of(graph, arguments)
    if constants is not None:
        return [graph.const(float(value)) for value in loop.evaluate(list(constants))]
    return graph.call(loop, arguments)


def check_state(name: str, before: Structure, after: Structure) -> None:
    """Refuse a body whose result cannot be the next state.

    Raises:
        TraceError: If the structures differ.
    """
    if before != after:
        raise TraceError(
            f"{name}: the body must return a state like the one it takes, expected {before}, "
            f"got {after}; keep shapes, keys and the order of parts",
            function=name,
        )


def fixed_loop(repetitions: int, body: Callable[[Any, Any], Any], state: Any) -> Any:
    """Run a body a known number of times.

    Args:
        repetitions: Number of iterations; a plain integer.
        body: Takes the iteration index (a float, from 0) and the state, and returns the next state.
            It may capture traced values.
        state: Initial state: scalars, arrays, and tuples, lists, dicts or dataclasses of them.

    Returns:
        The last state.

    Raises:
        TraceError: If the body returns a state of another structure.
    """
    graph = current_graph()
    if graph is None:
        for repetition in range(repetitions):
            state = body(float(repetition), state)
        return state
    if repetitions == 0:
        return state
    leaves, structure = flatten(state, numeric=True)
    first = [float_node(graph, leaf) for leaf in leaves]

    def step(values: list[Any], index: list[Any]) -> Any:
        return flatten(body(index[0], rebuild(structure, iter(values))), numeric=True)

    inner, (values, (index,)), (results, after) = trace_body(graph, (len(first), 1), step)
    check_state("fixed_loop", structure, after)
    roots = [float_node(inner, leaf) for leaf in results]
    others = capture_nodes(inner)
    states = [value.node for value in values]
    name = getattr(body, "__name__", "body")
    last = call_fixed_loop(
        graph,
        f"fixed_loop_{name}" if name.isidentifier() else "fixed_loop",
        inner,
        repetitions,
        index.node,
        states,
        others,
        roots,
        first,
        inner.captures,
    )
    return rebuild(structure, (as_value(graph, node) for node in last))
