"""Forward dynamics with loops by proximal iterations: constraints that give way a little, and less.

    [ H   J^T ] [  vd       ]   [ tau - C             ]
    [ J  -mu  ] [ -lambda_n ] = [ wanted + mu lambda_m ],    m = n - 1

Each pass solves a system that is never singular; what constraints still give way by is mu times
the last change of their forces. From zero forces it goes to the shortest ones that do (Parikh and
Boyd 2014, Proximal Algorithms, section 4.1; Carpentier, Budhiraja and Mansard 2021 for constrained
dynamics). No rank is decided: the method suits those who want forces that change steadily through
singular poses and can live with an answer that is as good as its residual.

Symbols: H, C mass matrix and bias force, J Jacobian of the constraints, lambda their forces, mu
how far a constraint gives way per force.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tiburon.loops.augmented import INLINED
from tiburon.loops.constraints import Row
from tiburon.loops.elimination import loop_pattern
from tiburon.loops.metric import ConstrainedMotion, largest, rank_cut
from tiburon.model import Model
from tiburon.spatial import Scalar
from tiburon.trace.primitives.saddle import SaddleFactor, SaddlePattern
from tiburon.trace.regions import while_loop

__all__ = ["proximal_answer"]

GIVING_WAY = 1e-8
"""mu relative to the softest constraint: a singular value ratio of 1e-3 gains two digits a pass.

Off the manifold by d, a redundant constraint has a ratio of about d, and a mu of some d lets it go.
"""

HELD = 1e-12
"""Acceleration, relative to what is wanted of the constraints, at which they count as kept; off the
manifold redundant ones disagree by as much as that is."""

MOST_PASSES = 50
"""Where this many do not keep the constraints, the residual tells."""


@lru_cache(maxsize=64)
def _giving_pattern(model: Model) -> SaddlePattern:
    """Return the pattern of the system with constraints that give way."""
    saddle = loop_pattern(model).saddle
    softness = [(k, k) for k in range(saddle.size - saddle.bound, saddle.size)]
    return SaddlePattern(saddle.size, saddle.bound, [*saddle.entries, *softness], saddle.order)


def proximal_answer(
    model: Model,
    mass: Sequence[Scalar],
    jacobian: Sequence[Row],
    free: Sequence[Scalar],
    wanted: Sequence[Scalar],
    value: Sequence[Scalar] = (),
) -> ConstrainedMotion:
    """Solve the augmented system by proximal iterations.

    Args:
        model: The robot.
        mass: Those elements of H that a factorization along the tree reads.
        jacobian: J, one row per constraint.
        free: Joint forces that act without constraints [N or N m], nv scalars.
        wanted: J vd: what the constraints ask of the accelerations.
        value: Constraint values [m or rad]; on the manifold by default.

    Returns:
        Accelerations, forces and passes; no rank (-1).
    """
    pattern, nv = loop_pattern(model), len(free)
    live = pattern.live
    bound = [jacobian[live[n]][j] for n, j in pattern.bound]
    right = [wanted[k] for k in live]
    off = rank_cut(model, value, 0.0)
    mu = np.maximum(GIVING_WAY, off) * _softest(pattern.mass, mass, pattern.bound, bound, len(live))
    giving = _giving_pattern(model)
    factor = SaddleFactor(
        giving,
        [*mass, *bound, *[-mu for _ in live]],
        0.0,
        inline=giving.work <= INLINED,
    )
    enough = np.maximum(HELD, off) * (1.0 + largest(right))

    def pulling(state: Any) -> Any:
        return state[2] > enough

    def again(state: Any) -> Any:
        _, forces, _ = state
        found = factor.solve([*free, *(w + mu * f for w, f in zip(right, forces, strict=True))])
        new = [-x for x in found[nv:]]
        change = [mu * (x - y) for x, y in zip(new, forces, strict=True)]
        return found[:nv], new, largest(change)

    start = ([0.0] * nv, [0.0] * len(live), 2.0 * enough)
    ran = while_loop(pulling, again, start, MOST_PASSES)
    vd, forces, _ = ran.state
    multipliers: list[Scalar] = [0.0] * len(jacobian)
    for k, force in zip(live, forces, strict=True):
        multipliers[k] = force
    ratio = np.sqrt(np.maximum(factor.worst, 0.0))
    return ConstrainedMotion(tuple(vd), tuple(multipliers), -1.0, ratio, iterations=ran.count)


def _softest(
    places: Sequence[tuple[int, int]],
    mass: Sequence[Scalar],
    bound_places: Sequence[tuple[int, int]],
    bound: Sequence[Scalar],
    count: int,
) -> Scalar:
    """Return the largest J_k D^-1 J_k^T, D the diagonal of H: what forces do at most, roughly."""
    diagonal = {i: x for (i, j), x in zip(places, mass, strict=True) if i == j}
    totals: list[Scalar] = [0.0] * count
    for (n, j), x in zip(bound_places, bound, strict=True):
        totals[n] = totals[n] + x * x / diagonal[j]
    return largest(totals)
