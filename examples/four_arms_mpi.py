"""Four arms on a load, each arm a part; on one process or on several MPI ranks.

python four_arms_mpi.py
mpiexec -n 4 python four_arms_mpi.py
"""

import importlib.util

import numpy as np

import tiburon as tb

robot = tb.load("four_pumas")
parts = tb.partition(robot, "legs")  # four arms and the load
exchange, rank = None, 0
if importlib.util.find_spec("mpi4py"):
    exchange = tb.MPIExchange()
    rank = exchange.comm.Get_rank()

# motors off: the load sinks, held by four arms
execution = tb.Execution(partition=parts, exchange=exchange, progress=False)
run = tb.simulate(robot, 0.3, execution=execution, method=tb.RK4(dt=5e-4))
if rank == 0:
    print(parts.summary)
    print(run)
    for message in run.messages:
        print(
            f"{message.phase}: {message.part} on rank {message.sender} sent {message.numbers} "
            f"numbers {message.times} times"
        )
    whole = tb.simulate(robot, 0.3, method=tb.RK4(dt=5e-4), execution=tb.Execution(progress=False))
    difference = np.abs(run.q[-1] - whole.q[-1]).max()
    print(f"difference from the undivided robot: {difference:.2g} m or rad")
