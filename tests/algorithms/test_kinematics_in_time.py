"""Kinematics of a robot whose base time moves, against the same robot with a joint in its place."""

import numpy as np
import pytest

import tiburon as tb
from tests.model.samples import random_inertia, random_pose
from tests.tolerances import ALGEBRA, assert_close

SWING = tb.Harmonic(mean=0.3, amplitude=0.8, frequency=2.0, phase=0.4)
NOW = 0.37


def machine(driven):
    """Return an arm on a slide that time moves, or on one that is free."""
    rng = np.random.default_rng(5)
    shoulder, wrist = random_pose(rng), random_pose(rng)
    slide = tb.Prismatic("slide", (0.0, 0.6, 0.8))
    base = tb.Driven("base", slide, SWING, pose=shoulder)
    if not driven:
        base = tb.Prismatic("base", (0.0, 0.6, 0.8), pose=shoulder)
    bodies = [
        tb.Body("cart", joint=base, inertia=random_inertia(rng)),
        tb.Body("arm", "cart", joint=tb.Revolute("hip", pose=wrist), inertia=random_inertia(rng)),
        tb.Body("hand", "arm", joint=tb.Spherical("ball", pose=wrist), inertia=random_inertia(rng)),
    ]
    return tb.Model("machine", bodies, [tb.Frame("tip", "hand", random_pose(rng))])


@pytest.fixture(scope="module")
def pair():
    """Return both machines, and one state of both: (driven, q, v), (free, q, v, vd at vd = 0)."""
    driven = machine(True)
    q, v = driven.random_state(np.random.default_rng(6))
    x, xd, xdd = SWING.at(NOW)
    rest = np.zeros(driven.nv)
    return (
        (driven, q, v),
        (machine(False), np.array([x, *q]), np.array([xd, *v]), np.array([xdd, *rest])),
    )


def test_jacobians_have_the_columns_of_the_joints_that_are_free(pair):
    """What time prescribes has no column; it shows in velocities and in the bias."""
    (driven, q, v), (free, q_all, v_all, vd_all) = pair
    J = tb.frame_jacobian(driven, q, "tip", time=NOW)
    J_all = tb.frame_jacobian(free, q_all, "tip")
    assert_close(J, J_all[:, 1:])
    velocity = tb.frame_velocity(driven, q, v, "tip", time=NOW)
    assert_close(velocity - J @ v, J_all[:, 0] * v_all[0])
    bias = tb.frame_jacobian_bias(driven, q, v, "tip", time=NOW)
    expected = tb.frame_acceleration(free, q_all, v_all, vd_all, "tip")
    assert_close(bias, expected)


def test_masses_and_momenta_equal_those_of_the_free_robot_at_that_time(pair):
    """Momentum counts the prescribed motion; matrices have the free columns."""
    (driven, q, v), (free, q_all, v_all, _) = pair
    assert_close(tb.center_of_mass(driven, q, time=NOW), tb.center_of_mass(free, q_all))
    assert_close(tb.momentum(driven, q, v, time=NOW), tb.momentum(free, q_all, v_all))
    for function in (tb.momentum_matrix, tb.center_of_mass_jacobian):
        assert_close(function(driven, q, time=NOW), function(free, q_all)[:, 1:])


def test_inverse_inertias_are_those_of_the_free_joints_alone(pair):
    """A driven base does not give way: J M^-1 J^T of the free joints alone."""
    (driven, q, _), (free, q_all, _, _) = pair
    J = tb.frame_jacobian(free, q_all, "tip")[:, 1:]
    M = tb.mass_matrix(free, q_all)[1:, 1:]
    expected = J @ np.linalg.solve(M, J.T)
    scale = float(np.abs(expected).max() * np.linalg.cond(M))
    found = tb.operational_space_inverse_inertia(driven, q, "tip", time=NOW)
    assert_close(found, expected, ALGEBRA, scale)
    found = tb.apparent_inverse_inertia(driven, q, "tip", time=NOW)
    assert_close(found, expected, ALGEBRA, scale)


def test_inverse_kinematics_at_a_time():
    """Each case has its own time; the pose found is the one wanted then."""
    driven = machine(True)
    goal, _ = driven.random_state(np.random.default_rng(7))
    times = np.array([0.1, 0.5, 0.9])
    R, _ = tb.forward_kinematics(driven, goal, "tip", time=times)
    target = tb.FrameTarget("tip", orientation=R)
    found = tb.inverse_kinematics(driven, driven.neutral(), target, time=times, starts=4)
    assert found.reached.all()
    again, _ = tb.forward_kinematics(driven, found.q, "tip", time=times)
    # twice the tolerance of the search
    assert_close(again, R, 2e-9)
