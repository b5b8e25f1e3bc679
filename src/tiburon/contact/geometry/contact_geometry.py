"""Shapes in the world, the geometry of one contact, and the rate of its normal.

A contact normal turns with both bodies and with the slip between them. Symbols: n normal from the
first to the second body, w1 and w2 angular velocities, g gap, r1 and r2 the radii tensors of the
two surfaces at their closest points (inverses of their curvature tensors), v relative velocity of
the bodies' material points at the midpoint of the closest points, P = 1 - n n^T.

The closest points keep a common normal, n' = w1 x n + r1^-1 x1' = w2 x n - r2^-1 x2', where x1' and
x2' are their velocities over the surfaces, and stay g n apart. Eliminating x1' and x2' gives

    n' = w2 x n + T ((w1 - w2) x n) + D v,
    D = (r1 + r2 + g P)^-1,   T = D (r1 + g/2 P)

D is the relative curvature of the two surfaces and T the share of the first body in the turning of
the normal; a flat second body has D = T = 0, a flat first one D = 0, T = P. Both have finite limits
for edges and corners, and exchange of the bodies replaces T by P - T.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from tiburon.contact.geometry.vectors import add_matrices, outer, scale_matrix, select, unit
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    Mat3,
    Scalar,
    Vec3,
    add,
    cross,
    dot,
    matrix_vector,
    negate,
    scale,
    subtract,
)
from tiburon.trace.value import where

NO_CONTACT = 1e9
"""Gap of candidates that do not exist at a pose [m]."""

ZERO33: Mat3 = (ZERO3, ZERO3, ZERO3)
"""The 3x3 zero matrix."""


class Placed(NamedTuple):
    """A shape in the world; its entries are floats or traced values."""

    rotation: Mat3
    """R, shape axes to world axes: the columns are the shape's axes in the world."""

    position: Vec3
    """Origin of the shape in the world [m]."""

    size: tuple[Scalar, ...] = ()
    """Dimensions [m], as the shape's fields: radius; radius and length; edges; half axes."""


class ContactGeometry(NamedTuple):
    """One candidate contact of two shapes, world axes."""

    gap: Scalar
    """Signed distance [m]; negative where the shapes overlap."""

    point: Vec3
    """Midpoint of the closest points [m]."""

    normal: Vec3
    """Unit normal, from the first to the second shape."""

    relative_curvature: Mat3 = ZERO33
    """D [1/m]; see the head of this file."""

    first_share: Mat3 = ZERO33
    """T; see the head of this file."""


def exchanged(contact: ContactGeometry) -> ContactGeometry:
    """Return the same contact with first and second body exchanged."""
    share = add_matrices(tangent_projector(contact.normal), scale_matrix(contact.first_share, -1.0))
    return contact._replace(normal=negate(contact.normal), first_share=share)


def normal_rate(
    contact: ContactGeometry, first_angular: Vec3, second_angular: Vec3, velocity: Vec3
) -> Vec3:
    """Return the time derivative of a contact normal [1/s], world axes.

    Args:
        contact: The contact.
        first_angular: Angular velocity of the first body [rad/s].
        second_angular: Angular velocity of the second body [rad/s].
        velocity: Velocity at the contact point of the second body's material point minus that of
            the first body's [m/s].
    """
    n = contact.normal
    relative = cross(subtract(first_angular, second_angular), n)
    rate = add(cross(second_angular, n), matrix_vector(contact.first_share, relative))
    return add(rate, matrix_vector(contact.relative_curvature, velocity))


def axis(shape: Placed, k: int) -> Vec3:
    """Return an axis of a shape in world axes."""
    return (shape.rotation[0][k], shape.rotation[1][k], shape.rotation[2][k])


def to_world(shape: Placed, local: Vec3) -> Vec3:
    """Return world coordinates of a point given in axes of the shape."""
    return add(shape.position, matrix_vector(shape.rotation, local))


def tangent_projector(normal: Vec3) -> Mat3:
    """Return P = 1 - n n^T."""
    return add_matrices(IDENTITY3, scale_matrix(outer(normal, normal), -1.0))


def face_contact(point: Vec3, radius: Scalar, plane_point: Vec3, outward: Vec3) -> ContactGeometry:
    """Return the contact of a rounded point of the first body with a flat face of the second.

    Args:
        point: The point, world axes [m].
        radius: Radius of the sphere around it [m].
        plane_point: Any point of the face's plane [m].
        outward: Outward unit normal of the face.
    """
    height = dot(outward, subtract(point, plane_point))
    gap = height - radius
    middle = subtract(point, scale(outward, radius + 0.5 * gap))
    return ContactGeometry(gap, middle, negate(outward))


def rounded_contact(
    first: Vec3,
    offset: Vec3,
    first_radius: Scalar,
    second_radius: Scalar,
    fallback: Vec3,
    *,
    first_free: Mat3 = ZERO33,
    second_free: Mat3 = ZERO33,
) -> ContactGeometry:
    """Return the contact of two spheres around the closest points of two cores.

    A core is a point, segment or box. Where its closest point is inside an edge or face, the
    closest point moves freely along it: the radius of curvature is infinite there.

    Args:
        first: Closest point of the first core [m].
        offset: From there to the closest point of the second core [m].
        first_radius: Radius around the first core [m].
        second_radius: Radius around the second core [m].
        fallback: Normal where the two points coincide.
        first_free: Projector onto the free tangent directions of the first core.
        second_free: The same of the second core; orthogonal to those of the first.
    """
    normal, distance = unit(offset, fallback)
    gap = distance - (first_radius + second_radius)
    reach = first_radius + 0.5 * gap
    apart = distance > 0.0
    inverse = where(apart, 1.0 / where(apart, distance, 1.0), 0.0)
    share = where(apart, reach * inverse, 0.5)
    bound = add_matrices(
        tangent_projector(normal), scale_matrix(add_matrices(first_free, second_free), -1.0)
    )
    return ContactGeometry(
        gap,
        add(first, scale(normal, reach)),
        normal,
        scale_matrix(bound, inverse),
        add_matrices(scale_matrix(bound, share), first_free),
    )


T = TypeVar("T")


def inserted(best: Sequence[T], found: T, distance: Callable[[T], Scalar]) -> tuple[T, ...]:
    """Return the nearest of some places with one more, in order of their distance."""
    kept = []
    for one in best:
        nearer = distance(found) < distance(one)
        kept.append(select(nearer, found, one))
        found = select(nearer, one, found)
    return tuple(kept)


def in_order(
    places: Sequence[T], gap: Callable[[T], Scalar], coordinate: Callable[[T], Scalar]
) -> list[T]:
    """Return places in the order of a coordinate, those that do not exist last.

    Gaps of contacts that rest differ by rounding: an order by gap would exchange them from step to
    step, and with them what each carries on.
    """
    found = list(places)
    for end in range(len(found) - 1, 0, -1):
        for k in range(end):
            one, other = found[k], found[k + 1]
            exists = gap(other) < NO_CONTACT
            later = (gap(one) >= NO_CONTACT) | (coordinate(one) > coordinate(other))
            found[k] = select(exists & later, other, one)
            found[k + 1] = select(exists & later, one, other)
    return found
