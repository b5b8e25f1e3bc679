"""Positions at which the loops of a mechanism close, found by Newton's method on plain floats."""

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
        gaps.append(relative_gap(loop.joint, np.linalg.inv(first) @ second))
    return np.concatenate(gaps)


def relative_gap(joint: tb.Joint, pose: Array) -> Array:
    """Return by how much a pose is none that a joint allows."""
    R, p = pose[:3, :3], pose[:3, 3]
    if joint.kind == "spherical":
        return p
    if joint.kind == "revolute":
        axis = np.array(joint.axis)
        return np.concatenate([p, np.cross(axis, R @ axis)])
    if joint.kind == "fixed":
        skew = 0.5 * (R - R.T)
        return np.concatenate([p, [skew[2, 1], skew[0, 2], skew[1, 0]]])
    if joint.kind == "universal":
        first, second = np.array(joint.axis), np.array(joint.second_axis)
        return np.append(p, first @ (R @ second) - first @ second)
    raise ValueError(f"no gap is known for a {joint.kind} joint that closes a loop")


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
    for _ in range(50):
        gap = closure_gap(model, q)
        if np.abs(gap).max() < 4e-16:
            break
        J = np.empty((gap.size, len(free)))
        for column, index in enumerate(free):
            step = np.zeros(model.nv)
            step[index] = STEP
            ahead, behind = (closure_gap(model, model.integrate(q, s * step)) for s in (1, -1))
            J[:, column] = (ahead - behind) / (2.0 * STEP)
        change = np.zeros(model.nv)
        change[free] = -np.linalg.lstsq(J, gap, rcond=1e-7)[0]
        q = model.integrate(q, change)
    gap = np.abs(closure_gap(model, q)).max()
    if gap > 1e-13:
        raise ValueError(f"{model.name}: loops stay open by {gap:.2g}; give a better guess")
    return q
