"""Measured runs: attitude, rates, positions and joints of a robot over time, read from files.

Rates and accelerations of joints come from a smoothing spline. With x the spline and y the samples,
it minimizes

    integral (x - y)^2 dt  +  (T / 2 pi)^6 integral (d^3 x / dt^3)^2 dt

over cubic B-splines: a sine of period T is halved, slower motion passes, faster motion does not.
"""

import csv
import io
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.actuation.piecewise import Piecewise
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.arrays import Array, NDArray
from tiburon.control.joint_path import JointPath
from tiburon.errors import (
    DomainError,
    ModelError,
    RunFileError,
    ShapeError,
    UnknownNameError,
    shown,
)
from tiburon.model import Model
from tiburon.record import record
from tiburon.regular_file import open_regular_file, read_arrays, read_regular_file
from tiburon.results.encoding import first_line
from tiburon.spatial.rotations import (
    quaternion_conjugate,
    quaternion_rotate,
    quaternion_to_roll_pitch_yaw,
)
from tiburon.viewer.plots import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tiburon.results.trajectory import Trajectory

ANGLES = ("roll", "pitch", "yaw")
"""Attitude angles, in the order in which `quaternion_to_roll_pitch_yaw` returns them."""

RATES = ("wx", "wy", "wz")
"""Components of the angular velocity, body axes."""

PLACES = ("x", "y", "z")
"""Components of the position, world axes."""

KNOT_INTERVAL = 0.1
"""Distance of the knots of smoothing splines [s], in periods of 1 s."""

MIN_PERIOD, MAX_PERIOD = 1e-3, 1e3
"""Periods that smoothing splines can halve [s]."""

START = 0.2
"""Time over which a line through measured rates determines those at the start [s]: a vehicle that
accelerates has others at the start than on average."""

START_POSITION = 1.0
"""Time over which positions determine the velocity at the start [s]."""

UNIT_ERROR = 1e-2
"""Largest deviation of the length of a quaternion from 1 that is attributed to rounding."""

MAX_ANGLE = 50.0
"""Largest joint position that is taken for radians [rad]."""

MAX_RATE = 35.0
"""Largest angular velocity that is taken for rad/s."""

MAX_BYTES = 2**31
"""Largest content of a measured run [bytes]."""

ARCHIVE_BYTES = 64 * 2**20
ARCHIVE_RATIO = 20
"""An archive may unpack to `ARCHIVE_BYTES` plus `ARCHIVE_RATIO` times its size: measurements
compress little."""

CSV_BYTES = 256 * 2**20
"""Largest CSV file [bytes]."""

MAX_COLUMNS = 10_000
"""Most columns of a CSV file."""

MAX_GAP = 5.0
"""Longest interval between two samples, in median intervals."""

COLUMNS = {"quaternion": ("qw", "qx", "qy", "qz"), "angular_velocity": RATES, "position": PLACES}
"""Columns of CSV files; "time" and "position_valid" are others, and all the rest are joints."""


def moving_average(values: Array, count: int) -> Array:
    """Return averages over `count` samples along the first dimension, where all of them exist."""
    total = np.cumsum(np.concatenate([np.zeros_like(values[:1]), values]), axis=0)
    found: Array = (total[count:] - total[:-count]) / count
    return found


@public
@record(slots=False, eq=False)
class MeasuredRun:
    """A measured run of a robot: what `load_measured` reads."""

    name: str
    """Name of the run, by default that of its file."""

    time: Array
    """Times [s], rising, shape (n,)."""

    quaternion: Array | None = None
    """Attitude of the base (w, x, y, z), to world axes, shape (n, 4)."""

    angular_velocity: Array | None = None
    """Angular velocity of the base, body axes [rad/s], shape (n, 3)."""

    position: Array | None = None
    """Position of the base, world axes [m], shape (n, 3)."""

    position_valid: NDArray[np.bool_] | None = None
    """Where positions were measured; others are never compared."""

    joints: Mapping[str, Array] | None = None
    """Joint positions by name [m or rad], shape (n,) each."""

    @property
    def duration(self) -> float:
        """Time from the first to the last sample [s]."""
        return float(self.time[-1] - self.time[0])

    @cached_property
    def attitude(self) -> Array:
        """Roll, pitch and yaw [rad], shape (n, 3); yaw without jumps.

        Raises:
            ModelError: If no attitude was measured.
        """
        if self.quaternion is None:
            raise ModelError(f"run {self.name!r}: expected a measured attitude, got none")
        found = quaternion_to_roll_pitch_yaw(self.quaternion)
        found[:, 2] = np.unwrap(found[:, 2])
        return found

    @public
    def with_joints(self, names: Mapping[str, str | tuple[str, float]]) -> "MeasuredRun":
        """Return the run with the joints of a model.

        Args:
            names: By joint of the model, the measured column; or column and offset [m or rad],
                which is added: ``{"elbow": ("c_elbow", -3.07)}``. Other columns are left out.

        Raises:
            UnknownNameError: If a column does not exist.
        """
        known = self.joints or {}
        found = {}
        for joint, given in names.items():
            column, offset = given if isinstance(given, tuple) else (given, 0.0)
            if column not in known:
                raise UnknownNameError("column", column, known, where=f"run {self.name!r}")
            found[joint] = known[column] + float(offset)
        return replace(self, joints=found)

    @public
    def resample(self, dt: float) -> "MeasuredRun":
        """Return the run at equal intervals [s], by linear interpolation.

        Quaternions are normalized; a position is valid where both its neighbors are.
        """
        step = positive("dt", dt, "s")
        count = int(np.floor(self.duration / step * (1.0 + 1e-12))) + 1
        time = self.time[0] + step * np.arange(count)

        def at(values: Array | None) -> Array | None:
            if values is None:
                return None
            rows = values.reshape(len(values), -1)
            found = np.stack([np.interp(time, self.time, column) for column in rows.T], axis=-1)
            return found.reshape(count, *values.shape[1:])

        quaternion = at(self.quaternion)
        if quaternion is not None:
            quaternion = quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)
        valid = at(None if self.position_valid is None else self.position_valid.astype(float))
        return replace(
            self,
            time=time,
            quaternion=quaternion,
            angular_velocity=at(self.angular_velocity),
            position=at(self.position),
            position_valid=None if valid is None else valid > 1.0 - 1e-9,
            joints={k: at(x) for k, x in (self.joints or {}).items()},  # type: ignore[misc]
        )

    @public
    def joint_path(
        self, joints: Sequence[str] | None = None, *, smoothing: float = 1.0
    ) -> JointPath:
        """Return a smoothing spline of joint positions, with continuous acceleration.

        Args:
            joints: Names of joints; all by default.
            smoothing: Period of an oscillation that is halved [s].

        Raises:
            UnknownNameError: If a joint was not measured.
        """
        period = positive("smoothing", smoothing, "s")
        if not MIN_PERIOD <= period <= MAX_PERIOD:
            raise DomainError(
                "smoothing", f"a period from {MIN_PERIOD:g} to {MAX_PERIOD:g} s", f"{period:g} s"
            )
        known = self.joints or {}
        names = tuple(known) if joints is None else tuple(joints)
        for name in names:
            if name not in known:
                raise UnknownNameError("joint", name, known, where=f"run {self.name!r}")
        if not names:
            raise ModelError(f"run {self.name!r}: expected measured joints, got none")
        values = np.stack([known[name] for name in names], axis=-1)
        return JointPath(_smoothing_spline(self.time, values, period), names)

    def start(self, model: Model) -> tuple[Array, Array]:
        """Return position and velocity of a robot on a free base at the start of the run.

        The attitude is that of the first sample; rates are those of a line through the first 0.2 s,
        at the first sample; the velocity is the slope of valid positions over the first second,
        zero without two of them; positions are relative to the first one; joints are zero.

        Raises:
            ModelError: If the first joint of the robot is not free.
        """
        base = model.joints[0]
        if base.kind != "free":
            raise ModelError(
                f"model {model.name!r}: expected a free base, as of a vehicle, got the "
                f"{base.kind} joint {base.name!r}",
                name=base.name,
            )
        q, v = np.array(model.neutral(), dtype=np.float64), np.zeros(model.nv)
        first = self.time <= self.time[0] + START
        if self.quaternion is not None:
            q[model.slice(base.name, of="q")][:4] = self.quaternion[0]
        if self.angular_velocity is not None:
            rates, _ = _line(self.time[first], self.angular_velocity[first])
            v[model.slice(base.name, of="v")][:3] = rates
        if self.position is not None:
            near = self.valid & (self.time <= self.time[0] + START_POSITION)
            if near.sum() > 1:
                _, slope = _line(self.time[near], self.position[near])
                to_body = quaternion_conjugate(q[model.slice(base.name, of="q")][:4].tolist())
                v[model.slice(base.name, of="v")][3:6] = quaternion_rotate(to_body, slope.tolist())
        return q, v

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Where positions were measured, shape (n,)."""
        if self.position_valid is not None:
            return self.position_valid
        return np.full(len(self.time), self.position is not None)

    def displacement(self, predicted: Array) -> Array:
        """Return predicted less measured positions [m], zero at the first valid sample, (n, 3).

        Only displacements compare: the place of the markers in the body is not known. Where
        positions are not valid, the result is NaN.
        """
        found = np.full(predicted.shape, np.nan)
        valid = np.flatnonzero(self.valid)
        if self.position is not None and len(valid):
            off = predicted[valid] - self.position[valid]
            found[valid] = off - off[0]
        return found

    @public
    def compare(self, run: "Trajectory", case: int | None = None) -> dict[str, Array]:
        """Return predicted minus measured attitude and rates at the measured times.

        Args:
            run: A prediction that starts with the measured run, its times counted from there.
            case: Case of a batch.

        Returns:
            "roll", "pitch", "yaw" [rad] and "wx", "wy", "wz" [rad/s], shape (n,) each; those that
            were not measured are missing. Displacements "x", "y" and "z" [m] count from the first
            valid position and are NaN where positions are not valid.
        """
        model = run.model
        base = model.joints[0].name
        q, v = (x if case is None else x[:, case] for x in (run.q, run.v))
        time = self.time - self.time[0] + run.time[0]
        if time[-1] > run.time[-1] + 1e-6:
            raise DomainError(
                f"prediction of run {self.name!r}",
                f"{self.duration:g} s or more",
                f"{run.time[-1] - run.time[0]:g} s",
            )
        of_q, of_v = q[:, model.slice(base, of="q")], v[:, model.slice(base, of="v")]

        def at(values: Array) -> Array:
            return np.stack([np.interp(time, run.time, column) for column in values.T], axis=-1)

        found: dict[str, Array] = {}
        if self.quaternion is not None:
            angles = quaternion_to_roll_pitch_yaw(of_q[:, :4])
            angles[:, 2] = np.unwrap(angles[:, 2])
            off = at(angles) - self.attitude
            off[:, 2] -= 2.0 * np.pi * np.round(off[0, 2] / (2.0 * np.pi))
            found |= dict(zip(ANGLES, off.T, strict=True))
        if self.angular_velocity is not None:
            found |= dict(zip(RATES, (at(of_v[:, :3]) - self.angular_velocity).T, strict=True))
        if self.position is not None:
            found |= dict(zip(PLACES, self.displacement(at(of_q[:, 4:7])).T, strict=True))
        return found

    @styled
    def plot(
        self,
        run: "Trajectory | None" = None,
        case: int | None = None,
        path: "str | os.PathLike[str] | None" = None,
    ) -> "Figure":
        """Plot attitude and joints over time, with a prediction if one is given.

        Args:
            run: A prediction, as `compare` takes it.
            case: Its case.
            path: File to save the figure to.
        """
        from matplotlib.figure import Figure

        from tiburon.viewer.plots import save_figure

        figure = Figure(figsize=(8.0, 6.0), layout="constrained")
        rows = figure.subplots(3, 1, sharex=True)
        time = self.time - self.time[0]
        off = {} if run is None else self.compare(run, case)
        for axes, angle, k in zip(rows[:2], ANGLES, range(2), strict=False):
            values = np.degrees(self.attitude[:, k])
            axes.plot(time, values, label="measured")
            if angle in off:
                predicted = values + np.degrees(off[angle])
                axes.plot(time, predicted, label="predicted")
            axes.set_ylabel(f"{angle} [deg]")
            axes.legend(loc="best")
        for name, values in (self.joints or {}).items():
            rows[2].plot(time, np.degrees(values), label=name)
        rows[2].set_ylabel("joints [deg]")
        rows[2].legend(loc="best")
        rows[2].set_xlabel("time [s]")
        figure.suptitle(self.name)
        if path is not None:
            save_figure(figure, Path(path))
        return figure


def _line(time: Array, values: Array) -> tuple[Array, Array]:
    """Return the line through values of shape (n, 3): its value at the first time, its slope."""
    t = time - time.mean()
    mean = values.mean(axis=0)
    if len(time) < 2:
        return mean, np.zeros_like(mean)
    slope = t @ values / (t @ t)
    return mean + t[0] * slope, slope


def _smoothing_spline(time: Array, values: Array, period: float) -> Piecewise:
    """Return the cubic smoothing spline of samples, shape (n, k); see the top of the file."""
    h = KNOT_INTERVAL * period
    pieces = max(1, int(np.ceil((time[-1] - time[0]) / h - 1e-9)))
    h = (time[-1] - time[0]) / pieces
    # values of the four B-splines of each piece
    place = (time - time[0]) / h
    piece = np.minimum(place.astype(int), pieces - 1)
    s = place - piece
    weights = ((1 - s) ** 3, 3 * s**3 - 6 * s**2 + 4, -3 * s**3 + 3 * s**2 + 3 * s + 1, s**3)
    B = np.zeros((len(time), pieces + 3))
    for k, weight in enumerate(weights):
        B[np.arange(len(time)), piece + k] += weight / 6.0
    interval = np.gradient(time)[:, None]
    # the third derivative is constant within a piece
    D = np.diff(np.eye(pieces + 3), 3, axis=0) / h**3
    matrix = B.T @ (interval * B) + (period / (2.0 * np.pi)) ** 6 * h * (D.T @ D)
    # without samples in some pieces the penalty alone fills the gap
    c = np.linalg.solve(matrix, B.T @ (interval * values))
    first, second, third, last = c[:-3], c[1:-2], c[2:-1], c[3:]
    coefficients = np.stack(
        [
            (first + 4.0 * second + third) / 6.0,
            (third - first) / (2.0 * h),
            (first - 2.0 * second + third) / (2.0 * h**2),
            (last - 3.0 * third + 3.0 * second - first) / (6.0 * h**3),
        ],
        axis=1,
    )
    knots = tuple((time[0] + h * np.arange(pieces + 1)).tolist())
    rows = tuple(tuple(tuple(row) for row in piece) for piece in coefficients.tolist())
    return Piecewise(knots, rows)


# files


@public
def load_measured(path: str | os.PathLike[str], *, name: str | None = None) -> MeasuredRun:
    """Read a measured run from a file.

    NumPy archives (.npz) hold `time`, and some of `quaternion` (n, 4), `angular_velocity` (n, 3),
    `position` (n, 3), `position_valid` (n,), `joint_position` (n, k) with `joint_names` (k,). CSV
    files have one header line with the columns time, qw, qx, qy, qz, wx, wy, wz, x, y, z,
    position_valid; further columns are joint positions. Units are s, m, rad and rad/s; quaternions
    are from body to world axes, scalar first.

    Args:
        path: The file.
        name: Name of the run; that of the file by default.

    Raises:
        RunFileError: If the file cannot be read, or a column is missing or unusable; the message
            names file, column and row.

    Example:
        ``run = tb.load_measured("run_005-1.npz").with_joints({"elbow": ("c_elbow", -0.1)})``
    """
    file = Path(path)
    arrays = _read_csv(file) if file.suffix.lower() == ".csv" else _read_archive(file)
    return _checked(file, name or file.stem, arrays)


def _read_archive(file: Path) -> dict[str, Any]:
    """Return the arrays of an archive that are known; others are ignored without expanding them."""
    known = ("time", "position_valid", "joint_names", "joint_position", *COLUMNS)
    with open_regular_file(file, "a measured run", RunFileError) as stream:
        most = ARCHIVE_BYTES + ARCHIVE_RATIO * os.fstat(stream.fileno()).st_size
        try:
            found, names = read_arrays(
                stream, min(most, MAX_BYTES), packed=True, kinds="biufcUS", wanted=known
            )
        except Exception as error:
            # damaged archives raise anything
            raise RunFileError(
                file,
                f"expected a NumPy archive (.npz) or a .csv file ({first_line(error)}); restore "
                "it from a copy, or write it with fewer samples",
            ) from error
    for key in names:
        # misspelled names are refused
        near = get_close_matches(key[:80].casefold(), known, n=1, cutoff=0.9)
        if key not in known and near:
            raise RunFileError(
                file, f"unknown array {key[:80]!r}; did you mean {near[0]!r}? rename it"
            )
        if key in known and key != "joint_names" and found[key].dtype.kind not in "biuf":
            raise RunFileError(file, f"{key} must hold real numbers, got type {found[key].dtype}")
    labels = found.pop("joint_names", None)
    positions = found.pop("joint_position", None)
    if positions is None and labels is not None:
        raise RunFileError(file, "joint_names is there without joint_position; add it")
    if positions is not None:
        if positions.ndim not in (1, 2):
            raise RunFileError(
                file, f"joint_position must have shape (samples, joints), got {positions.shape}"
            )
        if labels is not None and len(set(np.ravel(labels).tolist())) < np.size(labels):
            raise RunFileError(file, "joint_names holds a name twice; rename one")
        count = positions.shape[-1] if positions.ndim == 2 else 1
        if labels is None or np.size(labels) != count:
            raise RunFileError(
                file,
                f"joint_names must hold one name for each of {count} columns of joint_position",
            )
        rows = positions.reshape(len(positions), count)
        found["joints"] = {str(n): rows[:, k] for k, n in enumerate(np.ravel(labels))}
    return found


def _read_csv(file: Path) -> dict[str, Any]:
    content = read_regular_file(
        file, CSV_BYTES, "a measured run", "write it as a NumPy archive (.npz)", error=RunFileError
    )
    with io.TextIOWrapper(io.BytesIO(content), "utf-8", "replace", newline="") as stream:
        try:
            columns = _csv_columns(file, csv.reader(stream))
        except csv.Error as error:
            raise RunFileError(file, f"expected comma-separated values ({error})") from error
    found: dict[str, Any] = {}
    for key, words in COLUMNS.items():
        given = [word for word in words if word in columns]
        if given and len(given) != len(words):
            lost = next(word for word in words if word not in columns)
            raise RunFileError(file, f"column {lost!r} is missing beside {given[0]!r}; add it")
        if given:
            found[key] = np.stack([columns.pop(word) for word in words], axis=-1)
    for key in ("time", "position_valid"):
        if key in columns:
            found[key] = columns.pop(key)
    if columns:
        found["joints"] = columns
    return found


def _csv_columns(file: Path, lines: Iterator[list[str]]) -> dict[str, Array]:
    """Return the columns of the lines of a CSV file, the first of which names them."""
    rows = (row for row in lines if row)
    header = [word.strip() for word in next(rows, [])]
    if len(header) > MAX_COLUMNS:
        raise RunFileError(
            file, f"expected at most {MAX_COLUMNS} columns, got {len(header)}; leave some out"
        )
    if len(set(header)) != len(header):
        twice = next(word for word in header if header.count(word) > 1)
        raise RunFileError(file, f"column {shown(twice)} is there twice; rename one")
    values = [array("d") for _ in header]
    count = 0
    for count, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise RunFileError(
                file,
                f"row {count} has {len(row)} values for {len(header)} columns; complete or drop it",
            )
        for word, column, text in zip(header, values, row, strict=True):
            try:
                column.append(float(text))
            except ValueError:
                raise RunFileError(
                    file,
                    f"column {shown(word)}, row {count}: expected a number, got {shown(text)}; "
                    "drop the row or fill it",
                ) from None
    if count < 2:
        lines_read = count + bool(header)
        raise RunFileError(
            file,
            f"expected a header and two rows or more, got {lines_read} lines; write one row per "
            "sample",
        )
    return {word: np.array(column) for word, column in zip(header, values, strict=True)}


def _checked(file: Path, name: str, arrays: Mapping[str, Any]) -> MeasuredRun:
    """Return the run of some arrays, checked."""
    if "time" not in arrays:
        raise RunFileError(
            file,
            f"column 'time' is missing; got {', '.join(sorted(arrays)) or 'none'}; add the times "
            "of the samples [s]",
        )
    time = np.asarray(arrays["time"], dtype=np.float64)
    if time.ndim != 1 or len(time) < 2:
        raise RunFileError(file, f"time must have two samples or more, got shape {time.shape}")
    _finite(file, "time", time)
    steps = np.diff(time)
    if (steps <= 0.0).any():
        k = int(np.argmax(steps <= 0.0))
        raise RunFileError(
            file,
            f"column 'time', row {k + 2}: expected rising times, got {time[k + 1]:g} s after "
            f"{time[k]:g} s; sort the rows, or split the run where the clock was set back",
        )
    if steps.max() > MAX_GAP * np.median(steps):
        k = int(np.argmax(steps))
        raise RunFileError(
            file,
            f"column 'time', row {k + 2}: a gap of {steps[k]:g} s where samples are "
            f"{np.median(steps):g} s apart; split the run there",
        )
    found: dict[str, Any] = {}
    for key, words in COLUMNS.items():
        if key in arrays:
            values = np.asarray(arrays[key], dtype=np.float64)
            if values.shape != (len(time), len(words)):
                wanted = (len(time), len(words))
                raise RunFileError(file, f"{key} must have shape {wanted}, got {values.shape}")
            found[key] = values
    valid = arrays.get("position_valid")
    if valid is not None:
        found["position_valid"] = np.asarray(valid).astype(bool)
        if found["position_valid"].shape != time.shape:
            raise RunFileError(file, f"position_valid must have shape {time.shape}")
    _check_base(file, found)
    joints = {}
    for joint, column in arrays.get("joints", {}).items():
        values = np.asarray(column, dtype=np.float64)
        if values.shape != time.shape:
            raise RunFileError(
                file, f"joint {joint!r} must have shape {time.shape}, got {values.shape}"
            )
        _finite(file, joint, values)
        if np.abs(values).max() > MAX_ANGLE:
            k = int(np.abs(values).argmax())
            raise RunFileError(
                file,
                f"column {joint!r}, row {k + 1}: {values[k]:g} is not an angle in rad; convert "
                "degrees by numpy.radians",
            )
        joints[joint] = values
    return MeasuredRun(name, time, joints=joints or None, **found)


def _check_base(file: Path, found: dict[str, Any]) -> None:
    """Check attitude, rates and positions."""
    quaternion = found.get("quaternion")
    if quaternion is not None:
        _finite(file, "quaternion", quaternion)
        length = np.linalg.norm(quaternion, axis=-1)
        k = int(np.abs(length - 1.0).argmax())
        if abs(length[k] - 1.0) > UNIT_ERROR:
            raise RunFileError(
                file,
                f"column 'quaternion', row {k + 1}: expected length 1, got {length[k]:g}; write "
                "qw, qx, qy, qz, scalar first, or drop the row",
            )
        found["quaternion"] = quaternion / length[:, None]
    rates = found.get("angular_velocity")
    if rates is not None:
        _finite(file, "angular_velocity", rates)
        if np.abs(rates).max() > MAX_RATE:
            k = int(np.abs(rates).max(axis=-1).argmax())
            raise RunFileError(
                file,
                f"column 'angular_velocity', row {k + 1}: {np.abs(rates[k]).max():g} is not a "
                "rate in rad/s; convert deg/s by numpy.radians",
            )
    position = found.get("position")
    if position is not None:
        valid = found.get("position_valid", np.ones(len(position), dtype=bool))
        _finite(file, "position", np.where(valid[:, None], position, 0.0))


def _finite(file: Path, column: str, values: Array) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        k = int(bad[0][0])
        raise RunFileError(
            file,
            f"column {column!r}, row {k + 1}: expected a number, got {values[tuple(bad[0])]}; drop "
            "the row or fill it",
        )


def require_runs(runs: Sequence[Any], model: Model) -> tuple[MeasuredRun, ...]:
    """Return runs as a tuple, checked against a model.

    Raises:
        ShapeError: If there is none.
        UnknownNameError: If the model lacks a measured joint.
    """
    found = (runs,) if isinstance(runs, MeasuredRun) else tuple(runs)
    if not found:
        raise ShapeError("runs", "one measured run or more", "none", advice="use load_measured")
    for run in found:
        if not isinstance(run, MeasuredRun):
            raise ModelError(
                f"runs: expected runs of load_measured, got {type(run).__name__}; read the file "
                "first"
            )
        for joint in run.joints or {}:
            if joint not in model.joint_names:
                raise UnknownNameError(
                    "joint",
                    joint,
                    dict.fromkeys(model.joint_names),
                    where=f"run {run.name!r}",
                    advice="name the joint of each column by run.with_joints",
                )
            _check_range(run, model, joint)
    return found


def _check_range(run: MeasuredRun, model: Model, name: str) -> None:
    """Refuse angles that are farther than a turn beyond the limits of a joint: they are degrees."""
    joint = model.joints[model.joint_names.index(name)]
    limits = joint.limits
    if joint.kind != "revolute" or limits is None:
        return
    values = (run.joints or {})[name]
    low, high = np.min(limits.lower) - 2.0 * np.pi, np.max(limits.upper) + 2.0 * np.pi
    outside = (values < low) | (values > high)
    if outside.any():
        k = int(np.argmax(outside))
        raise DomainError(
            f"run {run.name!r}, joint {name!r}, row {k + 1}",
            f"an angle from {low:.3g} to {high:.3g} rad, its limits and a turn",
            f"{values[k]:g}; convert degrees by numpy.radians",
        )
