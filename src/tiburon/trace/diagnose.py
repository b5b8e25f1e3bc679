"""Diagnosis of non-finite results: the requirement, the operation or the input at fault.

Native code only detects that a result is not finite; the failed case is then evaluated again here,
node by node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tiburon.errors import ShapeError
from tiburon.record import record
from tiburon.trace.graph import ANGLE_FUNCTIONS, ANGLE_LIMIT, ExplainingCallee, Graph, Nodes, Region
from tiburon.trace.interpret import batch_shape, evaluate_node, ordered_inputs
from tiburon.trace.program import Program
from tiburon.trace.regions.in_turn import CallsInTurn
from tiburon.trace.regions.lanes import LanesRegion
from tiburon.trace.walk import Read

_MAX_ITERATIONS = 1000
"""Iterations of a loop to search for the cause: about a second for a robot's dynamics."""


@record
class Diagnosis:
    """The cause of a non-finite result.

    Attributes:
        kind: "input" if an input holds NaN or infinity, "requirement" if a `require` failed,
            "operation" if finite arguments gave a non-finite result.
        message: Description; the requirement's own message if one failed.
        operation: Name of the operation at fault; "input" or "require" for the other kinds.
        values: Its arguments.
        inputs: Names of the inputs it depends on; for a bad input, that one.
        index: Index of the bad value in its input; None for other kinds or a scalar.
    """

    kind: Literal["input", "requirement", "operation"]
    message: str
    operation: str
    values: tuple[float, ...]
    inputs: tuple[str, ...]
    index: tuple[int, ...] | None = None


def diagnose(program: Program, inputs: Sequence[Any] | Mapping[str, Any]) -> Diagnosis | None:
    """Find the cause of a non-finite result for one case.

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
    fault = _find(program.graph, program.roots, values)
    if fault is None:
        return None
    sources = _sources(program, fault.node)
    if fault.requirement is not None:
        return Diagnosis("requirement", fault.requirement, "require", fault.values, sources)
    message = f"{fault.description}; it depends on {', '.join(sources) or 'constants only'}"
    return Diagnosis("operation", message, fault.operation, fault.values, sources)


@record
class _Fault:
    """The first thing that went wrong in a graph.

    Attributes:
        node: The node at fault, or the call it happened in.
        operation: Name of the operation.
        values: Its arguments.
        description: Description of the fault.
        requirement: Message of the requirement that failed, if one did.
    """

    node: int
    operation: str
    values: tuple[float, ...]
    description: str
    requirement: str | None = None


def _find(graph: Graph, roots: Sequence[int], values: dict[int, Any]) -> _Fault | None:
    suspects = _suspects(graph, roots, values)
    if not suspects:
        return None
    # arguments come before users, so the first suspect has only finite arguments
    first = _operation_fault(graph, suspects[0], values)
    if first.operation in ANGLE_FUNCTIONS:
        # an input out of range: requirements on dependent values fail as a consequence
        return first
    for node in suspects:
        if _fails(graph, node, values):
            value = float(values[graph.args[node][1]])
            return _Fault(node, "require", (value,), "", str(graph.payloads[node]))
    return first


def _operation_fault(graph: Graph, node: int, values: dict[int, Any]) -> _Fault:
    """Return the fault of an operation with finite arguments and a non-finite result."""
    args = tuple(float(values[a]) for a in graph.args[node])
    if graph.ops[node] == "call":
        return _find_in_call(node, graph.payloads[node], args)
    operation = graph.ops[node]
    shown = ", ".join(f"{value:.6g}" for value in args)
    description = f"{operation}({shown}) is {float(values[node])}"
    if operation in ANGLE_FUNCTIONS:
        description += f", for angles are limited to {ANGLE_LIMIT:g} rad"
    return _Fault(node, operation, args, description)


def _find_in_call(node: int, callee: Any, args: tuple[float, ...]) -> _Fault:
    """Return the fault inside a region, or that of a primitive."""
    if isinstance(callee, Region):
        # regions in lanes and in turn have several sets of arguments
        several = isinstance(callee, LanesRegion | CallsInTurn)
        sets = callee.argument_sets(args) if several else [args]  # type: ignore[attr-defined]
        for given in sets:
            fault = _find_in_body(node, callee, given)
            if fault is not None:
                return fault
    description = f"{callee.name} has a non-finite result"
    reason = callee.explain(list(args)) if isinstance(callee, ExplainingCallee) else None
    return _Fault(node, callee.name, args, description, reason)


def _find_in_body(node: int, callee: Region, args: Sequence[float]) -> _Fault | None:
    """Run the body of a region, iteration by iteration, until a fault occurs in it."""
    graph = callee.graph
    leaves = dict(zip(callee.inputs, args, strict=True))
    states: Sequence[int] = getattr(callee, "states", ())
    for repetition in range(_MAX_ITERATIONS if states else 1):
        places = {(graph.ops[n], graph.payloads[n]): v for n, v in leaves.items()}

        def read(op: str, at: Any, known: Any = places, now: float = float(repetition)) -> Any:
            # the input that is not an argument is the iteration index
            return known.get((op, at), now)

        values = _evaluate_all(graph, callee.roots, read)
        fault = _find(graph, callee.roots, values)
        if fault is not None:
            description = f"{fault.description} inside {callee.name}"
            return replace(fault, node=node, description=description)
        following = callee.roots[len(callee.roots) - len(states) :]
        leaves.update((s, float(values[r])) for s, r in zip(states, following, strict=True))
    return None


def _evaluate_all(graph: Graph, roots: Sequence[int], read: Read) -> dict[int, Any]:
    values: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for node in graph.live(roots):
            args = [values[a] for a in graph.args[node]]
            values[node] = evaluate_node(graph, node, args, read)
    return values


def _fails(graph: Graph, node: int, values: dict[int, Any]) -> bool:
    """Return whether a node is a requirement that is not met."""
    return graph.ops[node] == "require" and not values[graph.args[node][0]]


def _undecided(graph: Graph, node: int, values: dict[int, Any]) -> Nodes:
    """Return the NaN that a requirement was decided from: no comparison with one holds."""
    found: list[int] = []
    seen: set[int] = set()
    pending = [graph.args[node][0]]
    while pending:
        part = pending.pop()
        if part in seen:
            continue
        seen.add(part)
        if graph.is_boolean(part):
            pending.extend(graph.args[part])
        elif np.isnan(values[part]).any():
            found.append(part)
    return found


def _is_bad(graph: Graph, node: int, values: dict[int, Any]) -> bool:
    if graph.is_boolean(node):
        return False
    if graph.ops[node] == "call":
        return not all(math.isfinite(part) for part in values[node])
    return not math.isfinite(values[node])


def _suspects(graph: Graph, roots: Sequence[int], values: dict[int, Any]) -> Nodes:
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
        if _fails(graph, node, values):
            pending.extend(_undecided(graph, node, values))
    return sorted(found)


def _sources(program: Program, node: int) -> tuple[str, ...]:
    """Return the names of the inputs a node depends on, in the program's order."""
    graph = program.graph
    places = {graph.payloads[n][0] for n in graph.live([node]) if graph.ops[n] == "input"}
    return tuple(program.inputs[place].name for place in sorted(places))
