"""Joints whose inertia vanishes within the range of another joint.

Links without inertia between joints that meet in a point, as in hips of three revolute joints, move
only where these are not parallel: a quarter turn from neutral, often the limit of the joint between
them, the outer two turn nothing, and no step resolves motion near it. The motion of real joints
there is that of gears and motors, which such files leave out.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from tiburon.actuation.passive import is_axial
from tiburon.algorithms.crba import crba
from tiburon.arguments import caller_level
from tiburon.arrays import NDArray
from tiburon.errors import ModelWarning
from tiburon.model import Body, Inertia, Joint, Model
from tiburon.model.model import per_model
from tiburon.simulation.limit_start import position_limits

LEAST_SHARE = 1e-2
"""Share of the apparent inertia in the neutral configuration that joints keep."""

SAMPLES = 33
"""Positions over the range of a joint at which inertias are looked at."""


def movable(model: Model) -> Model:
    """Return a robot whose joints keep some of their inertia throughout the range of each.

    Joints on links without inertia whose apparent inertia falls below `LEAST_SHARE` of that in the
    neutral configuration get this share as their armature, with a warning.
    """
    added = _least_armatures(model)
    if not added:
        return model
    names = ", ".join(repr(name) for name, _ in added)
    warnings.warn(
        f"model {model.name!r}: joints {names} turn links without inertia and meet where they move "
        f"nothing; in runs they have armatures of {LEAST_SHARE:g} of the inertia that they move in "
        "the neutral configuration; give them their own: model.with_armatures({...})",
        ModelWarning,
        stacklevel=caller_level(),
    )
    return _armed(model)


@per_model
def _armed(model: Model) -> Model:
    """Return the robot with its least armatures."""
    return model.with_armatures(dict(_least_armatures(model)))


@per_model
def _least_armatures(model: Model) -> tuple[tuple[str, float], ...]:
    """Return the joints whose inertia vanishes, with armatures [kg m^2 or kg]."""
    if model.loops or model.immovable_joint_names:
        return ()
    massless = {body.name for body in model.bodies if _is_massless(body)}
    after = [body.joint for body in model.bodies if body.parent in massless]
    turning = [joint for joint in after if joint.dof and is_axial(joint)]
    if not turning:
        return ()
    (own,) = _apparent_inertias(model, model.neutral()[None])
    least = np.min([own, *_apparent_inertias(model, _swept(model, turning))], axis=0)
    joints = [body.joint for body in model.bodies if body.name in massless]
    found = []
    for joint in dict.fromkeys([*joints, *after]):
        there, neutral = (x[model.slice(joint.name, of="v")] for x in (least, own))
        if joint.dof and (there < LEAST_SHARE * neutral).any():
            found.append((joint.name, LEAST_SHARE * float(neutral.min())))
    return tuple(found)


def _is_massless(body: Body) -> bool:
    """Return whether nothing but what it carries resists the joint of a body."""
    return body.joint.dof > 0 and body.inertia == Inertia() and not any(body.joint.armatures)


def _swept(model: Model, joints: Sequence[Joint]) -> NDArray[np.float64]:
    """Return configurations with one of some joints anywhere in its range, the others neutral."""
    low, high = position_limits(model)
    neutral, found = model.neutral(), []
    for joint in joints:
        for i in range(model.nq)[model.slice(joint.name, of="q")]:
            ends = (low[i], high[i])
            a, b = (
                end if np.isfinite(end) else neutral[i] + turn
                for end, turn in zip(ends, (-np.pi, np.pi), strict=True)
            )
            rows = np.tile(neutral, (SAMPLES, 1))
            rows[:, i] = np.linspace(a, b, SAMPLES)
            found.append(rows)
    return np.concatenate(found)


def _apparent_inertias(model: Model, q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the apparent inertia of each degree of freedom in each configuration."""
    elements = crba(model.plan, tuple(q.T))
    shape = len(q)
    M = np.array([[np.broadcast_to(x, shape) for x in row] for row in elements], dtype=np.float64)
    found = np.zeros((shape, model.nv))
    for k, one in enumerate(np.moveaxis(M, -1, 0)):
        try:
            found[k] = np.maximum(1.0 / np.diag(np.linalg.inv(one)), 0.0)
        except np.linalg.LinAlgError:
            continue
    return found
