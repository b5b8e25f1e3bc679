"""An implicit method without iterations, for stiff drag and contact: Rosenbrock's, order 3.

RODAS3 of Sandu, Verwer, Blom, Spee, Carmichael and Potra 1997, "Benchmarking stiff ODE solvers for
atmospheric chemistry problems II: Rosenbrock solvers", sec. 3: four stages with one matrix, three
evaluations, an error estimate of order 2. It is L-stable and stiffly accurate: what decays within a
fraction of a step is gone after it, at any step. The form that needs no product with the Jacobian
is that of Hairer and Wanner 1996, "Solving Ordinary Differential Equations II", eq. IV.7.25.

Symbols (there):
    J       Jacobian of the rates in coordinates about the start of the step
    T       change of the rates with time
    gamma   1/2, the factor of the Jacobian
    u1..u4  stages: (1/(gamma h) - J) u_i = f(y + sum a_ij u_j) + sum c_ij u_j / h + gamma_i h T
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from tiburon.arguments import public
from tiburon.record import record
from tiburon.simulation.integrators.dopri5 import end_of_step, hermite
from tiburon.simulation.integrators.integrator import (
    DEFAULT_ATOL,
    DEFAULT_DT,
    DEFAULT_RTOL,
    AdaptiveIntegrator,
)
from tiburon.simulation.integrators.manifold import Acceleration, Chart, Manifold, combine
from tiburon.simulation.integrators.method import Attempt, Pair, later
from tiburon.simulation.integrators.rate_jacobian import RateChanges, rate_changes
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.shifted import ShiftedMatrix, ShiftedRight
from tiburon.trace.regions import function


@public
@record
class Rosenbrock(AdaptiveIntegrator):
    """A linearly implicit method of order 3 for stiff systems, with adaptive steps.

    Example:
        ``tb.simulate(arm, 0.1, method=tb.Rosenbrock(rtol=1e-6, atol=1e-8))``
    """

    name: ClassVar[str] = "rosenbrock"

    rtol: float | None = DEFAULT_RTOL
    """Relative tolerance of velocities and states; None for equal steps."""

    atol: float | None = DEFAULT_ATOL
    """Absolute tolerance in the units of the states; None for equal steps."""

    dt: float = DEFAULT_DT
    """Spacing of the times that can be recorded and controlled, or equal step [s]."""


GAMMA = 0.5
A: tuple[tuple[float, ...], ...] = ((), (), (2.0,), (2.0, 0.0, 1.0))
"""Stages that lead to the state at which each stage is evaluated."""

C: tuple[tuple[float, ...], ...] = ((), (4.0,), (1.0, -1.0), (1.0, -1.0, -8 / 3))
"""Stages that the right side of each stage holds."""

NODES = (0.0, 0.0, 1.0, 1.0)
"""When stages are evaluated, in steps; the second takes the rates of the first."""

SLOPES = (0.5, 1.5, 0.0, 0.0)
"""Parts of the change with time."""

ZERO_COLUMN_LENGTH = 1e-15
"""Length of a scaled column that counts as none: the matrix is regular at all but chance steps."""

RESULT = (2.0, 0.0, 1.0, 1.0)
ERROR = (0.0, 0.0, 0.0, 1.0)


def rosenbrock_step(
    manifold: Manifold, acceleration: Acceleration, q: Scalars, w: Scalars, h: Scalar, *time: Scalar
) -> tuple[Scalars, Scalars]:
    """Take one L-stable step of order 3; arguments and result are those of `explicit_step`."""
    chart = Chart(manifold, acceleration, q)
    y = chart.start(w)
    first = chart.rates_at_start(w, acceleration(q, w, *time))
    stages = _stages(chart, y, first, h, *time)
    return chart.state(combine(y, 1.0, RESULT, stages))


class RosenbrockPair(Pair):
    """The method of order 3 with an estimate of order 2, and a cubic interpolation."""

    name: ClassVar[str] = "rosenbrock"
    order: ClassVar[int] = 3
    estimate_order: ClassVar[int] = 3
    most_growth: ClassVar[float] = 6.0
    piece_count: ClassVar[int] = 3
    dense_count: ClassVar[int] = 3

    def attempt(self, chart: Chart, w: Scalars, rate: Scalars, h: Scalar, time: Scalar) -> Attempt:
        """Take one step: three evaluations, a Jacobian, a factorization, four solutions."""
        y, first = chart.start(w), chart.rates_at_start(w, rate)
        stages = _stages(chart, y, first, h, time)
        zero = (0.0,) * len(y)
        change = combine(zero, 1.0, RESULT, stages)
        error = combine(zero, 1.0, ERROR, stages)
        q, w, rate, last = end_of_step(chart, y, change, time + h)
        return Attempt(change, q, w, rate, (error,), hermite(change, first, last, h))

    def dense(
        self, chart: Chart, w: Scalars, pieces: Sequence[Scalars], h: Scalar, time: Scalar
    ) -> tuple[Scalars, ...]:
        """Return the vectors of the interpolation: the pieces themselves."""
        return tuple(pieces)


def _stages(chart: Chart, y: Scalars, first: Scalars, h: Scalar, *time: Scalar) -> list[Scalars]:
    """Return the four stages u."""
    changes = rate_changes(chart, y, *time, rates=first)
    solve = _solver(changes, chart.position_count, GAMMA * h)
    stages: list[Scalars] = []
    rates = first
    for row, past, node, slope in zip(A, C, NODES, SLOPES, strict=True):
        if row:
            rates = chart.rates(combine(y, 1.0, row, stages), *later(time, node * h))
        right = combine(rates, 1.0 / h, past, stages)
        if time:
            right = combine(right, slope * h, (1.0,), (changes.by_time,))
        stages.append(solve(right))
    return stages


def _solver(changes: RateChanges, positions: int, scale: Scalar) -> Callable[[Scalars], Scalars]:
    """Return a solver of (1/scale - J) u = right.

    Positions that change by velocities alone, as those of hinges, are eliminated: their rows give
    them from the others (`tiburon.trace.primitives.shifted`).
    """
    J = changes.by_state
    size = len(J)
    gone = [i for i in range(positions) if all(_is_zero(J[j][i]) for j in range(positions))]
    kept = [i for i in range(size) if i not in gone]
    links = [
        (a, b) for b, e in enumerate(gone) for a, j in enumerate(kept) if not _is_zero(J[j][e])
    ]
    n = len(kept)
    inner = [J[j][i] for j in kept for i in kept]
    outer = [J[e][i] for e in gone for i in kept]
    slopes = [J[kept[a]][gone[b]] for a, b in links]
    found = ShiftedMatrix(n, len(gone), links).apply([scale, *inner, *outer, *slopes])
    rows, columns = found[n * n : n * n + n], found[n * n + n :]
    factor = factor_orthogonal(as_traced(found[: n * n]).reshape(n, n), cut=ZERO_COLUMN_LENGTH)
    reduce = ShiftedRight(n, len(gone))

    # four stages share one function
    @function
    def solve(right: Scalars) -> Scalars:
        given = [*(right[i] for i in kept), *(right[e] for e in gone)]
        solved = factor.solve(as_traced(reduce.apply([scale, *rows, *outer, *given])))
        known = {i: c * x for i, c, x in zip(kept, columns, solved.tolist(), strict=True)}
        totals = [right[e] for e in gone]
        for (a, b), slope in zip(links, slopes, strict=True):
            totals[b] = totals[b] + slope * known[kept[a]]
        known.update({e: scale * total for e, total in zip(gone, totals, strict=True)})
        return tuple(known[i] for i in range(size))

    stages: Callable[[Scalars], Scalars] = solve
    return stages


def _is_zero(value: Scalar) -> bool:
    """Return whether a number is zero in every state: traced values are not."""
    return isinstance(value, float) and value == 0.0
