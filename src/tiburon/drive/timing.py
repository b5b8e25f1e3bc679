"""How well ticks kept to the clock on the wall: what was late, by how much, and what was lost."""

import numpy as np
from numpy.typing import NDArray

from tiburon.drive.board import LATE_UNIT
from tiburon.record import record

__all__ = ["TickReport", "tick_report"]

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
"""Shares of ticks that reports tell the lateness of [%]."""

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

    lateness: dict[float, float]
    """Percentage of ticks, and how late they began at most [s]; rounded up to 10 us."""

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

    @property
    def punctual(self) -> float:
        """Share of ticks that began in time, 0 to 1."""
        return 1.0 if not self.ticks else 1.0 - self.overruns / self.ticks

    def __str__(self) -> str:
        us, ms = 1e6, 1e3
        shares = ", ".join(f"{p:g} % {us * t:.0f} us" for p, t in self.lateness.items())
        lines = [
            f"{self.ticks} ticks, {100.0 * self.punctual:.4f} % began within "
            f"{ms * self.limit:g} ms of their time",
            f"lateness: {shares}, latest {ms * self.latest:.3f} ms",
            f"work: {us * self.busy:.1f} us a tick, {ms * self.busiest:.3f} ms at most",
            f"overruns: {self.overruns}, time lost: {ms * self.lost:.1f} ms",
        ]
        listed = self.last_overruns[-SHOWN_OVERRUNS:]
        if listed:
            each = ", ".join(f"tick {tick} by {ms * late:.2f} ms" for tick, late in listed)
            lines.append(f"last overruns: {each}")
        return "\n".join(lines)


def tick_report(
    ticks: int,
    overruns: int,
    latest: int,
    lost: int,
    busy: int,
    busiest: int,
    limit: int,
    bins: NDArray[np.int64],
    log: NDArray[np.int64],
) -> TickReport:
    """Return a report from counts; all times in ns.

    Args:
        ticks: How many there were.
        overruns: How many began too late.
        latest: Largest lateness.
        lost: Time given up.
        busy: Time that all ticks together took.
        busiest: Longest time of one.
        limit: Lateness from which a tick is an overrun.
        bins: Counts of ticks by lateness, in bins of `LATE_UNIT`.
        log: Tick and lateness of the last overruns, in a ring.
    """
    sums = np.cumsum(bins)
    lateness = {}
    for percent in PERCENTILES:
        if not ticks:
            break
        place = int(np.searchsorted(sums, np.ceil(1e-2 * percent * sums[-1])))
        bound = latest if place >= len(bins) - 1 else min(latest, (place + 1) * LATE_UNIT)
        lateness[percent] = 1e-9 * bound
    kept = min(overruns, len(log))
    listed = [log[k % len(log)] for k in range(overruns - kept, overruns)]
    return TickReport(
        ticks,
        1e-9 * limit,
        overruns,
        lateness,
        1e-9 * latest,
        1e-9 * lost,
        1e-9 * busy / max(1, ticks),
        1e-9 * busiest,
        tuple((int(tick), 1e-9 * int(late)) for tick, late in listed),
    )
