"""The replay page in a real browser: it plays from a file, offline, and obeys its buttons."""

import io

import numpy as np
import pytest

import tiburon as tb
from tests.viewer.browser import PATIENCE, artifact, browser, wait_for
from tests.viewer.test_replay import sliding_ball
from tiburon.viewer import replay_html, save_html

SIZE = {"width": 400, "height": 320}
"""Pixels are what software draws slowly."""

SCENE = slice(55, 230)
"""Rows of the picture between the buttons above and the panel below."""


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def visit(chromium):
    """Opens pages without network and collects whatever they complain about."""
    contexts, complaints = [], []

    def go(file):
        context = chromium.new_context(viewport=SIZE, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append((said.type, said.text)))
        page.on("pageerror", lambda error: complaints.append(("error", str(error))))
        page.on("request", lambda asked: requests.append(asked.url))
        page.goto(file.as_uri())
        wait_for(page, "window.tiburonReplay ? window.tiburonReplay.drawn > 0 : false")
        return page

    requests: list[str] = []
    yield go
    for context in contexts:
        context.close()
    assert complaints == []
    assert all(url.startswith(("file:", "blob:", "data:")) for url in requests), requests


def dive(tmp_path, **options):
    """A vehicle with an arm that travels and turns, in a current."""
    model = tb.load("bluerov2_alpha")
    time = np.linspace(0.0, 4.0, 121)
    dv = np.zeros((121, model.nv))
    dv[:, 2] = 0.8 * np.sin(time)
    dv[:, 3] = 0.3 * time
    dv[:, 6:] = 0.5 * np.sin(time[:, None] + np.arange(model.nv - 6))
    q = model.integrate(model.neutral(), dv)
    thrust = 10.0 * np.sin(time[:, None] + np.arange(len(model.thrusters)))
    chosen = {"fluid": tb.Water(current=(0.2, 0.1, 0.0)), "thrust": thrust} | options
    return model, q, save_html(tmp_path / "dive.html", model, time, q, **chosen)


def colors(page, name=None) -> np.ndarray:
    """The picture of the page."""
    image = pytest.importorskip("PIL.Image")
    data = page.screenshot(timeout=1e3 * PATIENCE)
    kept = artifact(name) if name else None
    if kept is not None:
        kept.write_bytes(data)
    return np.asarray(image.open(io.BytesIO(data)).convert("RGB"), dtype=float)


def drawn_again(page, action) -> None:
    """Do something and wait until the page was drawn after it."""
    before = page.evaluate("window.tiburonReplay.drawn")
    action()
    wait_for(page, f"window.tiburonReplay.drawn > {before}")


def test_a_page_plays_from_a_file_without_network(visit, tmp_path):
    """Time advances by itself, stops at the pause button, and goes where the slider is put."""
    model, q, file = dive(tmp_path)
    page = visit(file)
    assert page.title() == model.name
    start = page.evaluate("window.tiburonReplay.player.time")
    wait_for(page, f"window.tiburonReplay.player.time > {start}")
    page.click("#play")
    assert page.evaluate("window.tiburonReplay.player.playing") is False
    stopped = page.evaluate("window.tiburonReplay.player.time")
    page.wait_for_timeout(200)
    assert page.evaluate("window.tiburonReplay.player.time") == stopped

    def scrub():
        page.evaluate(
            "() => { const s = document.getElementById('scrub'); s.value = '2.5';"
            " s.dispatchEvent(new Event('input')); }"
        )

    drawn_again(page, scrub)
    assert page.evaluate("window.tiburonReplay.player.time") == pytest.approx(2.5)
    assert page.text_content("#clock").startswith("2.50")
    # the robot stands where the kinematics puts it: frame 75 of 30 per second
    found = page.evaluate(
        "window.tiburonReplay.robots[0].shown[0].bodies.map(b => b.position.toArray())"
    )
    _, p = tb.forward_kinematics(model, q[75], model.body_names)
    np.testing.assert_allclose(found, p, atol=1e-6)
    page.keyboard.press("Space")
    assert page.evaluate("window.tiburonReplay.player.playing") is True


def test_the_scene_is_full_and_changes_with_time_camera_and_buttons(visit, tmp_path):
    """Robot, water and floor give many colors; time, overlays and cameras give other pictures."""
    _, _, file = dive(tmp_path, show=())
    page = visit(file)
    drawn_again(page, lambda: page.evaluate("window.tiburonReplay.player.seek(0.0)"))
    first = colors(page, "replay-start.png")[SCENE]
    assert first.std(axis=(0, 1)).min() > 5.0
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 500
    drawn_again(page, lambda: page.evaluate("window.tiburonReplay.player.seek(2.0)"))
    before = colors(page)[SCENE]
    assert np.abs(before - first).max(axis=-1).mean() > 1.0
    for kind in ("frames", "labels", "forces", "trails", "centers"):
        drawn_again(page, lambda kind=kind: page.click(f"[data-overlay={kind}]"))
        after = colors(page)[SCENE]
        assert (np.abs(after - before).max(axis=-1) > 20.0).sum() > 15, kind
        before = after
    for key, mode in (("3", "on-board"), ("2", "follow"), ("1", "orbit")):
        drawn_again(page, lambda key=key: page.keyboard.press(key))
        assert page.evaluate("window.tiburonReplay.rig.mode") == mode
        if mode == "on-board":
            aboard = colors(page, "replay-aboard.png")[SCENE]
            assert np.abs(aboard - before).max(axis=-1).mean() > 5.0
    page.mouse.move(200, 140)
    page.mouse.down()
    drawn_again(page, lambda: page.mouse.move(280, 150))
    page.mouse.up()
    assert page.evaluate("window.tiburonReplay.rig.azimuth") != pytest.approx(-0.9)


def test_plot_strip_and_playback_time_are_linked(visit, tmp_path):
    """A click into the plot goes to that time, and the legend shows the value there."""
    model = tb.load("double_pendulum")
    time = np.linspace(0.0, 2.0, 61)
    q = np.column_stack([time, -time])
    file = save_html(tmp_path / "p.html", model, time, q, plots={"ramp [rad]": {"up": 10.0 * time}})
    page = visit(file)
    if page.evaluate("document.getElementById('strip').hidden"):
        page.click("#strip-toggle")
    box = page.locator("#plot").bounding_box()
    middle = box["x"] + 58 + 0.5 * (box["width"] - 58 - 14)
    drawn_again(page, lambda: page.mouse.click(middle, box["y"] + 30))
    # a pixel of the plot is a hundredth of a second
    now = page.evaluate("window.tiburonReplay.player.time")
    assert now == pytest.approx(1.0, abs=0.02)
    shown = float(page.text_content("#legend b"))
    assert shown == pytest.approx(10.0 * now, abs=6e-4)


def test_hostile_names_do_nothing_in_the_browser(visit, tmp_path):
    """Scripts in names of bodies, frames and curves are shown as text and never run."""
    evil = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=1</script>"
    body = tb.Body(evil, joint=tb.Revolute("j", (0, 0, 1)), inertia=tb.Inertia.box(1, (1, 1, 1)))
    model = tb.Model(evil, [body], [tb.Frame(evil + "f", evil)], about=evil)
    page_text = replay_html(
        model, [0.0, 1.0], [[0.0], [1.0]], plots={evil: {evil: [0, 1]}}, show=("labels",)
    )
    file = tmp_path / "evil.html"
    file.write_text(page_text, encoding="utf-8")
    page = visit(file)
    assert page.text_content("#heading h1") == evil
    assert page.evaluate("window.hacked") is None


@pytest.mark.slow
def test_all_surroundings_are_drawn_without_console_errors(visit, tmp_path):
    """Uneven ground, a water surface seen from above, space; ghosts; meshes; one still pose."""
    (tmp_path / "t.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    body = tb.Body(
        "stone",
        joint=tb.Free("base"),
        inertia=tb.Inertia.sphere(1.0, 0.3),
        shapes=(
            tb.Shape(tb.MeshShape(str(tmp_path / "t.obj"))),
            tb.Shape(tb.EllipsoidShape((0.2, 0.3, 0.4))),
            tb.Shape(tb.PlaneShape()),
        ),
    )
    stone = tb.Model("stone", [body])
    grid = tb.GroundGrid(
        (0.5, 0.5), tuple(tuple(0.1 * ((i * j) % 3) for j in range(8)) for i in range(8))
    )
    worlds = {
        "uneven": tb.World(ground=tb.Ground(height=-1.0, grid=grid)),
        "surface": tb.World(fluid=tb.Water(surface=0.1, current=(0.1, 0.0, 0.0))),
        "space": tb.World(gravity=(0, 0, 0)),
    }
    for name, world in worlds.items():
        q = np.tile(stone.neutral(), (2, 3, 1))
        q[1, :, 4:] += np.array([[0.2, 0, 0], [0, 0.3, 0], [0, 0, 0.4]])
        file = save_html(tmp_path / f"{name}.html", stone, [0.0, 1.0], q, world=world)
        page = visit(file)
        assert colors(page, f"replay-{name}.png")[SCENE].std() > 5.0
        page.close()
    file = save_html(
        tmp_path / "still.html", tb.load("panda"), None, tb.load("panda").poses["ready"]
    )
    page = visit(file)
    assert not page.is_visible("#play")
    assert colors(page, "replay-still.png").std() > 5.0


def test_contacts_are_drawn_on_their_slope_and_can_be_hidden(visit, tmp_path):
    """One dot and one arrow for the point that touches, red while it slips."""
    run = sliding_ball()
    page = visit(run.save_html(tmp_path / "ball.html", plots={}))
    group = "window.tiburonReplay.scene.children.flatMap((x) => x.children)"
    shown = f"{group}.filter((x) => x.visible && x.material?.color?.getHex() === 0xe5373d).length"
    # the page plays until the first seek: a frame of before may still be drawn
    for time, count in ((0.0, 0), (0.2, 2)):
        page.evaluate(f"window.tiburonReplay.player.seek({time})")
        wait_for(page, f"{shown} === {count}")
    colors(page, "contacts.png")
    button = page.locator("button[data-overlay=contacts]")
    assert button.get_attribute("aria-pressed") == "true"
    drawn_again(page, button.click)
    assert page.evaluate(f"{group}.some((x) => x.material?.color?.getHex() === 0xe5373d)")
    assert button.get_attribute("aria-pressed") == "false"
