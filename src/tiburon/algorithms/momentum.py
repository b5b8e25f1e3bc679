"""Momentum and center of mass of the robot.

Symbols (Featherstone 1987, chapters 3 and 5):
    X       map of motion from the parent's frame to the body's
    S       motion sub-space of a joint, its columns in body coordinates
    IC      inertia of a body and all beyond it as one rigid body
    R, p    axes and origin of a body in the world
    m, h    mass and first mass moment of a body; h also a momentum [moment; linear], world axes
    c       center of mass of all moving bodies, in the world
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.sweep import inward, outward
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, RigidInertia, Scalar, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add_cross, cross, matrix_vector

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import Link, WaterAround


from tiburon.errors import ModelError
from tiburon.spatial.vec3 import add, add_matrix_vector, scale

__all__ = ["MassPoint", "about", "mass_point", "momentum_columns", "total_momentum"]


AnyInertia = RigidInertia | ArticulatedInertia


class _Moving(NamedTuple):
    X: Transform
    vel: Motion
    h: Force


class _Composed(NamedTuple):
    h: tuple[Force, ...]
    handed_on: AnyInertia


def total_momentum(
    plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], water: "WaterAround | None" = None
) -> Force:
    """Add up the momenta I vel of all bodies (Featherstone 1987, eq. 3.2).

    Water adds I^A times the velocity relative to it, the impulse that sets it in motion (Lamb 1932,
    art. 119).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        water: The water around the robot; none by default.

    Returns:
        Momentum about the world's origin, world axes [kg m^2/s, kg m/s].
    """
    drifts: Sequence[tuple[Motion, ...]] = ((),) * len(plan.bodies)
    links: Sequence[Link] = ((),) * len(plan.bodies)
    if water is not None:
        from tiburon.algorithms.water.fluid import relative_motions

        drifts, links = relative_motions(plan, q, v, water), water.links

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
        handed_on = moving.X.force_to_parent(h)
        return handed_on, handed_on

    at_rest = _Moving(Transform.identity(), Motion.zero(), Force.zero())
    moving = outward(plan, motion, at_rest, drifts, links)
    kept = inward(plan, collect, [visit.h for visit in moving], moving)
    total = Force.zero()
    for body, handed_on in zip(plan.bodies, kept, strict=True):
        if body.parent == WORLD_BODY:
            total = total + handed_on
    return total


def momentum_columns(
    plan: Plan,
    q: Sequence[Scalar],
    inertias: Sequence[AnyInertia],
    center: Callable[[AnyInertia], Vec3] | None = None,
) -> tuple[tuple[Force, ...], AnyInertia]:
    """Find the momentum per unit of each joint velocity, and the inertia of the frozen robot.

    A joint velocity moves all that lies beyond the joint as one rigid body, whose inertia is that
    of the composite-rigid-body method (Featherstone 1987, eq. 5.7): column = IC S.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        inertias: Inertia of each plan body, alone or with that of water around it.
        center: Finds the point about which moments are taken from the inertia of all bodies, both
            in the world [m]; the world's origin by default.

    Returns:
        One momentum per velocity variable; and the inertia of all moving bodies as one, about the
        world's origin; both in world axes.
    """

    def transform(body: PlanBody, _: object) -> Transform:
        return body.transform(q[body.q])

    def compose(body: PlanBody, IC: AnyInertia, X: Transform) -> tuple[_Composed, AnyInertia]:
        handed_on = X.inertia_to_parent(IC)
        h = tuple(IC.apply(S) for S in body.joint.subspace(q[body.q]))
        return _Composed(h, handed_on), handed_on

    transforms = outward(plan, transform, Transform.identity())
    composed = inward(plan, compose, inertias, transforms)
    total: AnyInertia = RigidInertia.zero()
    for body, part in zip(plan.bodies, composed, strict=True):
        if body.parent == WORLD_BODY:
            total = total + part.handed_on
    point = ZERO3 if center is None else center(total)

    def tell(body: PlanBody, _: object, part: _Composed, place: Place) -> tuple[Force, ...]:
        return tuple(about(_in_world(h, place), point) for h in part.h)

    columns: list[Force] = [Force.zero()] * plan.nv
    nothing: tuple[Force, ...] = ()
    told = outward(plan, tell, nothing, composed, body_places(plan, q))
    for body, momenta in zip(plan.bodies, told, strict=True):
        for index, h in enumerate(momenta, start=body.v.start):
            # a sum, since joints that follow another share its variables
            columns[index] = columns[index] + h
    return tuple(columns), total


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


def mass_point(plan: Plan, q: Sequence[Scalar]) -> MassPoint:
    """Find the center of mass: the sum of m p + R h over the sum of m (Featherstone 1987, 3.2).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.

    Returns:
        Mass and center of all bodies that move.

    Raises:
        ModelError: If nothing moves.
    """

    def moment(body: PlanBody, _: Vec3, place: Place) -> Vec3:
        return add_matrix_vector(scale(place.p, body.inertia.mass), place.R, body.inertia.h)

    if not plan.bodies:
        raise ModelError(
            f"model {plan.name!r}: expected bodies that move, got none; what is fixed to the world "
            "has no part in the center of mass"
        )
    mass: Scalar = 0.0
    total = ZERO3
    for body, h in zip(
        plan.bodies, outward(plan, moment, ZERO3, body_places(plan, q)), strict=True
    ):
        mass = mass + body.inertia.mass
        total = add(total, h)
    x, y, z = total
    return MassPoint(mass, (x / mass, y / mass, z / mass))


def mass_velocity(plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], mass: Scalar) -> Vec3:
    """Return the velocity of the center of mass, world axes [m/s]: linear momentum over mass."""
    x, y, z = total_momentum(plan, q, v).force
    return (x / mass, y / mass, z / mass)
