"""Short robots with one joint of each kind between two hinges, and states they are compared in."""

import hashlib
import json
from pathlib import Path

import numpy as np

import tiburon as tb
from tests.model.samples import random_inertia, random_pose
from tests.robots import ROBOTS

DATA = Path(__file__).with_name("joint_kinds.npz")
PROVENANCE = DATA.with_suffix(".json")
COMMAND = "python -m tests.cross.record_joint_kinds"
CASES = 3
GRAVITY = (0.5, -1.0, -9.0)

AXIS = (0.36, 0.48, 0.8)

MIDDLE = {
    "spherical": lambda name, pose: tb.Spherical(name, pose=pose),
    "planar": lambda name, pose: tb.Planar(name, pose=pose),
    "universal": lambda name, pose: tb.Universal(name, (1, 0, 0), (0, 1, 0), pose=pose),
    "cylindrical": lambda name, pose: tb.Cylindrical(name, AXIS, pose=pose),
    "screw": lambda name, pose: tb.Screw(name, AXIS, pitch=0.07, pose=pose),
}


def _between_hinges(kind, seed):
    rng = np.random.default_rng(seed)
    joints = [
        tb.Revolute("first", AXIS, pose=random_pose(rng)),
        MIDDLE[kind]("middle", random_pose(rng)),
        tb.Revolute("last", (0, -0.6, 0.8), pose=random_pose(rng)),
    ]
    bodies, parent = [], "world"
    for joint in joints:
        bodies.append(tb.Body(f"b_{joint.name}", parent, joint=joint, inertia=random_inertia(rng)))
        parent = bodies[-1].name
    return tb.Model(f"with_{kind}", bodies)


ROBOTS_BY_KIND = {kind: _between_hinges(kind, seed) for seed, kind in enumerate(MIDDLE, start=71)}
"""Robots of three joints, by the kind of the middle one."""

DIFFERENTIATED = {
    **{kind: ROBOTS_BY_KIND[kind] for kind in ("spherical", "cylindrical", "screw")},
    **{name: ROBOTS[name] for name in ("panda", "quadruped", "odd_arm")},
}
"""Robots whose derivatives are compared.

Two kinds are left out. Pinocchio's steps of a planar joint turn with the body and ours do not, so
that derivatives by position are of different functions. Its analytical derivatives take the columns
of a universal joint to be constant: those by its second angle differ from central differences of
its own forces, with which ours agree (Pinocchio 4.1.0).
"""

ALL = {**ROBOTS_BY_KIND, **DIFFERENTIATED}


def states(model):
    """Return kicked states: q, v, and x (force or acceleration), one row per case."""
    seed = int.from_bytes(hashlib.sha256(model.name.encode()).digest()[:4], "little")
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng, (CASES,))
    return q, v, rng.standard_normal((CASES, model.nv))


def theirs(model, q, v=None, acceleration=None, force=None):
    """Write numbers of a robot as Pinocchio does, where a cylindrical joint is made of two."""
    if any(joint.kind == "cylindrical" for joint in model.joints):
        # hinge, then slide: all numbers stand where ours do
        return q, v, acceleration, force
    return tb.to_pinocchio(model, q, v, acceleration=acceleration, force=force)


def load():
    """Return recorded arrays by robot and quantity, and where they come from."""
    arrays = {}
    with np.load(DATA) as stored:
        for key in stored.files:
            robot, quantity = key.split("/")
            arrays.setdefault(robot, {})[quantity] = stored[key]
    return arrays, json.loads(PROVENANCE.read_text())
