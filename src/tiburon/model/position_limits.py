"""Limits of all joints of a robot, as bounds of its position variables."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.model.joints import Joint
from tiburon.model.joints.coupled import Coupled

__all__ = ["PositionLimits", "position_limits", "velocity_limits", "within_limits"]

Array = NDArray[np.float64]
Given = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""By joint name, the lowest and highest position [m or rad]."""


class PositionLimits(NamedTuple):
    """Bounds of the position variables of a robot; infinity for no limit."""

    lower: Array
    """Smallest values [m or rad], shape (nq,)."""

    upper: Array
    """Largest values [m or rad], shape (nq,)."""

    turns: tuple[tuple[int, float], ...]
    """For each joint with a quaternion and limited rotation: index of the quaternion in q, and the
    largest rotation angle [rad]."""


def position_limits(joints: Sequence[Joint], given: Given | None = None) -> PositionLimits:
    """Return the limits of all position variables.

    The limits of a coupled joint bound the variable of its leader.

    Args:
        joints: In the order of the model.
        given: Limits that replace those of the joints, by name.

    Raises:
        ModelError: If limits are given for a joint with a quaternion, or if those of a leader and
            its coupled joints exclude each other.
        DomainError: If a lowest position is not below the highest.
    """
    given = {} if given is None else given
    size = sum(joint.nq for joint in joints)
    lower, upper = np.full(size, -math.inf), np.full(size, math.inf)
    turns: list[tuple[int, float]] = []
    places, start = {}, 0
    for joint in joints:
        places[joint.name] = slice(start, start + joint.nq)
        start += joint.nq
    for joint in joints:
        ends = _ends(joint, given)
        if ends is None:
            continue
        if isinstance(joint, Coupled):
            if joint.ratio == 0.0:
                continue
            low, high = np.sort((np.array(ends) - joint.offset) / joint.ratio, axis=0)
            place = places[joint.leader]
        else:
            (low, high), place = ends, places[joint.name]
            if joint.nq != joint.nv:
                names = [name.rpartition(".")[2] for name in joint.q_names()]
                # joints without a quaternion have no total rotation angle
                if "qw" in names:
                    most = max(0.0, float(np.min(high)))
                    turns.append((place.start + names.index("qw"), most))
                continue
        lower[place], upper[place] = np.maximum(lower[place], low), np.minimum(upper[place], high)
        if np.any(lower[place] > upper[place]):
            raise ModelError(
                f"joint {joint.name!r}: expected limits compatible with those of its leader, got "
                f"{lower[place][0]:g} to {upper[place][0]:g} for the "
                "leader; correct one of them",
                name=joint.name,
            )
    return PositionLimits(lower, upper, tuple(x for x in turns if x[1] < math.pi))


def _ends(joint: Joint, given: Given) -> tuple[Array, Array] | None:
    """Return the position limits of each degree of freedom; None without limits."""
    name, count = joint.name, joint.dof
    if name in given:
        if joint.follows is None and joint.nq != joint.nv:
            raise ModelError(
                f"joint {name!r}: limits need one position per velocity variable, got a "
                f"{joint.kind} joint with {joint.nq} and {joint.nv}; leave it out of limits",
                name=name,
            )
        refuse_unusable(f"limits[{name!r}]", given[name])
        try:
            least, most = given[name]
            low, high = (
                np.broadcast_to(np.asarray(x, dtype=np.float64), (count,)) for x in (least, most)
            )
        except (TypeError, ValueError) as error:
            raise ShapeError(
                f"limits[{name!r}]",
                f"a pair of lowest and highest position, scalars or {count} values each",
                f"{given[name]!r:.80}",
            ) from error
        if not np.all(low <= high):
            raise DomainError(f"limits[{name!r}]", "lowest before highest", f"{(least, most)!r}")
        return low, high
    if joint.limits is None or count == 0:
        return None
    low, high = (
        np.broadcast_to(np.asarray(x, dtype=np.float64), (count,))
        for x in (joint.limits.lower, joint.limits.upper)
    )
    return low, high


def velocity_limits(joints: Sequence[Joint]) -> Array:
    """Return the largest speed of each velocity variable [m/s or rad/s], shape (nv,).

    The limit of a coupled joint bounds the speed of its leader.
    """
    size = sum(joint.nv for joint in joints)
    found = np.full(size, math.inf)
    places, start = {}, 0
    for joint in joints:
        places[joint.name] = slice(start, start + joint.nv)
        start += joint.nv
    for joint in joints:
        if joint.limits is None:
            continue
        place, most = places[joint.name], np.asarray(joint.limits.velocity, dtype=np.float64)
        if isinstance(joint, Coupled):
            if joint.ratio == 0.0:
                continue
            place, most = places[joint.leader], most / abs(joint.ratio)
        found[place] = np.minimum(found[place], most)
    return found


def within_limits(q: Array, limits: PositionLimits, rng: "np.random.Generator") -> Array:
    """Return random positions with limited variables drawn again.

    Between two limits positions are uniform; beyond a single one they are mirrored at it. Limited
    rotations are uniform among all rotations up to their angle.

    Args:
        q: Random positions [m or rad], shape (..., nq).
        limits: Their bounds.
        rng: Source of randomness.
    """
    found = q.copy()
    for k, (low, high) in enumerate(zip(limits.lower, limits.upper, strict=True)):
        x = found[..., k]
        if math.isfinite(low) and math.isfinite(high):
            found[..., k] = low + (high - low) * rng.random(x.shape)
        elif math.isfinite(low):
            found[..., k] = low + np.abs(x - low)
        elif math.isfinite(high):
            found[..., k] = high - np.abs(x - high)
    for start, most in limits.turns:
        vector = found[..., start + 1 : start + 4]
        axis = vector / np.linalg.norm(vector, axis=-1, keepdims=True)
        half = 0.5 * _turn_angles(rng.random(vector.shape[:-1]), most)[..., None]
        found[..., start : start + 1] = np.cos(half)
        found[..., start + 1 : start + 4] = np.sin(half) * axis
    return found


def _turn_angles(share: Array, most: float) -> Array:
    """Return the angles of uniformly distributed rotations up to an angle, for uniform quantiles.

    A fraction (a - sin a) / pi of all rotations has an angle below a; solved by 60 bisections, to
    full float precision.
    """
    low, high = np.zeros_like(share), np.full_like(share, most)
    wanted = share * (most - math.sin(most))
    for _ in range(60):
        middle = 0.5 * (low + high)
        less = middle - np.sin(middle) < wanted
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return 0.5 * (low + high)
