"""Memory of large results, reused once their arrays are freed.

Batches of the same size are computed again and again, as in learning and tuning. The operating
system zeroes fresh memory page by page, which for small robots takes a third of the time of the
computation itself, and up to as long as it. Whether the C library keeps freed memory depends on
what else is in its heap; the pool here always does.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from math import prod
from queue import SimpleQueue

import numpy as np

from tiburon.arrays import NDArray
from tiburon.operating_system import at_fork

Array = NDArray[np.float64]

POOLED_BUFFER_BYTES = 2**16
"""Least size of a pooled buffer [bytes]; smaller ones are cheap to allocate."""

POOL_BYTES = 2**27
"""Size of the pool at most [bytes]; buffers of the sizes unused for longest are dropped first."""

_lock = threading.Lock()
# by their number of elements, sizes used last at the end
_pool: dict[int, list[Array]] = {}
_size = 0
# arrays are freed at any moment, also while this thread holds the lock: then they wait here
_freed: SimpleQueue[Array] = SimpleQueue()


def _reset_after_fork() -> None:
    """Make new locks: another thread may have held them when this process was forked."""
    global _lock, _freed
    _lock, _freed = threading.Lock(), SimpleQueue()


at_fork(in_child=_reset_after_fork)


class _PooledBuffer:
    """Buffer of an array; the array and all of its views keep this object alive."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: Array, shape: tuple[int, ...]) -> None:
        self._memory = memory
        self.__array_interface__ = {**memory.__array_interface__, "shape": shape}

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # at interpreter shutdown the names of this module may be gone
        if not is_finalizing() and self._memory.nbytes <= POOL_BYTES:
            _freed.put(self._memory)
            if _lock.acquire(blocking=False):
                try:
                    _collect()
                finally:
                    _lock.release()


def allocate_results(shape: Sequence[int]) -> Array:
    """Return an uninitialized array, as ``np.empty`` does, from the pool where it has one.

    Args:
        shape: Its shape.
    """
    global _size
    count = prod(shape)
    if 8 * count < POOLED_BUFFER_BYTES:
        return np.empty(shape)
    with _lock:
        _collect()
        same = _pool.pop(count, None)
        memory = same.pop() if same else np.empty(count)
        if same is not None:
            _size -= memory.nbytes
            if same:
                _pool[count] = same
    return np.asarray(_PooledBuffer(memory, tuple(shape)))


def pooled_bytes() -> int:
    """Return the size of all buffers in the pool [bytes]."""
    with _lock:
        _collect()
        return _size


def _collect() -> None:
    """Add freed buffers to the pool and drop others beyond its limit; needs the lock."""
    global _size
    while not _freed.empty():
        memory = _freed.get()
        same = _pool.pop(memory.size, [])
        same.append(memory)
        _pool[memory.size] = same
        _size += memory.nbytes
    while _size > POOL_BYTES:
        count, same = next(iter(_pool.items()))
        _size -= same.pop(0).nbytes
        if not same:
            del _pool[count]
