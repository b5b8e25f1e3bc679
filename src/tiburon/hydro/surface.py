"""A link that a level surface cuts: what water meets of it.

Symbols:
    Phi     share of the link that is under water
    n       the upward direction, link axes
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiburon.hydro.hull import TILT, Hull
from tiburon.hydro.immersion import Immersion, PlacedDrag, Waterline
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import ZERO3, add, dot, scale, subtract

__all__ = ["under_surface"]


def under_surface(link: Immersion, hulls: Sequence[Hull], up: Vec3, depth: Scalar) -> Immersion:
    """Return what water meets of a link, as far as it is under a surface.

    Volume and center of buoyancy are those of the part under water; where the link's own numbers
    differ from those of its hulls, they keep the difference. Added mass and lumped drag go with
    Phi, strips with their own shares.

    Args:
        link: All of it under water.
        hulls: Solids that it is made of.
        up: Upward unit vector, link axes.
        depth: Of the link's origin below the surface [m].
    """
    volume = sum(hull.volume for hull in hulls)
    phi: Scalar = 0.0
    moment, middle = ZERO3, ZERO3
    for hull in hulls:
        part, weight = hull.submerged(up, depth), hull.volume / volume
        phi = phi + weight * part.share
        wet = add(scale(hull.center, part.share), part.offset)
        moment = add(moment, scale(wet, weight))
        middle = add(middle, scale(hull.center, weight))
    # what the link's own center of buoyancy is off the middle of its hulls
    beside = subtract(link.moment, scale(middle, link.volume))
    return replace(
        link,
        added=link.added * phi,
        volume=link.volume * phi,
        moment=add(scale(moment, link.volume), scale(beside, phi)),
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
    # the rim of a strip is a circle across the axis; upright ones go under at once, nearly
    b, c = (dot(up, side) for side in sides)  # type: ignore[attr-defined]
    reach = shape.radius * np.sqrt(b * b + c * c + TILT * TILT)
    first = depth - dot(up, start)  # type: ignore[arg-type]
    return replace(shape, waterline=Waterline(first, rise, reach))
