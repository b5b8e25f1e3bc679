"""Inverse dynamics: recursive Newton-Euler in body coordinates.

Symbols (Featherstone 1987, chapter 4):
    X       map of motion from the parent's frame to the body's
    vel, acc    spatial velocity and acceleration of a body
    vJ      velocity of a body relative to its parent, S v
    f       force a joint must transmit to its body
    fx      external force on a body
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.sweep import inward, outward
from tiburon.model import Plan, PlanBody
from tiburon.spatial import Force, Motion, Scalar, Transform, Vec3

__all__ = ["rnea"]


class _Visit(NamedTuple):
    """What the outward pass knows of a body."""

    X: Transform
    vel: Motion
    acc: Motion


def rnea(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Scalar, ...]:
    """Compute the joint forces that produce given joint accelerations.

    Featherstone 1987, eqs. 4.11-4.15 for trees, eqs. 7.10-7.16 for joints of several freedoms;
    O(number of bodies).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.

    Returns:
        Joint force [N or N m], nv scalars.
    """

    def motion(body: PlanBody, parent: _Visit) -> _Visit:
        joint, rate = body.joint, v[body.v]
        X = body.transform(q[body.q])
        vJ = joint.motion(rate)
        vel = X.motion(parent.vel) + vJ
        c = vel.cross(vJ) + joint.bias(q[body.q], rate)
        return _Visit(X, vel, X.motion(parent.acc) + joint.motion(vd[body.v]) + c)

    def needed(body: PlanBody, visit: _Visit) -> Force:
        f = body.inertia.rate_of_momentum(visit.vel, visit.acc)
        return f if external is None else f - external[body.index]

    def transmit(body: PlanBody, f: Force, visit: _Visit) -> tuple[tuple[Scalar, ...], Force]:
        return body.joint.project(f), visit.X.force_to_parent(f)

    # outward: the world accelerating upward acts on every body as gravity does
    root = _Visit(Transform.identity(), Motion.zero(), upward(gravity))
    visits = outward(plan, motion, root)
    # inward: each joint carries what its body and all beyond it need
    forces = [needed(body, visit) for body, visit in zip(plan.bodies, visits, strict=True)]
    kept = inward(plan, transmit, forces, visits)
    return tuple(x for joint_force in kept for x in joint_force)


def upward(gravity: Vec3) -> Motion:
    """Return the acceleration of the world that has the effect of gravity (sec. 4.4)."""
    x, y, z = gravity
    return Motion((0.0, 0.0, 0.0), (-x, -y, -z))
