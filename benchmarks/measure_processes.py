"""Robots in parts: price of an exchange, of parts in one process, and of a long chain in two.

Accelerations and runs of both sides are compared before any time counts.
"""

import importlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.cable import CABLE, ISOLATED, WIRED, why_no_cable
from benchmarks.cable import RANKS as RANKS_AT_ENDS
from benchmarks.figure import Figure, Measurement, MeasurementError, check_equal
from benchmarks.robots import chain
from benchmarks.timing import Timing, measure

NUMBERS = 27
"""Numbers of the message of one handle."""

BOUNDARY = 0.87
"""Least speed of legs as parts beside the undivided kernel: 1.15 times its time at most."""

LINKS, STEPS = (1000,), 100
"""Links of long chains, and the steps that are timed."""

LEGGED = ("quadruped", "aquarobot", "osu_hexapod", "four_pumas", "stewart", "planar_3rrr")
"""Robots whose legs or arms are parts."""

CHAIN = """
import json, sys, time
import numpy as np
from mpi4py import MPI
import tiburon as tb
from benchmarks.robots import chain
links, steps = int(sys.argv[1]), int(sys.argv[2])
robot = chain(links).without_passive().without_limits()
q = np.random.default_rng(0).uniform(-0.3, 0.3, robot.nq)
how = dict(q=q, method=tb.RK4(dt=1e-5))
parts = tb.partition(robot, processes=2)
how["execution"] = tb.Execution(partition=parts, exchange=tb.MPIExchange(), progress=False)
tb.simulate(robot, 1e-5 * steps, **how)
short, long = [], []
for _ in range(3):
    for count, times in ((1, short), (steps, long)):
        begin = time.perf_counter()
        tb.simulate(robot, 1e-5 * count, **how)
        times.append(time.perf_counter() - begin)
times = [(min(long) - min(short)) / (4 * (steps - 1))]
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
    yield from _flags(repeats)
    yield _threads(repeats)
    yield from _ranks(repeats)
    yield from _dask(repeats)
    yield from _arms_and_legs(duration)
    yield from _cuts(duration)
    yield from _legs(repeats)
    yield from _long_chain(repeats)


FLAG = """
declare i32 @sched_yield()
define void @exchange(ptr %mine, ptr %other, i64 %turns, i64 %yields) {
entry:
  br label %turn
turn:
  %i = phi i64 [ 1, %entry ], [ %next, %arrived ]
  %odd = and i64 %i, 1
  %place = mul i64 %odd, 32
  %first = add i64 %place, 8
  br label %write
write:
  %k = phi i64 [ 0, %turn ], [ %k1, %write ]
  %at = add i64 %first, %k
  %to = getelementptr i64, ptr %mine, i64 %at
  store volatile i64 %i, ptr %to
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, NUMBERS
  br i1 %more, label %write, label %post
post:
  store atomic i64 %i, ptr %mine release, align 8
  br label %wait
wait:
  %seen = load atomic i64, ptr %other acquire, align 8
  %there = icmp uge i64 %seen, %i
  br i1 %there, label %read, label %again
again:
  %polite = icmp ne i64 %yields, 0
  br i1 %polite, label %give, label %wait
give:
  %ignored = call i32 @sched_yield()
  br label %wait
read:
  %r = phi i64 [ 0, %wait ], [ %r1, %read ]
  %from_at = add i64 %first, %r
  %from = getelementptr i64, ptr %other, i64 %from_at
  %value = load volatile i64, ptr %from
  %r1 = add i64 %r, 1
  %rest = icmp ult i64 %r1, NUMBERS
  br i1 %rest, label %read, label %arrived
arrived:
  %next = add i64 %i, 1
  %done = icmp ugt i64 %next, %turns
  br i1 %done, label %end, label %turn
end:
  ret void
}
"""
"""Each side writes its numbers, posts how many messages it wrote, and waits for the other's."""


def _flags(repeats: int) -> Iterator[Figure]:
    """Measure exchanges through a flag in shared memory, in machine code on two threads."""
    if (os.cpu_count() or 1) < 2 or sys.platform == "win32":
        return
    import ctypes

    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    module = llvm.parse_assembly(FLAG.replace("NUMBERS", str(NUMBERS)))
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
    exchange = kind(engine.get_function_address("exchange"))
    turns = 2000
    for yields, name in ((0, "spinning flag"), (1, "flag, yielding")):
        times = []
        for _ in range(repeats):
            sides = np.zeros((2, 128), dtype=np.int64)
            mine, other = (sides[k].ctypes.data for k in range(2))
            partner = threading.Thread(target=exchange, args=(other, mine, turns, yields))
            partner.start()
            begin = perf_counter()
            exchange(mine, other, turns, yields)
            times.append((perf_counter() - begin) / turns)
            partner.join()
            assert (sides[:, 0] == turns).all(), "a message was lost"
        yield Figure(
            f"exchange of {NUMBERS} numbers, {name} in shared memory",
            Timing.of(times),
            note="pays where one evaluation takes ten times as long",
        )


def _threads(repeats: int) -> Figure:
    from tiburon.parallel.exchange import thread_group

    group = thread_group(2, 60.0)
    times: list[float] = []

    def work(rank: int) -> None:
        me, values = group[rank], np.zeros(2 * NUMBERS)
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


def _mpiexec() -> str | None:
    beside = str(Path(sys.executable).parent)
    return shutil.which("mpiexec", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")


def _launched(
    ranks: int, script: str, *arguments: str, wired: bool = False, **more: str
) -> dict[str, Any] | None:
    """Return what rank 0 of a script prints as JSON; None without MPI.

    Args:
        ranks: Number of ranks.
        script: Their program.
        arguments: Its arguments.
        wired: Whether two ranks are at the ends of a cable between two network namespaces.
        more: Variables of their environment.
    """
    mpiexec = _mpiexec()
    if mpiexec is None:
        return None
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    rank = [sys.executable, "-c", script, *arguments]
    command = [mpiexec, "-n", str(ranks), *rank]
    if wired:
        run = {"mpiexec": shlex.quote(mpiexec), "rank": shlex.join(rank)}
        command, more = [*ISOLATED, CABLE + RANKS_AT_ENDS % run], {**more, **WIRED}
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **allowed, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _ranks(repeats: int) -> Iterator[Figure]:
    """Measure exchanges between ranks with the MPI that is found, if there is one."""
    cores = os.cpu_count() or 1
    cases: list[tuple[int, str, dict[str, Any]]] = [
        (2, "", {}),
        (2, " over TCP", dict(OVER_TCP)),
        (2 * cores, "", {}),
    ]
    if _mpiexec() is not None and not why_no_cable():
        cases.insert(2, (2, " over TCP, two network namespaces", {"wired": True}))
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


def _state_of(robot: Any) -> tuple[Any, Any, Any]:
    """Return a state in motion, with closed loops, and joint forces."""
    import tiburon as tb

    rng = np.random.default_rng(0)
    if robot.loops:
        q = np.array(robot.poses.get("home", robot.neutral()))
        v = tb.project_velocity(robot, q, 0.3 * rng.standard_normal(robot.nv))
    else:
        q, v = robot.random_state(rng)
    return q, v, rng.standard_normal(robot.nv)


def _beside_undivided(
    robot: Any, parts: Any, duration: float, must: float | None, how: str = "by legs, "
) -> Figure:
    """Measure accelerations of a robot in parts in one process beside the undivided robot."""
    import tiburon as tb

    q, v, tau = _state_of(robot)
    undivided = tb.compile(tb.forward_dynamics, robot)
    check_equal(robot.name, parts.forward_dynamics(q, v, tau), undivided(q, v, tau), 1e-11)
    kernel = next(iter(parts._kernels.values()))[0]
    times = measure(
        {"parts": (kernel, q, v, tau, 0.0), "undivided": (undivided, q, v, tau)},
        duration=duration,
    )
    return Figure(
        f"{robot.name}, {how}{len(parts.names)} parts, one process",
        times["parts"],
        "undivided",
        times["undivided"],
        must=must,
        note=f"messages of {', '.join(map(str, sorted(set(parts.numbers) - {0})))} numbers",
    )


def _arms_and_legs(duration: float) -> Iterator[Figure]:
    """Measure arms and legs as parts, by the recursions of the undivided robot."""
    import tiburon as tb

    for name in LEGGED:
        robot = tb.load(name)
        yield _beside_undivided(robot, tb.partition(robot, "legs"), duration, BOUNDARY)


def _cuts(duration: float) -> Iterator[Figure]:
    """Measure cuts anywhere."""
    import tiburon as tb

    ten, panda = chain(10), tb.load("panda").without_loops()
    hundred, longer = chain(100), chain(200)
    dog, arms = tb.load("quadruped"), tb.load("four_pumas")
    knees = [body.joint.name for body in dog.plan.bodies if body.parent > 0][::2]
    for robot, parts in (
        (ten, tb.partition(ten, processes=2)),
        (panda, tb.partition(panda, cuts=[panda.plan.bodies[3].joint.name])),
        (dog, tb.partition(dog, cuts=knees)),
        (arms, tb.partition(arms, processes=7)),
        (hundred, tb.partition(hundred, processes=2)),
        (longer, tb.partition(longer, processes=4)),
    ):
        yield _beside_undivided(robot, parts, duration, None, "cut, ")


def _legs(repeats: int) -> Iterator[Figure]:
    """Measure runs whose legs are parts by themselves, in one process, beside ordinary runs."""
    import tiburon as tb

    robot = tb.load("planar_3rrr")
    parts = tb.partition(robot, "legs")
    for method in (tb.DeNOC("minimal"), tb.Penalty(1e4)):
        how = {
            "loops": method,
            "method": tb.RK4(dt=1e-5),
            "record": tb.Record(dt=0.05),
        }
        check_equal(
            "planar_3rrr",
            tb.simulate(
                robot, 0.1, execution=tb.Execution(partition=parts, progress=False), **how
            ).q,
            tb.simulate(robot, 0.1, execution=tb.Execution(progress=False), **how).q,
            1e-12,
        )
        ways = {
            "parts": tb.Execution(partition=parts, progress=False),
            "undivided": tb.Execution(progress=False),
        }
        ends = {"short": 0.05, "long": 0.45}
        least = dict.fromkeys(((way, end) for way in ways for end in ends), np.inf)
        for _ in range(min(repeats, 10)):
            for way, end in least:
                begin = process_time()
                run = tb.simulate(robot, ends[end], execution=ways[way], **how)
                least[way, end] = min(least[way, end], process_time() - begin)
                if run.outcome.status != "finished":
                    raise MeasurementError(f"planar_3rrr, {method}: {run.outcome}")
        # the difference leaves out what every run takes to start
        steps = {way: (least[way, "long"] - least[way, "short"]) / 40_000 for way in ways}
        yield Figure(
            f"planar_3rrr, {type(method).__name__}, legs as parts: one step",
            Timing(steps["parts"], steps["parts"]),
            "undivided",
            Timing(steps["undivided"], steps["undivided"]),
            must=BOUNDARY,
        )


def _long_chain(repeats: int) -> Iterator[Figure]:
    """Measure long chains in one process, two threads and two ranks, beside the undivided ones."""
    import tiburon as tb

    for links in LINKS:
        robot = chain(links).without_passive().without_limits()
        rng = np.random.default_rng(0)
        q = rng.uniform(-0.3, 0.3, robot.nq)
        how = {
            "q": q,
            "method": tb.RK4(dt=1e-5),
            "execution": tb.Execution(progress=False),
        }

        def step(robot: Any = robot, how: dict[str, Any] = how, **more: Any) -> Timing:
            tb.simulate(robot, 1e-5 * STEPS, **how, **more)
            short, long = [], []
            for _ in range(max(3, repeats // 5)):
                for count, times in ((1, short), (STEPS, long)):
                    begin = perf_counter()
                    tb.simulate(robot, 1e-5 * count, **how, **more)
                    times.append(perf_counter() - begin)
            one = (min(long) - min(short)) / (4 * (STEPS - 1))
            return Timing(one, one)

        undivided = step()
        parts = tb.partition(robot, processes=2)
        timed = {
            "one process": step(execution=tb.Execution(partition=parts)),
            "two threads": step(
                execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2))
            ),
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


MEASUREMENT = Measurement("processes", "One robot in parts", run, place=26)
