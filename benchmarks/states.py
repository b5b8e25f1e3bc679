"""States to measure at: seeded, all orientations, nothing at rest."""

import numpy as np
from numpy.typing import NDArray

import tiburon as tb

Array = NDArray[np.float64]

SEED = 5


def draw_states(model: tb.Model, shape: tuple[int, ...] = ()) -> tuple[Array, Array, Array]:
    """Draw positions, velocities and joint forces, the same ones in every process.

    Args:
        model: The robot.
        shape: Leading (batch) dimensions.

    Returns:
        q, shape (..., nq); v, shape (..., nv); tau, shape (..., nv); all in SI units.
    """
    rng = np.random.default_rng(SEED)
    q, v = model.random_state(rng, shape)
    return q, v, 10.0 * rng.standard_normal((*shape, model.nv))
