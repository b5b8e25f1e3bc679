"""Reverse mode: how much each of many nodes contributes to the change of a few.

One sweep from results to inputs gives the derivative by every input at once. As in forward mode,
the adjoints are nodes of the same graph and share what the values already compute.

Below a selection, adjoints carry the condition under which they count, and are chosen against 0
only where paths with different conditions meet or a leaf is reached. A branch that is not taken
then cannot do harm, even where its slope is infinite, and costs no choices inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiburon.trace.derivative_rules import (
    RULES,
    SELECTIONS,
    chooses_first,
    differentiable_arguments,
)
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
    sweep = _Sweep(graph, order, leaves)
    for root, weight in zip(roots, adjoints, strict=True):
        sweep.give(root, graph.truth(True), weight)
    stops = set(leaves)
    for node in reversed(order):
        if node not in stops:
            sweep.visit(node)
    return [sweep.total(leaf) for leaf in leaves]


def active_nodes(graph: Graph, order: Iterable[int], leaves: Iterable[int]) -> set[int]:
    """Return the nodes, out of an ordered selection, that change when the leaves change."""
    active = set(leaves)
    for node in order:
        if any(a in active for a in differentiable_arguments(graph, node)):
            active.add(node)
    return active


class _Sweep:
    """What has been gathered on the way down: for each node, weights by their condition."""

    def __init__(self, graph: Graph, order: Iterable[int], leaves: Iterable[int]) -> None:
        self.graph = graph
        self.active = active_nodes(graph, order, leaves)
        self.gathered: dict[int, dict[int, int]] = {}
        self.results: dict[int, dict[int, tuple[int, int]]] = {}

    def give(self, node: int, condition: int, part: int) -> None:
        """Add to what a node has gathered under a condition."""
        if node in self.active and self.graph.constant_of(part) != 0.0:
            groups = self.gathered.setdefault(node, {})
            known = groups.get(condition)
            groups[condition] = part if known is None else self.graph.add(known, part)

    def total(self, node: int) -> int:
        """Return all a node has gathered, chosen against 0 where it does not count."""
        graph = self.graph
        zero = graph.const(0.0)
        groups = dict(self.gathered.get(node, {}))
        total = zero
        while groups:
            condition, part = groups.popitem()
            # the two sides of one condition need one choice, not two
            other = groups.pop(graph.not_(condition), zero)
            total = graph.add(total, graph.where(condition, part, other))
        return total

    def visit(self, node: int) -> None:
        """Pass on to its arguments what a node has gathered."""
        graph = self.graph
        op, args = graph.ops[node], graph.args[node]
        if op == "call":
            self._visit_call(node)
            return
        groups = self.gathered.get(node)
        if groups is None:
            return
        if len(groups) == 1:
            ((condition, weight),) = groups.items()
        else:
            condition, weight = graph.truth(True), self.total(node)
        if op == "result":
            place = graph.payloads[node]
            self.results.setdefault(args[0], {})[place] = (condition, weight)
        elif op in SELECTIONS:
            first = chooses_first(graph, node)
            self.give(args[-2], graph.and_(condition, first), weight)
            self.give(args[-1], graph.and_(condition, graph.not_(first)), weight)
        elif op == "div" and args[0] in self.active and args[1] in self.active:
            # the weight is divided once, for numerator and divisor alike
            share = graph.div(weight, args[1])
            self.give(args[0], condition, share)
            self.give(args[1], condition, graph.neg(graph.mul(node, share)))
        else:
            for argument, rule in zip(args, RULES[op], strict=True):
                if rule is not None and argument in self.active:
                    self.give(argument, condition, rule(graph, node, weight))

    def _visit_call(self, node: int) -> None:
        given = self.results.get(node)
        if given is None:
            return
        graph = self.graph
        callee, args = graph.payloads[node], list(graph.args[node])
        zero = graph.const(0.0)
        conditions = {condition for condition, _ in given.values()}
        shared = conditions.pop() if len(conditions) == 1 else None
        weights = {
            place: weight if shared is not None else graph.where(condition, weight, zero)
            for place, (condition, weight) in given.items()
        }
        results = graph.call(callee, args)
        adjoints = [weights.get(place, zero) for place in range(len(results))]
        parts = differentiable(callee).adjoint(graph, args, results, adjoints)
        condition = graph.truth(True) if shared is None else shared
        for argument, part in zip(args, parts, strict=True):
            self.give(argument, condition, part)
