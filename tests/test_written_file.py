"""Files written whole or not at all: a full disk leaves the file that was there."""

import ast
import errno
import os
import re
import stat
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import tiburon as tb
from tests.fresh_process import run_python
from tests.robots import double_pendulum
from tiburon.checks.model_check import ModelCheck
from tiburon.viewer import save_html
from tiburon.viewer.plots import save_figure
from tiburon.written_file import replacing, write_file

ROOT = Path(__file__).parents[1]

OLD = "the old file"


def _model():
    return double_pendulum()


def _run():
    return tb.simulate(_model(), 0.02, q=[0.5, 0.2], dt=0.01)


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
        seen.append((Path(source).parent, Path(target), path.read_text(), Path(source).exists()))
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
