"""States of runs by `denoc`: configuration and velocity from those of the independent joints.

Minimal state: positions of the independent joints determine the configuration (displacement
analysis), and their velocities all others. Extended state: all positions are integrated, and a
residual of the loops decays as exp(-sigma t), which the source lacked (Khan 2002, L1082-1098).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.constraints import constraint_names, constraints
from tiburon.loops.denoc import MIN_SQUARE, denoc_rates, not_held
from tiburon.loops.legs import PlatformOnLegs
from tiburon.loops.metric import max_abs
from tiburon.loops.projection import CLOSURE_TOLERANCE, MAX_NEWTON_STEP, moved_configuration
from tiburon.model import Model, Plan
from tiburon.spatial import Scalar
from tiburon.trace.regions import while_loop
from tiburon.trace.value import require

__all__ = ["denoc_velocity", "displaced"]

Vector = Sequence[Scalar]

MAX_STEPS = 20
"""Newton steps of a displacement analysis; from the step before one or two suffice."""


def displaced(
    model: Model, plan: Plan, structure: PlatformOnLegs, q: Vector
) -> tuple[tuple[Scalar, ...], Scalar]:
    """Close the loops while the independent joints stay where they are (displacement analysis).

    Args:
        model: The robot.
        plan: Its layout.
        structure: Platform and legs.
        q: Configuration near the one sought, such as that of the step before, nq scalars.

    Returns:
        The configuration, and the largest remaining constraint residual [m or rad].
    """

    def residual(position: Vector) -> tuple[Scalar, ...]:
        return constraints(model, plan, JointVector(position)).value

    def newton(state: Any) -> Any:
        position, value, _ = state
        still = [0.0] * plan.nv
        step, _ = denoc_rates(model, plan, structure, position, still, value)
        part = 1.0 / np.maximum(1.0, max_abs(step) / MAX_NEWTON_STEP)
        moved = moved_configuration(model, JointVector(position), [part * x for x in step])
        after = residual(moved)
        return tuple(moved), after, max_abs(after)

    value = residual(q)
    start = (tuple(q), value, max_abs(value))
    found = while_loop(lambda state: state[2] > CLOSURE_TOLERANCE, newton, start, MAX_STEPS)
    position, _, left = found.state
    return tuple(position), left


def denoc_velocity(
    model: Model, plan: Plan, structure: PlatformOnLegs, q: Vector, v: Vector, sigma: float
) -> list[Scalar]:
    """Return the velocity of all joints from that of the independent ones.

    Args:
        model: The robot.
        plan: Its layout.
        structure: Platform and legs.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity, of which that of the independent joints counts, nv scalars.
        sigma: Rate at which residuals decay [1/s].
    """
    opening: Vector = [0.0] * len(constraint_names(model))
    if sigma:
        value = constraints(model, plan, JointVector(q)).value
        opening = [sigma * c for c in value]
    found, held = denoc_rates(model, plan, structure, q, v, opening)
    good = (held.ratio > 0.0) & (held.held > MIN_SQUARE)
    expected = not_held(model, structure)
    return [require(good, x, expected) for x in found]
