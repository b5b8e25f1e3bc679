"""Overconstrained linkages: they move although counting their constraints gives no mobility.

Each builder returns a model and its closed joint positions. `digits` rounds lengths and twists, or
points and axes, as a file or a drawing would: the constraints are then nearly redundant.
"""

import numpy as np

import tiburon as tb

BENNETTS = (
    (1.0, 1.5, 40.0, 0.9),
    (1.0, 1.2, 30.0, 0.7),
    (1.0, 0.8, 60.0, 1.1),
    (1.0, 2.0, 20.0, 1.4),
)
"""Length a, length b [m], twist alpha [degrees], angle theta_1 [rad]."""

RATE = 0.5
"""Velocity of the first joint [rad/s]."""

INERTIA = tb.Inertia(1.0, (0.1, 0.0, 0.0), (0.01, 0.0, 0.0, 0.02, 0.0, 0.02))
"""Of a link, x along the link."""


def bennett(a, b, alpha, theta, digits=None):
    """The Bennett linkage: sin(beta) = (b/a) sin(alpha), opposite links alike."""
    alpha = np.radians(alpha)
    beta = np.arcsin(b / a * np.sin(alpha))
    lengths, twists = np.array([a, b, a, b]), np.array([alpha, beta, alpha, beta])
    return chain("bennett", lengths, twists, np.array(bennett_angles(alpha, beta, theta)), digits)


def bennett_angles(alpha, beta, theta):
    """Return the four joint angles of a Bennett linkage from its first."""
    ratio = np.sin((beta + alpha) / 2.0) / np.sin((beta - alpha) / 2.0)
    other = 2.0 * np.arctan(ratio / np.tan(theta / 2.0))
    return theta, other, -theta, -other


def chain(name, lengths, twists, angles, digits=None):
    """A single loop of hinges by Denavit-Hartenberg parameters, the last link being the ground."""
    if digits is not None:
        lengths, twists = np.round(lengths, digits), np.round(twists, digits)
    links = [shift(x) @ turn_x(t) for x, t in zip(lengths, twists, strict=True)]
    bodies, parent, place = [], "world", np.eye(4)
    for k in range(len(links) - 1):
        hinge = tb.Revolute(f"hinge {k + 1}", pose=pose(place))
        bodies.append(tb.Body(f"link {k + 1}", parent, joint=hinge, inertia=INERTIA))
        parent, place = f"link {k + 1}", links[k]
    last = tb.Revolute("last hinge", pose=pose(place))
    loop = tb.LoopClosure("last", parent, "world", last, pose(np.linalg.inv(links[-1])))
    return tb.Model(name, bodies, loops=[loop]), np.asarray(angles[:-1], dtype=float)


def from_axes(name, axes, digits=None):
    """A single loop of hinges by the lines of its axes in a closed position, all joints zero."""
    axes = [(np.array(point, dtype=float), np.array(axis, dtype=float)) for point, axis in axes]
    axes = [(point, axis / np.linalg.norm(axis)) for point, axis in axes]
    if digits is not None:
        # turned, so that rounding keeps no symmetry
        R = (turn_z(0.4) @ turn_x(1.1) @ turn_z(-0.7))[:3, :3]
        axes = [(np.round(R @ point, digits), np.round(R @ axis, digits)) for point, axis in axes]
    bodies, parent, at = [], "world", np.zeros(3)
    for k, (point, axis) in enumerate(axes[:-1]):
        hinge = tb.Revolute(
            f"hinge {k + 1}",
            axis / np.linalg.norm(axis),
            pose=tb.Pose(translation=point - at),
        )
        center = 0.5 * (axes[k + 1][0] - point)
        inertia = tb.Inertia(1.0, center, (0.03, 0.0, 0.0, 0.04, 0.0, 0.05))
        bodies.append(tb.Body(f"link {k + 1}", parent, joint=hinge, inertia=inertia))
        parent, at = f"link {k + 1}", point
    point, axis = axes[-1]
    last = tb.Revolute(
        "last hinge", axis / np.linalg.norm(axis), pose=tb.Pose(translation=point - at)
    )
    loop = tb.LoopClosure("last", parent, "world", last, tb.Pose(translation=point))
    return tb.Model(name, bodies, loops=[loop]), np.zeros(len(bodies))


def line_symmetric_bricard(seed=0, digits=None):
    """Three lines, and what a half turn about z makes of them."""
    rng = np.random.default_rng([seed, 1])
    axes = ring_of_lines(rng, [0.3, 1.3, 2.4])
    turned = [(p * [-1, -1, 1], a * [-1, -1, 1]) for p, a in axes]
    return from_axes("line-symmetric bricard", [*axes, *turned], digits)


def plane_symmetric_bricard(seed=0, digits=None):
    """Two lines in the plane y = 0, two beside it, and their mirror images."""
    rng = np.random.default_rng([seed, 2])
    (p1, a1), (p2, a2), (p3, a3), (p4, a4) = ring_of_lines(rng, [0.0, 1.0, 2.2, np.pi])
    mirror = np.array([1.0, -1.0, 1.0])
    inside = np.array([1.0, 0.0, 1.0])
    # a mirror reverses the sense of rotations: the axis of an image is minus its mirror image
    axes = [(p1 * inside, a1 * inside), (p2, a2), (p3, a3), (p4 * inside, a4 * inside)]
    axes += [(p3 * mirror, -a3 * mirror), (p2 * mirror, -a2 * mirror)]
    return from_axes("plane-symmetric bricard", axes, digits)


def ring_of_lines(rng, angles):
    """Return lines through points around z, in directions without any order."""
    found = []
    for angle in angles:
        point = np.array([np.cos(angle), np.sin(angle), 0.0]) + 0.2 * rng.standard_normal(3)
        found.append((point, rng.standard_normal(3)))
    return found


def goldberg(first=BENNETTS[0], length=0.7, theta=2.0, digits=None):
    """Two Bennett linkages with a common link, which is taken out; five hinges are left."""
    a, b, alpha, angle = first
    alpha = np.radians(alpha)
    beta = np.arcsin(b / a * np.sin(alpha))
    angles = bennett_angles(alpha, beta, angle)
    links = [shift(a) @ turn_x(alpha), shift(b) @ turn_x(beta)] * 2
    places = [np.eye(4)]
    for k in range(3):
        places.append(places[-1] @ turn_z(angles[k]) @ links[k])
    # the link between hinges 3 and 4 belongs to both
    gamma = np.arcsin(length / a * np.sin(alpha))
    other = bennett_angles(alpha, gamma, theta)
    own = [shift(length) @ turn_x(gamma), shift(a) @ turn_x(alpha)]
    fifth = places[3] @ turn_z(other[1]) @ own[0]
    sixth = fifth @ turn_z(other[2]) @ own[1]
    axes = [(T[:3, 3], T[:3, 2]) for T in (places[0], places[1], places[2], sixth, fifth)]
    return from_axes("goldberg", axes, digits)


def myard(alpha=0.8, digits=None):
    """The plane-symmetric linkage of five hinges."""
    b = 1.0
    a = b * np.sin(alpha)
    lengths = np.array([a, b, 0.0, b, a])
    right = np.pi / 2.0
    twists = np.array([alpha, right, np.pi - 2.0 * alpha, right, np.pi - alpha])
    angles = closed_angles(lengths, twists, 1)
    return chain("myard", lengths, twists, angles, digits)


def sarrus(digits=None):
    """Two legs of three parallel hinges each, one leg turned against the other."""
    lean = np.array([np.cos(0.7), np.sin(0.7), 0.0])
    out, up = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    side = np.cross(up, lean)
    first = [(out * x + up * z, (0.0, 1.0, 0.0)) for x, z in ((1, 0), (1.8, 0.5), (1, 1))]
    second = [(lean * x + up * z, side) for x, z in ((-1, 1), (-1.8, 0.5), (-1, 0))]
    return from_axes("sarrus", [*first, *second], digits)


def three_cranks(digits=None):
    """A parallelogram whose coupler turns on three equal cranks."""
    length = 0.3 if digits is None else np.round(0.3 * (1 + 1e-6 * np.array([1, -2, 3])), 7)
    length = np.broadcast_to(length, 3)
    feet, up = np.array([0.0, 0.5, 1.3]), (0, 1, 0)
    bodies = [
        tb.Body(
            f"crank {k + 1}",
            joint=tb.Revolute(f"foot {k + 1}", up, pose=tb.Pose(translation=(x, 0, 0))),
            inertia=INERTIA,
        )
        for k, x in enumerate(feet)
    ]
    head = tb.Revolute("head 1", up, pose=tb.Pose(translation=(length[0], 0, 0)))
    bodies.append(tb.Body("coupler", "crank 1", joint=head, inertia=INERTIA))
    loops = [
        tb.LoopClosure(
            f"head {k + 1}",
            f"crank {k + 1}",
            "coupler",
            tb.Revolute(f"pin {k + 1}", up, pose=tb.Pose(translation=(length[k], 0, 0))),
            tb.Pose(translation=(feet[k], 0, 0)),
        )
        for k in (1, 2)
    ]
    model = tb.Model("three cranks", bodies, loops=loops)
    angle = 0.8
    q = dict.fromkeys(("foot 1", "foot 2", "foot 3"), angle) | {"head 1": -angle}
    return model, np.array([q[joint.name] for joint in model.joints])


def closed_angles(lengths, twists, seed):
    """Return joint angles that close a loop of hinges, by Newton steps from random ones."""
    rng = np.random.default_rng(seed)
    links = [shift(x) @ turn_x(t) for x, t in zip(lengths, twists, strict=True)]

    def opening(angles):
        T = np.eye(4)
        for angle, link in zip(angles, links, strict=True):
            T = T @ turn_z(angle) @ link
        return (T - np.eye(4))[:3].ravel()

    for _ in range(200):
        angles = rng.uniform(-np.pi, np.pi, len(links))
        for _ in range(60):
            steps = 1e-6 * np.eye(len(links))
            slopes = np.array([(opening(angles + s) - opening(angles - s)) / 2e-6 for s in steps])
            change = np.linalg.lstsq(slopes.T, -opening(angles), rcond=1e-6)[0]
            angles = angles + change * min(1.0, 0.5 / np.abs(change).max())
        turns = np.abs(np.sin(angles))
        if np.abs(opening(angles)).max() < 1e-14 and np.all(turns > 0.1):
            return angles
    raise AssertionError("no closed position found")


def moving(model, q):
    """Return the joint velocity that the loops allow, that of the first joint being `RATE`."""
    J = tb.loop_jacobian(model, q)
    free = np.linalg.svd(J)[2][-1]
    return free * (RATE / free[0])


def shift(length):
    """Translation along x."""
    T = np.eye(4)
    T[0, 3] = length
    return T


def turn_x(angle):
    """Rotation about x."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1.0]])


def turn_z(angle):
    """Rotation about z."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])


def pose(T):
    """A homogeneous transformation as a pose."""
    return tb.Pose(T[:3, :3], T[:3, 3])


LINKAGES = {
    **{
        f"bennett {k + 1}": (lambda given=given, **how: bennett(*given, **how))
        for k, given in enumerate(BENNETTS)
    },
    "line-symmetric bricard": line_symmetric_bricard,
    "plane-symmetric bricard": plane_symmetric_bricard,
    "goldberg": goldberg,
    "myard": myard,
    "sarrus": sarrus,
    "three cranks": three_cranks,
    **{
        f"random line-symmetric {k}": (lambda k=k, **how: line_symmetric_bricard(k, **how))
        for k in (3, 4)
    },
    **{
        f"random plane-symmetric {k}": (lambda k=k, **how: plane_symmetric_bricard(k, **how))
        for k in (3, 4)
    },
}
"""All of them by name."""
