"""Least joint forces."""

from typing import Any

from tiburon.arguments import public
from tiburon.load_sharing.named import TORQUES
from tiburon.load_sharing.objectives.objective import Square, Weighted
from tiburon.load_sharing.problem import Before, Problem
from tiburon.record import record
from tiburon.spatial import Scalars


@public
@record
class TorqueNorm(Weighted):
    """Least sum of the squares of the driven joint forces (6.26)-(6.28).

    Example:
        ``tb.InternalForce() + 0.1 * tb.TorqueNorm({"front_left_knee": 5.0})``
    """

    weights: Any = ()
    """Weights of squares, by name of a driven joint; 1 for others."""

    weighs = TORQUES

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the square of each driven joint force."""
        joints = zip(self.spread(problem, p), problem.layout.driven, strict=True)
        return [Square(weight, *problem.torque(i)) for weight, i in joints]
