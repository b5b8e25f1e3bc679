"""Momentum and center of mass of the robot.

Symbols (Featherstone 1987, chapters 3 and 5):
    X       motion transform from the parent's frame to the body's
    S       motion subspace of a joint, its columns in body coordinates
    IC      inertia of a subtree as one rigid body
    R, p    axes and origin of a body in the world
    m, h    mass and first mass moment of a body; h also a momentum [moment; linear], world axes
    c       center of mass of all moving bodies, in the world
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tiburon.algorithms.energy import motions_in_water
from tiburon.algorithms.kinematics import WORLD_PLACE, Place, body_places, world_from_robot
from tiburon.algorithms.traversal import inward, joint_transforms, outward, path
from tiburon.errors import ModelError
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import (
    ArticulatedInertia,
    Force,
    Motion,
    RigidInertia,
    Scalar,
    Scalars,
    Transform,
    Vec3,
)
from tiburon.spatial.vec3 import (
    ZERO3,
    add,
    add_cross,
    add_matrix_vector,
    cross,
    matrix_vector,
    scale,
)

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import Link, WaterAround

AnyInertia = RigidInertia | ArticulatedInertia


class _Moving(NamedTuple):
    X: Transform
    vel: Motion
    h: Force


def total_momentum(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    water: "WaterAround | None" = None,
    world: Place = WORLD_PLACE,
) -> Force:
    """Compute the total momentum, the sum of I vel (Featherstone 1987, eq. 3.2).

    Added mass adds I^A times the velocity relative to the water (Lamb 1932, art. 119).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        water: The water around the robot; none by default.
        world: The world in which positions are; its own origin by default.

    Returns:
        Momentum about the origin of `world`, world axes [kg m^2/s, kg m/s].
    """
    drifts, links = motions_in_water(plan, q, v, water)

    def motion(
        body: PlanBody, parent: _Moving, drifts: tuple[Motion, ...], link: "Link"
    ) -> _Moving:
        X = body.transform(q[body.q])
        vel = X.motion(parent.vel) + body.joint.velocity(q[body.q], v[body.v])
        h = body.inertia.apply(vel)
        for drift, part in zip(drifts, link, strict=True):
            h = h + part.added.apply(drift)
        return _Moving(X, vel, h)

    def collect(body: PlanBody, h: Force, moving: _Moving) -> tuple[Force, Force]:
        return h, moving.X.force_to_parent(h)

    at_rest = _Moving(Transform.identity(), Motion.zero(), Force.zero())
    moving = outward(plan, motion, at_rest, drifts, links)
    kept = inward(plan, collect, [visit.h for visit in moving], moving)
    total = Force.zero()
    for body, bearer in zip(plan.bodies, bearers(plan), strict=True):
        if body.parent == WORLD_BODY:
            place = world
            for index in reversed(path(plan, bearer)):
                place = place.moved(moving[index].X)
            total = total + _in_world(kept[bearer], place)
    return total


def bearers(plan: Plan) -> list[int]:
    """Return for each body the first one from it outward that has inertia or several children.

    Momenta of both are the same, but about origins that may be far apart: x, y and z slides
    without mass place a vehicle anywhere.
    """
    found = list(range(len(plan.bodies)))
    for body in reversed(plan.bodies):
        # traced values are parameters
        bare = all(isinstance(x, float) and x == 0.0 for x in body.inertia)
        if bare and body.added is None and len(body.children) == 1:
            found[body.index] = found[body.children[0]]
    return found


def momentum_columns(
    plan: Plan,
    q: Scalars,
    inertias: Sequence[AnyInertia],
    *,
    centroidal: bool = False,
) -> tuple[tuple[Force, ...], Scalar]:
    """Compute the momentum matrix by columns IC S, and the mass of the robot.

    IC is the composite inertia of the subtree (Featherstone 1987, eq. 5.7).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        inertias: Inertia of each plan body, with or without added mass.
        centroidal: Whether moments are about the center of mass, instead of the world's origin.
            Water has no part in it.

    Returns:
        One momentum per velocity variable, world axes, and the mass of all moving bodies [kg].
    """
    X = joint_transforms(plan, q)
    bare = {i: k for i, k in enumerate(bearers(plan)) if i != k} if centroidal else {}

    def compose(
        body: PlanBody, IC: AnyInertia, X: Transform
    ) -> tuple[tuple[tuple[Force, ...], AnyInertia | None], AnyInertia]:
        h = tuple(IC.apply(S) for S in body.joint.subspace(q[body.q]))
        return (h, IC if bare else None), X.inertia_to_parent(IC)

    composed = inward(plan, compose, inertias, X)
    world = world_from_robot(plan, q) if centroidal else WORLD_PLACE
    movable = bool(plan.bodies) or centroidal
    mass, c = mass_point(plan, q, world) if movable else MassPoint(0.0, ZERO3)
    point = c if centroidal else ZERO3

    def express(
        body: PlanBody, _: object, momenta: tuple[Force, ...], place: Place
    ) -> tuple[Force, ...]:
        return tuple(about(_in_world(h, place), point) for h in momenta)

    columns: list[Force] = [Force.zero()] * plan.nv
    nothing: tuple[Force, ...] = ()
    places = body_places(plan, q, world=world)
    expressed = list(outward(plan, express, nothing, [h for h, _ in composed], places))
    for index, bearer in bare.items():
        body, IC = plan.bodies[index], composed[bearer][1]
        assert IC is not None
        S = body.joint.subspace(q[body.q])
        for k in reversed(path(plan, bearer)[: -len(path(plan, index))]):
            S = tuple(X[k].motion(s) for s in S)
        expressed[index] = express(body, None, tuple(IC.apply(s) for s in S), places[bearer])
    for body, momenta in zip(plan.bodies, expressed, strict=True):
        for index, h in enumerate(momenta, start=body.v.start):
            # a sum, since coupled joints share the variable of their leader
            columns[index] = columns[index] + h
    return tuple(columns), mass


def about(h: Force, point: tuple[Scalar, Scalar, Scalar]) -> Force:
    """Return a momentum about a point instead of the origin [m], same axes."""
    return Force(add_cross(h.moment, h.force, point), h.force)


def _in_world(h: Force, place: Place) -> Force:
    """Return a momentum given in a body's frame about the world's origin, in world axes."""
    f = matrix_vector(place.R, h.force)
    x, y, z = matrix_vector(place.R, h.moment)
    a, b, c = cross(place.p, f)
    return Force((x + a, y + b, z + c), f)


class MassPoint(NamedTuple):
    """All moving mass as one point."""

    mass: Scalar
    """Mass of all bodies that move [kg]."""

    c: Vec3
    """Their center of mass, world axes [m]."""


def mass_point(plan: Plan, q: Scalars, world: Place = WORLD_PLACE) -> MassPoint:
    """Compute mass and center of mass of all moving bodies: sum of m p + R h over sum of m.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        world: The world in which positions are; its own origin by default.

    Raises:
        ModelError: If the model has no moving bodies.
    """

    def moment(body: PlanBody, _: Vec3, place: Place) -> Vec3:
        return add_matrix_vector(scale(place.p, body.inertia.mass), place.R, body.inertia.h)

    if not plan.bodies:
        raise ModelError(
            f"model {plan.name!r}: expected bodies that move, got none; bodies fixed to the world "
            "do not count in the center of mass"
        )
    mass: Scalar = 0.0
    total = ZERO3
    for body, h in zip(
        plan.bodies, outward(plan, moment, ZERO3, body_places(plan, q, world=world)), strict=True
    ):
        mass = mass + body.inertia.mass
        total = add(total, h)
    x, y, z = total
    return MassPoint(mass, (x / mass, y / mass, z / mass))


def mass_velocity(plan: Plan, q: Scalars, v: Scalars, mass: Scalar) -> Vec3:
    """Compute the velocity of the center of mass, world axes [m/s]: linear momentum over mass."""
    x, y, z = total_momentum(plan, q, v).force
    return (x / mass, y / mass, z / mass)
