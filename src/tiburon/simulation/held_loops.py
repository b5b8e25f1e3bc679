"""The loops of a robot in a run: constraints, switches, independent velocities, projection.

The loop method of the run gets them as an argument, and returns how the robot moves.

Symbols are those of `tiburon.simulation.system`.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from tiburon.actuation.element import Element
from tiburon.actuation.loop_switch import LoopCoordinates
from tiburon.algorithms.setting import Setting, setting_in
from tiburon.algorithms.surroundings import surroundings
from tiburon.algorithms.tape_calls import JointVector
from tiburon.errors import ModelError
from tiburon.functions.dynamics import tree_motion
from tiburon.loops.complement import Complement
from tiburon.loops.constraints import (
    Constraints,
    Switches,
    constraints,
    loop_rows,
    switched,
    switches_of,
)
from tiburon.loops.loop_method import Guided, LoopMethod
from tiburon.loops.metric import MIN_CUT, rank_cut
from tiburon.loops.projection import MAX_RESIDUAL
from tiburon.model import Model, Plan, World
from tiburon.simulation.integrators.manifold import GuidedManifold, Manifold
from tiburon.simulation.layout import Placed
from tiburon.spatial import Scalar, Scalars


class CoordinatePlaces(NamedTuple):
    """Where the rows W of independent velocities are among the continuous states."""

    states: slice
    """Condition of W when it was selected, then W by rows."""

    rows: int
    """Number of rows."""


class HeldLoops:
    """The loops of a robot in a run, held by its loop method.

    Attributes:
        model: The robot.
        world: Its surroundings.
        method: How its loops are held.
    """

    def __init__(
        self,
        model: Model,
        world: World,
        method: LoopMethod,
        placed: Sequence[Placed[Element]],
        time_matters: bool,
    ) -> None:
        """Prepare for a run.

        Args:
            model: The robot.
            world: Its surroundings.
            method: How its loops are held.
            placed: The elements that act on it, with the places of their values.
            time_matters: Whether time moves a joint of the robot, or the water around it.
        """
        self.model = model
        self.world = world
        self.method = method
        self._placed = placed
        self._time_matters = time_matters

    # constraints

    @property
    def plan(self) -> Plan:
        """Layout of the robot in its surroundings."""
        return surroundings(self.model, self.world)[0]

    def plan_at(self, q: Scalars, v: Scalars, time: Scalar) -> Plan:
        """Return the layout of the robot in its surroundings in a state."""
        now = time if self._time_matters else None
        return setting_in(self.model, self.world, JointVector(q), JointVector(v), now).plan

    def constraints(self, here: Setting, q: JointVector, v: JointVector, x: Scalars) -> Constraints:
        """Return the constraints of all loops, zero where a switched loop is open."""
        return switched(constraints(self.model, here.plan, q, v), self.switches(x))

    def rows(self, plan: Plan, q: Scalars, x: Scalars) -> tuple[Any, ...]:
        """Return the Jacobian of closed loops and its rank cut; nothing for a tree."""
        if not self.model.loops:
            return ()
        held = switched(constraints(self.model, plan, JointVector(q)), self.switches(x))
        return held.jacobian, rank_cut(self.model, held.value, self.min_cut)

    def opening(self, plan: Plan, q: Scalars, v: Scalars, x: Scalars) -> Scalars:
        """Return the rates at which closed loops open [m/s or rad/s]."""
        moving = constraints(self.model, plan, JointVector(q), JointVector(v))
        return switched(moving, self.switches(x)).rate

    def gaps(self, q: Scalars, time: Scalar, x: Scalars | None = None) -> Scalars:
        """Return the residual of each loop constraint [m or rad].

        Continuous states x hold the offsets of switched loops; None leaves those out.
        """
        plan = self.plan_at(q, (0.0,) * self.model.nv, time)
        held = constraints(self.model, plan, JointVector(q))
        return switched(held, None if x is None else self.switches(x)).value

    @property
    def min_cut(self) -> float:
        """Relative length below which constraints are redundant on the manifold."""
        return max(MIN_CUT, self.method.redundancy_tolerance)

    @property
    def most_open(self) -> float:
        """Loop-closure error that a step may leave [m or rad]."""
        return max(MAX_RESIDUAL, self.method.redundancy_tolerance)

    # switches

    @cached_property
    def switch_places(self) -> dict[str, int]:
        """Place of the first state of each switched loop among the continuous states, by name."""
        every = ((one.element.switched_loop, one.x.start) for one in self._placed)
        return {loop: place for loop, place in every if loop}

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

    # motion

    @cached_property
    def is_soft(self) -> bool:
        """Whether an element exerts the constraint forces of the last step."""
        return any(one.element.holds_loops for one in self._placed)

    def tree_motion(self, here: Setting, q: JointVector, v: JointVector, force: Scalars) -> Scalars:
        """Return joint accelerations of the tree, without its loops."""
        return tree_motion(here, q, v, force)

    def motion(
        self,
        here: Setting,
        q: JointVector,
        v: JointVector,
        x: Scalars,
        force: Scalars,
        guided: Guided | None,
    ) -> tuple[Scalars, Scalars]:
        """Return joint accelerations and constraint forces; see `LoopMethod.motion`."""
        return self.method.motion(self, here, q, v, x, force, guided)

    def project(
        self, q: Scalars, w: Scalars, time: Scalar, hold: Sequence[int] = ()
    ) -> tuple[Scalars, Scalars, Scalar]:
        """Project a state onto the loop constraints, with some velocity variables held.

        Returns:
            Configuration, velocity with continuous states, and the loop-closure error [m or rad].
        """
        if not self.model.loops:
            return q, w, 0.0
        q, w, left = self.method.project(self, q, w, time, hold)
        return tuple(q), tuple(w), left

    # independent velocities

    @property
    def is_guided(self) -> bool:
        """Whether velocities follow from independent ones."""
        return self.method.is_guided

    @cached_property
    def coordinates(self) -> CoordinatePlaces | None:
        """Places of the rows W of independent velocities; None without."""
        if not self.is_guided:
            return None
        for one in self._placed:
            if isinstance(one.element, LoopCoordinates):
                return CoordinatePlaces(one.x, one.element.count)
        raise ModelError(
            f"loops: {type(self.method).__name__} needs the element LoopCoordinates "
            "among the elements of the system, got none; simulate adds it"
        )

    def coordinate_rows(self, x: Scalars) -> list[list[Scalar]]:
        """Return the rows W of independent velocities among the continuous states."""
        assert self.coordinates is not None
        _, *entries = x[self.coordinates.states]
        nv = self.model.nv
        return [entries[k : k + nv] for k in range(0, len(entries), nv)]

    def coordinates_condition(self, q: Scalars, x: Scalars) -> tuple[Scalar, Scalar]:
        """Return the condition of W when it was selected, and that at a configuration."""
        assert self.coordinates is not None
        terms = constraints(self.model, self.plan, JointVector(q))
        basis = Complement(self.model, terms, self.coordinate_rows(x))
        return x[self.coordinates.states.start], basis.coordinate_condition()

    def guided_state(self, q: Scalars, w: Scalars) -> Guided:
        """Return what the independent velocities and positions of a state determine.

        Args:
            q: Configuration [m or rad], nq scalars.
            w: Joint velocity, of which independent ones count, and continuous states.
        """
        nv = self.model.nv
        return self.method.guided(self, JointVector(q), JointVector(w[:nv]), w[nv:])

    def manifold(self) -> Manifold:
        """Return the positions of the robot, and how a state moves them."""
        if not self.is_guided:
            return Manifold(self.model)
        return GuidedManifold(self.model, self.guided_state)
