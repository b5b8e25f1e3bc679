"""What loop methods of runs have in common: the questions that they answer.

A method of its own is a class derived from `LoopMethod` that answers `motion`, and `project` where
steps end with a projection. It is passed as `simulate(loops=)`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import Array, NDArray
from tiburon.errors import ModelError, shown
from tiburon.loops.constraints import Constraints
from tiburon.loops.legs import PlatformOnLegs
from tiburon.model import Model
from tiburon.spatial import Scalar, Scalars


class Guided(NamedTuple):
    """What independent velocities determine in a state of a run with loops."""

    q: Scalars
    """Configuration [m or rad]; that of the state, or one with closed loops."""

    v: Scalars
    """Joint velocity [m/s or rad/s]."""

    gamma: Scalars = ()
    """Acceleration while independent velocities are constant; of `Embedding`."""

    T: tuple[Scalars, ...] = ()
    """Columns that span the permitted velocities; of `Embedding`."""


@public
class LoopMethod:
    """How loops are held in a run; for `simulate(loops=)` and functions like it.

    Arguments `loops` are those of the robot in the run: its `model`, `constraints`, `tree_motion`
    and `min_cut`. Scalars are floats or traced values.
    """

    __slots__ = ()

    projects: ClassVar[bool] = False
    """Whether each step ends with closed loops, by the smallest change in the metric of the mass
    matrix: what rigid contact, prescribed joints and laws of joints at the ends of steps need."""

    opens_by_design: ClassVar[bool] = False
    """Whether the forces that hold loops follow from how far these are open."""

    has_springs: ClassVar[bool] = False
    """Whether these forces are those of springs and dampers with `gains` and `roots`."""

    exchanges_states: ClassVar[bool] = False
    """Whether the legs of a robot in parts send their states once a step, where steps are equal."""

    implicit: bool = False
    """Whether equal steps that do not resolve the rates of springs and dampers take these at their
    end."""

    independent: tuple[str, ...] = ()
    """Names of the joints whose velocities are independent at the start; none to have them
    selected."""

    max_loss: ClassVar[float] = 0.0
    """Condition of independent velocities, relative to that at their selection, at which others
    are selected."""

    @property
    def redundancy_tolerance(self) -> float:
        """Relative singular value below which constraints are redundant; 0 for exactly those."""
        return 0.0

    @property
    def starts_closed(self) -> bool:
        """Whether loops must be closed at the start."""
        return False

    @property
    def is_guided(self) -> bool:
        """Whether all velocities follow from independent ones, which the run then selects."""
        return False

    def motion(
        self,
        loops: Any,
        here: Any,
        q: Any,
        v: Any,
        x: Scalars,
        force: Scalars,
        guided: Guided | None,
    ) -> tuple[Scalars, Scalars]:
        """Return joint accelerations and constraint forces in a state.

        Args:
            loops: The loops of the robot.
            here: What surrounds the robot in this state: plan, gravity, external forces.
            q: Configuration [m or rad].
            v: Joint velocity [m/s or rad/s].
            x: Continuous states of elements and controller.
            force: Joint force [N or N m].
            guided: What independent velocities determine; None unless `is_guided`.
        """
        raise ModelError(
            f"{type(self).__name__}: expected a motion of its own, got none; write "
            "def motion(self, loops, here, q, v, x, force, guided): ..., which returns "
            "accelerations and constraint forces"
        )

    def project(
        self, loops: Any, q: Scalars, w: Scalars, time: Scalar, hold: Sequence[int]
    ) -> tuple[Scalars, Scalars, Scalar]:
        """Return a state after a step, as it is unless the method moves it onto the loops.

        Args:
            loops: The loops of the robot.
            q: Configuration [m or rad].
            w: Joint velocity and continuous states.
            time: Time at the end of the step [s].
            hold: Velocity variables that are prescribed.

        Returns:
            Configuration, velocity with continuous states, and the loop-closure error [m or rad] by
            which the step fails if it is too large.
        """
        return q, w, 0.0

    def joint_forces(
        self, terms: Constraints, force: Sequence[Scalar]
    ) -> tuple[Sequence[Scalar], Sequence[Scalar]]:
        """Return joint forces with those of springs across loops, and the forces of these."""
        return force, ()

    def gains(self, count: int) -> list[tuple[float, float]]:
        """Return the stiffness and damping of each of some constraints; of `has_springs`."""
        raise ModelError(f"{type(self).__name__}: expected a method with springs, got one without")

    def roots(self, J: Array, L: Array) -> NDArray[np.complex128]:
        """Return the rates of springs and dampers [1/s]; of `has_springs`.

        Args:
            J: Jacobian of the constraints.
            L: Cholesky factor of the mass matrix of the tree.
        """
        raise ModelError(f"{type(self).__name__}: expected a method with springs, got one without")

    def legs(self, model: Model) -> PlatformOnLegs | None:
        """Return the platform whose legs `motion_of_legs` computes one by one, if it does.

        Raises:
            ModelError: If the robot is something else.
        """
        return None

    def motion_of_legs(
        self,
        loops: Any,
        here: Any,
        q: Any,
        v: Any,
        x: Scalars,
        force: Sequence[Scalar],
        exchange: Any,
    ) -> tuple[Scalars, Scalars]:
        """Return `motion` with messages between legs, which may be computed elsewhere.

        `exchange` passes messages on; None to compute all legs here. Others as of `motion`.
        """
        raise ModelError(f"{type(self).__name__}: expected a method by legs, got one without")

    def guided(self, loops: Any, q: Any, v: Any, x: Scalars) -> Guided:
        """Return what the independent velocities and positions of a state determine."""
        raise ModelError(
            f"{type(self).__name__}: expected a method with independent velocities, got one without"
        )

    def select(self, model: Model, A: Array, count: int) -> Array:
        """Return the rows W that select independent velocities W v, shape (count, nv).

        Args:
            model: The robot.
            A: Jacobian of the loops at a configuration, shape (constraints, nv).
            count: How many there are.
        """
        raise ModelError(
            f"{type(self).__name__}: expected a method with independent velocities, got one without"
        )

    def preferred(self, model: Model) -> tuple[int, ...]:
        """Return the velocities that are independent at the start of a run where they serve."""
        return ()

    def after_start(self) -> "LoopMethod":
        """Return the method that selects others later."""
        return self

    @property
    def decay_rate(self) -> tuple[float, str]:
        """Rate at which it lets residuals decay [1/s], and what users set it by; 0 for none."""
        return 0.0, ""

    def corrected(self, terms: Constraints) -> Constraints:
        """Return the constraints on accelerations whose solution lets residuals decay."""
        return terms


_EXAMPLES = {
    "projection": "tb.Projection()",
    "penalty": "tb.Penalty(1e5)",
    "baumgarte": "tb.Baumgarte(20.0, 20.0)",
    "embedding": "tb.Embedding()",
    "denoc": "tb.DeNOC()",
}


def checked_loops(loops: Any) -> LoopMethod:
    """Return a loop method.

    Raises:
        ModelError: If it is something else; the message has the object to write.
    """
    if isinstance(loops, LoopMethod):
        return loops
    named = loops.lower() if isinstance(loops, str) else ""
    if isinstance(loops, type) and issubclass(loops, LoopMethod):
        named = loops.__name__.lower()
    write = _EXAMPLES.get(named, "tb.Projection(), tb.Penalty(1e5) or tb.Baumgarte(20.0, 20.0)")
    one = "one loop method" if isinstance(loops, (list, tuple)) else "a loop method"
    raise ModelError(f"loops: expected {one}, got {shown(loops)}; write loops={write}")
