"""Robots in the browser while they move: the scene of `scene.py`, served by viser.

The server belongs to this process, listens on this computer alone and answers its own pages only.
Whoever moves robots calls `LiveScene.place`; browsers may come and go meanwhile.
"""

import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.errors import DomainError, OptionError, UnknownNameError
from tiburon.model import Model, World
from tiburon.viewer.live_guard import start_guarded
from tiburon.viewer.live_robot import LiveRobot, turned
from tiburon.viewer.live_surroundings import LiveSurroundings
from tiburon.viewer.replay_motion import Film, Track, film_of
from tiburon.viewer.replay_surroundings import Bounds, bounds_of, view_rotation
from tiburon.viewer.request_guard import LOOPBACK
from tiburon.viewer.scene import Color, Scene, quaternions, scene_of

__all__ = ["CAMERAS", "OVERLAYS", "LiveScene", "has_viser"]

Array = NDArray[np.float64]

CAMERAS = ("orbit", "follow", "on-board")
"""How browsers look: around a place, around the moving robot, or from one of its bodies."""

OVERLAYS = ("frames", "labels", "centers", "forces", "trails", "water")
"""What can be switched on and off beside the robots."""

MOST_CASES = 100_000
"""How often a robot can be drawn: whoever asks for more gets the first."""

PORT = 8080
"""Where browsers find the scene, or the next port that is free."""


def has_viser() -> bool:
    """Return whether the live scene can be shown: viser is installed."""
    from importlib.util import find_spec

    return find_spec("viser") is not None


class LiveScene:
    """Robots that browsers look at while they move.

    Attributes:
        robots: What is drawn of each, in the order given.
        around: Floor and water.
        server: The viser server, for further controls (``scene.server.gui``).
    """

    def __init__(
        self,
        models: Model | Sequence[Model],
        *,
        world: World | None = None,
        cases: int | Sequence[int] = 1,
        colors: Sequence[Color | None] | None = None,
        bounds: Bounds | None = None,
        title: str | None = None,
        host: str = "127.0.0.1",
        port: int = PORT,
        allow_hosts: Iterable[str] = (),
    ) -> None:
        """Start a server and draw the robots where all their joints are zero.

        Args:
            models: One robot, or several.
            world: Gravity, ground and fluid; flat ground in air by default.
            cases: How often each robot is drawn: the first solid, the others as ghosts.
            colors: Replace all colors of a robot; None for its own.
            bounds: Around where robots will be; around where they start by default.
            title: Of the controls; the first robot's name by default.
            host: One that only this computer reaches: the scene asks nobody for a password.
            port: Where browsers find it; if it is taken, the next free one.
            allow_hosts: Names beside `host` under which browsers may ask for it, such as those of
                proxies.

        Raises:
            DomainError: If viser is missing, or others could reach the host.
        """
        robots = [models] if isinstance(models, Model) else list(models)
        counts = [cases] * len(robots) if isinstance(cases, int) else list(cases)
        shades = [None] * len(robots) if colors is None else list(colors)
        self.server = _start(host, port, title or robots[0].name, allow_hosts)
        world = world or World()
        scenes = [scene_of(model) for model in robots]
        self.size = max(scene.size for scene in scenes)
        start = [_at_zero(model) for model in robots]
        self.bounds = bounds or _start_bounds(scenes, start)
        self._view = view_rotation(world)
        api = self.server.scene
        # everything hangs on one node, which follows the robot while the camera stands still
        self._root = api.add_frame("/all", show_axes=False)
        api.add_frame("/all/world", show_axes=False, wxyz=quaternions(self._view))
        self.around = LiveSurroundings(api, "/all", world, self.bounds, self.size)
        self.robots = [
            LiveRobot(api, f"/all/world/robot {k}", scene, cases=count, color=shade)
            for k, (scene, count, shade) in enumerate(zip(scenes, counts, shades, strict=True))
        ]
        self._shift = np.zeros(3)
        self._mode, self._mount = "orbit", 0
        self._host = host
        self._paths: list[list[Array]] = [[] for _ in robots]
        for robot, poses in zip(self.robots, start, strict=True):
            robot.place(np.broadcast_to(poses, (robot.cases, *poses.shape)))
        self._home = self._center()
        self._watch()

    # -- what it is --------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where browsers find the scene."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.server.get_port()}"

    @property
    def browsers(self) -> int:
        """How many look at it."""
        return len(self.server.get_clients())

    def close(self) -> None:
        """Stop the server; browsers keep the last picture."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def __enter__(self) -> "LiveScene":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    # -- what moves --------------------------------------------------------------------------------

    def place(
        self,
        poses: ArrayLike,
        *,
        robot: int = 0,
        time: float = 0.0,
        forces: Mapping[str, Array] | None = None,
        thrust: ArrayLike | None = None,
        paths: tuple[Array, ...] | None = None,
    ) -> None:
        """Move a robot, its arrows and its trail.

        Args:
            poses: Quaternion (w, x, y, z) and origin [m] of each body in the world, shape (bodies,
                7), or (cases, bodies, 7); a case with NaN is hidden.
            robot: Which one.
            time: [s], for currents that change.
            forces: Wrenches [n; f] at frames, frame axes [N m, N], by name.
            thrust: Of the model's thrusters [N].
            paths: Where the first and the last body went [m]; where they were seen by default.
        """
        shown = self.robots[robot]
        given = np.asarray(poses, dtype=np.float64)
        given = given.reshape(-1, len(shown.scene.bodies), 7)
        with self.server.atomic():
            shown.place(given)
            shown.push(forces or {}, None if thrust is None else np.asarray(thrust))
            shown.trail(self._walked(robot) if paths is None else paths)
            self.around.update(time)
            if robot == 0:
                self._move_camera()

    def place_at(self, model: Model, q: ArrayLike, **options: Any) -> None:
        """Move a robot to a position.

        Args:
            model: The robot, as it was given.
            q: Position [m or rad], shape (nq,) or (cases, nq).
            **options: As in `place`.
        """
        time = np.array([float(options.get("time", 0.0))])
        film = film_of(Track(model, time, np.asarray(q)[None]), time, MOST_CASES)
        self.place(film.poses[0], **options)

    def _walked(self, robot: int) -> tuple[Array, ...]:
        """Return where the first and the last body of a robot were seen."""
        shown, path = self.robots[robot], self._paths[robot]
        ends = shown.poses[[0, -1], 4:] if len(shown.poses) else np.zeros((2, 3))
        if not path or float(np.abs(ends - path[-1]).max()) > 0.01 * self.size:
            path.append(ends)
            # twice the points that are drawn: the older half is thinned when it is full
            if len(path) > 2000:
                path[:1000] = path[:1000:2]
        walked = np.array(path)
        return walked[:, 0], walked[:, 1]

    def clear_trails(self) -> None:
        """Forget where robots were."""
        self._paths = [[] for _ in self.robots]

    def show(self, *kinds: str, on: bool = True) -> None:
        """Switch some of `OVERLAYS` on or off."""
        for kind in kinds:
            if kind not in OVERLAYS:
                raise OptionError("show", OVERLAYS, kind)
            if kind == "water":
                self.around.show_water(on)
                continue
            for robot in self.robots:
                robot.show(kind, on)

    # -- cameras -----------------------------------------------------------------------------------

    def look(self, mode: str, mount: str | None = None) -> None:
        """Choose how browsers look at the first robot.

        Args:
            mode: One of `CAMERAS`.
            mount: The body the on-board camera is fixed to; the first by default.
        """
        if mode not in CAMERAS:
            raise OptionError("camera", CAMERAS, mode)
        names = [body.name for body in self.robots[0].scene.bodies]
        if mount is not None and mount not in names:
            raise UnknownNameError("body", mount, names, where="camera", listing="model.body_names")
        left = self._mode == "on-board" and mode != "on-board"
        self._mode, self._mount = mode, 0 if mount is None else names.index(mount)
        self._move_camera()
        if left:
            for client in self.server.get_clients().values():
                self._frame(client.camera)

    def _center(self) -> Array:
        """Return the center of the first robot, in axes of the scene [m]."""
        return np.asarray(self._view @ self.robots[0].center)

    def _move_camera(self) -> None:
        shift = self._home - self._center() if self._mode == "follow" else np.zeros(3)
        if (shift != self._shift).any():
            self._shift = shift
            self._root.position = shift
        if self._mode == "on-board" and len(self.robots[0].poses):
            pose = self.robots[0].poses[self._mount]
            ahead, above = turned(pose[:4], np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
            ahead, above = self._view @ ahead, self._view @ above
            place = self._view @ pose[4:] - 0.5 * self.size * ahead + 0.28 * self.size * above
            for client in self.server.get_clients().values():
                with client.atomic():
                    client.camera.up_direction = above
                    client.camera.position = place
                    client.camera.look_at = place + self.size * (ahead - 0.12 * above)

    def _frame(self, camera: Any) -> None:
        """Put a camera where the whole robot is seen, a little from above."""
        middle = 0.5 * (self.bounds.low + self.bounds.high)
        reach = max(float(np.linalg.norm(self.bounds.high - self.bounds.low)), 0.8 * self.size)
        # the field of view of 45 degrees, and some air around the robot
        place = middle + np.array([0.58, -0.74, 0.34]) * (1.35 * reach)
        top = self.around.surface
        if top is not None and self.bounds.high[2] < top:
            # who dives is looked at from below the surface
            place[2] = min(place[2], max(top - 0.15 * self.size, middle[2]))
        # a little to the left: the controls are on the right
        aside = np.array([0.74, 0.58, 0.0]) * (0.14 * reach)
        camera.up_direction = (0.0, 0.0, 1.0)
        camera.fov = np.pi / 4.0
        camera.position = place + aside
        camera.look_at = middle + aside

    def _watch(self) -> None:
        """Give each browser a good first view, and the tint of where it looks from."""

        def tint(camera: Any) -> None:
            client = camera.client
            height = float(camera.position[2] - self._shift[2])
            self.around.tint(client.scene, client.client_id, height)

        def welcome(client: Any) -> None:
            self._frame(client.camera)
            tint(client.camera)
            client.camera.on_update(tint)

        def forget(client: Any) -> None:
            self.around.forget(client.client_id)

        self.server.on_client_connect(welcome)
        self.server.on_client_disconnect(forget)


def _start(host: str, port: int, title: str, allow_hosts: Iterable[str]) -> Any:
    if host not in LOOPBACK:
        raise DomainError(
            "host",
            f"one that only this computer reaches ({', '.join(LOOPBACK)})",
            repr(host),
            advice=f"from elsewhere: ssh -L {port}:localhost:{port} here, or send run.save_html()",
        )
    if not has_viser():
        raise DomainError(
            "live scene",
            "the package viser",
            "none",
            advice="pip install 'tiburon[view]', or see the page of run.save_html()",
        )
    # its greeting is for people who wrote a server themselves
    with contextlib.redirect_stdout(io.StringIO()):
        server = start_guarded(host, port, title, allow_hosts)
    # a button that puts the scene on the network of others has no place here
    server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(29, 107, 136))
    return server


def _at_zero(model: Model) -> Array:
    """Return the poses of all bodies where the robot's file puts it, shape (bodies, 7)."""
    q = model.poses.get("home", model.neutral())
    film = film_of(Track(model, None, q), np.zeros(1), 1)
    first: Array = film.poses[0, 0]
    return first


def _start_bounds(scenes: Iterable[Scene], start: Sequence[Array]) -> Bounds:
    films = [Film(poses[None, None], {}, None) for poses in start]
    return bounds_of(list(scenes), films, slice(None))
