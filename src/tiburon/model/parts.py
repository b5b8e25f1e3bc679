"""The parts of a robot: names, tree order, checks that they fit together, indices in q and v."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, OptionError, UnknownNameError, shown
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
from tiburon.model.joints import Joint
from tiburon.model.user_code import refuse_replaced_inside
from tiburon.model.value_checks import check_name, finite_array


def check_unique(model: str, kind: str, names: Iterable[str]) -> None:
    """Raise `ModelError` if a name occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(
                f"model {model!r}: {kind} name {name!r} is used twice; rename one of them",
                name=name,
            )
        seen.add(name)


def parents_first(bodies: Sequence[Body]) -> tuple[Body, ...]:
    """Order bodies so that every parent precedes its children, otherwise as they were given.

    Raises:
        UnknownNameError: If a parent does not exist.
        ModelError: If bodies carry each other in a cycle.
    """
    by_name = {body.name: body for body in bodies}
    placed: set[str] = {WORLD}
    order: list[Body] = []
    for body in bodies:
        # walk toward the world until a placed body, then place the bodies on the path
        path: list[Body] = []
        on_path: set[str] = set()
        current = body
        while current.name not in placed:
            if current.name in on_path:
                names = [b.name for b in path]
                cycle = [*names[names.index(current.name) :], current.name]
                raise ModelError(
                    f"body {current.name!r}: bodies must form a tree rooted at 'world', got the "
                    f"cycle {' -> '.join(cycle)} (child -> parent); give one of them another "
                    "parent",
                    name=current.name,
                )
            path.append(current)
            on_path.add(current.name)
            if current.parent == WORLD:
                break
            if current.parent not in by_name:
                raise UnknownNameError(
                    "parent body", current.parent, [WORLD, *by_name], where=f"body {current.name!r}"
                )
            current = by_name[current.parent]
        for passed in reversed(path):
            placed.add(passed.name)
            order.append(passed)
    return tuple(order)


def check_leaders(bodies: Sequence[Body]) -> None:
    """Raise if the leader of a joint does not exist or does not have one variable."""
    joints = {body.joint.name: body.joint for body in bodies}
    for joint in joints.values():
        if joint.follows is None:
            continue
        if joint.follows not in joints:
            raise UnknownNameError(
                "leader joint", joint.follows, joints, where=f"joint {joint.name!r}"
            )
        leader = joints[joint.follows]
        if leader.nq != 1 or leader.nv != 1:
            raise ModelError(
                f"joint {joint.name!r}: its leader must have exactly one variable, got the "
                f"{leader.kind} joint {leader.name!r}; follow a joint with its own variable",
                name=joint.name,
            )


def check_mass(bodies: Sequence[Body]) -> None:
    """Raise `ModelError` if a joint moves no mass and has no armature.

    Args:
        bodies: Parents first.
    """
    carries = {body.name: body.inertia.mass > 0.0 for body in bodies}
    for body in reversed(bodies):
        if carries[body.name] and body.parent != WORLD:
            carries[body.parent] = True
    # from the leaves, so that the message names the massless body
    for body in reversed(bodies):
        # armature is inertia too
        resists = carries[body.name] or all(body.joint.armatures)
        if body.joint.nv > 0 and not resists:
            raise ModelError(
                f"body {body.name!r}: mass must be positive on the {body.joint.kind} joint "
                f"{body.joint.name!r}, got 0 kg and no mass beyond it; give the body an "
                "inertia, or use a Fixed joint",
                name=body.name,
            )


JointPositions: TypeAlias = dict[str, tuple[float, ...]]
"""Position variables by the name of the joint they belong to."""


class Parts(NamedTuple):
    """Parts of a model."""

    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...] = ()
    loops: tuple[Closure, ...] = ()
    thrusters: tuple[Thruster, ...] = ()
    contacts: tuple[ContactPoint, ...] = ()
    actuators: tuple[Actuator, ...] = ()
    springs: tuple[Spring, ...] = ()
    cylinders: tuple[HydraulicCylinder, ...] = ()
    cables: tuple[Cable, ...] = ()
    contact_pairs: tuple[ContactPair, ...] = ()
    poses: tuple[tuple[str, JointPositions], ...] = ()
    """Named configurations, joint by joint."""

    def names(self) -> list[str]:
        """Return the names of bodies and frames."""
        return [*(body.name for body in self.bodies), *(frame.name for frame in self.frames)]

    def joint_names(self) -> list[str]:
        """Return the names of joints."""
        return [body.joint.name for body in self.bodies]

    def unique_names(self) -> dict[str, list[str]]:
        """Return the names that must differ, by kind."""
        kinds = ("loop", "thruster", "contact", "actuator", "spring", "cylinder", "cable")
        named = {kind: [part.name for part in getattr(self, kind + "s")] for kind in kinds}
        return {"body or frame": self.names(), "joint": self.joint_names(), **named}


_KINDS: tuple[tuple[str, tuple[type, ...], str, str], ...] = (
    ("bodies", (Body,), "a Body", "body"),
    ("frames", (Frame,), "a Frame", "frame"),
    (
        "loops",
        (LoopClosure, JointCoupling, TracedClosure),
        "a LoopClosure or another closure",
        "loop",
    ),
    ("thrusters", (Thruster,), "a Thruster", "thruster"),
    ("contacts", (ContactPoint,), "a ContactPoint", "contact"),
    ("actuators", (Actuator,), "an Actuator", "actuator"),
    ("springs", (Spring,), "a Spring", "spring"),
    ("cylinders", (HydraulicCylinder,), "a HydraulicCylinder", "hydraulic cylinder"),
    ("cables", (Cable,), "a Cable", "cable"),
    ("contact_pairs", (ContactPair,), "a ContactPair", "contact pair"),
)
"""Fields of `Parts` with the types of their entries, and two names of one for messages."""


def checked(model: str, parts: Parts, *, movable: bool = True) -> Parts:
    """Return the parts with parents before children, or raise if they are inconsistent.

    Args:
        model: Name of the robot, for messages.
        parts: In any order.
        movable: Whether every joint must have inertia.

    Raises:
        ModelError: If the parts are inconsistent; the message names the part.
    """
    for field, kinds, words, singular in _KINDS:
        for part in getattr(parts, field):
            if not isinstance(part, kinds):
                raise ModelError(f"model {model!r}: expected {words}, got {shown(part)}")
            # joints and traced closures may be user code, everything else is data
            if not isinstance(part, TracedClosure):
                named: Any = part
                refuse_replaced_inside(part, f"{singular} {named.name!r}")
    pairs = ["/".join(sorted((p.first, p.second))) for p in parts.contact_pairs]
    for kind, names in {**parts.unique_names(), "contact pair": pairs}.items():
        check_unique(model, kind, [WORLD, *names] if kind == "body or frame" else names)
    ordered = parents_first(parts.bodies)
    check_leaders(ordered)
    if movable:
        check_mass(ordered)
    _check_places(parts)
    _check_joints(parts)
    return parts._replace(bodies=ordered)


def _check_places(parts: Parts) -> None:
    """Raise if a part refers to a body or frame that does not exist."""
    # a dictionary: constant-time lookup, and it keeps the order for messages
    names = dict.fromkeys(parts.names())
    anywhere = {WORLD: None, **names}
    for thruster in parts.thrusters:
        _check_known("body or frame", thruster.body, names, f"thruster {thruster.name!r}")
    for contact in parts.contacts:
        _check_known("body or frame", contact.body, names, f"contact {contact.name!r}")
    bodies = {WORLD: None, **dict.fromkeys(body.name for body in parts.bodies)}
    for frame in parts.frames:
        _check_known("body", frame.body, bodies, f"frame {frame.name!r}")
    for pair in parts.contact_pairs:
        for name in (pair.first, pair.second):
            _check_known("body", name, bodies, f"contact pair {pair.name!r}")
    carriers = {frame.name: frame.body for frame in parts.frames}
    for loop in parts.loops:
        # few robots have loops
        from tiburon.model.closure_kinds import SurfaceContact

        for name in places_of(loop):
            _check_known("body or frame", name, anywhere, f"loop {loop.name!r}")
        if isinstance(loop, LoopClosure | SurfaceContact):
            first, second = (carriers.get(name, name) for name in places_of(loop))
            if first == second:
                raise ModelError(
                    f"loop {loop.name!r}: must connect two bodies, got {loop.first!r} and "
                    f"{loop.second!r}, both on {first!r}; name a frame on another",
                    name=loop.name,
                )
    cylinders = [c for c in parts.cylinders if c.joint is None]
    for kind, between in (
        ("spring", parts.springs),
        ("cylinder", cylinders),
        ("cable", parts.cables),
    ):
        for part in between:
            for place in (part.first, part.second):
                _check_known("body or frame", str(place), anywhere, f"{kind} {part.name!r}")


def _check_joints(parts: Parts) -> None:
    """Raise if an actuator or coupling refers to a joint that is missing or cannot move."""
    joints = {body.joint.name: body.joint for body in parts.bodies}
    for actuator in parts.actuators:
        where = f"actuator {actuator.name!r}"
        _check_known("joint", actuator.joint, joints, where)
        if joints[actuator.joint].dof == 0:
            raise ModelError(
                f"{where}: cannot drive the {joints[actuator.joint].kind} joint "
                f"{actuator.joint!r}, which does not move; name another or leave the actuator out",
                name=actuator.name,
            )
        if actuator.servo is not None and joints[actuator.joint].dof != 1:
            raise ModelError(
                f"{where}: a servo drives a joint with one degree of freedom, got the "
                f"{joints[actuator.joint].kind} joint {actuator.joint!r} with "
                f"{joints[actuator.joint].dof}; leave servo out",
                name=actuator.name,
            )
    for cylinder in parts.cylinders:
        if cylinder.joint is not None:
            where = f"cylinder {cylinder.name!r}"
            _check_known("joint", cylinder.joint, joints, where)
            if joints[cylinder.joint].dof != 1:
                raise ModelError(
                    f"{where}: can only drive a joint with one degree of freedom, got the "
                    f"{joints[cylinder.joint].kind} joint {cylinder.joint!r}; put it between two "
                    "points",
                    name=cylinder.name,
                )
    for loop in parts.loops:
        for name in joints_of(loop):
            _check_known("joint", name, joints, f"loop {loop.name!r}")
            if isinstance(loop, JointCoupling) and joints[name].dof != 1:
                raise ModelError(
                    f"loop {loop.name!r}: only joints with one degree of freedom can be coupled, "
                    f"got the {joints[name].kind} joint {name!r} with {joints[name].dof}; use a "
                    "LoopClosure between bodies",
                    name=loop.name,
                )
        if isinstance(loop, TracedClosure):
            loop.check(joints)


def _check_known(kind: str, name: str, known: Mapping[str, object], where: str) -> None:
    if name not in known:
        raise UnknownNameError(kind, name, known, where=where)


def joint_positions(
    model: str, joints: Sequence[Joint], poses: Mapping[str, ArrayLike | Mapping[str, ArrayLike]]
) -> tuple[tuple[str, JointPositions], ...]:
    """Return named configurations joint by joint.

    Args:
        model: Name of the robot, for messages.
        joints: In the order of q.
        poses: By name, a configuration of shape (nq,), or positions by joint name; joints left out
            are neutral.
    """
    if not isinstance(poses, Mapping):
        raise ModelError(
            f"model {model!r}: poses must be positions by name, got {shown(poses)}; write "
            "poses={'home': q}"
        )
    return tuple((check_name(n, "pose"), _split(model, joints, n, x)) for n, x in poses.items())


def _split(
    model: str, joints: Sequence[Joint], name: str, given: ArrayLike | Mapping[str, ArrayLike]
) -> JointPositions:
    element = f"model {model!r}, pose {name!r}"
    moving = [joint for joint in joints if joint.nq]
    if isinstance(given, Mapping):
        known = dict.fromkeys(joint.name for joint in moving)
        for joint_name in given:
            _check_known("moving joint", joint_name, known, element)
        return {
            joint.name: tuple(
                finite_array(
                    np.atleast_1d(given[joint.name]),
                    (joint.nq,),
                    element,
                    f"position of joint {joint.name!r}",
                ).tolist()
            )
            if joint.name in given
            else joint.neutral()
            for joint in moving
        }
    total = sum(joint.nq for joint in moving)
    numbers = finite_array(given, (total,), element, "position").tolist()
    result: JointPositions = {}
    start = 0
    for joint in moving:
        result[joint.name] = tuple(numbers[start : start + joint.nq])
        start += joint.nq
    return result


class NamedParts:
    """Bodies, joints and frames of a robot, by name."""

    __slots__ = (
        "_poses",
        "_slices",
        "about",
        "actuators",
        "bodies",
        "cables",
        "contact_pairs",
        "contacts",
        "cylinders",
        "frames",
        "loops",
        "name",
        "nq",
        "nv",
        "springs",
        "thrusters",
    )

    name: str
    """Name of the robot."""

    bodies: tuple[Body, ...]
    """All bodies, parents first."""

    frames: tuple[Frame, ...]
    """Named frames beyond the bodies' own."""

    loops: tuple[Closure, ...]
    """Loop closures and joint couplings."""

    thrusters: tuple[Thruster, ...]
    """Propellers and jets."""

    contacts: tuple[ContactPoint, ...]
    """Points that may touch the ground."""

    actuators: tuple[Actuator, ...]
    """Actuators and the joints they drive."""

    springs: tuple[Spring, ...]
    """Springs and dampers between two points."""

    cylinders: tuple[HydraulicCylinder, ...]
    """Hydraulic cylinders."""

    cables: tuple[Cable, ...]
    """Cables with winches."""

    contact_pairs: tuple[ContactPair, ...]
    """Bodies that touch, or do not, beyond the rule for all."""

    about: str
    """Description of the robot and the sources of its values."""

    nq: int
    """Number of position variables."""

    nv: int
    """Number of velocity variables."""

    _poses: tuple[tuple[str, JointPositions], ...]

    _slices: dict[str, tuple[slice, slice]]

    @property
    def joints(self) -> tuple[Joint, ...]:
        """All joints, including fixed ones, in the order of their bodies."""
        return tuple(body.joint for body in self.bodies)

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies, parents first."""
        return tuple(body.name for body in self.bodies)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in the order of their bodies."""
        return tuple(body.joint.name for body in self.bodies)

    @property
    def moving_joint_names(self) -> tuple[str, ...]:
        """Names of the moving joints, in the order of their bodies."""
        return tuple(joint.name for joint in self.joints if joint.nv > 0)

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of all frames: "world", the bodies' own, the extra ones."""
        return (WORLD, *self.body_names, *(frame.name for frame in self.frames))

    @property
    def q_names(self) -> tuple[str, ...]:
        """One name per position variable."""
        return tuple(name for joint in self.joints for name in joint.q_names())

    @property
    def v_names(self) -> tuple[str, ...]:
        """One name per velocity variable."""
        return tuple(name for joint in self.joints for name in joint.v_names())

    @property
    def total_mass(self) -> float:
        """Total mass of all bodies [kg]."""
        return sum(body.inertia.mass for body in self.bodies)

    @property
    def poses(self) -> dict[str, tuple[float, ...]]:
        """Named configurations, such as "home", each of shape (nq,) [m or rad]."""
        return {
            name: tuple(x for j in self.joints if j.nq for x in positions[j.name])
            for name, positions in self._poses
        }

    @public
    def slice(self, joint: str, *, of: str = "q") -> slice:
        """Return the slice of a joint in q or v.

        Args:
            joint: Name of the joint.
            of: "q" for positions, "v" for velocities, accelerations and forces.
        """
        if of not in ("q", "v"):
            raise OptionError("of", ("q", "v"), of)
        if joint not in self._slices:
            raise UnknownNameError(
                "joint",
                joint,
                self.joint_names,
                where=f"model {self.name!r}",
                listing="model.joint_names",
            )
        return self._slices[joint][0 if of == "q" else 1]

    @public
    def indices(self, joints: str | Iterable[str], *, of: str = "q") -> NDArray[np.intp]:
        """Return the indices of several joints in q or v, in the order of the names.

        Args:
            joints: Names of joints.
            of: "q" for positions, "v" for velocities, accelerations and forces.
        """
        names = (joints,) if isinstance(joints, str) else joints
        slices = [self.slice(name, of=of) for name in names]
        return np.array([i for s in slices for i in range(s.start, s.stop)], dtype=np.intp)

    @public
    def body(self, name: str) -> Body:
        """Return a body by name."""
        for body in self.bodies:
            if body.name == name:
                return body
        raise UnknownNameError(
            "body", name, self.body_names, where=f"model {self.name!r}", listing="model.body_names"
        )

    @public
    def joint(self, name: str) -> Joint:
        """Return a joint by name."""
        self.slice(name)
        return next(joint for joint in self.joints if joint.name == name)

    @public
    def describe_q(self) -> str:
        """Describe the position variables: their number and their joints."""
        return self._describe(self.nq, [joint.nq for joint in self._bases()])

    @public
    def describe_v(self) -> str:
        """Describe the velocity variables, such as "18 (6 base + 12 joints)"."""
        return self._describe(self.nv, [joint.nv for joint in self._bases()])

    def _bases(self) -> list[Joint]:
        return [b.joint for b in self.bodies if b.parent == WORLD and b.joint.kind == "free"]

    @staticmethod
    def _describe(total: int, bases: list[int]) -> str:
        parts = []
        if bases:
            parts.append(f"{sum(bases)} base" if len(bases) == 1 else f"{sum(bases)} bases")
        rest = total - sum(bases)
        if rest or not bases:
            parts.append(f"{rest} joint" if rest == 1 else f"{rest} joints")
        return f"{total} ({' + '.join(parts)})"


def joint_slices(bodies: Sequence[Body]) -> dict[str, tuple[slice, slice]]:
    """Return the slices of each joint in q and v; coupled joints have those of their leader."""
    slices: dict[str, tuple[slice, slice]] = {}
    iq = iv = 0
    for body in bodies:
        joint = body.joint
        slices[joint.name] = (slice(iq, iq + joint.nq), slice(iv, iv + joint.nv))
        iq += joint.nq
        iv += joint.nv
    for body in bodies:
        if body.joint.follows is not None:
            slices[body.joint.name] = slices[body.joint.follows]
    return slices
