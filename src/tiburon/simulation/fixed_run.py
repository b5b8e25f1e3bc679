"""Runs of equal steps: cases that go on, end by events, or grow beyond all numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.simulation.cases import Cases, CasesOnTheirWay, Rows
from tiburon.simulation.diagnosis import first_to_diverge
from tiburon.simulation.event_search import EventSearch
from tiburon.simulation.events import Watch
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.loop import CLOCK, Clock
from tiburon.simulation.stepper import Advance, FixedStepper
from tiburon.simulation.system import System

__all__ = ["FixedRun"]

Array = NDArray[np.float64]

DONE, START = Clock._fields.index("done"), Clock._fields.index("start")
WATCH = Clock._fields.index("watch")
SAMPLE = Clock._fields.index("sample")
HOLD = Clock._fields.index("hold")


def _advice(method: str, quantity: str, tolerance: float) -> str:
    """Return what to do about steps of a method that grow without end, or open loops."""
    if quantity.startswith("command "):
        return "look into the controller, which gave what is no finite number"
    change = "a smaller dt (`tiburon check` advises one)"
    if quantity.startswith("gap of loop"):
        change = "a smaller dt, a motion that its loops can follow"
        larger = f"a redundancy_tolerance above {tolerance:g}"
        if not tolerance:
            larger = "a redundancy_tolerance where constraints nearly repeat each other"
        change = f"{larger}, {change}"
    elif method != "rosenbrock":
        change = f'method="rosenbrock" where springs, dampers or stops are stiff, {change}'
    return f"take {change}, or check the state at the start and the forces"


class FixedRun(CasesOnTheirWay):
    """All cases of a run of equal steps; one robot is one case.

    The attributes are those of `CasesOnTheirWay`; after what is held, `held` has what a multi-step
    method remembers.
    """

    def __init__(
        self,
        system: System,
        method: str,
        events: Watch | None,
        parameters: Mapping[str, Any],
        threads: int | None,
        state: Array,
        held: Array,
        begin: float,
        dt: float,
        hold: int,
        *,
        one: bool,
        slots: int | None = None,
    ) -> None:
        """Prepare a run; no step is taken yet.

        Args:
            system: What moves.
            method: Name of the integrator.
            events: What to look for on the way; None for nothing.
            parameters: Run-time numbers that replace those of model, world and elements.
            threads: Cores to use at most.
            state: Where the cases start, shape (cases, numbers).
            held: What is held at the start, shape (cases, numbers).
            begin: Time at the start [s].
            dt: Length of a step [s].
            hold: Steps between two samples of a traced controller.
            one: Whether this is one robot rather than a batch of cases.
            slots: States that one native call can give; by default what suits.
        """
        super().__init__(system, state, held, begin, dt, events)
        cases = None if one else len(state)
        self.method, self.threads = method, threads
        self.stepper = FixedStepper(system, method, events, parameters, cases, threads, slots)
        head = Clock(begin, dt, dt, 0.0, float(hold), 1.0, float(events is not None), 1.0)
        self._clock = np.array([*map(float, head), *[0.0] * self.stepper.slots])
        # what a multi-step method remembers comes after what is held; nothing yet
        room = self.stepper.carried - held.shape[1]
        self.held = np.concatenate([held, np.zeros((len(held), room))], axis=1) if room else held
        self._fresh = np.ones(len(state))
        if system.sensed:
            self._clock[SAMPLE] = 0.0
        self._search = None
        if events is not None:
            part = self.stepper
            if METHODS[method].has_memory:
                part = FixedStepper(
                    system, method, events, parameters, cases, threads, 1, plain=True
                )
            self._search = EventSearch(
                part, self.stepper, events, parameters, cases, self.happenings, self._clock
            )

    @property
    def slots(self) -> int:
        """How many states one call of `advance` can give."""
        return self.stepper.slots

    def advance(self, counts: Sequence[int]) -> Rows:
        """Take steps.

        Args:
            counts: Steps to take before each row that is given, as many as `slots` at most.

        Returns:
            One row for each count.
        """
        if self.events is not None:
            rows = self._advance_watching(counts[0])
        else:
            rows = self._advance_all(counts)
        self.done += sum(counts)
        self._clock[START] = 0.0
        return rows

    def clock(self) -> Array:
        """Return the numbers that a native call takes, without any steps to take."""
        clock = self._clock.copy()
        clock[CLOCK:] = 0.0
        return clock

    def ask_first(self) -> None:
        """Ask a sampled controller at the start: what it says is recorded with the first row."""
        clock = self.clock()
        clock[SAMPLE], clock[DONE] = 2.0, self.done
        found = self.stepper.run(self.state, self.held, clock, None, 0.0)
        good = ~found.failed
        self.held = self.held.copy()
        self.held[good] = found.held[-1, good]
        bad = np.intersect1d(self.running, np.flatnonzero(found.failed))
        if len(bad):
            self._end_diverged(bad, np.full(len(bad), float(self.done)))

    def sample(self) -> None:
        """Ask a controller that reads sensors: only between calls these have something to say."""
        self.ask_first()
        self.jump()

    def go_on(self, fresh: Array | None = None) -> None:
        """Tell that the numbers carried along are those of an earlier part of the run.

        Args:
            fresh: 1 for cases whose multi-step method starts anew, as after an action; else 0.
        """
        self._clock[START] = 0.0
        self._fresh = np.zeros(len(self.state)) if fresh is None else fresh.copy()

    def jump(self) -> None:
        """Tell that commands or states have jumped: multi-step methods start anew."""
        self._clock[START] = 1.0
        self._fresh[:] = 1.0

    def arrays(self) -> dict[str, Array]:
        """Return the numbers that a checkpoint keeps."""
        own = {"state": self.state, "held": self.held, **self._event_arrays()}
        if self.events is not None:
            own["fresh"] = self._fresh
        return own

    # without events

    def _advance_all(self, counts: Sequence[int]) -> Rows:
        clock, alive = self._clock, self._alive
        clock[DONE] = self.done
        clock[CLOCK:] = 0.0
        clock[CLOCK : CLOCK + len(counts)] = counts
        state = self.state if alive is None else self.state[alive]
        held = self.held if alive is None else self.held[alive]
        seconds = sum(counts) * self.seconds_per_step
        found = self.stepper.run(state, held, clock, alive, seconds)
        if not found.failed.any():
            return self._accept(found, alive, len(counts))
        return self._accept_some(found, counts, state, held)

    def _accept(self, found: Advance, alive: Cases | None, count: int) -> Rows:
        """Go on to the states of a call in which all went well."""
        states, held = found.states[:count], found.held[:count]
        if len(held) < count:
            held = np.broadcast_to(held[-1:], (count, *held.shape[1:]))
        if alive is None:
            self.state, self.held = found.states[-1], found.held[-1]
            return Rows(states, held)
        self.state[alive], self.held[alive] = found.states[-1], found.held[-1]
        return Rows(self._spread(states, alive), self._spread(held, alive))

    def _spread(self, rows: Array, alive: Cases) -> Array:
        """Return rows of all cases, NaN for those that have ended."""
        full = np.full((len(rows), len(self.state), rows.shape[-1]), np.nan)
        full[:, alive] = rows
        return full

    def _accept_some(
        self, found: Advance, counts: Sequence[int], state: Array, held: Array
    ) -> Rows:
        """Go on with the cases that did well; find the last good step of the others."""
        running = self.running
        failed = np.flatnonzero(found.failed)
        good = self._last_good(state[failed], held[failed], running[failed], sum(counts))
        # once more, up to there: the states on the way, and the last good one
        ends = np.cumsum(counts)
        clock = np.tile(self._clock, (len(failed), 1))
        clock[:, CLOCK : CLOCK + len(counts)] = np.diff(
            np.minimum(ends, good[:, None]), axis=1, prepend=0.0
        )
        again = self.stepper.run(state[failed], held[failed], clock, running[failed])
        # a case that cannot take one step stays where it is
        stuck = good < 1.0
        again.states[:, stuck] = state[failed[stuck]]
        states, kept = found.states.copy(), np.empty((len(found.states), *held.shape))
        kept[:] = found.held
        states[:, failed], kept[:, failed] = again.states, again.held
        kept[:, failed[stuck]] = held[failed[stuck]]
        self.state = self.state.copy()
        self.held = self.held.copy()
        self.state[running], self.held[running] = states[-1], kept[-1]
        for place, end in enumerate(ends):
            states[place, failed[good < end]] = np.nan
            kept[place, failed[good < end]] = np.nan
        count = len(counts)
        rows = Rows(self._spread(states[:count], running), self._spread(kept[:count], running))
        self._end_diverged(running[failed], self.done + good)
        return rows

    def _last_good(self, state: Array, held: Array, cases: Cases, steps: int) -> Array:
        """Return how many steps each case can take until its numbers are not finite."""
        low, high = np.zeros(len(cases)), np.full(len(cases), float(steps))
        clock = np.tile(self._clock, (len(cases), 1))
        clock[:, WATCH] = 0.0
        while np.any(high - low > 1.0):
            middle = np.floor(0.5 * (low + high))
            clock[:, CLOCK:] = 0.0
            clock[:, CLOCK] = middle
            failed = self.stepper.run(state, held, clock, cases).failed
            low, high = np.where(failed, low, middle), np.where(failed, middle, high)
        return low

    def _end_diverged(self, cases: Cases, steps: Array) -> None:
        for number, (case, step) in enumerate(zip(cases, steps, strict=True)):
            time = self.begin + float(step) * self.dt
            cause = first_to_diverge(
                self.system,
                self.method,
                self.state[case],
                self.held[case],
                time,
                self.dt,
                thorough=number < 32,
            )
            message = (
                f"diverged in the step from {time:.6g} s on: {cause.quantity} first; "
                f"{_advice(self.method, cause.quantity, self.system.redundancy_tolerance)}"
            )
            self.close_as(
                int(case),
                "diverged",
                time,
                message,
                body=cause.body,
                quantity=cause.quantity,
            )
        self.leave(cases)

    # with events

    def _advance_watching(self, count: int) -> Rows:
        """Take steps of cases that stop where events happen, each in its own time."""
        assert self._search is not None
        self.state, self.held = self.state.copy(), self.held.copy()
        taken = np.zeros(len(self.state))
        while True:
            behind = self.running[taken[self.running] < count]
            if not len(behind):
                break
            clock = np.tile(self._clock, (len(behind), 1))
            clock[:, DONE] = self.done + taken[behind]
            clock[:, CLOCK] = count - taken[behind]
            clock[:, START] = self._fresh[behind]
            state, held = self.state[behind], self.held[behind]
            sides = self.sides[behind]
            found = self.stepper.run(state, held, clock, behind, sides=sides)
            if found.failed.any():
                bad = np.flatnonzero(found.failed)
                found = self._back_to_good(found, bad, state, held, clock, behind)
            self.state[behind], self.held[behind] = found.states[-1], found.held[-1]
            # after a step without a crossing the values are on these sides
            self.sides[behind[found.taken > 0.0]] = 0.0
            self._fresh[behind] = 0.0
            taken[behind] += found.taken
            met = (found.met > 0.0).any(axis=1) & ~found.failed
            self._step_over(behind[met], taken)
            if found.failed.any():
                self._end_diverged(behind[found.failed], self.done + taken[behind[found.failed]])
        rows = np.full((1, *self.state.shape), np.nan)
        held = np.full((1, *self.held.shape), np.nan)
        running = self.running
        rows[0, running], held[0, running] = self.state[running], self.held[running]
        return Rows(rows, held)

    def _back_to_good(
        self,
        found: Advance,
        bad: Cases,
        state: Array,
        held: Array,
        clock: Array,
        behind: Cases,
    ) -> Advance:
        """Return a call with failed cases in their last good state instead."""
        low, high = np.zeros(len(bad)), clock[bad, CLOCK].copy()
        parts, sides = (state[bad], held[bad]), self.sides[behind[bad]]
        limits = clock[bad].copy()
        while np.any(high - low > 1.0):
            limits[:, CLOCK] = np.floor(0.5 * (low + high))
            failed = self.stepper.run(*parts, limits, behind[bad], sides=sides).failed
            low = np.where(failed, low, limits[:, CLOCK])
            high = np.where(failed, limits[:, CLOCK], high)
        limits[:, CLOCK] = low
        again = self.stepper.run(*parts, limits, behind[bad], sides=sides)
        states, kept, met, taken, failed = (
            found.states.copy(),
            np.broadcast_to(found.held, (1, *held.shape)).copy(),
            found.met.copy(),
            found.taken.copy(),
            found.failed.copy(),
        )
        states[:, bad], kept[:, bad] = again.states, again.held
        met[bad], taken[bad] = again.met, again.taken
        # an event before the failure comes first
        failed[bad] = ~(again.met > 0.0).any(axis=1)
        return Advance(states, kept, failed, met, taken)

    def start_events(self) -> None:
        """Let the events happen that are due at the start of the run."""
        if self._search is not None:
            self._start_events(self._search.instants)

    def _ask_acted(self, cases: Cases, taken: Array) -> None:
        """Ask a sampled controller where it is due at the end of a step that an event changed."""
        clock = np.tile(self._clock, (len(cases), 1))
        clock[:, DONE] = self.done + taken[cases]
        clock[:, CLOCK:] = 0.0
        due = (clock[:, DONE] % clock[:, HOLD] == 0.0) & (clock[:, SAMPLE] > 0.5)
        clock[:, SAMPLE] = 2.0
        if due.any():
            asked = cases[due]
            found = self.stepper.run(self.state[asked], self.held[asked], clock[due], asked)
            good = ~found.failed
            self.held[asked[good]] = found.held[-1, good]
            self._end_diverged(asked[~good], clock[due][~good, DONE])

    def _step_over(self, cases: Cases, taken: Array) -> None:
        """Take the step in which events happen; end the cases that they end."""
        assert self._search is not None
        if not len(cases):
            return
        clock = np.tile(self._clock, (len(cases), 1))
        clock[:, DONE] = self.done + taken[cases]
        clock[:, START] = 0.0
        crossing = self._search.cross(
            self.state[cases],
            self.held[cases],
            clock,
            cases,
            self.sides[cases],
            self.until[cases],
        )
        self.state[cases], self.held[cases] = crossing.state, crossing.held
        self.sides[cases], self.until[cases] = crossing.sides, crossing.until
        self._fresh[cases[crossing.acted]] = 1.0
        taken[cases] += 1.0
        over = self._end_by_events(cases, crossing.ended, crossing.endless, crossing.time)
        if self.system.held:
            on = crossing.acted & ~crossing.failed & ~np.isin(cases, over)
            self._ask_acted(cases[on], taken)
        if crossing.failed.any():
            bad = cases[crossing.failed]
            self._end_diverged(bad, self.done + taken[bad] - 1.0)
