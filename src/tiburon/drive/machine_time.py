"""Where time went while ticks ran: on the thread, to other programs, to the machine below."""

import os
import time
from typing import NamedTuple

__all__ = ["MachineTime", "Reading", "read_machine", "time_between"]

STEAL = 8
"""Place of the time that was stolen among the numbers of a processor, its name first
[proc_stat(5), /proc/stat]."""


class Reading(NamedTuple):
    """Clocks of the machine at one moment [s]; None where the system does not tell."""

    wall: float
    ran: float | None
    waited: float | None
    stolen: float | None


class MachineTime(NamedTuple):
    """Where time went in a stretch of ticks [s]; None where the system does not tell."""

    span: float
    """How long the stretch was."""

    ran: float | None
    """The thread of the ticks was on a processor, at work or waiting awake."""

    waited: float | None
    """It was ready to run, and other programs had the processors."""

    stolen: float | None
    """A host kept processors of this virtual machine for itself: the sum over all of them, in
    steps of 0.01 s. Nothing inside the machine can prevent the delays this makes."""

    def __str__(self) -> str:
        parts = []
        if self.ran is not None and self.span > 0.0:
            parts.append(
                f"ticks had a processor for {100.0 * self.ran / self.span:.1f} % of the time"
            )
        if self.waited is not None:
            parts.append(f"waited {1e3 * self.waited:.1f} ms for other programs")
        if self.stolen is not None:
            parts.append(f"a host below this machine kept {1e3 * self.stolen:.0f} ms")
        return ", ".join(parts)


def read_machine(thread: int | None) -> Reading:
    """Return the clocks of the machine now.

    Args:
        thread: Number of the thread of the ticks, as the system counts; None if there is none.
    """
    ran = waited = None
    if thread is not None:
        numbers = _numbers(f"/proc/self/task/{thread}/schedstat")
        if len(numbers) >= 2:
            ran, waited = (1e-9 * float(number) for number in numbers[:2])
    stolen = None
    numbers = _numbers("/proc/stat")
    if len(numbers) > STEAL and numbers[0] == "cpu":
        stolen = float(numbers[STEAL]) / os.sysconf("SC_CLK_TCK")
    return Reading(time.monotonic(), ran, waited, stolen)


def time_between(first: Reading, last: Reading) -> MachineTime:
    """Return where time went between two moments."""
    spent = [
        None if a is None or b is None else max(0.0, b - a)
        for a, b in zip(first[1:], last[1:], strict=True)
    ]
    return MachineTime(last.wall - first.wall, *spent)


def _numbers(path: str) -> list[str]:
    """Return the words of the first line of a file of the system; none if there is no such file."""
    try:
        with open(path) as file:
            return file.readline().split()
    except OSError:
        return []
