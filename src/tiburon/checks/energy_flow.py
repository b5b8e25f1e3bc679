"""Where energy goes in a run: what drives the robot, what it stores, what water takes."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import DomainError
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.functions.kinematics import forward_kinematics, frame_velocity
from tiburon.functions.momentum_energy import kinetic_energy, potential_energy
from tiburon.functions.parameters import CaseRows
from tiburon.model import Model, Water, World
from tiburon.record import named_line
from tiburon.results.quantities import States
from tiburon.results.trajectory import Trajectory

__all__ = ["EnergyFlow", "energy_flow", "without_losses"]

Array = NDArray[np.float64]


class EnergyFlow(NamedTuple):
    """Energy since the start of a run, one number per recorded row [J]; seen from the water."""

    driven: Array
    """Work of all that acts at joints and on bodies: motors, thrusters, friction, springs."""

    stored: Array
    """Gained by robot and water together, kinetic and potential."""

    lost: Array
    """Taken by drag, damping and fins."""

    @property
    def gap(self) -> float:
        """Largest part of the energy that is not accounted for, by all that flowed."""
        scale = max(
            float(np.abs(self.driven).max()),
            float(np.abs(self.stored).max()),
            float(np.abs(self.lost).max()),
            np.finfo(np.float64).tiny,
        )
        return float(np.abs(self.driven - self.stored - self.lost).max()) / scale

    def __repr__(self) -> str:
        return named_line(self)


@public
def energy_flow(run: Trajectory) -> EnergyFlow:
    """Follow the energy of a run.

    Powers are computed from recorded states alone and summed over rows by the trapezoidal rule:
    rows should lie as dense as steps. In a uniform current a floating robot is seen from the
    water, in which velocities are relative ones.

    Args:
        run: Of one robot, with its system.

    Raises:
        DomainError: If the water moves in a way in which energy cannot be followed, or the run has
            numbers that are not those of its robot.
    """
    model, world = run.model, run.world
    named = run.header.setup.get("named")
    if named:
        raise DomainError(
            "run",
            "one with the numbers of its robot and its water",
            f"parameters= for {', '.join(named)}",
            advice="build the robot with these numbers and run it alone",
        )
    time, q = run.time, run.q
    v = _seen_from_water(run)
    water = None if world.fluid is None else replace(world.fluid, current=(0.0, 0.0, 0.0))
    still = World(world.gravity, world.ground, water)
    energy = np.asarray(kinetic_energy(model, q, v, fluid=water)) + np.asarray(
        potential_energy(model, q, world=still)
    )
    power = np.sum(np.asarray(run.get("joint_force").values) * v, axis=-1)
    states = States(model, world, run.system, time, q, run.v, run.x, run.u, run.z, CaseRows())
    assert run.system is not None
    for frame, wrench in run.system.wrenches(states).items():
        if frame == "world":
            continue
        moved = np.asarray(frame_velocity(model, q, v, frame, axes="frame"))
        power = power + np.sum(wrench * moved, axis=-1)
    lost = np.zeros(len(time))
    if water is not None:
        rest = np.zeros(model.nv)
        tree = model.without_loops() if model.loops else model
        resisted = inverse_dynamics(tree, q, v, rest, world=still)
        smooth = inverse_dynamics(without_losses(tree), q, v, rest, world=still)
        lost = np.sum((resisted - smooth) * v, axis=-1)
    return EnergyFlow(_summed(power, time), energy - energy[0], _summed(lost, time))


def _summed(power: Array, time: Array) -> Array:
    """Return the integral of a power from the first row to each [J]."""
    parts = 0.5 * (power[1:] + power[:-1]) * np.diff(time)
    return np.concatenate([[0.0], np.cumsum(parts)])


def _seen_from_water(run: Trajectory) -> Array:
    """Return velocities relative to the water, shape (n, nv)."""
    fluid: Water | None = run.world.fluid
    if fluid is None or fluid.current == (0.0, 0.0, 0.0):
        return run.v
    bases = [body for body in run.model.bodies if body.parent == "world"]
    floats = len(bases) == 1 and bases[0].joint.kind == "free"
    if not floats or not isinstance(fluid.current, tuple) or fluid.surface is not None:
        raise DomainError(
            "energy flow",
            "still water, or a uniform current around a floating robot",
            f"current {fluid.current!r} around {run.model.name!r}",
        )
    R, _ = forward_kinematics(run.model, run.q, bases[0].name)
    v = run.v.copy()
    where = run.model.slice(bases[0].joint.name, of="v")
    v[:, where.start + 3 : where.stop] -= np.einsum("tji,j->ti", R, np.array(fluid.current))
    return v


def without_losses(model: Model) -> Model:
    """Return a robot that water takes no energy from: no drag, damping or fins."""
    bodies = []
    for body in model.bodies:
        fluid = body.fluid
        if fluid is not None:
            fluid = replace(fluid, drag=(), linear_damping=None, quadratic_damping=None, fins=())
        bodies.append(replace(body, fluid=fluid))
    return Model(f"{model.name}, smooth", bodies, model.frames, loops=model.loops)
