"""Forecasts: the motion from the current state with constant commands, faster than real time."""

import threading
import time as wall
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.drive.dashboard import Dashboard
from tiburon.drive.tick_steps import TickSteps
from tiburon.drive.ticker import Ticker
from tiburon.errors import DomainError

MAX_HORIZON = 600.0
"""Longest horizon [s]."""

MAX_ROWS = 1000

MOST_STEPS = 1024
"""Steps of one call at most."""

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
    ahead = ticker.steps_of(MOST_STEPS)
    ahead.commands[:], numbers = ticker.posted()
    for name, values in numbers.items():
        ahead.parts[name][:] = values
    ahead.state[:] = (*now.held[ticker.system.discrete], *now.state, now.steps)
    count = max(1, round(horizon / (rows * ticker.dt)))
    states, outcome = [ahead.state.copy()], "finished"
    while outcome == "finished" and len(states) <= rows:
        outcome = _advance(ahead, now.steps + count * len(states), begin + limit, stop)
        if outcome == "finished":
            states.append(ahead.state.copy())
    model = ticker.system.model
    table = np.array(states)
    time = ticker.begin + ticker.dt * table[:, -1]
    place = len(ticker.system.z_names)
    q = np.ascontiguousarray(table[:, place : place + model.nq])
    return Forecast(
        time,
        q,
        table[:, place + model.nq : place + model.nq + model.nv],
        dashboard.poses(time, q),
        wall.perf_counter() - begin,
        outcome,
    )


def _advance(ahead: TickSteps, steps: int, deadline: float, stop: threading.Event | None) -> str:
    """Advance to a number of steps, in growing portions; return "finished", or why it stopped."""
    portion = 1
    while ahead.state[-1] < steps:
        start = wall.perf_counter()
        if start > deadline:
            return "out of time"
        if stop is not None and stop.is_set():
            return "stopped"
        count = min(portion, steps - int(ahead.state[-1]))
        if not ahead.advance(count):
            return "diverged"
        if wall.perf_counter() - start < 0.5 * CHECK_SECONDS:
            portion = min(2 * count, MOST_STEPS)
    return "finished"
