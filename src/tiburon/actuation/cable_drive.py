"""Cables wound up by winches: the commanded tension between two points."""

import math
from collections.abc import Hashable

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.point_spring import line_between
from tiburon.model import Model
from tiburon.model.actuator import clipped
from tiburon.model.attachments import Cable
from tiburon.record import record


@record
class CableDrive(Element):
    """Force element of a `Cable`: the command is its tension [N], within its limits.

    The winch follows at once: no inertia of the drum, no elasticity, no friction of pulleys.
    """

    name: str
    """Unique among the elements of a run; also the name of its command."""

    cable: Cable
    """Data of the cable."""

    def command_names(self, model: Model) -> tuple[str, ...]:
        """Return its name: the tension [N]."""
        return (self.name,)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return length [m], tension [N], and power of the winch [W], positive as it winds up."""
        return tuple(f"{self.name}.{word}" for word in ("length", "tension", "power"))

    def parameters(self) -> tuple[float, ...]:
        """Return the finite tension limits."""
        return tuple(x for x in self.cable.tension_limits if math.isfinite(x))

    def structure(self) -> Hashable:
        """Return its end points, and which limits are finite."""
        c = self.cable
        ends = (c.first, c.first_point, c.second, c.second_point)
        return (*ends, tuple(map(math.isfinite, c.tension_limits)))

    def check(self, model: Model) -> None:
        """Raise an error if there is no such body or frame."""
        for end in (self.cable.first, self.cable.second):
            model.plan.frame(end)

    def act(self, now: ElementContext) -> Action:
        """Compute the wrenches on both ends."""
        c = self.cable
        given = iter(now.p)
        low, high = (next(given) if math.isfinite(x) else None for x in c.tension_limits)
        tension = clipped(now.u[0], low, high)
        line = line_between(now, c.first, c.first_point, c.second, c.second_point)
        outputs = {
            f"{self.name}.length": line.length,
            f"{self.name}.tension": tension,
            f"{self.name}.power": -tension * line.rate,
        }
        return Action(wrenches=line.pulled(tension), outputs=outputs)
