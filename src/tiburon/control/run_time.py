"""Run-time parameters of controllers, which are never compiled in: gains, set points, paths, logs.

A compiled loop passes a traced controller its parameters for each case as `state.p`, and the
handles of its tables as `state.tables`. Both belong to `state.owner`: a controller called by
another one uses its own values, compiled in.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tiburon.simulation.state import State
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.table_rows import Table

__all__ = ["flat_parameters", "forms", "path_tables", "run_time_fields", "table_handles"]

LARGEST = float(np.finfo(np.float64).max)
"""Stands for no limit: parameters of a kernel are finite."""


def flat_parameters(controller: Any, fields: Sequence[str]) -> tuple[float, ...]:
    """Return the values of fields one after the other; paths have none, they are tables."""
    found: list[float] = []
    for name in fields:
        found += _flat(getattr(controller, name))
    return tuple(min(max(x, -LARGEST), LARGEST) for x in found)


def _flat(value: Any) -> list[float]:
    if not isinstance(value, (float, int, tuple)):
        return list(value.parameters()) if hasattr(value, "parameters") else []
    if not isinstance(value, tuple):
        return [float(value)]
    if _is_named(value):
        return [float(x) for _, row in value for x in row]
    return [float(x) for x in value]


def forms(controller: Any, fields: Sequence[str]) -> tuple[Any, ...]:
    """Return what code depends on of fields whose numbers are run-time parameters."""
    return tuple(_form(getattr(controller, name)) for name in fields)


def _form(value: Any) -> Any:
    if not isinstance(value, (float, int, tuple)):
        return value.structure()
    if not isinstance(value, tuple):
        return 0
    if _is_named(value):
        return tuple((name, len(row)) for name, row in value)
    return len(value)


def run_time_fields(controller: Any, state: State, fields: Sequence[str]) -> dict[str, Any]:
    """Return fields by name, with the numbers of this case in a loop and their own elsewhere.

    Args:
        controller: Has these fields, and lists their numbers by `flat_parameters`.
        state: What it was called with.
        fields: Names of numbers, rows of numbers, rows by joint name, or paths.
    """
    own = {name: getattr(controller, name) for name in fields}
    if state.owner is not controller:
        return {name: _own(value) for name, value in own.items()}
    given = iter(as_traced(state.p).reshape(-1).tolist())
    return {name: _filled(value, given) for name, value in own.items()}


def _own(value: Any) -> Any:
    """Return a field with its own values."""
    return value.parameters() if hasattr(value, "parameters") else value


def _filled(value: Any, given: Iterator[Any]) -> Any:
    """Return a field with other values in its form."""
    if not isinstance(value, (float, int, tuple)):
        return [next(given) for _ in _flat(value)] if hasattr(value, "parameters") else value
    if not isinstance(value, tuple):
        return next(given)
    if _is_named(value):
        return tuple((name, tuple(next(given) for _ in row)) for name, row in value)
    return tuple(next(given) for _ in value)


def _is_named(value: tuple[Any, ...]) -> bool:
    return bool(value) and isinstance(value[0], tuple)


def path_tables(controller: Any, fields: Sequence[str]) -> tuple[Table, ...]:
    """Return the tables of those fields that are paths, in order."""
    paths = (getattr(controller, name) for name in fields)
    return tuple(table for path in paths if hasattr(path, "tables") for table in path.tables())


def table_handles(controller: Any, state: State) -> Sequence[Any] | None:
    """Return the handles of a controller's tables; None outside of loops."""
    return state.tables if state.owner is controller and state.tables else None
