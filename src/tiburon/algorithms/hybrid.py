"""Hybrid dynamics: at some joints the force is known, at the others the acceleration.

Symbols (Featherstone 1987, section 7.5.2):
    H, C'   mass matrix, and joint forces at zero unknown acceleration
    known   per velocity variable: whether its acceleration is given, rather than its force
"""

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.crba import crba
from tiburon.algorithms.forward import method_options
from tiburon.algorithms.hybrid_articulated import Solution, hybrid_aba
from tiburon.algorithms.joint_space import freedom_parents
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.tape_calls import JointVector, recorder
from tiburon.arguments import public
from tiburon.errors import UnknownNameError
from tiburon.functions.hybrid_placeholders import cleared, solve_placeholders
from tiburon.functions.keywords import DynamicsCall, takes_conditions
from tiburon.functions.library import check_places, pair, record_under
from tiburon.model import Model, Plan
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.spd import INLINE_SIZE
from tiburon.trace.primitives.tree import FactorTree, SolveTree
from tiburon.trace.program import current_graph
from tiburon.trace.regions import function

__all__ = ["hybrid_crba", "hybrid_dynamics", "known_rows"]


def hybrid_crba(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    vd: Sequence[Scalar],
    known: Sequence[bool],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> Solution:
    """Compute unknown accelerations and forces with the mass matrix.

    Featherstone 1987, eqs. 7.32-7.34: H_11 vd_1 = tau_1 - C'_1 and tau_2 = H_21 vd_1 + C'_2, where
    C' is the inverse dynamics with unknown accelerations set to zero. Columns of H for known
    accelerations are never used, so a compiled kernel never computes them. Arguments and results
    are those of `hybrid_aba`.
    """
    unknown = [row for row, given in enumerate(known) if not given]
    rest = [row for row, given in enumerate(known) if given]
    parents = _remaining_parents(freedom_parents(plan), unknown)
    factor, inline = FactorTree(parents), len(unknown) <= INLINE_SIZE
    stored = [(unknown[i], unknown[j]) for i, j in factor.layout.elements()]

    def terms(*state: Sequence[Scalar]) -> tuple[list[Scalar], list[list[Scalar]], list[Scalar]]:
        position, rate, partial = map(JointVector, state)
        H = crba(plan, position)
        C = rnea(plan, position, rate, partial, gravity, external)
        rows = [[H[row][column] for column in unknown] for row in rest]
        return [H[i][j] for i, j in stored], rows, list(C)

    if recorder() is not None:
        # steps of a large model make a function of their own before the solver
        terms = function(terms)
    partial = [x if given else 0.0 for x, given in zip(vd, known, strict=True)]
    H11, H21, C = terms(list(q), list(v), partial)
    accelerations, forces = list(vd), list(tau)
    right = [tau[row] - C[row] for row in unknown]
    numbers = factor.apply(H11, inline=inline)
    found = SolveTree(parents).apply([*numbers, *right], inline=inline)
    for row, x in zip(unknown, found, strict=True):
        accelerations[row] = x
    for row, entries in zip(rest, H21, strict=True):
        total = C[row]
        for entry, x in zip(entries, found, strict=True):
            total = total + entry * x
        forces[row] = total
    return tuple(accelerations), tuple(forces)


def _remaining_parents(parents: Sequence[int], rows: Sequence[int]) -> tuple[int, ...]:
    """Return the tree of some rows alone: each hangs on its nearest ancestor among them."""
    place = {row: number for number, row in enumerate(rows)}
    found = []
    for row in rows:
        above = parents[row]
        while above >= 0 and above not in place:
            above = parents[above]
        found.append(place.get(above, -1))
    return tuple(found)


def known_rows(model: Model, names: str | Iterable[str]) -> tuple[int, ...]:
    """Return the velocity variables that joint names or names of single variables stand for.

    Raises:
        UnknownNameError: If the model has neither joint nor velocity variable of a name.
    """
    listed = (names,) if isinstance(names, str) else tuple(names)
    variables = model.v_names
    rows: set[int] = set()
    for name in listed:
        if name in model.joint_names:
            part = model.slice(name, of="v")
            rows.update(range(part.start, part.stop))
        elif name in variables:
            rows.add(variables.index(name))
        else:
            raise UnknownNameError(
                "joint or velocity variable",
                name,
                dict.fromkeys((*model.joint_names, *variables)),
                where=f"model {model.name!r}",
                listing="model.joint_names or model.v_names",
            )
    return tuple(sorted(rows))


def _run(around: Setting, *state: Sequence[Scalar]) -> Any:
    plan, choices = around.plan, dict(around.options)
    rows = set(choices.get("known_acceleration", ()))
    known = [row in rows for row in range(plan.nv)]
    method = choices.get("method") or ("composite" if plan.has_couplings else "articulated")
    solve = hybrid_crba if method == "composite" else hybrid_aba
    q, v, tau, vd = state
    accelerations, forces = solve(plan, q, v, tau, vd, known, around.gravity, around.external)
    return {"vd": as_traced(list(accelerations)), "tau": as_traced(list(forces))}


_FUNCTION = dynamics_function("hybrid_dynamics", ("q", "v", "tau", "vd"), _run)


@public
@takes_conditions
def hybrid_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    vd: ArrayLike,
    known_acceleration: str | Iterable[str] | None = None,
    *,
    method: str | None = None,
    **conditions: Unpack[DynamicsCall],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute what is unknown where some joints have known accelerations, the others known forces.

    NaN stands for what is unknown: at each velocity variable either its force or its acceleration
    is a number and the other NaN, in each case of a batch as it likes; code is compiled for each
    set of known accelerations. Or name the joints whose accelerations are known. With no known
    acceleration this is forward dynamics, with all of them inverse dynamics. One state or a batch;
    traced arrays inside a compiled function, one state at a time, with joints named.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv); NaN where it is unknown. Where joints are
            named, those with known accelerations are not read here.
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv); NaN where it is unknown. Where
            joints are named, those of all others are not read here.
        known_acceleration: Names of joints whose accelerations are known; also names of single
            velocity variables (`model.v_names`). By default those where `vd` is not NaN.
        method: "articulated", whose cost is linear in the number of bodies, or "composite" for the
            mass matrix and its factors; by default the first, unless joints follow others.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        All joint accelerations and all joint forces, shape (..., nv) each.

    Raises:
        DomainError: If joints are not named and both force and acceleration of a velocity variable
            are numbers, or both are NaN.

    Example:
        ``vd, tau = hybrid_dynamics(arm, q, v, tau, vd, known_acceleration=["elbow", "wrist"])``
    """
    check_places(model, None)
    options = method_options(method)
    if known_acceleration is None:
        return solve_placeholders(_FUNCTION, model, (q, v, tau, vd), options, conditions)
    rows = known_rows(model, known_acceleration)
    options += (("known_acceleration", rows),)
    if current_graph() is None:
        known = np.isin(np.arange(model.nv), rows)
        tau, vd = cleared(model, "tau", tau, known), cleared(model, "vd", vd, ~known)
    return record_under(pair, conditions, _FUNCTION, model, (q, v, tau, vd), options)
