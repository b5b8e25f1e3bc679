"""Passive joint forces: viscous and Coulomb friction, and springs in joints of any kind.

Symbols:
    phi     rotation from rest to the present orientation, rotation vector in body axes [rad]
    V       left Jacobian of the rotation by phi
    K       stiffness of each degree of freedom, a diagonal matrix

A revolute or prismatic joint has the energy K (q - rest)^2 / 2. A ball joint has phi' K phi / 2;
since dphi/dt = V^-T omega, its moment is -V^-1 K phi, which is -K phi for equal stiffnesses only. A
free joint also has springs along the axes of its rest pose.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace

import numpy as np

from tiburon.actuation.element import (
    Action,
    AppliedForces,
    Element,
    ElementContext,
    StateKinematics,
    joint_force,
    joint_positions,
    joint_velocities,
    per_degree_of_freedom,
    spread_forces,
)
from tiburon.actuation.point_spring import PointSpring
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.errors import ModelError
from tiburon.model import Joint, Model
from tiburon.model.joints.joint import JointPassive, PerDof
from tiburon.model.value_checks import number
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.rotations import (
    left_jacobian_inverse_product,
    left_jacobian_product,
    rotation_vector_to_matrix,
)
from tiburon.spatial.vec3 import matrix_vector, transpose, vec3

PARTS = ("damping", "friction", "stiffness", "rest")
"""Values of a `JointPassive`."""

FRICTION_SPEED = 0.01
"""Default speed over which smooth Coulomb friction changes sign [rad/s or m/s].

Typical joints can then be integrated with steps of 1 ms.
"""


def friction_force(friction: Scalar, speed: Scalar, v: Scalar) -> Scalar:
    """Compute smooth Coulomb friction [N or N m]: -f tanh(v / s), within 0.5 % of f beyond 3 s.

    A joint under a load below f creeps at s artanh(load / f); `StickSlip` comes to rest.

    Args:
        friction: f, the largest force [N or N m].
        speed: s [m/s or rad/s].
        v: Velocity [m/s or rad/s].
    """
    return -friction * np.tanh(v / speed)


def is_axial(joint: Joint) -> bool:
    """Return whether the velocities of a joint are the rates of its position variables."""
    return joint.follows is not None or joint.nq == joint.nv


def rest_position(joint: Joint, rest: PerDof) -> tuple[float, ...]:
    """Return the rest position of a joint, one value per position variable.

    Args:
        joint: The joint.
        rest: One value per position variable; or a displacement from the neutral position, one
            value per degree of freedom or one for all.
    """
    count = 1 if joint.follows is not None else joint.nq
    if isinstance(rest, tuple) and len(rest) == count:
        return rest
    step = per_degree_of_freedom(rest, joint)
    if count == joint.dof:
        return step
    return tuple(float(x) for x in joint.integrate(joint.neutral(), step))


def spring_force(joint: Joint, rest: Scalars, q: Scalars, K: Scalars) -> tuple[Scalar, ...]:
    """Compute the spring force of a joint [N or N m], one scalar per degree of freedom.

    Args:
        joint: The joint.
        rest: Rest position [m or rad], one scalar per position variable.
        q: Position of the joint.
        K: Stiffness of each degree of freedom [N/m or N m/rad].
    """
    if len(q) == len(K):
        return tuple(k * (r - x) for k, r, x in zip(K, rest, q, strict=True))
    # joints with a quaternion: rotation comes first
    step = joint.difference(rest, q)
    phi = vec3(step[:3], "turn")
    x, y, z = left_jacobian_inverse_product(phi, _scaled(K[:3], phi))
    moment = (-x, -y, -z)
    if len(K) == 3:
        return moment
    shift = left_jacobian_product(phi, step[3:])
    to_body = transpose(rotation_vector_to_matrix(phi))
    x, y, z = matrix_vector(to_body, vec3(_scaled(K[3:], shift), "pull"))
    return (*moment, -x, -y, -z)


def spring_energy(joint: Joint, rest: Scalars, q: Scalars, K: Scalars) -> Scalar:
    """Compute the spring energy of a joint [J]; arguments as for `spring_force`."""
    total: Scalar = 0.0
    step: Scalars
    if len(q) == len(K):
        step = [x - r for r, x in zip(rest, q, strict=True)]
    else:
        step = joint.difference(rest, q)
        if len(K) > 3:
            step = (*step[:3], *left_jacobian_product(step[:3], step[3:]))
    for k, x in zip(K, step, strict=True):
        total = total + 0.5 * k * x * x
    return total


def _scaled(K: Scalars, x: Scalars) -> tuple[Scalar, ...]:
    return tuple(k * a for k, a in zip(K, x, strict=True))


@record
class PassiveJoints(Element):
    """Friction and springs of all joints of a robot, from their `JointPassive`.

    All values are run-time parameters; which of them are zero is compiled in.
    """

    name: str
    """Unique among the elements of a run."""

    joints: tuple[Joint, ...]
    """Joints with passive forces."""

    friction_speed: float = FRICTION_SPEED
    """Speed over which Coulomb friction changes sign [rad/s or m/s]."""

    coulomb: bool = True
    """Whether Coulomb friction is included; False where another element models it."""

    run_time: tuple[str, ...] = ()
    """Values that are run-time parameters even where zero: names such as "knee.damping"."""

    at_ends: tuple[str, ...] = ()
    """Joints whose forces act at the ends of steps (`JointLaws`); of joints whose velocities are no
    rates of positions, all but springs."""

    resolved: tuple[str, ...] = ()
    """Joints of those whose forces do so in other cases of a batch only."""

    def __post_init__(self) -> None:
        speed = number(self.friction_speed, "passive forces", "friction_speed")
        if speed <= 0.0:
            raise ModelError(
                f"passive forces: friction_speed must be positive, got {speed:g}; a small speed "
                "makes friction steep and requires small steps"
            )
        object.__setattr__(self, "friction_speed", speed)

    @classmethod
    def of(
        cls,
        model: Model,
        *,
        friction_speed: float = FRICTION_SPEED,
        at_ends: tuple[str, ...] = (),
        resolved: tuple[str, ...] = (),
        coulomb: bool = True,
    ) -> "PassiveJoints | None":
        """Return the passive forces of a robot; None if it has none."""
        named = tuple(sorted(model.run_time.passives))
        found = cls("passive", model.joints, friction_speed, coulomb, named, at_ends, resolved)
        acting = tuple(
            joint
            for joint in model.joints
            if joint.dof
            and (any(found._named(joint)) or any(any(x) for x in found._taken(joint)[:3]))
        )
        return replace(found, joints=acting) if acting else None

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return spring energy [J] and dissipated power [W]."""
        return (f"{self.name}.energy", f"{self.name}.loss")

    def parameters(self) -> tuple[float, ...]:
        """Return the friction speed, then the nonzero values of each joint.

        These are damping, friction and stiffness of each degree of freedom, and the rest position.
        """
        values = [
            x
            for joint in self.joints
            for group, takes in zip(self._values(joint), self._takes(joint), strict=True)
            for x, taken in zip(group, takes, strict=True)
            if taken
        ]
        return (self.friction_speed, *values)

    def structure(self) -> Hashable:
        """Return the joints with the pattern of their run-time parameters."""
        return tuple((joint.name, self._takes(joint)) for joint in self.joints)

    def act(self, now: ElementContext) -> Action:
        """Compute the joint forces."""
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
            total: Scalars = rubbing
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

    def _values(self, joint: Joint) -> tuple[tuple[float, ...], ...]:
        """Return damping, friction and stiffness per degree of freedom, and the rest position.

        Zeros where the forces act at the ends of steps.
        """
        damping, rubbing, stiffness, rest = self._taken(joint)
        if joint.name in self.at_ends and joint.name not in self.resolved:
            none = (0.0,) * joint.dof
            damping, rubbing = none, none
            stiffness = none if is_axial(joint) else stiffness
        return damping, rubbing, stiffness, rest

    def _taken(self, joint: Joint) -> tuple[tuple[float, ...], ...]:
        """Return the same of all forces that code computes, whether they act or not."""
        passive = joint.passive or JointPassive()
        friction = passive.friction if self.coulomb else 0.0
        rates = (passive.damping, friction, passive.stiffness)
        if joint.name in self.at_ends and not self._varies(joint):
            rates = (0.0, 0.0, 0.0 if is_axial(joint) else passive.stiffness)
        damping, rubbing, stiffness = (per_degree_of_freedom(x, joint) for x in rates)
        springs = any(stiffness) or self._named(joint)[2]
        rest = rest_position(joint, passive.rest) if springs else ()
        return damping, rubbing, stiffness, rest

    def _varies(self, joint: Joint) -> bool:
        """Return whether values of a joint are run-time parameters by name."""
        return any(f"{joint.name}.{word}" in self.run_time for word in PARTS)

    def _named(self, joint: Joint) -> tuple[bool, ...]:
        """Return which of damping, friction, stiffness and rest are run-time parameters if zero."""
        damping, friction, *springs = (f"{joint.name}.{word}" in self.run_time for word in PARTS)
        return (damping, friction and self.coulomb, any(springs), any(springs))

    def _takes(self, joint: Joint) -> tuple[tuple[bool, ...], ...]:
        """Return which values are run-time parameters: nonzero and named ones."""
        groups = zip(self._taken(joint), self._named(joint), strict=True)
        return tuple(tuple(named or x != 0.0 for x in group) for group, named in groups)


def passive_forces(
    setting: Setting, q: Scalars, v: Scalars, elements: Sequence[tuple[Element, Scalars]]
) -> AppliedForces:
    """Return the sum of what passive elements exert in a state.

    Args:
        setting: The robot and its surroundings.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        elements: Elements of `passive_elements`, each with its run-time parameters.
    """
    kinematics = StateKinematics(setting, JointVector(q), JointVector(v))
    found = AppliedForces((0.0,) * setting.model.nv)
    for element, p in elements:
        now = ElementContext(kinematics, 0.0, (), (), tuple(p))
        found.take(setting.model, element, element.act(now), 0)
    return found


def passive_elements(
    model: Model,
    *,
    friction_speed: float = FRICTION_SPEED,
    at_ends: tuple[str, ...] = (),
    resolved: tuple[str, ...] = (),
    coulomb: bool = True,
    stiff: Collection[str] = (),
) -> tuple[Element, ...]:
    """Return springs between frames, and friction and springs of joints, of a robot.

    Args:
        model: The robot.
        friction_speed: Speed over which Coulomb friction changes sign [rad/s or m/s].
        at_ends: Joints whose forces act at the ends of steps and are left out.
        resolved: Joints of those whose forces do so in other cases of a batch only.
        coulomb: Whether Coulomb friction is included, not at the ends of steps.
        stiff: Names of springs that act at the ends of steps and are left out.
    """
    springs = tuple(
        PointSpring(spring.name, spring) for spring in model.springs if spring.name not in stiff
    )
    joints = PassiveJoints.of(
        model,
        friction_speed=friction_speed,
        at_ends=at_ends,
        resolved=resolved,
        coulomb=coulomb,
    )
    return springs if joints is None else (*springs, joints)
