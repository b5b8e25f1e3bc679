"""Inverse dynamics of robots that float: the joints' motion is known, that of the base is not.

Symbols (Featherstone 1987, section 7.5.1):
    X       map of motion from the parent's frame to the body's
    a0      acceleration of the base, as seen from a body
    ar      acceleration of a body relative to the base
    IC, p   inertia of a body and all beyond it as one rigid body, and the force it needs if the
            base does not accelerate
    f       force a joint must transmit to its body
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.rnea import base_acceleration
from tiburon.algorithms.sweep import by_velocity, inward, outward
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.record import record
from tiburon.spatial import (
    ArticulatedInertia,
    Force,
    Motion,
    RigidInertia,
    Scalar,
    Transform,
    Vec3,
    rate_matrix,
    spatial_to_classical,
)

__all__ = ["floating_rnea", "floats"]


@record
class _Composite:
    """Composite inertia and the force it needs; they add."""

    IC: RigidInertia | ArticulatedInertia
    p: Force

    def __add__(self, other: "_Composite") -> "_Composite":
        return _Composite(self.IC + other.IC, self.p + other.p)


class _Given(NamedTuple):
    """What is given for a body: whether it is a base, and the force from outside."""

    floats: bool
    fx: Force | None


class _Moving(NamedTuple):
    """What the first pass knows of a body."""

    X: Transform
    vel: Motion
    c: Motion
    ar: Motion
    alone: _Composite


class _Solved(NamedTuple):
    """What the last pass knows of a body; joint accelerations of bases only."""

    a0: Motion
    vd: tuple[Scalar, ...]
    tau: tuple[Scalar, ...]


def floats(body: PlanBody) -> bool:
    """Tell whether a body is a floating base: on the world, with all six freedoms."""
    return body.parent == WORLD_BODY and body.v.stop - body.v.start == 6


def floating_rnea(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """Compute the motion of floating bases and all joint forces.

    Featherstone 1987, eqs. 7.25-7.31 for trees in link coordinates; O(number of bodies). Gravity is
    an upward acceleration of the world, which the base, solved for, must shed again: its joint
    acceleration counts from that of the world. Trees on fixed bases come out as usual.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars; those of floating bases are not read.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.

    Returns:
        Joint accelerations and joint forces, nv scalars each; no force acts in the joint of a
        floating base.
    """
    up = base_acceleration(gravity)

    def motion(body: PlanBody, parent: _Moving, given: _Given) -> _Moving:
        position, rate = q[body.q], v[body.v]
        X = body.transform(position)
        vJ = body.joint.velocity(position, rate)
        vel = X.motion(parent.vel) + vJ
        c = vel.cross(vJ) + body.joint.bias(position, rate)
        ar = Motion.zero()
        if not given.floats:
            ar = X.motion(parent.ar) + body.joint.motion(position, vd[body.v]) + c
        a = spatial_to_classical(ar, vel)
        p = body.inertia.rate_of_momentum(rate_matrix(vel.angular, a.angular), a.linear)
        if body.added is not None:
            p = body.added.apply(a, start=p)
        if given.fx is not None:
            p = p - given.fx
        return _Moving(X, vel, c, ar, _Composite(body.felt, p))

    def compose(
        body: PlanBody, total: _Composite, moving: _Moving
    ) -> tuple[_Composite, _Composite]:
        X = moving.X
        return total, _Composite(X.inertia_to_parent(total.IC), X.force_to_parent(total.p))

    def solve(
        body: PlanBody, parent: _Solved, moving: _Moving, total: _Composite, given: _Given
    ) -> _Solved:
        joint, position = body.joint, q[body.q]
        if given.floats:
            # all freedoms of the base are freed: the whole robot is one rigid body to them
            none = (0.0,) * 6
            IC = total.IC.articulated()
            own = body.armature
            _, _, carry = joint.release(position, IC, total.p, moving.c, none, own)
            rates, a0 = joint.accelerate(position, carry, moving.X.motion(up) + moving.c, own)
            return _Solved(a0, rates, none)
        a0 = moving.X.motion(parent.a0)
        f = total.IC.apply(a0) + total.p
        tau = joint.project(position, f)
        if body.armature is not None:
            shares = zip(tau, body.armature, vd[body.v], strict=True)
            tau = tuple(force + own * rate for force, own, rate in shares)
        return _Solved(a0, (), tau)

    nothing = _Composite(RigidInertia.zero(), Force.zero())
    given = [
        _Given(floats(body), None if external is None else external[body.index])
        for body in plan.bodies
    ]
    world = _Moving(Transform.identity(), Motion.zero(), Motion.zero(), up, nothing)
    moving = outward(plan, motion, world, given)
    totals = inward(plan, compose, [visit.alone for visit in moving], moving)
    # on fixed bases the relative acceleration is all there is
    solved = outward(plan, solve, _Solved(Motion.zero(), (), ()), moving, totals, given)
    accelerations = list(vd)
    for body, visit in zip(plan.bodies, solved, strict=True):
        if floats(body):
            accelerations[body.v] = visit.vd
    return tuple(accelerations), by_velocity(plan, [visit.tau for visit in solved])
