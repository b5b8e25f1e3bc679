"""What a limit is: named inequalities over the unknown forces x of a load-sharing problem.

A limit is a record. What code depends on is its form and the layout of the problem; its numbers are
run-time parameters, so that changing them compiles nothing.
"""

from typing import NamedTuple, Self

from tiburon.contact.rows import ContactRow
from tiburon.load_sharing.problem import Before, Layout, Problem
from tiburon.model import Model
from tiburon.spatial import Scalar, Scalars


class LimitRow(NamedTuple):
    """An inequality row . x >= right."""

    row: ContactRow
    right: Scalar


class RunTime(NamedTuple):
    """What limits depend on beside the problem: data of one call."""

    torsion: Scalars
    """Moment about the normal per normal force of each group [m]."""

    failed: Scalars
    """1 for each driven joint whose actuator has failed, else 0, in the order of
    `Layout.driven`."""

    before: Before
    """Forces of the step before."""

    max_step: Scalar
    """Largest change of a force or torque since then [N or N m]."""


class Limit:
    """A family of inequalities; subclasses are records, compared by value."""

    __slots__ = ()

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return the name of each row: the element, a colon, what is limited."""
        raise TypeError(f"{type(self).__name__} does not define the names of its rows")

    def parameters(self, model: Model, layout: Layout) -> tuple[float, ...]:
        """Return its run-time parameters."""
        return ()

    def form(self) -> Self:
        """Return the same limit with neutral run-time parameters: what code depends on."""
        return self

    def check(self, model: Model, layout: Layout) -> None:
        """Raise an error if the limit does not fit the robot."""

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return its rows, in the order of `names`.

        Args:
            problem: The problem in one state.
            p: Run-time parameters, as `parameters` lists them.
            now: Data of one call.
        """
        raise TypeError(f"{type(self).__name__} does not define its rows")
