"""Sweeps on clusters of Dask, and on executors."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import tiburon as tb
from tests.parallel.studies import content, deadly, study
from tests.parallel.test_faults import gate as gate
from tests.parallel.test_faults import gated, slow, wait_for, waiting_at

distributed = pytest.importorskip("distributed", reason="needs pip install 'tiburon[sweep]'")

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Return the bytes of the study, undisturbed."""
    path = tmp_path_factory.mktemp("reference") / "study.zarr"
    study(path)
    return content(path)


@pytest.fixture(scope="module")
def threads():
    """Return a client of two workers that are threads of this process."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def processes():
    """Return a client of two worker processes."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_cluster_computes_the_same_bytes(tmp_path, threads, reference):
    """Blocks of a Dask cluster are those of one process."""
    found = study(tmp_path / "dask.zarr", client=threads)
    assert found.is_complete
    assert content(found.path) == reference


def test_executors_compute_the_same_bytes(tmp_path, reference):
    """Any executor of `concurrent.futures` computes a sweep, or a function that makes one."""
    with ThreadPoolExecutor(2) as pool:
        assert content(study(tmp_path / "pool.zarr", client=pool).path) == reference
    made = study(tmp_path / "made.zarr", client=lambda: ThreadPoolExecutor(1))
    assert content(made.path) == reference


def test_workers_of_other_versions_are_refused(tmp_path, threads, reference, monkeypatch):
    """Such a worker is named with both sides before its first block, and the others go on."""
    from tiburon.parallel import dask_workers

    true = dask_workers.identity()
    odd = next(iter(threads.scheduler_info()["workers"].values()))["name"]

    def claimed(dask_worker):
        fake = dask_worker.name in refused
        theirs = {**true, "tiburon": "0.0.1", "python": "3.9"} if fake else true
        return f"host:{dask_worker.name}", theirs, "this kind"

    monkeypatch.setattr(dask_workers, "introduce", claimed)
    refused = {odd}
    said = r"is refused: it has tiburon 0.0.1 instead of .*, Python 3.9 instead of "
    with pytest.warns(tb.TiburonWarning, match=said):
        found = study(tmp_path / "some.zarr", client=threads)
    assert content(found.path) == reference
    refused = {one["name"] for one in threads.scheduler_info()["workers"].values()}
    with (
        pytest.warns(tb.TiburonWarning, match=said),
        pytest.raises(tb.TiburonError, match=r"all \d workers were refused"),
    ):
        study(tmp_path / "all.zarr", client=threads)


GIVEN = []


def keep(entries):
    """Note what a worker was sent."""
    GIVEN.append(entries)


def test_compiled_code_travels_to_workers(tmp_path, threads, monkeypatch):
    """A worker gets the code of its kind of machine: that of the driver, or of another worker."""
    from tiburon.parallel import dask_workers

    given, had = GIVEN, []
    given.clear()
    used_entries = dask_workers.used_entries

    def used(most):
        # this process loads more code later, so what it has at this moment is what it can give
        had.append(used_entries(most))
        return had[-1]

    monkeypatch.setattr(dask_workers, "used_entries", used)
    monkeypatch.setattr(dask_workers, "keep_entries", keep)
    monkeypatch.setattr(dask_workers, "POLL_INTERVAL", 0.0)
    study(tmp_path / "own.zarr", client=threads)
    assert len(given) == 2
    assert had[0]
    assert given == had[:1] * 2
    given.clear()
    had.clear()
    # machines of another kind: the first that has computed a block gives its code to the other
    monkeypatch.setattr(
        dask_workers,
        "introduce",
        lambda dask_worker: (f"host:{dask_worker.name}", dask_workers.identity(), "other"),
    )
    monkeypatch.setattr(
        dask_workers.DaskWorkers,
        "_addresses",
        property(lambda self: WorkerNames(self), lambda self, value: None),
        raising=False,
    )
    study(tmp_path / "other.zarr", client=threads, setup=slow)
    driver, worker = had
    assert worker.items() >= driver.items()
    assert given[0] == worker


class WorkerNames(dict):
    """All names lead to the first accepted worker: threads of one process have one name."""

    def __init__(self, workers):
        super().__init__()
        self._workers = workers

    def get(self, name, default=None):
        return next(iter(sorted(self._workers._accepted)), default)


def test_errors_of_cases_arrive_from_the_cluster(tmp_path, threads):
    """The message names the case, as in one process."""
    from tests.parallel.studies import wrong

    with pytest.raises(tb.CaseError, match=r"case 11 .* no such sea"):
        study(tmp_path / "wrong.zarr", client=threads, setup=wrong)


@pytest.mark.slow
def test_killed_workers_of_a_cluster_cost_no_row(tmp_path, processes, reference):
    """A worker of Dask is killed while it computes; the store is that of an undisturbed sweep."""
    path = tmp_path / "killed.zarr"
    pids = list(processes.run(os.getpid).values())

    def kill():
        wait_for(lambda: list(path.glob("status/receipts/0/*.json")))
        os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = study(path, client=processes, setup=slow)
    killer.join()
    assert found.is_complete
    assert content(path) == reference


@pytest.mark.slow
def test_a_deadly_case_is_isolated_on_a_cluster(tmp_path, processes):
    """Dask runs tasks of dead workers again by itself; the notes of the store count all deaths."""
    found = study(tmp_path / "deadly.zarr", client=processes, setup=deadly)
    status = found.data.status.values.ravel()
    assert status[11] == "lost"
    assert (np.delete(status, 11) == "finished").all()


@pytest.mark.slow
def test_a_broken_pool_is_made_again(tmp_path, reference):
    """A pool that broke ends the sweep with advice; a function that makes pools goes on."""
    path = tmp_path / "pool.zarr"
    with (
        ProcessPoolExecutor(1) as pool,
        pytest.raises(tb.TiburonError, match="a function that makes executors"),
    ):
        study(path, client=pool, setup=deadly)
    found = study(path, client=lambda: ProcessPoolExecutor(1), setup=deadly)
    assert found.data.status.values.ravel()[11] == "lost"
    assert found.progress.outcomes == {"finished": 20, "lost": 1}


@pytest.mark.slow
def test_a_scheduler_that_is_gone_leaves_finished_blocks_safe(tmp_path, reference, gate):
    """The error says how to go on, and resume computes the rest."""
    path, place = tmp_path / "gone.zarr", tmp_path / "scheduler.json"
    given = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(place), "--port", "0"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "env": env}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *given]
    scheduler = subprocess.Popen(command, **quiet)
    wait_for(place.exists)
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1"]
    worker = subprocess.Popen(
        [*command, "--no-nanny", "--no-dashboard", "--scheduler-file", str(place)], **quiet
    )
    try:
        client = distributed.Client(scheduler_file=str(place))
        client.wait_for_workers(1)

        def kill():
            wait_for(lambda: waiting_at(gate))
            scheduler.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(tb.TiburonError, match="the Dask scheduler is gone"):
            study(path, client=client, setup=gated)
        killer.join()
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    gate.touch()
    assert tb.load_sweep(path).resume(workers=0, setup=gated).is_complete
    assert content(path) == reference
