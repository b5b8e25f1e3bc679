"""Recorded rows of a run in memory, and the memory pool that their arrays come from.

Batches of the same size run again and again, as in learning and tuning, reuse the buffers of freed
results: the operating system zeroes fresh memory page by page, which for small robots takes a third
of the time of the steps themselves.
"""

import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np

from tiburon.arrays import NDArray

__all__ = ["ConstantRows", "MemoryRows", "Rows", "allocate_rows", "pooled_bytes"]

Array = NDArray[np.float64]

POOLED_BUFFER_BYTES = 2**22
"""Least size of a pooled buffer [bytes]; smaller ones are cheap to allocate."""

POOL_BYTES = 2**27
"""Size of the pool at most [bytes]; the oldest buffers are dropped first."""


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


_lock = threading.Lock()
_pool: list[Array] = []
# arrays are freed at any moment, also while this thread holds the lock: then they wait here
_freed: SimpleQueue[Array] = SimpleQueue()


class _PooledBuffer:
    """Buffer of an array; the array and all of its views keep this object alive."""

    def __init__(self, memory: Array, shape: Sequence[int]) -> None:
        self._memory = memory
        self.__array_interface__ = {**memory.__array_interface__, "shape": tuple(shape)}

    def __del__(self) -> None:
        # at interpreter shutdown the names used here may be gone
        if not sys.is_finalizing() and self._memory.nbytes <= POOL_BYTES:
            _freed.put(self._memory)
            if _lock.acquire(blocking=False):
                try:
                    _collect()
                finally:
                    _lock.release()


def allocate_rows(shape: Sequence[int]) -> Array:
    """Return an uninitialized array, as ``np.empty`` does, from the pool where it has one.

    Args:
        shape: Its shape.
    """
    count = prod(shape)
    if 8 * count < POOLED_BUFFER_BYTES:
        return np.empty(shape)
    with _lock:
        _collect()
        place = next((k for k, memory in enumerate(_pool) if memory.size == count), None)
        memory = np.empty(count) if place is None else _pool.pop(place)
    return np.asarray(_PooledBuffer(memory, shape))


def pooled_bytes() -> int:
    """Return the size of all buffers in the pool [bytes]."""
    with _lock:
        _collect()
        return sum(memory.nbytes for memory in _pool)


def _collect() -> None:
    """Add freed buffers to the pool and drop the oldest beyond its limit; needs the lock."""
    while True:
        try:
            _pool.append(_freed.get_nowait())
        except Empty:
            break
    while sum(memory.nbytes for memory in _pool) > POOL_BYTES:
        del _pool[0]
