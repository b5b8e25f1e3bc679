"""One visitor over programs for everything that evaluates or exports them.

A backend gives constants and operations in its own form: arrays of NumPy, expressions of another
tool. The walk visits nodes in order, frees what is no longer used, and expands what a backend does
not know: traced functions and loops into their bodies, primitives into their operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiburon.arguments import public
from tiburon.errors import ShapeError, TraceError
from tiburon.trace.graph import Graph
from tiburon.trace.program import Program

Read = Callable[[str, Any], Any]

UNROLLED_ITERATIONS = 64
"""Most iterations of a conditional loop that is expanded."""


class Backend:
    """How a tool writes numbers and operations; subclasses define `operation`."""

    def constant(self, value: Any) -> Any:
        """Return a constant: a float, or a bool."""
        return value

    def operation(self, op: str, args: list[Any]) -> Any:
        """Return the result of an operation of the graph on values of this backend.

        Args:
            op: Its name: "add", "sin", "where", ...; those of `tiburon.trace.graph`.
            args: Its arguments.
        """
        raise NotImplementedError

    def call(self, callee: Any, args: list[Any]) -> list[Any]:
        """Return the results of a call: by default, of the operations of the callee."""
        return _expanded(self, callee, args)


@public
def walk(program: Program, backend: Backend, inputs: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Evaluate a program with the numbers and operations of a backend.

    Args:
        program: The program.
        backend: How values are made.
        inputs: For each input of the program, parameters included, its elements in C order.

    Returns:
        For each output, its elements in C order.

    Raises:
        ShapeError: If inputs do not have the sizes of the program's.
        TraceError: If the program has a loop that the backend cannot express.

    Example:
        A backend for expressions as text::

            class Text(Backend):
                def operation(self, op, args):
                    return f"{op}({', '.join(map(str, args))})"

            walk(program, Text(), [["x"], ["y"]])
    """
    if [len(values) for values in inputs] != [item.size for item in program.inputs]:
        expected = ", ".join(f"{item.name}: {item.size}" for item in program.inputs)
        raise ShapeError(program.name, expected, tuple(len(values) for values in inputs))
    found = iter(
        walk_graph(program.graph, program.roots, lambda _, at: inputs[at[0]][at[1]], backend)
    )
    return [[next(found) for _ in output.nodes] for output in program.outputs]


def walk_graph(graph: Graph, roots: Sequence[int], read: Read, backend: Backend) -> list[Any]:
    """Evaluate some nodes of a graph with the numbers and operations of a backend.

    Args:
        graph: The graph.
        roots: The nodes to compute.
        read: Returns the value of an `input` or `capture` node from its operation and payload.
        backend: How values are made.

    Returns:
        Value of each root.
    """
    live = graph.live(roots)
    uses: dict[int, int] = dict.fromkeys(roots, 1)
    for node in live:
        for argument in graph.args[node]:
            uses[argument] = uses.get(argument, 0) + 1
    values: dict[int, Any] = {}
    for node in live:
        args = graph.args[node]
        values[node] = visit(graph, node, [values[a] for a in args], read, backend)
        # a large batch must not keep every intermediate array alive
        for argument in args:
            uses[argument] -= 1
            if not uses[argument]:
                del values[argument]
    return [values[root] for root in roots]


def visit(graph: Graph, node: int, args: list[Any], read: Read, backend: Backend) -> Any:
    """Return the value of one node from those of its arguments; of a call, a list of results."""
    op, payload = graph.ops[node], graph.payloads[node]
    if op in ("input", "capture"):
        return read(op, payload)
    if op in ("const", "truth"):
        return backend.constant(payload)
    if op == "call":
        return backend.call(payload, args)
    if op == "result":
        return args[0][payload]
    return backend.operation(op, args)


def _expanded(backend: Backend, callee: Any, args: list[Any]) -> list[Any]:
    """Return the results of a callee by its operations."""
    from tiburon.trace.primitives.primitive import Primitive
    from tiburon.trace.regions import FixedLoop, ForEach, FunctionRegion, GraphRegion, WhileLoop
    from tiburon.trace.regions.in_turn import CallsInTurn
    from tiburon.trace.regions.lanes import LanesRegion

    if isinstance(callee, Primitive):
        return _inlined(backend, callee, args)
    if not isinstance(callee, GraphRegion):
        raise TraceError(f"{callee.name}: no backend but native code knows this call")
    if isinstance(callee, LanesRegion):
        # one call for each set of arguments
        each = [
            _expanded(backend, callee.body, list(given)) for given in callee.argument_sets(args)
        ]
        return [value for column in zip(*each, strict=True) for value in column]
    if isinstance(callee, CallsInTurn):
        function = FunctionRegion(callee.name, callee.graph, callee.inputs, callee.roots)
        sets = callee.argument_sets(args)
        return [x for given in sets for x in _expanded(backend, function, list(given))]
    values = dict(zip(callee.inputs, args, strict=True))

    def body() -> list[Any]:
        graph = callee.graph
        places = {(graph.ops[node], graph.payloads[node]): v for node, v in values.items()}
        return walk_graph(graph, callee.roots, lambda op, at: places[op, at], backend)

    if isinstance(callee, FunctionRegion):
        return body()
    if isinstance(callee, FixedLoop):
        for repetition in range(callee.repetitions):
            values[callee.index] = backend.constant(float(repetition))
            values.update(zip(callee.states, body(), strict=True))
        return [values[node] for node in callee.states]
    if isinstance(callee, ForEach):
        found: list[Any] = []
        for repetition in range(callee.repetitions):
            values[callee.index] = backend.constant(float(repetition))
            found += body()
        return found
    if isinstance(callee, WhileLoop) and callee.max_iterations <= UNROLLED_ITERATIONS:
        return _iterated(backend, callee, values, body)
    raise TraceError(
        f"{callee.name}: a loop of which only its data tell when it ends; it cannot be written as "
        "an expression"
    )


def _iterated(
    backend: Backend, loop: Any, values: dict[int, Any], body: Callable[[], list[Any]]
) -> list[Any]:
    """Unroll a conditional loop: steps after its end change nothing."""
    going = backend.constant(True)
    count = backend.constant(0.0)
    one, zero = backend.constant(1.0), backend.constant(0.0)
    for _ in range(loop.max_iterations):
        condition, *following = body()
        going = backend.operation("and", [going, condition])
        for node, new in zip(loop.states, following, strict=True):
            values[node] = backend.operation("where", [going, new, values[node]])
        more = backend.operation("where", [going, one, zero])
        count = backend.operation("add", [count, more])
    condition = body()[0]
    still = backend.operation("and", [going, condition])
    converged = backend.operation("where", [still, zero, one])
    return [*(values[node] for node in loop.states), count, converged]


def _inlined(backend: Backend, primitive: Any, args: list[Any]) -> list[Any]:
    """Return the results of a primitive by the operations that it is written in."""
    from tiburon.trace.program import recording
    from tiburon.trace.value import Value

    graph = Graph()
    given = [Value(graph, graph.input(0, place)) for place in range(len(args))]
    with recording(graph):
        results = primitive.apply(given, inline=True)
        roots = [
            result.node if isinstance(result, Value) else graph.const(float(result))
            for result in results
        ]
    return walk_graph(graph, roots, lambda _, at: args[at[1]], backend)
