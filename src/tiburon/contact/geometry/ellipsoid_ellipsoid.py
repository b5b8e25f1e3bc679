"""Contact of two ellipsoids, and of an ellipsoid with a sphere.

The signed distance of smooth convex bodies is the largest of n . d - h1(n) - h2(-n) over all unit
normals n, with d the offset of their centers and h their support functions; negative, it is the
depth of the overlap. At the maximum the gradients of h are the closest points and the Hessians of h
the radii tensors of the surfaces, so that Newton's matrix is also the one that turns the normal.
For an ellipsoid, with A = R E^2 R^T, these are h = sqrt(n^T A n), a = A n / h and (A - a a^T) / h.

Newton's method starts from the line of centers, damped by the size of the gradient. Separated
ellipsoids have one maximum; overlapping ones may have several, of which a near one is found.
"""

from collections.abc import Callable
from typing import NamedTuple

from tiburon.contact.geometry.contact_geometry import (
    ContactGeometry,
    Placed,
    tangent_projector,
)
from tiburon.contact.geometry.vectors import (
    add_matrices,
    maximum,
    outer,
    root,
    scale_matrix,
    unit,
)
from tiburon.spatial.vec3 import (
    Mat3,
    Scalar,
    Vec3,
    add,
    dot,
    matrix_product,
    matrix_vector,
    rotate_symmetric,
    scale,
    subtract,
    symmetric_matrix,
)
from tiburon.trace.regions import while_loop
from tiburon.trace.value import where

__all__ = ["ellipsoid_ellipsoid", "ellipsoid_support", "smooth_contact", "sphere_support"]

ITERATIONS = 60
"""Most iterations; separated ellipsoids with axes up to 10 : 1 need fewer."""

CONVERGED = 1e-24
"""Squared turn of the normal at which Newton's method ends; the next one would be its square."""


class Support(NamedTuple):
    """Extreme point of a body in a direction, relative to its center, world axes."""

    point: Vec3
    """Gradient of the support function [m]."""

    radii: Mat3
    """Hessian of the support function: the radii tensor of the surface [m]."""


SupportFunction = Callable[[Vec3], Support]


def sphere_support(radius: Scalar) -> SupportFunction:
    """Return the support of a sphere."""
    return lambda n: Support(scale(n, radius), scale_matrix(tangent_projector(n), radius))


def ellipsoid_support(shape: Placed) -> SupportFunction:
    """Return the support of an ellipsoid."""
    a, b, c = shape.size
    A = symmetric_matrix(rotate_symmetric(shape.rotation, (a * a, 0.0, 0.0, b * b, 0.0, c * c)))

    def support(n: Vec3) -> Support:
        An = matrix_vector(A, n)
        inverse = 1.0 / root(dot(n, An))
        point = scale(An, inverse)
        radii = add_matrices(scale_matrix(A, inverse), scale_matrix(outer(point, point), -inverse))
        return Support(point, radii)

    return support


class _State(NamedTuple):
    normal: Vec3
    turned: Scalar


def smooth_contact(
    first: Vec3, first_support: SupportFunction, second: Vec3, second_support: SupportFunction
) -> ContactGeometry:
    """Return the contact of two smooth convex bodies that are symmetric about their centers.

    The normal is +z where the centers coincide.

    Args:
        first: Center of the first body [m].
        first_support: Support of the first body.
        second: Center of the second body [m].
        second_support: Support of the second body.
    """
    offset = subtract(second, first)

    def step(state: _State) -> _State:
        n = state.normal
        one, two = first_support(n), second_support(n)
        apart = subtract(offset, add(one.point, two.point))
        gap = dot(n, apart)
        slope = subtract(apart, scale(n, gap))
        radii = add_matrices(one.radii, two.radii)
        # positive definite also for overlap, and no turn beyond about 1 rad
        least = -0.95 * _smaller_radius(radii)
        damping = maximum(gap, least) + root(dot(slope, slope))
        turn = matrix_vector(_tangent_inverse(radii, damping, n), slope)
        following, _ = unit(add(n, turn), n)
        return _State(following, dot(turn, turn))

    start, _ = unit(offset, (0.0, 0.0, 1.0))
    found = while_loop(lambda state: state.turned > CONVERGED, step, _State(start, 1.0), ITERATIONS)
    n = found.state.normal
    one, two = first_support(n), second_support(n)
    gap = dot(n, subtract(offset, add(one.point, two.point)))
    nearest = add(first, one.point)
    curvature = _tangent_inverse(add_matrices(one.radii, two.radii), gap, n)
    middle = add_matrices(one.radii, scale_matrix(tangent_projector(n), 0.5 * gap))
    return ContactGeometry(
        gap,
        scale(add(nearest, subtract(second, two.point)), 0.5),
        n,
        curvature,
        matrix_product(curvature, middle),
    )


def _smaller_radius(radii: Mat3) -> Scalar:
    """Return the smaller of the two tangential eigenvalues of a radii tensor."""
    (a, b, c), (_, d, e), (_, _, f) = radii
    half = 0.5 * (a + d + f)
    product = a * d + a * f + d * f - b * b - c * c - e * e
    return half - root(half * half - product)


def _tangent_inverse(radii: Mat3, added: Scalar, n: Vec3) -> Mat3:
    """Return (radii + added P)^-1 in the tangent plane; zero where it is singular."""
    (a, b, c), (_, d, e), (_, _, f) = add_matrices(radii, scale_matrix(tangent_projector(n), added))
    # Cayley-Hamilton in the plane: M^-1 = (trace P - M) / determinant
    trace = a + d + f
    determinant = a * d + a * f + d * f - b * b - c * c - e * e
    safe = abs(determinant) > 1e-300
    inverse = where(safe, 1.0 / where(safe, determinant, 1.0), 0.0)
    matrix = ((a, b, c), (b, d, e), (c, e, f))
    difference = add_matrices(scale_matrix(tangent_projector(n), trace), scale_matrix(matrix, -1.0))
    return scale_matrix(difference, inverse)


def ellipsoid_ellipsoid(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points."""
    return (
        smooth_contact(
            first.position,
            ellipsoid_support(first),
            second.position,
            ellipsoid_support(second),
        ),
    )
