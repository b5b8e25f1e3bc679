"""A worker process of this machine: tasks come through its standard input, answers go back.

Run by `LocalWorkers` as ``python -m tiburon.parallel.local_worker``. What user code prints goes to
the standard error. The process ends when its driver does, in the middle of a block if need be.
"""

import os
import pickle
import queue
import threading
from typing import Any

from tiburon.errors import CaseError
from tiburon.parallel.sweep_task import perform
from tiburon.parallel.workers import read_message, write_message


def main() -> None:
    """Perform tasks until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    # prints of user code must not reach the driver
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    given = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)

    def listen() -> None:
        while True:
            try:
                tasks.put(read_message(given))
            except (EOFError, OSError, pickle.UnpicklingError):
                # the driver has ended; nothing reads further results
                os._exit(0)

    (content,) = read_message(given)
    plan = pickle.loads(content)
    threading.Thread(target=listen, daemon=True).start()
    write_message(answers, "ready")
    while True:
        task = tasks.get()
        try:
            answer: Any = perform(task, plan)
        except Exception as error:
            answer = error if _travels(error) else RuntimeError(f"{type(error).__name__}: {error}")
        write_message(answers, answer)


def _travels(error: Exception) -> bool:
    """Return whether an error can be sent to the driver."""
    if isinstance(error, CaseError):
        return True
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


if __name__ == "__main__":
    main()
