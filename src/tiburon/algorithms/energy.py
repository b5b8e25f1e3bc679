"""Kinetic and potential energy.

Symbols:
    X       motion transform from the parent's frame to the body's
    vel     spatial velocity of a body
    R, p    axes and origin of a body in the world
    m, h    mass and first mass moment of a body
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.traversal import outward
from tiburon.model import Plan, PlanBody
from tiburon.spatial import Motion, Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import scale, subtract

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import Link, WaterAround


class _Moving(NamedTuple):
    """Velocity of a body, and twice its kinetic energy."""

    vel: Motion
    twice: Scalar


def motions_in_water(
    plan: Plan, q: Scalars, v: Scalars, water: "WaterAround | None"
) -> "tuple[Sequence[tuple[Motion, ...]], Sequence[Link]]":
    """Return velocities relative to the water of the wet parts of each body, and these parts."""
    if water is None:
        return ((),) * len(plan.bodies), ((),) * len(plan.bodies)
    from tiburon.algorithms.water.fluid import relative_motions

    return relative_motions(plan, q, v, water), water.links


def kinetic(plan: Plan, q: Scalars, v: Scalars, water: "WaterAround | None" = None) -> Scalar:
    """Compute the kinetic energy, the sum of 1/2 vel . I vel (Featherstone 1987, sec. 3.9).

    Armatures add 1/2 armature v^2. Added mass adds 1/2 vel . I^A vel with velocities relative to
    the water (Newman 1977, sec. 4.14).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        water: The water around the robot; none by default.

    Returns:
        Kinetic energy [J].
    """
    drifts, links = motions_in_water(plan, q, v, water)

    def visit(body: PlanBody, parent: _Moving, drifts: tuple[Motion, ...], link: "Link") -> _Moving:
        vJ = body.joint.velocity(q[body.q], v[body.v])
        vel = body.transform(q[body.q]).motion(parent.vel) + vJ
        twice = vel.dot(body.inertia.apply(vel))
        for drift, part in zip(drifts, link, strict=True):
            twice = twice + drift.dot(part.added.apply(drift))
        for own, rate in zip(body.armature or (), v[body.v], strict=False):
            twice = twice + own * rate * rate
        return _Moving(vel, twice)

    twice: Scalar = 0.0
    for moving in outward(plan, visit, _Moving(Motion.zero(), 0.0), drifts, links):
        twice = twice + moving.twice
    return 0.5 * twice


def potential(plan: Plan, q: Scalars, gravity: Vec3, water: "WaterAround | None" = None) -> Scalar:
    """Compute the potential energy in gravity, zero for mass at the world origin.

    Displaced water has the opposite potential energy, relative to the free surface or, without
    one, to the world origin. Bodies fixed to the world are not included.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        gravity: Gravitational acceleration, world axes [m/s^2].
        water: The water around the robot; none by default.

    Returns:
        Potential energy [J].
    """
    density: Scalar = 0.0 if water is None else water.density

    def lifted(body: PlanBody, _: Scalar, place: Place, link: "Link") -> Scalar:
        m, h = body.inertia.mass, body.inertia.h
        displaced: Scalar = 0.0
        for part in link:
            displaced = displaced + density * part.volume
            h = subtract(h, scale(part.moment, density))
        m = m - displaced
        hx, hy, hz = h
        x, y, z = (
            m * p + row[0] * hx + row[1] * hy + row[2] * hz
            for row, p in zip(place.R, place.p, strict=True)
        )
        if water is not None and water.floating is not None:
            # displaced water rises to the surface
            z = z + displaced * water.floating.surface
        return gravity[0] * x + gravity[1] * y + gravity[2] * z

    # U = -g . (sum of m times the center of mass)
    total: Scalar = 0.0
    links = ((),) * len(plan.bodies) if water is None else water.links
    for share in outward(plan, lifted, 0.0, body_places(plan, q), links):
        total = total - share
    return total
