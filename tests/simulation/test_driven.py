"""Runs of robots that time drives: times of stages, recorded times, chunks."""

import numpy as np
import pytest

import tiburon as tb
from tests.simulation.samples import fitted_order

SWING = tb.Harmonic(amplitude=0.3, frequency=0.8, phase=0.4)


def shaken():
    """Return a pendulum whose pivot swings along x."""
    joint = tb.Driven(
        "pivot", tb.Prismatic("x", (1, 0, 0)), SWING, carried=tb.Revolute("pin", (0, 1, 0))
    )
    bob = tb.Inertia.point(1.3, com=(0.0, 0.0, -0.7))
    return tb.Model("shaken", [tb.Body("rod", joint=joint, inertia=bob)])


def test_free_slider_on_a_shaker_stays_at_rest_in_the_world():
    """Nothing pushes along the slide: seen from the world it moves at constant speed."""
    joint = tb.Driven(
        "table", tb.Prismatic("x", (1, 0, 0)), SWING, carried=tb.Prismatic("slip", (1, 0, 0))
    )
    model = tb.Model("puck", [tb.Body("puck", joint=joint, inertia=tb.Inertia.sphere(2.0, 0.1))])
    start = 0.35
    run = tb.integrate_rk4(model, [0.2], [-0.1], dt=1e-2, steps=300, record_every=50, time=start)
    np.testing.assert_allclose(run.time, start + 0.5 * np.arange(7), rtol=0, atol=1e-14)
    x, xd, _ = SWING.at(start)
    speed = xd - 0.1
    there = np.array([SWING.at(t)[0] for t in run.time]) + run.q[:, 0]
    # order four: 300 steps of (5 rad/s * 10 ms)^5 / 100 at an amplitude of 0.3
    np.testing.assert_allclose(there, x + 0.2 + speed * (run.time - start), rtol=0, atol=1e-6)


def test_shaken_pendulum_converges_with_order_four():
    """The middle stages must see the drive at the middle of the step."""
    model = shaken()
    counts = np.array([50, 100, 200])

    def final(n):
        run = tb.integrate_rk4(model, [0.4], [1.0], dt=2.0 / n, steps=n, record_every=n, time=0.2)
        return np.array([*run.q[-1], *run.v[-1]])

    exact = final(3200)
    errors = [np.abs(final(int(n)) - exact).max() for n in counts]
    # the next power of dt bends the fit by less than a tenth of an order
    assert fitted_order(counts, errors) == pytest.approx(4.0, abs=0.2)


def test_resuming_from_a_recorded_state_gives_the_same_bits():
    """Times come from the number of steps, not from sums, for dt a power of two."""
    model = shaken()
    whole = tb.integrate_rk4(model, [0.4], [1.0], dt=2.0**-7, steps=40)
    rest = tb.integrate_rk4(
        model, whole.q[24], whole.v[24], dt=2.0**-7, steps=16, time=whole.time[24]
    )
    assert (rest.q == whole.q[24:]).all()
    assert (rest.v == whole.v[24:]).all()
    assert (rest.time == whole.time[24:]).all()


def test_recording_less_often_and_batches_change_no_bit():
    model = shaken()
    every = tb.integrate_rk4(model, [0.4], [1.0], dt=3e-3, steps=60, time=0.1)
    seldom = tb.integrate_rk4(model, [0.4], [1.0], dt=3e-3, steps=60, time=0.1, record_every=7)
    assert (seldom.q[:-1] == every.q[:60:7]).all()
    batch = tb.integrate_rk4(model, [[0.1], [0.4]], [[0.0], [1.0]], dt=3e-3, steps=60, time=0.1)
    assert (batch.q[:, 1] == every.q).all()
    assert (batch.v[:, 1] == every.v).all()
