"""Record Pinocchio's answers for the fixed robots.

Run from the top of a checkout, with the `bench` extra installed::

    python -m tests.cross.record_pinocchio
"""

import json
import platform

import numpy as np
import pinocchio as pin

from tests.cross.peer import Peer
from tests.cross.recording import DATA, GRAVITY, PROVENANCE, RECORDED, numbers_of, states


def record():
    """Compute all robots and write the arrays, and beside them where they come from."""
    arrays = {}
    for name, model in RECORDED.items():
        peer = Peer(model, GRAVITY)
        q, v, x, wrench = states(model)
        inputs = {"robot": numbers_of(model), "q": q, "v": v, "x": x, "wrench": wrench}
        cases = [peer.compute(*case) for case in zip(q, v, x, wrench, strict=True)]
        outputs = {key: np.array([case[key] for case in cases]) for key in cases[0]}
        for key, array in {**inputs, **outputs}.items():
            arrays[f"{name}/{key}"] = array
    np.savez_compressed(DATA, **arrays)
    provenance = {
        "tool": "Pinocchio",
        "version": pin.__version__,
        "command": "python -m tests.cross.record_pinocchio",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "gravity": GRAVITY,
        "robots": {
            name: [joint.kind for joint in model.joints] for name, model in RECORDED.items()
        },
    }
    PROVENANCE.write_text(json.dumps(provenance, indent=2) + "\n")


if __name__ == "__main__":
    record()
