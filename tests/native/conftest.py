"""Fixtures for the tests of native code."""

import pytest


@pytest.fixture
def kernel_directory(tmp_path, monkeypatch):
    """Point the cache to a directory that does not exist yet, and forget earlier warnings."""
    from tiburon.native import cache

    directory = tmp_path / "below" / "kernels"
    monkeypatch.setenv("TIBURON_CACHE_DIR", str(directory))
    monkeypatch.delenv("TIBURON_CACHE_SIZE", raising=False)
    monkeypatch.setattr(cache, "_warned", set())
    return directory
