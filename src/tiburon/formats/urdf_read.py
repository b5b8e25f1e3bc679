"""URDF files: the Unified Robot Description Format of ROS.

Every link becomes a body, those held by fixed joints too, so that all link names are frames and no
inertia is moved. Bodies stand in the order of the file's <joint> elements, behind the root link;
hence so do q and v. Joints that mimic others are reduced exactly (`Coupled`). The root link stands
still in the world unless the caller says how it moves; a root link named "world" is the world.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tiburon.errors import ModelError, ModelFileError, nearest_name
from tiburon.formats.lenient import Findings, lenient_body, lenient_model
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.urdf_joints import ROOT_JOINT, read_joints, read_origin
from tiburon.formats.urdf_loops import read_actuators, read_couplings, read_loops
from tiburon.formats.urdf_shapes import read_colors, read_shapes
from tiburon.formats.xml_tree import XmlElement, parse_xml
from tiburon.model.body import WORLD, Body
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Fixed, Joint
from tiburon.model.model import Model
from tiburon.model.pose import Pose

EXTENSIONS = frozenset(("gazebo", "ros2_control", "sensor"))
"""Elements of other programs, whose content says nothing about the robot itself."""

EXPAND = "expand it first with `xacro robot.urdf.xacro > robot.urdf`"
"""What to do with a xacro file."""

_UNTURNED = Pose().rotation


def read_urdf(
    path: str | Path,
    *,
    package_paths: Iterable[str | Path] = (),
    root_joint: Joint | None = None,
) -> Model:
    """Read a robot from a URDF file.

    Args:
        path: The file.
        package_paths: Folders that hold packages, or are packages, for meshes named
            ``package://name/...``; beside these only the file's own folder may hold meshes.
        root_joint: How the root link moves in the world; by default it stands still.
            ``Free("root_joint")`` makes a floating robot.

    Raises:
        ModelFileError: If the file cannot be read or makes no robot; names file, line and element.
    """
    budget = Budget(str(path))
    content = read_bytes(Path(path))
    if str(path).endswith(".xacro"):
        raise ModelFileError(path, f"xacro is a program that makes URDF; {EXPAND}")
    root = parse_xml(content, budget, skip=EXTENSIONS)
    meshes = MeshPaths(Path(path).parent, package_paths)
    return model_from_urdf(root, budget, meshes, root_joint)


def model_from_urdf(
    robot: XmlElement, budget: Budget, meshes: MeshPaths, root_joint: Joint | None = None
) -> Model:
    """Return the robot of a parsed URDF file.

    Args:
        robot: The root element.
        budget: Clock and counts.
        meshes: Finds mesh files.
        root_joint: How the root link moves in the world; by default it stands still.
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
    budget.check_time()

    def body(link: str, parent: str, joint: Joint) -> Body:
        budget.check_time()
        element = links[link]
        shapes = read_shapes(element, colors, meshes, budget, findings)
        return lenient_body(
            element, link, parent, joint, _read_inertia(element), shapes, findings=findings
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
    """Refuse what is no URDF, and xacro that was not expanded."""
    if robot.tag != "robot":
        others = {"mujoco": "MJCF, MuJoCo's format", "sdf": "SDF"}
        hint = f"this is {others[robot.tag]}" if robot.tag in others else "this is no URDF"
        robot.fail(f"expected <robot> as the outermost element, got <{robot.tag}>; {hint}")
    for child in robot.children:
        if child.tag.startswith("xacro:"):
            child.fail(f"the file still holds xacro (<{child.tag}>); {EXPAND}")


def _named(robot: XmlElement, tag: str) -> dict[str, XmlElement]:
    """Return the elements of a tag by name."""
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
    """Check that the joints make a tree of the links.

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
                # a name that is not there is the message of the model, with its nearest match
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
            "them with fixed joints, or put them in files of their own"
        )
    # depth by walking up, each link once; what never arrives hangs in a cycle
    depth = dict.fromkeys(roots, 0)
    for link in links:
        passed: list[str] = []
        on_way: set[str] = set()
        while link not in depth:
            if link in on_way:
                joints[holder[link]].fail(
                    f"links must form a tree, got a cycle through link {link!r}; give one of them "
                    "another parent, or close the loop with <loop>"
                )
            passed.append(link)
            on_way.add(link)
            link = parents[link]
        for lower in reversed(passed):
            depth[lower] = depth[parents[lower]] + 1
            budget.check_depth(depth[lower], lower)
    if WORLD in links and roots[0] != WORLD:
        links[WORLD].fail(
            "the name 'world' belongs to the frame that never moves, and this link is not the "
            "root; rename it"
        )
    return roots[0], list(joints)


def _unknown_link(link: str, links: Mapping[str, XmlElement]) -> str:
    near = nearest_name(link, links)
    return f"unknown link {link!r}; " + (
        f"did you mean {near!r}?" if near else "add the <link>, or correct the name"
    )


def _read_inertia(link: XmlElement) -> Inertia:
    """Return mass, center of mass and tensor in link axes; none where the link says nothing."""
    inertial = link.find("inertial")
    if inertial is None:
        return Inertia()
    mass = inertial.need("mass").number("value")
    entries = inertial.need("inertia")
    xx, yy, zz = (entries.number(key) for key in ("ixx", "iyy", "izz"))
    xy, xz, yz = (entries.number(key, 0.0) for key in ("ixy", "ixz", "iyz"))
    pose = read_origin(inertial)
    try:
        tensor = (xx, xy, xz, yy, yz, zz)
        if pose.rotation == _UNTURNED:
            return Inertia(mass, pose.translation, tensor)
        return Inertia(mass, (0.0, 0.0, 0.0), tensor).moved(pose)
    except ModelError as error:
        inertial.blame(error)


def _check_world(link: XmlElement, findings: Findings) -> None:
    """Note what is lost of a root link that is the world: it has no body here."""
    if any(child.tag in ("inertial", "visual", "collision") for child in link.children):
        findings.add(
            "link 'world': the world has neither mass nor shapes here; those given were left out",
            link.line,
        )


def _unused(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name
