"""Elements: what acts on a robot beside gravity, water and the forces a caller gives.

An element may drive joints, push on frames, have inner states of its own that move with the robot
(the current of a winding, the pressure of a cylinder), take commands, and report what it does. All
of its numbers are scalars, floats or traced, so that the same element runs in a debugger and inside
a native loop. A new kind of element is a new file beside this one.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tiburon.algorithms.kinematics import WORLD_PLACE, Moving, Place, body_motions, body_places
from tiburon.algorithms.setting import Setting
from tiburon.arguments import public
from tiburon.model import Model, Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.record import record
from tiburon.spatial import Motion, Scalar, Vec3
from tiburon.trace.declared import is_declared
from tiburon.trace.primitives.table_rows import Table

__all__ = ["Action", "Element", "ElementContext", "StateKinematics", "structure_of"]

Scalars = Sequence[Scalar]


class StateKinematics:
    """Poses and velocities of the bodies of a robot in one state, computed on first use.

    All elements of a robot share one, so that each pose is computed once.
    """

    def __init__(self, around: Setting, q: Scalars, v: Scalars) -> None:
        """Remember a state.

        Args:
            around: The robot under its surroundings, in this state.
            q: Position [m or rad], nq scalars.
            v: Joint velocity [m/s or rad/s], nv scalars.
        """
        self.around = around
        self.q = q
        self.v = v

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Place of each plan body in the world."""
        return body_places(self.around.plan, self.q)

    @cached_property
    def motions(self) -> tuple[Moving, ...]:
        """Motion of each plan body, its own axes at its own origin, as if v were constant."""
        return body_motions(self.around.plan, self.q, self.v, None)

    def frame_pose(self, name: str) -> Place:
        """Return where a body or frame is: axes `R` and origin `p` in the world [m]."""
        frame = self.around.plan.frame(name)
        carrier = WORLD_PLACE if frame.body == WORLD_BODY else self.places[frame.body]
        return carrier.moved(frame.transform)

    def frame_velocity(self, name: str) -> Motion:
        """Return how a body or frame moves, [omega; v] in its own axes at its origin."""
        frame = self.around.plan.frame(name)
        if frame.body == WORLD_BODY:
            return Motion.zero()
        return frame.transform.motion(self.motions[frame.body].vel)


class ElementContext:
    """What one element meets in one state: the robot, and its own states, commands and numbers."""

    __slots__ = ("p", "sight", "tables", "time", "u", "x")

    @public
    def __init__(
        self,
        sight: StateKinematics,
        time: Scalar,
        x: Scalars,
        u: Scalars,
        p: Scalars,
        tables: Scalars = (),
    ) -> None:
        """Put together what an element meets.

        Args:
            sight: The robot in this state.
            time: When [s].
            x: Inner states of the element, as `Element.state_names` lists them.
            u: Commands of the element, as `Element.command_names` lists them.
            p: Run-time numbers of the element, as `Element.parameters` lists them.
            tables: Handles of its tables, as `Element.tables` lists them, one after the other.
        """
        self.sight = sight
        self.time = time
        self.x = x
        self.u = u
        self.p = p
        self.tables = tables

    @property
    def model(self) -> Model:
        """The robot as its user built it."""
        return self.sight.around.model

    @property
    def plan(self) -> Plan:
        """Layout of the robot with its numbers in this state."""
        return self.sight.around.plan

    @property
    def around(self) -> Setting:
        """What the robot is in: gravity, water, forces."""
        return self.sight.around

    @property
    def gravity(self) -> Vec3:
        """Acceleration of free fall, world axes [m/s^2]."""
        return self.sight.around.gravity

    @property
    def q(self) -> Scalars:
        """Position [m or rad], nq scalars."""
        return self.sight.q

    @property
    def v(self) -> Scalars:
        """Joint velocity [m/s or rad/s], nv scalars."""
        return self.sight.v

    def joint_position(self, joint: str) -> Scalars:
        """Return the position variables of a joint [m or rad]."""
        return self.sight.q[self.model.slice(joint, of="q")]

    def joint_velocity(self, joint: str) -> Scalars:
        """Return the velocity variables of a joint [m/s or rad/s]."""
        return self.sight.v[self.model.slice(joint, of="v")]

    def frame_pose(self, name: str) -> Place:
        """Return where a body or frame is: axes `R` and origin `p` in the world [m]."""
        return self.sight.frame_pose(name)

    def frame_velocity(self, name: str) -> Motion:
        """Return how a body or frame moves, [omega; v] in its own axes at its origin."""
        return self.sight.frame_velocity(name)


@record(eq=False)
class Action:
    """What an element does in one state."""

    joint_force: Mapping[str, Scalars] | Scalars | None = None
    """Forces at joints [N or N m]: one scalar per freedom by joint name, or nv scalars; or none."""

    wrenches: Mapping[str, Scalars] | None = None
    """Forces on bodies or frames, by name: [n; f] at the frame's origin, its own axes [N m, N]."""

    rates: Scalars = ()
    """Time derivatives of the element's own states, as `Element.state_names` lists them."""

    outputs: Mapping[str, Scalar] | None = None
    """What can be recorded of it, by name; names are those of `Element.output_names`."""


class Element:
    """Something that acts on a robot; subclasses are records, compared by value.

    What is not overridden says: no states, no commands, no run-time parameters, no outputs.
    """

    __slots__ = ()

    name: str
    """Unique among the elements of a run."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of its continuous inner states, unique among all elements."""
        return ()

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return its inner states at the start of a run: zeros by default."""
        return (0.0,) * len(self.state_names(model))

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of the commands it takes, unique among all elements."""
        return ()

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of what it can report."""
        return ()

    def parameters(self) -> tuple[float, ...]:
        """Return its run-time parameters; changing them does not recompile."""
        return ()

    def tables(self) -> tuple[Table, ...]:
        """Return data beside the code, too long to be run-time parameters; `read_rows` reads it."""
        return ()

    def structure(self) -> Hashable:
        """Return what the code depends on, as data.

        By default everything: the element itself. One that lists its numbers in `parameters`
        or `tables` leaves them out here; of tables their form remains. Elements that users write
        are not asked: their graph tells.
        """
        return self

    def act(self, now: ElementContext) -> Action:
        """Return what it does in a state; on floats or traced values."""
        raise TypeError(f"{type(self).__name__} does not say how it acts: define act(now)")

    def check(self, model: Model) -> None:
        """Raise an error if it does not fit a robot: an unknown joint, a wrong number of values."""


def structure_of(elements: Sequence[Element]) -> tuple[Any, ...]:
    """Return what code depends on of several elements: kinds, names and structures.

    Of those that run user code it holds only the name; their graph determines the rest.
    """
    return tuple(
        (type(e).__qualname__, e.name, e.structure()) if is_declared(e) else ("user", e.name)
        for e in elements
    )
