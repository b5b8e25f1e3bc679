"""Contacts of a cylinder with a height field."""

from functools import partial
from typing import NamedTuple

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
    tangent_projector,
)
from tiburon.contact.geometry.cylinder_plane import rim_points
from tiburon.contact.geometry.height_field import (
    NEAR,
    Reach,
    terrain_contacts,
)
from tiburon.contact.geometry.rim_contact import rim_minima
from tiburon.contact.geometry.smooth_height_field import (
    Nearest,
    hill_contacts,
    nearest_mantle,
    smooth_height,
    smooth_terrain_contact,
)
from tiburon.contact.geometry.sphere_cylinder import point_cylinder
from tiburon.contact.geometry.terrain_features import (
    face_contacts,
    nearest_contacts,
    ridge_contacts,
)
from tiburon.contact.geometry.vectors import (
    add_matrices,
    outer,
    root,
    scale_matrix,
    sign,
    unit,
)
from tiburon.spatial.vec3 import (
    Scalar,
    Vec3,
    add,
    cross,
    dot,
    matrix_product,
    scale,
    subtract,
)
from tiburon.trace.regions import function, while_loop
from tiburon.trace.value import where

MIN_CROSSING_SINE = 1e-6
"""Sine of the angle above which edges cross, and by which a normal may be beyond those of faces."""

MAX_ITERATIONS, SQUARED_TURN_TOLERANCE = 20, 1e-28
"""Most iterations for the crossing of an edge and a rim, and the squared turn that ends them."""

MAX_TURN = 0.3
"""Turn of one iteration at most [rad]."""


def cylinder_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return three contacts of rims with triangles, and five others.

    The others are the nearest of three points that are fixed to the leading rim, which carry a
    cylinder that stands, and of peaks and ridges.
    """
    radius, length = first.size
    contact_of = function(terrain_contacts)
    (under,) = contact_of(first.position, 0.0, second, 1)
    faces = face_contacts(
        lambda down: rim_points(first, down)[:2], first.position, under, second, reach.body, 3
    )
    others = [contact_of(point, 0.0, second, 1)[0] for point in rim_points(first, under.normal)[2:]]
    others += ridge_contacts(
        first.position,
        second,
        reach.body,
        5,
        lambda point: (point_cylinder(point, 0.0, first),),
        lambda start, edge, outward, _: _on_ridge(start, edge, outward, first),
        root(radius * radius + 0.25 * length * length),
        5,
    )
    return (*faces, *nearest_contacts(others, 5, second))


def _on_ridge(
    start: Vec3, edge: Vec3, outward: Vec3, cylinder: Placed
) -> tuple[ContactGeometry, ...]:
    """Return the contacts of an edge of the terrain with mantle and rims, from the edge.

    Seen along the axis, an edge crosses a rim where it enters and where it leaves the cylinder.

    Args:
        start: One end of the edge, world axes [m].
        edge: From there to the other end [m].
        outward: Direction out of the ground.
        cylinder: The cylinder.
    """
    radius, _ = cylinder.size
    u = axis(cylinder, 2)
    e = scale(edge, 1.0 / root(dot(edge, edge)))
    to_start = subtract(start, cylinder.position)
    beside = subtract(to_start, scale(u, dot(u, to_start)))
    slide = subtract(e, scale(u, dot(u, e)))
    # |beside + s slide| = radius
    square, half = dot(slide, slide), dot(slide, beside)
    crosses = square > MIN_CROSSING_SINE * MIN_CROSSING_SINE
    divisor = where(crosses, square, 1.0)
    inside = half * half - square * (dot(beside, beside) - radius * radius)
    meets = crosses & (inside > 0.0)
    width = root(where(meets, inside, 0.0))
    rim_crossing = function(_rim_crossing)
    found = [_mantle_crossing(start, e, outward, cylinder)]
    for s in ((-half - width) / divisor, (-half + width) / divisor):
        direction, _ = unit(add(beside, scale(slide, s)), axis(cylinder, 0))
        for side in (-1.0, 1.0):
            contact = rim_crossing(start, e, outward, side, direction, cylinder)
            found.append(contact._replace(gap=where(meets, contact.gap, NO_CONTACT)))
    return tuple(found)


def _mantle_crossing(start: Vec3, e: Vec3, outward: Vec3, cylinder: Placed) -> ContactGeometry:
    """Return the contact of an edge along e with the mantle."""
    radius, length = cylinder.size
    u = axis(cylinder, 2)
    n, sine = unit(cross(e, u), outward)
    n = scale(n, sign(dot(n, outward)))
    between = subtract(cylinder.position, start)
    gap = dot(n, between) - radius
    # edge and ruling turn with their bodies
    across = cross(n, u)
    divisor = dot(across, e)
    usable = (abs(divisor) > MIN_CROSSING_SINE) & (sine > MIN_CROSSING_SINE)
    inverse = where(usable, 1.0 / where(usable, divisor, 1.0), 0.0)
    place = add(start, scale(e, dot(across, between) * inverse))
    exists = usable & (abs(dot(u, subtract(place, cylinder.position))) < 0.5 * length)
    return ContactGeometry(
        where(exists, gap, NO_CONTACT),
        add(place, scale(n, 0.5 * gap)),
        n,
        ZERO33,
        scale_matrix(outer(across, e), inverse),
    )


class _Turn(NamedTuple):
    direction: Vec3
    turned: Scalar


def _rim_crossing(
    start: Vec3, e: Vec3, outward: Vec3, side: Scalar, direction: Vec3, cylinder: Placed
) -> ContactGeometry:
    """Return the contact of an edge along e with a rim.

    With the tangent t of the rim and d the way from the edge to a point of the rim, across e, the
    closest points have d . t = 0, which Newton's method solves.

    Args:
        start: A point of the edge, world axes [m].
        e: Its direction.
        outward: Direction out of the ground.
        side: -1 for the rim at -z, 1 for that at +z.
        direction: From the middle of the rim to where the search begins.
        cylinder: The cylinder.
    """
    radius, length = cylinder.size
    u = axis(cylinder, 2)
    middle = add(cylinder.position, scale(u, 0.5 * side * length))

    def way(s: Vec3) -> tuple[Vec3, Scalar]:
        """Return d, and where it begins on the edge."""
        arm = subtract(add(middle, scale(s, radius)), start)
        along = dot(e, arm)
        return subtract(arm, scale(e, along)), along

    def step(state: _Turn) -> _Turn:
        s = state.direction
        t = cross(u, s)
        d, _ = way(s)
        slope = radius * (1.0 - dot(t, e) * dot(t, e)) - dot(d, s)
        regular = slope > MIN_CROSSING_SINE * radius
        # where the distance is not convex, downhill
        turn = -dot(d, t) / where(regular, slope, MIN_CROSSING_SINE * radius)
        turn = where(abs(turn) > MAX_TURN, where(turn > 0.0, MAX_TURN, -MAX_TURN), turn)
        moved = add(s, scale(t, turn))
        moved = subtract(moved, scale(u, dot(u, moved)))
        return _Turn(unit(moved, s)[0], turn * turn)

    found = while_loop(
        lambda p: p.turned > SQUARED_TURN_TOLERANCE, step, _Turn(direction, 1.0), MAX_ITERATIONS
    )
    s = found.state.direction
    t = cross(u, s)
    d, along = way(s)
    n, sine = unit(cross(t, e), outward)
    n = scale(n, sign(dot(n, outward)))
    gap = dot(n, d)
    # between the normals of mantle and end face
    missed = subtract(d, scale(n, gap))
    exists = found.converged & (sine > MIN_CROSSING_SINE)
    exists = exists & (
        dot(missed, missed) < MIN_CROSSING_SINE * MIN_CROSSING_SINE * radius * radius
    )
    exists = exists & (dot(n, s) < MIN_CROSSING_SINE) & (side * dot(n, u) < MIN_CROSSING_SINE)
    # radii of the rim, and an edge along which the closest point moves freely
    level = subtract(n, scale(u, dot(u, n)))
    steep = root(dot(level, level))
    leans = steep > MIN_CROSSING_SINE
    rho = where(leans, radius / where(leans, steep, 1.0), 0.0)
    f = cross(n, e)
    stiff = rho * dot(t, f) * dot(t, f) + gap
    curved = stiff > MIN_CROSSING_SINE * radius
    D = scale_matrix(outer(f, f), where(curved, 1.0 / where(curved, stiff, 1.0), 0.0))
    P = tangent_projector(n)
    radii = add_matrices(scale_matrix(outer(t, t), rho), scale_matrix(P, 0.5 * gap))
    return ContactGeometry(
        where(exists, gap, NO_CONTACT),
        add(add(start, scale(e, along)), scale(n, 0.5 * gap)),
        n,
        D,
        add_matrices(P, scale_matrix(matrix_product(D, radii), -1.0)),
    )


def cylinder_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return contacts with smooth terrain: five of the rims, and three others.

    Those of the rims are the nearest local minima of their distance. The others are the nearest of
    three points that are fixed to the leading rim, which carry a cylinder that stands, and of hills
    below the mantle and below an end face.
    """
    radius, length = first.size
    u = axis(first, 2)
    bound = root(radius * radius + 0.25 * length * length)
    contact_of = function(smooth_terrain_contact)
    under = contact_of(first.position, 0.0, second)

    def on_face(point: Vec3) -> Nearest:
        outward = scale(u, sign(dot(u, under.normal)))
        arm = subtract(point, first.position)
        height = dot(outward, arm)
        beside = subtract(arm, scale(outward, height))
        inside = dot(beside, beside) < radius * radius
        return Nearest(height - 0.5 * length, outward, ZERO33, inside)

    rims: list[ContactGeometry] = []
    minima: list[tuple[ContactGeometry, Scalar]] = []
    for side in (-1.0, 1.0):
        found, exists = rim_minima(
            first,
            side,
            under.normal,
            lambda point: contact_of(point, 0.0, second),
            lambda point: smooth_height(point, second),
            16 * reach.body + 16,
            3,
        )
        rims += found
        minima += [(one, exists & (one.gap < NO_CONTACT)) for one in found]
    others = []
    for point in rim_points(first, under.normal)[2:]:
        contact = contact_of(point, 0.0, second)
        # a minimum of the rim nearby carries the cylinder in its stead
        counts: Scalar = True
        for one, exists in minima:
            arm = subtract(one.point, contact.point)
            counts = counts & ~(exists & (dot(arm, arm) < radius * radius))
        others.append(contact._replace(gap=where(counts, contact.gap, NO_CONTACT)))
    for part in (partial(nearest_mantle, first), on_face):
        others += hill_contacts(part, first.position, bound, second, reach.body, 3)
    return (*nearest_contacts(rims, 5, second), *nearest_contacts(others, 3, second))
