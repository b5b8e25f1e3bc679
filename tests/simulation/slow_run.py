"""A run that takes its time, to be killed or interrupted from outside."""

import sys
import time

import numpy as np

import tiburon as tb
from tests.robots import double_pendulum

DURATION = 20.0
START = (1.0, -0.5)


def control(state):
    """Brake, and push now and then."""
    return -0.5 * state.v + 0.1 * np.sin(state.time)


def slow_control(state):
    """Do the same, slowly."""
    time.sleep(0.002)
    return control(state)


def wind():
    """Return an element that is code."""
    return tb.ForceFunction("wind", lambda now: (0.1 * np.sin(now.time), -0.2 * now.v[1]))


def main(path, kind):
    """Run into a store with frequent checkpoints, and say how it ended."""
    from tiburon.simulation import fixed_run, recorder
    from tiburon.simulation import run as run_module

    # a run without a controller in Python waits in its progress, after every native call
    run_module.INTERVAL = 0.0
    fixed_run.PLAN_STEPS = 32
    recorder.FLUSH_SECONDS = 0.02
    recorder.HAND_ON_SECONDS = 0.02
    run = tb.simulate(
        double_pendulum(),
        DURATION,
        v=START,
        control=slow_control if kind == "control" else None,
        forces=[wind()] if kind == "forces" else (),
        dt=1e-3,
        record_every=1,
        store=path,
        progress=lambda done, duration: time.sleep(0.05),
    )
    sys.stdout.write(run.status)
