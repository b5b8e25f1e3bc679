"""How a robot responds to forces from rest: what every joint lets through.

Where joints follow others, the directions that the articulated-body algorithm eliminates, shared
variables among them, factor the inverse of the mass matrix:

    J M^-1 J^T = sum of rate d rate^T,    rate = u . f / d along each direction, per force f

Symbols (Featherstone 1987, chapters 6 and 9; `tiburon.algorithms.coupled_joints`):
    X       map of motion from the parent's frame to the body's
    IA      articulated-body inertia of a body with all beyond it
    S, d    direction of a joint's freedom, and S^T IA S along it, those after it being free
    A       propagator: acceleration of a body per acceleration of its parent, its joint free
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from tiburon.algorithms.coupled_joints import Closing, Handle, Released, closings
from tiburon.algorithms.sweep import inward, outward, to_root
from tiburon.model import Plan, PlanBody
from tiburon.model.joints.joint import Carry
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform
from tiburon.trace.primitives.orthogonal import RANK_CUT

__all__ = [
    "CoupledResponse",
    "Direction",
    "Held",
    "Rates",
    "Response",
    "articulated_inertias",
    "directions",
    "passed_on",
    "propagated",
    "response",
]


class Held(NamedTuple):
    """A body with all beyond it, held by its joint."""

    X: Transform
    """Map of motion from the parent's frame to the body's."""

    IA: ArticulatedInertia
    """Inertia of the body with all beyond it, the joints beyond it free."""


class Direction(NamedTuple):
    """One direction of freedom, as the inertia beyond it answers."""

    u: Motion
    """Acceleration of the body along it, of either sign, in the body's own frame, while the
    directions after it give way."""

    softness: Scalar
    """1/d, the acceleration per joint force [1/kg or 1/(kg m^2)]."""


def articulated_inertias(plan: Plan, q: Sequence[Scalar]) -> tuple[Held, ...]:
    """Find the articulated-body inertia of every plan body (Featherstone 1987, eqs. 6.46-6.52).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
    """

    def transform(body: PlanBody, _: object) -> Transform:
        return body.transform(q[body.q])

    def release(
        body: PlanBody, IA: ArticulatedInertia, X: Transform
    ) -> tuple[Held, ArticulatedInertia]:
        Ia, *_ = _released(body, IA, q, Force.zero(), (0.0,) * body.joint.nv)
        return Held(X, IA), X.inertia_to_parent(Ia)

    transforms = outward(plan, transform, Transform.identity())
    alone = [body.felt.articulated() for body in plan.bodies]
    return inward(plan, release, alone, transforms)


def _released(
    body: PlanBody,
    IA: ArticulatedInertia,
    q: Sequence[Scalar],
    p: Force,
    tau: Sequence[Scalar],
) -> tuple[ArticulatedInertia, Force, Carry]:
    """Free a joint at rest."""
    return body.joint.release(q[body.q], IA, p, Motion.zero(), tau, body.armature)


def _giving_way(carry: Carry, place: int | None = None, rate: Scalar = 0.0) -> Carry:
    """Return what lets all directions give way, and one of them accelerate by itself."""
    return tuple(
        freed._replace(rate=rate if index == place else 0.0) for index, freed in enumerate(carry)
    )


def propagated(body: PlanBody, held: Held, q: Sequence[Scalar], a: Motion) -> Motion:
    """Return the acceleration of a body whose parent accelerates by a: A X a (eq. 9.39).

    Args:
        body: The body.
        held: From `articulated_inertias`.
        q: Position of all joints, nq scalars.
        a: Acceleration of the parent, in the parent's frame.
    """
    nothing = (0.0,) * body.joint.nv
    carry = _released(body, held.IA, q, Force.zero(), nothing)[2]
    return body.joint.accelerate(q[body.q], _giving_way(carry), held.X.motion(a), body.armature)[1]


def directions(body: PlanBody, held: Held, q: Sequence[Scalar]) -> tuple[Direction, ...]:
    """Return the directions of a joint: a body on it alone answers by sum u u^T / d.

    Args:
        body: The body.
        held: From `articulated_inertias`.
        q: Position of all joints, nq scalars.
    """
    joint, position = body.joint, q[body.q]
    found = []
    for k in range(joint.nv):
        unit = tuple(1.0 if index == k else 0.0 for index in range(joint.nv))
        carry = _released(body, held.IA, q, Force.zero(), unit)[2]
        # carries begin with the last direction, the first to be freed
        place = joint.nv - 1 - k
        pushed = _giving_way(carry, place, carry[place].rate)
        still, own = Motion.zero(), body.armature
        qdd, _ = joint.accelerate(position, pushed, still, own)
        _, u = joint.accelerate(position, _giving_way(carry, place, 1.0), still, own)
        found.append(Direction(u, qdd[k]))
    return tuple(found)


def passed_on(
    body: PlanBody, held: Held, q: Sequence[Scalar], f: Force
) -> tuple[tuple[Scalar, ...], Force]:
    """Return how a joint answers a force on its body, and what the parent feels of it.

    Args:
        body: The body.
        held: From `articulated_inertias`.
        q: Position of all joints, nq scalars.
        f: Force on the body, in its frame.

    Returns:
        u . f / d along each direction u of `directions`, and the force on the parent, in its frame.
    """
    nothing = (0.0,) * body.joint.nv
    _, p, carry = _released(body, held.IA, q, -f, nothing)
    return tuple(freed.rate for freed in reversed(carry)), held.X.force_to_parent(-p)


Rates = tuple[tuple[Scalar, ...], ...]
"""Per direction, the rate that each force gives it."""


class Response(Protocol):
    """How a robot answers forces from rest, where joints are tied to each other."""

    @property
    def d(self) -> dict[int, tuple[Scalar, ...]]:
        """Inertia along the directions told at each plan body, and at the world."""

    @property
    def cut(self) -> Scalar:
        """Relative length below which directions are dependent."""

    def rates(self, body: int, forces: Sequence[Force]) -> dict[int, Rates]:
        """Return, by index of plan bodies, the rates of their directions per force on a body."""


class _Held(NamedTuple):
    """A body with all beyond it, held by its joint."""

    X: Transform
    whole: Handle
    handed_on: Handle
    d: tuple[Scalar, ...]


class _Push(NamedTuple):
    """A force on a body, and what bodies beyond it feel of it along open variables."""

    p: Force
    open: tuple[int, ...] = ()
    r: tuple[Scalar, ...] = ()

    def on(self, whole: Handle) -> Handle:
        """Return a body that meets this force alone."""
        felt = dict(zip(self.open, self.r, strict=True))
        return replace(whole, pA=self.p, r=tuple(felt.get(k, 0.0) for k in whole.open))


class _Answer(NamedTuple):
    """What one body does to forces on their way to the root."""

    rates: Rates
    left: tuple[_Push, ...]


class CoupledResponse:
    """Answers of one robot in one position, all joints free.

    Attributes:
        cut: Relative length below which directions are dependent.
    """

    cut = RANK_CUT

    def __init__(self, plan: Plan, q: Sequence[Scalar]) -> None:
        """Hold every body with all beyond it.

        Args:
            plan: Layout of the model.
            q: Position [m or rad], nq scalars.
        """

        def released(body: PlanBody, whole: Handle, closing: Closing) -> Released:
            S = body.joint.subspace(q[body.q])
            zeros, all_free = (0.0,) * len(S), (True,) * len(S)
            return whole.released(S, zeros, all_free, closing, body.armature)

        def transform(body: PlanBody, _: object) -> Transform:
            return body.transform(q[body.q])

        def hold(
            body: PlanBody, whole: Handle, X: Transform, closing: Closing
        ) -> tuple[_Held, Handle]:
            found = released(body, whole, closing)
            left = found.left.handed_on(X, Motion.zero())
            return _Held(X, whole, left, tuple(x.d for x in found.directions)), left

        def push(
            body: PlanBody, pushes: tuple[_Push, ...], held: _Held, closing: Closing
        ) -> tuple[_Answer, tuple[_Push, ...]]:
            by_force, left = [], []
            for one in pushes:
                found = released(body, one.on(held.whole), closing)
                handle = found.left.handed_on(held.X, Motion.zero())
                by_force.append([x.eliminated.rate for x in found.directions])
                left.append(_Push(handle.pA, handle.open, handle.r))
            return _Answer(tuple(zip(*by_force, strict=True)), tuple(left)), tuple(left)

        self._plan, self._push = plan, push
        self._closing, self._at_world = closings(plan, (0.0,) * plan.nv, (True,) * plan.nv)
        transforms = outward(plan, transform, Transform.identity())
        alone = [Handle(body.felt.articulated(), Force.zero()) for body in plan.bodies]
        self._held = inward(plan, hold, alone, transforms, self._closing)
        self._world = Handle.zero()
        for body, held in zip(plan.bodies, self._held, strict=True):
            if body.parent == WORLD_BODY:
                self._world = self._world + held.handed_on
        _, closed = self._world.closed(self._at_world.beyond)
        #: Inertia along the directions eliminated at each plan body, and at the world
        self.d = {body.index: held.d for body, held in zip(plan.bodies, self._held, strict=True)}
        self.d[WORLD_BODY] = tuple(x.d for x in closed)

    def rates(self, body: int, forces: Sequence[Force]) -> dict[int, Rates]:
        """Push a body from rest.

        Args:
            body: Index of the plan body, or that of the world.
            forces: Forces on it, in its frame; each acts alone.

        Returns:
            By index of the plan bodies on the way to the root, and of the world, the rates of the
            directions eliminated there; `d` holds their inertias.
        """
        if body == WORLD_BODY:
            return {}
        start = tuple(_Push(-f) for f in forces)
        first = self._plan.bodies[body]
        way = to_root(self._plan, first, self._push, start, self._held, self._closing)
        found = {passed.index: answer.rates for passed, answer in way}
        last = way[-1][1].left
        closed = [one.on(self._world).closed(self._at_world.beyond)[1] for one in last]
        by_force = [[x.eliminated.rate for x in one] for one in closed]
        found[WORLD_BODY] = tuple(zip(*by_force, strict=True))
        return found


def response(told: Response, a: dict[int, Rates], b: dict[int, Rates]) -> list[list[Scalar]]:
    """Return the accelerations along some forces that others give: sum of rate d rate^T.

    Args:
        told: How the robot answers.
        a: Rates of the forces along which accelerations are taken, from `rates`.
        b: Rates of the forces that act.

    Returns:
        One row per force of a, one entry per force of b; no rows for the world.
    """
    total: list[list[Scalar]] = []
    for body in (body for body in a if body in b):
        for x, y, d in zip(a[body], b[body], told.d[body], strict=True):
            total = total or [[0.0] * len(y) for _ in x]
            for row, rate in zip(total, x, strict=True):
                for column, other in enumerate(y):
                    row[column] = row[column] + rate * d * other
    return total
