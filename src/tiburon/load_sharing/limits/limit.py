"""What a limit is: named inequalities over the unknown forces x of a load-sharing problem.

A limit is a record. What code depends on is its form and the layout of the problem; its numbers are
run-time parameters, so that changing them compiles nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from tiburon.arguments import public
from tiburon.contact.rows import ContactRow
from tiburon.load_sharing.problem import Before, Layout, Problem
from tiburon.model import Model
from tiburon.spatial import Scalar, Scalars


class LimitRow(NamedTuple):
    """An inequality row . x >= right."""

    row: ContactRow
    right: Scalar

    @classmethod
    def between(
        cls, row: ContactRow, offset: Scalar, low: Scalar, high: Scalar
    ) -> tuple["LimitRow", "LimitRow"]:
        """Return low <= row . x + offset <= high as two rows."""
        return cls(row, low - offset), cls({i: -x for i, x in row.items()}, offset - high)


class RunTime(NamedTuple):
    """What limits depend on beside the problem: data of one call."""

    torsion: Scalars
    """Moment about the normal per normal force of each group [m]."""

    failed: Scalars
    """1 for each driven joint whose actuator has failed, else 0, in the order of
    `Layout.driven`."""

    before: Before
    """Forces of the step before."""

    max_step: Scalars
    """Largest change of each bounded force or torque since then [N or N m]."""


@public
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


@public
class RangeLimit(Limit):
    """Forces of single groups between a smallest and a largest value; infinite for none."""

    __slots__ = ()
    of_contacts = False
    """Whether they limit normal forces of contacts, or forces of thrusters and cables."""

    def ranges(self) -> Iterator[tuple[str, str, tuple[float, float]]]:
        """Yield the name of each group, what its force is, smallest and largest force [N]."""
        raise TypeError(f"{type(self).__name__} does not define its ranges")

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return one name per finite limit."""
        return tuple(
            f"{name}: {word} {what}"
            for name, what, pair in self.ranges()
            for word, x in zip(("least", "largest"), pair, strict=True)
            if np.isfinite(x)
        )

    def parameters(self, model: Model, layout: Layout) -> tuple[float, ...]:
        """Return the finite limits."""
        return tuple(x for _, _, pair in self.ranges() for x in pair if np.isfinite(x))

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return f >= least and -f >= -largest; both zero for groups that take no part."""
        places = {
            group.name: (k, group.first if group.normal is None else group.normal)
            for k, group in enumerate(problem.layout.groups)
            if (group.normal is not None) == self.of_contacts
        }
        given = iter(p)
        found = []
        for name, _, pair in self.ranges():
            k, place = places[name]
            for sign, x in zip((1.0, -1.0), pair, strict=True):
                if np.isfinite(x):
                    found.append(LimitRow({place: sign}, sign * next(given) * problem.touching[k]))
        return found
