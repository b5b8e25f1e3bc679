"""Inverse dynamics of floating-base robots: known joint accelerations, unknown base acceleration.

Symbols (Featherstone 1987, section 7.5.1):
    X       motion transform from the parent's frame to the body's
    a0      acceleration of the base, as seen from a body
    ar      acceleration of a body relative to the base
    IC, p   inertia of a subtree as one rigid body, and the force it requires at a0 = 0
    f       force a joint must transmit to its body
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.aba import accelerate_joint, eliminate_joint
from tiburon.algorithms.rnea import base_acceleration
from tiburon.algorithms.traversal import by_velocity, inward, outward, with_armature_force
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.record import record
from tiburon.spatial import (
    ArticulatedInertia,
    Force,
    Motion,
    RigidInertia,
    Scalar,
    Scalars,
    Transform,
    Vec3,
    rate_matrix,
    spatial_to_classical,
)


@record
class _Composite:
    """Composite inertia and required force of a subtree; they add."""

    IC: RigidInertia | ArticulatedInertia
    p: Force

    def __add__(self, other: "_Composite") -> "_Composite":
        return _Composite(self.IC + other.IC, self.p + other.p)


class _Given(NamedTuple):
    """Whether a body is a floating base, and the external force on it."""

    floats: bool
    fx: Force | None


class _Moving(NamedTuple):
    """Results of the first pass for a body."""

    X: Transform
    vel: Motion
    c: Motion
    ar: Motion
    alone: _Composite


class _Solved(NamedTuple):
    """Results of the last pass for a body; joint accelerations of bases only."""

    a0: Motion
    vd: tuple[Scalar, ...]
    tau: tuple[Scalar, ...]


def is_floating_base(body: PlanBody) -> bool:
    """Return whether a body is a floating base: on the world, with six degrees of freedom."""
    return body.parent == WORLD_BODY and body.v.stop - body.v.start == 6


def floating_rnea(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """Compute the accelerations of floating bases and all joint forces.

    Featherstone 1987, eqs. 7.25-7.31 for trees in link coordinates; O(number of bodies). Gravity is
    modelled as an upward acceleration of the world; the joint acceleration of a base is relative
    to it. Fixed-base trees are treated as in `rnea`.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars; not used for floating bases.
        gravity: Gravitational acceleration, world axes [m/s^2].
        external: External wrench on each body, in its plan frame [N m, N]; none by default.

    Returns:
        Joint accelerations and joint forces, nv scalars each; forces of floating bases are zero.
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
        return _Moving(X, vel, c, ar, _Composite(body.effective_inertia, p))

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
            # the base is free, and the robot is one composite rigid body
            none = (0.0,) * 6
            IC = total.IC.articulated()
            own = body.armature
            _, _, carry = eliminate_joint(joint, position, IC, total.p, none, own)
            rates, a0 = accelerate_joint(
                joint, position, carry, moving.X.motion(up) + moving.c, own
            )
            return _Solved(a0, rates, none)
        a0 = moving.X.motion(parent.a0)
        f = total.IC.apply(a0) + total.p
        tau = joint.project(position, f)
        tau = with_armature_force(body, tau, vd)
        return _Solved(a0, (), tau)

    nothing = _Composite(RigidInertia.zero(), Force.zero())
    given = [
        _Given(is_floating_base(body), None if external is None else external[body.index])
        for body in plan.bodies
    ]
    world = _Moving(Transform.identity(), Motion.zero(), Motion.zero(), up, nothing)
    moving = outward(plan, motion, world, given)
    totals = inward(plan, compose, [visit.alone for visit in moving], moving)
    # on fixed bases a0 = 0
    solved = outward(plan, solve, _Solved(Motion.zero(), (), ()), moving, totals, given)
    accelerations = list(vd)
    for body, visit in zip(plan.bodies, solved, strict=True):
        if is_floating_base(body):
            accelerations[body.v] = visit.vd
    return tuple(accelerations), by_velocity(plan, [visit.tau for visit in solved])
