"""Forces or joint forces near those of the step before."""

from typing import Any

from tiburon.arguments import public
from tiburon.load_sharing.named import TORQUES
from tiburon.load_sharing.objectives.objective import Square, Weighted
from tiburon.load_sharing.problem import Before, Problem
from tiburon.record import record
from tiburon.spatial import Scalars


@public
@record
class Smoothness(Weighted):
    """Forces near those of the step before (6.60)."""

    weights: Any = ()
    """Weights of changes, by name of a contact, loop or force; 1 for others."""

    is_definite = True

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of the changes."""
        # unknowns behind these are changes of the motion
        changes = zip(self.spread(problem, p), before.x, strict=False)
        return [Square(weight, {k: 1.0}, -last) for k, (weight, last) in enumerate(changes)]


@record
class FadingSmoothness(Smoothness):
    """The same with a weight that falls to zero at run time: other objectives decide then."""

    is_definite = False


@public
@record
class TorqueSmoothness(Weighted):
    """Driven joint forces near those of the step before (6.62)."""

    weights: Any = ()
    """Weights of changes, by name of a driven joint; 1 for others."""

    weighs = TORQUES

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of the changes."""
        found = []
        changes = zip(problem.layout.driven, self.spread(problem, p), before.tau, strict=True)
        for index, weight, last in changes:
            row, offset = problem.torque(index)
            found.append(Square(weight, row, offset - last))
        return found
