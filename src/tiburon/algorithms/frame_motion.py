"""How bodies and frames move: velocities and accelerations.

Symbols (Featherstone 1987, chapters 2 and 4):
    X           map of motion from the parent's frame to the body's
    vel, acc    spatial velocity and acceleration of a body or frame, in its own axes at its origin
    vJ          velocity of a body relative to its parent
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.reference_point import (
    PARAMETERS,
    expressed,
    point_inputs,
    references,
    told_options,
)
from tiburon.algorithms.surroundings import plan_and_gravity
from tiburon.algorithms.sweep import outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.errors import OptionError
from tiburon.functions.keywords import TIMED_CALL, TimedCall, takes_conditions
from tiburon.functions.library import LibraryFunction, Options, call_under
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Motion, Scalar, Vec3, spatial_to_classical
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

__all__ = [
    "Moving",
    "chosen_frames",
    "frame_acceleration",
    "frame_motions",
    "frame_velocity",
    "moved_to",
]

KINDS = ("classical", "spatial")
"""What may be meant by an acceleration."""


class Moving(NamedTuple):
    """Motion of a body or frame, in its own axes at its own origin."""

    vel: Motion
    """Spatial velocity [rad/s, m/s]."""

    acc: Motion
    """Spatial acceleration [rad/s^2, m/s^2], without gravity."""


_REST = Moving(Motion.zero(), Motion.zero())


def body_motions(
    plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], vd: Sequence[Scalar] | None
) -> tuple[Moving, ...]:
    """Find how every plan body moves (Featherstone 1987, eqs. 4.11, 4.12, 7.10, 7.11).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars; zero if None.

    Returns:
        One motion per plan body.
    """

    def visit(body: PlanBody, parent: Moving) -> Moving:
        joint, position, rate = body.joint, q[body.q], v[body.v]
        X = body.transform(position)
        vJ = joint.velocity(position, rate)
        vel = X.motion(parent.vel) + vJ
        acc = X.motion(parent.acc) + vel.cross(vJ) + joint.bias(position, rate)
        return Moving(vel, acc if vd is None else acc + joint.motion(position, vd[body.v]))

    return outward(plan, visit, _REST)


def frame_motions(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar] | None,
    frames: Sequence[str],
) -> tuple[Moving, ...]:
    """Find how frames move, each in its own axes at its own origin.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars; zero if None.
        frames: Names of bodies or frames, or "world".
    """
    bodies = body_motions(plan, q, v, vd)
    found = []
    for name in frames:
        frame = plan.frame(name)
        carrier = _REST if frame.body == WORLD_BODY else bodies[frame.body]
        X = frame.transform
        found.append(Moving(X.motion(carrier.vel), X.motion(carrier.acc)))
    return tuple(found)


def moved_to(m: Motion, offset: Vec3) -> Motion:
    """Return a motion with its linear part at another point, same axes (eq. 2.1)."""
    return Motion(m.angular, m.at_point(offset))


def chosen_frames(model: Model, options: Options) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the frames a call is about, and the leading shape of its result."""
    frames = dict(options).get("frames", model.frame_names[1:])
    return ((frames,), ()) if isinstance(frames, str) else (frames, (len(frames),))


def _state(model: Model, options: Options) -> list[Input]:
    return [
        Input("q", (model.nq,), described=model.describe_q()),
        Input("v", (model.nv,), described=model.describe_v()),
    ]


def _velocity_inputs(model: Model, options: Options) -> list[Input]:
    return [*_state(model, options), *point_inputs(options)]


def _acceleration_inputs(model: Model, options: Options) -> list[Input]:
    vd = Input("vd", (model.nv,), described=model.describe_v())
    return [*_state(model, options), vd, *point_inputs(options)]


def _run_velocity(
    model: Model, world: World | None, options: Options, q: Any, v: Any, *point: Any
) -> Any:
    return _told(model, world, options, scalars(q), scalars(v), None, point)


def _run_acceleration(
    model: Model, world: World | None, options: Options, q: Any, v: Any, vd: Any, *point: Any
) -> Any:
    return _told(model, world, options, scalars(q), scalars(v), scalars(vd), point)


def _told(
    model: Model,
    world: World | None,
    options: Options,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar] | None,
    point: Sequence[Any],
) -> Any:
    """Tell velocities, or accelerations if there are joint accelerations, as the options say."""
    plan, _ = plan_and_gravity(model, world)
    names, shape = chosen_frames(model, options)
    places = frame_places(plan, q, names)
    numbers: list[Scalar] = []
    for moving, place, reference in zip(
        frame_motions(plan, q, v, vd, names),
        places,
        references(plan, q, None, places, options, point),
        strict=True,
    ):
        told = moved_to(moving.vel, reference.offset)
        if vd is not None:
            acceleration = moved_to(moving.acc, reference.offset)
            classical = dict(options).get("kind", "classical") == "classical"
            told = spatial_to_classical(acceleration, told) if classical else acceleration
        numbers.extend(expressed(told, place, options))
    return as_traced(numbers).reshape(*shape, 6)


_VELOCITY = LibraryFunction(
    "frame_velocity",
    _velocity_inputs,
    _run_velocity,
    parameters=PARAMETERS,
    keywords=TIMED_CALL,
)
_ACCELERATION = LibraryFunction(
    "frame_acceleration",
    _acceleration_inputs,
    _run_acceleration,
    parameters=PARAMETERS,
    keywords=TIMED_CALL,
)


@public
@takes_conditions
def frame_velocity(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    **timed: Unpack[TimedCall],
) -> NDArray[np.float64]:
    """Compute the velocity of bodies and frames.

    One state or a batch. Inside a function given to `tiburon.compile` the arrays may be traced, one
    state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        frames: Name of a body or frame, or a sequence of names; by default every name of
            `model.frame_names` but the world, in that order.
        at: Where the linear part is taken: at the "frame"'s origin, at the "world"'s origin, at the
            center of mass ("com") of the robot, or at a point in the frame's axes [m], shape
            (..., 3). It is the velocity of the point of the frame's body, extended if need be,
            that is there now.
        axes: "world" or "frame": axes of the result.
        **timed: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        [omega; v] [rad/s, m/s], shape (..., 6) for one name, (..., n, 6) for n.
    """
    options, point = told_options(frames, at, axes)
    answer: NDArray[np.float64] = call_under(timed, _VELOCITY, model, (q, v, *point), options)
    return answer


@public
@takes_conditions
def frame_acceleration(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    kind: str = "classical",
    **timed: Unpack[TimedCall],
) -> NDArray[np.float64]:
    """Compute the acceleration of bodies and frames.

    One state or a batch. Inside a function given to `tiburon.compile` the arrays may be traced, one
    state at a time. Gravity is not included: a robot at rest has no acceleration.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).
        frames: Name of a body or frame, or a sequence of names; by default every name of
            `model.frame_names` but the world, in that order.
        at: Where the linear part is taken; see `frame_velocity`.
        axes: "world" or "frame": axes of the result.
        kind: "classical" for the acceleration of the body point that is there now, "spatial" for
            the rate of the spatial velocity at that fixed place (Featherstone 1987, sec. 2.7);
            they differ by omega x v.
        **timed: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Angular and linear acceleration [rad/s^2, m/s^2], shape (..., 6) for one name, (..., n, 6)
        for n.
    """
    if kind not in KINDS:
        raise OptionError("kind", KINDS, kind)
    options, point = told_options(frames, at, axes)
    if kind != "classical":
        options = (*options, ("kind", kind))
    answer: NDArray[np.float64] = call_under(
        timed, _ACCELERATION, model, (q, v, vd, *point), options
    )
    return answer
