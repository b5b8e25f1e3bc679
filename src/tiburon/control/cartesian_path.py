"""Cartesian paths: a spline for the origin of a frame, slerp for its orientation.

Symbols:
    phi     rotation from one orientation to the next, rotation vector in axes of the first [rad]
    s       completed fraction of the rotation, from 0 to 1 (slerp: Shoemake 1985)
"""

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.piecewise import (
    PathSample,
    Piecewise,
    entries,
    joined,
    smooth_pieces,
    speed_profile,
)
from tiburon.argument_checks import positive, refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ShapeError
from tiburon.record import record
from tiburon.spatial import (
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_multiply,
    quaternion_rotate,
    quaternion_to_matrix,
)
from tiburon.spatial.vec3 import cross
from tiburon.trace.array import TracedArray, as_traced
from tiburon.trace.primitives.table_rows import HANDLE, Table
from tiburon.trace.value import Value


class PoseSample(NamedTuple):
    """Reference pose, velocity and acceleration of a frame at a time; world axes."""

    position: Any
    """Origin [m], shape (..., 3)."""

    quaternion: Any
    """(w, x, y, z), shape (..., 4)."""

    velocity: Any
    """Of the origin [m/s], shape (..., 3)."""

    angular_velocity: Any
    """[rad/s], shape (..., 3)."""

    acceleration: Any
    """Of the origin [m/s^2], shape (..., 3)."""

    angular_acceleration: Any
    """[rad/s^2], shape (..., 3)."""

    @property
    def rotation(self) -> Any:
        """Rotation matrix from frame axes to world axes, shape (..., 3, 3)."""
        rows = quaternion_to_matrix(entries(self.quaternion))
        if isinstance(self.quaternion, TracedArray):
            return as_traced([list(row) for row in rows])
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    @property
    def pose(self) -> Any:
        """Quaternion, then position [m], as `loop_motion` and free joints take it, (..., 7)."""
        return joined([*entries(self.quaternion), *entries(self.position)], self.quaternion)

    @property
    def twist(self) -> Any:
        """Angular and linear velocity in axes of the frame [rad/s, m/s], shape (..., 6)."""
        return joined([*self._own(self.angular_velocity), *self._own(self.velocity)], self.velocity)

    @property
    def twist_rate(self) -> Any:
        """Rates of the components of `twist` [rad/s^2, m/s^2], shape (..., 6)."""
        w, v = self._own(self.angular_velocity), self._own(self.velocity)
        turned = cross((w[0], w[1], w[2]), (v[0], v[1], v[2]))
        rates = [a - x for a, x in zip(self._own(self.acceleration), turned, strict=True)]
        return joined([*self._own(self.angular_acceleration), *rates], self.velocity)

    def _own(self, vector: Any) -> list[Any]:
        """Return a vector of world axes in axes of the frame, by component."""
        x, y, z = entries(vector)
        back = quaternion_conjugate(tuple(entries(self.quaternion)))
        return list(quaternion_rotate(back, (x, y, z)))


@public
@record
class CartesianPath:
    """A path of a frame through poses.

    Example:
        ``CartesianPath.through([0, 4], [(0.4, 0, 0.3), (0.5, 0.2, 0.1)])``
    """

    positions: Piecewise
    """Origin, world axes [m]."""

    shares: Piecewise | None = None
    """Completed fraction of each rotation; None for a constant orientation."""

    first: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)
    """Initial orientation, a unit quaternion."""

    turns: tuple[tuple[float, ...], ...] = ()
    """phi of each rotation, in order."""

    def __post_init__(self) -> None:
        self.positions.require_continuous("path of a frame: position {}".format)
        if self.shares is not None:
            self.shares.require_continuous("path of a frame: rotation {}".format)

    @classmethod
    @public
    def through(
        cls,
        times: ArrayLike,
        positions: ArrayLike,
        orientations: ArrayLike | None = None,
        *,
        kind: str = "quintic",
        stops: bool = False,
    ) -> "CartesianPath":
        """Return the path through poses at given times, at rest at both ends.

        The origin follows a spline. Each rotation takes the short way about a fixed axis, and its
        angular velocity is zero at every pose, where the axis may change.

        Args:
            times: Time of each pose [s], increasing, shape (k,).
            positions: World axes [m], shape (k, 3).
            orientations: Quaternions (w, x, y, z), shape (k, 4) or (4,) for a constant one;
                world axes by default.
            kind: "cubic" or "quintic", as in `JointPath.through`.
            stops: Whether the origin stops at every point.
        """
        points = _three(positions)
        way = smooth_pieces(times, points, kind, stops=stops)
        first, turns = _turns(orientations, len(points))
        shares = None
        if turns:
            # fraction k grows from 0 to 1 in interval k
            done = np.tril(np.ones((len(points), len(points) - 1)), -1)
            shares = smooth_pieces(times, done, kind, stops=True)
        return cls(way, shares, first, turns)

    @classmethod
    @public
    def trapezoidal(
        cls,
        positions: ArrayLike,
        orientations: ArrayLike | None = None,
        *,
        speed: float,
        acceleration: float,
        angular_speed: float = 1.0,
        angular_acceleration: float = 1.0,
        start: float = 0.0,
    ) -> "CartesianPath":
        """Return the fastest path along straight lines within limits, at rest at every pose.

        Args:
            positions: World axes [m], shape (k, 3).
            orientations: Quaternions (w, x, y, z), shape (k, 4) or (4,); world axes by default.
            speed: Largest speed along the line [m/s].
            acceleration: Largest acceleration along the line [m/s^2].
            angular_speed: Largest angular speed [rad/s].
            angular_acceleration: Largest angular acceleration [rad/s^2].
            start: Start time [s].
        """
        points = _three(positions)
        first, turns = _turns(orientations, len(points))
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
        angles = np.linalg.norm(np.array(turns or np.zeros((len(points) - 1, 3))), axis=1)
        # distance and angle covered, which start and stop together
        done = np.zeros((len(points), 2))
        done[1:, 0], done[1:, 1] = np.cumsum(lengths), np.cumsum(angles)
        profile = speed_profile(
            done,
            (positive("speed", speed), positive("angular_speed", angular_speed)),
            (
                positive("acceleration", acceleration),
                positive("angular_acceleration", angular_acceleration),
            ),
            start,
        )
        return cls(*_spread(profile, points, lengths, angles, bool(turns)), first, turns)

    @property
    def knots(self) -> tuple[float, ...]:
        """Start times of the pieces, and the end time [s]."""
        return self.positions.knots

    @property
    def duration(self) -> float:
        """Duration [s]."""
        return self.positions.duration

    def at(self, time: Any, handles: Sequence[Any] | None = None) -> PoseSample:
        """Return pose, velocity and acceleration at a time [s].

        Args:
            time: A float, array or traced value.
            handles: Handles of the tables of another path of equal structure, to read instead.
        """
        (p, v, a), shares, quaternion, turns = self._samples(time, handles)
        traced = any(isinstance(x, (Value, TracedArray)) for x in (time, p))
        w: list[Any] = [0.0, 0.0, 0.0]
        wd: list[Any] = [0.0, 0.0, 0.0]
        if shares is not None:
            share, rate, growth = (entries(x) for x in shares)
            for k, phi in enumerate(turns):
                # one rotation at a time is active; its axis is given in the orientation before it
                axis = quaternion_rotate(quaternion, phi)
                w = [x + c * rate[k] for x, c in zip(w, axis, strict=True)]
                wd = [x + c * growth[k] for x, c in zip(wd, axis, strict=True)]
                turn = quaternion_exp(tuple(c * share[k] for c in phi))
                quaternion = quaternion_multiply(quaternion, turn)
        shape = () if traced else np.shape(time)
        together = (_together(x, shape, traced) for x in (quaternion, w, wd))
        quaternions, angular, growing = together
        return PoseSample(p, quaternions, v, angular, a, growing)

    def _samples(
        self, time: Any, handles: Sequence[Any] | None
    ) -> tuple[PathSample, PathSample | None, Sequence[Any], Sequence[Sequence[Any]]]:
        """Return positions, completed fractions, initial orientation and rotations."""
        if handles is None:
            shares = None if self.shares is None else self.shares.at(time)
            return self.positions.at(time), shares, self.first, self.turns
        if self.shares is None:
            position, first = self.positions.read(time, handles, len(self.first))
            return position, None, first, ()
        position, _ = self.positions.read(time, handles)
        count = len(self.first) + 3 * len(self.turns)
        shares, constants = self.shares.read(time, handles[HANDLE:], count)
        first, flat = constants[:4], constants[4:]
        return position, shares, first, [flat[k : k + 3] for k in range(0, len(flat), 3)]

    def tables(self) -> tuple[Table, ...]:
        """Return the path as tables beside compiled code: positions, then orientations."""
        if self.shares is None:
            return (self.positions.table(*self.first),)
        turns = [x for phi in self.turns for x in phi]
        return self.positions.table(), self.shares.table(*self.first, *turns)

    def structure(self) -> Hashable:
        """Return number of rotations and forms of the tables, which compiled code depends on."""
        shares = None if self.shares is None else self.shares.form()
        return (len(self.turns), self.positions.form(), shares)


def _three(positions: ArrayLike) -> Array:
    refuse_unusable("positions", positions)
    points = np.asarray(positions, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 2:
        raise ShapeError("positions", "(k, 3) with two points or more", f"shape {points.shape}")
    return points


def _turns(
    orientations: ArrayLike | None, count: int
) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """Return the initial orientation, and phi between neighbors; none if all are equal."""
    if orientations is None:
        return (1.0, 0.0, 0.0, 0.0), ()
    refuse_unusable("orientations", orientations)
    given = np.asarray(orientations, dtype=np.float64)
    if given.shape == (4,):
        given = np.tile(given, (count, 1))
    if given.shape != (count, 4):
        raise ShapeError("orientations", f"({count}, 4) quaternions, or (4,)", given.shape)
    length = np.linalg.norm(given, axis=1)
    if not (np.abs(length - 1.0) < 1e-6).all():
        raise DomainError(
            "orientations", "quaternions (w, x, y, z) of length 1", f"length {length.min():g}"
        )
    units = (given / length[:, None]).tolist()
    turns = []
    for a, b in pairwise(units):
        turn = quaternion_log(quaternion_multiply(quaternion_conjugate(a), b))
        turns.append(tuple(float(x) for x in turn))
    if not np.any(turns):
        return tuple(units[0]), ()
    return tuple(units[0]), tuple(turns)


def _spread(
    profile: Piecewise, points: Array, lengths: Array, angles: Array, turning: bool
) -> tuple[Piecewise, Piecewise | None]:
    """Convert a profile of distance and angle to positions and completed fractions."""
    ends = np.cumsum(lengths), np.cumsum(angles)
    positions, shares = [], []
    for piece in profile.coefficients:
        table = np.array(piece)
        # a value just after the start of a piece determines its interval
        middle = table[0] + 1e-9 * (table[1] + table[2])
        place = int(np.argmax((middle[0] < ends[0]) | (middle[1] < ends[1])))
        way, angle = lengths[place], angles[place]
        before = ends[0][place] - way, ends[1][place] - angle
        along = table[:, 0].copy()
        along[0] -= before[0]
        unit = (points[place + 1] - points[place]) / way if way > 0.0 else np.zeros(3)
        rows = np.outer(along, unit)
        rows[0] += points[place]
        positions.append(tuple(tuple(row) for row in rows.tolist()))
        share = np.zeros((len(table), len(lengths)))
        share[0, :place] = 1.0
        if angle > 0.0:
            turned = table[:, 1].copy()
            turned[0] -= before[1]
            share[:, place] = turned / angle
        shares.append(tuple(tuple(row) for row in share.tolist()))
    whole = Piecewise(profile.knots, tuple(shares)) if turning else None
    return Piecewise(profile.knots, tuple(positions)), whole


def _together(parts: Sequence[Any], shape: tuple[int, ...], traced: bool) -> Any:
    if traced:
        return as_traced(list(parts))
    return np.stack([np.broadcast_to(x, shape) for x in parts], axis=-1)
