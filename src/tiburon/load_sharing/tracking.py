"""Motion and forces in one problem: desired accelerations that contacts allow, and what may change.

Symbols:
    u, a    velocity variables that nothing drives (a base, a held object), and driven ones
    J       rows of contacts and loops: relative velocities that stay zero, or follow a foot's aim
    b       accelerations along these rows at zero joint acceleration
    d       change of the desired accelerations of u
    N       how all variables accelerate with d while rows keep theirs

Desired accelerations of u are kept; driven joints follow so that rows accelerate as they should:

    vd = vd* + J_a^+ (r - J vd* - b) + N d,        N = [1; -J_a^+ J_u]

d is zero wherever the motion can be produced. Where it cannot, as about the line between two point
feet, d is the least change in the sense of Gauss: the sum of apparent masses times squares. It is
one more group of unknowns, whose generalized forces are -H N d: joint forces then belong to the
motion that takes place, so that contacts carry what was computed. Forces live in the null space of
the equations, motion in its complement: neither disturbs the other (Nahon 1991, chapter 8).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.kinematics import Moving, Place, body_motions, body_places, jacobian_columns
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.candidates import Candidate
from tiburon.contact.complementarity import contact_accelerations
from tiburon.contact.rows import ContactRow, PointRows, along, contact_rows, in_frame
from tiburon.load_sharing.problem import (
    FORCE,
    Group,
    Layout,
    Problem,
    QuadraticProgram,
    constraint_kinds,
)
from tiburon.load_sharing.sites import SITE_VALUES, ContactSite, site_rows
from tiburon.loops.constraints import constraints
from tiburon.model import Plan
from tiburon.model.body import ContactPoint
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import ZERO3, add, add_cross, cross, dot, matrix_vector, scale, subtract
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.spd import factor_spd

MOTION = "motion"
"""Name of the group of changed accelerations."""

TRACKING_WEIGHT = 1e6
"""Weight of changed accelerations relative to that of forces: [N^2] per mass times squared
acceleration."""

CLOSING_FREQUENCY = 2.0
"""Frequency at which gaps of planned contacts close, relative to that of feet in the air."""

REACHING_SPEED = 0.05
"""Speed at which feet reach for the ground that they have not found [m/s]."""

FREE_SWING_SHARE = 0.03
"""Share of a swing before the landing in which feet are free to be elsewhere."""

JACOBIAN_DAMPING = 1e-9
"""Added to J J^T, relative to its mean diagonal: legs that are stretched follow as they can."""


class FootAim(NamedTuple):
    """Where the center of a foot should be in the air, world axes."""

    position: Scalars
    """[m]."""

    velocity: Scalars
    """[m/s]."""

    acceleration: Scalars
    """[m/s^2]."""

    blend: tuple[Scalar, Scalar, Scalar] = (0.0, 0.0, 0.0)
    """Completed share of the swing, 0 to 1, and its two derivatives [1, 1/s, 1/s^2]."""

    landing: Scalars = ZERO3
    """Where it lands [m]."""

    def moved(self, offset: Scalars) -> "FootAim":
        """Return the aim of a foot that started from elsewhere: the offset fades out [m]."""
        b, bd, bdd = self.blend
        return FootAim(
            [x + (1.0 - b) * d for x, d in zip(self.position, offset, strict=True)],
            [x - bd * d for x, d in zip(self.velocity, offset, strict=True)],
            [x - bdd * d for x, d in zip(self.acceleration, offset, strict=True)],
            self.blend,
            self.landing,
        )

    def shifted(self, shift: Scalars) -> "FootAim":
        """Return the aim of a foot that lands elsewhere: the shift fades in [m]."""
        b, bd, bdd = self.blend
        return FootAim(
            [x + b * d for x, d in zip(self.position, shift, strict=True)],
            [x + bd * d for x, d in zip(self.velocity, shift, strict=True)],
            [x + bdd * d for x, d in zip(self.acceleration, shift, strict=True)],
            self.blend,
            [x + d for x, d in zip(self.landing, shift, strict=True)],
        )


class Following(NamedTuple):
    """Gains of rows."""

    foot_stiffness: Scalar
    """Acceleration of feet in the air per position error [1/s^2]."""

    foot_damping: Scalar
    """Acceleration of feet in the air per velocity error [1/s]."""

    slip_damping: Scalar
    """Deceleration of contacts per relative velocity [1/s]."""


class _Rows(NamedTuple):
    """Rows of contacts and loops."""

    jacobian: list[ContactRow]
    wanted: list[Scalar]
    """What is missing of the accelerations along the rows, at the desired accelerations."""
    counts: list[Scalar]
    """1 where a row holds, else 0."""


def followed(
    setting: Setting,
    layout: Layout,
    candidates: Sequence[Candidate],
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    p: Scalars,
    touching: Scalars,
    felt: Scalars,
    feet: Sequence[ContactPoint | None],
    aims: Sequence[FootAim],
    gains: Following,
    sites: Sequence[ContactSite] = (),
    site_values: Scalars = (),
) -> tuple[list[Scalar], list[list[Scalar]]]:
    """Return accelerations that contacts and feet in the air follow, and the columns of N.

    Args:
        setting: The robot and its surroundings.
        layout: Contacts and loops, driven and undriven variables.
        candidates: Shapes that may touch.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Desired acceleration of all variables, with feedback [m/s^2 or rad/s^2], nv scalars.
        p: Run-time parameters of the candidates.
        touching: 1 for each contact point and loop that should hold, else 0.
        felt: 1 for each of them that does.
        feet: The ball of each contact point that follows an aim in the air; None for others.
        aims: Aims of these feet, in order.
        gains: Feedback along the rows.
        sites: Contacts given by a point and a normal.
        site_values: Their run-time values.
    """
    rows = _rows(setting, layout, candidates, q, v, vd, p, touching, felt, feet, aims, gains)
    if sites:
        first = layout.points - len(sites)
        held = _site_rows(setting, q, v, vd, touching[first:], gains, sites, site_values)
        # contact points first, then sites, then loops
        at = len(rows.jacobian) - sum(len(g.rows) for g in layout.groups[layout.points :])
        for part, more in zip(rows, held, strict=True):
            part[at:at] = more
    n = len(rows.jacobian)
    driven, undriven = layout.driven, layout.undriven
    J = [{i: x for i, x in row.items() if i in set(driven)} for row in rows.jacobian]
    if not n:
        one = [[1.0 if i == j else 0.0 for i in range(len(vd))] for j in undriven]
        return list(vd), one
    matrix: list[list[Scalar]] = [[0.0] * n for _ in range(n)]
    total: Scalar = 0.0
    for i in range(n):
        for j in range(i + 1):
            common = J[i].keys() & J[j].keys()
            value: Scalar = 0.0
            for k in sorted(common):
                value = value + J[i][k] * J[j][k]
            matrix[i][j] = matrix[j][i] = value
        total = total + matrix[i][i]
    # contacts that no driven joint moves, as those of a base, follow it
    total = np.where(total > 0.0, total, n / JACOBIAN_DAMPING)
    for i in range(n):
        # rows that do not hold are zero
        matrix[i][i] = matrix[i][i] + (JACOBIAN_DAMPING / n) * total + (1.0 - rows.counts[i])
    factor = factor_spd(as_traced(matrix))
    right: list[list[Scalar]] = [[x] for x in rows.wanted]
    for row, entries in zip(rows.jacobian, right, strict=True):
        entries += [-row.get(j, 0.0) for j in undriven]
    found = factor.solve(as_traced(right))
    columns = [list(found[:, k]) for k in range(1 + len(undriven))]
    moved = list(vd)
    for i, push in enumerate(_pushed(J, columns[0], len(vd))):
        moved[i] = moved[i] + push
    basis = []
    for place, column in zip(undriven, columns[1:], strict=True):
        entries = _pushed(J, column, len(vd))
        entries[place] = entries[place] + 1.0
        basis.append(entries)
    return moved, basis


def _pushed(J: Sequence[ContactRow], y: Scalars, nv: int) -> list[Scalar]:
    """Return J^T y."""
    found: list[Scalar] = [0.0] * nv
    for row, factor in zip(J, y, strict=True):
        for i, x in row.items():
            found[i] = found[i] + x * factor
    return found


def _rows(
    setting: Setting,
    layout: Layout,
    candidates: Sequence[Candidate],
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    p: Scalars,
    touching: Scalars,
    felt: Scalars,
    feet: Sequence[ContactPoint | None],
    aims: Sequence[FootAim],
    gains: Following,
) -> _Rows:
    model, plan = setting.model, setting.plan
    found = _Rows([], [], [])
    if candidates:
        points = contact_rows(plan, q, candidates, p)
        moving = None
        if any(foot is None for foot in feet) or not feet:
            # bodies that roll on each other: the normal turns, and the point moves over both
            moving = contact_accelerations(plan, q, v, vd, candidates, p)
        bodies = _Bodies(
            plan,
            q,
            body_places(plan, JointVector(q)),
            body_motions(plan, JointVector(q), JointVector(v), None),
        )
        remaining = iter(aims)
        for k, point in enumerate(points):
            foot = feet[k] if feet else None
            if foot is not None:
                rows, wanted = _foot_rows(
                    bodies, vd, point, foot, next(remaining), touching[k], felt[k], gains
                )
                found.jacobian.extend(rows)
                found.wanted.extend(wanted)
                found.counts.extend([1.0] * 3)
                continue
            assert moving is not None
            at = slice(3 * k, 3 * k + 3)
            for row, a, b in zip(point.rows, moving.free[at], moving.velocity[at], strict=True):
                found.jacobian.append({i: touching[k] * x for i, x in row.items()})
                found.wanted.append(touching[k] * (-gains.slip_damping * b - a))
                found.counts.append(touching[k])
    if model.loops:
        held = constraints(model, plan, JointVector(q), JointVector(v))
        start = 0
        for k, loop in enumerate(model.loops, start=layout.points):
            for place in layout.groups[k].rows:
                row, bias = held.jacobian[start + place], held.bias[start + place]
                slip = -gains.slip_damping * held.rate[start + place]
                found.jacobian.append({i: touching[k] * x for i, x in row.items()})
                found.wanted.append(touching[k] * (slip - bias - along(row, vd)))
                found.counts.append(touching[k])
            start += len(constraint_kinds(loop))
    return found


def _site_rows(
    setting: Setting,
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    touching: Scalars,
    gains: Following,
    sites: Sequence[ContactSite],
    values: Scalars,
) -> _Rows:
    """Return the rows of contact sites: points, and feet that do not turn, come to rest."""
    plan = setting.plan
    places = body_places(plan, JointVector(q))
    motions = body_motions(plan, JointVector(q), JointVector(v), None)
    found = _Rows([], [], [])
    for k, site in enumerate(sites):
        own = values[SITE_VALUES * k : SITE_VALUES * (k + 1)]
        at = site_rows(plan, q, places, site, own)
        # motion of the second body relative to the first, at the point
        speed, turning, acceleration, spin = ZERO3, ZERO3, ZERO3, ZERO3
        for name, sign in ((site.body, -1.0), (site.other, 1.0)):
            body = plan.frame(name).body
            if body == WORLD_BODY:
                continue
            R, vel, acc = places[body].R, motions[body].vel, motions[body].acc
            w, pd, wd, a = (
                matrix_vector(R, x) for x in (vel.angular, vel.linear, acc.angular, acc.linear)
            )
            arm = subtract(at.point.geometry.point, places[body].p)
            moving = add_cross(pd, w, arm)
            now = add(add_cross(a, wd, arm), cross(w, moving))
            speed, acceleration = (
                add(whole, scale(part, sign))
                for whole, part in ((speed, moving), (acceleration, now))
            )
            turning, spin = add(turning, scale(w, sign)), add(spin, scale(wd, sign))
        axes = at.point.axes
        about = {0: (), 1: axes[2:], 3: axes}[site.moment_count]
        rows = [
            (row, axis, speed, acceleration) for row, axis in zip(at.point.rows, axes, strict=True)
        ]
        rows += [(row, axis, turning, spin) for row, axis in zip(at.moments, about, strict=True)]
        for row, axis, rate, bias in rows:
            slip = -gains.slip_damping * dot(axis, rate)
            found.jacobian.append({i: touching[k] * x for i, x in row.items()})
            found.wanted.append(touching[k] * (slip - dot(axis, bias) - along(row, vd)))
            found.counts.append(touching[k])
    return found


class _Bodies(NamedTuple):
    """Poses and motions of all bodies in one state."""

    plan: Plan
    q: Scalars
    places: tuple[Place, ...]
    motions: tuple[Moving, ...]


def _foot_rows(
    bodies: _Bodies,
    vd: Scalars,
    point: PointRows,
    foot: ContactPoint,
    aim: FootAim,
    touching: Scalar,
    felt: Scalar,
    gains: Following,
) -> tuple[list[ContactRow], list[Scalar]]:
    """Return the rows of the lowest point of a foot, and what is missing along them.

    On the ground that point comes to rest, and gaps close; in the air it follows the aim. Signs are
    those of contact rows: velocity of the ground relative to the foot.
    """
    plan, q, places, motions = bodies
    body = plan.frame(foot.body).body
    center = _center(plan, places, foot)
    n = point.axes[2]
    low = add(center, scale(n, foot.radius))
    R = places[body].R
    vel, acc = motions[body].vel, motions[body].acc
    w, pd, wd, a = (matrix_vector(R, x) for x in (vel.angular, vel.linear, acc.angular, acc.linear))
    arm = subtract(low, places[body].p)
    speed = add_cross(pd, w, arm)
    # the lowest point moves with the center, not with the body
    moving = add_cross(pd, w, subtract(center, places[body].p))
    now: Vec3 = add(add_cross(a, wd, arm), cross(w, moving))
    columns = jacobian_columns(plan, JointVector(q), places, body, low)
    for i, column in columns.items():
        now = add(now, scale(column.linear, vd[i]))
    stiffness, damping = gains.foot_stiffness, gains.foot_damping
    position = aim.position
    error = subtract((position[0], position[1], position[2]), center)
    # toward the landing the ball rolls rather than being where it should: it does not slip then
    rolls = np.minimum(1.0, (1.0 - aim.blend[0]) / FREE_SWING_SHARE)
    height = (1.0 - rolls) * dot(n, error)
    in_air: list[Scalar] = [
        c + damping * (b - y) + stiffness * (rolls * e + height * m)
        for c, b, y, e, m in zip(aim.acceleration, aim.velocity, speed, error, n, strict=True)
    ]
    toward = dot(n, speed)
    # gaps close faster than feet in the air follow; slip ends
    closing = CLOSING_FREQUENCY * CLOSING_FREQUENCY * stiffness * point.geometry.gap
    closing = closing - (CLOSING_FREQUENCY * damping - gains.slip_damping) * toward
    # feet that should touch and do not reach for the ground
    reaching = CLOSING_FREQUENCY * damping * (REACHING_SPEED - toward) + gains.slip_damping * toward
    closing = np.where(felt > 0.5, closing, reaching)
    on_ground = [-gains.slip_damping * x + closing * y for x, y in zip(speed, n, strict=True)]
    wanted = [np.where(touching > 0.5, x, y) for x, y in zip(on_ground, in_air, strict=True)]
    missing = in_frame(point, subtract(now, (wanted[0], wanted[1], wanted[2])))
    rows: list[ContactRow] = [
        {i: -dot(axis, c.linear) for i, c in columns.items()} for axis in point.axes
    ]
    return rows, list(missing)


def foot_center(setting: Setting, q: Scalars, foot: ContactPoint) -> Vec3:
    """Return the center of the ball of a foot, world axes [m]."""
    return _center(setting.plan, body_places(setting.plan, JointVector(q)), foot)


def _center(plan: Plan, places: Sequence[Place], foot: ContactPoint) -> Vec3:
    frame = plan.frame(foot.body)
    carrier = places[frame.body].moved(frame.transform)
    return add(matrix_vector(carrier.R, foot.position), carrier.p)


def tracking_problem(problem: Problem, basis: Sequence[Scalars]) -> Problem:
    """Return a problem whose accelerations may change: one more group of unknowns.

    The problem is that of the accelerations that contacts follow, N as from `followed`.
    """
    plan, layout = problem.setting.plan, problem.layout
    nv, size = plan.nv, layout.size
    H = mass_elements(plan, JointVector(problem.q))
    columns: list[ContactRow] = []
    for column in basis:
        entries: ContactRow = {}
        for i in range(nv):
            total: Scalar = 0.0
            for k in range(nv):
                total = total + H[i * nv + k] * column[k]
            entries[i] = -total
        columns.append(entries)
    labels = tuple(str(k) for k in range(len(basis)))
    motion = Group(MOTION, (FORCE,) * len(basis), size, labels=labels)
    return problem._replace(
        layout=layout._replace(groups=(*layout.groups, motion)),
        columns=[*problem.columns, *columns],
        touching=[*problem.touching, 1.0],
        friction=[*problem.friction, 0.0],
        wrenches=[*problem.wrenches, *([] for _ in basis)],
        motions=tuple(basis),
    )


def with_motion_weights(
    program: QuadraticProgram, problem: Problem, rho: Scalar, drift: Scalars
) -> QuadraticProgram:
    """Return the program with heavy weights on changes of the motion.

    Args:
        program: The quadratic program.
        problem: Its problem, with the group of changes last.
        rho: Weight of what changes from step to step relative to that of what is changed: where a
            motion becomes possible again, it does so over some steps, as forces do (6.60).
        drift: Changes of the step before [m/s^2 or rad/s^2].
    """
    size = problem.layout.groups[-1].first
    largest: Scalar = program.W[0][0] if size else 1.0
    for i in range(1, size):
        largest = np.maximum(largest, program.W[i][i])
    W: list[dict[int, Any]] = [dict(row) for row in program.W]
    c = list(program.c)
    for k, (mass, last) in enumerate(zip(problem.masses, drift, strict=True)):
        weight, place = TRACKING_WEIGHT * largest * mass, size + k
        W[place][place] = W[place].get(place, 0.0) + (1.0 + rho) * weight
        c[place] = c[place] - rho * weight * last
    return program._replace(W=W, c=c)


def with_caps(program: QuadraticProgram, layout: Layout, caps: Scalars) -> QuadraticProgram:
    """Return the program with upper bounds of normal forces [N], as its last limits."""
    rows, right = list(program.A2), list(program.b2)
    for group, cap in zip(layout.groups, caps, strict=True):
        if group.normal is not None:
            rows.append({group.normal: -1.0})
            right.append(-cap)
    return program._replace(A2=rows, b2=right)
