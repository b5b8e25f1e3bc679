"""Forward dynamics: the articulated-body algorithm in body coordinates.

Symbols (Featherstone 1987, chapter 6; McMillan 1994, appendix B.4):
    X       motion transform from the parent's frame to the body's
    w       angular velocity of a body; vJ its velocity relative to its parent
    z       centripetal acceleration of the body's origin due to the rotation of the parent
    c       velocity-product acceleration of the joint
    IA, pA  articulated-body inertia and bias force of a subtree
    Ia, pa  the same seen through the joint
    a       classical acceleration of a body, at the origin of its frame
    S       column of the motion subspace of a joint
    U, D, u IA S, S^T U and tau - S^T pA
    qdd     joint acceleration

Accelerations are classical, as in McMillan's form, so that no velocity of a point is needed. Unlike
there, z stays in the parent's frame, where the transformed inertia is available.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from tiburon.algorithms.rnea import base_acceleration
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import inward, outward
from tiburon.errors import ModelError
from tiburon.model import Plan, PlanBody
from tiburon.model.joints.joint import Joint
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, cross


class Eliminated(NamedTuple):
    """What the inward pass keeps of a joint direction for the outward pass."""

    W: Force
    """U / D."""

    rate: Scalar
    """u / D, the joint acceleration with the parent at rest."""


Carry: TypeAlias = tuple[Eliminated, ...]
"""Eliminated directions of a joint, the last first."""


def eliminate_direction(
    IA: ArticulatedInertia, pA: Force, S: Motion, tau: Scalar, armature: Scalar | None = None
) -> tuple[ArticulatedInertia, Force, Eliminated]:
    """Eliminate one direction of a joint: the key step of the algorithm (eqs. 6.46-6.52).

    Args:
        IA: Articulated-body inertia of the body.
        pA: Its bias force.
        S: The direction, in body coordinates.
        tau: Joint force along it.
        armature: Armature inertia of the motion along S; None if there is none.

    Returns:
        IA - U U^T / D and pA + U u / D, which the direction transmits, and what
        `accelerate_joint` needs.
    """
    U = IA.apply(S)
    D = S.dot(U) if armature is None else S.dot(U) + armature
    u = tau - S.dot(pA)
    W = Force.from_array([x / D for x in U])
    Ia = IA.subtract_products((U,), (W,))
    pa = pA + W * u
    axis = _coordinate_axis(S)
    if axis is not None and armature is None:
        # S^T pa = tau: a joint transmits its own force along S, here one entry, without rounding
        pa = _with_entry(pa, *axis, tau)
    return Ia, pa, Eliminated(W, u / D)


def eliminate_joint(
    joint: Joint,
    q: Scalars,
    IA: ArticulatedInertia,
    pA: Force,
    tau: Scalars,
    armature: Scalars | None = None,
) -> tuple[ArticulatedInertia, Force, Carry]:
    """Eliminate all directions of a joint, the last first.

    Like a chain of single-axis joints with massless links; this is an LDL^T factorization of
    S^T IA S, with armatures added to its diagonal.

    Args:
        joint: The joint.
        q: Its position, nq scalars.
        IA: Articulated-body inertia of the body, with its subtree, in body coordinates.
        pA: Its bias force.
        tau: Joint force, nv scalars.
        armature: Armature of each degree of freedom, nv scalars; None if there is none.

    Returns:
        Inertia and bias force of the body with its joint free (eqs. 7.16-7.19), and the data for
        `accelerate_joint`.
    """
    Ia, pa = IA, pA
    carry: list[Eliminated] = []
    columns = joint.subspace(q)
    armatures = (None,) * len(columns) if armature is None else armature
    for S, force, inertia in reversed(list(zip(columns, tau, armatures, strict=True))):
        try:
            Ia, pa, eliminated = eliminate_direction(Ia, pa, S, force, inertia)
        except ZeroDivisionError as error:
            raise ModelError(
                f"joint {joint.name!r}: it has no inertia, so its acceleration is undefined; "
                "give the bodies it moves an inertia, or lock it",
                name=joint.name,
            ) from error
        carry.append(eliminated)
    return Ia, pa, tuple(carry)


def accelerate_direction(
    eliminated: Eliminated, a: Motion, S: Motion, armature: Scalar | None = None
) -> tuple[Scalar, Motion]:
    """Return qdd = (u - U^T a) / D along S and the acceleration a + S qdd (eqs. 6.54-6.55).

    Args:
        eliminated: From `eliminate_direction`.
        a: Acceleration of the body at zero joint acceleration along S.
        S: The direction, in body coordinates.
        armature: As given to `eliminate_direction`.
    """
    W, rate = eliminated
    axis = _coordinate_axis(S)
    if axis is None or armature is not None:
        qdd = rate - a.dot(W)
        return qdd, a + S * qdd
    # S^T W = 1, so that the entry of a along S cancels in a + S qdd
    k, sign = axis
    entries = tuple(a)
    along = rate
    for index, (w, x) in enumerate(zip(W, entries, strict=True)):
        if index != k:
            along = along - w * x
    return along - sign * entries[k], _with_entry(a, k, sign, along)


def accelerate_joint(
    joint: Joint, q: Scalars, carry: Carry, a: Motion, armature: Scalars | None = None
) -> tuple[tuple[Scalar, ...], Motion]:
    """Compute the joint acceleration (eqs. 6.45, 6.54-6.55).

    Args:
        joint: The joint.
        q: Its position, nq scalars.
        carry: From `eliminate_joint`.
        a: X a_parent + c, the acceleration of the body at zero joint acceleration.
        armature: As given to `eliminate_joint`.

    Returns:
        The joint acceleration, nv scalars, and the body's acceleration a + S qdd.
    """
    qdd: list[Scalar] = []
    columns = joint.subspace(q)
    armatures = (None,) * len(columns) if armature is None else armature
    for S, eliminated, inertia in zip(columns, reversed(carry), armatures, strict=True):
        rate, a = accelerate_direction(eliminated, a, S, inertia)
        qdd.append(rate)
    return tuple(qdd), a


def _coordinate_axis(S: Motion) -> tuple[int, float] | None:
    """Return index and sign of the coordinate axis of a constant direction, if it is one.

    This is the normal case in plans.
    """
    entries = tuple(S)
    if not all(isinstance(x, float) for x in entries):
        return None
    used = [index for index, x in enumerate(entries) if x != 0.0]
    if len(used) == 1 and abs(entries[used[0]]) == 1.0:
        return used[0], entries[used[0]]
    return None


_Spatial = TypeVar("_Spatial", Motion, Force)


def _with_entry(vector: _Spatial, k: int, sign: float, value: Scalar) -> _Spatial:
    """Return a spatial vector with another entry along a signed coordinate axis."""
    entries = list(vector)
    entries[k] = sign * value
    return type(vector).from_array(entries)


@record
class Articulated:
    """Articulated-body inertia and bias force of a subtree; they add."""

    IA: ArticulatedInertia
    pA: Force

    def __add__(self, other: "Articulated") -> "Articulated":
        return Articulated(self.IA + other.IA, self.pA + other.pA)


class Moving(NamedTuple):
    """Results of the first pass for a body."""

    X: Transform
    w: Vec3
    z: Vec3
    c: Motion
    alone: Articulated


class Accelerating(NamedTuple):
    """Results of the last pass for a body."""

    qdd: tuple[Scalar, ...]
    a: Motion


def velocity_terms(
    body: PlanBody, q: JointVector, v: JointVector, parent: Vec3
) -> tuple[Transform, Vec3, Vec3, Motion]:
    """Return X, w, z and c of a body from the angular velocity of its parent."""
    X = body.transform(q[body.q])
    vJ = body.joint.velocity(q[body.q], v[body.v])
    carried = X.direction(parent)
    w = add(carried, vJ.angular)
    z = cross(parent, cross(parent, X.translation))
    # Coriolis acceleration of a sliding body
    c = Motion(cross(w, vJ.angular), cross(add(w, carried), vJ.linear))
    return X, w, z, c + body.joint.bias(q[body.q], v[body.v])


class Passes(NamedTuple):
    """What the three passes do at a body."""

    motion: Callable[[PlanBody, Moving, Force | None], Moving]
    release: Callable[[PlanBody, Articulated, Moving], tuple[Carry, Callable[[], Articulated]]]
    accelerate: Callable[[PlanBody, Accelerating, Moving, Carry], Accelerating]


def passes(q: JointVector, v: JointVector, tau: JointVector) -> Passes:
    """Return the passes of a state; see `aba`."""

    def motion(body: PlanBody, parent: Moving, fx: Force | None) -> Moving:
        X, w, z, c = velocity_terms(body, q, v, parent.w)
        p = body.inertia.gyroscopic_force(w)
        # p is the force that the body requires; external forces are subtracted
        pA = p if fx is None else p - fx
        return Moving(X, w, z, c, Articulated(body.effective_inertia.articulated(), pA))

    def release(
        body: PlanBody, total: Articulated, moving: Moving
    ) -> tuple[Carry, Callable[[], Articulated]]:
        position, armature = q[body.q], body.armature
        Ia, pa, carry = eliminate_joint(
            body.joint, position, total.IA, total.pA, tau[body.v], armature
        )
        pa = Ia.apply(moving.c, start=pa)

        def to_parent() -> Articulated:
            inertia = moving.X.inertia_to_parent(Ia)
            bias = inertia.apply(Motion(ZERO3, moving.z), start=moving.X.force_to_parent(pa))
            return Articulated(inertia, bias)

        return carry, to_parent

    def accelerate(
        body: PlanBody, parent: Accelerating, moving: Moving, carry: Carry
    ) -> Accelerating:
        a = moving.X.motion(parent.a + Motion(ZERO3, moving.z)) + moving.c
        found = accelerate_joint(body.joint, q[body.q], carry, a, body.armature)
        return Accelerating(*found)

    return Passes(motion, release, accelerate)


def moving_from(w: Vec3) -> Moving:
    """Return what the first pass takes from a parent with an angular velocity."""
    nothing = Articulated(ArticulatedInertia.zero(), Force.zero())
    return Moving(Transform.identity(), w, ZERO3, Motion.zero(), nothing)


def aba(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
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

    motion, release, accelerate = passes(q, v, tau)
    # outward: velocities, and inertia and bias force of each body
    moving = outward(
        plan, motion, moving_from(ZERO3), external or (None,) * len(plan.bodies), lanes=lanes
    )
    # inward: eliminate each joint, and add its subtree to the parent
    carries = inward(plan, release, [visit.alone for visit in moving], moving, lanes=lanes)
    # outward: accelerations, with gravity as acceleration of the base
    root = Accelerating((), base_acceleration(gravity))
    accelerating = outward(plan, accelerate, root, moving, carries, lanes=lanes)
    return tuple(x for visit in accelerating for x in visit.qdd)
