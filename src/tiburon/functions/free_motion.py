"""Kinematically redundant robots: forces and free accelerations in one optimization.

An arm with more joints than its task needs may move without moving its tool. Along such motions N
the acceleration is unknown as the forces x are (Nahon 1991 leaves open whether to resolve them
first or in one larger problem):

    vd = vd_0 + N^T y,    tau = tau'(vd_0) + M N^T y - J^T x

Torques, and with them limits and objectives, are linear in x and y together.
"""

from typing import NamedTuple, Unpack

import numpy as np

from tiburon.argument_checks import is_number
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ModelError, NonFiniteError, ShapeError, shown
from tiburon.functions.keywords import Conditions, takes_conditions
from tiburon.functions.load_sharing import LoadSharing, Touching
from tiburon.trace.primitives.quadratic import INFEASIBLE, OPTIMAL, solve_qp

TIE_BREAK_WEIGHT = 1e-9
"""Weight of forces and accelerations that the objective leaves open, relative to its largest."""


class FreeMotionShare(NamedTuple):
    """Joint forces, shared forces and accelerations of one state."""

    tau: Array
    """Joint force [N or N m], shape (nv,)."""

    x: Array
    """Shared forces, in the order of `plan.names` [N, N m]."""

    vd: Array
    """Joint acceleration [m/s^2 or rad/s^2], shape (nv,)."""

    factors: Array
    """y: how much of each free motion it has."""

    status: str
    """"optimal", "infeasible" or "unfinished"; all numbers are NaN unless optimal."""


@public
@takes_conditions
def share_free_motion(
    plan: LoadSharing,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    motions: ArrayLike,
    *,
    touching: Touching = None,
    damping: float = 0.0,
    **conditions: Unpack[Conditions],
) -> FreeMotionShare:
    """Share a load and choose the accelerations that the task leaves free, together.

    Friction cones count as pyramids of 16 sides inside them, unless the plan has others.

    Args:
        plan: How the load is shared.
        q: Configuration [m or rad], shape (nq,).
        v: Joint velocity [m/s or rad/s], shape (nv,).
        vd: Joint acceleration that does the task [m/s^2 or rad/s^2], shape (nv,).
        motions: Accelerations that do not affect the task, such as a null basis of its Jacobian;
            they must keep loops closed. Shape (k, nv).
        touching: As in `LoadSharing.share`.
        damping: Weight of the squares of their factors, beside the objective. Least torques alone
            let fast arms swing.
        conditions: What acts on the robot, and when: see `Conditions`.

    Example:
        ``share_free_motion(plan, q, v, vd, null_basis(task).T).vd``
    """
    if not isinstance(plan, LoadSharing):
        raise ModelError(f"plan: expected a LoadSharing, got {shown(plan)}")
    model = plan.model
    arrays = []
    for name, given, size in (("q", q, model.nq), ("v", v, model.nv), ("vd", vd, model.nv)):
        array = np.asarray(given, dtype=np.float64)
        if array.shape != (size,):
            raise ShapeError(name, (size,), array.shape)
        arrays.append(array)
    N = np.atleast_2d(np.asarray(motions, dtype=np.float64))
    if N.ndim != 2 or N.shape[1] != model.nv or not len(N):
        raise ShapeError("motions", f"(k, {model.nv})", np.shape(motions))
    for name, array in zip(("q", "v", "vd", "motions"), (*arrays, N), strict=True):
        if not np.isfinite(array).all():
            raise NonFiniteError(name)
    if not is_number(damping) or not 0.0 <= float(damping) < np.inf:
        raise DomainError("damping", "a finite number of at least 0", shown(damping))
    pyramids = plan.with_pyramids()
    k = len(N)
    # all are affine in the acceleration: its value, and one step along each motion
    at, moving = (np.tile(array, (k + 1, 1)) for array in arrays[:2])
    there = np.vstack([arrays[2], arrays[2] + N])
    problem = pyramids.problem(at, moving, there, touching=touching, **conditions)
    rows, offsets = pyramids.squares(at, moving, there, touching, conditions)
    n, forces = rows.shape[-1], len(plan.names)
    S = np.hstack([rows[0], (offsets[1:] - offsets[0]).T])
    A1 = np.hstack([problem.A1[0], (problem.b1[0] - problem.b1[1:]).T])
    A2 = np.hstack([problem.A2[0], (problem.b2[0] - problem.b2[1:]).T])
    W = S.T @ S
    largest = float(np.diag(W).max(initial=0.0)) or 1.0
    W[n:, n:] += float(damping) * np.eye(k)
    W += TIE_BREAK_WEIGHT * largest * np.eye(n + k)
    # zero on all solutions: what equations determine needs no weight
    sizes = np.linalg.norm(A1, axis=1)
    some = sizes > 0.0
    unit, right = A1[some] / sizes[some, None], problem.b1[0][some] / sizes[some]
    W += largest * unit.T @ unit
    c = S.T @ offsets[0] - largest * unit.T @ right
    found = solve_qp(W, c, A1, problem.b1[0], A2, problem.b2[0])
    status = {OPTIMAL: "optimal", INFEASIBLE: "infeasible"}.get(float(found.status), "unfinished")
    z = np.asarray(found.x) if status == "optimal" else np.full(n + k, np.nan)
    y = z[n:]
    acceleration = arrays[2] + y @ N
    tau = np.full(model.nv, np.nan)
    if status == "optimal":
        whole = pyramids.problem(
            arrays[0],
            arrays[1],
            acceleration,
            touching=touching,
            formulation="superposition",
            **conditions,
        )
        # one equation per velocity variable: J^T x + tau = tau'
        tau = np.zeros(model.nv)
        driven = list(plan.layout.driven)
        tau[driven] = (whole.b1 - whole.A1[:, :forces] @ z[:forces])[driven]
    return FreeMotionShare(tau, z[:forces], acceleration, y, status)
