"""One driver at a time for each block of a sweep: drivers name themselves, and show a heartbeat.

A driver is responsible for the blocks k, k + n, k + 2n, ... of a store, all of them by default
(k = 0, n = 1). Each has a file in the store with host, process and session. The operating system's
lock on that file ends with the process, so that on the same host a driver that was killed is
replaced at once; drivers on other hosts count as alive while their heartbeat is recent.
"""

import contextlib
import json
import math
import os
import secrets
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple

from tiburon.errors import RunFileError
from tiburon.operating_system import lock_file, open_flags, process_exists
from tiburon.parallel.sweep_store import DRIVERS

HEARTBEAT = 5.0
"""Time between two heartbeats [s]."""

HEARTBEAT_TIMEOUT = 60.0
"""Age of a heartbeat after which a driver on another host counts as dead [s]."""

OWNER_BYTES = 1000
"""Most that is read of a driver's file."""

Part = tuple[int, int]
"""A share of the blocks: those whose number is k modulo n."""


class Driver(NamedTuple):
    """A driver of a sweep."""

    part: Part
    host: str
    pid: int
    since: float
    """When it began [s since 1970]."""

    heartbeat: float
    """Age of its last heartbeat [s]."""

    is_alive: bool

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return (
            f"process {self.pid} on {self.host} since {since}, last heartbeat "
            f"{max(0.0, self.heartbeat):.0f} s ago"
        )


def drivers_of(path: Path) -> list[Driver]:
    """Return all drivers that have a file in a store, alive or not."""
    folder = path / DRIVERS
    found = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        part = _part_of(name)
        if part is not None:
            driver = _driver(folder / name, part)
            if driver is not None:
                found.append(driver)
    return found


class DriverLock:
    """The claim of a driver on its share of the blocks, until it is released."""

    def __init__(self, path: Path, part: Part = (0, 1)) -> None:
        """Claim a share of the blocks.

        Args:
            path: Path of the store.
            part: The share.

        Raises:
            RunFileError: If a driver that is alive has some of these blocks, or the store cannot be
                written.
        """
        self.session = secrets.token_hex(6)
        self._path, self._file = path / DRIVERS / f"{part[0]}-of-{part[1]}.json", -1
        self._beaten = 0.0
        try:
            (path / DRIVERS).mkdir(parents=True, exist_ok=True)
            with _guard(path / DRIVERS):
                for other in drivers_of(path):
                    if other.is_alive and _overlap(other.part, part):
                        raise RunFileError(
                            path,
                            f"is being computed by {other}; wait until it ends, or stop it, and "
                            "resume the sweep",
                        )
                flags = os.O_RDWR | os.O_CREAT | open_flags("O_NOFOLLOW", "O_BINARY")
                self._file = os.open(self._path, flags, 0o666)
                with contextlib.suppress(OSError):
                    lock_file(self._file, False)
                owner = {
                    "host": socket.gethostname(),
                    "pid": os.getpid(),
                    "since": time.time(),
                    "session": self.session,
                }
                os.ftruncate(self._file, 0)
                os.write(self._file, json.dumps(owner).encode())
        except OSError as error:
            self.release()
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise RunFileError(
                path,
                f"cannot be written ({reason}); make room, or check who may write into the "
                "directory, and resume the sweep",
            ) from error

    def beat(self) -> None:
        """Show that the driver is alive, every few seconds."""
        now = time.monotonic()
        if now - self._beaten >= HEARTBEAT:
            self._beaten = now
            with contextlib.suppress(OSError):
                os.utime(self._path)

    def release(self) -> None:
        """Release the blocks."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            with contextlib.suppress(OSError):
                self._path.unlink()


@contextlib.contextmanager
def _guard(folder: Path) -> Any:
    """Let one process at a time look for others, where the file system has locks."""
    file = os.open(folder / "guard", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        end = time.monotonic() + 10.0
        while time.monotonic() < end:
            try:
                lock_file(file, False)
                break
            except (BlockingIOError, PermissionError):
                time.sleep(0.01)
            except OSError:
                break
        # its time is that of the file system, which heartbeats are compared with
        os.utime(folder / "guard")
        yield
    finally:
        os.close(file)


def _overlap(one: Part, other: Part) -> bool:
    """Return whether two shares have blocks in common."""
    return (one[0] - other[0]) % math.gcd(one[1], other[1]) == 0


def _part_of(name: str) -> Part | None:
    first, _, second = name.removesuffix(".json").partition("-of-")
    if not (name.endswith(".json") and first.isdigit() and second.isdigit() and int(second)):
        return None
    return int(first), int(second)


def _driver(path: Path, part: Part) -> Driver | None:
    """Return the driver that a file names; None where the file is gone or damaged."""
    try:
        file = os.open(path, os.O_RDONLY | open_flags("O_NOFOLLOW", "O_BINARY"))
    except OSError:
        return None
    try:
        try:
            lock_file(file, True)
            free = True
        except (BlockingIOError, PermissionError):
            free = False
        except OSError:
            # a file system without locks
            free = None
        data = json.loads(os.read(file, OWNER_BYTES) or b"{}")
        host, pid = str(data["host"])[:80], int(data["pid"])
        since = float(data["since"])
        is_own = host == socket.gethostname()
        # clocks of other hosts differ from that of the file system
        now = time.time() if is_own else _file_system_time(path.parent)
        age = now - os.fstat(file).st_mtime
    except (OSError, ValueError, KeyError, TypeError):
        return None
    finally:
        os.close(file)
    alive = free is False
    if is_own:
        if free is None:
            alive = process_exists(pid)
    elif age < HEARTBEAT_TIMEOUT:
        # locks of other hosts are not seen on every file system
        alive = True
    return Driver(part, host, pid, since, age, alive)


def _file_system_time(folder: Path) -> float:
    """Return the present time as the file system has it, or as this host does."""
    try:
        os.utime(folder / "guard")
        return os.stat(folder / "guard").st_mtime
    except OSError:
        return time.time()
