"""Spanning trees of a mechanism: which joints belong to the tree, and which close loops.

Every spanning tree gives the same motion (Featherstone 1987, section 9.2). A good one has few
constraints, namely those of the joints it cuts: joints with few degrees of freedom stay in the
tree, joints with many are cut (a spherical joint adds three constraints, a hinge five, a free joint
none). Actuated joints stay, since a cut joint has no variable to actuate. Among equals those near
the world stay, so that branches stay short.

A joint may reverse its direction in the tree. Bodies keep their frames: where the frame of a joint
differs from that of its body, a massless body and a weld are inserted, at no cost.
"""

import heapq
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

import numpy as np

from tiburon.argument_checks import vector
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, UnknownNameError
from tiburon.loops.cut_joints import joint_position, joint_screws, places_of, pose_in
from tiburon.model import Body, Fixed, Free, Joint, LoopClosure, Model, Pose, Prismatic, Revolute
from tiburon.model.body import WORLD
from tiburon.model.closure import joints_of
from tiburon.model.composition import changed
from tiburon.model.joints import Cylindrical, Planar, Screw, Spherical, Universal
from tiburon.model.parts import JointPositions
from tiburon.spatial.vec3 import negate


def reversed_joint(joint: Joint) -> Joint | None:
    """Return the joint with predecessor and successor exchanged; its pose is not used.

    Revolute, prismatic, screw and cylindrical joints keep their variables and reverse their axis. A
    universal joint exchanges its axes. Spherical, planar and free joints change their variables.
    None for joints that cannot be reversed: coupled, driven and rolling ones.
    """
    if isinstance(joint, (Revolute, Prismatic, Screw)):
        return joint.rebased(negate(joint.axis), joint.offset)
    if isinstance(joint, Fixed):
        return joint
    if (joint.limits, joint.passive, joint.armature) != (None, None, 0.0):
        # values per degree of freedom would belong to other degrees of freedom
        return None
    if isinstance(joint, Cylindrical):
        return changed(joint, axis=negate(joint.axis))
    if isinstance(joint, Universal):
        first, second = negate(joint.second_axis), negate(joint.axis)
        return changed(joint, axis=first, second_axis=second)
    if isinstance(joint, (Spherical, Planar, Free)):
        return joint
    return None


FIT_TOLERANCE = 1e-6
"""Largest pose error of a joint in a converted state; beyond, loops are open."""


@public
def recut_state(
    model: Model, other: Model, q: ArrayLike, v: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Convert a state of a robot to the variables of the same robot with another spanning tree.

    Args:
        model: The robot.
        other: The robot from `recut`.
        q: Configuration with closed loops [m or rad], shape (nq,).
        v: Joint velocity with J v = 0 [m/s or rad/s], shape (nv,); zero by default.

    Returns:
        Configuration and velocity of the other robot, shapes (nq,) and (nv,).

    Raises:
        ModelError: If loops are open, or the robots differ.
    """
    at = np.asarray(model.normalize(q))
    rates = np.zeros(model.nv) if v is None else vector("v", v, model.nv)
    places = places_of(model, at)
    twists = _twists(model, at, rates)
    # inserted massless bodies have the pose of their child, up to the weld
    for body in reversed(other.bodies):
        if body.name not in places:
            raise ModelError(
                f"model {other.name!r}: body {body.name!r} is not one of {model.name!r}; pass the "
                "same robot, cut elsewhere by recut",
                name=body.name,
            )
        if body.parent not in places:
            places[body.parent] = places[body.name].moved(body.joint.pose.transform.inverse())
            twists[body.parent] = twists[body.name]
    q_other = other.neutral()
    for body in other.bodies:
        joint = body.joint
        if joint.nq and joint.follows is None:
            stands = places[body.parent].moved(joint.pose.transform)
            found = joint_position(joint, *pose_in(stands, places[body.name]))
            if found.error > FIT_TOLERANCE:
                raise ModelError(
                    f"joint {joint.name!r}: expected closed loops, got a pose error of "
                    f"{found.error:.3g} at this joint; close the loops first (assemble)",
                    name=joint.name,
                )
            q_other[other.slice(joint.name)] = _same_turn(model, joint.name, at, found.q)
    v_other = np.zeros(other.nv)
    at_other = joint_screws(other, q_other)
    for body in other.bodies:
        columns = at_other.of[body.joint.name].columns
        if body.joint.nv:
            apart = twists[body.name] - twists[body.parent]
            v_other[other.slice(body.joint.name, of="v")] = np.linalg.lstsq(columns, apart)[0]
    return q_other, v_other


def _same_turn(model: Model, joint: str, q: Array, found: tuple[float, ...]) -> Array:
    """Return joint variables, with whole turns of a revolute joint as in the original state."""
    values = np.array(found)
    if joint not in model.joint_names or model.joint(joint).nq != len(found):
        return values
    before = q[model.slice(joint)]
    turns = (before - values) / (2.0 * np.pi)
    same = (
        model.joint(joint).kind == "revolute"
        and abs(float(turns[0]) - round(turns[0])) < FIT_TOLERANCE
    )
    return np.asarray(values + 2.0 * np.pi * np.round(turns)) if same else values


def _twists(model: Model, q: Array, v: Array) -> dict[str, Array]:
    """Return the twists of all bodies, world axes, about the world's origin, shape (6,) each."""
    at = joint_screws(model, q)
    found: dict[str, Array] = {WORLD: np.zeros(6)}
    for body in model.bodies:
        columns, variables = at.of[body.joint.name]
        found[body.name] = found[body.parent] + columns @ v[list(variables)]
    return found


UNCUTTABLE_WEIGHT = 100
"""Weight of a joint that must not be cut, larger than any number of constraints."""


class _Line(NamedTuple):
    """A joint between two bodies, in either direction."""

    name: str
    joint: Joint
    first: str
    on_first: Pose
    """The joint frame on the first body, in place of the joint's own pose."""
    second: str
    on_second: Pose
    """The frame that the joint moves, on the second body."""
    kept: str
    """Why it cannot be cut; empty if it can."""
    reversible: bool
    """Whether it can be reversed."""

    @property
    def rows(self) -> int:
        """Number of constraints if it is cut."""
        return 6 - self.joint.dof


@public
def recut(
    model: Model, cut: str | Iterable[str] | None = None, *, name: str | None = None
) -> Model:
    """Return the same mechanism with another spanning tree: loops cut at other joints.

    Bodies, frames, joint names and everything fixed to bodies stay. The order of joints, and so q
    and v, may change; `recut_state` converts states. Joints without constraints, such as the free
    joint of a platform on legs, are removed where legs carry it; named poses with open loops too.

    Args:
        model: The robot.
        cut: Names of joints that are to close loops (of loops for joints that close them already);
            by default those with the fewest constraints, also for cycles that remain.
        name: Name of the result; by default that of the robot.

    Raises:
        ModelError: If a joint cannot be cut because it is actuated, coupled, limited or has passive
            forces, or if a body would be disconnected.

    Example:
        ``tb.recut(tb.load("four_bar"), cut="output")``
    """
    lines = _lines(model)
    requested = (cut,) if isinstance(cut, str) else tuple(cut or ())
    by_name = {line.name: line for line in lines}
    for joint in requested:
        if joint not in by_name:
            raise UnknownNameError("joint or loop", joint, by_name, where=f"model {model.name!r}")
        if by_name[joint].kept:
            raise ModelError(
                f"joint {joint!r}: cannot be cut, {by_name[joint].kept}; cut another of its loop",
                name=joint,
            )
    edges = _tree(model, lines, set(requested))
    bodies, used = _bodies(model, edges)
    ties = tuple(loop for loop in model.loops if not isinstance(loop, LoopClosure))
    closures = tuple(
        LoopClosure(
            line.name,
            line.first,
            line.second,
            changed(line.joint, name=line.name, pose=line.on_first),
            line.on_second,
        )
        for line in lines
        # a free joint has no constraints: if cut, it is removed
        if line.name not in used and line.joint.kind != "free"
    )
    parts = model._parts._replace(bodies=tuple(bodies), loops=(*closures, *ties), poses=())
    found = model._changed(parts, name)
    poses = _poses(model, found)
    return model._changed(parts._replace(poses=poses), name) if poses else found


def _poses(model: Model, other: Model) -> tuple[tuple[str, JointPositions], ...]:
    """Convert the named poses to another tree; those with open loops are left out."""
    found = []
    for key, q in model.poses.items():
        try:
            at, _ = recut_state(model, other, q)
        except ModelError:
            continue
        moving = [joint for joint in other.joints if joint.nq]
        found.append((key, {j.name: tuple(at[other.slice(j.name)].tolist()) for j in moving}))
    return tuple(found)


def _lines(model: Model) -> list[_Line]:
    """Return all joints of a robot, those that close loops too."""
    driven = {actuator.joint for actuator in model.actuators}
    driven |= {cylinder.joint for cylinder in model.cylinders if cylinder.joint is not None}
    tied: set[str | None] = {body.joint.follows for body in model.bodies}
    for loop in model.loops:
        tied |= set(joints_of(loop))
    found = []
    for body in model.bodies:
        joint = body.joint
        why = "an actuator or cylinder drives it" if joint.name in driven else ""
        why = why or ("another joint is tied to it" if joint.name in tied else "")
        if (joint.limits, joint.passive, joint.armature) != (None, None, 0.0):
            why = why or "its limits, passive forces or armature need its variable"
        why = why or ("" if _closes(joint) else f"a {joint.kind} joint cannot close a loop")
        turns = reversed_joint(joint) is not None
        line = _Line(joint.name, joint, body.parent, joint.pose, body.name, Pose(), why, turns)
        found.append(line)
    mounts = {frame.name: (frame.body, frame.pose) for frame in model.frames}
    for loop in model.loops:
        if isinstance(loop, LoopClosure):
            first, on_first = mounts.get(loop.first, (loop.first, Pose()))
            second, on_second = mounts.get(loop.second, (loop.second, Pose()))
            stand, moved = on_first @ loop.joint.pose, on_second @ loop.second_pose
            turns = reversed_joint(loop.joint) is not None
            line = _Line(loop.name, loop.joint, first, stand, second, moved, "", turns)
            found.append(line)
    return found


def _closes(joint: Joint) -> bool:
    """Return whether a joint can close a loop, or has no constraints (free joint)."""
    if joint.kind == "free":
        return True
    try:
        joint.loop_constraints()
    except ModelError:
        return False
    return joint.follows is None and not joint.depends_on_time


class _TreeEdge(NamedTuple):
    """A body with its joint in the spanning tree."""

    body: str
    parent: str
    line: _Line
    turned: bool


def _tree(model: Model, lines: list[_Line], cut: set[str]) -> list[_TreeEdge]:
    """Grow the spanning tree from the world, joints with most constraints first (Prim 1957)."""
    at: dict[str, list[_Line]] = {name: [] for name in (WORLD, *model.body_names)}
    for line in lines:
        at[line.first].append(line)
        at[line.second].append(line)
    order = {line.name: k for k, line in enumerate(lines)}
    reached = {WORLD: 0}
    edges: list[_TreeEdge] = []
    waiting: list[tuple[int, int, int, int, _TreeEdge]] = []
    number = count()

    def offer(parent: str) -> None:
        for line in at[parent]:
            turned = line.second == parent
            if line.name in cut or (turned and not line.reversible):
                continue
            body = line.first if turned else line.second
            weight = line.rows + (UNCUTTABLE_WEIGHT if line.kept else 0)
            key = (-weight, reached[parent], order[line.name], next(number))
            heapq.heappush(waiting, (*key, _TreeEdge(body, parent, line, turned)))

    offer(WORLD)
    while waiting:
        step = heapq.heappop(waiting)[-1]
        if step.body not in reached:
            reached[step.body] = reached[step.parent] + 1
            edges.append(step)
            offer(step.body)
    unreached = [name for name in model.body_names if name not in reached]
    if unreached:
        raise ModelError(
            f"body {unreached[0]!r}: would be disconnected with {', '.join(sorted(cut))} cut; cut "
            "one joint of each loop",
            name=unreached[0],
        )
    used = {step.line.name for step in edges}
    for line in lines:
        if line.kept and line.name not in used:
            raise ModelError(
                f"joint {line.name!r}: would have to be cut, but {line.kept}; cut another joint of "
                "its loop",
                name=line.name,
            )
    return edges


def _bodies(model: Model, edges: list[_TreeEdge]) -> tuple[list[Body], set[str]]:
    """Return the bodies of the new tree, with the inserted massless ones."""
    names = set(model.frame_names)
    bodies = []
    for step in edges:
        body, line = model.body(step.body), step.line
        stand, moved = line.on_first, line.on_second
        joint: Joint | None = line.joint
        if step.turned:
            stand, moved = moved, stand
            joint = reversed_joint(line.joint)
        assert joint is not None
        own = changed(joint, name=line.name, pose=stand)
        if moved == Pose():
            bodies.append(changed(body, parent=step.parent, joint=own))
            continue
        carrier = f"{step.body} at {line.name}"
        while carrier in names:
            carrier += "'"
        names.add(carrier)
        weld = Fixed(f"{step.body} on {line.name}", pose=moved.inverse())
        bodies += [Body(carrier, step.parent, joint=own), changed(body, parent=carrier, joint=weld)]
    return bodies, {step.line.name for step in edges}
