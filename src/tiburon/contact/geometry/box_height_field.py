"""Contacts of a box with a height field."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tiburon.contact.geometry.box_box import facing_face
from tiburon.contact.geometry.box_plane import box_corners
from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
)
from tiburon.contact.geometry.height_field import NEAR, Reach, terrain_contacts
from tiburon.contact.geometry.smooth_height_field import (
    Nearest,
    hill_contacts,
    smooth_terrain_contact,
)
from tiburon.contact.geometry.sphere_box import point_box
from tiburon.contact.geometry.terrain_features import ridge_contacts
from tiburon.contact.geometry.vectors import (
    maximum,
    minimum,
    outer,
    root,
    scale_matrix,
    select,
    sign,
    unit,
)
from tiburon.spatial.vec3 import Scalar, Vec3, add, cross, dot, negate, scale, subtract
from tiburon.trace.regions import function
from tiburon.trace.value import where

__all__ = ["box_height_field", "box_smooth_height_field"]

MIN_CROSSING_SINE = 1e-6
"""Sine of the angle above which edges cross."""


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
    """Return eight contacts with smooth terrain: of corners, and of hills below faces.

    Corners and hills share them as corners and ridges do in `box_height_field`.

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
    return _nearest(corners, hill_contacts(face, first.position, bound, second, reach.body, 4))


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
