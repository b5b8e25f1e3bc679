"""States of runs by `denoc`: configuration and velocity from those of the independent joints.

Minimal state: positions of the independent joints determine the configuration (displacement
analysis), and their velocities all others. Extended state: all positions are integrated, and a
residual of the loops decays as exp(-sigma t), which the source lacked (Khan 2002, L1082-1098).

The independent joints are the motors at first. Near a configuration in which they do not determine
all others, runs select others: see `tiburon.simulation.loop_coordinates`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.denoc import Selected, denoc_rates, is_held, leg_openings, not_held
from tiburon.loops.legs import PlatformOnLegs
from tiburon.loops.metric import max_abs
from tiburon.loops.projection import CLOSURE_TOLERANCE, MAX_NEWTON_STEP, moved_configuration
from tiburon.model import Model, Plan
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.regions import while_loop
from tiburon.trace.value import require

Vector = Scalars

MAX_STEPS = 20
"""Newton steps of a displacement analysis; from the step before one or two suffice."""


def displaced(
    model: Model,
    plan: Plan,
    structure: PlatformOnLegs,
    q: Vector,
    selected: Selected | None = None,
) -> tuple[tuple[Scalar, ...], Scalar]:
    """Close the loops while the independent joints stay where they are (displacement analysis).

    q is near the configuration sought, such as that of the step before. Independent joints are the
    motors, unless others are selected.

    Returns:
        The configuration, and the largest remaining constraint residual [m or rad].
    """

    def opened(position: Vector) -> list[list[Scalar]]:
        return leg_openings(model, plan, structure, position)

    def largest(openings: Sequence[Vector]) -> Scalar:
        return max_abs([x for one in openings for x in one])

    def newton(state: Any) -> Any:
        position, openings, _ = state
        still = [0.0] * plan.nv
        step, _ = denoc_rates(model, plan, structure, position, still, openings, selected)
        part = 1.0 / np.maximum(1.0, max_abs(step) / MAX_NEWTON_STEP)
        moved = tuple(moved_configuration(model, JointVector(position), [part * x for x in step]))
        after = opened(moved)
        return moved, after, largest(after)

    value = opened(q)
    start = (tuple(q), value, largest(value))
    found = while_loop(lambda state: state[2] > CLOSURE_TOLERANCE, newton, start, MAX_STEPS)
    position, _, left = found.state
    return tuple(position), left


def denoc_velocity(
    model: Model,
    plan: Plan,
    structure: PlatformOnLegs,
    q: Vector,
    v: Vector,
    sigma: float,
    selected: Selected | None = None,
) -> list[Scalar]:
    """Return the velocity of all joints from that of the independent ones.

    Args:
        model: The robot.
        plan: Its layout.
        structure: Platform and legs.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity, of which that of the independent joints counts, nv scalars.
        sigma: Rate at which residuals decay [1/s].
        selected: Independent joints; the motors by default.
    """
    openings: list[list[Scalar]] | None = None
    if sigma:
        residuals = leg_openings(model, plan, structure, q)
        openings = [[sigma * c for c in one] for one in residuals]
    found, held = denoc_rates(model, plan, structure, q, v, openings, selected)
    expected = not_held(model, structure)
    return [require(is_held(held), x, expected) for x in found]
