"""Contacts of two capsules.

The closest points of two segments are an end of one and its projection onto the other, or the
points where the segments cross. The first contact is the closest of these. The second is the end
of the stretch over which both lie side by side that is farther from the first: two parallel
capsules touch at both ends of it. Nearly parallel ones then keep two contacts, so that a capsule
can rest on another.
"""

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
    exchanged,
    rounded_contact,
)
from tiburon.contact.geometry.sphere_capsule import point_capsule
from tiburon.contact.geometry.vectors import (
    clamp,
    outer,
    perpendicular,
    scale_matrix,
    select,
    sign,
    unit,
)
from tiburon.spatial.vec3 import Scalar, Vec3, add, cross, dot, scale, subtract
from tiburon.trace.value import where

PARALLEL_SINE_SQUARED = 1e-14
"""Squared sine between axes below which they have no crossing: its place along them would be lost
in rounding, and it is at most 1e-7 of their lengths closer than the ends."""


def capsule_capsule(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points and one at the far end of the overlap.

    Where axes intersect, the normal is perpendicular to both.
    """
    (r1, length1), (r2, length2) = first.size, second.size
    u1, u2 = axis(first, 2), axis(second, 2)
    facing = sign(dot(u1, u2))
    arm1, arm2 = scale(u1, 0.5 * length1), scale(u2, 0.5 * length2 * facing)
    along = add(u1, scale(u2, facing))

    def end_of_first(side: float) -> tuple[Scalar, ContactGeometry]:
        end = add(first.position, scale(arm1, side))
        return dot(along, end), point_capsule(end, r1, second)

    def end_of_second(side: float) -> tuple[Scalar, ContactGeometry]:
        end = add(second.position, scale(arm2, side))
        return dot(along, end), exchanged(point_capsule(end, r2, first))

    low1, low2, high1, high2 = (
        end_of_first(-1.0),
        end_of_second(-1.0),
        end_of_first(1.0),
        end_of_second(1.0),
    )
    half1, half2 = 0.5 * length1, 0.5 * length2
    closest = crossing(first.position, u1, half1, r1, second.position, u2, half2, r2)
    for end in (low1, low2, high1, high2):
        # ties go to the ends, whose place does not depend on rounding
        closest = select(end[1].gap <= closest.gap, end[1], closest)
    low = select(low1[0] > low2[0], low1, low2)
    high = select(high1[0] < high2[0], high1, high2)
    place = dot(along, closest.point)
    far = select(place - low[0] > high[0] - place, low[1], high[1])
    return (closest, far)


def crossing(
    first: Vec3,
    u1: Vec3,
    half1: Scalar,
    r1: Scalar,
    second: Vec3,
    u2: Vec3,
    half2: Scalar,
    r2: Scalar,
) -> ContactGeometry:
    """Return the contact of two rounded edges where their lines come closest.

    Args:
        first: Middle of the first edge [m].
        u1: Its direction.
        half1: Half its length [m].
        r1: Radius around it [m].
        second: Middle of the second edge [m].
        u2: Its direction.
        half2: Half its length [m].
        r2: Radius around it [m].

    Returns:
        The contact; its gap is `NO_CONTACT` where that is off an edge, or the edges are parallel.
    """
    b = dot(u1, u2)
    offset = subtract(second, first)
    d1, d2 = dot(u1, offset), dot(u2, offset)
    w = cross(u1, u2)
    square = dot(w, w)
    crossed = square > PARALLEL_SINE_SQUARED
    divisor = where(crossed, square, 1.0)
    s, t = (d1 - b * d2) / divisor, (b * d1 - d2) / divisor
    inside = crossed & (abs(s) <= half1) & (abs(t) <= half2)
    s, t = clamp(s, -half1, half1), clamp(t, -half2, half2)
    # perpendicular to both edges, toward the second
    side, _ = unit(w, perpendicular(u1))
    side = scale(side, sign(dot(side, offset)))
    apart = add(subtract(offset, scale(u1, s)), scale(u2, t))
    found = rounded_contact(add(first, scale(u1, s)), apart, r1, r2, side)
    # both edges turn with their bodies: n' . u1 = (w1 x n) . u1, n' . u2 = (w2 x n) . u2
    across = cross(found.normal, u2)
    divisor = dot(across, u1)
    usable = divisor * divisor > 0.5 * PARALLEL_SINE_SQUARED
    share = scale_matrix(outer(across, u1), where(usable, 1.0 / where(usable, divisor, 1.0), 0.0))
    return ContactGeometry(
        where(inside, found.gap, NO_CONTACT), found.point, found.normal, ZERO33, share
    )
