"""Parts of a graph that are graphs themselves: functions and loops, each compiled once.

Derivatives of `while_loop`. Iterations are assumed to have converged to a fixed point
x = body(x, theta), so that

    dx = (1 - d body/dx)^-1 (d body/dtheta) dtheta        (implicit function theorem)

independent of the iterates. One orthogonal factorization serves all directions, forward and
reverse.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.errors import TraceError
from tiburon.trace.count import OperationCount, count_graph
from tiburon.trace.differentiation import active_nodes, pull_back, push_forward
from tiburon.trace.graph import Callee, Graph, Nodes, mix, text_key
from tiburon.trace.interpret import evaluate_graph
from tiburon.trace.program import current_graph, recording
from tiburon.trace.structure import Structure, flatten, rebuild
from tiburon.trace.value import Value, node_of

if TYPE_CHECKING:
    from tiburon.trace.primitives.orthogonal import OrthogonalFactor


class GraphRegion:
    """A callee that is a graph: its input and capture nodes are the arguments of the call.

    Regions are equal if their keys are; the graph may grow by derivatives, which changes no key.

    Attributes:
        name: Name for dumps and error messages.
        graph: Graph of the body.
        inputs: Nodes of the body for the arguments, in the order of the call.
        roots: Nodes of the body that it computes.
        form: Integers that distinguish regions of one class with equal bodies.
        key: Structural key.
    """

    __slots__ = ("form", "graph", "inputs", "key", "name", "roots", "seals")

    def __init__(
        self, name: str, graph: Graph, inputs: Sequence[int], roots: Sequence[int], *form: int
    ) -> None:
        self.name = name
        self.graph = graph
        self.inputs = tuple(inputs)
        self.roots = tuple(roots)
        self.form = form
        self.seals = False
        places = [graph.keys[node] for node in self.inputs]
        kind = text_key(type(self).__name__)
        self.key = mix(kind, *form, len(places), *places, graph.key(self.roots))

    @property
    def is_sealed(self) -> bool:
        """Whether results are ordered by their places around calls; see `function`."""
        return self.seals or bool(self.graph.order)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def argument_count(self) -> int:
        """Number of arguments."""
        return len(self.inputs)

    def evaluate_roots(self, roots: Sequence[int], values: dict[int, Any]) -> list[Any]:
        """Compute some nodes of the body on floats or on arrays of one float per case.

        Args:
            roots: The nodes to compute.
            values: Value of each input node.

        Returns:
            Their values, at full size.
        """
        graph = self.graph
        places = {(graph.ops[node], graph.payloads[node]): v for node, v in values.items()}
        batch = np.broadcast_shapes(*[np.shape(value) for value in values.values()])
        found = evaluate_graph(graph, roots, lambda op, place: places[op, place], batch)
        return [np.broadcast_to(value, batch) if batch else value for value in found]


def as_value(graph: Graph, node: int) -> Any:
    """Return a node as a traced value, a constant as a float: it stays open to folding."""
    constant = graph.constant_of(node)
    return Value(graph, node) if constant is None else constant


def float_node(graph: Graph, leaf: Any) -> int:
    """Return the node of a scalar or traced value; bools count as 0 and 1."""
    node = node_of(graph, leaf)
    if node is None:
        raise TraceError(f"expected a number or a traced value, got {type(leaf).__name__}")
    return graph.to_float(node)


def trace_body(
    parent: Graph | None, inputs: Sequence[int], body: Callable[..., Any], *, hoisted: bool = True
) -> tuple[Graph, list[list[Any]], Any]:
    """Run a function on fresh traced values inside a graph of its own.

    Args:
        parent: The graph around it, from which values may be captured.
        inputs: How many values each argument has; input nodes are (argument, element).
        body: Takes one list of traced values per argument.
        hoisted: Whether operations on captured values alone are recorded around the body, where
            a loop computes them once.

    Returns:
        The graph, the arguments, and the function's result.
    """
    graph = Graph(parent)
    arguments: list[list[Any]] = [
        [Value(graph, graph.input(argument, element)) for element in range(size)]
        for argument, size in enumerate(inputs)
    ]
    # operations on values around a conditional body belong to the innermost such body
    graph.conditional = not hoisted
    around: list[tuple[Graph, Graph | None]] = []
    outer, body_graph = parent, None if hoisted else graph
    while outer is not None:
        around.append((outer, outer.body))
        outer.body = body_graph
        if body_graph is None and outer.conditional:
            body_graph = outer
        outer = outer.parent
    try:
        with recording(graph):
            result = body(*arguments)
    finally:
        for outer, before in around:
            outer.body = before
    return graph, arguments, result


def capture_nodes(graph: Graph) -> Nodes:
    """Return the nodes of captured values, in the order of `graph.captures`."""
    return [graph.node("capture", (), place, place + 1) for place in range(len(graph.captures))]


def fresh_argument(graph: Graph, inputs: Sequence[int]) -> int:
    """Return an argument index that no input of a region has, the same for equal regions."""
    numbers = [graph.payloads[node][0] for node in inputs if graph.ops[node] == "input"]
    return max(numbers, default=-1) + 1


def read_arguments(
    graph: Graph, roots: Sequence[int], inputs: Sequence[int], arguments: Sequence[int]
) -> tuple[Nodes, Nodes]:
    """Return the inputs of a body that some of its nodes depend on, and their arguments."""
    live = set(graph.live(roots))
    read = [pair for pair in zip(inputs, arguments, strict=True) if pair[0] in live]
    return [node for node, _ in read], [argument for _, argument in read]


def call_region(graph: Graph, region: Callee, arguments: Sequence[int]) -> Nodes:
    """Add a call to a graph and return the nodes of its results; constants need no call."""
    constants = [graph.constant_of(node) for node in arguments]
    if None in constants:
        return graph.call(region, arguments)
    return [graph.const(float(value)) for value in region.evaluate(constants)]


def region_name(kind: str, body: Callable[..., Any]) -> str:
    """Return the name of a region with a body."""
    name = getattr(body, "__name__", "body")
    return f"{kind}_{name}" if name.isidentifier() else kind


class FunctionRegion(GraphRegion):
    """A graph that is called: one result for each root."""

    __slots__ = ()

    @property
    def result_count(self) -> int:
        """Number of results."""
        return len(self.roots)

    def evaluate(self, arguments: list[Any]) -> list[Any]:
        """Compute the results on floats or on arrays of one float per case."""
        return self.evaluate_roots(self.roots, dict(zip(self.inputs, arguments, strict=True)))

    def count(self) -> OperationCount:
        """Count the operations of one call."""
        return count_graph(self.graph, self.roots)

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of the results: one call of the derived function."""
        return self.tangent_among(graph, args, tangents, [False] * len(args))

    def tangent_among(
        self, graph: Graph, args: Nodes, tangents: Nodes, among: Sequence[bool]
    ) -> Nodes:
        """Return the tangents of the results, by a function of all tangents that may change."""
        inner, seeds, arguments = self.seeds(graph, self.inputs, tangents, among)
        key = ("tangents", tuple(self.roots), tuple(seeds.items()))
        roots = inner.regions.get(key)
        if roots is None:
            roots = inner.regions[key] = push_forward(inner, self.roots, seeds)
        inputs = [*self.inputs, *seeds.values()]
        return call_function(
            graph, f"{self.name}_tangent", inner, inputs, roots, [*args, *arguments]
        )

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of the arguments: one call of the derived function."""
        inner, seeds, arguments = self.seeds(graph, self.roots, adjoints)
        roots = pull_back(inner, list(seeds), list(seeds.values()), self.inputs)
        inputs = [*self.inputs, *seeds.values()]
        return call_function(
            graph, f"{self.name}_adjoint", inner, inputs, roots, [*args, *arguments]
        )

    def seeds(
        self, graph: Graph, nodes: Sequence[int], given: Nodes, also: Sequence[bool] | None = None
    ) -> tuple[Graph, dict[int, int], Nodes]:
        """Make an input for each derivative that is not zero, and some others."""
        inner, argument = self.graph, fresh_argument(self.graph, self.inputs)
        seeds: dict[int, int] = {}
        arguments = []
        for place, (node, derivative) in enumerate(zip(nodes, given, strict=True)):
            if graph.constant_of(derivative) != 0.0 or (also and also[place]):
                seeds[node] = inner.input(argument, place)
                arguments.append(derivative)
        return inner, seeds, arguments


def call_function(
    graph: Graph,
    name: str,
    inner: Graph,
    inputs: Sequence[int],
    roots: Sequence[int],
    arguments: Sequence[int],
    *,
    seal: bool = False,
) -> Nodes:
    """Call some nodes of another graph as a function.

    Constant results, results that are arguments, unused arguments and functions of constants need
    no call.

    Args:
        graph: Receives the call.
        name: Name of the function.
        inner: Graph of the body.
        inputs: Nodes of the body for the arguments.
        roots: Nodes of the body to compute.
        arguments: Nodes of `graph`, one for each input.
        seal: As of `function`.

    Returns:
        Nodes of `graph`, one for each root.
    """
    passed = dict(zip(inputs, arguments, strict=True))
    wanted = [
        root
        for root in dict.fromkeys(roots)
        if root not in passed and inner.constant_of(root) is None
    ]
    found = dict(passed)
    if wanted:
        kept, given = read_arguments(inner, wanted, inputs, arguments)
        region = FunctionRegion(name, inner, kept, wanted)
        region.seals = seal
        results = call_region(graph, region, given)
        found.update(zip(wanted, results, strict=True))
    for root in roots:
        constant = inner.constant_of(root)
        if constant is not None:
            found[root] = graph.const(constant)
    return [found[root] for root in roots]


class _Traced:
    """The region of a function for one structure of arguments in one graph."""

    def __init__(
        self, graph: Graph, call: Callable[..., Any], size: int, structure: Structure
    ) -> None:
        def body(leaves: list[Any]) -> Any:
            args, kwargs = rebuild(structure, iter(leaves))
            return flatten(call(*args, **kwargs))

        self.graph, (leaves,), (results, self.structure) = trace_body(graph, (size,), body)
        # a result may itself be a captured value, so captures are complete only after the roots
        self.roots = [float_node(self.graph, leaf) for leaf in results]
        self.inputs = [*(leaf.node for leaf in leaves), *capture_nodes(self.graph)]


def _traced_around(graph: Graph, key: Any) -> tuple[_Traced | None, Graph]:
    """Return a function traced in a graph or in one around it, and that graph."""
    around: Graph | None = graph
    while around is not None:
        if key in around.regions:
            return around.regions[key], around
        around = around.parent
    return None, graph


def _is_inside(graph: Graph, outer: Graph) -> bool:
    """Return whether a graph is another one, or that of a region in it."""
    found: Graph | None = graph
    while found is not None and found is not outer:
        found = found.parent
    return found is outer


def copy_function(
    graph: Graph,
    inner: Graph,
    inputs: Sequence[int],
    roots: Sequence[int],
    arguments: Sequence[int],
) -> Nodes:
    """Copy some nodes of another graph as they are, so that they give the bits of a call.

    Operands keep their order, and nothing is folded or fused across the border. Divisions by one
    value become products with its reciprocal if there are several (`tiburon.trace.lower`): divisors
    are marked, so that divisions elsewhere do not count.

    Args:
        graph: Receives the nodes.
        inner: Graph of the body.
        inputs: Nodes of the body for the arguments.
        roots: Nodes of the body to compute.
        arguments: Nodes of `graph`, one for each input.

    Returns:
        Nodes of `graph`, one for each root.
    """
    found = {node: graph.copy(given) for node, given in zip(inputs, arguments, strict=True)}
    mark = len(graph)
    for node in inner.live(roots):
        if node in found:
            continue
        op, payload = inner.ops[node], inner.payloads[node]
        args = tuple(found[a] for a in inner.args[node])
        if op == "const":
            found[node] = graph.const(payload)
        elif op == "truth":
            found[node] = graph.truth(payload)
        elif op == "call":
            found[node] = graph.node(op, args, payload, payload.key)
        elif op == "result":
            found[node] = graph.node(op, args, payload, payload + 1)
        elif op == "require":
            found[node] = graph.node(op, args, payload, text_key(payload))
        elif op == "div":
            found[node] = graph.node(op, (args[0], graph.node("copy", args[1:], mark, mark)))
        else:
            found[node] = graph.node(op, args, payload)
    return [graph.copy(found[root]) for root in roots]


def function(
    call: Callable[..., Any], *, inline: bool = False, seal: bool = False
) -> Callable[..., Any]:
    """Turn a function into a region: traced once per structure of arguments, called many times.

    A Runge-Kutta step that calls its dynamics four times then contains them once: compile time and
    code size shrink fourfold. The function may capture traced values. Outside of a trace it runs
    directly, on floats.

    Args:
        call: Takes and returns scalars, arrays, and tuples, lists, dicts or dataclasses of them.
            Python integers, strings and other objects are fixed when it is traced. It must depend
            only on its arguments and captured values.
        inline: Whether its operations are copied to where it is called: the bits of a call without
            its cost, for functions that are called once.
        seal: Whether the code around its calls has the same bits whatever it computes. Operands of
            sums are ordered by what computes them, and that decides which product is fused; results
            of a sealed function are ordered by their places. Kernels that compute the same in
            different ways then agree in every bit if their sealed functions do.

    Returns:
        A function with the same arguments and results.
    """
    home = current_graph()
    name = getattr(call, "__name__", "function")

    def traced(graph: Graph, size: int, structure: Structure) -> tuple[_Traced, Nodes]:
        """Return the body for a structure of arguments, and its captures in a graph."""
        found, around = _traced_around(graph, (region, structure))
        if found is None:
            # where it was made, so that calls in other regions there share it
            around = home if home is not None and _is_inside(graph, home) else graph
            found = around.regions[region, structure] = _Traced(around, call, size, structure)
        return found, [float_node(graph, Value(around, node)) for node in found.graph.captures]

    @functools.wraps(call)
    def region(*args: Any, **kwargs: Any) -> Any:
        graph = current_graph()
        if graph is None:
            return call(*args, **kwargs)
        leaves, structure = flatten((args, kwargs))
        nodes = [float_node(graph, leaf) for leaf in leaves]
        found, captures = traced(graph, len(nodes), structure)
        arguments = [*nodes, *captures]
        body = (found.graph, found.inputs, found.roots)
        if inline:
            results = copy_function(graph, *body, arguments)
        else:
            results = call_function(graph, name, *body, arguments, seal=seal)
        return rebuild(found.structure, (as_value(graph, node) for node in results))

    region.traced = traced  # type: ignore[attr-defined]
    return region


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

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
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
        states = [*self.states, *(moving[self.states[p]] for p in moved)]
        roots = [*self.roots, *(changes[p] for p in moved)]
        late = [node for node in self.others if node in moving]
        others, around = read_arguments(
            inner,
            roots,
            [*self.others, *(moving[node] for node in late)],
            [*(given_args[node] for node in self.others), *(given[node] for node in late)],
        )
        first = [given_args[node] for node in self.states] + [given[self.states[p]] for p in moved]
        loop = FixedLoop(
            f"{self.name}_tangent", inner, self.repetitions, self.index, states, others, roots
        )
        found = call_region(graph, loop, [*first, *around])
        zero = graph.const(0.0)
        last = dict(zip(moved, found[len(self.states) :], strict=True))
        return [last.get(place, zero) for place in range(len(self.states))]

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
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
    states = [value.node for value in values]
    others, around = read_arguments(inner, roots, capture_nodes(inner), inner.captures)
    name = region_name("fixed_loop", body)
    loop = FixedLoop(name, inner, repetitions, index.node, states, others, roots)
    last = call_region(graph, loop, [*first, *around])
    return rebuild(structure, (as_value(graph, node) for node in last))


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

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of the results: the derived body, evaluated for each index."""
        inner, argument = self.graph, fresh_argument(self.graph, [self.index, *self.inputs])
        moving = {
            node: inner.input(argument, place)
            for place, node in enumerate(self.inputs)
            if graph.constant_of(tangents[place]) != 0.0
        }
        given = dict(zip(self.inputs, tangents, strict=True))
        roots = push_forward(inner, self.roots, moving)
        kept, arguments = read_arguments(
            inner,
            roots,
            [*self.inputs, *moving.values()],
            [*args, *(given[node] for node in moving)],
        )
        name = f"{self.name}_tangent"
        region = ForEach(name, inner, self.repetitions, self.index, kept, roots)
        return call_region(graph, region, arguments)

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of the arguments: one call of the derived body for each index."""
        body = FunctionRegion(self.name, self.graph, [self.index, *self.inputs], self.roots)
        size = len(self.roots)
        totals = [graph.const(0.0)] * len(args)
        for repetition in range(self.repetitions):
            part = slice(repetition * size, (repetition + 1) * size)
            given = [graph.const(float(repetition)), *args]
            _, *parts = body.adjoint(graph, given, results[part], adjoints[part])
            totals = [graph.add(a, b) for a, b in zip(totals, parts, strict=True)]
        return totals


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
    kept, given = read_arguments(inner, roots, capture_nodes(inner), inner.captures)
    region = ForEach(region_name("for_each", body), inner, repetitions, index.node, kept, roots)
    found = call_region(graph, region, given)
    size = len(roots)
    values = [as_value(graph, node) for node in found]
    return [tuple(values[k * size : (k + 1) * size]) for k in range(repetitions)]


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

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of the last state by the implicit function theorem."""
        point = _FixedPoint(self, graph, args, results)
        zero = graph.const(0.0)
        carried = point.carried(tangents, zero)
        push = point.body.tangent(graph, point.arguments, point.following, carried)
        moved = [push[place] for place in point.moving]
        found = dict(zip(point.moving, point.solve(moved), strict=True))
        found.update({place: tangents[place] for place in point.constant})
        return [*(found.get(place, zero) for place in range(len(self.states))), zero, zero]

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of the arguments by the implicit function theorem."""
        point = _FixedPoint(self, graph, args, results)
        zero = graph.const(0.0)
        weights = dict.fromkeys(range(len(self.states)), zero)
        solved = point.solve_transpose([adjoints[place] for place in point.moving])
        weights.update(zip(point.moving, solved, strict=True))
        back = point.body.adjoint(
            graph, point.arguments, point.following, [weights[p] for p in range(len(self.states))]
        )
        # a loop whose result does not count has no derivative, also where it did not converge
        idle = graph.truth(True)
        for place in point.moving:
            idle = graph.and_(idle, graph.equal(adjoints[place], zero))
        back = [graph.where(idle, zero, part) for part in back]
        # the start of an iteration does not matter, except where it is passed on unchanged
        found = [zero] * len(self.inputs)
        for place in range(len(self.states), len(self.inputs)):
            found[place] = back[place]
        for place in point.constant:
            found[place] = graph.add(back[place], adjoints[place])
        return found


class OnceIfNeeded(WhileLoop):
    """A loop that runs at most once: the first state decides; see `where_needed`.

    Its derivative is that of the body where it ran, else that of the state.
    """

    __slots__ = ()

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of the body, computed only if it ran, or of the state."""
        size, zero = len(self.states), graph.const(0.0)
        inner, seeds, given = self._seeded(graph, self.inputs, tangents)
        if not seeds:
            return [zero] * (size + 2)
        changes = push_forward(inner, self.roots[1:], seeds)
        found = self._again(
            graph, args, seeds, given, tangents[1:size], changes[1:], f"{self.name}_tangent"
        )
        return [zero, *found, zero, zero]

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of the body, computed only if it ran, or of the state."""
        size, zero = len(self.states), graph.const(0.0)
        # a value may be several results
        weights: dict[int, int] = {}
        for root, adjoint in zip(self.roots[1:], adjoints[:size], strict=True):
            known = weights.get(root)
            weights[root] = adjoint if known is None else graph.add(known, adjoint)
        inner, seeds, given = self._seeded(graph, list(weights), list(weights.values()))
        passed = [*adjoints[1:size], *[zero] * (len(args) - size)]
        if not seeds:
            return [zero, *passed]
        back = pull_back(inner, list(seeds), list(seeds.values()), self.inputs[1:])
        return [zero, *self._again(graph, args, seeds, given, passed, back, f"{self.name}_adjoint")]

    def _seeded(
        self, graph: Graph, nodes: Sequence[int], given: Nodes
    ) -> tuple[Graph, dict[int, int], Nodes]:
        """Make an input of the body for each derivative that is not zero."""
        body = FunctionRegion(self.name, self.graph, self.inputs, self.roots[1:])
        return body.seeds(graph, nodes, given)

    def _again(
        self,
        graph: Graph,
        args: Nodes,
        seeds: dict[int, int],
        given: Nodes,
        start: Sequence[int],
        changed: Sequence[int],
        name: str,
    ) -> Nodes:
        """Call a region that returns nodes of the body where it ran, else what it started from.

        Args:
            graph: Receives the call.
            args: Arguments of this region.
            seeds: Inputs of the body for derivatives, by node.
            given: Their values.
            start: Values where the body did not run.
            changed: Nodes of the body.
            name: Name of the region.
        """
        inner = self.graph
        argument = fresh_argument(inner, [*self.inputs, *seeds.values()])
        states = [self.states[0], *(inner.input(argument, k) for k in range(len(start)))]
        roots = [self.condition, inner.const(0.0), *changed]
        kept, around = read_arguments(
            inner, roots, [*self.inputs[1:], *seeds.values()], [*args[1:], *given]
        )
        region = OnceIfNeeded(name, inner, 1, states, kept, roots)
        return call_region(graph, region, [args[0], *start, *around])[1 : len(states)]


MOST_COLUMN_NODES = 20_000
"""Nodes of a body, times states, up to which each column of its derivative is code of its own."""


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

    def __init__(self, loop: WhileLoop, graph: Graph, args: Nodes, results: Nodes) -> None:
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
        read = {*loop.graph.live([roots[place] for place in self.moving])}
        self._iterates = any(loop.states[place] in read for place in self.moving)

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
            for column, push in enumerate(self._columns()):
                for row, change in enumerate(push):
                    entry = graph.sub(one if row == column else zero, change)
                    matrix[row, column] = Value(graph, entry)
            self._factor = factor_orthogonal(matrix)
        return self._factor

    def _columns(self) -> list[list[int]]:
        """Return d body/dx, one column for each moving state.

        Columns of a short body are functions of their own, without the terms that are zero; those
        of a long one are calls of one function.
        """
        graph, body, inner = self.graph, self.body, self.body.graph
        zero, one = graph.const(0.0), graph.const(1.0)
        if len(self.moving) * len(inner.live(body.roots)) <= MOST_COLUMN_NODES:
            columns = []
            for place in self.moving:
                unit = [zero] * len(self.arguments)
                unit[place] = one
                push = body.tangent(graph, self.arguments, self.following, unit)
                columns.append([push[other] for other in self.moving])
            return columns
        argument = fresh_argument(inner, body.inputs)
        seeds = {body.inputs[place]: inner.input(argument, place) for place in self.moving}
        roots = push_forward(inner, [body.roots[place] for place in self.moving], seeds)
        inputs, name = [*body.inputs, *seeds.values()], f"{body.name}_column"
        return [
            call_function(
                graph,
                name,
                inner,
                inputs,
                roots,
                [*self.arguments, *(one if other == place else zero for other in self.moving)],
            )
            for place in self.moving
        ]

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
        if not self._iterates:
            # one iteration leads to the fixed point from anywhere
            return [self._checked(node) for node in right]
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
    condition: Callable[[Any], Any], body: Callable[[Any], Any], state: Any, max_iterations: int
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
    return _iterated(WhileLoop, condition, body, state, max_iterations)


def _iterated(
    kind: type[WhileLoop],
    condition: Callable[[Any], Any],
    body: Callable[[Any], Any],
    state: Any,
    max_iterations: int,
) -> WhileResult:
    """Run a loop; see `while_loop`. The kind has the derivative rules."""
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

    inner, (values,), (go_on, (results, after)) = trace_body(
        graph, (len(first),), step, hoisted=kind is WhileLoop
    )
    check_state("while_loop", structure, after)
    states = [value.node for value in values]
    roots = [_truth_node(inner, go_on), *(float_node(inner, leaf) for leaf in results)]
    others, around = read_arguments(inner, roots, capture_nodes(inner), inner.captures)
    name = region_name("while_loop", body)
    loop = kind(name, inner, max_iterations, states, others, roots)
    found = call_region(graph, loop, [*first, *around])
    last = rebuild(structure, (as_value(graph, node) for node in found[: len(states)]))
    converged = graph.to_truth(found[-1])
    known = graph.payloads[converged] if graph.ops[converged] == "truth" else None
    return WhileResult(
        last, as_value(graph, found[-2]), Value(graph, converged) if known is None else known
    )


def where_needed(condition: Any, changed: Callable[[], Any], state: Any) -> Any:
    """Return a changed state where a condition holds; it is computed only if it does.

    Derivatives are those of the changed state there, and of the state elsewhere.
    """
    once = np.where(condition, 1.0, 0.0)
    return _iterated(
        OnceIfNeeded, lambda s: s[0] > 0.5, lambda s: (0.0, changed()), (once, state), 1
    ).state[1]


def _truth_node(graph: Graph, value: Any) -> int:
    node = node_of(graph, value)
    return graph.to_truth(float_node(graph, value) if node is None else node)
