"""Momentum, its matrix and the center of mass against sums over bodies."""

import numpy as np
import pytest
from hypothesis import given

import tiburon as tb
from tests.algorithms.on_floats import on_floats
from tests.oracles import absolute, frames
from tests.robots import ROBOTS, kicked
from tests.strategies import few_examples, models, seeds, state
from tests.tolerances import ALGEBRA, DIFFERENCE, DIFFERENCE_STEP, assert_close

ABOUT_ORIGIN = (("at", "world"),)


@few_examples
@given(models(), seeds)
def test_momentum_and_its_matrix_equal_sums_over_bodies(model, seed):
    """About the origin and about the center of mass."""
    q, v, *_ = state(model, seed)
    center = frames.center_of_mass(model, q)
    assert_close(on_floats("center_of_mass", model, q), center)
    about_origin = frames.momentum_matrix(model, q, np.zeros(3))
    # moments about the center of mass are differences of those about the origin
    scale = max(1.0, float(np.abs(about_origin).max())) * (1.0 + float(np.abs(center).max()))
    about_center = frames.momentum_matrix(model, q, center)
    for expected, options in ((about_center, ()), (about_origin, ABOUT_ORIGIN)):
        matrix = on_floats("momentum_matrix", model, q, options=options)
        assert_close(matrix, expected, ALGEBRA, scale)
        momentum = on_floats("momentum", model, q, v, options=options)
        assert_close(momentum, expected @ v, ALGEBRA, scale * max(1.0, float(np.abs(v).sum())))


@few_examples
@given(models(), seeds)
def test_center_of_mass_moves_with_its_jacobian(model, seed):
    """J v is the rate of the center, by central differences."""
    q, v, *_ = state(model, seed)
    v = v / max(1.0, float(np.linalg.norm(v)))
    h = DIFFERENCE_STEP
    after, before = (
        frames.center_of_mass(model, model.integrate(q, s * h * v)) for s in (1.0, -1.0)
    )
    J = on_floats("center_of_mass_jacobian", model, q)
    scale = max(1.0, float(np.abs(J).max()))
    assert_close(J @ v, (after - before) / (2.0 * h), DIFFERENCE, scale)


@pytest.mark.parametrize("name", ["orrery", "rover", "welded"])
def test_linear_momentum_is_mass_times_velocity_of_the_center(name):
    """Native: rows of the momentum matrix, total mass and the Jacobian of the center agree."""
    model = ROBOTS[name]
    q, v, _ = kicked(model, 3, (5,))
    momentum = tb.momentum(model, q, v)
    moving = sum(body.inertia.mass for body in model.plan.bodies)
    speed = np.einsum("bij,bj->bi", tb.center_of_mass_jacobian(model, q), v)
    assert_close(momentum[:, 3:], moving * speed)
    matrix = tb.momentum_matrix(model, q)
    assert_close(np.einsum("bij,bj->bi", matrix, v), momentum)
    assert_close(momentum[2], on_floats("momentum", model, q[2], v[2]))


def test_external_forces_change_momentum_at_their_rate():
    """The rate of momentum about the origin is gravity's wrench: d'Alembert for a free robot."""
    model = ROBOTS["quadruped"]
    q, v, tau = kicked(model, 4)
    tau[:6] = 0.0
    v = 0.2 * v
    vd = tb.forward_dynamics(model, q, v, tau)
    h = DIFFERENCE_STEP
    after, before = (
        tb.momentum(
            model, model.integrate(q, s * h * v + 0.5 * h * h * vd), v + s * h * vd, at="world"
        )
        for s in (1.0, -1.0)
    )
    weight = np.array([0.0, 0.0, -9.81]) * model.total_mass
    center = frames.center_of_mass(model, q)
    expected = np.concatenate([np.cross(center, weight), weight])
    # accelerations of unloaded legs are large: the terms that cancel set the scale
    M = absolute.crba(model, q)
    scale = float((np.abs(M) @ np.abs(vd)).max())
    assert_close((after - before) / (2.0 * h), expected, DIFFERENCE, scale)


def test_unknown_points_are_refused():
    """Momentum knows two points."""
    model = ROBOTS["pendulum"]
    with pytest.raises(tb.OptionError, match="at: expected 'com' or 'world', got 'frame'"):
        tb.momentum(model, [0.1], [0.2], at="frame")


def test_a_robot_that_cannot_move_has_no_center_of_mass():
    """Nothing moves, so there is nothing to average over; momentum about the origin is zero."""
    post = tb.Body("post", joint=tb.Fixed("weld"), inertia=tb.Inertia.box(1.0, (1, 1, 1)))
    model = tb.Model("post", [post])
    none = np.zeros(0)
    with pytest.raises(tb.ModelError, match="'post': expected bodies that move, got none"):
        tb.center_of_mass(model, none)
    assert not tb.momentum(model, none, none, at="world").any()
    assert tb.momentum_matrix(model, none, at="world").shape == (6, 0)
    assert tb.frame_jacobian(model, none, "post").shape == (6, 0)
