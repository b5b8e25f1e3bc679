"""`for_each`: a body that is evaluated for every index of a range, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiburon.trace.count import OperationCount, count_graph
from tiburon.trace.graph import Graph
from tiburon.trace.program import current_graph
from tiburon.trace.regions.region import (
    GraphRegion,
    as_value,
    capture_nodes,
    float_node,
    trace_body,
)

__all__ = ["ForEach", "for_each"]


class ForEach(GraphRegion):
    """A body evaluated for each index: arguments are what it reads around it.

    Attributes:
        repetitions: How many times the body runs.
        index: Node of the body that stands for the index, from 0.
    """

    __slots__ = ("index", "repetitions")

    def __init__(
        self,
        name: str,
        graph: Graph,
        repetitions: int,
        index: int,
        inputs: Sequence[int],
        roots: Sequence[int],
    ) -> None:
        super().__init__(name, graph, inputs, roots, repetitions, graph.keys[index])
        self.repetitions = repetitions
        self.index = index

    @property
    def result_count(self) -> int:
        """Number of floats it gives: those of the first index, then of the second, ..."""
        return self.repetitions * len(self.roots)

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute all results on floats or on arrays of one float per case."""
        values = dict(zip(self.inputs, arguments, strict=True))
        found: list[Any] = []
        for repetition in range(self.repetitions):
            values[self.index] = float(repetition)
            found += self.evaluate_roots(self.roots, values)
        return found

    def count(self) -> OperationCount:
        """Count the operations of all repetitions."""
        return count_graph(self.graph, self.roots) * self.repetitions


def for_each(repetitions: int, body: Callable[[Any], Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Evaluate a body for each index of a range.

    Args:
        repetitions: How many times, 1 or more; a plain integer.
        body: Takes the index (a float, from 0), returns scalars, as many for each index. It may
            read traced values around it.

    Returns:
        What the body returned for each index.
    """
    graph = current_graph()
    if graph is None:
        return [tuple(body(float(k))) for k in range(repetitions)]
    inner, ((index,),), results = trace_body(graph, (1,), lambda index: list(body(index[0])))
    roots = [float_node(inner, leaf) for leaf in results]
    live = set(inner.live(roots))
    kept = [
        (node, outer)
        for node, outer in zip(capture_nodes(inner), inner.captures, strict=True)
        if node in live
    ]
    name = getattr(body, "__name__", "body")
    region = ForEach(
        f"for_each_{name}" if name.isidentifier() else "for_each",
        inner,
        repetitions,
        index.node,
        [node for node, _ in kept],
        roots,
    )
    found = graph.call(region, [outer for _, outer in kept])
    size = len(roots)
    values = [as_value(graph, node) for node in found]
    return [tuple(values[k * size : (k + 1) * size]) for k in range(repetitions)]
