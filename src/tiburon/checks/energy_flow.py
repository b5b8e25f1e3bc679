"""Energy balance of a run: work of actuators, stored energy, dissipation in water."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import Array
from tiburon.errors import DomainError
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.functions.kinematics import (
    forward_kinematics,
    frame_velocity,
    kinetic_energy,
    potential_energy,
)
from tiburon.functions.parameters import CaseRows
from tiburon.model import Actuator, Model, Water, World
from tiburon.record import named_line
from tiburon.results.quantities import States, values_of
from tiburon.results.trajectory import Trajectory


class EnergyFlow(NamedTuple):
    """Energy since the start of a run, one value per recorded row [J], relative to the water."""

    driven: Array
    """Work of all force elements: motors, thrusters, friction, springs."""

    stored: Array
    """Increase of kinetic and potential energy of robot and added mass."""

    lost: Array
    """Dissipated by drag, damping and fins."""

    @property
    def residual(self) -> float:
        """Largest residual of the energy balance, relative to the largest energy exchanged."""
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
    """Compute the energy balance of a run.

    Powers are computed from recorded states alone and summed over rows by the trapezoidal rule:
    record every step. In a uniform current the energy of a floating robot is computed in the frame
    of the water, from relative velocities.

    Args:
        run: Run of one robot, with its system.

    Raises:
        DomainError: If the flow is neither uniform nor at rest, or the run has parameter values
            that differ from those of its model.
    """
    model, world = run.model, run.world
    named = run.header.setup.get("named")
    if named:
        raise DomainError(
            "run",
            "one with the parameters of its model and its water",
            f"parameters= for {', '.join(named)}",
            advice="build the model with these parameters and simulate it without parameters=",
        )
    time, q = run.time, run.q
    v = _relative_to_water(run)
    water = None if world.fluid is None else replace(world.fluid, current=(0.0, 0.0, 0.0))
    still = World(world.gravity, world.ground, water)
    energy = np.asarray(kinetic_energy(model, q, v, fluid=water)) + np.asarray(
        potential_energy(model, q, world=still)
    )
    power = np.sum(values_of(run, "joint_force") * v, axis=-1)
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
        lossless = inverse_dynamics(without_losses(tree), q, v, rest, world=still)
        lost = np.sum((resisted - lossless) * v, axis=-1)
    return EnergyFlow(_integrated(power, time), energy - energy[0], _integrated(lost, time))


def _integrated(power: Array, time: Array) -> Array:
    """Return the time integral of a power from the first row to each row [J]."""
    parts = 0.5 * (power[1:] + power[:-1]) * np.diff(time)
    return np.concatenate([[0.0], np.cumsum(parts)])


def _relative_to_water(run: Trajectory) -> Array:
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
    """Return the model without hydrodynamic dissipation (drag, damping, fins), its motors ideal.

    Joints stay actuated: code of loops depends on which ones are.
    """
    bodies = []
    for body in model.bodies:
        fluid = body.fluid
        if fluid is not None:
            fluid = replace(fluid, drag=(), linear_damping=None, quadratic_damping=None, fins=())
        bodies.append(replace(body, fluid=fluid))
    ideal = tuple(Actuator(each.name, each.joint) for each in model.actuators)
    return Model(
        f"{model.name}, lossless", bodies, model.frames, loops=model.loops, actuators=ideal
    )
