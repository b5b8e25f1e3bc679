"""The ticker: a thread that steps a robot in real time, its settings and its timing reports.

All real-time settings (scheduling priority, idle states, locked memory, affinity) are optional.
The operating system grants or denies each of them, and reports state which. Reports list jitter,
deadline misses, lost wall-clock time and hypervisor steal time.
"""

import math
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array, NDArray
from tiburon.drive.tick_memory import (
    LATE_UNIT,
    NEVER_SLEEP,
    TickMemory,
    Word,
)
from tiburon.drive.tick_python import TickPartners, clear_counts, run_ticks, write_row
from tiburon.drive.tick_steps import TickSteps
from tiburon.errors import DomainError, NonFiniteError, OptionError, ShapeError
from tiburon.operating_system import (
    c_library,
    keep_processors_awake,
    lock_memory,
    processors,
    request_priority,
    set_affinity,
    shorten_timer_slack,
    steal_times,
    thread_times,
    unlock_memory,
)
from tiburon.record import record
from tiburon.simulation.compatibility import refuse_method
from tiburon.simulation.integrators.integrator import Integrator, checked_integrator
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.simulation.partitioned import ADDRESS_PARAMETERS
from tiburon.simulation.system import System

PRIORITY = 10
"""Real-time priority of the thread (SCHED_RR); low among real-time threads."""


class RealTimeSettings:
    """Real-time settings of the tick thread, as requested and as granted.

    Attributes:
        priority: Whether the thread has real-time priority.
        awake: Whether processors are kept from idle states with a long wake-up latency.
        locked: Whether the memory of the process is locked.
        core: The processor reserved for the thread within this process; None for any.
    """

    def __init__(self, priority: bool = False, core: int | None = None) -> None:
        """Store what is requested.

        Args:
            priority: Whether to request real-time priority, no deep idle states, locked memory.
            core: Index of a processor for the ticks; other threads of the process leave it.

        Raises:
            DomainError: If this process may not use that processor.
        """
        self._wants_priority = priority
        self._file: int | None = None
        self._before: frozenset[int] = frozenset()
        self.priority = self.awake = self.locked = False
        self.core = core
        if core is None:
            return
        free = processors()
        if core not in free or len(free) < 2:
            known = ", ".join(map(str, sorted(free))) if len(free) > 1 else "none beside another"
            raise DomainError("core", f"a processor of this process ({known})", f"{core}")

    def apply_to_process(self) -> None:
        """Request the settings of the process; called before the thread starts."""
        if self.core is not None and not self._before:
            self._before = processors()
            set_affinity(self._before - {self.core}, all_threads=True)
        if not self._wants_priority:
            return
        if self._file is None:
            self._file = keep_processors_awake()
        self.awake = self._file is not None
        self.locked = lock_memory()

    def apply_to_thread(self) -> None:
        """Request the settings of the calling thread."""
        shorten_timer_slack()
        if self.core is not None:
            set_affinity({self.core})
        if self._wants_priority:
            self.priority = request_priority(PRIORITY)

    def restore(self) -> None:
        """Undo the settings of the process; called after the thread has ended."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self.locked:
            unlock_memory()
        # the attributes keep what was granted, for reports
        if self._before:
            set_affinity(self._before, all_threads=True)
            self._before = frozenset()


PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
"""Reported percentiles of the lateness [%]."""

EDGES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
"""Upper edges of the histogram of lateness [us]; multiples of the bins of the tick loop."""

LISTED_MISSES = 5
"""Deadline misses that the text of a report lists individually."""

STEAL_SECONDS = 0.05
"""Wall-clock time between two samples of the steal time [s]."""


@record(eq=False)
class TickReport:
    """Timing statistics of ticks."""

    ticks: int
    """Number of ticks."""

    limit: float
    """Lateness above which a tick misses its deadline [s]."""

    deadline_misses: int
    """Ticks that began later than that."""

    delays: int
    """Deadline misses after a tick that was on time: one delay makes several ticks late."""

    skipped: int
    """Ticks that were skipped with lost wall-clock time."""

    stolen: int
    """Late or skipped ticks that hypervisor steal time accounts for."""

    lateness: dict[float, float]
    """Percentiles of the lateness [s] by percentage (release jitter); rounded up to 10 us."""

    histogram: tuple[tuple[float, int], ...]
    """Upper edge of the lateness [s] and number of ticks up to it, above the edge before; the last
    edge is infinite."""

    max_lateness: float
    """Largest lateness [s]."""

    lost_time: float
    """Wall-clock time given up after delays too long to catch up with [s]."""

    execution_time: float
    """Mean execution time of a tick [s]."""

    max_execution_time: float
    """Longest execution time of a tick [s]."""

    last_misses: tuple[tuple[int, float], ...]
    """Index of the tick and lateness [s] of the last deadline misses, oldest first."""

    machine: "MachineTime"
    """Processor time of the thread, and hypervisor steal time."""

    @property
    def on_time(self) -> float:
        """Share of ticks within `limit`, 0 to 1, not counting those during hypervisor steal time.

        Skipped ticks count as late.
        """
        late = self.deadline_misses + self.skipped - self.stolen
        counted = self.ticks + self.skipped - self.stolen
        return 1.0 if counted <= 0 else 1.0 - late / counted

    def __str__(self) -> str:
        us, ms = 1e6, 1e3
        shares = ", ".join(f"{p:g} % {us * t:.0f} us" for p, t in self.lateness.items())
        excluded = f", not counting {self.stolen} during hypervisor steal time"
        lines = [
            f"{self.ticks} ticks, {100.0 * self.on_time:.4f} % within {ms * self.limit:g} ms of "
            f"their deadline{excluded if self.stolen else ''}",
            f"jitter (lateness): {shares}, max {ms * self.max_lateness:.3f} ms",
            f"execution time: {us * self.execution_time:.1f} us per tick, max "
            f"{ms * self.max_execution_time:.3f} ms",
            f"deadline misses: {self.deadline_misses} in {self.delays} delays, skipped ticks: "
            f"{self.skipped}, lost wall-clock time: {ms * self.lost_time:.1f} ms",
        ]
        if self.machine.steal is not None:
            lines.append(
                f"hypervisor steal time: {ms * self.machine.steal:.0f} ms of all processors, "
                f"{self.stolen} late or skipped ticks"
            )
        scheduled = str(self.machine)
        if scheduled:
            lines.append(f"scheduler: {scheduled}")
        listed = self.last_misses[-LISTED_MISSES:]
        if listed:
            each = ", ".join(f"tick {tick} by {ms * late:.2f} ms" for tick, late in listed)
            lines.append(f"last deadline misses: {each}")
        return "\n".join([*lines, *self._histogram_lines()])

    def _histogram_lines(self) -> list[str]:
        """Return one line for each bin of lateness that occurred."""
        lines, low = [], 0.0
        for high, count in self.histogram:
            if count:
                edge = f"up to {_duration(high)}" if np.isfinite(high) else f"over {_duration(low)}"
                lines.append(f"  late {edge:<12} {count:>9}  {100.0 * count / self.ticks:8.4f} %")
            low = high
        return lines


def _duration(seconds: float) -> str:
    """Return a time in ms or us."""
    return f"{1e3 * seconds:g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:g} us"


def tick_report(
    words: NDArray[np.int64],
    bins: NDArray[np.int64],
    log: NDArray[np.int64],
    machine: "MachineTime",
    stolen: int = 0,
) -> TickReport:
    """Return a report from the counts of a tick loop.

    Args:
        words: Integers of the loop, indices as in `Word`; times in ns.
        bins: Numbers of ticks by lateness, in bins of `LATE_UNIT`.
        log: Tick and lateness [ns] of the last deadline misses, in a ring buffer.
        machine: Processor time and steal time meanwhile.
        stolen: Late or skipped ticks that steal time accounts for.
    """
    ticks, misses = int(words[Word.TICKS]), int(words[Word.MISSES])
    latest = int(words[Word.MAX_LATENESS])
    sums = np.cumsum(bins)
    lateness = {}
    for percent in PERCENTILES:
        if not ticks:
            break
        place = int(np.searchsorted(sums, np.ceil(1e-2 * percent * sums[-1])))
        bound = latest if place >= len(bins) - 1 else min(latest, (place + 1) * LATE_UNIT)
        lateness[percent] = 1e-9 * bound
    ends = [1000 * edge // LATE_UNIT for edge in EDGES]
    counts = np.add.reduceat(bins, [0, *ends]).tolist()
    kept = min(misses, len(log))
    listed = [log[k % len(log)] for k in range(misses - kept, misses)]
    return TickReport(
        ticks,
        1e-9 * int(words[Word.LIMIT]),
        misses,
        int(words[Word.DELAYS]),
        int(words[Word.SKIPPED]),
        min(stolen, misses + int(words[Word.SKIPPED])),
        lateness,
        tuple(zip((*(1e-6 * edge for edge in EDGES), float("inf")), counts, strict=True)),
        1e-9 * latest,
        1e-9 * int(words[Word.LOST]),
        1e-9 * int(words[Word.BUSY]) / max(1, ticks),
        1e-9 * int(words[Word.MAX_BUSY]),
        tuple((int(tick), 1e-9 * int(late)) for tick, late in listed),
        machine,
    )


# -- processor time and steal time -----------------------------------------------------------------


class MachineClocks(NamedTuple):
    """Clocks of the machine at one time [s]; None where the system does not report them."""

    wall: float
    running: float | None
    waiting: float | None
    steal: float | None


class MachineTime(NamedTuple):
    """Times of the tick thread and of the machine [s]; None where the system reports none."""

    span: float
    """Wall-clock time."""

    running: float | None
    """Time the thread ran on a processor, working or spinning."""

    waiting: float | None
    """Time it was runnable while other threads had the processors."""

    steal: float | None
    """Hypervisor steal time, summed over all processors of this virtual machine, in steps of
    0.01 s. Software inside the virtual machine cannot prevent the delays it causes."""

    def __str__(self) -> str:
        parts = []
        if self.running is not None and self.span > 0.0:
            share = 100.0 * self.running / self.span
            parts.append(f"ticks ran for {share:.1f} % of the wall-clock time")
        if self.waiting is not None:
            parts.append(f"waited {1e3 * self.waiting:.1f} ms for other threads")
        return ", ".join(parts)


def read_machine(thread: int | None) -> MachineClocks:
    """Return the clocks of the machine.

    Args:
        thread: Operating system identifier of the tick thread; None if there is none.
    """
    running, waiting = (thread_times(thread) if thread is not None else None) or (None, None)
    return MachineClocks(time.monotonic(), running, waiting, steal_times().get("cpu"))


def time_between(first: MachineClocks, last: MachineClocks) -> MachineTime:
    """Return the differences of two readings."""
    spent = [
        None if a is None or b is None else max(0.0, b - a)
        for a, b in zip(first[1:], last[1:], strict=True)
    ]
    return MachineTime(last.wall - first.wall, *spent)


class StealMonitor:
    """Attributes late and skipped ticks to hypervisor steal time, by sampling both.

    The steal time of an interval accounts for at most as many late ticks, of the same and of the
    adjacent interval, as ticks were due in that time. It is that of the processor of the ticks if
    they have one, otherwise that of the processor with the most.

    Attributes:
        ticks: Late or skipped ticks that steal time accounts for since the last `clear`.
    """

    def __init__(self, memory: TickMemory, core: int | None = None) -> None:
        """Prepare to sample.

        Args:
            memory: Memory of the tick loop.
            core: Processor of the ticks; None for any.
        """
        self._memory, self._core = memory, core
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        # late ticks not attributed yet, and ticks due in stolen time, of the last interval
        self._late, self._credit = 0, 0.0
        self._misses, self._steal = self._count(), steal_times()
        self.ticks = 0

    def clear(self) -> None:
        """Start anew."""
        with self._lock:
            self.ticks, self._late, self._credit = 0, 0, 0.0
            self._misses, self._steal = self._count(), steal_times()

    def start(self) -> None:
        """Sample regularly, on a thread."""
        with self._lock:
            self._misses, self._steal = self._count(), steal_times()
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name="tiburon-steal", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the last sample and end the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self.sample()

    def _run(self) -> None:
        while not self._ended.wait(STEAL_SECONDS):
            self.sample()

    def _count(self) -> int:
        words = self._memory.words
        return int(words[Word.MISSES]) + int(words[Word.SKIPPED])

    def sample(self) -> None:
        """Attribute the late ticks since the last sample."""
        with self._lock:
            misses, steal = self._count(), steal_times()
            # negative where the loop has cleared its counts since
            late = max(0, misses - self._misses)
            known = {k: t - self._steal.get(k, t) for k, t in steal.items() if k != "cpu"}
            if self._core is not None:
                known = {k: t for k, t in known.items() if k == f"cpu{self._core}"}
            period = 1e-9 * max(1, int(self._memory.words[Word.PERIOD]))
            stolen = max(known.values(), default=0.0) / period
            self._misses, self._steal = misses, steal
            self._attribute(late, stolen)

    def _attribute(self, late: int, stolen: float) -> None:
        """Match late ticks with ticks due in stolen time, of this and of the last interval."""
        candidates, credit = self._late + late, self._credit + stolen
        found = min(candidates, int(credit))
        self.ticks += found
        self._late = min(candidates - found, late)
        self._credit = min(credit - found, stolen)


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
    """Posted commands, and discrete states of elements."""


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
        method: Integrator | None = None,
        steps: int = 1,
        begin: float = 0.0,
        limit: float = 1e-3,
        native: bool | None = None,
        priority: bool = False,
        core: int | None = None,
        wait: str = "auto",
        session: Any = None,
    ) -> None:
        """Compile the step, or load it from the cache; the thread is not started yet.

        Args:
            system: The system; its controller is evaluated at every stage.
            state: Initial state, (*q, *v, *x).
            held: Initial commands, and discrete states of elements, shape (`System.drive_size`,).
            method: One-step integrator with equal steps; ``RK4(dt=1e-3)`` by default.
            steps: Steps per tick.
            begin: Initial simulated time [s].
            limit: Lateness above which a tick misses its deadline [s].
            native: Whether the loop is machine code; by default where possible.
            priority: Whether to request real-time priority, no deep idle states and locked memory;
                `realtime` states what was granted.
            core: Index of a processor for the ticks; other threads of the process leave it.
            wait: "sleep", "spin", or "auto": sleep until shortly before each tick, by a margin
                that adapts to the measured oversleep.
            session: Parts of the robot in this process, if others compute the rest
                (`tiburon.parallel.session`); ticks then run in Python.
        """
        integrator = checked_integrator(method or RK4())
        refuse_method(integrator, "ticks")
        dt = integrator.dt
        if wait not in WAITS:
            raise OptionError("wait", WAITS, wait)
        _check_lengths(dt, steps, limit)
        if system.held:
            raise OptionError("control of ticks", ("at every stage",), "sampled")
        self.system, self.dt, self.steps, self.begin = system, dt, steps, begin
        self.method = integrator.scheme
        taken = self.steps_of(steps)
        begun = np.asarray(held, dtype=np.float64)
        taken.commands[:] = begun[: system.discrete.start]
        taken.state[:] = (*begun[system.discrete], *state, 0.0)
        self.memory, self._moving = TickMemory(taken), len(state)
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
        possible = (
            taken.step.is_native
            and hasattr(time, "CLOCK_MONOTONIC")
            and c_library("clock_gettime", "nanosleep") is not None
        )
        self.native = possible if native is None else native and possible
        self.partners: TickPartners | None = None
        if session is not None:
            if native:
                raise OptionError("native with exchange", (False, None), native)
            self.native = False
            own: list[bool] = []
            for name, part in taken.parts.items():
                own += [name in ADDRESS_PARAMETERS] * part.size
            own += [False] * len(taken.commands)
            self.partners = TickPartners(session, self.memory, own)
        self._table: tuple[Any, ...] = ()
        if self.native:
            from tiburon.drive.tick_code import tick_code

            self._code = tick_code()
            self._table = self.memory.table()
        write_row(self.memory, 0)

    def steps_of(self, most: int) -> TickSteps:
        """Return steps of the robot in memory of their own, up to some at a time."""
        return TickSteps(self.system, self.method, self.begin, self.dt, most)

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
            # the first of several processes stops all of them; a lost one ends the wait
            thread.join(JOIN_SECONDS if self.partners is None else None)
            self.steal.stop()
            self.realtime.restore()

    def _run(self) -> None:
        self.realtime.apply_to_thread()
        if self.native:
            self._code.run(self._table[0].ctypes.data)
        else:
            run_ticks(self.memory, self.partners)

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
        steps = self.memory.steps
        with self._posting:
            numbers, place = self.memory.posted.copy(), 0
            for name, part in steps.parts.items():
                if parameters is not None and name in parameters:
                    values = np.ravel(np.asarray(parameters[name], dtype=np.float64))
                    if values.size != part.size:
                        raise ShapeError(f"parameters[{name!r}]", part.size, values.size)
                    numbers[place : place + part.size] = values
                place += part.size
            numbers[place:] = held[: len(steps.commands)]
            if not np.isfinite(numbers).all():
                where = int(np.argmin(np.isfinite(numbers)))
                raise NonFiniteError("parameters or commands", where, float(numbers[where]))
            self._write_posted(Word.POST_SEQ, numbers, self.memory.posted)

    def posted(self) -> tuple[Array, dict[str, Array]]:
        """Return copies of the commands and, by name, the parameters posted last."""
        with self._posting:
            numbers = self.memory.posted.copy()
        place, found = 0, {}
        for name, part in self.memory.steps.parts.items():
            found[name] = numbers[place : place + part.size].reshape(part.shape)
            place += part.size
        return numbers[place:], found

    def post_state(self, state: Array, steps: int, discrete: Array | None = None) -> None:
        """Post a state at a number of steps; ends a divergence.

        Args:
            state: (*q, *v, *x).
            steps: Steps since the start.
            discrete: Discrete states of elements; their initial ones by default.
        """
        z = self.system.z0 if discrete is None else discrete
        moving = np.array(state, dtype=np.float64)
        numbers = np.concatenate([z, moving, [float(steps)]])
        if numbers.shape != self.memory.posted_state.shape:
            raise ShapeError("state", self._moving, len(moving))
        if not np.isfinite(numbers).all():
            raise NonFiniteError("state", int(np.argmin(np.isfinite(moving))), float("nan"))
        with self._posting:
            # cancel single ticks requested for the state before
            self.memory.words[Word.STEPS_WANTED] = self._peek(Word.STEPS_DONE)
            commands = self.memory.posted[len(self.memory.posted) - self.system.discrete.start :]
            held = np.concatenate([commands, z])
            row = Row(int(steps), self.begin + steps * self.dt, 0.0, moving, held)
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
        first = 2 + len(self.system.z_names)
        end = first + self._moving
        held, steps = np.concatenate([row[end:], row[2:first]]), int(row[0])
        return Row(steps, self.begin + steps * self.dt, 1e-9 * float(row[1]), row[first:end], held)

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
