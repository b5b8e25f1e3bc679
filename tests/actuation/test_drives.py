"""Actuators: ideal ones, motors, thrusters."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import FREE, moment, power, slider, stepper, wheel
from tiburon.actuation.defaults import elements_of

RANDOM = np.random.default_rng()

MOTOR = {"resistance": 0.8, "torque_constant": 0.05}


def driven(inertia=0.05, **actuator):
    """Return a wheel with an actuator named "drive"."""
    model = wheel(inertia)
    return tb.Model("driven", model.bodies, actuators=[tb.Actuator("drive", "hinge", **actuator)])


def acting(model, v=0.0, x=(), u=0.0):
    """Return what the first element of a wheel does at a speed."""
    element = elements_of(model)[0]
    return element.act(moment(element, model, [0.3], [v], x=x, u=(u,)))


def test_ideal_actuator_applies_its_command_within_limits():
    """The command is the force at the joint, held within its limits."""
    free, limited = driven(), driven(force_limits=(-2.0, 5.0))
    assert acting(free, u=7.0).joint_force == {"hinge": (7.0,)}
    assert acting(limited, u=7.0).joint_force == {"hinge": (5.0,)}
    assert acting(limited, u=-7.0).joint_force == {"hinge": (-2.0,)}


def test_actuator_at_its_speed_limit_only_brakes():
    """Whole force up to nine tenths of the speed, none at it; against the motion all of it."""
    model = driven(speed_limit=10.0)
    for v, u, expected in (
        (8.9, 4.0, 4.0),
        (9.5, 4.0, 2.0),
        (10.0, 4.0, 0.0),
        (12.0, 4.0, 0.0),
        (12.0, -4.0, -4.0),
        (-9.5, -4.0, -2.0),
    ):
        assert acting(model, v, u=u).joint_force["hinge"][0] == pytest.approx(expected)


def test_current_of_a_winding_rises_exponentially():
    """At a held rotor i = u / R (1 - exp(-t R / L))."""
    L = 2e-3
    model = driven(1e9, motor=tb.Motor(inductance=L, **MOTOR))
    system, run = stepper(model, elements_of(model))
    assert system.x_names == ("drive.current",)
    current = run([0.0, 0.0, 0.0], {"drive": 12.0}, dt=1e-5, count=300)[2]
    # the rotor is held by an inertia of 1e9 kg m^2
    assert current == pytest.approx(12.0 / 0.8 * (1.0 - math.exp(-3e-3 * 0.8 / L)), rel=1e-9)


def test_an_unloaded_motor_reaches_the_speed_of_its_back_emf():
    """Steady speed (Nahon 1991, eqs. 6.44 to 6.47): K (u - B w) / R = c w + f, w = n v."""
    R, K, B, c, f, n = 0.8, 0.05, 0.06, 1e-4, 2e-3, 20.0
    motor = tb.Motor(R, K, back_emf_constant=B, damping=c, friction=f, inductance=1e-3)
    model = driven(0.05, ratio=n, motor=motor)
    _, run = stepper(model, elements_of(model))
    end = run([0.0, 0.0, 0.0], {"drive": 12.0}, dt=5e-4, count=20000)
    speed = (K * 12.0 / R - f) / (K * B / R + c) / n
    assert end[1] == pytest.approx(speed, rel=1e-9)
    assert end[2] == pytest.approx((12.0 - B * n * speed) / R, rel=1e-9)


def test_a_motor_without_inductance_is_the_limit_of_one_with_little():
    """Its current follows at once: the same run as with a tenth of the usual winding time."""
    ends = []
    for L in (0.0, 1e-5):
        model = driven(0.01, ratio=10.0, motor=tb.Motor(inductance=L, **MOTOR))
        _, run = stepper(model, elements_of(model))
        start = [0.0, 0.0] if L == 0.0 else [0.0, 0.0, 0.0]
        ends.append(run(start, {"drive": 6.0}, dt=1e-5, count=20000)[1])
    # they differ by L / R = 12.5 us in time of a motion that takes some tenths of a second
    assert ends[0] == pytest.approx(ends[1], rel=1e-3)


@pytest.mark.parametrize("inductance", [0.0, 2e-3])
def test_current_stays_within_its_limit(inductance):
    """The driver gives no voltage that would drive more, also while the motor runs backward."""
    motor = tb.Motor(inductance=inductance, current_limit=5.0, brush_drop=0.4, **MOTOR)
    model = driven(0.01, motor=motor)
    _, run = stepper(model, elements_of(model))
    state = np.array([0.0, -30.0, *([0.0] if inductance else [])])
    largest = 0.0
    for _ in range(200):
        state = run(state, {"drive": 24.0}, dt=1e-4, count=20)
        now = acting(model, state[1], x=state[2:], u=24.0)
        i = state[2] if inductance else now.outputs["drive.current"]
        largest = max(largest, abs(i))
        assert abs(i) <= 5.0 * (1.0 + 1e-12)
    assert largest > 4.99


def test_voltage_and_force_limits_hold():
    """The driver cannot give more voltage than it has, the gear not more force than it stands."""
    model = driven(
        motor=tb.Motor(voltage_limit=10.0, **MOTOR), ratio=-50.0, force_limits=(0.0, 3.0)
    )
    action = acting(model, u=40.0)
    assert action.outputs["drive.voltage"] == 10.0
    # backward gear: positive voltage pulls, which this gear cannot transmit
    assert action.joint_force["hinge"][0] == 0.0
    assert acting(model, u=-40.0).joint_force["hinge"][0] == 3.0


def test_brush_drop_reduces_the_voltage():
    """Below the drop no current flows; beyond, it is (u - drop) / R."""
    model = driven(motor=tb.Motor(brush_drop=0.5, **MOTOR))
    for u, expected in ((0.3, 0.0), (-0.3, 0.0), (2.0, 1.5 / 0.8), (-2.0, -1.5 / 0.8)):
        assert acting(model, u=u).outputs["drive.current"] == pytest.approx(expected)


def test_brushes_oppose_the_current_of_a_winding():
    """L di/dt = u - R i - drop sign(i), the drop coming in over the first quarter of drop / R."""
    L, R, drop = 2e-3, 0.8, 0.5
    model = driven(motor=tb.Motor(inductance=L, brush_drop=drop, **MOTOR))
    for i, lost in ((3.0, drop), (-3.0, -drop), (0.0, 0.0), (0.125 * drop / R, 0.5 * drop)):
        (rate,) = acting(model, x=(i,), u=1.0).rates
        assert rate == pytest.approx((1.0 - R * i - lost) / L)


@pytest.mark.parametrize("inductance", [0.0, 2e-3])
def test_motors_turn_electric_power_into_motion_and_heat(inductance):
    """Power in = power at the joint + heat + what the coil stores, in any state."""
    motor = tb.Motor(
        inductance=inductance,
        damping=1e-3,
        friction=0.01,
        brush_drop=0.4,
        voltage_limit=30.0,
        current_limit=20.0,
        **MOTOR,
    )
    model = driven(ratio=-7.0, motor=motor)
    for _ in range(50):
        v, u, i = RANDOM.normal(scale=20.0), RANDOM.normal(scale=20.0), RANDOM.normal(scale=5.0)
        action = acting(model, v, x=(i,) if inductance else (), u=u)
        out = action.outputs
        stored = inductance * i * action.rates[0] if inductance else 0.0
        mechanical = power(model, np.array([0.3]), np.array([v]), action)
        assert out["drive.loss"] >= 0.0
        assert out["drive.power"] == pytest.approx(
            mechanical + out["drive.loss"] + stored, rel=1e-9, abs=1e-9
        )


def test_a_motor_needs_a_joint_of_one_degree_of_freedom_and_a_resistance():
    """Messages name the actuator and say what to do."""
    ball = tb.Spherical("ball")
    solid = tb.Inertia(1.0, (0, 0, 0), (1, 0, 0, 1, 0, 1))
    actuator = tb.Actuator("drive", "ball", motor=tb.Motor(**MOTOR))
    model = tb.Model("m", [tb.Body("b", joint=ball, inertia=solid)], actuators=[actuator])
    with pytest.raises(
        tb.ModelError, match="expected a joint with one degree of freedom, got the spherical"
    ):
        elements_of(model)[0].check(model)
    with pytest.raises(tb.ModelError, match="resistance of the motor must be positive, got 0"):
        elements_of(driven(motor=tb.Motor(0.0, 0.05)))


def test_ideal_actuator_of_a_ball_joint_has_three_commands():
    """Three numbers, numbered from 0."""
    ball = tb.Spherical("ball")
    solid = tb.Inertia(1.0, (0, 0, 0), (1, 0, 0, 1, 0, 1))
    model = tb.Model(
        "m", [tb.Body("b", joint=ball, inertia=solid)], actuators=[tb.Actuator("drive", "ball")]
    )
    (element,) = elements_of(model)
    assert element.command_names(model) == ("drive.0", "drive.1", "drive.2")
    action = element.act(moment(element, model, ball.neutral(), (0, 0, 0), u=(1.0, 2.0, 3.0)))
    assert action.joint_force == {"ball": (1.0, 2.0, 3.0)}


def boat(**thruster):
    """Return a block on a rail with a thruster named "jet"."""
    block = slider()
    jet = tb.Thruster("jet", "block", (0.0, 0.4, 0.0), (1, 0, 0), **thruster)
    return tb.Model("boat", block.bodies, thrusters=[jet])


def test_thrust_lags_behind_its_command_as_the_exact_solution_does():
    """A thrust state after a time is that of `thrust_after`."""
    model = boat(curve=tb.QuadraticThrust(0.2, 0.1), time_constant=0.15)
    system, run = stepper(model, elements_of(model))
    assert system.x_names == ("jet.thrust",)
    assert system.command_names == ("x", "jet")
    end = run([0.0, 0.0, 3.0], {"jet": -8.0}, dt=1e-3, count=200)
    expected = tb.thrust_after(model, np.array([3.0]), np.array([-8.0]), 0.2)
    assert end[2] == pytest.approx(expected[0], rel=1e-9)


def test_thruster_elements_agree_with_thruster_force():
    """Joint forces of all thrusters of a vehicle, against the projection that exists."""
    rov = tb.load("bluerov2_heavy")
    elements = [e for e in elements_of(rov) if e.name in {t.name for t in rov.thrusters}]
    assert [e.name for e in elements] == [t.name for t in rov.thrusters]
    q, v = rov.random_state(3)
    u = np.linspace(-0.8, 0.9, len(elements))
    total = 0.0
    for element, command in zip(elements, u, strict=True):
        states = (4.0,) * len(element.state_names(rov))
        action = element.act(moment(element, rov, q, v, x=states, u=(command,)))
        total += power(rov, q, v, action)
    lagging = [t.time_constant > 0.0 for t in rov.thrusters]
    if any(lagging):
        tau = tb.thruster_force_of_thrust(rov, q, np.full(len(u), 4.0))
    else:
        tau = tb.thruster_force(rov, q, u)
    assert total == pytest.approx(float(tau @ v), rel=1e-9)


def test_time_constants_are_run_time_parameters():
    """Two boats that differ in the lag alone share code; one without lag does not.

    Behind the lag stands the gain of the curve.
    """
    slow, slower, quick = (elements_of(boat(time_constant=T))[0] for T in (0.1, 0.2, 0.0))
    assert slow.structure() == slower.structure() != quick.structure()
    assert repr(slow.structure()) == repr(slower.structure())
    assert (slow.parameters(), quick.parameters()) == ((0.1, 1.0), (1.0,))
    assert FREE.gravity == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("ratio", [20.0, -30.0])
@pytest.mark.parametrize("limits", [{}, {"voltage_limit": 24.0}, {"current_limit": 9.0}])
@pytest.mark.parametrize("drop", [0.0, 0.7])
@pytest.mark.parametrize("options", [{}, {"command": "force"}])
def test_force_limits_at_a_speed_are_the_largest_forces_of_the_drive(ratio, limits, drop, options):
    """Commands far beyond the supply give the ends of `force_limits_at`, at any speed."""
    bound = {"voltage_limit": 30.0, "current_limit": 12.0} | limits
    motor = tb.Motor(0.8, 0.05, 0.06, damping=1e-4, friction=2e-3, brush_drop=drop, **bound)
    if options:
        options = options | {"speed_limit": 12.5}
    model = driven(ratio=ratio, motor=motor, force_limits=(-14.0, 11.0), **options)
    actuator = model.actuators[0]
    # up to beyond the speed without load, 24 / 0.06 / 20 = 20 rad/s
    for v in (-31.0, -12.0, -1.0, 2.0, 17.0, 31.0):
        ends = sorted(acting(model, v, u=u).joint_force["hinge"][0] for u in (-1e6, 1e6))
        # smooth friction of the drive is within 1e-16 of Coulomb's at 1 rad/s and 0.01 rad/s
        np.testing.assert_allclose(actuator.force_limits_at(v), ends, rtol=1e-12)
    speeds = np.linspace(-25.0, 25.0, 7)
    low, high = actuator.force_limits_at(speeds)
    np.testing.assert_array_equal(low, [actuator.force_limits_at(v)[0] for v in speeds])
    assert (low <= high).all()


def test_torque_limits_fall_with_speed_to_zero_at_the_speed_without_load():
    """K (u - B w) / R: stall torque K u / R, none at u / B; unlimited without a supply limit."""
    motor = tb.Motor(0.8, 0.05, voltage_limit=24.0)
    low, high = motor.torque_limits(np.array([0.0, 240.0, 480.0]))
    np.testing.assert_allclose(high, [1.5, 0.75, 0.0], atol=1e-15)
    np.testing.assert_allclose(low, [-1.5, -2.25, -3.0], atol=1e-15)
    assert tb.Motor(0.8, 0.05).torque_limits(3.0) == (-math.inf, math.inf)
    with pytest.raises(tb.ModelError, match="resistance"):
        tb.Motor(0.0, 0.05, voltage_limit=24.0).torque_limits(1.0)


def test_force_limits_of_ideal_actuators_fade_as_their_drives_do():
    """Along the motion, over the last tenth of the speed limit."""
    model = driven(speed_limit=10.0, force_limits=(-4.0, 6.0))
    for v in (-12.0, -9.5, -3.0, 0.0, 9.5, 10.0):
        ends = [acting(model, v, u=u).joint_force["hinge"][0] for u in (-1e6, 1e6)]
        np.testing.assert_allclose(model.actuators[0].force_limits_at(v), ends, atol=1e-12)
    assert tb.Actuator("a", "j", speed_limit=2.0).force_limits_at(3.0) == (-math.inf, 0.0)


def test_motors_that_are_commanded_by_force_are_ideal_within_their_limits():
    """Without a limit the motion is that of an ideal actuator; with one it falls behind."""
    motor = tb.Motor(0.8, 0.05, damping=1e-4, friction=2e-3, inductance=1e-2)
    weak = tb.Motor(0.8, 0.05, voltage_limit=12.0)
    options = {"ratio": -30.0, "command": "force"}
    models = (driven(), driven(motor=motor, **options), driven(motor=weak, **options))
    plain, free, limited = (tb.simulate(x, 0.5, command={"drive": 2.0}) for x in models)
    np.testing.assert_array_equal(plain.q, free.q)
    # 12 V turn the rotor at 240 rad/s at most
    assert free.v[-1, 0] == pytest.approx(20.0)
    assert 0.9 * 8.0 < limited.v[-1, 0] < 8.0


def test_a_saturated_motor_stalls_under_a_load_without_chatter():
    """Its friction has no jump at rest: it creeps at s artanh(load / f), for steps of any size."""
    motor = tb.Motor(1.0, 0.05, friction=0.02, current_limit=2.0)
    hinge = tb.Revolute("hinge", (0, 1, 0))
    lever = tb.Body("lever", joint=hinge, inertia=tb.Inertia(1.0, (0.1, 0, 0), (0.01, 0.01, 0.01)))
    drive = tb.Actuator("drive", "hinge", ratio=10.0, motor=motor, command="force")
    model = tb.Model("stalled", [lever], actuators=[drive])
    # 10 * 0.05 N m/A * 2 A against 1 kg * 9.81 m/s^2 * 0.1 m, and friction of 0.2 N m
    runs = [
        tb.simulate(model, 0.5, v=[-1.0], command={"drive": -1e3}, method=tb.RK4(dt=dt))
        for dt in (1e-3, 2.5e-4)
    ]
    np.testing.assert_allclose(runs[0].q[-1], runs[1].q[-1], rtol=0, atol=1e-7)
    q, v = runs[1].q[-1, 0], runs[1].v[-1, 0]
    load = 1.0 - 0.981 * np.cos(q)
    assert v == pytest.approx(-0.01 * np.arctanh(load / 0.2), rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": "torque"}, "command must be 'force', 'voltage' or None, got 'torque'"),
        ({"command": "voltage"}, "a voltage is the command of a motor, got none"),
        ({"command": "force", "motor": tb.Motor(1.0, 0.0)}, "torque constant.*must not be zero"),
        (
            {"command": "force", "motor": tb.Motor(0.0, 0.1, current_limit=3.0)},
            "torque limits need a resistance",
        ),
    ],
)
def test_wrong_commands_of_actuators_are_refused(options, message):
    with pytest.raises(tb.ModelError, match=message):
        elements_of(driven(**options))
