"""Thread pool for large batches: splits a range of cases over persistent worker threads.

Native code releases the GIL, so threads use all cores. The calling thread takes a share of the work
and every part that no worker has started, so a call never waits for a free worker: several threads
may call at once, and without any workers the calling thread does all the work.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from tiburon.errors import DomainError
from tiburon.operating_system import at_fork, processor_count

Part = Callable[[int, int], int]
"""Computes the cases begin <= k < end and returns a status, 0 for success."""

# work arrays of long mechanisms exceed the default stack of threads on some systems
_STACK_SIZE = 16 << 20
# time to wait for a worker at exit [s]; a worker that hangs must not block the exit
_EXIT_TIMEOUT = 2.0


def default_threads() -> int:
    """Return the number of threads to use: TIBURON_THREADS, else the cores this process may use.

    Raises:
        DomainError: If TIBURON_THREADS is not a whole number of at least 1.
    """
    setting = os.environ.get("TIBURON_THREADS", "").strip()
    if setting:
        if not (setting.isascii() and setting.isdigit() and int(setting) > 0):
            raise DomainError(
                "TIBURON_THREADS",
                "a whole number of at least 1",
                repr(setting),
                advice="unset it to use every core",
            )
        return int(setting)
    return processor_count()


class _Job:
    """One call: waiting parts, and the status of the others."""

    __slots__ = ("active", "error", "finished", "function", "lock", "status", "waiting")

    def __init__(self, function: Part, parts: deque[tuple[int, int]]) -> None:
        self.function = function
        self.waiting = parts
        self.lock = threading.Lock()
        # parts that workers have started and not finished
        self.active = 0
        self.status = 0
        self.error: BaseException | None = None
        # one message for each part that a worker finished
        self.finished: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Run parts until none is left; called by workers."""
        while True:
            with self.lock:
                if not self.waiting:
                    return
                begin, end = self.waiting.popleft()
                self.active += 1
            status = 0
            error: BaseException | None = None
            try:
                status = self.function(begin, end)
            # any exception is re-raised in the calling thread
            except BaseException as raised:
                error = raised
            with self.lock:
                self.status |= status
                if error is not None:
                    self.error = self.error or error
                    self.waiting.clear()
                self.active -= 1
            self.finished.put(None)
            del error

    def share(self, jobs: SimpleQueue[_Job | None]) -> int:
        """Notify workers, run parts until none is left, wait for the workers; for the caller."""
        status = 0
        # KeyboardInterrupt may be raised at any moment, also before the first part
        try:
            for _ in range(len(self.waiting) - 1):
                jobs.put(self)
            while True:
                with self.lock:
                    if not self.waiting:
                        break
                    begin, end = self.waiting.popleft()
                status |= self.function(begin, end)
            while self.active:
                self.finished.get()
        except BaseException:
            self._withdraw()
            raise
        finally:
            # workers may hold this job for a while; release the arrays that the function refers to
            del self.function
            error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                # break the reference cycle between the error and this frame
                del error
        return status | self.status

    def _withdraw(self) -> None:
        """Cancel waiting parts and wait for running ones: they write into the caller's arrays."""
        with self.lock:
            self.waiting.clear()
        while self.active:
            try:
                self.finished.get()
            except KeyboardInterrupt:
                # the first one is being raised already
                continue


class _Pool:
    """Workers, started on demand."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._stopped = False

    def require(self, count: int) -> None:
        """Start workers until there are `count`, if the system allows."""
        # nearly every call returns here, without the lock
        if len(self._workers) >= count or self._stopped:
            return
        with self._lock:
            previous = threading.stack_size(_STACK_SIZE)
            try:
                while len(self._workers) < count and not self._stopped:
                    name = f"tiburon-{len(self._workers) + 1}"
                    worker = threading.Thread(target=_serve, args=(self,), name=name, daemon=True)
                    worker.start()
                    self._workers.append(worker)
            except RuntimeError:
                # no more threads available: existing workers and the caller do the work
                pass
            finally:
                threading.stack_size(previous)

    def stop(self) -> None:
        """Stop the workers; later calls run in the calling thread."""
        with self._lock:
            self._stopped = True
            workers, self._workers = self._workers, []
        for _ in workers:
            self.jobs.put(None)
        for worker in workers:
            worker.join(_EXIT_TIMEOUT)


class _ThreadState(threading.local):
    """Whether the current thread is inside a part."""

    inside = False


_thread_state = _ThreadState()
_pool = _Pool()


def _serve(pool: _Pool) -> None:
    """Run a worker."""
    _thread_state.inside = True
    while True:
        job = pool.jobs.get()
        if job is None:
            return
        job.work()
        # do not keep the arrays of this job alive while waiting
        del job


def _reset_after_fork() -> None:
    """Drop the workers, which do not exist in a forked child."""
    global _pool
    _pool = _Pool()


def _stop_at_exit() -> None:
    _pool.stop()


at_fork(in_child=_reset_after_fork)
atexit.register(_stop_at_exit)


def run_in_parts(function: Part, count: int, *, threads: int, granule: int = 1) -> int:
    """Run a function over a range of cases, split over threads.

    A nested call runs in the current thread.

    Args:
        function: Called as function(begin, end) for each part, from several threads at once.
        count: Number of cases.
        threads: Number of parts, one of them for the calling thread; fewer if there are not enough
            granules.
        granule: Cases that stay together: parts start at multiples of it.

    Returns:
        Bitwise or of the returned statuses; 0 without cases.

    Raises:
        BaseException: The first one that the function raised, after all started parts finished.
    """
    if count <= 0:
        return 0
    granules = -(-count // granule)
    parts = min(threads, granules)
    if parts <= 1 or _thread_state.inside:
        return function(0, count)
    borders = [granules * part // parts * granule for part in range(parts)]
    job = _Job(function, deque(zip(borders, [*borders[1:], count], strict=True)))
    pool = _pool
    pool.require(parts - 1)
    try:
        _thread_state.inside = True
        return job.share(pool.jobs)
    finally:
        _thread_state.inside = False
