"""Contacts of two boxes: separating axes, then the overlap of two faces.

Among the 15 axes that can separate two boxes (face normals and cross products of edges) that of
largest separation gives the normal; for overlapping boxes this is the smallest depth. If it is a
face normal, the face of the other box that faces it is clipped to it; every corner of the clipped
polygon is a contact, at most eight. If it is a cross product, the two edges cross at one contact.

Gaps of separated boxes are measured along that axis, a lower bound of their distance: it is the
distance where the smallest gap of a face equals the separation, and where the edges cross at
points of both. Elsewhere the boxes have one contact, of their closest points, one of which is a
corner. Boxes that are apart by less than `FACE_PREFERENCE` keep contacts of faces that are farther
by no more than that.

Corners of either box keep their exact rate of the gap; corners where clipping cuts an edge
slide over both boxes, so that theirs is exact where the faces are parallel.
"""

from typing import NamedTuple

from tiburon.contact.geometry.box_plane import box_corners
from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
    exchanged,
    face_contact,
)
from tiburon.contact.geometry.sphere_box import point_box
from tiburon.contact.geometry.vectors import (
    maximum,
    minimum,
    outer,
    root,
    scale_matrix,
    select,
    sign,
)
from tiburon.spatial.vec3 import Mat3, Scalar, Vec3, add, cross, dot, negate, scale, subtract
from tiburon.trace.regions import function, where_needed
from tiburon.trace.value import where

PARALLEL_SINE_SQUARED = 1e-8
"""Squared sine between edges below which their cross product is not an axis of its own."""

FACE_PREFERENCE = 1e-3
"""How much deeper a face contact may be than an edge contact, as a fraction of the smallest edge: a
box that lies on another keeps its contacts when it tilts a little. No contact is invented:
separated boxes have no corner below a face of the other."""

FIRST_PREFERENCE = 1e-6
"""The same for faces of the second box against faces of the first."""

DISTANCE_ROUNDING = 1e-9
"""Difference of distances that is rounding, as a fraction of the smallest edge."""

MARGIN = 1e-6
"""Fraction by which corners may be beyond a face: boxes of equal size that are nearly aligned, as
in a stack, keep the corners of one of them as contacts, whatever rounding does."""

MARGIN_SHIFT = 1e-5
"""Part of an edge by which `MARGIN` moves where it is clipped, unless it lies along the border."""

_AROUND = ((1, 2), (2, 0), (0, 1))


class _Face(NamedTuple):
    """A face of a box, world axes."""

    center: Vec3
    outward: Vec3
    x: Vec3
    y: Vec3
    half_x: Scalar
    half_y: Scalar


def box_box(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of the clipped face, or one of crossing edges or closest points.

    Eight slots; unused slots have the gap `NO_CONTACT`.
    """
    half1, half2 = (tuple(0.5 * edge for edge in box.size) for box in (first, second))
    (best1, of_first), (best2, of_second), (edges, contact) = _separations(first, second)
    smallest = minimum(_smallest(first.size), _smallest(second.size))
    on_first = best1 + FIRST_PREFERENCE * smallest >= best2
    reference = select(on_first, of_first, of_second)
    incident = select(
        on_first,
        facing_face(second, half2, of_first.outward),
        facing_face(first, half1, of_second.outward),
    )
    crossing = edges > maximum(best1, best2) + FACE_PREFERENCE * smallest
    found = []
    for number, (exists, x, y, of_reference) in enumerate(_clipped(reference, incident)):
        point = add(reference.center, add(scale(reference.x, x), scale(reference.y, y)))
        above = _on_face(point, incident)
        # height of the incident face over this point of the reference face
        slope = dot(incident.outward, reference.outward)
        below = _on_face(add(point, scale(reference.outward, above.gap / -slope)), reference)
        one = select(of_reference, above, exchanged(below))
        one = select(on_first, one, exchanged(one))
        one = one._replace(gap=where(exists, one.gap, NO_CONTACT))
        other = contact if number == 0 else contact._replace(gap=NO_CONTACT)
        found.append(select(crossing, other, one))
    separation = maximum(edges, maximum(best1, best2))
    smallest_gap = found[0].gap
    for one in found[1:]:
        smallest_gap = minimum(smallest_gap, one.gap)
    room = where(separation > FACE_PREFERENCE * smallest, DISTANCE_ROUNDING, FACE_PREFERENCE)
    room = room * smallest
    doubtful = (separation > 0.0) & (crossing | (abs(smallest_gap - separation) > room))
    closest = where_needed(doubtful, lambda: _closest(first, second, edges, contact), contact)
    alone = doubtful & (crossing | (abs(smallest_gap - closest.gap) > room))
    found = [one._replace(gap=where(alone, NO_CONTACT, one.gap)) for one in found]
    return (select(alone, closest, found[0]), *found[1:])


def _closest(
    first: Placed, second: Placed, edges: Scalar, crossing: ContactGeometry
) -> ContactGeometry:
    """Return the contact of the closest points of two boxes that are apart.

    Args:
        first: The first box.
        second: The second box.
        edges: Largest separation along cross products of edges [m].
        crossing: Contact of the two lines through these edges; it counts if it is on the edges.
    """
    contact_of = function(point_box)
    best = contact_of(box_corners(first)[0], 0.0, second)
    for corner in box_corners(first)[1:]:
        one = contact_of(corner, 0.0, second)
        best = select(one.gap < best.gap, one, best)
    for corner in box_corners(second):
        one = exchanged(contact_of(corner, 0.0, first))
        best = select(one.gap < best.gap, one, best)
    half = scale(crossing.normal, 0.5 * edges)
    on_edges: Scalar = edges > 0.0
    for box, point in (
        (first, subtract(crossing.point, half)),
        (second, add(crossing.point, half)),
    ):
        arm = subtract(point, box.position)
        for k, size in enumerate(box.size):
            on_edges = on_edges & (abs(dot(axis(box, k), arm)) <= 0.5 * size * (1.0 + MARGIN))
    found: ContactGeometry = select(on_edges & (edges < best.gap), crossing, best)
    return found


def box_separation(first: Placed, second: Placed) -> tuple[Scalar, Vec3]:
    """Return the largest separation of two boxes [m] and its axis, from the first to the second.

    Separated boxes cannot touch before they have approached by it along the axis.
    """
    (best1, of_first), (best2, of_second), (edges, contact) = _separations(first, second)
    best = select(best1 >= best2, (best1, of_first.outward), (best2, negate(of_second.outward)))
    found: tuple[Scalar, Vec3] = select(edges > best[0], (edges, contact.normal), best)
    return found


def _separations(
    first: Placed, second: Placed
) -> tuple[tuple[Scalar, _Face], tuple[Scalar, _Face], tuple[Scalar, ContactGeometry]]:
    """Return the largest separation along normals of each box, and along normals of two edges."""
    half1, half2 = (tuple(0.5 * edge for edge in box.size) for box in (first, second))
    a, b = [axis(first, k) for k in range(3)], [axis(second, k) for k in range(3)]
    offset = subtract(second.position, first.position)
    cosines = [[dot(u, v) for v in b] for u in a]
    sizes = [abs(c) for row in cosines for c in row]
    along1, along2 = [dot(u, offset) for u in a], [dot(v, offset) for v in b]
    face1 = [
        abs(along1[i]) - half1[i] - sum(half2[j] * sizes[3 * i + j] for j in range(3))
        for i in range(3)
    ]
    face2 = [
        abs(along2[j]) - half2[j] - sum(half1[i] * sizes[3 * i + j] for i in range(3))
        for j in range(3)
    ]
    best1, of_first = _largest(face1, [_face(first, half1, i, sign(along1[i])) for i in range(3)])
    best2, of_second = _largest(
        face2, [_face(second, half2, j, -sign(along2[j])) for j in range(3)]
    )
    edges, contact = _edge_contact(first, second, half1, half2, a, b, offset, cosines)
    return (best1, of_first), (best2, of_second), (edges, contact)


def _on_face(point: Vec3, face: _Face) -> ContactGeometry:
    """Return the contact of a corner of the first body with a face of the second."""
    return face_contact(point, 0.0, face.center, face.outward)


def _smallest(values: tuple[Scalar, ...]) -> Scalar:
    x, y, z = values
    return minimum(x, minimum(y, z))


def _largest(separations: list[Scalar], faces: list[_Face]) -> tuple[Scalar, _Face]:
    """Return the largest separation and its face."""
    best = (separations[0], faces[0])
    for candidate in zip(separations[1:], faces[1:], strict=True):
        best = select(candidate[0] > best[0], candidate, best)
    return best


def _face(box: Placed, half: tuple[Scalar, ...], k: int, side: Scalar) -> _Face:
    """Return the face of a box on one side of an axis."""
    i, j = _AROUND[k]
    outward = scale(axis(box, k), side)
    center = add(box.position, scale(outward, half[k]))
    return _Face(center, outward, axis(box, i), axis(box, j), half[i], half[j])


def facing_face(box: Placed, half: tuple[Scalar, ...], normal: Vec3) -> _Face:
    """Return the face of a box whose outward normal is most opposed to a direction."""
    facing = [dot(axis(box, k), normal) for k in range(3)]
    faces = [_face(box, half, k, -sign(facing[k])) for k in range(3)]
    return _largest([abs(c) for c in facing], faces)[1]


def _clipped(reference: _Face, incident: _Face) -> list[tuple[Scalar, ...]]:
    """Return the corners of the incident face clipped to the reference face, in eight slots.

    Corners are the ends of the four edges of the incident face, clipped to the rectangle (an end
    that is not clipped is the start of the next edge), and the corners of the rectangle inside the
    incident face: a convex polygon with at most eight. The start of edge k, or corner k, is in slot
    k, the clipped end of the edge before it in slot 4 + k; corners of the rectangle fill what is
    left. Slots carry forces from step to step: a contact that comes or goes leaves the others where
    they are.

    Returns:
        For each slot whether it is used, its coordinates on the reference face [m], and whether it
        is a corner of that face.
    """
    hx, hy = reference.half_x, reference.half_y
    wide_x, wide_y = hx * (1.0 + MARGIN), hy * (1.0 + MARGIN)
    between = subtract(incident.center, reference.center)

    def on_reference(v: Vec3) -> tuple[Scalar, Scalar]:
        return dot(reference.x, v), dot(reference.y, v)

    cx, cy = on_reference(between)
    ax, ay = on_reference(scale(incident.x, incident.half_x))
    bx, by = on_reference(scale(incident.y, incident.half_y))
    corners = [(cx + s * ax + t * bx, cy + s * ay + t * by) for s, t in _CORNERS]
    inside = [(abs(x) <= wide_x) & (abs(y) <= wide_y) for x, y in corners]
    starts: list[tuple[Scalar, ...]] = []
    ends: list[tuple[Scalar, ...]] = []
    for k in range(4):
        after = (k + 1) % 4
        (x, y), (x1, y1) = corners[k], corners[after]
        dx, dy = x1 - x, y1 - y
        start, end, hits = _clip(x, dx, wide_x, y, dy, wide_y)
        # on the border itself, except along an edge that lies along it
        low, high, _ = _clip(x, dx, hx, y, dy, hy)
        start = where(abs(low - start) <= MARGIN_SHIFT, low, start)
        end = where(abs(high - end) <= MARGIN_SHIFT, high, end)
        clipped = (hits, x + start * dx, y + start * dy, 0.0)
        # corners are decided once for both of their edges, so that rounding loses none
        starts.append(select(inside[k], (True, x, y, 0.0), clipped))
        ends.append((select(inside[after], False, hits), x + end * dx, y + end * dy, 0.0))
    # coordinates on the incident face, as fractions of its half sizes
    determinant = ax * by - ay * bx
    regular = abs(determinant) > 0.0
    inverse = where(regular, 1.0 / where(regular, determinant, 1.0), 0.0)
    clearly = 1.0 - MARGIN
    own: list[tuple[Scalar, ...]] = []
    for s, t in _CORNERS:
        x, y = s * hx - cx, t * hy - cy
        p, q = (x * by - y * bx) * inverse, (ax * y - ay * x) * inverse
        holds = regular & (abs(p) < clearly) & (abs(q) < clearly)
        own.append((holds, s * hx, t * hy, 1.0))
    return _filled([*starts, *ends[-1:], *ends[:-1]], own)


_CORNERS = ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0))


def _clip(
    x: Scalar, dx: Scalar, half_x: Scalar, y: Scalar, dy: Scalar, half_y: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    """Return the part of an edge within a rectangle, and whether there is one.

    Both ends are on the edge in any case: slots without a contact have points, too, and rows of the
    Jacobian that solvers multiply.
    """
    start, end, hits = _interval(x, dx, half_x)
    start2, end2, hits2 = _interval(y, dy, half_y)
    start, end = maximum(start, start2), minimum(end, end2)
    return minimum(start, 1.0), maximum(end, 0.0), hits & hits2 & (start <= end)


def _interval(x: Scalar, dx: Scalar, half: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return the part of x + t dx, 0 <= t <= 1, within +-half, and whether there can be one."""
    moves = abs(dx) > 0.0
    inverse = 1.0 / where(moves, dx, 1.0)
    low, high = (-half - x) * inverse, (half - x) * inverse
    start = where(moves, maximum(minimum(low, high), 0.0), 0.0)
    end = where(moves, minimum(maximum(low, high), 1.0), 1.0)
    return start, end, moves | (abs(x) <= half)


def _filled(
    slots: list[tuple[Scalar, ...]], others: list[tuple[Scalar, ...]]
) -> list[tuple[Scalar, ...]]:
    """Return candidates in their slots, and others that exist in the slots that are left."""
    ranks: list[Scalar] = []
    taken: Scalar = 0.0
    for candidate in others:
        ranks.append(where(candidate[0], taken, -1.0))
        taken = taken + where(candidate[0], 1.0, 0.0)
    found = []
    free: Scalar = 0.0
    for slot in slots:
        exists, kept = slot[0], slot[1:]
        place = where(exists, -2.0, free)
        for rank, candidate in zip(ranks, others, strict=True):
            kept = select(rank == place, candidate[1:], kept)
        used = exists | (free < taken)
        free = free + where(exists, 0.0, 1.0)
        found.append((used, kept[0], kept[1], kept[2] > 0.5))
    return found


def _edge_contact(
    first: Placed,
    second: Placed,
    half1: tuple[Scalar, ...],
    half2: tuple[Scalar, ...],
    a: list[Vec3],
    b: list[Vec3],
    offset: Vec3,
    cosines: list[list[Scalar]],
) -> tuple[Scalar, ContactGeometry]:
    """Return the largest separation along cross products of edges, and the contact there."""
    best: tuple[Scalar, Vec3, Vec3, Vec3] = (-NO_CONTACT, a[0], a[0], b[0])
    for i in range(3):
        for j in range(3):
            square = 1.0 - cosines[i][j] * cosines[i][j]
            usable = square > PARALLEL_SINE_SQUARED
            inverse = 1.0 / root(where(usable, square, 1.0))
            normal = scale(cross(a[i], b[j]), inverse)
            reach = sum(half1[k] * abs(dot(normal, a[k])) for k in _AROUND[i])
            reach = reach + sum(half2[k] * abs(dot(normal, b[k])) for k in _AROUND[j])
            along = dot(normal, offset)
            separation = where(usable, abs(along) - reach, -NO_CONTACT)
            normal = scale(normal, sign(along))
            best = select(separation > best[0], (separation, normal, a[i], b[j]), best)
    separation, n, u1, u2 = best
    # middle of the edge of each box that is extreme along the normal
    start, end = first.position, second.position
    for k in range(3):
        on_edge1, on_edge2 = abs(dot(u1, a[k])) > 0.5, abs(dot(u2, b[k])) > 0.5
        arm1 = where(on_edge1, 0.0, sign(dot(n, a[k])) * half1[k])
        arm2 = where(on_edge2, 0.0, -sign(dot(n, b[k])) * half2[k])
        start, end = add(start, scale(a[k], arm1)), add(end, scale(b[k], arm2))
    across = cross(n, u2)
    divisor = dot(across, u1)
    safe = divisor * divisor > 0.5 * PARALLEL_SINE_SQUARED
    inverse = where(safe, 1.0 / where(safe, divisor, 1.0), 0.0)
    between = subtract(end, start)
    place = dot(across, between) * inverse
    nearest = add(start, scale(u1, place))
    share: Mat3 = scale_matrix(outer(across, u1), inverse)
    point = add(nearest, scale(n, 0.5 * separation))
    return separation, ContactGeometry(separation, point, n, ZERO33, share)
