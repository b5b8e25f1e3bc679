"""Calls that not every system has are in one module, and the package works where they are missing.

Other systems are imitated by taking away what they lack; that is not the same as running there.
"""

import ast
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tiburon import operating_system
from tiburon.native import object_loader

SOURCES = Path(tb.__file__).parent

SYSTEM_MODULES = {"fcntl", "msvcrt", "mmap", "platform", "pwd", "resource", "termios", "winreg"}
"""Modules that some systems lack, or that tell them apart."""

SYSTEM_NAMES = {
    "os": {
        *("chown", "cpu_count", "fork", "geteuid", "getpgid", "getuid", "kill", "killpg", "name"),
        *("nice", "process_cpu_count", "register_at_fork", "setsid", "sysconf", "uname"),
        *("O_BINARY", "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK"),
    },
    "sys": {"platform", "getwindowsversion"},
    "ctypes": {"CDLL", "WinDLL", "windll", "cdll"},
    "subprocess": {"CREATE_NEW_PROCESS_GROUP"},
}
"""What only `operating_system` may ask these modules for."""

SYSTEM_PLACES = ("/proc/", "/sys/", "/dev/", "/tmp/", "/etc/")

SUSPECT = (
    *SYSTEM_PLACES,
    *(f"import {name}" for name in SYSTEM_MODULES),
    *(f"from {name}" for name in SYSTEM_MODULES),
    *(f"{module}." for module in SYSTEM_NAMES),
    *("start_new_session", "preexec_fn"),
)
"""Parts of the text of every file that could ask; others are not parsed."""


def system_calls(path: Path) -> list[str]:
    """Return what a file asks the operating system for itself."""
    found: list[str] = []
    text = path.read_text(encoding="utf-8")
    if not any(word in text for word in SUSPECT):
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.partition(".")[0] in SYSTEM_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in SYSTEM_MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.attr
            if name in SYSTEM_NAMES.get(node.value.id, ()) or (
                node.value.id == "os" and name.startswith("sched_")
            ):
                found.append(f"{node.value.id}.{name}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.startswith(SYSTEM_PLACES):
                found.append(node.value)
        elif isinstance(node, ast.keyword) and node.arg in ("start_new_session", "preexec_fn"):
            found.append(node.arg)
    return found


def test_only_one_module_asks_what_systems_differ_in():
    """Flags, forks, signals, processors and system files are asked for in one place."""
    own = SOURCES / "operating_system.py"
    found = {
        str(path.relative_to(SOURCES)): calls
        for path in sorted(SOURCES.rglob("*.py"))
        if path != own and (calls := system_calls(path))
    }
    assert found == {}
    assert len(set(system_calls(own))) > 15


@pytest.fixture
def bare(monkeypatch):
    """Take away what Windows lacks, of the modules that are asked for it."""
    kept = {
        name: getattr(os, name)
        for name in dir(os)
        if not name.startswith(("sched_", "SCHED_", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
        and name not in {"geteuid", "chown", "register_at_fork", "uname", "sysconf", "O_DIRECTORY"}
        and name not in {"process_cpu_count", "kill"}
    }
    windows = types.SimpleNamespace(**{**kept, "name": "nt"})
    monkeypatch.setattr(operating_system, "os", windows)
    monkeypatch.setattr(operating_system, "sys", types.SimpleNamespace(platform="win32"))
    monkeypatch.setitem(sys.modules, "fcntl", None)

    def no_library(*functions):
        return None

    monkeypatch.setattr(operating_system, "c_library", no_library)
    return windows


def test_everything_has_an_answer_where_nothing_is_granted(bare, tmp_path):
    """A system without users, affinity, priorities and a C library is told so, not stopped."""
    assert operating_system.open_flags("O_NOFOLLOW", "O_CLOEXEC") == 0
    assert operating_system.user() is None
    assert not operating_system.has_users()
    operating_system.change_owner(tmp_path, 0, 0)
    assert operating_system.refuses_open_targets()
    assert not operating_system.exchange_paths(tmp_path, tmp_path)
    operating_system.at_fork(in_child=pytest.fail)
    assert operating_system.process_exists(12345)
    assert operating_system.own_group() == {"creationflags": 0x200}
    assert not operating_system.is_linux()
    assert not operating_system.is_linux("x86_64")
    assert operating_system.processor_description() is None
    assert operating_system.processors() == frozenset()
    assert operating_system.processor_count() == (os.cpu_count() or 1)
    operating_system.set_affinity({0}, all_threads=True)
    assert not operating_system.request_priority(10)
    operating_system.shorten_timer_slack()
    assert not operating_system.lock_memory()
    operating_system.unlock_memory()
    assert operating_system.steal_times() == {}
    assert operating_system.map_pages(0, 4096, [(0, 4096, "r")]) is None
    operating_system.unmap_pages(0, 4096)


def test_a_byte_is_locked_where_files_are_not(bare, monkeypatch, tmp_path):
    """Windows locks bytes; a system without locks raises what file systems without them do."""
    asked = []

    def locking(file, mode, count):
        asked.append((file, mode, count, os.lseek(file, 0, os.SEEK_CUR)))

    fake = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    with open(tmp_path / "lock", "wb") as file:
        operating_system.lock_file(file.fileno(), True)
        assert asked == [(file.fileno(), 2, 1, operating_system.LOCKED_BYTE)]
        # what is written next goes where it would have gone
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 0
        monkeypatch.setitem(sys.modules, "msvcrt", None)
        with pytest.raises(OSError, match="no locks of files"):
            operating_system.lock_file(file.fileno(), False)


def test_code_of_other_processors_is_left_to_the_linker(bare):
    """Objects are mapped by ourselves only where that is known to work."""
    assert object_loader.map_object(b"\x7fELF") is None


@pytest.mark.skipif(sys.platform != "linux", reason="needs a system that exchanges paths")
def test_a_file_and_a_directory_exchange_their_names(tmp_path):
    """Where the file system can; nothing changes if one of them is missing."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.write_text("text")
    assert operating_system.exchange_paths(first, second)
    assert second.is_dir()
    assert first.read_text() == "text"
    assert not operating_system.exchange_paths(first, tmp_path / "third")
    assert first.is_file()


def test_processes_that_ended_do_not_exist():
    """Of this machine; those of other users exist."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not operating_system.process_exists(ended.pid)
    assert operating_system.process_exists(os.getpid())
    assert operating_system.process_exists(2**80)


IMITATION = """
import os, sys
# other packages have fallbacks of their own, which are not tested here
import llvmlite.binding, numpy.random, pandas, random, subprocess, xarray, zarr
for name in [n for n in dir(os) if n.startswith(("sched_", "SCHED_"))]:
    delattr(os, name)
for name in ("geteuid", "chown", "register_at_fork", "O_NOFOLLOW",
             "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY"):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(os, "process_cpu_count"):
    # as where processes cannot be bound to processors
    os.process_cpu_count = os.cpu_count
sys.modules["fcntl"] = None
os.supports_dir_fd.discard(os.open)
import ctypes
whole = ctypes.CDLL
def library(name, *words, **options):
    if name is None:
        raise TypeError("no library of the whole process")
    return whole(name, *words, **options)
ctypes.CDLL = library
sys.platform = "other"
import numpy as np, tiburon as tb
model = tb.load("double_pendulum")
run = tb.simulate(model, 0.1, q=[0.5, 0.2], record=tb.Record(store="run.zarr"))
again = tb.load_run("run.zarr")
assert np.array_equal(again.q, run.q)
q = np.tile(run.q[-1], (4096, 1))
tb.mass_matrix(model, q)
np.save("found.npy", np.asarray(run.q))
"""


def test_a_run_does_without_what_only_some_systems_have(tmp_path):
    """A process that never had these calls gives the same numbers to the bit."""
    script = tmp_path / "imitated.py"
    script.write_text(IMITATION)
    variables = {**os.environ, "TIBURON_CACHE_DIR": str(tmp_path / "cache")}
    variables["PYTHONPATH"] = str(SOURCES.parent)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run = tb.simulate(tb.load("double_pendulum"), 0.1, q=[0.5, 0.2])
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), run.q)
