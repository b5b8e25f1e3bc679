"""Frames chosen for cheap arithmetic.

Users place frames where they are easy to describe; dynamics is cheapest in frames whose joint axis
is a coordinate axis and whose placements are turns about coordinate axes. Each link may keep its
frame, or take one with z along its joint and x along the common normal to the joint of a child
(modified Denavit-Hartenberg frames; Featherstone 1987, section 8.2.1). The choice is the best one
under a simple count of operations: those of the constant moves (`placement.Cost`), and those of the
inertial numbers that are not zero. Keeping every frame is one of the choices, so the result is
never worse than that. Joint variables, and frames the user named, stay the user's.

Symbols: a link's frame (Q, o) has axes Q and origin o in the user's link coordinates.
"""

from collections.abc import Sequence

from tiburon.model.joints.axial import AxialJoint
from tiburon.model.joints.fixed import Fixed
from tiburon.model.joints.joint import Joint
from tiburon.model.joints.prismatic import Prismatic
from tiburon.model.joints.turning import across, aligned_axes
from tiburon.model.layout import WORLD_LINK, Layout, Link
from tiburon.model.numbers import Matrix3, Vec3, snap
from tiburon.model.placement import (
    BETWEEN_BODIES,
    FREE_JOINT,
    ON_WORLD,
    Cost,
    Placement,
    place_sliding,
    place_turning,
    place_whole,
)
from tiburon.model.pose import Pose
from tiburon.record import record
from tiburon.spatial import Transform
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    add,
    cross,
    dot,
    matrix_product,
    matrix_vector,
    scale,
    subtract,
    transpose,
    transpose_vector,
)

PARALLEL = 1e-9
"""Sine of the angle below which two axes are parallel: their common normal is then not unique."""

REACH = 10.0
"""Farthest foot of a common normal, in distances of the two joints.

Axes that are nearly parallel meet their normal far away. Numbers about an origin there lose as many
digits as the square of the distance has, which no operation saved is worth.
"""

MOMENT, PRODUCT = 9, 5
"""Operations added by a component of the first moment, and by an off-diagonal tensor entry."""

CHILD_AXES = 2
"""How many children, those with the largest subtrees first, a link tries to align its frame to."""


@record
class ChosenFrame:
    """The frame a link is computed in."""

    pose: Pose
    """The chosen frame in the user's link coordinates."""

    joint: Joint
    """The joint between chosen frames: same name and variables, axis along a coordinate axis."""

    placement: Transform
    """Map of motion from the parent's chosen frame to the joint frame: constants."""


@record
class _Candidate:
    """A frame a link might take."""

    Q: Matrix3
    o: Vec3
    joint: Joint

    @property
    def pose(self) -> Pose:
        """The frame in the user's link coordinates."""
        return Pose._of_rotation(self.Q, self.o)


_WORLD = _Candidate(IDENTITY3, ZERO3, Fixed("world"))


def choose_frames(layout: Layout) -> tuple[ChosenFrame, ...]:
    """Choose a frame for every link of a model."""
    frames = _cheapest(layout.links)
    chosen = []
    for link, frame in zip(layout.links, frames, strict=True):
        parent = _WORLD if link.parent == WORLD_LINK else frames[link.parent]
        placement, joint = _place(parent, link, frame)
        chosen.append(ChosenFrame(frame.pose, joint, placement.transform))
    return tuple(chosen)


def _cheapest(links: Sequence[Link]) -> list[_Candidate]:
    """Return the frames of least cost; the users' own where right angles make them cheap."""
    children: list[list[int]] = [[] for _ in links]
    size = [1] * len(links)
    for index in reversed(range(len(links))):
        carrier = links[index].parent
        if carrier != WORLD_LINK:
            children[carrier].append(index)
            size[carrier] += size[index]
    for below in children:
        below.sort(key=lambda index: (-size[index], index))
    kept = [_kept(link) for link in links]
    if all(_is_cheap(link, frame) for link, frame in zip(links, kept, strict=True)):
        return kept
    candidates = [
        [frame, *_aligned(link, [links[i] for i in below])]
        for link, frame, below in zip(links, kept, children, strict=True)
    ]
    return _best(links, children, candidates)


def _best(
    links: Sequence[Link],
    children: Sequence[Sequence[int]],
    candidates: Sequence[Sequence[_Candidate]],
) -> list[_Candidate]:
    """Pick one candidate per link so that the sum of all costs is least, from the leaves inward."""
    # by link and candidate: the least cost of the link and all beyond it, and the children's picks
    cost: list[list[int]] = [[] for _ in links]
    picks: list[list[list[int]]] = [[] for _ in links]

    def pick(parent: _Candidate, child: int) -> tuple[int, int]:
        """Return the least cost of a child and all beyond it, and which candidate gives it."""
        weight = _weight(links[child])
        return min(
            (_place(parent, links[child], frame)[0].cost(weight) + cost[child][number], number)
            for number, frame in enumerate(candidates[child])
        )

    for index in reversed(range(len(links))):
        for frame in candidates[index]:
            below = [pick(frame, child) for child in children[index]]
            cost[index].append(_inertia_cost(links[index], frame) + sum(c for c, _ in below))
            picks[index].append([number for _, number in below])
    numbers = [
        pick(_WORLD, index)[1] if link.parent == WORLD_LINK else 0
        for index, link in enumerate(links)
    ]
    for index, carried in enumerate(children):
        for child, number in zip(carried, picks[index][numbers[index]], strict=True):
            numbers[child] = number
    return [frames[number] for frames, number in zip(candidates, numbers, strict=True)]


def _weight(link: Link) -> Cost:
    """Return what the moves in front of a link's joint cost."""
    if link.parent == WORLD_LINK:
        return ON_WORLD
    return BETWEEN_BODIES if isinstance(link.joint, AxialJoint) else FREE_JOINT


def _place(parent: _Candidate, link: Link, frame: _Candidate) -> tuple[Placement, Joint]:
    """Return the placement of a link's frame in its parent's, and the joint between them."""
    # R = Q_parent^T R_link Q, p = Q_parent^T (p_link + R_link o - o_parent); most frames are kept
    R, p = link.pose.rotation, link.pose.translation
    if frame.o is not ZERO3:
        p = add(p, matrix_vector(R, frame.o))
    if frame.Q is not IDENTITY3:
        R = matrix_product(R, frame.Q)
    if parent.o is not ZERO3:
        p = subtract(p, parent.o)
    if parent.Q is not IDENTITY3:
        R, p = matrix_product(transpose(parent.Q), R), transpose_vector(parent.Q, p)
    a, b, c, d, e, f, g, h, i = snap([*R[0], *R[1], *R[2]])
    R = ((a, b, c), (d, e, f), (g, h, i))
    joint = frame.joint
    coordinate = joint.coordinate() if isinstance(joint, AxialJoint) else None
    if not isinstance(joint, AxialJoint) or coordinate is None:
        return place_whole(R, p), joint
    k, sign = coordinate
    place = place_sliding if isinstance(joint, Prismatic) else place_turning
    placement = place(R, p, k)
    if placement.offset == 0.0:
        return placement, joint
    return placement, joint.rebased(joint.axis, joint.offset + sign * placement.offset)


def _is_cheap(link: Link, frame: _Candidate) -> bool:
    """Return whether a link's own frame is reached by right angles alone."""
    entries = {abs(x) for row in (*link.pose.rotation, *frame.Q) for x in row}
    return entries <= {0.0, 1.0}


def _kept(link: Link) -> _Candidate:
    """Return the user's frame, turned only if the joint axis lies on none of its axes."""
    joint = link.joint
    if not isinstance(joint, AxialJoint):
        Q, turned = joint.canonical()
        return _Candidate(Q, ZERO3, turned)
    if joint.coordinate() is not None:
        return _Candidate(IDENTITY3, ZERO3, joint)
    return _Candidate(aligned_axes(joint.axis, across(joint.axis)), ZERO3, _along_z(joint))


def _aligned(link: Link, children: Sequence[Link]) -> list[_Candidate]:
    """Return frames with z along the joint and x along the common normal to a child's joint."""
    joint = link.joint
    if not isinstance(joint, AxialJoint):
        return []
    frames = []
    axial = [child for child in children if isinstance(child.joint, AxialJoint)]
    for child in axial[:CHILD_AXES]:
        assert isinstance(child.joint, AxialJoint)
        direction = matrix_vector(child.pose.rotation, child.joint.axis)
        x, foot = _common_normal(joint.axis, child.pose.translation, direction)
        point = child.pose.translation
        if dot(foot, foot) > REACH * REACH * dot(point, point):
            continue
        frames.append(_Candidate(aligned_axes(joint.axis, x), foot, _along_z(joint)))
    return frames


def _common_normal(z: Vec3, point: Vec3, direction: Vec3) -> tuple[Vec3, Vec3]:
    """Return the common normal from the line along z through the origin to another line.

    Args:
        z: Unit direction of the first line.
        point: A point of the other line.
        direction: Its unit direction.

    Returns:
        A vector along the normal, of any length, and its foot on the first line. Parallel lines
        are joined at the origin.
    """
    normal = cross(z, direction)
    sine2 = dot(normal, normal)
    if sine2 > PARALLEL * PARALLEL:
        # the foot s z satisfies (point + t direction - s z) . (direction x normal) = 0
        across = cross(direction, normal)
        return normal, scale(z, dot(point, across) / dot(z, across))
    normal = subtract(point, scale(z, dot(point, z)))
    if dot(normal, normal) > PARALLEL * PARALLEL * max(1.0, dot(point, point)):
        return normal, ZERO3
    # one line: any normal will do
    least = min(range(3), key=lambda i: abs(z[i]))
    return cross(IDENTITY3[least], z), ZERO3


def _along_z(joint: AxialJoint) -> AxialJoint:
    return joint.rebased((0.0, 0.0, 1.0), joint.offset)


def _inertia_cost(link: Link, frame: _Candidate) -> int:
    """Return the operations of a link's first moments and products of inertia in a frame."""
    to_frame = frame.pose.inverse()
    moments: list[float] = [0.0] * 3
    products: list[float] = [0.0] * 3
    size = 0.0
    for body, pose in link.members:
        rigid = (to_frame @ pose).transform.inertia_to_parent(body.inertia.rigid)
        _, xy, xz, _, yz, _ = rigid.Ibar
        moments = [a + b for a, b in zip(moments, rigid.h, strict=True)]
        products = [a + b for a, b in zip(products, (xy, xz, yz), strict=True)]
        size += rigid.mass + max(map(abs, rigid.Ibar))
    rounding = 1e-12 * size
    return MOMENT * sum(abs(x) > rounding for x in moments) + PRODUCT * sum(
        abs(x) > rounding for x in products
    )
