"""Runs of adaptive steps: each case its own, all of them on one grid of recorded times."""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.algorithms.tape_calls import scalars
from tiburon.arrays import Array, NDArray
from tiburon.contact.mode_forces import mode_margins
from tiburon.record import record
from tiburon.simulation.control_calls import hold
from tiburon.simulation.engine import Cases, Engine
from tiburon.simulation.events import (
    MOST_EVENTS,
    TIME_TOLERANCE,
    Ahead,
    EventValues,
    Instants,
    Meeting,
    TimeEvent,
    Watch,
    locate,
    simultaneous,
)
from tiburon.simulation.integrators.adaptive import (
    AdaptiveState,
    Settle,
    Tolerances,
    advance_adaptive,
    restart_adaptive,
    start_adaptive,
    state_at,
)
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.integrators.method import Pair
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.integrators.rate_jacobian import ImplicitRates
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.run_parameters import bind_parameters
from tiburon.simulation.settling import settle_state
from tiburon.simulation.step import MOST_STEPS, chosen, resting_state, traced_rates
from tiburon.simulation.system import System
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.program import Input, Program
from tiburon.trace.regions import function, while_loop
from tiburon.trace.structure import Structure, flatten, rebuild

if TYPE_CHECKING:
    from tiburon.simulation.run import RunSetup

# the kernel: starts, restarts after a jump, steps until times are reached, interpolates

UNREACHED_TIME = 1e300
"""A time that is never reached [s]."""


class AdaptiveClock(NamedTuple):
    """The argument `clock` of an adaptive kernel; times to reach follow these fields."""

    rtol: Scalar
    atol: Scalar

    first: Scalar
    """First step to try [s]; zero to choose one."""

    start: Scalar
    """1 to start, 2 to continue after a jump, both from the given state and time; 0 to continue."""

    time: Scalar
    """Time of the given state [s]."""

    stop: Scalar
    """Time that no step goes beyond [s]."""

    attempts: Scalar
    """Most attempts in this call."""

    sample: Scalar
    """Whether to sample the controller in the given state: 1 or 0."""


PARTS_PER_STEP = 8
"""Parts of a step that are examined for events; two crossings within one part are missed."""

ADAPTIVE_CLOCK = len(AdaptiveClock._fields)
"""Where the times to reach begin."""


class _Going(NamedTuple):
    """State of the loop that looks for events."""

    at: AdaptiveState
    g: Scalars
    met: Scalars


def memory_form(system: System, pair: Pair) -> tuple[int, Structure]:
    """Return size and structure of the integrator memory of a case."""
    q, w, rates = resting_state(system)
    tolerances = Tolerances(1.0, 1.0)
    leaves, structure = flatten(
        start_adaptive(pair, Manifold(system.model), rates, q, w, 0.0, tolerances, 1.0)
    )
    return len(leaves), structure


@record(slots=False, eq=False)
class AdaptiveSource:
    """Source of a kernel of adaptive steps.

    The kernel takes (memory, state, u, clock): memory of the integrator, a state (*q, *v, *x) to
    start from, held values, and an `AdaptiveClock` followed by times; where events are watched,
    also the assumed sides of zero. It returns states at these times, memory, held values, and which
    events stopped it.
    """

    system: System
    method: str
    slots: int
    """How many states one call gives."""
    watch: Watch | None = None

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.method}_adaptive_loop"

    @property
    def pair(self) -> Pair:
        """The method with its error estimate."""
        found = METHODS[self.method].pair
        assert found is not None
        return found

    @property
    def key(self) -> str:
        """Text that is equal exactly if the code is."""
        events = None if self.watch is None else self.watch.key(self.system)
        text = repr(("adaptive loop 2", self.method, self.slots, self.system.key, events))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def retrace(self) -> None:
        """Trace user code as it is now."""
        self.system.retrace()

    def inputs(self) -> list[Input]:
        """Return what callers pass."""
        system, model = self.system, self.system.model
        return [
            Input("memory", (memory_form(system, self.pair)[0],)),
            Input("state", (model.nq + model.nv + system.nx,)),
            Input("u", (system.drive_size,)),
            Input("clock", (ADAPTIVE_CLOCK + self.slots,)),
            *([] if self.watch is None else [Input("sides", (len(self.watch),))]),
        ]

    def program(self) -> Program:
        """Trace the steps."""
        return self.system.trace(self._run, self.inputs(), self.name)

    def _run(self, given: Any) -> Any:
        system, pair, nq = self.system, self.pair, self.system.model.nq
        manifold = system.held_loops.manifold()
        form = memory_form(system, pair)[1]
        before, state, u, numbers = (
            tuple(scalars(given[name])) for name in ("memory", "state", "u", "clock")
        )
        clock = AdaptiveClock(*numbers[:ADAPTIVE_CLOCK])
        tolerances = Tolerances(clock.rtol, clock.atol)
        p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
        q, w = state[:nq], state[nq:]
        if system.held:
            fresh = hold(system, q, w, u, clock.time)
            u = chosen(clock.sample > 0.5, fresh, u)

        acceleration: Any = partial(traced_rates(system, manifold, p)[1], u)
        margins: Callable[..., Scalars] = _no_margins
        if system.is_exact:
            acceleration, margins = _exact_rates(system, u, p)
        if METHODS[self.method].is_implicit:
            acceleration = ImplicitRates(system, p).under(u)
        settle = _settling(system, u, p)
        at: AdaptiveState = rebuild(form, iter(before))
        started = start_adaptive(
            pair, manifold, acceleration, q, w, clock.time, tolerances, clock.first
        )
        jumped = restart_adaptive(acceleration, at, q, w, clock.time)
        at = chosen(clock.start > 1.5, jumped, at)
        at = chosen((clock.start > 0.5) & (clock.start < 1.5), started, at)
        limit = at.steps + at.refused + clock.attempts
        met: Scalars = (0.0,) * (0 if self.watch is None else len(self.watch))
        sides: Scalars = () if self.watch is None else tuple(scalars(given["sides"]))

        @function
        def reach(at: AdaptiveState, target: Scalar) -> tuple[AdaptiveState, Scalars, Scalars]:
            found: Scalars = met
            if self.watch is None:
                at = advance_adaptive(
                    pair, manifold, acceleration, at, target, clock.stop, limit, tolerances, settle
                )
            else:
                at, found = self._watching(
                    manifold, acceleration, margins, at, u, sides, target, clock, limit, settle
                )
            q, w = state_at(manifold, at, target)
            if settle is not None:
                # interpolation leaves the loops by its error; ends of steps are on them already
                closed = settle(q, w, target)
                within = target < at.time
                q, w = chosen(within, closed[0], q), chosen(within, closed[1], w)
            return at, found, (*q, *w)

        rows = []
        for target in numbers[ADAPTIVE_CLOCK:]:
            at, met, row = reach(at, target)
            rows.append(row)
        results: dict[str, Any] = {"states": rows, "memory": flatten(at)[0], "held": list(u)}
        if self.watch is not None:
            results["met"] = list(met)
        return results

    def _watching(
        self,
        manifold: Manifold,
        acceleration: Any,
        margins: Callable[..., Scalars],
        at: AdaptiveState,
        u: Scalars,
        sides: Scalars,
        target: Scalar,
        clock: AdaptiveClock,
        limit: Scalar,
        settle: Settle | None,
    ) -> tuple[AdaptiveState, Scalars]:
        """Step until a time is reached or an event happens in a step."""
        watch, system = self.watch, self.system
        assert watch is not None
        tolerances = Tolerances(clock.rtol, clock.atol)

        @function
        def own_values(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
            return watch.values(system, q, w, u, time)

        def event_values(q: Scalars, w: Scalars, time: Scalar) -> Scalars:
            return (*margins(q, w, time), *own_values(q, w, u, time))

        def total(met: Scalars) -> Scalar:
            found: Scalar = 0.0
            for one in met:
                found = found + one
            return found

        def goes_on(going: _Going) -> Any:
            at = going.at
            in_time = (at.time < target) & (at.time < clock.stop) & (at.status == 0.0)
            return in_time & (at.steps + at.refused < limit) & (total(going.met) < 0.5)

        def attempt(going: _Going) -> _Going:
            once = going.at.steps + going.at.refused + 1.0
            at = advance_adaptive(
                self.pair,
                manifold,
                acceleration,
                going.at,
                target,
                clock.stop,
                once,
                tolerances,
                settle,
            )
            # steps may be long: they are looked at in parts
            met: Scalars = (0.0,) * len(going.g)
            before: Scalars = going.g
            for part in range(1, PARTS_PER_STEP):
                time = at.begin + (part / PARTS_PER_STEP) * at.length
                g = event_values(*state_at(manifold, at, time), time)
                met, before = _either(met, watch.crossed(before, g)), g
            g = event_values(at.q, at.w, at.time)
            met = _either(met, watch.crossed(before, g))
            taken = at.steps > going.at.steps
            return _Going(at, chosen(taken, g, going.g), chosen(taken, met, going.met))

        g = event_values(at.q, at.w, at.time)
        g = tuple(np.where(side == 0.0, x, side) for x, side in zip(g, sides, strict=True))
        last: _Going = while_loop(
            goes_on, attempt, _Going(at, g, (0.0,) * len(g)), MOST_STEPS
        ).state
        return last.at, last.met


def _no_margins(*_: Any) -> Scalars:
    return ()


def _exact_rates(
    system: System, u: Scalars, p: Scalars
) -> tuple[Callable[..., Scalars], Callable[..., Scalars]]:
    """Return rates and margins of contact modes for q, w and time: one function computes both."""

    @function
    def both(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> tuple[Scalars, Scalars]:
        found, _, contacts = system.motion(q, w, u, time, p)
        assert contacts is not None
        held, forces = contacts
        return found, tuple(mode_margins(held.problem, forces, held.surfaces, held.modes, time))

    def rates(q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        found: Scalars = both(q, w, u, time)[0]
        return found

    def margins(q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        found: Scalars = both(q, w, u, time)[1]
        return found

    return rates, margins


def _settling(system: System, u: Scalars, p: Scalars) -> Settle | None:
    """Return what brings states back onto loops and held contacts; None for trees."""
    if not (system.model.loops or system.is_exact or system.prescribes):
        return None

    @function
    def settled(
        q: Scalars, w: Scalars, u: Scalars, time: Scalar
    ) -> tuple[Scalars, Scalars, Scalar]:
        return settle_state(system, q, w, time, u, p)

    held = u if system.is_exact else ()

    def settle(q: Scalars, w: Scalars, time: Scalar) -> tuple[Scalars, Scalars, Any]:
        q, w, gap = settled(q, w, held, time)
        return q, w, gap <= system.held_loops.most_open

    return settle


def _either(a: Scalars, b: Scalars) -> Scalars:
    return tuple(np.maximum(x, y) for x, y in zip(a, b, strict=True))


ATTEMPTS_PER_CALL = 256.0
"""Attempted steps of one native call, after which it returns to Python."""

MOST_TRIES = 16
"""Attempts to look one step ahead."""

GRID_STEPS = 8
"""Steps of the grid of the first native call."""

STATES_PER_CALL = 16
"""States that one native call returns for a single robot."""

FIRST, START, TIME, STOP, TRIES, SAMPLE = (
    AdaptiveClock._fields.index(name)
    for name in ("first", "start", "time", "stop", "attempts", "sample")
)


class _Found(NamedTuple):
    """Results of a native call; cases lead in all arrays but states."""

    states: Array
    memory: Array
    held: Array
    met: Array
    failed: NDArray[np.bool_]


class AdaptiveSteps(Engine):
    """All cases of a run with adaptive steps; one robot is one case.

    The attributes are those of `Engine`; `state` belongs to the grid time that is reached, while
    the steps in `memory` are a little further.
    """

    def __init__(
        self,
        system: System,
        setup: "RunSetup",
        events: Watch | None,
        state: Array,
        held: Array,
        hold: int | None,
        *,
        one: bool,
        memory: Array | None = None,
        changes: "type[Changes] | None" = None,
    ) -> None:
        """Prepare a run from initial states and held values of all cases; no step is taken yet.

        Held values jump after every `hold` intervals of the grid; `memory` is that of an earlier
        part. Events change cases as `changes` says, `Changes` by default.
        """
        from tiburon.native.kernel import make_kernel

        super().__init__(system, setup, events, state, held, one)
        self.hold = hold
        self._slots = STATES_PER_CALL if one and events is None else 1
        source = AdaptiveSource(system, setup.method, self._slots, events)
        with system.compiling:
            kernel = make_kernel(source, system.parameters(), first="one" if one else "many")
        self._kernel, self._rows = bind_parameters(kernel, setup.parameters, self._batch)
        self._options: dict[str, Any] = {} if setup.threads is None else {"threads": setup.threads}
        ends = setup.begin, UNREACHED_TIME, ATTEMPTS_PER_CALL, 0.0
        head = AdaptiveClock(setup.rtol, setup.atol, 0.0, 0.0, *ends)
        self._clock = np.array([*map(float, head), *[0.0] * self._slots])
        count = memory_form(system, source.pair)[0]
        self.memory = np.zeros((len(state), count)) if memory is None else memory
        self._start = 1.0 if memory is None else 0.0
        self._changes: Changes | None = None
        if events is not None:
            self._changes = (changes or Changes)(self, setup, events, self._batch)
        # located events that have not happened yet: time, number, side they come from
        self._pending: dict[int, list[tuple[float, int, float]]] = {}
        self._acted: dict[int, int] = {}

    def first_steps(self, seconds: float) -> int:
        """Return a number of steps of the grid for the first call."""
        return GRID_STEPS

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint keeps."""
        own = {"state": self.state, "held": self.held}
        if self._start != 1.0:
            # without it, a resumed run chooses its first step
            own["memory"] = self.memory
        return {**own, **self._event_arrays()}

    def restore_events(self, arrays: Mapping[str, Array], notes: Mapping[str, Any]) -> None:
        """Continue with the events where an earlier part of the run was cut."""
        super().restore_events(arrays, notes)
        for case, known in notes.get("pending", []):
            self._pending[int(case)] = [(float(t), int(k), float(s)) for t, k, s in known]

    def event_notes(self) -> dict[str, Any]:
        """Return what a checkpoint notes of the events."""
        found = super().event_notes()
        # steps reach beyond the times of the grid, and what they met there is still to come
        pending = [[case, [list(one) for one in p]] for case, p in self._pending.items() if p]
        return {**found, "pending": pending} if pending else found

    def start_events(self) -> None:
        """Handle the events that are due at the start of the run."""
        if self._changes is not None:
            self._changes.start()

    def jump(self) -> None:
        """Start steps again after a jump of commands, with the same length."""
        self._start = max(self._start, 2.0) if self._start != 1.0 else 1.0

    def sample(self) -> None:
        """Sample the traced controller and hold its commands from here on."""
        self.memory = self.memory.copy()
        self._restart(self.running, sampled=True)
        if self._changes is not None:
            self._changes.jumped()

    def _step_to(self, end: int) -> None:
        """Continue by steps of the grid, up to one that is to be reached at most; record rows."""
        done, every = self.done, self._every
        ends: list[int] = []
        while (here := ends[-1] if ends else done) < end and len(ends) < self._slots:
            ends.append(min(here - here % every + every, self._last, end))
        running = self.running
        self.memory, self.state = self.memory.copy(), self.state.copy()
        times = self.begin + np.array(ends) * self.dt
        rows = np.full((len(ends), *self.state.shape), np.nan)
        if self._start:
            if self._changes is not None:
                self._changes.jumped()
            self._restart(self.running)
        if self.events is None:
            self._reach(rows, times)
        else:
            for place, time in enumerate(times):
                self._reach_watching(rows[place], float(time))
        running = self.running
        self.state[running] = rows[-1, running]
        self.done = ends[-1]
        # the last row waits: commands at its time may be yet to come
        wanted = [k for k, step in enumerate(ends[:-1]) if step % every == 0]
        if not len(running):
            # nothing is recorded of times that no case has reached
            wanted = [k for k in wanted if not np.isnan(rows[k, :, 0]).all()]
        if wanted:
            assert self.writer is not None
            for k in wanted:
                self.writer.write(float(times[k]), rows[k], self.held, self.readings)
        if self._changes is not None:
            self._changes.reached()

    # native calls

    def _clocks(self, cases: Cases, target: float) -> Array:
        clock = np.tile(self._clock, (len(cases), 1))
        clock[:, STOP] = self._stop()
        clock[:, ADAPTIVE_CLOCK:] = target
        return clock

    def _stop(self) -> float:
        """Return the time of the next jump of commands, or recorded row that steps end at [s]."""
        at_rows = self._changes is not None and self._changes.ends_at_rows
        ends = [every for every in (self.hold, self._every if at_rows else None) if every]
        following = [self.done - self.done % every + every for every in ends]
        return self.begin + min(following) * self.dt if ends else UNREACHED_TIME

    def _call(
        self, memory: Array, state: Array, cases: Cases, clock: Array, sides: Array | None = None
    ) -> _Found:
        given = [memory, state, self.held[cases], clock]
        if self.events is not None:
            given.append(np.zeros((len(cases), len(self.events))) if sides is None else sides)
        if self._one:
            parts = [
                self._kernel(*(array[k] for array in given), errors="flag")
                for k in range(len(cases))
            ]
            found = [np.array([part[0][i] for part in parts]) for i in range(len(parts[0][0]))]
            failed = np.array([bool(part[1]) for part in parts])
        else:
            rows = {name: values[cases] for name, values in self._rows.items()}
            answer, failed = self._kernel(*given, errors="flag", **rows, **self._options)
            found = list(answer)
        met = found[3] if self.events is not None else np.zeros((len(cases), 0))
        return _Found(np.moveaxis(found[0], 1, 0), found[1], found[2], met, failed)

    def _restart(self, cases: Cases, *, sampled: bool = False) -> None:
        """Start, or continue after a jump, all cases at the grid time reached."""
        clock = self._clocks(cases, self.time)
        clock[:, START], clock[:, TIME], clock[:, TRIES] = self._start or 2.0, self.time, 0.0
        clock[:, SAMPLE] = float(sampled)
        found = self._call(self.memory[cases], self.state[cases], cases, clock)
        good = ~found.failed
        self.memory[cases[good]] = found.memory[good]
        if sampled:
            self.held = self.held.copy()
            self.held[cases[good]] = found.held[good]
        self._start = 0.0
        if found.failed.any():
            self._end_diverged(cases[found.failed])

    def _reach(self, rows: Array, times: Array) -> None:
        """Step all cases until the last of some times, and fill in their rows."""
        behind = self.running
        while len(behind):
            self.check()
            clock = self._clocks(behind, float(times[-1]))
            clock[:, ADAPTIVE_CLOCK : ADAPTIVE_CLOCK + len(times)] = times
            found = self._call(self.memory[behind], self.state[behind], behind, clock)
            self._keep(found, behind)
            reached = self.memory[behind, 0]
            for place, time in enumerate(times):
                # rows of a time are those of the call that first reached it
                new = (reached >= time) & np.isnan(rows[place, behind, 0])
                rows[place, behind[new]] = found.states[place, new]
            behind = np.intersect1d(behind[reached < times[-1]], self.running)

    def _keep(self, found: _Found, cases: Cases) -> None:
        """Store the result of a call; end the cases that cannot continue."""
        good = ~found.failed
        self.memory[cases[good]] = found.memory[good]
        # the last value is not zero where a step would have to be too small
        bad = found.failed | (self.memory[cases, -1] != 0.0)
        if bad.any():
            self._end_diverged(cases[bad])

    def _end_diverged(self, cases: Cases) -> None:
        nq = self.system.model.nq
        size = self.state.shape[1]

        def step(case: int) -> tuple[float, float]:
            memory = self.memory[case]
            if not memory.any():
                return self.time, self.dt
            self.state[case] = memory[1 : 1 + size]
            return float(memory[0]), float(memory[1 + nq + 2 * (size - nq)]) or self.dt

        def message(time: float, quantity: str, _: Array) -> str:
            advice = "check the forces there, or take a larger atol and rtol"
            if quantity.startswith("command "):
                advice = "check the controller, which returned a non-finite command"
            return (
                f"diverged at {time:.6g} s: no step is small enough for the tolerance, "
                f"{quantity} first; {advice}"
            )

        self.close_diverged(cases, self.method, step, message)

    # events

    def _reach_watching(self, row: Array, time: float) -> None:
        """Step all cases to a time, events included; fill in the row."""
        self._acted.clear()
        while True:
            self.check()
            self._handle_pending(time)
            running = self.running
            due = {c for c, known in self._pending.items() if known and _due(known[0][0], time)}
            behind = np.array(
                [c for c in running if self.memory[c, 0] < time and int(c) not in due],
                dtype=np.intp,
            )
            if len(behind):
                clock, sides = self._clocks(behind, time), self.sides[behind]
                steps = self._steps(behind)
                found = self._call(self.memory[behind], self.state[behind], behind, clock, sides)
                self._keep(found, behind)
                met = (found.met > 0.0) & ~found.failed[:, None]
                many = self._steps(behind) - steps > 1.0
                # after a step without a crossing the values are on these sides
                self.sides[behind[many]] = 0.0
                self._locate(behind, met)
                quiet = behind[~met.any(axis=1) & (self._steps(behind) > steps)]
                self.sides[quiet] = 0.0
            elif not due:
                break
        running = self.running
        if len(running):
            row[running] = self.at(running, np.full(len(running), time))

    def _steps(self, cases: Cases) -> Array:
        """Return how many steps cases have taken since they started."""
        # as `AdaptiveState` lists them, the last three: steps, refused, status
        found: Array = self.memory[cases, -3]
        return found

    def at(self, cases: Cases, times: Array, memory: Array | None = None) -> Array:
        """Return states within the last step of each case, or of another memory."""
        clock = self._clocks(cases, 0.0)
        clock[:, TRIES] = 0.0
        clock[:, ADAPTIVE_CLOCK] = times
        memory = self.memory[cases] if memory is None else memory
        states: Array = self._call(memory, self.state[cases], cases, clock).states[0]
        return states

    def ahead(self, case: int, time: float, row: Array, held: Array) -> Ahead:
        """Return the motion of a case from a state on, over its first step from there."""
        one = np.array([case])
        clock = self._clocks(one, UNREACHED_TIME)
        clock[:, START], clock[:, TIME], clock[:, TRIES], clock[:, STOP] = (
            1.0,
            time,
            1.0,
            UNREACHED_TIME,
        )
        # a first step by choice may be shorter than what is to be seen
        clock[:, FIRST] = self.dt
        memory = self.memory[one]
        for _ in range(MOST_TRIES):
            found = self._call(memory, row[None], one, clock)
            if found.failed.any():
                break
            memory = found.memory
            if memory[0, 0] > time:
                break
            clock[:, START] = 0.0

        def at(length: float) -> Array:
            found: Array = self.at(one, np.array([time + length]), memory)[0]
            return found

        return Ahead(max(0.0, float(memory[0, 0]) - time) if not found.failed.any() else 0.0, at)

    def _locate(self, cases: Cases, met: NDArray[np.bool_]) -> None:
        """Find when the events of the last steps happened, on their interpolation."""
        met_cases = cases[met.any(axis=1)]
        if not len(met_cases):
            return
        assert self._changes is not None
        assert self.events is not None
        values = self._changes.values
        nq = self.system.model.nq
        # as `AdaptiveState` lists them: time, q, w, rate, h, error, begin, length, ...
        place = 1 + nq + 2 * (self.state.shape[1] - nq) + 2
        begin, length = self.memory[met_cases, place], self.memory[met_cases, place + 1]
        edges = [begin + (part / PARTS_PER_STEP) * length for part in range(PARTS_PER_STEP)]
        edges.append(self.memory[met_cases, 0])
        held = self.held[met_cases]
        g = [values(self.at(met_cases, edge), held, edge, met_cases) for edge in edges]
        # sides are assumed at the start of the first step after an instant; later there are none
        sides, until = self.sides[met_cases], self.until[met_cases]
        g[0] = np.where(sides != 0.0, sides, g[0])
        for part in range(PARTS_PER_STEP):
            # before the time up to which its side is known no expression has come back
            known = (sides != 0.0) & (until >= edges[part + 1][:, None])
            g[part + 1] = np.where(known, sides, g[part + 1])
            crossed = self.events.crossed(list(g[part].T), list(g[part + 1].T))
            pairs = np.argwhere(np.stack(crossed, axis=-1) > 0.0)
            if len(pairs):
                local, event = pairs.T
                chosen = local, event
                found = self._searched(
                    met_cases[local],
                    event,
                    np.where(
                        sides[chosen] != 0.0,
                        np.clip(until[chosen], edges[part][local], edges[part + 1][local]),
                        edges[part][local],
                    ),
                    edges[part + 1][local],
                    g[part][chosen],
                    g[part + 1][chosen],
                )
                for case, when, number, before in zip(
                    met_cases[local], found, event, np.sign(g[part][chosen]), strict=True
                ):
                    one = (float(when), int(number), float(before))
                    self._pending.setdefault(int(case), []).append(one)
        # what is known beyond the step stays
        self.sides[met_cases] = np.where(known, sides, 0.0)
        for case in met_cases:
            self._pending.get(int(case), []).sort()

    def _searched(
        self,
        cases: Cases,
        event: NDArray[np.intp],
        first: Array,
        last: Array,
        before: Array,
        after: Array,
    ) -> Array:
        """Return the times of crossings within brackets [s]."""
        held, chosen = self.held[cases], (np.arange(len(event)), event)

        def value(length: Array) -> Array:
            assert self._changes is not None
            time = first + length
            g: Array = self._changes.values(self.at(cases, time), held, time, cases)[chosen]
            return g

        found = first + locate(value, before, after, last - first)
        assert self.events is not None
        for place, number in enumerate(event):
            known = self.events.events[number]
            if isinstance(known, TimeEvent):
                found[place] = np.clip(known.time, first[place], last[place])
        return found

    def _handle_pending(self, time: float) -> None:
        """Handle events up to a time."""
        changes = self._changes
        assert changes is not None
        for case in [int(c) for c in self.running]:
            known = self._pending.get(case, [])
            while known and _due(known[0][0], time):
                times = np.array([when for when, _, _ in known])
                when, places = next(simultaneous(times, np.arange(len(known))))
                sides = {known[place][1]: known[place][2] for place in places}
                del known[: len(places)]
                # located at the end of a bracket, which may reach beyond the time
                when = min(when, max(time, float(times[0])))
                when, row = changes.located(case, when, min(sides))
                if not changes.happen(case, when, row, sides):
                    continue
                known.clear()
                self._acted[case] = self._acted.get(case, 0) + 1
                if case in self.outcomes:
                    break
                if self._acted[case] > MOST_EVENTS:
                    changes.end_endless(case, when, min(sides))
                    break
                changes.go_on(case, when)

    def go_on_from(self, case: int, time: float, start: float = 1.0) -> None:
        """Start the steps of a case in its state; with `start` 2, of the length of before."""
        one = np.array([case])
        clock = self._clocks(one, time)
        clock[:, START], clock[:, TIME], clock[:, TRIES] = start, time, 0.0
        self._keep(self._call(self.memory[one], self.state[one], one, clock), one)


class Changes:
    """What events change in the cases of an engine; here those of the user.

    Attributes:
        engine: The engine.
        values: Computes the values of all events.
        ends_at_rows: Whether steps end at recorded times.
    """

    ends_at_rows = False

    def __init__(
        self, engine: AdaptiveSteps, setup: "RunSetup", events: Watch, cases: int | None
    ) -> None:
        """Prepare events; `cases` is the size of the batch, None for one robot."""
        self.engine, system = engine, engine.system
        self.values = values = EventValues(system, events, setup.parameters, cases)
        self.instants = Instants(system, events, values, engine.ahead, engine.event_records)

    def start(self) -> None:
        """Let the events at the start of the run happen."""
        self.engine.start_by(self.instants)

    def jumped(self) -> None:
        """Take notice that held values have jumped at the time reached."""

    def reached(self) -> None:
        """Take notice of the time of the grid that all cases have reached."""

    def located(self, case: int, when: float, event: int) -> tuple[float, Array]:
        """Return time and state of an event, located more sharply than by its bracket."""
        return when, self.engine.at(np.array([case]), np.array([when]))[0]

    def happen(self, case: int, when: float, row: Array, sides: Mapping[int, float]) -> bool:
        """Let events of one case happen; return whether its motion changes.

        Args:
            case: The case.
            when: Time [s].
            row: State there.
            sides: The sides of zero that the expressions come from, by number of the event.
        """
        engine = self.engine
        instant = self.instants.happen(Meeting(case, when, row, engine.held[case], sides))
        if instant.ended is None and not instant.acted:
            return False
        engine.state[case] = instant.row
        engine.sides[case], engine.until[case] = instant.sides, instant.until
        engine.end_case(case, instant.ended, instant.endless, when)
        return True

    def end_endless(self, case: int, when: float, event: int) -> None:
        """End a case in which an event happens without end."""
        assert self.engine.events is not None
        self.engine.end_case(case, None, self.engine.events.events[event].name, when)

    def go_on(self, case: int, when: float) -> None:
        """Continue after events; a step of the length of before might leap over what follows."""
        self.engine.go_on_from(case, when)


def _due(when: float, time: float) -> bool:
    """Return whether an event has happened by a time, as far as it is located."""
    return when <= time + TIME_TOLERANCE
