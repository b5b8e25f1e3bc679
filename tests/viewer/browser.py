"""A real browser for pages: Chromium, steered by Playwright, drawing without a graphics card."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

FLAGS = (
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
)
"""Drawing in software is slow, but the same everywhere."""

PATIENCE = 120.0
"""Seconds that a page may take on a busy machine: software draws some frames per second."""


def artifact(name: str) -> Path | None:
    """Where a picture is kept for people to look at; None unless TIBURON_ARTIFACTS says where."""
    folder = os.environ.get("TIBURON_ARTIFACTS")
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / name


@contextmanager
def browser() -> Iterator[object]:
    """Start a browser, or skip the test with the reason."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (make browser)")
    with playwright.sync_playwright() as steering:
        started = steering.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()


def wait_for(page, expression: str, value=True) -> None:
    """Wait until an expression has a value; the page forbids the usual way, which is eval."""
    end = time.monotonic() + PATIENCE
    while (now := page.evaluate(expression)) != value:
        assert time.monotonic() < end, f"{expression} is {now!r}, not {value!r}, at the end"
        page.wait_for_timeout(50)
