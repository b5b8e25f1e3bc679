"""Contacts of a box with a height field."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple, cast

from tiburon.contact.geometry.box_plane import box_corners
from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
    face_contact,
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
from tiburon.contact.geometry.terrain_features import (
    ABSENT_CONTACT,
    falls_off,
    nearest_contacts,
    ridge_contacts,
)
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
    scale,
    subtract,
    transpose_vector,
)
from tiburon.trace.regions import fixed_loop, function, where_needed, while_loop
from tiburon.trace.value import unary, where

MIN_CROSSING_SINE = 1e-6
"""Sine of the angle above which edges cross."""

SHALLOW = 0.1
"""Depth up to which the nearest face, of a box or of the ground, gives way to one behind which all
of the other body is, relative to the smallest edge."""

MAX_RATIO = 16.0
"""Depth of crossing edges relative to that of the edge of the terrain in the box, at most: up to 3
where it enters and leaves the box, more where one of the edges ends between."""

OVERSHOOT = 8.0
"""How far edges may cross beyond their ends, relative to the depth of the edge of the terrain: at a
vertex with higher ground around it, and at a corner of the box, neither has a contact."""

END_MARGIN = 1e-5
"""Share of an edge of the terrain near its ends where crossings do not lie."""

EQUAL_DEPTH = 1e-3
"""Difference of depths along axes that both count, relative to the smallest edge of the box."""

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
    """
    contact_of = function(terrain_contacts)
    corners = []
    for corner, signs in zip(box_corners(first), product((-1.0, 1.0), repeat=3), strict=True):
        edges = [scale(axis(first, k), -side) for k, side in enumerate(signs)]
        margin = SHALLOW * _smallest(first)
        corners.append(contact_of(corner, 0.0, second, 1, 1, edges, margin)[0])
    x, y, z = first.size
    ridges = ridge_contacts(
        first.position,
        second,
        reach.body,
        4,
        lambda point: _vertex_contacts(point, first),
        lambda start, edge, outward, opposite: _crossings(start, edge, outward, opposite, first),
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


def _vertex_contacts(point: Vec3, box: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of a point with a box: the nearest, and from inside with all near faces.

    The normal of the nearest face may lead into the ground beside a vertex that is inside the box.
    """
    contacts = [point_box(point, 0.0, box)]
    arm = subtract(point, box.position)
    for k, size in enumerate(box.size):
        height = dot(axis(box, k), arm)
        outward = scale(axis(box, k), sign(height))
        face = face_contact(point, 0.0, add(box.position, scale(outward, 0.5 * size)), outward)
        near = (contacts[0].gap < 0.0) & (face.gap > -SHALLOW * _smallest(box))
        gap = where(near, face.gap, NO_CONTACT)
        contacts.append(face._replace(gap=gap))
    return tuple(contacts)


class _Crossing(NamedTuple):
    """An edge of the terrain and one of a box."""

    gap: Scalar
    """Gap along the normal of both [m]; `NO_CONTACT` if they do not touch."""

    place: Scalar
    """Where they do, from the start of the edge of the terrain [m]."""

    normal: Vec3
    direction: Vec3
    """Of the edge of the box."""


def _crossings(
    start: Vec3, edge: Vec3, outward: Vec3, opposite: Sequence[Vec3], box: Placed
) -> tuple[ContactGeometry, ...]:
    """Return crossings of an edge of the terrain with edges of a box: the shallowest, or two alike.

    With the edges of a box along one of its axes it has one normal. The edge of the box that is
    extreme along the normal touches, and the one on the other side of the same face where the
    normal is that of the face. Between these two, an edge of the terrain along the face touches at
    no other place that would hold the box.

    Args:
        start: One end of the edge, world axes [m].
        edge: From there to the other end [m].
        outward: Direction out of the ground.
        opposite: Arms from there to the opposite corners of both triangles beside it [m].
        box: The box.
    """
    length = root(dot(edge, edge))
    e = scale(edge, 1.0 / length)
    between = subtract(box.position, start)
    best = (_Crossing(-NO_CONTACT, 0.0, outward, axis(box, 0)),) * 2
    sides = [subtract(arm, scale(e, dot(e, arm))) for arm in opposite]
    depth, least = _overlap(between, edge, opposite, box)
    beyond, margin = OVERSHOOT * depth, EQUAL_DEPTH * _smallest(box)
    deepest = maximum(-MAX_RATIO * depth, 2.0 * least) - margin
    for k in range(3):
        u = axis(box, k)
        n, sine = unit(cross(e, u), outward)
        n = scale(n, sign(dot(n, outward)))
        across = cross(n, u)
        divisor = dot(across, e)
        below, clearly = falls_off(n, sides)
        usable = (abs(divisor) > MIN_CROSSING_SINE) & (sine > MIN_CROSSING_SINE) & below & clearly
        inverse = where(usable, 1.0 / where(usable, divisor, 1.0), 0.0)
        # the face that is above the terrain, and the one beside it
        faces = [(axis(box, i), 0.5 * box.size[i]) for i in ((k + 1) % 3, (k + 2) % 3)]
        turned = abs(dot(n, faces[0][0])) < abs(dot(n, faces[1][0]))
        (above, depth), (beside, width) = select(turned, tuple(faces[::-1]), tuple(faces))
        lowest = subtract(between, scale(above, sign(dot(n, above)) * depth))
        for side in (-1.0, 1.0):
            arm = add(lowest, scale(beside, side * width))
            place, gap = dot(across, arm) * inverse, dot(n, arm)
            along = dot(u, subtract(scale(e, place), arm))
            exists = usable & (place > -beyond) & (place < length + beyond)
            exists = exists & (side * dot(n, beside) < MIN_CROSSING_SINE)
            exists = exists & (abs(along) <= 0.5 * box.size[k] + beyond) & (gap >= deepest)
            place = clamp(place, END_MARGIN * length, (1.0 - END_MARGIN) * length)
            found = _Crossing(where(exists, gap, -NO_CONTACT), place, n, u)
            kept = []
            for one in best:
                shallower = found.gap > one.gap
                kept.append(select(shallower, found, one))
                found = select(shallower, one, found)
            best = (kept[0], kept[1])
    contacts = []
    deepest = minimum(2.0 * best[0].gap, 0.0) - margin
    for one in best:
        # both edges turn with their bodies, as in `crossing`
        across = cross(one.normal, one.direction)
        divisor = dot(across, e)
        exists = (one.gap > -NO_CONTACT) & (one.gap >= deepest)
        gap = where(exists, one.gap, NO_CONTACT)
        inverse = where(exists, 1.0 / where(exists, divisor, 1.0), 0.0)
        point = add(add(start, scale(e, one.place)), scale(one.normal, 0.5 * gap))
        share = scale_matrix(outer(across, e), inverse)
        contacts.append(ContactGeometry(gap, point, one.normal, ZERO33, share))
    return tuple(contacts)


def _overlap(
    between: Vec3, edge: Vec3, opposite: Sequence[Vec3], box: Placed
) -> tuple[Scalar, Scalar]:
    """Return how deep an edge of the terrain is in a box, and the gap that both have at least [m].

    The depth is that of the middle of what is inside, which is at least half of the largest. The
    triangles beside the edge need not move farther than along the normal of one of the faces: a
    ridge that pokes a little through a face may be far below an edge that it passes.

    Args:
        between: From the start of the edge to the center of the box [m].
        edge: From there to the other end [m].
        opposite: From there to the opposite corners of both triangles beside it [m].
        box: The box.
    """
    apart: Scalar = -NO_CONTACT
    first, last = 0.0, 1.0
    for k, size in enumerate(box.size):
        start = -dot(axis(box, k), between)
        rate = dot(axis(box, k), edge)
        safe = where(abs(rate) > 0.0, rate, 1e-300)
        ends = [(side * 0.5 * size - start) / safe for side in (-1.0, 1.0)]
        first = maximum(first, minimum(*ends))
        last = minimum(last, maximum(*ends))
        lowest = highest = start
        for arm in (edge, *opposite):
            end = start + dot(axis(box, k), arm)
            lowest, highest = minimum(lowest, end), maximum(highest, end)
        apart = maximum(apart, maximum(lowest, -highest) - 0.5 * size)
    middle = subtract(scale(edge, 0.5 * (first + last)), between)
    depth: Scalar = NO_CONTACT
    for k, size in enumerate(box.size):
        depth = minimum(depth, 0.5 * size - abs(dot(axis(box, k), middle)))
    return where(first < last, maximum(depth, 0.0), 0.0), minimum(apart, 0.0)


def _smallest(box: Placed) -> Scalar:
    """Return the smallest edge of a box [m]."""
    return minimum(box.size[0], minimum(box.size[1], box.size[2]))


def box_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return eight contacts with smooth terrain: of corners, edges, and hills below faces.

    Corners share them with edges and hills as with ridges in `box_height_field`.
    """
    contact_of = function(smooth_terrain_contact)
    corners = [contact_of(corner, 0.0, second) for corner in box_corners(first)]
    x, y, z = first.size
    bound = 0.5 * root(x * x + y * y + z * z)
    face = partial(_nearest_face, first)
    hills = hill_contacts(face, first.position, bound, second, reach.body, 4)
    edges = _edge_contacts(first, second, SAMPLES_PER_CELL * (2 * reach.body - 1))
    return _nearest(corners, nearest_contacts([*hills, *edges], 4, second))


class _Edge(NamedTuple):
    """An edge of a box, world axes."""

    direction: Vec3
    half: Scalar
    """Half its length [m]."""

    middle: Vec3
    """Its middle [m]."""

    faces: tuple[Vec3, Vec3]
    """Outward normals of the faces that it bounds."""


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
    nothing = ABSENT_CONTACT._replace(point=box.position)
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
