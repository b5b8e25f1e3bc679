"""A cache that is damaged or cannot be written costs a compilation, never a result."""

import errno
import os
import warnings
from pathlib import Path

import pytest

from tests.native.cache_samples import KEY, OTHER_KEY, path_of, some_code
from tiburon.errors import CacheWarning
from tiburon.native import cache


@pytest.fixture(autouse=True)
def directory(kernel_directory):
    return kernel_directory


# damage


def flip_byte(place):
    def damage(content):
        position = place % len(content)
        return content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]

    return damage


DAMAGES = {
    "empty": lambda content: b"",
    "one byte": lambda content: content[:1],
    "lead only": lambda content: content[:24],
    "truncated": lambda content: content[: len(content) // 2],
    "last byte missing": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "magic": lambda content: b"\x7fELF" + content[4:],
    "foreign": lambda content: b"this is not a kernel at all, but a longer note " * 100,
    "zeros": lambda content: bytes(len(content)),
    "version": flip_byte(8),
    "header size": flip_byte(12),
    "huge code size": flip_byte(23),
    "header": flip_byte(40),
    "code": flip_byte(10_000),
    "checksum": flip_byte(-1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_entry_is_ignored_removed_and_rebuilt(directory, damage):
    """Whatever happened to a file, it is as if it were not there."""
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    path = path_of(directory)
    path.write_bytes(damage(path.read_bytes()))
    # listing must not stumble either
    assert [entry.key for entry in cache.cache_entries()] == [KEY]
    assert cache.load_entry(KEY) is None
    assert not path.exists()
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    assert cache.load_entry(KEY) == ({"name": "a"}, some_code(1))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_link_is_ignored_and_removed(directory, damage):
    """A link leads to the right graph or nowhere."""
    cache.store_link(KEY, "graph")
    path = directory / f"{KEY}.link"
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load_link(KEY) is None
    assert not path.exists()


@pytest.mark.parametrize("limit", ["", "9000G"])
def test_huge_entries_cost_a_compilation_only(directory, monkeypatch, limit):
    """A sparse file of a terabyte is neither read into memory nor an error."""
    monkeypatch.setenv("TIBURON_CACHE_SIZE", limit)
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    cache.store_link(KEY, "graph")
    for path in (path_of(directory), directory / f"{KEY}.link"):
        os.truncate(path, 1 << 40)
    assert cache.used_entries(1 << 20) == {}
    assert cache.load_entry(KEY) is None
    assert cache.load_link(KEY) is None
    assert not path_of(directory).exists()
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    assert cache.load_entry(KEY) == ({"name": "a"}, some_code(1))


def test_every_flipped_byte_is_detected(directory):
    """Every byte of a file is covered by a check."""
    cache.store_entry(KEY, {"name": "a"}, some_code(1, 30))
    path = path_of(directory)
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(flip_byte(position)(content))
        assert cache.load_entry(KEY) is None, position
    path.write_bytes(content)
    assert cache.load_entry(KEY) is not None


def test_entry_under_another_key_is_refused(directory):
    """A valid file with the wrong name is a wrong answer."""
    cache.store_entry(KEY, {}, some_code(1))
    path_of(directory).rename(path_of(directory, OTHER_KEY))
    assert cache.load_entry(OTHER_KEY) is None


def test_damaged_entry_that_cannot_be_removed_is_ignored(directory, monkeypatch):
    """On a read-only disk the damaged file stays and is ignored each time."""
    cache.store_entry(KEY, {}, some_code(1))
    path_of(directory).write_bytes(b"damaged")

    def refuse(self, missing_ok=False):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert cache.load_entry(KEY) is None
    assert cache.load_entry(KEY) is None


# directories that cannot be used


def assert_warns_once_and_goes_on(where):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for seed in range(3):
            cache.store_entry(KEY, {}, some_code(seed))
            assert cache.load_entry(KEY) is None
    assert [warning.category for warning in caught] == [CacheWarning]
    message = str(caught[0].message)
    assert str(where) in message
    assert "TIBURON_CACHE_DIR" in message
    return message


def test_cache_path_below_a_file_raises_one_warning(tmp_path, monkeypatch):
    """A directory that cannot be created: say so once, with the cure, and continue."""
    (tmp_path / "file").write_text("in the way")
    where = tmp_path / "file" / "kernels"
    monkeypatch.setenv("TIBURON_CACHE_DIR", str(where))
    assert_warns_once_and_goes_on(where)
    assert cache.cache_entries() == []
    assert cache.clear_cache() == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_unwritable_disk_raises_one_warning(directory, monkeypatch, number):
    """A full or read-only disk is named, with what the system says."""

    def refuse(source, destination):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", refuse)
    assert os.strerror(number) in assert_warns_once_and_goes_on(directory)
    # what could not be moved into place is cleaned up
    assert os.listdir(directory) == []


def test_disk_full_while_writing_leaves_no_partial_entry(directory, monkeypatch):
    """Half a file is neither found nor left behind."""
    import builtins

    real_open = builtins.open

    class Filling:
        def __init__(self, file):
            self._file = file

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            self._file.close()

        def fileno(self):
            return self._file.fileno()

        def write(self, content):
            self._file.write(content[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open_filling(path, mode="r", **options):
        file = real_open(path, mode, **options)
        return Filling(file) if mode == "wb" else file

    monkeypatch.setattr(cache, "open", open_filling, raising=False)
    assert "space" in assert_warns_once_and_goes_on(directory).lower()
    assert os.listdir(directory) == []


def test_unreadable_entry_raises_one_warning(directory, monkeypatch):
    """Missing permission is reported, not raised."""
    cache.store_entry(KEY, {}, some_code(1))

    def refuse(path, mode="r"):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(cache, "open", refuse, raising=False)
    with pytest.warns(CacheWarning, match="cannot read"):
        assert cache.load_entry(KEY) is None
    # warnings are errors here, so a second one would raise
    assert cache.load_entry(KEY) is None


def test_missing_home_directory_raises_no_error(monkeypatch):
    """Without a home there is no place for a cache, and the warning says what to set."""
    monkeypatch.delenv("TIBURON_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)

    def fail(cls):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(fail))
    assert_warns_once_and_goes_on(os.devnull)


def test_cache_cleared_during_a_store_raises_no_error(directory, monkeypatch):
    """Another process may remove everything at any moment."""
    real_replace = os.replace

    def replace_too_late(source, destination):
        Path(source).unlink()
        real_replace(source, destination)

    monkeypatch.setattr(os, "replace", replace_too_late)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store_entry(KEY, {}, some_code(1))
    assert cache.load_entry(KEY) is None
