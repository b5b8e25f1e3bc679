"""Commands from a log, given again."""

import csv
from collections.abc import Hashable, Sequence
from functools import cached_property
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.control.joint_choice import entries
from tiburon.control.piecewise import Piecewise, checked_points
from tiburon.errors import DomainError, OptionError, ShapeError, UnknownNameError
from tiburon.record import record
from tiburon.simulation.state import State
from tiburon.trace.array import TracedArray
from tiburon.trace.traced import MARK
from tiburon.trace.value import Value

__all__ = ["Replay"]

Array = NDArray[np.float64]

TRACED_ROWS = 64
"""Rows up to which a log is compiled into native loops; longer ones are read in Python."""

NEAR = 1e-9
"""Times of a run are sums that round: a row counts from this much before its time [s]."""

BETWEEN = ("held", "linear")


@record(slots=False)
class Replay:
    """Gives commands that were logged: each held until the next, or joined by straight lines.

    Before the first row the first holds, after the last the last. Logs of up to 64 rows run inside
    native loops; of longer ones a controller in plain Python reads the row of each call.

    Example:
        ``tb.simulate(rov, 60.0, control=Replay.from_csv("dive.csv"), control_dt=0.02)``
    """

    names: tuple[str, ...]
    """Names of the commands."""

    times: tuple[float, ...]
    """When each row was given [s], rising."""

    rows: tuple[tuple[float, ...], ...]
    """One number per name."""

    between: str = "held"
    """What holds between two rows: the last one ("held"), or a straight line ("linear")."""

    @classmethod
    def of(
        cls,
        times: ArrayLike,
        commands: ArrayLike,
        names: Sequence[str],
        *,
        between: str = "held",
    ) -> "Replay":
        """Return a replay of arrays.

        Args:
            times: [s], rising, shape (k,).
            commands: Shape (k, n).
            names: Names of the commands, n of them.
            between: "held" or "linear".
        """
        if between not in BETWEEN:
            raise OptionError("between", BETWEEN, between)
        t, u = checked_points(times, commands)
        if u.shape[1] != len(names):
            raise ShapeError("commands", f"{len(names)} columns, one per name", u.shape)
        return cls(tuple(names), tuple(t.tolist()), tuple(map(tuple, u.tolist())), between)

    @classmethod
    def from_run(
        cls,
        run: Any,
        *,
        case: int | None = None,
        names: Sequence[str] | None = None,
        between: str = "held",
    ) -> "Replay":
        """Return a replay of the commands of a recorded run.

        Args:
            run: A `Trajectory`.
            case: Which case of a batch.
            names: Commands to give again; all by default.
            between: "held" or "linear".
        """
        column = run.header.column("u")
        known = list(column.labels or ()) if column is not None else []
        u = np.asarray(run.u, dtype=np.float64)
        if u.ndim > 2:
            if case is None:
                raise ShapeError("case", "the number of a case: the run is a batch", "none")
            u = u.reshape(len(u), -1, u.shape[-1])[:, case]
        chosen = known if names is None else list(names)
        for name in chosen:
            if name not in known:
                raise UnknownNameError("command", name, known)
        # rows after the end of a run are not numbers
        alive = np.isfinite(u).all(axis=1)
        columns = [known.index(name) for name in chosen]
        return cls.of(np.asarray(run.time)[alive], u[alive][:, columns], chosen, between=between)

    @classmethod
    def from_csv(
        cls, file: str | PathLike[str], *, time: str = "time", between: str = "held"
    ) -> "Replay":
        """Return a replay of a text file with a row of names, then rows of numbers.

        Args:
            file: Path; values separated by commas.
            time: Name of the column of times [s]; all others are commands.
            between: "held" or "linear".

        Raises:
            DomainError: If a value is no number.
        """
        with open(file, newline="", encoding="utf-8") as stream:
            table = list(csv.reader(stream))
        head = [name.strip() for name in table[0]] if table else []
        if time not in head:
            raise UnknownNameError("column", time, head, where=str(file))
        numbers = []
        for line, row in enumerate(table[1:], start=2):
            if not row:
                continue
            try:
                numbers.append([float(x) for x in row])
            except ValueError as error:
                raise DomainError(f"{file}, line {line}", "numbers", f"{row!r}") from error
            if len(row) != len(head):
                raise DomainError(f"{file}, line {line}", f"{len(head)} values", f"{len(row)}")
        values = np.array(numbers).reshape(len(numbers), len(head))
        place = head.index(time)
        names = [name for name in head if name != time]
        return cls.of(values[:, place], np.delete(values, place, axis=1), names, between=between)

    def at(self, time: Any) -> Any:
        """Return all commands at a time [s], a number, array or traced value, shape (..., n)."""
        return self._pieces.at(time + NEAR if self.between == "held" else time).position

    def __call__(self, state: State) -> Any:
        """Return the commands at the time of a state."""
        if isinstance(state.time, (Value, TracedArray)):
            parts = entries(self.at(state.time))
        else:
            parts = list(np.moveaxis(self.at(state.time), -1, 0))
        return dict(zip(self.names, parts, strict=True))

    @cached_property
    def _pieces(self) -> Piecewise:
        held = self.between == "held"
        zero = (0.0,) * len(self.names)
        pieces = []
        for k, (a, b) in enumerate(pairwise(self.rows)):
            h = self.times[k + 1] - self.times[k]
            slope = zero if held else tuple((y - x) / h for x, y in zip(a, b, strict=True))
            pieces.append((a, slope))
        # the last row holds from its time on
        end = self.times[-1] + 1.0
        return Piecewise((*self.times, end), (*pieces, (self.rows[-1], zero)))

    def structure(self) -> Hashable:
        """Return all numbers: they are compiled in."""
        return self


def _is_short(replay: Replay) -> bool:
    """Tell whether a log is short enough for native loops."""
    return len(replay.times) <= TRACED_ROWS


setattr(Replay, MARK, property(_is_short))
