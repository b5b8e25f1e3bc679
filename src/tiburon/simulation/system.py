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
from tiburon.actuation.piecewise import Prescribed
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.algorithms.kinematics import frame_places
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
from tiburon.contact.rigid import RigidStep, compliance_of
from tiburon.contact.rows import PointRows, contact_geometry, contact_rows, may_touch
from tiburon.errors import DomainError, ModelError
from tiburon.functions.kernel_source import parameter_values, trace_with_parameters
from tiburon.functions.library import GRAVITY, INERTIA, TIME, depends_on_time
from tiburon.loops.loop_method import Guided, LoopMethod
from tiburon.loops.projection import moved_configuration
from tiburon.loops.stabilization import PROJECTION
from tiburon.model import WORLD, Model, Plan, World
from tiburon.simulation.accelerations import accelerations, hybrid_motion
from tiburon.simulation.code_key import CodeKey
from tiburon.simulation.control_calls import commands_at, decide
from tiburon.simulation.held_loops import HeldLoops
from tiburon.simulation.layout import ELEMENTS, RUN_TIME, TABLES, Layout, Placed
from tiburon.simulation.state import State
from tiburon.spatial import Scalar, Scalars, Vec3
from tiburon.spatial.vec3 import cross, negate, subtract, transpose_vector
from tiburon.trace.array import as_traced
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
        self.loops = loops
        self.held_loops = HeldLoops(self)
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
        if self.held_loops.is_guided:
            guided = guided or self.held_loops.guided_state(q, w)
            q, w = guided.q, (*guided.v, *w[self.model.nv :])
        q, v, x = self.split(q, w)
        here, driving, own = self.acting(q, v, x, u, time, p, updated)
        here = here._replace(plan=self._at_stages(here.plan, p))
        force = self.with_contact_forces(driving.force, q, u)
        vd, forces = accelerations(self, here, q, v, x, force, self.prescribed(time, p), guided)
        contacts = None
        if self.is_exact:
            held = self._held_contacts(here, q, v, x, vd, u, p)
            pushing = mode_forces(*held)
            pushed = held.problem.compliance.response(pushing.x)
            vd = tuple(a + b for a, b in zip(vd, pushed, strict=True))
            contacts = held, pushing
        return (*vd, *driving.rates, *own), tuple(forces), contacts

    def with_contact_forces(self, force: Scalars, q: Scalars, u: Scalars) -> Scalars:
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
        manifold, neutral = self.held_loops.manifold(), tuple(self.model.neutral())
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
        here, driving, _ = self.acting(q, v, x, u, time, None)
        vd = tuple(accelerations(self, here, q, v, x, driving.force)[0])
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
        loops = self.held_loops.rows(here.plan, q, x)
        candidates = element.candidates
        problem = contact_accelerations(here.plan, q, v, vd, candidates, own, *loops)
        surfaces = surfaces_of(candidates, own, [point.geometry for point in problem.points])
        return HeldContacts(problem, surfaces, element.modes(u[self.discrete][at_z]))

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
        if self.held_loops.is_guided:
            guided = self.held_loops.guided_state(q, w)
            q, w = guided.q, (*guided.v, *w[self.model.nv :])
        q, v, x = self.split(q, w)
        here, driving, _ = self.acting(q, v, x, u, time, p, updated=True)
        prescribed = self.prescribed(time, p)

        def moved() -> tuple[Scalars, Scalars]:
            return accelerations(self, here, q, v, x, driving.force, prescribed, guided)

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
        _, needed, _ = hybrid_motion(self, here, position, v, x, force, prescribed)
        wanted = {i for joint in prescribed for i, _ in joint.accelerations}
        return tuple(needed[i] - force[i] if i in wanted else 0.0 for i in range(self.model.nv))

    @cached_property
    def prescribes(self) -> bool:
        """Whether joints follow given paths."""
        return any(element.prescribes for element in self.elements)

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
        q, w, residual = self.held_loops.project(q, w, time, hold)
        if self.is_exact:
            q, w = self._settle_contacts(q, w, time, u, p)
            # contacts move within what loops allow to first order
            q, w, residual = self.held_loops.project(q, w, time)
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
            compliance = compliance_of(plan, q, points, *self.held_loops.rows(plan, q, x))
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

    def _at_stages(self, plan: Plan, p: Scalars | None) -> Plan:
        """Return the layout with what elements add to armatures within a step."""
        every = self.of_all(p)
        for one in self.placed:
            added = one.element.stage_inertias(self.model, every[one.p])
            if added:
                plan = plan.with_added_armatures(added)
        return plan

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
        laws = self.find(JointLaws)
        for law in () if laws is None else laws.element.laws:
            for force in law.rows:
                name = force.removesuffix("_force")
                yield f"{name} of joint {law.joint!r}", bodies[law.joint]

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
