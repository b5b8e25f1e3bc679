"""The live scene in a real browser: it loads, shows the robot, moves, and obeys its controls."""

import io
import time as clock

import numpy as np
import pytest

import tiburon as tb
from tests.viewer.browser import PATIENCE, artifact, browser

pytest.importorskip("viser", reason="viser is not installed")
image = pytest.importorskip("PIL.Image", reason="pillow is not installed")

SIZE = {"width": 560, "height": 320}
"""Pixels are what software draws slowly."""

SCENE = (slice(0, 320), slice(0, 240))
"""The part of the picture that controls do not cover."""


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def replay():
    from tiburon.viewer import LiveReplay

    model = tb.load("bluerov2_alpha")
    time = np.linspace(0.0, 60.0, 601)
    dv = np.zeros((601, model.nv))
    dv[:, 2] = 0.8 * np.sin(time)
    dv[:, 6:] = 0.5 * np.sin(time[:, None] + np.arange(model.nv - 6))
    q = model.integrate(model.neutral(), dv)
    sea = tb.Water(current=(0.2, 0.1, 0.0))
    with LiveReplay(model, time, q, fluid=sea, port=18080) as made:
        yield made


@pytest.fixture
def page(chromium, replay):
    """A page at the scene; at the end it must not have complained."""
    complaints = []
    context = chromium.new_context(viewport=SIZE)
    opened = context.new_page()
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on(
        "console", lambda said: complaints.append(said.text) if said.type == "error" else None
    )
    opened.goto(replay.url)
    until(lambda: replay.scene.browsers == 1, opened)
    yield opened
    context.close()
    assert complaints == []
    until(lambda: replay.scene.browsers == 0)


def until(condition, page=None) -> None:
    """Wait for something that happens in this process."""
    end = clock.monotonic() + PATIENCE
    while not condition():
        assert clock.monotonic() < end, "it did not happen"
        page.wait_for_timeout(100) if page else clock.sleep(0.1)


def colors(page, name=None) -> np.ndarray:
    """The free part of the picture."""
    data = page.screenshot(timeout=1e3 * PATIENCE)
    kept = artifact(name) if name else None
    if kept is not None:
        kept.write_bytes(data)
    return np.asarray(image.open(io.BytesIO(data)).convert("RGB"), dtype=float)[SCENE]


def differs(one, two) -> float:
    """Share of the pixels that look different."""
    return float((np.abs(one - two).max(axis=-1) > 25.0).mean())


def press(page, words: str) -> None:
    """Click what has these words, without waiting for a frame that software draws late."""
    page.get_by_text(words, exact=True).dispatch_event("click")


def test_the_page_shows_the_robot_moves_it_and_obeys(page, replay):
    """Time advances while a page is open; without the robot the picture differs."""
    start = replay.time
    until(lambda: replay.time > start, page)
    press(page, "Pause")
    until(lambda: not replay.playing, page)
    stopped = replay.time
    robot = replay.scene.robots[0]
    robot._cases[0].visible = False
    page.wait_for_timeout(1000)
    without = colors(page)
    robot._cases[0].visible = True
    until(lambda: differs(colors(page, "live.png"), without) > 0.02, page)
    assert without.std(axis=(0, 1)).min() > 5.0
    # nothing moved meanwhile; where it swings to the other side it looks different
    assert replay.time == stopped
    before = colors(page)
    replay.seek(stopped + np.pi)
    until(lambda: differs(colors(page), before) > 0.01, page)
    assert not robot.kinds["centers"][0].visible
    page.get_by_label("Centers").dispatch_event("click")
    until(lambda: robot.kinds["centers"][0].visible, page)
    press(page, "Play")
    until(lambda: replay.time > stopped + np.pi, page)
