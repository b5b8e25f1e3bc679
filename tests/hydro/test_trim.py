"""Robots that keep their motion: attitudes and thrusts in closed form, and honest failures."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.functions.trim import allocate

RHO, G = 1000.0, 9.81
MASS = 20.0
BALL = tb.SphereDrag(0.2, 0.5)
FACTOR = 0.5 * RHO * 0.5 * math.pi * 0.2**2

# Newton's last step leaves rounding; differences of slopes do not enter what is balanced
TRIMMED = 1e-9


def craft(com=(0, 0, 0), thrusters=(), mass=MASS, arms=()):
    """A neutral ball whose center of buoyancy is its origin."""
    fluid = tb.BodyFluid(MASS / RHO, (0, 0, 0), np.diag([0.1] * 3 + [10.0] * 3), (BALL,))
    inertia = tb.Inertia(mass, com, (1.0, 1.0, 1.0))
    hull = tb.Body("hull", joint=tb.Free("float"), inertia=inertia, fluid=fluid)
    return tb.Model("craft", [hull, *arms], thrusters=thrusters)


def angles(q):
    """Return roll, pitch and yaw of a floating base at the world's axes."""
    R = np.array(tb.Pose.from_quaternion(q[:4]).rotation)
    pitch = math.atan2(-R[2, 0], math.hypot(R[2, 1], R[2, 2]))
    return np.array([math.atan2(R[2, 1], R[2, 2]), pitch, math.atan2(R[1, 0], R[0, 0])])


def test_thrust_holds_a_vehicle_in_a_current():
    """1/2 rho C A U^2, and the square root of it as the command of a propeller."""
    main = tb.Thruster("main", "hull", (-0.2, 0, 0), (1, 0, 0), tb.QuadraticThrust(0.5))
    found = tb.trim(craft(thrusters=[main]), fluid=tb.Water(RHO, (-1.3, 0, 0)))
    drag = FACTOR * 1.3**2
    assert found.outcome is tb.TrimOutcome.BALANCED
    assert_close(found.thrust, [drag], TRIMMED)
    assert_close(found.commands, [math.sqrt(drag / 0.5)], TRIMMED)
    assert found.iterations == 0


def test_trim_at_speed_equals_trim_in_a_current():
    main = tb.Thruster("main", "hull", (-0.2, 0, 0), (1, 0, 0))
    found = tb.trim(craft(thrusters=[main]), v=[0, 0, 0, 1.3, 0, 0], fluid=tb.Water(RHO))
    assert_close(found.thrust, [FACTOR * 1.3**2], TRIMMED)


@pytest.mark.parametrize("com", [(0.03, 0, -0.1), (-0.2, 0.1, -0.1), (0.0, 0.15, -0.05)])
def test_vehicle_trims_with_its_mass_below_its_buoyancy(com):
    """tan(pitch) and tan(roll) are ratios of the offsets; the heading stays."""
    model = craft(com)
    q = model.neutral()
    q[:4] = (math.cos(0.35), 0.0, 0.0, math.sin(0.35))
    found = tb.trim(model, q, fluid=tb.Water(RHO))
    x, y, z = com
    roll = math.atan2(-y, -z)
    pitch = math.atan2(x, math.hypot(y, z))
    assert_close(angles(found.q), (roll, pitch, 0.7), 1e-8)
    assert_close(found.tau, np.zeros(6))


def test_pitch_of_a_vehicle_pushed_below_its_buoyancy():
    """Drag D at the center, thrust d below it, weight W h below it: tan(pitch) = -d D / (h W)."""
    d, h, speed = 0.3, 0.05, 1.5
    thrusters = [
        tb.Thruster("along", "hull", (0, 0, -d), (1, 0, 0)),
        tb.Thruster("up", "hull", (0, 0, 0), (0, 0, 1)),
    ]
    model = craft((0, 0, -h), thrusters)
    found = tb.trim(model, fluid=tb.Water(RHO, (-speed, 0, 0)))
    D = FACTOR * speed**2
    pitch = math.atan2(-d * D, h * MASS * G)
    assert_close(angles(found.q), (0.0, pitch, 0.0), 1e-8)
    assert_close(found.thrust, (D * math.cos(pitch), D * math.sin(pitch)), 1e-8)
    assert found.iterations > 0


def test_equal_thrusters_share_equally():
    """The least sum of squares, four vectored thrusters for three DoF in the plane."""
    turns = [math.pi / 4, -math.pi / 4, 3 * math.pi / 4, -3 * math.pi / 4]
    thrusters = [
        tb.Thruster(
            f"t{k}", "hull", (0.3 * math.cos(a), 0.3 * math.sin(a), 0), (1, -math.copysign(1, a), 0)
        )
        for k, a in enumerate(turns)
    ]
    model = craft((0, 0, -0.1), thrusters)
    found = tb.trim(model, fluid=tb.Water(RHO, (-1.0, 0.4, 0)))
    needed = FACTOR * math.hypot(1.0, 0.4) * np.array([1.0, -0.4])
    places = np.array([t.position for t in model.thrusters])
    ways = np.array([t.direction for t in model.thrusters])
    A = np.vstack([ways[:, :2].T, np.cross(places, ways)[:, 2]])
    assert_close(found.thrust, np.linalg.pinv(A) @ (*needed, 0.0), TRIMMED)


def test_free_heading_turns_into_the_current():
    """A fin behind the middle: the yaw at which its drag has no arm, thrust straight ahead."""
    fin = tb.SphereDrag(0.1, 1.0, (-0.5, 0, 0))
    fluid = tb.BodyFluid(MASS / RHO, (0, 0, 0), np.diag([0.1] * 3 + [10.0] * 3), (fin,))
    inertia = tb.Inertia(MASS, (0, 0, -0.1), (1.0, 1.0, 1.0))
    hull = tb.Body("hull", joint=tb.Free("float"), inertia=inertia, fluid=fluid)
    main = tb.Thruster("main", "hull", (-0.6, 0, 0), (1, 0, 0))
    model = tb.Model("fish", [hull], thrusters=[main])
    water = tb.Water(RHO, (-0.8, -0.6, 0))
    with pytest.raises(tb.DomainError, match="missing at"):
        tb.trim(model, fluid=water)
    found = tb.trim(model, free=("roll", "pitch", "yaw"), fluid=water)
    assert_close(angles(found.q)[2], math.atan2(0.6, 0.8), 1e-8)
    assert_close(found.thrust, [0.5 * RHO * math.pi * 0.01], 1e-8)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_sphere_trims_at_its_draft(share):
    """(1 + t)^2 (2 - t) / 4 = share for the depth t of its middle by its radius."""
    r = 0.3
    volume = 4.0 / 3.0 * math.pi * r**3
    model = tb.Model(
        "buoy",
        [
            tb.Body(
                "buoy",
                joint=tb.Free("float"),
                inertia=tb.Inertia(share * RHO * volume, (0.01, 0, -0.1), (1.0, 1.0, 1.0)),
                fluid=tb.BodyFluid(volume),
                shapes=(tb.Shape(tb.SphereShape(r)),),
            )
        ],
    )
    free = ("roll", "pitch", "height")
    found = tb.trim(model, free=free, fluid=tb.Water(RHO, surface=2.0), q=[1, 0, 0, 0, 0, 0, 2.05])
    depth = (2.0 - found.q[6]) / r
    assert_close((1.0 + depth) ** 2 * (2.0 - depth) / 4.0, share, 1e-8)
    assert_close(angles(found.q), (0.0, math.atan2(0.01, 0.1), 0.0), 1e-7)


def raft(thruster_depth):
    """A box half as heavy as water, with drag, its mass low, and a thruster below its middle."""
    size = (2.0, 1.0, 0.4)
    mass = 0.5 * RHO * math.prod(size)
    box = tb.Body(
        "box",
        joint=tb.Free("float"),
        inertia=tb.Inertia.box(mass, size, com=(0, 0, -0.1)),
        fluid=tb.BodyFluid(math.prod(size), drag=(tb.BoxDrag(size, (1.2, 1.2, 1.2)),)),
        shapes=(tb.Shape(tb.BoxShape(size)),),
    )
    main = tb.Thruster("main", "box", (-1.0, 0, -thruster_depth), (1, 0, 0))
    return tb.Model("raft", [box], thrusters=[main])


def test_half_submerged_raft_holds_in_a_current():
    """Level and half under water, it needs the thrust of half the drag."""
    water = tb.Water(RHO, (-0.8, 0, 0), surface=1.5)
    found = tb.trim(
        raft(0.0),
        free=("roll", "pitch", "height"),
        fluid=water,
        q=[1, 0, 0, 0, 0, 0, 1.45],
    )
    assert_close(found.q[6], 1.5, 1e-8)
    assert_close(angles(found.q), np.zeros(3), 1e-8)
    assert_close(found.thrust, [0.5 * 0.5 * RHO * 1.2 * (1.0 * 0.4) * 0.8**2], 1e-8)


def test_a_raft_pushed_below_its_middle_lifts_its_bow():
    """It comes to rest with the bow up, half wet still, and nothing accelerates there."""
    model, water = raft(0.5), tb.Water(RHO, (-0.8, 0, 0), surface=1.5)
    free = ("roll", "pitch", "height")
    thrusters = [*model.thrusters, tb.Thruster("up", "box", (0, 0, 0), (0, 0, 1))]
    model = tb.Model("raft", model.bodies, thrusters=thrusters)
    found = tb.trim(model, free=free, fluid=water, q=[1, 0, 0, 0, 0, 0, 1.5])
    roll, pitch, _ = angles(found.q)
    assert abs(roll) < 1e-8
    # the righting arm of a wide raft is some 0.4 m of its weight of 3.9 kN; the thrust turns with
    # 77 N at 0.5 m
    assert -0.05 < pitch < -0.005
    vd = tb.forward_dynamics(model, found.q, found.v, found.tau, fluid=water)
    # what is missing, at most 1e-9 of the weight, over inertias of some tens
    assert_close(vd, np.zeros(6), 1e-6)


def test_a_floating_robot_on_land_gets_an_error_with_what_is_missing():
    with pytest.raises(tb.DomainError, match=r"no water was given.*pass fluid=Water"):
        tb.trim(craft())
    with pytest.raises(tb.DomainError, match=r"no water was given"):
        tb.trim(craft(), world=tb.World())
    bare = tb.Body("stone", joint=tb.Free("float"), inertia=tb.Inertia(1.0, (0, 0, 0), (1, 1, 1)))
    with pytest.raises(tb.DomainError, match=r"on land nothing bears.*external_force="):
        tb.trim(tb.Model("stone", [bare]))
    # in water the reason is another one
    with pytest.raises(tb.DomainError, match="no small change of the free positions"):
        tb.trim(craft(mass=MASS + 1.0), fluid=tb.Water(RHO))


def arm():
    """A rod of 3 kg that displaces 1 kg, its center 0.4 m from a hinge about y."""
    fluid = tb.BodyFluid(1.0 / RHO, (0.4, 0, 0))
    rod = {"inertia": tb.Inertia(3.0, (0.4, 0, 0), (0.01, 0.1, 0.1)), "fluid": fluid}
    return tb.Model("arm", [tb.Body("rod", joint=tb.Revolute("hinge", (0, 1, 0)), **rod)])


def test_a_joint_holds_the_weight_less_buoyancy_or_hangs():
    """(m - rho V) g l cos(angle) about -y; without force the rod points down."""
    held = tb.trim(arm(), [0.3], fluid=tb.Water(RHO))
    assert_close(held.joint_force, [-2.0 * G * 0.4 * math.cos(0.3)])
    hanging = tb.trim(arm(), [0.3], free="hinge", fluid=tb.Water(RHO))
    assert_close(hanging.q, [math.pi / 2], 1e-8)
    assert_close(hanging.tau, [0.0])
    on_land = tb.trim(arm(), [0.3])
    assert_close(on_land.joint_force, [-3.0 * G * 0.4 * math.cos(0.3)])


@pytest.mark.parametrize("name", ["bluerov2_heavy", "rexrov", "tiburon_titan"])
def test_zoo_vehicles_hold_station_in_a_current(name):
    """Nothing accelerates under the commands and joint forces found."""
    model = tb.load(name)
    water = tb.Water(1025.0, (-0.3, 0.1, 0.05))
    found = tb.trim(model, fluid=water)
    tau = tb.thruster_force(model, found.q, found.commands) + found.joint_force
    assert_close(tau, found.tau, TRIMMED)
    vd = tb.forward_dynamics(model, found.q, found.v, tau, fluid=water)
    # what is missing, at most 1e-9 of the weight, over inertias down to 1e-3 of the whole
    assert_close(vd, np.zeros(model.nv), 1e-5)
    assert np.abs(found.thrust).max() > 1.0


def test_thrust_limits_are_kept_and_reported():
    """A propeller too weak for the stream stands at its limit; what is missing is the rest."""
    main = tb.Thruster("main", "hull", (0, 0, 0), (1, 0, 0), thrust_limits=(-10.0, 10.0))
    model, water = craft(thrusters=[main]), tb.Water(RHO, (-1.3, 0, 0))
    with pytest.raises(tb.DomainError, match=r"main at the limit.*missing cannot be found"):
        tb.trim(model, fluid=water)
    found = tb.trim(model, fluid=water, errors="flag")
    assert found.outcome is tb.TrimOutcome.SATURATED
    assert found.limited == ("main",)
    assert_close(found.thrust, [10.0])
    assert_close(found.residual, [0, 0, 0, FACTOR * 1.3**2 - 10.0, 0, 0])


def test_forces_beyond_the_thrusters_are_reported():
    model = craft(thrusters=[tb.Thruster("main", "hull")], mass=MASS + 1.0)
    with pytest.raises(tb.DomainError, match=r"9\.81 N or N m missing"):
        tb.trim(model, free=(), fluid=tb.Water(RHO))
    flagged = tb.trim(model, free=(), fluid=tb.Water(RHO), errors="flag")
    assert flagged.outcome is tb.TrimOutcome.STALLED
    # with its nose up it hangs on its propeller
    up = tb.trim(
        model, model.integrate(model.neutral(), [0, -1.0, 0, 0, 0, 0]), fluid=tb.Water(RHO)
    )
    assert_close(up.thrust, [G], 1e-8)
    cut = tb.trim(
        model,
        model.integrate(model.neutral(), [0, -1.0, 0, 0, 0, 0]),
        fluid=tb.Water(RHO),
        errors="flag",
        max_iterations=1,
    )
    assert cut.outcome is tb.TrimOutcome.CUT_OFF
    assert "allow more" in cut.outcome.sentence


def test_invalid_arguments_are_refused():
    with pytest.raises(tb.ModelError, match="exactly one floating base"):
        tb.trim(arm(), free=("pitch",))
    with pytest.raises(tb.UnknownNameError, match="mian"):
        tb.trim(craft(thrusters=[tb.Thruster("main", "hull")]), thrusters=["mian"])
    with pytest.raises(tb.OptionError, match="errors"):
        tb.trim(arm(), errors="ignore")


def test_allocation_finds_the_least_forces_within_limits():
    A = np.array([[1.0, 1.0, 1.0]])
    free = [-np.inf] * 3, [np.inf] * 3
    found = allocate(A, np.array([6.0]), *free)
    assert_close(found.forces, [2, 2, 2])
    assert not found.held.any()
    found = allocate(A, np.array([6.0]), [-9] * 3, [1, 9, 9])
    assert_close(found.forces, [1, 2.5, 2.5])
    assert found.held.tolist() == [True, False, False]
    found = allocate(A, np.array([6.0]), [-9] * 3, [1, 1, 1])
    assert_close(found.missing, [3.0])
    assert_close(found.beyond, [[1.0]])
