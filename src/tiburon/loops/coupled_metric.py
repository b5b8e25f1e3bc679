"""The mass matrix of a tree whose joints follow others, as directions that give way one by one.

A variable that several joints share gives way where all of them have come in: at the last body that
carries them, or at the world (`tiburon.algorithms.ties`). That makes one direction per velocity
variable, as in a tree without shared ones, and with it the same factors H = L^T D L.

Symbols as in `handles` and `tiburon.algorithms.ties`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.sweep import inward, outward
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.ties import Closing, Freed, Handle, Rates, Released, closings, rates_of
from tiburon.loops.constraints import Row
from tiburon.model import Plan, PlanBody
from tiburon.model.joints.elimination import accelerate_direction, coordinate_axis
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Motion, Scalar, Transform

__all__ = ["CoupledMetric"]


class _Held(NamedTuple):
    """A body with all beyond it, its joint free."""

    X: Transform
    joint: Released
    handed_on: Handle


class _Accelerating(NamedTuple):
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

    def _freed(self, force: Sequence[Scalar]) -> tuple[Sequence[_Held], tuple[Freed, ...]]:
        """Free all joints under joint forces, bodies at rest."""
        plan, q, tau = self._plan, self._q, JointVector(force)

        def hold(
            body: PlanBody, whole: Handle, X: Transform, closing: Closing
        ) -> tuple[_Held, Handle]:
            S = body.joint.subspace(q[body.q])
            found = whole.released(S, tau[body.v], (True,) * len(S), closing, body.armature)
            left = found.left.handed_on(X, Motion.zero())
            return _Held(X, found, left), left

        closing, at_world = closings(plan, force, (True,) * plan.nv)
        alone = [Handle(body.felt.articulated(), Force.zero()) for body in plan.bodies]
        held = inward(plan, hold, alone, self._transforms, closing)
        total = Handle.zero()
        for body, kept in zip(plan.bodies, held, strict=True):
            total = total + kept.handed_on if body.parent == WORLD_BODY else total
        return held, total.closed(at_world.beyond)[1]

    def _directions(self, body: PlanBody, held: _Held) -> list[tuple[int, float, Freed]]:
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
            parent: _Accelerating,
            held: _Held,
            closing: Closing,
            given: tuple[tuple[int, Scalar], ...],
        ) -> _Accelerating:
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
            return _Accelerating(tuple(qdd), a, rates)

        given = []
        for body, closing in zip(plan.bodies, self._closing, strict=True):
            own = () if closing.shared else range(body.v.start, body.v.stop)
            given.append(tuple((i, x[i]) for i in (*own, *closing.variables)))
        at_world = {i: x[i] for i in self._at_world.variables}
        closed = pushed(self._at_world.beyond, self._closed, at_world)
        rates = rates_of(self._at_world.beyond, closed, Motion.zero(), ())
        root = _Accelerating((), Motion.zero(), rates)
        visits = outward(plan, accelerate, root, self._held, self._closing, given)
        found: list[Scalar] = [0.0] * plan.nv
        for body, visit in zip(plan.bodies, visits, strict=True):
            found[body.v] = visit.qdd
        return tuple(found)
