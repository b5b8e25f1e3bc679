"""Force elements: actuators, springs, friction, stops and user-defined forces.

An element applies joint forces and wrenches on frames. It may have continuous states (winding
current, cylinder pressure), commands, run-time parameters and outputs. All values are scalars,
floats or traced, so that the same element runs in a debugger and inside a native loop. A new kind
of element is a new file beside this one.

A coupled joint has no variables of its own: its position is ratio * q_leader + offset, and a force
on it acts on the leader, multiplied by the ratio (virtual work).
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar

from tiburon.actuation.piecewise import Prescribed
from tiburon.algorithms.kinematics import WORLD_PLACE, Moving, Place, body_motions, body_places
from tiburon.algorithms.setting import Setting, forces_on_bodies
from tiburon.arguments import public
from tiburon.errors import ModelError, ShapeError
from tiburon.model import Coupled, Joint, Model, Plan
from tiburon.model.joints.joint import PerDof
from tiburon.model.plan import WORLD_BODY
from tiburon.record import record
from tiburon.spatial import Motion, Scalar, Scalars, Vec3
from tiburon.trace.declared import is_declared
from tiburon.trace.primitives.table_rows import Table

if TYPE_CHECKING:
    from tiburon.contact.mode_forces import HeldContacts


class StateKinematics:
    """Poses and velocities of the bodies in one state, computed once and shared by all elements."""

    def __init__(self, around: Setting, q: Scalars, v: Scalars) -> None:
        """Store a state: its setting, q [m or rad] and v [m/s or rad/s]."""
        self.around = around
        self.q = q
        self.v = v

    @property
    def model(self) -> Model:
        """The robot as its user built it."""
        return self.around.model

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Pose of each plan body in the world."""
        return body_places(self.around.plan, self.q)

    @cached_property
    def motions(self) -> tuple[Moving, ...]:
        """Velocity and acceleration at vd = 0 of each plan body, body axes at the body origin."""
        return body_motions(self.around.plan, self.q, self.v, None)

    def frame_pose(self, name: str) -> Place:
        """Return the pose of a body or frame: axes `R` and origin `p` in the world [m]."""
        frame = self.around.plan.frame(name)
        carrier = WORLD_PLACE if frame.body == WORLD_BODY else self.places[frame.body]
        return carrier.moved(frame.transform)

    def frame_velocity(self, name: str) -> Motion:
        """Return the velocity [omega; v] of a body or frame, in its own axes at its origin."""
        frame = self.around.plan.frame(name)
        if frame.body == WORLD_BODY:
            return Motion.zero()
        return frame.transform.motion(self.motions[frame.body].vel)


@public
class ElementContext:
    """Arguments of an element in one state: the robot, its own states, commands and parameters."""

    __slots__ = ("kinematics", "p", "tables", "time", "u", "updated", "x", "z")

    @public
    def __init__(
        self,
        kinematics: StateKinematics,
        time: Scalar,
        x: Scalars,
        u: Scalars,
        p: Scalars,
        tables: Scalars = (),
        z: Scalars = (),
        updated: bool = False,
    ) -> None:
        """Store the arguments of an element.

        Args:
            kinematics: Kinematics of the robot in this state.
            time: Time [s].
            x: States of the element, in the order of `Element.state_names`.
            u: Commands of the element, in the order of `Element.command_names`.
            p: Run-time parameters of the element, in the order of `Element.parameters`.
            tables: Handles of its tables, in the order of `Element.tables`.
            z: Discrete states, in the order of `Element.discrete_state_names`.
            updated: Whether they were last updated in this very state: a step begins.
        """
        self.kinematics = kinematics
        self.time = time
        self.x = x
        self.u = u
        self.p = p
        self.tables = tables
        self.z = z
        self.updated = updated

    @property
    def model(self) -> Model:
        """The robot as its user built it."""
        return self.kinematics.model

    @property
    def plan(self) -> Plan:
        """Layout of the robot, with its parameters in this state."""
        return self.kinematics.around.plan

    @property
    def around(self) -> Setting:
        """Gravity, water and external forces in this state."""
        return self.kinematics.around

    @property
    def gravity(self) -> Vec3:
        """Gravitational acceleration, world axes [m/s^2]."""
        return self.kinematics.around.gravity

    @property
    def q(self) -> Scalars:
        """Configuration [m or rad], nq scalars."""
        return self.kinematics.q

    @property
    def v(self) -> Scalars:
        """Joint velocity [m/s or rad/s], nv scalars."""
        return self.kinematics.v

    def joint_position(self, joint: str) -> Scalars:
        """Return the position variables of a joint [m or rad]."""
        return self.kinematics.q[self.model.slice(joint, of="q")]

    def joint_velocity(self, joint: str) -> Scalars:
        """Return the velocity variables of a joint [m/s or rad/s]."""
        return self.kinematics.v[self.model.slice(joint, of="v")]

    def frame_pose(self, name: str) -> Place:
        """Return the pose of a body or frame: axes `R` and origin `p` in the world [m]."""
        return self.kinematics.frame_pose(name)

    def frame_velocity(self, name: str) -> Motion:
        """Return the velocity [omega; v] of a body or frame, in its own axes at its origin."""
        return self.kinematics.frame_velocity(name)


@record(eq=False)
class Action:
    """Result of an element in one state."""

    joint_force: Mapping[str, Scalars] | Scalars | None = None
    """Joint forces [N or N m]: one scalar per DoF by joint name, or nv scalars; or None."""

    wrenches: Mapping[str, Scalars] | None = None
    """Wrenches on bodies or frames, by name: [n; f] at the frame's origin, frame axes [N m, N]."""

    rates: Scalars = ()
    """Time derivatives of the element's states, in the order of `Element.state_names`."""

    outputs: Mapping[str, Scalar] | None = None
    """Outputs that can be recorded, by the names of `Element.output_names`."""


@public
class Element:
    """A force element of a robot; subclasses are records, compared by value.

    By default it has no states, commands, run-time parameters or outputs.
    """

    __slots__ = ()

    name: str
    """Unique among the elements of a run."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its continuous states, unique among all elements."""
        return ()

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return its initial states: zeros by default."""
        return (0.0,) * len(self.state_names(model))

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its discrete states, unique among all elements.

        They are constant within a step and updated at its end, as the anchor of a contact point or
        a sampled filter is. Only runs of equal steps with one-step methods update them.
        """
        return ()

    def initial_discrete_state(self, model: Model) -> tuple[float, ...]:
        """Return its initial discrete states: zeros by default."""
        return (0.0,) * len(self.discrete_state_names(model))

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its commands, unique among all elements."""
        return ()

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its outputs."""
        return ()

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters; changing them does not recompile."""
        return ()

    def tables(self) -> tuple[Table, ...]:
        """Return tables too long for run-time parameters, kept beside the code; see `read_rows`."""
        return ()

    def structure(self) -> Hashable:
        """Return the data that compiled code depends on: by default the whole element.

        Values in `parameters` and `tables` are left out; the form of tables remains. Not called for
        user-defined elements, which are keyed by their traced graph.
        """
        return self

    # what it does in a run beside exerting forces

    starts_steps: ClassVar[bool] = False
    """Whether a step begins with its forces of the last one."""

    ends_steps: ClassVar[bool] = False
    """Whether impulses act at the end of each step, as those of rigid contact do."""

    is_event_driven: ClassVar[bool] = False
    """Whether it constrains accelerations in modes that events change, as exact contact does; see
    `held_contacts`."""

    is_located: ClassVar[bool] = False
    """Whether what it touches is located outside of compiled code."""

    states_last: ClassVar[bool] = False
    """Whether its discrete states follow those of all other elements, first of all contacts."""

    stops_joints: ClassVar[bool] = False
    """Whether it stops joints at their limits."""

    holds_loops: ClassVar[bool] = False
    """Whether it exerts the constraint forces of loops."""

    switched_loop: ClassVar[str] = ""
    """Name of the loop that its states open and close: 1 or 0, then the set points."""

    @property
    def prescribes(self) -> bool:
        """Whether joints follow paths; see `prescribed`."""
        return type(self).prescribed is not Element.prescribed

    def prescribed(
        self, model: Model, time: Scalar, p: Scalars, tables: Scalars
    ) -> tuple[Prescribed, ...]:
        """Return the joints that follow paths at a time [s].

        Args:
            model: The robot.
            time: Time [s].
            p: Its run-time parameters.
            tables: Handles of its tables.
        """
        return ()

    def stage_inertias(self, model: Model, p: Scalars) -> Mapping[int, Scalar]:
        """Return what it adds to armatures at the stages of a step, by velocity [kg or kg m^2].

        Laws of joints do whose end of step corrects it; accelerations that are recorded are those
        without.

        Args:
            model: The robot.
            p: Its run-time parameters.
        """
        return {}

    def carried_forces(self, z: Scalars) -> Scalars | None:
        """Return joint forces that it had in the last step and that act in this one.

        Those of joints that turn are in world axes, nv scalars; None for none beside `act`.

        Args:
            z: Its discrete states.
        """
        return None

    def held_contacts(
        self,
        plan: Plan,
        q: Scalars,
        v: Scalars,
        vd: Scalars,
        z: Scalars,
        p: Scalars,
        loops: tuple[Any, ...],
    ) -> "HeldContacts":
        """Return the contacts that constrain accelerations, if it is event-driven.

        Args:
            plan: Layout of the robot in this state.
            q: Configuration [m or rad].
            v: Joint velocity [m/s or rad/s].
            vd: Joint acceleration without it [m/s^2 or rad/s^2].
            z: Its discrete states.
            p: Its run-time parameters, then the handles of its tables.
            loops: Jacobian of closed loops and its rank cut; empty for a tree.
        """
        raise TypeError(f"{type(self).__name__} does not define its contacts: define held_contacts")

    def act(self, now: ElementContext) -> Action:
        """Compute forces, state derivatives and outputs in a state; on floats or traced values."""
        raise TypeError(f"{type(self).__name__} does not define its forces: define act(now)")

    def update_discrete_state(self, now: ElementContext) -> Scalars:
        """Return its discrete states after a step, from the state at the end of the step.

        `now.z` holds their values during the step, `now.u` the commands.
        """
        raise TypeError(f"{type(self).__name__} does not define update_discrete_state(now)")

    def check(self, model: Model) -> None:
        """Raise an error if the robot lacks a joint or frame, or a number of values is wrong."""


class AppliedForces:
    """The sum of what all elements exert in one state, and their rates."""

    __slots__ = ("force", "outputs", "rates", "wrenches")

    def __init__(self, force: Scalars) -> None:
        self.force = list(force)
        """Joint force [N or N m], nv scalars."""
        self.wrenches: list[tuple[str, Scalars]] = []
        """Frames and the wrenches on them, frame axes [N m, N]."""
        self.rates: list[Scalar] = []
        """Rates of the continuous states of elements."""
        self.outputs: dict[str, Scalar] = {}
        """Reported outputs by name."""

    def added_to(self, here: Setting, q: Scalars) -> Setting:
        """Return the surroundings in a state with the wrenches among the external forces."""
        acting = forces_on_bodies(here.plan, q, summed_wrenches(self.wrenches), "frame")
        if acting is None:
            return here
        known = here.external
        return here._replace(external=acting if known is None else tuple(map(add, known, acting)))

    def take(self, model: Model, element: Element, action: Action, states: int) -> None:
        """Add the action of one element."""
        force = action.joint_force
        if isinstance(force, Mapping):
            for joint, values in force.items():
                where = model.slice(joint, of="v")
                count = where.stop - where.start
                check_count(element, f"forces at joint {joint!r}", count, values)
                for place, value in zip(range(where.start, where.stop), values, strict=True):
                    self.force[place] = self.force[place] + value
        elif force is not None:
            check_count(element, "joint forces", model.nv, force)
            self.force = list(map(add, self.force, force))
        for frame, wrench in (action.wrenches or {}).items():
            check_count(element, f"wrench on {frame!r}", 6, wrench)
            self.wrenches.append((frame, wrench))
        check_count(element, "rates", states, action.rates)
        self.rates += action.rates
        self.outputs.update(action.outputs or {})


def check_count(element: Element, what: str, expected: int, values: Scalars) -> None:
    """Raise an error if an element returns another number of values than expected."""
    if len(values) != expected:
        given = len(values)
        raise ShapeError(f"element {element.name!r}: {what}", f"{expected} numbers", f"{given}")


def summed_wrenches(wrenches: Sequence[tuple[str, Scalars]]) -> dict[str, Scalars]:
    """Return one wrench per frame."""
    found: dict[str, Scalars] = {}
    for frame, wrench in wrenches:
        known = found.get(frame)
        found[frame] = wrench if known is None else tuple(map(add, known, wrench))
    return found


def structure_of(elements: Sequence[Element]) -> tuple[Any, ...]:
    """Return what compiled code depends on: types, names and structures of the elements.

    Elements with user code contribute their names only; their graph determines the rest.
    """
    return tuple(
        (type(e).__qualname__, e.name, e.structure()) if is_declared(e) else ("user", e.name)
        for e in elements
    )


def per_degree_of_freedom(value: PerDof, joint: Joint) -> tuple[float, ...]:
    """Expand one value for all degrees of freedom to one value each."""
    return value if isinstance(value, tuple) else (value,) * joint.dof


def joint_positions(now: ElementContext, joint: Joint) -> Scalars:
    """Return the position variables of a joint [m or rad]; a coupled joint has one."""
    q = now.joint_position(joint.name)
    if isinstance(joint, Coupled):
        return (joint.ratio * q[0] + joint.offset,)
    return q


def joint_velocities(now: ElementContext, joint: Joint) -> Scalars:
    """Return the velocity of each degree of freedom of a joint [m/s or rad/s]."""
    v = now.joint_velocity(joint.name)
    return (joint.ratio * v[0],) if isinstance(joint, Coupled) else v


def joint_force(joint: Joint, force: Scalars) -> dict[str, Scalars]:
    """Return a joint force [N or N m] by the name of the joint whose variables it acts on."""
    if isinstance(joint, Coupled):
        return {joint.leader: (joint.ratio * force[0],)}
    return {joint.name: tuple(force)}


def rotation_vector(joint: Joint, q: Scalars) -> Scalars:
    """Return the rotation vector of a joint whose position has a quaternion [rad]."""
    return joint.difference(joint.neutral(), q)[:3]


def spread_forces(model: Model, forces: Sequence[Mapping[str, Scalars]]) -> tuple[Scalar, ...]:
    """Sum joint forces [N or N m], given by joint name, into nv scalars."""
    total: list[Scalar] = [0.0] * model.nv
    for named in forces:
        for name, force in named.items():
            begin = model.slice(name, of="v").start
            for k, f in enumerate(force):
                total[begin + k] = total[begin + k] + f
    return tuple(total)


def require_single_dof(model: Model, joint: str, element: str) -> None:
    """Raise an error unless a model has a joint of this name with one degree of freedom."""
    found = model.joint(joint)
    if found.dof != 1:
        raise ModelError(
            f"{element}: expected a joint with one degree of freedom, got the {found.kind} joint "
            f"{joint!r} with {found.dof}; name a revolute, prismatic or screw joint",
            name=joint,
        )
