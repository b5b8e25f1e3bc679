"""The page for operators in a real browser: keys and sliders move the vehicle, gauges tell."""

import io

import numpy as np
import pytest

import tiburon as tb
from tests.drive.serving import serving
from tests.drive.vehicles import rov
from tests.viewer.browser import PATIENCE, artifact, browser, wait_for
from tiburon.drive.session import Drive

image = pytest.importorskip("PIL.Image", reason="pillow is not installed")

SIZE = {"width": 600, "height": 360}
"""Pixels are what software draws slowly."""

MILLISECONDS = 1e3 * PATIENCE


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A vehicle behind its page: the drive and the address."""
    drive = rov()
    with serving(drive, folder=tmp_path_factory.mktemp("files")) as lines:
        yield drive, lines[0].removeprefix("page ")


@pytest.fixture(scope="module")
def page(chromium, served):
    """One page for all tests; at the end it must not have complained."""
    complaints = []
    opened = chromium.new_context(viewport=SIZE).new_page()
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on(
        "console", lambda said: complaints.append(said.text) if said.type == "error" else None
    )
    opened.goto(served[1], timeout=MILLISECONDS)
    wait_for(opened, "Boolean(window.tiburonDrive && window.tiburonDrive.state)")
    yield opened
    opened.context.close()
    assert complaints == []


def patiently(page, condition):
    """Wait while the page continues."""
    for _ in range(int(20 * PATIENCE)):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("not in time")


def test_time_advances_and_gauges_show_it(page):
    first = page.evaluate("tiburonDrive.state.time")
    wait_for(page, f"tiburonDrive.state.time > {first}")
    wait_for(page, "document.querySelector('.dial b').textContent !== '–'")
    names = page.evaluate("[...document.querySelectorAll('.dial small')].map((n) => n.textContent)")
    assert {"depth", "speed", "real time", "deadline misses", "vehicle"} <= set(names)


def test_key_moves_the_vehicle_until_it_is_released(page, served):
    drive, _ = served
    start = drive.ticker.latest().state[4]
    page.keyboard.down("w")
    patiently(page, lambda: drive.ticker.latest().state[4] > start + 0.2)
    assert drive.ticker.latest().held[drive.place("surge")] == 1.0
    page.keyboard.up("w")
    patiently(page, lambda: drive.ticker.latest().held[drive.place("surge")] == 0.0)


def test_keys_switch_modes_and_pause(page, served):
    drive, _ = served
    page.keyboard.press("t")
    wait_for(page, "tiburonDrive.state.mode.vehicle", "station keeping")
    page.keyboard.press(" ")
    # the same key does the opposite once the page knows
    wait_for(page, "tiburonDrive.state.paused")
    page.keyboard.press(" ")
    patiently(page, lambda: not drive.ticker.paused)
    page.keyboard.press("t")
    wait_for(page, "tiburonDrive.state.mode.vehicle", "manual")


def test_sliders_are_sticks(page, served):
    drive, _ = served
    page.evaluate(
        "(() => { const input = document.querySelector('input[aria-label^=heave]');"
        " input.value = -0.5; input.dispatchEvent(new Event('input')); })()"
    )
    patiently(page, lambda: drive.ticker.latest().held[drive.place("heave")] == -0.5)
    page.evaluate(
        "document.querySelector('input[aria-label^=heave]').dispatchEvent(new Event('blur'))"
    )
    patiently(page, lambda: drive.ticker.latest().held[drive.place("heave")] == 0.0)


def test_thruster_sliders_act_until_released(page, served):
    """A slider moves one command in its own unit and stays; all go back to zero together."""
    drive, _ = served
    page.evaluate(
        "(() => { const input = document.querySelector('#thrusters input');"
        " input.value = 0.5 * Number(input.max); input.dispatchEvent(new Event('input')); })()"
    )
    place = drive.place(drive.model.thrusters[0].name)
    most = drive.model.thrusters[0].thrust_limits[1]
    patiently(page, lambda: drive.ticker.latest().held[place] == pytest.approx(0.5 * most))
    assert page.evaluate("document.querySelector('#thrusters output').textContent").endswith(" N")
    page.evaluate(
        "[...document.querySelectorAll('button')]"
        ".find((b) => b.textContent === 'Release all controls').click()"
    )
    patiently(page, lambda: drive.ticker.latest().held[place] == 0.0)
    assert page.evaluate("document.querySelector('#thrusters input').value") == "0"


def test_robots_without_arms_have_no_pushes(page):
    assert page.evaluate("document.getElementById('pushes').parentElement.hidden")


def test_a_gamepad_steers(page, served):
    """A pad as the browser would report it: its left stick pushed ahead is surge."""
    drive, _ = served
    page.evaluate(
        "navigator.getGamepads = () => [{ connected: true, id: 'pad', axes: [0, -1, 0, 0],"
        " buttons: Array.from({ length: 16 }, () => ({ pressed: false, value: 0 })) }]"
    )
    patiently(page, lambda: drive.ticker.latest().held[drive.place("surge")] == 1.0)
    page.evaluate("navigator.getGamepads = () => []")
    patiently(page, lambda: drive.ticker.latest().held[drive.place("surge")] == 0.0)


def test_parameters_are_edited(page, served):
    drive, _ = served
    page.evaluate(
        "(() => { const input = document.querySelector('input[aria-label=density]');"
        " input.value = 1030; input.dispatchEvent(new Event('change')); })()"
    )
    patiently(page, lambda: drive.world.fluid.density == 1030.0)


def test_scene_is_drawn(page):
    """The scene is drawn: its part beside controls and gauges has many colors."""
    wait_for(page, "tiburonDrive.drawn > 3")
    shot = page.screenshot(timeout=MILLISECONDS)
    kept = artifact("drive.png")
    if kept is not None:
        kept.write_bytes(shot)
    pixels = np.asarray(image.open(io.BytesIO(shot)).convert("RGB"))[60:200, :300]
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 200


@pytest.fixture(scope="module")
def arm_page(chromium, tmp_path_factory):
    """A cart with a pole, which has no thrusters, behind a page as wide as a phone."""
    drive = Drive(tb.load("cart_pole"))
    complaints = []
    with serving(drive, folder=tmp_path_factory.mktemp("arm")) as lines:
        opened = chromium.new_context(viewport={"width": 390, "height": 500}).new_page()
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.goto(lines[0].removeprefix("page "), timeout=MILLISECONDS)
        wait_for(opened, "Boolean(window.tiburonDrive && window.tiburonDrive.state)")
        yield opened, drive
        opened.context.close()
    assert complaints == []


def test_slider_applies_force_to_an_unactuated_joint(arm_page):
    """The pole has no motor: its slider moves it all the same, in newton meters."""
    page, drive = arm_page
    assert page.evaluate("document.getElementById('thrusters').parentElement.hidden")
    place = drive.place("hinge")

    def pushed():
        # the page may be connecting anew on a busy machine: dragging sends more than once
        page.evaluate(
            "(() => { const input = document.querySelector('input[aria-label^=\"hinge\"]');"
            " input.value = input.max; input.dispatchEvent(new Event('input')); })()"
        )
        return drive.ticker.latest().held[place] > 0.0

    patiently(page, pushed)
    patiently(page, lambda: drive.ticker.latest().state[1] > 0.01)


def test_narrow_pages_leave_the_scene_between_gauges_and_desk(arm_page):
    page, _ = arm_page
    box = "(id) => { const r = document.getElementById(id).getBoundingClientRect(); return r }"
    top = page.evaluate(f"({box})('gauges').bottom")
    bottom = page.evaluate(f"({box})('desk').top")
    assert bottom - top > 100
    assert page.evaluate(f"({box})('gauges').right") <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
