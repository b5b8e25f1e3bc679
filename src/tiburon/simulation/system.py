"""What moves, put together once: robot, surroundings, elements, and a controller that is traced.

Symbols:
    q   positions; v joint velocities; x inner states of elements and controller
    w   (*v, *x): all that integrators move along straight lines, as one vector
    u   commands, held by whoever calls: joint forces, then those of the elements in order
    p   run-time numbers of the elements

Those of the controller, and the handles of tables, are bound while a function of the system is
traced: nobody hands them on.
"""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from operator import add
from typing import Any

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext, StateKinematics, structure_of
from tiburon.actuation.loop_switch import LoopSwitch
from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting, forces_on_bodies
from tiburon.algorithms.surroundings import DEFAULT_WORLD, at_time, structure_around, surroundings
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.arguments import public
from tiburon.errors import ShapeError
from tiburon.functions.dynamics import method_of_runs
from tiburon.functions.kernel_source import parameter_values, trace_with_parameters
from tiburon.functions.library import GRAVITY, INERTIA, TIME, depends_on_time
from tiburon.loops.constraints import (
    Constraints,
    Switches,
    constraints,
    loop_rows,
    switched,
    switches_of,
)
from tiburon.loops.derivatives import add_constraints, constrained_solver
from tiburon.loops.methods import constrained_motion
from tiburon.loops.metric import MIN_CUT
from tiburon.loops.projection import MAX_RESIDUAL, projected_configuration, projected_velocity
from tiburon.model import Model, Plan, World
from tiburon.model.plan import WORLD_BODY
from tiburon.simulation.state import CommandRow, Readings, State, unique_names
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.declared import has_structure, is_declared, structure_text
from tiburon.trace.primitives.table_rows import HANDLE
from tiburon.trace.primitives.tree import FactorTree, SolveTree
from tiburon.trace.program import Input, Program, current_graph

__all__ = [
    "CONTROL",
    "ELEMENTS",
    "TABLES",
    "Driving",
    "System",
    "drive_key",
    "summed_wrenches",
]

Scalars = tuple[Scalar, ...]


CONTROL = "control"
"""Name of the parameter that holds the run-time numbers of a traced controller."""

TABLES = "tables"
"""Name of the parameter that leads code to the tables of elements and controller; not for users."""


class Driving:
    """What all elements together do in one state."""

    __slots__ = ("force", "outputs", "rates", "wrenches")

    def __init__(self, force: Sequence[Scalar]) -> None:
        self.force = list(force)
        """Joint force [N or N m], nv scalars."""
        self.wrenches: list[tuple[str, Sequence[Scalar]]] = []
        """Frames and the wrenches on them, frame axes [N m, N]."""
        self.rates: list[Scalar] = []
        """Rates of the inner states of elements."""
        self.outputs: dict[str, Scalar] = {}
        """What elements report."""

    def take(self, model: Model, element: Element, action: Action, states: int) -> None:
        """Add what one element does."""
        force = action.joint_force
        if isinstance(force, Mapping):
            for joint, values in force.items():
                where = model.slice(joint, of="v")
                count = where.stop - where.start
                _fits(element, f"forces at joint {joint!r}", count, values)
                for place, value in zip(range(where.start, where.stop), values, strict=True):
                    self.force[place] = self.force[place] + value
        elif force is not None:
            _fits(element, "joint forces", model.nv, force)
            self.force = list(map(add, self.force, force))
        for frame, wrench in (action.wrenches or {}).items():
            _fits(element, f"wrench on {frame!r}", 6, wrench)
            self.wrenches.append((frame, wrench))
        _fits(element, "rates", states, action.rates)
        self.rates += action.rates
        self.outputs.update(action.outputs or {})


def _fits(element: Element, what: str, expected: int, values: Sequence[Scalar]) -> None:
    if len(values) != expected:
        given = len(values)
        raise ShapeError(f"element {element.name!r}: {what}", f"{expected} numbers", f"{given}")


def summed_wrenches(
    wrenches: Sequence[tuple[str, Sequence[Scalar]]],
) -> dict[str, Sequence[Scalar]]:
    """Return one wrench per frame."""
    found: dict[str, Sequence[Scalar]] = {}
    for frame, wrench in wrenches:
        known = found.get(frame)
        found[frame] = wrench if known is None else tuple(map(add, known, wrench))
    return found


class System:
    """A robot in its world with all that drives it: gives the rates that integrators need.

    Attributes:
        model: The robot.
        world: Its surroundings.
        elements: What acts on it, in order.
        control: A controller marked with `traced`, or None: commands then come from outside.
        held: Whether the controller is sampled, its commands held in between.
        commands: The commands and their places.
        command_names: Their names.
        x_names: Names of the inner states, those of the controller last.
        x0: Inner states at the start, shape (nx,).
    """

    @public
    def __init__(
        self,
        model: Model,
        world: World | None = None,
        elements: Sequence[Element] = (),
        control: Callable[[State], Any] | None = None,
        *,
        held: bool = False,
        sensed: Sequence[tuple[str, int]] = (),
        redundancy_tolerance: float = 0.0,
    ) -> None:
        """Put a system together.

        Args:
            model: The robot.
            world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
            elements: What acts on it, in order.
            control: A traced controller, called with a `State`; gives commands, or commands and the
                rates of its own states if it has `state_names` and `initial_state`.
            held: Whether its commands are sampled by the loop and held.
            sensed: Sensors that the controller reads, by name, with their numbers of channels;
                what they say is held with the commands.
            redundancy_tolerance: As `simulate` takes it.

        Raises:
            ModelError: If names are given twice.
        """
        self.model = model
        self.world = world or DEFAULT_WORLD
        if self.world.fluid is not None:
            self.world.fluid.refuse_cases("System")
        # user code is traced as it is now
        model.check_unchanged()
        self.world.traced_key()
        self.elements = tuple(elements)
        self.control = control
        self.held = held
        self.sensed = tuple(sensed)
        self.redundancy_tolerance = redundancy_tolerance
        unique_names("element", [element.name for element in self.elements])
        for element in self.elements:
            element.check(model)
        self.commands = CommandRow(model, self.elements)
        self.command_names = self.commands.names
        own = getattr(control, "state_names", None)
        self.own_names: tuple[str, ...] = () if own is None else tuple(_called(own, model))
        self._states = [len(e.state_names(model)) for e in self.elements]
        self._taken = [len(e.command_names(model)) for e in self.elements]
        self._numbers = [len(e.parameters()) for e in self.elements]
        # held as long as code may read them
        self._tables = [e.tables() for e in self.elements]
        self._control_tables = tuple(_called(getattr(control, "tables", ())))
        self._bound: Mapping[str, Sequence[Scalar]] | None = None
        self.x_names = unique_names(
            "inner state",
            [*(n for e in self.elements for n in e.state_names(model)), *self.own_names],
        )
        start = [x for e in self.elements for x in e.initial_state(model)]
        if self.own_names:
            start += _called(control.initial_state, model)  # type: ignore[union-attr]
        self.x0 = np.array(start, dtype=np.float64)
        self.time_matters = depends_on_time(model, self.world)

    @property
    def nx(self) -> int:
        """Number of inner states."""
        return len(self.x_names)

    @property
    def drive_size(self) -> int:
        """Numbers that are held between steps.

        Commands, rates of a sampled controller, and what sensors say to a traced one.
        """
        return int(self.readings.stop)

    @cached_property
    def readings(self) -> slice:
        """Where what sensors say stands among the numbers that are held."""
        start = len(self.command_names) + (len(self.own_names) if self.held else 0)
        return slice(start, start + sum(count for _, count in self.sensed))

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Names of what elements can report."""
        return unique_names(
            "output", [name for e in self.elements for name in e.output_names(self.model)]
        )

    # what moves

    def rates(
        self,
        q: Sequence[Scalar],
        w: Sequence[Scalar],
        u: Sequence[Scalar],
        time: Scalar = 0.0,
        p: Sequence[Scalar] | None = None,
    ) -> Scalars:
        """Return the time derivative of w: joint accelerations, then rates of inner states.

        Args:
            q: Position [m or rad], nq scalars.
            w: Joint velocity [m/s or rad/s] and inner states, nv + nx scalars.
            u: What is held, `drive_size` scalars: commands of outside or of a sampled controller.
            time: When [s].
            p: Run-time numbers of the elements; their own by default.
        """
        return self.motion(q, w, u, time, p)[0]

    def motion(
        self,
        q: Sequence[Scalar],
        w: Sequence[Scalar],
        u: Sequence[Scalar],
        time: Scalar = 0.0,
        p: Sequence[Scalar] | None = None,
    ) -> tuple[Scalars, Scalars]:
        """Return what `rates` returns, and the constraint forces of loops [N or N m]."""
        q, v, x = self._parts(q, w)
        here, driving, own = self._acting(q, v, x, u, time, p)
        vd, forces = self._accelerations(here, q, v, x, driving.force)
        return (*vd, *driving.rates, *own), tuple(forces)

    def residual(
        self,
        q: Sequence[Scalar],
        w: Sequence[Scalar],
        vd: Sequence[Scalar],
        forces: Sequence[Scalar],
        u: Sequence[Scalar],
        time: Scalar,
        p: Sequence[Scalar] | None = None,
    ) -> tuple[Scalars, Scalars]:
        """Return the residual of the equations of motion, and the rates of inner states.

        The residual is tau - ID(q, v, vd) + J^T lambda, then -(J vd + bias) for loops.

        Args:
            q: Position [m or rad], nq scalars.
            w: Joint velocity [m/s or rad/s] and inner states, nv + nx scalars.
            vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
            forces: lambda, the constraint forces of loops [N or N m].
            u: As in `rates`.
            time: When [s].
            p: As in `rates`.
        """
        q, v, x = self._parts(q, w)
        here, driving, own = self._acting(q, v, x, u, time, p)
        needed = rnea(here.plan, q, v, JointVector(vd), here.gravity, here.external)
        left: list[Scalar] = [a - b for a, b in zip(driving.force, needed, strict=True)]
        if self.model.loops:
            left = add_constraints(left, self._constraints(here, q, v, x), vd, forces)
        return tuple(left), (*driving.rates, *own)

    def linear_solver(
        self, q: Sequence[Scalar], w: Sequence[Scalar], time: Scalar
    ) -> Callable[[Scalars], Scalars]:
        """Return what solves [[H, J^T], [J, 0]] [vd; -lambda] = r for vd."""
        q, v, x = self._parts(q, w)
        here, n = self._setting(q, v, time), self.model.nv
        if self.model.loops:
            held = self._constraints(here, q, v, x)
            solved = constrained_solver(here, q, held, self._min_cut)
            return lambda r: solved(tuple(r[:n]), tuple(r[n:]))
        parents, H = expanded_parents(here.plan), mass_elements(here.plan, q)
        primitive = FactorTree(parents)
        factor = primitive.apply([H[i * n + j] for i, j in primitive.layout.elements()])
        return lambda r: tuple(SolveTree(parents).apply([*factor, *r]))

    def _acting(
        self,
        q: JointVector,
        v: JointVector,
        x: Sequence[Scalar],
        u: Sequence[Scalar],
        time: Scalar,
        p: Sequence[Scalar] | None,
    ) -> tuple[Setting, Driving, Sequence[Scalar]]:
        """Return the conditions with all external forces, joint forces, and controller rates."""
        # visits recorded as steps take what belongs to their body from joint vectors only
        here = self._setting(q, v, time)
        own: Sequence[Scalar] = u[len(self.command_names) : self.readings.start]
        if self.control is not None and not self.held:
            u, own = self.decide(q, v, x, u, time)
        driving = self.drive(here, q, v, x, u, time, p)
        external = here.external
        acting = forces_on_bodies(here.plan, q, summed_wrenches(driving.wrenches), "frame")
        if acting is not None:
            external = acting if external is None else tuple(map(add, external, acting))
        return here._replace(external=external), driving, own

    def _constraints(
        self, here: Setting, q: JointVector, v: JointVector, x: Sequence[Scalar]
    ) -> Constraints:
        """Return the constraints of all loops, zero where a switched loop is open."""
        return switched(constraints(self.model, here.plan, q, v), self.switches(x))

    @property
    def _min_cut(self) -> float:
        """Relative length below which constraints are redundant on the manifold."""
        return max(MIN_CUT, self.redundancy_tolerance)

    def _accelerations(
        self,
        here: Setting,
        q: JointVector,
        v: JointVector,
        x: Sequence[Scalar],
        force: Sequence[Scalar],
    ) -> tuple[Sequence[Scalar], Sequence[Scalar]]:
        """Return joint accelerations and constraint forces, by the method that the robot needs."""
        tau = JointVector(force)
        if self.model.loops:
            how: Any = {"switches": self.switches(x), "min_cut": self._min_cut}
            found = constrained_motion(here, q, v, tau, **how)
            return found.vd, found.multipliers
        solve = method_of_runs(self.model, here.plan)
        return solve(here.plan, q, v, tau, here.gravity, here.external), ()

    def settle(self, q: Scalars, w: Scalars, time: Scalar) -> tuple[Scalars, Scalars, Scalar]:
        """Bring a state back onto the loops after a step; that of a tree stays as it is.

        Positions first, by the least motion that closes the loops; then velocities, by an impulse
        of the loops' own forces.

        Returns:
            Position, velocity with inner states, and the largest gap that is left [m or rad]; more
            than `most_open` tells that the loops could not be closed.
        """
        if not self.model.loops:
            return q, w, 0.0
        nv = self.model.nv
        plan = self._plan(q, w[:nv], time)
        how: Any = {"switches": self.switches(w[nv:]), "tolerance": self.redundancy_tolerance}
        closed = projected_configuration(self.model, plan, q, least_steps=1, **how)
        v = projected_velocity(self.model, plan, closed.q, w[:nv], **how)
        return closed.q, (*v, *w[nv:]), closed.gap

    @property
    def most_open(self) -> float:
        """Loop-closure error that a step may leave [m or rad]."""
        return max(MAX_RESIDUAL, self.redundancy_tolerance)

    def gaps(self, q: Scalars, time: Scalar, x: Sequence[Scalar] | None = None) -> Scalars:
        """Return how far each constraint of the loops is from closed [m or rad].

        Args:
            q: Position [m or rad], nq scalars.
            time: When [s].
            x: Inner states, which tell what switched loops hold on to; None to leave that out.
        """
        plan = self._plan(q, (0.0,) * self.model.nv, time)
        held = constraints(self.model, plan, JointVector(q))
        return switched(held, None if x is None else self.switches(x)).value

    @cached_property
    def switch_places(self) -> dict[str, int]:
        """Where among the inner states those of each loop begin that is switched, by its name."""
        found: dict[str, int] = {}
        start = 0
        for element, states in zip(self.elements, self._states, strict=True):
            if isinstance(element, LoopSwitch):
                found[element.loop] = start
            start += states
        return found

    def switches(self, x: Sequence[Scalar]) -> Switches | None:
        """Return which loops are closed; None if none can be opened."""
        if not self.switch_places:
            return None
        rows = {name: len(loop_rows(self.model, name)) for name in self.switch_places}
        return switches_of(
            self.model,
            {
                name: tuple(x[place : place + 1 + rows[name]])
                for name, place in self.switch_places.items()
            },
        )

    def _plan(self, q: Sequence[Scalar], v: Sequence[Scalar], time: Scalar) -> Plan:
        return self._setting(JointVector(q), JointVector(v), time).plan

    def drive(
        self,
        here: Setting,
        q: Sequence[Scalar],
        v: Sequence[Scalar],
        x: Sequence[Scalar],
        u: Sequence[Scalar],
        time: Scalar,
        p: Sequence[Scalar] | None = None,
    ) -> Driving:
        """Let all elements act in one state; `rates` tells what the arguments are."""
        nv = self.model.nv
        driving = Driving(u[:nv])
        numbers = self._run_time(ELEMENTS) if p is None else p
        handles = self._run_time(TABLES)
        kinematics = StateKinematics(here, q, v)
        at_x, at_u, at_p, at_t = 0, nv, 0, 0
        sizes = zip(
            self.elements, self._states, self._taken, self._numbers, self._tables, strict=True
        )
        for element, states, commands, count, tables in sizes:
            handle_count = HANDLE * len(tables)
            now = ElementContext(
                kinematics,
                time,
                tuple(x[at_x : at_x + states]),
                tuple(u[at_u : at_u + commands]),
                tuple(numbers[at_p : at_p + count]),
                tuple(handles[at_t : at_t + handle_count]),
            )
            driving.take(self.model, element, element.act(now), states)
            at_x, at_u, at_p = at_x + states, at_u + commands, at_p + count
            at_t += handle_count
        return driving

    def decide(
        self,
        q: Sequence[Scalar],
        v: Sequence[Scalar],
        x: Sequence[Scalar],
        u: Sequence[Scalar],
        time: Scalar,
    ) -> tuple[Scalars, Scalars]:
        """Ask the traced controller; return all commands, and the rates of its own states."""
        count, own = len(self.command_names), len(self.own_names)
        state = State(self, time, *map(_array, (q, v, x, u[:count])))
        if own:
            state.own = state.x[len(x) - own :]
        if self.sensed:
            state.sensors = self._said(u)
        state.owner, state.p = self.control, _array(self._run_time(CONTROL))
        handles = self._run_time(TABLES)
        state.tables = tuple(handles[len(handles) - HANDLE * len(self._control_tables) :])
        assert self.control is not None
        with at_time(time if self.time_matters else None):
            answer = self.control(state)
        rates: Any = ()
        if own:
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise ShapeError("control", "a pair (commands, rates)", type(answer).__name__)
            answer, rates = answer
        rates = tuple(as_traced(rates).reshape(-1).tolist())
        if len(rates) != own:
            raise ShapeError("control: rates", f"{own} ({', '.join(self.own_names)})", len(rates))
        return tuple(self.commands.fill(list(u[:count]), answer)), rates

    def _said(self, u: Sequence[Scalar]) -> Readings:
        """Return what sensors say by name, from what is held."""
        said, place = u[self.readings], 0
        found = Readings()
        for name, count in self.sensed:
            found[name] = _array(said[place : place + count])
            place += count
        return found

    def hold(
        self, q: Sequence[Scalar], w: Sequence[Scalar], u: Sequence[Scalar], time: Scalar
    ) -> Scalars:
        """Sample the traced controller: return what is held from here on, `drive_size` scalars."""
        commands, own = self.decide(*self._parts(q, w), u, time)
        return (*commands, *own, *u[self.readings])

    def commands_at(
        self, q: Sequence[Scalar], w: Sequence[Scalar], u: Sequence[Scalar], time: Scalar
    ) -> Scalars:
        """Return the commands in a state: those held, or those of the controller."""
        if self.control is None or self.held:
            return tuple(u[: len(self.command_names)])
        return self.decide(*self._parts(q, w), u, time)[0]

    def state(self, q: Any, w: Sequence[Scalar], u: Any, time: Scalar) -> State:
        """Return a state as events see it, from scalars."""
        position, v, x = self._parts(q, w)
        count = len(self.command_names)
        return State(self, time, *map(_array, (position, v, x, u[:count])))

    def _parts(
        self, q: Sequence[Scalar], w: Sequence[Scalar]
    ) -> tuple[JointVector, JointVector, Sequence[Scalar]]:
        nv = self.model.nv
        return JointVector(q), JointVector(w[:nv]), w[nv:]

    def _setting(self, q: Sequence[Scalar], v: Sequence[Scalar], time: Scalar) -> Setting:
        around = Setting(self.model, (), (), *surroundings(self.model, self.world))
        return around.at(q, v, *((time,) if self.time_matters else ()))

    # what its code depends on

    def numbers(self) -> tuple[float, ...]:
        """Return the run-time numbers of all elements."""
        return tuple(x for element in self.elements for x in element.parameters())

    def control_numbers(self) -> tuple[float, ...]:
        """Return the run-time numbers of the traced controller."""
        given = _called(getattr(self.control, "parameters", ()))
        return tuple(np.ravel(np.asarray(given, dtype=np.float64)).tolist())

    @cached_property
    def _handles(self) -> tuple[float, ...]:
        """What leads code to the tables: of elements in order, then of the controller."""
        tables = [*(t for own in self._tables for t in own), *self._control_tables]
        return tuple(x for table in tables for x in table.handle)

    def _run_time(self, name: str) -> Sequence[Scalar]:
        """Return what stands for run-time numbers: those bound in a trace, or the numbers."""
        if self._bound is not None:
            return self._bound[name]
        if name == TABLES:
            return self._handles
        return self.numbers() if name == ELEMENTS else self.control_numbers()

    def parameters(self) -> dict[str, Any]:
        """Return the run-time numbers by name: of model, world, elements and controller."""
        found = parameter_values(self.model, self.world, (INERTIA, GRAVITY))
        # loops tell the time themselves
        found.pop(TIME, None)
        own = {name: self._run_time(name) for name in (ELEMENTS, CONTROL, TABLES)}
        return {**found, **{name: numbers for name, numbers in own.items() if numbers}}

    def trace(
        self, run: Callable[[Mapping[str, Any]], Any], inputs: Sequence[Input], name: str
    ) -> Program:
        """Trace a function of the system whose numbers are run-time parameters.

        Args:
            run: Takes the arrays of one case by name; those of elements as `elements`.
            inputs: What callers pass.
            name: Name of the program.
        """

        def bound(given: Mapping[str, Any]) -> Any:
            names = (ELEMENTS, CONTROL, TABLES)
            self._bound = {key: scalars(given[key]) if key in given else () for key in names}
            try:
                return run(given)
            finally:
                self._bound = None

        return trace_with_parameters(bound, inputs, self.model, self.world, self.parameters(), name)

    @cached_property
    def key(self) -> str:
        """Text that is equal exactly if the code of the system is."""
        around = structure_around(self.model, self.world)
        text = structure_text(("system 1", around, self.structure()))
        digest = hashlib.blake2b(text.encode())
        digest.update(self.model.structure_key())
        return digest.hexdigest()

    def retrace(self) -> None:
        """Trace user code as it is now, and find its key again.

        Raises:
            ModelError: If joints or closures act otherwise than when the model was built.
        """
        self.model.check_unchanged()
        self.world.traced_key()
        self.__dict__.pop("key", None)

    def structure(self) -> Hashable:
        """Return what the code depends on beside model and world.

        What users wrote is known by its graph: the text of a function does not tell what it does.
        """
        ours = all(map(is_declared, self.elements))
        known = self.control is None or has_structure(self.control)
        control = self.control.structure() if self.control is not None and known else None  # type: ignore[attr-defined]
        graph = None if ours and known else drive_key(self)
        kind = type(self.control).__qualname__ if known else None
        how: Hashable = (self.held, self.sensed) if self.sensed else self.held
        if self.redundancy_tolerance:
            how = (how, self.redundancy_tolerance)
        switched = tuple(self.switch_places.items())
        return (structure_of(self.elements), switched, kind, control, how, graph)


def _called(thing: Any, *given: Any) -> Any:
    """Return names or numbers that may be given as such, or by a function."""
    return thing(*given) if callable(thing) else thing


def _array(values: Sequence[Scalar]) -> Any:
    """Return scalars as an array that user code may calculate with."""
    if current_graph() is None:
        return np.array(values, dtype=np.float64)
    return as_traced(list(values))


# the cache key of elements and controllers that run user code

ELEMENTS = "elements"
"""Name of the parameter that holds the run-time numbers of all elements."""


def drive_key(system: "System") -> str:
    """Return the key of the graph of elements and controller alone, without the dynamics."""
    frames: list[Any] = []

    def run(given: Mapping[str, Any]) -> Any:
        q, w, u = (scalars(given[name]) for name in ("q", "w", "u"))
        time = given["time"]
        position, v, x = system._parts(q, w)
        here = system._setting(position, v, time)
        commands, own = (
            (u, ()) if system.control is None else system.decide(position, v, x, u, time)
        )
        p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
        driving = system.drive(here, position, v, x, commands, time, p)
        frames[:] = [
            name for name, _ in driving.wrenches if here.plan.frame(name).body != WORLD_BODY
        ]
        pushes = [value for _, wrench in driving.wrenches for value in wrench]
        names = sorted(driving.outputs)
        frames.append(names)
        reported = [driving.outputs[name] for name in names]
        return [*commands, *driving.force, *pushes, *driving.rates, *own, *reported]

    model = system.model
    inputs = [
        Input("q", (model.nq,)),
        Input("w", (model.nv + system.nx,)),
        Input("u", (system.drive_size,)),
        Input("time", ()),
    ]
    program = system.trace(run, inputs, "drive")
    return f"{program.key:016x} {frames}"
