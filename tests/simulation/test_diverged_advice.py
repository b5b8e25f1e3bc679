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


def test_a_controller_that_gives_no_number_is_told():
    """Neither another method nor shorter steps would help."""
    model = tb.load("cart_pole")
    run = tb.simulate(
        model, 0.1, control=lambda state: np.full(2, np.nan if state.time > 0.05 else 1.0)
    )
    assert run.outcome.status == "diverged"
    assert "command 'slide' first; look into the controller" in run.outcome.message
    assert "rosenbrock" not in run.outcome.message
    np.testing.assert_allclose(run.outcome.time, 0.06, rtol=1e-12)
