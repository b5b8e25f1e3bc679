"""Underwater vehicles with published numbers: REMUS 100, RexROV, two BlueROV2."""

import math

import numpy as np

import tiburon as tb
from tiburon.hydro.coefficients import ellipsoid_added_mass
from tiburon.zoo.parts import BLUE, GREY, ORANGE, STEEL, YELLOW, at, line_shape
from tools.zoo.sheet import Sheet

X, Z = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)

REXROV_ADDED = (
    (779.79, -6.8773, -103.32, 8.5426, -165.54, -7.8033),
    (-6.8773, 1222.0, 51.29, 409.44, -5.8488, 62.726),
    (-103.32, 51.29, 3659.9, 6.1112, -386.42, 10.774),
    (8.5426, 409.44, 6.1112, 534.9, -10.027, 21.019),
    (-165.54, -5.8488, -386.42, -10.027, 842.69, -1.1162),
    (-7.8033, 62.726, 10.775, 21.019, -1.1162, 224.32),
)
"""Added mass of the SF 30k, linear first, marine axes [kg, kg m, kg m^2]."""

REXROV_LINEAR = (74.82, 69.48, 728.4, 268.8, 309.77, 105.0)
REXROV_QUADRATIC = (748.22, 992.53, 1821.01, 672.0, 774.44, 523.27)


def linear_first(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return six diagonal numbers in our order, angular first."""
    return (*values[3:], *values[:3])


def _remus_fin(name: str, area: float, slope: float, span: tuple[float, float, float]) -> tb.Fin:
    """Return a fin at the stern whose drag is its slope times the square of its angle."""
    ratio = 0.10 / 0.05
    foil = tb.ThinFoil(slope, 0.0, slope / (math.pi * ratio))
    return tb.Fin(area, ratio, (-0.8, 0.0, 0.0), span, X, foil, deflection=0.0, name=name)


def remus100() -> Sheet:
    """Return the small torpedo-shaped vehicle of Fossen's simulators."""
    length, diameter, density = 1.6, 0.19, 1026.0
    a, b = 0.5 * length, 0.5 * diameter
    mass = 4.0 / 3.0 * math.pi * density * a * b * b
    along, across = 0.4 * mass * b * b, 0.2 * mass * (a * a + b * b)
    moments, masses = ellipsoid_added_mass((a, b, b), density)
    added = (0.3 * along, moments[1], moments[2], *masses)
    inertia = tb.Inertia(mass, (0.0, 0.0, -0.02), (along, across, across))
    # about the center of buoyancy, as the damping of the source is
    M = np.array([along, across, across, mass, mass, mass]) + added
    M[:2] += mass * 0.02**2
    stiffness = mass * 9.81 * 0.02
    roll = M[0] * 2.0 * 0.3 * math.sqrt(stiffness / M[0])
    pitch = M[1] * 2.0 * 0.8 * math.sqrt(stiffness / M[1])
    damping = (roll, pitch, M[2] / 5.0, M[3] / 20.0, M[4] / 20.0, M[5] / 20.0)
    hull = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=inertia,
        fluid=tb.BodyFluid(
            volume=mass / density,
            added_mass=added,
            linear_damping=damping,
            reference_density=density,
            drag=(tb.CylinderDrag(b, length, 1.1, (0.42, 0.42), (-a, 0.0, 0.0), X),),
            fins=(
                _remus_fin("rudder", 0.005, 0.5, (0.0, 0.0, 1.0)),
                _remus_fin("stern planes", 0.01, 0.7, (0.0, -1.0, 0.0)),
            ),
        ),
        shapes=(tb.Shape(tb.EllipsoidShape((a, b, b)), color=YELLOW),),
    )
    propeller = tb.Thruster(
        "propeller",
        "hull",
        (-a, 0.0, 0.0),
        X,
        tb.QuadraticThrust(0.9 * density * 0.14**4 * 0.4566),
        time_constant=1.0,
        torque_ratio=0.14 * 0.0700 / (0.9 * 0.4566),
        command_limits=(-1525.0 / 60.0, 1525.0 / 60.0),
    )
    model = tb.Model(
        "remus100",
        [hull],
        thrusters=[propeller],
        about="REMUS 100: a torpedo-shaped vehicle of 31 kg with one propeller",
    )
    sources = """
Fossen's simulators (PythonVehicleSimulator, remus100.py; MSS, remus100.m): length 1.6 m,
diameter 0.19 m, a spheroid that floats neutrally in water of 1026 kg/m^3 (31.03 kg; moments
0.1120 and 4.028 kg m^2), center of mass 0.02 m below the center of buoyancy, which is the
origin; added mass in roll 0.3 of the moment of inertia; drag coefficient 0.42 along the hull;
propeller of 0.14 m with KT0 = 0.4566, KQ0 = 0.0700, thrust deduction 0.1, at most 1525 rpm, time
constant 1 s. The command is in turns per second.

Other added masses: Lamb's for this spheroid. (The Python file has a slip of brackets in beta_0,
which makes them differ; corrected here.) Linear damping: time constants of 20 s along the axes
and 5 s in yaw, damping ratios 0.3 in roll and 0.8 in pitch, as there; the source lets surge,
sway and yaw damping fade with speed. Drag across the hull: coefficient 1.1 (estimated; the
source takes Hoerner's). The propeller loses thrust with speed of advance: not said here.

Rudder of 0.10 m by 0.05 m and two stern planes of the same size, at the stern (A_r, x_r, A_s, x_s);
lift per angle 0.5 and 0.7 by their areas (CL_delta_r, CL_delta_s), and drag by the square of the
angle with the same numbers, as there: efficiency = slope / (pi AR). Positive angles push the stern
to the left and up, as there. The source lets them turn by 30 degrees, with a time constant of 1 s,
and lets drift alone cause no lift."""
    notes = {
        "hull": "Fossen's remus100; added mass: Lamb's spheroid; side drag: estimated.",
        "propeller": (
            "Fossen's remus100: thrust (1 - 0.1) rho D^4 KT0 n|n|, moment rho D^5 KQ0 n|n|."
        ),
    }
    return Sheet(model, sources, notes)


def rexrov_fluid() -> tb.BodyFluid:
    """Return the water numbers of the RexROV."""
    return tb.BodyFluid(
        volume=1.83826,
        center_of_buoyancy=(0.0, 0.0, 0.3),
        added_mass=tb.added_mass_from(
            REXROV_ADDED, order="linear-first", axes="ned", symmetrize=True
        ),
        linear_damping=linear_first(REXROV_LINEAR),
        quadratic_damping=linear_first(REXROV_QUADRATIC),
        reference_density=1028.0,
    )


def rexrov() -> Sheet:
    """Return the work-class vehicle of the UUV simulator."""
    hull = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=tb.Inertia(1862.87, (0.0, 0.0, 0.0), (525.39, 1.44, 33.41, 794.20, 2.6, 691.23)),
        fluid=rexrov_fluid(),
        shapes=(
            tb.Shape(tb.BoxShape((2.56, 1.50, 0.10)), pose=at(z=-0.75), color=STEEL),
            tb.Shape(tb.BoxShape((2.56, 1.50, 0.40)), pose=at(z=0.60), color=YELLOW),
            tb.Shape(tb.BoxShape((2.20, 0.10, 1.10)), pose=at(-0.2, 0.7, -0.15), color=GREY),
            tb.Shape(tb.BoxShape((2.20, 0.10, 1.10)), pose=at(-0.2, -0.7, -0.15), color=GREY),
        ),
    )
    places = [
        ((-0.890895, 0.334385, 0.528822), -74.53, -53.21),
        ((-0.890895, -0.334385, 0.528822), -74.53, 53.21),
        ((0.890895, 0.334385, 0.528822), -105.47, 53.21),
        ((0.890895, -0.334385, 0.528822), -105.47, -53.21),
        ((-0.412125, 0.505415, 0.129), 0.0, 45.0),
        ((-0.412125, -0.505415, 0.129), 0.0, -45.0),
        ((0.412125, 0.505415, 0.129), 0.0, 135.0),
        ((0.412125, -0.505415, 0.129), 0.0, -135.0),
    ]
    thrusters = []
    for number, (place, pitch, yaw) in enumerate(places):
        p, y = math.radians(pitch), math.radians(yaw)
        direction = (math.cos(p) * math.cos(y), math.cos(p) * math.sin(y), -math.sin(p))
        thrusters.append(
            tb.Thruster(
                f"thruster_{number}",
                "hull",
                place,
                direction,
                tb.QuadraticThrust(0.00031),
                time_constant=0.05,
            )
        )
    model = tb.Model(
        "rexrov",
        [hull],
        thrusters=thrusters,
        about="RexROV: a work-class vehicle of 1.9 t with eight thrusters, after the SF 30k",
    )
    sources = """
UUV simulator, uuv_descriptions (rexrov_base.xacro, rexrov_actuators.xacro, rexrov.gazebo.xacro),
which takes the hydrodynamics of the SF 30k from Berg 2012 (pp. 28 to 31) and Dukan 2014: mass,
inertia, volume, center of buoyancy, added mass (full matrix, linear first, marine axes; entry
(3, 6) 10.774 against (6, 3) 10.775, averaged), linear and quadratic damping, thrusters (thrust
0.00031 w|w| N at w rad/s, time constant 0.05 s), collision boxes. Water of 1028 kg/m^3, as the
simulator's robot files set it.

Axes: the source gives the inertia in the z-up axes of its link and applies the added mass in z-down
axes (its plugin turns velocities to NED first); both are read so. Berg 2012 itself was not at hand.
For z-up: the source notes that the center of buoyancy on the same page of Berg, z = +0.387 m, can
only be z-up. For z-down: the added mass then acts 0.21 m (surge) and 0.34 m (sway) above the center
of mass, on the side of the buoyancy; read z-up it would act below. The products of inertia xy and
xz (1.44 and 33.41 kg m^2) are the only entries of the inertia whose sign depends on this."""
    notes = {
        "hull": "UUV simulator, after Berg 2012.",
        "thruster_0": "UUV simulator, rexrov_actuators.xacro, as all thrusters.",
    }
    return Sheet(model, sources, notes)


def vectored(body: str) -> list[tb.Thruster]:
    """Return the eight thrusters of a BlueROV2 Heavy."""
    thrusters = []
    corners = [("front", 1.0), ("rear", -1.0)]
    sides = [("left", 1.0), ("right", -1.0)]
    for end, forward in corners:
        for side, left in sides:
            # each pushes inward and toward the middle of the vehicle's length
            s = math.sqrt(0.5)
            thrusters.append(
                tb.Thruster(
                    f"{end}_{side}",
                    body,
                    (0.156 * forward, 0.111 * left, -0.085),
                    (s, -s * left * forward, 0.0),
                    thrust_limits=(-40.2, 51.5),
                )
            )
    for end, forward in corners:
        for side, left in sides:
            thrusters.append(
                tb.Thruster(
                    f"{end}_{side}_vertical",
                    body,
                    (0.120 * forward, 0.218 * left, 0.0),
                    Z,
                    thrust_limits=(-40.2, 51.5),
                )
            )
    return thrusters


HULL = (
    tb.Shape(tb.BoxShape((0.457, 0.575, 0.12)), pose=at(z=0.06), color=BLUE),
    tb.Shape(tb.BoxShape((0.457, 0.338, 0.13)), pose=at(z=-0.065), color=GREY),
)

THRUSTERS = """
Thrusters: places of von Benzon et al. 2022; four push level at 45 degrees, four up. The command
is the thrust; limits are those of the T200 at 16 V on its data sheet (5.25 kgf forward, 4.1 kgf
backward)."""


def bluerov2_heavy() -> Sheet:
    """Return the small inspection vehicle with eight thrusters."""
    added = (6.3567, 7.1206, 18.6863, 0.1858, 0.1348, 0.2215)
    hull = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=tb.Inertia(13.5, (0.0, 0.0, 0.0), (0.26, 0.23, 0.37)),
        fluid=tb.BodyFluid(
            volume=0.0134,
            center_of_buoyancy=(0.0, 0.0, 0.01),
            added_mass=linear_first(added),
            linear_damping=linear_first((13.7, 0.0, 33.0, 0.0, 0.8, 0.0)),
            quadratic_damping=linear_first((141.0, 217.0, 190.0, 1.192, 0.47, 1.5)),
            reference_density=1000.0,
        ),
        shapes=HULL,
    )
    model = tb.Model(
        "bluerov2_heavy",
        [hull],
        thrusters=vectored("hull"),
        about="BlueROV2 Heavy: an inspection vehicle of 13.5 kg with eight thrusters",
    )
    sources = f"""
von Benzon, Sorensen, Uth, Jouffroy, Liniger and Pedersen 2022 ("An open-source benchmark
simulator: control of a BlueROV2 underwater robot"): mass, moments of inertia, volume, center of
buoyancy 0.01 m above the center of mass, added mass, linear and quadratic damping. The origin is
the center of mass. Identified in fresh water, taken as 1000 kg/m^3. Other published sets differ by
factors of two. Shapes: rough boxes.
{THRUSTERS}"""
    notes = {
        "hull": "von Benzon et al. 2022; shapes: rough boxes.",
        "front_left": "Places: von Benzon et al. 2022; limits: data sheet of the T200.",
    }
    return Sheet(model, sources, notes)


def lump(name: str, weight: float, place: tuple[float, float, float], density: float) -> tb.Body:
    """Return a piece of a material that weighs this much in fresh water; negative if it floats."""
    volume = weight / 9.81 / (density - 1000.0)
    radius = (3.0 * volume / (4.0 * math.pi)) ** (1.0 / 3.0)
    return tb.Body(
        name,
        "vehicle",
        joint=tb.Fixed(name, pose=at(*place)),
        inertia=tb.Inertia.sphere(density * volume, radius),
        fluid=tb.BodyFluid(volume=volume),
        shapes=(tb.Shape(tb.SphereShape(radius), color=STEEL),),
    )


def bluerov2_alpha() -> Sheet:
    """Return a BlueROV2 with a Reach Alpha 5 arm, as identified in a wave tank."""
    size = (0.4571, 0.3381, 0.254)
    vehicle = tb.Body(
        "vehicle",
        joint=tb.Free("base"),
        inertia=tb.Inertia.box(13.17, size),
        fluid=tb.BodyFluid(
            volume=13.082e-3,
            center_of_buoyancy=(0.0074, 0.0, 0.02),
            added_mass=(0.0, 0.0, 0.0, 5.5, 12.7, 14.57),
            linear_damping=linear_first((4.03, 6.22, 5.18, 0.07, 0.07, 0.07)),
            quadratic_damping=linear_first((18.18, 21.66, 36.99, 1.55, 1.55, 1.55)),
            reference_density=1000.0,
        ),
        shapes=HULL,
    )
    lead, steel, foam = 11340.0, 7900.0, 190.0
    bodies = [
        vehicle,
        lump("weight_opposite_arm", 3.24, (-0.20, 0.165, -0.075), lead),
        lump("weight_left", 1.62, (-0.0975, 0.1275, -0.1325), lead),
        lump("weight_right", 1.62, (-0.0975, -0.1275, -0.1325), lead),
        lump("velocity_log", 0.69, (-0.1887, 0.0439, -0.0595), steel),
        lump("velocity_log_bracket", 1.01, (-0.1542, 0.0439, -0.0795), steel),
        lump("foam_left", -8.46, (0.0, 0.11, 0.027), foam),
        lump("foam_right", -8.86, (0.0, -0.11, 0.027), foam),
    ]
    half = 0.5 * math.pi
    rows = [  # name, mass, com, volume [L], added mass, length, axis, quadratic drag
        ("arm_base", 0.341, (-0.075, -0.006, -0.003), 0.202, 0.189, 0.150, 0, None),
        ("shoulder", 0.194, (0.005, -0.001, 0.016), 0.018, 0.032, 0.066, 2, (0.26, 0.26, 0.3)),
        ("upper_arm", 0.429, (0.073, 0.0, 0.0), 0.203, 0.201, 0.145, 0, (0.3, 1.6, 1.6)),
        ("forearm", 0.115, (0.017, -0.026, -0.002), 0.025, 0.032, 0.040, 2, (0.26, 0.3, 0.26)),
        ("wrist", 0.333, (0.0, 0.003, -0.098), 0.155, 0.226, 0.140, 2, (1.8, 1.8, 0.3)),
    ]

    buoyancy = {
        "shoulder": (-0.001, -0.003, 0.032),
        "upper_arm": (0.073, 0.0, -0.002),
        "forearm": (0.003, 0.001, -0.017),
    }

    def hinge(number: int, pose: tb.Pose, upper: float, torque: float, speed: float) -> tb.Joint:
        limits = tb.JointLimits(0.0, upper, velocity=speed, force=torque)
        return tb.Revolute(f"joint_{number}", pose=pose, limits=limits)

    joints = [
        tb.Fixed("arm_mount", pose=at(0.25, -0.10965, 0.005)),
        hinge(5, at(), 6.2, 9.0, 0.5),
        hinge(4, tb.Pose.from_rpy((half, 1.3, 0.0), (0.020, 0.0, 0.046)), 3.5, 9.0, 0.5),
        hinge(3, tb.Pose.from_rpy((math.pi, 0.0, 1.3), (0.15, 0.0, 0.0)), 3.5, 9.0, 0.5),
        hinge(2, tb.Pose.from_rpy((-half, 0.0, 0.0), (0.020, 0.0, 0.0)), 6.0, 5.0, 1.0),
    ]
    parent = "vehicle"
    colors = (GREY, ORANGE, GREY, ORANGE, GREY)
    for (name, mass, com, liters, added, length, axis, drag), joint, color in zip(
        rows, joints, colors, strict=True
    ):
        ends = [np.array(com), np.array(com)]
        ends[0][axis] -= 0.5 * length - 0.02
        ends[1][axis] += 0.5 * length - 0.02 + 1e-3
        bodies.append(
            tb.Body(
                name,
                parent,
                joint=joint,
                inertia=tb.Inertia.cylinder(mass, 0.02, length, com, axis=axis),
                fluid=tb.BodyFluid(
                    volume=1e-3 * liters,
                    center_of_buoyancy=buoyancy.get(name, com),
                    added_mass=tb.added_mass_from((0.0, 0.0, 0.0, added, added, added), about=com),
                    quadratic_damping=None if drag is None else (0.0, 0.0, 0.0, *drag),
                    reference_density=1000.0,
                ),
                shapes=(line_shape(tuple(ends[0].tolist()), tuple(ends[1].tolist()), 0.02, color),),
            )
        )
        parent = name
    model = tb.Model(
        "bluerov2_alpha",
        bodies,
        [tb.Frame("tool", "wrist", at(z=-0.19))],
        thrusters=vectored("vehicle"),
        actuators=[
            tb.Actuator(f"motor_{k}", f"joint_{k}", force_limits=(-limit, limit))
            for k, limit in ((5, 9.0), (4, 9.0), (3, 9.0), (2, 5.0))
        ],
        about="BlueROV2 with a Reach Alpha 5 arm of four joints, ballast and foam, in fresh water",
    )
    sources = f"""
Kolano and others, UVMS-SysID-with-EAs (MIT; blue_rov_hardware_fixedjaw_pythonhack.urdf,
MagicNumBlueROVHardware.jl), a vehicle in a wave tank, fresh water of 1000 kg/m^3: dry mass 13.17
kg, buoyancy of 13.082 kg at (0.0074, 0, 0.02) m, added mass 5.5, 12.7, 14.57 kg (none given in
rotation), linear drag, quadratic drag; ballast, velocity log and foam by their weight in water
and place (guesses of the source); arm: masses 0.341, 0.194, 0.429, 0.115, 0.333 kg, volumes,
centers of mass, joints, limits, quadratic drag. Added mass of arm links: what the source adds to
their masses, in all directions alike.

Estimated: moments of inertia of the vehicle (a solid box of its {size[0]} x {size[1]} x
{size[2]} m) and of the links (solid cylinders of the collision shapes: radius 20 mm), because
those of the source hold added mass and count from the links' origins; densities of the lumps
(lead, steel, foam of 190 kg/m^3). The jaws, which the source marks as unknown, are left out.

Centers of buoyancy of the links: MagicNumAlpha.jl of the source for shoulder, upper arm and
forearm. An independent code (edxmorgan, uvms_dynamics_ros2_control) holds the same values but for
axes of the shoulder; at the wrist it keeps the 3 mm along y of the center of mass, which the
source rounds to zero: kept here. Measured runs do not decide: with buoyancy at the centers of
mass roll and pitch are predicted 0.05 and 0.07 degrees (RMS) elsewhere, with errors that differ
by 1 %. They do reject the jaw of the source, 0.05 kg and 0.02 l at (0, 0, -0.19) m of the wrist,
beside a wrist of 0.333 kg: errors grow by factors of 1.9 and 1.7 (tiburon validate pool). The
program of the source applies drag coefficients of translation to rotation, because they are in
the order of translations first and its velocities are not; here they are as named.
{THRUSTERS}"""
    notes = {
        "vehicle": "Kolano et al.; moments of inertia: a solid box, estimated.",
        "weight_opposite_arm": (
            "Weight in water and place: Kolano et al.; density of lead; so the other weights."
        ),
        "velocity_log": "Weight in water and place: Kolano et al.; density of steel, estimated.",
        "foam_left": "Lift in water and place: Kolano et al.; 190 kg/m^3, estimated.",
        "arm_base": "Kolano et al., as all links; moments of inertia: solid cylinders, estimated.",
        "front_left": "Places: von Benzon et al. 2022; limits: data sheet of the T200.",
    }
    return Sheet(model, sources, notes)


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [remus100(), rexrov(), bluerov2_heavy(), bluerov2_alpha()]
