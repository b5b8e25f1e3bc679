"""Which joints a controller speaks for, where they should be, and how its forces become commands.

Everything works on one state of floats, on many (cases lead), and on traced values.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tiburon.control.joint_path import JointPath, plain_places
from tiburon.control.piecewise import PathSample, row_of
from tiburon.errors import DomainError, ModelError, OptionError, ShapeError
from tiburon.model import Joint, Model
from tiburon.simulation.state import State
from tiburon.trace.array import TracedArray, as_traced

__all__ = [
    "JointSelection",
    "TrackingError",
    "commands_of",
    "entries",
    "joined",
    "select_joints",
    "tracking_error",
]

THROUGH = ("joints", "actuators")
"""How forces reach joints: directly, or by the commands of the actuators that drive them."""

Numbers = float | tuple[float, ...]
Target = JointPath | float | tuple[float, ...] | tuple[tuple[str, tuple[float, ...]], ...]
"""Positions of the chosen joints in order, by joint name, or a path."""


class JointSelection(NamedTuple):
    """Joints of a robot."""

    joints: tuple[Joint, ...]
    """In order."""

    q: tuple[int, ...]
    """Their places among positions."""

    v: tuple[int, ...]
    """Their places among velocities."""

    plain: bool
    """Whether their positions are plain numbers, no quaternions."""

    names: tuple[str, ...]
    """Their names."""


class TrackingError(NamedTuple):
    """What a controller answers to; shape (..., n), one entry per chosen velocity."""

    error: Any
    """Step from where joints are to where they should be [m or rad]."""

    rate: Any
    """Velocity they should have less that they have [m/s or rad/s]."""

    acceleration: Any
    """They should have [m/s^2 or rad/s^2]."""


@lru_cache(maxsize=256)
def select_joints(model: Model, names: tuple[str, ...]) -> JointSelection:
    """Return joints by name; by default all that move but a floating base."""
    named = names or tuple(j.name for j in model.joints if j.nv and j.kind != "free")
    joints = tuple(model.joint(name) for name in named)
    for joint in joints:
        if not joint.nv:
            raise ModelError(
                f"joint {joint.name!r}: expected a joint that moves by itself, got a {joint.kind} "
                "joint; leave it out",
                name=joint.name,
            )
    q = tuple(k for j in joints for k in _range(model.slice(j.name, of="q")))
    v = tuple(k for j in joints for k in _range(model.slice(j.name, of="v")))
    return JointSelection(joints, q, v, all(j.nq == j.nv for j in joints), named)


def as_target(target: Any) -> Target:
    """Return a target in a form that compares by value; one in that form stays as it is."""
    if isinstance(target, JointPath):
        return target
    if isinstance(target, tuple) and target and isinstance(target[0], tuple):
        target = dict(target)
    for x in target.values() if isinstance(target, Mapping) else (target,):
        if not np.isfinite(x).all():
            raise DomainError("target", "finite numbers", f"{target!r}")
    if isinstance(target, Mapping):
        return tuple((name, tuple(np.ravel(x).tolist())) for name, x in target.items())
    return as_numbers(target)


def target_joints(target: Target, joints: Sequence[str]) -> tuple[str, ...]:
    """Return the joints a target names, where the controller itself names none."""
    if joints:
        return tuple(joints)
    if isinstance(target, JointPath):
        return target.joints
    return tuple(_by_name(target))


def tracking_error(
    state: State, chosen: JointSelection, target: Target, handle: Sequence[Any] | None = None
) -> TrackingError:
    """Compare a state with a target.

    Args:
        state: The state.
        chosen: The controlled joints.
        target: Their positions, or a path.
        handle: Handle of the table of the path, inside compiled loops.
    """
    q, v = taken(state.q, chosen.q), taken(state.v, chosen.v)
    if isinstance(target, JointPath):
        names = chosen.names
        if not chosen.plain:
            plain_places(state.model, names)
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
    """Return a constant target as one number per chosen position."""
    if not isinstance(target, (tuple, JointPath)):
        return (target,) * len(chosen.q)
    by_name = _by_name(target)
    numbers: Any = target
    if by_name:
        numbers = [x for joint in chosen.joints for x in by_name[joint.name]]
    if len(numbers) != len(chosen.q):
        names = ", ".join(joint.name for joint in chosen.joints)
        raise ShapeError("target", f"{len(chosen.q)} positions ({names})", len(numbers))
    return tuple(numbers)


def _by_name(target: Any) -> dict[str, tuple[float, ...]]:
    """Return the positions of a target that names its joints; nothing for others."""
    named = isinstance(target, tuple) and bool(target) and isinstance(target[0], tuple)
    return dict(target) if named else {}


def _order(path: JointPath, names: tuple[str, ...]) -> list[int]:
    """Return the place of each named joint in a path."""
    if set(path.joints) != set(names):
        raise ModelError(
            f"path: expected joints {', '.join(names)}, got {', '.join(path.joints)}; name the "
            "same joints in path and controller"
        )
    return [path.joints.index(name) for name in names]


def commands_of(state: State, chosen: JointSelection, force: Any, through: str) -> Any:
    """Return joint forces of chosen joints as commands of a run.

    Args:
        state: Where the robot is.
        chosen: The joints.
        force: One per chosen velocity [N or N m], shape (..., n).
        through: "joints" or "actuators".
    """
    if through not in THROUGH:
        raise OptionError("through", THROUGH, through)
    parts = entries(force)
    if through == "joints":
        names = state.system.command_names
        return {names[k]: part for k, part in zip(chosen.v, parts, strict=True)}
    names = _actuators(state.model, chosen.names)
    return dict(zip(names, parts, strict=True))


@lru_cache(maxsize=64)
def _actuators(model: Model, joints: tuple[str, ...]) -> tuple[str, ...]:
    """Return the commands of the actuators that drive joints."""
    found = []
    for name in joints:
        driving = [a for a in model.actuators if a.joint == name]
        if len(driving) != 1 or driving[0].motor is not None:
            raise ModelError(
                f"joint {name!r}: expected one actuator without electrics, whose command is a "
                f"force, got {len(driving)}; take through='joints'",
                name=name,
            )
        count = model.joint(name).dof
        own = driving[0].name
        found += [own] if count == 1 else [f"{own}.{k}" for k in range(count)]
    return tuple(found)


def taken(x: Any, places: Sequence[int]) -> Any:
    """Return chosen entries of the last dimension."""
    return x[..., list(places)]


def entries(x: Any) -> list[Any]:
    """Return the entries of the last dimension, one by one: scalars, or one number per case."""
    if isinstance(x, TracedArray):
        return list(x.reshape(-1).tolist())
    return [x[..., k] for k in range(np.shape(x)[-1])]


def joined(parts: Sequence[Any], like: Any) -> Any:
    """Return entries as one array of the kind and cases of another."""
    if isinstance(like, TracedArray):
        return as_traced(list(parts))
    shape = np.shape(like)[:-1]
    return np.stack([np.broadcast_to(x, shape) for x in parts], axis=-1)


def spread(part: Any, places: Sequence[int], like: Any) -> Any:
    """Return an array like another that is zero but for chosen entries of its last dimension."""
    whole = 0.0 * like
    whole[..., list(places)] = part
    return whole


def gains(value: Numbers, count: int, what: str) -> Any:
    """Return gains as one number, or one per chosen velocity."""
    row = row_of(value)
    if np.ndim(row) and len(row) != count:
        raise ShapeError(what, f"one number or {count}", len(row))
    return row


def as_gains(value: Any, what: str, *, endless: bool = False) -> Numbers:
    """Return one number, or a tuple of them, none of which drives away.

    Args:
        value: What was given.
        what: Leads the message.
        endless: Whether infinity is a number here.

    Raises:
        DomainError: If one is negative, or none.
    """
    found = as_numbers(value)
    numbers = np.asarray(found)
    if not np.all((numbers >= 0.0) & (endless | np.isfinite(numbers))):
        raise DomainError(what, "numbers of at least 0", f"{found!r}")
    return found


def as_numbers(value: Any) -> Numbers:
    """Return one number, or a tuple of them."""
    return float(value) if np.ndim(value) == 0 else tuple(np.ravel(value).tolist())


def _array(values: Sequence[float], like: Any) -> Any:
    return as_traced(list(values)) if isinstance(like, TracedArray) else row_of(values)


def _range(where: slice) -> range:
    return range(where.start, where.stop)


def model_key(model: Model | None) -> Hashable:
    """Return what code depends on of a controller's own idea of the robot: all of its numbers."""
    if model is None:
        return None
    import hashlib
    import pickle

    return hashlib.blake2b(pickle.dumps(model), digest_size=16).hexdigest()
