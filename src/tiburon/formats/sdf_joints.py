"""Joints of SDF files: kinds, axes in any frame, limits, friction, springs, ties."""

import math
from dataclasses import dataclass

import numpy as np

from tiburon.errors import nearest_name
from tiburon.formats.sdf_frames import MODEL, SdfFrames
from tiburon.formats.sdf_links import value_of
from tiburon.formats.urdf_joints import UNLIMITED, unit
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.joints import (
    Coupled,
    Fixed,
    Joint,
    Prismatic,
    Revolute,
    Screw,
    Spherical,
    Universal,
)
from tiburon.model.joints.axial import AxialJoint
from tiburon.model.joints.joint import JointLimits, JointPassive
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3

KINDS = (
    "revolute",
    "continuous",
    "prismatic",
    "fixed",
    "ball",
    "universal",
    "revolute2",
    "screw",
    "gearbox",
)
"""Joint types of the format."""


@dataclass(frozen=True, slots=True)
class SdfTie:
    """What the axis of a joint mimics: position = ratio times the leader's + offset."""

    leader: str
    ratio: float
    offset: float
    element: XmlElement


@dataclass(frozen=True, slots=True)
class SdfJoint:
    """A joint as the file gives it, with whole names."""

    name: str
    scope: str
    kind: str
    element: XmlElement
    parent: str
    """Link, or the world."""

    child: str
    """Link."""

    version: tuple[int, int]
    """Version of the format the file is written in."""

    @property
    def is_cut(self) -> bool:
        """Whether the file wants a loop to be cut at this joint."""
        physics = self.element.find("physics")
        simbody = None if physics is None else physics.find("simbody")
        flag = None if simbody is None else simbody.find("must_be_loop_joint")
        return flag is not None and flag.text.strip() in ("true", "1")


def check_kind(element: XmlElement) -> str:
    """Return the type of a joint, or say that it is none of the format's."""
    kind = element.attribute("type")
    if kind not in KINDS:
        near = nearest_name(kind, KINDS)
        hint = f"did you mean {near!r}?" if near else f"write one of {', '.join(KINDS)}"
        element.fail(f"unknown joint type {kind!r}; {hint}")
    return kind


def axis_of(joint: SdfJoint, frames: SdfFrames, tag: str = "axis") -> Vec3:
    """Return an axis of a joint in the joint's own axes, of length 1.

    Up to version 1.4 axes are given in the model's frame, and in 1.5 and 1.6 where
    <use_parent_model_frame> says so; later in any frame by ``expressed_in``.
    """
    axis = joint.element.find(tag)
    xyz = None if axis is None else axis.find("xyz")
    numbers = [0.0, 0.0, 1.0]
    if xyz is not None and xyz.text.strip():
        numbers = xyz.parse(xyz.text, 3, "axis")
    holder = joint.element if axis is None else axis
    direction = np.array(unit(numbers, holder))
    frame = _axis_frame(joint, axis, xyz, frames)
    if frame is not None:
        direction = np.array(frames.relative(frame, joint.name).rotation) @ direction
    x, y, z = direction.tolist()
    return (x, y, z)


def _axis_frame(
    joint: SdfJoint, axis: XmlElement | None, xyz: XmlElement | None, frames: SdfFrames
) -> str | None:
    """Return the whole name of the frame an axis is given in; None for the joint's own."""
    if xyz is not None and xyz.attributes.get("expressed_in", "").strip():
        return frames.resolve(joint.scope + xyz.attributes["expressed_in"].strip(), xyz)
    if joint.version <= (1, 4):
        return joint.scope + MODEL
    flag = None if axis is None else axis.find("use_parent_model_frame")
    if flag is not None and flag.text.strip() in ("true", "1"):
        return joint.scope + MODEL
    return None


def read_tie(element: XmlElement, scope: str) -> SdfTie | None:
    """Return what the axis of a hinge or slide mimics, if it does (version 1.11)."""
    axis = element.find("axis")
    mimic = None if axis is None else axis.find("mimic")
    if mimic is None:
        return None
    ratio = value_of(mimic, "multiplier", 1.0)
    offset = value_of(mimic, "offset", 0.0) - ratio * value_of(mimic, "reference", 0.0)
    return SdfTie(scope + mimic.attribute("joint"), ratio, offset, mimic)


def make_joint(
    joint: SdfJoint,
    frames: SdfFrames,
    pose: Pose,
    turn: Pose,
    tie: SdfTie | None = None,
    name: str | None = None,
) -> Joint:
    """Return our joint for one of the file.

    Args:
        joint: As the file gives it.
        frames: Of the file.
        pose: The frame that the joint moves, in the parent, when it has not moved.
        turn: The joint's own axes in that frame; only its rotation counts.
        tie: What the joint follows, if it does.
        name: Name of the joint; that in the file by default.

    Raises:
        ModelError: If no joint has these numbers.
    """
    name = joint.name if name is None else name
    R = np.array(turn.rotation)

    def axis(tag: str = "axis") -> Vec3:
        x, y, z = (R @ axis_of(joint, frames, tag)).tolist()
        return (x, y, z)

    if joint.kind == "fixed":
        return Fixed(name, pose=pose)
    if joint.kind == "ball":
        return Spherical(name, pose=pose)
    if joint.kind in ("universal", "revolute2"):
        limits, passive = _both(_limits(joint, "axis"), _limits(joint, "axis2")), None
        dampings = _passive(joint, "axis"), _passive(joint, "axis2")
        if any(dampings):
            first, second = (p or JointPassive() for p in dampings)
            passive = JointPassive(
                *(
                    (getattr(first, key), getattr(second, key))
                    for key in ("damping", "friction", "stiffness", "rest")
                )
            )
        return Universal(name, axis(), axis("axis2"), pose=pose, limits=limits, passive=passive)
    limits, passive = _limits(joint, "axis"), _passive(joint, "axis")
    if tie is not None:
        moves = _axial(joint, f"{name}.motion", axis())
        return Coupled(
            name,
            moves,
            tie.leader,
            tie.ratio,
            tie.offset,
            pose=pose,
            limits=limits,
            passive=passive,
        )
    return _axial(joint, name, axis(), pose, limits, passive)


def _axial(
    joint: SdfJoint,
    name: str,
    axis: Vec3,
    pose: Pose | None = None,
    limits: JointLimits | None = None,
    passive: JointPassive | None = None,
) -> AxialJoint:
    where = Pose() if pose is None else pose
    if joint.kind == "prismatic":
        return Prismatic(name, axis, pose=where, limits=limits, passive=passive)
    if joint.kind == "screw":
        pitch = _pitch(joint.element)
        return Screw(name, axis, pitch=pitch, pose=where, limits=limits, passive=passive)
    return Revolute(name, axis, pose=where, limits=limits, passive=passive)


def _pitch(element: XmlElement) -> float:
    """Return the slide of a screw per radian [m/rad].

    <screw_thread_pitch> is the slide per turn of a right-handed thread. The older <thread_pitch> is
    the turn per slide [rad/m] of a left-handed one.
    """
    if element.find("screw_thread_pitch") is not None:
        return value_of(element, "screw_thread_pitch", 1.0) / (2.0 * math.pi)
    legacy = value_of(element, "thread_pitch", 1.0)
    if legacy == 0.0:
        element.fail("thread_pitch must not be zero, got 0; give the turn per meter")
    return -1.0 / legacy


def _limits(joint: SdfJoint, tag: str) -> JointLimits | None:
    """Return the limits of an axis; numbers of 1e16 and negative speeds and forces are none."""
    axis = joint.element.find(tag)
    limit = None if axis is None else axis.find("limit")
    if limit is None:
        return None
    lower, upper = value_of(limit, "lower", -UNLIMITED), value_of(limit, "upper", UNLIMITED)
    if joint.kind == "continuous" or lower <= -UNLIMITED:
        lower = -math.inf
    if joint.kind == "continuous" or upper >= UNLIMITED:
        upper = math.inf
    velocity, force = (
        math.inf if value < 0.0 or value >= UNLIMITED else value
        for value in (value_of(limit, "velocity", -1.0), value_of(limit, "effort", -1.0))
    )
    if (lower, upper, velocity, force) == (-math.inf, math.inf, math.inf, math.inf):
        return None
    return JointLimits(lower, upper, velocity, force)


def _both(first: JointLimits | None, second: JointLimits | None) -> JointLimits | None:
    """Return the limits of two axes as those of one joint."""
    if first is None and second is None:
        return None
    a, b = first or JointLimits(), second or JointLimits()
    return JointLimits(
        *((getattr(a, key), getattr(b, key)) for key in ("lower", "upper", "velocity", "force"))
    )


def _passive(joint: SdfJoint, tag: str) -> JointPassive | None:
    """Return friction and spring of an axis, if it has any."""
    axis = joint.element.find(tag)
    dynamics = None if axis is None else axis.find("dynamics")
    if dynamics is None:
        return None
    found = JointPassive(
        value_of(dynamics, "damping", 0.0),
        value_of(dynamics, "friction", 0.0),
        value_of(dynamics, "spring_stiffness", 0.0),
        value_of(dynamics, "spring_reference", 0.0),
    )
    return found if found != JointPassive(rest=found.rest) else None
