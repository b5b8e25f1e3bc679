"""Rigid links: bodies connected by fixed joints form one link.

A link uses the frame of its first body. The other bodies, and every named frame, become frames on
it.
"""

from collections.abc import Mapping, Sequence

from tiburon.model.body import WORLD, Body, Frame
from tiburon.model.joints import Joint
from tiburon.model.pose import Pose
from tiburon.record import record

WORLD_LINK = -1
"""Index of the world link."""

_SAME_FRAME = Pose()


@record
class Place:
    """A frame fixed on a link."""

    link: int
    """Index of the link, or `WORLD_LINK`."""

    pose: Pose
    """The frame in link coordinates."""


@record
class Link:
    """A rigid part of the robot and the joint that moves it."""

    body: Body
    """The body that the joint moves; the link uses its frame."""

    parent: int
    """Index of the link that carries the joint, or `WORLD_LINK`."""

    pose: Pose
    """The joint frame in coordinates of the parent link."""

    members: tuple[tuple[Body, Pose], ...]
    """All bodies of the link with mass, each with its frame in link coordinates."""

    joint: Joint
    """The joint that moves the link."""


@record
class Layout:
    """The links of a model, parents first, and the poses of all named frames."""

    links: tuple[Link, ...]
    places: dict[str, Place]
    """By name: the world, every body, every extra frame."""


def join_fixed(
    bodies: Sequence[Body], frames: Sequence[Frame], joints: Mapping[str, Joint] | None = None
) -> Layout:
    """Merge bodies without relative motion.

    Args:
        bodies: Parents first.
        frames: Extra frames.
        joints: Replacement of each body's joint in a plan, by its name; itself by default.
    """
    joints = {body.joint.name: body.joint for body in bodies} if joints is None else joints
    places = {WORLD: Place(WORLD_LINK, _SAME_FRAME)}
    heads: list[tuple[Body, int, Pose]] = []
    members: list[list[tuple[Body, Pose]]] = []
    for body in bodies:
        carrier = places[body.parent]
        joint_pose = carrier.pose @ body.joint.pose
        # a user's subclass of Fixed may place its body elsewhere
        if not body.joint.is_rigid or joints[body.joint.name] is not body.joint:
            places[body.name] = Place(len(heads), _SAME_FRAME)
            heads.append((body, carrier.link, joint_pose))
            members.append([])
        else:
            places[body.name] = Place(carrier.link, joint_pose)
        place = places[body.name]
        # bodies fixed to the world never move, so their mass has no effect
        inertia = body.inertia
        if place.link != WORLD_LINK and (inertia.mass > 0.0 or any(inertia.tensor)):
            members[place.link].append((body, place.pose))
    for frame in frames:
        carrier = places[frame.body]
        places[frame.name] = Place(carrier.link, carrier.pose @ frame.pose)
    links = tuple(
        Link(body, parent, pose, tuple(parts), joints[body.joint.name])
        for (body, parent, pose), parts in zip(heads, members, strict=True)
    )
    return Layout(links, places)
