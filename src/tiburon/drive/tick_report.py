"""Timing reports of ticks: jitter, deadline misses, lost wall-clock time, hypervisor steal time."""

import os
import threading
import time
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.drive.tick_memory import LATE_UNIT, TickMemory, Word
from tiburon.record import record

__all__ = [
    "MachineClocks",
    "MachineTime",
    "StealMonitor",
    "TickReport",
    "read_machine",
    "tick_report",
    "time_between",
]

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
"""Reported percentiles of the lateness [%]."""

EDGES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
"""Upper edges of the histogram of lateness [us]; multiples of the bins of the tick loop."""

LISTED_MISSES = 5
"""Deadline misses that the text of a report lists individually."""

STEAL_FIELD = 8
"""Index of the steal time in a line of /proc/stat, after the name of the processor
[proc_stat(5)]."""

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
    running = waiting = None
    if thread is not None:
        fields = _first_fields(f"/proc/self/task/{thread}/schedstat")
        if len(fields) >= 2:
            running, waiting = (1e-9 * float(number) for number in fields[:2])
    return MachineClocks(time.monotonic(), running, waiting, _steal_times().get("cpu"))


def time_between(first: MachineClocks, last: MachineClocks) -> MachineTime:
    """Return the differences of two readings."""
    spent = [
        None if a is None or b is None else max(0.0, b - a)
        for a, b in zip(first[1:], last[1:], strict=True)
    ]
    return MachineTime(last.wall - first.wall, *spent)


def _first_fields(path: str) -> list[str]:
    """Return the fields of the first line of a system file; none if it does not exist."""
    try:
        with open(path) as file:
            return file.readline().split()
    except OSError:
        return []


def _steal_times() -> dict[str, float]:
    """Return the steal time by processor, "cpu" for their sum [s]; empty where unknown."""
    found = {}
    try:
        with open("/proc/stat") as file:
            for line in file:
                fields = line.split()
                if not fields or not fields[0].startswith("cpu"):
                    break
                if len(fields) > STEAL_FIELD:
                    found[fields[0]] = float(fields[STEAL_FIELD]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        pass
    return found


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
        self._misses, self._steal = self._count(), _steal_times()
        self.ticks = 0

    def clear(self) -> None:
        """Start anew."""
        with self._lock:
            self.ticks, self._late, self._credit = 0, 0, 0.0
            self._misses, self._steal = self._count(), _steal_times()

    def start(self) -> None:
        """Sample regularly, on a thread."""
        with self._lock:
            self._misses, self._steal = self._count(), _steal_times()
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
            misses, steal = self._count(), _steal_times()
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
