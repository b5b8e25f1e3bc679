"""Joints as elements meet them: positions, velocities and forces of followers and leaders alike.

A follower has no variables of its own. Its position is ratio times the leader's plus an offset, and
a force on it is felt by the leader, ratio times as much (the virtual work of both is the same).
"""

from collections.abc import Mapping, Sequence

from tiburon.actuation.element import ElementContext
from tiburon.errors import ModelError
from tiburon.model import Coupled, Joint, Model
from tiburon.model.joint_properties import PerFreedom
from tiburon.spatial import Scalar

__all__ = [
    "each_freedom",
    "joint_force",
    "joint_positions",
    "joint_velocities",
    "one_freedom",
    "spread_forces",
]


def each_freedom(value: PerFreedom, joint: Joint) -> tuple[float, ...]:
    """Return one number per freedom, where one may stand for all."""
    return value if isinstance(value, tuple) else (value,) * joint.freedom_count


def joint_positions(now: ElementContext, joint: Joint) -> Sequence[Scalar]:
    """Return the position variables of a joint [m or rad]; one, its own, if it follows another."""
    q = now.joint_position(joint.name)
    if isinstance(joint, Coupled):
        return (joint.ratio * q[0] + joint.offset,)
    return q


def joint_velocities(now: ElementContext, joint: Joint) -> Sequence[Scalar]:
    """Return the velocity of each freedom of a joint [m/s or rad/s]."""
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
        forces: By joint name, one scalar per freedom [N or N m]; a joint may occur many times.

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


def one_freedom(model: Model, joint: str, element: str) -> None:
    """Raise an error unless a model has a joint of this name and of one freedom."""
    found = model.joint(joint)
    if found.freedom_count != 1:
        raise ModelError(
            f"{element}: expected a joint of one freedom, got the {found.kind} joint {joint!r} "
            f"with {found.freedom_count}; name a hinge, a slide or a screw",
            name=joint,
        )
