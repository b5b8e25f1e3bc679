"""What URDF files say beyond the tree: loops in the style of URDF+, and transmissions."""

from collections.abc import Mapping

from tiburon.errors import ModelError, nearest_name
from tiburon.formats.findings import Findings
from tiburon.formats.urdf_joints import read_axis, read_origin
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.actuator import Actuator
from tiburon.model.closure import LoopClosure
from tiburon.model.joints import Fixed, Joint, Planar, Prismatic, Revolute, Spherical
from tiburon.model.pose import Pose

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
        if joints[joint].freedom_count == 0 or motor in actuators:
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
