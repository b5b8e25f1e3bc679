"""The native loop around a kernel: each call starts from what the one before it wrote."""

import gc
import weakref

import numpy as np
import pytest

from tiburon.native import row_loop as row_loop_module
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import Input, trace

RANDOM = np.random.default_rng(77)


def turned(x, gain):
    """Turn a pair of numbers and let it grow; beyond 10 there is no root."""
    a, b = gain * (0.8 * x[0] - 0.6 * x[1]), gain * (0.6 * x[0] + 0.8 * x[1])
    return np.array([a, b], like=x), np.sqrt(100.0 - a * a - b * b)


@pytest.fixture(scope="module")
def kernel():
    """Return the kernel of `turned`, compiled."""
    inputs = [Input("x", (2,)), Input("gain", (), parameter=True)]
    return make_kernel(ProgramSource(trace(turned, inputs)), {"gain": 1.01})


def address(array):
    """Return where the numbers of an array begin."""
    return array.__array_interface__["data"][0]


def job_of(loop, rows, roots, gain):
    """Return calls that write one row after the other."""
    given = {"x": rows[:-1], "gain": None}
    lines = []
    for call in range(len(rows) - 1):
        inputs = [
            address(gain) if given[k] is None else address(given[k][call]) for k in loop.names
        ]
        lines.append([*inputs, address(rows[call + 1]), address(roots[call])])
    table = np.array(lines, dtype=np.int64)
    addresses = row_loop_module.AddressTable(table, np.zeros_like(table))
    return loop.job(addresses, len(lines), batch=rows.ndim == 3)


def expected(kernel, x, calls, gain):
    """Return what single calls give."""
    rows = [x]
    for _ in range(calls):
        rows.append(kernel(rows[-1], gain=gain)[0])
    return np.array(rows)


def test_row_loop_of_one_case_equals_single_calls(kernel):
    """Rows are those of calls one after the other."""
    loop, gain = kernel.__self__.row_loop(), np.array(1.01)
    rows, roots = np.empty((21, 2)), np.empty(20)
    rows[0] = RANDOM.standard_normal(2)
    assert loop.run_one(job_of(loop, rows, roots, gain), 0, 20) == 20
    np.testing.assert_array_equal(rows, expected(kernel, rows[0], 20, gain))


def test_loops_of_threads_that_are_first_together_all_stay(kernel):
    """Only one of them is cached; the code of the other must outlive it."""
    loaded = [weakref.ref(row_loop_module._loops()[0])]
    row_loop_module._loops.cache_clear()
    loaded.append(weakref.ref(row_loop_module._loops()[0]))
    gc.collect()
    assert all(one() is not None for one in loaded)
    assert loaded[0]() is not loaded[1]()


def test_one_case_continues_where_it_stopped(kernel):
    """Calls in two parts write the rows of calls in one."""
    loop, gain = kernel.__self__.row_loop(), np.array(1.01)
    rows, roots = np.empty((21, 2)), np.empty(20)
    rows[0] = RANDOM.standard_normal(2)
    job = job_of(loop, rows, roots, gain)
    assert loop.run_one(job, 0, 7) == 7
    assert loop.run_one(job, 7, 20) == 20
    np.testing.assert_array_equal(rows, expected(kernel, rows[0], 20, gain))


def test_one_case_stops_before_the_call_that_fails(kernel):
    """The number of successful calls determines the valid rows."""
    loop, gain = kernel.__self__.row_loop(), np.array(2.0)
    rows, roots = np.empty((9, 2)), np.empty(8)
    rows[0] = (1.0, 0.0)
    # lengths 2, 4, 8, 16: the fourth call finds no root
    assert loop.run_one(job_of(loop, rows, roots, gain), 0, 8) == 3


def test_tables_restart_at_the_next_row_of_each_block(kernel):
    """Two lines for ten calls: every other result goes to a place of its own."""
    loop, gain = kernel.__self__.row_loop(), np.array(1.01)
    rows, between, roots = np.empty((6, 2)), np.empty(2), np.empty(1)
    rows[0] = RANDOM.standard_normal(2)
    at, beside = address(rows), address(between)
    inputs = {"x": (at, beside), "gain": (address(gain),) * 2}
    table = [
        [*(inputs[k][j] for k in loop.names), (beside, at + 16)[j], address(roots)] for j in (0, 1)
    ]
    rises = np.zeros((2, loop.width), dtype=np.int64)
    rises[0, loop.names.index("x")] = rises[1, len(loop.names)] = rows.strides[0]
    addresses = row_loop_module.AddressTable(np.array(table, dtype=np.int64), rises)
    assert loop.run_one(loop.job(addresses, 10, batch=False), 0, 10) == 10
    np.testing.assert_array_equal(rows, expected(kernel, rows[0], 10, gain)[::2])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cases", [1, 5, 64, 203])
def test_batches_in_blocks_are_single_cases(kernel, monkeypatch, cases, threads):
    """The last block is not full; gains differ from case to case."""
    monkeypatch.setattr(row_loop_module, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(row_loop_module, "MIN_THREAD_WORK", 1e-12)
    loop, gain = kernel.__self__.row_loop(), 1.0 + 0.01 * RANDOM.random(cases)
    rows, roots = np.empty((13, cases, 2)), np.empty((12, cases))
    rows[0] = RANDOM.standard_normal((cases, 2))
    job = job_of(loop, rows, roots, gain)
    steps = np.array([2 if name == "x" else 1 for name in loop.names], dtype=np.int64)
    assert loop.run_many(job, 0, 12, steps, cases, threads) == 12
    np.testing.assert_array_equal(rows, expected(kernel, rows[0], 12, gain))


@pytest.mark.parametrize("threads", [1, 2])
def test_batch_reports_the_steps_completed_by_each_case(kernel, monkeypatch, threads):
    """The first failure of any case counts, in whichever block or thread it is."""
    monkeypatch.setattr(row_loop_module, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(row_loop_module, "MIN_THREAD_WORK", 1e-12)
    loop, cases = kernel.__self__.row_loop(), 130
    steps = np.array([2 if name == "x" else 0 for name in loop.names], dtype=np.int64)
    gain = np.array(2.0)
    for early, late in ((3, 120), (120, 3)):
        rows, roots = np.zeros((9, cases, 2)), np.empty((8, cases))
        rows[0, early], rows[0, late] = (1.0, 0.0), (0.0, 0.3)
        job = job_of(loop, rows, roots, gain)
        assert loop.run_many(job, 0, 8, steps, cases, threads) == 3
        wanted = expected(kernel, rows[0, late], 3, gain)
        np.testing.assert_array_equal(rows[:4, late], wanted)
