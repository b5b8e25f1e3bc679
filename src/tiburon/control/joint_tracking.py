"""Joint tracking: controlled joints, tracking errors, and joint forces as commands.

All functions accept one state of floats, batches (cases lead) and traced values.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.piecewise import PathSample, entries, joined, row_of
from tiburon.control.joint_path import JointPath, refuse_quaternions
from tiburon.errors import DomainError, ModelError, OptionError, ShapeError
from tiburon.model import Joint, Model
from tiburon.model.model import per_model
from tiburon.simulation.state import State
from tiburon.trace.array import TracedArray, as_traced

FORCE_TARGETS = ("joints", "actuators")
"""How forces act: on joints directly, or as commands of their actuators."""

Gains = float | tuple[float, ...]
Target = JointPath | float | tuple[float, ...] | tuple[tuple[str, tuple[float, ...]], ...]
"""Set points of the selected joints in order, by joint name, or a path."""


class JointSelection(NamedTuple):
    """Selected joints of a robot."""

    joints: tuple[Joint, ...]
    """In order."""

    q: tuple[int, ...]
    """Indices in q."""

    v: tuple[int, ...]
    """Indices in v."""

    plain: bool
    """Whether none has a quaternion."""

    names: tuple[str, ...]
    """Their names."""


class TrackingError(NamedTuple):
    """Tracking error, shape (..., n) with one entry per selected velocity."""

    error: Any
    """Displacement from the actual to the target position [m or rad]."""

    rate: Any
    """Target velocity minus actual velocity [m/s or rad/s]."""

    acceleration: Any
    """Target acceleration [m/s^2 or rad/s^2]."""


@per_model
def select_joints(model: Model, names: tuple[str, ...]) -> JointSelection:
    """Select joints by name; by default all with degrees of freedom except a floating base."""
    named = names or tuple(j.name for j in model.joints if j.nv and j.kind != "free")
    joints = tuple(model.joint(name) for name in named)
    for joint in joints:
        if not joint.nv:
            raise ModelError(
                f"joint {joint.name!r}: expected a joint with its own variables, got a "
                f"{joint.kind} joint; leave it out",
                name=joint.name,
            )
    q, v = (tuple(model.indices(named, of=of).tolist()) for of in ("q", "v"))
    return JointSelection(joints, q, v, all(j.nq == j.nv for j in joints), named)


def as_target(target: Any) -> Target:
    """Convert a target to a form that compares by value."""
    if isinstance(target, JointPath):
        return target
    if isinstance(target, tuple) and target and isinstance(target[0], tuple):
        target = dict(target)
    for x in target.values() if isinstance(target, Mapping) else (target,):
        if not np.isfinite(x).all():
            raise DomainError("target", "finite values", f"{target!r}")
    if isinstance(target, Mapping):
        return tuple((name, tuple(np.ravel(x).tolist())) for name, x in target.items())
    return as_floats(target)


def target_joints(target: Target, joints: Sequence[str]) -> tuple[str, ...]:
    """Return the joints of a controller: its own, or those that its target names."""
    if joints:
        return tuple(joints)
    if isinstance(target, JointPath):
        return target.joints
    return tuple(_by_name(target))


def tracking_error(
    state: State, chosen: JointSelection, target: Target, handle: Sequence[Any] | None = None
) -> TrackingError:
    """Compute the tracking error of a state.

    Args:
        state: The state.
        chosen: The controlled joints.
        target: Their set points, or a path.
        handle: Handle of the path's table, in compiled loops.
    """
    q, v = taken(state.q, chosen.q), taken(state.v, chosen.v)
    if isinstance(target, JointPath):
        names = chosen.names
        if not chosen.plain:
            refuse_quaternions(state.model, names)
        sample = target.at(state.time, handle)
        if target.joints not in ((), names):
            order = _order(target, names)
            sample = PathSample(*(taken(x, order) for x in sample))
        if np.shape(sample.position)[-1] != len(chosen.v):
            raise ShapeError(
                "path", f"{len(chosen.v)} joints ({', '.join(names)})", target.pieces.size
            )
        rate = sample.velocity - v
        return TrackingError(sample.position - q, rate, sample.acceleration)
    aim = _aim(chosen, target)
    if chosen.plain:
        return TrackingError(_array(aim, q) - q, -v, 0.0 * v)
    steps: list[Any] = []
    here, place = entries(q), 0
    for joint in chosen.joints:
        part = slice(place, place + joint.nq)
        steps.extend(joint.difference(here[part], aim[part]))
        place += joint.nq
    return TrackingError(joined(steps, q), -v, 0.0 * v)


def _aim(chosen: JointSelection, target: Target) -> tuple[float, ...]:
    """Return a constant target as one value per selected position."""
    if not isinstance(target, (tuple, JointPath)):
        return (target,) * len(chosen.q)
    by_name = _by_name(target)
    values: Any = target
    if by_name:
        values = [x for joint in chosen.joints for x in by_name[joint.name]]
    if len(values) != len(chosen.q):
        names = ", ".join(joint.name for joint in chosen.joints)
        raise ShapeError("target", f"{len(chosen.q)} positions ({names})", len(values))
    return tuple(values)


def _by_name(target: Any) -> dict[str, tuple[float, ...]]:
    """Return the positions by joint name of a target that names its joints; else nothing."""
    named = isinstance(target, tuple) and bool(target) and isinstance(target[0], tuple)
    return dict(target) if named else {}


def _order(path: JointPath, names: tuple[str, ...]) -> list[int]:
    """Return the index of each named joint in a path."""
    if set(path.joints) != set(names):
        raise ModelError(
            f"path: expected joints {', '.join(names)}, got {', '.join(path.joints)}; name the "
            "same joints in path and controller"
        )
    return [path.joints.index(name) for name in names]


def commands_of(state: State, chosen: JointSelection, force: Any, through: str) -> Any:
    """Return joint forces [N or N m], shape (..., n), as commands by name."""
    if through not in FORCE_TARGETS:
        raise OptionError("through", FORCE_TARGETS, through)
    parts = entries(force)
    if through == "joints":
        refuse_servos(state.model, chosen.names)
        names = state.system.command_names
        return {names[k]: part for k, part in zip(chosen.v, parts, strict=True)}
    names = _actuators(state.model, chosen.names)
    return dict(zip(names, parts, strict=True))


@per_model
def refuse_servos(model: Model, joints: tuple[str, ...]) -> None:
    """Raise ModelError if a joint that a controller moves by forces has a servo.

    Args:
        model: The robot.
        joints: Names of joints.
    """
    for actuator in model.actuators:
        if actuator.servo is not None and actuator.joint in joints:
            raise ModelError(
                f"actuator {actuator.name!r}: a controller commands forces of joint "
                f"{actuator.joint!r}, which the servo acts against; command set points of the "
                "servo, or simulate model.without_servos()",
                name=actuator.name,
            )


@per_model
def _actuators(model: Model, joints: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command names of the actuators of joints."""
    found = []
    for name in joints:
        driving = [a for a in model.actuators if a.joint == name]
        if len(driving) != 1 or not driving[0].takes_force:
            raise ModelError(
                f"joint {name!r}: expected one actuator whose command is a force, not a voltage "
                f"or a set point, got {len(driving)}; pass through='joints'",
                name=name,
            )
        count = model.joint(name).dof
        own = driving[0].name
        found += [own] if count == 1 else [f"{own}.{k}" for k in range(count)]
    return tuple(found)


def taken(x: Any, places: Sequence[int]) -> Any:
    """Return selected entries of the last dimension."""
    return x[..., list(places)]


def spread(part: Any, places: Sequence[int], like: Any) -> Any:
    """Return an array like another with values in selected entries and zeros elsewhere."""
    whole = 0.0 * like
    whole[..., list(places)] = part
    return whole


def gains(value: Gains, count: int, what: str) -> Any:
    """Return gains as one value, or one per selected velocity."""
    row = row_of(value)
    if np.ndim(row) and len(row) != count:
        raise ShapeError(what, f"one value or {count}", len(row))
    return row


def as_gains(value: Any, what: str, *, endless: bool = False) -> Gains:
    """Check gains: one value or several, none negative, finite unless `endless`."""
    found = as_floats(value)
    values = np.asarray(found)
    if not np.all((values >= 0.0) & (endless | np.isfinite(values))):
        raise DomainError(what, "values of at least 0", f"{found!r}")
    return found


def as_floats(value: Any) -> Gains:
    """Convert to one float, or a tuple of floats."""
    return float(value) if np.ndim(value) == 0 else tuple(np.ravel(value).tolist())


def _array(values: Sequence[float], like: Any) -> Any:
    return as_traced(list(values)) if isinstance(like, TracedArray) else row_of(values)


def model_key(model: Model | None) -> Hashable:
    """Return a key of a controller's own model, including all parameter values."""
    return None if model is None else _digest(model)


@per_model
def _digest(model: Model) -> str:
    import hashlib
    import pickle

    return hashlib.blake2b(pickle.dumps(model), digest_size=16).hexdigest()
