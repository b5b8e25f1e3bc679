"""Joints of DynaMechs files that close loops (`SecondaryJoints`)."""

from tiburon.errors import ModelError, nearest_name
from tiburon.formats.dynamechs_blocks import Block
from tiburon.formats.dynamechs_links import pass_on
from tiburon.formats.findings import Findings
from tiburon.model import JointPassive, LoopClosure, Pose, Prismatic, Revolute, Spherical

KINDS = {"RevoluteJoint": Revolute, "PrismaticJoint": Prismatic, "SphericalJoint": Spherical}
"""Each comes hard (exact) or soft (held by springs). Turning and sliding is about and along z."""

IGNORED = (
    "Stabilization",
    "Position_Constraint_Spring",
    "Position_Constraint_Damper",
    "Orientation_Constraint_Spring",
    "Orientation_Constraint_Damper",
)
"""How DynaMechs keeps a loop closed in simulation: no property of the robot."""


def read_loop(block: Block, named: dict[str, str], findings: Findings) -> LoopClosure:
    """Read one joint that closes a loop.

    Args:
        block: Its block.
        named: Our names of links by their names in the file.
        findings: Receives what is not as it should be.
    """
    hardness, kind = block.kind[:4], block.kind[4:]
    if hardness not in ("Hard", "Soft") or kind not in KINDS:
        known = [f"{h}{k}" for h in ("Hard", "Soft") for k in KINDS]
        near = nearest_name(block.kind, known)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
        block.fail(f"{block.kind[:40]!r} is no joint that closes a loop; {hint}")
    places = []
    for label in ("Link_A_Name", "Link_B_Name"):
        given = block.text(label).strip()
        if given not in named:
            near = nearest_name(given, named)
            hint = f"did you mean {near!r}?" if near else "name a link of this file"
            block.fail(f"{label} {given!r} is no link of this file; {hint}")
        places.append(named[given])
    if hardness == "Soft":
        findings.add(f"{block.describe()}: held by springs in DynaMechs, exactly here", block.line)
    friction = block.number("Joint_Friction", 0.0)
    name = block.name.strip() or f"loop_line_{block.line}"
    for label in IGNORED:
        block.values(label)
    try:
        joint = KINDS[kind](
            name,
            pose=_pose(block, "A"),
            passive=JointPassive(damping=friction) if friction else None,
        )
        return LoopClosure(name, places[0], places[1], joint, _pose(block, "B"))
    except ModelError as error:
        pass_on(block, error)


def _pose(block: Block, side: str) -> Pose:
    """Return the joint's frame on one of the two links."""
    rows = block.numbers(f"Rotation_Matrix_{side}", 9)
    x, y, z = block.numbers(f"Joint_{side}_Position", 3)
    return Pose([rows[0:3], rows[3:6], rows[6:9]], (x, y, z))  # type: ignore[arg-type]
