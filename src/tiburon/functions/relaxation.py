"""Loads that cannot be shared, for users: what to give up, and in which order."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, ShapeError, UnknownNameError, shown
from tiburon.functions.dynamics import mass_matrix
from tiburon.functions.load_sharing import LoadSharing
from tiburon.load_sharing.relaxation import relaxed_levels

__all__ = ["RelaxedShare", "share_relaxed"]

Array = NDArray[np.float64]

MOTION = "motion"
"""Name of all equations."""

SHOWN = 1e-6
"""Violation relative to the largest force above which it is reported."""


class RelaxedShare(NamedTuple):
    """Joint forces of a load that was shared with violations, one state."""

    tau: Array
    """Joint force [N or N m], shape (nv,); NaN where there is no solution."""

    x: Array
    """Shared forces, in the order of `plan.names` [N, N m]."""

    shortfall: tuple[dict[str, float], ...]
    """By level, in the given order: what equations lack and by how much limits are exceeded, by
    name [N or N m]; names without violation are left out."""

    status: str
    """"optimal" without violations, "relaxed" with some, or "infeasible": what is in no level
    contradicts itself."""

    @property
    def summary(self) -> str:
        """One sentence: what is violated, level by level."""
        if self.status != "relaxed":
            return self.status
        parts = [
            f"level {number}: " + ", ".join(f"{name} by {x:.3g}" for name, x in level.items())
            for number, level in enumerate(self.shortfall, start=1)
            if level
        ]
        return "relaxed; " + "; ".join(parts)


@public
def share_relaxed(
    plan: LoadSharing,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vd: ArrayLike | None = None,
    *,
    levels: Sequence[Sequence[str]],
    touching: ArrayLike | None = None,
) -> RelaxedShare:
    """Share a load as well as possible, giving up what is named, in order.

    Friction cones count as pyramids of 16 sides inside them, unless the plan has others.

    Args:
        plan: How the load is shared.
        q: Configuration [m or rad], shape (nq,).
        v: Joint velocity [m/s or rad/s], shape (nv,); at rest by default.
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (nv,); zero by default.
        levels: What may be violated, the first level before the second and so on: names of
            equations (`plan.equation_names`, or "motion" for all), names of limits, or their
            elements, such as "front_left_knee". Within a level the sum of squares is least;
            everything else holds.
        touching: As in `LoadSharing.share`.

    Example:
        The attitude first, then knees beyond their limits, but no foot pulls or slips::

            share_relaxed(plan, q, vd=vd, levels=[["base.wx", "base.wy"], ["front_left_knee"]])
    """
    if not isinstance(plan, LoadSharing):
        raise ModelError(f"plan: expected a LoadSharing, got {shown(plan)}")
    model, pyramids = plan.model, plan.with_pyramids()
    rest = np.zeros(model.nv)
    given = [
        np.asarray(x, dtype=np.float64)
        for x in (q, rest if v is None else v, rest if vd is None else vd)
    ]
    for name, array, size in zip(
        ("q", "v", "vd"), given, (model.nq, model.nv, model.nv), strict=True
    ):
        if array.shape != (size,):
            raise ShapeError(name, (size,), array.shape)
    chosen = _chosen(pyramids, levels)
    problem = pyramids.problem(*given, touching=touching)
    tree = model.without_loops() if model.loops else model
    masses = np.diag(np.asarray(mass_matrix(tree, given[0], world=plan.world)))[
        list(plan.layout.undriven)
    ]
    found = relaxed_levels(
        np.asarray(problem.W),
        np.asarray(problem.c),
        np.asarray(problem.A1),
        np.asarray(problem.b1),
        np.asarray(problem.A2),
        np.asarray(problem.b2),
        chosen,
        1.0 / masses,
    )
    if not found.is_solved:
        nothing = np.full(model.nv, np.nan)
        return RelaxedShare(nothing, found.x, tuple({} for _ in chosen), "infeasible")
    least = SHOWN * float(np.abs(found.x).max(initial=0.0))
    shortfall = []
    for equations, limits in chosen:
        own = {plan.equation_names[i]: float(found.lacking[i]) for i in equations}
        own |= {pyramids.limit_names[i]: float(found.excess[i]) for i in limits}
        shortfall.append({name: x for name, x in own.items() if abs(x) > least})
    whole = pyramids.problem(*given, touching=touching, formulation="superposition")
    driven = list(plan.layout.driven)
    tau = np.zeros(model.nv)
    tau[driven] = (whole.b1 - whole.A1[:, : len(plan.names)] @ found.x)[driven]
    status = "relaxed" if any(shortfall) else "optimal"
    return RelaxedShare(tau, found.x, tuple(shortfall), status)


def _chosen(
    plan: LoadSharing, levels: Sequence[Sequence[str]]
) -> list[tuple[list[int], list[int]]]:
    """Return the equations and limits of each level."""
    if not isinstance(levels, (tuple, list)) or any(isinstance(x, str) for x in levels):
        raise ModelError(
            f"levels: expected lists of names, got {shown(levels)}; write [['motion'], ['knee']]"
        )
    equations, limits = plan.equation_names, plan.limit_names
    elements = [name.partition(": ")[0] for name in limits]
    known = [MOTION, *equations, *dict.fromkeys(elements), *limits]
    taken: set[tuple[str, int]] = set()
    found = []
    for level in levels:
        own: tuple[list[int], list[int]] = ([], [])
        for name in level:
            if name not in known:
                raise UnknownNameError("equation or limit", name, known, where="levels")
            rows = [("equation", i) for i, x in enumerate(equations) if name in (MOTION, x)]
            rows += [("limit", i) for i in range(len(limits)) if name in (limits[i], elements[i])]
            for kind, i in rows:
                if (kind, i) not in taken:
                    own[kind == "limit"].append(i)
                    taken.add((kind, i))
        found.append(own)
    return found
