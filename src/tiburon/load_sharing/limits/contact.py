"""Limits of contacts: they push, friction stays in its cone, soft fingers resist some torsion.

Unilateral contact f_n >= 0 (4.47). Pyramids of k sides (4.48), (4.49) with

    mu_k f_n - (cos(2 pi j / k) f_1 + sin(2 pi j / k) f_2) >= 0,   mu_k = mu cos(pi / k) or mu

inscribed in the cone or around it; k = 4 with mu cos(pi / 4) = mu / sqrt(2) is that of the source.
Torsion |m| <= mu_t f_n, independent of the tangential force (Kerr and Roth; Nahon 1991, 6.1).
"""

from collections.abc import Iterator

import numpy as np

from tiburon.arguments import public
from tiburon.errors import DomainError, ModelError, UnknownNameError, shown
from tiburon.load_sharing.limits.limit import Limit, LimitRow, RangeLimit, RunTime
from tiburon.load_sharing.problem import Group, Layout, Problem
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.primitives.quadratic import side_directions


def touching_groups(layout: Layout) -> Iterator[tuple[int, Group, int]]:
    """Yield index, group and place of the normal force of all groups with a normal."""
    for k, group in enumerate(layout.groups):
        if group.normal is not None:
            yield k, group, group.normal


friction_directions = side_directions
"""Directions of the sides of a pyramid, by their number."""


@record
class Unilateral(Limit):
    """Normal forces push (4.47)."""

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return one name per contact."""
        return tuple(f"{group.name}: pushes" for _, group, _ in touching_groups(layout))

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return f_n >= 0."""
        return [LimitRow({n: 1.0}, 0.0) for _, _, n in touching_groups(problem.layout)]


LARGEST = "largest normal force"
"""Name of the largest normal force as an unknown."""


@record
class BelowLargest(Limit):
    """Normal forces below the largest one, which is an unknown (6.3)."""

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return one name per contact."""
        return tuple(f"{LARGEST}: {group.name}" for _, group, _ in touching_groups(layout))

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse plans without normal forces."""
        if all(group.normal is None for group in layout.groups):
            raise ModelError(
                "LargestNormalForce: expected contacts, sites or grips with normal forces, got "
                "none in the plan; pass grips=[GripLimit(...)] for loops"
            )

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return f_max - f_n >= 0."""
        most = problem.place(LARGEST)
        return [LimitRow({most: 1.0, n: -1.0}, 0.0) for _, _, n in touching_groups(problem.layout)]


@record
class FrictionPyramid(Limit):
    """Tangential forces within a pyramid of k sides (4.48), (4.49)."""

    sides: int
    """k, at least 3."""

    inscribed: bool = True
    """Whether it lies inside the cone, or around it."""

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return one name per contact and side."""
        return tuple(
            f"{group.name}: friction side {k}"
            for _, group, _ in touching_groups(layout)
            for k in range(self.sides)
        )

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return the sides of all pyramids."""
        found = []
        for (i, j, n), mu in zip(*self.pyramids(problem), strict=True):
            for a, b in friction_directions(self.sides):
                found.append(LimitRow({i: -a, j: -b, n: mu}, 0.0))
        return found

    def pyramids(self, problem: Problem) -> tuple[list[tuple[int, int, int]], list[Scalar]]:
        """Return places of two tangents and the normal of each pyramid, and its coefficient."""
        shrink = float(np.cos(np.pi / self.sides)) if self.inscribed else 1.0
        groups = list(touching_groups(problem.layout))
        return (
            [(n - 2, n - 1, n) for _, _, n in groups],
            [shrink * problem.friction[k] for k, _, _ in groups],
        )


@record
class FrictionCone(Limit):
    """Tangential forces within the exact cone, which the solver meets by tangent planes."""

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return one name per contact."""
        return tuple(f"{group.name}: friction cone" for _, group, _ in touching_groups(layout))

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return no rows: cones are given to the solver as such."""
        return []


@record
class Torsion(Limit):
    """Moments about the normal of soft fingers and feet: |m| <= mu_t f_n."""

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return two names per contact with torsion."""
        groups = [group for _, group, _ in touching_groups(layout) if group.torsion is not None]
        return tuple(f"{group.name}: torsion {sign}" for group in groups for sign in "+-")

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return mu_t f_n - m >= 0 and mu_t f_n + m >= 0."""
        return [
            LimitRow({n: now.torsion[k], group.torsion: sign}, 0.0)
            for k, group, n in touching_groups(problem.layout)
            if group.torsion is not None
            for sign in (-1.0, 1.0)
        ]


@public
@record
class NormalForceLimit(RangeLimit):
    """Normal forces between given ones, while the contact takes part.

    Example:
        Feet press with 5 N at least, and a fragile glass bears 20 N::

            NormalForceLimit({"foot": (5.0, np.inf), "finger": (0.0, 20.0)})
    """

    forces: tuple[tuple[str, float, float], ...]
    """Name of the contact, smallest and largest normal force [N]."""

    of_contacts = True

    def __init__(self, forces: object) -> None:
        """Store limits by name.

        Args:
            forces: Smallest and largest normal force by name of the contact [N].
        """
        rows = []
        if not isinstance(forces, dict):
            raise DomainError("normal force limits", "pairs by name of a contact", shown(forces))
        for name, pair in forces.items():
            rows.append((str(name), *bounds_of(f"normal force limits of {name!r}", pair)))
        object.__setattr__(self, "forces", tuple(rows))

    def form(self) -> "NormalForceLimit":
        """Return the same limits with values of zero where they are finite."""
        return NormalForceLimit(
            {n: tuple(0.0 if np.isfinite(x) else x for x in pair) for n, *pair in self.forces}
        )

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse names that are not contacts."""
        known = [group.name for _, group, _ in touching_groups(layout)]
        for name, _, _ in self.forces:
            if name not in known:
                raise UnknownNameError("contact", name, known)

    def ranges(self) -> Iterator[tuple[str, str, tuple[float, float]]]:
        """Yield the normal force of each contact."""
        for name, low, high in self.forces:
            yield name, "normal force", (low, high)


def bounds_of(what: str, pair: object) -> tuple[float, float]:
    """Return a smallest and a largest value, in this order."""
    try:
        low, high = (float(x) for x in pair)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise DomainError(what, "a smallest and a largest value", shown(pair)) from None
    if not low <= high:
        raise DomainError(what, "the smallest first", f"{low:g}, {high:g}", advice="swap them")
    return low, high
