"""Planar linkages: four-bars, the planar 3-RRR, Andrews' squeezer."""

import math

import numpy as np

import tiburon as tb
from tiburon.zoo.parts import (
    BLUE,
    GREY,
    ORANGE,
    YELLOW,
    at,
    bar_shape,
    degrees,
    line_shape,
    plate,
    thin_rod,
    upright,
)
from tools.zoo.closing import close
from tools.zoo.sheet import Sheet

Z = (0.0, 0.0, 1.0)

PLANE = """
The plane of the mechanism stands upright: its x is x of the world, its y is up, and joints turn
anticlockwise seen from -y of the world."""


def pin(name: str, first: str, second: str, pose: tb.Pose, second_pose: tb.Pose) -> tb.LoopClosure:
    """Return a hinge about z that closes a loop."""
    return tb.LoopClosure(name, first, second, tb.Revolute(name, Z, pose=pose), second_pose)


def with_pose(model: tb.Model, name: str, q: np.ndarray) -> tb.Model:
    """Return a model with one more named position."""
    poses = {**dict(model.poses), name: tuple(q.tolist())}
    return tb.Model(
        model.name,
        model.bodies,
        model.frames,
        loops=model.loops,
        thrusters=model.thrusters,
        contacts=model.contacts,
        actuators=model.actuators,
        springs=model.springs,
        cylinders=model.cylinders,
        cables=model.cables,
        poses=poses,
        about=model.about,
    )


def four_bar() -> Sheet:
    """Return the four-bar linkage with a known acceleration."""
    lengths, masses = (0.4, 1.1, 0.9), (1.0, 2.0, 1.5)
    crank, coupler, rocker = (
        tb.Body(
            name,
            parent,
            joint=joint,
            inertia=thin_rod(mass, length),
            shapes=(bar_shape(length, 0.015, color),),
        )
        for name, parent, joint, mass, length, color in zip(
            ("crank", "coupler", "rocker"),
            ("world", "crank", "world"),
            (
                tb.Revolute("input", Z, pose=upright()),
                tb.Revolute("elbow", Z, pose=at(lengths[0])),
                tb.Revolute("output", Z, pose=upright(1.0)),
            ),
            masses,
            lengths,
            (ORANGE, GREY, BLUE),
            strict=True,
        )
    )
    model = tb.Model(
        "four_bar",
        [crank, coupler, rocker],
        loops=[pin("closure", "coupler", "rocker", at(lengths[1]), at(lengths[2]))],
        actuators=[tb.Actuator("motor", "input")],
        about="Crank, coupler and rocker: one loop, one degree of freedom",
    )
    home = close(model, {"input": 1.0, "elbow": -0.5, "output": 1.5}, hold=("input",))
    sources = f"""
Uniform thin rods of 0.4, 1.1 and 0.9 m and 1, 2 and 1.5 kg on pivots 1 m apart; gravity 9.81
m/s^2. A standard case for Featherstone 1987, eq. 9.17: at home (crank at 1 rad) and 3 rad/s of
the crank, without torques, accelerations are -19.79873557, 26.87156196, -0.77944604 rad/s^2. The
angle of the coupler is relative to the crank, those of crank and rocker count from x.
{PLANE.strip()}"""
    notes = {
        "crank": "Radius 10 mm, which acts along the rod alone: a choice; so in all rods.",
    }
    return Sheet(with_pose(model, "home", home), sources, notes)


def balanced_four_bar() -> Sheet:
    """Return the four-bar whose center of mass never moves."""
    lengths = (1.0, 2.0 * math.sqrt(2.0), 2.0)
    masses = (3e-4, 6.5e-4, 5e-4)
    moments = (0.75e-4, 4.16e-4, 5e-4)
    psi11, psi21, psi32 = degrees(45.0, 10.0, 190.0)
    # the third link is measured from the far joint, where it meets the frame, and from the
    # direction back along the link
    far = math.pi + psi32
    centers = (
        (0.656 * math.cos(psi11), 0.656 * math.sin(psi11), 0.0),
        (3.487 * math.cos(psi21), 3.487 * math.sin(psi21), 0.0),
        (lengths[2] + 3.205 * math.cos(far), 3.205 * math.sin(far), 0.0),
    )
    bodies, parent, start = [], "world", upright()
    for number in range(3):
        name = f"link_{number + 1}"
        bodies.append(
            tb.Body(
                name,
                parent,
                joint=tb.Revolute(f"joint_{number + 1}", Z, pose=start),
                inertia=plate(masses[number], centers[number], moments[number]),
                shapes=(
                    bar_shape(lengths[number], 0.03, (ORANGE, GREY, BLUE)[number]),
                    line_shape((0.0, 0.0, 0.0), centers[number], 0.015, YELLOW),
                ),
            )
        )
        parent, start = name, at(lengths[number])
    model = tb.Model(
        "balanced_four_bar",
        bodies,
        loops=[pin("joint_4", "world", "link_3", upright(3.0), at(lengths[2]))],
        actuators=[tb.Actuator(f"motor_{k}", f"joint_{k}") for k in (1, 2, 3)],
        about="Four-bar with counterweights: its center of mass stays, one degree of freedom",
    )
    home = close(
        model,
        {"joint_1": 0.0, "joint_2": math.pi / 4.0, "joint_3": -0.75 * math.pi},
        hold=("joint_1",),
    )
    sources = f"""
Nahon 1991, table 7.1, balanced column: lengths 1, 2 sqrt 2 and 2 m, pivots 3 m apart; masses
0.3, 0.65 and 0.5 g; moments about the centers of mass 0.75e-4, 4.16e-4 and 5e-4 kg m^2; centers
of mass by psi11 = 45 deg at 0.656 m, psi21 = 10 deg at 3.487 m, psi32 = 190 deg at 3.205 m. With
these rounded numbers the center of mass of the whole stays within 4e-5 m of (2.6672, 0.2880).
The source has no gravity. Moments out of the plane: those of a flat plate. Motors in three
joints; the fourth, which closes the loop, could carry one more. {PLANE.strip()}"""
    notes = {
        "link_1": (
            "Nahon 1991, table 7.1, as all links; moments xx and yy: half of zz, a flat plate."
        ),
    }
    return Sheet(with_pose(model, "home", home), sources, notes)


def planar_3rrr() -> Sheet:
    """Return the planar parallel manipulator of Ma and Angeles 1989 and Khan 2002."""
    proximal, distal, side, base = 0.4, 0.6, 0.4, 1.0
    pivots = ((0.0, 0.0), (base, 0.0), (0.5 * base, 0.5 * base * math.sqrt(3.0)))
    radius = side / math.sqrt(3.0)
    center = (0.5 * side, 0.5 * radius, 0.0)
    corners = ((0.0, 0.0, 0.0), (side, 0.0, 0.0), (0.5 * side, 1.5 * radius, 0.0))
    bodies = [
        tb.Body(
            f"proximal_{leg}",
            joint=tb.Revolute(f"theta_{leg}", Z, pose=upright(x, y)),
            inertia=thin_rod(3.0, proximal),
            shapes=(bar_shape(proximal, 0.015, ORANGE),),
        )
        for leg, (x, y) in enumerate(pivots, start=1)
    ]
    bodies += [
        tb.Body(
            f"distal_{leg}",
            f"proximal_{leg}",
            joint=tb.Revolute(f"theta_{leg + 3}", Z, pose=at(proximal)),
            inertia=thin_rod(4.0, distal),
            shapes=(bar_shape(distal, 0.012, GREY),),
        )
        for leg in (1, 2, 3)
    ]
    edges = zip(corners, (*corners[1:], corners[0]), strict=True)
    bodies.append(
        tb.Body(
            "platform",
            "distal_1",
            joint=tb.Revolute("theta_7", Z, pose=at(distal)),
            inertia=plate(8.0, center, 0.0817),
            shapes=tuple(line_shape(a, b, 0.012, BLUE) for a, b in edges),
        )
    )
    model = tb.Model(
        "planar_3rrr",
        bodies,
        [tb.Frame("center", "platform", at(*center))],
        loops=[
            pin(f"corner_{leg}", f"distal_{leg}", "platform", at(distal), at(*corners[leg - 1]))
            for leg in (2, 3)
        ],
        actuators=[tb.Actuator(f"motor_{leg}", f"theta_{leg}") for leg in (1, 2, 3)],
        about="Three legs of two links carry a triangle: two loops, three degrees of freedom",
    )
    angles = [math.pi / 3.0, 4.0 * math.pi / 3.0, 11.0 * math.pi / 6.0]
    printed = [*angles, -0.865, -2.102, -0.976, 3.916 - angles[0] + 0.865]
    refined = [*angles, -0.8650718732, -2.1020965640, -0.9758722926]
    refined.append(3.9155292202 - angles[0] - refined[3])
    names = [f"theta_{k}" for k in range(1, 8)]
    home = close(model, dict(zip(names, refined, strict=True)), hold=tuple(names[:3]))
    model = with_pose(with_pose(model, "home", home), "printed", np.array(printed))
    sources = f"""
Khan 2002, table 4.1 (the data of Ma and Angeles 1989): proximal links 0.4 m, 3 kg, 0.04 kg m^2;
distal links 0.6 m, 4 kg, 0.12 kg m^2; platform an equilateral triangle of side 0.4 m, 8 kg,
0.0817 kg m^2. The moments of the links are those of uniform rods, so their centers of mass are
in the middle. Side of the base triangle: not printed; 1.0 m follows from the printed pose.
Moments out of the plane: thin rods and a flat plate (they do no work here). theta_1 to theta_3
count from x, theta_4 to theta_6 from the proximal links; the platform's own angle of the source
is theta_1 + theta_4 + theta_7. Pose "printed": as in the source, rounded to 1e-3; its loops are
open by up to 4e-4 m. Pose "home": the same with theta_1 to theta_3 held, and the loops closed.
{PLANE.strip()} Gravity is along -y of the source."""
    notes = {
        "proximal_1": "Khan 2002, table 4.1; the pivot follows from the base side of 1.0 m.",
        "distal_1": "Khan 2002, table 4.1.",
        "platform": "Khan 2002, table 4.1; moments xx and yy: half of zz, a flat plate.",
    }
    return Sheet(model, sources, notes)


def andrews_squeezer() -> Sheet:
    """Return the seven-body mechanism known from test sets for stiff solvers."""
    masses = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
    moments = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
    A, B, C = (-0.06934, -0.00227), (-0.03635, 0.03273), (0.014, 0.072)
    d, da, e, ea, rr, ra = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
    ss, sa, sb, sc, sd = 0.035, 0.01874, 0.01043, 0.018, 0.02
    ta, tb_, u, ua, ub, zf, zt, fa = 0.02308, 0.00916, 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421
    # name, parent, joint, its place, center of mass, far joint, number of the source
    rows = [
        ("K1", "world", "beta", at(), (ra, 0.0), (rr, 0.0), 1),
        ("K2", "K1", "Theta", at(rr), (-da, 0.0), (-d, 0.0), 2),
        ("K3", "world", "gamma", at(*B), (sb, -sa), (0.0, -ss), 3),
        ("K5", "world", "delta", at(*A), (ta, -tb_), (zt, 0.0), 5),
        ("K4", "K5", "Phi", at(zt), (0.0, -(e - ea)), (0.0, -e), 4),
        ("K7", "world", "epsilon", at(*A), (ub, -ua), (0.0, -u), 7),
        ("K6", "K7", "Omega", at(0.0, -u), (zf - fa, 0.0), (zf, 0.0), 6),
    ]
    bodies = [
        tb.Body(
            name,
            parent,
            joint=tb.Revolute(joint, Z, pose=pose),
            inertia=plate(masses[number - 1], (*center, 0.0), moments[number - 1]),
            shapes=(line_shape((0, 0, 0), (*far, 0.0), 0.001, (ORANGE, GREY, BLUE)[number % 3]),),
        )
        for name, parent, joint, pose, center, far, number in rows
    ]
    model = tb.Model(
        "andrews_squeezer",
        bodies,
        [tb.Frame("spring_C", "world", at(*C)), tb.Frame("spring_D", "K3", at(sd, -sc))],
        loops=[
            pin("E_of_K3", "K2", "K3", at(-d), at(0.0, -ss)),
            pin("E_of_K4", "K2", "K4", at(-d), at(0.0, -e)),
            pin("E_of_K6", "K2", "K6", at(-d), at(zf)),
        ],
        actuators=[tb.Actuator("motor", "beta", force_limits=(-0.033, 0.033))],
        springs=[
            tb.Spring("coil", "spring_C", "spring_D", stiffness=4530.0, rest_length=0.07785),
        ],
        about="Andrews' mechanism of seven bodies: three loops, one degree of freedom",
    )
    start = {
        "beta": -0.0617138900142764,
        "Theta": 0.0,
        "gamma": 0.455279819163070,
        "Phi": 0.222668390165886,
        "delta": 0.487364979543843,
        "Omega": -0.222668390165886,
        "epsilon": 1.230547444549821,
    }
    home = close(model, start, hold=("Theta",))
    sources = """
IVP test set, problem "Andrews' squeezing mechanism" (also Hairer and Wanner 1996, section
VII.7), and the IFToMM multibody benchmark library: masses, moments, lengths and start of the
test set. Bodies and angles keep the names of the source. The mechanism lies flat; there is no
gravity in its plane. The start of the test set is the pose "home", at rest. A constant moment of
0.033 N m acts on K1: the largest force of the motor. Centers of mass of K3, K5 and K7: only
their distance from the pivot acts and is given; which side they lie on is our choice. Moments
out of the plane: those of flat plates."""
    notes = {
        "K1": "IVP test set, as all bodies; moments xx and yy: half of zz, a flat plate.",
        "K3": (
            "Distance of the center of mass: IVP test set; its side: our choice. So in K5 and K7."
        ),
        "spring_C": "Ends of the spring.",
        "coil": "Stiffness and rest length: IVP test set.",
    }
    return Sheet(with_pose(model, "home", home), sources, notes)


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [
        four_bar(),
        balanced_four_bar(),
        planar_3rrr(),
        andrews_squeezer(),
    ]
