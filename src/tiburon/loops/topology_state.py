"""A state of a mechanism in the variables of another spanning tree."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.kinematics import Place
from tiburon.argument_checks import vector
from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.loops.assembly_joint import joint_position, places_of
from tiburon.loops.topology_screws import joint_screws
from tiburon.model import Model
from tiburon.model.body import WORLD

__all__ = ["recut_state"]

Array = NDArray[np.float64]

FITS = 1e-6
"""How well joints must fit their bodies; loops that are open by more have no such state."""


@public
def recut_state(
    model: Model, other: Model, q: ArrayLike, v: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Return a state of a robot in the variables of the same robot cut elsewhere.

    Args:
        model: The robot.
        other: The same, from `recut`.
        q: Position of the first with closed loops [m or rad], shape (nq,).
        v: Joint velocity of the first that keeps them closed [m/s or rad/s], shape (nv,); none by
            default.

    Returns:
        Position and velocity of the other, shapes (nq,) and (nv,).

    Raises:
        ModelError: If a joint of the other cannot be where the bodies are: loops are open, or the
            robots are not the same.
    """
    at = np.asarray(model.normalize(q))
    rates = np.zeros(model.nv) if v is None else vector("v", v, model.nv)
    places = places_of(model, at)
    twists = _twists(model, at, rates)
    # bodies that only carry a welded one have its place, but for the weld
    for body in reversed(other.bodies):
        if body.name not in places:
            raise ModelError(
                f"model {other.name!r}: body {body.name!r} is not one of {model.name!r}; pass the "
                "same robot, cut elsewhere by recut",
                name=body.name,
            )
        if body.parent not in places:
            places[body.parent] = places[body.name].moved(body.joint.pose.transform.inverse())
            twists[body.parent] = twists[body.name]
    q_other = other.neutral()
    for body in other.bodies:
        joint = body.joint
        if joint.nq and joint.follows is None:
            stands = places[body.parent].moved(joint.pose.transform)
            found = joint_position(joint, *_in(stands, places[body.name]))
            if found.error > FITS:
                raise ModelError(
                    f"joint {joint.name!r}: cannot be where the bodies are, off by "
                    f"{found.error:.3g}; close the loops first (assemble)",
                    name=joint.name,
                )
            q_other[other.slice(joint.name)] = _same_turn(model, joint.name, at, found.q)
    v_other = np.zeros(other.nv)
    at_other = joint_screws(other, q_other)
    for body in other.bodies:
        columns = at_other.of[body.joint.name].columns
        if body.joint.nv:
            apart = twists[body.name] - twists[body.parent]
            v_other[other.slice(body.joint.name, of="v")] = np.linalg.lstsq(columns, apart)[0]
    return q_other, v_other


def _in(first: Place, second: Place) -> tuple[Array, Array]:
    """Return axes and origin of a place in another."""
    R = np.array(first.R, dtype=np.float64)
    apart = np.array(second.p, dtype=np.float64) - np.array(first.p, dtype=np.float64)
    return R.T @ np.array(second.R, dtype=np.float64), R.T @ apart


def _same_turn(model: Model, joint: str, q: Array, found: tuple[float, ...]) -> Array:
    """Return the number a hinge had before, where it is the same but for whole turns."""
    numbers = np.array(found)
    if joint not in model.joint_names or model.joint(joint).nq != len(found):
        return numbers
    before = q[model.slice(joint)]
    turns = (before - numbers) / (2.0 * np.pi)
    same = model.joint(joint).kind == "revolute" and abs(float(turns[0]) - round(turns[0])) < FITS
    return np.asarray(numbers + 2.0 * np.pi * np.round(turns)) if same else numbers


def _twists(model: Model, q: Array, v: Array) -> dict[str, Array]:
    """Return the motion of all bodies, world axes, about the world's origin, shape (6,) each."""
    at = joint_screws(model, q)
    found: dict[str, Array] = {WORLD: np.zeros(6)}
    for body in model.bodies:
        columns, variables = at.of[body.joint.name]
        found[body.name] = found[body.parent] + columns @ v[list(variables)]
    return found
