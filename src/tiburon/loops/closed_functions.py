"""The functions of dynamics where loops are closed; loaded by `tiburon.algorithms.closed_form`."""

from collections.abc import Sequence
from typing import Any

from tiburon.algorithms.closed_form import has_closed_form
from tiburon.algorithms.conditions import Setting
from tiburon.loops.augmented import ConstrainedMotion, constrained_acceleration
from tiburon.loops.constraints import constraints
from tiburon.loops.inverse import loop_inverse_dynamics
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced

__all__ = ["constrained_motion", "loop_inverse_dynamics"]


def constrained_motion(around: Setting, *state: Sequence[Scalar]) -> ConstrainedMotion:
    """Return how a robot with loops answers joint forces under conditions."""
    q, v, tau = state
    held = constraints(around.model, around.plan, q, v)
    return constrained_acceleration(
        around.model, around.plan, held, q, v, tau, around.gravity, around.external
    )


@has_closed_form("forward_dynamics")
def _forward(around: Setting, *state: Sequence[Scalar]) -> Any:
    return as_traced(list(constrained_motion(around, *state).vd))
