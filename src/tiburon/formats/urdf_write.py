"""Writer of URDF files, which reports what the format cannot represent.

Values are read back to the last bit, except rotations, which are converted to three angles and
are exact to about 1e-16. Frames become massless links.

URDF joints are revolute, prismatic, planar, fixed and floating. A universal or cylindrical joint is
exactly two of these with a massless link between, a screw is exactly a revolute and a prismatic
joint that mimics it; a spherical joint becomes three revolute joints with the same motion in other
coordinates.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.save import SavedMeshes
from tiburon.formats.urdf_read import ROOT_JOINT, UNLIMITED
from tiburon.model.body import (
    WORLD,
    Body,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    MeshShape,
    Shape,
    SphereShape,
)
from tiburon.model.closure import Closure, LoopClosure
from tiburon.model.contact_kinds import ContactMaterial
from tiburon.model.inertia import Inertia
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
from tiburon.model.joints.joint import PerDof
from tiburon.model.model import Model
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\n": "&#10;",
    "\r": "&#13;",
    "\t": "&#9;",
}


class XmlText:
    """Builder of the text of an XML file."""

    def __init__(self, file: str) -> None:
        """Start a file.

        Args:
            file: Name of the file, for messages.
        """
        self._file = file
        self._lines = ['<?xml version="1.0" encoding="utf-8"?>']
        self._open: list[str] = []

    def comment(self, text: str) -> None:
        """Add a comment; pairs of dashes, which would end it, are separated."""
        plain = self._checked(text).replace("--", "- -").strip()
        # a final dash would join the closing ones
        self._line(f"<!-- {plain} -->")

    def start(self, tag: str, /, **attributes: str | float) -> None:
        """Open an element with children."""
        self._line(f"<{tag}{self._written(attributes)}>")
        self._open.append(tag)

    def end(self) -> None:
        """Close the innermost open element."""
        tag = self._open.pop()
        self._line(f"</{tag}>")

    def leaf(self, tag: str, text: str = "", /, **attributes: str | float) -> None:
        """Add an element without children."""
        head = f"{tag}{self._written(attributes)}"
        body = self._escaped(text)
        self._line(f"<{head}>{body}</{tag}>" if body else f"<{head}/>")

    def text(self) -> str:
        """Return the file."""
        return "\n".join(self._lines) + "\n"

    def _line(self, text: str) -> None:
        self._lines.append("  " * len(self._open) + text)

    def _written(self, attributes: Mapping[str, str | float]) -> str:
        return "".join(
            f' {name}="{self._escaped(x) if isinstance(x, str) else repr(float(x))}"'
            for name, x in attributes.items()
        )

    def _escaped(self, text: str) -> str:
        return "".join(_ESCAPES.get(c, c) for c in self._checked(text))

    def _checked(self, text: str) -> str:
        found = _FORBIDDEN.search(text)
        if found is not None:
            raise ModelFileError(
                self._file,
                f"XML does not permit the character {found.group()!r} of {text[:40]!r}; rename it",
            )
        return text


@dataclass(frozen=True, slots=True)
class MimicOf:
    """Leader of a mimic joint."""

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
    tie: MimicOf | None = None


def elementary_joints(joint: Joint, losses: list[str]) -> list[Elementary]:
    """Return the chain of URDF joints that is equivalent to a joint, from parent to body.

    Args:
        joint: Any joint.
        losses: Collects sentences about properties that are lost.

    Raises:
        ModelError: If no URDF joints are equivalent.
    """
    element = f"joint {joint.name!r}"
    if any(joint.armatures):
        losses.append(f"{element}: its armature {joint.armature} was left out")
    if joint.passive is not None and _any(joint.passive.stiffness):
        losses.append(f"{element}: its spring of stiffness {joint.passive.stiffness} was left out")
    found = _chain(joint, losses)
    if found is None:
        raise ModelError(
            f"{element}: URDF has no equivalent of a {joint.kind} joint; save the robot as .toml",
            name=joint.name,
        )
    return found


def _chain(joint: Joint, losses: list[str]) -> list[Elementary] | None:
    """Return the equivalent joints, or None."""
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
        tie = MimicOf(joint.leader, joint.ratio, joint.offset + moves.offset)
        return _axial(moves, name, pose, tie, joint)
    if isinstance(joint, Universal):
        first, second = joint.q_names()
        losses.append(_as_chain(joint, "two revolute joints"))
        parts = [
            Elementary(first, "continuous", pose, joint.axis),
            Elementary(second, "continuous", axis=joint.second_axis),
        ]
    elif isinstance(joint, Cylindrical):
        first, second = joint.q_names()
        losses.append(_as_chain(joint, "a revolute and a prismatic joint"))
        parts = [
            Elementary(first, "continuous", pose, joint.axis),
            Elementary(second, "prismatic", axis=joint.axis),
        ]
    elif isinstance(joint, Spherical):
        losses.append(
            _as_chain(joint, "three revolute joints")
            + ", whose angles replace its quaternion and are singular at a right angle of the "
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
    joint: AxialJoint, name: str, pose: Pose, tie: MimicOf | None, data: Joint
) -> list[Elementary]:
    """Return a revolute, prismatic or screw joint, with an independent offset in its pose."""
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
            follows = MimicOf(name, joint.pitch, lead)
        else:
            follows = MimicOf(tie.leader, joint.pitch * tie.ratio, lead + joint.pitch * tie.offset)
        return [turn, Elementary(f"{name}.slide", "prismatic", axis=joint.axis, tie=follows)]
    return []


def _with_data(part: Elementary, joint: Joint, number: int) -> Elementary:
    """Return a joint with limits and friction of one degree of freedom."""
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


def _of(value: PerDof, number: int) -> float:
    return value[number] if isinstance(value, tuple) else value


def _any(value: PerDof) -> bool:
    return any(value) if isinstance(value, tuple) else value != 0.0


def _along(axis: Sequence[float], length: float) -> Vec3:
    x, y, z = axis
    return (x * length, y * length, z * length)


def write_urdf(
    model: Model, path: Path, meshes: SavedMeshes | None = None
) -> tuple[str, tuple[str, ...]]:
    """Format a robot as URDF.

    Args:
        model: The robot.
        path: Path of the file; mesh names are relative to its folder.
        meshes: Names the meshes; by default they are not copied.

    Returns:
        The text, and sentences about what it cannot represent.

    Raises:
        ModelFileError: If a joint has no equivalent.
    """
    named = SavedMeshes(Path(path)) if meshes is None else meshes
    writer = _Writer(model, Path(path), named)
    try:
        return writer.write(), (*writer.losses, *named.sentences)
    except ModelError as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(path, str(error), name=error.name) from error


class _Writer:
    """Text and losses of one file."""

    def __init__(self, model: Model, path: Path, meshes: SavedMeshes) -> None:
        self.model = model
        self.meshes = meshes
        self.xml = XmlText(str(path))
        self.losses: list[str] = []
        self._link_names = {WORLD, *model.body_names, *(f.name for f in model.frames)}
        self._joint_names = set(model.joint_names)

    def write(self) -> str:
        xml, model = self.xml, self.model
        if model.about:
            xml.comment(model.about)
        xml.start("robot", name=model.name)
        rooted = self._is_rooted()
        if not rooted:
            xml.leaf("link", name=WORLD)
        for body in model.bodies:
            if rooted and body.parent == WORLD:
                self._link(body)
                continue
            chain = elementary_joints(body.joint, self.losses)
            parent = body.parent
            for part in chain[:-1]:
                between = self._unused(f"{body.name}.{part.name}", self._link_names)
                xml.leaf("link", name=between)
                self._joint(part, parent, between)
                parent = between
            self._link(body)
            self._joint(chain[-1], parent, body.name)
        for body in model.bodies:
            self._surface(body)
        for frame in model.frames:
            xml.leaf("link", name=frame.name)
            name = self._unused(f"{frame.name}_joint", self._joint_names)
            self._joint(Elementary(name, "fixed", frame.pose), frame.body, frame.name)
        self._loops(model.loops)
        self._actuators()
        xml.end()
        self._count_losses()
        return xml.text()

    def _is_rooted(self) -> bool:
        """Return whether a single fixed body can be the root link of the file."""
        model = self.model
        roots = [body for body in model.bodies if body.parent == WORLD]
        on_world = [frame.body for frame in model.frames]
        for loop in model.loops:
            if isinstance(loop, LoopClosure):
                on_world += [loop.first, loop.second]
        return (
            len(roots) == 1
            and isinstance(roots[0].joint, Fixed)
            and roots[0].joint.name == ROOT_JOINT
            and roots[0].joint.pose == Pose()
            and WORLD not in on_world
        )

    def _link(self, body: Body) -> None:
        xml = self.xml
        solid = body.inertia != Inertia()
        if not solid and not body.shapes:
            xml.leaf("link", name=body.name)
            return
        xml.start("link", name=body.name)
        if solid:
            inertia = body.inertia
            xml.start("inertial")
            xml.leaf("origin", xyz=_numbers(inertia.com), rpy="0 0 0")
            xml.leaf("mass", value=inertia.mass)
            keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
            xml.leaf("inertia", **dict(zip(keys, inertia.tensor, strict=True)))
            xml.end()
        for shape in body.shapes:
            self._shape(shape, body.name)
        xml.end()

    def _surface(self, body: Body) -> None:
        """Write the friction of a body as Gazebo reads it: one pair of coefficients per link."""
        shapes = [shape for shape in body.shapes if shape.role in ("collision", "both")]
        materials = list(dict.fromkeys(s.material for s in shapes if s.material is not None))
        if not materials:
            return
        kept = min(materials, key=lambda material: material.static_friction)
        friction = repr(kept.static_friction)
        self.xml.start("gazebo", reference=body.name)
        self.xml.leaf("mu1", friction)
        self.xml.leaf("mu2", friction)
        self.xml.end()
        if len(materials) > 1 or kept != ContactMaterial(kept.static_friction):
            self.losses.append(
                f"body {body.name!r}: of its surfaces only the static friction {friction} was "
                "kept, for the whole body"
            )

    def _shape(self, shape: Shape, body: str) -> None:
        xml = self.xml
        solid = shape.geometry
        if not isinstance(solid, (BoxShape, SphereShape, CylinderShape, CapsuleShape, MeshShape)):
            kind = type(solid).__name__.removesuffix("Shape").lower()
            self.losses.append(f"body {body!r}: a shape of kind {kind} was left out")
            return
        if getattr(solid, "convex", False) and shape.role != "visual":
            self.losses.append(f"body {body!r}: that a mesh touches by its hull was left out")
        for role in ("visual", "collision") if shape.role == "both" else (shape.role,):
            xml.start(role, **({"name": shape.name} if shape.name else {}))
            self._origin(shape.pose)
            xml.start("geometry")
            if isinstance(solid, BoxShape):
                xml.leaf("box", size=_numbers(solid.size))
            elif isinstance(solid, SphereShape):
                xml.leaf("sphere", radius=solid.radius)
            elif isinstance(solid, CylinderShape):
                xml.leaf("cylinder", radius=solid.radius, length=solid.length)
            elif isinstance(solid, CapsuleShape):
                xml.leaf("capsule", radius=solid.radius, length=solid.length)
            else:
                xml.leaf("mesh", filename=self.meshes.name(solid.path), scale=_numbers(solid.scale))
            xml.end()
            if shape.color is not None and role == "visual":
                xml.start("material", name="rgba " + _numbers(shape.color))
                xml.leaf("color", rgba=_numbers(shape.color))
                xml.end()
            xml.end()

    def _joint(self, part: Elementary, parent: str, child: str) -> None:
        xml = self.xml
        xml.start("joint", name=part.name, type=part.kind)
        self._origin(part.pose)
        xml.leaf("parent", link=parent)
        xml.leaf("child", link=child)
        if part.axis is not None:
            xml.leaf("axis", xyz=_numbers(part.axis))
        limits: dict[str, str | float] = {}
        if part.kind in ("revolute", "prismatic"):
            limits = {"lower": _limit(part.lower), "upper": _limit(part.upper)}
        if limits or math.isfinite(part.velocity) or math.isfinite(part.force):
            xml.leaf("limit", **limits, effort=_limit(part.force), velocity=_limit(part.velocity))
        if part.damping or part.friction:
            xml.leaf("dynamics", damping=part.damping, friction=part.friction)
        if part.tie is not None:
            tie = part.tie
            xml.leaf("mimic", joint=tie.leader, multiplier=tie.ratio, offset=tie.offset)
        xml.end()

    def _origin(self, pose: Pose) -> None:
        if pose != Pose():
            self.xml.leaf(
                "origin", xyz=_numbers(pose.translation), rpy=_numbers(roll_pitch_yaw(pose))
            )

    def _loops(self, loops: Iterable[Closure]) -> None:
        """Write joints that close loops, in the style of URDF+."""
        xml = self.xml
        for loop in loops:
            joint = loop.joint if isinstance(loop, LoopClosure) else None
            if not isinstance(joint, (Revolute, Prismatic, Fixed, Planar, Spherical)):
                self.losses.append(f"loop {loop.name!r}: URDF cannot express it; it was left out")
                continue
            assert isinstance(loop, LoopClosure)
            pose = joint.pose
            if isinstance(joint, (Revolute, Prismatic)) and joint.offset:
                pose = elementary_joints(joint, [])[0].pose
            xml.start("loop", name=loop.name, type=joint.kind)
            for side, link, place in [
                ("predecessor", loop.first, pose),
                ("successor", loop.second, loop.second_pose),
            ]:
                xml.start(side, link=link)
                self._origin(place)
                xml.end()
            if isinstance(joint, (Revolute, Prismatic, Planar)):
                xml.leaf("axis", xyz=_numbers(joint.axis))
            xml.end()

    def _actuators(self) -> None:
        """Write actuators as simple transmissions."""
        xml = self.xml
        for actuator in self.model.actuators:
            xml.start("transmission", name=f"{actuator.name}_transmission")
            xml.leaf("type", "transmission_interface/SimpleTransmission")
            xml.leaf("joint", name=actuator.joint)
            xml.start("actuator", name=actuator.name)
            xml.leaf("mechanicalReduction", repr(actuator.ratio))
            xml.end()
            xml.end()
            plain = type(actuator)(actuator.name, actuator.joint, actuator.ratio)
            if actuator != plain:
                self.losses.append(
                    f"actuator {actuator.name!r}: only its ratio was kept, not its limits, rotor "
                    "and electrics"
                )

    def _count_losses(self) -> None:
        """List kinds of elements that URDF cannot represent."""
        model = self.model
        submerged = [body.name for body in model.bodies if body.fluid is not None]
        for words, names in [
            ("hydrodynamic coefficients", submerged),
            ("gravity compensation", [b.name for b in model.bodies if b.gravity_compensation]),
            ("thrusters", [part.name for part in model.thrusters]),
            ("contact points", [part.name for part in model.contacts]),
            ("contact pairs", [part.name for part in model.contact_pairs]),
            ("springs between points", [part.name for part in model.springs]),
            ("hydraulic cylinders", [part.name for part in model.cylinders]),
            ("cables", [part.name for part in model.cables]),
            ("named configurations", list(model.poses)),
        ]:
            if names:
                listed = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
                self.losses.append(f"{words} were left out: {listed}")

    def _unused(self, name: str, taken: set[str]) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name


def roll_pitch_yaw(pose: Pose) -> tuple[float, float, float]:
    """Return the roll, pitch and yaw of a rotation, also at a pitch of +-pi/2.

    R = Rz(yaw) Ry(pitch) Rx(roll). Yaw and pitch are computed from R Rx(-roll), so that they
    compensate errors of the roll where it is ill-conditioned.
    """
    R = pose.rotation
    roll = math.atan2(R[2][1], R[2][2])
    c, s = math.cos(roll), math.sin(roll)
    second = [c * row[1] - s * row[2] for row in R]
    third = s * R[2][1] + c * R[2][2]
    return roll, math.atan2(-R[2][0], third), math.atan2(-second[0], second[1])


def _numbers(values: Iterable[float]) -> str:
    return " ".join(repr(float(x)) for x in values)


def _limit(value: float) -> float:
    """Return a finite value for a limit, which the format requires."""
    return value if math.isfinite(value) else math.copysign(UNLIMITED, value)
