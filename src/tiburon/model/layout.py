"""Rigid links: bodies that fixed joints hold together are one link.

A link moves as its first body does and uses that body's frame. The others, and every named frame,
become places on it.
"""

from collections.abc import Sequence

from tiburon.model.body import WORLD, Body, Frame
from tiburon.model.joints import Joint
from tiburon.model.pose import Pose
from tiburon.record import record

WORLD_LINK = -1
"""Index of the link that never moves."""

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
    """The body held by the joint; the link uses its frame."""

    parent: int
    """Index of the link that carries the joint, or `WORLD_LINK`."""

    pose: Pose
    """The joint frame in coordinates of the parent link."""

    members: tuple[tuple[Body, Pose], ...]
    """All bodies of the link with mass, each with its frame in link coordinates."""

    @property
    def joint(self) -> Joint:
        """The joint that moves the link."""
        return self.body.joint


@record
class Layout:
    """The links of a model, parents first, and where every named frame sits."""

    links: tuple[Link, ...]
    places: dict[str, Place]
    """By name: the world, every body, every extra frame."""


def join_fixed(bodies: Sequence[Body], frames: Sequence[Frame]) -> Layout:
    """Join bodies that cannot move in each other.

    Args:
        bodies: Parents first.
        frames: Extra frames.
    """
    places = {WORLD: Place(WORLD_LINK, _SAME_FRAME)}
    heads: list[tuple[Body, int, Pose]] = []
    members: list[list[tuple[Body, Pose]]] = []
    for body in bodies:
        carrier = places[body.parent]
        joint_pose = carrier.pose @ body.joint.pose
        if not body.joint.is_rigid:
            places[body.name] = Place(len(heads), _SAME_FRAME)
            heads.append((body, carrier.link, joint_pose))
            members.append([])
        else:
            places[body.name] = Place(carrier.link, joint_pose)
        place = places[body.name]
        # what is fixed to the world never moves, so its mass plays no part
        inertia = body.inertia
        if place.link != WORLD_LINK and (inertia.mass > 0.0 or any(inertia.tensor)):
            members[place.link].append((body, place.pose))
    for frame in frames:
        carrier = places[frame.body]
        places[frame.name] = Place(carrier.link, carrier.pose @ frame.pose)
    links = tuple(
        Link(body, parent, pose, tuple(parts))
        for (body, parent, pose), parts in zip(heads, members, strict=True)
    )
    return Layout(links, places)
