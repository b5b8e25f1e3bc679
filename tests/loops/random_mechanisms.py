"""Random closed mechanisms: planar, spatial, redundant, driven by ties between joints, afloat."""

from dataclasses import replace

import numpy as np

import tiburon as tb
from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.tape_calls import JointVector

KINDS = ("planar", "spatial", "redundant", "tied", "floating")


def _inertia(rng):
    # six points of mass: a tensor that some body can have
    points = 0.3 * rng.standard_normal((6, 3))
    tensor = np.eye(3) * np.sum(points**2) - points.T @ points
    entries = tensor[np.triu_indices(3)]
    return tb.Inertia(rng.uniform(0.5, 2.0), rng.uniform(-0.3, 0.3, 3), entries)


def _pose(rng):
    return tb.Pose.from_rpy(rng.uniform(-1, 1, 3), rng.uniform(-0.6, 0.6, 3))


def _chain(rng, names, parent, planar):
    bodies = []
    for name in names:
        if planar:
            joint = tb.Revolute(f"{name} joint", (0.0, 0.0, 1.0), pose=_in_plane(rng))
        else:
            make = [_hinge, _slide, _ball, _cross][rng.integers(4)]
            joint = make(f"{name} joint", rng)
        bodies.append(tb.Body(name, parent=parent, joint=joint, inertia=_inertia(rng)))
        parent = name
    return bodies


def _in_plane(rng):
    return tb.Pose.from_rpy((0.0, 0.0, rng.uniform(-1, 1)), (*rng.uniform(-0.8, 0.8, 2), 0.0))


def _axis(rng):
    axis = rng.standard_normal(3)
    return tuple(axis / np.linalg.norm(axis))


def _hinge(name, rng):
    return tb.Revolute(name, _axis(rng), pose=_pose(rng))


def _slide(name, rng):
    return tb.Prismatic(name, _axis(rng), pose=_pose(rng))


def _ball(name, rng):
    return tb.Spherical(name, pose=_pose(rng))


def _cross(name, rng):
    return tb.Universal(name, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), pose=_pose(rng))


def random_mechanism(kind, rng):
    """Draw a robot with two or three loops; they are closed at the position that is returned.

    Args:
        kind: One of `KINDS`.
        rng: Where numbers come from.

    Returns:
        Model and position.
    """
    planar = kind in ("planar", "redundant")
    root = []
    if kind == "floating":
        root = [tb.Body("hull", joint=tb.Free("float"), inertia=_inertia(rng))]
    base = "hull" if root else "world"
    size = 4 if planar else 3
    legs = [
        _chain(rng, [f"{leg}{k}" for k in range(size)], base, planar) for leg in ("a", "b", "c")
    ]
    bodies = [*root, *(body for leg in legs for body in leg)]
    tree = tb.Model(f"random {kind}", bodies)
    q = tree.integrate(tree.neutral(), 0.5 * rng.standard_normal(tree.nv))
    pairs = [(f"a{size - 1}", f"b{size - 1}"), (f"b{size - 1}", f"c{size - 1}")]
    if kind == "redundant":
        # the same pin once more, and a hinge of which planar robots need two constraints
        pairs.append(pairs[0])
    loops = [_closed_here(tree, q, *pair, f"loop {n}", planar) for n, pair in enumerate(pairs)]
    if kind == "tied":
        free = [body.joint for body in bodies if body.joint.nq == 1]
        tied, leader = free[0], free[-1]
        at = q[tree.slice(tied.name, of="q").start]
        lead = q[tree.slice(leader.name, of="q").start]
        slope, bend = 0.7, 0.2
        offset = at - slope * lead - bend * lead**2
        loops.append(
            tb.JointCoupling("tie", tied.name, leader.name, coefficients=(offset, slope, bend))
        )
    return tb.Model(tree.name, bodies, loops=loops), q


def _closed_here(tree, q, first, second, name, planar):
    """Tie two bodies by a joint that is closed where they are now."""
    places = frame_places(tree.plan, JointVector(q.tolist()), [first, second])
    (Ra, pa), (Rb, pb) = ((np.array(place.R), np.array(place.p)) for place in places)
    at = pa + Ra @ np.array([0.3, 0.2, 0.0])
    joint = tb.Revolute(name, (0.0, 0.0, 1.0)) if planar else tb.Spherical(name)
    own = tb.Pose(Ra.T, Ra.T @ (at - pa))
    other = tb.Pose(Rb.T, Rb.T @ (at - pb))
    return tb.LoopClosure(name, first, second, replace(joint, pose=own), other)
