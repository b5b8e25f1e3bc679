"""Sweeps whose workers, drivers and files come to harm; each row of the table of faults."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tiburon as tb
from tests.parallel.studies import content, deadly, start, study
from tiburon.parallel.driver_lock import DriverLock, drivers_of

posix = pytest.mark.skipif(os.name != "posix", reason="kills processes by signals of POSIX")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Return the bytes of the study, undisturbed."""
    path = tmp_path_factory.mktemp("reference") / "study.zarr"
    study(path)
    return content(path)


def slow(point, stream):
    """Take a while, so that workers can be killed at work."""
    time.sleep(0.05)
    return start(point, stream)


def gated(point, stream):
    """Wait at case 9, in the third block, until the gate is open: a file.

    A file with the number of the process says that it waits.
    """
    gate = Path(os.environ["TIBURON_TEST_GATE"])
    if point.case == 9 and not gate.exists():
        gate.with_suffix(f".{os.getpid()}").touch()
        while not gate.exists():
            time.sleep(0.01)
    return start(point, stream)


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """Return the file that opens the gate."""
    monkeypatch.setenv("TIBURON_TEST_GATE", str(tmp_path / "gate"))
    return tmp_path / "gate"


def waiting_at(gate):
    """Return the processes that have come to the gate."""
    return {int(file.suffix[1:]) for file in gate.parent.glob("gate.*")}


@posix
@pytest.mark.slow
def test_a_deadly_case_is_isolated(tmp_path, reference):
    """After three deaths its block is halved until the case is left, which is lost alone."""
    found = study(tmp_path / "deadly.zarr", setup=deadly, workers=2)
    status = found.data.status.values.ravel()
    assert status[11] == "lost"
    assert (np.delete(status, 11) == "finished").all()
    assert found.progress.outcomes == {"finished": 20, "lost": 1}
    assert found.progress.messages == {11: "lost: every worker that ran it ended"}
    mine = content(found.path)
    assert {name for name in mine if mine[name] != reference[name]} == {
        f"{name}/c/2{rest}"
        for name, rest in (
            ("joint_position", "/0/0"),
            ("joint_velocity", "/0/0"),
            ("command", "/0/0"),
            ("status", ""),
            ("end_time", ""),
        )
    }
    assert not list(found.path.glob("status/attempts/*"))


@posix
def test_killed_workers_cost_no_row(tmp_path, reference, gate):
    """Workers are killed while they compute; no finished block runs again, all bytes are there."""
    path = tmp_path / "killed.zarr"

    def kill():
        for count in (1, 2):
            before = waiting_at(gate) if count == 2 else set()
            wait_for(lambda count=count: len(waiting_at(gate)) == count)
            (worker,) = waiting_at(gate) - before
            os.kill(worker, signal.SIGKILL)
        gate.touch()

    killer = threading.Thread(target=kill)
    killer.start()
    found = study(path, setup=gated, workers=1)
    killer.join()
    assert len(waiting_at(gate)) == 2
    assert found.is_complete
    assert content(path) == reference
    receipts = [
        json.loads(json.loads(f.read_text())["receipt"]) for f in path.glob("status/r*/*/*")
    ]
    assert sorted(receipt["block"] for receipt in receipts) == list(range(6))


def workers_of(pid):
    """Return the worker processes of a driver."""
    found = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    lines = [line.split(None, 1) for line in found.stdout.splitlines()]
    return [int(number) for number, command in lines if "local_worker" in command]


DRIVER = """
import sys
from tests.parallel.studies import study
from tests.parallel import test_faults
study(sys.argv[1], setup=getattr(test_faults, sys.argv[3]), workers=int(sys.argv[2]))
"""


def driver(path, workers, setup="slow"):
    """Start a driver in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path), str(workers), setup],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, process=None):
    """Wait until something is there."""
    end = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < end, "waited for a minute"
        if process is not None:
            assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)


@posix
def test_a_killed_driver_is_resumed(tmp_path, reference, gate):
    """Receipts count, the rest runs; a second driver is refused while the first is alive."""
    path = tmp_path / "resumed.zarr"
    first = driver(path, 0, "gated")
    try:
        wait_for(lambda: waiting_at(gate), first)
        with pytest.raises(tb.RunFileError, match=rf"is being computed by process {first.pid} on "):
            study(path, setup=gated)
        alive = tb.load_sweep(path).progress.drivers
        assert [one.pid for one in alive] == [first.pid]
    finally:
        first.kill()
        first.communicate()
    done = {file: file.stat().st_mtime_ns for file in path.glob("status/receipts/0/*.json")}
    assert len(done) == 2
    left = path / "status" / "c" / f"2.{32 * 'a'}.partial"
    left.write_bytes(b"what it was writing")
    gate.touch()
    assert study(path, setup=gated).is_complete
    assert not left.exists()
    assert content(path) == reference
    assert done == {file: file.stat().st_mtime_ns for file in done}


@posix
@pytest.mark.slow
def test_interrupted_sweeps_finish_their_blocks(tmp_path, reference, gate):
    """Ctrl-C lets running blocks finish, says what is safe, and leaves nothing running."""
    path = tmp_path / "interrupted.zarr"
    first = driver(path, 1, "gated")
    wait_for(lambda: waiting_at(gate), first)
    mine = workers_of(first.pid)
    assert mine
    first.send_signal(signal.SIGINT)
    gate.touch()
    _, said = first.communicate(timeout=60)
    assert "KeyboardInterrupt: sweep" in said
    assert "are safe" in said
    assert not any(_exists(pid) for pid in mine)
    assert 3 <= tb.load_sweep(path).progress.blocks_done < 6
    assert study(path, setup=gated).is_complete
    assert content(path) == reference


def _exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_drivers_of_other_hosts_count_while_their_heart_beats(tmp_path):
    """A recent heartbeat refuses a second driver; an old one does not; parts are independent."""
    path = tmp_path / "hosts.zarr"
    study(path, execution=tb.Execution(budget=1e-9))
    other = path / "status/drivers/1-of-3.json"
    other.write_text(json.dumps({"host": "elsewhere", "pid": 7, "since": 0.0, "session": "x"}))
    for part in ((0, 1), (1, 3), (1, 2), (4, 6)):
        with pytest.raises(tb.RunFileError, match="process 7 on elsewhere since"):
            DriverLock(path, part)
    for part in ((0, 3), (2, 3), (0, 6)):
        DriverLock(path, part).release()
    os.utime(other, (time.time() - 120.0, time.time() - 120.0))
    assert [one.is_alive for one in drivers_of(path)] == [False]
    assert study(path).is_complete


def test_a_full_disk_leaves_finished_blocks_safe(tmp_path, monkeypatch, reference):
    """The error says up to which block results are safe; with room made, resume goes on."""
    from tiburon.parallel import sweep_store

    path = tmp_path / "full.zarr"
    syncing = sweep_store.sync_files
    room = [3]

    def full(files):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        syncing(files)

    monkeypatch.setattr(sweep_store, "sync_files", full)
    with pytest.raises(
        tb.RunFileError, match=r"No space left on device.*blocks 0 to 2 of 6 are safe"
    ):
        study(path)
    assert tb.load_sweep(path).progress.blocks_done == 3
    monkeypatch.undo()
    assert tb.load_sweep(path).resume(workers=0, setup=start).is_complete
    assert content(path) == reference


@posix
@pytest.mark.slow
def test_a_small_file_system_fills_up(tmp_path, reference):
    """On a small file system a sweep ends with an error, and goes on when there is room."""
    place = tmp_path / "small"
    place.mkdir()
    script = f"""
set -e
mount -t tmpfs -o size=2m none {place}
{sys.executable} - <<'END'
import os, sys
import tiburon as tb
from tests.parallel.studies import start, study, content
path = "{place}/study.zarr"
filler = open("{place}/filler", "wb")
try:
    study(path, execution=tb.Execution(budget=1e-9))
    free = os.statvfs("{place}")
    filler.write(bytes(max(0, free.f_bavail * free.f_frsize - 60 * 1024)))
    filler.flush()
    study(path)
except tb.RunFileError as error:
    print(error)
    assert "No space left" in str(error), error
else:
    raise SystemExit("the disk did not fill up")
print(tb.load_sweep(path).progress.blocks_done)
filler.truncate(0)
assert tb.load_sweep(path).resume(workers=0, setup=start).is_complete
import pickle
pickle.dump(content(path), open("{tmp_path}/content.pickle", "wb"))
END
"""
    in_namespace(script, f"mount -t tmpfs none {place}")
    import pickle

    assert pickle.loads((tmp_path / "content.pickle").read_bytes()) == reference


def in_namespace(script, mount):
    """Run a script that mounts file systems; skip where that is not allowed."""
    command = ["unshare", "--mount", "--user", "--map-root-user", "bash", "-c"]
    probe = subprocess.run([*command, mount], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("file systems cannot be mounted in a namespace of users here")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*command, script], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


@posix
@pytest.mark.slow
def test_a_read_only_file_system_leaves_finished_blocks_safe(tmp_path):
    """The error names the store and the reason, also for root; with writing allowed, it goes on.

    Finished, it is read where nothing can be written.
    """
    place = tmp_path / "small"
    place.mkdir()
    script = f"""
set -e
mount -t tmpfs none {place}
{sys.executable} - <<'END'
import subprocess
import tiburon as tb
from tests.parallel.studies import start, study
path = "{place}/study.zarr"
study(path, execution=tb.Execution(budget=1e-9))
done = tb.load_sweep(path).progress.blocks_done
subprocess.run(["mount", "-o", "remount,ro", "{place}"], check=True)
for refused in (lambda: study(path), lambda: study("{place}/other.zarr")):
    try:
        refused()
    except tb.RunFileError as error:
        print(error)
        assert "Read-only file system" in str(error), error
    else:
        raise SystemExit("a read-only file system was written")
subprocess.run(["mount", "-o", "remount,rw", "{place}"], check=True)
assert tb.load_sweep(path).progress.blocks_done == done
assert tb.load_sweep(path).resume(workers=0, setup=start).is_complete
subprocess.run(["mount", "-o", "remount,ro", "{place}"], check=True)
values = tb.load_sweep(path).data.load()
assert values.identical(study(path).data.load())
assert values.identical(tb.load_sweep(path).resume(setup=start, workers=0).data.load())
END
"""
    in_namespace(script, f"mount -t tmpfs none {place}")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_directory_is_refused(tmp_path):
    """The error names the store and the reason."""
    path = tmp_path / "closed"
    path.mkdir()
    path.chmod(0o500)
    with pytest.raises(tb.RunFileError, match="Permission denied"):
        study(path / "study.zarr")


def test_workers_that_end_while_others_are_started_are_noticed(monkeypatch):
    """A process may end before its number is known: it is replaced all the same, then given up."""
    from tiburon.parallel import workers

    class Short:
        is_ready = False
        process = SimpleNamespace(returncode=1, pid=1)

        def __init__(self, _content, lost):
            self.tasks = []
            threading.Thread(target=lost, args=(self,), daemon=True).start()
            time.sleep(0.02)

    monkeypatch.setattr(workers, "_Process", Short)
    monkeypatch.setattr(workers, "pickled", lambda plan: b"")
    pool = workers.LocalWorkers(None, 2)
    answers = []
    end = time.monotonic() + 30.0
    while pool._processes and time.monotonic() < end:
        time.sleep(0.01)
    pool.submit(None, lambda task, answer: answers.append(answer))
    assert "workers end before they are ready" in str(answers[0])


@posix
def test_workers_that_cannot_start_end_the_sweep(tmp_path, monkeypatch):
    """Workers that die before they are ready are not started forever."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(tb.TiburonError, match="workers end before they are ready"):
        study(tmp_path / "none.zarr", workers=1)


@posix
@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_random_kills_leave_the_store_of_an_undisturbed_sweep(tmp_path, number, reference):
    """Workers and drivers are killed at random moments; every row is there once, bit for bit."""
    rng = np.random.default_rng(number)
    path = tmp_path / "random.zarr"
    for _ in range(3):
        process = driver(path, 2)
        end = time.monotonic() + rng.uniform(2.0, 5.0)
        while time.monotonic() < end and process.poll() is None:
            time.sleep(rng.uniform(0.05, 0.5))
            mine = workers_of(process.pid)
            if mine and rng.random() < 0.3:
                os.kill(rng.choice(mine), signal.SIGKILL)
        process.kill()
        process.communicate()
    found = study(path, setup=slow, workers=2)
    assert found.is_complete
    assert content(path) == reference
    assert found.progress.outcomes == {"finished": 21}
