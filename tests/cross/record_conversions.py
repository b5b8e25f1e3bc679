"""Record states and answers of Pinocchio and MuJoCo in their own orders and axes.

Run from the top of a checkout, with the `bench` extra installed::

    python -m tests.cross.record_conversions
"""

import json
import platform
from pathlib import Path

import numpy as np

DATA = Path(__file__).with_name("conversions.npz")
PROVENANCE = DATA.with_suffix(".json")
COMMAND = "python -m tests.cross.record_conversions"


def record():
    """Run both codes and write the arrays, and beside them where they come from."""
    from tests.cross.mixture_peers import GRAVITY, VERSIONS, run_mujoco, run_pinocchio

    arrays = {f"pinocchio/{key}": array for key, array in run_pinocchio().items()}
    arrays |= {f"mujoco/{key}": array for key, array in run_mujoco().items()}
    np.savez_compressed(DATA, **arrays)
    provenance = {
        "tools": VERSIONS,
        "command": COMMAND,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "gravity": GRAVITY,
    }
    PROVENANCE.write_text(json.dumps(provenance, indent=2) + "\n")


def load():
    """Return recorded arrays by code and quantity, and where they come from."""
    arrays = {}
    with np.load(DATA) as stored:
        for key in stored.files:
            code, quantity = key.split("/")
            arrays.setdefault(code, {})[quantity] = stored[key]
    return arrays, json.loads(PROVENANCE.read_text())


if __name__ == "__main__":
    record()
