"""The course of a run: steps, samples, rows, progress, and the reasons to stop.

How a run is cut into native calls depends on the clock on the wall; what it computes does not, for
a call of n steps does exactly what n calls of one step do.
"""

import time as wall
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tiburon.simulation.cases import Rows
from tiburon.simulation.commands import CommandRow
from tiburon.simulation.interruption import Interruption
from tiburon.simulation.lone_run import fly
from tiburon.simulation.plain_steps import PlainSteps
from tiburon.simulation.progress import INTERVAL, FirstSecond, Progress
from tiburon.simulation.row_writer import RowWriter
from tiburon.simulation.sensing import Sensing
from tiburon.simulation.state import State
from tiburon.simulation.system import System

__all__ = ["Course", "Run", "conduct"]

Array = NDArray[np.float64]

CHUNK_SECONDS = 0.02
"""Wall time after which native code returns to Python."""

FIRST_STEPS = 8
"""Steps of the first call, before the pace is known; and how much faster the next call may be."""


class Run(Protocol):
    """Cases on their way, by steps of any kind."""

    system: System
    state: Array
    held: Array
    done: int
    asked: int
    seconds_per_step: float
    patience: Callable[[], None]

    @property
    def running(self) -> NDArray[np.intp]:
        """Numbers of the cases that go on."""

    @property
    def slots(self) -> int:
        """How many rows one call of `advance` can give."""

    @property
    def time(self) -> float:
        """Time that all cases have reached [s]."""

    def advance(self, counts: list[int]) -> Rows:
        """Go on by numbers of steps of the grid, and give a row after each."""

    def jump(self) -> None:
        """Tell that commands have jumped."""

    def sample(self) -> None:
        """Ask a traced controller, whose commands are held from here on."""

    def end(self, status: str, message: str) -> None:
        """End all cases that go on."""


class _OutOfBudgetError(Exception):
    """The wall time of a run is over while native calls go on."""


class Course(NamedTuple):
    """What a run is to do."""

    begin: float
    """Time at step 0 [s]."""

    dt: float
    """Distance of two times of the grid [s]."""

    steps: int
    """Where it ends, counted from step 0."""

    record_every: int
    """Steps between two rows."""

    hold: int
    """Steps between two calls of the controller."""

    control: Callable[[State], Any] | None
    """A controller in Python, or None."""

    sampling: bool
    """Whether the run is told when its traced controller is due."""

    sensing: Sensing | None
    """Sensors, or None."""

    parameters: dict[str, Any]
    """Run-time numbers of cases, for sensors."""

    one: bool
    """Whether this is one robot: its controller then sees no dimension of cases."""

    batch: tuple[int, ...]
    """Shape of the cases."""

    budget: float | None
    """Wall time after which to stop [s]."""


def conduct(run: Run, course: Course, writer: RowWriter, progress: Progress | None) -> None:
    """Take a run to its end, or to a reason to stop; all its cases have an outcome then.

    Args:
        run: Cases on their way.
        course: What to do.
        writer: Where rows go.
        progress: What to tell how far the run is.
    """
    with Interruption() as interruption:
        limit = np.inf if course.budget is None else wall.perf_counter() + course.budget

        def patience() -> None:
            if interruption.wanted:
                raise KeyboardInterrupt
            if wall.perf_counter() > limit:
                raise _OutOfBudgetError

        run.patience = patience
        try:
            _go(run, course, writer, progress, interruption)
        except KeyboardInterrupt:
            _stop(run, course, writer, "interrupted", f"interrupted at {run.time:.6g} s")
        except _OutOfBudgetError:
            _stop(run, course, writer, *_out_of_budget(run, course))
        finally:
            if isinstance(progress, FirstSecond):
                progress.close()
    writer.flush()


def _go(
    run: Run,
    course: Course,
    writer: RowWriter,
    progress: Progress | None,
    interruption: Interruption,
) -> None:
    steps, every, dt = course.steps, course.record_every, course.dt
    asking = _Asking(run, course) if course.control is not None else None
    sensing = course.sensing
    # a run that ends, or is cut here, gives the row of its last step in any case
    mark = run.done % every == 0
    started = told = wall.perf_counter()
    plain = PlainSteps.of(run, course, writer)
    first, limit = run.done, FIRST_STEPS if plain is None else plain.first_steps
    while True:
        done = run.done
        writer.hand_on()
        if sensing is not None and done % sensing.every == 0:
            _look(run, course, sensing)
        # a run that goes on has asked here before
        due = done % course.hold == 0 and run.asked != done
        if asking is not None and due and not interruption.wanted:
            if mark == (done % every == 0):
                mark = not fly(run, course, writer, progress, interruption) and (
                    run.done % every == 0
                )
                done = run.done
            if run.asked != done and not interruption.wanted:
                asking.ask(done)
                run.asked = done
        if course.sampling and due and len(run.running):
            run.sample()
            run.asked = done
        writer.hand_on()
        if not len(run.running):
            if not done:
                # ended by events at the start, which is recorded all the same
                writer.write(course.begin, run.state, run.held, _sensed(run, course))
            return
        if mark and plain is not None and done >= steps:
            plain.write_here()
        elif mark and plain is None:
            time = course.begin + done * dt
            # all cases have reached the start, also those that end there
            shown = _shown(run, run.state) if done else run.state
            writer.write(time, shown, run.held, _sensed(run, course))
        if done >= steps:
            run.end("finished", f"finished at {run.time:.6g} s")
            return
        reason = _reason_to_stop(run, course, interruption, started)
        if reason is not None:
            _stop(run, course, writer, *reason)
            return
        end = min(done + limit, steps)
        if asking is not None or course.sampling:
            end = min(end, done - done % course.hold + course.hold)
        if sensing is not None:
            end = min(end, done - done % sensing.every + sensing.every)
        called = wall.perf_counter()
        waiting = asking is not None or course.sampling or sensing is not None
        if plain is not None and plain.advance(end, mark=mark, waiting=waiting):
            now, mark = wall.perf_counter(), plain.pending
        else:
            counts, marks = _counts(done, end, steps, every, run.slots)
            called = wall.perf_counter()
            rows = run.advance(counts)
            now = wall.perf_counter()
            # the last row waits: commands at its time may be yet to come
            mark = marks[-1]
            _write_on_the_way(run, course, writer, rows, done, counts, marks)
        # only as many steps as fit, and no leaps on the word of a clock
        taken = run.done - done
        run.seconds_per_step = (now - called) / taken
        fitting = CHUNK_SECONDS / max(run.seconds_per_step, 1e-12)
        limit = max(1, min(int(fitting), FIRST_STEPS * limit))
        if progress is not None and (run.done == steps or now - told >= INTERVAL):
            progress((run.done - first) * dt, (steps - first) * dt)
            told = now


def _sensed(run: Run, course: Course) -> Array | None:
    """Return what sensors said last, a row for each case."""
    if course.sensing is None:
        return None
    return course.sensing.row.reshape(len(run.state), -1)


def _write_on_the_way(
    run: Run,
    course: Course,
    writer: RowWriter,
    rows: Rows,
    done: int,
    counts: list[int],
    marks: list[bool],
) -> None:
    """Write the rows of a call that are recorded, but for the last."""
    wanted = [place for place, marked in enumerate(marks[:-1]) if marked]
    if not len(run.running):
        # nothing is recorded of times that no case has reached
        wanted = [k for k in wanted if not np.isnan(rows.states[k, :, 0]).all()]
    if wanted:
        # marked ones stand together: only the first and the last count of a call may be odd
        chosen = slice(wanted[0], wanted[-1] + 1)
        steps = done + np.cumsum(counts)[chosen]
        # a call ends where sensors look again
        sensed = _sensed(run, course)
        times = course.begin + steps * course.dt
        writer.write_many(times, rows.states[chosen], rows.held[chosen], sensed)


def _stop(run: Run, course: Course, writer: RowWriter, status: str, message: str) -> None:
    """End a run that was not to end here; its last state is recorded all the same."""
    if writer.last_time != run.time:
        writer.write(run.time, _shown(run, run.state), run.held, _sensed(run, course))
    run.end(status, message)


def _counts(
    done: int, end: int, steps: int, every: int, slots: int
) -> tuple[list[int], list[bool]]:
    """Fill a call with steps up to the next rows, as far as slots allow.

    Returns:
        Steps before each state that the call gives, and whether that state is recorded.
    """
    if every == 1:
        count = min(end - done, slots)
        return [1] * count, [True] * count
    counts: list[int] = []
    marks: list[bool] = []
    here = done
    while here < end and len(counts) < slots:
        mark = min(here - here % every + every, steps)
        counts.append(min(mark, end) - here)
        here += counts[-1]
        marks.append(here == mark)
    return counts, marks


def _shown(run: Run, state: Array) -> Array:
    """Return states with NaN for the cases that have ended."""
    running = run.running
    if len(running) == len(state):
        return state
    shown = np.full_like(state, np.nan)
    shown[running] = state[running]
    return shown


def _reason_to_stop(
    run: Run, course: Course, interruption: Interruption, started: float
) -> tuple[str, str] | None:
    if interruption.wanted:
        return "interrupted", f"interrupted at {run.time:.6g} s"
    if course.budget is not None and wall.perf_counter() - started > course.budget:
        return _out_of_budget(run, course)
    return None


def _out_of_budget(run: Run, course: Course) -> tuple[str, str]:
    spent = f"{course.budget:g} s of wall time"
    return "budget", f"stopped at {run.time:.6g} s: {spent} were not enough"


def _look(run: Run, course: Course, sensing: Sensing) -> None:
    """Let sensors look at the cases; those that ended are seen as they were."""
    nq = run.system.model.nq
    u = np.ascontiguousarray(run.held[:, : run.system.drive_size])
    parts = [run.state[:, :nq], run.state[:, nq:], u]
    shaped = [np.ascontiguousarray(x).reshape(*course.batch, x.shape[-1]) for x in parts]
    rows = {
        name: np.reshape(values, (*course.batch, -1)) if np.ndim(values) > 1 else values
        for name, values in course.parameters.items()
    }
    q, w, held = shaped
    sensing.look(run.done, q, w, held, course.begin + run.done * course.dt, **rows)
    if run.system.sensed:
        # a controller inside the loop finds what sensors say among what is held
        run.held = run.held.copy()
        run.held[:, run.system.readings] = _sensed(run, course)
        run.jump()


class _Asking:
    """Calls a controller in Python and puts its commands where the next steps find them."""

    def __init__(self, run: Run, course: Course) -> None:
        self._run, self._course = run, course
        self._row: CommandRow = run.system.commands
        model = run.system.model
        self._nq, self._nv = model.nq, model.nq + model.nv
        self._commands = len(self._row)

    def ask(self, done: int) -> None:
        """Call the controller in the state of the run."""
        run, course = self._run, self._course
        system, nq, nv = run.system, self._nq, self._nv
        time = course.begin + done * course.dt
        # a controller gets arrays of its own, and may calculate in them
        sensors = None if course.sensing is None else course.sensing.latest.copied()
        assert course.control is not None
        held, states = run.held.copy(), run.state.copy()
        if course.one:
            y, u = states[0], held[0, : self._commands]
            state = State(system, time, y[:nq], y[nq:nv], y[nv:], u.copy(), None, sensors)
            answer = course.control(state)
            self._row.write(u, answer)
        else:
            y = states.reshape(*course.batch, -1)
            u = held[:, : self._commands].reshape(*course.batch, -1)
            state = State(
                system, time, y[..., :nq], y[..., nq:nv], y[..., nv:], u.copy(), None, sensors
            )
            self._row.write(u, course.control(state))
            held[:, : self._commands] = u.reshape(len(held), -1)
        run.held = held
        run.jump()
