"""States of runs by `denoc`: configuration and velocity from those of the independent joints.

Minimal state: positions of the independent joints determine the configuration (displacement
analysis), and their velocities all others. Extended state: all positions are integrated, and a
residual of the loops decays as exp(-sigma t), which the source lacked (Khan 2002, L1082-1098).

Neither may pass a configuration in which the independent joints do not determine all others. Steps
of finite length pass over it without meeting it, so that runs watch a measure that changes its sign
there (`held_sine`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.constraints import Row, constraints
from tiburon.loops.denoc import MIN_SQUARE, denoc_rates, leg_openings, not_held
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


LEAST_SINE = 1e-3
"""`held_sine` at which runs end: rates of dependent joints are a thousand times those of
independent ones."""


def held_sine(model: Model, plan: Plan, structure: PlatformOnLegs, q: Vector) -> Scalar:
    """Return how well the independent joints determine all others, with a sign.

    The columns of the constraint Jacobian that belong to dependent joints are made triangular by
    rotations of its rows, which keep the sign of their determinant. The smallest diagonal element,
    relative to the length of its column, is the sine between the motion of a dependent joint and
    those of others; it changes its sign where these cease to be independent.

    Args:
        model: The robot.
        plan: Its layout.
        structure: Platform and legs.
        q: Configuration [m or rad], nq scalars.
    """
    terms = constraints(model, plan, JointVector(q))
    chosen = set(structure.independent)
    columns = [i for leg in structure.legs for i in leg.passive] + list(structure.carrier)
    rows = [
        {i: x for i, x in terms.jacobian[k].items() if i not in chosen}
        for k in structure.constraints
    ]
    lengths = [
        sum((row[i] * row[i] for row in rows if i in row), start=MIN_LENGTH * MIN_LENGTH)
        for i in columns
    ]
    sine: Scalar = 1.0
    sign: Scalar = 1.0
    left = list(range(len(rows)))
    for i, square in zip(columns, lengths, strict=True):
        met = [k for k in left if i in rows[k]]
        if not met:
            # columns without a row of their own: never determined
            return 0.0
        pivot, *others = met
        # places of rows that were left out in front of it
        if left.index(pivot) % 2:
            sign = -sign
        for k in others:
            rows[pivot], rows[k] = _rotated(rows[pivot], rows[k], i)
        left.remove(pivot)
        diagonal = rows[pivot][i]
        sign = sign * np.where(diagonal < 0.0, -1.0, 1.0)
        sine = np.minimum(sine, np.abs(diagonal) / np.sqrt(square))
    return sign * sine


MIN_LENGTH = 1e-150
"""Keeps lengths of columns from zero."""


def _rotated(a: Row, b: Row, i: int) -> tuple[Row, Row]:
    """Rotate two rows until the second has no entry at one place."""
    length = np.sqrt(a[i] * a[i] + b[i] * b[i])
    is_zero = length < MIN_LENGTH
    safe = np.where(is_zero, 1.0, length)
    c, s = np.where(is_zero, 1.0, a[i] / safe), np.where(is_zero, 0.0, b[i] / safe)
    places = a.keys() | b.keys()
    first = {k: c * a.get(k, 0.0) + s * b.get(k, 0.0) for k in sorted(places)}
    second = {k: c * b.get(k, 0.0) - s * a.get(k, 0.0) for k in sorted(places) if k != i}
    return first, second


def displaced(
    model: Model, plan: Plan, structure: PlatformOnLegs, q: Vector
) -> tuple[tuple[Scalar, ...], Scalar]:
    """Close the loops while the independent joints stay where they are (displacement analysis).

    q is near the configuration sought, such as that of the step before.

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
        step, _ = denoc_rates(model, plan, structure, position, still, openings)
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
    openings: list[list[Scalar]] | None = None
    if sigma:
        residuals = leg_openings(model, plan, structure, q)
        openings = [[sigma * c for c in one] for one in residuals]
    found, held = denoc_rates(model, plan, structure, q, v, openings)
    good = (held.ratio > 0.0) & (held.held > MIN_SQUARE)
    expected = not_held(model, structure)
    return [require(good, x, expected) for x in found]
