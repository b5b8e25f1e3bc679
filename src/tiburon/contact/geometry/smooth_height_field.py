"""Contact of convex bodies with smooth terrain: a bicubic surface through the heights of a grid.

Between four heights along each axis runs the cubic of Catmull and Rom: the surface passes through
all heights, has a continuous normal, and reproduces quadratic ground exactly. Newton's method finds
the foot of the perpendicular from the center. Symbols: z = h(x, y), e1 = (1, 0, hx) and
e2 = (0, 1, hy) tangents, I and II the fundamental forms.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ContactGeometry,
    Placed,
    axis,
    in_order,
    inserted,
)
from tiburon.contact.geometry.vectors import (
    maximum,
    minimum,
    outer,
    root,
    scale_matrix,
    select,
    unit,
)
from tiburon.spatial.vec3 import (
    Mat3,
    Scalar,
    Vec3,
    add,
    cross,
    dot,
    matrix_vector,
    negate,
    rotate_general,
    scale,
    subtract,
    transpose_vector,
)
from tiburon.trace.primitives.grid_patch import read_patch
from tiburon.trace.regions import fixed_loop, function, where_needed, while_loop
from tiburon.trace.value import unary, where

MAX_ITERATIONS = 30
"""Most iterations; terrain whose curvature radii exceed the distance needs about 5."""

SQUARED_STEP_TOLERANCE = 1e-24
"""Squared step at which Newton's method ends, relative to the spacing."""

MAX_TRAVEL_CELLS = 1.5
"""Cells that Newton's method may move away from a vertex at which it begins: what is farther away
is nearer to another one."""

SINGLE_HILL_RADIUS = 0.25
"""Radius of bodies, relative to the spacing, that touch one hill: ground with two within their
reach would be steeper than 45 degrees."""

MIN_HILL_CURVATURE = 1e-4
"""Curvature of the distance, relative to half the spacing, below which a hill is flat: edges and
rims of a body touch it."""

SAME_PLACE_DISTANCE = 0.1
"""Distance of places, relative to the spacing, below which they are one."""


class _Surface(NamedTuple):
    """Height of the terrain and its derivatives at a place."""

    h: Scalar
    x: Scalar
    y: Scalar
    xx: Scalar
    xy: Scalar
    yy: Scalar


class _Place(NamedTuple):
    x: Scalar
    y: Scalar
    step: Scalar


def smooth_terrain_contact(center: Vec3, radius: Scalar, field: Placed) -> ContactGeometry:
    """Return the contact of a sphere with smooth terrain, at the foot below its center.

    One contact: valleys that are narrower than the sphere are touched on one side. Where the center
    is so far from strongly curved ground that no foot is found, the gap is that to the tangent
    plane under the center.

    Args:
        center: Center of the sphere, world axes [m].
        radius: Its radius [m]; 0 for a point.
        field: The height field; beyond its border it goes on at the heights of the border.
    """
    cx, cy, cz = transpose_vector(field.rotation, subtract(center, field.position))
    dx, dy, *_ = field.size

    def step(place: _Place) -> _Place:
        s = _surface(place.x, place.y, field.size)
        below = s.h - cz
        g1, g2 = place.x - cx + below * s.x, place.y - cy + below * s.y
        metric = (1.0 + s.x * s.x, s.x * s.y, 1.0 + s.y * s.y)
        a, b, d = metric[0] + below * s.xx, metric[1] + below * s.xy, metric[2] + below * s.yy
        # where the distance is not convex, without curvature
        convex = (a > 0.0) & (a * d - b * b > 0.01 * (metric[0] * metric[2]))
        a, b, d = (where(convex, p, q) for p, q in zip((a, b, d), metric, strict=True))
        inverse = 1.0 / (a * d - b * b)
        u, v = (d * g1 - b * g2) * inverse, (a * g2 - b * g1) * inverse
        return _Place(place.x - u, place.y - v, (u * u + v * v) / (dx * dy))

    found = while_loop(
        lambda p: p.step > SQUARED_STEP_TOLERANCE, step, _Place(cx, cy, 1.0), MAX_ITERATIONS
    )
    x, y = (where(found.converged, p, q) for p, q in zip(found.state[:2], (cx, cy), strict=True))
    s = _surface(x, y, field.size)
    w = 1.0 / root(1.0 + s.x * s.x + s.y * s.y)
    outward = (-s.x * w, -s.y * w, w)
    distance = outward[0] * (cx - x) + outward[1] * (cy - y) + outward[2] * (cz - s.h)
    gap = distance - radius
    reach = radius + 0.5 * gap
    curvature = rotate_general(field.rotation, _relative_curvature(s, w, distance))
    normal = matrix_vector(field.rotation, outward)
    share = tuple(scale(row, reach) for row in curvature)
    return ContactGeometry(
        gap,
        subtract(center, scale(normal, reach)),
        negate(normal),
        curvature,
        (share[0], share[1], share[2]),
    )


def smooth_height(point: Vec3, field: Placed) -> Scalar:
    """Return the distance of a point from the tangent plane of smooth terrain below it [m]."""
    x, y, z = transpose_vector(field.rotation, subtract(point, field.position))
    s = _surface(x, y, field.size)
    return (z - s.h) / root(1.0 + s.x * s.x + s.y * s.y)


def smooth_clearance(point: Vec3, direction: Vec3, field: Placed) -> tuple[Scalar, Scalar]:
    """Return `smooth_height`, and how fast a point rises over the ground along a direction.

    Args:
        point: The point, world axes [m].
        direction: The direction, world axes.
        field: The height field.
    """
    x, y, z = transpose_vector(field.rotation, subtract(point, field.position))
    u, v, w = transpose_vector(field.rotation, direction)
    s = _surface(x, y, field.size)
    return (z - s.h) / root(1.0 + s.x * s.x + s.y * s.y), w - s.x * u - s.y * v


def smooth_terrain_height(x: Scalar, y: Scalar, field: Placed) -> tuple[Scalar, Scalar]:
    """Return the height of the terrain at a place, and the vertical component of its unit normal.

    Args:
        x: Place in the world [m].
        y: Likewise.
        field: The height field.
    """
    local = transpose_vector(field.rotation, subtract((x, y, 0.0), field.position))
    s = _surface(local[0], local[1], field.size)
    return s.h - local[2], 1.0 / root(1.0 + s.x * s.x + s.y * s.y)


Support = Callable[[Vec3], tuple[Vec3, Mat3]]
"""Extreme point of a body in a direction, world axes [m], and the radii tensor of its surface or
rim there: the derivative of the point by the direction [m]."""

Matrix2 = tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]]


class _Found(NamedTuple):
    """A place of the terrain that touches a body."""

    gap: Scalar
    x: Scalar
    y: Scalar


def smooth_support_contacts(
    support: Support, center: Vec3, radius: Scalar, field: Placed, reach: int, count: int
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of a convex body with smooth terrain, in an order of their places.

    Newton's method looks for the places of the terrain whose normal meets the body at its extreme
    point in the opposite direction: e_i . (p - x) = 0 for both tangents. With the metric I, the
    second derivatives H of the height and the radii R of the body,

        J = (p - x)_z H + w E^T R E I^-1 H - I

    A body over uneven ground has several such places, one for each hill that it may touch: the
    method starts from below the extreme point for the normal under the center, and from all
    vertices of the grid near the body. Places whose tangent plane is above the center are on the
    far side of a hill and do not count. One contact always exists: if no place is found, that of
    the extreme point for the normal under the center, as a point.

    Args:
        support: Extreme points of the body.
        center: Its center, world axes [m].
        radius: Of the sphere around the center that contains it [m].
        field: The height field; beyond its border it goes on at the heights of the border.
        reach: Cells around the center that the body covers; `reach_of`.
        count: Number of contacts; those that do not exist have the gap `NO_CONTACT`.
    """
    dx, dy, *_ = field.size

    def local(point: Vec3) -> Vec3:
        return transpose_vector(field.rotation, subtract(point, field.position))

    def extreme(s: _Surface, w: Scalar) -> tuple[Vec3, Matrix2]:
        """Return the extreme point toward a place of the terrain, and E^T R E there."""
        toward = matrix_vector(field.rotation, (s.x * w, s.y * w, -w))
        point, radii = support(toward)
        one, two = (
            matrix_vector(field.rotation, tangent) for tangent in ((1.0, 0.0, s.x), (0.0, 1.0, s.y))
        )
        along, across = matrix_vector(radii, one), matrix_vector(radii, two)
        mixed = dot(two, along)
        return local(point), ((dot(one, along), mixed), (mixed, dot(two, across)))

    def step(place: _Place) -> _Place:
        s = _surface(place.x, place.y, field.size)
        w = 1.0 / root(1.0 + s.x * s.x + s.y * s.y)
        p, R = extreme(s, w)
        above = p[2] - s.h
        g1, g2 = p[0] - place.x + above * s.x, p[1] - place.y + above * s.y
        metric, H = _forms(s)
        turned = _product(_product(R, _inverse(metric)), H)
        J: Matrix2 = tuple(
            tuple(metric[i][j] - above * H[i][j] - w * turned[i][j] for j in range(2))
            for i in range(2)
        )  # type: ignore[assignment]
        # where the distance is not convex, without curvature
        determinant = J[0][0] * J[1][1] - J[0][1] * J[1][0]
        convex = (J[0][0] > 0.0) & (determinant > 0.01 * (metric[0][0] * metric[1][1]))
        (a, b), (c, d) = select(convex, J, metric)
        inverse = 1.0 / (a * d - b * c)
        u, v = (d * g1 - b * g2) * inverse, (a * g2 - c * g1) * inverse
        # no farther than half a cell at once
        longest = 2.0 * maximum(abs(u) / dx, abs(v) / dy)
        factor = 1.0 / maximum(longest, 1.0)
        u, v = factor * u, factor * v
        return _Place(place.x + u, place.y + v, (u * u + v * v) / (dx * dy))

    def gap_at(x: Scalar, y: Scalar) -> tuple[Scalar, _Surface, Scalar, Matrix2]:
        s = _surface(x, y, field.size)
        w = 1.0 / root(1.0 + s.x * s.x + s.y * s.y)
        p, R = extreme(s, w)
        return w * (p[2] - s.h - s.x * (p[0] - x) - s.y * (p[1] - y)), s, w, R

    middle = local(center)

    @function
    def refined(x: Scalar, y: Scalar, way: Scalar) -> _Found:
        """Return the place that Newton's method finds from another one, not too far away."""
        place, converged = _iterated(step, x, y, way, field)
        gap, s, _, _ = gap_at(place.x, place.y)
        above = middle[2] - s.h - s.x * (middle[0] - place.x) - s.y * (middle[1] - place.y)
        # below the center, whatever the depth
        exists = converged & ((above > 0.0) | (way > MAX_TRAVEL_CELLS))
        return _Found(where(exists, gap, NO_CONTACT), place.x, place.y)

    under = _surface(middle[0], middle[1], field.size)
    lowest, _ = extreme(under, 1.0 / root(1.0 + under.x * under.x + under.y * under.y))
    best = _searched(refined, (lowest[0], lowest[1]), middle, radius, field, reach, count)
    geometry = function(_support_geometry)
    contacts = []
    for one in _ordered(best):
        gap, s, w, R = gap_at(one.x, one.y)
        exists = one.gap < NO_CONTACT
        contact = geometry(one.x, one.y, gap, s, w, R, field)
        contacts.append(contact._replace(gap=where(exists, gap, NO_CONTACT)))
    point = add(field.position, matrix_vector(field.rotation, lowest))
    alone = function(smooth_terrain_contact)(point, 0.0, field)
    return (select(contacts[0].gap < NO_CONTACT, contacts[0], alone), *contacts[1:])


def _iterated(
    step: Callable[[_Place], _Place], x: Scalar, y: Scalar, way: Scalar, field: Placed
) -> tuple[_Place, Scalar]:
    """Return where Newton's method ends, and whether it does near the place where it began.

    Args:
        step: One iteration.
        x: Where it begins, axes of the field [m].
        y: Likewise.
        way: Cells that it may move away from there.
        field: The height field.
    """
    dx, dy, *_ = field.size

    def stays(p: _Place) -> Scalar:
        return (abs(p.x - x) <= way * dx) & (abs(p.y - y) <= way * dy)

    found = while_loop(
        lambda p: (p.step > SQUARED_STEP_TOLERANCE) & stays(p),
        step,
        _Place(x, y, 1.0),
        MAX_ITERATIONS,
    )
    return found.state, found.converged & stays(found.state)


def _searched(
    refined: Callable[[Scalar, Scalar, Scalar], _Found],
    start: tuple[Scalar, Scalar],
    middle: Vec3,
    radius: Scalar,
    field: Placed,
    reach: int,
    count: int,
) -> tuple[_Found, ...]:
    """Return the places of smallest gap that are found from a place and from all vertices nearby.

    Args:
        refined: Returns the place that is found from another one.
        start: Where to begin.
        middle: Center of the body, axes of the field [m].
        radius: Of the sphere around the center that contains the body [m].
        field: The height field.
        reach: Cells around the center that the body covers.
        count: Number of places.
    """
    dx, dy, *handle = field.size
    none = _Found(NO_CONTACT, *start)
    best = _inserted((none,) * count, refined(*start, NO_CONTACT), dx, dy)
    side = 2 * reach + 1
    i = unary("floor", middle[0] / dx + 0.5) - float(reach)
    j = unary("floor", middle[1] / dy + 0.5) - float(reach)
    limit = radius + maximum(dx, dy)
    large = radius > SINGLE_HILL_RADIUS * maximum(dx, dy)

    def visit(index: Scalar, best: tuple[_Found, ...]) -> tuple[_Found, ...]:
        a = unary("floor", (index + 0.5) * (1.0 / side))
        row, column = i + a, j + (index - side * a)
        ((z,),) = read_patch(1, handle, row, column)
        offset = (row * dx - middle[0], column * dy - middle[1], z - middle[2])
        near = large & (dot(offset, offset) < limit * limit)
        found = where_needed(near, lambda: refined(row * dx, column * dy, MAX_TRAVEL_CELLS), none)
        return _inserted(best, found, dx, dy)

    found: tuple[_Found, ...] = fixed_loop(side * side, visit, best)
    return found


class Nearest(NamedTuple):
    """A part of the surface of a body, as a point of the ground sees it; world axes."""

    gap: Scalar
    """Signed distance of the point from the part, which goes on beyond its border [m]."""

    outward: Vec3
    """Unit normal out of the body there."""

    curvature: Mat3
    """Second derivative of the distance [1/m]."""

    inside: Scalar
    """Whether the nearest point is on the part, not beyond its border."""


def nearest_mantle(body: Placed, point: Vec3) -> Nearest:
    """Return the mantle of a cylinder or capsule, as a point of the ground sees it.

    Args:
        body: The cylinder or capsule.
        point: The point, world axes [m].
    """
    radius, length = body.size
    u = axis(body, 2)
    arm = subtract(point, body.position)
    along = dot(u, arm)
    outward, distance = unit(subtract(arm, scale(u, along)), axis(body, 0))
    around = cross(u, outward)
    apart = distance > 0.0
    bent = where(apart, 1.0 / where(apart, distance, 1.0), 0.0)
    curvature = scale_matrix(outer(around, around), bent)
    return Nearest(distance - radius, outward, curvature, abs(along) < 0.5 * length)


def hill_contacts(
    nearest: Callable[[Vec3], Nearest],
    center: Vec3,
    radius: Scalar,
    field: Placed,
    reach: int,
    count: int,
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of hills of smooth terrain with a flat or round part of a body.

    Newton's method minimizes the distance d of places x of the terrain from the part, from all
    vertices of the grid near the body: with the gradient n of d and its second derivative D,

        e_i . n = 0,   J_ij = e_i . D e_j + n_z H_ij

    Args:
        nearest: The part of the surface.
        center: Center of the body, world axes [m].
        radius: Of the sphere around the center that contains it [m].
        field: The height field; beyond its border it goes on at the heights of the border.
        reach: Cells around the center that the body covers; `reach_of`.
        count: Number of contacts; those that do not exist have the gap `NO_CONTACT`.
    """
    dx, dy, *_ = field.size
    longest = 0.5 * minimum(dx, dy)
    seen = function(nearest)

    def at(x: Scalar, y: Scalar) -> tuple[_Surface, Nearest, Vec3, Matrix2]:
        """Return terrain and body at a place, the gradient, axes of the field, and E^T D E."""
        s = _surface(x, y, field.size)
        place = add(field.position, matrix_vector(field.rotation, (x, y, s.h)))
        there = seen(place)
        n = transpose_vector(field.rotation, there.outward)
        one, two = (
            matrix_vector(field.rotation, tangent) for tangent in ((1.0, 0.0, s.x), (0.0, 1.0, s.y))
        )
        along, across = (matrix_vector(there.curvature, tangent) for tangent in (one, two))
        mixed = dot(two, along)
        return s, there, n, ((dot(one, along), mixed), (mixed, dot(two, across)))

    def second(s: _Surface, n: Vec3, bent: Matrix2) -> tuple[Scalar, ...]:
        """Return three elements of J, and its smaller eigenvalue."""
        a, b, d = bent[0][0] + n[2] * s.xx, bent[0][1] + n[2] * s.xy, bent[1][1] + n[2] * s.yy
        return a, b, d, 0.5 * (a + d) - root(0.25 * (a - d) * (a - d) + b * b)

    def step(place: _Place) -> _Place:
        s, _, n, bent = at(place.x, place.y)
        g1, g2 = n[0] + n[2] * s.x, n[1] + n[2] * s.y
        a, b, d, least = second(s, n, bent)
        # steps are bounded, and go downhill where the distance is not convex
        shift = maximum(root(g1 * g1 + g2 * g2) / longest - least, 0.0)
        a, d = a + shift, d + shift
        determinant = a * d - b * b
        regular = determinant > 0.0
        inverse = where(regular, 1.0 / where(regular, determinant, 1.0), 0.0)
        u, v = (b * g2 - d * g1) * inverse, (b * g1 - a * g2) * inverse
        return _Place(place.x + u, place.y + v, (u * u + v * v) / (dx * dy))

    middle = transpose_vector(field.rotation, subtract(center, field.position))

    @function
    def refined(x: Scalar, y: Scalar, way: Scalar) -> _Found:
        """Return the place that Newton's method finds from another one, not too far away."""
        place, converged = _iterated(step, x, y, way, field)
        s, there, n, bent = at(place.x, place.y)
        above = middle[2] - s.h - s.x * (middle[0] - place.x) - s.y * (middle[1] - place.y)
        # the ground is below the part, and falls off around the place
        exists = converged & there.inside & (above > 0.0) & (n[2] < 0.0)
        exists = exists & (second(s, n, bent)[3] * longest > MIN_HILL_CURVATURE)
        return _Found(where(exists, there.gap, NO_CONTACT), place.x, place.y)

    best = _searched(refined, (middle[0], middle[1]), middle, radius, field, reach, count)
    contacts = []
    for one in _ordered(best):
        s, there, _, bent = at(one.x, one.y)
        contact = _hill_geometry(one.x, one.y, s, there, bent, field)
        contacts.append(contact._replace(gap=where(one.gap < NO_CONTACT, there.gap, NO_CONTACT)))
    return tuple(contacts)


def _hill_geometry(
    x: Scalar, y: Scalar, s: _Surface, there: Nearest, bent: Matrix2, field: Placed
) -> ContactGeometry:
    """Return the contact of a place of the terrain with a part of a body.

    With K the curvature of the terrain and B = (r1 + g P)^-1 the second derivative of the distance,
    D = K (K + B)^-1 B and T = K (K + B)^-1 (1 - g / 2 B).
    """
    w = 1.0 / root(1.0 + s.x * s.x + s.y * s.y)
    gap, outward = there.gap, there.outward
    metric, H = _forms(s)
    inverse_metric = _inverse(metric)
    K = _scaled(_product(inverse_metric, H), -w)
    B = _product(inverse_metric, bent)
    share = _product(K, _inverse(_sum(K, B)))
    one: Matrix2 = ((1.0, 0.0), (0.0, 1.0))
    D, T = _product(share, B), _product(share, _sum(one, _scaled(B, -0.5 * gap)))
    curvature, first_share = (
        rotate_general(field.rotation, _spread(_product(part, inverse_metric), s))
        for part in (D, T)
    )
    place = add(field.position, matrix_vector(field.rotation, (x, y, s.h)))
    point = subtract(place, scale(outward, 0.5 * gap))
    return ContactGeometry(gap, point, outward, curvature, first_share)


def _inserted(
    best: tuple[_Found, ...], found: _Found, dx: Scalar, dy: Scalar
) -> tuple[_Found, ...]:
    """Return the places of smallest gap with one more, if it is not one of them."""
    new: Scalar = found.gap < NO_CONTACT
    for one in best:
        u, v = (found.x - one.x) / dx, (found.y - one.y) / dy
        same = (one.gap < NO_CONTACT) & (u * u + v * v < SAME_PLACE_DISTANCE * SAME_PLACE_DISTANCE)
        new = new & ~same
    found = found._replace(gap=where(new, found.gap, NO_CONTACT))
    return inserted(best, found, lambda one: one.gap)


def _ordered(places: Sequence[_Found]) -> list[_Found]:
    """Return places in an order that lasts while gaps change, those that do not exist last."""
    return in_order(places, lambda one: one.gap, lambda one: 0.8 * one.x + 0.6 * one.y)


def _support_geometry(
    x: Scalar, y: Scalar, gap: Scalar, s: _Surface, w: Scalar, R: Matrix2, field: Placed
) -> ContactGeometry:
    """Return the contact of a body at a place of the terrain.

    Args:
        x: Place, axes of the field [m].
        y: Likewise.
        gap: Gap there [m].
        s: The terrain there.
        w: Vertical component of its normal.
        R: Radii of the body between the tangents, E^T R E [m].
        field: The height field.
    """
    outward = (-s.x * w, -s.y * w, w)
    normal = matrix_vector(field.rotation, outward)
    # in coefficients of the tangents: A curvature of the terrain, S radii of the body
    metric, H = _forms(s)
    inverse_metric = _inverse(metric)
    A = _scaled(_product(inverse_metric, H), -w)
    S = _product(inverse_metric, R)
    one: Matrix2 = ((1.0, 0.0), (0.0, 1.0))
    # D = A (1 + (S + g) A)^-1, T = D (S + g / 2)
    bent = _sum(one, _product(_sum(S, _scaled(one, gap)), A))
    D = _product(A, _inverse(bent))
    T = _product(D, _sum(S, _scaled(one, 0.5 * gap)))
    curvature, share = (
        rotate_general(field.rotation, _spread(_product(part, inverse_metric), s))
        for part in (D, T)
    )
    middle = (x + 0.5 * gap * outward[0], y + 0.5 * gap * outward[1], s.h + 0.5 * gap * outward[2])
    point = add(field.position, matrix_vector(field.rotation, middle))
    return ContactGeometry(gap, point, negate(normal), curvature, share)


def _forms(s: _Surface) -> tuple[Matrix2, Matrix2]:
    """Return the metric of the tangents, and the second derivatives of the height."""
    mixed = s.x * s.y
    return ((1.0 + s.x * s.x, mixed), (mixed, 1.0 + s.y * s.y)), ((s.xx, s.xy), (s.xy, s.yy))


def _product(a: Matrix2, b: Matrix2) -> Matrix2:
    (p, q), (r, t) = a
    (u, v), (x, y) = b
    return ((p * u + q * x, p * v + q * y), (r * u + t * x, r * v + t * y))


def _sum(a: Matrix2, b: Matrix2) -> Matrix2:
    return (
        (a[0][0] + b[0][0], a[0][1] + b[0][1]),
        (a[1][0] + b[1][0], a[1][1] + b[1][1]),
    )


def _scaled(a: Matrix2, factor: Scalar) -> Matrix2:
    return ((a[0][0] * factor, a[0][1] * factor), (a[1][0] * factor, a[1][1] * factor))


def _inverse(a: Matrix2) -> Matrix2:
    """Return the inverse; zero where it is singular."""
    (p, q), (r, t) = a
    determinant = p * t - q * r
    regular = abs(determinant) > 1e-12
    inverse = where(regular, 1.0 / where(regular, determinant, 1.0), 0.0)
    return ((t * inverse, -q * inverse), (-r * inverse, p * inverse))


def _spread(a: Matrix2, s: _Surface) -> Mat3:
    """Return E a E^T, axes of the field."""
    (p, q), (r, t) = a
    c1, c2 = s.x * p + s.y * r, s.x * q + s.y * t
    return (
        (p, q, p * s.x + q * s.y),
        (r, t, r * s.x + t * s.y),
        (c1, c2, c1 * s.x + c2 * s.y),
    )


def _relative_curvature(s: _Surface, w: Scalar, distance: Scalar) -> Mat3:
    """Return D = (1 + d K)^-1 K of a point at a distance d, K the curvature of the terrain.

    In coefficients of the tangents, K = A = -I^-1 II, and D = E (1 + d A)^-1 A I^-1 E^T.
    """
    i11, i12, i22 = 1.0 + s.x * s.x, s.x * s.y, 1.0 + s.y * s.y
    # (1 + d A)^-1 A I^-1 = -(I - d II)^-1 II I^-1
    m11, m12, m22 = (p - distance * w * q for p, q in ((i11, s.xx), (i12, s.xy), (i22, s.yy)))
    determinant = m11 * m22 - m12 * m12
    regular = abs(determinant) > 1e-12
    f = where(regular, -w / where(regular, determinant, 1.0), 0.0) / (i11 * i22 - i12 * i12)
    # rows of adj(I - d II) II
    p11, p12 = m22 * s.xx - m12 * s.xy, m22 * s.xy - m12 * s.yy
    p21, p22 = m11 * s.xy - m12 * s.xx, m11 * s.yy - m12 * s.xy
    x11, x12 = f * (p11 * i22 - p12 * i12), f * (p12 * i11 - p11 * i12)
    x22 = f * (p22 * i11 - p21 * i12)
    z1, z2 = x11 * s.x + x12 * s.y, x12 * s.x + x22 * s.y
    return ((x11, x12, z1), (x12, x22, z2), (z1, z2, z1 * s.x + z2 * s.y))


def _surface(x: Scalar, y: Scalar, size: tuple[Scalar, ...]) -> _Surface:
    """Return the bicubic surface at a place."""
    dx, dy, *handle = size
    i, j = unary("floor", x / dx), unary("floor", y / dy)
    heights = read_patch(4, handle, i - 1.0, j - 1.0)
    along = _weights(x / dx - i)
    across = _weights(y / dy - j)

    def summed(p: int, q: int) -> Scalar:
        total: Scalar = 0.0
        for a in range(4):
            row: Scalar = 0.0
            for b in range(4):
                row = row + across[q][b] * heights[a][b]
            total = total + along[p][a] * row
        return total

    return _Surface(
        summed(0, 0),
        summed(1, 0) / dx,
        summed(0, 1) / dy,
        summed(2, 0) / (dx * dx),
        summed(1, 1) / (dx * dy),
        summed(0, 2) / (dy * dy),
    )


def _weights(t: Scalar) -> tuple[tuple[Scalar, ...], ...]:
    """Return the weights of four heights for the value and its first two derivatives by t."""
    return (
        (
            0.5 * t * (-1.0 + t * (2.0 - t)),
            1.0 + 0.5 * t * t * (-5.0 + 3.0 * t),
            0.5 * t * (1.0 + t * (4.0 - 3.0 * t)),
            0.5 * t * t * (t - 1.0),
        ),
        (
            -0.5 + t * (2.0 - 1.5 * t),
            t * (-5.0 + 4.5 * t),
            0.5 + t * (4.0 - 4.5 * t),
            t * (1.5 * t - 1.0),
        ),
        (2.0 - 3.0 * t, -5.0 + 9.0 * t, 4.0 - 9.0 * t, 3.0 * t - 1.0),
    )
