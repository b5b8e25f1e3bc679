"""Contact of spheres with a height field: terrain of triangles over a rectangular grid.

Each cell has two triangles, divided from its first corner to the opposite one, as in DynaMechs
(McMillan 1995). Beyond the border the ground goes on at the heights of the border.

A sphere touches the terrain where its distance has a local minimum: inside a triangle if the foot
of the perpendicular from the center is there; on an edge if both feet are beyond it; at a vertex if
the center is behind the ends of all edges. Coplanar triangles have no such edges, so that a sphere
that slides over them feels none; in a valley it touches both sides. A triangle counts from the side
on which the center is: one behind a ridge does not. Of a center below the ground the nearest
minimum counts, and others that are as near.

The search visits the vertices of `reach` cells to each side of the nearest one. A vertex has the
two triangles of its cell, the three edges that begin at it, and itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ContactGeometry,
    Placed,
    in_order,
    inserted,
    tangent_projector,
)
from tiburon.contact.geometry.vectors import (
    add_matrices,
    outer,
    root,
    scale_matrix,
    select,
    sign,
    unit,
)
from tiburon.errors import ShapeError
from tiburon.model.world import Ground
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    Scalar,
    Vec3,
    add,
    dot,
    matrix_vector,
    negate,
    scale,
    subtract,
    transpose_vector,
)
from tiburon.trace.primitives.grid_patch import read_patch
from tiburon.trace.primitives.table_rows import HANDLE
from tiburon.trace.regions import fixed_loop
from tiburon.trace.value import unary, where

MARGIN = 1e-12
"""Fraction of a cell by which a foot may be beyond a triangle: rounding must not open a hole
between a triangle and its edges."""

SAME_NORMAL = 0.985
"""Cosine between normals above which the nearer of two contacts counts alone: 10 degrees. Two
contacts of a small sphere that are nearly the same have forces that few methods distinguish,
and friction holds the sphere on one of them."""

MAX_RISE = 0.3
"""Sine of the angle by which an edge of a corner that touches may lead into the ground: one of two
ends of an edge that both touch is lower."""

SAME_MINIMUM = 1e-7
"""Distance, relative to the spacing, by which minima differ that count as one: rounding must not
open a hole in a valley for a center that is on the ground."""


class Reach(NamedTuple):
    """Cells to each side that are searched; structure of code."""

    point: int
    """Around a rounded point of a shape: the center of a sphere, an end of a capsule."""

    body: int
    """Around the origin of a shape, to cover all of it."""


NEAR = Reach(1, 1)
"""Reach of points and small shapes."""


def field_size(ground: Ground) -> tuple[float, ...]:
    """Return the run-time parameters of a grid: origin with height, spacing, column count."""
    grid = ground.grid
    assert grid is not None
    return (*grid.origin, ground.height, *grid.spacing, float(len(grid.heights[0])))


def placed_field(size: tuple[Scalar, ...], handle: tuple[Scalar, ...]) -> Placed:
    """Return a height field in the world.

    Args:
        size: Run-time parameters, as `field_size` lists them.
        handle: Handle of the table of its heights, `GroundGrid.table`; callers of code with it
            holds the grid.

    Returns:
        The field: its size is spacing along x and y [m], then the address, row count and column
        count of the heights.

    Raises:
        ShapeError: If the handle is not that of one table.
    """
    if len(handle) != HANDLE:
        raise ShapeError("handle of the ground's heights", f"{HANDLE} numbers", len(handle))
    x, y, z, dx, dy, columns = size
    _, address, rows = handle
    return Placed(IDENTITY3, (x, y, z), (dx, dy, address, rows, columns))


def reach_of(radius: float, spacing: tuple[float, float]) -> int:
    """Return how many cells the search must cover so that contacts of a sphere are found.

    Gaps are exact up to (reach - 1/2) times the spacing minus the radius, which is positive.

    Args:
        radius: Radius [m].
        spacing: Spacing of the grid [m].
    """
    return int(np.floor(radius / min(spacing) + 0.5)) + 1


def terrain_height(x: Scalar, y: Scalar, field: Placed) -> tuple[Scalar, Scalar]:
    """Return the height of the terrain at a place, and the vertical component of its unit normal.

    Args:
        x: Place in the world [m].
        y: Likewise.
        field: The height field.
    """
    local = transpose_vector(field.rotation, subtract((x, y, 0.0), field.position))
    dx, dy, *handle = field.size
    below = _triangle_under(local, dx, dy, handle)
    return -below.height, below.tilt


def is_over_grid(point: Vec3, field: Placed) -> Scalar:
    """Return whether a point is above or below the grid, not beyond its border."""
    x, y, _ = transpose_vector(field.rotation, subtract(point, field.position))
    dx, dy, _, rows, columns = field.size
    return (x >= 0.0) & (y >= 0.0) & (x <= (rows - 1.0) * dx) & (y <= (columns - 1.0) * dy)


class _Minimum(NamedTuple):
    """A local minimum of the distance; axes of the field, origin at the center of the sphere."""

    distance: Scalar
    """Signed distance of the center [m]; `NO_CONTACT` where there is no minimum."""

    outward: Vec3
    """Unit normal out of the ground."""

    edge: Vec3
    """Direction of the edge; zero for triangles and vertices."""

    rounded: Scalar
    """1 for edges and vertices, around which the normal turns; 0 for triangles."""


class _Face(NamedTuple):
    """The plane of a triangle and the foot of the center on it."""

    height: Scalar
    """Vertical distance of the center above the plane [m]."""

    tilt: Scalar
    """Vertical component of the unit normal."""

    outward: Vec3
    """Unit normal out of the ground."""

    t: Scalar
    """Foot along x from the vertex, relative to the spacing."""

    u: Scalar
    """Foot along y, likewise."""


def terrain_contacts(
    center: Vec3,
    radius: Scalar,
    field: Placed,
    count: int,
    reach: int = 1,
    edges: Sequence[Vec3] = (),
    margin: Scalar = 0.0,
) -> tuple[ContactGeometry, ...]:
    """Return the nearest contacts of a sphere with a height field, in an order of their normals.

    One of them is always a contact: where no minimum is in reach, that with the plane of the
    triangle under the center. Those that do not exist come last, with the gap `NO_CONTACT`.

    Args:
        center: Center of the sphere, world axes [m].
        radius: Its radius [m]; 0 for a point.
        field: The height field.
        count: Number of contacts.
        reach: Cells to each side of the nearest vertex that are searched; `reach_of`.
        edges: Unit vectors along the edges of a corner: ground into which an edge leads counts only
            farther than the margin from the corner. One that has passed a sharp ridge does not
            touch it from behind.
        margin: Distance [m].
    """
    local = transpose_vector(field.rotation, subtract(center, field.position))
    arms = [transpose_vector(field.rotation, edge) for edge in edges]
    dx, dy, *handle = field.size

    def passed(found: _Minimum) -> _Minimum:
        counts = abs(found.distance) > margin
        outside: Scalar = True
        for arm in arms:
            outside = outside & (dot(found.outward, arm) > -MAX_RISE)
        return found._replace(distance=where(counts | outside, found.distance, NO_CONTACT))

    below = _triangle_under(local, dx, dy, handle)
    above = sign(below.height)
    tolerance = SAME_MINIMUM * dx
    side = 2 * reach
    i, j = (
        unary("floor", x / d + 0.5) - float(reach) for x, d in zip(local[:2], (dx, dy), strict=True)
    )

    def visit(index: Scalar, best: tuple[_Minimum, ...]) -> tuple[_Minimum, ...]:
        a = unary("floor", (index + 0.5) * (1.0 / side))
        row, column = i + a, j + (index - side * a)
        heights = read_patch(3, handle, row - 1.0, column - 1.0)
        x, y = row * dx - local[0], column * dy - local[1]
        lowered = [[z - local[2] for z in line] for line in heights]
        for found in _minima(x, y, lowered, dx, dy, above, tolerance, below.outward):
            best = inserted(best, passed(found) if arms else found, lambda one: abs(one.distance))
        return best

    none = _Minimum(NO_CONTACT, below.outward, ZERO3, 0.0)
    best = fixed_loop(side * side, visit, (none,) * count)
    under = _Minimum(below.height * below.tilt, below.outward, ZERO3, 0.0)
    under = passed(under) if arms else under
    first = select(best[0].distance < NO_CONTACT, best[0], under)
    # below the ground, what is farther than the nearest way out does not count
    farthest = where(above > 0.0, NO_CONTACT, abs(first.distance) + tolerance)
    kept = [first]
    for one in best[1:]:
        counts = abs(one.distance) <= farthest
        for nearer in kept:
            counts = counts & (
                (nearer.distance >= NO_CONTACT) | (dot(nearer.outward, one.outward) < SAME_NORMAL)
            )
        kept.append(one._replace(distance=where(counts, one.distance, NO_CONTACT)))
    ordered = in_order(kept, lambda one: one.distance, _heading)
    return tuple(_contact(one, center, radius, field) for one in ordered)


def _heading(minimum: _Minimum) -> Scalar:
    """Return a coordinate that distinguishes normals."""
    return 0.8 * minimum.outward[0] + 0.6 * minimum.outward[1]


def _triangle_under(local: Vec3, dx: Scalar, dy: Scalar, handle: list[Scalar]) -> _Face:
    """Return the triangle under or above the center."""
    x, y = local[0] / dx, local[1] / dy
    i, j = unary("floor", x), unary("floor", y)
    (z00, z01), (z10, z11) = read_patch(2, handle, i, j)
    lower = x - i >= y - j
    slope_x = where(lower, z10 - z00, z11 - z01) / dx
    slope_y = where(lower, z11 - z10, z01 - z00) / dy
    return _face(slope_x, slope_y, i * dx - local[0], j * dy - local[1], z00 - local[2], dx, dy)


def _face(sx: Scalar, sy: Scalar, x: Scalar, y: Scalar, z: Scalar, dx: Scalar, dy: Scalar) -> _Face:
    """Return the plane of given slopes through a vertex."""
    height = sx * x + sy * y - z
    q = 1.0 / (1.0 + sx * sx + sy * sy)
    tilt = root(q)
    t, u = (sx * height * q - x) / dx, (sy * height * q - y) / dy
    return _Face(height, tilt, (-sx * tilt, -sy * tilt, tilt), t, u)


def _minima(
    x: Scalar,
    y: Scalar,
    z: list[list[Scalar]],
    dx: Scalar,
    dy: Scalar,
    above: Scalar,
    tolerance: Scalar,
    fallback: Vec3,
) -> list[_Minimum]:
    """Return the minima on the triangles, edges and the vertex that belong to a vertex.

    Args:
        x: Vertex minus center [m].
        y: Likewise.
        z: Heights of the vertex, in the middle, and those around it, minus that of the center [m].
        dx: Spacing [m].
        dy: Likewise.
        above: 1 for a center above the ground, -1 below.
        tolerance: How far behind a triangle the center may be [m].
        fallback: Normal where an edge or vertex is at the center.
    """
    here = (x, y, z[1][1])

    def face(rise_x: Scalar, rise_y: Scalar) -> _Face:
        return _face(rise_x / dx, rise_y / dy, *here, dx, dy)

    lower = face(z[2][1] - z[1][1], z[2][2] - z[2][1])
    upper = face(z[2][2] - z[1][2], z[1][2] - z[1][1])
    before_x = face(z[2][1] - z[1][1], z[1][1] - z[1][0])
    before_y = face(z[1][1] - z[0][1], z[1][2] - z[1][1])
    found = []
    for one, sides in (
        (lower, (-lower.u, lower.t - 1.0, lower.u - lower.t)),
        (upper, (-upper.t, upper.u - 1.0, upper.t - upper.u)),
    ):
        distance = one.height * one.tilt
        holds = above * distance >= -tolerance
        for beyond in sides:
            holds = holds & (beyond <= MARGIN)
        distance = where(holds, distance, NO_CONTACT)
        found.append(_Minimum(distance, one.outward, ZERO3, 0.0))
    # edges along x, y and the diagonal, with how far the feet on both sides are beyond them
    edges = (
        ((dx, 0.0, z[2][1] - z[1][1]), -lower.u, before_x.u),
        ((0.0, dy, z[1][2] - z[1][1]), -upper.t, before_y.t),
        ((dx, dy, z[2][2] - z[1][1]), lower.u - lower.t, upper.t - upper.u),
    )
    alone: Scalar = True
    for e, one_side, other_side in edges:
        square = dot(e, e)
        s = -dot(here, e) / square
        alone = alone & (s < 0.0)
        valid = (one_side > 0.0) & (other_side > 0.0) & (s >= -MARGIN) & (s <= 1.0 + MARGIN)
        direction = scale(e, 1.0 / root(square))
        found.append(_rounded(add(here, scale(e, s)), direction, valid, above, fallback))
    for e in ((-dx, 0.0, z[0][1]), (0.0, -dy, z[1][0]), (-dx, -dy, z[0][0])):
        alone = alone & (dot(here, (e[0], e[1], e[2] - z[1][1])) > 0.0)
    found.append(_rounded(here, ZERO3, alone, above, fallback))
    return found


def _rounded(offset: Vec3, edge: Vec3, valid: Scalar, above: Scalar, fallback: Vec3) -> _Minimum:
    """Return the minimum at a point of an edge or at a vertex."""
    direction, distance = unit(scale(offset, -above), fallback)
    return _Minimum(where(valid, above * distance, NO_CONTACT), direction, edge, 1.0)


def _contact(minimum: _Minimum, center: Vec3, radius: Scalar, field: Placed) -> ContactGeometry:
    """Return the contact of a sphere at a local minimum of its distance."""
    distance = minimum.distance
    outward = matrix_vector(field.rotation, minimum.outward)
    edge = matrix_vector(field.rotation, minimum.edge)
    gap = where(distance < NO_CONTACT, distance - radius, NO_CONTACT)
    reach = where(distance < NO_CONTACT, radius + 0.5 * gap, 0.0)
    curved = (minimum.rounded > 0.5) & (abs(distance) > MARGIN)
    inverse = where(curved, 1.0 / where(curved, distance, 1.0), 0.0)
    bound = add_matrices(tangent_projector(outward), scale_matrix(outer(edge, edge), -1.0))
    curvature = scale_matrix(bound, inverse)
    return ContactGeometry(
        gap,
        subtract(center, scale(outward, reach)),
        negate(outward),
        curvature,
        scale_matrix(curvature, reach),
    )
