"""Motions of loads that arms, fingers or cranks move: from rest to rest, and followed by joints."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array, ArrayLike
from tiburon.functions.loop_motion import loop_motion
from tiburon.model import Model


class Share(NamedTuple):
    """A share from 0 to 1 of a motion, with its derivatives by the share of its time."""

    value: Array
    rate: Array
    change: Array


def quintic(s: ArrayLike) -> Share:
    """Return a polynomial of fifth order with zero rates and changes at both ends."""
    x = np.asarray(s, dtype=np.float64)
    return Share(
        x**3 * (10.0 - 15.0 * x + 6.0 * x * x),
        30.0 * x * x * (1.0 - x) ** 2,
        60.0 * x * (1.0 - x) * (1.0 - 2.0 * x),
    )


def cycloid(s: ArrayLike) -> Share:
    """Return a cycloid, as in (7.12) of Nahon 1991."""
    phase = 2.0 * np.pi * np.asarray(s, dtype=np.float64)
    return Share(
        (phase - np.sin(phase)) / (2.0 * np.pi), 1.0 - np.cos(phase), 2.0 * np.pi * np.sin(phase)
    )


class JointMotion(NamedTuple):
    """Configurations, velocities and accelerations of all joints, a row per time."""

    q: Array
    v: Array
    vd: Array


def followed(
    model: Model, q: Array, load: str, way: Iterable[tuple[ArrayLike, ArrayLike, ArrayLike]]
) -> JointMotion:
    """Return the motion of all joints while a load moves, each time near the one before.

    Args:
        model: The robot with loops.
        q: Configuration near the first pose.
        load: Name of the body that moves.
        way: Pose, velocity and acceleration of the load at each time, as of `loop_motion`.
    """
    found = []
    for pose, velocity, acceleration in way:
        at = loop_motion(model, q, pose, velocity, acceleration, platform=load)
        q = at.q
        found.append((at.q, at.v, at.vd))
    return JointMotion(*(np.array(part) for part in zip(*found, strict=True)))
