"""The integrator has order 4: on angles, on free rotations, on floating trees."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import kicked, pendulum, rover
from tests.simulation.samples import (
    WEIGHTLESS,
    fitted_order,
    pendulum_closed_form,
    symmetric_top,
    symmetric_top_closed_form,
    world_momentum,
)
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.integrators.method import Method
from tiburon.simulation.integrators.rk4 import rk4_step
from tiburon.simulation.step import Stepping
from tiburon.simulation.system import System

# the next power of dt bends the fit; halving dt four times leaves less than a tenth of an order
ORDER_SLACK = 0.15


def final_state(model, q, v, n, duration=1.0, world=None):
    run = tb.integrate_rk4(model, q, v, dt=duration / n, steps=n, record_every=n, world=world)
    return run.q[-1], run.v[-1]


def test_pendulum_follows_the_elliptic_function_with_order_four():
    """Angle and rate of a wide swing, against Jacobi's closed form."""
    rate, duration = 5.0, 2.0
    expected = pendulum_closed_form(rate, duration)
    counts = np.array([50, 100, 200, 400])
    errors = []
    for n in counts:
        found = final_state(pendulum(), [0.0], [rate], int(n), duration)
        errors.append(np.abs(np.ravel(found) - expected).max())
    assert fitted_order(counts, errors) == pytest.approx(4.0, abs=ORDER_SLACK)
    # (w dt)^4 = (3.7 * 0.005)^4 = 1e-7 a step of one radian
    assert errors[-1] < 1e-6


def tumbling_top(duration):
    """Return a symmetric top, its kicked start, and its state after a duration without weight."""
    model = symmetric_top()
    q, v, _ = kicked(model, 5)
    v = 3.0 * v
    return model, q, v, symmetric_top_closed_form(q, v, duration)


def test_free_top_follows_its_closed_form_with_order_four():
    """Quaternion, place and body velocity of a tumbling top, against Euler's solution."""
    model, q, v, (q_end, v_end) = tumbling_top(1.0)
    counts = np.array([20, 40, 80, 160])
    errors = []
    for n in counts:
        q_found, v_found = final_state(model, q, v, int(n), world=WEIGHTLESS)
        missed = model.difference(q_end, q_found)
        errors.append(max(np.abs(missed).max(), np.abs(v_found - v_end).max()))
    assert fitted_order(counts, errors) == pytest.approx(4.0, abs=ORDER_SLACK)
    # turning at 9 rad/s: (9 * 0.00625)^4 = 1e-5 a step of one radian
    assert errors[-1] < 1e-5


class _Commuting(Manifold):
    """Positions whose steps are taken to commute, as a naive method would."""

    def bracket(self, a, b):
        return tuple((0.0,) * len(step) for step in a)


def test_without_brackets_the_order_of_a_free_top_is_lost():
    """The corrections are needed: the same code without them has order 2 on rotations."""
    model, q, v, (q_end, _) = tumbling_top(1.0)

    def naive_step(manifold, acceleration, q, v, dt, time):
        return rk4_step(_Commuting(model), acceleration, q, v, dt, time)

    step = Stepping(System(model), Method("naive", 4, 4, naive_step)).step

    counts = np.array([20, 40, 80])
    errors = []
    for n in counts:
        position, velocity = tuple(q.tolist()), tuple(v.tolist())
        for _ in range(n):
            position, velocity, *_ = step(position, velocity, (), (0.0,) * 6, 1.0 / n, 0.0)
        # only the turning: gravity, which acts here, moves the place alone
        errors.append(np.abs(model.difference(q_end, np.array(position))[:3]).max())
    assert fitted_order(counts, errors) == pytest.approx(2.0, abs=ORDER_SLACK)


def test_floating_tree_converges_with_order_four():
    """A floating base with hinges and a slide in gravity, against a step eight times finer."""
    model = rover()
    q, v, _ = kicked(model, 1)
    counts = np.array([64, 128, 256])
    # the error of the reference is 8^-4 = 2e-4 of the finest one compared
    q_end, v_end = final_state(model, q, v, 2048)
    errors = []
    for n in counts:
        q_found, v_found = final_state(model, q, v, int(n))
        errors.append(
            max(np.abs(model.difference(q_end, q_found)).max(), np.abs(v_found - v_end).max())
        )
    assert fitted_order(counts, errors) == pytest.approx(4.0, abs=ORDER_SLACK)


def test_energy_and_momentum_of_a_floating_tree_drift_with_the_fourth_power_of_the_step():
    """Without forces both are conserved; what is lost over a second falls at least as dt^4."""
    model = rover()
    q, v, _ = kicked(model, 2)
    counts = np.array([64, 128, 256])
    lost_energy, lost_momentum = [], []
    for n in counts:
        run = tb.integrate_rk4(
            model, q, v, dt=1.0 / n, steps=int(n), record_every=int(n) // 16, world=WEIGHTLESS
        )
        energy = tb.kinetic_energy(model, run.q, run.v)
        momentum = world_momentum(model, run.q, run.v)
        lost_energy.append(np.abs(energy - energy[0]).max() / energy[0])
        lost_momentum.append(np.abs(momentum - momentum[0]).max() / np.abs(momentum[0]).max())
    assert fitted_order(counts, lost_energy) > 4.0 - ORDER_SLACK
    assert fitted_order(counts, lost_momentum) > 4.0 - ORDER_SLACK
    assert 0.0 < lost_energy[-1] < 1e-5
    assert 0.0 < lost_momentum[-1] < 1e-5


def test_negative_steps_return_to_the_start():
    """Forward and back with steps of opposite sign: what is left is the error of the method."""
    model = rover()
    q, v, tau = kicked(model, 3)
    there = tb.integrate_rk4(model, q, v, tau, dt=1e-3, steps=300)
    back = tb.integrate_rk4(model, there.q[-1], there.v[-1], tau, dt=-1e-3, steps=300)
    assert back.time[-1] == pytest.approx(-0.3)
    # 300 steps of an error (rate * dt)^5 with rates up to 20 rad/s
    np.testing.assert_allclose(model.difference(q, back.q[-1]), 0.0, atol=300 * 0.02**5)
    np.testing.assert_allclose(back.v[-1], v, atol=20 * 300 * 0.02**5)


def test_quaternions_keep_length_one():
    """After thousands of steps the length is 1 to the last digits."""
    model = symmetric_top()
    q, v, _ = kicked(model, 4)
    q[:4] *= 1.1
    run = tb.integrate_rk4(model, q, 5.0 * v, dt=1e-2, steps=5000, record_every=100)
    lengths = np.linalg.norm(run.q[:, :4], axis=1)
    assert lengths[0] == pytest.approx(1.1)
    # rounding of one normalization, which does not add up
    np.testing.assert_allclose(lengths[1:], 1.0, rtol=0, atol=4e-16)
