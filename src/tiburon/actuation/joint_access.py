"""Positions, velocities and forces of joints as elements use them, coupled joints included.

A coupled joint has no variables of its own. Its position is ratio times that of its leader plus an
offset; a force on it acts on the leader, multiplied by the ratio (equal virtual work).
"""

from collections.abc import Mapping, Sequence

from tiburon.actuation.element import ElementContext
from tiburon.errors import ModelError
from tiburon.model import Coupled, Joint, Model
from tiburon.model.joint_properties import PerFreedom
from tiburon.spatial import Scalar

__all__ = [
    "joint_force",
    "joint_positions",
    "joint_velocities",
    "per_degree_of_freedom",
    "require_single_dof",
    "spread_forces",
]


def per_degree_of_freedom(value: PerFreedom, joint: Joint) -> tuple[float, ...]:
    """Return one value per degree of freedom, where one may stand for all."""
    return value if isinstance(value, tuple) else (value,) * joint.dof


def joint_positions(now: ElementContext, joint: Joint) -> Sequence[Scalar]:
    """Return the position variables of a joint [m or rad]; one, its own, if it follows another."""
    q = now.joint_position(joint.name)
    if isinstance(joint, Coupled):
        return (joint.ratio * q[0] + joint.offset,)
    return q


def joint_velocities(now: ElementContext, joint: Joint) -> Sequence[Scalar]:
    """Return the velocity of each degree of freedom of a joint [m/s or rad/s]."""
    v = now.joint_velocity(joint.name)
    return (joint.ratio * v[0],) if isinstance(joint, Coupled) else v


def joint_force(joint: Joint, force: Sequence[Scalar]) -> dict[str, Sequence[Scalar]]:
    """Return the force at a joint by the name of the joint whose variables feel it [N or N m]."""
    if isinstance(joint, Coupled):
        return {joint.leader: (joint.ratio * force[0],)}
    return {joint.name: tuple(force)}


def spread_forces(
    model: Model, forces: Sequence[Mapping[str, Sequence[Scalar]]]
) -> tuple[Scalar, ...]:
    """Add up forces at joints.

    Args:
        model: The robot.
        forces: By joint name, one scalar per degree of freedom [N or N m]; a joint may occur
            many times.

    Returns:
        One scalar per velocity variable, nv in all.
    """
    total: list[Scalar] = [0.0] * model.nv
    for named in forces:
        for name, force in named.items():
            begin = model.slice(name, of="v").start
            for k, f in enumerate(force):
                total[begin + k] = total[begin + k] + f
    return tuple(total)


def require_single_dof(model: Model, joint: str, element: str) -> None:
    """Raise an error unless a model has a joint of this name with one degree of freedom."""
    found = model.joint(joint)
    if found.dof != 1:
        raise ModelError(
            f"{element}: expected a joint of one freedom, got the {found.kind} joint {joint!r} "
            f"with {found.dof}; name a hinge, a slide or a screw",
            name=joint,
        )
