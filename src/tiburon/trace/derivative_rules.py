"""The derivative of every operation: one table for forward and reverse mode.

A rule multiplies a number by the partial derivative of a node with respect to one argument. In
forward mode the number is that argument's tangent and the products add up to the node's tangent;
in reverse mode it is the node's adjoint and the product is added to the argument's.

Where a function has a kink, a one-sided or middle derivative is taken and no NaN is made: `abs` and
`hypot` have derivative 0 at 0, `min` and `max` that of one of two equal arguments. `sign`, `floor`
and comparisons have derivative 0 everywhere. `sqrt`, `log`, `asin` and `acos` at the end of their
range have no finite derivative; the result says so by being non-finite.
"""

from __future__ import annotations

from collections.abc import Callable

from tiburon.trace.graph import BOOLEAN_OPS, Graph

Rule = Callable[[Graph, int, int], int]
"""Takes the graph, the node and the number to multiply; returns the product's node."""


def _same(_graph: Graph, _node: int, t: int) -> int:
    return t


def _opposite(graph: Graph, _node: int, t: int) -> int:
    return graph.neg(t)


def _times_other(place: int) -> Rule:
    return lambda graph, node, t: graph.mul(graph.args[node][place], t)


def _over_divisor(graph: Graph, node: int, t: int) -> int:
    return graph.div(t, graph.args[node][1])


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


def _sqrt(graph: Graph, node: int, t: int) -> int:
    return graph.mul(graph.div(graph.const(0.5), node), t)


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
    "div": (_over_divisor, _divisor),
    "neg": (_opposite,),
    "abs": (_one_argument(lambda graph, _node, x: graph.unary("sign", x)),),
    "sqrt": (_sqrt,),
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
