"""Spatial mechanisms: Bricard's linkage, a flyball governor, Stewart's platform, a delta robot."""

import math

import numpy as np

import tiburon as tb
from tiburon.zoo.parts import (
    BLUE,
    GREY,
    ORANGE,
    STEEL,
    UPRIGHT,
    at,
    axes_along,
    line_shape,
)
from tools.zoo.sheet import Sheet

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def bricard() -> Sheet:
    """Return Bricard's linkage of the benchmark library, which moves although counts forbid it."""
    corners = np.array(
        [(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], dtype=float
    )
    axes = (Y, Z, X, Y, Z)
    bodies, parent = [], "world"
    for number in range(5):
        span = corners[number + 1] - corners[number]
        size = tuple(np.where(np.abs(span) > 0.5, 1.0, 0.1).tolist())
        middle = tuple((0.5 * span).tolist())
        pose = UPRIGHT if number == 0 else at(*(corners[number] - corners[number - 1]).tolist())
        bodies.append(
            tb.Body(
                f"rod_{number + 1}",
                parent,
                joint=tb.Revolute(f"hinge_{number + 1}", axes[number], pose=pose),
                inertia=tb.Inertia.box(1.0, size, com=middle),
                shapes=(
                    tb.Shape(
                        tb.BoxShape(size), pose=at(*middle), color=(ORANGE, GREY, BLUE)[number % 3]
                    ),
                ),
            )
        )
        parent = f"rod_{number + 1}"
    closing = tb.Revolute("hinge_6", X, pose=UPRIGHT @ at(0.0, 0.0, 1.0))
    model = tb.Model(
        "bricard",
        bodies,
        loops=[tb.LoopClosure("closure", "world", "rod_5", closing, at(0.0, 1.0, 0.0))],
        about="Five rods and the ground on six hinges: overconstrained, one degree of freedom",
    )
    sources = """
IFToMM multibody benchmark library, problem "Bricard's mechanism": five rods of 1 m and 1 kg, 0.1
m square, with the corners (0,0,0) (1,0,0) (1,-1,0) (1,-1,1) (0,-1,1) (0,0,1) and hinges about Y,
Z, X, Y, Z, X; the ground lies between the last corner and the first. It starts from rest, with
all joints zero, and runs for 10 s. Counting gives no degree of freedom (6 hinges, one loop); it has
one. Gravity is along -y of the source; here it is turned, so that y of the source is up."""
    notes = {
        "rod_1": "IFToMM benchmark library: a solid box of 1 x 0.1 x 0.1 m and 1 kg, as all rods.",
    }
    return Sheet(model, sources, notes)


def flyball_governor() -> Sheet:
    """Return the governor of the benchmark library, held by stiff springs instead of loops."""
    density, drop = 3000.0, math.radians(30.0)
    shaft = tb.Body(
        "shaft",
        joint=tb.Revolute("spin", Z),
        inertia=tb.Inertia.box(density * 1e-4, (0.01, 0.01, 1.0), com=(0.0, 0.0, 0.5)),
        shapes=(tb.Shape(tb.BoxShape((0.01, 0.01, 1.0)), pose=at(z=0.5), color=STEEL),),
    )
    slider = tb.Body(
        "slider",
        "shaft",
        joint=tb.Prismatic("height", Z, 0.5),
        inertia=tb.Inertia.box(density * 1e-3, (0.1, 0.1, 0.1)),
        shapes=(tb.Shape(tb.BoxShape((0.1, 0.1, 0.1)), color=BLUE),),
    )
    bodies, frames = [shaft, slider], []
    for side, sign in (("left", -1.0), ("right", 1.0)):
        # each arm's own x points outward; it swings about its y, which lifts it for negative angles
        outward = tb.Pose.from_axis_angle(Z, 0.0 if sign > 0.0 else math.pi, (sign * 0.05, 0, 1))
        rod = tb.Inertia.box(density * 1e-4, (1.0, 0.01, 0.01), com=(0.5, 0.0, 0.0))
        mass = rod.mass + 5.0
        com = (0.5 * rod.mass + 5.0) / mass
        moment = rod.matrix[1, 1] + rod.mass * (com - 0.5) ** 2 + 5.0 * (1.0 - com) ** 2
        inertia = tb.Inertia(
            mass, (com, 0.0, 0.0), (rod.matrix[0, 0], 0.0, 0.0, moment, 0.0, moment)
        )
        bodies.append(
            tb.Body(
                f"{side}_arm",
                "shaft",
                joint=tb.Revolute(f"{side}_hinge", Y, drop, pose=outward),
                inertia=inertia,
                shapes=(
                    line_shape((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), 0.005, GREY),
                    tb.Shape(tb.SphereShape(0.07), pose=at(1.0), color=ORANGE),
                ),
            )
        )
        frames += [
            tb.Frame(f"{side}_spring_top", f"{side}_arm", at(0.5)),
            tb.Frame(f"{side}_spring_bottom", "slider", at(sign * 0.05)),
        ]
    model = tb.Model(
        "flyball_governor",
        bodies,
        frames,
        actuators=[tb.Actuator("engine", "spin")],
        springs=[
            tb.Spring(
                f"{side}_spring",
                f"{side}_spring_top",
                f"{side}_spring_bottom",
                stiffness=8e5,
                damping=4e4,
                rest_length=0.5,
            )
            for side in ("left", "right")
        ],
        about="A spinning shaft throws two balls outward, and they lift a slider: stiff springs",
    )
    sources = """
IFToMM multibody benchmark library, problem "flyball governor": shaft and rods 1 x 0.01 x 0.01 m,
slider a cube of 0.1 m, all of density 3000 kg/m^3; 5 kg at the end of each rod; hinges at
(+-0.05, 0, 1); rods 30 degrees below horizontal; slider at 0.5 m; the shaft starts at 2 pi
rad/s. All joints are zero there. Balls are points as in the source; they are drawn larger."""
    notes = {
        "shaft": (
            "IFToMM benchmark library: a solid box of density 3000 kg/m^3, as slider and rods."
        ),
        "left_arm": "A rod with a point mass of 5 kg at its end.",
        "left_spring_top": "Ends of the spring-dampers.",
        "left_spring": "IFToMM benchmark library, as the other one.",
    }
    return Sheet(model, sources, notes)


def stewart() -> Sheet:
    """Return Stewart's platform: six legs that change their length."""
    density = 76e3 / 9.81
    height, top_thickness, tube, rod = 2.0, 0.05, 1.9, 1.9
    bodies, loops, actuators = [], [], []
    plate = tb.Inertia.cylinder(density * math.pi * top_thickness, 1.0, top_thickness)
    bodies.append(
        tb.Body(
            "platform",
            joint=tb.Free("platform", pose=at(z=height)),
            inertia=plate,
            shapes=(tb.Shape(tb.CylinderShape(1.0, top_thickness), color=BLUE),),
        )
    )
    for leg in range(6):
        pair, side = divmod(leg, 2)
        sign = 1.0 if side else -1.0
        below = math.radians(120.0 * pair + sign * 2.5)
        above = math.radians(120.0 * pair + sign * (60.0 - 10.0))
        foot = np.array([3.0 * math.cos(below), 3.0 * math.sin(below), 0.0])
        head = np.array([math.cos(above), math.sin(above), 0.0])
        span = head - foot + np.array([0.0, 0.0, height])
        length = float(np.linalg.norm(span))
        pose = tb.Pose(axes_along(span), tuple(foot.tolist()))
        outer, inner, name = 0.05, 0.03, f"leg_{leg + 1}"
        area = math.pi * (outer**2 - inner**2)
        mass = density * area * tube
        along = 0.5 * mass * (outer**2 + inner**2)
        across = mass * (3.0 * (outer**2 + inner**2) + tube**2) / 12.0
        bodies.append(
            tb.Body(
                f"{name}_tube",
                joint=tb.Universal(f"{name}_foot", X, Y, pose=pose),
                inertia=tb.Inertia(
                    mass, (0.0, 0.0, tube / 2.0), (across, 0.0, 0.0, across, 0.0, along)
                ),
                shapes=(
                    tb.Shape(tb.CylinderShape(outer, tube), pose=at(z=tube / 2.0), color=GREY),
                ),
            )
        )
        # the rod is drawn and weighed downward from its head
        bodies.append(
            tb.Body(
                f"{name}_rod",
                f"{name}_tube",
                joint=tb.Prismatic(
                    f"{name}_stroke", Z, pose=at(z=length), limits=tb.JointLimits(-1.0, 0.5)
                ),
                inertia=tb.Inertia.cylinder(
                    density * math.pi * inner**2 * rod, inner, rod, com=(0.0, 0.0, -rod / 2.0)
                ),
                shapes=(
                    tb.Shape(tb.CylinderShape(inner, rod), pose=at(z=-rod / 2.0), color=ORANGE),
                ),
            )
        )
        loops.append(
            tb.LoopClosure(
                f"{name}_head",
                f"{name}_rod",
                "platform",
                tb.Spherical(f"{name}_ball"),
                at(*head.tolist()),
            )
        )
        actuators.append(tb.Actuator(f"{name}_motor", f"{name}_stroke"))
    model = tb.Model(
        "stewart",
        bodies,
        loops=loops,
        actuators=actuators,
        about="A platform on six legs that change their length: six degrees of freedom",
    )
    sources = """
Geometry of the Stewart platform example of MathWorks (Simscape Multibody): feet on a radius of 3
m at +-2.5 degrees around 0, 120 and 240, heads on a radius of 1 m at +-10 degrees around 60, 180
and 300; height 2 m; steel of density 76e3 / 9.81 kg/m^3; top plate 5 cm thick; legs are tubes of
radius 0.05 m with a bore of 0.03 m, and rods of 0.03 m. Estimated: tubes and rods are 1.9 m long
each, so that they overlap by 0.65 m at home (a leg is 3.15 m); strokes from -1.0 to +0.5 m keep
the rod in the tube. All joints are zero at home. A universal joint holds each tube, so that no
leg spins about itself; ball joints hold the plate."""
    notes = {
        "platform": "MathWorks example: a steel plate of 1 m radius and 5 cm.",
        "leg_1_tube": "Radii and density: MathWorks example; length 1.9 m: estimated.",
        "leg_1_rod": "Radius and density: MathWorks example; length and stroke: estimated.",
    }
    return Sheet(model, sources, notes)


def delta() -> Sheet:
    """Return a delta robot of the size of ABB's IRB 340, with all six forearm rods."""
    upper, lower, spread = 0.524, 1.244, 0.131
    base_side, platform_side = 0.567, 0.076
    hip, wrist = base_side * math.sqrt(3.0) / 6.0, platform_side * math.sqrt(3.0) / 3.0
    height = -0.9
    bodies = [
        tb.Body(
            "platform",
            joint=tb.Free("platform", pose=at(z=height)),
            inertia=tb.Inertia.cylinder(0.5, 0.06, 0.03),
            shapes=(tb.Shape(tb.CylinderShape(0.06, 0.03), color=BLUE),),
        )
    ]
    # where an arm points at home: its elbow is `lower` away from its wrist, in the arm's own plane
    reach, fall = wrist - hip, height
    distance = math.hypot(reach, fall)
    bend = math.acos((upper**2 + distance**2 - lower**2) / (2.0 * upper * distance))
    angle = math.atan2(-fall, reach) - bend
    elbow = (upper * math.cos(angle), -upper * math.sin(angle))
    span = np.array([reach - elbow[0], 0.0, fall - elbow[1]])
    turn = np.array(tb.Pose.from_axis_angle(Y, angle).rotation)
    # the forearm's z points from elbow to wrist, its y along the axis of the elbow
    forward = span / np.linalg.norm(span)
    axes = np.column_stack([np.cross(Y, forward), Y, forward])
    axes = tuple(tuple(row) for row in (turn.T @ axes).tolist())
    loops, actuators = [], []
    for arm in range(3):
        around = tb.Pose.from_axis_angle(Z, math.radians(120.0 * arm - 90.0))
        name = f"arm_{arm + 1}"
        bodies.append(
            tb.Body(
                f"{name}_upper",
                joint=tb.Revolute(
                    f"{name}_shoulder",
                    Y,
                    angle,
                    pose=around @ at(hip),
                    limits=tb.JointLimits(-1.2, 1.4),
                ),
                inertia=tb.Inertia.cylinder(1.0, 0.03, upper, com=(upper / 2.0, 0, 0), axis=0),
                shapes=(line_shape((0.0, 0.0, 0.0), (upper, 0.0, 0.0), 0.03, ORANGE),),
            )
        )
        actuators.append(
            tb.Actuator(f"{name}_motor", f"{name}_shoulder", force_limits=(-60.0, 60.0))
        )
        for side, sign in (("left", 1.0), ("right", -1.0)):
            rod = f"{name}_{side}_rod"
            offset = 0.5 * sign * spread
            bodies.append(
                tb.Body(
                    rod,
                    f"{name}_upper",
                    joint=tb.Universal(
                        f"{name}_{side}_elbow", Y, X, pose=tb.Pose(axes, (upper, offset, 0.0))
                    ),
                    inertia=tb.Inertia.cylinder(0.15, 0.008, lower, com=(0.0, 0.0, lower / 2.0)),
                    shapes=(line_shape((0.0, 0.0, 0.0), (0.0, 0.0, lower), 0.008, GREY),),
                )
            )
            loops.append(
                tb.LoopClosure(
                    f"{name}_{side}_wrist",
                    rod,
                    "platform",
                    tb.Spherical(f"{name}_{side}_ball", pose=at(z=lower)),
                    around @ at(wrist, offset),
                )
            )
    model = tb.Model(
        "delta",
        bodies,
        [tb.Frame("tool", "platform", at(z=-0.05))],
        loops=loops,
        actuators=actuators,
        about="Three arms with parallelograms hold a platform level: three degrees of freedom",
    )
    sources = """
Kinematics: Williams 2016 ("The Delta Parallel Robot: Kinematics Solutions"), data of the ABB IRB
340: side of the base triangle 0.567 m, of the platform triangle 0.076 m, upper arm 0.524 m,
forearm 1.244 m, parallelogram 0.131 m wide. At home the platform hangs 0.9 m below the motors;
the source gives -20.5 degrees for the arms there, measured down from horizontal, as the joint
offsets do here. Joints are zero at home. Estimated (no source): upper arms 1 kg, round bars of
30 mm radius; forearm rods 0.15 kg, carbon tubes taken as round bars of 8 mm radius; platform 0.5
kg, a disk of 60 mm radius and 30 mm; motors 60 N m. Rods have universal joints at the elbow, so
that none spins about itself, and ball joints at the wrist."""
    notes = {
        "platform": "Height at home: Williams 2016; mass and size of the disk: estimated.",
        "arm_1_upper": "Length and place: Williams 2016; mass, radius and range: estimated.",
        "arm_1_left_rod": "Length and spread: Williams 2016; mass and radius: estimated.",
        "arm_1_motor": "Estimated.",
    }
    return Sheet(model, sources, notes)


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [bricard(), flyball_governor(), stewart(), delta()]
