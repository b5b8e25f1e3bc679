"""The same mechanism with another spanning tree: which joints carry bodies, which close loops.

Every spanning tree gives the same motion (Featherstone 1987, section 9.2). A good one has few
constraints, namely those of the joints it cuts: joints with few degrees of freedom stay in the
tree, joints with many are cut (a spherical joint adds three constraints, a hinge five, a free joint
none). Actuated joints stay, since a cut joint has no variable to actuate. Among equals those near
the world stay, so that branches stay short.

A joint may then carry its former parent. Bodies keep their frames: where the frame of a joint is
not that of its body, a massless body and a weld lie between, at no cost.
"""

import heapq
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

import numpy as np

from tiburon.algorithms.kinematics import Place
from tiburon.argument_checks import vector
from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, UnknownNameError
from tiburon.loops.cut_joints import joint_position, joint_screws, places_of
from tiburon.model import Body, Fixed, Free, Joint, LoopClosure, Model, Pose, Prismatic, Revolute
from tiburon.model.body import WORLD
from tiburon.model.closure import joints_of
from tiburon.model.composition import changed
from tiburon.model.joints import Cylindrical, Planar, Screw, Spherical, Universal
from tiburon.model.parts import JointPositions
from tiburon.spatial.vec3 import negate

__all__ = ["recut", "recut_state", "reversed_joint"]

Array = NDArray[np.float64]


def reversed_joint(joint: Joint) -> Joint | None:
    """Return the joint that moves the first body in the second as this one does the other way.

    Hinges, slides, screws and sleeves keep their variables: the axis points the other way. A
    universal joint swaps its two. Balls, pucks and free joints have other numbers for the same
    place.

    Args:
        joint: Of any kind; its pose is of no account.

    Returns:
        The joint in frames of which each is the other's place; None where there is none of its
        kind, as for joints that follow another, that time moves, or that roll.
    """
    if isinstance(joint, (Revolute, Prismatic, Screw)):
        return joint.rebased(negate(joint.axis), joint.offset)
    if isinstance(joint, Fixed):
        return joint
    if (joint.limits, joint.passive, joint.armature) != (None, None, 0.0):
        # numbers per freedom would belong to other freedoms
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
"""How well joints must fit their bodies; loops that are open by more have no such state."""


@public
def recut_state(
    model: Model, other: Model, q: ArrayLike, v: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Return a state of a robot in the variables of the same robot cut elsewhere.

    Args:
        model: The robot.
        other: The same, from `recut`.
        q: Position of the first with closed loops [m or rad], shape (nq,).
        v: Joint velocity of the first that keeps them closed [m/s or rad/s], shape (nv,); none by
            default.

    Returns:
        Position and velocity of the other, shapes (nq,) and (nv,).

    Raises:
        ModelError: If a joint of the other cannot be where the bodies are: loops are open, or the
            robots are not the same.
    """
    at = np.asarray(model.normalize(q))
    rates = np.zeros(model.nv) if v is None else vector("v", v, model.nv)
    places = places_of(model, at)
    twists = _twists(model, at, rates)
    # bodies that only carry a welded one have its place, but for the weld
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
            found = joint_position(joint, *_in(stands, places[body.name]))
            if found.error > FIT_TOLERANCE:
                raise ModelError(
                    f"joint {joint.name!r}: cannot be where the bodies are, off by "
                    f"{found.error:.3g}; close the loops first (assemble)",
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


def _in(first: Place, second: Place) -> tuple[Array, Array]:
    """Return axes and origin of a place in another."""
    R = np.array(first.R, dtype=np.float64)
    apart = np.array(second.p, dtype=np.float64) - np.array(first.p, dtype=np.float64)
    return R.T @ np.array(second.R, dtype=np.float64), R.T @ apart


def _same_turn(model: Model, joint: str, q: Array, found: tuple[float, ...]) -> Array:
    """Return the number a hinge had before, where it is the same but for whole turns."""
    numbers = np.array(found)
    if joint not in model.joint_names or model.joint(joint).nq != len(found):
        return numbers
    before = q[model.slice(joint)]
    turns = (before - numbers) / (2.0 * np.pi)
    same = (
        model.joint(joint).kind == "revolute"
        and abs(float(turns[0]) - round(turns[0])) < FIT_TOLERANCE
    )
    return np.asarray(numbers + 2.0 * np.pi * np.round(turns)) if same else numbers


def _twists(model: Model, q: Array, v: Array) -> dict[str, Array]:
    """Return the motion of all bodies, world axes, about the world's origin, shape (6,) each."""
    at = joint_screws(model, q)
    found: dict[str, Array] = {WORLD: np.zeros(6)}
    for body in model.bodies:
        columns, variables = at.of[body.joint.name]
        found[body.name] = found[body.parent] + columns @ v[list(variables)]
    return found


KEPT_WEIGHT = 100
"""Weight of a joint that must not be cut, beyond that of any number of constraints."""


class _Line(NamedTuple):
    """A joint between two bodies, whichever of them it holds."""

    name: str
    joint: Joint
    first: str
    on_first: Pose
    """The joint frame on the first body; the joint's own pose is of no account."""
    second: str
    on_second: Pose
    """The frame that the joint moves, on the second body."""
    kept: str
    """Why it cannot be cut; empty if it can."""
    turns: bool
    """Whether it may hold its first body instead of its second."""

    @property
    def rows(self) -> int:
        """Constraints it brings where it is cut."""
        return 6 - self.joint.dof


@public
def recut(
    model: Model, cut: str | Iterable[str] | None = None, *, name: str | None = None
) -> Model:
    """Return the same mechanism with loops cut at other joints.

    Bodies, frames, names of joints and everything fixed to bodies stay; the order of joints, and
    so q and v, may change: `recut_state` tells where a state goes. Joints that bind nothing, as the
    free joint of a platform on legs, go where legs hold it, and so do named poses with open loops.

    Args:
        model: The robot.
        cut: Names of joints that are to close loops, those of loops for joints that do so now; by
            default those that bring the fewest constraints. Where these leave a cycle, the rest is
            chosen by the same rule.
        name: Name of the result; by default that of the robot.

    Raises:
        ModelError: If a joint cannot be cut: it is driven, tied, limited or sprung, or what it
            holds would hang on nothing.

    Example:
        ``tb.recut(tb.load("four_bar"), cut="output")``
    """
    lines = _lines(model)
    wanted = (cut,) if isinstance(cut, str) else tuple(cut or ())
    by_name = {line.name: line for line in lines}
    for joint in wanted:
        if joint not in by_name:
            raise UnknownNameError("joint or loop", joint, by_name, where=f"model {model.name!r}")
        if by_name[joint].kept:
            raise ModelError(
                f"joint {joint!r}: cannot be cut, {by_name[joint].kept}; cut another of its loop",
                name=joint,
            )
    held = _tree(model, lines, set(wanted))
    bodies, used = _bodies(model, held)
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
        # a free joint binds nothing: cut, it is gone
        if line.name not in used and line.joint.kind != "free"
    )
    parts = model._parts._replace(bodies=tuple(bodies), loops=(*closures, *ties), poses=())
    movable = not model.immovable_joint_names
    found = Model._of(name or model.name, parts, model.about, movable)
    poses = _poses(model, found)
    return (
        found
        if not poses
        else Model._of(found.name, parts._replace(poses=poses), model.about, movable)
    )


def _poses(model: Model, other: Model) -> tuple[tuple[str, JointPositions], ...]:
    """Return the named positions in the variables of another tree; open ones are left out."""
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
    """Return whether a joint can close a loop; a free one need not, as it forbids nothing."""
    if joint.kind == "free":
        return True
    try:
        joint.loop_constraints()
    except ModelError:
        return False
    return joint.follows is None and not joint.depends_on_time


class _Held(NamedTuple):
    """A body and the joint that holds it."""

    body: str
    parent: str
    line: _Line
    turned: bool


def _tree(model: Model, lines: list[_Line], cut: set[str]) -> list[_Held]:
    """Grow the tree from the world, joints of the most constraints first (Prim 1957)."""
    at: dict[str, list[_Line]] = {name: [] for name in (WORLD, *model.body_names)}
    for line in lines:
        at[line.first].append(line)
        at[line.second].append(line)
    order = {line.name: k for k, line in enumerate(lines)}
    reached = {WORLD: 0}
    held: list[_Held] = []
    waiting: list[tuple[int, int, int, int, _Held]] = []
    number = count()

    def offer(parent: str) -> None:
        for line in at[parent]:
            turned = line.second == parent
            if line.name in cut or (turned and not line.turns):
                continue
            body = line.first if turned else line.second
            weight = line.rows + (KEPT_WEIGHT if line.kept else 0)
            key = (-weight, reached[parent], order[line.name], next(number))
            heapq.heappush(waiting, (*key, _Held(body, parent, line, turned)))

    offer(WORLD)
    while waiting:
        step = heapq.heappop(waiting)[-1]
        if step.body not in reached:
            reached[step.body] = reached[step.parent] + 1
            held.append(step)
            offer(step.body)
    lost = [name for name in model.body_names if name not in reached]
    if lost:
        raise ModelError(
            f"body {lost[0]!r}: would hang on nothing with {', '.join(sorted(cut))} cut; cut one "
            "joint of each loop",
            name=lost[0],
        )
    used = {step.line.name for step in held}
    for line in lines:
        if line.kept and line.name not in used:
            raise ModelError(
                f"joint {line.name!r}: would have to be cut, but {line.kept}; cut another joint of "
                "its loop",
                name=line.name,
            )
    return held


def _bodies(model: Model, held: list[_Held]) -> tuple[list[Body], set[str]]:
    """Return the bodies of the new tree, with those that carry welded frames."""
    taken = set(model.frame_names)
    bodies = []
    for step in held:
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
        while carrier in taken:
            carrier += "'"
        taken.add(carrier)
        weld = Fixed(f"{step.body} on {line.name}", pose=moved.inverse())
        bodies += [Body(carrier, step.parent, joint=own), changed(body, parent=carrier, joint=weld)]
    return bodies, {step.line.name for step in held}
