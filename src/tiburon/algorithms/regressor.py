"""Regressor of inverse dynamics: tau = Y phi.

Symbols (Featherstone 1987, chapter 4):
    X       motion transform from the parent's frame to the body's
    vel, acc    spatial velocity and acceleration of a body
    f       force required by a body with one unit parameter, all others zero
    Y       regressor, tau = Y phi
    phi     ten parameters per body: mass, first moment, rotational inertia about the body origin
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.pair_products import (
    Vectors,
    before_products,
    components,
    has_few_pairs,
    load_matrix,
)
from tiburon.algorithms.rnea import base_acceleration
from tiburon.algorithms.root_frame import Place
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import each, outward, to_root
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import INERTIAL_PARAMETERS, WORLD_BODY
from tiburon.spatial import (
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

_UNITS = tuple(
    RigidInertia.from_array([1.0 if i == k else 0.0 for i in range(len(INERTIAL_PARAMETERS))])
    for k in range(len(INERTIAL_PARAMETERS))
)
"""Inertias with one unit parameter; inverse dynamics is linear in the parameters."""

Forces = tuple[Force, ...]


class _Moving(NamedTuple):
    """Results of the outward pass for a body."""

    X: Transform
    place: Place | None
    """None for the world."""

    vel: Motion
    acc: Motion


def regressor_rows(
    plan: Plan, bodies: Sequence[str], q: Scalars, v: Scalars, vd: Scalars, gravity: Vec3
) -> tuple[tuple[Scalar, ...], ...]:
    """Compute the regressor of inverse dynamics.

    The force of a body, I a + v x* I v (Featherstone 1987, eq. 4.13), is linear in the ten
    parameters of I.

    Args:
        plan: Layout of the model.
        bodies: Names of the user's bodies, in the order of the columns.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        gravity: Gravitational acceleration, world axes [m/s^2].

    Returns:
        nv rows of ten columns per body.
    """
    if not has_few_pairs(plan):
        S, loads = _vectors(plan, bodies, q, v, vd, gravity)
        entries = load_matrix(plan, S, loads, [plan.frame(name).body for name in bodies])
        columns = len(INERTIAL_PARAMETERS) * len(bodies)
        return tuple(tuple(entries[i : i + columns]) for i in range(0, len(entries), columns))
    return _by_pairs(plan, bodies, q, _motions(plan, q, v, vd, gravity))


def _motions(plan: Plan, q: Scalars, v: Scalars, vd: Scalars, gravity: Vec3) -> tuple[_Moving, ...]:
    """Compute the motion of every body, with gravity as acceleration of the base."""

    def motion(body: PlanBody, parent: _Moving) -> _Moving:
        position, rate = q[body.q], v[body.v]
        X = body.transform(position)
        vJ = body.joint.velocity(position, rate)
        vel = X.motion(parent.vel) + vJ
        c = vel.cross(vJ) + body.joint.bias(position, rate)
        acc = X.motion(parent.acc) + body.joint.motion(position, vd[body.v]) + c
        place = Place.first() if parent.place is None else parent.place.beyond(X)
        return _Moving(X, place, vel, acc)

    world = _Moving(Transform.identity(), None, Motion.zero(), base_acceleration(gravity))
    return outward(plan, motion, world)


def _unit_forces(to_body: Transform, vel: Motion, acc: Motion) -> Forces:
    """Compute the forces of unit parameters of a body of a link, in the link's frame.

    Args:
        to_body: Motion transform from the link's frame to the body's.
        vel: Velocity of the link, in its frame.
        acc: Its acceleration.
    """
    vel, acc = to_body.motion(vel), to_body.motion(acc)
    a = spatial_to_classical(acc, vel)
    Omega = rate_matrix(vel.angular, a.angular)
    return tuple(to_body.force_to_parent(unit.rate_of_momentum(Omega, a.linear)) for unit in _UNITS)


def _by_pairs(
    plan: Plan, bodies: Sequence[str], q: Scalars, moving: Sequence[_Moving]
) -> tuple[tuple[Scalar, ...], ...]:
    """Propagate the forces on each body to the root, projecting them on all joints."""

    def transmit(
        body: PlanBody, f: Forces, moving: _Moving
    ) -> tuple[list[tuple[Scalar, ...]], Forces]:
        projected = [body.joint.project(q[body.q], one) for one in f]
        return projected, tuple(moving.X.force_to_parent(one) for one in f)

    width = len(INERTIAL_PARAMETERS)
    Y: list[list[Scalar]] = [[0.0] * (width * len(bodies)) for _ in range(plan.nv)]
    for index, name in enumerate(bodies):
        place = plan.frame(name)
        if place.body == WORLD_BODY:
            # bodies fixed to the world load no joint
            continue
        carrier = moving[place.body]
        f = _unit_forces(place.transform, carrier.vel, carrier.acc)
        for ancestor, projected in to_root(plan, plan.bodies[place.body], transmit, f, moving):
            for column, entries in enumerate(projected, start=width * index):
                for row, entry in enumerate(entries, start=ancestor.v.start):
                    # a sum, since coupled joints share the variable of their leader
                    Y[row][column] = Y[row][column] + entry
    return tuple(tuple(row) for row in Y)


def _vectors(
    plan: Plan, bodies: Sequence[str], q: Scalars, v: Scalars, vd: Scalars, gravity: Vec3
) -> tuple[Vectors, Vectors]:
    """Compute joint axes and unit forces in the frame of the first body of each tree."""
    frames = [plan.frame(name) for name in bodies]
    loaded = [index for index, frame in enumerate(frames) if frame.body != WORLD_BODY]

    @before_products(plan)
    def vectors(*state: Scalars) -> tuple[Vectors, Vectors]:
        position, rate, change = map(JointVector, state)

        def axes(body: PlanBody, place: Place) -> list[tuple[Scalar, ...]]:
            return [tuple(place.motion(s)) for s in body.joint.subspace(position[body.q])]

        def loads(
            body: PlanBody, to_body: Transform, place: Place, vel: Motion, acc: Motion
        ) -> list[tuple[Scalar, ...]]:
            return [tuple(place.force(f)) for f in _unit_forces(to_body, vel, acc)]

        moving = _motions(plan, position, rate, change, gravity)
        places = [visit.place for visit in moving]
        S = each(plan, axes, range(len(plan.bodies)), places)
        carriers = [moving[frames[index].body] for index in loaded]
        found = each(
            plan,
            loads,
            [frames[index].body for index in loaded],
            [frames[index].transform for index in loaded],
            [carrier.place for carrier in carriers],
            [carrier.vel for carrier in carriers],
            [carrier.acc for carrier in carriers],
        )
        nothing = [(0.0,) * 6] * len(INERTIAL_PARAMETERS)
        by_body = dict(zip(loaded, found, strict=True))
        columns = [f for index in range(len(bodies)) for f in by_body.get(index, nothing)]
        return components([s for own in S for s in own], 6), components(columns, 6)

    S, columns = vectors(list(q), list(v), list(vd))
    return S, columns
