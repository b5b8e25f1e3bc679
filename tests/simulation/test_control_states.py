"""Discrete states of traced controllers: updated when the controller is sampled, and only then."""

import numpy as np
import pytest

import tiburon as tb

MODEL = tb.load("pendulum")
(NAME,) = MODEL.v_names


@tb.traced
class Counting:
    """Counts its samples in a discrete state, and commands what it counted before."""

    discrete_state_names = ("count", "last")
    initial_discrete_state = (3.0, -1.0)

    def __call__(self, state):
        count, _ = state.own_z
        return {NAME: 0.1 * count}, [count + 1.0, state.q[0]]


@pytest.mark.parametrize("control_dt", [None, 0.005])
def test_controllers_update_their_states_when_sampled(control_dt):
    """Once per step by default, else once per period; commands belong to the states before."""
    run = tb.simulate(
        MODEL,
        0.1,
        q=[0.3],
        control=Counting() if control_dt is None else tb.Sampled(Counting(), dt=control_dt),
        record=tb.Record(every=1),
    )
    assert run.header.column("z").labels == ("count", "last")
    every = 1 if control_dt is None else 5
    samples = np.arange(101) // every
    # the sample at a row has been taken when the row is recorded
    np.testing.assert_array_equal(run.z[:, 0], 4.0 + samples)
    np.testing.assert_allclose(run.u[:, 0], 0.1 * (3.0 + samples), rtol=1e-15)
    np.testing.assert_array_equal(run.z[:, 1], run.q[every * samples, 0])


def test_batches_and_resumed_runs_agree_in_bits():
    """Discrete states of a controller are part of the checkpoint, one row per case."""
    starts = np.array([[0.1], [0.4], [-0.3]])
    whole = tb.simulate(MODEL, 0.2, q=starts, control=tb.Sampled(Counting(), dt=0.004))
    parts = tb.simulate(MODEL, 0.05, q=starts, control=tb.Sampled(Counting(), dt=0.004)).resume(
        0.15
    )
    np.testing.assert_array_equal(parts.z[-1], whole.z[-1])
    np.testing.assert_array_equal(parts.q[-1], whole.q[-1])
    for k in range(3):
        one = tb.simulate(MODEL, 0.2, q=starts[k], control=tb.Sampled(Counting(), dt=0.004))
        np.testing.assert_array_equal(one.z, whole.z[:, k])
        np.testing.assert_array_equal(one.q, whole.q[:, k])


def test_discrete_states_of_elements_and_controllers_keep_apart():
    """An element that counts steps beside a controller that counts samples."""
    counter = tb.ForceFunction(
        "counter",
        lambda now: None,
        discrete_states={"steps": 0.0},
        update=lambda now: [now.z[0] + 1.0],
    )
    run = tb.simulate(
        MODEL,
        0.02,
        q=[0.3],
        control=tb.Sampled(Counting(), dt=0.002),
        elements=[counter],
        record=tb.Record(every=1),
    )
    assert run.header.column("z").labels == ("counter.steps", "count", "last")
    np.testing.assert_array_equal(run.z[:, 0], np.arange(21.0))
    np.testing.assert_array_equal(run.z[:, 1], 4.0 + np.arange(21) // 2)


def test_combined_controllers_keep_their_own_discrete_states():
    """Parts find their own states, whatever stands before them."""

    @tb.traced
    class Other:
        discrete_state_names = ("flips",)

        def __call__(self, state):
            return {NAME: state.own_z[0]}, [1.0 - state.own_z[0]]

    control = tb.CombinedControl((Other(), tb.PD(0.2, 5.0, 1.0), Counting()))
    run = tb.simulate(MODEL, 0.01, q=[0.3], control=control, record=tb.Record(every=1))
    assert run.header.column("z").labels == ("flips", "count", "last")
    np.testing.assert_array_equal(run.z[:, 0], (1 + np.arange(11)) % 2)
    np.testing.assert_array_equal(run.z[:, 1], 4.0 + np.arange(11))
    pd = 5.0 * (0.2 - run.q[:, 0]) - run.v[:, 0]
    expected = pd + np.arange(11) % 2 + 0.1 * (3.0 + np.arange(11))
    np.testing.assert_allclose(run.u[:, 0], expected, rtol=1e-12)


def test_invalid_controller_outputs_and_methods_are_refused():
    """Controllers that return no states, or too few; steps of other kinds."""

    @tb.traced
    class Silent(Counting):
        def __call__(self, state):
            return {NAME: 0.0}

    @tb.traced
    class Short(Counting):
        def __call__(self, state):
            return {NAME: 0.0}, [0.0]

    with pytest.raises(tb.ShapeError, match="discrete states"):
        tb.simulate(MODEL, 0.01, control=Silent())
    with pytest.raises(tb.ShapeError, match="count, last"):
        tb.simulate(MODEL, 0.01, control=Short())
    with pytest.raises(tb.ModelError, match="equal steps"):
        tb.simulate(MODEL, 0.01, control=Counting(), method=tb.DormandPrince())
