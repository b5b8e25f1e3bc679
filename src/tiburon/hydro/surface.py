"""A link that a level surface cuts: what water meets of it.

Symbols:
    Phi     share of the link that is under water
    n       the upward direction, link axes
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiburon.hydro.immersion import Immersion, PlacedDrag, Waterline
from tiburon.hydro.submersion import Hull
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import ZERO3, add, dot, scale, subtract

__all__ = ["under_surface"]

TILT = 2e-3
"""Least height of the rim of a strip, by its radius: upright cylinders go under at once, nearly."""


def under_surface(link: Immersion, hulls: Sequence[Hull], up: Vec3, depth: Scalar) -> Immersion:
    """Return what water meets of a link, as far as it is under a surface.

    Volume and center of buoyancy are those of the part under water. The hulls are scaled to the
    volume of the link and moved so that their middle is its center of buoyancy: they stay a solid,
    and buoyancy stays the gradient of an energy. Added mass and lumped drag go with Phi, strips
    with their own shares.

    Args:
        link: All of it under water.
        hulls: Solids that it is made of.
        up: Upward unit vector, link axes.
        depth: Of the link's origin below the surface [m].
    """
    volume = sum(hull.volume for hull in hulls)
    weights = [hull.volume / volume for hull in hulls]
    middle = ZERO3
    for hull, weight in zip(hulls, weights, strict=True):
        middle = add(middle, scale(hull.center, weight))
    # a link that displaces nothing has no center of buoyancy, and leaves its hulls where they are
    displaced = link.volume
    moved = subtract(link.moment, scale(middle, displaced))
    moved = scale(moved, 1.0 / np.where(displaced > 0.0, displaced, 1.0))
    phi: Scalar = 0.0
    moment = ZERO3
    for hull, weight in zip(hulls, weights, strict=True):
        center = add(hull.center, moved)
        part = replace(hull, center=center).submerged(up, depth)
        phi = phi + weight * part.share
        moment = add(moment, scale(add(scale(center, part.share), part.offset), weight))
    return replace(
        link,
        added=link.added * phi,
        volume=displaced * phi,
        moment=scale(moment, displaced),
        shapes=tuple(_cut(shape, phi, up, depth) for shape in link.shapes),
        dampings=tuple(damping.scaled(phi) for damping in link.dampings),
        fins=tuple(replace(fin, numbers=tuple(phi * x for x in fin.numbers)) for fin in link.fins),
    )


def _cut(shape: PlacedDrag, phi: Scalar, up: Vec3, depth: Scalar) -> PlacedDrag:
    """Return a shape of drag as far as it is under water."""
    if shape.kind != "cylinder":
        return replace(shape, numbers=tuple(phi * x for x in shape.numbers))
    axis, sides, start, *_ = shape.geometry
    rise = dot(up, axis)  # type: ignore[arg-type]
    # the rim of a strip is a circle across the axis
    b, c = (dot(up, side) for side in sides)  # type: ignore[attr-defined]
    reach = shape.radius * np.sqrt(b * b + c * c + TILT * TILT)
    first = depth - dot(up, start)  # type: ignore[arg-type]
    return replace(shape, waterline=Waterline(first, rise, reach))
