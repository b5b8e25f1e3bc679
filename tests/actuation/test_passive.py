"""Friction and springs inside joints."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import moment, power, slider, stepper, wheel
from tests.model.samples import random_tree
from tiburon.actuation.defaults import elements_of
from tiburon.actuation.passive import PassiveJoints, rest_position, spring_energy, spring_force

RANDOM = np.random.default_rng()

JOINTS = [
    tb.Revolute("j"),
    tb.Prismatic("j"),
    tb.Cylindrical("j"),
    tb.Universal("j"),
    tb.Planar("j"),
    tb.Spherical("j"),
    tb.Free("j"),
    tb.RollingSphere("j", radius=0.3),
]


def test_damped_oscillator_follows_its_closed_form():
    """A block on a spring with a damper swings as the textbook says."""
    m, d, k, rest = 2.0, 0.8, 40.0, 0.3
    block = slider(m, passive=tb.JointPassive(damping=d, stiffness=k, rest=rest))
    _, run = stepper(block, elements_of(block))
    x0, v0, t = 0.5, 0.2, 1.0
    w, z = math.sqrt(k / m), d / (2.0 * math.sqrt(k * m))
    wd = w * math.sqrt(1.0 - z * z)
    a, b = x0 - rest, (v0 + z * w * (x0 - rest)) / wd
    expected = rest + math.exp(-z * w * t) * (a * math.cos(wd * t) + b * math.sin(wd * t))
    # order 4: an error of (w dt)^4 per radian at w dt = 4.5e-3, below 1e-10
    assert run([x0, v0], dt=1e-3, count=1000)[0] == pytest.approx(expected, abs=1e-9)


def test_smooth_friction_stops_a_block_at_the_coulomb_distance():
    """A block slides v^2 m / (2 f) under Coulomb friction, but for what the smooth turn adds."""
    m, f, v0 = 2.0, 3.0, 1.2
    block = slider(m, passive=tb.JointPassive(friction=f))
    _, run = stepper(block, elements_of(block, friction_speed=1e-3))
    x, v = run([0.0, v0], dt=1e-3, count=2000)
    # way at speed v: m v dv / f coth(v / s), which adds s^2 m / f pi^2 / 24 in all
    extra = (1e-3) ** 2 * m / f * math.pi**2 / 24.0
    assert x == pytest.approx(m * v0 * v0 / (2.0 * f) + extra, abs=1e-6)
    assert abs(v) < 1e-12


@pytest.mark.parametrize("joint", JOINTS, ids=lambda joint: joint.kind)
def test_springs_of_any_joint_conserve_energy(joint):
    """The power of a spring is minus the rate of its energy, however unequal its stiffnesses."""
    K = tuple(RANDOM.uniform(0.5, 5.0, joint.nv).tolist())
    for _ in range(5):
        rest, q = joint.random(RANDOM), joint.random(RANDOM)
        v = RANDOM.standard_normal(joint.nv).tolist()
        force = spring_force(joint, rest, q, K)
        h = 1e-6
        ahead, behind = (joint.integrate(q, [s * h * x for x in v]) for s in (1.0, -1.0))
        rate = (spring_energy(joint, rest, ahead, K) - spring_energy(joint, rest, behind, K)) / (
            2.0 * h
        )
        # central differences: rounding 1e-16 / h times energies near 100 J
        assert np.dot(force, v) == pytest.approx(-rate, abs=1e-6 * (1.0 + abs(rate)))


def test_isotropic_spring_acts_along_the_rotation_axis():
    """A ball joint with one stiffness feels minus stiffness times its rotation vector."""
    ball = tb.Spherical("ball")
    q = ball.integrate(ball.neutral(), (0.3, -0.7, 0.5))
    force = spring_force(ball, ball.neutral(), q, (2.0, 2.0, 2.0))
    assert np.allclose(force, (-0.6, 1.4, -1.0), rtol=0.0, atol=1e-14)


def test_rest_positions_are_given_per_variable_or_degree_of_freedom():
    """Three numbers of a ball joint are a turn, four a quaternion, one is all DoF alike."""
    ball = tb.Spherical("ball")
    turned = ball.integrate(ball.neutral(), (0.1, 0.2, 0.3))
    assert rest_position(ball, (0.1, 0.2, 0.3)) == pytest.approx(turned)
    assert rest_position(ball, turned) == turned
    assert rest_position(tb.Universal("u"), 0.2) == (0.2, 0.2)


def test_friction_of_random_robots_dissipates_energy():
    """Friction takes power in every state, springs only what their energy gives."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        model = random_tree(rng)
        if model.nv == 0:
            continue
        data = tb.JointPassive(damping=0.3, friction=0.5)
        bodies = [_with(b, data) for b in model.bodies]
        robot = tb.Model("robot", bodies)
        element = PassiveJoints.of(robot)
        q, v = robot.random_state(rng)
        action = element.act(moment(element, robot, q, v))
        given = power(robot, q, v, action)
        assert given < 0.0
        assert given == pytest.approx(-action.outputs["passive.loss"])


def _with(body, passive):
    from tiburon.model.composition import changed

    if body.joint.dof == 0:
        return body
    return changed(body, joint=changed(body.joint, passive=passive))


def test_friction_of_followers_acts_on_their_leader():
    """A damper on a follower at ratio n is felt n^2 times by the leader."""
    tied = tb.Coupled(
        "follower",
        tb.Revolute("turn"),
        leader="leader",
        ratio=-3.0,
        passive=tb.JointPassive(damping=0.2, stiffness=1.5, rest=0.1),
    )
    solid = tb.Inertia(1.0, (0, 0, 0), (0.1, 0, 0, 0.1, 0, 0.1))
    model = tb.Model(
        "pair",
        [
            tb.Body("a", joint=tb.Revolute("leader"), inertia=solid),
            tb.Body("b", joint=tied, inertia=solid),
        ],
    )
    (element,) = elements_of(model)
    q, v = 0.4, 0.7
    (force,) = element.act(moment(element, model, [q], [v])).joint_force
    own = -0.2 * (-3.0 * v) - 1.5 * (-3.0 * q - 0.1)
    assert force == pytest.approx(-3.0 * own, rel=1e-14)


def test_only_existing_passive_forces_are_parameters():
    """Zeros are compiled in: robots that differ in numbers only share code."""
    a = wheel(passive=tb.JointPassive(damping=0.1))
    b = wheel(passive=tb.JointPassive(damping=0.7))
    c = wheel(passive=tb.JointPassive(damping=0.7, friction=0.2))
    first, second, third = (elements_of(m)[0] for m in (a, b, c))
    assert first.structure() == second.structure() != third.structure()
    assert first.parameters() == (0.01, 0.1)
    assert third.parameters() == (0.01, 0.7, 0.2)


def test_a_robot_without_passive_forces_has_no_such_element():
    """Nothing acts on a robot whose data says nothing, and switches leave out what it says."""
    assert elements_of(wheel()) == ()
    assert elements_of(wheel(passive=tb.JointPassive())) == ()
    assert elements_of(wheel(passive=tb.JointPassive(damping=1.0)).without_passive()) == ()


def test_friction_speed_must_be_positive():
    """A jump in friction has no explicit steps: it is refused with a reason."""
    with pytest.raises(tb.ModelError, match="friction_speed must be positive, got 0; a small"):
        elements_of(wheel(passive=tb.JointPassive(friction=1.0)), friction_speed=0.0)
