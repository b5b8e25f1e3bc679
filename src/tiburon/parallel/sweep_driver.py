"""The driver of a sweep: dispatches blocks, counts crashes, isolates their causes.

It keeps no results.

Its memory holds one byte of each block and the tasks that are handed out, two per worker; it does
not grow with the number of cases.
"""

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tiburon.errors import CaseError, RunFileError, TiburonError
from tiburon.parallel.driver_lock import DriverLock, Part
from tiburon.parallel.identity import Identity
from tiburon.parallel.receipt import Receipt
from tiburon.parallel.sweep_progress import Tally
from tiburon.parallel.sweep_store import SweepStore
from tiburon.parallel.sweep_task import Deaths, Probed, Refusal, Task, forget_session, halves
from tiburon.parallel.workers import AnswerQueue, WorkerLostError, Workers
from tiburon.results.store import remove_unfinished
from tiburon.simulation.progress import Interruption

ALLOWED_DEATHS = 3
"""Attempts of a block, or of a single case, that may end with their workers."""

POLL_INTERVAL = 0.2
"""Time between two looks at the clock while waiting for workers [s]."""


class _Isolation:
    """Search for the cases of a block that kill their workers."""

    def __init__(self, first: int, stop: int) -> None:
        self.waiting = 0
        """Trials that are handed out or queued."""
        self.good: list[tuple[int, int]] = []
        self.lost: list[int] = []
        self.ranges = list(halves(first, stop)) if stop - first > 1 else [(first, stop)]


class _Driver:
    """One run of a driver."""

    def __init__(
        self,
        store: SweepStore,
        workers: Workers,
        lock: DriverLock,
        pending: Iterator[int],
        expected: Identity,
        threads: int | None,
        tally: Tally,
        report: Callable[[Tally], None] | None,
    ) -> None:
        self.store, self.workers, self.lock = store, workers, lock
        self.pending, self.expected, self.threads = pending, expected, threads
        self.tally, self.report = tally, report
        self.answers: AnswerQueue = queue.SimpleQueue()
        self.again: deque[Task] = deque()
        self.running = 0
        self.isolations: dict[int, _Isolation] = {}
        self.problem: Exception | None = None
        """The error that ends the sweep once running blocks ended."""
        self.is_exhausted = False

    def run(self, end: float | None, stop: Callable[[], bool]) -> None:
        """Hand out blocks until all are done, the time is over, or the user stops."""
        ended = False
        while True:
            over = ended or self.problem is not None or stop()
            if end is not None and time.monotonic() >= end:
                over = True
            if over:
                # blocks that run are finished, no more are begun
                ended = True
            else:
                self._fill()
            if not self.running and (ended or (self.is_exhausted and not self.again)):
                break
            try:
                task, answer = self.answers.get(timeout=POLL_INTERVAL)
            except queue.Empty:
                self._check_workers()
            else:
                self.running -= 1
                self._take(task, answer)
                if not over and self.report is not None:
                    self.report(self.tally)
            self.lock.beat()
        if self.problem is not None:
            raise self.problem

    def _fill(self) -> None:
        while self.running < self.workers.capacity():
            if self.again:
                task = self.again.popleft()
            else:
                block = next(self.pending, None)
                if block is None:
                    self.is_exhausted = True
                    return
                task = self._task(block)
            self.running += 1
            self.workers.submit(task, lambda task, answer: self.answers.put((task, answer)))

    def _check_workers(self) -> None:
        """End the sweep if all workers were refused; otherwise wait for workers to come."""
        self.tally.refused |= getattr(self.workers, "refused", {})
        if not self.running and self.tally.refused and not self.workers.capacity():
            worker, problem = next(iter(self.tally.refused.items()))
            self.problem = TiburonError(
                f"sweep: all {len(self.tally.refused)} workers were refused; {worker} has "
                f"{problem}. Install the same versions there, and resume the sweep"
            )

    def _task(self, block: int) -> Task:
        return Task(
            str(self.store.path.absolute()),
            self.lock.session,
            block,
            (self.store.block_range(block),),
            (),
            False,
            ALLOWED_DEATHS,
            self.expected,
            self.threads,
        )

    def _take(self, task: Task, answer: Any) -> None:
        """Decide what follows from the answer to a task."""
        match answer:
            case Receipt():
                self.tally.add(answer)
            case Probed():
                isolation = self.isolations[task.block]
                isolation.waiting -= 1
                isolation.good += task.pieces
                self._advance(task)
            case Deaths():
                self.tally.deaths += answer.attempts
                self._isolate(task)
            case WorkerLostError():
                # notes in the store record whether the task was running
                self.tally.retries += 1
                self.again.appendleft(task)
            case Refusal():
                self.again.appendleft(task)
                self.tally.refused[answer.worker] = answer.problem
                try:
                    self.workers.refuse(answer.worker)
                except TiburonError as error:
                    self.problem = self.problem or TiburonError(f"{error}: {answer.problem}")
            case RunFileError():
                self.problem = self.problem or RunFileError(
                    self.store.path, f"{answer.problem}; {safe_blocks(self.store)}"
                )
            case CaseError() | TiburonError():
                self.problem = self.problem or answer
            case BaseException():
                self.problem = self.problem or TiburonError(
                    f"sweep: a worker failed ({type(answer).__name__}: {answer}); "
                    f"{safe_blocks(self.store)}"
                )
            case _:
                self.problem = self.problem or TiburonError(f"sweep: unknown answer {answer!r}")

    # -- cases that crash --------------------------------------------------------------------------

    def _isolate(self, task: Task) -> None:
        """Retry a task whose attempts ended with their workers."""
        first, stop = self.store.block_range(task.block)
        isolation = self.isolations.get(task.block)
        if isolation is None:
            isolation = self.isolations[task.block] = _Isolation(first, stop)
        elif not task.is_probe:
            self.problem = self.problem or TiburonError(
                f"sweep: block {task.block} (cases {first} to {stop - 1}) crashed its workers also "
                "without the cases that did so alone: it may need more memory than they have; use "
                f"smaller blocks in another sweep. {safe_blocks(self.store)}"
            )
            return
        else:
            isolation.waiting -= 1
            ((a, b),) = task.pieces
            if b - a > 1:
                isolation.ranges += halves(a, b)
            else:
                isolation.lost.append(a)
        self._advance(task)

    def _advance(self, task: Task) -> None:
        """Queue further trials of a block, or the block without the cases that crash them."""
        isolation = self.isolations[task.block]
        for a, b in isolation.ranges:
            isolation.waiting += 1
            allowed = ALLOWED_DEATHS if b - a == 1 else 1
            self.again.append(
                task._replace(pieces=((a, b),), lost=(), is_probe=True, allowed=allowed)
            )
        isolation.ranges = []
        if not isolation.waiting:
            self.again.append(
                task._replace(
                    pieces=tuple(sorted(isolation.good)),
                    lost=tuple(sorted(isolation.lost)),
                    is_probe=False,
                    allowed=2 * ALLOWED_DEATHS,
                )
            )


def safe_blocks(store: SweepStore) -> str:
    """Return which blocks of a sweep are safe, as the end of a message."""
    found = sorted(block for block, receipt in store.receipts() if store.is_finished(receipt))
    upto = next((k for k, block in enumerate(found) if block != k), len(found))
    if not found:
        return "no block is safe yet; remove the cause, and resume the sweep"
    more = f" and {len(found) - upto} more" if len(found) > upto else ""
    first = "" if not upto else "block 0" if upto == 1 else f"blocks 0 to {upto - 1}"
    if not upto:
        more = f"{len(found)} blocks"
    verb = "is" if len(found) == 1 else "are"
    return (
        f"{first}{more} of {store.block_count} {verb} safe; remove the cause, and "
        "tiburon.load_sweep(...).resume() continues with the others"
    )


def _finished(store: SweepStore, part: Part, *, verify: bool) -> Tally | None:
    """Return the counts of a share whose blocks are all on disk; None of others.

    Nothing is written: finished sweeps may be on a read-only disk.
    """
    mine = range(part[0], store.block_count, part[1])
    if sum(block in mine for block in store.receipt_numbers()) < len(mine):
        return None
    if verify and any(store.receipt(block, verify=True) is None for block in mine):
        return None
    tally, _ = Tally.of(store, part)
    return tally if tally.blocks_done == tally.blocks else None


def drive(
    store: SweepStore,
    make_workers: Callable[[], Workers],
    expected: Identity,
    *,
    part: Part = (0, 1),
    threads: int | None = None,
    budget: float | None = None,
    verify: bool = False,
    report: Callable[[Tally], None] | None = None,
) -> Tally:
    """Compute all blocks of a share that have no receipt.

    Args:
        store: The store.
        make_workers: Starts workers; called if there is something to do.
        expected: Identity that workers must have.
        part: The share of the blocks.
        threads: Native threads of each worker.
        budget: Wall-clock time after which no more blocks are begun [s].
        verify: Whether checksums of finished blocks are compared first.
        report: Called after each block.

    Raises:
        RunFileError: If another driver has the blocks, or the store cannot be written.
        CaseError: If a case raises an error.
        KeyboardInterrupt: If the user stopped the sweep.
    """
    end = None if budget is None else time.monotonic() + budget
    done = _finished(store, part, verify=verify)
    if done is not None:
        return done
    workers: Workers | None = None
    with Interruption(anywhere=True) as interruption:
        lock = DriverLock(store.path, part)
        try:
            tally, finished = Tally.of(store, part, verify=verify)
            mine = range(part[0], store.block_count, part[1])
            pending = (block for block in mine if not finished[block])
            if tally.blocks_done < tally.blocks:
                if part == (0, 1):
                    # no other driver is alive
                    remove_unfinished(store.path)
                workers = make_workers()
                tally.title = workers.title
                driver = _Driver(store, workers, lock, pending, expected, threads, tally, report)
                driver.run(end, lambda: interruption.wanted)
        finally:
            interruption.finishing = True
            if workers is not None:
                workers.close()
            forget_session(store.path, lock.session)
            lock.release()
        if interruption.wanted:
            raise KeyboardInterrupt(f"sweep {store.path}: {safe_blocks(store)}")
    return tally
