"""Joints of URDF files: kinds, axes, limits, friction, and joints that mimic others."""

import math
from collections.abc import Mapping, Sequence

from tiburon.errors import ModelError, nearest_name
from tiburon.formats.lenient import SHOWN, Findings
from tiburon.formats.limits import Budget
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.joints import Coupled, Fixed, Free, Joint, Planar, Prismatic, Revolute, Spherical
from tiburon.model.joints.joint import JointLimits, JointPassive
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3
from tiburon.record import record

KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical")
"""Joint types that are read; "spherical" is an extension that some codes write."""

ROOT_JOINT = "root_joint"
"""Name of the joint below the root link, which URDF leaves unsaid."""

UNLIMITED = 1e16
"""Numbers of this size stand for no limit where the format demands one, as in SDF."""

_NO_TURN = Pose()


@record
class Mimic:
    """What a mimic joint follows: position = ratio times the leader's + offset."""

    leader: str
    ratio: float
    offset: float
    element: XmlElement


def read_origin(element: XmlElement | None) -> Pose:
    """Return the pose of the <origin> inside an element; none means the same frame."""
    origin = None if element is None else element.find("origin")
    if origin is None:
        return _NO_TURN
    xyz = tuple(origin.numbers("xyz", 3) or (0.0, 0.0, 0.0))
    rpy = origin.numbers("rpy", 3)
    if "quat_xyzw" in origin.attributes:
        if rpy is not None:
            origin.fail("expected rpy or quat_xyzw, got both; keep one")
        x, y, z, w = origin.parse(origin.attributes["quat_xyzw"], 4, "quat_xyzw")
        try:
            return Pose.from_quaternion((w, x, y, z), xyz)
        except ModelError as error:
            origin.blame(error)
    if rpy is None or not any(rpy):
        return Pose(translation=(xyz[0], xyz[1], xyz[2])) if any(xyz) else _NO_TURN
    return Pose.from_rpy(tuple(rpy), xyz)


def read_axis(element: XmlElement) -> Vec3:
    """Return the axis of a joint in its own frame, of length 1; x where none is given."""
    axis = element.find("axis")
    numbers = None if axis is None else axis.numbers("xyz", 3)
    return (1.0, 0.0, 0.0) if axis is None or numbers is None else unit(numbers, axis)


def unit(numbers: Sequence[float], element: XmlElement) -> Vec3:
    """Return an axis of length 1, to the last bit as given if that is its length already.

    Args:
        numbers: Three of them.
        element: Where they stand, for messages.
    """
    x, y, z = numbers
    largest = max(abs(x), abs(y), abs(z))
    if not 0.0 < largest < math.inf:
        element.fail(
            f"axis must have a direction, got {x:g} {y:g} {z:g}; say about or along which line "
            "the "
            "joint moves"
        )
    if abs(math.hypot(x, y, z) - 1.0) <= 1e-15:
        return (x, y, z)
    # by the largest first: lengths near the smallest numbers have hardly any digits
    x, y, z = x / largest, y / largest, z / largest
    length = math.hypot(x, y, z)
    return (x / length, y / length, z / length)


def read_joints(
    elements: Mapping[str, XmlElement], budget: Budget, findings: Findings
) -> dict[str, Joint]:
    """Return all joints by name.

    Args:
        elements: The <joint> elements by name.
        budget: Clock.
        findings: Collects what was repaired.
    """
    written = {name: mimic for name, e in elements.items() if (mimic := _read_mimic(e)) is not None}
    ties = _Ties(written, elements, findings)
    joints: dict[str, Joint] = {}
    for name, element in elements.items():
        budget.check_time()
        joints[name] = _read_joint(name, element, ties.of(name), findings)
    return joints


def _read_joint(name: str, element: XmlElement, mimic: Mimic | None, findings: Findings) -> Joint:
    kind = element.attribute("type")
    pose = read_origin(element)
    try:
        if kind == "fixed":
            return Fixed(name, pose=pose)
        limits = _read_limits(element, kind, findings)
        passive = _read_passive(element)
        if kind == "floating":
            return Free(name, pose=pose, limits=limits, passive=passive)
        if kind == "spherical":
            return Spherical(name, pose=pose, limits=limits, passive=passive)
        if kind not in KINDS:
            near = nearest_name(kind, KINDS)
            hint = f"did you mean {near!r}?" if near else f"write one of {', '.join(KINDS)}"
            element.fail(f"unknown joint type {kind!r}; {hint}")
        axis = read_axis(element)
        if kind == "planar":
            return Planar(name, axis, pose=pose, limits=limits, passive=passive)
        moving = Prismatic if kind == "prismatic" else Revolute
        if mimic is None:
            return moving(name, axis, pose=pose, limits=limits, passive=passive)
        if mimic.leader == "":
            # the leader never moves, so the follower stands where that leaves it
            return moving(name, axis, pose=pose).locked((mimic.offset,))
        moves = moving(f"{name}.motion", axis)
        return Coupled(
            name,
            moves,
            mimic.leader,
            mimic.ratio,
            mimic.offset,
            pose=pose,
            limits=limits,
            passive=passive,
        )
    except ModelError as error:
        element.blame(error)


def _read_limits(element: XmlElement, kind: str, findings: Findings) -> JointLimits | None:
    """Return what the <limit> of a joint says; bounds that are not given are none."""
    limit = element.find("limit")
    if limit is None:
        return None
    lower, upper = -math.inf, math.inf
    given = limit.attributes
    if kind in ("revolute", "prismatic") and ("lower" in given or "upper" in given):
        # the format's own default for the one left out
        lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
    velocity, force = limit.number("velocity", math.inf), limit.number("effort", math.inf)
    if lower > upper:
        findings.add(
            f"joint {element.attributes.get('name')!r}: lower limit {lower:g} exceeds upper "
            f"{upper:g}; both were left out",
            limit.line,
        )
        lower, upper = -math.inf, math.inf
    if velocity < 0.0 or force < 0.0:
        findings.add(
            f"joint {element.attributes.get('name')!r}: limits of velocity and effort must not be "
            f"negative, got {velocity:g} and {force:g}; the negative ones were left out",
            limit.line,
        )
        velocity = math.inf if velocity < 0.0 else velocity
        force = math.inf if force < 0.0 else force
    if max(upper, -lower, velocity, force) >= UNLIMITED:
        lower, upper, velocity, force = (
            math.copysign(math.inf, x) if abs(x) >= UNLIMITED else x
            for x in (lower, upper, velocity, force)
        )
    if (lower, upper, velocity, force) == (-math.inf, math.inf, math.inf, math.inf):
        return None
    return JointLimits(lower, upper, velocity, force)


def _read_passive(element: XmlElement) -> JointPassive | None:
    """Return damping and friction, if the joint has any."""
    dynamics = element.find("dynamics")
    if dynamics is None:
        return None
    damping, friction = dynamics.number("damping", 0.0), dynamics.number("friction", 0.0)
    return JointPassive(damping, friction) if damping or friction else None


def _read_mimic(element: XmlElement) -> Mimic | None:
    """Return what a joint follows as written, if it is one that can follow."""
    mimic = element.find("mimic")
    kind = element.attributes.get("type", "").strip()
    if mimic is None or kind not in ("revolute", "continuous", "prismatic"):
        return None
    ratio, offset = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0)
    return Mimic(mimic.attribute("joint"), ratio, offset, mimic)


class _Ties:
    """What joints follow, through any that follow others themselves."""

    def __init__(
        self,
        written: Mapping[str, Mimic],
        elements: Mapping[str, XmlElement],
        findings: Findings,
    ) -> None:
        self._written = written
        self._elements = elements
        self._findings = findings
        self._found: dict[str, Mimic | None] = {}
        self._unknown = 0

    def of(self, name: str) -> Mimic | None:
        """Return the coupling of a joint to its independent leader; None if it is independent.

        An empty leader means a fixed one.
        """
        # the joints between, from this one to the first whose tie is known
        path: list[str] = []
        passed: set[str] = set()
        while name in self._written and name not in self._found:
            if name in passed:
                self._written[name].element.fail(
                    f"joint {name!r} follows itself by way of others; let one of them move freely"
                )
            path.append(name)
            passed.add(name)
            name = self._written[name].leader
        for follower in reversed(path):
            self._found[follower] = self._one(follower, self._written[follower])
        return self._found.get(path[0] if path else name)

    def _one(self, name: str, mimic: Mimic) -> Mimic | None:
        """Return the tie of a joint whose leader's own tie is known."""
        leader, element = mimic.leader, mimic.element
        if leader in self._written:
            between = self._found[leader]
            # one that moves by itself after all leads as any other
            if between is not None:
                return Mimic(
                    between.leader,
                    mimic.ratio * between.ratio,
                    mimic.offset + mimic.ratio * between.offset,
                    element,
                )
        if leader not in self._elements:
            self._note_unknown(name, mimic)
            return None
        kind = self._elements[leader].attributes.get("type", "").strip()
        if kind == "fixed":
            return Mimic("", mimic.ratio, mimic.offset, element)
        if kind not in ("revolute", "continuous", "prismatic"):
            element.fail(
                f"joint {name!r}: can mimic a joint with one degree of freedom, got the {kind} "
                "joint "
                f"{leader!r}; follow a revolute or prismatic one"
            )
        return mimic

    def _note_unknown(self, name: str, mimic: Mimic) -> None:
        # looking for the nearest name takes long in a long file, and few messages are read
        self._unknown += 1
        near = nearest_name(mimic.leader, self._elements) if self._unknown <= SHOWN else None
        hint = f", perhaps {near!r} was meant" if near else ""
        self._findings.add(
            f"joint {name!r}: mimics {mimic.leader!r}, which does not exist{hint}; it was read as "
            "a joint that moves by itself",
            mimic.element.line,
        )
