"""The pilot: turns the inputs of an operator into commands, manually or holding a pose.

The panel holds the inputs: sticks for the vehicle and its joints, switches and gains, by name. A
robot that stands on legs walks: the sticks of a vehicle, ahead and turning, steer its gait.

Symbols:
    e       error from the current to the target configuration [rad, m]
    k       bandwidth of the controller [rad/s]; the closed loop has three poles at -k where nothing
            else acts
    M       inertia along an axis
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.contact_models import DEFAULT_CONTACT, ContactModel, contact_elements
from tiburon.actuation.defaults import elements_of
from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_laws import LawChoice
from tiburon.actuation.piecewise import entries, joined
from tiburon.argument_checks import is_number
from tiburon.arrays import NDArray
from tiburon.control.allocation import ThrusterAllocation
from tiburon.control.gait import Gait, gait_waves, leg_joints, leveling_angles
from tiburon.errors import DomainError, ModelError, shown
from tiburon.functions.assembly import resting_position
from tiburon.functions.closed_loops import constraint_residual, loop_jacobian
from tiburon.functions.dynamics import gravity_force, mass_matrix
from tiburon.functions.kinematics import forward_kinematics
from tiburon.loops.metric import rank_cut
from tiburon.model import Actuator, Coupled, Frame, Model, Pose, Servo, World
from tiburon.record import record
from tiburon.simulation.state import CommandRow, State
from tiburon.simulation.system import System
from tiburon.spatial import (
    quaternion_conjugate,
    quaternion_log,
    quaternion_multiply,
    quaternion_to_matrix,
)
from tiburon.spatial.vec3 import matrix_vector, subtract, transpose
from tiburon.trace.declared import traced

AXES = ("roll", "pitch", "yaw", "surge", "sway", "heave")
"""Sticks of a vehicle in the order of its wrench: about and along x (forward), y (left), z (up)."""

MIN_AUTHORITY = 0.5
"""Least achievable part of a unit wrench along an axis for it to be controlled; main thrusters off
the center line also pitch a vehicle, which does not make pitch controllable."""

MIN_SHARE = 1e-6
"""Share of a wrench below which a thruster does not contribute to it."""

RANK_TOLERANCE = 1e-9
"""Singular values below this fraction of the largest count as zero."""

UNCONTROLLED_WEIGHT = 1e-3
"""Weight in the allocation of axes that thrusters cannot control."""

JOINT_ACCELERATION = 10.0
"""Acceleration at full stick of joints without a force limit [rad/s^2, m/s^2]."""


VEHICLE_ACCELERATION = 1.0
"""Acceleration at full stick of vehicles whose thrusters have no limits [rad/s^2, m/s^2]."""


class VehicleActuation(NamedTuple):
    """Actuation of a floating base by its thrusters."""

    joint: str
    """The free joint."""

    allocation: ThrusterAllocation
    """Allocation of a wrench to the thrusters."""

    strength: tuple[float, ...]
    """Largest wrench along each single axis [N m, N]; 0 where thrusters cannot control it."""

    inertia: tuple[float, ...]
    """Inertia along each axis including added mass [kg m^2, kg]."""

    lag: float
    """Longest time constant of its thrusters [s]."""


class JointActuation(NamedTuple):
    """Actuation of a joint with one degree of freedom."""

    joint: str
    q: int
    """Index in q."""
    v: int
    """Index in v."""
    command: str
    """Name of its command."""
    strength: float
    """Force at full stick in manual mode [N m or N]."""
    most: float
    """Force limit [N m or N]; infinite if unknown."""
    inertia: float
    """Inertia with all other driven joints fixed [kg m^2 or kg]."""
    weight: float
    """Gravity and buoyancy load in the initial configuration of a robot with loops [N m or N]; 0
    for robots without loops, whose load is computed in every state."""
    lower: float
    upper: float
    """Position limits [rad or m]."""
    motor: tuple[float, ...] = ()
    """Resistance, torque constant, back-EMF constant and ratio if its command is a voltage."""
    direct: bool = False
    """Whether it has no actuator: the command is the joint force itself."""
    servo: Servo | None = None
    """Feedback of its actuator if the command is a set point."""


class LegJoint(NamedTuple):
    """A joint of a leg that walks."""

    q: int
    """Index in q."""
    v: int
    """Index in v."""
    command: str
    """Name of its command."""
    rest: float
    """Position in which the robot stands [rad]."""
    lift: tuple[float, ...]
    """Fourier coefficients of a walk on the spot, of full speed ahead, of a full turn."""
    ahead: tuple[float, ...]
    turn: tuple[float, ...]
    level: tuple[float, float]
    """Change per roll and pitch that keeps the body level."""
    stiffness: float
    """[N m/rad]"""
    damping: float
    """[N m s/rad]"""
    most: float
    """Force limit [N m]."""


class Walker(NamedTuple):
    """Actuation of a legged robot: its joints follow a gait."""

    base: int
    """Index of the quaternion of the body in q."""
    body: int
    """Index of its angular velocity in v."""
    period: float
    """Time of one cycle [s]."""
    joints: tuple[LegJoint, ...]


class ExternalForce(NamedTuple):
    """An external generalized force along one degree of freedom, in manual and in hold mode."""

    command: str
    """Name of its command."""
    v: int
    """Index in v."""
    most: float
    """Range of the force [N m or N]."""


@record
class Panel(Element):
    """Sticks, switches and gains as commands of a run; an element without effect of its own.

    Pilots read them as run-time values, so that gains can be changed while the robot moves.
    """

    name: str
    """Prefix of the names of its commands."""

    inputs: tuple[str, ...]
    """Names of its inputs."""

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its inputs with its name as prefix."""
        return tuple(f"{self.name}.{word}" for word in self.inputs)

    def structure(self) -> Hashable:
        """Return its inputs."""
        return self.inputs

    def act(self, now: ElementContext) -> Action:
        """Exert no force."""
        return Action()


def actuation_of(
    model: Model, world: World, commands: CommandRow
) -> tuple[VehicleActuation | None, tuple[JointActuation, ...]]:
    """Return the actuation of a robot: its floating base if it has thrusters, and its joints.

    These are the joints with one degree of freedom that have an actuator, or all of them if the
    robot has no actuators.
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
                if actuator.takes_voltage:
                    motor = (m.resistance, m.torque_constant, m.back_emf, actuator.ratio)
                strength = min(strength, max(map(abs, actuator.force_limits_at(0.0))))
        most = strength
        if not math.isfinite(strength):
            strength = JOINT_ACCELERATION * inertia[v]
        joints.append(
            JointActuation(
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
                None if actuator is None else actuator.servo,
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
    """Set inertia and load of driven joints with loops closed, in the initial configuration.

    Velocities that satisfy the constraints are v = N z, those of driven joints A z with
    A = N[driven]. A unit velocity of one of them moves the robot along a column of N A^+; virtual
    work along it gives its inertia and its gravity load.

    Args:
        model: The robot; it has loops.
        world: Its surroundings.
        M: Mass matrix of the spanning tree, shape (nv, nv).
        driven: Indices of driven joints in v.
        inertia: By index in v; changed.
        weight: By index in v; changed.
    """
    q = resting_position(model)
    J = np.asarray(loop_jacobian(model, q))
    _, sizes, rows = np.linalg.svd(J)
    # there may be no independent constraint
    cut = float(rank_cut(model, constraint_residual(model, q).tolist(), RANK_TOLERANCE))
    rank = int((sizes > cut * max(sizes.max(initial=0.0), 1e-300)).sum())
    N = rows[rank:].T
    if not driven or not N.shape[1]:
        return
    moves = N @ np.linalg.pinv(N[driven], rcond=cut)
    g = np.asarray(gravity_force(model.without_loops(), q, world=world))
    for place, move in zip(driven, moves.T, strict=True):
        effective = float(move @ M @ move)
        if effective > 0.0:
            inertia[place], weight[place] = effective, float(move @ g)


def external_forces_of(
    model: Model,
    commands: CommandRow,
    vehicle: VehicleActuation | None,
    joints: Sequence[JointActuation],
) -> tuple[ExternalForce, ...]:
    """Return the external forces that an operator may exert along single degrees of freedom.

    All degrees of freedom except those of a vehicle with thrusters. The range is the strength of
    an actuated joint, otherwise the force of a default acceleration.
    """
    tree = model.without_loops() if model.loops else model
    inertia = np.diag(mass_matrix(tree, resting_position(model))).tolist()
    strengths = {unit.v: unit.strength for unit in joints}
    steered = model.slice(vehicle.joint, of="v") if vehicle is not None else slice(0, 0)
    free = [model.slice(j.name, of="v") for j in model.joints if j.kind == "free"]
    floating = {place for where in free for place in range(where.start, where.stop)}
    found = []
    for v in range(model.nv):
        if steered.start <= v < steered.stop:
            continue
        pace = VEHICLE_ACCELERATION if v in floating else JOINT_ACCELERATION
        found.append(ExternalForce(commands.names[v], v, strengths.get(v, pace * inertia[v])))
    return tuple(found)


def sticks_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of some commands, by full name, that return to zero when released."""
    moved = tuple(f"panel.{axis}" for axis in AXES)
    return tuple(name for name in names if name in moved or name.startswith("panel.joint."))


def checked_command(name: str, value: Any) -> float:
    """Return a checked command; sticks are clipped to their range.

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
    """Return a limit of a joint with one degree of freedom, given as a scalar or a sequence."""
    return float(np.ravel(np.asarray(value, dtype=np.float64))[0])


def _vehicle(model: Model, inertia: list[float]) -> VehicleActuation | None:
    bases = [body for body in model.bodies if body.joint.kind == "free"]
    if len(bases) != 1:
        return None
    try:
        allocation = ThrusterAllocation.of(model, bases[0].name)
    except ModelError:
        # no thrusters: the base drifts
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
            if abs(part) > MIN_SHARE
        ]
        most = reached * float(min(each)) if reached > MIN_AUTHORITY else 0.0
        strength.append(
            most if math.isfinite(most) else VEHICLE_ACCELERATION * inertia[where][axis]
        )
    importance = [1.0 if most > 0.0 else UNCONTROLLED_WEIGHT for most in strength]
    return VehicleActuation(
        joint,
        ThrusterAllocation.of(model, bases[0].name, importance=importance),
        tuple(strength),
        tuple(inertia[where]),
        max(t.time_constant for t in allocation.thrusters),
    )


TARGET_RATE = 20.0
"""Rate at which targets track the robot in manual mode [1/s]."""

INTEGRAL_DECAY = 5.0
"""Decay rate of integrals in manual mode [1/s]."""

WALK_STATES = ("phase", "effort", "speed", "turn")
"""States of a walker: cycles done, and how much it lifts its legs, goes ahead and turns."""

WALK_LAG = 0.4
"""Time constant with which a walker follows the sticks [s]."""

TARGETS = ("qw", "qx", "qy", "qz", "x", "y", "z")


@traced
@record
class Pilot:
    """Reads a `Panel` and commands thrusters and joints.

    Vehicle, manual: a stick commands a fraction of the largest force along its axis. Station
    keeping: M (3 k^2 e + 3 k de/dt + k^3 integral of e) and gravity compensation are allocated to
    the thrusters; sticks move the target pose. Joints likewise: in manual mode a stick commands a
    force; in hold mode it moves the target position. Targets and integrals are states of the run.
    Other commands, such as that of a single thruster, are added to the sticks in manual mode; a
    joint force acts as an external force in both modes.
    """

    vehicle: VehicleActuation | None
    joints: tuple[JointActuation, ...]
    panel: Panel
    compensates_gravity: bool
    """Whether gravity and buoyancy are compensated in every state; with loops, those of the
    initial configuration are."""
    walker: Walker | None = None
    """Legs that walk by the sticks surge and yaw, and stand where these rest."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return targets [1, m, rad] and integrals [rad s, m s]."""
        names = [f"pilot.target.{word}" for word in TARGETS] if self.vehicle else []
        names += [f"pilot.integral.{word}" for word in AXES] if self.vehicle else []
        names += [f"pilot.walk.{word}" for word in WALK_STATES] if self.walker else []
        names += [f"pilot.target.{unit.joint}" for unit in self.joints]
        return (*names, *(f"pilot.integral.{unit.joint}" for unit in self.joints))

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return targets at the neutral configuration."""
        return self.start(model, model.neutral().tolist())

    def start(self, model: Model, q: Sequence[float]) -> tuple[float, ...]:
        """Return targets at the current configuration, and zero integrals."""
        found: list[float] = []
        if self.vehicle is not None:
            found += [*q[model.slice(self.vehicle.joint, of="q")], *[0.0] * 6]
        if self.walker is not None:
            found += [0.0] * len(WALK_STATES)
        found += [q[unit.q] for unit in self.joints]
        return (*found, *[0.0] * len(self.joints))

    def structure(self) -> Hashable:
        """Return all parameters; they are compiled in, unlike the gains, which are commands."""
        return self

    def __call__(self, state: State) -> Any:
        """Return commands, and the time derivatives of targets and integrals."""
        if self.vehicle is None and self.walker is None and not self.joints:
            # nothing to control
            return {}
        u = dict(zip(state.system.command_names, entries(state.u), strict=True))
        held = {word: u[f"{self.panel.name}.{word}"] for word in self.panel.inputs}
        own = entries(state.own)
        weight = [0.0] * state.model.nv
        if self.compensates_gravity:
            now = {"time": state.time} if state.system.time_matters else {}
            tau = gravity_force(state.model, state.q, world=state.system.world, **now)
            weight = entries(tau)
        for unit in self.joints:
            weight[unit.v] = weight[unit.v] + unit.weight
        commands: dict[str, Any] = {}
        rates: list[Any] = []
        if self.vehicle is not None:
            rates += self._steer(self.vehicle, state, u, held, own[:13], weight, commands)
            own = own[13:]
        if self.walker is not None:
            count = len(WALK_STATES)
            rates += self._walk(self.walker, state, held, own[:count], commands)
            own = own[count:]
        rates += self._move(state, u, held, own, weight, commands)
        return commands, joined(rates, state.v)

    def _steer(
        self,
        unit: VehicleActuation,
        state: State,
        u: dict[str, Any],
        held: dict[str, Any],
        own: list[Any],
        weight: list[Any],
        commands: dict[str, Any],
    ) -> list[Any]:
        """Command the thrusters; return the time derivatives of target and integrals."""
        model = state.model
        q = entries(state.q[..., model.slice(unit.joint, of="q")])
        v = entries(state.v[..., model.slice(unit.joint, of="v")])
        keeping = held["station"] > 0.5
        able = [float(most > 0.0) for most in unit.strength]
        sticks = [a * held[axis] for a, axis in zip(able, AXES, strict=True)]
        paces = [held["turn_rate"]] * 3 + [held["speed"]] * 3
        wanted = [stick * pace for stick, pace in zip(sticks, paces, strict=True)]
        length = np.sqrt(sum(x * x for x in own[:4]))
        aim = [x / length for x in own[:4]]
        R = transpose(quaternion_to_matrix(q[:4]))
        turn = quaternion_log(quaternion_multiply(quaternion_conjugate(q[:4]), aim))
        shift = matrix_vector(R, subtract(tuple(own[4:7]), tuple(q[4:])))
        e = [a * x for a, x in zip(able, (*turn, *shift), strict=True)]
        k = held["station_frequency"]
        asked = []
        where = model.slice(unit.joint, of="v")
        parts = zip(
            unit.inertia, e, wanted, v, own[7:], unit.strength, sticks, weight[where], strict=True
        )
        for m, error, rate, speed, integral, most, stick, borne in parts:
            kept = m * (3.0 * k * k * error + 3.0 * k * (rate - speed) + k * k * k * integral)
            asked.append(np.where(keeping, kept + borne, stick * most))
        shares = unit.allocation.allocate(joined(asked, state.v))
        full = sum(entries(shares.saturated)) > 0.5
        for thruster, share in zip(unit.allocation.thrusters, entries(shares.command), strict=True):
            # the thruster's own command is added in manual mode
            commands[thruster.name] = share + np.where(keeping, 0.0, u[thruster.name])
        integrals = [
            np.where(keeping, np.where(full, 0.0, error), -INTEGRAL_DECAY * integral)
            for error, integral in zip(e, own[7:], strict=True)
        ]
        moved = self._moved(own[:7], aim, wanted, 1.0 - length * length)
        side = np.where(sum(a * b for a, b in zip(q[:4], own[:4], strict=True)) < 0.0, -1.0, 1.0)
        here = [*(side * x for x in q[:4]), *q[4:]]
        followed = [TARGET_RATE * (x - y) for x, y in zip(here, own[:7], strict=True)]
        targets = [np.where(keeping, a, b) for a, b in zip(moved, followed, strict=True)]
        return [*targets, *integrals]

    @staticmethod
    def _moved(own: list[Any], aim: list[Any], wanted: list[Any], short: Any) -> list[Any]:
        """Return the rate of the target pose by sticks, in its own axes, with normalization."""
        spin = quaternion_multiply(aim, [0.0, *wanted[:3]])
        way = matrix_vector(quaternion_to_matrix(aim), tuple(wanted[3:]))
        return [*(0.5 * s + short * x for s, x in zip(spin, own[:4], strict=True)), *way]

    @staticmethod
    def _walk(
        unit: Walker, state: State, held: dict[str, Any], own: list[Any], commands: dict[str, Any]
    ) -> list[Any]:
        """Command the legs; return the time derivatives of phase, effort, speed and turn."""
        phase, effort, speed, turning = own
        wanted = (held["surge"], held["yaw"])
        walks = np.minimum(1.0, 4.0 * (np.abs(wanted[0]) + np.abs(wanted[1])))
        waves, slopes = gait_waves(2.0 * np.pi * phase)
        pace = 2.0 * np.pi / unit.period
        q, v = entries(state.q), entries(state.v)
        tilt = leveling_angles(q[unit.base : unit.base + 4], v[unit.body], v[unit.body + 1])
        for leg in unit.joints:
            parts = [
                effort * a + speed * b + turning * c
                for a, b, c in zip(leg.lift, leg.ahead, leg.turn, strict=True)
            ]
            target = leg.rest + sum(part * f for part, f in zip(parts, waves, strict=True))
            target = target + leg.level[0] * tilt[0] + leg.level[1] * tilt[1]
            rate = pace * sum(part * f for part, f in zip(parts, slopes, strict=True))
            force = leg.stiffness * (target - q[leg.q]) + leg.damping * (rate - v[leg.v])
            if math.isfinite(leg.most):
                force = np.minimum(np.maximum(force, -leg.most), leg.most)
            commands[leg.command] = force
        return [
            1.0 / unit.period,
            (walks - effort) / WALK_LAG,
            (wanted[0] - speed) / WALK_LAG,
            (wanted[1] - turning) / WALK_LAG,
        ]

    def _move(
        self,
        state: State,
        u: dict[str, Any],
        held: dict[str, Any],
        own: list[Any],
        weight: list[Any],
        commands: dict[str, Any],
    ) -> list[Any]:
        """Command the joints; return the time derivatives of targets and integrals."""
        count = len(self.joints)
        q, v = entries(state.q), entries(state.v)
        targets, integrals = [], []
        for unit, target, integral in zip(self.joints, own[:count], own[count:], strict=True):
            keeping = held["arm_hold"] > 0.5
            stick = held[f"joint.{unit.joint}"]
            pace = stick * held["arm_rate"]
            # the target stays within the position limits
            pace = np.where((target >= unit.upper) & (pace > 0.0), 0.0, pace)
            pace = np.where((target <= unit.lower) & (pace < 0.0), 0.0, pace)
            e, k, m = target - q[unit.q], held["arm_frequency"], unit.inertia
            kept = m * (3.0 * k * k * e + 3.0 * k * (pace - v[unit.v]) + k * k * k * integral)
            kept = kept + weight[unit.v]
            by_force = not (unit.motor or unit.direct or unit.servo is not None)
            added = u[unit.command] if by_force else 0.0
            manual = stick * unit.strength + added
            force = np.where(keeping, kept, manual)
            missing = e
            if math.isfinite(unit.most):
                # anti-windup: no integration while saturated
                missing = np.where(np.abs(force) > unit.most, 0.0, e)
                force = np.minimum(np.maximum(force, -unit.most), unit.most)
            if unit.servo is not None and unit.servo.stiffness:
                # the servo itself holds the target
                at, rate = np.where(keeping, target, q[unit.q]), np.where(keeping, pace, v[unit.v])
                force = np.where(keeping, weight[unit.v], force)
                commands[unit.command] = unit.servo.command_of(force, at, rate)
            elif unit.servo is not None:
                commands[unit.command] = unit.servo.command_of(force, q[unit.q], v[unit.v])
            else:
                commands[unit.command] = _command(unit, force, v[unit.v])
            if unit.direct:
                # external force, in both modes
                commands[unit.command] += u[unit.command]
            if unit.motor or unit.servo is not None:
                commands[unit.command] += np.where(keeping, 0.0, u[unit.command])
            targets.append(np.where(keeping, pace, TARGET_RATE * (q[unit.q] - target)))
            integrals.append(np.where(keeping, missing, -INTEGRAL_DECAY * integral))
        return [*targets, *integrals]


def _command(unit: JointActuation, force: Any, speed: Any) -> Any:
    """Return the command for a force: itself, or the voltage of a motor."""
    if not unit.motor:
        return force
    R, K, B, n = unit.motor
    return R * force / (K * n) + B * n * speed


STAND = "stand"
"""Pose of legged robots from which they walk."""

STRIDE, LIFT, TURN = 0.7, 0.3, 0.3
"""Way of one cycle and height of the feet, relative to the height of the hips; turn of one cycle
[rad]; all at full stick."""

TROT_PERIOD, WALK_PERIOD = 0.4, 1.2
"""Time of one cycle with four legs, and with six and more [s]."""

SAG = 0.05
"""Angle by which joints yield under the weight on half of the legs [rad]."""

DAMPING_TIME = 0.012
"""Damping of leg joints per stiffness [s], at most what their own inertia bears."""


def walker_of(model: Model, joints: Sequence[JointActuation]) -> Walker | None:
    """Return the legs of a robot that can walk: four or more of three motors each, with a foot.

    Its first body floats, and it has a pose "stand".
    """
    by_name = {unit.joint: unit for unit in joints}
    first = model.bodies[0]
    if first.joint.kind != "free" or STAND not in model.poses or model.loops:
        return None
    parents = {body.name: body for body in model.bodies}
    legs: dict[str, tuple[str, ...]] = {}
    for point in model.contacts:
        chain, body = [], parents.get(point.body)
        while body is not None and body.name != first.name:
            chain.append(body.joint.name)
            body = parents.get(body.parent)
        own = tuple(name for name in chain if name in by_name)
        if len(own) == LEG_JOINTS == len(chain) and own not in legs.values():
            legs[point.name] = own
    if len(legs) < MIN_LEGS or LEG_JOINTS * len(legs) != len(joints):
        return None
    chosen = [by_name[name] for own in legs.values() for name in own]
    if any(unit.motor or unit.direct or unit.servo is not None for unit in chosen):
        return None
    stand = model.poses[STAND]
    points = {point.name: point for point in model.contacts}
    frames = [Frame(name, points[name].body, Pose(translation=points[name].position))
              for name in legs]  # fmt: skip
    marked = Model(model.name, model.bodies, [*model.frames, *frames])
    _, found = forward_kinematics(marked, np.array(stand), tuple(legs))
    base = model.slice(first.joint.name).start
    height = float(stand[base + 6] - found[:, 2].mean())
    phases = _phases(dict(zip(legs, found[:, :2].tolist(), strict=True)))
    period = TROT_PERIOD if len(legs) == MIN_LEGS else WALK_PERIOD
    gait = Gait(phases, period, 0.6, (STRIDE * height, 0.0), LIFT * height)
    try:
        series = gait.series(model, stand)
    except DomainError:
        # the legs do not reach far enough
        return None
    load = 9.81 * model.total_mass / (0.5 * len(legs))
    stiffness = load * STRIDE * height / SAG
    limbs = []
    for k, name in enumerate(leg_joints(model)):
        unit = by_name[name]
        # explicit steps of 1 ms bear a damping of about one inertia per step
        damping = min(DAMPING_TIME * stiffness, 1e3 * unit.inertia)
        limbs.append(
            LegJoint(
                unit.q,
                unit.v,
                unit.command,
                float(stand[unit.q]),
                tuple(series.lift[k].tolist()),
                tuple(series.stride[k].tolist()),
                tuple((TURN * series.turn[k]).tolist()),
                (float(series.level[k, 0]), float(series.level[k, 1])),
                stiffness,
                damping,
                unit.most,
            )
        )
    body = model.slice(first.joint.name, of="v").start
    return Walker(base, body, period, tuple(limbs))


LEG_JOINTS, MIN_LEGS = 3, 4
"""Motors of a leg, and legs of a robot that walks."""


def _phases(feet: dict[str, list[float]]) -> dict[str, float]:
    """Return half a cycle between feet that are neighbors, along or across the body.

    Args:
        feet: Places x and y of the feet [m], by name.
    """
    found: dict[str, float] = {}
    for side in (1.0, -1.0):
        row = sorted((n for n, (_, y) in feet.items() if y * side > 0.0), key=lambda n: -feet[n][0])
        for place, name in enumerate(row):
            found[name] = 0.5 * ((place + (side < 0.0)) % 2)
    return found | {name: 0.0 for name in feet if name not in found}


def piloted(
    model: Model,
    world: World,
    elements: Sequence[Any] = (),
    *,
    contact: ContactModel | None = DEFAULT_CONTACT,
    laws: Sequence[LawChoice] = (),
) -> tuple[System, dict[str, float]]:
    """Return the system of a robot with a pilot.

    Args:
        model: The robot.
        world: Its surroundings.
        elements: Elements that act beside the robot's own.
        contact: As in `simulate`.
        laws: Laws of joints that act at the ends of steps.

    Returns:
        The system, and the initial values of the panel by name of the command.
    """
    from tiburon.actuation.defaults import as_elements

    own = (
        *elements_of(model, laws=laws),
        *as_elements(elements),
        *contact_elements(model, world, contact),
    )
    vehicle, joints = actuation_of(model, world, CommandRow(model, own))
    start: dict[str, float] = {}
    if vehicle is not None:
        start |= dict.fromkeys(AXES, 0.0)
        # bandwidth well below that of the thrusters
        pace = min(2.0, 0.16 / vehicle.lag) if vehicle.lag > 0.0 else 2.0
        start |= {"station": 0.0, "station_frequency": pace, "speed": 0.5, "turn_rate": 0.3}
    touches = any(isinstance(element, ContactElement) for element in own)
    walker = walker_of(model, joints) if touches and vehicle is None else None
    if walker is not None:
        legs = {leg.v for leg in walker.joints}
        joints = tuple(unit for unit in joints if unit.v not in legs)
        start |= {"surge": 0.0, "yaw": 0.0}
    if joints:
        start |= {f"joint.{unit.joint}": 0.0 for unit in joints}
        start |= {"arm_hold": 1.0, "arm_frequency": 6.0, "arm_rate": 0.4}
    panel = Panel("panel", tuple(start))
    pilot = Pilot(vehicle, joints, panel, not model.loops, walker)
    system = System(model, world, (*own, panel), pilot, steps=True)
    return system, {f"panel.{word}": value for word, value in start.items()}
