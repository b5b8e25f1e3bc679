"""Aquarobot, the underwater hexapod, as the simulations with DynaMechs have it."""

import math

import numpy as np

import tiburon as tb
from tiburon.hydro.coefficients import estimate_hydrodynamics
from tiburon.zoo.parts import BLUE, GREY, ORANGE, STEEL, YELLOW, at, turned_z
from tools.zoo.sheet import Sheet

X, Y = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)

COLORS = {"coxa": GREY, "femur": ORANGE, "tibia": BLUE}


def about_center(mass: float, com: tuple[float, float, float], origin: np.ndarray) -> np.ndarray:
    """Return the tensor about the center of mass from the one about the origin."""
    r = np.array(com)
    return origin - mass * (r @ r * np.eye(3) - np.outer(r, r))


def round_bar(length: float, radius: float, color: tuple[float, float, float, float]) -> tb.Shape:
    """Return a cylinder along x that starts at the origin."""
    lying = tb.Pose.from_axis_angle(Y, math.pi / 2.0, (0.5 * length, 0.0, 0.0))
    return tb.Shape(tb.CylinderShape(radius, length), pose=lying, color=color)


def in_water(shape: tb.Shape) -> tb.BodyFluid:
    """Return the water numbers of a shape, in the water of DynaMechs' simulation."""
    return estimate_hydrodynamics([shape], 1020.0).fluid


def aquarobot() -> Sheet:
    """Return the Japanese underwater walking robot as simulated with DynaMechs."""
    coxa = tb.Inertia(5.03, (0.10, 0.0, 0.0), (0.02, 0.0197, 0.0397))
    com = (0.2, 0.06, 0.0)
    given = np.array([[0.22, -0.39, 0.0], [-0.39, 3.6, 0.0], [0.0, 0.0, 3.7]])
    femur = tb.Inertia(32.61, com, about_center(32.61, com, given))
    com = (0.3, 0.0, 0.0)
    tibia = tb.Inertia(35.81, com, about_center(35.81, com, np.diag([0.18, 4.0, 4.0])))
    side = 0.5 * 0.164 + 10.14 * 0.03**2 / 12.0
    pad = tb.Inertia(10.14, (0.015, 0.0, 0.0), (0.164, side, side))
    rows = [  # ..., twist, length, range, motor (torque and emf constant, R, J, frictions)
        ("coxa", "yaw", coxa, 0.0, 0.375, -1.0472, 1.0472, (32.0, 32.4676, 3.2, 5.3, 10.24, 6.78)),
        ("femur", "lift", femur, math.pi / 2.0, 0.20, -1.86013, 1.2815,
         (99.0, 100.2676, 1.1, 148.5, 47.52, 56.5318)),
        ("tibia", "knee", tibia, 0.0, 0.52, -2.730086, 0.411507,
         (66.0, 66.8451, 1.1, 66.0, 31.68, 25.1147)),
    ]  # fmt: skip
    lengths = {"coxa": 0.20, "femur": 0.52, "tibia": 1.02}
    drum = tb.Shape(tb.CylinderShape(0.35, 0.5), color=YELLOW)
    disk = tb.Shape(
        tb.CylinderShape(0.225, 0.03),
        pose=tb.Pose.from_axis_angle(Y, math.pi / 2.0, (0.015, 0.0, 0.0)),
        color=STEEL,
    )
    bodies = [
        tb.Body(
            "torso",
            joint=tb.Free("base"),
            inertia=tb.Inertia(210.28, (0.0, 0.0, 0.0), (14.7, 14.7, 8.72)),
            fluid=in_water(drum),
            shapes=(drum,),
        )
    ]
    actuators, contacts = [], []
    lift, knee = 0.1, -1.5
    stand: dict[str, object] = {}
    for leg in range(1, 7):
        parent, root = "torso", turned_z(math.radians(60.0 * (leg - 1)))
        for part, motion, inertia, twist, length, low, high, motor in rows:
            constant, emf, ohm, rotor, coulomb, viscous = motor
            bend = tb.Pose.from_axis_angle(X, twist, (length, 0.0, 0.0))
            name, joint = f"leg_{leg}_{part}", f"leg_{leg}_{motion}"
            bodies.append(
                tb.Body(
                    name,
                    parent,
                    joint=tb.Revolute(
                        joint,
                        pose=root @ bend,
                        limits=tb.JointLimits(low, high),
                        passive=tb.JointPassive(damping=viscous, friction=coulomb),
                        armature=rotor,
                    ),
                    inertia=inertia,
                    fluid=in_water(round_bar(lengths[part], 0.06, COLORS[part])),
                    shapes=(round_bar(lengths[part], 0.06, COLORS[part]),),
                )
            )
            actuators.append(
                tb.Actuator(
                    f"{joint}_motor",
                    joint,
                    rotor_inertia=rotor,
                    motor=tb.Motor(
                        resistance=ohm,
                        torque_constant=constant,
                        back_emf_constant=emf,
                        brush_drop=2.0,
                    ),
                )
            )
            parent, root = name, tb.Pose()
        foot = f"leg_{leg}_pad"
        bodies.append(
            tb.Body(
                foot,
                parent,
                joint=tb.Spherical(
                    f"leg_{leg}_ankle", pose=at(1.02), passive=tb.JointPassive(damping=0.35)
                ),
                inertia=pad,
                fluid=in_water(disk),
                shapes=(disk,),
            )
        )
        for point in range(8):
            angle = math.radians(45.0 * point)
            place = (0.03, 0.225 * math.sin(angle), 0.225 * math.cos(angle))
            contacts.append(tb.ContactPoint(f"{foot}_{point + 1}", foot, place))
        contacts.append(tb.ContactPoint(f"{foot}_9", foot, (0.03, 0.0, 0.0)))
        # the pad lies flat where its x points straight down
        turn = -math.pi / 2.0 - lift - knee
        stand[f"leg_{leg}_lift"], stand[f"leg_{leg}_knee"] = lift, knee
        stand[f"leg_{leg}_ankle"] = (math.cos(turn / 2.0), 0.0, 0.0, math.sin(turn / 2.0))
    height = 0.03 - 0.52 * math.sin(lift) - 1.02 * math.sin(lift + knee)
    stand["base"] = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, height)
    model = tb.Model(
        "aquarobot",
        bodies,
        contacts=contacts,
        actuators=actuators,
        poses={"stand": stand},
        about="Underwater hexapod: legs of three motors, unpowered foot pads on ball joints",
    )
    sources = """
DynaMechs, files nps_hexapod.dm and nps_aquarobot_motors.dm (Naval Postgraduate School): masses,
inertias, modified Denavit-Hartenberg rows (a, alpha, d) = (0.375, 0, 0), (0.20, 90 deg, 0),
(0.52, 0, 0), legs 60 degrees apart, foot pads 1.02 m out with nine contact points 0.03 m deep on
a radius of 0.225 m, joint ranges, motors (numbers at the joint, behind the gear: rotor inertia
is the armature), friction. Ground and water of that simulation: stiffness 75000 N/m normal and
55000 N/m planar, damping 500 N s/m, friction 2.84 static and 2.01 kinetic, water of 1020 kg/m^3,
step 3 ms.

DynaMechs gives inertias about the link's origin (its products of inertia are those of the offset
center of mass); here they are moved to the center of mass. Two of them then break the triangle
inequality and are repaired: the coxa's zz of 0.13 about the origin (0.0797 about the center of
mass) is lowered to the largest possible 0.0397; the pad's yy and zz of 0.084 (0.0817) are raised
to those of a disk of its xx and 0.03 m depth, 0.0828.

Pose "stand": lift 0.1 and knee -1.5 rad as in the files; the pads are turned level and the torso
raised until they rest on z = 0 (the ankle angle of the files belongs to another knee).

Water: the files have no numbers for it. Volume, added mass and drag are estimated with
`tiburon.hydro` from the shapes, which are a guess themselves: a drum of 0.35 m radius and 0.5 m
for the torso, round bars of 0.06 m radius for the legs, disks for the pads."""
    notes = {
        "torso": "DynaMechs; water numbers: estimated, as in all bodies.",
        "leg_1_coxa": (
            "DynaMechs; zz lowered from 0.0797 to the largest a body can have; rotor "
            "inertia as armature."
        ),
        "leg_1_femur": "DynaMechs, moved to the center of mass.",
        "leg_1_tibia": "DynaMechs, moved to the center of mass.",
        "leg_1_pad": "DynaMechs; yy and zz raised from 0.0817 to those of a disk of 0.03 m depth.",
        "leg_1_pad_1": "DynaMechs, with cosines of 45 degrees to the last digit.",
        "leg_1_yaw_motor": "DynaMechs, nps_aquarobot_motors.dm; numbers at the joint.",
    }
    return Sheet(model, sources, notes)
