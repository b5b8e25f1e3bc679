"""A large research vehicle with one or two heavy arms, estimated: no source has its numbers."""

import math
from dataclasses import replace

import numpy as np

import tiburon as tb
from tiburon.hydro.coefficients import estimate_hydrodynamics
from tiburon.zoo.parts import GREY, ORANGE, STEEL, YELLOW, at, line_shape
from tools.zoo.closing import body_poses
from tools.zoo.sheet import Sheet
from tools.zoo.vehicles import rexrov_fluid

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)

SEA = 1025.0
"""Density of sea water [kg/m^3]."""

MASS = 3300.0
"""Mass of the vehicle without arms [kg]."""

SCALE = (MASS / 1862.87) ** (1.0 / 3.0)
"""How much longer the vehicle is than the SF 30k, if it were built alike."""

SIZE = tuple(SCALE * edge for edge in (2.6, 1.5, 1.6))

SOURCES = """
The sources (McMillan 1994; McMillan, Orin and McGhee 1995) simulate MBARI's Tiburon, design
depth 4000 m, with a Schilling Titan II arm of six joints and print none of their numbers.
Everything here is estimated.

Vehicle: 3.4 t in air with one arm (MBARI's class). Shape and water numbers are those of the SF
30k (see rexrov), enlarged to this mass by geometric similarity with the factor k = (3300 /
1862.87)^(1/3) = 1.210: size k, inertia k^5, added mass k^3, k^4 and k^5 (linear, mixed,
angular), quadratic damping k^2 and k^5, linear damping k^2 and k^4. Volume: the whole is neutral
in sea water of 1025 kg/m^3; the center of buoyancy is 0.3 k above the origin, and moved sideways
until the whole floats level with its arms at zero. Thrusters: six electric ones of 5 horsepower,
taken as 500 N each: two along x, two along y, two along z.

Arm: data sheet of the Titan family (reach 1.92 m, 100 kg in air, 78 kg in sea water, wrist
torque 170 N m, 122 kg lifted at full reach): lengths 0.12, 0.84, 0.48, 0.13, 0.13, 0.12 and jaws
of 0.10 m; links are solid round bars of 18, 32, 18, 9, 9, 9 and twice 1.5 kg; each displaces
0.22 of its mass in sea water; added mass and drag of round bars from `tiburon.hydro`; ranges of
the joints 240, 120, 270, 180, 180 degrees and 360 for the last; torques 1200 N m in azimuth,
3000 and 1500 N m at shoulder and elbow."""


def titan() -> tb.Model:
    """Return the arm by itself, its base at the world's origin, stretched along x at zero."""
    rows = [  # name, joint, axis, length, radius, mass, lower, upper [deg], torque
        ("shoulder", "azimuth", Z, 0.12, 0.08, 18.0, -120.0, 120.0, 1200.0),
        ("upper_arm", "shoulder", Y, 0.84, 0.075, 32.0, -80.0, 40.0, 3000.0),
        ("forearm", "elbow", Y, 0.48, 0.065, 18.0, -30.0, 240.0, 1500.0),
        ("wrist_1", "wrist_pitch", Y, 0.13, 0.055, 9.0, -90.0, 90.0, 170.0),
        ("wrist_2", "wrist_yaw", Z, 0.13, 0.055, 9.0, -90.0, 90.0, 170.0),
        ("gripper", "wrist_roll", X, 0.12, 0.05, 9.0, -360.0, 360.0, 170.0),
    ]
    bodies, actuators, parent, start = [], [], "world", at()
    for number, (name, joint, axis, length, radius, mass, low, high, torque) in enumerate(rows):
        limits = tb.JointLimits(math.radians(low), math.radians(high), force=torque)
        bodies.append(
            round_bar(
                name,
                parent,
                tb.Revolute(joint, axis, pose=start, limits=limits),
                length,
                radius,
                mass,
                (ORANGE, GREY)[number % 2],
            )
        )
        actuators.append(tb.Actuator(f"{joint}_drive", joint, force_limits=(-torque, torque)))
        parent, start = name, at(length)
    limits = tb.JointLimits(0.0, math.radians(50.0), force=400.0)
    left = tb.Revolute("jaw", Z, pose=at(0.12, 0.02), limits=limits)
    right = tb.Coupled("other_jaw", tb.Revolute("turn", Z), "jaw", -1.0, pose=at(0.12, -0.02))
    for name, joint in (("left_jaw", left), ("right_jaw", right)):
        bodies.append(round_bar(name, parent, joint, 0.10, 0.015, 1.5, STEEL))
    actuators.append(tb.Actuator("jaw_drive", "jaw", force_limits=(-400.0, 400.0)))
    return tb.Model("titan", bodies, [tb.Frame("grip", "gripper", at(0.20))], actuators=actuators)


def round_bar(
    name: str,
    parent: str,
    joint: tb.Joint,
    length: float,
    radius: float,
    mass: float,
    color: tuple[float, float, float, float],
) -> tb.Body:
    """Return a solid round bar along x, with its water numbers."""
    middle = (0.5 * length, 0.0, 0.0)
    lying = tb.Pose.from_axis_angle(Y, math.pi / 2.0, middle)
    cylinder = tb.Shape(tb.CylinderShape(radius, length), pose=lying, color=color)
    fluid = replace(estimate_hydrodynamics([cylinder], SEA).fluid, volume=0.22 * mass / SEA)
    return tb.Body(
        name,
        parent,
        joint=joint,
        inertia=tb.Inertia.cylinder(mass, radius, length, middle, axis=0),
        fluid=fluid,
        shapes=(cylinder,),
    )


def vehicle() -> tb.Body:
    """Return the vehicle, enlarged from the SF 30k; its buoyancy is trimmed later."""
    k = SCALE
    known = rexrov_fluid()
    lengths = np.array([k, k, k, 1.0, 1.0, 1.0])
    # kg k^3 for linear entries, one more k for each angular row or column
    added = np.array(known.added_mass) * k**3 * np.outer(lengths, lengths)
    linear = np.diag(known.linear_damping) * np.array([k**4] * 3 + [k**2] * 3)
    quadratic = np.diag(known.quadratic_damping) * np.array([k**5] * 3 + [k**2] * 3)
    tensor = np.array([525.39, 1.44, 33.41, 794.20, 2.6, 691.23]) * k**5
    x, y, z = SIZE
    return tb.Body(
        "vehicle",
        joint=tb.Free("base"),
        inertia=tb.Inertia(MASS, (0.0, 0.0, 0.0), tuple(tensor.tolist())),
        fluid=tb.BodyFluid(
            volume=MASS / SEA,
            center_of_buoyancy=(0.0, 0.0, 0.3 * k),
            added_mass=0.5 * (added + added.T),
            linear_damping=tuple(linear.tolist()),
            quadratic_damping=tuple(quadratic.tolist()),
            reference_density=SEA,
        ),
        shapes=(
            tb.Shape(tb.BoxShape((x, y, 0.3 * z)), pose=at(z=0.35 * z), color=YELLOW),
            tb.Shape(tb.BoxShape((0.85 * x, 0.8 * y, 0.6 * z)), pose=at(z=-0.1 * z), color=GREY),
            *(line_shape((-0.5 * x, s * y, -0.5 * z), (0.5 * x, s * y, -0.5 * z), 0.05, STEEL)
              for s in (-0.4, 0.4)),
        ),
    )  # fmt: skip


def thrusters() -> list[tb.Thruster]:
    """Return six thrusters, in pairs along the axes."""
    places = {
        "port_main": ((-1.3, 0.6, 0.1), X),
        "starboard_main": ((-1.3, -0.6, 0.1), X),
        "fore_lateral": ((0.8, 0.0, 0.2), Y),
        "aft_lateral": ((-0.8, 0.0, 0.2), Y),
        "port_vertical": ((0.0, 0.55, 0.4), Z),
        "starboard_vertical": ((0.0, -0.55, 0.4), Z),
    }
    return [
        tb.Thruster(name, "vehicle", place, way, time_constant=0.2, thrust_limits=(-500.0, 500.0))
        for name, (place, way) in places.items()
    ]


def with_arms(name: str, mounts: dict[str, tuple[float, float, float]], about: str) -> tb.Model:
    """Return the vehicle with arms, neutral and level in sea water.

    Args:
        name: Name of the robot.
        mounts: Where the arms' bases sit on the vehicle [m], by prefix of their names.
        about: One line.
    """
    whole = tb.Model(name, [vehicle()], thrusters=thrusters(), about=about)
    for prefix, place in mounts.items():
        whole = whole.attach(titan(), at="vehicle", pose=at(*place), prefix=prefix)
    hull, *others = whole.bodies
    poses = body_poses(whole, whole.neutral())
    volume = sum(body.inertia.mass for body in whole.bodies) / SEA
    moment = np.zeros(3)
    for body in others:
        R, p = poses[body.name][:3, :3], poses[body.name][:3, 3]
        volume -= body.fluid.volume
        moment += body.inertia.mass * (R @ body.inertia.com + p)
        moment -= SEA * body.fluid.volume * (R @ body.fluid.center_of_buoyancy + p)
    x, y, _ = (moment / (SEA * volume)).tolist()
    fluid = replace(hull.fluid, volume=volume, center_of_buoyancy=(x, y, 0.3 * SCALE))
    return tb.Model(
        name,
        [replace(hull, fluid=fluid), *others],
        whole.frames,
        thrusters=whole.thrusters,
        actuators=whole.actuators,
        about=about,
    )


def tiburon_titan() -> Sheet:
    """Return the vehicle with one arm."""
    model = with_arms(
        "tiburon_titan",
        {"": (0.5 * SIZE[0], -0.45 * SIZE[1], -0.35 * SIZE[2])},
        "Research ROV of 3.4 t with a Titan II arm of six joints and a jaw, and six thrusters",
    )
    notes = {
        "vehicle": (
            "Estimated from the SF 30k by geometric similarity, k = 1.210; volume and "
            "center of buoyancy make the whole float level."
        ),
        "shoulder": (
            "Estimated from the data sheet of the Titan family, as all links of the arm: a "
            "solid round bar; added mass and drag of that bar in sea water; volume: 0.22 of"
            " its mass."
        ),
        "port_main": (
            "Estimated: 500 N for 5 horsepower; places: a choice; time constant: a choice."
        ),
        "azimuth_drive": "Estimated.",
    }
    return Sheet(model, SOURCES, notes)


def two_arm_rov() -> Sheet:
    """Return the vehicle with two arms."""
    x, y, z = 0.5 * SIZE[0], 0.45 * SIZE[1], -0.35 * SIZE[2]
    model = with_arms(
        "two_arm_rov",
        {"left_": (x, y, z), "right_": (x, -y, z)},
        "Research ROV of 3.5 t with two Titan II arms and six thrusters",
    )
    return Sheet(model, f"The vehicle of tiburon_titan with a second arm on its left.\n\n{SOURCES}")


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [tiburon_titan(), two_arm_rov()]
