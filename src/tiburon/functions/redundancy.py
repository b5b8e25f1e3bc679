"""Rank of the constraints: nearly redundant ones, and the distance to singular configurations.

Rounded lengths and axes of an overconstrained linkage leave constraints that are redundant except
for the rounding. They then disagree by a residual that no joint can reduce, or the linkage closes
in one configuration only and is rigid there.

Symbols: J constraint Jacobian, e constraint residual.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import LoopError
from tiburon.functions.closed_loops import loop_jacobian
from tiburon.functions.dynamics import mass_matrix
from tiburon.functions.mobility import constraint_words, loop_rows
from tiburon.functions.parameters import CaseRows
from tiburon.loops.metric import CUT, LARGEST_CUT, OVERCONSTRAINED_CUT
from tiburon.loops.projection import CLOSURE_TOLERANCE, MAX_RESIDUAL
from tiburon.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "check_disagreement",
    "check_weak_constraints",
    "closed_nearby",
    "is_disagreement",
    "nearly_redundant",
    "smallest_singular_value",
]

Array = NDArray[np.float64]


REDUCIBLE_SHARE = 0.01
"""Part of a residual that joints could still reduce where Newton steps have converged."""

PROBE_DISTANCE = 0.1
"""How far a configuration is left along what constraints hardly resist [m or rad]."""

RETURNED_SHARE = 0.3
"""Part of that distance within which a configuration closed again is the old one: rigid there."""

MOST_STEPS = 30
"""Newton steps that close loops."""

MODELS_REMEMBERED = 64
"""Models that are kept in mind."""

LEAST_ADVISED_TOLERANCE = 1e-6
"""Smallest tolerance that is advised: along a motion constraints come to disagree by more."""

MOST_LISTED = 4
"""Constraints that a message names."""


_known: dict[tuple[Model, float], bool] = {}
"""Models without weak constraints, lately looked at: it is a matter of their lengths and axes."""


def is_disagreement(J: Array, gaps: Array) -> bool:
    """Return whether constraint values are a residual that no joint can reduce.

    Args:
        J: constraint Jacobian, shape (constraints, nv).
        gaps: Constraint values where Newton steps ended [m or rad], shape (constraints,).
    """
    size = float(np.linalg.norm(gaps))
    if not CLOSURE_TOLERANCE < size <= OVERCONSTRAINED_CUT:
        return False
    columns, sizes, _ = np.linalg.svd(J, full_matrices=False)
    cut = min(OVERCONSTRAINED_CUT, max(LARGEST_CUT, 10.0 * size))
    kept = columns[:, sizes > cut * sizes[0]]
    # rounding of what joints can reduce
    return float(np.linalg.norm(kept.T @ gaps)) <= REDUCIBLE_SHARE * size + CLOSURE_TOLERANCE


def closed_nearby(model: Model, q: Array) -> tuple[Array, Array, Array]:
    """Close loops as far as they can be, by Newton steps without nearly redundant constraints.

    Args:
        model: The robot; it has loops.
        q: Configuration [m or rad], shape (nq,).

    Returns:
        The configuration, constraint values and Jacobian there.
    """
    gaps, J = loop_rows(model, q)
    for _ in range(MOST_STEPS):
        cut = min(OVERCONSTRAINED_CUT, max(LARGEST_CUT, 10.0 * float(np.abs(gaps).max())))
        change = np.linalg.lstsq(J, -gaps, rcond=cut)[0]
        q = model.integrate(q, change)
        gaps, J = loop_rows(model, q)
        if np.abs(change).max() <= CLOSURE_TOLERANCE:
            break
    return q, gaps, J


def check_disagreement(model: Model, q: Array, tolerance: float) -> None:
    """Refuse a configuration whose loops are as closed as they can be, and not closed.

    Args:
        model: The robot; it has loops.
        q: Configuration where Newton steps ended [m or rad], shape (nq,).
        tolerance: Loop-closure error that is accepted [m or rad].

    Raises:
        LoopError: If constraints disagree by more.
    """
    gaps, J = loop_rows(model, q)
    if np.abs(gaps).max(initial=0.0) > max(MAX_RESIDUAL, tolerance) and is_disagreement(J, gaps):
        raise nearly_redundant(model, gaps)


def check_weak_constraints(model: Model, q: Array, tolerance: float) -> None:
    """Refuse a closed configuration that is rigid only by constraints that are nearly redundant.

    Args:
        model: The robot; it has loops.
        q: Configuration with closed loops [m or rad], shape (nq,).
        tolerance: Relative singular value below which constraints are redundant.

    Raises:
        LoopError: If constraints that hardly resist a motion disagree by little along it.
    """
    if (model, tolerance) in _known:
        return
    _, J = loop_rows(model, q)
    _, sizes, rows = np.linalg.svd(J, full_matrices=False)
    relative = sizes / max(float(sizes.max(initial=0.0)), math.ulp(0.0))
    weak = (relative > max(CUT, tolerance)) & (relative <= LARGEST_CUT)
    for direction, size in zip(rows[weak], relative[weak].tolist(), strict=True):
        step = PROBE_DISTANCE * direction / np.abs(direction).max()
        at, gaps, J = closed_nearby(model, model.integrate(q, step))
        moved = float(np.abs(model.difference(q, at)).max())
        open_by = float(np.abs(gaps).max())
        if (
            moved > (1.0 - RETURNED_SHARE) * PROBE_DISTANCE
            and open_by > CLOSURE_TOLERANCE
            and is_disagreement(J, gaps)
        ):
            raise nearly_redundant(model, gaps, size)
    _known[model, tolerance] = True
    if len(_known) > MODELS_REMEMBERED:
        del _known[next(iter(_known))]


def nearly_redundant(model: Model, gaps: Array, weakest: float = 0.0) -> LoopError:
    """Return the error about constraints that disagree.

    Args:
        model: The robot; it has loops.
        gaps: What is left of the constraints [m or rad], shape (constraints,).
        weakest: Relative singular value of a constraint that keeps it rigid.
    """
    sizes = np.abs(gaps)
    largest = float(sizes.max())
    words = constraint_words(model)
    order = [k for k in np.argsort(-sizes, kind="stable").tolist() if sizes[k] > 0.01 * largest]
    listed = ", ".join(f"{words[k]} by {sizes[k]:.2g}" for k in order[:MOST_LISTED])
    more = f" and {len(order) - MOST_LISTED} more" if len(order) > MOST_LISTED else ""
    accepted = 10.0 ** math.ceil(
        math.log10(max(LEAST_ADVISED_TOLERANCE, 5.0 * max(largest, weakest)))
    )
    by_loop: dict[str, float] = {loop.name: 0.0 for loop in model.loops}
    for word, size in zip(words, sizes.tolist(), strict=True):
        name = word.split(": ")[0]
        by_loop[name] = max(by_loop[name], size)
    return LoopError(
        f"model {model.name!r}: nearly redundant: these constraints disagree by {largest:.2g} m or "
        f"rad: {listed}{more}; give lengths and axes with more digits, or accept it with "
        f"redundancy_tolerance={accepted:g} (mobility, simulate) or tolerance={accepted:g} "
        "(assemble)",
        by_loop,
    )


# -- singular configurations -----------------------------------------------------------------------


RANK_TOLERANCE = 1e-5
"""Singular value, relative to the largest, below which constraints are redundant."""


def smallest_singular_value(
    model: Model,
    q: ArrayLike,
    *,
    time: ArrayLike | None = None,
    numbers: "Mapping[str, Array] | None" = None,
) -> Array:
    """Return the smallest over the largest singular value of the constraints.

    Near zero, the robot is near a singular configuration. The values are those of J L^-T with
    H = L L^T: velocities are measured by their kinetic energy. Constraints that are redundant in
    all given configurations are left out.

    Args:
        model: The robot; it has loops.
        q: Positions [m or rad], shape (n, nq).
        time: When [s], shape (n,), where `Driven` joints move by themselves.
        numbers: Tables of numbers of each position where they differ, shape (n, numbers).
    """
    J = loop_jacobian(model, q, time=time)
    tree = model.without_loops().at_run_time(model.run_time)
    rows = CaseRows(numbers) if numbers else None
    H = mass_matrix(tree, q, time=time, parameters=rows)
    G = np.linalg.solve(np.linalg.cholesky(H), np.swapaxes(J, -1, -2))
    s = np.linalg.svd(G, compute_uv=False)
    rank = int(np.sum(s > RANK_TOLERANCE * s[..., :1], axis=-1).max(initial=1))
    found: Array = s[..., rank - 1] / s[..., 0]
    return found
