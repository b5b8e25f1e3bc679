"""Rank changes of the constraints during a run, reported in its outcome.

A mechanism that enters or leaves a singular configuration has more degrees of freedom there than
nearby; which branch it then follows is decided by rounding. Recorded configurations are checked, so
few that the cost is small compared with the steps; where the rank differs between two of them, the
rows between are searched.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tiburon.loops.dynamics import loop_jacobian
from tiburon.loops.start import DEPENDENT
from tiburon.results.outcome import Outcomes
from tiburon.simulation.recorder import Recorder
from tiburon.simulation.system import System

__all__ = ["tell_rank_changes"]

Array = NDArray[np.float64]
Places = NDArray[np.intp]

STEPS_PER_LOOK = 50
"""Steps of a run for each configuration that is looked at: some percent of their cost."""

MOST_LOOKS = 20000
"""Configurations of all cases that are looked at, where first and last rows are not more."""


def tell_rank_changes(system: System, recorder: Recorder, steps: int, outcomes: Outcomes) -> None:
    """Add to the outcomes of a run where the rank of its constraints changed.

    Args:
        system: What moved; the rank of loops that are switched changes by design.
        recorder: Holds the rows.
        steps: Steps of the run.
        outcomes: Of all cases; messages are changed in place.
    """
    model, rows = system.model, recorder.count
    if not model.loops or system.switch_places or rows < 2:
        return
    cases = len(outcomes)
    looks = min(rows, max(2, min(1 + steps // STEPS_PER_LOOK, MOST_LOOKS // cases)))
    places = np.unique(np.linspace(0, rows - 1, looks).astype(np.intp))
    cut = max(DEPENDENT, system.redundancy_tolerance)

    def ranks(chosen: Places, only: slice) -> Array:
        """Return the rank at some rows, shape (rows, cases); -1 where a case has ended."""
        q = recorder.pick("q", chosen).reshape(len(chosen), cases, -1)[:, only]
        time = np.broadcast_to(recorder.pick("time", chosen)[:, None], q.shape[:2])
        there = np.isfinite(q).all(axis=-1)
        found = np.full(there.shape, -1.0)
        if there.any():
            now = time[there] if model.plan.depends_on_time else None
            s = np.linalg.svd(loop_jacobian(model, q[there], time=now), compute_uv=False)
            found[there] = np.sum(s > cut * s[:, :1], axis=1)
        return found

    known = ranks(places, slice(None))
    for case in np.flatnonzero((known[1:] != known[:-1]).any(axis=0)).tolist():
        change = _first_change(places, known[:, case], case, ranks)
        if change is not None:
            before, after, row = change
            times = recorder.pick("time", np.array([row - 1, row]))
            outcomes.add(
                case,
                f"; between {times[0]:.6g} s and {times[1]:.6g} s the rank of its constraints "
                f"changed from {before} to {after}: a singular configuration, near which the "
                "motion may not be unique",
            )


def _first_change(
    places: Places, known: Array, case: int, ranks: Callable[[Places, slice], Array]
) -> tuple[int, int, int] | None:
    """Return the ranks before and after the first change, and the row after it."""
    for k in range(len(places) - 1):
        before, after = known[k], known[k + 1]
        if before == after or after < 0.0:
            continue
        low, high = int(places[k]), int(places[k + 1])
        while high - low > 1:
            middle = (low + high) // 2
            found = ranks(np.array([middle]), slice(case, case + 1))[0, 0]
            if found == before:
                low = middle
            else:
                high, after = middle, found
        return int(before), int(after), high
    return None
