"""Record Pinocchio's kinematics of the fixed robots.

Run from the top of a checkout, with the `bench` extra installed::

    python -m tests.cross.record_kinematics
"""

import json
import platform

import numpy as np
import pinocchio as pin

from tests.cross.kinematics_peer import KinematicsPeer
from tests.cross.kinematics_recording import DATA, PROVENANCE
from tests.cross.recording import RECORDED, states


def record():
    """Compute all robots and write the arrays, and beside them where they come from."""
    arrays = {}
    for name, model in RECORDED.items():
        peer = KinematicsPeer(model)
        q, v, x, _ = states(model)
        cases = [peer.compute_kinematics(*case) for case in zip(q, v, x, strict=True)]
        arrays |= {f"{name}/{key}": values for key, values in (("q", q), ("v", v), ("x", x))}
        for key in cases[0]:
            arrays[f"{name}/{key}"] = np.array([case[key] for case in cases])
    np.savez_compressed(DATA, **arrays)
    provenance = {
        "tool": "Pinocchio",
        "version": pin.__version__,
        "command": "python -m tests.cross.record_kinematics",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "robots": list(RECORDED),
    }
    PROVENANCE.write_text(json.dumps(provenance, indent=2) + "\n")


if __name__ == "__main__":
    record()
