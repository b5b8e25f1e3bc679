"""Recorded rows of a run in memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tiburon.arrays import Array


class Rows(Protocol):
    """Recorded rows, in memory or on disk."""

    @property
    def count(self) -> int:
        """Number of rows."""

    def read(self, key: str, start: int, stop: int) -> Array:
        """Return some rows of a column, or of "time"."""


@dataclass(slots=True)
class ConstantRows:
    """Identical rows of a column, written when they are first read.

    The commands of a run without controller are constant: a third of the rows of an arm.
    """

    key: str
    """Key of the column."""

    array: Array
    """The whole column."""

    start: int
    stop: int

    row: Array
    """Value of each row from start to stop, shape (cases, *width)."""

    def fill(self) -> None:
        """Write the rows."""
        self.array[self.start : self.stop] = self.row.reshape(self.array.shape[1:])


class MemoryRows:
    """Rows in memory."""

    def __init__(self, arrays: Mapping[str, Array], constant: Iterable[ConstantRows] = ()) -> None:
        """Hold arrays.

        Args:
            arrays: "time", shape (n,), and columns by key, with time as their first dimension.
            constant: Rows of these arrays that are not written yet.
        """
        self._arrays = dict(arrays)
        self._constant = list(constant)

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self._arrays["time"])

    def read(self, key: str, start: int, stop: int) -> Array:
        """Return some rows of a column, or of "time", as a view."""
        if self._constant:
            self._fill(key)
        return self._arrays[key][start:stop]

    def _fill(self, key: str | None) -> None:
        """Write the constant rows of one column, or of all."""
        pending = []
        for rows in self._constant:
            if key in (None, rows.key):
                rows.fill()
            else:
                pending.append(rows)
        self._constant = pending

    def __getstate__(self) -> dict[str, Any]:
        # copies and other processes share no arrays
        self._fill(None)
        return self.__dict__
