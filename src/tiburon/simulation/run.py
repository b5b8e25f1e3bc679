"""A run from its setup to its trajectory: fresh, or continued from a checkpoint."""

import math
import time as wall
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tiburon.argument_checks import check_signature
from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError, OptionError, RunFileError, shown
from tiburon.model import Model, World
from tiburon.model.joints import Driven
from tiburon.results.checkpoint import Checkpoint
from tiburon.results.header import Column, RunHeader
from tiburon.results.outcome import Outcome
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.adaptive_run import AdaptiveRun
from tiburon.simulation.diagnosis import tell_rank_changes
from tiburon.simulation.events import Watch
from tiburon.simulation.fixed_run import FixedRun
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.progress import INTERVAL, FirstSecond, Interruption, Progress, progress_of
from tiburon.simulation.recorder import SENSED, Recorder, RowWriter
from tiburon.simulation.run_parameters import with_named
from tiburon.simulation.sensing import Sensing, Sensor
from tiburon.simulation.state import State
from tiburon.simulation.system import System
from tiburon.trace.declared import is_traced

__all__ = ["Course", "RunSetup", "carry_out", "conduct"]

Array = NDArray[np.float64]


NEEDED = ("method", "adaptive", "rtol", "atol", "dt", "begin", "steps", "record_every")
"""Keywords of a run without which it cannot go on."""


PATH_SAMPLES = 101
"""Times of a run at which the rates of given paths are compared with each other."""


def check_control(control: Any) -> None:
    """Refuse a controller that is not a function of the state."""
    if control is None:
        return
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
    control: Any
    hold: int | None
    """Steps between two samples of the controller; None if it is never sampled."""
    method: str
    adaptive: bool
    rtol: float
    atol: float
    dt: float
    begin: float
    steps: int
    """Steps from the start to the planned end."""
    record_every: int
    record: tuple[str, ...]
    sensors: tuple[Any, ...]
    events: tuple[Any, ...]
    parameters: Mapping[str, Any]
    """Tables of run-time numbers as code takes them."""
    threads: int | None
    redundancy_tolerance: float = 0.0
    named: Mapping[str, Any] = MappingProxyType({})
    """Values by name that replace those of robot, surroundings, elements and controller."""

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
            "redundancy_tolerance": self.redundancy_tolerance,
        }

    def system(self) -> System:
        """Build the system of the run."""
        model, world = with_named(self.model, self.world, tuple(self.named or ()))
        return System(model, world, self.elements, steps=True, **self.system_options())

    def keywords(self) -> dict[str, Any]:
        """Return all that a trajectory's header does not hold elsewhere."""
        kept = self._asdict()
        for name in ("model", "world", "elements"):
            del kept[name]
        return {name: value for name, value in kept.items() if value is not None}

    @classmethod
    def of(cls, run: Trajectory, changes: Mapping[str, Any]) -> "RunSetup":
        """Return the setup of a run that goes on.

        Args:
            run: The earlier run.
            changes: What is given again: "control", "events", "sensors", "elements", "threads".
        """
        allowed = ("control", "events", "sensors", "elements", "threads", "world")
        for name in changes:
            if name not in allowed:
                raise OptionError("resume: keyword", allowed, name)
        lacking = [name for name in NEEDED if run.header.setup.get(name) is None]
        if lacking:
            raise RunFileError(
                "run" if run.store is None else run.store.path,
                f"does not say its {' and '.join(lacking)}, so it cannot go on; start a new run "
                "with tiburon.simulate",
            )
        kept: dict[str, Any] = dict.fromkeys(cls._fields) | cls._field_defaults
        kept |= {"world": run.world, "elements": run.header.elements, **run.header.setup, **changes}
        kept |= {name: tuple(kept[name] or ()) for name in ("events", "sensors", "elements")}
        kept["parameters"] = kept["parameters"] or {}
        check_control(kept["control"])
        check_sensors(kept["sensors"])
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
    """Run from a checkpoint to the end, and return the whole.

    Args:
        setup: What to do.
        system: What moves.
        batch: Shape of the cases.
        checkpoint: Where to start.
        progress: As `simulate` takes it.
        budget: Wall time [s], or None.
        store: Where rows go on the way; None for memory.
        earlier: The run that is continued, or None.
        progress_seconds: Wall time between two calls of progress [s]; 0.1 by default.
        strict: Whether the run stops as soon as a case has ended.
    """
    one = batch == ()
    start = None
    if store is not None:
        # a copy, as the run goes on in the arrays of the checkpoint
        arrays = {name: np.array(values) for name, values in checkpoint.arrays.items()}
        start = Checkpoint(checkpoint.step, checkpoint.time, arrays, checkpoint.notes)
    end = setup.begin + setup.steps * setup.dt
    if system.time_matters:
        for joint in setup.model.joints:
            if isinstance(joint, Driven):
                joint.check_paths(np.linspace(setup.begin, end, PATH_SAMPLES).tolist())
    sensing = None
    if setup.sensors:
        sensing = Sensing(system, setup.sensors, setup.dt, batch)
        if "sensing" in checkpoint.notes:
            with _restoring(earlier, "sensors"):
                sensing.restore(checkpoint.notes["sensing"])
    run = _run(setup, system, checkpoint, one, sensing, earlier)
    header = _header(setup, system, batch, sensing)
    rows = len(range(0, setup.steps, setup.record_every)) + 1
    if earlier is None:
        try:
            recorder = Recorder(header, rows=rows, store=store, start=start)
        except MemoryError:
            size = f"{rows} rows of {header.row_bytes} bytes"
            advice = "record less often, or to disk with store="
            raise DomainError("record_dt", "rows that fit in memory", size, advice=advice) from None
    else:
        keep = math.ceil(checkpoint.step / setup.record_every)
        recorder = Recorder.continued(earlier, header, keep, rows, checkpoint)
    course = Course(
        setup.steps,
        setup.record_every,
        setup.hold or 1,
        None if setup.traced else setup.control,
        system.held and (setup.adaptive or bool(system.sensed)),
        sensing,
        dict(setup.parameters),
        one,
        batch,
        budget,
        INTERVAL if progress_seconds is None else progress_seconds,
        strict,
    )
    if sensing is not None:
        run.readings = sensing.row.reshape(len(run.state), -1)

    def now() -> Checkpoint:
        return _checkpoint(run, sensing)

    writer = RowWriter(
        recorder,
        system,
        len(run.state),
        run.held.shape[1],
        0 if sensing is None else len(sensing.channel_names),
        setup.parameters,
        now,
    )
    try:
        conduct(run, course, writer, progress_of(progress, setup.model.name))
    except BaseException:
        recorder.release()
        raise
    if run.state.base is None and run.held.base is None:
        # nothing moves any more: outcomes and checkpoint share what is there
        run.state.flags.writeable = run.held.flags.writeable = False
    outcomes = run.all_outcomes()
    tell_rank_changes(system, recorder, setup.steps, outcomes)
    happened = sorted(run.happenings, key=lambda one: one.time)
    return recorder.finish(outcomes, happened, now())


@contextmanager
def _restoring(earlier: Trajectory | None, part: str) -> Iterator[None]:
    """Raise `RunFileError` where a checkpoint from a file does not hold what it should."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise RunFileError(
            "run" if earlier is None or earlier.store is None else earlier.store.path,
            f"what its checkpoint says of {part} is damaged ({type(error).__name__}: {error}); "
            f"restore the file from a copy, or pass the {part}= that were simulated",
        ) from error


def _run(
    setup: RunSetup,
    system: System,
    checkpoint: Checkpoint,
    one: bool,
    sensing: Sensing | None,
    earlier: Trajectory | None,
) -> FixedRun | AdaptiveRun:
    """Return the cases in the states of a checkpoint.

    They are copied from one that is shared with an earlier run; another is taken apart.
    """
    jumps = setup.hold
    if system.sensed and sensing is not None:
        # commands also jump where sensors say something new
        jumps = math.gcd(sensing.every, setup.hold or 0)
    if system.z_names and (setup.adaptive or METHODS[setup.method].has_memory):
        kind, cure = "multi-step", 'take method="rk4"'
        if setup.adaptive:
            kind, cure = "adaptive", f"{cure}, or pass adaptive=False"
        raise ModelError(
            f"discrete state {system.z_names[0]!r}: expected a one-step method with equal steps, "
            f"got {kind} method {setup.method!r}; {cure}"
        )
    watch = Watch(setup.events, setup.begin, setup.dt) if setup.events else None
    state, held = checkpoint.arrays["state"], checkpoint.arrays["held"]
    if earlier is not None:
        state, held = state.copy(), held.copy()
    else:
        state.flags.writeable = held.flags.writeable = True
    run: FixedRun | AdaptiveRun
    if setup.adaptive:
        run = AdaptiveRun(
            system,
            setup.method,
            watch,
            setup.parameters,
            setup.threads,
            state,
            held,
            setup.begin,
            setup.dt,
            jumps,
            setup.rtol,
            setup.atol,
            one=one,
            record_every=setup.record_every,
            steps=setup.steps,
            memory=checkpoint.arrays.get("memory"),
        )
    else:
        run = FixedRun(
            system,
            setup.method,
            watch,
            setup.parameters,
            setup.threads,
            state,
            held,
            setup.begin,
            setup.dt,
            setup.hold or 1,
            one=one,
            commanded=(setup.control is not None and not setup.traced) or bool(system.sensed),
            record_every=setup.record_every,
            steps=setup.steps,
        )
    with _restoring(earlier, "events"):
        run.restore_events(checkpoint.arrays, checkpoint.notes)
    if watch is not None and not checkpoint.step and not run.started:
        run.start_events()
    run.started = True
    if isinstance(run, FixedRun):
        if checkpoint.step:
            run.resume(checkpoint.arrays.get("fresh"))
        elif system.held and not system.sensed:
            run.sample_first()
    run.done = checkpoint.step
    run.asked = int(checkpoint.notes.get("asked", -1))
    if checkpoint.step and _has_jumped(setup, system, run.asked, checkpoint.step, sensing):
        run.jump()
    for case, fields in checkpoint.notes.get("ended", []):
        run.close(int(case), Outcome(*fields))
    return run


def _has_jumped(
    setup: RunSetup, system: System, asked: int, step: int, sensing: Sensing | None
) -> bool:
    """Return whether commands jumped where a run was cut, after its last step."""
    outside = setup.control is not None and not setup.traced
    if outside and asked == step:
        return True
    # steps that adapt have restarted already where a held controller was asked
    read = system.sensed and not (setup.adaptive and system.held)
    return bool(read) and sensing is not None and sensing.looked == step


def _checkpoint(run: FixedRun | AdaptiveRun, sensing: Sensing | None) -> Checkpoint:
    """Return all it takes to go on from where a run is."""
    notes: dict[str, Any] = {}
    # those that were only cut here go on
    ended = [
        [case, [o.status, o.time, o.message, o.q, o.v, o.x, o.event, o.body, o.quantity]]
        for case, o in sorted(run.outcomes.items())
        if o.status in ("event", "diverged", "zeno")
    ]
    if ended:
        notes["ended"] = ended
    if run.asked >= 0:
        notes["asked"] = run.asked
    notes |= run.event_notes()
    if sensing is not None:
        notes["sensing"] = sensing.memory()
    return Checkpoint(run.done, run.time, run.arrays(), notes)


def _header(
    setup: RunSetup, system: System, batch: tuple[int, ...], sensing: Sensing | None
) -> RunHeader:
    """Return what is known of a run before it starts."""
    columns = system.columns
    if sensing is not None:
        named, units = sensing.channel_names, sensing.channel_units
        columns = (*columns, Column(SENSED, "sensor", named, units, "channel", "sensor reading"))
    differing = {
        name: np.reshape(values, (*batch, -1))
        for name, values in setup.parameters.items()
        if np.ndim(values) > 1
    }
    return RunHeader(
        setup.model,
        setup.world,
        batch,
        columns,
        setup.keywords(),
        elements=setup.elements,
        case_parameters=differing,
    )


# the loop: controllers, sensors, rows, steps, progress, and the reasons to stop

CHUNK_SECONDS = 0.02
"""Wall time after which native code returns to Python [s]."""

HAND_ON_INTERVAL = 1e-3
"""Wall time between two looks at the rows that wait for the recorder [s]."""

FIRST_STEPS = 1
"""Steps of the first call at least, before the pace is known."""

GROWTH = 8
"""Factor by which the number of steps may grow from one call to the next."""


class _OutOfBudgetError(Exception):
    """The wall time of a run is over while native calls go on."""


class Course(NamedTuple):
    """What the loop does beside steps."""

    steps: int
    """Step at which the run ends."""

    record_every: int
    """Steps between two rows."""

    hold: int
    """Steps between two calls of the controller."""

    control: Callable[[State], Any] | None
    """A controller in Python, or None."""

    sampling: bool
    """Whether the loop samples a traced controller, because no native call can."""

    sensing: Sensing | None
    """Sensors, or None."""

    parameters: dict[str, Any]
    """Run-time parameters of the cases, for sensors."""

    one: bool
    """Whether this is one robot: its controller then sees no dimension of cases."""

    batch: tuple[int, ...]
    """Shape of the cases."""

    budget: float | None
    """Wall time after which to stop [s]."""

    progress_seconds: float
    """Wall time between two calls of progress [s]."""

    strict: bool
    """Whether the run stops as soon as a case has ended."""


def conduct(
    run: FixedRun | AdaptiveRun, course: Course, writer: RowWriter, progress: Progress | None
) -> None:
    """Take a run to its end, or to a reason to stop; all its cases have an outcome then.

    How a run is cut into native calls depends on wall-clock time; what it computes does not: a call
    of n steps does exactly what n calls of one step do.

    Args:
        run: The cases.
        course: What to do beside steps.
        writer: Where rows go.
        progress: Called with simulated time since the start, and in all; or None.
    """
    run.writer = writer
    with Interruption() as interruption:
        limit = np.inf if course.budget is None else wall.perf_counter() + course.budget

        def patience() -> None:
            if interruption.wanted:
                raise KeyboardInterrupt
            if wall.perf_counter() > limit:
                raise _OutOfBudgetError

        run.patience = patience
        try:
            _go(run, course, progress, interruption, limit)
        except KeyboardInterrupt:
            _stop(run, writer, "interrupted", f"interrupted at {run.time:.6g} s")
        except _OutOfBudgetError:
            _stop(run, writer, *_out_of_budget(run, course))
        finally:
            if isinstance(progress, FirstSecond):
                progress.close()
    run.hand_rows(whole=True)
    writer.flush()


def _go(
    run: FixedRun | AdaptiveRun,
    course: Course,
    progress: Progress | None,
    interruption: Interruption,
    deadline: float,
) -> None:
    steps, every, hold, sensing = course.steps, course.record_every, course.hold, course.sensing
    ask = _Asking(run, course).ask if course.control is not None else None
    # intervals between two calls of Python code
    waits = [hold] if ask is not None or course.sampling else []
    if sensing is not None:
        waits.append(sensing.every)
    first, recorded = run.done, -1
    now = told = looked = wall.perf_counter()
    # longer native calls than these are not asked for
    between = min(waits, default=steps)
    limit = max(FIRST_STEPS, run.first_steps(0.1 * CHUNK_SECONDS))
    while True:
        done = run.done
        if now >= looked:
            run.hand_on(now)
            looked = now + HAND_ON_INTERVAL
        if sensing is not None and done % sensing.every == 0:
            _look(run, course, sensing)
        # a run that is resumed has called its controller here before
        if done % hold == 0 and run.asked != done:
            if ask is not None and not interruption.wanted:
                ask(done)
                run.asked = done
            elif course.sampling and len(run.running):
                run.sample()
                run.asked = done
        if not run.is_running or (course.strict and run.outcomes):
            if not done and recorded != done:
                # ended by events at the start, which is recorded all the same
                run.record()
            return
        # commands at this time are known now
        if (done % every == 0 or done == steps) and recorded != done:
            run.record()
            recorded = done
        if done >= steps:
            run.end("finished", f"finished at {run.time:.6g} s")
            return
        now = called = wall.perf_counter()
        if interruption.wanted:
            raise KeyboardInterrupt
        if called > deadline:
            raise _OutOfBudgetError
        end = done + limit if done + limit < steps else steps
        for wait in waits:
            due = done - done % wait + wait
            if due < end:
                end = due
        run.advance(end)
        if limit <= between:
            # only as many steps as fit into a call, and no sudden growth
            now = wall.perf_counter()
            fitting = CHUNK_SECONDS * (run.done - done) / max(now - called, 1e-12)
            limit = max(1, min(int(fitting), GROWTH * limit))
        if progress is not None and (run.done == steps or now - told >= course.progress_seconds):
            progress((run.done - first) * run.dt, (steps - first) * run.dt)
            told = now
            now = wall.perf_counter()


def _stop(run: FixedRun | AdaptiveRun, writer: RowWriter, status: str, message: str) -> None:
    """End a run that was not to end here; its last state is recorded all the same."""
    run.hand_rows(whole=False)
    if writer.last_time != run.time and run.is_running:
        run.record()
    run.end(status, message)


def _out_of_budget(run: FixedRun | AdaptiveRun, course: Course) -> tuple[str, str]:
    spent = f"{course.budget:g} s of wall time"
    return "budget", f"stopped at {run.time:.6g} s: {spent} were not enough"


def _look(run: FixedRun | AdaptiveRun, course: Course, sensing: Sensing) -> None:
    """Let sensors look at the cases; those that ended are seen as they were."""
    nq, state = run.system.model.nq, run.state
    u = run.held[:, : run.system.drive_size].copy()
    parts = [state[:, :nq], state[:, nq:], u]
    shaped = [np.ascontiguousarray(x).reshape(*course.batch, x.shape[-1]) for x in parts]
    rows = {
        name: np.reshape(values, (*course.batch, -1)) if np.ndim(values) > 1 else values
        for name, values in course.parameters.items()
    }
    q, w, held = shaped
    sensing.look(run.done, q, w, held, run.time, **rows)
    run.readings = sensing.row.reshape(len(state), -1)
    if run.system.sensed:
        # a controller inside the loop finds the readings among the held values
        run.held[:, run.system.readings] = run.readings
        run.commanded()


class _Asking:
    """Calls a controller in Python and puts its commands where the next steps find them."""

    def __init__(self, run: FixedRun | AdaptiveRun, course: Course) -> None:
        self._run, self._course, self._system = run, course, run.system
        model = run.system.model
        self._nq, self._nv = model.nq, model.nq + model.nv
        self._commands = len(run.system.commands)
        self._joint_forces = (model.nv,)
        # held values of the one robot, commands and joint forces among them
        self._held: Array | None = None
        self._u = self._forces = np.zeros(0)

    def ask(self, done: int) -> None:
        """Call the controller in the state of the run."""
        run, course, system = self._run, self._course, self._system
        time = run.begin + done * run.dt
        # a controller gets arrays of its own, and may calculate in them
        sensors = None if course.sensing is None else course.sensing.latest.copied()
        control = course.control
        assert control is not None
        if course.one:
            q, v, x = run.parts()
            held = run.held
            if held is not self._held:
                self._held, self._u = held, held[0, : self._commands]
                self._forces = self._u[: self._joint_forces[0]]
            u = self._u
            state = State(system, time, q.copy(), v.copy(), x.copy(), u.copy(), None, sensors)
            answer = control(state)
            if (
                type(answer) is np.ndarray
                and answer.shape == self._joint_forces
                and answer.dtype is FLOAT
            ):
                self._forces[:] = answer
            else:
                system.commands.write(u, answer)
        else:
            nq, nv, batch = self._nq, self._nv, course.batch
            y = run.state.copy().reshape(*batch, -1)
            held = run.held[:, : self._commands]
            u = held.copy().reshape(*batch, -1)
            state = State(
                system, time, y[..., :nq], y[..., nq:nv], y[..., nv:], u.copy(), None, sensors
            )
            system.commands.write(u, control(state))
            held[:] = u.reshape(len(held), -1)
        run.commanded()


FLOAT = np.dtype(np.float64)
