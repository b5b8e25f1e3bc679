"""Least joint forces."""

from tiburon.load_sharing.objectives.objective import Objective, Square
from tiburon.load_sharing.problem import Before, Problem
from tiburon.record import record
from tiburon.spatial import Scalars


@record
class TorqueNorm(Objective):
    """Least sum of the squares of the driven joint forces (6.26)-(6.28).

    Example:
        ``tb.InternalForce() + 0.1 * tb.TorqueNorm()``
    """

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the square of each driven joint force."""
        return [Square(1.0, *problem.torque(i)) for i in problem.layout.driven]
