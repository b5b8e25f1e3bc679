"""A small study that the tests of sweeps share: a pendulum with random starts."""

import os
import signal
from pathlib import Path

import numpy as np

import tiburon as tb
from tests.robots import double_pendulum, pendulum

ROBOT = pendulum()
DURATION = 0.1
OPTIONS = {"method": tb.RK4(dt=0.01), "record": tb.Record(every=5)}
DESIGN = {"payload": np.array([0.0, 0.4, 1.1]), "draw": range(7)}


def start(point, stream):
    """Kick the pendulum, with a payload at its end."""
    return {
        "q": stream.normal(0.0, 1.0, 1),
        "v": stream.normal(0.0, 2.0, 1),
        "parameters": {"rod.mass": 1.3 + point["payload"]},
    }


def drift(run, point):
    """Return where a run ended, and how fast."""
    return {"angle": run.q[-1, 0], "ends": np.array([run.v[0, 0], point.payload])}


def deadly(point, stream):
    """Kill the worker that computes draw 4 of payload 0.4."""
    if point.draw == 4 and point.payload == 0.4:
        os.kill(os.getpid(), signal.SIGKILL)
    return start(point, stream)


def wrong(point, stream):
    """Raise an error for one case."""
    if point.draw == 4 and point.payload == 0.4:
        raise ValueError("no such sea")
    return start(point, stream)


def changing(point, stream):
    """Use another robot along one axis."""
    robot = {"single": ROBOT, "double": double_pendulum()}[point.robot]
    return {"model": robot, "v": stream.normal(0.0, 1.0, robot.nv)}


def speed(run):
    """Return the largest speed."""
    return np.abs(run.v).max()


def study(path, **changes):
    """Begin or continue the study, in this process unless told otherwise."""
    given = {
        "design": DESIGN,
        "setup": start,
        "store": path,
        "block": 4,
        "seed": 5,
        **({} if "client" in changes else {"workers": 0}),
        **OPTIONS,
        **changes,
    }
    return tb.sweep(ROBOT, DURATION, **given)


def whole(seed=5, design=DESIGN):
    """Run all cases of the study as one batch of `simulate`, in the order of their numbers."""
    from tiburon.parallel.design import Design, case_stream

    table = Design.of(design)
    points = [table.point(case) for case in range(table.count)]
    given = [start(point, case_stream(seed, point.indices)) for point in points]
    return tb.simulate(
        ROBOT,
        DURATION,
        q=np.stack([one["q"] for one in given]),
        v=np.stack([one["v"] for one in given]),
        parameters={"rod.mass": np.array([one["parameters"]["rod.mass"] for one in given])},
        **OPTIONS,
    )


def content(path):
    """Return the bytes of all chunks of a store, by name."""
    root = Path(path)
    files = (file for file in sorted(root.glob("*/c/**/*")) if file.is_file())
    # a worker that was killed may leave the beginning of a file under another name
    files = (file for file in files if file.suffix != ".partial")
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}
