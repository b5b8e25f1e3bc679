"""Replay of logged commands."""

import csv
import io
from collections.abc import Hashable, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.actuation.piecewise import Piecewise, checked_points, entries
from tiburon.actuation.schedules import INTERPOLATIONS, Column, Rows, Times
from tiburon.argument_checks import choice
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.control.run_time import table_handles
from tiburon.errors import DomainError, RunFileError, ShapeError, UnknownNameError
from tiburon.record import record
from tiburon.regular_file import read_regular_file
from tiburon.simulation.state import State
from tiburon.trace.array import TracedArray
from tiburon.trace.declared import traced
from tiburon.trace.primitives.table_rows import Table, read_rows
from tiburon.trace.value import Value

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

TIME_ROUNDING = 1e-9
"""Tolerance of row times [s], because times of a run are sums with rounding errors."""

LOG_BYTES = 2**30
"""Largest size of a log file [bytes]."""


@public
@traced
@record(slots=False)
class Replay:
    """Replays logged commands, with zero-order hold or linear interpolation.

    The first and last row hold outside the log. Logs of any length are read in compiled loops;
    changing the log does not recompile. With `Sampled` commands are sampled and held; without,
    they are read at every stage of the integrator.

    Example:
        ``tb.simulate(rov, 60.0, control=tb.Sampled(Replay.from_csv("dive.csv"), dt=0.02))``
    """

    names: tuple[str, ...]
    """Names of the commands."""

    times: Times
    """Time of each row [s], increasing."""

    rows: Rows
    """One value per name."""

    interpolation: str = "hold"
    """Between two rows: the earlier row ("hold"), or "linear"."""

    def __post_init__(self) -> None:
        choice("interpolation", self.interpolation, INTERPOLATIONS)
        times, rows = checked_points(self.times, self.rows, "rows")
        if rows.shape[1] != len(self.names):
            raise ShapeError("commands", f"{len(self.names)} columns, one per name", rows.shape)
        for name in self.names:
            if tuple(self.names).count(name) > 1:
                raise DomainError("names", "one column per command", f"{name!r} more than once")
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "times", Column.of(times))
        object.__setattr__(self, "rows", Column.of(rows))

    @classmethod
    @public
    def of(
        cls,
        times: ArrayLike,
        commands: ArrayLike,
        names: Sequence[str],
        *,
        interpolation: str = "hold",
    ) -> "Replay":
        """Return a replay of commands in arrays.

        Args:
            times: [s], increasing, shape (k,).
            commands: Shape (k, n).
            names: Names of the commands, n of them.
            interpolation: "hold" or "linear".
        """
        when, rows = checked_points(times, commands, "commands")
        return cls(tuple(names), Column.of(when), Column.of(rows), interpolation)

    @classmethod
    @public
    def from_run(
        cls,
        run: "Trajectory",
        *,
        case: int | None = None,
        names: Sequence[str] | None = None,
        interpolation: str = "hold",
    ) -> "Replay":
        """Return a replay of the commands of a recorded run.

        Args:
            run: A `Trajectory`.
            case: Index of the case in a batch.
            names: Commands to replay; all by default.
            interpolation: "hold" or "linear".
        """
        column = run.header.column("u")
        known = list(column.labels or ()) if column is not None else []
        u = v = np.asarray(run.u, dtype=np.float64)
        if run.header.column("v") is not None:
            v = np.asarray(run.v)
        if u.ndim > 2:
            if case is None:
                raise ShapeError("case", "the index of a case, because the run is a batch", "none")
            u, v = (x.reshape(len(x), -1, x.shape[-1])[:, case] for x in (u, v))
        chosen = known if names is None else list(names)
        for name in chosen:
            if name not in known:
                raise UnknownNameError("command", name, known)
        # rows after the end of a case are NaN
        alive = np.isfinite(u).all(axis=1) & np.isfinite(v).all(axis=1)
        columns = [known.index(name) for name in chosen]
        return cls.of(
            np.asarray(run.time)[alive], u[alive][:, columns], chosen, interpolation=interpolation
        )

    @classmethod
    @public
    def from_csv(
        cls, file: str | PathLike[str], *, time: str = "time", interpolation: str = "hold"
    ) -> "Replay":
        """Return a replay of a CSV file with a row of names, then rows of values.

        Args:
            file: Path of the file.
            time: Name of the time column [s]; all others are commands.
            interpolation: "hold" or "linear".

        Raises:
            RunFileError: If the file does not exist or is not text.
            DomainError: If a value is not a number.
        """
        path = Path(file)
        content = read_regular_file(
            path, LOG_BYTES, "a log of commands", "split it", error=RunFileError
        )
        try:
            table = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
        except (ValueError, csv.Error) as error:
            raise RunFileError(
                path, f"cannot be read as a table ({error}); save it as comma-separated UTF-8"
            ) from error
        head = [name.strip() for name in table[0]] if table else []
        if time not in head:
            raise UnknownNameError("column", time, head, where=str(file))
        values = []
        for line, row in enumerate(table[1:], start=2):
            if not row:
                continue
            try:
                values.append([float(x) for x in row])
            except ValueError as error:
                raise DomainError(f"{file}, line {line}", "numbers", f"{row!r}") from error
            if len(row) != len(head):
                raise DomainError(f"{file}, line {line}", f"{len(head)} values", f"{len(row)}")
        table_values = np.array(values).reshape(len(values), len(head))
        place = head.index(time)
        names = [name for name in head if name != time]
        return cls.of(
            table_values[:, place],
            np.delete(table_values, place, axis=1),
            names,
            interpolation=interpolation,
        )

    def at(self, time: Any) -> Any:
        """Return all commands at a time [s], float, array or traced value, shape (..., n)."""
        if isinstance(time, (Value, TracedArray)):
            return self._pieces.at(self._moved(time)).position
        times, rows = self._table.places, self._table.rows
        if self.interpolation == "linear":
            return np.stack([np.interp(time, times, row) for row in rows.T], axis=-1)
        place = np.searchsorted(times, self._moved(time), side="right") - 1
        return rows[np.maximum(place, 0)]

    def _moved(self, time: Any) -> Any:
        return time + TIME_ROUNDING if self.interpolation == "hold" else time

    def __call__(self, state: State) -> Any:
        """Return the commands at the time of a state."""
        handle = table_handles(self, state)
        if handle is not None:
            line = self.interpolation == "linear"
            parts = read_rows(self._table.form, handle, self._moved(state.time), line=line)
        elif isinstance(state.time, (Value, TracedArray)):
            parts = entries(self.at(state.time))
        else:
            parts = list(np.moveaxis(self.at(state.time), -1, 0))
        return dict(zip(self.names, parts, strict=True))

    @cached_property
    def _table(self) -> Table:
        return Table(self.times, self.rows)

    @cached_property
    def _pieces(self) -> Piecewise:
        """The log as a path, for traced user functions, which compile it in."""
        rows = self._table.rows
        slopes = 0.0 * rows
        if self.interpolation == "linear":
            slopes[:-1] = np.diff(rows, axis=0) / np.diff(self._table.places)[:, None]
        pieces = tuple(
            (tuple(a), tuple(b)) for a, b in zip(rows.tolist(), slopes.tolist(), strict=True)
        )
        # the last row holds after its time
        return Piecewise((*self.times, self.times[-1] + 1.0), pieces)

    def tables(self) -> tuple[Table, ...]:
        """Return the log."""
        return (self._table,)

    def structure(self) -> Hashable:
        """Return names and form of the table, which compiled code depends on."""
        return (self.names, self._table.form, self.interpolation)
