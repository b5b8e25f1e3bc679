"""Jacobians of frames, and their rate times the joint velocity.

Symbols (Featherstone 1987, chapters 4 and 5):
    S       motion sub-space of a joint, its columns in body coordinates
    R, p    axes and origin of a body or frame in the world
    J       Jacobian: motion of a frame = J v
    P       point at which the linear part is taken
"""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.frame_motion import chosen_frames, frame_motions, moved_to
from tiburon.algorithms.kinematics import Place, body_places, frame_places
from tiburon.algorithms.reference_point import (
    PARAMETERS,
    expressed,
    point_in_world,
    point_inputs,
    references,
    told_options,
)
from tiburon.algorithms.surroundings import plan_and_gravity
from tiburon.algorithms.sweep import to_root
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.functions.keywords import TIMED_CALL, TimedCall, takes_conditions
from tiburon.functions.library import LibraryFunction, Options, call_under
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Motion, Scalar, Vec3
from tiburon.spatial.vec3 import (
    add_cross,
    matrix_vector,
    subtract,
    transpose_vector,
)
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

__all__ = ["frame_jacobian", "frame_jacobian_bias", "jacobian_columns"]


def jacobian_columns(
    plan: Plan,
    q: Sequence[Scalar],
    places: Sequence[Place],
    body: int,
    point: Vec3,
    held: frozenset[int] = frozenset(),
) -> dict[int, Motion]:
    """Find the motion of a body, told at a point, per unit of each joint velocity.

    Each column is the joint's own axis: a body moves by S when the joint between it and the world
    turns, whatever lies between (Featherstone 1987, eq. 4.6; Nahon 1991, eqs. 3.16a and b).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        places: Every plan body in the world.
        body: Index of the plan body, or that of the world.
        point: P, world axes [m].
        held: Indices of plan bodies whose joints count as locked.

    Returns:
        One motion, world axes, for each velocity variable that moves the body, by its index.
    """

    def visit(joined: PlanBody, P: Vec3, place: Place) -> tuple[list[Motion], Vec3]:
        arm = subtract(P, place.p)
        columns = []
        for S in joined.joint.subspace(q[joined.q]):
            angular = matrix_vector(place.R, S.angular)
            linear = add_cross(matrix_vector(place.R, S.linear), angular, arm)
            columns.append(Motion(angular, linear))
        return columns, P

    if body == WORLD_BODY:
        return {}
    found: dict[int, Motion] = {}
    for joined, columns in to_root(plan, plan.bodies[body], visit, point, places):
        if joined.index in held:
            continue
        for index, column in enumerate(columns, start=joined.v.start):
            # joints that follow another share its variables
            found[index] = found[index] + column if index in found else column
    return found


def _inputs(model: Model, options: Options) -> list[Input]:
    return [Input("q", (model.nq,), described=model.describe_q()), *point_inputs(options)]


def _bias_inputs(model: Model, options: Options) -> list[Input]:
    q, *point = _inputs(model, options)
    return [q, Input("v", (model.nv,), described=model.describe_v()), *point]


def _run(model: Model, world: World | None, options: Options, q: Any, *point: Any) -> Any:
    plan, _ = plan_and_gravity(model, world)
    position = scalars(q)
    names, shape = chosen_frames(model, options)
    bodies, frames = body_places(plan, position), frame_places(plan, position, names)
    in_frame = dict(options).get("axes", "world") == "frame"
    numbers: list[Scalar] = []
    for name, place, reference in zip(
        names, frames, references(plan, position, None, frames, options, point), strict=True
    ):
        P = point_in_world(place, reference)
        columns = jacobian_columns(plan, position, bodies, plan.frame(name).body, P)
        if in_frame:
            columns = {index: _turned(place, column) for index, column in columns.items()}
        dense = [columns.get(index, Motion.zero()) for index in range(model.nv)]
        numbers.extend(x for row in zip(*dense, strict=True) for x in row)
    return as_traced(numbers).reshape(*shape, 6, model.nv)


def _turned(place: Place, column: Motion) -> Motion:
    """Return a motion in world axes in those of a frame; the point stays."""
    return Motion(
        transpose_vector(place.R, column.angular), transpose_vector(place.R, column.linear)
    )


def _run_bias(
    model: Model, world: World | None, options: Options, q: Any, v: Any, *point: Any
) -> Any:
    plan, _ = plan_and_gravity(model, world)
    position, rates = scalars(q), scalars(v)
    names, shape = chosen_frames(model, options)
    frames = frame_places(plan, position, names)
    in_frame = dict(options).get("axes", "world") == "frame"
    numbers: list[Scalar] = []
    for moving, place, reference in zip(
        frame_motions(plan, position, rates, None, names),
        frames,
        references(plan, position, rates, frames, options, point),
        strict=True,
    ):
        vel = moved_to(moving.vel, reference.offset)
        acc = moved_to(moving.acc, reference.offset)
        omega = vel.angular
        # v_P = v_O + omega x P, so that moving the point adds omega x (its velocity)
        drift = vel.linear if reference.rate is None else reference.rate
        # numbers in turning axes lose what the axes gain
        seen = subtract(drift, vel.linear) if in_frame else drift
        rate = Motion(acc.angular, add_cross(acc.linear, omega, seen))
        numbers.extend(expressed(rate, place, options))
    return as_traced(numbers).reshape(*shape, 6)


_JACOBIAN = LibraryFunction(
    "frame_jacobian", _inputs, _run, parameters=PARAMETERS, keywords=TIMED_CALL
)
_BIAS = LibraryFunction(
    "frame_jacobian_bias", _bias_inputs, _run_bias, parameters=PARAMETERS, keywords=TIMED_CALL
)


@public
@takes_conditions
def frame_jacobian(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    **timed: Unpack[TimedCall],
) -> NDArray[np.float64]:
    """Compute the Jacobian of bodies and frames: their velocity is J v.

    One state or a batch. Inside a function given to `tiburon.compile` the arrays may be traced, one
    state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        frames: Name of a body or frame, or a sequence of names; by default every name of
            `model.frame_names` but the world, in that order.
        at: Where the linear part is taken: at the "frame"'s origin, at the "world"'s origin, at the
            center of mass ("com") of the robot, or at a point in the frame's axes [m], shape
            (..., 3).
        axes: "world" or "frame": axes of the rows.
        **timed: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Three rows for the angular and three for the linear velocity, one column per velocity
        variable, shape (..., 6, nv) for one name, (..., n, 6, nv) for n.

    Example:
        ``tau = np.swapaxes(frame_jacobian(arm, q, "hand"), -1, -2) @ wrench``
    """
    options, point = told_options(frames, at, axes)
    answer: NDArray[np.float64] = call_under(timed, _JACOBIAN, model, (q, *point), options)
    return answer


@public
@takes_conditions
def frame_jacobian_bias(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    **timed: Unpack[TimedCall],
) -> NDArray[np.float64]:
    """Compute the time derivative of a Jacobian times the joint velocity.

    Jdot v, where Jdot is the rate of the matrix `frame_jacobian` returns for the same `at` and
    `axes` while the robot moves on: d(J v)/dt = J vd + Jdot v. At the frame's origin it is the
    classical acceleration at zero vd in world axes, and the spatial one in frame axes. One state or
    a batch. Inside a function given to `tiburon.compile` the arrays may be traced, one state at a
    time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        frames: Name of a body or frame, or a sequence of names; by default every name of
            `model.frame_names` but the world, in that order.
        at: Where the linear part is taken; see `frame_jacobian`. The point "com" moves with the
            center of mass.
        axes: "world" or "frame": axes of the rows.
        **timed: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Jdot v [rad/s^2, m/s^2], shape (..., 6) for one name, (..., n, 6) for n.
    """
    options, point = told_options(frames, at, axes)
    answer: NDArray[np.float64] = call_under(timed, _BIAS, model, (q, v, *point), options)
    return answer
