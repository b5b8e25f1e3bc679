"""Rows of the Jacobian of loops: where closures hold on to bodies, and what forces there do.

A unit force along a constraint, carried from where it acts inward over the joints, gives the row of
the Jacobian (Featherstone 1987, eqs. 9.6 to 9.10).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiburon.algorithms.frame_motion import Moving
from tiburon.algorithms.kinematics import WORLD_PLACE, Place
from tiburon.model import Plan, PlanBody
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Motion, Scalar, Transform

__all__ = ["Constraints", "End", "Felt", "Row", "end_of", "transmitter"]

Row = dict[int, Scalar]
"""Entries of one row that are not structurally zero, by velocity variable."""

Felt = tuple[tuple[tuple[Scalar, ...], ...], tuple[Force, ...]]
"""What forces do along a joint, and what of them reaches the parent."""

_REST = Moving(Motion.zero(), Motion.zero())


class Constraints(NamedTuple):
    """All constraints of a robot in one state, one entry per row."""

    value: tuple[Scalar, ...]
    """How far each is from holding [m or rad]."""

    jacobian: tuple[Row, ...]
    """Change of the values per joint velocity."""

    rate: tuple[Scalar, ...]
    """Rate of the values, of joints that time moves too [m/s or rad/s]."""

    bias: tuple[Scalar, ...]
    """Second rate of the values without joint accelerations [m/s^2 or rad/s^2]."""


class End(NamedTuple):
    """One end of a loop: where it is fixed and how it moves."""

    X: Transform
    """Map of motion from the plan body's frame to the end's."""

    place: Place
    moving: Moving


def end_of(
    plan: Plan,
    name: str,
    pose: Transform,
    places: Sequence[Place],
    motions: Sequence[Moving] | None,
) -> tuple[int, End]:
    """Return the plan body of an end, and the end."""
    frame = plan.frame(name)
    X = frame.transform.then(pose)
    if frame.body == WORLD_BODY:
        return frame.body, End(X, WORLD_PLACE.moved(X), _REST)
    moving = _REST
    if motions is not None:
        carrier = motions[frame.body]
        moving = Moving(X.motion(carrier.vel), X.motion(carrier.acc))
    return frame.body, End(X, places[frame.body].moved(X), moving)


def transmitter(q: Sequence[Scalar]) -> Callable[[PlanBody, tuple[Force, ...]], Felt]:
    """Return the visit that carries forces over a joint and keeps what they do along it."""

    def transmit(body: PlanBody, forces: tuple[Force, ...]) -> Felt:
        own = q[body.q]
        X = body.transform(own)
        felt = tuple(tuple(body.joint.project(own, f)) for f in forces)
        return felt, tuple(X.force_to_parent(f) for f in forces)

    return transmit
