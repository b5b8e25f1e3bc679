"""Armature of free joints: what the turning of their axes adds to the diagonal of the mass matrix.

Symbols:
    A       armature of the translation, a diagonal matrix in body axes [kg]
    w, v    angular velocity [rad/s] and velocity of the body origin [m/s], body axes

Dynamics functions have A dv/dt, with rates in body axes. An inertia that resists the acceleration
of the origin, as in MuJoCo, has A dv/dt + w x A v, and the moment v x A v of unequal entries. Both
do no work.
"""

from collections.abc import Hashable
from typing import Self

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.model import Free, Model
from tiburon.record import record
from tiburon.spatial import Scalar
from tiburon.spatial.vec3 import cross, vec3


@record
class FreeArmature(Element):
    """Joint forces of turning armatures; their values are those of the robot in each state."""

    name: str
    """Unique among the elements of a run."""

    joints: tuple[str, ...]
    """Names of the free joints."""

    @classmethod
    def of(cls, model: Model) -> Self | None:
        """Return the element of a robot; None where no free joint has an armature."""
        named = model.run_time.armatures
        found = tuple(
            joint.name
            for joint in model.joints
            if isinstance(joint, Free) and (any(joint.armatures[3:]) or joint.name in named)
        )
        return cls("free armature", found) if found else None

    def structure(self) -> Hashable:
        """Return the names of the joints."""
        return self.joints

    def act(self, now: ElementContext) -> Action:
        """Compute the joint forces."""
        forces: dict[str, tuple[Scalar, ...]] = {}
        armatures = now.plan.armatures
        for name in self.joints:
            v = now.joint_velocity(name)
            turn, move = vec3(v[:3], "turn"), vec3(v[3:], "move")
            at = now.model.slice(name, of="v").start
            x, y, z = (armatures[at + k] * v[k] for k in (3, 4, 5))
            momentum = (x, y, z)
            forces[name] = (*cross(momentum, move), *cross(momentum, turn))
        return Action(forces)
