"""Constraints in the metric of the mass matrix H = L^T D L, and three factorizations of H.

    G = D^-1/2 L^-T J^T
    G^T y = rhs - J vd_free,    G lambda = y,    vd = vd_free + L^-1 D^-1/2 y

An orthogonal factorization with pivoting determines the rank of G and yields the multipliers of
least norm (docs/numbers.md). It does not square the condition number: near a singular configuration
lambda grows, but y and the accelerations keep their accuracy.

`TreeMetric` factors a mass matrix that has been computed. `ArticulatedMetric` obtains the same
factors from articulated-body inertias without forming H (Featherstone 1987, eqs. 6.46-6.52).
`CoupledMetric` does so for trees in which joints follow other joints: a variable shared by several
joints is eliminated at the last body that carries all of them, or at the world
(`tiburon.algorithms.coupled_joints`), so that each velocity variable has one direction.

Symbols:
    J, lambda   constraint Jacobian, constraint forces
    S, d, W     joint direction, S^T IA S, IA S / d
    X           motion transform from the parent's frame to the body's
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiburon.algorithms.aba import accelerate_direction
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
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import each, inward, joint_transforms, outward, to_roots
from tiburon.errors import DomainError
from tiburon.loops.constraints import Row, jacobian_pattern
from tiburon.model import Model, Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Transform
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import OrthogonalFactor, factor_orthogonal
from tiburon.trace.primitives.tree import FactorTree

MIN_CUT = 1e-10
"""Relative singular value below which a constraint is redundant on the manifold."""

CUT_PER_RESIDUAL = 10.0
"""Rank cut per constraint residual [1/m or 1/rad].

At a residual d, redundant constraints are independent by about d over the size of the links. Cuts
of 1 to 100 times the residual give the same accelerations.
"""

MAX_CUT = 1e-4
"""Largest rank cut of mechanisms whose constraints may all be independent; smaller, since the
constraint of a heavy link beside light ones has a small singular value and must be kept."""

OVERCONSTRAINED_CUT = 1e-2
"""Largest rank cut of mechanisms with at least as many constraints as constrained velocities, which
can move only if some constraints are redundant."""


def max_abs(values: Scalars) -> Scalar:
    """Return the largest absolute value, 0 for none."""
    found: Scalar = 0.0
    for value in values:
        found = np.maximum(found, np.abs(value))
    return found


def checked_tolerance(tolerance: Any) -> float:
    """Return a redundancy tolerance; raise DomainError unless 0 <= it <= `OVERCONSTRAINED_CUT`."""
    try:
        found = math.nan if isinstance(tolerance, str) else float(tolerance)
    except (TypeError, ValueError):
        found = math.nan
    # also false for NaN
    if not 0.0 <= found <= OVERCONSTRAINED_CUT:
        raise DomainError(
            "redundancy_tolerance",
            f"a value from 0 to {OVERCONSTRAINED_CUT:g}",
            f"{tolerance!r}" if found != found else f"{found:g}",
            advice="pass ten times the rounding of lengths and axes: 1e-5 where they have six "
            "digits",
        )
    return found


def max_cut(model: Model) -> float:
    """Return the largest rank cut of a model, at any constraint residual."""
    parts: list[tuple[int, set[int]]] = []
    for used in jacobian_pattern(model):
        # constraints that share velocity variables are counted together
        joined = [part for part in parts if part[1] & used]
        parts = [part for part in parts if not part[1] & used]
        if used:
            columns = set[int](used).union(*(part[1] for part in joined))
            parts.append((1 + sum(part[0] for part in joined), columns))
    overconstrained = parts and all(count >= len(columns) for count, columns in parts)
    return OVERCONSTRAINED_CUT if overconstrained else MAX_CUT


def rank_cut(model: Model, value: Scalars, least: float = MIN_CUT) -> Scalar:
    """Compute the relative singular value below which a constraint counts as redundant.

    Off the constraint manifold redundant constraints become independent by about the residual, in
    a meaningless direction; the cut grows with the residual.

    Args:
        model: The robot.
        value: Constraint residual [m or rad].
        least: Cut on the manifold: `MIN_CUT`, or a redundancy tolerance above it.
    """
    most = max_cut(model)
    return (
        np.maximum(least, np.minimum(most, CUT_PER_RESIDUAL * max_abs(value)))
        if least < most
        else least
    )


PROJECTION_ROUNDING = 1e-15
"""Error of a unit vector that is projected across constraints of equal singular values."""


def projection_error(loops: OrthogonalFactor, cut: Scalar) -> Scalar:
    """Return the error of a unit vector from which the part along constraints is subtracted.

    Rounding turns the permitted motions by its ratio to the smallest independent constraint. Where
    the loops permit no motion, what remains of every vector is this error and nothing else.

    Args:
        loops: Factored constraints.
        cut: Relative singular value below which they are redundant.
    """
    return np.maximum(cut, PROJECTION_ROUNDING / np.maximum(loops.ratio, MIN_CUT))


class ConstrainedMotion(NamedTuple):
    """Accelerations and constraint forces of a robot with loops."""

    vd: tuple[Scalar, ...]
    """Joint acceleration [m/s^2 or rad/s^2], nv scalars."""

    multipliers: tuple[Scalar, ...]
    """Force along each constraint [N or N m]; of least norm if it is not unique."""

    conditioning: Callable[[], tuple[Scalar, Scalar]]
    """Computes the number of independent constraints, -1 if the method does not determine it, and
    the estimated ratio of their smallest and largest singular value."""

    iterations: Scalar = 0.0
    """Number of iterations of iterative methods."""

    singular_arms: tuple[Scalar, ...] = ()
    """1 for each arm of a star that is singular, 0 for others; empty from other methods."""

    closure: tuple[Scalar, Scalar] | None = None
    """Largest constraint residual and its rate, as `closure_of` returns them; None from methods
    that compute the constraints as it does."""

    @property
    def rank(self) -> Scalar:
        """Number of independent constraints; traced at every access, as is `ratio`."""
        return self.conditioning()[0]

    @property
    def ratio(self) -> Scalar:
        """Smallest over largest singular value, estimated, of the independent constraints."""
        return self.conditioning()[1]


def scattered(values: Scalars, rows: Sequence[int], size: int) -> tuple[Scalar, ...]:
    """Return a vector of a given size with values in some rows and zeros elsewhere."""
    found: list[Scalar] = [0.0] * size
    for row, value in zip(rows, values, strict=True):
        found[row] = value
    return tuple(found)


class Metric(Protocol):
    """A factored mass matrix, H = L^T D L."""

    @property
    def inverse_D(self) -> Scalars:
        """1/D, one per velocity variable."""

    def solve_transpose(self, force: Row) -> Row:
        """Return L^-T times joint forces, by velocity variable, without zeros."""

    def solve_lower(self, x: Scalars) -> tuple[Scalar, ...]:
        """Return L^-1 times a vector."""


def solve_in_metric(
    metric: Metric, rows: Sequence[Row], free: Scalars, rhs: Scalars, cut: Scalar = MIN_CUT
) -> tuple[list[Scalar], list[Scalar], Scalar, Scalar]:
    """Solve for accelerations and constraint forces by an orthogonal factorization.

    Args:
        metric: The factored mass matrix.
        rows: J, one row per constraint, none structurally zero.
        free: tau - C, joint forces without constraints [N or N m], nv scalars.
        rhs: Right-hand side of J vd = rhs [m/s^2 or rad/s^2].
        cut: Relative singular value below which a constraint is redundant.

    Returns:
        Joint accelerations, one force per row, rank, and ratio of singular values.
    """
    roots = [np.sqrt(x) for x in metric.inverse_D]
    size = len(roots)
    pushed = metric.solve_transpose(dict(enumerate(free)))
    alone = [pushed[i] * roots[i] for i in range(size)]
    if not rows:
        return (
            list(metric.solve_lower([x * y for x, y in zip(roots, alone, strict=True)])),
            [],
            0.0,
            1.0,
        )
    lowered = [metric.solve_transpose(row) for row in rows]
    G = [[row[i] * roots[i] if i in row else 0.0 for row in lowered] for i in range(size)]
    factor = factor_orthogonal(as_traced(G), cut=cut)
    missing = [
        want - sum((x * roots[i] * alone[i] for i, x in row.items()), start=0.0)
        for want, row in zip(rhs, lowered, strict=True)
    ]
    change = list(factor.solve_transpose(as_traced(missing)))
    forces = list(factor.solve(as_traced(change)))
    total = [roots[i] * (alone[i] + change[i]) for i in range(size)]
    return list(metric.solve_lower(total)), forces, factor.rank, factor.ratio


def tree_factor(parents: Sequence[int], elements: Scalars) -> list[Scalar]:
    """Factor elements of H, given in the order of the tree factorization, into L and 1/D.

    Inlined: entries are used one by one, and a call has derivatives as a whole only.
    """
    return list(FactorTree(parents).apply(elements, inline=True))


class TreeMetric:
    """Factors H = L^T D L of a computed mass matrix."""

    def __init__(self, plan: Plan, elements: Scalars) -> None:
        """Factor elements of H, given in the order of the tree factorization."""
        parents = expanded_parents(plan)
        self._hold(parents, tree_factor(parents, elements))

    @classmethod
    def from_factor(cls, parents: Sequence[int], entries: Scalars) -> "TreeMetric":
        """Return the metric of factors that `tree_factor` computed, for any expanded parents."""
        found = cls.__new__(cls)
        found._hold(parents, entries)
        return found

    def _hold(self, parents: Sequence[int], entries: Scalars) -> None:
        self._entries = list(entries)
        layout = FactorTree(parents).layout
        self._columns, self._starts = layout.columns, layout.starts
        self.inverse_D = [self._entries[end - 1] for end in self._starts[1:]]
        """1/D, one per velocity variable."""

    @functools.cached_property
    def roots(self) -> list[Scalar]:
        """D^-1/2, one per velocity variable."""
        return [np.sqrt(x) for x in self.inverse_D]

    @property
    def entries(self) -> list[Scalar]:
        """L and 1/D as `FactorTree` stores them."""
        return self._entries

    def ancestors(self, i: int) -> list[int]:
        """Return the velocity variables from the root to one of them, which is the last."""
        return self._columns[i]

    def factors(self, i: int) -> list[Scalar]:
        """Return row i of L, left of the diagonal, in the order of `ancestors`."""
        return self._entries[self._starts[i] : self._starts[i + 1] - 1]

    def solve_transpose(self, force: dict[int, Scalar]) -> dict[int, Scalar]:
        """Return L^-T times joint forces, by velocity variable, without zeros."""
        found = dict(force)
        for i in range(len(self._columns) - 1, -1, -1):
            if i not in found:
                continue
            for place, j in enumerate(self._columns[i][:-1], start=self._starts[i]):
                part = self._entries[place] * found[i]
                found[j] = found[j] - part if j in found else -part
        return found

    def solve_lower(self, x: Scalars) -> tuple[Scalar, ...]:
        """Return L^-1 times a vector."""
        found: list[Scalar] = []
        for i, columns in enumerate(self._columns):
            total = x[i]
            for place, j in enumerate(columns[:-1], start=self._starts[i]):
                total = total - self._entries[place] * found[j]
            found.append(total)
        return tuple(found)

    def multiply_transpose(self, x: Scalars) -> tuple[Scalar, ...]:
        """Return L^T times a vector."""
        found = list(x)
        for i, columns in enumerate(self._columns):
            for place, j in enumerate(columns[:-1], start=self._starts[i]):
                found[j] = found[j] + self._entries[place] * x[i]
        return tuple(found)


class _ArticulatedBody(NamedTuple):
    """Factors of H at one body: W and 1/d of each joint direction."""

    X: Transform
    W: tuple[Force, ...]
    inverse_D: tuple[Scalar, ...]


class _BodyAcceleration(NamedTuple):
    qdd: tuple[Scalar, ...]
    a: Motion


class ArticulatedMetric:
    """Factors H = L^T D L from articulated-body inertias, without forming H.

    Attributes:
        inverse_D: 1/D, one per velocity variable.
    """

    def __init__(self, plan: Plan, q: Scalars, factors: Any = None, *, lanes: bool = False) -> None:
        """Compute articulated-body inertias (Featherstone 1987, eqs. 6.46-6.52).

        Args:
            plan: Layout of the tree.
            q: Configuration [m or rad], nq scalars.
            factors: What `factors` of such a metric was, to compute nothing again.
            lanes: Whether like branches are computed side by side.
        """

        def eliminate(
            body: PlanBody, IA: ArticulatedInertia, X: Transform
        ) -> tuple[_ArticulatedBody, ArticulatedInertia]:
            columns = body.joint.subspace(q[body.q])
            armatures = body.armature or (0.0,) * len(columns)
            W: list[Force] = []
            inverse_D: list[Scalar] = []
            # directions of a joint are eliminated one by one, the last first
            for S, own in reversed(list(zip(columns, armatures, strict=True))):
                U = IA.apply(S)
                d = S.dot(U) + own
                W.append(Force.from_array([x / d for x in U]))
                inverse_D.append(1.0 / d)
                IA = IA.subtract_products((U,), (W[-1],))
            return _ArticulatedBody(X, tuple(W[::-1]), tuple(inverse_D[::-1])), X.inertia_to_parent(
                IA
            )

        def push(
            body: PlanBody, p: Force, tau: tuple[Scalar, ...], factors: _ArticulatedBody
        ) -> tuple[tuple[Scalar, ...], Force]:
            shares: list[Scalar] = []
            columns = body.joint.subspace(q[body.q])
            for S, W, force in reversed(list(zip(columns, factors.W, tau, strict=True))):
                share = force - S.dot(p)
                shares.append(share)
                p = p + W * share
            return tuple(shares[::-1]), factors.X.force_to_parent(p)

        def accelerate(
            body: PlanBody,
            parent: _BodyAcceleration,
            factors: _ArticulatedBody,
            rates: tuple[Scalar, ...],
        ) -> _BodyAcceleration:
            a = factors.X.motion(parent.a)
            qdd: list[Scalar] = []
            for S, W, rate in zip(body.joint.subspace(q[body.q]), factors.W, rates, strict=True):
                qdd.append(rate - a.dot(W))
                a = a + S * qdd[-1]
            return _BodyAcceleration(tuple(qdd), a)

        alone = [body.effective_inertia.articulated() for body in plan.bodies]
        self._plan, self._push, self._accelerate, self._q = plan, push, accelerate, q
        self._lanes = lanes
        if factors is None:
            transforms = joint_transforms(plan, q, lanes=lanes)
            factors = inward(plan, eliminate, alone, transforms, lanes=lanes)
        self._factors: tuple[_ArticulatedBody, ...] = tuple(factors)
        self.inverse_D = [x for factors in self._factors for x in factors.inverse_D]
        self._of = [body.index for body in plan.bodies for _ in range(body.v.start, body.v.stop)]

    @functools.cached_property
    def roots(self) -> list[Scalar]:
        """D^-1/2, one per velocity variable."""

        def root(
            body: PlanBody, _: tuple[Scalar, ...], factors: _ArticulatedBody
        ) -> tuple[Scalar, ...]:
            return tuple(np.sqrt(x) for x in factors.inverse_D)

        none: tuple[Scalar, ...] = ()
        visits = outward(self._plan, root, none, self._factors, lanes=self._lanes)
        return [x for own in visits for x in own]

    @property
    def factors(self) -> tuple[Any, ...]:
        """The factors of all bodies, as functions pass them on."""
        return self._factors

    def columns(self, body: int, forces: Sequence[Force]) -> list[Row]:
        """Return L^-T J^T F for several forces F on one body, in its frame, by velocity variable.

        One pass over the joints between the body and the world, without J.
        """
        return self.columns_of([body], [forces])[0]

    def columns_of(
        self, bodies: Sequence[int], forces: Sequence[Sequence[Force]]
    ) -> list[list[Row]]:
        """Return the same for forces on each of several bodies."""

        def push(
            visited: PlanBody, carried: tuple[Force, ...], factors: _ArticulatedBody
        ) -> tuple[Any, Callable[[], tuple[Force, ...]]]:
            shares, left = [], []
            columns = visited.joint.subspace(q[visited.q])
            for f in carried:
                own: list[Scalar] = []
                for S, W in reversed(list(zip(columns, factors.W, strict=True))):
                    own.append(S.dot(f))
                    f = f - W * own[-1]
                shares.append(tuple(own[::-1]))
                left.append(f)
            return tuple(shares), lambda: tuple(factors.X.force_to_parent(f) for f in left)

        q, plan = self._q, self._plan
        every: list[list[Row]] = []
        given = [tuple(some) for some in forces]
        ways = to_roots(plan, bodies, push, given, self._factors, lanes=self._lanes)
        for some, way in zip(forces, ways, strict=True):
            found: list[Row] = [{} for _ in some]
            for passed, shares in way:
                for row, own in zip(found, shares, strict=True):
                    row.update(zip(range(passed.v.start, passed.v.stop), own, strict=True))
            every.append(found)
        return every

    def solve_transpose(self, force: Row, at: Mapping[int, Force] | None = None) -> Row:
        """Return L^-T times joint forces, by velocity variable, without zeros.

        Args:
            force: Joint forces by velocity variable.
            at: More forces on bodies by index, in their frames.
        """
        plan = self._plan
        found: Row = {}
        pushed = {self._of[i] for i in force}
        received: dict[int, Force] = {body: -f for body, f in (at or {}).items()}
        # bodies in reverse order, so that children come before their parents
        for index in range(len(plan.bodies) - 1, -1, -1):
            if index not in pushed and index not in received:
                continue
            body = plan.bodies[index]
            tau = tuple(force.get(i, 0.0) for i in range(body.v.start, body.v.stop))
            given = ([received.get(index, Force.zero())], [tau], [self._factors[index]])
            ((shares, rest),) = each(plan, self._push, [index], *given)
            found.update(zip(range(body.v.start, body.v.stop), shares, strict=True))
            above = body.parent
            if above != WORLD_BODY:
                received[above] = received[above] + rest if above in received else rest
        return found

    def solve_lower(self, x: Scalars) -> tuple[Scalar, ...]:
        """Return L^-1 times a vector."""
        plan = self._plan
        rates = [tuple(x[i] for i in range(body.v.start, body.v.stop)) for body in plan.bodies]
        root = _BodyAcceleration((), Motion.zero())
        visits = outward(plan, self._accelerate, root, self._factors, rates, lanes=self._lanes)
        return tuple(qdd for visit in visits for qdd in visit.qdd)

    def multiply_transpose(self, x: Scalars) -> tuple[Scalar, ...]:
        """Return L^T times a vector."""
        plan, q = self._plan, self._q

        def gather(
            body: PlanBody, p: Force, shares: tuple[Scalar, ...], factors: _ArticulatedBody
        ) -> tuple[tuple[Scalar, ...], Force]:
            found: list[Scalar] = []
            columns = body.joint.subspace(q[body.q])
            for S, W, share in reversed(list(zip(columns, factors.W, shares, strict=True))):
                found.append(share + S.dot(p))
                p = p + W * share
            return tuple(found[::-1]), factors.X.force_to_parent(p)

        shares = [tuple(x[i] for i in range(body.v.start, body.v.stop)) for body in plan.bodies]
        rest = [Force.zero() for _ in plan.bodies]
        visits = inward(plan, gather, rest, shares, self._factors, lanes=self._lanes)
        return tuple(tau for own in visits for tau in own)


def articulated_metric(plan: Plan, q: Scalars) -> Metric:
    """Return factors of the mass matrix from articulated-body inertias, with couplings or not."""
    return CoupledMetric(plan, q) if plan.has_couplings else ArticulatedMetric(plan, q)


class _CoupledBody(NamedTuple):
    """Result of eliminating the joint of one body."""

    X: Transform
    joint: Released
    at_parent: Handle


class _CoupledAcceleration(NamedTuple):
    qdd: tuple[Scalar, ...]
    a: Motion
    rates: Rates


class CoupledMetric:
    """Factors H = L^T D L of a tree with coupled joints, without forming H.

    Attributes:
        inverse_D: 1/D, one per velocity variable.
    """

    def __init__(self, plan: Plan, q: Scalars) -> None:
        """Eliminate all joints."""
        self._plan, self._q = plan, JointVector(q)
        self._transforms = joint_transforms(plan, self._q)
        rest = (0.0,) * plan.nv
        self._closing, self._at_world = closings(plan, rest, (True,) * plan.nv)
        self._factors, self._closed = self._freed(rest)
        inverse_D: list[Scalar] = [0.0] * plan.nv
        for body, factors in zip(plan.bodies, self._factors, strict=True):
            for variable, freed in self._directions(body, factors):
                inverse_D[variable] = 1.0 / freed.d
        for (variable, _), freed in zip(self._at_world.beyond, self._closed, strict=True):
            inverse_D[variable] = 1.0 / freed.d
        self.inverse_D = inverse_D

    def _freed(self, force: Scalars) -> tuple[Sequence[_CoupledBody], tuple[Freed, ...]]:
        """Eliminate all joints under given joint forces, bodies at rest."""
        plan, q, tau = self._plan, self._q, JointVector(force)

        def eliminate(
            body: PlanBody, whole: Handle, X: Transform, closing: Closing
        ) -> tuple[_CoupledBody, Handle]:
            S = body.joint.subspace(q[body.q])
            found = whole.released(S, tau[body.v], (True,) * len(S), closing, body.armature)
            left = found.left.to_parent(X, Motion.zero())
            return _CoupledBody(X, found, left), left

        closing, at_world = closings(plan, force, (True,) * plan.nv)
        alone = [Handle(body.effective_inertia.articulated(), Force.zero()) for body in plan.bodies]
        factors = inward(plan, eliminate, alone, self._transforms, closing)
        total = Handle.zero()
        for body, kept in zip(plan.bodies, factors, strict=True):
            total = total + kept.at_parent if body.parent == WORLD_BODY else total
        return factors, total.closed(at_world.beyond)[1]

    def _directions(self, body: PlanBody, factors: _CoupledBody) -> list[tuple[int, Freed]]:
        """Return variable and result of each direction that is eliminated at a body."""
        closing, joint = self._closing[body.index], factors.joint
        beyond = [variable for variable, _ in closing.beyond]
        own = [] if closing.shared else list(reversed(range(body.v.start, body.v.stop)))
        shared = [variable for variable, _ in closing.own]
        return list(zip((*beyond, *own, *shared), joint.directions, strict=True))

    def solve_transpose(self, force: Row) -> Row:
        """Return L^-T times joint forces, by velocity variable, without zeros."""
        factors, closed = self._freed(tuple(force.get(i, 0.0) for i in range(self._plan.nv)))
        found: Row = {}
        for body, kept in zip(self._plan.bodies, factors, strict=True):
            for variable, freed in self._directions(body, kept):
                found[variable] = freed.eliminated.rate * freed.d
        for (variable, _), freed in zip(self._at_world.beyond, closed, strict=True):
            found[variable] = freed.eliminated.rate * freed.d
        return {i: x for i, x in found.items() if not (isinstance(x, float) and x == 0.0)}

    def solve_lower(self, x: Scalars) -> tuple[Scalar, ...]:
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
            factors: _CoupledBody,
            closing: Closing,
            given: tuple[tuple[int, Scalar], ...],
        ) -> _CoupledAcceleration:
            own, joint = dict(given), factors.joint
            a = factors.X.motion(parent.a)
            rates = rates_of(closing.own, pushed(closing.own, joint.own, own), a, parent.rates)
            freed, qdd = list(joint.freed), []
            columns = body.joint.subspace(q[body.q])
            armatures = body.armature or (None,) * len(columns)
            for k, (S, armature) in enumerate(zip(columns, armatures, strict=True)):
                if closing.shared:
                    rate = dict(rates)[closing.shared[0]]
                    a = a + S * rate
                else:
                    met = freed.pop().met(rates)
                    met = met._replace(rate=met.rate + own[body.v.start + k])
                    rate, a = accelerate_direction(met, a, S, armature)
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
        visits = outward(plan, accelerate, root, self._factors, self._closing, given)
        found: list[Scalar] = [0.0] * plan.nv
        for body, visit in zip(plan.bodies, visits, strict=True):
            found[body.v] = visit.qdd
        return tuple(found)
