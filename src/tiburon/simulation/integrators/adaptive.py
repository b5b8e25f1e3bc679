"""Adaptive steps to a tolerance, each case of a batch with its own.

The loop is one native loop: cases whose step was refused or that are there already wait for the
others without being changed. Step choice by error and error before (Gustafsson 1991; Hairer,
Norsett and Wanner 1993, "Solving Ordinary Differential Equations I", sec. II.4; Hairer and Wanner
1996, part II, sec. IV.2).

Symbols:
    h       step [s]
    error   size of the estimated error in units of what is tolerated; a step is good up to 1
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tiburon.simulation.integrators.manifold import Acceleration, Chart, Manifold, Steps, combine
from tiburon.simulation.integrators.method import Attempt, Pair, interpolate
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.rotations import select
from tiburon.trace.regions import while_loop

STEP_TOO_SMALL = 1.0
"""Status of a case that met its tolerance with no step, however small; 0.0 if all is well."""

SAFETY = 0.9
"""Part of the step that the estimate would allow."""

SMALLEST_ERROR = 1e-6
"""Smallest error that counts in the choice of a step: errors below are rounding."""

LARGEST_ERROR = 1e9
"""Errors above, and those of steps with non-finite results, count as this."""

LARGEST_TURN = 3.0
"""Turns in one step count as an error that reaches 1 here [rad]: coordinates end at 2 pi."""

TURN_POWER = 4
"""How that error grows with the square of the angle."""

SHORTEST_STEP = 1e-14
"""Steps below fail [s], as do steps that barely change the time."""

FIRST_STEPS = 100.0
"""How many of the shortest steps the first one is long at least: it may have to be shortened."""

MOST_ATTEMPTS = 2**53
"""Attempts are counted in floats, exactly up to here."""


Settle = Callable[[Scalars, Scalars, Scalar], tuple[Scalars, Scalars, Any]]
"""Takes q, w and time; gives q and w on what constrains them, and whether that was possible."""


class Tolerances(NamedTuple):
    """Tolerated error of a step; one value each, floats or traced.

    A step may change w by an error of atol + rtol |w|, positions by one of atol + rtol: accuracy
    does not depend on the distance from the world origin.
    """

    rtol: Scalar
    """Relative to velocities and further states, to 1 m and 1 rad in positions."""

    atol: Scalar
    """In the units of the states."""


class AdaptiveState(NamedTuple):
    """Where a case is, and all that it continues from."""

    time: Scalar
    """End of the last step [s]."""

    q: Scalars
    """Position there [m or rad]."""

    w: Scalars
    """Velocities and further states there."""

    rate: Scalars
    """How fast w changes there."""

    h: Scalar
    """Length of the next step to try [s]."""

    error: Scalar
    """Error of the last step."""

    begin: Scalar
    """Start of the last step [s]."""

    length: Scalar
    """Length of the last step [s]; zero before the first."""

    q_begin: Scalars
    """Position at its start."""

    w_begin: Scalars
    """Velocities and further states at its start."""

    dense: tuple[Scalars, ...]
    """Vectors of its interpolation."""

    steps: Scalar
    """Steps taken."""

    refused: Scalar
    """Attempts refused."""

    status: Scalar
    """0.0, or `STEP_TOO_SMALL`."""


class _Going(NamedTuple):
    """What the loop holds: interpolation is made when it ends."""

    state: AdaptiveState
    pieces: tuple[Scalars, ...]
    fresh: Scalar
    """1.0 once a step was taken."""


def start_adaptive(
    pair: Pair,
    manifold: Manifold,
    acceleration: Acceleration,
    q: Scalars,
    w: Scalars,
    time: Scalar,
    tolerances: Tolerances,
    first: Scalar = 0.0,
) -> AdaptiveState:
    """Return the state before the first step; `first` is its length [s], zero to choose one."""
    q, w = tuple(q), tuple(w)
    rate = acceleration(q, w, time)
    chart = Chart(manifold, acceleration, q)
    chosen = _first_step(pair, chart, w, rate, time, tolerances)
    h = select(first > 0.0, first, chosen)
    zeros = (0.0,) * len(chart.start(w))
    dense = (zeros,) * pair.dense_count
    counts = (0.0, 0.0, 0.0)
    return AdaptiveState(time, q, w, rate, h, SMALLEST_ERROR, time, 0.0, q, w, dense, *counts)


def restart_adaptive(
    acceleration: Acceleration, state: AdaptiveState, q: Scalars, w: Scalars, time: Scalar
) -> AdaptiveState:
    """Continue from a new state, or under new forces; the step length stays."""
    q, w = tuple(q), tuple(w)
    return state._replace(
        time=time,
        q=q,
        w=w,
        rate=acceleration(q, w, time),
        begin=time,
        length=0.0,
        q_begin=q,
        w_begin=w,
    )


def advance_adaptive(
    pair: Pair,
    manifold: Manifold,
    acceleration: Acceleration,
    state: AdaptiveState,
    target: Scalar,
    stop: Scalar,
    limit: Scalar,
    tolerances: Tolerances,
    settle: Settle | None = None,
) -> AdaptiveState:
    """Take steps until one reaches a time.

    Args:
        pair: The method.
        manifold: Positions of the robot.
        acceleration: Returns the rate of w for q, w and time.
        state: Present state.
        target: Time to reach [s]; the last step may end later.
        stop: Time that no step goes beyond [s].
        limit: Most attempts since the start of the run, rejected ones included.
        tolerances: Tolerated error of a step.
        settle: Projects the end of a step onto the loop constraints; None for trees.

    Returns:
        The state at the end of the last step, with its interpolation. Its time is before `target`
        if attempts ran out or its status is a failure.
    """

    def advance(
        state: AdaptiveState, target: Scalar, stop: Scalar, limit: Scalar, tolerances: Tolerances
    ) -> AdaptiveState:
        def goes_on(going: _Going) -> Any:
            at = going.state
            in_time = (at.time < target) & (at.time < stop)
            return in_time & (at.steps + at.refused < limit) & (at.status == 0.0)

        def attempt(going: _Going) -> _Going:
            at = going.state
            left = stop - at.time
            # no short rest is left before the stop
            cut = at.h * 1.01 >= left
            h = select(cut, left, at.h)
            chart = Chart(manifold, acceleration, at.q)
            found = pair.attempt(chart, at.w, at.rate, h, at.time)
            error = scaled_error(pair, chart, at.w, found, h, tolerances)
            if settle is not None:
                end = at.time + h
                q, w, well = settle(found.q, found.w, end)
                # the rate that the next step starts with is that of the state it starts from
                found = found._replace(q=q, w=w, rate=acceleration(q, w, end))
                error = select(well, error, LARGEST_ERROR)
            return _judged(pair, going, found, error, h, cut, stop)

        zeros = (0.0,) * (sum(manifold.step_counts) + len(state.w))
        going = _Going(state, (zeros,) * pair.piece_count, 0.0)
        last: _Going = while_loop(goes_on, attempt, going, MOST_ATTEMPTS).state
        return last.state._replace(dense=_dense(pair, manifold, acceleration, last))

    # one function, however many times a run is advanced to
    run = manifold.function(("advance", pair, acceleration, settle), advance)
    found: AdaptiveState = run(state, target, stop, limit, tolerances)
    return found


def state_at(manifold: Manifold, state: AdaptiveState, time: Scalar) -> tuple[Scalars, Scalars]:
    """Return position and w at a time within the last step; at its end the state, to the bit."""

    def interpolated(state: AdaptiveState, time: Scalar) -> tuple[Scalars, Scalars]:
        at_end = time >= state.time
        part = (time - state.begin) / select(state.length > 0.0, state.length, 1.0)
        chart = Chart(manifold, lambda *_: (), state.q_begin)
        change = interpolate(state.dense, part)
        q, w = chart.state(combine(chart.start(state.w_begin), 1.0, (1.0,), (change,)))
        return _chosen(at_end, state.q, q), _chosen(at_end, state.w, w)

    found: tuple[Scalars, Scalars] = manifold.function("state_at", interpolated)(state, time)
    return found


def scaled_error(
    pair: Pair, chart: Chart, w: Scalars, found: Attempt, h: Scalar, tolerances: Tolerances
) -> Scalar:
    """Return the size of a step's error relative to the tolerance.

    Root mean square over all coordinates; turns beyond `LARGEST_TURN` count as errors too.
    """
    scales = _scales(chart, w, found.w, tolerances)
    squares = [_mean_square(error, scales) for error in found.errors]
    error = pair.error(squares, h)
    for turn in _squared_turns(chart, chart.steps(found.change)):
        ratio = turn * (1.0 / LARGEST_TURN**2)
        for _ in range(TURN_POWER.bit_length() - 1):
            ratio = ratio * ratio
        error = np.maximum(error, ratio)
    return error


def _judged(
    pair: Pair, going: _Going, found: Attempt, error: Scalar, h: Scalar, cut: Any, stop: Scalar
) -> _Going:
    """Accept or refuse a step, and choose the next."""
    at = going.state
    # NaN compares as false: a step with non-finite results is refused
    known = error < LARGEST_ERROR
    error = select(known, np.maximum(error, SMALLEST_ERROR), LARGEST_ERROR)
    good = error <= 1.0
    exponent = 1.0 / pair.estimate_order
    plain = np.exp(-(exponent - 0.75 * pair.memory) * np.log(error))
    growth = SAFETY * plain * np.exp(pair.memory * np.log(at.error))
    growth = np.minimum(np.maximum(growth, 1.0 / pair.most_shrinking), pair.most_growth)
    # a step cut short does not estimate longer ones
    after_good = select(cut, np.maximum(growth * h, at.h), growth * h)
    shrunk = np.maximum(SAFETY * np.exp(-exponent * np.log(error)), 1.0 / pair.most_shrinking)
    h_next = select(good, after_good, shrunk * h)
    end = select(cut, stop, at.time + h)
    shortest = _shortest(at.time)
    # far from time zero a step may be too short to change the time at all
    failed = ((error > 1.0) & (h_next < shortest)) | (end <= at.time)
    one = select(good, 1.0, 0.0)
    state = AdaptiveState(
        time=select(good, end, at.time),
        q=_chosen(good, found.q, at.q),
        w=_chosen(good, found.w, at.w),
        rate=_chosen(good, found.rate, at.rate),
        h=h_next,
        error=select(good, error, at.error),
        begin=select(good, at.time, at.begin),
        length=select(good, h, at.length),
        q_begin=_chosen(good, at.q, at.q_begin),
        w_begin=_chosen(good, at.w, at.w_begin),
        dense=at.dense,
        steps=at.steps + one,
        refused=at.refused + (1.0 - one),
        status=select(failed, STEP_TOO_SMALL, at.status),
    )
    pieces = tuple(
        _chosen(good, new, old) for new, old in zip(found.pieces, going.pieces, strict=True)
    )
    return _Going(state, pieces, select(good, 1.0, going.fresh))


def _shortest(time: Scalar) -> Scalar:
    """Return the length below which steps from a time fail [s]."""
    return SHORTEST_STEP + 1e-15 * np.abs(time)


def _dense(
    pair: Pair, manifold: Manifold, acceleration: Acceleration, going: _Going
) -> tuple[Scalars, ...]:
    """Return the interpolation of the last step: a new one if a step was taken."""
    state = going.state

    def made() -> tuple[Scalars, ...]:
        chart = Chart(manifold, acceleration, state.q_begin)
        return pair.dense(chart, state.w_begin, going.pieces, state.length, state.begin)

    if pair.dense_is_free:
        fresh = going.fresh > 0.0
        return tuple(_chosen(fresh, new, old) for new, old in zip(made(), state.dense, strict=True))
    # a loop of at most one turn: cases without a new step need no evaluations
    first = (going.fresh, state.dense)
    last = while_loop(lambda s: s[0] > 0.0, lambda s: (0.0, made()), first, 1).state
    found: tuple[Scalars, ...] = last[1]
    return found


def _first_step(
    pair: Pair, chart: Chart, w: Scalars, rate: Scalars, time: Scalar, tolerances: Tolerances
) -> Scalar:
    """Choose a first step by the size of states, rates and their change (sec. II.4, algorithm)."""
    y, rates = chart.start(w), chart.rates_at_start(w, rate)
    scales = _scales(chart, w, w, tolerances)
    size = np.sqrt(_mean_square(y, scales))
    speed = np.sqrt(_mean_square(rates, scales))
    usable = (size > 1e-5) & (speed > 1e-5)
    tried = select(usable, 0.01 * size / select(usable, speed, 1.0), 1e-6)
    # velocities that are rounding of zero say nothing about the length of steps
    tried = np.maximum(tried, FIRST_STEPS * _shortest(time))
    after = chart.rates(combine(y, tried, (1.0,), (rates,)), time + tried)
    bend = tuple(b - a for a, b in zip(rates, after, strict=True))
    change = np.sqrt(_mean_square(bend, scales)) / tried
    largest = np.maximum(speed, change)
    moving = largest > 1e-15
    power = np.exp(np.log(0.01 / select(moving, largest, 1.0)) * (1.0 / pair.estimate_order))
    chosen = select(moving, power, np.maximum(1e-6, 1e-3 * tried))
    return np.minimum(100.0 * tried, chosen)


def _scales(chart: Chart, w: Scalars, after: Scalars, tolerances: Tolerances) -> Scalars:
    """Return what error is tolerated in each coordinate."""
    rtol, atol = tolerances
    position = atol + rtol
    vector = (atol + rtol * np.maximum(np.abs(a), np.abs(b)) for a, b in zip(w, after, strict=True))
    return (*(position,) * chart.position_count, *vector)


def _mean_square(values: Scalars, scales: Scalars) -> Scalar:
    total: Scalar = 0.0
    for value, scale in zip(values, scales, strict=True):
        part = value / scale
        total = total + part * part
    return total * (1.0 / max(len(values), 1))


def _squared_turns(chart: Chart, steps: Steps) -> list[Scalar]:
    """Return the squared angle of each step that turns about several axes [rad^2]."""
    found = zip(chart.manifold.turning, steps, strict=True)
    return [s[0] * s[0] + s[1] * s[1] + s[2] * s[2] for turning, s in found if turning]


def _chosen(condition: Any, yes: Scalars, no: Scalars) -> Scalars:
    return tuple(select(condition, a, b) for a, b in zip(yes, no, strict=True))
