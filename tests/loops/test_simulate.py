"""Runs of robots with loops: they stay closed, and keep their energy."""

import numpy as np
import pytest

import tiburon as tb

RANDOM = np.random.default_rng(13)


@pytest.mark.parametrize("name", ["four_bar", "bricard"])
def test_loops_stay_closed_and_energy_is_conserved(name):
    """Without gains: a thousand steps leave gaps of rounding, and the error of the integrator."""
    model = tb.load(name)
    tree = model.without_loops()
    home = np.array(model.poses["home"]) if "home" in model.poses else model.neutral()
    v = tb.project_velocity(model, home, RANDOM.standard_normal(model.nv))
    run = tb.simulate(model, 1.0, q=home, v=v, record=tb.Record(every=10))
    assert run.outcome.status == "finished"
    assert np.abs(tb.constraint_residual(model, run.q)).max() < 1e-11
    rates = np.einsum("tij,tj->ti", tb.loop_jacobian(model, run.q), run.v)
    assert np.abs(rates).max() < 1e-10
    kinetic = tb.kinetic_energy(tree, run.q, run.v)
    energy = kinetic + tb.potential_energy(tree, run.q)
    # steps of 1 ms at some radians per second: RK4 leaves 1e-12 a step
    assert np.abs(energy - energy[0]).max() < 1e-8 * kinetic.max()
    # it did move
    assert np.abs(run.q[-1] - run.q[0]).max() > 0.1


def test_a_batch_has_the_bits_of_single_runs():
    model = tb.load("four_bar")
    home = np.array(model.poses["home"])
    v = tb.project_velocity(model, home, RANDOM.standard_normal((3, model.nv)))
    batch = tb.simulate(model, 0.2, q=home, v=v)
    for case in range(3):
        single = tb.simulate(model, 0.2, q=home, v=v[case])
        np.testing.assert_array_equal(batch.q[:, case], single.q)
