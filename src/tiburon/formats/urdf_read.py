"""URDF files: the Unified Robot Description Format of ROS, with the loops of URDF+.

Every link becomes a body, including links on fixed joints, so that every link name is a frame and
no inertia is transformed. Bodies follow the order of the file's <joint> elements, after the root
link; so do q and v. Mimic joints are eliminated exactly (`Coupled`). The root link is fixed to the
world unless the caller passes a root joint; a root link named "world" is the world itself.

A <coupling> of URDF+ names a predecessor link, a successor link and a ratio: with the joint
positions summed from their common ancestor, ratio times the predecessor's sum equals the
successor's (Chignoli et al. 2024).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tiburon.errors import ModelError, ModelFileError, nearest_name, spelling_hint
from tiburon.formats.lenient import MAX_SHOWN, Findings, lenient_body, lenient_model
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.surface import coefficient, surface_material
from tiburon.formats.xml_tree import XmlElement, parse_xml
from tiburon.model.actuator import Actuator
from tiburon.model.body import (
    WORLD,
    Body,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Geometry,
    MeshShape,
    Shape,
    SphereShape,
)
from tiburon.model.closure import LoopClosure
from tiburon.model.contact_kinds import ContactMaterial
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Coupled, Fixed, Free, Joint, Planar, Prismatic, Revolute, Spherical
from tiburon.model.joints.joint import JointLimits, JointPassive
from tiburon.model.model import Model
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3
from tiburon.record import record

if TYPE_CHECKING:
    from tiburon.model.closure_kinds import TendonCoupling

JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical")
"""Supported joint types; "spherical" is an extension that some codes write."""

ROOT_JOINT = "root_joint"
"""Name of the joint between world and root link, which URDF does not specify."""

UNLIMITED = 1e16
"""Values of this size mean no limit where the format requires one, as in SDF."""

_IDENTITY = Pose()


@record
class Mimic:
    """Coupling of a mimic joint: position = ratio * leader's position + offset."""

    leader: str
    ratio: float
    offset: float
    element: XmlElement


def read_origin(element: XmlElement | None) -> Pose:
    """Return the pose of the <origin> inside an element, identity by default."""
    origin = None if element is None else element.find("origin")
    if origin is None:
        return _IDENTITY
    xyz = tuple(origin.numbers("xyz", 3) or (0.0, 0.0, 0.0))
    rpy = origin.numbers("rpy", 3)
    if "quat_xyzw" in origin.attributes:
        if rpy is not None:
            origin.fail("expected rpy or quat_xyzw, got both; keep one")
        x, y, z, w = origin.parse(origin.attributes["quat_xyzw"], 4, "quat_xyzw")
        try:
            return Pose.from_quaternion((w, x, y, z), xyz)
        except ModelError as error:
            origin.blame(error)
    if rpy is None or not any(rpy):
        return Pose(translation=(xyz[0], xyz[1], xyz[2])) if any(xyz) else _IDENTITY
    return Pose.from_rpy(tuple(rpy), xyz)


def read_axis(element: XmlElement) -> Vec3:
    """Return the unit axis of a joint in its own frame, x by default."""
    axis = element.find("axis")
    numbers = None if axis is None else axis.numbers("xyz", 3)
    return (1.0, 0.0, 0.0) if axis is None or numbers is None else unit(numbers, axis)


def unit(numbers: Sequence[float], element: XmlElement) -> Vec3:
    """Normalize an axis; one of length 1 is returned unchanged to the last bit."""
    x, y, z = numbers
    largest = max(abs(x), abs(y), abs(z))
    if not 0.0 < largest < math.inf:
        element.fail(
            f"axis must have a direction, got {x:g} {y:g} {z:g}; give the direction of the "
            "joint's motion"
        )
    if abs(math.hypot(x, y, z) - 1.0) <= 1e-15:
        return (x, y, z)
    # scale by the largest component first: norms of denormal components lose digits
    x, y, z = x / largest, y / largest, z / largest
    length = math.hypot(x, y, z)
    return (x / length, y / length, z / length)


def read_joints(
    elements: Mapping[str, XmlElement], budget: Budget, findings: Findings
) -> dict[str, Joint]:
    """Return all joints by name."""
    written = {name: mimic for name, e in elements.items() if (mimic := _read_mimic(e)) is not None}
    mimics = _Mimics(written, elements, findings)
    joints: dict[str, Joint] = {}
    for name, element in elements.items():
        budget.check_time()
        joints[name] = _read_joint(name, element, mimics.of(name), findings)
    return joints


def _read_joint(name: str, element: XmlElement, mimic: Mimic | None, findings: Findings) -> Joint:
    kind = element.attribute("type")
    pose = read_origin(element)
    try:
        if kind == "fixed":
            return Fixed(name, pose=pose)
        limits = _read_limits(element, kind, findings)
        passive = _read_passive(element)
        if kind == "floating":
            return Free(name, pose=pose, limits=limits, passive=passive)
        if kind == "spherical":
            return Spherical(name, pose=pose, limits=limits, passive=passive)
        if kind not in JOINT_TYPES:
            element.fail(f"unknown joint type {kind!r}; {spelling_hint(kind, JOINT_TYPES)}")
        axis = read_axis(element)
        if kind == "planar":
            return Planar(name, axis, pose=pose, limits=limits, passive=passive)
        moving = Prismatic if kind == "prismatic" else Revolute
        if mimic is None:
            return moving(name, axis, pose=pose, limits=limits, passive=passive)
        if mimic.leader == "":
            # a fixed leader locks the follower
            return moving(name, axis, pose=pose).locked((mimic.offset,))
        moves = moving(f"{name}.motion", axis)
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
    except ModelError as error:
        element.blame(error)


def _read_limits(element: XmlElement, kind: str, findings: Findings) -> JointLimits | None:
    """Return the limits of a joint; missing bounds are infinite."""
    limit = element.find("limit")
    if limit is None:
        return None
    lower, upper = -math.inf, math.inf
    given = limit.attributes
    if kind in ("revolute", "prismatic") and ("lower" in given or "upper" in given):
        # the format's default for a missing bound
        lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
    velocity, force = limit.number("velocity", math.inf), limit.number("effort", math.inf)
    if lower > upper:
        findings.add(
            f"joint {element.attributes.get('name')!r}: lower limit {lower:g} exceeds upper "
            f"{upper:g}; both were left out",
            limit.line,
        )
        lower, upper = -math.inf, math.inf
    if velocity < 0.0 or force < 0.0:
        findings.add(
            f"joint {element.attributes.get('name')!r}: limits of velocity and effort must not be "
            f"negative, got {velocity:g} and {force:g}; the negative ones were left out",
            limit.line,
        )
        velocity = math.inf if velocity < 0.0 else velocity
        force = math.inf if force < 0.0 else force
    if max(upper, -lower, velocity, force) >= UNLIMITED:
        lower, upper, velocity, force = (
            math.copysign(math.inf, x) if abs(x) >= UNLIMITED else x
            for x in (lower, upper, velocity, force)
        )
    if (lower, upper, velocity, force) == (-math.inf, math.inf, math.inf, math.inf):
        return None
    return JointLimits(lower, upper, velocity, force)


def _read_passive(element: XmlElement) -> JointPassive | None:
    """Return damping and friction of a joint, if any."""
    dynamics = element.find("dynamics")
    if dynamics is None:
        return None
    damping, friction = dynamics.number("damping", 0.0), dynamics.number("friction", 0.0)
    return JointPassive(damping, friction) if damping or friction else None


def _read_mimic(element: XmlElement) -> Mimic | None:
    """Return the <mimic> of a joint as written, if its type supports it."""
    mimic = element.find("mimic")
    kind = element.attributes.get("type", "").strip()
    if mimic is None or kind not in ("revolute", "continuous", "prismatic"):
        return None
    ratio, offset = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0)
    return Mimic(mimic.attribute("joint"), ratio, offset, mimic)


class _Mimics:
    """Couplings of mimic joints to independent leaders, through chains of mimic joints."""

    def __init__(
        self, written: Mapping[str, Mimic], elements: Mapping[str, XmlElement], findings: Findings
    ) -> None:
        self._written = written
        self._elements = elements
        self._findings = findings
        self._found: dict[str, Mimic | None] = {}
        self._unknown = 0

    def of(self, name: str) -> Mimic | None:
        """Return the coupling of a joint to its independent leader, or None.

        An empty leader means a fixed one.
        """
        # the joints from this one to the first whose coupling is resolved
        path: list[str] = []
        passed: set[str] = set()
        while name in self._written and name not in self._found:
            if name in passed:
                self._written[name].element.fail(
                    f"joint {name!r} mimics itself through others; make one of them independent"
                )
            path.append(name)
            passed.add(name)
            name = self._written[name].leader
        for follower in reversed(path):
            self._found[follower] = self._one(follower, self._written[follower])
        return self._found.get(path[0] if path else name)

    def _one(self, name: str, mimic: Mimic) -> Mimic | None:
        """Return the coupling of a joint whose leader is resolved."""
        leader, element = mimic.leader, mimic.element
        if leader in self._written:
            between = self._found[leader]
            # an independent mimic joint leads like any other joint
            if between is not None:
                return Mimic(
                    between.leader,
                    mimic.ratio * between.ratio,
                    mimic.offset + mimic.ratio * between.offset,
                    element,
                )
        if leader not in self._elements:
            self._note_unknown(name, mimic)
            return None
        kind = self._elements[leader].attributes.get("type", "").strip()
        if kind == "fixed":
            return Mimic("", mimic.ratio, mimic.offset, element)
        if kind not in ("revolute", "continuous", "prismatic"):
            element.fail(
                f"joint {name!r}: can mimic a joint with one degree of freedom, got the {kind} "
                f"joint {leader!r}; follow a revolute or prismatic one"
            )
        return mimic

    def _note_unknown(self, name: str, mimic: Mimic) -> None:
        # the search for the nearest name is slow in long files, and few messages are shown
        self._unknown += 1
        near = nearest_name(mimic.leader, self._elements) if self._unknown <= MAX_SHOWN else None
        hint = f", perhaps {near!r} was meant" if near else ""
        self._findings.add(
            f"joint {name!r}: mimics {mimic.leader!r}, which does not exist{hint}; it was read as "
            "an independent joint",
            mimic.element.line,
        )


def read_surfaces(robot: XmlElement, findings: Findings) -> dict[str, ContactMaterial]:
    """Return the friction of links that <gazebo reference="link"> states as mu1 and mu2."""
    found: dict[str, ContactMaterial] = {}
    for extension in robot.all("gazebo"):
        link = extension.attributes.get("reference", "").strip()
        mu1, mu2 = (coefficient(extension, tag, findings) for tag in ("mu1", "mu2"))
        if mu1 is None:
            mu1 = coefficient(extension, "mu", findings)
        material = surface_material(extension, mu1, mu2, None, findings)
        if link and material is not None:
            found[link] = material
    return found


Color: TypeAlias = tuple[float, float, float, float]


def read_colors(robot: XmlElement, findings: Findings) -> dict[str, Color]:
    """Return the colors of all named materials, wherever they are defined."""
    colors: dict[str, Color] = {}
    visuals = (v for link in robot.all("link") for v in link.all("visual"))
    for holder in (robot, *visuals):
        for material in holder.all("material"):
            color = _read_color(material, findings)
            name = material.attributes.get("name", "")
            if color is not None and name:
                colors.setdefault(name, color)
    return colors


def read_shapes(
    link: XmlElement,
    budget: Budget,
    findings: Findings,
    read: Callable[[XmlElement, XmlElement], Shape | None],
    ignore: str = "",
) -> tuple[Shape, ...]:
    """Return the shapes of a link in the order of the file; invalid ones cause warnings.

    `read` reads a <visual> or <collision> with its geometry, and returns None for unknown geometry;
    geometry with the tag `ignore` is skipped.
    """
    shapes: list[Shape] = []
    for element in link.children:
        if element.tag not in ("visual", "collision"):
            continue
        budget.check_time()
        holder = element.find("geometry")
        if holder is None or not holder.children:
            findings.add(f"{link.describe()}: a {element.tag} without geometry", element.line)
            continue
        solid = holder.children[0]
        if solid.tag == ignore:
            continue
        problem = f"the geometry <{solid.tag}> is unknown and was left out"
        try:
            shape = read(element, solid)
        except ModelError as error:
            # bad geometry must not prevent simulation
            if error.__class__ is not ModelError:
                raise
            shape, problem = None, f"{error}; the shape was left out"
        if shape is None:
            findings.add(f"{link.describe()}: {problem}", solid.line)
        else:
            shapes.append(shape)
    return tuple(shapes)


def _read_shape(
    element: XmlElement,
    solid: XmlElement,
    colors: Mapping[str, Color],
    meshes: MeshPaths,
    findings: Findings,
) -> Shape | None:
    color = _color_of(element, colors, findings) if element.tag == "visual" else None
    pose = read_origin(element)
    path = meshes.find(solid.attribute("filename"), solid) if solid.tag == "mesh" else ""
    geometry = _read_geometry(solid, path, findings)
    name = element.attributes.get("name", "")
    return None if geometry is None else Shape(geometry, pose, element.tag, color, name)


def _read_geometry(solid: XmlElement, path: str, findings: Findings) -> Geometry | None:
    """Return a geometry, or None if its kind is unknown."""
    if solid.tag == "mesh":
        return MeshShape(path, _read_scale(solid, findings))
    if solid.tag == "box":
        x, y, z = solid.parse(solid.attribute("size"), 3, "size")
        return BoxShape((x, y, z))
    if solid.tag == "sphere":
        return SphereShape(solid.number("radius"))
    if solid.tag in ("cylinder", "capsule"):
        kind = CylinderShape if solid.tag == "cylinder" else CapsuleShape
        return kind(solid.number("radius"), solid.number("length"))
    return None


def _read_scale(mesh: XmlElement, findings: Findings) -> Vec3:
    """Return the scale of a mesh; of more than three numbers the first three, as others read it."""
    words = mesh.attributes.get("scale", "1 1 1").split()
    if len(words) > 3:
        findings.add(
            f"mesh {mesh.attributes.get('filename', '')[-80:]!r}: scale must be three numbers, got "
            f"{len(words)}; the first three were taken",
            mesh.line,
        )
    x, y, z = mesh.parse(" ".join(words[:3]), 3, "scale")
    return (x, y, z)


def _color_of(visual: XmlElement, colors: Mapping[str, Color], findings: Findings) -> Color | None:
    material = visual.find("material")
    if material is None:
        return None
    own = material.find("color")
    if own is not None:
        return _read_color(material, findings)
    return colors.get(material.attributes.get("name", ""))


def _read_color(material: XmlElement, findings: Findings) -> Color | None:
    """Return the color of a material, components clamped to [0, 1]."""
    element = material.find("color")
    numbers = None if element is None else element.numbers("rgba", 4)
    if numbers is None:
        return None
    if all(0.0 <= x <= 1.0 for x in numbers):
        r, g, b, a = numbers
    else:
        findings.add(
            f"{material.describe()}: colors must be between 0 and 1, got {numbers}; they were "
            "clamped",
            material.line,
        )
        r, g, b, a = (min(max(x, 0.0), 1.0) for x in numbers)
    return (r, g, b, a)


LOOP_JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "planar", "spherical")
"""Joint types that may close a loop."""


def read_loops(robot: XmlElement, links: Mapping[str, XmlElement]) -> tuple[LoopClosure, ...]:
    """Return the joints that close loops (URDF+, Chignoli et al. 2024).

    A <loop> names a predecessor and a successor link, each with the <origin> of the joint frame on
    it, and a joint type with its axis.
    """
    return tuple(_read_loop(element, links) for element in robot.all("loop"))


def _read_loop(element: XmlElement, links: Mapping[str, XmlElement]) -> LoopClosure:
    name = element.attribute("name")
    first, pose = _end(element, "predecessor", links)
    second, second_pose = _end(element, "successor", links)
    kind = element.attribute("type")
    if kind not in LOOP_JOINT_TYPES:
        element.fail(f"unknown type of loop {kind!r}; {spelling_hint(kind, LOOP_JOINT_TYPES)}")
    try:
        joint: Joint
        if kind == "fixed":
            joint = Fixed(name, pose=pose)
        elif kind == "spherical":
            joint = Spherical(name, pose=pose)
        elif kind == "planar":
            joint = Planar(name, read_axis(element), pose=pose)
        else:
            moving = Prismatic if kind == "prismatic" else Revolute
            joint = moving(name, read_axis(element), pose=pose)
        return LoopClosure(name, first, second, joint, second_pose)
    except ModelError as error:
        element.blame(error)


def _end(element: XmlElement, side: str, links: Mapping[str, XmlElement]) -> tuple[str, Pose]:
    """Return the link at one end of a loop and the joint frame on it."""
    end = element.need(side)
    link = end.attribute("link")
    if link not in links:
        near = nearest_name(link, links)
        hint = f"did you mean {near!r}?" if near else "correct the name"
        end.fail(f"loop {element.attributes.get('name')!r}: unknown link {link!r}; {hint}")
    # some files have the origins beside the links
    beside = element.find(f"{side}_origin")
    if beside is not None:
        wrapper = XmlElement(side, {}, beside.line, beside.file)
        wrapper.children = [XmlElement("origin", beside.attributes, beside.line, beside.file)]
        return link, read_origin(wrapper)
    return link, read_origin(end)


def read_actuators(
    robot: XmlElement, joints: Mapping[str, Joint], findings: Findings
) -> tuple[Actuator, ...]:
    """Return the actuators of simple transmissions: one joint, one actuator, one ratio.

    Transmissions of several joints are left out with a warning, those of fixed joints silently.
    """
    actuators: dict[str, Actuator] = {}
    mixed: list[str] = []
    for element in robot.all("transmission"):
        driven, motors = list(element.all("joint")), list(element.all("actuator"))
        if len(driven) != 1 or len(motors) != 1:
            mixed.append(element.attributes.get("name", "?"))
            continue
        joint, motor = driven[0].attribute("name"), motors[0].attribute("name")
        if joint not in joints:
            findings.add(
                f"{element.describe()}: drives the joint {joint!r}, which does not exist; it was "
                "left out",
                element.line,
            )
            continue
        # files may list the same motor several times
        if joints[joint].dof == 0 or motor in actuators:
            continue
        try:
            actuators[motor] = Actuator(motor, joint, _ratio(element, motors[0]))
        except ModelError as error:
            element.blame(error)
    if mixed:
        findings.add(
            f"transmissions of several joints or motors are not read: {', '.join(mixed[:4])}"
            + (f" and {len(mixed) - 4} more" if len(mixed) > 4 else "")
        )
    return tuple(actuators.values())


def _ratio(transmission: XmlElement, motor: XmlElement) -> float:
    """Return the reduction of a transmission, 1 by default."""
    for holder in (motor, transmission):
        for tag in ("mechanicalReduction", "mechanical_reduction"):
            reduction = holder.find(tag)
            if reduction is not None and reduction.text.strip():
                (ratio,) = reduction.parse(reduction.text, 1, "reduction")
                if ratio != 0.0:
                    return ratio
    return 1.0


def read_couplings(
    robot: XmlElement, bodies: Sequence[Body], findings: Findings
) -> "tuple[TendonCoupling, ...]":
    """Return the <coupling> elements of a file as tendon couplings."""
    by_name = {body.name: body for body in bodies}
    found = []
    for element in robot.all("coupling"):
        tie = _read_coupling(element, by_name, findings)
        if tie is not None:
            found.append(tie)
    return tuple(found)


def _read_coupling(
    element: XmlElement, bodies: Mapping[str, Body], findings: Findings
) -> "TendonCoupling | None":
    from tiburon.model.closure_kinds import TendonCoupling

    name = element.attribute("name")
    ratio = element.need("ratio").number("value")
    paths = []
    for side in ("predecessor", "successor"):
        end = element.need(side)
        link = end.attribute("link")
        if link not in bodies:
            near = nearest_name(link, bodies)
            hint = f"did you mean {near!r}?" if near else "name a link that a joint moves"
            end.fail(f"coupling {name!r}: unknown link {link!r}; {hint}")
        paths.append(_ancestors(link, bodies))
    shared = {body.name for body in paths[0]} & {body.name for body in paths[1]}
    sums = [_summed([body for body in path if body.name not in shared]) for path in paths]
    if any(found is None for found in sums):
        findings.add(
            f"{element.describe()}: left out, only joints with one degree of freedom can be "
            "coupled",
            element.line,
        )
        return None
    (leaders, start), (joints, own) = (found for found in sums if found is not None)
    if not any(joints.values()):
        findings.add(
            f"{element.describe()}: left out, no joint moves its successor alone", element.line
        )
        return None
    if not any(leaders.values()):
        leaders = {}
    coefficients = (ratio * start - own, ratio) if leaders else (ratio * start - own,)
    try:
        return TendonCoupling(
            name,
            tuple(joints),
            tuple(joints.values()),
            leaders=tuple(leaders),
            leader_arms=tuple(leaders.values()),
            coefficients=coefficients,
        )
    except ModelError as error:
        element.blame(error)


def _ancestors(link: str, bodies: Mapping[str, Body]) -> list[Body]:
    """Return a link and its ancestors."""
    found = []
    while link in bodies:
        found.append(bodies[link])
        link = bodies[link].parent
    return found


def _summed(path: Sequence[Body]) -> tuple[dict[str, float], float] | None:
    """Return the sum of joint positions as coefficients of independent joints, and a constant."""
    shares: dict[str, float] = {}
    constant = 0.0
    for body in reversed(path):
        joint = body.joint
        if isinstance(joint, Coupled):
            shares[joint.leader] = shares.get(joint.leader, 0.0) + joint.ratio
            constant += joint.offset
        elif joint.nv == 1 and joint.nq == 1:
            shares[joint.name] = shares.get(joint.name, 0.0) + 1.0
        elif joint.nv:
            return None
    return shares, constant


EXTENSIONS = frozenset(("plugin", "ros2_control", "sensor"))
"""Elements of other programs, which are skipped; of <gazebo> friction is read."""

EXPAND_XACRO = "name the file .xacro, which is expanded with the extra 'xacro'"
"""Cure for xacro in files of another name."""

_NO_ROTATION = Pose().rotation


def read_urdf(
    path: str | Path,
    *,
    package_paths: Iterable[str | Path] = (),
    root: str | Path | None = None,
    root_joint: Joint | None = None,
    xacro_arguments: Mapping[str, object] | None = None,
) -> Model:
    """Read a robot from a URDF file, or from a xacro file (.xacro), which makes one.

    Args:
        path: The file.
        package_paths: Folders that hold packages, or are packages, for meshes named
            ``package://name/...``; in addition to the folder of the file.
        root: Folder above the file up to which it may name meshes; that of its package by default.
        root_joint: Joint between world and root link; fixed by default.
            ``Free("root_joint")`` makes a floating robot.
        xacro_arguments: Values of ``$(arg name)`` in a xacro file.

    Raises:
        ModelFileError: If the file is invalid; the message names file, line and element.
    """
    budget = Budget(str(path))
    content = read_bytes(Path(path))
    if str(path).endswith(".xacro"):
        from tiburon.formats.xacro_expand import expand_xacro

        content = expand_xacro(Path(path), tuple(package_paths), xacro_arguments or {})
    elif xacro_arguments is not None:
        raise ModelFileError(path, "xacro_arguments are for xacro files (.xacro); leave them out")
    robot = parse_xml(content, budget, skip=EXTENSIONS)
    meshes = MeshPaths(Path(path).parent, package_paths, root)
    return model_from_urdf(robot, budget, meshes, root_joint)


def model_from_urdf(
    robot: XmlElement, budget: Budget, meshes: MeshPaths, root_joint: Joint | None = None
) -> Model:
    """Return the robot of a parsed URDF file.

    Args:
        robot: The root element.
        budget: Time and size limits.
        meshes: Finds mesh files.
        root_joint: Joint between world and root link; fixed by default.
    """
    findings = Findings(robot.file)
    _check_root(robot)
    links = _named(robot, "link")
    joints = _named(robot, "joint")
    budget.check_links(len(links))
    if not links:
        robot.fail("a robot needs at least one <link>, got none; check that the file is complete")
    root, order = _tree(robot, links, joints, budget)
    made = read_joints(joints, budget, findings)
    colors = read_colors(robot, findings)
    surfaces = read_surfaces(robot, findings)
    budget.check_time()

    def body(link: str, parent: str, joint: Joint) -> Body:
        budget.check_time()
        element = links[link]
        read = partial(_read_shape, colors=colors, meshes=meshes, findings=findings)
        shapes = read_shapes(element, budget, findings, read)
        if link in surfaces:
            shapes = tuple(
                replace(s, material=surfaces[link]) if s.role == "collision" else s for s in shapes
            )
        return lenient_body(
            element,
            link,
            parent,
            joint,
            _read_inertia(element, findings),
            shapes,
            findings=findings,
        )

    bodies: list[Body] = []
    if root != WORLD:
        bodies.append(body(root, WORLD, root_joint or Fixed(_unused(ROOT_JOINT, made))))
    elif root_joint is not None:
        links[root].fail(
            "the root link is the world itself and cannot move, got a root joint for it; leave "
            "root_joint out, or rename the link"
        )
    else:
        _check_world(links[root], findings)
    for name in order:
        element = joints[name]
        child, parent = element.need("child"), element.need("parent")
        bodies.append(body(child.attribute("link"), parent.attribute("link"), made[name]))
    budget.check_time()
    loops = (*read_loops(robot, links), *read_couplings(robot, bodies, findings))
    actuators = read_actuators(robot, made, findings)
    named = robot.attributes.get("name", "").strip()
    name = robot.attribute("name") if named else Path(robot.file).stem
    model = lenient_model(
        robot.file, name, bodies, loops=loops, actuators=actuators, findings=findings
    )
    findings.warn()
    return model


def _check_root(robot: XmlElement) -> None:
    """Raise for files that are not URDF, and for unexpanded xacro."""
    if robot.tag != "robot":
        others = {"mujoco": "MJCF, MuJoCo's format", "sdf": "SDF"}
        hint = f"this is {others[robot.tag]}" if robot.tag in others else "this is not URDF"
        robot.fail(f"expected <robot> as the outermost element, got <{robot.tag}>; {hint}")
    for child in robot.children:
        # arguments that are left in expanded files mean nothing
        if child.tag.startswith("xacro:") and child.tag != "xacro:arg":
            child.fail(f"the file contains unexpanded xacro (<{child.tag}>); {EXPAND_XACRO}")


def _named(robot: XmlElement, tag: str) -> dict[str, XmlElement]:
    """Return the elements with a tag by name."""
    named: dict[str, XmlElement] = {}
    for element in robot.all(tag):
        name = element.attribute("name")
        if name in named:
            element.fail(
                f"the name is used twice, first in line {named[name].line}; rename one {tag}"
            )
        named[name] = element
    return named


def _tree(
    robot: XmlElement,
    links: Mapping[str, XmlElement],
    joints: Mapping[str, XmlElement],
    budget: Budget,
) -> tuple[str, list[str]]:
    """Check that the joints form a tree of the links.

    Returns:
        The root link, and the joints in the order of the file.
    """
    holder: dict[str, str] = {}
    parents: dict[str, str] = {}
    for name, element in joints.items():
        ends = []
        for side in ("parent", "child"):
            end = element.need(side)
            link = end.attribute("link")
            if link not in links:
                end.fail(f"joint {name!r}: {_unknown_link(link, links)}")
            ends.append(link)
        parent, child = ends
        if child in holder:
            element.fail(
                f"link {child!r} is held already by joint {holder[child]!r}, and URDF allows one "
                "joint below each link; close loops with <loop>"
            )
        holder[child], parents[child] = name, parent
    roots = [link for link in links if link not in holder]
    if len(roots) > 1:
        listed = ", ".join(repr(root) for root in roots[:6]) + (", ..." if len(roots) > 6 else "")
        links[roots[1]].fail(
            f"a robot has one root link, got {len(roots)} that no joint holds ({listed}); join "
            "them with fixed joints, or use separate files"
        )
    # depth of each link, computed once; a repeated link means a cycle
    depth = dict.fromkeys(roots, 0)
    for link in links:
        passed: list[str] = []
        visited: set[str] = set()
        while link not in depth:
            if link in visited:
                joints[holder[link]].fail(
                    f"links must form a tree, got a cycle through link {link!r}; give one of them "
                    "another parent, or close the loop with <loop>"
                )
            passed.append(link)
            visited.add(link)
            link = parents[link]
        for lower in reversed(passed):
            depth[lower] = depth[parents[lower]] + 1
            budget.check_depth(depth[lower], lower)
    if WORLD in links and roots[0] != WORLD:
        links[WORLD].fail(
            "the name 'world' is reserved for the inertial frame, and this link is not the "
            "root; rename it"
        )
    return roots[0], list(joints)


def _unknown_link(link: str, links: Mapping[str, XmlElement]) -> str:
    near = nearest_name(link, links)
    return f"unknown link {link!r}; " + (
        f"did you mean {near!r}?" if near else "add the <link>, or correct the name"
    )


def _read_inertia(link: XmlElement, findings: Findings) -> Inertia:
    """Return mass, center of mass and tensor in link axes; zero without <inertial>."""
    inertial = link.find("inertial")
    if inertial is None:
        return Inertia()
    weight, entries = inertial.find("mass"), inertial.find("inertia")
    for tag, found in (("mass", weight), ("inertia", entries)):
        if found is None:
            findings.add(
                f"{link.describe()}: <inertial> without <{tag}>, which was read as zero; add it",
                inertial.line,
            )
    if weight is entries is None:
        return Inertia()
    mass = 0.0 if weight is None else weight.number("value")
    xx = xy = xz = yy = yz = zz = 0.0
    if entries is not None:
        xx, yy, zz = (entries.number(key) for key in ("ixx", "iyy", "izz"))
        xy, xz, yz = (entries.number(key, 0.0) for key in ("ixy", "ixz", "iyz"))
    pose = read_origin(inertial)
    try:
        tensor = (xx, xy, xz, yy, yz, zz)
        if pose.rotation == _NO_ROTATION:
            return Inertia(mass, pose.translation, tensor)
        return Inertia(mass, (0.0, 0.0, 0.0), tensor).moved(pose)
    except ModelError as error:
        inertial.blame(error)


def _check_world(link: XmlElement, findings: Findings) -> None:
    """Warn about mass and shapes of a root link named "world", which has no body."""
    if any(child.tag in ("inertial", "visual", "collision") for child in link.children):
        findings.add(
            "link 'world': the world has neither mass nor shapes here; those given were left out",
            link.line,
        )


def _unused(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name
