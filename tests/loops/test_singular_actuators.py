"""Poses in which motors cannot hold a parallel robot though its loops are regular."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.mechanisms import stretched_elbow


def test_a_platform_turned_by_a_quarter_is_not_held_by_its_legs():
    """Fichter 1986, "A Stewart platform-based manipulator": yaw of 90 degrees is singular.

    Loops are as regular as ever there, so that forward dynamics continues; what legs cannot do is
    refused instead of answered with huge forces.
    """
    model = tb.load("stewart")
    _, home = tb.forward_kinematics(model, model.neutral(), "platform")
    rest = np.zeros(model.nv)
    efforts = []
    for yaw in (80.0, 89.0, 90.0):
        place = tb.Pose.from_rpy((0.0, 0.0, np.radians(yaw)), home)
        q = tb.assemble(model, place={"platform": place}).q
        found = tb.loop_dynamics(model, q, rest, rest)
        assert found.rank == 18
        assert found.ratio > 0.1
        assert found.residual < 1e-10
        if yaw < 90.0:
            efforts.append(np.abs(tb.loop_inverse_dynamics(model, q, rest, rest).tau).max())
            continue
        assert tb.mobility(model, q).loose_mobility == 1
        with pytest.raises(tb.DomainError, match="actuators that can drive this motion"):
            tb.loop_inverse_dynamics(model, q, rest, rest)
    # legs push the harder the nearer it comes: as the inverse of the angle that is left
    assert 8.0 < efforts[1] / efforts[0] < 15.0


def test_a_stretched_elbow_is_reported_by_its_residual():
    """A velocity that keeps the loop closed to first order only: no acceleration can follow."""
    model = stretched_elbow()
    q, v = np.zeros(2), np.array([1.0, -2.0])
    np.testing.assert_allclose(tb.project_velocity(model, q, v), v, atol=1e-12)
    found = tb.loop_dynamics(model, q, v, np.zeros(2))
    # both halves swing about their ends: each end pulls inward with omega^2 times its length
    np.testing.assert_allclose(found.residual, 2.0, rtol=1e-12)
    run = tb.simulate(model, 0.05, q=q, v=v)
    assert run.outcome.status == "diverged"
    assert "gap of loop 'wrist'" in run.outcome.message
    assert "Rosenbrock" not in run.outcome.message
