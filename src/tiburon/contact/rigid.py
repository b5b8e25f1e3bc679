"""Rigid contact with friction, at the level of velocities: what one time step does.

Symbols:
    h           length of the step [s]
    v, v_f      joint velocity at its start, and at its end without contact
    q_v         position at the end of the step if v stayed the same
    H, J        mass matrix, and Jacobian of the contact points, at q_v
    p           impulses of the contacts over the step [N s]
    e           Poisson's coefficient of restitution

Velocities change by H^-1 J^T p. Signorini's condition is set on the gap at the end of the step and
Coulomb's law on the exact cone (`FrictionGaussSeidel` solves for p), so that contacts which close
within the step are part of it. Between contacts a step is that of the integrator alone.

Within a step, forces other than those of contacts are constant: velocities without contact are
linear in time. A gap that closes does so at a
known instant with a known speed; the impulse that removes this speed acts from then on, and the
force that holds the contact closed afterwards is constant. Positions move by the integral of the
velocities so defined. A robot at rest on its contacts therefore stays where it is, in bits but for
the tolerance of the solver, and accelerations that are constant are integrated exactly. As v
respects the contacts that are closed, q_v differs from the final position by terms of second order
only: contact velocities vanish there to second order, and gaps to fourth.

Restitution is Poisson's: impulses of compression are those without restitution; the share that
removed the speed of approach returns e times as large in decompression. A contact that is closed
throughout the step has no speed of approach: this is what distinguishes resting from bouncing. A
bounce that would end within the step it began in goes over into rest that way.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.candidates import Surface
from tiburon.contact.rows import ContactRow, PointRows, along, in_frame, in_world
from tiburon.loops.metric import MIN_CUT, TreeMetric
from tiburon.model import Plan
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.friction import FrictionGaussSeidel
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import where_needed

__all__ = [
    "Compliance",
    "Impulses",
    "PointState",
    "RigidStep",
    "compliance_of",
    "rigid_step",
    "solve_impulses",
]

Scalars = tuple[Scalar, ...]

DIGITS = 8
"""Impulses are solved for to this many digits of the largest."""

MOST_SWEEPS = 500
"""Sweeps of Gauss-Seidel in one step at most."""

GAP_TOLERANCE = 1e-11
"""Penetration, or gap of a contact that is held closed, that a step may leave [m]."""

LEAST_SLIP = 1e-6
"""Share of the largest tangential velocity without impulses below which a point does not slip."""

LEAST_HOLD = 1e-8
"""Share of the largest impulse above which a force holds a contact closed: solver tolerance."""

UNBOUNDED = 1e30
"""Bound of impulses without a bound [N s]."""


class PointState(NamedTuple):
    """What a contact point carries from step to step."""

    force: Scalars
    """Mean force on the first body over the last step, world axes [N]."""

    sticking: Scalar
    """Whether it touched without slipping at the end of the last step: 1 or 0."""


class Compliance(NamedTuple):
    """The inverse mass matrix as contacts see it."""

    rows: list[ContactRow]
    """A = J H^-1/2, three rows per contact point; H^-1/2 leaves out what loops do not allow."""

    response: Callable[[Sequence[Scalar]], Scalars]
    """Returns the change of joint velocities H^-1/2 y that y = A^T p causes, nv scalars."""

    size: int
    """Columns of A."""

    def pushed(self, p: Sequence[Scalar]) -> Scalars:
        """Return H^-1 J^T p."""
        y: list[Scalar] = [0.0] * self.size
        for row, impulse in zip(self.rows, p, strict=True):
            for i, x in row.items():
                y[i] = y[i] + x * impulse
        return self.response(y)


class Impulses(NamedTuple):
    """Solution of a contact problem."""

    p: list[Scalar]
    """Impulses, two tangents and the normal of each point [N s]."""

    y: list[Scalar]
    """A^T p."""

    slip: list[Scalar]
    """Slip velocity of each point per tangential impulse, 0 where it sticks or is open."""

    residual: Scalar
    """Largest change of an impulse in the last sweep, relative to the largest impulse."""


def solve_impulses(
    compliance: Compliance,
    b: Sequence[Scalar],
    mu: Sequence[Scalar],
    least: Sequence[Scalar],
    start: Sequence[Scalar],
    digits: int = DIGITS,
) -> Impulses:
    """Solve for the impulses of all contact points.

    Args:
        compliance: The inverse mass matrix.
        b: Relative velocities without impulses, two tangents and the normal of each point [m/s].
        mu: Coefficient of friction of each point.
        least: Least normal impulse of each point [N s].
        start: Impulses to start from.
        digits: Digits of the largest impulse at which to end.
    """
    rows, count = compliance.rows, len(mu)
    supports = [sorted({i for row in rows[3 * k : 3 * k + 3] for i in row}) for k in range(count)]
    solver = FrictionGaussSeidel(compliance.size, supports, digits, MOST_SWEEPS)
    entries = [
        row.get(i, 0.0)
        for k, support in enumerate(supports)
        for row in rows[3 * k : 3 * k + 3]
        for i in support
    ]
    found = solver.apply([*entries, *b, *mu, *least, *start])
    ends = itertools.accumulate((3 * count, compliance.size, count), initial=0)
    p, y, slip = (found[a:b] for a, b in itertools.pairwise(ends))
    return Impulses(p, y, slip, found[-2])


class RigidStep(NamedTuple):
    """What contacts make of a step."""

    v: Scalars
    """Joint velocity at the end [m/s or rad/s]."""

    mean: Scalars
    """Joint velocity with which positions move through the step [m/s or rad/s]."""

    states: list[PointState]
    """What each point carries on."""

    touched: Scalar
    """Whether there were impulses."""

    residual: Scalar
    """Largest change of an impulse in the last sweep, relative to the largest impulse."""


def compliance_of(
    plan: Plan,
    q: Sequence[Scalar],
    points: Sequence[PointRows],
    loops: Sequence[ContactRow] = (),
    cut: Scalar = MIN_CUT,
) -> Compliance:
    """Return the compliance of a robot at its contact points.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        points: The contact points there.
        loops: Jacobian of the loop constraints; motion that violates them is left out.
        cut: Length, relative to the longest, below which a loop constraint is redundant.
    """
    elements = FactorTree(expanded_parents(plan)).layout.elements()
    metric = TreeMetric(plan, chosen_mass_elements(plan, JointVector(q), elements))
    roots = [np.sqrt(x) for x in metric.inverse_D]

    def scaled(row: ContactRow) -> ContactRow:
        return {i: x * roots[i] for i, x in metric.solve_transpose(row).items()}

    rows = [scaled(row) for point in points for row in point.rows]
    if loops:
        held = [scaled(row) for row in loops]
        factor = factor_orthogonal(_columns(held, plan.nv), cut=cut)
        lost = factor.project_range(_columns(rows, plan.nv))
        rows = [
            {i: row.get(i, 0.0) - lost[i, k] for i in range(plan.nv)} for k, row in enumerate(rows)
        ]

    def response(y: Sequence[Scalar]) -> Scalars:
        return metric.solve_lower([a * b for a, b in zip(roots, y, strict=True)])

    return Compliance(rows, response, plan.nv)


def _columns(rows: Sequence[ContactRow], size: int) -> Any:
    """Return rows as the columns of a matrix."""
    return as_traced([[row.get(i, 0.0) for row in rows] for i in range(size)])


class _Closing(NamedTuple):
    """How the gap of a contact point closes within a step."""

    bound: Scalar
    """Normal velocity without impulses, to be made non-negative by them [m/s]."""

    approach: Scalar
    """Speed of approach when the gap closes, relative to all that contacts remove; 0 to 1."""

    share: Scalar
    """Time left when the gap closes, relative to the step."""


def rigid_step(
    gaps: Sequence[Scalar],
    points: Sequence[PointRows],
    compliance: Compliance,
    surfaces: Sequence[Surface],
    states: Sequence[PointState],
    v: Sequence[Scalar],
    v_free: Sequence[Scalar],
    h: Scalar,
) -> RigidStep:
    """Return what contacts make of a step.

    Args:
        gaps: Gap of each contact point at the start [m].
        points: The contact points at q_v.
        compliance: G and H^-1 J^T there.
        surfaces: Friction and restitution of each point.
        states: What each point carries from the step before.
        v: Joint velocity at the start [m/s or rad/s], nv scalars.
        v_free: Joint velocity at the end without contact [m/s or rad/s], nv scalars.
        h: Length of the step [s].
    """
    count = len(points)
    b = [along(row, v_free) for point in points for row in point.rows]
    closing = []
    for k, (gap, point) in enumerate(zip(gaps, points, strict=True)):
        steady = along(point.rows[2], v)
        closing.append(_closing(gap, point.geometry.gap, steady, b[3 * k + 2], h))
        b[3 * k + 2] = closing[k].bound
    mu = [
        np.where(state.sticking > 0.5, surface.static_friction, surface.kinetic_friction)
        for surface, state in zip(surfaces, states, strict=True)
    ]
    guess = [
        -x * h
        for point, state in zip(points, states, strict=True)
        for x in in_frame(point, (state.force[0], state.force[1], state.force[2]))
    ]
    found = solve_impulses(compliance, b, mu, [0.0] * count, guess)
    jumps = [one.approach * found.p[3 * k + 2] for k, one in enumerate(closing)]
    returned = [of.restitution * jump for of, jump in zip(surfaces, jumps, strict=True)]

    least = [
        np.where(extra > 0.0, jump + extra, 0.0)
        for jump, extra in zip(jumps, returned, strict=True)
    ]

    def bounced() -> Impulses:
        return solve_impulses(compliance, b, mu, least, found.p)

    found = where_needed(_largest(returned) > 0.0, bounced, found)
    p, slip = found.p, found.slip
    timed = []
    for k, one in enumerate(closing):
        sudden = np.minimum(_ratio(jumps[k] + returned[k], p[3 * k + 2]), 1.0)
        lasting = one.share * (0.5 + 0.5 * sudden)
        timed += [lasting * x for x in p[3 * k : 3 * k + 3]]
    moved, shifted = compliance.response(found.y), compliance.pushed(timed)
    mean = tuple(0.5 * (a + b) + c for a, b, c in zip(v, v_free, shifted, strict=True))
    # points on the cone without slip stick, too: forces of many points are not unique
    speeds = [
        slip[k] * np.sqrt(p[3 * k] * p[3 * k] + p[3 * k + 1] * p[3 * k + 1]) for k in range(count)
    ]
    still = LEAST_SLIP * _largest([x for k in range(count) for x in b[3 * k : 3 * k + 2]])
    threshold = LEAST_HOLD * _largest(p)
    closed = [p[3 * k + 2] > bound + threshold for k, bound in enumerate(least)]
    mean = _closed(points, compliance, closed, v, mean, h)
    return RigidStep(
        tuple(a + b for a, b in zip(v_free, moved, strict=True)),
        mean,
        [
            PointState(
                tuple(-x / h for x in in_world(point, p[3 * k : 3 * k + 3])),
                np.where((p[3 * k + 2] > 0.0) & (speeds[k] <= still), 1.0, 0.0),
            )
            for k, point in enumerate(points)
        ],
        _largest(p) > 0.0,
        found.residual,
    )


def _closing(gap: Scalar, ahead: Scalar, steady: Scalar, after: Scalar, h: Scalar) -> _Closing:
    """Return how a gap closes.

    Args:
        gap: At the start of the step [m].
        ahead: At its end, if v stayed the same [m].
        steady: Normal velocity there, if v stayed the same [m/s].
        after: Normal velocity there without contact [m/s].
        h: Length of the step [s].
    """
    before = 2.0 * (ahead - gap) / h - steady
    rate = (after - before) / h
    end = ahead + 0.5 * h * (after - steady)
    # gap(t) = end - after s + rate s^2 / 2, at s before the end: its last zero
    square = after * after - 2.0 * rate * end
    crossed = (after < 0.0) & (square > 0.0)
    root = np.sqrt(np.where(square > 0.0, square, 0.0))
    left = np.where(crossed, 2.0 * end / np.where(crossed, after - root, -1.0), h)
    left = np.minimum(np.maximum(left, 0.0), h)
    approach = np.maximum(rate * left - after, 0.0)
    hold = np.maximum(-rate * left, 0.0)
    closes = end < 0.0
    return _Closing(
        np.where(closes, after, 2.0 * end / h),
        np.where(closes, _ratio(approach, approach + hold), 0.0),
        np.where(closes, left / h, 1.0),
    )


def _closed(
    points: Sequence[PointRows],
    compliance: Compliance,
    closed: Sequence[Scalar],
    v: Sequence[Scalar],
    mean: Scalars,
    h: Scalar,
) -> Scalars:
    """Return the mean velocity that leaves no penetration, and no gap where contacts are held.

    What is left is projected out in the metric of the mass matrix: by the least motion, without
    friction.

    Args:
        points: The contact points at q_v.
        compliance: G and H^-1 J^T there.
        closed: Whether a force holds each point closed at the end of the step.
        v: Joint velocity at the start [m/s or rad/s].
        mean: Mean joint velocity [m/s or rad/s].
        h: Length of the step [s].
    """
    count = len(points)
    apart = [a - b for a, b in zip(mean, v, strict=True)]
    ends = [point.geometry.gap + h * along(point.rows[2], apart) for point in points]
    errors = [
        np.where(held, np.abs(end), np.maximum(-end, 0.0))
        for held, end in zip(closed, ends, strict=True)
    ]

    def projected() -> list[Scalar]:
        none = [0.0] * count
        b = [x for end in ends for x in (0.0, 0.0, end / h)]
        least = [np.where(held, -UNBOUNDED, 0.0) for held in closed]
        found = solve_impulses(compliance, b, none, least, [0.0] * (3 * count))
        return [a + b for a, b in zip(mean, compliance.response(found.y), strict=True)]

    return tuple(where_needed(_largest(errors) > GAP_TOLERANCE, projected, list(mean)))


def _ratio(a: Scalar, b: Scalar) -> Scalar:
    """Return a / b, 0 where b is not positive."""
    return np.where(b > 0.0, a / np.where(b > 0.0, b, 1.0), 0.0)


def _largest(values: Sequence[Scalar]) -> Scalar:
    found: Scalar = 0.0
    for value in values:
        found = np.maximum(found, np.abs(value))
    return found
