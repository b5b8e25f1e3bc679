"""Forces or joint forces near those of the step before."""

from tiburon.load_sharing.objectives.objective import Objective, Square
from tiburon.load_sharing.problem import Before, Problem
from tiburon.record import record
from tiburon.spatial import Scalars


@record
class Smoothness(Objective):
    """Forces near those of the step before (6.60)."""

    is_definite = True

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of the changes."""
        return [Square(1.0, {k: 1.0}, -last) for k, last in enumerate(before.x)]


@record
class FadingSmoothness(Smoothness):
    """The same with a weight that falls to zero at run time: other objectives decide then."""

    is_definite = False


@record
class TorqueSmoothness(Objective):
    """Driven joint forces near those of the step before (6.62)."""

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of the changes."""
        found = []
        for index, last in zip(problem.layout.driven, before.tau, strict=True):
            row, offset = problem.torque(index)
            found.append(Square(1.0, row, offset - last))
        return found
