"""Real-time settings of the tick thread: scheduling priority, idle states, memory, affinity.

All settings are optional. Each is granted by the operating system or not, and reports state which.
"""

import contextlib
import ctypes
import os
import struct
from typing import Any

from tiburon.errors import DomainError

__all__ = ["RealTimeSettings"]

PRIORITY = 10
"""Real-time priority of the thread (SCHED_RR); low among real-time threads."""

IDLE_LATENCY_FILE = "/dev/cpu_dma_latency"
"""Linux file that limits the wake-up latency of processors while it is open."""

TIMER_SLACK = 29
"""Number of the Linux prctl that sets the timer slack of a thread (PR_SET_TIMERSLACK)."""

LOCK_CURRENT, LOCK_ON_FAULT = 1, 4
"""Flags of mlockall (MCL_CURRENT, MCL_ONFAULT)."""


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
        free = _processors()
        if core not in free or len(free) < 2:
            known = ", ".join(map(str, sorted(free))) if len(free) > 1 else "none beside another"
            raise DomainError("core", f"a processor of this process ({known})", f"{core}")

    def apply_to_process(self) -> None:
        """Request the settings of the process; called before the thread starts."""
        if self.core is not None and not self._before:
            self._before = _processors()
            _set_affinity(self._before - {self.core})
        if not self._wants_priority:
            return
        self.awake = self._limit_idle_latency()
        self.locked = _call("mlockall", LOCK_CURRENT | LOCK_ON_FAULT) == 0

    def apply_to_thread(self) -> None:
        """Request the settings of the calling thread."""
        # by default, sleeps of threads end up to 50 us late
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

    def restore(self) -> None:
        """Undo the settings of the process; called after the thread has ended."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self.locked:
            _call("munlockall")
        # the attributes keep what was granted, for reports
        if self._before:
            _set_affinity(self._before)
            self._before = frozenset()

    def _limit_idle_latency(self) -> bool:
        if self._file is not None:
            return True
        try:
            file = os.open(IDLE_LATENCY_FILE, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
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
    """Return the processors that this process may use; empty where unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


def _set_affinity(processors: frozenset[int]) -> None:
    """Restrict all threads of this process to some processors; new threads inherit it."""
    for thread in os.listdir("/proc/self/task"):
        # it may have ended meanwhile
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), processors)


def _call(name: str, *arguments: Any) -> int:
    """Call a function of the C library; -1 where it is missing or fails."""
    try:
        return int(getattr(ctypes.CDLL(None), name)(*arguments))
    except (OSError, TypeError, AttributeError):
        return -1
