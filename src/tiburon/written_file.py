"""Writing files whole or not at all: a full disk or a crash leaves the file that was there.

What is being written has a hidden name beside its target. The process that writes it holds a lock,
which ends with the process: what a killed one leaves is removed by the next that writes into the
same directory.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tiburon.operating_system import (
    change_owner,
    exchange_paths,
    lock_file,
    open_flags,
    refuses_open_targets,
)
from tiburon.regular_file import FileProblem

EARLIER = "earlier"
"""Name inside a temporary directory of what was at the target before."""

ABANDONED_SECONDS = 86_400.0
"""Age after which files count as left behind where locks do not show it: those of other hosts, and
on file systems without locks [s]."""

LISTING_SHARE = 20.0
"""A directory is listed again after this many times the time that listing it took."""

_PARTIAL = re.compile(r"\..{1,40}\.([0-9a-f]{8})-[0-9a-f]{16}\.partial", re.DOTALL)
"""Names of files that are being written, and of locks of directories; with a digest of the host."""

_PLAIN = open_flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")

_next_listing: dict[Path, float] = {}
"""Time of `time.monotonic` before which a directory is not listed again [s]."""


def write_file(path: Path, content: str | bytes, error: FileProblem) -> None:
    """Write a file, replacing one that exists only once the new one is safe on disk.

    Args:
        path: The file; a symbolic link is followed.
        content: Text, written as UTF-8, or bytes.
        error: Makes the error that is raised, such as `RunFileError`.

    Raises:
        TiburonError: As `error` makes it, if the file cannot be written.
    """
    try:
        data = content.encode("utf-8") if isinstance(content, str) else content
    except UnicodeEncodeError as problem:
        character = problem.object[problem.start : problem.start + 1]
        raise error(
            path,
            f"the text holds the character {character!a}, which UTF-8 cannot express; rename what "
            "holds it",
        ) from problem
    with replacing(path, error) as stream:
        stream.write(data)


@contextmanager
def replacing(path: Path, error: FileProblem) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of another when the block ends.

    The bytes go to a temporary file in the same directory, which is flushed to the disk and then
    renamed. If the block raises, or the disk is full, the temporary file is removed and what was
    there stays as it was. Permissions stay, owner and group where the system allows it. A file that
    is write-protected is refused; devices and pipes, such as ``/dev/stdout``, are written directly.

    Args:
        path: The file; a symbolic link is followed.
        error: Makes the error that is raised, such as `RunFileError`.

    Raises:
        TiburonError: As `error` makes it, if the file cannot be written.
    """
    if "\0" in str(path):
        raise error(path, "a path cannot hold a zero byte; correct it")
    try:
        old = _status(path)
        if old is None or stat.S_ISREG(old.st_mode):
            if old is not None and not _is_writable(path):
                # renaming needs write access to the directory only
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            with _temporary(Path(os.path.realpath(path)), old) as stream:
                yield stream
        else:
            with open(path, "wb") as stream:
                yield stream
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        kept = "; the file that is there is unchanged" if os.path.isfile(path) else ""
        raise error(
            path,
            f"cannot be written ({reason}){kept}; check the path, free some space or choose "
            "another place",
        ) from problem


@contextmanager
def _temporary(target: Path, old: os.stat_result | None) -> Iterator[BinaryIO]:
    """Open a temporary file that is renamed to the target when the block ends without error."""
    remove_leftovers(target.parent)
    spare, handle = _locked_file(target)
    with ExitStack() as lock:
        # another descriptor, which holds the lock until the file has its name
        lock.callback(os.close, os.dup(handle))
        try:
            with open(handle, "wb") as stream:
                if old is not None:
                    _keep_rights(spare, old)
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if refuses_open_targets():
                lock.close()
            os.replace(spare, target)
        except BaseException:
            with suppress(OSError):
                spare.unlink()
            raise
    sync_directory(target.parent)


@contextmanager
def temporary_directory(target: Path) -> Iterator[Path]:
    """Make a temporary directory beside a target, and remove it when the block ends.

    Call `remove_leftovers` before it is looked whether the target exists.

    Args:
        target: Where content of the directory will be moved to; links are not followed.

    Raises:
        OSError: If it cannot be made.
    """
    path, handle = _locked_file(target)
    try:
        os.write(handle, os.fsencode(target.name))
        spare = path.with_suffix("")
        spare.mkdir(mode=0o700)
        try:
            yield spare
        finally:
            # before its lock, so that what a kill leaves of it is found
            shutil.rmtree(spare, ignore_errors=True)
    finally:
        _remove_locked(path, handle)


def move_into_place(made: Path, target: Path) -> None:
    """Move a file or directory out of a temporary directory, in exchange for an earlier one.

    Where the system cannot exchange two directories at once, the target is missing for a moment; if
    the process is killed then, `remove_leftovers` restores the earlier one.

    Args:
        made: File or directory in a `temporary_directory`.
        target: Its path; what is there goes to the temporary directory, and is removed with it.

    Raises:
        OSError: If it cannot be moved; the target is unchanged.
    """
    if not target.exists() or (made.is_file() and not target.is_dir()):
        os.replace(made, target)
    elif not exchange_paths(made, target):
        earlier = made.with_name(EARLIER)
        os.replace(target, earlier)
        try:
            os.replace(made, target)
        except OSError:
            os.replace(earlier, target)
            raise
    sync_directory(target.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes were writing into a directory by the functions of this module.

    What a running process writes is locked, and stays. Locks of other hosts may not be visible:
    their files are removed a day after the last change. Failures are ignored; the next process that
    writes into the directory tries again.

    Args:
        folder: The directory; a large one is listed rarely.
    """
    begin = time.monotonic()
    if begin < _next_listing.get(folder, begin):
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if _PARTIAL.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_leftover(folder / name)
    if len(_next_listing) > 1000:
        _next_listing.clear()
    end = time.monotonic()
    _next_listing[folder] = end + LISTING_SHARE * (end - begin)


def _remove_leftover(path: Path) -> None:
    """Remove a temporary file, or a lock and its directory, unless a process writes it."""
    handle = os.open(path, os.O_RDWR | _PLAIN)
    try:
        if not _is_abandoned(path, handle):
            os.close(handle)
            return
        spare = path.with_suffix("")
        _restore_earlier(spare, os.fsdecode(os.read(handle, 1000)))
        shutil.rmtree(spare, ignore_errors=True)
    except BaseException:
        os.close(handle)
        raise
    _remove_locked(path, handle)


def _is_abandoned(path: Path, handle: int) -> bool:
    """Lock a temporary file; return whether the process that wrote it no longer runs."""
    host = _PARTIAL.fullmatch(path.name)
    try:
        lock_file(handle, shared=False)
        is_of_this_host = host is not None and host[1] == _host()
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        is_of_this_host = False
    return is_of_this_host or time.time() - _last_change(path) > ABANDONED_SECONDS


def _last_change(path: Path) -> float:
    """Return when a temporary file, or its directory, last changed [s since 1970]."""
    times = [os.lstat(path).st_mtime]
    for folder, _, files in os.walk(path.with_suffix("")):
        times += [os.lstat(os.path.join(folder, name)).st_mtime for name in ("", *files)]
    return max(times)


def _restore_earlier(spare: Path, name: str) -> None:
    """Move an earlier target back if the process was killed before it was replaced."""
    earlier = spare / EARLIER
    if spare.is_symlink() or not earlier.exists() or name != os.path.basename(name):
        return
    with suppress(OSError, ValueError):
        if not os.path.lexists(spare.with_name(name)):
            os.rename(earlier, spare.with_name(name))


def _locked_file(target: Path) -> tuple[Path, int]:
    """Create a temporary file beside a target; return its path, and a descriptor that locks it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN
    while True:
        # a name may have 255 bytes, and a character four of them
        token = f"{_host()}-{secrets.token_hex(8)}"
        spare = target.with_name(f".{target.name[:40]}.{token}.partial")
        # permissions follow the umask of the process, as those of any new file
        handle = os.open(spare, flags, 0o666)
        if _is_claimed(handle):
            return spare, handle
        _remove_locked(spare, handle)


def _is_claimed(handle: int) -> bool:
    """Lock a new file; return False if another process takes it for a leftover."""
    try:
        lock_file(handle, shared=False)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        # a file system without locks
        return True
    return os.fstat(handle).st_nlink > 0


def _remove_locked(path: Path, handle: int) -> None:
    """Remove a file and close its descriptor, which Windows requires first."""
    if refuses_open_targets():
        os.close(handle)
    with suppress(OSError):
        path.unlink()
    if not refuses_open_targets():
        os.close(handle)


def _host() -> str:
    """Return a short digest of the name of this host."""
    import socket

    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


def sync_directory(folder: Path) -> None:
    """Flush the names in a directory to the disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_writable(path: Path) -> bool:
    """Return whether this process may write to a file."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _keep_rights(spare: Path, old: os.stat_result) -> None:
    """Give a file the owner, group and permissions of another, as far as the system allows it."""
    # only root gives files away; groups of one's own can be given
    for owner in (-1, old.st_uid):
        change_owner(spare, owner, old.st_gid)
    with suppress(OSError):
        # last: a change of owner takes some permissions away
        os.chmod(spare, stat.S_IMODE(old.st_mode))


def _status(path: Path) -> os.stat_result | None:
    """Return what is known of a file; None where there is none."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
