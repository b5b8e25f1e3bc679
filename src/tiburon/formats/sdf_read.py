"""SDF files: the Simulation Description Format of Gazebo.

Every link becomes a body of the same name, links of nested models under names such as
``arm::hand``. A revolute joint whose frame is not on the child link's own axis gets a massless body
at the joint frame, named after the joint, to which the link is fixed; the link keeps its frame and
parameters. The joints of a file may form any graph: a spanning tree becomes the model's tree, the
other joints close loops. Links without a joint float, as the format specifies; the model's pose is
then the named configuration "initial".
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.errors import ModelError
from tiburon.formats.lenient import Findings, lenient_body, lenient_model
from tiburon.formats.limits import Budget, read_bytes
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.sdf_frames import MODEL, pose_reference, read_pose
from tiburon.formats.sdf_joints import SdfJoint, SdfTie, axis_of, make_joint, read_tie
from tiburon.formats.sdf_links import (
    is_automatic,
    read_fluid,
    read_inertia,
    read_shapes,
    solid_inertia,
    value_of,
)
from tiburon.formats.sdf_scope import EXTENSIONS, SdfScope, flag_of, read_version
from tiburon.formats.urdf_joints import ROOT_JOINT
from tiburon.formats.xml_tree import XmlElement, parse_xml
from tiburon.model.body import WORLD, Body, Frame
from tiburon.model.closure import Closure, JointCoupling, LoopClosure
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Fixed, Free, Joint
from tiburon.model.joints.axial import AxialJoint
from tiburon.model.model import Model
from tiburon.model.pose import Pose
from tiburon.spatial import matrix_to_quaternion

TURNABLE = ("revolute", "continuous", "prismatic", "screw", "fixed", "ball")
"""Joints that may also be read from child to parent."""


@dataclass(frozen=True, slots=True)
class Hold:
    """How a link of the tree is held."""

    joint: SdfJoint
    parent: str
    """Link, or the world."""

    child: str
    """The link held."""

    is_turned: bool = False
    """Whether parent and child have changed places."""


@dataclass(frozen=True, slots=True)
class SdfTree:
    """The tree of a file."""

    roots: tuple[str, ...]
    """Links that nothing holds."""

    holds: tuple[Hold, ...]
    """In the order of the file's joints."""

    loops: tuple[SdfJoint, ...]
    """Joints between links that hang together already."""


def grow_tree(links: Iterable[str], joints: Sequence[SdfJoint], budget: Budget) -> SdfTree:
    """Choose the joints of the tree.

    A joint holds its child, unless something holds the child already; where parent and child do not
    hang together yet, it then holds the parent. What is left closes loops. Joints that the file
    wants to be cut come last.

    Args:
        links: Whole names.
        joints: In the order of the file.
        budget: Counts.
    """
    names = list(links)
    group = {name: name for name in (WORLD, *names)}

    def find(name: str) -> str:
        # the representative of all links that hang together, with paths halved on the way
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
            elif joint.parent not in held and joint.parent != WORLD and joint.kind in TURNABLE:
                hold = Hold(joint, joint.child, joint.parent, is_turned=True)
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


HINGED = ("revolute", "continuous", "screw", "ball", "universal", "revolute2")
"""Joints that turn, so that it matters through which point."""

ON_AXIS = 1e-9
"""Distance from the joint's axis at which a link's origin counts as on it [m]: files have fewer
digits, and the error in motion is no larger."""


def build_model(scope: SdfScope, top: XmlElement, root_joint: Joint | None) -> Model:
    """Return the model of everything collected.

    Args:
        scope: Links, joints and frames of the file.
        top: The top <model>.
        root_joint: How the one link that no joint holds moves; by default as the format means it.
    """
    if not scope.links:
        top.fail("a robot needs at least one <link>, got none; check that the file is complete")
    builder = _Builder(scope, top)
    return builder.build(root_joint)


class _Builder:
    def __init__(self, scope: SdfScope, top: XmlElement) -> None:
        self.scope = scope
        self.top = top
        self.frames = scope.frames
        placed = read_pose(top)
        if pose_reference(top) not in ("", WORLD):
            top.fail("the top model can only be placed in the world; leave relative_to out")
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
        ties = self._ties(tree)
        for hold in tree.holds:
            scope.budget.check_time()
            bodies += self._held(hold, ties.get(hold.joint.name))
        frames = [self._frame(name, element) for name, element in scope.places.items()]
        loops: list[Closure] = [self._loop(joint) for joint in tree.loops]
        loops += [gear for joint in gears for gear in self._gear(joint, tree)]
        return lenient_model(
            self.top.file,
            self.top.attribute("name"),
            bodies,
            frames=frames,
            loops=loops,
            poses=poses,
            findings=scope.findings,
        )

    def _root_joint(self, root: str, tree: SdfTree, root_joint: Joint | None) -> Joint:
        if root_joint is not None:
            if len(tree.roots) != 1:
                self.top.fail(
                    "a root joint can be given where one link is held by no joint, got "
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

        def place(part: XmlElement) -> Pose:
            reference = pose_reference(part)
            if not reference:
                return read_pose(part)
            frame = self.frames.resolve(named.scope + reference, part)
            return self.frames.relative(frame, link) @ read_pose(part)

        shapes = read_shapes(element, named.meshes, place, budget, findings)
        if is_automatic(element):
            inertia = solid_inertia(element, shapes, findings)
        else:
            inertia = read_inertia(element, findings)
        fluid = read_fluid(element)
        return lenient_body(element, link, parent, joint, inertia, shapes, fluid, findings=findings)

    def _held(self, hold: Hold, tie: SdfTie | None) -> list[Body]:
        """Return the body of a link, and one of no mass at the joint where they lie apart."""
        joint = hold.joint
        turn = self.frames.relative(joint.name, hold.child)
        try:
            if not self._apart(joint, turn):
                pose = self.frames.relative(hold.child, hold.parent)
                made = make_joint(joint, self.frames, pose, turn, tie)
                return [self._body(hold.child, hold.parent, _oriented(made, hold))]
            pose = self.frames.relative(joint.name, hold.parent)
            made = make_joint(joint, self.frames, pose, Pose(), tie)
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
        """Return whether the joint turns about a point off the link's origin."""
        if joint.kind not in HINGED:
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

    def _ties(self, tree: SdfTree) -> dict[str, SdfTie]:
        """Return what joints follow, through others that follow themselves."""
        written = {
            hold.joint.name: tie
            for hold in tree.holds
            if hold.joint.kind in ("revolute", "continuous", "prismatic", "screw")
            and (tie := read_tie(hold.joint.element, hold.joint.scope)) is not None
        }
        free = {hold.joint.name for hold in tree.holds} - set(written)
        found: dict[str, SdfTie] = {}
        for name in written:
            self.scope.budget.check_time()
            found[name] = _followed(name, written, free)
        return found

    def _gear(self, gear: SdfJoint, tree: SdfTree) -> list[JointCoupling]:
        """Return the tie of a gearbox: angle 2 = -ratio times angle 1, from its reference body."""
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
                    f"{gear.element.describe()}: no hinge holds {link!r} on its reference body "
                    f"{name!r}; the gear was left out",
                    gear.element.line,
                )
                return []
            ends.append((found[0], self._sense(found[0], gear, tag, name)))
        (first, sense1), (second, sense2) = ends
        factor = -ratio * sense1 / sense2
        return [JointCoupling(gear.name, second.joint.name, first.joint.name, (0.0, factor))]

    def _sense(self, hold: Hold, gear: SdfJoint, tag: str, reference: str) -> float:
        """Return 1 or -1: whether a hinge counts as the gear does, from the reference body."""
        axes = []
        for joint, which in ((hold.joint, "axis"), (gear, tag)):
            R = np.array(self.frames.relative(joint.name, MODEL).rotation)
            axes.append(R @ axis_of(joint, self.frames, which))
        sense = 1.0 if float(axes[0] @ axes[1]) >= 0.0 else -1.0
        return sense if hold.joint.parent == reference else -sense


def _is_hinge(joint: SdfJoint) -> bool:
    return joint.kind in ("revolute", "continuous")


def _oriented(joint: Joint, hold: Hold) -> Joint:
    """Return a joint read from child to parent: the same positions move the other way."""
    if not hold.is_turned:
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


def _followed(name: str, written: Mapping[str, SdfTie], free: set[str]) -> SdfTie:
    """Return the tie to a joint that moves by itself."""
    tie = written[name]
    passed = {name}
    while tie.leader in written:
        if tie.leader in passed:
            written[name].element.fail(
                f"joint {name!r} follows itself by way of {tie.leader!r}; let one of them move "
                "freely"
            )
        passed.add(tie.leader)
        between = written[tie.leader]
        tie = replace(
            tie,
            leader=between.leader,
            ratio=tie.ratio * between.ratio,
            offset=tie.offset + tie.ratio * between.offset,
        )
    if tie.leader not in free:
        tie.element.fail(
            f"joint {name!r}: mimics {tie.leader!r}, which is no joint of the robot's tree; "
            "correct the name"
        )
    return tie


def read_sdf(
    path: str | Path,
    *,
    package_paths: Iterable[str | Path] = (),
    root_joint: Joint | None = None,
) -> Model:
    """Read a robot from an SDF file.

    Args:
        path: The file, with one <model>, or a <world> with one that is not static.
        package_paths: Folders that hold models, or are models, for meshes and included models named
            ``model://name/...``; beside these only the file's own folder is looked into.
        root_joint: How the one link that no joint holds moves in the world; by default freely, or
            not at all in a static model.

    Raises:
        ModelFileError: If the file cannot be read or makes no robot; names file, line and element.
    """
    budget = Budget(str(path))
    root = parse_xml(read_bytes(Path(path)), budget, skip=EXTENSIONS)
    meshes = MeshPaths(Path(path).parent, package_paths)
    findings = Findings(str(path))
    scope = SdfScope(budget, meshes, findings)
    model_element, version = _choose_model(root, findings)
    scope.read_top(model_element, version)
    model = build_model(scope, model_element, root_joint)
    findings.warn()
    return model


def _choose_model(root: XmlElement, findings: Findings) -> tuple[XmlElement, tuple[int, int]]:
    """Return the one model of a file and the version it is written in."""
    if root.tag not in ("sdf", "gazebo"):
        root.fail(f"expected <sdf> as the outermost element, got <{root.tag}>; this is no SDF")
    version = read_version(root)
    worlds = list(root.all("world"))
    holders = [root, *worlds]
    models = [m for holder in holders for m in holder.all("model")]
    for holder in worlds:
        for include in holder.all("include"):
            findings.add("models included in a world are not read", include.line)
    moving = [m for m in models if not flag_of(m, "static")]
    chosen = moving if len(models) > 1 else models
    if len(chosen) != 1:
        names = ", ".join(repr(m.attributes.get("name", "?")) for m in chosen[:6]) or "none"
        root.fail(
            f"a robot file must hold one <model> that is not static, got {len(chosen)} ({names}); "
            "put each in a file of its own"
        )
    for other in models:
        if other is not chosen[0]:
            findings.add(f"{other.describe()}: is static and was left out", other.line)
    return chosen[0], version
