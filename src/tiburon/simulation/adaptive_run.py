"""Runs of steps that adapt: each case its own, all of them on one grid of recorded times."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.simulation.adaptive_loop import (
    ADAPTIVE_CLOCK,
    FAR,
    PARTS,
    AdaptiveClock,
    AdaptiveSource,
    memory_form,
)
from tiburon.simulation.cases import Cases, CasesOnTheirWay, Rows
from tiburon.simulation.diverged import first_to_diverge
from tiburon.simulation.event_search import MOST_EVENTS, EventValues, acted, happening_at
from tiburon.simulation.events import Watch, locate
from tiburon.simulation.stepper import bind_parameters
from tiburon.simulation.system import System

__all__ = ["AdaptiveRun"]

Array = NDArray[np.float64]

ATTEMPTS = 256.0
"""Attempts of one native call, after which Python looks up."""

SLOTS = 16
"""States one native call can give when it runs one robot."""

START, TIME, STOP, TRIES, SAMPLE = (
    AdaptiveClock._fields.index(name) for name in ("start", "time", "stop", "attempts", "sample")
)


class _Found(NamedTuple):
    """What a native call gives, cases leading but in states."""

    states: Array
    memory: Array
    held: Array
    met: Array
    failed: NDArray[np.bool_]


class AdaptiveRun(CasesOnTheirWay):
    """All cases of a run whose steps adapt; one robot is one case.

    The attributes are those of `CasesOnTheirWay`; `state` is that at the grid time reached, while
    `memory` holds where the steps of each case are, which is a little further.
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
        hold: int | None,
        rtol: float,
        atol: float,
        *,
        one: bool,
        memory: Array | None = None,
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
            dt: Distance of two times of the grid [s].
            hold: Steps of the grid between two samples of a controller, where commands jump; None
                if they never do.
            rtol: Tolerated error relative to velocities.
            atol: Tolerated error in the units of the states.
            one: Whether this is one robot rather than a batch of cases.
            memory: What cases carried along when an earlier part of the run ended.
        """
        from tiburon.native.kernel import make_kernel

        super().__init__(system, state, held, begin, dt)
        self.method, self.events, self.hold, self._one = method, events, hold, one
        cases = None if one else len(state)
        self._slots = SLOTS if one and events is None else 1
        source = AdaptiveSource(system, method, self._slots, events)
        kernel = make_kernel(source, system.parameters())
        self._kernel, self._rows = bind_parameters(kernel, parameters, cases)
        self._options: dict[str, Any] = {} if threads is None else {"threads": threads}
        head = AdaptiveClock(rtol, atol, 0.0, 0.0, begin, FAR, ATTEMPTS, 0.0)
        self._clock = np.array([*map(float, head), *[0.0] * self._slots])
        count = memory_form(system, source.pair)[0]
        self.memory = np.zeros((len(state), count)) if memory is None else memory
        self._start = 1.0 if memory is None else 0.0
        self._values: EventValues | None = None
        if events is not None:
            self._values = EventValues(system, events, parameters, cases)
        self._pending: dict[int, list[tuple[float, int]]] = {}
        self._acted: dict[int, int] = {}

    @property
    def slots(self) -> int:
        """How many rows one call of `advance` can give."""
        return self._slots

    def arrays(self) -> dict[str, Array]:
        """Return the numbers that a checkpoint keeps."""
        return {"state": self.state, "held": self.held, "memory": self.memory}

    def jump(self) -> None:
        """Tell that commands have jumped: steps start again, as long as before."""
        self._start = max(self._start, 2.0) if self._start != 1.0 else 1.0

    def sample(self) -> None:
        """Ask the traced controller, whose commands are held from here on."""
        running = self.running
        clock = self._clocks(running, self.time)
        clock[:, SAMPLE], clock[:, TRIES] = 1.0, 0.0
        clock[:, START], clock[:, TIME] = self._start or 2.0, self.time
        clock[:, ADAPTIVE_CLOCK:] = self.time
        found = self._call(self.memory[running], self.state[running], running, clock)
        good = ~found.failed
        self.memory = self.memory.copy()
        self.held = self.held.copy()
        self.memory[running[good]], self.held[running[good]] = found.memory[good], found.held[good]
        self._start = 0.0

    def advance(self, counts: Sequence[int]) -> Rows:
        """Go on by steps of the grid, and give a row after each number of them."""
        running = self.running
        self.memory, self.state = self.memory.copy(), self.state.copy()
        ends = self.done + np.cumsum(counts)
        times = self.begin + ends * self.dt
        rows = np.full((len(counts), *self.state.shape), np.nan)
        if self._start:
            self._restart(running)
        if self.events is None:
            self._reach(rows, times)
        else:
            for place, time in enumerate(times):
                self._reach_watching(rows[place], float(time))
        running = self.running
        self.state[running] = rows[-1, running]
        self.done = int(ends[-1])
        held = np.full((len(counts), *self.held.shape), np.nan)
        held[:] = self.held
        return Rows(rows, held)

    # native calls

    def _clocks(self, cases: Cases, target: float) -> Array:
        clock = np.tile(self._clock, (len(cases), 1))
        clock[:, STOP] = self._stop()
        clock[:, ADAPTIVE_CLOCK:] = target
        return clock

    def _stop(self) -> float:
        """Return the time of the next jump of commands [s]."""
        if self.hold is None:
            return FAR
        return self.begin + (self.done - self.done % self.hold + self.hold) * self.dt

    def _call(self, memory: Array, state: Array, cases: Cases, clock: Array) -> _Found:
        u = self.held[cases]
        if self._one:
            parts = [
                self._kernel(memory[k], state[k], u[k], clock[k], errors="flag")
                for k in range(len(cases))
            ]
            found = [np.array([part[0][i] for part in parts]) for i in range(len(parts[0][0]))]
            failed = np.array([bool(part[1]) for part in parts])
        else:
            rows = {name: values[cases] for name, values in self._rows.items()}
            answer, failed = self._kernel(
                memory, state, u, clock, errors="flag", **rows, **self._options
            )
            found = list(answer)
        met = found[3] if self.events is not None else np.zeros((len(cases), 0))
        return _Found(np.moveaxis(found[0], 1, 0), found[1], found[2], met, failed)

    def _restart(self, cases: Cases) -> None:
        """Start, or go on after a jump, all cases at the grid time reached."""
        clock = self._clocks(cases, self.time)
        clock[:, START], clock[:, TIME], clock[:, TRIES] = self._start, self.time, 0.0
        found = self._call(self.memory[cases], self.state[cases], cases, clock)
        good = ~found.failed
        self.memory[cases[good]] = found.memory[good]
        self._start = 0.0
        if found.failed.any():
            self._end_diverged(cases[found.failed])

    def _reach(self, rows: Array, times: Array) -> None:
        """Step all cases until the last of some times, and fill in their rows."""
        behind = self.running
        while len(behind):
            self.patience()
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
        """Take over what a call gave; end the cases that cannot go on."""
        good = ~found.failed
        self.memory[cases[good]] = found.memory[good]
        # the last number tells of steps that would have to be too small
        bad = found.failed | (self.memory[cases, -1] != 0.0)
        if bad.any():
            self._end_diverged(cases[bad])

    def _end_diverged(self, cases: Cases) -> None:
        nq = self.system.model.nq
        size = self.state.shape[1]
        for number, case in enumerate(cases):
            memory = self.memory[case]
            started = bool(memory.any())
            time = float(memory[0]) if started else self.time
            if started:
                self.state[case] = memory[1 : 1 + size]
            cause = first_to_diverge(
                self.system,
                self.method,
                self.state[case],
                self.held[case],
                time,
                float(memory[1 + nq + 2 * (size - nq)]) or self.dt,
                thorough=number < 32,
            )
            message = (
                f"diverged at {time:.6g} s: no step is small enough for the tolerance, "
                f"{cause.quantity} first; check the forces there, or take a larger atol and rtol"
            )
            self.close_as(
                int(case), "diverged", time, message, body=cause.body, quantity=cause.quantity
            )
        self.leave(cases)

    # events

    def _reach_watching(self, row: Array, time: float) -> None:
        """Step all cases to a time, with the events on the way; fill in the row."""
        self._acted.clear()
        while True:
            self.patience()
            self._handle_pending(time)
            running = self.running
            due = {c for c, known in self._pending.items() if known and known[0][0] <= time}
            behind = np.array(
                [c for c in running if self.memory[c, 0] < time and int(c) not in due],
                dtype=np.intp,
            )
            if len(behind):
                clock = self._clocks(behind, time)
                found = self._call(self.memory[behind], self.state[behind], behind, clock)
                self._keep(found, behind)
                met = (found.met > 0.0) & ~found.failed[:, None]
                self._locate(behind, met)
            elif not due:
                break
        running = self.running
        if len(running):
            row[running] = self._at(running, np.full(len(running), time))

    def _at(self, cases: Cases, times: Array) -> Array:
        """Return states within the last step of each case."""
        clock = self._clocks(cases, 0.0)
        clock[:, TRIES] = 0.0
        clock[:, ADAPTIVE_CLOCK] = times
        found = self._call(self.memory[cases], self.state[cases], cases, clock)
        states: Array = found.states[0]
        return states

    def _locate(self, cases: Cases, met: NDArray[np.bool_]) -> None:
        """Find when the events of the last steps happened, on their interpolation."""
        met_cases = cases[met.any(axis=1)]
        if not len(met_cases):
            return
        assert self._values is not None
        assert self.events is not None
        values = self._values
        nq = self.system.model.nq
        # as `AdaptiveState` lists them: time, q, w, rate, h, error, begin, length, ...
        place = 1 + nq + 2 * (self.state.shape[1] - nq) + 2
        begin, length = self.memory[met_cases, place], self.memory[met_cases, place + 1]
        edges = [begin + (part / PARTS) * length for part in range(PARTS)]
        edges.append(self.memory[met_cases, 0])
        held = self.held[met_cases]
        g = [values(self._at(met_cases, edge), held, edge, met_cases) for edge in edges]
        for part in range(PARTS):
            crossed = self.events.crossed(list(g[part].T), list(g[part + 1].T))
            pairs = np.argwhere(np.stack(crossed, axis=-1) > 0.0)
            if len(pairs):
                local, event = pairs.T
                chosen = local, event
                found = self._searched(
                    met_cases[local],
                    event,
                    edges[part][local],
                    edges[part + 1][local],
                    g[part][chosen],
                    g[part + 1][chosen],
                )
                for case, when, number in zip(met_cases[local], found, event, strict=True):
                    self._pending.setdefault(int(case), []).append((float(when), int(number)))
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
            assert self._values is not None
            time = first + length
            g: Array = self._values(self._at(cases, time), held, time, cases)[chosen]
            return g

        return first + locate(value, before, after, last - first)

    def _handle_pending(self, time: float) -> None:
        """Let events up to a time happen."""
        assert self.events is not None
        for case in [int(c) for c in self.running]:
            known = self._pending.get(case, [])
            while known and known[0][0] <= time:
                when, number = known.pop(0)
                event = self.events.events[number]
                row = self._at(np.array([case]), np.array([when]))[0]
                self.happenings.append(happening_at(self.system, event, when, case, row))
                if event.action is not None:
                    row = acted(self.system, event, when, row, self.held[case])
                if event.terminal:
                    self.state[case] = row
                    message = f"ended by event {event.name!r} at {when:.9g} s"
                    self.close_as(case, "event", when, message, event=event.name)
                    self.leave(np.array([case]))
                    known.clear()
                elif event.action is not None:
                    known.clear()
                    self._go_on_from(case, row, when)

    def _go_on_from(self, case: int, row: Array, time: float) -> None:
        """Restart a case in a new state."""
        self._acted[case] = self._acted.get(case, 0) + 1
        if self._acted[case] > MOST_EVENTS:
            self.state[case] = row
            message = f"stopped at {time:.9g} s after {MOST_EVENTS} events in {self.dt:g} s"
            self.close_as(case, "budget", time, message)
            self.leave(np.array([case]))
            return
        one = np.array([case])
        clock = self._clocks(one, time)
        # a step of the length of before might leap over what the action leads to
        clock[:, START], clock[:, TIME], clock[:, TRIES] = 1.0, time, 0.0
        self._keep(self._call(self.memory[one], row[None], one, clock), one)
