"""Contact problems that are compared with a QP solver: random, definite and semidefinite.

By Gauss's principle the accelerations w = A y + d of contacts without friction minimize |y| / 2
subject to w >= 0, with C = A A^T; forces are the multipliers. The program is strictly convex
whether or not C is definite.
"""

from pathlib import Path

import numpy as np

DATA = Path(__file__).with_name("contact_problems.npz")
PROVENANCE = DATA.with_suffix(".json")
COMMAND = "python -m tests.cross.record_contact_problems"
CASES = 40


def problems(kind):
    """Return (A, d) of each problem: `CASES` of them, "definite" or "semidefinite"."""
    rng = np.random.default_rng({"definite": 31, "semidefinite": 32}[kind])
    found = []
    for _ in range(CASES):
        count = int(rng.integers(2, 15))
        columns = count if kind == "definite" else int(rng.integers(1, count))
        A = rng.uniform(-1.0, 1.0, (count, columns))
        if kind == "semidefinite" and rng.random() < 0.5:
            # parallel and opposed normals, ties
            A = np.round(2.0 * A) / 2.0
        # contacts without curvature: some motion separates all that can separate
        found.append((A, A @ rng.uniform(-1.0, 1.0, columns)))
    return found
