"""A run from its setup to its trajectory: fresh, or continued from a checkpoint."""

import math
import time as wall
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.argument_checks import check_signature
from tiburon.arrays import Array
from tiburon.errors import (
    DomainError,
    ModelError,
    OptionError,
    RunFileError,
    RunInterruptedError,
    shown,
)
from tiburon.loops.loop_method import LoopMethod, checked_loops
from tiburon.loops.stabilization import PROJECTION
from tiburon.model import Model, World
from tiburon.model.joints import Driven
from tiburon.results.checkpoint import Checkpoint
from tiburon.results.header import Column, RunHeader
from tiburon.results.outcome import Outcome, Outcomes
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.adaptive_steps import AdaptiveSteps, Changes
from tiburon.simulation.contact_events import (
    ContactEvents,
    exact_watch,
    refuse_other_discrete_states,
)
from tiburon.simulation.control_check import first_state
from tiburon.simulation.diagnosis import (
    report_open_loops,
    report_penetration,
    report_rank_changes,
    report_unsolved_contacts,
)
from tiburon.simulation.engine import ENDED, REACHED, Engine
from tiburon.simulation.equal_steps import EqualSteps
from tiburon.simulation.events import Watch
from tiburon.simulation.integrators.integrator import OWN, checked_integrator
from tiburon.simulation.integrators.kept_inertia import KEPT_STEPS_INFIX
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.loop_coordinates import CoordinatesWatch, coordinates_events
from tiburon.simulation.progress import INTERVAL, FirstSecond, Interruption, Progress, progress_of
from tiburon.simulation.recorder import SENSED, Recorder, RowWriter
from tiburon.simulation.run_parameters import with_named
from tiburon.simulation.sampled import controller_of
from tiburon.simulation.sensing import Sensing, Sensor
from tiburon.simulation.state import EMPTY_READINGS, State, new_state
from tiburon.simulation.system import System
from tiburon.trace.declared import is_traced

RESUME_FIELDS = ("method", "adaptive", "rtol", "atol", "dt", "begin", "steps", "record_every")
"""Fields without which a run cannot be resumed."""

PATH_SAMPLES = 101
"""Times of a run at which the rates of given paths are compared with each other."""


def check_control(control: Any) -> None:
    """Refuse a controller that is not a function of the state."""
    advice = (
        "write def control(state): return {'name': command}, which finds state.q, state.v, state.x "
        "and state.time, or make a controller such as PD(...)"
    )
    if isinstance(control, type) or not callable(control):
        raise ModelError(
            f"control: expected a function of the state, got {shown(control)}; {advice}"
        )
    check_signature(control, "control", ("state",), advice=advice)


def check_sensors(sensors: Sequence[Sensor]) -> None:
    """Refuse sensors of a user's own whose methods take other arguments."""
    for sensor in sensors:
        for method, takes in (("channel_names", ("model",)), ("measure", ("now",))):
            what = f"sensor {sensor.name!r}: {method}"
            advice = f"write def {method}(self, {takes[0]}): ..."
            check_signature(getattr(sensor, method), what, takes, advice=advice)


class RunSetup(NamedTuple):
    """What a run is started with, checked and complete."""

    model: Model
    world: World
    elements: tuple[Any, ...]
    method: str
    dt: float
    begin: float
    steps: int
    """Steps from the start to the planned end."""
    record_every: int
    control: Any = None
    hold: int | None = None
    """Steps between two samples of the controller; None if it is never sampled."""
    adaptive: bool = False
    rtol: float = 1e-6
    atol: float = 1e-8
    record: tuple[str, ...] = ()
    sensors: tuple[Any, ...] = ()
    events: tuple[Any, ...] = ()
    parameters: Mapping[str, Any] = MappingProxyType({})
    """Tables of run-time parameters as code takes them."""
    threads: int | None = None
    loops: LoopMethod = PROJECTION
    """How loops are held."""
    named: Mapping[str, Any] = MappingProxyType({})
    """Values by name that replace those of robot, surroundings, elements and controller."""
    case_numbers: Any = None
    """Numbers of the cases for the noise of sensors, an array; None for 0, 1, 2, ..."""
    cuts: tuple[str, ...] | None = None
    """Joints at which the robot was cut into parts; None for an undivided robot."""

    @property
    def traced(self) -> bool:
        """Whether the controller is part of the native loop."""
        return self.control is not None and is_traced(self.control)

    def system_options(self) -> dict[str, Any]:
        """Return what the system takes beside robot, surroundings and elements."""
        sensed = [(s.name, len(s.channel_names(self.model))) for s in self.sensors]
        return {
            "control": self.control if self.traced else None,
            "held": self.traced and self.hold is not None,
            "sensed": sensed if self.traced else (),
            "loops": self.loops,
        }

    def system(self, partition: Any = None) -> System:
        """Build the system of the run; `partition` is the robot in parts, if it was cut."""
        model, world = with_named(self.model, self.world, tuple(self.named or ()))
        options = self.system_options()
        found = System(model, world, self.elements, steps=True, partition=partition, **options)
        if partition is not None:
            partition.prepare(found)
        return found

    def keywords(self) -> dict[str, Any]:
        """Return all fields but model, world and elements, which a header holds elsewhere."""
        pairs = zip(self._fields[3:], self[3:], strict=True)
        return {name: value for name, value in pairs if value is not None}

    @classmethod
    def of(cls, run: Trajectory, changes: Mapping[str, Any]) -> "RunSetup":
        """Return the setup of a run that is resumed, with some fields given again."""
        allowed = ("control", "events", "sensors", "elements", "world", "loops", "method")
        for name in changes:
            if name not in allowed:
                raise OptionError("resume: keyword", allowed, name)
        lacking = [name for name in RESUME_FIELDS if run.header.setup.get(name) is None]
        if lacking:
            raise RunFileError(
                "run" if run.store is None else run.store.path,
                f"does not define its {' and '.join(lacking)}, so it cannot go on; start a new run "
                "with tiburon.simulate",
            )
        begun = run.header.setup["method"]
        given = changes.get("method")
        # naming it makes an integrator of users known
        if given is not None and (checked_integrator(given).scheme, given.dt) != (
            begun,
            run.header.setup["dt"],
        ):
            raise ModelError(
                f"resume: method: expected that of the start, {begun!r} with steps of "
                f"{run.header.setup['dt']:g} s, got {shown(given)}; leave it out"
            )
        if begun not in METHODS and begun not in OWN and KEPT_STEPS_INFIX not in begun:
            raise RunFileError(
                run.place,
                f"its method {begun!r}: code, which no file can hold; give it again: "
                "run.resume(method=...)",
            )
        changes = {name: value for name, value in changes.items() if name != "method"}
        kept: dict[str, Any] = dict.fromkeys(cls._fields) | cls._field_defaults
        kept |= {"world": run.world, "elements": run.header.elements, **run.header.setup, **changes}
        kept |= {name: tuple(kept[name] or ()) for name in ("events", "sensors", "elements")}
        kept["parameters"] = kept["parameters"] or {}
        touches = any(isinstance(element, ContactElement) for element in kept["elements"])
        known, given = (getattr(world, "ground", None) for world in (run.world, kept["world"]))
        if touches and given != known:
            raise ModelError(
                "resume: the ground of a run with contact stays that of its start, got another; "
                "start a new run with tiburon.simulate from run.q[-1] and run.v[-1]"
            )
        kept["control"], period = controller_of(kept["control"])
        if period is not None and round(period / kept["dt"]) != kept["hold"]:
            held = f"every {kept['hold'] * kept['dt']:g} s" if kept["hold"] else "at every stage"
            raise ModelError(
                f"resume: control: expected the period of the start, {held}, got {period:g} s; "
                "leave Sampled out"
            )
        if kept["control"] is not None:
            check_control(kept["control"])
        check_sensors(kept["sensors"])
        kept["loops"] = checked_loops(kept["loops"])
        return cls(**{**kept, "model": run.model})


def carry_out(
    setup: RunSetup,
    system: System,
    batch: tuple[int, ...],
    checkpoint: Checkpoint,
    progress: bool | Progress | None,
    budget: float | None,
    *,
    store: str | Path | None = None,
    earlier: Trajectory | None = None,
    progress_seconds: float | None = None,
    strict: bool = False,
) -> Trajectory:
    """Run from a checkpoint to the end, and return the whole trajectory.

    Args:
        setup: Options of the run.
        system: The system.
        batch: Shape of the cases.
        checkpoint: Start of this part of the run.
        progress: As `simulate` takes it.
        budget: Wall-clock time [s], or None.
        store: Path for rows on disk; None for memory.
        earlier: The run that is continued, or None.
        progress_seconds: Wall-clock time between two calls of progress [s]; 0.1 by default.
        strict: Whether the run stops as soon as a case has ended.
    """
    one = batch == ()
    start = None
    if store is not None:
        # a copy, as the run continues in the arrays of the checkpoint
        arrays = {name: np.array(values) for name, values in checkpoint.arrays.items()}
        start = Checkpoint(checkpoint.step, checkpoint.time, arrays, checkpoint.notes)
    if system.time_matters:
        end = setup.begin + setup.steps * setup.dt
        for joint in setup.model.joints:
            if isinstance(joint, Driven):
                joint.check_paths(np.linspace(setup.begin, end, PATH_SAMPLES).tolist())
    sensing = None
    if setup.sensors:
        sensing = Sensing(system, setup.sensors, setup.dt, batch, setup.case_numbers)
        if "sensing" in checkpoint.notes:
            with _restoring(earlier, "sensors"):
                sensing.restore(checkpoint.notes["sensing"])
    run = _engine(setup, system, checkpoint, one, sensing, earlier)
    header = _header(setup, system, batch, sensing)
    # Ctrl-C is only noted from here on: a store that exists can be read and resumed
    with Interruption() as interruption:
        recorder = _recorder(setup, header, checkpoint, store, start, earlier)
        try:
            if sensing is not None:
                run.readings = sensing.row.reshape(len(run.state), -1)
            now = partial(_checkpoint, run, sensing)
            run.writer = RowWriter(recorder, system, len(run.state), setup.parameters, now)
            interval = INTERVAL if progress_seconds is None else progress_seconds
            schedule = Schedule(setup, run, sensing, batch, interruption)
            shows = progress_of(progress, setup.model.name)
            schedule.run_to_end(shows, budget, interval, strict=strict)
        except BaseException:
            recorder.release()
            raise
        result = _finish(setup, run, recorder, now)
        if interruption.wanted:
            place = ".run" if result.store is None else f".run and {str(result.store.path)!r}"
            message = f"interrupted at {run.time:.6g} s; the rows so far are in {place}"
            raise RunInterruptedError(message, result)
    return result


def _recorder(
    setup: RunSetup,
    header: RunHeader,
    checkpoint: Checkpoint,
    store: str | Path | None,
    start: Checkpoint | None,
    earlier: Trajectory | None,
) -> Recorder:
    """Return the recorder of a run; `start` is a copy of the checkpoint, for a new store."""
    rows = (setup.steps - 1) // setup.record_every + 2
    if earlier is not None:
        keep = math.ceil(checkpoint.step / setup.record_every)
        return Recorder.continued(earlier, header, keep, rows, checkpoint)
    try:
        return Recorder(header, rows=rows, store=store, start=start)
    except MemoryError:
        size = f"{rows} rows of {header.row_bytes} bytes"
        advice = "record less often, or to disk: record=tb.Record(store='run.zarr')"
        raise DomainError("record", "rows that fit in memory", size, advice=advice) from None


def _finish(
    setup: RunSetup, run: Engine, recorder: Recorder, checkpoint: Callable[[], Checkpoint]
) -> Trajectory:
    """Complete the outcomes of a run, write its remaining rows, and return it."""
    system = run.system
    if run.state.base is None and run.held.base is None:
        # the run is over: outcomes and checkpoint share its arrays
        run.state.flags.writeable = run.held.flags.writeable = False
    outcomes = Outcomes(len(run.state), run.outcomes, run.shared_outcome)
    if system.model.loops:
        report_rank_changes(system, recorder, setup.steps, outcomes, setup.parameters)
        report_open_loops(system, recorder, outcomes, setup.parameters)
    if system.ends_in_contact:
        report_unsolved_contacts(system, run.held, outcomes)
        report_penetration(system, run.state, run.held, outcomes, setup.parameters)
    happened = sorted(run.event_records, key=lambda one: one.time)
    last = checkpoint()
    run.release()
    return recorder.finish(outcomes, happened, last)


@contextmanager
def _restoring(earlier: Trajectory | None, part: str) -> Iterator[None]:
    """Raise `RunFileError` where a checkpoint from a file does not hold what it should."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise RunFileError(
            "run" if earlier is None or earlier.store is None else earlier.store.path,
            f"what its checkpoint contains on {part} is damaged ({type(error).__name__}: {error}); "
            f"restore the file from a copy, or pass the {part}= that were simulated",
        ) from error


def _engine(
    setup: RunSetup,
    system: System,
    checkpoint: Checkpoint,
    one: bool,
    sensing: Sensing | None,
    earlier: Trajectory | None,
) -> Engine:
    """Return the cases in the states of a checkpoint.

    Arrays of a checkpoint that an earlier run shares are copied; others are used in place.
    """
    state, held = checkpoint.arrays["state"], checkpoint.arrays["held"]
    if earlier is not None:
        state, held = state.copy(), held.copy()
    else:
        state.flags.writeable = held.flags.writeable = True
    run = _at_start(setup, system, sensing, state, held, one, checkpoint.arrays.get("memory"))
    if earlier is not None:
        with _restoring(earlier, "events"):
            run.restore_events(checkpoint.arrays, checkpoint.notes)
    if run.events is not None and not checkpoint.step and not run.started:
        run.start_events()
    run.started = True
    if checkpoint.step:
        run.resume(checkpoint.arrays.get("fresh"))
    else:
        run.begin_steps()
    run.done = checkpoint.step
    run.asked = int(checkpoint.notes.get("asked", -1))
    if checkpoint.step and _has_jumped(setup, system, run.asked, checkpoint.step, sensing):
        run.jump()
    for case, fields in checkpoint.notes.get("ended", []):
        run.close(int(case), Outcome(*fields))
    return run


def _at_start(
    setup: RunSetup,
    system: System,
    sensing: Sensing | None,
    state: Array,
    held: Array,
    one: bool,
    memory: Array | None,
) -> Engine:
    """Return the engine that takes the steps of a method, with the events of the run."""
    if system.is_exact:
        refuse_other_discrete_states(system)
    elif system.z_names and (setup.adaptive or METHODS[setup.method].has_memory):
        kind = "adaptive" if setup.adaptive else "multi-step"
        raise ModelError(
            f"discrete state {system.z_names[0]!r}: expected a one-step method with equal steps, "
            f"got {kind} method {setup.method!r}; write method=tb.RK4(dt={setup.dt:g})"
        )
    selection = coordinates_events(system) if system.held_loops.coordinates is not None else ()
    events = (*setup.events, *selection)
    own = Watch if setup.events or not selection else CoordinatesWatch
    watch = own(events, setup.begin, setup.dt) if events else None
    if not setup.adaptive:
        return EqualSteps(system, setup, watch, state, held, one=one)
    jumps = setup.hold
    if system.sensed and sensing is not None:
        # held values also jump at new sensor readings
        jumps = math.gcd(sensing.every, setup.hold or 0)
    changes = Changes
    if system.is_exact:
        contacts = exact_watch(system, setup.events, setup.begin, setup.dt)
        watch, changes = contacts, ContactEvents
    options: dict[str, Any] = {"one": one, "memory": memory, "changes": changes}
    return AdaptiveSteps(system, setup, watch, state, held, jumps, **options)


def _has_jumped(
    setup: RunSetup, system: System, asked: int, step: int, sensing: Sensing | None
) -> bool:
    """Return whether held values jumped after the last step of a run that is resumed."""
    outside = setup.control is not None and not setup.traced
    if outside and asked == step:
        return True
    # adaptive steps have restarted already where a sampled controller was called
    read = system.sensed and not (setup.adaptive and system.held)
    return bool(read) and sensing is not None and sensing.looked == step


def _checkpoint(run: Engine, sensing: Sensing | None) -> Checkpoint:
    """Return the checkpoint of a run in its present state."""
    notes = run.event_notes()
    ended = []
    for case, o in sorted(run.outcomes.items()):
        # cases that were only interrupted here can be resumed
        if o.status in ("event", "diverged", "zeno"):
            fields = [o.status, o.time, o.message, o.q, o.v, o.x, o.event, o.body, o.quantity]
            ended.append([case, fields])
    if ended:
        notes["ended"] = ended
    if run.asked >= 0:
        notes["asked"] = run.asked
    if sensing is not None:
        notes["sensing"] = sensing.memory()
    return Checkpoint(run.done, run.time, run.arrays(), notes)


def _header(
    setup: RunSetup, system: System, batch: tuple[int, ...], sensing: Sensing | None
) -> RunHeader:
    """Return the header of a run."""
    columns = system.columns
    if sensing is not None:
        named, units = sensing.channel_names, sensing.channel_units
        columns = (*columns, Column(SENSED, "sensor", named, units, "channel", "sensor reading"))
    differing = {}
    for name, values in setup.parameters.items():
        if np.ndim(values) > 1:
            differing[name] = np.reshape(values, (*batch, -1))
    options = setup.keywords()
    return RunHeader(setup.model, setup.world, batch, columns, options, setup.elements, differing)


# the run: an engine, and all who are due between two of its stretches

HAND_ON_INTERVAL = 1e-3
"""Wall-clock time between two looks at rows that wait for the recorder, progress and budget [s]."""

FLOAT = np.dtype(np.float64)


class _OutOfBudgetError(Exception):
    """The wall-clock time of a run is used up."""


Due: TypeAlias = tuple[int, Callable[[int], object]]
"""Steps between two calls of someone, and whom to call with the steps done."""


class Schedule:
    """Advances an engine from one to the next who is due: sensors, a controller.

    Nobody waits for rows: steps write them, but for those at which the engine stops anyway.

    How a run is cut into native calls depends on wall-clock time; what it computes does not: a call
    of n steps does exactly what n calls of one step do.

    Attributes:
        due: Who is called, in that order.
    """

    def __init__(
        self,
        setup: RunSetup,
        engine: Engine,
        sensing: Sensing | None,
        batch: tuple[int, ...],
        interruption: Interruption,
    ) -> None:
        """List who is due."""
        self.engine, self.interruption = engine, interruption
        self.steps, self.every, self.batch = setup.steps, setup.record_every, batch
        self.parameters = setup.parameters
        self.due: list[Due] = []
        hold, system = setup.hold or 1, engine.system
        ask: Callable[[int], object] | None = None
        if setup.control is not None and not setup.traced:
            ask = _asking(engine, setup.control, sensing, batch, interruption)
        elif system.held and (setup.adaptive or bool(system.sensed)):
            # a traced controller that no native call can sample
            ask = self._sample
        if sensing is not None:
            self.due.append((sensing.every, partial(self._look, sensing)))
        if ask is not None:
            self.due.append((hold, ask))

    def run_to_end(
        self, progress: Progress | None, budget: float | None, seconds: float, *, strict: bool
    ) -> None:
        """Run to the end, or to a reason to stop; all cases have an outcome then.

        Args:
            progress: Shows how far the run is.
            budget: Wall-clock time after which to stop [s].
            seconds: Wall-clock time between two calls of progress [s].
            strict: Whether the run stops as soon as a case has ended.
        """
        engine, interruption = self.engine, self.interruption
        assert engine.writer is not None
        self._limit = math.inf if budget is None else wall.perf_counter() + budget
        self._first, self._seconds, self._progress = engine.done, seconds, progress
        self._interval = HAND_ON_INTERVAL if progress is None else min(HAND_ON_INTERVAL, seconds)
        engine.check = self._check
        try:
            self._go(strict)
        except KeyboardInterrupt:
            # by Ctrl-C, or raised by code of the user
            interruption.wanted = interruption.finishing = True
            self._stop("interrupted", f"interrupted at {engine.time:.6g} s")
        except _OutOfBudgetError:
            spent = f"{budget:g} s of wall time"
            self._stop("budget", f"stopped at {engine.time:.6g} s: {spent} were not enough")
        finally:
            interruption.finishing = True
            if isinstance(progress, FirstSecond):
                progress.close()
        engine.hand_rows(whole=True)
        engine.writer.flush()

    def _go(self, strict: bool) -> None:
        """Advance from one to the next who is due."""
        engine, steps, due, rows = self.engine, self.steps, self.due, self.every
        advance, clock, interruption = engine.advance, wall.perf_counter, self.interruption
        self._shown = clock()
        look = min(self._shown + self._interval, self._limit)
        stop = REACHED
        while stop is not ENDED:
            done, until = engine.done, steps
            for every, visit in due:
                past = done % every
                if past == 0:
                    visit(done)
                if done - past + every < until:
                    until = done - past + every
            if done % rows == 0:
                # commands at this time are known now
                engine.record()
            if done >= steps or not engine.is_running or (strict and engine.outcomes):
                break
            if interruption.wanted or clock() >= look:
                look = self._look_at_the_clock(done)
            stop = advance(until)
        if engine.is_running and done >= steps:
            if done % rows:
                engine.record()
            if self._progress is not None:
                self._show(done)
            engine.end("finished", f"finished at {engine.time:.6g} s")

    # by the wall clock

    def _look_at_the_clock(self, done: int) -> float:
        """Hand rows on and show progress, if it is time; return when to look again [s].

        Raises:
            KeyboardInterrupt: After Ctrl-C.
            _OutOfBudgetError: If the budget is used up.
        """
        now = wall.perf_counter()
        self.engine.hand_on(now)
        if self._progress is not None and now - self._shown >= self._seconds and done > self._first:
            self._show(done)
            self._shown = now
        self._check()
        return min(now + self._interval, self._limit)

    def _show(self, done: int) -> None:
        assert self._progress is not None
        first, dt = self._first, self.engine.dt
        self._progress((done - first) * dt, (self.steps - first) * dt)

    def _check(self) -> None:
        """Raise what ends the run before its planned end."""
        if self.interruption.wanted:
            raise KeyboardInterrupt
        if wall.perf_counter() > self._limit:
            raise _OutOfBudgetError

    # who is due

    def _stop(self, status: str, message: str) -> None:
        """End a run before its planned end; its last state is recorded all the same."""
        engine = self.engine
        assert engine.writer is not None
        engine.hand_rows(whole=False)
        if engine.writer.last_time != engine.time and engine.is_running:
            engine.record()
        engine.end(status, message)

    def _sample(self, done: int) -> None:
        """Sample a traced controller."""
        engine = self.engine
        # a resumed run has sampled it here before
        if engine.asked != done and len(engine.running):
            engine.sample()
            engine.asked = done

    def _look(self, sensing: Sensing, done: int) -> None:
        """Let sensors measure all cases; those that ended, in their last state."""
        run, batch = self.engine, self.batch
        nq, state = run.system.model.nq, run.state
        u = run.held[:, : run.system.drive_size].copy()
        parts = [state[:, :nq], state[:, nq:], u]
        q, w, held = (np.ascontiguousarray(x).reshape(*batch, x.shape[-1]) for x in parts)
        rows = {
            name: np.reshape(values, (*batch, -1)) if np.ndim(values) > 1 else values
            for name, values in self.parameters.items()
        }
        sensing.look(run.done, q, w, held, run.time, **rows)
        run.readings = sensing.row.reshape(len(state), -1)
        if run.system.sensed:
            # a traced controller reads them among the held values
            run.held[:, run.system.readings] = run.readings
            run.commanded()


def _asking(
    run: Engine,
    control: Callable[[State], Any],
    sensing: Sensing | None,
    batch: tuple[int, ...],
    interruption: Interruption,
) -> Callable[[int], None]:
    """Return a function that calls a controller in Python and stores its commands.

    Its argument is the number of steps done. A controller gets arrays of its own, and may calculate
    in them. It is not called where a resumed run has called it before, nor after Ctrl-C.
    """
    system, begin, dt = run.system, run.begin, run.dt
    model, write = system.model, system.commands.write
    nq, nv = model.nq, model.nq + model.nv
    commands, joint_forces = len(system.commands), (model.nv,)
    # held values of one robot, with commands and joint forces among them
    held = u = forces = np.zeros(0)
    latest = EMPTY_READINGS
    has_states = bool(system.nx)
    in_place = run.reads_in_place

    def readings() -> Any:
        return latest if sensing is None else sensing.latest.copied()

    def ask_one(done: int) -> None:
        nonlocal held, u, forces, latest
        if run.asked == done:
            return
        if interruption.wanted:
            raise KeyboardInterrupt
        run.asked = done
        parted = system.partition
        q, v, x = run.parts()
        if run.held is not held:
            held = run.held
            u = held[0, :commands]
            forces = u[: joint_forces[0]]
        if sensing is not None:
            latest = readings()
        x = x.copy() if has_states else x
        time = begin + done * dt
        if parted is not None and not parted.is_first:
            # controllers run in the first process
            parted.share_commands(u)
            run.commanded()
            return
        answer = control(new_state(system, time, q.copy(), v.copy(), x, u.copy(), latest))
        if type(answer) is np.ndarray and answer.shape == joint_forces and answer.dtype is FLOAT:
            forces[:] = answer
        else:
            write(u, answer)
        if parted is not None:
            parted.share_commands(u)
        if parted is not None or not in_place:
            run.commanded()

    def ask_many(done: int) -> None:
        if run.asked == done:
            return
        if interruption.wanted:
            raise KeyboardInterrupt
        run.asked = done
        y = run.state.copy().reshape(*batch, -1)
        rows = run.held[:, :commands]
        u = rows.copy().reshape(*batch, -1)
        parts = y[..., :nq], y[..., nq:nv], y[..., nv:]
        state = new_state(system, begin + done * dt, *parts, u.copy(), readings())
        if not done:
            state = first_state(control, state, batch, write)
        write(u, control(state))
        rows[:] = u.reshape(len(rows), -1)
        run.commanded()

    return ask_many if batch else ask_one
