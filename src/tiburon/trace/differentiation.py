"""Differentiation of a graph: derivative rules, forward mode and reverse mode.

Tangents and adjoints are nodes of the same graph, so that terms that a derivative shares with the
values (sines, quotients, intermediate products) are computed once.

A rule multiplies a value by the partial derivative of a node with respect to one argument. In
forward mode the value is that argument's tangent, and the products add up to the node's tangent; in
reverse mode it is the node's adjoint, and the product is added to the argument's adjoint.

At a kink, a rule takes a one-sided or middle derivative and makes no NaN: `abs` and `hypot` have
derivative 0 at 0, `min` and `max` that of one of two equal arguments. `sign`, `floor` and
comparisons have derivative 0 everywhere. `sqrt`, `log`, `asin` and `acos` at the ends of their
domain have no finite derivative; the result is then non-finite.

Below a selection, adjoints carry the condition under which they count, and are selected against 0
only where paths with different conditions meet or a leaf is reached. A branch that is not taken
then does no harm, even where its slope is infinite, and needs no selections inside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tiburon.errors import TraceError
from tiburon.trace.graph import BOOLEAN_OPS, DifferentiableCallee, Graph, Nodes, SharedTangents

Rule = Callable[[Graph, int, int], int]
"""Takes the graph, the node and the value to multiply; returns the product's node."""


def _same(_graph: Graph, _node: int, t: int) -> int:
    return t


def _opposite(graph: Graph, _node: int, t: int) -> int:
    return graph.neg(t)


def _times_other(place: int) -> Rule:
    return lambda graph, node, t: graph.mul(graph.args[node][place], t)


def _divisor(graph: Graph, node: int, t: int) -> int:
    # d(a/b)/db = -(a/b)/b; the quotient is shared by all directions
    return graph.neg(graph.mul(graph.div(node, graph.args[node][1]), t))


def _one_argument(partial: Callable[[Graph, int, int], int]) -> Rule:
    """Make a rule from a partial derivative given by graph, node and its argument."""
    return lambda graph, node, t: graph.mul(partial(graph, node, graph.args[node][0]), t)


def _one_plus_square(graph: Graph, a: int) -> int:
    return graph.add(graph.const(1.0), graph.mul(a, a))


def _one_minus_square(graph: Graph, a: int) -> int:
    return graph.sub(graph.const(1.0), graph.mul(a, a))


def _arc(graph: Graph, _node: int, x: int) -> int:
    return graph.div(graph.const(1.0), graph.unary("sqrt", _one_minus_square(graph, x)))


def _pow_base(graph: Graph, node: int, t: int) -> int:
    a, b = graph.args[node]
    lower = graph.pow(a, graph.sub(b, graph.const(1.0)))
    return graph.mul(graph.mul(b, lower), t)


def _pow_exponent(graph: Graph, node: int, t: int) -> int:
    # 0 ** b does not change with b > 0, though log 0 is infinite
    a = graph.args[node][0]
    zero = graph.const(0.0)
    slope = graph.mul(node, graph.unary("log", a))
    return graph.mul(graph.where(graph.compare("equal", a, zero), zero, slope), t)


def _atan2(place: int) -> Rule:
    def rule(graph: Graph, node: int, t: int) -> int:
        y, x = graph.args[node]
        square = graph.add(graph.mul(x, x), graph.mul(y, y))
        slope = graph.div(x, square) if place == 0 else graph.neg(graph.div(y, square))
        return graph.mul(slope, t)

    return rule


def _hypot(place: int) -> Rule:
    def rule(graph: Graph, node: int, t: int) -> int:
        zero = graph.const(0.0)
        length = graph.where(graph.equal(node, zero), graph.const(1.0), node)
        return graph.mul(graph.div(graph.args[node][place], length), t)

    return rule


def chooses_first(graph: Graph, node: int) -> int:
    """Return the truth value that a selection passes on the first of its two choices."""
    args = graph.args[node]
    if graph.ops[node] == "where":
        return args[0]
    a, b = args if graph.ops[node] == "min" else (args[1], args[0])
    return graph.compare("less", a, b)


def _required(graph: Graph, node: int, t: int) -> int:
    # a failed requirement must show in the derivative too, unless that is nothing
    if graph.constant_of(t) == 0.0:
        return t
    return graph.require(graph.args[node][0], t, graph.payloads[node])


RULES: dict[str, tuple[Rule | None, ...]] = {
    "add": (_same, _same),
    "sub": (_same, _opposite),
    "mul": (_times_other(1), _times_other(0)),
    "div": (lambda graph, node, t: graph.div(t, graph.args[node][1]), _divisor),
    "neg": (_opposite,),
    "copy": (_same,),
    "abs": (_one_argument(lambda graph, _node, x: graph.unary("sign", x)),),
    "sqrt": (lambda graph, node, t: graph.mul(graph.div(graph.const(0.5), node), t),),
    "sin": (_one_argument(lambda graph, _node, x: graph.unary("cos", x)),),
    "cos": (_one_argument(lambda graph, _node, x: graph.neg(graph.unary("sin", x))),),
    "tan": (_one_argument(lambda graph, node, _x: _one_plus_square(graph, node)),),
    "asin": (_one_argument(_arc),),
    "acos": (_one_argument(lambda graph, node, x: graph.neg(_arc(graph, node, x))),),
    "atan": (lambda graph, node, t: graph.div(t, _one_plus_square(graph, graph.args[node][0])),),
    "atan2": (_atan2(0), _atan2(1)),
    "exp": (_one_argument(lambda _graph, node, _x: node),),
    "expm1": (_one_argument(lambda graph, node, _x: graph.add(node, graph.const(1.0))),),
    "log": (lambda graph, node, t: graph.div(t, graph.args[node][0]),),
    "sinh": (_one_argument(lambda graph, _node, x: graph.unary("cosh", x)),),
    "cosh": (_one_argument(lambda graph, _node, x: graph.unary("sinh", x)),),
    "tanh": (_one_argument(lambda graph, node, _x: _one_minus_square(graph, node)),),
    "pow": (_pow_base, _pow_exponent),
    "hypot": (_hypot(0), _hypot(1)),
    "sign": (None,),
    "floor": (None,),
    "require": (None, _required),
    "const": (),
    "input": (),
    "capture": (),
    **dict.fromkeys(BOOLEAN_OPS - {"truth", "not"}, (None, None)),
    "truth": (),
    "not": (None,),
}
"""The rule for each argument of each operation; None where the derivative is 0 everywhere."""

SELECTIONS = frozenset({"where", "min", "max"})
"""Operations that pass on one of their last two arguments, and its derivative unchanged."""


def differentiable_arguments(graph: Graph, node: int) -> tuple[int, ...]:
    """Return the argument nodes whose change can change a node (all of a call's)."""
    op, args = graph.ops[node], graph.args[node]
    if op in ("call", "result"):
        return args
    if op in SELECTIONS:
        return args[-2:]
    return tuple(a for a, rule in zip(args, RULES[op], strict=True) if rule is not None)


def push_forward(
    graph: Graph,
    roots: Sequence[int],
    tangents: Mapping[int, int],
    *,
    live: Iterable[int] | None = None,
    among: Collection[int] = (),
) -> Nodes:
    """Add the tangents of some nodes to a graph.

    Args:
        graph: The graph; nodes are added to it.
        roots: The nodes whose tangents to compute.
        tangents: Tangent node of each node that changes, usually inputs and captures.
        live: Nodes that the roots depend on, arguments first, if known.
        among: Nodes that change along this or another direction, for all of which long functions
            are derived once.

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
            call_tangents[node] = _call_tangents(graph, node, moving, among)
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


def _call_tangents(
    graph: Graph, node: int, moving: Mapping[int, int], among: Collection[int]
) -> Nodes:
    callee, args = graph.payloads[node], list(graph.args[node])
    zero = graph.const(0.0)
    results = graph.call(callee, args)
    rule = differentiable(callee)
    tangents = [moving.get(a, zero) for a in args]
    if isinstance(rule, SharedTangents):
        return rule.tangent_among(graph, args, tangents, [a in among for a in args])
    return rule.tangent(graph, args, results, tangents)


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


def pull_back(
    graph: Graph,
    roots: Sequence[int],
    adjoints: Sequence[int],
    leaves: Sequence[int],
    *,
    live: Sequence[int] | None = None,
    active: set[int] | None = None,
) -> Nodes:
    """Add the adjoints of some nodes to a graph.

    Args:
        graph: The graph; nodes are added to it.
        roots: The nodes that are differentiated.
        adjoints: Weight node of each root.
        leaves: The nodes to differentiate by, usually inputs and captures.
        live: Nodes that the roots depend on, arguments first, if known.
        active: Those that change with the leaves (`active_nodes`), if known.

    Returns:
        For each leaf the node of its derivative: the sum over roots of weight times partial
        derivative; the constant 0 where no root depends on it.

    Raises:
        TraceError: If a callee on the way has no derivative rule.
    """
    order = graph.live(roots) if live is None else live
    sweep = _Sweep(graph, active_nodes(graph, order, leaves) if active is None else active)
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
    """Adjoints in the reverse sweep: for each node, weights by their condition."""

    def __init__(self, graph: Graph, active: set[int]) -> None:
        self.graph = graph
        self.active = active
        self.gathered: dict[int, dict[int, int]] = {}
        self.results: dict[int, dict[int, tuple[int, int]]] = {}

    def give(self, node: int, condition: int, part: int) -> None:
        """Add to the adjoint of a node under a condition."""
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
        """Propagate the adjoint of a node to its arguments."""
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
            # the weight is divided once, for both numerator and divisor
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
