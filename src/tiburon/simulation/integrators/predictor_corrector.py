"""Block predictor-correctors of order 5: several new points from five old ones.

McMillan 1994, ch. 3, after Birta and Abou-Rabia 1987. A block has p new points, a step h apart. All
are predicted from the five newest old points, evaluated, corrected from the five newest of all
points with the predicted rates, and evaluated again. B1PC5 is the predictor-corrector of Adams,
Bashforth and Moulton (PECE). In larger blocks all points are evaluated at once, in the lanes of
vectors (`tiburon.trace.regions.lanes`). The source prints no coefficients; they integrate the
polynomial through five rates exactly.

Rates at old points are brought to coordinates about the newest one. The first four points come from
Dormand and Prince's method of order 5.

Symbols (McMillan 1994, sec. 3.3):
    p       points in a block
    y_0     newest old point, where all integrals start
    f_j     rates at point j, old ones at j <= 0
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tiburon.argument_checks import choice
from tiburon.arguments import public
from tiburon.record import record
from tiburon.simulation.integrators.dopri5 import DOPRI5
from tiburon.simulation.integrators.integrator import DEFAULT_DT, FixedIntegrator
from tiburon.simulation.integrators.manifold import Acceleration, Chart, Manifold, Steps, combine
from tiburon.simulation.integrators.method import explicit_stages, later
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.rotations import select
from tiburon.trace.regions import where_needed, while_loop
from tiburon.trace.regions.lanes import lanes


@public
@record
class PredictorCorrector(FixedIntegrator):
    """Block predictor-corrector of order 5 with equal steps: two evaluations a step.

    Example:
        ``tb.simulate(arm, 0.1, method=tb.PredictorCorrector(points=2, dt=1e-3))``
    """

    points: int = 1
    """Points of a block, 1, 2 or 4, whose evaluations are made at once in the lanes of vectors."""

    dt: float = DEFAULT_DT
    """Step [s]."""

    def __post_init__(self) -> None:
        choice("PredictorCorrector: points", self.points, (1, 2, 4))
        self._check_dt()

    @property
    def scheme(self) -> str:
        """Name of the method that loops run."""
        return f"b{self.points}pc5"


ORDER = 5
"""Points that a polynomial of rates goes through."""


class PastPoint(NamedTuple):
    """A point that was passed."""

    q: Scalars
    """Configuration [m or rad]."""

    steps: Steps
    """Its rate, as steps per second."""

    rate: Scalars
    """How fast w changed."""


class BlockMemory(NamedTuple):
    """What a block predictor-corrector carries from step to step."""

    known: Scalar
    """How many of the past points are there: 0 at the start, then up to 4."""

    left: Scalar
    """Points of the current block that are still to be given out."""

    pending: tuple[tuple[Scalars, Scalars], ...]
    """Positions and w of all points of the block but the first."""

    rate: Scalars
    """How fast w changes at the last point of the block."""

    past: tuple[PastPoint, ...]
    """The four points before that one, newest first."""


@cache
def integration_weights(upper: int, nodes: tuple[int, ...]) -> tuple[float, ...]:
    """Return the weights of rates at some nodes in the integral from 0 to `upper`, in steps.

    Exact integrals of Lagrange's polynomials; they reproduce those of Adams, Bashforth and Moulton.
    """
    weights = []
    for own in nodes:
        # coefficients of the polynomial that is 1 at its own node and 0 at the others
        polynomial = [Fraction(1)]
        for other in nodes:
            if other != own:
                scale = Fraction(1, own - other)
                shifted = [Fraction(0), *polynomial]
                kept = [*polynomial, Fraction(0)]
                polynomial = [scale * (a - other * b) for a, b in zip(shifted, kept, strict=True)]
        powers = enumerate(polynomial, start=1)
        weights.append(float(sum(c * Fraction(upper) ** n / n for n, c in powers)))
    return tuple(weights)


def start_block(
    points: int,
    manifold: Manifold,
    acceleration: Acceleration,
    q: Scalars,
    w: Scalars,
    h: Scalar,
    *time: Scalar,
) -> BlockMemory:
    """Return the memory before the first step of a method with so many new points in a block."""
    q, w = tuple(q), tuple(w)
    rate = acceleration(q, w, *time)
    here = PastPoint(q, manifold.rate(q, w), rate)
    pending = ((q, w),) * (points - 1)
    return BlockMemory(0.0, 0.0, pending, rate, (here,) * (ORDER - 1))


class _Turn(NamedTuple):
    """What one step changes: a loop of one turn at most is a branch that cases take or not."""

    due: Scalar
    q: Scalars
    w: Scalars
    memory: BlockMemory


def _branch(body: Any, turn: _Turn) -> _Turn:
    """Run a body for the cases for which it is due."""
    found: _Turn = while_loop(lambda t: t.due > 0.5, body, turn, 1).state
    return found


def advance_block(
    points: int,
    manifold: Manifold,
    acceleration: Acceleration,
    q: Scalars,
    w: Scalars,
    memory: BlockMemory,
    h: Scalar,
    *time: Scalar,
) -> tuple[Scalars, Scalars, BlockMemory]:
    """Take one step: return a point of the block, or compute a new block.

    Arguments and result are those of `Method.advance`; h is the same in all steps.
    """

    def first_points(turn: _Turn) -> _Turn:
        return _Turn(0.0, *_one_step(manifold, acceleration, *turn[1:], h, *time))

    def block(turn: _Turn) -> _Turn:
        return _Turn(0.0, *_new_block(points, manifold, acceleration, *turn[1:], h, *time))

    start = (tuple(q), tuple(w), memory)

    def new_points() -> tuple[Scalars, Scalars, BlockMemory]:
        few = memory.known < ORDER - 1.5
        turn = _Turn(select(few, 1.0, 0.0), *start)
        turn = _branch(first_points, turn)
        turn = _branch(block, turn._replace(due=select(few, 0.0, 1.0)))
        return turn.q, turn.w, turn.memory

    if points == 1:
        return new_points()
    empty = memory.left < 0.5
    q, w, after = where_needed(empty, new_points, start)
    for left, (q_given, w_given) in enumerate(reversed(memory.pending), start=1):
        due = np.abs(memory.left - left) < 0.5
        q, w = (
            tuple(select(due, a, b) for a, b in zip(given, found, strict=True))
            for given, found in ((q_given, q), (w_given, w))
        )
    return q, w, after._replace(left=select(empty, after.left, memory.left - 1.0))


def _one_step(
    manifold: Manifold,
    acceleration: Acceleration,
    q: Scalars,
    w: Scalars,
    memory: BlockMemory,
    h: Scalar,
    *time: Scalar,
) -> tuple[Scalars, Scalars, BlockMemory]:
    """Take a step of the one-step method and remember where it started."""
    chart = Chart(manifold, acceleration, q)
    y, first = chart.start(w), chart.rates_at_start(w, memory.rate)
    rates = explicit_stages(chart, DOPRI5, y, first, h, *time)
    left = PastPoint(q, manifold.rate(q, w), memory.rate)
    q, w = chart.state(combine(y, h, DOPRI5.b, rates))
    rate = acceleration(q, w, *later(time, h))
    past = (left, *memory.past[:-1])
    return q, w, memory._replace(known=memory.known + 1.0, rate=rate, past=past)


def _new_block(
    points: int,
    manifold: Manifold,
    acceleration: Acceleration,
    q: Scalars,
    w: Scalars,
    memory: BlockMemory,
    h: Scalar,
    *time: Scalar,
) -> tuple[Scalars, Scalars, BlockMemory]:
    """Predict, evaluate, correct and evaluate a block of points."""
    chart = Chart(manifold, acceleration, q)
    y = chart.start(w)
    # rates by place of the point: 0 is the newest old one
    rates = {0: chart.rates_at_start(w, memory.rate)}
    for place, point in enumerate(memory.past, start=1):
        theta = manifold.displacement(q, point.q)
        turned = manifold.coordinate_rate(theta, point.steps)
        rates[-place] = (*(x for step in turned for x in step), *point.rate)
    new = range(1, points + 1)
    times = [later(time, float(place) * h) for place in new]

    def predicted(weights: Scalars, *time: Scalar) -> Scalars:
        known = [rates[-place] for place in range(ORDER)]
        return chart.rates(combine(y, h, weights, known), *time)

    old_nodes = tuple(-place for place in range(ORDER))
    rates.update(zip(new, lanes(predicted, _sets(old_nodes, times)), strict=True))
    nodes = tuple(points - place for place in range(ORDER))

    def corrected(weights: Scalars, *time: Scalar) -> tuple[PastPoint, Scalars]:
        q, w = chart.state(combine(y, h, weights, [rates[node] for node in nodes]))
        return PastPoint(q, manifold.rate(q, w), acceleration(q, w, *time)), w

    found = lanes(corrected, _sets(nodes, times))
    passed = {-place: point for place, point in enumerate(memory.past, start=1)}
    passed[0] = PastPoint(q, manifold.rate(q, w), memory.rate)
    passed.update(zip(new, (point for point, _ in found), strict=True))
    past = tuple(passed[points - place] for place in range(1, ORDER))
    after = memory._replace(
        left=float(points - 1),
        pending=tuple((point.q, w) for point, w in found[1:]),
        rate=passed[points].rate,
        past=past,
    )
    first, w = found[0]
    return first.q, w, after


def _sets(nodes: tuple[int, ...], times: Sequence[Scalars]) -> list[tuple[Any, ...]]:
    """Return, for each new point, the weights of rates at some nodes, and the time."""
    return [(integration_weights(place, nodes), *time) for place, time in enumerate(times, start=1)]
