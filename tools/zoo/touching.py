"""What touches: blocks, balls, wheels and tops on the ground, and a gripper with a block."""

import math

import tiburon as tb
from tiburon.zoo.parts import BLUE, GREY, ORANGE, YELLOW, at, line_shape, upright
from tools.zoo.sheet import Sheet

G = 9.81
"""Gravity of the usual world [m/s^2]."""

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def slope(angle: float, friction: float) -> tb.World:
    """Return ground that falls toward +x: gravity is tilted, the ground is z = 0.

    Args:
        angle: Angle of the slope [deg].
        friction: Coefficient of friction.
    """
    t = math.radians(angle)
    return tb.World(
        gravity=(G * math.sin(t), 0.0, -G * math.cos(t)),
        ground=tb.Ground(static_friction=friction),
    )


def floor(friction: float, restitution: float = 0.0) -> tb.World:
    """Return level ground."""
    return tb.World(ground=tb.Ground(static_friction=friction, restitution=restitution))


def block_slope() -> Sheet:
    """Return a block on a slope of 20 degrees."""
    size = (0.4, 0.3, 0.2)
    block = tb.Body(
        "block",
        joint=tb.Free("float"),
        inertia=tb.Inertia.box(2.0, size),
        shapes=(tb.Shape(tb.BoxShape(size), color=BLUE),),
    )
    model = tb.Model(
        "block_slope",
        [block],
        poses={"rest": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1)},
        about="A block of 2 kg on a slope of 20 degrees with friction 0.2: it slides",
    )
    sources = """
A block to try things on; all numbers are choices: uniform, 2 kg, 0.4 m along the slope, 0.3 m
across, 0.2 m high. The world is a slope of 20 degrees toward +x (gravity is tilted, the ground
is z = 0) with friction 0.2. It slides down at g (sin 20 - 0.2 cos 20) = 1.511540684 m/s^2; with
friction above tan 20 = 0.36397 it stays. Sticking, its lower and upper edges carry 10.8959934 N
and 7.5407758 N; sliding with friction 0.2, 10.1402231 N and 8.2965461 N."""
    return Sheet(model, sources, world=slope(20.0, 0.2))


def ball_ramp() -> Sheet:
    """Return a ball on a slope of 20 degrees."""
    radius, mass = 0.05, 0.5
    ball = tb.Body(
        "ball",
        joint=tb.Free("float"),
        inertia=tb.Inertia.sphere(mass, radius),
        shapes=(
            tb.Shape(tb.SphereShape(radius), color=ORANGE),
            tb.Shape(
                tb.CylinderShape(1.003 * radius, 0.012), role="visual", color=(0.2, 0.2, 0.2, 1.0)
            ),
        ),
    )
    model = tb.Model(
        "ball_ramp",
        [ball],
        poses={"rest": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, radius)},
        about="A solid ball of 0.5 kg on a slope of 20 degrees with friction 0.5: it rolls",
    )
    sources = """
A ball to try things on; all numbers are choices: solid, radius 0.05 m, 0.5 kg (density 955
kg/m^3, hard rubber). The world is a slope of 20 degrees toward +x with friction 0.5. It rolls
down at 5/7 g sin 20 = 2.396584004 m/s^2; it would slip where tan 20 exceeds 7/2 of the friction,
that is below 0.10399. The belt around it is drawn only."""
    return Sheet(model, sources, world=slope(20.0, 0.5))


def newtons_cradle() -> Sheet:
    """Return five balls that hang side by side."""
    count, radius, length, gap = 5, 0.02, 0.15, 5e-4
    mass = 7850.0 * 4.0 / 3.0 * math.pi * radius**3
    pitch = 2.0 * radius + gap
    bodies = [
        tb.Body(
            f"ball_{k + 1}",
            joint=tb.Revolute(f"string_{k + 1}", Y, pose=at((k - 0.5 * (count - 1)) * pitch)),
            inertia=tb.Inertia.sphere(mass, radius, com=(0.0, 0.0, -length)),
            shapes=(
                tb.Shape(
                    tb.SphereShape(radius),
                    pose=at(z=-length),
                    color=GREY,
                    material=tb.ContactMaterial(restitution=0.95),
                ),
                line_shape((0.0, 0.0, 0.0), (0.0, 0.0, -length), 0.001),
            ),
        )
        for k in range(count)
    ]
    model = tb.Model(
        "newtons_cradle",
        bodies,
        poses={"raised": (0.6, 0.0, 0.0, 0.0, 0.0), "two_raised": (0.6, 0.6, 0.0, 0.0, 0.0)},
        about="Five steel balls on strings side by side: what one brings, the last takes away",
    )
    sources = f"""
Newton's cradle with choices for all numbers: steel balls (7850 kg/m^3) of radius 0.02 m,
{mass:.6g} kg, on rigid strings of 0.15 m, 0.5 mm apart. With a restitution of 0.95 a collision
of two passes on (1 + 0.95) / 2 of the speed. The gaps make the collisions follow one another;
balls that touch are struck all at once, which passes on less (see tb.impact). There is no
ground: simulate with contact=tb.RigidContact(), and with steps that are shorter than the time
from ball to ball."""
    return Sheet(model, sources)


def painleve_rod() -> Sheet:
    """Return a rod that slides on one end."""
    half, mass = 0.5, 1.0
    rod = tb.Body(
        "rod",
        joint=tb.Planar("plane", pose=upright()),
        inertia=tb.Inertia(
            mass,
            (0.0, 0.0, 0.0),
            (5e-5, 0.0, 0.0, mass * half * half / 3.0, 0.0, mass * half * half / 3.0),
        ),
        shapes=(line_shape((-half, 0.0, 0.0), (half, 0.0, 0.0), 0.01, ORANGE),),
    )
    model = tb.Model(
        "painleve_rod",
        [rod],
        contacts=[
            tb.ContactPoint("lower_end", "rod", (-half, 0.0, 0.0)),
            tb.ContactPoint("upper_end", "rod", (half, 0.0, 0.0)),
        ],
        about="A thin rod of 1 m that slides on its end: with much friction it jams, or has no way",
    )
    sources = """
The rod of Painleve 1895, as in Genot and Brogliato 1999; length 1 m and mass 1 kg are choices,
thin and uniform: m l^2 / 3 about the middle with half the length l = 0.5 m. It moves in the
plane of the world's x and z, which are x and y of its joint. At an angle theta from the floor,
with the lower end sliding ahead, p = 1 + 3 cos(theta) (cos(theta) - mu sin(theta)) and b = l w^2
sin(theta) - g decide: p > 0, b < 0 slides with the normal force -m b / p; p > 0, b > 0 lifts
off; p < 0, b > 0 has both answers; p < 0, b < 0 has none but an impulse. The least friction of p
= 0 is 4/3, at 63.43 degrees; the world has 1.4."""
    return Sheet(model, sources, world=floor(1.4))


def rimless_wheel() -> Sheet:
    """Return a hub with spokes that walks down a slope."""
    count, length, mass = 8, 0.5, 1.0
    # the inertia about the other axes is that of a plane body
    across = 0.5 * mass * length * length / 4.0
    tips = [
        (
            round(length * math.sin(2.0 * math.pi * k / count), 15),
            round(length * math.cos(2.0 * math.pi * k / count), 15),
            0.0,
        )
        for k in range(count)
    ]
    wheel = tb.Body(
        "wheel",
        joint=tb.Planar("plane", pose=upright()),
        inertia=tb.Inertia(mass, (0.0, 0.0, 0.0), (across, 0.0, 0.0, across, 0.0, 2.0 * across)),
        shapes=tuple(
            line_shape((0.0, 0.0, 0.0), tip, 0.012, ORANGE if k == 0 else BLUE)
            for k, tip in enumerate(tips)
        ),
    )
    model = tb.Model(
        "rimless_wheel",
        [wheel],
        contacts=[tb.ContactPoint(f"spoke_{k + 1}", "wheel", tip) for k, tip in enumerate(tips)],
        about="Eight spokes of 0.5 m about a hub: it walks down a slope of 6 degrees",
    )
    sources = """
The wheel of McGeer 1990 (passive walking); eight spokes of l = 0.5 m, m = 1 kg (a choice) and I
= m l^2 / 4 about the hub, in the plane of the world's x and z, which are x and y of its joint;
walking down turns it backward. The world is a slope of 6 degrees toward +x with friction 0.5.
Steady walking turns at 2.463799064 rad/s before and 1.886495033 rad/s after each impact: (I + m
l^2 cos 45) / (I + m l^2) = 0.76568 of the speed is kept."""
    return Sheet(model, sources, world=slope(6.0, 0.5))


def tippe_top() -> Sheet:
    """Return a sphere whose center of mass is below its middle."""
    radius, mass, offset = 0.02, 0.02, 0.3
    across, along = 131.0 / 350.0 * mass * radius**2, 0.4 * mass * radius**2
    top = tb.Body(
        "top",
        joint=tb.Free("float"),
        inertia=tb.Inertia(
            mass, (0.0, 0.0, -offset * radius), (across, 0.0, 0.0, across, 0.0, along)
        ),
        shapes=(
            tb.Shape(tb.SphereShape(radius), color=ORANGE),
            line_shape((0.0, 0.0, 0.0), (0.0, 0.0, 1.6 * radius), 0.2 * radius, BLUE),
            tb.Shape(
                tb.CylinderShape(1.003 * radius, 0.004), role="visual", color=(0.2, 0.2, 0.2, 1.0)
            ),
        ),
    )
    # leaning by 0.3 rad about x
    lean = (math.cos(0.15), math.sin(0.15), 0.0, 0.0)
    model = tb.Model(
        "tippe_top",
        [top],
        poses={"leaning": (*lean, 0.0, 0.0, radius)},
        about="A top of 20 g that, spun fast, turns over and stands on its stem",
    )
    sources = """
After the top simulated by Rauch-Wojciechowski and Rutstam 2013: center of mass 0.3 R below the
middle, moments of inertia about it 131/350 m R^2 across and 2/5 m R^2 along the axis, spun with
155 rad/s, as a public program for this top has them; the paper itself was not at hand, and the
attribution is from memory. m = 0.02 kg and R = 0.02 m are those of a toy, a choice. I1 / I3
between 0.7 and 1.3 lets it turn over. Their friction is viscous; that of the world is Coulomb's,
0.03, a choice: with more of it the top soon rolls without slip and stays upright, as rolling
loses no energy. From the pose "leaning" (0.3 rad, a choice) it is upside down after 14 s. The
stem is drawn only: the sphere alone touches the ground. Jellett's integral, the angular momentum
about the center of mass along the vector from there to the contact, is constant."""
    return Sheet(model, sources, world=floor(0.03))


def rattleback() -> Sheet:
    """Return a half ellipsoid that turns one way only."""
    a, b, c, h = 0.2, 0.03, 0.02, 0.01
    stone = tb.Body(
        "stone",
        joint=tb.Free("float"),
        # products of inertia are those of the tensor: D = -2e-5
        inertia=tb.Inertia(1.0, (0.0, 0.0, -h), (2e-4, -2e-5, 0.0, 1.6e-3, 0.0, 1.7e-3)),
        shapes=(
            tb.Shape(tb.EllipsoidShape((a, b, c)), color=BLUE),
            tb.Shape(tb.BoxShape((0.16, 0.01, 0.003)), pose=at(z=c), role="visual", color=YELLOW),
        ),
    )
    model = tb.Model(
        "rattleback",
        [stone],
        poses={"rest": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, c)},
        about="A long stone that, spun the wrong way, rattles and turns round",
    )
    sources = """
The rattleback of Kane and Levinson 1982, with the numbers of a public program that cites it: an
ellipsoid with the semi-axes 0.2, 0.03 and 0.02 m, 1 kg, center of mass 0.01 m below its middle, A
= 2e-4, B = 1.6e-3, C = 1.7e-3 and D = -2e-5 kg m^2 (the product of inertia that sets the
principal axes at an angle to those of the ellipsoid). It rolls without slip: friction 1 is a
choice. The frame is that of the ellipsoid, z upward."""
    return Sheet(model, sources, world=floor(1.0))


def box_stack() -> Sheet:
    """Return ten boxes, one on the other."""
    count, edge, mass = 10, 0.1, 1.0
    bodies = [
        tb.Body(
            f"box_{k + 1}",
            joint=tb.Free(f"float_{k + 1}"),
            inertia=tb.Inertia.box(mass, (edge, edge, edge)),
            shapes=(
                tb.Shape(
                    tb.BoxShape((edge, edge, edge)),
                    color=BLUE if k % 2 else ORANGE,
                    material=tb.ContactMaterial(static_friction=0.5),
                ),
            ),
        )
        for k in range(count)
    ]
    stack = [x for k in range(count) for x in (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, (k + 0.5) * edge)]
    model = tb.Model(
        "box_stack",
        bodies,
        poses={"stack": stack},
        about="Ten cubes of 1 kg and 0.1 m, one on the other; nothing holds them but contact",
    )
    sources = """
A stack to try things on; all numbers are choices: cubes of 1 kg, 0.1 m, friction 0.5. Between
box k and the next one above acts the weight of those above, (10 - k) 9.81 N; the ground carries
98.1 N. Name the neighbors as contact pairs: all pairs of ten boxes are many."""
    return Sheet(model, sources, world=floor(0.5))


def gripper_block() -> Sheet:
    """Return a gripper with two fingers over a block on the ground."""
    pad, block, ball = (0.02, 0.03, 0.04), (0.04, 0.05, 0.06), 0.005
    corners = [(y, z) for y in (-0.01, 0.01) for z in (-0.015, 0.015)]
    rubber = tb.ContactMaterial(static_friction=0.8, kinetic_friction=0.6)
    bodies = [
        tb.Body(
            "palm",
            joint=tb.Prismatic(
                "lift", Z, pose=at(z=0.14), limits=tb.JointLimits(0.0, 0.3, 0.5, 100.0)
            ),
            inertia=tb.Inertia.box(0.7, (0.16, 0.06, 0.06)),
            shapes=(tb.Shape(tb.BoxShape((0.16, 0.06, 0.06)), role="visual", color=GREY),),
        )
    ]
    for side, sign in (("left", -1.0), ("right", 1.0)):
        bodies.append(
            tb.Body(
                f"{side}_finger",
                "palm",
                joint=tb.Prismatic(
                    f"{side}_slide",
                    (-sign, 0.0, 0.0),
                    pose=at(sign * 0.05, 0.0, -0.1),
                    limits=tb.JointLimits(0.0, 0.04, 0.1, 70.0),
                ),
                inertia=tb.Inertia.box(0.1, pad),
                shapes=(
                    *(
                        tb.Shape(
                            tb.SphereShape(ball),
                            pose=at(-sign * (0.5 * pad[0] - ball), y, z),
                            color=GREY,
                            material=rubber,
                            name=f"pad_{number}",
                        )
                        for number, (y, z) in enumerate(corners, 1)
                    ),
                    tb.Shape(
                        tb.BoxShape((pad[0] - 2.0 * ball, pad[1], pad[2])),
                        pose=at(sign * ball),
                        role="visual",
                        color=BLUE,
                    ),
                    tb.Shape(
                        tb.BoxShape((0.012, 0.03, 0.08)),
                        pose=at(z=0.05),
                        role="visual",
                        color=BLUE,
                    ),
                ),
            )
        )
    bodies.append(
        tb.Body(
            "block",
            joint=tb.Free("float"),
            inertia=tb.Inertia.box(0.3, block),
            shapes=(tb.Shape(tb.BoxShape(block), color=ORANGE, material=rubber),),
        )
    )
    model = tb.Model(
        "gripper_block",
        bodies,
        actuators=[
            tb.Actuator("lift_drive", "lift", force_limits=(-100.0, 100.0)),
            tb.Actuator("left_drive", "left_slide", force_limits=(-70.0, 70.0)),
            tb.Actuator("right_drive", "right_slide", force_limits=(-70.0, 70.0)),
        ],
        poses={
            "open": (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.03),
            "closed": (0.0, 0.02, 0.02, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.03),
        },
        about="A parallel gripper of 80 mm stroke over a block of 0.3 kg: grasp, lift, release",
    )
    sources = """
Stroke of 80 mm and fingers of up to 70 N are those of Franka's hand (data sheet of 2021);
masses, sizes and the drive that lifts it are choices. Four rubber balls on each finger touch the
block, with one point each. Pads and block have friction 0.8 (0.6 when sliding), rubber on wood.
Two fingers hold a block of weight W with at least W / (2 mu) each: 1.84 N."""
    return Sheet(model, sources, world=floor(0.6))


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [
        block_slope(),
        ball_ramp(),
        newtons_cradle(),
        painleve_rod(),
        rimless_wheel(),
        tippe_top(),
        rattleback(),
        box_stack(),
        gripper_block(),
    ]
