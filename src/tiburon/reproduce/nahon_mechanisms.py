"""Mechanisms of Nahon 1991 whose counts matter and whose dimensions do not: arms and hands."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiburon.arrays import Array
from tiburon.model import Body, Free, Inertia, LoopClosure, Model, Pose, Revolute
from tiburon.model.joints import Joint, Planar


def _link(name: str, parent: str, joint: Joint, mass: float = 1.0) -> Body:
    """Return a body of some mass, away from its joint."""
    inertia = Inertia(mass, (0.1, 0.05, 0.02), (0.1, 0.0, 0.0, 0.12, 0.0, 0.15))
    return Body(name, parent, joint=joint, inertia=inertia)


def _at(point: Array) -> Pose:
    x, y, z = point.tolist()
    return Pose(translation=(x, y, z))


def arms_on_object(joint_counts: Sequence[int], tie: type[Joint]) -> Model:
    """Return serial arms with so many hinges each that hold one object; closed at neutral.

    Args:
        joint_counts: Hinges of each arm.
        tie: Joint between an arm and the object: `Fixed` for a rigid grasp, `Spherical` for a point
            with friction.
    """
    rng = np.random.default_rng(21)
    bodies = [_link("object", "world", Free("object"), 3.0)]
    loops = []
    for k, count in enumerate(joint_counts):
        parent, tip = "world", np.zeros(3)
        for i in range(count):
            axis, step = rng.standard_normal(3), rng.standard_normal(3)
            unit = axis / np.linalg.norm(axis)
            hinge = Revolute(f"a{k}_{i}", tuple(unit), pose=_at(step))
            bodies.append(_link(f"a{k}_{i}", parent, hinge))
            parent, tip = f"a{k}_{i}", tip + step
        hand = rng.standard_normal(3)
        hold = replace(tie(f"tie {k}"), pose=_at(hand))
        loops.append(LoopClosure(f"tie {k}", parent, "object", hold, _at(tip + hand)))
    return Model("arms", bodies, loops=loops)


def planar_hand(joint_counts: Sequence[int]) -> Model:
    """Return an object held by planar fingers with so many hinges each, contact included.

    Fingers stand around the object (Fig. 2.11); all hinges are parallel; closed at neutral.
    """
    bodies = [_link("object", "world", Planar("object"), 2.0)]
    loops = []
    for k, count in enumerate(joint_counts):
        angle = 2.0 * np.pi * k / len(joint_counts)
        outward = np.array([np.cos(angle), np.sin(angle), 0.0])
        across = np.array([-np.sin(angle), np.cos(angle), 0.0])
        start, end = 2.0 * outward, 0.4 * outward
        # straight from base to contact, but for a kink that keeps it from being singular
        points = [start + (end - start) * i / (count - 1) for i in range(count)]
        points = [
            p + 0.3 * across * np.sin(2.0 * i) * (0 < i < count - 1) for i, p in enumerate(points)
        ]
        parent, at = "world", np.zeros(3)
        for i in range(count - 1):
            hinge = Revolute(f"f{k}_{i}", pose=_at(points[i] - at))
            bodies.append(_link(f"f{k}_{i}", parent, hinge))
            parent, at = f"f{k}_{i}", points[i]
        contact = Revolute(f"c{k}", pose=_at(points[-1] - at))
        loops.append(LoopClosure(f"c{k}", parent, "object", contact, _at(end)))
    return Model("planar hand", bodies, loops=loops)
