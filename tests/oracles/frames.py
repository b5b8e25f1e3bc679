"""Motion of frames and momentum by dense matrices in world coordinates.

Built on `tests.oracles.absolute`: everything about the world's origin, in world axes, then moved to
the point and turned to the axes asked for, each by its textbook formula.
"""

import numpy as np

from tests.oracles import absolute


def carrier_of(model, name):
    """Return the number of the body that carries a frame, -1 for the world."""
    numbers = {"world": -1} | {body.name: k for k, body in enumerate(model.bodies)}
    numbers |= {frame.name: numbers[frame.body] for frame in model.frames}
    return numbers[name]


def spatial_jacobian(model, q, name):
    """Return the columns of all joints that carry a frame, at the world's origin (6, nv)."""
    links = absolute.links_of(model, q)
    J = np.zeros((6, model.nv))
    number = carrier_of(model, name)
    while number >= 0:
        J[:, links[number].v] = links[number].S
        number = links[number].parent
    return J


def center_of_mass(model, q):
    """Return the mean of the bodies' centers weighted by mass, over those that move."""
    total, moment = 0.0, np.zeros(3)
    links = absolute.links_of(model, q)
    moves = []
    for body, link in zip(model.bodies, links, strict=True):
        moves.append(link.S.shape[1] > 0 or (link.parent >= 0 and moves[link.parent]))
        if moves[-1]:
            total += body.inertia.mass
            moment += body.inertia.mass * (link.pose @ [*body.inertia.com, 1.0])[:3]
    return moment / total


def point_of(model, q, name, at):
    """Return the point at which a motion is reported, in the world."""
    pose = absolute.frame_pose(model, q, name)
    if isinstance(at, str):
        named = {"frame": lambda: pose[:3, 3], "world": lambda: np.zeros(3)}
        named["com"] = lambda: center_of_mass(model, q)
        return named[at]()
    return (pose @ [*at, 1.0])[:3]


def told(model, q, name, motion, at, axes):
    """Move motions (6, ...) from the world's origin to a point and into axes."""
    shift = np.block(
        [[np.eye(3), np.zeros((3, 3))], [-absolute.skew(point_of(model, q, name, at)), np.eye(3)]]
    )
    R = np.eye(3) if axes == "world" else absolute.frame_pose(model, q, name)[:3, :3]
    turn = np.block([[R.T, np.zeros((3, 3))], [np.zeros((3, 3)), R.T]])
    return turn @ shift @ motion


def frame_jacobian(model, q, name, at="frame", axes="world"):
    """Return the Jacobian of a frame."""
    return told(model, q, name, spatial_jacobian(model, q, name), at, axes)


def spatial_acceleration(model, q, v, vd, name):
    """Return the spatial acceleration of a frame's body at the world's origin."""
    links = absolute.links_of(model, q)
    products = absolute.velocity_products(links, v)
    total = np.zeros(6)
    number = carrier_of(model, name)
    while number >= 0:
        link = links[number]
        total = total + link.S @ vd[link.v] + products[number]
        number = link.parent
    return total


def momentum_matrix(model, q, about):
    """Return the sum of I J over all bodies, moments about a point, shape (6, nv)."""
    links = absolute.links_of(model, q)
    total = sum(
        link.inertia @ spatial_jacobian(model, q, body.name)
        for body, link in zip(model.bodies, links, strict=True)
    )
    shift = np.block([[np.eye(3), -absolute.skew(about)], [np.zeros((3, 3)), np.eye(3)]])
    return shift @ total
