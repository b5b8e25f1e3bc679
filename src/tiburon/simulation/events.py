"""Events: instants of a run at which an expression of the state crosses zero, or given times.

Native loops detect a sign change at the end of a step. The instant is located by repeating that
step with shorter lengths, with the method of the run. The located instant is the end of the bracket
where the sign has changed already, so that the same crossing is not detected again.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.tape_calls import scalars
from tiburon.argument_checks import check_signature
from tiburon.arguments import public
from tiburon.arrays import Array, NDArray
from tiburon.errors import (
    DomainError,
    ModelError,
    NonFiniteError,
    OptionError,
    ShapeError,
    UnknownNameError,
    shown,
)
from tiburon.loops.constraints import loop_rows
from tiburon.record import record
from tiburon.results.outcome import EventRecord
from tiburon.simulation.control_calls import state_at
from tiburon.simulation.run_parameters import bind_own, state_inputs, state_kernel
from tiburon.simulation.settling import settle_state
from tiburon.simulation.state import State
from tiburon.simulation.system import System
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.differentiation import push_forward
from tiburon.trace.program import Input, Program
from tiburon.trace.regions import as_value, float_node
from tiburon.trace.value import common_graph

TIME_TOLERANCE = 1e-12
"""Width of the bracket around an event at which the search ends [s]."""

SEARCH_LIMIT = 100
"""Steps of the search; half of them halve the bracket, which is more than a float can be halved."""


@record
class Event:
    """A crossing of zero by an expression of the state.

    Example:
        A tip that touches the ground ends the run::

            @tb.traced
            def height(state):
                _, place = tb.forward_kinematics(arm, state.q, frames="tip")
                return place[2]

            tb.simulate(arm, 5.0, events=[tb.Event("touch", height, direction=-1, terminal=True)])
    """

    name: str
    """Unique among the events of a run."""

    expression: Callable[[State], Any]
    """A traced function of the state that returns one value; an event is a zero crossing."""

    direction: int = 0
    """Which crossings count: +1 upward, -1 downward, 0 both."""

    terminal: bool = False
    """Whether the run of a case ends there."""

    action: Callable[[State], Any] | None = None
    """Called with the state at the event; what it returns replaces q, v, x: a `State`, a dict of
    those that change, or None. The state may be changed in place."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.direction not in (-1, 0, 1):
            raise OptionError(f"event {self.name!r}: direction", (-1, 0, 1), self.direction)
        _check_function(self.name, "expression", self.expression)
        if self.action is not None:
            _check_function(self.name, "action", self.action)


@public
@record
class TimeEvent:
    """A given time of the run, the same for all cases.

    Example:
        ``tb.simulate(arm, 1.0, events=[tb.TimeEvent("half time", 0.5, terminal=True)])``
    """

    name: str
    """Unique among the events of a run."""

    time: float
    """Time [s]; not before the start of the run. A time event at the start happens there."""

    terminal: bool = False
    """Whether the run ends there."""

    action: Callable[[State], Any] | None = None
    """As that of `Event`."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not math.isfinite(self.time):
            raise DomainError(f"event {self.name!r}: time", "a finite time [s]", f"{self.time}")
        if self.action is not None:
            _check_function(self.name, "action", self.action)

    direction = 1

    def expression(self, state: State) -> Any:
        """Return the time that has passed since the event [s]."""
        return state.time - self.time


def _on_grid(event: Event | TimeEvent, begin: float, dt: float) -> Event | TimeEvent:
    """Return an event whose time, if it has one, is exactly that of the grid where it is near."""
    if not isinstance(event, TimeEvent) or not dt:
        return event
    steps = (event.time - begin) / dt
    nearest = begin + round(steps) * dt
    near = abs(event.time - nearest) <= TIME_TOLERANCE + 4e-16 * abs(event.time)
    if steps < (-0.5 if near else 0.0):
        raise DomainError(
            f"event {event.name!r}: time",
            f"at least {begin:g} s, the start of the run",
            f"{event.time:g} s",
        )
    return replace(event, time=nearest) if near and event.time != nearest else event


def _check_function(name: str, what: str, function: object) -> None:
    """Refuse what is not a function of the state."""
    advice = f"write def {what}(state): ..., which finds state.q, state.v, state.x and state.time"
    if not callable(function) or isinstance(function, type):
        got = f"{type(function).__name__} {function!r}"[:80]
        raise ModelError(f"event {name!r}: {what}: expected a function, got {got}; {advice}")
    check_signature(function, f"event {name!r}: {what}", ("state",), advice=advice)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise ModelError(f"event: expected a name, got {shown(name)}")


class Watch:
    """The events of a run, as native loops look for them."""

    def __init__(
        self, events: Sequence[Event | TimeEvent], begin: float = -math.inf, dt: float = 0.0
    ) -> None:
        """List the events.

        Args:
            events: In the order in which simultaneous ones happen.
            begin: Start of the run [s].
            dt: Interval of its time grid [s]. Time events within rounding of a grid time are moved
                onto it, so that none at the end of a run is lost.

        Raises:
            ModelError: If two have the same name, or an entry is not an event.
            DomainError: If a time event lies before the start of the run.
        """
        for event in events:
            if not isinstance(event, (Event, TimeEvent)):
                raise ModelError(
                    f"events: expected Event or TimeEvent, got {shown(event)}; write "
                    "Event('name', expression)"
                )
        names = [event.name for event in events]
        if len(set(names)) < len(names):
            raise ModelError(f"events: expected names that differ, got {', '.join(names)}")
        self.events = tuple(_on_grid(event, begin, dt) for event in events)

    def __len__(self) -> int:
        return len(self.events)

    def values(self, system: System, q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        """Return the value of each expression in a state."""
        state = state_at(system, q, w, u, time)
        found = []
        for event in self.events:
            given = as_traced(event.expression(state)).reshape(-1).tolist()
            if len(given) != 1:
                raise ShapeError(f"event {event.name!r}: expression", "1 number", len(given))
            found.append(given[0])
        return tuple(found)

    def crossed(self, before: Scalars, after: Scalars) -> Scalars:
        """Return 1 for each expression that crosses zero in its direction, else 0.

        A value that leaves zero has crossed it before: continuing from an event does not detect it
        again.
        """
        found = []
        for event, a, b in zip(self.events, before, after, strict=True):
            up, down = (a < 0.0) & (b >= 0.0), (a > 0.0) & (b <= 0.0)
            sides = {1: up, -1: down, 0: up | down}
            found.append(np.where(sides[event.direction], 1.0, 0.0))
        return tuple(found)

    def program(self, system: System) -> Program:
        """Trace all expressions."""
        return system.trace(self._run(system), state_inputs(system), "events")

    def key(self, system: System) -> str:
        """Return text that is equal exactly if the code of all expressions is."""
        program = self.program(system)
        directions = tuple(event.direction for event in self.events)
        text = f"{program.key:016x} {directions}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def kernel(self, system: System) -> Callable[..., Any]:
        """Return a kernel that returns all values for (state, u, time)."""
        return state_kernel(system, self._run(system), "events")

    def rate_kernel(self, system: System) -> Callable[..., Any]:
        """Return a kernel of the rates of all values, for (state, u, time, rate of state)."""
        nq = system.model.nq

        def run(given: Any) -> Any:
            state, u, rate = (scalars(given[name]) for name in ("state", "u", "rate"))
            time = given["time"]
            values = self.values(system, state[:nq], state[nq:], u, time)
            graph = common_graph((*state, time))
            assert graph is not None
            along = {
                float_node(graph, x): float_node(graph, dx)
                for x, dx in zip((*state, time), (*rate, 1.0), strict=True)
            }
            found = push_forward(graph, [float_node(graph, g) for g in values], along)
            return [as_value(graph, node) for node in found]

        rate = Input("rate", state_inputs(system)[0].shape)
        return state_kernel(system, run, "event_rates", [rate])

    def _run(self, system: System) -> Callable[[Any], Any]:
        nq = system.model.nq

        def run(given: Any) -> Any:
            state, u = scalars(given["state"]), scalars(given["u"])
            return list(self.values(system, state[:nq], state[nq:], u, given["time"]))

        return run


def locate(
    value: Callable[[Array], Array],
    before: Array,
    after: Array,
    length: Array,
    start: Array | None = None,
) -> Array:
    """Locate sign changes in many steps at once.

    The false-position method in the form of Illinois (Dowell and Jarratt 1971), with bisection in
    every third iteration so that the bracket shrinks. A bracket that begins early in its step,
    after an action, is halved in the ratio of its ends first: what turned back there soon comes
    again.

    Args:
        value: Returns the values at given times from the start of each step [s], shape (n,).
        before: Values at the start of the steps, shape (n,).
        after: Values at their ends, of the other sign or zero, shape (n,).
        length: Lengths of the steps [s], shape (n,); negative ones go back in time.
        start: Start of the brackets [s], shape (n,); that of the steps by default. Only the sign of
            the values there counts.

    Returns:
        Times from the start of each step [s], shape (n,): the end of a bracket of width 1e-12 s,
        where the sign has changed.
    """
    low = np.zeros_like(length) if start is None else start.copy()
    high = length.copy()
    turned = low > 0.0
    # only a sign: guesses from it are no numbers
    g_low, g_high = np.where(turned, np.nan, before), after.copy()
    sign = np.sign(before)
    for round_ in range(SEARCH_LIMIT):
        width = high - low
        # the resolution of a float near the end of the step
        wide = np.abs(width) > np.maximum(TIME_TOLERANCE, 4e-16 * np.abs(length))
        if not wide.any():
            break
        middle = low + 0.5 * width
        if round_ % 3 < 2:
            with np.errstate(all="ignore"):
                guess = low - g_low * width / (g_high - g_low)
            # a guess at the very edge would leave the bracket as wide as it is
            edge = np.minimum(0.4 * TIME_TOLERANCE, 0.25 * np.abs(width)) * np.sign(width)
            inside = np.abs(guess - low) < np.abs(width)
            guess = np.where(np.isfinite(guess) & inside, guess, middle)
            guess = np.where(np.abs(guess - low) < np.abs(edge), low + edge, guess)
            guess = np.where(np.abs(high - guess) < np.abs(edge), high - edge, guess)
            middle = guess
        middle = np.where(turned & (high > 4.0 * low), np.sqrt(np.abs(low * high)), middle)
        middle = np.where(wide, middle, high)
        g = value(middle)
        changed = np.sign(g) != sign
        right, left = wide & changed, wide & ~changed
        # Illinois: the end that stays is believed half as much
        g_low = np.where(right, 0.5 * g_low, np.where(left, g, g_low))
        g_high = np.where(right, g, np.where(left, 0.5 * g_high, g_high))
        high = np.where(right, middle, high)
        low = np.where(left, middle, low)
    return high


# one instant of one case: events located together, their actions, and the look ahead

Cases = NDArray[np.intp]

MOST_EVENTS = 1000
"""Instants with an action in one step, after which a case ends."""

SIMULTANEOUS = 2.0 * TIME_TOLERANCE
"""Events at most this far apart happen at one instant [s]: each is located to half of it."""

STOPPED_RATE = 1e-6
"""An action stops a crossing if it leaves no more than this part of its rate: rounding leaves less,
and what passes on purpose keeps more."""

RESTING_CHANGE = 1e-9
"""An expression rests at zero if a step moves it by no more than this part of what it would have
moved before the action: more than residuals of loops, less than any fall."""


class Ahead(NamedTuple):
    """The motion from a state on, without events."""

    horizon: float
    """How far it is known [s]; zero if there is no step from this state."""

    at: Callable[[float], Array]
    """Returns the state after a time up to the horizon [s]."""


class Meeting(NamedTuple):
    """Events of one case that happen at one instant."""

    case: int
    time: float
    """Time [s]."""
    row: Array
    """State (*q, *v, *x) there."""
    held: Array
    """Held values there."""
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
        event_records: list[EventRecord],
    ) -> None:
        """Prepare instants; `ahead` returns the motion of a case from a time and state on."""
        self._system, self._watch, self._values = system, watch, values
        self._ahead, self._records = ahead, event_records

    def happen(self, met: Meeting) -> Instant:
        """Let events happen at one instant of a case."""
        events, model = self._watch.events, self._system.model
        nq, nv = model.nq, model.nq + model.nv
        row, sides = met.row, dict(met.sides)
        acted, changed, ended, endless = False, False, None, None
        queue = sorted(sides)
        for _ in range(MOST_EVENTS):
            for number in queue:
                parts = row[:nq].copy(), row[nq:nv].copy(), row[nv:].copy()
                self._records.append(EventRecord(events[number].name, met.time, met.case, *parts))
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
        """Return the events at the start of a run, with the places of their cases.

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

    def _looked_ahead(self, met: Meeting, sides: Mapping[int, float], found: Instant) -> Instant:
        """Return the sides of zero of the expressions after actions."""
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
            if -s * slopes[k] <= STOPPED_RATE * abs(before[k]) or -s * before[k] <= 0.0
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
            resting = RESTING_CHANGE * abs(before[number]) * ahead.horizon
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
        """Compile the expressions; `cases` is the size of the batch, None for one robot."""
        self._system, self._watch, self._parameters = system, watch, parameters
        self._size, self._cases = system.drive_size, cases
        self._kernel, self._rows = bind_own(watch.kernel(system), parameters, cases)
        self._rate_kernel: Callable[..., Array] | None = None
        self._rate_rows: dict[str, Array] = {}

    def __call__(self, state: Array, held: Array, time: Array, cases: Cases) -> Array:
        """Return the values in some states of given cases, shape (states, events)."""
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
        """Return the time derivatives of the values in one state of a case, shape (events,)."""
        if self._rate_kernel is None:
            # made when first needed: many runs have no action
            kernel = self._watch.rate_kernel(self._system)
            self._rate_kernel, self._rate_rows = bind_own(kernel, self._parameters, self._cases)
        u = np.ascontiguousarray(held[: self._size])
        one = {name: values[case] for name, values in self._rate_rows.items()}
        found: Array = self._rate_kernel(state, u, time, rate, errors="flag", **one)[0]
        return np.nan_to_num(found)


def _acted(
    system: System, event: Event | TimeEvent, time: float, row: Array, held: Array
) -> tuple[Array, bool]:
    """Return the state (*q, *v, *x) after the action of an event, and whether it returned one."""
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


def simultaneous(times: Array, numbers: NDArray[np.intp]) -> Iterator[tuple[float, list[int]]]:
    """Group events that happen at one instant, in order of time.

    Yields:
        The latest time of each group [s], where all its expressions have crossed zero, and the
        numbers of its events.
    """
    order = np.argsort(times, kind="stable")
    group: list[int] = []
    for place, following in zip(order, [*order[1:], None], strict=True):
        group.append(int(numbers[place]))
        if following is None or times[following] - times[place] > SIMULTANEOUS:
            yield float(times[place]), group
            group = []


# equal steps in which events happen: the instant in the step, and the rest of it after actions

# places of the clock of a step, as `step.Clock` lists them
BEGIN, DT, STEP, DONE, SAMPLE = 0, 1, 2, 3, 5


class Taken(NamedTuple):
    """One step of some cases."""

    state: Array
    """At its end, shape (cases, states)."""

    held: Array
    """Held values and memory there, shape (cases, values)."""

    failed: NDArray[np.bool_]
    """Cases that met a non-finite value, shape (cases,)."""


@record(eq=False)
class Crossing:
    """What a step with events came to, for some cases."""

    state: Array
    """At the end of the step, or where a case ended, shape (cases, values)."""

    held: Array
    """Held values there, shape (cases, values)."""

    sides: Array
    """Sides of zero to assume from there on, 0 to go by the values, shape (cases, events)."""

    until: Array
    """Until time [s], shape (cases, events)."""

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
        take: Callable[..., "Taken"],
        system: System,
        watch: Watch,
        parameters: Mapping[str, Any],
        cases: int | None,
        event_records: list[EventRecord],
        clock: Array,
    ) -> None:
        """Prepare a search.

        Args:
            take: Takes one step of some cases, ``take(state, held, clock, cases, whole=...)``: a
                whole step of the run, or a part of one without memory.
            system: The system.
            watch: The events.
            parameters: Run-time parameters that replace those of model, world and elements.
            cases: Size of the batch; None for one robot.
            event_records: List to which events are appended.
            clock: Clock of the run, as a step kernel takes it.
        """
        self._take, self._system, self._watch = take, system, watch
        self._values = EventValues(system, watch, parameters, cases)
        self._clock = clock.copy()
        self._clock[[SAMPLE, DONE]] = 0.0
        self.instants = Instants(system, watch, self._values, self._ahead, event_records)

    def cross(
        self, state: Array, held: Array, clock: Array, cases: Cases, sides: Array, until: Array
    ) -> Crossing:
        """Take the step in which events happen.

        Events that neither act nor end a case do not change the motion: the step is taken as
        without them.

        Args:
            state: At the start of the step, shape (cases, states).
            held: Held values, shape (cases, values).
            clock: Clock of the step, shape (cases, fields of `step.Clock`).
            cases: Numbers of the cases.
            sides: Assumed sides of zero at the start of the step, shape (cases, events).
            until: Times up to which they are assumed [s], shape (cases, events).
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
        last = clock[:, BEGIN] + (clock[:, DONE] + 1.0) * clock[:, DT]
        offset = np.zeros(count)
        going = np.arange(count)
        latest: dict[int, str] = {}
        for turn in range(MOST_EVENTS + 1):
            if not len(going):
                return at
            now = clock[going]
            if turn:
                now[:, SAMPLE] = 0.0
            now[:, STEP] = now[:, STEP] - offset[going]
            now[:, BEGIN] = now[:, BEGIN] + offset[going]
            end = self._take(at.state[going], at.held[going], now, cases[going], whole=turn == 0)
            before = self._values(at.state[going], at.held[going], _when(now), cases[going])
            after = self._values(end.state, at.held[going], last[going], cases[going])
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
                    at.state[case], at.held[case] = end.state[local], end.held[local]
                    at.sides[case] = np.where(early[local], at.sides[case], 0.0)
            going = np.array(still, dtype=np.intp)
        at.endless.update({int(case): latest[int(case)] for case in going})
        return at

    def _ahead(self, case: int, time: float, row: Array, held: Array) -> Ahead:
        """Return the motion of a case from a state on, over the length of a step."""
        clock = self._clock.copy()
        clock[BEGIN] = time
        cases = np.array([case])
        held = self._touched(row, held, clock, cases)

        def run(length: float) -> Taken:
            clock[STEP] = length
            return self._take(row[None], held[None], clock[None], cases, whole=False)

        horizon = float(clock[DT])
        if run(horizon).failed.any():
            horizon = 0.0
        return Ahead(horizon, lambda length: run(length).state[0])

    def _touched(self, row: Array, held: Array, clock: Array, cases: Cases) -> Array:
        """Return held values with the contact forces of a state that they do not belong to."""
        if not self._system.acts_in_contact:
            return held
        clock = clock.copy()
        clock[STEP] = 0.0
        taken = self._take(row[None], held[None], clock[None], cases, whole=False)
        found: Array = taken.held[0]
        return found

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
            found = self._take(states, held, own, numbers, whole=False)
            g = self._values(found.state, held, _when(own) + length, numbers)
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
        """Process events in order of time, up to the first that acts or ends in each case.

        Returns:
            For each case with an action, by its place, the elapsed part of the step [s].
        """
        acting: dict[int, float] = {}
        for local in np.unique(pairs[:, 0]) if len(pairs) else ():
            case = int(going[local])
            mine = np.flatnonzero(pairs[:, 0] == local)
            for place, numbers in simultaneous(places[mine], pairs[mine, 1]):
                own = clock[local : local + 1].copy()
                own[:, STEP] = place
                one = slice(case, case + 1)
                found = self._take(at.state[one], at.held[one], own, cases[one], whole=False)
                time = float(_when(own)[0] + place)
                sides = {number: float(np.sign(before[local, number])) for number in numbers}
                row = found.state[0]
                met = Meeting(int(cases[case]), time, row, at.held[case], sides)
                instant = self.instants.happen(met)
                at.time[case] = time
                if instant.ended is not None:
                    at.ended[case] = instant.ended
                if instant.endless is not None:
                    at.endless[case] = instant.endless
                if instant.acted or instant.ended is not None:
                    at.state[case] = instant.row
                    own[:, BEGIN] = own[:, BEGIN] + place
                    at.held[case] = self._touched(instant.row, at.held[case], own[0], cases[one])
                    at.sides[case], at.until[case] = instant.sides, instant.until
                    latest[case] = self._watch.events[numbers[0]].name
                    acting[int(local)] = place
                    break
        return acting


def _when(clock: Array) -> Array:
    """Return the time at the start of a step [s], shape (cases,)."""
    found: Array = clock[:, BEGIN] + clock[:, DONE] * clock[:, DT]
    return found


# actions on switched loops


@public
def latch(state: State, loop: str, *, here: bool = True) -> State:
    """Close a switched loop in a state; an impulse removes velocities that violate it.

    For actions of events, which return what this returns.

    Args:
        state: One case, as actions get it; a `LoopSwitch` of the loop is among the forces.
        loop: Name of the loop.
        here: Whether the loop holds on to where its two places are now, as a hand does; else they
            are moved to where its joint puts them, as a latch does that snaps in from near.

    Returns:
        The state, changed in place: the nearest velocity in the metric of the mass matrix.

    Raises:
        UnknownNameError: If no switch has this loop.
        DomainError: If the loop cannot be closed from here.

    Example:
        ``tb.Event("touch", height, action=lambda state: tb.latch(state, "grip"))``
    """
    place = _place(state, loop)
    system, x = state.system, np.array(state.x, dtype=np.float64)
    rows = loop_rows(system.model, loop)
    q, v, time = _scalars(state.q), _scalars(state.v), np.float64(state.time)
    gaps = np.array([float(gap) for gap in system.held_loops.gaps(q, time)])[rows.start : rows.stop]
    x[place] = 1.0
    x[place + 1 : place + 1 + len(rows)] = gaps if here else 0.0
    after, w, gap = settle_state(system, q, (*v, *_scalars(x)), time)
    if not gap <= system.held_loops.most_open:
        raise DomainError(
            f"latch: loop {loop!r}",
            "places near enough to be closed in a few steps",
            f"a gap of {np.abs(gaps).max():.3g} m or rad",
            advice="latch it nearer to its joint, or with here=True",
        )
    nv = system.model.nv
    state.q, state.v, state.x = np.array(after), np.array(w[:nv]), x
    return state


@public
def release(state: State, loop: str) -> State:
    """Open a switched loop in a state; nothing else changes.

    Args:
        state: One case, as actions of events get it.
        loop: Name of the loop.

    Returns:
        The state, changed in place.

    Raises:
        UnknownNameError: If no switch has this loop.
    """
    place = _place(state, loop)
    state.x = np.array(state.x, dtype=np.float64)
    state.x[place] = 0.0
    return state


def _place(state: State, loop: str) -> int:
    """Return where the states of a switch begin."""
    known = state.system.held_loops.switch_places
    if loop not in known:
        raise UnknownNameError(
            "switched loop", loop, known, where="this run", listing="elements=[LoopSwitch(...)]"
        )
    if np.ndim(state.q) != 1:
        raise ShapeError("state", "one case", f"shape {np.shape(state.q)}")
    return known[loop]


def _scalars(values: Any) -> tuple[Any, ...]:
    return tuple(np.float64(x) for x in values)
