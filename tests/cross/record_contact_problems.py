"""Record the accelerations that daqp finds for random contact problems.

Run from the top of a checkout, with daqp installed::

    python -m tests.cross.record_contact_problems
"""

import json
import platform
from importlib.metadata import version

import daqp
import numpy as np

from tests.cross.contact_problems import COMMAND, DATA, PROVENANCE, problems


def solved(A, d):
    """Return the accelerations of contacts, and the forces."""
    count, columns = A.shape
    upper = np.full(count, 1e30)
    y, _, flag, info = daqp.solve(
        np.eye(columns),
        np.zeros(columns),
        A.copy(),
        upper,
        -d,
        np.zeros(count, dtype=np.int32),
        primal_tol=1e-13,
        dual_tol=1e-13,
    )
    assert flag == 1, flag
    # multipliers of lower bounds are negative
    return A @ y + d, -np.asarray(info["lam"])


def main():
    """Solve all problems and write the files."""
    arrays = {}
    for kind in ("definite", "semidefinite"):
        for k, (A, d) in enumerate(problems(kind)):
            arrays[f"{kind}/{k}/accelerations"], arrays[f"{kind}/{k}/forces"] = solved(A, d)
    np.savez_compressed(DATA, **arrays)
    about = {
        "tool": "daqp",
        "version": version("daqp"),
        "command": COMMAND,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
    PROVENANCE.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
