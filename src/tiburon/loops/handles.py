"""Forward dynamics with loops by articulated bodies: no mass matrix is formed.

A loop pulls at two links, its handles. What handles feel of each other goes through the joints
between them (Featherstone 1987, section 9.5): each joint takes its share of a force and hands
on the rest. The book collects that in inverse inertias Phi_ij of handles and forms R^T Phi R (eqs.
9.21, 9.27), which squares the condition of the loops. Summed over joints from the world outward,
which serves grounded robots too, Phi_ij is sum A u u^T A^T / d; so the shares themselves are
factors:

    R_k^T Phi R_l = sum over joints of g_k g_l,     g_k = S^T f_k / sqrt(d)

with f_k what a joint feels of a unit force of constraint k. The matrix of all g is what
`augmented` has as D^-1/2 L^-T J^T; from here on both methods do the same, rank and forces of least
length included. The cost is linear in the number of bodies times that of constraints.

Symbols:
    S, d, W     direction of freedom, S^T IA S along it, IA S / d
    X           map of motion from the parent's frame to the body's
    J           Jacobian of the constraints
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.bias import bias
from tiburon.algorithms.sweep import each, inward, outward
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.constraints import Constraints, Row, entries_in_use
from tiburon.loops.coupled_metric import CoupledMetric
from tiburon.loops.metric import CUT, ConstrainedMotion, Metric, rank_cut, solve_in_metric
from tiburon.model import Model, Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform, Vec3

__all__ = ["ArticulatedMetric", "articulated_metric", "handle_acceleration", "handle_answer"]


class _Held(NamedTuple):
    """A body with all beyond it, its joint free."""

    X: Transform
    W: tuple[Force, ...]
    softness: tuple[Scalar, ...]


class _Accelerating(NamedTuple):
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
        ) -> tuple[_Held, ArticulatedInertia]:
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
            return _Held(X, tuple(W[::-1]), tuple(softness[::-1])), X.inertia_to_parent(IA)

        def push(
            body: PlanBody, p: Force, tau: tuple[Scalar, ...], held: _Held
        ) -> tuple[tuple[Scalar, ...], Force]:
            shares: list[Scalar] = []
            columns = body.joint.subspace(q[body.q])
            for S, W, force in reversed(list(zip(columns, held.W, tau, strict=True))):
                share = force - S.dot(p)
                shares.append(share)
                p = p + W * share
            return tuple(shares[::-1]), held.X.force_to_parent(p)

        def accelerate(
            body: PlanBody, parent: _Accelerating, held: _Held, rates: tuple[Scalar, ...]
        ) -> _Accelerating:
            a = held.X.motion(parent.a)
            qdd: list[Scalar] = []
            for S, W, rate in zip(body.joint.subspace(q[body.q]), held.W, rates, strict=True):
                qdd.append(rate - a.dot(W))
                a = a + S * qdd[-1]
            return _Accelerating(tuple(qdd), a)

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
        root = _Accelerating((), Motion.zero())
        visits = outward(plan, self._accelerate, root, self._held, rates)
        return tuple(qdd for visit in visits for qdd in visit.qdd)


def articulated_metric(plan: Plan, q: Sequence[Scalar]) -> Metric:
    """Return the mass matrix of a tree as directions that give way one by one.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
    """
    return CoupledMetric(plan, q) if plan.has_couplings else ArticulatedMetric(plan, q)


def handle_acceleration(
    model: Model,
    plan: Plan,
    held: Constraints,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
    least_cut: float = CUT,
) -> ConstrainedMotion:
    """Compute joint accelerations and constraint forces of a robot with loops.

    Args:
        model: The robot.
        plan: Its layout.
        held: Its constraints in this state.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.
        least_cut: See `rank_cut`.
    """
    C = bias(plan, JointVector(q), JointVector(v), gravity, external)
    free = [force - c for force, c in zip(tau, C, strict=True)]
    cut = rank_cut(model, held.value, least_cut)
    return handle_answer(model, plan, q, held.jacobian, free, [-b for b in held.bias], cut)


def handle_answer(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    jacobian: Sequence[Row],
    free: Sequence[Scalar],
    wanted: Sequence[Scalar],
    cut: Scalar = CUT,
) -> ConstrainedMotion:
    """Solve for the accelerations that given joint forces and constraints make.

    Args:
        model: The robot.
        plan: Its layout.
        q: Position [m or rad], nq scalars.
        jacobian: J, one row per constraint.
        free: Joint forces that act without constraints [N or N m], nv scalars.
        wanted: J vd: what the constraints ask of the accelerations.
        cut: Length, relative to the longest, below which a constraint is redundant.
    """
    live = [k for k, used in enumerate(entries_in_use(model)) if used]
    metric = articulated_metric(plan, JointVector(q))
    vd, forces, rank, ratio = solve_in_metric(
        metric, [jacobian[k] for k in live], free, [wanted[k] for k in live], cut
    )
    multipliers: list[Scalar] = [0.0] * len(jacobian)
    for k, force in zip(live, forces, strict=True):
        multipliers[k] = force
    return ConstrainedMotion(tuple(vd), tuple(multipliers), rank, ratio)
