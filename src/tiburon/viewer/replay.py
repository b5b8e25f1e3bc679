"""Replays as one HTML file that plays in any browser, without server and without network.

The page holds the drawing library, its own code and the recorded motion; `page/` has the sources.
"""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.errors import OptionError, RunFileError
from tiburon.model import Model, Water, World
from tiburon.viewer.replay_data import Packer, compressed
from tiburon.viewer.replay_motion import Film, Track, film_of, frame_times
from tiburon.viewer.replay_plots import Plots, default_plots, plots_json
from tiburon.viewer.replay_surroundings import bounds_of, surroundings, view_rotation
from tiburon.viewer.scene import Scene, ScenePart, SceneThruster, quaternions, scene_of
from tiburon.written_file import write_file

__all__ = [
    "CAMERAS",
    "OVERLAYS",
    "PAGE",
    "Track",
    "page_text",
    "replay_html",
    "robot_json",
    "save_html",
]

CAMERAS = ("auto", "orbit", "follow", "on-board")
"""How the page may look at first; "auto" follows robots that travel far."""

OVERLAYS = ("frames", "forces", "trails", "centers", "water", "labels")
"""What a page can show beside the robots; all can be switched in the page."""

PAGE = Path(__file__).parent / "page"

MODULES = (
    "decode",
    "solids",
    "sky",
    "floor",
    "arrows",
    "sea",
    "robot",
    "overlays",
    "camera",
    "plots",
    "controls",
    "main",
)
"""Sources of the page, each after those it imports."""

SOURCES = tuple(PAGE / f"{module}.js" for module in MODULES)


def save_html(
    path: str | Path, model: Model, time: ArrayLike | None, q: ArrayLike, **options: Any
) -> Path:
    """Write a replay as one HTML file that plays without server and without network.

    Args:
        path: Where to write; an existing file is replaced.
        model: The robot.
        time: Of the rows [s], shape (n,); None for one position.
        q: Positions [m or rad], shape (n, ..., nq).
        **options: As in `replay_html`.

    Returns:
        The path.

    Example:
        ``save_html("dive.html", rov, run.time, run.q, fluid=sea)``
    """
    file = Path(path)
    write_file(file, replay_html(model, time, q, **options), RunFileError)
    return file


def replay_html(
    model: Model,
    time: ArrayLike | None,
    q: ArrayLike,
    *,
    v: ArrayLike | None = None,
    world: World | None = None,
    fluid: Water | None = None,
    forces: Mapping[str, ArrayLike] | None = None,
    thrust: ArrayLike | None = None,
    plots: Plots | None = None,
    others: Sequence[Track] = (),
    title: str | None = None,
    fps: float = 30.0,
    max_frames: int = 6000,
    cases: int = 12,
    camera: str = "auto",
    show: Iterable[str] = ("water", "forces"),
    speed: float = 1.0,
) -> str:
    """Return a replay as the text of an HTML page.

    Args:
        model: The robot.
        time: Of the rows [s], shape (n,), not decreasing; None for one position.
        q: Positions [m or rad], shape (n, ..., nq), or (..., nq) if `time` is None. The first case
            of a batch is drawn solid, the others as ghosts; rows of NaN hide a case.
        v: Velocities, shape (n, ..., nv), for the curves of speed.
        world: Gravity, ground and fluid; flat ground in air by default.
        fluid: Short for ``world=World(fluid=...)``.
        forces: Wrenches [n; f] at frames, frame axes [N m, N], by name, shape (n, ..., 6).
        thrust: Of the model's thrusters [N], shape (n, ..., number of thrusters).
        plots: Curves below the scene by title, shape (n,) or by label; by default positions and
            speeds of the first case. Pass {} for none.
        others: More robots in the same scene.
        title: Heading of the page; the robot's name by default.
        fps: Frames per second that are kept of densely recorded runs; the page interpolates.
        max_frames: Largest number of frames: long runs get fewer per second.
        cases: Largest number of cases of a batch that are drawn.
        camera: How the page looks at first: one of `CAMERAS`.
        show: Which of `OVERLAYS` are on at first.
        speed: Of the replay; 1 for real time.
    """
    if camera not in CAMERAS:
        raise OptionError("camera", CAMERAS, camera)
    shown = tuple(show)
    for name in shown:
        if name not in OVERLAYS:
            raise OptionError("show", OVERLAYS, name)
    world = world or World()
    if fluid is not None:
        world = World(world.gravity, world.ground, fluid)
    tracks = [Track(model, time, q, forces, thrust), *others]
    times = frame_times(tracks, fps, max_frames)
    films = [_turned(film_of(t, times, cases), view_rotation(world)) for t in tracks]
    scenes = [scene_of(t.model) for t in tracks]
    packer = Packer()
    whole = bounds_of(scenes, films, slice(None))
    size = max(scene.size for scene in scenes)
    document = {
        "version": 1,
        "title": title or model.name,
        "about": model.about,
        "start": float(times[0]),
        "times": packer.add(times - times[0]),
        "robots": [
            robot_json(scene, film, track, packer)
            for scene, film, track in zip(scenes, films, tracks, strict=True)
        ],
        "bounds": whole.json(),
        "first": bounds_of(scenes, films, slice(1)).json(),
        "surroundings": surroundings(world, whole, size, times, packer),
        "plots": _plots(model, time, q, v, plots, times, packer),
        "camera": camera,
        "show": list(shown),
        "speed": float(speed),
    }
    return page_text(document, packer)


def _turned(film: Film, view: NDArray[np.float64]) -> Film:
    """Return a film in axes of the page."""
    if np.array_equal(view, np.eye(3)):
        return film
    w, x, y, z = quaternions(view)
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    poses = np.concatenate([film.poses[..., :4] @ left.T, film.poses[..., 4:] @ view.T], axis=-1)
    return Film(poses, film.forces, film.thrust)


def _plots(
    model: Model,
    time: ArrayLike | None,
    q: ArrayLike,
    v: ArrayLike | None,
    plots: Plots | None,
    times: NDArray[np.float64],
    packer: Packer,
) -> list[dict[str, Any]]:
    if time is None or len(times) < 2:
        return []
    rows = np.asarray(time, dtype=np.float64)
    if plots is None:
        first_q = np.asarray(q, dtype=np.float64).reshape(len(rows), -1)[:, : model.nq]
        first_v = None
        if v is not None:
            first_v = np.asarray(v, dtype=np.float64).reshape(len(rows), -1)[:, : model.nv]
        plots = default_plots(model, first_q, first_v)
    return plots_json(plots, rows, times, packer)


def robot_json(scene: Scene, film: Film, track: Track, packer: Packer) -> dict[str, Any]:
    """Return one robot for the page."""
    places = {body.name: number for number, body in enumerate(scene.bodies)}
    frames = {frame.name: frame for frame in scene.frames}
    pushed = []
    for name, wrench in film.forces.items():
        frame = frames.get(name)
        body = name if frame is None else frame.body
        pushed.append(
            {
                "name": name,
                "body": places.get(body, -1),
                "position": (0.0, 0.0, 0.0) if frame is None else frame.position,
                "quaternion": (1.0, 0.0, 0.0, 0.0) if frame is None else frame.quaternion,
                "data": packer.add(wrench),
                "largest": _largest(np.linalg.norm(wrench[..., 3:], axis=-1)),
                "largestMoment": _largest(np.linalg.norm(wrench[..., :3], axis=-1)),
            }
        )
    return {
        "name": scene.name,
        "size": scene.size,
        "notes": list(scene.notes),
        "poses": packer.add(film.poses),
        "bodies": [
            {
                "name": body.name,
                "parts": [_part(part, track.color, packer) for part in body.parts],
                "mass": body.mass,
                "center": body.center_of_mass,
                "volume": body.volume,
                "buoyancy": body.center_of_buoyancy,
            }
            for body in scene.bodies
        ],
        "frames": [
            {
                "name": frame.name,
                "body": places.get(frame.body, -1),
                "position": frame.position,
                "quaternion": frame.quaternion,
            }
            for frame in scene.frames
        ],
        "thrusters": [_thruster(thruster, places) for thruster in scene.thrusters],
        "thrust": None if film.thrust is None else packer.add(film.thrust),
        "largestThrust": 0.0 if film.thrust is None else _largest(np.abs(film.thrust)),
        "forces": pushed,
    }


def _largest(values: NDArray[np.float64]) -> float:
    """Return the largest finite number, 0 if there is none."""
    return float(values[np.isfinite(values)].max(initial=0.0))


def _thruster(thruster: SceneThruster, places: dict[str, int]) -> dict[str, Any]:
    return {
        "name": thruster.name,
        "body": places.get(thruster.body, -1),
        "position": thruster.position,
        "direction": thruster.direction,
        "radius": thruster.radius,
    }


def _part(
    part: ScenePart, color: tuple[float, float, float, float] | None, packer: Packer
) -> dict[str, Any]:
    written: dict[str, Any] = {
        "kind": part.kind,
        "size": part.size,
        "position": part.position,
        "quaternion": part.quaternion,
        "color": part.color if color is None else color,
    }
    if part.mesh is not None:
        written["vertices"] = packer.add(part.mesh.vertices)
        # whole numbers up to 2^24 are exact in float32
        written["triangles"] = packer.add(part.mesh.triangles)
    return written


def page_text(
    document: dict[str, Any],
    packer: Packer,
    template: Path = PAGE / "page.html",
    styles: Sequence[Path] = (PAGE / "style.css",),
    modules: Sequence[Path] = SOURCES,
) -> str:
    """Put code and data into a page.

    Args:
        document: What the page shows.
        packer: Its tables.
        template: The page without them.
        styles: Style sheets, in order.
        modules: Sources of the page, each after those it imports; the last one is called main.js.
    """
    # "<" never appears inside a script: neither names nor titles can end it
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    page = template.read_text(encoding="utf-8")
    inserted = {
        "title": html.escape(str(document["title"])),
        "style": "".join(path.read_text(encoding="utf-8") for path in styles),
        "loader": (PAGE / "loader.js").read_text(encoding="utf-8"),
        "code": _code(tuple(modules)),
        "document": text,
        "numbers": packer.text(),
    }
    # one pass over the template alone: what is inserted is never searched
    parts = page.split("@@")
    return "".join(inserted[part] if i % 2 else part for i, part in enumerate(parts))


@cache
def _code(sources: tuple[Path, ...]) -> str:
    """Return the modules of the page, the drawing library first, compressed."""
    modules = [["three", (PAGE / "three" / "three.module.min.js").read_text(encoding="utf-8")]]
    for path in sources:
        modules.append([f"./{path.name}", path.read_text(encoding="utf-8")])
    return compressed(json.dumps(modules).encode("utf-8"))
