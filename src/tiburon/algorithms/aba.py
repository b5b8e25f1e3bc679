"""Forward dynamics: the articulated-body algorithm in body coordinates.

Symbols (Featherstone 1987, chapter 6; McMillan 1994, appendix B.4):
    X       motion transform from the parent's frame to the body's
    w       angular velocity of a body; vJ its velocity relative to its parent
    z       centripetal acceleration of the body's origin due to the rotation of the parent
    c       velocity-product acceleration of the joint
    IA, pA  articulated-body inertia and bias force of a subtree
    Ia, pa  the same seen through the joint
    a       classical acceleration of a body, at the origin of its frame
    S       motion subspace of a joint, one column per degree of freedom
    U, D, u IA S, S^T U and tau - S^T pA: what eliminating a joint needs

Accelerations are classical, as in McMillan's form, so that no velocity of a point is needed. Unlike
there, z stays in the parent's frame, where the transformed inertia is available.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiburon.algorithms.rnea import base_acceleration
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import inward, outward
from tiburon.model import Plan, PlanBody
from tiburon.model.joints.joint import Carry
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, cross

__all__ = ["aba"]


@record
class _Articulated:
    """Articulated-body inertia and bias force of a subtree; they add."""

    IA: ArticulatedInertia
    pA: Force

    def __add__(self, other: "_Articulated") -> "_Articulated":
        return _Articulated(self.IA + other.IA, self.pA + other.pA)


class _Moving(NamedTuple):
    """Results of the first pass for a body."""

    X: Transform
    w: Vec3
    z: Vec3
    c: Motion
    alone: _Articulated


class _Accelerating(NamedTuple):
    """Results of the last pass for a body."""

    qdd: tuple[Scalar, ...]
    a: Motion


def aba(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
    *,
    lanes: bool = False,
) -> tuple[Scalar, ...]:
    """Compute the joint accelerations that given joint forces produce.

    Featherstone 1987, eqs. 6.46-6.55 in link coordinates (6.56-6.65), for trees (7.6) and joints of
    several degrees of freedom (7.19); a free root is a joint with six (7.20). Velocity terms as in
    McMillan 1994, eqs. B.28-B.39. O(number of bodies).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        gravity: Gravitational acceleration, world axes [m/s^2].
        external: External wrench on each body, in its plan frame [N m, N]; none by default.
        lanes: Whether like branches are computed side by side.

    Returns:
        Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    q, v, tau = (x if isinstance(x, JointVector) else JointVector(x) for x in (q, v, tau))

    def motion(body: PlanBody, parent: _Moving, fx: Force | None) -> _Moving:
        X = body.transform(q[body.q])
        vJ = body.joint.velocity(q[body.q], v[body.v])
        carried = X.direction(parent.w)
        w = add(carried, vJ.angular)
        z = cross(parent.w, cross(parent.w, X.translation))
        # Coriolis acceleration of a sliding body
        c = Motion(cross(w, vJ.angular), cross(add(w, carried), vJ.linear))
        c = c + body.joint.bias(q[body.q], v[body.v])
        p = body.inertia.gyroscopic_force(w)
        # p is the force that the body requires; external forces are subtracted
        pA = p if fx is None else p - fx
        return _Moving(X, w, z, c, _Articulated(body.effective_inertia.articulated(), pA))

    def release(
        body: PlanBody, total: _Articulated, moving: _Moving
    ) -> tuple[Carry, Callable[[], _Articulated]]:
        IA, pA = total.IA, total.pA
        # for each column S of the joint, the last first (`eliminate_direction` in joints/joint.py):
        #     U = IA S,  D = S^T U,  u = tau - S^T pA,  IA -> IA - U U^T / D,  pA -> pA + U u / D
        # then pa = pA + Ia c; carry holds U / D and u / D for the outward pass
        Ia, pa, carry = body.joint.release(q[body.q], IA, pA, moving.c, tau[body.v], body.armature)

        def to_parent() -> _Articulated:
            inertia = moving.X.inertia_to_parent(Ia)
            bias = inertia.apply(Motion(ZERO3, moving.z), start=moving.X.force_to_parent(pa))
            return _Articulated(inertia, bias)

        return carry, to_parent

    def accelerate(
        body: PlanBody, parent: _Accelerating, moving: _Moving, carry: Carry
    ) -> _Accelerating:
        a = moving.X.motion(parent.a + Motion(ZERO3, moving.z)) + moving.c
        # for each column S, the first first: qdd = u / D - (U / D)^T a,  a -> a + S qdd
        return _Accelerating(*body.joint.accelerate(q[body.q], carry, a, body.armature))

    # outward: velocities, and inertia and bias force of each body
    nothing = _Articulated(ArticulatedInertia.zero(), Force.zero())
    at_rest = _Moving(Transform.identity(), ZERO3, ZERO3, Motion.zero(), nothing)
    moving = outward(plan, motion, at_rest, external or (None,) * len(plan.bodies), lanes=lanes)
    # inward: eliminate each joint, and add its subtree to the parent
    carries = inward(plan, release, [visit.alone for visit in moving], moving, lanes=lanes)
    # outward: accelerations, with gravity as acceleration of the base
    root = _Accelerating((), base_acceleration(gravity))
    accelerating = outward(plan, accelerate, root, moving, carries, lanes=lanes)
    return tuple(x for visit in accelerating for x in visit.qdd)
