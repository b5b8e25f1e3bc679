"""The methods of forward dynamics with loops, one interface, and which one is taken unasked.

"augmented" (`augmented`) is the reference: the whole sparse system, with rank decisions where they
are needed. "handles" (`handles`) forms no mass matrix: its cost is linear in the bodies, quadratic
in the constraints. "proximal" (`proximal`) iterates and decides no rank.

Unasked, "handles" is taken where the mass matrix of the tree alone is predicted to cost more than
all that "handles" does: long chains with few loops, rings of some tens of links. "augmented" is
taken everywhere else. "proximal" is only taken when asked for.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from tiburon.algorithms.articulated_response import ancestors
from tiburon.algorithms.conditions import Setting
from tiburon.algorithms.cost import LOOP_FACTOR, articulated_cost, composite_cost
from tiburon.algorithms.joint_space import joint_space_terms
from tiburon.loops.augmented import constrained_acceleration
from tiburon.loops.constraints import Constraints, constraints, entries_in_use
from tiburon.loops.handles import handle_acceleration
from tiburon.loops.metric import CUT, ConstrainedMotion
from tiburon.loops.proximal import proximal_answer
from tiburon.loops.switching import Switches, switched
from tiburon.model import Model
from tiburon.spatial import Scalar

__all__ = ["METHODS", "cheaper_loop_method", "constrained_motion", "residual"]

PUSH = 60.0
"""Operations of one constraint at one body on its way to the world."""

PASSES = 6.0
"""Operations of an orthogonal factorization per entry and column."""

BIAS = 0.5
"""What bias forces and the last pass cost, relative to articulated inertias."""


State = tuple[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]]
"""Position [m or rad], velocity [m/s or rad/s] and joint force [N or N m]."""


def _augmented(
    around: Setting, held: Constraints, state: State, least_cut: float
) -> ConstrainedMotion:
    return constrained_acceleration(
        around.model, around.plan, held, *state, around.gravity, around.external, least_cut
    )


def _handles(
    around: Setting, held: Constraints, state: State, least_cut: float
) -> ConstrainedMotion:
    return handle_acceleration(
        around.model, around.plan, held, *state, around.gravity, around.external, least_cut
    )


def _proximal(around: Setting, held: Constraints, state: State, _: float) -> ConstrainedMotion:
    q, v, tau = state
    mass, C = joint_space_terms(around.plan, q, v, around.gravity, around.external)
    free = [force - c for force, c in zip(tau, C, strict=True)]
    wanted = [-b for b in held.bias]
    return proximal_answer(around.model, mass, held.jacobian, free, wanted, held.value)


METHODS: dict[str, Callable[..., ConstrainedMotion]] = {
    "augmented": _augmented,
    "handles": _handles,
    "proximal": _proximal,
}
"""By name; each takes a setting, the constraints of a state, the state, and the least rank cut."""


@lru_cache(maxsize=256)
def cheaper_loop_method(model: Model) -> str:
    """Return the method that is taken unasked: see the head of this file."""
    plan = model.plan
    if plan.has_couplings:
        return "augmented"
    live = [used for used in entries_in_use(model) if used]
    of = [body.index for body in plan.bodies for _ in range(body.v.start, body.v.stop)]
    pushes = sum(len(set[int]().union(*(ancestors(plan, of[i]) for i in used))) for used in live)
    handles = (
        (1.0 + BIAS) * articulated_cost(plan)
        + PUSH * pushes
        + LOOP_FACTOR * PASSES * plan.nv * len(live) ** 2
    )
    return "handles" if handles < composite_cost(plan) else "augmented"


def constrained_motion(
    around: Setting,
    *state: Sequence[Scalar],
    switches: Switches | None = None,
    least_cut: float = CUT,
) -> ConstrainedMotion:
    """Return how a robot with loops answers joint forces under conditions.

    Args:
        around: The conditions; its option "method" names one of `METHODS`.
        state: Position, velocity and joint force.
        switches: Which loops are closed; all by default.
        least_cut: Relative length below which constraints are redundant on the manifold, where a
            method decides the rank; see `rank_cut`.
    """
    q, v, tau = state
    held = switched(constraints(around.model, around.plan, q, v), switches)
    method = dict(around.options).get("method") or cheaper_loop_method(around.model)
    return METHODS[method](around, held, (q, v, tau), least_cut)


def residual(held: Constraints, vd: Sequence[Scalar]) -> Scalar:
    """Return the largest acceleration at which constraints are left [m/s^2 or rad/s^2].

    Args:
        held: Constraints of the state.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    found: Scalar = 0.0
    for row, bias in zip(held.jacobian, held.bias, strict=True):
        left = sum((x * vd[i] for i, x in row.items()), start=bias)
        found = np.maximum(found, np.abs(left))
    return found
