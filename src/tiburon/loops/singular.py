"""How near to singular poses a robot with loops comes."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.call_parameters import CaseRows
from tiburon.algorithms.library import LIBRARY, call
from tiburon.loops.dynamics import loop_jacobian
from tiburon.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["smallest_singular_value"]

Array = NDArray[np.float64]

DEPENDENT = 1e-5
"""Singular value, relative to the largest, below which constraints repeat each other."""


def smallest_singular_value(
    model: Model,
    q: ArrayLike,
    *,
    time: ArrayLike | None = None,
    numbers: "Mapping[str, Array] | None" = None,
) -> Array:
    """Return the smallest over the largest singular value of the constraints.

    Near zero, the robot is near a singular pose. The values are those of J L^-T with H = L L^T:
    velocities are measured by the kinetic energy they have. Constraints that repeat others in every
    one of the given positions are left out.

    Args:
        model: The robot; it has loops.
        q: Positions [m or rad], shape (n, nq).
        time: When [s], shape (n,), where `Driven` joints move by themselves.
        numbers: Tables of numbers of each position where they differ, shape (n, numbers).
    """
    J = loop_jacobian(model, q, time=time)
    tree = model.without_loops().at_run_time(model.run_time)
    rows = CaseRows(numbers) if numbers else None
    H = np.asarray(call(LIBRARY["mass_matrix"], tree, (q,), time=time, parameters=rows))
    G = np.linalg.solve(np.linalg.cholesky(H), np.swapaxes(J, -1, -2))
    s = np.linalg.svd(G, compute_uv=False)
    rank = int(np.sum(s > DEPENDENT * s[..., :1], axis=-1).max(initial=1))
    found: Array = s[..., rank - 1] / s[..., 0]
    return found
