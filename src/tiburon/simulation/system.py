"""Systems: a robot in its surroundings with its elements and a traced controller.

Symbols:
    q   configuration; v joint velocity; x continuous states of elements and controller
    w   (*v, *x): all that integrators move along straight lines, as one vector
    u   held values: commands (joint forces, then those of the elements in order), rates of a
        sampled controller, sensor readings of a traced controller, z
    z   discrete states: of elements, updated once per step; of a sampled controller, by itself
    p   run-time parameters of the elements

Run-time parameters of the controller and handles of tables are bound while a function of the system
is traced, so that no caller passes them. Runs of the same robot share systems
(`tiburon.simulation.surrounded`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

from tiburon.actuation.element import AppliedForces, Element, ElementContext, StateKinematics
from tiburon.actuation.piecewise import Prescribed
from tiburon.algorithms.setting import Setting, setting_in
from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.arguments import public
from tiburon.contact.mode_forces import HeldContacts, ModeForces
from tiburon.functions.kernel_source import parameter_values, trace_with_parameters
from tiburon.functions.library import GRAVITY, INERTIA, TIME, depends_on_time
from tiburon.loops.loop_method import Guided, LoopMethod
from tiburon.loops.stabilization import PROJECTION
from tiburon.model import Model, Plan, World
from tiburon.simulation.accelerations import accelerations
from tiburon.simulation.code_key import CodeKey
from tiburon.simulation.control_calls import commands_at, decide
from tiburon.simulation.held_loops import HeldLoops
from tiburon.simulation.layout import RUN_TIME, TABLES, Layout, Placed
from tiburon.simulation.state import State
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.program import Input, Program


@public
class System(Layout):
    """A robot in its world with its elements and controller: computes the rates of all states.

    Attributes:
        model: The robot.
        elements: Elements that act on it, in order.
        placed: The same with the places of their values.
        control: A controller marked with `traced`; None if commands come from the caller.
        held: Whether the controller is sampled, its commands held in between.
        commands: The commands and their places.
        command_names: Their names.
        x_names: Names of the continuous states, those of the controller last.
        nx: Number of continuous states.
        x0: Initial continuous states, shape (nx,).
        z_names: Names of the discrete states of elements, then of the controller.
        z0: Initial discrete states, shape (nz,).
        world: Its surroundings.
        loops: How loops are held.
        held_loops: The loops, as held.
        code: What its code depends on.
        kept: Kernels and the like that all runs of this system share, by name.
        fixed: Number of leading elements that follow from the model alone and never change.
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
        loops: LoopMethod = PROJECTION,
        steps: bool = False,
        partition: Any = None,
    ) -> None:
        """Build a system.

        Args:
            model: The robot.
            world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
            elements: Elements that act on it, in order.
            control: A traced controller, called with a `State`; returns commands, or commands and
                the rates of its own states if it has `state_names` and `initial_state`; then its
                next discrete states if it has `discrete_state_names`.
            held: Whether its commands are sampled by the loop and held.
            sensed: Sensors that the controller reads, by name, with their number of channels; the
                readings are held with the commands.
            loops: How loops are held.
            steps: Whether the caller takes equal steps and updates discrete states after each.
            partition: The robot in parts during a run (`tiburon.parallel.session`); None undivided.

        Raises:
            ModelError: If names are given twice, or an element has discrete states but no steps
                update them.
        """
        self.world = world or DEFAULT_WORLD
        if self.world.fluid is not None:
            self.world.fluid.refuse_cases("System")
        # user code is traced as it is now
        model.check_unchanged()
        self.world.traced_key()
        super().__init__(
            model, elements, control, held=held, sensed=sensed, steps=steps, partition=partition
        )
        self.time_matters = depends_on_time(model, self.world)
        self.loops = loops
        self.held_loops = HeldLoops(model, self.world, loops, self.placed, self.time_matters)
        self.code = CodeKey()
        self.kept: dict[Any, Any] = {}
        self.fixed = 0

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what runs of this process keep with it."""
        return {**self.__dict__, "kept": {}}

    # equations of motion

    def rates(
        self,
        q: Scalars,
        w: Scalars,
        u: Scalars,
        time: Scalar = 0.0,
        p: Scalars | None = None,
        guided: Guided | None = None,
        updated: bool = False,
    ) -> Scalars:
        """Return the time derivative of w: joint accelerations, then rates of continuous states.

        Args:
            q: Configuration [m or rad], nq scalars.
            w: Joint velocity [m/s or rad/s] and continuous states, nv + nx scalars.
            u: Held values, `drive_size` scalars.
            time: Time [s].
            p: Run-time parameters of the elements; their own by default.
            guided: What independent velocities determine in this state, where it is known.
            updated: Whether discrete states were last updated in this very state.
        """
        return self.motion(q, w, u, time, p, guided, updated)[0]

    def motion(
        self,
        q: Scalars,
        w: Scalars,
        u: Scalars,
        time: Scalar = 0.0,
        p: Scalars | None = None,
        guided: Guided | None = None,
        updated: bool = False,
    ) -> tuple[Scalars, Scalars, tuple[HeldContacts, ModeForces] | None]:
        """Return rates, constraint forces of loops [N or N m], and contacts of event-driven runs.

        These come with their forces, None in other runs; see `held_contacts`.
        """
        if self.held_loops.is_guided:
            guided = guided or self.held_loops.guided_state(q, w)
            q, w = guided.q, (*guided.v, *w[self.model.nv :])
        q, v, x = self.split(q, w)
        here, driving, own = self.acting(q, v, x, u, time, p, updated)
        here = here._replace(plan=self._at_stages(here.plan, p))
        force = self.with_carried_forces(driving.force, q, u)
        vd, forces = accelerations(self, here, q, v, x, force, self.prescribed(time, p), guided)
        held, contacts = self.held_contacts(here, q, v, x, vd, u, p), None
        if held is not None:
            pushing = held.forces()
            pushed = held.problem.compliance.response(pushing.x)
            vd = tuple(a + b for a, b in zip(vd, pushed, strict=True))
            contacts = held, pushing
        return (*vd, *driving.rates, *own), tuple(forces), contacts

    def with_carried_forces(
        self, force: Scalars, q: Scalars, u: Scalars, besides: Placed[Any] | None = None
    ) -> Scalars:
        """Return joint forces with those of elements in the last step that act in this one.

        Those of one element may be left out.
        """
        for one in self.placed:
            carried = one.element.carried_forces(u[self.discrete][one.z])
            if carried is not None and one is not besides:
                own = self.held_loops.manifold().reexpress(carried, tuple(self.model.neutral()), q)
                force = tuple(a + b for a, b in zip(force, own, strict=True))
        return force

    def held_contacts(
        self,
        here: Setting,
        q: JointVector,
        v: JointVector,
        x: Scalars,
        vd: Scalars,
        u: Scalars,
        p: Scalars | None,
    ) -> HeldContacts | None:
        """Return the contacts that constrain accelerations vd; None without events of contact."""
        one = self.event_driven
        if one is None:
            return None
        z, own = u[self.discrete][one.z], self.own_parameters(one, p)
        loops = self.held_loops.rows(here.plan, q, x)
        return one.element.held_contacts(here.plan, q, v, vd, z, own, loops)

    def acting(
        self,
        q: JointVector,
        v: JointVector,
        x: Scalars,
        u: Scalars,
        time: Scalar,
        p: Scalars | None,
        updated: bool = False,
    ) -> tuple[Setting, AppliedForces, Scalars]:
        """Return the conditions with all external forces, joint forces, and controller rates."""
        # visits recorded as steps take what belongs to their body from joint vectors only
        here = self.setting(q, v, time)
        driving, own = self.driven(here, q, v, x, u, time, p, updated)
        return driving.added_to(here, q), driving, own

    def driven(
        self,
        here: Setting,
        q: Scalars,
        v: Scalars,
        x: Scalars,
        u: Scalars,
        time: Scalar,
        p: Scalars | None = None,
        updated: bool = False,
    ) -> tuple[AppliedForces, Scalars]:
        """Evaluate controller and elements; return their actions and the controller's rates."""
        own: Scalars = u[len(self.command_names) : self.readings.start]
        commands = u
        if self.control is not None and not self.held:
            commands, own, _ = decide(self, q, v, x, u, time)
        return self.drive(here, q, v, x, commands, time, p, u[self.discrete], updated), own

    def prescribed(self, time: Scalar, p: Scalars | None = None) -> list[Prescribed]:
        """Return the prescribed joints at a time [s]; p are the parameters of all elements."""
        if not self.prescribes:
            return []
        every, handles = self.of_all(p), self.run_time(TABLES)
        return [
            joint
            for one in self.placed
            for joint in one.element.prescribed(self.model, time, every[one.p], handles[one.tables])
        ]

    def _at_stages(self, plan: Plan, p: Scalars | None) -> Plan:
        """Return the layout with what elements add to armatures within a step."""
        every = self.of_all(p)
        for one in self.placed:
            added = one.element.stage_inertias(self.model, every[one.p])
            if added:
                plan = plan.with_added_armatures(added)
        return plan

    def plan_at(self, q: Scalars, v: Scalars, time: Scalar) -> Plan:
        """Return the layout of the robot in its surroundings in a state."""
        return self.setting(JointVector(q), JointVector(v), time).plan

    def drive(
        self,
        here: Setting,
        q: Scalars,
        v: Scalars,
        x: Scalars,
        u: Scalars,
        time: Scalar,
        p: Scalars | None = None,
        z: Scalars = (),
        updated: bool = False,
    ) -> AppliedForces:
        """Evaluate all elements under given commands; the arguments are those of `rates`."""
        driving = AppliedForces(u[: self.model.nv])
        kinematics = StateKinematics(here, q, v)
        for one, now in self.contexts(kinematics, x, u, z, time, p, updated):
            driving.take(self.model, one.element, one.element.act(now), one.state_count)
        return driving

    def update(
        self,
        q: Scalars,
        w: Scalars,
        u: Scalars,
        time: Scalar,
        p: Scalars | None = None,
        *,
        contact: bool = False,
    ) -> Scalars:
        """Return the held values at the end of a step, with updated discrete states.

        With `contact` only those of contacts with known forces at the start of the next step are.
        """
        z = list(u[self.discrete])
        for one, now in self.contexts_at(q, w, u, time, p):
            if not contact or one.element.starts_steps:
                z[one.z] = one.updated(now)
        return (*u[: self.discrete.start], *z)

    def contexts_at(
        self, q: Scalars, w: Scalars, u: Scalars, time: Scalar, p: Scalars | None
    ) -> Iterator[tuple[Placed[Element], ElementContext]]:
        """Yield each element with the places of its values and its context at the end of a step."""
        position, v, x = self.split(q, w)
        kinematics = StateKinematics(self.setting(position, v, time), position, v)
        commands = commands_at(self, q, w, u, time)
        yield from self.contexts(kinematics, x, commands, u[self.discrete], time, p)

    def contexts(
        self,
        kinematics: StateKinematics,
        x: Scalars,
        u: Scalars,
        z: Scalars,
        time: Scalar,
        p: Scalars | None,
        updated: bool = False,
    ) -> Iterator[tuple[Placed[Element], ElementContext]]:
        """Yield each element with the places of its values and its context in a state."""
        parameters, handles = self.of_all(p), self.run_time(TABLES)
        for one in self.placed:
            now = ElementContext(
                kinematics,
                time,
                tuple(x[one.x]),
                tuple(u[one.u]),
                tuple(parameters[one.p]),
                tuple(handles[one.tables]),
                tuple(z[one.z]),
                updated,
            )
            yield one, now

    def split(self, q: Scalars, w: Scalars) -> tuple[JointVector, JointVector, Scalars]:
        """Return configuration, joint velocity, and continuous states."""
        nv = self.model.nv
        return JointVector(q), JointVector(w[:nv]), w[nv:]

    def setting(self, q: Scalars, v: Scalars, time: Scalar) -> Setting:
        """Return what surrounds the robot in a state."""
        return setting_in(self.model, self.world, q, v, time if self.time_matters else None)

    # parameters, keys and traces

    @property
    def compiling(self) -> AbstractContextManager[Any]:
        """Held while the kernel of a step is made, so that threads with parts compile it once."""
        return nullcontext() if self.partition is None else self.partition.compiling

    @property
    def lost(self) -> str:
        """Why processes that compute parts of the robot were given up; empty while all answer."""
        return "" if self.partition is None else str(self.partition.lost)

    def parameters(self) -> dict[str, Any]:
        """Return the run-time parameters by name: of model, world, elements and controller."""
        found = parameter_values(self.model, self.world, (INERTIA, GRAVITY))
        # the step kernel computes the time from its clock
        found.pop(TIME, None)
        own = {name: self.run_time(name) for name in RUN_TIME}
        return {**found, **{name: values for name, values in own.items() if values}}

    def trace(
        self, run: Callable[[Mapping[str, Any]], Any], inputs: Sequence[Input], name: str
    ) -> Program:
        """Trace a function of arrays by name, with run-time parameters as further inputs."""

        def bound(given: Mapping[str, Any]) -> Any:
            self._bound = {key: scalars(given[key]) if key in given else () for key in RUN_TIME}
            try:
                return run(given)
            finally:
                self._bound = None

        return trace_with_parameters(bound, inputs, self.model, self.world, self.parameters(), name)

    @cached_property
    def key(self) -> str:
        """Text that is equal exactly if the code of the system is."""
        return self.code.text(self)

    def retrace(self) -> None:
        """Trace user code again, so that `key` belongs to what it computes now."""
        self.model.check_unchanged()
        self.world.traced_key()
        self.__dict__.pop("key", None)
