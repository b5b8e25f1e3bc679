"""Motion of a robot with loops from that of its motors or of its platform, for users.

Algorithms are imported where they are traced: a kernel from the cache needs none of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, LoopError, ModelError, OptionError
from tiburon.functions.keywords import MODEL_CALL
from tiburon.functions.library import library_function
from tiburon.functions.parameters import robot_of_case
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Motion, Scalars
from tiburon.spatial.rotations import quaternion_to_matrix
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, current_graph
from tiburon.trace.value import require

MAX_RESIDUAL = 1e-9
"""Largest loop-closure error of a result [m or rad]; usually it is 1e-13."""

NAMED_VARIABLES = 6
"""Variables of a direction that a message names."""

MOTION_ARRAYS = ("position", "velocity", "acceleration")
"""Names of the arrays that may be given."""


@record(eq=False)
class LoopMotion:
    """Motion of all joints of a robot with loops, one case or a batch."""

    q: Any
    """Configuration with closed loops [m or rad], shape (..., nq)."""

    v: Any
    """Joint velocity that keeps them closed [m/s or rad/s], shape (..., nv)."""

    vd: Any
    """Joint acceleration that keeps them closed [m/s^2 or rad/s^2], shape (..., nv)."""

    steps: Any
    """Newton steps of the displacement analysis, shape (...)."""

    residual: Any
    """Largest remaining error of loops and of a given pose [m or rad], shape (...)."""

    ratio: Any
    """Smallest over largest singular value of the motions that were computed, estimated, shape
    (...): near zero, what is given hardly determines them."""


def _inputs(model: Model, options: Options) -> list[Input]:
    choices = dict(options)
    found = [Input("q", (model.nq,), described=model.describe_q())]
    platform, joints = choices["platform"], choices["joints"]
    for name in choices["takes"]:
        if platform is not None:
            size = 7 if name == "position" else 6
            what = f"{size} ({'quaternion, position' if size == 7 else 'angular, linear'})"
        else:
            size = len(model.indices(joints, of="q" if name == "position" else "v"))
            what = f"{size} (of {', '.join(joints[:4])}{', ...' if len(joints) > 4 else ''})"
        found.append(Input(name, (size,), described=what))
    return found


def _results(*results: Any) -> tuple[Any, ...]:
    return results


@library_function("closed_motion", _inputs, make=_results, parameters=(), keywords=MODEL_CALL)
def _compute(setting: Setting, q: Scalars, *arrays: Scalars) -> Any:
    from tiburon.algorithms.kinematics import Place, frame_places
    from tiburon.algorithms.tape_calls import JointVector
    from tiburon.loops.motion import MAX_MISFIT, GivenBody, closed_motion

    model, plan, choices = setting.model, setting.plan, dict(setting.options)
    given = dict(zip(choices["takes"], arrays, strict=True))
    at, v, vd = list(q), [0.0] * model.nv, [0.0] * model.nv
    body, places = None, []
    if choices["platform"] is not None:
        name = choices["platform"]
        pose = given.get("position")
        if pose is None:
            place = frame_places(plan, JointVector(q), [name])[0]
        else:
            place = Place(quaternion_to_matrix(pose[:4]), (pose[4], pose[5], pose[6]))
        motions = [
            Motion((x[0], x[1], x[2]), (x[3], x[4], x[5]))
            for x in (given.get(one, [0.0] * 6) for one in MOTION_ARRAYS[1:])
        ]
        body = GivenBody(name, place, *motions)
    else:
        joints = choices["joints"]
        places = [int(i) for i in model.indices(joints, of="v")]
        for target, name, own in (
            (at, "position", model.indices(joints, of="q")),
            (v, "velocity", places),
            (vd, "acceleration", places),
        ):
            for i, x in zip(own, given.get(name, ()), strict=False):
                target[int(i)] = x
    found = closed_motion(model, plan, at, v, vd, places, body)
    named = {
        "q": list(found.q),
        "v": list(found.v),
        "vd": list(found.vd),
        "steps": found.steps,
        "residual": found.residual,
        "ratio": found.ratio,
        "misfit": found.misfit,
    }
    if choices["checked"]:
        closes = (found.residual <= MAX_RESIDUAL) & (found.misfit <= MAX_MISFIT)
        held = _what(choices["joints"], choices["platform"])
        for name in ("q", "v", "vd"):
            determined = [
                require(found.ratio > 0.0, x, f"{held} that determine the motion of all joints")
                for x in named[name]
            ]
            named[name] = [
                require(closes, x, f"a motion of {held} that keeps loops closed")
                for x in determined
            ]
    return {name: as_traced(x) for name, x in named.items()}


def _what(joints: Sequence[str], platform: str | None) -> str:
    """Return what is given, in words."""
    if platform is not None:
        return f"body {platform!r}"
    more = f" and {len(joints) - 4} more" if len(joints) > 4 else ""
    return f"joints {', '.join(joints[:4])}{more}"


@public
def loop_motion(
    model: Model,
    q: ArrayLike,
    position: ArrayLike | None = None,
    velocity: ArrayLike | None = None,
    acceleration: ArrayLike | None = None,
    *,
    joints: str | Iterable[str] | None = None,
    platform: str | None = None,
    time: ArrayLike | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
) -> LoopMotion:
    """Compute the motion of all joints of a robot with loops from that of its motors or platform.

    Positions by Newton's method from a nearby configuration (displacement analysis), so that the
    assembly of the mechanism stays what it is; rates and accelerations by linear equations. One
    case or a batch: leading dimensions of all arrays broadcast. Inside a function given to
    `tiburon.compile` the arrays may be traced, one case at a time.

    Args:
        model: The robot.
        q: Configuration near the one sought [m or rad], shape (..., nq).
        position: Positions of the given joints [m or rad], in the order of their names, or pose of
            the platform: quaternion (w, x, y, z), then position [m], shape (..., 7). By default as
            in q.
        velocity: Velocities of the given joints [m/s or rad/s], or angular and linear velocity of
            the platform in its own axes, at its origin [rad/s, m/s], shape (..., 6); zero by
            default.
        acceleration: Rates of `velocity`; zero by default.
        joints: Names of the joints that are given; by default those that have motors.
        platform: Name of a body or frame that is given instead, as if a free joint held it.
        time: When [s], shape (...), where `Driven` joints move by themselves; zero by default.
        parameters: Geometry in place of that of the robot by name, such as
            "pin.second.translation", one or one per case.

    Returns:
        Positions, rates and accelerations of all joints.

    Raises:
        ModelError: If the robot has no loops, no motors and no joints are named, or positions are
            given although loops constrain velocities only, which determines no positions.
        DomainError: If what is given does not determine the motion: the message names the
            direction in which the robot can still move. Also if given rates open the loops.
        LoopError: If no configuration nearby has these positions.

    Example:
        ``tb.loop_motion(linkage, linkage.poses["home"], [1.1], velocity=[0.5]).v``
    """
    names, body = _chosen(model, joints, platform)
    arrays = dict(zip(MOTION_ARRAYS, (position, velocity, acceleration), strict=True))
    takes = tuple(name for name in MOTION_ARRAYS if arrays[name] is not None)
    if position is not None:
        _refuse_rolling(model)
    traced = current_graph() is not None
    options: Options = (
        ("joints", names),
        ("platform", body),
        ("takes", takes),
        ("checked", traced),
    )
    given = (q, *(arrays[name] for name in takes))
    found = _compute.call(model, given, {"time": time, "parameters": parameters}, options)
    if not traced:
        _check(model, found, names, body, parameters)
    return LoopMotion(*found[:6])


def _chosen(
    model: Model, joints: str | Iterable[str] | None, platform: str | None
) -> tuple[tuple[str, ...], str | None]:
    """Return the joints that are given, or the body."""
    if not model.loops:
        raise ModelError(
            f"model {model.name!r}: loop_motion is for robots with loops, got none; every joint of "
            "a tree moves by itself"
        )
    if platform is not None:
        if joints is not None:
            raise OptionError("joints with platform", ("None",), joints)
        model.plan.frame(platform)
        if platform == "world":
            raise DomainError("platform", "a body that moves", "'world'")
        return (), platform
    names = model.actuated_joint_names
    if joints is not None:
        names = (joints,) if isinstance(joints, str) else tuple(joints)
    for name in names:
        model.joint(name)
    if len(set(names)) < len(names):
        raise DomainError("joints", "different joints", ", ".join(names))
    if not any(model.joint(name).nv for name in names):
        raise ModelError(
            f"model {model.name!r}: expected joints whose motion is given, got none with a motor; "
            "pass joints= or platform="
        )
    return names, None


def _refuse_rolling(model: Model) -> None:
    """Refuse positions where loops constrain velocities: these determine no positions."""
    from tiburon.loops.constraints import constraint_names, is_velocity_constraint

    marked = zip(constraint_names(model), is_velocity_constraint(model), strict=True)
    for name, is_velocity in marked:
        if is_velocity:
            loop = name.rpartition(".")[0]
            raise ModelError(
                f"loop {loop!r}: constrains velocities, which determine no positions; leave "
                "position out and pass the whole configuration as q",
                name=loop,
            )


def _check(
    model: Model,
    found: Sequence[Array],
    joints: tuple[str, ...],
    platform: str | None,
    parameters: Mapping[str, ArrayLike] | None,
) -> None:
    """Raise if a case is not determined, or does not close."""
    from tiburon.loops.motion import MAX_MISFIT

    q, _, _, steps, residual, ratio, misfit = (np.asarray(x) for x in found)
    what = _what(joints, platform)

    def case(failed: Any) -> tuple[tuple[int, ...], str]:
        place = tuple(int(k) for k in np.unravel_index(int(np.argmax(failed)), failed.shape))
        return place, f" in case {', '.join(map(str, place))}" if failed.ndim else ""

    opened = ~(residual <= MAX_RESIDUAL)
    singular = ~opened & ~(ratio > 0.0)
    if np.any(singular):
        place, where = case(singular)
        model = robot_of_case(model, parameters, residual.shape, place)
        direction = undetermined_direction(model, q[place], joints, platform)
        raise DomainError(
            "q",
            f"a configuration in which the motion of {what} determines that of all joints",
            f"one{where} that can still move along {_spelled(model, direction)}",
            advice="leave this singular configuration, or drive more joints",
        )
    if np.any(opened):
        place, where = case(opened)
        model = robot_of_case(model, parameters, residual.shape, place)
        worst = {
            loop: float(np.abs(error).max()) for loop, error in _residuals(model, q[place]).items()
        }
        raise LoopError(
            f"position: expected one of {what} that closes the loops near q, got an error of "
            f"{float(residual[place]):.3g} m or rad{where} after {int(steps[place])} Newton steps; "
            "start nearer, or assemble the robot there",
            worst,
        )
    missed = ~(misfit <= MAX_MISFIT)
    if np.any(missed):
        _, where = case(missed)
        raise DomainError(
            "velocity",
            f"rates and accelerations of {what} that keep loops closed",
            f"some{where} that open them",
            advice="these joints are not independent: give fewer of them, or consistent rates"
            if platform is None
            else "legs do not permit this motion of it; its axes are those of the body",
        )


def _residuals(model: Model, q: Array) -> dict[str, Array]:
    """Return the constraint residual by loop."""
    from tiburon.functions.closed_loops import constraint_residual
    from tiburon.loops.constraints import loop_rows

    value = np.asarray(constraint_residual(model, q))
    return {loop.name: value[list(loop_rows(model, loop.name))] for loop in model.loops}


def undetermined_direction(
    model: Model, q: Array, joints: Sequence[str], platform: str | None
) -> Array:
    """Return the joint velocity that what is given does not determine, shape (nv,).

    Args:
        model: The robot.
        q: Configuration [m or rad], shape (nq,).
        joints: Joints that stand still.
        platform: Body that stands still, or None.
    """
    from tiburon.functions.closed_loops import loop_jacobian
    from tiburon.functions.kinematics import frame_jacobian

    rows = [np.asarray(loop_jacobian(model, q))]
    if joints:
        rows.append(np.eye(model.nv)[model.indices(list(joints), of="v")])
    if platform is not None:
        rows.append(np.asarray(frame_jacobian(model, q, platform)))
    direction: Array = np.linalg.svd(np.vstack(rows))[2][-1]
    sizes = np.abs(direction) / np.abs(direction).max()
    # the first of the largest is 1, whatever rounding makes of their order
    return np.asarray(direction / direction[int(np.argmax(sizes > 1.0 - 1e-6))])


def _spelled(model: Model, direction: Array) -> str:
    """Return the largest components of a direction by name."""
    largest = np.argsort(-np.round(np.abs(direction), 6), kind="stable")[:NAMED_VARIABLES]
    return ", ".join(
        f"{model.v_names[int(i)]}: {direction[int(i)]:.3g}"
        for i in largest
        if abs(direction[int(i)]) > 1e-6
    )
