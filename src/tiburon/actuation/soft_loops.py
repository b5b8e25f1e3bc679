"""Loops held by springs and dampers that steps do not resolve.

The forces of `Penalty` over the last step act as constants at the stages of the integrator; the end
of the step corrects them, so that they obey their law in its mean state. What the correction leaves
is of second order in the length of the step (`tiburon.simulation.soft_loops`).
"""

from collections.abc import Hashable
from typing import ClassVar

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.loops.constraints import constraint_names, constraints
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars


@record
class SoftLoops(Element):
    """Constraint forces of `Penalty` over the last step; its discrete states."""

    name: str
    """Unique among the elements of a run."""

    rates: tuple[float, ...]
    """Fastest rate of each constraint alone [1/s]."""

    holds_loops: ClassVar[bool] = True

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of the mean constraint forces."""
        return tuple(f"{name}.force" for name in constraint_names(model))

    def parameters(self) -> tuple[float, ...]:
        """Return the rates."""
        return self.rates

    def structure(self) -> Hashable:
        """Return the number of constraints."""
        return len(self.rates)

    def act(self, now: ElementContext) -> Action:
        """Return the joint forces of the mean constraint forces."""
        total: list[Scalar] = [0.0] * now.model.nv
        terms = constraints(now.model, now.plan, now.q, now.v)
        for row, push in zip(terms.jacobian, now.z, strict=True):
            for i, entry in row.items():
                total[i] = total[i] + entry * push
        return Action(tuple(total))

    def update_discrete_state(self, now: ElementContext) -> Scalars:
        """Return the states that the end of the step has given already."""
        return now.z
