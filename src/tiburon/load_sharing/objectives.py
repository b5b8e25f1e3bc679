"""Objectives: what sharing a load should make small. A new objective is a new class here.

An objective is a sum of squares over the unknown forces x and over what is linear in them, such as
joint forces; it returns those squares as rows. Objectives add, and are weighted by factors:
``InternalForce() + 0.1 * MotorLoss()``. Equations: Nahon 1991, chapter 6.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from tiburon.argument_checks import is_numeric, positive
from tiburon.contact.rows import ContactRow
from tiburon.errors import ModelError, UnknownNameError, shown
from tiburon.load_sharing.problem import MOMENT, Before, Layout, Problem
from tiburon.model import Actuator, Model, Motor
from tiburon.model.value_checks import finite_array
from tiburon.record import record
from tiburon.spatial import Scalar

__all__ = [
    "EqualShare",
    "FadingSmoothness",
    "InternalForce",
    "LoadTarget",
    "MotorLoss",
    "Objective",
    "Smoothness",
    "Square",
    "Sum",
    "TorqueNorm",
    "TorqueSmoothness",
]


class Square(NamedTuple):
    """A term weight / 2 (row . x + offset)^2."""

    weight: Scalar
    row: ContactRow
    offset: Scalar


class Objective:
    """What to minimize; subclasses are records, compared by value."""

    __slots__ = ()

    is_definite = False
    """Whether it alone determines all forces."""

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return its run-time parameters; changing them compiles nothing."""
        return ()

    def form(self) -> Self:
        """Return the same objective with neutral run-time parameters: what code depends on."""
        return self

    def squares(self, problem: Problem, p: Sequence[Scalar], before: Before) -> list[Square]:
        """Return its terms.

        Args:
            problem: The problem in one state.
            p: Run-time parameters, as `parameters` lists them.
            before: Forces of the step before.
        """
        raise TypeError(f"{type(self).__name__} does not define its squares")

    def check(self, model: Model, layout: Layout) -> None:
        """Raise an error if the robot lacks data that the objective needs."""

    def __add__(self, other: object) -> "Sum":
        return Sum((*_parts(self), *_parts(other)))

    def __mul__(self, factor: Any) -> "Sum":
        weight = positive("weight of an objective", factor)
        return Sum(tuple((weight * w, part) for w, part in _parts(self)))

    __rmul__ = __mul__


def _parts(objective: object) -> "tuple[tuple[float, Objective], ...]":
    if isinstance(objective, Sum):
        return objective.parts
    if isinstance(objective, Objective):
        return ((1.0, objective),)
    raise ModelError(
        f"objective: expected objectives such as InternalForce(), got {shown(objective)}; write "
        "InternalForce() + 0.1 * TorqueNorm()"
    )


@record
class Sum(Objective):
    """A weighted sum of objectives."""

    parts: tuple[tuple[float, Objective], ...]
    """Weights and objectives."""

    @property
    def is_definite(self) -> bool:  # type: ignore[override]
        """Whether some part determines all forces."""
        return any(part.is_definite for _, part in self.parts)

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return weights and parameters of all parts."""
        return tuple(x for w, part in self.parts for x in (w, *part.parameters(model)))

    def form(self) -> Self:
        """Return the forms of all parts, with unit weights."""
        return replace(self, parts=tuple((1.0, part.form()) for _, part in self.parts))

    def check(self, model: Model, layout: Layout) -> None:
        """Check all parts."""
        for _, part in self.parts:
            part.check(model, layout)

    def squares(self, problem: Problem, p: Sequence[Scalar], before: Before) -> list[Square]:
        """Return the weighted terms of all parts."""
        found: list[Square] = []
        given = list(p)
        for _, part in self.parts:
            weight = given.pop(0)
            count = len(part.parameters(problem.model))
            own, given = given[:count], given[count:]
            for square in part.squares(problem, own, before):
                found.append(square._replace(weight=weight * square.weight))
        return found


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

    def squares(self, problem: Problem, p: Sequence[Scalar], before: Before) -> list[Square]:
        """Return the square of each component."""
        lever = p[0] if p else problem.lever
        found = []
        for group in problem.layout.groups:
            for place, kind in zip(group.places, group.kinds, strict=True):
                weight = 1.0 / (lever * lever) if kind == MOMENT else 1.0
                found.append(Square(weight, {place: 1.0}, 0.0))
        return found


@record
class TorqueNorm(Objective):
    """Least sum of the squares of the driven joint forces (6.26)-(6.28)."""

    def squares(self, problem: Problem, p: Sequence[Scalar], before: Before) -> list[Square]:
        """Return the square of each driven joint force."""
        return [Square(1.0, *problem.torque(i)) for i in problem.layout.driven]


@record
class MotorLoss(Objective):
    """Least heat in the windings of the motors (6.44)-(6.54) [W].

    A motor carries the joint force, the inertia of its rotor as far as the joint's armature does
    not include it, and its own friction.
    """

    friction: bool = True
    """Whether inertia and friction of the motors count; without them the objective is that of
    Kopf, which leaves out the linear term."""

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse driven joints without actuators, motors without resistance or torque constant."""
        driven = {model.v_names[i] for i in layout.driven}
        for actuator in model.actuators:
            if not self._counts(model, actuator, layout):
                continue
            own = {model.v_names[i] for i in model.indices([actuator.joint], of="v")}
            if len(own) > 1 or not own <= driven:
                got = f"{len(own)} of them" if len(own) > 1 else "a second motor"
                raise ModelError(
                    f"actuator {actuator.name!r}: MotorLoss needs one motor per joint of one "
                    f"degree of freedom, got {got} at joint {actuator.joint!r}; use TorqueNorm()",
                    name=actuator.name,
                )
            driven -= own
            motor = actuator.motor
            missing = None
            if motor is None:
                missing = "a Motor"
            elif not motor.resistance:
                missing = "a resistance"
            elif not motor.torque_constant:
                missing = "a torque constant"
            if missing is not None:
                raise ModelError(
                    f"actuator {actuator.name!r}: MotorLoss needs {missing}, got none; give it "
                    "Motor(resistance=..., torque_constant=...), or use TorqueNorm()",
                    name=actuator.name,
                )
        if driven:
            name = sorted(driven)[0]
            raise ModelError(
                f"joint {name!r}: MotorLoss needs an actuator with a motor at each driven joint, "
                "got none; give it one, or use TorqueNorm()",
                name=name,
            )

    @staticmethod
    def _counts(model: Model, actuator: Actuator, layout: Layout) -> bool:
        """Return whether an actuator drives its joint."""
        return set(map(int, model.indices([actuator.joint], of="v"))) <= set(layout.driven)

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return weight, inertia, damping and friction at the joint, per actuator."""
        found: list[float] = []
        for actuator in model.actuators:
            motor, n = actuator.motor or Motor(0.0, 1.0), actuator.ratio
            constant = motor.torque_constant or 1.0
            armature = np.ravel(model.joint(actuator.joint).armature or 0.0)[0]
            found += (
                2.0 * motor.resistance / (n * constant) ** 2,
                n * n * actuator.rotor_inertia - float(armature),
                n * n * motor.damping,
                abs(n) * motor.friction,
            )
        return tuple(found)

    def squares(self, problem: Problem, p: Sequence[Scalar], before: Before) -> list[Square]:
        """Return the loss in each winding."""
        found = []
        for k, actuator in enumerate(problem.model.actuators):
            if not self._counts(problem.model, actuator, problem.layout):
                continue
            index = problem.model.slice(actuator.joint, of="v").start
            weight, inertia, damping, friction = p[4 * k : 4 * k + 4]
            row, offset = problem.torque(index)
            if self.friction:
                v, vd = problem.v[index], problem.vd[index]
                offset = offset + inertia * vd + damping * v + friction * np.sign(v)
            found.append(Square(weight, row, offset))
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

    def squares(self, problem: Problem, p: Sequence[Scalar], before: Before) -> list[Square]:
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

    def squares(self, problem: Problem, p: Sequence[Scalar], before: Before) -> list[Square]:
        """Return the squares of the normal forces."""
        groups = [group for group in problem.layout.groups if group.normal is not None]
        return [Square(1.0, {group.normal: 1.0}, 0.0) for group in groups if group.normal]


@record
class Smoothness(Objective):
    """Forces near those of the step before (6.60)."""

    is_definite = True

    def squares(self, problem: Problem, p: Sequence[Scalar], before: Before) -> list[Square]:
        """Return the squares of the changes."""
        return [Square(1.0, {k: 1.0}, -last) for k, last in enumerate(before.x)]


@record
class FadingSmoothness(Smoothness):
    """The same with a weight that falls to zero at run time: other objectives decide then."""

    is_definite = False


@record
class TorqueSmoothness(Objective):
    """Driven joint forces near those of the step before (6.62)."""

    def squares(self, problem: Problem, p: Sequence[Scalar], before: Before) -> list[Square]:
        """Return the squares of the changes."""
        found = []
        for index, last in zip(problem.layout.driven, before.tau, strict=True):
            row, offset = problem.torque(index)
            found.append(Square(1.0, row, offset - last))
        return found
