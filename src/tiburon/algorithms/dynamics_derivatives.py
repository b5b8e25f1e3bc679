"""How joint forces change with position and velocity: an analytical recursion.

Symbols (Singh, Russo and Wensing 2022, "Efficient analytical derivatives of rigid-body dynamics
using spatial vector algebra", IEEE Robotics and Automation Letters 7(2)):
    S, Sd       motion sub-space of a joint, and its rate
    vel, acc    spatial velocity and acceleration of a body; the world accelerates against gravity
    Pd, Pdd     what a unit step of a joint adds to velocity and acceleration of the bodies beyond
                it, apart from carrying them along (Psi dot and Psi double dot in the paper)
    I, B, F     inertia, twice the velocity product matrix, and force of a body
    IC, BC, FC  their sums over a body and all beyond it

A step s of joint j carries all bodies i beyond it along, and changes their motion by

    d vel_i = s x vel_i + Pd                    Pd  = vel_0 x s + P
    d acc_i = s x acc_i + Pd x vel_i + Pdd      Pdd = acc_0 x s + vel_0 x Pd + vel_j x P + Q

with vel_0, acc_0 the motion of the frame the joint moves in. The paper has constant S. Where S
depends on position, as in universal, planar and rolling joints, its change adds P = dS v and
Q = dS vd + d(Sdot v), and S^T FC changes by dS^T FC; a unit change of velocity then adds Sd + Pd.

All vectors are in the frame of the first body of each tree.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.derivative_parts import (
    Composite,
    Turning,
    VelocityProduct,
    leaning,
    leaning_transpose,
    no_turning,
    turned,
)
from tiburon.algorithms.gathering import by_velocity, with_armature
from tiburon.algorithms.rnea import upward
from tiburon.algorithms.root_frame import Place
from tiburon.algorithms.sweep import inward, outward, pairs
from tiburon.model import Plan, PlanBody
from tiburon.spatial import Force, Motion, Scalar, Vec3
from tiburon.spatial.vec3 import dot

__all__ = ["ForceDerivatives", "Rows", "StateTerms", "force_derivatives", "state_terms"]

Rows = tuple[tuple[Scalar, ...], ...]
"""Rows of a matrix."""


class _Moving(NamedTuple):
    """What the first pass knows of a body."""

    place: Place | None
    """None for the world."""

    vel: Motion
    acc: Motion
    vel_0: Motion
    acc_0: Motion
    S: tuple[Motion, ...]
    Sd: tuple[Motion, ...]
    P: tuple[Motion, ...]
    Pd: tuple[Motion, ...]
    alone: Composite


class StateTerms(NamedTuple):
    """What follows from position and velocity alone."""

    bias: tuple[Scalar, ...]
    """Joint forces at zero joint acceleration [N or N m], nv scalars."""

    mass: Rows
    """Rows of the mass matrix."""

    moving: tuple[_Moving, ...]
    composites: tuple[Composite, ...]


def state_terms(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
    turning: Sequence[Turning] | None = None,
) -> StateTerms:
    """Compute mass matrix and bias force, and what their derivatives need.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.
        turning: How these forces turn back when their bodies turn, seen from those; by default
            they are fixed in their bodies.
    """

    def motion(body: PlanBody, parent: _Moving, outside: Force, turns: Turning) -> _Moving:
        joint, position, rate = body.joint, q[body.q], v[body.v]
        X = body.transform(position)
        if parent.place is None:
            place, vel_0, acc_0 = Place.first(), X.motion(parent.vel), X.motion(parent.acc)
        else:
            place, vel_0, acc_0 = parent.place.beyond(X), parent.vel, parent.acc
        S, Sdot = joint.subspace(position), joint.subspace_rate(position, rate)
        own = joint.motion(position, rate)
        if joint.depends_on_time:
            # the frame that the joint moves in is itself driven
            xi = joint.velocity(position, rate) - own
            vel_0 = vel_0 + place.motion(xi)
            beyond = joint.bias(position, rate) - _sum(Sdot, rate) + own.cross(xi)
            acc_0 = acc_0 + vel_0.cross(place.motion(xi)) + place.motion(beyond)
        axes = tuple(place.motion(s) for s in S)
        carried = tuple(vel_0.cross(s) for s in axes)
        vel = vel_0 + _sum(axes, rate)
        acc = acc_0 + _sum(carried, rate) + place.motion(_sum(Sdot, rate))
        Sd = tuple(
            c + place.motion(own.cross(s) + r) for c, s, r in zip(carried, S, Sdot, strict=True)
        )
        P = tuple(
            place.motion(_sum(joint.subspace_rate(position, unit), rate)) for unit in _units(S)
        )
        Pd = tuple(c + p for c, p in zip(carried, P, strict=True))
        I = place.inertia(body)
        momentum = I.apply(vel)
        B = VelocityProduct(I.rate(vel).A, momentum)
        F = I.apply(acc) + vel.cross_force(momentum) - place.force(outside)
        alone = Composite(I, B, F, turned(place, turns))
        return _Moving(place, vel, acc, vel_0, acc_0, axes, Sd, P, Pd, alone)

    def compose(
        body: PlanBody, total: Composite, moving: _Moving
    ) -> tuple[tuple[Composite, tuple[Force, ...], tuple[Scalar, ...]], Composite]:
        inertial = tuple(total.I.apply(s) for s in moving.S)
        return (total, inertial, tuple(s.dot(total.F) for s in moving.S)), total

    def project(
        body: PlanBody, inertial: tuple[Force, ...], S: tuple[Motion, ...]
    ) -> tuple[tuple[tuple[Scalar, ...], ...], tuple[Force, ...]]:
        return tuple(tuple(s.dot(f) for s in S) for f in inertial), inertial

    still = Motion.zero()
    world = _Moving(None, still, upward(gravity), still, still, (), (), (), (), Composite.zero())
    outside = [Force.zero() for _ in plan.bodies] if external is None else external
    turns = [no_turning() for _ in plan.bodies] if turning is None else turning
    moving = outward(plan, motion, world, outside, turns)
    kept = inward(plan, compose, [visit.alone for visit in moving], moving)
    M: list[list[Scalar]] = [[0.0] * plan.nv for _ in range(plan.nv)]
    inertial, S = [visit[1] for visit in kept], [visit.S for visit in moving]
    for body, ancestor, felt in pairs(plan, project, inertial, S):
        for column, entries in enumerate(felt, start=body.v.start):
            for row, entry in enumerate(entries, start=ancestor.v.start):
                # a joint's own block comes out twice: its upper part serves both
                if body is not ancestor or row <= column:
                    both = body is not ancestor and row == column
                    M[row][column] = M[row][column] + (entry + entry if both else entry)
                    M[column][row] = M[row][column]
    bias = by_velocity(plan, [visit[2] for visit in kept])
    return StateTerms(bias, with_armature(plan, M), moving, tuple(visit[0] for visit in kept))


class _Accelerating(NamedTuple):
    """What joint accelerations add to the first pass."""

    acc: Motion
    F: Force
    Pdd: tuple[Motion, ...]
    Z: tuple[Motion, ...]
    """Sd + Pd: what a unit change of velocity adds to the acceleration of the bodies beyond."""


class _Column(NamedTuple):
    """Forces that go with one freedom of a joint, for all joints that carry it."""

    by_q: Force
    """Change of FC with a unit step."""

    by_v: Force
    """Change of FC with a unit change of velocity."""

    inertial: Force
    """IC s."""

    turned: Vec3
    """BC^T s: a couple."""

    leaning: Vec3
    """What forces that do not turn with their bodies add for a unit turn."""


class ForceDerivatives(NamedTuple):
    """Joint forces and their derivatives."""

    tau: tuple[Scalar, ...]
    """Joint force [N or N m], nv scalars."""

    by_q: Rows
    """By steps along each freedom, nv times nv scalars."""

    by_v: Rows
    """By velocities, nv times nv scalars."""


def force_derivatives(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar],
    terms: StateTerms,
) -> ForceDerivatives:
    """Compute how joint forces that produce given accelerations change with position and velocity.

    Singh, Russo and Wensing 2022, eqs. 21-24, for joints of any kind; O(pairs of a body and an
    ancestor).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        terms: From `state_terms`, of the same state.
    """

    def accelerate(
        body: PlanBody, parent: _Accelerating, moving: _Moving, alone: Composite, place: Place
    ) -> _Accelerating:
        joint, position, rate, change = body.joint, q[body.q], v[body.v], vd[body.v]
        acc = parent.acc + _sum(moving.S, change)
        acc_0 = moving.acc_0 + parent.acc
        Q = [
            _sum(joint.subspace_rate(position, unit), change) + bent
            for unit, bent in zip(
                _units(moving.S), joint.bias_derivative(position, rate), strict=True
            )
        ]
        Pdd = tuple(
            acc_0.cross(s) + moving.vel_0.cross(pd) + moving.vel.cross(p) + place.motion(x)
            for s, pd, p, x in zip(moving.S, moving.Pd, moving.P, Q, strict=True)
        )
        Z = tuple(sd + pd for sd, pd in zip(moving.Sd, moving.Pd, strict=True))
        return _Accelerating(acc, alone.I.apply(acc), Pdd, Z)

    def compose(
        body: PlanBody,
        added: Force,
        moving: _Moving,
        place: Place,
        total: Composite,
        accelerating: _Accelerating,
    ) -> tuple[tuple[tuple[_Column, ...], tuple[Scalar, ...], Rows], Force]:
        I, B, F = total.I, total.B, total.F + added
        columns = tuple(
            _Column(
                I.apply(pdd) + B.apply(pd) + s.cross_force(F) + leaning(total.turning, s),
                I.apply(z) + B.apply(s),
                I.apply(s),
                B.apply_transpose(s),
                leaning_transpose(total.turning, s),
            )
            for s, pd, pdd, z in zip(
                moving.S, moving.Pd, accelerating.Pdd, accelerating.Z, strict=True
            )
        )
        # the joint's own columns change where S depends on position
        bent = tuple(
            tuple(place.motion(ds).dot(F) for ds in body.joint.subspace_rate(q[body.q], unit))
            for unit in _units(moving.S)
        )
        tau = tuple(s.dot(F) for s in moving.S)
        if body.armature is not None:
            shares = zip(tau, body.armature, vd[body.v], strict=True)
            tau = tuple(force + own * rate for force, own, rate in shares)
        return (columns, tau, bent), added

    def project(
        body: PlanBody,
        columns: tuple[_Column, ...],
        S: tuple[Motion, ...],
        Pd: tuple[Motion, ...],
        Pdd: tuple[Motion, ...],
        Z: tuple[Motion, ...],
    ) -> tuple[tuple[tuple[tuple[Scalar, ...], ...], ...], tuple[_Column, ...]]:
        felt = tuple(
            (
                tuple(s.dot(x.by_q) for s in S),
                tuple(s.dot(x.by_v) for s in S),
                tuple(
                    pdd.dot(x.inertial) + dot(pd.angular, x.turned) + dot(s.angular, x.leaning)
                    for s, pd, pdd in zip(S, Pd, Pdd, strict=True)
                ),
                tuple(
                    z.dot(x.inertial) + dot(s.angular, x.turned) for s, z in zip(S, Z, strict=True)
                ),
            )
            for x in columns
        )
        return felt, columns

    moving, composites = terms.moving, terms.composites
    places = [visit.place for visit in moving]
    still = _Accelerating(Motion.zero(), Force.zero(), (), ())
    alone = [visit.alone for visit in moving]
    accelerating = outward(plan, accelerate, still, moving, alone, places)
    added = [visit.F for visit in accelerating]
    kept = inward(plan, compose, added, moving, places, composites, accelerating)
    by_q: list[list[Scalar]] = [[0.0] * plan.nv for _ in range(plan.nv)]
    by_v: list[list[Scalar]] = [[0.0] * plan.nv for _ in range(plan.nv)]
    columns = [visit[0] for visit in kept]
    # visits to pairs are many: each takes what it uses and no more
    S, Pd = [visit.S for visit in moving], [visit.Pd for visit in moving]
    Pdd, Z = [visit.Pdd for visit in accelerating], [visit.Z for visit in accelerating]
    for body, ancestor, felt in pairs(plan, project, columns, S, Pd, Pdd, Z):
        for k, (above_q, above_v, below_q, below_v) in enumerate(felt, start=body.v.start):
            for place, j in enumerate(range(ancestor.v.start, ancestor.v.stop)):
                # sums, since joints that follow another share its variables
                by_q[k][j] = by_q[k][j] + below_q[place]
                by_v[k][j] = by_v[k][j] + below_v[place]
                if body is not ancestor:
                    by_q[j][k] = by_q[j][k] + above_q[place]
                    by_v[j][k] = by_v[j][k] + above_v[place]
    for body, (_, _, bent) in zip(plan.bodies, kept, strict=True):
        for k, changes in enumerate(bent, start=body.v.start):
            for j, change in enumerate(changes, start=body.v.start):
                by_q[j][k] = by_q[j][k] + change
    tau = by_velocity(plan, [visit[1] for visit in kept])
    return ForceDerivatives(tau, tuple(map(tuple, by_q)), tuple(map(tuple, by_v)))


def _units(S: Sequence[Motion]) -> list[tuple[float, ...]]:
    """Return the unit vectors of a joint's freedoms."""
    return [tuple(float(i == k) for i in range(len(S))) for k in range(len(S))]


def _sum(columns: Sequence[Motion], weights: Sequence[Scalar]) -> Motion:
    """Return the sum of columns times weights."""
    total = Motion.zero()
    for column, weight in zip(columns, weights, strict=True):
        total = total + column * weight
    return total
