"""Inverse dynamics as a matrix times the inertial parameters.

Symbols (Featherstone 1987, chapter 4):
    X       map of motion from the parent's frame to the body's
    vel, acc    spatial velocity and acceleration of a body
    f       force that a body with one unit parameter, and no other, needs
    Y       regressor, tau = Y phi
    phi     ten numbers per body: mass, first moment, rotational inertia about the body's origin
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
from tiburon.algorithms.sweep import each, outward, to_root
from tiburon.algorithms.tape_calls import JointVector
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import INERTIAL_PARAMETERS, WORLD_BODY
from tiburon.spatial import (
    Force,
    Motion,
    RigidInertia,
    Scalar,
    Transform,
    Vec3,
    rate_matrix,
    spatial_to_classical,
)

__all__ = ["regressor_rows"]

_UNITS = tuple(
    RigidInertia.from_array(
        [1.0 if place == number else 0.0 for place in range(len(INERTIAL_PARAMETERS))]
    )
    for number in range(len(INERTIAL_PARAMETERS))
)
"""Inertias with one number 1 and the others 0: dynamics is linear, so they need not be possible."""

Forces = tuple[Force, ...]


class _Moving(NamedTuple):
    """What the outward pass knows of a body."""

    X: Transform
    place: Place | None
    """None for the world."""

    vel: Motion
    acc: Motion


def regressor_rows(
    plan: Plan,
    bodies: Sequence[str],
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar],
    gravity: Vec3,
) -> tuple[tuple[Scalar, ...], ...]:
    """Compute the regressor of inverse dynamics.

    The force a body needs, I a + v x* I v (Featherstone 1987, eq. 4.13), is linear in the ten
    numbers of I. Each unit number is sent through the recursion alone.

    Args:
        plan: Layout of the model.
        bodies: Names of the user's bodies, in the order of the columns.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].

    Returns:
        nv rows of ten columns per body.
    """
    if not has_few_pairs(plan):
        S, loads = _vectors(plan, bodies, q, v, vd, gravity)
        entries = load_matrix(plan, S, loads, [plan.frame(name).body for name in bodies])
        columns = len(INERTIAL_PARAMETERS) * len(bodies)
        return tuple(tuple(entries[i : i + columns]) for i in range(0, len(entries), columns))
    return _by_pairs(plan, bodies, q, _motions(plan, q, v, vd, gravity))


def _motions(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar],
    gravity: Vec3,
) -> tuple[_Moving, ...]:
    """Find the motion of every body, the world accelerating against gravity."""

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
    """Return the forces on a link that unit numbers of one of its bodies need.

    Args:
        to_body: Map of motion from the link's frame to the body's.
        vel: Velocity of the link, in its frame.
        acc: Its acceleration.
    """
    vel, acc = to_body.motion(vel), to_body.motion(acc)
    a = spatial_to_classical(acc, vel)
    Omega = rate_matrix(vel.angular, a.angular)
    return tuple(to_body.force_to_parent(unit.rate_of_momentum(Omega, a.linear)) for unit in _UNITS)


def _by_pairs(
    plan: Plan, bodies: Sequence[str], q: Sequence[Scalar], moving: Sequence[_Moving]
) -> tuple[tuple[Scalar, ...], ...]:
    """Carry the forces on each body to the root, felt by all joints on the way."""

    def transmit(
        body: PlanBody, f: Forces, moving: _Moving
    ) -> tuple[list[tuple[Scalar, ...]], Forces]:
        felt = [body.joint.project(q[body.q], one) for one in f]
        return felt, tuple(moving.X.force_to_parent(one) for one in f)

    width = len(INERTIAL_PARAMETERS)
    Y: list[list[Scalar]] = [[0.0] * (width * len(bodies)) for _ in range(plan.nv)]
    for number, name in enumerate(bodies):
        place = plan.frame(name)
        if place.body == WORLD_BODY:
            # what is fixed to the world loads no joint
            continue
        carrier = moving[place.body]
        f = _unit_forces(place.transform, carrier.vel, carrier.acc)
        for ancestor, felt in to_root(plan, plan.bodies[place.body], transmit, f, moving):
            for column, entries in enumerate(felt, start=width * number):
                for row, entry in enumerate(entries, start=ancestor.v.start):
                    # a sum, since joints that follow another share its variables
                    Y[row][column] = Y[row][column] + entry
    return tuple(tuple(row) for row in Y)


def _vectors(
    plan: Plan,
    bodies: Sequence[str],
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar],
    gravity: Vec3,
) -> tuple[Vectors, Vectors]:
    """Return axes and unit forces in the frame of the first body of each tree."""
    frames = [plan.frame(name) for name in bodies]
    loaded = [number for number, frame in enumerate(frames) if frame.body != WORLD_BODY]

    @before_products(plan)
    def vectors(*state: Sequence[Scalar]) -> tuple[Vectors, Vectors]:
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
        carriers = [moving[frames[number].body] for number in loaded]
        found = each(
            plan,
            loads,
            [frames[number].body for number in loaded],
            [frames[number].transform for number in loaded],
            [carrier.place for carrier in carriers],
            [carrier.vel for carrier in carriers],
            [carrier.acc for carrier in carriers],
        )
        nothing = [(0.0,) * 6] * len(INERTIAL_PARAMETERS)
        felt = dict(zip(loaded, found, strict=True))
        columns = [f for number in range(len(bodies)) for f in felt.get(number, nothing)]
        return components([s for own in S for s in own], 6), components(columns, 6)

    S, columns = vectors(list(q), list(v), list(vd))
    return S, columns
