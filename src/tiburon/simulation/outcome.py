"""How runs end: what happened, when, where, and the last good state."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.record import record

__all__ = ["STATUSES", "Outcome"]

Array = NDArray[np.float64]

STATUSES = ("finished", "event", "diverged", "interrupted", "budget")
"""All there are: reached the end; ended by an event; grew beyond all numbers; stopped by the user;
out of wall time or steps."""


@record(eq=False)
class Outcome:
    """How the run of one case ended."""

    status: str
    """One of `STATUSES`."""

    time: float
    """Time of the last good state [s]."""

    message: str
    """The same in a sentence."""

    q: Array
    """Position in the last good state [m or rad], shape (nq,)."""

    v: Array
    """Joint velocity in the last good state [m/s or rad/s], shape (nv,)."""

    x: Array
    """Inner states in the last good state, shape (nx,)."""

    event: str | None = None
    """Name of the event that ended it."""

    body: str | None = None
    """Body whose motion diverged first; None for inner states, and where nothing diverged."""

    quantity: str | None = None
    """What diverged first: a position, velocity or inner state by name."""

    @property
    def ok(self) -> bool:
        """Whether the run got as far as was asked: to its end, or to an event."""
        return self.status in ("finished", "event")

    @property
    def state(self) -> dict[str, Any]:
        """The last good state by name: time [s], q, v, x."""
        return {"time": self.time, "q": self.q, "v": self.v, "x": self.x}

    def __str__(self) -> str:
        return self.message
