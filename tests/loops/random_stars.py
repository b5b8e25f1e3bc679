"""Random stars: a load on two to six arms, in all forms that the tree of a file may have."""

from dataclasses import replace

import numpy as np

import tiburon as tb
from tests.loops.random_mechanisms import _ball, _cross, _hinge, _inertia, _pose, _slide
from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.tape_calls import JointVector

TREES = (
    "free load",
    "carried load",
    "legs on the load",
    "load on a joint",
    "moving bases",
    "free bases",
)
GRASPS = {
    "rigid": lambda name: tb.Fixed(name),
    "hinge": lambda name: tb.Revolute(name, (0.0, 0.0, 1.0)),
    "ball": lambda name: tb.Spherical(name),
    "soft finger": lambda name: tb.Universal(name, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    "slide": lambda name: tb.Prismatic(name, (1.0, 0.0, 0.0)),
}


def _arm(rng, prefix, parent, dof, wet=None):
    """Return the bodies of an arm with joints of all kinds and a given number of DoF."""
    bodies = []
    left = dof
    while left:
        makes = {1: [_hinge, _slide], 2: [_hinge, _hinge, _cross], 3: [_hinge, _ball, _cross]}
        choices = [_hinge, _hinge, _slide, _ball, _cross] if left > 3 else makes[left]
        make = choices[rng.integers(len(choices))]
        name = f"{prefix}_{len(bodies)}"
        joint = make(f"{name} joint", rng)
        if rng.random() < 0.3:
            joint = replace(joint, armature=(0.05,) * joint.nv if joint.nv > 1 else 0.05)
        bodies.append(tb.Body(name, parent=parent, joint=joint, inertia=_inertia(rng), fluid=wet))
        left -= joint.nv
        parent = name
    return bodies


def closed_at(tree, q, first, second, joint):
    """Return a loop whose joint is at its neutral position in a configuration."""
    places = frame_places(tree.plan, JointVector([float(x) for x in q]), [first, second])
    (Ra, pa), (Rb, pb) = ((np.array(place.R), np.array(place.p)) for place in places)
    # the joint frame stands on the first body, somewhere between the two
    at, turn = 0.5 * (pa + pb), Ra
    own = tb.Pose(Ra.T @ turn, Ra.T @ (at - pa))
    other = tb.Pose(Rb.T @ turn, Rb.T @ (at - pb))
    return tb.LoopClosure(joint.name, first, second, replace(joint, pose=own), other)


def random_star(tree_kind, rng, *, arms=None, grasp=None, dof=None, wet=None):
    """Draw a star; its loops are closed at the configuration that is returned.

    Args:
        tree_kind: One of `TREES`.
        rng: Where numbers come from.
        arms: Number of arms; two to six by default.
        grasp: One of `GRASPS`; any by default.
        dof: Degrees of freedom of each arm; by default as many as its grasp resists, or more.
        wet: Hydrodynamic coefficients of all bodies.

    Returns:
        Model and configuration.
    """
    arms = int(rng.integers(2, 7)) if arms is None else arms
    kinds = [grasp or list(GRASPS)[rng.integers(len(GRASPS))] for _ in range(arms)]
    bodies, ends = [], []
    load = tb.Free("load joint")
    if tree_kind == "load on a joint":
        load = tb.Planar("load joint") if rng.random() < 0.5 else tb.Spherical("load joint")
        load = replace(load, pose=_pose(rng))
    if tree_kind != "carried load":
        bodies.append(tb.Body("load", joint=load, inertia=_inertia(rng), fluid=wet))
    for k, kind in enumerate(kinds):
        needed = len(GRASPS[kind]("x").loop_constraints())
        size = dof or needed + int(rng.integers(0, 2))
        parent = "load" if tree_kind == "legs on the load" else "world"
        if tree_kind in ("moving bases", "free bases"):
            make = tb.Planar if tree_kind == "moving bases" else tb.Free
            cart = tb.Body(
                f"arm_{k}_cart",
                joint=make(f"arm_{k}_cart joint", pose=_pose(rng)),
                inertia=_inertia(rng),
                fluid=wet,
            )
            bodies.append(cart)
            parent = cart.name
        own = _arm(rng, f"arm_{k}", parent, size, wet)
        bodies += own
        tip = own[-1].name
        if tree_kind == "carried load" and k == 0:
            joint = _hinge("load joint", rng)
            bodies.append(
                tb.Body("load", parent=tip, joint=joint, inertia=_inertia(rng), fluid=wet)
            )
            continue
        other = "world" if tree_kind == "legs on the load" else "load"
        ends.append((other, tip, GRASPS[kind](f"grasp_{k}")))
        if rng.random() < 0.3:
            # a branch that hangs on the arm
            branch = tb.Body(
                f"arm_{k}_tool",
                parent=own[0].name,
                joint=_hinge(f"arm_{k}_tool joint", rng),
                inertia=_inertia(rng),
                fluid=wet,
            )
            bodies.append(branch)
    tree = tb.Model(f"star, {tree_kind}", bodies)
    q = tree.integrate(tree.neutral(), 0.6 * rng.standard_normal(tree.nv))
    loops = [closed_at(tree, q, *end) for end in ends]
    return tb.Model(tree.name, bodies, loops=loops), q
