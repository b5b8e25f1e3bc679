"""Joints the other way round: holding what they stood on."""

from tiburon.model import (
    Cylindrical,
    Fixed,
    Free,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Screw,
    Spherical,
    Universal,
)
from tiburon.model.composition import changed
from tiburon.spatial.vec3 import negate

__all__ = ["reversed_joint"]


def reversed_joint(joint: Joint) -> Joint | None:
    """Return the joint that moves the first body in the second as this one does the other way.

    Hinges, slides, screws and sleeves keep their variables: the axis points the other way. A
    universal joint swaps its two. Balls, pucks and free joints have other numbers for the same
    place.

    Args:
        joint: Of any kind; its pose is of no account.

    Returns:
        The joint in frames of which each is the other's place; None where there is none of its
        kind, as for joints that follow another, that time moves, or that roll.
    """
    if isinstance(joint, (Revolute, Prismatic, Screw)):
        return joint.rebased(negate(joint.axis), joint.offset)
    if isinstance(joint, Fixed):
        return joint
    if (joint.limits, joint.passive, joint.armature) != (None, None, 0.0):
        # numbers per freedom would belong to other freedoms
        return None
    if isinstance(joint, Cylindrical):
        return changed(joint, axis=negate(joint.axis))
    if isinstance(joint, Universal):
        first, second = negate(joint.second_axis), negate(joint.axis)
        return changed(joint, axis=first, second_axis=second)
    if isinstance(joint, (Spherical, Planar, Free)):
        return joint
    return None
