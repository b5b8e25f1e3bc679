"""Couplings of URDF+: gears and belts between links, as ties between their joints.

A <coupling> names a predecessor and a successor link and a ratio: with the joint positions added up
from the link that bears both, ratio times the predecessor's sum is the successor's (Chignoli et al.
2024).
"""

from collections.abc import Mapping, Sequence

from tiburon.errors import ModelError, nearest_name
from tiburon.formats.findings import Findings
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.body import Body
from tiburon.model.joints import Coupled
from tiburon.model.tendon_coupling import TendonCoupling

__all__ = ["read_couplings"]


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
            f"{element.describe()}: left out, only joints of one freedom can be coupled",
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
