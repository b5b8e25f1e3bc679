"""`simulate`: put a robot in its world and run it, one or thousands."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.contact_models import (
    DEFAULT_CONTACT,
    ContactModel,
    checked_contact,
    contact_elements,
)
from tiburon.actuation.defaults import as_elements
from tiburon.actuation.element import Element
from tiburon.actuation.joint_laws import (
    STABLE_RATE,
    LawChoice,
    ended_laws,
    law_rates,
    least_inertia_of,
    refuse_immovable,
    refuse_laws,
    sampled_positions,
)
from tiburon.actuation.prescribed import CASE, PrescribedMotion, cases_of, prescribed_motions
from tiburon.actuation.servo_drive import set_points
from tiburon.actuation.stick_slip import refuse_long_steps
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.arguments import caller_level, public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import (
    DomainError,
    LoopError,
    MissingExtraError,
    ModelError,
    ModelWarning,
    RunFileError,
    ShapeError,
    TiburonError,
    shown,
)
from tiburon.functions.assembly import check_switched_start, closed_start, resting_position
from tiburon.functions.contact import StuckError, clear_start
from tiburon.functions.dynamics import mass_matrix
from tiburon.functions.library import GEOMETRY, check_places
from tiburon.functions.parameters import dynamics_parameters
from tiburon.loops.loop_method import LoopMethod, checked_loops
from tiburon.loops.stabilization import PROJECTION
from tiburon.model import Model, Water, World
from tiburon.model.configuration import as_batch
from tiburon.results.checkpoint import Checkpoint
from tiburon.results.encoding import first_line
from tiburon.results.record import Record, checked_record
from tiburon.results.rows import MemoryRows
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.compatibility import refuse_method
from tiburon.simulation.contact_start import starting_states
from tiburon.simulation.contact_steps import refuse_long_contact_steps
from tiburon.simulation.events import Event, TimeEvent
from tiburon.simulation.execution import Execution, checked_execution
from tiburon.simulation.integrators.dop853 import Dop853
from tiburon.simulation.integrators.integrator import (
    EXACT_ATOL,
    EXACT_RTOL,
    Integrator,
    checked_integrator,
)
from tiburon.simulation.integrators.method import Method
from tiburon.simulation.integrators.methods import METHODS, method_of
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.limit_start import beyond_limits, within_limits
from tiburon.simulation.located_contact import mesh_parameters
from tiburon.simulation.loop_coordinates import coordinates_element, starting_coordinates
from tiburon.simulation.partitioned import CURRENT_SESSION, refuse_batch, run_digest, run_in_parts
from tiburon.simulation.run import RunSetup, carry_out, check_control, check_sensors
from tiburon.simulation.run_parameters import VariedRun, vary_run
from tiburon.simulation.sampled import Sampled, controller_of
from tiburon.simulation.sensing import MOST_CASES, WHOLE_STEPS_TOLERANCE, Sensor
from tiburon.simulation.soft_loops import may_be_soft, soft_loops, soft_springs
from tiburon.simulation.state import State
from tiburon.simulation.step import MOST_STEPS
from tiburon.simulation.surrounded import surrounded
from tiburon.simulation.system import System
from tiburon.simulation.vanishing_inertia import movable
from tiburon.trace.declared import is_traced

MOST_PARTS = 10**6
"""Parts of an interval of which other times are multiples in event-driven runs, at most."""

DEFAULT_CONTROL_DT = 0.01
"""Time between two calls of a controller in Python by default [s]."""

DEFAULT_RECORD_DT = 0.01
"""Time between two rows by default [s]."""

EXACT_DEFAULT = Dop853(EXACT_RTOL, EXACT_ATOL)
"""Integrator of runs with exact contact by default."""

START_TOLERANCE = 1e-6
"""Relative distance of the start from a prescribed path that is attributed to rounding."""


@public
def simulate(
    model: Model,
    duration: float,
    *,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    x: ArrayLike | None = None,
    world: World | None = None,
    fluid: Water | Sequence[Water] | None = None,
    control: Callable[[State], Any] | Sampled | None = None,
    command: Mapping[str, ArrayLike] | ArrayLike | None = None,
    elements: Sequence[Any] = (),
    prescribed: Mapping[str, Any] | None = None,
    contact: ContactModel | None = DEFAULT_CONTACT,
    sensors: Sequence[Sensor] = (),
    events: Sequence[Event | TimeEvent] = (),
    method: Integrator | None = None,
    loops: LoopMethod = PROJECTION,
    record: Record | None = None,
    time: float = 0.0,
    parameters: Mapping[str, ArrayLike] | None = None,
    execution: Execution | None = None,
) -> Trajectory:
    """Simulate a robot in its world, one case or a batch.

    Steps run in native code, which returns to Python about every 20 ms. Recording, progress bars,
    membership in a batch and events without actions do not change a bit of the motion.

    Times are ``time + n * dt`` with the dt of the integrator. Duration, `Sampled.dt` and
    `Record.dt` must be integer multiples of dt; with exact contact, a part of dt is taken of which
    they are. Adaptive methods choose their own steps between these times, separately for each case.

    Args:
        model: The robot. After every step, positions and velocities are projected onto loop
            constraints by the smallest change in the metric of the mass matrix.
        duration: Simulated time [s].
        q: Initial configuration [m or rad], shape (..., nq), with closed loops;
            by default that of the controller (`initial_position`, as of `LoadSharingControl`),
            else `model.neutral()`, or the pose "home" of a robot with loops, or the pose
            "initial" of a file that states where it starts.
        v: Initial joint velocity [m/s or rad/s], shape (..., nv); zero by default.
        x: Initial continuous states of elements and controller, shape (..., nx); by default those
            that the elements define. States for the independent velocities of `Embedding` and
            `DeNOC` are selected again.
        world: Gravity, ground and fluid; gravity (0, 0, -9.81) m/s^2 on land by default.
        fluid: The surrounding water; short for a world with this fluid. A list has one `Water` per
            case; so has a `Water` with arrays of densities or currents.
        control: Controller: a function of a `State` that returns commands by name, or an array of
            joint forces. Marked with `traced`, it is compiled into the loop and evaluated at every
            stage of the integrator. With continuous states
            (`state_names`, `initial_state`) it returns commands and state rates. With discrete
            states (`discrete_state_names`, `initial_discrete_state`, read from `state.own_z`) it is
            sampled, every dt by default, and returns commands and next values. Other functions are
            called every 0.01 s, with native steps in between; in a batch they receive arrays
            with leading batch dimensions. `Sampled` gives any controller another period.
        command: Constant commands, by name or as an array (..., commands); zero by default. A
            controller overrides those that it returns.
        elements: Elements, springs, cylinders and other parts that act, in addition to those of the
            robot; `Model.without_passive` and `Model.without_limits` leave out some of these.
        prescribed: Joints that follow paths exactly while the others react, by joint: a
            `JointPath` of the joint, or a formula of time (`Harmonic`, `Polynomial`); a list has
            one JointPath per case. Their initial positions and velocities are those of the
            path. The required forces are the quantity "prescribed_force".
        contact: How bodies touch: `RigidContact` with Coulomb friction and restitution by impulses
            at the end of each step, `CompliantContact` by forces of springs, dampers and friction,
            `ExactContact` for rigid contact whose changes are located as events, or None for no
            contact. By default, if the world has ground that the robot can touch or the robot
            names pairs (`Model(contact_pairs=...)`), compliant if the ground has a stiffness, else
            rigid (docs/contact.md).
        sensors: Sensors; controllers read them from `state.sensors`, and they are recorded.
        events: Events to detect.
        method: Integrator with its step and tolerances: `RK4`, `SemiImplicitEuler`,
            `DormandPrince`, `Dop853`, `Rosenbrock`, ...; ``RK4(dt=1e-3)`` by default, and with
            exact contact ``Dop853(rtol=1e-12, atol=1e-13)``.
        loops: How loops are held: `Projection` of every step onto the loop constraints, without
            gains, by default; `Penalty(stiffness)` or `Baumgarte(alpha, beta)` by forces or
            corrected accelerations, `Embedding(basis, decay)` by independent velocities,
            `DeNOC(state)` for platforms on legs; these with explicit methods. The initial
            configuration need not be closed then, except for a minimal state.
        record: Which rows and quantities are recorded, and where to, by a `Record`; a row every
            0.01 s, in memory, by default.
        time: Initial time [s].
        parameters: Values that replace those of the robot, the world, elements and
            controller, by name: ``{"vehicle.mass": [10.0, 12.0], "control.stiffness": 40.0}``;
            one value, or one per case in the leading dimension. `parameters` of this package lists
            all names. Changed values do not recompile.
        execution: Threads, processes, wall-clock budget and progress, by an `Execution`.

    Returns:
        The run. `run.outcome` describes how it ended: finished, by an event, diverged or out of
        budget; in a batch each case has its own in `run.outcomes`, and its states after its end
        are NaN.

    Raises:
        KeyboardInterrupt: After Ctrl-C, when all rows so far are safe; its attribute `run` is the
            run up to there, with the outcome "interrupted".
        ShapeError: If an array does not fit.
        NonFiniteError: If an array holds NaN or infinity.
        DomainError: If a time is invalid, if loops are open at the start, or if a robot with
            loops starts at rest exactly in a singular configuration.
        LoopError: If constraints are nearly redundant and disagree by more than the tolerance.
        ModelError: If elements, events or sensors do not fit the robot.

    Example:
        Five seconds of an arm that is held by springs::

            run = tb.simulate(arm, 5.0, control=lambda state: -40.0 * state.q - 6.0 * state.v)
            run.plot("joint_position")
    """
    given = SimpleNamespace(**locals())
    carried = checked_execution(execution)
    if carried.partition is not None:
        undivided = replace(carried, partition=None, exchange=None)
        options = {**vars(given), "execution": undivided}
        return run_in_parts(model, carried, options, lambda: simulate(**options))
    parted = CURRENT_SESSION.get()
    ready = _prepare(given)
    # runs that a controller starts are not in parts
    CURRENT_SESSION.set(None)
    while True:
        try:
            batch, state, held, rows = ready.start(q, v, x, command)
            break
        except StuckError as stuck:
            if stuck.apart is None or parted is not None:
                raise
            _warn_of_stuck(model, stuck)
            given.model = stuck.apart
            ready = _prepare(given)
    setup, system = ready.setup, ready.system
    progress = carried.progress
    if parted is not None:
        refuse_batch(batch)
    if carried.case_numbers is not None:
        setup = setup._replace(case_numbers=_case_numbers(carried.case_numbers, batch))
    if rows:
        setup = setup._replace(parameters=rows)
    store = None if record is None else record.store
    # no other object holds these arrays
    state.flags.writeable = held.flags.writeable = False
    checkpoint = Checkpoint(0, setup.begin, {"state": state, "held": held})
    if parted is not None:
        parted.agree(run_digest(setup, system, checkpoint))
        if not parted.is_first:
            progress, store = False, None
    return carry_out(setup, system, batch, checkpoint, progress, carried.budget, store=store)


def _warn_of_stuck(model: Model, stuck: StuckError) -> None:
    """Report bodies whose contacts a run leaves out."""
    pairs = sorted(" and ".join(map(repr, sorted(pair))) for pair in stuck.bodies)
    warnings.warn(
        f"model {model.name!r}: {stuck.argument} overlaps at the start and no motion takes it "
        f"apart; contacts of {', '.join(pairs)} were left out. Move these bodies, or exclude them "
        "with ContactPair(..., touches=False)",
        ModelWarning,
        stacklevel=caller_level(),
    )


class Preparation(NamedTuple):
    """A run whose arguments are checked and whose system is built; only start states are open."""

    setup: RunSetup
    """Its options; run-time parameters follow from the start."""

    system: System
    """The robot, its surroundings, what acts on it."""

    varied: VariedRun | None
    """Parameters set by name; None if there are none."""

    around: World
    """Surroundings of contacts."""

    contact_pairs: Sequence[tuple[str, str]] | None
    """Pairs of bodies that may touch, as a model of contact has them."""

    vary: Callable[[Mapping[str, Any]], VariedRun]
    """Sets parameters of the same names to other values."""

    def start(
        self, q: ArrayLike | None, v: ArrayLike | None, x: ArrayLike | None, command: Any
    ) -> tuple[tuple[int, ...], Array, Array, dict[str, Array]]:
        """Return the batch, states and held values of all cases, and parameters; checked.

        The arguments are those of `simulate`.
        """
        setup, system, model = self.setup, self.system, self.system.model
        if q is None and hasattr(setup.control, "initial_position"):
            q = setup.control.initial_position(model)
        batch, state, held, rows = _start(system, q, v, x, command, self.varied)
        if system.prescribes:
            _start_on_paths(system, state, setup.begin, rows.get(ELEMENTS), (q is None, v is None))
        given = state[:, : model.nq]
        given[:] = within_limits(system, given)
        if model.loops and setup.loops.starts_closed:
            _close(system, state, setup.begin, rows)
        if system.is_exact or system.ends_in_contact:
            given[:] = clear_start(model, given, self.around, self.contact_pairs, setup.begin, rows)
        if system.held_loops.coordinates is not None:
            inner = state[:, model.nq + model.nv :]
            inner[:, system.held_loops.coordinates.states] = starting_coordinates(
                system, state[:, : model.nq]
            )
        if system.find(ContactElement) is not None:
            positions, velocities = np.split(state[:, : model.nq + model.nv], [model.nq], axis=1)
            held[:, system.discrete] = starting_states(
                system, positions, velocities, setup.begin, rows
            )
            method = METHODS[setup.method]
            refuse_long_contact_steps(
                system, method, setup.dt, positions, setup.begin, rows.get(ELEMENTS)
            )
            rows = mesh_parameters(system, rows, math.prod(batch) if batch else None)
        return batch, state, held, rows


def prepare(model: Model, duration: float, **options: Any) -> Preparation:
    """Check the arguments of a run and build its system.

    The keywords are those of `simulate`, with its defaults.
    """
    return _prepare(
        SimpleNamespace(**{**_DEFAULTS, **options, "model": model, "duration": duration})
    )


def _prepare(given: SimpleNamespace) -> Preparation:
    """Check all arguments of a run and build its system."""
    model: Model = movable(given.model)
    given.model = model
    world, fluid = given.world, given.fluid
    control, control_dt = controller_of(given.control)
    contact, loops = checked_contact(given.contact), checked_loops(given.loops)
    check_places(model, world)
    if loops is PROJECTION and may_be_soft(model):
        loops = given.loops = _held_softly(given) or loops
    exact = contact is not None and contact.is_event_driven
    integrator = checked_integrator(given.method or (EXACT_DEFAULT if exact else RK4()))
    if control is not None:
        check_control(control)
    place = None if world is None and fluid is None else world_with(world, fluid)
    touching, extra, motions = _acting(given, place, contact, loops, integrator)
    parameters = _with_paths(given.parameters, motions)
    record = checked_record(given.record)
    dt, method, adapting = integrator.dt, integrator.scheme, integrator.is_adaptive
    if exact and not record.every:
        lengths = (given.duration, record.dt, control_dt)
        dt = _common_interval(dt, [_time("duration", x) for x in lengths if x is not None])
    laws = () if adapting else _laws(given, METHODS[method], dt)
    if given.parameters is None and (place is None or place.fluid is None):
        refuse_immovable(model, laws, [motion.joint for motion in motions])
    own, varied = control, None

    def vary(values: Mapping[str, Any]) -> VariedRun:
        # the paths of cases are part of the run, whatever else differs
        values = {**values, **cases_of(motions)}
        return vary_run(model, place or DEFAULT_WORLD, extra, own, values, laws)

    if parameters is not None or (place is not None and place.cases is not None):
        varied = vary(parameters or {})
        surroundings, elements, control = varied.world, varied.elements, varied.control
    else:
        # one water, or `place` would have cases
        around = surrounded(model, world, fluid, laws)
        surroundings, elements = around.world, (*around.elements, *extra)
    hold = None if control is None else _control_steps(model, control, control_dt, dt)
    parted = CURRENT_SESSION.get()
    setup = RunSetup(
        model=model,
        world=surroundings,
        elements=elements,
        control=control,
        hold=hold,
        method=method,
        adaptive=adapting,
        rtol=integrator.tolerances[0],
        atol=integrator.tolerances[1],
        dt=dt,
        begin=_time("time", given.time),
        steps=_whole_steps("duration", _time("duration", given.duration), dt),
        record_every=record.every or _interval("Record: dt", record.dt, DEFAULT_RECORD_DT, dt),
        record=tuple(record.quantities),
        sensors=_listed("sensors", given.sensors, Sensor, "Sensor"),
        events=_listed("events", given.events, (Event, TimeEvent), "Event or TimeEvent"),
        parameters={},
        threads=checked_execution(given.execution).threads,
        loops=loops,
        named={} if varied is None else varied.named,
        cuts=None if parted is None else parted.partition.cuts,
    )
    _refuse(setup, touching, exact, integrator, varied)
    if varied is not None or parted is not None:
        system = setup.system(parted)
    elif not (extra or setup.traced or loops is not PROJECTION):
        system = around.system()
    else:
        system = around.system(extra, **setup.system_options())
    if system.prescribes:
        _refuse_prescribed(setup, exact, integrator)
    if not model.nq + system.nx:
        raise ModelError(
            f"model {model.name!r}: expected a joint that moves, got none; give a body another "
            "joint than fixed or driven ones",
            name=model.name,
        )
    pairs = None if contact is None else contact.pairs
    return Preparation(setup, system, varied, place or DEFAULT_WORLD, pairs, vary)


def _acting(
    given: SimpleNamespace,
    place: World | None,
    contact: ContactModel | None,
    loops: LoopMethod,
    integrator: Integrator,
) -> tuple[tuple[Element, ...], tuple[Element, ...], tuple[PrescribedMotion, ...]]:
    """Return contacts, all elements beside those of the robot, and prescribed motions."""
    model: Model = given.model
    extra = as_elements(given.elements)
    touching: tuple[Element, ...] = ()
    if model.contact_pairs or place is not None or contact is not DEFAULT_CONTACT:
        touching = contact_elements(model, place or DEFAULT_WORLD, contact)
        extra = (*extra, *touching)
    if loops.is_guided:
        extra = (*extra, *_coordinates(model, loops, given.q))
    if loops.implicit and model.loops and not integrator.is_adaptive:
        extra = (*extra, *_soft_loops(model, loops, extra, integrator))
    motions = () if given.prescribed is None else prescribed_motions(model, given.prescribed)
    return touching, (*extra, *motions), motions


def _with_paths(
    parameters: Mapping[str, Any] | None, motions: Sequence[PrescribedMotion]
) -> Mapping[str, Any] | None:
    """Return parameters of a run with the numbers of the paths that its cases follow."""
    for motion in motions:
        number = f"{motion.name}.{CASE}"
        if number in (parameters or {}):
            raise ModelError(
                f"parameters: {number!r} follows from prescribed; give a list with one "
                "JointPath per case there",
                name=motion.joint,
            )
    return {**(parameters or {}), **cases_of(motions)} or None if motions else parameters


def _refuse(
    setup: RunSetup,
    touching: Sequence[Any],
    exact: bool,
    integrator: Integrator,
    varied: VariedRun | None,
) -> None:
    """Refuse runs whose parts do not go together."""
    if not setup.adaptive:
        refuse_long_steps(setup.elements, setup.dt, setup.named)
    if any(element.ends_steps for element in setup.elements):
        refuse_method(integrator, "rigid contact")
    if exact:
        refuse_method(integrator, "exact contact")
    check_sensors(setup.sensors)
    if setup.loops is not PROJECTION:
        _refuse_loops(setup, touching, exact, integrator)
    if varied is not None and GEOMETRY in varied.rows:
        _refuse_geometry(setup, touching, exact)


def _laws(given: SimpleNamespace, method: Method, dt: float) -> tuple[LawChoice, ...]:
    """Return the laws of joints that act at the ends of steps, since steps do not resolve them.

    Raises:
        DomainError: If they cannot act there, and steps are unstable on them.
    """
    values = given.parameters or {}
    found = ended_laws(given.model, dt, parameters=values, least=_least(given.model, values))
    why = ""
    if method.has_memory or method.keeps_inertia:
        why = "take tb.RK4, whose steps do not depend on those before, or a smaller dt"
    elif not (given.loops.projects or given.loops.opens_by_design):
        why = "write loops=tb.Projection(), or take a smaller dt"
    elif getattr(given.contact, "law", None) == "convex":
        why = "write contact=tb.RigidContact(), or take a smaller dt"
    elif CURRENT_SESSION.get() is not None:
        # parts move as the undivided robot does
        refuse_laws(found, dt, "simulate the robot undivided, or take a smaller dt")
    if not why:
        return found
    refuse_laws(found, dt, why, STABLE_RATE)
    return ()


def _least(model: Model, parameters: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the least apparent inertia of each degree of freedom among the cases of a run.

    Nothing if parameters do not change them, or if they are wrong: these are refused later.
    """
    if not parameters:
        return ()
    names = dynamics_parameters(model, DEFAULT_WORLD).keys() & parameters.keys()
    if not names or not law_rates(model):
        return ()
    given = {name: parameters[name] for name in names}
    found = np.full(model.nv, np.inf)
    try:
        # one after the other: there may be many cases
        for q in (model.neutral(), *sampled_positions(model)):
            found = least_inertia_of(np.asarray(mass_matrix(model, q, parameters=given)), found)
    except TiburonError:
        return ()
    return tuple(found.tolist()) if np.isfinite(found).all() else ()


_DEFAULTS = simulate.__wrapped__.__kwdefaults__  # type: ignore[attr-defined]
"""Keywords of `simulate` with their defaults."""


def resume_run(
    run: Trajectory,
    duration: float | None = None,
    *,
    execution: Execution | None = None,
    **changes: Any,
) -> Trajectory:
    """Resume a run from its checkpoint; `Trajectory.resume` describes the arguments."""
    carried = checked_execution(execution)
    if carried.case_numbers is not None:
        raise ModelError("resume: the cases of a run keep their numbers; leave case_numbers out")
    if carried.partition is not None:
        _check_cuts(run, carried.partition)
        begun = run.header.setup
        options = {"method": method_of(begun), "loops": begun.get("loops", PROJECTION)}

        def again() -> Trajectory:
            undivided = replace(carried, partition=None, exchange=None)
            return resume_run(run, duration, execution=undivided, **changes)

        return run_in_parts(run.model, carried, options, again)
    parted = CURRENT_SESSION.get()
    CURRENT_SESSION.set(None)
    with _described_by(run, changes):
        setup = RunSetup.of(run, changes)
    if carried.threads is not None:
        setup = setup._replace(threads=carried.threads)
    progress = carried.progress
    if setup.cuts is not None and parted is None:
        _check_cuts(run, None)
    checkpoint = run.checkpoint
    assert checkpoint is not None
    steps = setup.steps
    if duration is not None:
        steps = checkpoint.step + _whole_steps("duration", _time("duration", duration), setup.dt)
    setup = setup._replace(steps=max(steps, checkpoint.step))
    with _described_by(run, changes):
        system = setup.system(parted)
    _check_checkpoint(run, system)
    if parted is not None:
        if not parted.is_first and run.store is not None:
            # the first process writes; read before it does
            columns = ("time", *(column.key for column in run.header.columns))
            rows = MemoryRows({key: run.rows.read(key, 0, len(run)) for key in columns})
            kept = (run.outcomes, run.events, checkpoint, None, run.system)
            run, progress = Trajectory(run.header, rows, *kept), False
        parted.agree(run_digest(setup, system, checkpoint))
    given = {**changes, "progress": progress} if callable(progress) else changes
    with _described_by(run, given, foreign=True):
        budget = carried.budget
        return carry_out(setup, system, run.batch, checkpoint, progress, budget, earlier=run)


@contextmanager
def _described_by(
    run: Trajectory, given: Mapping[str, Any], *, foreign: bool = False
) -> Iterator[None]:
    """Raise `RunFileError` where the header of a stored run describes what cannot be simulated.

    Args:
        run: The run.
        given: What the caller passed, which may be what is wrong.
        foreign: Whether errors of this package stay: those of a run have other causes too.
    """
    try:
        yield
    except (RunFileError, MissingExtraError):
        raise
    except Exception as error:
        passed = {**given, "elements": given.get("elements") or run.header.elements}
        own = foreign and isinstance(error, TiburonError)
        if run.store is None or own or passed != {"elements": run.header.elements}:
            raise
        raise RunFileError(
            run.store.path,
            f"its header describes a run that cannot go on ({first_line(error)}); restore "
            "zarr.json from a copy, or start a new run with tiburon.simulate",
        ) from error


def _check_cuts(run: Trajectory, partition: Any) -> None:
    """Refuse to resume a run with other cuts than it was begun with.

    Raises:
        RunFileError: If they differ.
    """
    known = run.header.setup.get("cuts")
    given = getattr(partition, "cuts", None)
    if known is not None and (given is None or tuple(given) != tuple(known)):
        wanted = "undivided" if given is None else f"cut at {list(given)}"
        raise RunFileError(
            run.place,
            f"was computed in parts, cut at {list(known)}, and is to be resumed {wanted}; pass "
            f"execution=tb.Execution(partition=tb.partition(run.model, cuts={list(known)})) to "
            "resume, with any exchange",
        )
    if known is None:
        raise RunFileError(
            run.place,
            "was computed undivided and goes on so; leave partition= out, or start a new run from "
            "run.q[-1] and run.v[-1]",
        )


def _check_checkpoint(run: Trajectory, system: System) -> None:
    """Refuse to resume from a checkpoint of another robot.

    Raises:
        RunFileError: If there are more or fewer states or numbers than the run has.
    """
    assert run.checkpoint is not None
    cases, model = math.prod(run.batch), system.model
    moving = model.nq + model.nv + system.nx
    # integrators of several steps keep what they remember behind the commands
    for name, least, most in (
        ("state", moving, moving),
        ("held", system.drive_size, math.inf),
    ):
        found = run.checkpoint.arrays.get(name)
        shape = (0, 0) if found is None or found.ndim != 2 else found.shape
        fitting = shape[0] == cases and least <= shape[1] <= most
        if found is None or not fitting or found.dtype != np.float64:
            raise RunFileError(
                "run" if run.store is None else run.store.path,
                f"its checkpoint must hold {name!r} of {cases} cases with {least} numbers each, "
                f"got shape {shape}; restore the run from a copy, or pass the robot and elements= "
                "that were simulated",
            )


def _start(
    system: System,
    q: ArrayLike | None,
    v: ArrayLike | None,
    x: ArrayLike | None,
    command: Any,
    varied: VariedRun | None,
) -> tuple[tuple[int, ...], Array, Array, dict[str, Array]]:
    """Return batch, states and held values of all cases, and parameters; checked."""
    model = system.model
    if q is v is x is command is varied is None:
        held = np.zeros((1, system.drive_size))
        held[:, : len(system.command_names)] = _commands(system, None, resting_position(model))
        held[:, system.discrete] = system.z0
        state = system.kept.get("start")
        if state is None:
            parts = (resting_position(model), np.zeros(model.nv), system.x0)
            state = system.kept["start"] = np.concatenate(parts)[None]
        return (), state.copy(), held, {}
    position = resting_position(model)
    if q is not None:
        position = as_batch(q, model.nq, "q", model.describe_q())
    velocity = np.zeros(model.nv)
    if v is not None:
        velocity = as_batch(v, model.nv, "v", model.describe_v())
    inner = system.x0
    if varied is not None and varied.start is not None:
        own = inner[varied.start.shape[-1] :]
        lead = varied.start.shape[:-1]
        inner = np.concatenate([varied.start, np.broadcast_to(own, (*lead, own.size))], axis=-1)
    if x is not None:
        inner = as_batch(x, system.nx, "x", f"{system.nx} ({', '.join(system.x_names)})")
    commands = _commands(system, command, position)
    numbers: Mapping[str, Array] = {} if varied is None else varied.rows
    arrays = {"q": position, "v": velocity, "x": inner, "command": commands, **numbers}
    shapes = {name: array.shape[:-1] for name, array in arrays.items()}
    try:
        batch = np.broadcast_shapes(*shapes.values()) if any(shapes.values()) else ()
    except ValueError:
        given = {name: shape for name, shape in shapes.items() if name not in numbers}
        if varied is not None:
            given |= {f"parameters[{key!r}]": array.shape for key, array in varied.named.items()}
        listed = ", ".join(f"{name} {shape}" for name, shape in given.items())
        raise ShapeError(
            "start",
            "leading dimensions that broadcast",
            listed,
            advice="give every array the same number of cases, or one case",
        ) from None
    cases = math.prod(batch)
    if not cases:
        raise ShapeError("start", "a case or more", f"shape {batch} of cases")
    state = np.empty((cases, position.shape[-1] + velocity.shape[-1] + inner.shape[-1]))
    place = 0
    for part in (position, velocity, inner):
        _put(state[:, place : place + part.shape[-1]], part, batch)
        place += part.shape[-1]
    held = np.zeros((cases, system.drive_size))
    if commands.any():
        _put(held[:, : commands.shape[-1]], commands, batch)
    held[:, system.discrete] = system.z0
    rows = {
        name: array
        if array.ndim <= 1
        else np.broadcast_to(array, (*batch, array.shape[-1])).reshape(cases, -1).copy()
        for name, array in numbers.items()
    }
    return batch, state, held, rows


def _case_numbers(given: ArrayLike, batch: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the numbers of all cases, shape (cases,)."""
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "iu" or numbers.shape != batch:
        raise ShapeError("case_numbers", f"whole numbers of shape {batch}", shown(given))
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < MOST_CASES:
        raise DomainError("case_numbers", f"numbers from 0 to {MOST_CASES - 1}", shown(given))
    return numbers.astype(np.int64).ravel()


def _put(target: Array, part: Array, batch: tuple[int, ...]) -> None:
    """Write an array of one case or of all cases into rows of cases."""
    if part.ndim > 2 or part.ndim == 2 != len(batch) + 1:
        part = np.broadcast_to(part, (*batch, part.shape[-1])).reshape(target.shape)
    target[:] = part


def _refuse_loops(
    setup: RunSetup, touching: Sequence[Any], exact: bool, integrator: Integrator
) -> None:
    """Refuse runs in which loops cannot be held in another way than by default."""
    model, loops = setup.model, setup.loops
    if not model.loops:
        raise ModelError(
            f"model {model.name!r}: loops={type(loops).__name__}(...) is for robots with loops, "
            "got none; leave it out",
            name=model.name,
        )
    if loops.projects:
        return
    refuse_method(integrator, "loops")
    ends = any(element.ends_steps for element in touching)
    if exact or (ends and not loops.opens_by_design):
        raise ModelError(
            f"model {model.name!r}: rigid and exact contact keep loops closed by projection; write "
            "loops=tb.Projection(), or contact=tb.CompliantContact()",
            name=model.name,
        )
    if setup.loops.is_guided:
        _refuse_coordinates(setup)


def _refuse_coordinates(setup: RunSetup) -> None:
    """Refuse runs in which independent velocities are not those of fixed loops."""
    model = setup.model
    switches = [e.switched_loop for e in setup.elements if e.switched_loop]
    if switches:
        raise ModelError(
            f"loop {switches[0]!r}: opens and closes, which changes the number of independent "
            "velocities; write loops=tb.Baumgarte(20.0, 20.0), or leave it out",
            name=switches[0],
        )
    # methods by legs refuse what is not a platform on legs
    setup.loops.legs(model)
    if model.plan.depends_on_time:
        raise ModelError(
            f"model {model.name!r}: joints that time drives move loops by themselves; use "
            "loops=tb.Baumgarte(20.0, 20.0), or leave it out",
            name=model.name,
        )


def _held_softly(given: SimpleNamespace) -> LoopMethod | None:
    """Return springs for loops that files mean to be soft, where a run cannot start closed."""
    model: Model = given.model
    q = resting_position(model) if given.q is None else given.q
    start = as_batch(q, model.nq, "q", model.describe_q()).reshape(-1, model.nq)
    v = np.zeros((len(start), model.nv))
    if given.v is not None:
        v[:] = as_batch(given.v, model.nv, "v", model.describe_v()).reshape(-1, model.nv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            closed = closed_start(model, start, v, given.time)
        why = beyond_limits(model, closed.q)
    except (DomainError, LoopError) as error:
        why = str(error).split(";")[0]
    if not why:
        return None
    warnings.warn(
        f"model {model.name!r}: its loops cannot start closed ({why}); they are held by springs, "
        "as stiff as equalities of MJCF are by default. Pass q= with closed loops, or loops=",
        ModelWarning,
        stacklevel=caller_level(),
    )
    return soft_springs(model)


def _soft_loops(
    model: Model, method: LoopMethod, forces: Sequence[Element], integrator: Integrator
) -> tuple[Element, ...]:
    """Return springs across loops as an element if they can act at the ends of steps, and must."""
    scheme = METHODS[integrator.scheme]
    fits = not (scheme.has_memory or scheme.keeps_inertia)
    if not fits or any(element.switched_loop for element in forces):
        return ()
    found = soft_loops(model, method, integrator.dt)
    if found is not None and CURRENT_SESSION.get() is not None:
        raise DomainError(
            "Penalty in parts",
            "steps that resolve its rates, or implicit=False",
            f"a dt of {integrator.dt:g} s",
            advice="take a smaller dt, or simulate the robot undivided",
        )
    return () if found is None else (found,)


def _coordinates(model: Model, loops: LoopMethod, q: ArrayLike | None) -> tuple[Element, ...]:
    """Return the element that holds the independent velocities; none for trees."""
    if not model.loops:
        # refused with the other options
        return ()
    start = resting_position(model)
    if q is not None:
        cases = as_batch(q, model.nq, "q", model.describe_q())
        if not cases.size:
            raise ShapeError("q", "a case or more", f"shape {cases.shape[:-1]} of cases")
        start = cases.reshape(-1, model.nq)[0]
    return (coordinates_element(model, loops, start, loops.redundancy_tolerance),)


def _refuse_prescribed(setup: RunSetup, exact: bool, integrator: Integrator) -> None:
    """Refuse runs in which joints cannot follow paths."""
    model, joints = (
        setup.model,
        [getattr(e, "joint", e.name) for e in setup.elements if e.prescribes],
    )
    name = joints[0]
    if exact:
        raise ModelError(
            f"prescribed joint {name!r}: exact contact moves all joints by impulses; write "
            "contact=tb.RigidContact() or tb.CompliantContact(), or give the body a Driven joint",
            name=name,
        )
    refuse_method(integrator, "prescribed joints")
    if not setup.loops.projects:
        raise ModelError(
            f"prescribed joint {name!r}: loops are closed by projection around prescribed joints; "
            "write loops=tb.Projection()",
            name=name,
        )
    if model.loops:
        refuse_method(integrator, "prescribed joints and loops")


def _refuse_geometry(setup: RunSetup, touching: Sequence[Any], exact: bool) -> None:
    """Refuse runs that would take the geometry of the robot itself for that of their cases."""
    other = ""
    if exact:
        other = (
            "exact contact, whose events are computed with the robot itself; write "
            "contact=tb.RigidContact()"
        )
    elif any(c.is_located for element in touching for c in element.candidates):
        other = "contact of meshes, located with the robot itself; cover them: tb.cover_meshes"
    elif setup.loops.is_guided:
        name = type(setup.loops).__name__
        other = f"loops={name}(...), which selects joints of the robot itself; leave it out"
    if other:
        names = [n for n in setup.named or () if n.endswith((".translation", ".rotation"))]
        raise ModelError(
            f"parameters[{names[0]!r}]: geometry at run time does not go with {other}, or simulate "
            "the robot that tb.with_parameters(model, values) returns",
            name=setup.model.name,
        )


def _start_on_paths(
    system: System, state: Array, begin: float, rows: Array | None, free: tuple[bool, bool]
) -> None:
    """Put prescribed joints onto their paths at the start, in place.

    Args:
        system: The robot.
        state: All cases, shape (cases, nq + nv + nx).
        begin: Time at the start [s].
        rows: Run-time parameters of elements that differ between cases.
        free: Whether positions, and velocities, were left to us.

    Raises:
        DomainError: If the caller gave other positions or velocities than the path has.
    """
    model = system.model
    numbers = np.asarray(system.numbers() if rows is None else rows, dtype=np.float64)
    numbers = np.broadcast_to(numbers, (*np.shape(state)[:1], numbers.shape[-1]))
    names = model.q_names, model.v_names
    for case, row in enumerate(state):
        for joint in system.prescribed(begin, tuple(numbers[case])):
            places = joint.q, model.nq + joint.v
            for k, (place, values) in enumerate(zip(places, joint.sample[:2], strict=True)):
                where = slice(place, place + len(values))
                off = np.abs(row[where] - values)
                if not free[k] and off.max() > START_TOLERANCE * (1.0 + np.abs(values).max()):
                    at = int(off.argmax())
                    which = names[k][(joint.q, joint.v)[k] + at]
                    raise DomainError(
                        f"{'qv'[k]} of prescribed {which!r}",
                        f"the start of its path, {values[at]:.6g} at {begin:g} s",
                        f"{row[place + at]:.6g}" + (f" in case {case}" if len(state) > 1 else ""),
                        advice=f"write that value, or leave {'qv'[k]} out",
                    )
                row[where] = values


def _close(system: System, state: Array, begin: float, rows: Mapping[str, Array]) -> None:
    """Check that cases start on their loops, and close gaps of rounding in place."""
    model = system.model
    nq, nv = model.nq, model.nv
    if system.held_loops.switch_places:
        switches = [system.held_loops.switches(row) for row in state[:, nq + nv :]]
        closed, offset = (
            np.array([one[part] for one in switches if one is not None], dtype=np.float64)
            for part in (0, 1)
        )
        check_switched_start(
            model,
            state[:, :nq],
            state[:, nq : nq + nv],
            closed,
            offset,
            begin,
            system.loops.redundancy_tolerance,
            rows,
        )
        return
    q, v = state[:, :nq], state[:, nq : nq + nv]
    found = closed_start(model, q, v, begin, system.loops.redundancy_tolerance, rows)
    state[:, :nq], state[:, nq : nq + nv] = found


def _commands(system: System, command: Any, q: Array) -> Array:
    """Return commands at the start, shape (..., commands).

    Those that are not given are the set points of the pose that a case starts in, or zero.
    """
    count = len(system.command_names)
    points = set_points(system.model, q)
    first = np.zeros((*(q.shape[:-1] if points else ()), count))
    for name, value in points.items():
        first[..., system.commands.place(name)] = value
    if command is None:
        return first
    shape = np.broadcast_shapes(system.commands.cases(command), first.shape[:-1])
    row = np.broadcast_to(first, (*shape, count)).copy()
    system.commands.write(row, command, "command")
    return as_batch(row, count, "command", system.commands.described)


def _listed(argument: str, given: Any, kind: Any, words: str) -> tuple[Any, ...]:
    """Return a list of parts of a run, all of their kind."""
    if type(given) not in (tuple, list) and (
        isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable)
    ):
        raise ModelError(f"{argument}: expected a list, got {shown(given)}; write {argument}=[...]")
    parts = tuple(given)
    for part in parts:
        if not isinstance(part, kind):
            example = "; write Event('name', expression)" if argument == "events" else ""
            raise ModelError(f"{argument}: expected {words}, got {shown(part)}{example}")
    return parts


def _control_steps(model: Model, control: Any, control_dt: float | None, dt: float) -> int | None:
    """Return the steps between two samples of a controller; None if it is never sampled."""
    if control_dt is None and is_traced(control):
        # discrete states of a controller are updated when it is sampled
        names = getattr(control, "discrete_state_names", ())
        return 1 if (names(model) if callable(names) else names) else None
    return _interval("Sampled: dt", control_dt, DEFAULT_CONTROL_DT, dt)


def _common_interval(dt: float, lengths: Sequence[float]) -> float:
    """Return the largest part of dt of which all lengths are multiples, to `MOST_PARTS` parts.

    Steps of event-driven runs do not depend on the grid of times: it costs nothing to refine it.
    """
    for length in lengths:
        if 0.0 < length < MOST_STEPS * dt:
            dt /= Fraction(length / dt).limit_denominator(MOST_PARTS).denominator
    return dt


def _interval(argument: str, length: float | None, default: float, dt: float) -> int:
    """Return an interval as a number of steps, at least one."""
    if length is None:
        return max(1, round(default / dt))
    steps = _whole_steps(argument, _time(argument, length, positive=True), dt)
    if steps == 0:
        raise DomainError(argument, f"at least dt = {dt:g} s", f"{length:g} s")
    return steps


def _time(
    argument: str, value: Any, *, positive: bool = False, default: float | None = None
) -> float:
    """Return one finite number; the default, if there is one, for None."""
    if value is None and default is not None:
        return default
    try:
        number = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (positive and number <= 0.0):
        raise DomainError(argument, "a number above 0" if positive else "a number", f"{value!r}")
    return number


def _whole_steps(argument: str, length: float, dt: float) -> int:
    """Return a time as a number of steps."""
    if length < 0.0:
        raise DomainError(argument, "at least 0 s", f"{length:g} s")
    steps = length / dt
    whole = round(steps)
    if steps > MOST_STEPS:
        most = f"at most {MOST_STEPS:.3g} steps of {dt:g} s"
        raise DomainError(argument, most, f"{length:g} s")
    if abs(steps - whole) > WHOLE_STEPS_TOLERANCE * max(1.0, steps):
        near = length / max(1, math.ceil(steps))
        raise DomainError(
            argument,
            f"a whole number of steps of {dt:g} s",
            f"{length:g} s, {steps:.9g} steps",
            advice=f"take a dt of {near:.12g} s, or another {argument}",
        )
    return whole
