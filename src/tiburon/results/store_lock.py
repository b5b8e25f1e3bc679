"""Locks of stores: one process at a time records into a store.

The lock is one of the operating system's, on a file inside the store: it ends with the process that
holds it, however that ends, so a killed run can be resumed at once. The file also names its owner.
Where a file system has no locks, the owner named in the file counts as long as it is alive.
"""

import contextlib
import json
import os
import socket
import stat
import time
import weakref
from pathlib import Path
from typing import Any

from tiburon.errors import RunFileError

__all__ = ["LOCK", "StoreLock", "writer_of"]

LOCK = "checkpoint/lock"
"""Name of the lock file: inside an array, where readers of groups do not look for arrays."""

PATIENCE = 1.0
"""How long to wait for readers, who hold the lock for an instant to see whether it is free [s]."""

OWNER_BYTES = 1000
"""Most that is read of the owner's name."""


class StoreLock:
    """The right to record into a store, until it is released or the process ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock of a store.

        Args:
            path: Directory of the store.

        Raises:
            RunFileError: If another process, or another run of this one, records into it.
        """
        self._file: int | None = None
        try:
            file = _opened(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise RunFileError(
                path,
                f"{LOCK} cannot be written ({os.strerror(error.errno or 0)}); check who may write "
                "into the directory",
            ) from error
        try:
            if not _take(file, PATIENCE):
                raise RunFileError(
                    path,
                    f"is being recorded by {_described(file)}; wait until it ends, or stop it, and "
                    "load the run again",
                )
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
            _write_owner(file, json.dumps(owner).encode())
        except BaseException:
            os.close(file)
            raise
        self._file = file
        _held.add(self)

    def release(self) -> None:
        """Let others record into the store."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                _write_owner(self._file, b"")
            os.close(self._file)
            self._file = None

    def forget(self) -> None:
        """Leave the lock to the process that this one was forked from, which holds it, too."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.release()


_held: "weakref.WeakSet[StoreLock]" = weakref.WeakSet()
"""Locks of this process."""


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()
    _held.clear()


if hasattr(os, "register_at_fork"):
    # a worker would keep the lock when the process that records is killed, and clear its name
    os.register_at_fork(after_in_child=_forget_all)


def writer_of(path: Path) -> str | None:
    """Return who records into a store now, in words; None if nobody does."""
    try:
        file = _opened(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return None if _take(file, 0.0, shared=True) else _described(file)
    finally:
        os.close(file)


def _opened(path: Path, flags: int) -> int:
    """Open the lock file of a store: a regular file of its own, no link to another."""
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    file = os.open(path / LOCK, flags, 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(22, "not a regular file")
    return file


def _take(file: int, patience: float, *, shared: bool = False) -> bool:
    """Return whether a lock was taken within some time [s]; closing the file releases it."""
    end = time.monotonic() + patience
    while True:
        try:
            _lock(file, shared)
            return True
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        except OSError:
            # a file system without locks
            return not _is_alive(_owner(file))


if os.name == "nt":  # pragma: no cover

    def _lock(file: int, shared: bool) -> None:
        """Lock a byte far behind the text, which others may go on reading."""
        import msvcrt

        lock: Any = msvcrt
        os.lseek(file, 2**30, os.SEEK_SET)
        lock.locking(file, lock.LK_NBLCK, 1)

else:

    def _lock(file: int, shared: bool) -> None:
        """Lock the file as a whole."""
        import fcntl

        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def _write_owner(file: int, content: bytes) -> None:
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, content)


def _owner(file: int) -> dict[str, Any]:
    """Return the owner in a lock file; an empty record where it is empty or damaged."""
    try:
        os.lseek(file, 0, os.SEEK_SET)
        found = json.loads(os.read(file, OWNER_BYTES))
        pid, host, since = int(found["pid"]), str(found["host"])[:80], float(found["since"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {}
    return {"pid": pid, "host": host, "since": since}


def _is_alive(owner: dict[str, Any]) -> bool:
    """Return whether the process named in a lock file may still run."""
    if not owner:
        return False
    if owner["host"] != socket.gethostname() or os.name == "nt":
        # nothing is known of other machines, and Windows has no harmless question to ask
        return True
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _described(file: int) -> str:
    """Return the owner of a lock in words."""
    owner = _owner(file)
    if not owner:
        return "another process"
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner["since"]))
    except (OSError, ValueError, OverflowError):
        since = "an unknown time"
    return f"process {owner['pid']} on {owner['host']} since {since}"
