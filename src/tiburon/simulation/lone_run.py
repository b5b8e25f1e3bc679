"""One robot: the shortest way from one native call to the next.

A controller at 100 Hz over steps of a millisecond is asked so often that what lies between two
calls counts. Here is only what every call needs; whatever else a run can have takes the general way
of `conduct`, with the same bits.
"""

import time as wall
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import DomainError, NonFiniteError
from tiburon.simulation.fixed_run import FixedRun
from tiburon.simulation.loop import CLOCK, Clock
from tiburon.simulation.progress import INTERVAL, Interruption, Progress
from tiburon.simulation.recorder import RowWriter
from tiburon.simulation.state import State
from tiburon.simulation.stepper import QUICK_SECONDS

if TYPE_CHECKING:
    from tiburon.simulation.run import Course, Run

__all__ = ["fly"]

Array = NDArray[np.float64]

DONE = Clock._fields.index("done")

BREATH = 64
"""Intervals between two looks at the clock on the wall."""


def fly(
    run: "Run",
    course: "Course",
    writer: RowWriter,
    progress: Progress | None,
    interruption: Interruption,
) -> bool:
    """Take whole intervals between calls of a controller, as long as nothing unusual happens.

    Args:
        run: The robot on its way, at a step at which its controller is asked.
        course: What to do.
        writer: Where rows go.
        progress: What to tell how far the run is.
        interruption: Tells of Ctrl-C.

    Returns:
        Whether the row of the step that was reached is already written.
    """
    if not _fits(run, course):
        return False
    assert isinstance(run, FixedRun)
    assert course.control is not None
    system, control, row = run.system, course.control, run.system.commands
    model = system.model
    nq, nv, count = model.nq, model.nq + model.nv, model.nv
    kernel, begin, dt, hold = run.stepper.kernel, course.begin, course.dt, course.hold
    every, last = course.record_every, course.steps - course.hold
    y, held = run.state[0], run.held[0].copy()
    plans: dict[int, tuple[Array, list[tuple[int, int]], int]] = {}
    done, left = run.done, BREATH
    shape = (count,)
    told = wall.perf_counter()
    first = done
    written = False
    write = writer.write
    while done <= last and not interruption.wanted:
        phase = done % every
        plan = plans.get(phase)
        if plan is None:
            plan = plans[phase] = _plan(run, phase, hold, every)
        clock, rows, slot = plan
        # its own: what a controller does to its arrays is nobody else's business
        own = y.copy()
        state = State(system, begin + done * dt, own[:nq], own[nq:nv], own[nv:], held.copy())
        answer = control(state)
        if type(answer) is np.ndarray and answer.shape == shape:
            held[:count] = answer
        else:
            row.write(held, answer)
        if phase == 0:
            write(begin + done * dt, y, held)
        clock[DONE] = done
        try:
            (states,) = kernel(y, held, clock)
        except (DomainError, NonFiniteError):
            # the general way finds out how far it goes, and why no further
            written = phase == 0
            run.asked = done
            break
        for place, steps in rows:
            write(begin + (done + steps) * dt, states[place], held)
        y = states[slot]
        done += hold
        left -= 1
        if not left:
            left = BREATH
            # the run can be gone on with from here
            run.state, run.held, run.done = y[None], held[None], done
            writer.hand_on()
            now = wall.perf_counter()
            if progress is not None and now - told >= INTERVAL:
                progress((done - first) * dt, (course.steps - first) * dt)
                told = now
    run.state, run.held, run.done = y[None], held[None], done
    return written


def _fits(run: "Run", course: "Course") -> bool:
    """Return whether a run is as plain as this file takes it."""
    plain = isinstance(run, FixedRun) and course.one and course.sensing is None
    if not plain or course.control is None or course.budget is not None:
        return False
    assert isinstance(run, FixedRun)
    system = run.system
    if system.held or run.events is not None or run.stepper.carried != len(system.commands):
        return False
    # one more where intervals begin between two rows
    marks = -(-course.hold // course.record_every) + bool(course.hold % course.record_every)
    quick = course.hold * run.seconds_per_step <= QUICK_SECONDS
    return quick and marks <= run.slots


def _plan(
    run: FixedRun, phase: int, hold: int, every: int
) -> tuple[Array, list[tuple[int, int]], int]:
    """Return the clock of an interval, its rows as slots and steps, and the slot of its end."""
    clock = run.clock()
    ends = list(range(every - phase, hold, every))
    counts = np.diff([0, *ends, hold])
    clock[CLOCK : CLOCK + len(counts)] = counts
    return clock, list(enumerate(ends)), len(counts) - 1
