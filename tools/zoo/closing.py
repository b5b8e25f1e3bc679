"""Positions at which the loops of a mechanism close, found by Newton's method on plain floats."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

import tiburon as tb

Array = NDArray[np.float64]

STEP = 1e-6
"""Step of the central differences [rad or m]; the last iterations only need a rough Jacobian."""


def body_poses(model: tb.Model, q: Array) -> dict[str, Array]:
    """Return the homogeneous matrix of every body and frame in the world, by name."""
    poses = {"world": np.eye(4)}
    for body in model.bodies:
        joint = body.joint
        variables = q[model.slice(joint.name)] if joint.nq else leading(model, joint, q)
        X = joint.transform([float(x) for x in variables])
        moved = np.eye(4)
        moved[:3, :3] = np.array(X.rotation, dtype=float).T
        moved[:3, 3] = np.array(X.translation, dtype=float)
        poses[body.name] = poses[body.parent] @ joint.pose.matrix @ moved
    for frame in model.frames:
        poses[frame.name] = poses[frame.body] @ frame.pose.matrix
    return poses


def leading(model: tb.Model, joint: tb.Joint, q: Array) -> Array:
    """Return the variables that move a joint without variables of its own."""
    if joint.follows is None:
        return np.zeros(0)
    return q[model.slice(joint.follows)]


def closure_gap(model: tb.Model, q: Array) -> Array:
    """Return by how much the loops fail to close [m, and sines of angles].

    Six numbers at most for each loop, zero where it closes: the offset of the two places, and how
    the directions that the joint keeps differ.
    """
    poses = body_poses(model, q)
    gaps = []
    for loop in model.loops:
        first = poses[loop.first] @ loop.joint.pose.matrix
        second = poses[loop.second] @ loop.second_pose.matrix
        R = first[:3, :3].T
        gaps.append(
            relative_gap(loop.joint, R @ second[:3, :3], R @ (second[:3, 3] - first[:3, 3]))
        )
    return np.concatenate(gaps)


def relative_gap(joint: tb.Joint, R: Array, p: Array) -> Array:
    """Return by how much a rotation and an offset [m] are none that a joint allows."""
    if joint.kind == "spherical":
        return p
    if joint.kind == "revolute":
        axis = np.array(joint.axis)
        return np.concatenate([p, np.cross(axis, R @ axis)])
    if joint.kind == "fixed":
        return np.concatenate([p, turn_of(R)])
    if joint.kind == "universal":
        first, second = np.array(joint.axis), np.array(joint.second_axis)
        return np.append(p, first @ (R @ second) - first @ second)
    raise ValueError(f"no gap is known for a {joint.kind} joint that closes a loop")


def turn_of(R: Array) -> Array:
    """Return the axis of a rotation times its angle [rad], up to half a turn."""
    axis = 0.5 * np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    sine = float(np.linalg.norm(axis))
    cosine = 0.5 * (float(np.trace(R)) - 1.0)
    if sine > 1e-9:
        return axis / sine * math.atan2(sine, cosine)
    # no turn, or half a turn about an axis that need not be known
    return axis if cosine > 0.0 else np.array([math.pi, 0.0, 0.0])


def close(model: tb.Model, guess: Mapping[str, object], hold: tuple[str, ...] = ()) -> Array:
    """Return the position near a guess at which all loops close.

    Args:
        model: The mechanism.
        guess: Positions by joint name; the neutral ones where nothing is said.
        hold: Joints that keep the position of the guess.

    Raises:
        ValueError: If Newton's method does not get there.
    """
    q = model.neutral()
    for name, value in guess.items():
        q[model.slice(name)] = value
    held = [index for name in hold for index in range(model.nv)[model.slice(name, of="v")]]
    free = [index for index in range(model.nv) if index not in held]
    last = math.inf
    for attempt in range(25):
        gap = closure_gap(model, q)
        size = float(np.abs(gap).max())
        # as closed as rounding lets it be, or wandering about
        if size < 4e-16 or (size < 1e-13 and size >= last) or (attempt > 8 and size > 0.1):
            break
        last = size
        steps = STEP * np.eye(model.nv)[free]
        ahead, behind = (
            np.array([closure_gap(model, moved) for moved in model.integrate(q, sign * steps)])
            for sign in (1.0, -1.0)
        )
        J = (ahead - behind).T / (2.0 * STEP)
        change = np.zeros(model.nv)
        change[free] = -np.linalg.lstsq(J, gap, rcond=1e-7)[0]
        q = model.integrate(q, change)
    size = float(np.abs(closure_gap(model, q)).max())
    if size > 1e-13:
        raise ValueError(f"{model.name}: loops stay open by {size:.2g}; give a better guess")
    return q
