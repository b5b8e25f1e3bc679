"""Accelerations of a robot per force, from rest, by articulated bodies.

With coupled joints, the directions that the articulated-body algorithm eliminates, including shared
variables, factor the inverse of the mass matrix:

    J M^-1 J^T = sum of rate d rate^T,    rate = u . f / d along each direction, per force f

Symbols (Featherstone 1987, chapters 6 and 9; `tiburon.algorithms.coupled_joints`):
    X       motion transform from the parent's frame to the body's
    IA      articulated-body inertia of a subtree
    S, d    joint axis, and S^T IA S after elimination of the later axes
    A       propagator: acceleration of a body per acceleration of its parent, its joint free
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from tiburon.algorithms.aba import Carry, accelerate_joint, eliminate_joint
from tiburon.algorithms.coupled_joints import Closing, Handle, Released, closings
from tiburon.algorithms.traversal import inward, joint_transforms, to_root
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Transform
from tiburon.trace.primitives.orthogonal import RANK_CUT


class ArticulatedBody(NamedTuple):
    """Articulated-body inertia of one body."""

    X: Transform
    """Motion transform from the parent's frame to the body's."""

    IA: ArticulatedInertia
    """Articulated-body inertia of its subtree."""


class Direction(NamedTuple):
    """Response along one axis of a joint."""

    u: Motion
    """Acceleration of the body along the axis, of either sign, in body frame, with the later axes
    free."""

    inverse_d: Scalar
    """1/d, the acceleration per joint force [1/kg or 1/(kg m^2)]."""


def articulated_inertias(plan: Plan, q: Scalars) -> tuple[ArticulatedBody, ...]:
    """Compute the articulated-body inertia of every plan body (Featherstone 1987, 6.46-6.52)."""

    def release(
        body: PlanBody, IA: ArticulatedInertia, X: Transform
    ) -> tuple[ArticulatedBody, ArticulatedInertia]:
        Ia, *_ = _released(body, IA, q, Force.zero(), (0.0,) * body.joint.nv)
        return ArticulatedBody(X, IA), X.inertia_to_parent(Ia)

    alone = [body.effective_inertia.articulated() for body in plan.bodies]
    return inward(plan, release, alone, joint_transforms(plan, q))


def _released(
    body: PlanBody, IA: ArticulatedInertia, q: Scalars, p: Force, tau: Scalars
) -> tuple[ArticulatedInertia, Force, Carry]:
    """Eliminate a joint at rest."""
    return eliminate_joint(body.joint, q[body.q], IA, p, tau, body.armature)


def _with_rate(carry: Carry, place: int | None = None, rate: Scalar = 0.0) -> Carry:
    """Return eliminated axes with zero rates, except one."""
    return tuple(
        freed._replace(rate=rate if index == place else 0.0) for index, freed in enumerate(carry)
    )


def propagated(body: PlanBody, articulated: ArticulatedBody, q: Scalars, a: Motion) -> Motion:
    """Compute the acceleration of a body whose parent accelerates by a: A X a (eq. 9.39)."""
    nothing = (0.0,) * body.joint.nv
    carry = _released(body, articulated.IA, q, Force.zero(), nothing)[2]
    return accelerate_joint(
        body.joint, q[body.q], _with_rate(carry), articulated.X.motion(a), body.armature
    )[1]


def directions(body: PlanBody, articulated: ArticulatedBody, q: Scalars) -> tuple[Direction, ...]:
    """Compute the responses along the axes of a joint: a body responds by sum u u^T / d."""
    joint, position = body.joint, q[body.q]
    found = []
    for k in range(joint.nv):
        unit = tuple(1.0 if index == k else 0.0 for index in range(joint.nv))
        carry = _released(body, articulated.IA, q, Force.zero(), unit)[2]
        # carries start with the last axis, which is eliminated first
        place = joint.nv - 1 - k
        pushed = _with_rate(carry, place, carry[place].rate)
        still, own = Motion.zero(), body.armature
        qdd, _ = accelerate_joint(joint, position, pushed, still, own)
        _, u = accelerate_joint(joint, position, _with_rate(carry, place, 1.0), still, own)
        found.append(Direction(u, qdd[k]))
    return tuple(found)


def passed_on(
    body: PlanBody, articulated: ArticulatedBody, q: Scalars, f: Force
) -> tuple[tuple[Scalar, ...], Force]:
    """Compute u . f / d along each axis for a force on a body, and the force on its parent."""
    nothing = (0.0,) * body.joint.nv
    _, p, carry = _released(body, articulated.IA, q, -f, nothing)
    return tuple(freed.rate for freed in reversed(carry)), articulated.X.force_to_parent(-p)


Rates = tuple[tuple[Scalar, ...], ...]
"""Per axis, the acceleration due to each force."""


class Response(Protocol):
    """Response of a robot to forces from rest, with coupled joints or loops."""

    @property
    def d(self) -> dict[int, tuple[Scalar, ...]]:
        """Inertia along the directions eliminated at each plan body, and at the world."""

    @property
    def cut(self) -> Scalar:
        """Relative singular value below which directions are dependent."""

    @property
    def floor(self) -> Scalar:
        """Length below which they are zero: the rounding error of those computed so far."""

    def rates(self, body: int, forces: Sequence[Force]) -> dict[int, Rates]:
        """Return, by plan body, the accelerations of its directions per force on a body."""


class _CoupledBody(NamedTuple):
    """Articulated-body inertia of one body."""

    X: Transform
    whole: Handle
    at_parent: Handle
    d: tuple[Scalar, ...]


class _Push(NamedTuple):
    """A force on a body, and its projections on the open variables of the subtree."""

    p: Force
    open: tuple[int, ...] = ()
    r: tuple[Scalar, ...] = ()

    def on(self, whole: Handle) -> Handle:
        """Return the body with this force as its only bias force."""
        known = dict(zip(self.open, self.r, strict=True))
        return replace(whole, pA=self.p, r=tuple(known.get(k, 0.0) for k in whole.open))


class _JointResponse(NamedTuple):
    """Response of one joint to forces on their path to the root."""

    rates: Rates
    left: tuple[_Push, ...]


class CoupledResponse:
    """Response of a robot with coupled joints in one configuration.

    Attributes:
        cut: Relative singular value below which directions are dependent.
        floor: Length below which they are zero: none, nothing is subtracted.
    """

    cut = RANK_CUT
    floor = 0.0

    def __init__(self, plan: Plan, q: Scalars) -> None:
        """Compute the articulated inertias of all bodies."""

        def released(body: PlanBody, whole: Handle, closing: Closing) -> Released:
            S = body.joint.subspace(q[body.q])
            zeros, all_free = (0.0,) * len(S), (True,) * len(S)
            return whole.released(S, zeros, all_free, closing, body.armature)

        def hold(
            body: PlanBody, whole: Handle, X: Transform, closing: Closing
        ) -> tuple[_CoupledBody, Handle]:
            found = released(body, whole, closing)
            left = found.left.to_parent(X, Motion.zero())
            return _CoupledBody(X, whole, left, tuple(x.d for x in found.directions)), left

        def push(
            body: PlanBody, pushes: tuple[_Push, ...], articulated: _CoupledBody, closing: Closing
        ) -> tuple[_JointResponse, tuple[_Push, ...]]:
            by_force, left = [], []
            for one in pushes:
                found = released(body, one.on(articulated.whole), closing)
                handle = found.left.to_parent(articulated.X, Motion.zero())
                by_force.append([x.eliminated.rate for x in found.directions])
                left.append(_Push(handle.pA, handle.open, handle.r))
            return _JointResponse(tuple(zip(*by_force, strict=True)), tuple(left)), tuple(left)

        self._plan, self._push = plan, push
        self._closing, self._at_world = closings(plan, (0.0,) * plan.nv, (True,) * plan.nv)

        alone = [Handle(body.effective_inertia.articulated(), Force.zero()) for body in plan.bodies]
        self._bodies = inward(plan, hold, alone, joint_transforms(plan, q), self._closing)
        self._world = Handle.zero()
        for body, articulated in zip(plan.bodies, self._bodies, strict=True):
            if body.parent == WORLD_BODY:
                self._world = self._world + articulated.at_parent
        _, closed = self._world.closed(self._at_world.beyond)
        #: Inertia along the directions eliminated at each plan body, and at the world
        self.d = {
            body.index: articulated.d
            for body, articulated in zip(plan.bodies, self._bodies, strict=True)
        }
        self.d[WORLD_BODY] = tuple(x.d for x in closed)

    def rates(self, body: int, forces: Sequence[Force]) -> dict[int, Rates]:
        """Compute the accelerations of all directions per force on a body, from rest.

        Args:
            body: Index of the plan body, or that of the world.
            forces: Single forces on it, in its frame.

        Returns:
            By index of the plan bodies on the path to the root, and of the world, the accelerations
            of the directions eliminated there; `d` holds their inertias.
        """
        if body == WORLD_BODY:
            return {}
        start = tuple(_Push(-f) for f in forces)
        first = self._plan.bodies[body]
        way = to_root(self._plan, first, self._push, start, self._bodies, self._closing)
        found = {passed.index: answer.rates for passed, answer in way}
        last = way[-1][1].left
        closed = [one.on(self._world).closed(self._at_world.beyond)[1] for one in last]
        by_force = [[x.eliminated.rate for x in one] for one in closed]
        found[WORLD_BODY] = tuple(zip(*by_force, strict=True))
        return found


def response(
    of: Response, a: dict[int, Rates], b: dict[int, Rates], shape: tuple[int, int]
) -> list[list[Scalar]]:
    """Compute accelerations along forces a per force b: sum of rate d rate^T.

    Args:
        of: The response of the robot.
        a: Rates of the forces along which accelerations are taken, from `rates`.
        b: Rates of the forces that act.
        shape: Number of forces of a and of b: rates of forces on the world, or on bodies that share
            no direction, do not show it.

    Returns:
        One row per force of a, one entry per force of b; zeros where no direction is shared.
    """
    rows, columns = shape
    total: list[list[Scalar]] = [[0.0] * columns for _ in range(rows)]
    for body in (body for body in a if body in b):
        for x, y, d in zip(a[body], b[body], of.d[body], strict=True):
            for row, rate in zip(total, x, strict=True):
                for column, other in enumerate(y):
                    row[column] = row[column] + rate * d * other
    return total
