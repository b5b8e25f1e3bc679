"""The private layout that algorithms run over.

A plan holds only moving links: one plan body per moving joint, parents first, in frames chosen for
cheap arithmetic (`reframe`). Joint variables are the user's: positions, velocities and forces of a
plan are those of its model. Named frames are mapped to plan bodies.

Massless bodies, point masses and thin rods are allowed as long as the inertia at every joint is
positive; otherwise forward dynamics would divide by zero. The check runs the articulated-body
recursion (Featherstone 1987, section 6.4) at one generic configuration: the inertia d along each
joint direction must be positive.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiburon.errors import ModelError, ShapeError, UnknownNameError
from tiburon.model.body import Body
from tiburon.model.joints import Coupled, Joint
from tiburon.model.placements import (
    Chains,
    Geometry,
    chains_of,
    joined,
    moved_joints,
    placed_parts,
    transform_at,
    turns,
)
from tiburon.model.pose import Pose
from tiburon.model.reframe import WORLD_LINK, ChosenFrame, Layout, choose_frames, join_fixed
from tiburon.native.cache_file import blake2b
from tiburon.record import field, record
from tiburon.spatial import ArticulatedInertia, RigidInertia, Scalar, Scalars, Transform
from tiburon.trace.declared import structure_text

if TYPE_CHECKING:
    from tiburon.model.model import Model

WORLD_BODY = WORLD_LINK
"""Parent index of bodies whose joint is fixed in the world."""

INERTIAL_PARAMETERS = (
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
"""Inertial parameters about the plan frame's origin: mass [kg], moment [kg m], tensor [kg m^2]."""

_NOMINAL = {
    **{f"moment_{axis}": 0.0 for axis in "xyz"},
    **{f"inertia_{axis}{axis}": 0.1 for axis in "xyz"},
    **{f"inertia_{axes}": 0.0 for axes in ("xy", "xz", "yz")},
}
"""Parameters of a nominal body of 1 kg whose radius of gyration is 0.3 m."""

ROUNDING_TOLERANCE = 1e-14
"""Inertial parameters below this fraction of the summands are rounding, and set to zero."""


class RunTime(NamedTuple):
    """Parts of a robot whose values, zeros included, are all run-time parameters."""

    inertias: frozenset[str] = frozenset()
    """Names of bodies, for mass, center of mass and inertia tensor."""

    fluids: frozenset[str] = frozenset()
    """Names of bodies, for hydrodynamic coefficients."""

    armatures: frozenset[str] = frozenset()
    """Names of joints, for the armature."""

    passives: frozenset[str] = frozenset()
    """Friction and spring parameters: names such as "knee.damping"."""

    placements: frozenset[str] = frozenset()
    """Geometry: names such as "knee.translation"."""


@record
class PlanBody:
    """A link of the robot in the frame chosen for it."""

    index: int
    """Position in `Plan.bodies`."""

    name: str
    """Name of the user's body that the joint moves."""

    parent: int
    """Index of the parent plan body, or -1 for the world."""

    children: tuple[int, ...]
    """Indices of the plan bodies this one carries."""

    q: slice
    """Slice of the joint's position variables."""

    v: slice
    """Slice of the joint's velocity variables."""

    joint: Joint
    """Joint in the plan frame; its axis is a coordinate axis."""

    placement: Transform
    """Map of motion from the parent's frame to the joint frame: constants."""

    inertia: RigidInertia
    """Inertia of the whole link about the plan frame's origin: floats or traced parameters."""

    armature: tuple[Scalar, ...] | None = None
    """Armature of each degree of freedom of the joint; None if there is none."""

    added: ArticulatedInertia | None = None
    """Added mass of the link, about the same origin; None on land."""

    @property
    def effective_inertia(self) -> RigidInertia | ArticulatedInertia:
        """Total inertia of the link: rigid-body inertia and added mass."""
        return self.inertia if self.added is None else self.added + self.inertia

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the parent's frame to the body's.

        Args:
            q: Position variables of this joint alone, nq scalars.
        """
        return self.placement.then(self.joint.transform(q))


@record
class PlanFrame:
    """A named frame."""

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
    """Names of the non-zero inertial parameters, in the order of bodies and `INERTIAL_PARAMETERS`,
    followed by the armatures in the order of bodies.
    """

    time: Scalar = 0.0
    """Time at which driven joints are evaluated [s]."""

    geometry: Geometry | None = None
    """Placements that are run-time parameters; None if all are constants."""

    ends: Mapping[tuple[str, int], Transform] = field(default_factory=dict)
    """Ends of loops that are: their placements by name and number of the end."""

    @classmethod
    def build(cls, model: "Model", parameters: Scalars | None = None) -> "Plan":
        """Lay out a model.

        Args:
            model: The robot.
            parameters: Scalars that replace `Plan.parameters`, in that order; those of the model
                by default.
        """
        if parameters is not None:
            return model.plan.with_parameters(parameters)
        names = tuple(sorted(model.run_time.placements))
        apart = moved_joints(model, names) if names else ()
        layout = join_fixed(model.bodies, model.frames, model.user_parts.joints, apart)
        chains = chains_of(model, layout, names) if names else Chains({}, {}, {})
        turned = [index for index, chain in chains.joints.items() if turns(chain)]
        chosen = choose_frames(layout, chains.joints, turned)
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
                    armature=armatures.get(link.joint.name),
                )
            )
        frames = {}
        for name, place in layout.places.items():
            pose = place.pose
            if place.link != WORLD_LINK:
                pose = to_plan[place.link] @ pose
            frames[name] = PlanFrame(place.link, pose.transform)
        inertial = _parameter_names(bodies)
        plan = cls(model.name, model.nq, model.nv, tuple(bodies), frames, inertial)
        if names:
            plan = plan._with_chains(model, layout, chains, chosen, names)
        named = model.run_time
        if not named.inertias and not named.armatures:
            return plan
        # a coupled joint adds to the armature of its leader, and has none itself
        moved = {model.slice(name, of="v").start for name in named.armatures}
        return plan.at_run_time(
            {plan.frame(name).body for name in named.inertias},
            {body.index for body in bodies if body.joint.nv and body.v.start in moved},
        )

    def at_run_time(self, links: Collection[int], armatures: Collection[int]) -> "Plan":
        """Return the same plan with more run-time parameters, zeros included.

        Args:
            links: Indices of bodies whose inertia is parametrized completely.
            armatures: Indices of bodies whose joint armatures are.
        """
        bodies = [
            replace(body, armature=(0.0,) * (body.v.stop - body.v.start))
            if body.index in armatures and body.armature is None
            else body
            for body in self.bodies
        ]
        names = _parameter_names(bodies, links, armatures)
        return replace(self, bodies=tuple(bodies), parameter_names=names)

    def _with_chains(
        self,
        model: "Model",
        layout: Layout,
        chains: Chains,
        chosen: Sequence[ChosenFrame],
        names: tuple[str, ...],
    ) -> "Plan":
        """Return the same plan with placements that are run-time parameters, of a model."""

        def on_link(index: int) -> tuple[Pose, ...]:
            return () if index == WORLD_LINK else (chosen[index].pose.inverse(),)

        joints = []
        for index, chain in sorted(chains.joints.items()):
            whole = joined(*on_link(layout.links[index].parent), *chain, chosen[index].pose)
            joints.append((index, whole, None if turns(chain) else chosen[index].placement))
        frames = [
            (name, joined(*on_link(layout.places[name].link), *chain))
            for name, chain in chains.frames.items()
        ]
        ends = [(loop, k, chain) for (loop, k), chain in chains.ends.items()]
        numbers: list[float] = []
        parts = placed_parts(model)
        for name in names:
            owner, _, word = name.rpartition(".")
            numbers += parts[owner].value(word)
        found = Geometry(names, (), tuple(joints), tuple(frames), tuple(ends))
        return replace(self, geometry=found).with_geometry(numbers)

    def with_geometry(self, numbers: Scalars) -> "Plan":
        """Return the same plan with other values of its geometry.

        Args:
            numbers: Three for each of `geometry.names`, translations [m] and rotation vectors
                [rad]; floats, or traced.
        """
        assert self.geometry is not None
        geometry = replace(self.geometry, numbers=tuple(numbers))
        bodies = list(self.bodies)
        for index, chain, turn in geometry.joints:
            bodies[index] = replace(bodies[index], placement=geometry.placement(chain, turn))
        frames = dict(self.frames)
        for name, chain in geometry.frames:
            frames[name] = replace(frames[name], transform=transform_at(chain, geometry.numbers))
        ends = {
            (loop, k): transform_at(chain, geometry.numbers) for loop, k, chain in geometry.ends
        }
        return replace(self, bodies=tuple(bodies), frames=frames, ends=ends, geometry=geometry)

    def end(self, loop: str, number: int, pose: Pose) -> Transform:
        """Return the map of motion to an end of a loop from what it is fixed to.

        Args:
            loop: Name of the loop.
            number: Which end: 0 for the first.
            pose: Its pose in the model.
        """
        found = self.ends.get((loop, number))
        return pose.transform if found is None else found

    @property
    def parameters(self) -> tuple[Scalar, ...]:
        """The structurally non-zero inertial parameters, in the order of their names."""
        # a plan made from parameters keeps Python zeros where the structure has them
        numbers = [x for body in self.bodies for x in body.inertia]
        numbers += [x for body in self.bodies for x in body.armature or ()]
        return tuple(x for x, used in zip(numbers, self._used, strict=True) if used)

    @cached_property
    def _used(self) -> tuple[bool, ...]:
        """Which of all inertial values, and then of all armatures, are parameters."""
        names = set(self.parameter_names)
        bodies = self.bodies
        return (
            *(
                f"{body.name}.{number}" in names
                for body in bodies
                for number in INERTIAL_PARAMETERS
            ),
            *(
                f"{body.name}.{word}" in names
                for body in bodies
                for word in armature_words(body.armature)
            ),
        )

    def with_parameters(self, parameters: Scalars) -> "Plan":
        """Return the same plan with other inertial parameters."""
        given = tuple(parameters)
        if len(given) != len(self.parameter_names):
            raise ShapeError(
                "parameters",
                f"{len(self.parameter_names)} inertial parameters of model {self.name!r}",
                len(given),
                advice="plan.parameter_names lists them",
            )
        values = iter(given)
        numbers = iter([next(values) if used else 0.0 for used in self._used])
        inertias = [
            RigidInertia.from_array([next(numbers) for _ in INERTIAL_PARAMETERS])
            for _ in self.bodies
        ]
        bodies = [
            replace(
                body,
                inertia=inertia,
                armature=tuple(next(numbers) for _ in body.armature) if body.armature else None,
            )
            for body, inertia in zip(self.bodies, inertias, strict=True)
        ]
        return replace(self, bodies=tuple(bodies))

    def with_added_armatures(self, added: Mapping[int, Scalar]) -> "Plan":
        """Return the same plan with more armature, by velocity variable [kg m^2 or kg].

        That of a variable which coupled joints follow counts once, at its own joint.
        """
        bodies = []
        for body in self.bodies:
            here = range(body.v.start, body.v.stop) if body.joint.nv else range(0)
            if any(i in added for i in here):
                own = body.armature or (0.0,) * len(here)
                more = (added.get(i, 0.0) for i in here)
                body = replace(body, armature=tuple(a + b for a, b in zip(own, more, strict=True)))
            bodies.append(body)
        return replace(self, bodies=tuple(bodies))

    def in_water(self, added: Sequence[ArticulatedInertia | None]) -> "Plan":
        """Return the same plan with the added mass of each body."""
        bodies = [replace(body, added=I_A) for body, I_A in zip(self.bodies, added, strict=True)]
        return replace(self, bodies=tuple(bodies))

    @cached_property
    def depends_on_time(self) -> bool:
        """Whether any joint is driven."""
        return any(body.joint.depends_on_time for body in self.bodies)

    @property
    def armatures(self) -> list[Scalar]:
        """Armature on the diagonal of the mass matrix [kg m^2 or kg], nv scalars."""
        found: list[Scalar] = [0.0] * self.nv
        for body in self.bodies:
            if body.armature is not None:
                found[body.v] = body.armature
        return found

    def with_nominal_inertias(self) -> "Plan":
        """Return the same plan with inertial values that follow from its structure alone.

        Unit masses and armatures, centers of mass at the origins, tensors of a body of some size:
        decisions that code depends on must be those of all robots that share it.
        """
        words = [name.rpartition(".")[2] for name in self.parameter_names]
        return self.with_parameters([_NOMINAL.get(word, 1.0) for word in words])

    @cached_property
    def has_couplings(self) -> bool:
        """Whether coupled joints share variables."""
        return any(body.joint.follows is not None for body in self.bodies)

    def at(self, time: Scalar) -> "Plan":
        """Return the plan at a time [s]: itself, unless a joint is driven."""
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
        """A digest of everything that traced code depends on except parameter values."""
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
            *(() if self.geometry is None else self.geometry.structure()),
        )
        return blake2b(structure_text(structure).encode(), digest_size=32).digest()


def _parameter_names(
    bodies: Sequence[PlanBody], links: Collection[int] = (), armatures: Collection[int] = ()
) -> tuple[str, ...]:
    """Return the names of values that are non-zero, or parameters in any case."""
    names = tuple(
        f"{body.name}.{number}"
        for body in bodies
        for number, x in zip(INERTIAL_PARAMETERS, body.inertia, strict=True)
        if x != 0.0 or body.index in links
    )
    return names + tuple(
        f"{body.name}.{word}"
        for body in bodies
        for word, x in zip(armature_words(body.armature), body.armature or (), strict=True)
        if x != 0.0 or body.index in armatures
    )


def armatures_of(joints: Sequence[Joint]) -> dict[str, tuple[float, ...]]:
    """Return the armatures of joints with variables, by name.

    The armature of a coupled joint acts on its leader, multiplied by the ratio squared.
    """
    found = {joint.name: joint.armatures for joint in joints if joint.nv and any(joint.armatures)}
    for joint in joints:
        if isinstance(joint, Coupled) and any(joint.armatures):
            (own,), (felt,) = joint.armatures, found.get(joint.leader, (0.0,))
            found[joint.leader] = (felt + joint.ratio * joint.ratio * own,)
    return found


def armature_words(armatures: Sequence[Scalar] | None) -> tuple[str, ...]:
    """Return the parameter names of a joint's armatures."""
    count = len(armatures or ())
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
        # the largest summands set the scale of rounding errors
        reach = math.dist(inertia.com, (0.0, 0.0, 0.0)) + math.dist(pose.translation, (0.0,) * 3)
        moment += inertia.mass * reach
        tensor += max(map(abs, inertia.tensor)) + inertia.mass * reach * reach
    limits = (0.0, *(ROUNDING_TOLERANCE * moment,) * 3, *(ROUNDING_TOLERANCE * tensor,) * 6)
    return RigidInertia.from_array(
        [0.0 if abs(x) <= limit else float(x) for x, limit in zip(total, limits, strict=True)]
    )


INERTIA_TOLERANCE = 1e-12
"""Inertia along a joint, relative to that of everything it carries, that counts as zero.

Rounding leaves about 1e-16; the thinnest shafts of real mechanisms stay above 1e-9.
"""


def needs_check(bodies: Sequence[Body]) -> bool:
    """Return whether some moving body lacks a positive definite inertia of its own."""
    return any(body.joint.nv > 0 and not body.inertia.is_definite for body in bodies)


def immovable_joints(plan: Plan) -> tuple[str, ...]:
    """Return the names of the joints without inertia, from the leaves inward."""
    # a fixed seed: any generic configuration will do, and the result must be reproducible
    rng = np.random.default_rng(20)
    position = _generic_position(plan, rng)
    freed = [body.inertia.articulated() for body in plan.bodies]
    carried = list(freed)
    found: list[str] = []
    for body in reversed(plan.bodies):
        inertia, felt = freed[body.index], carried[body.index]
        q = position[body.q]
        # coupled joints have no variable of their own
        directions = () if body.joint.follows is not None else body.joint.subspace(q)
        armature = body.armature or (0.0,) * len(directions)
        for s, own in reversed(list(zip(directions, armature[: len(directions)], strict=True))):
            U = inertia.apply(s)
            d, whole = s.dot(U) + own, s.dot(felt.apply(s)) + own
            if d <= INERTIA_TOLERANCE * max(whole, _scale(felt, any(s.angular))):
                # a joint without inertia is treated as locked
                found.append(body.joint.name)
                continue
            inertia = inertia.reduce(U, d)
        if body.parent != WORLD_BODY:
            X = body.transform(q)
            freed[body.parent] = freed[body.parent] + X.inertia_to_parent(inertia)
            carried[body.parent] = carried[body.parent] + X.inertia_to_parent(felt)
    # a joint with several degrees of freedom may be listed for each
    return tuple(dict.fromkeys(found))


def nothing_resists(plan: Plan, joint: str) -> ModelError:
    """Return the error about a joint without inertia."""
    body = next(body for body in plan.bodies if body.joint.name == joint)
    return ModelError(
        f"joint {joint!r}: its inertia must be positive, got none along one of its directions "
        f"from body {body.name!r} and everything it carries; give the bodies mass away from "
        "the axis, or an inertia tensor, or the joint an armature",
        name=joint,
    )


def _generic_position(plan: Plan, rng: "np.random.Generator") -> list[float]:
    """Return a random position of all joints that have variables."""
    position = [0.0] * plan.nq
    for body in plan.bodies:
        if body.joint.follows is None:
            position[body.q] = body.joint.random(rng)
    return position


def _scale(inertia: ArticulatedInertia, angular: bool) -> float:
    """Return the largest moment of inertia or mass along any coordinate axis."""
    xx, _, _, yy, _, zz = inertia.A if angular else inertia.M
    return float(max(xx, yy, zz))
