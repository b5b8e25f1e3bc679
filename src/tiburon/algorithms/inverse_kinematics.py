"""Inverse kinematics: positions that bring frames where they should be.

The errors are those of `pose_error`, brought to zero by `levenberg_marquardt`; together they are
the Newton iteration of Nahon 1991, eqs. 3.18-3.20, with linear invariants (see
`tiburon.spatial.rotations` for the corrected rates), damped and held within joint limits.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import Place, body_places, jacobian_columns
from tiburon.algorithms.levenberg_marquardt import Bounds, Evaluation, descend
from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.sweep import ancestors
from tiburon.algorithms.tape_calls import JointVector
from tiburon.model import Plan
from tiburon.model.plan import WORLD_BODY, PlanFrame
from tiburon.spatial import Mat3, Scalar, Vec3, turn_error
from tiburon.spatial.rotations import select
from tiburon.spatial.vec3 import (
    add_matrix_vector,
    dot,
    matrix_product,
    subtract,
    transpose,
)
from tiburon.trace.array import as_traced

__all__ = [
    "CUT_OFF",
    "REACHED",
    "STALLED",
    "PoseError",
    "PoseTarget",
    "pose_errors",
    "search",
    "touched_velocities",
]


REACHED, STALLED, CUT_OFF = 0, 1, 2
"""How a search ends: targets met, no step leads closer, no iterations left."""


class PoseTarget(NamedTuple):
    """Where one frame should be."""

    frame: str
    """Name of the frame."""

    relative_to: str
    """Name of the frame in which it is told."""

    orientation: Mat3 | None
    """Rows of the rotation matrix from the frame's axes to those of `relative_to`."""

    position: Vec3 | None
    """Origin of the frame, axes of `relative_to` [m]."""


class PoseError(NamedTuple):
    """Error of one frame."""

    r: tuple[Scalar, ...]
    """Three numbers for the turn if the orientation counts, three for the displacement if the
    position does; world axes [rad, m]."""

    J: tuple[dict[int, Scalar], ...]
    """One row per number of r; entries by velocity variable."""

    turn_square: Scalar
    """(2 sin(phi/2))^2 for an error phi of orientation; 0 if it does not count."""

    shift_square: Scalar
    """Squared error of position [m^2]; 0 if it does not count."""


def _placed(plan: Plan, bodies: Sequence[Place], name: str) -> tuple[PlanFrame, Place]:
    frame = plan.frame(name)
    carrier = _WORLD if frame.body == WORLD_BODY else bodies[frame.body]
    return frame, carrier.moved(frame.transform)


def pose_errors(
    plan: Plan, q: Sequence[Scalar], wanted: Sequence[PoseTarget]
) -> tuple[PoseError, ...]:
    """Compare frames with where they should be.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        wanted: One entry per frame.

    Returns:
        One error per entry.
    """
    q = JointVector(q)
    bodies = body_places(plan, q)
    errors = []
    for goal in wanted:
        frame, here = _placed(plan, bodies, goal.frame)
        base, there = _placed(plan, bodies, goal.relative_to)
        # the point of the base where the frame's origin should be moves with the base
        point = here.p
        if goal.position is not None:
            point = add_matrix_vector(there.p, there.R, goal.position)
        # joints that carry both frames turn the error with them and do not change it
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
    """Return the velocity variables that can change any of the errors, in order."""
    return tuple(sorted({k for error in errors for row in error.J for k in row}))


def _wanted(options: Options, arrays: list[Any]) -> list[PoseTarget]:
    """Take the arrays of the targets off the front of a list."""
    found = []
    for frame, base, position, orientation in dict(options)["targets"]:
        point = arrays.pop(0) if position else None
        x = arrays.pop(0) if orientation else None
        rows = None if x is None else ((x[0], x[1], x[2]), (x[3], x[4], x[5]), (x[6], x[7], x[8]))
        where = None if point is None else (point[0], point[1], point[2])
        found.append(PoseTarget(frame, base, rows, where))
    return found


def search(setting: Setting, start: Sequence[Scalar], *arrays: Sequence[Scalar]) -> dict[str, Any]:
    """Search for a position from one start.

    Args:
        setting: Plan and options: targets, limits, iterations.
        start: Position to start from [m or rad], nq scalars.
        *arrays: Targets, limits and tolerance.

    Returns:
        Position, outcome, remaining errors and iterations, by name.
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

    def evaluate(position: Sequence[Scalar]) -> Evaluation:
        errors = pose_errors(plan, position, wanted)
        rows = [tuple(row.get(k, 0.0) for k in free) for error in errors for row in error.J]
        return Evaluation(
            tuple(x for error in errors for x in error.r), tuple(rows), _total(errors)
        )

    def step(position: Sequence[Scalar], dv: Sequence[Scalar]) -> list[Scalar]:
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


def _integrate(plan: Plan, q: Sequence[Scalar], dv: Mapping[int, Scalar]) -> list[Scalar]:
    """Return the position after a step; joints that no step moves keep their numbers."""
    moved = list(q)
    for body in plan.bodies:
        places = range(body.v.start, body.v.stop)
        if any(k in dv for k in places):
            rates = [dv.get(k, 0.0) for k in places]
            moved[body.q] = body.joint.integrate(q[body.q], rates)
    return moved


def _normalized(plan: Plan, q: Sequence[Scalar]) -> list[Scalar]:
    found = list(q)
    for body in plan.bodies:
        found[body.q] = body.joint.normalize(q[body.q])
    return found


_WORLD = Place(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), (0.0, 0.0, 0.0))
