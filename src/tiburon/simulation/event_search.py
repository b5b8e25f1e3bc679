"""Equal steps in which events happen: where in the step, and the rest of the step after actions."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tiburon.record import record
from tiburon.results.outcome import EventRecord
from tiburon.simulation.events import (
    MOST_EVENTS,
    Ahead,
    EventValues,
    Instants,
    Meeting,
    TimeEvent,
    Watch,
    locate,
    simultaneous,
)
from tiburon.simulation.loop import CLOCK, Clock
from tiburon.simulation.stepper import Advance, FixedStepper

__all__ = ["Crossing", "EventSearch"]

Array = NDArray[np.float64]
Cases: TypeAlias = NDArray[np.intp]

BEGIN, DT, STEP, DONE, SAMPLE, WATCH = (
    Clock._fields.index(name) for name in ("begin", "dt", "step", "done", "sample", "watch")
)


@record(eq=False)
class Crossing:
    """What a step with events came to, for some cases."""

    state: Array
    """At the end of the step, or where a case ended, shape (cases, numbers)."""

    held: Array
    """What is held there, shape (cases, numbers)."""

    sides: Array
    """Sides of zero to assume from there on, 0 to go by the values, shape (cases, events)."""

    until: Array
    """Until when [s], shape (cases, events)."""

    time: Array
    """When cases ended [s], shape (cases,)."""

    ended: dict[int, str]
    """The events that ended cases, by place."""

    endless: dict[int, str]
    """The events that happen without end, by place of the case."""

    failed: NDArray[np.bool_]
    """Cases that diverged in the step, shape (cases,)."""

    acted: NDArray[np.bool_]
    """Cases whose state an action may have changed, shape (cases,)."""


class EventSearch:
    """Finds events inside steps, with the native steps of the run."""

    def __init__(
        self,
        stepper: FixedStepper,
        whole: FixedStepper,
        watch: Watch,
        parameters: Mapping[str, Any],
        cases: int | None,
        happenings: list[EventRecord],
        clock: Array,
    ) -> None:
        """Prepare a search.

        Args:
            stepper: Takes parts of steps.
            whole: Takes whole steps, as the run does.
            watch: The events.
            parameters: Run-time numbers that replace those of model, world and elements.
            cases: Size of the batch; None for one robot.
            happenings: Where events that happened are recorded.
            clock: Of the run, without steps to take.
        """
        self._stepper, self._whole = stepper, whole
        self._watch = watch
        self._one = cases is None
        self._values = EventValues(stepper.system, watch, parameters, cases)
        self._clock = clock.copy()
        self._clock[WATCH], self._clock[SAMPLE], self._clock[DONE] = 0.0, 0.0, 0.0
        self._clock[CLOCK:], self._clock[CLOCK] = 0.0, 1.0
        self.instants = Instants(stepper.system, watch, self._values, self._ahead, happenings)

    def cross(
        self, state: Array, held: Array, clock: Array, cases: Cases, sides: Array, until: Array
    ) -> Crossing:
        """Take the step in which events happen.

        Events that neither act nor end a case leave no trace in the motion: the step is taken as
        if nobody had looked.

        Args:
            state: At the start of the step, shape (cases, numbers).
            held: What is held, shape (cases, numbers).
            clock: Of the step, shape (cases, numbers of `Clock` and counts).
            cases: Which cases these are.
            sides: Sides of zero to assume at the start of the step, shape (cases, events).
            until: Until when [s], shape (cases, events).
        """
        count = len(cases)
        at = Crossing(
            state.copy(),
            held.copy(),
            sides.copy(),
            until.copy(),
            _when(clock),
            {},
            {},
            np.zeros(count, dtype=bool),
            np.zeros(count, dtype=bool),
        )
        clock = clock.copy()
        clock[:, WATCH], clock[:, CLOCK:], clock[:, CLOCK] = 0.0, 0.0, 1.0
        last = clock[:, BEGIN] + (clock[:, DONE] + 1.0) * clock[:, DT]
        offset = np.zeros(count)
        going = np.arange(count)
        latest: dict[int, str] = {}
        for turn in range(MOST_EVENTS + 1):
            if not len(going):
                return at
            stepper = self._whole if turn == 0 else self._stepper
            now = clock[going].copy()
            now[:, SAMPLE] = float(turn == 0)
            now[:, STEP] = now[:, STEP] - offset[going]
            now[:, BEGIN] = now[:, BEGIN] + offset[going]
            end = self._run(stepper, at.state[going], at.held[going], now, cases[going])
            before = self._values(at.state[going], at.held[going], _when(now), cases[going])
            after = self._values(end.states[-1], at.held[going], last[going], cases[going])
            assumed, known = at.sides[going], at.until[going]
            before = np.where(assumed != 0.0, assumed, before)
            met = np.stack(self._watch.crossed(list(before.T), list(after.T)), axis=-1) > 0.0
            # on their sides at a later time: they have not come back across zero here
            early = (assumed != 0.0) & (known >= last[going, None])
            met &= ~early & ~end.failed[:, None]
            at.failed[going[end.failed]] = True
            pairs = np.argwhere(met)
            now[:, SAMPLE] = 0.0
            start = np.where(assumed != 0.0, np.maximum(known - _when(now)[:, None], 0.0), 0.0)
            places = self._locate(at, going, now, cases, pairs, before, after, start)
            acting = self._happen(at, going, now, cases, pairs, places, before, latest)
            still = []
            for local, case in enumerate(going):
                if at.failed[case] or case in at.ended or case in at.endless:
                    continue
                if local in acting:
                    offset[case] += acting[local]
                    at.acted[case] = True
                    still.append(case)
                else:
                    kept = end.held[-1, local]
                    at.state[case], at.held[case, : len(kept)] = end.states[-1, local], kept
                    at.sides[case] = np.where(early[local], at.sides[case], 0.0)
            going = np.array(still, dtype=np.intp)
        at.endless.update({int(case): latest[int(case)] for case in going})
        return at

    def _ahead(self, case: int, time: float, row: Array, held: Array) -> Ahead:
        """Return the motion of a case from a state on, over the length of a step."""
        clock = self._clock.copy()
        clock[BEGIN] = time
        cases = np.array([case])

        def run(length: float) -> Advance:
            clock[STEP] = length
            return self._run(self._stepper, row[None], held[None], clock[None], cases)

        horizon = float(clock[DT])
        if run(horizon).failed.any():
            horizon = 0.0
        return Ahead(horizon, lambda length: run(length).states[-1, 0])

    def _locate(
        self,
        at: Crossing,
        going: Cases,
        clock: Array,
        cases: Cases,
        pairs: NDArray[np.intp],
        before: Array,
        after: Array,
        start: Array,
    ) -> Array:
        """Return how long after the start of its (rest of a) step each event happens [s]."""
        if not len(pairs):
            return np.zeros(0)
        local, event = pairs.T
        mine = going[local]
        own = clock[local].copy()
        states, held, numbers = at.state[mine], at.held[mine], cases[mine]

        def value(length: Array) -> Array:
            own[:, STEP] = length
            found = self._run(self._stepper, states, held, own, numbers)
            g = self._values(found.states[-1], held, _when(own) + length, numbers)
            chosen: Array = g[np.arange(len(event)), event]
            return chosen

        length, chosen = clock[local, STEP], (local, event)
        found = locate(value, before[chosen], after[chosen], length, start[chosen])
        for place, number in enumerate(event):
            known = self._watch.events[number]
            if isinstance(known, TimeEvent):
                exact = known.time - _when(clock[local[place], None])[0]
                found[place] = min(max(exact, 0.0), length[place])
        return found

    def _happen(
        self,
        at: Crossing,
        going: Cases,
        clock: Array,
        cases: Cases,
        pairs: NDArray[np.intp],
        places: Array,
        before: Array,
        latest: dict[int, str],
    ) -> dict[int, float]:
        """Let events happen in order of time, up to the first that acts or ends in each case.

        Returns:
            For each case with an action, by its place, the part of the step that is over [s].
        """
        acting: dict[int, float] = {}
        for local in np.unique(pairs[:, 0]) if len(pairs) else ():
            case = int(going[local])
            mine = np.flatnonzero(pairs[:, 0] == local)
            for place, numbers in simultaneous(places[mine], pairs[mine, 1]):
                own = clock[local : local + 1].copy()
                own[:, STEP] = place
                one = slice(case, case + 1)
                found = self._run(self._stepper, at.state[one], at.held[one], own, cases[one])
                time = float(_when(own)[0] + place)
                sides = {number: float(np.sign(before[local, number])) for number in numbers}
                row = found.states[-1, 0]
                met = Meeting(int(cases[case]), time, row, at.held[case], sides)
                instant = self.instants.happen(met)
                at.time[case] = time
                if instant.ended is not None:
                    at.ended[case] = instant.ended
                if instant.endless is not None:
                    at.endless[case] = instant.endless
                if instant.acted or instant.ended is not None:
                    at.state[case] = instant.row
                    at.sides[case], at.until[case] = instant.sides, instant.until
                    latest[case] = self._watch.events[numbers[0]].name
                    acting[int(local)] = place
                    break
        return acting

    # native calls, one robot or many cases

    def _run(
        self, stepper: FixedStepper, state: Array, held: Array, clock: Array, cases: Cases
    ) -> Advance:
        # parts of steps know no memory
        held = held[:, : stepper.carried]
        if not self._one or len(state) == 1:
            return stepper.run(state, np.ascontiguousarray(held), clock, cases)
        parts = [
            stepper.run(state[k : k + 1], held[k : k + 1], clock[k : k + 1])
            for k in range(len(state))
        ]
        states, kept, *rest = zip(*parts, strict=True)
        return Advance(
            np.concatenate(states, axis=1),
            np.concatenate(kept, axis=1),
            *(np.concatenate(part) for part in rest),
        )


def _when(clock: Array) -> Array:
    """Return the time at the start of a step [s], shape (cases,)."""
    found: Array = clock[:, BEGIN] + clock[:, DONE] * clock[:, DT]
    return found
