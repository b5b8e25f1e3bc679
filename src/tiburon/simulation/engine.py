"""The engine: states of all cases, advanced until something stops it.

`Engine.advance` takes steps up to a step of the grid of times, and returns why it stopped. It knows
nothing of who waits there: runs (`run.py`) record rows, let sensors look and call controllers
between two stretches. Steps are equal (`equal_steps.py`) or adaptive (`adaptive_steps.py`). A case
that an event or a non-finite value ends keeps its state and gets an outcome; the others go on.
"""

import time as wall
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tiburon.arrays import Array, NDArray
from tiburon.results.outcome import EventRecord, Outcome, SharedOutcome
from tiburon.simulation.diagnosis import first_to_diverge
from tiburon.simulation.events import Instants, Watch
from tiburon.simulation.recorder import RowWriter
from tiburon.simulation.system import System

if TYPE_CHECKING:
    from tiburon.simulation.run import RunSetup

Cases: TypeAlias = NDArray[np.intp]
"""Numbers of cases."""

CHUNK_SECONDS = 0.02
"""Wall-clock time after which native code returns to Python [s]."""

FIRST_STEPS = 1
"""Fewest steps of the first call, before the pace is known."""

PARTED_STEPS = 256
"""Steps of a call of a robot in parts: processes exchange messages in every step, and the clocks of
two processes would not agree on another number."""

MAX_CALL_GROWTH = 8
"""Factor by which the number of steps may grow from one call to the next."""

MAX_DIAGNOSED_CASES = 32
"""Diverged cases whose cause is searched by taking the step again."""


class Stop(Enum):
    """Why an engine stopped."""

    REACHED = "the step asked for is reached"
    PAUSED = "a row to record or the wall clock asks for a look before that step"
    ENDED = "no case goes on"


REACHED, PAUSED, ENDED = Stop


class Engine:
    """Base of what takes equal and what takes adaptive steps.

    Attributes:
        system: The system.
        state: Where the cases are, or were when they ended, shape (cases, values).
        held: Held values, shape (cases, values).
        begin: Time at the start of the run [s].
        dt: Interval of the time grid [s].
        done: Steps of the grid taken since the start of the run.
        asked: Step at which a controller outside of native loops was sampled last; -1 for none.
        outcomes: How cases ended, by number; running ones are missing, and those that ended
            together because the run did.
        shared_outcome: How these ended; None while the run continues.
        event_records: Events that happened, in the order in which they were found.
        events: Events to look for during the run; None for none.
        sides: With events, for each case and event the side of zero to assume, 1 or -1; 0 to go by
            the value.
        until: Until when that is known [s], shape (cases, events).
        started: Whether the events at the start of the run have happened.
        is_running: Whether any case continues.
        writer: Where rows go; set before the first step.
        readings: Latest sensor readings, shape (cases, channels); None without sensors.
        check: Called between native calls of unknown length; raises what ends the run.
        reads_in_place: Whether steps read the held values where they are, so that `commanded` does
            nothing.
    """

    def __init__(
        self,
        system: System,
        setup: "RunSetup",
        events: Watch | None,
        state: Array,
        held: Array,
        one: bool,
    ) -> None:
        """Put cases at their start; with `one`, the only case is one robot."""
        self.system = system
        self.state, self.held = state, held
        self.begin, self.dt = setup.begin, setup.dt
        self.method, self._parameters = setup.method, setup.parameters
        self._every, self._last = setup.record_every, setup.steps
        self._one, self._threads = one, setup.threads
        # size of the batch for kernels
        self._batch = None if one else len(state)
        self.done = 0
        self.asked = -1
        self.outcomes: dict[int, Outcome] = {}
        self.event_records: list[EventRecord] = []
        self.events = events
        if events is not None:
            self.sides = np.zeros((len(state), len(events)))
            self.until = self.sides - np.inf
        self.started = False
        self.is_running = True
        self.writer: RowWriter | None = None
        self.readings: Array | None = None
        self.check: Callable[[], object] = lambda: None
        self.reads_in_place = False
        self._alive: Cases | None = None
        self.shared_outcome: SharedOutcome | None = None
        # steps of a native call at most, and whether they follow the wall clock
        self._limit, self._is_timed = 0, True
        if system.partition is not None and system.partition.has_partners:
            self._limit, self._is_timed = PARTED_STEPS, False

    @property
    def time(self) -> float:
        """Time that all cases have reached, or would have [s]."""
        return self.begin + self.done * self.dt

    @property
    def is_at_row(self) -> bool:
        """Whether the time reached is that of a recorded row."""
        return not self.done % self._every

    @property
    def running(self) -> Cases:
        """Numbers of the running cases."""
        return np.arange(len(self.state)) if self._alive is None else self._alive

    def advance(self, until: int) -> Stop:
        """Take steps, up to step `until` at most, and record rows on the way; return why it ends.

        Rows at the step that is reached wait for `record`: commands at its time may be yet to come.
        """
        begin, limit = self.done, self._limit
        if not limit:
            limit = self._limit = max(FIRST_STEPS, self.first_steps(0.1 * CHUNK_SECONDS))
        if begin + limit >= until:
            self._step_to(until)
        else:
            start = wall.perf_counter()
            self._step_to(begin + limit)
            if self._is_timed:
                # only as many steps as fit into a call, and no sudden growth
                pace = (self.done - begin) / max(wall.perf_counter() - start, 1e-12)
                self._limit = max(1, min(int(CHUNK_SECONDS * pace), MAX_CALL_GROWTH * limit))
        if not self.is_running:
            return ENDED
        return REACHED if self.done == until else PAUSED

    def _step_to(self, end: int) -> None:
        """Take at least one step of the running cases, up to step `end` at most."""
        raise NotImplementedError

    def first_steps(self, seconds: float) -> int:
        """Return a number of steps that is likely to take no longer than a time [s]."""
        raise NotImplementedError

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint keeps."""
        raise NotImplementedError

    def begin_steps(self) -> None:
        """Do what the first step of a run needs: contact forces, sampled commands."""

    def resume(self, fresh: Array | None) -> None:
        """Continue an earlier part; cases with `fresh` 1 start multi-step methods again."""

    def parts(self) -> list[Array]:
        """Return position, velocity and continuous states of the one robot; to be copied."""
        model, row = self.system.model, self.state[0]
        return [row[: model.nq], row[model.nq : model.nq + model.nv], row[model.nq + model.nv :]]

    def shown(self) -> Array:
        """Return the states with NaN for the cases that have ended."""
        state, running = self.state, self.running
        if len(running) == len(state):
            return state
        shown = np.full_like(state, np.nan)
        shown[running] = state[running]
        return shown

    def record(self) -> None:
        """Record the row of the present step; its commands are known now.

        Nothing is recorded of times that no case has reached; all have reached the start.
        """
        if self.done and not self.is_running:
            return
        assert self.writer is not None
        state = self.shown() if self.done else self.state
        self.writer.write(self.time, state, self.held, self.readings)

    def hand_on(self, now: float) -> None:
        """Hand rows to the recorder if there are many, or after some time."""
        assert self.writer is not None
        self.writer.hand_on(now)

    def commanded(self) -> None:
        """Continue under held values that were changed in place."""
        self.jump()

    def jump(self) -> None:
        """Start multi-step methods again, because commands or states have jumped."""

    def hand_rows(self, *, whole: bool) -> None:
        """Hand rows to the recorder that native code has written; here there are none."""

    def release(self) -> None:
        """Release the recorder's rows: the run is over.

        The writer asks for checkpoints of the run: in a cycle both would keep the rows of a freed
        trajectory out of the pool until the garbage collector comes.
        """
        self.writer = None

    def end(self, status: str, message: str) -> None:
        """End all running cases, in the states they are in."""
        model = self.system.model
        nq, nv, time = model.nq, model.nq + model.nv, self.time
        # nothing moves any more, so nothing is copied: batches are large
        self.shared_outcome = SharedOutcome(status, time, message, self.state, (nq, nv))
        self._alive, self.is_running = np.arange(0), False

    def close(self, case: int, outcome: Outcome) -> None:
        """Mark a case as ended, with the outcome of an earlier part of the run."""
        self.outcomes[case] = outcome
        self.leave(np.array([case]))

    def close_as(self, case: int, status: str, time: float, message: str, **more: Any) -> None:
        """Give a case an outcome in the state it is in; more is what `Outcome` takes by name."""
        model = self.system.model
        nq, nv = model.nq, model.nq + model.nv
        row = self.state[case].copy()
        parts = row[:nq], row[nq:nv], row[nv:]
        self.outcomes[case] = Outcome(status, time, message, *parts, **more)

    def close_diverged(
        self,
        cases: Cases,
        method: str,
        steps: Callable[[int], tuple[float, float]],
        message: Callable[[float, str, Array], str],
        left: Callable[[int], Array | None] = lambda _: None,
    ) -> None:
        """End cases that diverged, each with the quantity that did so first.

        Args:
            cases: Their numbers.
            method: Name of the integrator.
            steps: Puts a case back to the start of its last step; returns its time and length [s].
            message: Returns the message of an outcome from that time, the quantity and the state.
            left: Returns the held values that the last step of a case left, None if unknown.
        """
        for number, case in enumerate(map(int, cases)):
            time, dt = steps(case)
            if self.system.lost:
                self.close_as(case, "lost", time, f"lost at {time:.6g} s: {self.system.lost}")
                continue
            state, held = self.state[case], self.held[case]
            thorough = number < MAX_DIAGNOSED_CASES
            how: Any = {"thorough": thorough, "left": left(case) if thorough else None}
            cause = first_to_diverge(self.system, method, state, held, time, dt, **how)
            quantity = cause.quantity
            text = message(time, quantity, state)
            self.close_as(case, "diverged", time, text, body=cause.body, quantity=quantity)
        self.leave(cases)

    def restore_events(self, arrays: Mapping[str, Array], notes: Mapping[str, Any]) -> None:
        """Continue with the events where an earlier part of the run was cut."""
        self.event_records += [EventRecord(*fields) for fields in notes.get("events", [])]
        self.started = bool(notes.get("started", False))
        if (
            self.events is not None
            and "sides" in arrays
            and arrays["sides"].shape == self.sides.shape
        ):
            self.sides, self.until = arrays["sides"].copy(), arrays["until"].copy()

    def event_notes(self) -> dict[str, Any]:
        """Return what a checkpoint notes of the events."""
        found: dict[str, Any] = {"started": True} if self.started else {}
        if self.event_records:
            found["events"] = [[h.name, h.time, h.case, h.q, h.v, h.x] for h in self.event_records]
        return found

    def start_events(self) -> None:
        """Handle the events that are due at the start of the run."""

    def _event_arrays(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint that belong to events."""
        return {} if self.events is None else {"sides": self.sides, "until": self.until}

    def start_by(self, instants: Instants) -> None:
        """Handle events at the start of the run."""
        ended: dict[int, str] = {}
        endless: dict[int, str] = {}
        cases = self.running
        found = instants.starting(cases, self.state[cases], self.held[cases], self.time)
        if found:
            self.state = self.state.copy()
        for place, met in found:
            instant, case = instants.happen(met), met.case
            self.state[case] = instant.row
            self.sides[case], self.until[case] = instant.sides, instant.until
            if instant.ended is not None:
                ended[place] = instant.ended
            if instant.endless is not None:
                endless[place] = instant.endless
        self.end_by_events(cases, ended, endless, np.full(len(cases), self.time))

    def end_case(self, case: int, ended: str | None, endless: str | None, time: float) -> None:
        """End one case by a terminal event, or by one that happens without end, if there is one."""
        names = [{} if name is None else {0: name} for name in (ended, endless)]
        self.end_by_events(np.array([case]), names[0], names[1], np.array([time]))

    def end_by_events(
        self, cases: Cases, ended: Mapping[int, str], endless: Mapping[int, str], time: Array
    ) -> Cases:
        """End cases with a terminal event or Zeno behavior, by their places; return which."""
        for place, name in endless.items():
            message = (
                f"event {name!r} happens without end from {time[place]:.9g} s on (Zeno behavior): "
                "its action leaves the state where it happens again at once; let the event end the "
                "run (terminal=True), or its action hold the state there or move it away"
            )
            self.close_as(int(cases[place]), "zeno", float(time[place]), message, event=name)
        for place, name in ended.items():
            message = f"ended by event {name!r} at {time[place]:.9g} s"
            self.close_as(int(cases[place]), "event", float(time[place]), message, event=name)
        over = cases[sorted({*endless, *ended})]
        if len(over):
            self.leave(over)
        return over

    def sample(self) -> None:
        """Sample a traced controller, where that is not part of the native loop."""

    def leave(self, cases: Cases) -> None:
        """Take ended cases out of running ones."""
        self._alive = np.setdiff1d(self.running, cases)
        self.is_running = len(self._alive) > 0
