"""Runge-Kutta steps of models so large that their sums are functions of their own."""

import numpy as np
import pytest

import tiburon as tb
from benchmarks.robots import chain
from tests.tolerances import assert_close
from tiburon.simulation.integrators import rk4
from tiburon.simulation.integrators.manifold import Manifold

RANDOM = np.random.default_rng(61)
LINKS = rk4.MAX_INLINED_POSITIONS + 4


@pytest.fixture(scope="module")
def model():
    """Return a long chain on a base that floats, so that steps do not all add."""
    links = chain(LINKS - 6)
    base = tb.Body("base", joint=tb.Free("base"), inertia=tb.Inertia.sphere(mass=9.0, radius=0.3))
    return tb.Model("floating", [base]).attach(links, at="base")


def test_runs_of_large_models_take_the_steps_of_the_formula(model):
    """Native code against the formula on floats, with accelerations of the library."""
    q, v = model.random_state(RANDOM)
    v *= 0.1
    dt, steps = 1e-3, 3
    run = tb.integrate_rk4(model, q, v, dt=dt, steps=steps)
    force = np.zeros(model.nv)

    def acceleration(q, v):
        return tb.forward_dynamics(model, np.array(q), np.array(v), force).tolist()

    expected = q.tolist(), v.tolist()
    for _ in range(steps):
        expected = rk4.rk4_step(Manifold(model), acceleration, *expected, dt)
    # accelerations of a long loose chain lose some digits, of which a step sees a thousandth
    assert_close(run.q[-1], expected[0], 1e-10)
    assert_close(run.v[-1], expected[1], 1e-10, 1.0 + np.abs(run.v[-1]).max())


def test_batches_of_large_runs_have_the_bits_of_single_ones(model):
    starts = [model.random_state(RANDOM) for _ in range(3)]
    q, v = (np.stack(part) for part in zip(*starts, strict=True))
    together = tb.integrate_rk4(model, q, 0.1 * v, dt=1e-3, steps=2)
    for case in range(3):
        alone = tb.integrate_rk4(model, q[case], 0.1 * v[case], dt=1e-3, steps=2)
        assert np.array_equal(together.q[:, case], alone.q)
        assert np.array_equal(together.v[:, case], alone.v)
