"""Event-driven runs as runs: bits, batches, resumed parts, events, controllers, refusals."""

import math

import numpy as np
import pytest

import tiburon as tb

G = 9.81
RADIUS = 0.1
BALL = tb.Model(
    "body",
    [
        tb.Body(
            "body",
            "world",
            joint=tb.Free("body"),
            inertia=tb.Inertia(mass=1.0, com=(0, 0, 0), tensor=0.4 * RADIUS**2 * np.eye(3)),
            shapes=(tb.Shape(tb.SphereShape(RADIUS), role="collision"),),
        )
    ],
)


def turned(angle, height):
    return np.array([math.cos(angle / 2), 0, 0, math.sin(angle / 2), 0.1, -0.2, height])


def exact(model, duration, **more):
    return tb.simulate(model, duration, contact=tb.ExactContact(), **more)


def test_one_run_a_batch_and_a_resumed_run_agree_in_bits():
    """Also while contacts open and close; forces and modes too."""
    world = tb.World(ground=tb.Ground(restitution=0.5, static_friction=0.3))
    q = np.array([turned(0.1 * k, h + RADIUS) for k, h in enumerate((0.3, 0.0))])
    v = np.array([[1, 2, 3, 0.5, 0.2, 0], [0, 0, 0, 1, 0, 0]], dtype=float)
    batch = exact(BALL, 0.8, q=q, v=v, world=world)
    for case in range(2):
        one = exact(BALL, 0.8, q=q[case], v=v[case], world=world)
        for a, b in ((one.q, batch.q), (one.v, batch.v), (one.z, batch.z)):
            assert np.array_equal(a, b[:, case])
        same = [(e.name, e.time) for e in batch.events if e.case == case]
        assert [(e.name, e.time) for e in one.events] == same
    one = exact(BALL, 0.8, q=q[0], v=v[0], world=world)
    later = exact(BALL, 0.4, q=q[0], v=v[0], world=world).resume(0.4)
    for a, b in ((one.q, later.q), (one.v, later.v), (one.z, later.z)):
        assert np.array_equal(a, b)


def test_events_without_action_change_no_bit_and_actions_change_contacts():
    """A kick off the ground lifts a resting ball at the time of its event."""
    world = tb.World(ground=tb.Ground(restitution=0.0, static_friction=0.3))
    q = turned(0.2, RADIUS + 0.1)
    plain = exact(BALL, 0.5, q=q, world=world)

    @tb.traced
    def low(state):
        return state.q[6] - 0.15

    watched = exact(BALL, 0.5, q=q, world=world, events=[tb.Event("low", low)])
    assert np.array_equal(plain.q, watched.q)
    assert "low" in [event.name for event in watched.events]
    up = np.array([0, 0, 0, 0, 0, 1.0])
    kick = tb.TimeEvent("kick", 0.3, action=lambda state: {"v": up})
    kicked = exact(BALL, 0.5, q=q, world=world, events=[kick])
    assert ("body/ground.lift_off", 0.3) in [(e.name, e.time) for e in kicked.events]
    assert abs(kicked.q[-1, 6] - RADIUS - (0.2 - 0.5 * G * 0.04)) < 1e-12


def test_unsupported_options_of_exact_runs_are_refused():
    """Methods without adaptive steps, and elements that need equal steps."""
    world = tb.World(ground=tb.Ground())
    with pytest.raises(tb.DomainError, match="method with exact contact"):
        exact(BALL, 1.0, q=turned(0, RADIUS), world=world, method=tb.RK4())
    with pytest.raises(tb.DomainError, match="method with exact contact"):
        exact(BALL, 1.0, q=turned(0, RADIUS), world=world, method=tb.Dop853.fixed())
    with pytest.raises(tb.DomainError, match="shapes that touch at most"):
        exact(BALL, 1.0, q=turned(0, 0.9 * RADIUS), world=world)


@pytest.mark.parametrize("traced", [True, False])
def test_forces_that_jump_with_sampled_commands_lift_a_ball(traced):
    """At the first sample with a force above the weight; the ball then follows the samples."""

    def lift(state):
        return [0, 0, 0, 0, 0, 12.0 * state.time]

    world = tb.World(ground=tb.Ground(static_friction=0.3))
    control = tb.traced(lift) if traced else lift
    run = exact(BALL, 1.0, q=turned(0.0, RADIUS), world=world, control=tb.Sampled(control, dt=0.05))
    kinds = [(event.name, round(event.time, 12)) for event in run.events]
    assert kinds == [("body/ground.touch_down", 0.0), ("body/ground.lift_off", 0.85)]
    # accelerations 12 t - g held for 0.05 s each
    speed = height = 0.0
    for sample in (0.85, 0.9, 0.95):
        a = 12.0 * sample - G
        height += 0.05 * speed + 0.5 * a * 0.05**2
        speed += 0.05 * a
    assert abs(run.q[-1, 6] - RADIUS - height) < 1e-12


@pytest.mark.parametrize("duration", [0.20037, math.pi / 16])
@pytest.mark.parametrize("interval", [None, 1 / 70])
def test_exact_runs_take_any_duration(duration, interval):
    """Recorded at multiples of any interval, and at the end: a ball in flight is where it falls."""
    record = tb.Record() if interval is None else tb.Record(dt=interval)
    q = turned(0.0, RADIUS + 0.3)
    run = exact(BALL, duration, q=q, world=tb.World(ground=tb.Ground()), record=record)
    assert run.outcome.ok
    assert abs(run.time[1] - (interval or 0.01)) < 1e-14
    assert abs(run.time[-1] - duration) < 1e-14
    assert np.abs(run.q[:, 6] - RADIUS - 0.3 + 0.5 * G * run.time**2).max() < 1e-14
