"""Reverse mode: how much each of many nodes contributes to the change of a few.

One sweep from results to inputs gives the derivative by every input at once. As in forward mode,
the adjoints are nodes of the same graph and share what the values already compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiburon.trace.derivative_rules import RULES, differentiable_arguments
from tiburon.trace.forward import differentiable
from tiburon.trace.graph import Graph

__all__ = ["pull_back"]


def pull_back(
    graph: Graph,
    roots: Sequence[int],
    adjoints: Sequence[int],
    leaves: Sequence[int],
    *,
    live: Sequence[int] | None = None,
) -> list[int]:
    """Add the adjoints of some nodes to a graph.

    Args:
        graph: The graph; nodes are added to it.
        roots: The nodes that are differentiated.
        adjoints: Weight node of each root.
        leaves: The nodes to differentiate by, usually inputs and captures.
        live: What the roots depend on, arguments first, if the caller has it already.

    Returns:
        For each leaf the node of its derivative: the sum over roots of weight times partial
        derivative; the constant 0 where no root depends on it.

    Raises:
        TraceError: If a callee on the way has no derivative rule.
    """
    order = graph.live(roots) if live is None else live
    active = active_nodes(graph, order, leaves)
    stops = set(leaves)
    gathered: dict[int, int] = {}
    results_of: dict[int, dict[int, int]] = {}

    def give(node: int, part: int) -> None:
        if node in active and graph.constant_of(part) != 0.0:
            known = gathered.get(node)
            gathered[node] = part if known is None else graph.add(known, part)

    for root, weight in zip(roots, adjoints, strict=True):
        give(root, weight)
    for node in reversed(order):
        op, args = graph.ops[node], graph.args[node]
        if op == "call" and node in results_of and node not in stops:
            for argument, part in zip(
                args, _call_adjoints(graph, node, results_of[node]), strict=True
            ):
                give(argument, part)
            continue
        weight_here = gathered.get(node)
        if weight_here is None or node in stops:
            continue
        if op == "result":
            results_of.setdefault(args[0], {})[graph.payloads[node]] = weight_here
            continue
        if op == "div" and args[0] in active and args[1] in active:
            # the weight is divided once, for numerator and divisor alike
            share = graph.div(weight_here, args[1])
            give(args[0], share)
            give(args[1], graph.neg(graph.mul(node, share)))
            continue
        for argument, rule in zip(args, RULES[op], strict=True):
            if rule is not None and argument in active:
                give(argument, rule(graph, node, weight_here))
    zero = graph.const(0.0)
    return [gathered.get(leaf, zero) for leaf in leaves]


def active_nodes(graph: Graph, order: Iterable[int], leaves: Iterable[int]) -> set[int]:
    """Return the nodes, out of an ordered selection, that change when the leaves change."""
    active = set(leaves)
    for node in order:
        if any(a in active for a in differentiable_arguments(graph, node)):
            active.add(node)
    return active


def _call_adjoints(graph: Graph, node: int, weights: dict[int, int]) -> list[int]:
    callee, args = graph.payloads[node], list(graph.args[node])
    zero = graph.const(0.0)
    results = graph.call(callee, args)
    given = [weights.get(place, zero) for place in range(len(results))]
    return differentiable(callee).adjoint(graph, args, results, given)
