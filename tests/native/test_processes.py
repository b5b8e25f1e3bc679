"""Kernels in several threads and processes, and with a disk cache that fails them."""

import concurrent.futures
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

from tests.native.programs import PROGRAMS, bits, cases, compiled, kernel, parameters_of
from tiburon.errors import CacheWarning, NonFiniteError
from tiburon.native import cache, trampoline
from tiburon.native.code import forget_codes
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.trace import jacobian, trace

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
# Python warns of forking with threads, which is exactly what is tested here
QUIET = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def fresh(number):
    """Give the source of a program that nothing else compiles."""
    program = trace(
        lambda x, y: np.sin(x + float(number)) * y[0] + np.sqrt(1.0 + y @ y),
        {"x": (5,), "y": (3,)},
        name=f"fresh{number}",
    )
    return ProgramSource(program)


def right(number, x, y):
    return np.sin(x + number) * y[..., :1] + np.sqrt(1.0 + (y * y).sum(axis=-1, keepdims=True))


def is_right(found, number, x, y):
    # one sine, one root and two sums, each below 2 ulp
    return np.allclose(found, right(number, x, y), rtol=1e-13, atol=1e-13)


# threads


def test_many_threads_call_one_kernel():
    """Single calls, batches and failures side by side, each with its own numbers."""
    names = sorted(PROGRAMS)
    inputs = [cases(200, seed=seed) for seed in range(6)]
    wanted = [[bits(kernel(name)(x, y)) for name in names] for x, y in inputs]
    singles = [bits(kernel("choices")(x[7], y[7])) for x, y in inputs]

    def work(seed):
        x, y = inputs[seed]
        spoiled = x.copy()
        spoiled[3, 1] = np.nan
        for _ in range(20):
            for name, result in zip(names, wanted[seed], strict=True):
                assert bits(kernel(name)(x, y, threads=2)) == result
            assert bits(kernel("choices")(x[7], y[7])) == singles[seed]
            with pytest.raises(NonFiniteError):
                kernel("choices")(spoiled, y)
        return True

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


def test_many_threads_compile_at_once(kernel_directory):
    """The same kernel and different ones, the single part and the batch part."""
    forget_codes()
    x, y = cases(9)
    start = threading.Barrier(6)

    def work(number):
        start.wait()
        made = make_kernel(fresh(number % 3))
        return is_right(made(x, y), number % 3, x, y) and is_right(
            made(x[0], y[0]), number % 3, x[0], y[0]
        )

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


# processes


def compute(made, x, y):
    return bits(made(x, y)), bits(made(x[0], y[0]))


def send_back(made):
    return made


@pytest.fixture(scope="module")
def spawned():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        yield pool


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_kernel_works_in_another_process(name, spawned):
    """It travels, computes the same bits there, and comes back."""
    x, y = cases(13)
    made = kernel(name)
    there = spawned.submit(compute, made, x, y).result(60)
    assert there == compute(made, x, y)
    returned = spawned.submit(send_back, made).result(60)
    assert returned is not made
    assert compute(returned, x, y) == there


def test_unpickled_program_can_be_traced_further():
    """Its derivative is that of the original, with every shared number shared again."""
    for program in PROGRAMS.values():
        again = pickle.loads(pickle.dumps(program))
        assert again.key == program.key
        here, there = jacobian(program, by="x"), jacobian(again, by="x")
        assert there.key == here.key
        assert len(there.graph.live(there.roots)) == len(here.graph.live(here.roots))


def test_a_batch_kernel_can_be_mapped_over_processes(spawned):
    """The usual way to use it: a pool that maps over inputs."""
    total = compiled(lambda x: x.sum() * 2.0, {"x": (5,)})
    rows = np.arange(20.0).reshape(4, 5)
    assert list(spawned.map(total, rows)) == [2.0 * row.sum() for row in rows]


@FORKS
@QUIET
def test_kernels_work_after_a_fork():
    """Old kernels and new ones, in the child and in the parent."""
    x, y = cases(300)
    wanted = compute(kernel("pendulums"), x, y)
    context = multiprocessing.get_context("fork")

    def child(connection):
        made = make_kernel(fresh(40))
        good = compute(kernel("pendulums"), x, y) == wanted and is_right(made(x, y), 40, x, y)
        connection.send(good)

    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(sender,))
    process.start()
    assert receiver.poll(60)
    assert receiver.recv() is True
    process.join(60)
    assert process.exitcode == 0
    assert compute(kernel("pendulums"), x, y) == wanted


@FORKS
@QUIET
def test_a_fork_while_another_thread_compiles(kernel_directory):
    """The child must not inherit a compiler that is locked for good."""
    context = multiprocessing.get_context("fork")
    stop = threading.Event()
    x, y = cases(5)

    def compile_on_and_on():
        number = 1000
        while not stop.is_set():
            make_kernel(fresh(number))(x, y)
            number += 1

    def child(number):
        made = make_kernel(fresh(number))
        os._exit(0 if is_right(made(x, y), number, x, y) else 1)

    busy = threading.Thread(target=compile_on_and_on)
    busy.start()
    try:
        for number in range(50, 56):
            process = context.Process(target=child, args=(number,))
            process.start()
            process.join(60)
            alive = process.exitcode is None
            if alive:
                process.kill()
            assert not alive
            assert process.exitcode == 0
    finally:
        stop.set()
        busy.join()


# the disk cache


@pytest.fixture
def nothing_in_memory():
    """Drop compiled code, so that the disk cache is read."""
    forget_codes()
    trampoline._trampoline.cache_clear()


def check_all(number=60):
    x, y = cases(7)
    made = make_kernel(fresh(number))
    assert is_right(made(x, y), number, x, y)
    assert is_right(made(x[0], y[0]), number, x[0], y[0])


def test_kernels_are_loaded_from_the_disk_cache(kernel_directory, nothing_in_memory, monkeypatch):
    """The second time nothing is compiled or traced."""
    check_all()
    assert len(list(kernel_directory.glob("*.kernel"))) == 3
    forget_codes()
    trampoline._trampoline.cache_clear()

    def refuse(*_, **options):
        raise AssertionError("compiled again")

    monkeypatch.setattr("tiburon.native.code.compile_module", refuse)
    monkeypatch.setattr("tiburon.native.engine.compile_module", refuse)
    check_all()


def test_kernels_work_without_a_cache(nothing_in_memory, monkeypatch):
    """Turned off, nothing is read, written or said."""
    monkeypatch.setenv("TIBURON_CACHE_DIR", "off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_all()


def test_kernels_work_with_an_unwritable_cache(nothing_in_memory, tmp_path, monkeypatch):
    """One warning, then everything as usual."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TIBURON_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    monkeypatch.setattr(cache, "_warned", set())
    with pytest.warns(CacheWarning, match="cannot write compiled code") as caught:
        check_all()
    assert len(caught) == 1


def test_kernels_in_a_read_only_directory_are_used(kernel_directory, nothing_in_memory):
    """A directory shared by an administrator serves everybody."""
    if os.name != "posix" or os.geteuid() == 0:
        pytest.skip("this user may write everywhere")
    check_all()
    kernel_directory.chmod(0o500)
    try:
        forget_codes()
        check_all()
        with pytest.warns(CacheWarning):
            check_all(61)
    finally:
        kernel_directory.chmod(0o700)


@pytest.mark.parametrize("damage", [b"", b"damaged", None], ids=["empty", "foreign", "cut"])
def test_damaged_entries_are_recompiled(kernel_directory, nothing_in_memory, damage):
    """Every file of the cache spoiled: the same results, and good files again."""
    check_all()
    files = sorted(kernel_directory.glob("*.kernel"))
    sizes = [path.stat().st_size for path in files]
    for path in files:
        path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    forget_codes()
    trampoline._trampoline.cache_clear()
    check_all()
    assert [path.stat().st_size for path in files] == sizes


def test_a_cached_kernel_of_another_process_gives_the_same_bits(kernel_directory):
    """What one process compiled, another loads."""
    x, y = cases(11)
    forget_codes()
    made = make_kernel(ProgramSource(PROGRAMS["pendulums"]), parameters_of("pendulums"))
    wanted = compute(made, x, y)
    script = (
        "import pickle, sys\n"
        "from tests.native.test_processes import compute\n"
        "from tiburon.native import code\n"
        "def refuse(*_, **options): raise SystemExit('compiled again')\n"
        "code.compile_module = refuse\n"
        "made, x, y = pickle.load(sys.stdin.buffer)\n"
        "pickle.dump(compute(made, x, y), sys.stdout.buffer)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps((made, x, y)),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    assert pickle.loads(run.stdout) == wanted
