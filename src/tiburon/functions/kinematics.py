"""Kinematics for users: frames, their motion and Jacobians; center of mass, momentum and energy.

Algorithms are imported where they are traced: a kernel from the cache needs none of them.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import OptionError
from tiburon.functions.keywords import MODEL_CALL, ModelCall, WorldCall
from tiburon.functions.library import (
    INERTIA,
    Inputs,
    front_door,
    inputs_of,
    library_function,
    number,
    pair,
)
from tiburon.model import Model
from tiburon.spatial import Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

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


@library_function("forward_kinematics", ("q",), make=pair, parameters=(), keywords=MODEL_CALL)
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


# the center of mass, at which motions may be taken, depends on inertias
@library_function("frame_velocity", inputs_at("q", "v"), parameters=(INERTIA,), keywords=MODEL_CALL)
def _velocity(setting: Setting, q: Scalars, v: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.kinematics import expressed_motions

    return expressed_motions(setting, q, v, None, *point)


@library_function(
    "frame_acceleration", inputs_at("q", "v", "vd"), parameters=(INERTIA,), keywords=MODEL_CALL
)
def _acceleration(setting: Setting, q: Scalars, v: Scalars, vd: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.kinematics import expressed_motions

    return expressed_motions(setting, q, v, vd, *point)


@library_function("frame_jacobian", inputs_at("q"), parameters=(INERTIA,), keywords=MODEL_CALL)
def _jacobian(setting: Setting, q: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.kinematics import expressed_jacobians

    return expressed_jacobians(setting, q, *point)


@library_function(
    "frame_jacobian_bias", inputs_at("q", "v"), parameters=(INERTIA,), keywords=MODEL_CALL
)
def _jacobian_bias(setting: Setting, q: Scalars, v: Scalars, *point: Scalars) -> Any:
    from tiburon.algorithms.kinematics import expressed_jacobian_biases

    return expressed_jacobian_biases(setting, q, v, *point)


@front_door(_frames)
def forward_kinematics(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str] | None = None,
    **options: Unpack[ModelCall],
) -> tuple[Array, Array]:
    """Compute the poses of bodies and frames in the world.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Rotation matrices from the frames' axes to world axes (their columns are the frames' axes),
        and the frames' origins in world axes [m]. For one name the shapes are (..., 3, 3) and
        (..., 3); for n names (..., n, 3, 3) and (..., n, 3).

    Example:
        ``rotation, translation = forward_kinematics(arm, q, "hand")``
    """
    return _frames.request(model, (q,), options, frame_options(frames))


@front_door(_velocity)
def frame_velocity(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    **timed: Unpack[ModelCall],
) -> Array:
    """Compute the velocity of bodies and frames.

    Args:
        q, v: Configuration and joint velocity.

    Returns:
        [omega; v] [rad/s, m/s], shape (..., 6) for one name, (..., n, 6) for n.
    """
    options, point = point_options(frames, at, axes)
    return _velocity.request(model, (q, v, *point), timed, options)


@front_door(_acceleration)
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
    **timed: Unpack[ModelCall],
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
    return _acceleration.request(model, (q, v, vd, *point), timed, options)


@front_door(_jacobian)
def frame_jacobian(
    model: Model,
    q: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    **timed: Unpack[ModelCall],
) -> Array:
    """Compute the Jacobian of bodies and frames: their velocity is J v.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Three rows for the angular and three for the linear velocity, one column per velocity
        variable, shape (..., 6, nv) for one name, (..., n, 6, nv) for n.

    Example:
        ``tau = np.swapaxes(frame_jacobian(arm, q, "hand"), -1, -2) @ np.ones(6)``
    """
    options, point = point_options(frames, at, axes)
    return _jacobian.request(model, (q, *point), timed, options)


@front_door(_jacobian_bias)
def frame_jacobian_bias(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    frames: str | Sequence[str] | None = None,
    *,
    at: str | ArrayLike = "frame",
    axes: str = "world",
    **timed: Unpack[ModelCall],
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
    return _jacobian_bias.request(model, (q, v, *point), timed, options)


Energy = np.float64 | Array


MOMENTUM_POINTS = ("com", "world")
"""Points about which the moment of momentum may be taken."""


@library_function("center_of_mass", ("q",), parameters=(INERTIA,), keywords=MODEL_CALL)
def _center(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.momentum import mass_point

    return as_traced(list(mass_point(setting.plan, q).c))


@library_function("center_of_mass_jacobian", ("q",), parameters=(INERTIA,), keywords=MODEL_CALL)
def _center_jacobian(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.momentum import momentum_columns

    plan = setting.plan
    columns, mass = momentum_columns(plan, q, [body.inertia for body in plan.bodies])
    rows = [column.force[axis] / mass for axis in range(3) for column in columns]
    return as_traced(rows).reshape(3, plan.nv)


@library_function("momentum", ("q", "v"), parameters=(INERTIA,))
def _momentum(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.algorithms.kinematics import world_from_robot
    from tiburon.algorithms.momentum import about, mass_point, total_momentum

    plan = setting.plan
    if dict(setting.options).get("at", "com") != "com":
        return as_traced(list(total_momentum(plan, q, v, setting.water)))
    world = world_from_robot(plan, q)
    h = total_momentum(plan, q, v, setting.water, world)
    return as_traced(list(about(h, mass_point(plan, q, world).c)))


@library_function("momentum_matrix", ("q",), parameters=(INERTIA,))
def _momentum_matrix(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.momentum import momentum_columns

    plan = setting.plan
    centroidal = dict(setting.options).get("at", "com") == "com"
    inertias = [body.effective_inertia for body in plan.bodies]
    columns, _ = momentum_columns(plan, q, inertias, centroidal=centroidal)
    rows = zip(*columns, strict=True) if columns else [()] * 6
    return as_traced([x for row in rows for x in row]).reshape(6, plan.nv)


@library_function("kinetic_energy", ("q", "v"), make=number, parameters=(INERTIA,))
def _kinetic(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.algorithms.energy import kinetic

    return kinetic(setting.plan, q, v, setting.water)


@library_function("potential_energy", ("q",), make=number)
def _potential(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.energy import potential

    return potential(setting.plan, q, setting.gravity, setting.water)


@front_door(_center)
def center_of_mass(model: Model, q: ArrayLike, **options: Unpack[ModelCall]) -> Array:
    """Find the center of mass of all bodies that move.

    Bodies fixed to the world are left out.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Center of mass, world axes [m], shape (..., 3).
    """
    return _center.request(model, (q,), options)


@front_door(_center_jacobian)
def center_of_mass_jacobian(model: Model, q: ArrayLike, **options: Unpack[ModelCall]) -> Array:
    """Compute the Jacobian of the center of mass: its velocity is J v.

    Bodies fixed to the world are left out.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Jacobian, rows in world axes [m, or 1 for lengths], shape (..., 3, nv).
    """
    return _center_jacobian.request(model, (q,), options)


def _about(at: str) -> Options:
    if at not in MOMENTUM_POINTS:
        raise OptionError("at", MOMENTUM_POINTS, at)
    return () if at == "com" else (("at", at),)


@front_door(_momentum)
def momentum(
    model: Model, q: ArrayLike, v: ArrayLike, *, at: str = "com", **options: Unpack[WorldCall]
) -> Array:
    """Compute the momentum of all bodies together.

    In water that of the water they set in motion counts, added mass times velocity relative to the
    water: without gravity, buoyancy and drag, the momentum about the world's origin of a robot that
    floats in still water is constant.

    Args:
        q, v: Configuration and joint velocity.
        at: "com" for the moment about the center of mass of all moving bodies (centroidal
            momentum), "world" for that about the world's origin.
        **options: `time`, `world` and `fluid`; `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Moment of momentum and linear momentum, world axes [kg m^2/s, kg m/s], shape (..., 6).
    """
    return _momentum.request(model, (q, v), options, _about(at))


@front_door(_momentum_matrix)
def momentum_matrix(
    model: Model, q: ArrayLike, *, at: str = "com", **options: Unpack[WorldCall]
) -> Array:
    """Compute the matrix that gives the momentum: ``momentum = matrix @ v``.

    Where `Driven` joints or a current move by themselves, the momentum at v = 0 comes on top. About
    the center of mass this is the centroidal momentum matrix.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        at: "com" for the moment about the center of mass of all moving bodies, "world" for that
            about the world's origin.

    Returns:
        Matrix with three rows for the moment of momentum and three for linear momentum, world axes,
        shape (..., 6, nv).
    """
    return _momentum_matrix.request(model, (q,), options, _about(at))


@front_door(_kinetic)
def kinetic_energy(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[WorldCall]
) -> Energy:
    """Compute the kinetic energy.

    Args:
        q, v: Configuration and joint velocity.
        **options: `time`; `world` and `fluid`: the energy that bodies give it counts; `out` and
            `errors`: see `Conditions` and `Delivery`.

    Returns:
        Kinetic energy [J], one value per state.

    Example:
        ``tb.kinetic_energy(arm, q, v)``
    """
    return _kinetic.request(model, (q, v), options)


@front_door(_potential)
def potential_energy(model: Model, q: ArrayLike, **options: Unpack[WorldCall]) -> Energy:
    """Compute the potential energy in gravity, zero for mass at the world origin.

    Bodies fixed to the world are left out, since their share never changes.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        **options: `time`; `world` and `fluid`, which lifts what it is displaced by; `out` and
            `errors`: see `Conditions` and `Delivery`.

    Returns:
        Potential energy [J], one value per state.

    Example:
        ``tb.potential_energy(arm, q)``
    """
    return _potential.request(model, (q,), options)
