"""Workers of a sweep: processes of this machine, this process itself, or an executor.

All have the same small interface: how many tasks they may be given, and a call that hands one over
and reports when it is done. Workers may crash at any time; the driver decides how to continue.
"""

import contextlib
import io
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor
from typing import Any, Protocol

from tiburon.errors import ModelError, TiburonError, shown
from tiburon.native.pool import default_threads
from tiburon.operating_system import own_group
from tiburon.parallel.sweep_cases import SweepPlan
from tiburon.parallel.sweep_task import Task, perform

TASKS_PER_WORKER = 2
"""Tasks that a worker is given at a time: one that runs, one that waits."""

MAX_FAILED_STARTS = 3
"""Times in a row that a worker may end before it is ready."""

Done = Callable[[Task, Any], None]
"""Called with a task and its answer, or the exception it ended with; from any thread."""


class WorkerLostError(TiburonError):
    """A worker ended, or was lost, with a task that was handed to it."""


class Workers(Protocol):
    """Whatever runs the tasks of a sweep."""

    def capacity(self) -> int:
        """Return how many tasks may be handed out at a time."""

    def submit(self, task: Task, done: Done) -> None:
        """Hand over a task; `done` is called once, when it ended."""

    def refuse(self, worker: str) -> None:
        """Give no more tasks to a worker."""

    def close(self) -> None:
        """Stop; tasks that run are left alone or ended."""

    @property
    def title(self) -> str:
        """What runs the tasks, for messages."""


def pickled(plan: SweepPlan) -> bytes:
    """Return a plan as bytes; functions of scripts need cloudpickle.

    Raises:
        TiburonError: If it cannot be sent to other processes.
    """
    try:
        import cloudpickle

        content: bytes = cloudpickle.dumps(plan)
        return content
    except ImportError:
        pass
    except Exception as error:
        raise TiburonError(
            f"sweep: setup, reduce or an option cannot be sent to other processes "
            f"({type(error).__name__}: {error}); define it without open files, locks and the like"
        ) from error
    try:
        return _by_name(plan)
    except Exception as error:
        raise TiburonError(
            f"sweep: a function of a script cannot be sent to other processes without cloudpickle "
            f"({error}); install it with pip install 'tiburon[sweep]', move the function to a "
            "module, or pass workers=0 to compute in this process"
        ) from error


def _by_name(plan: SweepPlan) -> bytes:
    """Return a plan as bytes in which functions are named; those of scripts are refused."""

    class ByName(pickle.Pickler):
        def reducer_override(self, given: Any) -> Any:
            if getattr(given, "__module__", None) == "__main__" and callable(given):
                name = getattr(given, "__qualname__", given)
                raise pickle.PicklingError(f"{name} is defined in the script itself")
            return NotImplemented

    buffer = io.BytesIO()
    ByName(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(plan)
    return buffer.getvalue()


def perform_pickled(task: Task, content: bytes) -> Any:
    """Perform a task under a plan that was sent as bytes; workers read it once."""
    if _plan[0] != content:
        _plan[:] = [content, pickle.loads(content)]
    return perform(task, _plan[1])


_plan: list[Any] = [b"", None]
"""The last plan as bytes, and what it is."""


class InlineWorkers:
    """This process computes; a case that kills it ends the sweep, which can be resumed."""

    title = "this process"

    def __init__(self, plan: SweepPlan) -> None:
        self._plan = plan

    def capacity(self) -> int:
        """Return one: tasks are done when they are handed over."""
        return 1

    def submit(self, task: Task, done: Done) -> None:
        """Perform a task."""
        try:
            answer: Any = perform(task, self._plan)
        except Exception as error:
            answer = error
        done(task, answer)

    def refuse(self, worker: str) -> None:
        """Raise: there is no other worker."""
        raise TiburonError("sweep: this process differs from the one that began the sweep")

    def close(self) -> None:
        """Do nothing."""


# -- processes of this machine ---------------------------------------------------------------------


class _Process:
    """A worker process, and the tasks it was given."""

    def __init__(self, content: bytes, lost: Callable[["_Process"], None]) -> None:
        self.tasks: list[tuple[Task, Done]] = []
        self.is_ready = False
        self._lost = lost
        self._lock = threading.Lock()
        # a group of its own: Ctrl-C reaches the driver, which lets blocks finish
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tiburon.parallel.local_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **own_group(),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        )
        self._send((content,))
        threading.Thread(target=self._listen, daemon=True, name="sweep worker").start()

    def give(self, task: Task, done: Done) -> None:
        """Hand over a task."""
        with self._lock:
            self.tasks.append((task, done))
        self._send(task)

    def _send(self, message: Any) -> None:
        # a worker that has ended is noticed where its answers are read
        with contextlib.suppress(OSError, ValueError):
            assert self.process.stdin is not None
            write_message(self.process.stdin, message)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while True:
            try:
                answer = read_message(self.process.stdout)
            except (EOFError, OSError, pickle.UnpicklingError):
                break
            if answer == "ready":
                self.is_ready = True
                continue
            with self._lock:
                task, done = self.tasks.pop(0)
            done(task, answer)
        self.process.stdout.close()
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.process.wait()
        self._lost(self)

    def end(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError, ValueError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()


class LocalWorkers:
    """Processes of this machine; one that ends is replaced."""

    def __init__(self, plan: SweepPlan, count: int) -> None:
        """Start processes.

        Args:
            plan: What they compute.
            count: Their number.
        """
        self._content = pickled(plan)
        self._count = count
        self._closing = False
        self._failed_starts = 0
        self._lock = threading.RLock()
        self._processes: list[_Process] = []
        # a process may end before the next one is started: it must be found in the list
        try:
            with self._lock:
                for _ in range(count):
                    self._processes.append(_Process(self._content, self._on_lost))
        except BaseException:
            self.close()
            raise

    @property
    def title(self) -> str:
        """Number of processes."""
        return f"{self._count} workers on this machine"

    def capacity(self) -> int:
        """Return two tasks for each process."""
        return TASKS_PER_WORKER * self._count

    def submit(self, task: Task, done: Done) -> None:
        """Hand a task to the process with the fewest."""
        with self._lock:
            if not self._processes:
                done(task, _no_start())
                return
            least = min(self._processes, key=lambda one: len(one.tasks))
            least.give(task, done)

    def _on_lost(self, process: _Process) -> None:
        """Replace a process that ended, and report its tasks as lost."""
        with self._lock:
            if self._closing:
                return
            self._processes.remove(process)
            self._failed_starts = 0 if process.is_ready else self._failed_starts + 1
            if self._failed_starts < MAX_FAILED_STARTS:
                self._processes.append(_Process(self._content, self._on_lost))
        code = process.process.returncode
        problem: TiburonError = WorkerLostError(
            f"worker {process.process.pid} ended with code {code}"
        )
        if not process.is_ready and self._failed_starts >= MAX_FAILED_STARTS:
            problem = _no_start()
        for task, done in process.tasks:
            done(task, problem)

    def refuse(self, worker: str) -> None:
        """Raise: workers of this machine are all alike."""
        raise TiburonError(f"sweep: worker {worker} of this machine differs from the driver")

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closing = True
            processes, self._processes = self._processes, []
        for process in processes:
            process.end()


def _no_start() -> TiburonError:
    return TiburonError(
        "sweep: workers end before they are ready; read what they printed above, or pass workers=0 "
        "to compute in this process"
    )


LENGTH = struct.Struct("<q")


def write_message(stream: Any, message: Any) -> None:
    """Write a message to a pipe."""
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(LENGTH.pack(len(content)) + content)
    stream.flush()


def read_message(stream: Any) -> Any:
    """Read a message from a pipe.

    Raises:
        EOFError: If the other side ended.
    """
    head = _read(stream, LENGTH.size)
    return pickle.loads(_read(stream, LENGTH.unpack(head)[0]))


def _read(stream: Any, count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def local_count(workers: int | None) -> tuple[int, int]:
    """Return the number of processes, by default one per core up to 8, and the threads of each."""
    cores = default_threads()
    count = min(cores, 8) if workers is None else workers
    return count, max(1, cores // max(1, count))


# -- executors -------------------------------------------------------------------------------------


class ExecutorWorkers:
    """Any executor of `concurrent.futures`, or a function that makes one."""

    def __init__(self, plan: SweepPlan, given: Executor | Callable[[], Executor]) -> None:
        """Use an executor.

        Args:
            plan: What is computed.
            given: The executor; or a function that makes one, which is called again when it broke.
        """
        self._content = pickled(plan)
        self._make = None if isinstance(given, Executor) else given
        self._executor: Executor = given if isinstance(given, Executor) else _made(given)
        self._lock = threading.Lock()

    @property
    def title(self) -> str:
        """Type of the executor."""
        return f"{type(self._executor).__name__} with {self._workers()} workers"

    def _workers(self) -> int:
        for name in ("_max_workers", "max_workers", "num_workers"):
            found = getattr(self._executor, name, None)
            if isinstance(found, int) and found > 0:
                return found
        return default_threads()

    def capacity(self) -> int:
        """Return two tasks for each worker."""
        return TASKS_PER_WORKER * self._workers()

    def submit(self, task: Task, done: Done) -> None:
        """Hand over a task."""

        def ended(future: Any) -> None:
            try:
                answer: Any = future.result()
            except BrokenExecutor as error:
                answer = WorkerLostError(f"the executor broke ({error})")
            except BaseException as error:
                answer = error
            done(task, answer)

        try:
            future = self._executor.submit(perform_pickled, task, self._content)
        except (BrokenExecutor, RuntimeError) as error:
            with self._lock:
                if self._make is None:
                    done(task, _broken(error))
                    return
                self._executor = _made(self._make)
            future = self._executor.submit(perform_pickled, task, self._content)
        future.add_done_callback(ended)

    def refuse(self, worker: str) -> None:
        """Raise: an executor does not select workers."""
        raise TiburonError(
            f"sweep: worker {worker} of the executor differs from the driver, and an executor "
            "cannot exclude it; install the same versions there"
        )

    def close(self) -> None:
        """Close an executor that was made here."""
        if self._make is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


def _made(make: Callable[[], Executor]) -> Executor:
    """Return the executor that a function of the user made."""
    executor: object = make()
    if not isinstance(executor, Executor):
        raise ModelError(
            f"client: the function must make an executor of concurrent.futures, it returned "
            f"{shown(executor)}"
        )
    return executor


def _broken(error: BaseException) -> TiburonError:
    return TiburonError(
        f"sweep: the executor broke ({error}) because a worker ended; resume the sweep with "
        "another one, or pass a function that makes executors: "
        "client=lambda: ProcessPoolExecutor(4)"
    )


AnswerQueue = queue.SimpleQueue[tuple[Task, Any]]
"""Tasks that ended, with their answers."""
