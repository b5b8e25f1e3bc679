"""The default block of tb.sweep depends on the load of the machine and becomes far too small: 8 to 16 cases, two to four times the processor time.

docs/sweeps.md: a block is "by default about 5 s of computation"; this whole study takes about 2 s. Right: a few blocks, as on an idle machine (5). Cause seen: `_block_size` of
parallel/sweep.py measures one case by wall-clock time, and tries no larger batch if it took 0.2 s; batches are many times cheaper per case. Loads all cores for up to a minute.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import tiburon as tb

BLOCKS, CASES = 10, 300  # most blocks for a study of some seconds
robot = tb.load("bluerov2_alpha")
tool = robot.body_names[-1]
mass = robot.body(tool).inertia.mass
control = tb.CombinedControl((tb.StationKeeping.of(robot, frequency=0.8, fluid=tb.Water()), tb.ComputedTorque.critical(0.0, frequency=6.0)))


def start(point, stream):
    return {"fluid": tb.Water(current=tuple(stream.normal((0.2, 0, 0), (0.1, 0.1, 0.02)))), "parameters": {f"{tool}.mass": mass + stream.uniform(0, 1.0)}}


def keep(run):
    e = np.linalg.norm(run.q[:, 4:7] - run.q[0, 4:7], axis=-1)
    return {"max_error": e.max(), "end_error": e[-1]}


def measure(**options):
    with tempfile.TemporaryDirectory() as folder:
        t = time.process_time()
        s = tb.sweep(robot, 10.0, method=tb.RK4(dt=0.01), design={"draw": range(CASES)}, setup=start, reduce=keep, control=control, store=folder + "/s.zarr", workers=0, record=tb.Record(dt=0.1), execution=tb.Execution(progress=False), **options)
        return int(re.search(r"blocks\s+\d+ of (\d+)", str(s.progress)).group(1)), time.process_time() - t


measure(block=CASES)  # compiles
_, one = measure(block=CASES)
print("idle, by default: {} blocks, {:.1f} s of processor time".format(*measure()))
others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * os.cpu_count())]
try:
    blocks, spent = measure()
finally:
    for p in others:
        p.kill()
        p.wait()
print(f"busy, by default: {blocks} blocks, {spent:.1f} s of processor time, {spent / one:.1f} times that of one block; right: at most {BLOCKS} blocks")
raise SystemExit(int(blocks > BLOCKS))
