"""Joints stop where their limits say, and gain nothing there."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import tiburon as tb
from tests.actuation.stepping import moment, power, slider, stepper, wheel
from tiburon.actuation.defaults import elements_of
from tiburon.actuation.joint_stops import JointStop, JointStops, apparent_joint_inertia, stop_force

RANDOM = np.random.default_rng()


def test_rebound_follows_the_law_of_hunt_and_crossley():
    """Where the damper is still coming in, speeds before and after obey the closed form.

    m v dv/dd = -k d (1 + c v) gives c (vi + vo) = ln((1 + c vi) / (1 - c vo)).
    """
    m, k, b, ramp, vi = 2.0, 5e4, 1500.0, 0.1, 0.8
    c = b / ramp / k
    block = slider(m)
    element = JointStops("limits", (JointStop("x", 0, -math.inf, 0.2, k, b, ramp),))
    _, run = stepper(block, [element])
    # in at 0.2 m, out after about half a swing of 0.02 s
    x, v = run([0.2, vi], dt=1e-5, count=4000)
    vo = brentq(lambda y: c * (vi + y) - math.log((1 + c * vi) / (1 - c * y)), 1e-6, vi)
    assert x < 0.2
    # the law has kinks at the stop: its rebound is met to the square of the step there
    assert v == pytest.approx(-vo, rel=1e-7)
    assert vo < 0.95 * vi


def test_depth_of_an_undamped_stop_is_that_of_a_spring():
    """Without damping the block comes back as fast, from a depth of v sqrt(m / k)."""
    m, k, v0 = 2.0, 5e4, 0.8
    block = slider(m)
    element = JointStops("limits", (JointStop("x", 0, -0.2, math.inf, k, 0.0, 1e-3),))
    _, run = stepper(block, [element])
    quarter = 0.5 * math.pi * math.sqrt(m / k)
    deep = run([-0.2, -v0], dt=quarter / 1000, count=1000)
    assert deep[0] == pytest.approx(-0.2 - v0 * math.sqrt(m / k), rel=1e-9)
    back = run([-0.2, -v0], dt=quarter / 1000, count=2000)
    assert back[1] == pytest.approx(v0, rel=1e-9)


def test_joint_stops_never_create_energy():
    """Power to the joint is at most what the spring of a stop loses, in every state."""
    for _ in range(200):
        d, rate = RANDOM.uniform(-0.01, 0.01), RANDOM.normal()
        k, b, r = RANDOM.uniform(1.0, 1e4), RANDOM.uniform(0.0, 1e2), RANDOM.uniform(1e-4, 1e-2)
        f = stop_force(d, rate, k, b, r)
        assert f >= 0.0
        # into the stop the spring takes k d d' and the damper the rest; outward it may be lost
        assert -f * rate <= -k * max(d, 0.0) * rate + 1e-12


def test_stiffness_follows_the_apparent_inertia_of_a_joint():
    """A stop of a heavier robot is stiffer: its oscillation has the requested frequency."""
    light, heavy = (wheel(i, limits=tb.JointLimits(-1.0, 1.0)) for i in (0.01, 1.0))
    for model, inertia in ((light, 0.01), (heavy, 1.0)):
        (stops,) = elements_of(model, stop_frequency=100.0)
        assert stops.stops[0].stiffness == pytest.approx(inertia * 100.0**2)
        assert stops.stops[0].damping == pytest.approx(inertia * 100.0)


def test_apparent_inertia_is_the_reciprocal_of_the_inverse_diagonal():
    """What one joint feels with all others free, of a robot with many joints."""
    arm = tb.load("panda")
    M = tb.mass_matrix(arm, arm.neutral())
    assert apparent_joint_inertia(arm) == pytest.approx(1.0 / np.diag(np.linalg.inv(M)), rel=1e-9)


def test_an_arm_thrown_at_its_limits_stays_near_them_and_slows_down():
    """A robot with all joints at speed never leaves its ranges by more than stops give."""
    arm = tb.load("panda")
    elements = [e for e in elements_of(arm.without_passive()) if isinstance(e, JointStops)]
    system, run = stepper(arm, elements)
    q, v = arm.neutral(), np.full(arm.nv, 2.0)
    middle = [0.5 * (j.limits.lower + j.limits.upper) for j in arm.joints if j.nv]
    state = np.concatenate([middle, v])
    before = tb.kinetic_energy(arm, np.array(middle), v)
    for _ in range(20):
        state = run(state, dt=5e-4, count=200)
        q, v = state[: arm.nq], state[arm.nq :]
        for joint in arm.joints:
            if joint.nv:
                (x,) = q[arm.slice(joint.name)]
                assert joint.limits.lower - 0.1 < x < joint.limits.upper + 0.1
    assert tb.kinetic_energy(arm, q, v) < 0.5 * before
    assert system.nx == 0


def test_the_limit_of_a_ball_joint_bounds_the_angle_of_its_turn():
    """Beyond its angle a ball joint is pushed back about the axis of its turn."""
    ball = tb.Spherical("ball", limits=tb.JointLimits(upper=0.5))
    solid = tb.Inertia(1.0, (0, 0, 0), (0.1, 0, 0, 0.2, 0, 0.3))
    model = tb.Model("ball", [tb.Body("b", joint=ball, inertia=solid)])
    (element,) = elements_of(model)
    axis = np.array([0.6, 0.0, 0.8])
    for angle, acts in ((0.4, False), (0.7, True)):
        q = ball.integrate(ball.neutral(), angle * axis)
        action = element.act(moment(element, model, q, (0.0, 0.0, 0.0)))
        expected = -element.stops[0].stiffness * 0.2 * axis if acts else np.zeros(3)
        assert np.allclose(action.joint_force, expected, rtol=1e-12, atol=0.0)
    still = element.act(moment(element, model, ball.neutral(), (1.0, 0.0, 0.0)))
    assert np.array_equal(still.joint_force, (0.0, 0.0, 0.0))


def test_continuous_joints_have_no_stop():
    """Infinite limits make no element, one finite side makes one stop."""
    assert elements_of(wheel(limits=tb.JointLimits(velocity=3.0))) == ()
    (stops,) = elements_of(wheel(limits=tb.JointLimits(lower=-1.0)))
    assert len(stops.parameters()) == 4
    assert elements_of(wheel(limits=tb.JointLimits(lower=-1.0)).without_limits()) == ()


def test_power_of_stops_on_random_states_is_bounded_by_their_energy():
    """The element's own energy falls at least as fast as the robot gains, on a whole arm."""
    arm = tb.load("panda")
    element = JointStops.of(arm)
    for _ in range(10):
        ranges = [(j.limits.lower, j.limits.upper) for j in arm.joints if j.nv]
        q = np.array([RANDOM.uniform(low - 0.1, high + 0.1) for low, high in ranges])
        v = RANDOM.standard_normal(arm.nv)
        h = 1e-7
        action = element.act(moment(element, arm, q, v))
        energies = [
            element.act(moment(element, arm, q + s * h * v, v)).outputs["limits.energy"]
            for s in (1.0, -1.0)
        ]
        lost = (energies[1] - energies[0]) / (2.0 * h)
        # differences of energies near 1e3 J: rounding of 1e-13 over 1e-7 s
        assert power(arm, q, v, action) <= lost + 1e-4 * (1.0 + abs(lost))


def test_a_stop_without_stiffness_is_refused():
    """The message names the joint and says what to do."""
    with pytest.raises(tb.ModelError, match="stop of joint 'x': stiffness must be positive"):
        JointStop("x", 0, -1.0, 1.0, 0.0, 1.0)
    bad = JointStops("limits", (JointStop("x", 3, -1.0, 1.0, 1.0, 1.0),))
    with pytest.raises(tb.ModelError, match="dof_index must be below 1, got 3"):
        bad.check(slider())
