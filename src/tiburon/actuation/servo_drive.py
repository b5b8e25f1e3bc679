"""Servos: actuators with feedback, whose command is a set point.

Symbols:
    u           command, within its limits
    q, v        position and velocity of the joint [m or rad, m/s or rad/s]
    g, b, k, d  gain, bias, stiffness and damping

    force = g u + b - k q - d v, within the force limits
"""

import math
from collections.abc import Hashable

import numpy as np

from tiburon.actuation.element import (
    Action,
    Element,
    ElementContext,
    joint_force,
    joint_positions,
    joint_velocities,
    require_single_dof,
)
from tiburon.arrays import NDArray
from tiburon.errors import ModelError
from tiburon.model import Actuator, Model, Servo
from tiburon.model.actuator import clipped
from tiburon.record import record
from tiburon.spatial import Scalar


@record
class ServoDrive(Element):
    """An `Actuator` with a `Servo`: the command is the set point.

    Servos that steps do not resolve act at the ends of steps (`JointLaws`).
    """

    name: str
    """Unique among the elements of a run; also the name of its command."""

    actuator: Actuator
    """Data of the actuator, with a servo."""

    at_ends: bool = False
    """Whether its force acts at the ends of steps, and not here."""

    def __post_init__(self) -> None:
        if self.actuator.servo is None:
            raise ModelError(
                f"actuator {self.name!r}: it has no servo; give it servo=Servo(...), or use "
                "ForceDrive",
                name=self.name,
            )

    @property
    def servo(self) -> Servo:
        """The feedback."""
        assert self.actuator.servo is not None
        return self.actuator.servo

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name: the set point."""
        return (self.name,)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the joint force [N m or N]."""
        return () if self.at_ends else (f"{self.name}.force",)

    def parameters(self) -> tuple[float, ...]:
        """Return gain, bias, stiffness and damping, then the finite limits.

        None where its force acts at the ends of steps.
        """
        if self.at_ends:
            return ()
        servo = self.servo
        fixed = (servo.force_gain, servo.bias, servo.stiffness, servo.damping)
        return (*fixed, *(x for x in self._limits() if math.isfinite(x)))

    def structure(self) -> Hashable:
        """Return its joint, and which limits are finite."""
        return (self.actuator.joint, self.at_ends, tuple(map(math.isfinite, self._limits())))

    def check(self, model: Model) -> None:
        """Raise an error unless the joint has one degree of freedom."""
        require_single_dof(model, self.actuator.joint, f"actuator {self.name!r}")

    def act(self, now: ElementContext) -> Action:
        """Compute the joint force."""
        if self.at_ends:
            return Action()
        given = iter(now.p)
        gain, bias, stiffness, damping = (next(given) for _ in range(4))
        least, most, low, high = (next(given) if math.isfinite(x) else None for x in self._limits())
        joint = now.model.joint(self.actuator.joint)
        (q,), (v,) = joint_positions(now, joint), joint_velocities(now, joint)
        force: Scalar = gain * clipped(now.u[0], least, most) + bias - stiffness * q - damping * v
        force = clipped(force, low, high)
        return Action(joint_force(joint, (force,)), outputs={f"{self.name}.force": force})

    def _limits(self) -> tuple[float, float, float, float]:
        return (*self.servo.command_limits, *self.actuator.force_limits)


SAME_POSE = 1e-9
"""Difference of configurations up to which a run starts in a pose [m or rad]."""


def set_points(model: Model, q: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the commands of servos by name that belong to configurations, zeros by default.

    Args:
        model: The robot.
        q: Configurations [m or rad], shape (..., nq).

    Returns:
        Those of the poses that these configurations are, of shape (...); of actuators with any.
    """
    found: dict[str, NDArray[np.float64]] = {}
    for actuator in model.actuators:
        points = {} if actuator.servo is None else dict(actuator.servo.set_points)
        for pose, value in points.items():
            if pose in model.poses:
                here = np.abs(q - model.poses[pose]).max(axis=-1) <= SAME_POSE
                known = found.get(actuator.name, np.zeros(q.shape[:-1]))
                found[actuator.name] = np.where(here, value, known)
    return found
