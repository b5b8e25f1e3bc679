"""Rigid links, and link frames chosen for cheap arithmetic.

Bodies connected by fixed joints form one link, in the frame of its first body; the other bodies and
every named frame become frames on it.

Users place frames where they are easy to describe; dynamics is cheapest in frames whose joint axis
is a coordinate axis and whose placements are rotations about coordinate axes. Each link keeps its
frame, or takes one with z along its joint and x along the common normal to the joint of a child
(modified Denavit-Hartenberg frames; Featherstone 1987, section 8.2.1). The choice minimizes a
simple operation count: that of the constant moves (`Cost`), and that of the non-zero inertial
parameters. Keeping every frame is one of the choices, so the result is never worse. Joint
variables, and frames the user named, stay the user's.

A joint about (or along) coordinate axis k of the child rotates (or slides) by a variable amount, so
its own rotation (or slide) in the placement is free: it is added to the joint's offset. The
remaining placement H = (R, p) is written

    H = T(p') . R_i(a) . R_j(b) . Q . T(d e_k) . R_k(c),

with translations T, rotations R about coordinate axes, and Q a signed permutation of axes, which
costs nothing. With modified Denavit-Hartenberg frames this is one x-screw and the joint's own
z-screw (McMillan 1994, eqs. A.1-A.7).

Symbols: a link's frame (Q, o) has axes Q and origin o in the user's link coordinates.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from tiburon.model.body import WORLD, Body, Frame
from tiburon.model.joints.axial import AxialJoint, Prismatic, across, aligned_axes
from tiburon.model.joints.joint import Fixed, Joint
from tiburon.model.pose import Pose
from tiburon.model.value_checks import SNAP_TOLERANCE, Matrix3, Vec3, snap
from tiburon.record import record
from tiburon.spatial import AxisRotation, Factor, Rotation, Transform, Translation
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
    bodies: Sequence[Body],
    frames: Sequence[Frame],
    joints: Mapping[str, Joint] | None = None,
    apart: Collection[str] = (),
) -> Layout:
    """Merge bodies without relative motion.

    Args:
        bodies: Parents first.
        frames: Extra frames.
        joints: Replacement of each body's joint in a plan, by its name; itself by default.
        apart: Fixed joints on moving links that are not merged.
    """
    joints = {body.joint.name: body.joint for body in bodies} if joints is None else joints
    places = {WORLD: Place(WORLD_LINK, _SAME_FRAME)}
    heads: list[tuple[Body, int, Pose]] = []
    members: list[list[tuple[Body, Pose]]] = []
    for body in bodies:
        carrier = places[body.parent]
        joint_pose = carrier.pose @ body.joint.pose
        # a user's subclass of Fixed may place its body elsewhere
        name = body.joint.name
        is_apart = name in apart and carrier.link != WORLD_LINK
        if not body.joint.is_rigid or joints[name] is not body.joint or is_apart:
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


ROUNDING_TOLERANCE = 1e-14
"""Components of a translation below this fraction of its length are rounding, and set to zero."""


@record
class Cost:
    """Multiplications and additions that a move adds to forward dynamics."""

    turn: int
    """For each rotation about a coordinate axis."""

    step: int
    """For each component of a translation."""


BETWEEN_BODIES = Cost(turn=89, step=36)
"""Articulated inertia (53, 24), velocity, acceleration and force (12, 4 each) pass the joint."""

FREE_JOINT = Cost(turn=36, step=12)
"""A free joint passes no inertia on."""

ON_WORLD = Cost(turn=6, step=0)
"""Only gravity passes a joint on the world."""


@record
class Placement:
    """A placement as elementary moves."""

    transform: Transform
    """The constant moves, from the parent's frame to the joint frame."""

    offset: float
    """The move about or along the joint axis, added to the joint's offset [rad or m]."""

    turns: int
    """Number of rotations other than by right angles."""

    steps: int
    """Number of non-zero translation components."""

    def cost(self, cost: Cost) -> int:
        """Return the operations the constant moves add."""
        return self.turns * cost.turn + self.steps * cost.step


def place_whole(R: Matrix3, p: Vec3) -> Placement:
    """Decompose a placement whose joint has no offset; R from child to parent axes."""
    factors: list[Factor] = _translation(p)
    turns = 0
    if R != IDENTITY3:
        factors.append(Rotation(transpose(R)))
        # a full rotation matrix costs a vector as much as two axis rotations, and an inertia more
        turns = 0 if _is_permutation(R) else 2
    return Placement(Transform(tuple(factors)), 0.0, turns, _count(p))


def place_turning(R: Matrix3, p: Vec3, k: int) -> Placement:
    """Decompose the placement of a joint that rotates about coordinate axis k of the child."""
    rotations, turns, angle = _aim(R, k)
    # moving the origin along the joint axis may clear components
    before, along = min(
        _splits(p, _column(R, k)), key=lambda split: _count(split[0]) + (split[1] != 0.0)
    )
    after = _translation(_on_axis(k, along))
    factors = (*_translation(before), *rotations, *after)
    return Placement(Transform(factors), angle, turns, _count(before) + len(after))


def place_sliding(R: Matrix3, p: Vec3, k: int) -> Placement:
    """Decompose the placement of a joint that translates along coordinate axis k of the child."""
    rotations, turns, angle = _aim(R, k)
    if angle != 0.0:
        last = AxisRotation(k, *snap((math.cos(angle), math.sin(angle))))
        rotations = [*rotations, last]
        turns += 0.0 not in (last.cosine, last.sine)
    before, along = min(_splits(p, _column(R, k)), key=lambda split: _count(split[0]))
    factors = (*_translation(before), *rotations)
    return Placement(Transform(factors), along, turns, _count(before))


def _aim(R: Matrix3, k: int) -> tuple[list[Factor], int, float]:
    """Factor R into moves that align the child's axis k, and a rotation about it.

    Returns:
        The moves, how many of them are not by right angles, and the angle of the last rotation
        [rad].
    """
    if _is_permutation(R):
        return _permutation(R), 0, 0.0
    n = _column(R, k)
    l, m = (k + 1) % 3, (k + 2) % 3
    zeros = [i for i in range(3) if n[i] == 0.0]
    aim: list[AxisRotation] = []
    Q: Matrix3 = IDENTITY3
    if len(zeros) == 2:
        Q = _axes_with(k, n)
    elif zeros == [k]:
        # n = R_k e_l: align axis l, then rename it k
        aim = [_turn(k, n[l], n[m])]
        Q = _axes_with(k, _on_axis(l, 1.0))
    elif zeros == [l]:
        aim = [_turn(l, n[k], -n[m])]
    elif zeros == [m]:
        aim = [_turn(m, n[k], n[l])]
    else:
        # azimuth and tilt, as in n = R_z R_x e_z
        aim = [_turn(k, -n[m], n[l]), _turn(l, n[k], math.hypot(n[l], n[m]))]
    done = Q
    for turn in reversed(aim):
        done = matrix_product(_matrix(turn), done)
    # the remaining factor of R rotates about axis k
    rest = matrix_product(transpose(done), R)
    angle = math.atan2(rest[m][l], rest[l][l])
    return [*aim, *_permutation(Q)], len(aim), angle if abs(angle) > SNAP_TOLERANCE else 0.0


def _turn(axis: int, cosine: float, sine: float) -> AxisRotation:
    """Return cosine and sine of a direction in a coordinate plane."""
    length = math.hypot(cosine, sine)
    c, s = snap((cosine / length, sine / length))
    return AxisRotation(axis, c, s)


def _matrix(turn: AxisRotation) -> Matrix3:
    """Return the rotation matrix from child to parent axes."""
    x, y, z = IDENTITY3
    return transpose(
        (turn.direction_to_parent(x), turn.direction_to_parent(y), turn.direction_to_parent(z))
    )


def _axes_with(k: int, n: Vec3) -> Matrix3:
    """Return a proper permutation of axes with signs whose column k is the coordinate axis n."""
    m = next(i for i in range(3) if n[i] != 0.0)
    rows = [[0.0] * 3 for _ in range(3)]
    rows[m][k] = n[m]
    rows[(m + 1) % 3][(k + 1) % 3] = 1.0
    # both signs together keep the determinant at +1
    rows[(m + 2) % 3][(k + 2) % 3] = n[m]
    (a, b, c), (d, e, f), (g, h, i) = rows
    return ((a, b, c), (d, e, f), (g, h, i))


def _splits(p: Vec3, n: Vec3) -> list[tuple[Vec3, float]]:
    """Return ways to write p = rest + d n: d = 0, and each d that clears a component of p."""
    splits = [(_clean(p, _size(p)), 0.0)]
    for i in range(3):
        # dividing by a small component would give a large d
        if p[i] != 0.0 and abs(n[i]) > 0.1:
            d = p[i] / n[i]
            x, y, z = (0.0 if j == i else p[j] - d * n[j] for j in range(3))
            splits.append((_clean((x, y, z), _size(p) + abs(d)), d))
    return splits


def _clean(p: Vec3, size: float) -> Vec3:
    """Set values that are rounding errors, relative to a size, to zero."""
    x, y, z = (0.0 if abs(a) <= ROUNDING_TOLERANCE * size else a for a in p)
    return (x, y, z)


def _size(p: Vec3) -> float:
    return max(map(abs, p))


def _count(p: Vec3) -> int:
    return sum(x != 0.0 for x in p)


def _column(R: Matrix3, k: int) -> Vec3:
    return (R[0][k], R[1][k], R[2][k])


def _on_axis(k: int, length: float) -> Vec3:
    x, y, z = (length if i == k else 0.0 for i in range(3))
    return (x, y, z)


def _translation(p: Vec3) -> list[Factor]:
    return [Translation(p)] if any(p) else []


def _permutation(Q: Matrix3) -> list[Factor]:
    return [] if Q == IDENTITY3 else [Rotation(transpose(Q))]


def _is_permutation(R: Matrix3) -> bool:
    """Return whether all entries are 0, 1 or -1."""
    return all(x in (0.0, 1.0, -1.0) for row in R for x in row)


PARALLEL_SINE = 1e-9
"""Sine of the angle below which two axes are parallel: their common normal is then not unique."""

MAX_NORMAL_DISTANCE = 10.0
"""Largest distance of the foot of a common normal, in distances of the two joints. The normal of
nearly parallel axes is far away, and inertial parameters about an origin there lose digits with the
square of the distance.
"""

MOMENT, PRODUCT = 9, 5
"""Operations added by a component of the first moment, and by an off-diagonal tensor entry."""

CHILD_AXES = 2
"""Number of children, largest subtrees first, to which a link tries to align its frame."""


@record
class ChosenFrame:
    """The chosen frame of a link."""

    pose: Pose
    """The chosen frame in the user's link coordinates."""

    joint: Joint
    """The joint between chosen frames: same name and variables, axis along a coordinate axis."""

    placement: Transform
    """Map of motion from the parent's chosen frame to the joint frame: constants."""


@record
class _Candidate:
    """A candidate frame of a link."""

    Q: Matrix3
    o: Vec3
    joint: Joint

    @property
    def pose(self) -> Pose:
        """The frame in the user's link coordinates."""
        return Pose._of_rotation(self.Q, self.o)


_WORLD = _Candidate(IDENTITY3, ZERO3, Fixed("world"))


def choose_frames(
    layout: Layout, moved: Collection[int] = (), turned: Collection[int] = ()
) -> tuple[ChosenFrame, ...]:
    """Choose a frame for every link of a model.

    Args:
        layout: The links.
        moved: Links whose placement has a translation that is not constant: it is left out.
        turned: Links of which also the rotation is not: it is left out, too.
    """
    frames = _cheapest(layout.links)
    chosen = []
    for index, (link, frame) in enumerate(zip(layout.links, frames, strict=True)):
        parent = _WORLD if link.parent == WORLD_LINK else frames[link.parent]
        if index in turned:
            chosen.append(ChosenFrame(frame.pose, frame.joint, Transform()))
            continue
        placement, joint = _place(parent, link, frame, is_moved=index in moved)
        chosen.append(ChosenFrame(frame.pose, joint, placement.transform))
    return tuple(chosen)


def _cheapest(links: Sequence[Link]) -> list[_Candidate]:
    """Return the frames of least cost; the users' own where all angles are right angles."""
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
    """Choose candidates of least total cost by dynamic programming from the leaves."""
    # by link and candidate: the least cost of the link and all beyond it, and the children's picks
    cost: list[list[int]] = [[] for _ in links]
    picks: list[list[list[int]]] = [[] for _ in links]

    def pick(parent: _Candidate, child: int) -> tuple[int, int]:
        """Return the least cost of a child's subtree, and the candidate that attains it."""
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
    """Return the cost of the moves before a link's joint."""
    if link.parent == WORLD_LINK:
        return ON_WORLD
    return BETWEEN_BODIES if isinstance(link.joint, AxialJoint) else FREE_JOINT


def _place(
    parent: _Candidate, link: Link, frame: _Candidate, is_moved: bool = False
) -> tuple[Placement, Joint]:
    """Return the placement of a link's frame in its parent's, and the joint between them.

    Of a link that is moved the rotation alone is placed.
    """
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
    p = ZERO3 if is_moved else p
    joint = frame.joint
    coordinate = joint.coordinate() if isinstance(joint, AxialJoint) else None
    if not isinstance(joint, AxialJoint) or coordinate is None:
        return place_whole(R, p), joint
    k, sign = coordinate
    place = place_sliding if isinstance(joint, Prismatic) else place_turning
    placement = place(R, p, k)
    if placement.offset == 0.0:
        return placement, joint
    return placement, joint.rebased(joint.axis, joint.offset_and(sign * placement.offset))


def _is_cheap(link: Link, frame: _Candidate) -> bool:
    """Return whether a link's own frame needs rotations by right angles only."""
    entries = {abs(x) for row in (*link.pose.rotation, *frame.Q) for x in row}
    return entries <= {0.0, 1.0}


def _kept(link: Link) -> _Candidate:
    """Return the user's frame, rotated only if the joint axis is not one of its axes."""
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
        if dot(foot, foot) > MAX_NORMAL_DISTANCE * MAX_NORMAL_DISTANCE * dot(point, point):
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
    if sine2 > PARALLEL_SINE * PARALLEL_SINE:
        # the foot s z satisfies (point + t direction - s z) . (direction x normal) = 0
        across = cross(direction, normal)
        return normal, scale(z, dot(point, across) / dot(z, across))
    normal = subtract(point, scale(z, dot(point, z)))
    if dot(normal, normal) > PARALLEL_SINE * PARALLEL_SINE * max(1.0, dot(point, point)):
        return normal, ZERO3
    # the same line: any normal will do
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
