"""Joints as URDF knows them: those it has, and chains of them for those it has not.

URDF joints are hinges, slides, planes, welds and free flight. A universal or cylindrical joint is
exactly two of these with a massless link between, a screw exactly a hinge and a slide that mimics
it; a ball joint is three hinges as far as its motion goes, but has other position variables.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tiburon.errors import ModelError
from tiburon.model.joint_limits import PerFreedom
from tiburon.model.joints import (
    Coupled,
    Cylindrical,
    Fixed,
    Free,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Screw,
    Spherical,
    Universal,
)
from tiburon.model.joints.axial import AxialJoint
from tiburon.model.numbers import Vec3
from tiburon.model.pose import Pose


@dataclass(frozen=True, slots=True)
class Tie:
    """What a mimic joint follows."""

    leader: str
    ratio: float
    offset: float


@dataclass(frozen=True, slots=True)
class Elementary:
    """One joint element of a URDF file."""

    name: str
    kind: str
    pose: Pose = field(default_factory=Pose)
    axis: Vec3 | None = None
    lower: float = -math.inf
    upper: float = math.inf
    velocity: float = math.inf
    force: float = math.inf
    damping: float = 0.0
    friction: float = 0.0
    tie: Tie | None = None


def elementary_joints(joint: Joint, losses: list[str]) -> list[Elementary]:
    """Return the URDF joints that together are one of ours, from parent to body.

    Args:
        joint: Any joint.
        losses: Collects sentences about what is not the same.

    Raises:
        ModelError: If no URDF joints move as this one does.
    """
    element = f"joint {joint.name!r}"
    if any(joint.armatures):
        losses.append(f"{element}: its armature {joint.armature} was left out")
    if joint.passive is not None and _any(joint.passive.stiffness):
        losses.append(f"{element}: its spring of stiffness {joint.passive.stiffness} was left out")
    found = _chain(joint, losses)
    if found is None:
        raise ModelError(
            f"{element}: URDF has no joint that moves as a {joint.kind} joint does; save the robot "
            "as .toml",
            name=joint.name,
        )
    return found


def _chain(joint: Joint, losses: list[str]) -> list[Elementary] | None:
    """Return the joints, or None if URDF has none."""
    name, pose = joint.name, joint.pose
    if isinstance(joint, Fixed):
        return [Elementary(name, "fixed", pose)]
    if isinstance(joint, Free):
        return [_with_data(Elementary(name, "floating", pose), joint, 0)]
    if isinstance(joint, Planar):
        return [_with_data(Elementary(name, "planar", pose, joint.axis), joint, 0)]
    if isinstance(joint, AxialJoint):
        return _axial(joint, name, pose, None, joint)
    if isinstance(joint, Coupled):
        moves = joint.moves
        tie = Tie(joint.leader, joint.ratio, joint.offset + moves.offset)
        return _axial(moves, name, pose, tie, joint)
    if isinstance(joint, Universal):
        first, second = joint.q_names()
        losses.append(_as_chain(joint, "two hinges"))
        parts = [
            Elementary(first, "continuous", pose, joint.axis),
            Elementary(second, "continuous", axis=joint.second_axis),
        ]
    elif isinstance(joint, Cylindrical):
        first, second = joint.q_names()
        losses.append(_as_chain(joint, "a hinge and a slide"))
        parts = [
            Elementary(first, "continuous", pose, joint.axis),
            Elementary(second, "prismatic", axis=joint.axis),
        ]
    elif isinstance(joint, Spherical):
        losses.append(
            _as_chain(joint, "three hinges")
            + ", whose angles take the place of its quaternion and jam at a right angle of the "
            "second"
        )
        axes = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
        parts = [
            Elementary(f"{name}.{letter}", "continuous", pose if letter == "x" else Pose(), axis)
            for letter, axis in zip("xyz", axes, strict=True)
        ]
    else:
        return None
    return [_with_data(part, joint, number) for number, part in enumerate(parts)]


def _as_chain(joint: Joint, words: str) -> str:
    return (
        f"joint {joint.name!r}: a {joint.kind} joint was written as {words} with massless links "
        "between"
    )


def _axial(
    joint: AxialJoint, name: str, pose: Pose, tie: Tie | None, data: Joint
) -> list[Elementary]:
    """Return a hinge, slide or screw; the offset of one that moves freely goes into its pose."""
    offset = joint.offset if tie is None else 0.0
    if isinstance(joint, Revolute):
        if offset:
            pose = pose @ Pose.from_axis_angle(joint.axis, offset)
        return [_with_data(Elementary(name, "continuous", pose, joint.axis, tie=tie), data, 0)]
    if isinstance(joint, Prismatic):
        if offset:
            pose = pose @ Pose(translation=_along(joint.axis, offset))
        return [_with_data(Elementary(name, "prismatic", pose, joint.axis, tie=tie), data, 0)]
    if isinstance(joint, Screw):
        lead = joint.lead + joint.pitch * offset
        if offset:
            pose = pose @ Pose.from_axis_angle(joint.axis, offset)
        turn = _with_data(Elementary(name, "continuous", pose, joint.axis, tie=tie), data, 0)
        if tie is None:
            follows = Tie(name, joint.pitch, lead)
        else:
            follows = Tie(tie.leader, joint.pitch * tie.ratio, lead + joint.pitch * tie.offset)
        return [turn, Elementary(f"{name}.slide", "prismatic", axis=joint.axis, tie=follows)]
    return []


def _with_data(part: Elementary, joint: Joint, number: int) -> Elementary:
    """Return a joint with limits and friction of one freedom of ours."""
    if joint.limits is not None:
        limits = joint.limits
        part = replace(
            part,
            lower=_of(limits.lower, number),
            upper=_of(limits.upper, number),
            velocity=_of(limits.velocity, number),
            force=_of(limits.force, number),
        )
        if part.kind == "continuous" and (math.isfinite(part.lower) or math.isfinite(part.upper)):
            part = replace(part, kind="revolute")
    if joint.passive is not None:
        damping, friction = joint.passive.damping, joint.passive.friction
        part = replace(part, damping=_of(damping, number), friction=_of(friction, number))
    return part


def _of(value: PerFreedom, number: int) -> float:
    return value[number] if isinstance(value, tuple) else value


def _any(value: PerFreedom) -> bool:
    return any(value) if isinstance(value, tuple) else value != 0.0


def _along(axis: Sequence[float], length: float) -> Vec3:
    x, y, z = axis
    return (x * length, y * length, z * length)
