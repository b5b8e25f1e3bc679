"""Files written whole or not at all: a full disk leaves the file that was there."""

import ast
import errno
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import tiburon as tb
from tests.fresh_process import run_python
from tests.robots import double_pendulum
from tiburon import written_file
from tiburon.checks.model_check import ModelCheck
from tiburon.viewer import save_html
from tiburon.viewer.plots import save_figure
from tiburon.written_file import remove_leftovers, replacing, write_file

ROOT = Path(__file__).parents[1]

OLD = "the old file"


def _model():
    return double_pendulum()


def _run():
    return tb.simulate(_model(), 0.02, q=[0.5, 0.2], method=tb.RK4(dt=0.01))


WRITERS = {
    "robot.toml": lambda path: tb.save(_model(), path),
    "robot.urdf": lambda path: tb.save(_model(), path),
    "run.csv": lambda path: _run().to_csv(path),
    "report.html": lambda path: _run().report(path),
    "replay.html": lambda path: _run().save_html(path),
    "figure.png": lambda path: _run().plot(path=path),
    "figure.svg": lambda path: _run().plot("total_energy", path=path),
    "pose.html": lambda path: save_html(path, _model(), None, [0.5, 0.2]),
    "check.html": lambda path: ModelCheck(_model(), ()).save_page(path),
    "mode.html": lambda path: tb.modes(_model()).save_html(path),
}
"""Every function of the package that writes a file a user names, by the name of the file."""


@pytest.fixture
def full_disk(monkeypatch):
    """Let no file reach the disk."""

    def refuse(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file(tmp_path, full_disk, name):
    """Every writer keeps what was there, leaves nothing else behind, and names file and cure."""
    path = tmp_path / name
    path.write_text(OLD)
    with pytest.raises((tb.RunFileError, tb.ModelFileError)) as caught:
        WRITERS[name](path)
    assert caught.value.file == str(path)
    assert caught.value.problem == (
        "cannot be written (No space left on device); the file that is there is unchanged; check "
        "the path, free some space or choose another place"
    )
    assert path.read_text() == OLD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", WRITERS)
def test_files_are_replaced_in_one_stroke(tmp_path, monkeypatch, name):
    """The old file is whole until the new one is: the last thing that happens is a rename."""
    path = tmp_path / name
    path.write_text(OLD)
    seen = []
    replace = os.replace

    def watched(source, target):
        # kernels may be compiled and stored meanwhile
        if Path(target).parent == tmp_path:
            there = Path(source).exists()
            seen.append((Path(source).parent, Path(target), path.read_text(), there))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    WRITERS[name](path)
    assert seen == [(tmp_path, path, OLD, True)]
    assert path.read_bytes()[:12] != OLD.encode()
    assert list(tmp_path.iterdir()) == [path]


def _writes(source):
    """Return the calls of a module that open a file to write."""
    if not re.search(r"\bopen\(|ZipFile|write_text|write_bytes", source):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        modes = [a.value for a in node.args if isinstance(a, ast.Constant)]
        opened = name in ("open", "ZipFile") and {"w", "wb", "a", "ab", "x", "xb"} & set(modes)
        if name in ("write_text", "write_bytes") or opened:
            yield node.lineno


def test_nothing_in_the_package_writes_files_another_way():
    """A new writer goes through `written_file`: no other module opens a file to write."""
    allowed = {
        "written_file.py",  # the writer itself
        "native/cache.py",  # kernels: can be compiled again
        "results/store.py",  # zip files, through a stream of `written_file`
        "interfaces/fmu.py",  # the same
        "viewer/video.py",  # a page in a temporary folder; the video itself by `replacing`
        "parallel/sweep_task.py",  # notes of who computes a block: only the first may write one
    }
    sources = ROOT / "src" / "tiburon"
    found = {
        file.relative_to(sources).as_posix()
        for file in sources.rglob("*.py")
        if any(_writes(file.read_text(encoding="utf-8")))
    }
    assert "written_file.py" in found
    assert found <= allowed


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX limits on file sizes")
def test_a_limit_on_file_sizes_leaves_the_old_file(tmp_path):
    """The kernel itself refuses to write more than 4 kB: the earlier robot file survives."""
    path = tmp_path / "robot.toml"
    tb.save(_model(), path)
    old = path.read_bytes()
    code = (
        "import resource, signal, sys, tiburon as tb\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "model = tb.load('panda')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "    tb.save(model, sys.argv[1])\n"
        "except tb.ModelFileError as error:\n"
        "    print(error.problem)\n"
    )
    printed = run_python(code, path)
    assert "cannot be written (File too large); the file that is there is unchanged" in printed
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device /dev/full")
def test_devices_are_written_to_directly():
    """A device is not replaced by a file, and what it refuses is reported."""
    with pytest.raises(tb.RunFileError, match=r"/dev/full: cannot be written .No space left"):
        write_file(Path("/dev/full"), "text", tb.RunFileError)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_written_to(tmp_path):
    """A program may read what is written through a pipe, as with /dev/stdout."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "text", tb.RunFileError)
    reader.join(10.0)
    assert read == ["text"]
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


@pytest.mark.skipif(os.name == "nt", reason="permissions and links as POSIX has them")
def test_links_and_permissions_stay(tmp_path):
    """A link still leads to the file, which keeps its permissions; new files follow the umask."""
    (tmp_path / "far").mkdir()
    far = tmp_path / "far" / "run.csv"
    far.write_text(OLD)
    far.chmod(0o640)
    link = tmp_path / "run.csv"
    link.symlink_to(far)
    write_file(link, "new", tb.RunFileError)
    assert link.is_symlink()
    assert far.read_text() == "new"
    assert stat.S_IMODE(far.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "fresh", "new", tb.RunFileError)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no other users")
def test_a_file_that_is_write_protected_stays():
    """Renaming needs write access to the directory only, so that of the file is checked before."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.toml"
        path.write_text(OLD)
        path.chmod(0o444)
        if user == 0:
            # root may write to everything; others need a directory that they reach
            os.chown(folder, 65534, 65534)
            os.chown(path, 65534, 65534)
            os.seteuid(65534)
        try:
            with pytest.raises(tb.RunFileError, match="Permission denied"):
                write_file(path, "new", tb.RunFileError)
            assert path.read_text() == OLD
            assert os.listdir(folder) == ["robot.toml"]
        finally:
            os.seteuid(user)


@pytest.mark.skipif(not hasattr(os, "chown"), reason="this system has no owners")
def test_owner_and_group_stay_where_the_system_allows_it(tmp_path):
    """Root keeps both; everybody else at least a group of their own."""
    path = tmp_path / "robot.toml"
    path.write_text(OLD)
    groups = os.getgroups() or [os.getgid()]
    owner, group = (65534, 65533) if os.geteuid() == 0 else (os.geteuid(), groups[-1])
    os.chown(path, owner, group)
    path.chmod(0o664)
    write_file(path, "new", tb.RunFileError)
    found = path.stat()
    assert (found.st_uid, found.st_gid) == (owner, group)
    assert stat.S_IMODE(found.st_mode) == 0o664
    assert path.read_text() == "new"


@pytest.mark.skipif(sys.platform == "darwin", reason="names are counted in characters there")
def test_names_as_long_as_the_system_allows_can_be_written(tmp_path):
    """Systems count bytes: the temporary name must not be longer than the given one."""
    for name in ("a" * 255, "\u6a5f" * 85, "\N{ROBOT FACE}" * 63):
        path = tmp_path / name
        for text in ("first", "second"):
            write_file(path, text, tb.RunFileError)
            assert path.read_text() == text
    assert len(os.listdir(tmp_path)) == 3


def test_an_error_while_writing_leaves_the_old_file(tmp_path):
    """Whatever stops the writer, Ctrl-C among it, the old file stays and the error passes."""
    path = tmp_path / "run.csv"
    path.write_text(OLD)

    def stopped(error):
        with replacing(path, tb.RunFileError) as stream:
            stream.write(b"half")
            raise error

    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error):
            stopped(error)
    assert path.read_text() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_paths_that_cannot_be_written_are_refused(tmp_path):
    """A missing folder, a folder, a zero byte, a character that UTF-8 does not have."""
    for name, words in (("no/such/folder.csv", "No such file"), (".", "directory"), ("\0", "zero")):
        with pytest.raises(tb.RunFileError, match=words):
            write_file(tmp_path / name, "text", tb.RunFileError)
    with pytest.raises(tb.RunFileError, match=r"holds the character '\\ud800'"):
        write_file(tmp_path / "text", "a\ud800", tb.RunFileError)
    assert not list(tmp_path.iterdir())


def test_figures_of_an_unknown_format_are_refused(tmp_path):
    """The endings that exist are listed; a name without one gets .png, as in matplotlib."""
    from matplotlib.figure import Figure

    with pytest.raises(tb.OptionError, match=r"path: ending.*\.png.*got '\.xyz'"):
        save_figure(Figure(), tmp_path / "figure.xyz")
    save_figure(Figure(), tmp_path / "figure")
    assert [file.name for file in tmp_path.iterdir()] == ["figure.png"]


# what killed processes leave

KILLED = """
import sys
from pathlib import Path
from tiburon.errors import RunFileError
from tiburon.written_file import replacing, temporary_directory

with replacing(Path("file.txt"), RunFileError) as stream, temporary_directory(Path("run")) as spare:
    stream.write(b"half of it")
    (spare / "chunks").mkdir()
    (spare / "chunks" / "0").write_bytes(b"rows")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writing_process(tmp_path):
    """A process that writes a file and a directory until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline().strip() == "writing"
    yield process
    process.kill()
    process.communicate()


def test_the_next_write_removes_what_killed_processes_left(tmp_path, writing_process):
    """Nothing of a process that runs is touched; after a kill nothing of it remains."""
    before = sorted(tmp_path.rglob("*"))
    assert len(before) == 5
    write_file(tmp_path / "file.txt", "new", tb.RunFileError)
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "file.txt"])
    writing_process.kill()
    writing_process.wait()
    written_file._next_listing.clear()
    write_file(tmp_path / "other.txt", "new", tb.RunFileError)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file.txt", "other.txt"]


def _leftover(folder, host=None, age=0.0, name="run"):
    """Make what a killed process leaves of a directory; return its lock and the directory."""
    lock = folder / f".{name}.{host or written_file._host()}-{16 * '0'}.partial"
    lock.write_text(name)
    (lock.with_suffix("") / "earlier").mkdir(parents=True)
    for path in (lock, lock.with_suffix("") / "earlier", lock.with_suffix("")):
        os.utime(path, (time.time() - age,) * 2)
    return lock, lock.with_suffix("")


@pytest.mark.parametrize("has_locks", [True, False])
def test_what_other_hosts_write_stays_for_a_day(tmp_path, monkeypatch, has_locks):
    """Locks of other hosts may not be seen: as without locks, only the age counts."""
    if not has_locks:

        def missing(file, shared):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(written_file, "lock_file", missing)
    (tmp_path / "run").mkdir()
    host = "00000000" if has_locks else None
    pair = _leftover(tmp_path, host, age=80_000.0)
    remove_leftovers(tmp_path)
    assert all(path.exists() for path in pair)
    _leftover(tmp_path / "run", host, age=90_000.0)
    remove_leftovers(tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == [tmp_path / "run" / "run"]


def test_an_earlier_directory_returns_if_its_process_was_killed_in_between(tmp_path):
    """It is all there is until the new one has its place."""
    _leftover(tmp_path, name="run.zarr")
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "a\0b", "file.txt"])
def test_leftovers_of_strangers_move_nothing_elsewhere(tmp_path, name):
    """The name in a lock is a name in its directory, and replaces nothing."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file.txt").write_text(OLD)
    lock, _ = _leftover(folder)
    lock.write_text(name)
    remove_leftovers(folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "file.txt"]
    assert (folder / "file.txt").read_text() == OLD


def test_a_link_among_leftovers_is_not_followed(tmp_path):
    """What a link leads to is not the work of a killed process."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "earlier").mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    _, spare = _leftover(folder)
    (spare / "earlier").rmdir()
    spare.rmdir()
    spare.symlink_to(tmp_path / "precious")
    remove_leftovers(folder)
    assert (tmp_path / "precious" / "earlier").is_dir()


def test_a_file_that_is_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    """Another process may find a new file in the moment before it is locked."""
    real, seen = written_file.lock_file, []

    def interrupted(file, shared):
        if not seen:
            seen.append(next(tmp_path.glob("*.partial")))
            seen[0].unlink()
        real(file, shared)

    monkeypatch.setattr(written_file, "lock_file", interrupted)
    write_file(tmp_path / "file.txt", "new", tb.RunFileError)
    assert (tmp_path / "file.txt").read_text() == "new"
    assert len(seen) == len(list(tmp_path.iterdir())) == 1


def test_large_directories_are_listed_rarely(tmp_path, monkeypatch):
    """Many files in one directory must not take time that grows with their number squared."""
    clock, listed, real = [0.0], [], os.scandir

    def slow(folder):
        listed.append(folder)
        clock[0] += 1.0
        return real(folder)

    monkeypatch.setattr(written_file.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(written_file.os, "scandir", slow)
    for _ in range(100):
        clock[0] += 1.0
        remove_leftovers(tmp_path)
    assert len(listed) == 5
