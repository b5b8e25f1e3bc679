"""Kinematics for users: frames in the world, their motion and Jacobians.

Algorithms are imported where they are traced: a kernel from the cache needs none of them.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import OptionError
from tiburon.functions.keywords import TIMED_CALL, TimedCall
from tiburon.functions.library import INERTIA, Inputs, LibraryFunction, front_door, inputs_of, pair
from tiburon.model import Model
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

Array = NDArray[np.float64]
Scalars = Sequence[Scalar]


GIVEN_POINT = "point"
"""Option "at" of code that takes the point as an array."""

POINTS = ("frame", "world", "com")
"""Where the linear part of a motion may be taken, beside a given point."""

AXES = ("world", "frame")
"""In which axes motions may be expressed."""

KINDS = ("classical", "spatial")
"""What may be meant by an acceleration."""


def frame_options(frames: str | Sequence[str] | None) -> Options:
    """Return the options of code that places some frames; no option for all of them."""
    if frames is None:
        return ()
    return (("frames", frames if isinstance(frames, str) else tuple(frames)),)


def point_options(
    frames: str | Sequence[str] | None, at: str | ArrayLike, axes: str
) -> tuple[Options, tuple[Any, ...]]:
    """Check `at` and `axes`; return the options of code, and the arguments a given point adds."""
    if axes not in AXES:
        raise OptionError("axes", AXES, axes)
    given: tuple[Any, ...] = ()
    if not isinstance(at, str):
        at, given = GIVEN_POINT, (at,)
    elif at not in POINTS:
        raise OptionError("at", (*POINTS, "three numbers"), at)
    options = frame_options(frames)
    if at != "frame":
        options += (("at", at),)
    if axes != "world":
        options += (("axes", axes),)
    return options, given


def inputs_at(*names: str) -> Inputs:
    """Return a function of model and options that returns input arrays, a given point last."""
    usual = inputs_of(*names)

    def inputs(model: Model, options: Options) -> list[Input]:
        point = Input("at", (3,), described="3 (a point in the frame's axes)")
        is_given = dict(options).get("at") == GIVEN_POINT
        return [*usual(model, options), *([point] if is_given else [])]

    return inputs


def _frames(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.kinematics import chosen_frames, frame_places

    names, shape = chosen_frames(setting)
    places = frame_places(setting.plan, q, names)
    rotation = as_traced([x for place in places for row in place.R for x in row])
    translation = as_traced([x for place in places for x in place.p])
    return {
        "rotation": rotation.reshape(*shape, 3, 3),
        "translation": translation.reshape(*shape, 3),
    }


def _velocity(setting: Setting, q: Scalars, v: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.kinematics import expressed_motions

    return expressed_motions(setting, q, v, None, *point)


def _acceleration(setting: Setting, q: Scalars, v: Scalars, vd: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.kinematics import expressed_motions

    return expressed_motions(setting, q, v, vd, *point)


def _jacobian(setting: Setting, q: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.kinematics import expressed_jacobians

    return expressed_jacobians(setting, q, *point)


def _jacobian_bias(setting: Setting, q: Scalars, v: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.kinematics import expressed_jacobian_biases

    return expressed_jacobian_biases(setting, q, v, *point)


_FRAMES: LibraryFunction[tuple[Array, Array]] = LibraryFunction(
    "forward_kinematics", ("q",), _frames, make=pair, parameters=(), keywords=TIMED_CALL
)
# the center of mass, at which motions may be taken, depends on inertias
_VELOCITY: LibraryFunction[Array] = LibraryFunction(
    "frame_velocity", inputs_at("q", "v"), _velocity, parameters=(INERTIA,), keywords=TIMED_CALL
)
_ACCELERATION: LibraryFunction[Array] = LibraryFunction(
    "frame_acceleration",
    inputs_at("q", "v", "vd"),
    _acceleration,
    parameters=(INERTIA,),
    keywords=TIMED_CALL,
)
_JACOBIAN: LibraryFunction[Array] = LibraryFunction(
    "frame_jacobian", inputs_at("q"), _jacobian, parameters=(INERTIA,), keywords=TIMED_CALL
)
_JACOBIAN_BIAS: LibraryFunction[Array] = LibraryFunction(
    "frame_jacobian_bias",
    inputs_at("q", "v"),
    _jacobian_bias,
    parameters=(INERTIA,),
    keywords=TIMED_CALL,
)


@front_door(_FRAMES)
def forward_kinematics(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str] | None = None,
    **options: Unpack[TimedCall],
) -> tuple[Array, Array]:
    """Find bodies and frames in the world.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Rotation matrices from the frames' axes to world axes (their columns are the frames' axes),
        and the frames' origins in world axes [m]. For one name the shapes are (..., 3, 3) and
        (..., 3); for n names (..., n, 3, 3) and (..., n, 3).

    Example:
        ``rotation, translation = forward_kinematics(arm, q, "hand")``
    """
    return _FRAMES.request(model, (q,), options, frame_options(frames))


@front_door(_VELOCITY)
def frame_velocity(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    **timed: Unpack[TimedCall],
) -> Array:
    """Compute the velocity of bodies and frames.

    Args:
        q, v: Configuration and joint velocity.

    Returns:
        [omega; v] [rad/s, m/s], shape (..., 6) for one name, (..., n, 6) for n.
    """
    options, point = point_options(frames, at, axes)
    return _VELOCITY.request(model, (q, v, *point), timed, options)


@front_door(_ACCELERATION)
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
) -> Array:
    """Compute the acceleration of bodies and frames.

    Gravity is not included: a robot at rest has no acceleration.

    Args:
        q, v, vd: Configuration, joint velocity and joint acceleration.
        kind: "classical" for the acceleration of the body point that is there now, "spatial" for
            the rate of the spatial velocity at that fixed place (Featherstone 1987, sec. 2.7);
            they differ by omega x v.

    Returns:
        Angular and linear acceleration [rad/s^2, m/s^2], shape (..., 6) for one name, (..., n, 6)
        for n.
    """
    if kind not in KINDS:
        raise OptionError("kind", KINDS, kind)
    options, point = point_options(frames, at, axes)
    if kind != "classical":
        options = (*options, ("kind", kind))
    return _ACCELERATION.request(model, (q, v, vd, *point), timed, options)


@front_door(_JACOBIAN)
def frame_jacobian(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    **timed: Unpack[TimedCall],
) -> Array:
    """Compute the Jacobian of bodies and frames: their velocity is J v.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Three rows for the angular and three for the linear velocity, one column per velocity
        variable, shape (..., 6, nv) for one name, (..., n, 6, nv) for n.

    Example:
        ``tau = np.swapaxes(frame_jacobian(arm, q, "hand"), -1, -2) @ wrench``
    """
    options, point = point_options(frames, at, axes)
    return _JACOBIAN.request(model, (q, *point), timed, options)


@front_door(_JACOBIAN_BIAS)
def frame_jacobian_bias(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    **timed: Unpack[TimedCall],
) -> Array:
    """Compute the time derivative of a Jacobian times the joint velocity.

    Jdot v, where Jdot is the rate of the matrix `frame_jacobian` returns for the same `at` and
    `axes` while the robot moves on: d(J v)/dt = J vd + Jdot v. At the frame's origin it is the
    classical acceleration at zero vd in world axes, and the spatial one in frame axes.

    Args:
        q, v: Configuration and joint velocity.
        at: Where the linear part is taken; see `frame_jacobian`. The point "com" moves with the
            center of mass.

    Returns:
        Jdot v [rad/s^2, m/s^2], shape (..., 6) for one name, (..., n, 6) for n.
    """
    options, point = point_options(frames, at, axes)
    return _JACOBIAN_BIAS.request(model, (q, v, *point), timed, options)
