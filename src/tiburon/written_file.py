"""Writing files whole or not at all: a full disk or a crash leaves the file that was there."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tiburon.operating_system import change_owner, open_flags
from tiburon.regular_file import FileProblem


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
    # a name may have 255 bytes, and a character four of them
    spare = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | open_flags("O_BINARY")
    # permissions follow the umask of the process, as those of any new file
    handle = os.open(spare, flags, 0o666)
    try:
        with open(handle, "wb") as stream:
            if old is not None:
                _keep_rights(spare, old)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(spare, target)
    except BaseException:
        with suppress(OSError):
            spare.unlink()
        raise
    sync_directory(target.parent)


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
