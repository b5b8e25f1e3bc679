"""Inverse kinematics: configurations at which frames reach target poses.

Pose errors are minimized by `levenberg_marquardt`: the Newton iteration of Nahon 1991, eqs.
3.18-3.20, with linear invariants (see `tiburon.spatial.rotations` for the corrected rates), damped
and bounded by joint limits.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import WORLD_PLACE, Place, body_places, jacobian_columns
from tiburon.algorithms.levenberg_marquardt import Bounds, Evaluation, descend
from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import ancestors
from tiburon.model import Plan
from tiburon.model.plan import WORLD_BODY, PlanFrame
from tiburon.spatial import Mat3, Scalar, Scalars, Vec3, turn_error
from tiburon.spatial.rotations import select
from tiburon.spatial.vec3 import add_matrix_vector, dot, matrix_product, subtract, transpose
from tiburon.trace.array import as_traced

REACHED, STALLED, CUT_OFF = 0, 1, 2
"""Outcomes: targets reached, no further decrease, iteration limit."""


class PoseTarget(NamedTuple):
    """Target pose of one frame."""

    frame: str
    """Name of the frame."""

    relative_to: str
    """Name of the frame in which the target is given."""

    orientation: Mat3 | None
    """Rows of the rotation matrix from the frame's axes to those of `relative_to`."""

    position: Vec3 | None
    """Origin of the frame, axes of `relative_to` [m]."""


class PoseError(NamedTuple):
    """Error of one frame."""

    r: tuple[Scalar, ...]
    """Three components of orientation error and three of position error, each if it is part of the
    target; world axes [rad, m]."""

    J: tuple[dict[int, Scalar], ...]
    """One row per component of r; entries by velocity variable."""

    turn_square: Scalar
    """(2 sin(phi/2))^2 for an orientation error phi; 0 without target orientation."""

    shift_square: Scalar
    """Squared position error [m^2]; 0 without target position."""


def _placed(plan: Plan, bodies: Sequence[Place], name: str) -> tuple[PlanFrame, Place]:
    frame = plan.frame(name)
    carrier = WORLD_PLACE if frame.body == WORLD_BODY else bodies[frame.body]
    return frame, carrier.moved(frame.transform)


def pose_errors(plan: Plan, q: Scalars, wanted: Sequence[PoseTarget]) -> tuple[PoseError, ...]:
    """Compute the pose error of each target, with its Jacobian."""
    q = JointVector(q)
    bodies = body_places(plan, q)
    errors = []
    for goal in wanted:
        frame, here = _placed(plan, bodies, goal.frame)
        base, there = _placed(plan, bodies, goal.relative_to)
        # the target point is fixed to the base frame
        point = here.p
        if goal.position is not None:
            point = add_matrix_vector(there.p, there.R, goal.position)
        # common ancestors rotate the error, but do not change it
        shared = ancestors(plan, frame.body) & ancestors(plan, base.body)
        columns = jacobian_columns(plan, q, bodies, frame.body, here.p, shared)
        carried = jacobian_columns(plan, q, bodies, base.body, point, shared)
        for k, m in carried.items():
            columns[k] = columns[k] - m if k in columns else -m
        r: tuple[Scalar, ...] = ()
        rows: list[dict[int, Scalar]] = []
        turn_square: Scalar = 0.0
        shift_square: Scalar = 0.0
        if goal.orientation is not None:
            aim = matrix_product(there.R, goal.orientation)
            turn, turn_square = turn_error(matrix_product(here.R, transpose(aim)))
            r += turn
            rows += [{k: m.angular[axis] for k, m in columns.items()} for axis in range(3)]
        if goal.position is not None:
            shift = subtract(here.p, point)
            shift_square = dot(shift, shift)
            r += shift
            rows += [{k: m.linear[axis] for k, m in columns.items()} for axis in range(3)]
        errors.append(PoseError(r, tuple(rows), turn_square, shift_square))
    return tuple(errors)


def touched_velocities(errors: Sequence[PoseError]) -> tuple[int, ...]:
    """Return the velocity variables on which the errors depend, in order."""
    return tuple(sorted({k for error in errors for row in error.J for k in row}))


def _wanted(options: Options, arrays: list[Any]) -> list[PoseTarget]:
    """Pop the arrays of the targets from the front of a list."""
    found = []
    for frame, base, position, orientation in dict(options)["targets"]:
        point = arrays.pop(0) if position else None
        x = arrays.pop(0) if orientation else None
        rows = None if x is None else ((x[0], x[1], x[2]), (x[3], x[4], x[5]), (x[6], x[7], x[8]))
        where = None if point is None else (point[0], point[1], point[2])
        found.append(PoseTarget(frame, base, rows, where))
    return found


def search(setting: Setting, start: Scalars, *arrays: Scalars) -> dict[str, Any]:
    """Solve inverse kinematics from one initial configuration.

    Args:
        setting: Plan and options: targets, limits, iterations.
        start: Initial configuration [m or rad], nq scalars.
        *arrays: Targets, limits and tolerance.

    Returns:
        Configuration, outcome, remaining errors and iterations, by name.
    """
    plan, choices = setting.plan, dict(setting.options)
    rest = list(arrays)
    wanted = _wanted(setting.options, rest)
    free = touched_velocities(pose_errors(plan, start, wanted))
    size = (sum(3 * (o + p) for _, _, p, o in choices["targets"]), len(free))
    limited = choices["limited"]
    lower, upper = (rest.pop(0), rest.pop(0)) if limited else ([], [])
    columns = tuple(free.index(v) if v in free else None for _, v in limited)
    turned = choices.get("turned", ())
    turn_limits = rest.pop(0) if turned else ()
    places = tuple(place for place, _ in limited)
    bounds = Bounds(places, columns, tuple(lower), tuple(upper), turned, tuple(turn_limits))

    def evaluate(position: Scalars) -> Evaluation:
        errors = pose_errors(plan, position, wanted)
        rows = [tuple(row.get(k, 0.0) for k in free) for error in errors for row in error.J]
        return Evaluation(
            tuple(x for error in errors for x in error.r), tuple(rows), _total(errors)
        )

    def step(position: Scalars, dv: Scalars) -> list[Scalar]:
        return _integrate(plan, position, dict(zip(free, dv, strict=True)))

    (tolerance,) = rest.pop(0)
    found = descend(evaluate, step, start, bounds, tolerance, choices["max_iterations"], size)
    errors = pose_errors(plan, found.q, wanted)
    error = np.sqrt(found.square)
    cut_off = float(CUT_OFF)
    failed = select(found.stalled > 0.5, float(STALLED), cut_off)
    turn, shift = _largest(errors)
    return {
        "q": as_traced(_normalized(plan, found.q)),
        "outcome": select(error <= tolerance, float(REACHED), failed),
        "error": error,
        "position_error": np.sqrt(shift),
        "orientation_error": 2.0 * np.arcsin(np.minimum(0.5 * np.sqrt(turn), 1.0)),
        "iterations": found.iterations,
    }


def _total(errors: Sequence[PoseError]) -> Scalar:
    total: Scalar = 0.0
    for error in errors:
        total = total + error.turn_square + error.shift_square
    return total


def _largest(errors: Sequence[PoseError]) -> tuple[Scalar, Scalar]:
    turn: Scalar = 0.0
    shift: Scalar = 0.0
    for error in errors:
        turn = np.maximum(turn, error.turn_square)
        shift = np.maximum(shift, error.shift_square)
    return turn, shift


def _integrate(plan: Plan, q: Scalars, dv: Mapping[int, Scalar]) -> list[Scalar]:
    """Integrate a configuration by a step; joints without step stay unchanged."""
    moved = list(q)
    for body in plan.bodies:
        places = range(body.v.start, body.v.stop)
        if any(k in dv for k in places):
            rates = [dv.get(k, 0.0) for k in places]
            moved[body.q] = body.joint.integrate(q[body.q], rates)
    return moved


def _normalized(plan: Plan, q: Scalars) -> list[Scalar]:
    found = list(q)
    for body in plan.bodies:
        found[body.q] = body.joint.normalize(q[body.q])
    return found
