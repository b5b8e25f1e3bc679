"""Contact of spheres with a height field: terrain of triangles over a rectangular grid.

Each cell has two triangles, divided from its first corner to the opposite one, as in DynaMechs
(McMillan 1995). Beyond the border the ground goes on at the heights of the border.

A sphere touches the terrain where its distance has a local minimum: inside a triangle if the foot
of the perpendicular from the center is there; on an edge if both feet are beyond it; at a vertex if
the center is behind the ends of all edges. Coplanar triangles have no such edges, so that a sphere
that slides over them feels none; in a valley it touches both sides. The search covers the triangles
around the nearest vertex, `reach` cells to each side.
"""

from typing import Any, NamedTuple

import numpy as np

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ContactGeometry,
    Placed,
    tangent_projector,
)
from tiburon.contact.geometry.vectors import (
    add_matrices,
    clamp,
    outer,
    root,
    scale_matrix,
    select,
    sign,
    unit,
)
from tiburon.errors import DomainError
from tiburon.model.world import Ground, GroundGrid
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
from tiburon.trace.primitives.primitive import address_of
from tiburon.trace.value import unary, where

__all__ = [
    "HeightField",
    "is_over_grid",
    "reach_of",
    "terrain_contacts",
]

MARGIN = 1e-12
"""Fraction of a cell by which a foot may be beyond a triangle: rounding must not open a hole
between a triangle and its edges."""


class HeightField:
    """Heights in memory for the narrow phase; holds them as long as it lives.

    Attributes:
        placed: The field in the world: size is spacing along x and y [m], then the address and the
            row and column count of the heights, all of them run-time values.
    """

    def __init__(self, ground: Ground) -> None:
        """Take the grid of a ground.

        Raises:
            DomainError: If the ground is level.
        """
        grid: GroundGrid | None = ground.grid
        if grid is None:
            raise DomainError("ground", "a grid", "level ground", advice="use a plane")
        self._heights = np.ascontiguousarray(grid.array, dtype=np.float64)
        self._heights.flags.writeable = False
        rows, columns = self._heights.shape
        x, y = grid.origin
        size = (*grid.spacing, address_of(self._heights), float(rows), float(columns))
        self.placed = Placed(IDENTITY3, (x, y, ground.height), size)


def reach_of(radius: float, spacing: tuple[float, float]) -> int:
    """Return how many cells the search must cover so that contacts of a sphere are found.

    Gaps are exact up to (reach - 1/2) times the spacing minus the radius, which is positive.

    Args:
        radius: Radius [m].
        spacing: Spacing of the grid [m].
    """
    return int(np.floor(radius / min(spacing) + 0.5)) + 1


def is_over_grid(point: Vec3, field: Placed) -> Scalar:
    """Return whether a point is above or below the grid, not beyond its border."""
    x, y, _ = transpose_vector(field.rotation, subtract(point, field.position))
    dx, dy, _, rows, columns = field.size
    return (x >= 0.0) & (y >= 0.0) & (x <= (rows - 1.0) * dx) & (y <= (columns - 1.0) * dy)


class _Candidate(NamedTuple):
    """A local minimum of the distance; axes of the field, origin at the center of the sphere."""

    distance: Scalar
    """Signed distance of the center [m]; `NO_CONTACT` where there is no minimum."""

    outward: Vec3
    """Unit normal out of the ground."""

    edge: Vec3
    """Direction of the edge; zero for triangles and vertices."""

    rounded: Scalar
    """1 for edges and vertices, around which the normal turns; 0 for triangles."""


def terrain_contacts(
    center: Vec3, radius: Scalar, field: Placed, count: int, reach: int = 1
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of a sphere with a height field, smallest gap first.

    The first is always a contact: where no minimum is in reach, that with the plane of the triangle
    under the center. Further ones that do not exist have the gap `NO_CONTACT`.

    Args:
        center: Center of the sphere, world axes [m].
        radius: Its radius [m]; 0 for a point.
        field: The height field.
        count: Number of contacts.
        reach: Cells to each side of the nearest vertex that are searched; `reach_of`.
    """
    found, under = _candidates(transpose_vector(field.rotation, subtract(center, field.position)),
                               field.size, reach)  # fmt: skip
    distances = [candidate.distance for candidate in found]
    contacts = []
    for number in range(count):
        best, chosen = under._replace(distance=NO_CONTACT), -1.0
        for k, candidate in enumerate(found):
            candidate = candidate._replace(distance=distances[k])
            nearer = candidate.distance < best.distance
            best, chosen = select(nearer, (candidate, float(k)), (best, chosen))
        if number == 0:
            best = select(best.distance < NO_CONTACT, best, under)
        distances = [where(chosen == float(k), NO_CONTACT, d) for k, d in enumerate(distances)]
        contacts.append(_contact(best, center, radius, field))
    return tuple(contacts)


def _contact(candidate: _Candidate, center: Vec3, radius: Scalar, field: Placed) -> ContactGeometry:
    """Return the contact of a sphere at a local minimum of its distance."""
    distance = candidate.distance
    outward = matrix_vector(field.rotation, candidate.outward)
    edge = matrix_vector(field.rotation, candidate.edge)
    gap = where(distance < NO_CONTACT, distance - radius, NO_CONTACT)
    reach = where(distance < NO_CONTACT, radius + 0.5 * gap, 0.0)
    curved = (candidate.rounded > 0.5) & (abs(distance) > MARGIN)
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


def _candidates(
    local: Vec3, size: tuple[Scalar, ...], reach: int
) -> tuple[list[_Candidate], _Candidate]:
    """Return the local minima of the distance around a point, and the triangle under it."""
    dx, dy, *handle = size
    side = 2 * reach + 1
    i, j = unary("floor", local[0] / dx + 0.5), unary("floor", local[1] / dy + 0.5)
    heights = read_patch(side, handle, i - float(reach), j - float(reach))
    # vertices relative to the point
    xs = [(i + float(a - reach)) * dx - local[0] for a in range(side)]
    ys = [(j + float(b - reach)) * dy - local[1] for b in range(side)]
    vertices = [
        [(xs[a], ys[b], heights[a][b] - local[2]) for b in range(side)] for a in range(side)
    ]
    found: list[_Candidate] = []
    beyond: dict[Any, list[Scalar]] = {}
    under = _Candidate(NO_CONTACT, (0.0, 0.0, 1.0), ZERO3, 0.0)
    above: Scalar = 1.0
    for a in range(side - 1):
        for b in range(side - 1):
            corner = (a, b)
            z00, z10 = vertices[a][b][2], vertices[a + 1][b][2]
            z01, z11 = vertices[a][b + 1][2], vertices[a + 1][b + 1][2]
            slopes = (
                ((z10 - z00) / dx, (z11 - z10) / dy),
                ((z11 - z01) / dx, (z01 - z00) / dy),
            )
            here = _fraction(-xs[a] / dx, a, reach), _fraction(-ys[b] / dy, b, reach)
            for upper, (sx, sy) in enumerate(slopes):
                height = sx * xs[a] + sy * ys[b] - z00
                q = 1.0 / (1.0 + sx * sx + sy * sy)
                tilt = root(q)
                t, u = (sx * height * q - xs[a]) / dx, (sy * height * q - ys[b]) / dy
                if upper:
                    sides = {
                        ("y", a, b): -t,
                        ("x", a, b + 1): u - 1.0,
                        ("d", *corner): t - u,
                    }
                    inside = here[0] < here[1]
                else:
                    sides = {
                        ("x", a, b): -u,
                        ("y", a + 1, b): t - 1.0,
                        ("d", *corner): u - t,
                    }
                    inside = here[0] >= here[1]
                for edge, value in sides.items():
                    beyond.setdefault(edge, []).append(value)
                outward = (-sx * tilt, -sy * tilt, tilt)
                face = _Candidate(height * tilt, outward, ZERO3, 0.0)
                p, q1, r = sides.values()
                holds = (p <= MARGIN) & (q1 <= MARGIN) & (r <= MARGIN)
                found.append(face._replace(distance=where(holds, face.distance, NO_CONTACT)))
                contains = (
                    inside
                    & (here[0] >= 0.0)
                    & (here[0] <= 1.0)
                    & (here[1] >= 0.0)
                    & (here[1] <= 1.0)
                )
                under = select(contains, face, under)
                above = where(contains, sign(height), above)
    starts = {"x": (1, 0), "y": (0, 1), "d": (1, 1)}
    params: dict[Any, list[Scalar]] = {}
    for (kind, a, b), values in beyond.items():
        if len(values) < 2:
            continue
        da, db = starts[kind]
        start, end = vertices[a][b], vertices[a + da][b + db]
        e = subtract(end, start)
        square = dot(e, e)
        s = -dot(start, e) / square
        for vertex, past in (((a, b), -s), ((a + da, b + db), s - 1.0)):
            params.setdefault(vertex, []).append(past)
        valid = (values[0] > 0.0) & (values[1] > 0.0) & (s >= -MARGIN) & (s <= 1.0 + MARGIN)
        direction = scale(e, 1.0 / root(square))
        found.append(_rounded(add(start, scale(e, s)), direction, valid, above, under.outward))
    for (a, b), pasts in params.items():
        if len(pasts) == 6:
            valid = pasts[0] > 0.0
            for past in pasts[1:]:
                valid = valid & (past > 0.0)
            found.append(_rounded(vertices[a][b], ZERO3, valid, above, under.outward))
    return found, under


def _fraction(x: Scalar, k: int, reach: int) -> Scalar:
    """Return a cell fraction, clamped where the cell is at the border of the patch."""
    low = 0.0 if k == 0 else -float(2 * reach)
    high = 1.0 if k == 2 * reach - 1 else float(2 * reach)
    return clamp(x, low, high)


def _rounded(offset: Vec3, edge: Vec3, valid: Scalar, above: Scalar, fallback: Vec3) -> _Candidate:
    """Return the minimum at a point of an edge or at a vertex."""
    direction, distance = unit(scale(offset, -above), fallback)
    return _Candidate(where(valid, above * distance, NO_CONTACT), direction, edge, 1.0)
