"""Walking machines: Aquarobot, the OSU Hexapod, planar and spatial walkers, a dog."""

import math
from collections.abc import Mapping
from itertools import product
from types import MappingProxyType
from typing import Any

import tiburon as tb
from tiburon.zoo.parts import (
    BLUE,
    GREY,
    ORANGE,
    STEEL,
    YELLOW,
    at,
    bar_shape,
    line_shape,
    thin_rod,
    turned_z,
    upright,
)
from tools.zoo.aquarobot import aquarobot
from tools.zoo.linkages import pin
from tools.zoo.sheet import Sheet

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)

GROUND = tb.World(ground=tb.Ground(static_friction=0.8, kinetic_friction=0.7))
"""Level ground of walkers: rubber on a dry floor."""

COLORS = {"hip": STEEL, "thigh": ORANGE, "shank": BLUE}


def osu_hexapod() -> Sheet:
    """Return a hexapod of the size of the one built at Ohio State University in 1976."""
    length, width, height = 1.3, 0.35, 0.25
    bodies = [
        tb.Body(
            "body",
            joint=tb.Free("base"),
            inertia=tb.Inertia.box(60.0, (length, width, height)),
            shapes=(tb.Shape(tb.BoxShape((length, width, height)), color=GREY),),
        )
    ]
    contacts, stand = [], {}
    hip, thigh, shank = 0.06, 0.42, 0.46
    lift, knee = math.radians(20.0), math.radians(-100.0)
    for row, (side, sign) in product(range(3), (("left", 1.0), ("right", -1.0))):
        leg = f"{side}_{('front', 'middle', 'rear')[row]}"
        mount = turned_z(sign * math.pi / 2.0, 0.5 * length * (1 - row), 0.5 * sign * width)
        lifted = tb.Pose.from_axis_angle(X, math.pi / 2.0, (hip, 0.0, 0.0))
        # the azimuth axis is vertical, the other two are horizontal and lift the leg
        rows = [
            ("hip", "azimuth", mount, hip, 2.0, 0.05, (-0.8, 0.8)),
            ("thigh", "elevation", lifted, thigh, 5.0, 0.03, (-1.0, 1.4)),
            ("shank", "knee", at(thigh), shank, 3.0, 0.02, (-2.6, 0.2)),
        ]
        parent = "body"
        for part, joint, pose, reach, mass, radius, (low, high) in rows:
            name = f"{leg}_{part}"
            bodies.append(
                tb.Body(
                    name,
                    parent,
                    joint=tb.Revolute(
                        f"{leg}_{joint}", pose=pose, limits=tb.JointLimits(low, high)
                    ),
                    inertia=tb.Inertia.cylinder(
                        mass, radius, reach, com=(0.5 * reach, 0.0, 0.0), axis=0
                    ),
                    shapes=(bar_shape(reach, radius, COLORS[part]),),
                )
            )
            parent = name
        contacts.append(tb.ContactPoint(f"{leg}_foot", parent, (shank, 0.0, 0.0), 0.02))
        stand |= {f"{leg}_elevation": lift, f"{leg}_knee": knee}
    rise = 0.02 - thigh * math.sin(lift) - shank * math.sin(lift + knee)
    stand["base"] = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, rise)
    joints = [body.joint.name for body in bodies[1:]]
    model = tb.Model(
        "osu_hexapod",
        bodies,
        contacts=contacts,
        actuators=[tb.Actuator(f"{joint}_motor", joint) for joint in joints],
        poses={"stand": stand},
        about="Six legs of three electric joints each, after Ohio State's walking machine of 1976",
    )
    sources = """
McMillan 1994 names the OSU Hexapod as a system of six legs with three revolute joints each and
gives no numbers. Layout after McGhee and Iswandhi 1979: azimuth about a vertical axis, then
elevation and knee.

Estimated from photographs of the machine (about 1.3 m long, about 120 kg): a body of 60 kg, 1.3
x 0.35 x 0.25 m, taken as a solid box; links are solid round bars of 0.06, 0.42 and 0.46 m and 2,
5 and 3 kg; joint ranges are generous. Pose "stand": feet on z = 0."""
    notes = {
        "body": "Estimated from photographs: a solid box.",
        "left_front_hip": "Estimated, as all links: solid round bars.",
    }
    return Sheet(model, sources, notes, world=GROUND)


def planar_walker() -> Sheet:
    """Return the three-legged walker of Nahon's examples, standing on pins."""
    half = math.sqrt(0.5)
    body = tb.Body(
        "body",
        joint=tb.Planar("body", pose=upright(0.0, 2.0 * half)),
        inertia=tb.Inertia.box(1000.0 / 9.81, (2.0, 0.1, 0.1)),
        shapes=(tb.Shape(tb.BoxShape((2.0, 0.1, 0.1)), color=YELLOW),),
    )
    bodies, loops = [body], []
    # thighs first, so that joints keep the numbers of the source
    for leg, x in ((1, 1.0), (2, 0.0), (3, -1.0)):
        bodies.append(
            tb.Body(
                f"thigh_{leg}",
                "body",
                joint=tb.Revolute(f"joint_{leg}", Z, -math.pi / 4.0, pose=at(x)),
                inertia=thin_rod(2.0, 1.0),
                shapes=(bar_shape(1.0, 0.03, ORANGE),),
            )
        )
    for leg, x in ((1, 1.0), (2, 0.0), (3, -1.0)):
        bodies.append(
            tb.Body(
                f"shank_{leg}",
                f"thigh_{leg}",
                joint=tb.Revolute(f"joint_{leg + 3}", Z, -math.pi / 2.0, pose=at(1.0)),
                inertia=thin_rod(2.0, 1.0),
                shapes=(bar_shape(1.0, 0.025, BLUE),),
            )
        )
        loops.append(pin(f"joint_{leg + 6}", "world", f"shank_{leg}", upright(x), at(1.0)))
    model = tb.Model(
        "planar_walker",
        bodies,
        loops=loops,
        actuators=[tb.Actuator(f"motor_{k}", f"joint_{k}") for k in range(1, 7)],
        about="A body on three planar legs with pinned feet: three loops, three degrees of freedom",
    )
    sources = """
Nahon 1991, sections 2.3 and 3.3: leg links of 1 m, body of length 2 m, its joints sqrt 2 m above
the feet; hips (joints 1, 2, 3) at x = 1, 0, -1, knees (4, 5, 6) bent forward by 45 degrees, feet
(7, 8, 9) below the hips. Feet are hinges on the ground without motors. All joints are zero in
this position.

Estimated (the source has statics alone): the body weighs the 1000 N that it carries there and is
a bar of 2 m; leg links are thin rods of 2 kg. The plane stands upright: x of the source is x of
the world, its y is up."""
    notes = {
        "body": "Length and height: Nahon 1991; weight: the load it carries there.",
        "thigh_1": "Length: Nahon 1991; mass and radius: estimated.",
    }
    return Sheet(model, sources, notes)


def leg_bodies(
    leg: str,
    trunk: str,
    mount: tb.Pose,
    lengths: tuple[float, float, float],
    masses: tuple[float, float, float],
    radius: float,
    torque: float,
) -> list[tb.Body]:
    """Return a leg that swings sideways about x and forward about y, and bends at the knee.

    Args:
        leg: Name of the leg.
        trunk: Body that carries it.
        mount: Where, in axes of the trunk.
        lengths: Of hip (along y, signed), thigh and shank (downward) [m].
        masses: Of the three links [kg].
        radius: Of thigh and shank [m].
        torque: Largest torque of its motors [N m].
    """
    hip, thigh, shank = lengths
    limits = [(-0.8, 0.8), (-1.5, 2.5), (-2.7, -0.3)]
    ranges = [tb.JointLimits(low, high, force=torque) for low, high in limits]
    return [
        tb.Body(
            f"{leg}_hip",
            trunk,
            joint=tb.Revolute(f"{leg}_roll", X, pose=mount, limits=ranges[0]),
            inertia=tb.Inertia.cylinder(
                masses[0], 1.5 * radius, abs(hip), com=(0.0, 0.5 * hip, 0.0), axis=1
            ),
            shapes=(line_shape((0.0, 0.0, 0.0), (0.0, hip, 0.0), 1.5 * radius, STEEL),),
        ),
        tb.Body(
            f"{leg}_thigh",
            f"{leg}_hip",
            joint=tb.Revolute(f"{leg}_pitch", Y, pose=at(y=hip), limits=ranges[1]),
            inertia=tb.Inertia.cylinder(masses[1], radius, thigh, com=(0.0, 0.0, -0.5 * thigh)),
            shapes=(line_shape((0.0, 0.0, 0.0), (0.0, 0.0, -thigh), radius, ORANGE),),
        ),
        tb.Body(
            f"{leg}_shank",
            f"{leg}_thigh",
            joint=tb.Revolute(f"{leg}_knee", Y, pose=at(z=-thigh), limits=ranges[2]),
            inertia=tb.Inertia.cylinder(
                masses[2], 0.7 * radius, shank, com=(0.0, 0.0, -0.5 * shank)
            ),
            shapes=(line_shape((0.0, 0.0, 0.0), (0.0, 0.0, -shank), 0.7 * radius, BLUE),),
        ),
    ]


def bent(depth: float, thigh: float, shank: float) -> tuple[float, float]:
    """Return pitch and knee angles that put a foot straight below the hip, the knee behind."""
    knee = -math.acos((depth**2 - thigh**2 - shank**2) / (2.0 * thigh * shank))
    pitch = math.atan2(-shank * math.sin(knee), thigh + shank * math.cos(knee))
    return pitch, knee


def legged(
    name: str,
    trunk: tb.Body,
    hips: dict[str, tuple[float, float, float]],
    feet: dict[str, float],
    lengths: tuple[float, float, float],
    masses: tuple[float, float, float],
    radius: float,
    torque: float,
    about: str,
    drive: Mapping[str, Any] = MappingProxyType({}),
) -> tb.Model:
    """Return a trunk on legs, with the pose "stand" in which feet hang at given depths.

    `drive` has further parameters of the actuators.
    """
    hip, thigh, shank = lengths
    bodies, contacts, stand = [trunk], [], {}
    for leg, (x, y, z) in hips.items():
        outward = math.copysign(hip, y)
        mount = at(x, y - outward, z)
        parts = (outward, thigh, shank)
        bodies += leg_bodies(leg, trunk.name, mount, parts, masses, radius, torque)
        contacts.append(
            tb.ContactPoint(f"{leg}_foot", f"{leg}_shank", (0.0, 0.0, -shank), 0.7 * radius)
        )
        stand[f"{leg}_pitch"], stand[f"{leg}_knee"] = bent(feet[leg], thigh, shank)
    joints = [body.joint.name for body in bodies[1:]]
    lowest = max(feet.values()) + 0.7 * radius
    stand[trunk.joint.name] = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, lowest)
    return tb.Model(
        name,
        bodies,
        contacts=contacts,
        actuators=[
            tb.Actuator(f"{joint}_motor", joint, force_limits=(-torque, torque), **drive)
            for joint in joints
        ],
        poses={"stand": stand},
        about=about,
    )


def four_legged_walker() -> Sheet:
    """Return Nahon's walker on uneven ground."""
    mass, ahead = 1000.0 / 9.81, 0.6
    trunk = tb.Body(
        "body",
        joint=tb.Free("base"),
        inertia=tb.Inertia.box(mass, (1.5, 1.0, 0.2)),
        shapes=(tb.Shape(tb.BoxShape((1.5, 1.0, 0.2)), pose=at(0.75 - ahead), color=YELLOW),),
    )
    hips = {
        "leg_1": (1.5 - ahead, -0.5, 0.0),
        "leg_2": (1.5 - ahead, 0.5, 0.0),
        "leg_3": (-ahead, -0.5, 0.0),
        "leg_4": (-ahead, 0.5, 0.0),
    }
    feet = {"leg_1": 0.7, "leg_2": 1.0, "leg_3": 0.6, "leg_4": 0.7}
    model = legged(
        "four_legged_walker",
        trunk,
        hips,
        feet,
        (0.1, 0.6, 0.6),
        (1.0, 2.0, 1.0),
        0.03,
        500.0,
        "A body on four legs over uneven ground, for the distribution of foot forces",
    )
    sources = """
Nahon 1991, section 6.3, eq. 6.65: feet at (1.5 - x, -0.5, -0.7), (1.5 - x, 0.5, -1.0), (-x,
-0.5, -0.6) and (-x, 0.5, -0.7) m from the center of mass, where x is how far the body has come;
friction 0.5. In the pose "stand" x = 0.6 and the feet are there.

The mass is lost with a figure; 1000 N of weight is a guess. The source neglects the legs and
does not say how they are built; estimated: hips straight above the feet, links of 0.1, 0.6 and
0.6 m and 1, 2 and 1 kg, solid round bars; the body is a solid box of 1.5 x 1.0 x 0.2 m about its
center of mass (drawn between the hips); torque limits 500 N m."""
    notes = {
        "body": "Weight 1000 N: a guess; a solid box, estimated.",
        "leg_1_hip": (
            "Estimated, as all links: solid round bars; feet of the pose: Nahon 1991, eq. 6.65."
        ),
    }
    return Sheet(model, sources, notes)


def quadruped() -> Sheet:
    """Return a robot dog."""
    trunk = tb.Body(
        "trunk",
        joint=tb.Free("base"),
        inertia=tb.Inertia.box(6.0, (0.40, 0.18, 0.10)),
        shapes=(tb.Shape(tb.BoxShape((0.40, 0.18, 0.10)), color=GREY),),
    )
    hips = {
        f"{end}_{side}": (0.19 * forward, 0.14 * sign, 0.0)
        for end, forward in (("front", 1.0), ("hind", -1.0))
        for side, sign in (("left", 1.0), ("right", -1.0))
    }
    model = legged(
        "quadruped",
        trunk,
        hips,
        dict.fromkeys(hips, 0.28),
        (0.085, 0.2, 0.2),
        (0.6, 0.9, 0.2),
        0.025,
        33.0,
        "A robot dog of 13 kg: four legs of three motors, ball feet",
        {"ratio": 11.0, "motor": tb.Motor(0.173, math.sqrt(1.5) * 0.05), "command": "force"},
    )
    sources = """
No single source: a dog of the size common today (12 to 13 kg, thighs and shanks of 0.2 m, motors
of 33 N m). Estimated from geometry: the trunk is a solid box of 0.40 x 0.18 x 0.10 m and 6 kg;
hips, thighs and shanks are solid round bars of 0.6, 0.9 and 0.2 kg. Pose "stand": the hips are
0.28 m above the feet, which rest on z = 0.

Windings of the motors: MIT Cheetah-Software, file common/include/Dynamics/MiniCheetah.h: 0.173 ohm
a phase, flux linkage times pole pairs 0.05 V s. A direct-current motor of the same torque and the
same heat has sqrt(3/2) times 0.05 N m/A (power-invariant transform). The gear ratio of 11 is ours:
that motor's 3 N m become 33. Commands are torques: drives control the currents. Rotors are part of
the links, friction is left out."""
    notes = {
        "trunk": "Estimated: a solid box.",
        "front_left_hip": "Estimated, as all links: solid round bars; torque limits likewise.",
        "front_left_roll_motor": "MIT Cheetah-Software, MiniCheetah.h, as all motors; ratio: ours.",
    }
    return Sheet(model, sources, notes, world=GROUND)


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [aquarobot(), osu_hexapod(), planar_walker(), four_legged_walker(), quadruped()]
