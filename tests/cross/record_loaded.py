"""Record Pinocchio's answers for the URDF file written for the tests.

Run from the top of a checkout, with the `bench` extra installed::

    python -m tests.cross.record_loaded
"""

import json
import platform
from pathlib import Path

import numpy as np

DATA = Path(__file__).with_name("loaded.npz")
PROVENANCE = DATA.with_suffix(".json")
COMMAND = "python -m tests.cross.record_loaded"
FILE = Path(__file__).parents[1] / "data" / "two_link.urdf"
CASES = 3


def without_planar(text):
    """Return the file with its planar joint fixed: Pinocchio moves it in other variables."""
    return text.replace('type="planar"', 'type="fixed"')


def states(model):
    """Return kicked states: q, v and accelerations, one row per case."""
    rng = np.random.default_rng(12)
    q, v = model.random_state(rng, (CASES,), limits=False)
    return q, v, rng.standard_normal((CASES, model.nv))


def record(folder):
    """Compute all cases and write the arrays, and beside them where they come from.

    Args:
        folder: A folder for the changed file.
    """
    import pinocchio as pin

    from tests.cross.loaded_pinocchio import LoadedPeer
    from tiburon.formats.urdf_read import read_urdf

    path = Path(folder) / "two_link.urdf"
    path.write_text(without_planar(FILE.read_text()))
    model = read_urdf(path)
    peer = LoadedPeer(path, model)
    q, v, vd = states(model)
    cases = [peer.compute(*state) for state in zip(q, v, vd, strict=True)]
    names = ("tau", "mass_matrix", "rotations", "origins")
    outputs = {n: np.array(x) for n, x in zip(names, zip(*cases, strict=True), strict=True)}
    np.savez_compressed(DATA, q=q, v=v, vd=vd, **outputs)
    provenance = {
        "tool": "Pinocchio",
        "version": pin.__version__,
        "command": COMMAND,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "bodies": list(model.body_names),
    }
    PROVENANCE.write_text(json.dumps(provenance, indent=2) + "\n")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        record(temporary)
