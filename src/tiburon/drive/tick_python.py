"""The tick loop in Python: for systems without a compiler, and as a reference for machine code.

It does the same as `tick_code`, in the same order, but needs the interpreter lock, so that other
threads delay it.

A robot on several processes has such a loop in each, with a clock of its own: before each tick all
processes receive the requests of the first one (commands, parameters, jumps, pauses), and take the
same steps with the same bits. Commands given to another process have no effect. With the same
message each process reports how many of its ticks were late.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.drive.tick_memory import (
    CATCH_UP,
    LATE_BINS,
    LATE_UNIT,
    LOG_SIZE,
    MARGIN_DOWN,
    MARGIN_UP,
    MAX_SLEEP,
    NEVER_SLEEP,
    PAUSED_SLEEP,
    TickMemory,
    Word,
)
from tiburon.errors import PartnerError


class OwnRequests:
    """Requests of this process: control words as they are, posted values as they come."""

    lost = ""

    def __init__(self, memory: TickMemory) -> None:
        """Read them from the memory of the ticks."""
        self.requested, self._memory = memory.words, memory

    def agree(self) -> bool:
        """Copy posted values if they are consistent; return whether a state was among them."""
        words, steps = self._memory.words, self._memory.steps
        state = _posted(self._memory, Word.STATE_SEQ, int(words[Word.STATE_SEEN]))
        if state is not None:
            words[Word.STATE_SEEN], steps.state[:] = state
            words[Word.STATUS] = 0
        numbers = _posted(self._memory, Word.POST_SEQ, int(words[Word.POST_SEEN]))
        if numbers is not None:
            words[Word.POST_SEEN], steps.numbers[:] = numbers
        return state is not None


def _posted(memory: TickMemory, word: Word, seen: int) -> tuple[int, Array] | None:
    """Return a new sequence count with its values; None if there is none, or they change now."""
    sequence = int(memory.words[word])
    if sequence == seen or sequence % 2:
        return None
    copied = (memory.posted_state if word is Word.STATE_SEQ else memory.posted).copy()
    return (sequence, copied) if sequence == int(memory.words[word]) else None


def run_ticks(memory: TickMemory, partners: "TickPartners | None" = None) -> None:
    """Run ticks by the wall clock until stopped, or until one of several processes is lost.

    Args:
        memory: Memory of the ticks.
        partners: Processes that take the steps together, which receive the requests of the first;
            None if this one takes them alone.
    """
    words, requests = memory.words, partners or OwnRequests(memory)
    requested = requests.requested
    due = time.monotonic_ns()
    try:
        while not requests.lost:
            late = _wait_until(memory, requested, due)
            moved = requests.agree()
            if words[Word.CLEAR] != words[Word.CLEAR_SEEN]:
                clear_counts(memory)
            if requested[Word.STOP]:
                return
            if requested[Word.PAUSED] or words[Word.STATUS]:
                pause(memory, moved, int(requested[Word.STEPS_WANTED]))
                # the schedule restarts: a pause is not a delay
                due = time.monotonic_ns()
                continue
            due = timed_tick(memory, due, late, int(requested[Word.PERIOD]))
    except PartnerError as error:
        assert partners is not None
        partners.session.lost = str(error)
        words[Word.STATUS] = 1


def _wait_until(memory: TickMemory, requested: Any, due: int) -> int:
    """Wait for a time [ns], unless ticks are paused or stopped; return how late it is then [ns]."""
    words = memory.words
    while not (requested[Word.PAUSED] or words[Word.STATUS] or requested[Word.STOP]):
        now = time.monotonic_ns()
        if now >= due:
            return now - due
        wait(memory, now, due - now)
    return 0


def pause(memory: TickMemory, moved: bool, wanted: int) -> None:
    """Take one single step that is due while ticks are paused, or sleep.

    An edited state is shown by a row; `wanted` single steps were requested so far.
    """
    words = memory.words
    if moved:
        write_row(memory, 0)
    if not words[Word.STATUS] and words[Word.STEPS_DONE] < wanted:
        tick(memory, 0)
        words[Word.STEPS_DONE] += 1
    else:
        time.sleep(1e-9 * PAUSED_SLEEP)


def wait(memory: TickMemory, now: int, left: int) -> None:
    """Wait for a part of the remaining time [ns]: sleep until the margin, then spin."""
    words = memory.words
    # the period may have become shorter since the margin was adapted
    most = int(words[Word.MAX_MARGIN])
    free = left - min(int(words[Word.MARGIN]), most)
    if free <= 0:
        # release the interpreter lock
        time.sleep(0.0)
        return
    part = min(free, MAX_SLEEP)
    time.sleep(1e-9 * part)
    over = time.monotonic_ns() - now - part
    # oversleeps beyond any margin are ignored
    if over <= most:
        margin = int(words[Word.MARGIN])
        step = MARGIN_UP if over > margin else -MARGIN_DOWN
        words[Word.MARGIN] = min(max(margin + step, 0), most)


def clear_counts(memory: TickMemory) -> None:
    """Clear the statistics."""
    memory.words[Word.TICKS :] = 0
    memory.bins[:] = 0
    memory.words[Word.CLEAR_SEEN] = memory.words[Word.CLEAR]


def write_row(memory: TickMemory, late: int) -> None:
    """Write a row: state, commands and lateness of the tick [ns]."""
    steps, head = memory.steps, int(memory.words[Word.HEAD])
    row = memory.ring[head % len(memory.ring)]
    n = len(steps.state) - 1
    row[0], row[1] = steps.state[n], late
    row[2 : 2 + n] = steps.state[:n]
    row[2 + n :] = steps.commands
    memory.words[Word.HEAD] = head + 1


def tick(memory: TickMemory, late: int) -> None:
    """Take the steps of one tick and write its row."""
    if memory.steps.advance(len(memory.steps.clocks)):
        write_row(memory, late)
    else:
        memory.words[Word.STATUS] = 1


def timed_tick(memory: TickMemory, due: int, late: int, period: int) -> int:
    """Take a tick that was due, with its statistics; return when the next one is due [ns]."""
    words, now = memory.words, time.monotonic_ns()
    count(memory, late)
    if late > CATCH_UP:
        words[Word.LOST] += late
        # count the ticks that are skipped
        words[Word.SKIPPED] += late // period
        due = now
    tick(memory, late)
    length = time.monotonic_ns() - now
    words[Word.BUSY] += length
    words[Word.MAX_BUSY] = max(int(words[Word.MAX_BUSY]), length)
    return due + period


def count(memory: TickMemory, late: int) -> None:
    """Count a tick by its lateness [ns]."""
    words = memory.words
    memory.bins[min(late // LATE_UNIT, LATE_BINS - 1)] += 1
    tick = int(words[Word.TICKS])
    words[Word.TICKS] = tick + 1
    words[Word.MAX_LATENESS] = max(int(words[Word.MAX_LATENESS]), late)
    before = int(words[Word.WAS_LATE])
    words[Word.WAS_LATE] = int(late > words[Word.LIMIT])
    if late > words[Word.LIMIT]:
        # one delay makes several ticks late: delays begin after a tick that was on time
        words[Word.DELAYS] += 1 - before
        # spinning uses up the time slice on a busy processor: halve the margin
        if words[Word.MARGIN] < NEVER_SLEEP:
            words[Word.MARGIN] //= 2
        misses = int(words[Word.MISSES])
        memory.log[misses % LOG_SIZE] = tick, late
        words[Word.MISSES] = misses + 1


WORDS = (Word.STOP, Word.PAUSED, Word.STEPS_WANTED, Word.PERIOD, Word.CLEAR)
"""Control words that all processes take from the first."""

SHARED_STATISTICS = (Word.TICKS, Word.MISSES, Word.SKIPPED, Word.MAX_LATENESS)
"""Statistics that each process sends to the others."""


class PartnerTicks(NamedTuple):
    """Timing of the ticks of one process, as sent before the last tick."""

    rank: int
    ticks: int
    deadline_misses: int
    """Ticks that began later than the limit."""

    skipped: int
    """Ticks skipped with lost wall-clock time."""

    max_lateness: float
    """Largest lateness [s]."""


class TickPartners:
    """The processes that take the steps of one robot together.

    Attributes:
        session: The parts of this process.
    """

    def __init__(self, session: Any, memory: TickMemory, own: Sequence[bool]) -> None:
        """Prepare messages.

        Args:
            session: The parts of this process, with partners.
            memory: Memory of the ticks here.
            own: For each of the posted numbers, whether it belongs to this process alone, as
                addresses do.
        """
        self.session, self._memory = session, memory
        self._shared = ~np.asarray(own, dtype=bool)
        self._posted, self._state = memory.posted.copy(), memory.posted_state.copy()
        self._sequences = [0, 0]
        self._size = len(WORDS) + 2 + len(self._posted) + len(self._state)
        endpoint = session.endpoint
        self._counts = [len(SHARED_STATISTICS)] * endpoint.size
        self._counts[0] += self._size
        self.statistics = np.zeros((endpoint.size, len(SHARED_STATISTICS)))
        self.requested = dict.fromkeys(WORDS, 0)
        """Control words of the first process, the same in all: its own may change meanwhile."""

    def agree(self) -> bool:
        """Take over the requests of the first process; return whether the state was set anew.

        Raises:
            PartnerError: If a process does not answer.
        """
        memory, words, endpoint = self._memory, self._memory.words, self.session.endpoint
        if endpoint.rank == 0:
            self._read_posts()
        values = np.zeros(sum(self._counts))
        place = sum(self._counts[: endpoint.rank])
        if endpoint.rank == 0:
            known = [float(words[word]) for word in WORDS] + [float(x) for x in self._sequences]
            values[: self._size] = np.concatenate([known, self._posted, self._state])
            place = self._size
        values[place : place + len(SHARED_STATISTICS)] = [words[word] for word in SHARED_STATISTICS]
        endpoint.gather(values, self._counts)
        self.statistics = values[self._size :].reshape(-1, len(SHARED_STATISTICS)).copy()
        left = iter(np.split(values[: self._size], np.cumsum([len(WORDS), 2, len(self._posted)])))
        for word, value in zip(WORDS, next(left), strict=True):
            self.requested[word] = int(value)
            if endpoint.rank:
                words[word] = int(value)
        posted, stated = (int(x) for x in next(left))
        numbers, state = next(left), next(left)
        moved = stated != words[Word.STATE_SEEN]
        if moved:
            memory.steps.state[:] = state
            words[Word.STATUS] = 0
            words[Word.STATE_SEEN] = stated
        if posted != words[Word.POST_SEEN]:
            memory.steps.numbers[self._shared] = numbers[self._shared]
            words[Word.POST_SEEN] = posted
        return bool(moved)

    def _read_posts(self) -> None:
        """Copy what was posted here, unless it is being written."""
        kept = (Word.POST_SEQ, self._posted), (Word.STATE_SEQ, self._state)
        for k, (word, values) in enumerate(kept):
            found = _posted(self._memory, word, self._sequences[k])
            if found is not None:
                self._sequences[k], values[:] = found

    @property
    def lost(self) -> str:
        """Why a process is lost; empty while all are there."""
        return str(self.session.lost or "")

    @property
    def ticks(self) -> tuple[PartnerTicks, ...]:
        """Timing of all processes."""
        return tuple(
            PartnerTicks(rank, int(row[0]), int(row[1]), int(row[2]), 1e-9 * float(row[3]))
            for rank, row in enumerate(self.statistics)
        )
