"""The live scene: robots in the browser while they move, served by viser.

The server belongs to this process, listens on the loopback interface and answers its own pages
only. Programs move robots by `LiveScene.place`; browsers connect and disconnect at any time.

viser answers any Host and accepts WebSockets of any Origin, and has no option to change that. It
opens its port by `websockets.asyncio.server.serve`, with a function that processes requests; that
function is wrapped in a `RequestGuard` for the one server that is started here.
"""

import contextlib
import http
import inspect
import io
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError, OptionError, TiburonError, UnknownNameError
from tiburon.model import Model, World
from tiburon.viewer.live_robot import LiveRobot, rotate
from tiburon.viewer.live_surroundings import LiveSurroundings
from tiburon.viewer.motion import Motion, Track, sample_motion
from tiburon.viewer.request_guard import LOOPBACK, RequestGuard
from tiburon.viewer.scene import Color, Scene, quaternions, scene_of
from tiburon.viewer.surroundings import Bounds, bounds_of, view_rotation

__all__ = ["CAMERAS", "OVERLAYS", "LiveScene", "has_viser", "start_guarded"]

Array = NDArray[np.float64]

CAMERAS = ("orbit", "follow", "on-board")
"""Cameras: around a fixed point, around the moving robot, or on one of its bodies."""

OVERLAYS = ("frames", "labels", "centers", "forces", "trails", "water")
"""Overlays that can be switched on and off."""

MAX_CASES = 100_000
"""Most cases of a robot that are drawn."""

PORT = 8080
"""Default port; the next free one if it is taken."""


def has_viser() -> bool:
    """Return whether viser, which the live scene needs, is installed."""
    from importlib.util import find_spec

    return find_spec("viser") is not None


class LiveScene:
    """Robots shown in browsers while they move.

    Attributes:
        robots: The drawn robots, in the order given.
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
        """Start a server and draw the robots in their initial configuration.

        Args:
            models: One robot, or several.
            world: Gravity, ground and fluid; flat ground in air by default.
            cases: Number of cases of each robot: the first is solid, the others transparent.
            colors: Replace all colors of a robot; None for its own.
            bounds: Bounds of the motion; those of the initial configuration by default.
            title: Title of the controls; the first robot's name by default.
            host: A loopback address, since the scene has no authentication.
            port: Port of the server; the next free one if it is taken.
            allow_hosts: Accepted host names beside `host`, such as those of proxies.

        Raises:
            DomainError: If viser is missing, or `host` is not a loopback address.
        """
        robots = [models] if isinstance(models, Model) else list(models)
        counts = [cases] * len(robots) if isinstance(cases, int) else list(cases)
        shades = [None] * len(robots) if colors is None else list(colors)
        self.server = _start(host, port, title or robots[0].name, allow_hosts)
        world = world or World()
        scenes = [scene_of(model) for model in robots]
        self.size = max(scene.size for scene in scenes)
        start = [_initial_poses(model) for model in robots]
        self.bounds = bounds or _start_bounds(scenes, start)
        self._view = view_rotation(world)
        api = self.server.scene
        # all nodes are children of one, which moves in follow mode while the camera is fixed
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

    # -- server ------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Address of the scene."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.server.get_port()}"

    @property
    def browsers(self) -> int:
        """Number of connected browsers."""
        return len(self.server.get_clients())

    def close(self) -> None:
        """Stop the server; browsers keep the last frame."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def __enter__(self) -> "LiveScene":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    # -- motion ------------------------------------------------------------------------------------

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
            robot: Index of the robot.
            time: Time [s], for time-dependent currents.
            forces: Wrenches [n; f] at frames, frame axes [N m, N], by name.
            thrust: Thrust of the model's thrusters [N].
            paths: Trails of the first and the last body [m]; their displayed positions by
                default.
        """
        shown = self.robots[robot]
        given = np.asarray(poses, dtype=np.float64)
        given = given.reshape(-1, len(shown.scene.bodies), 7)
        with self.server.atomic():
            shown.place(given)
            shown.show_forces(forces or {}, None if thrust is None else np.asarray(thrust))
            shown.show_trails(self._trails_of(robot) if paths is None else paths)
            self.around.update(time)
            if robot == 0:
                self._move_camera()

    def place_at(self, model: Model, q: ArrayLike, **options: Any) -> None:
        """Move a robot to a configuration.

        Args:
            model: The robot.
            q: Configuration [m or rad], shape (nq,) or (cases, nq).
            **options: As in `place`.
        """
        time = np.array([float(options.get("time", 0.0))])
        motion = sample_motion(Track(model, time, np.asarray(q)[None]), time, MAX_CASES)
        self.place(motion.poses[0], **options)

    def _trails_of(self, robot: int) -> tuple[Array, ...]:
        """Return the trails of the first and the last body from displayed positions."""
        shown, path = self.robots[robot], self._paths[robot]
        ends = shown.poses[[0, -1], 4:] if len(shown.poses) else np.zeros((2, 3))
        if not path or float(np.abs(ends - path[-1]).max()) > 0.01 * self.size:
            path.append(ends)
            # thin out the older half when the buffer is full
            if len(path) > 2000:
                path[:1000] = path[:1000:2]
        walked = np.array(path)
        return walked[:, 0], walked[:, 1]

    def clear_trails(self) -> None:
        """Remove all trails."""
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
        """Select the camera.

        Args:
            mode: One of `CAMERAS`; it refers to the first robot.
            mount: The body that carries the on-board camera; the first by default.
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
        """Return the center of the first robot, page axes [m]."""
        return np.asarray(self._view @ self.robots[0].center)

    def _move_camera(self) -> None:
        shift = self._home - self._center() if self._mode == "follow" else np.zeros(3)
        if (shift != self._shift).any():
            self._shift = shift
            self._root.position = shift
        if self._mode == "on-board" and len(self.robots[0].poses):
            pose = self.robots[0].poses[self._mount]
            ahead, above = rotate(pose[:4], np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
            ahead, above = self._view @ ahead, self._view @ above
            place = self._view @ pose[4:] - 0.5 * self.size * ahead + 0.28 * self.size * above
            for client in self.server.get_clients().values():
                with client.atomic():
                    client.camera.up_direction = above
                    client.camera.position = place
                    client.camera.look_at = place + self.size * (ahead - 0.12 * above)

    def _frame(self, camera: Any) -> None:
        """Place a camera so that the whole robot is visible, slightly from above."""
        middle = 0.5 * (self.bounds.low + self.bounds.high)
        reach = max(float(np.linalg.norm(self.bounds.high - self.bounds.low)), 0.8 * self.size)
        # field of view of 45 degrees, with a margin around the robot
        place = middle + np.array([0.58, -0.74, 0.34]) * (1.35 * reach)
        top = self.around.surface
        if top is not None and self.bounds.high[2] < top:
            # a submerged robot is viewed from below the surface
            place[2] = min(place[2], max(top - 0.15 * self.size, middle[2]))
        # shifted to the left, since the controls are on the right
        aside = np.array([0.74, 0.58, 0.0]) * (0.14 * reach)
        camera.up_direction = (0.0, 0.0, 1.0)
        camera.fov = np.pi / 4.0
        camera.position = place + aside
        camera.look_at = middle + aside

    def _watch(self) -> None:
        """Set the initial camera of each browser, and its background from the camera height."""

        def update_background(camera: Any) -> None:
            client = camera.client
            height = float(camera.position[2] - self._shift[2])
            self.around.set_background(client.scene, client.client_id, height)

        def connected(client: Any) -> None:
            self._frame(client.camera)
            update_background(client.camera)
            client.camera.on_update(update_background)

        def disconnected(client: Any) -> None:
            self.around.remove_client(client.client_id)

        self.server.on_client_connect(connected)
        self.server.on_client_disconnect(disconnected)


def _start(host: str, port: int, title: str, allow_hosts: Iterable[str]) -> Any:
    if host not in LOOPBACK:
        raise DomainError(
            "host",
            f"a loopback address ({', '.join(LOOPBACK)})",
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
    # suppress viser's start-up message
    with contextlib.redirect_stdout(io.StringIO()):
        server = start_guarded(host, port, title, allow_hosts)
    # no button that shares the scene over a public relay
    server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(29, 107, 136))
    return server


def _initial_poses(model: Model) -> Array:
    """Return the poses of all bodies in the pose "home", or at q = 0, shape (bodies, 7)."""
    q = model.poses.get("home", model.neutral())
    motion = sample_motion(Track(model, None, q), np.zeros(1), 1)
    first: Array = motion.poses[0, 0]
    return first


def _start_bounds(scenes: Iterable[Scene], start: Sequence[Array]) -> Bounds:
    motions = [Motion(poses[None, None], {}, None) for poses in start]
    return bounds_of(list(scenes), motions, slice(None))


_starting = threading.Lock()


class _GuardedHost(str):
    """An address that identifies the guarded server: others are started unchanged."""

    guarded = False
    """Whether the guard was installed."""


def start_guarded(host: str, port: int, title: str, allow_hosts: Iterable[str] = ()) -> Any:
    """Start a viser server that answers its own pages only, and return it.

    Args:
        host: A loopback address.
        port: Port of the server; the next free one if it is taken.
        title: Title of its controls.
        allow_hosts: Accepted host names beside `host`, such as those of proxies.

    Raises:
        DomainError: If one of them is not a host name.
        TiburonError: If requests to this version of viser cannot be checked.
    """
    import viser
    import websockets.asyncio.server as library

    address = _GuardedHost(host)
    guard, names = RequestGuard(allow_hosts, host), vars(library)
    plain = names["serve"]

    def serve(handler: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if host is address:
            options["process_request"] = _checked(guard, options.get("process_request"))
            address.guarded = True
        return plain(handler, host, port, **options)

    with _starting:
        names["serve"] = serve
        try:
            server = viser.ViserServer(host=address, port=port, label=title, verbose=False)
        finally:
            names["serve"] = plain
    if not address.guarded:
        server.stop()
        raise TiburonError(
            f"live scene: expected a viser whose requests can be checked, got {viser.__version__}, "
            "which would let any web page connect; pip install 'viser==1.1.1', or see the page of "
            "run.save_html()"
        )
    # otherwise any client could publish the scene over a public relay
    server.__dict__["request_share_url"] = lambda verbose=True: None
    return server


def _checked(guard: RequestGuard, process: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a request processor: the guard, then the original processor."""

    async def process_guarded(connection: Any, request: Any) -> Any:
        refusal = guard.refusal(request.headers, connection.local_address)
        if refusal is not None:
            return connection.respond(http.HTTPStatus.FORBIDDEN, f"{refusal}\n")
        found = process(connection, request) if process is not None else None
        return await found if inspect.isawaitable(found) else found

    return process_guarded
