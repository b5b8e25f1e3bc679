"""`while_loop`: a body that runs until a condition fails, separately for each case.

Derivatives. Iterations are assumed to have converged to a fixed point x = body(x, theta), so that

    dx = (1 - d body/dx)^-1 (d body/dtheta) dtheta        (implicit function theorem)

independent of the iterates. One orthogonal factorization serves all directions, forward and
reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.trace.count import OperationCount, count_graph
from tiburon.trace.differentiation import active_nodes
from tiburon.trace.graph import Graph
from tiburon.trace.program import current_graph
from tiburon.trace.regions.fixed_loop import check_state
from tiburon.trace.regions.function import FunctionRegion, call_function
from tiburon.trace.regions.region import (
    GraphRegion,
    as_value,
    capture_nodes,
    constants_of,
    float_node,
    trace_body,
)
from tiburon.trace.structure import flatten, rebuild
from tiburon.trace.value import Value, node_of

__all__ = ["WhileLoop", "WhileResult", "while_loop"]

if TYPE_CHECKING:
    from tiburon.trace.primitives.orthogonal import OrthogonalFactor

FIXED_POINT_TOLERANCE = 1e-6
"""How far, relative to 1 + |x|, one more iteration may move a state that is differentiated."""


class WhileResult(NamedTuple):
    """Result of a `while_loop`."""

    state: Any
    """The last state."""
    count: Any
    """How many times the body ran, a float."""
    converged: Any
    """Whether the condition failed within the allowed number of iterations."""


class WhileLoop(GraphRegion):
    """A conditional loop: arguments are the state, then the captures of condition and body.

    The roots are the condition, then the next state. Results are the last state, the number of
    iterations and whether the condition failed in time.

    Attributes:
        max_iterations: Most times the body runs.
        states: Nodes of the body for the state.
    """

    __slots__ = ("max_iterations", "states")

    def __init__(
        self,
        name: str,
        graph: Graph,
        max_iterations: int,
        states: Sequence[int],
        others: Sequence[int],
        roots: Sequence[int],
    ) -> None:
        super().__init__(name, graph, [*states, *others], roots, max_iterations, len(states))
        self.max_iterations = max_iterations
        self.states = tuple(states)

    @property
    def others(self) -> tuple[int, ...]:
        """Nodes of the body that stay the same in all iterations."""
        return self.inputs[len(self.states) :]

    @property
    def condition(self) -> int:
        """Node of the body: whether to go on."""
        return self.roots[0]

    @property
    def result_count(self) -> int:
        """Number of results."""
        return len(self.states) + 2

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Iterate on floats, or on arrays of one float per case; finished cases rest."""
        values = dict(zip(self.inputs, arguments, strict=True))
        shape = np.broadcast_shapes(*[np.shape(argument) for argument in arguments])
        active, count = np.ones(shape, dtype=bool), np.zeros(shape)
        for iteration in range(self.max_iterations + 1):
            (condition,) = self.evaluate_roots(self.roots[:1], values)
            active = active & np.asarray(condition, dtype=bool)
            if iteration == self.max_iterations or not active.any():
                break
            following = self.evaluate_roots(self.roots[1:], values)
            for node, value in zip(self.states, following, strict=True):
                values[node] = np.where(active, value, values[node])
            count = count + active
        states = [values[node] for node in self.states]
        return [*states, count, np.where(active, 0.0, 1.0)]

    def count(self) -> OperationCount:
        """Count the operations of one iteration."""
        return count_graph(self.graph, self.roots)

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return the tangents of the last state by the implicit function theorem."""
        point = _FixedPoint(self, graph, args, results)
        zero = graph.const(0.0)
        carried = point.carried(tangents, zero)
        push = point.body.tangent(graph, point.arguments, point.following, carried)
        moved = [push[place] for place in point.moving]
        found = dict(zip(point.moving, point.solve(moved), strict=True))
        found.update({place: tangents[place] for place in point.constant})
        return [*(found.get(place, zero) for place in range(len(self.states))), zero, zero]

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return the adjoints of the arguments by the implicit function theorem."""
        point = _FixedPoint(self, graph, args, results)
        zero = graph.const(0.0)
        weights = dict.fromkeys(range(len(self.states)), zero)
        solved = point.solve_transpose([adjoints[place] for place in point.moving])
        weights.update(zip(point.moving, solved, strict=True))
        back = point.body.adjoint(
            graph, point.arguments, point.following, [weights[p] for p in range(len(self.states))]
        )
        # the start of an iteration does not matter, except where it is passed on unchanged
        found = [zero] * len(self.inputs)
        for place in range(len(self.states), len(self.inputs)):
            found[place] = back[place]
        for place in point.constant:
            found[place] = graph.add(back[place], adjoints[place])
        return found


class _FixedPoint:
    """One more iteration from the last state, and the equations its derivative obeys.

    Attributes:
        constant: Indices of the state that the body returns unchanged: parameters, in effect.
        moving: Indices of the state that depend on those or on captured values. The others, such as
            counters, have no derivative.
        body: The body as a function of state and other arguments.
        arguments: Its arguments at the last state.
        following: The state after it.
    """

    def __init__(self, loop: WhileLoop, graph: Graph, args: list[int], results: list[int]) -> None:
        size = len(loop.states)
        roots = loop.roots[1:]
        self.graph = graph
        self.constant = [p for p in range(size) if roots[p] == loop.states[p]]
        self.moving = _dependent_places(loop, self.constant)
        self.body = FunctionRegion(loop.name, loop.graph, loop.inputs, roots)
        last = results[:size]
        self.arguments = [*last, *args[size:]]
        self.following = call_function(
            graph, loop.name, loop.graph, loop.inputs, roots, self.arguments
        )
        self._valid = graph.to_truth(results[size + 1])
        for place in self.moving:
            rests = self._rests(last[place], self.following[place])
            self._valid = graph.and_(self._valid, rests)
        self._factor: OrthogonalFactor | None = None

    def _rests(self, last: int, following: int) -> int:
        """Return whether one more iteration keeps a state."""
        graph = self.graph
        change = graph.unary("abs", graph.sub(following, last))
        scale = graph.add(graph.const(1.0), graph.unary("abs", last))
        allowed = graph.mul(graph.const(FIXED_POINT_TOLERANCE), scale)
        return graph.compare("less_equal", change, allowed)

    def carried(self, tangents: list[int], zero: int) -> list[int]:
        """Return the tangents of the values that are constant in all iterations."""
        kept = {*self.constant, *range(len(self.following), len(self.arguments))}
        return [t if place in kept else zero for place, t in enumerate(tangents)]

    def _factored(self) -> OrthogonalFactor:
        if self._factor is None:
            # only derivatives of iterations need it
            from tiburon.trace.primitives.orthogonal import factor_orthogonal

            graph, size = self.graph, len(self.moving)
            zero, one = graph.const(0.0), graph.const(1.0)
            matrix = np.empty((size, size), dtype=object)
            for column, place in enumerate(self.moving):
                unit = [zero] * len(self.arguments)
                unit[place] = one
                push = self.body.tangent(graph, self.arguments, self.following, unit)
                for row, other in enumerate(self.moving):
                    entry = graph.sub(one if row == column else zero, push[other])
                    matrix[row, column] = Value(graph, entry)
            self._factor = factor_orthogonal(matrix)
        return self._factor

    def solve(self, right: list[int]) -> list[int]:
        """Solve (1 - d body/dx) dx = right."""
        return self._solved(right, transposed=False)

    def solve_transpose(self, right: list[int]) -> list[int]:
        """Solve with the transposed matrix."""
        return self._solved(right, transposed=True)

    def _solved(self, right: list[int], *, transposed: bool) -> list[int]:
        graph = self.graph
        if all(graph.constant_of(node) == 0.0 for node in right):
            return right
        vector = np.array([Value(graph, node) for node in right], dtype=object)
        factor = self._factored()
        solution = factor.solve_transpose(vector) if transposed else factor.solve(vector)
        return [self._checked(float_node(graph, value)) for value in solution]

    def _checked(self, derivative: int) -> int:
        return self.graph.require(
            self._valid,
            derivative,
            "a while_loop that converged to a fixed point of its body, as its derivative needs; "
            "tighten its condition, allow more iterations, or use fixed_loop",
        )


def _dependent_places(loop: WhileLoop, constant: list[int]) -> list[int]:
    """Find the states that depend on the values that are constant in all iterations."""
    graph, roots = loop.graph, loop.roots[1:]
    order = graph.live(roots)
    leaves = {*loop.others, *(loop.states[place] for place in constant)}
    while True:
        active = active_nodes(graph, order, leaves)
        found = [p for p in range(len(roots)) if roots[p] in active and p not in constant]
        more = {loop.states[place] for place in found} - leaves
        if not more:
            return found
        leaves |= more


def while_loop(
    condition: Callable[[Any], Any],
    body: Callable[[Any], Any],
    state: Any,
    max_iterations: int,
) -> WhileResult:
    """Run a body as long as a condition holds.

    In a batch each case stops separately. Derivatives assume that the last state is a fixed point
    of the body; for a loop that did not converge to one they are NaN, which the check of results
    reports.

    Args:
        condition: Takes the state and returns whether to continue.
        body: Takes the state and returns the next one. Both may capture traced values.
        state: Initial state: scalars, arrays, and tuples, lists, dicts or dataclasses of them.
        max_iterations: Maximum number of iterations.

    Returns:
        The last state, how often the body ran, and whether the condition failed in time: before
        the body would have run once more than `max_iterations`.

    Raises:
        TraceError: If the body returns a state of another structure.
    """
    graph = current_graph()
    if graph is None:
        iterations = 0
        going = bool(condition(state))
        while going and iterations < max_iterations:
            state = body(state)
            iterations += 1
            going = bool(condition(state))
        return WhileResult(state, float(iterations), not going)
    leaves, structure = flatten(state, numeric=True)
    first = [float_node(graph, leaf) for leaf in leaves]

    def step(values: list[Any]) -> Any:
        # condition and body each get their own copy: a body may change its state in place
        go_on = condition(rebuild(structure, iter(values)))
        return go_on, flatten(body(rebuild(structure, iter(values))), numeric=True)

    inner, (values,), (go_on, (results, after)) = trace_body(graph, (len(first),), step)
    check_state("while_loop", structure, after)
    states = [value.node for value in values]
    roots = [_truth_node(inner, go_on), *(float_node(inner, leaf) for leaf in results)]
    live = set(inner.live(roots))
    around = zip(capture_nodes(inner), inner.captures, strict=True)
    kept = [(node, given) for node, given in around if node in live]
    name = getattr(body, "__name__", "body")
    loop = WhileLoop(
        f"while_loop_{name}" if name.isidentifier() else "while_loop",
        inner,
        max_iterations,
        states,
        [node for node, _ in kept],
        roots,
    )
    arguments = [*first, *(given for _, given in kept)]
    constants = constants_of(graph, arguments)
    if constants is not None:
        found = [graph.const(float(value)) for value in loop.evaluate(list(constants))]
    else:
        found = graph.call(loop, arguments)
    last = rebuild(structure, (as_value(graph, node) for node in found[: len(states)]))
    converged = graph.to_truth(found[-1])
    known = graph.payloads[converged] if graph.ops[converged] == "truth" else None
    return WhileResult(
        last, as_value(graph, found[-2]), Value(graph, converged) if known is None else known
    )


def _truth_node(graph: Graph, value: Any) -> int:
    node = node_of(graph, value)
    return graph.to_truth(float_node(graph, value) if node is None else node)
