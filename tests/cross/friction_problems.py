"""Contact problems with friction that are compared with Pinocchio: random, with unique impulses.

Impulses p and velocities u = A A^T p + b of points in axes (t1, t2, n), as in
`tiburon.trace.primitives.friction`.
"""

from pathlib import Path

import numpy as np

DATA = Path(__file__).with_name("friction_problems.npz")
PROVENANCE = DATA.with_suffix(".json")
COMMAND = "python -m tests.cross.record_friction_problems"
CASES, CONTACTS, COLUMNS = 20, 4, 18


def problems():
    """Return (A, b, mu) of each problem."""
    rng = np.random.default_rng(41)
    found = []
    for _ in range(CASES):
        A = rng.normal(size=(3 * CONTACTS, COLUMNS))
        b = A @ rng.normal(size=COLUMNS)
        # most points approach
        b[2::3] = -np.abs(b[2::3]) * rng.choice([1.0, 1.0, -1.0], size=CONTACTS)
        found.append((A, b, rng.uniform(0.1, 0.9, size=CONTACTS)))
    return found
