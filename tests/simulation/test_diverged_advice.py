"""Runs that diverge because a robot is stiff say what to take instead, and that helps."""

import numpy as np

import tiburon as tb


def test_a_stiff_robot_names_the_method_that_bears_it():
    """Springs of the flyball governor answer within microseconds: steps of 1 ms grow."""
    model = tb.load("flyball_governor")
    run = tb.simulate(model, 0.02)
    assert run.outcome.status == "diverged"
    assert 'method="rosenbrock"' in run.outcome.message
    assert "tiburon check" in run.outcome.message
    helped = tb.simulate(model, 0.02, method="rosenbrock")
    assert helped.outcome.status == "finished"
    exact = tb.simulate(model, 0.02, dt=1e-5, record_dt=1e-3)
    # of order three, stiff parts at rest: some 1e-6 rad at steps of 1 ms
    np.testing.assert_allclose(helped.q[-1], exact.q[-1], atol=1e-5)
