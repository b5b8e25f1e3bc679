"""URDF elements beyond the tree: loops and couplings of URDF+, and transmissions.

A <coupling> names a predecessor link, a successor link and a ratio: with the joint positions summed
from their common ancestor, ratio times the predecessor's sum equals the successor's (Chignoli et
al. 2024).
"""

from collections.abc import Mapping, Sequence

from tiburon.errors import ModelError, nearest_name
from tiburon.formats.lenient import Findings
from tiburon.formats.urdf_joints import read_axis, read_origin
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.attachments import Actuator
from tiburon.model.body import Body
from tiburon.model.closure import LoopClosure
from tiburon.model.closure_kinds import TendonCoupling
from tiburon.model.joints import Coupled, Fixed, Joint, Planar, Prismatic, Revolute, Spherical
from tiburon.model.pose import Pose

__all__ = ["LOOP_KINDS", "read_actuators", "read_couplings", "read_loops"]

LOOP_KINDS = ("revolute", "continuous", "prismatic", "fixed", "planar", "spherical")
"""Joint types that may close a loop."""


def read_loops(robot: XmlElement, links: Mapping[str, XmlElement]) -> tuple[LoopClosure, ...]:
    """Return the joints that close loops (URDF+, Chignoli et al. 2024).

    A <loop> names a predecessor and a successor link, each with the <origin> of the joint frame on
    it, and a joint type with its axis.

    Args:
        robot: The root element.
        links: The <link> elements by name.
    """
    return tuple(_read_loop(element, links) for element in robot.all("loop"))


def _read_loop(element: XmlElement, links: Mapping[str, XmlElement]) -> LoopClosure:
    name = element.attribute("name")
    first, pose = _end(element, "predecessor", links)
    second, second_pose = _end(element, "successor", links)
    kind = element.attribute("type")
    if kind not in LOOP_KINDS:
        near = nearest_name(kind, LOOP_KINDS)
        hint = f"did you mean {near!r}?" if near else f"write one of {', '.join(LOOP_KINDS)}"
        element.fail(f"unknown type of loop {kind!r}; {hint}")
    try:
        joint: Joint
        if kind == "fixed":
            joint = Fixed(name, pose=pose)
        elif kind == "spherical":
            joint = Spherical(name, pose=pose)
        elif kind == "planar":
            joint = Planar(name, read_axis(element), pose=pose)
        else:
            moving = Prismatic if kind == "prismatic" else Revolute
            joint = moving(name, read_axis(element), pose=pose)
        return LoopClosure(name, first, second, joint, second_pose)
    except ModelError as error:
        element.blame(error)


def _end(element: XmlElement, side: str, links: Mapping[str, XmlElement]) -> tuple[str, Pose]:
    """Return the link at one end of a loop and the joint frame on it."""
    end = element.need(side)
    link = end.attribute("link")
    if link not in links:
        near = nearest_name(link, links)
        hint = f"did you mean {near!r}?" if near else "correct the name"
        end.fail(f"loop {element.attributes.get('name')!r}: unknown link {link!r}; {hint}")
    # some files put the origins beside the links
    beside = element.find(f"{side}_origin")
    if beside is not None:
        wrapper = XmlElement(side, {}, beside.line, beside.file)
        wrapper.children = [XmlElement("origin", beside.attributes, beside.line, beside.file)]
        return link, read_origin(wrapper)
    return link, read_origin(end)


def read_actuators(
    robot: XmlElement, joints: Mapping[str, Joint], findings: Findings
) -> tuple[Actuator, ...]:
    """Return the motors of simple transmissions: one joint, one actuator, one ratio.

    Transmissions that mix several joints, and those of joints that cannot move, are noted and left
    out.

    Args:
        robot: The root element.
        joints: The joints by name.
        findings: Collects what was left out.
    """
    actuators: dict[str, Actuator] = {}
    mixed: list[str] = []
    for element in robot.all("transmission"):
        driven, motors = list(element.all("joint")), list(element.all("actuator"))
        if len(driven) != 1 or len(motors) != 1:
            mixed.append(element.attributes.get("name", "?"))
            continue
        joint, motor = driven[0].attribute("name"), motors[0].attribute("name")
        if joint not in joints:
            findings.add(
                f"{element.describe()}: drives the joint {joint!r}, which does not exist; it was "
                "left out",
                element.line,
            )
            continue
        # the same motor may be listed once for each program that uses it
        if joints[joint].dof == 0 or motor in actuators:
            continue
        try:
            actuators[motor] = Actuator(motor, joint, _ratio(element, motors[0]))
        except ModelError as error:
            element.blame(error)
    if mixed:
        findings.add(
            f"transmissions of several joints or motors are not read: {', '.join(mixed[:4])}"
            + (f" and {len(mixed) - 4} more" if len(mixed) > 4 else "")
        )
    return tuple(actuators.values())


def _ratio(transmission: XmlElement, motor: XmlElement) -> float:
    """Return the reduction of a transmission; 1 where none is given."""
    for holder in (motor, transmission):
        for tag in ("mechanicalReduction", "mechanical_reduction"):
            reduction = holder.find(tag)
            if reduction is not None and reduction.text.strip():
                (ratio,) = reduction.parse(reduction.text, 1, "reduction")
                if ratio != 0.0:
                    return ratio
    return 1.0


def read_couplings(
    robot: XmlElement, bodies: Sequence[Body], findings: Findings
) -> tuple[TendonCoupling, ...]:
    """Return the ties that the couplings of a file are.

    Args:
        robot: The root element.
        bodies: Of the robot, parents first.
        findings: Collects what could not be expressed.
    """
    by_name = {body.name: body for body in bodies}
    found = []
    for element in robot.all("coupling"):
        tie = _read(element, by_name, findings)
        if tie is not None:
            found.append(tie)
    return tuple(found)


def _read(
    element: XmlElement, bodies: Mapping[str, Body], findings: Findings
) -> TendonCoupling | None:
    name = element.attribute("name")
    ratio = element.need("ratio").number("value")
    paths = []
    for side in ("predecessor", "successor"):
        end = element.need(side)
        link = end.attribute("link")
        if link not in bodies:
            near = nearest_name(link, bodies)
            hint = f"did you mean {near!r}?" if near else "name a link that a joint moves"
            end.fail(f"coupling {name!r}: unknown link {link!r}; {hint}")
        paths.append(_path(link, bodies))
    shared = {body.name for body in paths[0]} & {body.name for body in paths[1]}
    sums = [_summed([body for body in path if body.name not in shared]) for path in paths]
    if any(found is None for found in sums):
        findings.add(
            f"{element.describe()}: left out, only joints with one degree of freedom can be "
            "coupled",
            element.line,
        )
        return None
    (leaders, start), (joints, own) = (found for found in sums if found is not None)
    if not any(joints.values()):
        findings.add(
            f"{element.describe()}: left out, no joint moves its successor alone", element.line
        )
        return None
    if not any(leaders.values()):
        leaders = {}
    coefficients = (ratio * start - own, ratio) if leaders else (ratio * start - own,)
    try:
        return TendonCoupling(
            name,
            tuple(joints),
            tuple(joints.values()),
            leaders=tuple(leaders),
            leader_arms=tuple(leaders.values()),
            coefficients=coefficients,
        )
    except ModelError as error:
        element.blame(error)


def _path(link: str, bodies: Mapping[str, Body]) -> list[Body]:
    """Return a link and all that bear it."""
    found = []
    while link in bodies:
        found.append(bodies[link])
        link = bodies[link].parent
    return found


def _summed(path: Sequence[Body]) -> tuple[dict[str, float], float] | None:
    """Return the sum of joint positions as a share of each variable, and what is constant."""
    shares: dict[str, float] = {}
    constant = 0.0
    for body in reversed(path):
        joint = body.joint
        if isinstance(joint, Coupled):
            shares[joint.leader] = shares.get(joint.leader, 0.0) + joint.ratio
            constant += joint.offset
        elif joint.nv == 1 and joint.nq == 1:
            shares[joint.name] = shares.get(joint.name, 0.0) + 1.0
        elif joint.nv:
            return None
    return shares, constant
