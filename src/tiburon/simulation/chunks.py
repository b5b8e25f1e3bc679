"""Long runs as a row of short native calls, with recording, progress and Ctrl-C in between.

How a run is cut into calls depends on the clock; what it computes does not, for a call of n steps
does exactly what n calls of one step do.
"""

import operator
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.errors import DomainError, ShapeError
from tiburon.functions.library import depends_on_time
from tiburon.loops.start import closed_start
from tiburon.model import Model, World
from tiburon.model.configuration import as_batch
from tiburon.simulation.fixed_step import MOST_STEPS, fixed_step_kernel
from tiburon.simulation.record import StateRecord

__all__ = ["run_fixed_steps"]

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]

CHUNK_SECONDS = 0.02
"""Wall time after which native code returns to Python."""

SLOTS = 8
"""States one native call can give when it runs one case: a call costs as much as half a step."""

QUICK_STEPS = 64
"""Calls of up to so many steps of one case take the kernel's quick way in.

Longer calls take the way that lets other threads of Python run meanwhile; it costs some 40 us.
"""

FIRST_STEPS = 8
"""Steps of the first call, before the pace is known; and how much faster the next call may be."""


class _Chunk(NamedTuple):
    """What one native call does."""

    counts: list[int]
    """Steps to take before each state it gives."""

    recorded: int
    """How many of these states are recorded; a last one that is not is only gone on from."""


def run_fixed_steps(
    method: str,
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike | None,
    dt: float,
    steps: int,
    world: World | None,
    begin: float,
    record_every: int,
    progress: Progress | None,
) -> StateRecord:
    """Run a method of equal steps; arguments and errors are those of `integrate_rk4`.

    Args:
        method: Name of the method.
        model: The robot.
        q: Position at the start [m or rad], shape (..., nq).
        v: Joint velocity at the start [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv), or None.
        dt: Length of a step [s].
        steps: Number of steps.
        world: Surroundings, or None.
        begin: Time at the start [s].
        record_every: Steps between two recorded states.
        progress: Called with steps done and steps in all, or None.
    """
    state, force = _start(model, q, v, tau)
    dt = _number("dt", dt)
    steps = _whole("steps", steps, 0)
    record_every = _whole("record_every", record_every, 1)
    # a batch fills the time of a call by itself
    slots = SLOTS if state.q.ndim == 1 else 1
    begin = _number("time", begin)
    if model.loops:
        state = _closed(model, state, begin)
    kernel = fixed_step_kernel(model, world or DEFAULT_WORLD, method, slots)
    timed = depends_on_time(model, world or DEFAULT_WORLD)
    if timed:
        kernel = kernel.__self__.with_parameters(time=begin)  # type: ignore[attr-defined]
    runner = _Runner(kernel, force, dt, slots, begin, timed)
    marks = np.minimum(np.arange(0, steps + record_every, record_every), steps)
    recorded_q = np.empty((len(marks), *state.q.shape))
    recorded_v = np.empty((len(marks), *state.v.shape))
    recorded_q[0], recorded_v[0] = state
    row, done, limit = 1, 0, FIRST_STEPS
    told = time.perf_counter()
    while done < steps:
        chunk = _next_chunk(done, steps, record_every, slots, limit)
        called = time.perf_counter()
        states = runner.run(state, chunk.counts, done)
        now = time.perf_counter()
        recorded_q[row : row + chunk.recorded] = states.q[: chunk.recorded]
        recorded_v[row : row + chunk.recorded] = states.v[: chunk.recorded]
        state = _State(states.q[-1], states.v[-1])
        row += chunk.recorded
        done += sum(chunk.counts)
        # only as many steps as fit, and no leaps on the word of a clock
        fitting = sum(chunk.counts) * CHUNK_SECONDS / max(now - called, 1e-9)
        limit = max(1, min(int(fitting), FIRST_STEPS * limit))
        if progress is not None and (done == steps or now - told >= CHUNK_SECONDS):
            progress(done, steps)
            told = now
    return StateRecord(begin + marks * dt, recorded_q, recorded_v)


def _closed(model: Model, state: "_State", begin: float) -> "_State":
    """Check that all cases start on their loops, and close gaps of rounding."""
    rows = state.q.reshape(-1, model.nq), state.v.reshape(-1, model.nv)
    found = closed_start(model, *rows, begin)
    return _State(found.q.reshape(state.q.shape), found.v.reshape(state.v.shape))


def _next_chunk(done: int, steps: int, record_every: int, slots: int, limit: int) -> _Chunk:
    """Fill a call with steps up to the next recorded states, as far as slots and limit allow."""
    counts: list[int] = []
    recorded, here, end = 0, done, min(done + limit, steps)
    while here < end and len(counts) < slots:
        mark = min(here - here % record_every + record_every, steps)
        counts.append(min(mark, end) - here)
        here += counts[-1]
        recorded += here == mark
    return _Chunk(counts, recorded)


class _State(NamedTuple):
    """Positions and velocities, of one case, a batch, or several times."""

    q: Array
    v: Array


class _Runner:
    """A kernel with what stays the same during a run."""

    def __init__(
        self,
        kernel: Callable[..., Any],
        force: Array,
        dt: float,
        slots: int,
        begin: float,
        timed: bool,
    ) -> None:
        self._kernel = kernel
        self._begin = begin
        self._timed = timed
        self._force = force
        self._dt = np.array(dt)
        self._slots = slots

    def run(self, state: _State, counts: list[int], done: int) -> _State:
        """Take steps.

        Args:
            state: Where to start.
            counts: Steps to take before each state that is given.
            done: Steps taken before, for messages.

        Returns:
            States with time as the first dimension, `slots` of them: those after the last count
            are equal.
        """
        found = self._call(state, counts, done)
        if found is None:
            raise self._diverged(state, sum(counts), done)
        return found

    def _call(self, state: _State, counts: list[int], done: int) -> _State | None:
        """Return the states, or None if any number of them is not finite."""
        padded = np.zeros(self._slots)
        padded[: len(counts)] = counts
        arguments = (*state, self._force, self._dt, padded, *self._when(done))
        if state.q.ndim == 1 and sum(counts) <= QUICK_STEPS:
            try:
                return _State(*self._kernel(*arguments))
            except DomainError:
                return None
        (q, v), failed = self._kernel(*arguments, errors="flag")
        return None if failed.any() else _State(np.moveaxis(q, -2, 0), np.moveaxis(v, -2, 0))

    def _when(self, done: int) -> tuple[Array, ...]:
        """Return the argument that tells steps taken before, where the kernel takes one."""
        return (np.array(float(done)),) if self._timed else ()

    def _diverged(self, state: _State, count: int, done: int) -> DomainError:
        """Find the step that failed and make the error that tells about it."""
        good, bad = 0, count
        while bad - good > 1:
            middle = (good + bad) // 2
            found = self._call(state, [middle - good], done + good)
            if found is None:
                bad = middle
            else:
                state, good = _State(found.q[-1], found.v[-1]), middle
        reason = "none: a number beyond the range of float64"
        try:
            # one step from the last good state, on the way that looks for causes
            one = np.eye(self._slots)[0]
            self._kernel(*state, self._force, self._dt, one, *self._when(done + good))
        except DomainError as error:
            reason = error.given
        step = done + good
        since = self._begin + step * float(self._dt)
        return DomainError(
            "motion",
            "finite positions and velocities",
            f"in step {step + 1}, from time {since:.6g} s on, {reason}",
            advice="take a smaller dt, or check the state at the start and the forces",
        )


def _start(model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike | None) -> tuple[_State, Array]:
    """Return state and force at the start, checked, state and force with the same batch."""
    position = as_batch(q, model.nq, "q", model.describe_q())
    velocity = as_batch(v, model.nv, "v", model.describe_v())
    force = np.zeros(model.nv)
    if tau is not None:
        force = as_batch(tau, model.nv, "tau", model.describe_v())
    shapes = [array.shape[:-1] for array in (position, velocity, force)]
    try:
        batch = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(
            "q, v, tau",
            "leading dimensions that broadcast",
            ", ".join(map(str, shapes)),
            advice="give every array the same number of cases, or one case",
        ) from None
    # contiguous arrays of their own: the caller may change the originals while a run goes on
    return (
        _State(
            np.array(np.broadcast_to(position, (*batch, model.nq)), order="C"),
            np.array(np.broadcast_to(velocity, (*batch, model.nv)), order="C"),
        ),
        force.copy(),
    )


def _number(argument: str, value: object) -> float:
    """Return one finite number."""
    return float(as_batch(np.reshape(np.asarray(value), (-1,)), 1, argument, "1 number")[0])


def _whole(argument: str, value: object, least: int) -> int:
    """Return a whole number within range."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if not least <= number <= MOST_STEPS:
        raise DomainError(argument, f"a whole number, {least} or more", f"{value!r}")
    return number
