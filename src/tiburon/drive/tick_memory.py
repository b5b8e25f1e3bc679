"""The kernel of a tick, and the memory that the tick loop shares with Python.

A tick is a fixed number of steps in one native call. The memory holds control words, posted
values, rows and statistics. Each word has one writer. Values are posted to the loop under a
sequence count (seqlock): odd while they change, even when they are consistent. Rows return in a
ring buffer that is overwritten only seconds later.
"""

import ctypes
import hashlib
import time
from collections.abc import Sequence
from enum import IntEnum, auto
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.tape_calls import scalars
from tiburon.arrays import Array
from tiburon.operating_system import c_library
from tiburon.record import record
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.step import MOST_STEPS, Stepping, method_key
from tiburon.simulation.system import System
from tiburon.spatial import Scalar
from tiburon.trace.program import Input, Program
from tiburon.trace.regions import while_loop


class TickClock(NamedTuple):
    """The argument `clock` of a tick."""

    begin: Scalar
    """Simulated time at the start [s]."""

    dt: Scalar
    """Step [s]."""

    done: Scalar
    """Steps taken before."""

    count: Scalar
    """Steps per tick."""


@record(slots=False, eq=False)
class TickSource:
    """Source of the kernel of a tick: ``kernel(state, u, clock)`` returns the state after it.

    Discrete states of elements, such as contact forces, are the last part of the state here; those
    among the held values are not read.
    """

    system: System
    method: str

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.method}_tick"

    @property
    def key(self) -> str:
        """Text that is equal if and only if the code is."""
        text = repr(("tick 2", method_key(self), self.system.key))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def retrace(self) -> None:
        """Trace user code again."""
        self.system.retrace()

    def inputs(self) -> list[Input]:
        """Return the arguments of the kernel."""
        system, model = self.system, self.system.model
        return [
            Input("state", (model.nq + model.nv + system.nx + len(system.z_names),)),
            Input("u", (system.drive_size,)),
            Input("clock", (len(TickClock._fields),)),
        ]

    def program(self) -> Program:
        """Trace the steps."""
        system, nq = self.system, self.system.model.nq
        moving = nq + system.model.nv + system.nx

        def run(given: Any) -> Any:
            state, u = tuple(scalars(given["state"])), tuple(scalars(given["u"]))
            clock = TickClock(*scalars(given["clock"]))
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
            step = Stepping(system, METHODS[self.method], p).step

            commands = u[: system.discrete.start]

            def following(now: Any) -> Any:
                taken, q, w, z = now
                time = clock.begin + (clock.done + taken) * clock.dt
                q, w, _, held = step(q, w, (), (*commands, *z), clock.dt, time)
                if system.z_names:
                    held = system.update(q, w, held, time + clock.dt, p)
                return taken + 1.0, q, w, held[system.discrete]

            start = (0.0, state[:nq], state[nq:moving], state[moving:])
            _, q, w, z = while_loop(lambda now: now[0] < clock.count, following, start, MOST_STEPS)[
                0
            ]
            return [*q, *w, *z]

        return system.trace(run, self.inputs(), self.name)


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


class TickMemory:
    """The shared memory of one loop.

    Attributes:
        words: Control words, indices as in `Word`.
        state: State of the robot, (*q, *v, *x), and one unused entry, shape (n + 1,).
        found: Output of the kernel, shape (n,).
        clock: Argument of the kernel with times and counts.
        numbers: Commands, then parameters, as read by the kernel.
        posted: The same, as posted by Python; `posted_state` ends in the number of steps.
        ring: Rows: steps, lateness [ns], state, commands; shape (rows, 2 + n + commands).
        bins: Numbers of ticks by lateness.
        log: Tick and lateness [ns] of the last deadline misses, shape (LOG_SIZE, 2).
    """

    def __init__(
        self, state: Array, held: Array, parameters: Sequence[Array], clock: Array
    ) -> None:
        """Allocate the memory.

        Args:
            state: Initial state, shape (n,).
            held: Initial commands, shape (commands,).
            parameters: Further arguments of the kernel, each contiguous.
            clock: Argument of the kernel with times and counts; kept.
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
        # touched now, so that the loop causes no page faults
        self.ring = np.full((rows, stride), 0.0)
        self.bins = np.zeros(LATE_BINS, dtype=np.int64)
        self.log = np.zeros((LOG_SIZE, 2), dtype=np.int64)
        self.held_size = m
        ends = np.cumsum([m, *(np.size(p) for p in parameters)]).tolist()
        self.parts = [self.numbers[a:b] for a, b in pairwise(ends)]
        """Views of the parameters in `numbers`."""

    def word(self, word: Word) -> int:
        """Return the address of a word."""
        return int(self.words.ctypes.data) + 8 * int(word)

    def table(
        self, kernel: int, order: Sequence[Array], done_place: int, steps: int
    ) -> tuple[Any, ...]:
        """Return the argument table of the loop, and the objects that must outlive it.

        Args:
            kernel: Address of the kernel for one case.
            order: Arguments of the kernel, in order.
            done_place: Index of the step count in the clock.
            steps: Steps per tick.
        """
        inputs = np.array([array.ctypes.data for array in order], dtype=np.int64)
        outputs = np.array([self.found.ctypes.data], dtype=np.int64)
        library = c_library(*CLOCK_FUNCTIONS)
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
