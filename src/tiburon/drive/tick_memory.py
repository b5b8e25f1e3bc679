"""The memory that the tick loop shares with Python.

A tick is a fixed number of steps in one native call. The memory holds control words, posted
values, rows and statistics. Each word has one writer. Values are posted to the loop under a
sequence count (seqlock): odd while they change, even when they are consistent. Rows return in a
ring buffer that is overwritten only seconds later.
"""

import ctypes
import time
from enum import IntEnum, auto
from typing import Any

import numpy as np

from tiburon.drive.tick_steps import TickSteps
from tiburon.native.row_loop import loop_address
from tiburon.operating_system import c_library

CLOCK_FUNCTIONS = ("clock_gettime", "nanosleep")
"""Functions of the C library that the loop calls."""

LATE_UNIT = 10_000
"""Width of the bins of lateness [ns]."""

LATE_BINS = 2001
"""Number of bins of lateness; the last one counts all ticks later than 20 ms."""

LOG_SIZE = 256
"""Deadline misses that are logged individually; a power of two."""

CATCH_UP = 100_000_000
"""Longest delay that ticks catch up with [ns]; after longer ones wall-clock time is lost."""

MARGIN_UP = 10_000
"""Increase of the wake-up margin after a sleep that exceeded it [ns]."""

MARGIN_DOWN = 10
"""Decrease of the margin after any other sleep [ns]: 1 of 1000 sleeps exceeds it on balance."""

PAUSED_SLEEP = 1_000_000
"""Sleep of a paused loop between two checks of the control words [ns]."""

MAX_SLEEP = 20_000_000
"""Longest single sleep [ns]: in slow motion ticks are long."""

NEVER_SLEEP = 1 << 62
"""Margin of a loop that only spins [ns]."""

RING_BYTES = 8 << 20
"""Approximate size of the ring buffer of rows [bytes]."""


class Word(IntEnum):
    """Indices of control words; those from TICKS on are statistics, cleared together."""

    STOP = 0
    PAUSED = auto()
    STEPS_WANTED = auto()
    """Single ticks requested since the start."""
    STEPS_DONE = auto()
    PERIOD = auto()
    """Wall-clock period of ticks [ns]."""
    POST_SEQ = auto()
    POST_SEEN = auto()
    STATE_SEQ = auto()
    STATE_SEEN = auto()
    HEAD = auto()
    """Rows written since the start."""
    STATUS = auto()
    """0 in operation, 1 after divergence: the robot keeps its last valid state."""
    LIMIT = auto()
    """Lateness above which a tick misses its deadline [ns]."""
    MARGIN = auto()
    """Time before a tick at which the loop stops sleeping and spins [ns]."""
    MAX_MARGIN = auto()
    """Upper limit of the adaptive margin [ns]."""
    CLEAR = auto()
    CLEAR_SEEN = auto()
    TICKS = auto()
    MISSES = auto()
    MAX_LATENESS = auto()
    LOST = auto()
    """Lost wall-clock time [ns]."""
    SKIPPED = auto()
    """Ticks skipped with lost wall-clock time."""
    DELAYS = auto()
    """Deadline misses after a tick that was on time."""
    WAS_LATE = auto()
    """1 if the last tick missed its deadline, else 0."""
    BUSY = auto()
    MAX_BUSY = auto()
    END = auto()


class Entry(IntEnum):
    """Indices of addresses and sizes in the argument table of the loop."""

    WORDS = 0
    RUN = auto()
    JOB = auto()
    STATE = auto()
    BEGIN = auto()
    WORK = auto()
    FOUND = auto()
    CLOCKS = auto()
    NUMBERS = auto()
    COMMANDS = auto()
    POSTED = auto()
    POSTED_STATE = auto()
    STAGE = auto()
    RING = auto()
    BINS = auto()
    LOG = auto()
    STATE_SIZE = auto()
    WORK_SIZE = auto()
    NUMBERS_SIZE = auto()
    COMMANDS_SIZE = auto()
    RING_ROWS = auto()
    RING_STRIDE = auto()
    CLOCK_SIZE = auto()
    STEPS = auto()
    READ_CLOCK = auto()
    CLOCK_ID = auto()
    SLEEP = auto()


class TickMemory:
    """The shared memory of one loop.

    Attributes:
        steps: Steps of the robot, with its parameters, commands and state.
        words: Control words, indices as in `Word`.
        posted: Parameters and commands, as posted by Python; `posted_state` ends in the number of
            steps.
        ring: Rows: steps, lateness [ns], state (*z, *q, *v, *x), commands.
        bins: Numbers of ticks by lateness.
        log: Tick and lateness [ns] of the last deadline misses, shape (LOG_SIZE, 2).
    """

    def __init__(self, steps: TickSteps) -> None:
        """Allocate the memory."""
        self.steps = steps
        n, m = len(steps.state) - 1, len(steps.commands)
        self.words = np.zeros(int(Word.END), dtype=np.int64)
        self.posted = steps.numbers.copy()
        self.posted_state = np.zeros(n + 1)
        self.stage = np.zeros(max(len(self.posted), n + 1))
        stride = 2 + n + m
        rows = 1 << max(10, (RING_BYTES // (8 * stride)).bit_length() - 1)
        # touched now, so that the loop causes no page faults
        self.ring = np.full((rows, stride), 0.0)
        self.bins = np.zeros(LATE_BINS, dtype=np.int64)
        self.log = np.zeros((LOG_SIZE, 2), dtype=np.int64)

    def word(self, word: Word) -> int:
        """Return the address of a word."""
        return int(self.words.ctypes.data) + 8 * int(word)

    def table(self) -> tuple[Any, ...]:
        """Return the argument table of the loop, and the objects that must outlive it."""
        steps, library = self.steps, c_library(*CLOCK_FUNCTIONS)
        count, clock = steps.clocks.shape
        values: dict[Entry, Any] = {
            Entry.WORDS: self.words,
            Entry.STATE: steps.state,
            Entry.BEGIN: steps.begin,
            Entry.WORK: steps.work,
            Entry.FOUND: steps.after(count),
            Entry.CLOCKS: steps.clocks,
            Entry.NUMBERS: steps.numbers,
            Entry.COMMANDS: steps.commands,
            Entry.POSTED: self.posted,
            Entry.POSTED_STATE: self.posted_state,
            Entry.STAGE: self.stage,
            Entry.RING: self.ring,
            Entry.BINS: self.bins,
            Entry.LOG: self.log,
            Entry.RUN: loop_address(),
            Entry.JOB: steps.job.address,
            Entry.STATE_SIZE: len(steps.state) - 1,
            Entry.WORK_SIZE: len(steps.work),
            Entry.NUMBERS_SIZE: len(self.posted),
            Entry.COMMANDS_SIZE: len(steps.commands),
            Entry.RING_ROWS: len(self.ring),
            Entry.RING_STRIDE: self.ring.shape[1],
            Entry.CLOCK_SIZE: clock,
            Entry.STEPS: count,
            Entry.READ_CLOCK: _address(library.clock_gettime),
            Entry.CLOCK_ID: time.CLOCK_MONOTONIC,
            Entry.SLEEP: _address(library.nanosleep),
        }
        numbers = [
            x.ctypes.data if isinstance(x, np.ndarray) else x for x in map(values.get, Entry)
        ]
        table = np.array(numbers, dtype=np.int64)
        return table, library, self


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
