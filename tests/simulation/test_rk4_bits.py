"""How a run is cut up, recorded, resumed or batched never changes a bit."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import kicked, rover
from tiburon.native.row_loop import CheckedLoop, RowLoop
from tiburon.simulation import engine as engine_module
from tiburon.simulation.step import StepSource, step_kernel
from tiburon.simulation.system import System

STEPS = 40


@pytest.fixture(scope="module")
def model():
    return rover()


@pytest.fixture(scope="module")
def start(model):
    return kicked(model, 6)


@pytest.fixture(scope="module")
def whole(model, start):
    """All states of a run, as cut up by the clock."""
    return tb.integrate_rk4(model, *start, dt=2e-3, steps=STEPS)


def assert_same_bits(run, q, v):
    np.testing.assert_array_equal(run.q, q)
    np.testing.assert_array_equal(run.v, v)


def test_a_call_of_n_steps_equals_n_calls_of_one_step(model, start, whole):
    """The native loop gives what its kernel gives, called once for each step."""
    q, v, tau = start
    step = step_kernel(StepSource(System(model), "rk4"))
    for done in range(STEPS):
        q, v = step(q, v, tau, np.array([0.0, 2e-3, 2e-3, float(done)]))
        np.testing.assert_array_equal(q, whole.q[done + 1])
        np.testing.assert_array_equal(v, whole.v[done + 1])


@pytest.mark.parametrize("seconds", [0.0, 1e-4, 1e3])
def test_the_length_of_calls_changes_no_bit(model, start, whole, monkeypatch, seconds):
    """Calls of one step each, of a few, of all steps."""
    monkeypatch.setattr(engine_module, "CHUNK_SECONDS", seconds)
    assert_same_bits(
        tb.integrate_rk4(model, *start, dt=2e-3, steps=STEPS, record_every=1), whole.q, whole.v
    )


def test_call_path_of_the_kernel_changes_no_bit(model, start, whole, monkeypatch):
    """The native loop and the checked call give the same."""
    for name in ("run_one", "run_many", "blocked_job"):
        monkeypatch.setattr(RowLoop, name, getattr(CheckedLoop, name))
    run = tb.integrate_rk4(model, *start, dt=2e-3, steps=STEPS)
    assert_same_bits(run, whole.q, whole.v)


@pytest.mark.parametrize("every", [1, 3, 7, 8, STEPS, 10 * STEPS])
def test_recording_fewer_rows_changes_no_bit(model, start, whole, every):
    """Every so many steps, and the last: the same states are there."""
    run = tb.integrate_rk4(model, *start, dt=2e-3, steps=STEPS, record_every=every)
    marks = sorted({*range(0, STEPS, every), STEPS})
    np.testing.assert_array_equal(run.time, whole.time[marks])
    assert_same_bits(run, whole.q[marks], whole.v[marks])


def test_a_run_resumed_from_a_recorded_state_equals_the_whole(model, start, whole):
    """Stop anywhere, continue later."""
    tau = start[2]
    run = tb.integrate_rk4(model, whole.q[13], whole.v[13], tau, dt=2e-3, steps=STEPS - 13)
    assert_same_bits(run, whole.q[13:], whole.v[13:])


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 9)])
def test_a_case_of_a_batch_equals_the_single_run(model, shape):
    """Any place in any batch: full vectors of cases, and the rest that fills none."""
    q, v, tau = kicked(model, 7, shape)
    run = tb.integrate_rk4(model, q, v, tau, dt=2e-3, steps=STEPS, record_every=10)
    assert run.q.shape == (5, *shape, model.nq)
    assert run.v.shape == (5, *shape, model.nv)
    for case in np.ndindex(shape):
        alone = tb.integrate_rk4(
            model, q[case], v[case], tau[case], dt=2e-3, steps=STEPS, record_every=10
        )
        assert_same_bits(alone, run.q[(slice(None), *case)], run.v[(slice(None), *case)])


def test_batches_split_differently_are_equal(model, monkeypatch):
    """The clock decides about batches no more than about single runs."""
    q, v, tau = kicked(model, 8, (5,))
    runs = []
    for seconds in (0.0, 1e3):
        monkeypatch.setattr(engine_module, "CHUNK_SECONDS", seconds)
        runs.append(tb.integrate_rk4(model, q, v, tau, dt=2e-3, steps=STEPS, record_every=8))
    assert_same_bits(runs[0], runs[1].q, runs[1].v)
