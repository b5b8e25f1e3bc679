"""Who records into a store: one at a time; what killed runs and full disks leave behind."""

import errno
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.fresh_process import run_python
from tests.results import trajectory_samples as samples
from tests.robots import double_pendulum
from tests.simulation.slow_run import wind
from tests.simulation.test_trajectory_resume import start_child
from tiburon import written_file
from tiburon.results import store
from tiburon.results.checkpoint import Checkpoint
from tiburon.results.store import LOCK, StoreLock, writer_of
from tiburon.simulation import recorder as recorder_module
from tiburon.simulation.recorder import Recorder

ROOT = Path(__file__).parents[2]

KEYWORDS = {
    "q": [0.5, 0.2],
    "v": [1.0, -0.5],
    "method": tb.RK4(dt=1e-3),
    "record": tb.Record(every=1),
}


def test_two_processes_cannot_record_into_one_store(tmp_path):
    """While a process runs into a store, others read it, but neither resume nor replace it."""
    path = tmp_path / "run.zarr"
    with start_child(path, "forces") as child:
        run = tb.load_run(path)
        assert run.status == "running"
        assert f"process {child.pid} on " in run.outcome.message
        other, _, _ = samples.recorded(double_pendulum(), count=5)
        for attempt in (
            lambda: run.resume(elements=[wind()]),
            lambda: Recorder.continued(run, run.header, 1, None, run.checkpoint),
            lambda: other.save(path, overwrite=True),
        ):
            with pytest.raises(tb.RunFileError, match=f"being recorded by process {child.pid} on"):
                attempt()
        assert child.poll() is None
        child.kill()
    # the lock ended with the process
    assert writer_of(path) is None
    killed = tb.load_run(path)
    assert killed.status == "killed"
    assert not killed.outcome.ok
    assert killed.outcome.time == killed.checkpoint.time
    assert f"killed after {killed.outcome.time:.6g} s" in killed.outcome.message
    state = killed.checkpoint.arrays["state"][0]
    assert np.array_equal(np.concatenate([killed.outcome.q, killed.outcome.v]), state[:4])
    StoreLock(path).release()


def test_run_continued_in_another_process_must_be_reloaded(tmp_path):
    """Of two that loaded a run, the second to resume would cut off what the first one added."""
    path = tmp_path / "run.zarr"
    tb.simulate(double_pendulum(), 0.01, **{**KEYWORDS, "record": tb.Record(every=1, store=path)})
    first, second = tb.load_run(path), tb.load_run(path)
    longer = first.resume(0.02)
    with pytest.raises(tb.RunFileError, match=r"changed .* 11 rows then, 31 now; load it again"):
        second.resume(0.01)
    assert np.array_equal(tb.load_run(path).q, longer.q)
    assert len(tb.load_run(path).resume(0.01)) == 41


def test_resuming_removes_files_that_a_killed_process_was_writing(tmp_path):
    """Zarr writes a file under another name, which stays if the process is killed."""
    path = tmp_path / "run.zarr"
    tb.simulate(double_pendulum(), 0.01, **{**KEYWORDS, "record": tb.Record(every=1, store=path)})
    left = path / "joint_position" / "c" / "0" / f"0.{32 * 'a'}.partial"
    left.write_bytes(b"half a chunk")
    tb.load_run(path).resume(0.01)
    assert not left.exists()
    assert len(tb.load_run(path)) == 21


def test_each_case_of_a_killed_batch_has_the_outcome_killed(tmp_path, monkeypatch):
    """Cases that had ended keep their outcomes; all others were killed, in their own states."""
    monkeypatch.setattr(recorder_module, "FLUSH_SECONDS", 0.0)
    model = double_pendulum()
    time, columns = samples.rows(model, 9, (3,))
    recorder = Recorder(samples.header(model, (3,)), rows=20, store=tmp_path / "run.zarr")
    states = np.arange(12.0).reshape(3, 4)
    zero = np.zeros(2)
    ended = [[1, ["diverged", 0.02, "gone", zero, zero, np.zeros(0), None, "bob", "v"]]]
    state = Checkpoint(9, 0.09, {"state": states}, {"ended": ended})
    recorder.append(time, columns, lambda: state)
    del recorder
    run = tb.load_run(tmp_path / "run.zarr")
    assert run.status.tolist() == ["killed", "diverged", "killed"]
    assert run.outcomes[2].q.tolist() == [8.0, 9.0]
    assert run.outcomes[1].body == "bob"
    # a copy of it is as little finished
    run.save(tmp_path / "copy.zarr")
    assert tb.load_run(tmp_path / "copy.zarr").status.tolist() == run.status.tolist()


FULL = """
import resource, signal, sys, tiburon as tb
from tests.robots import double_pendulum
from tests.results.test_store_lock import KEYWORDS
tb.simulate(double_pendulum(), 0.01, **KEYWORDS)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    record = tb.Record(every=1, store=sys.argv[1])
    tb.simulate(double_pendulum(), 2.0, **{**KEYWORDS, "record": record})
except tb.RunFileError as error:
    print(error.problem)
"""


def test_a_full_disk_before_the_first_chunk_loses_only_time(tmp_path):
    """The kernel refuses the first chunk: the message says what is safe, and resume works."""
    pytest.importorskip("resource")
    path = tmp_path / "run.zarr"
    printed = run_python(FULL, path)
    assert "cannot be written (File too large)" in printed
    assert "no rows are safe yet, but the initial state is, and " in printed
    assert "tiburon.load_run(...).resume() begins there" in printed
    run = tb.load_run(path)
    assert len(run) == 0
    assert run.status == "killed"
    assert run.outcome.q.tolist() == KEYWORDS["q"]
    assert "nothing recorded" in repr(run)
    with pytest.raises(tb.RunFileError, match="has no recorded times"):
        _ = run.span
    run.report(tmp_path / "page.html")
    assert "killed after 0 s" in (tmp_path / "page.html").read_text()
    whole = tb.simulate(double_pendulum(), 2.0, **KEYWORDS)
    again = run.resume()
    assert again.status == "finished"
    assert np.array_equal(again.q, whole.q)
    assert np.array_equal(tb.load_run(path).v, whole.v)


def test_a_full_disk_at_the_start_leaves_nothing(tmp_path, monkeypatch):
    """A store that cannot be made is not there, so that the run can be started again."""

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(tb.RunFileError, match=r"No space left.*start the run again"):
            tb.simulate(
                double_pendulum(), 0.01, **{**KEYWORDS, "record": tb.Record(every=1, store=path)}
            )
    assert not list(tmp_path.iterdir())
    assert (
        tb.simulate(
            double_pendulum(), 0.01, **{**KEYWORDS, "record": tb.Record(every=1, store=path)}
        ).status
        == "finished"
    )


def test_a_run_that_raises_can_be_resumed_in_the_same_process(tmp_path):
    """An error of the user's own code gives the store free, though its frames are still there."""

    def control(state):
        if state.time > 0.005:
            raise ZeroDivisionError
        return [0.0, 0.0]

    path = tmp_path / "run.zarr"
    with pytest.raises(ZeroDivisionError) as caught:
        tb.simulate(
            double_pendulum(),
            0.01,
            control=tb.Sampled(control, dt=1e-3),
            **{**KEYWORDS, "record": tb.Record(every=1, store=path)},
        )
    assert caught.value is not None
    run = tb.load_run(path).resume(control=lambda state: [0.0, 0.0])
    whole = tb.simulate(double_pendulum(), 0.01, control=lambda state: [0.0, 0.0], **KEYWORDS)
    assert np.array_equal(run.q, whole.q)


@pytest.mark.parametrize("damage", ["garbage", "a pipe", "a directory", "a link", "another's"])
def test_damaged_lock_files_are_ignored_or_refused(tmp_path, damage):
    """Reading ignores them; recording needs a regular file of its own, and follows no link."""
    path = tmp_path / "run.zarr"
    tb.simulate(double_pendulum(), 0.01, **{**KEYWORDS, "record": tb.Record(every=1, store=path)})
    lock, precious = path / LOCK, tmp_path / "precious"
    precious.write_text("years of work")
    lock.unlink()
    if damage == "garbage":
        lock.write_bytes(b"[" * 100_000)
    elif damage == "a pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("needs named pipes")
        os.mkfifo(lock)
    elif damage == "a directory":
        lock.mkdir()
    elif damage == "a link":
        lock.symlink_to(precious)
    else:
        lock.write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": 0.0}))
    run = tb.load_run(path)
    assert run.status == "finished"
    if damage in ("garbage", "another's"):
        assert len(run.resume(0.01)) == 21
    else:
        with pytest.raises(tb.RunFileError, match=r"checkpoint/lock (cannot be written|is a link)"):
            run.resume(0.01)
    assert precious.read_text() == "years of work"


@pytest.mark.parametrize(
    ("owner", "free"),
    [("self", False), ("dead", True), ("elsewhere", False), ("nobody", True), ("nonsense", True)],
)
def test_without_file_locks_the_live_owner_process_holds_the_store(
    tmp_path, monkeypatch, owner, free
):
    """File systems without locks: the process named in the file is checked."""
    path = tmp_path / "run.zarr"
    samples.recorded(double_pendulum(), count=3, store=path)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    host = store.socket.gethostname()
    texts = {
        "self": json.dumps({"pid": os.getpid(), "host": host, "since": 0.0}),
        "dead": json.dumps({"pid": child.pid, "host": host, "since": 0.0}),
        "elsewhere": json.dumps({"pid": 1, "host": "another machine", "since": 0.0}),
        "nobody": "",
        "nonsense": json.dumps({"pid": 1e400, "host": None}),
    }
    (path / LOCK).write_text(texts[owner])

    def none(file, shared):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(store, "lock_file", none)
    assert (writer_of(path) is None) == free
    if free:
        StoreLock(path).release()
        assert (path / LOCK).read_text() == ""
    else:
        with pytest.raises(tb.RunFileError, match="is being recorded by process"):
            StoreLock(path)


FORKING = """
import os, sys, time
from pathlib import Path
from tiburon.results.store import StoreLock
lock = StoreLock(Path(sys.argv[1]))
if os.fork() == 0:
    # as the garbage collector does
    del lock
    os.close(0)
    os.write(1, b"%d\\n" % os.getpid())
    os.close(1)
    os.close(2)
    time.sleep(60.0)
    os._exit(0)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_workers_neither_hold_nor_release_a_lock(tmp_path):
    """While the run lives, its name stays in the lock; once it is killed, others may record."""
    (tmp_path / LOCK).parent.mkdir()
    recording = subprocess.Popen(
        [sys.executable, "-c", FORKING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    worker = int(recording.stdout.readline())
    try:
        assert writer_of(tmp_path).startswith(f"process {recording.pid} on ")
        recording.kill()
        recording.wait()
        os.kill(worker, 0)
        assert writer_of(tmp_path) is None
        StoreLock(tmp_path).release()
    finally:
        recording.kill()
        recording.wait()
        recording.stdin.close()
        recording.stdout.close()
        os.kill(worker, 9)


def test_copies_of_a_run_do_not_hold_its_lock(tmp_path):
    """A pickled run on disk reads the same files."""
    path = tmp_path / "run.zarr"
    run, _, columns = samples.recorded(double_pendulum(), store=path)
    copy = pickle.loads(pickle.dumps(run))
    assert np.array_equal(copy.q, columns["q"])
    assert np.array_equal(pickle.loads(pickle.dumps(run.data))["joint_position"], columns["q"])


def test_an_earlier_run_stays_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    """Where directories are swapped in two strokes and the second fails, the first is undone."""
    path = tmp_path / "run.zarr"
    samples.recorded(double_pendulum(), count=5)[0].save(path)
    replace = os.replace

    def stubborn(source, target):
        if Path(target) == path and Path(source).name == "run":
            raise OSError(errno.EIO, "Input/output error")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(written_file, "exchange_paths", lambda first, second: False)
        patch.setattr(written_file.os, "replace", stubborn)
        with pytest.raises(tb.RunFileError, match="Input/output error"):
            samples.recorded(double_pendulum(), count=9)[0].save(path, overwrite=True)
    assert len(tb.load_run(path)) == 5
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


@pytest.mark.parametrize("name", ["run.zarr", "run.zip"])
def test_a_full_disk_while_saving_leaves_the_earlier_run(tmp_path, monkeypatch, name):
    """The message names the given path, and does not call the run lost."""
    path = tmp_path / name
    samples.recorded(double_pendulum(), count=5)[0].save(path)

    def refuse(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(tb.RunFileError) as caught:
            samples.recorded(double_pendulum(), count=9)[0].save(path, overwrite=True)
    assert caught.value.file == str(path)
    assert caught.value.problem == (
        "cannot be written (No space left on device); the existing run is unchanged; check "
        "the path, free some space or choose another place, and save again"
    )
    assert len(tb.load_run(path)) == 5
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_runs_are_saved_through_links_and_under_long_names(tmp_path):
    """A link stays a link, as it does when a run is recorded into a store."""
    run = samples.recorded(double_pendulum(), count=5)[0]
    (tmp_path / "link.zarr").symlink_to("far.zarr")
    for overwrite in (False, True):
        run.save(tmp_path / "link.zarr", overwrite=overwrite)
        assert (tmp_path / "link.zarr").is_symlink()
        assert len(tb.load_run(tmp_path / "far.zarr")) == 5
    # 252 bytes; the temporary name beside it must not be longer
    run.save(tmp_path / ("\u6a5f" * 82 + ".zarr"))
    assert len(list(tmp_path.iterdir())) == 3


def test_stores_may_be_made_in_empty_directories(tmp_path):
    """An empty directory is a place for a store, also through a link."""
    (tmp_path / "far").mkdir()
    (tmp_path / "run.zarr").symlink_to(tmp_path / "far")
    samples.recorded(double_pendulum(), count=5, store=tmp_path / "run.zarr")
    assert (tmp_path / "run.zarr").is_symlink()
    assert len(tb.load_run(tmp_path / "far")) == 5
