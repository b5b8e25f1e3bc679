"""Limits of thrusters and cables: thrusts and tensions between a smallest and a largest one."""

import numpy as np

from tiburon.load_sharing.drives import Drive
from tiburon.load_sharing.limits.limit import Limit, LimitRow, RunTime
from tiburon.load_sharing.problem import Layout, Problem
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Scalars


@record
class DriveLimit(Limit):
    """Thrusts and tensions between their limits; a drive that takes no part has none."""

    drives: tuple[Drive, ...]
    """Thrusters and cables."""

    def form(self) -> "DriveLimit":
        """Return which limits there are."""
        return DriveLimit(tuple(drive.form() for drive in self.drives))

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return one name per finite limit."""
        return tuple(
            f"{drive.name}: {word} {drive.kind}"
            for drive in self.drives
            for word, x in zip(("least", "largest"), drive.limits, strict=True)
            if np.isfinite(x)
        )

    def parameters(self, model: Model, layout: Layout) -> tuple[float, ...]:
        """Return the finite limits."""
        return tuple(x for drive in self.drives for x in drive.limits if np.isfinite(x))

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return f >= least and -f >= -largest."""
        # other groups come before and behind
        groups = {group.name: k for k, group in enumerate(problem.layout.groups)}
        given = iter(p)
        found = []
        for drive in self.drives:
            k = groups[drive.name]
            place = problem.layout.groups[k].first
            for sign, x in zip((1.0, -1.0), drive.limits, strict=True):
                if np.isfinite(x):
                    bound = sign * next(given) * problem.touching[k]
                    found.append(LimitRow({place: sign}, bound))
        return found
