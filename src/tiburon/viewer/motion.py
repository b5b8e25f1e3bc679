"""Motion sampled at frame times: the pose of every body in each frame."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, NonFiniteError, ShapeError, UnknownNameError
from tiburon.functions.kinematics import forward_kinematics
from tiburon.model import Model
from tiburon.record import record
from tiburon.viewer.scene import quaternions

CONTACT_ENTRIES = 11
"""Numbers of a contact point: its place, its force, its mode, its normal, its friction."""

CONTACT_MODE = 6
"""Place of the mode among them; what follows may be left out."""

MIN_INTERVAL = 1e-9
"""Shortest time between two rows that are both kept [s]; of rows at one time the last is kept."""


@record(eq=False)
class Track:
    """A robot and its motion.

    Example:
        ``Track(arm, run.time, run.q, color=(0.8, 0.3, 0.2, 1.0))``
    """

    model: Model
    """The robot."""

    time: ArrayLike | None
    """Times of the rows, not decreasing [s], shape (n,); None for a single configuration."""

    q: ArrayLike
    """Configurations [m or rad], shape (n, ..., nq), or (..., nq) where `time` is None; NaN after
    the end of a case. The first case is drawn solid, the others transparent."""

    forces: Mapping[str, ArrayLike] | None = None
    """Wrenches [n; f] at the origin of frames, frame axes [N m, N], by name; shape (n, ..., 6)."""

    thrust: ArrayLike | None = None
    """Thrust of the model's thrusters [N], shape (n, ..., number of thrusters)."""

    contacts: ArrayLike | None = None
    """Contact points [m], forces on the first body [N], world axes, and modes (0 separated, 1
    slipping, 2 sticking), shape (n, ..., points, 7); or 11 with unit normals from the first to the
    second body and coefficients of friction, whose cones are drawn."""

    color: tuple[float, float, float, float] | None = None
    """Replaces all colors of the robot: red, green, blue, opacity."""


@record(eq=False)
class Motion:
    """A track sampled at frame times."""

    poses: Array
    """Quaternion (w, x, y, z) and origin [m] of each body in the world, shape (frames, cases,
    bodies, 7); NaN after the end of a case."""

    forces: dict[str, Array]
    """Wrenches by frame name, shape (frames, cases, 6)."""

    thrust: Array | None
    """Thrust [N], shape (frames, cases, thrusters)."""

    contacts: Array | None = None
    """Points, forces, modes, normals and friction of the contacts of the first case that ever
    touch, shape (frames, points, 11)."""


def frame_times(tracks: Sequence[Track], fps: float, most: int) -> Array:
    """Return the times of the frames [s]: those of sparse rows, otherwise a constant rate.

    Args:
        tracks: Tracks to show.
        fps: Frames per second where rows are denser than that.
        most: Largest number of frames; long runs get fewer per second.
    """
    if not fps > 0.0:
        raise DomainError("fps", "a positive number", f"{fps!r}", advice="30 suits most runs")
    if most < 2:
        raise DomainError("max_frames", "at least 2", f"{most!r}", advice="6000 suits most runs")
    given = [times for times in map(_times, tracks) if len(times) > 1]
    if not given:
        return np.array([min(float(_times(track)[0]) for track in tracks)])
    start, end = min(float(t[0]) for t in given), max(float(t[-1]) for t in given)
    frames = min(round((end - start) * fps) + 1, most)
    rows = np.unique(given[0])
    if len(given) == 1 and len(rows) <= frames:
        return rows
    return np.linspace(start, end, max(frames, 2))


def sample_motion(track: Track, times: Array, most_cases: int) -> Motion:
    """Sample a track at given times.

    Poses are interpolated between rows and constant beyond the ends of the track.

    Args:
        track: The track.
        times: Times of the frames [s], shape (frames,).
        most_cases: Largest number of cases; of more, evenly spaced ones are shown.
    """
    rows = _times(track)
    model = track.model
    q = _by_case("q", track.q, len(rows), model.nq, model.describe_q(), track.time is None)
    # of rows at one time, as at an event, the last is kept
    kept = np.append(np.diff(rows) > MIN_INTERVAL, True)
    chosen = np.unique(np.linspace(0, q.shape[1] - 1, min(q.shape[1], most_cases)).astype(int))
    at, before, after, share = _brackets(rows[kept], times)
    q = q[kept][:, chosen][at]
    poses = _poses(model, rows[kept][at], q)

    def sampled(argument: str, values: ArrayLike, width: int, expected: str) -> Array:
        table = _by_case(argument, values, len(rows), width, expected, track.time is None)
        if table.shape[1] == 1:
            table = np.broadcast_to(table, (len(rows), int(chosen[-1]) + 1, width))
        table = table[kept][:, chosen][at]
        s = share[:, None, None]
        mixed: Array = np.where(
            s > 0.0, (1.0 - s) * table[before] + s * table[after], table[before]
        )
        return mixed

    forces = {}
    for name, wrench in (track.forces or {}).items():
        if name not in model.frame_names:
            raise UnknownNameError(
                "frame", name, model.frame_names, where="forces", listing="model.frame_names"
            )
        forces[name] = sampled(f"forces[{name!r}]", wrench, 6, "6 numbers [n; f]")
    thrust = None
    if track.thrust is not None:
        count = len(model.thrusters)
        thrust = sampled("thrust", track.thrust, count, f"{count} thrusters")
    contacts = None
    if track.contacts is not None:
        table = np.asarray(track.contacts, dtype=np.float64)
        if table.ndim < 2 or table.shape[-1] not in (CONTACT_ENTRIES, CONTACT_MODE + 1):
            raise ShapeError(
                "contacts",
                f"{CONTACT_MODE + 1} numbers per point: point, force, mode; or {CONTACT_ENTRIES} "
                "with normal and friction",
                f"shape {table.shape}",
            )
        if table.shape[-1] < CONTACT_ENTRIES:
            # without friction there is no cone to draw
            rest = np.zeros((*table.shape[:-1], CONTACT_ENTRIES - table.shape[-1]))
            table = np.concatenate([table, rest], axis=-1)
        points = table.shape[-2]
        flat = table.reshape(*table.shape[:-2], points * CONTACT_ENTRIES)
        first = _by_case(
            "contacts", flat, len(rows), points * CONTACT_ENTRIES, "contacts", track.time is None
        )[:, 0]
        # of points that ever touch, those of the row before a frame
        table = first.reshape(-1, points, CONTACT_ENTRIES)[kept][at]
        touching = np.nan_to_num(table[..., CONTACT_MODE]) > 0.0
        contacts = table[before][:, touching.any(axis=0)]
    return Motion(_between(poses[before], poses[after], share), forces, thrust, contacts)


def _times(track: Track) -> Array:
    if track.time is None:
        return np.zeros(1)
    times = np.asarray(track.time, dtype=np.float64)
    if times.ndim != 1 or not len(times):
        raise ShapeError("time", "one dimension, at least one row", times.shape)
    if not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        raise NonFiniteError("time", row, float(times[row]))
    if (np.diff(times) < 0.0).any():
        row = int(np.argmax(np.diff(times) < 0.0)) + 1
        raise DomainError(
            "time",
            "times that do not decrease",
            f"{times[row]:g} after {times[row - 1]:g} s at row {row}",
            advice="sort the rows",
        )
    return times


def _by_case(
    argument: str, values: ArrayLike, rows: int, width: int, expected: str, still: bool
) -> Array:
    """Return an array as (rows, cases, width)."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != width:
        raise ShapeError(argument, expected, f"shape {array.shape}", advice="batch dimensions lead")
    if still:
        array = array[None]
    if array.ndim < 2 or array.shape[0] != rows:
        raise ShapeError(
            argument, f"{rows} rows, as time has", f"shape {array.shape}", advice="time leads"
        )
    if array.size == 0 and width:
        raise ShapeError(argument, "at least one case", f"shape {array.shape}")
    return array.reshape(rows, math.prod(array.shape[1:-1]), width)


def _brackets(
    rows: Array, times: Array
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], Array]:
    """Return the needed rows, the two of them around each frame, and the fraction between."""
    after = np.clip(np.searchsorted(rows, times, side="left"), 0, len(rows) - 1)
    exact = rows[after] <= times + MIN_INTERVAL
    before = np.where(exact | (after == 0), after, after - 1)
    length = np.where(after > before, rows[after] - rows[before], 1.0)
    share = np.clip((times - rows[before]) / length, 0.0, 1.0) * (after > before)
    needed, place = np.unique(np.stack([before, after]), return_inverse=True)
    before, after = place.reshape(2, -1)
    return needed, before, after, share


def _poses(model: Model, times: Array, q: Array) -> Array:
    """Return the poses of all bodies, shape (rows, cases, bodies, 7); NaN where q is."""
    names = model.body_names
    poses = np.full((*q.shape[:2], len(names), 7), np.nan)
    good = np.isfinite(q).all(axis=-1)
    if not good.any():
        raise NonFiniteError("q", advice="no row can be shown")
    moved = any(joint.depends_on_time for joint in model.joints)
    when = np.broadcast_to(times[:, None], q.shape[:2])[good] if moved else None
    R, p = forward_kinematics(model, q[good], names, time=when)
    poses[good] = np.concatenate([quaternions(R), p], axis=-1)
    return poses


def _between(first: Array, second: Array, share: Array) -> Array:
    """Interpolate poses, and remove sign changes of quaternions between frames."""
    s = share[:, None, None, None]
    turn, other = first[..., :4], second[..., :4]
    other = np.where((turn * other).sum(axis=-1, keepdims=True) < 0.0, -other, other)
    # a frame at a row uses that row alone: the next may be NaN after the end of a case
    turn = np.where(s > 0.0, (1.0 - s) * turn + s * other, turn)
    turn = turn / np.linalg.norm(turn, axis=-1, keepdims=True)
    place = np.where(s > 0.0, (1.0 - s) * first[..., 4:] + s * second[..., 4:], first[..., 4:])
    flips = np.where((turn[1:] * turn[:-1]).sum(axis=-1) < 0.0, -1.0, 1.0)
    signs = np.concatenate([np.ones_like(turn[:1, ..., 0]), np.cumprod(flips, axis=0)])
    return np.concatenate([turn * signs[..., None], place], axis=-1)
