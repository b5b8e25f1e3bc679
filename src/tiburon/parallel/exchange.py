"""How parts of a robot exchange messages; between threads of this process here.

`tiburon.parallel.mpi_ranks` does so between MPI ranks.

All processes run the same script. In each exchange every process contributes the messages of its
parts and receives those of all others: an all-gather, never a sum, whose order would depend on the
number of processes.
"""

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, TypeVar

import numpy as np

from tiburon.argument_checks import at_least
from tiburon.arguments import public
from tiburon.arrays import Array
from tiburon.errors import DomainError, PartnerError, RunInterruptedError, shown
from tiburon.operating_system import cpu_count
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.partitioned import CURRENT_SESSION

T = TypeVar("T")


def checked_patience(given: float) -> float:
    """Return a patience [s]; raise DomainError unless it is positive and finite."""
    try:
        found = float(given)
    except (TypeError, ValueError):
        found = float("nan")
    if not 0.0 < found < float("inf"):
        raise DomainError("patience", "a time above 0 [s]", shown(given))
    return found


def carried_out(session: Any, call: Callable[[], Trajectory]) -> Trajectory:
    """Carry out the run of one process, with its messages."""
    token = CURRENT_SESSION.set(session)
    try:
        run = call()
    except RunInterruptedError as stop:
        stop.run.messages = session.messages
        raise
    finally:
        CURRENT_SESSION.reset(token)
    run.messages = session.messages
    return run


# -- threads --------------------------------------------------------------------------------------


class _Meeting:
    """Where threads put their messages."""

    def __init__(self, size: int, patience: float) -> None:
        self.size, self.patience = size, patience
        self.barrier = threading.Barrier(size)
        self.texts = [""] * size
        # one buffer is read while the other is written
        self.buffers: list[Array] = [np.zeros(0), np.zeros(0)]
        self.arrived = [0] * size
        self.lock = threading.Lock()
        self.compiling = threading.Lock()

    def wait(self, rank: int) -> None:
        self.arrived[rank] += 1
        try:
            self.barrier.wait(self.patience)
        except threading.BrokenBarrierError:
            latest = max(self.arrived)
            late = [k for k, count in enumerate(self.arrived) if count < latest]
            who = ", ".join(f"thread {k}" for k in late) or "a thread"
            raise PartnerError(
                f"{who} did not answer for {self.patience:g} s, or ended with an error"
            ) from None

    def buffer(self, turn: int, size: int) -> Array:
        with self.lock:
            if len(self.buffers[turn]) < size:
                self.buffers[turn] = np.zeros(size)
            return self.buffers[turn]


class _Thread:
    """One thread among its partners."""

    words = "thread"

    def __init__(self, meeting: _Meeting, rank: int) -> None:
        self.rank, self.size = rank, meeting.size
        self._meeting, self._turn = meeting, 0
        self.compiling = meeting.compiling

    def gather(self, values: Array, counts: Sequence[int]) -> None:
        """Fill in the shares of all threads."""
        meeting = self._meeting
        shared = meeting.buffer(self._turn, len(values))
        self._turn = 1 - self._turn
        start = sum(counts[: self.rank])
        own = slice(start, start + counts[self.rank])
        shared[own] = values[own]
        meeting.wait(self.rank)
        values[:] = shared[: len(values)]

    def abort(self) -> None:
        """Let nobody wait for this thread any more."""
        self._meeting.barrier.abort()

    def agree(self, text: str) -> list[str]:
        """Return the texts of all threads."""
        self._meeting.texts[self.rank] = text
        self._meeting.wait(self.rank)
        found = list(self._meeting.texts)
        self._meeting.wait(self.rank)
        return found


def thread_group(size: int, patience: float) -> list[_Thread]:
    """Return threads that are partners of each other; `patience` as of `ThreadExchange`."""
    meeting = _Meeting(size, patience)
    return [_Thread(meeting, rank) for rank in range(size)]


@public
class ThreadExchange:
    """Parts of a robot in threads of this process.

    Kernels run outside of Python's lock, so that large parts use several cores; an exchange takes
    some tens of microseconds.

    Example:
        ``tb.simulate(
        robot, 1.0, execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2)))``
    """

    @public
    def __init__(
        self, threads: int | None = None, *, hold_remote: bool = False, patience: float = 60.0
    ) -> None:
        """Prepare for threads.

        Args:
            threads: How many; by default one per part, at most one per core.
            hold_remote: Whether each part holds the states of all others during a step, instead of
                computing them too: first order, for `Penalty` and legs.
            patience: Time after which a thread that does not answer is given up [s].
        """
        self.threads = None if threads is None else at_least("threads", threads, 1)
        self.hold_remote = bool(hold_remote)
        self.patience = checked_patience(patience)

    def carry_out(
        self, session: Callable[[Any], Any], call: Callable[[], Trajectory], parts: int
    ) -> Trajectory:
        """Carry out a run in all threads; return that of the first."""
        size = self.threads or min(parts, cpu_count())
        group = thread_group(size, self.patience)
        return in_threads(
            size,
            lambda rank: carried_out(session(group[rank]), call),
            lambda rank: group[rank].abort(),
            self.patience,
        )


def in_threads(
    count: int,
    work: Callable[[int], T],
    abort: Callable[[int], None],
    patience: float | None = None,
) -> T:
    """Do the parts of some work in threads, the first of them in this one; return what it found.

    Args:
        count: Number of parts.
        work: Does the part of a number.
        abort: Called with the number of a part that failed, so that nobody waits for it.
        patience: How long to wait for each other thread at the end [s]; for ever by default.

    Raises:
        BaseException: What a part raised; that of a lost partner only where there is no other.
    """
    found: list[Any] = [None] * count

    def attempt(number: int) -> None:
        try:
            found[number] = work(number)
        except BaseException as error:
            found[number] = error
            abort(number)

    others = [
        threading.Thread(target=copy_context().run, args=(attempt, number), daemon=True)
        for number in range(1, count)
    ]
    for other in others:
        other.start()
    attempt(0)
    for other in others:
        other.join(patience)
    errors = [one for one in found if isinstance(one, BaseException)]
    own = [error for error in errors if not isinstance(error, PartnerError)]
    if errors:
        raise (own or errors)[0]
    first: T = found[0]
    return first
