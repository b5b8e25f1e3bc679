"""A run that waits in the middle, to be killed or interrupted from outside."""

import sys

import numpy as np

import tiburon as tb
from tests.robots import double_pendulum

DURATION = 2.0
HALT = 0.1
START = (1.0, -0.5)


def control(state):
    """Brake, and push now and then."""
    return -0.5 * state.v + 0.1 * np.sin(state.time)


def wind():
    """Return an element that is code."""
    return tb.ForceFunction("wind", lambda now: (0.1 * np.sin(now.time), -0.2 * now.v[1]))


def main(path, kind):
    """Run into a store, wait at `HALT` for the end of the input, and print the status."""
    from tiburon.simulation import recorder, step_plan
    from tiburon.simulation import run as run_module

    # progress is reported, and rows are written, after every native call
    run_module.INTERVAL = run_module.HAND_ON_INTERVAL = 0.0
    step_plan.PLAN_STEPS = 32
    recorder.FLUSH_SECONDS = recorder.MAX_ROW_DELAY = 0.0

    def halt(done, duration):
        if done >= HALT and not sys.stdin.closed:
            sys.stdout.write("halted\n")
            sys.stdout.flush()
            sys.stdin.read()
            sys.stdin.close()

    try:
        run = tb.simulate(
            double_pendulum(),
            DURATION,
            v=START,
            control=control if kind == "control" else None,
            elements=[wind()] if kind == "forces" else (),
            method=tb.RK4(dt=1e-3),
            record=tb.Record(every=1, store=path),
            execution=tb.Execution(progress=halt),
        )
    except KeyboardInterrupt as stop:
        run = stop.run
    sys.stdout.write(run.status)
