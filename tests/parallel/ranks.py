"""Script of the tests with MPI ranks: runs a robot in parts, and writes what happened as JSON."""

import hashlib
import itertools
import json
import os
import signal
import sys
import threading
import time

import numpy as np
from mpi4py import MPI

import tiburon as tb
from tests.parallel.mechanisms import moving_mechanisms
from tests.parallel.test_blocks import moving_arms
from tests.parallel.test_partition import chain, short_chain
from tiburon.parallel.blocks import BlockTasks

task, folder = sys.argv[1], sys.argv[2]
comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def bits_of(run):
    """Return a digest of the rows of a run."""
    return hashlib.blake2b(run.q.tobytes() + run.v.tobytes() + run.time.tobytes()).hexdigest()


def told(run, **more):
    """Write the bits and the outcome of a run of this rank."""
    bits = bits_of(run)
    with open(os.path.join(folder, f"{task}-{size}-{rank}.json"), "w") as file:
        found = {"bits": bits, "status": run.outcome.status, "message": str(run.outcome)}
        found["rows"] = len(run)
        sent = getattr(run, "messages", ())
        found["messages"] = [[m.phase, m.sender, m.numbers, m.times] for m in sent]
        json.dump({**found, **more}, file)


def disturb(at, what):
    """Do something after a time [s]."""

    def watch():
        time.sleep(at)
        what()

    threading.Thread(target=watch, daemon=True).start()


def tree(**options):
    robot = chain(9)
    parts = tb.partition(robot, cuts=["joint_2", "joint_4", "joint_6", "joint_7"])
    q = np.linspace(0.2, 0.9, robot.nq)
    return tb.simulate(
        robot,
        0.05,
        q=q,
        execution=tb.Execution(partition=parts, exchange=tb.MPIExchange()),
        **options,
    )


if task == "short":
    robot, parts = short_chain()
    q = np.full(robot.nq, 0.4)
    told(
        tb.simulate(
            robot, 0.01, q=q, execution=tb.Execution(partition=parts, exchange=tb.MPIExchange())
        )
    )
elif task == "blocks":
    # arms on a load over tasks: bits and counts of every division into as many tasks as ranks
    found = {}
    for block, m, p, redundant in itertools.product((1, 2, 4), (1, 2, 4), (1, 2, 4), (True, False)):
        if block % p == 0 and m * p == size:
            model, *state = moving_arms()
            tasks = BlockTasks(model, block, chains=m, points=p, redundant=redundant)
            run = tasks.run(*state, 1e-3, 2, exchange=tb.MPIExchange())
            bits = hashlib.blake2b(run.q.tobytes() + run.v.tobytes()).hexdigest()
            found[f"{block} {m} {p} {redundant}"] = [bits, *run.counts]
    with open(os.path.join(folder, f"blocks-{size}-{rank}.json"), "w") as file:
        json.dump(found, file)
elif task == "odd-blocks":
    # another step on one rank, then a division that does not fit the ranks
    model, *state = moving_arms()
    said = []
    for m, dt in ((2, 1e-3 * (1 + rank)), (4, 1e-3)):
        try:
            BlockTasks(model, 2, chains=m).run(*state, dt, 1, exchange=tb.MPIExchange())
        except tb.TiburonError as error:
            said.append(str(error))
    with open(os.path.join(folder, f"odd-blocks-{size}-{rank}.json"), "w") as file:
        json.dump(said, file)
elif task == "mechanisms":
    found = {}
    for name, moving in moving_mechanisms().items():
        run = moving.run(exchange=tb.MPIExchange())
        found[name] = [bits_of(run), run.outcome.status]
    with open(os.path.join(folder, f"mechanisms-{size}-{rank}.json"), "w") as file:
        json.dump(found, file)
elif task == "tree":
    told(tree())
elif task == "adaptive":
    told(tree(method=tb.DormandPrince(rtol=1e-8)))
elif task == "platform":
    robot = tb.load("planar_3rrr")
    parts = tb.partition(robot, "legs")
    run = tb.simulate(
        robot, 0.1, execution=tb.Execution(partition=parts, exchange=tb.MPIExchange())
    )
    kinetic = tb.kinetic_energy(robot, run.q, run.v)
    energy = kinetic + tb.potential_energy(robot, run.q)
    told(run, energy=[float(x) for x in energy])
elif task == "control":
    calls = []

    def control(state):
        calls.append(state.time)
        return -0.02 * state.v + 0.1 * np.sin(3.0 * state.time)

    told(tree(control=control), calls=len(calls))
elif task == "store":
    told(tree(record=tb.Record(store=os.path.join(folder, "run.zarr"))))
elif task == "resume":
    robot = chain(9)
    parts = tb.partition(robot, cuts=["joint_2", "joint_4", "joint_6", "joint_7"])
    run = tb.load_run(os.path.join(folder, "run.zarr"))
    told(run.resume(0.05, execution=tb.Execution(partition=parts, exchange=tb.MPIExchange())))
elif task == "drive":
    robot, parts = short_chain()
    how = {
        "q": np.full(robot.nq, 0.4),
        "execution": tb.Execution(partition=parts, exchange=tb.MPIExchange()),
    }
    store = os.path.join(folder, "drive.zarr")
    with tb.Drive(robot, method=tb.RK4(dt=0.005), **how) as drive:
        recording = drive.start_recording(every=1, store=store)
        drive.command({"joint_0": 0.5 if rank == 0 else -9.0})
        if rank == 0:
            time.sleep(0.5)
    # the first rank has stopped all
    run = drive.stop_recording() if drive.recording else drive.last_run
    overruns = [list(one) for one in drive.overruns]
    told(run, overruns=overruns, lost=drive.lost, ticks=drive.report().ticks)
elif task == "differ":
    robot = chain(4 + (rank == 1))
    parts = tb.partition(robot, cuts=["joint_2"])
    try:
        tb.simulate(robot, 0.01, execution=tb.Execution(partition=parts, exchange=tb.MPIExchange()))
    except tb.PartnerError as error:
        with open(os.path.join(folder, f"differ-{size}-{rank}.json"), "w") as file:
            json.dump({"message": str(error)}, file)
elif task == "cable":
    # as root of a network namespace, with a cable to the other rank that is cut in the second run
    def sent():
        # of this process, whose namespace /sys does not show
        with open("/proc/self/net/dev") as file:
            (line,) = [one for one in file if one.strip().startswith("cable0")]
        return int(line.partition(":")[2].split()[8])

    robot, parts = short_chain()
    q = np.full(robot.nq, 0.4)
    tb.simulate(
        robot, 0.01, q=q, execution=tb.Execution(partition=parts, exchange=tb.MPIExchange())
    )
    before = sent()
    run = tb.simulate(
        robot, 0.01, q=q, execution=tb.Execution(partition=parts, exchange=tb.MPIExchange())
    )
    used = sent() - before
    bits = bits_of(run)
    if rank == 0:
        disturb(1.0, lambda: os.system("ip link set cable0 down"))
    cut = tb.simulate(
        robot,
        1e4,
        q=q,
        execution=tb.Execution(partition=parts, exchange=tb.MPIExchange(patience=3.0)),
    )
    numbers = sum(m.numbers * m.times for m in run.messages if m.sender == rank)
    told(cut, whole=bits, bytes=used, sent=8 * numbers, place=os.readlink("/proc/self/ns/net"))
elif task in ("killed", "hangs"):
    robot = chain(9)
    parts = tb.partition(robot, cuts=["joint_3", "joint_6"])
    # kernels are compiled before the time counts
    tb.simulate(robot, 0.01, execution=tb.Execution(partition=parts, exchange=tb.MPIExchange()))
    if rank == 1:
        how = signal.SIGKILL if task == "killed" else signal.SIGSTOP
        disturb(5.0, lambda: os.kill(os.getpid(), how))
    store = os.path.join(folder, "long.zarr") if task == "killed" else None
    run = tb.simulate(
        robot,
        1e4,
        execution=tb.Execution(partition=parts, exchange=tb.MPIExchange(patience=3.0)),
        record=tb.Record(store=store),
    )
    told(run)
