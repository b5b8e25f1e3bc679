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

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from operator import add
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.element import (
    AppliedForces,
    Element,
    ElementContext,
    StateKinematics,
    summed_wrenches,
)
from tiburon.actuation.exact_contact import ExactContactElement
from tiburon.actuation.joint_laws import JointLaws
from tiburon.actuation.loop_switch import LoopCoordinates, LoopSwitch
from tiburon.actuation.piecewise import PathSample
from tiburon.actuation.prescribed import PrescribedMotion
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.actuation.soft_loops import SoftLoops
from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.hybrid import hybrid_aba, hybrid_crba
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting, forces_on_bodies
from tiburon.algorithms.surroundings import (
    DEFAULT_WORLD,
    surroundings,
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
from tiburon.errors import DomainError, ModelError
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
from tiburon.model import WORLD, Model, Plan, World
from tiburon.simulation.code_key import CodeKey
from tiburon.simulation.control_calls import commands_at, decide
from tiburon.simulation.integrators.manifold import GuidedManifold, Manifold
from tiburon.simulation.layout import ELEMENTS, RUN_TIME, TABLES, Layout, Placed
from tiburon.simulation.state import State
from tiburon.spatial import Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import ZERO3, cross, negate, subtract, transpose_vector
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.tree import FactorTree, SolveTree
from tiburon.trace.program import Input, Program

MAX_CONTACT_RESIDUAL = 1e-3
"""Relative residual of contact impulses above which a step has failed, whatever its tolerance."""

MAX_CLOSING = 1e-3
"""Share of the speed of approach that contact impulses may leave; a step that leaves more has
failed, however small its residual is relative to impulses."""

MAX_GAP = 1e100
"""Sum of gaps that is a number [m]."""

SHORTEST_STEP = 1e-12
"""Length of a step with contact at least [s]: accuracy of the times of events."""


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
class System(Layout):
    """A robot in its world with its elements and controller: computes the rates of all states.

    What it holds by name and in order is described by `Layout`.

    Attributes:
        world: Its surroundings.
        loops: How loops are held.
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
        self.loops = loops
        self.redundancy_tolerance = loops.redundancy_tolerance
        self.code = CodeKey(self)
        self.kept: dict[Any, Any] = {}
        self.fixed = 0
        self.time_matters = depends_on_time(model, self.world)

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
    ) -> tuple[Scalars, Scalars, "tuple[HeldContacts, ModeForces] | None"]:
        """Return rates, constraint forces of loops [N or N m], contacts of event-driven runs."""
        if self.is_guided:
            guided = guided or self.guided_state(q, w)
            q, w = guided.q, (*guided.v, *w[self.model.nv :])
        q, v, x = self.split(q, w)
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

    def first_contact_forces(self, u: Scalars, trial: Scalars) -> tuple[Any, Scalars]:
        """Return whether a step is the first one with contact forces, and held values with them.

        Args:
            u: Held values at the start of a step.
            trial: Those after it, if no contact forces act within it.
        """
        assert self.contact is not None
        element, at_z, _ = self.contact
        assert isinstance(element, RigidContactElement)
        z = list(u[self.discrete])
        acts, z[at_z] = element.first_states(tuple(z[at_z]), trial[self.discrete][at_z])
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
        q, v, x = self.split(q, w)
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
        own = (*self.of_all(p)[at_p], *self.contact_handle)
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
        q, v, x = self.split(q, w)
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
        q, v, x = self.split(q, w)
        here, n = self.setting(q, v, time), self.model.nv
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
        here = self.setting(position, rate, time)._replace(gravity=ZERO3, external=None)
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
        q, v, x = self.split(q, w)
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
            *numbers, _ = self.of_all(p)[at_p]
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
        position, v, x = self.split(q, w)
        force = JointVector(driving.force)
        _, needed, _ = self._hybrid(here, position, v, x, force, prescribed)
        wanted = {i for joint in prescribed for i, _ in joint.accelerations}
        return tuple(needed[i] - force[i] if i in wanted else 0.0 for i in range(self.model.nv))

    @cached_property
    def _prescribed_places(self) -> "list[tuple[PrescribedMotion, Placed[Any]]]":
        """Prescribed joints, with the places of their parameters and table handles."""
        pairs = ((one.element, one) for one in self.placed)
        return [(one, at) for one, at in pairs if isinstance(one, PrescribedMotion)]

    @cached_property
    def prescribes(self) -> bool:
        """Whether joints follow given paths."""
        return bool(self._prescribed_places)

    def prescribed(self, time: Scalar, p: Scalars | None = None) -> "list[Prescribed]":
        """Return the prescribed joints at a time [s]; p are the parameters of all elements."""
        if not self._prescribed_places:
            return []
        numbers = self.of_all(p)
        handles = self.run_time(TABLES)
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
        own = (*self.of_all(p)[at_p], *self.contact_handle)
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
        for element, at in ((one.element, one) for one in self.placed):
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
        return self.loops.guided(self, *self.split(q, w))

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
        for element, at in ((one.element, one) for one in self.placed):
            if isinstance(element, ContactElement):
                return element, at.z, at.p
        return None

    @property
    def contact_handle(self) -> Scalars:
        """Handle of the ground's heights; empty without contact or on level ground."""
        for element, at in ((one.element, one) for one in self.placed):
            if isinstance(element, ContactElement):
                return self.run_time(TABLES)[at.tables]
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
        for element, at in ((one.element, one) for one in self.placed):
            if isinstance(element, JointLaws):
                return element, at.z, at.p
        return None

    @cached_property
    def soft_loops(self) -> tuple[SoftLoops, slice, slice] | None:
        """Springs across loops that act at the ends of steps, with the places of their numbers.

        Those are states and parameters; None without.
        """
        for element, at in ((one.element, one) for one in self.placed):
            if isinstance(element, SoftLoops):
                return element, at.z, at.p
        return None

    def _at_stages(self, plan: Plan, p: Scalars | None) -> Plan:
        """Return the layout with what stiff laws of joints add to armatures within a step."""
        if self.laws is None:
            return plan
        element, _, at_p = self.laws
        numbers = self.of_all(p)
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
    ) -> tuple[list[Scalar], list[PointRows], Scalars, Scalar]:
        """Return gaps at the start of a step, contact points at its end, numbers and tolerance.

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
        *numbers, tolerance = p[at_p]
        own = (*numbers, *self.contact_handle)
        gaps, points = element.approach((earlier, plan), q, q1, v, h, own, end)
        return gaps, points, own, tolerance

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
            now: tuple[Any, ...] = (*state, given["h"], given["when"], self.run_time(ELEMENTS))
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
            tolerance = float(self.run_time(ELEMENTS)[self.contact[2]][-1])
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
        pairs = ((one.element, one) for one in self.placed)
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
        return self.setting(JointVector(q), JointVector(v), time).plan

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
        for one, now in self.contexts(kinematics, x, u, z, time, p, updated):
            driving.take(self.model, one.element, one.element.act(now), one.state_count)
        return driving

    def update(
        self, q: Scalars, w: Scalars, u: Scalars, time: Scalar, p: Scalars | None = None
    ) -> Scalars:
        """Return the held values at the end of a step, with updated discrete states."""
        position, v, x = self.split(q, w)
        kinematics = StateKinematics(self.setting(position, v, time), position, v)
        commands = commands_at(self, q, w, u, time)
        z: list[Scalar] = []
        for one, now in self.contexts(kinematics, x, commands, u[self.discrete], time, p):
            z += one.updated(now)
        return (*u[: self.discrete.start], *z, *u[self.discrete.start + len(z) :])

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
        around = Setting(self.model, (), (), *surroundings(self.model, self.world))
        return around.at(q, v, *((time,) if self.time_matters else ()))

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
        return self.code.text()

    def retrace(self) -> None:
        """Trace user code again, so that `key` belongs to what it computes now."""
        self.model.check_unchanged()
        self.world.traced_key()
        self.__dict__.pop("key", None)
