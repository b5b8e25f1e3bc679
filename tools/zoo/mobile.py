"""Mobile manipulators that carry one payload."""

import math

import numpy as np

import tiburon as tb
from tiburon.zoo.parts import BLUE, GREY, ORANGE, STEEL, at, turned_z
from tools.zoo.closing import close
from tools.zoo.linkages import with_pose
from tools.zoo.sheet import Sheet

Y = (0.0, 1.0, 0.0)
Z = (0.0, 0.0, 1.0)

LINKS = (
    # joint axis, its place on the link before, mass, size of the box, its center, limits [degrees]
    (Z, (0.024, 0.0, 0.096), 2.412, (0.09, 0.09, 0.102), (0.0, 0.0, -0.003), (-169.0, 169.0)),
    (Y, (0.033, 0.0, 0.019), 1.155, (0.074, 0.082, 0.222), (0.001, -0.041, 0.074), (-65.0, 90.0)),
    (Y, (0.0, 0.0, 0.155), 0.934, (0.064, 0.054, 0.192), (0.0, 0.025, 0.067), (-151.0, 146.0)),
    (Y, (0.0, 0.0, 0.135), 0.877, (0.058, 0.100, 0.118), (0.0, 0.0, 0.026), (-102.5, 102.5)),
    (Z, (-0.002, 0.0, 0.130), 0.251, (0.054, 0.096, 0.030), (0.003, 0.0, -0.034), (-167.5, 167.5)),
)

GRIP = 0.08
"""From the last joint frame to the grip [m]; ours."""

HOME = (0.0, -0.5, 1.25, math.pi / 2.0 - 0.75, 0.0)
"""Arm angles at home [rad]: elbow forward, hand level; ours."""


def youbot() -> tb.Model:
    """Return one manipulator on its base, x forward, arm straight up at zero."""
    base = tb.Body(
        "base",
        joint=tb.Planar("base", pose=at(z=0.084)),
        inertia=tb.Inertia.box(22.0 + 0.845, (0.570, 0.360, 0.100)),
        shapes=(
            tb.Shape(tb.BoxShape((0.570, 0.360, 0.100)), color=STEEL),
            tb.Shape(tb.CylinderShape(0.093, 0.078), pose=at(0.143, 0.0, 0.085), color=GREY),
        ),
    )
    bodies, parent, mount = [base], "base", (0.143, 0.0, 0.046)
    for number, (axis, place, mass, size, center, range_) in enumerate(LINKS, start=1):
        low, high = np.radians(range_)
        shift = tuple(float(a + b) for a, b in zip(place, mount, strict=True))
        bodies.append(
            tb.Body(
                f"link_{number}",
                parent,
                joint=tb.Revolute(
                    f"joint_{number}",
                    axis,
                    pose=at(*shift),
                    limits=tb.JointLimits(float(low), float(high), force=10.0),
                ),
                inertia=tb.Inertia.box(mass, size, com=center),
                shapes=(
                    tb.Shape(
                        tb.BoxShape(size),
                        pose=at(*center),
                        color=ORANGE if number in (2, 3, 4) else GREY,
                    ),
                ),
            )
        )
        parent, mount = f"link_{number}", (0.0, 0.0, 0.0)
    return tb.Model(
        "youbot",
        bodies,
        [tb.Frame("hand", parent, at(z=GRIP))],
        actuators=[
            tb.Actuator("wheels", "base"),
            *(
                tb.Actuator(f"motor_{k}", f"joint_{k}", force_limits=(-10.0, 10.0))
                for k in range(1, 6)
            ),
        ],
    )


def mobile_manipulators() -> Sheet:
    """Return three manipulators on omnidirectional bases that carry a plate."""
    one = youbot()
    arm = [one.joint_names.index(f"joint_{k}") for k in range(1, 6)]
    start = one.neutral()
    start[one.indices([one.joint_names[k] for k in arm], of="q")] = HOME
    rotation, reach = tb.forward_kinematics(one, start, "hand")
    radius, thickness = 0.25, 0.02
    height = float(reach[2])
    payload = tb.Body(
        "payload",
        joint=tb.Free("payload", pose=at(z=height)),
        inertia=tb.Inertia.cylinder(1.2, radius, thickness),
        shapes=(tb.Shape(tb.CylinderShape(radius, thickness), color=BLUE),),
    )
    whole = tb.Model("mobile_manipulators", [payload])
    loops = []
    for number in range(3):
        around = turned_z(2.0 * math.pi / 3.0 * number)
        prefix = f"robot_{number + 1}_"
        whole = whole.attach(
            one, at="world", pose=around @ at(-radius - float(reach[0])), prefix=prefix
        )
        grip = around @ tb.Pose(rotation, (-radius, 0.0, 0.0))
        loops.append(
            tb.LoopClosure(
                f"{prefix}grip", "payload", f"{prefix}hand", tb.Fixed(f"{prefix}grip", pose=grip)
            )
        )
    model = tb.Model(
        "mobile_manipulators",
        whole.bodies,
        whole.frames,
        loops=loops,
        actuators=whole.actuators,
        about="Three mobile manipulators carry one plate: three loops, arms of eight joints",
    )
    angles = {
        f"robot_{number}_joint_{k}": angle
        for number in (1, 2, 3)
        for k, angle in enumerate(HOME, start=1)
    }
    home = close(model, angles, hold=("payload",))
    sources = """
Khan 2002, chapter 1 (figure 1.3, after Abou-Samah 2001): three mobile manipulators carry one
payload. The figure is lost, and no dimension is printed; the robots here are KUKA youBots.

Joint places, joint ranges, masses and sizes of base and links: youbot_description of the maker
(arm.urdf.xacro, limits.urdf.xacro, base.urdf.xacro). Its moments of inertia are placeholders;
ours are those of solid boxes of its sizes. Zero is the arm straight up. The foot of the arm is part
of the base. Torque limits of 10 N m as there. The base moves in the plane, as its four mecanum
wheels permit; the forces of the wheels act on it directly.

Ours: the payload (a plate of 1.2 kg, 0.5 m across; the arms are rated for 0.5 kg each), where the
robots stand and grip it, and the grip 0.08 m beyond the last joint frame."""
    notes = {
        "payload": "Ours.",
        "robot_1_base": "youbot_description; where it stands: ours.",
        "robot_1_link_1": "youbot_description; box of ours, 0.09 m wide.",
        "robot_1_grip": "Ours.",
    }
    return Sheet(with_pose(model, "home", home), sources, notes)


def sheets() -> list[Sheet]:
    """Return the robots of this family."""
    return [mobile_manipulators()]
