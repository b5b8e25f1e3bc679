"""Hands that hold something: two planar fingers, three fingers, Kerr and Roth's grasp."""

import math

import tiburon as tb
from tiburon.zoo.parts import BLUE, GREY, ORANGE, YELLOW, at, turned_z, upright
from tools.zoo.closing import close
from tools.zoo.linkages import pin, with_pose
from tools.zoo.sheet import Sheet

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)

BAR = 0.02
"""Edge of the fingers' square bars [m]."""


def finger_link(mass: float, length: float) -> tb.Inertia:
    """Return a square bar of aluminium along x that starts at the origin."""
    return tb.Inertia.box(mass, (length, BAR, BAR), com=(0.5 * length, 0.0, 0.0))


def finger_shape(length: float, color: tuple[float, float, float, float]) -> tuple[tb.Shape, ...]:
    """Return how such a bar looks."""
    size = (length, BAR, BAR)
    return (tb.Shape(tb.BoxShape(size), pose=at(0.5 * length), color=color),)


def two_finger_hand() -> Sheet:
    """Return two planar fingers that hold a disk."""
    upper, lower, radius, spacing, below = 0.035, 0.025, 0.015, 0.05, 0.045
    bodies, loops, guess = [], [], {}
    for side, sign in (("left", -1.0), ("right", 1.0)):
        bodies += [
            tb.Body(
                f"{side}_proximal",
                joint=tb.Revolute(
                    f"{side}_base", Z, -math.pi / 2.0, pose=upright(0.5 * sign * spacing)
                ),
                inertia=finger_link(0.0378, upper),
                shapes=finger_shape(upper, ORANGE),
            ),
            tb.Body(
                f"{side}_distal",
                f"{side}_proximal",
                joint=tb.Revolute(f"{side}_middle", Z, pose=at(upper)),
                inertia=finger_link(0.0270, lower),
                shapes=finger_shape(lower, GREY),
            ),
        ]
        guess |= {f"{side}_base": 0.5 * sign, f"{side}_middle": -1.2 * sign}
    bodies.append(
        tb.Body(
            "object",
            joint=tb.Planar("object", pose=upright(0.0, -below)),
            inertia=tb.Inertia.cylinder(0.05, radius, BAR),
            shapes=(tb.Shape(tb.CylinderShape(radius, BAR), color=BLUE),),
        )
    )
    for side, sign in (("left", -1.0), ("right", 1.0)):
        loops.append(
            pin(f"{side}_contact", f"{side}_distal", "object", at(lower), at(sign * radius))
        )
    joints = [body.joint.name for body in bodies[:4]]
    model = tb.Model(
        "two_finger_hand",
        bodies,
        loops=loops,
        actuators=[tb.Actuator(f"{j}_motor", j, force_limits=(-0.25, 0.25)) for j in joints],
        about="Two planar fingers hold a disk: three degrees of freedom, four motors",
    )
    home = close(model, guess, hold=("object",))
    sources = """
Nahon 1991, section 4.2.5: two planar fingers of two joints each hold an object by non-slipping
point contacts, which are hinges in the plane; three degrees of freedom, four motors. Its
dimensions are not given. Estimated: links as the two outer ones of table 6.4 (35 and 25 mm, bars
of aluminium 20 mm square, 37.8 and 27.0 g), bases 50 mm apart, fingers hang down and hold a disk
of 30 mm, 20 mm thick, 50 g, 45 mm below; torque limits 0.25 N m as in that section. The plane
stands upright: its y is up; joints turn anticlockwise seen from -y of the world."""
    notes = {
        "left_proximal": "Links: Nahon 1991, table 6.4; where the bases are: estimated.",
        "object": "Estimated: a solid disk.",
        "left_base_motor": "Torque limit: Nahon 1991, section 6.2.",
    }
    return Sheet(with_pose(model, "home", home), sources, notes)


def three_finger_hand() -> Sheet:
    """Return the hand that picks up a glass and pours."""
    first, second, third = 0.020, 0.035, 0.025
    circle, grip, drop = 0.085, 0.030, 0.030
    bodies, loops, actuators, guess = [], [], [], {}
    for number in range(1, 4):
        around = turned_z(math.radians(120.0 * (number - 1)))
        inward = around @ turned_z(math.pi, circle)
        down = tb.Pose.from_axis_angle(X, -math.pi / 2.0, (first, 0.0, 0.0))
        name = f"finger_{number}"
        rows = [
            ("base", 0.0216, first, inward, ORANGE),
            ("middle", 0.0378, second, down, GREY),
            ("tip", 0.0270, third, at(second), YELLOW),
        ]
        parent = "world"
        for joint, (part, mass, length, pose, color) in enumerate(rows, start=1):
            bodies.append(
                tb.Body(
                    f"{name}_{part}",
                    parent,
                    joint=tb.Revolute(f"{name}_joint_{joint}", Z, pose=pose),
                    inertia=finger_link(mass, length),
                    shapes=finger_shape(length, color),
                )
            )
            actuators.append(
                tb.Actuator(
                    f"{name}_motor_{joint}", f"{name}_joint_{joint}", force_limits=(-0.25, 0.25)
                )
            )
            parent = f"{name}_{part}"
        place = around @ at(grip)
        loops.append(
            tb.LoopClosure(
                f"{name}_contact",
                parent,
                "glass",
                tb.Spherical(f"{name}_contact", pose=at(third)),
                at(*place.translation),
            )
        )
        guess |= {f"{name}_joint_2": 0.0, f"{name}_joint_3": 1.2}
    bodies.append(
        tb.Body(
            "glass",
            joint=tb.Free("glass", pose=at(z=-drop)),
            inertia=tb.Inertia.cylinder(0.4, grip, 0.12),
            shapes=(tb.Shape(tb.CylinderShape(grip, 0.12), color=(0.7, 0.85, 0.95, 0.5)),),
        )
    )
    model = tb.Model(
        "three_finger_hand",
        bodies,
        loops=loops,
        actuators=actuators,
        about="Three fingers hold a full glass: six degrees of freedom, nine motors",
    )
    home = close(model, guess, hold=("glass",))
    sources = """
Nahon 1991, section 6.2 ("pick and pour"), table 6.4: links of 20, 35 and 25 mm, twists -90, 0, 0
degrees; 21.6, 37.8 and 27.0 g; their moments are those of bars of aluminium 20 mm square, as
used here. Glass of 60 mm diameter and 120 mm; 0.4 kg full, a solid cylinder then (0.15 kg when
poured out). Torque limits 0.25 N m; friction 0.5. Contacts are points that do not slip: ball
joints.

Where the fingers stand and touch is lost with a figure. Estimated: bases on a circle of 85 mm
around the glass, 120 degrees apart, fingers point inward and touch the glass at half its height,
30 mm below the bases. The fingers' bases are fixed in the world."""
    notes = {
        "finger_1_base": "Links: Nahon 1991, table 6.4; where the bases are: estimated.",
        "glass": "Nahon 1991, section 6.2: full, a solid cylinder; where it is held: estimated.",
    }
    return Sheet(with_pose(model, "home", home), sources, notes)


def kerr_roth_grasp() -> Sheet:
    """Return the two-finger grasp with soft contacts of Kerr and Roth."""
    arm = 1.0
    load = math.sqrt(2.0)
    # weight points along (0, 1, 1) of the object, as the load of the source does
    s = math.sqrt(0.5)
    tilt = tb.Pose(((-1.0, 0.0, 0.0), (0.0, s, -s), (0.0, -s, -s)))
    bodies = [
        tb.Body(
            "object",
            joint=tb.Free("object", pose=tilt),
            inertia=tb.Inertia.box(load / 9.81, (0.02, 2.0 * arm, 0.02)),
            shapes=(tb.Shape(tb.BoxShape((0.02, 2.0 * arm, 0.02)), color=BLUE),),
        )
    ]
    # x, y and normal of the contacts: z, x, y of the object, and x, z, -y
    contacts = {
        1: tb.Pose(((0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)), (0.0, -arm, 0.0)),
        2: tb.Pose(((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0)), (0.0, arm, 0.0)),
    }
    loops, actuators = [], []
    for number, contact in contacts.items():
        # the first finger works in the plane of normal and x, the second in that of normal and y
        plane = contact @ turned_z(0.0 if number == 1 else math.pi / 2.0)
        name = f"finger_{number}"
        lying = tb.Pose.from_axis_angle(Y, math.pi / 2.0, (-0.5, 0.0, 0.0))
        bodies += [
            tb.Body(
                f"{name}_proximal",
                joint=tb.Revolute(f"{name}_base", Y, pose=tilt @ plane @ at(1.0, 0.0, 1.0)),
                inertia=tb.Inertia.cylinder(0.2, 0.02, 1.0, com=(0.0, 0.0, -0.5)),
                shapes=(tb.Shape(tb.CylinderShape(0.02, 1.0), pose=at(z=-0.5), color=ORANGE),),
            ),
            tb.Body(
                f"{name}_distal",
                f"{name}_proximal",
                joint=tb.Revolute(f"{name}_middle", Y, pose=at(z=-1.0)),
                inertia=tb.Inertia.cylinder(0.2, 0.02, 1.0, com=(-0.5, 0.0, 0.0), axis=0),
                shapes=(tb.Shape(tb.CylinderShape(0.02, 1.0), pose=lying, color=GREY),),
            ),
        ]
        loops.append(
            tb.LoopClosure(
                f"contact_{number}",
                f"{name}_distal",
                "object",
                tb.Universal(f"contact_{number}", X, Y, pose=at(-1.0)),
                plane,
            )
        )
        actuators += [
            tb.Actuator(f"{name}_{part}_motor", f"{name}_{part}", force_limits=(-5.0, 5.0))
            for part in ("base", "middle")
        ]
    model = tb.Model(
        "kerr_roth_grasp",
        bodies,
        [tb.Frame(f"contact_{number}", "object", pose) for number, pose in contacts.items()],
        loops=loops,
        actuators=actuators,
        about="Two fingers with soft contacts hold a bar: a test of force distribution",
    )
    sources = """
Nahon 1991, section 6.1, after Kerr and Roth 1986: two soft contacts, friction 0.25 and 0.5
(torsion), torque limits 5 N m. The matrix of equilibrium printed there says that the contacts
lie 1 m on either side of the object's center and that the load is (0, 1, 1) N in its axes.

Estimated: the object is a bar of 2 m whose weight is that load; it is turned so that its weight
points that way. The fingers of the source are lost with its torque rows; here each has two links
of 1 m and 0.2 kg, whose first motor feels fN - fx (fN - fy in the second finger) and whose
second feels fN, rows that reproduce the printed optimum. A soft contact lets the object roll in
two directions but neither slide nor spin: a universal joint. All joints are zero at home."""
    notes = {
        "object": "Contacts and load: Nahon 1991, section 6.1; girth of the bar: estimated.",
        "finger_1_proximal": "Lengths: chosen for the torque rows; mass and radius: estimated.",
        "finger_1_base_motor": "Torque limit: Nahon 1991, section 6.1.",
    }
    return Sheet(model, sources, notes)


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [two_finger_hand(), three_finger_hand(), kerr_roth_grasp()]
