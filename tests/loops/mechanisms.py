"""Mechanisms of the sources, built where tests need them."""

import numpy as np

import tiburon as tb
from tiburon.reproduce.nahon_problems import arms_on_object, planar_hand

__all__ = [
    "UP",
    "arms_on_object",
    "link",
    "piston",
    "piston_position",
    "planar_hand",
    "stretched_elbow",
]

UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
"""Turns the plane of a mechanism upright."""


def link(name, parent, joint, mass=1.0):
    """A body of some mass, away from its joint."""
    inertia = tb.Inertia(mass, (0.1, 0.05, 0.02), (0.1, 0.0, 0.0, 0.12, 0.0, 0.15))
    return tb.Body(name, parent, joint=joint, inertia=inertia)


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
