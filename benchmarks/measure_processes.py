"""Robots in parts: price of an exchange, of parts in one process, and of a long chain in two.

Accelerations and runs of both sides are compared before any time counts.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.robots import chain
from benchmarks.timing import Timing

NUMBERS = 27
"""Numbers of the message of one handle."""

BOUNDARY = 1.0 / 1.15
"""Least speed of legs as parts beside the undivided kernel."""

LINKS, STEPS = 200, 20
"""Long chain, and the steps that are timed."""

RANKS = """
import json, sys, time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
count, repeats = int(sys.argv[1]), int(sys.argv[2])
values, places = np.zeros(count * comm.size), [count * k for k in range(comm.size)]
times = []
for _ in range(repeats):
    comm.Barrier()
    begin = time.perf_counter()
    for _ in range(100):
        request = comm.Iallgatherv(MPI.IN_PLACE, [values, [count] * comm.size, places, MPI.DOUBLE])
        while not request.Test():
            pass
    times.append((time.perf_counter() - begin) / 100)
if comm.rank == 0:
    name = MPI.Get_library_version().split(",")[0].split("\\n")[0]
    print(json.dumps({"mpi": name, "times": times}))
"""


def run(duration: float) -> Iterator[Figure]:
    """Measure all rows.

    Args:
        duration: Time to spend on each side [s].
    """
    repeats = max(5, round(20 * duration))
    yield _threads(repeats)
    yield from _ranks(repeats)
    yield from _one_process(repeats)
    yield from _legs(repeats)
    yield from _long_chain(repeats)


def _threads(repeats: int) -> Figure:
    from tiburon.parallel.exchange import _Meeting, _Thread

    meeting = _Meeting(2, 60.0)
    times: list[float] = []

    def work(rank: int) -> None:
        me, values = _Thread(meeting, rank), np.zeros(2 * NUMBERS)
        for _ in range(repeats):
            begin = perf_counter()
            for _ in range(100):
                me.gather(values, [NUMBERS, NUMBERS])
            if not rank:
                times.append((perf_counter() - begin) / 100)

    other = threading.Thread(target=work, args=(1,))
    other.start()
    work(0)
    other.join()
    return Figure(
        f"exchange of {NUMBERS} numbers, two threads",
        Timing.of(times),
        note="pays where one evaluation takes ten times as long",
    )


def _ranks(repeats: int) -> Iterator[Figure]:
    """Measure exchanges between ranks with the MPI that is found, if there is one."""
    beside = str(Path(sys.executable).parent)
    mpiexec = shutil.which("mpiexec", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if mpiexec is None:
        return
    cores = os.cpu_count() or 1
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    for ranks in (2, 2 * cores):
        command = [mpiexec, "-n", str(ranks), sys.executable, "-c", RANKS]
        done = subprocess.run(
            [*command, str(NUMBERS), str(repeats)],
            env={**os.environ, **allowed},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if done.returncode:
            return
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        advice = "pays where one evaluation takes ten times as long"
        if ranks > cores:
            advice = f"more ranks than cores ({cores}): start at most {cores}, or expect this"
        yield Figure(
            f"exchange of {NUMBERS} numbers, {ranks} ranks, {found['mpi']}",
            Timing.of(found["times"]),
            note=advice,
        )


def _sampled(call: Any, repeats: int, calls: int = 50) -> Timing:
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        for _ in range(calls):
            call()
        times.append((perf_counter() - begin) / calls)
    return Timing.of(times)


def _one_process(repeats: int) -> Iterator[Figure]:
    """Measure accelerations of robots in parts, one after another, beside the undivided robot."""
    import tiburon as tb

    rng = np.random.default_rng(0)
    panda = tb.load("panda").without_loops()
    dog = tb.load("quadruped")
    arms = tb.load("four_pumas")
    ten = chain(10)
    cases = [
        (ten, tb.partition(ten, processes=2)),
        (panda, tb.partition(panda, cuts=[panda.plan.bodies[3].joint.name])),
        (dog, tb.partition(dog, "legs")),
        (arms, tb.partition(arms, "legs")),
    ]
    for robot, parts in cases:
        if robot.loops:
            q = np.array(robot.poses["home"])
            v = tb.project_velocity(robot, q, 0.3 * rng.standard_normal(robot.nv))
        else:
            q, v = robot.random_state(rng)
        tau = rng.standard_normal(robot.nv)
        whole = tb.forward_dynamics(robot, q, v, tau)
        check_equal(robot.name, parts.forward_dynamics(q, v, tau), whole, 1e-11)
        kernel = next(iter(parts._kernels.values()))[0]
        yield Figure(
            f"{robot.name} in {len(parts.names)} parts, one process",
            _sampled(lambda k=kernel, s=(q, v, tau): k(*s, 0.0), repeats),
            "undivided",
            _sampled(lambda r=robot, s=(q, v, tau): tb.forward_dynamics(r, *s), repeats),
            note=f"messages of {', '.join(map(str, parts.numbers))} numbers",
        )


def _legs(repeats: int) -> Iterator[Figure]:
    """Measure runs whose legs are parts by themselves, in one process, beside ordinary runs."""
    import tiburon as tb

    robot = tb.load("planar_3rrr")
    parts = tb.partition(robot, "legs")
    for method in (tb.DeNOC("minimal"), tb.Penalty(1e4)):
        how = {"loop_method": method, "progress": False}
        check_equal(
            "planar_3rrr",
            tb.simulate(robot, 0.1, partition=parts, **how).q,
            tb.simulate(robot, 0.1, **how).q,
            1e-12,
        )

        def timed(more: dict[str, Any], how: dict[str, Any] = how) -> Timing:
            short, long = [], []
            for _ in range(min(repeats, 10)):
                for duration, times in ((1.0, short), (11.0, long)):
                    begin = process_time()
                    tb.simulate(robot, duration, record_dt=1.0, **how, **more)
                    times.append(process_time() - begin)
            # the difference leaves out what every run takes to start
            step = (min(long) - min(short)) / 10_000
            return Timing(step, step)

        yield Figure(
            f"planar_3rrr, {type(method).__name__}, legs as parts: one step",
            timed({"partition": parts}),
            "undivided",
            timed({}),
            must=BOUNDARY,
        )


def _long_chain(repeats: int) -> Iterator[Figure]:
    """Measure a long chain in one process and in two threads, beside the undivided one."""
    import tiburon as tb

    robot = chain(LINKS)
    rng = np.random.default_rng(0)
    q = rng.uniform(-0.3, 0.3, robot.nq)
    how = {"q": q, "dt": 1e-5, "progress": False, "passive": False, "limits": False}

    def step(**more: Any) -> Timing:
        tb.simulate(robot, 1e-5 * STEPS, **how, **more)
        times = []
        for _ in range(max(3, repeats // 5)):
            begin = perf_counter()
            tb.simulate(robot, 1e-5 * STEPS, **how, **more)
            whole = perf_counter() - begin
            begin = perf_counter()
            tb.simulate(robot, 1e-5, **how, **more)
            times.append((whole - (perf_counter() - begin)) / (4 * (STEPS - 1)))
        return Timing.of(times)

    undivided = step()
    for count in (2,):
        parts = tb.partition(robot, processes=count)
        model = parts.predicted_seconds(2, 5e-6) * 1e6
        for name, exchange in (("one process", None), ("two threads", tb.ThreadExchange(2))):
            yield Figure(
                f"chain of {LINKS}, {count} parts, {name}: one evaluation",
                step(partition=parts, exchange=exchange),
                "undivided",
                undivided,
                note=f"model T(2) = {model:.0f} us with 5 us per exchange",
            )


MEASUREMENT = Measurement("processes", "One robot in parts", run, place=25)
