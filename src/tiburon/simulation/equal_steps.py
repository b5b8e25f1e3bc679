"""Runs of equal steps: the engine, a native loop over the kernel of one step.

Between two calls of Python code (a controller, a sensor, an event, progress) nothing happens but
steps. The engine plans where the steps of a long stretch read and write: recorded rows go straight
into the arrays of the recorder, other states alternate between two buffers. It then runs the plan
in parts, one native call each, as far as the caller requests. A call stops before the first step
with a non-finite value; that step is then taken once more with one flag per case.

Where events are watched, each case has its own clock and stops before the step in which one
happens. That step is searched, and the case catches up with the others.
"""

import time as wall
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tiburon.arrays import Array, NDArray
from tiburon.model import Model
from tiburon.simulation import step_plan
from tiburon.simulation.diagnosis import (
    BEYOND_GRID,
    STABLE_PRODUCT,
    STABLE_PRODUCT_OF_BLOCKS,
    UNDETERMINED,
    UNSOLVED,
    WITHOUT_METHOD,
    stable_choice,
)
from tiburon.simulation.engine import Cases, Engine
from tiburon.simulation.events import EventSearch, Taken, Watch
from tiburon.simulation.fastest_element import fastest_element
from tiburon.simulation.integrators.integrator import OWN
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.located_contact import LocatedContact
from tiburon.simulation.recorder import Room
from tiburon.simulation.step import Clock, StepSource
from tiburon.simulation.step_plan import (
    DONE,
    EMPTY,
    END,
    HOLD,
    LOOK,
    SAMPLE,
    START,
    BoundStep,
    Sampler,
    StepPlan,
    StepTable,
)
from tiburon.simulation.system import System

if TYPE_CHECKING:
    from tiburon.simulation.run import RunSetup

PLAN_BYTES = 16_000_000
"""Bytes of recorded values that a plan keeps beside the arrays of the recorder, about."""

WATCHED_STEPS = 64
"""Steps after which cases that have stopped at an event leave the native call."""

KEPT_TABLES = 4
"""Numbers of cases of which tables of watched steps are kept at most."""

MAX_PENDING_ROWS = 512
"""Complete rows that wait for being handed to the recorder at most."""


class EqualSteps(Engine):
    """All cases of a run of equal steps; one robot is one case.

    The attributes are those of `Engine`; after the held values, `held` has the memory of
    a multi-step method.
    """

    def __init__(
        self,
        system: System,
        setup: "RunSetup",
        events: Watch | None,
        state: Array,
        held: Array,
        *,
        one: bool,
    ) -> None:
        """Prepare a run from initial states and held values of all cases; no step is taken yet."""
        # a plan holds the values of the present step; None where `state` and `held` do
        self._plan: StepPlan | None = None
        self._room: Room | None = None
        self._state, self._held = state, held
        self._is_gathered = True
        begin, dt, method, parameters = setup.begin, setup.dt, setup.method, setup.parameters
        super().__init__(system, setup, events, state, held, one)
        self._commands = len(system.command_names)
        # steps for which commands are held
        self._hold = setup.hold or 1
        # whether nothing but commands is added to the states of a row
        self._only_commands = False
        # whether held values change between native calls
        self._commanded = bool(system.sensed) or (setup.control is not None and not setup.traced)
        # what a method of users reads may have changed
        shared = events is None and not parameters and method not in OWN
        step = system.kept.get(method) if shared else None
        if step is None:
            source = StepSource(system, method, events)
            step = BoundStep(source, parameters, self._batch, setup.steps)
            if shared:
                system.kept[method] = step
        self._step: BoundStep = step
        self._loop = self._step.loop
        self._passes_held = bool({"u", "memory"} & self._step.chained.keys())
        self._memory = memory = self._step.widths.get("memory", 0)
        self.reads_in_place = one and not self._passes_held and not memory
        if memory and held.shape[1] == system.drive_size:
            # the memory of a multi-step method follows the held values; there is none yet
            self._held = np.concatenate([held, np.zeros((len(held), memory))], axis=1)
        sample = float(system.held and not system.sensed)
        head = Clock(begin, dt, dt, 0.0, float(self._hold), sample)
        self._head = tuple(head[: self._step.widths["clock"]])
        # multi-step methods write into clocks, batches have long buffers
        self._keeps_plans = one and events is None and not parameters and not memory
        # cases in which a multi-step method starts anew with the next step
        self._fresh = np.ones(len(state)) if memory or events is not None else EMPTY
        # the step that meets a non-finite value in some case; -1 for none
        self._failing = -1
        self._sampler: Sampler | None = None
        self._tables: dict[int, StepTable] = {}
        self._lasting: tuple[Array, Array] | None = None
        self.search: EventSearch | None = None
        self._part = self._step
        if events is not None:
            if METHODS[method].has_memory:
                source = StepSource(system, method, events, plain=True)
                self._part = BoundStep(source, parameters, self._batch)
            options = parameters, self._batch, self.event_records, self._clock
            self.search = EventSearch(self._take, system, events, *options)
        self._located: LocatedContact | None = None
        if system.has_meshes:
            self._located = LocatedContact(system, parameters, one)
            for own in {id(x): x for x in (self._step, self._part)}.values():
                self._located.bind(own)

    @cached_property
    def _clock(self) -> Array:
        return np.array(self._head, dtype=np.float64)

    # where the cases are

    @property
    def state(self) -> Array:
        """Where the cases are, or were when they ended, shape (cases, states)."""
        self._gather()
        return self._state

    @state.setter
    def state(self, state: Array) -> None:
        self._leave_plan()
        self._state = state

    @property
    def held(self) -> Array:
        """Held values, then the memory of a multi-step method, shape (cases, values).

        Call `commanded` after changing them in place.
        """
        if self._plan is not None and self._passes_held:
            self._gather()
        return self._held

    @held.setter
    def held(self, held: Array) -> None:
        if self._plan is not None and self._passes_held:
            self._leave_plan()
        self._held = held

    def commanded(self) -> None:
        """Continue under held values that were changed in place."""
        if self._passes_held:
            self._leave_plan()
        elif self._alive is not None and self._plan is not None:
            # steps read a copy of them
            self._plan.held = None
        if self._memory:
            self.jump()

    def parts(self) -> list[Array]:
        """Return position, velocity and continuous states of the one robot; to be copied."""
        plan = self._plan
        return super().parts() if plan is None or self._is_gathered else plan.parts(self.done)

    def _gather(self) -> None:
        """Collect the values of the present step from the plan."""
        plan = self._plan
        if plan is None or self._is_gathered:
            return
        here, alive = plan.at(self.done), self._alive
        parts = [here[name] for name in ("q", "v", "x") if name in here]
        state = np.concatenate(parts, axis=-1)
        self._state = self._spread(self._state, state, alive)
        if self._passes_held:
            size = self.system.drive_size
            old = self._held if alive is None else self._held[alive]
            parts = [here.get("u", old[:, :size]), here.get("memory", old[:, size:])]
            self._held = self._spread(self._held, np.concatenate(parts, axis=-1), alive)
        self._is_gathered = True

    @staticmethod
    def _spread(old: Array, new: Array, alive: Cases | None) -> Array:
        """Return the values of all cases: new ones of running ones, old ones of the others."""
        if alive is None:
            return new
        found = old.copy()
        found[alive] = new
        return found

    def _leave_plan(self) -> None:
        """Hand rows to the recorder and continue without the plan."""
        if self._plan is not None:
            self._gather()
            # a plan ends where no row before the present step is missing
            due = self.writer is not None and self.writer.is_due(wall.perf_counter())
            self.hand_rows(whole=due and self.done == self._plan.last)
            self._plan = self._room = None

    # steps

    def first_steps(self, seconds: float) -> int:
        """Return a number of steps that is likely to take no longer than a time [s]."""
        pace = self._step.loop.guess_seconds(self._batch)
        return max(1, int(seconds / pace))

    def _step_to(self, end: int) -> None:
        """Take steps, at most up to step `end`, and record rows before it.

        A call ends early at the end of a plan, or before a step that meets a non-finite value.
        """
        if self._located is not None:
            # contacts of meshes are located before every step
            end = min(end, self.done + 1)
            self._located.locate(self.state, self.time, self._plan, self._alive)
        if self.events is not None:
            self._advance_watching(min(end, self.done - self.done % self._every + self._every))
            return
        if self.done == self._failing:
            self._step_with_flags()
            return
        begin, plan = self.done, self._plan
        if plan is None or begin >= plan.last:
            plan = self._make_plan(recorded=False)
        if end > plan.last:
            end = plan.last
        if plan.held is not self._held and not self._passes_held:
            self._put_held(plan)
        if self._memory and self._fresh[0]:
            plan.clocks[begin - plan.first, START] = 1.0
        if self._one and plan.calls is not None:
            first = plan.first
            reached = first + self._loop.run_one(plan.calls, begin - first, end - first)
        else:
            reached = (self._run if self._one else self._run_batch)(plan, begin, end)
        if reached < end:
            self._failing = reached
            if reached == begin:
                self._step_with_flags()
                return
        if reached > begin:
            self.done, self._is_gathered = reached, False
            if self._memory:
                self._fresh[:] = 0.0
            if reached > plan.row_due:
                self._fill(plan, plan.rows_before(reached))

    def _run_batch(self, plan: StepPlan, begin: int, end: int) -> int:
        """Take steps of a plan for all cases, none beyond a step at which one fails."""
        kept: dict[str, Array] = {}
        if plan.in_buffer(begin):
            kept = {name: values.copy() for name, values in plan.at(begin).items()}
        reached = self._run(plan, begin, end)
        if reached < end:
            # blocks of cases continued beyond that step
            plan.put(begin, kept)
            self._run(plan, begin, reached)
        return reached

    def _run(self, plan: StepPlan, begin: int, end: int) -> int:
        """Take steps of a plan; return the step that was reached."""
        job, first, loop = plan.calls, plan.first, self._loop
        if job is None:
            job = plan.job(self._step, None if self._one else len(self.running))
        if self._one:
            return first + loop.run_one(job, begin - first, end - first)
        if begin == end:
            return begin
        cases, calls = len(self.running), (begin - first, end - first)
        return first + loop.run_many(job, *calls, plan.distances, cases, self._threads)

    def _make_plan(self, *, recorded: bool) -> StepPlan:
        """Plan the steps from the present one on, which is a row to record if `recorded`."""
        self._leave_plan()
        first, every, alive = self.done, self._every, self._alive
        cases, chained = len(self._state if alive is None else alive), self._step.chained
        last = min(self._last, first + step_plan.PLAN_STEPS)
        direct = () if alive is not None else ("q", "v", "x")
        beside = 8 * cases * sum([chained[name] for name in chained if name not in direct])
        base = first // every + (not recorded)
        wanted = last // every + 1 - base
        count = min(wanted, 1 + recorded + PLAN_BYTES // max(beside, 1))
        rows: Mapping[str, Array] = {}
        if count > 0:
            assert self.writer is not None
            self._room = self.writer.room(count)
            count, rows = self._room.size, self._room.views
            mixed = "u" in chained or self.writer.observes or self.readings is not None
            self._only_commands = self._commanded and "u" in rows and not mixed
            if count < wanted or last < self._last:
                # the next plan begins at a row
                last = (base + count - 1) * every
        shown = {name: rows[name][:count] for name in direct if name in chained and name in rows}
        plan: StepPlan | None = None
        if self._keeps_plans:
            # that of an earlier run; a run that a controller starts must not find it as well
            plan = self.system.kept.pop(("plan", self.method), None)
        if plan is None or plan.key != (first, last, every, recorded, self._head):
            plan = StepPlan(first, last, every, chained, cases, self._head, recorded=recorded)
        plan.attach(shown)
        for name, place in plan.start.items():
            part = self._step.part(name, self._state, self._held)
            place[:] = part if alive is None else part[alive]
        if self._step.rows:
            plan.per_case = set(self._step.rows)
            plan.shared = {
                name: values if alive is None else np.ascontiguousarray(values[alive])
                for name, values in self._step.rows.items()
            }
        self._plan = plan
        self._put_held(plan)
        return plan

    def release(self) -> None:
        """Release the recorder's rows; the next run of the system may take over the plan."""
        super().release()
        plan, self._plan, self._room = self._plan, None, None
        if plan is not None and plan.is_reusable and self._keeps_plans:
            plan.detach()
            self.system.kept["plan", self.method] = plan

    def _put_held(self, plan: StepPlan) -> None:
        """Put the held values where the steps of a plan read them."""
        held, size = self._held, self.system.drive_size
        plan.held = held
        if "u" in self._step.chained or not size:
            return
        # steps read the held values of the run itself, unless cases have ended
        u = held[:, :size] if self._alive is None else held[self._alive, :size]
        if self._one or not (self._commanded or (u != u[0]).any()):
            # one row for all cases
            u = u[0]
        known = plan.shared.get("u")
        if self._alive is not None and known is not None and known.shape == u.shape:
            known[:] = u
        else:
            plan.per_case = {*self._step.rows, *(("u",) if u.ndim > 1 else ())}
            plan.shared["u"], plan.calls = u, None

    def _step_with_flags(self) -> None:
        """Take one step in which some cases meet a non-finite value; end those."""
        self._leave_plan()
        running, step = self.running, self.done
        self._failing = -1
        clock = self._clock.copy()
        clock[DONE] = step
        if "memory" in self._step.chained:
            clock[START] = self._fresh[0]
        named = self._step.arguments(self.state[running], self.held[running], clock)
        found, failed = self._step.once(named, running, self._one, self._threads)
        good = running[~failed]
        if len(good):
            state, held = self._state.copy(), self._held.copy()
            self._store(state, held, good, {name: x[~failed] for name, x in found.items()})
            self._state, self._held = state, held
            self.done = step + 1
            self._fresh[:] = 0.0
        self._end_diverged(running[failed], np.full(int(failed.sum()), float(step)))

    def _store(self, state: Array, held: Array, cases: Cases, found: Mapping[str, Array]) -> None:
        """Put what a step passed on into the arrays of all cases."""
        parts = [found[name] for name in ("q", "v", "x") if name in found]
        state[cases] = np.concatenate(parts, axis=-1)
        size = self.system.drive_size
        if "u" in found:
            held[cases, :size] = found["u"]
        if "memory" in found:
            held[cases, size:] = found["memory"]

    # rows

    def record(self) -> None:
        """Record the row of the present step; its commands are known now."""
        plan, done, every = self._plan, self.done, self._every
        if done and not self.is_running:
            return
        if plan is not None and done == plan.row_due and done < plan.last:
            self._fill(plan, plan.filled + 1)
            return
        # all cases have reached the start, also those that end there: it is recorded by itself
        plannable = self.is_running and (self._alive is None or done > 0)
        if done % every == 0 and self.events is None:
            if (plan is None or done >= plan.last) and done < self._last and plannable:
                plan = self._make_plan(recorded=True)
            if plan is not None and done >= plan.first:
                self._fill(plan, plan.rows_before(done + 1))
                return
        self._leave_plan()
        super().record()

    def _fill(self, plan: StepPlan, last: int) -> None:
        """Complete the rows of a plan up to one, under the present commands."""
        first, room, writer = plan.filled, self._room, self.writer
        if last <= first or room is None:
            return
        assert writer is not None
        plan.filled, plan.row_due = last, self._every * (plan.base + last)
        views, alive = room.views, self._alive
        if self._only_commands and alive is None:
            views["u"][first:last] = self._held[:, : self._commands]
            return
        held = None
        if "u" in plan.rows:
            held = plan.rows["u"][first:last]
        elif self._commanded or writer.observes:
            held = self._held
        if alive is not None:
            for name in ("q", "v", "x"):
                if name in views:
                    views[name][first:last] = np.nan
                    views[name][first:last, alive] = plan.rows[name][first:last]
            if "u" in plan.rows:
                size = self.system.drive_size
                held = np.tile(self._held[:, :size], (last - first, 1, 1))
                held[:, alive] = plan.rows["u"][first:last]
        times = EMPTY
        if writer.observes:
            times = plan.row_times(first, last, self.begin, self.dt)
        writer.complete(room, first, last, times, held, self.readings)

    def hand_rows(self, *, whole: bool) -> None:
        """Hand complete rows to the recorder; `whole` as in `RowWriter.wrote`."""
        plan, room = self._plan, self._room
        if plan is None or room is None or plan.filled == plan.handed:
            return
        writer, first, plan.handed = self.writer, plan.handed, plan.filled
        assert writer is not None
        lasting = None
        if not (self._commanded or writer.observes or "u" in self._step.chained):
            if self._lasting is None or self._lasting[0] is not self._held:
                # the recorder keeps one row as long as it is the same
                self._lasting = self._held, self._held[:, : self._commands]
            lasting = self._lasting[1]
        times = plan.row_times(first, plan.filled, self.begin, self.dt)
        writer.wrote(times, lasting, whole=whole)

    def hand_on(self, now: float) -> None:
        """Hand rows to the recorder if there are many, or after some time."""
        plan = self._plan
        if plan is None:
            super().hand_on(now)
            return
        waiting = plan.filled - plan.handed
        if waiting and (waiting > MAX_PENDING_ROWS or (self.writer and self.writer.is_due(now))):
            self.hand_rows(whole=True)

    # contacts and controllers in the loop

    def begin_steps(self) -> None:
        """Set contact forces at the start; call a sampled controller for the first row."""
        system = self.system
        if system.acts_in_contact:
            cases, held = self.running, self.held.copy()
            given = self.state[cases], held[cases], self._clock, cases
            held[cases] = self._step.touched(system, *given)
            self.held = held
        if system.held and not system.sensed:
            self._sample(self.running, np.full(len(self.running), float(self.done)))

    def sample(self) -> None:
        """Call a controller that reads sensors, which only change between native calls."""
        self._sample(self.running, np.full(len(self.running), float(self.done)))
        self.jump()

    def _sample(self, cases: Cases, steps: Array) -> None:
        """Call the sampled controller in the states of some cases."""
        if not len(cases):
            return
        if self._sampler is None:
            self._sampler = Sampler(self.system, self._parameters, self._batch)
        size, held = self.system.drive_size, self.held.copy()
        u = np.ascontiguousarray(held[cases, :size])
        times = self.begin + steps * self.dt
        held[cases, :size], failed = self._sampler(self.state[cases], u, times, cases)
        self.held = held
        if failed.any():
            self._end_diverged(cases[failed], steps[failed])

    # jumps and checkpoints

    def resume(self, fresh: Array | None) -> None:
        """Continue with the memory of an earlier part; cases with `fresh` 1 start it again."""
        self._fresh = np.zeros(len(self._state)) if fresh is None else fresh.copy()

    def jump(self) -> None:
        """Start multi-step methods again, because commands or states have jumped."""
        if self._memory:
            self._fresh[:] = 1.0

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint keeps."""
        own = {"state": self.state, "held": self.held, **self._event_arrays()}
        if self.events is not None:
            own["fresh"] = self._fresh
        return own

    def _end_diverged(self, cases: Cases, steps: Array) -> None:
        """End cases that meet a non-finite value in the step from the given ones on."""
        begins = dict(zip(map(int, cases), self.begin + steps * self.dt, strict=True))

        def message(time: float, quantity: str, state: Array) -> str:
            q = state[: self.system.model.nq]
            advice = _advice(self.system, self.method, quantity, self._hold, self.dt, q, time)
            return f"diverged in the step from {time:.6g} s on: {quantity} first; {advice}"

        done = dict(zip(map(int, cases), steps, strict=True))

        def left(case: int) -> Array | None:
            if "u" not in self._step.chained or not self.system.ends_in_contact:
                return None
            clock, one = self._clock.copy(), np.array([case])
            clock[DONE] = done[case]
            named = self._step.arguments(self.state[one], self.held[one], clock)
            found, _ = self._step.once(named, one, self._one, None)
            return np.asarray(found["u"][0])

        self.close_diverged(
            cases, self.method, lambda case: (float(begins[case]), self.dt), message, left
        )

    def leave(self, cases: Cases) -> None:
        """Take ended cases out of running ones."""
        if len(cases):
            self._leave_plan()
            super().leave(cases)

    # events

    def _advance_watching(self, end: int) -> None:
        """Take steps of cases that stop where events happen, each in its own time."""
        self._state, self._held = self._state.copy(), self._held.copy()
        done = np.full(len(self._state), float(self.done))
        while True:
            behind = self.running[done[self.running] < end]
            if not len(behind):
                break
            clock = np.tile(self._clock, (len(behind), 1))
            clock[:, DONE], clock[:, END], clock[:, LOOK] = done[behind], float(end), 1.0
            clock[:, START] = self._fresh[behind]
            named = self._step.arguments(self._state[behind], self._held[behind])
            named |= {"clock": clock, "side": self.sides[behind]}
            calls = min(WATCHED_STEPS, end - int(done[behind].min()))
            found, failed = self._watch(named, behind, calls)
            self._store(self._state, self._held, behind, found)
            reached = found["clock"][:, DONE]
            # after a step without a crossing the values are on these sides
            self.sides[behind[reached > done[behind]]] = 0.0
            self._fresh[behind] = 0.0
            done[behind] = reached
            met = (found["clock"][:, END] < end) & ~failed
            self._step_over(behind[met], done)
            if failed.any():
                self._end_diverged(behind[failed], done[behind[failed]])
        self.done = end

    def _watch(
        self, named: Mapping[str, Array], cases: Cases, calls: int
    ) -> tuple[dict[str, Array], NDArray[np.bool_]]:
        """Take at most `calls` steps of some cases, each up to its event or end.

        Returns:
            What steps pass on; and the cases that met a non-finite value in the next step.
        """
        step, loop = self._step, self._step.loop
        failed = np.zeros(len(cases), dtype=bool)
        table = self._tables.get(len(cases))
        if table is None:
            # few numbers of cases come back, and batches are large
            known = self._tables if len(self._tables) < KEPT_TABLES else {}
            table = StepTable(step.chained, len(cases), None, 2)
            self._tables = {**known, len(cases): table}
            table.listed(step)
            # what the last of two steps writes is what the first reads
            table.link(step, table.buffers[1], table.buffers[1], {})
        shared = {k: np.ascontiguousarray(v) for k, v in named.items() if k not in step.chained}
        shared |= {k: np.ascontiguousarray(v[cases]) for k, v in step.rows.items()}
        listed = table.link(step, {}, {}, shared, shared)
        for name, values in table.buffers[1].items():
            values[:] = named[name]
        job = loop.job(listed, calls * len(cases), batch=not self._one)
        if self._one:
            reached = loop.run_one(job, 0, calls)
        else:
            options = table.distances, len(cases), self._threads
            reached = loop.run_many(job, 0, calls, *options)
        if reached == calls or self._one:
            failed[:] = reached < calls
            return table.buffers[(reached - 1) % 2], failed
        found = {name: named[name] for name in step.chained}
        if reached:
            # blocks of cases continued beyond the step at which one failed
            found, _ = self._watch(named, cases, reached)
        after, failed = step.once({**named, **found}, cases, self._one, self._threads)
        return {k: np.where(failed[:, None], found[k], x) for k, x in after.items()}, failed

    def _take(self, state: Array, held: Array, clock: Array, cases: Cases, *, whole: bool) -> Taken:
        """Take one step of some cases without regard to events.

        Args:
            state: Initial states, shape (cases, states).
            held: Held values and memory, shape (cases, values).
            clock: Clock of each case, shape (cases, fields).
            cases: Numbers of the cases.
            whole: Whether this is a whole step of the run, or a part without memory.
        """
        step = self._step if whole else self._part
        named = step.arguments(state, held, clock)
        found, failed = step.once(named, cases, self._one, self._threads)
        state, held = np.empty_like(state), held.copy()
        self._store(state, held, np.arange(len(state)), found)
        return Taken(state, held, failed)

    def start_events(self) -> None:
        """Handle the events that are due at the start of the run."""
        if self.search is not None:
            self.start_by(self.search.instants)

    def _step_over(self, cases: Cases, done: Array) -> None:
        """Take the step in which events happen; end the cases that they end."""
        assert self.search is not None
        if not len(cases):
            return
        clock = np.tile(self._clock, (len(cases), 1))
        clock[:, DONE] = done[cases]
        crossing = self.search.cross(
            self._state[cases],
            self._held[cases],
            clock,
            cases,
            self.sides[cases],
            self.until[cases],
        )
        self._state[cases], self._held[cases] = crossing.state, crossing.held
        self.sides[cases], self.until[cases] = crossing.sides, crossing.until
        self._fresh[cases[crossing.acted]] = 1.0
        done[cases] += 1.0
        over = self.end_by_events(cases, crossing.ended, crossing.endless, crossing.time)
        if self.system.held and self._clock[SAMPLE] > 0.5:
            # an action changed the state after the controller was called at the end of the step
            on = cases[crossing.acted & ~crossing.failed & ~np.isin(cases, over)]
            due = on[done[on] % self._clock[HOLD] == 0.0]
            self._sample(due, done[due])
        if crossing.failed.any():
            bad = cases[crossing.failed]
            self._end_diverged(bad, done[bad] - 1.0)


def _advice(
    system: System, method: str, quantity: str, hold: int, dt: float, q: Array, time: float
) -> str:
    """Return what to do about steps of a method that diverge, or open loops.

    Args:
        system: The system.
        method: Name of the integrator.
        quantity: What diverged first.
        hold: Steps for which commands of the controller are held.
        dt: Length of a step [s].
        q: The last finite configuration [m or rad], shape (nq,).
        time: Its time [s].
    """
    tolerance = system.loops.redundancy_tolerance
    if quantity.startswith("command "):
        return "check the controller, which returned a non-finite command"
    if quantity.endswith(UNDETERMINED):
        return f"the mechanism is in a singular configuration: {WITHOUT_METHOD}"
    if quantity.endswith(BEYOND_GRID):
        return "enlarge the grid, or stop the robot before its border"
    if quantity.endswith(UNSOLVED):
        return (
            "take a smaller dt or a larger tolerance of RigidContact; look for bodies that "
            "others or prescribed motion press into each other, and for friction too large for a "
            "step without jamming"
        )
    change = "a smaller dt (`tiburon check` advises one)"
    word, *named = quantity.split("'")
    place = system.model.v_names.index(named[0]) if word == "velocity " else None
    if place is not None and (found := fastest_element(system, place, time)) is not None:
        name, rate = found
        product = STABLE_PRODUCT if METHODS[method].points == 1 else STABLE_PRODUCT_OF_BLOCKS
        if rate * dt > product:
            longest = float(f"{product / rate:.1g}")
            implicit = "" if method == "rosenbrock" else ", or method=tb.Rosenbrock()"
            return (
                f"{name} is the fastest there, with a rate of {rate:.2g} 1/s: take a dt of "
                f"{longest:g} s{implicit}"
            )
    if quantity.startswith("gap of loop"):
        change = "a smaller dt, a motion that its loops can follow"
        larger = f"a redundancy_tolerance above {tolerance:g}"
        if not tolerance:
            larger = "a redundancy_tolerance where constraints nearly repeat each other"
        change = f"{larger}, {change}"
    elif not system.loops.projects:
        change = f"{stable_choice(system, method, dt, q, time)}, or {WITHOUT_METHOD}"
    elif method != "rosenbrock" and not (
        # implicit methods do not follow paths around loops
        system.model.loops and system.prescribes
    ):
        change = f"method=tb.Rosenbrock() where springs, dampers or stops are stiff, {change}"
    if hold > 1:
        # feedback that would be stable at every step may not be with commands that are held
        change = f"a smaller Sampled.dt (commands are held for {hold * dt:g} s), {change}"
    hit = "" if place is None else _beyond_stop(system.model, place, q)
    return f"{hit}take {change}, or check the state at the start and the forces"


def _beyond_stop(model: Model, place: int, q: Array) -> str:
    """Return that a joint is beyond its stop, empty if it is not."""
    for joint in model.joints:
        if joint.limits is None or joint.nq != 1 or model.slice(joint.name, of="v").start != place:
            continue
        at = float(q[model.slice(joint.name).start])
        low, high = float(np.min(joint.limits.lower)), float(np.max(joint.limits.upper))
        if not low <= at <= high:
            return f"joint {joint.name!r} is beyond its stop, at {at:.3g}: "
    return ""
