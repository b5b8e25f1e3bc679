"""Motion of a whole mechanism from that of its motors or of its platform.

Positions of the given joints, or the pose of the given body, determine all others by closure of the
loops (displacement analysis, by Newton's method from a nearby configuration). Rates and
accelerations follow from the same matrix:

    J_p v_p  = -J_g v_g                 J_p vd_p = -bias - J_g vd_g

where g are the given velocity variables and p the others. A body that is given adds the six rows of
its Jacobian, and all variables are unknown. The matrix has full column rank exactly where what is
given determines the motion; otherwise its null space holds motions that go on while the motors
stand still (the matrix K of Khan 2002, eq. 3.10, is then singular, too).

Symbols: J constraint Jacobian, bias its rate times v, c constraint residual.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.inverse_kinematics import PoseTarget, pose_errors
from tiburon.algorithms.kinematics import Place, frame_motions, frame_places
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.constraints import Constraints, Row, constraints, jacobian_pattern
from tiburon.loops.metric import max_abs, rank_cut
from tiburon.loops.projection import CLOSURE_TOLERANCE, moved_configuration
from tiburon.model import Model, Plan
from tiburon.spatial import Motion, Scalar, Scalars, spatial_to_classical
from tiburon.spatial.vec3 import matrix_vector, subtract
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import OrthogonalFactor, factor_orthogonal
from tiburon.trace.regions import while_loop

SINGULAR_RATIO = 1e-8
"""Relative singular value of the unknown motions below which they are not determined: rates then
amplify errors of the given ones by more than this."""

MAX_MISFIT = 1e-6
"""Largest violation of loops by given rates or accelerations, relative to their size."""

MAX_STEPS = 40
"""Newton steps of one displacement analysis; from a nearby configuration three to five suffice."""

MAX_STEP = 0.5
"""Largest change of a variable in one Newton step [m or rad]: a longer one would jump to another
assembly of the mechanism."""


class GivenBody(NamedTuple):
    """A body whose motion is given, as that of a free joint: body axes, at its origin."""

    name: str
    """Name of the body or frame."""

    place: Place
    """Its pose."""

    velocity: Motion
    """Angular and linear velocity [rad/s, m/s]."""

    rate: Motion
    """Rates of these six components [rad/s^2, m/s^2]."""


class ClosedMotion(NamedTuple):
    """Motion of all joints, and how well it is determined."""

    q: tuple[Scalar, ...]
    """Configuration [m or rad]."""

    v: tuple[Scalar, ...]
    """Joint velocity [m/s or rad/s]."""

    vd: tuple[Scalar, ...]
    """Joint acceleration [m/s^2 or rad/s^2]."""

    steps: Scalar
    """Newton steps."""

    residual: Scalar
    """Largest remaining error of loops and of the given pose [m or rad]."""

    ratio: Scalar
    """Smallest over largest singular value of the unknown motions, estimated; 0 if they are not
    determined."""

    misfit: Scalar
    """Largest violation of loops by rates and accelerations, relative to their size."""


class _Equations(NamedTuple):
    """Linear equations of the unknown variables, on position, velocity and acceleration level."""

    matrix: list[list[Scalar]]
    """One row per equation and one column per unknown variable."""

    value: list[Scalar]
    """Error of position [m or rad]."""

    rate: list[Scalar]
    """Error of velocity with the unknown velocities as they are [m/s or rad/s]."""

    bias: list[Scalar]
    """Error of acceleration with unknown accelerations zero [m/s^2 or rad/s^2]."""


def closed_motion(
    model: Model,
    plan: Plan,
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    given: Sequence[int],
    body: GivenBody | None = None,
) -> ClosedMotion:
    """Compute the motion of all joints from that of some, or from that of a body.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration near the one sought, given positions in place [m or rad], nq scalars.
        v: Given velocities, zero elsewhere [m/s or rad/s], nv scalars.
        vd: Given accelerations, zero elsewhere [m/s^2 or rad/s^2], nv scalars.
        given: Velocity variables that are given.
        body: The body that is given instead.
    """
    unknown = [i for i in range(model.nv) if i not in set(given)]
    live = [k for k, used in enumerate(jacobian_pattern(model)) if used & set(unknown)]

    def equations(
        position: Scalars, rates: Scalars | None = None, accelerations: Scalars | None = None
    ) -> _Equations:
        position = JointVector(position)
        motion = None if rates is None else JointVector(rates)
        terms = constraints(model, plan, position, motion)
        rows: list[Row] = [terms.jacobian[k] for k in live]
        found = _Equations(
            [],
            [terms.value[k] for k in live],
            [terms.rate[k] for k in live],
            [_opening(terms, k, accelerations) for k in live],
        )
        if body is not None:
            own, more = _body_equations(plan, position, motion, accelerations, body)
            rows += own
            found = _Equations(*(a + b for a, b in zip(found, more, strict=True)))
        return found._replace(matrix=[[row.get(i, 0.0) for i in unknown] for row in rows])

    if not unknown:
        return _nothing_unknown(model, plan, q, v, vd)

    def spread(values: Scalars) -> list[Scalar]:
        found: list[Scalar] = [0.0] * model.nv
        for i, x in zip(unknown, values, strict=True):
            found[i] = x
        return found

    def factored(at: _Equations, least: float) -> OrthogonalFactor:
        return factor_orthogonal(as_traced(at.matrix), cut=rank_cut(model, at.value, least))

    def newton(state: Any) -> Any:
        position, _, taken = state
        at = equations(position)
        step = spread([-x for x in factored(at, SINGULAR_RATIO).solve(as_traced(at.value))])
        part = 1.0 / np.maximum(1.0, max_abs(step) / MAX_STEP)
        moved = moved_configuration(model, JointVector(position), [part * x for x in step])
        return tuple(moved), max_abs(equations(moved).value), taken + 1.0

    start = (tuple(q), max_abs(equations(q).value), 0.0)
    loop = while_loop(lambda state: state[1] > CLOSURE_TOLERANCE, newton, start, MAX_STEPS)
    position, residual, _ = loop.state
    # given velocities alone, then all
    at = equations(position, v)
    factor = factored(at, SINGULAR_RATIO)
    velocity = _corrected(v, spread(factor.solve(as_traced(at.rate))))
    moving = equations(position, velocity, vd)
    acceleration = _corrected(vd, spread(factor.solve(as_traced(moving.bias))))
    done = equations(position, velocity, acceleration)
    misfit = np.maximum(
        max_abs(done.rate) / (1.0 + max_abs(velocity)),
        max_abs(done.bias) / (1.0 + max_abs(acceleration) + max_abs(moving.bias)),
    )
    full = factor.rank > len(unknown) - 0.5
    ratio = np.where(full, factor.ratio, 0.0)
    return ClosedMotion(
        tuple(position), velocity, acceleration, loop.count, residual, ratio, misfit
    )


def _corrected(values: Scalars, errors: Scalars) -> tuple[Scalar, ...]:
    return tuple(x - e for x, e in zip(values, errors, strict=True))


def _opening(terms: Constraints, k: int, accelerations: Scalars | None) -> Scalar:
    """Return J vd + bias of one constraint."""
    if accelerations is None:
        return terms.bias[k]
    row = terms.jacobian[k]
    return sum((x * accelerations[i] for i, x in row.items()), start=terms.bias[k])


def _nothing_unknown(model: Model, plan: Plan, q: Scalars, v: Scalars, vd: Scalars) -> ClosedMotion:
    """Return a motion of which all joints are given, with its violation of the loops."""
    terms = constraints(model, plan, JointVector(q), JointVector(v))
    opening = [_opening(terms, k, vd) for k in range(len(terms.value))]
    misfit = np.maximum(
        max_abs(terms.rate) / (1.0 + max_abs(v)),
        max_abs(opening) / (1.0 + max_abs(vd) + max_abs(terms.bias)),
    )
    return ClosedMotion(tuple(q), tuple(v), tuple(vd), 0.0, max_abs(terms.value), 1.0, misfit)


def _body_equations(
    plan: Plan, q: Scalars, v: Scalars | None, vd: Scalars | None, body: GivenBody
) -> tuple[list[Row], _Equations]:
    """Return the six rows of a given body, and its errors, in world axes at its origin."""
    target = PoseTarget(body.name, "world", body.place.R, body.place.p)
    (error,) = pose_errors(plan, q, [target])
    rows = [dict(row) for row in error.J]
    value, none = list(error.r), [0.0] * 6
    if v is None:
        return rows, _Equations([], value, none, none)
    (place,) = frame_places(plan, q, [body.name])
    accelerations = None if vd is None else JointVector(vd)
    (moving,) = frame_motions(plan, q, v, accelerations, [body.name])

    def apart(here: Motion, there: Motion) -> list[Scalar]:
        parts = ((here.angular, there.angular), (here.linear, there.linear))
        return [x for a, b in parts for x in matrix_vector(place.R, subtract(a, b))]

    now = spatial_to_classical(moving.acc, moving.vel)
    wanted = spatial_to_classical(body.rate, body.velocity)
    return rows, _Equations([], value, apart(moving.vel, body.velocity), apart(now, wanted))
