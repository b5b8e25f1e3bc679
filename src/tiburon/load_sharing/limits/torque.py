"""Limits of joint forces: of actuators, also where they depend on the speed, and of joints.

(4.50)-(4.52).

With tau = tau' - J^T x, a joint force between tau_low and tau_high is

    -J^T x >= tau_low - tau',   J^T x >= tau' - tau_high

A motor's limits follow from voltage and current at the present speed (`model/actuator.py`). A
failed actuator gives no force: both limits are zero.
"""

import math
from dataclasses import replace

import numpy as np

from tiburon.errors import ModelError
from tiburon.load_sharing.limits.limit import Limit, LimitRow, RunTime
from tiburon.load_sharing.problem import Layout, Problem
from tiburon.model import Actuator, Model
from tiburon.model.actuator import clipped, speed_fade, torque_range
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars

UNBOUNDED = 1e30
"""Force that no actuator reaches, in place of an infinite limit [N or N m]."""


@record
class DrivenJoint:
    """Limits of one driven velocity variable."""

    index: int
    """Of the velocity variable."""

    low: float
    """Smallest force [N or N m]; infinite for none."""

    high: float
    """Largest force [N or N m]; infinite for none."""

    motor: tuple[float, ...] = ()
    """R, K, B, c, f, n of a motor whose supply has limits; empty without."""

    drop: float | None = None
    """Voltage lost at its brushes [V]."""

    voltage: float | None = None
    """Its largest voltage [V]."""

    current: float | None = None
    """Its largest current [A]."""

    speed: float | None = None
    """Largest speed of an actuator whose command is a force [rad/s or m/s]."""

    @classmethod
    def of(cls, index: int, actuator: Actuator) -> "DrivenJoint":
        """Return the limits of an actuator of a velocity variable.

        Raises:
            ModelError: If its motor has limits and no resistance.
        """
        low, high = actuator.force_limits
        motor = actuator.motor
        fades = actuator.takes_force and math.isfinite(actuator.speed_limit)
        speed = actuator.speed_limit if fades else None
        if motor is None or not motor.is_limited:
            return cls(index, low, high, speed=speed)
        if not motor.resistance:
            raise ModelError(
                f"actuator {actuator.name!r}: torque limits of its motor need a resistance, got 0 "
                "ohm; give Motor(resistance=...), or torque_limits={...} by joint",
                name=actuator.name,
            )
        R, K, B = motor.resistance, motor.torque_constant, motor.back_emf
        values = (R, K, B, motor.damping, motor.friction, actuator.ratio)
        voltage, current = (
            x if math.isfinite(x) else None for x in (motor.voltage_limit, motor.current_limit)
        )
        return cls(index, low, high, values, motor.brush_drop or None, voltage, current, speed)

    def within(self, most: float) -> "DrivenJoint":
        """Return the same limits with a force of at most a given one in either direction."""
        return replace(self, low=max(self.low, -most), high=min(self.high, most))

    @property
    def is_limited(self) -> bool:
        """Whether anything bounds its force."""
        finite = math.isfinite(self.low) or math.isfinite(self.high)
        return finite or bool(self.motor) or self.speed is not None

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters."""
        bounds = (max(self.low, -UNBOUNDED), min(self.high, UNBOUNDED))
        more = (self.drop, self.voltage, self.current, self.speed)
        return (*bounds, *self.motor, *(x for x in more if x is not None))

    def form(self) -> "DrivenJoint":
        """Return which parameters there are."""
        drop, voltage, current, speed = (
            None if x is None else 1.0 for x in (self.drop, self.voltage, self.current, self.speed)
        )
        motor = (1.0,) * len(self.motor)
        return DrivenJoint(self.index, 0.0, 0.0, motor, drop, voltage, current, speed)

    def bounds(self, p: Scalars, v: Scalar, failed: Scalar) -> tuple[Scalar, Scalar]:
        """Return smallest and largest force at a velocity [N or N m].

        Args:
            p: Run-time parameters.
            v: Joint velocity [rad/s or m/s].
            failed: 1 if the actuator has failed, else 0.
        """
        given = iter(p)
        low, high = next(given), next(given)
        motor = [next(given) for _ in self.motor]
        drop, voltage, current, speed = (
            None if x is None else next(given)
            for x in (self.drop, self.voltage, self.current, self.speed)
        )
        if motor:
            R, K, B, c, f, n = motor
            a, b = torque_range(n * v, R, K, B, c, f, drop, voltage, current)
            # the gear may turn the direction round
            a, b = np.minimum(n * a, n * b), np.maximum(n * a, n * b)
            low, high = clipped(a, low, high), clipped(b, low, high)
        if speed is not None:
            left = speed_fade(v, speed)
            low = np.where(low * v > 0.0, left * low, low)
            high = np.where(high * v > 0.0, left * high, high)
        alive = 1.0 - failed
        return alive * low, alive * high


@record
class TorqueLimit(Limit):
    """Driven joint forces between their limits."""

    joints: tuple[DrivenJoint, ...]
    """The limited velocity variables."""

    @property
    def indices(self) -> tuple[int, ...]:
        """The limited velocity variables."""
        return tuple(joint.index for joint in self.joints)

    def form(self) -> "TorqueLimit":
        """Return which limits there are."""
        return TorqueLimit(tuple(joint.form() for joint in self.joints))

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return two names per joint."""
        variables = model.v_names
        return tuple(
            f"{variables[joint.index]}: {word} force"
            for joint in self.joints
            for word in ("least", "largest")
        )

    def parameters(self, model: Model, layout: Layout) -> tuple[float, ...]:
        """Return the parameters of all joints."""
        return tuple(x for joint in self.joints for x in joint.parameters())

    def bounds(self, problem: Problem, p: Scalars, failed: Scalars) -> list[tuple[Scalar, Scalar]]:
        """Return smallest and largest force of each joint in one state [N or N m].

        Args:
            problem: The problem.
            p: Run-time parameters, as `parameters` lists them.
            failed: 1 for each driven joint whose actuator has failed.
        """
        places = {index: k for k, index in enumerate(problem.layout.driven)}
        found, at = [], 0
        for joint in self.joints:
            own = p[at : at + len(joint.parameters())]
            at += len(own)
            found.append(joint.bounds(own, problem.v[joint.index], failed[places[joint.index]]))
        return found

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return tau >= least and -tau >= -largest."""
        found: list[LimitRow] = []
        for joint, (low, high) in zip(
            self.joints, self.bounds(problem, p, now.failed), strict=True
        ):
            found += LimitRow.between(*problem.torque(joint.index), low, high)
        return found
