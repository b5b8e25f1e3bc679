"""Base of all objectives, and their weighted sums.

An objective is a sum of squares over the unknown forces x and over what is linear in them, such as
joint forces; it returns those squares as rows. Objectives add, and are weighted by factors:
``InternalForce() + 0.1 * MotorLoss()``.
"""

from dataclasses import replace
from typing import Any, NamedTuple, Self

from tiburon.argument_checks import positive
from tiburon.contact.rows import ContactRow
from tiburon.errors import ModelError, shown
from tiburon.load_sharing.problem import Before, Layout, Problem
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars


class Square(NamedTuple):
    """A term weight / 2 (row . x + offset)^2."""

    weight: Scalar
    row: ContactRow
    offset: Scalar


class Objective:
    """What to minimize; subclasses are records, compared by value."""

    __slots__ = ()

    is_definite = False
    """Whether it alone determines all forces."""

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return its run-time parameters; changing them compiles nothing."""
        return ()

    def form(self) -> Self:
        """Return the same objective with neutral run-time parameters: what code depends on."""
        return self

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return its terms.

        Args:
            problem: The problem in one state.
            p: Run-time parameters, as `parameters` lists them.
            before: Forces of the step before.
        """
        raise TypeError(f"{type(self).__name__} does not define its squares")

    def check(self, model: Model, layout: Layout) -> None:
        """Raise an error if the robot lacks data that the objective needs."""

    def __add__(self, other: object) -> "Sum":
        return Sum((*_parts(self), *_parts(other)))

    def __mul__(self, factor: Any) -> "Sum":
        weight = positive("weight of an objective", factor)
        return Sum(tuple((weight * w, part) for w, part in _parts(self)))

    __rmul__ = __mul__


def _parts(objective: object) -> "tuple[tuple[float, Objective], ...]":
    if isinstance(objective, Sum):
        return objective.parts
    if isinstance(objective, Objective):
        return ((1.0, objective),)
    raise ModelError(
        f"objective: expected objectives such as InternalForce(), got {shown(objective)}; write "
        "InternalForce() + 0.1 * TorqueNorm()"
    )


@record
class Sum(Objective):
    """A weighted sum of objectives."""

    parts: tuple[tuple[float, Objective], ...]
    """Weights and objectives."""

    @property
    def is_definite(self) -> bool:  # type: ignore[override]
        """Whether some part determines all forces."""
        return any(part.is_definite for _, part in self.parts)

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return weights and parameters of all parts."""
        return tuple(x for w, part in self.parts for x in (w, *part.parameters(model)))

    def form(self) -> Self:
        """Return the forms of all parts, with unit weights."""
        return replace(self, parts=tuple((1.0, part.form()) for _, part in self.parts))

    def check(self, model: Model, layout: Layout) -> None:
        """Check all parts."""
        for _, part in self.parts:
            part.check(model, layout)

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the weighted terms of all parts."""
        found: list[Square] = []
        given = list(p)
        for _, part in self.parts:
            weight = given.pop(0)
            count = len(part.parameters(problem.model))
            own, given = given[:count], given[count:]
            for square in part.squares(problem, own, before):
                found.append(square._replace(weight=weight * square.weight))
        return found
