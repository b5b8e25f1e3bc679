"""Ideal actuators: they give the force they are told, within limits."""

import math
from collections.abc import Hashable

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_access import joint_force, joint_velocities
from tiburon.model import Actuator, Model
from tiburon.record import record
from tiburon.spatial import Scalar

__all__ = ["ForceDrive", "within"]

SPEED_FADE_SHARE = 0.1
"""Last share of the largest speed, over which an actuator loses its force to go faster."""


@record
class ForceDrive(Element):
    """An `Actuator` without electrics: the command is the force at the joint [N m or N].

    The force is held within `force_limits`. Towards `speed_limit` the force along the motion fades:
    whole up to nine tenths of that speed, none at it. Braking is not limited by speed. One command
    for each freedom of the joint, though joints of one freedom are the rule.
    """

    name: str
    """Unique among the elements of a run; that of its command too."""

    actuator: Actuator
    """Its data."""

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name, with a number behind it where the joint has several freedoms."""
        count = model.joint(self.actuator.joint).dof
        return (self.name,) if count == 1 else tuple(f"{self.name}.{k}" for k in range(count))

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the force of each freedom after all limits [N m or N]."""
        return tuple(f"{name}.force" for name in self.command_names(model))

    def parameters(self) -> tuple[float, ...]:
        """Return those limits that are finite: smallest and largest force, largest speed."""
        return tuple(x for x in self._limits() if math.isfinite(x))

    def structure(self) -> Hashable:
        """Return what it drives and which limits it has."""
        return (self.actuator.joint, tuple(math.isfinite(x) for x in self._limits()))

    def check(self, model: Model) -> None:
        """Raise an error if there is no such joint."""
        model.joint(self.actuator.joint)

    def act(self, now: ElementContext) -> Action:
        """Return the force at the joint."""
        given = iter(now.p)
        low, high, speed = (next(given) if math.isfinite(x) else None for x in self._limits())
        joint = now.model.joint(self.actuator.joint)
        force = []
        for u, v in zip(now.u, joint_velocities(now, joint), strict=True):
            f = within(u, low, high)
            if speed is not None:
                left = (1.0 - np.abs(v) / speed) / SPEED_FADE_SHARE
                # force along the motion fades, braking stays
                f = np.where(f * v > 0.0, f * np.minimum(np.maximum(left, 0.0), 1.0), f)
            force.append(f)
        outputs = {
            f"{name}.force": f for name, f in zip(self.command_names(now.model), force, strict=True)
        }
        return Action(joint_force(joint, force), outputs=outputs)

    def _limits(self) -> tuple[float, float, float]:
        low, high = self.actuator.force_limits
        return (low, high, self.actuator.speed_limit)


def within(x: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
    """Return x held within limits; None for no limit."""
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)
