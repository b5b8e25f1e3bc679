"""Loops that bind velocities alone: balls and wheels that roll on a plane."""

import numpy as np
import pytest

import tiburon as tb

RANDOM = np.random.default_rng(26)

RADIUS = 0.3
BALL = tb.Inertia(1.5, (0.02, -0.01, 0.03), (0.06, 0.0, 0.0, 0.05, 0.0, 0.07))
TILTED = tb.World(gravity=(1.0, -0.5, -9.0))


def test_ball_with_rolling_constraint_moves_as_a_rolling_joint():
    """The same motion by two ways: a loop that forbids slip, and three velocities that know none.

    The ball is uneven, so that it wobbles; without projection slip would grow.
    """
    rolling = tb.RollingSphere("contact", radius=RADIUS)
    tree = tb.Model("tree", [tb.Body("ball", joint=rolling, inertia=BALL)])
    tie = tb.LoopClosure("roll", "world", "ball", rolling)
    free = tb.Body("ball", joint=tb.Free("float"), inertia=BALL)
    model = tb.Model("tied", [free], loops=[tie])
    turn = np.array([0.8, 0.2, -0.4, np.sqrt(1.0 - 0.84)])
    w = np.array([1.0, -2.0, 0.7])
    there = tb.simulate(tree, 0.5, q=[0.1, 0.2, *turn], v=w, world=TILTED)
    q = np.array([*turn, 0.1, 0.2, RADIUS])
    # the center moves as if tied to the point of contact
    R = tb.forward_kinematics(model, q, frames=["ball"])[0][0]
    rolled = np.cross(R @ w, [0.0, 0.0, RADIUS])
    v = np.array([*w, *R.T @ rolled])
    np.testing.assert_allclose(tb.project_velocity(model, q, v), v, atol=1e-12)
    here = tb.simulate(model, 0.5, q=q, v=v, world=TILTED)
    np.testing.assert_allclose(here.q[:, 4:6], there.q[:, :2], atol=1e-8)
    np.testing.assert_allclose(here.q[:, :4], there.q[:, 2:], atol=1e-8)
    assert np.abs(here.q[:, 6] - RADIUS).max() < 1e-11
    slip = np.einsum("tij,tj->ti", tb.loop_jacobian(model, here.q), here.v)
    assert np.abs(slip).max() < 1e-11


@pytest.mark.parametrize("speed", [1.0, -2.0])
def test_car_with_two_wheels_follows_its_wheel_directions(speed):
    """Two wheels on one axle, driven apart: the axle goes round a circle of known radius."""
    wheel = tb.Inertia(1.0, (0.0, 0.0, 0.0), (0.02, 0.0, 0.0, 0.04, 0.0, 0.02))
    axle = tb.Inertia(4.0, (0.0, 0.0, 0.0), (0.3, 0.0, 0.0, 0.3, 0.0, 0.3))
    half = 0.5
    bodies = [tb.Body("axle", joint=tb.Planar("ground", (0, 0, 1)), inertia=axle)]
    loops = []
    for name, y in (("left", half), ("right", -half)):
        hinge = tb.Revolute(f"{name} hinge", (0, 1, 0), pose=tb.Pose(translation=(0, y, 0)))
        bodies.append(tb.Body(name, "axle", joint=hinge, inertia=wheel))
        # the plane of the ground is a wheel's radius below the axle
        ground = tb.RollingSphere(
            f"{name} contact", radius=RADIUS, pose=tb.Pose(translation=(0, 0, -RADIUS))
        )
        loops.append(tb.LoopClosure(f"{name} roll", "world", name, ground))
    model = tb.Model("car", bodies, loops=loops)
    # wheels at different speeds: r (left + right) / 2 forward, r (right - left) / 2 half about z
    left, right = speed, 2.0 * speed
    forward, turn = RADIUS * (left + right) / 2.0, RADIUS * (right - left) / (2.0 * half)
    v = np.array([forward, 0.0, turn, left, right])
    q = np.zeros(5)
    np.testing.assert_allclose(tb.project_velocity(model, q, v), v, atol=1e-12)
    run = tb.simulate(model, 2.0, q=q, v=v)
    # nothing pushes: it keeps its speeds, on a circle about a point on the axle
    np.testing.assert_allclose(run.v[-1, 2:], v[2:], atol=1e-9)
    center = np.array([0.0, forward / turn])
    angle = turn * run.time
    expected = center + (forward / turn) * np.stack([np.sin(angle), -np.cos(angle)], axis=-1)
    np.testing.assert_allclose(run.q[:, :2], expected, atol=1e-9)
