"""Ctrl-C during a run: the first one ends the run in good order, the second at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interruption"]


class Interruption:
    """Notices Ctrl-C while a run goes on; what was computed is kept.

    Attributes:
        wanted: Whether the user asked to stop.
    """

    def __init__(self) -> None:
        self.wanted = False
        self._before: Any = None
        self._placed = False

    def __enter__(self) -> "Interruption":
        # only the main thread hears signals; a program may have ideas of its own about them
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if before is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._heard)
                self._before, self._placed = before, True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._placed:
            signal.signal(signal.SIGINT, self._before)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            # a controller that does not return is stopped by asking twice
            raise KeyboardInterrupt
        self.wanted = True
