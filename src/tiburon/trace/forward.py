"""Forward mode: how nodes change when others change in one direction.

The tangents are nodes of the same graph, so what the derivative has in common with the values
(sines, quotients, intermediate products) is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tiburon.errors import TraceError
from tiburon.trace.callee import DifferentiableCallee
from tiburon.trace.derivative_rules import RULES, SELECTIONS, chooses_first
from tiburon.trace.graph import Graph

__all__ = ["push_forward"]


def push_forward(
    graph: Graph,
    roots: Sequence[int],
    tangents: Mapping[int, int],
    *,
    live: Iterable[int] | None = None,
) -> list[int]:
    """Add the tangents of some nodes to a graph.

    Args:
        graph: The graph; nodes are added to it.
        roots: The nodes whose tangents are wanted.
        tangents: Tangent node of each node that changes, usually inputs and captures.
        live: What the roots depend on, arguments first, if the caller has it already.

    Returns:
        The tangent node of each root; the constant 0 where nothing changes.

    Raises:
        TraceError: If a callee on the way has no derivative rule.
    """
    moving = {node: t for node, t in tangents.items() if graph.constant_of(t) != 0.0}
    call_tangents: dict[int, list[int]] = {}
    for node in graph.live(roots) if live is None else live:
        if node in tangents:
            continue
        op, args = graph.ops[node], graph.args[node]
        if op == "result":
            results = call_tangents.get(args[0])
            tangent = None if results is None else results[graph.payloads[node]]
        elif not any(a in moving for a in args):
            continue
        elif op == "call":
            call_tangents[node] = _call_tangents(graph, node, moving)
            continue
        else:
            tangent = _tangent(graph, node, moving)
        if tangent is not None and graph.constant_of(tangent) != 0.0:
            moving[node] = tangent
    zero = graph.const(0.0)
    return [moving.get(root, zero) for root in roots]


def _tangent(graph: Graph, node: int, moving: Mapping[int, int]) -> int | None:
    op, args = graph.ops[node], graph.args[node]
    if op in SELECTIONS:
        # one choice between two tangents, not a sum of two choices against zero
        zero = graph.const(0.0)
        first, second = (moving.get(a, zero) for a in args[-2:])
        if first == second == zero:
            return None
        return graph.where(chooses_first(graph, node), first, second)
    if op == "div" and args[0] in moving and args[1] in moving:
        # one product and one difference before the division by the shared divisor
        change = graph.sub(moving[args[0]], graph.mul(node, moving[args[1]]))
        return graph.div(change, args[1])
    total: int | None = None
    for argument, rule in zip(args, RULES[op], strict=True):
        if rule is not None and argument in moving:
            part = rule(graph, node, moving[argument])
            total = part if total is None else graph.add(total, part)
    return total


def _call_tangents(graph: Graph, node: int, moving: Mapping[int, int]) -> list[int]:
    callee, args = graph.payloads[node], list(graph.args[node])
    zero = graph.const(0.0)
    results = graph.call(callee, args)
    rule = differentiable(callee)
    return rule.tangent(graph, args, results, [moving.get(a, zero) for a in args])


def differentiable(callee: object) -> DifferentiableCallee:
    """Return a callee that has derivative rules.

    Raises:
        TraceError: If it has none.
    """
    if isinstance(callee, DifferentiableCallee):
        return callee
    name = getattr(callee, "name", type(callee).__name__)
    raise TraceError(
        f"{name}: has no derivative rule; give its class the methods tangent() and adjoint(), "
        "or differentiate a function that does not call it",
        function=str(name),
    )
