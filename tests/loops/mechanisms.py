"""Mechanisms of the sources, built where tests need them."""

from dataclasses import replace

import numpy as np

import tiburon as tb

UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
"""Turns the plane of a mechanism upright."""


def link(name, parent, joint, mass=1.0):
    """A body of some mass, away from its joint."""
    inertia = tb.Inertia(mass, (0.1, 0.05, 0.02), (0.1, 0.0, 0.0, 0.12, 0.0, 0.15))
    return tb.Body(name, parent, joint=joint, inertia=inertia)


def planar_hand(freedoms):
    """An object held by planar fingers with so many hinges each, the last one the contact.

    Nahon 1991, Fig. 2.11: fingers stand around the object; all hinges are parallel to z.
    """
    bodies = [link("object", "world", tb.Planar("object"), 2.0)]
    loops = []
    for k, count in enumerate(freedoms):
        angle = 2.0 * np.pi * k / len(freedoms)
        start = 2.0 * np.array([np.cos(angle), np.sin(angle), 0.0])
        end = 0.4 * np.array([np.cos(angle), np.sin(angle), 0.0])
        # straight from base to contact, but for a kink that keeps it from being singular
        side = np.array([-np.sin(angle), np.cos(angle), 0.0])
        points = [start + (end - start) * i / (count - 1) for i in range(count)]
        points = [
            p + 0.3 * side * np.sin(2.0 * i) * (0 < i < count - 1) for i, p in enumerate(points)
        ]
        parent, at = "world", np.zeros(3)
        for i in range(count - 1):
            hinge = tb.Revolute(f"f{k}_{i}", pose=tb.Pose(translation=points[i] - at))
            bodies.append(link(f"f{k}_{i}", parent, hinge))
            parent, at = f"f{k}_{i}", points[i]
        contact = tb.Revolute(f"c{k}", pose=tb.Pose(translation=points[-1] - at))
        loops.append(tb.LoopClosure(f"c{k}", parent, "object", contact, tb.Pose(translation=end)))
    return tb.Model("planar hand", bodies, loops=loops)


def piston(closed_by=None):
    """Crank, rod and piston in a cylinder (Featherstone 1987, Fig. 9-2).

    The tree ends with the piston on its rod; the cylinder closes the loop, by a slide along x or
    any other joint. Crank of 0.3 m, rod of 0.8 m, cylinder along the world's x.
    """
    bodies = [
        link("crank", "world", tb.Revolute("crank")),
        link("rod", "crank", tb.Revolute("big end", pose=tb.Pose(translation=(0.3, 0, 0)))),
        link("piston", "rod", tb.Revolute("small end", pose=tb.Pose(translation=(0.8, 0, 0)))),
    ]
    joint = closed_by or tb.Prismatic("cylinder", (1, 0, 0))
    loop = tb.LoopClosure("cylinder", "world", "piston", joint)
    return tb.Model("piston", bodies, loops=[loop])


def piston_position(angle):
    """The closed position of the piston at an angle of the crank."""
    lean = -np.arcsin(0.3 * np.sin(angle) / 0.8)
    return np.array([angle, lean - angle, -lean])


def arms_on_object(freedoms, tie):
    """Serial arms with so many hinges each, holding one floating object; closed at neutral."""
    rng = np.random.default_rng(21)
    bodies = [link("object", "world", tb.Free("object"), 3.0)]
    loops = []
    for k, count in enumerate(freedoms):
        parent, tip = "world", np.zeros(3)
        for i in range(count):
            axis, step = rng.standard_normal(3), rng.standard_normal(3)
            hinge = tb.Revolute(
                f"a{k}_{i}", axis / np.linalg.norm(axis), pose=tb.Pose(translation=step)
            )
            bodies.append(link(f"a{k}_{i}", parent, hinge))
            parent, tip = f"a{k}_{i}", tip + step
        hand = rng.standard_normal(3)
        hold = replace(tie(f"tie {k}"), pose=tb.Pose(translation=hand))
        grasp = tb.Pose(translation=tip + hand)
        loops.append(tb.LoopClosure(f"tie {k}", parent, "object", hold, grasp))
    return tb.Model("arms", bodies, loops=loops)


def stretched_elbow():
    """Two rods of 1 m pinned to the world 2 m apart: stretched out, and singular for it."""
    rod = tb.Inertia(1.0, (0.5, 0.0, 0.0), (1e-3, 0.0, 0.0, 0.1, 0.0, 0.1))
    tip = tb.Pose(translation=(1.0, 0.0, 0.0))
    bodies = [
        tb.Body("upper", joint=tb.Revolute("shoulder", (0, 1, 0)), inertia=rod),
        tb.Body("lower", "upper", joint=tb.Revolute("elbow", (0, 1, 0), pose=tip), inertia=rod),
    ]
    pin = tb.Revolute("wrist", (0, 1, 0), pose=tip)
    loop = tb.LoopClosure("wrist", "lower", "world", pin, tb.Pose(translation=(2.0, 0.0, 0.0)))
    return tb.Model("stretched", bodies, loops=[loop])
