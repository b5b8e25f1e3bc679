"""The recorded rows of a run, wherever they lie."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["MemoryRows", "Rows"]

Array = NDArray[np.float64]


class Rows(Protocol):
    """What a trajectory asks of recorded rows."""

    @property
    def count(self) -> int:
        """Number of rows."""

    def read(self, key: str, start: int, stop: int) -> Array:
        """Return some rows of a column, or of "time"."""


class MemoryRows:
    """Rows that lie in memory."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        """Keep arrays.

        Args:
            arrays: "time", shape (n,), and columns by key, time being their first dimension.
        """
        self._arrays = dict(arrays)

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self._arrays["time"])

    def read(self, key: str, start: int, stop: int) -> Array:
        """Return some rows of a column, or of "time", without copying them."""
        return self._arrays[key][start:stop]
