"""Friction that holds."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import FREE, moment, power, slider, stepper
from tests.integrators import integrator
from tiburon.actuation.defaults import elements_of
from tiburon.actuation.stick_slip import StickSlip

RANDOM = np.random.default_rng()


def on_a_slope(angle, mass=2.0):
    """Return a block on a rail that falls by an angle along x, in gravity."""
    rail = tb.Pose.from_rpy((0.0, angle, 0.0))
    joint = tb.Prismatic("x", (1, 0, 0), pose=rail)
    solid = tb.Inertia(mass, (0, 0, 0), (1, 0, 0, 1, 0, 1))
    return tb.Model("slope", [tb.Body("block", joint=joint, inertia=solid)])


def test_a_block_rests_on_a_slope_for_an_hour():
    """Held below its friction it gives by its bend and then stays: no creep."""
    model = on_a_slope(0.2)
    load = 2.0 * 9.81 * math.sin(0.2)
    friction = StickSlip("rub", "x", friction=5.0, static_friction=6.0, bend=1e-4)
    _, run = stepper(model, [friction], tb.World())
    settled = run([0.0, 0.0, 0.0], dt=1e-3, count=2000)
    # a load above 0.7 of the kinetic friction slips a little on its way to rest
    assert load / 6.0 * 1e-4 <= settled[0] < 1e-4
    later = run(settled, dt=1e-3, count=3_600_000)
    # rounding of forces near 4 N against a stiffness of 6e4 N/m
    assert abs(later[0] - settled[0]) < 1e-12
    assert abs(later[1]) < 1e-12


def test_smooth_friction_creeps_where_stick_slip_holds():
    """Smooth friction lets the same block slide, by friction_speed artanh(load / friction)."""
    model = on_a_slope(0.2)
    load = 2.0 * 9.81 * math.sin(0.2)
    joint = tb.Prismatic(
        "x", (1, 0, 0), pose=model.joint("x").pose, passive=tb.JointPassive(friction=5.0)
    )
    smooth = tb.Model("slope", [tb.Body("block", joint=joint, inertia=model.bodies[0].inertia)])
    _, run = stepper(smooth, elements_of(smooth), tb.World())
    assert run([0.0, 0.0], dt=1e-3, count=3000)[1] == pytest.approx(
        0.01 * math.atanh(load / 5.0), rel=1e-9
    )
    # the same data, held
    held, go = stepper(smooth.without_passive("friction"), StickSlip.of(smooth), tb.World())
    assert held.x_names == ("x.friction.bend",)
    assert abs(go([0.0, 0.0, 0.0], dt=1e-3, count=3000)[1]) < 1e-12


def test_beyond_its_friction_a_block_slides_by_the_remaining_force():
    """Fast slip: acceleration (load - friction) / mass."""
    model = on_a_slope(0.6)
    load = 2.0 * 9.81 * math.sin(0.6)
    friction = StickSlip("rub", "x", friction=5.0, static_friction=6.0, bend=1e-4)
    _, run = stepper(model, [friction], tb.World())
    early = run([0.0, 0.0, 0.0], dt=1e-3, count=500)
    late = run(early, dt=1e-3, count=500)
    assert (late[1] - early[1]) / 0.5 == pytest.approx((load - 5.0) / 2.0, rel=1e-9)


def test_a_kicked_block_slows_down_evenly_and_stops():
    """Slip deceleration is friction / mass; it comes to rest where a block under Coulomb would."""
    block = slider(2.0)
    friction = StickSlip("rub", "x", friction=3.0, bend=1e-5, relaxation=1e-3)
    _, run = stepper(block, [friction], FREE)
    v0 = 1.2
    # slipping from the start: bristles fully bent
    end = run([0.0, v0, 1e-5], dt=2e-4, count=20000)
    assert abs(end[1]) < 1e-12
    # at rest it springs back by at most its bend of 1e-5 m
    assert end[0] == pytest.approx(2.0 * v0 * v0 / (2.0 * 3.0), abs=1e-5)
    # friction that must build up first lets it go on for less than the slip time
    later = run([0.0, v0, 0.0], dt=2e-4, count=20000)
    assert 0.0 < later[0] - end[0] < v0 * friction.slip_time


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
@pytest.mark.parametrize(
    ("mass", "rub", "v0"), [(1.0, 1.0, 1.0), (2.0, 3.0, -1.2), (1.0, 10.0, 3.0)]
)
def test_a_moving_block_stops_where_coulomb_stops_it_by_default(mass, rub, v0, method):
    """After m v^2 / (2 f), less the bend by which it springs back; straight bristles at first."""
    friction = StickSlip("rub", "x", friction=rub)
    run = tb.simulate(
        slider(mass), 3.0, v=[v0], world=FREE, elements=[friction], method=integrator(method)
    )
    expected = np.sign(v0) * (mass * v0 * v0 / (2.0 * rub) - friction.bend)
    # steps of 1 ms see the first contact and the stop to some 1e-5 m at these speeds
    np.testing.assert_allclose(run.q[-1], [expected], rtol=0, atol=3e-5)
    # the tolerance of adaptive steps
    np.testing.assert_allclose(run.v[-1], [0.0], rtol=0, atol=1e-7)
    # it slows down evenly from the first instant on
    early = run.time < 0.5 * mass * abs(v0) / rub
    even = v0 - np.sign(v0) * rub / mass * run.time[early]
    np.testing.assert_allclose(run.v[early, 0], even, rtol=0, atol=1e-4 * abs(v0))


def test_a_block_kicked_on_the_way_stops_where_coulomb_stops_it():
    """An impulse at rest, and one that turns the motion around: friction is there at once."""
    rub, mass = 2.0, 1.0
    kicks = [
        tb.TimeEvent("kick", 0.1, action=lambda state: {"v": [1.0]}),
        tb.TimeEvent("back", 0.3, action=lambda state: {"v": [-1.5]}),
    ]
    friction = StickSlip("rub", "x", friction=rub, bend=1e-5)
    run = tb.simulate(slider(mass), 2.0, world=FREE, elements=[friction], events=kicks)
    first = 1.0 * 0.2 - 0.5 * rub / mass * 0.2**2
    expected = first - mass * 1.5**2 / (2.0 * rub)
    # bristles turn around within the slip time, in which friction is that of slip
    np.testing.assert_allclose(run.q[-1], [expected], rtol=0, atol=3e-5)


def test_oscillating_loads_within_the_elastic_range_cause_no_drift():
    """A load of 60 % of the friction, back and forth a thousand times, moves it nowhere."""
    block = slider(2.0)
    swing = tb.ForceFunction(
        "load", lambda now: {"x": now.p[0] * np.sin(40.0 * now.time)}, parameter_values=(0.6 * 5.0,)
    )
    friction = StickSlip("rub", "x", friction=5.0, bend=1e-4)
    _, run = stepper(block, [friction, swing], FREE)
    period = 2.0 * math.pi / 40.0
    dt = period / 200
    state = run([0.0, 0.0, 0.0], dt=dt, count=200 * 20)
    # bristles and place differ by what slipped
    assert abs(state[0] - state[2]) < 1e-15
    late = run([0.0, 0.0, 0.0], dt=dt, count=200 * 1000)
    assert abs(late[0] - late[2]) < 1e-14


def test_stick_slip_friction_is_passive():
    """Power to the joint is at most what bent bristles lose, whatever bend and speed."""
    block = slider()
    for _ in range(300):
        fc = RANDOM.uniform(0.5, 5.0)
        fs = fc * RANDOM.uniform(1.0, 2.0)
        # with and without the damping that could hide a gain
        damping = RANDOM.choice([0.0, 5e-3])
        element = StickSlip("rub", "x", fc, fs, bend=1e-3, relaxation=damping)
        z = 1e-3 * RANDOM.uniform(-1.5, 1.5)
        v = RANDOM.choice([1e-4, 1e-2, 1.0, 10.0]) * RANDOM.normal()
        action = element.act(moment(element, block, [0.0], [v], x=(z,)))
        s0 = element.static_friction / element.bend
        stored = s0 * z * action.rates[0]
        assert power(block, np.zeros(1), np.array([v]), action) <= -stored + 1e-12


def test_friction_stays_within_twice_its_static_limit():
    """However fast a kick, spring and damper of the bristles give at most fs each."""
    block = slider()
    element = StickSlip("rub", "x", 3.0, 4.0, bend=1e-4, relaxation=0.05)
    for v in (-20.0, -0.1, 0.03, 8.0):
        for z in (-1e-4, 0.0, 5e-5):
            action = element.act(moment(element, block, [0.0], [v], x=(z,)))
            assert abs(action.outputs["rub.force"]) <= 4.0 * (abs(z) / 1e-4 + 1.0) + 1e-12


def test_static_friction_is_the_load_at_which_it_breaks_away():
    """Slightly below it holds, slightly above it slips."""
    block = slider(1.0)
    for load, slips in ((5.9, False), (6.1, True)):
        element = StickSlip("rub", "x", friction=4.0, static_friction=6.0, bend=1e-4)
        _, run = stepper(block, [element], FREE)
        # raised over five seconds: no swing adds to it
        push = tb.JointForceSchedule("push", "x", times=(0.0, 5.0), forces=(0.0, load))
        _, run = stepper(block, [element, push], FREE)
        end = run([0.0, 0.0, 0.0], dt=1e-3, count=8000)
        assert (end[0] > 1e-3) == slips


def test_invalid_parameters_are_refused():
    """Messages name the element and say what to do."""
    with pytest.raises(tb.ModelError, match="static_friction must be at least friction, got 1"):
        StickSlip("rub", "x", friction=2.0, static_friction=1.0)
    with pytest.raises(tb.ModelError, match="friction must be positive, got 0"):
        StickSlip("rub", "x", friction=0.0)
    with pytest.raises(tb.ModelError, match="dof_index must be below 1 at joint 'x', got 1"):
        StickSlip("rub", "x", friction=1.0, dof_index=1).check(slider())


def test_equal_steps_longer_than_the_slip_time_are_refused():
    """A block at 1 m/s under 2 N stops after 0.25 m; such steps took it 0.295 m without a word."""
    block = slider(1.0)
    rub = StickSlip("rub", "x", friction=2.0, slip_time=2e-3)
    message = (
        "dt with stick-slip friction 'rub': expected steps of at most its slip_time, 0.002 s, got "
        "0.01 s; write method=tb.RK4(dt=0.002) or less, tb.DormandPrince(), or a StickSlip with a "
        "longer slip_time"
    )
    how = {"v": [1.0], "world": FREE, "elements": [rub], "method": tb.RK4(dt=1e-2)}
    with pytest.raises(tb.DomainError) as caught:
        tb.simulate(block, 1.0, **how)
    assert str(caught.value) == message
    with pytest.raises(tb.DomainError):
        tb.simulate(block, 1.0, **{**how, "method": tb.DormandPrince.fixed(1e-2)})
    # by name, in one case of a batch
    slow = {"rub.slip_time": [2e-2, 2e-3]}
    with pytest.raises(tb.DomainError, match=r"slip_time, 0\.002 s, got 0\.01 s"):
        tb.simulate(block, 1.0, parameters=slow, **how)
    long = {"rub.slip_time": [2e-2, 1e-2]}
    assert tb.simulate(block, 0.1, parameters=long, **how).batch == (2,)
    run = tb.simulate(block, 1.0, **{**how, "method": tb.DormandPrince(dt=1e-2)})
    # stops within its bend of where Coulomb's law stops it
    assert abs(run.q[-1, 0] - 0.25) <= 1.5e-4
    with pytest.raises(tb.DomainError, match="rub"):
        tb.Drive(block, world=FREE, elements=[rub], method=tb.RK4(dt=1e-2))
