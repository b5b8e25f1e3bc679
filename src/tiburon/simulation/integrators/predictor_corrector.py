"""Block predictor-correctors of order 5: several new points from five old ones.

McMillan 1994, ch. 3, after Birta and Abou-Rabia 1987. A block has p new points, a step h apart. All
are predicted from the five newest old points, evaluated, corrected from the five newest of all
points with the predicted rates, and evaluated again. B1PC5 is the predictor-corrector of Adams,
Bashforth and Moulton (PECE); in larger blocks the evaluations of all points could run at once. The
source prints no coefficients; they integrate the polynomial through five rates exactly.

Rates at old points are brought to coordinates about the newest one. The first four points come from
Dormand and Prince's method of order 5.

Symbols (McMillan 1994, sec. 3.3):
    p       points in a block
    y_0     newest old point, where all integrals start
    f_j     rates at point j, old ones at j <= 0
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tiburon.simulation.integrators.dopri5 import DOPRI5
from tiburon.simulation.integrators.manifold import (
    Acceleration,
    Chart,
    Manifold,
    Scalars,
    Steps,
    combine,
)
from tiburon.simulation.integrators.method import explicit_stages, later
from tiburon.spatial import Scalar
from tiburon.spatial.rotations import select
from tiburon.trace.regions import while_loop

__all__ = ["BlockMemory", "PastPoint", "advance_block", "integration_weights", "start_block"]

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
    """Positions and w of these points, the next one first."""

    rate: Scalars
    """How fast w changes at the last point of the block."""

    past: tuple[PastPoint, ...]
    """The four points before that one, newest first."""


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

    def given_out(turn: _Turn) -> _Turn:
        q, w = turn.memory.pending[0]
        rest = (*turn.memory.pending[1:], turn.memory.pending[-1])
        return _Turn(0.0, q, w, turn.memory._replace(left=turn.memory.left - 1.0, pending=rest))

    empty, few = memory.left < 0.5, memory.known < ORDER - 1.5
    starting = select(empty, select(few, 1.0, 0.0), 0.0)
    making = select(empty, select(few, 0.0, 1.0), 0.0)
    turn = _Turn(starting, tuple(q), tuple(w), memory)
    turn = _branch(first_points, turn)
    turn = _branch(block, turn._replace(due=making))
    if points > 1:
        turn = _branch(given_out, turn._replace(due=select(empty, 0.0, 1.0)))
    return turn.q, turn.w, turn.memory


def _branch(body: Any, turn: _Turn) -> _Turn:
    """Run a body for the cases for which it is due."""
    found: _Turn = while_loop(lambda t: t.due > 0.5, body, turn, 1).state
    return found


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
    old_nodes = tuple(-place for place in range(ORDER))
    for place in new:
        predicted = _integral(y, h, place, old_nodes, rates)
        rates[place] = chart.rates(predicted, *later(time, float(place) * h))
    nodes = tuple(points - place for place in range(ORDER))
    found: list[tuple[Scalars, Scalars]] = []
    passed = {-place: point for place, point in enumerate(memory.past, start=1)}
    passed[0] = PastPoint(q, manifold.rate(q, w), memory.rate)
    for place in new:
        found.append(chart.state(_integral(y, h, place, nodes, rates)))
        rate = acceleration(*found[-1], *later(time, float(place) * h))
        passed[place] = PastPoint(found[-1][0], manifold.rate(*found[-1]), rate)
    past = tuple(passed[points - place] for place in range(1, ORDER))
    after = memory._replace(
        left=float(points - 1),
        pending=tuple(found[1:]),
        rate=passed[points].rate,
        past=past,
    )
    return *found[0], after


def _integral(
    y: Scalars, h: Scalar, upper: int, nodes: Sequence[int], rates: dict[int, Scalars]
) -> Scalars:
    """Return y + the integral of the polynomial through rates at some nodes."""
    weights = integration_weights(upper, tuple(nodes))
    return combine(y, h, weights, [rates[node] for node in nodes])
