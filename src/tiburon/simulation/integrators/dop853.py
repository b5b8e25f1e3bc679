"""Dormand and Prince's method of order 8 with error estimates of orders 5 and 3.

Hairer, Norsett and Wanner 1993, "Solving Ordinary Differential Equations I", secs. II.5, II.6 and
II.10. Twelve evaluations a step; three more where a state inside the step is wanted.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from tiburon.simulation.integrators.dop853_numbers import (
    DENSE_NODES,
    DENSE_ROWS,
    DENSE_WEIGHTS,
    ERROR_3,
    ERROR_5,
    NODES,
    ROWS,
    WEIGHTS,
)
from tiburon.simulation.integrators.dopri5 import end_of_step, hermite
from tiburon.simulation.integrators.manifold import Chart, Scalars, combine
from tiburon.simulation.integrators.pair import (
    Attempt,
    Pair,
    Tableau,
    explicit_stages,
    explicit_step,
)
from tiburon.spatial import Scalar
from tiburon.spatial.rotations import select

__all__ = ["DOP853", "Dop853", "dop853_step"]

DOP853 = Tableau(c=NODES, a=ROWS, b=WEIGHTS)
"""The method of order 8."""

KEPT = (0, 5, 6, 7, 8, 9, 10, 11, 12)
"""Rates that interpolation needs: the others have no weight in it."""

dop853_step = partial(explicit_step, DOP853)
"""One step of order 8 without an error estimate."""


class Dop853(Pair):
    """The method of order 8 with estimates of orders 5 and 3."""

    name: ClassVar[str] = "dop853"
    order: ClassVar[int] = 8
    estimate_order: ClassVar[int] = 8
    most_growth: ClassVar[float] = 6.0
    most_shrinking: ClassVar[float] = 3.0
    piece_count: ClassVar[int] = 1 + len(KEPT)
    dense_count: ClassVar[int] = 7
    dense_is_free: ClassVar[bool] = False

    def attempt(self, chart: Chart, w: Scalars, rate: Scalars, h: Scalar, time: Scalar) -> Attempt:
        """Take one step: twelve evaluations, the last of which starts the next step."""
        y = chart.start(w)
        first = chart.rates_at_start(w, rate)
        rates = explicit_stages(chart, DOP853, y, first, h, time)
        zero = (0.0,) * len(y)
        change = combine(zero, h, DOP853.b, rates)
        q, w, rate, last = end_of_step(chart, y, change, time + h)
        rates.append(last)
        errors = tuple(combine(zero, h, weights, rates) for weights in (ERROR_5, ERROR_3))
        return Attempt(change, q, w, rate, errors, (change, *(rates[place] for place in KEPT)))

    def dense(
        self, chart: Chart, w: Scalars, pieces: Sequence[Scalars], h: Scalar, time: Scalar
    ) -> tuple[Scalars, ...]:
        """Return the vectors of the interpolation of order 7: three evaluations."""
        y = chart.start(w)
        zero = (0.0,) * len(y)
        change, known = pieces[0], dict(zip(KEPT, pieces[1:], strict=True))
        rates = [known.get(place, zero) for place in range(len(NODES) + 1)]
        for c, row in zip(DENSE_NODES, DENSE_ROWS, strict=True):
            rates.append(chart.rates(combine(y, h, row, rates), time + c * h))
        bends = (combine(zero, h, row, rates) for row in DENSE_WEIGHTS)
        return (*hermite(change, rates[0], known[KEPT[-1]], h), *bends)

    def error(self, squares: Sequence[Scalar], h: Scalar) -> Scalar:
        """Return the estimate of order 5, made smaller where that of order 3 says it may be.

        e5^2 / sqrt(e5^2 + e3^2 / 100): it falls with the eighth power of the step (sec. II.10).
        """
        fifth, third = squares
        both = fifth + 0.01 * third
        return fifth / np.sqrt(select(both > 0.0, both, 1.0))
