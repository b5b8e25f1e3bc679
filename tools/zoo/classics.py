"""Pendulums, a cart with a pole, a flexible arm."""

import math
from itertools import pairwise

import tiburon as tb
from tiburon.zoo.parts import BLUE, GREY, ORANGE, at, bar_shape, line_shape, thin_rod, upright
from tools.zoo.sheet import Sheet


def pendulum() -> Sheet:
    """Return a mass on a massless rod of one meter."""
    joint = tb.Revolute("pivot", (0.0, 1.0, 0.0))
    bob = tb.Body(
        "bob",
        joint=joint,
        inertia=tb.Inertia.sphere(1.0, 0.06, com=(0.0, 0.0, -1.0)),
        shapes=(
            line_shape((0.0, 0.0, 0.0), (0.0, 0.0, -1.0), 0.008),
            tb.Shape(tb.SphereShape(0.06), pose=at(z=-1.0), color=ORANGE),
        ),
    )
    model = tb.Model(
        "pendulum",
        [bob],
        about="A ball of 1 kg on a massless rod of 1 m, swinging about y; hangs down at zero",
    )
    sources = """
A pendulum to try things on; all numbers are choices. Period of small swings: 2 pi sqrt((1 + 0.4
* 0.06^2) / 9.81) = 2.0075 s."""
    return Sheet(model, sources)


def double_pendulum() -> Sheet:
    """Return two equal rods, one hung on the other."""
    bodies = []
    for number, parent in ((1, "world"), (2, "upper")):
        joint = tb.Revolute(
            "shoulder" if number == 1 else "elbow",
            (0.0, 0.0, 1.0),
            # the first rod hangs down: its x points to -z of the world
            -math.pi / 2.0 if number == 1 else 0.0,
            pose=upright() if number == 1 else at(1.0),
        )
        bodies.append(
            tb.Body(
                "upper" if number == 1 else "lower",
                parent,
                joint=joint,
                inertia=thin_rod(1.0, 1.0),
                shapes=(bar_shape(1.0, 0.02, BLUE if number == 1 else ORANGE),),
            )
        )
    model = tb.Model(
        "double_pendulum",
        bodies,
        [tb.Frame("tip", "lower", at(1.0))],
        about="Two equal thin rods of 1 m and 1 kg; hangs down at zero, chaotic when thrown",
    )
    sources = """
All numbers are choices: thin uniform rods, m l^2 / 12 about the middle. Angles count from
hanging down, the second from the first rod, anticlockwise seen from -y."""
    return Sheet(model, sources)


def spherical_pendulum() -> Sheet:
    """Return a mass that swings in all directions."""
    body = tb.Body(
        "bob",
        joint=tb.Spherical("pivot"),
        inertia=tb.Inertia.sphere(1.0, 0.06, com=(0.0, 0.0, -1.0)),
        shapes=(
            line_shape((0.0, 0.0, 0.0), (0.0, 0.0, -1.0), 0.008),
            tb.Shape(tb.SphereShape(0.06), pose=at(z=-1.0), color=ORANGE),
        ),
    )
    model = tb.Model(
        "spherical_pendulum",
        [body],
        about="A ball of 1 kg, 1 m below a ball joint: swings and spins in all directions",
    )
    return Sheet(
        model,
        "A pendulum on a ball joint, to try things on; all numbers are choices: those of pendulum.",
    )


def cart_pole() -> Sheet:
    """Return the cart with the pole that control courses balance."""
    cart = tb.Body(
        "cart",
        joint=tb.Prismatic("slide", (1.0, 0.0, 0.0), limits=tb.JointLimits(-2.4, 2.4)),
        inertia=tb.Inertia.box(1.0, (0.4, 0.2, 0.1)),
        shapes=(tb.Shape(tb.BoxShape((0.4, 0.2, 0.1)), color=BLUE),),
    )
    pole = tb.Body(
        "pole",
        "cart",
        joint=tb.Revolute("hinge", (0.0, 1.0, 0.0)),
        inertia=tb.Inertia(0.1, (0.0, 0.0, 0.5), (0.1 / 12.0, 0.0, 0.0, 0.1 / 12.0, 0.0, 5e-6)),
        shapes=(line_shape((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.01, ORANGE),),
    )
    model = tb.Model(
        "cart_pole",
        [cart, pole],
        actuators=[tb.Actuator("motor", "slide", force_limits=(-10.0, 10.0))],
        about="A pole upright on a cart that a force of 10 N can push; the pole is free to fall",
    )
    sources = """
Masses, lengths, track and force of the pole-balancing task of Barto, Sutton and Anderson 1983:
cart 1 kg, pole 0.1 kg and 1 m (half length 0.5 m), track +-2.4 m, force +-10 N. Its friction
(cart 5e-4 N, hinge 2e-6 kg m^2/s) is left out. Size of the cart and radius of the pole: choices."""
    notes = {
        "cart": "Mass and track: Barto, Sutton and Anderson 1983; size: a choice.",
        "pole": "Mass and length: Barto, Sutton and Anderson 1983; radius 10 mm: a choice.",
        "motor": "Force: Barto, Sutton and Anderson 1983.",
    }
    return Sheet(model, sources, notes)


def flexible_arm() -> Sheet:
    """Return a motor with a flexible beam, cut into rigid pieces with springs between them."""
    length, width, thickness, pieces = 1.0, 0.05, 0.005, 10
    young, density = 70e9, 2700.0
    piece = length / pieces
    stiffness = young * (width * thickness**3 / 12.0) / piece
    # damping in proportion to stiffness: about one percent of critical in the first mode
    damping = 6e-4 * stiffness
    passive = tb.JointPassive(damping=damping, stiffness=stiffness)
    bodies = [
        tb.Body(
            "hub",
            joint=tb.Revolute("motor", (0.0, 0.0, 1.0)),
            inertia=tb.Inertia.cylinder(1.0, 0.05, 0.06),
            shapes=(tb.Shape(tb.CylinderShape(0.05, 0.06), color=GREY),),
        )
    ]
    ends = [0.0, *((k + 0.5) * piece for k in range(pieces)), length]
    parent, start = "hub", 0.0
    for number, (begin, end) in enumerate(pairwise(ends)):
        size = (end - begin, width, thickness)
        # the blade stands on edge, so that it bends sideways, about the axis of the motor
        upended = tb.Pose.from_axis_angle((1.0, 0.0, 0.0), math.pi / 2.0, (size[0] / 2, 0.0, 0.0))
        inertia = tb.Inertia.box(density * size[0] * width * thickness, size).moved(upended)
        shapes = (tb.Shape(tb.BoxShape(size), pose=upended, color=ORANGE),)
        name = f"piece_{number}"
        joint: tb.Joint
        if number == 0:
            joint = tb.Fixed("clamp", pose=at(0.0))
        else:
            joint = tb.Revolute(f"bend_{number}", (0, 0, 1), pose=at(start), passive=passive)
        bodies.append(tb.Body(name, parent, joint=joint, inertia=inertia, shapes=shapes))
        parent, start = name, end - begin
    model = tb.Model(
        "flexible_arm",
        bodies,
        [tb.Frame("tip", parent, at(start))],
        actuators=[tb.Actuator("drive", "motor")],
        about="A motor swings a thin aluminium blade of 1 m: 11 rigid pieces with springs between",
    )
    sources = f"""
A blade of aluminium (E = 70 GPa, 2700 kg/m^3), 1 m x 50 mm x 5 mm, standing on edge, clamped to
the hub of a motor that turns it about z: all choices. Cut into rigid pieces after Wittbrodt,
Adamiec-Wojcik and Wojciech 2006 (rigid finite elements): springs in the middle of ten equal
cells, each of stiffness E I / (l / 10) = {stiffness:.6g} N m/rad, half cells at both ends. First
bending frequency of the continuous blade, clamped: 3.5160 sqrt(E I / (rho A l^4)) = 25.84 rad/s.
Damping: 6e-4 s times stiffness, near 1 % of critical in the first mode (estimated)."""
    notes = {
        "hub": "A choice: a solid cylinder of 1 kg.",
        "piece_0": "Half a cell of the blade, clamped to the hub.",
        "piece_1": "A cell; stiffness E I / (l / 10), damping 6e-4 s times that.",
    }
    return Sheet(model, sources, notes)


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [
        pendulum(),
        double_pendulum(),
        spherical_pendulum(),
        cart_pole(),
        flexible_arm(),
    ]
