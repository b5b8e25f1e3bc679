"""Ideal actuators: the commanded force, saturated at limits."""

import math
from collections.abc import Hashable

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_access import joint_force, joint_velocities
from tiburon.model import Actuator, Model
from tiburon.model.actuator import clipped, speed_fade
from tiburon.record import record

__all__ = ["ForceDrive"]


@record
class ForceDrive(Element):
    """An `Actuator` without motor model: the command is the joint force [N m or N].

    The force saturates at `force_limits`. From 90 % of `speed_limit` on, the force along the motion
    fades to zero; braking is not limited by speed. There is one command per degree of freedom.
    """

    name: str
    """Unique among the elements of a run; also the name of its command."""

    actuator: Actuator
    """Data of the actuator."""

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name, with an index for joints with several degrees of freedom."""
        count = model.joint(self.actuator.joint).dof
        return (self.name,) if count == 1 else tuple(f"{self.name}.{k}" for k in range(count))

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the saturated force of each degree of freedom [N m or N]."""
        return tuple(f"{name}.force" for name in self.command_names(model))

    def parameters(self) -> tuple[float, ...]:
        """Return the finite limits: smallest and largest force, largest speed."""
        return tuple(x for x in self._limits() if math.isfinite(x))

    def structure(self) -> Hashable:
        """Return its joint, and which limits are finite."""
        return (self.actuator.joint, tuple(math.isfinite(x) for x in self._limits()))

    def check(self, model: Model) -> None:
        """Raise an error if there is no such joint."""
        model.joint(self.actuator.joint)

    def act(self, now: ElementContext) -> Action:
        """Compute the joint force."""
        given = iter(now.p)
        low, high, speed = (next(given) if math.isfinite(x) else None for x in self._limits())
        joint = now.model.joint(self.actuator.joint)
        force = []
        for u, v in zip(now.u, joint_velocities(now, joint), strict=True):
            f = clipped(u, low, high)
            if speed is not None:
                left = speed_fade(v, speed)
                # only the force along the motion fades
                f = np.where(f * v > 0.0, f * left, f)
            force.append(f)
        outputs = {
            f"{name}.force": f for name, f in zip(self.command_names(now.model), force, strict=True)
        }
        return Action(joint_force(joint, force), outputs=outputs)

    def _limits(self) -> tuple[float, float, float]:
        low, high = self.actuator.force_limits
        return (low, high, self.actuator.speed_limit)
