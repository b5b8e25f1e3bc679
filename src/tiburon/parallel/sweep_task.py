"""Tasks of a sweep: what a worker does, and what it returns, which is never more than a receipt.

A worker notes each attempt in the store before it begins. A worker that crashes leaves its note, so
that crashes are counted whatever runs the tasks and however often it repeats them on its own.
"""

import os
import secrets
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiburon.errors import RunFileError
from tiburon.parallel.identity import Identity, differences, identity, worker_name
from tiburon.parallel.receipt import Receipt
from tiburon.parallel.sweep_cases import LOST, SWEEP_STATUSES, BlockResult, SweepPlan, empty_result
from tiburon.parallel.sweep_store import ATTEMPTS, SweepStore


class Task(NamedTuple):
    """One piece of work: a block, or a trial of some of its cases."""

    store: str
    session: str
    block: int
    pieces: tuple[tuple[int, int], ...]
    """Ranges of cases that are simulated one after the other."""

    lost: tuple[int, ...]
    """Cases that are left out, because they killed their workers."""

    is_probe: bool
    """Whether the cases are computed to see whether the worker survives, and nothing is written."""

    allowed: int
    """Attempts that may be begun before the task counts as the cause of crashes."""

    expected: Identity
    """Identity that the worker must have."""

    threads: int | None

    @property
    def name(self) -> str:
        """Name of the task among those of a session."""
        span = f"{self.pieces[0][0]}-{self.pieces[-1][1]}" if self.pieces else "none"
        return f"{self.block}.{span}.{'trial' if self.is_probe else 'block'}"


class Refusal(NamedTuple):
    """A worker whose results would differ."""

    worker: str
    problem: str


class Deaths(NamedTuple):
    """A task that was not begun again: earlier attempts ended with their workers."""

    attempts: int


class Probed(NamedTuple):
    """A trial that the worker survived."""

    seconds: float


Answer = Receipt | Refusal | Deaths | Probed

_one_at_a_time = threading.Lock()
"""A worker computes one block at a time, with all of its threads."""


def perform(task: Task, plan: SweepPlan) -> Answer:
    """Perform a task in this process.

    Raises:
        RunFileError: If the store cannot be read or written.
        CaseError: If a case raises an error.
    """
    with _one_at_a_time:
        mine = identity()
        problem = differences(task.expected, mine)
        if problem:
            return Refusal(worker_name(), problem)
        store = opened_store(task.store, task.session)
        if not task.is_probe:
            receipt = store.receipt(task.block)
            if store.is_finished(receipt):
                assert receipt is not None
                return receipt
        notes = store.path / ATTEMPTS / task.session / task.name
        begun = _begun(notes)
        if begun >= task.allowed:
            return Deaths(begun)
        note = _note(store.path, notes)
        try:
            answer = _compute(task, plan, store, mine, begun + 1)
        except BaseException:
            # the worker is alive: its attempt does not count as a crash
            note.unlink(missing_ok=True)
            raise
        shutil.rmtree(notes, ignore_errors=True)
        return answer


def _compute(
    task: Task, plan: SweepPlan, store: SweepStore, mine: Identity, attempts: int
) -> Answer:
    started, clock = time.time(), time.perf_counter()
    header = store.header
    first, stop = store.block_range(task.block)
    whole = empty_result(header.layout, stop - first)
    for a, b in task.pieces:
        part = plan.compute(header.design, range(a, b), header.layout, task.threads)
        if not task.is_probe:
            _insert(whole, part, a - first)
    if task.is_probe:
        return Probed(time.perf_counter() - clock)
    for case in task.lost:
        whole.codes[case - first] = SWEEP_STATUSES.index(LOST)
        whole.messages[case] = "lost: every worker that ran it ended"
    files = store.write(task.block, whole)
    codes, counts = np.unique(whole.codes, return_counts=True)
    outcomes = {SWEEP_STATUSES[k]: int(n) for k, n in zip(codes, counts, strict=True)}
    receipt = Receipt(
        task.block,
        first,
        stop,
        files,
        outcomes,
        {str(case): text[:500] for case, text in whole.messages.items()},
        time.perf_counter() - clock,
        started,
        worker_name(),
        mine,
        attempts,
        task.session,
    )
    store.write_receipt(receipt)
    return receipt


def _insert(whole: BlockResult, part: BlockResult, start: int) -> None:
    """Write results of some cases to their places."""
    stop = start + len(part.codes)
    for name, values in part.arrays.items():
        whole.arrays[name][start:stop] = values
    whole.codes[start:stop] = part.codes
    whole.end_times[start:stop] = part.end_times
    whole.messages.update(part.messages)


_stores: dict[tuple[str, str], SweepStore] = {}


def opened_store(path: str, session: str) -> SweepStore:
    """Return a store as it is in a session; a worker reads its header once."""
    key = (path, session)
    if key not in _stores:
        _stores.clear()
        _stores[key] = SweepStore.open(Path(path))
    return _stores[key]


def _begun(notes: Path) -> int:
    try:
        return len(os.listdir(notes))
    except FileNotFoundError:
        return 0


def _note(store: Path, notes: Path) -> Path:
    """Note that an attempt begins; return the path of the note."""
    note = notes / secrets.token_hex(4)
    try:
        notes.mkdir(parents=True, exist_ok=True)
        with open(note, "x", encoding="utf-8") as file:
            file.write(worker_name())
        return note
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise RunFileError(
            store, f"cannot be written ({reason}); make room or check the directory"
        ) from error


def forget_session(store: Path, session: str) -> None:
    """Remove the notes of a session."""
    shutil.rmtree(store / ATTEMPTS / session, ignore_errors=True)


def forget_stores() -> None:
    """Forget opened stores: they may have changed."""
    _stores.clear()


def halves(first: int, stop: int) -> Sequence[tuple[int, int]]:
    """Split a range of cases."""
    middle = (first + stop) // 2
    return [(first, middle), (middle, stop)]
