"""Threads for big batches: a range of cases split over worker threads that stay alive.

Native code releases Python's global lock, so plain threads use all cores. The calling thread takes
a share of the work itself and also what no worker has begun, so a call never waits for a free
worker: several threads may call at once, and with no workers at all everything still gets done.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from tiburon.errors import DomainError

Part = Callable[[int, int], int]
"""Computes the cases begin <= k < end and returns a status, 0 if all is well."""

# room for the work arrays of long mechanisms, which some systems' default for threads lacks
_STACK_SIZE = 16 << 20
# a worker inside a part ends soon; one that does not must not keep the process from ending
_EXIT_PATIENCE = 2.0


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
    # Python 3.13 and later: also knows the -X cpu_count option
    count_usable = getattr(os, "process_cpu_count", None)
    if count_usable is not None:
        return count_usable() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Job:
    """One call: parts waiting to be begun, and what came of the others."""

    __slots__ = ("active", "error", "finished", "function", "lock", "status", "waiting")

    def __init__(self, function: Part, parts: deque[tuple[int, int]]) -> None:
        self.function = function
        self.waiting = parts
        self.lock = threading.Lock()
        # parts that workers have begun and not ended
        self.active = 0
        self.status = 0
        self.error: BaseException | None = None
        # one message for each part a worker ended
        self.finished: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Take parts until none is left; for workers."""
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
            # whatever it is, it belongs to the caller
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
        """Call workers, take parts until none is left, wait for the workers; for the caller."""
        status = 0
        # an interrupt from the keyboard may come at any moment, also before the first part
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
            # workers may hold this job until they look at it again; arrays must not wait for that
            del self.function
            error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                # the error holds this frame, which must not hold the error
                del error
        return status | self.status

    def _withdraw(self) -> None:
        """Begin no more parts, and wait for those begun: they write into the caller's arrays."""
        with self.lock:
            self.waiting.clear()
        while self.active:
            try:
                self.finished.get()
            except KeyboardInterrupt:
                # the first one is on its way already
                continue


class _Pool:
    """Workers, started when first needed and never more than were ever asked for at once."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._stopped = False

    def require(self, count: int) -> None:
        """Have at least so many workers, if the system lets us."""
        # this look without the lock is what nearly every call gets by with
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
                # no more threads to be had: those there are, and the caller, do it all
                pass
            finally:
                threading.stack_size(previous)

    def stop(self) -> None:
        """End the workers; later calls run in the calling thread."""
        with self._lock:
            self._stopped = True
            workers, self._workers = self._workers, []
        for _ in workers:
            self.jobs.put(None)
        for worker in workers:
            worker.join(_EXIT_PATIENCE)


class _Place(threading.local):
    """Whether the present thread is inside a part."""

    inside = False


_place = _Place()
_pool = _Pool()


def _serve(pool: _Pool) -> None:
    """Run a worker."""
    _place.inside = True
    while True:
        job = pool.jobs.get()
        if job is None:
            return
        job.work()
        # waiting for the next job must not keep the arrays of this one
        del job


def _start_over() -> None:
    """Forget the workers, which a forked child does not have."""
    global _pool
    _pool = _Pool()


def _stop_at_exit() -> None:
    _pool.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
atexit.register(_stop_at_exit)


def run_in_parts(function: Part, count: int, *, threads: int, granule: int = 1) -> int:
    """Run a function over a range of cases, split over threads.

    A call from inside a part runs in the thread it is in.

    Args:
        function: Called as function(begin, end) for each part, from several threads at once.
        count: Number of cases.
        threads: Number of parts, one of which the calling thread takes; fewer if there are not
            enough granules.
        granule: Cases that stay together: parts begin at multiples of it.

    Returns:
        Bitwise or of what the function returned; 0 without cases.

    Raises:
        BaseException: What the function raised first. All parts that were begun have ended by then.
    """
    if count <= 0:
        return 0
    granules = -(-count // granule)
    parts = min(threads, granules)
    if parts <= 1 or _place.inside:
        return function(0, count)
    borders = [granules * part // parts * granule for part in range(parts)]
    job = _Job(function, deque(zip(borders, [*borders[1:], count], strict=True)))
    pool = _pool
    pool.require(parts - 1)
    try:
        _place.inside = True
        return job.share(pool.jobs)
    finally:
        _place.inside = False
