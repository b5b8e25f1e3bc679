"""Kinetic and potential energy.

Symbols:
    X       map of motion from the parent's frame to the body's
    vel     spatial velocity of a body
    R, p    axes and origin of a body in the world
    m, h    mass and first mass moment of a body
"""

from collections.abc import Sequence

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.sweep import outward
from tiburon.model import Plan, PlanBody
from tiburon.spatial import Motion, Scalar, Vec3

__all__ = ["kinetic", "potential"]


def kinetic(plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar]) -> Scalar:
    """Compute the kinetic energy, the sum of 1/2 vel . I vel (Featherstone 1987, sec. 3.9).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.

    Returns:
        Kinetic energy [J].
    """

    def velocity(body: PlanBody, parent: Motion) -> Motion:
        return body.transform(q[body.q]).motion(parent) + body.joint.motion(v[body.v])

    velocities = outward(plan, velocity, Motion.zero())
    twice: Scalar = 0.0
    for body, vel in zip(plan.bodies, velocities, strict=True):
        twice = twice + vel.dot(body.inertia.apply(vel))
    return 0.5 * twice


def potential(plan: Plan, q: Sequence[Scalar], gravity: Vec3) -> Scalar:
    """Compute the potential energy in gravity, zero for mass at the world origin.

    Bodies fixed to the world are left out, since their share never changes.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].

    Returns:
        Potential energy [J].
    """

    def moment(body: PlanBody, place: Place) -> Vec3:
        m, (hx, hy, hz) = body.inertia.mass, body.inertia.h
        x, y, z = (
            m * p + row[0] * hx + row[1] * hy + row[2] * hz
            for row, p in zip(place.R, place.p, strict=True)
        )
        return (x, y, z)

    # U = -g . (sum of m times the center of mass)
    total: Scalar = 0.0
    for body, place in zip(plan.bodies, body_places(plan, q), strict=True):
        x, y, z = moment(body, place)
        total = total - (gravity[0] * x + gravity[1] * y + gravity[2] * z)
    return total
