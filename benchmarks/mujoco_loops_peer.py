"""Closed mechanisms by MuJoCo: loops are soft equality constraints."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import mujoco
import numpy as np
from mujoco import rollout

import tiburon as tb
from benchmarks.loop_runs import STEP, LoopCase, LoopRun
from benchmarks.mujoco_peer import write_spec
from benchmarks.timing import Timing

STIFF = {"solref": [2.0 * STEP, 1.0], "solimp": [0.9999, 0.9999, 1e-3, 0.5, 2.0]}
"""The shortest time constant that MuJoCo admits, two steps, and its largest impedance; shorter
ones, forced on it, left larger residuals with RK4 and flew apart with Euler's method."""

CLOSE = {False: 0.05, True: 2e-3}
"""Largest difference in velocity gained over 10 ms, relative: without stiffness and with it. Loops
by default give way, so that accelerations differ by 3 %; stiff ones take 2 ms to settle."""


def build_mujoco_loops(case: LoopCase, stiff: bool) -> tuple[Any, Any]:
    """Build the mechanism with all of MuJoCo's defaults, or as stiff as it can be.

    Args:
        case: Loops are balls, or hinges of a planar mechanism: both tie points together.
        stiff: Whether loops are stiff and the method is RK4 instead of Euler's.

    Returns:
        A mujoco.MjModel and a mujoco.MjData at the start.
    """
    spec, place = write_spec(case.model, case.gravity)
    for loop in case.model.loops:
        sides = ((loop.first, loop.joint.pose), (loop.second, loop.second_pose))
        for side, (body, pose) in zip("ab", sides, strict=True):
            place[body].add_site(name=f"{loop.name}.{side}", pos=list(pose.translation))
        tie = spec.add_equality(
            name=loop.name,
            type=mujoco.mjtEq.mjEQ_CONNECT,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            name1=f"{loop.name}.a",
            name2=f"{loop.name}.b",
        )
        if stiff:
            tie.solref, tie.solimp = STIFF["solref"], STIFF["solimp"]
    peer = spec.compile()
    peer.opt.timestep = STEP
    if stiff:
        peer.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    data = mujoco.MjData(peer)
    start = tb.to_mujoco(case.model, case.q, case.v)
    data.qpos[:], data.qvel[:] = start.q, start.v
    return peer, data


TIMED = 1000
"""Steps of a run that is timed; short ones are disturbed less."""


def run_mujoco(case: LoopCase, stiff: bool, repeats: int = 10) -> LoopRun:
    """Run by `mujoco.rollout`, which steps natively and records every state.

    Args:
        case: The mechanism.
        stiff: Whether loops are stiff and the method is RK4 instead of Euler's.
        repeats: How often to time `TIMED` steps.
    """
    peer, data = build_mujoco_loops(case, stiff)
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    first = np.zeros((1, mujoco.mj_stateSize(peer, kind)))
    mujoco.mj_getState(peer, data, first[0], kind)
    rows, _ = rollout.rollout(peer, data, first, nstep=case.steps)
    samples, timed = [], min(TIMED, case.steps)
    for _ in range(repeats):
        start = perf_counter()
        rollout.rollout(peer, data, first, nstep=timed)
        samples.append((perf_counter() - start) / timed)
    # a row is time, positions, velocities
    _, q, v, _ = np.split(np.vstack([first, rows[0]]), np.cumsum([1, peer.nq, peer.nv]), axis=1)
    ours = tb.from_mujoco(case.model, q, v)
    code = "MuJoCo, stiff, RK4" if stiff else "MuJoCo, default"
    return LoopRun(code, ours.q, ours.v, Timing.of(samples), CLOSE[stiff])
