"""Where the robot will be: steps from the live state, faster than the clock on the wall."""

import time as wall
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.drive.dashboard import Dashboard
from tiburon.drive.ticker import DONE, Ticker
from tiburon.errors import DomainError
from tiburon.simulation.loop import CLOCK

__all__ = ["Forecast", "forecast"]

Array = NDArray[np.float64]

LONGEST = 600.0
"""Furthest look ahead [s]."""

MOST_ROWS = 1000


class Forecast(NamedTuple):
    """A motion to come, if all commands stay as they are."""

    time: Array
    """When [s], shape (rows + 1,); the first is now. Fewer rows where numbers blow up."""

    q: Array
    """Positions [m or rad], shape (rows + 1, nq)."""

    v: Array
    """Joint velocities [m/s or rad/s], shape (rows + 1, nv)."""

    poses: Array
    """Quaternion and origin [m] of each body, shape (rows + 1, bodies, 7)."""

    seconds: float
    """Wall time it took [s]."""


def forecast(ticker: Ticker, dashboard: Dashboard, horizon: float, rows: int) -> Forecast:
    """Step ahead from where the robot is, with the step and the numbers of the live robot.

    Args:
        ticker: The live robot.
        dashboard: Finds places of bodies.
        horizon: How far to look [s].
        rows: Into how many equal parts.

    Raises:
        DomainError: If that is too far, or nothing.
    """
    if not ticker.dt <= horizon <= LONGEST:
        raise DomainError("horizon", f"from {ticker.dt:g} to {LONGEST:g} s", f"{horizon!r}")
    if not 1 <= rows <= MOST_ROWS:
        raise DomainError("rows", f"from 1 to {MOST_ROWS}", f"{rows!r}")
    begin = wall.perf_counter()
    now = ticker.latest()
    count = max(1, round(horizon / (rows * ticker.dt)))
    board, clock = ticker.board, ticker.board.clock.copy()
    clock[CLOCK] = count
    clock[DONE] = now.steps
    numbers: dict[str, Any] = ticker.posted_parameters()
    state, states, steps = now.state.copy(), [now.state], [now.steps]
    held = np.ascontiguousarray(board.posted[: board.held_size])
    for _ in range(rows):
        found, failed = ticker.kernel.evaluate(state, held, clock, errors="flag", **numbers)
        if bool(failed):
            break
        state = np.array(found[0]).reshape(-1)
        clock[DONE] += count
        states.append(state)
        steps.append(int(clock[DONE]))
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
    )
