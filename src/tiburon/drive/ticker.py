"""The ticker: a thread that steps a robot in real time, and the interface to control it."""

import ctypes
import math
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.drive.realtime import RealTimeSettings
from tiburon.drive.tick_memory import NEVER_SLEEP, TickMemory, Word
from tiburon.drive.tick_report import (
    MachineClocks,
    StealMonitor,
    TickReport,
    read_machine,
    tick_report,
    time_between,
)
from tiburon.drive.tick_source import TickClock, TickSource
from tiburon.errors import DomainError, NonFiniteError, OptionError, ShapeError
from tiburon.native.kernel import Kernel
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.system import System

__all__ = ["WAITS", "Row", "Ticker"]

Array = NDArray[np.float64]

DONE = TickClock._fields.index("done")
STACK_BYTES = 16 << 20
"""Stack size of the thread, which holds the work arrays of large robots [bytes]."""

JOIN_SECONDS = 5.0
"""Wall-clock time to wait for the last tick [s]."""

WAITS = ("auto", "sleep", "spin")
"""Ways to wait for the next tick."""

INITIAL_MARGIN = 50_000
"""Initial wake-up margin [ns]."""

MAX_ADAPTIVE_MARGIN = 250_000
"""Upper limit of the adaptive margin [ns], and at most a quarter of the period: the scheduler
prefers other threads to one that never sleeps."""

SPEED_LIMITS = (1e-3, 100.0)
"""Least and largest simulated time per wall-clock time."""

PERIOD_LIMITS = (1e-6, 1e3)
"""Shortest and longest period of ticks in real time [s]."""

MAX_LIMIT = 1e6
"""Largest limit of the lateness [s]."""


class Row(NamedTuple):
    """State of the robot after a tick."""

    steps: int
    """Steps since the start."""

    time: float
    """Simulated time [s]."""

    late: float
    """Lateness of the tick [s]."""

    state: Array
    """(*q, *v, *x)."""

    held: Array
    """Posted commands."""


class Jump(NamedTuple):
    """A posted state."""

    head: int
    """Rows written before it."""

    row: Row
    """The posted state as a row."""


class Ticker:
    """Steps a system in real time, in ticks of equal length.

    The loop runs on its own thread, as machine code (`tick_code`), or in Python where there is no
    compiler. A tick uses the values posted before it; the loop never waits for other threads.
    """

    def __init__(
        self,
        system: System,
        state: Array,
        held: Array,
        *,
        method: str = "rk4",
        dt: float = 1e-3,
        steps: int = 1,
        begin: float = 0.0,
        limit: float = 1e-3,
        native: bool | None = None,
        priority: bool = False,
        core: int | None = None,
        wait: str = "auto",
    ) -> None:
        """Compile the step, or load it from the cache; the thread is not started yet.

        Args:
            system: The system; its controller is evaluated at every stage.
            state: Initial state, (*q, *v, *x).
            held: Initial commands, shape (`System.drive_size`,).
            method: One-step integrator with fixed steps.
            dt: Step [s].
            steps: Steps per tick.
            begin: Initial simulated time [s].
            limit: Lateness above which a tick misses its deadline [s].
            native: Whether the loop is machine code; by default where possible.
            priority: Whether to request real-time priority, no deep idle states and locked memory;
                `realtime` states what was granted.
            core: Index of a processor for the ticks; other threads of the process leave it.
            wait: "sleep", "spin", or "auto": sleep until shortly before each tick, by a margin
                that adapts to the measured oversleep.
        """
        known = [name for name, m in METHODS.items() if not (m.adaptive or m.has_memory)]
        if method not in known:
            raise OptionError("method of ticks", known, method)
        if wait not in WAITS:
            raise OptionError("wait", WAITS, wait)
        _check_lengths(dt, steps, limit)
        if system.held:
            raise OptionError("control of ticks", ("at every stage",), "sampled")
        self.system, self.dt, self.steps, self.begin = system, dt, steps, begin
        self.kernel = Kernel(TickSource(system, method), system.parameters())
        clock = np.array(TickClock(begin, dt, 0.0, float(steps)))
        self._names = list(self.kernel.parameters)
        self.memory = TickMemory(
            np.asarray(state, dtype=np.float64),
            np.asarray(held, dtype=np.float64),
            [self.kernel.parameters[name] for name in self._names],
            clock,
        )
        self.memory.words[Word.LIMIT] = round(1e9 * limit)
        self.wait = wait
        # the loop is the writer from here on
        self.memory.words[Word.MARGIN] = NEVER_SLEEP if wait == "spin" else INITIAL_MARGIN
        self.speed = 1.0
        self.realtime = RealTimeSettings(priority, core)
        self.steal = StealMonitor(self.memory, core)
        self._thread: threading.Thread | None = None
        self._cleared = read_machine(None)
        self._ended: MachineClocks | None = None
        self._posting = threading.Lock()
        self._jump: Jump | None = None
        address = self.kernel._code.one_address
        possible = address is not None and hasattr(time, "CLOCK_MONOTONIC") and _has_sleep()
        self.native = possible if native is None else native and possible
        self._table: tuple[Any, ...] = ()
        if self.native and address is not None:
            from tiburon.drive.tick_code import tick_code

            self._code = tick_code()
            self._table = self.memory.table(address, self._order(), DONE, steps)
        self._write_row()

    def _order(self) -> list[Array]:
        """Return the arguments of the kernel, in order."""
        memory = self.memory
        named = dict(zip(self._names, memory.parts, strict=True))
        named |= {"state": memory.state, "u": memory.numbers, "clock": memory.clock}
        return [named[item.name] for item in self.kernel._code.signature.inputs]

    # -- thread ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        if self._thread is not None:
            return
        self.memory.words[Word.STOP] = 0
        self.realtime.apply_to_process()
        before = threading.stack_size()
        threading.stack_size(STACK_BYTES)
        try:
            self._thread = threading.Thread(target=self._run, name="tiburon-ticks", daemon=True)
            self._thread.start()
            self._ended = None
            self._cleared = self._clocks()
        finally:
            threading.stack_size(before)
        self.steal.start()

    def stop(self) -> None:
        """End the thread after the current tick."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended = read_machine(thread.native_id)
            self.memory.words[Word.STOP] = 1
            thread.join(JOIN_SECONDS)
            self.steal.stop()
            self.realtime.restore()

    def _run(self) -> None:
        self.realtime.apply_to_thread()
        if self.native:
            self._code.run(self._table[0].ctypes.data)
        else:
            from tiburon.drive.tick_python import run_ticks

            run_ticks(self.memory, self.advance)

    def advance(self) -> bool:
        """Compute the steps of one tick into `memory.found`, in Python; False after divergence."""
        memory = self.memory
        given: dict[str, Any] = {
            name: part.reshape(self.kernel.parameters[name].shape)
            for name, part in zip(self._names, memory.parts, strict=True)
        }
        held = memory.numbers[: memory.held_size]
        found, failed = self.kernel.evaluate(
            memory.state[:-1], held, memory.clock, errors="flag", **given
        )
        if bool(failed):
            return False
        memory.found[:] = found
        return True

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def diverged(self) -> bool:
        """Whether the motion diverged: the robot keeps its last valid state."""
        return self._peek(Word.STATUS) != 0

    @property
    def paused(self) -> bool:
        """Whether simulated time is paused; may be set."""
        return bool(self.memory.words[Word.PAUSED])

    @paused.setter
    def paused(self, on: bool) -> None:
        self.memory.words[Word.PAUSED] = int(on)

    def step(self, count: int = 1) -> None:
        """Run single ticks while paused."""
        if count < 1:
            raise DomainError("steps", "a whole number of at least 1", f"{count}")
        done = self._peek(Word.STEPS_DONE)
        words = self.memory.words
        words[Word.STEPS_WANTED] = max(int(words[Word.STEPS_WANTED]), done) + count

    @property
    def speed(self) -> float:
        """Simulated time per wall-clock time; may be set."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        low, high = SPEED_LIMITS
        if not low <= speed <= high:
            raise DomainError("speed", f"a number from {low:g} to {high:g}", f"{speed!r}")
        self._speed = float(speed)
        period = round(1e9 * self.dt * self.steps / speed)
        self.memory.words[Word.PERIOD] = period
        most = {"auto": min(MAX_ADAPTIVE_MARGIN, period // 4), "sleep": 0, "spin": NEVER_SLEEP}
        self.memory.words[Word.MAX_MARGIN] = most[self.wait]

    # -- input -------------------------------------------------------------------------------------

    def post(self, held: Array, parameters: Mapping[str, Array] | None = None) -> None:
        """Post commands and run-time parameters; they apply from the next tick on.

        Args:
            held: Commands, shape (`System.drive_size`,).
            parameters: Values by the names of `System.parameters`; others are unchanged.
        """
        with self._posting:
            numbers = self.memory.posted.copy()
            numbers[: self.memory.held_size] = held
            place = self.memory.held_size
            for name, part in zip(self._names, self.memory.parts, strict=True):
                if parameters is not None and name in parameters:
                    values = np.ravel(np.asarray(parameters[name], dtype=np.float64))
                    if values.size != part.size:
                        raise ShapeError(f"parameters[{name!r}]", part.size, values.size)
                    numbers[place : place + part.size] = values
                place += part.size
            if not np.isfinite(numbers).all():
                where = int(np.argmin(np.isfinite(numbers)))
                raise NonFiniteError("commands or parameters", where, float(numbers[where]))
            self._write_posted(Word.POST_SEQ, numbers, self.memory.posted)

    def posted(self) -> tuple[Array, dict[str, Array]]:
        """Return copies of the commands and, by name, the parameters posted last."""
        with self._posting:
            numbers = self.memory.posted.copy()
        place, found = self.memory.held_size, {}
        for name, part in zip(self._names, self.memory.parts, strict=True):
            shape = self.kernel.parameters[name].shape
            found[name] = numbers[place : place + part.size].reshape(shape)
            place += part.size
        return numbers[: self.memory.held_size], found

    def post_state(self, state: Array, steps: int) -> None:
        """Post a state at a number of steps; ends a divergence."""
        numbers = np.append(np.asarray(state, dtype=np.float64), float(steps))
        if numbers.shape != self.memory.posted_state.shape:
            raise ShapeError("state", len(self.memory.found), len(numbers) - 1)
        if not np.isfinite(numbers).all():
            raise NonFiniteError("state", int(np.argmin(np.isfinite(numbers))), float("nan"))
        with self._posting:
            # cancel single ticks requested for the state before
            self.memory.words[Word.STEPS_WANTED] = self._peek(Word.STEPS_DONE)
            held = self.memory.posted[: self.memory.held_size].copy()
            row = Row(int(steps), self.begin + steps * self.dt, 0.0, numbers[:-1].copy(), held)
            self._jump = Jump(self.head, row)
            self._write_posted(Word.STATE_SEQ, numbers, self.memory.posted_state)

    def _write_posted(self, sequence: Word, source: Array, target: Array) -> None:
        if self.native:
            self._code.post(
                self.memory.word(sequence), source.ctypes.data, target.ctypes.data, source.nbytes
            )
            return
        self.memory.words[sequence] += 1
        target[:] = source
        self.memory.words[sequence] += 1

    # -- output ------------------------------------------------------------------------------------

    def _peek(self, word: Word) -> int:
        if self.native:
            return int(self._code.peek(self.memory.word(word)))
        return int(self.memory.words[word])

    @property
    def head(self) -> int:
        """Rows written since the start."""
        return self._peek(Word.HEAD)

    def latest(self) -> Row:
        """Return the last row."""
        return self.row(self.head - 1)

    def pending_jump(self) -> Jump | None:
        """Return the posted state that no row contains yet; None if there is none."""
        jump = self._jump
        if jump is None:
            return None
        rows, _, missed = self.rows(jump.head)
        # while paused the next row is the state itself, otherwise that of the first tick
        if (
            not missed
            and not np.isin(rows[:, 0], (jump.row.steps, jump.row.steps + self.steps)).any()
        ):
            return jump
        with self._posting:
            if self._jump is jump:
                self._jump = None
        return None

    def present(self) -> Row:
        """Return the last row, or the posted state since."""
        jump = self.pending_jump()
        return self.latest() if jump is None else jump.row

    def row(self, number: int) -> Row:
        """Return a row by its index, which must still be in the ring buffer."""
        return self.rows_of(self.memory.ring[number % len(self.memory.ring)].copy())

    def rows_of(self, row: Array) -> Row:
        """Return the parts of a row."""
        n = len(self.memory.found)
        steps = int(row[0])
        return Row(
            steps, self.begin + steps * self.dt, 1e-9 * float(row[1]), row[2 : 2 + n], row[2 + n :]
        )

    def rows(self, since: int) -> tuple[Array, int, int]:
        """Return rows of the ring buffer, the index of the next, and the number of missed rows.

        Args:
            since: Index of the first row.
        """
        head, size = self.head, len(self.memory.ring)
        # leave out rows that may be overwritten meanwhile
        first = max(since, head - size + size // 8)
        places = np.arange(first, head) % size
        return self.memory.ring[places], head, first - since

    def _write_row(self) -> None:
        """Write the initial row."""
        from tiburon.drive.tick_python import write_row

        write_row(self.memory, 0)

    # -- timing ------------------------------------------------------------------------------------

    def report(self) -> TickReport:
        """Return the timing statistics since they were cleared."""
        # acquires everything written before the last count
        self._peek(Word.MISSES)
        memory = self.memory
        if self.running:
            self.steal.sample()
        return tick_report(
            memory.words.copy(),
            memory.bins.copy(),
            memory.log.copy(),
            time_between(self._cleared, self._clocks()),
            self.steal.ticks,
        )

    def _clocks(self) -> MachineClocks:
        """Return the clocks of the machine, or those at the end of the thread."""
        thread = self._thread
        return self._ended or read_machine(thread.native_id if thread is not None else None)

    @property
    def margin(self) -> float:
        """Time before each tick at which the loop stops sleeping [s]; infinite if it only spins."""
        words = self.memory.words
        margin = min(int(words[Word.MARGIN]), int(words[Word.MAX_MARGIN]))
        return math.inf if margin >= NEVER_SLEEP else 1e-9 * margin

    def summary(self) -> str:
        """Return a description of how the loop waits, and of the granted real-time settings."""
        found = {
            "sleep": "sleeping until each tick",
            "spin": "spinning",
            "auto": f"sleeping until {1e6 * min(self.margin, 1.0):.0f} us before each tick",
        }[self.wait]
        granted = {
            "real-time priority": self.realtime.priority,
            "no deep idle states": self.realtime.awake,
            "locked memory": self.realtime.locked,
            f"processor {self.realtime.core} reserved": self.realtime.core is not None,
        }
        return ", ".join([found, *(text for text, given in granted.items() if given)])

    def clear_report(self) -> None:
        """Clear the timing statistics."""
        self.memory.words[Word.CLEAR] += 1
        self._cleared = self._clocks()
        if not self.running:
            from tiburon.drive.tick_python import clear_counts

            clear_counts(self.memory)
        self.steal.clear()


def _check_lengths(dt: float, steps: int, limit: float) -> None:
    """Raise `DomainError` unless the period of ticks is within limits."""
    count: object = steps
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise DomainError("steps", "a whole number of at least 1", f"{steps!r}")
    shortest, longest = PERIOD_LIMITS
    # comparisons with NaN are false
    if not (dt > 0.0 and shortest <= dt * steps <= longest):
        expected = f"a step for which dt times {steps} steps is {shortest:g} to {longest:g} s"
        raise DomainError("dt", expected, f"{dt!r}")
    if not 0.0 <= limit <= MAX_LIMIT:
        raise DomainError("limit", f"a lateness from 0 to {MAX_LIMIT:g} s", f"{limit!r}")


def _has_sleep() -> bool:
    """Return whether the C library has the functions that the loop calls."""
    try:
        library = ctypes.CDLL(None)
        return hasattr(library, "clock_gettime") and hasattr(library, "nanosleep")
    except (OSError, TypeError):
        return False
