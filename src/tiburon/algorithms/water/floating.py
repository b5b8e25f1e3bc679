"""Free surface: submerged parts of bodies in one configuration.

Symbols:
    R, p    axes and origin of a link in the world
    I^A     added mass
    Phi     submerged fraction of a body

Buoyancy acts on the submerged part, exactly for spheres, ellipsoids, boxes, cylinders and capsules.
Added mass, lumped drag and lift are those of the whole body times Phi; strips of cylinders have
their own submerged fractions. Slamming (momentum of a changing Phi) and radiated waves are not
modelled.
"""

import math
from dataclasses import replace
from typing import NamedTuple

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.traversal import outward
from tiburon.algorithms.water.fluid import Link, WaterAround, immersions
from tiburon.errors import ModelError
from tiburon.hydro.immersion import added_to, under_surface
from tiburon.hydro.submersion import Hull, hull_of, is_simple
from tiburon.model import Body, Model, Plan, PlanBody
from tiburon.model.body import Shape, SphereShape
from tiburon.model.model import per_model
from tiburon.model.plan import WORLD_BODY
from tiburon.model.pose import Pose
from tiburon.spatial import ArticulatedInertia, Scalar, Scalars

Hulls = tuple[Hull, ...]


class Floating(NamedTuple):
    """Links at a free surface, fully submerged."""

    surface: Scalar
    """Height of the free surface, world axes [m]."""

    links: tuple[Link, ...]
    """Immersion of each plan body when fully submerged, body by body."""

    hulls: tuple[tuple[Hulls, ...], ...]
    """Solids that determine the submerged fraction of each."""

    layout_added: tuple[ArticulatedInertia | None, ...]
    """Added mass of each plan body in the current layout."""


@per_model
def hulls_of(model: Model) -> tuple[tuple[Hulls, ...], ...]:
    """Return the solids of all bodies with hydrodynamic data, by plan body.

    A body is represented by its simple shapes, or by a sphere of its volume.

    Raises:
        ModelError: If such a body has neither simple shapes nor volume.
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
    """Return the strip radii of each plan body [m], which a free surface compiles in."""
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
    """Return links at a free surface.

    Args:
        model: The robot.
        surface: Height of the surface, world axes [m].
        links: Immersion of each plan body.
        added: Added mass of each.
    """
    return Floating(surface, links, hulls_of(model), added)


def afloat(plan: Plan, q: Scalars, water: WaterAround) -> tuple[Plan, WaterAround]:
    """Return layout and water in a configuration, with submerged parts only.

    Args:
        plan: Layout of the model, with the added mass of `water`.
        q: Configuration [m or rad], nq scalars.
        water: Water with a free surface.
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
    for body, new, before in zip(plan.bodies, added, floating.layout_added, strict=True):
        if new is not None and before is not None:
            # keep given inertias that were added to it
            own = None if body.added is before or body.added is None else body.added - before
            body = replace(body, added=new if own is None else own + new)
        bodies.append(body)
    around = water._replace(
        links=links, added=added, floating=floating._replace(layout_added=added)
    )
    return replace(plan, bodies=tuple(bodies)), around


def submerged_link(place: Place, link: Link, hulls: tuple[Hulls, ...], surface: Scalar) -> Link:
    """Return the part of a link that is below the surface.

    Args:
        place: Pose of its plan frame in the world.
        link: The whole link.
        hulls: Solids of each part.
        surface: Height of the surface, world axes [m].
    """
    # the last row of R is the upward direction in link axes
    up, depth = place.R[2], surface - place.p[2]
    return tuple(
        under_surface(part, solids, up, depth) for part, solids in zip(link, hulls, strict=True)
    )


def _solids(body: Body) -> tuple[Shape, ...]:
    """Return the simple shapes of a body at a free surface."""
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
