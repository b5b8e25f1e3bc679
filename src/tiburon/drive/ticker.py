"""A thread that steps a robot by the clock on the wall, and the ways to tell it what to do."""

import ctypes
import math
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.drive.board import AWAKE, Board, Word
from tiburon.drive.footing import Footing
from tiburon.drive.machine_time import MachineTime, Reading, read_machine, time_between
from tiburon.drive.tick_source import TickClock, TickSource
from tiburon.drive.timing import TickReport, tick_report
from tiburon.errors import DomainError, NonFiniteError, OptionError, ShapeError
from tiburon.native.kernel import Kernel
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.system import System

__all__ = ["WAITS", "Row", "Ticker"]

Array = NDArray[np.float64]

DONE = TickClock._fields.index("done")
STACK_BYTES = 16 << 20
"""Stack of the thread: work arrays of long mechanisms lie there."""

PATIENCE = 5.0
"""How long a tick may take that is waited for at the end [s]."""

WAITS = ("auto", "sleep", "spin")
"""How the loop waits for its next tick."""

FIRST_MARGIN = 50_000
"""How long the loop waits awake before anything is learned [ns]."""

MOST_MARGIN = 250_000
"""Longest time that it waits awake by itself [ns], and at most a quarter of the ticks' distance:
threads that never sleep get their turn last where others want the processor, too."""

SPEEDS = (1e-3, 100.0)
"""Slowest and fastest motion, 1 for real time."""

TICKS = (1e-6, 1e3)
"""Shortest and longest distance of ticks at real time [s]: at every speed it is a number of ns."""

LATEST = 1e6
"""Lateness beyond which a limit means nothing [s]."""


class Row(NamedTuple):
    """Where the robot is after a tick."""

    steps: int
    """Steps taken since the beginning of time."""

    time: float
    """Simulated time [s]."""

    late: float
    """How late the tick began [s]."""

    state: Array
    """(*q, *v, *x)."""

    held: Array
    """Commands as they were posted."""


class Jump(NamedTuple):
    """A state that was posted."""

    head: int
    """Rows written before."""

    row: Row
    """Where the robot is put."""


class Ticker:
    """Steps a system in ticks of equal length, each at its time.

    The loop is machine code on a thread of its own (`tick_code`), or Python where there is no
    compiler. Everything it does between two ticks of the clock it does with the numbers posted
    before; nobody can make it wait.
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
        """Compile the step, or find it compiled; nothing moves yet.

        Args:
            system: What moves; a controller inside it is asked at every stage.
            state: Where it starts, (*q, *v, *x).
            held: Commands at the start, shape (`System.drive_size`,).
            method: Integrator of equal steps without memory.
            dt: Length of a step [s].
            steps: Steps of a tick.
            begin: Simulated time at the start [s].
            limit: Lateness from which a tick counts as an overrun [s].
            native: Whether the loop is machine code; by default where that is possible.
            priority: Whether to ask the system for a thread that goes before all ordinary ones,
                processors that stay awake and memory that stays; `footing` tells what it granted.
            core: Number of a processor for the ticks alone; other threads of the process leave it.
            wait: "sleep", "spin" (awake all the time), or "auto": asleep until shortly before each
                tick, by a margin that is learned from how much too long sleeps were.
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
        self.board = Board(
            np.asarray(state, dtype=np.float64),
            np.asarray(held, dtype=np.float64),
            [self.kernel.parameters[name] for name in self._names],
            clock,
        )
        self.board.words[Word.LIMIT] = round(1e9 * limit)
        self.wait = wait
        # written by the loop from here on
        self.board.words[Word.MARGIN] = AWAKE if wait == "spin" else FIRST_MARGIN
        self.speed = 1.0
        self.footing = Footing(priority, core)
        self._thread: threading.Thread | None = None
        self._cleared = read_machine(None)
        self._ended: Reading | None = None
        self._posting = threading.Lock()
        self._jump: Jump | None = None
        address = self.kernel._code.one_address
        possible = address is not None and hasattr(time, "CLOCK_MONOTONIC") and _has_sleep()
        self.native = possible if native is None else native and possible
        self._table: tuple[Any, ...] = ()
        if self.native and address is not None:
            from tiburon.drive.tick_code import tick_code

            self._code = tick_code()
            self._table = self.board.table(address, self._order(), DONE, steps)
        self._write_row()

    def _order(self) -> list[Array]:
        """Return what the kernel reads, in its order."""
        board = self.board
        named = dict(zip(self._names, board.parts, strict=True))
        named |= {"state": board.state, "u": board.numbers, "clock": board.clock}
        return [named[item.name] for item in self.kernel._code.signature.inputs]

    # running

    def start(self) -> None:
        """Start the thread."""
        if self._thread is not None:
            return
        self.board.words[Word.STOP] = 0
        self.footing.prepare()
        before = threading.stack_size()
        threading.stack_size(STACK_BYTES)
        try:
            self._thread = threading.Thread(target=self._run, name="tiburon-ticks", daemon=True)
            self._thread.start()
            self._ended = None
            self._cleared = self._reading()
        finally:
            threading.stack_size(before)

    def stop(self) -> None:
        """End the thread after its tick."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended = read_machine(thread.native_id)
            self.board.words[Word.STOP] = 1
            thread.join(PATIENCE)
            self.footing.leave()

    def _run(self) -> None:
        self.footing.stand()
        if self.native:
            self._code.run(self._table[0].ctypes.data)
        else:
            from tiburon.drive.tick_python import run_ticks

            run_ticks(self.board, self.advance)

    def advance(self) -> bool:
        """Take the steps of one tick into `board.found`, in Python; False if numbers blow up."""
        board = self.board
        given: dict[str, Any] = {
            name: part.reshape(self.kernel.parameters[name].shape)
            for name, part in zip(self._names, board.parts, strict=True)
        }
        held = board.numbers[: board.held_size]
        found, failed = self.kernel.evaluate(
            board.state[:-1], held, board.clock, errors="flag", **given
        )
        if bool(failed):
            return False
        board.found[:] = found
        return True

    @property
    def running(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def diverged(self) -> bool:
        """Whether a number was not finite: the robot stays in its last good state."""
        return self._peek(Word.STATUS) != 0

    @property
    def paused(self) -> bool:
        """Whether time stands still; may be set."""
        return bool(self.board.words[Word.PAUSED])

    @paused.setter
    def paused(self, on: bool) -> None:
        self.board.words[Word.PAUSED] = int(on)

    def step(self, count: int = 1) -> None:
        """Take single ticks while paused."""
        if count < 1:
            raise DomainError("steps", "a whole number of at least 1", f"{count}")
        done = self._peek(Word.STEPS_DONE)
        words = self.board.words
        words[Word.STEPS_WANTED] = max(int(words[Word.STEPS_WANTED]), done) + count

    @property
    def speed(self) -> float:
        """Simulated seconds per second on the wall; may be set."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        low, high = SPEEDS
        if not low <= speed <= high:
            raise DomainError("speed", f"a number from {low:g} to {high:g}", f"{speed!r}")
        self._speed = float(speed)
        period = round(1e9 * self.dt * self.steps / speed)
        self.board.words[Word.PERIOD] = period
        most = {"auto": min(MOST_MARGIN, period // 4), "sleep": 0, "spin": AWAKE}
        self.board.words[Word.MARGIN_MOST] = most[self.wait]

    # what goes in

    def post(self, held: Array, parameters: Mapping[str, Array] | None = None) -> None:
        """Hand over commands and run-time numbers; they hold from the next tick on.

        Args:
            held: Commands, shape (`System.drive_size`,).
            parameters: Numbers by the names of `System.parameters`; others stay as they are.
        """
        with self._posting:
            numbers = self.board.posted.copy()
            numbers[: self.board.held_size] = held
            place = self.board.held_size
            for name, part in zip(self._names, self.board.parts, strict=True):
                if parameters is not None and name in parameters:
                    values = np.ravel(np.asarray(parameters[name], dtype=np.float64))
                    if values.size != part.size:
                        raise ShapeError(f"parameters[{name!r}]", part.size, values.size)
                    numbers[place : place + part.size] = values
                place += part.size
            if not np.isfinite(numbers).all():
                where = int(np.argmin(np.isfinite(numbers)))
                raise NonFiniteError("commands or parameters", where, float(numbers[where]))
            self._hand_over(Word.POST_SEQ, numbers, self.board.posted)

    def posted(self) -> tuple[Array, dict[str, Array]]:
        """Return copies of the commands and, by name, the parameters as they were posted last."""
        with self._posting:
            numbers = self.board.posted.copy()
        place, found = self.board.held_size, {}
        for name, part in zip(self._names, self.board.parts, strict=True):
            shape = self.kernel.parameters[name].shape
            found[name] = numbers[place : place + part.size].reshape(shape)
            place += part.size
        return numbers[: self.board.held_size], found

    def post_state(self, state: Array, steps: int) -> None:
        """Put the robot elsewhere, at a count of steps; heals a robot that has diverged."""
        numbers = np.append(np.asarray(state, dtype=np.float64), float(steps))
        if numbers.shape != self.board.posted_state.shape:
            raise ShapeError("state", len(self.board.found), len(numbers) - 1)
        if not np.isfinite(numbers).all():
            raise NonFiniteError("state", int(np.argmin(np.isfinite(numbers))), float("nan"))
        with self._posting:
            # single steps that are still to come belong to the state before
            self.board.words[Word.STEPS_WANTED] = self._peek(Word.STEPS_DONE)
            held = self.board.posted[: self.board.held_size].copy()
            row = Row(int(steps), self.begin + steps * self.dt, 0.0, numbers[:-1].copy(), held)
            self._jump = Jump(self.head, row)
            self._hand_over(Word.STATE_SEQ, numbers, self.board.posted_state)

    def _hand_over(self, sequence: Word, source: Array, target: Array) -> None:
        if self.native:
            self._code.post(
                self.board.word(sequence), source.ctypes.data, target.ctypes.data, source.nbytes
            )
            return
        self.board.words[sequence] += 1
        target[:] = source
        self.board.words[sequence] += 1

    # what comes out

    def _peek(self, word: Word) -> int:
        if self.native:
            return int(self._code.peek(self.board.word(word)))
        return int(self.board.words[word])

    @property
    def head(self) -> int:
        """Rows written since the beginning."""
        return self._peek(Word.HEAD)

    def latest(self) -> Row:
        """Return where the robot is."""
        return self.row(self.head - 1)

    def pending_jump(self) -> Jump | None:
        """Return the posted state that no row holds yet; None if there is none."""
        jump = self._jump
        if jump is None:
            return None
        rows, _, missed = self.rows(jump.head)
        # while paused the first row after it is the state itself, else that of the first tick
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
        """Return where the robot is, or where it was put since its last row."""
        jump = self.pending_jump()
        return self.latest() if jump is None else jump.row

    def row(self, number: int) -> Row:
        """Return a row by its number; it must not be older than the ring holds."""
        return self.rows_of(self.board.ring[number % len(self.board.ring)].copy())

    def rows_of(self, row: Array) -> Row:
        """Sort the numbers of a row."""
        n = len(self.board.found)
        steps = int(row[0])
        return Row(
            steps, self.begin + steps * self.dt, 1e-9 * float(row[1]), row[2 : 2 + n], row[2 + n :]
        )

    def rows(self, since: int) -> tuple[Array, int, int]:
        """Return rows as they lie in the ring, the number of the next, and how many were missed.

        Args:
            since: Number of the first row that is wanted.
        """
        head, size = self.head, len(self.board.ring)
        # those about to be overwritten are not worth the risk
        first = max(since, head - size + size // 8)
        places = np.arange(first, head) % size
        return self.board.ring[places], head, first - since

    def _write_row(self) -> None:
        """Write where the robot starts."""
        from tiburon.drive.tick_python import write_row

        write_row(self.board, 0)

    # how well it went

    def report(self) -> TickReport:
        """Return how ticks kept to the clock since the counts were cleared."""
        # everything written before the last count is there
        self._peek(Word.OVERRUNS)
        board = self.board
        return tick_report(board.words.copy(), board.bins.copy(), board.log.copy(), self._passed())

    def _reading(self) -> Reading:
        """Return the clocks of the machine, as they were at the end if the thread is gone."""
        thread = self._thread
        return self._ended or read_machine(thread.native_id if thread is not None else None)

    def _passed(self) -> MachineTime:
        """Return where time went since the counts were cleared."""
        return time_between(self._cleared, self._reading())

    @property
    def margin(self) -> float:
        """How long before each tick the loop stops sleeping [s]; infinite if it never sleeps."""
        words = self.board.words
        margin = min(int(words[Word.MARGIN]), int(words[Word.MARGIN_MOST]))
        return math.inf if margin >= AWAKE else 1e-9 * margin

    def manner(self) -> str:
        """Return in words how the loop waits, and what the system granted it."""
        found = {
            "sleep": "asleep until each tick",
            "spin": "awake all the time",
            "auto": f"asleep until {1e6 * min(self.margin, 1.0):.0f} us before each tick",
        }[self.wait]
        granted = {
            "before ordinary threads": self.footing.priority,
            "processors kept awake": self.footing.awake,
            "memory kept in place": self.footing.locked,
            f"alone on processor {self.footing.core}": self.footing.core is not None,
        }
        return ", ".join([found, *(words for words, given in granted.items() if given)])

    def clear_report(self) -> None:
        """Start counts anew."""
        self.board.words[Word.CLEAR] += 1
        self._cleared = self._reading()
        if not self.running:
            from tiburon.drive.tick_python import clear_counts

            clear_counts(self.board)


def _check_lengths(dt: float, steps: int, limit: float) -> None:
    """Raise unless ticks come at a distance that the clock can count."""
    count: object = steps
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise DomainError("steps", "a whole number of at least 1", f"{steps!r}")
    shortest, longest = TICKS
    # comparisons with what is no number are false
    if not (dt > 0.0 and shortest <= dt * steps <= longest):
        expected = f"steps whose ticks, dt times {steps}, last {shortest:g} to {longest:g} s"
        raise DomainError("dt", expected, f"{dt!r}")
    if not 0.0 <= limit <= LATEST:
        raise DomainError("limit", f"a lateness from 0 to {LATEST:g} s", f"{limit!r}")


def _has_sleep() -> bool:
    """Return whether the system has the clock and the sleep that the loop calls."""
    try:
        library = ctypes.CDLL(None)
        return hasattr(library, "clock_gettime") and hasattr(library, "nanosleep")
    except (OSError, TypeError):
        return False
