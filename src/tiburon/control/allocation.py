"""Thruster allocation: thrusts and commands for a desired wrench.

Symbols:
    A       thruster configuration matrix: wrench of unit thrusts, one column per thruster
    b       desired wrench
    W       inverse costs of the thrusters, a diagonal matrix
    f       thrusts W A' (A W A')^+ b: least error, then least cost

Thrusts saturate at their limits, and the remaining wrench is redistributed among the others: the
redistributed pseudo-inverse (Johansen and Fossen 2013, "Control allocation: a survey", sec. 3.1.2).
Without saturation this is the weighted least-squares solution.
"""

import math
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tiburon.argument_checks import refuse_unusable, vector
from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.control.piecewise import entries, joined
from tiburon.control.run_time import MAX_FLOAT
from tiburon.errors import DomainError, ModelError, ShapeError, UnknownNameError
from tiburon.hydro.thrust import thrust_range, thruster_wrench
from tiburon.model import LinearThrust, Model, QuadraticThrust, TableThrust, Thruster
from tiburon.record import named_line, record
from tiburon.spatial import Scalar
from tiburon.spatial.rotations import select

__all__ = ["AllocatedThrusts", "ThrusterAllocation", "command_of_thrust"]

Array = NDArray[np.float64]

RANK_TOLERANCE = 1e-10
"""Relative singular value of A below which a direction has no control authority."""

REGULARIZATION = 1e-9
"""Added to the diagonal of A W A' in redistribution, relative to its largest entry; the relative
error of the thrusts is about the same."""


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

    rounds: int = 2
    """Number of redistributions after saturation."""

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
        rounds: int = 2,
    ) -> "ThrusterAllocation":
        """Return the allocation of a vehicle.

        Args:
            model: The robot.
            body: Body on which the wrench acts; the floating base by default.
            thrusters: Names of thrusters; all that are fixed to the body by default.
            costs: Cost of the square of each thrust, one value or one per thruster.
            importance: Weight of each component of the wrench error [moments, forces], one or six.
            rounds: Number of redistributions after saturation.

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
            rounds,
        )

    def _weighted(self) -> tuple[Array, Array]:
        """Return A with weighted rows, and its weighted pseudo-inverse."""
        A = np.array(self.importance)[:, None] * np.array(self.matrix)
        root = 1.0 / np.sqrt(np.array(self.costs))
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
        return (curves, limited, self.rounds)

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
        f, saturated = self._limited(to, f, [0.0] * len(f))
        for _ in range(self.rounds):
            again = _redistributed(to, b, f, saturated)
            total = sum(saturated[1:], saturated[0])
            f = [select(total > 0.5, new, old) for new, old in zip(again, f, strict=True)]
            f, saturated = self._limited(to, f, saturated)
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

    def _limited(
        self, to: "_Geometry", f: Sequence[Scalar], saturated: Sequence[Scalar]
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Limit thrusts; return them, and 1 for each saturated thruster."""
        kept: list[Scalar] = []
        marks: list[Scalar] = []
        for x, mark, (low, high), own in zip(f, saturated, to.limits, self.limits, strict=True):
            inside = x
            if math.isfinite(own[0]):
                inside = np.maximum(inside, low)
            if math.isfinite(own[1]):
                inside = np.minimum(inside, high)
            kept.append(inside)
            marks.append(np.maximum(mark, select(inside != x, 1.0, 0.0)))
        return kept, marks


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


def _redistributed(
    to: _Geometry, b: Sequence[Scalar], f: Sequence[Scalar], saturated: Sequence[Scalar]
) -> list[Scalar]:
    """Redistribute the remaining wrench among thrusters that are not saturated."""
    rest = [
        x - _dot(row, [h * y for h, y in zip(saturated, f, strict=True)])
        for x, row in zip(b, to.A, strict=True)
    ]
    use = [(1.0 - h) / c for h, c in zip(saturated, to.costs, strict=True)]
    gram: list[list[Scalar]] = []
    for i, row in enumerate(to.A):
        line = [
            _dot([x * y for x, y in zip(row, other, strict=True)], use) for other in to.A[: i + 1]
        ]
        line[i] = line[i] + REGULARIZATION * to.largest
        gram.append(line)
    y = _solve_definite(gram, rest)
    free = [w * _dot([row[k] for row in to.A], y) for k, w in enumerate(use)]
    return [h * old + new for h, old, new in zip(saturated, f, free, strict=True)]


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    total: Scalar = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def _solve_definite(lower: list[list[Scalar]], b: Sequence[Scalar]) -> list[Scalar]:
    """Solve with a positive definite matrix by L D L'; its lower triangle is overwritten."""
    n = len(b)
    D: list[Scalar] = []
    L = lower
    x = list(b)
    for i in range(n):
        for j in range(i):
            total = L[i][j]
            for k in range(j):
                total = total - L[i][k] * L[j][k] * D[k]
            L[i][j] = total / D[j]
        total = L[i][i]
        for k in range(i):
            total = total - L[i][k] * L[i][k] * D[k]
        D.append(total)
        for k in range(i):
            x[i] = x[i] - L[i][k] * x[k]
    x = [value / d for value, d in zip(x, D, strict=True)]
    for i in reversed(range(n)):
        for k in range(i + 1, n):
            x[i] = x[i] - L[k][i] * x[k]
    return x


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
