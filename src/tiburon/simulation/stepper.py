"""Batches advanced by one control interval from given states: the base of learning.

A stepper takes the steps of `simulate`, with the same kernel and the same bits, but keeps nothing
between calls: it reads states and commands, takes some steps natively, and writes states,
observations, rewards and ends. Cases that are marked start again from fresh states. What a call
needs is set up once; later calls only write addresses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np

from tiburon.actuation.contact_models import DEFAULT_CONTACT, checked_contact
from tiburon.algorithms.surroundings import at_time
from tiburon.argument_checks import at_least
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import ModelError, OptionError, ShapeError, shown
from tiburon.functions.compilation import inputs_of
from tiburon.model import Model
from tiburon.native.kernel import Kernel, ProgramSource, make_kernel
from tiburon.native.row_loop import AddressTable, address_of
from tiburon.results.record import Record
from tiburon.simulation.compatibility import refuse_method
from tiburon.simulation.execution import Execution, checked_execution
from tiburon.simulation.integrators.integrator import Integrator, checked_integrator
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.located_contact import LocatedContact
from tiburon.simulation.loop_coordinates import coordinates_events
from tiburon.simulation.sensing import Sensor
from tiburon.simulation.simulate import Preparation, prepare
from tiburon.simulation.step import Clock, StepSource
from tiburon.simulation.step_plan import (
    BEGIN,
    DONE,
    DT,
    START,
    BoundStep,
    Sampler,
    StepTable,
)
from tiburon.simulation.surrounded import put_latest
from tiburon.simulation.system import System
from tiburon.trace.declared import is_traced
from tiburon.trace.program import Input, Program

Bools = NDArray[np.bool_]

MOST_CHECKED = 4
"""States whose arrays a stepper knows: two that a loop passes to and fro, and fresh ones."""

EXACT_IN_STEPPER = (
    "contact: exact contact locates events within steps, which a stepper does not; write "
    "contact=tb.RigidContact() or contact=tb.CompliantContact()"
)

RUN_KEYWORDS = (*("world", "fluid", "elements", "prescribed", "contact", "loops", "time"),)
"""Keywords of `simulate` that have a meaning for single intervals, beside those of a stepper."""


@public
@dataclass(slots=True)
class StepperState:
    """States of all cases between two control intervals.

    Arrays are read and written by native code: contiguous float64, the cases leading.
    """

    q: Array
    """Configuration [m or rad], shape (cases, nq)."""

    v: Array
    """Joint velocity [m/s or rad/s], shape (cases, nv)."""

    x: Array
    """Continuous states of elements and controller, shape (cases, nx)."""

    held: Array
    """Held values: commands, what the controller reads, discrete states; shape (cases, values)."""

    steps: Array
    """Steps taken since the start of each case, shape (cases,)."""

    parameters: dict[str, Array]
    """Run-time parameters that differ between cases, one row each, as kernels take them."""

    def __len__(self) -> int:
        return len(self.q)

    def arrays(self) -> list[Array]:
        """Return what changes in a step."""
        return [self.q, self.v, self.x, self.held, self.steps]

    def rows(self, cases: Any) -> "StepperState":
        """Return a copy of some cases."""
        own = {name: np.array(rows[cases], order="C") for name, rows in self.parameters.items()}
        return self.like(lambda array: np.array(array[cases], order="C"), own)

    def put(self, cases: Any, other: "StepperState", at: Any = slice(None)) -> None:
        """Overwrite some cases by cases `at` of another state, parameters included."""
        for mine, given in zip(self.arrays(), other.arrays(), strict=True):
            mine[cases] = given[at]
        for name, rows in self.parameters.items():
            rows[cases] = other.parameters[name][at]

    def empty(self) -> "StepperState":
        """Return room for another state of these cases, with the same parameters."""
        return self.like(np.empty_like, self.parameters)

    def like(self, make: Callable[[Array], Array], parameters: dict[str, Array]) -> "StepperState":
        """Return a state of arrays that a function makes of those here, with some parameters."""
        q, v, x, held, steps = map(make, self.arrays())
        return StepperState(q, v, x, held, steps, parameters)


@dataclass(slots=True)
class Stepped:
    """What a control interval gives; pass it as ``out=`` to write the next one there."""

    state: StepperState
    """States after it."""

    observation: Array
    """What `observe` returned, shape (cases, size)."""

    reward: Array
    """What `reward` returned, shape (cases,); 0 of cases that started again."""

    done: Bools
    """Whether `done` returned a value other than 0, shape (cases,)."""

    failed: Bools
    """Cases that met a non-finite value: these stay in their last finite state, shape (cases,)."""


@dataclass(frozen=True, slots=True)
class StepperAction(Sensor):
    """What the caller of a stepper passes to its controller, which reads it like a sensor."""

    name: str
    size: int
    rate: float = 1.0
    noise: float = 0.0
    bias: float = 0.0
    delay: float = 0.0
    seed: int = 0

    def channel_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its values."""
        return tuple(str(k) for k in range(self.size))


@public
def stepper(
    model: Model,
    *,
    method: Integrator | None = None,
    substeps: int = 1,
    observe: Callable[..., Any] | None = None,
    reward: Callable[..., Any] | None = None,
    done: Callable[..., Any] | None = None,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    control: Callable[..., Any] | None = None,
    action: int | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
    execution: Execution | None = None,
    **options: Any,
) -> "Stepper":
    """Prepare to advance batches of a robot by control intervals, from any states.

    `observe`, `reward` and `done` are functions as `compile` takes them: of the model and of arrays
    of one case, found by name. Names are `q`, `v`, `x` (continuous states), `z` (discrete states),
    `u` (what `step` was given) and `time` at the end of the interval; `previous_q` and `previous_v`
    at its start; and those of `shapes`, which `step` takes as ``inputs={...}``, such as a target.
    They become one kernel.

    Args:
        model: The robot.
        method: Integrator with equal steps, as in `simulate`; ``RK4(dt=1e-3)`` by default.
        substeps: Steps in a control interval.
        observe: Returns the observation, an array; q and v by default.
        reward: Returns one number; 0 by default.
        done: Returns whether the case has ended; never by default.
        shapes: Shapes of further arguments of these three, by name.
        control: A controller marked with `traced`, compiled into the step. One with discrete states
            is called once, at the start of each control interval.
        action: Number of values that `step` takes instead of commands; the controller finds them
            in ``state.sensors["action"]``. Commands by default.
        parameters: Values by name as in `simulate`. Only parameters that are named here can differ
            between cases (`Stepper.start`).
        execution: Most threads to use, by an `Execution`.
        **options: Further keywords of `simulate`: `world`, `fluid`, `contact`, `elements`, ...

    Returns:
        The stepper.

    Raises:
        ModelError: If the run needs what happens between steps: events, sensors, exact contact.

    Example:
        Ten thousand arms, a control interval of ten steps each::

            arms = tb.stepper(arm, method=tb.RK4(dt=1e-3), substeps=10)
            state = arms.start(cases=10_000)
            result = arms.step(state, tau)
            result = arms.step(result.state, tau)
    """
    for name in options:
        if name not in RUN_KEYWORDS:
            raise OptionError("stepper: keyword", RUN_KEYWORDS, name)
    if control is not None and not is_traced(control):
        raise ModelError(
            f"control: expected a controller marked with tiburon.traced, got {shown(control)}; "
            "call a function of Python between two steps yourself, and pass its commands"
        )
    if action is not None and control is None:
        raise ModelError(
            "action: expected a controller that reads it, got none; pass control=, or pass "
            "commands to step()"
        )
    substeps = at_least("substeps", substeps, 1)
    integrator = checked_integrator(method or RK4())
    contact = checked_contact(options.get("contact", DEFAULT_CONTACT))
    if contact is not None and contact.is_event_driven:
        raise ModelError(EXACT_IN_STEPPER)
    refuse_method(integrator, "a stepper")
    sensors = () if action is None else (StepperAction("action", at_least("action", action, 1)),)
    ready = prepare(
        model,
        integrator.dt * substeps,
        method=integrator,
        control=control,
        sensors=sensors,
        parameters=parameters,
        execution=checked_execution(execution, ("threads",), "a stepper"),
        record=Record(every=1),
        **options,
    )
    system = ready.system
    if system.is_exact:
        raise ModelError(EXACT_IN_STEPPER)
    if coordinates_events(system):
        raise ModelError(
            f"loops: {type(system.loops).__name__} watches its independent velocities by events, "
            "which a stepper does not locate; write loops=tb.Projection(), or "
            "loops=tb.Baumgarte(20.0, 20.0)"
        )
    functions = {"observation": observe, "reward": reward, "done": done}
    return Stepper(ready, substeps, functions, dict(shapes or {}), tuple(parameters or ()))


@public
class Stepper:
    """Advances batches by control intervals; made by `stepper`.

    Attributes:
        model: The robot.
        substeps: Steps in a control interval.
        interval: Length of a control interval [s].
        size: Number of values that `step` takes per case.
        observation_size: Number of values of an observation.
        names: Names of the parameters that can differ between cases.
    """

    def __init__(
        self,
        ready: Preparation,
        substeps: int,
        functions: Mapping[str, Callable[..., Any] | None],
        shapes: dict[str, Any],
        names: tuple[str, ...],
    ) -> None:
        self._ready, self._system = ready, ready.system
        setup, system = ready.setup, ready.system
        self.model, self.substeps, self.names = setup.model, substeps, names
        self.interval = substeps * setup.dt
        self._action = bool(system.sensed)
        places = system.readings if self._action else slice(0, len(system.command_names))
        self._places = places
        self.size = places.stop - places.start
        self._source = StepSource(system, setup.method)
        self._watcher = _Watcher(ready, functions, shapes, self.size)
        self.observation_size = self._watcher.size
        self._intervals: dict[int, _Interval] = {}
        self._widths = (setup.model.nq, setup.model.nv, system.nx, system.drive_size)
        self._sizes = self.varied
        self._checked: dict[int, tuple[int, tuple[Any, ...]]] = {}

    def __repr__(self) -> str:
        every = f"{self.substeps} steps of {self._ready.setup.dt:g} s"
        return f"<tiburon stepper of {self.model.name!r}: {every}, {self._ready.setup.method}>"

    @property
    def system(self) -> System:
        """The robot with its surroundings, elements and controller."""
        return self._system

    @public
    def start(
        self,
        *,
        cases: int | None = None,
        q: ArrayLike | None = None,
        v: ArrayLike | None = None,
        x: ArrayLike | None = None,
        parameters: "Mapping[str, ArrayLike] | StepperState | None" = None,
    ) -> StepperState:
        """Return states to start from, checked as those of `simulate`.

        Args:
            cases: How many; those of the arrays by default.
            q: Configuration, shape (..., nq); as in `simulate` by default.
            v: Joint velocity, shape (..., nv); at rest by default.
            x: Continuous states, shape (..., nx); those of elements and controller by default.
            parameters: Values of the parameters that were named when the stepper was made, one or
                one per case; those given there by default. Or a state, whose parameters and
                continuous states these cases take: converting values takes milliseconds a case.

        Raises:
            ShapeError: If arrays have other numbers of cases.
        """
        ready, system, model = self._ready, self._system, self.model
        taken = None
        if isinstance(parameters, StepperState):
            taken = parameters
            cases, x = len(taken) if cases is None else cases, taken.x if x is None else x
        elif parameters is not None:
            if set(parameters) != set(self.names):
                raise OptionError(
                    "parameters: all names that the stepper was made with",
                    self.names,
                    ", ".join(parameters) or "none",
                )
            ready = ready._replace(varied=ready.vary(parameters))
        command = None
        if cases is not None:
            # the number of cases is that of commands, if of nothing else
            command = np.zeros((at_least("cases", cases, 1), len(system.command_names)))
        batch, state, held, rows = ready.start(q, v, x, command)
        count = len(state)
        if len(batch) > 1 or (cases is not None and count != cases):
            given = f"cases of shape {batch}"
            raise ShapeError("start", f"{cases or 'one dimension of'} cases", given)
        nq, nv = model.nq, model.nv
        parts = np.split(state, (nq, nq + nv), axis=1)
        own = {
            name: np.array(np.broadcast_to(values, (count, np.shape(values)[-1])), order="C")
            for name, values in rows.items()
        }
        if taken is not None:
            own |= {name: np.array(values) for name, values in taken.parameters.items()}
        q0, v0, x0 = (np.array(part, order="C") for part in parts)
        found = StepperState(q0, v0, x0, held, np.zeros(count), own)
        if system.acts_in_contact:
            interval = self._interval(count)
            interval.bind(found)
            step, whole = interval.step, interval.with_memory(held)
            found.held[:] = step.touched(system, state, whole, interval.clock, np.arange(count))[
                :, : system.drive_size
            ]
        return found

    @property
    def varied(self) -> dict[str, int]:
        """Run-time parameters of kernels that differ between cases, with their sizes."""
        varied, known = self._ready.varied, self._system.parameters()
        found = () if varied is None else tuple(varied.rows)
        if self._system.has_meshes:
            found = (*found, ELEMENTS)
        return {name: len(known[name]) for name in found}

    def _interval(self, cases: int) -> "_Interval":
        interval = self._intervals.get(cases)
        if interval is None:
            interval = _Interval(self, cases)
        put_latest(self._intervals, cases, interval)
        return interval

    def step(
        self,
        state: StepperState,
        u: Any = None,
        mask: Any = None,
        fresh: StepperState | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        out: Stepped | None = None,
    ) -> Stepped:
        """Advance all cases by one control interval; cases of the mask start again.

        Args:
            state: Where they are; not changed, but for parameters of cases that start again.
            u: Commands that hold during the interval, as `simulate` takes them, or the action, with
                the cases leading; those of the state by default.
            mask: Which cases start again instead of being advanced, shape (cases,); none by
                default.
            fresh: Their states: of all cases, or of the marked ones in order.
            inputs: Further arguments of observation, reward and end, with the cases leading.
            out: Result of an earlier call to overwrite; a new one by default.

        Returns:
            States, observations, rewards and ends.

        Raises:
            ShapeError: If an array does not fit.
        """
        cases = len(state)
        self._check("state", state, cases)
        interval = self._interval(cases)
        marked = _marked(mask, fresh, cases)
        if out is None:
            out = self._room(state)
        elif out.state is state or out.state.q is state.q:
            raise ShapeError("out", "the result of another call", "that which holds the state")
        else:
            # parameters are those of the state, wherever the result is written
            out.state.parameters = state.parameters
            self._check("out.state", out.state, cases)
            _native("out.observation", out.observation, (cases, self.observation_size))
            _native("out.reward", out.reward, (cases,))
        begin = state
        if len(marked):
            assert fresh is not None
            self._check("fresh", fresh, len(fresh))
            begin = state.like(np.copy, state.parameters)
            begin.put(marked, fresh, slice(None) if len(fresh) == len(marked) else marked)
        # steps read held values where they stay, unless they write them
        held = interval.held if interval.passes_held else out.state.held
        held[:] = begin.held
        given = held[:, self._places]
        if u is not None:
            self._put(given, u)
        lost = interval.sample(begin, held) if self._system.held else None
        out.failed[:] = False
        if len(marked) < cases:
            interval.advance(begin, held, out)
        if lost is not None and lost.any():
            # no command: they stay where they are
            out.state.put(lost, begin, lost)
            out.failed |= lost
        if len(marked):
            # they have not moved, and no command has reached them
            out.state.put(marked, begin, marked)
            out.failed[marked] = False
            given[marked] = begin.held[marked, self._places]
        self._watcher.run(out, begin, given, inputs)
        if len(marked):
            out.reward[marked], out.done[marked] = 0.0, False
        return out

    @public
    def observe(
        self, state: StepperState, u: Any = None, *, inputs: Mapping[str, Any] | None = None
    ) -> Array:
        """Return the observations of states, shape (cases, size), as if they had not moved.

        Args:
            state: The states.
            u: Commands or action, those of the states by default.
            inputs: Further arguments, as `step` takes them.
        """
        self._check("state", state, len(state))
        result = self._room(state)
        result.state = state
        given = state.held[:, self._places]
        if u is not None:
            given = given.copy()
            self._put(given, u)
        self._watcher.run(result, state, given, inputs)
        return result.observation

    def _check(self, name: str, state: StepperState, cases: int) -> None:
        """Refuse arrays that native code would read or write beyond their ends.

        Arrays that were checked before are known again: states that a loop passes to and fro.
        """
        q, rows = state.q, state.parameters
        arrays = (q, state.v, state.x, state.held, state.steps, *map(rows.get, self._sizes))
        known = self._checked.get(id(q))
        if known is not None and known[0] == cases and all(map(is_, known[1], arrays)):
            return
        for part, width in zip(("q", "v", "x", "held"), self._widths, strict=True):
            _native(f"{name}.{part}", getattr(state, part), (cases, width))
        _native(f"{name}.steps", state.steps, (cases,))
        for part, width in self._sizes.items():
            _native(f"{name}.parameters[{part!r}]", rows.get(part), (cases, width))
        while len(self._checked) >= MOST_CHECKED:
            del self._checked[next(iter(self._checked))]
        # holds the arrays: no other can have their addresses meanwhile
        self._checked[id(q)] = cases, arrays

    def _room(self, state: StepperState) -> Stepped:
        count = len(state)
        flags = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        observed = np.empty((count, self.observation_size))
        return Stepped(state.empty(), observed, np.zeros(count), *flags)

    def _put(self, places: Array, u: Any) -> None:
        """Write commands or an action into their places, shape (cases, size)."""
        if self._action:
            given = np.asarray(u)
            if given.dtype.kind not in "fiub" or given.shape != places.shape:
                raise ShapeError("u", f"shape {places.shape}", f"shape {given.shape}")
            places[:] = given
        else:
            self._system.commands.write(places, u, "u")


class _Interval(StepTable):
    """The steps of a control interval, for one number of cases, from arrays of the caller."""

    clocks: Array

    def __init__(self, owner: Stepper, cases: int) -> None:
        self._system, self.substeps, self.cases = owner.system, owner.substeps, cases
        setup = owner._ready.setup
        self._threads = setup.threads
        rows = {name: np.zeros((cases, size)) for name, size in owner.varied.items()}
        self.step = step = BoundStep(owner._source, rows, cases)
        self._meshes = owner.system.has_meshes
        self._located: LocatedContact | None = None
        self._sampler: Sampler | None = None
        self.passes_held = "u" in step.chained
        self.held = np.zeros((cases, owner.system.drive_size))
        head = Clock(setup.begin, setup.dt, setup.dt, 0.0)
        self.clock = np.array(head[: step.widths["clock"]], dtype=np.float64)
        clocks = np.tile(self.clock, (self.substeps, cases, 1))
        super().__init__(step.chained, cases, clocks, self.substeps)
        self._done = clocks[:, :, DONE]
        self._ordinals = np.arange(self.substeps, dtype=np.float64)[:, None]
        # a multi-step method starts again in each interval: what is here is not read
        self._unread = np.zeros((cases, step.widths.get("memory", 0)))
        if self._unread.size:
            # commands jump at the start of each interval
            clocks[0, :, START] = 1.0
        table = self.listed(step)
        if self._unread.size:
            table.lines[0, step.given["memory"]] = address_of(self._unread)
        for name, width in {**step.widths, **owner.varied}.items():
            self.distances[step.given[name]] = width
        self._job = step.loop.job(table, 0, batch=True)

    def with_memory(self, held: Array) -> Array:
        """Return held values followed by an empty memory of a multi-step method."""
        return np.concatenate([held, np.zeros_like(self._unread)], axis=1)

    def bind(self, state: StepperState) -> None:
        """Take the parameters of the cases."""
        for name in self.step.rows:
            self.step.rows[name] = state.parameters[name]
        if self._meshes:
            self._located = LocatedContact(self._system, self.step.rows, False)
            self._located.bind(self.step)

    def sample(self, state: StepperState, held: Array) -> Bools:
        """Call a sampled controller at the start of an interval; it changes held values.

        Returns:
            Cases in which it gave a value that is not finite: they keep theirs.
        """
        if self._sampler is None:
            self._sampler = Sampler(self._system, state.parameters, self.cases)
        self._sampler.rows = {name: state.parameters[name] for name in self._sampler.rows}
        whole = np.concatenate([state.q, state.v, state.x], axis=1)
        times = self.clock[BEGIN] + state.steps * self.clock[DT]
        held[:], failed = self._sampler(whole, held, times, np.arange(self.cases))
        return failed

    def advance(self, state: StepperState, held: Array, out: Stepped) -> None:
        """Take the steps of an interval under some held values."""
        step, made, loop = self.step, out.state, self.step.loop
        np.add(state.steps, self._ordinals, out=self._done)
        if not self._meshes:
            given, written, shared = {}, {}, {}
            for name in step.rows:
                shared[name] = state.parameters[name]
            for name in step.chained:
                if name not in ("u", "memory"):
                    given[name], written[name] = getattr(state, name), getattr(made, name)
            if self.passes_held:
                given["u"], written["u"] = held, made.held
            elif "u" in step.given:
                shared["u"] = held
            self.link(step, given, written, shared)
            loop.renew(self._job, self.substeps * self.cases)
            last, cases = self.substeps, self.cases
            if loop.run_many(self._job, 0, last, self.distances, cases, self._threads) == last:
                np.add(state.steps, float(self.substeps), out=made.steps)
                return
        self._run_singly(state, held, out)

    def _run_singly(self, state: StepperState, held: Array, out: Stepped) -> None:
        """Take the steps one by one; cases that meet a non-finite value stay where they are."""
        step, made = self.step, out.state
        self.bind(state)
        every = np.arange(self.cases)
        whole = np.concatenate([state.q, state.v, state.x], axis=1)
        found = step.arguments(whole, self.with_memory(held))
        fixed = {name: values for name, values in found.items() if name not in step.chained}
        found = {name: found[name] for name in step.chained}
        taken = np.zeros(self.cases)
        for k in range(self.substeps):
            if self._located is not None:
                times = self.clock[BEGIN] + self.clocks[k, :, DONE] * self.clock[DT]
                self._located.locate(found["q"], times, None, None)
            named = {**fixed, **found, "clock": self.clocks[k]}
            after, failed = step.once(named, every, False, self._threads)
            out.failed |= failed
            stay = out.failed[:, None]
            found = {name: np.where(stay, found[name], x) for name, x in after.items()}
            taken += ~out.failed
        for name, values in found.items():
            if name != "memory":
                target = made.held if name == "u" else getattr(made, name)
                target[:] = values
        np.add(state.steps, taken, out=made.steps)


class _Watcher:
    """The kernel of observation, reward and end."""

    def __init__(
        self,
        ready: Preparation,
        functions: Mapping[str, Callable[..., Any] | None],
        shapes: dict[str, Any],
        size: int,
    ) -> None:
        system, model = ready.system, ready.system.model
        self._ready, self._system = ready, system
        known: dict[str, Any] = {
            "q": model.nq,
            "v": model.nv,
            "x": system.nx,
            "z": len(system.z_names),
            "u": size,
            "time": (),
            "previous_q": model.nq,
            "previous_v": model.nv,
        }
        for name in shapes:
            if name in known:
                raise OptionError("shapes: names of your own, beside", [*known], name)
        wanted = {name: f for name, f in functions.items() if f is not None}
        each = {
            name: inputs_of(function, model, (), {**known, **shapes})
            for name, function in wanted.items()
        }
        inputs = {item.name: item for items in each.values() for item in items}
        # a default observation needs no kernel
        self._default = "observation" not in wanted
        self._inputs = inputs
        self.own_names = tuple(name for name in inputs if name in shapes)
        self.size = model.nq + model.nv
        self._kernel: Kernel | None = None
        self._threads = ready.setup.threads
        unused = [name for name in shapes if name not in inputs]
        if unused:
            raise OptionError("shapes: arguments of observe, reward and done", [*inputs], unused[0])
        if not wanted:
            return

        def run(given: Mapping[str, Any]) -> dict[str, Any]:
            found: dict[str, Any] = {}
            with at_time(given["time"] if system.time_matters else None):
                for name, function in wanted.items():
                    got = function(model, *[given[item.name] for item in each[name]])
                    found[name] = _flat(name, got)
            return found

        declared = list(inputs.values())
        if system.time_matters and "time" not in inputs:
            declared.append(Input("time", ()))
            inputs["time"] = declared[-1]
        program: Program = system.trace(run, declared, "observation")
        for output in program.outputs:
            if output.name == "observation":
                self.size = int(np.prod(output.shape, dtype=int))
            elif output.shape:
                raise ShapeError(output.name, "one number", f"shape {output.shape}")
        kernel = make_kernel(ProgramSource(program), system.parameters(), part="many")
        self._kernel = kernel.__self__  # type: ignore[attr-defined]
        self._results = [output.name for output in program.outputs]
        self._tables: dict[int, Any] = {}

    def run(
        self, out: Stepped, before: StepperState, u: Array, inputs: Mapping[str, Any] | None
    ) -> None:
        """Compute observation, reward and end of all cases of a result."""
        state, cases = out.state, len(out.state)
        own = self._own(inputs or {}, cases)
        if self._default:
            nq = state.q.shape[1]
            out.observation[:, :nq], out.observation[:, nq:] = state.q, state.v
        kernel = self._kernel
        if kernel is None:
            return
        setup = self._ready.setup
        given: dict[str, Any] = dict(own)
        for name in self._inputs:
            if name in own:
                continue
            if name == "time":
                given[name] = setup.begin + state.steps * setup.dt
            elif name == "u":
                given[name] = u
            elif name == "z":
                given[name] = state.held[:, self._system.discrete]
            elif name.startswith("previous_"):
                given[name] = getattr(before, name[-1])
            else:
                given[name] = getattr(state, name)
        rows: dict[str, Any] = {k: x for k, x in state.parameters.items() if k in kernel.parameters}
        made = {name: self._target(name, out, cases) for name in self._results}
        if not self._natively(kernel, cases, {**given, **rows}, made):
            values, failed = kernel.evaluate(
                *[given[item.name] for item in kernel.inputs], errors="flag", **rows
            )
            values = values if isinstance(values, tuple) else (values,)
            for name, x in zip(self._results, values, strict=True):
                made[name][:] = np.reshape(x, made[name].shape)
            out.failed |= failed
        if "done" in made:
            np.not_equal(made["done"], 0.0, out=out.done)
            # a comparison with a value that is not a number is true
            out.done[out.failed] = False

    def _target(self, name: str, out: Stepped, cases: int) -> Array:
        if name == "observation":
            return out.observation
        return out.reward if name == "reward" else np.empty(cases)

    def _natively(
        self, kernel: Kernel, cases: int, given: dict[str, Array], made: dict[str, Array]
    ) -> bool:
        """Compute all cases in one native call; return whether all values were finite."""
        loop = kernel.row_loop()
        known = self._tables.get(cases)
        if known is None:
            lines = np.zeros((1, loop.width), dtype=np.int64)
            distances = np.zeros(len(loop.names), dtype=np.int64)
            for place, name in enumerate(loop.names):
                if name not in given:
                    lines[0, place] = address_of(kernel.parameters[name])
            job = loop.job(AddressTable(lines, np.zeros_like(lines)), 0, batch=True)
            known = self._tables[cases] = lines, distances, job
        lines, distances, job = known
        line = lines[0]
        for place, name in enumerate(loop.names):
            values = given.get(name)
            if values is not None:
                # rows of held values stand apart
                line[place] = address_of(values)
                distances[place] = values.strides[0] // values.itemsize
        for place, name in enumerate(loop.output_names, len(loop.names)):
            line[place] = address_of(made[name])
        loop.renew(job, cases)
        return bool(loop.run_many(job, 0, 1, distances, cases, self._threads))

    def _own(self, inputs: Mapping[str, Any], cases: int) -> dict[str, Array]:
        """Return further arguments, one row per case."""
        for name in inputs:
            if name not in self.own_names:
                raise OptionError("inputs", self.own_names, name)
        found = {}
        for name in self.own_names:
            if name not in inputs:
                raise ShapeError(f"inputs[{name!r}]", f"one row for each of {cases} cases", "none")
            shape = (cases, *self._inputs[name].shape)
            values = np.asarray(inputs[name], dtype=np.float64)
            if values.shape != shape:
                raise ShapeError(f"inputs[{name!r}]", f"shape {shape}", f"shape {values.shape}")
            found[name] = np.ascontiguousarray(values)
        return found


def _flat(name: str, found: Any) -> Any:
    """Return an observation as one vector; rewards and ends as they are."""
    if name != "observation":
        # comparisons become numbers
        return np.where(found, 1.0, 0.0) if name == "done" else found
    parts = found if isinstance(found, (tuple, list)) else [found]
    flat = [np.reshape(part, (-1,)) for part in parts]
    return np.concatenate(flat) if len(flat) > 1 else flat[0]


def _native(name: str, values: Any, shape: tuple[int, ...]) -> None:
    """Refuse an array that is not what native code reads at its address."""
    fits = isinstance(values, np.ndarray) and values.dtype == np.float64 and values.shape == shape
    if not (fits and values.flags.c_contiguous):
        given = type(values).__name__
        if isinstance(values, np.ndarray):
            apart = "" if values.flags.c_contiguous else ", not contiguous"
            given = f"shape {values.shape} of type {values.dtype}{apart}"
        raise ShapeError(name, f"a contiguous array of float64 of shape {shape}", given)


def _marked(mask: Any, fresh: StepperState | None, cases: int) -> NDArray[np.int64]:
    """Return the numbers of the cases that start again."""
    if mask is None:
        if fresh is not None:
            raise ShapeError("mask", f"one flag for each of {cases} cases", "none, but fresh=")
        return np.zeros(0, dtype=np.int64)
    flags = np.asarray(mask)
    if flags.dtype != np.bool_ or flags.shape != (cases,):
        given = f"shape {flags.shape} of type {flags.dtype}"
        raise ShapeError("mask", f"one bool for each of {cases} cases", given)
    marked = np.flatnonzero(flags)
    if len(marked) and (fresh is None or len(fresh) not in (cases, len(marked))):
        given = "none" if fresh is None else f"{len(fresh)}"
        raise ShapeError("fresh", f"states of {cases} or {len(marked)} cases", given)
    return marked
