"""Contacts of two convex polyhedra: hulls of meshes, and shapes that touch them.

A ball is a polyhedron of one vertex with a radius around it, a capsule one of two. Features are
found by `convex_contact`; they are fixed to their bodies, and gap, point and normal follow from
them as from those of other shapes, with the rates of faces, edges and corners.
"""

from typing import Any

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
    rounded_contact,
    tangent_projector,
    to_world,
)
from tiburon.contact.geometry.vectors import (
    minimum,
    outer,
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
)
from tiburon.trace.primitives.convex_contact import (
    EDGES,
    FIRST_FACE,
    MANIFOLD,
    POINT,
    POINTS,
    convex_contact,
)
from tiburon.trace.value import where

FACE_CONTACTS = 7
"""Contacts on a face of hulls: a corner has one of its own if it turns by more than 1 / 7 of a
circle, as up to hexagons."""

HULL_HULL_POINTS = FACE_CONTACTS + 1
"""Contacts of hulls: those on a face, and the closest points where these are none of them."""

ROD_POINTS = 3
"""Contacts of a capsule with a hull: the parts of its axis over a face, and the closest points."""

FIRST_ROW, ROW_COUNT, BOUND, INSCRIBED, HEADER, RADIUS, EXTENTS, ADDRESS, NEAR = (*range(7), 9, 10)
"""Dimensions of a placed polyhedron: its rows among the vertices; the radii of spheres around and
inside it; the place of its links, the radius around it, how far it extends along each axis from its
origin, the address of the vertices, and the distance from which on there are no contacts."""

OWN_DIMENSIONS = ADDRESS
"""Dimensions of a polyhedron itself, the first ones."""

ANY_DISTANCE = 1e300
"""That of contacts however far the shapes are apart."""


def hull_hull(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of two hulls, on a face and at the closest points."""
    return _contacts(first, second, FACE_CONTACTS)


def rod_hull(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contacts of a capsule with a hull, on a face and at the closest points."""
    return _contacts(first, second, 2)


def ball_hull(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact of a ball with a hull."""
    return _contacts(first, second, 0)


def _contacts(first: Placed, second: Placed, on_face: int) -> tuple[ContactGeometry, ...]:
    axes = [axis(first, k) for k in range(3)]
    others = [axis(second, k) for k in range(3)]
    apart = subtract(second.position, first.position)
    pose = [*(dot(a, b) for a in axes for b in others), *(dot(a, apart) for a in axes)]
    size = minimum(first.size[BOUND], second.size[BOUND])
    rows = (first.size[ADDRESS], first.size[HEADER], second.size[HEADER])
    radii = first.size[RADIUS], second.size[RADIUS]
    near = minimum(first.size[NEAR], second.size[NEAR]) + radii[0] + radii[1]
    found = convex_contact(on_face, rows, pose, size, near)
    is_first = found[0] > 0.5
    normals = []
    for place, mine in ((1, is_first), (4, found[0] < 0.5)):
        local = _vector(found, place)
        turned = [matrix_vector(body.rotation, local) for body in (first, second)]
        normals.append((select(mine, *turned), where(mine, 1.0, 0.0)))
    contacts = []
    for k in range(on_face):
        place = MANIFOLD + POINT * k
        a, b = to_world(first, _vector(found, place)), to_world(second, _vector(found, place + 3))
        # the normal turns with the body that has the face
        n, share = select(found[place + 7] > 0.5, normals[1], normals[0])
        turning = scale_matrix(tangent_projector(n), share)
        one = _between(a, b, n, radii)._replace(first_share=turning)
        contacts.append(one._replace(gap=where(found[place + 6] > 0.5, one.gap, NO_CONTACT)))
    closest = _closest(first, second, found[MANIFOLD + POINT * on_face :], radii)
    return (*contacts, closest)


def _vector(numbers: Any, place: int) -> Vec3:
    x, y, z = numbers[place : place + 3]
    return x, y, z


def _between(a: Vec3, b: Vec3, n: Vec3, radii: tuple[Scalar, Scalar]) -> ContactGeometry:
    """Return the contact of spheres around two points along a normal."""
    gap = dot(n, subtract(b, a)) - radii[0] - radii[1]
    on_first, on_second = add(a, scale(n, radii[0])), subtract(b, scale(n, radii[1]))
    return ContactGeometry(gap, scale(add(on_first, on_second), 0.5), n)


def _closest(
    first: Placed, second: Placed, found: Any, radii: tuple[Scalar, Scalar]
) -> ContactGeometry:
    """Return the contact of the closest features."""
    kind = found[1]
    a, b = to_world(first, _vector(found, 2)), to_world(second, _vector(found, 5))
    is_first = kind < FIRST_FACE + 0.5
    local = _vector(found, 8)
    turned = matrix_vector(first.rotation, local)
    n = select(is_first, turned, matrix_vector(second.rotation, local))
    share = scale_matrix(tangent_projector(n), where(is_first, 1.0, 0.0))
    face = _between(a, b, n, radii)._replace(first_share=share)
    u1 = matrix_vector(first.rotation, _vector(found, 11))
    u2 = matrix_vector(second.rotation, _vector(found, 14))
    edges = _edges(a, b, (u1, u2), turned, radii)
    # closest points slide on edges; on parallel ones together
    u2 = scale(u2, where(dot(u1, u1) > 0.5, 0.0, 1.0))
    apart = subtract(b, a)
    apart = subtract(apart, add(scale(u1, dot(u1, apart)), scale(u2, dot(u2, apart))))
    points = rounded_contact(
        a, apart, *radii, turned, first_free=outer(u1, u1), second_free=outer(u2, u2)
    )
    one: ContactGeometry = select(
        kind > POINTS - 0.5, points, select(kind > EDGES - 0.5, edges, face)
    )
    return one._replace(gap=where(found[0] > 0.5, one.gap, NO_CONTACT))


def _edges(
    a: Vec3, b: Vec3, ways: tuple[Vec3, Vec3], toward: Vec3, radii: tuple[Scalar, Scalar]
) -> ContactGeometry:
    """Return the contact of two edges that cross, along their common normal."""
    u1, u2 = ways
    n, _ = unit(cross(u1, u2), toward)
    n = scale(n, sign(dot(n, toward)))
    across = cross(n, u2)
    divisor = dot(across, u1)
    safe = abs(divisor) > 0.0
    inverse = where(safe, 1.0 / where(safe, divisor, 1.0), 0.0)
    share = scale_matrix(outer(across, u1), inverse)
    return _between(a, b, n, radii)._replace(first_share=share, relative_curvature=ZERO33)
