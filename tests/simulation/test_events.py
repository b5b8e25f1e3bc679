"""Events: closed forms of when they happen, what actions do, and that watching changes nothing."""

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.robots import double_pendulum, pendulum
from tests.simulation.samples import GRAVITY, pendulum_closed_form
from tiburon.errors import ModelError, OptionError, ShapeError

METHODS = ["rk4", "dopri5", "b2pc5"]

# time of an event in closed form: position is good to 1e-12 of what the method leaves, and the
# search ends at 1e-12 s
LOCATED = 3e-12


def ball():
    """Return a point mass that falls along z."""
    body = tb.Body("ball", joint=tb.Prismatic("z", axis=(0, 0, 1)), inertia=tb.Inertia.point(0.7))
    return tb.Model("ball", [body])


@tb.traced
def height(state):
    """Return how far the ball is above the ground [m]."""
    return state.q[0]


@tb.traced
def speed(state):
    """Return how fast the ball rises [m/s]."""
    return state.v[0]


def bounce(state):
    """Turn the velocity around with a loss."""
    return {"v": -0.8 * state.v}


@pytest.mark.parametrize("method", METHODS)
def test_falling_ball_hits_the_ground_at_the_closed_form_time(method):
    """With h = g t^2 / 2: all these methods are exact for a parabola."""
    start, rate = 1.3, 0.4
    touch = tb.Event("touch", height, direction=-1, terminal=True)
    run = tb.simulate(ball(), 1.0, q=[start], v=[rate], events=[touch], method=integrator(method))
    expected = (rate + np.sqrt(rate**2 + 2 * GRAVITY * start)) / GRAVITY
    assert run.status == "event"
    assert run.outcome.event == "touch"
    assert abs(run.outcome.time - expected) < LOCATED
    assert abs(run.outcome.q[0]) < 1e-11
    # 1e-12 s of free fall
    np.testing.assert_allclose(run.outcome.v, rate - GRAVITY * expected, rtol=0, atol=3e-11)
    # rows end before the event
    assert run.time[-1] <= expected < run.time[-1] + 0.011


def test_a_pendulum_turns_around_at_a_quarter_of_its_period():
    """The rate crosses zero at K(k) / w, an elliptic integral."""
    import mpmath

    rate, length = 2.9, 0.7
    w = mpmath.sqrt(GRAVITY / length)
    quarter = float(mpmath.ellipk((rate / (2 * w)) ** 2) / w)
    top = tb.Event("top", tb.traced(lambda state: state.v[0]))
    run = tb.simulate(
        pendulum(),
        1.0,
        v=[rate],
        events=[top],
        method=tb.Dop853(rtol=1e-13, atol=1e-14),
    )
    # every half period from then on; the tolerance of the steps, through the slope of the rate
    expected = np.arange(quarter, 1.0, 2 * quarter)
    np.testing.assert_allclose([e.time for e in run.events], expected, rtol=0, atol=3e-12)
    angle, _ = pendulum_closed_form(rate, quarter)
    np.testing.assert_allclose(run.events[0].q, [angle], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_bouncing_ball_follows_its_closed_form(method):
    """After n bounces with restitution e the speed is e^n of the first, times add up in series."""
    e, start = 0.8, 1.0
    touch = tb.Event("touch", height, direction=-1, action=bounce)
    run = tb.simulate(ball(), 2.5, q=[start], events=[touch], method=integrator(method))
    fall = np.sqrt(2 * start / GRAVITY)
    times = fall + 2 * fall * np.cumsum([0.0, e, e**2, e**3])
    found = [event.time for event in run.events]
    expected = [time for time in times if time < 2.5]
    assert len(found) == len(expected) >= 3
    # each bounce starts at the located time of the one before
    np.testing.assert_allclose(found, expected, rtol=0, atol=20 * LOCATED)
    assert run.status == "finished"
    assert run.time[-1] == 2.5


def test_monitoring_events_changes_no_bit_of_the_motion():
    """Events that only tell leave no trace."""
    model = double_pendulum()
    start = {"q": [1.1, -0.7], "v": [0.3, 2.1]}
    crossing = [tb.Event("down", tb.traced(lambda state: state.q[0])), tb.TimeEvent("tick", 0.2505)]
    for method in ("rk4", "b1pc5", "dopri5"):
        plain = tb.simulate(model, 1.0, **start, method=integrator(method))
        watched = tb.simulate(model, 1.0, **start, method=integrator(method), events=crossing)
        np.testing.assert_array_equal(watched.q, plain.q)
        np.testing.assert_array_equal(watched.v, plain.v)
        names = [event.name for event in watched.events]
        assert "tick" in names
        assert "down" in names


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_cases_of_a_batch_have_their_own_events(method):
    """Each case meets the ground at its own time, as it does alone."""
    model = ball()
    starts = np.array([[0.4], [1.3], [40.0], [0.9]])
    events = [tb.Event("touch", height, direction=-1, terminal=True), tb.Event("top", speed)]
    batch = tb.simulate(model, 1.0, q=starts, v=[[0.5]], events=events, method=integrator(method))
    assert batch.status.tolist() == ["event", "event", "finished", "event"]
    for case, start in enumerate(starts):
        alone = tb.simulate(model, 1.0, q=start, v=[0.5], events=events, method=integrator(method))
        assert alone.outcome.time == batch.outcomes[case].time
        mine = [event.time for event in batch.events if event.case == case]
        assert mine == [event.time for event in alone.events]
        count = len(alone.time)
        np.testing.assert_array_equal(batch.q[:count, case], alone.q)
        assert np.isnan(batch.q[count:, case]).all()


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_time_event_is_located_and_changes_the_velocity(method):
    """A kick between two times of the grid: the parabola after it is known."""
    kick = tb.TimeEvent("kick", 0.30041, action=lambda state: {"v": state.v + 2.0})
    run = tb.simulate(
        ball(), 0.6, q=[1.0], events=[kick], method=integrator(method), record=tb.Record(dt=0.1)
    )
    assert abs(run.events[0].time - 0.30041) < LOCATED
    expected = 1.0 - 0.5 * GRAVITY * run.time**2 + 2.0 * np.maximum(run.time - 0.30041, 0.0)
    np.testing.assert_allclose(run.q[:, 0], expected, rtol=0, atol=1e-11)


def test_direction_selects_zero_crossings():
    """Up, down, or both."""
    model = pendulum()
    counts = {}
    for direction in (-1, 0, 1):
        event = tb.Event("low", tb.traced(lambda state: state.q[0]), direction=direction)
        run = tb.simulate(model, 3.0, q=[0.4], events=[event])
        counts[direction] = len(run.events)
        signs = {float(np.sign(event.v[0])) for event in run.events}
        assert signs == ({-1.0, 1.0} if direction == 0 else {float(direction)})
    assert counts[0] == counts[-1] + counts[1]


def test_wrong_events_are_refused():
    """Messages say what was expected."""
    with pytest.raises(OptionError, match="direction"):
        tb.Event("touch", height, direction=2)
    twice = [tb.Event("a", height), tb.TimeEvent("a", 1.0)]
    with pytest.raises(ModelError, match="names that differ"):
        tb.simulate(ball(), 0.1, events=twice)
    with pytest.raises(ModelError, match="expected Event or TimeEvent"):
        tb.simulate(ball(), 0.1, events=[height])
    with pytest.raises(ShapeError, match="1 number"):
        tb.simulate(ball(), 0.1, events=[tb.Event("a", tb.traced(lambda s: [s.q[0], s.v[0]]))])
    wrong = tb.Event("a", height, direction=-1, action=lambda state: {"v": [1.0, 2.0]})
    with pytest.raises(ShapeError, match="event 'a': v"):
        tb.simulate(ball(), 1.0, q=[0.1], events=[wrong])
