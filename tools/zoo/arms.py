"""Arms: PUMA 560 alone, in pairs and in fours, a Panda-like arm, an arm on a satellite."""

import math
from itertools import product

import numpy as np

import tiburon as tb
from tiburon.zoo.parts import (
    BLUE,
    GREY,
    ORANGE,
    STEEL,
    YELLOW,
    at,
    degrees,
    line_shape,
    turned_z,
)
from tools.zoo.closing import close
from tools.zoo.linkages import with_pose
from tools.zoo.sheet import Sheet

PUMA_SOURCES = """
Kinematics and links: Armstrong, Khatib and Burdick 1986 ("The explicit dynamic model and
inertial parameters of the PUMA 560 arm"), modified Denavit-Hartenberg frames as reprinted in the
Robotics Toolbox (Corke, puma560akb). Moment zz of link 3: 0.066 kg m^2 as there; the 0.086 that
is also reprinted would break the triangle inequality. Link 1: only its moment about the first
joint (0.35) was measured and only that acts on a fixed base; its mass of 13 kg and its other
moments, set to the same 0.35, are estimated.

Motors: Nahon 1991, table 6.6: gear ratios n, rotor inertias at the joint n^2 J (the armature
here), viscous friction at the joint n^2 c, Coulomb friction f, torque limits, resistances,
torque constants. Rotor inertias at the motor are n^2 J / n^2. Joint ranges: Unimation's manual,
as in Fu, Gonzalez and Lee 1987. Flange: 56.25 mm beyond the wrist (Lee 1982)."""

PUMA_FRAMES = """
The world's origin lies on the shoulder, where the axes of the first two joints meet; the
mounting face of a real arm is 0.672 m below. At zero the upper arm points along x and the
forearm up."""


def puma560() -> Sheet:
    """Return the PUMA 560 with its motors."""
    notes = {
        "trunk": "Mass and moments xx and yy: estimated; they do no work on a fixed base.",
        "upper_arm": "Armstrong, Khatib and Burdick 1986; motor side: Nahon 1991, table 6.6.",
        "flange": "Lee 1982.",
        "motor_1": "Nahon 1991, table 6.6; rotor inertia: n^2 J / n^2.",
    }
    return Sheet(puma(), f"{PUMA_SOURCES}\n\n{PUMA_FRAMES}", notes)


def puma() -> tb.Model:
    """Return the arm by itself."""
    rows = [  # alpha [deg], a, d [m] of the modified table
        (0.0, 0.0, 0.0),
        (-90.0, 0.0, 0.2435),
        (0.0, 0.4318, -0.0934),
        (90.0, -0.0203, 0.4331),
        (-90.0, 0.0, 0.0),
        (90.0, 0.0, 0.0),
    ]
    inertias = [
        tb.Inertia(13.0, (0.0, 0.0, 0.0), (0.35, 0.35, 0.35)),
        tb.Inertia(17.4, (0.068, 0.006, -0.016), (0.13, 0.524, 0.539)),
        tb.Inertia(4.8, (0.0, -0.070, 0.014), (0.066, 0.0125, 0.066)),
        tb.Inertia(0.82, (0.0, 0.0, -0.019), (1.8e-3, 1.8e-3, 1.3e-3)),
        tb.Inertia(0.34, (0.0, 0.0, 0.0), (0.3e-3, 0.3e-3, 0.4e-3)),
        tb.Inertia(0.09, (0.0, 0.0, 0.032), (0.15e-3, 0.15e-3, 0.04e-3)),
    ]
    names = ("trunk", "upper_arm", "forearm", "wrist_1", "wrist_2", "hand")
    ranges = [(-160, 160), (-225, 45), (-45, 225), (-110, 170), (-100, 100), (-266, 266)]
    shapes = [
        (line_shape((0.0, 0.0, -0.3), (0.0, 0.0, 0.0), 0.09, GREY),),
        (line_shape((0.0, 0.0, 0.0), (0.4318, 0.0, 0.0), 0.06, ORANGE),),
        (line_shape((-0.0203, 0.0, 0.0), (-0.0203, -0.4331, 0.0), 0.05, BLUE),),
        (line_shape((0.0, 0.0, -0.08), (0.0, 0.0, -0.02), 0.035, STEEL),),
        (tb.Shape(tb.SphereShape(0.03), color=STEEL),),
        (line_shape((0.0, 0.0, 0.0), (0.0, 0.0, 0.045), 0.02, YELLOW),),
    ]
    ratios = (62.61, 107.36, 53.69, 76.01, 71.91, 76.73)
    armatures = (1.14, 4.71, 0.83, 0.2, 0.179, 0.193)
    dampings = (4.0, 3.5, 3.5, 0.48, 0.55, 0.65)
    frictions = (5.95, 6.82, 3.91, 1.07, 0.89, 0.94)
    torques = (97.6, 186.4, 89.4, 24.2, 20.1, 21.3)
    bodies, actuators, parent = [], [], "world"
    for number, (alpha, a, d) in enumerate(rows):
        twist = tb.Pose.from_axis_angle((1.0, 0.0, 0.0), math.radians(alpha), (a, 0.0, 0.0))
        low, high = degrees(*ranges[number])
        joint = tb.Revolute(
            f"joint_{number + 1}",
            pose=twist @ at(z=d),
            limits=tb.JointLimits(low, high, force=torques[number]),
            passive=tb.JointPassive(damping=dampings[number], friction=frictions[number]),
            armature=armatures[number],
        )
        name = names[number]
        bodies.append(
            tb.Body(name, parent, joint=joint, inertia=inertias[number], shapes=shapes[number])
        )
        parent = name
        wrist = number >= 3
        actuators.append(
            tb.Actuator(
                f"motor_{number + 1}",
                joint.name,
                ratio=ratios[number],
                rotor_inertia=armatures[number] / ratios[number] ** 2,
                force_limits=(-torques[number], torques[number]),
                motor=tb.Motor(
                    resistance=3.9 if wrist else 1.6, torque_constant=0.09 if wrist else 0.26
                ),
            )
        )
    ready = degrees(0.0, -90.0, 90.0, 0.0, 0.0, 0.0)
    return tb.Model(
        "puma560",
        bodies,
        [tb.Frame("flange", "hand", at(z=0.05625))],
        actuators=actuators,
        poses={"ready": ready, "nominal": degrees(0.0, -45.0, 180.0, 0.0, 45.0, 0.0)},
        about="Unimation PUMA 560: six joints, motors with gears, the most measured arm there is",
    )


def holding(
    name: str,
    load: tb.Body,
    bases: dict[str, tb.Pose],
    grips: dict[str, tb.Pose],
    about: str,
) -> tb.Model:
    """Return several arms that hold one load, with the pose "home" in which they reach it.

    Args:
        name: Name of the robot.
        load: The load on a free joint that is zero at home.
        bases: Where the arms stand in the world, by prefix.
        grips: The flange of each arm in axes of the load, by prefix.
        about: One line.
    """
    whole = tb.Model(name, [load])
    for prefix, base in bases.items():
        whole = whole.attach(puma(), at="world", pose=base, prefix=prefix)
    whole = tb.Model(
        name,
        whole.bodies,
        whole.frames,
        loops=[
            tb.LoopClosure(
                f"{prefix}grip", load.name, f"{prefix}flange", tb.Fixed(f"{prefix}grip", pose=grip)
            )
            for prefix, grip in grips.items()
        ],
        actuators=whole.actuators,
        about=about,
    )
    home: dict[str, object] = {}
    for prefix, base in bases.items():
        angles = reach(base.inverse() @ load.joint.pose @ grips[prefix])
        for joint, angle in zip(puma().joint_names, angles, strict=True):
            home[f"{prefix}{joint}"] = angle
    return with_pose(whole, "home", close(whole, home, hold=(load.joint.name,)))


def reach(target: tb.Pose) -> np.ndarray:
    """Return joint angles of one arm whose flange is at a pose in its base, elbow up.

    Raises:
        ValueError: If it cannot reach it within its joint ranges.
    """
    arm = puma()
    fixed = tb.Model(
        "reach",
        arm.bodies,
        arm.frames,
        loops=[tb.LoopClosure("grip", "world", "flange", tb.Fixed("grip", pose=target))],
    )
    wrist = np.array((target @ at(z=-0.05625)).translation)
    forward, height = math.sqrt(wrist[0] ** 2 + wrist[1] ** 2 - 0.1501**2), wrist[2]
    distance, upper, fore = math.hypot(forward, height), 0.4318, 0.4336
    bend = math.acos((upper**2 + distance**2 - fore**2) / (2.0 * upper * distance))
    rise = math.atan2(height, forward) + bend
    fall = math.atan2(height - upper * math.sin(rise), forward - upper * math.cos(rise))
    first = math.atan2(wrist[1], wrist[0]) - math.atan2(0.1501, forward)
    best = None
    for tilt, roll in product((-1.0, 1.0), (0.0, 1.6, -1.6, 3.0)):
        guess = (first, -rise, math.pi / 2.0 + rise - fall, 0.0, tilt * abs(fall), roll)
        try:
            q = close(fixed, dict(zip(fixed.joint_names, guess, strict=True)))
        except ValueError:
            continue
        q = (q + math.pi) % (2.0 * math.pi) - math.pi
        # the second and third joints reach beyond half a turn
        q[2] += 2.0 * math.pi * (q[2] < -math.radians(45.0))
        limits = [joint.limits for joint in fixed.joints]
        inside = all(limit.lower <= x <= limit.upper for limit, x in zip(limits, q, strict=True))
        if inside and (best is None or np.abs(q[3:]).sum() < np.abs(best[3:]).sum()):
            best = q
    if best is None:
        raise ValueError(f"no arm reaches {target}")
    return best


def two_pumas() -> Sheet:
    """Return two arms that hold a bar."""
    tilt = tb.Pose.from_axis_angle((0.0, 1.0, 0.0), -math.pi / 4.0, (0.0, 0.0, -0.05))
    bar = tb.Body(
        "bar",
        joint=tb.Free("bar", pose=tilt),
        inertia=tb.Inertia.box(13.5, (1.0, 0.10, 0.05)),
        shapes=(tb.Shape(tb.BoxShape((1.0, 0.10, 0.05)), color=GREY),),
    )
    # arms in the plane in which the bar turns, hands from above at 45 degrees toward its center
    across = tb.Pose.from_axis_angle((0.0, 1.0, 0.0), 0.75 * math.pi, (-0.475, 0.0, 0.0))
    bases, grips = {}, {}
    for name, angle in (("left", 0.0), ("right", math.pi)):
        bases[f"{name}_"] = turned_z(angle) @ at(-0.92, -0.1501)
        grips[f"{name}_"] = turned_z(angle) @ across
    model = holding(
        "two_pumas",
        bar,
        bases,
        grips,
        "Two PUMA 560 hold an aluminium bar: two loops, six degrees of freedom, twelve motors",
    )
    sources = f"""
Nahon 1991, section 6.2 (two PUMA 560, power against internal force): bar of aluminium 1 m x 0.05
m high x 0.10 m deep, 13.5 kg (1.128 kg m^2 about the depth axis follows), at first 45 degrees
from horizontal, then turned by 90 degrees in 2 s. The source has no gravity. Where the arms
stand and grip is lost with its figure. Its text (7.2.2) says that the motion is in a plane and
two wrist motors of each arm are idle: the arms stand left and right of the bar, upper arms,
forearms and hands in the plane in which it turns. Estimated, so that energies and torques of the
text come out and joints stay in their ranges: shoulders 0.92 m from the center of the bar and
0.05 m above it, grips 0.475 m from it, hands at 45 degrees to the bar.

{PUMA_SOURCES}"""
    notes = {
        "bar": "Nahon 1991, section 6.2; solid and uniform.",
        "left_trunk": "See puma560. Where the base stands: estimated.",
        "left_grip": "Where the bar is gripped: estimated.",
    }
    return Sheet(model, sources, notes)


def four_pumas() -> Sheet:
    """Return four arms that lift a load."""
    load = tb.Body(
        "load",
        joint=tb.Free("load", pose=at(z=-0.5)),
        inertia=tb.Inertia.box(4.0, (0.3, 0.3, 0.1)),
        shapes=(tb.Shape(tb.BoxShape((0.3, 0.3, 0.1)), color=YELLOW),),
    )
    bases, grips = {}, {}
    for number in range(4):
        around = turned_z(math.pi / 2.0 * number)
        facing = tb.Pose(((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0)))
        bases[f"arm_{number + 1}_"] = around @ at(-0.7, -0.1501)
        grips[f"arm_{number + 1}_"] = around @ at(-0.15) @ facing
    model = holding(
        "four_pumas",
        load,
        bases,
        grips,
        "Four PUMA 560 hold one load: four loops, six degrees of freedom, twenty-four motors",
    )
    sources = f"""
McMillan 1994, chapter 3: four PUMA 560 lift a load of 4 kg by 0.8 m in one second. Size of the
load, grips and places of the arms are not given; estimated: a box of 0.3 x 0.3 x 0.1 m, gripped
rigidly in the middle of its four sides by arms that stand around it, 0.7 m from its center, and
can lift it from 0.5 m below their shoulders to 0.3 m above.

{PUMA_SOURCES}"""
    notes = {
        "load": "Mass: McMillan 1994, chapter 3; size: estimated.",
        "arm_1_trunk": "See puma560. Where the base stands: estimated.",
        "arm_1_grip": "Where the load is gripped: estimated.",
    }
    return Sheet(model, sources, notes)


def panda() -> Sheet:
    """Return an arm with seven joints and a gripper, after Franka's."""
    half = math.pi / 2.0
    rows = [  # roll of the joint frame, its place, torque, speed, lower, upper
        (0.0, (0.0, 0.0, 0.333), 87.0, 2.175, -2.8973, 2.8973),
        (-half, (0.0, 0.0, 0.0), 87.0, 2.175, -1.7628, 1.7628),
        (half, (0.0, -0.316, 0.0), 87.0, 2.175, -2.8973, 2.8973),
        (half, (0.0825, 0.0, 0.0), 87.0, 2.175, -3.0718, -0.0698),
        (-half, (-0.0825, 0.384, 0.0), 12.0, 2.61, -2.8973, 2.8973),
        (half, (0.0, 0.0, 0.0), 12.0, 2.61, -0.0175, 3.7525),
        (half, (0.088, 0.0, 0.0), 12.0, 2.61, -2.8973, 2.8973),
    ]
    links = [  # mass, center of mass, moments xx xy xz yy yz zz
        (4.970684, (3.875e-3, 2.081e-3, -0.04762),
         (0.70337, -1.39e-4, 6.772e-3, 0.70661, 1.9169e-2, 9.117e-3)),
        (0.646926, (-3.141e-3, -2.872e-2, 3.495e-3),
         (7.962e-3, -3.925e-3, 1.0254e-2, 2.811e-2, 7.04e-4, 2.5995e-2)),
        (3.228604, (2.7518e-2, 3.9252e-2, -6.6502e-2),
         (3.7242e-2, -4.761e-3, -1.1396e-2, 3.6155e-2, -1.2805e-2, 1.083e-2)),
        (3.587895, (-5.317e-2, 1.04419e-1, 2.7454e-2),
         (2.5853e-2, 7.796e-3, -1.332e-3, 1.9552e-2, 8.641e-3, 2.8323e-2)),
        (1.225946, (-1.1953e-2, 4.1065e-2, -3.8437e-2),
         (3.5549e-2, -2.117e-3, -4.037e-3, 2.9474e-2, 2.29e-4, 8.627e-3)),
        (1.666555, (6.0149e-2, -1.4117e-2, -1.0517e-2),
         (1.964e-3, 1.09e-4, -1.158e-3, 4.354e-3, 3.41e-4, 5.433e-3)),
        (0.735522, (1.0517e-2, -4.252e-3, 6.1597e-2),
         (1.2516e-2, -4.28e-4, -1.196e-3, 1.0027e-2, -7.41e-4, 4.815e-3)),
    ]  # fmt: skip
    lines = [
        ((0.0, 0.0, -0.25), (0.0, 0.0, 0.0)),
        ((0.0, 0.0, 0.0), (0.0, -0.25, 0.0)),
        ((0.0, 0.0, -0.06), (0.0825, 0.0, 0.0)),
        ((0.0, 0.0, 0.0), (-0.0825, 0.3, 0.0)),
        ((0.0, 0.0, -0.2), (0.0, 0.0, 0.0)),
        ((0.0, 0.0, 0.0), (0.088, 0.0, 0.0)),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.107)),
    ]
    bodies, parent = [], "world"
    for number, (roll, place, torque, speed, low, high) in enumerate(rows):
        mass, com, tensor = links[number]
        joint = tb.Revolute(
            f"joint_{number + 1}",
            pose=tb.Pose.from_rpy((roll, 0.0, 0.0), place),
            limits=tb.JointLimits(low, high, velocity=speed, force=torque),
            passive=tb.JointPassive(damping=0.003),
        )
        bodies.append(
            tb.Body(
                f"link_{number + 1}",
                parent,
                joint=joint,
                inertia=tb.Inertia(mass, com, tensor),
                shapes=(line_shape(*lines[number], 0.045, (GREY, BLUE)[number % 2]),),
            )
        )
        parent = f"link_{number + 1}"
    bodies.append(
        tb.Body(
            "hand",
            "link_7",
            joint=tb.Fixed("hand_mount", pose=turned_z(-math.pi / 4.0, z=0.107)),
            inertia=tb.Inertia(0.73, (-0.01, 0.0, 0.03), (0.001, 0.0025, 0.0017)),
            shapes=(tb.Shape(tb.BoxShape((0.04, 0.2, 0.06)), pose=at(z=0.03), color=STEEL),),
        )
    )
    finger = tb.Inertia(0.015, (0.0, 0.0, 0.0), (2.375e-6, 2.375e-6, 7.5e-7))
    tip = (tb.Shape(tb.BoxShape((0.02, 0.01, 0.05)), pose=at(z=0.025), color=ORANGE),)
    slide = tb.Prismatic(
        "finger",
        (0.0, 1.0, 0.0),
        pose=at(z=0.0584),
        limits=tb.JointLimits(0.0, 0.04, velocity=0.2, force=100.0),
        passive=tb.JointPassive(damping=0.3),
    )
    other = tb.Coupled(
        "other_finger", tb.Prismatic("slide", (0, -1, 0)), "finger", pose=at(z=0.0584)
    )
    bodies += [
        tb.Body("left_finger", "hand", joint=slide, inertia=finger, shapes=tip),
        tb.Body("right_finger", "hand", joint=other, inertia=finger, shapes=tip),
    ]
    quarter = math.pi / 4.0
    model = tb.Model(
        "panda",
        bodies,
        [
            tb.Frame("flange", "link_7", at(z=0.107)),
            tb.Frame("tool", "hand", at(z=0.1034)),
        ],
        poses={"ready": (0.0, -quarter, 0.0, -3.0 * quarter, 0.0, 2.0 * quarter, quarter, 0.02)},
        about="A Panda-like arm: seven joints, a gripper whose fingers move together",
    )
    sources = """
Kinematics, limits and gripper: the public description of Franka Emika's Panda (franka_ros, also
in the package example-robot-data). Links: the feasible set identified by Gaz, Cognetti, Oliva,
Robuffo Giordano and De Luca 2019, as that description has it; an identified set reproduces
torques, its single masses are not those on a scale. Damping 0.003 N m s/rad and 0.3 N s/m: same
description. The fixed base link is left out. Shapes: rough bars."""
    notes = {
        "link_1": "Kinematics and limits: Franka's description; inertia: Gaz et al. 2019.",
        "hand": "Franka's description of the gripper, as of its fingers below.",
    }
    return Sheet(model, sources, notes)


def space_arm() -> Sheet:
    """Return a satellite with an arm, free in space."""
    bodies = [
        tb.Body(
            "satellite",
            joint=tb.Free("base"),
            inertia=tb.Inertia.box(2000.0, (2.0, 2.0, 1.5)),
            shapes=(tb.Shape(tb.BoxShape((2.0, 2.0, 1.5)), color=YELLOW),),
        )
    ]
    rows = [  # name, axis, place, length along z, radius, mass, torque
        ("shoulder", (0.0, 0.0, 1.0), (0.8, 0.0, 0.75), 0.3, 0.12, 30.0, 100.0),
        ("upper_arm", (0.0, 1.0, 0.0), (0.0, 0.0, 0.3), 1.2, 0.08, 40.0, 100.0),
        ("forearm", (0.0, 1.0, 0.0), (0.0, 0.0, 1.2), 1.0, 0.07, 30.0, 50.0),
        ("wrist_pitch", (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), 0.2, 0.07, 15.0, 20.0),
        ("wrist_yaw", (1.0, 0.0, 0.0), (0.0, 0.0, 0.2), 0.2, 0.07, 15.0, 20.0),
        ("hand", (0.0, 0.0, 1.0), (0.0, 0.0, 0.2), 0.25, 0.1, 15.0, 20.0),
    ]
    actuators, parent = [], "satellite"
    for number, (name, axis, place, length, radius, mass, torque) in enumerate(rows, start=1):
        bodies.append(
            tb.Body(
                name,
                parent,
                joint=tb.Revolute(f"joint_{number}", axis, pose=at(*place)),
                inertia=tb.Inertia.cylinder(mass, radius, length, com=(0, 0, 0.5 * length)),
                shapes=(line_shape((0, 0, 0), (0, 0, length), radius, (GREY, ORANGE)[number % 2]),),
            )
        )
        actuators.append(
            tb.Actuator(f"motor_{number}", f"joint_{number}", force_limits=(-torque, torque))
        )
        parent = name
    bent = {"joint_2": 0.6, "joint_3": 1.2, "joint_4": 0.6}
    model = tb.Model(
        "space_arm",
        bodies,
        [tb.Frame("grapple", "hand", at(z=0.25))],
        actuators=actuators,
        poses={"bent": bent},
        about="A satellite of 2 t with a six-joint arm, free in space; use it without gravity",
    )
    sources = """
No single source: a satellite and an arm of the class of ETS-VII and its kin (about 2 t and 2.5 m
reach). Estimated from geometry: the satellite is a solid box of 2 x 2 x 1.5 m and 2000 kg; links
are solid cylinders with the lengths, radii and masses below (145 kg in all); torque limits are
of the size such arms have. Gravity is not part of a robot: pass a world without it."""
    notes = {
        "satellite": "Estimated: a solid box.",
        "shoulder": "Estimated, as all links: a solid cylinder; torque limits likewise.",
    }
    return Sheet(model, sources, notes)


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [puma560(), two_pumas(), four_pumas(), panda(), space_arm()]
