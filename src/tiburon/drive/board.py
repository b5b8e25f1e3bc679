"""Memory that the loop of ticks shares with Python: words, numbers on their way, rows, counts.

Each word has one writer. Numbers go to the loop under a sequence count: odd while they change, even
when they are whole. Rows come back in a ring that is never overwritten within seconds of its use.
"""

import ctypes
import time
from collections.abc import Sequence
from enum import IntEnum, auto
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AWAKE",
    "CATCH_UP",
    "LATE_BINS",
    "LATE_UNIT",
    "LOG_SIZE",
    "MARGIN_DOWN",
    "MARGIN_UP",
    "Board",
    "Entry",
    "Word",
]

Array = NDArray[np.float64]

LATE_UNIT = 10_000
"""Width of the bins of lateness [ns]."""

LATE_BINS = 2001
"""Bins of lateness; the last one holds all that is later than 20 ms."""

LOG_SIZE = 256
"""How many overruns are remembered one by one; a power of two."""

CATCH_UP = 100_000_000
"""Delay that ticks without pause make good [ns]; what is beyond is lost, and told."""

MARGIN_UP = 10_000
"""How much earlier the loop wakes after a sleep that was too long for its margin [ns]."""

MARGIN_DOWN = 10
"""How much later after one that was not [ns]: both balance where 1 of 1000 sleeps is too long."""

AWAKE = 1 << 62
"""Margin of a loop that never sleeps [ns]."""

RING_BYTES = 8 << 20
"""Rough size of the ring of rows."""


class Word(IntEnum):
    """Places of whole numbers; those from TICKS on are counts, which start anew together."""

    STOP = 0
    PAUSED = auto()
    STEPS_WANTED = auto()
    """Single steps asked for since the beginning."""
    STEPS_DONE = auto()
    PERIOD = auto()
    """Wall time from tick to tick [ns]."""
    POST_SEQ = auto()
    POST_SEEN = auto()
    STATE_SEQ = auto()
    STATE_SEEN = auto()
    HEAD = auto()
    """Rows written since the beginning."""
    STATUS = auto()
    """0 while all is well, 1 when a number was not finite: the robot stays where it was."""
    LIMIT = auto()
    """Lateness from which a tick is an overrun [ns]."""
    MARGIN = auto()
    """How long before a tick the loop stops sleeping and waits awake [ns]."""
    MARGIN_MOST = auto()
    """Longest margin that may be learned [ns]."""
    CLEAR = auto()
    CLEAR_SEEN = auto()
    TICKS = auto()
    OVERRUNS = auto()
    MOST_LATE = auto()
    LOST = auto()
    """Wall time given up [ns]."""
    MISSED = auto()
    """Ticks that never came because their time was given up."""
    GAPS = auto()
    """Overruns that came after a tick in time."""
    LATE_BEFORE = auto()
    """1 if the last tick was an overrun, else 0."""
    BUSY = auto()
    MOST_BUSY = auto()
    END = auto()


class Entry(IntEnum):
    """Places of addresses and sizes in the table that the loop is called with."""

    WORDS = 0
    KERNEL = auto()
    INPUTS = auto()
    OUTPUTS = auto()
    STATE = auto()
    FOUND = auto()
    CLOCK = auto()
    NUMBERS = auto()
    POSTED = auto()
    POSTED_STATE = auto()
    STAGE = auto()
    RING = auto()
    BINS = auto()
    LOG = auto()
    STATE_SIZE = auto()
    NUMBERS_SIZE = auto()
    HELD_SIZE = auto()
    RING_ROWS = auto()
    RING_STRIDE = auto()
    DONE_PLACE = auto()
    STEPS = auto()
    READ_CLOCK = auto()
    CLOCK_ID = auto()
    SLEEP = auto()


class Board:
    """The shared memory of one loop.

    Attributes:
        words: Whole numbers, places as in `Word`.
        state: Where the robot is, (*q, *v, *x) and one place that is not used, shape (n + 1,).
        found: What the kernel writes, shape (n,).
        clock: Argument of the kernel that tells times and counts.
        numbers: Commands, then parameters, as the kernel reads them.
        posted: The same as Python wants it; `posted_state` with the count of steps at its end.
        ring: Rows: steps done, lateness [ns], state, commands; shape (rows, 2 + n + commands).
        bins: Counts of ticks by lateness.
        log: Tick and lateness [ns] of the last overruns, shape (LOG_SIZE, 2).
    """

    def __init__(
        self, state: Array, held: Array, parameters: Sequence[Array], clock: Array
    ) -> None:
        """Make the memory.

        Args:
            state: Where the robot starts, shape (n,).
            held: Commands at the start, shape (commands,).
            parameters: Arrays that the kernel takes beside, each contiguous.
            clock: Argument of the kernel that tells times and counts; kept.
        """
        n, m = len(state), len(held)
        self.words = np.zeros(int(Word.END), dtype=np.int64)
        self.state = np.concatenate([state, [0.0]])
        self.found = np.zeros(n)
        self.clock = clock
        self.numbers = np.concatenate([held, *(np.ravel(p) for p in parameters)])
        self.posted = self.numbers.copy()
        self.posted_state = np.zeros(n + 1)
        self.stage = np.zeros(max(len(self.numbers), n + 1))
        stride = 2 + n + m
        rows = 1 << max(10, (RING_BYTES // (8 * stride)).bit_length() - 1)
        # written, not only promised: the loop must not wait for the system to find memory
        self.ring = np.full((rows, stride), 0.0)
        self.bins = np.zeros(LATE_BINS, dtype=np.int64)
        self.log = np.zeros((LOG_SIZE, 2), dtype=np.int64)
        self.held_size = m
        ends = np.cumsum([m, *(np.size(p) for p in parameters)]).tolist()
        self.parts = [self.numbers[a:b] for a, b in pairwise(ends)]
        """Where the kernel finds each parameter."""

    def word(self, word: Word) -> int:
        """Return the address of a word."""
        return int(self.words.ctypes.data) + 8 * int(word)

    def table(
        self, kernel: int, order: Sequence[Array], done_place: int, steps: int
    ) -> tuple[Any, ...]:
        """Return the table for the loop, first, and what must live as long as it.

        Args:
            kernel: Address of the function for one case.
            order: What the kernel reads, in its order.
            done_place: Where the clock counts steps.
            steps: Steps of a tick.
        """
        inputs = np.array([array.ctypes.data for array in order], dtype=np.int64)
        outputs = np.array([self.found.ctypes.data], dtype=np.int64)
        library = ctypes.CDLL(None)
        addresses = {
            Entry.WORDS: self.words,
            Entry.INPUTS: inputs,
            Entry.OUTPUTS: outputs,
            Entry.STATE: self.state,
            Entry.FOUND: self.found,
            Entry.CLOCK: self.clock,
            Entry.NUMBERS: self.numbers,
            Entry.POSTED: self.posted,
            Entry.POSTED_STATE: self.posted_state,
            Entry.STAGE: self.stage,
            Entry.RING: self.ring,
            Entry.BINS: self.bins,
            Entry.LOG: self.log,
        }
        values = {entry: array.ctypes.data for entry, array in addresses.items()}
        values |= {
            Entry.KERNEL: kernel,
            Entry.STATE_SIZE: len(self.found),
            Entry.NUMBERS_SIZE: len(self.numbers),
            Entry.HELD_SIZE: self.held_size,
            Entry.RING_ROWS: len(self.ring),
            Entry.RING_STRIDE: self.ring.shape[1],
            Entry.DONE_PLACE: done_place,
            Entry.STEPS: steps,
            Entry.READ_CLOCK: _address(library.clock_gettime),
            Entry.CLOCK_ID: time.CLOCK_MONOTONIC,
            Entry.SLEEP: _address(library.nanosleep),
        }
        table = np.array([values[entry] for entry in Entry], dtype=np.int64)
        return table, inputs, outputs, library, tuple(order)


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
