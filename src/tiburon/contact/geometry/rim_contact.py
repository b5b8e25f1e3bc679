"""Contact of a rim of a cylinder with another body, at the point of the rim that is nearest to it.

The rim is a circle of radius r, u its axis, s the direction from its middle to the point, t = u x s
its tangent. A point that is fixed to the cylinder has the contact normal n, and the tensors D0 and
T0 (`contact_geometry`). The nearest point of the rim has n . t = 0 and moves over it at such a rate
c that this stays so: n' = n'0 - c D0 t and t' = w1 x t - (c / r) s give

    c = t . ((T0 - P) ((w1 - w2) x n) + D0 v) / k,   k = t . D0 t + n . s / r

and with it D = D0 - D0 t t^T D0 / k, T = T0 - D0 t t^T (T0 - P) / k. Newton's method finds the
point with the same k: it moves by n . t / k.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tiburon.contact.geometry.contact_geometry import (
    NO_CONTACT,
    ContactGeometry,
    Placed,
    axis,
    tangent_projector,
)
from tiburon.contact.geometry.cylinder_plane import rim_points
from tiburon.contact.geometry.vectors import (
    add_matrices,
    outer,
    scale_matrix,
    select,
    unit,
    unit_across,
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
    transpose_vector,
)
from tiburon.trace.regions import fixed_loop, function, where_needed, while_loop
from tiburon.trace.value import unary, where

MAX_ITERATIONS = 30
"""Most iterations; some 4 where the bodies are near each other."""

SQUARED_TURN_TOLERANCE = 1e-28
"""Squared turn at which Newton's method ends [rad^2]."""

MAX_TURN = 0.5
"""Turn of one iteration at most [rad]."""

LEVEL_ROUNDING = 1e-9
"""Difference of heights of samples that is rounding, relative to the radius."""

SAME_PLACE_DISTANCE = 0.05
"""Distance of minima, relative to the radius, below which they are one."""

LEVEL_CURVATURE = 1e-9
"""k r below which a rim is level: all of its points are equally near."""


class _Place(NamedTuple):
    direction: Vec3
    turned: Scalar


def rim_contact(
    cylinder: Placed, side: float, toward: Vec3, point_contact: Callable[[Vec3], ContactGeometry]
) -> ContactGeometry:
    """Return the contact of the nearest point of a rim, from the cylinder to the other body.

    Args:
        cylinder: The cylinder.
        side: -1 for the rim at -z, 1 for that at +z.
        toward: Direction toward the other body, with which the search begins.
        point_contact: Contact of a point of the cylinder, world axes [m], with the other body.
    """
    radius, length = cylinder.size
    u = axis(cylinder, 2)
    middle = add(cylinder.position, scale(u, 0.5 * side * length))

    def at(s: Vec3) -> tuple[ContactGeometry, Vec3, Scalar]:
        """Return the contact of a point, the tangent there, and k r."""
        contact = point_contact(add(middle, scale(s, radius)))
        t = cross(u, s)
        bent = dot(t, matrix_vector(contact.relative_curvature, t))
        return contact, t, radius * bent + dot(contact.normal, s)

    def step(place: _Place) -> _Place:
        contact, t, k = at(place.direction)
        slope = dot(contact.normal, t)
        # where the distance is not convex, downhill
        turn = slope / where(k > LEVEL_CURVATURE, k, 1.0)
        turn = where(abs(turn) > MAX_TURN, where(turn > 0.0, MAX_TURN, -MAX_TURN), turn)
        moved = add(place.direction, scale(t, turn))
        # on the circle, whatever rounding does
        moved = subtract(moved, scale(u, dot(u, moved)))
        return _Place(unit(moved, place.direction)[0], turn * turn)

    start, _ = unit_across(toward, u, axis(cylinder, 0))
    found = while_loop(
        lambda p: p.turned > SQUARED_TURN_TOLERANCE, step, _Place(start, 1.0), MAX_ITERATIONS
    )
    contact, t, k = at(select(found.converged, found.state.direction, start))
    D, T = contact.relative_curvature, contact.first_share
    bent = matrix_vector(D, t)
    regular = k > LEVEL_CURVATURE
    factor = where(regular, -radius / where(regular, k, 1.0), 0.0)
    rest = add_matrices(T, scale_matrix(tangent_projector(contact.normal), -1.0))
    return contact._replace(
        relative_curvature=add_matrices(D, scale_matrix(outer(bent, bent), factor)),
        first_share=add_matrices(T, scale_matrix(outer(bent, transpose_vector(rest, t)), factor)),
    )


class _Sample(NamedTuple):
    """A point of a rim."""

    height: Scalar
    """Distance from the other body, about [m]."""

    angle: Scalar
    """Where it is on the rim [rad]."""


def rim_minima(
    cylinder: Placed,
    side: float,
    toward: Vec3,
    point_contact: Callable[[Vec3], ContactGeometry],
    height: Callable[[Vec3], Scalar],
    samples: int,
    count: int,
) -> tuple[list[ContactGeometry], Scalar]:
    """Return the nearest local minima of the distance between a rim and uneven ground.

    From samples that are lower than their neighbors; if there are none, one from the direction
    toward the ground. Others that do not exist have the gap `NO_CONTACT`. Also returns whether
    there is a minimum: a rim that is level has none.

    Args:
        cylinder: The cylinder.
        side: -1 for the rim at -z, 1 for that at +z.
        toward: Direction toward the ground.
        point_contact: Contact of a point of the cylinder, world axes [m], with the ground.
        height: About the distance of a point from the ground [m], quickly.
        samples: Points of the rim that are looked at.
        count: Number of minima.
    """
    radius, length = cylinder.size
    u = axis(cylinder, 2)
    middle = add(cylinder.position, scale(u, 0.5 * side * length))
    steepest, _ = unit_across(toward, u, axis(cylinder, 0))
    beside = cross(u, steepest)
    turn = 2.0 * math.pi / samples

    def direction(angle: Scalar) -> Vec3:
        return add(scale(steepest, unary("cos", angle)), scale(beside, unary("sin", angle)))

    @function
    def height_at(angle: Scalar) -> Scalar:
        return height(add(middle, scale(direction(angle), radius)))

    def visit(k: Scalar, state: tuple[Any, ...]) -> tuple[Any, ...]:
        before, here, best = state
        after = height_at((k + 1.0) * turn)
        lowest = (here < before - LEVEL_ROUNDING * radius) & (here <= after)
        found = _Sample(where(lowest, here, NO_CONTACT), k * turn)
        kept = []
        for one in best:
            nearer = found.height < one.height
            kept.append(select(nearer, found, one))
            found = select(nearer, one, found)
        return here, after, tuple(kept)

    none = _Sample(NO_CONTACT, 0.0)
    start = (height_at(-turn), height_at(0.0), (none,) * count)
    _, _, best = fixed_loop(samples, visit, start)

    @function
    def refined(angle: Scalar) -> ContactGeometry:
        return rim_contact(cylinder, side, direction(angle), point_contact)

    contacts = [refined(best[0].angle)]
    nothing = contacts[0]._replace(gap=NO_CONTACT)
    for sample in best[1:]:
        contact = where_needed(
            sample.height < NO_CONTACT, functools.partial(refined, sample.angle), nothing
        )
        differs: Scalar = True
        for one in contacts:
            apart = subtract(contact.point, one.point)
            far = dot(apart, apart) > SAME_PLACE_DISTANCE * SAME_PLACE_DISTANCE * radius * radius
            differs = differs & (far | (one.gap >= NO_CONTACT))
        contacts.append(contact._replace(gap=where(differs, contact.gap, NO_CONTACT)))
    return contacts, best[0].height < NO_CONTACT


def resting_contacts(
    cylinder: Placed, toward: Vec3, point_contact: Callable[[Vec3], ContactGeometry]
) -> list[ContactGeometry]:
    """Return three contacts of the rims on which a cylinder rests, from the cylinder.

    A cylinder within 45 degrees of standing has three points that are fixed to the leading rim,
    another one the nearest points of both rims; the third then has the gap `NO_CONTACT`.

    Args:
        cylinder: The cylinder.
        toward: Direction toward the other body.
        point_contact: Contact of a point of the cylinder, world axes [m], with the other body.
    """
    fixed = [point_contact(point) for point in rim_points(cylinder, toward)[2:]]
    along = dot(axis(cylinder, 2), toward)
    stands = along * along > 0.5
    found = [
        select(stands, one, rim_contact(cylinder, side, toward, point_contact))
        for one, side in zip(fixed, (-1.0, 1.0), strict=False)
    ]
    third = fixed[2]
    return [*found, third._replace(gap=where(stands, third.gap, NO_CONTACT))]
