"""The functions of dynamics where loops are closed; loaded by `tiburon.algorithms.closed_form`."""

from collections.abc import Sequence
from typing import Any

from tiburon.algorithms.closed_form import has_closed_form
from tiburon.algorithms.conditions import Setting
from tiburon.loops import apparent as apparent
from tiburon.loops import derivatives as derivatives
from tiburon.loops.inverse import loop_inverse_dynamics
from tiburon.loops.methods import constrained_motion
from tiburon.loops.reactions import loop_reactions
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced

__all__ = ["constrained_motion", "loop_inverse_dynamics", "loop_reactions"]


@has_closed_form("forward_dynamics")
def _forward(around: Setting, *state: Sequence[Scalar]) -> Any:
    return as_traced(list(constrained_motion(around, *state).vd))
