"""Steps in which events happen: where in the step, what is done there, and the rest of the step."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import NonFiniteError, ShapeError
from tiburon.record import record
from tiburon.simulation.events import Event, Happening, TimeEvent, Watch, locate
from tiburon.simulation.loop import CLOCK, Clock
from tiburon.simulation.state import State
from tiburon.simulation.stepper import Advance, FixedStepper, bind_parameters
from tiburon.simulation.system import System

__all__ = ["MOST_EVENTS", "Crossing", "EventSearch", "EventValues", "acted", "happening_at"]

Array = NDArray[np.float64]
Cases: TypeAlias = NDArray[np.intp]

BEGIN, DT, STEP, DONE, SAMPLE, WATCH = (
    Clock._fields.index(name) for name in ("begin", "dt", "step", "done", "sample", "watch")
)

MOST_EVENTS = 100
"""Events with an action in one step, after which a case ends: bounces may pile up without end."""


@record(eq=False)
class Crossing:
    """What a step with events came to, for some cases."""

    state: Array
    """At the end of the step, or where a case ended, shape (cases, numbers)."""

    held: Array
    """What is held there, shape (cases, numbers)."""

    ended: NDArray[np.bool_]
    """Cases that events ended, shape (cases,)."""

    failed: NDArray[np.bool_]
    """Cases that diverged in the step, shape (cases,)."""

    names: list[str | None]
    """The events that ended cases; None for too many events in one step."""

    time: Array
    """When cases ended [s], shape (cases,)."""

    acted: NDArray[np.bool_]
    """Cases whose state an action may have changed, shape (cases,)."""

    def message(self, place: int) -> str:
        """Return what to say about a case that met too many events."""
        return (
            f"stopped at {self.time[place]:.9g} s after {MOST_EVENTS} events in one step; let an "
            "event end the run, or its action bring the case further away from the next one"
        )


class EventSearch:
    """Finds events inside steps, with the native steps of the run."""

    def __init__(
        self,
        stepper: FixedStepper,
        whole: FixedStepper,
        watch: Watch,
        parameters: Mapping[str, Any],
        cases: int | None,
        happenings: list[Happening],
    ) -> None:
        """Prepare a search.

        Args:
            stepper: Takes parts of steps.
            whole: Takes whole steps, as the run does.
            watch: The events.
            parameters: Run-time numbers that replace those of model, world and elements.
            cases: Size of the batch; None for one robot.
            happenings: Where events that happened are written down.
        """
        self._stepper, self._whole = stepper, whole
        self._system = stepper.system
        self._watch = watch
        self._one = cases is None
        self._values = EventValues(stepper.system, watch, parameters, cases)
        self._happenings = happenings

    def cross(self, state: Array, held: Array, clock: Array, cases: Cases) -> Crossing:
        """Take the step in which events happen.

        Events that neither act nor end a case leave no trace in the motion: the step is taken as
        if nobody had looked.

        Args:
            state: At the start of the step, shape (cases, numbers).
            held: What is held, shape (cases, numbers).
            clock: Of the step, shape (cases, numbers of `Clock` and counts).
            cases: Which cases these are.
        """
        count = len(cases)
        at = Crossing(
            state.copy(),
            held.copy(),
            np.zeros(count, dtype=bool),
            np.zeros(count, dtype=bool),
            [None] * count,
            _when(clock),
            np.zeros(count, dtype=bool),
        )
        clock = clock.copy()
        clock[:, WATCH], clock[:, CLOCK:], clock[:, CLOCK] = 0.0, 0.0, 1.0
        offset = np.zeros(count)
        going = np.arange(count)
        for turn in range(MOST_EVENTS + 1):
            if not len(going):
                return at
            if turn == MOST_EVENTS:
                at.ended[going] = True
                return at
            stepper = self._whole if turn == 0 else self._stepper
            now = clock[going].copy()
            now[:, SAMPLE] = float(turn == 0)
            now[:, STEP] = now[:, STEP] - offset[going]
            now[:, BEGIN] = now[:, BEGIN] + offset[going]
            end = self._run(stepper, at.state[going], at.held[going], now, cases[going])
            before = self._values(at.state[going], at.held[going], _when(now), cases[going])
            after = self._values(
                end.states[-1], at.held[going], _when(now) + now[:, STEP], cases[going]
            )
            met = np.stack(self._watch.crossed(list(before.T), list(after.T)), axis=-1) > 0.0
            met[end.failed] = False
            at.failed[going[end.failed]] = True
            pairs = np.argwhere(met)
            now[:, SAMPLE] = 0.0
            places = self._locate(at, going, now, cases, pairs, before, after)
            acting = self._tell(at, going, now, cases, pairs, places)
            still = []
            for local, case in enumerate(going):
                if at.failed[case] or at.ended[case]:
                    continue
                if local in acting:
                    offset[case] += acting[local]
                    at.acted[case] = True
                    still.append(case)
                else:
                    kept = end.held[-1, local]
                    at.state[case], at.held[case, : len(kept)] = end.states[-1, local], kept
            going = np.array(still, dtype=np.intp)
        return at

    def _locate(
        self,
        at: Crossing,
        going: Cases,
        clock: Array,
        cases: Cases,
        pairs: NDArray[np.intp],
        before: Array,
        after: Array,
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

        return locate(value, before[local, event], after[local, event], clock[local, STEP])

    def _tell(
        self,
        at: Crossing,
        going: Cases,
        clock: Array,
        cases: Cases,
        pairs: NDArray[np.intp],
        places: Array,
    ) -> dict[int, float]:
        """Write events down in order of time, up to the first that acts or ends in each case.

        Returns:
            For each case with an action, by its place, the part of the step that is over [s].
        """
        acting: dict[int, float] = {}
        closed: set[int] = set()
        order = np.lexsort((pairs[:, 1], np.abs(places), pairs[:, 0])) if len(pairs) else ()
        for number in order:
            local, event = int(pairs[number, 0]), self._watch.events[pairs[number, 1]]
            if local in closed:
                continue
            case = int(going[local])
            own = clock[local : local + 1].copy()
            own[:, STEP] = places[number]
            found = self._run(
                self._stepper,
                at.state[case : case + 1],
                at.held[case : case + 1],
                own,
                cases[case : case + 1],
            )
            row = found.states[-1, 0]
            time = float(_when(own)[0] + places[number])
            self._happenings.append(happening_at(self._system, event, time, int(cases[case]), row))
            if not event.terminal and event.action is None:
                continue
            closed.add(local)
            at.state[case] = row
            at.time[case] = time
            if event.action is not None:
                at.state[case] = acted(self._system, event, time, row, at.held[case])
            if event.terminal:
                at.ended[case] = True
                at.names[case] = event.name
            else:
                acting[local] = float(places[number])
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


class EventValues:
    """Values of all events, of one robot or of many cases."""

    def __init__(
        self, system: System, watch: Watch, parameters: Mapping[str, Any], cases: int | None
    ) -> None:
        """Compile the expressions.

        Args:
            system: What moves.
            watch: The events.
            parameters: Run-time numbers that replace those of model, world and elements.
            cases: Size of the batch; None for one robot.
        """
        self._size = system.drive_size
        self._one = cases is None
        kernel = watch.kernel(system)
        known = kernel.__self__.parameters  # type: ignore[attr-defined]
        own = {name: value for name, value in parameters.items() if name in known}
        self._kernel, self._rows = bind_parameters(kernel, own, cases)

    def __call__(self, state: Array, held: Array, time: Array, cases: Cases) -> Array:
        """Return the values in some states, shape (states, events).

        Args:
            state: (*q, *v, *x), shape (states, numbers).
            held: What is held there, shape (states, numbers).
            time: When [s], shape (states,).
            cases: To which cases they belong.
        """
        u = np.ascontiguousarray(held[:, : self._size])
        if self._one:
            found = [
                self._kernel(state[k], u[k], time[k], errors="flag")[0] for k in range(len(state))
            ]
            return np.array(found)
        rows = {name: values[cases] for name, values in self._rows.items()}
        answer: Array = self._kernel(state, u, time, errors="flag", **rows)[0]
        return answer


def happening_at(
    system: System, event: Event | TimeEvent, time: float, case: int, row: Array
) -> Happening:
    """Return what is written down of an event in a state (*q, *v, *x)."""
    nq, nv = system.model.nq, system.model.nq + system.model.nv
    parts = row[:nq].copy(), row[nq:nv].copy(), row[nv:].copy()
    return Happening(event.name, time, case, *parts)


def acted(system: System, event: Event | TimeEvent, time: float, row: Array, held: Array) -> Array:
    """Return the state (*q, *v, *x) after the action of an event."""
    nq, nv = system.model.nq, system.model.nq + system.model.nv
    commands = held[: len(system.command_names)].copy()
    state = State(system, time, row[:nq].copy(), row[nq:nv].copy(), row[nv:].copy(), commands)
    assert event.action is not None
    answer = event.action(state)
    if isinstance(answer, State):
        state = answer
    elif isinstance(answer, Mapping):
        for name, value in answer.items():
            if name not in ("q", "v", "x"):
                raise ShapeError(f"event {event.name!r}: action", "q, v or x", repr(name))
            setattr(state, name, value)
    elif answer is not None:
        raise ShapeError(
            f"event {event.name!r}: action", "a State, {'v': ...} or None", type(answer).__name__
        )
    parts = [np.asarray(part, dtype=np.float64) for part in (state.q, state.v, state.x)]
    sizes = [(nq,), (nv - nq,), (len(row) - nv,)]
    for name, part, size in zip("qvx", parts, sizes, strict=True):
        if part.shape != size:
            raise ShapeError(f"event {event.name!r}: {name}", size, part.shape)
        if not np.isfinite(part).all():
            raise NonFiniteError(f"event {event.name!r}: {name}")
    return np.concatenate(parts)


def _when(clock: Array) -> Array:
    """Return the time at the start of a step [s], shape (cases,)."""
    found: Array = clock[:, BEGIN] + clock[:, DONE] * clock[:, DT]
    return found
