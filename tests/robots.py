"""The fixed list of robots that native code, recordings and identities are checked on.

Chosen so that every joint kind, axis kind, placement kind and tree shape occurs: chains, branches,
several roots, floating bases, floats in the middle of a tree, welds, zeros among the inertias.
"""

import numpy as np

import benchmarks.robots as measured
import tiburon as tb
from tests.model.samples import arm as rover
from tests.model.samples import random_inertia, random_joint, random_pose, random_tree


def pendulum(length=0.7, mass=1.3):
    """Build a point mass on a massless rod, turning about y, hanging down at q = 0."""
    bob = tb.Inertia.point(mass, com=(0.0, 0.0, -length))
    return tb.Model(
        "pendulum", [tb.Body("rod", joint=tb.Revolute("pivot", axis=(0, 1, 0)), inertia=bob)]
    )


def double_pendulum(lengths=(0.7, 0.4), masses=(1.3, 0.8)):
    """Build two point masses on massless rods in the x-z plane, q = 0 hanging down."""
    bobs = [tb.Inertia.point(m, com=(0.0, 0.0, -d)) for m, d in zip(masses, lengths, strict=True)]
    at = tb.Pose(translation=(0.0, 0.0, -lengths[0]))
    return tb.Model(
        "double_pendulum",
        [
            tb.Body("upper", joint=tb.Revolute("shoulder", axis=(0, 1, 0)), inertia=bobs[0]),
            tb.Body(
                "lower",
                parent="upper",
                joint=tb.Revolute("elbow", axis=(0, 1, 0), pose=at),
                inertia=bobs[1],
            ),
        ],
    )


def cart_pendulum(cart=2.0, mass=0.7, length=0.6):
    """Build a cart on a rail along x with a point-mass pendulum that hangs down at q = 0."""
    return tb.Model(
        "cart_pendulum",
        [
            tb.Body(
                "cart",
                joint=tb.Prismatic("rail", axis=(1, 0, 0)),
                inertia=tb.Inertia(mass=cart, tensor=(0.1, 0.1, 0.1)),
            ),
            tb.Body(
                "rod",
                parent="cart",
                joint=tb.Revolute("pivot", axis=(0, 1, 0)),
                inertia=tb.Inertia.point(mass, com=(0.0, 0.0, -length)),
            ),
        ],
    )


def top(mass=1.1, moments=(0.02, 0.03, 0.045)):
    """Build one free rigid body with its center of mass at the body origin."""
    return tb.Model(
        "top",
        [tb.Body("top", joint=tb.Free("float"), inertia=tb.Inertia(mass, (0, 0, 0), moments))],
    )


def gantry():
    """Build three slides along coordinate axes with a wrist of two hinges."""
    rng = np.random.default_rng(11)
    bodies, parent = [], "world"
    axes = [(1, 0, 0), (0, 1, 0), (0, 0, -1)]
    for number, axis in enumerate(axes):
        joint = tb.Prismatic(f"slide_{number}", axis=axis, offset=0.1 * number)
        bodies.append(tb.Body(f"stage_{number}", parent, joint=joint, inertia=random_inertia(rng)))
        parent = bodies[-1].name
    for number, axis in enumerate([(0, 0, 1), (0, -1, 0)]):
        joint = tb.Revolute(
            f"wrist_{number}", axis=axis, pose=tb.Pose.from_rpy((0, 0.0, np.pi / 2))
        )
        bodies.append(tb.Body(f"hand_{number}", parent, joint=joint, inertia=random_inertia(rng)))
        parent = bodies[-1].name
    tip = tb.Frame("tip", parent, tb.Pose(translation=(0.0, 0.02, 0.1)))
    return tb.Model("gantry", bodies, [tip])


def forest():
    """Build two trees that share nothing: one fixed, one floating."""
    rng = np.random.default_rng(12)
    names = [("a", "world"), ("b", "a"), ("c", "world"), ("d", "c"), ("e", "c")]
    kinds = [("revolute",), ("prismatic",), ("free",), ("revolute",), ("revolute",)]
    bodies = [
        tb.Body(
            name, parent, joint=random_joint(rng, f"j_{name}", kind), inertia=random_inertia(rng)
        )
        for (name, parent), kind in zip(names, kinds, strict=True)
    ]
    return tb.Model("forest", bodies, [tb.Frame("tip", "e", random_pose(rng))])


def odd_arm(joints=6):
    """Build an arm whose axes and placements lie along no coordinate axis."""
    rng = np.random.default_rng(13)
    bodies, parent = [], "world"
    for number in range(joints):
        axis = rng.standard_normal(3)
        joint = tb.Revolute(
            f"joint_{number}", axis=(axis / np.linalg.norm(axis)).tolist(), pose=random_pose(rng)
        )
        bodies.append(tb.Body(f"link_{number}", parent, joint=joint, inertia=random_inertia(rng)))
        parent = bodies[-1].name
    return tb.Model("odd_arm", bodies, [tb.Frame("tip", parent, random_pose(rng))])


def welded():
    """Build a hinge that carries a body, to which others are welded, one of them with a hinge."""
    rng = np.random.default_rng(14)
    plan = [
        ("stand", "world", ("fixed",)),
        ("turret", "stand", ("revolute",)),
        ("box", "turret", ("fixed",)),
        ("lid", "box", ("revolute",)),
        ("knob", "lid", ("fixed",)),
        ("lamp", "box", ("fixed",)),
    ]
    bodies = [
        tb.Body(n, p, joint=random_joint(rng, f"j_{n}", kinds), inertia=random_inertia(rng))
        for n, p, kinds in plan
    ]
    return tb.Model("welded", bodies, [tb.Frame("tip", "knob", random_pose(rng))])


def balloon():
    """Build a free body that floats relative to a moving arm: six DoF inside a tree."""
    rng = np.random.default_rng(15)
    plan = [
        ("arm", "world", ("revolute",)),
        ("basket", "arm", ("free",)),
        ("flap", "basket", ("prismatic",)),
    ]
    bodies = [
        tb.Body(n, p, joint=random_joint(rng, f"j_{n}", kinds), inertia=random_inertia(rng))
        for n, p, kinds in plan
    ]
    return tb.Model("balloon", bodies, [tb.Frame("tip", "flap", random_pose(rng))])


def orrery():
    """Build a tree that holds every joint kind."""
    rng = np.random.default_rng(16)
    plan = [
        ("float", "world", ("free",)),
        ("nut", "float", ("screw",)),
        ("piston", "nut", ("cylindrical",)),
        ("fork", "float", ("universal",)),
        ("ball", "fork", ("spherical",)),
        ("puck", "ball", ("planar",)),
        ("marble", "puck", ("rolling sphere",)),
        ("hand", "piston", ("revolute",)),
        ("finger", "hand", ("prismatic",)),
    ]
    bodies = [
        tb.Body(n, p, joint=random_joint(rng, f"j_{n}", kinds), inertia=random_inertia(rng))
        for n, p, kinds in plan
    ]
    return tb.Model("orrery", bodies, [tb.Frame("tip", "finger", random_pose(rng))])


def screw_chain():
    """Build threads and slides by turns about odd axes, each on the one before."""
    rng = np.random.default_rng(17)
    bodies, parent = [], "world"
    for number, kind in enumerate(["screw", "prismatic", "screw", "screw", "planar", "universal"]):
        joint = random_joint(rng, f"joint_{number}", (kind,))
        bodies.append(tb.Body(f"link_{number}", parent, joint=joint, inertia=random_inertia(rng)))
        parent = bodies[-1].name
    return tb.Model("screw_chain", bodies, [tb.Frame("tip", parent, random_pose(rng))])


ROBOTS = {
    model.name: model
    for model in [
        pendulum(),
        double_pendulum(),
        cart_pendulum(),
        top(),
        gantry(),
        forest(),
        odd_arm(),
        welded(),
        balloon(),
        orrery(),
        screw_chain(),
        rover(),
        random_tree(3, 6),
        measured.panda(),
        measured.quadruped(),
        measured.chain(8),
    ]
}
"""All of them, by name."""


def kicked(model, seed=0, shape=()):
    """Return a random state, and a random joint force or acceleration, all of order 1."""
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng, shape)
    return q, v, rng.standard_normal((*shape, model.nv))
