"""What joints do by themselves: viscous and Coulomb friction, and springs."""

from collections.abc import Hashable, Sequence

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.joint_access import (
    joint_force,
    joint_positions,
    joint_velocities,
    per_degree_of_freedom,
    spread_forces,
)
from tiburon.actuation.joint_spring import rest_position, spring_energy, spring_force
from tiburon.errors import ModelError
from tiburon.model import Joint, Model
from tiburon.model.joint_properties import JointPassive
from tiburon.model.value_checks import number
from tiburon.record import record
from tiburon.spatial import Scalar

__all__ = ["FRICTION_SPEED", "PassiveJoints", "friction_force"]

FRICTION_SPEED = 0.01
"""Speed over which smooth Coulomb friction turns around, by default [rad/s or m/s].

Slow beside what robots do, and fast enough that a joint of usual friction and inertia can be
stepped at a millisecond.
"""


def friction_force(friction: Scalar, speed: Scalar, v: Scalar) -> Scalar:
    """Return smooth Coulomb friction [N or N m]: it opposes motion, and passes zero smoothly.

    -f tanh(v / s): within 0.5 % of f beyond three times the speed s. A joint that holds a load
    below f creeps with less than the speed at which tanh reaches load / f: see `StickSlip` for
    one that stays.

    Args:
        friction: Largest force f [N or N m].
        speed: Speed s over which it turns around [m/s or rad/s].
        v: Velocity [m/s or rad/s].
    """
    return -friction * np.tanh(v / speed)


@record
class PassiveJoints(Element):
    """Friction and springs of joints as `JointPassive` states them; all of a robot in one element.

    All numbers are run-time parameters; which of them are zero is compiled in.
    """

    name: str
    """Unique among the elements of a run."""

    joints: tuple[Joint, ...]
    """Joints with passive forces."""

    friction_speed: float = FRICTION_SPEED
    """Speed over which Coulomb friction turns around [rad/s or m/s]."""

    coulomb: bool = True
    """Whether Coulomb friction counts here; False where another element takes care of it."""

    run_time: tuple[str, ...] = ()
    """What code takes at run time also where it is zero: names such as "knee.damping"."""

    def __post_init__(self) -> None:
        speed = number(self.friction_speed, "passive forces", "friction_speed")
        if speed <= 0.0:
            raise ModelError(
                f"passive forces: friction_speed must be positive, got {speed:g}; a small speed "
                "is a steep friction, which takes small steps"
            )
        object.__setattr__(self, "friction_speed", speed)

    @classmethod
    def of(
        cls, model: Model, *, friction_speed: float = FRICTION_SPEED, coulomb: bool = True
    ) -> "PassiveJoints | None":
        """Return the passive forces of a robot; None if it has none."""
        named = tuple(sorted(model.run_time.passives))
        found = cls("passive", model.joints, friction_speed, coulomb, named)
        acting = tuple(
            joint
            for joint in model.joints
            if joint.dof
            and (any(found._named(joint)) or any(any(x) for x in found._numbers(joint)[:3]))
        )
        return cls("passive", acting, friction_speed, coulomb, named) if acting else None

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the energy of the springs, and the power lost in friction."""
        return (f"{self.name}.energy", f"{self.name}.loss")

    def parameters(self) -> tuple[float, ...]:
        """Return the friction speed, and of each joint in turn all that is not zero.

        Damping, friction, stiffness of each freedom, then where the joint rests.
        """
        numbers = [
            x
            for joint in self.joints
            for group, takes in zip(self._numbers(joint), self._takes(joint), strict=True)
            for x, taken in zip(group, takes, strict=True)
            if taken
        ]
        return (self.friction_speed, *numbers)

    def structure(self) -> Hashable:
        """Return which joints have which forces."""
        return tuple((joint.name, self._takes(joint)) for joint in self.joints)

    def act(self, now: ElementContext) -> Action:
        """Return the forces at the joints."""
        given = iter(now.p)
        speed = next(given)
        forces = []
        energy: Scalar = 0.0
        loss: Scalar = 0.0
        for joint in self.joints:
            damping, friction, stiffness, rest = (
                tuple(next(given) if taken else 0.0 for taken in group)
                for group in self._takes(joint)
            )
            v = joint_velocities(now, joint)
            rubbing = [
                friction_force(f, speed, x) - d * x
                for d, f, x in zip(damping, friction, v, strict=True)
            ]
            total: Sequence[Scalar] = rubbing
            for f, x in zip(rubbing, v, strict=True):
                loss = loss - f * x
            if rest:
                q = joint_positions(now, joint)
                springs = spring_force(joint, rest, q, stiffness)
                total = [a + b for a, b in zip(rubbing, springs, strict=True)]
                energy = energy + spring_energy(joint, rest, q, stiffness)
            forces.append(joint_force(joint, total))
        outputs = {f"{self.name}.energy": energy, f"{self.name}.loss": loss}
        return Action(spread_forces(now.model, forces), outputs=outputs)

    def _numbers(self, joint: Joint) -> tuple[tuple[float, ...], ...]:
        """Return damping, friction and stiffness of each freedom, and the rest of its springs."""
        passive = joint.passive or JointPassive()
        friction = passive.friction if self.coulomb else 0.0
        rates = (passive.damping, friction, passive.stiffness)
        damping, rubbing, stiffness = (per_degree_of_freedom(x, joint) for x in rates)
        springs = any(stiffness) or self._named(joint)[2]
        rest = rest_position(joint, passive.rest) if springs else ()
        return damping, rubbing, stiffness, rest

    def _named(self, joint: Joint) -> tuple[bool, ...]:
        """Which of damping, friction, stiffness and rest are run-time parameters in any case."""
        words = ("damping", "friction", "stiffness", "rest")
        damping, friction, *springs = (f"{joint.name}.{word}" in self.run_time for word in words)
        return (damping, friction and self.coulomb, any(springs), any(springs))

    def _takes(self, joint: Joint) -> tuple[tuple[bool, ...], ...]:
        """Which numbers are run-time parameters: those not zero, and what is named."""
        groups = zip(self._numbers(joint), self._named(joint), strict=True)
        return tuple(tuple(named or x != 0.0 for x in group) for group, named in groups)
