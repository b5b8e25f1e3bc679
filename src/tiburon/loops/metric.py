"""Constraints in the metric of the mass matrix H = L^T D L, and three factorizations of H.

    G = D^-1/2 L^-T J^T
    G^T y = wanted - J vd_free,    G lambda = y,    vd = vd_free + L^-1 D^-1/2 y

An orthogonal factorization with pivoting determines the rank of G and yields the multipliers of
least norm (docs/numbers.md). It does not square the condition number: near a singular configuration
lambda grows, but y and the accelerations keep their accuracy.

`TreeMetric` factors a mass matrix that has been computed. `ArticulatedMetric` obtains the same
factors from articulated-body inertias without forming H (Featherstone 1987, eqs. 6.46-6.52).
`CoupledMetric` does so for trees in which joints follow other joints: a variable shared by several
joints is eliminated at the last body that carries all of them, or at the world
(`tiburon.algorithms.ties`), so that each velocity variable has one direction.

Symbols:
    J, lambda   constraint Jacobian, constraint forces
    S, d, W     joint direction, S^T IA S, IA S / d
    X           motion transform from the parent's frame to the body's
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiburon.algorithms.coupled_joints import (
    Closing,
    Freed,
    Handle,
    Rates,
    Released,
    closings,
    rates_of,
)
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.sweep import each, inward, outward
from tiburon.algorithms.tape_calls import JointVector
from tiburon.errors import DomainError
from tiburon.loops.constraints import Row, jacobian_pattern
from tiburon.model import Model, Plan, PlanBody
from tiburon.model.joints.joint import accelerate_direction, coordinate_axis
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.tree import FactorTree

__all__ = [
    "CUT",
    "LARGEST_CUT",
    "ArticulatedMetric",
    "ConstrainedMotion",
    "CoupledMetric",
    "Metric",
    "TreeMetric",
    "articulated_metric",
    "checked_tolerance",
    "largest",
    "rank_cut",
    "solve_in_metric",
]


CUT = 1e-10
"""Length, relative to the longest, below which a constraint is redundant on the manifold."""

CUT_PER_RESIDUAL = 10.0
"""Cut per constraint violation [1/m or 1/rad].

Off the manifold by d, a redundant constraint is independent by about d over the size of the links.
Cuts of 1 to 100 times the violation give the same accelerations.
"""

LARGEST_CUT = 1e-4
"""Largest cut of mechanisms whose constraints may all be independent.

A constraint on heavy links beside one on light links is as short, and is to be kept.
"""

OVERCONSTRAINED_CUT = 1e-2
"""Largest cut where constraints are as many as the joint velocities that they bind.

Such a mechanism moves only where some of them are redundant.
"""


def largest(values: Sequence[Scalar]) -> Scalar:
    """Return the largest absolute value, 0 for none."""
    found: Scalar = 0.0
    for value in values:
        found = np.maximum(found, np.abs(value))
    return found


def checked_tolerance(tolerance: Any) -> float:
    """Return a redundancy tolerance.

    Raises:
        DomainError: If it is not within 0 and `OVERCONSTRAINED_CUT`.
    """
    try:
        found = math.nan if isinstance(tolerance, str) else float(tolerance)
    except (TypeError, ValueError):
        found = math.nan
    # NaN is not within
    if not 0.0 <= found <= OVERCONSTRAINED_CUT:
        raise DomainError(
            "redundancy_tolerance",
            f"a number from 0 to {OVERCONSTRAINED_CUT:g}",
            f"{tolerance!r}" if found != found else f"{found:g}",
            advice="take ten times the rounding of lengths and axes: 1e-5 where they have six "
            "digits",
        )
    return found


@lru_cache(maxsize=64)
def largest_cut(model: Model) -> float:
    """Return the cut of a model at any constraint violation."""
    parts: list[tuple[int, set[int]]] = []
    for used in jacobian_pattern(model):
        # constraints that share velocity variables are counted together
        joined = [part for part in parts if part[1] & used]
        parts = [part for part in parts if not part[1] & used]
        if used:
            columns = set[int](used).union(*(part[1] for part in joined))
            parts.append((1 + sum(part[0] for part in joined), columns))
    overconstrained = parts and all(count >= len(columns) for count, columns in parts)
    return OVERCONSTRAINED_CUT if overconstrained else LARGEST_CUT


def rank_cut(model: Model, value: Sequence[Scalar], least: float = CUT) -> Scalar:
    """Return the relative length below which a constraint is redundant in a configuration.

    A redundant constraint becomes independent where the configuration is off the manifold, by as
    little as that is: its direction is then that of the violation, and means nothing. So the cut
    grows with the violation.

    Args:
        model: The robot.
        value: Constraint values [m or rad]; zero on the manifold.
        least: Cut on the manifold: `CUT`, or a redundancy tolerance above it.
    """
    most = largest_cut(model)
    return (
        np.maximum(least, np.minimum(most, CUT_PER_RESIDUAL * largest(value)))
        if least < most
        else least
    )


class ConstrainedMotion(NamedTuple):
    """How a robot with loops answers its forces."""

    vd: tuple[Scalar, ...]
    """Joint acceleration [m/s^2 or rad/s^2], nv scalars."""

    multipliers: tuple[Scalar, ...]
    """Constraint force along each constraint [N or N m]; the shortest where several will do."""

    rank: Scalar
    """Number of independent constraints; -1 where a method decides none."""

    ratio: Scalar
    """Smallest over largest singular value, estimated, of the independent constraints."""

    iterations: Scalar = 0.0
    """Steps it took, where a method iterates."""


class Metric(Protocol):
    """A mass matrix, factored."""

    @property
    def softness(self) -> Sequence[Scalar]:
        """1/D, one per velocity variable."""

    def lowered(self, force: Row) -> Row:
        """Return L^-T times joint forces, by velocity variable; zeros are left out."""

    def raised(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return L^-1 times a vector."""


def solve_in_metric(
    metric: Metric,
    rows: Sequence[Row],
    free: Sequence[Scalar],
    wanted: Sequence[Scalar],
    cut: Scalar = CUT,
) -> tuple[list[Scalar], list[Scalar], Scalar, Scalar]:
    """Solve for accelerations and constraint forces by orthogonal factors.

    Args:
        metric: The mass matrix, factored.
        rows: J, one row per constraint, none of them always zero.
        free: Joint forces that act without constraints [N or N m], nv scalars.
        wanted: J vd: what the constraints ask of the accelerations.
        cut: Length, relative to the longest, below which a constraint is redundant.

    Returns:
        Joint accelerations, one force per row, rank, and ratio of singular values.
    """
    roots = [np.sqrt(x) for x in metric.softness]
    size = len(roots)
    pushed = metric.lowered(dict(enumerate(free)))
    alone = [pushed[i] * roots[i] for i in range(size)]
    if not rows:
        return list(metric.raised([x * y for x, y in zip(roots, alone, strict=True)])), [], 0.0, 1.0
    lowered = [metric.lowered(row) for row in rows]
    G = [[row[i] * roots[i] if i in row else 0.0 for row in lowered] for i in range(size)]
    factor = factor_orthogonal(as_traced(G), cut=cut)
    missing = [
        want - sum((x * roots[i] * alone[i] for i, x in row.items()), start=0.0)
        for want, row in zip(wanted, lowered, strict=True)
    ]
    change = list(factor.solve_transpose(as_traced(missing)))
    forces = list(factor.solve(as_traced(change)))
    total = [roots[i] * (alone[i] + change[i]) for i in range(size)]
    return list(metric.raised(total)), forces, factor.rank, factor.ratio


class TreeMetric:
    """The mass matrix of a tree, factored: H = L^T D L."""

    def __init__(self, plan: Plan, elements: Sequence[Scalar]) -> None:
        """Factor.

        Args:
            plan: Layout of the model.
            elements: Those elements of H that a factorization along the tree reads.
        """
        parents = expanded_parents(plan)
        primitive = FactorTree(parents)
        # spelled out: its numbers are used one by one here, and derivatives of a call are those of
        # the factor as a whole
        numbers = primitive.apply(elements, inline=True)
        self._columns = primitive.layout.columns
        self._starts = primitive.layout.starts
        self._numbers = list(numbers)
        self.softness = [self._numbers[end - 1] for end in self._starts[1:]]
        """1/D, one per velocity variable."""

    def lowered(self, force: dict[int, Scalar]) -> dict[int, Scalar]:
        """Return L^-T times joint forces, by velocity variable; zeros are left out."""
        found = dict(force)
        for i in range(len(self._columns) - 1, -1, -1):
            if i not in found:
                continue
            for place, j in enumerate(self._columns[i][:-1], start=self._starts[i]):
                part = self._numbers[place] * found[i]
                found[j] = found[j] - part if j in found else -part
        return found

    def raised(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return L^-1 times a vector."""
        found: list[Scalar] = []
        for i, columns in enumerate(self._columns):
            total = x[i]
            for place, j in enumerate(columns[:-1], start=self._starts[i]):
                total = total - self._numbers[place] * found[j]
            found.append(total)
        return tuple(found)


class _ArticulatedBody(NamedTuple):
    """A body with all beyond it, its joint free."""

    X: Transform
    W: tuple[Force, ...]
    softness: tuple[Scalar, ...]


class _BodyAcceleration(NamedTuple):
    qdd: tuple[Scalar, ...]
    a: Motion


class ArticulatedMetric:
    """The mass matrix of a tree as joints that give way one by one: H = L^T D L, never formed.

    Attributes:
        softness: 1/D, one per velocity variable.
    """

    def __init__(self, plan: Plan, q: Sequence[Scalar]) -> None:
        """Find the articulated-body inertia of every body (Featherstone 1987, eqs. 6.46-6.52).

        Args:
            plan: Layout of the model.
            q: Position [m or rad], nq scalars.
        """

        def transform(body: PlanBody, _: object) -> Transform:
            return body.transform(q[body.q])

        def hold(
            body: PlanBody, IA: ArticulatedInertia, X: Transform
        ) -> tuple[_ArticulatedBody, ArticulatedInertia]:
            columns = body.joint.subspace(q[body.q])
            felt = body.armature or (0.0,) * len(columns)
            W: list[Force] = []
            softness: list[Scalar] = []
            # directions of one joint give way one by one, the last first
            for S, own in reversed(list(zip(columns, felt, strict=True))):
                U = IA.apply(S)
                d = S.dot(U) + own
                W.append(Force.from_array([x / d for x in U]))
                softness.append(1.0 / d)
                IA = IA.subtract_products((U,), (W[-1],))
            return _ArticulatedBody(X, tuple(W[::-1]), tuple(softness[::-1])), X.inertia_to_parent(
                IA
            )

        def push(
            body: PlanBody, p: Force, tau: tuple[Scalar, ...], held: _ArticulatedBody
        ) -> tuple[tuple[Scalar, ...], Force]:
            shares: list[Scalar] = []
            columns = body.joint.subspace(q[body.q])
            for S, W, force in reversed(list(zip(columns, held.W, tau, strict=True))):
                share = force - S.dot(p)
                shares.append(share)
                p = p + W * share
            return tuple(shares[::-1]), held.X.force_to_parent(p)

        def accelerate(
            body: PlanBody,
            parent: _BodyAcceleration,
            held: _ArticulatedBody,
            rates: tuple[Scalar, ...],
        ) -> _BodyAcceleration:
            a = held.X.motion(parent.a)
            qdd: list[Scalar] = []
            for S, W, rate in zip(body.joint.subspace(q[body.q]), held.W, rates, strict=True):
                qdd.append(rate - a.dot(W))
                a = a + S * qdd[-1]
            return _BodyAcceleration(tuple(qdd), a)

        transforms = outward(plan, transform, Transform.identity())
        alone = [body.felt.articulated() for body in plan.bodies]
        self._plan, self._push, self._accelerate = plan, push, accelerate
        self._held = inward(plan, hold, alone, transforms)
        self.softness = [x for held in self._held for x in held.softness]
        self._of = [body.index for body in plan.bodies for _ in range(body.v.start, body.v.stop)]

    def lowered(self, force: Row) -> Row:
        """Return L^-T times joint forces, by velocity variable; zeros are left out."""
        plan = self._plan
        found: Row = {}
        pushed = {self._of[i] for i in force}
        felt: dict[int, Force] = {}
        # parents come first in a plan: from the last body on, each has all it feels
        for index in range(len(plan.bodies) - 1, -1, -1):
            if index not in pushed and index not in felt:
                continue
            body = plan.bodies[index]
            tau = tuple(force.get(i, 0.0) for i in range(body.v.start, body.v.stop))
            given = ([felt.get(index, Force.zero())], [tau], [self._held[index]])
            ((shares, rest),) = each(plan, self._push, [index], *given)
            found.update(zip(range(body.v.start, body.v.stop), shares, strict=True))
            above = body.parent
            if above != WORLD_BODY:
                felt[above] = felt[above] + rest if above in felt else rest
        return found

    def raised(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return L^-1 times a vector."""
        plan = self._plan
        rates = [tuple(x[i] for i in range(body.v.start, body.v.stop)) for body in plan.bodies]
        root = _BodyAcceleration((), Motion.zero())
        visits = outward(plan, self._accelerate, root, self._held, rates)
        return tuple(qdd for visit in visits for qdd in visit.qdd)


def articulated_metric(plan: Plan, q: Sequence[Scalar]) -> Metric:
    """Return the mass matrix of a tree as directions that give way one by one.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
    """
    return CoupledMetric(plan, q) if plan.has_couplings else ArticulatedMetric(plan, q)


class _CoupledBody(NamedTuple):
    """A body with all beyond it, its joint free."""

    X: Transform
    joint: Released
    handed_on: Handle


class _CoupledAcceleration(NamedTuple):
    qdd: tuple[Scalar, ...]
    a: Motion
    rates: Rates


class CoupledMetric:
    """The mass matrix of a tree with joints that follow others: H = L^T D L, never formed.

    Attributes:
        softness: 1/D, one per velocity variable.
    """

    def __init__(self, plan: Plan, q: Sequence[Scalar]) -> None:
        """Free all joints.

        Args:
            plan: Layout of the model.
            q: Position [m or rad], nq scalars.
        """
        self._plan, self._q = plan, JointVector(q)
        self._transforms = outward(plan, self._transform, Transform.identity())
        rest = (0.0,) * plan.nv
        self._closing, self._at_world = closings(plan, rest, (True,) * plan.nv)
        self._held, self._closed = self._freed(rest)
        softness: list[Scalar] = [0.0] * plan.nv
        for body, held in zip(plan.bodies, self._held, strict=True):
            for variable, _, freed in self._directions(body, held):
                softness[variable] = 1.0 / freed.d
        for (variable, _), freed in zip(self._at_world.beyond, self._closed, strict=True):
            softness[variable] = 1.0 / freed.d
        self.softness = softness

    def _transform(self, body: PlanBody, _: object) -> Transform:
        return body.transform(self._q[body.q])

    def _freed(self, force: Sequence[Scalar]) -> tuple[Sequence[_CoupledBody], tuple[Freed, ...]]:
        """Free all joints under joint forces, bodies at rest."""
        plan, q, tau = self._plan, self._q, JointVector(force)

        def hold(
            body: PlanBody, whole: Handle, X: Transform, closing: Closing
        ) -> tuple[_CoupledBody, Handle]:
            S = body.joint.subspace(q[body.q])
            found = whole.released(S, tau[body.v], (True,) * len(S), closing, body.armature)
            left = found.left.handed_on(X, Motion.zero())
            return _CoupledBody(X, found, left), left

        closing, at_world = closings(plan, force, (True,) * plan.nv)
        alone = [Handle(body.felt.articulated(), Force.zero()) for body in plan.bodies]
        held = inward(plan, hold, alone, self._transforms, closing)
        total = Handle.zero()
        for body, kept in zip(plan.bodies, held, strict=True):
            total = total + kept.handed_on if body.parent == WORLD_BODY else total
        return held, total.closed(at_world.beyond)[1]

    def _directions(self, body: PlanBody, held: _CoupledBody) -> list[tuple[int, float, Freed]]:
        """Return variable and sign of each direction that is freed at a body, and the direction."""
        closing, joint = self._closing[body.index], held.joint
        found = [
            (variable, 1.0, freed)
            for (variable, _), freed in zip(closing.beyond, joint.beyond, strict=True)
        ]
        if not closing.shared:
            own = reversed(list(enumerate(body.joint.subspace(self._q[body.q]), body.v.start)))
            for (variable, S), freed in zip(own, joint.freed, strict=True):
                axis = coordinate_axis(S)
                # along a coordinate axis the direction that was freed is the axis itself
                found.append((variable, 1.0 if axis is None else axis[1], freed))
        found += [
            (variable, 1.0, freed)
            for (variable, _), freed in zip(closing.own, joint.own, strict=True)
        ]
        return found

    def lowered(self, force: Row) -> Row:
        """Return L^-T times joint forces, by velocity variable; zeros are left out."""
        held, closed = self._freed(tuple(force.get(i, 0.0) for i in range(self._plan.nv)))
        found: Row = {}
        for body, kept in zip(self._plan.bodies, held, strict=True):
            for variable, sign, freed in self._directions(body, kept):
                found[variable] = sign * freed.eliminated.rate * freed.d
        for (variable, _), freed in zip(self._at_world.beyond, closed, strict=True):
            found[variable] = freed.eliminated.rate * freed.d
        return {i: x for i, x in found.items() if not (isinstance(x, float) and x == 0.0)}

    def raised(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return L^-1 times a vector."""
        plan, q = self._plan, self._q

        def pushed(
            closes: Sequence[tuple[int, Scalar]], freed: Sequence[Freed], own: dict[int, Scalar]
        ) -> list[Freed]:
            return [
                one._replace(eliminated=one.eliminated._replace(rate=own[variable]))
                for (variable, _), one in zip(closes, freed, strict=True)
            ]

        def accelerate(
            body: PlanBody,
            parent: _CoupledAcceleration,
            held: _CoupledBody,
            closing: Closing,
            given: tuple[tuple[int, Scalar], ...],
        ) -> _CoupledAcceleration:
            own, joint = dict(given), held.joint
            a = held.X.motion(parent.a)
            rates = rates_of(closing.own, pushed(closing.own, joint.own, own), a, parent.rates)
            freed, qdd = list(joint.freed), []
            columns = body.joint.subspace(q[body.q])
            armatures = body.armature or (None,) * len(columns)
            for k, (S, felt) in enumerate(zip(columns, armatures, strict=True)):
                if closing.shared:
                    rate = dict(rates)[closing.shared[0]]
                    a = a + S * rate
                else:
                    axis = coordinate_axis(S)
                    start = own[body.v.start + k] * (1.0 if axis is None else axis[1])
                    met = freed.pop().met(rates)
                    met = met._replace(rate=met.rate + start)
                    rate, a = accelerate_direction(met, a, S, felt)
                qdd.append(rate)
            rates = rates_of(closing.beyond, pushed(closing.beyond, joint.beyond, own), a, rates)
            return _CoupledAcceleration(tuple(qdd), a, rates)

        given = []
        for body, closing in zip(plan.bodies, self._closing, strict=True):
            own = () if closing.shared else range(body.v.start, body.v.stop)
            given.append(tuple((i, x[i]) for i in (*own, *closing.variables)))
        at_world = {i: x[i] for i in self._at_world.variables}
        closed = pushed(self._at_world.beyond, self._closed, at_world)
        rates = rates_of(self._at_world.beyond, closed, Motion.zero(), ())
        root = _CoupledAcceleration((), Motion.zero(), rates)
        visits = outward(plan, accelerate, root, self._held, self._closing, given)
        found: list[Scalar] = [0.0] * plan.nv
        for body, visit in zip(plan.bodies, visits, strict=True):
            found[body.v] = visit.qdd
        return tuple(found)
