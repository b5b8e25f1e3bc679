"""Serial arms from Denavit-Hartenberg tables, classic or modified.

Symbols, for link i of a chain whose frame 0 is the base:
    a, alpha    distance along and angle about an x axis: the common normal of two joint axes
    d, theta    distance along and angle about a z axis: the joint axis
    Rx, Tx, Rz, Tz    rotations about and translations along x and z, child in parent

Both conventions put z on joint axes and differ in whose axis belongs to which frame:

    classic     T_i = Rz(theta_i) Tz(d_i) Tx(a_i) Rx(alpha_i)           joint i turns about z_{i-1}
    modified    T_i = Rx(alpha_{i-1}) Tx(a_{i-1}) Rz(theta_i) Tz(d_i)   joint i turns about z_i

The modified frames are the proximal ones of Featherstone 1987, section 8.2.1, and of McMillan 1994,
eqs. A.1-A.7; the classic, distal ones are those of Nahon 1991, appendix A. The joint variable is
added to theta of a revolute and to d of a prismatic joint.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tiburon.argument_checks import choice
from tiburon.errors import ModelError, OptionError, shown
from tiburon.model.body import WORLD, Body, Frame
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Prismatic, Revolute
from tiburon.model.pose import Pose
from tiburon.model.value_checks import finite_array

CONVENTIONS = ("classic", "modified")
JOINTS = {"revolute": Revolute, "prismatic": Prismatic}


@dataclass(frozen=True, slots=True, kw_only=True)
class DHLink:
    """One row of a Denavit-Hartenberg table, with the link it describes; compares by value.

    Example:
        ``DHLink(a=0.4, alpha=-np.pi / 2, d=0.1, inertia=Inertia.box(2.0, (0.4, 0.1, 0.1)))``
    """

    a: float = 0.0
    """Length of the common normal, along x [m]."""

    alpha: float = 0.0
    """Angle between the two joint axes, about x [rad]."""

    d: float = 0.0
    """Distance between the two normals, along the joint axis [m]; a prismatic joint adds q."""

    theta: float = 0.0
    """Angle between the two normals, about the joint axis [rad]; a revolute joint adds q."""

    joint: str = "revolute"
    """Kind of joint: "revolute" or "prismatic"."""

    inertia: Inertia = field(default_factory=Inertia)
    """Inertia of the link, in the row's own frame."""

    joint_name: str | None = None
    """Name of the joint; "joint_i" in row i, counted from 1, by default."""

    body_name: str | None = None
    """Name of the body; "link_i" by default."""

    def __post_init__(self) -> None:
        for quantity in ("a", "alpha", "d", "theta"):
            value = finite_array(getattr(self, quantity), (), "Denavit-Hartenberg row", quantity)
            object.__setattr__(self, quantity, float(value))
        choice("joint", self.joint, tuple(JOINTS))


def chain_parts(
    name: str, links: Iterable[DHLink], convention: str, base: Pose, tool: Pose | None
) -> tuple[list[Body], list[Frame]]:
    """Build the bodies and frames of a serial arm.

    Args:
        name: Name of the robot, for messages.
        links: Rows from the base to the tip.
        convention: "classic" or "modified".
        base: Frame 0 in the world.
        tool: A frame "tool" in the last row's frame, if wanted.
    """
    if convention not in CONVENTIONS:
        raise OptionError("convention", CONVENTIONS, convention)
    bodies: list[Body] = []
    frames = [Frame("frame_0", WORLD, base)]
    for number, link in enumerate(links, start=1):
        if not isinstance(link, DHLink):
            raise ModelError(
                f"model {name!r}: row {number} of links must be a DHLink, got {shown(link)}; "
                "write DHLink(a=..., alpha=..., d=..., theta=...)"
            )
        # Rz(theta) and Tz(d) commute, so the constant one may come first: the body frame then
        # shares the z axis of the joint and sits on the common normal
        if link.joint == "revolute":
            constant, offset = Pose(translation=(0.0, 0.0, link.d)), link.theta
        else:
            constant, offset = Pose.from_axis_angle((0.0, 0.0, 1.0), link.theta), link.d
        # Tx(a) Rx(alpha), which commute
        about_x = Pose.from_axis_angle((1.0, 0.0, 0.0), link.alpha, (link.a, 0.0, 0.0))
        classic = convention == "classic"
        before, after = (constant, about_x) if classic else (about_x @ constant, Pose())
        # a row starts at the frame of the previous row
        previous = frames[-1]
        name_of_joint = link.joint_name or f"joint_{number}"
        joint = JOINTS[link.joint](name_of_joint, offset=offset, pose=previous.pose @ before)
        body = link.body_name or f"link_{number}"
        inertia = link.inertia if after == Pose() else link.inertia.moved(after)
        bodies.append(Body(body, previous.body, joint=joint, inertia=inertia))
        frames.append(Frame(f"frame_{number}", body, after))
    if tool is not None:
        last = frames[-1]
        frames.append(Frame("tool", last.body, last.pose @ tool))
    return bodies, frames
