"""Robots in parts: price of an exchange, of parts in one process, and of a long chain in two.

Accelerations and runs of both sides are compared before any time counts.
"""

import importlib
import importlib.util
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

LINKS, STEPS = (200,), 20
"""Links of long chains, and the steps that are timed."""

CHAIN = """
import json, sys, time
import numpy as np
from mpi4py import MPI
import tiburon as tb
from benchmarks.robots import chain
links, steps = int(sys.argv[1]), int(sys.argv[2])
robot = chain(links)
q = np.random.default_rng(0).uniform(-0.3, 0.3, robot.nq)
how = dict(q=q, dt=1e-5, progress=False, passive=False, limits=False)
how.update(partition=tb.partition(robot, processes=2), exchange=tb.MPIExchange())
tb.simulate(robot, 1e-5 * steps, **how)
times = []
for _ in range(3):
    begin = time.perf_counter()
    tb.simulate(robot, 1e-5 * steps, **how)
    whole = time.perf_counter() - begin
    begin = time.perf_counter()
    tb.simulate(robot, 1e-5, **how)
    times.append((whole - (time.perf_counter() - begin)) / (4 * (steps - 1)))
if MPI.COMM_WORLD.rank == 0:
    print(json.dumps({"times": times}))
"""

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
    yield from _dask(repeats)
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


OVER_TCP = {
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "tcp,self",
    "MPIR_CVAR_NOLOCAL": "1",
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "FI_PROVIDER": "tcp",
}
"""What makes Open MPI and MPICH use TCP between ranks of one host."""


def _launched(ranks: int, script: str, *arguments: str, **more: str) -> dict[str, Any] | None:
    """Return what rank 0 of a script prints as JSON; None without MPI."""
    beside = str(Path(sys.executable).parent)
    mpiexec = shutil.which("mpiexec", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if mpiexec is None:
        return None
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    done = subprocess.run(
        [mpiexec, "-n", str(ranks), sys.executable, "-c", script, *arguments],
        env={**os.environ, **allowed, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    if done.returncode:
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _ranks(repeats: int) -> Iterator[Figure]:
    """Measure exchanges between ranks with the MPI that is found, if there is one."""
    cores = os.cpu_count() or 1
    cases: tuple[tuple[int, str, dict[str, str]], ...] = (
        (2, "", {}),
        (2, " over TCP", OVER_TCP),
        (2 * cores, "", {}),
    )
    for ranks, where, settings in cases:
        found = _launched(ranks, RANKS, str(NUMBERS), str(repeats), **settings)
        if found is None:
            continue
        advice = "pays where one evaluation takes ten times as long"
        if ranks > cores:
            advice = f"more ranks than cores ({cores}): start at most {cores}, or expect this"
            if "MPICH" in found["mpi"]:
                advice += "; MPICH spins while it waits, Open MPI yields"
        yield Figure(
            f"exchange of {NUMBERS} numbers, {ranks} ranks{where}, {found['mpi']}",
            Timing.of(found["times"]),
            note=advice,
        )


def _dask(repeats: int) -> Iterator[Figure]:
    """Measure an empty task on a Dask cluster of one worker process, if Dask is there."""
    if importlib.util.find_spec("distributed") is None:
        return
    dask: Any = importlib.import_module("distributed")
    times = []
    with (
        dask.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        dask.Client(cluster) as client,
    ):
        client.submit(abs, 0).result()
        for k in range(1, 10 * repeats):
            begin = perf_counter()
            client.submit(abs, k, pure=False).result()
            times.append(perf_counter() - begin)
    yield Figure(
        "a task on Dask", Timing.of(times), note="pays for blocks of a second and more: sweeps"
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
    """Measure long chains in one process, two threads and two ranks, beside the undivided ones."""
    import tiburon as tb

    for links in LINKS:
        robot = chain(links)
        rng = np.random.default_rng(0)
        q = rng.uniform(-0.3, 0.3, robot.nq)
        how = {"q": q, "dt": 1e-5, "progress": False, "passive": False, "limits": False}

        def step(robot: Any = robot, how: dict[str, Any] = how, **more: Any) -> Timing:
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
        parts = tb.partition(robot, processes=2)
        timed = {
            "one process": step(partition=parts),
            "two threads": step(partition=parts, exchange=tb.ThreadExchange(2)),
        }
        paths = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        found = _launched(2, CHAIN, str(links), str(STEPS), PYTHONPATH=paths)
        if found is not None:
            timed["two ranks"] = Timing.of(found["times"])
        for name, own in timed.items():
            count = 1 if name == "one process" else 2
            model = parts.predicted_seconds(count, 0.0 if count == 1 else 5e-6) * 1e6
            yield Figure(
                f"chain of {links}, 2 parts, {name}: one evaluation",
                own,
                "undivided",
                undivided,
                note=f"model T({count}) = {model:.0f} us, 5 us per exchange",
            )


MEASUREMENT = Measurement("processes", "One robot in parts", run, place=25)
