"""Nodes of one graph written into another, with other nodes in place of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tiburon.trace.graph import Graph

__all__ = ["splice"]

_COMPARISONS = ("less", "less_equal", "equal")
_METHODS: dict[str, Callable[..., int]] = {
    "neg": Graph.neg,
    "add": Graph.add,
    "sub": Graph.sub,
    "mul": Graph.mul,
    "div": Graph.div,
    "pow": Graph.pow,
    "not": Graph.not_,
    "and": Graph.and_,
    "or": Graph.or_,
    "where": Graph.where,
}


def splice(
    graph: Graph, inner: Graph, roots: Sequence[int], inputs: Mapping[tuple[int, int], int]
) -> list[int]:
    """Write what some nodes compute into another graph; folding starts anew there.

    Args:
        graph: Where nodes are added.
        inner: Graph of the nodes; it captures nothing.
        roots: The nodes wanted.
        inputs: Node of `graph` for each input of `inner`, by argument and element.

    Returns:
        Nodes of `graph`, one for each root.
    """
    placed: dict[int, int] = {}
    calls: dict[int, list[int]] = {}
    for node in inner.live(roots):
        op, payload = inner.ops[node], inner.payloads[node]
        if op == "result":
            placed[node] = calls[inner.args[node][0]][payload]
            continue
        args = [placed[a] for a in inner.args[node]]
        if op == "input":
            placed[node] = inputs[payload]
        elif op == "const":
            placed[node] = graph.const(payload)
        elif op == "truth":
            placed[node] = graph.truth(payload)
        elif op == "call":
            calls[node] = graph.call(payload, args)
            # never read: results stand for a call
            placed[node] = -1
        elif op == "require":
            condition, value = args
            placed[node] = graph.require(condition, value, payload)
        elif op in _METHODS:
            placed[node] = _METHODS[op](graph, *args)
        elif op in _COMPARISONS:
            placed[node] = graph.compare(op, *args)
        elif len(args) == 1:
            placed[node] = graph.unary(op, *args)
        else:
            placed[node] = graph.binary(op, *args)
    return [placed[root] for root in roots]
