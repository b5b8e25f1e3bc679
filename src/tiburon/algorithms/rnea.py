"""Inverse dynamics: recursive Newton-Euler in body coordinates, with classical accelerations.

Symbols (McMillan 1994, appendix B.2; Featherstone 1987, chapter 4):
    X       motion transform from the parent's frame to the body's
    w       angular velocity of a body
    Omega   wd~ + w~ w~: gradient of the acceleration within the body
    a       classical acceleration of the body origin
    vJ      velocity of a body relative to its parent, S v
    aJ      S vd + Sdot v
    f       force a joint must transmit to its body

No linear velocity is needed, which makes this form the cheapest.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from tiburon.algorithms.traversal import by_velocity, inward, outward, with_armature_force
from tiburon.model import Plan, PlanBody
from tiburon.spatial import Force, Mat3, Motion, Scalar, Scalars, Transform, Vec3, rate_matrix
from tiburon.spatial.vec3 import ZERO3, add, add_cross, add_matrix_vector

Kept = TypeVar("Kept")


class _Visit(NamedTuple):
    """Results of the outward pass for a body."""

    X: Transform
    w: Vec3
    wd: Vec3
    Omega: Mat3
    a: Vec3
    f: Force


def rnea(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    gravity: Vec3,
    external: Sequence[Force] | None = None,
    *,
    lanes: bool = False,
) -> tuple[Scalar, ...]:
    """Compute the joint forces that produce given joint accelerations (inverse dynamics).

    McMillan 1994, eqs. B.6-B.18, for trees and joints of any kind; the same forces as Featherstone
    1987, eqs. 4.11-4.15 and 7.10-7.16, with fewer operations. O(number of bodies).

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        gravity: Gravitational acceleration, world axes [m/s^2].
        external: External wrench on each body, in its plan frame [N m, N]; none by default.
        lanes: Whether like branches are computed side by side; states are a `JointVector` then.

    Returns:
        Joint force [N or N m], nv scalars.
    """

    def project(body: PlanBody, f: Force) -> tuple[Scalar, ...]:
        return with_armature_force(body, body.joint.project(q[body.q], f), vd)

    kept = _recursion(plan, q, v, vd, gravity, external, project, lanes=lanes)
    return by_velocity(plan, kept)


def transmitted(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Force, ...]:
    """Compute the wrench that each joint transmits to its body; arguments as for `rnea`.

    Returns one wrench per plan body, in its frame [N m, N].
    """
    return _recursion(plan, q, v, vd, gravity, external, lambda body, f: f)


def _recursion(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    vd: Scalars,
    gravity: Vec3,
    external: Sequence[Force] | None,
    keep: Callable[[PlanBody, Force], Kept],
    *,
    lanes: bool = False,
) -> tuple[Kept, ...]:
    """Run both passes; return `keep` of the wrench that each joint transmits."""

    def motion(body: PlanBody, parent: _Visit, fx: Force | None) -> _Visit:
        joint, position, rate = body.joint, q[body.q], v[body.v]
        X = body.transform(position)
        vJ = joint.velocity(position, rate)
        aJ = joint.motion(position, vd[body.v]) + joint.bias(position, rate)
        carried = X.direction(parent.w)
        w = add(carried, vJ.angular)
        wd = add(add_cross(X.direction(parent.wd), w, vJ.angular), aJ.angular)
        Omega = rate_matrix(w, wd)
        # acceleration of the coincident point of the parent, then Coriolis and joint acceleration
        a = X.direction(add_matrix_vector(parent.a, parent.Omega, X.translation))
        a = add(add_cross(a, add(w, carried), vJ.linear), aJ.linear)
        # required force of the body minus external forces
        f = body.inertia.rate_of_momentum(Omega, a)
        if body.added is not None:
            f = body.added.apply(Motion(wd, a), start=f)
        return _Visit(X, w, wd, Omega, a, f if fx is None else f - fx)

    def transmit(body: PlanBody, f: Force, visit: _Visit) -> tuple[Kept, Callable[[], Force]]:
        return keep(body, f), lambda: visit.X.force_to_parent(f)

    # outward: motion and required force, with gravity as acceleration of the base
    still = rate_matrix(ZERO3, ZERO3)
    a_0 = base_acceleration(gravity).linear
    root = _Visit(Transform.identity(), ZERO3, ZERO3, still, a_0, Force.zero())
    visits = outward(plan, motion, root, external or (None,) * len(plan.bodies), lanes=lanes)
    # inward: each joint transmits the force of its subtree
    return inward(plan, transmit, [visit.f for visit in visits], visits, lanes=lanes)


def base_acceleration(gravity: Vec3) -> Motion:
    """Return the base acceleration equivalent to gravity, -g (Featherstone 1987, sec. 4.4)."""
    x, y, z = gravity
    return Motion((0.0, 0.0, 0.0), (-x, -y, -z))
