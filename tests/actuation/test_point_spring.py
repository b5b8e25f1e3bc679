"""Springs and dampers between two points."""

import math

import numpy as np
import pytest

import tiburon as tb
from tests.actuation.stepping import FREE, moment, power, slider, stepper
from tests.model.samples import random_tree
from tiburon.actuation.defaults import as_elements
from tiburon.actuation.point_spring import line_between

RANDOM = np.random.default_rng()


def test_two_free_bodies_oscillate_with_their_reduced_mass():
    """Two bodies on a spring swing at sqrt(k (1/m1 + 1/m2)), their center of mass at rest."""
    solid = [tb.Inertia(m, (0, 0, 0), (1, 0, 0, 1, 0, 1)) for m in (1.0, 3.0)]
    ends = zip("ab", solid, strict=True)
    bodies = [tb.Body(name, joint=tb.Free(f"{name} base"), inertia=i) for name, i in ends]
    model = tb.Model("pair", bodies)
    spring = tb.Spring("coil", "a", "b", stiffness=30.0, rest_length=1.0)
    _, run = stepper(model, as_elements([spring]))
    away = np.array([0.6, 0.0, 0.8])
    q = np.concatenate([[1, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0], 1.2 * away])
    w = math.sqrt(30.0 * (1.0 + 1.0 / 3.0))
    end = run([*q, *np.zeros(12)], dt=1e-3, count=700)
    length = np.linalg.norm(end[11:14] - end[4:7])
    assert length == pytest.approx(1.0 + 0.2 * math.cos(0.7 * w), abs=1e-9)
    center = (end[4:7] + 3.0 * end[11:14]) / 4.0
    assert np.allclose(center, 3.0 * 1.2 * away / 4.0, rtol=0.0, atol=1e-13)


def test_spring_acts_at_offset_points_of_rotated_frames():
    """Length and rate agree with differences of the points' positions, on random robots."""
    for seed in range(5):
        model = random_tree(seed)
        q, v = model.random_state(seed)
        ends = (model.body_names[2], model.body_names[-1])
        arms = tuple(tuple(RANDOM.normal(size=3).tolist()) for _ in range(2))
        spring = tb.Spring("s", *ends, first_point=arms[0], second_point=arms[1])
        (element,) = as_elements([spring])
        now = moment(element, model, q, v)
        line = line_between(now, ends[0], arms[0], ends[1], arms[1])

        def length(q, model=model, ends=ends, arms=arms):
            R, p = tb.forward_kinematics(model, q, ends)
            points = [p[k] + R[k] @ np.array(arms[k]) for k in range(2)]
            return np.linalg.norm(points[1] - points[0])

        h = 1e-6
        rate = (length(model.integrate(q, h * v)) - length(model.integrate(q, -h * v))) / (2 * h)
        assert line.length == pytest.approx(length(q), rel=1e-12)
        # central differences: rounding 1e-16 / 1e-6 and h^2
        assert line.rate == pytest.approx(rate, abs=1e-7)


def test_power_is_tension_times_shortening():
    """What the forces on both ends do is minus tension times rate, on random robots."""
    for seed in range(5):
        model = random_tree(seed)
        q, v = model.random_state(seed)
        spring = tb.Spring(
            "s",
            model.body_names[1],
            model.body_names[-1],
            stiffness=7.0,
            damping=2.0,
            rest_length=0.4,
            first_point=(0.1, -0.2, 0.3),
            second_point=(0.3, 0.1, -0.1),
        )
        (element,) = as_elements([spring])
        now = moment(element, model, q, v)
        action = element.act(now)
        arms = (spring.first_point, spring.second_point)
        line = line_between(now, spring.first, arms[0], spring.second, arms[1])
        tension = 7.0 * (line.length - 0.4) + 2.0 * line.rate
        assert action.outputs["s.tension"] == pytest.approx(tension)
        assert power(model, q, v, action) == pytest.approx(-tension * line.rate, rel=1e-9)


def test_rope_never_pushes():
    """Slack below its length; taut, its damper may ease the pull but not turn it around."""
    block = slider()
    rope = tb.Spring(
        "rope", "world", "block", stiffness=100.0, damping=5.0, rest_length=0.5, rope=True
    )
    (element,) = as_elements([rope])
    for x, v, expected in ((0.4, 3.0, 0.0), (0.6, 0.0, 10.0), (0.6, 1.0, 15.0), (0.6, -4.0, 0.0)):
        action = element.act(moment(element, block, [x], [v]))
        assert action.outputs["rope.tension"] == pytest.approx(expected)


def test_spring_of_zero_length_has_a_finite_force():
    """Where both ends coincide there is no direction, and no NaN."""
    block = slider()
    spring = tb.Spring("s", "world", "block", stiffness=10.0, damping=1.0, rest_length=0.2)
    (element,) = as_elements([spring])
    action = element.act(moment(element, block, [0.0], [1.0]))
    assert all(np.isfinite(action.wrenches["block"]))


def test_governor_conserves_power():
    """The benchmark's two spring-dampers on the flyball governor: stored plus lost is what acts."""
    governor = tb.load("flyball_governor")
    springs = as_elements(
        tb.Spring(
            side,
            f"{side}_spring_top",
            f"{side}_spring_bottom",
            stiffness=8e5,
            damping=4e4,
            rest_length=0.5,
        )
        for side in ("left", "right")
    )
    system, run = stepper(governor, springs, FREE)
    state = np.array([0.0, 0.0, 0.0, 0.0, 2.0 * math.pi, 0.0, 0.0, 0.0])

    def energy(state):
        q, v = state[:4], state[4:]
        stored = sum(e.act(moment(e, governor, q, v)).outputs[f"{e.name}.energy"] for e in springs)
        return tb.kinetic_energy(governor, q, v) + stored

    before = energy(state)
    end = run(state, dt=1e-5, count=20000)
    assert system.nx == 0
    # dampers only take; angular momentum about the shaft stays
    assert energy(end) < before
    momenta = [tb.mass_matrix(governor, s[:4])[0] @ s[4:] for s in (state, end)]
    assert momenta[1] == pytest.approx(momenta[0], rel=1e-9)


def test_wrong_springs_are_refused():
    """Messages name the spring and what is wrong."""
    with pytest.raises(tb.ModelError, match="spring 's': its ends must be on two bodies"):
        tb.Spring("s", "a", "a")
    with pytest.raises(tb.ModelError, match="spring 's': stiffness must be at least 0, got -1"):
        tb.Spring("s", "a", "b", stiffness=-1.0)
    with pytest.raises(tb.UnknownNameError, match="unknown frame 'blok'; did you mean 'block'"):
        as_elements([tb.Spring("s", "world", "blok")])[0].check(slider())
