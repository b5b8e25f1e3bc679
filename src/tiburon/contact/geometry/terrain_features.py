"""Peaks and ridges of a height field that touch a convex shape.

Points of a shape that meet the triangles below them do not see what rises between them: the peak
under a box, the ridge under a capsule, the rim of a ledge. These are vertices and edges of the
terrain that touch the shape, each at one point. An edge or vertex counts if the normal of the
contact lies among the normals of the triangles around it, so that coplanar triangles have no
contacts at their edges, and shapes slide over them undisturbed.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ZERO33,
    ContactGeometry,
    Placed,
    exchanged,
    in_order,
    inserted,
)
from tiburon.contact.geometry.vectors import (
    clamp,
    maximum,
    perpendicular,
    root,
    select,
)
from tiburon.spatial.vec3 import (
    Mat3,
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
from tiburon.trace.primitives.grid_patch import read_patch
from tiburon.trace.regions import fixed_loop, function, where_needed
from tiburon.trace.value import unary, where

PointContacts = Callable[[Vec3], tuple[ContactGeometry, ...]]
"""Contacts of a point of the terrain with the shape, from the point to the shape: the nearest, and
for a point inside a shape with several faces those with the others."""

EdgeContacts = Callable[..., tuple[ContactGeometry, ...]]
"""Contacts of an edge of the terrain with the shape, from its start and the edge, world axes, and
for shapes with a `radius` the direction out of the ground and the arms from the start to the
opposite corners of both triangles beside it."""

NORMAL_CONE_MARGIN = 1e-6
"""Sine by which a normal may be beyond those of the triangles around an edge or vertex."""

MAX_LEAN = 0.1
"""Sine by which the normal of a contact of an edge may lean along the edge."""

MARGIN = 1e-12
"""Fraction of a cell by which a foot may be beyond a triangle: rounding must not open a hole
between triangles, nor count a place twice."""

MIN_FALL = 1e-3
"""Sine by which a triangle must fall off beside an edge or vertex that touches by itself."""

ABSENT_CONTACT = ContactGeometry(NO_CONTACT, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))
"""A contact that does not exist."""


class _Touch(NamedTuple):
    gap: Scalar
    point: Vec3
    normal: Vec3
    relative_curvature: Mat3
    first_share: Mat3


def ridge_contacts(
    center: Vec3,
    field: Placed,
    reach: int,
    count: int,
    point_contacts: PointContacts,
    edge_contacts: EdgeContacts,
    radius: Scalar | None = None,
    edge_count: int = 2,
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of a shape with vertices and edges of a height field, from the shape.

    Those of smallest gap, in an order of their places; unused ones have the gap `NO_CONTACT`.

    Args:
        center: Origin of the shape, world axes [m].
        field: The height field.
        reach: Cells around it that the shape covers; `reach_of`.
        count: Number of contacts.
        point_contacts: Contacts of a point with the shape; of those that a vertex can have, the
            shallowest counts.
        edge_contacts: Contacts of an edge with the shape.
        radius: Of the sphere around the shape [m]: edges that are farther from it than the spacing
            of the grid are passed over; none by default.
        edge_count: Contacts of an edge with a shape that has a radius.
    """
    dx, dy, *handle = field.size
    local = transpose_vector(field.rotation, subtract(center, field.position))
    side = 2 * reach + 1
    i = unary("floor", local[0] / dx + 0.5) - float(reach)
    j = unary("floor", local[1] / dy + 0.5) - float(reach)
    at_vertex, at_edge = function(point_contacts), function(edge_contacts)
    up = (field.rotation[0][2], field.rotation[1][2], field.rotation[2][2])

    def touches(
        vertex: Vec3, edge: Vec3, e: Vec3, beside: list[Vec3], opposite: list[Vec3]
    ) -> tuple[ContactGeometry, ...]:
        """Return the contacts of an edge: none where the ground does not fall off beside it."""
        if radius is None:
            return tuple(at_edge(vertex, edge))
        inward = (0.0, 0.0, 0.0)
        for arm in beside:
            inward = add(inward, scale(arm, 1.0 / root(dot(arm, arm))))
        to_center = subtract(center, vertex)
        along = clamp(dot(e, to_center), 0.0, dot(e, edge))
        apart = subtract(to_center, scale(e, along))
        limit = radius + maximum(dx, dy)
        sees = (dot(up, inward) < -MIN_FALL) & (dot(apart, apart) < limit * limit)
        outward = scale(inward, -1.0)
        found: tuple[ContactGeometry, ...] = where_needed(
            sees,
            lambda: tuple(at_edge(vertex, edge, outward, opposite)),
            (ABSENT_CONTACT,) * edge_count,
        )
        return found

    def visit(index: Scalar, best: tuple[_Touch, ...]) -> tuple[_Touch, ...]:
        a = unary("floor", (index + 0.5) * (1.0 / side))
        row, column = i + a, j + (index - side * a)
        z = read_patch(3, handle, row - 1.0, column - 1.0)
        here = (row * dx, column * dy, z[1][1])
        vertex = add(field.position, matrix_vector(field.rotation, here))

        def to(p: int, q: int) -> Vec3:
            arm = (float(p) * dx, float(q) * dy, z[1 + p][1 + q] - z[1][1])
            return matrix_vector(field.rotation, arm)

        around = [to(*k) for k in ((1, 0), (1, 1), (0, 1), (-1, 0), (-1, -1), (0, -1))]
        best = inserted(best, _seen(_on_vertex(at_vertex(vertex), around), center), _gap)
        # edges to (1, 0), (1, 1) and (0, 1), with the opposite corners of both triangles
        for k, others in ((0, (1, 5)), (1, (0, 2)), (2, (1, 3))):
            edge = around[k]
            e = scale(edge, 1.0 / root(dot(edge, edge)))
            # into both triangles, across the edge
            opposite = [around[o] for o in others]
            beside = [subtract(arm, scale(e, dot(e, arm))) for arm in opposite]
            for contact in touches(vertex, edge, e, beside, opposite):
                s = dot(subtract(contact.point, vertex), edge) / dot(edge, edge)
                best = inserted(best, _seen(_on_edge(contact, e, s, beside), center), _gap)
        return best

    none = _Touch(NO_CONTACT, center, up, ZERO33, ZERO33)
    best = fixed_loop(side * side, visit, (none,) * count)
    along = matrix_vector(field.rotation, (0.8, 0.6, 0.0))
    return tuple(exchanged(ContactGeometry(*one)) for one in _ordered(best, along))


def face_contacts(
    extremes: Callable[[Vec3], tuple[Vec3, ...]],
    center: Vec3,
    under: ContactGeometry,
    field: Placed,
    reach: int,
    count: int,
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of a convex shape with triangles of a height field, from the shape.

    A triangle counts if the shape is lowest over it, of all places over its plane. Those of
    smallest gap, in an order of their places; unused ones have the gap `NO_CONTACT`. A shape whose
    center is below the ground has the contact with the plane that is nearest to its center.

    Args:
        extremes: Points of the shape that are extreme in a direction, world axes [m]: one of an
            ellipsoid, one of each rim of a cylinder.
        center: Origin of the shape, world axes [m].
        under: Contact of the center with the height field.
        field: The height field.
        reach: Cells around it that the shape covers; `reach_of`.
        count: Number of contacts.
    """
    dx, dy, *handle = field.size
    local = transpose_vector(field.rotation, subtract(center, field.position))
    side = 2 * reach + 2
    i = unary("floor", local[0] / dx) - float(reach)
    j = unary("floor", local[1] / dy) - float(reach)
    lowest = function(extremes)

    def visit(index: Scalar, best: tuple[_Touch, ...]) -> tuple[_Touch, ...]:
        a = unary("floor", (index + 0.5) * (1.0 / side))
        row, column = i + a, j + (index - side * a)
        (z00, z01), (z10, z11) = read_patch(2, handle, row, column)
        vertex = (row * dx, column * dy, z00)
        for lower, x, y in ((True, z10 - z00, z11 - z10), (False, z11 - z01, z01 - z00)):
            slope = (x / dx, y / dy)
            w = 1.0 / root(1.0 + slope[0] * slope[0] + slope[1] * slope[1])
            n = (-slope[0] * w, -slope[1] * w, w)
            outward = matrix_vector(field.rotation, n)
            above = dot(n, subtract(local, vertex)) > 0.0
            for point in lowest(scale(outward, -1.0)):
                place = transpose_vector(field.rotation, subtract(point, field.position))
                arm = subtract(place, vertex)
                gap = dot(n, arm)
                t, u = (arm[0] - gap * n[0]) / dx, (arm[1] - gap * n[1]) / dy
                long, short = (t, u) if lower else (u, t)
                inside = (short >= -MARGIN) & (long <= 1.0 + MARGIN) & (short <= long + MARGIN)
                middle = subtract(point, scale(outward, 0.5 * gap))
                found = _Touch(gap, middle, scale(outward, -1.0), ZERO33, ZERO33)
                for one in best:
                    # on an edge of coplanar triangles, both
                    apart = subtract(one.point, middle)
                    inside = inside & (dot(apart, apart) > MARGIN * MARGIN * dx * dx)
                found = found._replace(gap=where(above & inside, gap, NO_CONTACT))
                best = inserted(best, found, _gap)
        return best

    down = matrix_vector(field.rotation, (0.0, 0.0, -1.0))
    none = _Touch(NO_CONTACT, center, down, ZERO33, ZERO33)
    foot = add(under.point, scale(under.normal, 0.5 * under.gap))
    first = none
    for point in lowest(under.normal):
        gap = -dot(under.normal, subtract(point, foot))
        middle = add(point, scale(under.normal, 0.5 * gap))
        deep = _Touch(gap, middle, under.normal, ZERO33, ZERO33)
        first = select((under.gap <= 0.0) & (gap < first.gap), deep, first)
    best = fixed_loop(side * side, visit, (first, *(none,) * (count - 1)))
    along = matrix_vector(field.rotation, (0.8, 0.6, 0.0))
    return tuple(ContactGeometry(*one) for one in _ordered(best, along))


def falls_off(normal: Vec3, arms: list[Vec3]) -> tuple[Scalar, Scalar]:
    """Return whether terrain along all arms is below a tangent plane, and some clearly."""
    below: Scalar = True
    clearly: Scalar = False
    for arm in arms:
        length = root(dot(arm, arm))
        rise = dot(normal, arm)
        below = below & (rise <= NORMAL_CONE_MARGIN * length)
        clearly = clearly | (rise < -MIN_FALL * length)
    return below, clearly


def _seen(touch: _Touch, center: Vec3) -> _Touch:
    """Return a contact; it does not exist where the center of the shape is below its plane."""
    above = dot(touch.normal, subtract(center, touch.point)) > -0.5 * touch.gap
    return touch._replace(gap=where(above, touch.gap, NO_CONTACT))


def _on_vertex(contacts: Sequence[ContactGeometry], around: list[Vec3]) -> _Touch:
    """Return the shallowest contact of a vertex at which no terrain around it is higher."""
    found = _Touch(*contacts[0])._replace(gap=NO_CONTACT)
    for contact in contacts:
        below, clearly = falls_off(contact.normal, around)
        shallower = (found.gap >= NO_CONTACT) | (contact.gap > found.gap)
        exists = below & clearly & (contact.gap < NO_CONTACT) & shallower
        found = select(exists, _Touch(*contact), found)
    return found


def _on_edge(contact: ContactGeometry, e: Vec3, s: Scalar, beside: list[Vec3]) -> _Touch:
    """Return the contact of an inner point of an edge, at a normal across the edge."""
    below, clearly = falls_off(contact.normal, beside)
    exists = (
        (s > NORMAL_CONE_MARGIN)
        & (s < 1.0 - NORMAL_CONE_MARGIN)
        & (abs(dot(e, contact.normal)) < MAX_LEAN)
    )
    exists = exists & below & clearly
    return _Touch(*contact._replace(gap=where(exists, contact.gap, NO_CONTACT)))


def segment(vertex: Vec3, edge: Vec3) -> Placed:
    """Return an edge as a capsule of radius 0."""
    length = root(dot(edge, edge))
    z = scale(edge, 1.0 / length)
    x = perpendicular(z)
    y = cross(z, x)
    rotation = ((x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2]))
    return Placed(rotation, add(vertex, scale(edge, 0.5)), (0.0, length))


def nearest_contacts(
    contacts: Sequence[ContactGeometry], count: int, field: Placed
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of smallest gap, in an order of their places.

    Args:
        contacts: Contacts of a shape with a height field.
        count: How many of them.
        field: The height field.
    """
    best = (_Touch(*contacts[0])._replace(gap=NO_CONTACT),) * count
    for contact in contacts:
        best = inserted(best, _Touch(*contact), _gap)
    along = matrix_vector(field.rotation, (0.8, 0.6, 0.0))
    return tuple(ContactGeometry(*one) for one in _ordered(best, along))


def _gap(touch: _Touch) -> Scalar:
    return touch.gap


def _ordered(touches: Sequence[_Touch], along: Vec3) -> list[_Touch]:
    """Return touches in an order of their places, which lasts while gaps change."""
    return in_order(touches, _gap, lambda touch: dot(along, touch.point))
