"""The replay page: complete in itself, small, safe against hostile names, true to the motion."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

import tiburon as tb
from tiburon.results.report import _scene_options, replay_of
from tiburon.viewer import Track, replay_html, save_html
from tiburon.viewer.live import _uneven, rotate
from tiburon.viewer.packing import pack, unpack
from tiburon.viewer.replay import MODULES, PAGE, default_plots

FLOAT32 = 2e-7
"""Half a unit in the last place of numbers up to two, in float32, twice."""


def section(page: str, name: str) -> str:
    found = re.search(rf'<script type="application/[a-z-]+" id="{name}">(.*?)</script>', page, re.S)
    assert found, name
    return found.group(1)


def opened(page: str):
    """The document of a page, and a reader of its tables."""
    document = json.loads(section(page, "document"))
    data = zlib.decompress(base64.b64decode(section(page, "numbers")))
    return document, lambda ref: unpack(data[ref["offset"] :], tuple(ref["shape"]))


def swinging(name="panda", rows=61, rate=30.0, cases=()):
    """A robot in random motion, recorded at an even rate."""
    model = tb.load(name)
    rng = np.random.default_rng(3)
    q0, v = model.random_state(rng, cases)
    time = np.arange(rows) / rate
    q = model.integrate(q0, 0.3 * v * time.reshape(-1, *(1,) * (len(cases) + 1)))
    return model, time, q


@pytest.mark.parametrize("name", ["panda", "tiburon_titan"])
def test_poses_of_the_page_are_those_of_the_kinematics(name):
    """Quaternion and origin of every body at every frame, to float32."""
    model, time, q = swinging(name)
    document, read = opened(replay_html(model, time, q))
    (robot,) = document["robots"]
    poses = read(robot["poses"])
    assert poses.shape == (len(time), 1, len(model.bodies), 7)
    np.testing.assert_allclose(read(document["times"]), time, atol=FLOAT32)
    R, p = tb.forward_kinematics(model, q, model.body_names)
    np.testing.assert_allclose(poses[:, 0, :, 4:], p, atol=FLOAT32 * max(1.0, np.abs(p).max()))
    w, x, y, z = np.moveaxis(poses[:, 0, :, :4].astype(float), -1, 0)
    found = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    np.testing.assert_allclose(np.moveaxis(np.array(found), (0, 1), (-2, -1)), R, atol=5 * FLOAT32)
    # the page interpolates: neighbors must be on the same side of the sphere of quaternions
    turns = poses[:, 0, :, :4]
    assert ((turns[1:] * turns[:-1]).sum(axis=-1) > 0.0).all()


def test_packed_tables_round_trip_in_bits():
    """Packing is lossless, for any shape and any number."""
    rng = np.random.default_rng(8)
    for shape in [(1,), (7,), (5, 3), (4, 2, 3)]:
        table = (rng.normal(size=shape) * 10.0 ** rng.integers(-30, 30, shape)).astype(np.float32)
        table.flat[0] = np.nan
        assert unpack(pack(table), shape).tobytes() == table.tobytes()


def test_pages_are_small():
    """Drawing library and code take a quarter megabyte; a minute of a slow vehicle little more."""
    model = tb.load("tiburon_titan")
    still = len(replay_html(model, None, model.neutral()))
    assert still < 280_000
    rows = np.arange(1801) / 30.0
    q = model.integrate(
        model.neutral(), np.sin(0.3 * rows)[:, None] * np.linspace(0.0, 0.4, model.nv)
    )
    page = replay_html(model, rows, q)
    raw = len(rows) * len(model.bodies) * 28
    assert len(page) - still < 1.1 * raw


def test_the_page_needs_nothing_from_outside(tmp_path):
    """No address is fetched: everything is inside, and the page forbids itself the rest."""
    model, time, q = swinging()
    file = save_html(tmp_path / "arm.html", model, time, q)
    page = file.read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//""", page)
    code = json.loads(zlib.decompress(base64.b64decode(section(page, "code"))))
    assert [name for name, _ in code] == ["three", *(f"./{name}.js" for name in MODULES)]
    known = set()
    for name, source in code:
        # a module finds only those before it
        imported = set(re.findall(r'from "([^"]+)";', source)) if name != "three" else set()
        assert imported <= known, name
        known.add(name)


def test_the_drawing_library_ships_with_its_license():
    """Its license requires that; the tag in the file states which one it is."""
    text = (PAGE / "three" / "LICENSE").read_text()
    assert "MIT" in text
    assert "three.js authors" in text
    head = (PAGE / "three" / "three.module.min.js").read_text(encoding="utf-8")[:200]
    assert "SPDX-License-Identifier: MIT" in head


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>@@code@@ \"'&"


def test_hostile_names_are_escaped():
    """Names from strangers' files cannot end the script they stand in, nor become markup."""
    body = tb.Body(
        HOSTILE, joint=tb.Revolute(HOSTILE + "j", (0, 0, 1)), inertia=tb.Inertia.box(1, (1, 1, 1))
    )
    model = tb.Model(HOSTILE, [body], [tb.Frame(HOSTILE + "f", HOSTILE)], about=HOSTILE)
    other = tb.Body("b", joint=body.joint, inertia=body.inertia)
    plain = replay_html(tb.Model("plain", [other]), [0.0, 1.0], [[0.0], [1.0]])
    page = replay_html(model, [0.0, 1.0], [[0.0], [1.0]], plots={HOSTILE: {HOSTILE: [0.0, 1.0]}})
    for tag in ("<script", "</script", "<img"):
        assert page.count(tag) == plain.count(tag), tag
    document, _ = opened(page)
    assert document["title"] == HOSTILE
    assert document["robots"][0]["bodies"][0]["name"] == HOSTILE
    assert document["plots"][0]["labels"] == [HOSTILE]
    assert "&lt;/script&gt;" in re.search(r"<title>(.*)</title>", page).group(1)


def test_texts_are_never_inserted_as_markup():
    """Texts reach the page as text alone."""
    for file in PAGE.glob("*.js"):
        source = file.read_text(encoding="utf-8")
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in source, (file.name, way)


def test_ghosts_forces_thrust_and_other_robots_are_inside():
    """A batch, its thrust, wrenches at a frame and a second robot share the times of the page."""
    model, time, q = swinging("bluerov2_alpha", rows=31, cases=(3,))
    arm, slow, q_arm = swinging("panda", rows=11, rate=10.0)
    count = len(model.thrusters)
    rng = np.random.default_rng(4)
    thrust = rng.normal(size=(31, 3, count))
    wrench = rng.normal(size=(31, 3, 6))
    frame = model.frame_names[-1]
    shear = tb.LinearShear((0.2, 0.1, 0.0), 5.0)
    page = replay_html(
        model,
        time,
        q,
        fluid=tb.Water(current=shear),
        thrust=thrust,
        forces={frame: wrench},
        others=[Track(arm, slow, q_arm, color=(1.0, 0.0, 0.0, 1.0))],
    )
    document, read = opened(page)
    rov, other = document["robots"]
    assert read(rov["poses"]).shape == (31, 3, len(model.bodies), 7)
    assert read(other["poses"]).shape == (31, 1, len(arm.bodies), 7)
    np.testing.assert_allclose(read(rov["thrust"]), thrust, rtol=1e-6)
    np.testing.assert_allclose(read(rov["forces"][0]["data"]), wrench, rtol=1e-6)
    assert {tuple(p["color"]) for b in other["bodies"] for p in b["parts"]} == {(1.0, 0, 0, 1.0)}
    # every third frame of the fast robot is a row of the slow one
    _, p = tb.forward_kinematics(arm, q_arm, arm.body_names)
    np.testing.assert_allclose(read(other["poses"])[::3, 0, :, 4:], p, atol=1e-5)
    current = document["surroundings"]["water"]["current"]
    points, velocity = read(current["points"]), read(current["velocity"])
    expected = [shear.velocity(0.0, tuple(point)) for point in points.tolist()]
    np.testing.assert_allclose(velocity[0], expected, atol=1e-6)


def sliding_ball():
    """A ball that drops onto a slope and slips; the slope is a tilted field of gravity."""
    body = tb.Body(
        "ball",
        "world",
        joint=tb.Free("ball"),
        inertia=tb.Inertia.sphere(1.0, 0.1),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )
    slope = tb.World(gravity=(6.0, 0.0, -8.0), ground=tb.Ground(height=0.2, static_friction=0.15))
    return tb.simulate(
        tb.Model("ball", [body]),
        0.3,
        q=[1, 0, 0, 0, 0, 0, 0.31],
        world=slope,
        record=tb.Record(dt=0.01),
    )


def test_contacts_of_a_run_are_inside_with_the_slope_they_act_on():
    """Points lie on the ground, forces turn with gravity; the plots show their sizes."""
    run = sliding_ball()
    document, read = opened(
        replay_html(run.model, run.time, run.q, fps=100.0, **_scene_options(run))
    )
    (robot,) = document["robots"]
    contacts = read(robot["contacts"])
    assert contacts.shape == (31, 1, 11)
    # page axes have z up: the slope has the angle of gravity
    view = np.array(document["surroundings"]["axes"])
    np.testing.assert_allclose(view @ [0.6, 0.0, -0.8], [0.0, 0.0, -1.0], atol=1e-12)
    w, x, y, z = document["surroundings"]["tilt"]
    np.testing.assert_allclose(rotate(np.array([w, x, y, z]), np.eye(3)), view.T, atol=1e-12)
    assert document["surroundings"]["floor"] == 0.2
    touching = contacts[:, 0, 6] > 0
    assert 0.5 < touching.mean() < 1.0
    on_ground = contacts[touching, 0, :3] @ view
    np.testing.assert_allclose(on_ground[:, 2], 0.2, atol=1e-6)
    force = run.get("contact_force").values[:, 0]
    np.testing.assert_allclose(contacts[:, 0, 3:6], force @ view.T, atol=1e-5)
    np.testing.assert_array_equal(contacts[:, 0, 6], run.get("contact_mode").values[:, 0])
    normal = run.get("contact_normal").values[:, 0]
    np.testing.assert_allclose(contacts[:, 0, 7:10], normal @ view.T, atol=1e-6)
    assert (contacts[:, 0, 10] > 0.0).all()
    assert robot["usualContact"] == pytest.approx(np.hypot(8.0, 0.15 * 8.0), rel=0.3)
    page, _ = opened(replay_of(run))
    assert "contact force [N]" in [plot["title"] for plot in page["plots"]]


def test_cells_of_terrain_are_divided_as_contact_divides_them():
    """From the first corner to the opposite one: one corner alone rises in a cell of its own."""
    mesh = _uneven(np.array([[0.0, 0.0], [1.0, 0.0]]), (0.0, 0.0), (1.0, 1.0))
    shared = [edge for edge in ((0, 3), (1, 2)) if all(set(edge) <= set(t) for t in mesh.triangles)]
    assert shared == [(0, 3)]
    # corner (1, 0) is the last of the first triangle; the other one is level
    heights = sorted(mesh.vertices[t, 2].max() for t in mesh.triangles)
    assert heights == [0.0, 1.0]
    source = (PAGE / "floor.js").read_text()
    assert "corners.push(k, k + columns, k + columns + 1, k, k + columns + 1, k + 1)" in source


def test_invalid_options_are_refused():
    """Choices that do not exist, frames that are not there, arrays that do not fit."""
    model, time, q = swinging(rows=5)
    with pytest.raises(tb.OptionError, match="camera: expected 'auto'"):
        replay_html(model, time, q, camera="drone")
    with pytest.raises(tb.OptionError, match="show: expected"):
        replay_html(model, time, q, show=("wather",))
    with pytest.raises(tb.UnknownNameError, match="did you mean 'tool'"):
        replay_html(model, time, q, forces={"tol": np.zeros((5, 6))})
    with pytest.raises(tb.ShapeError, match="5 rows, as time has"):
        replay_html(model, time, q[:4])
    with pytest.raises(tb.ShapeError, match="plots\\['a'\\]"):
        replay_html(model, time, q, plots={"a": np.zeros(4)})
    with pytest.raises(tb.DomainError, match="times that do not decrease"):
        replay_html(model, time[::-1], q)
    with pytest.raises(tb.NonFiniteError, match="no row can be shown"):
        replay_html(model, time, np.full_like(q, np.nan))
    with pytest.raises(tb.DomainError, match="fps"):
        replay_html(model, time, q, fps=0.0)


def test_a_run_writes_its_replay_and_shows_it_in_notebooks(tmp_path):
    """Curves and thrust of a simulated run are in its page; the notebook's frame is sealed off."""
    lag = 0.1
    boat = tb.Body("boat", joint=tb.Free("base"), inertia=tb.Inertia.box(9.0, (1.0, 0.5, 0.4)))
    rov = tb.Model(
        "boat",
        [boat],
        thrusters=[tb.Thruster("quick", "boat"), tb.Thruster("slow", "boat", time_constant=lag)],
    )
    run = tb.simulate(
        rov,
        0.2,
        control=lambda state: {"quick": 5.0, "slow": 5.0},
        method=tb.RK4(dt=0.01),
        record=tb.Record(dt=0.05),
    )
    document, read = opened(run.save_html(tmp_path / "dive.html", camera="follow").read_text())
    assert document["camera"] == "follow"
    assert {"position [m]", "speed [m/s]", "thrust [N]", "energy [J]"} <= {
        plot["title"] for plot in document["plots"]
    }
    # one is at its command at once, the other follows it by the law of the lag
    thrust = read(document["robots"][0]["thrust"])[1:, 0]
    expected = np.stack([np.full(4, 5.0), 5.0 * (1.0 - np.exp(-run.time[1:] / lag))], axis=-1)
    # Runge-Kutta of order 4 in steps of a tenth of the lag is off by 1e-6
    np.testing.assert_allclose(thrust, expected, rtol=1e-5)
    shown = run._repr_html_()
    assert "sandbox='allow-scripts'" in shown
    assert "<script" not in shown
    with pytest.raises(tb.RunFileError, match="cannot be written"):
        run.save_html(tmp_path / "nowhere" / "dive.html")


def test_default_plots_have_attitude_in_degrees_and_no_zero_curves():
    """A body that turns about z shows its yaw, continuous beyond half a turn."""
    box = tb.Body("box", joint=tb.Free("base"), inertia=tb.Inertia.sphere(2.0, 0.3))
    robot = tb.Model("box", [box])
    time = np.linspace(0.0, 2.0, 41)
    q = np.zeros((41, 7))
    q[:, 0], q[:, 3] = np.cos(time), np.sin(time)
    plots = default_plots(robot, q, np.tile([0.0, 0.0, 2.0, 0.0, 0.0, 0.0], (41, 1)))
    assert list(plots) == ["attitude [deg]"]
    assert list(plots["attitude [deg]"]) == ["base yaw"]
    np.testing.assert_allclose(
        plots["attitude [deg]"]["base yaw"], np.degrees(2.0 * time), atol=1e-9
    )


def test_captions_are_sorted_by_time():
    """Sentences with times; anything else is refused."""
    model = tb.Model(
        "one", [tb.Body("a", joint=tb.Revolute("j"), inertia=tb.Inertia.point(1.0, (1, 0, 0)))]
    )
    page = replay_html(model, [0.0, 1.0], [[0.0], [1.0]], captions=[(0.5, "later"), (0.0, "first")])
    document, _ = opened(page)
    assert document["captions"] == [[0.0, "first"], [0.5, "later"]]
    for wrong in ([("now", "x")], [(np.nan, "x")], [3], "text"):
        with pytest.raises(tb.DomainError, match="captions"):
            replay_html(model, [0.0, 1.0], [[0.0], [1.0]], captions=wrong)
