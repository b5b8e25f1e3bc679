"""Ticks of one robot on several processes: each has a clock of its own, all take the same steps.

Before each tick all processes receive the requests of the first one: its commands, parameters,
jumps and pauses. So they take the same steps with the same bits; commands given to another process
have no effect. With the same message each process reports how many of its ticks were late.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.drive.tick_memory import CATCH_UP, TickMemory, Word
from tiburon.drive.tick_python import DONE, clear_counts, count, pause, tick, wait
from tiburon.errors import PartnerError

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
            memory.state[:] = state
            memory.clock[DONE] = state[-1]
            words[Word.STATUS] = 0
            words[Word.STATE_SEEN] = stated
        if posted != words[Word.POST_SEEN]:
            memory.numbers[self._shared] = numbers[self._shared]
            words[Word.POST_SEEN] = posted
        return bool(moved)

    def _read_posts(self) -> None:
        """Copy what was posted here, unless it is being written."""
        memory = self._memory
        for k, (word, given, kept) in enumerate(
            (
                (Word.POST_SEQ, memory.posted, self._posted),
                (Word.STATE_SEQ, memory.posted_state, self._state),
            )
        ):
            sequence = int(memory.words[word])
            if sequence % 2 == 0:
                copied = given.copy()
                if sequence == int(memory.words[word]):
                    kept[:] = copied
                    self._sequences[k] = sequence

    @property
    def ticks(self) -> tuple[PartnerTicks, ...]:
        """Timing of all processes."""
        return tuple(
            PartnerTicks(rank, int(row[0]), int(row[1]), int(row[2]), 1e-9 * float(row[3]))
            for rank, row in enumerate(self.statistics)
        )


def run_ticks_together(
    memory: TickMemory, advance: Callable[[], bool], partners: TickPartners
) -> None:
    """Run ticks by the wall clock until the first process stops, or a partner is lost.

    Args:
        memory: The shared memory.
        advance: Computes the steps of one tick into `memory.found`; False after divergence.
        partners: The other processes.
    """
    words, requested = memory.words, partners.requested
    try:
        partners.agree()
        due = time.monotonic_ns()
        while not requested[Word.STOP] and not partners.session.lost:
            stands = bool(requested[Word.PAUSED] or words[Word.STATUS])
            while not stands and (now := time.monotonic_ns()) < due:
                wait(memory, now, due - now)
            late = time.monotonic_ns() - due
            moved = partners.agree()
            if words[Word.CLEAR] != words[Word.CLEAR_SEEN]:
                clear_counts(memory)
            if requested[Word.STOP]:
                return
            if requested[Word.PAUSED] or words[Word.STATUS]:
                pause(memory, advance, moved, requested[Word.STEPS_WANTED])
                # the schedule restarts: a pause is not a delay
                due = time.monotonic_ns()
                continue
            if stands:
                late = 0
            now = time.monotonic_ns()
            count(memory, late)
            if late > CATCH_UP:
                words[Word.LOST] += late
                words[Word.SKIPPED] += late // requested[Word.PERIOD]
                due = now
            tick(memory, advance, late)
            length = time.monotonic_ns() - now
            words[Word.BUSY] += length
            words[Word.MAX_BUSY] = max(int(words[Word.MAX_BUSY]), length)
            due += requested[Word.PERIOD]
    except PartnerError as error:
        partners.session.lost = str(error)
        words[Word.STATUS] = 1
