"""Adaptive steps with the error test of MATLAB's suite, for counts of evaluations.

Khan 2002, section 4 (after Shampine and Reichelt 1997, "The MATLAB ODE suite"): a step of Dormand
and Prince's pair is accepted if every component satisfies e(i) <= max(rtol |x(i)|, atol). Runs of
this package take the root mean square over all components instead, and their own tolerance for
positions; the counts of evaluations differ.

The suite's choice of steps: the first is as long as the rates allow, 0.8 of what the error
suggests after that, at most five times and at least a fifth of the last one; half after a second
failure; at most a tenth of the interval unless given; the last one is stretched by up to 10 %.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.simulation.integrators.dopri5 import DOPRI5, ERROR

_A = [np.array(row) for row in DOPRI5.a]
_B, _E = np.array(DOPRI5.b), np.array(ERROR)
_POWER = 0.2


class MatlabRun(NamedTuple):
    """An adaptive run."""

    time: Array
    """Ends of accepted steps, and the start [s], shape (steps + 1,)."""

    x: Array
    """States there, shape (steps + 1, n)."""

    evaluations: int
    """Of the rates."""

    rejected: int
    """Steps that failed the error test."""

    outcome: str
    """"finished", "too small a step" or "too many evaluations"."""

    @property
    def steps(self) -> int:
        """Number of accepted steps."""
        return len(self.time) - 1


def matlab_run(
    rate: Callable[[float, Array], Array],
    x: Array,
    duration: float,
    *,
    rtol: float,
    atol: float = 1e-6,
    longest: float | None = None,
    most: int = 1_000_000,
) -> MatlabRun:
    """Integrate from time zero.

    Args:
        rate: Rates of time and state.
        x: State at the start.
        duration: How long [s].
        rtol: RelTol.
        atol: AbsTol, 1e-6 by default as in the suite.
        longest: Longest step [s]; a tenth of the duration by default.
        most: Evaluations after which the run stops.
    """
    longest = 0.1 * duration if longest is None else min(longest, duration)
    floor = atol / rtol
    t, x = 0.0, np.array(x, dtype=float)
    rates = np.zeros((7, len(x)))
    rates[0] = rate(t, x)
    h = min(longest, duration)
    speed = float(np.max(np.abs(rates[0]) / np.maximum(np.abs(x), floor)))
    speed /= 0.8 * rtol**_POWER
    if h * speed > 1.0:
        h = 1.0 / speed
    times, states = [t], [x]
    evaluations, rejected, outcome = 1, 0, "finished"
    with np.errstate(all="ignore"):
        while t < duration:
            shortest = 16.0 * np.spacing(t)
            h = min(longest, max(shortest, h))
            # stretch the last step rather than leave a sliver
            last = 1.1 * h >= duration - t
            if last:
                h = duration - t
            failed = False
            while True:
                for k in range(1, 6):
                    at = x + h * (_A[k - 1] @ rates[:k])
                    rates[k] = rate(t + DOPRI5.c[k] * h, at)
                new = x + h * (_B @ rates[:6])
                after = duration if last else t + h
                rates[6] = rate(after, new)
                evaluations += 6
                scale = np.maximum(np.maximum(np.abs(x), np.abs(new)), floor)
                error = float(np.max(np.abs(h * (_E @ rates)) / scale))
                if error <= rtol:
                    break
                rejected += 1
                if h <= shortest or evaluations > most:
                    outcome = "too small a step" if h <= shortest else "too many evaluations"
                    return MatlabRun(
                        np.array(times), np.array(states), evaluations, rejected, outcome
                    )
                suggested = 0.8 * (rtol / error) ** _POWER if math.isfinite(error) else 0.0
                h = max(shortest, h * (0.5 if failed else max(0.1, suggested)))
                failed, last = True, False
            t, x = after, new
            times.append(t)
            states.append(x)
            rates[0] = rates[6]
            if evaluations > most:
                outcome = "too many evaluations"
                break
            if not failed:
                growth = 1.25 * (error / rtol) ** _POWER
                h = h / growth if growth > 0.2 else 5.0 * h
    return MatlabRun(np.array(times), np.array(states), evaluations, rejected, outcome)
