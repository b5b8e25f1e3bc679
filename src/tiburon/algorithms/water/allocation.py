"""Which forces of thrusters and joints add up to what is needed, with the least of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Allocation", "allocate"]

Array = NDArray[np.float64]

RANK = 1e-10
"""Singular values below this fraction of the largest are rounding: no force acts there."""


class Allocation(NamedTuple):
    """Forces found, and what they leave."""

    forces: Array
    """One per column, within its limits."""

    missing: Array
    """What is needed less what the forces do."""

    held: NDArray[np.bool_]
    """Which forces stand at a limit."""

    beyond: Array
    """Projection onto what forces that stand at no limit cannot change, a square matrix."""


def allocate(
    A: Array, needed: Array, low: Sequence[float] | Array, high: Sequence[float] | Array
) -> Allocation:
    """Find the smallest forces that come closest to what is needed.

    Of all forces with the least error, those with the least sum of squares. Those that would pass
    a limit are held there, and the others share what is then missing, until none passes one (the
    redistributed pseudo-inverse of control allocation). The sum of squares is the least where no
    limit is met; where some are, it need not be.

    Args:
        A: What a unit of each force does, one column per force.
        needed: What all of them should do.
        low: Smallest forces.
        high: Largest forces.
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    forces, held = np.zeros(A.shape[1]), np.zeros(A.shape[1], dtype=bool)
    while True:
        rest = needed - A[:, held] @ forces[held]
        forces[~held] = np.linalg.pinv(A[:, ~held], rcond=RANK) @ rest
        passed = ~held & ((forces < low) | (forces > high))
        if not passed.any():
            break
        forces = np.clip(forces, low, high)
        held |= passed
    reach = A[:, ~held]
    beyond = np.eye(len(needed)) - reach @ np.linalg.pinv(reach, rcond=RANK)
    return Allocation(forces, needed - A @ forces, held, beyond)
