"""Piecewise polynomials: paths as functions of time, on floats, arrays and traced values.

Symbols:
    m       half the number of coefficients of a piece: 2 for cubics, 3 for quintics
    h       duration of a piece [s]
    s       t / h, time within a piece from 0 to 1
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tiburon.argument_checks import choice, is_numeric, refuse_unusable, vector
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ShapeError, shown
from tiburon.record import record
from tiburon.spatial import Scalar
from tiburon.trace.array import TracedArray, as_traced
from tiburon.trace.primitives.table_rows import HANDLE, Table, TableForm, TableRows, table_form
from tiburon.trace.value import Value

MAX_TRACED_PIECES = 256
"""Largest number of pieces in a traced path: code for more would take long to compile."""

SPLINES = {"cubic": 2, "quintic": 3}
"""m of each kind of spline."""


class PathSample(NamedTuple):
    """Position, velocity and acceleration of a path at a time."""

    position: Any
    """[m or rad], shape (..., n)."""

    velocity: Any
    """[m/s or rad/s], shape (..., n)."""

    acceleration: Any
    """[m/s^2 or rad/s^2], shape (..., n)."""


class Prescribed(NamedTuple):
    """A joint with prescribed motion at a time."""

    q: int
    """Its first position variable."""

    v: int
    """Its first velocity variable."""

    sample: PathSample
    """Its position, velocity and acceleration."""

    @property
    def accelerations(self) -> list[tuple[int, Scalar]]:
        """Its velocity variables and their accelerations [m/s^2 or rad/s^2]."""
        return list(enumerate(self.sample.acceleration, start=self.v))


@record(slots=False)
class Piecewise:
    """A vector-valued piecewise polynomial of time, constant outside its interval."""

    knots: tuple[float, ...]
    """Start times of the pieces, and the end time [s], increasing."""

    coefficients: tuple[tuple[tuple[float, ...], ...], ...]
    """Per piece and power of the time since its start, one coefficient per entry."""

    is_declared: ClassVar[bool] = True
    """It holds numbers only, which need not be looked at one by one."""

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self.coefficients[0][0])

    @property
    def duration(self) -> float:
        """Time from the first knot to the last [s]."""
        return self.knots[-1] - self.knots[0]

    def at(self, time: Any) -> PathSample:
        """Evaluate position, velocity and acceleration at a time [s]; at rest outside the path.

        `time` is a float, an array of shape (...), or a traced value.
        """
        begin, end = self.knots[0], self.knots[-1]
        within = np.minimum(np.maximum(time, begin), end)
        traced = isinstance(time, (Value, TracedArray))
        rows, start = self._chosen(within) if traced else self._looked_up(within)
        return _sample(rows, time, within, start, (begin, end))

    def entry(self, place: int) -> "Piecewise":
        """Return one entry as a path of its own."""
        rows = (tuple((row[place],) for row in piece) for piece in self.coefficients)
        return Piecewise(self.knots, tuple(rows))

    def with_powers(self, count: int) -> "Piecewise":
        """Return the same path with a number of coefficients per piece, those added being zero."""
        missing = count - len(self.coefficients[0])
        if not missing:
            return self
        zeros = ((0.0,) * self.size,) * missing
        return Piecewise(self.knots, tuple((*piece, *zeros) for piece in self.coefficients))

    def table(self, *constants: float) -> Table:
        """Return the path as a table beside compiled code, one row per piece, with constants."""
        knots, coefficients = self._tables
        same = np.tile([knots[0], knots[-1], *constants], (len(coefficients), 1))
        return Table(knots[:-1], np.hstack([coefficients.reshape(len(coefficients), -1), same]))

    def form(self, constants: int = 0) -> TableForm:
        """Return the form of `table`, which compiled code depends on."""
        width = len(self.coefficients[0]) * self.size + 2 + constants
        return table_form(len(self.coefficients), width)

    def read(
        self, time: Any, handle: Sequence[Any], constants: int = 0
    ) -> tuple[PathSample, list[Any]]:
        """Evaluate a table of this form at a time [s]; return the sample and its constants.

        Args:
            time: A float or traced value [s].
            handle: Handle of the table.
            constants: Number of constants in the table.
        """
        return read_pieces(self.size, self.form(constants), time, handle, constants)

    def require_continuous(self, name: Callable[[int], str]) -> None:
        """Raise DomainError if position or velocity step; `name` names an entry in the message."""
        knots, table = self._tables
        if len(table) < 2:
            return
        h = np.diff(knots)[:-1, None]
        powers = np.arange(table.shape[1])
        for order, what in enumerate(("position", "velocity")):
            terms = [(k if order else 1) * table[:-1, k] * h ** (k - order) for k in powers[order:]]
            if not terms:
                return
            end, start = np.sum(terms, axis=0), table[1:, order]
            # relative to the largest term, since terms may cancel
            size = max(np.abs(terms).max(), np.abs(start).max())
            bad = np.argwhere(np.abs(start - end) > 1e-8 * size)
            if len(bad):
                piece, entry = bad[0]
                raise DomainError(
                    name(int(entry)),
                    f"a {what} without steps",
                    f"one at {knots[piece + 1]:g} s",
                    advice="start each piece at the end position and velocity of the previous one",
                )

    @cached_property
    def _tables(self) -> tuple[Array, Array]:
        """Knots and coefficients as arrays."""
        return np.array(self.knots), np.array(self.coefficients)

    def _looked_up(self, time: Any) -> tuple[list[Any], Any]:
        """Return the coefficients of the piece at each time, and its start time."""
        knots, table = self._tables
        last = len(self.coefficients) - 1
        place = np.clip(np.searchsorted(knots, time, side="right") - 1, 0, last)
        table = table[place]
        return [table[..., power, :] for power in range(table.shape[-2])], knots[place]

    def _chosen(self, time: Any) -> tuple[list[Any], Any]:
        """Return the same by selection, for traced times."""
        if len(self.coefficients) > MAX_TRACED_PIECES:
            raise DomainError(
                "path",
                f"at most {MAX_TRACED_PIECES} pieces in a traced function",
                f"{len(self.coefficients)}",
                advice="use fewer points, or a controller of this package, which has no limit",
            )
        rows: list[Any] = [as_traced(list(row)) for row in self.coefficients[0]]
        start: Any = self.knots[0]
        for knot, piece in zip(self.knots[1:-1], self.coefficients[1:], strict=True):
            later = time >= knot
            rows = [
                np.where(later, as_traced(list(b)), a) for a, b in zip(rows, piece, strict=True)
            ]
            start = np.where(later, knot, start)
        return rows, start


def _sample(
    rows: Sequence[Any], time: Any, within: Any, start: Any, ends: tuple[Any, Any]
) -> PathSample:
    """Evaluate the polynomial of a piece and its derivatives (Horner).

    Args:
        rows: Coefficients of each power of the time since the start of the piece.
        time: Time [s].
        within: Time limited to the interval of the path [s].
        start: Start time of the piece [s].
        ends: Start and end time of the path [s].
    """
    traced = any(isinstance(x, (Value, TracedArray)) for x in (time, rows[0]))
    s = within - start
    if not traced:
        s = np.asarray(s)[..., None]
    p = v = a = 0.0 * rows[0]

    for row in reversed(rows):
        a = 2.0 * v + s * a
        v = p + s * v
        p = row + s * p
    moving: Any = np.where((time >= ends[0]) & (time <= ends[1]), 1.0, 0.0)
    if not traced:
        moving = np.asarray(moving)[..., None]
    return PathSample(p, v * moving, a * moving)


def read_pieces(
    size: int, form: TableForm, time: Any, handle: Sequence[Any], constants: int = 0
) -> tuple[PathSample, list[Any]]:
    """Evaluate a table of pieces at a time [s]; return the sample and the table's constants.

    Args:
        size: Number of entries of the path.
        form: Form of the table.
        time: A float or traced value [s].
        handle: Handle of the table.
        constants: Number of constants in the table.
    """
    start, _, *row = TableRows(*form, following=False).apply([*handle[:HANDLE], time])
    count = form[0] - 2 - constants
    begin, end = row[count : count + 2]
    rows = [row_of(row[k : k + size]) for k in range(0, count, size)]
    within = np.minimum(np.maximum(time, begin), end)
    return _sample(rows, time, within, start, (begin, end)), row[count + 2 :]


def entries(x: Any) -> list[Any]:
    """Return the entries of the last dimension: scalars, or arrays with one value per case."""
    if isinstance(x, TracedArray):
        return list(x.reshape(-1).tolist())
    return [x[..., k] for k in range(np.shape(x)[-1])]


def joined(parts: Sequence[Any], like: Any) -> Any:
    """Return entries as one array, traced or with the cases of another array."""
    if isinstance(like, TracedArray):
        return as_traced(list(parts))
    shape = np.shape(like)[:-1]
    return np.stack([np.broadcast_to(x, shape) for x in parts], axis=-1)


def row_of(values: Any) -> Any:
    """Return a scalar unchanged, a sequence as an array, traced if one entry is."""
    if np.ndim(values) == 0:
        return values
    if any(isinstance(x, Value) for x in values):
        return as_traced(list(values))
    return np.array(values, dtype=np.float64)


def checked_points(
    times: ArrayLike, points: ArrayLike, argument: str = "points"
) -> tuple[Array, Array]:
    """Return times and points as arrays.

    Raises:
        ShapeError: If shapes do not match; the message uses the name `argument` for the points.
        DomainError: If times do not increase, or values are not finite.
    """
    refuse_unusable("times", times)
    refuse_unusable(argument, points)
    for what, given in (("times", times), (argument, points)):
        if not is_numeric(given):
            raise ShapeError(what, "numbers", shown(given))
    t = np.asarray(times, dtype=np.float64)
    p = np.asarray(points, dtype=np.float64)
    if p.ndim == 1:
        p = p[:, None]
    if t.ndim != 1 or p.ndim != 2 or len(t) != len(p) or len(t) < 2:
        raise ShapeError(
            argument, "two rows or more, one per time", f"shape {p.shape} at {t.shape} times"
        )
    if not (np.isfinite(t).all() and np.isfinite(p).all()):
        raise DomainError(argument, "finite values", "NaN or infinity")
    if not (np.diff(t) > 0.0).all():
        k = int(np.flatnonzero(np.diff(t) <= 0.0)[0])
        given = f"{t[k + 1]:g} s after {t[k]:g} s"
        raise DomainError("times", "rising ones [s]", given, advice="sort the points")
    return t, p


def _hermite(m: int) -> Array:
    """Compute the coefficients in s of the Hermite polynomials at s = 0 and 1.

    Columns belong to value and derivatives up to m - 1 at 0, then at 1.
    """
    rows = []
    for s in (0.0, 1.0):
        for d in range(m):
            row = [
                math.perm(power, d) * s ** (power - d) if power >= d else 0.0
                for power in range(2 * m)
            ]
            rows.append(row)
    return np.asarray(np.linalg.inv(np.array(rows)), dtype=np.float64)


def smooth_pieces(
    times: ArrayLike,
    points: ArrayLike,
    kind: str,
    *,
    stops: bool = False,
    start_velocity: ArrayLike | None = None,
    end_velocity: ArrayLike | None = None,
) -> Piecewise:
    """Compute the spline of degree 2 m - 1 through points at given times.

    Derivatives up to 2 m - 2 are continuous; at both ends those from the second to m - 1 are zero.

    Args:
        times: Time of each point [s], increasing, shape (k,).
        points: Shape (k, n).
        kind: One of `SPLINES`.
        stops: Whether to stop at every point: then only derivatives up to m - 1 are continuous.
        start_velocity: At the first point, shape (n,); at rest by default.
        end_velocity: At the last point, shape (n,).
    """
    choice("kind", kind, tuple(SPLINES))
    m = SPLINES[kind]
    t, p = checked_points(times, points)
    count, size = p.shape
    # value and derivatives at each point, in real time
    known = np.zeros((count, m, size))
    known[:, 0] = p
    for place, what, given in (
        (0, "start_velocity", start_velocity),
        (-1, "end_velocity", end_velocity),
    ):
        if given is not None:
            known[place, 1] = vector(what, given, size, spread=True)
    shape, h = _hermite(m), np.diff(t)
    powers = [np.diag([step**d for d in range(m)] * 2) for step in h]
    if not stops and count > 2:
        _continue(known, shape, powers, h, m)
    pieces = []
    for k, scaled in enumerate(powers):
        ends = np.concatenate([known[k], known[k + 1]])
        in_s = shape @ scaled @ ends
        rows = in_s / h[k] ** np.arange(2 * m)[:, None]
        pieces.append(tuple(tuple(row) for row in rows.tolist()))
    return Piecewise(tuple(t.tolist()), tuple(pieces))


def _continue(known: Array, shape: Array, powers: Sequence[Array], h: Array, m: int) -> None:
    """Solve for the derivatives at inner points that make those of higher order continuous."""
    count, _, size = known.shape
    unknown = (count - 2) * (m - 1)
    matrix, right = np.zeros((unknown, unknown)), np.zeros((unknown, size))

    def derivative(d: int, s: float) -> Array:
        return np.array([math.perm(n, d) * s ** (n - d) if n >= d else 0.0 for n in range(2 * m)])

    row = 0
    for point in range(1, count - 1):
        for d in range(m, 2 * m - 1):
            before = derivative(d, 1.0) @ shape @ powers[point - 1] / h[point - 1] ** d
            after = derivative(d, 0.0) @ shape @ powers[point] / h[point] ** d
            for place, weights in ((point - 1, before), (point, -after)):
                for end in range(2):
                    for order in range(m):
                        weight = weights[end * m + order]
                        at = place + end
                        if order == 0 or at in (0, count - 1):
                            right[row] -= weight * known[at, order]
                        else:
                            matrix[row, (at - 1) * (m - 1) + order - 1] += weight
            row += 1
    found = np.linalg.solve(matrix, right)
    known[1:-1, 1:] = found.reshape(count - 2, m - 1, size)


def speed_profile(
    points: ArrayLike, speed: ArrayLike, acceleration: ArrayLike, start: float = 0.0
) -> Piecewise:
    """Compute the fastest path from point to point within limits, stopping at each.

    All entries start and stop together with trapezoidal speed profiles, or triangular ones where
    the speed limit is not reached.

    Args:
        points: Shape (k, n); repeated points are skipped.
        speed: Largest speed, one value or one per entry.
        acceleration: Largest acceleration, one value or one per entry.
        start: Start time [s].
    """
    for what, given in (("points", points), ("speed", speed), ("acceleration", acceleration)):
        refuse_unusable(what, given)
    p = np.asarray(points, dtype=np.float64)
    p = p[:, None] if p.ndim == 1 else p
    if p.ndim != 2 or len(p) < 2 or not np.isfinite(p).all():
        raise ShapeError("points", "two rows or more of finite values", f"shape {p.shape}")
    size = p.shape[1]
    most_speed, most_rate = (
        vector(what, x, size, spread=True)
        for what, x in (("speed", speed), ("acceleration", acceleration))
    )
    for what, limit in (("speed", most_speed), ("acceleration", most_rate)):
        if not (limit > 0.0).all():
            raise DomainError(f"path: {what}", "limits above 0", f"{limit.tolist()}")
    knots, pieces = [float(start)], []
    for a, b in pairwise(p):
        way = b - a
        if not way.any():
            continue
        moving = np.abs(way) > 0.0
        # limits in terms of the fraction of the distance
        v = float((most_speed[moving] / np.abs(way[moving])).min())
        r = float((most_rate[moving] / np.abs(way[moving])).min())
        v = min(v, math.sqrt(r))
        rise = v / r
        cruise = 1.0 / v - rise
        share = 0.5 * v * rise
        parts = [(rise, 0.0, 0.0, 0.5 * r)]
        if cruise > 0.0:
            parts.append((cruise, share, v, 0.0))
        parts.append((rise, 1.0 - share, v, -0.5 * r))
        for length, *powers in parts:
            rows = [powers[0] * way + a, powers[1] * way, powers[2] * way]
            pieces.append(tuple(tuple(row.tolist()) for row in rows))
            knots.append(knots[-1] + length)
    if not pieces:
        raise DomainError("points", "at least two that differ", f"{p.tolist()}")
    return Piecewise(tuple(knots), tuple(pieces))
