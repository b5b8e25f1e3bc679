"""How much memory runs take: a bounded multiple of what they record, or of a chunk."""

import tracemalloc

import numpy as np
import pytest

import tiburon as tb
from tests.results import trajectory_samples as samples
from tests.robots import double_pendulum
from tiburon.simulation.recorder import Recorder

OVERHEAD = 3_000_000
"""For what does not grow with the rows: portions on their way, code, caches [bytes]."""


def peak_of(call):
    """Return what a call gives, and the most memory that Python and NumPy held meanwhile."""
    tracemalloc.start()
    try:
        found = call()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def recorded_bytes(run):
    """Return the size of the recorded arrays."""
    return len(run) * run.header.row_bytes


@pytest.mark.parametrize("known", [True, False])
def test_rows_in_memory_are_held_at_most_twice(known):
    """Also where their number is not known, and blocks must be joined at the end."""
    model = double_pendulum()
    count, portion = 200_000, 500
    time, columns = samples.rows(model, portion)

    def fill():
        recorder = Recorder(samples.header(model), rows=count if known else None)
        for _ in range(0, count, portion):
            recorder.append(time, columns, samples.checkpoint)
        return recorder.finish(samples.outcomes(model), [], samples.checkpoint())

    run, peak = peak_of(fill)
    assert len(run) == count
    assert peak < (1.0 if known else 2.0) * recorded_bytes(run) + OVERHEAD


def test_a_stream_holds_a_chunk(tmp_path):
    """However many rows there are."""
    model = double_pendulum()
    batch, portion = (2000,), 20
    time, columns = samples.rows(model, portion, batch)

    def fill():
        recorder = Recorder(samples.header(model, batch), store=tmp_path / "run.zarr")
        for _ in range(30):
            recorder.append(time, columns, samples.checkpoint)
        return recorder.finish(samples.outcomes(model, 2000), [], samples.checkpoint())

    run, peak = peak_of(fill)
    assert recorded_bytes(run) > 65_000_000
    # a chunk of 16 MB, and what is made of it on its way to disk
    assert peak < 50_000_000


@pytest.mark.slow
def test_a_minute_of_thirty_freedoms_at_a_kilohertz_takes_twice_its_arrays():
    """60 s at 1 ms, every step recorded."""
    model = tb.load("chain_100")
    model = model.lock(model.joint_names[30:])
    assert model.nv == 30
    _, v = model.random_state(np.random.default_rng(0))
    tb.simulate(model, 0.01, v=0.1 * v, dt=1e-3)
    run, peak = peak_of(
        lambda: tb.simulate(model, 60.0, v=0.1 * v, dt=1e-3, record_every=1, progress=False)
    )
    assert len(run) == 60_001
    assert recorded_bytes(run) > 43_000_000
    assert peak < 2.0 * recorded_bytes(run)


@pytest.mark.slow
def test_a_large_batch_streams_in_little_memory(tmp_path):
    """A gigabyte of 4096 cases needs no more than its state and a chunk."""
    model = double_pendulum()
    q, v = model.random_state(np.random.default_rng(0), (4096,))
    tb.simulate(model, 0.01, q=q, v=v, dt=1e-3)
    run, peak = peak_of(
        lambda: tb.simulate(
            model, 5.0, q=q, v=v, dt=1e-3, record_every=1, store=tmp_path / "run.zarr"
        )
    )
    assert recorded_bytes(run) > 980_000_000
    assert peak < 100_000_000
