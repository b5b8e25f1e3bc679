"""What an operator holds: sticks for the vehicle and its joints, switches and gains, by name."""

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.algorithms.bias import gravity_force
from tiburon.algorithms.crba import mass_matrix
from tiburon.argument_checks import is_number
from tiburon.control.allocation import ThrusterAllocation
from tiburon.errors import DomainError, ModelError, shown
from tiburon.loops.dynamics import constraint_residual, loop_jacobian
from tiburon.loops.metric import rank_cut
from tiburon.loops.start import resting_position
from tiburon.model import Actuator, Coupled, Model, World
from tiburon.record import record
from tiburon.simulation.state import CommandRow

__all__ = [
    "AXES",
    "JointGrip",
    "Panel",
    "Push",
    "VehicleGrip",
    "checked_command",
    "grips_of",
    "pushes_of",
    "sticks_of",
]

AXES = ("roll", "pitch", "yaw", "surge", "sway", "heave")
"""Sticks of a vehicle, in the order of its wrench: about and along x (ahead), y (left), z (up)."""

REACHABLE = 0.5
"""Least part of a unit wrench that thrusters must give along an axis to be steered along it; main
thrusters off the middle also pitch a vehicle, which does not make pitch an axis of its own."""

IDLE_SHARE = 1e-6
"""Share of a wrench below which a thruster has no part in it."""

RANK = 1e-9
"""Part of the largest singular value below which one is zero."""

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
    """What a full stick asks for by hand [N m or N]."""
    most: float
    """Largest force [N m or N]; infinite where none is known."""
    inertia: float
    """What it feels with all other driven joints fixed [kg m^2 or kg]."""
    weight: float
    """Share of the weight less buoyancy that it bears at the start, loops closed [N m or N]; of a
    robot without loops it is computed as the robot moves, and 0 here."""
    lower: float
    upper: float
    """Where it stops [rad or m]."""
    motor: tuple[float, ...] = ()
    """Resistance, torque constant, back-EMF constant and ratio where its command is a voltage."""
    direct: bool = False
    """Whether no actuator stands between: the command is the force along the joint itself."""


class Push(NamedTuple):
    """A force along one freedom that acts from outside, whoever holds the joint."""

    command: str
    """Its name among the commands."""
    v: int
    """Its place among velocities."""
    most: float
    """What moves it briskly [N m or N]."""


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

    def act(self, now: ElementContext) -> Action:
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
    tree = model.without_loops() if model.loops else model
    M = np.asarray(mass_matrix(tree, resting_position(model), fluid=world.fluid))
    inertia, weight = np.diag(M).tolist(), [0.0] * model.nv
    driven: dict[str, Actuator] = {a.joint: a for a in model.actuators}
    if model.loops:
        places = [model.slice(name, of="v").start for name in driven]
        _close(model, world, M, places, inertia, weight)
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
        most = strength
        if not math.isfinite(strength):
            strength = GENTLE * inertia[v]
        joints.append(
            JointGrip(
                joint.name,
                q,
                v,
                command,
                strength,
                most,
                inertia[v],
                weight[v],
                lower,
                upper,
                motor,
                actuator is None,
            )
        )
    return _vehicle(model, inertia), tuple(joints)


def _close(
    model: Model,
    world: World,
    M: NDArray[np.float64],
    driven: list[int],
    inertia: list[float],
    weight: list[float],
) -> None:
    """Put in what driven joints feel and bear with loops closed, in the pose of the start.

    Motions that keep loops closed are v = N z, those of driven joints A z with A = N[driven]. One
    of them moving alone moves the robot along a column of N A^+; virtual work along it gives its
    inertia, and its share of the weight.

    Args:
        model: The robot; it has loops.
        world: Its surroundings.
        M: Mass matrix with loops cut open, shape (nv, nv).
        driven: Places of driven joints among velocities.
        inertia: By place; changed.
        weight: By place; changed.
    """
    q = resting_position(model)
    J = np.asarray(loop_jacobian(model, q))
    _, sizes, rows = np.linalg.svd(J)
    # loops may bind nothing at all
    cut = float(rank_cut(model, constraint_residual(model, q).tolist(), RANK))
    rank = int((sizes > cut * max(sizes.max(initial=0.0), 1e-300)).sum())
    N = rows[rank:].T
    if not driven or not N.shape[1]:
        return
    moves = N @ np.linalg.pinv(N[driven], rcond=cut)
    g = np.asarray(gravity_force(model.without_loops(), q, world=world))
    for place, move in zip(driven, moves.T, strict=True):
        felt = float(move @ M @ move)
        if felt > 0.0:
            inertia[place], weight[place] = felt, float(move @ g)


def pushes_of(
    model: Model,
    commands: CommandRow,
    vehicle: VehicleGrip | None,
    joints: Sequence[JointGrip],
) -> tuple[Push, ...]:
    """Return the forces along single freedoms that an operator may push with.

    All freedoms but those of a vehicle that its own thrusters move; those of joints that are held
    up to their strength, others as far as gentle sticks would go.

    Args:
        model: The robot.
        commands: Names of its commands.
        vehicle: How its base is held.
        joints: How its joints are held.
    """
    tree = model.without_loops() if model.loops else model
    inertia = np.diag(mass_matrix(tree, resting_position(model))).tolist()
    strengths = {grip.v: grip.strength for grip in joints}
    steered = model.slice(vehicle.joint, of="v") if vehicle is not None else slice(0, 0)
    free = [model.slice(j.name, of="v") for j in model.joints if j.kind == "free"]
    floating = {place for where in free for place in range(where.start, where.stop)}
    pushes = []
    for v in range(model.nv):
        if steered.start <= v < steered.stop:
            continue
        pace = BRISK if v in floating else GENTLE
        pushes.append(Push(commands.names[v], v, strengths.get(v, pace * inertia[v])))
    return tuple(pushes)


def sticks_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of some commands, by full name, that spring back to the middle when released."""
    moved = tuple(f"panel.{axis}" for axis in AXES)
    return tuple(name for name in names if name in moved or name.startswith("panel.joint."))


def checked_command(name: str, value: Any) -> float:
    """Return a command as it is posted: sticks within their range, all else as it is.

    Args:
        name: Full name of the command.
        value: What is asked for.

    Raises:
        DomainError: If it is not a finite number, or a mode or gain below 0.
    """
    if not is_number(value):
        raise DomainError(f"command {name!r}", "a number", shown(value))
    number = float(value)
    if not math.isfinite(number) or abs(number) > 1e12:
        raise DomainError(f"command {name!r}", "a finite number", f"{value!r}")
    if sticks_of([name]):
        return min(1.0, max(-1.0, number))
    if name.startswith("panel.") and number < 0.0:
        raise DomainError(f"command {name!r}", "a number of at least 0", f"{value!r}")
    return number


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
