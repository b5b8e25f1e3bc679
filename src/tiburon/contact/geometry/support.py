"""Contact of convex shapes by their support functions.

The signed distance of convex bodies is the largest of n . d - h1(n) - h2(-n) over all unit normals
n, with d the offset of their centers and h their support functions; negative, it is the depth of
the overlap. At the maximum the gradients of h are the closest points and the Hessians of h the
radii tensors of the surfaces, so that Newton's matrix is also the one that turns the normal.

Every shape here is a Minkowski sum of ellipsoids, some of them flat: a capsule is a sphere and a
segment, a cylinder a disc and a segment, a box three segments. A part with matrix B has
h = |B n|, which has a kink where it is flat. With h = sqrt(|B n|^2 + e^2) it is an ellipsoid again,
with gradient p = (B^T B + e^2) n / h and Hessian (B^T B + e^2 - p p^T) / h. Newton's method starts
with round parts and follows the normal, by a predictor, as e shrinks to `ROUNDING` of the size:
faces, edges and corners are left rounded by that much. It starts from the best of the line of
centers, the axes of all segments and the perpendiculars to them.

Separated bodies have one maximum; overlapping ones may have several, of which a near one is found.
Where the method does not end, as in some deep overlaps, the normal is the one it started from.
"""

from typing import NamedTuple

from tiburon.contact.geometry.contact_geometry import (
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
    tangent_projector,
)
from tiburon.contact.geometry.vectors import (
    add_matrices,
    maximum,
    outer,
    perpendicular,
    root,
    scale_matrix,
    select,
    sign,
    unit,
)
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    Mat3,
    Scalar,
    Vec3,
    add,
    dot,
    matrix_product,
    matrix_vector,
    scale,
    subtract,
    transpose_vector,
)
from tiburon.trace.regions import while_loop
from tiburon.trace.value import where

Parts = tuple[tuple[Vec3, ...], ...]
"""Parts of a Minkowski sum: the rows of B of each, world axes [m]."""

ROUNDING = 1e-9
"""Radius of rounded edges, relative to the sum of the sizes of all parts."""

ROUND_START = 0.1
"""The same at the start."""

RADIUS_FACTOR = 0.6
"""Factor of the radius from one iteration to the next; below 0.5 the predictor is too coarse."""

MAX_ITERATIONS = 80
"""Most iterations; about 6 for ellipsoids and 38 where edges are rounded."""

SQUARED_TURN_TOLERANCE = 1e-24
"""Squared turn of the normal at which Newton's method ends; the next one would be its square."""


def sphere_parts(shape: Placed) -> Parts:
    """Return a sphere as one part."""
    r = shape.size[0]
    return (((r, 0.0, 0.0), (0.0, r, 0.0), (0.0, 0.0, r)),)


def ellipsoid_parts(shape: Placed) -> Parts:
    """Return an ellipsoid as one part."""
    return (tuple(scale(axis(shape, k), shape.size[k]) for k in range(3)),)


def capsule_parts(shape: Placed) -> Parts:
    """Return a capsule as a sphere and a segment."""
    return (*sphere_parts(shape), (scale(axis(shape, 2), 0.5 * shape.size[1]),))


def cylinder_parts(shape: Placed) -> Parts:
    """Return a cylinder as a disc and a segment."""
    radius, length = shape.size
    disc = (scale(axis(shape, 0), radius), scale(axis(shape, 1), radius))
    return (disc, (scale(axis(shape, 2), 0.5 * length),))


def box_parts(shape: Placed) -> Parts:
    """Return a box as three segments."""
    return tuple((scale(axis(shape, k), 0.5 * shape.size[k]),) for k in range(3))


class _Support(NamedTuple):
    """Extreme point of a body in a direction, relative to its center."""

    point: Vec3
    """Gradient of the support function [m]."""

    radii: Mat3
    """Hessian of the support function: the radii tensor of the surface [m]."""

    change: Vec3
    """Minus the derivative of the point by the radius of rounded edges, in the tangent plane."""


class _State(NamedTuple):
    normal: Vec3
    rounding: Scalar
    turned: Scalar


def support_contact(
    first: Vec3, first_parts: Parts, second: Vec3, second_parts: Parts
) -> ContactGeometry:
    """Return the contact of two convex bodies that are symmetric about their centers.

    One contact: of a flat patch a point near its middle. Bodies with one center and no flat parts
    have the normal +z.

    Args:
        first: Center of the first body [m].
        first_parts: Parts of the first body.
        second: Center of the second body [m].
        second_parts: Parts of the second body.
    """
    offset = subtract(second, first)
    flat = any(len(part) < 3 for part in (*first_parts, *second_parts))
    size: Scalar = 0.0
    for part in (*first_parts, *second_parts):
        square: Scalar = 0.0
        for row in part:
            square = square + dot(row, row)
        size = size + root(square)
    least = ROUNDING * size if flat else 0.0

    def step(state: _State) -> _State:
        n, e = state.normal, state.rounding
        one, two = _support(first_parts, n, e), _support(second_parts, n, e)
        apart = subtract(offset, add(one.point, two.point))
        gap = dot(n, apart)
        slope = subtract(apart, scale(n, gap))
        radii = add_matrices(one.radii, two.radii)
        # positive definite also for overlap, and no turn beyond about 1 rad
        damping = maximum(gap, -0.95 * _smaller_radius(radii)) + root(dot(slope, slope))
        following = maximum(RADIUS_FACTOR * e, least)
        ahead = scale(add(one.change, two.change), following - e)
        turn = matrix_vector(_tangent_inverse(radii, damping, n), add(slope, ahead))
        normal, _ = unit(add(n, turn), n)
        return _State(normal, following, dot(turn, turn))

    def goes_on(state: _State) -> Scalar:
        return (state.turned > SQUARED_TURN_TOLERANCE) | (state.rounding > 1.001 * least)

    start = _best_axis(offset, (*first_parts, *second_parts))
    begin = _State(start, ROUND_START * size if flat else 0.0, 1.0)
    found = while_loop(goes_on, step, begin, MAX_ITERATIONS)
    n = select(found.converged, found.state.normal, start)
    one, two = _support(first_parts, n, least), _support(second_parts, n, least)
    apart = subtract(offset, add(one.point, two.point))
    gap = dot(n, apart)
    curvature = _tangent_inverse(add_matrices(one.radii, two.radii), gap, n)
    middle = add_matrices(one.radii, scale_matrix(tangent_projector(n), 0.5 * gap))
    share = matrix_product(curvature, middle)
    # on a flat face the closest point moves far with the rounding of the normal: its place, and
    # its velocity, follow from what is left between the closest points
    missed = subtract(apart, scale(n, gap))
    place = add(add(first, one.point), scale(n, 0.5 * gap))
    return ContactGeometry(gap, add(place, transpose_vector(share, missed)), n, curvature, share)


def support_point(parts: Parts, direction: Vec3) -> tuple[Vec3, Mat3]:
    """Return the extreme point of a body without flat parts, from its center, and its radii [m].

    Args:
        parts: Parts of the body.
        direction: Unit vector.
    """
    found = _support(parts, direction, 0.0)
    return found.point, found.radii


def _best_axis(offset: Vec3, parts: Parts) -> Vec3:
    """Return the axis of largest separation among those that are known beforehand."""
    line, _ = unit(offset, (0.0, 0.0, 1.0))
    axes = [line]
    for rows in parts:
        if len(rows) == 1:
            u, _ = unit(rows[0], line)
            along = dot(u, offset)
            axes.append(scale(u, sign(along)))
            axes.append(unit(subtract(offset, scale(u, along)), perpendicular(u))[0])
    best: tuple[Scalar, Vec3] = (_separation(line, offset, parts), line)
    for n in axes[1:]:
        separation = _separation(n, offset, parts)
        best = select(separation > best[0], (separation, n), best)
    return best[1]


def _separation(n: Vec3, offset: Vec3, parts: Parts) -> Scalar:
    """Return the separation of two bodies along an axis."""
    total = dot(n, offset)
    for rows in parts:
        square: Scalar = 0.0
        for row in rows:
            square = square + dot(row, n) * dot(row, n)
        total = total - root(square)
    return total


def _support(parts: Parts, n: Vec3, e: Scalar) -> _Support:
    """Return the support of a Minkowski sum whose flat parts are rounded by e."""
    point, radii, change = ZERO3, ZERO33, ZERO3
    for rows in parts:
        rounding = e if len(rows) < 3 else 0.0
        square = rounding * rounding
        p: Vec3 = scale(n, square)
        B = scale_matrix(IDENTITY3, square)
        length = square
        for row in rows:
            w = dot(row, n)
            length = length + w * w
            p = add(p, scale(row, w))
            B = add_matrices(B, outer(row, row))
        positive = length > 0.0
        inverse = where(positive, 1.0 / root(where(positive, length, 1.0)), 0.0)
        p = scale(p, inverse)
        point = add(point, p)
        hessian = add_matrices(B, scale_matrix(outer(p, p), -1.0))
        radii = add_matrices(radii, scale_matrix(hessian, inverse))
        tangential = subtract(p, scale(n, dot(n, p)))
        change = add(change, scale(tangential, rounding * inverse * inverse))
    return _Support(point, radii, change)


def _smaller_radius(radii: Mat3) -> Scalar:
    """Return the smaller of the two tangential eigenvalues of a radii tensor."""
    (a, b, c), (_, d, e), (_, _, f) = radii
    half = 0.5 * (a + d + f)
    product = a * d + a * f + d * f - b * b - c * c - e * e
    # the larger one first: the difference would cancel
    larger = half + root(half * half - product)
    positive = larger > 0.0
    return where(positive, product / where(positive, larger, 1.0), 0.0)


def _tangent_inverse(radii: Mat3, added: Scalar, n: Vec3) -> Mat3:
    """Return (radii + added P)^-1 in the tangent plane; zero where it is singular."""
    P = tangent_projector(n)
    matrix = add_matrices(radii, scale_matrix(P, added))
    (a, b, c), (_, d, e), (_, _, f) = matrix
    # Cayley-Hamilton in the plane: M^-1 = (trace P - M) / determinant
    determinant = a * d + a * f + d * f - b * b - c * c - e * e
    safe = abs(determinant) > 1e-300
    inverse = where(safe, 1.0 / where(safe, determinant, 1.0), 0.0)
    difference = add_matrices(scale_matrix(P, a + d + f), scale_matrix(matrix, -1.0))
    return scale_matrix(difference, inverse)
