"""Memory of runs that nobody holds any more serves the next ones, and never one that is held."""

import gc
import pickle
import threading

import numpy as np
import pytest

import tiburon as tb
from tiburon.results import result_memory
from tiburon.results.result_memory import SMALLEST, kept_bytes, row_memory

COUNT = SMALLEST // 8


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    gc.collect()
    kept_bytes()
    monkeypatch.setattr(result_memory, "_kept", [])


def test_memory_serves_again_once_all_views_are_gone():
    rows = row_memory((COUNT // 4, 4))
    assert rows.shape == (COUNT // 4, 4)
    assert rows.flags.writeable
    assert rows.flags.c_contiguous
    rows[:] = 1.0
    address, view = rows.ctypes.data, rows[3:5, 1]
    del rows
    gc.collect()
    # the view still reads it
    other = row_memory((COUNT // 4, 4))
    other[:] = 2.0
    assert other.ctypes.data != address
    assert (view == 1.0).all()
    assert kept_bytes() == 0
    del view
    gc.collect()
    assert kept_bytes() == SMALLEST
    # another shape of the same size
    assert row_memory((COUNT,)).ctypes.data == address


def test_small_pieces_and_other_sizes_are_new():
    assert row_memory((3, 2)).flags.owndata
    del_me = row_memory((COUNT,))
    del del_me
    gc.collect()
    assert row_memory((COUNT + 1,)).size == COUNT + 1
    assert row_memory((0, 7)).shape == (0, 7)


def test_what_is_kept_has_a_limit(monkeypatch):
    monkeypatch.setattr(result_memory, "MOST_KEPT", 3 * SMALLEST)
    pieces = [row_memory((COUNT + k,)) for k in range(4)]
    sizes = [piece.size for piece in pieces]
    while pieces:
        # the first goes first
        del pieces[0]
    gc.collect()
    assert kept_bytes() <= 3 * SMALLEST
    assert [memory.size for memory in result_memory._kept] == sizes[2:]
    huge = row_memory((4 * COUNT,))
    del huge
    gc.collect()
    assert [memory.size for memory in result_memory._kept] == sizes[2:]


def test_threads_never_share_a_piece():
    wrong = []

    def work(number):
        for _ in range(200):
            rows = row_memory((COUNT,))
            rows[:: COUNT // 7] = number
            if not (rows[:: COUNT // 7] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_runs_that_are_held_keep_their_numbers():
    """A run, its pickled copy, and the next run in memory of one that is gone: the same bits."""
    robot = tb.load("pendulum")
    cases = SMALLEST // 8 // 20
    q = np.linspace(-3.0, 3.0, cases)[:, None]
    settings = {"dt": 0.01, "progress": False}
    gone = tb.simulate(robot, 0.2, q=q[::-1], **settings)
    kept = tb.simulate(robot, 0.2, q=q, **settings)
    before = kept.q.copy()
    assert gone.q.nbytes >= SMALLEST
    del gone
    gc.collect()
    waiting = kept_bytes()
    again = tb.simulate(robot, 0.2, q=q, **settings)
    # positions and velocities lie where those of the run that is gone lay
    assert kept_bytes() <= waiting - 2 * again.q.nbytes
    np.testing.assert_array_equal(again.q, before)
    np.testing.assert_array_equal(kept.q, before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).q, before)
