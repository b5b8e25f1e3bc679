"""SDF files: the Simulation Description Format of Gazebo.

Every link becomes a body of the same name, links of nested models under names such as
``arm::hand``. A revolute joint whose frame is not on the child link's own axis gets a massless
body at the joint frame, named after the joint, to which the link is fixed; the link keeps its
frame and parameters. The joints of a file may form any graph: a spanning tree becomes the model's
tree, the other joints close loops. Links without a joint float, as the format specifies; the
model's pose is then the named configuration "initial".

Nested and included models are flattened into one list of links and joints. Frames keep their full
names: ``arm::hand`` is the link "hand" of the model "arm" nested in the top one. The frame of a
model is ``arm::__model__``, that of the top model ``__model__``.
"""

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.errors import ModelError, nearest_name, spelling_hint
from tiburon.formats.lenient import Findings, lenient_body, lenient_model
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.surface import coefficient, surface_material
from tiburon.formats.urdf_read import ROOT_JOINT, UNLIMITED, Mimic, read_shapes, unit
from tiburon.formats.xml_tree import XmlElement, parse_xml
from tiburon.model.body import (
    WORLD,
    Body,
    BoxShape,
    CapsuleShape,
    ContactPair,
    CylinderShape,
    EllipsoidShape,
    Frame,
    Geometry,
    MeshShape,
    PlaneShape,
    Shape,
    SphereShape,
)
from tiburon.model.body_fluid import BodyFluid, added_mass_from
from tiburon.model.closure import Closure, JointCoupling, LoopClosure
from tiburon.model.contact_kinds import ContactMaterial
from tiburon.model.inertia import Inertia
from tiburon.model.joints import (
    Coupled,
    Fixed,
    Free,
    Joint,
    Prismatic,
    Revolute,
    Screw,
    Spherical,
    Universal,
)
from tiburon.model.joints.axial import AxialJoint
from tiburon.model.joints.joint import JointLimits, JointPassive
from tiburon.model.model import Model
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3
from tiburon.spatial import matrix_to_quaternion

MODEL = "__model__"
"""Name of a model's own frame within the model."""

MAX_SEARCH = 1000
"""Most names searched for the nearest match; frames between two checks of the time."""

SCOPE = "::"
"""Separator between the names of a model and of its elements."""


@dataclass(frozen=True, slots=True)
class SdfFrame:
    """A frame of the file."""

    element: XmlElement
    pose: Pose
    """Pose in `relative_to`."""

    relative_to: str
    """Full name of another frame."""

    attached_to: str
    """Full name of the link that carries this frame, or of a frame on it."""

    placement: str = ""
    """For a model: full name of the frame inside it that `pose` places, if not its own."""


class SdfFrames:
    """All frames of a file and their poses in the zero configuration."""

    def __init__(self, budget: Budget) -> None:
        """Start with the top model's own frame.

        Args:
            budget: Time and size limits.
        """
        self._budget = budget
        self._frames: dict[str, SdfFrame] = {}
        self.top = Pose()
        """Pose of the top model's own frame in the world."""
        self._links: set[str] = set()
        self.canonical = ""
        """Full name of the link that carries the top model's own frame."""

    def add(self, name: str, frame: SdfFrame, *, link: bool = False) -> None:
        """Add a frame under its full name."""
        if name in self._frames or name == MODEL:
            frame.element.fail(
                f"the name {name!r} is used twice among links, joints, frames and models; rename "
                "one of them"
            )
        self._frames[name] = frame
        if link:
            self._links.add(name)
            self._budget.check_links(len(self._links))

    def resolve(self, whole: str, element: XmlElement) -> str:
        """Resolve a name, written with the scope of its model; a model's means its own frame."""
        for candidate in (whole, whole + SCOPE + MODEL):
            if candidate in self._frames or candidate == MODEL:
                return candidate
        near = nearest_name(whole, list(self._frames)[:MAX_SEARCH])
        hint = f"did you mean {near!r}?" if near else "add it, or correct the name"
        element.fail(f"unknown link or frame {whole!r}; {hint}")

    def relative(self, name: str, to: str) -> Pose:
        """Return the pose of a frame in another one, in the zero configuration.

        Only the poses between the two are multiplied, so that a pose given in the file is returned
        unchanged.

        Args:
            name: Full name of a frame, or the world.
            to: Likewise.
        """
        # walk up from both frames until one meets the path of the other
        paths = (self._path(name), self._path(to))
        found: tuple[dict[str, Pose], dict[str, Pose]] = ({}, {})
        poses = [Pose(), Pose()]
        while True:
            for side in (0, 1):
                passed, step = next(paths[side], (WORLD, Pose()))
                found[side][passed] = poses[side]
                poses[side] = step @ poses[side]
                if passed in found[1 - side]:
                    return found[1][passed].inverse() @ found[0][passed]

    def _path(self, name: str) -> Iterator[tuple[str, Pose]]:
        """Yield the frames from a frame to the world, each with its pose in the next."""
        passed: set[str] = set()
        while name != WORLD:
            if name in passed:
                self._frames[name].element.fail(
                    "its pose is relative to itself through others; place one of them "
                    "relative to the model"
                )
            passed.add(name)
            if len(passed) % MAX_SEARCH == 0:
                self._budget.check_time()
            if name == MODEL:
                yield name, self.top
                name = WORLD
                continue
            frame = self._frames[name]
            own = frame.pose
            if frame.placement:
                own = own @ self.inside(name, frame.placement).inverse()
            yield name, own
            name = self.resolve(frame.relative_to, frame.element)
        yield WORLD, Pose()

    def inside(self, model: str, frame: str) -> Pose:
        """Return the pose of a frame of a nested model in that model's own frame."""
        element = self._frames[model].element
        pose = Pose()
        current = self.resolve(frame, element)
        passed: set[str] = set()
        while current != model:
            if current in passed or current == MODEL:
                element.fail(
                    f"the placement frame {frame!r} is not fixed to the model; choose another"
                )
            passed.add(current)
            between = self._frames[current]
            pose = between.pose @ pose
            current = self.resolve(between.relative_to, between.element)
        return pose

    def link_of(self, name: str, element: XmlElement) -> str:
        """Return the link that carries a frame."""
        passed: set[str] = set()
        while name not in self._links:
            if name in passed or name == MODEL:
                if name == MODEL and self.canonical:
                    return self.canonical
                element.fail(
                    f"the frame {name!r} is attached to no link; attach it to one with attached_to"
                )
            passed.add(name)
            name = self.resolve(self._frames[name].attached_to, element)
        return name


def read_pose(element: XmlElement | None) -> Pose:
    """Return the <pose> inside an element, identity by default."""
    pose = None if element is None else element.find("pose")
    if pose is None or not pose.text.strip():
        return Pose()
    if pose.attributes.get("rotation_format", "euler_rpy") == "quat_xyzw":
        x, y, z, qx, qy, qz, qw = pose.parse(pose.text, 7, "pose")
        try:
            return Pose.from_quaternion((qw, qx, qy, qz), (x, y, z))
        except ModelError as error:
            pose.blame(error)
    x, y, z, *rpy = pose.parse(pose.text, 6, "pose")
    if pose.attributes.get("degrees", "false").strip() in ("true", "1"):
        rpy = [0.017453292519943295 * angle for angle in rpy]
    if not any(rpy):
        return Pose(translation=(x, y, z))
    return Pose.from_rpy(rpy, (x, y, z))


def pose_reference(element: XmlElement) -> str:
    """Return the name of the frame that the <pose> of an element is relative to, or ""."""
    pose = element.find("pose")
    if pose is None:
        return ""
    return (pose.attributes.get("relative_to") or pose.attributes.get("frame") or "").strip()


ADDED_MASS = (
    *("xx", "xy", "xz", "xp", "xq", "xr"),
    *("yy", "yz", "yp", "yq", "yr"),
    *("zz", "zp", "zq", "zr"),
    *("pp", "pq", "pr"),
    *("qq", "qr"),
    "rr",
)
"""Entries of <fluid_added_mass>, the upper triangle row by row, linear motion (x, y, z) before
rotation (p, q, r)."""


def value_of(element: XmlElement | None, tag: str, default: float) -> float:
    """Return the value of a child element, or the format's default."""
    child = None if element is None else element.find(tag)
    if child is None or not child.text.strip():
        return default
    (value,) = child.parse(child.text, 1, tag)
    return value


def read_inertia(link: XmlElement, findings: Findings) -> Inertia:
    """Return the inertia of a link in link axes; 1 kg and 1 kg m^2 by default.

    These are the defaults of the format and of simulators.
    """
    inertial = link.find("inertial")
    if inertial is None:
        findings.add(
            f"{link.describe()}: no <inertial>; the format's default of 1 kg and 1 kg m^2 is used",
            link.line,
        )
    entries = None if inertial is None else inertial.find("inertia")
    xx, yy, zz = (value_of(entries, tag, 1.0) for tag in ("ixx", "iyy", "izz"))
    xy, xz, yz = (value_of(entries, tag, 0.0) for tag in ("ixy", "ixz", "iyz"))
    inertia = Inertia(value_of(inertial, "mass", 1.0), tensor=(xx, xy, xz, yy, yz, zz))
    pose = read_pose(inertial)
    return inertia if pose == Pose() else inertia.moved(pose)


def is_automatic(link: XmlElement) -> bool:
    """Return whether a link's inertia is to be computed from its collision shapes."""
    inertial = link.find("inertial")
    return inertial is not None and inertial.attributes.get("auto", "").strip() in ("true", "1")


def read_fluid(link: XmlElement) -> BodyFluid | None:
    """Return the added mass of a link, if any.

    The file has 21 coefficients in link axes about the link's origin, linear motion first, wherever
    <inertial><pose> puts the center of mass: Gazebo adds them to the link's spatial inertia there.
    """
    inertial = link.find("inertial")
    added = None if inertial is None else inertial.find("fluid_added_mass")
    if added is None:
        return None
    coefficients = [value_of(added, tag, 0.0) for tag in ADDED_MASS]
    if not any(coefficients):
        return None
    try:
        matrix = added_mass_from(coefficients, order="linear-first")
        rows = tuple(map(tuple, matrix.tolist()))
        # the file has no reference density: simulators use the matrix in any fluid
        return BodyFluid(added_mass=rows, reference_density=None)
    except ModelError as error:
        added.blame(error)


def _vector(element: XmlElement, tag: str, default: str) -> tuple[float, float, float]:
    child = element.find(tag)
    text = default if child is None or not child.text.strip() else child.text
    x, y, z = (child or element).parse(text, 3, tag)
    return (x, y, z)


def _upright(normal: tuple[float, float, float], solid: XmlElement) -> Pose:
    """Return the rotation that maps z to a nonzero normal."""
    x, y, z = normal
    if not any(normal):
        solid.fail("normal must have a direction, got 0 0 0; give the normal of the plane")
    across = math.hypot(x, y)
    if across == 0.0:
        return Pose() if z >= 0.0 else Pose.from_axis_angle((1.0, 0.0, 0.0), math.pi)
    return Pose.from_axis_angle((-y, x, 0.0), math.atan2(across, z))


def _read_geometry(solid: XmlElement, path: str) -> Geometry | None:
    """Return a geometry, or None if its kind is unknown."""
    if solid.tag == "mesh":
        return MeshShape(path, _vector(solid, "scale", "1 1 1"))
    if solid.tag == "box":
        return BoxShape(_vector(solid, "size", "1 1 1"))
    if solid.tag == "ellipsoid":
        return EllipsoidShape(_vector(solid, "radii", "1 1 1"))
    if solid.tag == "plane":
        return PlaneShape()
    if solid.tag == "sphere":
        return SphereShape(value_of(solid, "radius", 1.0))
    if solid.tag in ("cylinder", "capsule"):
        kind = CylinderShape if solid.tag == "cylinder" else CapsuleShape
        return kind(value_of(solid, "radius", 1.0), value_of(solid, "length", 1.0))
    return None


def _read_color(visual: XmlElement) -> tuple[float, float, float, float] | None:
    """Return the diffuse color of a visual, otherwise the ambient one."""
    material = visual.find("material")
    if material is None:
        return None
    for tag in ("diffuse", "ambient"):
        child = material.find(tag)
        if child is not None and child.text.strip():
            numbers = child.text.split()
            text = child.text if len(numbers) != 3 else f"{child.text} 1"
            r, g, b, a = (min(max(x, 0.0), 1.0) for x in child.parse(text, 4, tag))
            return (r, g, b, a)
    return None


def read_surface(collision: XmlElement, findings: Findings) -> ContactMaterial | None:
    """Return friction and restitution of a collision; None where it has no <surface>.

    Sliding friction is that of ODE, or of Bullet where the file has none of ODE; rolling friction
    is that of Bullet. A patch of radius a resists turning by 3 pi / 16 a times its coefficient
    (Gazebo).
    """
    surface = collision.find("surface")
    if surface is None:
        return None
    friction, bounce = surface.find("friction"), surface.find("bounce")
    ode = None if friction is None else friction.find("ode")
    bullet = None if friction is None else friction.find("bullet")
    mu, mu2 = (coefficient(ode, tag, findings) for tag in ("mu", "mu2"))
    if mu is None and mu2 is None:
        mu, mu2 = (coefficient(bullet, tag, findings) for tag in ("friction", "friction2"))
    torsional = None if friction is None else friction.find("torsional")
    spin = 0.0
    if torsional is not None:
        mu_t = coefficient(torsional, "coefficient", findings)
        radius = coefficient(torsional, "patch_radius", findings) or 0.0
        spin = 3.0 * math.pi / 16.0 * radius * (1.0 if mu_t is None else mu_t)
        patch = torsional.find("use_patch_radius")
        if patch is not None and patch.text.strip() in ("0", "false"):
            spin = 0.0
            findings.add(
                f"{collision.describe()}: torsional friction that grows with penetration "
                "(surface_radius) was left out; give it a patch_radius",
                torsional.line,
            )
    roll = coefficient(bullet, "rolling_friction", findings) or 0.0
    restitution = coefficient(bounce, "restitution_coefficient", findings)
    return surface_material(collision, mu, mu2, restitution, findings, (spin, roll))


ALL_BITS = 65535
"""Default of <collide_bitmask>: touches everything."""


def read_bits(link: XmlElement) -> set[int]:
    """Return the bits of a link's collisions; collisions touch where they share one."""
    found = set()
    for collision in link.all("collision"):
        surface = collision.find("surface")
        contact = None if surface is None else surface.find("contact")
        text = "" if contact is None else (contact.find("collide_bitmask") or contact).text.strip()
        try:
            found.add(int(text, 0) & ALL_BITS if text else ALL_BITS)
        except ValueError:
            found.add(ALL_BITS)
    return found


DEFAULT_DENSITY = 1000.0
"""Default density of the format [kg/m^3]: that of water."""


def solid_inertia(link: XmlElement, shapes: tuple[Shape, ...], findings: Findings) -> Inertia:
    """Return the inertia of a link's collision shapes as homogeneous solids.

    Overlapping shapes count twice, as the format specifies. The density of a collision overrides
    that of the link.
    """
    common = value_of(link.find("inertial"), "density", DEFAULT_DENSITY)
    given = {
        collision.attributes.get("name", ""): value_of(collision, "density", common)
        for collision in link.all("collision")
    }
    parts: list[Inertia] = []
    for shape in shapes:
        if shape.role != "collision":
            continue
        solid = _solid(shape.geometry, given[shape.name])
        if solid is None:
            kind = type(shape.geometry).__name__.removesuffix("Shape").lower()
            findings.add(
                f"{link.describe()}: the volume of its {kind} is unknown and does not contribute "
                "to "
                "its inertia",
                link.line,
            )
            continue
        parts.append(solid.moved(shape.pose))
    return total_inertia(parts)


def total_inertia(parts: list[Inertia]) -> Inertia:
    """Return the sum of inertias, all in the same axes."""
    mass = sum(part.mass for part in parts)
    if mass == 0.0:
        return Inertia()
    com = np.sum([part.mass * np.array(part.com) for part in parts], axis=0) / mass
    total = np.zeros((3, 3))
    for part in parts:
        r = np.array(part.com) - com
        # parallel axis theorem
        total += part.matrix + part.mass * (r @ r * np.eye(3) - np.outer(r, r))
    xx, xy, xz, yy, yz, zz = total[np.triu_indices(3)].tolist()
    x, y, z = com.tolist()
    return Inertia(mass, (x, y, z), (xx, xy, xz, yy, yz, zz))


def _solid(geometry: Geometry, density: float) -> Inertia | None:
    """Return the inertia of a solid about its own origin; None if its volume is unknown."""
    if isinstance(geometry, BoxShape):
        x, y, z = geometry.size
        return Inertia.box(density * x * y * z, geometry.size)
    if isinstance(geometry, SphereShape):
        r = geometry.radius
        return Inertia.sphere(density * 4.0 / 3.0 * math.pi * r**3, r)
    if isinstance(geometry, EllipsoidShape):
        a, b, c = geometry.radii
        m = density * 4.0 / 3.0 * math.pi * a * b * c
        xx, yy, zz = (0.2 * m * (p * p + q * q) for p, q in ((b, c), (a, c), (a, b)))
        return Inertia(m, tensor=(xx, 0.0, 0.0, yy, 0.0, zz))
    if isinstance(geometry, CylinderShape):
        r, length = geometry.radius, geometry.length
        return Inertia.cylinder(density * math.pi * r * r * length, r, length)
    if isinstance(geometry, CapsuleShape):
        return _capsule(geometry.radius, geometry.length, density)
    return None


def _capsule(r: float, length: float, density: float) -> Inertia:
    """Return the inertia of a cylinder with hemispherical ends."""
    tube = Inertia.cylinder(density * math.pi * r * r * length, r, length) if length else Inertia()
    ball = density * 4.0 / 3.0 * math.pi * r**3
    # hemisphere: 2/5 m r^2 about the axis; its center of mass is 3/8 r above its base
    reach = 0.5 * length
    across = ball * (0.4 * r * r + 0.75 * r * reach + reach * reach)
    along = 0.4 * ball * r * r
    xx, _, _, yy, _, zz = tube.tensor
    return Inertia(tube.mass + ball, tensor=(xx + across, 0.0, 0.0, yy + across, 0.0, zz + along))


JOINT_TYPES = (
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
class SdfJoint:
    """A joint of the file, with full names."""

    name: str
    scope: str
    kind: str
    element: XmlElement
    parent: str
    """Link, or the world."""

    child: str
    """Link."""

    version: tuple[int, int]
    """Format version of the file."""

    @property
    def is_cut(self) -> bool:
        """Whether the file requests that a loop be cut at this joint."""
        physics = self.element.find("physics")
        return flag_of(physics and physics.find("simbody"), "must_be_loop_joint")


def check_kind(element: XmlElement) -> str:
    """Return the type of a joint; raise if it is unknown."""
    kind = element.attribute("type")
    if kind not in JOINT_TYPES:
        element.fail(f"unknown joint type {kind!r}; {spelling_hint(kind, JOINT_TYPES)}")
    return kind


def axis_of(joint: SdfJoint, frames: SdfFrames, tag: str = "axis") -> Vec3:
    """Return a unit axis of a joint in the joint frame.

    Up to version 1.4 axes are given in the model's frame, in 1.5 and 1.6 if
    <use_parent_model_frame> is true, later in any frame named by ``expressed_in``.
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
    """Return the full name of the frame an axis is given in; None for the joint frame."""
    if xyz is not None and xyz.attributes.get("expressed_in", "").strip():
        return frames.resolve(joint.scope + xyz.attributes["expressed_in"].strip(), xyz)
    if joint.version <= (1, 4):
        return joint.scope + MODEL
    return joint.scope + MODEL if flag_of(axis, "use_parent_model_frame") else None


def read_mimic(element: XmlElement, scope: str) -> Mimic | None:
    """Return the <mimic> of the axis of a revolute or prismatic joint, if any (version 1.11)."""
    axis = element.find("axis")
    mimic = None if axis is None else axis.find("mimic")
    if mimic is None:
        return None
    ratio = value_of(mimic, "multiplier", 1.0)
    offset = value_of(mimic, "offset", 0.0) - ratio * value_of(mimic, "reference", 0.0)
    return Mimic(scope + mimic.attribute("joint"), ratio, offset, mimic)


def make_joint(
    joint: SdfJoint,
    frames: SdfFrames,
    pose: Pose,
    turn: Pose,
    mimic: Mimic | None = None,
) -> Joint:
    """Return the model joint for a joint of the file.

    Args:
        joint: Joint of the file.
        frames: Frames of the file.
        pose: Frame moved by the joint, in the parent, in the zero configuration.
        turn: Axes of the joint frame in that frame; only the rotation is used.
        mimic: Mimic coupling of the joint, if any.

    Raises:
        ModelError: If the parameters are invalid.
    """
    name = joint.name
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
    if mimic is not None:
        moves = _axial(joint, f"{name}.motion", axis())
        return Coupled(
            name,
            moves,
            mimic.leader,
            mimic.ratio,
            mimic.offset,
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
    """Return the pitch of a screw [m/rad].

    <screw_thread_pitch> is the travel per turn of a right-handed thread. The older <thread_pitch>
    is the rotation per travel [rad/m] of a left-handed one.
    """
    if element.find("screw_thread_pitch") is not None:
        return value_of(element, "screw_thread_pitch", 1.0) / (2.0 * math.pi)
    legacy = value_of(element, "thread_pitch", 1.0)
    if legacy == 0.0:
        element.fail("thread_pitch must not be zero, got 0; give the rotation per meter")
    return -1.0 / legacy


def _limits(joint: SdfJoint, tag: str) -> JointLimits | None:
    """Return the limits of an axis; values of 1e16, negative speeds and forces mean none."""
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
    """Return the limits of two axes as limits of one joint."""
    if first is None and second is None:
        return None
    a, b = first or JointLimits(), second or JointLimits()
    return JointLimits(
        *((getattr(a, key), getattr(b, key)) for key in ("lower", "upper", "velocity", "force"))
    )


def _passive(joint: SdfJoint, tag: str) -> JointPassive | None:
    """Return friction and spring of an axis, if any."""
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


EXTENSIONS = frozenset(("plugin", "sensor", "light", "actor", "gui", "scene"))
"""Elements that are skipped."""

MAX_INCLUDES = 100
"""Most included files; real robots have about a dozen."""

MAX_NESTING = 50
"""Deepest nesting of models."""


@dataclass(frozen=True, slots=True)
class _Named:
    """An element with the model that contains it."""

    name: str
    scope: str
    element: XmlElement
    version: tuple[int, int]
    meshes: MeshPaths


class SdfScope:
    """Links, joints and frames of a file, under full names."""

    def __init__(self, budget: Budget, meshes: MeshPaths, findings: Findings) -> None:
        """Start empty.

        Args:
            budget: Time and size limits.
            meshes: Finds meshes and included models.
            findings: Collects warnings.
        """
        self.budget = budget
        self.findings = findings
        self.frames = SdfFrames(budget)
        self.links: dict[str, _Named] = {}
        self.joints: list[SdfJoint] = []
        self.places: dict[str, XmlElement] = {}
        self.is_static = False
        self._meshes = meshes
        self._joint_elements: list[_Named] = []
        self._includes = 0

    def read_top(self, model: XmlElement, version: tuple[int, int]) -> None:
        """Read the top model and everything in it."""
        self.is_static = flag_of(model, "static")
        self._read(model, "", version, self._meshes, 0)
        canonical = model.attributes.get("canonical_link", "").strip()
        self.frames.canonical = canonical or next(iter(self.links), "")
        for named in self._joint_elements:
            self._read_joint(named)

    def _read(
        self, model: XmlElement, scope: str, version: tuple[int, int], meshes: MeshPaths, depth: int
    ) -> None:
        """Read the links, frames, joints and models inside a model."""
        self.budget.check_time()
        if depth > MAX_NESTING:
            model.fail(f"models may be nested {MAX_NESTING} deep, got more; flatten them")
        for child in model.children:
            if child.tag == "include":
                self._read_include(child, scope, depth)
                continue
            if child.tag not in ("link", "frame", "joint", "model"):
                continue
            name = scope + child.attribute("name")
            reference = pose_reference(child)
            if child.tag == "link":
                frame = SdfFrame(child, read_pose(child), scope + (reference or MODEL), name)
                self.frames.add(name, frame, link=True)
                self.links[name] = _Named(name, scope, child, version, meshes)
            elif child.tag == "frame":
                attached = scope + (child.attributes.get("attached_to", "").strip() or MODEL)
                relative = scope + reference if reference else attached
                self.frames.add(name, SdfFrame(child, read_pose(child), relative, attached))
                self.places[name] = child
            elif child.tag == "joint":
                end = child.need("child").text.strip()
                relative = scope + (reference or end)
                self.frames.add(name, SdfFrame(child, read_pose(child), relative, scope + end))
                self._joint_elements.append(_Named(name, scope, child, version, meshes))
            else:
                placed = child.attributes.get("placement_frame", "").strip()
                self._add_model(child, child, name, scope, placed)
                self._read(child, name + SCOPE, version, meshes, depth + 1)

    def _add_model(
        self, placing: XmlElement, model: XmlElement, name: str, scope: str, placed: str
    ) -> None:
        """Add the frame of a nested model, which is attached to its first link."""
        reference = pose_reference(placing)
        inside = name + SCOPE
        canonical = model.attributes.get("canonical_link", "").strip()
        if not canonical:
            first = next(model.all("link"), None) or next(model.all("model"), None)
            canonical = first.attributes.get("name", "") if first is not None else ""
        frame = SdfFrame(
            placing,
            read_pose(placing),
            scope + (reference or MODEL),
            inside + canonical,
            inside + placed if placed and placed != MODEL else "",
        )
        self.frames.add(inside + MODEL, frame)

    def _read_include(self, include: XmlElement, scope: str, depth: int) -> None:
        """Read a model from another file in the permitted folders."""
        self._includes += 1
        if self._includes > MAX_INCLUDES:
            include.fail(
                f"a file may include {MAX_INCLUDES} others, got more; does one include itself?"
            )
        if include.attributes.get("merge", "false").strip() in ("true", "1"):
            include.fail("merged includes are not supported; write the links in this file")
        uri = include.need("uri").text.strip()
        path = self._meshes.find_model(uri, include)
        root = parse_xml(read_bytes(Path(path)), self.budget, path, skip=EXTENSIONS)
        models = list(root.all("model"))
        if root.tag != "sdf" or len(models) != 1:
            root.fail(f"an included file must contain one <model>, got {len(models)}; correct it")
        model = models[0]
        own_name = include.find("name")
        own = own_name.text.strip() if own_name is not None else ""
        name = scope + (own or model.attribute("name"))
        placed = include.find("placement_frame")
        placement = placed.text.strip() if placed is not None else ""
        if not placement:
            placement = model.attributes.get("placement_frame", "").strip()
        # the pose of the include replaces that of the model
        placing = include if include.find("pose") is not None else model
        self._add_model(placing, model, name, scope, placement)
        meshes = self._meshes.of_included(os.path.dirname(path))
        self._read(model, name + SCOPE, read_version(root), meshes, depth + 1)

    def _read_joint(self, named: _Named) -> None:
        """Add a joint after all frames have been read."""
        element = named.element
        kind = check_kind(element)
        parent, child = (element.need(side) for side in ("parent", "child"))
        ends = []
        for end in (parent, child):
            name = end.text.strip()
            if not name:
                end.fail("expected the name of a link or frame, got none; add it")
            if name == WORLD:
                # also in nested models
                ends.append(WORLD)
                continue
            ends.append(self.frames.link_of(self.frames.resolve(named.scope + name, end), end))
        if ends[1] == WORLD:
            child.fail("the world cannot be the child of a joint; make it the parent")
        if ends[0] == ends[1]:
            element.fail(f"a joint must connect two links, got {ends[0]!r} twice; name another")
        self.joints.append(
            SdfJoint(named.name, named.scope, kind, element, ends[0], ends[1], named.version)
        )


def read_version(root: XmlElement) -> tuple[int, int]:
    """Return the format version that a file declares."""
    text = root.attribute("version")
    parts = text.split(".")
    if len(parts) > 3 or not all(p.isascii() and p.isdigit() and len(p) < 4 for p in parts):
        root.fail(f"version must be two numbers such as 1.9, got {text[:20]!r}; correct it")
    return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0


def flag_of(element: XmlElement | None, tag: str) -> bool:
    """Return whether a child element exists and is true."""
    child = None if element is None else element.find(tag)
    return child is not None and child.text.strip() in ("true", "1")


REVERSIBLE = ("revolute", "continuous", "prismatic", "screw", "fixed", "ball")
"""Joint types that can be reversed, from child to parent."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A tree joint and the links that it connects."""

    joint: SdfJoint
    parent: str
    """Link, or the world."""

    child: str
    """The moved link."""

    is_reversed: bool = False
    """Whether parent and child are exchanged."""


@dataclass(frozen=True, slots=True)
class SdfTree:
    """The spanning tree of a file."""

    roots: tuple[str, ...]
    """Links without a joint to a parent."""

    holds: tuple[Hold, ...]
    """In the order of the file's joints."""

    loops: tuple[SdfJoint, ...]
    """Joints between links that are connected already."""


def grow_tree(links: Iterable[str], joints: Sequence[SdfJoint], budget: Budget) -> SdfTree:
    """Choose the joints of the spanning tree.

    A joint moves its child, unless another joint moves the child already; if parent and child are
    not connected yet, it then moves the parent. The remaining joints close loops. Joints that the
    file marks as loop joints are considered last.
    """
    names = list(links)
    group = {name: name for name in (WORLD, *names)}

    def find(name: str) -> str:
        # representative of a connected component, with path halving
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    held: dict[str, Hold] = {}
    loops: list[SdfJoint] = []
    for joint in sorted(joints, key=lambda joint: joint.is_cut):
        first, second = find(joint.parent), find(joint.child)
        hold: Hold | None = None
        if first != second:
            if joint.child not in held:
                hold = Hold(joint, joint.parent, joint.child)
            elif joint.parent not in held and joint.parent != WORLD and joint.kind in REVERSIBLE:
                hold = Hold(joint, joint.child, joint.parent, is_reversed=True)
        if hold is None:
            loops.append(joint)
            continue
        held[hold.child] = hold
        group[second] = first
    order = {joint.name: number for number, joint in enumerate(joints)}
    holds = sorted(held.values(), key=lambda hold: order[hold.joint.name])
    _check_depth(names, held, budget)
    return SdfTree(tuple(n for n in names if n not in held), tuple(holds), tuple(loops))


def _check_depth(names: Iterable[str], held: dict[str, Hold], budget: Budget) -> None:
    depth: dict[str, int] = {WORLD: 0}
    for name in names:
        path: list[str] = []
        while name not in depth:
            path.append(name)
            if name not in held:
                break
            name = held[name].parent
        for passed in reversed(path):
            depth[passed] = depth[held[passed].parent] + 1 if passed in held else 1
            budget.check_depth(depth[passed], passed)


ROTATING = ("revolute", "continuous", "screw", "ball", "universal", "revolute2")
"""Joint types with rotation, whose axis passes through a point."""

ON_AXIS = 1e-9
"""Distance from the joint axis at which a link's origin counts as on the axis [m]: below the
precision of files, and the error in motion is no larger."""


class _Builder:
    def __init__(self, scope: SdfScope, top: XmlElement) -> None:
        self.scope = scope
        self.top = top
        self.frames = scope.frames
        placed = read_pose(top)
        if pose_reference(top) not in ("", WORLD):
            top.fail("the top model can only be placed in the world; remove relative_to")
        name = top.attributes.get("placement_frame", "").strip()
        if name:
            frame = self.frames.resolve(name, top)
            placed = placed @ self.frames.relative(frame, MODEL).inverse()
        self.frames.top = placed
        self.taken = {WORLD, *scope.links, *scope.places}

    def build(self, root_joint: Joint | None) -> Model:
        scope = self.scope
        gears = [joint for joint in scope.joints if joint.kind == "gearbox"]
        others = [joint for joint in scope.joints if joint.kind != "gearbox"]
        tree = grow_tree(scope.links, others, scope.budget)
        bodies: list[Body] = []
        poses: dict[str, dict[str, Any]] = {}
        for root in tree.roots:
            joint = self._root_joint(root, tree, root_joint)
            if isinstance(joint, Free) and joint is not root_joint:
                place = self.frames.relative(root, WORLD)
                if place != Pose():
                    quaternion = matrix_to_quaternion(place.rotation)
                    numbers = [float(x) for x in (*quaternion, *place.translation)]
                    poses.setdefault("initial", {})[joint.name] = numbers
            bodies.append(self._body(root, WORLD, joint))
        mimics = self._mimics(tree)
        for hold in tree.holds:
            scope.budget.check_time()
            bodies += self._held(hold, mimics.get(hold.joint.name))
        frames = [self._frame(name, element) for name, element in scope.places.items()]
        loops: list[Closure] = [self._loop(joint) for joint in tree.loops]
        loops += [gear for joint in gears for gear in self._gear(joint, tree)]
        return lenient_model(
            self.top.file,
            self.top.attribute("name"),
            bodies,
            frames=frames,
            loops=loops,
            contact_pairs=self._contact_pairs(bodies),
            poses=poses,
            findings=scope.findings,
        )

    def _contact_pairs(self, bodies: list[Body]) -> list[ContactPair]:
        """Return the links of different trees that do not touch: they share no bit."""
        roots: dict[str, str] = {}
        for body in bodies:
            roots[body.name] = roots.get(body.parent, body.name)
        bits = {
            name: found
            for name in roots
            if name in self.scope.links and (found := read_bits(self.scope.links[name].element))
        }
        if all(found == {ALL_BITS} for found in bits.values()):
            return []
        return [
            ContactPair(a, b, touches=False)
            for a, b in itertools.combinations(bits, 2)
            if roots[a] != roots[b] and not any(x & y for x in bits[a] for y in bits[b])
        ]

    def _root_joint(self, root: str, tree: SdfTree, root_joint: Joint | None) -> Joint:
        if root_joint is not None:
            if len(tree.roots) != 1:
                self.top.fail(
                    "a root joint requires a single root link, got "
                    f"{len(tree.roots)}; leave root_joint out"
                )
            return root_joint
        used = {joint.name for joint in self.scope.joints}
        name = ROOT_JOINT if len(tree.roots) == 1 else f"{root}.{ROOT_JOINT}"
        while name in used:
            name += "_"
        if self.scope.is_static:
            return Fixed(name, pose=self.frames.relative(root, WORLD))
        return Free(name)

    def _body(self, link: str, parent: str, joint: Joint) -> Body:
        self.scope.budget.check_time()
        named = self.scope.links[link]
        element, budget, findings = named.element, self.scope.budget, self.scope.findings

        def read(part: XmlElement, solid: XmlElement) -> Shape | None:
            pose, reference = read_pose(part), pose_reference(part)
            if reference:
                frame = self.frames.resolve(named.scope + reference, part)
                pose = self.frames.relative(frame, link) @ pose
            if solid.tag == "plane":
                pose = pose @ _upright(_vector(solid, "normal", "0 0 1"), solid)
            path = ""
            if solid.tag == "mesh":
                path = named.meshes.find(solid.need("uri").text.strip(), solid)
            geometry = _read_geometry(solid, path)
            color = _read_color(part) if part.tag == "visual" else None
            name = part.attributes.get("name", "")
            if geometry is None:
                return None
            material = read_surface(part, findings) if part.tag == "collision" else None
            return Shape(geometry, pose, part.tag, color, name, material)

        shapes = read_shapes(element, budget, findings, read, ignore="empty")
        if is_automatic(element):
            inertia = solid_inertia(element, shapes, findings)
        else:
            inertia = read_inertia(element, findings)
        fluid = read_fluid(element)
        return lenient_body(element, link, parent, joint, inertia, shapes, fluid, findings=findings)

    def _held(self, hold: Hold, mimic: Mimic | None) -> list[Body]:
        """Return the body of a link, with a massless one at the joint if their frames differ."""
        joint = hold.joint
        turn = self.frames.relative(joint.name, hold.child)
        try:
            if not self._apart(joint, turn):
                pose = self.frames.relative(hold.child, hold.parent)
                made = make_joint(joint, self.frames, pose, turn, mimic)
                return [self._body(hold.child, hold.parent, _oriented(made, hold))]
            pose = self.frames.relative(joint.name, hold.parent)
            made = make_joint(joint, self.frames, pose, Pose(), mimic)
            name = joint.name
            while name in self.taken:
                name += "_joint"
            self.taken.add(name)
            between = Body(name, hold.parent, joint=_oriented(made, hold), inertia=Inertia())
        except ModelError as error:
            joint.element.blame(error)
        weld = Fixed(
            f"{joint.name}.{hold.child}", pose=self.frames.relative(hold.child, joint.name)
        )
        return [between, self._body(hold.child, name, weld)]

    def _apart(self, joint: SdfJoint, turn: Pose) -> bool:
        """Return whether the joint axis misses the link's origin."""
        if joint.kind not in ROTATING:
            return False
        p = np.array(turn.translation)
        if joint.kind in ("revolute", "continuous", "screw"):
            axis = np.array(turn.rotation) @ axis_of(joint, self.frames)
            p = p - axis * (axis @ p)
        return math.hypot(*p) > ON_AXIS

    def _frame(self, name: str, element: XmlElement) -> Frame:
        self.scope.budget.check_time()
        link = self.frames.link_of(name, element)
        try:
            return Frame(name, link, self.frames.relative(name, link))
        except ModelError as error:
            element.blame(error)

    def _loop(self, joint: SdfJoint) -> LoopClosure:
        self.scope.budget.check_time()
        first, second = (
            self.frames.relative(joint.name, end) for end in (joint.parent, joint.child)
        )
        try:
            made = make_joint(joint, self.frames, first, Pose())
            return LoopClosure(joint.name, joint.parent, joint.child, made, second)
        except ModelError as error:
            joint.element.blame(error)

    def _mimics(self, tree: SdfTree) -> dict[str, Mimic]:
        """Return the couplings of mimic joints to independent leaders."""
        written = {
            hold.joint.name: mimic
            for hold in tree.holds
            if hold.joint.kind in ("revolute", "continuous", "prismatic", "screw")
            and (mimic := read_mimic(hold.joint.element, hold.joint.scope)) is not None
        }
        free = {hold.joint.name for hold in tree.holds} - set(written)
        found: dict[str, Mimic] = {}
        for name in written:
            self.scope.budget.check_time()
            found[name] = _followed(name, written, free)
        return found

    def _gear(self, gear: SdfJoint, tree: SdfTree) -> list[JointCoupling]:
        """Return the coupling of a gearbox: angle 2 = -ratio * angle 1, from its reference body."""
        self.scope.budget.check_time()
        reference = gear.element.find("gearbox_reference_body")
        name = "" if reference is None else gear.scope + reference.text.strip()
        ratio = value_of(gear.element, "gearbox_ratio", 1.0)
        ends = []
        for link, tag in ((gear.parent, "axis"), (gear.child, "axis2")):
            found = [
                h for h in tree.holds if {h.parent, h.child} == {name, link} and _is_hinge(h.joint)
            ]
            if not found:
                self.scope.findings.add(
                    f"{gear.element.describe()}: no revolute joint connects {link!r} to its "
                    "reference body "
                    f"{name!r}; the gear was left out",
                    gear.element.line,
                )
                return []
            ends.append((found[0], self._sense(found[0], gear, tag, name)))
        (first, sense1), (second, sense2) = ends
        factor = -ratio * sense1 / sense2
        return [JointCoupling(gear.name, second.joint.name, first.joint.name, (0.0, factor))]

    def _sense(self, hold: Hold, gear: SdfJoint, tag: str, reference: str) -> float:
        """Return the sign of a joint angle relative to the gear's, from the reference body."""
        axes = []
        for joint, which in ((hold.joint, "axis"), (gear, tag)):
            R = np.array(self.frames.relative(joint.name, MODEL).rotation)
            axes.append(R @ axis_of(joint, self.frames, which))
        sense = 1.0 if float(axes[0] @ axes[1]) >= 0.0 else -1.0
        return sense if hold.joint.parent == reference else -sense


def _is_hinge(joint: SdfJoint) -> bool:
    return joint.kind in ("revolute", "continuous")


def _oriented(joint: Joint, hold: Hold) -> Joint:
    """Return a joint, reversed if parent and child are exchanged."""
    if not hold.is_reversed:
        return joint
    if isinstance(joint, AxialJoint):
        return joint.rebased(_reversed(joint.axis), joint.offset)
    moves = getattr(joint, "moves", None)
    if isinstance(moves, AxialJoint):
        return replace(joint, moves=moves.rebased(_reversed(moves.axis), moves.offset))  # type: ignore[call-arg]
    return joint


def _reversed(axis: tuple[float, float, float]) -> tuple[float, float, float]:
    x, y, z = axis
    return (0.0 - x, 0.0 - y, 0.0 - z)


def _followed(name: str, written: Mapping[str, Mimic], free: set[str]) -> Mimic:
    """Return the coupling to an independent joint."""
    mimic = written[name]
    passed = {name}
    while mimic.leader in written:
        if mimic.leader in passed:
            written[name].element.fail(
                f"joint {name!r} mimics itself through {mimic.leader!r}; make one of them "
                "independent"
            )
        passed.add(mimic.leader)
        between = written[mimic.leader]
        mimic = replace(
            mimic,
            leader=between.leader,
            ratio=mimic.ratio * between.ratio,
            offset=mimic.offset + mimic.ratio * between.offset,
        )
    if mimic.leader not in free:
        mimic.element.fail(
            f"joint {name!r}: mimics {mimic.leader!r}, which is not a joint of the robot's tree; "
            "correct the name"
        )
    return mimic


def read_sdf(
    path: str | Path,
    *,
    package_paths: Iterable[str | Path] = (),
    root: str | Path | None = None,
    root_joint: Joint | None = None,
) -> Model:
    """Read a robot from an SDF file.

    Args:
        path: File with one <model>, or a <world> with one non-static model.
        package_paths: Folders that hold models, or are models, for meshes and included models named
            ``model://name/...``; in addition to the folder of the file.
        root: Folder above the file up to which it may name files; that of its package by default.
        root_joint: Joint between world and root link; by default free, or fixed in a static
            model.

    Raises:
        ModelFileError: If the file is invalid; the message names file, line and element.
    """
    budget = Budget(str(path))
    document = parse_xml(read_bytes(Path(path)), budget, skip=EXTENSIONS)
    meshes = MeshPaths(Path(path).parent, package_paths, root)
    findings = Findings(str(path))
    scope = SdfScope(budget, meshes, findings)
    model_element, version = _choose_model(document, findings)
    scope.read_top(model_element, version)
    if not scope.links:
        model_element.fail(
            "a robot needs at least one <link>, got none; check that the file is complete"
        )
    model = _Builder(scope, model_element).build(root_joint)
    findings.warn()
    return model


def _choose_model(root: XmlElement, findings: Findings) -> tuple[XmlElement, tuple[int, int]]:
    """Return the model element of a file and its format version."""
    if root.tag not in ("sdf", "gazebo"):
        root.fail(f"expected <sdf> as the outermost element, got <{root.tag}>; this is not SDF")
    version = read_version(root)
    worlds = list(root.all("world"))
    holders = [root, *worlds]
    models = [m for holder in holders for m in holder.all("model")]
    for holder in worlds:
        for include in holder.all("include"):
            findings.add("models included in a world are not supported", include.line)
    moving = [m for m in models if not flag_of(m, "static")]
    chosen = moving if len(models) > 1 else models
    if len(chosen) != 1:
        names = ", ".join(repr(m.attributes.get("name", "?")) for m in chosen[:6]) or "none"
        root.fail(
            f"a robot file must contain one non-static <model>, got {len(chosen)} ({names}); "
            "use one file for each"
        )
    for other in models:
        if other is not chosen[0]:
            findings.add(f"{other.describe()}: is static and was left out", other.line)
    return chosen[0], version
