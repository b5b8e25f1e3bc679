"""Progress of long runs: a bar in the terminal after a second, or a function of the caller's."""

import signal
import sys
import threading
import time

# the functions of `signal` search an enum for each handler, which takes longer than a short run
from _signal import getsignal as get_handler  # type: ignore[import-not-found]
from _signal import signal as set_handler
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from tiburon.argument_checks import check_signature

Progress = Callable[[float, float], None]
"""Called with simulated time since the start and in all [s]."""

FIRST_SECOND = 1.0
"""Wall-clock time before a bar appears [s]: short runs stay quiet."""

INTERVAL = 0.1
"""Wall-clock time between two words [s]."""


class FirstSecond:
    """A bar with simulated time, real-time factor and remaining time; quiet in its first second."""

    def __init__(self, title: str) -> None:
        """Remember when the run started, and the title of its bar."""
        self._title = title
        self._started = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, done: float, total: float) -> None:
        """Show how far the run is [s]."""
        passed = time.perf_counter() - self._started
        if self._bar is None:
            if passed < FIRST_SECOND or done >= total:
                return
            self._open(total)
        factor = done / passed
        self._bar.update(self._task, completed=done, speed=f"{factor:.3g}x real time")

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _open(self, total: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.3g} of {task.total:.3g} s"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._title, total=total, speed="")
        self._bar.start()


def progress_of(wanted: bool | Progress | None, title: str) -> Progress | None:
    """Return the function that shows progress, or None.

    Args:
        wanted: A function; True for a bar; False for none; None for a bar if standard error is a
            terminal.
        title: Title of the bar.
    """
    if callable(wanted):
        advice = "write def progress(done, total): ..., both in seconds of simulated time"
        check_signature(wanted, "progress", ("done", "total"), advice=advice)
        return wanted
    if wanted is None:
        wanted = sys.stderr is not None and sys.stderr.isatty()
    return FirstSecond(title) if wanted else None


# Ctrl-C

SIGINT = int(signal.SIGINT)


USER_CODE_CALLERS = ("tiburon.simulation.control_check", "tiburon.simulation.run")
"""Modules that call controllers and progress functions of users, between two steps. Actions of
events and sensors are called within a step, which must not be left half done."""


class Interruption:
    """Notices Ctrl-C while a run continues; what was computed is kept.

    The first Ctrl-C is only noted, so that a run ends between two steps. A second one raises
    `KeyboardInterrupt` where nothing of the run can be left half done.

    Attributes:
        wanted: Whether the user asked to stop.
        finishing: Whether results are being written, which no further Ctrl-C may cut short.
    """

    wanted = False
    finishing = False
    _before: Any = None
    _placed = False

    def __init__(self, *, anywhere: bool = False) -> None:
        """Say where a second Ctrl-C may raise.

        Args:
            anywhere: Anywhere; otherwise in controllers and progress functions of the user alone,
                which may not return.
        """
        self._anywhere = anywhere

    def __enter__(self) -> "Interruption":
        # only the main thread receives signals; a program may handle them itself
        if threading.current_thread() is threading.main_thread():
            before = get_handler(SIGINT)
            if before is signal.default_int_handler:
                self._before, self._placed = before, True
                set_handler(SIGINT, self._heard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._placed:
            set_handler(SIGINT, self._before)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.wanted and not self.finishing and (self._anywhere or _is_in_user_code(frame)):
            # what handles the exception must not be interrupted itself
            self.finishing = self._anywhere
            raise KeyboardInterrupt
        self.wanted = True


def _is_in_user_code(frame: FrameType | None) -> bool:
    """Return whether a frame belongs to a controller or progress function of a user."""
    while frame is not None and frame.f_back is not None:
        caller = frame.f_back.f_globals.get("__name__")
        name = str(frame.f_globals.get("__name__"))
        if caller in USER_CODE_CALLERS and name.partition(".")[0] not in ("tiburon", "numpy"):
            return True
        frame = frame.f_back
    return False
