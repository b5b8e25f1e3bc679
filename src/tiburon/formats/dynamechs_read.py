"""DynaMechs files: robots (``.dm``) and environments, versions 2.0.3 to 4.0 [McMillan 1994].

A file holds one system: a tree of links, written link after link with `Branch` blocks where it
branches, and in a `ClosedArticulation` joints that close loops. Massless links (`ZScrewTxLink`,
`StaticRootLink`) have no joint and become named frames. Like DynaMechs itself, the reader ignores
text after the system.

Conventions of the format:

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

The text consists of words, numbers, quoted strings and braces; ``#`` starts a comment. ``Kind {``
opens a block, any other word is a label, followed by its values::

    RevoluteLink {
        Name            "knee"
        Mass            5.03
        MDH_Parameters  0.375 0.0 0.0 0.0     # a alpha d theta
    }
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tiburon.errors import ModelError, ModelFileError, nearest_name, spelling_hint
from tiburon.formats.lenient import FilePart, Findings, lenient_body, lenient_model
from tiburon.formats.limits import MAX_DEPTH, MAX_MAGNITUDE, Budget, read_bytes
from tiburon.model import (
    WORLD,
    Actuator,
    Body,
    BodyFluid,
    ContactPoint,
    CylinderDrag,
    Frame,
    Free,
    Ground,
    GroundGrid,
    Inertia,
    Joint,
    JointLimits,
    JointPassive,
    LoopClosure,
    MeshShape,
    Model,
    Motor,
    Pose,
    Prismatic,
    Revolute,
    Shape,
    Water,
    World,
    added_mass_from,
)
from tiburon.model.joints.quaternion import Spherical
from tiburon.model.value_checks import Vec3
from tiburon.spatial import matrix_to_quaternion

MAX_TOKENS = 5_000_000
"""Most words and numbers in a file: 20 000 links with 250 each."""

CLOCK_EVERY = 4096
"""Tokens between two checks of the time."""

_TOKEN = re.compile(
    r'(?P<line>\n)|#[^\n]*|"(?P<text>[^"\n]*)"|(?P<brace>[{}])|(?P<word>[^\s{}"]+)|"'
)

_WORD_VALUES = ("Stabilization",)
"""Labels whose value is a word without quotes."""

Value = float | str


class Label(NamedTuple):
    """A label and its values."""

    line: int
    values: list[Value]


class Block:
    """One block: its kind, its labels, and the blocks inside it in their order."""

    __slots__ = ("blocks", "file", "kind", "labels", "line", "used")

    def __init__(self, kind: str, line: int | None, file: str) -> None:
        self.kind = kind
        self.line = line
        self.file = file
        self.labels: dict[str, Label] = {}
        self.blocks: list[Block] = []
        self.used: set[str] = set()

    @property
    def name(self) -> str:
        """Name of the block, or ""."""
        return self.text("Name") if "Name" in self.labels else ""

    def describe(self) -> str:
        """Return kind and name for messages."""
        label = self.labels.get("Name")
        given = label.values[0] if label is not None and label.values else ""
        return f"{self.kind} {given!r}" if given else self.kind

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Raise `ModelFileError` naming file, line and block."""
        raise ModelFileError(
            self.file, message, line=line or self.line, element=self.describe() or None
        )

    def has(self, label: str) -> bool:
        """Return whether a label is given."""
        return label in self.labels

    def numbers(self, label: str, count: int) -> list[float]:
        """Return the numbers of a label; raise if their count is wrong."""
        values = self._values(label)
        found = [value for value in values if isinstance(value, float)]
        if len(values) != count or len(found) != count:
            wanted = "one number" if count == 1 else f"{count} numbers"
            self.fail(
                f"{label} must have {wanted}, got {len(values)} values; correct the line",
                self.labels[label].line,
            )
        return found

    def number(self, label: str, default: float | None = None) -> float:
        """Return the number of a label, or the default."""
        if default is not None and label not in self.labels:
            return default
        (value,) = self.numbers(label, 1)
        return value

    def whole(self, label: str, default: int | None = None) -> int:
        """Return the integer of a label, or the default."""
        value = self.number(label, None if default is None else float(default))
        if value != int(value):
            self.fail(
                f"{label} must be a whole number, got {value:g}; correct it",
                self.labels[label].line,
            )
        return int(value)

    def text(self, label: str) -> str:
        """Return the text of a label, without quotes."""
        values = self._values(label)
        if len(values) != 1 or not isinstance(values[0], str):
            self.fail(
                f'{label} must have one text in quotes; write {label} "..."',
                self.labels[label].line,
            )
        return values[0]

    def values(self, label: str) -> list[Value]:
        """Return all values of a label, if it is given."""
        return self._values(label) if label in self.labels else []

    def unused(self) -> Iterator[tuple[str, int]]:
        """Iterate over labels that were not read, with their lines."""
        return ((name, label.line) for name, label in self.labels.items() if name not in self.used)

    def _values(self, label: str) -> list[Value]:
        self.used.add(label)
        if label not in self.labels:
            self.fail(f"expected {label}, got none; add it")
        return self.labels[label].values


def parse_blocks(content: bytes, budget: Budget, last: tuple[str, ...] = ()) -> Block:
    """Parse a file into one block without a kind; it ends after blocks of the kinds `last`.

    Raises:
        ModelFileError: If the text is malformed, too deep or too large.
    """
    text = _decoded(content, budget.file)
    root = Block("", None, budget.file)
    open_blocks = [root]
    word: tuple[str, int] | None = None
    label: Label | None = None
    label_name = ""
    line = 1
    for count, token in enumerate(_TOKEN.finditer(text)):
        if count % CLOCK_EVERY == 0:
            budget.check_time()
            if count > MAX_TOKENS:
                open_blocks[-1].fail(
                    f"a file may have {MAX_TOKENS} words, got more; split it", line
                )
        kind = token.lastgroup
        if kind == "line":
            line += 1
            continue
        if kind is None:
            if token[0].startswith("#"):
                continue
            open_blocks[-1].fail('a string must end on its line; add the missing quote "', line)
        if kind == "brace" and token[0] == "{":
            if word is None:
                open_blocks[-1].fail("a block must have a kind; write a word before {", line)
            block = Block(*word, budget.file)
            open_blocks[-1].blocks.append(block)
            open_blocks.append(block)
            if len(open_blocks) > MAX_DEPTH:
                block.fail(f"blocks may be nested {MAX_DEPTH} deep, got more; flatten it")
            word, label = None, None
            continue
        value: Value | None = token["text"] if kind == "text" else None
        if kind == "word":
            value = _number(token[0], open_blocks[-1], line)
            if value is None and word is not None and word[0] in _WORD_VALUES:
                value = token[0]
        if value is not None:
            if word is not None:
                label_name, label = word[0], Label(word[1], [])
                _add(open_blocks[-1], label_name, label)
                word = None
            if label is None:
                open_blocks[-1].fail(f"{str(value)[:40]!r} has no label; write one before it", line)
            label.values.append(value)
            continue
        if word is not None:
            # a label without values
            _add(open_blocks[-1], word[0], Label(word[1], []))
        word, label = None, None
        if kind == "word":
            word = (token[0], line)
            continue
        # a closing brace
        closed = open_blocks.pop()
        if not open_blocks:
            root.fail("there is a } without its {; remove it", line)
        if len(open_blocks) == 1 and closed.kind in last:
            return root
    if len(open_blocks) > 1:
        open_blocks[-1].fail("the file ends inside this block; add the missing }")
    return root


def _add(block: Block, name: str, label: Label) -> None:
    if name in block.labels:
        block.fail(
            f"{name} is given twice, first on line {block.labels[name].line}; remove one",
            label.line,
        )
    block.labels[name] = label


def _number(word: str, block: Block, line: int) -> float | None:
    """Parse a number; return None for other words."""
    try:
        number = float(word)
    except ValueError:
        return None
    if "_" in word:
        return None
    if not abs(number) < MAX_MAGNITUDE:
        block.fail(
            f"numbers must be finite and below {MAX_MAGNITUDE:g}, got {word[:40]}; correct it", line
        )
    return number


def _decoded(content: bytes, file: str) -> str:
    """Decode a file; old files have comments in other encodings."""
    if b"\0" in content:
        raise ModelFileError(file, "this is not plain text; save the file as UTF-8", line=1)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


NO_MOTOR, DC_MOTOR = 0, 1
"""Values of `Actuator_Type`."""

SYMMETRY = 1e-9
"""Largest asymmetry of a tensor, relative to its largest entry: rounding only."""


@dataclass
class Parts:
    """Elements of a robot read so far."""

    bodies: list[Body] = field(default_factory=list)
    contacts: list[ContactPoint] = field(default_factory=list)
    actuators: list[Actuator] = field(default_factory=list)
    start: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Initial joint positions."""

    lost: dict[str, int] = field(default_factory=dict)
    """Counts of properties that a model cannot represent."""

    def lose(self, words: str) -> None:
        """Count a property that a model cannot represent."""
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
        carrier: Its parent body, or "world".
        place: The inboard frame in that body.
        shapes: Visual geometry.
        parts: Receives the body, its contacts and its actuator.
        findings: Collects warnings.
    """
    try:
        joint, start = _joint(block, f"{name}_joint", place, parts, findings)
        if joint.kind == "free" and carrier != WORLD:
            block.fail("a MobileBaseLink must be the first link; move it before the others")
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
        raise_for_block(block, error)
    parts.bodies.append(body)
    if start != joint.neutral():
        parts.start[joint.name] = start
    _read_contacts(block, name, parts)


def raise_for_block(block: Block, error: ModelError) -> NoReturn:
    """Raise a model error as one about its block in the file."""
    if isinstance(error, ModelFileError):
        raise error
    block.fail(str(error))


def _joint(
    block: Block, name: str, place: Pose, parts: Parts, findings: Findings
) -> tuple[Joint, tuple[float, ...]]:
    """Return the joint of a link and its initial position."""
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
    """Return the limits of a joint, which DynaMechs enforces only by springs or dampers."""
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
    """Read a motor; return the reflected inertia of its rotor at the joint [kg m^2].

    DynaMechs adds it to the link's moment of inertia, so that it also resists rotation of the whole
    robot. Here it acts on the joint alone, as a rotor behind a gear does. RobotBuilder's files also
    have a gear ratio, with parameters on the motor side.
    """
    if block.number("Motor_Half_Drop_Value", 0.0):
        parts.lose("half-drop values of motor brushes")
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
    """Count limit springs, which a model does not represent; return whether there are any."""
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
    """Read contact points of both kinds of DynaMechs."""
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
    """Return the orientation as a unit quaternion (w, x, y, z); the file has w last.

    Generated files have zero quaternions, which mean identity.
    """
    x, y, z, w = block.numbers("Orientation_Quat", 4)
    length = math.sqrt(w * w + x * x + y * y + z * z)
    if not length > 0.0:
        line = block.labels["Orientation_Quat"].line
        findings.add(f"{block.describe()}: a zero quaternion is read as identity", line)
        return (1.0, 0.0, 0.0, 0.0)
    return (w / length, x / length, y / length, z / length)


AXES: tuple[Vec3, Vec3, Vec3] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
"""Axes of a link by their index in the file."""


def read_fluid(block: Block) -> BodyFluid | None:
    """Return the hydrodynamic coefficients, if the block has any."""
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
        # the density is in another file; DynaMechs uses the matrix in any fluid
        reference_density=None,
    )


def _drag(block: Block) -> tuple[tuple[CylinderDrag, ...], tuple[float, ...] | None]:
    """Return the drag cylinder, or the lumped coefficients of old files."""
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
        radius, high - low, coefficient, (coefficient, coefficient), (x, y, z), AXES[axis]
    )
    return (cylinder,), None


LOOP_JOINTS = {"RevoluteJoint": Revolute, "PrismaticJoint": Prismatic, "SphericalJoint": Spherical}
"""Loop joints, hard (exact) or soft (by springs), with axis z."""

IGNORED = (
    "Stabilization",
    "Position_Constraint_Spring",
    "Position_Constraint_Damper",
    "Orientation_Constraint_Spring",
    "Orientation_Constraint_Damper",
)
"""Constraint stabilization of DynaMechs, not a property of the robot."""


def read_loop(block: Block, named: dict[str, str], findings: Findings) -> LoopClosure:
    """Read one joint that closes a loop between links, `named` by their names in the file."""
    hardness, kind = block.kind[:4], block.kind[4:]
    if hardness not in ("Hard", "Soft") or kind not in LOOP_JOINTS:
        known = [f"{h}{k}" for h in ("Hard", "Soft") for k in LOOP_JOINTS]
        hint = spelling_hint(block.kind, known)
        block.fail(f"{block.kind[:40]!r} is not a loop joint; {hint}")
    places = []
    for label in ("Link_A_Name", "Link_B_Name"):
        given = block.text(label).strip()
        if given not in named:
            near = nearest_name(given, named)
            hint = f"did you mean {near!r}?" if near else "name a link of this file"
            block.fail(f"{label} {given!r} is not a link of this file; {hint}")
        places.append(named[given])
    if hardness == "Soft":
        findings.add(f"{block.describe()}: by springs in DynaMechs, exact here", block.line)
    friction = block.number("Joint_Friction", 0.0)
    name = block.name.strip() or f"loop_line_{block.line}"
    for label in IGNORED:
        block.values(label)
    try:
        joint = LOOP_JOINTS[kind](
            name,
            pose=_pose(block, "A"),
            passive=JointPassive(damping=friction) if friction else None,
        )
        return LoopClosure(name, places[0], places[1], joint, _pose(block, "B"))
    except ModelError as error:
        raise_for_block(block, error)


def _pose(block: Block, side: str) -> Pose:
    """Return the joint's frame on one of the two links."""
    rows = block.numbers(f"Rotation_Matrix_{side}", 9)
    x, y, z = block.numbers(f"Joint_{side}_Position", 3)
    return Pose([rows[0:3], rows[3:6], rows[6:9]], (x, y, z))  # type: ignore[arg-type]


SYSTEMS = ("System", "Articulation", "ClosedArticulation")
"""Blocks that contain a robot."""

MOVING_LINKS = (
    "MobileBaseLink",
    "DynamicRefMember",
    "RevoluteLink",
    "PrismaticLink",
    "SphericalLink",
    "QuaternionLink",
)
"""Links with mass and a joint."""

BRANCHES = ("Branch", "Articulation", "TreeStructure")
"""Blocks of serial links, after which the trunk continues."""

INITIAL = "initial"
"""Name of the initial configuration."""

GRAPHICS_LABELS = ("Graphics_Model", "Graphics_Model_Index", "Number_Graphics_Models")


def read_dynamechs(path: Path, package_paths: Iterable[str | Path] = ()) -> Model:
    """Read a robot from a DynaMechs file.

    Args:
        path: The file.
        package_paths: Folders for graphics models, in addition to that of the file.

    Returns:
        The robot; its pose "initial" is the initial configuration of the file.

    Raises:
        ModelFileError: If the file is invalid; the message names file, line, element and cure.

    Warns:
        ModelWarning: If something cannot be represented or is unknown.
    """
    budget = Budget(str(path))
    root = parse_blocks(read_bytes(path), budget, last=SYSTEMS)
    system = next((block for block in root.blocks if block.kind in SYSTEMS), None)
    if system is None:
        raise ModelFileError(
            budget.file,
            f"expected a block {', '.join(SYSTEMS[:-1])} or {SYSTEMS[-1]}, got none; is this a "
            "DynaMechs file?",
        )
    reader = _Reader(path, package_paths, budget, root, system)
    model = reader.read()
    reader.findings.warn()
    return model


class _Reader:
    """Reads one system."""

    def __init__(
        self,
        path: Path,
        package_paths: Iterable[str | Path],
        budget: Budget,
        root: Block,
        system: Block,
    ) -> None:
        self.path = path
        self.folders = [path.parent.resolve(), *(Path(p).resolve() for p in package_paths)]
        self.budget = budget
        self.root = root
        self.system = system
        self.findings = Findings(budget.file)
        self.parts = Parts()
        self.frames: list[Frame] = []
        self.names: set[str] = {WORLD}
        # first link of each name, as DynaMechs resolves names
        self.named: dict[str, str] = {}
        self.count = 0
        self.depth = {WORLD: 0}

    def read(self) -> Model:
        system = self.system
        carrier, place = WORLD, _placement(system, self.findings)
        blocks = list(system.blocks)
        loops: list[LoopClosure] = []
        closing = [block for block in blocks if block.kind == "SecondaryJoints"]
        blocks = [block for block in blocks if block.kind != "SecondaryJoints"]
        if system.kind == "System":
            # versions 2: a fixed or floating member first, which carries all articulations
            if not blocks or blocks[0].kind not in ("StaticRefMember", "DynamicRefMember"):
                system.fail("expected StaticRefMember or DynamicRefMember first; add it")
            if blocks[0].kind == "StaticRefMember":
                place = _placement(blocks.pop(0), self.findings)
        self._walk(blocks, carrier, place)
        for block in closing:
            loops += [read_loop(joint, self.named, self.findings) for joint in block.blocks]
        return self._model(loops)

    def _walk(self, blocks: list[Block], carrier: str, place: Pose) -> None:
        """Read serial links and their branches."""
        # remaining blocks in reverse, with their parent body and frame
        open_branches = [(blocks[::-1], carrier, place)]
        while open_branches:
            rest, carrier, place = open_branches.pop()
            while rest:
                block = rest.pop()
                if block.kind in BRANCHES:
                    open_branches.append((rest, carrier, place))
                    rest = block.blocks[::-1]
                    self._check_labels(block)
                    continue
                carrier, place = self._link(block, carrier, place)
                self._check_labels(block)

    def _link(self, block: Block, carrier: str, place: Pose) -> tuple[str, Pose]:
        """Read one link; return the parent body and frame of the next one."""
        self.count += 1
        self.budget.check_links(self.count)
        if self.count % 256 == 0:
            self.budget.check_time()
        if block.kind in MOVING_LINKS:
            name = self._name(block)
            shapes = self._shapes(block)
            self.depth[name] = self.depth[carrier] + 1
            self.budget.check_depth(self.depth[name], name)
            read_link(block, name, carrier, place, shapes, self.parts, self.findings)
            return name, Pose()
        if block.kind in ("ZScrewTxLink", "ZScrewLinkTx"):
            d, theta = block.numbers("ZScrew_Parameters", 2)
            place = place @ Pose.from_axis_angle((0.0, 0.0, 1.0), theta, (0.0, 0.0, d))
        elif block.kind != "StaticRootLink":
            known = (*MOVING_LINKS, "ZScrewTxLink", "StaticRootLink", "Branch")
            hint = spelling_hint(block.kind, known)
            block.fail(f"{block.kind[:40]!r} is not a kind of link; {hint}")
        if block.name.strip():
            self.frames.append(Frame(self._name(block), carrier, place))
        return carrier, place

    def _name(self, block: Block) -> str:
        """Return a unique name for a link."""
        given = block.name.strip()
        name = given or f"link_{len(self.parts.bodies) + 1}"
        number = 1
        while name in self.names:
            number += 1
            name = f"{given or 'link'}_{number}"
        if given and number > 1:
            self.findings.add(f"a second {given!r} is called {name!r}", block.line)
        self.names.add(name)
        if given:
            self.named.setdefault(given, name)
        return name

    def _shapes(self, block: Block) -> tuple[Shape, ...]:
        """Return the graphics model of a link, if its file is in a permitted folder."""
        file = ""
        if block.has("Graphics_Model"):
            file = block.text("Graphics_Model")
        elif block.has("Graphics_Model_Index"):
            index = block.whole("Graphics_Model_Index")
            file = self._graphics[index] if 0 <= index < len(self._graphics) else ""
        if not file:
            return ()
        try:
            path = (self.path.parent / file).resolve()
            known = path.is_file() and any(path.is_relative_to(f) for f in self.folders)
        except (OSError, ValueError, RuntimeError):
            known = False
        return (Shape(MeshShape(str(path)), role="visual"),) if known else ()

    @property
    def _graphics(self) -> list[str]:
        """Graphics files listed at the top of files of versions 2."""
        for block in self.root.blocks:
            if block.kind == "Graphics_Models":
                return [v for v in block.values("Number_Graphics_Models") if isinstance(v, str)]
        return []

    def _check_labels(self, block: Block) -> None:
        """Warn about unknown labels, as DynaMechs does."""
        for label, line in block.unused():
            if label not in GRAPHICS_LABELS and label != "Name":
                self.findings.add(f"{block.describe()}: skipped the unknown label {label!r}", line)

    def _model(self, loops: list[LoopClosure]) -> Model:
        self._check_labels(self.system)
        parts = self.parts
        if not parts.bodies:
            self.system.fail("a robot must have a moving link, got none; add a RevoluteLink")
        for words, times in parts.lost.items():
            self.findings.add(f"left out: {words} ({times}); models do not support them")
        try:
            model = lenient_model(
                self.budget.file,
                self.system.name.strip() or self.path.stem or "robot",
                parts.bodies,
                findings=self.findings,
                frames=self.frames,
                loops=loops,
                contacts=parts.contacts,
                actuators=parts.actuators,
                poses={INITIAL: parts.start} if parts.start else None,
            )
        except ModelFileError:
            raise
        except ModelError as error:
            raise ModelFileError(self.budget.file, str(error), name=error.name) from error
        self.budget.check_time()
        return model


def _placement(block: Block, findings: Findings) -> Pose:
    """Return the pose of a system in the world, identity by default."""
    if not block.has("Position"):
        return Pose()
    turn = quaternion(block, findings) if block.has("Orientation_Quat") else (1.0, 0.0, 0.0, 0.0)
    return Pose.from_quaternion(turn, block.numbers("Position", 3))


MAX_GRID_POINTS = 1_000_000
"""Most heights of uneven ground."""

_GROUND = {
    "planar_stiffness": "Ground_Planar_Spring_Constant",
    "normal_stiffness": "Ground_Normal_Spring_Constant",
    "planar_damping": "Ground_Planar_Damper_Constant",
    "normal_damping": "Ground_Normal_Damper_Constant",
    "static_friction": "Ground_Static_Friction_Coeff",
    "kinetic_friction": "Ground_Kinetic_Friction_Coeff",
}
"""Labels of the ground parameters."""


def read_dynamechs_world(path: Path, package_paths: Iterable[str | Path] = ()) -> World:
    """Read a world from a DynaMechs environment file.

    Args:
        path: The file.
        package_paths: Folders for terrain files, in addition to that of the file.

    Raises:
        ModelFileError: If the file is invalid; the message names file, line and cure.

    Warns:
        ModelWarning: If a label is unknown.
    """
    budget = Budget(str(path))
    block = parse_blocks(read_bytes(path), budget)
    findings = Findings(budget.file)
    x, y, z = block.numbers("Gravity_Vector", 3)
    try:
        ground = _ground(block, path, package_paths)
        fluid = Water(density) if (density := block.number("Fluid_Density", 0.0)) else None
        world = World(gravity=(x, y, z), ground=ground, fluid=fluid)
    except ModelFileError:
        raise
    except ModelError as error:
        raise ModelFileError(budget.file, str(error)) from error
    for label, line in block.unused():
        findings.add(f"skipped the unknown label {label!r}", line)
    findings.warn()
    return world


def _ground(block: Block, path: Path, package_paths: Iterable[str | Path]) -> Ground | None:
    parameters: dict[str, Any] = {name: block.number(label, 0.0) for name, label in _GROUND.items()}
    grid = None
    if block.has("Terrain_Data_Filename"):
        grid = _grid(block, path, package_paths)
    if grid is None and not any(block.has(label) for label in _GROUND.values()):
        return None
    return Ground(grid=grid, **parameters)


def _grid(block: Block, path: Path, package_paths: Iterable[str | Path]) -> GroundGrid | None:
    """Read a terrain file: counts along x and y, spacing, then rows of heights."""
    label = "Terrain_Data_Filename"
    name, line = block.text(label), block.labels[label].line
    if not name:
        return None
    folders = [path.parent.resolve(), *(Path(p).resolve() for p in package_paths)]
    try:
        # names may be relative to any permitted folder
        places = [(folder / name.replace("\\", "/")).resolve() for folder in folders]
        inside = [p for p in places if any(p.is_relative_to(f) for f in folders)]
        found = next((p for p in inside if p.is_file()), None)
    except (OSError, ValueError, RuntimeError) as error:
        block.fail(f"{label} {name[:60]!r} is not a path ({error}); correct it", line)
    if found is None:
        block.fail(
            f"{label} must name a file in the folder of this one or in package_paths, got "
            f"{name!r}; load it with package_paths=[...] naming a folder that holds it",
            line,
        )
    budget = Budget(str(found))
    words = read_bytes(found).split()
    try:
        rows, columns = int(words[0]), int(words[1])
        if rows < 0 or columns < 0 or rows * columns > MAX_GRID_POINTS:
            raise ModelFileError(
                budget.file,
                f"a ground may have {MAX_GRID_POINTS} heights, got {rows} x {columns}; make it "
                "coarser",
                line=1,
            )
        spacing, *heights = (float(word) for word in words[2 : 3 + rows * columns])
    except (ValueError, IndexError) as error:
        raise ModelFileError(
            budget.file,
            "expected two counts, a distance and the heights, all numbers; correct the file",
        ) from error
    if len(heights) != rows * columns:
        raise ModelFileError(
            budget.file,
            f"expected {rows} x {columns} heights, got {len(heights)}; add the missing ones",
        )
    table = tuple(tuple(heights[i : i + columns]) for i in range(0, len(heights), columns or 1))
    try:
        return GroundGrid((spacing, spacing), table)
    except ModelError as error:
        raise ModelFileError(budget.file, str(error)) from error
