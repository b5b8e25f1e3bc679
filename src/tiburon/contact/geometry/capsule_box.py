"""Contacts of a capsule with a box.

The squared distance of the axis to the box is convex along it, its derivative piecewise linear: the
root lies between two of the places where the axis enters or leaves a slab of the box. That is the
first contact. Two more hold a capsule that lies on the face: at each end of the part of the axis
above the face, an end of the capsule or its crossing with an edge of the face.

Where the axis enters the box, the first contact is that of the deeper end of the axis with the face
through which the way out is shortest.
"""

from typing import NamedTuple

from tiburon.contact.geometry.capsule_capsule import crossing
from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
    face_contact,
    tangent_projector,
)
from tiburon.contact.geometry.sphere_box import point_box
from tiburon.contact.geometry.vectors import (
    add_matrices,
    clamp,
    maximum,
    minimum,
    outer,
    scale_matrix,
    select,
    sign,
)
from tiburon.spatial.vec3 import (
    IDENTITY3,
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
from tiburon.trace.value import where

LEVEL_SLOPE = 1e-13
"""Slope of half the squared distance along the axis that counts as level [m]."""


class _Axis(NamedTuple):
    """The axis of a capsule in axes of a box."""

    center: Vec3
    direction: Vec3
    half: Scalar


def capsule_box(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points and those at the ends of the part above a face.

    An end that is the closest point, or that does not exist, has the gap `NO_CONTACT`.
    """
    radius, length = first.size
    u = axis(first, 2)
    local = _Axis(
        transpose_vector(second.rotation, subtract(first.position, second.position)),
        transpose_vector(second.rotation, u),
        0.5 * length,
    )
    size = second.size
    box = (0.5 * size[0], 0.5 * size[1], 0.5 * size[2])
    s = _closest(local, box)
    at_end = abs(s) >= local.half
    closest = point_box(add(first.position, scale(u, s)), radius, second)
    closest = select(at_end, closest, _along_axis(closest, radius, local, s, u, box, second))
    q = add(local.center, scale(local.direction, s))
    sunk = (abs(q[0]) <= box[0]) & (abs(q[1]) <= box[1]) & (abs(q[2]) <= box[2])
    closest, s = select(sunk, _way_out(first, local, box, second), (closest, s))
    found = [closest]
    for place, edge_point, edge, edge_half, clipped, above in _ends(local, box, closest, second):
        tip = point_box(add(first.position, scale(u, place)), radius, second)
        middle = add(second.position, matrix_vector(second.rotation, edge_point))
        across = crossing(
            first.position, u, local.half, radius,
            middle, matrix_vector(second.rotation, edge), edge_half, 0.0,
        )  # fmt: skip
        contact = select(clipped, across, tip)
        new = above & (abs(place - s) > 1e-9 * (length + radius)) & (contact.gap < NO_CONTACT)
        found.append(contact._replace(gap=where(new, contact.gap, NO_CONTACT)))
    return tuple(found)


def _closest(line: _Axis, box: Vec3) -> Scalar:
    """Return the place on the axis that is closest to the box [m]."""

    def slope(s: Scalar) -> Scalar:
        total: Scalar = 0.0
        for c, u, h in zip(line.center, line.direction, box, strict=True):
            q = c + s * u
            total = total + u * (q - clamp(q, -h, h))
        return total

    low, high = -line.half, line.half
    at_low, at_high = slope(low), slope(high)
    for c, u, h in zip(line.center, line.direction, box, strict=True):
        moves = abs(u) > 0.0
        for side in (-h, h):
            s = where(moves, (side - c) / where(moves, u, 1.0), 0.0)
            s = clamp(s, -line.half, line.half)
            value = slope(s)
            low, at_low = select((value <= LEVEL_SLOPE) & (s > low), (s, value), (low, at_low))
            high, at_high = select(
                (value >= -LEVEL_SLOPE) & (s < high), (s, value), (high, at_high)
            )
    # a level stretch has low beyond high
    rises = (at_high - at_low > 0.0) & (high > low)
    share = clamp(-at_low / where(rises, at_high - at_low, 1.0), 0.0, 1.0)
    inside = where(rises, low + share * (high - low), 0.5 * (low + high))
    inside = where(slope(line.half) < -LEVEL_SLOPE, line.half, inside)
    return where(slope(-line.half) > LEVEL_SLOPE, -line.half, inside)


def _way_out(
    first: Placed, line: _Axis, box: Vec3, second: Placed
) -> tuple[ContactGeometry, Scalar]:
    """Return the contact of the deeper end of the axis with the face of largest separation."""
    best, outward, end = -NO_CONTACT, IDENTITY3[0], line.half
    for k in range(3):
        c, u = line.center[k], line.direction[k]
        separation = abs(c) - box[k] - abs(u) * line.half
        side = sign(c)
        found = (separation, scale(IDENTITY3[k], side), -line.half * side * sign(u))
        best, outward, end = select(separation > best, found, (best, outward, end))
    tip = add(first.position, scale(axis(first, 2), end))
    x, y, z = outward
    face = add(
        second.position, matrix_vector(second.rotation, (x * box[0], y * box[1], z * box[2]))
    )
    normal = matrix_vector(second.rotation, outward)
    return face_contact(tip, first.size[0], face, normal), end


def _along_axis(
    contact: ContactGeometry,
    radius: Scalar,
    line: _Axis,
    s: Scalar,
    u: Vec3,
    box: Vec3,
    second: Placed,
) -> ContactGeometry:
    """Return a contact inside the axis, along which the closest point moves freely."""
    n, reach = contact.normal, radius + 0.5 * contact.gap
    distance = contact.gap + radius
    q = add(line.center, scale(line.direction, s))
    free = [where(abs(x) <= h, 1.0, 0.0) for x, h in zip(q, box, strict=True)]
    count = free[0] + free[1] + free[2]
    # corner: the axis turns about it
    apart = distance > 0.0
    inverse = where(apart, 1.0 / where(apart, distance, 1.0), 0.0)
    bound = add_matrices(tangent_projector(n), scale_matrix(outer(u, u), -1.0))
    corner = add_matrices(scale_matrix(bound, reach * inverse), outer(u, u))
    # edge: both edges turn with their bodies
    edge = matrix_vector(second.rotation, (free[0], free[1], free[2]))
    across = cross(n, edge)
    divisor = dot(across, u)
    usable = abs(divisor) > 1e-12
    factor = where(usable, 1.0 / where(usable, divisor, 1.0), 0.0)
    crossed = scale_matrix(outer(across, u), factor)
    at_corner, at_edge = count < 0.5, abs(count - 1.0) < 0.5
    return contact._replace(
        relative_curvature=select(at_corner, scale_matrix(bound, inverse), ZERO33),
        first_share=select(at_corner, corner, select(at_edge, crossed, ZERO33)),
    )


def _ends(
    line: _Axis, box: Vec3, closest: ContactGeometry, second: Placed
) -> list[tuple[Scalar, Vec3, Vec3, Scalar, Scalar, Scalar]]:
    """Return the ends of the part of the axis above the face that the closest contact is nearest.

    Returns:
        For the lower and the upper end its place on the axis [m], the middle of the face's edge
        there, the direction and half length of this edge, whether the face ends there rather than
        the axis, and whether there is such a part.
    """
    outward = transpose_vector(second.rotation, scale(closest.normal, -1.0))
    sizes = [abs(x) for x in outward]
    is_face = [
        (sizes[k] >= sizes[(k + 1) % 3]) & (sizes[k] >= sizes[(k + 2) % 3]) for k in range(3)
    ]
    height: Vec3 = (0.0, 0.0, 0.0)
    for k in range(3):
        height = select(is_face[k], scale(IDENTITY3[k], sign(outward[k]) * box[k]), height)
    low, high = -line.half, line.half
    nothing = (IDENTITY3[0], IDENTITY3[1], 0.0, False)
    first_edge, last_edge = nothing, nothing
    overlaps: Scalar = True
    for k in range(3):
        c, u, h = line.center[k], line.direction[k], box[k]
        moves = abs(u) > 1e-12
        on_face = select(is_face[k], False, True)
        divisor = where(moves, u, 1.0)
        facing = sign(u)
        enter, leave = (-facing * h - c) / divisor, (facing * h - c) / divisor
        i, j = (k + 1) % 3, (k + 2) % 3
        # the edge runs along the axis that is neither this one nor the normal of the face
        along = select(is_face[i], IDENTITY3[j], IDENTITY3[i])
        half = where(is_face[i], box[j], box[i])
        for side, place in ((-1.0, enter), (1.0, leave)):
            edge_point = add(height, scale(IDENTITY3[k], side * facing * h))
            edge = (edge_point, along, half, True)
            if side < 0.0:
                cuts = on_face & moves & (place > low)
                low, first_edge = select(cuts, (place, edge), (low, first_edge))
            else:
                cuts = on_face & moves & (place < high)
                high, last_edge = select(cuts, (place, edge), (high, last_edge))
        overlaps = overlaps & (select(on_face, moves, True) | (abs(c) <= h))
    overlaps = overlaps & (low <= high)
    low, high = maximum(low, -line.half), minimum(high, line.half)
    low, high = minimum(low, line.half), maximum(high, -line.half)
    return [(low, *first_edge, overlaps), (high, *last_edge, overlaps)]
