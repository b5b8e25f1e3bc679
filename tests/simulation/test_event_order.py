"""Events at one instant, events that accumulate, events at the start and the end of a run."""

from itertools import product

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.simulation.samples import GRAVITY
from tests.simulation.test_events import METHODS, ball, height
from tiburon.errors import DomainError


def slider(axes=1):
    """Return a point mass on the given number of rails, without gravity along them."""
    bodies, parent = [], "world"
    for number in range(axes):
        axis = [0.0, 0.0, 0.0]
        axis[number] = 1.0
        joint = tb.Prismatic(f"rail {number}", axis=axis)
        mass = tb.Inertia.point(1.0 + number)
        bodies.append(tb.Body(f"mass {number}", parent=parent, joint=joint, inertia=mass))
        parent = f"mass {number}"
    return tb.Model("slider", bodies)


def coordinate(number, at=0.0, sign=1.0):
    """Return the distance of a coordinate from a place."""
    return tb.traced(lambda state: sign * (state.q[number] - at))


def bounce_by(e, number=0):
    """Return an action that reverses one velocity with a restitution."""

    def act(state):
        v = state.v.copy()
        v[number] *= -e
        return {"v": v}

    return act


STILL = tb.World(gravity=(0.0, 0.0, 0.0))


# accumulation


@pytest.mark.parametrize(
    ("method", "e"),
    [
        *(("rk4", 0.4), ("dopri5", 0.1), ("b2pc5", 0.2)),
        *(pytest.param(*x, marks=pytest.mark.slow) for x in product(METHODS, (0.1, 0.4, 0.7))),
    ],
)
def test_accumulating_bounces_end_with_their_own_outcome(method, e):
    """From a height h all bounces are over at sqrt(2 h / g) (1 + e) / (1 - e), on the floor."""
    touch = tb.Event("bounce", height, direction=-1, action=bounce_by(e))
    run = tb.simulate(ball(), 5.0, q=[1.0], events=[touch], method=integrator(method))
    limit = np.sqrt(2.0 / GRAVITY) * (1.0 + e) / (1.0 - e)
    assert run.status == "zeno"
    assert not run.outcome.ok
    assert run.outcome.event == "bounce"
    # flights down to some 1e-12 s are resolved, and each bounce is located to 1e-12 s: the rest of
    # the series is of that size, the errors of some hundred bounces add up
    assert abs(run.outcome.time - limit) < 1e-9
    assert abs(run.outcome.q[0]) < 1e-12
    assert run.q.min() > -1e-12
    assert "event 'bounce' happens without end from" in run.outcome.message
    assert "terminal=True" in run.outcome.message
    # every bounce is there: speeds are a geometric series
    speeds = np.array([-event.v[0] for event in run.events])
    assert len(speeds) > 10
    # a flight of 1e-4 s or more, located to 1e-12 s
    np.testing.assert_allclose(speeds[1:5] / speeds[:4], e, rtol=1e-7)


@pytest.mark.parametrize(("method", "e"), [("rk4", 0.3), ("dopri5", 0.3), ("rosenbrock", 0.3)])
def test_the_tip_of_an_arm_never_falls_through_the_floor(method, e):
    """Impacts M dv = J^T p of a moving arm; heights here are differences that round to 1e-16 m."""
    arm = tb.load("double_pendulum")
    floor = -0.6

    @tb.traced
    def tip_height(state):
        return tb.forward_kinematics(arm, state.q, "tip")[1][2] - floor

    def impact(state):
        normal = tb.frame_jacobian(arm, state.q, "tip", axes="world")[5]
        freed = np.linalg.solve(tb.mass_matrix(arm, state.q), normal)
        share = (normal @ state.v) / (normal @ freed)
        return {"v": state.v - (1.0 + e) * share * freed}

    events = [
        tb.Event("impact", tip_height, direction=-1, action=impact),
        tb.Event("told", tip_height, direction=-1),
    ]
    run = tb.simulate(
        arm,
        3.0,
        q=[1.5, 0.4],
        v=[0.2, -0.1],
        events=events,
        method=integrator(method),
        record=tb.Record(every=1),
    )
    _, places = tb.forward_kinematics(arm, run.q, "tip")
    assert run.status == "zeno"
    assert run.outcome.event == "impact"
    # located to 1e-12 s at some m/s
    assert places[:, 2].min() > floor - 1e-11
    names = [event.name for event in run.events]
    assert names == ["impact", "told"] * (len(names) // 2)


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_an_inelastic_impact_does_not_fall_through_the_floor(method):
    """Restitution zero leaves the ball at rest where gravity takes it across at once."""
    touch = tb.Event("impact", height, direction=-1, action=lambda state: {"v": 0.0 * state.v})
    run = tb.simulate(ball(), 2.0, q=[1.0], events=[touch], method=integrator(method))
    assert run.status == "zeno"
    assert len(run.events) == 1
    assert abs(run.outcome.time - np.sqrt(2.0 / GRAVITY)) < 1e-11


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
@pytest.mark.parametrize("direction", [-1, 0])
def test_action_that_lets_the_state_cross_does_not_accumulate(method, direction):
    """Slowed down to a tenth, unchanged, or with other states changed, the ball falls on."""
    for action, left in (
        (lambda state: {"v": 0.1 * state.v}, 0.1),
        (lambda state: None, 1.0),
        (lambda state: {"v": 3.0 * state.v}, 3.0),
    ):
        touch = tb.Event("membrane", height, direction=direction, action=action)
        run = tb.simulate(ball(), 0.8, q=[1.0], events=[touch], method=integrator(method))
        fall = np.sqrt(2.0 / GRAVITY)
        rest = 0.8 - fall
        assert run.status == "finished"
        assert len(run.events) == 1
        expected = -left * GRAVITY * fall * rest - 0.5 * GRAVITY * rest**2
        np.testing.assert_allclose(run.q[-1], [expected], rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_a_bounce_in_both_directions_is_one_event(method):
    """An expression that an action turns back at zero has not crossed it a second time."""
    touch = tb.Event("bounce", height, action=bounce_by(0.8))
    run = tb.simulate(ball(), 1.5, q=[1.0], events=[touch], method=integrator(method))
    fall = np.sqrt(2.0 / GRAVITY)
    np.testing.assert_allclose(
        [event.time for event in run.events], [fall, 2.6 * fall], rtol=0, atol=1e-10
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_events_between_two_closing_walls_accumulate(method):
    """Between a wall at rest and one that nears at 1 m/s the speed grows without end."""

    @tb.traced
    def far(state):
        return (1.0 - state.time) - state.q[0]

    events = [
        tb.Event("near", coordinate(0), direction=-1, action=lambda s: {"v": np.abs(s.v)}),
        tb.Event("far", far, direction=-1, action=lambda s: {"v": -np.abs(s.v) - 2.0}),
    ]
    run = tb.simulate(
        slider(),
        2.0,
        q=[0.3],
        v=[2.0],
        world=STILL,
        events=events,
        method=integrator(method, dt=0.01),
    )
    assert run.status == "zeno"
    assert run.outcome.event in ("near", "far")
    assert abs(run.outcome.time - 1.0) < 1e-2
    assert -1e-9 < run.outcome.q[0] < 1.0 - run.outcome.time + 1e-9


def test_cases_of_a_batch_accumulate_each_at_its_own_time():
    """A batch gives every case the outcome and the events it has alone."""
    starts = np.array([[0.1], [0.2], [60.0]])
    touch = tb.Event("bounce", height, direction=-1, action=bounce_by(0.1))
    for method in ("rk4", "dopri5"):
        batch = tb.simulate(ball(), 0.3, q=starts, events=[touch], method=integrator(method))
        assert batch.status.tolist() == ["zeno", "zeno", "finished"]
        for case, start in enumerate(starts):
            alone = tb.simulate(ball(), 0.3, q=start, events=[touch], method=integrator(method))
            mine = [event.time for event in batch.events if event.case == case]
            assert mine == [event.time for event in alone.events]
            assert batch.outcomes[case].time == alone.outcome.time


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_short_flights_within_a_step_are_all_found(method):
    """Bounces of 4 ms in steps of 10 ms: as many as their closed form counts."""
    touch = tb.Event("bounce", height, direction=-1, action=lambda s: {"v": [0.5 * GRAVITY * 4e-3]})
    start = 0.5 * GRAVITY * 2e-3**2
    run = tb.simulate(
        ball(),
        0.06,
        q=[start],
        events=[touch],
        method=integrator(method, dt=0.01),
        record=tb.Record(dt=0.01),
    )
    times = 2e-3 + 4e-3 * np.arange(15)
    assert run.status == "finished"
    # an error of location of 1e-12 s at a time, each on top of those before
    found = [event.time for event in run.events]
    np.testing.assert_allclose(found, times[: len(found)], rtol=0, atol=1e-9)
    assert len(found) == 15


# one instant


@pytest.mark.parametrize("method", METHODS)
def test_a_terminal_event_behind_an_action_at_the_same_instant_ends_the_run(method):
    """Both are reported with the state before the action, which runs; then the run ends."""
    events = [
        tb.Event("bounce", height, direction=-1, action=bounce_by(0.5)),
        tb.Event("touch", height, direction=-1, terminal=True),
    ]
    for listed in (events, events[::-1]):
        run = tb.simulate(ball(), 1.0, q=[1.0], events=listed, method=integrator(method))
        assert run.status == "event"
        assert run.outcome.event == "touch"
        assert [event.name for event in run.events] == [event.name for event in listed]
        assert run.events[0].time == run.events[1].time == run.outcome.time
        speed = np.sqrt(2.0 * GRAVITY)
        for event in run.events:
            np.testing.assert_allclose(event.v, [-speed], rtol=1e-10)
        np.testing.assert_allclose(run.outcome.v, [0.5 * speed], rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_all_events_of_an_instant_act_in_their_order(method):
    """Into a corner: both walls turn their velocity; and actions see those before them."""
    seen = []

    def first(state):
        seen.append(state.v.copy())
        return {"v": state.v * [-1.0, 1.0]}

    def second(state):
        seen.append(state.v.copy())
        return {"v": state.v * [1.0, -1.0]}

    events = [
        tb.Event("told", coordinate(0, 0.5), direction=1),
        tb.Event("x", coordinate(0, 0.5), direction=1, action=first),
        tb.Event("y", coordinate(1, 1.0), direction=1, action=second),
        tb.TimeEvent("clock", 0.25),
    ]
    run = tb.simulate(
        slider(2),
        0.5,
        q=[0.0, 0.5],
        v=[2.0, 2.0],
        world=STILL,
        events=events,
        method=integrator(method),
    )
    assert run.status == "finished"
    assert [event.name for event in run.events] == ["told", "x", "y", "clock"]
    assert len({event.time for event in run.events}) == 1
    np.testing.assert_allclose(seen, [[2.0, 2.0], [-2.0, 2.0]], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.q[-1], [0.0, 0.5], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.v[-1], [-2.0, -2.0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_action_that_moves_another_expression_across_zero_triggers_its_event(method):
    """A chain of three at one instant: reported in order, each with the state before its action."""
    events = [
        tb.Event("third", coordinate(0, 2.0), direction=1, terminal=True),
        tb.Event("second", coordinate(0, 1.0), direction=1, action=lambda s: {"q": [2.5]}),
        tb.Event("other way", coordinate(0, 1.2), direction=-1),
        tb.TimeEvent("first", 0.1234, action=lambda s: {"q": [1.5]}),
    ]
    run = tb.simulate(slider(), 1.0, v=[0.1], world=STILL, events=events, method=integrator(method))
    assert [event.name for event in run.events] == ["first", "second", "third"]
    assert {event.time for event in run.events} == {0.1234}
    np.testing.assert_allclose(
        [event.q[0] for event in run.events], [0.01234, 1.5, 2.5], rtol=0, atol=1e-12
    )
    assert run.outcome.event == "third"


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_actions_that_trigger_each_other_without_end_end_the_case(method):
    """Two events that throw the state to and fro at one instant."""
    events = [
        tb.Event("right", coordinate(0, 1.0), direction=1, action=lambda s: {"q": [-1.0]}),
        tb.Event("left", coordinate(0, -0.5), direction=-1, action=lambda s: {"q": [2.0]}),
    ]
    run = tb.simulate(
        slider(), 1.0, q=[0.9], v=[1.0], world=STILL, events=events, method=integrator(method)
    )
    assert run.status == "zeno"
    assert abs(run.outcome.time - 0.1) < 1e-9


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_events_within_a_step_are_handled_in_order_of_time(method):
    """Within one step of 0.1 s: those after an action are those of the motion it leads to."""
    events = [
        tb.Event("c", coordinate(0, 0.35), direction=1),
        tb.Event("b", coordinate(0, 0.33), direction=1, action=lambda s: {"v": 2.0 * s.v}),
        tb.Event("a", coordinate(0, 0.31), direction=1),
        tb.Event("down", coordinate(0, 0.31), direction=-1),
    ]
    run = tb.simulate(
        slider(),
        1.0,
        q=[0.0],
        v=[1.0],
        world=STILL,
        events=events,
        method=integrator(method, dt=0.1),
        record=tb.Record(dt=0.1),
    )
    assert [event.name for event in run.events] == ["a", "b", "c"]
    np.testing.assert_allclose([e.time for e in run.events], [0.31, 0.33, 0.34], rtol=0, atol=1e-11)
    np.testing.assert_allclose(run.q[-1], [0.33 + 2.0 * 0.67], rtol=0, atol=1e-11)


# the start and the end


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("begin", [0.0, 0.7])
def test_time_event_at_the_start_is_triggered(method, begin):
    """It is reported, acts before the first row, and may end the run."""
    kick = tb.TimeEvent("kick", begin, action=lambda s: {"v": s.v + 2.0})
    run = tb.simulate(
        slider(), 0.5, q=[0.3], world=STILL, events=[kick], method=integrator(method), time=begin
    )
    assert [(event.name, event.time) for event in run.events] == [("kick", begin)]
    assert run.events[0].v[0] == 0.0
    np.testing.assert_allclose(run.q[:, 0], 0.3 + 2.0 * (run.time - begin), rtol=0, atol=1e-12)
    stop = tb.TimeEvent("stop", begin, terminal=True)
    run = tb.simulate(slider(), 0.5, q=[0.3], events=[stop], method=integrator(method), time=begin)
    assert (run.status, run.outcome.time) == ("event", begin)
    np.testing.assert_array_equal(run.q, [[0.3]])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dt", [1e-3, 0.01, 0.0007])
def test_time_events_on_the_time_grid_are_triggered_once(method, dt):
    """The product n dt rounds to either side of the time that is given; no event is lost."""
    count = 100
    times = [round(dt * n, 10) for n in (1, 7, 29, 57, 99, count)]
    events = [tb.TimeEvent(f"at {time}", time) for time in times]
    keywords = {"v": [1.0], "world": STILL, "method": integrator(method, dt=dt)}
    run = tb.simulate(slider(), count * dt, events=events, record=tb.Record(every=1), **keywords)
    assert [event.name for event in run.events] == [event.name for event in events]
    np.testing.assert_allclose([event.time for event in run.events], times, rtol=1e-14)
    kicks = [tb.TimeEvent(e.name, e.time, action=lambda s: {"v": s.v + 1.0}) for e in events]
    run = tb.simulate(slider(), count * dt, events=kicks, **keywords)
    assert [event.name for event in run.events] == [event.name for event in events]
    assert run.outcome.v[0] == 7.0


def test_a_time_event_before_the_start_is_refused():
    """It could never happen."""
    late = tb.TimeEvent("late", 0.4)
    with pytest.raises(DomainError, match=r"event 'late': time.*at least 0.5 s.*got 0.4 s"):
        tb.simulate(slider(), 1.0, events=[late], time=0.5)


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_an_expression_at_zero_at_the_start_crosses_it_in_the_direction_it_leaves(method):
    """A ball on the floor, at rest, thrown up, or thrown down."""
    for rate, happens in ((0.0, True), (-1.0, True), (2.0, False)):
        told = tb.Event("touch", height, direction=-1)
        run = tb.simulate(ball(), 0.1, v=[rate], events=[told], method=integrator(method))
        assert [event.time for event in run.events] == ([0.0] if happens else [])
    up = tb.Event("up", height, direction=1)
    run = tb.simulate(ball(), 0.1, v=[1.0], events=[up], method=integrator(method))
    assert [event.time for event in run.events] == [0.0]
    # what stays at zero crosses nothing
    run = tb.simulate(
        ball(), 0.1, world=STILL, events=[tb.Event("touch", height)], method=integrator(method)
    )
    assert run.events == ()


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_a_ball_at_rest_on_the_floor_does_not_fall_through_it(method):
    """Its bounces accumulate at the start, and the state there is recorded."""
    touch = tb.Event("bounce", height, direction=-1, action=bounce_by(0.5))
    run = tb.simulate(ball(), 1.0, events=[touch], method=integrator(method))
    assert (run.status, run.outcome.time) == ("zeno", 0.0)
    np.testing.assert_array_equal(run.q, [[0.0]])
    batch = tb.simulate(ball(), 0.2, q=[[0.0], [5.0]], events=[touch], method=integrator(method))
    assert batch.status.tolist() == ["zeno", "finished"]
    np.testing.assert_array_equal(batch.q[0], [[0.0], [5.0]])
    assert np.isnan(batch.q[1:, 0]).all()


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_an_event_at_the_end_of_a_run_is_reported(method):
    """At 0.5 s a mass at 2 m/s is exactly at 1 m, in these binary fractions."""
    there = tb.Event("there", coordinate(0, 1.0))
    dt = 2.0**-9
    run = tb.simulate(
        slider(),
        0.5,
        v=[2.0],
        world=STILL,
        events=[there],
        method=integrator(method, dt=dt),
        record=tb.Record(every=16),
    )
    assert [event.name for event in run.events] == ["there"]
    assert abs(run.events[0].time - 0.5) < 3e-12


# runs that go on


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("cut", "e"),
    [
        (0.46, 0.15),
        *(pytest.param(cut, 0.5, marks=pytest.mark.slow) for cut in (0.05, 0.45, 1.2, 1.35)),
    ],
)
def test_resumed_run_has_the_events_of_an_uninterrupted_run(tmp_path, method, cut, e):
    """Bounces, a time event at the start and events that adaptive steps have met beyond the cut."""
    events = [
        tb.Event("bounce", height, direction=-1, action=bounce_by(e)),
        tb.TimeEvent("start", 0.0),
        tb.TimeEvent("middle", 0.4512),
        tb.Event("low", tb.traced(lambda state: state.q[0] - 0.01)),
    ]
    keywords = {
        "q": [1.0],
        "events": events,
        "method": integrator(method, dt=0.01 if cut != 1.35 else 0.05),
        "record": tb.Record(dt=0.05),
    }
    whole = tb.simulate(ball(), 2.0, **keywords)
    path = tmp_path / "run.zarr"
    tb.simulate(ball(), cut, **{**keywords, "record": tb.Record(dt=0.05, store=path)})
    found = tb.load_run(path).resume(2.0, events=events)
    told = [[(e.name, e.time, e.v[0]) for e in run.events] for run in (found, whole)]
    assert told[0] == told[1]
    assert found.status == whole.status == "zeno"
    assert found.outcome.time == whole.outcome.time
    np.testing.assert_array_equal(found.q, whole.q)
    # ended is ended
    again = found.resume(3.0, events=events)
    assert (again.status, len(again.events)) == ("zeno", len(whole.events))
