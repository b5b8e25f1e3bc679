"""Systems: a robot in its surroundings with its elements and a traced controller.

Symbols:
    q   configuration; v joint velocity; x continuous states of elements and controller
    w   (*v, *x): all that integrators move along straight lines, as one vector
    u   held values: commands (joint forces, then those of the elements in order), rates of a
        sampled controller, sensor readings of a traced controller, z
    z   discrete states: of elements, updated once per step; of a sampled controller, by itself
    p   run-time parameters of the elements

Run-time parameters of the controller and handles of tables are bound while a function of the system
is traced, so that no caller passes them.

Runs of the same robot share systems (`surrounded`), and with them kernels. Each thread has its own:
run-time parameters are bound to a system while one of its functions is traced.
"""

import hashlib
import itertools
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from operator import add
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.defaults import elements_of
from tiburon.actuation.element import (
    AppliedForces,
    Element,
    ElementContext,
    StateKinematics,
    check_count,
    structure_of,
    summed_wrenches,
)
from tiburon.actuation.exact_contact import ExactContactElement
from tiburon.actuation.joint_laws import JointLaws, LawChoice
from tiburon.actuation.loop_switch import LoopCoordinates, LoopSwitch
from tiburon.actuation.piecewise import PathSample
from tiburon.actuation.prescribed import PrescribedMotion
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.actuation.soft_loops import SoftLoops
from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.hybrid import hybrid_aba, hybrid_crba
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.kinematics import Place, frame_places
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting, forces_on_bodies
from tiburon.algorithms.surroundings import (
    DEFAULT_WORLD,
    at_time,
    structure_around,
    surroundings,
    world_with,
)
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.arguments import public
from tiburon.contact.active import chooses
from tiburon.contact.candidates import Candidate, Surface, surfaces_of
from tiburon.contact.complementarity import ContactAccelerations, contact_accelerations
from tiburon.contact.geometry.contact_geometry import ContactGeometry
from tiburon.contact.mode_forces import (
    ModeForces,
    PointMode,
    closing_step,
    force_on_first,
    mode_forces,
    mode_margins,
    stopping_impulse,
)
from tiburon.contact.rigid import Compliance, RigidStep, compliance_of
from tiburon.contact.rows import PointRows, contact_geometry, contact_rows, may_touch
from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.functions.dynamics import method_of_runs
from tiburon.functions.kernel_source import parameter_values, trace_with_parameters
from tiburon.functions.library import GRAVITY, INERTIA, TIME, depends_on_time
from tiburon.loops.complement import Complement
from tiburon.loops.constraints import (
    Constraints,
    Switches,
    constraints,
    loop_rows,
    switched,
    switches_of,
)
from tiburon.loops.derivatives import add_constraints, constrained_solver
from tiburon.loops.inverse import hybrid_with_loops
from tiburon.loops.loop_method import Guided, LoopMethod
from tiburon.loops.metric import MIN_CUT, rank_cut
from tiburon.loops.projection import MAX_RESIDUAL, moved_configuration
from tiburon.loops.stabilization import PROJECTION
from tiburon.model import WORLD, Model, Plan, Water, World
from tiburon.results.header import Column, state_columns
from tiburon.simulation.integrators.manifold import GuidedManifold, Manifold
from tiburon.simulation.state import (
    CommandRow,
    Readings,
    State,
    control_structure,
    unique_names,
)
from tiburon.spatial import Motion, Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import ZERO3, cross, negate, subtract, transpose_vector
from tiburon.trace.array import as_traced
from tiburon.trace.declared import (
    Identical,
    by_identity,
    has_structure,
    is_declared,
    structure_text,
)
from tiburon.trace.dependencies import snapshot
from tiburon.trace.digest import program_digest
from tiburon.trace.primitives.table_rows import HANDLE, Table
from tiburon.trace.primitives.tree import FactorTree, SolveTree
from tiburon.trace.program import Input, Program, current_graph, input_array
from tiburon.trace.value import Value

MAX_CONTACT_RESIDUAL = 1e-3
"""Relative residual of contact impulses above which a step has failed, whatever its tolerance."""

MAX_CLOSING = 1e-3
"""Share of the speed of approach that contact impulses may leave; a step that leaves more has
failed, however small its residual is relative to impulses."""

MAX_GAP = 1e100
"""Sum of gaps that is a number [m]."""

SHORTEST_STEP = 1e-12
"""Length of a step with contact at least [s]: accuracy of the times of events."""

ELEMENTS = "elements"
"""Name of the kernel parameter with the run-time parameters of all elements."""

CONTROL = "control"
"""Name of the kernel parameter with the run-time parameters of a traced controller."""

TABLES = "tables"
"""Name of the kernel parameter with the handles of all tables; users cannot set it."""


PARTITION = "partition"
"""Name of the kernel parameter with the parts that a process computes, and addresses of messages;
users cannot set it."""

RUN_TIME = (ELEMENTS, CONTROL, TABLES, PARTITION)
"""Kernel parameters of the system itself."""


class HeldContacts(NamedTuple):
    """Contacts of an event-driven run in one state, as `mode_forces` takes them."""

    problem: ContactAccelerations
    """All contact points."""

    surfaces: list[Surface]
    """Their materials."""

    modes: list[PointMode]
    """Their modes."""


class CoordinatePlaces(NamedTuple):
    """Where the rows W of independent velocities are among the continuous states."""

    states: slice
    """Condition of W when it was selected, then W by rows."""

    rows: int
    """Number of rows."""


class Prescribed(NamedTuple):
    """A joint with prescribed motion at a time."""

    q: int
    """Its first position variable."""

    v: int
    """Its first velocity variable."""

    sample: PathSample
    """Its position, velocity and acceleration."""

    @property
    def accelerations(self) -> list[tuple[int, Scalar]]:
        """Its velocity variables and their accelerations [m/s^2 or rad/s^2]."""
        return list(enumerate(self.sample.acceleration, start=self.v))


class Reached(NamedTuple):
    """What acts on a robot in a state at the end of a step, contacts included."""

    here: Setting
    """Conditions with all external forces."""

    driving: AppliedForces
    """The sum of what elements and contacts exert."""

    vd: Scalars
    """Joint accelerations [m/s^2 or rad/s^2], nv scalars."""

    constraint_force: Scalars
    """Constraint forces of loops [N or N m]."""


@public
class System:
    """A robot in its world with its elements and controller: computes the rates of all states.

    Attributes:
        model: The robot.
        world: Its surroundings.
        elements: Elements that act on it, in order.
        control: A controller marked with `traced`; None if commands come from the caller.
        held: Whether the controller is sampled, its commands held in between.
        commands: The commands and their places.
        command_names: Their names.
        x_names: Names of the continuous states, those of the controller last.
        nx: Number of continuous states.
        x0: Initial continuous states, shape (nx,).
        z_names: Names of the discrete states of elements, then of the controller.
        z0: Initial discrete states, shape (nz,).
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
        self.loops = loops
        self.redundancy_tolerance = loops.redundancy_tolerance
        self.partition = partition
        unique_names("element", [element.name for element in self.elements])
        for element in self.elements:
            element.check(model)
        self.commands = CommandRow(model, self.elements)
        self.command_names = self.commands.names
        own = getattr(control, "state_names", None)
        self.own_names: tuple[str, ...] = () if own is None else tuple(_called(own, model))
        own_z = getattr(control, "discrete_state_names", ())
        self.own_z_names: tuple[str, ...] = tuple(_called(own_z, model))
        if self.own_z_names and not held:
            raise ModelError(
                f"control: expected a sampled controller, since it has the discrete state "
                f"{self.own_z_names[0]!r}, got one that runs at every stage; pass tb.Sampled"
            )
        # kept as long as code may read them
        self._tables = [e.tables() for e in self.elements]
        self._places = list(_places(model, self.elements, self._tables))
        self._control_tables = tuple(_called(getattr(control, "tables", ())))
        self._bound: Mapping[str, Scalars] | None = None
        self._constants: dict[tuple[str, str], tuple[float | None, ...]] = {}
        self._user_code: tuple[Any, Hashable] | None = None
        self._loops_code: tuple[Any, Hashable] | None = None
        self.kept: dict[Any, Any] = {}
        self.fixed = 0
        self.x_names = unique_names(
            "inner state",
            [*(n for e in self.elements for n in e.state_names(model)), *self.own_names],
        )
        self.nx = len(self.x_names)
        start = [x for e in self.elements for x in e.initial_state(model)]
        if self.own_names:
            start += _called(control.initial_state, model)  # type: ignore[union-attr]
        self.x0 = np.array(start, dtype=np.float64)
        self.z_names = unique_names(
            "discrete state",
            [*(n for e in self.elements for n in e.discrete_state_names(model)), *self.own_z_names],
        )
        first = [z for e in self.elements for z in e.initial_discrete_state(model)]
        self.z0 = np.array([*first, *self._own_z0(control)], dtype=np.float64)
        if self.z_names and not steps:
            found = [e.name for e in self.elements if e.discrete_state_names(model)]
            who = f"element {found[0]!r}" if found else "control"
            raise ModelError(
                f"{who}: expected a run of equal steps, which updates its "
                f"discrete states, got another use; use simulate, or leave the "
                f"{'element' if found else 'controller'} out",
                name=found[0] if found else None,
            )
        self.time_matters = depends_on_time(model, self.world)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what runs of this process keep with it."""
        return {**self.__dict__, "kept": {}}

    def _own_z0(self, control: Any) -> tuple[float, ...]:
        """Return the initial discrete states of the controller: zeros by default."""
        count = len(self.own_z_names)
        given = getattr(control, "initial_discrete_state", (0.0,) * count) if count else ()
        found = tuple(float(z) for z in _called(given, self.model))
        if len(found) != count:
            raise ShapeError(
                "control: initial discrete states",
                f"{count} ({', '.join(self.own_z_names)})",
                len(found),
            )
        return found

    @cached_property
    def drive_size(self) -> int:
        """Number of held values: commands, rates of a sampled controller, readings, z."""
        return int(self.discrete.stop)

    @cached_property
    def readings(self) -> slice:
        """Place of the sensor readings among the held values."""
        start = len(self.command_names) + (len(self.own_names) if self.held else 0)
        return slice(start, start + sum(count for _, count in self.sensed))

    @cached_property
    def discrete(self) -> slice:
        """Place of the discrete states among the held values."""
        return slice(self.readings.stop, self.readings.stop + len(self.z_names))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Recorded columns: states, commands, discrete states."""
        return state_columns(self.model, self.x_names, self.command_names, self.z_names)

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs that elements report."""
        return unique_names(
            "output", [name for e in self.elements for name in e.output_names(self.model)]
        )

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
    ) -> tuple[Scalars, Scalars, "tuple[HeldContacts, ModeForces] | None"]:
        """Return rates, constraint forces of loops [N or N m], contacts of event-driven runs."""
        if self.is_guided:
            guided = guided or self.guided_state(q, w)
            q, w = guided.q, (*guided.v, *w[self.model.nv :])
        q, v, x = self._parts(q, w)
        here, driving, own = self._acting(q, v, x, u, time, p, updated)
        here = here._replace(plan=self._at_stages(here.plan, p))
        force = self._with_contact_forces(driving.force, q, u)
        vd, forces = self._accelerations(here, q, v, x, force, self.prescribed(time, p), guided)
        contacts = None
        if self.is_exact:
            held = self._held_contacts(here, q, v, x, vd, u, p)
            pushing = mode_forces(*held)
            pushed = held.problem.compliance.response(pushing.x)
            vd = tuple(a + b for a, b in zip(vd, pushed, strict=True))
            contacts = held, pushing
        return (*vd, *driving.rates, *own), tuple(forces), contacts

    def _with_contact_forces(self, force: Scalars, q: Scalars, u: Scalars) -> Scalars:
        """Return joint forces with those by which contacts of the last step act in this one."""
        if not self.ends_in_contact:
            return force
        return tuple(a + b for a, b in zip(force, self.contact_forces(q, u)[1], strict=True))

    def contact_forces(self, q: Scalars, u: Scalars) -> tuple[Scalar, Scalars, Scalars]:
        """Return whether contacts of the last step act in this one, and their joint forces.

        Those that act have the lever arms of the whole last step; then those with the arms of its
        end.
        """
        assert self.contact is not None
        element, at_z, _ = self.contact
        assert isinstance(element, RigidContactElement)
        act, *forces = element.acting(u[self.discrete][at_z])
        manifold, neutral = self.manifold(), tuple(self.model.neutral())
        whole, at_end = (manifold.reexpress(one, neutral, q) for one in forces)
        return act, whole, at_end

    def revised_contact_forces(self, u: Scalars, trial: Scalars) -> tuple[Any, Scalars]:
        """Return whether a step is taken anew with other contact forces, and held values with them.

        Args:
            u: Held values at the start of a step.
            trial: Those after it.
        """
        assert self.contact is not None
        element, at_z, _ = self.contact
        assert isinstance(element, RigidContactElement)
        z = list(u[self.discrete])
        acts, z[at_z] = element.revised_states(tuple(z[at_z]), trial[self.discrete][at_z])
        return acts, (*u[: self.discrete.start], *z)

    def without_contact_forces(self, u: Scalars) -> Scalars:
        """Return held values with which contacts of the last step do not act in this one."""
        assert self.contact is not None
        element, at_z, _ = self.contact
        assert isinstance(element, RigidContactElement)
        z = list(u[self.discrete])
        z[at_z] = element.at_rest(tuple(z[at_z]))
        return (*u[: self.discrete.start], *z)

    def rates_and_margins(
        self, q: Scalars, w: Scalars, u: Scalars, time: Scalar, p: Scalars | None = None
    ) -> tuple[Scalars, Scalars]:
        """Return the rates of an event-driven run, and the margins of its contact modes.

        The arguments are those of `rates`; the margins are those of `mode_margins`.
        """
        rates, _, contacts = self.motion(q, w, u, time, p)
        assert contacts is not None
        (problem, surfaces, modes), forces = contacts
        return rates, tuple(mode_margins(problem, forces, surfaces, modes, time))

    @cached_property
    def is_exact(self) -> bool:
        """Whether contacts constrain accelerations, in modes that events change."""
        return self.contact is not None and self.contact[0].is_event_driven

    def held_contacts(
        self, q: Scalars, w: Scalars, u: Scalars, time: Scalar
    ) -> tuple["HeldContacts", Scalars]:
        """Return the contacts of an event-driven run, and joint accelerations without them.

        The arguments are those of `rates`.
        """
        q, v, x = self._parts(q, w)
        here, driving, _ = self._acting(q, v, x, u, time, None)
        vd = tuple(self._accelerations(here, q, v, x, driving.force)[0])
        return self._held_contacts(here, q, v, x, vd, u, None), vd

    def _held_contacts(
        self,
        here: Setting,
        q: JointVector,
        v: JointVector,
        x: Scalars,
        vd: Scalars,
        u: Scalars,
        p: Scalars | None,
    ) -> "HeldContacts":
        assert self.contact is not None
        element, at_z, at_p = self.contact
        assert isinstance(element, ExactContactElement)
        own = (*(self._run_time(ELEMENTS) if p is None else p)[at_p], *self.contact_handle)
        loops = self.loops_at(here.plan, q, x)
        candidates = element.candidates
        problem = contact_accelerations(here.plan, q, v, vd, candidates, own, *loops)
        surfaces = surfaces_of(candidates, own, [point.geometry for point in problem.points])
        return HeldContacts(problem, surfaces, element.modes(u[self.discrete][at_z]))

    def residual(
        self,
        q: Scalars,
        w: Scalars,
        vd: Scalars,
        forces: Scalars,
        u: Scalars,
        time: Scalar,
        p: Scalars | None = None,
    ) -> tuple[Scalars, Scalars]:
        """Return the residual of the equations of motion, and the rates of continuous states.

        The residual is tau - ID(q, v, vd) + J^T lambda, then -(J vd + bias) for loops; `forces` is
        lambda, the other arguments are those of `rates`.
        """
        q, v, x = self._parts(q, w)
        here, driving, own = self._acting(q, v, x, u, time, p)
        needed = rnea(here.plan, q, v, JointVector(vd), here.gravity, here.external)
        force = self._with_contact_forces(driving.force, q, u)
        left: list[Scalar] = [a - b for a, b in zip(force, needed, strict=True)]
        for joint in self.prescribed(time, p):
            for i, wanted in joint.accelerations:
                left[i] = wanted - vd[i]
        if self.model.loops:
            left = add_constraints(left, self.loop_constraints(here, q, v, x), vd, forces)
        return tuple(left), (*driving.rates, *own)

    def linear_solver(self, q: Scalars, w: Scalars, time: Scalar) -> Callable[[Scalars], Scalars]:
        """Return a solver of [[H, J^T], [J, 0]] [vd; -lambda] = r for vd."""
        q, v, x = self._parts(q, w)
        here, n = self._setting(q, v, time), self.model.nv
        if self.model.loops:
            held = self.loop_constraints(here, q, v, x)
            solved = constrained_solver(here, q, held, self.min_cut)
            return lambda r: solved(tuple(r[:n]), tuple(r[n:]))
        parents, H = expanded_parents(here.plan), mass_elements(here.plan, q)
        primitive = FactorTree(parents)
        # accelerations of prescribed joints are known: their equations are vd = r
        known = {i for joint in self.prescribed(time) for i, _ in joint.accelerations}

        def entry(i: int, j: int) -> Scalar:
            if i in known or j in known:
                return 1.0 if i == j else 0.0
            return H[i * n + j]

        factor = primitive.apply([entry(i, j) for i, j in primitive.layout.elements()])

        def solve(r: Scalars) -> Scalars:
            right = [
                r[i] if i in known else r[i] - sum((H[i * n + k] * r[k] for k in known), start=0.0)
                for i in range(n)
            ]
            return tuple(SolveTree(parents).apply([*factor, *right]))

        return solve

    def _acting(
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
        here = self._setting(q, v, time)
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
            commands, own = self.decide(q, v, x, u, time)
        return self.drive(here, q, v, x, commands, time, p, u[self.discrete], updated), own

    def loop_constraints(
        self, here: Setting, q: JointVector, v: JointVector, x: Scalars
    ) -> Constraints:
        """Return the constraints of all loops, zero where a switched loop is open."""
        return switched(constraints(self.model, here.plan, q, v), self.switches(x))

    @property
    def min_cut(self) -> float:
        """Relative length below which constraints are redundant on the manifold."""
        return max(MIN_CUT, self.redundancy_tolerance)

    def _accelerations(
        self,
        here: Setting,
        q: JointVector,
        v: JointVector,
        x: Scalars,
        force: Scalars,
        prescribed: "Sequence[Prescribed]" = (),
        guided: Guided | None = None,
    ) -> tuple[Scalars, Scalars]:
        """Return joint accelerations and constraint forces, by the method that the robot needs."""
        if self.partition is not None and self.partition.computes:
            found_in_parts: tuple[Scalars, Scalars] = self.partition.accelerations(
                self, here, q, v, x, force
            )
            return found_in_parts
        if prescribed:
            vd, _, forces = self._hybrid(here, q, v, x, JointVector(force), prescribed)
            return vd, forces
        if self.model.loops:
            return self.loops.motion(self, here, q, v, x, force, guided)
        return self.tree_motion(here, q, v, force), ()

    def tree_motion(self, here: Setting, q: JointVector, v: JointVector, force: Scalars) -> Scalars:
        """Return joint accelerations of the tree, without its loops."""
        solve = method_of_runs(self.model, here.plan)
        found: Scalars = solve(here.plan, q, v, JointVector(force), here.gravity, here.external)
        return found

    @property
    def gyrates(self) -> bool:
        """Whether `gyroscopic_motion` says how the robot turns: of trees that are not in parts."""
        return not self.model.loops and self.partition is None

    def gyroscopic_motion(self, q: Scalars, v: Scalars, time: Scalar) -> Scalars:
        """Return the accelerations of the tree by its own motion, without any forces."""
        position, rate = JointVector(q), JointVector(v)
        here = self._setting(position, rate, time)._replace(gravity=ZERO3, external=None)
        return self.tree_motion(here, position, rate, (0.0,) * self.model.nv)

    def _hybrid(
        self,
        here: Setting,
        q: JointVector,
        v: JointVector,
        x: Scalars,
        tau: JointVector,
        prescribed: "Sequence[Prescribed]",
    ) -> tuple[Scalars, Scalars, Scalars]:
        """Return accelerations, joint forces and constraint forces with prescribed joints.

        Joint forces at prescribed joints are those that their motion takes in total.
        """
        plan, wanted = here.plan, {i: a for joint in prescribed for i, a in joint.accelerations}
        vd = [wanted.get(i, 0.0) for i in range(plan.nv)]
        if not self.model.loops:
            known = [i in wanted for i in range(plan.nv)]
            solve = hybrid_crba if plan.has_couplings else hybrid_aba
            found = solve(plan, q, v, tau, JointVector(vd), known, here.gravity, here.external)
            return (*found, ())
        terms = self.loop_constraints(here, q, v, x)
        return hybrid_with_loops(here, q, v, tau, wanted, terms, self.min_cut)

    def reached(
        self, q: Scalars, w: Scalars, u: Scalars, time: Scalar, p: Scalars | None = None
    ) -> "Reached":
        """Return what acts in a state at the end of a step, contacts included; see `rates`.

        Rigid contacts act with their mean forces over that step.

        Raises:
            ModelError: If contacts of meshes act, whose points are known to their step alone.
        """
        if self.contact is not None:
            for candidate in self.contact[0].candidates:
                if candidate.is_located:
                    raise ModelError(
                        f"contact {candidate.name!r}: accelerations and joint forces in contact "
                        "are not known for meshes, whose contacts are located before every step; "
                        "cover them with simple shapes: tb.cover_meshes",
                        name=candidate.name,
                    )
        guided = None
        if self.is_guided:
            guided = self.guided_state(q, w)
            q, w = guided.q, (*guided.v, *w[self.model.nv :])
        q, v, x = self._parts(q, w)
        here, driving, _ = self._acting(q, v, x, u, time, p, updated=True)
        prescribed = self.prescribed(time, p)

        def moved() -> tuple[Scalars, Scalars]:
            return self._accelerations(here, q, v, x, driving.force, prescribed, guided)

        if self.is_exact:
            held = self._held_contacts(here, q, v, x, moved()[0], u, p)
            f, points = mode_forces(*held).f, held.problem.points
            pushes = [force_on_first(one, f[3 * k : 3 * k + 3]) for k, one in enumerate(points)]
            found = self._contact_wrenches(here.plan, q, [one.geometry for one in points], pushes)
        elif self.ends_in_contact:
            assert self.contact is not None
            element, at_z, at_p = self.contact
            *numbers, _ = (self._run_time(ELEMENTS) if p is None else p)[at_p]
            own = (*numbers, *self.contact_handle)
            geometries, _ = contact_geometry(here.plan, q, element.candidates, own)
            assert isinstance(element, RigidContactElement)
            pushes = [state.force for state in element.point_states(u[self.discrete][at_z])]
            found = self._contact_wrenches(here.plan, q, geometries, pushes)
        else:
            return Reached(here, driving, *moved())
        driving.wrenches += found.items()
        pushed = forces_on_bodies(here.plan, q, found, "frame")
        if pushed is not None:
            known = here.external
            here = here._replace(
                external=pushed if known is None else tuple(map(add, known, pushed))
            )
        return Reached(here, driving, *moved())

    def _contact_wrenches(
        self,
        plan: Plan,
        q: JointVector,
        geometries: Sequence[ContactGeometry],
        pushes: Sequence[Vec3],
    ) -> dict[str, Scalars]:
        """Return wrenches of contacts on frames, in their axes, from the forces on first bodies."""
        assert self.contact is not None
        pairs = [
            (candidate.first.body, candidate.second.body)
            for candidate in self.contact[0].candidates
            for _ in candidate.point_names
        ]
        frames = [one for one in dict.fromkeys(itertools.chain(*pairs)) if one != WORLD]
        places = dict(zip(frames, frame_places(plan, q, tuple(frames)), strict=True))
        found: list[tuple[str, Scalars]] = []
        for pair, geometry, push in zip(pairs, geometries, pushes, strict=True):
            for frame, force in zip(pair, (push, negate(push)), strict=True):
                if frame != WORLD:
                    R, origin = places[frame].R, places[frame].p
                    moment = cross(subtract(geometry.point, origin), force)
                    found.append(
                        (frame, (*transpose_vector(R, moment), *transpose_vector(R, force)))
                    )
        return summed_wrenches(found)

    def prescribed_force(
        self, q: Scalars, w: Scalars, u: Scalars, time: Scalar, p: Scalars | None = None
    ) -> Scalars:
        """Return the forces that move prescribed joints along their paths [N or N m], nv scalars.

        They act beside the forces of elements and commands; zero at all other joints. Contacts act
        as in `reached`.
        """
        prescribed = self.prescribed(time, p)
        if not prescribed:
            return (0.0,) * self.model.nv
        here, driving, *_ = self.reached(q, w, u, time, p)
        position, v, x = self._parts(q, w)
        force = JointVector(driving.force)
        _, needed, _ = self._hybrid(here, position, v, x, force, prescribed)
        wanted = {i for joint in prescribed for i, _ in joint.accelerations}
        return tuple(needed[i] - force[i] if i in wanted else 0.0 for i in range(self.model.nv))

    @cached_property
    def _prescribed_places(self) -> "list[tuple[PrescribedMotion, _Places]]":
        """Prescribed joints, with the places of their parameters and table handles."""
        pairs = zip(self.elements, self._places, strict=True)
        return [(one, at) for one, at in pairs if isinstance(one, PrescribedMotion)]

    @cached_property
    def prescribes(self) -> bool:
        """Whether joints follow given paths."""
        return bool(self._prescribed_places)

    def prescribed(self, time: Scalar, p: Scalars | None = None) -> "list[Prescribed]":
        """Return the prescribed joints at a time [s]; p are the parameters of all elements."""
        if not self._prescribed_places:
            return []
        numbers = self._run_time(ELEMENTS) if p is None else p
        handles = self._run_time(TABLES)
        found = []
        for element, at in self._prescribed_places:
            sample = element.sample(time, numbers[at.p], handles[at.tables])
            of_q, of_v = (self.model.slice(element.joint, of=of) for of in ("q", "v"))
            found.append(Prescribed(of_q.start, of_v.start, sample))
        return found

    def settle(
        self, q: Scalars, w: Scalars, time: Scalar, u: Scalars = (), p: Scalars | None = None
    ) -> tuple[Scalars, Scalars, Scalar]:
        """Project a state onto its constraints after a step; a tree stays as it is.

        The configuration moves by the least motion that closes the loops; then the velocity is
        projected by an impulse of the constraint forces. The same with the contacts of event-driven
        runs, whose modes are among the held values u.

        Returns:
            Configuration, velocity with continuous states, and the largest loop-closure error [m or
            rad]; above `most_open` the loops could not be closed.
        """
        hold: Sequence[int] = ()
        if self.prescribes:
            prescribed, before = self.prescribed(time, p), q
            q, w = self.onto_paths(q, w, prescribed)
            if self.ends_in_contact:
                # unsolved contacts are non-finite, which paths must not hide
                q = tuple(
                    np.where(old <= MAX_GAP, x, old) for x, old in zip(q, before, strict=True)
                )
            hold = [i for joint in prescribed for i, _ in joint.accelerations]
        q, w, residual = self._settle_loops(q, w, time, hold)
        if self.is_exact:
            q, w = self._settle_contacts(q, w, time, u, p)
            # contacts move within what loops allow to first order
            q, w, residual = self._settle_loops(q, w, time)
        return q, w, residual

    def _settle_contacts(
        self, q: Scalars, w: Scalars, time: Scalar, u: Scalars, p: Scalars | None
    ) -> tuple[Scalars, Scalars]:
        """Close the gaps of closed contacts, and stop what they hold."""
        assert self.contact is not None
        element, at_z, at_p = self.contact
        assert isinstance(element, ExactContactElement)
        nv, x = self.model.nv, w[self.model.nv :]
        own = (*(self._run_time(ELEMENTS) if p is None else p)[at_p], *self.contact_handle)
        modes = element.modes(u[self.discrete][at_z])
        v = w[:nv]
        for last in (False, True):
            plan = self.plan_at(q, v, time)
            points = contact_rows(plan, q, element.candidates, own)
            compliance = compliance_of(plan, q, points, *self.loops_at(plan, q, x))
            if not last:
                q = moved_configuration(self.model, q, closing_step(points, compliance, modes))
        velocity = [x for point in points for x in point.velocity(v)]
        change = stopping_impulse(points, velocity, compliance, modes)
        return q, (*(a + b for a, b in zip(v, change, strict=True)), *x)

    @staticmethod
    def onto_paths(
        q: Scalars, w: Scalars, prescribed: "Sequence[Prescribed]"
    ) -> tuple[Scalars, Scalars]:
        """Return a state with prescribed joints on their paths."""
        position, velocity = list(q), list(w)
        for joint in prescribed:
            x, xd, _ = joint.sample
            position[joint.q : joint.q + len(x)] = x
            velocity[joint.v : joint.v + len(xd)] = xd
        return tuple(position), tuple(velocity)

    def _settle_loops(
        self, q: Scalars, w: Scalars, time: Scalar, hold: Sequence[int] = ()
    ) -> tuple[Scalars, Scalars, Scalar]:
        """Project a state onto the loop constraints, with some velocity variables held."""
        if not self.model.loops:
            return q, w, 0.0
        q, w, left = self.loops.project(self, q, w, time, hold)
        return tuple(q), tuple(w), left

    # independent velocities of loops

    @cached_property
    def coordinates(self) -> CoordinatePlaces | None:
        """Places of the rows W of independent velocities; None without."""
        if not self.is_guided:
            return None
        for element, at in zip(self.elements, self._places, strict=True):
            if isinstance(element, LoopCoordinates):
                return CoordinatePlaces(at.x, element.count)
        raise ModelError(
            f"loops: {type(self.loops).__name__} needs the element LoopCoordinates "
            "among the elements of the system, got none; simulate adds it"
        )

    def coordinate_rows(self, x: Scalars) -> list[list[Scalar]]:
        """Return the rows W of independent velocities among the continuous states."""
        assert self.coordinates is not None
        _, *entries = x[self.coordinates.states]
        nv = self.model.nv
        return [entries[k : k + nv] for k in range(0, len(entries), nv)]

    @property
    def is_guided(self) -> bool:
        """Whether velocities follow from independent ones."""
        return self.loops.is_guided

    def guided_state(self, q: Scalars, w: Scalars) -> Guided:
        """Return what the independent velocities and positions of a state determine.

        Args:
            q: Configuration [m or rad], nq scalars.
            w: Joint velocity, of which independent ones count, and continuous states.
        """
        return self.loops.guided(self, *self._parts(q, w))

    def coordinates_condition(self, q: Scalars, x: Scalars) -> tuple[Scalar, Scalar]:
        """Return the condition of W when it was selected, and that at a configuration."""
        assert self.coordinates is not None
        plan = surroundings(self.model, self.world)[0]
        terms = constraints(self.model, plan, JointVector(q))
        basis = Complement(self.model, terms, self.coordinate_rows(x))
        return x[self.coordinates.states.start], basis.coordinate_condition()

    def manifold(self) -> Manifold:
        """Return the positions of the robot, and how a state moves them."""
        if not self.is_guided:
            return Manifold(self.model)
        return GuidedManifold(self.model, self.guided_state)

    @cached_property
    def contact(self) -> tuple[ContactElement, slice, slice] | None:
        """Contact by any model, and the places of its discrete states and run-time parameters.

        None without contact.
        """
        for element, at in zip(self.elements, self._places, strict=True):
            if isinstance(element, ContactElement):
                return element, at.z, at.p
        return None

    @property
    def contact_handle(self) -> Scalars:
        """Handle of the ground's heights; empty without contact or on level ground."""
        for element, at in zip(self.elements, self._places, strict=True):
            if isinstance(element, ContactElement):
                return self._run_time(TABLES)[at.tables]
        return ()

    def beyond_grid(self, q: Scalars, v: Scalars, time: Scalar) -> Candidate | None:
        """Return the first contact beyond the grid of the ground in a state, if any; on floats."""
        assert self.contact is not None
        element, plan = self.contact[0], self.plan_at(q, v, time)
        for candidate in element.candidates:
            try:
                numbers = (*candidate.parameters(), *self.contact_handle)
                contact_geometry(plan, q, (candidate,), numbers)
            except DomainError:
                return candidate
        return None

    @cached_property
    def laws(self) -> tuple[JointLaws, slice, slice] | None:
        """Laws of joints that act at the ends of steps, with the places of states and parameters.

        None without.
        """
        for element, at in zip(self.elements, self._places, strict=True):
            if isinstance(element, JointLaws):
                return element, at.z, at.p
        return None

    @cached_property
    def soft_loops(self) -> tuple[SoftLoops, slice, slice] | None:
        """Springs across loops that act at the ends of steps, with the places of their numbers.

        Those are states and parameters; None without.
        """
        for element, at in zip(self.elements, self._places, strict=True):
            if isinstance(element, SoftLoops):
                return element, at.z, at.p
        return None

    def _at_stages(self, plan: Plan, p: Scalars | None) -> Plan:
        """Return the layout with what stiff laws of joints add to armatures within a step."""
        if self.laws is None:
            return plan
        element, _, at_p = self.laws
        numbers = self._run_time(ELEMENTS) if p is None else p
        return plan.with_added_armatures(element.stage_inertias(self.model, numbers[at_p]))

    @cached_property
    def acts_in_contact(self) -> bool:
        """Whether forces of compliant contact act within steps."""
        return self.contact is not None and self.contact[0].starts_steps

    @cached_property
    def ends_in_contact(self) -> bool:
        """Whether impulses of rigid contact act at the ends of steps."""
        return self.contact is not None and self.contact[0].ends_steps

    def chooses_points(self, plan: Plan) -> bool:
        """Return whether rigid contact of a step is that of the points that come near.

        Prescribed motion of joints that a model has needs the rows of all points.
        """
        assert self.contact is not None
        return not plan.depends_on_time and chooses(plan, self.contact[0].candidates)

    @cached_property
    def has_meshes(self) -> bool:
        """Whether contacts are located outside of compiled code."""
        return self.contact is not None and any(c.is_located for c in self.contact[0].candidates)

    def may_touch(
        self,
        q: Scalars,
        q1: Scalars,
        v: Scalars,
        h: Scalar,
        time: Scalar,
        p: Scalars,
    ) -> Any:
        """Return whether anything may touch in a step.

        Args:
            q: Configuration at its start.
            q1: That at its end.
            v: Joint velocity at the start [m/s or rad/s].
            h: Length of the step [s].
            time: Time at its start [s].
            p: Run-time parameters of the elements.
        """
        assert self.contact is not None
        element, _, at_p = self.contact
        plan = self.plan_at(q1, v, time + h)
        earlier = self.plan_at(q, v, time) if plan.depends_on_time else plan
        return may_touch((earlier, plan), q, (q1,), element.candidates, p[at_p])

    def contact_ahead(
        self,
        plan: Plan,
        q: Scalars,
        q1: Scalars,
        v: tuple[Scalars, Scalars],
        h: Scalar,
        time: Scalar,
        p: Scalars,
        end: Scalars | None = None,
    ) -> tuple[list[Scalar], list[PointRows], Scalars]:
        """Return gaps at the start of a step, contact points at its end, and their numbers.

        Args:
            plan: Layout of the robot at the end of the step.
            q: Configuration at its start.
            q1: Configuration at its end.
            v: Joint velocities at both [m/s or rad/s].
            h: Length of the step [s].
            time: Time at its start [s].
            p: Run-time parameters of the elements.
            end: Configuration at its end without contact, from which points are chosen; None for
                all.
        """
        assert self.contact is not None
        element, _, at_p = self.contact
        assert isinstance(element, RigidContactElement)
        # prescribed motion goes on between the ends of the step
        earlier = self.plan_at(q, v[0], time) if plan.depends_on_time else plan
        own = (*p[at_p][:-1], *self.contact_handle)
        gaps, points = element.approach((earlier, plan), q, q1, v, h, own, end)
        return gaps, points, own

    def closed_velocity(
        self, compliance: Compliance, plan: Plan, q: Scalars, v: Scalars, x: Scalars
    ) -> Scalars:
        """Return the velocity without what loops forbid.

        It would be slip that no impulse can stop, and friction would act on it.
        """
        if compliance.closing is None:
            return v
        moving = constraints(self.model, plan, JointVector(q), JointVector(v))
        opening = switched(moving, self.switches(x)).rate
        change = compliance.closing([-rate for rate in opening])
        return tuple(a + b for a, b in zip(v, change, strict=True))

    @staticmethod
    def is_solved(found: RigidStep, tolerance: Scalar) -> Any:
        """Return whether impulses are those of a step; the outcome reports smaller misses."""
        solved = found.residual <= np.maximum(tolerance, MAX_CONTACT_RESIDUAL)
        return solved & (found.pressed.left <= MAX_CLOSING * found.pressed.approach)

    def contact_failure(
        self, manifold: Any, q: Scalars, w: Scalars, u: Scalars, h: Scalar, time: Scalar
    ) -> tuple[str, str, str] | None:
        """Return the contact or joint for which a step failed, what is wrong, and the body.

        None if the impulses meet the tolerance. Arguments are floats, as of `end_of_step`. The step
        is compiled: a solver that does not converge would iterate for a minute on floats.
        """
        from tiburon.native.kernel import ProgramSource, make_kernel

        def run(given: Mapping[str, Any]) -> Any:
            state: list[Any] = [scalars(given[name]) for name in ("q", "w", "u")]
            now: tuple[Any, ...] = (*state, given["h"], given["when"], self._run_time(ELEMENTS))
            found = self._solved_step(manifold, *now)
            pressed = found.pressed
            return as_traced(
                [pressed.left, pressed.approach, pressed.worst, found.residual, found.worst]
            )

        inputs = [
            Input("q", (len(q),)),
            Input("w", (len(w),)),
            Input("u", (len(u),)),
            Input("h", ()),
            Input("when", ()),
        ]
        program = self.trace(run, inputs, "contact_failure")
        kernel = make_kernel(ProgramSource(program), self.parameters())
        given = (np.array(values, dtype=np.float64) for values in (q, w, u))
        found, has_failed = kernel(*given, h, time, errors="flag")
        if has_failed:
            return None
        left, approach, closing, residual, worst = found
        subjects = [*self._contact_subjects(), *self._law_subjects()]
        if left > MAX_CLOSING * approach:
            name, body = subjects[int(closing)]
            return name, f"which goes on closing at {left:.2g} m/s", body
        tolerance = 0.0
        if self.contact is not None:
            tolerance = float(self._run_time(ELEMENTS)[self.contact[2]][-1])
        if residual <= max(tolerance, MAX_CONTACT_RESIDUAL):
            return None
        name, body = subjects[int(worst)]
        return name, f"of a residual of {residual:.2g}", body

    def _solved_step(
        self,
        manifold: Any,
        q: Scalars,
        w: Scalars,
        u: Scalars,
        h: Scalar,
        time: Scalar,
        p: Scalars,
    ) -> RigidStep:
        """Return what contacts and laws of joints make of a step; arguments of `end_of_step`."""
        from tiburon.simulation.integrators.rk4 import rk4_step
        from tiburon.simulation.step_end import posed_end, solved_end

        def rates(q: Scalars, w: Scalars, time: Scalar) -> Scalars:
            return self.rates(q, w, u, time, p)

        after = rk4_step(manifold, rates, q, w, h, time)
        end = posed_end(self, manifold, (q, w), after, u, h, time, p)
        return solved_end(self, end, u, h, time)[0]

    def _contact_subjects(self) -> Iterator[tuple[str, str]]:
        """Yield the words for each contact point, and the body that it belongs to."""
        if self.ends_in_contact and self.contact is not None:
            for candidate in self.contact[0].candidates:
                for point in candidate.point_names:
                    yield f"contact {point!r}", candidate.first.body

    def _law_subjects(self) -> Iterator[tuple[str, str]]:
        """Yield the words for friction and stop of each joint, and its body."""
        bodies = {body.joint.name: body.name for body in self.model.bodies}
        for law in self.laws[0].laws if self.laws is not None else ():
            for force in law.rows:
                name = force.removesuffix("_force")
                yield f"{name} of joint {law.joint!r}", bodies[law.joint]

    def loops_at(self, plan: Plan, q: Scalars, x: Scalars) -> tuple[Any, ...]:
        """Return the Jacobian of closed loops and its rank cut; nothing for a tree."""
        if not self.model.loops:
            return ()
        held = switched(constraints(self.model, plan, JointVector(q)), self.switches(x))
        return held.jacobian, rank_cut(self.model, held.value, self.min_cut)

    @property
    def most_open(self) -> float:
        """Loop-closure error that a step may leave [m or rad]."""
        return max(MAX_RESIDUAL, self.redundancy_tolerance)

    def gaps(self, q: Scalars, time: Scalar, x: Scalars | None = None) -> Scalars:
        """Return the residual of each loop constraint [m or rad].

        Continuous states x hold the offsets of switched loops; None leaves those out.
        """
        plan = self.plan_at(q, (0.0,) * self.model.nv, time)
        held = constraints(self.model, plan, JointVector(q))
        return switched(held, None if x is None else self.switches(x)).value

    @cached_property
    def switch_places(self) -> dict[str, int]:
        """Place of the first state of each switched loop among the continuous states, by name."""
        pairs = zip(self.elements, self._places, strict=True)
        return {one.loop: at.x.start for one, at in pairs if isinstance(one, LoopSwitch)}

    def switches(self, x: Scalars) -> Switches | None:
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

    def plan_at(self, q: Scalars, v: Scalars, time: Scalar) -> Plan:
        """Return the layout of the robot in its surroundings in a state."""
        return self._setting(JointVector(q), JointVector(v), time).plan

    def loop_jacobian(self, plan: Plan, q: Scalars) -> Any:
        """Return the Jacobian of all loops, shape (rows, nv); on floats."""
        if not self.model.loops:
            return np.zeros((0, self.model.nv))
        rows = constraints(self.model, plan, JointVector(q)).jacobian
        return np.array([[row.get(i, 0.0) for i in range(self.model.nv)] for row in rows])

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
        for element, at, now in self._contexts(kinematics, x, u, z, time, p, updated):
            driving.take(self.model, element, element.act(now), _count(at.x))
        return driving

    def update(
        self, q: Scalars, w: Scalars, u: Scalars, time: Scalar, p: Scalars | None = None
    ) -> Scalars:
        """Return the held values at the end of a step, with updated discrete states."""
        position, v, x = self._parts(q, w)
        kinematics = StateKinematics(self._setting(position, v, time), position, v)
        commands = self.commands_at(q, w, u, time)
        z: list[Scalar] = []
        for element, at, now in self._contexts(kinematics, x, commands, u[self.discrete], time, p):
            z += _updated(element, at, now)
        return (*u[: self.discrete.start], *z, *u[self.discrete.start + len(z) :])

    def _contexts(
        self,
        kinematics: StateKinematics,
        x: Scalars,
        u: Scalars,
        z: Scalars,
        time: Scalar,
        p: Scalars | None,
        updated: bool = False,
    ) -> "Iterator[tuple[Element, _Places, ElementContext]]":
        """Yield each element with the places of its parts and its context in a state."""
        parameters = self._run_time(ELEMENTS) if p is None else p
        handles = self._run_time(TABLES)
        for element, at in zip(self.elements, self._places, strict=True):
            now = ElementContext(
                kinematics,
                time,
                tuple(x[at.x]),
                tuple(u[at.u]),
                tuple(parameters[at.p]),
                tuple(handles[at.tables]),
                tuple(z[at.z]),
                updated,
            )
            yield element, at, now

    def decide(
        self, q: Scalars, v: Scalars, x: Scalars, u: Scalars, time: Scalar
    ) -> tuple[Scalars, Scalars]:
        """Call the traced controller; return all commands, and the rates of its own states."""
        return self._decided(q, v, x, u, time)[:2]

    def _decided(
        self, q: Scalars, v: Scalars, x: Scalars, u: Scalars, time: Scalar
    ) -> tuple[Scalars, Scalars, Scalars]:
        """Call the traced controller; return commands, rates, and its next discrete states."""
        count, own, own_z = len(self.command_names), len(self.own_names), len(self.own_z_names)
        state = State(self, time, *map(_array, (q, v, x, u[:count])))
        if own:
            state.own = state.x[len(x) - own :]
        if self.z_names:
            state.z = _array(u[self.discrete])
            state.own_z = state.z[len(self.z_names) - own_z :] if own_z else None
        if self.sensed:
            state.sensors = self._readings_by_name(u)
        state.owner, state.p = self.control, _array(self._run_time(CONTROL))
        handles = self._run_time(TABLES)
        state.tables = tuple(handles[len(handles) - HANDLE * len(self._control_tables) :])
        assert self.control is not None
        with at_time(time if self.time_matters else None):
            answer = self.control(state)
        parts = [
            ("rates", self.own_names),
            ("discrete states", self.own_z_names),
        ]
        more: list[Scalars] = [(), ()]
        if own or own_z:
            names = ["commands", *(part for part, known in parts if known)]
            if not (isinstance(answer, tuple) and len(answer) == len(names)):
                raise ShapeError("control", f"a tuple ({', '.join(names)})", type(answer).__name__)
            answer, *rest = answer
            for k, (part, known) in enumerate(parts):
                if known:
                    more[k] = tuple(as_traced(rest.pop(0)).reshape(-1).tolist())
                    if len(more[k]) != len(known):
                        listed = f"{len(known)} ({', '.join(known)})"
                        raise ShapeError(f"control: {part}", listed, len(more[k]))
        return tuple(self.commands.fill(list(u[:count]), answer)), more[0], more[1]

    def _readings_by_name(self, u: Scalars) -> Readings:
        """Return the held sensor readings by the name of the sensor."""
        found, place = Readings(), self.readings.start
        for name, count in self.sensed:
            found[name] = _array(u[place : place + count])
            place += count
        return found

    def hold(self, q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        """Sample the traced controller: return the held values from here on."""
        commands, own, own_z = self._decided(*self._parts(q, w), u, time)
        kept = u[self.readings.start : self.discrete.stop - len(own_z)]
        return (*commands, *own, *kept, *own_z)

    def commands_at(self, q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        """Return the commands in a state: those held, or those of the controller."""
        if self.control is None or self.held:
            return tuple(u[: len(self.command_names)])
        return self.decide(*self._parts(q, w), u, time)[0]

    def state(self, q: Any, w: Scalars, u: Any, time: Scalar) -> State:
        """Return a state as events see it, from scalars."""
        position, v, x = self._parts(q, w)
        count = len(self.command_names)
        return State(self, time, *map(_array, (position, v, x, u[:count])))

    def _parts(self, q: Scalars, w: Scalars) -> tuple[JointVector, JointVector, Scalars]:
        nv = self.model.nv
        return JointVector(q), JointVector(w[:nv]), w[nv:]

    def _setting(self, q: Scalars, v: Scalars, time: Scalar) -> Setting:
        around = Setting(self.model, (), (), *surroundings(self.model, self.world))
        return around.at(q, v, *((time,) if self.time_matters else ()))

    # parameters, keys and traces

    def numbers(self) -> tuple[float, ...]:
        """Return the run-time parameters of all elements."""
        return tuple(x for element in self.elements for x in element.parameters())

    def control_numbers(self) -> tuple[float, ...]:
        """Return the run-time parameters of the traced controller."""
        given = _called(getattr(self.control, "parameters", ()))
        return tuple(np.ravel(np.asarray(given, dtype=np.float64)).tolist())

    @cached_property
    def _handles(self) -> tuple[float, ...]:
        """Handles of all tables: of elements in order, then of the controller."""
        tables = (table for own in (*self._tables, self._control_tables) for table in own)
        return tuple(x for table in tables for x in table.handle)

    def elements_with_parameters(self) -> list[tuple[Element, Scalars]]:
        """Return all elements with their run-time parameters: bound in a trace, or their own."""
        p = self._run_time(ELEMENTS)
        return [(e, p[at.p]) for e, at in zip(self.elements, self._places, strict=True)]

    def _run_time(self, name: str) -> Scalars:
        """Return run-time parameters: those bound in a trace, or their values."""
        if self._bound is not None:
            return self._bound[name]
        if name == TABLES:
            return self._handles
        if name == PARTITION:
            return self.partition.numbers if self.partition is not None else ()
        return self.numbers() if name == ELEMENTS else self.control_numbers()

    def partition_numbers(self) -> Scalars:
        """Return which parts this process computes and where messages go; see `PARTITION`."""
        return self._run_time(PARTITION)

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
        own = {name: self._run_time(name) for name in RUN_TIME}
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
        around = structure_around(self.model, self.world)
        text = structure_text(("system 2", around, self.structure()))
        digest = hashlib.blake2b(text.encode())
        digest.update(self.model.structure_key())
        return digest.hexdigest()

    def retrace(self) -> None:
        """Trace user code again, so that `key` belongs to what it computes now."""
        self.model.check_unchanged()
        self.world.traced_key()
        self.__dict__.pop("key", None)

    def structure(self, first: int = 0) -> Hashable:
        """Return what the code depends on beside model, world and the `first` leading elements."""
        known = self.control is None or has_structure(self.control)
        control: Hashable = None
        if self.control is not None and known:
            control = control_structure(self.control, self.model, self.world)
        kind = type(self.control).__qualname__ if known else None
        how: Hashable = (self.held, self.sensed) if self.sensed else self.held
        if self.loops != PROJECTION:
            how = (how, self.loops if is_declared(self.loops) else self._loops_key())
        if self.partition is not None:
            how = (how, self.partition.key)
        switched = tuple(self.switch_places.items())
        return (structure_of(self.elements[first:]), switched, kind, control, how, self.user_key())

    def user_key(self) -> Hashable:
        """Return the key of all user code in elements and controller; None if there is none.

        User code is traced by itself: poses and velocities of frames are inputs of its graph, since
        the model determines them. Components of them that are constant remain constants, so that
        user code meets exactly the values that it meets in the step kernel. A first trace with the
        kinematics finds those constants. As long as nothing changes that user code can read, its
        last graph holds.
        """
        mine = [e for e in self.elements[self.fixed :] if not is_declared(e)]
        control = self.control is not None and not has_structure(self.control)
        if not mine and not control:
            return None
        # what user code reads, before it is traced
        reads = snapshot(*mine, self.control if control else None)
        if reads is not None and self._user_code is not None and self._user_code[0] == reads:
            return self._user_code[1]
        found = self._user_graph(mine, control, alone=True)
        if found is None:
            self._user_graph(mine, control, alone=False)
            found = self._user_graph(mine, control, alone=True)
        self._user_code = (reads, found)
        return found

    def _loops_key(self) -> Hashable:
        """Return the key of a loop method of users: the graph of its motion and projection."""
        reads = snapshot(self.loops)
        if reads is not None and self._loops_code is not None and self._loops_code[0] == reads:
            return self._loops_code[1]
        model = self.model
        inputs = [Input("q", (model.nq,)), Input("w", (model.nv + self.nx,))]
        inputs += [Input("force", (model.nv,)), Input("time", ())]

        def run(given: Mapping[str, Any]) -> Any:
            q, w, force = (scalars(given[name]) for name in ("q", "w", "force"))
            guided = self.guided_state(q, w) if self.is_guided else None
            position, velocity, x = self._parts(q, w)
            here = self._setting(position, velocity, given["time"])
            vd, pushes = self._accelerations(here, position, velocity, x, force, (), guided)
            closed, moved, left = self._settle_loops(q, w, given["time"])
            return [*vd, *pushes, *closed, *moved, left]

        found = program_digest(self.trace(run, inputs, "loop method"))
        self._loops_code = (reads, found)
        return found

    def _user_graph(self, mine: Sequence[Element], control: bool, *, alone: bool) -> Hashable:
        """Trace user code, with the kinematics or alone; None if a constant is not known yet."""
        model = self.model
        inputs = [
            Input("q", (model.nq,)),
            Input("w", (model.nv + self.nx,)),
            Input("u", (self.drive_size,)),
            Input("time", ()),
        ]
        names: list[Any] = []
        more: list[Input] = []
        taken = {id(element) for element in mine}
        known = len(inputs) + len(self.parameters())

        def run(given: Mapping[str, Any]) -> Any:
            q, w, u = (scalars(given[name]) for name in ("q", "w", "u"))
            time = given["time"]
            position, v, x = self._parts(q, w)
            kinematics = _UserKinematics(self, position, v, time, more if alone else None, known)
            results: list[Scalar] = []
            if control:
                commands, own, own_z = self._decided(position, v, x, u, time)
                results += (*commands, *own, *own_z)
            for element, at, now in self._contexts(kinematics, x, u, u[self.discrete], time, None):
                if id(element) not in taken:
                    continue
                driving = AppliedForces((0.0,) * model.nv)
                driving.take(model, element, element.act(now), _count(at.x))
                pushes = [value for _, wrench in driving.wrenches for value in wrench]
                frames = [name for name, _ in driving.wrenches]
                names.append((frames, sorted(driving.outputs)))
                results += (*driving.force, *pushes, *driving.rates, *_updated(element, at, now))
                results += (driving.outputs[name] for name in sorted(driving.outputs))
            return results

        try:
            program = self.trace(run, inputs, "user code")
        except _UnknownConstantError:
            return None
        program = replace(program, inputs=(*program.inputs, *more))
        return f"{program_digest(program)} {names}"

    def fingerprint(self) -> Hashable:
        """Return all data and user code that may have changed since the system was built."""
        model, control = self.model, self.control
        parts: list[Hashable] = [
            (
                e.name,
                tuple(e.state_names(model)),
                tuple(e.discrete_state_names(model)),
                tuple(e.command_names(model)),
                tuple(e.output_names(model)),
                _bits(e.initial_state(model)),
                _bits(e.initial_discrete_state(model)),
                _bits(e.parameters()),
                tuple(map(Identical, e.tables())),
            )
            for e in self.elements[self.fixed :]
        ]
        if control is not None:
            start = getattr(control, "initial_state", ())
            parts += [
                tuple(_called(getattr(control, "state_names", None) or (), model)),
                _bits(_called(start, model) if self.own_names else ()),
                _bits(self.control_numbers()),
                tuple(map(Identical, _called(getattr(control, "tables", ())))),
                tuple(_called(getattr(control, "discrete_state_names", ()), model)),
                _bits(self._own_z0(control)),
            ]
        return (*parts, structure_text(self.structure(self.fixed)))


def _bits(values: Any) -> bytes:
    """Return floats as bytes: -0.0 and 0.0 differ."""
    return np.asarray(values, dtype=np.float64).tobytes()


class _Places(NamedTuple):
    """Places of one element among the values of all elements."""

    x: slice
    """Continuous states."""

    u: slice
    """Commands, after those of the joints."""

    z: slice
    """Discrete states."""

    p: slice
    """Run-time parameters."""

    tables: slice
    """Handles of tables."""


def _places(
    model: Model, elements: Sequence[Element], tables: Sequence[tuple[Table, ...]]
) -> Iterator[_Places]:
    """Yield the places of each element."""
    ends = [0, model.nv, 0, 0, 0]
    for e, own in zip(elements, tables, strict=True):
        names = (e.state_names(model), e.command_names(model), e.discrete_state_names(model))
        counts = (*map(len, names), len(e.parameters()), HANDLE * len(own))
        begins, ends = ends, [end + count for end, count in zip(ends, counts, strict=True)]
        yield _Places(*map(slice, begins, ends))


def _count(place: slice) -> int:
    return int(place.stop - place.start)


def _updated(element: Element, at: _Places, now: ElementContext) -> Scalars:
    """Return the updated discrete states of one element."""
    if not _count(at.z):
        return ()
    found = tuple(element.update_discrete_state(now))
    check_count(element, "discrete states", _count(at.z), found)
    return found


class _UnknownConstantError(BaseException):
    """User code uses a frame whose constant components are not known yet.

    Not an `Exception`, which user code may catch.
    """


class _UserKinematics(StateKinematics):
    """Kinematics for the key of user code: poses and velocities of frames become inputs."""

    def __init__(
        self,
        system: System,
        q: Scalars,
        v: Scalars,
        time: Scalar,
        inputs: list[Input] | None,
        known: int,
    ) -> None:
        """Remember a state.

        `inputs` takes the inputs of the graph, after the `known` ones that it has; None to compute
        the kinematics and to note their constant components.
        """
        self.q, self.v = q, v
        self._system, self._time = system, time
        self._inputs, self._known = inputs, known
        self._opened: dict[tuple[str, str], tuple[Scalar, ...]] = {}

    @cached_property
    def around(self) -> Setting:  # type: ignore[override]
        """The robot under its surroundings, built on first use."""
        return self._system._setting(self.q, self.v, self._time)

    @property
    def model(self) -> Model:
        """The robot as its user built it."""
        return self._system.model

    def frame_pose(self, name: str) -> Place:
        """Return the pose of a body or frame."""
        if self._inputs is None:
            found = super().frame_pose(name)
            self._note(name, "pose", (*(x for row in found.R for x in row), *found.p))
            return found
        a, b, c, d, e, f, g, h, i, *p = self._open(name, "pose")
        return Place(((a, b, c), (d, e, f), (g, h, i)), tuple(p))

    def frame_velocity(self, name: str) -> Motion:
        """Return the velocity of a body or frame."""
        if self._inputs is None:
            found = super().frame_velocity(name)
            self._note(name, "velocity", (*found.angular, *found.linear))
            return found
        return Motion.from_array(self._open(name, "velocity"))

    def _note(self, frame: str, kind: str, values: Scalars) -> None:
        constants = tuple(None if isinstance(x, Value) else float(x) for x in values)
        self._system._constants[frame, kind] = constants

    def _open(self, frame: str, kind: str) -> tuple[Scalar, ...]:
        found = self._opened.get((frame, kind))
        if found is None:
            constants = self._system._constants.get((frame, kind))
            if constants is None:
                raise _UnknownConstantError
            assert self._inputs is not None
            item = Input(f"{kind} of {frame}", (len(constants),))
            graph = current_graph()
            assert graph is not None
            entries = scalars(input_array(graph, self._known + len(self._inputs), item.shape))
            self._inputs.append(item)
            pairs = zip(entries, constants, strict=True)
            found = tuple(entry if x is None else x for entry, x in pairs)
            self._opened[frame, kind] = found
        return found


def _called(thing: Any, *given: Any) -> Any:
    """Return names or numbers that may be given as such, or by a function."""
    return thing(*given) if callable(thing) else thing


def _array(values: Scalars) -> Any:
    """Return scalars as an array that user code may calculate with."""
    if current_graph() is None:
        return np.array(values, dtype=np.float64)
    return as_traced(list(values))


# systems that several runs share

SYSTEMS = 16
"""Robots in surroundings that each thread remembers, and systems of each."""


class Surrounded:
    """A robot in its surroundings, with the elements of its own data and the systems built of it.

    Attributes:
        world: The surroundings.
        elements: Elements that the robot's own data describe.
    """

    def __init__(
        self,
        model: Model,
        world: World | None,
        fluid: Water | None,
        laws: Sequence[LawChoice] | None = (),
    ) -> None:
        """Collect the elements; arguments as of `simulate`.

        `laws` are those of joints that act at the ends of steps; None for no elements at all.
        """
        # kept alive: the key of this object holds their addresses
        self.given = (model, world, fluid)
        self.world = world_with(world, fluid) or DEFAULT_WORLD
        self.elements: tuple[Element, ...] = ()
        if laws is not None:
            self.elements = elements_of(model, laws=laws)
        self._fixed = len(self.elements) if all(map(is_declared, self.elements)) else 0
        self._systems: dict[Any, tuple[System, Hashable]] = {}

    def system(
        self,
        extra: Sequence[Element] = (),
        control: Any = None,
        *,
        held: bool = False,
        sensed: Sequence[tuple[str, int]] = (),
        loops: LoopMethod = PROJECTION,
    ) -> System:
        """Return the system with further elements and a traced controller, built before or now.

        A system is shared as long as elements and controller are the same, or equal records of this
        package, and neither their data nor the graph of their user code has changed.
        """
        key: Any = None
        if extra or control is not None or loops is not PROJECTION:
            parts = tuple(map(_identity, (*extra, control)))
            key = (parts, held, tuple(sensed), _identity(loops))
        found, known = self._systems.get(key, (None, None))
        if found is not None and (key is None or found.fingerprint() == known):
            return found
        found = System(
            self.given[0],
            self.world,
            (*self.elements, *extra),
            control,
            held=held,
            sensed=sensed,
            loops=loops,
            steps=True,
        )
        found.fixed = self._fixed
        known = None if key is None else found.fingerprint()
        put_latest(self._systems, key, (found, known))
        return found


def _identity(part: Any) -> Hashable:
    """Return a key of an element or controller: equal records of this package are one."""
    if is_dataclass(part) and type(part).__module__.startswith("tiburon."):
        found = (type(part), *(by_identity(getattr(part, item.name)) for item in fields(part)))
        try:
            hash(found)
        except TypeError:
            pass
        else:
            return found
    return Identical(part)


class _Recent(threading.local):
    """Robots in surroundings by the addresses of their parts; the oldest is dropped first."""

    def __init__(self) -> None:
        self.known: dict[Any, Surrounded] = {}


_recent = _Recent()


def put_latest(known: dict[Any, Any], key: Any, value: Any) -> None:
    """Put an entry last into a table of at most `SYSTEMS`; the first is dropped."""
    known.pop(key, None)
    known[key] = value
    if len(known) > SYSTEMS:
        del known[next(iter(known))]


def surrounded(
    model: Model,
    world: World | None,
    fluid: Water | None,
    laws: tuple[LawChoice, ...] | None = (),
) -> Surrounded:
    """Return a robot in its surroundings, built before or now; arguments as of `Surrounded`."""
    if isinstance(model, Model):
        model.check_unchanged()
    key: tuple[Hashable, ...] = (id(model), id(world), id(fluid), laws)
    for around in (world, fluid):
        # user code of the surroundings is traced again
        if isinstance(around, (World, Water)):
            key = (*key, around.traced_key())
    found = _recent.known.get(key)
    if found is None:
        found = Surrounded(model, world, fluid, laws)
        put_latest(_recent.known, key, found)
    return found
