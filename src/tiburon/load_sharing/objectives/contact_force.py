"""Objectives of contact forces: least internal force, given targets, equal shares."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from tiburon.argument_checks import is_numeric, positive
from tiburon.arguments import public
from tiburon.errors import ModelError, UnknownNameError, shown
from tiburon.load_sharing.limits.contact import LARGEST, BelowLargest
from tiburon.load_sharing.limits.limit import Limit
from tiburon.load_sharing.named import TORQUES, check_names, named_values, places_of
from tiburon.load_sharing.objectives.objective import Objective, Square, Weighted
from tiburon.load_sharing.problem import MOMENT, Before, Layout, Problem
from tiburon.model import Model
from tiburon.model.value_checks import finite_array
from tiburon.record import record
from tiburon.spatial import Scalars


@public
@record
class InternalForce(Weighted):
    """Least contact forces, and with them the least internal force (6.15)-(6.20).

    Moments count by the forces at a lever: their squares are divided by the square of a length, so
    that the result does not depend on units.
    """

    length: float | None = None
    """Lever [m]; by default the root mean square distance of contact points and joints of loops
    that take part from the center of mass of the object or machine that they hold (6.20)."""

    weights: Any = ()
    """Weights of squares, by name of a contact, loop or force; 1 for others."""

    is_definite = True

    def __post_init__(self) -> None:
        if isinstance(self.length, Mapping):
            raise ModelError(
                f"InternalForce: length must be a lever [m], got {shown(self.length)}; write "
                "InternalForce(weights={...}) for weights by name"
            )
        Weighted.__post_init__(self)
        if self.length is not None:
            object.__setattr__(self, "length", positive("length", self.length, "m"))

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return the weights, and the lever if it is given."""
        return (*Weighted.parameters(self, model), *(() if self.length is None else (self.length,)))

    def form(self) -> Self:
        """Return unit weights for the same names, and a lever of 1 m if it has one."""
        same = Weighted.form(self)
        return same if self.length is None else replace(same, length=1.0)

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the square of each component."""
        lever = problem.lever if self.length is None else p[-1]
        weights = self.spread(problem, p[: len(self.weights)])
        found = []
        for group in problem.layout.groups:
            for place, kind in zip(group.places, group.kinds, strict=True):
                own = weights[place]
                found.append(
                    Square(own / (lever * lever) if kind == MOMENT else own, {place: 1.0}, 0.0)
                )
        return found


@public
@record
class LoadTarget(Objective):
    """Forces and joint forces near given ones (6.24), (6.25).

    Example:
        ``LoadTarget({"front_left_foot": (0, 0, 50), "front_left_knee": 4.0})``
    """

    forces: tuple[tuple[str, tuple[float, ...]], ...]
    """Names of contacts, loops, thrusters or cables, and the first components of their forces on
    the second body: for contacts and grips two tangents and the normal [N, N m]; names of driven
    joints, and their forces [N or N m]."""

    weights: tuple[tuple[str, float], ...]
    """Weights of squares of differences, by the same names; 1 for others."""

    def __init__(self, forces: Any, weights: Any = ()) -> None:
        """Store targets by name.

        Args:
            forces: Components by name of a contact point, loop or driven joint [N, N m].
            weights: By the same names.
        """
        pairs = forces.items() if isinstance(forces, Mapping) else forces
        if not isinstance(forces, (Mapping, tuple)) or not all(
            isinstance(pair, tuple) and len(pair) == 2 for pair in pairs
        ):
            raise ModelError(
                f"LoadTarget: forces must map names of contacts to components, got "
                f"{shown(forces)}; write {{'foot': (0, 0, 50)}}"
            )
        rows = []
        for name, row in pairs:
            if not isinstance(name, str):
                raise ModelError(f"LoadTarget: forces by name of a contact, got {shown(name)}")
            count = max(1, np.size(row) if is_numeric(row) else 3)
            values = finite_array(np.ravel(row), (count,), f"LoadTarget {name!r}", "forces")
            rows.append((name, tuple(map(float, values))))
        own = named_values("LoadTarget: weight", weights, positive=False)
        check_names([name for name, _ in own], {name: () for name, _ in rows}, "target", "weights")
        object.__setattr__(self, "forces", tuple(rows))
        object.__setattr__(self, "weights", own)

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse names that are neither contacts nor loops nor driven joints."""
        known = {group.name: len(group.kinds) for group in layout.groups}
        joints = {name: len(k) for name, k in places_of(TORQUES, model, layout).items()}
        for name, row in self.forces:
            if name not in known and name not in joints:
                names = [*known, *joints]
                raise UnknownNameError(
                    "contact, loop or driven joint", name, names, where="LoadTarget"
                )
            if name in known and name in joints:
                raise ModelError(
                    f"LoadTarget {name!r}: names a contact or loop and a joint; rename one",
                    name=name,
                )
            most = known.get(name, joints.get(name, 0))
            if len(row) > most:
                raise ModelError(
                    f"LoadTarget {name!r}: forces must be at most {most} components, got "
                    f"{len(row)}",
                    name=name,
                )

    def form(self) -> Self:
        """Return targets of zero for the same names, and unit weights."""
        zeros = tuple((name, (0.0,) * len(row)) for name, row in self.forces)
        return type(self)(zeros, tuple((name, 1.0) for name, _ in self.weights))

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return the targets, then the weights."""
        return (*(x for _, row in self.forces for x in row), *(x for _, x in self.weights))

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of the differences."""
        groups = {group.name: group for group in problem.layout.groups}
        joints = places_of(TORQUES, problem.model, problem.layout)
        count = sum(len(row) for _, row in self.forces)
        weights = {name: x for (name, _), x in zip(self.weights, p[count:], strict=True)}
        found, at = [], 0
        for name, row in self.forces:
            if name in groups:
                parts = [({place: 1.0}, 0.0) for place in groups[name].places]
            else:
                parts = [problem.torque(problem.layout.driven[k]) for k in joints[name]]
            for own, offset in parts[: len(row)]:
                found.append(Square(weights.get(name, 1.0), own, offset - p[at]))
                at += 1
        return found


@public
@record
class LargestNormalForce(Objective):
    """Least largest normal force: f_max^2 / 2 with f_max - f_n >= 0 at all contacts (6.2), (6.3).

    The largest normal force is an unknown of the quadratic program; the source has it in linear
    programs, whose optima jump.

    Example:
        ``tb.InternalForce() + 20.0 * tb.LargestNormalForce()``
    """

    @property
    def auxiliary(self) -> tuple[str, ...]:
        """The largest normal force."""
        return (LARGEST,)

    def limits(self) -> tuple[Limit, ...]:
        """Return that normal forces are below it."""
        return (BelowLargest(),)

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return its square."""
        return [Square(1.0, {problem.place(LARGEST): 1.0})]


@public
@record
class EqualShare(Objective):
    """Normal forces as equal as possible: the least sum of their squares (6.22), (6.23)."""

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of the normal forces."""
        groups = [group for group in problem.layout.groups if group.normal is not None]
        return [Square(1.0, {group.normal: 1.0}, 0.0) for group in groups if group.normal]
