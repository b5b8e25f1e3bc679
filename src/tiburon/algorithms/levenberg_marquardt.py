"""Levenberg-Marquardt iteration with bounds, as a traced loop.

Symbols:
    r, J    residual and its Jacobian
    lam     damping: mu times the squared error, so that steps become Newton's as errors vanish
    dv      step, in velocity variables

Each step solves (J^T J + lam) dv = -J^T r (Levenberg 1944, Marquardt 1963) in the smaller of its
two forms. Damping in proportion to |r|^2 keeps the convergence quadratic (Yamashita and Fukushima
2001), also where J has more columns than rows. Steps that do not decrease the error are rejected,
and the damping grows.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.rotations import select
from tiburon.trace.primitives.spd import solve_spd
from tiburon.trace.regions import while_loop

INITIAL_DAMPING = 0.1
"""mu at the first step."""

MIN_DAMPING = 0.01
"""Lower bound of mu; the damping still vanishes with the error."""

MAX_DAMPING = 1e12
"""mu at which the iteration ends, because steps are at the level of rounding."""

DAMPING_DECREASE, DAMPING_INCREASE = 0.5, 4.0
"""Factors of mu after an accepted and a rejected step."""

MIN_DECREASE = 1e-5
"""Relative decrease of the squared error below which a minimum is reached."""

MIN_REGULARIZATION = 1e-12
"""Damping relative to the trace of J J^T for singular matrices."""

NO_ERROR_YET = 1e300
"""Squared error before the first evaluation."""


class Evaluation(NamedTuple):
    """Residual and Jacobian at one configuration."""

    r: tuple[Scalar, ...]
    """The residual."""

    J: tuple[tuple[Scalar, ...], ...]
    """One row per residual, one column per free velocity variable."""

    square: Scalar
    """Squared error to be minimized; near the solution r . r."""


class Bounds(NamedTuple):
    """Limits of some position variables."""

    places: tuple[int, ...]
    """Indices in q."""

    columns: tuple[int | None, ...]
    """The column of J of each; None if it is not free."""

    lower: tuple[Scalar, ...]
    upper: tuple[Scalar, ...]

    turned: tuple[int, ...] = ()
    """Indices in q of quaternions with a limited rotation angle."""

    turn: tuple[Scalar, ...] = ()
    """Largest rotation angle of each [rad]."""

    def kept(self, q: Scalars) -> list[Scalar]:
        """Return a configuration clipped to the limits."""
        inside = list(q)
        for place, low, high in zip(self.places, self.lower, self.upper, strict=True):
            inside[place] = np.minimum(np.maximum(inside[place], low), high)
        for start, most in zip(self.turned, self.turn, strict=True):
            inside[start : start + 4] = _turned_back(inside[start : start + 4], most)
        return inside


def _turned_back(quaternion: Scalars, most: Scalar) -> list[Scalar]:
    """Limit the rotation angle of a quaternion [rad], about the same axis."""
    w, x, y, z = quaternion
    sine = np.sqrt(x * x + y * y + z * z)
    size = np.sqrt(w * w + x * x + y * y + z * z)
    beyond = np.abs(w) < np.cos(0.5 * most) * size
    # the axis is defined beyond a positive angle
    shrunk = np.sin(0.5 * most) * size / select(beyond, sine, 1.0)
    cosine = np.cos(0.5 * most) * size * select(w < 0.0, -1.0, 1.0)
    return [select(beyond, cosine, w), *(select(beyond, a * shrunk, a) for a in (x, y, z))]


class Descent(NamedTuple):
    """Result of the iteration."""

    q: list[Scalar]
    square: Scalar
    iterations: Scalar
    stalled: Scalar
    """1 if no further decrease is possible, 0 otherwise."""


def descend(
    evaluate: Callable[[Scalars], Evaluation],
    step: Callable[[Scalars, Scalars], Scalars],
    start: Scalars,
    bounds: Bounds,
    tolerance: Scalar,
    max_iterations: int,
    size: tuple[int, int],
) -> Descent:
    """Minimize the error until it is within the tolerance or stalls.

    Args:
        evaluate: Returns residual and Jacobian at a configuration.
        step: Returns the configuration after a step in the free velocity variables.
        start: Initial configuration, nq scalars.
        bounds: Limits of position variables.
        tolerance: Norm of r at which to stop.
        max_iterations: Largest number of evaluations.
        size: Rows and columns of J.
    """
    rows, columns = size
    enough = tolerance * tolerance

    def unfinished(state: dict[str, Any]) -> Any:
        return (state["square"] > enough) & (state["stalled"] < 0.5)

    def iterate(state: dict[str, Any]) -> dict[str, Any]:
        new = evaluate(state["trial"])
        square, mu = state["square"], state["mu"]
        better = new.square < square
        helped = select(better, 1.0, 0.0)
        gain = square - new.square

        def choose(a: Scalars, b: Scalars) -> list[Scalar]:
            return [select(better, x, y) for x, y in zip(a, b, strict=True)]

        # a nonzero minimum: the decrease fades, or the damping is at its limit
        arrived = select(gain <= MIN_DECREASE * square, helped, 0.0)
        exhausted = select(mu > MAX_DAMPING, 1.0 - helped, 0.0)
        mu = select(better, np.maximum(mu * DAMPING_DECREASE, MIN_DAMPING), mu * DAMPING_INCREASE)
        q = choose(state["trial"], state["q"])
        r = choose(new.r, state["r"])
        J = choose([x for row in new.J for x in row], state["J"])
        square = select(better, new.square, square)
        dv = _damped_step(r, _matrix(J, columns), mu * square, q, bounds)
        return {
            "trial": bounds.kept(step(q, dv)),
            "q": q,
            "r": r,
            "J": J,
            "square": square,
            "mu": mu,
            "stalled": np.maximum(arrived, exhausted),
        }

    first = bounds.kept(start)
    state = {
        "trial": first,
        "q": first,
        "r": [0.0] * rows,
        "J": [0.0] * (rows * columns),
        "square": NO_ERROR_YET,
        "mu": INITIAL_DAMPING / DAMPING_DECREASE,
        "stalled": 0.0,
    }
    last, iterations, _ = while_loop(unfinished, iterate, state, max_iterations)
    return Descent(last["q"], last["square"], iterations, last["stalled"])


def _matrix(flat: Scalars, columns: int) -> list[list[Scalar]]:
    """Return the rows of a matrix; none if it has no columns."""
    if columns == 0:
        return []
    return [list(flat[i : i + columns]) for i in range(0, len(flat), columns)]


def _damped_step(
    r: Scalars, J: list[list[Scalar]], lam: Scalar, q: Scalars, bounds: Bounds
) -> list[Scalar]:
    """Solve for the damped step, without variables at active limits."""
    if not J:
        return []
    columns = list(map(list, zip(*J, strict=True)))
    for place, column, low, high in zip(
        bounds.places, bounds.columns, bounds.lower, bounds.upper, strict=True
    ):
        if column is None:
            continue
        # a limit is active if the error decreases beyond it
        slope = _dot(columns[column], r)
        held_low = select(q[place] <= low, select(slope > 0.0, 1.0, 0.0), 0.0)
        held_high = select(q[place] >= high, select(slope < 0.0, 1.0, 0.0), 0.0)
        free = 1.0 - np.maximum(held_low, held_high)
        columns[column] = [x * free for x in columns[column]]
    free_rows = list(map(list, zip(*columns, strict=True)))
    if len(free_rows) <= len(columns):
        # dv = -J^T (J J^T + lam)^-1 r, the same step by the smaller matrix
        y = _solve(_gram(free_rows), lam, r)
        return [-_dot(column, y) for column in columns]
    slope_all = [_dot(column, r) for column in columns]
    return [-x for x in _solve(_gram(columns), lam, slope_all)]


def _gram(vectors: Sequence[Scalars]) -> list[list[Scalar]]:
    """Return the Gram matrix of vectors; symmetric entries are computed once."""
    found: list[list[Scalar]] = [[0.0] * len(vectors) for _ in vectors]
    for i, a in enumerate(vectors):
        for j, b in enumerate(vectors[: i + 1]):
            found[i][j] = found[j][i] = _dot(a, b)
    return found


def _solve(gram: list[list[Scalar]], lam: Scalar, right: Scalars) -> list[Scalar]:
    """Solve (gram + lam) x = right, with a lower bound of the damping."""
    trace: Scalar = 0.0
    for i in range(len(gram)):
        trace = trace + gram[i][i]
    damping = lam + MIN_REGULARIZATION * trace + 1.0 / NO_ERROR_YET
    for i in range(len(gram)):
        gram[i][i] = gram[i][i] + damping
    return list(solve_spd(gram, list(right)))


def _dot(a: Scalars, b: Scalars) -> Scalar:
    total: Scalar = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total
