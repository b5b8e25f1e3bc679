"""Drives of actuators: direct-current motors with gears, and actuators commanded by force.

Symbols (Nahon 1991, eqs. 6.44 to 6.47):
    u       voltage at the terminals [V]
    i, R, L current, resistance and inductance of the winding [A, ohm, H]
    K, B    torque per current, voltage per speed [N m/A, V s/rad]
    w, n    speed of the rotor, gear ratio (rotor motion per joint motion)
    c, f    viscous and Coulomb friction at the rotor [N m s/rad, N m]

    u = R i + L di/dt + B w + brushes      w = n v      force = n (K i - c w - f sign w)

The inertia of the rotor belongs to the joint's `armature`, or to a `rotor` body.
"""

import math
from collections.abc import Hashable

import numpy as np

from tiburon.actuation.element import (
    Action,
    Element,
    ElementContext,
    joint_force,
    joint_velocities,
    require_single_dof,
)
from tiburon.actuation.passive import FRICTION_SPEED, friction_force
from tiburon.errors import ModelError
from tiburon.model import Actuator, Model, Motor
from tiburon.model.actuator import clipped, speed_fade, steady_current, supply_limits, torque_range
from tiburon.record import record
from tiburon.spatial import Scalar

BRUSH_RESISTANCE = 4.0
"""Resistance of the brushes below their full voltage drop, relative to that of the winding.

This regularizes the sign change of the constant drop at zero current.
"""


@record
class MotorDrive(Element):
    """An `Actuator` with a `Motor`: the command is the voltage [V].

    The driver limits the voltage to `voltage_limit`, and to the steady voltage of `current_limit`
    at the present speed; back-EMF beyond the voltage limit can still drive a larger current. The
    current follows with the time constant L / R; without inductance it is algebraic and there is
    no state. Joint forces saturate at `force_limits`.
    """

    name: str
    """Unique among the elements of a run; also the name of its command."""

    actuator: Actuator
    """Data of the actuator, with a motor."""

    friction_speed: float = FRICTION_SPEED
    """Joint speed over which the rotor's Coulomb friction changes sign [rad/s or m/s]."""

    at_ends: bool = False
    """Whether force, friction and current act at the ends of steps (`JointLaws`), and not here."""

    def __post_init__(self) -> None:
        motor = self.actuator.motor
        if motor is None:
            raise ModelError(
                f"actuator {self.name!r}: it has no motor; give it motor=Motor(...), or use "
                "ForceDrive",
                name=self.name,
            )
        if motor.resistance == 0.0:
            raise ModelError(
                f"actuator {self.name!r}: resistance of the motor must be positive, got 0; its "
                "current would be unlimited",
                name=self.name,
            )

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the current [A] if the winding has inductance."""
        return (f"{self.name}.current",) if self._motor.inductance > 0.0 else ()

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name: the voltage [V]."""
        return (self.name,)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return current [A], limited voltage [V], joint force [N m or N], power and loss [W].

        Power is electric; loss is the heat in winding, brushes and bearings.
        """
        words = ["current", "voltage", "force", "power", "loss"]
        if self._lagging:
            # recorded as a state
            words.remove("current")
        if self.at_ends:
            words.remove("force")
        return tuple(f"{self.name}.{w}" for w in words)

    def parameters(self) -> tuple[float, ...]:
        """Return R, K, B, c, f, n and the friction speed, then the optional values that are set."""
        m = self._motor
        fixed = (m.resistance, m.torque_constant, m.back_emf, m.damping, m.friction)
        given = (x for x, there in self._optional() if there)
        return (*fixed, self.actuator.ratio, self.friction_speed, *given)

    def structure(self) -> Hashable:
        """Return its joint, and which optional values are set."""
        return (self.actuator.joint, self.at_ends, tuple(there for _, there in self._optional()))

    def check(self, model: Model) -> None:
        """Raise an error unless the joint has one degree of freedom."""
        require_single_dof(model, self.actuator.joint, f"actuator {self.name!r}")

    def act(self, now: ElementContext) -> Action:
        """Compute the joint force and the rate of the current."""
        R, K, B, c, f, n, s = now.p[:7]
        given = iter(now.p[7:])
        L, drop, most, limit, low, high = (
            next(given) if there else None for _, there in self._optional()
        )
        joint = now.model.joint(self.actuator.joint)
        (v,) = joint_velocities(now, joint)
        w = n * v
        emf = B * w
        u: Scalar = now.u[0]
        reach = None if limit is None else R * limit + (0.0 if drop is None else drop)
        u = clipped(u, *supply_limits(emf, reach, most))
        rates: tuple[Scalar, ...] = ()
        brushes: Scalar = 0.0
        if L is None:
            if drop is not None:
                brushes = clipped(u - emf, -drop, drop)
            # steady state of the winding
            i = steady_current(u, emf, R, drop)
        else:
            (i,) = now.x
            if drop is not None:
                brushes = clipped(BRUSH_RESISTANCE * R * i, -drop, drop)
            rates = ((u - R * i - emf - brushes) / L,)
        rubbing = c * w - friction_force(f, np.abs(n) * s, w)
        force = clipped(n * (K * i - rubbing), low, high)
        outputs = {
            f"{self.name}.voltage": u,
            f"{self.name}.force": force,
            f"{self.name}.power": u * i,
            f"{self.name}.loss": R * i * i + brushes * i + rubbing * w,
        }
        if L is None:
            outputs[f"{self.name}.current"] = i
        if self.at_ends:
            del outputs[f"{self.name}.force"]
            return Action(rates=(0.0,) * len(rates), outputs=outputs)
        return Action(joint_force(joint, (force,)), rates=rates, outputs=outputs)

    @property
    def _motor(self) -> Motor:
        assert self.actuator.motor is not None
        return self.actuator.motor

    @property
    def _lagging(self) -> bool:
        return self._motor.inductance > 0.0

    def _optional(self) -> tuple[tuple[float, bool], ...]:
        """Return inductance, brush drop and limits, each with whether it is set."""
        m = self._motor
        limits = (m.voltage_limit, m.current_limit, *self.actuator.force_limits)
        return (
            *((x, x > 0.0) for x in (m.inductance, m.brush_drop)),
            *((x, math.isfinite(x)) for x in limits),
        )


@record
class ForceDrive(Element):
    """An `Actuator` whose command is the joint force [N m or N]: without motor, or by choice.

    The force saturates at what voltage and current of a motor allow at the present speed, and at
    `force_limits`. From 90 % of `speed_limit` on, the force along the motion fades to zero; braking
    is not limited by speed. There is one command per degree of freedom. The current of a motor
    follows without lag, and makes up for the motor's friction.
    """

    name: str
    """Unique among the elements of a run; also the name of its command."""

    actuator: Actuator
    """Data of the actuator."""

    def __post_init__(self) -> None:
        motor = self.actuator.motor
        if motor is None:
            return
        if not motor.torque_constant:
            raise ModelError(
                f"actuator {self.name!r}: torque constant of the motor must not be zero, got 0; "
                "no current would make a force",
                name=self.name,
            )
        if not motor.resistance:
            # refuses limits of such a motor
            motor.torque_limits(0.0)

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name, with an index for joints with several degrees of freedom."""
        count = model.joint(self.actuator.joint).dof
        return (self.name,) if count == 1 else tuple(f"{self.name}.{k}" for k in range(count))

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the saturated force of each degree of freedom [N m or N]."""
        return tuple(f"{name}.force" for name in self.command_names(model))

    def parameters(self) -> tuple[float, ...]:
        """Return the finite limits: smallest and largest force, largest speed, then of the motor.

        Those of motors with limits are R, K, B, c, f, n and the finite ones of its brush drop,
        largest voltage and largest current.
        """
        return (*(x for x in self._limits() if math.isfinite(x)), *self._motor())

    def structure(self) -> Hashable:
        """Return its joint, and which limits are finite."""
        limits = tuple(math.isfinite(x) for x in self._limits())
        return (self.actuator.joint, limits, *self._supply())

    def check(self, model: Model) -> None:
        """Raise an error if there is no such joint, or several degrees of freedom for a motor."""
        model.joint(self.actuator.joint)
        if self.actuator.motor is not None:
            require_single_dof(model, self.actuator.joint, f"actuator {self.name!r}")

    def act(self, now: ElementContext) -> Action:
        """Compute the joint force."""
        given = iter(now.p)
        low, high, speed = (next(given) if math.isfinite(x) else None for x in self._limits())
        motor = tuple(given)
        joint = now.model.joint(self.actuator.joint)
        force = []
        for u, v in zip(now.u, joint_velocities(now, joint), strict=True):
            f = clipped(self._supplied(u, v, motor) if motor else u, low, high)
            if speed is not None:
                left = speed_fade(v, speed)
                # only the force along the motion fades
                f = np.where(f * v > 0.0, f * left, f)
            force.append(f)
        outputs = {
            f"{name}.force": f for name, f in zip(self.command_names(now.model), force, strict=True)
        }
        return Action(joint_force(joint, force), outputs=outputs)

    def _supplied(self, force: Scalar, v: Scalar, motor: tuple[Scalar, ...]) -> Scalar:
        """Return a joint force within what the supply of the motor allows [N m or N]."""
        R, K, B, c, f, n, *more = motor
        given = iter(more)
        drop, voltage, current = (next(given) if there else None for there in self._supply())
        w = n * v
        # without a jump at rest, about which a saturated joint would chatter
        rubbing = friction_force(f, np.abs(n) * FRICTION_SPEED, w)
        a, b = (n * (x + rubbing) for x in torque_range(w, R, K, B, c, 0.0, drop, voltage, current))
        return clipped(force, np.minimum(a, b), np.maximum(a, b))

    def _limits(self) -> tuple[float, float, float]:
        low, high = self.actuator.force_limits
        return (low, high, self.actuator.speed_limit)

    def _supply(self) -> tuple[bool, ...]:
        """Return whether a motor with limits has a brush drop, and which limits it has."""
        motor = self.actuator.motor
        if motor is None or not motor.is_limited:
            return ()
        limits = (motor.voltage_limit, motor.current_limit)
        return (motor.brush_drop > 0.0, *map(math.isfinite, limits))

    def _motor(self) -> tuple[float, ...]:
        """Return the parameters of a motor with limits."""
        m, there = self.actuator.motor, self._supply()
        if m is None or not there:
            return ()
        fixed = (m.resistance, m.torque_constant, m.back_emf, m.damping, m.friction)
        more = (m.brush_drop, m.voltage_limit, m.current_limit)
        given = (x for x, one in zip(more, there, strict=True) if one)
        return (*fixed, self.actuator.ratio, *given)
