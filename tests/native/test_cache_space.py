"""The cache keeps within its size, and looks at its files only where it may have passed it."""

import os

import pytest

from tests.native.cache_samples import KEY, path_of, some_code
from tiburon.native import cache
from tiburon.native.cache import LEDGER_NAME, UNIT

LIMIT = 400_000
SIZE = 10_000


@pytest.fixture(autouse=True)
def directory(kernel_directory, monkeypatch):
    monkeypatch.setenv("TIBURON_CACHE_SIZE", str(LIMIT))
    return kernel_directory


@pytest.fixture
def listings(monkeypatch):
    """Collect every listing of a directory."""
    seen = []
    real = os.scandir

    def counted(path):
        seen.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", counted)
    return seen


def store(numbers):
    for number in numbers:
        cache.store_entry(f"{number:032x}", {}, some_code(number, SIZE))


def total_size(directory):
    return sum(path.stat().st_size for path in directory.glob("*.kernel"))


def test_storing_lists_the_directory_rarely(directory, listings):
    """The first store counts what is there; the next listing comes with a full cache."""
    # ten kilobytes count as three units of the ledger
    fitting = LIMIT // (3 * UNIT)
    store(range(fitting))
    assert len(listings) == 1
    store(range(1000, 1200))
    # each listing that removes makes room for three stores; each that removes nothing shows how
    # much the ledger says too much, by a fifth here
    assert 10 < len(listings) < 140


def test_size_limit_holds_over_many_stores(directory):
    """However often it fills, the cache never takes more than its limit."""
    for start in range(0, 200, 5):
        store(range(start, start + 5))
        assert total_size(directory) <= LIMIT
    # and it is used: pruning leaves nine tenths
    assert total_size(directory) > 0.85 * LIMIT


def test_entries_older_than_the_ledger_are_counted(directory):
    """A directory without a ledger is listed, so that what it holds is known."""
    store(range(38))
    (directory / LEDGER_NAME).unlink()
    store(range(100, 104))
    assert total_size(directory) <= LIMIT
    assert path_of(directory, f"{103:032x}").exists()


def test_replacing_an_entry_removes_no_other(directory):
    """The ledger counts each store, but what goes is decided by what is there."""
    store(range(5))
    for _ in range(100):
        cache.store_entry(KEY, {}, some_code(1, SIZE))
    assert len(cache.cache_entries()) == 6


def test_cleared_cache_starts_with_an_empty_ledger(directory, listings):
    """Clearing takes the ledger away; the next store finds an empty directory."""
    store(range(20))
    assert cache.clear_cache() == 20
    assert os.listdir(directory) == []
    del listings[:]
    store(range(20))
    assert len(listings) == 1
    assert (directory / LEDGER_NAME).stat().st_size * UNIT < 2 * total_size(directory)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_unwritable_ledger_falls_back_to_listing_the_directory(directory, monkeypatch):
    """Without a ledger the limit still holds."""
    real = os.open

    def refuse(path, *arguments, **options):
        if os.fspath(path).endswith(LEDGER_NAME):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    store(range(60))
    assert total_size(directory) <= LIMIT
