"""How a robot answers forces from rest where joints follow others.

Symbols as in `tiburon.algorithms.ties`. The directions that the articulated-body algorithm
eliminates, shared variables among them, factor the inverse of the mass matrix:

    J M^-1 J^T = sum of rate d rate^T,    rate = u . f / d along each direction, per force f
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from tiburon.algorithms.closed_form import closed_form
from tiburon.algorithms.sweep import inward, outward, to_root
from tiburon.algorithms.ties import Closing, Handle, Released, closings
from tiburon.model import Model, Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Motion, Scalar, Transform
from tiburon.trace.primitives.orthogonal import RANK_CUT

__all__ = ["CoupledResponse", "Rates", "Response", "response", "tied_response"]

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


def tied_response(model: Model, plan: Plan, q: Sequence[Scalar]) -> Response | None:
    """Return how a robot answers whose joints are tied, by gears or by loops; None for others."""
    if model.loops:
        closed = closed_form("response")
        assert closed is not None
        found: Response = closed(model, plan, q)
        return found
    return CoupledResponse(plan, q) if plan.has_couplings else None
