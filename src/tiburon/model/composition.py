"""Composition of models: attach, remove, replace, lock joints.

The functions here transform the parts of models; `Model` validates the result. Parts refer to each
other by name only, so everything keeps its name, or gets a prefix.
"""

import copy
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple, TypeVar

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, ShapeError, UnknownNameError
from tiburon.model.actuator import Actuator
from tiburon.model.attachments import Cable, HydraulicCylinder, Spring, Thruster
from tiburon.model.body import WORLD, Body, ContactPair, ContactPoint, Frame
from tiburon.model.closure import (
    Closure,
    JointCoupling,
    LoopClosure,
    TracedClosure,
    joints_of,
    places_of,
)
from tiburon.model.configuration import as_batch
from tiburon.model.joints import Coupled, Joint
from tiburon.model.joints.joint import JointLimits, JointPassive
from tiburon.model.parts import JointPositions, Parts
from tiburon.model.placements import FRAME, JOINT, LOOP, ROTATION, TRANSLATION, Placed, ends_of
from tiburon.model.pose import Pose
from tiburon.spatial.rotations import rotation_vector_to_matrix
from tiburon.spatial.vec3 import Mat3

Part = TypeVar(
    "Part",
    Body,
    Frame,
    Joint,
    JointLimits,
    JointPassive,
    LoopClosure,
    JointCoupling,
    Thruster,
    ContactPoint,
    ContactPair,
    Actuator,
    Spring,
    HydraulicCylinder,
    Cable,
)
Ended = TypeVar("Ended", Spring, HydraulicCylinder, Cable)


PLACE_NAMES = ("name", "parent", "body", "first", "second")
"""Fields of parts that hold their own name, or that of a body or frame."""

JOINT_NAMES = ("joint", "leader")
"""Fields of parts that may hold the name of a joint."""


class Mount(NamedTuple):
    """A frame of a robot to which another robot is attached."""

    body: str
    """Name of the body, or "world"."""

    pose: Pose
    """Pose in the body's frame."""


def changed(part: Part, **values: object) -> Part:
    """Return a copy of a part with other values of some attributes.

    The constructor does not run again: it would normalize a unit axis once more, and a moved joint
    must keep its parameters to the last bit.
    """
    result = copy.copy(part)
    for name, value in values.items():
        object.__setattr__(result, name, value)
    return result


def find_mount(parts: Parts, place: str, where: str) -> Mount:
    """Find a body or frame by name.

    Args:
        parts: The robot that carries.
        place: Name of a body or frame, or "world".
        where: The element that refers to it, for messages.
    """
    for frame in parts.frames:
        if frame.name == place:
            return Mount(frame.body, frame.pose)
    names = [WORLD, *parts.names()]
    if place not in names:
        raise UnknownNameError(
            "body or frame", place, names, where=where, listing="model.frame_names"
        )
    return Mount(place, Pose())


def prefixed(parts: Parts, prefix: str) -> Parts:
    """Return the parts with a prefix before every name but "world"."""

    def named(name: str) -> str:
        return name if name == WORLD else prefix + name

    def renamed(part: Part, **inner: object) -> Part:
        given = [(item.name, getattr(part, item.name)) for item in fields(part)]
        joints = {key: prefix + x for key, x in given if key in JOINT_NAMES and isinstance(x, str)}
        places = {key: named(x) for key, x in given if key in PLACE_NAMES and x is not None}
        return changed(part, **{**joints, **places, **inner})

    loops: list[Closure] = []
    for loop in parts.loops:
        if isinstance(loop, LoopClosure):
            loops.append(renamed(loop, joint=_renamed(loop.joint, prefix)))
        elif isinstance(loop, JointCoupling):
            loops.append(renamed(loop))
        else:
            loops.append(loop.renamed(prefix))
    return Parts(
        bodies=tuple(renamed(x, joint=_renamed(x.joint, prefix)) for x in parts.bodies),
        frames=tuple(map(renamed, parts.frames)),
        loops=tuple(loops),
        thrusters=tuple(map(renamed, parts.thrusters)),
        contacts=tuple(map(renamed, parts.contacts)),
        actuators=tuple(map(renamed, parts.actuators)),
        springs=tuple(map(renamed, parts.springs)),
        cylinders=tuple(map(renamed, parts.cylinders)),
        cables=tuple(map(renamed, parts.cables)),
        contact_pairs=tuple(map(renamed, parts.contact_pairs)),
        # poses of two robots that share a name belong together
        poses=tuple(
            (name, {prefix + joint: q for joint, q in positions.items()})
            for name, positions in parts.poses
        ),
    )


def _renamed(joint: Joint, prefix: str) -> Joint:
    """Return a joint, and the joints it is made of, with a prefix before their names."""
    parts = {item.name: getattr(joint, item.name) for item in fields(joint)}
    inner: dict[str, object] = {
        key: _renamed(x, prefix) for key, x in parts.items() if isinstance(x, Joint)
    }
    if isinstance(joint, Coupled):
        inner["leader"] = prefix + joint.leader
    return changed(joint, name=prefix + joint.name, **inner)


def mounted(parts: Parts, mount: Mount, joint: Joint | None, name: str) -> Parts:
    """Return the parts of a robot with its world replaced by a frame of another robot.

    Args:
        parts: The robot to attach.
        mount: Pose of its world frame.
        joint: Replaces the joint of its only root body.
        name: Name of the robot, for messages.
    """
    if joint is not None:
        parts = _held_by(parts, joint, name)
    bodies = [
        changed(
            body, parent=mount.body, joint=changed(body.joint, pose=mount.pose @ body.joint.pose)
        )
        if body.parent == WORLD
        else body
        for body in parts.bodies
    ]
    frames = [
        changed(frame, body=mount.body, pose=mount.pose @ frame.pose)
        if frame.body == WORLD
        else frame
        for frame in parts.frames
    ]
    loops = [_mounted_loop(loop, mount) for loop in parts.loops]
    return parts._replace(
        bodies=tuple(bodies),
        frames=tuple(frames),
        loops=tuple(loops),
        springs=tuple(_mounted_ends(spring, mount) for spring in parts.springs),
        cylinders=tuple(_mounted_ends(cylinder, mount) for cylinder in parts.cylinders),
        cables=tuple(_mounted_ends(cable, mount) for cable in parts.cables),
    )


def _mounted_ends(part: Ended, mount: Mount) -> Ended:
    """Return a part with the world as an end point replaced by a frame of a robot."""
    if part.first == WORLD:
        point = (mount.pose @ Pose(translation=part.first_point)).translation
        return changed(part, first=mount.body, first_point=point)
    if part.second == WORLD:
        point = (mount.pose @ Pose(translation=part.second_point)).translation
        return changed(part, second=mount.body, second_point=point)
    return part


def _mounted_loop(loop: Closure, mount: Mount) -> Closure:
    """Return a loop with the world as one of its frames replaced by a frame of another robot."""
    if isinstance(loop, LoopClosure) and loop.first == WORLD:
        pose = mount.pose @ loop.joint.pose
        return changed(loop, first=mount.body, joint=changed(loop.joint, pose=pose))
    if isinstance(loop, LoopClosure) and loop.second == WORLD:
        return changed(loop, second=mount.body, second_pose=mount.pose @ loop.second_pose)
    if isinstance(loop, TracedClosure):
        stand = [
            (mount.body, mount.pose @ pose) if name == WORLD else (name, pose)
            for name, pose in loop.ends
        ]
        return loop if tuple(stand) == loop.ends else loop.moved(stand)
    return loop


def _held_by(parts: Parts, joint: Joint, name: str) -> Parts:
    """Return the parts with another joint below the only root body."""
    roots = [body.name for body in parts.bodies if body.parent == WORLD]
    if len(roots) != 1:
        raise ModelError(
            f"model {name!r}: a joint can be given for exactly one root body, got "
            f"{len(roots)} ({', '.join(roots) or 'none'}); leave joint out to keep their own",
            name=joint.name,
        )
    bodies = [changed(b, joint=joint) if b.parent == WORLD else b for b in parts.bodies]
    gone = {b.joint.name for b in parts.bodies if b.parent == WORLD}
    return _without_joints(parts, gone)._replace(bodies=tuple(bodies))


JOINT_PASSIVES = ("damping", "friction", "stiffness")
PASSIVES = (*JOINT_PASSIVES, "springs", "gravity_compensation")
"""What makes up the passive forces of a robot: of joints, between frames, on bodies."""


def without_passive(parts: Parts, quantities: Collection[str]) -> Parts:
    """Return the parts without some passive forces, each one of `PASSIVES`."""
    gone = {word: 0.0 for word in JOINT_PASSIVES if word in quantities}

    def slack(body: Body) -> Body:
        passive = body.joint.passive
        if passive is not None and gone:
            rest = None if len(gone) == len(JOINT_PASSIVES) else changed(passive, **gone)
            body = changed(body, joint=changed(body.joint, passive=rest))
        if body.gravity_compensation and "gravity_compensation" in quantities:
            body = changed(body, gravity_compensation=0.0)
        return body

    springs = () if "springs" in quantities else parts.springs
    return parts._replace(bodies=tuple(map(slack, parts.bodies)), springs=springs)


def without_limits(parts: Parts) -> Parts:
    """Return the parts without position limits of joints."""

    def free(body: Body) -> Body:
        limits = body.joint.limits
        if limits is None:
            return body
        rest = changed(limits, lower=-math.inf, upper=math.inf)
        return changed(body, joint=changed(body.joint, limits=rest))

    return parts._replace(bodies=tuple(map(free, parts.bodies)))


def _without_joints(parts: Parts, gone: Collection[str]) -> Parts:
    """Return the parts without references to some joints: actuators, couplings, poses."""
    return parts._replace(
        loops=tuple(
            loop
            for loop in parts.loops
            if isinstance(loop, LoopClosure) or not set(gone).intersection(joints_of(loop))
        ),
        actuators=tuple(a for a in parts.actuators if a.joint not in gone),
        cylinders=tuple(c for c in parts.cylinders if c.joint not in gone),
        poses=tuple(
            (name, {joint: q for joint, q in positions.items() if joint not in gone})
            for name, positions in parts.poses
        ),
    )


def joined(base: Parts, other: Parts, base_name: str, other_name: str) -> Parts:
    """Return the parts of two robots together, those of the base first.

    Raises:
        ModelError: If both use a name.
    """
    taken = base.unique_names()
    for kind, added in other.unique_names().items():
        twice = set(taken[kind]).intersection(added)
        if twice:
            name = next(name for name in added if name in twice)
            raise ModelError(
                f"model {base_name!r}: attaching {other_name!r} would use the {kind} name "
                f"{name!r} twice; pass a prefix such as prefix={other_name + '_'!r}",
                name=name,
            )
    poses: dict[str, JointPositions] = {}
    for name, positions in (*base.poses, *other.poses):
        poses[name] = {**poses.get(name, {}), **positions}
    # a contact pair of both is that of the base
    known = {frozenset((pair.first, pair.second)) for pair in base.contact_pairs}
    pairs = [p for p in other.contact_pairs if frozenset((p.first, p.second)) not in known]
    whole = Parts._make(own + more for own, more in zip(base, other, strict=True))
    contact_pairs = (*base.contact_pairs, *pairs)
    return whole._replace(contact_pairs=contact_pairs, poses=tuple(poses.items()))


def without(parts: Parts, body: str) -> Parts:
    """Return the parts without a body and everything it carries."""
    gone = {body}
    for candidate in parts.bodies:
        if candidate.parent in gone:
            gone.add(candidate.name)
    frames = tuple(f for f in parts.frames if f.body not in gone)
    places = gone.union(f.name for f in parts.frames if f.body in gone)
    rest = _without_joints(parts, {b.joint.name for b in parts.bodies if b.name in gone})
    return rest._replace(
        bodies=tuple(b for b in parts.bodies if b.name not in gone),
        frames=frames,
        loops=tuple(loop for loop in rest.loops if not places.intersection(places_of(loop))),
        thrusters=tuple(t for t in parts.thrusters if t.body not in places),
        contacts=tuple(c for c in parts.contacts if c.body not in places),
        springs=tuple(s for s in parts.springs if not places.intersection((s.first, s.second))),
        cylinders=tuple(c for c in rest.cylinders if not places.intersection((c.first, c.second))),
        cables=tuple(c for c in parts.cables if not places.intersection((c.first, c.second))),
        contact_pairs=tuple(p for p in parts.contact_pairs if not gone & {p.first, p.second}),
    )


def locked(parts: Parts, positions: Mapping[str, Sequence[float]]) -> Parts:
    """Return the parts with some joints locked: fixed joints of the same names.

    Args:
        parts: A robot.
        positions: The joint's position variables by the joint's name [m or rad].
    """
    bodies = []
    for body in parts.bodies:
        joint = body.joint
        # coupled joints are locked with their leader
        moved_by = joint.follows or joint.name
        if moved_by in positions:
            body = changed(body, joint=joint.locked(positions[moved_by]))
        bodies.append(body)
    still = {b.joint.name for b in bodies if b.joint.dof == 0}
    loops = [_with_locked(loop, still, positions) for loop in parts.loops]
    # couplings of locked joints are resolved; their actuators are removed
    rest = _without_joints(parts._replace(loops=()), still)
    kept = tuple(loop for loop in loops if loop is not None)
    return rest._replace(bodies=tuple(bodies), loops=kept)


def _with_locked(
    loop: Closure, still: set[str], positions: Mapping[str, Sequence[float]]
) -> Closure | None:
    """Return a loop after some joints were locked, or None if no constraint remains."""
    touched = still.intersection(joints_of(loop))
    if not touched:
        return loop
    if not isinstance(loop, JointCoupling):
        raise ModelError(
            f"loop {loop.name!r}: depends on the joint {sorted(touched)[0]!r}, which cannot be "
            "locked; write the loop without it, or leave the loop out",
            name=loop.name,
        )
    if loop.joint not in still:
        if loop.leader is None or loop.leader not in positions:
            raise ModelError(
                f"loop {loop.name!r}: its leader {loop.leader!r} follows a locked joint; lock "
                f"{loop.joint!r} too, or leave the loop out",
                name=loop.name,
            )
        (x,) = positions[loop.leader]
        value = float(np.polynomial.polynomial.polyval(x, loop.coefficients))
        return changed(loop, leader=None, coefficients=(value,))
    if loop.leader is None or loop.leader in still:
        return None
    raise ModelError(
        f"loop {loop.name!r}: joint {loop.joint!r} cannot be locked while its leader "
        f"{loop.leader!r} moves; lock both, or the leader alone",
        name=loop.name,
    )


def locked_positions(
    joints: str | Iterable[str] | Mapping[str, ArrayLike],
    find: Callable[[str], Joint],
    read: Callable[[str], NDArray[np.float64]],
) -> dict[str, list[float]]:
    """Return the position of every joint to be locked.

    Args:
        joints: Names, or positions by name.
        find: Returns a joint by name, or raises.
        read: Returns a joint's position, shape (nq of the joint,), where only its name is given.
    """
    names = (joints,) if isinstance(joints, str) else joints
    positions: dict[str, list[float]] = {}
    for name in names:
        joint = find(name)
        if joint.follows is not None:
            raise ModelError(
                f"joint {name!r}: follows {joint.follows!r} and cannot be locked alone; lock the "
                "leader",
                name=name,
            )
        value = joints[name] if isinstance(joints, Mapping) else read(name)
        argument = f"position of joint {name!r}"
        expected = f"{joint.nq} (one position of a {joint.kind} joint)"
        numbers = as_batch(np.atleast_1d(value), joint.nq, argument, expected)
        if numbers.ndim > 1:
            raise ShapeError(argument, expected, f"shape {numbers.shape}")
        positions[name] = numbers.tolist()
    return positions


def with_placements(
    parts: Parts, known: Mapping[str, Placed], given: Mapping[str, Mapping[str, Sequence[float]]]
) -> Parts:
    """Return parts of a model with other poses of joints, frames and ends of loops.

    Args:
        parts: The parts.
        known: Their poses, as `placed_parts` returns them.
        given: By the same names: "translation" [m], "rotation", a vector [rad], or both.
    """
    poses: dict[tuple[str, str, int], Pose] = {}
    for word, values in given.items():
        part = known[word]
        R: Mat3 = part.pose.rotation
        if ROTATION in values:
            R = rotation_vector_to_matrix([float(x) for x in values[ROTATION]])
        p = values.get(TRANSLATION, part.pose.translation)
        poses[part.kind, part.owner, part.end] = Pose(R, (p[0], p[1], p[2]))

    def joint(kind: str, owner: str, own: Joint) -> Joint:
        pose = poses.get((kind, owner, 0))
        return own if pose is None else changed(own, pose=pose)

    def loop(own: Closure) -> Closure:
        if not any((LOOP, own.name, k) in poses for k in range(len(ends_of(own)))):
            return own
        if isinstance(own, LoopClosure):
            second = poses.get((LOOP, own.name, 1), own.second_pose)
            return changed(own, joint=joint(LOOP, own.name, own.joint), second_pose=second)
        assert not isinstance(own, JointCoupling)
        return own.moved(
            [
                (name, poses.get((LOOP, own.name, k), pose))
                for k, (name, pose) in enumerate(own.ends)
            ]
        )

    return parts._replace(
        bodies=tuple(
            changed(body, joint=joint(JOINT, body.joint.name, body.joint)) for body in parts.bodies
        ),
        frames=tuple(
            changed(frame, pose=poses.get((FRAME, frame.name, 0), frame.pose))
            for frame in parts.frames
        ),
        loops=tuple(map(loop, parts.loops)),
    )
