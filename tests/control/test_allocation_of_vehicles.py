"""Allocation on a vehicle that ships: the pseudo-inverse, another solver, failed thrusters."""

from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb

ROV = "bluerov2_heavy"


def test_without_active_limits_thrusts_are_those_of_the_pseudo_inverse():
    """F = A^+ b; load sharing with thrusters as unknowns finds the same."""
    rov = tb.load(ROV)
    shares = tb.ThrusterAllocation.of(rov)
    A = np.array(shares.matrix)
    rng = np.random.default_rng(1)
    b = rng.standard_normal((50, 6)) * (3.0, 2.0, 3.0, 15.0, 15.0, 30.0)
    found = shares.allocate(b)
    assert not np.any(found.saturated)
    np.testing.assert_allclose(found.thrust, b @ np.linalg.pinv(A).T, atol=1e-10)
    # at rest in air the thrusters would have to carry the weight
    plan = tb.LoadSharing.of(rov)
    assert plan.redundancy == 2
    share = plan.share(rov.neutral())
    weight = np.asarray(tb.gravity_force(rov, rov.neutral()))
    np.testing.assert_allclose(share.x, shares.allocate(weight).thrust, atol=1e-7)
    assert "rear_left_vertical: largest thrust" in plan.limit_names


def test_with_active_limits_thrusts_are_those_of_another_solver():
    """The least error, then the least cost: daqp on the same weighted problem."""
    daqp = pytest.importorskip("daqp")
    rov = tb.load(ROV)
    shares = tb.ThrusterAllocation.of(rov)
    A = np.array(shares.matrix)
    low, high = np.array(shares.limits).T
    rng = np.random.default_rng(2)
    active = 0
    for _ in range(60):
        b = A @ rng.uniform(low, high) * rng.uniform(1.0, 3.0)
        found = shares.allocate(b)
        # the weight of the cost of `allocation.py`, which decides among equal errors
        light = 1e-9 * np.max(np.sum(A * A, axis=1)) / 8.0
        H = A.T @ A + light * np.eye(8)
        theirs, _, flag, _ = daqp.solve(
            H, -A.T @ b, np.zeros((0, 8)), high.copy(), low.copy(), np.zeros(8, dtype=np.int32)
        )
        assert flag == 1
        active += np.any(found.saturated)
        # the cost weighs 1e-9: thrusts agree to its root where errors are zero
        cost = [np.linalg.norm(b - A @ f) ** 2 + light * f @ f for f in (found.thrust, theirs)]
        assert cost[0] <= cost[1] * (1 + 1e-7) + 1e-9
        if np.linalg.norm(b - A @ theirs) > 1e-3:
            np.testing.assert_allclose(A @ found.thrust, A @ theirs, atol=1e-5)
    assert active > 40


def test_a_failed_thruster_is_not_saturated():
    """Six components are still reached, nothing saturates, and integrals go on."""
    shares = tb.ThrusterAllocation.of(tb.load(ROV)).without("front_left")
    found = shares.allocate([0.0, 0.0, 2.0, 20.0, -10.0, 5.0])
    assert found.thrust[0] == 0.0
    assert not np.any(found.saturated)
    np.testing.assert_allclose(found.missing, 0.0, atol=1e-10)
    # beyond its reach others saturate, and it does not
    beyond = shares.allocate([0.0, 0.0, 0.0, 400.0, 0.0, 0.0])
    assert beyond.saturated[0] == 0.0
    assert np.any(beyond.saturated)


def test_authority_is_the_largest_wrench_along_one_axis():
    """Just within it a wrench is allocated exactly, just beyond it is not; some axes are lost."""
    shares = tb.ThrusterAllocation.of(tb.load(ROV))
    for allocation in (shares, shares.without("front_left_vertical")):
        for axis, pair in enumerate(allocation.authority()):
            for most in pair:
                wrench = np.zeros(6)
                wrench[axis] = 0.999 * most
                assert np.abs(allocation.allocate(wrench).missing).max() < 1e-5 * abs(most)
                wrench[axis] = 1.01 * most
                assert np.abs(allocation.allocate(wrench).missing).max() > 1e-4 * abs(most)
    # two of four vertical thrusters across a diagonal cannot roll or pitch alone
    lost = shares.without("front_left_vertical", "rear_right_vertical").authority()
    np.testing.assert_array_equal(lost[[0, 1, 3, 4]], 0.0)
    assert (np.abs(lost[[2, 5]]) > 25.0).all()
    # front to rear and left to right the vehicle is symmetric but for the direction of thrust
    whole = shares.authority()
    assert whole[3, 1] == pytest.approx(4 * 51.5 * np.sqrt(0.5), rel=1e-6)
    assert whole[5, 0] == pytest.approx(-4 * 40.2, rel=1e-6)


def test_columns_of_load_sharing_are_the_thruster_configuration_matrix():
    """Wrenches of unit thrusts in axes of the body, in any pose, with reaction torques."""
    rov = tb.load(ROV)
    turning = [replace(t, torque_ratio=0.02 * (-1) ** k) for k, t in enumerate(rov.thrusters)]
    frames = [tb.Frame("pod", "base", tb.Pose.from_axis_angle((0, 0, 1), 0.4, (0.1, 0.2, 0.3)))]
    turning.append(replace(turning[0], name="bow", body="pod"))
    body = rov.bodies[0]
    frames[0] = replace(frames[0], body=body.name)
    model = tb.Model("turning", rov.bodies, frames, thrusters=turning)
    q = model.integrate(model.neutral(), np.array([0.4, -0.7, 1.1, 2.0, -1.0, 0.5]))
    expected = np.array(tb.ThrusterAllocation.of(model).matrix)
    np.testing.assert_allclose(tb.LoadSharing.of(model).problem(q).A1, expected, atol=1e-12)
