"""Centers of pressure of flat feet: inside their soles.

The force f and the moment m of the foot on the ground, about its center, act like the force alone
at the center of pressure (r_1, r_2) along the axes of the sole:

    m_1 = r_2 f_n,   m_2 = -r_1 f_n,   |r_1| <= half length,   |r_2| <= half width
"""

from collections.abc import Sequence

from tiburon.load_sharing.limits.limit import Limit, LimitRow, RunTime
from tiburon.load_sharing.problem import Group, Layout, Problem
from tiburon.load_sharing.sites import ContactSite
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Scalars


@record
class CenterOfPressure(Limit):
    """Centers of pressure within rectangles."""

    feet: tuple[tuple[str, float, float], ...]
    """Name of the site, half length and half width [m]."""

    @classmethod
    def of(cls, sites: Sequence[ContactSite]) -> "CenterOfPressure | None":
        """Return the limit of all flat feet among sites, if there are any."""
        feet = tuple((s.name, *s.half_size) for s in sites if s.half_size is not None)
        return cls(feet) if feet else None

    def form(self) -> "CenterOfPressure":
        """Return the same feet with half sizes of 1 m."""
        return CenterOfPressure(tuple((name, 1.0, 1.0) for name, *_ in self.feet))

    def parameters(self, model: Model, layout: Layout) -> tuple[float, ...]:
        """Return half length and half width of each foot."""
        return tuple(x for _, *size in self.feet for x in size)

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return the four edges of each foot."""
        return tuple(
            f"{name}: center of pressure at its {edge} edge"
            for name, *_ in self.feet
            for edge in ("front", "rear", "right", "left")
        )

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return the rows of the front, rear, right and left edges.

        The second axis is normal x length: with the normal down, it points to the right.
        """
        groups: dict[str, Group] = {group.name: group for group in problem.layout.groups}
        found = []
        for k, (name, *_) in enumerate(self.feet):
            at, (a, b) = groups[name].first, p[2 * k : 2 * k + 2]
            n, m1, m2 = at + 2, at + 3, at + 4
            # r_1 = -m_2 / f_n, r_2 = m_1 / f_n
            found += [
                LimitRow({n: a, m2: 1.0}, 0.0),
                LimitRow({n: a, m2: -1.0}, 0.0),
                LimitRow({n: b, m1: -1.0}, 0.0),
                LimitRow({n: b, m1: 1.0}, 0.0),
            ]
        return found
