"""Forecasts: the motion from the current state with constant commands, faster than real time."""

import threading
import time as wall
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.drive.dashboard import Dashboard
from tiburon.drive.tick_memory import TickClock
from tiburon.drive.ticker import DONE, Ticker
from tiburon.errors import DomainError

MAX_HORIZON = 600.0
"""Longest horizon [s]."""

MAX_ROWS = 1000

COUNT = TickClock._fields.index("count")

CHECK_SECONDS = 0.02
"""Wall-clock time between two checks of the limit [s]."""


class Forecast(NamedTuple):
    """A predicted motion with constant commands."""

    time: Array
    """Times [s], shape (rows + 1,), from now on. Fewer rows unless `outcome` is "finished"."""

    q: Array
    """Configurations [m or rad], shape (rows + 1, nq)."""

    v: Array
    """Joint velocities [m/s or rad/s], shape (rows + 1, nv)."""

    poses: Array
    """Quaternion and origin [m] of each body, shape (rows + 1, bodies, 7)."""

    seconds: float
    """Wall-clock time of the computation [s]."""

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
    """Predict the motion from the current state, with the step and parameters of the ticker.

    State, commands and parameters are copied first; no lock of the simulation is held.

    Args:
        ticker: The real-time simulation.
        dashboard: Computes poses of bodies.
        horizon: Duration of the forecast [s].
        rows: Number of equal intervals.
        limit: Wall-clock limit [s].
        stop: Cancels the forecast when set.

    Raises:
        DomainError: If an argument is out of range.
    """
    if not ticker.dt <= horizon <= MAX_HORIZON:
        raise DomainError("horizon", f"from {ticker.dt:g} to {MAX_HORIZON:g} s", f"{horizon!r}")
    if not 1 <= rows <= MAX_ROWS:
        raise DomainError("rows", f"from 1 to {MAX_ROWS}", f"{rows!r}")
    if not limit > 0.0:
        raise DomainError("limit", "a time above 0 s", f"{limit!r}")
    begin = wall.perf_counter()
    now = ticker.present()
    held, numbers = ticker.posted()
    start = ticker.whole_state(now)
    ahead = _Ahead(ticker, start, now.steps, held, numbers)
    count = max(1, round(horizon / (rows * ticker.dt)))
    states, steps, outcome = [start], [now.steps], "finished"
    while outcome == "finished" and len(states) <= rows:
        outcome = ahead.advance(steps[0] + count * len(states), begin + limit, stop)
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
    """A copy of the state that is stepped in growing portions."""

    def __init__(
        self, ticker: Ticker, state: Array, steps: int, held: Array, numbers: dict[str, Any]
    ) -> None:
        self.state, self.steps = state, steps
        self._kernel, self._held, self._numbers = ticker.kernel, held, numbers
        self._clock = ticker.memory.clock.copy()
        self._portion = 1

    def advance(self, steps: int, deadline: float, stop: threading.Event | None) -> str:
        """Advance to a number of steps; return "finished" or the reason for stopping."""
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
            if wall.perf_counter() - start < 0.5 * CHECK_SECONDS:
                self._portion = max(self._portion, 2 * count)
        return "finished"
