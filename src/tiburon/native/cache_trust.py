"""Ownership and permissions of the disk cache: only files of the user alone are read.

Entries are machine code that will run with the user's rights. They are read only from a directory
that belongs to the user and that nobody else may write to, and only if they themselves are regular
files of the user that nobody else may write to: no links, pipes or devices. Directory and file are
checked after they were opened, so that they cannot be exchanged in between.

Where a system has no user ids (Windows), the cache is in the user's own profile, which access lists
protect; there only files that are not regular are refused.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["UntrustedError", "make_directory", "open_to_read", "open_to_write", "trusted_directory"]

WRITABLE_BY_OTHERS = 0o022

_HAS_USERS = hasattr(os, "geteuid") and os.open in os.supports_dir_fd

_READ = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOCTTY"):
    _READ |= getattr(os, _flag, 0)


class UntrustedError(Exception):
    """Somebody else may have written what is in the cache."""


@contextlib.contextmanager
def trusted_directory(directory: Path) -> Iterator[int | None]:
    """Open a directory that only the user may write to.

    Args:
        directory: Of the cache.

    Yields:
        A descriptor of it, or None on systems where it is named by its path.

    Raises:
        UntrustedError: If it belongs to somebody else, others may write to it, or it is a link.
        OSError: If it cannot be opened.
    """
    if not _HAS_USERS:
        yield None
        return
    if stat.S_ISLNK(os.lstat(directory).st_mode):
        raise UntrustedError(f"directory '{directory}' is a link; name the directory it leads to")
    place = os.open(directory, _READ | os.O_DIRECTORY)
    try:
        _check_owner(os.fstat(place), f"directory '{directory}'", str(directory))
        yield place
    finally:
        os.close(place)


def open_to_read(path: Path, place: int | None = None) -> int:
    """Open a file that only the user may have written; never wait for a pipe.

    Args:
        path: The file.
        place: Descriptor of its directory, from `trusted_directory`; None to go by the path.

    Returns:
        A descriptor, to be closed by the caller.

    Raises:
        UntrustedError: If it is no regular file, belongs to somebody else, or others may write to
            it.
        OSError: If it cannot be opened.
    """
    # a link cannot be opened without following it
    seen = os.stat(path if place is None else path.name, dir_fd=place, follow_symlinks=False)
    _check_kind(seen, path)
    file = os.open(path if place is None else path.name, _READ, dir_fd=place)
    try:
        status = os.fstat(file)
        _check_kind(status, path)
        if _HAS_USERS:
            _check_owner(status, f"file '{path}'", str(path))
    except BaseException:
        os.close(file)
        raise
    return file


def open_to_write(path: Path) -> int:
    """Create a file that only the user may read and write; it must not exist.

    Returns:
        A descriptor, to be closed by the caller.
    """
    extra = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | extra, 0o600)


def make_directory(directory: Path) -> None:
    """Make a directory, and all above it that are missing, for the user only."""
    for path in (*reversed(directory.parents), directory):
        with contextlib.suppress(FileExistsError, IsADirectoryError):
            if not path.is_dir():
                path.mkdir(mode=0o700)


def _check_kind(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
        raise UntrustedError(f"file '{path}' is {kind}; remove it")


def _check_owner(status: os.stat_result, what: str, path: str) -> None:
    user = os.geteuid()
    if status.st_uid != user:
        raise UntrustedError(f"{what} belongs to user {status.st_uid}, not to user {user}")
    mode = stat.S_IMODE(status.st_mode)
    if mode & WRITABLE_BY_OTHERS:
        raise UntrustedError(
            f"{what} may be written to by others (mode {mode:04o}); run 'chmod go-w {path}'"
        )
