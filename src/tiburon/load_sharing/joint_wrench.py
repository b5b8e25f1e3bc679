"""Wrenches of single joints as rows over the unknown forces x, in axes of their bodies (4.29).

Moments about the origin of the joint's body come first, then forces, both in axes of that body.
They include the force of the actuator, as in the source.
"""

from collections.abc import Sequence

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.rows import ContactRow
from tiburon.errors import ModelError, UnknownNameError
from tiburon.load_sharing.problem import Problem
from tiburon.load_sharing.recovery import joint_wrenches, unit_loads
from tiburon.model import Body, Model
from tiburon.spatial import Force, Scalar
from tiburon.spatial.vec3 import cross, subtract, transpose_vector

WRENCH_NAMES = ("nx", "ny", "nz", "fx", "fy", "fz")
"""Components of a wrench: moments, then forces."""

WrenchRows = list[tuple[ContactRow, Scalar]]
"""Six rows over x, each with its constant."""


def body_of(model: Model, joint: str) -> Body:
    """Return the body of a joint that can transmit a wrench.

    Raises:
        UnknownNameError: If there is no such joint.
        ModelError: If the joint is rigid, and its wrench is not known.
    """
    known = {body.joint.name: body for body in model.bodies}
    if joint not in known:
        raise UnknownNameError("joint", joint, list(known))
    if known[joint].joint.is_rigid:
        raise ModelError(
            f"joint {joint!r}: expected a joint that moves, got a rigid one, whose bodies are one "
            "link; name a moving joint",
            name=joint,
        )
    return known[joint]


def wrench_rows(problem: Problem, joints: Sequence[str]) -> list[WrenchRows]:
    """Return the wrenches of joints as rows over x.

    Args:
        problem: The problem in one state.
        joints: Names of moving joints.
    """
    plan = problem.setting.plan
    places = body_places(plan, JointVector(problem.q))
    of_all = joint_wrenches(problem, unit_loads(problem, places), places)
    found: list[WrenchRows] = []
    for joint in joints:
        frame = plan.frame(body_of(problem.model, joint).name)
        place = places[frame.body].moved(frame.transform)
        rows: WrenchRows = [({}, x) for x in _seen_from(place, of_all.constant[frame.body])]
        for component, wrench in of_all.rows[frame.body].items():
            for (row, _), x in zip(rows, _seen_from(place, wrench), strict=True):
                row[component] = x
        found.append(rows)
    return found


def _seen_from(place: Place, wrench: Force) -> tuple[Scalar, ...]:
    """Return a wrench about the origin of the world at a frame and in its axes."""
    moment = subtract(wrench.moment, cross(place.p, wrench.force))
    return (*transpose_vector(place.R, moment), *transpose_vector(place.R, wrench.force))
