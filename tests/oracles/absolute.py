"""Dense 6x6 dynamics in world coordinates: slow, obvious, sharing nothing with the library.

Everything is expressed in the world frame about its origin, so that no coordinate transform enters
the recursions (Featherstone 1987, eqs. 4.6-4.10, 5.7-5.10, 6.46-6.55, 7.16-7.20). Bodies are the
user's own: fixed joints are joints without columns, and no frame is re-chosen. Only the plain data
of a model is read.

6-vectors have the angular part first.
"""

from dataclasses import dataclass

import numpy as np


def skew(a):
    """Return the matrix of a x."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def motion_matrix(pose):
    """Return the 6x6 matrix from the body's coordinates of a motion to the world's."""
    R, p = pose[:3, :3], pose[:3, 3]
    return np.block([[R, np.zeros((3, 3))], [skew(p) @ R, R]])


def cross_motion(v):
    """Return the 6x6 matrix of v x on motions."""
    return np.block([[skew(v[:3]), np.zeros((3, 3))], [skew(v[3:]), skew(v[:3])]])


def cross_force(v):
    """Return the 6x6 matrix of v x* on forces."""
    return -cross_motion(v).T


def turn(axis, angle):
    """Return the rotation matrix about a unit axis, by Rodrigues' formula."""
    K = skew(axis)
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K


def quaternion_matrix(quaternion):
    """Return R v = q v q* / |q|^2, column by column from the quaternion product."""
    w, u = quaternion[0], np.asarray(quaternion[1:])
    square = w * w + u @ u
    columns = [
        ((w * w - u @ u) * e + 2.0 * (u @ e) * u + 2.0 * w * np.cross(u, e)) for e in np.eye(3)
    ]
    return np.array(columns).T / square


def joint_pose(joint, q):
    """Return the homogeneous matrix of the body in its joint frame."""
    pose = np.eye(4)
    if joint.kind == "revolute":
        pose[:3, :3] = turn(np.array(joint.axis), q[0] + joint.offset)
    elif joint.kind == "prismatic":
        pose[:3, 3] = np.array(joint.axis) * (q[0] + joint.offset)
    elif joint.kind == "free":
        pose[:3, :3] = quaternion_matrix(q[:4])
        pose[:3, 3] = q[4:]
    else:
        assert joint.kind == "fixed", joint.kind
    return pose


def joint_columns(joint):
    """Return S in body coordinates, shape (6, nv)."""
    if joint.kind == "revolute":
        return np.array([[*joint.axis, 0.0, 0.0, 0.0]]).T
    if joint.kind == "prismatic":
        return np.array([[0.0, 0.0, 0.0, *joint.axis]]).T
    return np.eye(6) if joint.kind == "free" else np.zeros((6, 0))


@dataclass
class Link:
    """One of the user's bodies, in the world."""

    parent: int
    pose: np.ndarray
    S: np.ndarray
    inertia: np.ndarray
    v: slice


def links_of(model, q):
    """Place every body of a model in the world, parents first."""
    index = {"world": -1}
    links = []
    for number, body in enumerate(model.bodies):
        index[body.name] = number
        parent = index[body.parent]
        carrier = np.eye(4) if parent < 0 else links[parent].pose
        position = q[model.slice(body.joint.name, of="q")]
        pose = carrier @ body.joint.pose.matrix @ joint_pose(body.joint, position)
        X = motion_matrix(pose)
        to_body = np.linalg.inv(X)
        c, mass = skew(body.inertia.com), body.inertia.mass
        own = np.block(
            [[body.inertia.matrix + mass * c @ c.T, mass * c], [mass * c.T, mass * np.eye(3)]]
        )
        v = model.slice(body.joint.name, of="v")
        S = X @ joint_columns(body.joint)
        links.append(Link(parent, pose, S, to_body.T @ own @ to_body, v))
    return links


def frame_pose(model, q, name):
    """Return the homogeneous matrix of a named frame in the world."""
    poses = {"world": np.eye(4)}
    poses |= {b.name: link.pose for b, link in zip(model.bodies, links_of(model, q), strict=True)}
    for frame in model.frames:
        poses[frame.name] = poses[frame.body] @ frame.pose.matrix
    return poses[name]


def velocities(links, v):
    """Return the spatial velocity of each body (eq. 4.6)."""
    found = []
    for link in links:
        carrier = np.zeros(6) if link.parent < 0 else found[link.parent]
        found.append(carrier + link.S @ v[link.v])
    return found


def external_forces(model, q, external, axes="frame"):
    """Return the force on each body in world coordinates about the world origin.

    Args:
        model: The robot.
        q: Position.
        external: By frame name, [n; f] at the frame's origin.
        axes: Axes of the given numbers, "frame" or "world".
    """
    forces = [np.zeros(6) for _ in model.bodies]
    carriers = {b.name: i for i, b in enumerate(model.bodies)}
    for frame in model.frames:
        carriers[frame.name] = carriers.get(frame.body, -1)
    for name, wrench in (external or {}).items():
        pose = frame_pose(model, q, name).copy()
        if axes == "world":
            pose[:3, :3] = np.eye(3)
        n, f = pose[:3, :3] @ wrench[:3], pose[:3, :3] @ wrench[3:]
        if carriers.get(name, -1) >= 0:
            forces[carriers[name]] += np.concatenate([n + np.cross(pose[:3, 3], f), f])
    return forces


def rnea(model, q, v, vd, gravity, external=None, axes="frame"):
    """Return the joint forces (eqs. 4.6-4.10)."""
    links = links_of(model, q)
    outside = external_forces(model, q, external, axes)
    speeds = velocities(links, v)
    accelerations, forces = [], []
    for link, speed, applied in zip(links, speeds, outside, strict=True):
        carrier = np.array([0.0, 0.0, 0.0, *-np.asarray(gravity)])
        if link.parent >= 0:
            carrier = accelerations[link.parent]
        vJ = link.S @ v[link.v]
        accelerations.append(carrier + cross_motion(speed) @ vJ + link.S @ vd[link.v])
        momentum = link.inertia @ speed
        forces.append(link.inertia @ accelerations[-1] + cross_force(speed) @ momentum - applied)
    tau = np.zeros(model.nv)
    for i in reversed(range(len(links))):
        tau[links[i].v] = links[i].S.T @ forces[i]
        if links[i].parent >= 0:
            forces[links[i].parent] = forces[links[i].parent] + forces[i]
    return tau


def crba(model, q):
    """Return the mass matrix H_ij = S_i^T I^C_max(i, j) S_j on one branch (eqs. 5.7, 5.10)."""
    links = links_of(model, q)
    composite = [link.inertia for link in links]
    for i in reversed(range(len(links))):
        if links[i].parent >= 0:
            composite[links[i].parent] = composite[links[i].parent] + composite[i]
    H = np.zeros((model.nv, model.nv))
    for i, link in enumerate(links):
        j = i
        while j >= 0:
            block = links[j].S.T @ composite[i] @ link.S
            H[links[j].v, link.v], H[link.v, links[j].v] = block, block.T
            j = links[j].parent
    return H


def aba(model, q, v, tau, gravity, external=None, axes="frame"):
    """Return the joint accelerations (eqs. 6.46-6.55, multi-freedom form of sec. 7.2)."""
    links = links_of(model, q)
    outside = external_forces(model, q, external, axes)
    speeds = velocities(links, v)
    IA = [link.inertia for link in links]
    pA = [
        cross_force(speed) @ link.inertia @ speed - applied
        for link, speed, applied in zip(links, speeds, outside, strict=True)
    ]
    c = [
        cross_motion(speed) @ link.S @ v[link.v] for link, speed in zip(links, speeds, strict=True)
    ]
    U, D, u = ([None] * len(links) for _ in range(3))
    for i in reversed(range(len(links))):
        S = links[i].S
        U[i] = IA[i] @ S
        D[i] = S.T @ U[i]
        u[i] = tau[links[i].v] - S.T @ pA[i] - U[i].T @ c[i]
        if links[i].parent >= 0:
            DU = np.linalg.solve(D[i], U[i].T) if S.shape[1] else np.zeros((0, 6))
            handed = pA[i] + IA[i] @ c[i] + DU.T @ u[i]
            IA[links[i].parent] = IA[links[i].parent] + IA[i] - U[i] @ DU
            pA[links[i].parent] = pA[links[i].parent] + handed
    vd = np.zeros(model.nv)
    accelerations = []
    for i, link in enumerate(links):
        carrier = np.array([0.0, 0.0, 0.0, *-np.asarray(gravity)])
        if link.parent >= 0:
            carrier = accelerations[link.parent]
        if link.S.shape[1]:
            vd[link.v] = np.linalg.solve(D[i], u[i] - U[i].T @ carrier)
        accelerations.append(carrier + c[i] + link.S @ vd[link.v])
    return vd


def kinetic_energy(model, q, v):
    """Return half the sum of v . I v."""
    links = links_of(model, q)
    return 0.5 * sum(
        s @ link.inertia @ s for link, s in zip(links, velocities(links, v), strict=True)
    )


def potential_energy(model, q, gravity):
    """Return minus g . (m c) summed over the bodies that move."""
    links = links_of(model, q)
    total = 0.0
    moves = []
    for body, link in zip(model.bodies, links, strict=True):
        moves.append(link.S.shape[1] > 0 or (link.parent >= 0 and moves[link.parent]))
        center = link.pose @ np.array([*body.inertia.com, 1.0])
        total -= moves[-1] * body.inertia.mass * (center[:3] @ np.asarray(gravity))
    return total


def momentum(model, q, v):
    """Return the momentum of all bodies about the world origin, shape (6,)."""
    links = links_of(model, q)
    return sum(link.inertia @ s for link, s in zip(links, velocities(links, v), strict=True))
