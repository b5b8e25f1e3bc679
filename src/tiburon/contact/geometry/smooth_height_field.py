"""Contact of convex bodies with smooth terrain: a bicubic surface through the heights of a grid.

Between four heights along each axis runs the cubic of Catmull and Rom: the surface passes through
all heights, has a continuous normal, and reproduces quadratic ground exactly. Newton's method finds
the foot of the perpendicular from the center. Symbols: z = h(x, y), e1 = (1, 0, hx) and
e2 = (0, 1, hy) tangents, I and II the fundamental forms.
"""

from collections.abc import Callable
from typing import NamedTuple

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.vectors import maximum, root, select
from tiburon.spatial.vec3 import (
    Mat3,
    Scalar,
    Vec3,
    add,
    dot,
    matrix_vector,
    negate,
    rotate_general,
    scale,
    subtract,
    transpose_vector,
)
from tiburon.trace.primitives.grid_patch import read_patch
from tiburon.trace.regions import while_loop
from tiburon.trace.value import unary, where

__all__ = ["smooth_support_contact", "smooth_terrain_contact"]

ITERATIONS = 30
"""Most iterations; terrain whose curvature radii exceed the distance needs about 5."""

CONVERGED = 1e-24
"""Squared step at which Newton's method ends, relative to the spacing."""


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

    found = while_loop(lambda p: p.step > CONVERGED, step, _Place(cx, cy, 1.0), ITERATIONS)
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


Support = Callable[[Vec3], tuple[Vec3, Mat3]]
"""Extreme point of a body in a direction, world axes [m], and the radii tensor of its surface or
rim there: the derivative of the point by the direction [m]."""

Matrix2 = tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]]


def smooth_support_contact(support: Support, center: Vec3, field: Placed) -> ContactGeometry:
    """Return the contact of a convex body with smooth terrain.

    Newton's method looks for the place of the terrain whose normal meets the body at its extreme
    point in the opposite direction: e_i . (p - x) = 0 for both tangents. With the metric I, the
    second derivatives H of the height and the radii R of the body,

        J = (p - x)_z H + w E^T R E I^-1 H - I

    It starts below the extreme point for the normal under the center; from there the nearest place
    is found, one of several in a narrow valley.

    Args:
        support: Extreme points of the body.
        center: Its center, world axes [m].
        field: The height field; beyond its border it goes on at the heights of the border.
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
        # no farther than a cell at once
        longest = maximum(abs(u) / dx, abs(v) / dy)
        factor = 1.0 / maximum(longest, 1.0)
        u, v = factor * u, factor * v
        return _Place(place.x + u, place.y + v, (u * u + v * v) / (dx * dy))

    cx, cy, _ = local(center)
    under = _surface(cx, cy, field.size)
    (sx, sy, _), _ = extreme(under, 1.0 / root(1.0 + under.x * under.x + under.y * under.y))
    found = while_loop(lambda p: p.step > CONVERGED, step, _Place(sx, sy, 1.0), ITERATIONS)
    x, y = (where(found.converged, p, q) for p, q in zip(found.state[:2], (sx, sy), strict=True))
    s = _surface(x, y, field.size)
    w = 1.0 / root(1.0 + s.x * s.x + s.y * s.y)
    p, R = extreme(s, w)
    outward = (-s.x * w, -s.y * w, w)
    gap = outward[0] * (p[0] - x) + outward[1] * (p[1] - y) + outward[2] * (p[2] - s.h)
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
