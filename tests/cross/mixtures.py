"""Robots whose numbers Pinocchio and MuJoCo write in other orders and axes than we do.

Bodies are listed breadth first, while both other codes want each branch to its tip, and the
floating base has a joint frame that is not the world's.
"""

import numpy as np

import tiburon as tb
from tests.model.samples import random_inertia, random_pose

UNBOUNDED = "j_wheel"
"""The hinge that Pinocchio holds as cosine and sine."""


def _model(name, plan, seed):
    rng = np.random.default_rng(seed)
    bodies = []
    for body, parent, make in plan:
        joint = make(f"j_{body}", random_pose(rng))
        bodies.append(tb.Body(body, parent, joint=joint, inertia=random_inertia(rng)))
    return tb.Model(name, bodies, [tb.Frame("tip", bodies[-1].name, random_pose(rng))])


def _free(name, pose):
    return tb.Free(name, pose=pose)


def _hinge(name, pose):
    return tb.Revolute(name, axis=(0.36, 0.48, 0.8), pose=pose)


def _wheel(name, pose):
    return tb.Revolute(name, axis=(0, 0, 1), pose=pose)


def _slide(name, pose):
    return tb.Prismatic(name, axis=(0, 0.6, -0.8), pose=pose)


def _ball(name, pose):
    return tb.Spherical(name, pose=pose)


def _puck(name, pose):
    return tb.Planar(name, pose=pose)


def _cross(name, pose):
    return tb.Universal(name, axis=(1, 0, 0), second_axis=(0, 1, 0), pose=pose)


def _sleeve(name, pose):
    return tb.Cylindrical(name, axis=(0, 1, 0), pose=pose)


def _spindle(name, pose):
    return tb.Screw(name, axis=(0, 0, 1), pitch=0.07, pose=pose)


COMMON = [
    ("base", "world", _free),
    ("left", "base", _hinge),
    ("right", "base", _slide),
    ("ball", "left", _ball),
    ("puck", "right", _puck),
    ("cross", "ball", _cross),
    ("wheel", "puck", _wheel),
]


def for_pinocchio():
    """Return a robot with the joint kinds that Pinocchio has."""
    return _model("for_pinocchio", [*COMMON, ("nut", "cross", _spindle)], 31)


def for_mujoco():
    """Return a robot with the joint kinds that MuJoCo can put together."""
    return _model("for_mujoco", [*COMMON, ("sleeve", "cross", _sleeve)], 32)
