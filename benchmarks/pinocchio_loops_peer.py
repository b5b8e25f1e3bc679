"""Closed mechanisms by Pinocchio: accelerations with Baumgarte's stabilization, stepped here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

import tiburon as tb
from benchmarks.loop_runs import STEP, LoopCase, LoopRun
from benchmarks.pinocchio_peer import PinocchioLoops, build_pinocchio
from benchmarks.timing import Timing, measure

Array = NDArray[np.float64]

GAINS = (1e4, 200.0)
"""Stiffness [1/s^2] and damping [1/s] of Baumgarte's stabilization: critical, 10 ms. Stiffer gains
left larger residuals with RK4."""

CLOSE = {"semi-implicit Euler": 0.05, "RK4": 1e-5}
"""Largest difference in velocity gained over 10 ms, relative: a method of first order errs by about
half a step in ten."""

Accelerate = Callable[[Array, Array], Array]


def _step_euler(
    model: pin.Model, acceleration: Accelerate, q: Array, v: Array
) -> tuple[Array, Array]:
    v = v + STEP * acceleration(q, v)
    return pin.integrate(model, q, STEP * v), v


def _step_rk4(
    model: pin.Model, acceleration: Accelerate, q: Array, v: Array
) -> tuple[Array, Array]:
    h = STEP
    a1 = acceleration(q, v)
    v2 = v + 0.5 * h * a1
    a2 = acceleration(pin.integrate(model, q, 0.5 * h * v), v2)
    v3 = v + 0.5 * h * a2
    a3 = acceleration(pin.integrate(model, q, 0.5 * h * v2), v3)
    v4 = v + h * a3
    a4 = acceleration(pin.integrate(model, q, h * v3), v4)
    q = pin.integrate(model, q, h / 6.0 * (v + 2.0 * v2 + 2.0 * v3 + v4))
    return q, v + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)


METHODS = {"semi-implicit Euler": (_step_euler, 1), "RK4": (_step_rk4, 4)}
"""A step, and how many accelerations and how many integrations of positions it takes."""


def run_pinocchio(case: LoopCase, method: str, duration: float) -> LoopRun:
    """Run by a loop in Python; only the library's own calls of a step count as its time.

    Args:
        case: The mechanism.
        method: One of `METHODS`.
        duration: Time to spend on timing the calls [s].
    """
    peer = build_pinocchio(case.model, case.gravity)
    loops = PinocchioLoops(case.model, peer, GAINS)
    call, *before = loops.call
    rest, tau = loops.rest, np.zeros(peer.nv)

    def acceleration(q: Array, v: Array) -> Array:
        # the answer lives in the peer's data, which the next call overwrites
        return np.array(call(*before, q, v, tau, *rest))

    step, count = METHODS[method]
    start = tb.to_pinocchio(case.model, case.q, case.v, joints=peer)
    q, v = np.array(start.q), np.array(start.v)
    calls = {
        "dynamics": (call, *before, q, v, tau, *rest),
        "integrate": (pin.integrate, peer, q, STEP * v),
    }
    times = measure(calls, duration=duration)
    positions, velocities = [q], [v]
    for _ in range(case.steps):
        q, v = step(peer, acceleration, q, v)
        positions.append(q)
        velocities.append(v)
    ours = tb.from_pinocchio(case.model, np.array(positions), np.array(velocities), joints=peer)
    one = [
        count * (getattr(times["dynamics"], kind) + getattr(times["integrate"], kind))
        for kind in ("minimum", "median")
    ]
    return LoopRun(
        f"Pinocchio, Baumgarte, {method.split()[-1]}", ours.q, ours.v, Timing(*one), CLOSE[method]
    )
