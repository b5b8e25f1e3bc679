"""Machine code is loaded only from files that only the user could have written."""

import os
import signal
import socket
import stat
import warnings
from pathlib import Path

import pytest

from tests.native.cache_samples import KEY, OTHER_KEY, path_of, some_code
from tiburon.errors import CacheWarning
from tiburon.native import cache

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes and owners are those of POSIX")


@pytest.fixture(autouse=True)
def directory(kernel_directory):
    return kernel_directory


@pytest.fixture(autouse=True)
def in_time():
    """Fail instead of waiting for a pipe for ever."""

    def late(number, frame):
        raise AssertionError("waited for a pipe")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def warned(action):
    """Run something that must warn once; return its result and the message."""
    cache._warned.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    assert [warning.category for warning in caught] == [CacheWarning]
    return result, str(caught[0].message)


def refused(action):
    """Run something that must come to nothing; return the warning."""
    result, message = warned(action)
    assert result is None
    assert "compiled code is neither read nor written where others could change it" in message
    assert "TIBURON_CACHE_DIR" in message
    return message


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o720])
def test_a_directory_that_others_may_write_to_is_not_read_or_written(directory, mode):
    """Whoever may write there could plant code: neither load nor store touches it."""
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    directory.chmod(mode)
    message = refused(lambda: cache.load_entry(KEY))
    assert f"(mode {mode:04o}); run 'chmod go-w {directory}'" in message
    refused(lambda: cache.store_entry(OTHER_KEY, {}, some_code(2)))
    assert not path_of(directory, OTHER_KEY).exists()
    directory.chmod(0o755)
    assert cache.load_entry(KEY) == ({"name": "a"}, some_code(1))


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_an_entry_that_others_may_write_to_is_replaced(directory, mode):
    """Such a file may hold anybody's code; the next store puts a good one in its place."""
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    path_of(directory).chmod(mode)
    assert f"(mode {mode:04o})" in refused(lambda: cache.load_entry(KEY))
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    assert cache.load_entry(KEY) == ({"name": "a"}, some_code(1))


def test_directory_of_another_user_is_refused(directory, monkeypatch):
    """What another user made is not read, whatever its mode."""
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    message = refused(lambda: cache.load_entry(KEY))
    assert f"belongs to user {owner}, not to user {owner + 1}" in message
    refused(lambda: cache.store_entry(OTHER_KEY, {}, some_code(2)))


def test_entry_of_another_user_is_refused(directory, monkeypatch):
    """A file planted before the directory was closed to others is not read either."""
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    genuine, owner = os.fstat, os.geteuid()

    def foreign(file):
        found = genuine(file)
        if stat.S_ISREG(found.st_mode):
            found = os.stat_result((*found[:4], owner + 7, *found[5:]))
        return found

    monkeypatch.setattr(os, "fstat", foreign)
    message = refused(lambda: cache.load_entry(KEY))
    assert f"file '{path_of(directory)}' belongs to user {owner + 7}" in message


def _link(path, good):
    path.symlink_to(good)


def _dangling(path, good):
    path.symlink_to(path.with_suffix(".nowhere"))


def _pipe(path, good):
    os.mkfifo(path)


def _socket(path, good):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _folder(path, good):
    path.mkdir()


@pytest.mark.parametrize("plant", [_link, _dangling, _pipe, _socket, _folder])
def test_only_regular_files_are_opened(directory, plant, tmp_path):
    """Links and pipes in place of an entry: no code is loaded from them, and nothing blocks."""
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    good = tmp_path / "elsewhere"
    path = path_of(directory)
    path.rename(good)
    try:
        plant(path, good)
    except OSError as error:
        pytest.skip(f"cannot make one here: {error}")
    message = refused(lambda: cache.load_entry(KEY))
    assert f"file '{path}' is " in message
    # lists look at names only, and do not wait either
    assert [entry.name for entry in cache.cache_entries()] == [""]
    if plant is not _folder:
        cache.store_entry(KEY, {"name": "a"}, some_code(3))
        assert cache.load_entry(KEY) == ({"name": "a"}, some_code(3))
        assert stat.S_ISREG(os.lstat(path).st_mode)


def test_a_pipe_in_place_of_the_ledger_does_not_block(directory):
    """A store continues without a ledger it can write to."""
    cache.store_entry(KEY, {}, some_code(1))
    (ledger,) = [path for path in directory.iterdir() if path.suffix == ".ledger"]
    ledger.unlink()
    os.mkfifo(ledger)
    cache.store_entry(OTHER_KEY, {}, some_code(2))
    assert cache.load_entry(OTHER_KEY) == ({}, some_code(2))


def test_symbolic_link_as_cache_directory_is_refused(tmp_path, monkeypatch):
    """Whoever can put a link there chooses the directory."""
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(mine)
    monkeypatch.setenv("TIBURON_CACHE_DIR", str(tmp_path / "link"))
    assert "is a link" in refused(lambda: cache.store_entry(KEY, {}, some_code(1)))
    assert list(mine.iterdir()) == []


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_created_files_are_private_to_the_user(tmp_path, monkeypatch, mask):
    """Missing parents, the directory, entries and the ledger, whatever the umask is."""
    where = tmp_path / "home" / ".cache" / "tiburon"
    monkeypatch.setenv("TIBURON_CACHE_DIR", str(where))
    before = os.umask(mask)
    try:
        cache.store_entry(KEY, {}, some_code(1))
    finally:
        os.umask(before)
    for made in (where, where.parent, where.parent.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    for made in where.iterdir():
        assert stat.S_IMODE(made.stat().st_mode) & 0o077 == 0
    assert cache.load_entry(KEY) == ({}, some_code(1))


def test_platforms_without_owners_check_regular_files_only(directory, monkeypatch):
    """Windows has no numbers for users; links are refused there, too."""
    from tiburon.native import cache

    monkeypatch.setattr(cache, "_HAS_USERS", False)
    cache.store_entry(KEY, {}, some_code(1))
    assert cache.load_entry(KEY) == ({}, some_code(1))
    elsewhere: Path = directory.parent / "elsewhere"
    path_of(directory).rename(elsewhere)
    path_of(directory).symlink_to(elsewhere)
    assert "is a link" in refused(lambda: cache.load_entry(KEY))
