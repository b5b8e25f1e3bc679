"""Workers of a Dask cluster.

When workers crash, distributed computes again what they held in memory: tasks therefore return
receipts and look for theirs first. It suspects all tasks assigned to a crashed worker: few are
dispatched at a time, under a new key each time, and crashes are counted in the store. Workers are
compared with the driver before their first block.
"""

import contextlib
import secrets
import threading
import time
import warnings
from typing import Any

from tiburon.errors import TiburonError, TiburonWarning
from tiburon.native.cache import keep_entries, machine_digest, used_entries
from tiburon.parallel.identity import Identity, differences, identity, worker_name
from tiburon.parallel.sweep_cases import SweepPlan
from tiburon.parallel.sweep_task import Task, opened_store
from tiburon.parallel.workers import (
    TASKS_PER_WORKER,
    Done,
    WorkerLostError,
    perform_pickled,
    pickled,
)

POLL_INTERVAL = 1.0
"""Time between two looks at the workers of the cluster [s]."""


IDENTITY_ATTEMPTS = 3
"""Most requests for the versions of a worker."""

ANSWER_TIMEOUT = 10.0
"""Time that the answer of a task that ended may take to arrive [s]."""


CODE_BYTES = 32 * 2**20
"""Most compiled code that is sent to a worker [bytes]."""


def introduce(dask_worker: Any = None) -> tuple[str, Identity, str]:
    """Return name, identity and kind of machine of a worker; Dask passes the worker."""
    return worker_name(), identity(), machine_digest()


def give_code() -> dict[str, bytes]:
    """Return the compiled code that a worker uses."""
    return used_entries(CODE_BYTES)


def perform_on_worker(task: Task, content: bytes) -> Any:
    """Perform a task with all threads of a Dask worker."""
    from distributed import get_worker

    if task.threads is None:
        with contextlib.suppress(ValueError, AttributeError):
            task = task._replace(threads=int(get_worker().state.nthreads))
    return perform_pickled(task, content)


class DaskWorkers:
    """The workers of a Dask client.

    Attributes:
        refused: Why workers were refused, by their names.
    """

    def __init__(self, plan: SweepPlan, client: Any, expected: Identity) -> None:
        """Use a client.

        Args:
            plan: What is computed.
            client: The client.
            expected: Identity that workers must have.
        """
        self._client, self._content, self._expected = client, pickled(plan), expected
        self._accepted: set[str] = set()
        self._addresses: dict[str, str] = {}
        self._known: set[str] = set()
        self._asked: dict[str, int] = {}
        self._kinds: dict[str, str] = {}
        # the driver has run the first case
        self._code = {machine_digest(): used_entries(CODE_BYTES)}
        self._worked: set[str] = set()
        self.refused: dict[str, str] = {}
        self._looked = -POLL_INTERVAL
        self._futures: dict[str, tuple[Any, frozenset[str]]] = {}
        self._lock = threading.Lock()

    @property
    def title(self) -> str:
        """Number of workers, and the dashboard of the scheduler."""
        link = getattr(self._client, "dashboard_link", None)
        shown = f", dashboard at {link}" if link else ""
        return f"{len(self._accepted)} workers of Dask{shown}"

    def capacity(self) -> int:
        """Return two tasks for each worker that was accepted."""
        self._look()
        return TASKS_PER_WORKER * len(self._accepted)

    def _look(self) -> None:
        """Look for workers that came and went."""
        now = time.monotonic()
        if now - self._looked < POLL_INTERVAL or self._client.status != "running":
            return
        self._looked = now
        try:
            there = set(self._client.ncores())
        except Exception:
            # the scheduler is busy or gone; submitting finds out
            return
        self._known &= there
        self._accepted &= there
        new = there - self._known
        if new:
            try:
                found = self._client.run(introduce, workers=list(new), on_error="return")
            except Exception:
                found = {}
            for address, answer in found.items():
                self._meet(address, answer)
        with contextlib.suppress(Exception):
            self._learn_code()
        self._release_orphans(there)

    def _meet(self, address: str, answer: Any) -> None:
        """Accept or refuse a worker that has introduced itself."""
        if isinstance(answer, Exception):
            self._asked[address] = self._asked.get(address, 0) + 1
            if self._asked[address] < IDENTITY_ATTEMPTS:
                # the answer was lost: the request is repeated
                return
            name, problem = address, f"no usable tiburon ({type(answer).__name__}: {answer})"
        else:
            name, theirs, kind = answer
            self._kinds[address] = kind
            problem = differences(self._expected, theirs)
        self._known.add(address)
        self._addresses[name] = address
        if not problem:
            self._share_code(address)
            self._accepted.add(address)
            return
        if name not in self.refused:
            self.refused[name] = problem
            warnings.warn(
                f"sweep: worker {name} ({address}) is refused: it has {problem}; install the same "
                "versions there",
                TiburonWarning,
                stacklevel=2,
            )

    def _share_code(self, address: str) -> None:
        """Send compiled code to a worker, so that each kind of machine compiles once."""
        entries = self._code.get(self._kinds[address])
        if entries:
            with contextlib.suppress(Exception):
                # without it the worker compiles
                self._client.run(keep_entries, entries, workers=[address], on_error="ignore")

    def _learn_code(self) -> None:
        """Ask for the code of machines whose kind is new, once one of them has computed a block."""
        for address in sorted(self._accepted):
            kind = self._kinds.get(address, "")
            if kind not in self._code and address in self._worked:
                found = self._client.run(give_code, workers=[address], on_error="ignore")
                self._code[kind] = found.get(address) or {}
                for other in sorted(self._accepted - {address}):
                    if self._kinds.get(other) == kind:
                        self._share_code(other)

    def _release_orphans(self, there: set[str]) -> None:
        """Give up tasks whose workers have all left."""
        with self._lock:
            orphans = [
                f for f, allowed in self._futures.values() if allowed and not allowed & there
            ]
        for future in orphans:
            with contextlib.suppress(Exception):
                future.cancel()

    def submit(self, task: Task, done: Done) -> None:
        """Hand over a task."""
        if self._client.status != "running":
            done(task, _gone())
            return
        key = f"tiburon-block-{task.name}-{secrets.token_hex(6)}"
        allowed = frozenset(self._accepted) if self.refused else frozenset()
        try:
            future = self._client.submit(
                perform_on_worker,
                task,
                self._content,
                key=key,
                pure=False,
                workers=sorted(allowed) or None,
                retries=0,
            )
        except Exception as error:
            done(task, _gone(error))
            return

        def ended(future: Any) -> None:
            with self._lock:
                self._futures.pop(key, None)
            done(task, self._answer(task, future))
            with contextlib.suppress(Exception):
                future.cancel()

        with self._lock:
            self._futures[key] = (future, allowed)
        future.add_done_callback(ended)

    def _answer(self, task: Task, future: Any) -> Any:
        """Return the answer of a task that ended, or what it ended with.

        The result may sit in a worker that is dead by now; then Dask runs the task again and lets
        readers wait. A receipt in the store is as good, and a task that has none is handed out
        again.
        """
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        if future.status == "finished" and not task.is_probe:
            store = opened_store(task.store, task.session)
            receipt = store.receipt(task.block)
            if receipt is not None and store.is_finished(receipt):
                self._worked.add(self._addresses.get(receipt.worker, ""))
                return receipt
        if future.status in ("cancelled", "lost"):
            if self._client.status != "running":
                return _gone()
            return WorkerLostError(f"task {future.key} was {future.status}")
        try:
            return future.result(timeout=ANSWER_TIMEOUT)
        except (KilledWorker, CancelledError, CommClosedError, TimeoutError) as error:
            return WorkerLostError(f"{type(error).__name__}: {error}")
        except Exception as error:
            return error

    def refuse(self, worker: str) -> None:
        """Give no more tasks to a worker."""
        self._accepted.discard(self._addresses.get(worker, worker))

    def close(self) -> None:
        """Cancel what waits; the client stays open."""
        with self._lock:
            waiting = [future for future, _ in self._futures.values()]
            self._futures.clear()
        if waiting and self._client.status == "running":
            with contextlib.suppress(Exception):
                self._client.cancel(waiting)


def _gone(error: Exception | None = None) -> TiburonError:
    why = f" ({type(error).__name__}: {error})" if error is not None else ""
    return TiburonError(
        f"sweep: the Dask scheduler is gone{why}; finished blocks are safe; connect another "
        "client, and tiburon.load_sweep(...).resume(client=client) continues"
    )
