"""Analytical derivatives of inverse dynamics with respect to configuration and velocity.

Symbols (Singh, Russo and Wensing 2022, "Efficient analytical derivatives of rigid-body dynamics
using spatial vector algebra", IEEE Robotics and Automation Letters 7(2)):
    S, Sd       motion subspace of a joint, and its rate
    vel, acc    spatial velocity and acceleration of a body, with gravity as base acceleration
    Pd, Pdd     change of velocity and acceleration of the subtree per unit step of a joint, apart
                from rigid displacement (Psi dot and Psi double dot in the paper)
    I, B, F     inertia, twice the velocity product matrix, and force of a body
    IC, BC, FC  their sums over a subtree

A step s of joint j displaces all bodies i of its subtree, and changes their motion by

    d vel_i = s x vel_i + Pd                    Pd  = vel_0 x s + P
    d acc_i = s x acc_i + Pd x vel_i + Pdd      Pdd = acc_0 x s + vel_0 x Pd + vel_j x P + Q

with vel_0, acc_0 the motion of the frame the joint moves in. The paper has constant S. Where S
depends on position, as in universal, planar and rolling joints, its change adds P = dS v and
Q = dS vd + d(Sdot v), and S^T FC changes by dS^T FC; a unit change of velocity then adds Sd + Pd.

All vectors are in the frame of the first body of each tree.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tiburon.algorithms.derivatives.local_forces import LocalForce
from tiburon.algorithms.pair_products import BELOW, Vectors, components, joint_matrix
from tiburon.algorithms.rnea import base_acceleration
from tiburon.algorithms.root_frame import Place
from tiburon.algorithms.traversal import by_velocity, inward, outward, with_armature_force
from tiburon.model import Plan, PlanBody
from tiburon.record import record
from tiburon.spatial import Force, Motion, RigidInertia, Scalar, Scalars, Sym3, Vec3
from tiburon.spatial.vec3 import add, add_cross, cross, subtract, symmetric_vector

Turning = tuple[Force, Force, Force]
"""Change of a force on a body per unit rotation about x, y, z, apart from rigid displacement."""


def no_turning() -> Turning:
    """Return zero, the change of a force fixed in its body."""
    return (Force.zero(), Force.zero(), Force.zero())


@record
class VelocityProduct:
    """B = [ K - n x, 0; -2 f x, 0 ]: K = d Ibar/dt, and n, f the momentum; they add."""

    K: Sym3
    momentum: Force

    def __add__(self, other: "VelocityProduct") -> "VelocityProduct":
        a, b = self.K, other.K
        K = (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5])
        return VelocityProduct(K, self.momentum + other.momentum)

    def apply(self, m: Motion) -> Force:
        """Return B m = vel x* I m + m x* I vel - I (vel x m)."""
        w = m.angular
        turned = subtract(symmetric_vector(self.K, w), cross(self.momentum.moment, w))
        once = cross(w, self.momentum.force)
        return Force(turned, add(once, once))

    def apply_transpose(self, m: Motion) -> Vec3:
        """Return B^T m: a couple."""
        n, f = self.momentum.moment, self.momentum.force
        turned = add_cross(symmetric_vector(self.K, m.angular), n, m.angular)
        once = cross(f, m.linear)
        return add(turned, add(once, once))


@record
class Composite:
    """I, B, F and change with rotation of a subtree; they add."""

    I: RigidInertia
    B: VelocityProduct
    F: Force
    turning: Turning

    @classmethod
    def zero(cls) -> "Composite":
        """Return zero."""
        still = VelocityProduct((0.0,) * 6, Force.zero())
        return cls(RigidInertia.zero(), still, Force.zero(), no_turning())

    def __add__(self, other: "Composite") -> "Composite":
        (a, b, c), (x, y, z) = self.turning, other.turning
        turning = (a + x, b + y, c + z)
        return Composite(self.I + other.I, self.B + other.B, self.F + other.F, turning)


def turned(place: Place, turns: Turning) -> Turning:
    """Return `Turning` of a body, given in its own axes, in the common frame."""
    found = []
    for row in place.R:
        # a unit rotation about a common axis, in body axes
        x, y, z = (column * weight for column, weight in zip(turns, row, strict=True))
        found.append(place.force(x + y + z))
    return (found[0], found[1], found[2])


def leaning(turning: Turning, s: Motion) -> Force:
    """Return the change of force due to the rotation of a motion."""
    x, y, z = (column * weight for column, weight in zip(turning, s.angular, strict=True))
    total: Force = x + y + z
    return total


def leaning_transpose(turning: Turning, s: Motion) -> Vec3:
    """Return the transpose of the same map, applied to a motion."""
    x, y, z = turning
    return (s.dot(x), s.dot(y), s.dot(z))


Rows = tuple[tuple[Scalar, ...], ...]
"""Rows of a matrix."""

LocalForces = Callable[[Sequence[Any], Sequence[Motion], Sequence[Motion]], Sequence[LocalForce]]
"""Computes the local force of each body from poses, velocities and accelerations."""


class _Moving(NamedTuple):
    """Results of the first pass for a body."""

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
    """Terms of configuration and velocity only."""

    bias: tuple[Scalar, ...]
    """Joint forces at zero joint acceleration [N or N m], nv scalars."""

    S: Vectors
    """Joint axes."""

    inertial: Vectors
    """IC s of all axes: with S, the vectors of the mass matrix."""

    moving: tuple[_Moving, ...]
    composites: tuple[Composite, ...]


def state_terms(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    gravity: Vec3,
    external: Sequence[Force] | None = None,
    turning: Sequence[Turning] | None = None,
) -> StateTerms:
    """Compute bias force, vectors of the mass matrix, and terms for their derivatives.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        gravity: Gravitational acceleration, world axes [m/s^2].
        external: External wrench on each body, in its plan frame [N m, N]; none by default.
        turning: Change of these forces with rotation of their bodies, in body axes; by default they
            are fixed in their bodies.
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
            # the predecessor frame of the joint is driven
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

    still = Motion.zero()
    world = _Moving(
        None, still, base_acceleration(gravity), still, still, (), (), (), (), Composite.zero()
    )
    outside = [Force.zero() for _ in plan.bodies] if external is None else external
    turns = [no_turning() for _ in plan.bodies] if turning is None else turning
    moving = outward(plan, motion, world, outside, turns, lanes=True)
    kept = inward(plan, compose, [visit.alone for visit in moving], moving, lanes=True)
    S = components([tuple(s) for visit in moving for s in visit.S], 6)
    inertial = components([tuple(f) for visit in kept for f in visit[1]], 6)
    bias = by_velocity(plan, [visit[2] for visit in kept])
    return StateTerms(bias, S, inertial, moving, tuple(visit[0] for visit in kept))


class _Accelerating(NamedTuple):
    """Contributions of joint accelerations."""

    acc: Motion
    F: Force
    Pdd: tuple[Motion, ...]
    Z: tuple[Motion, ...]
    """Sd + Pd: change of acceleration of the subtree per unit change of velocity."""


class _Column(NamedTuple):
    """Forces of one joint axis, for all ancestors."""

    by_q: Force
    """Change of FC with a unit step."""

    by_v: Force
    """Change of FC with a unit change of velocity."""

    inertial: Force
    """IC s."""

    turned: tuple[Scalar, ...]
    """BC^T s: a couple for rigid bodies, six scalars with `LocalForce`."""

    leaning: tuple[Scalar, ...]
    """Contribution of forces that do not rotate with their bodies; KC^T s, six scalars, with
    `LocalForce`."""

    def opposite(self) -> "_Column":
        """Return all with opposite sign."""
        turned, leaning = (tuple(-x for x in part) for part in (self.turned, self.leaning))
        return _Column(-self.by_q, -self.by_v, -self.inertial, turned, leaning)


class ForceVectors(NamedTuple):
    """Joint forces, and the vectors whose products are their derivatives."""

    tau: tuple[Scalar, ...]
    """Joint force [N or N m], nv scalars."""

    S: Vectors
    Pd: Vectors
    Pdd: Vectors
    Z: Vectors
    by_q: Vectors
    by_v: Vectors
    inertial: Vectors
    turned: Vectors
    leaning: Vectors
    """From S on, vectors of all axes, as in `_Moving`, `_Accelerating` and `_Column`."""

    bent: tuple[Rows, ...]
    """For each body, the change of its joint forces due to dS/dq: one row per axis that moves, one
    column per force."""


def force_vectors(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    terms: StateTerms,
    *,
    opposite: bool = False,
    local: LocalForces | None = None,
) -> ForceVectors:
    """Compute the vectors whose products are the derivatives of inverse dynamics.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        terms: From `state_terms`, of the same state.
        opposite: Whether derivatives have opposite sign, which costs less than negating them.
        local: Forces of bodies beyond their rigid part, as functions of poses, velocities and
            accelerations; none by default.
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
        beyond: LocalForce | None,
    ) -> tuple[tuple[tuple[_Column, ...], tuple[Scalar, ...], Rows], Force]:
        I, B, F = total.I, total.B, total.F + added
        if beyond is not None:
            F = F + beyond.F
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
        if beyond is not None:
            parts = zip(columns, moving.S, moving.Pd, accelerating.Pdd, accelerating.Z, strict=True)
            columns = tuple(_with_local(beyond, *part) for part in parts)
        if opposite:
            # each product holds exactly one of these
            columns = tuple(column.opposite() for column in columns)
        # contribution of dS/dq
        bent = tuple(
            tuple(place.motion(ds).dot(F) for ds in body.joint.subspace_rate(q[body.q], unit))
            for unit in _units(moving.S)
        )
        if opposite:
            bent = tuple(tuple(-x for x in row) for row in bent)
        tau = tuple(s.dot(F) for s in moving.S)
        tau = with_armature_force(body, tau, vd)
        return (columns, tau, bent), added

    moving, composites = terms.moving, terms.composites
    places = [visit.place for visit in moving]
    still = _Accelerating(Motion.zero(), Force.zero(), (), ())
    alone = [visit.alone for visit in moving]
    accelerating = outward(plan, accelerate, still, moving, alone, places, lanes=True)
    added = [visit.F for visit in accelerating]
    sums: Sequence[LocalForce | None] = (None,) * len(plan.bodies)
    if local is not None:
        accelerations = [a.acc + b.acc for a, b in zip(moving, accelerating, strict=True)]
        sums = _summed(plan, local(places, [visit.vel for visit in moving], accelerations))
    kept = inward(plan, compose, added, moving, places, composites, accelerating, sums, lanes=True)
    columns = [column for visit in kept for column in visit[0]]

    def motions(parts: Sequence[tuple[Motion, ...]]) -> Vectors:
        return components([tuple(m) for part in parts for m in part], 6)

    return ForceVectors(
        tau=by_velocity(plan, [visit[1] for visit in kept]),
        S=terms.S,
        Pd=motions([visit.Pd for visit in moving]),
        Pdd=motions([visit.Pdd for visit in accelerating]),
        Z=motions([visit.Z for visit in accelerating]),
        by_q=components([tuple(x.by_q) for x in columns], 6),
        by_v=components([tuple(x.by_v) for x in columns], 6),
        inertial=components([tuple(x.inertial) for x in columns], 6),
        turned=components([x.turned for x in columns], 3 if local is None else 6),
        leaning=components([x.leaning for x in columns], 3 if local is None else 6),
        bent=tuple(visit[2] for visit in kept),
    )


def _summed(plan: Plan, local: Sequence[LocalForce]) -> tuple[LocalForce, ...]:
    """Sum the local forces of each subtree."""

    def add_up(body: PlanBody, total: LocalForce) -> tuple[LocalForce, LocalForce]:
        return total, total

    return inward(plan, add_up, local)


def _with_local(
    beyond: LocalForce, column: _Column, s: Motion, Pd: Motion, Pdd: Motion, Z: Motion
) -> _Column:
    """Return the forces of one axis with those of local forces."""
    A, B, K = beyond.A, beyond.B, beyond.K
    return _Column(
        column.by_q + A.apply(Pdd) + B.apply(Pd) + K.apply(s),
        column.by_v + A.apply(Z) + B.apply(s),
        column.inertial + A.apply(s),
        _sum_of_rows(column.turned, B.apply_transpose(s)),
        _sum_of_rows(column.leaning, K.apply_transpose(s)),
    )


def _sum_of_rows(short: Scalars, long: Scalars) -> tuple[Scalar, ...]:
    """Return the sum of two rows, the shorter one padded with zeros."""
    count = len(short)
    return (*(a + b for a, b in zip(short, long[:count], strict=True)), *long[count:])


def force_matrices(plan: Plan, of: ForceVectors) -> tuple[list[Scalar], list[Scalar]]:
    """Compute the derivatives of inverse dynamics from products of vectors of all pairs of axes.

    Singh, Russo and Wensing 2022, eqs. 21-24, for joints of any kind; O(pairs of a body and an
    ancestor).

    Args:
        plan: Layout of the model.
        of: From `force_vectors`.

    Returns:
        Derivatives of the joint forces with respect to configuration (tangent vectors) and
        velocity, nv times nv scalars each, row by row.
    """
    n = plan.nv
    # couples meet the angular part, the first half, of a motion
    by_q = joint_matrix(
        plan,
        above=[(of.S, of.by_q)],
        below=[(of.inertial, of.Pdd), (of.turned, of.Pd), (of.leaning, of.S)],
        own_block=BELOW,
    )
    by_v = joint_matrix(
        plan,
        above=[(of.S, of.by_v)],
        below=[(of.inertial, of.Z), (of.turned, of.S)],
        own_block=BELOW,
    )
    for body, bent in zip(plan.bodies, of.bent, strict=True):
        for k, changes in enumerate(bent, start=body.v.start):
            for j, change in enumerate(changes, start=body.v.start):
                by_q[j * n + k] = by_q[j * n + k] + change
    return by_q, by_v


def _units(S: Sequence[Motion]) -> list[tuple[float, ...]]:
    """Return unit vectors, one per joint axis."""
    return [tuple(float(i == k) for i in range(len(S))) for k in range(len(S))]


def _sum(columns: Sequence[Motion], weights: Scalars) -> Motion:
    """Return the sum of columns times weights."""
    total = Motion.zero()
    for column, weight in zip(columns, weights, strict=True):
        total = total + column * weight
    return total
