"""Where the robot will be: steps from the live state, faster than the clock on the wall."""

import threading
import time as wall
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.drive.dashboard import Dashboard
from tiburon.drive.tick_source import TickClock
from tiburon.drive.ticker import DONE, Ticker
from tiburon.errors import DomainError

__all__ = ["Forecast", "forecast"]

Array = NDArray[np.float64]

LONGEST = 600.0
"""Furthest look ahead [s]."""

MOST_ROWS = 1000

COUNT = TickClock._fields.index("count")

GLANCE = 0.02
"""Wall time between two looks at the clock [s]."""


class Forecast(NamedTuple):
    """A motion to come, if all commands stay as they are."""

    time: Array
    """When [s], shape (rows + 1,); the first is now. Fewer rows unless `outcome` is "finished"."""

    q: Array
    """Positions [m or rad], shape (rows + 1, nq)."""

    v: Array
    """Joint velocities [m/s or rad/s], shape (rows + 1, nv)."""

    poses: Array
    """Quaternion and origin [m] of each body, shape (rows + 1, bodies, 7)."""

    seconds: float
    """Wall time it took [s]."""

    outcome: str
    """ "finished", or why there are fewer rows: "diverged", "out of time" or "stopped"."""


def forecast(
    ticker: Ticker,
    dashboard: Dashboard,
    horizon: float,
    rows: int,
    limit: float,
    stop: threading.Event | None = None,
) -> Forecast:
    """Step ahead from where the robot is, with the step and the parameters of the live robot.

    State, commands and parameters are copied first; nothing of the live robot is locked.

    Args:
        ticker: The live robot.
        dashboard: Finds places of bodies.
        horizon: How far to look [s].
        rows: Into how many equal parts.
        limit: Wall time it may take [s].
        stop: Ends it when set.

    Raises:
        DomainError: If that is too far, or nothing.
    """
    if not ticker.dt <= horizon <= LONGEST:
        raise DomainError("horizon", f"from {ticker.dt:g} to {LONGEST:g} s", f"{horizon!r}")
    if not 1 <= rows <= MOST_ROWS:
        raise DomainError("rows", f"from 1 to {MOST_ROWS}", f"{rows!r}")
    if not limit > 0.0:
        raise DomainError("limit", "a time above 0 s", f"{limit!r}")
    begin = wall.perf_counter()
    now = ticker.present()
    held, numbers = ticker.posted()
    ahead = _Ahead(ticker, now.state, now.steps, held, numbers)
    count = max(1, round(horizon / (rows * ticker.dt)))
    states, steps, outcome = [now.state], [now.steps], "finished"
    while outcome == "finished" and len(states) <= rows:
        outcome = ahead.go(steps[0] + count * len(states), begin + limit, stop)
        if outcome == "finished":
            states.append(ahead.state)
            steps.append(ahead.steps)
    model = ticker.system.model
    table = np.array(states)
    time = ticker.begin + ticker.dt * np.array(steps, dtype=np.float64)
    q = np.ascontiguousarray(table[:, : model.nq])
    return Forecast(
        time,
        q,
        table[:, model.nq : model.nq + model.nv],
        dashboard.poses(time, q),
        wall.perf_counter() - begin,
        outcome,
    )


class _Ahead:
    """A copy of the robot that goes ahead, some steps at a time."""

    def __init__(
        self, ticker: Ticker, state: Array, steps: int, held: Array, numbers: dict[str, Any]
    ) -> None:
        self.state, self.steps = state, steps
        self._kernel, self._held, self._numbers = ticker.kernel, held, numbers
        self._clock = ticker.board.clock.copy()
        self._portion = 1

    def go(self, steps: int, deadline: float, stop: threading.Event | None) -> str:
        """Go on to a count of steps; return "finished" or why it was not reached."""
        while self.steps < steps:
            start = wall.perf_counter()
            if start > deadline:
                return "out of time"
            if stop is not None and stop.is_set():
                return "stopped"
            count = min(self._portion, steps - self.steps)
            self._clock[COUNT] = count
            self._clock[DONE] = self.steps
            found, failed = self._kernel.evaluate(
                self.state, self._held, self._clock, errors="flag", **self._numbers
            )
            if bool(failed):
                return "diverged"
            self.state = np.array(found)
            self.steps += count
            if wall.perf_counter() - start < 0.5 * GLANCE:
                self._portion = max(self._portion, 2 * count)
        return "finished"
