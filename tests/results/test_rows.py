"""Recorded rows in memory: bounded size, and reuse of freed buffers by later runs."""

import gc
import pickle
import threading
import tracemalloc

import numpy as np
import pytest

import tiburon as tb
from tests.results import trajectory_samples as samples
from tests.robots import double_pendulum
from tiburon.native import result_memory as pool
from tiburon.native.result_memory import POOLED_BUFFER_BYTES, allocate_results, pooled_bytes
from tiburon.results import store as store_module
from tiburon.simulation.recorder import Recorder

COUNT = POOLED_BUFFER_BYTES // 8


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    gc.collect()
    pooled_bytes()
    monkeypatch.setattr(pool, "_pool", {})
    monkeypatch.setattr(pool, "_size", 0)


def test_buffers_are_reused_after_all_views_are_freed():
    rows = allocate_results((COUNT // 4, 4))
    assert rows.shape == (COUNT // 4, 4)
    assert rows.flags.writeable
    assert rows.flags.c_contiguous
    rows[:] = 1.0
    address, view = rows.ctypes.data, rows[3:5, 1]
    del rows
    gc.collect()
    # the view still reads it
    other = allocate_results((COUNT // 4, 4))
    other[:] = 2.0
    assert other.ctypes.data != address
    assert (view == 1.0).all()
    assert pooled_bytes() == 0
    del view
    gc.collect()
    assert pooled_bytes() == POOLED_BUFFER_BYTES
    # another shape of the same size
    assert allocate_results((COUNT,)).ctypes.data == address


def test_small_buffers_and_other_sizes_are_allocated():
    assert allocate_results((3, 2)).flags.owndata
    del_me = allocate_results((COUNT,))
    del del_me
    gc.collect()
    assert allocate_results((COUNT + 1,)).size == COUNT + 1
    assert allocate_results((0, 7)).shape == (0, 7)


def test_pooled_buffers_are_limited(monkeypatch):
    monkeypatch.setattr(pool, "POOL_BYTES", 3 * POOLED_BUFFER_BYTES)
    pieces = [allocate_results((COUNT + k,)) for k in range(4)]
    sizes = [piece.size for piece in pieces]
    while pieces:
        # the first goes first
        del pieces[0]
    gc.collect()
    assert pooled_bytes() <= 3 * POOLED_BUFFER_BYTES
    assert list(pool._pool) == sizes[2:]
    huge = allocate_results((4 * COUNT,))
    del huge
    gc.collect()
    assert list(pool._pool) == sizes[2:]


def test_threads_never_share_a_buffer():
    wrong = []

    def work(number):
        for _ in range(200):
            rows = allocate_results((COUNT,))
            rows[:: COUNT // 7] = number
            if not (rows[:: COUNT // 7] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_referenced_runs_keep_their_values():
    """A run, its pickled copy, and the next run in memory of one that is gone: the same bits."""
    robot = tb.load("pendulum")
    cases = POOLED_BUFFER_BYTES // 8 // 20
    q = np.linspace(-3.0, 3.0, cases)[:, None]
    settings = {"method": tb.RK4(dt=0.01), "execution": tb.Execution(progress=False)}
    gone = tb.simulate(robot, 0.2, q=q[::-1], **settings)
    kept = tb.simulate(robot, 0.2, q=q, **settings)
    before = kept.q.copy()
    assert gone.q.nbytes >= POOLED_BUFFER_BYTES
    del gone
    gc.collect()
    waiting = pooled_bytes()
    again = tb.simulate(robot, 0.2, q=q, **settings)
    # positions and velocities lie where those of the run that is gone lay
    assert pooled_bytes() <= waiting - 2 * again.q.nbytes
    np.testing.assert_array_equal(again.q, before)
    np.testing.assert_array_equal(kept.q, before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).q, before)


@pytest.mark.parametrize(
    "options", [{"method": tb.RK4(dt=0.01)}, {"method": tb.DormandPrince(dt=0.01)}]
)
def test_rows_of_a_freed_run_wait_for_no_garbage_collector(options):
    """Reference cycles would keep the rows: loops over runs would get fresh memory every time."""
    robot = tb.load("pendulum")
    q = np.zeros((POOLED_BUFFER_BYTES // 8 // 20, 1))
    gc.collect()
    gc.disable()
    try:
        run = tb.simulate(
            robot,
            0.2,
            q=q,
            record=tb.Record(every=1),
            execution=tb.Execution(progress=False),
            **options,
        )
        size = run.q.nbytes + run.v.nbytes
        assert run.q.nbytes >= POOLED_BUFFER_BYTES
        before = pooled_bytes()
        del run
        assert pooled_bytes() >= before + size
    finally:
        gc.enable()


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


def test_streaming_keeps_one_chunk_in_memory(tmp_path, monkeypatch):
    """However many rows there are."""
    model = double_pendulum()
    # modules are loaded before memory is measured
    samples.recorded(model, store=tmp_path / "first.zarr")
    monkeypatch.setattr(store_module, "CHUNK_BYTES", 4_000_000)
    batch, portion = (500,), 20
    time, columns = samples.rows(model, portion, batch)

    def fill():
        recorder = Recorder(samples.header(model, batch), store=tmp_path / "run.zarr")
        for _ in range(30):
            recorder.append(time, columns, samples.checkpoint)
        return recorder.finish(samples.outcomes(model, 500), [], samples.checkpoint())

    run, peak = peak_of(fill)
    assert recorded_bytes(run) > 16_000_000
    # a chunk of 4 MB, and what is made of it on its way to disk
    assert peak < 12_500_000


@pytest.mark.slow
def test_a_minute_of_thirty_degrees_of_freedom_at_a_kilohertz_takes_twice_its_arrays():
    """60 s at 1 ms, every step recorded."""
    model = tb.load("chain_100")
    model = model.lock(model.joint_names[30:])
    assert model.nv == 30
    _, v = model.random_state(np.random.default_rng(0))
    tb.simulate(model, 0.01, v=0.1 * v, method=tb.RK4(dt=1e-3))
    run, peak = peak_of(
        lambda: tb.simulate(
            model,
            60.0,
            v=0.1 * v,
            method=tb.RK4(dt=1e-3),
            record=tb.Record(every=1),
            execution=tb.Execution(progress=False),
        )
    )
    assert len(run) == 60_001
    assert recorded_bytes(run) > 43_000_000
    assert peak < 2.0 * recorded_bytes(run)


@pytest.mark.slow
def test_a_large_batch_streams_in_little_memory(tmp_path):
    """A gigabyte of 4096 cases needs no more than its state and a chunk."""
    model = double_pendulum()
    q, v = model.random_state(np.random.default_rng(0), (4096,))
    tb.simulate(model, 0.01, q=q, v=v, method=tb.RK4(dt=1e-3))
    run, peak = peak_of(
        lambda: tb.simulate(
            model,
            5.0,
            q=q,
            v=v,
            method=tb.RK4(dt=1e-3),
            record=tb.Record(every=1, store=tmp_path / "run.zarr"),
        )
    )
    assert recorded_bytes(run) > 980_000_000
    assert peak < 100_000_000
