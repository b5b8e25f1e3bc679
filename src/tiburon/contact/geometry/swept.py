"""Contacts that close within a step: the first instant at which two moving shapes touch.

At the end of a step a fast body may be beyond a thin one, or deep inside it, where the geometry of
their contact is another. The geometry is then that of the instant of first contact, found by
conservative advancement (Mirtich 1996): convex shapes that are g apart along n cannot touch before
they have approached by g along n. Over a step, s from 0 to 1, a shape moves by d and turns by an
angle a about its origin; its extent along n changes at a rate of at most a sqrt(R^2 - r^2), with R
and r the radii of its bounding and its inscribed sphere.

Only pairs whose relative motion within the step is not small against their inscribed spheres are
swept, and whose bounding spheres meet. Others cost a comparison. Terrain is not convex: a shape g
above it may move by g in any direction, and by half a cell, beyond which not all is in sight.
"""

from typing import NamedTuple

from tiburon.contact.geometry.bounds import bounding_radius, earliest_contact, inscribed_radius
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.pairs import Pair
from tiburon.contact.geometry.vectors import (
    add_matrices,
    maximum,
    minimum,
    outer,
    root,
    scale_matrix,
    select,
    unit,
)
from tiburon.spatial.vec3 import (
    IDENTITY3,
    Mat3,
    Scalar,
    Vec3,
    add,
    dot,
    matrix_product,
    scale,
    subtract,
    transpose,
)
from tiburon.trace.regions import while_loop
from tiburon.trace.value import binary, unary, where

__all__ = ["Crossing", "SweptContact", "is_fast", "swept_contacts"]

SWEPT_SHARE = 0.25
"""Relative motion within a step, as a share of the inscribed radii, from which a pair is swept."""

TOUCHING_GAP = 1e-9
"""Gap at which the search ends, relative to the sum of the bounding radii."""

MAX_ITERATIONS = 100
"""Advances at most; bodies that meet face to face take one, spheres that pass closely some ten."""


class Crossing(NamedTuple):
    """A pair of shapes over a step."""

    first: tuple[Placed, Placed]
    """The first shape at the start and at the end."""

    second: tuple[Placed, Placed]
    """The second shape."""

    kinds: tuple[str, str]
    """Kinds of both."""

    @property
    def radii(self) -> tuple[tuple[Scalar, Scalar], ...]:
        """Radii of the bounding and the inscribed sphere of each shape [m]."""
        sizes = (self.first[0].size, self.second[0].size)
        found = [
            (bounding_radius(kind, size), inscribed_radius(kind, size))
            for kind, size in zip(self.kinds, sizes, strict=True)
        ]
        # ridges of terrain have no inside that could stop a shape
        return tuple(found) if self.cell is None else (found[0], (0.0, 0.0))

    @property
    def cell(self) -> Scalar | None:
        """Smaller spacing of a second shape that is terrain [m]."""
        if not self.kinds[1].endswith("height field"):
            return None
        return minimum(*self.second[0].size[:2])

    @property
    def travel(self) -> Vec3:
        """Displacement of the second origin relative to the first [m]."""
        one, two = (subtract(b.position, a.position) for a, b in (self.first, self.second))
        return subtract(two, one)


class SweptContact(NamedTuple):
    """A contact point at the instant of first contact."""

    gap: Scalar
    """Gap at that instant [m]."""

    normal: Vec3
    """Unit normal, from the first to the second shape."""

    first: Vec3
    """The point, moved on with the first shape to the end of the step [m]."""

    second: Vec3
    """The point, moved on with the second shape [m]."""


def is_fast(pair: Crossing, start: tuple[ContactGeometry, ...]) -> Scalar:
    """Return whether a pair must be swept.

    On terrain, if the shape is clear of it at the start and its center may pass a ridge: one that
    it does not pass has contacts at the end of the step.

    Args:
        pair: The pair.
        start: Its contacts at the start of the step.
    """
    (R1, r1), (R2, r2) = pair.radii
    travel = pair.travel
    turned: Scalar = 0.0
    for (a, b), R, r in ((pair.first, R1, r1), (pair.second, R2, r2)):
        # chords are shorter than arcs by up to 2 / pi
        turned = turned + 1.6 * root(3.0 - _trace_product(a.rotation, b.rotation)) * _lever(R, r)
    most = SWEPT_SHARE * (r1 + r2)
    gap, normal = _nearest(start)
    approach = -dot(normal, travel)
    offset = subtract(pair.second[0].position, pair.first[0].position)
    length = root(dot(travel, travel))
    if pair.cell is not None:
        return (length > r1) & (gap > TOUCHING_GAP * R1)
    meets = earliest_contact(offset, travel, R1 + R2, 1.0).touches
    moves = length + turned > most
    # what touches already and moves along the surface is not about to cross it
    enters = (gap > TOUCHING_GAP * (R1 + R2)) | (approach + turned > most)
    return moves & meets & enters


def swept_contacts(
    pair: Crossing, speeds: tuple[tuple[Vec3, Vec3], ...], narrow_phase: Pair
) -> tuple[Scalar, Scalar, tuple[SweptContact, ...]]:
    """Return whether shapes touch within a step, when, and their contacts then.

    Args:
        pair: The pair.
        speeds: Velocities of both origins at the start and at the end, times the step [m].
        narrow_phase: Contacts of the two shapes.

    Returns:
        Whether they touch; the share of the step before; the contacts.
    """
    shapes = (pair.first, pair.second)
    moving = [_Motion(*shape, *ends) for shape, ends in zip(shapes, speeds, strict=True)]
    spread: Scalar = 0.0
    for (R, r), motion in zip(pair.radii, moving, strict=True):
        spread = spread + motion.bend + motion.angle * _lever(R, r)
    least, travel = TOUCHING_GAP * (pair.radii[0][0] + pair.radii[1][0]), pair.travel
    cell = pair.cell

    def apart(s: Scalar) -> tuple[Scalar, Vec3]:
        places = moving[0].at(s), moving[1].at(s)
        if narrow_phase.separation is not None:
            return narrow_phase.separation(*places)
        return _nearest(narrow_phase.function(*places))

    def advance(state: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        s, _ = state
        gap, normal = apart(s)
        speed = maximum(-dot(normal, travel), 0.0) + spread
        if cell is not None:
            # not convex: what is in another direction may be met first, or out of reach
            gap, speed = minimum(gap, 0.5 * cell), root(dot(travel, travel)) + spread
        ahead = where(speed > 0.0, gap / where(speed > 0.0, speed, 1.0), 1.0)
        step = where(gap > least, ahead, 0.0)
        return minimum(s + step, 1.0), step

    found = while_loop(
        lambda state: (state[0] < 1.0) & (state[1] > 0.0), advance, (0.0, 1.0), MAX_ITERATIONS
    )
    s = found.state[0]
    contacts = narrow_phase.function(moving[0].at(s), moving[1].at(s))
    ends = [
        subtract(shape[1].position, motion.at(s).position)
        for shape, motion in zip(shapes, moving, strict=True)
    ]
    return (
        s < 1.0,
        s,
        tuple(
            SweptContact(
                contact.gap,
                contact.normal,
                add(contact.point, ends[0]),
                add(contact.point, ends[1]),
            )
            for contact in contacts
        ),
    )


def _nearest(contacts: tuple[ContactGeometry, ...]) -> tuple[Scalar, Vec3]:
    """Return gap and normal of the contact with the smallest gap: the distance of the shapes."""
    gap, normal = contacts[0].gap, contacts[0].normal
    for contact in contacts[1:]:
        nearer = contact.gap < gap
        gap, normal = select(nearer, (contact.gap, contact.normal), (gap, normal))
    return gap, normal


def _lever(bounding: Scalar, inscribed: Scalar) -> Scalar:
    """Return the largest rate of the extent of a shape along a direction per angle [m]."""
    return root(bounding * bounding - inscribed * inscribed)


def _trace_product(a: Mat3, b: Mat3) -> Scalar:
    """Return the trace of a^T b."""
    total: Scalar = 0.0
    for p, q in zip(a, b, strict=True):
        total = total + dot(p, q)
    return total


class _Motion:
    """A shape that turns about a fixed axis, and whose origin moves on a cubic curve.

    Attributes:
        angle: Angle by which it turns over the step [rad], up to pi.
        bend: Bound of the difference between its velocity and the mean, times the step [m].
    """

    def __init__(self, start: Placed, end: Placed, first: Vec3, last: Vec3) -> None:
        """Take the poses at both ends and the velocities of the origin there, times the step."""
        self._start = start
        self._travel = subtract(end.position, start.position)
        self._first, self._last = subtract(first, self._travel), subtract(last, self._travel)
        # of the cubic with these slopes: |1 - 4 s + 3 s^2| and |3 s^2 - 2 s| are at most 1
        self.bend = root(dot(self._first, self._first)) + root(dot(self._last, self._last))
        D = matrix_product(end.rotation, transpose(start.rotation))
        double = (D[2][1] - D[1][2], D[0][2] - D[2][0], D[1][0] - D[0][1])
        self._axis, sine = unit(double, (0.0, 0.0, 1.0))
        self.angle = binary("atan2", sine, D[0][0] + D[1][1] + D[2][2] - 1.0)

    def at(self, s: Scalar) -> Placed:
        """Return the shape at a share of the step."""
        x, y, z = u = self._axis
        c, sine = unary("cos", s * self.angle), unary("sin", s * self.angle)
        skew: Mat3 = ((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0))
        turn = add_matrices(
            add_matrices(scale_matrix(IDENTITY3, c), scale_matrix(skew, sine)),
            scale_matrix(outer(u, u), 1.0 - c),
        )
        rest = 1.0 - s
        bent = add(scale(self._first, s * rest * rest), scale(self._last, -s * s * rest))
        return Placed(
            matrix_product(turn, self._start.rotation),
            add(add(self._start.position, scale(self._travel, s)), bent),
            self._start.size,
        )
