"""Objectives of contact forces: least internal force, given targets, equal shares."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from tiburon.argument_checks import is_numeric, positive
from tiburon.errors import ModelError, UnknownNameError, shown
from tiburon.load_sharing.objectives.objective import Objective, Square
from tiburon.load_sharing.problem import MOMENT, Before, Layout, Problem
from tiburon.model import Model
from tiburon.model.value_checks import finite_array
from tiburon.record import record
from tiburon.spatial import Scalars


@record
class InternalForce(Objective):
    """Least contact forces, and with them the least internal force (6.15)-(6.20).

    Moments count by the forces at a lever: their squares are divided by the square of a length, so
    that the result does not depend on units.
    """

    length: float | None = None
    """Lever [m]; by default the root mean square distance of contact points and joints of loops
    from their mean, or 1 m where there are less than two."""

    is_definite = True

    def __post_init__(self) -> None:
        if self.length is not None:
            object.__setattr__(self, "length", positive("length", self.length, "m"))

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return the lever, if it is given."""
        return () if self.length is None else (self.length,)

    def form(self) -> Self:
        """Return the same objective with a lever of 1 m, if it has one."""
        return self if self.length is None else replace(self, length=1.0)

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the square of each component."""
        lever = p[0] if p else problem.lever
        found = []
        for group in problem.layout.groups:
            for place, kind in zip(group.places, group.kinds, strict=True):
                weight = 1.0 / (lever * lever) if kind == MOMENT else 1.0
                found.append(Square(weight, {place: 1.0}, 0.0))
        return found


@record
class LoadTarget(Objective):
    """Forces near given ones (6.24), (6.25)."""

    forces: tuple[tuple[str, tuple[float, ...]], ...]
    """Names of contacts, loops, thrusters or cables, and the first components of their forces on
    the second body: for contacts and grips two tangents and the normal [N, N m]."""

    def __init__(self, forces: Any) -> None:
        """Store targets by name.

        Args:
            forces: Components by name of the contact point or loop [N, N m].
        """
        if not isinstance(forces, Mapping):
            raise ModelError(
                f"LoadTarget: forces must map names of contacts to components, got "
                f"{shown(forces)}; write {{'foot': (0, 0, 50)}}"
            )
        rows = []
        for name, row in forces.items():
            if not isinstance(name, str):
                raise ModelError(f"LoadTarget: forces by name of a contact, got {shown(name)}")
            count = max(1, np.size(row) if is_numeric(row) else 3)
            values = finite_array(np.ravel(row), (count,), f"LoadTarget {name!r}", "forces")
            rows.append((name, tuple(map(float, values))))
        object.__setattr__(self, "forces", tuple(rows))

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse names that are neither contacts nor loops."""
        known = {group.name: len(group.kinds) for group in layout.groups}
        for name, row in self.forces:
            if name not in known:
                raise UnknownNameError("contact or loop", name, list(known), where="LoadTarget")
            if len(row) > known[name]:
                raise ModelError(
                    f"LoadTarget {name!r}: forces must be at most {known[name]} components, got "
                    f"{len(row)}",
                    name=name,
                )

    def form(self) -> Self:
        """Return targets of zero for the same names."""
        return type(self)({name: (0.0,) * len(row) for name, row in self.forces})

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return the targets."""
        return tuple(x for _, row in self.forces for x in row)

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of the differences."""
        groups = {group.name: group for group in problem.layout.groups}
        found, at = [], 0
        for name, row in self.forces:
            for place in groups[name].places[: len(row)]:
                found.append(Square(1.0, {place: 1.0}, -p[at]))
                at += 1
        return found


@record
class EqualShare(Objective):
    """Normal forces as equal as possible: the least sum of their squares (6.22), (6.23)."""

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of the normal forces."""
        groups = [group for group in problem.layout.groups if group.normal is not None]
        return [Square(1.0, {group.normal: 1.0}, 0.0) for group in groups if group.normal]
