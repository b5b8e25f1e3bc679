"""Run-time parameters of controllers: gains, set points, paths and logs, which are not compiled in.

A compiled loop passes the parameters of each case as `state.p`, and table handles as
`state.tables`. Both belong to `state.owner`: a controller called by another one uses its own
values, compiled in.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tiburon.simulation.state import State
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.table_rows import Table

MAX_FLOAT = float(np.finfo(np.float64).max)
"""Stands for no limit, because kernel parameters are finite."""


class RunTimeFields:
    """Base class of controllers with run-time parameters."""

    __slots__ = ()

    @property
    def run_time_names(self) -> tuple[str, ...]:
        """Names of the fields that hold run-time parameters or paths, in order."""
        raise NotImplementedError

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: values of the fields in order, without paths."""
        found = [x for name in self.run_time_names for x in _flat(getattr(self, name))]
        return tuple(min(max(x, -MAX_FLOAT), MAX_FLOAT) for x in found)

    def tables(self) -> tuple[Table, ...]:
        """Return the tables of the fields that are paths, in order."""
        paths = (getattr(self, name) for name in self.run_time_names)
        return tuple(table for path in paths if hasattr(path, "tables") for table in path.tables())


def _flat(value: Any) -> list[float]:
    if not isinstance(value, (float, int, tuple)):
        return list(value.parameters()) if hasattr(value, "parameters") else []
    if not isinstance(value, tuple):
        return [float(value)]
    if _is_named(value):
        return [float(x) for _, row in value for x in row]
    return [float(x) for x in value]


def forms(controller: Any, fields: Sequence[str]) -> tuple[Any, ...]:
    """Return the forms of fields with run-time parameters: what compiled code depends on."""
    return tuple(_form(getattr(controller, name)) for name in fields)


def _form(value: Any) -> Any:
    if not isinstance(value, (float, int, tuple)):
        return value.structure()
    if not isinstance(value, tuple):
        return 0
    if _is_named(value):
        return tuple((name, len(row)) for name, row in value)
    return len(value)


def run_time_fields(controller: RunTimeFields, state: State) -> dict[str, Any]:
    """Return the run-time fields by name: values of this case in a loop, otherwise their own."""
    own = {name: getattr(controller, name) for name in controller.run_time_names}
    if state.owner is not controller:
        return {k: x.parameters() if hasattr(x, "parameters") else x for k, x in own.items()}
    given = iter(as_traced(state.p).reshape(-1).tolist())
    return {name: _filled(value, given) for name, value in own.items()}


def _filled(value: Any, given: Iterator[Any]) -> Any:
    """Return a field of the same form with other values."""
    if not isinstance(value, (float, int, tuple)):
        return [next(given) for _ in _flat(value)] if hasattr(value, "parameters") else value
    if not isinstance(value, tuple):
        return next(given)
    if _is_named(value):
        return tuple((name, tuple(next(given) for _ in row)) for name, row in value)
    return tuple(next(given) for _ in value)


def _is_named(value: tuple[Any, ...]) -> bool:
    return bool(value) and isinstance(value[0], tuple)


def table_handles(controller: Any, state: State) -> Sequence[Any] | None:
    """Return the handles of a controller's tables; None outside compiled loops."""
    return state.tables if state.owner is controller and state.tables else None
