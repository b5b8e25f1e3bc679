"""Runs of robots with loops by every kind of integrator, with events on the way."""

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator

RANDOM = np.random.default_rng(21)

ACCURATE = ["dopri5", "dop853", "rosenbrock", "b4pc5"]
"""Methods whose error in a tenth of a second is far below that of the tests: steps that adapt, an
implicit one whose Jacobian goes through the loops, and one with memory."""


@pytest.fixture(scope="module")
def four_bar():
    model = tb.load("four_bar")
    q = np.array(model.poses["home"])
    return model, q, tb.project_velocity(model, q, np.array([3.0, 0.3, -0.7]))


@pytest.fixture(scope="module")
def reference(four_bar):
    model, q, v = four_bar
    return tb.simulate(model, 0.1, q=q, v=v, method=tb.RK4(dt=1e-4), record=tb.Record(every=100))


def is_closed(model, run):
    rates = np.einsum("tij,tj->ti", tb.loop_jacobian(model, run.q), run.v)
    return max(np.abs(tb.constraint_residual(model, run.q)).max(), np.abs(rates).max())


@pytest.mark.parametrize("method", ACCURATE)
def test_every_kind_of_method_keeps_loops_closed(four_bar, reference, method):
    """States between steps that adapt are on the loops too, and the motion is the same."""
    model, q, v = four_bar
    run = tb.simulate(
        model,
        0.1,
        q=q,
        v=v,
        method=integrator(method, rtol=1e-9, atol=1e-11),
    )
    assert run.outcome.status == "finished"
    assert is_closed(model, run) < 1e-11
    # tolerance and step of 1 ms leave some 1e-8 in a tenth of a second
    np.testing.assert_allclose(run.q, reference.q, atol=1e-7)


def test_recorded_states_of_long_steps_are_on_the_loops(four_bar):
    """A loose tolerance interpolates over long steps; what is recorded is projected."""
    model, q, v = four_bar
    run = tb.simulate(
        model,
        0.1,
        q=q,
        v=v,
        method=tb.DormandPrince(rtol=1e-3, atol=1e-4, dt=1e-3),
    )
    assert is_closed(model, run) < 1e-11


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_events_inside_steps_are_found_on_the_loops(four_bar, method):
    model, q, v = four_bar

    @tb.traced
    def crank(state):
        return state.q[0] - (q[0] + 0.1)

    run = tb.simulate(
        model,
        0.1,
        q=q,
        v=v,
        method=integrator(method),
        events=[tb.Event("there", crank, terminal=True)],
    )
    assert run.outcome.status == "event"
    assert abs(run.outcome.q[0] - q[0] - 0.1) < 1e-10
    assert np.abs(tb.constraint_residual(model, run.outcome.q)).max() < 1e-11
