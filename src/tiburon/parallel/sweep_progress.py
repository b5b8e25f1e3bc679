"""Progress of sweeps: counted from receipts, shown as a bar or a table."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.parallel.driver_lock import Driver, Part, drivers_of
from tiburon.parallel.receipt import Receipt
from tiburon.parallel.sweep_store import SweepStore
from tiburon.record import record
from tiburon.simulation.progress import FIRST_SECOND, INTERVAL

MAX_MESSAGES = 1000
"""Messages of unsuccessful cases that are kept, about."""


class Tally:
    """Counts of a driver: what is done, by whom, and what went wrong.

    Attributes:
        blocks: Blocks of this driver.
        blocks_done: Blocks that have receipts.
        cases: Cases of these blocks.
        cases_done: Cases that have receipts.
        fresh: Cases that were finished since the driver began.
        outcomes: Number of cases by status.
        workers: Blocks, cases and seconds by worker, of blocks finished since the driver began.
        retries: Tasks that were handed out again, because a worker was lost.
        deaths: Attempts that ended with their workers.
        refused: Workers that were refused, and why.
        title: What runs the tasks.
    """

    def __init__(self, blocks: int, cases: int) -> None:
        """Begin to count."""
        self.blocks, self.cases = blocks, cases
        self.blocks_done = self.cases_done = self.fresh = 0
        self.outcomes: dict[str, int] = {}
        self.workers: dict[str, tuple[int, int, float]] = {}
        self.retries = self.deaths = 0
        self.refused: dict[str, str] = {}
        self.title = ""
        self.started = time.monotonic()

    @classmethod
    def of(
        cls, store: SweepStore, part: Part = (0, 1), *, verify: bool = False
    ) -> tuple["Tally", Any]:
        """Return the counts of a store, and which blocks are finished.

        Args:
            store: The store, of which this process is the driver.
            part: The share of the blocks that counts.
            verify: Whether to compare checksums first; receipts of damaged blocks are removed.
        """
        mine = range(part[0], store.block_count, part[1])
        size, count = store.header.block_size, store.header.design.count
        cases = len(mine) * size
        if len(mine) and mine[-1] == store.block_count - 1:
            cases -= store.block_count * size - count
        tally = cls(len(mine), cases)
        finished = np.zeros(store.block_count, dtype=bool)
        if verify:
            # workers look for receipts, too, and trust them
            for block in store.receipt_numbers():
                if block in mine and store.receipt(block, verify=True) is None:
                    store.remove_receipt(block)
        for block, receipt in store.receipts():
            if store.is_finished(receipt):
                finished[block] = True
                if block in mine:
                    tally._count(receipt)
        return tally, finished

    def _count(self, receipt: Receipt) -> None:
        self.blocks_done += 1
        self.cases_done += receipt.stop - receipt.first
        for status, number in receipt.outcomes.items():
            self.outcomes[status] = self.outcomes.get(status, 0) + number

    def add(self, receipt: Receipt) -> None:
        """Count a block that was finished now."""
        self._count(receipt)
        cases = receipt.stop - receipt.first
        self.fresh += cases
        blocks, done, seconds = self.workers.get(receipt.worker, (0, 0, 0.0))
        self.workers[receipt.worker] = (blocks + 1, done + cases, seconds + receipt.seconds)

    @property
    def rate(self) -> float:
        """Cases per second since the driver began."""
        return self.fresh / max(1e-9, time.monotonic() - self.started)


@record(eq=False)
class SweepProgress:
    """How far a sweep is; `print` shows it."""

    path: Path
    robot: str
    blocks: int
    blocks_done: int
    cases: int
    cases_done: int
    outcomes: dict[str, int]
    """Number of finished cases by status."""

    rate: float
    """Cases per second of wall-clock time while blocks were computed; NaN before the first."""

    workers: dict[str, tuple[int, float]]
    """Finished cases, and cases per second of its own time, by worker."""

    retries: int
    """Attempts beyond the first of finished blocks."""

    damaged: int
    """Receipts that do not count: damaged, or with files that changed or are gone."""

    drivers: tuple[Driver, ...]
    """Drivers that are alive."""

    messages: dict[int, str]
    """Messages of unsuccessful cases by number; the first ones of each block."""

    @property
    def is_complete(self) -> bool:
        """Whether all blocks are finished."""
        return self.blocks_done == self.blocks

    @property
    def remaining(self) -> float:
        """Time until the end at the present rate [s]; NaN where that is unknown."""
        left = self.cases - self.cases_done
        return 0.0 if not left else left / self.rate if self.rate > 0.0 else float("nan")

    @property
    def slowest(self) -> str | None:
        """Name of the worker with the fewest cases per second; None before the first block."""
        return min(self.workers, key=lambda name: self.workers[name][1], default=None)

    @property
    def summary(self) -> str:
        """The progress as text, one line for each subject."""
        return "\n".join(f"{name:<11}{text}" for name, text in self.lines())

    def lines(self) -> list[tuple[str, str]]:
        """Return the subjects and the text of each."""
        share = self.cases_done / self.cases if self.cases else 1.0
        outcomes = ", ".join(f"{count} {status}" for status, count in sorted(self.outcomes.items()))
        found = [
            ("sweep", f"{self.path} ({self.robot})"),
            ("blocks", f"{self.blocks_done} of {self.blocks}"),
            ("cases", f"{self.cases_done} of {self.cases} ({share:.1%})"),
            ("outcomes", outcomes or "none yet"),
        ]
        if self.workers:
            count = len(self.workers)
            noun = "worker" if count == 1 else "workers"
            found.append(("speed", f"{self.rate:.4g} cases/s by {count} {noun}"))
            slowest = self.slowest
            if slowest is not None and count > 1:
                fastest = max(rate for _, rate in self.workers.values())
                rate = self.workers[slowest][1]
                found.append(
                    ("slowest", f"{slowest}, {rate:.4g} cases/s (the fastest has {fastest:.4g})")
                )
        left = "none" if self.is_complete else duration_text(self.remaining)
        found.append(("remaining", left))
        found.append(("retries", str(self.retries)))
        if self.damaged:
            found.append(("damaged", f"{self.damaged} blocks, which resume computes again"))
        alive = "; ".join(map(str, self.drivers))
        found.append(("driver", alive or ("none" if self.is_complete else "none: resume it")))
        return found

    def __str__(self) -> str:
        return self.summary


def duration_text(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    if not np.isfinite(seconds):
        return "unknown"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def progress_of_store(store: SweepStore) -> SweepProgress:
    """Return the progress of a sweep, from its receipts alone."""
    blocks_done = cases_done = 0
    outcomes: dict[str, int] = {}
    workers: dict[str, tuple[int, float]] = {}
    messages: dict[int, str] = {}
    spans: list[tuple[float, float]] = []
    retries = valid = 0
    for _, receipt in store.receipts():
        valid += 1
        cases = receipt.stop - receipt.first
        cases_done += cases
        blocks_done += store.is_finished(receipt)
        for status, number in receipt.outcomes.items():
            outcomes[status] = outcomes.get(status, 0) + number
        done, seconds = workers.get(receipt.worker, (0, 0.0))
        workers[receipt.worker] = (done + cases, seconds + receipt.seconds)
        spans.append((receipt.started, receipt.started + receipt.seconds))
        retries += receipt.attempts - 1
        if len(messages) < MAX_MESSAGES:
            messages |= {int(case): text for case, text in receipt.messages.items()}
    busy = _covered(spans)
    return SweepProgress(
        store.path,
        store.header.robot,
        store.block_count,
        blocks_done,
        store.header.design.count,
        cases_done,
        outcomes,
        cases_done / busy if busy > 0.0 else float("nan"),
        {name: (done, done / max(1e-9, seconds)) for name, (done, seconds) in workers.items()},
        retries,
        store.receipt_count() - valid,
        tuple(driver for driver in drivers_of(store.path) if driver.is_alive),
        dict(sorted(messages.items())),
    )


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of a union of intervals: pauses between sessions do not count."""
    total, end = 0.0, -np.inf
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


class SweepBar:
    """A bar with blocks, cases per second and remaining time; quiet in its first second."""

    def __init__(self, title: str) -> None:
        """Remember the title."""
        self._title = title
        self._started = self._shown = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, tally: Tally) -> None:
        """Show how far the sweep is."""
        now = time.perf_counter()
        if self._bar is None:
            if now - self._started < FIRST_SECOND or tally.blocks_done >= tally.blocks:
                return
            self._open(tally)
        elif now - self._shown < INTERVAL:
            return
        self._shown = now
        lost = sum(tally.outcomes.get(status, 0) for status in ("diverged", "lost", "failed"))
        trouble = f"{lost} unsuccessful" if lost else ""
        if tally.retries:
            trouble += f" {tally.retries} retries"
        self._bar.update(
            self._task,
            completed=tally.cases_done,
            speed=f"{tally.rate:.4g} cases/s",
            trouble=trouble.strip(),
        )

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _open(self, tally: Tally) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("cases"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            TextColumn("[red]{task.fields[trouble]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(
            self._title, total=tally.cases, completed=tally.cases_done, speed="", trouble=""
        )
        self._bar.start()
        if tally.title:
            # with the address of the dashboard, where there is one
            self._bar.console.print(f"computed by {tally.title}", markup=False)
