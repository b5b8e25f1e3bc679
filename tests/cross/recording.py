"""What is compared with Pinocchio: robots, states, and the file that holds its answers."""

import hashlib
import json
from pathlib import Path

import numpy as np

from tests.robots import ROBOTS

DATA = Path(__file__).with_name("pinocchio.npz")
PROVENANCE = DATA.with_suffix(".json")
CASES = 3
GRAVITY = (0.5, -1.0, -9.0)

KNOWN = {"revolute", "prismatic", "free", "fixed"}
"""Joint kinds that are rebuilt there."""

RECORDED = {
    name: model
    for name, model in ROBOTS.items()
    if all(joint.kind in KNOWN for joint in model.joints)
}
"""Robots compared, by name."""


def frame_of(model):
    """Return the frame a robot is compared at: "tip", or its last body."""
    return "tip" if any(frame.name == "tip" for frame in model.frames) else model.body_names[-1]


def states(model):
    """Return kicked states: q, v, x (force or acceleration) and a wrench, one row per case."""
    seed = int.from_bytes(hashlib.sha256(model.name.encode()).digest()[:4], "little")
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng, (CASES,))
    return q, v, rng.standard_normal((CASES, model.nv)), rng.standard_normal((CASES, 6))


def numbers_of(model):
    """Return all numbers that make a robot, so that a changed robot is noticed as such."""
    numbers = []
    for body in model.bodies:
        numbers += [body.inertia.mass, *body.inertia.com, *body.inertia.tensor]
        numbers += body.joint.pose.matrix.ravel().tolist()
        numbers += [*getattr(body.joint, "axis", ()), getattr(body.joint, "offset", 0.0)]
    for frame in model.frames:
        numbers += frame.pose.matrix.ravel().tolist()
    return np.array(numbers)


def load():
    """Return recorded arrays by robot and quantity, and where they come from."""
    provenance = json.loads(PROVENANCE.read_text())
    arrays = {}
    with np.load(DATA) as stored:
        for key in stored.files:
            robot, quantity = key.split("/")
            arrays.setdefault(robot, {})[quantity] = stored[key]
    return arrays, provenance
