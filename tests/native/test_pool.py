"""Worker threads do every case once, wherever they are called from, and leave nothing behind."""

import ctypes
import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from tiburon.errors import DomainError
from tiburon.native import pool
from tiburon.native.pool import default_threads, run_in_parts

# a process that hangs is a failed test, not a hung one
PATIENCE = 60.0

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Recorder:
    """Note the parts that were run and the threads that ran them."""

    def __init__(self, action=lambda begin, end: 0):
        self.parts = []
        self.threads = set()
        self._action = action
        self._lock = threading.Lock()

    def __call__(self, begin, end):
        with self._lock:
            self.parts.append((begin, end))
            self.threads.add(threading.get_ident())
        return self._action(begin, end)


def meet(count):
    """Return a part that ends only when so many threads are inside it at once."""
    barrier = threading.Barrier(count)

    def part(begin, end):
        barrier.wait(PATIENCE)
        return 0

    return part


# splitting


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_parts_cover_every_case_once(threads):
    """Parts are contiguous, begin at multiples of the granule and are nearly equal."""
    for count, granule in itertools.product([1, 7, 8, 9, 64, 1000, 1001], [1, 8, 100]):
        recorder = Recorder()
        run_in_parts(recorder, count, threads=threads, granule=granule)
        parts = sorted(recorder.parts)
        assert [case for begin, end in parts for case in range(begin, end)] == list(range(count))
        assert all(begin % granule == 0 for begin, _ in parts)
        granules = -(-count // granule)
        assert len(parts) == min(threads, granules), (count, granule)
        lengths = [-(-(end - begin) // granule) for begin, end in parts]
        assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("count", [0, -1])
def test_empty_batch_starts_no_thread(count):
    """An empty batch calls nothing."""
    recorder = Recorder()
    assert run_in_parts(recorder, count, threads=4, granule=8) == 0
    assert recorder.parts == []


def test_statuses_are_joined_bit_by_bit():
    """A status of any part is a status of the whole."""
    statuses = {0: 1, 8: 0, 16: 4, 24: 0}
    assert run_in_parts(lambda begin, end: statuses[begin], 32, threads=4, granule=8) == 5
    assert run_in_parts(lambda begin, end: 0, 32, threads=4, granule=8) == 0


# threads


def test_parts_run_side_by_side():
    """Four parts that wait for each other come to an end: they run in four threads at once."""
    recorder = Recorder(meet(4))
    run_in_parts(recorder, 4, threads=4, granule=1)
    assert len(recorder.threads) == 4
    assert threading.get_ident() in recorder.threads


def test_worker_threads_are_reused():
    """A hundred calls need no more threads than one."""
    run_in_parts(meet(3), 3, threads=3, granule=1)
    before = threading.active_count()
    seen = set()
    for _ in range(100):
        recorder = Recorder(meet(3))
        run_in_parts(recorder, 3, threads=3, granule=1)
        seen |= recorder.threads
    assert threading.active_count() == before
    assert all(thread.daemon for thread in threading.enumerate() if "tiburon" in thread.name)


def test_native_code_in_parts_writes_every_row():
    """Foreign functions that release the lock fill their rows, and nothing else."""
    memset = ctypes.CDLL(None).memset if os.name != "nt" else ctypes.cdll.msvcrt.memset
    memset.restype, memset.argtypes = None, [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    rows = np.zeros(1003 * 16, dtype=np.uint8)
    start = rows.ctypes.data

    def part(begin, end):
        memset(start + 16 * begin, 7, 16 * (end - begin))
        return 0

    run_in_parts(part, 1003, threads=3, granule=8)
    assert np.all(rows == 7)


def test_nested_calls_run_on_the_calling_thread():
    """A call from inside a part, in a worker or in the caller, neither splits nor waits."""
    inner = []
    together = meet(2)

    def part(begin, end):
        # both parts at once, so that one is in a worker
        together(begin, end)
        recorder = Recorder()
        status = run_in_parts(recorder, 100, threads=4, granule=1)
        inner.append((recorder.parts, recorder.threads == {threading.get_ident()}))
        return status

    run_in_parts(part, 2, threads=2, granule=1)
    assert inner == [([(0, 100)], True)] * 2
    # afterwards the caller may split again
    recorder = Recorder()
    run_in_parts(recorder, 2, threads=2, granule=1)
    assert len(recorder.parts) == 2


def test_concurrent_callers_get_their_own_results():
    """Eight threads share the workers without mixing up results and without deadlock."""
    failures = []

    def caller(number):
        rng = np.random.default_rng(number)
        for _ in range(200):
            count = int(rng.integers(1, 200))
            done = np.zeros(count, dtype=np.int64)

            def part(begin, end, done=done):
                done[begin:end] += 1
                return 1 << number

            if run_in_parts(part, count, threads=4, granule=8) != 1 << number:
                failures.append((number, "status"))
            if not np.all(done == 1):
                failures.append((number, done))

    callers = [threading.Thread(target=caller, args=(n,), daemon=True) for n in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in callers)
    assert failures == []


def test_caller_runs_parts_that_busy_workers_have_not_started():
    """A call made while the workers are held up elsewhere ends before they do."""
    release = threading.Event()
    inside = threading.Barrier(3)

    def hold(begin, end):
        inside.wait(PATIENCE)
        release.wait(PATIENCE)
        return 0

    run_in_parts(meet(2), 2, threads=2, granule=1)
    holder = threading.Thread(target=run_in_parts, args=(hold, 2), kwargs={"threads": 2})
    holder.start()
    inside.wait(PATIENCE)
    # keep even workers of earlier tests out of the way
    idle = len([thread for thread in threading.enumerate() if "tiburon" in thread.name]) - 1
    blockers = [
        threading.Thread(
            target=run_in_parts, args=(hold_quietly(release), 2), kwargs={"threads": 2}
        )
        for _ in range(idle)
    ]
    for blocker in blockers:
        blocker.start()
    try:
        recorder = Recorder()
        run_in_parts(recorder, 2, threads=2, granule=1)
        assert sorted(recorder.parts) == [(0, 1), (1, 2)]
        # the workers are still held
        assert holder.is_alive()
    finally:
        release.set()
        for thread in (holder, *blockers):
            thread.join(PATIENCE)


def hold_quietly(release):
    """Return a part that lasts until the event."""

    def part(begin, end):
        release.wait(PATIENCE)
        return 0

    return part


def test_caller_runs_all_parts_if_no_thread_can_start(monkeypatch):
    """A system that refuses threads makes it slower, not wrong."""

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool, "_pool", pool._Pool())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    recorder = Recorder()
    assert run_in_parts(recorder, 32, threads=4, granule=8) == 0
    assert len(recorder.parts) == 4
    assert recorder.threads == {threading.get_ident()}


def test_stack_size_of_other_threads_is_left_alone(monkeypatch):
    """Starting workers changes no setting that the program's own threads see."""
    before = threading.stack_size()
    monkeypatch.setattr(pool, "_pool", pool._Pool())
    run_in_parts(meet(2), 2, threads=2, granule=1)
    assert threading.stack_size() == before
    pool._pool.stop()


# errors


@pytest.mark.parametrize("failing", ["caller", "worker", "both"])
def test_errors_reach_the_caller_after_all_parts_ended(failing):
    """The exception of a part, whichever thread it ran in, is raised by the call itself."""
    caller = threading.get_ident()
    together = meet(2)
    ended = []

    def part(begin, end):
        together(begin, end)
        role = "caller" if threading.get_ident() == caller else "worker"
        if failing in (role, "both"):
            raise LookupError(f"part {begin}")
        time.sleep(0.05)
        ended.append(begin)
        return 0

    with pytest.raises(LookupError, match="part"):
        run_in_parts(part, 2, threads=2, granule=1)
    assert len(ended) == (0 if failing == "both" else 1)
    # the pool is as good as before
    run_in_parts(meet(2), 2, threads=2, granule=1)


def test_arrays_are_released_when_a_call_ends():
    """Neither a waiting worker nor an error keeps the arrays of a batch alive."""

    class Rows:
        pass

    def call(fail):
        rows = Rows()
        together = meet(2)

        def part(begin, end, rows=rows):
            together(begin, end)
            if fail:
                raise LookupError("expected")
            return 0

        try:
            run_in_parts(part, 2, threads=2, granule=1)
        except LookupError:
            assert fail
        weakref.finalize(rows, released.set)

    gc.collect()
    gc.disable()
    try:
        for fail in (False, True):
            released = threading.Event()
            call(fail)
            # the worker reports before it drops its last reference to the job
            assert released.wait(PATIENCE)
    finally:
        gc.enable()


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind exist on POSIX only")
def test_interrupt_waits_for_running_parts():
    """Ctrl-C while a worker still writes: the call ends only after the worker did."""
    main = threading.get_ident()
    together = meet(2)
    ended = []

    def part(begin, end):
        together(begin, end)
        if threading.get_ident() != main:
            time.sleep(0.1)
            # twice: the impatient press again
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
            ended.append(begin)
        return 0

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_parts(part, 2, threads=2, granule=1)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert len(ended) == 1
    run_in_parts(meet(2), 2, threads=2, granule=1)


# processes


def count_threads_in_child(answers):
    recorder = Recorder(meet(3))
    run_in_parts(recorder, 3, threads=3, granule=1)
    answers.put(len(recorder.threads))


@FORKS
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_pool_works_after_fork_and_in_the_parent_too():
    """A forked child has no workers; it starts its own."""
    run_in_parts(meet(3), 3, threads=3, granule=1)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=count_threads_in_child, args=(answers,))
    child.start()
    assert answers.get(timeout=PATIENCE) == 3
    child.join(PATIENCE)
    assert child.exitcode == 0
    run_in_parts(meet(3), 3, threads=3, granule=1)


@FORKS
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_pool_works_after_fork_in_the_middle_of_a_call():
    """A fork while other threads are inside the pool must not copy a held lock."""
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            run_in_parts(lambda begin, end: 0, 64, threads=4, granule=8)

    busy = [threading.Thread(target=keep_busy, daemon=True) for _ in range(2)]
    for thread in busy:
        thread.start()
    context = multiprocessing.get_context("fork")
    try:
        for _ in range(5):
            answers = context.Queue()
            child = context.Process(target=count_threads_in_child, args=(answers,))
            child.start()
            assert answers.get(timeout=PATIENCE) == 3
            child.join(PATIENCE)
    finally:
        stop.set()
        for thread in busy:
            thread.join(PATIENCE)


EXIT_SCRIPT = """
import atexit, time
from tiburon.native.pool import run_in_parts

def late():
    print("late", run_in_parts(lambda begin, end: begin, 2, threads=2, granule=1))

def part(begin, end):
    time.sleep(0.01)
    return 0
run_in_parts(part, 4, threads=4, granule=1)
atexit.register(late)
{ending}
"""


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)"])
def test_interpreter_exits_promptly_and_silently(ending):
    """Idle workers neither keep the process alive nor print anything on its way out."""
    script = EXIT_SCRIPT.format(ending=ending)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == "late 1\n"
    assert done.stderr == ""


def test_calls_after_the_workers_were_stopped_still_work():
    """The very last handlers at exit find no workers, and need none."""
    script = (
        "import atexit\n"
        "atexit.register(lambda: print(run_in_parts(lambda a, b: 1 << a, 4, threads=4)))\n"
        "from tiburon.native.pool import run_in_parts\n"
        "run_in_parts(lambda a, b: 0, 4, threads=4)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert (done.stdout, done.stderr) == ("15\n", "")


# settings


def test_thread_count_follows_the_environment(monkeypatch):
    """TIBURON_THREADS decides; otherwise the cores this process may use."""
    monkeypatch.setenv("TIBURON_THREADS", " 3 ")
    assert default_threads() == 3
    monkeypatch.setenv("TIBURON_THREADS", "")
    assert 1 <= default_threads() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_thread_count_follows_the_affinity(monkeypatch):
    """A process bound to one core uses one thread."""
    monkeypatch.delenv("TIBURON_THREADS", raising=False)
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert default_threads() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("setting", ["0", "-2", "two", "1.5", "²"])
def test_invalid_thread_count_raises_an_error(monkeypatch, setting):
    """A slip in the environment is distinguished from a slow machine."""
    monkeypatch.setenv("TIBURON_THREADS", setting)
    with pytest.raises(DomainError, match=r"TIBURON_THREADS: expected a whole number .* unset"):
        default_threads()
