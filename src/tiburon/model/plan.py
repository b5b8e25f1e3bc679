"""The private layout that algorithms run over.

A plan holds only what moves: one plan body per joint with freedom, parents first, in frames chosen
for cheap arithmetic (`reframe`). Joint variables are the user's: positions, velocities and forces
of a plan are those of its model. Frames lead back to what the user named.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tiburon.errors import ShapeError, UnknownNameError
from tiburon.model.body import Body
from tiburon.model.joints import Coupled, Joint
from tiburon.model.pose import Pose
from tiburon.model.reframe import choose_frames
from tiburon.model.rigid_links import WORLD_LINK, join_fixed
from tiburon.native.cache_file import blake2b
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, RigidInertia, Scalar, Transform
from tiburon.trace.declared import structure_text

if TYPE_CHECKING:
    from tiburon.model.model import Model

WORLD_BODY = WORLD_LINK
"""Parent index of bodies whose joint is fixed in the world."""

NUMBERS = (
    "mass",
    "moment_x",
    "moment_y",
    "moment_z",
    "inertia_xx",
    "inertia_xy",
    "inertia_xz",
    "inertia_yy",
    "inertia_yz",
    "inertia_zz",
)
"""Inertial numbers about the plan frame's origin: mass [kg], moment [kg m], tensor [kg m^2]."""

ZERO = 1e-14
"""Inertial numbers below this fraction of what was summed are rounding, and zero."""


class RunTime(NamedTuple):
    """Parts of a robot of which code takes every number at run time, zeros included."""

    inertias: frozenset[str] = frozenset()
    """Names of bodies whose mass, center of mass and inertia tensor do."""

    fluids: frozenset[str] = frozenset()
    """Names of bodies whose numbers in water do."""

    armatures: frozenset[str] = frozenset()
    """Names of joints whose armature does."""

    passives: frozenset[str] = frozenset()
    """What of friction and springs of joints does: names such as "knee.damping"."""


@record
class PlanBody:
    """A link of the robot in the frame chosen for it."""

    index: int
    """Position in `Plan.bodies`."""

    name: str
    """Name of the user's body the link carries in front."""

    parent: int
    """Index of the parent plan body, or -1 for the world."""

    children: tuple[int, ...]
    """Indices of the plan bodies this one carries."""

    q: slice
    """Where the joint's position variables stand."""

    v: slice
    """Where the joint's velocity variables stand."""

    joint: Joint
    """How the body moves in its joint frame; its axis is a coordinate axis."""

    placement: Transform
    """Map of motion from the parent's frame to the joint frame: constants."""

    inertia: RigidInertia
    """Inertia of the whole link about the plan frame's origin: floats or traced parameters."""

    members: tuple[tuple[str, Transform], ...]
    """The user's bodies with mass that make up the link, each with the map to its own frame."""

    armature: tuple[Scalar, ...] | None = None
    """Inertia that each freedom of the joint feels beyond what it moves; None if it feels none."""

    added: ArticulatedInertia | None = None
    """Inertia of the water that the link moves, about the same origin; None on land."""

    @property
    def felt(self) -> RigidInertia | ArticulatedInertia:
        """Inertia that an acceleration of the link meets: its own, and that of water around it."""
        return self.inertia if self.added is None else self.added + self.inertia

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the parent's frame to the body's.

        Args:
            q: Position variables of this joint alone, nq scalars.
        """
        return self.placement.then(self.joint.transform(q))


@record
class PlanFrame:
    """A frame the user named."""

    body: int
    """Index of the plan body it is fixed to, or -1 for the world."""

    transform: Transform
    """Map of motion from the plan body's frame to this one: constants."""


@record(slots=False)
class Plan:
    """All plan bodies, parents first, and all frames by name."""

    name: str
    """Name of the model."""

    nq: int
    nv: int
    bodies: tuple[PlanBody, ...]
    frames: Mapping[str, PlanFrame]

    parameter_names: tuple[str, ...]
    """Names of the inertial numbers that are not zero, in the order of bodies and `NUMBERS`.

    Those of armatures, in the order of bodies, come after all of these.
    """

    time: Scalar = 0.0
    """When joints that time moves are met [s]."""

    @classmethod
    def build(cls, model: "Model", parameters: Sequence[Scalar] | None = None) -> "Plan":
        """Lay out a model.

        Args:
            model: The robot.
            parameters: Scalars that replace `Model.parameters`, in the same order; the model's own
                numbers by default.
        """
        if parameters is not None:
            return model.plan.with_parameters(parameters)
        layout = join_fixed(model.bodies, model.frames, model.user_parts.joints)
        chosen = choose_frames(layout)
        to_plan = [frame.pose.inverse() for frame in chosen]
        children: list[list[int]] = [[] for _ in layout.links]
        for index, link in enumerate(layout.links):
            if link.parent != WORLD_LINK:
                children[link.parent].append(index)
        armatures = armatures_of(model.joints)
        bodies = []
        for index, (link, frame) in enumerate(zip(layout.links, chosen, strict=True)):
            placed = [(body, to_plan[index] @ pose) for body, pose in link.members]
            bodies.append(
                PlanBody(
                    index=index,
                    name=link.body.name,
                    parent=link.parent,
                    children=tuple(children[index]),
                    q=model.slice(link.joint.name, of="q"),
                    v=model.slice(link.joint.name, of="v"),
                    joint=frame.joint,
                    placement=frame.placement,
                    inertia=_float_inertia(placed),
                    members=tuple((body.name, pose.transform) for body, pose in placed),
                    armature=armatures.get(link.joint.name),
                )
            )
        frames = {}
        for name, place in layout.places.items():
            pose = place.pose
            if place.link != WORLD_LINK:
                pose = to_plan[place.link] @ pose
            frames[name] = PlanFrame(place.link, pose.transform)
        names = _parameter_names(bodies)
        plan = cls(model.name, model.nq, model.nv, tuple(bodies), frames, names)
        named = model.run_time
        if not named.inertias and not named.armatures:
            return plan
        # a joint that follows another adds to the armature of its leader
        moved = {model.slice(name, of="v").start for name in named.armatures}
        return plan.at_run_time(
            {plan.frame(name).body for name in named.inertias},
            {body.index for body in bodies if body.v.start in moved},
        )

    def at_run_time(self, links: Collection[int], armatures: Collection[int]) -> "Plan":
        """Return the same plan with more of its numbers among the parameters, zeros included.

        Args:
            links: Indices of bodies of whose inertia every number is one.
            armatures: Indices of bodies of whose joint every armature is one.
        """
        bodies = [
            replace(body, armature=(0.0,) * (body.v.stop - body.v.start))
            if body.index in armatures and body.armature is None
            else body
            for body in self.bodies
        ]
        names = _parameter_names(bodies, links, armatures)
        return replace(self, bodies=tuple(bodies), parameter_names=names)

    @property
    def parameters(self) -> tuple[Scalar, ...]:
        """The inertial numbers that are structurally not zero, in the order of their names."""
        # a plan made from parameters keeps Python zeros where the structure has them
        numbers = [x for body in self.bodies for x in body.inertia]
        numbers += [x for body in self.bodies for x in body.armature or ()]
        return tuple(x for x, used in zip(numbers, self._used, strict=True) if used)

    @cached_property
    def _used(self) -> tuple[bool, ...]:
        """Which of all bodies' inertial numbers, and then of their armatures, are parameters."""
        names = set(self.parameter_names)
        bodies = self.bodies
        return (
            *(f"{body.name}.{number}" in names for body in bodies for number in NUMBERS),
            *(f"{body.name}.{word}" in names for body in bodies for word in _armature_words(body)),
        )

    def with_parameters(self, parameters: Sequence[Scalar]) -> "Plan":
        """Return the same plan with other inertial numbers in place of those not zero."""
        given = tuple(parameters)
        if len(given) != len(self.parameter_names):
            raise ShapeError(
                "parameters",
                f"{len(self.parameter_names)} inertial numbers of model {self.name!r}",
                len(given),
                advice="model.parameter_names lists them",
            )
        values = iter(given)
        numbers = iter([next(values) if used else 0.0 for used in self._used])
        inertias = [RigidInertia.from_array([next(numbers) for _ in NUMBERS]) for _ in self.bodies]
        bodies = [
            replace(
                body,
                inertia=inertia,
                armature=tuple(next(numbers) for _ in body.armature) if body.armature else None,
            )
            for body, inertia in zip(self.bodies, inertias, strict=True)
        ]
        return replace(self, bodies=tuple(bodies))

    def with_inertias(self, inertias: Mapping[str, RigidInertia]) -> "Plan":
        """Return the same plan with other inertias of the user's bodies.

        The numbers may be traced: joining bodies on fixed joints, and the change to plan frames,
        are a constant congruence X^T I X (Featherstone 1987, eq. 3.5) and a sum.

        Args:
            inertias: By body name, in the user's body frame; every body with mass that moves.
        """
        bodies = []
        for body in self.bodies:
            total = RigidInertia.zero()
            for name, transform in body.members:
                if name not in inertias:
                    raise UnknownNameError("inertia of body", name, inertias, where="inertias")
                total = total + transform.inertia_to_parent(inertias[name])
            bodies.append(replace(body, inertia=total))
        return replace(self, bodies=tuple(bodies))

    def in_water(self, added: Sequence[ArticulatedInertia | None]) -> "Plan":
        """Return the same plan with the inertia of the water that each body moves."""
        bodies = [replace(body, added=I_A) for body, I_A in zip(self.bodies, added, strict=True)]
        return replace(self, bodies=tuple(bodies))

    @cached_property
    def depends_on_time(self) -> bool:
        """Whether time moves any joint."""
        return any(body.joint.depends_on_time for body in self.bodies)

    @property
    def armatures(self) -> list[Scalar]:
        """What armatures add to the diagonal of the mass matrix [kg m^2 or kg], nv scalars."""
        found: list[Scalar] = [0.0] * self.nv
        for body in self.bodies:
            if body.armature is not None:
                found[body.v] = body.armature
        return found

    @cached_property
    def has_couplings(self) -> bool:
        """Whether joints share variables: then bodies outnumber what q and v tell of."""
        return any(body.joint.follows is not None for body in self.bodies)

    def at(self, time: Scalar) -> "Plan":
        """Return the plan at a time [s]: itself, unless time moves a joint."""
        if not self.depends_on_time:
            return self
        bodies = [replace(body, joint=body.joint.at(time)) for body in self.bodies]
        return replace(self, bodies=tuple(bodies), time=time)

    def frame(self, name: str) -> PlanFrame:
        """Return a frame by the user's name."""
        if name not in self.frames:
            raise UnknownNameError(
                "frame",
                name,
                self.frames,
                where=f"model {self.name!r}",
                listing="model.frame_names",
            )
        return self.frames[name]

    @cached_property
    def structure_key(self) -> bytes:
        """A digest of all that traced code depends on but the values of parameters."""
        structure = (
            "plan 1",
            self.nq,
            self.nv,
            [
                (body.name, body.parent, body.joint.name, body.joint.structure(), body.placement)
                for body in self.bodies
            ],
            [body.armature and len(body.armature) for body in self.bodies],
            self._used,
            sorted(self.frames.items()),
        )
        return blake2b(structure_text(structure).encode(), digest_size=32).digest()


def _parameter_names(
    bodies: Sequence[PlanBody], links: Collection[int] = (), armatures: Collection[int] = ()
) -> tuple[str, ...]:
    """Return the names of numbers that are not zero, or that are parameters in any case."""
    names = tuple(
        f"{body.name}.{number}"
        for body in bodies
        for number, x in zip(NUMBERS, body.inertia, strict=True)
        if x != 0.0 or body.index in links
    )
    return names + tuple(
        f"{body.name}.{word}"
        for body in bodies
        for word, x in zip(_armature_words(body), body.armature or (), strict=True)
        if x != 0.0 or body.index in armatures
    )


def armatures_of(joints: Sequence[Joint]) -> dict[str, tuple[float, ...]]:
    """Return the armatures of joints that have any and variables of their own, by name.

    That of a joint that follows another is felt by its leader: ratio squared times as much.
    """
    found = {joint.name: joint.armatures for joint in joints if joint.nv and any(joint.armatures)}
    for joint in joints:
        if isinstance(joint, Coupled) and any(joint.armatures):
            (own,), (felt,) = joint.armatures, found.get(joint.leader, (0.0,))
            found[joint.leader] = (felt + joint.ratio * joint.ratio * own,)
    return found


def _armature_words(body: PlanBody) -> tuple[str, ...]:
    """Return what the armatures of a body's joint are called among the parameters."""
    count = len(body.armature or ())
    return ("armature",) if count == 1 else tuple(f"armature_{k + 1}" for k in range(count))


def _float_inertia(placed: Sequence[tuple[Body, Pose]]) -> RigidInertia:
    """Return the inertia of a link in its plan frame, with rounding errors near zero removed.

    Args:
        placed: Bodies with mass, each with its frame in plan coordinates.
    """
    total = RigidInertia.zero()
    moment = tensor = 0.0
    for body, pose in placed:
        inertia = body.inertia
        total = total + pose.transform.inertia_to_parent(inertia.rigid)
        # the largest numbers that entered the sum set the scale of its rounding errors
        reach = math.dist(inertia.com, (0.0, 0.0, 0.0)) + math.dist(pose.translation, (0.0,) * 3)
        moment += inertia.mass * reach
        tensor += max(map(abs, inertia.tensor)) + inertia.mass * reach * reach
    limits = (0.0, *(ZERO * moment,) * 3, *(ZERO * tensor,) * 6)
    return RigidInertia.from_array(
        [0.0 if abs(x) <= limit else float(x) for x, limit in zip(total, limits, strict=True)]
    )
