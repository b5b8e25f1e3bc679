"""Events: instants of a run at which an expression of the state crosses zero, or given times.

Native loops detect a sign change at the end of a step. The instant is located by repeating that
step with shorter lengths, with the method of the run. The located instant is the end of the bracket
where the sign has changed already, so that the same crossing is not detected again.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.tape_calls import scalars
from tiburon.argument_checks import check_signature
from tiburon.errors import DomainError, ModelError, OptionError, ShapeError, shown
from tiburon.record import record
from tiburon.simulation.state import State
from tiburon.simulation.system import System
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.differentiation import push_forward
from tiburon.trace.program import Input
from tiburon.trace.regions.region import as_value, float_node
from tiburon.trace.value import common_graph

__all__ = ["TIME_TOLERANCE", "Event", "EventRecord", "TimeEvent", "Watch", "locate"]

Array = NDArray[np.float64]
Scalars = tuple[Scalar, ...]

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
    """A traced function of the state that gives one number; the event is where it crosses zero."""

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


@record
class TimeEvent:
    """A given time of the run, the same for all cases."""

    name: str
    """Unique among the events of a run."""

    time: float
    """When [s]; not before the start of the run. A time event at the start happens there."""

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


@record(eq=False)
class EventRecord:
    """An event that happened."""

    name: str
    """Name of the event."""

    time: float
    """When [s]."""

    case: int
    """Which case of a batch, counted in C order; 0 for one robot."""

    q: Array
    """Position there [m or rad], shape (nq,), before any action."""

    v: Array
    """Joint velocity there [m/s or rad/s], shape (nv,), before any action."""

    x: Array
    """Inner states there, shape (nx,), before any action."""


class Watch:
    """The events of a run, as native loops look for them."""

    def __init__(
        self, events: Sequence[Event | TimeEvent], begin: float = -math.inf, dt: float = 0.0
    ) -> None:
        """List the events.

        Args:
            events: In the order in which they happen where several happen at one instant.
            begin: Start of the run [s].
            dt: Distance of two times of its grid [s]. Time events at a time of the grid are moved
                onto it by a rounding error, so that none at the end of a run is lost.

        Raises:
            ModelError: If two have the same name, or something is no event.
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

    def values(
        self,
        system: System,
        q: Sequence[Scalar],
        w: Sequence[Scalar],
        u: Sequence[Scalar],
        time: Scalar,
    ) -> Scalars:
        """Return the value of each expression in a state."""
        state = system.state(q, w, u, time)
        found = []
        for event in self.events:
            given = as_traced(event.expression(state)).reshape(-1).tolist()
            if len(given) != 1:
                raise ShapeError(f"event {event.name!r}: expression", "1 number", len(given))
            found.append(given[0])
        return tuple(found)

    def crossed(self, before: Sequence[Scalar], after: Sequence[Scalar]) -> Scalars:
        """Return 1 for each expression that crosses zero in its direction, else 0.

        A value that leaves zero has crossed it before, so that going on from an event does not
        meet it again.
        """
        found = []
        for event, a, b in zip(self.events, before, after, strict=True):
            up, down = (a < 0.0) & (b >= 0.0), (a > 0.0) & (b <= 0.0)
            sides = {1: up, -1: down, 0: up | down}
            found.append(np.where(sides[event.direction], 1.0, 0.0))
        return tuple(found)

    def key(self, system: System) -> str:
        """Return text that is equal exactly if the code of all expressions is."""
        program = system.trace(self._run(system), self._inputs(system), "events")
        directions = tuple(event.direction for event in self.events)
        text = f"{program.key:016x} {directions}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def kernel(self, system: System) -> Callable[..., Any]:
        """Return a kernel that gives all values for (state, u, time)."""
        from tiburon.native.kernel import ProgramSource, make_kernel

        program = system.trace(self._run(system), self._inputs(system), "events")
        return make_kernel(ProgramSource(program), system.parameters())

    def rate_kernel(self, system: System) -> Callable[..., Any]:
        """Return a kernel that gives the time derivatives of all values.

        It takes (state, u, time, rate), with the time derivative of the state.
        """
        from tiburon.native.kernel import ProgramSource, make_kernel

        nq, inputs = system.model.nq, self._inputs(system)

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

        inputs = [*inputs, Input("rate", inputs[0].shape)]
        program = system.trace(run, inputs, "event_rates")
        return make_kernel(ProgramSource(program), system.parameters())

    def _inputs(self, system: System) -> list[Input]:
        model = system.model
        return [
            Input("state", (model.nq + model.nv + system.nx,)),
            Input("u", (system.drive_size,)),
            Input("time", ()),
        ]

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
    """Find where values change their sign, in many steps at once.

    The false-position method in the form of Illinois (Dowell and Jarratt 1971), with halving in
    every third round so that the bracket surely shrinks.

    Args:
        value: Gives the value after each of the given times from the start of each step [s],
            shape (n,).
        before: Values at the start of the steps, shape (n,).
        after: Values at their ends, of the other sign or zero, shape (n,).
        length: Lengths of the steps [s], shape (n,); negative ones go back in time.
        start: Where brackets begin [s], shape (n,); at the start of the steps by default. Only the
            sign of the values there counts.

    Returns:
        Times from the start of each step [s], shape (n,): at the end of a bracket of width 1e-12 s
        where the sign has changed.
    """
    low = np.zeros_like(length) if start is None else start.copy()
    high = length.copy()
    g_low, g_high = before.copy(), after.copy()
    sign = np.sign(before)
    for round_ in range(SEARCH_LIMIT):
        width = high - low
        # what a float can tell apart near the end of the step
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
