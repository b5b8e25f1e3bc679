"""Replay pages: one HTML file that plays in any browser, without server and without network.

The page contains the drawing library, its own code and the recorded motion; `page/` has the
sources.
"""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.algorithms.surroundings import world_with
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, OptionError, RunFileError, ShapeError
from tiburon.model import Model, Water, World
from tiburon.spatial.rotations import quaternion_to_roll_pitch_yaw
from tiburon.viewer.motion import Motion, Track, frame_times, sample_motion
from tiburon.viewer.packing import Packer, compressed
from tiburon.viewer.scene import Scene, ScenePart, SceneThruster, quaternions, scene_of
from tiburon.viewer.surroundings import bounds_of, surroundings, view_rotation
from tiburon.written_file import write_file

CAMERAS = ("auto", "orbit", "follow", "on-board")
"""Initial cameras; "auto" follows robots that travel far."""

OVERLAYS = ("frames", "forces", "contacts", "trails", "centers", "water", "labels")
"""Overlays beside the robots; all can be switched in the page."""

PAGE = Path(__file__).parent / "page"

MODULES = (
    "decode",
    "solids",
    "sky",
    "floor",
    "arrows",
    "sea",
    "robot",
    "contacts",
    "overlays",
    "camera",
    "plots",
    "controls",
    "main",
)
"""Source modules of the page, in order of import."""

SOURCES = tuple(PAGE / f"{module}.js" for module in MODULES)


Plots = Mapping[str, "Mapping[str, ArrayLike] | ArrayLike"]
"""Curves by title, such as "depth [m]": shape (n,), or (n, k), or one of shape (n,) by label."""

USUAL_PERCENTILE = 90.0
"""Percentile of contact forces whose arrows have the full length."""

MAX_CURVES = 16
"""Most curves in one plot."""


def save_html(
    path: str | Path, model: Model, time: ArrayLike | None, q: ArrayLike, **options: Any
) -> Path:
    """Write a replay as one HTML file that plays without server and without network.

    Args:
        path: File to write; an existing one is replaced.
        model: The robot.
        time: Times of the rows [s], shape (n,); None for a single configuration.
        q: Configurations [m or rad], shape (n, ..., nq).
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
    contacts: ArrayLike | None = None,
    plots: Plots | None = None,
    others: Sequence[Track] = (),
    title: str | None = None,
    captions: Sequence[tuple[float, str]] = (),
    fps: float = 30.0,
    max_frames: int = 6000,
    cases: int = 12,
    camera: str = "auto",
    show: Iterable[str] = ("water", "forces", "contacts"),
    speed: float = 1.0,
) -> str:
    """Return a replay as the text of an HTML page.

    Args:
        model: The robot.
        time: Times of the rows [s], shape (n,), not decreasing; None for a single configuration.
        q: Configurations [m or rad], shape (n, ..., nq), or (..., nq) if `time` is None. The first
            case of a batch is drawn solid, the others transparent; rows of NaN hide a case.
        v: Joint velocities, shape (n, ..., nv), for the plots of speed.
        world: Gravity, ground and fluid; flat ground in air by default.
        fluid: Short for ``world=World(fluid=...)``.
        forces: Wrenches [n; f] at frames, frame axes [N m, N], by name, shape (n, ..., 6).
        thrust: Thrust of the model's thrusters [N], shape (n, ..., number of thrusters).
        contacts: Points [m] and forces on the first body [N] of contacts, world axes, and their
            modes, shape (n, ..., points, 7), or 11 with normals and friction; drawn for the first
            case with cones of friction, sticking ones green, slipping ones red.
        plots: Curves below the scene by title, shape (n,) or by label; by default positions and
            speeds of the first case. Pass {} for none.
        others: Further robots in the same scene.
        title: Heading of the page; the robot's name by default.
        captions: Sentences below the heading, each with the time from which on it is shown [s];
            before the first one the description of the robot.
        fps: Frames per second of densely recorded runs; the page interpolates.
        max_frames: Largest number of frames: long runs get fewer per second.
        cases: Largest number of cases of a batch to draw.
        camera: Initial camera: one of `CAMERAS`.
        show: Initially visible `OVERLAYS`.
        speed: Playback speed; 1 for real time.
    """
    if camera not in CAMERAS:
        raise OptionError("camera", CAMERAS, camera)
    shown = tuple(show)
    for name in shown:
        if name not in OVERLAYS:
            raise OptionError("show", OVERLAYS, name)
    world = world_with(world, fluid) or World()
    tracks = [Track(model, time, q, forces, thrust, contacts), *others]
    times = frame_times(tracks, fps, max_frames)
    motions = [_rotated(sample_motion(t, times, cases), view_rotation(world)) for t in tracks]
    scenes = [scene_of(t.model) for t in tracks]
    packer = Packer()
    whole = bounds_of(scenes, motions, slice(None))
    size = max(scene.size for scene in scenes)
    document = {
        "version": 1,
        "title": title or model.name,
        "about": model.about,
        "captions": _captions(captions),
        "start": float(times[0]),
        "times": packer.add(times - times[0]),
        "robots": [
            robot_json(scene, motion, track, packer)
            for scene, motion, track in zip(scenes, motions, tracks, strict=True)
        ],
        "bounds": whole.json(),
        "first": bounds_of(scenes, motions, slice(1)).json(),
        "surroundings": surroundings(world, whole, size, times, packer),
        "plots": _plots(model, time, q, v, plots, times, packer),
        "camera": camera,
        "show": list(shown),
        "speed": float(speed),
    }
    return page_text(document, packer)


def _captions(given: Sequence[tuple[float, str]]) -> list[list[Any]]:
    """Return captions in the order of their times."""
    try:
        rows = [(float(time), str(text)) for time, text in given]
    except (TypeError, ValueError):
        rows = [(np.nan, "")]
    if not all(np.isfinite(time) for time, _ in rows):
        raise DomainError("captions", "pairs of a time [s] and a sentence", repr(given)[:60])
    return [list(row) for row in sorted(rows, key=lambda row: row[0])]


def _rotated(motion: Motion, view: NDArray[np.float64]) -> Motion:
    """Return a motion in page axes."""
    if np.array_equal(view, np.eye(3)):
        return motion
    w, x, y, z = quaternions(view)
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    poses = np.concatenate(
        [motion.poses[..., :4] @ left.T, motion.poses[..., 4:] @ view.T], axis=-1
    )
    contacts = motion.contacts
    if contacts is not None:
        point, force, normal = (contacts[..., k : k + 3] @ view.T for k in (0, 3, 7))
        parts = [point, force, contacts[..., 6:7], normal, contacts[..., 10:]]
        contacts = np.concatenate(parts, axis=-1)
    return Motion(poses, motion.forces, motion.thrust, contacts)


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


def robot_json(scene: Scene, motion: Motion, track: Track, packer: Packer) -> dict[str, Any]:
    """Return one robot for the page."""
    places = {body.name: number for number, body in enumerate(scene.bodies)}
    frames = {frame.name: frame for frame in scene.frames}
    pushed = []
    for name, wrench in motion.forces.items():
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
    contacts = motion.contacts
    return {
        "name": scene.name,
        "size": scene.size,
        "notes": list(scene.notes),
        "poses": packer.add(motion.poses),
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
        "lines": [
            {
                "name": line.name,
                "bodies": [places.get(name, -1) for name in (line.first, line.second)],
                "points": [line.first_point, line.second_point],
                "color": line.color,
                "radius": line.radius,
            }
            for line in scene.lines
        ],
        "thrusters": [_thruster(thruster, places) for thruster in scene.thrusters],
        "thrust": None if motion.thrust is None else packer.add(motion.thrust),
        "largestThrust": 0.0 if motion.thrust is None else _largest(np.abs(motion.thrust)),
        "forces": pushed,
        "contacts": None if contacts is None else packer.add(contacts),
        "usualContact": 0.0 if contacts is None else usual_force(contacts[..., 3:6]),
    }


def usual_force(force: Array) -> float:
    """Return the force whose arrow has the full length [N]; impacts have longer ones.

    Args:
        force: Contact forces [N], shape (..., 3).
    """
    sizes = np.linalg.norm(force, axis=-1)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0.0)]
    return float(np.percentile(sizes, USUAL_PERCENTILE)) if len(sizes) else 0.0


def _largest(values: NDArray[np.float64]) -> float:
    """Return the largest finite value; 0 if there is none."""
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
        # integers up to 2^24 are exact in float32
        written["triangles"] = packer.add(part.mesh.triangles)
    return written


def page_text(
    document: dict[str, Any],
    packer: Packer,
    template: Path = PAGE / "page.html",
    styles: Sequence[Path] = (PAGE / "style.css",),
    modules: Sequence[Path] = SOURCES,
) -> str:
    """Insert code and data into a page template.

    Args:
        document: Content of the page.
        packer: Its arrays.
        template: The template.
        styles: Style sheets, in order.
        modules: Source modules of the page in order of import; the last one is main.js.
    """
    # without "<", neither names nor titles can end the script element
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
    # one pass over the template: inserted text is never searched for markers
    parts = page.split("@@")
    return "".join(inserted[part] if i % 2 else part for i, part in enumerate(parts))


@cache
def _code(sources: tuple[Path, ...]) -> str:
    """Return the compressed modules of the page, the drawing library first."""
    modules = [["three", (PAGE / "three" / "three.module.min.js").read_text(encoding="utf-8")]]
    for path in sources:
        modules.append([f"./{path.name}", path.read_text(encoding="utf-8")])
    return compressed(json.dumps(modules).encode("utf-8"))


def default_plots(model: Model, q: Array, v: Array | None) -> Plots:
    """Return the default plots of a robot: joint positions, base position, attitude and speeds.

    Args:
        model: The robot.
        q: Configurations of one case, shape (n, nq).
        v: Joint velocities of that case, shape (n, nv).
    """
    found: dict[str, dict[str, Array]] = {}

    def put(title: str, label: str, values: Array) -> None:
        found.setdefault(title, {})[label] = values

    for joint in model.joints:
        if joint.follows is not None or not joint.nq:
            continue
        at, rate = model.slice(joint.name), model.slice(joint.name, of="v")
        if joint.kind == "free":
            for axis, column in zip("xyz", range(at.start + 4, at.start + 7), strict=True):
                put("position [m]", f"{joint.name} {axis}", q[:, column])
            if v is not None:
                put("speed [m/s]", joint.name, np.linalg.norm(v[:, rate][:, 3:], axis=-1))
        if f"{joint.name}.qw" in joint.q_names():
            start = at.start + joint.q_names().index(f"{joint.name}.qw")
            # continuous over full turns
            turns = np.unwrap(quaternion_to_roll_pitch_yaw(q[:, start : start + 4]), axis=0)
            for angle, values in zip(("roll", "pitch", "yaw"), np.degrees(turns).T, strict=True):
                put("attitude [deg]", f"{joint.name} {angle}", values)
        elif joint.nq == 1:
            rotates = joint.kind not in ("prismatic", "screw")
            title = "joint angle [rad]" if rotates else "joint travel [m]"
            put(title, joint.name, q[:, at.start])
            if v is not None:
                title = "joint speed [rad/s]" if rotates else "joint speed [m/s]"
                put(title, joint.name, v[:, rate.start])
    # curves that are zero throughout say nothing beside others
    moving = {
        title: {label: values for label, values in curves.items() if values.any()}
        for title, curves in found.items()
    }
    shown = {title: curves for title, curves in moving.items() if curves} or found
    return {title: dict(list(curves.items())[:MAX_CURVES]) for title, curves in shown.items()}


def plots_json(plots: Plots, rows: Array, times: Array, packer: Packer) -> list[dict[str, Any]]:
    """Return the curves sampled at the times of the frames, for the page.

    Args:
        plots: Curves at the times of the rows.
        rows: Times of the rows [s], shape (n,).
        times: Times of the frames [s].
        packer: Receives the arrays.
    """
    written = []
    for title, given in plots.items():
        labels, curves = _curves(title, given, len(rows))
        sampled = [np.interp(times, rows, curve) for curve in curves]
        if sampled:
            table = packer.add(np.stack(sampled, axis=-1))
            written.append({"title": str(title), "labels": labels, "data": table})
    return written


def _curves(
    title: str, given: "Mapping[str, ArrayLike] | ArrayLike", rows: int
) -> tuple[list[str], Sequence[Array]]:
    if isinstance(given, Mapping):
        labels = [str(label) for label in given]
        curves = [np.asarray(curve, dtype=np.float64) for curve in given.values()]
    else:
        table = np.asarray(given, dtype=np.float64)
        table = table[:, None] if table.ndim == 1 else table
        labels = [""] if table.shape[-1] == 1 else [str(k) for k in range(table.shape[-1])]
        curves = list(np.moveaxis(table, -1, 0))
    for label, curve in zip(labels, curves, strict=True):
        if curve.shape != (rows,):
            raise ShapeError(
                f"plots[{title!r}] {label}".rstrip(),
                f"{rows} values, as time has",
                curve.shape,
                advice="give one curve per label",
            )
    return labels[:MAX_CURVES], curves[:MAX_CURVES]
