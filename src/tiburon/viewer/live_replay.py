"""Replay of a recorded run in the live scene, with playback controls in the browser."""

import threading
import time as clock
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.surroundings import world_with
from tiburon.arrays import Array, ArrayLike
from tiburon.model import Model, Water, World
from tiburon.viewer.live import CAMERAS, OVERLAYS, PORT, LiveScene
from tiburon.viewer.motion import Track, frame_times, sample_motion
from tiburon.viewer.replay import usual_force
from tiburon.viewer.scene import scene_of
from tiburon.viewer.surroundings import bounds_of

SPEEDS = ("0.1", "0.25", "0.5", "1", "2", "4", "10")
"""Choices of the playback speed."""

FRAME_RATE = 30.0
"""Frames sent per second [Hz]."""


class LiveReplay:
    """A replay in the live scene, played by its own thread.

    Example:
        ``replay = LiveReplay(rov, run.time, run.q, fluid=sea)``, then open ``replay.url``.

    Attributes:
        scene: The scene.
        time: Playback time from the start of the run [s].
        speed: Playback speed; 1 for real time.
    """

    def __init__(
        self,
        model: Model,
        time: ArrayLike | None,
        q: ArrayLike,
        *,
        world: World | None = None,
        fluid: Water | None = None,
        forces: Any = None,
        thrust: ArrayLike | None = None,
        contacts: ArrayLike | None = None,
        others: Sequence[Track] = (),
        title: str | None = None,
        fps: float = FRAME_RATE,
        max_frames: int = 6000,
        cases: int = 12,
        camera: str = "orbit",
        show: Iterable[str] = ("water", "forces", "contacts"),
        speed: float = 1.0,
        host: str = "127.0.0.1",
        port: int = PORT,
        allow_hosts: Iterable[str] = (),
    ) -> None:
        """Start the scene and play the run in a loop.

        Args:
            model: The robot.
            time: Times of the rows [s], shape (n,); None for a single configuration.
            q: Configurations [m or rad], shape (n, ..., nq), or (..., nq) if `time` is None.
            world: Gravity, ground and fluid; flat ground in air by default.
            fluid: Short for ``world=World(fluid=...)``.
            forces: Wrenches [n; f] at frames, frame axes [N m, N], by name, shape (n, ..., 6).
            thrust: Thrust of the model's thrusters [N], shape (n, ..., number of thrusters).
            contacts: Points, forces on the first body and modes of contacts, as in `Track`.
            others: Further robots in the same scene.
            title: Title of the controls; the robot's name by default.
            fps: Frames per second of densely recorded runs.
            max_frames: Largest number of frames: long runs get fewer per second.
            cases: Largest number of cases of a batch to draw.
            camera: Initial camera: "orbit", "follow" or "on-board".
            show: Initially visible overlays.
            speed: Playback speed; 1 for real time.
            host: A loopback address.
            port: Port of the server; the next free one if it is taken.
            allow_hosts: Accepted host names beside `host`.
        """
        world = world_with(world, fluid) or World()
        tracks = [Track(model, time, q, forces, thrust, contacts), *others]
        self._times = frame_times(tracks, fps, max_frames)
        self._motions = [sample_motion(track, self._times, cases) for track in tracks]
        scenes = [scene_of(track.model) for track in tracks]
        self.scene = LiveScene(
            [track.model for track in tracks],
            world=world,
            cases=[motion.poses.shape[1] for motion in self._motions],
            colors=[track.color for track in tracks],
            bounds=bounds_of(scenes, self._motions, slice(None)),
            title=title,
            host=host,
            port=port,
            allow_hosts=allow_hosts,
        )
        for robot, motion in zip(self.scene.robots, self._motions, strict=True):
            if motion.contacts is not None:
                robot.usual_contact = usual_force(motion.contacts[..., 3:6])
        self._playing = self.duration > 0.0
        self.speed = float(speed)
        self.time = 0.0
        self._lock = threading.RLock()
        self._ended = threading.Event()
        shown = tuple(show)
        self.scene.show(*OVERLAYS, on=False)
        self.scene.show(*shown)
        self.scene.look(camera)
        self._build_controls(shown, camera)
        self.seek(0.0)
        self._thread = threading.Thread(target=self._play, name="live replay", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the replay."""
        return self.scene.url

    @property
    def duration(self) -> float:
        """Duration of the run [s]."""
        return float(self._times[-1] - self._times[0])

    @property
    def playing(self) -> bool:
        """Whether the replay is playing."""
        return self._playing

    @playing.setter
    def playing(self, on: bool) -> None:
        self._playing = on
        self._button.label = "Pause" if on else "Play"

    def close(self) -> None:
        """Stop playing and serving."""
        self._ended.set()
        self._thread.join(timeout=2.0)
        self.scene.close()

    def wait(self) -> None:
        """Wait until Ctrl-C, or until `close` is called."""
        try:
            while not self._ended.wait(0.2):
                pass
        except KeyboardInterrupt:
            self.close()

    def __enter__(self) -> "LiveReplay":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    # -- time --------------------------------------------------------------------------------------

    def seek(self, time: float) -> None:
        """Set the playback time, from the start of the run [s]."""
        with self._lock:
            self.time = min(max(float(time), 0.0), self.duration)
            at = float(self._times[0]) + self.time
            frame = int(np.clip(np.searchsorted(self._times, at + 1e-9) - 1, 0, None))
            after = min(frame + 1, len(self._times) - 1)
            gap = float(self._times[after] - self._times[frame])
            share = (at - float(self._times[frame])) / gap if gap > 0.0 else 0.0
            for number, motion in enumerate(self._motions):
                path = (
                    motion.poses[: frame + 1, 0][:, [0, -1], 4:] if motion.poses.shape[2] else None
                )
                self.scene.place(
                    _mixed(motion.poses[frame], motion.poses[after], share),
                    robot=number,
                    time=at,
                    forces={name: table[frame, 0] for name, table in motion.forces.items()},
                    thrust=None if motion.thrust is None else motion.thrust[frame, 0],
                    contacts=None if motion.contacts is None else motion.contacts[frame],
                    paths=() if path is None else (path[:, 0], path[:, 1]),
                )
            self._slider.value = self.time
            self._clock.content = f"**{at:.2f} s** of {float(self._times[-1]):.2f} s"

    def _play(self) -> None:
        before = clock.perf_counter()
        while not self._ended.wait(1.0 / FRAME_RATE):
            now = clock.perf_counter()
            passed, before = now - before, now
            # paused without browsers, so that the first one to connect sees the start
            if not self.playing or not self.scene.browsers:
                continue
            time = self.time + passed * self.speed
            self.seek(0.0 if time > self.duration else time)

    # -- controls ----------------------------------------------------------------------------------

    def _build_controls(self, shown: tuple[str, ...], camera: str) -> None:
        gui: Any = self.scene.server.gui
        self._clock = gui.add_markdown("")
        moves = self.duration > 0.0
        self._button: Any = gui.add_button("Pause", visible=moves)
        self._slider: Any = gui.add_slider(
            "Time [s]",
            min=0.0,
            max=max(self.duration, 1e-3),
            step=max(self.duration, 1e-3) / 1000.0,
            initial_value=0.0,
            visible=moves,
        )
        speeds = sorted({*SPEEDS, f"{self.speed:g}"}, key=float)
        speed = gui.add_dropdown("Speed", speeds, initial_value=f"{self.speed:g}", visible=moves)
        bodies = [body.name for body in self.scene.robots[0].scene.bodies]
        look = gui.add_dropdown("Camera", CAMERAS, initial_value=camera)
        mount = gui.add_dropdown("Mounted on", bodies, visible=camera == "on-board")

        def pause(_: Any) -> None:
            self.playing = not self.playing

        def scrub(event: Any) -> None:
            # moved by a user, not by the playback thread
            if event.client is not None:
                self.seek(self._slider.value)

        def change_speed(_: Any) -> None:
            self.speed = float(speed.value)

        def turn(_: Any) -> None:
            mount.visible = look.value == "on-board"
            self.scene.look(look.value, mount.value)
            self.seek(self.time)

        self._button.on_click(pause)
        self._slider.on_update(scrub)
        speed.on_update(change_speed)
        look.on_update(turn)
        mount.on_update(turn)
        with gui.add_folder("Show"):
            for kind in OVERLAYS:
                self._add_switch(gui, kind, kind in shown)

    def _add_switch(self, gui: Any, kind: str, on: bool) -> None:
        absent = {
            "water": self.scene.around.water is None,
            "contacts": all(motion.contacts is None for motion in self._motions),
        }
        if absent.get(kind):
            return
        box = gui.add_checkbox(kind.capitalize(), on)

        def switch(_: Any) -> None:
            self.scene.show(kind, on=box.value)
            self.seek(self.time)

        box.on_update(switch)


def _mixed(first: Array, second: Array, share: float) -> Array:
    """Interpolate poses between two frames; a case that ends stays at its last pose."""
    if share <= 0.0:
        return first
    other = np.where(np.isfinite(second), second, first)
    poses = (1.0 - share) * first + share * other
    poses[..., :4] /= np.linalg.norm(poses[..., :4], axis=-1, keepdims=True)
    return poses
