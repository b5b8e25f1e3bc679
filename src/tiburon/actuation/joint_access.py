"""Positions, velocities and forces of joints in elements, coupled joints included.

A coupled joint has no variables of its own: its position is ratio * q_leader + offset, and a force
on it acts on the leader, multiplied by the ratio (virtual work).
"""

from collections.abc import Mapping, Sequence

from tiburon.actuation.element import ElementContext
from tiburon.errors import ModelError
from tiburon.model import Coupled, Joint, Model
from tiburon.model.joints.joint import PerDof
from tiburon.spatial import Scalar, Scalars


def per_degree_of_freedom(value: PerDof, joint: Joint) -> tuple[float, ...]:
    """Expand one value for all degrees of freedom to one value each."""
    return value if isinstance(value, tuple) else (value,) * joint.dof


def joint_positions(now: ElementContext, joint: Joint) -> Scalars:
    """Return the position variables of a joint [m or rad]; a coupled joint has one."""
    q = now.joint_position(joint.name)
    if isinstance(joint, Coupled):
        return (joint.ratio * q[0] + joint.offset,)
    return q


def joint_velocities(now: ElementContext, joint: Joint) -> Scalars:
    """Return the velocity of each degree of freedom of a joint [m/s or rad/s]."""
    v = now.joint_velocity(joint.name)
    return (joint.ratio * v[0],) if isinstance(joint, Coupled) else v


def joint_force(joint: Joint, force: Scalars) -> dict[str, Scalars]:
    """Return a joint force [N or N m] by the name of the joint whose variables it acts on."""
    if isinstance(joint, Coupled):
        return {joint.leader: (joint.ratio * force[0],)}
    return {joint.name: tuple(force)}


def rotation_vector(joint: Joint, q: Scalars) -> Scalars:
    """Return the rotation vector of a joint whose position has a quaternion [rad]."""
    return joint.difference(joint.neutral(), q)[:3]


def spread_forces(model: Model, forces: Sequence[Mapping[str, Scalars]]) -> tuple[Scalar, ...]:
    """Sum joint forces [N or N m], given by joint name, into nv scalars."""
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
            f"{element}: expected a joint with one degree of freedom, got the {found.kind} joint "
            f"{joint!r} with {found.dof}; name a revolute, prismatic or screw joint",
            name=joint,
        )
