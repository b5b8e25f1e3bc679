"""Links of DynaMechs files: bodies, joints, hydrodynamic coefficients, and joints that close loops.

The facts of the format (DynaMechs 2.0.3 to 4.0, whose conventions are those of McMillan 1994):

- `Inertia` is the tensor about the origin of the link frame, not about the center of gravity.
- `MDH_Parameters` are a, alpha, d, theta of a modified Denavit-Hartenberg frame (eqs. A.1-A.7). The
  joint variable is theta itself (or d of a prismatic link), so the value in the file is the initial
  joint position.
- Quaternions are (x, y, z, w), from link axes to those of the inboard link.
- Angles of a ball joint are those of R = Rz(psi) Ry(theta) Rx(phi), listed phi, theta, psi.
- `Joint_Friction` is viscous.
- `Joint_Limits` act by their spring and damper, so there are none where both are zero.
- Hydrodynamic 6x6 matrices have angular rows first, about the link's origin (McMillan, Orin and
  McGhee 1995). Drag acts on a cylinder along one of the link's axes: strip by strip across it, and
  on its end faces along it.
- `SecondaryJoints` close loops.
"""

import math
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from tiburon.errors import ModelError, ModelFileError, nearest_name
from tiburon.formats.dynamechs_blocks import Block
from tiburon.formats.lenient import FilePart, Findings, lenient_body
from tiburon.model import (
    WORLD,
    Actuator,
    Body,
    BodyFluid,
    ContactPoint,
    CylinderDrag,
    Free,
    Inertia,
    Joint,
    JointLimits,
    JointPassive,
    LoopClosure,
    Motor,
    Pose,
    Prismatic,
    Revolute,
    Shape,
    added_mass_from,
)
from tiburon.model.joints import Spherical
from tiburon.model.value_checks import Vec3
from tiburon.spatial import matrix_to_quaternion

NO_MOTOR, DC_MOTOR = 0, 1
"""Values of `Actuator_Type`."""

SYMMETRY = 1e-9
"""Largest difference of mirrored tensor entries, relative to the largest entry: rounding only."""


@dataclass
class Parts:
    """What has been read of a robot so far."""

    bodies: list[Body] = field(default_factory=list)
    contacts: list[ContactPoint] = field(default_factory=list)
    actuators: list[Actuator] = field(default_factory=list)
    start: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Initial positions by joint."""

    lost: dict[str, int] = field(default_factory=dict)
    """What a model cannot hold, and how often it was met."""

    def lose(self, words: str) -> None:
        """Count something that a model cannot hold."""
        self.lost[words] = self.lost.get(words, 0) + 1


def read_link(
    block: Block,
    name: str,
    carrier: str,
    place: Pose,
    shapes: tuple[Shape, ...],
    parts: Parts,
    findings: Findings,
) -> None:
    """Read one moving link and everything fixed to it.

    Args:
        block: Its block.
        name: Its name.
        carrier: The body it is on, or "world".
        place: The inboard frame in that body.
        shapes: What it looks like.
        parts: Receives the body and what is fixed to it.
        findings: Receives what is not as it should be.
    """
    try:
        joint, start = _joint(block, f"{name}_joint", place, parts, findings)
        if joint.kind == "free" and carrier != WORLD:
            block.fail("a MobileBaseLink must come first, on the ground; move it before the others")
        body = lenient_body(
            FilePart(block.file, block.line, block.describe()),
            name,
            carrier,
            joint,
            _inertia(block, findings),
            shapes,
            read_fluid(block),
            findings=findings,
        )
    except ModelError as error:
        pass_on(block, error)
    parts.bodies.append(body)
    if start != joint.neutral():
        parts.start[joint.name] = start
    _read_contacts(block, name, parts)


def pass_on(block: Block, error: ModelError) -> NoReturn:
    """Raise an error about a part as one about its block in the file."""
    if isinstance(error, ModelFileError):
        raise error
    block.fail(str(error))


def _joint(
    block: Block, name: str, place: Pose, parts: Parts, findings: Findings
) -> tuple[Joint, tuple[float, ...]]:
    """Return the joint of a link and its position at the start."""
    if block.kind in ("MobileBaseLink", "DynamicRefMember"):
        x, y, z = block.numbers("Position", 3)
        if any(block.numbers("Velocity", 6) if block.has("Velocity") else ()):
            parts.lose("initial velocities")
        return Free(name, pose=place), (*quaternion(block, findings), x, y, z)
    if block.kind in ("SphericalLink", "QuaternionLink"):
        return _ball(block, name, place, parts, findings)
    return _axial(block, name, place, parts, findings)


def _ball(
    block: Block, name: str, place: Pose, parts: Parts, findings: Findings
) -> tuple[Joint, tuple[float, ...]]:
    x, y, z = block.numbers("Position_From_Inboard_Link", 3)
    if block.kind == "QuaternionLink":
        start = quaternion(block, findings)
    else:
        R = Pose.from_rpy(block.numbers("Initial_Joint_Angles", 3)).rotation
        w, i, j, k = matrix_to_quaternion(R)
        start = (float(w), float(i), float(j), float(k))
        if block.has("Axes_Limits") and any(block.numbers("Axes_Limits", 3)):
            parts.lose("limits of the axes of ball joints")
        _skip_limit_springs(block, parts)
    if block.has("Initial_Angular_Velocity") and any(block.numbers("Initial_Angular_Velocity", 3)):
        parts.lose("initial velocities")
    passive = _friction(block)
    return Spherical(name, pose=place @ Pose(translation=(x, y, z)), passive=passive), start


def _axial(
    block: Block, name: str, place: Pose, parts: Parts, findings: Findings
) -> tuple[Joint, tuple[float, ...]]:
    a, alpha, d, theta = block.numbers("MDH_Parameters", 4)
    normal = (a, 0.0, 0.0)
    turned = (
        Pose.from_axis_angle((1.0, 0.0, 0.0), alpha, normal) if alpha else Pose(translation=normal)
    )
    before = place @ turned
    if block.number("Initial_Joint_Velocity", 0.0):
        parts.lose("initial velocities")
    limits = _limits(block, parts, findings)
    if block.kind == "PrismaticLink":
        pose = before @ Pose.from_axis_angle((0.0, 0.0, 1.0), theta)
        return Prismatic(name, pose=pose, limits=limits, passive=_friction(block)), (d,)
    motor = block.whole("Actuator_Type", NO_MOTOR)
    if motor not in (NO_MOTOR, DC_MOTOR):
        block.fail(
            f"Actuator_Type must be {NO_MOTOR} (none) or {DC_MOTOR} (motor), got {motor}; fix it"
        )
    armature = _motor(block, name, parts) if motor == DC_MOTOR else 0.0
    pose = before @ Pose(translation=(0.0, 0.0, d))
    joint = Revolute(name, pose=pose, limits=limits, passive=_friction(block), armature=armature)
    return joint, (theta,)


def _limits(block: Block, parts: Parts, findings: Findings) -> JointLimits | None:
    """Return the limits of a joint, which hold in DynaMechs only if a spring stands behind them."""
    if not block.has("Joint_Limits"):
        return None
    low, high = block.numbers("Joint_Limits", 2)
    if not _skip_limit_springs(block, parts):
        return None
    if low > high:
        line = block.labels["Joint_Limits"].line
        findings.add(f"{block.describe()}: joint limits {low:g} and {high:g} were swapped", line)
        low, high = high, low
    return JointLimits(low, high)


def _motor(block: Block, joint: str, parts: Parts) -> float:
    """Read a motor; return the inertia of its rotor as the joint feels it [kg m^2].

    DynaMechs adds it to the link's own moment about the joint axis, so that turning the whole robot
    turns it, too. Here it resists the joint alone, as a rotor behind a gear does. RobotBuilder's
    files also state a gear, with the numbers before it.
    """
    if block.number("Motor_Half_Drop_Value", 0.0):
        parts.lose("how the brush drop of motors sets in")
    rotor, ratio = block.number("Motor_Inertia", 0.0), block.number("Motor_Gear_Ratio", 1.0)
    motor = Motor(
        resistance=block.number("Motor_Armature_Resistance"),
        torque_constant=block.number("Motor_Torque_Constant"),
        back_emf_constant=block.number("Motor_BackEMF_Constant"),
        damping=block.number("Motor_Viscous_Friction_Constant", 0.0),
        friction=block.number("Motor_Coulomb_Friction_Constant", 0.0),
        brush_drop=block.number("Motor_Max_Brush_Drop", 0.0),
    )
    name = f"{joint}_motor"
    parts.actuators.append(Actuator(name, joint, ratio, rotor_inertia=rotor, motor=motor))
    return ratio * ratio * rotor


def _skip_limit_springs(block: Block, parts: Parts) -> bool:
    """Count springs at the ends of joints, which a model does not hold; return whether any are."""
    spring = block.number("Joint_Limit_Spring_Constant", 0.0)
    damper = block.number("Joint_Limit_Damper_Constant", 0.0)
    if spring or damper:
        parts.lose("springs and dampers at joint limits")
    return bool(spring or damper)


def _friction(block: Block) -> JointPassive | None:
    friction = block.number("Joint_Friction", 0.0)
    return JointPassive(damping=friction) if friction else None


def _inertia(block: Block, findings: Findings) -> Inertia:
    """Return the inertia about the center of mass from that about the link's origin."""
    mass = block.number("Mass")
    about_origin = block.numbers("Inertia", 9)
    center = block.numbers("Center_of_Gravity", 3)
    tensor = np.array(about_origin).reshape(3, 3)
    if np.abs(tensor - tensor.T).max() > SYMMETRY * np.abs(tensor).max():
        line = block.labels["Inertia"].line
        findings.add(f"{block.describe()}: mirrored entries of Inertia differ; averaged", line)
    tensor = 0.5 * (tensor + tensor.T)
    c = np.array(center)
    # parallel axes: I_c = I_o - m (c.c 1 - c c^T)
    tensor -= mass * (c @ c * np.eye(3) - np.outer(c, c))
    x, y, z = center
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = tensor.tolist()
    return Inertia(mass, (x, y, z), (xx, xy, xz, yy, yz, zz))


def _read_contacts(block: Block, name: str, parts: Parts) -> None:
    """Read points that may touch the ground, of both kinds that DynaMechs has."""
    number = 0
    for kind in ("", "Dynamic_"):
        count = block.whole(f"Number_of_{kind}Contact_Points", 0)
        if count < 0:
            block.fail(
                f"Number_of_{kind}Contact_Points must not be negative, got {count}; count them"
            )
        places = block.numbers(f"{kind}Contact_Locations", 3 * count) if count else []
        for i in range(0, 3 * count, 3):
            number += 1
            x, y, z = places[i : i + 3]
            parts.contacts.append(ContactPoint(f"{name}_contact_{number}", name, (x, y, z)))


def quaternion(block: Block, findings: Findings) -> tuple[float, float, float, float]:
    """Return the orientation as (w, x, y, z) of length 1; the file has w last.

    Files made by programs have zeros where nobody chose one: no turn.
    """
    x, y, z, w = block.numbers("Orientation_Quat", 4)
    length = math.sqrt(w * w + x * x + y * y + z * z)
    if not length > 0.0:
        line = block.labels["Orientation_Quat"].line
        findings.add(f"{block.describe()}: a quaternion of zeros is taken for no turn", line)
        return (1.0, 0.0, 0.0, 0.0)
    return (w / length, x / length, y / length, z / length)


AXES: tuple[Vec3, Vec3, Vec3] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
"""Axes of a link by their number in the file."""


def read_fluid(block: Block) -> BodyFluid | None:
    """Return the hydrodynamic fields, which only files for water have."""
    if not any(block.has(label) for label in ("Volume", "Added_Mass", "Drag_Axis")):
        return None
    added = block.numbers("Added_Mass", 36) if block.has("Added_Mass") else [0.0] * 36
    x, y, z = (
        block.numbers("Center_of_Buoyancy", 3) if block.has("Center_of_Buoyancy") else (0.0,) * 3
    )
    matrix = added_mass_from([added[i : i + 6] for i in range(0, 36, 6)], order="angular-first")
    drag, quadratic = _drag(block)
    return BodyFluid(
        volume=block.number("Volume", 0.0),
        center_of_buoyancy=(x, y, z),
        added_mass=matrix if any(added) else None,  # type: ignore[arg-type]
        drag=drag,
        quadratic_damping=quadratic,  # type: ignore[arg-type]
        # the density is in another file, and DynaMechs takes the matrix as it stands in any fluid
        reference_density=None,
    )


def _drag(block: Block) -> tuple[tuple[CylinderDrag, ...], tuple[float, ...] | None]:
    """Return the cylinder on which drag acts, or the coefficients of old files that have none."""
    if not block.has("Drag_Axis"):
        return (), None
    axis = block.whole("Drag_Axis")
    if axis == -1:
        return (), tuple(block.numbers("Drag_Coefficients", 6))
    if axis not in (0, 1, 2):
        block.fail(f"Drag_Axis must be 0, 1 or 2 for x, y, z, got {axis}; correct it")
    low, high = block.numbers("Cylinder_Bounds", 2)
    radius, coefficient = block.number("Cylinder_Radius"), block.number("Drag_Coefficient")
    if coefficient == 0.0:
        return (), None
    x, y, z = (low * u for u in AXES[axis])
    cylinder = CylinderDrag(
        radius, high - low, (x, y, z), AXES[axis], coefficient, (coefficient, coefficient)
    )
    return (cylinder,), None


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
