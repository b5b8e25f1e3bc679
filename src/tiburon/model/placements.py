"""Geometry at run time: poses of joints, frames and ends of loops as parameters.

A pose has two parameters, each of three numbers: "elbow.translation", the origin in axes of what
carries it, and "elbow.rotation", a rotation vector: the rotation is about it, by its length.
Rotation vectors have no constraint among their numbers, and derivatives by them are regular up to a
full turn.

Placements of a plan that depend on such numbers are chains of poses, of which some are constant:

    P_link = C_parent^-1 A P C,

with A the poses of bodies that are welded to the parent, P that of the joint and C the frame that
was chosen for the link. C and C_parent are fixed in their links and stay what they are for other
geometry. A body that is welded to a moving link with a pose that is a parameter becomes a link of
its own, without degrees of freedom: so inertias about origins of links stay constant.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tiburon.model.body import WORLD
from tiburon.model.closure import JointCoupling, LoopClosure
from tiburon.model.pose import Pose
from tiburon.record import record
from tiburon.spatial import Factor, Rotation, Scalar, Scalars, Transform, Translation
from tiburon.spatial.rotations import matrix_to_rotation_vector, rotation_vector_to_matrix
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    Mat3,
    Vec3,
    add,
    matrix_product,
    matrix_vector,
    transpose,
)

if TYPE_CHECKING:
    from tiburon.model.closure import Closure
    from tiburon.model.model import Model
    from tiburon.model.reframe import Layout

JOINT, FRAME, LOOP = "joint", "frame", "loop"
"""Kinds of poses."""

TRANSLATION, ROTATION = "translation", "rotation"
"""Words of the two parameters of a pose."""

ENDS = ("first", "second")
"""Words of the ends of a loop; further ends of a closure have their number."""


@record
class Placed:
    """A pose of a robot."""

    kind: str
    """"joint", "frame" or "loop"."""

    owner: str
    """Name of the joint, frame or loop."""

    end: int
    """Which end of a loop; 0 for others."""

    pose: Pose
    """The pose itself."""

    @property
    def word(self) -> str:
        """Name without the parameter: that of the owner, and the end."""
        if self.kind != LOOP:
            return self.owner
        return f"{self.owner}.{ENDS[self.end] if self.end < len(ENDS) else self.end}"

    def value(self, word: str) -> tuple[float, float, float]:
        """Return the translation [m] or the rotation vector [rad]."""
        if word == TRANSLATION:
            return self.pose.translation
        x, y, z = matrix_to_rotation_vector(self.pose.rotation)
        return (float(x), float(y), float(z))


def placed_parts(model: "Model") -> dict[str, Placed]:
    """Return all poses that may be parameters, by the first words of their names.

    Joints come first, frames and loops of the same name have their kind in front of it.
    """
    found: dict[str, Placed] = {}
    listed = [Placed(JOINT, joint.name, 0, joint.pose) for joint in model.joints]
    listed += [Placed(FRAME, frame.name, 0, frame.pose) for frame in model.frames]
    for loop in model.loops:
        listed += [Placed(LOOP, loop.name, k, pose) for k, pose in enumerate(ends_of(loop))]
    for part in listed:
        word = part.word
        found[f"{part.kind} {word}" if word in found else word] = part
    return found


def ends_of(loop: "Closure") -> tuple[Pose, ...]:
    """Return the poses that place the ends of a loop on what they are fixed to."""
    if isinstance(loop, JointCoupling):
        return ()
    if isinstance(loop, LoopClosure):
        return (loop.joint.pose, loop.second_pose)
    return tuple(pose for _, pose in loop.ends)


class Slot(NamedTuple):
    """A pose of which one or both parameters are taken at run time."""

    pose: Pose
    translation: int | None
    """Place of its first number among all; None if it is constant."""

    rotation: int | None
    """Likewise."""

    def at(self, numbers: Scalars) -> tuple[Mat3, Vec3]:
        """Return rotation and translation for given numbers, which may be traced."""
        R: Mat3 = self.pose.rotation
        p: Vec3 = self.pose.translation
        if self.rotation is not None:
            R = rotation_vector_to_matrix(numbers[self.rotation : self.rotation + 3])
        if self.translation is not None:
            x, y, z = numbers[self.translation : self.translation + 3]
            p = (x, y, z)
        return R, p


Chain: TypeAlias = tuple[Pose | Slot, ...]
"""Poses from a plan body to a frame, each in the one before it."""


def has_slot(chain: Chain) -> bool:
    """Return whether a chain depends on parameters."""
    return any(isinstance(link, Slot) for link in chain)


def turns(chain: Chain) -> bool:
    """Return whether the rotation of a chain depends on parameters."""
    return any(isinstance(link, Slot) and link.rotation is not None for link in chain)


def joined(*links: Pose | Slot) -> Chain:
    """Return a chain with neighboring constant poses multiplied."""
    found: list[Pose | Slot] = []
    for link in links:
        if found and isinstance(link, Pose) and isinstance(found[-1], Pose):
            found[-1] = found[-1] @ link
        else:
            found.append(link)
    return tuple(found)


def evaluate(chain: Chain, numbers: Scalars) -> tuple[Mat3, Vec3]:
    """Return rotation and translation of the last frame of a chain in the first."""
    R: Mat3 = IDENTITY3
    p: Vec3 = ZERO3
    for link in chain:
        turn, shift = (
            link.at(numbers) if isinstance(link, Slot) else (link.rotation, link.translation)
        )
        p = add(p, matrix_vector(R, shift))
        R = turn if R is IDENTITY3 else matrix_product(R, turn)
    return R, p


def transform_at(chain: Chain, numbers: Scalars) -> Transform:
    """Return the map of motion over a chain."""
    R, p = evaluate(chain, numbers)
    factors: list[Factor] = [Translation(p)]
    if turns(chain) or R != IDENTITY3:
        factors.append(Rotation(transpose(R)))
    return Transform(tuple(factors))


@record
class Geometry:
    """Which placements of a plan depend on run-time parameters, and their values."""

    names: tuple[str, ...]
    """Names of the parameters in order, three numbers each."""

    numbers: tuple[Scalar, ...]
    """Their values: floats, or traced."""

    joints: tuple[tuple[int, Chain, Transform | None], ...]
    """Plan body, its placement as a chain, and the constant rotation of the chain as factors; None
    where the rotation depends on parameters."""

    frames: tuple[tuple[str, Chain], ...]
    """Frames by name."""

    ends: tuple[tuple[str, int, Chain], ...]
    """Ends of loops: name and number."""

    def structure(self) -> tuple[object, ...]:
        """Return what code depends on."""
        return (self.names, self.joints, self.frames, self.ends)

    def placement(self, chain: Chain, turn: Transform | None) -> Transform:
        """Return the placement of a body."""
        if turn is None:
            return transform_at(chain, self.numbers)
        _, p = evaluate(chain, self.numbers)
        return Transform((Translation(p), *turn.factors))


class Chains(NamedTuple):
    """All chains of a model with slots, from frames of links before frames are chosen."""

    joints: dict[int, Chain]
    """By link: from the frame of the parent link to the joint frame."""

    frames: dict[str, Chain]
    """By name: from the frame of the link, or the world, to that of a body or frame."""

    ends: dict[tuple[str, int], Chain]
    """By loop and end."""


def chains_of(model: "Model", layout: "Layout", names: Sequence[str]) -> Chains:
    """Return the chains that depend on parameters.

    Args:
        model: The robot.
        layout: Its links, on which joints with parameters are not joined.
        names: Names of the parameters in order.
    """
    places = {name: 3 * k for k, name in enumerate(names)}
    slots: dict[tuple[str, str, int], Pose | Slot] = {}
    for word, part in placed_parts(model).items():
        at = [places.get(f"{word}.{x}") for x in (TRANSLATION, ROTATION)]
        taken = at != [None, None]
        slots[part.kind, part.owner, part.end] = Slot(part.pose, *at) if taken else part.pose
    heads = {link.body.name: k for k, link in enumerate(layout.links)}
    on_link: dict[str, Chain] = {WORLD: ()}
    joints: dict[int, Chain] = {}
    for body in model.bodies:
        chain = (*on_link[body.parent], slots[JOINT, body.joint.name, 0])
        on_link[body.name] = chain
        if body.name in heads:
            on_link[body.name] = ()
            joints[heads[body.name]] = chain
    frames = dict(on_link)
    for frame in model.frames:
        frames[frame.name] = (*on_link[frame.body], slots[FRAME, frame.name, 0])
    ends = {(owner, k): slot for (kind, owner, k), slot in slots.items() if kind == LOOP}
    return Chains(
        {index: chain for index, chain in joints.items() if has_slot(chain)},
        {name: chain for name, chain in frames.items() if has_slot(chain)},
        {key: (slot,) for key, slot in ends.items() if isinstance(slot, Slot)},
    )


def moved_joints(model: "Model", names: Collection[str]) -> frozenset[str]:
    """Return the joints whose pose has parameters among those named."""
    wanted = {name.rpartition(".")[0] for name in names}
    found = placed_parts(model)
    return frozenset(found[word].owner for word in wanted if found[word].kind == JOINT)
