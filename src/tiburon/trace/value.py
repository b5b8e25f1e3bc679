"""Traced values: the scalars of an algorithm while it is turned into a graph.

A `Value` is one float or bool of a graph. Python operators and NumPy's elementwise functions on it
add nodes; `if`, `float()` and the like raise an error.
Arrays of values are `TracedArray` (see `tiburon.trace.array`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tiburon.errors import TraceError
from tiburon.trace.graph import BOOLEAN_OPS, FLOAT_FUNCTIONS, Graph

Scalar = Any
"""A float, a bool or a traced `Value`; algorithms accept all of them."""


class Value:
    """One traced scalar.

    Attributes:
        graph: The graph it belongs to.
        node: Its node there.
    """

    __slots__ = ("graph", "node")
    __hash__ = object.__hash__

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph = graph
        self.node = node

    def __repr__(self) -> str:
        constant = self.graph.constant_of(self.node)
        if constant is not None:
            return f"Value({constant})"
        return f"Value(#{self.node} {self.graph.ops[self.node]})"

    # arithmetic

    def __add__(self, other: Any) -> Any:
        return _combine(Graph.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _combine(Graph.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _combine(Graph.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _combine(Graph.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _combine(Graph.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _combine(Graph.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _combine(Graph.div, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _combine(Graph.div, other, self)

    def __pow__(self, other: Any) -> Any:
        return _combine(Graph.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _combine(Graph.pow, other, self)

    def __neg__(self) -> Value:
        graph, node = _placed(self)
        return Value(graph, graph.neg(graph.to_float(node)))

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        graph, node = _placed(self)
        return Value(graph, graph.unary("abs", graph.to_float(node)))

    # comparison

    def __lt__(self, other: Any) -> Any:
        return _combine(_LESS, self, other)

    def __le__(self, other: Any) -> Any:
        return _combine(_LESS_EQUAL, self, other)

    def __gt__(self, other: Any) -> Any:
        return _combine(_LESS, other, self)

    def __ge__(self, other: Any) -> Any:
        return _combine(_LESS_EQUAL, other, self)

    def __eq__(self, other: object) -> Any:
        return _combine(Graph.equal, self, other)

    def __ne__(self, other: object) -> Any:
        same = _combine(Graph.equal, self, other)
        return same if same is NotImplemented else ~same

    # truth values

    def __and__(self, other: Any) -> Any:
        return _combine_truths(Graph.and_, self, other)

    def __or__(self, other: Any) -> Any:
        return _combine_truths(Graph.or_, self, other)

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> Value:
        graph, node = _placed(self)
        return Value(graph, graph.not_(graph.to_truth(node)))

    # operations that need a value at trace time

    def __bool__(self) -> bool:
        graph, node = self.graph, self.node
        if graph.ops[node] == "truth":
            return bool(graph.payloads[node])
        if graph.ops[node] == "const":
            return bool(graph.payloads[node] != 0.0)
        raise TraceError(
            "`if`, `while`, `and`, `or`, `not` cannot depend on a traced value: the code is "
            "recorded once for all inputs; choose with numpy.where(condition, a, b), combine "
            "conditions with & | ~, and iterate with tiburon.trace.while_loop",
            function="bool",
        )

    def __float__(self) -> float:
        constant = self.graph.constant_of(self.node)
        if constant is not None:
            return constant
        _refuse("float", "keep the value as it is: arithmetic and NumPy functions accept it")

    def __int__(self) -> int:
        _refuse("int", "use numpy.floor for a rounded value; sizes must not depend on inputs")

    def __index__(self) -> int:
        _refuse(
            "indexing",
            "an index or shape cannot depend on a traced value; choose with numpy.where instead",
        )

    def __len__(self) -> int:
        _refuse("len", "a traced value is one number")

    def __iter__(self) -> Any:
        _refuse("iteration", "a traced value is one number")

    # NumPy

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from tiburon.trace.array import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from tiburon.trace.array import apply_function

        return apply_function(func, args, kwargs)

    def conjugate(self) -> Value:
        """Return the value itself: traced values are real."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a scalar."""
        return ()

    @property
    def ndim(self) -> int:
        """Number of dimensions of a scalar."""
        return 0


def _refuse(what: str, cure: str) -> NoReturn:
    raise TraceError(f"{what} of a traced value is not possible; {cure}", function=what)


def _LESS(graph: Graph, a: int, b: int) -> int:
    return graph.compare("less", a, b)


def _LESS_EQUAL(graph: Graph, a: int, b: int) -> int:
    return graph.compare("less_equal", a, b)


_NUMBERS = (float, int, np.floating, np.integer, np.bool_)


def _placed(value: Value) -> tuple[Graph, int]:
    """Return the graph that receives operations on a value, and the node of the value there."""
    graph = value.graph
    if graph.body is None:
        return graph, value.node
    return graph.body, graph.body.adopt(graph, value.node)


def common_graph(values: tuple[Any, ...]) -> Graph | None:
    """Return the graph that receives operations on traced values, None if there are none.

    It is the innermost of theirs, or the body that is traced inside of it to run only if needed.
    """
    graph: Graph | None = None
    for value in values:
        if isinstance(value, Value) and value.graph is not graph:
            if graph is None or _is_inside(value.graph, graph):
                graph = value.graph
            elif not _is_inside(graph, value.graph):
                raise TraceError(
                    "traced values of two different traces are combined; trace both in one function"
                )
    return graph if graph is None or graph.body is None else graph.body


def _is_inside(inner: Graph, outer: Graph) -> bool:
    graph: Graph | None = inner
    while graph is not None:
        if graph is outer:
            return True
        graph = graph.parent
    return False


def node_of(graph: Graph, value: Any) -> int | None:
    """Return the node of a float, bool or traced value in a graph, None for anything else."""
    if isinstance(value, Value):
        return value.node if value.graph is graph else graph.adopt(value.graph, value.node)
    if isinstance(value, (bool, np.bool_)):
        return graph.truth(bool(value))
    if isinstance(value, _NUMBERS):
        return graph.const(float(value))
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return node_of(graph, value[()])
    return None


def _combine(rule: Callable[[Graph, int, int], int], a: Any, b: Any) -> Any:
    """Apply a rule for floats; arrays use NumPy, bools count as 0 and 1."""
    # the common case first: two values of one graph
    if (
        isinstance(a, Value)
        and isinstance(b, Value)
        and a.graph is b.graph
        and a.graph.body is None
    ):
        graph = a.graph
        x, y = a.node, b.node
    # then those with one number
    elif type(b) is float and isinstance(a, Value) and a.graph.body is None:
        graph = a.graph
        x, y = a.node, graph.const(b)
    elif type(a) is float and isinstance(b, Value) and b.graph.body is None:
        graph = b.graph
        x, y = graph.const(a), b.node
    else:
        if (isinstance(a, np.ndarray) and a.ndim) or (isinstance(b, np.ndarray) and b.ndim):
            return NotImplemented
        found = common_graph((a, b))
        if found is None:
            return NotImplemented
        graph = found
        left, right = node_of(graph, a), node_of(graph, b)
        if left is None or right is None:
            return NotImplemented
        x, y = left, right
    ops = graph.ops
    if ops[x] in BOOLEAN_OPS or ops[y] in BOOLEAN_OPS:
        x, y = graph.to_float(x), graph.to_float(y)
    return Value(graph, rule(graph, x, y))


def _combine_truths(rule: Callable[[Graph, int, int], int], a: Any, b: Any) -> Any:
    graph = common_graph((a, b))
    if graph is None or (isinstance(b, np.ndarray) and b.ndim):
        return NotImplemented
    x, y = node_of(graph, a), node_of(graph, b)
    if x is None or y is None:
        return NotImplemented
    return Value(graph, rule(graph, graph.to_truth(x), graph.to_truth(y)))


# functions of scalars, traced or not


def unary(op: str, a: Scalar) -> Scalar:
    """Apply a named function of one argument to a float or traced value."""
    if isinstance(a, Value):
        graph, node = _placed(a)
        return Value(graph, graph.unary(op, graph.to_float(node)))
    return FLOAT_FUNCTIONS[op](float(a))


def binary(op: str, a: Scalar, b: Scalar) -> Scalar:
    """Apply atan2, hypot, min or max to floats or traced values."""
    graph = common_graph((a, b))
    if graph is None:
        return FLOAT_FUNCTIONS[op](float(a), float(b))
    x, y = _require_node(graph, a), _require_node(graph, b)
    return Value(graph, graph.binary(op, graph.to_float(x), graph.to_float(y)))


def where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """Choose a where the condition holds, else b; floats or traced values."""
    graph = common_graph((condition, a, b))
    if graph is None or not isinstance(condition, Value):
        return a if condition else b
    truth = graph.to_truth(_require_node(graph, condition))
    x, y = _require_node(graph, a), _require_node(graph, b)
    return Value(graph, graph.where(truth, x, y))


def require(condition: Scalar, value: Scalar, message: str) -> Scalar:
    """Pass a value on if a condition holds; otherwise fail with the message.

    On floats the failure raises at once. In native code the result becomes NaN, the border check
    finds it and reports the message.

    Args:
        condition: Truth value, traced or not.
        value: The value to return.
        message: What was expected, what was wrong, and a remedy.

    Raises:
        DomainError: If the condition is known to be false.
    """
    from tiburon.errors import DomainError

    graph = common_graph((condition, value))
    if not isinstance(condition, Value) or graph is None:
        # a condition may hold one truth value per case
        if not np.all(condition):
            raise DomainError("value", message, f"{value!r}")
        return value
    truth = graph.to_truth(_require_node(graph, condition))
    return Value(graph, graph.require(truth, _require_node(graph, value), message))


def _require_node(graph: Graph, value: Any) -> int:
    node = node_of(graph, value)
    if node is None:
        raise TraceError(f"expected a number or a traced value, got {type(value).__name__}")
    return node
