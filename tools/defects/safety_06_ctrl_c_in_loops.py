"""simulate() turns Ctrl-C into a normal return with outcome "interrupted": a loop over designs goes on with truncated runs and cannot be stopped.

Right: KeyboardInterrupt, with the partial run attached or on disk (sweeps raise it). Documented today, but a loop that does not look at each outcome takes cut runs for whole ones.
"""
import os
import signal
import threading
import time

import tiburon as tb

robot = tb.load("double_pendulum")
tb.simulate(robot, 0.01)


def press():
    for _ in range(3):
        time.sleep(0.4)
        os.kill(os.getpid(), signal.SIGINT)


rows = []
try:
    threading.Thread(target=press, daemon=True).start()
    for _ in range(10):
        rows.append(len(tb.simulate(robot, 60.0, method=tb.RK4(dt=1e-4), record=tb.Record(every=1000)).time))
except KeyboardInterrupt:
    print(f"stopped after {len(rows)} runs")
    raise SystemExit(0)
print(f"three times Ctrl-C, yet all {len(rows)} runs were made, rows of each: {rows}; right: KeyboardInterrupt in the first")
raise SystemExit(1)
