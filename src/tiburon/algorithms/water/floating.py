"""A surface of the water: what of each body is under it, in one position of a robot.

Symbols:
    R, p    axes and origin of a link in the world
    I^A     added mass
    Phi     share of a body that is under water

Buoyancy acts on the part under water, exactly for balls, ellipsoids, boxes, cylinders and capsules.
Added mass, lumped drag and lift are those of the whole body times Phi; strips of cylinders count by
their own shares. What a changing Phi adds to the momentum of the water (slamming), and the waves a
body makes, are left out.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.sweep import outward
from tiburon.algorithms.water.fluid import Link, WaterAround, immersions
from tiburon.errors import ModelError
from tiburon.hydro.immersion import added_to, under_surface
from tiburon.hydro.submersion import Hull, hull_of, is_simple
from tiburon.model import Body, Model, Plan, PlanBody
from tiburon.model.body import Shape, SphereShape
from tiburon.model.model import per_model
from tiburon.model.plan import WORLD_BODY
from tiburon.model.pose import Pose
from tiburon.spatial import ArticulatedInertia, Scalar

__all__ = ["Floating", "afloat", "floating_links", "hulls_of", "radii_of", "submerged_link"]

Hulls = tuple[Hull, ...]


class Floating(NamedTuple):
    """Links at a surface: what they are when all of them is under water."""

    surface: Scalar
    """Its height, world axes [m]."""

    links: tuple[Link, ...]
    """What water meets of each plan body when it is all under water: its bodies one by one."""

    hulls: tuple[tuple[Hulls, ...], ...]
    """Solids that tell how much of each of them is under water."""

    felt: tuple[ArticulatedInertia | None, ...]
    """The added mass that the layout at hand holds for each plan body."""


@per_model
def hulls_of(model: Model) -> tuple[tuple[Hulls, ...], ...]:
    """Return the solids of all bodies that water meets, by plan body.

    A body is as its shapes are, where these are simple; else as a ball of its volume.

    Raises:
        ModelError: If a body that water meets has neither simple shapes nor volume.
    """
    plan = model.plan
    found: list[list[Hulls]] = [[] for _ in plan.bodies]
    for body in model.bodies:
        frame = plan.frame(body.name)
        if body.fluid is not None and frame.body != WORLD_BODY:
            hulls = [hull_of(shape, frame.transform) for shape in _solids(body)]
            found[frame.body].append(tuple(hull for hull in hulls if hull is not None))
    return tuple(map(tuple, found))


def radii_of(model: Model) -> tuple[tuple[float, ...], ...]:
    """Return how far the strips of each plan body reach [m]; a surface compiles them in."""
    return tuple(
        tuple(shape.radius for part in link for shape in part.shapes)
        for link in immersions(model, True)
    )


def floating_links(
    model: Model,
    surface: Scalar,
    links: tuple[Link, ...],
    added: tuple[ArticulatedInertia | None, ...],
) -> Floating:
    """Return links ready to be cut by a surface.

    Args:
        model: The robot.
        surface: Height of the surface, world axes [m].
        links: What water meets of each plan body.
        added: The added mass of each.
    """
    return Floating(surface, links, hulls_of(model), added)


def afloat(plan: Plan, q: Sequence[Scalar], water: WaterAround) -> tuple[Plan, WaterAround]:
    """Return layout and water in a position, with what is above the surface left out.

    Args:
        plan: Layout of the model, its bodies with the added mass that `water` says they hold.
        q: Position [m or rad], nq scalars.
        water: With a surface.
    """
    floating = water.floating
    assert floating is not None
    surface = floating.surface

    def wet(body: PlanBody, _: Link, place: Place, link: Link, hulls: tuple[Hulls, ...]) -> Link:
        return submerged_link(place, link, hulls, surface)

    none: Link = ()
    links = outward(plan, wet, none, body_places(plan, q), floating.links, floating.hulls)
    added = tuple(map(added_to, links))
    bodies = []
    for body, felt, before in zip(plan.bodies, added, floating.felt, strict=True):
        if felt is not None and before is not None:
            # forces of the user's own that go with acceleration may have joined it
            own = None if body.added is before or body.added is None else body.added - before
            body = replace(body, added=felt if own is None else own + felt)
        bodies.append(body)
    around = water._replace(links=links, added=added, floating=floating._replace(felt=added))
    return replace(plan, bodies=tuple(bodies)), around


def submerged_link(place: Place, link: Link, hulls: tuple[Hulls, ...], surface: Scalar) -> Link:
    """Return the part of a link that is below the surface.

    Args:
        place: Pose of its plan frame in the world.
        link: The whole link.
        hulls: Solids of each part.
        surface: Height of the surface, world axes [m].
    """
    # the last row of R is the upward direction, seen from the link
    up, depth = place.R[2], surface - place.p[2]
    return tuple(
        under_surface(part, solids, up, depth) for part, solids in zip(link, hulls, strict=True)
    )


def _solids(body: Body) -> tuple[Shape, ...]:
    """Return simple shapes that stand for a body at a surface."""
    solid = tuple(shape for shape in body.shapes if shape.role != "visual") or body.shapes
    simple = tuple(shape for shape in solid if is_simple(shape))
    if simple:
        return simple
    fluid = body.fluid
    assert fluid is not None
    if fluid.volume <= 0.0:
        raise ModelError(
            f"body {body.name!r}: expected simple shapes or a volume in water with a surface, got "
            "neither; give it shapes=(...) or BodyFluid(volume=...)",
            name=body.name,
        )
    radius = (fluid.volume * 0.75 / math.pi) ** (1.0 / 3.0)
    return (Shape(SphereShape(radius), Pose(translation=fluid.center_of_buoyancy)),)
