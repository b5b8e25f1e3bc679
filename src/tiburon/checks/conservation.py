"""What a robot that nothing drives and nothing brakes must keep: energy, momentum, closed loops."""

from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.checks.energy_flow import without_losses
from tiburon.checks.finding import FAILED, SKIPPED, Finding, judged
from tiburon.checks.kicked import Kicked
from tiburon.functions.closed_loops import constraint_residual
from tiburon.functions.momentum_energy import kinetic_energy, momentum, potential_energy
from tiburon.model import WORLD, Model, World
from tiburon.model.closure import joints_of, places_of
from tiburon.model.closure_kinds import ConstraintFunction
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.simulate import simulate

__all__ = [
    "ended_early",
    "energy_conservation",
    "loops_stay_closed",
    "momentum_conservation",
    "run_of",
]

Array = NDArray[np.float64]

DURATION = 0.5
"""Of a run [s]."""

DRIFT = 1e-8
"""Largest change of what is kept, relative: rk4 at a millisecond leaves less in most robots."""

FINER = 4
"""Where a run drifts more, it is run again with steps so many times shorter."""

ORDER = 3.0
"""The drift must then fall as this power of the step at least; rk4 has order 4."""

GAP = 1e-9
"""Largest opening of a loop during a run [m or rad]."""


def run_of(model: Model, states: Kicked, dt: float, world: World, **options: Any) -> Trajectory:
    """Run from the first state, recording every step."""
    return simulate(
        model,
        DURATION,
        q=states.q[0],
        v=states.v[0],
        world=world,
        dt=dt,
        record_every=1,
        progress=False,
        **options,
    )


def ended_early(name: str, run: Trajectory) -> Finding | None:
    """Return the finding about a run that did not reach its end; None for others."""
    if run.outcome.status == "finished":
        return None
    return Finding(name, FAILED, f"the run ended early: {run.outcome.message}")


def _kept(
    name: str, model: Model, states: Kicked, world: World, measure: Any, what: str
) -> Finding:
    """Run a robot and see whether something stays as it was.

    Args:
        name: Of the finding.
        model: The robot, without losses.
        states: Where it starts.
        world: Its surroundings.
        measure: Takes a run, gives the largest relative change.
        what: What stays, in words.
    """
    dt = 1e-3
    alone: dict[str, Any] = {"passive": False, "limits": False}
    run = run_of(model, states, dt, world, **alone)
    bad = ended_early(name, run)
    if bad is not None:
        return bad
    drift = measure(run)
    text = f"{what} over {DURATION:g} s by rk4 at {1e3 * dt:g} ms"
    if drift <= DRIFT:
        return judged(name, drift, DRIFT, text)
    finer = measure(run_of(model, states, dt / FINER, world, **alone))
    bound = max(DRIFT, drift / FINER**ORDER)
    text += f" changes by {drift:.1e}; with steps of {1e3 * dt / FINER:g} ms by {finer:.1e}"
    return judged(name, finer, bound, text)


def energy_conservation(model: Model, world: World, states: Kicked, name: str) -> Finding:
    """Check that kinetic and potential energy together stay, without drag and friction."""
    if model.plan.depends_on_time:
        return Finding(name, SKIPPED, "joints are driven by time, which does work")
    smooth = without_losses(model)

    def change(run: Trajectory) -> float:
        kinetic = np.asarray(kinetic_energy(smooth, run.q, run.v, fluid=world.fluid))
        potential = np.asarray(potential_energy(smooth, run.q, world=world))
        total = kinetic + potential
        scale = float(kinetic.max()) + float(np.ptp(potential)) + np.finfo(np.float64).tiny
        return float(np.abs(total - total[0]).max()) / scale

    return _kept(name, smooth, states, world, change, "energy")


def momentum_conservation(model: Model, states: Kicked) -> Finding:
    """Check that a robot adrift in space keeps its momentum and its moment of momentum."""
    name = "momentum, adrift"
    bases = [body.joint for body in model.bodies if body.parent == "world"]
    if len(bases) != 1 or bases[0].kind != "free":
        return Finding(name, SKIPPED, "the robot is fixed to the world, which takes momentum")
    if _held_by_world(model):
        return Finding(name, SKIPPED, "loops hold the robot to the world, which takes momentum")
    if model.plan.depends_on_time:
        return Finding(name, SKIPPED, "joints are driven by time")
    space = World(gravity=(0.0, 0.0, 0.0))

    def change(run: Trajectory) -> float:
        h = np.asarray(momentum(model, run.q, run.v))
        parts = [h[:, :3], h[:, 3:]]
        return max(
            float(np.abs(part - part[0]).max()) / max(float(np.abs(part[0]).max()), 1e-300)
            for part in parts
        )

    return _kept(name, without_losses(model), states, space, change, "momentum")


def _held_by_world(model: Model) -> bool:
    """Return whether loops may push against the world: those that end there, and functions."""
    on_world = {WORLD, *(frame.name for frame in model.frames if frame.body == WORLD)}
    base = next(body.joint.name for body in model.bodies if body.parent == WORLD)
    return any(
        isinstance(loop, ConstraintFunction)
        or base in joints_of(loop)
        or on_world.intersection(places_of(loop))
        for loop in model.loops
    )


def loops_stay_closed(model: Model, run: Trajectory) -> Finding:
    """Check that loops stay closed during a run."""
    gaps = np.abs(constraint_residual(model, run.q))
    where = int(np.argmax(gaps.max(axis=0)))
    return judged(
        "loops in a run",
        float(gaps.max()),
        GAP,
        f"largest opening [m or rad] of {gaps.shape[1]} constraints, at constraint {where + 1}",
    )
