"""What a thread that must be on time asks the system for: to go first, to be woken at once.

Nothing here is needed, and nothing is hidden: each wish is granted or not, and reports tell.
"""

import contextlib
import ctypes
import os
import struct
from typing import Any

from tiburon.errors import DomainError

__all__ = ["Footing"]

PRIORITY = 10
"""Of a thread that goes before ordinary ones, where the system grants it; low among such."""

IDLE_LATENCY = "/dev/cpu_dma_latency"
"""Where Linux takes how long processors may need to wake up; it holds while the file is open."""

TIMER_SLACK = 29
"""Number of the call of Linux by which a thread says how late its sleeps may end [ns]."""

LOCK_CURRENT, LOCK_ON_FAULT = 1, 4
"""Memory that is there now stays, and what is used later of it stays from then on."""


class Footing:
    """How the thread of the ticks stands in the system.

    Attributes:
        priority: Whether it goes before all ordinary threads.
        awake: Whether processors are kept from states that take long to wake from.
        locked: Whether memory of the process stays where it is.
        core: The processor that it has, without other threads of this process; None for any.
    """

    def __init__(self, priority: bool = False, core: int | None = None) -> None:
        """Say what is wanted.

        Args:
            priority: Whether to ask for priority, processors that stay awake, and locked memory.
            core: Number of a processor for the ticks alone; others of the process leave it.

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
        free = _processors()
        if core not in free or len(free) < 2:
            known = ", ".join(map(str, sorted(free))) if len(free) > 1 else "none beside another"
            raise DomainError("core", f"a processor of this process ({known})", f"{core}")

    def prepare(self) -> None:
        """Ask for what concerns the process; called before the thread starts."""
        if self.core is not None and not self._before:
            self._before = _processors()
            _place_threads(self._before - {self.core})
        if not self._wants_priority:
            return
        self.awake = self._keep_awake()
        self.locked = _call("mlockall", LOCK_CURRENT | LOCK_ON_FAULT) == 0

    def stand(self) -> None:
        """Ask for what concerns the thread that calls."""
        # sleeps of ordinary threads end up to 50 us late, so that several end together
        _call("prctl", TIMER_SLACK, ctypes.c_ulong(1), 0, 0, 0)
        if self.core is not None:
            os.sched_setaffinity(0, {self.core})
        if self._wants_priority:
            try:
                # of the calling thread alone
                os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
            except (OSError, AttributeError):
                return
            self.priority = True

    def leave(self) -> None:
        """Give back what concerns the process; called when the thread is gone."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self.locked:
            _call("munlockall")
        # what was granted stays known for reports
        if self._before:
            _place_threads(self._before)
            self._before = frozenset()

    def _keep_awake(self) -> bool:
        if self._file is not None:
            return True
        try:
            file = os.open(IDLE_LATENCY, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            return False
        try:
            os.write(file, struct.pack("i", 0))
        except OSError:
            os.close(file)
            return False
        self._file = file
        return True


def _processors() -> frozenset[int]:
    """Return the processors that this process may use; none where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


def _place_threads(processors: frozenset[int]) -> None:
    """Let all threads of this process run on these processors only; new ones do as their makers."""
    for thread in os.listdir("/proc/self/task"):
        # it may have ended meanwhile
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), processors)


def _call(name: str, *arguments: Any) -> int:
    """Call a function of the system; -1 where there is none or it fails."""
    try:
        return int(getattr(ctypes.CDLL(None), name)(*arguments))
    except (OSError, TypeError, AttributeError):
        return -1
