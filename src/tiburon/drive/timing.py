"""How well ticks kept to the clock on the wall: what was late, by how much, and what was lost."""

import numpy as np
from numpy.typing import NDArray

from tiburon.drive.board import LATE_UNIT, Word
from tiburon.drive.machine_time import MachineTime
from tiburon.record import record

__all__ = ["TickReport", "tick_report"]

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
"""Shares of ticks that reports tell the lateness of [%]."""

EDGES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
"""Upper edges of the histogram of lateness [us]; all are multiples of the bins of the loop."""

SHOWN_OVERRUNS = 5
"""Overruns that the text of a report lists one by one."""


@record(eq=False)
class TickReport:
    """Counts of one stretch of ticks."""

    ticks: int
    """How many there were."""

    limit: float
    """Lateness from which a tick is an overrun [s]."""

    overruns: int
    """Ticks that began later than that."""

    gaps: int
    """Overruns that came after a tick in time: one delay makes several ticks late."""

    missed: int
    """Ticks that never came, because their time was given up."""

    lateness: dict[float, float]
    """Percentage of ticks, and how late they began at most [s]; rounded up to 10 us."""

    histogram: tuple[tuple[float, int], ...]
    """Lateness [s], and ticks that began up to so late and later than the entry before; the last
    entry, infinity, counts the rest."""

    latest: float
    """Lateness of the latest tick [s]."""

    lost: float
    """Wall time given up because it could not be made good [s]: the robot is so much behind."""

    busy: float
    """Mean time that a tick took [s]."""

    busiest: float
    """Longest time that a tick took [s]."""

    last_overruns: tuple[tuple[int, float], ...]
    """Number of the tick and lateness [s] of the last overruns, oldest first."""

    machine: MachineTime
    """Where time went meanwhile."""

    @property
    def punctual(self) -> float:
        """Share of ticks that began in time, 0 to 1; those that never came were not in time."""
        whole = self.ticks + self.missed
        return 1.0 if not whole else 1.0 - (self.overruns + self.missed) / whole

    def __str__(self) -> str:
        us, ms = 1e6, 1e3
        shares = ", ".join(f"{p:g} % {us * t:.0f} us" for p, t in self.lateness.items())
        lines = [
            f"{self.ticks} ticks, {100.0 * self.punctual:.4f} % began within "
            f"{ms * self.limit:g} ms of their time",
            f"lateness: {shares}, latest {ms * self.latest:.3f} ms",
            f"work: {us * self.busy:.1f} us a tick, {ms * self.busiest:.3f} ms at most",
            f"overruns: {self.overruns} in {self.gaps} gaps, ticks that never came: {self.missed}, "
            f"time lost: {ms * self.lost:.1f} ms",
        ]
        listed = self.last_overruns[-SHOWN_OVERRUNS:]
        if listed:
            each = ", ".join(f"tick {tick} by {ms * late:.2f} ms" for tick, late in listed)
            lines.append(f"last overruns: {each}")
        lines += self._histogram_lines()
        told = str(self.machine)
        return "\n".join([*lines, f"meanwhile: {told}"] if told else lines)

    def _histogram_lines(self) -> list[str]:
        """Return one line for each width of lateness that occurred."""
        lines, low = [], 0.0
        for high, count in self.histogram:
            if count:
                words = f"up to {_length(high)}" if np.isfinite(high) else f"over {_length(low)}"
                lines.append(f"  late {words:<12} {count:>9}  {100.0 * count / self.ticks:8.4f} %")
            low = high
        return lines


def _length(seconds: float) -> str:
    """Return a time in the unit that fits."""
    return f"{1e3 * seconds:g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:g} us"


def tick_report(
    words: NDArray[np.int64],
    bins: NDArray[np.int64],
    log: NDArray[np.int64],
    machine: MachineTime,
) -> TickReport:
    """Return a report from the counts of a loop.

    Args:
        words: Whole numbers of the loop, places as in `Word`; times in ns.
        bins: Counts of ticks by lateness, in bins of `LATE_UNIT`.
        log: Tick and lateness [ns] of the last overruns, in a ring.
        machine: Where time went meanwhile.
    """
    ticks, overruns = int(words[Word.TICKS]), int(words[Word.OVERRUNS])
    latest = int(words[Word.MOST_LATE])
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
    kept = min(overruns, len(log))
    listed = [log[k % len(log)] for k in range(overruns - kept, overruns)]
    return TickReport(
        ticks,
        1e-9 * int(words[Word.LIMIT]),
        overruns,
        int(words[Word.GAPS]),
        int(words[Word.MISSED]),
        lateness,
        tuple(zip((*(1e-6 * edge for edge in EDGES), float("inf")), counts, strict=True)),
        1e-9 * latest,
        1e-9 * int(words[Word.LOST]),
        1e-9 * int(words[Word.BUSY]) / max(1, ticks),
        1e-9 * int(words[Word.MOST_BUSY]),
        tuple((int(tick), 1e-9 * int(late)) for tick, late in listed),
        machine,
    )
