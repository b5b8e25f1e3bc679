"""Runs that diverge because a robot is stiff say what to take instead, and that helps."""

import numpy as np
import pytest

import tiburon as tb


def test_diverged_stiff_robot_advises_an_implicit_method():
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


def test_a_controller_with_non_finite_commands_is_reported():
    """Neither another method nor shorter steps would help."""
    model = tb.load("cart_pole")
    run = tb.simulate(
        model, 0.1, control=lambda state: np.full(2, np.nan if state.time > 0.05 else 1.0)
    )
    assert run.outcome.status == "diverged"
    assert "command 'slide' first; check the controller" in run.outcome.message
    assert "rosenbrock" not in run.outcome.message
    np.testing.assert_allclose(run.outcome.time, 0.06, rtol=1e-12)


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
@pytest.mark.parametrize("control_dt", [None, 0.01])
def test_a_traced_controller_that_returns_nan_is_named(method, control_dt):
    """The state is fine: neither the method nor the length of steps is to blame."""

    @tb.traced
    def control(state):
        return {"slide": np.sqrt(0.045 - state.time)}

    model = tb.load("cart_pole")
    run = tb.simulate(model, 0.1, control=control, control_dt=control_dt, method=method)
    assert run.outcome.status == "diverged"
    assert "command 'slide' first; check the controller" in run.outcome.message
    assert "rosenbrock" not in run.outcome.message


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_a_sampled_controller_that_returns_nan_at_the_start_ends_the_run(method):
    """Commands that were held before are not taken in its place."""

    @tb.traced
    def control(state):
        return {"slide": np.log(state.q[0])}

    model = tb.load("cart_pole")
    start = [[-0.1, 0.0], [0.2, 0.0]]
    run = tb.simulate(model, 0.02, q=start, control=control, control_dt=0.01, method=method)
    assert run.status.tolist() == ["diverged", "finished"]
    assert run.outcomes[0].time == 0.0
    assert "command 'slide' first; check the controller" in run.outcomes[0].message


def test_feedback_that_diverges_because_commands_are_held_names_the_sampling_period():
    """Damping of 3 N m s is stable for a shank of 2e-3 kg m^2 at 1 ms, not at 10 ms."""
    inertia = tb.Inertia(0.2, (0.0, 0.0, 0.0), 2e-3 * np.eye(3))
    shank = tb.Model("shank", [tb.Body("shank", joint=tb.Revolute("knee"), inertia=inertia)])

    def hold(state):
        return 150.0 * (0.5 - state.q) - 3.0 * state.v

    # errors grow 14 times in each 10 ms: 1e308 after 2.7 s
    run = tb.simulate(shank, 5.0, q=[0.4], control=hold)
    assert run.outcome.status == "diverged"
    assert "a smaller control_dt (commands are held for 0.01 s)" in run.outcome.message
    helped = tb.simulate(shank, 5.0, q=[0.4], control=hold, control_dt=1e-3)
    assert helped.outcome.status == "finished"
    assert abs(helped.q[-1, 0] - 0.5) < 1e-9
    assert "control_dt" not in tb.simulate(tb.load("flyball_governor"), 0.02).outcome.message
