"""The recorded rows of a run, wherever they lie."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["MemoryRows", "Rows", "Steady"]

Array = NDArray[np.float64]


class Rows(Protocol):
    """What a trajectory asks of recorded rows."""

    @property
    def count(self) -> int:
        """Number of rows."""

    def read(self, key: str, start: int, stop: int) -> Array:
        """Return some rows of a column, or of "time"."""


@dataclass(slots=True)
class Steady:
    """Some rows of a column that are all the same, and not written before somebody reads them.

    Commands of a run without controller are such: a third of what is recorded of an arm.
    """

    key: str
    """Which column."""

    array: Array
    """The whole column."""

    start: int
    stop: int

    row: Array
    """What each of the rows from start to stop is, shape (cases, *width)."""

    def fill(self) -> None:
        """Write the rows."""
        self.array[self.start : self.stop] = self.row.reshape(self.array.shape[1:])


class MemoryRows:
    """Rows that lie in memory."""

    def __init__(self, arrays: Mapping[str, Array], steady: Iterable[Steady] = ()) -> None:
        """Keep arrays.

        Args:
            arrays: "time", shape (n,), and columns by key, time being their first dimension.
            steady: Rows of these arrays that are yet to be written.
        """
        self._arrays = dict(arrays)
        self._steady = list(steady)

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self._arrays["time"])

    def read(self, key: str, start: int, stop: int) -> Array:
        """Return some rows of a column, or of "time", without copying them."""
        if self._steady:
            self._fill([one for one in self._steady if one.key == key])
        return self._arrays[key][start:stop]

    def _fill(self, waiting: Iterable[Steady]) -> None:
        """Write rows that are the same, all of their columns."""
        filled = set()
        for one in waiting:
            one.fill()
            filled.add(one.key)
        self._steady = [one for one in self._steady if one.key not in filled]

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and other processes get: written out, as they share no arrays."""
        self._fill(self._steady)
        return self.__dict__
