"""Elimination of one joint direction in the articulated-body recursion.

Symbols: I, p inertia and bias force of the body; s the direction; U = I s, d = s . U,
u = tau - s . p, W = U / d (Featherstone 1987, eqs. 6.46-6.55).

Directions along coordinate axes, the normal case in plans, have their own formulas: the component
of W in that direction is 1, that of the transmitted force is the joint force itself, and the
acceleration of the body in that direction needs no sum.
"""

from typing import NamedTuple

from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar


class Eliminated(NamedTuple):
    """Data of an eliminated direction for the outward pass."""

    W: Force
    """U / d."""

    rate: Scalar
    """u / d, the acceleration along s with the parent at rest."""


def coordinate_axis(s: Motion) -> tuple[int, float] | None:
    """Return index and sign of the coordinate axis of a constant direction, if it is one."""
    entries = tuple(s)
    if not all(isinstance(x, float) for x in entries):
        return None
    used = [index for index, x in enumerate(entries) if x != 0.0]
    if len(used) == 1 and abs(entries[used[0]]) == 1.0:
        return used[0], entries[used[0]]
    return None


def eliminate_direction(
    I: ArticulatedInertia,
    p: Force,
    s: Motion,
    tau: Scalar,
    armature: Scalar | None = None,
) -> tuple[ArticulatedInertia, Force, Eliminated]:
    """Return I - U U^T / d, p + U u / d, and what `accelerate_direction` needs.

    Args:
        I: Inertia of the body.
        p: Its bias force.
        s: The direction.
        tau: Force along it.
        armature: Armature inertia of the motion along s, added to d.
    """
    axis = coordinate_axis(s)
    if axis is None:
        U = I.apply(s)
        d = s.dot(U)
        if armature is not None:
            d = d + armature
        u = tau - s.dot(p)
        W = Force.from_array([x / d for x in U])
        return I.subtract_products((U,), (W,)), p + W * u, Eliminated(W, u / d)
    k, sign = axis
    U = I.column(k)
    entries, forces = tuple(U), tuple(p)
    d = entries[k]
    signed_tau = sign * tau
    u = signed_tau - forces[k]
    if armature is not None:
        # with an armature the transmitted force is not known beforehand
        d = d + armature
        W = Force.from_array([x / d for x in entries])
        return I.subtract_products((U,), (W,)), p + W * u, Eliminated(W, u / d)
    w = [x / d for x in entries]
    w[k] = 1.0
    handed_on = [f + wi * u for f, wi in zip(forces, w, strict=True)]
    # the transmitted force along an eliminated direction is the joint force
    handed_on[k] = signed_tau
    W = Force.from_array(w)
    return I.subtract_products((U,), (W,)), Force.from_array(handed_on), Eliminated(W, u / d)


def accelerate_direction(
    freed: Eliminated, a: Motion, s: Motion, armature: Scalar | None = None
) -> tuple[Scalar, Motion]:
    """Return the acceleration along s and the acceleration a + s qdd of the body.

    `armature` as for `eliminate_direction`.
    """
    axis = coordinate_axis(s)
    if axis is None:
        qdd = freed.rate - a.dot(freed.W)
        return qdd, a + s * qdd
    k, sign = axis
    entries = list(a)
    if armature is not None:
        along = freed.rate - a.dot(freed.W)
        entries[k] = entries[k] + along
        return sign * along, Motion.from_array(entries)
    # W_k = 1, so that adding qdd to the body's component cancels the component itself
    total = freed.rate
    for index, (w, x) in enumerate(zip(freed.W, entries, strict=True)):
        if index != k:
            total = total - w * x
    qdd = sign * (total - entries[k])
    entries[k] = total
    return qdd, Motion.from_array(entries)
