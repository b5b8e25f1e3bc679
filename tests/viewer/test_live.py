"""The live scene without a browser: surfaces, where nodes stand, and what is refused."""

import socket
import sys

import numpy as np
import pytest

import tiburon as tb
from tiburon.viewer import live as live_module
from tiburon.viewer.live import rotate
from tiburon.viewer.scene import scene_of

ROUNDING = 1e-6
"""Surfaces are float32 [m]."""


def volume(mesh) -> float:
    """Enclosed volume; negative if the surface is inside out, wrong if it has holes."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.triangles].astype(float), 1, 0)
    return float(np.einsum("ij,ij->", a, np.cross(b, c))) / 6.0


def edges_meet(mesh) -> bool:
    """Whether each edge has a neighbor in the other direction, corners at one place being one."""
    _, owner = np.unique(np.round(mesh.vertices, 5), axis=0, return_inverse=True)
    corners = owner.reshape(-1)[mesh.triangles]
    corners = corners[[len(set(row)) == 3 for row in corners.tolist()]]
    edges = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
    return {tuple(e) for e in edges.tolist()} == {tuple(e[::-1]) for e in edges.tolist()}


@pytest.mark.parametrize(
    ("mesh", "exact", "extents"),
    [
        (live_module.box((1.0, 0.5, 0.2)), 0.1, (1.0, 0.5, 0.2)),
        (live_module.cylinder(0.3, 1.0), np.pi * 0.09, (0.6, 0.6, 1.0)),
        (live_module.capsule(0.3, 1.0), np.pi * 0.09 * 1.4, (0.6, 0.6, 1.6)),
        (live_module.sphere((0.3, 0.2, 0.1)), 4 / 3 * np.pi * 0.006, (0.6, 0.4, 0.2)),
    ],
    ids=["box", "cylinder", "capsule", "ellipsoid"],
)
def test_surfaces_are_closed_with_the_volume_of_their_solids(mesh, exact, extents):
    """Normals point outward; facets of 10 degrees and rounded edges take at most 2 %."""
    assert edges_meet(mesh)
    assert 0.98 * exact < volume(mesh) <= exact
    found = mesh.vertices.max(axis=0) - mesh.vertices.min(axis=0)
    np.testing.assert_allclose(found, extents, rtol=5e-3)


def test_thrusters_and_center_marks_are_whole():
    """A duct is closed; the two halves of a mark make one ball."""
    duct, propeller = live_module.thruster(0.2)
    assert edges_meet(duct)
    assert edges_meet(propeller)
    assert volume(duct) > 0.0
    bright, dark = live_module.center_mark(0.1)
    assert volume(bright) == pytest.approx(volume(dark), rel=1e-5)
    assert volume(bright) + volume(dark) == pytest.approx(4 / 3 * np.pi * 1e-3, rel=0.02)


def test_rotate_applies_the_rotation_of_the_quaternion():
    """Against the matrix of the same quaternion, with a random rotation."""
    random = np.random.default_rng(3)
    quaternion = random.normal(size=4)
    quaternion /= np.linalg.norm(quaternion)
    model = tb.Model(
        "body", [tb.Body("b", joint=tb.Free("f"), inertia=tb.Inertia.sphere(1.0, 0.1))]
    )
    R, _ = tb.forward_kinematics(model, np.append(quaternion, [0.0, 0.0, 0.0]), "b")
    vectors = random.normal(size=(5, 3))
    # rounding of some dozen operations on numbers of order one
    np.testing.assert_allclose(rotate(quaternion, vectors), vectors @ R.T, atol=1e-14)


@pytest.fixture(scope="module")
def replay():
    pytest.importorskip("viser", reason="viser is not installed")
    from tiburon.viewer import LiveReplay

    model = tb.load("bluerov2_alpha")
    time = np.linspace(0.0, 2.0, 41)
    dv = np.zeros((41, 2, model.nv))
    dv[..., 2] = 0.4 * time[:, None]
    dv[..., 3] = time[:, None]
    dv[:, 1, 4] = time
    dv[..., 6] = 0.3 * np.sin(time)[:, None]
    q = model.integrate(np.broadcast_to(model.neutral(), (41, 2, model.nq)), dv)
    thrust = np.ones((41, 2, 8)) * np.linspace(-5.0, 5.0, 8)
    with LiveReplay(
        model,
        time,
        q,
        fluid=tb.Water(surface=4.0, current=(0.2, 0.0, 0.0)),
        thrust=thrust,
        forces={model.body_names[0]: np.ones((41, 6))},
        port=free_port(),
        allow_hosts=("proxy.example",),
        show=("forces", "trails", "water"),
    ) as made:
        made.playing = False
        yield model, q, made


class TestServed:
    """With a server, which needs viser but no browser."""

    def test_scene_nodes_have_the_poses_of_forward_kinematics(self, replay):
        model, q, live = replay
        live.seek(1.0)
        robot = live.scene.robots[0]
        for case in range(2):
            R, p = tb.forward_kinematics(model, q[20, case], model.body_names)
            for node, place, axes in zip(robot._bodies[case], p, R, strict=True):
                np.testing.assert_allclose(node.position, place, atol=1e-12)
                np.testing.assert_allclose(
                    rotate(np.asarray(node.wxyz), np.eye(3)), axes.T, atol=1e-12
                )

    def test_the_center_of_mass_is_that_of_the_robot(self, replay):
        model, q, live = replay
        live.seek(2.0)
        np.testing.assert_allclose(
            live.scene.robots[0].center, tb.center_of_mass(model, q[-1, 0]), atol=1e-12
        )

    def test_following_shifts_the_world_instead_of_the_camera(self, replay):
        _, _, live = replay
        live.seek(0.0)
        before = live.scene.robots[0].center.copy()
        live.scene.look("follow")
        live.seek(2.0)
        moved = live.scene.robots[0].center - before
        assert np.linalg.norm(moved) > 1.0
        start = live.scene._home - before
        np.testing.assert_allclose(live.scene._root.position, start - moved, atol=1e-12)
        live.scene.look("orbit")
        np.testing.assert_array_equal(live.scene._root.position, 0.0)

    def test_arrows_are_proportional_to_forces(self, replay):
        _, _, live = replay
        live.seek(1.0)
        points = live.scene.robots[0]._arrows["thrust"].points
        lengths = np.linalg.norm(points[:, 1] - points[:, 0], axis=-1)
        given = np.abs(np.linspace(-5.0, 5.0, 8))
        # points are sent as float32
        np.testing.assert_allclose(lengths / lengths.max(), given / 5.0, rtol=1e-5)

    def test_contacts_have_points_and_arrows_by_mode(self, replay):
        _, _, live = replay
        live.seek(1.0)
        robot = live.scene.robots[0]
        contacts = np.array(
            [
                [0.0, 0.0, 0.0, 0.0, 0.0, 10.0, 2.0],
                [1.0, 0.0, 0.0, 3.0, 0.0, 4.0, 1.0],
                [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            ]
        )
        live.scene.show("contacts")
        both = np.stack([robot.poses] * 2)
        live.scene.place(both, contacts=contacts)
        assert len(robot._points.points) == 2
        arrows = {mode: node.points for mode, node in robot._touching.items()}
        lengths = {mode: np.linalg.norm(p[0, 1] - p[0, 0]) for mode, p in arrows.items()}
        assert lengths["slipping"] / lengths["sticking"] == pytest.approx(0.5, rel=1e-5)
        np.testing.assert_allclose(arrows["slipping"][0, 0], [1.0, 0.0, 0.0])
        live.scene.place(both)
        assert not robot._points.visible
        assert not any(node.visible for node in robot._touching.values())

    def test_a_case_that_has_ended_is_hidden(self, replay):
        _, _, live = replay
        robot = live.scene.robots[0]
        poses = np.stack([robot.poses, np.full_like(robot.poses, np.nan)])
        live.scene.place(poses)
        assert robot._cases[0].visible
        assert not robot._cases[1].visible
        live.scene.place(np.stack([robot.poses, robot.poses]))
        assert robot._cases[1].visible

    def test_seeking_stays_within_the_run(self, replay):
        _, _, live = replay
        live.seek(17.0)
        assert live.time == live.duration == pytest.approx(2.0)
        live.seek(-1.0)
        assert live.time == 0.0

    def test_port_in_use_selects_the_next_one(self, replay):
        from tiburon.viewer import LiveScene

        taken = int(replay[2].url.rsplit(":", 1)[1])
        with LiveScene(tb.load("pendulum"), port=taken) as other:
            assert int(other.url.rsplit(":", 1)[1]) != taken

    def test_only_pages_of_the_scene_itself_may_connect(self, replay):
        """Pages of other sites, also under DNS rebinding, are refused before viser sees them."""
        port = int(replay[2].url.rsplit(":", 1)[1])
        own, evil = f"127.0.0.1:{port}", f"evil.example:{port}"
        for upgrade in (True, False):
            good = 101 if upgrade else 200
            assert status_of(port, own, f"http://{own}", upgrade) == good
            assert status_of(port, f"localhost:{port}", f"http://localhost:{port}", upgrade) == good
            assert status_of(port, own, "https://proxy.example", upgrade) == good
            for host, origin in [
                (own, "http://evil.example"),
                (own, f"http://{evil}"),
                (own, "null"),
                (evil, f"http://{evil}"),
                (evil, f"http://{own}"),
            ]:
                assert status_of(port, host, origin, upgrade) == 403

    def test_other_viser_servers_are_not_modified(self, replay):
        """The guard protects the port of the scene alone, not servers of the user."""
        import viser

        other = viser.ViserServer(host="127.0.0.1", port=free_port(), verbose=False)
        try:
            assert status_of(other.get_port(), "proxy.example", "http://proxy.example", True) == 101
        finally:
            other.stop()

    def test_no_client_can_publish_the_scene(self, replay):
        """A message of viser does so otherwise, through a server elsewhere."""
        assert vars(replay[2].scene.server)["request_share_url"]() is None

    def test_invalid_options_are_refused_with_the_valid_ones(self, replay):
        _, _, live = replay
        with pytest.raises(tb.OptionError, match="'orbit' or 'follow' or 'on-board'"):
            live.scene.look("above")
        with pytest.raises(tb.OptionError, match="'frames'"):
            live.scene.show("everything")
        with pytest.raises(tb.UnknownNameError, match="nose"):
            live.scene.look("on-board", "nose")


def test_a_viser_whose_requests_cannot_be_checked_is_refused(monkeypatch):
    """Rather no scene than one that any web page can connect to."""
    viser = pytest.importorskip("viser", reason="viser is not installed")
    from tiburon.viewer import LiveScene

    class Other:
        def __init__(self, **_):
            self.stopped = stopped

        def stop(self):
            self.stopped.append(True)

    stopped = []
    monkeypatch.setattr(viser, "ViserServer", Other)
    with pytest.raises(tb.TiburonError, match="which would let any web page connect"):
        LiveScene(tb.load("pendulum"))
    assert stopped == [True]


def test_remote_hosts_cannot_be_admitted():
    """The scene has no password, so it listens on this computer alone."""
    pytest.importorskip("viser", reason="viser is not installed")
    from tiburon.viewer import LiveScene

    with pytest.raises(tb.DomainError, match="a loopback address"):
        LiveScene(tb.load("pendulum"), host="0.0.0.0")


def test_without_viser_runs_open_as_pages(monkeypatch, tmp_path):
    """`run.view()` falls back on the page; the live scene itself says what to install."""
    import webbrowser

    from tiburon.viewer import LiveScene

    monkeypatch.setitem(sys.modules, "viser", None)
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: str(tmp_path))
    with pytest.raises(tb.DomainError, match="pip install 'tiburon"):
        LiveScene(tb.load("pendulum"))
    found = tb.modes(tb.load("pendulum"))
    page = found.view()
    assert page == tmp_path / "mode.html"
    assert opened == [page.as_uri()]


def test_mode_oscillates_about_its_equilibrium_in_one_period():
    """Positions are q + a Re(shape e^(i phase)); the page plays a period in two seconds."""
    from tiburon.simulation.modes import film_of_mode

    model = tb.load("double_pendulum")
    found = tb.modes(model)
    time, q, shown = film_of_mode(found, 1, 0.2)
    assert time[-1] == pytest.approx(found[1].period)
    assert shown["speed"] == pytest.approx(found[1].period / 2.0)
    np.testing.assert_allclose(q[0], found.q + 0.2 * found[1].shape.real, atol=1e-12)
    np.testing.assert_allclose(q[-1], q[0], atol=1e-12)
    np.testing.assert_allclose(q[30], found.q - 0.2 * found[1].shape.real, atol=1e-12)
    # by default nothing turns far, and the motion is well seen
    _, seen, _ = film_of_mode(found, None)
    assert 0.05 < np.abs(seen - found.q).max() <= 0.5
    with pytest.raises(tb.DomainError, match="0 to 1"):
        film_of_mode(found, 2)


def test_every_placeholder_shape_has_a_surface():
    """No robot that ships has a body the live scene cannot draw."""
    for name in ("panda", "stewart", "remus100"):
        for body in scene_of(tb.load(name)).bodies:
            for part in body.parts:
                assert len(live_module.surface_of(part).triangles)


def status_of(port, host, origin, upgrade) -> int:
    """Ask the server, for a WebSocket or for the page; returns the status."""
    import viser

    lines = ["GET / HTTP/1.1", f"Host: {host}", f"Origin: {origin}"]
    if upgrade:
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=="]
        lines += [f"Sec-WebSocket-Protocol: viser-v{viser.__version__}"]
    with socket.create_connection(("127.0.0.1", port), timeout=60.0) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        with connection.makefile("rb") as stream:
            return int(stream.readline().split()[1])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
