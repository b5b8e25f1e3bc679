"""The disk cache gives back what was stored, or nothing; it never gives back something else."""

import errno
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.native.cache_samples import KEY, OTHER_KEY, path_of, some_code
from tiburon.errors import CacheWarning
from tiburon.native import cache
from tiburon.native.cache import LEDGER_NAME
from tiburon.operating_system import lock_file


@pytest.fixture(autouse=True)
def directory(kernel_directory):
    return kernel_directory


def set_age(path, days):
    moment = time.time() - days * 86400.0
    os.utime(path, (moment, moment))


# what goes in comes out


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_loaded_entry_equals_stored_entry(size):
    """Metadata and code survive unchanged, whatever their size."""
    metadata = {"name": "forward_dynamics", "shapes": [[7], []], "note": "Grüße\n'", "n": 1.5}
    cache.store_entry(KEY, metadata, some_code(1, size))
    assert cache.load_entry(KEY) == (metadata, some_code(1, size))
    assert cache.load_entry(OTHER_KEY) is None


def test_loaded_link_equals_stored_link(directory):
    """A link and code under the same key do not replace each other."""
    assert cache.load_link(KEY) is None
    cache.store_entry(KEY, {}, some_code(1))
    cache.store_link(KEY, "graph")
    assert cache.load_link(KEY) == "graph"
    assert cache.load_link(OTHER_KEY) is None
    assert cache.load_entry(KEY) == ({}, some_code(1))
    assert sorted(os.listdir(directory)) == [f"{KEY}.kernel", f"{KEY}.link", LEDGER_NAME]


def test_links_are_removed_and_not_listed(directory):
    """People look for machine code; what leads to it goes with it."""
    cache.store_entry(KEY, {}, some_code(1))
    cache.store_link(OTHER_KEY, "graph")
    assert [entry.key for entry in cache.cache_entries()] == [KEY]
    assert cache.clear_cache() == 1
    assert os.listdir(directory) == []


def test_storing_again_replaces():
    """The last one stored under a key is the one that counts."""
    cache.store_entry(KEY, {"name": "a"}, some_code(1))
    cache.store_entry(KEY, {"name": "b"}, some_code(2))
    assert cache.load_entry(KEY) == ({"name": "b"}, some_code(2))


def test_storing_leaves_no_temporary_files(directory):
    """No temporary file survives a store; beside entries lies the ledger alone."""
    cache.store_entry(KEY, {}, some_code(1))
    assert sorted(os.listdir(directory)) == [f"{KEY}.kernel", LEDGER_NAME]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_directory_is_created_for_its_owner_only(directory):
    """Others must not be able to put machine code there."""
    cache.store_entry(KEY, {}, some_code(1))
    assert directory.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("value", [np.float64(1.0), float("nan"), object(), {"a": {1: [Path()]}}])
def test_metadata_that_json_cannot_restore_is_refused(directory, value):
    """Better a mistake at once than an entry that can never be read."""
    with pytest.raises(TypeError, match="metadata: expected"):
        cache.store_entry(KEY, {"value": value}, b"")
    assert cache.cache_entries() == []


# keys


def test_keys_are_hexadecimal_and_repeatable():
    """A key is a file name, the same for the same parts."""
    assert cache.link_key("a", 1, b"x") == cache.link_key("a", 1, b"x")
    assert len(cache.link_key()) == 32
    assert set(cache.link_key()) <= set("0123456789abcdef")


def test_keys_differ_where_parts_differ():
    """Neither joining nor types may make two things equal."""
    lists = [
        (),
        ("",),
        ("ab",),
        ("a", "b"),
        ("b", "a"),
        (b"ab",),
        ("1",),
        (1,),
        (b"1",),
        (-1,),
        (2**80,),
        ("a", ""),
    ]
    assert len({cache.link_key(*parts) for parts in lists}) == len(lists)


@pytest.fixture
def fresh_environment():
    """Let keys describe machine and package anew, in the test and after it."""
    forget_environment()
    yield
    forget_environment()


def forget_environment():
    for part in (cache._machine, cache._package, cache.source_digest):
        part.cache_clear()


def test_keys_depend_on_processor_and_compiler(monkeypatch, fresh_environment):
    """Code for another machine or from another LLVM is never found."""
    import dataclasses

    from tiburon.native import engine

    keys = {cache.link_key("a"), cache.code_key("a")}
    machine = engine.host()
    for change in ({"triple": "x-y-z"}, {"cpu": "other"}, {"features": "+none"}):
        changed = dataclasses.replace(machine, **change)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "host", lambda changed=changed: changed)
            forget_environment()
            keys |= {cache.link_key("a"), cache.code_key("a")}
    with monkeypatch.context() as patch:
        patch.setattr(engine, "llvm_stamp", lambda: "version_version = '0.0.1'")
        forget_environment()
        keys |= {cache.link_key("a"), cache.code_key("a")}
    assert len(keys) == 10


@pytest.fixture
def package(tmp_path, monkeypatch, fresh_environment):
    """Pretend that the package is a few small files, older than this process."""
    for name in ("cli/main.py", "native/cache.py", "trace/graph.py", "trace/deeper/one.py"):
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "package" / "native" / "cache.py"))
    monkeypatch.setattr(cache, "LOADED_NS", time.time_ns() + 10**12)
    return tmp_path / "package"


def test_links_depend_on_time_and_size_of_all_files(package):
    """An edited algorithm must not find code compiled from its older self."""
    keys = {cache.link_key("a")}
    # same size, another time
    os.utime(package / "cli" / "main.py", ns=(0, 1))
    forget_environment()
    keys.add(cache.link_key("a"))
    (package / "cli" / "more.py").write_text("three")
    forget_environment()
    keys.add(cache.link_key("a"))
    assert len(keys) == 3


def test_stamp_depends_on_the_content_of_the_generator_alone(package):
    """Neither times nor other rooms count; a changed, moved, new or missing file does."""
    stamps = [cache.generator_stamp()]
    os.utime(package / "native" / "cache.py", ns=(0, 1))
    (package / "cli" / "main.py").write_text("edited")
    forget_environment()
    assert cache.generator_stamp() == stamps[0]
    edits = [
        lambda: (package / "native" / "cache.py").write_text("NATIVE/cache.py"),
        lambda: (package / "trace" / "deeper" / "one.py").write_text("two"),
        lambda: (package / "trace" / "deeper" / "one.py").rename(package / "trace" / "one.py"),
        lambda: (package / "trace" / "new.py").write_text(""),
        lambda: (package / "trace" / "graph.py").unlink(),
    ]
    for edit in edits:
        edit()
        forget_environment()
        stamps.append(cache.generator_stamp())
    assert None not in stamps
    assert len(set(stamps)) == 1 + len(edits)


def test_stamp_is_the_same_in_another_directory(package, tmp_path, monkeypatch):
    """Copies of the package share machine code."""
    import shutil

    stamp = cache.generator_stamp()
    shutil.copytree(package, tmp_path / "copy")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "copy" / "native" / "cache.py"))
    forget_environment()
    assert cache.generator_stamp() == stamp


@pytest.mark.parametrize("edited", ["native/cache.py", "trace/deeper/one.py", "trace/new.py"])
def test_files_edited_after_loading_have_no_stamp(package, monkeypatch, edited):
    """What runs is then the file as it was: its code must not be kept as that of the new file."""
    assert cache.generator_stamp() is not None
    monkeypatch.setattr(cache, "LOADED_NS", time.time_ns())
    (package / edited).write_text("edited")
    assert cache.generator_stamp() is None


def test_links_of_files_edited_after_loading_serve_this_process_alone(package, monkeypatch):
    """Another process loads the file as it is now."""
    monkeypatch.setattr(cache, "LOADED_NS", time.time_ns())
    (package / "cli" / "main.py").write_text("edited")
    first = cache.link_key("a")
    assert cache.link_key("a") == first
    forget_environment()
    assert cache.link_key("a") != first


def test_keys_agree_between_processes():
    """Another process finds what this one stored."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for key in (cache.link_key, cache.code_key):
            assert pool.apply(key, ("a", 1)) == key("a", 1)
        assert pool.apply(cache.generator_stamp) == cache.generator_stamp()


# settings


@pytest.mark.parametrize("setting", ["", "off", "OFF", " off "])
def test_cache_can_be_turned_off(tmp_path, monkeypatch, setting):
    """Turned off, nothing is written, read or listed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    cache.store_entry(KEY, {}, some_code(1))
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setenv("TIBURON_CACHE_DIR", setting)
    assert not cache.cache_enabled()
    cache.store_entry(OTHER_KEY, {}, some_code(2))
    assert cache.load_entry(KEY) is None
    assert cache.cache_entries() == []
    assert cache.clear_cache() == 0
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("platform", "settings", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/chosen"}, "/chosen/tiburon"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/tiburon"),
        ("linux", {}, "/home/me/.cache/tiburon"),
        ("darwin", {"XDG_CACHE_HOME": "/chosen"}, "/home/me/Library/Caches/tiburon"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/tiburon"),
        ("win32", {}, "/home/me/AppData/Local/tiburon"),
    ],
)
def test_directory_follows_the_platform(monkeypatch, platform, settings, expected):
    """Each system has a place for what programs can make again."""
    for name in ("TIBURON_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: Path("/home/me")))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache.cache_directory() == Path(expected)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("", 512 * 1024**2),
        ("1000", 1000),
        ("2k", 2048),
        ("1.5M", 1536 * 1024),
        ("3 GiB", 3 * 1024**3),
        ("1TB", 1024**4),
        ("0", 0),
    ],
)
def test_size_setting_is_read(monkeypatch, setting, expected):
    """Bytes, or a unit of 1024."""
    monkeypatch.setenv("TIBURON_CACHE_SIZE", setting)
    assert cache._size_limit() == expected


@pytest.mark.parametrize("setting", ["much", "-1", "1X", "1..5M"])
def test_invalid_size_setting_raises_an_error(monkeypatch, setting):
    """A slip in the environment must not break a program."""
    monkeypatch.setenv("TIBURON_CACHE_SIZE", setting)
    with pytest.warns(CacheWarning, match=r"TIBURON_CACHE_SIZE: expected .* got .*512 MiB"):
        cache.store_entry(KEY, {}, some_code(1))
    assert cache.load_entry(KEY) is not None


# size


def keys_of(count):
    return [f"{number:032x}" for number in range(count)]


def test_least_recently_used_entries_are_evicted_first(directory, monkeypatch):
    """Over the limit the oldest go, down to nine tenths of it; what was just used stays."""
    keys = keys_of(9)
    for age, key in enumerate(keys):
        cache.store_entry(key, {}, some_code(age, 10_000))
        set_age(path_of(directory, key), days=10 + len(keys) - age)
    # the oldest is used again
    assert cache.load_entry(keys[0]) is not None
    monkeypatch.setenv("TIBURON_CACHE_SIZE", "80000")
    cache.store_entry(KEY, {}, some_code(99, 10_000))
    # ten entries of about 10 100 bytes; seven fit into 72 000
    left = {entry.key for entry in cache.cache_entries()}
    assert left == {KEY, keys[0], *keys[4:]}


def test_links_count_and_are_pruned(directory, monkeypatch):
    """Many small files are kept within the limit, too."""
    for age, key in enumerate(keys_of(40)):
        cache.store_link(key, "x" * 1000)
        set_age(directory / f"{key}.link", days=50 - age)
    monkeypatch.setenv("TIBURON_CACHE_SIZE", "20000")
    cache.store_link(KEY, "x" * 1000)
    left = sorted(directory.glob("*.link"))
    assert 0 < sum(path.stat().st_size for path in left) <= 18_000
    assert cache.load_link(KEY) is not None
    assert cache.load_link(keys_of(40)[0]) is None


def test_entry_larger_than_the_limit_is_not_kept(directory, monkeypatch):
    """One huge kernel must not throw out all others for nothing."""
    cache.store_entry(KEY, {}, some_code(1, 1000))
    monkeypatch.setenv("TIBURON_CACHE_SIZE", "5000")
    cache.store_entry(OTHER_KEY, {}, some_code(2, 10_000))
    assert [entry.key for entry in cache.cache_entries()] == [KEY]


def test_access_time_is_updated_at_most_once_a_day(directory):
    """Loading touches an entry of yesterday, not one of today."""
    cache.store_entry(KEY, {}, some_code(1))
    path = path_of(directory)
    set_age(path, days=0.5)
    before = path.stat().st_mtime
    cache.load_entry(KEY)
    assert path.stat().st_mtime == before
    set_age(path, days=2.0)
    cache.load_entry(KEY)
    assert time.time() - path.stat().st_mtime < 3600.0


def test_files_left_by_dead_processes_are_removed(directory):
    """The first store of a process removes them; what is being written and others' files stay."""
    cache.make_directory(directory)
    stale = directory / f"{KEY}.kernel.123-456.part"
    written = directory / f"{OTHER_KEY}.kernel.123-456.part"
    foreign = directory / "notes.part"
    for path in (stale, written, foreign):
        path.write_bytes(b"unfinished")
    with open(written, "rb+") as file:
        lock_file(file.fileno(), shared=False)
        cache.store_entry(KEY, {}, some_code(1))
    assert not stale.exists()
    assert written.exists()
    assert foreign.exists()


def test_without_locks_temporary_files_are_removed_by_age(directory, monkeypatch):
    """File systems without locks do not show which process still runs."""
    cache.make_directory(directory)
    old = directory / f"{KEY}.kernel.123-456.part"
    fresh = directory / f"{OTHER_KEY}.kernel.123-456.part"
    for path in (old, fresh):
        path.write_bytes(b"unfinished")
    set_age(old, days=1)

    def missing(file, shared):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(cache, "lock_file", missing)
    cache.store_entry(KEY, {}, some_code(1))
    assert not old.exists()
    assert fresh.exists()


# listing and emptying


def test_entries_are_listed_with_name_size_and_time(directory):
    """A list shows what a person wants to know."""
    begin = time.time()
    cache.store_entry(KEY, {"name": "mass_matrix"}, some_code(1))
    cache.store_entry(OTHER_KEY, {}, some_code(2))
    named, nameless = cache.cache_entries()
    assert (named.key, named.name, named.label) == (KEY, "mass_matrix", "mass_matrix")
    assert nameless.label == OTHER_KEY
    assert named.size == path_of(directory).stat().st_size
    # file systems round times to 2 s at most
    assert begin - 2.0 <= named.modified <= time.time() + 2.0


def test_clearing_removes_entries_only(directory):
    """A directory shared with other files keeps those."""
    for key in keys_of(3):
        cache.store_entry(key, {}, some_code(1))
    (directory / "notes.txt").write_text("mine")
    (directory / "README.kernel").write_text("mine too")
    assert cache.clear_cache() == 3
    assert sorted(os.listdir(directory)) == ["README.kernel", "notes.txt"]
    assert cache.cache_entries() == []


# many processes


def code_for(key, writer):
    """Give code by which a reader can tell whether it is whole: both ends name key and writer."""
    mark = f"{key}:{writer}".encode()
    return mark + bytes(50_000 + writer) + mark


def hammer(writer):
    """Store, load, and prune or clear at random; return how often entries were found."""
    warnings.simplefilter("error")
    rng = np.random.default_rng(writer)
    keys = keys_of(5)
    found = 0
    for _ in range(100):
        key = keys[rng.integers(len(keys))]
        if rng.random() < 0.5:
            cache.store_entry(key, {"writer": writer}, code_for(key, writer))
        elif rng.random() < 0.05:
            cache.clear_cache()
        else:
            entry = cache.load_entry(key)
            if entry is not None:
                metadata, code = entry
                assert code == code_for(key, metadata["writer"])
                found += 1
    return found


def test_many_processes_at_once_never_see_half_an_entry(directory, monkeypatch):
    """Four processes write, read, prune and clear the same few entries."""
    monkeypatch.setenv("TIBURON_CACHE_SIZE", "200K")
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = pool.map(hammer, range(4), chunksize=1)
    # the test would show nothing if no reader ever found an entry
    assert sum(found) > 20
    assert all(name.endswith(".kernel") or name == LEDGER_NAME for name in os.listdir(directory))
    for key in keys_of(5):
        entry = cache.load_entry(key)
        if entry is not None:
            assert entry[1] == code_for(key, entry[0]["writer"])


def test_code_travels_to_another_cache(directory, tmp_path, monkeypatch):
    """Entries that a process used can be kept in the cache of another; damaged ones are not."""
    before = set(cache._used)
    key = cache.code_key("travels")
    cache.store_entry(key, {"name": "traveler"}, b"code" * 100)
    found = cache.used_entries(10**6)
    assert key in found
    assert key not in cache.used_entries(10)
    monkeypatch.setenv("TIBURON_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert cache.load_entry(key) is None
    assert cache.keep_entries({key: found[key][:-1] + b"?"}) == 0
    assert cache.keep_entries({key: found[key]}) == 1
    assert cache.keep_entries({key: found[key]}) == 0
    assert cache.load_entry(key) == ({"name": "traveler"}, b"code" * 100)
    cache._used.clear()
    cache._used.update(before)
