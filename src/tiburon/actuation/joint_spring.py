"""Springs inside joints of any kind, so that what they take they give back.

Symbols:
    phi     turn from rest to now, as a rotation vector in body axes [rad]
    V       left Jacobian of the rotation by phi
    K       stiffness of each freedom, a diagonal matrix

A hinge or slide has the energy K (q - rest)^2 / 2 and the force -K (q - rest). Where a joint turns
about all axes, the energy is phi' K phi / 2 likewise. As phi changes by V^-T omega per second, the
moment that belongs to it is -V^-1 K phi: for equal stiffness along all axes simply -K phi, for
others not. A joint that also shifts has springs along the axes it rests in.
"""

from collections.abc import Sequence

from tiburon.model import Joint
from tiburon.model.joint_properties import PerFreedom
from tiburon.spatial import Scalar
from tiburon.spatial.exponential import (
    left_jacobian_inverse_product,
    left_jacobian_product,
    rotation_vector_to_matrix,
)
from tiburon.spatial.vec3 import matrix_vector, transpose, vec3

__all__ = ["rest_position", "spring_energy", "spring_force", "turn_of"]


def rest_position(joint: Joint, rest: PerFreedom) -> tuple[float, ...]:
    """Return where a joint rests, one number per position variable.

    Args:
        joint: The joint.
        rest: One number per position variable; or per freedom, or one for all freedoms: a step
            from the neutral position.
    """
    count = 1 if joint.follows is not None else joint.nq
    if isinstance(rest, tuple) and len(rest) == count:
        return rest
    freedoms = joint.dof
    step = rest if isinstance(rest, tuple) else (rest,) * freedoms
    if count == freedoms:
        return step
    return tuple(float(x) for x in joint.integrate(joint.neutral(), step))


def spring_force(
    joint: Joint, rest: Sequence[Scalar], q: Sequence[Scalar], K: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """Return the force of springs in a joint [N or N m], one scalar per freedom.

    Args:
        joint: The joint.
        rest: Where it rests [m or rad], one scalar per position variable.
        q: Where it is.
        K: Stiffness of each freedom [N/m or N m/rad].
    """
    if len(q) == len(K):
        return tuple(k * (r - x) for k, r, x in zip(K, rest, q, strict=True))
    # a position with a quaternion: the turn comes first among the freedoms
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


def spring_energy(
    joint: Joint, rest: Sequence[Scalar], q: Sequence[Scalar], K: Sequence[Scalar]
) -> Scalar:
    """Return the energy of springs in a joint [J]; arguments are those of `spring_force`."""
    total: Scalar = 0.0
    step: Sequence[Scalar]
    if len(q) == len(K):
        step = [x - r for r, x in zip(rest, q, strict=True)]
    else:
        step = joint.difference(rest, q)
        if len(K) > 3:
            step = (*step[:3], *left_jacobian_product(step[:3], step[3:]))
    for k, x in zip(K, step, strict=True):
        total = total + 0.5 * k * x * x
    return total


def turn_of(joint: Joint, q: Sequence[Scalar]) -> Sequence[Scalar]:
    """Return the rotation vector of a joint whose position has a quaternion [rad]."""
    return joint.difference(joint.neutral(), q)[:3]


def _scaled(K: Sequence[Scalar], x: Sequence[Scalar]) -> tuple[Scalar, ...]:
    return tuple(k * a for k, a in zip(K, x, strict=True))
