"""Memory for the rows of runs, used again once nobody holds the rows any more.

Whoever runs batches again and again, as learning and tuning do, lets go of one result and asks for
the next of the same size. Memory that is new to a process is cleared page by page by the system,
which for small robots costs as much time as a third of the steps themselves; memory that was used
before costs nothing.
"""

import sys
import threading
from collections.abc import Sequence
from math import prod
from queue import Empty, SimpleQueue

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_KEPT", "SMALLEST", "kept_bytes", "row_memory"]

Array = NDArray[np.float64]

SMALLEST = 2**22
"""Size from which on memory is kept [bytes]; smaller pieces are cheap to get anew."""

MOST_KEPT = 2**27
"""How much is kept for later at most [bytes]; what waited longest goes first."""

_lock = threading.Lock()
_kept: list[Array] = []
# arrays may go at any moment, also while this thread holds the lock: then they wait here
_returned: SimpleQueue[Array] = SimpleQueue()


class _Loan:
    """Memory that an array lies in; the array and all views of it hold on to this object."""

    def __init__(self, memory: Array, shape: Sequence[int]) -> None:
        self._memory = memory
        self.__array_interface__ = {**memory.__array_interface__, "shape": tuple(shape)}

    def __del__(self) -> None:
        # while the interpreter ends, what this needs may be gone
        if not sys.is_finalizing() and self._memory.nbytes <= MOST_KEPT:
            _returned.put(self._memory)
            if _lock.acquire(blocking=False):
                try:
                    _collect()
                finally:
                    _lock.release()


def row_memory(shape: Sequence[int]) -> Array:
    """Return an array of any numbers, as ``np.empty`` does.

    Args:
        shape: Its shape.
    """
    count = prod(shape)
    if 8 * count < SMALLEST:
        return np.empty(shape)
    with _lock:
        _collect()
        place = next((k for k, memory in enumerate(_kept) if memory.size == count), None)
        memory = np.empty(count) if place is None else _kept.pop(place)
    return np.asarray(_Loan(memory, shape))


def kept_bytes() -> int:
    """Return how much memory waits to be used again [bytes]."""
    with _lock:
        _collect()
        return sum(memory.nbytes for memory in _kept)


def _collect() -> None:
    """Take in what came back, and let go of what is too much; the lock is held."""
    while True:
        try:
            _kept.append(_returned.get_nowait())
        except Empty:
            break
    while sum(memory.nbytes for memory in _kept) > MOST_KEPT:
        del _kept[0]
