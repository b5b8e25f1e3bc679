"""Objectives of structures: wrenches of joints, strain of contacts, bending of links.

Symbols (Nahon 1991, sections 6.2.4 to 6.2.6):
    w_hat   wrench that a joint transmits, w_hat' + F^T x                              (6.29)-(6.31)
    C       compliance of a contact or loop: its deflection per force                  (6.32)
    M, EI   bending moment along a link, its bending stiffness                         (6.33)
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from tiburon.argument_checks import is_numeric, positive
from tiburon.arguments import public
from tiburon.contact.rows import ContactRow
from tiburon.errors import DomainError, ModelError, UnknownNameError, shown
from tiburon.load_sharing.objectives.objective import Objective, Square
from tiburon.load_sharing.problem import Before, Layout, Problem
from tiburon.load_sharing.recovery import WrenchRows, body_of, wrench_rows
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars

EIGENVALUE_TOLERANCE = 1e-12
"""Eigenvalue relative to the largest below which a compliance is not positive semidefinite."""


@public
@record
class JointWrenchNorm(Objective):
    """Least wrenches of joints, and so the least load of bearings and links (6.29)-(6.31).

    Moments count by the forces at a lever, so that the result does not depend on units.
    """

    joints: tuple[str, ...] = ()
    """Names of moving joints; all with fewer than six degrees of freedom if none are given."""

    length: float | None = None
    """Lever [m]; by default that of `InternalForce`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", _names("JointWrenchNorm", self.joints))
        if self.length is not None:
            object.__setattr__(self, "length", positive("length", self.length, "m"))

    def form(self) -> Self:
        """Return the same objective with a lever of 1 m, if it has one."""
        return self if self.length is None else type(self)(self.joints, 1.0)

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return the lever, if it is given."""
        return () if self.length is None else (self.length,)

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse joints that do not exist or do not move."""
        for name in self.joints:
            body_of(model, name)

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of all components of all wrenches."""
        lever = p[0] if p else problem.lever
        inside = problem.model.joints
        names = self.joints or [j.name for j in inside if not j.is_rigid and j.nv < 6]
        found = []
        for rows in wrench_rows(problem, names):
            for k, (row, offset) in enumerate(rows):
                if row:
                    found.append(Square(1.0 / (lever * lever) if k < 3 else 1.0, row, offset))
        return found


@public
@record
class StrainEnergy(Objective):
    """Least energy x^T C x / 2 of contacts and loops that deflect under their forces (6.32) [J].

    Example:
        Fingertips that are softer along their normals::

            StrainEnergy({"finger": (1e-5, 1e-5, 4e-5)})
    """

    compliance: tuple[tuple[str, bool, tuple[float, ...]], ...]
    """Name of the contact or loop, whether C is diagonal, and the diagonal or rows of a factor."""

    def __init__(self, compliance: Any) -> None:
        """Store compliances by name.

        Args:
            compliance: By name of a contact or loop, the deflection per force of each of its
                components [m/N, rad/(N m)], or a symmetric matrix of them, positive semidefinite.

        Raises:
            DomainError: If a compliance is negative or indefinite.
        """
        if not isinstance(compliance, Mapping) or not compliance:
            raise ModelError(
                f"StrainEnergy: compliance must map names of contacts to values, got "
                f"{shown(compliance)}; write {{'finger': (1e-5, 1e-5, 4e-5)}}"
            )
        found = []
        for name, given in compliance.items():
            what = f"StrainEnergy: compliance of {name!r}"
            C = np.asarray(given, dtype=np.float64) if is_numeric(given) else np.zeros(0)
            square = C.ndim == 2 and C.shape[0] == C.shape[1] and np.allclose(C, C.T, rtol=1e-9)
            if not C.size or not np.isfinite(C).all() or not (C.ndim == 1 or square):
                raise DomainError(
                    what, "finite values per component, or a symmetric matrix", shown(given)
                )
            sizes, axes = np.linalg.eigh(np.diag(C) if C.ndim == 1 else 0.5 * (C + C.T))
            if sizes.min() < -EIGENVALUE_TOLERANCE * max(np.abs(sizes).max(), 1e-300):
                raise DomainError(
                    what,
                    "a positive semidefinite weight",
                    f"an eigenvalue of {sizes.min():.3g}",
                    advice="no material returns more energy than it takes",
                )
            if C.ndim == 1:
                found.append((str(name), True, tuple(C.tolist())))
            else:
                factor = np.sqrt(np.maximum(sizes, 0.0))[:, None] * axes.T
                found.append((str(name), False, tuple(factor.ravel().tolist())))
        object.__setattr__(self, "compliance", tuple(found))

    def form(self) -> Self:
        """Return compliances of one for the same names."""
        copy = object.__new__(type(self))
        neutral = tuple((n, flat, (1.0,) * len(x)) for n, flat, x in self.compliance)
        object.__setattr__(copy, "compliance", neutral)
        return copy

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return compliances, or the rows of their factors."""
        return tuple(x for _, _, values in self.compliance for x in values)

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse names that are neither contacts nor loops, and other numbers of components."""
        groups = {group.name: len(group.kinds) for group in layout.groups}
        for name, flat, values in self.compliance:
            if name not in groups:
                raise UnknownNameError("contact or loop", name, list(groups))
            count = len(values) if flat else round(len(values) ** 0.5)
            if count != groups[name]:
                raise DomainError(
                    f"StrainEnergy: compliance of {name!r}",
                    f"{groups[name]} components",
                    f"{count}",
                )

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the energy of each component, or along each row of a factor."""
        groups = {group.name: group for group in problem.layout.groups}
        found, at = [], 0
        for name, flat, values in self.compliance:
            places = groups[name].places
            own = p[at : at + len(values)]
            at += len(values)
            if flat:
                found += [
                    Square(weight, {place: 1.0}, 0.0)
                    for weight, place in zip(own, places, strict=True)
                ]
                continue
            n = len(places)
            for k in range(n):
                row: ContactRow = dict(zip(places, own[n * k : n * (k + 1)], strict=True))
                found.append(Square(1.0, row, 0.0))
        return found


@public
@record
class BendingEnergy(Objective):
    """Least energy of bending of links, the integral of M^2 / (2 E I) over each (6.33) [J].

    A link is a straight beam from its joint to a tip; its own weight between the two counts at the
    joint. For legs of insects this gives larger contact forces than their norm (source, 6.2.6).
    """

    links: tuple[tuple[str, tuple[float, float, float], float], ...]
    """Name of the joint that carries the link, its tip in axes of the link's body [m], and E I
    [N m^2]."""

    def __init__(self, links: Any) -> None:
        """Store links by the name of their joint.

        Args:
            links: By name of the joint that carries it, the tip of the link in axes of its body
                [m], from the body's origin, and its bending stiffness E I [N m^2].
        """
        if not isinstance(links, Mapping) or not links:
            raise ModelError(
                f"BendingEnergy: links must map joints to tip and stiffness, got {shown(links)}; "
                "write {'knee': ((0, 0, -0.2), 35.0)}"
            )
        found = []
        for name, given in links.items():
            what = f"BendingEnergy: link of joint {name!r}"
            try:
                tip, stiffness = given
                tip = np.asarray(tip, dtype=np.float64)
            except (TypeError, ValueError):
                raise DomainError(what, "a tip of three lengths and E I", shown(given)) from None
            if tip.shape != (3,) or not np.isfinite(tip).all() or not tip.any():
                raise DomainError(what, "a tip of three lengths away from the joint", shown(given))
            found.append((str(name), tuple(tip.tolist()), positive(what, stiffness, "N m^2")))
        object.__setattr__(self, "links", tuple(found))

    def form(self) -> Self:
        """Return the same links with a stiffness of 1 N m^2."""
        return type(self)({name: (tip, 1.0) for name, tip, _ in self.links})

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return the stiffnesses."""
        return tuple(stiffness for _, _, stiffness in self.links)

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse joints that do not exist or do not move."""
        for name, _, _ in self.links:
            body_of(model, name)

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of bending moments at two points of each link.

        The moment is linear along the link, so that Gauss's rule of two points integrates its
        square exactly.
        """
        names = [name for name, _, _ in self.links]
        found = []
        for rows, (_, tip, _), stiffness in zip(
            wrench_rows(problem, names), self.links, p, strict=True
        ):
            length = float(np.linalg.norm(tip))
            e = np.array(tip) / length
            a = np.cross(e, np.eye(3)[int(np.argmin(np.abs(e)))])
            a /= np.linalg.norm(a)
            for share in (0.5 - 0.5 / np.sqrt(3.0), 0.5 + 0.5 / np.sqrt(3.0)):
                arm = share * length * e
                for axis in (a, np.cross(e, a)):
                    # axis . (n - arm x f)
                    lever = np.cross(axis, arm)
                    factors = [*axis.tolist(), *(-lever).tolist()]
                    row, offset = _combined(rows, factors)
                    found.append(Square(0.5 * length / stiffness, row, offset))
        return found


def _combined(rows: WrenchRows, factors: Sequence[float]) -> tuple[ContactRow, Scalar]:
    """Return a sum of the components of a wrench, with factors."""
    total: ContactRow = {}
    constant: Scalar = 0.0
    for (row, offset), factor in zip(rows, factors, strict=True):
        if factor:
            constant = constant + factor * offset
            for k, x in row.items():
                total[k] = total[k] + factor * x if k in total else factor * x
    return total, constant


def _names(what: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    names = tuple(given) if isinstance(given, (tuple, list)) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{what}: joints must be names, got {shown(given)}; write ('knee',)")
    return names
