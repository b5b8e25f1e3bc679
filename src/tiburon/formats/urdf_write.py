"""Writing URDF, and saying what it cannot say.

Numbers are written so that they are read again to the last bit, but for rotations, which pass
through three angles and come back to about 1e-16. Frames become links without mass.
"""

import math
from collections.abc import Iterable
from pathlib import Path

from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.saved_meshes import SavedMeshes
from tiburon.formats.urdf_joint_write import Elementary, elementary_joints
from tiburon.formats.urdf_joints import ROOT_JOINT, UNLIMITED
from tiburon.formats.xml_text import XmlText
from tiburon.model.body import WORLD, Body
from tiburon.model.closure import Closure, LoopClosure
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Fixed, Planar, Prismatic, Revolute, Spherical
from tiburon.model.model import Model
from tiburon.model.pose import Pose
from tiburon.model.shape import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    MeshShape,
    Shape,
    SphereShape,
)


def write_urdf(
    model: Model, path: Path, meshes: SavedMeshes | None = None
) -> tuple[str, tuple[str, ...]]:
    """Write a robot as URDF.

    Args:
        model: The robot.
        path: The file it will be; meshes are named from its folder.
        meshes: Names the meshes; by default they stay where they are.

    Returns:
        The text, and sentences about what it could not express.

    Raises:
        ModelFileError: If a joint moves as no URDF joint can.
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
    """Collects the text and the losses of one file."""

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
        """Return whether one body stands still in the world and can be the file's root link."""
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

    def _shape(self, shape: Shape, body: str) -> None:
        xml = self.xml
        solid = shape.geometry
        if not isinstance(solid, (BoxShape, SphereShape, CylinderShape, CapsuleShape, MeshShape)):
            kind = type(solid).__name__.removesuffix("Shape").lower()
            self.losses.append(f"body {body!r}: a shape of the kind {kind} was left out")
            return
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
                self.losses.append(f"loop {loop.name!r}: URDF cannot say it; it was left out")
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
        """Write motors as simple transmissions."""
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
        """Note whole kinds of parts that URDF has no words for."""
        model = self.model
        submerged = [body.name for body in model.bodies if body.fluid is not None]
        for words, names in [
            ("numbers for water", submerged),
            ("thrusters", [part.name for part in model.thrusters]),
            ("contact points", [part.name for part in model.contacts]),
            ("springs between points", [part.name for part in model.springs]),
            ("hydraulic cylinders", [part.name for part in model.cylinders]),
            ("named positions", list(model.poses)),
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
    """Return angles about fixed axes x, y, z that give a rotation, also at a pitch of +-pi/2.

    R = Rz(yaw) Ry(pitch) Rx(roll). Yaw and pitch are taken from R Rx(-roll), so that whatever the
    roll lacks in accuracy where it is ill defined, the other two make up for.
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
    """Return a number for a limit, which the format demands where there is none, too."""
    return value if math.isfinite(value) else math.copysign(UNLIMITED, value)
