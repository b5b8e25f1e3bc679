"""Hybrid dynamics with loops: some joints have known accelerations, the others known forces.

A known acceleration is one more constraint, on one velocity variable; the force along it is the
joint force that is looked for (Featherstone 1987, sections 7.5 and 9.3). Loops may already tell an
acceleration that is given: then the two must agree, and the shortest of all forces is taken.

Symbols: J Jacobian of the constraints, one row per loop constraint and known acceleration.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.closed_form import has_closed_form
from tiburon.algorithms.conditions import Setting
from tiburon.algorithms.joint_space import joint_space_terms
from tiburon.loops.augmented import TreeMetric
from tiburon.loops.constraints import Row, constraints, entries_in_use
from tiburon.loops.metric import largest, rank_cut, solve_in_metric
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.value import require

__all__: list[str] = []

OPENING = 1e-6
"""Rate, relative to the accelerations, at which given accelerations may disagree with loops."""


@has_closed_form("hybrid_dynamics")
def _hybrid(
    around: Setting,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    vd: Sequence[Scalar],
) -> Any:
    model, plan = around.model, around.plan
    known = dict(around.options).get("known_acceleration", ())
    held = constraints(model, plan, q, v)
    live = [k for k, used in enumerate(entries_in_use(model)) if used]
    rows: list[Row] = [held.jacobian[k] for k in live]
    wanted: list[Scalar] = [-held.bias[k] for k in live]
    rows += [{i: 1.0} for i in known]
    wanted += [vd[i] for i in known]
    mass, C = joint_space_terms(plan, q, v, around.gravity, around.external)
    free = [(0.0 if i in known else tau[i]) - C[i] for i in range(plan.nv)]
    cut = rank_cut(model, held.value)
    accelerations, forces, _, _ = solve_in_metric(TreeMetric(plan, mass), rows, free, wanted, cut)
    left = [
        sum((x * accelerations[i] for i, x in row.items()), start=-want)
        for row, want in zip(rows, wanted, strict=True)
    ]
    # off the manifold, redundant constraints disagree by as much
    agreed = largest(left) <= np.maximum(OPENING, cut) * (
        1.0 + largest(accelerations) + largest(wanted)
    )
    expected = "known accelerations that keep loops closed; name fewer joints, or others"
    accelerations = [require(agreed, x, expected) for x in accelerations]
    found = list(tau)
    for i, force in zip(known, forces[len(live) :], strict=True):
        found[i] = force
    return {"vd": as_traced(accelerations), "tau": as_traced(found)}
