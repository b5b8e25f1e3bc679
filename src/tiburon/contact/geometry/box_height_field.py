"""Contacts of a box with a height field."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from tiburon.contact.geometry.box_box import facing_face
from tiburon.contact.geometry.box_plane import box_corners
from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
    tangent_projector,
)
from tiburon.contact.geometry.height_field import NEAR, Reach, terrain_contacts
from tiburon.contact.geometry.smooth_height_field import (
    Nearest,
    hill_contacts,
    smooth_clearance,
    smooth_terrain_contact,
)
from tiburon.contact.geometry.sphere_box import point_box
from tiburon.contact.geometry.terrain_features import NOTHING, nearest_contacts, ridge_contacts
from tiburon.contact.geometry.vectors import (
    add_matrices,
    clamp,
    maximum,
    minimum,
    outer,
    root,
    scale_matrix,
    select,
    sign,
    unit,
)
from tiburon.spatial.vec3 import (
    Scalar,
    Vec3,
    add,
    cross,
    dot,
    matrix_vector,
    negate,
    scale,
    subtract,
    transpose_vector,
)
from tiburon.trace.regions import fixed_loop, function, where_needed, while_loop
from tiburon.trace.value import unary, where

__all__ = ["box_height_field", "box_smooth_height_field"]

MIN_CROSSING_SINE = 1e-6
"""Sine of the angle above which edges cross."""

MIN_EDGE_SINE = 0.01
"""Sine of the angle by which one of the faces beside an edge looks down that touches smooth ground:
others touch slopes of more than 89 degrees."""

SAMPLES_PER_CELL = 4
"""Parts of an edge along the side of a cell."""

EDGE_MINIMA = 6
"""Local minima of the distance of edges from smooth ground that are refined."""

LEVEL_SLOPE = 1e-9
"""Slope of the ground along an edge, and turn of its normal between two samples, that are
rounding."""

MAX_ITERATIONS, SQUARED_STEP_TOLERANCE = 30, 1e-26
"""Most iterations for the minimum of an edge, and the squared step that ends them, relative to half
the edge."""


def box_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return eight contacts: of corners, and of peaks and ridges between them.

    Of two opposite corners the nearer one is among the first four contacts. The others are among
    the last four, where peaks and ridges below the box replace them if these are nearer: what is
    below a face rises higher than the corners of the face above it.

    Args:
        first: The box.
        second: The height field.
        reach: Cells that are searched, from `reach_of`.
    """
    contact_of = function(terrain_contacts)
    corners = [contact_of(corner, 0.0, second, 1)[0] for corner in box_corners(first)]
    x, y, z = first.size
    ridges = ridge_contacts(
        first.position,
        second,
        reach.body,
        4,
        lambda point: point_box(point, 0.0, first),
        lambda start, edge, outward: _crossings(start, edge, outward, first),
        0.5 * root(x * x + y * y + z * z),
    )
    return _nearest(corners, ridges)


def _nearest(
    corners: Sequence[ContactGeometry], others: Sequence[ContactGeometry]
) -> tuple[ContactGeometry, ...]:
    """Return the nearer ones of opposite corners, then the farther ones or what is below them."""
    nearer, farther = [], []
    for one, other, below in zip(corners[:4], corners[:3:-1], others, strict=True):
        swapped = other.gap < one.gap
        nearer.append(select(swapped, other, one))
        last = select(swapped, one, other)
        farther.append(select(below.gap < last.gap, below, last))
    return (*nearer, *farther)


def _crossings(
    start: Vec3, edge: Vec3, outward: Vec3, box: Placed
) -> tuple[ContactGeometry, ContactGeometry]:
    """Return where an edge of the terrain enters and leaves the face of a box that is above it.

    These are crossings with edges of the box. Between them, an edge of the terrain along the face
    touches at no other place that would hold the box.

    Args:
        start: One end of the edge, world axes [m].
        edge: From there to the other end [m].
        outward: Direction out of the ground.
        box: The box.
    """
    face = facing_face(box, tuple(0.5 * x for x in box.size), outward)
    to_start = subtract(start, face.center)
    length = root(dot(edge, edge))
    e = scale(edge, 1.0 / length)
    none = (face.y, face.half_y, face.center, face.x)
    enter, leave = (-NO_CONTACT, *none), (NO_CONTACT, *none)
    above: Scalar = True
    sides = ((face.x, face.half_x), (face.y, face.half_y))
    for (along, half), (across, reach) in (sides, sides[::-1]):
        place, rate = dot(along, to_start), dot(along, e)
        moves = abs(rate) > MIN_CROSSING_SINE
        inverse = 1.0 / where(moves, rate, 1.0)
        side = sign(rate)
        ends = []
        for border in (-side * half, side * half):
            middle = add(face.center, scale(along, border))
            beside = scale(along, sign(border))
            ends.append(((border - place) * inverse, across, reach, middle, beside))
        enter = select(moves & (ends[0][0] > enter[0]), ends[0], enter)
        leave = select(moves & (ends[1][0] < leave[0]), ends[1], leave)
        above = above & (moves | (abs(place) <= half))
    exists = above & (enter[0] < leave[0])
    return tuple(
        _crossing(start, e, length, _Edge(u, half, middle, (face.outward, beside)), exists)
        for _, u, half, middle, beside in (enter, leave)
    )  # type: ignore[return-value]


class _Edge(NamedTuple):
    """An edge of a box, world axes."""

    direction: Vec3
    half: Scalar
    """Half its length [m]."""

    middle: Vec3
    """Its middle [m]."""

    faces: tuple[Vec3, Vec3]
    """Outward normals of the faces that it bounds, the one above the terrain first."""


def _crossing(start: Vec3, e: Vec3, length: Scalar, edge: _Edge, exists: Scalar) -> ContactGeometry:
    """Return the contact of an edge of the terrain with one of a box.

    Args:
        start: Start of the first edge [m].
        e: Its direction.
        length: Its length [m].
        edge: The edge of the box; the normal of the contact is between those of its faces.
        exists: Whether there is such a crossing.
    """
    u, middle, (below, beside) = edge.direction, edge.middle, edge.faces
    n, sine = unit(cross(e, u), negate(below))
    n = scale(n, -sign(dot(n, below)))
    # both edges turn with their bodies, as in `crossing`
    across = cross(n, u)
    divisor = dot(across, e)
    usable = abs(divisor) > MIN_CROSSING_SINE
    inverse = where(usable, 1.0 / where(usable, divisor, 1.0), 0.0)
    between = subtract(middle, start)
    place = dot(across, between) * inverse
    gap = dot(n, between)
    exists = exists & usable & (sine > MIN_CROSSING_SINE) & (place > 0.0) & (place < length)
    along = dot(u, subtract(add(start, scale(e, place)), middle))
    exists = exists & (dot(n, beside) < MIN_CROSSING_SINE) & (abs(along) <= edge.half)
    point = add(add(start, scale(e, place)), scale(n, 0.5 * gap))
    share = scale_matrix(outer(across, e), inverse)
    return ContactGeometry(where(exists, gap, NO_CONTACT), point, n, ZERO33, share)


def box_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return eight contacts with smooth terrain: of corners, edges, and hills below faces.

    Corners share them with edges and hills as with ridges in `box_height_field`.

    Args:
        first: The box.
        second: The height field.
        reach: Cells that are searched, from `reach_of`.
    """
    contact_of = function(smooth_terrain_contact)
    corners = [contact_of(corner, 0.0, second) for corner in box_corners(first)]
    x, y, z = first.size
    bound = 0.5 * root(x * x + y * y + z * z)
    face = partial(_nearest_face, first)
    hills = hill_contacts(face, first.position, bound, second, reach.body, 4)
    edges = _edge_contacts(first, second, SAMPLES_PER_CELL * (2 * reach.body - 1))
    return _nearest(corners, nearest_contacts([*hills, *edges], 4, second))


class _Sample(NamedTuple):
    """A point of an edge of a box beside which the edge is higher over the ground."""

    height: Scalar
    """Distance from the ground, about [m]."""

    edge: Scalar
    """Number of the edge, as in `_edge_at`."""

    place: Scalar
    """Where it is on the edge, from -1 to 1."""


class _Slide(NamedTuple):
    place: Scalar
    step: Scalar


def _edge_at(box: Placed, edge: Scalar) -> _Edge:
    """Return an edge: 0 to 3 along x, 4 to 7 along y, 8 to 11 along z."""
    along = unary("floor", (edge + 0.5) * 0.25)
    side = edge - 4.0 * along
    signs = (where(side > 1.5, 1.0, -1.0), where((side == 1.0) | (side == 3.0), 1.0, -1.0))
    found: Any = None
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        faces = (scale(axis(box, i), signs[0]), scale(axis(box, j), signs[1]))
        middle = add(box.position, scale(faces[0], 0.5 * box.size[i]))
        middle = add(middle, scale(faces[1], 0.5 * box.size[j]))
        one = _Edge(axis(box, k), 0.5 * box.size[k], middle, faces)
        found = one if found is None else select(along == float(k), one, found)
    return cast(_Edge, found)


def _edge_contacts(box: Placed, field: Placed, samples: int) -> list[ContactGeometry]:
    """Return the nearest local minima of the distance between edges of a box and smooth terrain.

    Newton's method begins where the clearance falls at one sample of an edge and rises at the next.
    A point of the edge whose contact has the normal n and the tensors D0 and T0 moves by u . n / k
    along the edge u, with k = u . D0 u; at the minimum, D = D0 - D0 u u^T D0 / k and
    T = T0 - D0 u u^T (T0 - P) / k, as for rims (`rim_contact`). Edges of two faces that look up
    touch nothing.

    Args:
        box: The box.
        field: The height field.
        samples: Number of parts of each edge.
    """
    up = (field.rotation[0][2], field.rotation[1][2], field.rotation[2][2])
    width = 2.0 / samples

    def at(edge: _Edge, place: Scalar) -> Vec3:
        return add(edge.middle, scale(edge.direction, edge.half * place))

    @function
    def clearance(edge: _Edge, place: Scalar) -> tuple[Scalar, Scalar]:
        return smooth_clearance(at(edge, place), edge.direction, field)

    def visit(number: Scalar, best: tuple[_Sample, ...]) -> tuple[_Sample, ...]:
        edge = _edge_at(box, number)

        def compare(k: Scalar, state: tuple[Any, ...]) -> tuple[Any, ...]:
            height, falls, best = state
            above, rises = clearance(edge, (k + 1.0) * width - 1.0)
            lowest = (falls < -LEVEL_SLOPE) & (rises >= 0.0)
            place = (k + falls / where(lowest, falls - rises, 1.0)) * width - 1.0
            height = where(lowest, minimum(height, above), NO_CONTACT)
            found = _Sample(height, number, place)
            kept = []
            for one in best:
                nearer = found.height < one.height
                kept.append(select(nearer, found, one))
                found = select(nearer, one, found)
            return above, rises, tuple(kept)

        def searched() -> tuple[_Sample, ...]:
            start = (*clearance(edge, -1.0), best)
            found: tuple[_Sample, ...] = fixed_loop(samples, compare, start)[2]
            return found

        below = minimum(dot(up, edge.faces[0]), dot(up, edge.faces[1])) < -MIN_EDGE_SINE
        kept: tuple[_Sample, ...] = where_needed(below, searched, best)
        return kept

    contact_of = function(smooth_terrain_contact)

    @function
    def refined(sample: _Sample) -> ContactGeometry:
        edge = _edge_at(box, sample.edge)
        u, way = edge.direction, width * edge.half

        def stiffness(contact: ContactGeometry) -> Scalar:
            return dot(u, matrix_vector(contact.relative_curvature, u))

        def step(state: _Slide) -> _Slide:
            contact = contact_of(at(edge, state.place), 0.0, field)
            k, slope = stiffness(contact), dot(u, contact.normal)
            # where the distance is not convex, downhill
            convex = k * way > LEVEL_SLOPE
            move = where(convex, slope / where(convex, k, 1.0), way * sign(slope)) / edge.half
            move = clamp(move, -0.5 * width, 0.5 * width)
            place = clamp(state.place + move, sample.place - width, sample.place + width)
            return _Slide(place, place - state.place)

        found = while_loop(
            lambda state: state.step * state.step > SQUARED_STEP_TOLERANCE,
            step,
            _Slide(sample.place, 1.0),
            MAX_ITERATIONS,
        )
        # a point that is not a minimum touches as well, but does not move over the edge
        place = where(found.converged, found.state.place, sample.place)
        contact: ContactGeometry = contact_of(at(edge, place), 0.0, field)
        k, n = stiffness(contact), contact.normal
        regular = (k * way > LEVEL_SLOPE) & (abs(dot(u, n)) < MIN_CROSSING_SINE)
        factor = where(regular, -1.0 / where(regular, k, 1.0), 0.0)
        bent = matrix_vector(contact.relative_curvature, u)
        rest = add_matrices(contact.first_share, scale_matrix(tangent_projector(n), -1.0))
        shared = scale_matrix(outer(bent, transpose_vector(rest, u)), factor)
        curvature = scale_matrix(outer(bent, bent), factor)
        outward = add(edge.faces[0], edge.faces[1])
        exists = (abs(place) < 1.0) & (dot(n, outward) > 0.0)
        return contact._replace(
            gap=where(exists, contact.gap, NO_CONTACT),
            relative_curvature=add_matrices(contact.relative_curvature, curvature),
            first_share=add_matrices(contact.first_share, shared),
        )

    none = _Sample(NO_CONTACT, 0.0, 0.0)
    best = fixed_loop(12, visit, (none,) * EDGE_MINIMA)
    nothing = NOTHING._replace(point=box.position)
    return [
        where_needed(sample.height < NO_CONTACT, partial(refined, sample), nothing)
        for sample in best
    ]


def _nearest_face(box: Placed, point: Vec3) -> Nearest:
    """Return the face of a box that a point is beyond, or below the least, as the point sees it."""
    arm = subtract(point, box.position)
    found: list[tuple[Scalar, Vec3]] = []
    for k, size in enumerate(box.size):
        place = dot(axis(box, k), arm)
        found.append((abs(place) - 0.5 * size, scale(axis(box, k), sign(place))))
    (best, outward), second = found[0], -NO_CONTACT
    for gap, other in found[1:]:
        farther = gap > best
        second = maximum(second, minimum(gap, best))
        best, outward = select(farther, (gap, other), (best, outward))
    return Nearest(best, outward, ZERO33, second < 0.0)
