"""What events do at one instant of one case: the same for equal steps and for steps that adapt.

Events within the tolerance of their location happen at one instant. All of them are reported, in
the order in which the run lists them, with the state before any action. Then their actions run in
that order, each on the state that the one before left. An action that takes the expression of
another event across zero, in the direction of that event, makes it happen at the same instant,
after those before. A case ends there if any of these events is terminal.

An action may turn an expression back: a bounce. Between two bounces the expression may leave zero
by less than a step resolves, so after every action the motion is looked ahead, and the run goes on
with the sides of zero that are found. A motion that does not return to the side it came from,
although the action stopped or reversed it, meets the same event without end (Zeno behavior): the
case ends.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import NonFiniteError, ShapeError
from tiburon.simulation.events import TIME_TOLERANCE, Event, EventRecord, TimeEvent, Watch
from tiburon.simulation.state import State
from tiburon.simulation.stepper import bind_parameters
from tiburon.simulation.system import System

__all__ = ["MOST_EVENTS", "SIMULTANEOUS", "Ahead", "EventValues", "Instant", "Instants", "Meeting"]

Array = NDArray[np.float64]
Cases = NDArray[np.intp]

MOST_EVENTS = 1000
"""Instants with an action in one step, after which a case ends."""

SIMULTANEOUS = 2.0 * TIME_TOLERANCE
"""Events at most this far apart happen at one instant [s]: each is located to half of it."""

STOPPED = 1e-6
"""An action stops a crossing if it leaves no more than this part of its rate: rounding leaves less,
and what passes on purpose keeps more."""

RESTING = 1e-9
"""An expression rests at zero if a step moves it by no more than this part of what it would have
moved before the action: more than residuals of loops, less than any fall."""


class Ahead(NamedTuple):
    """The motion from a state on, without events."""

    horizon: float
    """How far it is known [s]; zero if there is no step from this state."""

    at: Callable[[float], Array]
    """Gives the state after a time up to the horizon [s]."""


class Meeting(NamedTuple):
    """Events of one case that happen at one instant."""

    case: int
    time: float
    """When [s]."""
    row: Array
    """State (*q, *v, *x) there."""
    held: Array
    """What is held there."""
    sides: Mapping[int, float]
    """The sides of zero that the expressions come from, 1 or -1, by number of the event."""


class Instant(NamedTuple):
    """What an instant led to."""

    row: Array
    """The state after all actions."""

    acted: bool
    """Whether any action ran."""

    ended: str | None
    """The first event in order that ended the case, or None."""

    endless: str | None
    """The event that happens there without end, or None."""

    sides: Array
    """For each event the side of zero to assume from here on, 0 to go by the value; (events,)."""

    until: Array
    """Until when, for each event: at that time its value is on this side [s]."""


class Instants:
    """Lets events happen, one instant of one case after the other."""

    def __init__(
        self,
        system: System,
        watch: Watch,
        values: "EventValues",
        ahead: Callable[[int, float, Array, Array], Ahead],
        happenings: list[EventRecord],
    ) -> None:
        """Prepare instants.

        Args:
            system: What moves.
            watch: The events.
            values: Their values.
            ahead: Gives the motion of a case from a time and state on, under what is held.
            happenings: Where events that happened are recorded.
        """
        self._system, self._watch, self._values = system, watch, values
        self._ahead, self._happenings = ahead, happenings

    def happen(self, met: Meeting) -> Instant:
        """Let events happen at one instant of a case."""
        events = self._watch.events
        row, sides = met.row, dict(met.sides)
        acted, changed, ended, endless = False, False, None, None
        queue = sorted(sides)
        for _ in range(MOST_EVENTS):
            for number in queue:
                self._report(events[number], met, row)
            terminal = [events[k].name for k in queue if events[k].terminal]
            ended = ended or next(iter(terminal), None)
            acting = [events[k] for k in queue if events[k].action is not None]
            if not acting:
                break
            before = self._value(met, row)
            for event in acting:
                row, touched = _acted(self._system, event, met.time, row, met.held)
                changed = changed or touched
            acted = True
            after = self._value(met, row)
            crossed = self._watch.crossed(list(before), list(after))
            # what an action does to its own expression is not another event
            queue = [k for k, one in enumerate(crossed) if one > 0.0 and k not in queue]
            sides |= {k: float(np.sign(before[k])) for k in queue}
            if not queue:
                break
        else:
            endless = events[queue[0]].name
        count = len(events)
        found = Instant(row, acted, ended, endless, np.zeros(count), np.full(count, -np.inf))
        if changed and ended is None and endless is None:
            found = self._looked_ahead(met, sides, found)
        for number in sides:
            if isinstance(events[number], TimeEvent):
                # a time that has come does not come again, whatever the clock rounds to
                found.sides[number], found.until[number] = 1.0, met.time
        return found

    def starting(
        self, cases: Cases, states: Array, held: Array, time: float
    ) -> list[tuple[int, Meeting]]:
        """Return the events at the start of a run, as places of cases and what they meet.

        An expression that starts at zero crosses it there if it leaves it in the direction of its
        event.
        """
        times = np.full(len(cases), time)
        g = self._values(states, held, times, cases)
        found = []
        for place in np.flatnonzero((g == 0.0).any(axis=1)):
            case, row, now = int(cases[place]), states[place], held[place]
            ahead = self._ahead(case, time, row, now)
            if not ahead.horizon:
                continue
            slopes = self._rates(case, time, row, now, ahead)
            later = Meeting(case, time + ahead.horizon, ahead.at(ahead.horizon), now, {})
            leaving = np.where(slopes != 0.0, np.sign(slopes), np.sign(self._value(later)))
            sides = {
                number: -float(leaving[number])
                for number, event in enumerate(self._watch.events)
                if g[place, number] == 0.0 != leaving[number]
                and event.direction in (0, leaving[number])
            }
            if sides:
                found.append((int(place), Meeting(case, time, row, now, sides)))
        return found

    def _report(self, event: Event | TimeEvent, met: Meeting, row: Array) -> None:
        model = self._system.model
        nq, nv = model.nq, model.nq + model.nv
        parts = row[:nq].copy(), row[nq:nv].copy(), row[nv:].copy()
        self._happenings.append(EventRecord(event.name, met.time, met.case, *parts))

    def _looked_ahead(self, met: Meeting, sides: Mapping[int, float], found: Instant) -> Instant:
        """Find out on which sides of zero the expressions go on after actions."""
        events = self._watch.events
        open_ = {k: s for k, s in sides.items() if not isinstance(events[k], TimeEvent)}
        if not open_:
            return found
        ahead = self._ahead(met.case, met.time, found.row, met.held)
        earlier = self._ahead(met.case, met.time, met.row, met.held)
        if not ahead.horizon or not earlier.horizon:
            return found
        slopes = self._rates(met.case, met.time, found.row, met.held, ahead)
        before = self._rates(met.case, met.time, met.row, met.held, earlier)
        # those that cross and that the actions let pass go by their values; one that does not move
        # across zero before the action crosses it by rounding alone
        kept = {
            k: s
            for k, s in open_.items()
            if -s * slopes[k] <= STOPPED * abs(before[k]) or -s * before[k] <= 0.0
        }
        here = self._value(met, found.row)
        last = self._value_ahead(met, ahead, ahead.horizon)
        length = ahead.horizon
        while kept and length > TIME_TOLERANCE:
            g = self._value_ahead(met, ahead, length)
            for number in [k for k, s in kept.items() if np.sign(g[k]) == s]:
                found.sides[number] = kept.pop(number)
                found.until[number] = met.time + length
            length *= 0.25
        for number, side in kept.items():
            fall = -side * (last[number] - here[number])
            resting = RESTING * abs(before[number]) * ahead.horizon
            located = number in met.sides
            if fall > resting and located and events[number].action is not None:
                return found._replace(endless=events[number].name)
        return found

    def _value(self, met: Meeting, row: Array | None = None) -> Array:
        """Return the values of all events in the state of an instant, or another one then."""
        row = met.row if row is None else row
        found: Array = self._values(
            row[None], met.held[None], np.array([met.time]), np.array([met.case])
        )[0]
        return found

    def _value_ahead(self, met: Meeting, ahead: Ahead, length: float) -> Array:
        return self._value(met._replace(time=met.time + length, row=ahead.at(length)))

    def _rates(self, case: int, time: float, row: Array, held: Array, ahead: Ahead) -> Array:
        """Return the time derivatives of all values in a state."""
        model = self._system.model
        nq, nv = model.nq, model.nq + model.nv
        # first differences: derivatives decide by their sign and order of magnitude only
        short = 1e-4 * ahead.horizon
        rate = (ahead.at(short) - row) / short
        for joint in model.joints:
            i, j = model.slice(joint.name, of="q"), model.slice(joint.name, of="v")
            rate[:nq][i] = joint.position_rate(row[:nq][i].tolist(), row[nq:nv][j].tolist())
        return self._values.rates(row, rate, held, time, case)


class EventValues:
    """Values of all events, of one robot or of many cases."""

    def __init__(
        self, system: System, watch: Watch, parameters: Mapping[str, object], cases: int | None
    ) -> None:
        """Compile the expressions.

        Args:
            system: What moves.
            watch: The events.
            parameters: Run-time numbers that replace those of model, world and elements.
            cases: Size of the batch; None for one robot.
        """
        self._system, self._watch, self._parameters = system, watch, parameters
        self._size, self._cases = system.drive_size, cases
        self._kernel, self._rows = self._bound(watch.kernel(system))
        self._rate_kernel: Callable[..., Array] | None = None
        self._rate_rows: dict[str, Array] = {}

    def __call__(self, state: Array, held: Array, time: Array, cases: Cases) -> Array:
        """Return the values in some states, shape (states, events).

        Args:
            state: (*q, *v, *x), shape (states, numbers).
            held: What is held there, shape (states, numbers).
            time: When [s], shape (states,).
            cases: To which cases they belong.
        """
        u = np.ascontiguousarray(held[:, : self._size])
        if self._cases is None:
            found = [
                self._kernel(state[k], u[k], time[k], errors="flag")[0] for k in range(len(state))
            ]
            return np.array(found)
        rows = {name: values[cases] for name, values in self._rows.items()}
        answer: Array = self._kernel(state, u, time, errors="flag", **rows)[0]
        return answer

    def rates(self, state: Array, rate: Array, held: Array, time: float, case: int) -> Array:
        """Return the time derivatives of the values in one state, shape (events,).

        Args:
            state: (*q, *v, *x), shape (numbers,).
            rate: Its time derivative, shape (numbers,).
            held: What is held there, shape (numbers,).
            time: When [s].
            case: To which case it belongs.
        """
        if self._rate_kernel is None:
            # made when first needed: many runs have no action
            kernel = self._watch.rate_kernel(self._system)
            self._rate_kernel, self._rate_rows = self._bound(kernel)
        u = np.ascontiguousarray(held[: self._size])
        one = {name: values[case] for name, values in self._rate_rows.items()}
        found: Array = self._rate_kernel(state, u, time, rate, errors="flag", **one)[0]
        return np.nan_to_num(found)

    def _bound(self, kernel: Callable[..., Array]) -> tuple[Callable[..., Array], dict[str, Array]]:
        known = kernel.__self__.parameters  # type: ignore[attr-defined]
        own = {name: value for name, value in self._parameters.items() if name in known}
        return bind_parameters(kernel, own, self._cases)


def _acted(
    system: System, event: Event | TimeEvent, time: float, row: Array, held: Array
) -> tuple[Array, bool]:
    """Return the state (*q, *v, *x) after the action of an event, and whether it gave one.

    A ball at rest that bounces is given the state it has; an action that only looks gives none.
    """
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
    sizes: Sequence[tuple[int, ...]] = [(nq,), (nv - nq,), (len(row) - nv,)]
    for name, part, size in zip("qvx", parts, sizes, strict=True):
        if part.shape != size:
            raise ShapeError(f"event {event.name!r}: {name}", size, part.shape)
        if not np.isfinite(part).all():
            raise NonFiniteError(f"event {event.name!r}: {name}")
    found = np.concatenate(parts)
    return found, answer is not None or found.tobytes() != row.tobytes()
