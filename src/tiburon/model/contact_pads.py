"""Pads: feet, fingertips and discs as contact points (Featherstone 1987, L2786-2790)."""

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from tiburon.argument_checks import at_least
from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError, ShapeError
from tiburon.model.body import ContactPoint
from tiburon.model.contact_kinds import ContactMaterial, disc_points, edge_points, hull_corners
from tiburon.model.pose import Pose
from tiburon.model.value_checks import finite_array


@public
def contact_pad(
    name: str,
    body: str,
    outline: ArrayLike | float,
    *,
    pose: Pose | None = None,
    count: int = 6,
    radius: float = 0.0,
    material: ContactMaterial | None = None,
) -> tuple[ContactPoint, ...]:
    """Build the contact points of a flat pad: a point, an edge, a polygon or a disc.

    An edge has its two ends, a polygon the corners of its convex hull, a disc `count` points of its
    rim. These transmit the same wrenches as the whole pad; a disc loses the fraction
    1 - cos(pi / count) of its radius.

    Args:
        name: Points are named after it: "sole_0", "sole_1", ...
        body: Name of the body or frame that carries the pad.
        outline: Points of the pad in its plane [m], shape (n, 2), or the radius of a disc [m].
        pose: The pad's axes in axes of the body: z is its normal. The body's own by default.
        count: Points of a disc, at least 3.
        radius: Radius of the spheres around the points [m]: rounded edges.
        material: Friction and restitution.

    Raises:
        ShapeError: If the outline is neither a number nor points with two coordinates.

    Example:
        ``Model("foot", [sole], contacts=tb.contact_pad("disc", "sole", 0.05))``
    """
    place = pose or Pose()
    given: Any = outline
    if isinstance(given, numbers.Real):
        points = disc_points(float(given), at_least("count", count, 3))
    else:
        points = _corners(given)
    found: Iterable[NDArray[np.float64]] = points @ np.array(place.rotation).T + np.array(
        place.translation
    )
    return tuple(
        ContactPoint(f"{name}_{k}", body, tuple(point.tolist()), radius, material)
        for k, point in enumerate(found)
    )


def _corners(outline: ArrayLike) -> NDArray[np.float64]:
    given = np.asarray(outline, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != 2 or not len(given):
        raise ShapeError("outline", "points with two coordinates, or a radius", str(given.shape))
    flat = finite_array(given, given.shape, "contact pad", "outline")
    corners = np.array([(*flat[k], 0.0) for k in hull_corners(flat)])
    if len(flat) > 1 and len(corners) == 1:
        raise DomainError("outline", "different points", f"{flat[0].tolist()} alone")
    return edge_points(*corners) if len(corners) == 2 else corners
