"""What an operator holds: sticks for the vehicle and its joints, switches and gains, by name."""

import math
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from tiburon.actuation.element import Action, Element, Moment
from tiburon.algorithms.crba import mass_matrix
from tiburon.control.allocation import ThrusterAllocation
from tiburon.errors import ModelError
from tiburon.model import Actuator, Coupled, Model, World
from tiburon.record import record
from tiburon.simulation.commands import CommandRow

__all__ = ["AXES", "JointGrip", "Panel", "VehicleGrip", "grips_of"]

AXES = ("roll", "pitch", "yaw", "surge", "sway", "heave")
"""Sticks of a vehicle, in the order of its wrench: about and along x (ahead), y (left), z (up)."""

REACHABLE = 0.5
"""Least part of a unit wrench that thrusters must give along an axis to be steered along it; main
thrusters off the middle also pitch a vehicle, which does not make pitch an axis of its own."""

IDLE_SHARE = 1e-6
"""Share of a wrench below which a thruster has no part in it."""

NEGLECTED = 1e-3
"""Importance of axes along which thrusters cannot push by themselves."""

GENTLE = 10.0
"""Acceleration by full sticks of joints whose largest force is not known [rad/s^2, m/s^2]."""


BRISK = 1.0
"""Acceleration by full sticks of vehicles whose thrusters have no limits [rad/s^2, m/s^2]."""


class VehicleGrip(NamedTuple):
    """How a floating base is held: what its thrusters can do."""

    joint: str
    """The free joint."""

    allocation: ThrusterAllocation
    """Who pushes."""

    strength: tuple[float, ...]
    """Largest wrench along each axis alone [N m, N]; 0 where thrusters cannot push."""

    inertia: tuple[float, ...]
    """Along each axis, added mass included [kg m^2, kg]."""

    lag: float
    """Longest time constant of its thrusters [s]."""


class JointGrip(NamedTuple):
    """How one joint of one freedom is held."""

    joint: str
    q: int
    """Its place among positions."""
    v: int
    """Its place among velocities."""
    command: str
    """Name of the command that drives it."""
    strength: float
    """Largest force [N m or N]."""
    inertia: float
    """What it feels with all other joints fixed [kg m^2 or kg]."""
    lower: float
    upper: float
    """Where it stops [rad or m]."""
    motor: tuple[float, ...] = ()
    """Resistance, torque constant, back-EMF constant and ratio where its command is a voltage."""


@record
class Panel(Element):
    """Sticks, switches and gains as commands of a run; by itself it does nothing.

    What pilots read of it are run-time numbers, so that gains are changed while the robot moves.
    """

    name: str
    """Leads the names of its commands."""

    inputs: tuple[str, ...]
    """What there is to hold."""

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its inputs, its name before them."""
        return tuple(f"{self.name}.{word}" for word in self.inputs)

    def structure(self) -> Hashable:
        """Return its inputs."""
        return self.inputs

    def act(self, now: Moment) -> Action:
        """Do nothing."""
        return Action()


def grips_of(
    model: Model, world: World, commands: CommandRow
) -> tuple[VehicleGrip | None, tuple[JointGrip, ...]]:
    """Return what of a robot can be held: its floating base if it has thrusters, and its joints.

    Joints of one freedom that an actuator drives; all of one freedom where there is no actuator.

    Args:
        model: The robot.
        world: Its surroundings.
        commands: Names of its commands.
    """
    # of a robot with loops, what each joint would feel with them cut open
    tree = model.without_loops() if model.loops else model
    inertia = np.diag(mass_matrix(tree, tree.neutral(), fluid=world.fluid)).tolist()
    driven: dict[str, Actuator] = {a.joint: a for a in model.actuators}
    joints = []
    for joint in model.joints:
        if joint.nv != 1 or joint.nq != 1 or isinstance(joint, Coupled):
            continue
        if model.actuators and joint.name not in driven:
            continue
        q, v = model.slice(joint.name, of="q").start, model.slice(joint.name, of="v").start
        limits = joint.limits
        lower, upper, strength = -math.inf, math.inf, math.inf
        if limits is not None:
            lower, upper = (_first(x) for x in (limits.lower, limits.upper))
            strength = _first(limits.force)
        command, motor = commands.names[v], tuple[float, ...]()
        actuator = driven.get(joint.name)
        if actuator is not None:
            command = actuator.name
            strength = min(strength, actuator.force_limits[1])
            if actuator.motor is not None:
                m = actuator.motor
                back = m.torque_constant if m.back_emf_constant is None else m.back_emf_constant
                motor = (m.resistance, m.torque_constant, back, actuator.ratio)
                stall = m.voltage_limit / m.resistance
                most = abs(actuator.ratio) * m.torque_constant * min(stall, m.current_limit)
                strength = min(strength, most)
        if not math.isfinite(strength):
            strength = GENTLE * inertia[v]
        joints.append(
            JointGrip(joint.name, q, v, command, strength, inertia[v], lower, upper, motor)
        )
    return _vehicle(model, inertia), tuple(joints)


def _first(value: object) -> float:
    """Return a limit of a joint of one freedom, given as a number or as one of several."""
    return float(np.ravel(np.asarray(value, dtype=np.float64))[0])


def _vehicle(model: Model, inertia: list[float]) -> VehicleGrip | None:
    bases = [body for body in model.bodies if body.joint.kind == "free"]
    if len(bases) != 1:
        return None
    try:
        allocation = ThrusterAllocation.of(model, bases[0].name)
    except ModelError:
        # no thrusters there: the base drifts
        return None
    joint = bases[0].joint.name
    where = model.slice(joint, of="v")
    A = np.array(allocation.matrix)
    shares = np.linalg.pinv(A, rcond=1e-10)
    strength = []
    for axis in range(6):
        f = shares[:, axis]
        reached = float(A[axis] @ f)
        each = [
            (high if part > 0.0 else -low) / abs(part)
            for part, (low, high) in zip(f.tolist(), allocation.limits, strict=True)
            if abs(part) > IDLE_SHARE
        ]
        most = reached * float(min(each)) if reached > REACHABLE else 0.0
        strength.append(most if math.isfinite(most) else BRISK * inertia[where][axis])
    importance = [1.0 if most > 0.0 else NEGLECTED for most in strength]
    return VehicleGrip(
        joint,
        ThrusterAllocation.of(model, bases[0].name, importance=importance),
        tuple(strength),
        tuple(inertia[where]),
        max(t.time_constant for t in allocation.thrusters),
    )
