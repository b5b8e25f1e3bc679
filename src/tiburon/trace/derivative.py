"""Derivatives of programs, which are programs again: run, compile, count or differentiate them.

All forms are exact derivatives of the traced program, on a copy of its graph:

- `forward_derivative`: change of the results along one direction of the inputs;
- `reverse_derivative`: a weighted sum of results differentiated by every input;
- `jacobian`: every result by every input element, skipping pairs without dependence;
- `sparsity`: which results depend on which inputs, without computing a derivative;
- `rate_along`: the rate of change of a function inside a trace, while its arguments change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import OptionError, TraceError
from tiburon.record import record
from tiburon.trace.array import as_traced
from tiburon.trace.differentiation import (
    SELECTIONS,
    active_nodes,
    differentiable_arguments,
    pull_back,
    push_forward,
)
from tiburon.trace.graph import Graph, Nodes, Region
from tiburon.trace.interpret import evaluate_graph
from tiburon.trace.program import Input, Output, Program, current_graph, trace
from tiburon.trace.regions import as_value, float_node, for_each, function, trace_body
from tiburon.trace.value import common_graph

Choice = str | int | Sequence[str | int] | None
"""Inputs or outputs by name or place: one, several, or None for all."""

Mode = Literal["auto", "forward", "reverse"]


def forward_derivative(
    program: Program, *, of: Choice = None, by: Choice = None, values: bool = False
) -> Program:
    """Derive the change of a program's results along a direction of its inputs.

    Args:
        program: The program.
        of: Outputs to differentiate, by name or index; all by default.
        by: Inputs that change, by name or index; all but parameters by default.
        values: Whether to return the program's own results first.

    Returns:
        A program that takes the inputs and then one direction `<input>_tangent` per changing
        input, and returns one `<output>_tangent` per output: Jacobian times direction.
    """
    setting = _prepare(program, of, by)
    graph = setting.graph
    tangents: dict[int, int] = {}
    extra: list[Input] = []
    for place in setting.by:
        item = program.inputs[place]
        argument = len(program.inputs) + len(extra)
        extra.append(Input(f"{item.name}_tangent", item.shape, described=item.described))
        for element in range(item.size):
            tangents[graph.input(place, element)] = graph.input(argument, element)
    roots = [node for output in setting.of for node in output.nodes]
    found = iter(push_forward(graph, roots, tangents))
    outputs = [
        Output(f"{_title(output)}_tangent", output.shape, tuple(next(found) for _ in output.nodes))
        for output in setting.of
    ]
    return setting.finish("forward derivative of", outputs, extra, values)


def reverse_derivative(
    program: Program, *, of: Choice = None, by: Choice = None, values: bool = False
) -> Program:
    """Derive a weighted sum of a program's results by every element of its inputs.

    Args:
        program: The program.
        of: Outputs to differentiate, by name or index; all by default.
        by: Inputs to differentiate by, by name or index; all but parameters by default.
        values: Whether to return the program's own results first.

    Returns:
        A program that takes the inputs and then the weights `<output>_adjoint` of each output, and
        returns one `<input>_adjoint` per input: transposed Jacobian times weights.
    """
    setting = _prepare(program, of, by)
    graph = setting.graph
    roots: list[int] = []
    weights: list[int] = []
    extra: list[Input] = []
    for output in setting.of:
        argument = len(program.inputs) + len(extra)
        extra.append(Input(f"{_title(output)}_adjoint", output.shape))
        roots += output.nodes
        weights += [graph.input(argument, element) for element in range(len(output.nodes))]
    leaves = setting.leaves
    found = iter(pull_back(graph, roots, weights, leaves))
    outputs = []
    for place in setting.by:
        item = program.inputs[place]
        nodes = tuple(next(found) for _ in range(item.size))
        outputs.append(Output(f"{item.name}_adjoint", item.shape, nodes))
    return setting.finish("reverse derivative of", outputs, extra, values)


def jacobian(
    program: Program,
    *,
    of: Choice = None,
    by: Choice = None,
    values: bool = False,
    mode: Mode = "auto",
) -> Program:
    """Derive every element of some outputs by every element of some inputs.

    Only values that depend on an element are differentiated by it, so the cost is that of the
    non-zero part of the Jacobian; the outputs are dense, with constant zeros. Where the sweeps one
    after the other would be more than `MOST_NODES` nodes, one sweep is a function that a loop calls
    for every direction: it takes longer, but compiles in the time of the program itself.

    Args:
        program: The program.
        of: Outputs to differentiate, by name or index; all by default.
        by: Inputs to differentiate by, by name or index; all but parameters by default.
        values: Whether to return the program's own results first.
        mode: "forward" (a sweep per input element), "reverse" (a sweep per result), or "auto" for
            the one with fewer operations.

    Returns:
        A program with the same inputs and one output `d<output>_d<input>` per pair, of shape
        (*output.shape, *input.shape), outputs varying slowest.

    Raises:
        OptionError: If the mode is unknown.
        TraceError: If an input or output is unknown, or a callee has no derivative rule.
    """
    if mode not in ("auto", "forward", "reverse"):
        raise OptionError("mode", ("auto", "forward", "reverse"), mode)
    setting = _prepare(program, of, by)
    graph, leaves = setting.graph, setting.leaves
    roots = [node for output in setting.of for node in output.nodes]
    own = {leaf: 1 << place for place, leaf in enumerate(leaves)}
    chosen = cheaper_mode(graph, roots, own) if mode == "auto" else mode
    live = graph.live(roots)
    sweeps = len(leaves) if chosen == "forward" else len(roots)
    if sweeps and sweeps * _size(graph, live, MOST_NODES // sweeps) > MOST_NODES:
        return _looped_jacobian(setting, chosen, values)
    one = graph.const(1.0)
    entries = np.empty((len(roots), len(leaves)), dtype=np.int64)
    if chosen == "forward":
        for column, leaf in enumerate(leaves):
            entries[:, column] = push_forward(graph, roots, {leaf: one}, live=live)
    else:
        active = active_nodes(graph, live, leaves)
        for row, root in enumerate(roots):
            entries[row] = pull_back(graph, [root], [one], leaves, live=live, active=active)
    outputs = []
    row = 0
    for output in setting.of:
        column = 0
        for place in setting.by:
            item = program.inputs[place]
            block = entries[row : row + len(output.nodes), column : column + item.size]
            nodes = tuple(int(node) for node in block.reshape(-1))
            name = f"d{_title(output)}_d{item.name}"
            outputs.append(Output(name, (*output.shape, *item.shape), nodes))
            column += item.size
        row += len(output.nodes)
    return setting.finish("jacobian of", outputs, [], values)


MOST_NODES = 100_000
"""Nodes of a Jacobian whose sweeps are written one after the other: some seconds of compilation."""


def _size(graph: Graph, live: Iterable[int], most: int) -> int:
    """Return the number of nodes, those of regions that are called included, up to about a most."""
    total = 0
    for node in live:
        total += 1
        if graph.ops[node] == "call":
            callee = graph.payloads[node]
            if isinstance(callee, Region):
                total += _size(callee.graph, callee.graph.live(callee.roots), most)
        if total > most:
            break
    return total


def _looped_jacobian(setting: _Setting, mode: str, values: bool) -> Program:
    """Derive every element by a loop over directions that calls one sweep."""
    program, inputs = setting.program, setting.program.inputs
    names = [_title(output) for output in setting.of]
    by = [inputs[place] for place in setting.by]
    derive = forward_derivative if mode == "forward" else reverse_derivative
    sweep = derive(program, of=names, by=[item.name for item in by])
    sizes = [len(output.nodes) for output in setting.of]
    columns = [item.size for item in by]
    seeds = columns if mode == "forward" else sizes
    nodes = [node for output in sweep.outputs for node in output.nodes]

    def run(*arrays: Any) -> Any:
        given = [tuple(np.reshape(array, (-1,)).tolist()) for array in arrays]

        @function
        def along(given: Any, direction: Scalars) -> Scalars:
            parts, start = [], 0
            for size in seeds:
                parts.append(direction[start : start + size])
                start += size
            return evaluate_nodes(sweep, nodes, *given, *parts)

        def one(index: Any) -> Scalars:
            total = sum(seeds)
            direction = tuple(np.where(index == float(k), 1.0, 0.0) for k in range(total))
            found: Scalars = along(tuple(given), direction)
            return found

        found = for_each(sum(seeds), one)
        matrix = found if mode == "reverse" else list(zip(*found, strict=True))
        results: dict[str, Any] = {}
        if values:
            own = [node for output in program.outputs for node in output.nodes]
            at = iter(evaluate_nodes(program, own, *given))
            for output in program.outputs:
                part = [next(at) for _ in output.nodes]
                results[_title(output)] = as_traced(part).reshape(output.shape)
        row = 0
        for output, size in zip(setting.of, sizes, strict=True):
            column = 0
            for item, width in zip(by, columns, strict=True):
                block = [
                    x for line in matrix[row : row + size] for x in line[column : column + width]
                ]
                name = f"d{_title(output)}_d{item.name}"
                results[name] = as_traced(block).reshape((*output.shape, *item.shape))
                column += width
            row += size
        return results if len(results) > 1 else next(iter(results.values()))

    return trace(run, inputs, name=f"jacobian of {program.name}")


def sparsity(program: Program, *, of: Choice = None, by: Choice = None) -> NDArray[np.bool_]:
    """Return which elements of some outputs can depend on which elements of some inputs.

    Args:
        program: The program.
        of: Outputs, by name or index; all by default.
        by: Inputs, by name or index; all but parameters by default.

    Returns:
        Pattern of the Jacobian, shape (number of result elements, number of input elements), in
        the order given. False means the derivative is 0 for every input.
    """
    setting = _prepare(program, of, by)
    roots = [node for output in setting.of for node in output.nodes]
    return dependence(setting.graph, roots, setting.leaves)


@record
class _Setting:
    """A private copy of a program's graph, with the outputs and inputs to differentiate."""

    program: Program
    graph: Graph
    outputs: tuple[Output, ...]
    of: tuple[Output, ...]
    by: tuple[int, ...]

    @property
    def leaves(self) -> list[int]:
        """Input nodes to differentiate by, in order."""
        return [
            self.graph.input(place, element)
            for place in self.by
            for element in range(self.program.inputs[place].size)
        ]

    def finish(self, what: str, derived: list[Output], extra: list[Input], values: bool) -> Program:
        outputs = [*self.outputs, *derived] if values else derived
        named = [Output(_title(output), output.shape, output.nodes) for output in outputs]
        single = len(named) == 1
        if single:
            named = [Output("", named[0].shape, named[0].nodes)]
        inputs = (*self.program.inputs, *extra)
        return Program(f"{what} {self.program.name}", self.graph, inputs, tuple(named), single)


def _prepare(program: Program, of: Choice, by: Choice) -> _Setting:
    inputs = tuple(item.name for item in program.inputs)
    default = [place for place, item in enumerate(program.inputs) if not item.parameter]
    changing = _places(program, "input", inputs, default if by is None else by)
    titles = tuple(_title(output) for output in program.outputs)
    every = list(range(len(titles)))
    differentiated = _places(program, "output", titles, every if of is None else of)
    graph, places = program.graph.extract(program.roots)
    outputs = tuple(
        Output(output.name, output.shape, tuple(places[node] for node in output.nodes))
        for output in program.outputs
    )
    chosen = tuple(outputs[place] for place in differentiated)
    return _Setting(program, graph, outputs, chosen, changing)


def _title(output: Output) -> str:
    return output.name or "result"


def _places(
    program: Program, kind: str, names: tuple[str, ...], choice: str | int | Sequence[str | int]
) -> tuple[int, ...]:
    chosen = [choice] if isinstance(choice, (str, int)) else list(choice)
    places = []
    for item in chosen:
        place = names.index(item) if item in names else item
        if isinstance(place, str) or not 0 <= place < len(names):
            raise TraceError(
                f"{program.name}: no {kind} {item!r}; it has {', '.join(names) or 'none'}",
                function=program.name,
            )
        places.append(place)
    return tuple(places)


_WITHOUT_PRODUCT = SELECTIONS | {"add", "sub", "neg", "copy", "require", "call", "result"}


def dependence_masks(
    graph: Graph, order: Sequence[int], sources: Mapping[int, int]
) -> dict[int, int]:
    """Return for each node the mask of the sources whose change can change it.

    Args:
        graph: The graph.
        order: The nodes to visit, arguments first.
        sources: Mask of each source node.
    """
    masks: dict[int, int] = {}
    for node in order:
        mask = sources.get(node, 0)
        if not mask:
            for argument in differentiable_arguments(graph, node):
                mask |= masks.get(argument, 0)
        masks[node] = mask
    return masks


def dependence(graph: Graph, roots: Sequence[int], leaves: Sequence[int]) -> NDArray[np.bool_]:
    """Return which roots can change when which leaves change, shape (roots, leaves).

    True does not promise a derivative other than 0 (terms may cancel); False promises 0.
    """
    sources = {leaf: 1 << place for place, leaf in enumerate(leaves)}
    masks = dependence_masks(graph, graph.live(roots), sources)
    pattern = np.zeros((len(roots), len(leaves)), dtype=np.bool_)
    for row, root in enumerate(roots):
        for column in range(len(leaves)):
            pattern[row, column] = bool(masks.get(root, 0) >> column & 1)
    return pattern


def cheaper_mode(
    graph: Graph, roots: Sequence[int], bits: Mapping[int, int]
) -> Literal["forward", "reverse"]:
    """Return the mode that computes derivatives along some directions with fewer operations.

    Forward mode works once per edge of the graph and direction that reaches it, reverse mode once
    per edge and root in front of it. Edges of sums and choices need no product; where k terms meet,
    k - 1 sums are needed; a product with the 1 a derivative starts from is none. A call works once
    per node of its body.

    Args:
        graph: The graph.
        roots: What is differentiated.
        bits: For each leaf the directions along which it changes, as bits of an integer; for a
            whole Jacobian one of its own.
    """
    order = graph.live(roots)
    behind = dependence_masks(graph, order, bits)
    front = dict.fromkeys(order, 0)
    for place, root in enumerate(roots):
        front[root] |= 1 << place
    starts = set(roots)
    arriving = dict.fromkeys(order, 0)
    forward = reverse = 0
    sizes: dict[int, int] = {}
    for node in reversed(order):
        if not behind[node]:
            continue
        # all users were visited, so the adjoint is complete
        rows = front[node].bit_count()
        reverse += max(arriving[node] - rows, 0)
        if graph.ops[node] == "call":
            size = _body_size(graph.payloads[node], sizes)
            forward, reverse = forward + size * behind[node].bit_count(), reverse + size * rows
        moving = [a for a in differentiable_arguments(graph, node) if behind[a]]
        terms = sum(behind[a].bit_count() for a in moving)
        forward += max(terms - behind[node].bit_count(), 0)
        products = graph.ops[node] not in _WITHOUT_PRODUCT
        for argument in moving:
            front[argument] |= front[node]
            arriving[argument] += rows
            if products:
                forward += 0 if argument in bits else behind[argument].bit_count()
                reverse += 0 if node in starts and rows == 1 else rows
    return "reverse" if reverse < forward else "forward"


def _body_size(callee: Any, known: dict[int, int]) -> int:
    """Return the nodes of the body of a callee, with those of its own calls; 0 of primitives."""
    body = getattr(callee, "graph", None)
    if body is None:
        return 0
    if id(callee) not in known:
        live = body.live(callee.roots)
        calls = [body.payloads[node] for node in live if body.ops[node] == "call"]
        known[id(callee)] = len(live) + sum(_body_size(one, known) for one in calls)
    return known[id(callee)]


Scalars = tuple[Any, ...]


def rate_program(function: Callable[..., Any], arguments: int, name: str = "") -> Program:
    """Trace a function of scalars with its tangents, for `rate_along`.

    Args:
        function: Takes scalars and returns a sequence of scalars.
        arguments: Number of its arguments.
        name: Name of the program.
    """
    inputs = [Input("x", (arguments,))]
    program = trace(lambda x: list(function(*x.tolist())), inputs, name=name)
    return forward_derivative(program, values=True)


def rate_along(
    program: Program, arguments: Sequence[Any], rates: Callable[..., Sequence[Any]]
) -> tuple[Scalars, Scalars]:
    """Return the results of a function, and their rate of change.

    Args:
        program: From `rate_program`.
        arguments: Scalars, traced or not.
        rates: Returns the rate of change of each argument from the results.

    Returns:
        Results and their rates.
    """
    values, tangents = program.outputs
    results = evaluate_nodes(program, values.nodes, arguments, ())
    return results, evaluate_nodes(program, tangents.nodes, arguments, rates(*results))


def evaluate_nodes(program: Program, nodes: Sequence[int], *given: Sequence[Any]) -> Scalars:
    """Return the values of some nodes of a program, on floats or added to the current graph.

    Args:
        program: The program.
        nodes: Of its graph.
        *given: Scalars of each input, in order; inputs that the nodes do not read may be empty.
    """
    graph = common_graph(tuple(scalar for scalars in given for scalar in scalars))
    if graph is None:
        return tuple(
            float(value)
            for value in evaluate_graph(program.graph, nodes, lambda _, at: given[at[0]][at[1]])
        )
    inputs = {
        (argument, element): float_node(graph, scalar)
        for argument, scalars in enumerate(given)
        for element, scalar in enumerate(scalars)
    }
    return tuple(as_value(graph, node) for node in splice(graph, program.graph, nodes, inputs))


_COMPARISONS = ("less", "less_equal", "equal")
_METHODS: dict[str, Callable[..., int]] = {
    "neg": Graph.neg,
    "copy": Graph.copy,
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
) -> Nodes:
    """Copy the computation of some nodes to another graph, where it is folded again.

    Args:
        graph: Receives the nodes.
        inner: Graph of the nodes; whatever it captures belongs to `graph`.
        roots: The nodes to compute.
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
        elif op == "capture":
            placed[node] = inner.captures[payload]
        elif op == "const":
            placed[node] = graph.const(payload)
        elif op == "truth":
            placed[node] = graph.truth(payload)
        elif op == "call":
            calls[node] = graph.call(payload, args)
            # never read: calls are referred to by their results
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


Tangents = Sequence[Sequence[Any]]
"""For each direction, the tangent of every value."""


def values_and_tangents(
    call: Callable[[list[Any]], tuple[Sequence[Any], Tangents]], arguments: Sequence[Any]
) -> tuple[Scalars, list[Scalars]]:
    """Evaluate a function of scalars together with its derivatives along some directions.

    Differentiates a graph of its own, whose leaves are the arguments, in the mode that takes fewer
    operations. The result is written into the graph at hand, where constants fold; on floats, it is
    evaluated at once.

    Args:
        call: Takes the arguments; returns its values, and for each direction the tangents of the
            arguments. May read traced values around it, which count as constant.
        arguments: Scalars, traced or not.

    Returns:
        The values, and for each direction their tangents.
    """
    graph = current_graph()
    inner, (given,), (values, directions) = trace_body(graph, (len(arguments),), call)
    roots = [float_node(inner, x) for x in values]
    leaves = [x.node for x in given]
    seeds = [[float_node(inner, x) for x in direction] for direction in directions]
    wanted = [*roots, *_tangents(inner, roots, leaves, seeds)]
    if graph is None:
        found = [
            float(x) for x in evaluate_graph(inner, wanted, lambda _, at: float(arguments[at[1]]))
        ]
    else:
        inputs = {(0, k): float_node(graph, x) for k, x in enumerate(arguments)}
        found = [as_value(graph, node) for node in splice(graph, inner, wanted, inputs)]
    count = len(roots)
    rows = [tuple(found[k : k + count]) for k in range(0, len(found), count or 1)]
    return (rows[0], rows[1:]) if count else ((), [() for _ in directions])


def _tangents(
    graph: Graph, roots: Sequence[int], leaves: Sequence[int], seeds: Sequence[Sequence[int]]
) -> Nodes:
    """Return the tangents of all roots for each direction, given as the tangents of all leaves."""
    live = graph.live(roots)
    found: list[int] = []
    if not seeds:
        return found
    bits = {
        leaf: sum(1 << k for k, x in enumerate(own) if graph.constant_of(x) != 0.0)
        for leaf, own in zip(leaves, zip(*seeds, strict=True), strict=True)
    }
    if cheaper_mode(graph, roots, bits) == "forward":
        among = _shared_arguments(graph, live, bits)
        for seed in seeds:
            tangents = dict(zip(leaves, seed, strict=True))
            found += push_forward(graph, roots, tangents, live=live, among=among)
        return found
    one = graph.const(1.0)
    active = active_nodes(graph, live, leaves)
    rows = [pull_back(graph, [root], [one], leaves, live=live, active=active) for root in roots]
    for seed in seeds:
        for row in rows:
            total = graph.const(0.0)
            for slope, tangent in zip(row, seed, strict=True):
                total = graph.add(total, graph.mul(slope, tangent))
            found.append(total)
    return found


LONG_BODY = 1000
"""Nodes of a function that is derived once for all directions: derived for what each changes, it
would be compiled as often."""

SHARED_ARGUMENTS = 0.25
"""Share of its arguments that directions change on average from which on it is."""


def _shared_arguments(graph: Graph, live: Sequence[int], bits: Mapping[int, int]) -> set[int]:
    """Return the arguments of long functions that change along some direction."""
    masks = dependence_masks(graph, live, bits)
    sizes: dict[int, int] = {}
    found: set[int] = set()
    for node in live:
        if graph.ops[node] == "call" and _body_size(graph.payloads[node], sizes) >= LONG_BODY:
            changing = [masks[a] for a in graph.args[node] if masks[a]]
            changes = sum(mask.bit_count() for mask in changing)
            if changes >= SHARED_ARGUMENTS * len(changing) * masks[node].bit_count():
                found |= {a for a in graph.args[node] if masks[a]}
    return found
