"""Why a result is not finite: the requirement, the operation or the input at fault.

Native code only finds that something went wrong; it then comes here with the one case, which is
evaluated again node by node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tiburon.errors import ShapeError
from tiburon.trace.graph import Graph
from tiburon.trace.interpret import Read, batch_shape, evaluate_node, ordered_inputs
from tiburon.trace.program import Program

__all__ = ["Diagnosis", "diagnose"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Where a non-finite result comes from.

    Attributes:
        kind: "input" if an input holds NaN or infinity, "requirement" if a `require` failed,
            "operation" if finite numbers gave a non-finite one.
        message: What happened, in words; the requirement's own message if one failed.
        operation: Name of the operation at fault; "input" or "require" for the other kinds.
        values: Its arguments.
        inputs: Names of the inputs it depends on; for a bad input, that one.
        index: Place of the bad value in its input; None for other kinds or a single number.
    """

    kind: Literal["input", "requirement", "operation"]
    message: str
    operation: str
    values: tuple[float, ...]
    inputs: tuple[str, ...]
    index: tuple[int, ...] | None = None


def diagnose(program: Program, inputs: Sequence[Any] | Mapping[str, Any]) -> Diagnosis | None:
    """Find why a program gives a non-finite result for one case.

    Args:
        program: The traced program.
        inputs: The arrays of one case, in order or by name, without leading dimensions.

    Returns:
        The earliest cause, None if every result is finite.

    Raises:
        ShapeError: If the arrays hold more than one case.
    """
    arrays = ordered_inputs(program, inputs)
    batch = batch_shape(program, arrays)
    if batch:
        raise ShapeError(program.name, "one case", f"a batch of shape {batch}")
    for item, array in zip(program.inputs, arrays, strict=True):
        bad = np.flatnonzero(~np.isfinite(array))
        if len(bad):
            element = int(bad[0])
            value = float(array.reshape(-1)[element])
            index = tuple(int(place) for place in np.unravel_index(element, item.shape))
            message = f"{item.element_name(element)} is {value}"
            return Diagnosis("input", message, "input", (value,), (item.name,), index or None)
    rows = [array.reshape(-1) for array in arrays]
    values = _evaluate_all(program.graph, program.roots, lambda _op, at: rows[at[0]][at[1]])
    suspects = _suspects(program.graph, program.roots, values)
    if not suspects:
        return None
    return _explain(program, values, suspects)


def _evaluate_all(graph: Graph, roots: Sequence[int], read: Read) -> dict[int, Any]:
    values: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for node in graph.live(roots):
            args = [values[a] for a in graph.args[node]]
            values[node] = evaluate_node(graph, node, args, read)
    return values


def _is_bad(graph: Graph, node: int, values: dict[int, Any]) -> bool:
    if graph.is_boolean(node):
        return False
    if graph.ops[node] == "call":
        return not all(math.isfinite(part) for part in values[node])
    return not math.isfinite(values[node])


def _suspects(graph: Graph, roots: Sequence[int], values: dict[int, Any]) -> list[int]:
    """Return the non-finite nodes that made a result non-finite, earliest first."""
    found: set[int] = set()
    pending = [root for root in roots if _is_bad(graph, root, values)]
    while pending:
        node = pending.pop()
        if node in found:
            continue
        found.add(node)
        args = graph.args[node]
        if graph.ops[node] == "where":
            # the branch that was not chosen is innocent
            args = (args[1] if values[args[0]] else args[2],)
        pending.extend(a for a in args if _is_bad(graph, a, values))
    return sorted(found)


def _explain(program: Program, values: dict[int, Any], suspects: list[int]) -> Diagnosis:
    graph = program.graph
    for node in suspects:
        if graph.ops[node] == "require" and not values[graph.args[node][0]]:
            value = float(values[graph.args[node][1]])
            message = str(graph.payloads[node])
            return Diagnosis("requirement", message, "require", (value,), _sources(program, node))
    # arguments come before users, so the first suspect has only finite arguments
    node = suspects[0]
    args = [float(values[a]) for a in graph.args[node]]
    sources = _sources(program, node)
    if graph.ops[node] == "call":
        operation = str(graph.payloads[node].name)
        what = f"{operation} has a non-finite result"
    else:
        operation = graph.ops[node]
        shown = ", ".join(f"{value:.6g}" for value in args)
        what = f"{operation}({shown}) is {float(values[node])}"
    message = f"{what}; it depends on {', '.join(sources) or 'constants only'}"
    return Diagnosis("operation", message, operation, tuple(args), sources)


def _sources(program: Program, node: int) -> tuple[str, ...]:
    """Return the names of the inputs a node depends on, in the program's order."""
    graph = program.graph
    places = {graph.payloads[n][0] for n in graph.live([node]) if graph.ops[n] == "input"}
    return tuple(program.inputs[place].name for place in sorted(places))
