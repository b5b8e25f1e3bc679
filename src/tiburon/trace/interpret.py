"""The NumPy interpreter: one elementwise call per node over the whole batch.

It computes the graph as it was traced (no fused multiply-adds, no shared reciprocals), needs no
compiler, and is the reference for tests of native code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiburon.errors import ShapeError
from tiburon.trace.graph import ANGLE_LIMIT, Graph
from tiburon.trace.program import Input, Output, Program
from tiburon.trace.walk import Backend, Read, visit, walk_graph


def _of_angle(function: Any) -> Any:
    """Return NaN for angles beyond the limit, as native code does."""

    def evaluate(angle: Any) -> Any:
        return np.where(np.abs(angle) <= ANGLE_LIMIT, function(angle), np.nan)[()]

    return evaluate


_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "neg": np.negative,
    "copy": np.positive,
    "abs": np.absolute,
    "sqrt": np.sqrt,
    "sin": _of_angle(np.sin),
    "cos": _of_angle(np.cos),
    "tan": _of_angle(np.tan),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "pow": np.power,
    "hypot": np.hypot,
    "sign": np.sign,
    "floor": np.floor,
    "min": np.minimum,
    "max": np.maximum,
    "less": np.less,
    "less_equal": np.less_equal,
    "equal": np.equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "where": np.where,
    "require": lambda condition, value: np.where(condition, value, np.nan),
}


def interpret(program: Program, inputs: Sequence[Any] | Mapping[str, Any]) -> Any:
    """Evaluate a program with NumPy.

    Args:
        program: The traced program.
        inputs: One array per input, in order or by name, each of shape (..., *input.shape);
            leading dimensions are cases and broadcast against each other.

    Returns:
        The result, shape (..., *output.shape); a tuple of such arrays if the program has several.

    Raises:
        ShapeError: If an array is missing, or does not end in its input's shape.
    """
    arrays = ordered_inputs(program, inputs)
    batch = batch_shape(program, arrays)
    rows = [
        array.reshape((*array.shape[: array.ndim - len(item.shape)], item.size))
        for array, item in zip(arrays, program.inputs, strict=True)
    ]

    def read(_op: str, place: tuple[int, int]) -> Any:
        argument, element = place
        return rows[argument][..., element]

    values = iter(evaluate_graph(program.graph, program.roots, read, batch))
    results = tuple(_assemble(output, values, batch) for output in program.outputs)
    return results[0] if program.single else results


def evaluate_graph(
    graph: Graph, roots: Sequence[int], read: Read, batch: tuple[int, ...] = ()
) -> list[Any]:
    """Evaluate some nodes of a graph.

    Args:
        graph: The graph.
        roots: The nodes to compute.
        read: Returns the value of an `input` or `capture` node from its operation and payload: a
            float, or an array with one float per case.
        batch: Shape of the cases; callees get arrays of this shape (floats if it is empty).

    Returns:
        Value of each root, broadcastable to the shape of the cases.
    """
    # branches that are not selected may divide by zero; results are checked
    with np.errstate(all="ignore"):
        return walk_graph(graph, roots, read, _Arrays(batch))


def evaluate_node(
    graph: Graph, node: int, args: list[Any], read: Read, batch: tuple[int, ...] = ()
) -> Any:
    """Evaluate one node from the values of its arguments (a `call` returns a list of results)."""
    return visit(graph, node, args, read, _Arrays(batch))


class _Arrays(Backend):
    """Floats, or arrays of one float per case."""

    def __init__(self, batch: tuple[int, ...]) -> None:
        self._batch = batch

    def operation(self, op: str, args: list[Any]) -> Any:
        """Return the result of an operation."""
        return _UFUNCS[op](*args)

    def call(self, callee: Any, args: list[Any]) -> list[Any]:
        """Return the results of a call."""
        # masked loops need every argument at full size; without a batch plain floats are faster
        batch = self._batch
        full = [np.broadcast_to(a, batch) if batch else float(a) for a in args]
        found: list[Any] = callee.evaluate(full)
        return found


def _assemble(output: Output, values: Any, batch: tuple[int, ...]) -> Any:
    result = np.empty((*batch, len(output.nodes)))
    for element in range(len(output.nodes)):
        result[..., element] = next(values)
    return result.reshape((*batch, *output.shape))[()]


def ordered_inputs(program: Program, inputs: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    """Return the input arrays as float64, in the program's order, checked for their shape."""
    if isinstance(inputs, Mapping):
        missing = [item.name for item in program.inputs if item.name not in inputs]
        if missing:
            raise ShapeError(missing[0], "an array", "nothing", advice=_signature(program))
        given = [inputs[item.name] for item in program.inputs]
    else:
        given = list(inputs)
        if len(given) != len(program.inputs):
            raise ShapeError(
                program.name,
                f"{len(program.inputs)} arrays",
                len(given),
                advice=_signature(program),
            )
    arrays = [np.asarray(array, dtype=np.float64) for array in given]
    for item, array in zip(program.inputs, arrays, strict=True):
        if array.shape[max(array.ndim - len(item.shape), 0) :] != item.shape:
            raise ShapeError(item.name, _expected(item), array.shape)
    return arrays


def batch_shape(program: Program, arrays: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape of the batch: the broadcast leading dimensions."""
    leading = [
        array.shape[: array.ndim - len(item.shape)]
        for array, item in zip(arrays, program.inputs, strict=True)
    ]
    try:
        return np.broadcast_shapes(*leading)
    except ValueError:
        described = ", ".join(
            f"{item.name} {shape}" for item, shape in zip(program.inputs, leading, strict=True)
        )
        raise ShapeError(
            program.name,
            "leading dimensions that broadcast",
            described,
            advice="give every array the same number of cases, or one case",
        ) from None


def _expected(item: Input) -> str:
    inner = ", ".join(str(size) for size in item.shape)
    shape = f"shape (..., {inner})" if inner else "a number or an array of one number per case"
    return f"{shape}: {item.described}" if item.described else shape


def _signature(program: Program) -> str:
    listed = ", ".join(f"{item.name} {item.shape}" for item in program.inputs)
    return f"{program.name} takes {listed}"
