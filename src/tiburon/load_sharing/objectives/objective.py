"""Base of all objectives, and their weighted sums.

An objective is a sum of squares over the unknown forces x and over what is linear in them, such as
joint forces; it returns those squares as rows. Objectives add, and are weighted by factors:
``InternalForce() + 0.1 * MotorLoss()``. Single forces have weights by name:
``TorqueNorm({"front_left_knee": 5.0})``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.contact.rows import ContactRow
from tiburon.errors import ModelError, shown
from tiburon.load_sharing.named import (
    FORCES,
    check_names,
    count_of,
    named_values,
    places_of,
    spread,
)
from tiburon.load_sharing.problem import Before, Layout, Problem
from tiburon.model import Model
from tiburon.model.value_checks import finite_array
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.declared import is_declared

if TYPE_CHECKING:
    from tiburon.load_sharing.limits.limit import Limit


class Square(NamedTuple):
    """A term weight / 2 (row . x + offset)^2 of an objective, in floats or traced values."""

    weight: Scalar
    """At least 0."""

    row: ContactRow
    """Coefficients by place of an unknown force in x."""

    offset: Scalar = 0.0


@public
class Objective:
    """What to minimize: a sum of squares over the unknown forces and what is linear in them.

    Those of this package are records, compared by value. A class of your own defines `squares`; it
    is traced once per plan, and its graph is the key of compiled code.

    Example:
        Two feet that carry the same::

            class Even(tb.Objective):
                def squares(self, problem, p, before):
                    left, right = (group.normal for group in problem.layout.groups[:2])
                    return [tb.Square(10.0, {left: 1.0, right: -1.0})]
    """

    __slots__ = ()

    is_definite = False
    """Whether it alone determines all forces."""

    @property
    def auxiliary(self) -> tuple[str, ...]:
        """Names of unknowns that it adds to the forces; `Problem.place` finds them."""
        return ()

    def limits(self) -> "tuple[Limit, ...]":
        """Return limits that belong to it: those of the unknowns that it adds."""
        return ()

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


@public
class Weighted(Objective):
    """Squares of single forces or joint forces, with a weight each: 1 where no name says another.

    Subclasses are records with a field `weights`, values by name.
    """

    __slots__ = ()

    weights: Any
    """Weights by name."""

    weighs: ClassVar[str] = FORCES
    """What is squared: unknown "forces", or driven "torques"."""

    def __post_init__(self) -> None:
        # what determines forces may leave none without weight
        name = f"{type(self).__name__}: weight"
        given = named_values(name, self.weights, positive=self.is_definite)
        object.__setattr__(self, "weights", given)

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse names that stand for nothing."""
        kind = "contact, loop or force" if self.weighs == FORCES else "driven joint"
        places = places_of(self.weighs, model, layout)
        check_names([name for name, _ in self.weights], places, kind, type(self).__name__)

    def form(self) -> Self:
        """Return unit weights for the same names."""
        return replace(self, weights=tuple((name, 1.0) for name, _ in self.weights))  # type: ignore[type-var]

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return the weights."""
        return tuple(x for _, x in self.weights)

    def spread(self, problem: Problem, p: Scalars) -> list[Scalar]:
        """Return the weight of each force or driven joint force.

        Args:
            problem: The problem in one state.
            p: Weights in the order of their names.
        """
        places = places_of(self.weighs, problem.model, problem.layout)
        size = count_of(self.weighs, problem.layout)
        given = [(name, x) for (name, _), x in zip(self.weights, p, strict=True)]
        return spread(given, places, size, 1.0)


def squares_of(objective: Objective, problem: Problem, p: Scalars, before: Before) -> list[Square]:
    """Return the terms of an objective, or raise if they do not fit the problem.

    Forces of open contacts are zero in all terms: rows of user-defined objectives may couple them
    with others.

    Args:
        objective: What to minimize, of this package or of the user.
        problem: The problem in one state.
        p: Run-time parameters, as `parameters` lists them.
        before: Forces of the step before.
    """
    name, found = type(objective).__name__, objective.squares(problem, p, before)
    given: Any = found
    if not isinstance(given, (list, tuple)) or not all(isinstance(x, Square) for x in given):
        raise ModelError(f"{name}.squares: expected a list of Square(...), got {shown(given)}")
    for square in found:
        row: Any = square.row
        if not isinstance(row, Mapping) or any(k not in range(problem.size) for k in row):
            raise ModelError(
                f"{name}.squares: expected rows by place of an unknown from 0 to "
                f"{problem.size - 1}, got {shown(row)}; write {{group.normal: 1.0}}"
            )
    if is_declared(objective):
        return list(found)
    active = {
        place: on
        for group, on in zip(problem.layout.groups, problem.touching, strict=True)
        for place in group.places
    }
    return [
        square._replace(row={k: active.get(k, 1.0) * x for k, x in square.row.items()})
        for square in found
    ]


def parts_of(objective: Objective) -> list[Objective]:
    """Return the parts of a sum, or an objective itself."""
    return [part for _, part in _parts(objective)]


def parameters_of(objective: Objective, model: Model) -> tuple[float, ...]:
    """Return the run-time parameters of an objective, or raise if they are not finite numbers."""
    given: Any = objective.parameters(model)
    name = type(objective).__name__
    return tuple(finite_array(given, np.shape(given)[:1], name, "parameters").tolist())


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

    @property
    def auxiliary(self) -> tuple[str, ...]:
        """Names of the unknowns that the parts add."""
        return tuple(dict.fromkeys(name for _, part in self.parts for name in part.auxiliary))

    def limits(self) -> "tuple[Limit, ...]":
        """Return the limits of all parts, each once."""
        return tuple(dict.fromkeys(limit for _, part in self.parts for limit in part.limits()))

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
            for square in squares_of(part, problem, own, before):
                found.append(square._replace(weight=weight * square.weight))
        return found
