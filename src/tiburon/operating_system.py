"""What differs between operating systems: files, processes, threads, the C library.

Every other module asks here, which a test checks, so that a system that lacks something is known in
one place. Nothing here is needed for results: where a call does not exist, the function says so by
what it returns, and callers go on without it.
"""

import contextlib
import mmap
import os
import struct
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

# -- files -----------------------------------------------------------------------------------------


def open_flags(*names: str) -> int:
    """Return the flags of `os.open` that this system has, combined; others count as zero.

    Args:
        *names: Such as "O_NOFOLLOW", which Windows lacks, or "O_BINARY", which only it has.
    """
    found = 0
    for name in names:
        found |= getattr(os, name, 0)
    return found


def has_users() -> bool:
    """Return whether files have owners, and can be opened relative to an open directory."""
    return hasattr(os, "geteuid") and os.open in os.supports_dir_fd


def user() -> int | None:
    """Return the number of the user whose rights this process has; None where there is none."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def change_owner(path: Path, owner: int, group: int) -> None:
    """Give a file an owner and a group, -1 to keep them, as far as the system allows it."""
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(path, owner, group)


def refuses_open_targets() -> bool:
    """Return whether files that are open cannot be replaced, as on Windows."""
    return os.name == "nt"


EXCHANGE = 2
"""Flag that exchanges two paths: RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS."""


def exchange_paths(first: Path, second: Path) -> bool:
    """Exchange two files or directories at once; return whether the system did."""
    names = os.fsencode(first), os.fsencode(second)
    if is_linux():
        # relative to the working directory (AT_FDCWD)
        return _call("renameat2", -100, names[0], -100, names[1], EXCHANGE) == 0
    return sys.platform == "darwin" and _call("renamex_np", *names, EXCHANGE) == 0


LOCKED_BYTE = 2**30
"""Place of the byte that is locked where locks belong to bytes: beyond any text, which stays
readable."""


def lock_file(file: int, shared: bool) -> None:
    """Lock an open file until it is closed, without waiting.

    Args:
        file: Its descriptor.
        shared: Whether others may share the lock; where the system has no shared locks, it is
            exclusive.

    Raises:
        BlockingIOError: If another process, or another descriptor of this one, has a lock.
        PermissionError: The same on Windows.
        OSError: If the file system, or the system, has no locks.
    """
    try:
        import fcntl
    except ImportError:
        _lock_byte(file)
        return
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def _lock_byte(file: int) -> None:
    try:
        import msvcrt
    except ImportError:
        raise OSError("this system has no locks of files") from None
    windows: Any = msvcrt
    before = os.lseek(file, 0, os.SEEK_CUR)
    try:
        os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
        windows.locking(file, windows.LK_NBLCK, 1)
    finally:
        os.lseek(file, before, os.SEEK_SET)


def user_cache_directory() -> Path:
    """Return where this system wants programs to keep what they can make again.

    Raises:
        RuntimeError: If there is no home directory.
    """
    # through a variable: type checkers would skip what other systems do
    system = sys.platform
    if system == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if system == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG base directory specification says to ignore a relative path
    return Path(chosen) if os.path.isabs(chosen) else Path.home() / ".cache"


# -- processes -------------------------------------------------------------------------------------


def at_fork(
    *,
    before: Callable[[], None] | None = None,
    in_parent: Callable[[], None] | None = None,
    in_child: Callable[[], None] | None = None,
) -> None:
    """Call functions when this process forks; nothing where processes do not fork."""
    if hasattr(os, "register_at_fork"):
        given = {"before": before, "after_in_parent": in_parent, "after_in_child": in_child}
        os.register_at_fork(**{name: call for name, call in given.items() if call is not None})


def process_exists(process: int) -> bool:
    """Return whether a process of this machine exists, or may exist where it cannot be known."""
    if os.name == "nt":
        # signal 0 is Ctrl-C there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def own_group() -> dict[str, Any]:
    """Return the keywords of `subprocess.Popen` that keep Ctrl-C of the terminal from a child."""
    if os.name == "nt":
        import subprocess

        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200)}
    return {"start_new_session": True}


def processor_time_is_limited() -> bool:
    """Return whether `limit_process` limits processor time here."""
    import importlib.util

    return importlib.util.find_spec("resource") is not None


def limit_process(seconds: int, memory: int) -> None:
    """Let the system end this process after some processor time, where it can.

    Args:
        seconds: Processor time from its start [s].
        memory: Most memory that it may reserve [bytes].
    """
    try:
        import resource
    except ImportError:
        return
    # the first limit ends the process; the second is for those that handle the signal
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, max(1, seconds), max(1, seconds) + 1),
        (resource.RLIMIT_AS, memory, memory),
    ):
        known = resource.getrlimit(kind)[1]
        most = hard if known == resource.RLIM_INFINITY else min(hard, known)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (min(soft, most), most))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def was_out_of_time(code: int) -> bool:
    """Return whether the exit code of a process says that its processor time was used up."""
    import signal

    end = getattr(signal, "SIGXCPU", None)
    return end is not None and code == -end


# -- the machine -----------------------------------------------------------------------------------


def system_and_processor() -> tuple[str, str]:
    """Return the names of the system and of the kind of processor, such as Linux and x86_64."""
    import platform

    return platform.system(), platform.machine()


def is_linux(processor: str | None = None) -> bool:
    """Return whether this is Linux, on one kind of processor if that is given."""
    return sys.platform == "linux" and processor in (None, os.uname().machine)


def processor_description() -> str | None:
    """Return the system's own description of this processor; None if it has none."""
    if not is_linux():
        return None
    try:
        # vendor, family, model and a number for every feature
        with open("/sys/devices/system/cpu/modalias") as file:
            return "\n".join([*os.uname()[2:], file.read()])
    except OSError:
        return None


def processors() -> frozenset[int]:
    """Return the processors that this process may use; empty where unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


def processor_count() -> int:
    """Return how many processors this process may use, or the machine has where that is unknown."""
    # Python 3.13 and later: respects the -X cpu_count option
    count_usable = getattr(os, "process_cpu_count", None)
    if count_usable is not None:
        return count_usable() or 1
    return len(processors()) or os.cpu_count() or 1


def cpu_count() -> int:
    """Return how many processors the machine has, whether this process may use them or not."""
    return os.cpu_count() or 1


# -- threads ---------------------------------------------------------------------------------------


def set_affinity(allowed: Iterable[int], *, all_threads: bool = False) -> None:
    """Restrict the calling thread to some processors, or all threads of this process.

    New threads inherit it. Nothing happens where the system cannot.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    chosen, threads = set(allowed), ["0"]
    if all_threads:
        with contextlib.suppress(OSError):
            threads = os.listdir("/proc/self/task")
    for thread in threads:
        # it may have ended meanwhile
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), chosen)


def request_priority(priority: int) -> bool:
    """Request real-time priority for the calling thread; return whether it was granted."""
    try:
        # of the calling thread alone
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
    except (OSError, AttributeError):
        return False
    return True


IDLE_LATENCY_FILE = "/dev/cpu_dma_latency"
"""Linux file that limits the wake-up latency of processors while it is open."""

TIMER_SLACK = 29
"""Number of the Linux prctl that sets the timer slack of a thread (PR_SET_TIMERSLACK)."""

LOCK_CURRENT, LOCK_ON_FAULT = 1, 4
"""Flags of mlockall (MCL_CURRENT, MCL_ONFAULT)."""


def keep_processors_awake() -> int | None:
    """Keep processors from idle states with a long wake-up latency.

    Returns:
        A descriptor to close when they may sleep again; None if that is not granted.
    """
    try:
        file = os.open(IDLE_LATENCY_FILE, os.O_WRONLY | open_flags("O_CLOEXEC"))
    except OSError:
        return None
    try:
        os.write(file, struct.pack("i", 0))
    except OSError:
        os.close(file)
        return None
    return file


def shorten_timer_slack() -> None:
    """Let sleeps of the calling thread end on time: by default up to 50 us late on Linux."""
    import ctypes

    if is_linux():
        _call("prctl", TIMER_SLACK, ctypes.c_ulong(1), 0, 0, 0)


def lock_memory() -> bool:
    """Keep the memory of this process from being swapped out; return whether it was granted."""
    return is_linux() and _call("mlockall", LOCK_CURRENT | LOCK_ON_FAULT) == 0


def unlock_memory() -> None:
    """Let the memory of this process be swapped out again."""
    _call("munlockall")


def thread_times(thread: int) -> tuple[float, float] | None:
    """Return the time a thread ran, and waited for a processor [s]; None where unknown.

    Args:
        thread: The identifier that the operating system has for it.
    """
    try:
        with open(f"/proc/self/task/{thread}/schedstat") as file:
            running, waiting = file.readline().split()[:2]
    except (OSError, ValueError):
        return None
    return 1e-9 * float(running), 1e-9 * float(waiting)


STEAL_FIELD = 8
"""Index of the steal time in a line of /proc/stat, after the name of the processor
[proc_stat(5)]."""


def steal_times() -> dict[str, float]:
    """Return the steal time by processor, "cpu" for their sum [s]; empty where unknown."""
    found = {}
    try:
        with open("/proc/stat") as file:
            for line in file:
                fields = line.split()
                if not fields or not fields[0].startswith("cpu"):
                    break
                if len(fields) > STEAL_FIELD:
                    found[fields[0]] = float(fields[STEAL_FIELD]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        pass
    return found


# -- the C library ---------------------------------------------------------------------------------


def c_library(*functions: str) -> Any:
    """Return the C library of this process as `ctypes` opens it; None where it cannot be asked.

    Args:
        *functions: Names it must have.
    """
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):
        # Windows has no library of the whole process
        return None
    return library if all(hasattr(library, name) for name in functions) else None


def _call(name: str, *arguments: Any) -> int:
    """Call a function of the C library; -1 where it is missing or fails."""
    library = c_library(name)
    return -1 if library is None else int(getattr(library, name)(*arguments))


# -- pages of memory -------------------------------------------------------------------------------

PAGE_SIZE = mmap.PAGESIZE
"""Size of a page of memory [bytes]."""

PageGroup: TypeAlias = tuple[int, int, str]
"""Start and end of pages, and what may be done with them: "r" (read), "w" (write), "x" (run)."""


def map_pages(source: int, size: int, groups: Iterable[PageGroup]) -> int | None:
    """Copy bytes into fresh pages with given protections.

    Args:
        source: Address of the bytes.
        size: How many there are, whole pages.
        groups: Pages by protection.

    Returns:
        Address of the pages, for `unmap_pages`; None if the system does not grant them.
    """
    import ctypes

    library = _pages_library()
    if library is None:
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = library.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    ctypes.memmove(address, source, size)
    rights = {"r": mmap.PROT_READ, "w": mmap.PROT_WRITE, "x": mmap.PROT_EXEC}
    for start, end, allowed in groups:
        protection = sum(rights[letter] for letter in allowed)
        if end > start and library.mprotect(address + start, end - start, protection):
            library.munmap(address, size)
            return None
    return int(address)


def unmap_pages(address: int, size: int) -> None:
    """Free pages of `map_pages`."""
    library = _pages_library()
    if library is not None:
        library.munmap(address, size)


def _pages_library() -> Any:
    """Return the C library with the types of what is called; None where it lacks them."""
    import ctypes

    library = c_library("mmap", "mprotect", "munmap")
    if library is not None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        library.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
        library.mmap.restype = pointer
        library.mprotect.argtypes = [pointer, size, number]
        library.munmap.argtypes = [pointer, size]
    return library
