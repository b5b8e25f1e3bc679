"""Actuators commanded by force: ideal ones, and motors whose drive controls the current."""

import math
from collections.abc import Hashable

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_access import joint_force, joint_velocities, require_single_dof
from tiburon.actuation.passive import FRICTION_SPEED, friction_force
from tiburon.errors import ModelError
from tiburon.model import Actuator, Model
from tiburon.model.actuator import clipped, speed_fade, torque_range
from tiburon.record import record
from tiburon.spatial import Scalar


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
