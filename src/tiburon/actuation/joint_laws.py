"""Joint friction, damping, springs, servos and stops that act at the end of a step, not at stages.

Dry friction and stops, and damping, springs and servos of a joint that are faster than a step, are
not evaluated at the stages of the integrator. There, their mean forces over the last step act
as constants. The end of the step corrects them, so that the new mean forces obey their laws:

    damping and spring      f = -d v_m - k (x_m - rest)     in the mean state of the step
    servo                   f = g u + b - d v_m - k x_m, within its limits
    motor                   f = n K i_m, with L (i_1 - i_0) / h = u - R i_m - B n v_m, within limits
    dry friction            -f_0 <= f <= f_0, f = -f_0 sign v at the end where the joint moves
    stop                    f >= 0, and f = 0 where the joint ends within its range; where it
                            hits the stop, it leaves it with e times its speed

The first are linear: h (theta d + theta^2 h k) joins the mass matrix on its diagonal, where the
armature is; at the stages already, so that links without inertia of their own move. The others are
rows of the problem that contacts are solved in, and are solved together with them
(`tiburon.contact.rigid.BoundRow`). So are servos with limits in steps that need rows: as friction
about the middle of their limits, whose row is soft by 1 / (h (theta d + theta^2 h k)). Forces
change little from step to step; what the end of a step corrects is of second order in its length,
and so is the error of the motion.

Symbols:
    h           length of the step [s]
    x, v        position and velocity of one degree of freedom; 0 at the start, 1 at the end
    v_m         v_0 + theta (v_1 - v_0), the mean velocity with the weight theta of the end
    x_m         x_0 + theta h v_m
    i, i_m      current of a motor, and its mean i_0 + theta (i_1 - i_0)
    R, L, K, B  its resistance, inductance, torque and back-EMF constants; n its gear ratio
    z           fastest rate of the law, times h
    e           coefficient of restitution

With theta = 1 / (1 - exp(-z)) - 1 / z a damped joint decays as the exact solution does, for any z
(exponential fitting: Liniger and Willoughby 1970, "Efficient integration methods for stiff systems
of ordinary differential equations"). theta is 1/2 for small z, where the mean is of second order,
and 1 for large z, where the joint is at rest after one step.
"""

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tiburon.actuation.element import (
    Action,
    Element,
    ElementContext,
    per_degree_of_freedom,
)
from tiburon.actuation.joint_stops import STOP_FREQUENCY, apparent_joint_inertia
from tiburon.actuation.passive import (
    FRICTION_SPEED,
    PARTS,
    friction_force,
    is_axial,
    rest_position,
)
from tiburon.actuation.point_spring import StiffSprings, spring_rates
from tiburon.algorithms.crba import crba
from tiburon.arrays import ArrayLike, NDArray
from tiburon.contact.rigid import BoundRow
from tiburon.errors import DomainError, ModelError
from tiburon.model import Actuator, Coupled, Joint, Model, Motor, Servo
from tiburon.model.actuator import clipped
from tiburon.model.joints.joint import JointPassive
from tiburon.model.model import per_model
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars

STABLE_RATE = 2.78
"""Rate of a law times the step up to which explicit methods are stable on it (rk4: Hairer and
Wanner 1996, "Solving ordinary differential equations II", sec. IV.2)."""

RESOLVED_RATE = 0.5
"""Rate of a law times the step up to which the stages of a method resolve it."""

SAMPLES = 16
"""Random configurations in which apparent inertias are looked at."""

PASSIVE, FRICTION, STOP, SERVO, MOTOR = "passive", "friction", "stop", "servo", "motor"
"""Laws of a degree of freedom: damping and spring; dry friction; its stop; an actuator on it."""

ACTUATORS = SERVO, MOTOR
"""Laws of actuators."""

SPRING = "spring"
"""Law of a spring between points, of trees (`StiffSprings`)."""

BOUNDED = FRICTION, STOP
"""Laws with an inequality, which stages do not have: they act at the ends of all steps."""

NEAR_STOP = 1e-4
"""Distance from a stop up to which it may act in a step, beside the way of the joint [m or rad]."""

NARROW = 0.05
"""Range of a joint that it may cross in a step, so that both ends may act [m or rad]."""

STUCK_SHARE = 1.0 - 1e-6
"""Share of the friction below which it held the joint at rest in the last step."""


class LawChoice(NamedTuple):
    """A law of a joint that is taken at the end of steps."""

    joint: str
    """Name of the joint."""

    dof_index: int
    """Index of the degree of freedom, from 0."""

    law: str
    """`PASSIVE`, `FRICTION`, `STOP`, `SERVO`, `MOTOR` or `SPRING`."""

    rate: float
    """Its fastest rate [1/s]."""

    inertia: float
    """Least apparent inertia that it moves [kg or kg m^2]."""

    limit: float = 0.0
    """Rate of the laws of a joint up to which steps resolve them [1/s]."""

    actuator: str = ""
    """Name of the actuator or the spring."""

    @property
    def owner(self) -> tuple[str, str, str]:
        """What all laws that are taken alike have in common."""
        return self.joint, self.law, self.actuator

    @property
    def words(self) -> str:
        """The law in words, for messages."""
        if self.law in ACTUATORS:
            return f"{self.law} of actuator {self.actuator!r}"
        if self.law == SPRING:
            return f"spring {self.actuator!r}"
        what = {PASSIVE: "damping or spring", FRICTION: "friction"}.get(self.law, "stop")
        return f"{what} of joint {self.joint!r}"

    def rate_of(self, passive: JointPassive, joint: Joint) -> float:
        """Return the fastest rate of damping and spring with given values, or of friction [1/s].

        Friction is as fast as where it is smooth. It counts for damping, too: where forces that
        damping resists change within a step, both are solved together.
        """
        friction = per_degree_of_freedom(passive.friction, joint)[self.dof_index]
        rubbing = friction / FRICTION_SPEED / self.inertia
        if self.law == FRICTION:
            return rubbing
        damping = per_degree_of_freedom(passive.damping, joint)[self.dof_index]
        own = self.linear_rate(passive, joint)
        return max(own, damping / self.inertia + rubbing) if own else 0.0

    def linear_rate(self, passive: JointPassive, joint: Joint) -> float:
        """Return the rate of damping and spring alone [1/s]."""
        damping, stiffness = (
            per_degree_of_freedom(part, joint)[self.dof_index]
            for part in (passive.damping, passive.stiffness)
        )
        rate = damping / self.inertia
        return max(rate, math.sqrt(stiffness / self.inertia)) if is_axial(joint) else rate


@per_model
def law_rates(
    model: Model, most: tuple[tuple[str, float], ...] = (), least: tuple[float, ...] = ()
) -> tuple[LawChoice, ...]:
    """Return the fastest rates of friction, damping, springs and stops at each degree of freedom.

    They are those of the least apparent inertia of the joint in some configurations.

    Args:
        model: The robot.
        most: Largest values of a run that replace those of the robot, by name.
        least: Least apparent inertia of each degree of freedom in a run whose parameters change
            that of the robot [kg or kg m^2]; none by default.
    """
    found: list[LawChoice] = []
    known: list[NDArray[np.float64]] = []
    given = dict(most)

    def moved() -> NDArray[np.float64]:
        """Return the least inertias."""
        if not known:
            own = least or least_joint_inertia(model, apparent_joint_inertia(model))
            known.append(np.array(own))
        return known[0]

    changed = {name.rpartition(".")[0] for name in given}
    for joint in model.joints:
        if joint.dof == 0 or not (joint.passive or joint.limits or joint.name in changed):
            continue
        own = moved()[model.slice(joint.name, of="v")]
        ratio = joint.ratio if isinstance(joint, Coupled) else 1.0
        for k in range(joint.dof if ratio else 0):
            m = float(own[k]) / (ratio * ratio)
            if joint.passive is not None or joint.name in changed:
                words = ("damping", "friction", "stiffness")
                parts = {f"{joint.name}.{word}": word for word in words}
                values = {word: given[name] for name, word in parts.items() if name in given}
                own_values = joint.passive or JointPassive()
                if values:
                    own_values = replace(own_values, **values)
                for law in (PASSIVE, FRICTION):
                    choice = LawChoice(joint.name, k, law, 0.0, m)
                    rate = choice.rate_of(own_values, joint)
                    if rate:
                        found.append(choice._replace(rate=rate))
            if is_axial(joint) and any(map(math.isfinite, _range(joint, k))):
                found.append(LawChoice(joint.name, k, STOP, STOP_FREQUENCY, m))
    for actuator in model.actuators:
        servo = actuator.servo
        if servo is None:
            if (motor := implicit_motor(actuator)) is not None:
                found.append(_motor_choice(model, actuator, motor, moved()))
            continue
        prefix = f"{actuator.name}.servo."
        stiffness = given.get(f"{prefix}stiffness", servo.stiffness)
        damping = given.get(f"{prefix}damping", servo.damping)
        servo = replace(servo, stiffness=stiffness, damping=damping)
        found.append(_servo_choice(model, actuator, servo, moved()))
    return (*found, *_spring_choices(model, given))


def _spring_choices(model: Model, given: Mapping[str, float]) -> Iterator[LawChoice]:
    """Yield the rates of springs between points that may act at the ends of steps.

    Ropes are slack or not within a step. Projected loops have rows that are not soft.
    """
    springs = []
    for spring in () if model.loops else model.springs:
        if not spring.rope:
            names = ("stiffness", "damping")
            more: dict[str, Any] = {
                n: given[key] for n in names if (key := f"{spring.name}.{n}") in given
            }
            springs.append(replace(spring, **more))
    if springs:
        positions = np.array([model.neutral(), *sampled_positions(model)])
        elements = crba(model.plan, tuple(positions.T))
        count = len(positions)
        M = np.array([[np.broadcast_to(x, count) for x in row] for row in elements])
        rates = spring_rates(model, springs, positions, np.moveaxis(M.astype(float), -1, 0))
        for spring in springs:
            yield LawChoice("", 0, SPRING, rates[spring.name], 1.0, actuator=spring.name)


def implicit_motor(actuator: Actuator) -> Motor | None:
    """Return the motor of an actuator that may act at the ends of steps; None for others.

    Brushes are not linear, and a driver that limits both voltage and current lets back-EMF drive
    more than its largest current.
    """
    motor = actuator.motor
    if motor is None or not actuator.takes_voltage or motor.brush_drop:
        return None
    both = math.isfinite(motor.voltage_limit) and math.isfinite(motor.current_limit)
    return None if both or not motor.resistance else motor


def _motor_choice(
    model: Model, actuator: Actuator, motor: Motor, inertias: NDArray[np.float64]
) -> LawChoice:
    """Return the rate of a motor on a robot with given apparent inertias."""
    joint = model.joint(actuator.joint)
    ratio = joint.ratio if isinstance(joint, Coupled) else 1.0
    m = float(inertias[model.slice(joint.name, of="v")][0])
    m = m / (ratio * ratio) if ratio else math.inf
    return LawChoice(
        joint.name, 0, MOTOR, _motor_rate(actuator, motor, m), m, actuator=actuator.name
    )


def _motor_rate(actuator: Actuator, motor: Motor, m: float) -> float:
    """Return the fastest rate of winding and rotor on a joint that moves the inertia m [1/s]."""
    n = actuator.ratio * actuator.ratio
    rubbing = n * motor.damping / m
    coupling = n * motor.torque_constant * motor.back_emf / m
    if not motor.inductance:
        return coupling / motor.resistance + rubbing
    decay, swing = motor.resistance / motor.inductance, math.sqrt(coupling / motor.inductance)
    return max(decay, swing, rubbing)


def _servo_choice(
    model: Model, actuator: Actuator, servo: Servo, inertias: NDArray[np.float64]
) -> LawChoice:
    """Return the rate of a servo on a robot with given apparent inertias."""
    joint = model.joint(actuator.joint)
    ratio = joint.ratio if isinstance(joint, Coupled) else 1.0
    m = float(inertias[model.slice(joint.name, of="v")][0])
    m = m / (ratio * ratio) if ratio else math.inf
    rate = max(servo.damping / m, math.sqrt(servo.stiffness / m))
    return LawChoice(joint.name, 0, SERVO, rate, m, actuator=actuator.name)


def least_joint_inertia(model: Model, neutral: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least apparent inertia of each degree of freedom [kg or kg m^2], shape (nv,).

    It is the least of those in the neutral and in some random configurations, always the same.
    """
    elements = crba(model.plan, tuple(sampled_positions(model).T))
    M = np.array([[np.broadcast_to(x, SAMPLES) for x in row] for row in elements], dtype=np.float64)
    return least_inertia_of(np.moveaxis(M, -1, 0), neutral)


def sampled_positions(model: Model) -> NDArray[np.float64]:
    """Return the random configurations in which apparent inertias are looked at."""
    q, _ = model.random_state(np.random.default_rng(0), shape=(SAMPLES,))
    return np.asarray(q, dtype=np.float64)


def least_inertia_of(M: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least apparent inertia of mass matrices and of known ones, shape (nv,).

    Args:
        M: Mass matrices, shape (..., nv, nv); singular ones are left out.
        known: Apparent inertias [kg or kg m^2].
    """
    least = known
    for one in M.reshape(-1, *M.shape[-2:]):
        try:
            inertia = 1.0 / np.diag(np.linalg.inv(one))
        except np.linalg.LinAlgError:
            continue
        good = np.isfinite(inertia) & (inertia > 0.0)
        least = np.where(good, np.minimum(least, inertia), least)
    return least


def ended_laws(
    model: Model,
    dt: float,
    *,
    parameters: Mapping[str, ArrayLike] = MappingProxyType({}),
    least: tuple[float, ...] = (),
) -> tuple[LawChoice, ...]:
    """Return the laws of joints that act at the ends of steps of dt [s]; see `law_rates`.

    They are dry friction and stops, and of the others those that steps do not resolve. Those of one
    kind and joint are taken alike. Of a batch these are the laws that any case takes at the
    ends of steps; the values of a case decide where its own act (`JointLaws.of`).

    Args:
        model: The robot.
        dt: Length of the steps [s].
        parameters: Values by name that replace those of the robot, one or one per case.
        least: As for `law_rates`.
    """
    most = tuple(
        (name, float(np.max(np.abs(value), initial=0.0)))
        for name, value in parameters.items()
        if name.rpartition(".")[2] in ("damping", "friction", "stiffness")
    )
    return _laws_beyond(model, dt, most, least)


@per_model
def _laws_beyond(
    model: Model, dt: float, most: tuple[tuple[str, float], ...], least: tuple[float, ...]
) -> tuple[LawChoice, ...]:
    """Return the laws at the ends of steps of dt [s]; arguments as of `law_rates`."""
    every = law_rates(model, most, least)
    beyond = {one.owner for one in every if one.law in BOUNDED or one.rate * dt >= RESOLVED_RATE}
    chosen = [one for one in every if one.owner in beyond]
    return tuple(one._replace(limit=RESOLVED_RATE / dt) for one in chosen)


def resolved_joints(model: Model, chosen: Collection[LawChoice]) -> tuple[str, ...]:
    """Return joints whose laws were chosen for other cases of a batch: steps resolve their own."""
    fastest: dict[str, bool] = {}
    for one in chosen:
        if one.law == PASSIVE:
            joint = model.joint(one.joint)
            rate = one.rate_of(joint.passive or JointPassive(), joint)
            fastest[one.joint] = fastest.get(one.joint, False) or rate >= one.limit
    return tuple(name for name, beyond in fastest.items() if not beyond)


def refuse_laws(
    laws: Sequence[LawChoice], dt: float, advice: str, limit: float = RESOLVED_RATE
) -> None:
    """Refuse steps that are too long for laws of joints which cannot act at their ends.

    Args:
        laws: Laws that would act at the ends of steps.
        dt: Length of the steps [s].
        advice: What lets them act there.
        limit: Rate times dt that is accepted.

    Raises:
        DomainError: If a law is faster.
    """
    fastest = max(laws, key=lambda one: one.rate, default=None)
    if fastest is None or fastest.rate * dt <= limit:
        return
    raise DomainError(
        f"dt with the {fastest.words}",
        f"steps of at most {limit / fastest.rate:.2g} s, as its rate is {fastest.rate:.3g} 1/s",
        f"{dt:g} s",
        advice=advice,
    )


def refuse_immovable(
    model: Model, laws: Sequence[LawChoice], prescribed: Collection[str] = ()
) -> None:
    """Refuse a joint that nothing resists: any force would accelerate it without limit.

    Damping and springs that act at the ends of steps resist.

    Args:
        model: The robot.
        laws: Laws that act at the ends of steps.
        prescribed: Joints whose motion is given.

    Raises:
        ModelError: With the name of the joint.
    """
    held = {one.joint for one in laws if one.law != STOP and one.rate > 0.0}
    for name in model.immovable_joint_names:
        if name not in held and name not in prescribed:
            raise ModelError(
                f"joint {name!r}: moves no inertia, so that its acceleration is undefined; give "
                f"the joint an armature, its bodies an inertia, or take model.lock({name!r})",
                name=name,
            )


@record
class JointLaw:
    """Friction, damping, spring and stop of one degree of freedom, as far as steps take them last.

    Or an actuator on it.

    Zeros and infinite limits are left out of compiled code.
    """

    joint: str
    """Name of the joint."""

    dof_index: int
    """Index of the degree of freedom, from 0."""

    rate: float = 0.0
    """Fastest rate of friction, damping and spring [1/s]."""

    damping: float = 0.0
    """Force per velocity [N s/m or N m s/rad]."""

    friction: float = 0.0
    """Largest dry friction [N or N m]."""

    stiffness: float = 0.0
    """Force per displacement from `rest` [N/m or N m/rad]."""

    rest: float = 0.0
    """Position without spring force [m or rad]."""

    stage_inertia: float = 0.0
    """What damping and spring add to the armature at the stages of a step [kg or kg m^2]."""

    lower: float = -math.inf
    """Smallest position [m or rad]; minus infinity for none."""

    upper: float = math.inf
    """Largest position [m or rad]; infinity for none."""

    restitution: float = 0.0
    """Share of the speed with which the joint leaves its stop."""

    named: tuple[str, ...] = ()
    """Values that are run-time parameters even where zero."""

    actuator: Actuator | None = None
    """The actuator with a servo that has this damping and stiffness, or with a motor that has this
    damping beside its winding."""

    def takes(self, word: str) -> bool:
        """Return whether a value is part of the code."""
        return word in self.named or getattr(self, word) != 0.0

    @property
    def is_linear(self) -> bool:
        """Whether it has damping or a spring, or is an actuator."""
        return self.actuator is not None or self.takes("damping") or self.takes("stiffness")

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether it has a lower and an upper stop."""
        return math.isfinite(self.lower), math.isfinite(self.upper)

    @property
    def is_narrow(self) -> bool:
        """Whether both stops may act in a step."""
        return self.upper - self.lower <= NARROW

    @property
    def is_bounded(self) -> bool:
        """Whether its linear force has limits."""
        return math.isfinite(self._force_limits()[0])

    @property
    def linear_name(self) -> str:
        """Name of the force of damping and spring, or of the actuator."""
        if self.actuator is None:
            return "damping_force"
        return "servo_force" if self.motor is None else "motor_force"

    @property
    def motor(self) -> Motor | None:
        """The motor of its actuator, if it has no servo."""
        actuator = self.actuator
        return None if actuator is None or actuator.servo is not None else actuator.motor

    @property
    def rows(self) -> tuple[str, ...]:
        """Forces that are rows of the problem at the end of a step."""
        return tuple(
            name
            for name, acts in (
                (self.linear_name, self.is_bounded),
                ("friction_force", self.takes("friction")),
                ("stop_force", any(self.ends)),
                ("stop_force", self.is_narrow),
            )
            if acts
        )

    @property
    def forces(self) -> tuple[str, ...]:
        """Its forces: discrete states."""
        return tuple(
            name
            for name, acts in (
                (self.linear_name, self.is_linear),
                ("friction_force", self.takes("friction")),
                ("stop_force", any(self.ends)),
            )
            if acts
        )

    def parameters(self) -> tuple[float, ...]:
        """Return all numbers in the order of the fields, of the limits the finite ones."""
        springs = (self.stiffness, self.rest, self.stage_inertia)
        passive = (self.rate, self.damping, self.friction, *springs)
        ends = (x for x in (self.lower, self.upper) if math.isfinite(x))
        bounce = (self.restitution,) if self.restitution else ()
        return (*passive, *ends, *bounce, *self._servo())

    def _servo(self) -> tuple[float, ...]:
        """Return gain and bias of a servo, or the winding of a motor; then the finite limits."""
        if self.actuator is None:
            return ()
        limits = tuple(x for x in self._servo_limits() if math.isfinite(x))
        if self.motor is not None:
            m = self.motor
            own = (m.resistance, m.torque_constant, m.back_emf, self.actuator.ratio)
            return (*own, *((m.inductance,) if m.inductance else ()), *limits)
        servo = self.actuator.servo
        assert servo is not None
        return (servo.force_gain, servo.bias, *limits)

    def _servo_limits(self) -> tuple[float, ...]:
        """Return the limits of command and force of an actuator."""
        if self.actuator is None:
            return ()
        if self.motor is not None:
            most = self.motor.voltage_limit
            return (-most, most, *self._force_limits())
        assert self.actuator.servo is not None
        return (*self.actuator.servo.command_limits, *self._force_limits())

    def _force_limits(self) -> tuple[float, float]:
        """Return the limits of the linear force; those of current are limits of a motor's force."""
        if self.actuator is None:
            return -math.inf, math.inf
        low, high = self.actuator.force_limits
        if self.motor is not None and math.isfinite(self.motor.current_limit):
            own = abs(self.actuator.ratio * self.motor.torque_constant) * self.motor.current_limit
            low, high = max(low, -own), min(high, own)
        return low, high

    def driven(
        self, given: Iterator[Scalar], command: Scalar, current: Scalar
    ) -> tuple[Scalar, Scalar, Scalar, "Winding | None"]:
        """Return the force of a servo at rest in position 0 under a command, and its limits.

        Then the winding of a motor.

        Args:
            given: Run-time parameters, of which those of the actuator are next.
            command: The set point or voltage.
            current: That of a winding at the start of the step [A].
        """
        if self.actuator is None:
            return 0.0, -math.inf, math.inf, None
        winding: Winding | None = None
        gain, bias = 0.0, 0.0
        if self.motor is None:
            gain, bias = next(given), next(given)
        else:
            R, K, B, n = (next(given) for _ in range(4))
            L = next(given) if self.motor.inductance else None
            winding = Winding(R, K, B, n, L, command, current)
        least, most, low, high = (
            next(given) if math.isfinite(x) else None for x in self._servo_limits()
        )
        command = clipped(command, least, most)
        force = gain * command + bias
        if winding is not None:
            force, winding = 0.0, winding._replace(voltage=command)
        ends = -math.inf if low is None else low, math.inf if high is None else high
        return force, *ends, winding

    def structure(self) -> Hashable:
        """Return what its code depends on."""
        words = ("damping", "friction", "stiffness")
        stops = (*self.ends, self.is_narrow, self.restitution > 0.0)
        found = (self.joint, self.dof_index, tuple(map(self.takes, words)), stops)
        if self.actuator is None:
            return found
        limits = tuple(map(math.isfinite, self._servo_limits()))
        lags = self.motor is not None and self.motor.inductance > 0.0
        return (*found, self.actuator.name, self.linear_name, lags, limits)


class Winding(NamedTuple):
    """The winding of a motor in a step."""

    R: Scalar
    K: Scalar
    B: Scalar
    n: Scalar

    L: Scalar | None
    """Inductance [H]; None for none."""

    voltage: Scalar
    """At its terminals [V]."""

    current: Scalar
    """At the start of the step [A]; unused without inductance."""

    def mean_current(self, part: Scalar, h: Scalar) -> tuple[Scalar, Scalar]:
        """Return i_m of a motor at rest, and how it decreases with v_m.

        Args:
            part: theta.
            h: Length of the step [s].
        """
        if self.L is None:
            return self.voltage / self.R, self.B * self.n / self.R
        share = part * h / (self.L + part * h * self.R)
        start = self.current + share * (self.voltage - self.R * self.current)
        return start, share * self.B * self.n

    def current_after(self, speed: Scalar, part: Scalar, h: Scalar) -> Scalar:
        """Return the current at the end of a step with the mean velocity v_m [A]."""
        mean, slope = self.mean_current(part, h)
        return self.current + (mean - slope * speed - self.current) / part


class HeldLaw(NamedTuple):
    """A law in a step: its numbers, its forces over the last step, and where it acts."""

    law: JointLaw
    """The law."""

    variable: int
    """The velocity variable on which it acts."""

    ratio: float
    """Velocity of the degree of freedom per velocity variable."""

    offset: float
    """Position of the degree of freedom where the variable is 0 [m or rad]."""

    rate: Scalar
    damping: Scalar
    friction: Scalar
    stiffness: Scalar
    rest: Scalar
    stage_inertia: Scalar
    lower: Scalar
    upper: Scalar
    restitution: Scalar

    forces: dict[str, Scalar]
    """Mean forces over the last step by the names of `JointLaw.forces` [N or N m]."""

    position: int | None = None
    """The position variable; None where velocities are no rates of positions."""

    drive: Scalar = 0.0
    """Force of a servo at rest in position 0 [N or N m]."""

    low: Scalar = -math.inf
    """Smallest force of a servo [N or N m]."""

    high: Scalar = math.inf
    """Largest one [N or N m]."""

    winding: Winding | None = None
    """That of a motor."""

    @property
    def middle(self) -> Scalar:
        """Middle of the limits of a servo [N or N m]."""
        return 0.5 * (self.low + self.high)

    def stage_forces(self, q: Scalars, v: Scalars) -> dict[str, Scalar]:
        """Return the forces in a state, but of stops and servos; friction is smooth about rest."""
        x, speed = self.measured(q, v)
        found: dict[str, Scalar] = {}
        if self.law.is_linear and self.law.actuator is None:
            found["damping_force"] = -self.damping * speed - self.stiffness * (x - self.rest)
        if self.law.takes("friction"):
            found["friction_force"] = friction_force(self.friction, FRICTION_SPEED, speed)
        return found

    def weight(self, h: Scalar) -> Scalar:
        """Return theta for a step of length h [s]."""
        return end_weight(self.rate * h)

    def measured(self, q: Scalars, v: Scalars) -> tuple[Scalar, Scalar]:
        """Return position and velocity of the degree of freedom in a state."""
        x: Scalar = 0.0
        if self.position is not None:
            x = self.ratio * q[self.position] + self.offset
        return x, self.ratio * v[self.variable]

    def linear_force(self, start: tuple[Scalar, Scalar], end: Scalar, h: Scalar) -> Scalar:
        """Return the force of damping and spring, or servo, in the mean state of a step.

        Args:
            start: Position and velocity at its start.
            end: Velocity at its end.
            h: Length of the step [s].
        """
        part = self.weight(h)
        x, v = start
        v = v + part * (end - v)
        found: Scalar = self.drive
        if self.winding is not None:
            i, less = self.winding.mean_current(part, h)
            found = found + self.winding.n * self.winding.K * (i - less * v)
        if self.law.takes("damping"):
            found = found - self.damping * v
        if self.law.takes("stiffness"):
            found = found - self.stiffness * (x + part * h * v - self.rest)
        return found

    def slope(self, h: Scalar) -> Scalar:
        """Return how much that force decreases per velocity at the end of the step."""
        part = self.weight(h)
        found: Scalar = 0.0
        if self.winding is not None:
            _, less = self.winding.mean_current(part, h)
            found = found + part * self.winding.n * self.winding.K * less
        if self.law.takes("damping"):
            found = found + part * self.damping
        if self.law.takes("stiffness"):
            found = found + part * part * h * self.stiffness
        return found

    def soft_row(self, force: Scalar, speed: Scalar, h: Scalar) -> BoundRow:
        """Return the row of an actuator with limits.

        It is softer than a brake by the speed per impulse at which the force follows its law.

        Args:
            force: Its force if the velocity at the end of the step were `speed` [N or N m].
            speed: Velocity of the joint there.
            h: Length of the step [s].
        """
        slope = self.slope(h)
        held = h * (self.forces[self.law.linear_name] - self.middle)
        return BoundRow(
            {self.variable: self.ratio},
            held,
            friction=0.5 * h * (self.high - self.low),
            softness=1.0 / (h * slope),
            offset=(self.middle - force) / slope - speed,
        )

    def bounds(self, q: Scalars, v: Scalars, h: Scalar) -> Iterator[tuple[str, BoundRow]]:
        """Yield the rows of friction and stop in a step from a state, with their names."""
        x, speed = self.measured(q, v)
        if self.law.takes("friction"):
            held = self.forces["friction_force"]
            stuck = np.where(np.abs(held) < STUCK_SHARE * self.friction, 1.0, 0.0)
            row: dict[int, Scalar] = {self.variable: self.ratio}
            yield "friction_force", BoundRow(row, h * held, friction=h * self.friction, stuck=stuck)
        if any(self.law.ends):
            below, above = x - self.lower, self.upper - x
            signs: tuple[Scalar, ...] = (1.0,) if self.law.ends[0] else (-1.0,)
            if self.law.is_narrow:
                signs = 1.0, -1.0
            elif all(self.law.ends):
                # the end that is closer to where the joint goes; at rest, to where it is
                signs = (np.where(below + 2.0 * h * speed < above, 1.0, -1.0),)
            for sign in signs:
                gap = np.where(sign > 0.0, below, above)
                # the end of the range that was pushed in the last step, and is still near: what
                # solvers leave of forces elsewhere, however little, would hold the joint there
                pushed = np.maximum(sign * self.forces["stop_force"], 0.0)
                pushed = np.where(gap > h * np.abs(speed) + NEAR_STOP, 0.0, pushed)
                yield (
                    "stop_force",
                    BoundRow(
                        {self.variable: sign * self.ratio},
                        h * pushed,
                        gap=gap,
                        speed=sign * speed,
                        sign=sign,
                        restitution=self.restitution,
                        is_sudden=self.law.is_narrow or self.law.restitution > 0.0,
                    ),
                )


def end_weight(z: Scalar) -> Scalar:
    """Return theta = 1 / (1 - exp(-z)) - 1 / z, the weight of the end of a step; 1/2 at 0."""
    small = z < 1e-2
    some = np.where(small, 1.0, z)
    return np.where(small, 0.5 + z / 12.0, 1.0 / (1.0 - np.exp(-some)) - 1.0 / some)


@record
class JointLaws(Element):
    """Laws of joints that steps take at their end; their values are run-time parameters.

    Its discrete states are the mean forces of all laws over the last step, then the residual of the
    friction and the stops, relative to the largest impulse, and the largest residual so far.
    """

    name: str
    """Unique among the elements of a run."""

    laws: tuple[JointLaw, ...]
    """One per degree of freedom and kind of law."""

    states_last: ClassVar[bool] = True

    @classmethod
    def of(cls, model: Model, chosen: Sequence[LawChoice]) -> "JointLaws | None":
        """Return the chosen laws of a robot, with its values; None if none acts."""
        found = []
        resolved = resolved_joints(model, chosen)
        for choice in chosen:
            if choice.law == SPRING:
                continue
            joint = model.joint(choice.joint)
            if choice.law == SERVO:
                law = _servo_law(model, choice)
            elif choice.law == MOTOR:
                law = _motor_law(model, choice)
            elif choice.law == STOP:
                law = _stop_law(joint, choice.dof_index)
            else:
                acts = choice.law == FRICTION or joint.name not in resolved
                law = _passive_law(model, joint, choice, acts=acts)
            if law.forces:
                found.append(law)
        return cls("joint_laws", tuple(found)) if found else None

    @property
    def is_passive(self) -> bool:
        """Whether it has friction, damping or springs, not stops alone."""
        return any(law.actuator is None and not any(law.ends) for law in self.laws)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return spring energy [J], dissipated power [W], and mean forces of actuators."""
        driven = (law.actuator for law in self.laws)
        servos = (f"{actuator.name}.force" for actuator in driven if actuator is not None)
        return (f"{self.name}.energy", f"{self.name}.loss", *servos)

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of the mean forces, and of the residuals."""
        names = []
        for law in self.laws:
            several = model.joint(law.joint).dof > 1
            owner = f"{law.joint}_{law.dof_index}" if several else law.joint
            owner = owner if law.actuator is None else law.actuator.name
            names += [f"{owner}.{force}" for force in law.forces]
        return (*names, f"{self.name}.residual", f"{self.name}.largest_residual")

    def parameters(self) -> tuple[float, ...]:
        """Return the parameters of each law."""
        return tuple(x for law in self.laws for x in law.parameters())

    def structure(self) -> Hashable:
        """Return the structure of each law."""
        return tuple(law.structure() for law in self.laws)

    def held(
        self,
        model: Model,
        p: Scalars,
        z: Scalars,
        commands: Mapping[str, Scalar] = MappingProxyType({}),
        currents: Mapping[str, Scalar] = MappingProxyType({}),
    ) -> list[HeldLaw]:
        """Return all laws with their numbers and their forces over the last step.

        Args:
            model: The robot.
            p: Run-time parameters of the element.
            z: Its discrete states.
            commands: Those of servos and motors, by the name of the actuator.
            currents: Those of windings at the start of a step, likewise.
        """
        given, states, found = iter(p), iter(z), []
        for law in self.laws:
            joint = model.joint(law.joint)
            rate, damping, friction, stiffness, rest, inertia = (next(given) for _ in range(6))
            lower, upper = (
                next(given) if finite else end
                for finite, end in zip(law.ends, (law.lower, law.upper), strict=True)
            )
            bounce = next(given) if law.restitution else 0.0
            of_q, of_v = (model.slice(joint.name, of=of) for of in ("q", "v"))
            ratio, offset = 1.0, 0.0
            if isinstance(joint, Coupled):
                ratio, offset = joint.ratio, joint.offset
            name = "" if law.actuator is None else law.actuator.name
            driven = law.driven(given, commands.get(name, 0.0), currents.get(name, 0.0))
            found.append(
                HeldLaw(
                    law,
                    of_v.start + law.dof_index,
                    ratio,
                    offset,
                    rate,
                    damping,
                    friction,
                    stiffness,
                    rest,
                    inertia,
                    lower,
                    upper,
                    bounce,
                    {name: next(states) for name in law.forces},
                    of_q.start + law.dof_index if is_axial(joint) else None,
                    *driven,
                )
            )
        return found

    @property
    def at_stages(self) -> "LawsAtStages":
        """The same friction, damping and springs as forces of a state."""
        return LawsAtStages(self.name, self)

    @property
    def stops_joints(self) -> bool:  # type: ignore[override]
        """Whether any of them is a stop."""
        return any(any(law.ends) for law in self.laws)

    def stage_inertias(self, model: Model, p: Scalars) -> dict[int, Scalar]:
        """Return what damping and springs add to armatures at stages, by velocity variable."""
        found: dict[int, Scalar] = {}
        for held in self.held(model, p, (0.0,) * len(self.discrete_state_names(model))):
            if held.law.is_linear:
                own = held.ratio * held.ratio * held.stage_inertia
                found[held.variable] = found.get(held.variable, 0.0) + own
        return found

    def act(self, now: ElementContext) -> Action:
        """Return the mean forces over the last step, and what springs hold and the others lose."""
        forces: list[Scalar] = [0.0] * now.model.nv
        energy: Scalar = 0.0
        loss: Scalar = 0.0
        servos: dict[str, Scalar] = {}
        for held in self.held(now.model, now.p, now.z):
            x, speed = held.measured(now.q, now.v)
            i = held.variable
            for force in held.forces.values():
                forces[i] = forces[i] + held.ratio * force
            if held.law.actuator is not None:
                force = held.forces[held.law.linear_name]
                if held.law.takes("friction"):
                    force = force + held.forces["friction_force"]
                servos[f"{held.law.actuator.name}.force"] = force
                continue
            if held.law.takes("stiffness"):
                energy = energy + 0.5 * held.stiffness * (x - held.rest) * (x - held.rest)
            if held.law.takes("damping"):
                loss = loss + held.damping * speed * speed
            if held.law.takes("friction"):
                loss = loss - held.forces["friction_force"] * speed
        outputs = {f"{self.name}.energy": energy, f"{self.name}.loss": loss, **servos}
        return Action(tuple(forces), outputs=outputs)

    def update_discrete_state(self, now: ElementContext) -> Scalars:
        """Return the states that the end of the step has given already."""
        return now.z


@record
class LawsAtStages(Element):
    """Friction, damping and springs of `JointLaws` as functions of the state, without stops."""

    name: str
    """Unique among the elements of a run."""

    laws: JointLaws
    """The laws."""

    def parameters(self) -> tuple[float, ...]:
        """Return the parameters of the laws."""
        return self.laws.parameters()

    def act(self, now: ElementContext) -> Action:
        """Compute the joint forces."""
        forces: list[Scalar] = [0.0] * now.model.nv
        none = (0.0,) * len(self.laws.discrete_state_names(now.model))
        for held in self.laws.held(now.model, now.p, none):
            for force in held.stage_forces(now.q, now.v).values():
                forces[held.variable] = forces[held.variable] + held.ratio * force
        return Action(tuple(forces))


def _passive_law(model: Model, joint: Joint, choice: LawChoice, *, acts: bool) -> JointLaw:
    """Return friction, or damping and spring, of a degree of freedom; zeros if it does not act."""
    passive, k = joint.passive or JointPassive(), choice.dof_index
    words = ["friction"]
    if choice.law == PASSIVE:
        words = ["damping", "stiffness"] if is_axial(joint) else ["damping"]
    values: dict[str, Any] = {
        word: per_degree_of_freedom(getattr(passive, word), joint)[k] for word in words
    }
    run_time = model.run_time.passives
    given = [word for word in PARTS if f"{joint.name}.{word}" in run_time]
    named: tuple[str, ...] = ()
    if given:
        # cases decide by their own values, of which the code must know all
        named = tuple(word for word in words if values[word] != 0.0 or word in given)
    if "stiffness" in values and (values["stiffness"] or "stiffness" in named):
        values["rest"] = rest_position(joint, passive.rest)[k]
    rate = choice.linear_rate(passive, joint)
    if not acts:
        values |= dict.fromkeys(words, 0.0)
    linear = (values.get(word, 0.0) for word in ("damping", "stiffness"))
    inertia = _stage_inertia(choice, rate, *linear)
    return JointLaw(joint.name, k, rate, named=named, stage_inertia=inertia, **values)


def _motor_law(model: Model, choice: LawChoice) -> JointLaw:
    """Return a motor that acts at the ends of steps, with the friction of its rotor."""
    actuator = next(one for one in model.actuators if one.name == choice.actuator)
    motor = actuator.motor
    assert motor is not None
    rate, n = _motor_rate(actuator, motor, choice.inertia), abs(actuator.ratio)
    h = RESOLVED_RATE / choice.limit
    lag = motor.inductance or None
    own = (motor.resistance, motor.torque_constant, motor.back_emf, n)
    part = float(end_weight(np.float64(rate * h)))
    _, less = Winding(*own, lag, 0.0, 0.0).mean_current(part, h)
    damping = n * n * motor.damping
    return JointLaw(
        choice.joint,
        0,
        rate,
        damping=damping,
        friction=n * motor.friction,
        stage_inertia=h * part * (damping + n * motor.torque_constant * float(less)),
        actuator=actuator,
    )


def _stop_law(joint: Joint, dof_index: int) -> JointLaw:
    """Return the stop of a degree of freedom."""
    lower, upper = _range(joint, dof_index)
    bounce = 0.0 if joint.limits is None else joint.limits.restitution
    share = per_degree_of_freedom(bounce, joint)[dof_index]
    return JointLaw(joint.name, dof_index, lower=lower, upper=upper, restitution=share)


def _stage_inertia(choice: LawChoice, rate: float, damping: float, stiffness: float) -> float:
    """Return what damping and spring add to the armature at stages [kg or kg m^2]."""
    h = RESOLVED_RATE / choice.limit
    part = float(end_weight(np.float64(rate * h)))
    return h * part * (damping + part * h * stiffness)


def _servo_law(model: Model, choice: LawChoice) -> JointLaw:
    """Return a servo that acts at the ends of steps."""
    actuator = next(one for one in model.actuators if one.name == choice.actuator)
    servo = actuator.servo
    assert servo is not None
    m = choice.inertia
    rate = max(servo.damping / m, math.sqrt(servo.stiffness / m))
    inertia = _stage_inertia(choice, rate, servo.damping, servo.stiffness)
    return JointLaw(
        choice.joint,
        0,
        rate,
        damping=servo.damping,
        stiffness=servo.stiffness,
        stage_inertia=inertia,
        actuator=actuator,
    )


def _range(joint: Joint, dof_index: int) -> tuple[float, float]:
    """Return the limits of a degree of freedom; infinite for none."""
    if joint.limits is None:
        return -math.inf, math.inf
    limits = (joint.limits.lower, joint.limits.upper)
    lower, upper = (per_degree_of_freedom(x, joint)[dof_index] for x in limits)
    return lower, upper


def chosen_joints(chosen: Collection[LawChoice], law: str) -> tuple[str, ...]:
    """Return the joints whose laws of one kind were chosen."""
    return tuple(dict.fromkeys(one.joint for one in chosen if one.law == law))


def ended_actuators(chosen: Collection[LawChoice]) -> tuple[str, ...]:
    """Return the actuators that were chosen."""
    return tuple(one.actuator for one in chosen if one.law in ACTUATORS)


def stiff_springs(model: Model, chosen: Collection[LawChoice]) -> StiffSprings | None:
    """Return the springs between points that were chosen; None for none."""
    rates = {one.actuator: one.rate for one in chosen if one.law == SPRING}
    springs = tuple(spring for spring in model.springs if spring.name in rates)
    if not springs:
        return None
    return StiffSprings("stiff_springs", springs, tuple(rates[one.name] for one in springs))
