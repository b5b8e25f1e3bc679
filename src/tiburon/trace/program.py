"""A traced function: named inputs, a graph, named outputs.

`trace` runs a Python function once on traced arrays and records its computation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tiburon.errors import TraceError
from tiburon.record import record
from tiburon.trace.array import TracedArray, as_traced
from tiburon.trace.graph import Graph, mix, text_key
from tiburon.trace.value import Value, node_of

_current: ContextVar[Graph | None] = ContextVar("tiburon_trace", default=None)


# bound directly: every public call needs it, and a Python function would double its cost
current_graph = _current.get
"""Return the graph being traced in this context, None when code runs on floats."""


@contextlib.contextmanager
def recording(graph: Graph) -> Iterator[None]:
    """Make a graph the one that regions are recorded into."""
    token = _current.set(graph)
    try:
        yield
    finally:
        _current.reset(token)


@record
class Input:
    """One array a program takes.

    Attributes:
        name: Name in signatures and error messages.
        shape: Shape of one case.
        parameter: Whether it is bound to the kernel (masses, gravity) and not passed by callers.
        described: Description of its size for error messages: "18 (6 base + 12 joints)".
    """

    name: str
    shape: tuple[int, ...]
    parameter: bool = False
    described: str = ""

    @property
    def size(self) -> int:
        """Number of floats."""
        return int(np.prod(self.shape, dtype=int))

    def element_name(self, element: int) -> str:
        """Return how users write one element: `q[3]`, `mass`, `R[0, 2]`."""
        if not self.shape:
            return self.name
        index = np.unravel_index(element, self.shape)
        return f"{self.name}[{', '.join(str(place) for place in index)}]"


@record
class Output:
    """One result array of a program.

    Attributes:
        name: Name in signatures; empty if the function returned a single array.
        shape: Shape of one case.
        nodes: Node of each element, in C order.
    """

    name: str
    shape: tuple[int, ...]
    nodes: tuple[int, ...]


@record
class Program:
    """A traced function.

    Attributes:
        name: Name of the function.
        graph: Its nodes.
        inputs: Arguments and parameters, in order; `input` nodes refer to them by index.
        outputs: Results, in order.
        single: Whether the function returned one array rather than a sequence of them.
    """

    name: str
    graph: Graph
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    single: bool = True

    @property
    def roots(self) -> list[int]:
        """Nodes of all outputs, in order."""
        return [node for output in self.outputs for node in output.nodes]

    @property
    def has_calls(self) -> bool:
        """Whether it calls regions or primitives, rather than being straight-line code."""
        return any(self.graph.ops[node] == "call" for node in self.graph.live(self.roots))

    @property
    def key(self) -> int:
        """Structural key of the whole: equal keys mean equal kernels, names of arrays included."""
        shapes = [
            mix(text_key(i.name), text_key(i.described), int(i.parameter), len(i.shape), *i.shape)
            for i in self.inputs
        ]
        results = [mix(text_key(o.name), len(o.shape), *o.shape) for o in self.outputs]
        counts = (len(shapes), len(results), int(self.single))
        return mix(*counts, *shapes, *results, self.graph.key(self.roots))


def input_array(graph: Graph, argument: int, shape: Sequence[int]) -> Any:
    """Return the traced array of a whole argument (a `Value` for shape ())."""
    size = int(np.prod(shape, dtype=int))
    array = np.empty(size, dtype=object)
    for element in range(size):
        array[element] = Value(graph, graph.input(argument, element))
    return array[0] if len(shape) == 0 else array.reshape(shape).view(TracedArray)


def output_nodes(graph: Graph, result: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and nodes of an array, scalar or traced value."""
    array = as_traced(result)
    nodes = []
    for element in array.reshape(-1).view(np.ndarray):
        node = node_of(graph, element)
        if node is None:
            raise TraceError(
                f"a traced function returned {type(element).__name__}; it must return numbers, "
                "traced values, arrays of them, or a tuple, list or dict of such arrays"
            )
        nodes.append(graph.to_float(node))
    return array.shape, tuple(nodes)


def trace(
    function: Callable[..., Any],
    inputs: Mapping[str, Sequence[int]] | Sequence[Input],
    *,
    name: str = "",
) -> Program:
    """Run a function once on traced arrays and keep the graph of its results.

    Args:
        function: Takes one array per input, in order; returns an array, a scalar, or a tuple,
            list or dict of them.
        inputs: Name and shape of each argument of one case, or `Input` records.
        name: Name of the program; the function's own by default.

    Returns:
        The traced program.

    Raises:
        TraceError: If the function does something that cannot be traced.
    """
    if isinstance(inputs, Mapping):
        declared = tuple(Input(key, tuple(shape)) for key, shape in inputs.items())
    else:
        declared = tuple(inputs)
    title = name or getattr(function, "__name__", "function")
    graph = Graph()
    arrays = [input_array(graph, place, item.shape) for place, item in enumerate(declared)]
    with recording(graph):
        result = _run(function, arrays, title)
    if isinstance(result, Mapping):
        named = [(str(key), part) for key, part in result.items()]
    elif isinstance(result, (tuple, list)) and not _is_flat(result):
        named = [(f"result{place}", part) for place, part in enumerate(result)]
    else:
        named = [("", result)]
    outputs = tuple(Output(key, *output_nodes(graph, part)) for key, part in named)
    single = len(named) == 1 and named[0][0] == ""
    return Program(title, graph, declared, outputs, single)


def _run(function: Callable[..., Any], arrays: list[Any], title: str) -> Any:
    try:
        return function(*arrays)
    except TraceError as error:
        error.add_note(f"while tracing {title}")
        raise
    except TypeError as error:
        # NumPy hides the error of a traced size and reports only that it is not an integer
        if "Value(#" not in str(error):
            raise
        raise TraceError(
            f"indexing or sizing by a traced value ({error}): the shape of a result cannot depend "
            "on the data; keep all elements and choose with numpy.where(condition, a, b)",
            function="indexing",
        ) from error


def _is_flat(result: Sequence[Any]) -> bool:
    """Return whether a list or tuple is one vector of scalars rather than several arrays."""
    return isinstance(result, list) and all(not np.ndim(part) for part in result)
