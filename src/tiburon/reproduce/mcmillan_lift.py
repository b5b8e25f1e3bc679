"""The lift of McMillan 1994, chapter 3: four PUMA 560 raise a load of 4 kg by 0.8 m in one second.

Given are the arms, the load's mass, the way and the time; joint torques were precomputed and fed
forward, and the error is that of the load's final position. Everything else of the model is that of
the zoo's `four_pumas`, without joint friction and electric motors. The way is a quintic in time;
torques have least norm and are a Chebyshev series, accurate to rounding at any time.
"""

import time as clock
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.formats.load import load
from tiburon.functions.closed_loops import constraint_residual, loop_inverse_dynamics
from tiburon.functions.kinematics import forward_kinematics
from tiburon.model import Actuator, Model
from tiburon.reproduce.chebyshev import chebyshev_nodes, chebyshev_series, series_value
from tiburon.reproduce.load_motion import JointMotion, followed, quintic
from tiburon.results.record import Record
from tiburon.simulation.execution import Execution
from tiburon.simulation.integrators.methods import integrator_named
from tiburon.simulation.simulate import simulate
from tiburon.trace.declared import traced

HEIGHT, DURATION = 0.8, 1.0
"""How far [m] and for how long [s]."""

BLOCKS = {1: "b1pc5", 2: "b2pc5", 4: "b4pc5"}
"""Integrators of the source by block size."""

NODES = 128
"""Terms of the series of torques."""


@cache
def four_pumas() -> Model:
    """Return the arms with joint torques as inputs instead of motors."""
    whole = load("four_pumas")
    torques = [Actuator(motor.name, motor.joint) for motor in whole.actuators]
    free = Model("four_pumas", whole.bodies, whole.frames, loops=whole.loops, actuators=torques)
    return free.with_poses(whole.poses)


def lift_motion(times: Array) -> JointMotion:
    """Return the motion of all joints at times that rise."""
    model = four_pumas()
    q = np.array(model.poses["home"])
    _, p = forward_kinematics(model, q, "load")
    up = np.array([0.0, 0.0, 0.0, 0.0, 0.0, HEIGHT])
    way = [
        ((1.0, 0.0, 0.0, 0.0, *(p + share * up[3:])), rate * up, change * up)
        for share, rate, change in zip(*quintic(times), strict=True)
    ]
    return followed(model, q, "load", way)


@cache
def lift_torques() -> Array:
    """Return the series of the joint torques, shape (nodes, 30) [N m]."""
    at = lift_motion(chebyshev_nodes(NODES, DURATION))
    tau = loop_inverse_dynamics(four_pumas(), at.q, at.v, at.vd).tau
    return chebyshev_series(np.asarray(tau))


class LiftRun(NamedTuple):
    """A simulated lift."""

    error: float
    """Distance of the load from where it should be in the end [m]."""

    residual: float
    """Largest constraint residual of a recorded row [m or rad]."""

    wall_time: float
    """Of a second run, with code that is compiled [s]."""


@cache
def lift_run(method: str, dt: float) -> LiftRun:
    """Simulate the lift with torques fed forward."""
    model = four_pumas().without_passive().without_limits()
    series = lift_torques()
    home = np.array(model.poses["home"])

    @traced
    def control(state: Any) -> Any:
        return np.stack(series_value(series, DURATION, state.time))

    def once() -> Any:
        return simulate(
            model,
            DURATION,
            q=home,
            control=control,
            method=integrator_named(method, dt=dt),
            record=Record(dt=0.2),
            execution=Execution(progress=False),
        )

    run = once()
    before = clock.perf_counter()
    once()
    wall = clock.perf_counter() - before
    _, start = forward_kinematics(model, home, "load")
    _, end = forward_kinematics(model, run.q[-1], "load")
    error = float(np.linalg.norm(end - start - [0.0, 0.0, HEIGHT]))
    residual = float(np.abs(constraint_residual(model, run.q)).max())
    return LiftRun(error, residual, wall)
