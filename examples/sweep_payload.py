"""How fast does a vehicle with a payload sink, and where does the current carry it?

A BlueROV2 without thrust, with payloads that it does not displace water for, in currents of several
speeds and sea water of random density: 120 runs on processes of this machine, three numbers each.
In still water it sinks in the end at the speed w of
(33 w + 190 w^2) density / 1000 = (mass - density volume) g; a current makes it pitch.

Run again with the same store, a sweep goes on where it was; a script needs no guard for its
workers. `tiburon sweep status study.zarr` shows how far it is.
"""

import tempfile
from pathlib import Path

import numpy as np

import tiburon as tb

MASS, VOLUME, GRAVITY = 13.5, 0.0134, 9.81  # kg, m^3, m/s^2
LINEAR, QUADRATIC = 33.0, 190.0  # damping of heave in fresh water, N s/m and N s^2/m^2

rov = tb.load("bluerov2_heavy")


def start(point, stream):
    """Return what `simulate` takes: the sea of one case, and the mass of its vehicle."""
    density = stream.normal(1025.0, 2.0)
    return {
        "fluid": tb.Water(density=density, current=(point.current, 0.0, 0.0)),
        "parameters": {"hull.mass": MASS + point.payload},
    }


def drift(run):
    """Return how far a run drifted, its final speed, and the density of its sea."""
    return {
        "drift": run.q[-1, 4],
        "sinking": -run.v[-1, 5],
        "density": run.world.fluid.density,
    }


with tempfile.TemporaryDirectory() as folder:
    study = tb.sweep(
        rov,
        30.0,
        method=tb.RK4(dt=0.01),
        record=tb.Record(dt=1.0),
        design={
            "payload": np.linspace(1.0, 8.0, 4),
            "current": np.linspace(0.0, 1.0, 3),
            "draw": range(10),
        },
        setup=start,
        reduce=drift,
        seed=7,
        store=Path(folder) / "study.zarr",
    )
    data = study.data.load()
    print(study.progress)

print(data.drift.mean("draw").to_pandas().round(2).to_string())

still = data.sel(current=0.0)
weight = (MASS + still.payload - still.density * VOLUME) * GRAVITY
force = weight / (still.density / 1000.0)
terminal = (np.sqrt(LINEAR**2 + 4.0 * QUADRATIC * force) - LINEAR) / (2.0 * QUADRATIC)
error = float(np.abs(still.sinking - terminal).max())
print(f"largest difference from the closed form: {error:.1e} m/s")
