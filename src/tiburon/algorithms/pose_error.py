"""How far frames are from where they should be, and how joint velocities change that.

Symbols (Nahon 1991, sec. 3.2):
    R, p    axes and origin of a frame in the world
    Q       rotation that carries the wanted axes to those of the frame, world axes
    r       error: rows of a turn [rad] and of a displacement [m], world axes
    J       rate of r per joint velocity, exact at r = 0
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.articulated_response import ancestors
from tiburon.algorithms.jacobian import jacobian_columns
from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.tape_calls import JointVector
from tiburon.model import Plan
from tiburon.model.plan import WORLD_BODY, PlanFrame
from tiburon.spatial import Mat3, Scalar, Vec3, turn_error
from tiburon.spatial.vec3 import (
    add_matrix_vector,
    dot,
    matrix_product,
    subtract,
    transpose,
)

__all__ = ["PoseError", "Wanted", "pose_errors", "touched_velocities"]

_WORLD = Place(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), (0.0, 0.0, 0.0))


class Wanted(NamedTuple):
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


def pose_errors(plan: Plan, q: Sequence[Scalar], wanted: Sequence[Wanted]) -> tuple[PoseError, ...]:
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
