"""Thruster allocation: thrusts and commands for a desired wrench.

Symbols:
    A       thruster configuration matrix: wrench of unit thrusts, one column per thruster
    b       desired wrench
    W       inverse costs of the thrusters, a diagonal matrix
    f       thrusts: least error, then least cost, within their limits

Where no limit is reached, f = W A' (A W A')^+ b. Otherwise a quadratic program finds the optimum
within the limits (Johansen and Fossen 2013, "Control allocation: a survey", sec. 3.2): either the
wrench with the least error, or the largest part of the wrench in its own direction.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.piecewise import entries, joined
from tiburon.argument_checks import choice, refuse_unusable, vector
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.control.run_time import MAX_FLOAT
from tiburon.errors import DomainError, ModelError, ShapeError, UnknownNameError
from tiburon.hydro.thrust import thrust_range, thruster_wrench
from tiburon.model import LinearThrust, Model, QuadraticThrust, TableThrust, Thruster
from tiburon.record import named_line, record
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.rotations import select
from tiburon.trace.primitives.quadratic import DualActiveSet
from tiburon.trace.program import current_graph
from tiburon.trace.regions import where_needed

RANK_TOLERANCE = 1e-10
"""Relative singular value of A below which a direction has no control authority."""

COST_WEIGHT = 1e-9
"""Weight of the cost relative to that of the error, where limits are reached; the relative error of
the wrench is about the same."""

SATURATION_TOLERANCE = 1e-9
"""Distance from a limit, relative to it, up to which a thruster is saturated."""

WRENCH_TOLERANCE = 1e-9
"""Relative error up to which thrusters give a wrench."""

MIN_AUTHORITY = 1e-6
"""Part of the largest wrench along an axis at or below which thrusters have no authority."""

SATURATION_TARGETS = ("wrench", "direction")
"""What saturated thrusters keep as well as they can: the wrench, or its direction."""


class AllocatedThrusts(NamedTuple):
    """Thrusts and commands for a desired wrench, and the remaining error."""

    thrust: Any
    """Of each thruster [N], shape (..., thrusters)."""

    command: Any
    """Command in the unit of the thrust curve, shape (..., thrusters)."""

    missing: Any
    """Desired wrench minus that of the thrusts [N m, N], shape (..., 6)."""

    saturated: Any
    """1 for each saturated thruster, else 0, shape (..., thrusters)."""

    def __repr__(self) -> str:
        return named_line(self)


@public
@record
class ThrusterAllocation:
    """Allocation of a wrench on a body to its thrusters.

    Example:
        ``ThrusterAllocation.of(rov).allocate([0, 0, 5.0, 40.0, 0, 0])``
    """

    body: str
    """Body on which the wrench acts."""

    thrusters: tuple[Thruster, ...]
    """In order."""

    matrix: tuple[tuple[float, ...], ...]
    """A: six rows, moments about the body origin first, body axes [m, 1]."""

    limits: tuple[tuple[float, float], ...]
    """Smallest and largest thrust of each [N]."""

    costs: tuple[float, ...]
    """Cost of the square of each thrust."""

    importance: tuple[float, ...] = (1.0,) * 6
    """Weight of each component of the wrench error."""

    keep: str = "wrench"
    """What thrusters keep where limits are reached: "wrench" for the least error, "direction" for
    the largest part of the wrench in its own direction."""

    @classmethod
    @public
    def of(
        cls,
        model: Model,
        body: str | None = None,
        *,
        thrusters: Sequence[str] | None = None,
        costs: ArrayLike = 1.0,
        importance: ArrayLike = 1.0,
        keep: str = "wrench",
    ) -> "ThrusterAllocation":
        """Return the allocation of a vehicle.

        Args:
            model: The robot.
            body: Body on which the wrench acts; the floating base by default.
            thrusters: Names of thrusters; all that are fixed to the body by default.
            costs: Cost of the square of each thrust, one value or one per thruster.
            importance: Weight of each component of the wrench error [moments, forces], one or six.
            keep: What thrusters keep where limits are reached: "wrench" for the least error,
                "direction" for the largest part of the wrench in its own direction.

        Raises:
            ModelError: If the body has no thrusters.
        """
        plan = model.plan
        if body is None:
            bases = [b.name for b in model.bodies if b.joint.kind == "free"]
            if len(bases) != 1:
                raise ModelError(
                    f"model {model.name!r}: expected one floating base, got {len(bases)}; name "
                    "the body"
                )
            body = bases[0]
        own = plan.frame(body)
        known = {t.name: t for t in model.thrusters}
        for name in thrusters or ():
            if name not in known:
                raise UnknownNameError("thruster", name, known, where=f"model {model.name!r}")
        chosen = [
            t
            for t in (known.values() if thrusters is None else (known[n] for n in thrusters))
            if plan.frame(t.body).body == own.body
        ]
        if not chosen or (thrusters is not None and len(chosen) != len(thrusters)):
            raise ModelError(
                f"model {model.name!r}: expected thrusters fixed to body {body!r}, got "
                f"{len(chosen)} there; name others, or another body"
            )
        columns = []
        for thruster in chosen:
            wrench = plan.frame(thruster.body).transform.force_to_parent(
                thruster_wrench(thruster, 1.0)
            )
            columns.append([float(x) for x in own.transform.force(wrench)])
        cost = vector("costs", costs, len(chosen), spread=True)
        weight = vector("importance", importance, 6, spread=True)
        for what, values in (("costs", cost), ("importance", weight)):
            if not (values > 0.0).all():
                raise DomainError(f"allocation: {what}", "values above 0", f"{values.tolist()}")
        return cls(
            body,
            tuple(chosen),
            tuple(zip(*columns, strict=True)),
            tuple(thrust_range(t) for t in chosen),
            tuple(cost.tolist()),
            tuple(weight.tolist()),
            keep,
        )

    def __post_init__(self) -> None:
        choice("keep", self.keep, SATURATION_TARGETS)

    def without(self, *names: str) -> "ThrusterAllocation":
        """Return the allocation after some thrusters have failed: they give no thrust.

        Args:
            names: Names of the thrusters.

        Raises:
            UnknownNameError: If there is no such thruster.
        """
        known = [thruster.name for thruster in self.thrusters]
        for name in names:
            if name not in known:
                raise UnknownNameError("thruster", name, known)
        limits = [
            (0.0, 0.0) if name in names else pair
            for name, pair in zip(known, self.limits, strict=True)
        ]
        return replace(self, limits=tuple(limits))

    def authority(self) -> Array:
        """Return the largest wrench along each axis, with all other components zero.

        What a vehicle can do, or can do no more after `without`: zero along an axis on which no
        thrusts within the limits act alone.

        Returns:
            Smallest and largest component [N m, N], shape (6, 2).
        """
        kept = replace(self, keep="direction", importance=(1.0,) * 6)
        A = np.array(self.matrix)
        low, high = np.array(self.limits).T
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            names = [
                t.name
                for t, *pair in zip(self.thrusters, low, high, strict=True)
                if not np.isfinite(pair).all()
            ]
            raise ModelError(
                f"thruster {names[0]!r}: authority needs finite thrust limits, got none; give "
                "command_limits or thrust_limits",
                name=names[0],
            )
        found = np.zeros((6, 2))
        for axis, row in enumerate(A):
            for side, sign in enumerate((-1.0, 1.0)):
                # no thrusts give more along the axis
                most = float(np.maximum(sign * row * low, sign * row * high).sum())
                if most <= 0.0:
                    continue
                wrench = np.zeros(6)
                wrench[axis] = sign * most
                done = wrench - kept.allocate(wrench).missing
                found[axis, side] = done[axis] if sign * done[axis] > MIN_AUTHORITY * most else 0.0
        return found

    def _weighted(self) -> tuple[Array, Array]:
        """Return A with weighted rows, and its weighted pseudo-inverse without failed thrusters."""
        A = np.array(self.importance)[:, None] * np.array(self.matrix)
        working = np.array([low < high for low, high in self.limits])
        root = working / np.sqrt(np.array(self.costs))
        return A, root[:, None] * np.linalg.pinv(A * root, rcond=RANK_TOLERANCE)

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: geometry, weights and limits."""
        A, inverse = self._weighted()
        largest = float(np.max(np.sum(A * A / np.array(self.costs), axis=1)))
        rows = [*A.tolist(), *inverse.tolist(), *self.matrix]
        limits = [min(max(x, -MAX_FLOAT), MAX_FLOAT) for pair in self.limits for x in pair]
        return (*(x for row in rows for x in row), *self.costs, *self.importance, largest, *limits)

    def structure(self) -> Hashable:
        """Return thrust curves and finite limits, which compiled code depends on."""
        curves = tuple((thruster.name, thruster.curve) for thruster in self.thrusters)
        limited = tuple(tuple(map(math.isfinite, pair)) for pair in self.limits)
        return (curves, limited, self.keep)

    def allocate(self, wrench: Any, parameters: Sequence[Any] | None = None) -> AllocatedThrusts:
        """Compute thrusts and commands for a wrench.

        Args:
            wrench: [n; f] at the body's origin, body axes [N m, N], shape (..., 6); or traced.
            parameters: Values in place of `parameters()`, floats or traced.
        """
        refuse_unusable("wrench", wrench)
        given = wrench if hasattr(wrench, "dtype") else np.asarray(wrench, dtype=np.float64)
        if np.shape(given)[-1:] != (6,):
            raise ShapeError("wrench", "(..., 6)", np.shape(given))
        to = self._geometry(self.parameters() if parameters is None else parameters)
        b = [w * x for w, x in zip(to.importance, entries(given), strict=True)]
        f = [_dot(row, b) for row in to.inverse]
        beyond: Any = 0.0
        for x, (low, high) in zip(f, to.limits, strict=True):
            beyond = np.maximum(beyond, select((x < low) | (x > high), 1.0, 0.0))
        if self.keep == "direction":
            # what thrusters cannot give at all would change the direction, too
            short = [x - _dot(row, f) for x, row in zip(b, to.A, strict=True)]
            lacking = _dot(short, short) > WRENCH_TOLERANCE * WRENCH_TOLERANCE * _dot(b, b)
            beyond = np.maximum(beyond, select(lacking, 1.0, 0.0))
        if any(math.isfinite(x) for pair in self.limits for x in pair):
            f = self._within_limits(to, b, f, beyond)
        saturated = [
            beyond * _at_limits(x, limits, own)
            for x, limits, own in zip(f, to.limits, self.limits, strict=True)
        ]
        done = [_dot(row, f) for row in to.matrix]
        missing = [x - y for x, y in zip(entries(given), done, strict=True)]
        commands = [command_of_thrust(t, x) for t, x in zip(self.thrusters, f, strict=True)]
        return AllocatedThrusts(
            *(joined(part, given) for part in (f, commands, missing, saturated))
        )

    def _geometry(self, parameters: Sequence[Any]) -> "_Geometry":
        """Return the parts of `parameters`."""
        count = len(self.thrusters)
        given = iter(parameters)

        def rows(number: int, width: int) -> list[list[Scalar]]:
            return [[next(given) for _ in range(width)] for _ in range(number)]

        A, inverse, matrix = rows(6, count), rows(count, 6), rows(6, count)
        (costs,), (importance,), ((largest,),) = rows(1, count), rows(1, 6), rows(1, 1)
        return _Geometry(A, inverse, matrix, costs, importance, largest, rows(count, 2))

    def _within_limits(
        self, to: "_Geometry", b: Sequence[Any], f: Sequence[Any], beyond: Any
    ) -> list[Any]:
        """Return the optimum within the limits where a thrust is beyond its own, else f."""
        n = len(f)
        bounds = [
            (k, sign, sign * to.limits[k][side])
            for k, own in enumerate(self.limits)
            for side, sign in ((0, 1.0), (1, -1.0))
            if math.isfinite(own[side])
        ]
        weight = COST_WEIGHT * to.largest
        if self.keep == "wrench":
            W = [
                [
                    _dot([row[i] for row in to.A], [row[j] for row in to.A])
                    + (weight * to.costs[i] / sum(to.costs) if i == j else 0.0)
                    for j in range(n)
                ]
                for i in range(n)
            ]
            c = [-_dot([row[i] for row in to.A], b) for i in range(n)]
            equations: list[Any] = []
            size = n
        else:
            # the last variable is the share of the wrench
            size = n + 1
            W = [[0.0] * size for _ in range(size)]
            for i, cost in enumerate(to.costs):
                W[i][i] = COST_WEIGHT * cost / sum(to.costs)
            W[n][n] = _dot(b, b) / to.largest
            c = [0.0] * n + [-W[n][n]]
            equations = [x for row, y in zip(to.A, b, strict=True) for x in (*row, -y)]
            bounds = [*bounds, (n, -1.0, -1.0), (n, 1.0, 0.0)]
        primitive = DualActiveSet(
            [size], 0 if self.keep == "wrench" else 6, [(k,) for k, *_ in bounds]
        )
        given = [
            *(x for row in W for x in row),
            *c,
            *equations,
            *([0.0] * primitive.equations),
            *(sign for _, sign, _ in bounds),
            *(limit for *_, limit in bounds),
        ]

        def inside(found: Sequence[Any]) -> list[Any]:
            """Return thrusts without the rounding that leaves them beyond their limits."""
            rows = zip(found[:n], to.limits, self.limits, strict=True)
            return [_between(x, limits, own) for x, limits, own in rows]

        if current_graph() is not None:
            return list(
                where_needed(beyond > 0.5, lambda: tuple(inside(primitive.apply(given))), tuple(f))
            )
        found = inside(primitive.evaluate(list(np.broadcast_arrays(*given))))
        return [select(beyond > 0.5, new, old) for new, old in zip(found, f, strict=True)]


class _Geometry(NamedTuple):
    """Geometry, weights and limits as floats or traced run-time parameters."""

    A: list[list[Scalar]]
    """Six rows, weighted by importance."""

    inverse: list[list[Scalar]]
    """Weighted pseudo-inverse of A, one row per thruster."""

    matrix: list[list[Scalar]]
    """A without weights."""

    costs: list[Scalar]
    importance: list[Scalar]
    largest: Scalar
    """Largest diagonal entry of A W A'."""

    limits: list[list[Scalar]]
    """Smallest and largest thrust [N]."""


def _between(x: Any, limits: Sequence[Any], own: Sequence[float]) -> Any:
    """Return a thrust between its finite limits."""
    least, largest = limits
    x = np.maximum(x, least) if math.isfinite(own[0]) else x
    return np.minimum(x, largest) if math.isfinite(own[1]) else x


def _at_limits(x: Any, limits: Sequence[Any], own: Sequence[float]) -> Any:
    """Return 1 where a thrust is at one of its finite limits, else 0."""
    found: Any = 0.0
    for limit, known in zip(limits, own, strict=True):
        if math.isfinite(known):
            near = np.abs(x - limit) <= SATURATION_TOLERANCE * (1.0 + np.abs(limit))
            found = np.maximum(found, select(near, 1.0, 0.0))
    # a failed thruster, whose limits are one, is not saturated
    return select(limits[0] < limits[1], found, 0.0)


def _dot(a: Scalars, b: Scalars) -> Scalar:
    total: Scalar = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def command_of_thrust(thruster: Thruster, thrust: Scalar) -> Scalar:
    """Invert the thrust curve: the command of a steady thrust; on floats, arrays, traced values.

    Args:
        thruster: The thruster; its curve must not decrease.
        thrust: Along its direction, within its limits [N].

    Raises:
        ModelError: If the curve decreases.
    """
    curve = thruster.curve
    if isinstance(curve, TableThrust):
        return _table_inverse(thruster, curve, thrust)
    below, above = curve.dead_band
    if isinstance(curve, LinearThrust):
        _check_rising(thruster, curve.gain)
        u = thrust / curve.gain
    else:
        assert isinstance(curve, QuadraticThrust)
        backward = curve.forward if curve.backward is None else curve.backward
        _check_rising(thruster, min(curve.forward, backward))
        factor: Scalar = curve.forward
        if backward != curve.forward:
            factor = select(thrust < 0.0, backward, curve.forward)
        size = np.abs(thrust) / factor
        # the derivative of the root is infinite at zero: select a constant there
        some = size > 0.0
        u = select(some, np.sqrt(select(some, size, 1.0)), 0.0) * np.sign(thrust)
    if above != 0.0 or below != 0.0:
        edge = select(thrust > 0.0, above, select(thrust < 0.0, below, 0.0))
        u = u + edge
    return u


def _check_rising(thruster: Thruster, slope: float) -> None:
    if not slope > 0.0:
        raise ModelError(
            f"thruster {thruster.name!r}: expected a thrust that grows with the command, got a "
            f"factor of {slope:g}; reverse its direction",
            name=thruster.name,
        )


def _table_inverse(thruster: Thruster, curve: TableThrust, thrust: Scalar) -> Scalar:
    forces, commands = curve.forces, curve.commands
    if any(b < a for a, b in pairwise(forces)):
        raise ModelError(
            f"thruster {thruster.name!r}: expected a table whose thrust grows with the command, "
            f"got {list(forces)}; reverse its direction, or sort the rows",
            name=thruster.name,
        )
    total: Scalar = commands[0]
    for k in range(len(commands) - 1):
        rise = forces[k + 1] - forces[k]
        step = commands[k + 1] - commands[k]
        if rise == 0.0:
            # dead band: a step of the command at zero thrust
            total = total + step * select(thrust > forces[k], 1.0, 0.0)
            continue
        done = np.minimum(np.maximum((thrust - forces[k]) / rise, 0.0), 1.0)
        total = total + step * done
    return total
