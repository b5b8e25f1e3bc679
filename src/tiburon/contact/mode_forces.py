"""Contact points in given modes: forces, what ends a mode, and the way back onto the constraints.

Modes are run-time values, so that one piece of code serves all of them. Closed points hold the
normal acceleration at zero, sticking ones the tangential accelerations too; the friction of sliding
ones acts against their slip.

Symbols:
    A, x        J H^-1/2 (`Compliance`), and H^-1/2 J^T f: the change of accelerations as A sees it
    B           rows of A combined as forces of each mode act: x = B^T y
    y           unknown force components: all of sticking points, the normals of sliding ones
    d, a        relative accelerations without contact forces, and with them

Slip is measured along a direction that is kept while a point slides, until it has turned by 53
degrees. Past its zero, forces continue smoothly: the force keeps its direction and the slip changes
sign, so that integrators can step over the end of a slide and the instant is located afterwards.
Forces that are not unique are those nearest to given ones.

Where slip begins, its direction follows from the accelerations, and u / |u| only after a while:
with equal coefficients of static and kinetic friction, slip grows with the square of time, and
rounding decides on the direction of what is hardly there. Up to `STARTING_SLIP` a point therefore
moves along the direction in which it has begun to slip: a force across holds it there. The slip
would turn by about 1e-4 rad meanwhile, and the force across is that share of friction.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.contact.candidates import Surface
from tiburon.contact.complementarity import ContactAccelerations
from tiburon.contact.rigid import Compliance
from tiburon.contact.rows import PointRows, in_frame, in_world
from tiburon.spatial import Scalar, Vec3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import solve_least_squares
from tiburon.trace.primitives.row_products import Piece, RowProducts

OPEN, STICKS, SLIDES, IDLE, STARTS, FOLLOWS = 0.0, 1.0, 2.0, 3.0, 4.0, 5.0
"""Modes of a contact point in a run: apart; closed without slip; closed with slip; touching without
force, because other points carry it or because it is just about to separate; closed, with slip that
has just begun and keeps its direction, by a force across it; the same where other points hold it in
this direction already."""

STARTING_SLIP = 1e-7
"""Slip at which its direction is that of friction from then on [m/s]: a thousand times what a step
misses of velocities relative to 1 m/s, and reached within a fraction of a millisecond."""

RANK_CUT = 1e-9
"""Singular values of the equations below this part of the largest are zero."""

NO_SLIP = 1e-11
"""Slip below which the direction of friction is the given one [m/s]."""

ALIGNED, PAST = 0.6, 0.55
"""Cosines of the angle by which slip may turn before its direction is taken anew, and beyond which
it has reversed: it ends where it would."""

MARGIN, MARGIN_TIME = 1e-12, 1e-4
"""Margin of what ends a mode [m, N or m/s], and how long after a change it takes to vanish [s]: a
gap that opens, a slip that begins and a force that grows start at zero, give or take rounding."""

IDLE_ACCELERATION, IDLE_GAP = 1e-7, 1e-9
"""Approach [m/s^2] and gap [m] of an idle point that end its mode."""


class PointMode(NamedTuple):
    """Mode of one contact point: run-time values."""

    mode: Scalar
    """One of `OPEN`, `STICKS`, `SLIDES`, `IDLE`, `STARTS`, `FOLLOWS`."""

    direction: Vec3
    """Direction of slip that is kept, world axes: of the second body relative to the first."""

    force: Vec3
    """Force on the first body to which forces that are not unique are nearest, world axes [N]."""

    since: Scalar
    """Time at which the mode began [s]."""


class ModeForces(NamedTuple):
    """Forces of all contact points in their modes."""

    f: list[Scalar]
    """Two tangents and the normal of each point [N]."""

    x: list[Scalar]
    """A^T f."""

    a: list[Scalar]
    """Relative accelerations [m/s^2], 3 per point."""

    slip: list[Scalar]
    """Slip of each point along its direction [m/s]; negative past the end of a slide, and where it
    has turned away from that direction."""


def mode_forces(
    problem: ContactAccelerations, surfaces: Sequence[Surface], modes: Sequence[PointMode]
) -> ModeForces:
    """Return the forces with which all contact points stay in their modes.

    Args:
        problem: All contact points in a state.
        surfaces: Their materials.
        modes: Their modes.
    """
    size, count = problem.compliance.size, len(modes)
    A = [[row.get(i, 0.0) for i in range(size)] for row in problem.compliance.rows]
    B: list[list[Scalar]] = []
    held: list[list[Scalar]] = []
    d: list[Scalar] = []
    start: list[Scalar] = []
    friction: list[tuple[Scalar, Scalar]] = []
    ways: list[_Way] = []
    slips: list[Scalar] = []
    for k, (point, surface, mode) in enumerate(zip(problem.points, surfaces, modes, strict=True)):
        way = _held_way(point, mode)
        closed = way.closed
        e1, e2, slip = _direction(point, problem.velocity[3 * k : 3 * k + 2], mode)
        share = way.slides * surface.kinetic_friction
        friction.append((-share * e1, -share * e2))
        slips.append(slip)
        ways.append(way)
        held += way.rows(A[3 * k : 3 * k + 3])
        one, two, normal = A[3 * k : 3 * k + 3]
        B += held[-3:-1]
        B.append(
            [
                closed * n - share * (e1 * a + e2 * b)
                for n, a, b in zip(normal, one, two, strict=True)
            ]
        )
        d += way.parts(problem.free[3 * k : 3 * k + 3])
        start += [-x for x in way.parts(in_frame(point, mode.force))]
    x = _combined(B, start, size)
    rest = [a + b for a, b in zip(d, _products(held, x), strict=True)]
    n = 3 * count
    sizes, pieces = ((size, n), (size, n)), [Piece(i, 0, n, 0, i * n) for i in range(n)]
    products = RowProducts(sizes, (((0, 1),),), pieces).apply(
        [row[i] for rows in (held, B) for i in range(size) for row in rows]
    )
    matrix: Any = as_traced(list(products))
    change = solve_least_squares(
        matrix.reshape(n, n), as_traced([-z for z in rest]), cut=RANK_CUT
    ).x.tolist()
    y = [a + b for a, b in zip(start, change, strict=True)]
    x = _combined(B, y, size)
    f: list[Scalar] = []
    for k, ((f1, f2), way) in enumerate(zip(friction, ways, strict=True)):
        normal_force = y[3 * k + 2]
        g1, g2 = way.tangential(y[3 * k], y[3 * k + 1])
        f += [g1 + f1 * normal_force, g2 + f2 * normal_force, normal_force]
    a = [d + g for d, g in zip(problem.free, _products(A, x), strict=True)]
    return ModeForces(f, x, a, slips)


class HeldContacts(NamedTuple):
    """Contacts of an event-driven run in one state."""

    problem: ContactAccelerations
    """All contact points."""

    surfaces: list[Surface]
    """Their materials."""

    modes: list[PointMode]
    """Their modes."""

    def forces(self) -> ModeForces:
        """Return the forces with which all points stay in their modes."""
        return mode_forces(*self)


class _Way(NamedTuple):
    """What a point holds in its mode: the normal where it is closed, tangents where it sticks."""

    sticks: Scalar
    slides: Scalar
    closed: Scalar
    across: tuple[Scalar, Scalar]
    """Unit tangent across the slip that has begun; zero for all other points."""

    def parts(self, of: Sequence[Scalar]) -> list[Scalar]:
        """Return the held parts of two tangents and a normal; zero where nothing is held."""
        one, two, normal = of
        a, b = self.across
        return [self.sticks * one + (a * one + b * two), self.sticks * two, self.closed * normal]

    def rows(self, of: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
        """Return the held parts of three rows."""
        found = [self.parts(column) for column in zip(*of, strict=True)]
        return [[column[axis] for column in found] for axis in range(3)]

    def tangential(self, y1: Scalar, y2: Scalar) -> tuple[Scalar, Scalar]:
        """Return the two tangents of forces along the held ones."""
        a, b = self.across
        return self.sticks * y1 + a * y1, self.sticks * y2 + b * y1


def _held_way(point: PointRows, mode: PointMode) -> _Way:
    """Return what a point holds in its mode."""
    sticks = np.where(mode.mode == STICKS, 1.0, 0.0)
    starts = np.where(mode.mode == STARTS, 1.0, 0.0)
    follows = np.where((mode.mode == SLIDES) | (mode.mode == FOLLOWS), 1.0, 0.0)
    slides = follows + starts
    d1, d2 = _kept(point, mode)
    return _Way(sticks, slides, sticks + slides, (-starts * d2, starts * d1))


def _kept(point: PointRows, mode: PointMode) -> tuple[Scalar, Scalar]:
    """Return the unit direction of slip that is kept, in two tangents; zero if there is none."""
    d1, d2, _ = in_frame(point, mode.direction)
    length = np.sqrt(d1 * d1 + d2 * d2)
    scale = 1.0 / np.where(length > 0.0, length, 1.0)
    return scale * d1, scale * d2


def _direction(
    point: PointRows, velocity: Sequence[Scalar], mode: PointMode
) -> tuple[Scalar, Scalar, Scalar]:
    """Return the direction of slip that friction acts against, in two tangents, and what is left.

    Slip remains along the direction that is kept, and is zero where it has turned.
    """
    d1, d2 = _kept(point, mode)
    u1, u2 = velocity
    slip = u1 * d1 + u2 * d2
    speed = np.sqrt(u1 * u1 + u2 * u2)
    # slip that begins keeps its direction
    begins = (mode.mode == STARTS) | (mode.mode == FOLLOWS)
    moves = (speed > NO_SLIP) & ~begins
    back = slip < -PAST * speed
    factor = np.where(back, -1.0, 1.0) / np.where(moves, speed, 1.0)
    # the speed while aligned, zero at the angle at which it has turned too far
    left = np.where(back, slip, (slip - ALIGNED * speed) * (1.0 / (1.0 - ALIGNED)))
    left = np.where(begins, slip, left)
    return np.where(moves, factor * u1, d1), np.where(moves, factor * u2, d2), left


def _combined(rows: Sequence[Sequence[Scalar]], y: Sequence[Scalar], size: int) -> list[Scalar]:
    """Return the sum of rows times factors."""
    found: list[Scalar] = [0.0] * size
    for row, factor in zip(rows, y, strict=True):
        found = [a + b * factor for a, b in zip(found, row, strict=True)]
    return found


def _products(rows: Sequence[Sequence[Scalar]], x: Sequence[Scalar]) -> list[Scalar]:
    """Return the product of each row with a vector."""
    found = []
    for row in rows:
        total: Scalar = 0.0
        for a, b in zip(row, x, strict=True):
            total = total + a * b
        found.append(total)
    return found


def mode_margins(
    problem: ContactAccelerations,
    forces: ModeForces,
    surfaces: Sequence[Surface],
    modes: Sequence[PointMode],
    time: Scalar,
) -> list[Scalar]:
    """Return two values per contact point that are positive while its mode lasts.

    The first is the gap of an open point, the normal force of a closed one, and the normal
    acceleration of an idle one. The second is the friction that is left of a sticking point, the
    slip of a sliding one, the distance from both ends of a slip that begins, and what is left to
    the gap of an idle one.
    """
    found: list[Scalar] = []
    for k, (point, surface, mode) in enumerate(zip(problem.points, surfaces, modes, strict=True)):
        f1, f2, normal = forces.f[3 * k : 3 * k + 3]
        age = (time - mode.since) * (1.0 / MARGIN_TIME)
        margin = MARGIN * np.maximum(1.0 - age, 0.0)
        closed = _is_closed(mode)
        idle = forces.a[3 * k + 2] + IDLE_ACCELERATION
        first = np.where(mode.mode == IDLE, idle, point.geometry.gap + margin)
        first = np.where(closed, normal + margin, first)
        left = surface.static_friction * normal - np.sqrt(f1 * f1 + f2 * f2) + margin
        # without friction nothing changes where slip ends
        slides = (mode.mode == SLIDES) & (surface.static_friction > 0.0)
        second = np.where(slides, forces.slip[k] + margin, 1.0)
        second = np.where(mode.mode == STICKS, left, second)
        slip = forces.slip[k]
        begins = np.minimum(slip + margin, STARTING_SLIP - slip)
        second = np.where((mode.mode == STARTS) | (mode.mode == FOLLOWS), begins, second)
        second = np.where(mode.mode == IDLE, IDLE_GAP - point.geometry.gap, second)
        found += [first, second]
    return found


def _is_closed(mode: PointMode) -> Any:
    """Return whether a point carries force in its mode."""
    return (mode.mode != OPEN) & (mode.mode != IDLE)


def closing_step(
    points: Sequence[PointRows], compliance: Compliance, modes: Sequence[PointMode]
) -> tuple[Scalar, ...]:
    """Return the least motion in the mass metric that closes the gaps of closed points."""
    rows: list[list[Scalar]] = []
    gaps: list[Scalar] = []
    for k, (point, mode) in enumerate(zip(points, modes, strict=True)):
        closed = np.where(_is_closed(mode), 1.0, 0.0)
        row = compliance.rows[3 * k + 2]
        rows.append([closed * row.get(i, 0.0) for i in range(compliance.size)])
        gaps.append(-closed * point.geometry.gap)
    return _response(compliance, rows, gaps)


def stopping_impulse(
    points: Sequence[PointRows],
    velocity: Sequence[Scalar],
    compliance: Compliance,
    modes: Sequence[PointMode],
) -> tuple[Scalar, ...]:
    """Return the change of joint velocities that stops what closed and sticking points hold.

    Args:
        points: Geometry and axes of all points.
        velocity: Relative velocities of all points [m/s], 3 per point.
        compliance: The inverse mass matrix as contacts see it.
        modes: Modes of all points.
    """
    rows: list[list[Scalar]] = []
    rest: list[Scalar] = []
    for k, (point, mode) in enumerate(zip(points, modes, strict=True)):
        way, three = _held_way(point, mode), compliance.rows[3 * k : 3 * k + 3]
        rows += way.rows([[row.get(i, 0.0) for i in range(compliance.size)] for row in three])
        rest += [-x for x in way.parts(velocity[3 * k : 3 * k + 3])]
    return _response(compliance, rows, rest)


def _response(
    compliance: Compliance, rows: Sequence[Sequence[Scalar]], rest: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    matrix: Any = as_traced([x for row in rows for x in row])
    found = solve_least_squares(
        matrix.reshape(len(rows), compliance.size), as_traced(list(rest)), cut=RANK_CUT
    )
    return tuple(compliance.response(found.x.tolist()))


def force_on_first(point: PointRows, f: Sequence[Scalar]) -> Vec3:
    """Return the force on the first body in world axes, from that along the axes of a point."""
    return in_world(point, [-x for x in f])
