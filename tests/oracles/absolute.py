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


def cross(a, b):
    """Return a x b; `np.cross` takes ten times as long for one pair."""
    (a1, a2, a3), (b1, b2, b3) = a, b
    return np.array([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1])


def lower_blocks(A, B):
    """Return [[A, 0], [B, A]]."""
    found = np.zeros((6, 6), np.result_type(A, B))
    found[:3, :3] = found[3:, 3:] = A
    found[3:, :3] = B
    return found


def motion_matrix(pose):
    """Return the 6x6 matrix from the body's coordinates of a motion to the world's."""
    R, p = pose[:3, :3], pose[:3, 3]
    return lower_blocks(R, skew(p) @ R)


def cross_motion(v):
    """Return the 6x6 matrix of v x on motions."""
    return lower_blocks(skew(v[:3]), skew(v[3:]))


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
    columns = [((w * w - u @ u) * e + 2.0 * (u @ e) * u + 2.0 * w * cross(u, e)) for e in np.eye(3)]
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
    elif joint.kind == "spherical":
        pose[:3, :3] = quaternion_matrix(q)
    elif joint.kind == "rolling sphere":
        pose[:3, :3] = quaternion_matrix(q[2:])
        pose[:3, 3] = [q[0], q[1], joint.radius]
    else:
        # one elementary motion after the other
        for line, free, rate in elementary_motions(joint):
            angle, slide = rate(q)
            step = np.eye(4)
            step[:3, :3] = turn(np.array(line), angle)
            step[:3, 3] = np.array(free) * slide
            pose = pose @ step
    return pose


def elementary_motions(joint):
    """List turns about, and slides along, axes of the frame reached so far.

    Each is an axis to turn about, one to slide along, and a function from q to angle and distance.
    """
    x = np.array([1.0, 0.0, 0.0])
    if joint.kind == "screw":
        axis, offset, pitch, lead = joint.axis, joint.offset, joint.pitch, joint.lead
        return [(axis, axis, lambda q: (q[0] + offset, pitch * (q[0] + offset) + lead))]
    if joint.kind == "cylindrical":
        axis = joint.axis
        return [(axis, x, lambda q: (q[0], 0.0)), (x, axis, lambda q: (0.0, q[1]))]
    if joint.kind == "universal":
        first, second = joint.axis, joint.second_axis
        return [(first, x, lambda q: (q[0], 0.0)), (second, x, lambda q: (q[1], 0.0))]
    if joint.kind == "planar":
        a, b = joint.in_plane()
        assert np.allclose(cross(a, b), joint.axis)
        return [
            (x, a, lambda q: (0.0, q[0])),
            (x, b, lambda q: (0.0, q[1])),
            (joint.axis, x, lambda q: (q[2], 0.0)),
        ]
    assert joint.kind == "fixed", joint.kind
    return []


def joint_columns(joint, q):
    """Return S in joint coordinates, one column per velocity variable, shape (6, nv)."""
    zero = np.zeros(3)
    if joint.kind == "revolute":
        return np.array([[*joint.axis, *zero]]).T
    if joint.kind == "prismatic":
        return np.array([[*zero, *joint.axis]]).T
    body = joint_pose(joint, q)
    if joint.kind == "free":
        return motion_matrix(body)
    if joint.kind == "spherical":
        return motion_matrix(body)[:, :3]
    if joint.kind == "rolling sphere":
        # turns about the point of contact, along body axes
        contact = np.array([q[0], q[1], 0.0])
        return np.array([[*axis, *cross(contact, axis)] for axis in body[:3, :3].T]).T
    # each elementary motion belongs to the frame reached before it
    columns, pose = [], np.eye(4)
    for line, free, rate in elementary_motions(joint):
        angle, slide = rate(q)
        turns, slides = np.array(rate(np.ones(joint.nq))) - np.array(rate(np.zeros(joint.nq)))
        own = np.array([*(turns * np.array(line)), *(slides * np.array(free))])
        columns.append(motion_matrix(pose) @ own)
        step = np.eye(4)
        step[:3, :3] = turn(np.array(line), angle)
        step[:3, 3] = np.array(free) * slide
        pose = pose @ step
    return np.array(columns).T.reshape(6, joint.nv)


def velocity_product(joint, S, speed, carrier_speed, v, pose):
    """Return dS/dt v in the world, S being the world's columns of a joint that moves.

    Args:
        joint: Its kind and numbers.
        S: Columns in world coordinates, shape (6, nv).
        speed: Velocity of the body.
        carrier_speed: Velocity of its parent.
        v: Velocity variables of the joint.
        pose: The joint frame in the world.
    """
    if joint.kind in ("free", "spherical"):
        return cross_motion(speed) @ S @ v
    if joint.kind == "rolling sphere":
        # S v = [w; p x w] with p the point of contact, which moves in the plane as the center does
        turning = (S @ v)[:3]
        normal = pose[:3, 2]
        # the point nearest the origin is not it: find p from the columns, which all pass through it
        stacked = np.vstack([-skew(column[:3]) for column in S.T])
        contact = np.linalg.lstsq(stacked, S[3:].T.ravel(), rcond=None)[0]
        center = contact + joint.radius * normal
        center_speed = speed[3:] + cross(speed[:3], center)
        contact_speed = center_speed - joint.radius * cross(carrier_speed[:3], normal)
        rate = cross(speed[:3], turning)
        return np.concatenate([rate, cross(contact_speed, turning) + cross(contact, rate)])
    # a chain: every column is carried by the motions before it
    total, before = np.zeros(6), carrier_speed
    for column, rate in zip(S.T, v, strict=True):
        total = total + cross_motion(before) @ column * rate
        before = before + column * rate
    return total


@dataclass
class Link:
    """One of the user's bodies, in the world."""

    parent: int
    pose: np.ndarray
    S: np.ndarray
    inertia: np.ndarray
    v: slice
    joint: object
    frame: np.ndarray


def links_of(model, q):
    """Place every body of a model in the world, parents first."""
    index = {"world": -1}
    links = []
    for number, body in enumerate(model.bodies):
        index[body.name] = number
        parent = index[body.parent]
        carrier = np.eye(4) if parent < 0 else links[parent].pose
        position = q[model.slice(body.joint.name, of="q")]
        frame = carrier @ body.joint.pose.matrix
        pose = frame @ joint_pose(body.joint, position)
        to_body = np.linalg.inv(motion_matrix(pose))
        c, mass = skew(body.inertia.com), body.inertia.mass
        own = np.block(
            [[body.inertia.matrix + mass * c @ c.T, mass * c], [mass * c.T, mass * np.eye(3)]]
        )
        v = model.slice(body.joint.name, of="v")
        S = motion_matrix(frame) @ joint_columns(body.joint, position)
        links.append(Link(parent, pose, S, to_body.T @ own @ to_body, v, body.joint, frame))
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


def velocity_products(links, v):
    """Return dS/dt v of each joint (eq. 7.11)."""
    speeds = velocities(links, v)
    at_rest = np.zeros(6)
    return [
        velocity_product(
            link.joint,
            link.S,
            speed,
            at_rest if link.parent < 0 else speeds[link.parent],
            v[link.v],
            link.frame,
        )
        for link, speed in zip(links, speeds, strict=True)
    ]


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
            forces[carriers[name]] += np.concatenate([n + cross(pose[:3, 3], f), f])
    return forces


def rnea(model, q, v, vd, gravity, external=None, axes="frame"):
    """Return the joint forces (eqs. 4.6-4.10)."""
    links = links_of(model, q)
    outside = external_forces(model, q, external, axes)
    speeds = velocities(links, v)
    products = velocity_products(links, v)
    accelerations, forces = [], []
    for link, speed, product, applied in zip(links, speeds, products, outside, strict=True):
        carrier = np.array([0.0, 0.0, 0.0, *-np.asarray(gravity)])
        if link.parent >= 0:
            carrier = accelerations[link.parent]
        accelerations.append(carrier + product + link.S @ vd[link.v])
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
    c = velocity_products(links, v)
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
