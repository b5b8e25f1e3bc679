"""Springs and dampers between two points."""

from collections.abc import Hashable

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.two_points import line_between
from tiburon.model import Model
from tiburon.model.spring import Spring
from tiburon.record import record

__all__ = ["PointSpring"]


@record
class PointSpring(Element):
    """A `Spring` at work; stiffness, damping and rest length are run-time parameters."""

    name: str
    """Unique among the elements of a run."""

    spring: Spring
    """Its data."""

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return length [m], tension [N] and stored energy [J]."""
        return tuple(f"{self.name}.{word}" for word in ("length", "tension", "energy"))

    def parameters(self) -> tuple[float, ...]:
        """Return stiffness, damping and rest length."""
        return (self.spring.stiffness, self.spring.damping, self.spring.rest_length)

    def structure(self) -> Hashable:
        """Return where it is fixed, and whether it is a rope."""
        s = self.spring
        return (s.first, s.first_point, s.second, s.second_point, s.rope)

    def check(self, model: Model) -> None:
        """Raise an error if there is no such body or frame."""
        for end in (self.spring.first, self.spring.second):
            model.plan.frame(end)

    def act(self, now: ElementContext) -> Action:
        """Return the forces on both ends."""
        s = self.spring
        k, c, rest = now.p
        line = line_between(now, s.first, s.first_point, s.second, s.second_point)
        stretch = line.length - rest
        tension = k * stretch + c * line.rate
        if s.rope:
            # slack below its length; taut, it may pull less but never push
            stretch = np.maximum(stretch, 0.0)
            tension = np.where(stretch > 0.0, np.maximum(tension, 0.0), 0.0)
        outputs = {
            f"{self.name}.length": line.length,
            f"{self.name}.tension": tension,
            f"{self.name}.energy": 0.5 * k * stretch * stretch,
        }
        return Action(wrenches=line.pulled(tension), outputs=outputs)
